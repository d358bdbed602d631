/* test_pinned_pool.c - the promises of vramwise/pinned.h, on the host and the simulated device.
 *
 * Every test ends with vw_pinned_pool_check(). What can go wrong is in test_pinned_failures.c. */
#include "vramwise/pinned.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h> /* mincore */
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host_memory.h"

#include "support/pinned_on_host.h"

/* ---- sizes and reuse ------------------------------------------------------------------------- */

static void zero_bytes_are_null_and_no_block(void **state)
{
    (void)state;
    void *address = &address;
    make_pool("");
    assert_int_equal(vw_pinned_alloc(pool, 0, &address), VW_OK);
    assert_null(address);
    assert_int_equal(vw_pinned_free(pool, NULL), VW_OK);
    assert_int_equal(vw_pinned_record_stream(pool, NULL, OTHER), VW_OK);
    assert_int_equal(stats().num_host_alloc, 0);
    check();
}

static void sizes_become_powers_of_two(void **state)
{
    (void)state;
    static const uint64_t cases[][2] = {{1, 1},       {2, 2},       {3, 4},     {4096, 4096},
                                        {4097, 8192}, {8191, 8192}, {MIB, MIB}, {MIB + 1, 2 * MIB}};
    make_pool("");
    int64_t held = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(allocate(cases[i][0]), 0x5A, (size_t)cases[i][1]);
        held += (int64_t)cases[i][1];
        assert_int_equal(stats().allocated_bytes.current, held);
    }
    check();
}

static void sizes_no_machine_has_are_refused(void **state)
{
    (void)state;
    void *address = &address;
    make_pool("");
    assert_int_equal(vw_pinned_alloc(pool, UINT64_C(1) << 60, &address), VW_ERR_TOO_LARGE);
    assert_int_equal(vw_pinned_alloc(pool, UINT64_MAX, &address), VW_ERR_TOO_LARGE);
    assert_ptr_equal(address, &address);
    check();
}

static void the_block_freed_last_is_reused_first(void **state)
{
    (void)state;
    make_pool("");
    char *first = allocate(5000), *second = allocate(6000), *third = allocate(9000);
    give(second);
    give(first);
    give(third);
    assert_ptr_equal(allocate(8192), first); /* any size of the bucket */
    assert_ptr_equal(allocate(4097), second);
    assert_ptr_equal(allocate(16384), third);
    assert_int_equal(calls(VW_DEVICE_CALL_HOST_TAKE), 3);
    check();
}

static void a_bucket_serves_no_other_sizes(void **state)
{
    (void)state;
    make_pool("");
    give(allocate(8192));
    allocate(8193);
    allocate(4096);
    assert_int_equal(calls(VW_DEVICE_CALL_HOST_TAKE), 3);
    check();
}

static void above_the_rounding_threshold_sizes_are_exact(void **state)
{
    (void)state;
    make_pool("pinned_max_round_threshold_mb:1");
    allocate(MIB - 1);
    assert_int_equal(stats().allocated_bytes.current, MIB);
    allocate(MIB + 1);
    assert_int_equal(stats().allocated_bytes.current, 2 * MIB + 1);
    check();
}

static void a_bucket_is_searched_backwards_for_a_block_that_is_large_enough(void **state)
{
    (void)state;
    make_pool("pinned_max_round_threshold_mb:1");
    char *six = allocate(6 * MIB), *seven = allocate(7 * MIB), *five = allocate(5 * MIB);
    give(seven);
    give(six);
    give(five);
    assert_ptr_equal(allocate(5 * MIB + 1), six); /* five, the newest, is too small */
    assert_ptr_equal(allocate(5 * MIB), five);
    assert_ptr_equal(allocate(4 * MIB + 1), seven);
    allocate(8 * MIB); /* the same bucket, and nothing left in it */
    assert_int_equal(calls(VW_DEVICE_CALL_HOST_TAKE), 4);
    check();
}

static void before_2_13_sizes_cannot_be_made_exact(void **state)
{
    (void)state;
    assert_int_equal(try_pool("pinned_max_round_threshold_mb:1", "2.12"), VW_ERR_BAD_SETTING);
    assert_int_equal(try_pool("pinned_max_cached_size_mb:1", "2.12"), VW_ERR_BAD_SETTING);
    assert_int_equal(try_pool("", "2.12"), VW_OK);
    char *first = allocate(3 * MIB), *second = allocate(4 * MIB);
    assert_int_equal(stats().allocated_bytes.current, 8 * MIB);
    give(second);
    give(first);
    assert_ptr_equal(allocate(4 * MIB), first);
    check();
}

