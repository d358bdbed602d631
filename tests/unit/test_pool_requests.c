/* test_pool_requests.c - the number of the request that events carry, and who called.
 *
 * Whether memory was given back inside a request or by a trim can be told from nothing else, so
 * every way of giving it back is here, and every place where the pool drops its lock in the middle
 * of a request and another comes in between. */
#include "vramwise/vramwise.h"

#include <pthread.h>

#include "support/cmocka_here.h"
#include "support/pool_layout.h"

#define MIB VW_TEST_MIB

typedef struct told {
    vw_action action;
    uint64_t request;
} told;

/* Compares all events since the last look, and forgets them. */
#define expect_told(test, ...)                                                                     \
    compare_told(test, (const told[]){__VA_ARGS__},                                                \
                 sizeof((const told[]){__VA_ARGS__}) / sizeof(told), __FILE__, __LINE__)

static void compare_told(vw_test_pool *test, const told *expected, size_t count, const char *file,
                         int line)
{
    bool is_same = test->event_count == count;
    for (size_t i = 0; i < count && is_same; i++)
        is_same = test->events[i].action == expected[i].action &&
                  test->events[i].request == expected[i].request;
    for (size_t i = 0; i < test->event_count && !is_same; i++)
        print_error("%zu: action %d in request %llu\n", i, (int)test->events[i].action,
                    (unsigned long long)test->events[i].request);
    if (!is_same)
        _fail(file, line);
    vw_test_forget_events(test);
}

/* A listener that can be taken away and set again, once the first event has made room. */
static void remember_one(void *context, const vw_memory_event *event)
{
    vw_test_pool *test = context;
    if (test->event_count < test->event_capacity)
        test->events[test->event_count++] = *event;
}

/* ---- one thread ------------------------------------------------------------------------------ */

static void each_request_has_a_number_and_what_is_no_request_has_none(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_device_ptr address = vw_test_alloc(&test, 100);
    expect_told(&test, {VW_ACTION_SEGMENT_ALLOC, 1}, {VW_ACTION_ALLOC, 1});
    vw_test_alloc(&test, 100);
    vw_test_free(&test, address);
    expect_told(&test, {VW_ACTION_ALLOC, 2}, {VW_ACTION_FREE_REQUESTED, 0},
                {VW_ACTION_FREE_COMPLETED, 0});
    vw_test_ok(&test, vw_pool_walk(test.pool, &(vw_walker){NULL, NULL, NULL}, true));
    expect_told(&test, {VW_ACTION_SNAPSHOT, 0});
    vw_test_pool_close(&test);
}

static void memory_that_a_request_gives_back_is_told_from_what_a_trim_gives_back(void **state)
{
    (void)state;
    static const struct {
        const char *conf;
        vw_action grow, shrink;
    } cases[] = {
        {NULL, VW_ACTION_SEGMENT_ALLOC, VW_ACTION_SEGMENT_FREE},
        {"expandable_segments:True", VW_ACTION_SEGMENT_MAP, VW_ACTION_SEGMENT_UNMAP},
        {"max_split_size_mb:30", VW_ACTION_SEGMENT_ALLOC, VW_ACTION_SEGMENT_FREE},
    };
    for (size_t i = 0; i < 3; i++) {
        vw_test_pool test;
        vw_test_pool_open(
            &test, &(vw_test_pool_setup){.capacity_bytes = 100 * MIB, .conf = cases[i].conf});
        vw_test_free(&test, vw_test_alloc_on(&test, 60 * MIB, 1));
        vw_test_trim(&test);
        expect_told(&test, {cases[i].grow, 1}, {VW_ACTION_ALLOC, 1}, {VW_ACTION_FREE_REQUESTED, 0},
                    {VW_ACTION_FREE_COMPLETED, 0}, {cases[i].shrink, 0});
        vw_test_free(&test, vw_test_alloc_on(&test, 60 * MIB, 1));
        vw_test_forget_events(&test);
        vw_test_alloc_on(&test, 80 * MIB, i == 2 ? 1 : 2); /* oversize: gives up its stream's own */
        expect_told(&test, {cases[i].shrink, 3}, {cases[i].grow, 3}, {VW_ACTION_ALLOC, 3});
        vw_test_pool_close(&test);
    }
}

