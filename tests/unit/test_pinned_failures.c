/* test_pinned_failures.c - pinned pools when callers err, the device refuses, or memory runs out.
 *
 * After every failure the pool must be sound and serve as before. */
#include "vramwise/pinned.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/host_memory.h"

#include "support/host_memory_sweep.h"
#include "support/pinned_on_host.h"

static void addresses_that_are_no_live_block_are_refused(void **state)
{
    (void)state;
    char foreign[64];
    make_pool("");
    hold(true);
    char *block = allocate(4096), *waiting = allocate(4096), *cached = allocate(4096);
    use_on(waiting, OTHER);
    give(waiting);
    give(cached);
    assert_int_equal(vw_pinned_free(pool, block + 1), VW_ERR_UNKNOWN_ADDRESS);
    assert_int_equal(vw_pinned_free(pool, foreign), VW_ERR_UNKNOWN_ADDRESS);
    assert_int_equal(vw_pinned_free(pool, waiting), VW_ERR_UNKNOWN_ADDRESS);
    assert_int_equal(vw_pinned_free(pool, cached), VW_ERR_UNKNOWN_ADDRESS);
    assert_int_equal(vw_pinned_record_stream(pool, foreign, OTHER), VW_ERR_UNKNOWN_ADDRESS);
    assert_int_equal(vw_pinned_record_stream(pool, cached, OTHER), VW_ERR_UNKNOWN_ADDRESS);
    assert_int_equal(vw_pinned_record_stream(pool, waiting, OTHER), VW_ERR_UNKNOWN_ADDRESS);
    assert_int_equal(stats().active_requests.current, 2);
    give(block);
    assert_int_equal(vw_pinned_free(pool, block), VW_ERR_UNKNOWN_ADDRESS);
    check();
}

static void a_device_without_room_is_asked_once_and_its_answer_passed_on(void **state)
{
    (void)state;
    void *address = &address;
    make_pool("");
    give(allocate(MIB)); /* cached, and could be given back to make room */
    assert_int_equal(vw_device_fail_call(device, 1, VW_ERR_OUT_OF_MEMORY), VW_OK);
    assert_int_equal(vw_pinned_alloc(pool, 4096, &address), VW_ERR_OUT_OF_MEMORY);
    assert_ptr_equal(address, &address);
    assert_int_equal(calls(VW_DEVICE_CALL_HOST_TAKE), 2);
    assert_int_equal(calls(VW_DEVICE_CALL_HOST_GIVE_BACK), 0);
    check();
    allocate(4096);
    check();
}

static void without_an_event_a_block_waits_for_the_whole_device(void **state)
{
    (void)state;
    make_pool("");
    char *stuck = allocate(4096), *later = allocate(65536);
    use_on(stuck, OTHER);
    use_on(later, ANOTHER);
    fail_call(1);
    assert_int_equal(vw_pinned_free(pool, stuck), VW_ERR_DEVICE);
    assert_int_equal(vw_pinned_free(pool, stuck), VW_ERR_UNKNOWN_ADDRESS);
    check();
    give(later);
    assert_ptr_equal(allocate(65536), later); /* nobody waits behind it */
    assert_ptr_not_equal(allocate(4096), stuck);
    fail_call(1); /* the wait itself */
    assert_int_equal(vw_pinned_trim(pool), VW_ERR_DEVICE);
    check();
    assert_int_equal(stats().num_host_free, 0);
    assert_int_equal(vw_pinned_trim(pool), VW_OK);
    assert_int_equal(calls(VW_DEVICE_CALL_SYNCHRONIZE), 2);
    assert_int_equal(stats().num_host_free, 1);
    check();
}

static void catch_all_answers_ok_and_keeps_the_text(void **state)
{
    (void)state;
    make_pool("pinned_free_catch_all:True,pinned_max_cached_size_mb:1");
    char *used = allocate(4096), *large = allocate(2 * MIB);
    use_on(used, OTHER);
    fail_call(1);
    assert_int_equal(vw_pinned_free(pool, NULL), VW_OK);
    assert_int_equal(vw_pinned_free(pool, used), VW_OK);
    assert_non_null(strstr(vw_last_error(), "event_record"));
    fail_call(1);
    assert_int_equal(vw_pinned_free(pool, large), VW_OK);
    assert_non_null(strstr(vw_last_error(), "host_give_back"));
    assert_int_equal(vw_pinned_free(pool, large), VW_ERR_UNKNOWN_ADDRESS); /* not the device's */
    check();
}