static void blocks_above_the_caching_limit_are_exact_and_not_cached(void **state)
{
    (void)state;
    make_pool("pinned_max_cached_size_mb:1");
    char *large = allocate(3 * MIB), *small = allocate(MIB);
    assert_int_equal(stats().allocated_bytes.current, 4 * MIB);
    give(large);
    assert_int_equal(calls(VW_DEVICE_CALL_HOST_GIVE_BACK), 1);
    assert_int_equal(stats().num_host_free, 1);
    give(small);
    assert_int_equal(calls(VW_DEVICE_CALL_HOST_GIVE_BACK), 1);
    assert_int_equal(stats().allocated_bytes.current, MIB);
    check();
}

/* ---- streams --------------------------------------------------------------------------------- */

static void a_used_block_is_reused_only_when_its_stream_is_done(void **state)
{
    (void)state;
    make_pool("");
    hold(true);
    char *block = allocate(4096);
    use_on(block, OTHER);
    give(block);
    assert_int_equal(stats().active_requests.current, 1);
    assert_ptr_not_equal(allocate(4096), block);
    complete(OTHER);
    assert_ptr_equal(allocate(4096), block);
    assert_int_equal(stats().active_requests.current, 2);
    check();
}

static void a_block_waits_for_each_of_its_streams(void **state)
{
    (void)state;
    make_pool("");
    hold(true);
    char *block = allocate(4096);
    use_on(block, OTHER);
    use_on(block, ANOTHER);
    give(block);
    check();
    complete(OTHER);
    assert_ptr_not_equal(allocate(4096), block);
    complete(ANOTHER);
    assert_ptr_equal(allocate(4096), block);
    check();
}

static void a_stream_named_twice_is_one_use(void **state)
{
    (void)state;
    make_pool("");
    char *block = allocate(4096);
    use_on(block, OTHER);
    use_on(block, OTHER);
    assert_int_equal(calls(VW_DEVICE_CALL_EVENT_CREATE), 1);
    give(block);
    assert_int_equal(calls(VW_DEVICE_CALL_EVENT_RECORD), 1);
    check();
}

static void events_are_made_when_the_use_is_announced_and_used_again(void **state)
{
    (void)state;
    make_pool("");
    for (int i = 0; i < 5; i++) {
        char *block = allocate(4096);
        use_on(block, OTHER);
        uint64_t created = calls(VW_DEVICE_CALL_EVENT_CREATE);
        vw__host_memory_use before = vw__host_memory_get_use();
        give(block);
        assert_int_equal(vw__host_memory_get_use().call_count, before.call_count);
        assert_int_equal(calls(VW_DEVICE_CALL_EVENT_CREATE), created);
    }
    assert_int_equal(calls(VW_DEVICE_CALL_EVENT_CREATE), 1);
    assert_int_equal(calls(VW_DEVICE_CALL_EVENT_RECORD), 5);
    check();
}

static void the_oldest_unfinished_event_holds_up_all_that_came_later(void **state)
{
    (void)state;
    make_pool("");
    hold(true);
    char *slow = allocate(4096), *quick = allocate(65536);
    use_on(slow, OTHER);
    use_on(quick, ANOTHER);
    give(slow);
    give(quick);
    complete(ANOTHER);
    assert_ptr_not_equal(allocate(65536), quick);
    complete(OTHER);
    assert_ptr_equal(allocate(65536), quick);
    assert_ptr_equal(allocate(4096), slow);
    check();
}

static void an_inner_pointer_names_its_block(void **state)
{
    (void)state;
    make_pool("");
    hold(true);
    char *block = allocate(5000);
    use_on(block + 8191, OTHER); /* inside the block, though beyond the request */
    give(block);
    assert_ptr_not_equal(allocate(5000), block);
    check();
}

