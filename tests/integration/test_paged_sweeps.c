/* test_paged_sweeps.c - engine "vramwise", and every failure there is: the n-th device call, for
 * every n, and the n-th host allocation, in a scenario with misses, moves between streams and back,
 * pending blocks, pins, private pools, one of them of whole segments, a limit and trims.
 *
 * After every step that fails, and some that do not, the pool is walked and checked; after every
 * run it serves a fixed sequence and gives everything back. What the device itself refuses to take
 * back for good may be missing at the end, and not a byte more. With every second call failing too,
 * the pool may have failed: then it must say so, and end. */
#include "vramwise/vramwise.h"

#include <inttypes.h>
#include <string.h>

#include "base/host_memory.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/pool_fixture.h"

enum { MOST_HELD = 4096, MOST_RUNS = 6000, BLOCKS = 12 };

#define CAPACITY_BYTES (96 * VW_TEST_MIB)

/* ---- a device that is watched ---------------------------------------------------------------- */

static struct {
    const vw_device_table *real;
    struct {
        vw_handle handle;
        uint64_t size_bytes;
    } held[MOST_HELD];
    size_t held_count;
    uint64_t lost_bytes; /* the device would not take it back, and nobody will ask again */
    bool is_ending;
    unsigned stuck; /* how many more calls of unmap() are refused */
} watch;

static vw_status watched_create(void *context, uint64_t size_bytes, vw_handle *out)
{
    vw_status status = watch.real->create(context, size_bytes, out);
    if (status == VW_OK) {
        assert_true(watch.held_count < MOST_HELD);
        watch.held[watch.held_count].handle = *out;
        watch.held[watch.held_count++].size_bytes = size_bytes;
    }
    return status;
}

static vw_status watched_release(void *context, vw_handle handle)
{
    vw_status status = watch.real->release(context, handle);
    size_t i = watch.held_count;
    while (i > 0 && watch.held[i - 1].handle != handle)
        i--;
    assert_true(i > 0);
    if (status != VW_OK)
        watch.lost_bytes += watch.held[i - 1].size_bytes;
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
        watch.lost_bytes += size_bytes;
    return status;
}

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct run {
    vw_device *device;
    vw_device watched;
    vw_device_table table;
    vw_pool *pool;
    uint64_t step_count;
    bool has_failed;  /* some step did not do what it does when nothing fails */
    bool may_give_up; /* the pool itself may have failed */
} run;

static bool run_open(run *r)
{
    *r = (run){.pool = NULL};
    const vw_simulated_options options = {
        .struct_size = sizeof options, .capacity_bytes = CAPACITY_BYTES, .manual_streams = true};
    if (vw_simulated_device_create(&options, &r->device) != VW_OK)
        return false;
    r->table = *r->device->table;
    r->table.create = watched_create;
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

static void run_close(run *r)
{
    vw_device_calls calls;
    watch.is_ending = true;
    vw_pool_destroy(r->pool);
    assert_int_equal(vw_device_get_calls(r->device, &calls), VW_OK);
    assert_int_equal(calls.in_use_bytes, watch.lost_bytes);
    vw_device_destroy(r->device);
}

static bool has_given_up(const run *r)
{
    vw_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_paged_stats(r->pool, &stats), VW_OK);
    assert_true(r->may_give_up || !stats.is_failed);
    return stats.is_failed;
}

static void step(run *r, vw_status status, vw_status expected, int line)
{
    bool is_failure =
        status == VW_ERR_HOST_MEMORY || status == VW_ERR_DEVICE || status == VW_ERR_OUT_OF_MEMORY;
    if (status != expected && !is_failure) {
        print_error("%s: %s\n", vw_status_name(status), vw_last_error());
        _fail(__FILE__, line);
    }
    bool is_due = status != expected || r->step_count++ % 8 == 0;
    r->has_failed |= status != expected;
    if (is_due && !has_given_up(r) && vw_pool_check(r->pool) != VW_OK) {
        print_error("%s\n", vw_last_error());
        _fail(__FILE__, line);
    }
}

#define STEP(call) step(r, call, VW_OK, __LINE__)

static vw_device_ptr take(run *r, uint64_t size_bytes, vw_stream stream)
{
    vw_device_ptr address = VW_NULL;
    STEP(vw_alloc(r->pool, size_bytes, stream, &address));
    return address;
}

static void drop(run *r, vw_device_ptr *address)
{
    STEP(vw_free(r->pool, *address));
    *address = VW_NULL;
}

/* ---- the scenario ---------------------------------------------------------------------------- */

/* The same memory on two streams, in turns: it moves, and is revived. */
static void alternate(run *r)
{
    for (int round = 0; round < 4; round++) {
        vw_stream stream = (vw_stream)(round % 2);
        vw_device_ptr large = take(r, 36 * VW_TEST_MIB, stream);
        vw_device_ptr small = take(r, 3000, stream);
        drop(r, &large);
        drop(r, &small);
    }
}

