/* test_paged_late_work.c - work on streams runs long after the calls that allocated and freed its
 * memory, as on a GPU; whatever moves meanwhile, it finds its bytes.
 *
 * The program is a random one: it takes blocks for streams, queues work that writes and later reads
 * them, sometimes on a second stream (with vw_record_stream()), and frees them with the work still
 * in the queue. Streams run a little now and then, none of them in step (support/late_device.h).
 * The device is hardly larger than what is live, so that memory goes from one stream to the other
 * all the time, while its last work has not begun. */
#include "vramwise/vramwise.h"

#include <string.h>

#include "pool/pool.h" /* the engine's table */
#include "support/cmocka_here.h"
#include "support/late_device.h"
#include "support/pool_fixture.h"

enum { MOST_LIVE = 24, STEPS = 1500 };

typedef struct live_block {
    vw_device_ptr address;
    uint64_t size_bytes;
    uint64_t key;
    vw_stream stream;
} live_block;

typedef struct program {
    vw_device *host;
    vw_pool *pool;
    uint64_t random;
    live_block live[MOST_LIVE];
    size_t live_count;
    uint64_t served, refused, late_frees;
    bool gives_back; /* slices of idle memory, at any time */
} program;

static uint64_t dice(program *p, uint64_t sides)
{
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return (p->random >> 9) % sides;
}

static void check(program *p, vw_status status)
{
    if (status != VW_OK || vw_pool_check(p->pool) != VW_OK)
        fail_msg("%s: %s", vw_status_name(status), vw_last_error());
}

/* The program has one thread, which is in the pool: it starts no work meanwhile. */
static bool enter(void *context)
{
    (void)context;
    return true;
}

static void leave(void *context)
{
    (void)context;
}

/* `engine` NULL: "vramwise" without safe points. */
static void program_open(program *p, const char *engine, uint64_t capacity_bytes, uint64_t seed)
{
    bool is_never_safe = engine == NULL;
    *p = (program){.random = seed * UINT64_C(0x9E3779B97F4A7C15) + 1};
    assert_int_equal(vw_host_device_create(capacity_bytes, &p->host), VW_OK);
    const vw_pool_options options = {
        .struct_size = sizeof options,
        .engine = is_never_safe ? "vramwise" : engine,
        .idle_share = 0.001,
        .idle_floor_bytes = 2 * VW_TEST_MIB,
        .safe_point = {is_never_safe ? NULL : enter, is_never_safe ? NULL : leave, NULL}};
    check(p, vw_pool_create(vw_test_late_begin(p->host), &options, &p->pool));
}

static void program_close(program *p)
{
    vw_device_calls calls;
    assert_int_equal(vw_pool_check(p->pool), VW_OK);
    vw_pool_destroy(p->pool);
    vw_test_late_run_all();
    assert_int_equal(vw_test_late_wrong_marks(), 0);
    assert_int_equal(vw_device_get_calls(p->host, &calls), VW_OK);
    assert_int_equal(calls.in_use_bytes, 0);
    vw_test_late_end();
    vw_device_destroy(p->host);
}

static vw_paged_stats paged_stats(const program *p)
{
    vw_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_paged_stats(p->pool, &stats), VW_OK);
    return stats;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void take(program *p, uint64_t size_bytes, vw_stream stream)
{
    live_block *block = &p->live[p->live_count];
    *block = (live_block){.size_bytes = size_bytes, .key = dice(p, UINT64_MAX), .stream = stream};
    vw_status status = vw_alloc(p->pool, size_bytes, stream, &block->address);
    if (status == VW_ERR_OUT_OF_MEMORY) {
        p->refused++;
        return;
    }
    check(p, status);
    p->served++;
    p->live_count++;
    vw_test_late_write(stream, block->address, size_bytes, block->key);
}

static void drop(program *p, size_t which)
{
    const live_block block = p->live[which];
    p->live[which] = p->live[--p->live_count];
    vw_test_late_look(block.stream, block.address, block.size_bytes, block.key);
    if (dice(p, 5) == 0) {
        vw_stream other = (block.stream + 1 + dice(p, 3)) % VW_TEST_LATE_STREAMS;
        vw_test_late_order(other, block.stream);
        vw_test_late_look(other, block.address, block.size_bytes, block.key);
        check(p, vw_record_stream(p->pool, block.address, other));
    }
    p->late_frees += vw_test_late_waiting() != 0;
    check(p, vw_free(p->pool, block.address));
}

/* As the pool's thread does it for keep_free, with work in every queue. */
static void give_back(program *p)
{
    vw__engine *engine = p->pool->engine;
    vw__engine_slice slice = {.wanted_bytes = dice(p, 8) * VW_TEST_MIB, .most_handles = dice(p, 8)};
    check(p, engine->table->give_back(engine, &slice));
}