static void a_waiting_block_above_the_limit_goes_back_when_it_is_done(void **state)
{
    (void)state;
    make_pool("pinned_max_cached_size_mb:1");
    hold(true);
    char *large = allocate(3 * MIB);
    use_on(large, OTHER);
    give(large);
    allocate(4096);
    assert_int_equal(calls(VW_DEVICE_CALL_HOST_GIVE_BACK), 0);
    complete(OTHER);
    allocate(4096);
    assert_int_equal(calls(VW_DEVICE_CALL_HOST_GIVE_BACK), 1);
    check();
}

static void trim_gives_back_what_is_cached_and_waits_for_nothing(void **state)
{
    (void)state;
    make_pool("");
    hold(true);
    char *waiting = allocate(4096), *done = allocate(4096), *live = allocate(4096);
    use_on(waiting, OTHER);
    give(done);
    give(waiting);
    assert_int_equal(vw_pinned_trim(pool), VW_OK);
    assert_int_equal(stats().allocations.current, 2);
    assert_int_equal(calls(VW_DEVICE_CALL_SYNCHRONIZE), 0);
    complete(OTHER);
    assert_int_equal(vw_pinned_trim(pool), VW_OK);
    assert_int_equal(stats().allocations.current, 1);
    memset(live, 1, 4096);
    check();
}

/* ---- where memory comes from ----------------------------------------------------------------- */

static void the_reserve_is_taken_with_the_first_block_and_cut_in_pages(void **state)
{
    (void)state;
    make_pool("pinned_reserve_segment_size_mb:1");
    assert_int_equal(calls(VW_DEVICE_CALL_HOST_TAKE), 0);
    char *first = allocate(100), *second = allocate(5000), *third = allocate(1);
    assert_ptr_equal(second, first + 4096);
    assert_ptr_equal(third, second + 8192);
    assert_int_equal(calls(VW_DEVICE_CALL_HOST_TAKE), 1);
    assert_int_equal(stats().num_host_alloc, 3);
    assert_int_equal(stats().host_alloc_time.count, 1);
    give(first);
    assert_ptr_equal(allocate(128), first);
    check();
}

static void what_does_not_fit_the_reserve_comes_from_the_device(void **state)
{
    (void)state;
    make_pool("pinned_reserve_segment_size_mb:1");
    char *half = allocate(512 * KIB), *whole = allocate(MIB), *rest = allocate(512 * KIB);
    assert_ptr_equal(rest, half + 512 * KIB);
    assert_int_equal(calls(VW_DEVICE_CALL_HOST_TAKE), 2);
    allocate(1);
    assert_int_equal(calls(VW_DEVICE_CALL_HOST_TAKE), 3);
    give(half);
    give(whole);
    check();
}

static void what_was_cut_from_the_reserve_is_never_given_back_nor_cut_again(void **state)
{
    (void)state;
    make_pool("pinned_reserve_segment_size_mb:1");
    char *first = allocate(4096);
    give(first);
    assert_int_equal(vw_pinned_trim(pool), VW_OK);
    assert_int_equal(calls(VW_DEVICE_CALL_HOST_GIVE_BACK), 0);
    assert_int_equal(stats().num_host_free, 1);
    assert_int_equal(stats().host_free_time.count, 0);
    assert_ptr_equal(allocate(4096), first + 4096);
    check();
}

static void a_reserve_that_cannot_be_had_fails_the_request_and_is_tried_again(void **state)
{
    (void)state;
    void *address = &address;
    make_pool("pinned_reserve_segment_size_mb:1");
    fail_call(1);
    assert_int_equal(vw_pinned_alloc(pool, 1, &address), VW_ERR_DEVICE);
    check();
    char *first = allocate(1);
    assert_ptr_equal(allocate(1), first + 4096);
    check();
}