static void garbage_is_collected_by_a_request(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, &(vw_test_pool_setup){.conf = "garbage_collection_threshold:0.5",
                                                   .fraction = 0.25}); /* 256 MiB, half of them */
    vw_test_free(&test, vw_test_alloc(&test, 140 * MIB));
    vw_test_forget_events(&test);
    vw_test_alloc_on(&test, 60 * MIB, 1);
    expect_told(&test, {VW_ACTION_SEGMENT_FREE, 2}, {VW_ACTION_SEGMENT_ALLOC, 2},
                {VW_ACTION_ALLOC, 2});
    vw_test_pool_close(&test);
}

static void a_free_that_a_request_finds_finished_carries_its_number(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, &(vw_test_pool_setup){.manual_streams = true});
    vw_device_ptr address = vw_test_alloc(&test, 100);
    vw_test_ok(&test, vw_record_stream(test.pool, address, 9));
    vw_test_free(&test, address);
    vw_test_ok(&test, vw_device_complete(test.device, 9));
    vw_test_forget_events(&test);
    vw_test_alloc(&test, 100);
    expect_told(&test, {VW_ACTION_FREE_COMPLETED, 2}, {VW_ACTION_ALLOC, 2});
    vw_test_pool_close(&test);
}

static void a_request_that_fails_has_its_number_and_nothing_after_it_has(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, &(vw_test_pool_setup){.capacity_bytes = 100 * MIB});
    vw_device_ptr address = vw_test_alloc(&test, 60 * MIB);
    vw_test_free(&test, address);
    vw_test_forget_events(&test);
    vw_test_alloc_fails(&test, 200 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    expect_told(&test, {VW_ACTION_SEGMENT_FREE, 2}, {VW_ACTION_OOM, 2});
    vw_test_ok(&test, vw_device_fail_call(test.device, 1, VW_ERR_DEVICE));
    vw_test_alloc_fails(&test, 60 * MIB, 0,
                        VW_ERR_DEVICE); /* request 3, of which nothing is told */
    vw_test_expect_no_events(&test);
    vw_test_free(&test, vw_test_alloc(&test, 60 * MIB));
    expect_told(&test, {VW_ACTION_SEGMENT_ALLOC, 4}, {VW_ACTION_ALLOC, 4},
                {VW_ACTION_FREE_REQUESTED, 0}, {VW_ACTION_FREE_COMPLETED, 0});
    vw_test_pool_close(&test);
}

static void a_request_for_an_exact_address_has_one_number(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_device_ptr address = vw_test_alloc(&test, 5 * MIB), found;
    vw_test_free(&test, address);
    vw_test_forget_events(&test);
    const vw_alloc_request request = {
        .struct_size = sizeof request, .size_bytes = 2 * MIB, .at = address + 4 * MIB};
    vw_test_ok(&test, vw_alloc_with(test.pool, &request, &found));
    expect_told(&test, {VW_ACTION_ALLOC, 2}, {VW_ACTION_ALLOC, 2}, {VW_ACTION_FREE_REQUESTED, 2},
                {VW_ACTION_FREE_COMPLETED, 2});
    vw_test_pool_close(&test);
}

static void requests_are_numbered_while_someone_listens(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_alloc(&test, 100);
    vw_test_ok(&test, vw_pool_set_sink(test.pool, NULL));
    vw_test_alloc(&test, 100);
    vw_test_ok(&test, vw_pool_set_sink(test.pool, &(vw_event_sink){&test, remember_one}));
    vw_test_alloc(&test, 100);
    expect_told(&test, {VW_ACTION_SEGMENT_ALLOC, 1}, {VW_ACTION_ALLOC, 1}, {VW_ACTION_ALLOC, 2});
    vw_test_pool_close(&test);
}

/* ---- with the lock dropped ------------------------------------------------------------------- */

/* What another thread, or the program's own callback, does in the middle of a request. */
typedef struct interloper {
    vw_test_pool test;
    vw_device_table table; /* of the device, with a take() of ours */
    vw_status (*take)(void *context, uint64_t size_bytes, vw_device_ptr *out);
    int takes_until; /* the so-many-th take() from now is the one; 0 = none */
    bool is_in_thread;
    vw_event_sink sink; /* what it sets instead, if `sets_sink` */
    bool sets_sink;
    vw_status status;
    vw_device_ptr address;
} interloper;

static interloper other;

static void *come_in_between(void *unused)
{
    vw_pool *pool = other.test.pool;
    if (other.sets_sink)
        other.status = vw_pool_set_sink(pool, other.sink.notice != NULL ? &other.sink : NULL);
    else
        other.status = vw_alloc(pool, 100, 7, &other.address);
    return unused;
}

static void interrupt(void)
{
    pthread_t thread;
    if (!other.is_in_thread) {
        come_in_between(NULL);
    } else if (pthread_create(&thread, NULL, come_in_between, NULL) == 0) {
        pthread_join(thread, NULL);
    }
}

