/* test_failure_sweeps.c - whatever fails, whenever it fails, the pool stays whole and serves on.
 *
 * One scenario uses nearly everything a pool can do. It runs once for every host allocation it
 * makes, that one failing, and once for every device call, that one failing: the paths that handle
 * failures are all walked, not sampled. After every step the pool is checked from end to end; after
 * every run it must serve a fixed sequence of requests and give everything back to the device.
 *
 * The pool sees its device through a table that watches: if the device itself refuses to take
 * something back for good, that much, and not a byte more, may be missing at the end. */
#include "vramwise/vramwise.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/pool_fixture.h"

enum { MOST_HELD = 4096, MOST_RUNS = 5000 };

/* ---- a device that is watched ---------------------------------------------------------------- */

/* What the device has given: addresses and handles, with their sizes. One run at a time. */
static struct {
    const vw_device_table *real;
    struct {
        uint64_t name, size_bytes;
    } held[MOST_HELD];
    size_t held_count;
    uint64_t lost_bytes; /* the device would not take it back, and nobody will ask again */
    bool is_ending;      /* the pool is being destroyed: nothing is asked twice */
    unsigned stuck;      /* how many more calls of unmap() are refused */
} watch;

static void note(uint64_t name, uint64_t size_bytes)
{
    assert_true(watch.held_count < MOST_HELD);
    watch.held[watch.held_count].name = name;
    watch.held[watch.held_count++].size_bytes = size_bytes;
}

static uint64_t size_of(uint64_t name)
{
    for (size_t i = watch.held_count; i-- > 0;) /* names are used again: the last one counts */
        if (watch.held[i].name == name)
            return watch.held[i].size_bytes;
    fail_msg("the device never gave %#" PRIx64, name);
    return 0;
}

static vw_status watched_take(void *context, uint64_t size_bytes, vw_device_ptr *out)
{
    vw_status status = watch.real->take(context, size_bytes, out);
    if (status == VW_OK)
        note(*out, size_bytes);
    return status;
}

static vw_status watched_create(void *context, uint64_t size_bytes, vw_handle *out)
{
    vw_status status = watch.real->create(context, size_bytes, out);
    if (status == VW_OK)
        note(*out, size_bytes);
    return status;
}

static vw_status watched_give_back(void *context, vw_device_ptr address)
{
    vw_status status = watch.real->give_back(context, address);
    if (status != VW_OK && watch.is_ending)
        watch.lost_bytes += size_of(address);
    return status;
}

static vw_status watched_release(void *context, vw_handle handle)
{
    vw_status status = watch.real->release(context, handle);
    if (status != VW_OK) /* unmapped before: nobody knows the handle any more */
        watch.lost_bytes += size_of(handle);
    return status;
}

static vw_status watched_unmap(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    if (watch.stuck > 0) {
        watch.stuck--;
        return VW_ERR_DEVICE;
    }
    vw_status status = watch.real->unmap(context, address, size_bytes);
    if (status != VW_OK && watch.is_ending)
        watch.lost_bytes += size_bytes; /* its handle stays with the mapping */
    return status;
}

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct run {
    const char *conf;
    vw_device *device;
    vw_device watched;
    vw_device_table table;
    vw_pool *pool;
    bool has_failed; /* some step did not do what it does when nothing fails */
} run;

static bool run_open(run *r, const char *conf)
{
    *r = (run){.conf = conf};
    const vw_simulated_options options = {
        .struct_size = sizeof options, .capacity_bytes = VW_TEST_GIB, .manual_streams = true};
    if (vw_simulated_device_create(&options, &r->device) != VW_OK)
        return false;
    r->table = *r->device->table;
    r->table.take = watched_take;
    r->table.create = watched_create;
    r->table.give_back = watched_give_back;
    r->table.release = watched_release;
    r->table.unmap = watched_unmap;
    r->watched = *r->device;
    r->watched.table = &r->table;
    watch.real = r->device->table;
    watch.held_count = 0;
    watch.lost_bytes = 0;
    watch.is_ending = false;
    watch.stuck = 0;
    return true;
}