static void registered_memory_is_touched_locked_and_unlocked(void **state)
{
    (void)state;
    unsigned char is_resident[3 * 256];
    vw_device_destroy(device);
    assert_int_equal(vw_simulated_device_create(NULL, &device), VW_OK); /* locks nothing itself */
    make_pool("pinned_use_cuda_host_register:True,pinned_num_register_threads:8,"
              "pinned_max_round_threshold_mb:1");
    const uint64_t size_bytes = 3 * MIB - 100;
    char *block = allocate(size_bytes);
    assert_int_equal((uintptr_t)block % 4096, 0);
    assert_int_equal(calls(VW_DEVICE_CALL_HOST_TAKE), 1);
    assert_int_equal(mincore(block, (size_t)size_bytes, is_resident), 0);
    for (size_t i = 0; i < sizeof is_resident; i++)
        assert_int_equal(is_resident[i] & 1, 1);
    memset(block, 0x77, (size_t)size_bytes);
    char *small = allocate(100); /* fewer pages than threads */
    memset(small, 0x77, 100);
    give(small);
    give(block);
    fail_call(1);
    assert_int_equal(vw_pinned_trim(pool), VW_ERR_DEVICE);
    check();
    assert_int_equal(vw_pinned_trim(pool), VW_OK);
    assert_int_equal(stats().allocations.current, 0);
    assert_int_equal(calls(VW_DEVICE_CALL_HOST_GIVE_BACK), 3);
    check();
}

/* ---- the background thread ------------------------------------------------------------------- */