/* Holes between live blocks are moved together, and fill again. */
static void fragment(run *r, vw_device_ptr *blocks)
{
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(r, (uint64_t)(2 + i % 3) * VW_TEST_MIB, (vw_stream)(i % 2));
    for (int i = 0; i < BLOCKS; i += 2)
        drop(r, &blocks[i]);
    blocks[0] = take(r, 14 * VW_TEST_MIB, 1);
    STEP(vw_record_stream(r->pool, blocks[1], 2));
    STEP(vw_record_stream(r->pool, blocks[3], 2));
    if (blocks[5] != VW_NULL) {
        vw_status pinned = vw_pool_pin(r->pool, blocks[5]);
        STEP(pinned);
        vw_device_ptr address = blocks[5];
        drop(r, &blocks[5]);
        blocks[2] = take(r, 6 * VW_TEST_MIB, 2);
        if (pinned == VW_OK)
            STEP(vw_pool_unpin(r->pool, address));
    }
    drop(r, &blocks[1]);
    drop(r, &blocks[3]);
    assert_int_equal(vw_device_complete(r->device, 2), VW_OK);
    blocks[1] = take(r, 5 * VW_TEST_MIB, 0);
}

static void use_private_pool(run *r)
{
    const vw_private_id id = {3, 1};
    vw_status begun = vw_private_pool_begin(r->pool, id, NULL, NULL);
    STEP(begun);
    if (begun != VW_OK)
        return;
    vw_device_ptr inside = take(r, 9 * VW_TEST_MIB, 1), other = take(r, 700, 1);
    STEP(vw_free(r->pool, inside));
    STEP(vw_private_pool_end(r->pool, id));
    STEP(vw_free(r->pool, take(r, 9 * VW_TEST_MIB, 0)));
    STEP(vw_free(r->pool, other));
    STEP(vw_private_pool_release(r->pool, id));
    STEP(vw_free(r->pool, take(r, 20 * VW_TEST_MIB, 0))); /* takes what the pool had */
    STEP(vw_private_pool_trim(r->pool, id));
}

/* Its segments take the place of idle pages, and others theirs. */
static void use_whole_pool(run *r)
{
    const vw_private_id id = {4, 1};
    const vw_private_options options = {.struct_size = sizeof options, .one_handle = true};
    vw_status retained = vw_private_pool_retain(r->pool, id, &options);
    STEP(retained);
    if (retained != VW_OK)
        return;
    STEP(vw_free(r->pool, take(r, 80 * VW_TEST_MIB, 0)));
    vw_status begun = vw_private_pool_begin(r->pool, id, NULL, NULL);
    STEP(begun);
    if (begun == VW_OK) {
        vw_device_ptr large = take(r, 30 * VW_TEST_MIB, 1), small = take(r, 700, 1);
        drop(r, &large);
        large = take(r, 28 * VW_TEST_MIB, 1);
        drop(r, &small);
        STEP(vw_private_pool_end(r->pool, id));
        drop(r, &large);
        STEP(vw_private_pool_release(r->pool, id));
    }
    STEP(vw_private_pool_release(r->pool, id));
    STEP(vw_free(r->pool, take(r, 80 * VW_TEST_MIB, 0)));
    STEP(vw_private_pool_trim(r->pool, id));
}

/* Nearly all of the device, and more than it has. */
static void run_short(run *r)
{
    vw_device_ptr none = VW_NULL;
    step(r, vw_alloc(r->pool, 95 * VW_TEST_MIB, 2, &none), VW_ERR_OUT_OF_MEMORY, __LINE__);
    assert_int_equal(none, VW_NULL);
    STEP(vw_free(r->pool, take(r, 30 * VW_TEST_MIB, 2)));
    STEP(vw_free(r->pool, take(r, 300 * VW_TEST_KIB, 2)));
}

static void do_everything(run *r)
{
    vw_device_ptr blocks[BLOCKS] = {VW_NULL};
    alternate(r);
    fragment(r, blocks);
    use_private_pool(r);
    run_short(r);
    STEP(vw_pool_trim(r->pool));
    blocks[5] = take(r, 11 * VW_TEST_MIB, 2);
    for (int i = 0; i < BLOCKS; i++)
        drop(r, &blocks[i]);
    alternate(r);
    use_whole_pool(r);
    STEP(vw_pool_trim(r->pool));
}

/* Nothing fails any more, so nothing may. */
static void serve_on(run *r)
{
    r->has_failed = false;
    for (vw_stream stream = 0; stream < 3; stream++) {
        vw_device_ptr small = take(r, 3000, stream), large = take(r, 60 * VW_TEST_MIB, stream);
        STEP(vw_record_stream(r->pool, small, 7));
        STEP(vw_free(r->pool, small));
        STEP(vw_free(r->pool, large));
    }
    STEP(vw_pool_trim(r->pool));
    assert_int_equal(vw_pool_check(r->pool), VW_OK);
    assert_false(r->has_failed);
    vw_pool_stats stats = {.struct_size = sizeof stats};
    vw_paged_stats paged = {.struct_size = sizeof paged};
    assert_int_equal(vw_pool_get_stats(r->pool, &stats), VW_OK);
    assert_int_equal(vw_pool_get_paged_stats(r->pool, &paged), VW_OK);
    assert_int_equal(stats.active.all.current, 0);
    assert_int_equal(stats.reserved_bytes.all.current, 0);
    assert_int_equal(paged.retiring_bytes, 0);
    assert_int_equal(paged.handle_count, 0);
}