/* Ends the pool and the device, and sees that nothing is missing that should be there. */
static void run_close(run *r)
{
    vw_device_calls calls;
    watch.is_ending = true;
    vw_pool_destroy(r->pool);
    assert_int_equal(vw_device_get_calls(r->device, &calls), VW_OK);
    assert_int_equal(calls.in_use_bytes, watch.lost_bytes);
    vw_device_destroy(r->device);
}

/* A step: what it answers without failures is `expected`; with one, it may also say so. */
static void step(run *r, vw_status status, vw_status expected, int line)
{
    bool is_failure =
        status == VW_ERR_HOST_MEMORY || status == VW_ERR_DEVICE || status == VW_ERR_OUT_OF_MEMORY;
    if (status != expected && !is_failure) {
        print_error("%s: %s\n", vw_status_name(status), vw_last_error());
        _fail(__FILE__, line);
    }
    r->has_failed |= status != expected;
    if (vw_pool_check(r->pool) != VW_OK) {
        print_error("%s\n", vw_last_error());
        _fail(__FILE__, line);
    }
}

#define STEP(call) step(r, call, VW_OK, __LINE__)

/* VW_NULL where the request failed: freeing and announcing that does nothing. */
static vw_device_ptr take(run *r, uint64_t size_bytes, vw_stream stream)
{
    vw_device_ptr address = VW_NULL;
    STEP(vw_alloc(r->pool, size_bytes, stream, &address));
    return address;
}

static void take_at(run *r, vw_device_ptr at, uint64_t size_bytes)
{
    vw_device_ptr address = VW_NULL;
    vw_alloc_request request = {.struct_size = sizeof request, .size_bytes = size_bytes, .at = at};
    STEP(vw_alloc_with(r->pool, &request, &address));
    STEP(vw_free(r->pool, address));
}

/* ---- the scenario ---------------------------------------------------------------------------- */

static void ignore_event(void *context, const vw_memory_event *event)
{
    (void)context;
    (void)event;
}

static void ignore_stat(void *context, const char *key, int64_t value)
{
    (void)context;
    (void)key;
    (void)value;
}

static void use_streams(run *r, vw_device_ptr *blocks)
{
    blocks[0] = take(r, 700, 0);
    blocks[1] = take(r, 4096, 0);
    blocks[2] = take(r, VW_TEST_MIB, 0);
    blocks[3] = take(r, 300 * VW_TEST_KIB, 1);
    blocks[4] = take(r, 5 * VW_TEST_MIB, 0);
    blocks[5] = take(r, 12 * VW_TEST_MIB, 1);
    blocks[6] = take(r, 60 * VW_TEST_MIB, 0); /* oversize where max_split_size is set */
    blocks[7] = take(r, 45 * VW_TEST_MIB, 1);
    STEP(vw_record_stream(r->pool, blocks[0], 1));
    STEP(vw_record_stream(r->pool, blocks[0], 2));
    STEP(vw_record_stream(r->pool, blocks[4], 2));
    STEP(vw_record_stream(r->pool, blocks[6], 1));
    STEP(vw_record_stream(r->pool, blocks[5], 2)); /* stays live */
    STEP(vw_free(r->pool, blocks[0]));
    STEP(vw_free(r->pool, blocks[4]));
    STEP(vw_free(r->pool, blocks[6]));
    STEP(vw_free(r->pool, blocks[7]));
    blocks[0] = blocks[4] = blocks[6] = blocks[7] = VW_NULL;
    assert_int_equal(vw_device_complete(r->device, 2), VW_OK);
    blocks[0] = take(r, 800, 0); /* looks at events */
    assert_int_equal(vw_device_complete(r->device, 1), VW_OK);
    blocks[4] = take(r, 50 * VW_TEST_MIB, 0);
}