/* Looks for up to a hundred seconds. */
static bool becomes_active(int64_t count)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < 100000; i++) {
        if (stats().active_requests.current == count)
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

static void the_background_thread_lets_blocks_return_without_an_allocation(void **state)
{
    (void)state;
    make_pool("pinned_use_background_threads:True,pinned_max_cached_size_mb:1");
    hold(true);
    char *block = allocate(4096), *large = allocate(2 * MIB);
    use_on(block, OTHER);
    use_on(large, OTHER);
    give(block);
    give(large);
    complete(OTHER);
    assert_true(becomes_active(0));
    assert_ptr_equal(allocate(4096), block);
    for (int i = 0; i < 100000 && stats().num_host_free == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(stats().num_host_free, 1);
    check();
}

/* The thread itself looks once in 100 microseconds at most, however long these allocations take. */
static void with_a_background_thread_allocations_look_at_no_events(void **state)
{
    (void)state;
    enum { ALLOCATIONS = 5000 };
    make_pool("pinned_use_background_threads:True");
    hold(true);
    char *waiting = allocate(4096);
    use_on(waiting, OTHER);
    give(waiting);
    give(allocate(65536));
    uint64_t before = calls(VW_DEVICE_CALL_EVENT_QUERY), begin_ns = vw__clock_monotonic_ns();
    for (int i = 0; i < ALLOCATIONS; i++)
        give(allocate(65536));
    uint64_t queries = calls(VW_DEVICE_CALL_EVENT_QUERY) - before;
    uint64_t looks = (vw__clock_monotonic_ns() - begin_ns) / 100000 + 2;
    assert_true(queries <= looks);
    check();
}

static bool has_ended; /* this process, but for the last */

/* Called after all that atexit() was told of, and so after the end of a driver. */
__attribute__((destructor)) static void look_at_the_end(void)
{
    if (!has_ended)
        return;
    uint64_t count = calls(VW_DEVICE_CALL_EVENT_QUERY);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    if (calls(VW_DEVICE_CALL_EVENT_QUERY) != count)
        _exit(2);
}

static void the_background_thread_ends_before_the_driver_does(void **state)
{
    (void)state;
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(100);
        make_pool("pinned_use_background_threads:True");
        hold(true);
        char *waiting = allocate(4096);
        use_on(waiting, OTHER);
        give(waiting);
        uint64_t before = calls(VW_DEVICE_CALL_EVENT_QUERY);
        while (calls(VW_DEVICE_CALL_EVENT_QUERY) == before)
            sched_yield();
        has_ended = true;
        exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void with_a_background_thread_a_miss_looks_past_unfinished_events(void **state)
{
    (void)state;
    make_pool("pinned_use_background_threads:True");
    hold(true);
    char *slow = allocate(4096), *quick = allocate(65536);
    use_on(slow, OTHER);
    use_on(quick, ANOTHER);
    give(slow);
    give(quick);
    complete(ANOTHER);
    assert_ptr_equal(allocate(65536), quick);
    assert_ptr_not_equal(allocate(4096), slow);
    check();
}

/* ---- private pools --------------------------------------------------------------------------- */

static const vw_private_id graph = {1, 0};

static bool is_stream(void *context, vw_stream stream)
{
    return stream == *(const vw_stream *)context;
}

static void requests_of_a_scope_have_blocks_of_their_own(void **state)
{
    (void)state;
    vw_stream captured = OTHER;
    make_pool("");
    char *common = allocate(4096);
    give(common);
    assert_int_equal(vw_pinned_pool_begin(pool, graph, is_stream, &captured), VW_OK);
    char *own = allocate_on(4096, OTHER);
    assert_ptr_not_equal(own, common);
    assert_ptr_equal(allocate_on(4096, ANOTHER), common); /* the filter says no */
    assert_int_equal(stats().active_requests.current, 1); /* of the default pool */
    assert_int_equal(stats().allocations.current, 2);
    give(own);
    assert_ptr_equal(allocate_on(4096, OTHER), own);
    assert_int_equal(vw_pinned_pool_end(pool, graph), VW_OK);
    give(own);
    assert_ptr_not_equal(allocate_on(4096, OTHER), own);
    check();
}

static void a_private_pool_is_trimmed_only_when_nobody_uses_it(void **state)
{
    (void)state;
    make_pool("");
    assert_int_equal(vw_pinned_pool_begin(pool, graph, NULL, NULL), VW_OK);
    give(allocate(4096));
    assert_int_equal(vw_pinned_pool_end(pool, graph), VW_OK);
    assert_int_equal(vw_pinned_trim(pool), VW_OK);
    assert_int_equal(stats().allocations.current, 1);
    assert_int_equal(vw_pinned_pool_retain(pool, graph), VW_OK);
    assert_int_equal(vw_pinned_pool_release(pool, graph), VW_OK);
    assert_int_equal(vw_pinned_trim(pool), VW_OK);
    assert_int_equal(stats().allocations.current, 1);
    assert_int_equal(vw_pinned_pool_release(pool, graph), VW_OK);
    assert_int_equal(vw_pinned_pool_retain(pool, graph), VW_ERR_WRONG_STATE);
    assert_int_equal(vw_pinned_trim(pool), VW_OK);
    assert_int_equal(stats().allocations.current, 0);
    assert_int_equal(vw_pinned_pool_retain(pool, graph), VW_OK); /* a new one */
    check();
}

static void a_captured_block_that_a_stream_used_is_kept_for_good(void **state)
{
    (void)state;
    make_pool("");
    assert_int_equal(vw_device_set_capturing(device, OTHER, true), VW_OK);
    assert_int_equal(vw_pinned_pool_begin(pool, graph, NULL, NULL), VW_OK);
    char *used = allocate_on(4096, OTHER), *unused = allocate_on(4096, OTHER);
    use_on(used, OTHER);
    give(used);
    assert_int_equal(calls(VW_DEVICE_CALL_EVENT_RECORD), 0);
    give(unused);
    assert_ptr_equal(allocate_on(4096, OTHER), unused);
    assert_ptr_not_equal(allocate_on(4096, OTHER), used);
    assert_int_equal(vw_device_set_capturing(device, OTHER, false), VW_OK);
    give(unused);
    char *again = allocate_on(4096, OTHER); /* the same block, but not captured this time */
    assert_ptr_equal(again, unused);
    use_on(again, OTHER);
    give(again);
    assert_ptr_equal(allocate_on(4096, OTHER), again);
    assert_int_equal(vw_pinned_pool_end(pool, graph), VW_OK);
    assert_int_equal(vw_pinned_pool_release(pool, graph), VW_OK);
    assert_int_equal(vw_pinned_trim(pool), VW_OK);
    assert_int_equal(stats().num_host_free, 0);
    assert_int_equal(vw_pinned_free(pool, used), VW_ERR_UNKNOWN_ADDRESS);
    check();
}

/* It came before the capture, and is freed in it: an event there would be part of the graph. */
static void a_block_that_a_captured_stream_uses_waits_for_the_device(void **state)
{
    (void)state;
    make_pool("");
    char *used = allocate_on(4096, 0);
    use_on(used, OTHER);
    assert_int_equal(vw_device_set_capturing(device, OTHER, true), VW_OK);
    assert_int_equal(vw_pinned_pool_begin(pool, graph, NULL, NULL), VW_OK);
    give(used);
    assert_int_equal(calls(VW_DEVICE_CALL_EVENT_RECORD), 0);
    assert_int_equal(vw_pinned_trim(pool), VW_OK); /* and waits for nothing */
    assert_int_equal(stats().num_host_free, 0);
    assert_int_equal(vw_device_set_capturing(device, OTHER, false), VW_OK);
    assert_int_equal(vw_pinned_pool_end(pool, graph), VW_OK);
    assert_ptr_not_equal(allocate_on(4096, 0), used);
    assert_int_equal(vw_pinned_trim(pool), VW_OK);
    assert_int_equal(stats().num_host_free, 1);
    check();
}

static void scopes_and_uses_are_paired(void **state)
{
    (void)state;
    make_pool("");
    assert_int_equal(vw_pinned_pool_begin(pool, (vw_private_id){0, 0}, NULL, NULL),
                     VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pinned_pool_retain(pool, (vw_private_id){0, 0}), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pinned_pool_end(pool, graph), VW_ERR_WRONG_STATE);
    assert_int_equal(vw_pinned_pool_release(pool, graph), VW_ERR_WRONG_STATE);
    assert_int_equal(vw_pinned_pool_begin(pool, graph, NULL, NULL), VW_OK);
    assert_int_equal(vw_pinned_pool_begin(pool, graph, NULL, NULL), VW_ERR_WRONG_STATE);
    assert_int_equal(vw_pinned_pool_release(pool, graph), VW_ERR_WRONG_STATE); /* routed to */
    assert_int_equal(vw_pinned_pool_end(pool, graph), VW_OK);
    assert_int_equal(vw_pinned_pool_release(pool, graph), VW_OK);
    assert_int_equal(vw_pinned_pool_release(pool, graph), VW_ERR_WRONG_STATE);
    check();
}

static void of_two_scopes_the_first_that_accepts_counts(void **state)
{
    (void)state;
    const vw_private_id second = {2, 0};
    make_pool("");
    assert_int_equal(vw_pinned_pool_begin(pool, graph, NULL, NULL), VW_OK);
    char *of_first = allocate(4096);
    give(of_first);
    assert_int_equal(vw_pinned_pool_begin(pool, second, NULL, NULL), VW_OK);
    assert_ptr_equal(allocate(4096), of_first);
    assert_int_equal(vw_pinned_pool_end(pool, graph), VW_OK);
    give(of_first);
    assert_ptr_not_equal(allocate(4096), of_first);
    check();
}

/* ---- statistics ------------------------------------------------------------------------------ */

static void active_peaks_are_sums_of_the_peaks_of_each_bucket(void **state)
{
    (void)state;
    make_pool("");
    char *block = allocate(4096);
    give(block);
    give(allocate(8192));
    vw_pinned_stats now = stats();
    assert_int_equal(now.active_requests.peak, 2); /* never two at once */
    assert_int_equal(now.active_bytes.peak, 3 * 4096);
    assert_int_equal(now.active_bytes.current, 0);
    assert_int_equal(now.active_requests.allocated, 2);
    assert_int_equal(now.active_bytes.freed, 3 * 4096);
    assert_int_equal(now.allocations.peak, 2);
    check();
}

static void resets_touch_what_they_say(void **state)
{
    (void)state;
    make_pool("");
    char *kept = allocate(4096);
    give(allocate(8192));
    assert_int_equal(vw_pinned_trim(pool), VW_OK);
    assert_int_equal(vw_pinned_pool_reset_peaks(pool), VW_OK);
    vw_pinned_stats now = stats();
    assert_int_equal(now.allocated_bytes.peak, 4096);
    assert_int_equal(now.active_bytes.peak, 4096);
    assert_int_equal(now.num_host_alloc, 2);
    assert_int_equal(now.host_alloc_time.max, 0);
    assert_int_equal(now.host_alloc_time.count, 2);
    assert_int_equal(vw_pinned_pool_reset_accumulated(pool), VW_OK);
    now = stats();
    assert_int_equal(now.num_host_alloc, 0);
    assert_int_equal(now.num_host_free, 0);
    assert_int_equal(now.active_requests.allocated, 0);
    assert_int_equal(now.active_requests.current, 1);
    assert_int_equal(now.host_alloc_time.count, 0);
    assert_int_equal(now.host_free_time.total, 0);
    give(kept);
    check();
}

static uint64_t fake_now_ns;
static uint64_t fake_step_ns;

static uint64_t fake_monotonic_ns(void)
{
    return fake_now_ns += fake_step_ns;
}

static uint64_t fake_realtime_us(void)
{
    return 0;
}

static void times_in_the_device_are_counted_in_microseconds(void **state)
{
    (void)state;
    static const vw__clock fake = {fake_monotonic_ns, fake_realtime_us, NULL};
    make_pool("");
    vw__clock_replace(&fake);
    fake_step_ns = 5999;
    char *first = allocate(1), *second = allocate(2);
    fake_step_ns = 20000;
    give(allocate(4));
    fake_step_ns = 3000;
    give(first);
    give(second);
    assert_int_equal(vw_pinned_trim(pool), VW_OK);
    vw__clock_replace(NULL);
    vw_pinned_stats now = stats();
    assert_int_equal(now.host_alloc_time.count, 3);
    assert_int_equal(now.host_alloc_time.total, 30);
    assert_int_equal(now.host_alloc_time.min, 5);
    assert_int_equal(now.host_alloc_time.max, 20);
    assert_int_equal(now.host_alloc_time.avg, 10);
    assert_int_equal(now.host_free_time.count, 3);
    assert_int_equal(now.host_free_time.total, 9);
    check();
}

static void an_older_caller_gets_only_the_fields_it_knows(void **state)
{
    (void)state;
    vw_pinned_stats old;
    make_pool("");
    allocate(1);
    memset(&old, 0x11, sizeof old);
    old.struct_size = offsetof(vw_pinned_stats, allocations);
    assert_int_equal(vw_pinned_pool_get_stats(pool, &old), VW_OK);
    assert_int_equal(old.num_host_alloc, 1);
    assert_int_equal(old.allocations.current, 0x1111111111111111);
    old.struct_size = 0;
    assert_int_equal(vw_pinned_pool_get_stats(pool, &old), VW_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(zero_bytes_are_null_and_no_block),
        TEST(sizes_become_powers_of_two),
        TEST(sizes_no_machine_has_are_refused),
        TEST(the_block_freed_last_is_reused_first),
        TEST(a_bucket_serves_no_other_sizes),
        TEST(above_the_rounding_threshold_sizes_are_exact),
        TEST(a_bucket_is_searched_backwards_for_a_block_that_is_large_enough),
        TEST(before_2_13_sizes_cannot_be_made_exact),
        TEST(blocks_above_the_caching_limit_are_exact_and_not_cached),

        TEST(a_used_block_is_reused_only_when_its_stream_is_done),
        TEST(a_block_waits_for_each_of_its_streams),
        TEST(a_stream_named_twice_is_one_use),
        TEST(events_are_made_when_the_use_is_announced_and_used_again),
        TEST(the_oldest_unfinished_event_holds_up_all_that_came_later),
        TEST(an_inner_pointer_names_its_block),
        TEST(a_waiting_block_above_the_limit_goes_back_when_it_is_done),
        TEST(trim_gives_back_what_is_cached_and_waits_for_nothing),

        TEST(the_reserve_is_taken_with_the_first_block_and_cut_in_pages),
        TEST(what_does_not_fit_the_reserve_comes_from_the_device),
        TEST(what_was_cut_from_the_reserve_is_never_given_back_nor_cut_again),
        TEST(a_reserve_that_cannot_be_had_fails_the_request_and_is_tried_again),
        TEST(registered_memory_is_touched_locked_and_unlocked),

        TEST(the_background_thread_lets_blocks_return_without_an_allocation),
        TEST(the_background_thread_ends_before_the_driver_does),
        TEST(with_a_background_thread_allocations_look_at_no_events),
        TEST(with_a_background_thread_a_miss_looks_past_unfinished_events),

        TEST(requests_of_a_scope_have_blocks_of_their_own),
        TEST(a_private_pool_is_trimmed_only_when_nobody_uses_it),
        TEST(a_captured_block_that_a_stream_used_is_kept_for_good),
        TEST(a_block_that_a_captured_stream_uses_waits_for_the_device),
        TEST(scopes_and_uses_are_paired),
        TEST(of_two_scopes_the_first_that_accepts_counts),

        TEST(active_peaks_are_sums_of_the_peaks_of_each_bucket),
        TEST(resets_touch_what_they_say),
        TEST(times_in_the_device_are_counted_in_microseconds),
        TEST(an_older_caller_gets_only_the_fields_it_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