static bool always(void *context)
{
    (void)context;
    return true;
}

static void leave(void *context)
{
    (void)context;
}

static vw_status create_pool(run *r, const char *engine)
{
    const vw_pool_options options = {.struct_size = sizeof options,
                                     .engine = engine,
                                     .idle_share = 0.0001,
                                     .idle_floor_bytes = 2 * VW_TEST_MIB,
                                     .safe_point = {always, leave, NULL}};
    return vw_pool_create(&r->watched, &options, &r->pool);
}

/* ---- the sweeps ------------------------------------------------------------------------------ */

static bool run_with_host_failure(void *context)
{
    run r;
    if (!run_open(&r))
        return false;
    if (create_pool(&r, context) != VW_OK) {
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

static uint64_t total_calls(const run *r)
{
    vw_device_calls calls;
    uint64_t total = 0;
    assert_int_equal(vw_device_get_calls(r->device, &calls), VW_OK);
    for (int kind = 0; kind < VW_DEVICE_CALL_KINDS; kind++)
        total += calls.count[kind];
    return total;
}

/* With `stuck`, the unmap that would undo the failed call is refused as well. */
static void sweep_device_calls(const char *engine, vw_status failure, unsigned stuck)
{
    uint64_t given_up = 0;
    for (uint64_t nth = 1; nth < MOST_RUNS; nth++) {
        run r;
        assert_true(run_open(&r));
        assert_int_equal(create_pool(&r, engine), VW_OK);
        r.may_give_up = stuck != 0;
        assert_int_equal(vw_device_fail_call(r.device, nth, failure), VW_OK);
        watch.stuck = stuck;
        do_everything(&r);
        bool was_struck = total_calls(&r) >= nth, has_failed = r.has_failed;
        assert_int_equal(vw_device_fail_call(r.device, 0, failure), VW_OK);
        watch.stuck = 0;
        if (has_given_up(&r))
            given_up++;
        else
            serve_on(&r);
        run_close(&r);
        if (!was_struck) {
            assert_false(has_failed && stuck == 0);
            assert_true(nth > 200); /* or the scenario is no scenario */
            assert_int_equal(given_up != 0, stuck != 0);
            return;
        }
    }
    fail_msg("no end after %d runs", MOST_RUNS);
}

/* The last calls of all: a pool with something in every corner ends, and one call fails. */
static void sweep_the_end(const char *engine)
{
    for (uint64_t nth = 1; nth < MOST_RUNS; nth++) {
        run r_itself, *r = &r_itself;
        vw_device_ptr blocks[BLOCKS] = {VW_NULL};
        vw_device_calls at_end;
        assert_true(run_open(r));
        assert_int_equal(create_pool(r, engine), VW_OK);
        alternate(r);
        fragment(r, blocks);
        STEP(vw_private_pool_begin(r->pool, (vw_private_id){1, 1}, NULL, NULL));
        take(r, 1000, 0);
        assert_false(r->has_failed);
        uint64_t calls_before = total_calls(r);
        assert_int_equal(vw_device_fail_call(r->device, nth, VW_ERR_DEVICE), VW_OK);
        watch.is_ending = true;
        vw_pool_destroy(r->pool);
        uint64_t calls = total_calls(r) - calls_before;
        assert_int_equal(vw_device_get_calls(r->device, &at_end), VW_OK);
        assert_int_equal(at_end.in_use_bytes, watch.lost_bytes);
        vw_device_destroy(r->device);
        if (calls < nth) {
            assert_int_equal(watch.lost_bytes, 0);
            assert_true(nth > 20);
            return;
        }
    }
    fail_msg("no end after %d runs", MOST_RUNS);
}

/* ---- the cases ------------------------------------------------------------------------------- */

static const char *const modes[] = {"vramwise", "vramwise:rescue", "vramwise:tight"};

static void each_host_allocation_may_fail(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        vw_test_sweep_host_memory(run_with_host_failure, (void *)(uintptr_t)modes[i]);
}

static void each_device_call_may_fail(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        sweep_device_calls(modes[i], VW_ERR_DEVICE, 0);
}

static void each_device_call_may_run_out_of_memory(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        sweep_device_calls(modes[i], VW_ERR_OUT_OF_MEMORY, 0);
}

static void each_device_call_may_fail_and_its_undoing_too(void **state)
{
    (void)state;
    sweep_device_calls(modes[0], VW_ERR_DEVICE, 1);
    sweep_device_calls(modes[0], VW_ERR_OUT_OF_MEMORY, 1);
}

static void each_call_of_the_end_may_fail(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        sweep_the_end(modes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_host_allocation_may_fail),
        cmocka_unit_test(each_device_call_may_fail),
        cmocka_unit_test(each_device_call_may_run_out_of_memory),
        cmocka_unit_test(each_device_call_may_fail_and_its_undoing_too),
        cmocka_unit_test(each_call_of_the_end_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