/* Begins the scope whatever happens inside; ends it if it began. */
static void use_private_pool(run *r, vw_private_id id)
{
    const vw_private_options options = {.struct_size = sizeof options, .use_on_oom = true};
    vw_status retained = vw_private_pool_retain(r->pool, id, &options);
    STEP(retained);
    vw_status begun = vw_private_pool_begin(r->pool, id, NULL, NULL);
    STEP(begun);
    if (begun == VW_OK) {
        vw_device_ptr small = take(r, 2000, 0), large = take(r, 25 * VW_TEST_MIB, 0);
        STEP(vw_record_stream(r->pool, small, 1));
        STEP(vw_free(r->pool, small)); /* deferred */
        STEP(vw_free(r->pool, large));
        vw_device_ptr other = take(r, 3 * VW_TEST_MIB, 1);
        STEP(vw_private_pool_end(r->pool, id));
        STEP(vw_free(r->pool, take(r, 900, 0)));
        STEP(vw_free(r->pool, other));
        STEP(vw_private_pool_release(r->pool, id));
    }
    if (retained == VW_OK)
        STEP(vw_private_pool_release(r->pool, id));
    STEP(vw_private_pool_trim(r->pool, id));
}

static void run_short(run *r)
{
    vw_device_ptr address = VW_NULL;
    STEP(vw_pool_set_fraction(r->pool, 0.25));
    vw_status status = vw_alloc(r->pool, 250 * VW_TEST_MIB, 2, &address);
    step(r, status, VW_ERR_OUT_OF_MEMORY, __LINE__);
    assert_int_equal(address, VW_NULL);
    STEP(vw_free(r->pool, take(r, 70 * VW_TEST_MIB, 2))); /* the cache is emptied for it */
    STEP(vw_free(r->pool, take(r, 40 * VW_TEST_MIB, 0)));
    STEP(vw_free(r->pool, take(r, 100 * VW_TEST_MIB, 0)));
    STEP(vw_pool_set_fraction(r->pool, 1.0));
}

static void do_everything(run *r)
{
    vw_device_ptr blocks[8] = {VW_NULL};
    const vw_private_id id = {3, 1};
    const vw_event_sink sink = {NULL, ignore_event};
    STEP(vw_pool_set_sink(r->pool, &sink));
    use_streams(r, blocks);
    use_private_pool(r, id);
    if (blocks[1] != VW_NULL) {
        STEP(vw_free(r->pool, blocks[1]));
        take_at(r, blocks[1], 512);
        take_at(r, blocks[1] + 1024, 512);
        blocks[1] = VW_NULL;
    }
    run_short(r);
    STEP(vw_pool_configure(r->pool, "expandable_segments:True,max_split_size_mb:64"));
    blocks[6] = take(r, 33 * VW_TEST_MIB, 0);
    STEP(vw_pool_configure(r->pool, r->conf));
    blocks[7] = take(r, 34 * VW_TEST_MIB, 0);
    STEP(vw_pool_walk_stats(r->pool, ignore_stat, NULL));
    STEP(vw_pool_trim(r->pool));
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        STEP(vw_free(r->pool, blocks[i]));
    STEP(vw_pool_trim(r->pool));
}

/* Nothing fails any more, so nothing may. */
static void serve_on(run *r)
{
    r->has_failed = false;
    STEP(vw_pool_set_fraction(r->pool, 1.0));
    for (vw_stream stream = 0; stream < 3; stream++) {
        vw_device_ptr small = take(r, 3000, stream), large = take(r, 21 * VW_TEST_MIB, stream);
        STEP(vw_record_stream(r->pool, small, 7));
        STEP(vw_free(r->pool, small));
        STEP(vw_free(r->pool, large));
    }
    STEP(vw_pool_trim(r->pool));
    assert_false(r->has_failed);
    vw_pool_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_stats(r->pool, &stats), VW_OK);
    assert_int_equal(stats.active.all.current, 0);
    assert_int_equal(stats.reserved_bytes.all.current, 0);
}