static vw_status interrupted_take(void *context, uint64_t size_bytes, vw_device_ptr *out)
{
    if (other.takes_until != 0 && --other.takes_until == 0)
        interrupt();
    return other.take(context, size_bytes, out);
}

static bool interrupted_reclaim(void *context)
{
    (void)context;
    if (other.takes_until != 0) {
        other.takes_until = 0;
        interrupt();
    }
    return false;
}

static void open_for_interruption(const char *conf, bool by_callback)
{
    other = (interloper){.is_in_thread = true, .status = VW_ERR_WRONG_STATE};
    vw_test_pool_open(&other.test,
                      &(vw_test_pool_setup){.capacity_bytes = 100 * MIB,
                                            .conf = conf,
                                            .reclaim = by_callback ? interrupted_reclaim : NULL});
    other.table = *other.test.device->table;
    other.take = other.table.take;
    other.table.take = interrupted_take;
}

/* Runs a request of 80 MiB with the interruption at its so-many-th take(), or in its callback. */
static void ask_interrupted(int takes_until)
{
    const vw_device_table *table = other.test.device->table;
    vw_device_ptr address;
    other.takes_until = takes_until;
    other.test.device->table = &other.table;
    vw_status status = vw_alloc(other.test.pool, 80 * MIB, 0, &address);
    other.test.device->table = table;
    vw_test_ok(&other.test, status);
    assert_int_equal(other.status, VW_OK);
}

static void another_thread_in_the_middle_of_a_device_call_has_a_number_of_its_own(void **state)
{
    (void)state;
    open_for_interruption("release_lock_on_cudamalloc:True", false);
    vw_test_free(&other.test, vw_test_alloc(&other.test, 60 * MIB));
    vw_test_forget_events(&other.test);
    ask_interrupted(2); /* the first does not fit, and 60 MiB are given back */
    expect_told(&other.test, {VW_ACTION_SEGMENT_FREE, 2}, {VW_ACTION_SEGMENT_ALLOC, 3},
                {VW_ACTION_ALLOC, 3}, {VW_ACTION_SEGMENT_ALLOC, 2}, {VW_ACTION_ALLOC, 2});
    vw_test_free(&other.test, other.address);
    expect_told(&other.test, {VW_ACTION_FREE_REQUESTED, 0}, {VW_ACTION_FREE_COMPLETED, 0});
    vw_test_pool_close(&other.test);
}

static void requests_in_a_reclaim_callback_have_numbers_of_their_own(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        open_for_interruption(NULL, true);
        other.is_in_thread = i == 1;
        vw_test_free(&other.test, vw_test_alloc(&other.test, 60 * MIB));
        vw_test_forget_events(&other.test);
        ask_interrupted(1);
        expect_told(&other.test, {VW_ACTION_SEGMENT_ALLOC, 3}, {VW_ACTION_ALLOC, 3},
                    {VW_ACTION_SEGMENT_FREE, 2}, {VW_ACTION_SEGMENT_ALLOC, 2},
                    {VW_ACTION_ALLOC, 2});
        vw_test_pool_close(&other.test);
    }
}

static void a_listener_that_comes_in_the_middle_of_a_request_hears_no_number(void **state)
{
    (void)state;
    open_for_interruption(NULL, true);
    vw_test_alloc(&other.test, 100); /* room for events */
    vw_test_ok(&other.test, vw_pool_set_sink(other.test.pool, NULL));
    vw_test_forget_events(&other.test);
    other.sets_sink = true;
    other.sink = (vw_event_sink){&other.test, remember_one};
    ask_interrupted(1);
    vw_test_alloc(&other.test, 100);
    expect_told(&other.test, {VW_ACTION_SEGMENT_ALLOC, 0}, {VW_ACTION_ALLOC, 0},
                {VW_ACTION_ALLOC, 2});
    vw_test_pool_close(&other.test);
}

static void a_listener_that_goes_in_the_middle_of_a_request_leaves_no_number_behind(void **state)
{
    (void)state;
    open_for_interruption(NULL, true);
    vw_device_ptr address = vw_test_alloc(&other.test, 100);
    vw_test_forget_events(&other.test);
    other.sets_sink = true;
    ask_interrupted(1); /* nobody hears of its end */
    vw_test_ok(&other.test,
               vw_pool_set_sink(other.test.pool, &(vw_event_sink){&other.test, remember_one}));
    vw_test_free(&other.test, address);
    expect_told(&other.test, {VW_ACTION_FREE_REQUESTED, 0}, {VW_ACTION_FREE_COMPLETED, 0});
    vw_test_pool_close(&other.test);
}