static void what_the_device_will_not_take_back_stays_cached(void **state)
{
    (void)state;
    make_pool("pinned_max_cached_size_mb:1");
    char *large = allocate(3 * MIB);
    fail_call(1);
    assert_int_equal(vw_pinned_free(pool, large), VW_ERR_DEVICE);
    assert_int_equal(stats().num_host_free, 0);
    assert_int_equal(stats().active_requests.current, 0);
    check();
    assert_ptr_equal(allocate(3 * MIB), large);
    give(large);
    assert_int_equal(stats().num_host_free, 1);
    check();
}

static void a_trim_that_fails_leaves_the_rest_in_its_order(void **state)
{
    (void)state;
    make_pool("");
    char *blocks[4];
    for (int i = 0; i < 4; i++)
        blocks[i] = allocate(4096);
    for (int i = 0; i < 4; i++)
        give(blocks[i]);
    fail_call(2);
    assert_int_equal(vw_pinned_trim(pool), VW_ERR_DEVICE);
    assert_int_equal(stats().allocations.current, 3); /* the oldest is gone */
    check();
    for (int i = 3; i > 0; i--)
        assert_ptr_equal(allocate(4096), blocks[i]);
    check();
}

static void a_failing_look_at_an_event_fails_the_allocation_and_loses_nothing(void **state)
{
    (void)state;
    void *address = &address;
    make_pool("");
    char *block = allocate(4096);
    use_on(block, OTHER);
    give(block);
    fail_call(1);
    assert_int_equal(vw_pinned_alloc(pool, 4096, &address), VW_ERR_DEVICE);
    assert_ptr_equal(address, &address);
    check();
    assert_ptr_equal(allocate(4096), block);
    check();
}

static void a_failed_allocation_does_not_keep_its_private_pool(void **state)
{
    (void)state;
    const vw_private_id id = {1, 0};
    void *address = &address;
    make_pool("");
    assert_int_equal(vw_pinned_pool_begin(pool, id, NULL, NULL), VW_OK);
    fail_call(1); /* is the stream capturing? */
    assert_int_equal(vw_pinned_alloc(pool, 1, &address), VW_ERR_DEVICE);
    fail_call(2); /* the memory itself */
    assert_int_equal(vw_pinned_alloc(pool, 1, &address), VW_ERR_DEVICE);
    assert_ptr_equal(address, &address);
    assert_int_equal(vw_pinned_pool_end(pool, id), VW_OK);
    assert_int_equal(vw_pinned_pool_release(pool, id), VW_OK);
    assert_int_equal(vw_pinned_pool_retain(pool, id), VW_OK); /* a new one: the old one is gone */
    check();
}

static void what_cannot_work_is_refused_at_creation(void **state)
{
    (void)state;
    vw_pinned_options options = {.struct_size = sizeof options};
    assert_int_equal(vw_pinned_pool_create(NULL, NULL, &pool), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pinned_pool_create(device, NULL, NULL), VW_ERR_INVALID_ARGUMENT);
    options.struct_size = 0;
    assert_int_equal(vw_pinned_pool_create(device, &options, &pool), VW_ERR_INVALID_ARGUMENT);
    options.struct_size = sizeof options;
    options.torch_version = "two";
    assert_int_equal(vw_pinned_pool_create(device, &options, &pool), VW_ERR_INVALID_ARGUMENT);
    options.torch_version = NULL;
    options.conf = "pinned_num_register_threads:3";
    assert_int_equal(vw_pinned_pool_create(device, &options, &pool), VW_ERR_BAD_SETTING);
    vw_device without = *device;
    without.properties.has_pinned_memory = false;
    assert_int_equal(vw_pinned_pool_create(&without, NULL, &pool), VW_ERR_UNSUPPORTED);
    assert_null(pool);
    assert_int_equal(vw_pinned_alloc(NULL, 1, &(void *){NULL}), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pinned_pool_create(device, NULL, &pool), VW_OK);
    assert_int_equal(vw_pinned_alloc(pool, 1, NULL), VW_ERR_INVALID_ARGUMENT);
}

/* In the child: how many of the calls below do not answer VW_ERR_WRONG_PROCESS. */
static int wrong_answers_in_a_child(void *live)
{
    void *address = NULL;
    vw_pinned_stats now = {.struct_size = sizeof now};
    const vw_status answers[] = {
        vw_pinned_alloc(pool, 1, &address),
        vw_pinned_free(pool, live),
        vw_pinned_record_stream(pool, live, 1),
        vw_pinned_trim(pool),
        vw_pinned_pool_get_stats(pool, &now),
        vw_pinned_pool_check(pool),
        vw_pinned_pool_reset_peaks(pool),
        vw_pinned_pool_reset_accumulated(pool),
        vw_pinned_pool_end(pool, (vw_private_id){1, 0}),
        vw_pinned_pool_release(pool, (vw_private_id){1, 0}),
        vw_pinned_pool_retain(pool, (vw_private_id){1, 0}),
        vw_pinned_pool_begin(pool, (vw_private_id){1, 0}, NULL, NULL),
    };
    int wrong = 0;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        wrong += answers[i] != VW_ERR_WRONG_PROCESS;
    vw_pinned_pool_destroy(pool);
    return wrong;
}