static vw_status create_pool(run *r)
{
    const vw_pool_options options = {.struct_size = sizeof options, .conf = r->conf};
    return vw_pool_create(&r->watched, &options, &r->pool);
}

/* ---- host memory ----------------------------------------------------------------------------- */

static bool run_with_host_failure(void *context)
{
    run r;
    if (!run_open(&r, context))
        return false;
    if (create_pool(&r) != VW_OK) {
        assert_null(r.pool);
        run_close(&r);
        return false;
    }
    do_everything(&r);
    bool has_succeeded = !r.has_failed;
    vw__host_memory_fail_at(0);
    serve_on(&r);
    run_close(&r);
    assert_int_equal(watch.lost_bytes, 0);
    return has_succeeded;
}

/* ---- device calls ---------------------------------------------------------------------------- */

static uint64_t total_calls(const run *r)
{
    vw_device_calls calls;
    uint64_t total = 0;
    assert_int_equal(vw_device_get_calls(r->device, &calls), VW_OK);
    for (int kind = 0; kind < VW_DEVICE_CALL_KINDS; kind++)
        total += calls.count[kind];
    return total;
}

static void sweep_device_calls(const char *conf, vw_status failure)
{
    for (uint64_t nth = 1; nth < MOST_RUNS; nth++) {
        run r;
        assert_true(run_open(&r, conf));
        assert_int_equal(create_pool(&r), VW_OK);
        assert_int_equal(vw_device_fail_call(r.device, nth, failure), VW_OK);
        do_everything(&r);
        bool was_struck = total_calls(&r) >= nth, has_failed = r.has_failed;
        assert_int_equal(vw_device_fail_call(r.device, 0, failure), VW_OK);
        serve_on(&r);
        run_close(&r);
        if (!was_struck) {
            assert_false(has_failed);
            assert_true(nth > 50); /* or the scenario is no scenario */
            return;
        }
    }
    fail_msg("no end after %d runs", MOST_RUNS);
}

/* The last calls of all: a pool with something in every corner ends, and one call fails. */
static void sweep_the_end(const char *conf)
{
    for (uint64_t nth = 1; nth < MOST_RUNS; nth++) {
        run r_itself, *r = &r_itself;
        vw_device_ptr blocks[8];
        assert_true(run_open(r, conf));
        assert_int_equal(create_pool(r), VW_OK);
        use_streams(r, blocks);
        STEP(vw_private_pool_begin(r->pool, (vw_private_id){1, 1}, NULL, NULL));
        take(r, 1000, 0);
        take(r, 22 * VW_TEST_MIB, 1);
        assert_false(r->has_failed);
        uint64_t calls_before = total_calls(r), calls = 0;
        vw_device_calls at_end;
        assert_int_equal(vw_device_fail_call(r->device, nth, VW_ERR_DEVICE), VW_OK);
        watch.is_ending = true;
        vw_pool_destroy(r->pool);
        calls = total_calls(r) - calls_before;
        assert_int_equal(vw_device_get_calls(r->device, &at_end), VW_OK);
        assert_int_equal(at_end.in_use_bytes, watch.lost_bytes);
        vw_device_destroy(r->device);
        if (calls < nth) {
            assert_int_equal(watch.lost_bytes, 0);
            assert_true(nth > 4);
            return;
        }
    }
    fail_msg("no end after %d runs", MOST_RUNS);
}

/* ---- two failures in a row ------------------------------------------------------------------- */

static uint64_t count_of(const run *r, vw_device_call kind)
{
    vw_device_calls calls;
    assert_int_equal(vw_device_get_calls(r->device, &calls), VW_OK);
    return calls.count[kind];
}

/* Growing by two pages fails at its last call, and so does taking it back: the pages stay mapped,
 * and nobody uses them. The next growth must find them; if none comes, the end of the segment. */