/* ---- who called ------------------------------------------------------------------------------ */

/* Where a call returns to is inside the function that made it: so these are never inlined, do
 * something after the call, and are short. */
#define CALLER __attribute__((noinline))
enum { MOST_CALLER_BYTES = 400 };

static CALLER vw_status ask(vw_pool *pool, uint64_t size_bytes, vw_device_ptr *out)
{
    vw_status status = vw_alloc(pool, size_bytes, 0, out);
    __asm__ volatile("" ::: "memory");
    return status;
}

static CALLER vw_status ask_at_length(vw_pool *pool, uint64_t size_bytes, vw_device_ptr *out)
{
    vw_alloc_request request = {.struct_size = sizeof request, .size_bytes = size_bytes};
    vw_status status = vw_alloc_with(pool, &request, out);
    __asm__ volatile("" ::: "memory");
    return status;
}

static CALLER vw_status empty(vw_pool *pool)
{
    vw_status status = vw_pool_trim(pool);
    __asm__ volatile("" ::: "memory");
    return status;
}

static CALLER vw_status empty_one(vw_pool *pool, vw_private_id id)
{
    vw_status status = vw_private_pool_trim(pool, id);
    __asm__ volatile("" ::: "memory");
    return status;
}

/* All events since the last look were caused by a call in `function`; forgets them. */
static void expect_caller(vw_test_pool *test, uintptr_t function)
{
    assert_true(test->event_count != 0);
    for (size_t i = 0; i < test->event_count; i++) {
        uintptr_t caller = (uintptr_t)test->events[i].caller;
        assert_in_range(caller, function, function + MOST_CALLER_BYTES);
    }
    vw_test_forget_events(test);
}

static void events_say_where_the_call_that_caused_them_returns_to(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_device_ptr address;
    vw_private_id id = {0, 1};
    vw_test_pool_open(&test, &(vw_test_pool_setup){.capacity_bytes = 100 * MIB});
    vw_test_ok(&test, ask(test.pool, 60 * MIB, &address));
    expect_caller(&test, (uintptr_t)ask);
    vw_test_free(&test, address);
    assert_null(test.events[0].caller);
    assert_null(test.events[1].caller);
    vw_test_forget_events(&test);
    vw_test_ok(&test, ask_at_length(test.pool, 80 * MIB, &address)); /* gives 60 back */
    assert_int_equal(test.event_count, 3);
    expect_caller(&test, (uintptr_t)ask_at_length);
    vw_test_refused(&test, ask(test.pool, 80 * MIB, &address), VW_ERR_OUT_OF_MEMORY);
    expect_caller(&test, (uintptr_t)ask);
    vw_test_free(&test, address);
    vw_test_forget_events(&test);
    vw_test_ok(&test, empty(test.pool));
    expect_caller(&test, (uintptr_t)empty);

    vw_test_ok(&test, vw_private_pool_begin(test.pool, id, NULL, NULL));
    vw_test_free(&test, vw_test_alloc(&test, 100));
    vw_test_ok(&test, vw_private_pool_end(test.pool, id));
    vw_test_ok(&test, vw_private_pool_release(test.pool, id));
    vw_test_forget_events(&test);
    vw_test_ok(&test, empty_one(test.pool, id));
    assert_int_equal(test.events[0].request, 0);
    expect_caller(&test, (uintptr_t)empty_one);
    vw_test_pool_close(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_has_a_number_and_what_is_no_request_has_none),
        cmocka_unit_test(memory_that_a_request_gives_back_is_told_from_what_a_trim_gives_back),
        cmocka_unit_test(garbage_is_collected_by_a_request),
        cmocka_unit_test(a_free_that_a_request_finds_finished_carries_its_number),
        cmocka_unit_test(a_request_that_fails_has_its_number_and_nothing_after_it_has),
        cmocka_unit_test(a_request_for_an_exact_address_has_one_number),
        cmocka_unit_test(requests_are_numbered_while_someone_listens),
        cmocka_unit_test(another_thread_in_the_middle_of_a_device_call_has_a_number_of_its_own),
        cmocka_unit_test(requests_in_a_reclaim_callback_have_numbers_of_their_own),
        cmocka_unit_test(a_listener_that_comes_in_the_middle_of_a_request_hears_no_number),
        cmocka_unit_test(a_listener_that_goes_in_the_middle_of_a_request_leaves_no_number_behind),
        cmocka_unit_test(events_say_where_the_call_that_caused_them_returns_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