static void do_something(program *p)
{
    uint64_t what = dice(p, 100);
    if (p->gives_back && dice(p, 3) == 0)
        give_back(p);
    if (what < 40 && p->live_count < MOST_LIVE) {
        uint64_t top = UINT64_C(1) << (12 + dice(p, 11));
        take(p, top + dice(p, top), dice(p, VW_TEST_LATE_STREAMS));
    } else if (what < 76 && p->live_count > 0) {
        drop(p, dice(p, p->live_count));
    } else if (what < 98) {
        vw_stream stream = dice(p, VW_TEST_LATE_STREAMS);
        for (uint64_t i = dice(p, 12); i > 0 && vw_test_late_run_one(stream); i--)
            continue;
    } else if (what == 98 && dice(p, 4) == 0) {
        check(p, vw_pool_trim(p->pool));
    }
    assert_int_equal(vw_test_late_wrong_marks(), 0);
}

/* ---- the runs -------------------------------------------------------------------------------- */

static void run_late(const char *engine, uint64_t *copied_bytes)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        program p;
        program_open(&p, engine, 40 * VW_TEST_MIB, seed);
        for (int step = 0; step < STEPS; step++)
            do_something(&p);
        vw_paged_stats stats = paged_stats(&p);
        print_message("%llu served, %llu refused, %llu freed early, %llu handles across streams, "
                      "%llu bytes copied\n",
                      (unsigned long long)p.served, (unsigned long long)p.refused,
                      (unsigned long long)p.late_frees, (unsigned long long)stats.crossed_handles,
                      (unsigned long long)stats.copied_bytes);
        assert_true(stats.crossed_handles > 200 && p.late_frees > p.served / 2);
        *copied_bytes += stats.copied_bytes;
        program_close(&p);
    }
}

static void late_work_finds_its_bytes_whatever_moves(void **state)
{
    (void)state;
    uint64_t copied_bytes = 0;
    run_late(NULL, &copied_bytes);
    assert_int_equal(copied_bytes, 0);
}

/* Memory goes back to the device only behind the last work that uses it, at all its addresses. */
static void late_work_finds_its_bytes_whatever_is_given_back(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        program p;
        program_open(&p, "vramwise", 40 * VW_TEST_MIB, seed);
        p.gives_back = true;
        for (int step = 0; step < STEPS; step++)
            do_something(&p);
        vw_paged_stats stats = paged_stats(&p);
        print_message("%llu served, %llu freed early, %llu bytes given back\n",
                      (unsigned long long)p.served, (unsigned long long)p.late_frees,
                      (unsigned long long)stats.given_back_bytes);
        assert_true(stats.given_back_bytes > 8 * VW_TEST_MIB && p.late_frees > p.served / 2);
        program_close(&p);
    }
}

/* Live data is copied at a safe point, which the queued work comes before: the device is waited
 * for. */
static void late_work_finds_its_bytes_whatever_is_copied(void **state)
{
    (void)state;
    uint64_t copied_bytes = 0;
    run_late("vramwise", &copied_bytes);
    run_late("vramwise:tight", &copied_bytes);
    assert_true(copied_bytes > 0);
}

/* The same case by hand: the last work of a block begins after its memory has a new owner. */
static void work_that_begins_after_its_memory_moved_reads_through_the_old_address(void **state)
{
    (void)state;
    program p;
    program_open(&p, "vramwise", 16 * VW_TEST_MIB, 1);
    take(&p, 15 * VW_TEST_MIB, 0);
    vw_device_ptr old_address = p.live[0].address;
    vw_test_late_look(0, old_address, p.live[0].size_bytes, p.live[0].key);
    check(&p, vw_free(p.pool, old_address));
    p.live_count = 0;
    take(&p, 15 * VW_TEST_MIB, 1); /* its write waits for stream 0 */
    assert_true(paged_stats(&p).crossed_handles > 0);
    assert_true(p.live[0].address != old_address);
    while (vw_test_late_run_one(1)) /* as far as it can: the write has not run */
        continue;
    assert_true(vw_test_late_waiting() > 0);
    const unsigned char *byte = (const unsigned char *)(uintptr_t)old_address;
    assert_int_equal(*byte, 0); /* mapped, and nobody has written it yet */
    while (vw_test_late_run_one(0))
        continue;
    assert_int_equal(vw_test_late_wrong_marks(), 0);
    vw_test_late_run_all();
    vw_test_late_look(1, p.live[0].address, p.live[0].size_bytes, p.live[0].key);
    program_close(&p);
}

/* The end of a pool waits for the work that uses it: an unmapping would not. */
static void the_end_of_a_pool_waits_for_work(void **state)
{
    (void)state;
    program p;
    program_open(&p, "vramwise", 40 * VW_TEST_MIB, 1);
    for (vw_stream stream = 0; stream < VW_TEST_LATE_STREAMS; stream++) {
        take(&p, 5 * VW_TEST_MIB, stream);
        vw_test_late_look(stream, p.live[stream].address, 5 * VW_TEST_MIB, p.live[stream].key);
    }
    check(&p, vw_free(p.pool, p.live[0].address));
    program_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_work_finds_its_bytes_whatever_moves),
        cmocka_unit_test(late_work_finds_its_bytes_whatever_is_given_back),
        cmocka_unit_test(late_work_finds_its_bytes_whatever_is_copied),
        cmocka_unit_test(work_that_begins_after_its_memory_moved_reads_through_the_old_address),
        cmocka_unit_test(the_end_of_a_pool_waits_for_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