static void pages_that_a_failed_growth_could_not_unmap_are_not_lost(void **state)
{
    (void)state;
    for (int grows_again = 0; grows_again < 2; grows_again++) {
        run r_itself, *r = &r_itself;
        assert_true(run_open(r, "expandable_segments:True"));
        assert_int_equal(create_pool(r), VW_OK);
        vw_device_ptr first = take(r, 20 * VW_TEST_MIB, 0), second = VW_NULL;
        assert_false(r->has_failed);
        assert_int_equal(vw_device_fail_call(r->device, 5, VW_ERR_DEVICE), VW_OK);
        watch.stuck = 2; /* create, create, map, map, set_access: fails, and both are stuck */
        assert_int_equal(vw_alloc(r->pool, 40 * VW_TEST_MIB, 0, &second), VW_ERR_DEVICE);
        assert_int_equal(watch.stuck, 0);
        assert_int_equal(vw_pool_check(r->pool), VW_OK);
        uint64_t creates = count_of(r, VW_DEVICE_CALL_CREATE);
        if (grows_again) {
            second = take(r, 40 * VW_TEST_MIB, 0);
            assert_int_equal(count_of(r, VW_DEVICE_CALL_CREATE), creates);
        }
        STEP(vw_free(r->pool, first));
        STEP(vw_free(r->pool, second));
        serve_on(r);
        run_close(r);
    }
}

/* ---- the cases ------------------------------------------------------------------------------- */

static const char native[] = "";
static const char expandable[] = "expandable_segments:True";
static const char collecting[] = "max_split_size_mb:40,garbage_collection_threshold:0.6";

static void each_host_allocation_may_fail_native(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(run_with_host_failure, (void *)(uintptr_t)native);
}

static void each_host_allocation_may_fail_expandable(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(run_with_host_failure, (void *)(uintptr_t)expandable);
}

static void each_host_allocation_may_fail_with_max_split_and_collection(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(run_with_host_failure, (void *)(uintptr_t)collecting);
}

static void each_device_call_may_fail_native(void **state)
{
    (void)state;
    sweep_device_calls(native, VW_ERR_DEVICE);
}

static void each_device_call_may_fail_expandable(void **state)
{
    (void)state;
    sweep_device_calls(expandable, VW_ERR_DEVICE);
}

static void each_device_call_may_fail_with_max_split_and_collection(void **state)
{
    (void)state;
    sweep_device_calls(collecting, VW_ERR_DEVICE);
}

static void each_device_call_may_run_out_of_memory_native(void **state)
{
    (void)state;
    sweep_device_calls(native, VW_ERR_OUT_OF_MEMORY);
}

static void each_device_call_may_run_out_of_memory_expandable(void **state)
{
    (void)state;
    sweep_device_calls(expandable, VW_ERR_OUT_OF_MEMORY);
}

static void each_device_call_may_run_out_of_memory_with_max_split_and_collection(void **state)
{
    (void)state;
    sweep_device_calls(collecting, VW_ERR_OUT_OF_MEMORY);
}

static void each_call_of_the_end_may_fail(void **state)
{
    (void)state;
    sweep_the_end(native);
    sweep_the_end(expandable);
    sweep_the_end(collecting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_host_allocation_may_fail_native),
        cmocka_unit_test(each_host_allocation_may_fail_expandable),
        cmocka_unit_test(each_host_allocation_may_fail_with_max_split_and_collection),
        cmocka_unit_test(each_device_call_may_fail_native),
        cmocka_unit_test(each_device_call_may_fail_expandable),
        cmocka_unit_test(each_device_call_may_fail_with_max_split_and_collection),
        cmocka_unit_test(each_device_call_may_run_out_of_memory_native),
        cmocka_unit_test(each_device_call_may_run_out_of_memory_expandable),
        cmocka_unit_test(each_device_call_may_run_out_of_memory_with_max_split_and_collection),
        cmocka_unit_test(each_call_of_the_end_may_fail),
        cmocka_unit_test(pages_that_a_failed_growth_could_not_unmap_are_not_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