static void in_a_forked_child_every_call_is_refused(void **state)
{
    (void)state;
    make_pool("pinned_use_background_threads:True");
    char *live = allocate(4096);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(wrong_answers_in_a_child(live));
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    give(live);
    check();
}

/* A bit of everything; whether all of it worked. Owns nothing afterwards. */
static bool run_scenario(vw_device *on, const char *conf)
{
    const vw_pinned_options options = {
        .struct_size = sizeof options, .conf = conf, .torch_version = "2.13"};
    const vw_private_id id = {3, 0};
    vw_pinned_pool *made = NULL;
    void *blocks[6] = {NULL};
    bool is_good = true;
    if (vw_pinned_pool_create(on, &options, &made) != VW_OK)
        return false;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 6; i++) {
            if (i == 4)
                is_good &= vw_pinned_pool_begin(made, id, NULL, NULL) == VW_OK;
            is_good &= vw_pinned_alloc(made, UINT64_C(3000) << (2 * i), &blocks[i]) == VW_OK;
            is_good &= vw_pinned_record_stream(made, blocks[i], i % 3) == VW_OK;
            check_soundness(made);
        }
        for (size_t i = 0; i < 6; i++) {
            is_good &= vw_pinned_free(made, blocks[i]) == VW_OK;
            blocks[i] = NULL;
            check_soundness(made);
        }
        is_good &= vw_pinned_pool_end(made, id) == VW_OK;
        is_good &= vw_pinned_pool_release(made, id) == VW_OK;
        is_good &= vw_pinned_trim(made) == VW_OK;
        check_soundness(made);
    }
    /* Memory that is not unlocked would be left behind. */
    assert_int_equal(vw_device_fail_call(on, 0, VW_OK), VW_OK);
    vw_pinned_pool_destroy(made);
    return is_good;
}

static const char *const scenario_confs[] = {
    "",
    "pinned_max_cached_size_mb:1,pinned_reserve_segment_size_mb:1",
    "pinned_use_cuda_host_register:True,pinned_num_register_threads:4",
};

static bool sweep_scenario(void *context)
{
    vw_device *on = NULL;
    if (vw_simulated_device_create(NULL, &on) != VW_OK)
        return false;
    bool is_good = run_scenario(on, context);
    vw_device_destroy(on);
    return is_good;
}

static void every_host_allocation_may_fail(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scenario_confs / sizeof *scenario_confs; i++)
        vw_test_sweep_host_memory(sweep_scenario, (void *)(uintptr_t)scenario_confs[i]);
}

static void every_device_call_may_fail(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scenario_confs / sizeof *scenario_confs; i++) {
        bool has_succeeded = false;
        for (uint64_t nth = 1; !has_succeeded; nth++) {
            uint64_t before = vw__host_memory_get_use().in_use_bytes;
            vw_device *on = NULL;
            assert_int_equal(vw_simulated_device_create(NULL, &on), VW_OK);
            assert_int_equal(vw_device_fail_call(on, nth, VW_ERR_DEVICE), VW_OK);
            has_succeeded = run_scenario(on, scenario_confs[i]);
            vw_device_destroy(on);
            assert_int_equal(vw__host_memory_get_use().in_use_bytes, before);
            assert_true(nth < 1000);
            assert_true(!has_succeeded || nth > 20); /* the failures did strike */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(addresses_that_are_no_live_block_are_refused),
        TEST(a_device_without_room_is_asked_once_and_its_answer_passed_on),
        TEST(without_an_event_a_block_waits_for_the_whole_device),
        TEST(catch_all_answers_ok_and_keeps_the_text),
        TEST(what_the_device_will_not_take_back_stays_cached),
        TEST(a_trim_that_fails_leaves_the_rest_in_its_order),
        TEST(a_failing_look_at_an_event_fails_the_allocation_and_loses_nothing),
        TEST(a_failed_allocation_does_not_keep_its_private_pool),
        TEST(what_cannot_work_is_refused_at_creation),
        TEST(in_a_forked_child_every_call_is_refused),
        TEST(every_host_allocation_may_fail),
        TEST(every_device_call_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
