/* test_paged_limits.c - a pool under a limit, its own or the device's: it is kept to the byte, and
 * a request is given up only if it cannot fit in handles.
 *
 * The judge is a plain count, over the engine's list of handles, of those that lie wholly inside
 * free blocks: as the memory of one can be used at any address, they and what the limit leaves are
 * enough for a request, or it must fail. */
#include "engine/paged/paged_engine.h"

#include <stdlib.h>

#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/pool_fixture.h"

#define UNIT (2 * VW_TEST_MIB)

enum { MOST_LIVE = 48, MOST_RANGES = 4096, STEPS = 1500, SEEDS = 6, STREAMS = 3 };

typedef struct limited {
    vw_test_pool t;
    uint64_t limit_bytes;
    uint64_t random;
    vw_device_ptr live[MOST_LIVE];
    size_t live_count;
    uint64_t served, refused;
} limited;

static uint64_t next_random(limited *l)
{
    l->random ^= l->random << 13;
    l->random ^= l->random >> 7;
    l->random ^= l->random << 17;
    return l->random >> 8;
}

/* ---- the judge ------------------------------------------------------------------------------- */

typedef struct ranges {
    struct {
        vw_device_ptr address;
        uint64_t size_bytes;
    } free[MOST_RANGES];
    size_t count;
} ranges;

static bool keep_free_block(void *context, const vw_segment_info *segment,
                            const vw_block_info *block)
{
    ranges *found = context;
    if (block->state != VW_BLOCK_FREE || segment->private_id.first != 0)
        return true;
    assert_true(found->count < MOST_RANGES);
    found->free[found->count].address = block->address;
    found->free[found->count++].size_bytes = block->size_bytes;
    return true;
}

static uint64_t free_handle_bytes(const limited *l)
{
    static ranges found;
    uint64_t bytes = 0;
    found.count = 0;
    const vw_walker walker = {.context = &found, .block = keep_free_block};
    assert_int_equal(vw_pool_walk(l->t.pool, &walker, false), VW_OK);
    const vw__paged_engine *engine = vw__paged_of(l->t.pool->engine);
    for (const vw__paged_handle *handle = engine->handles; handle != NULL; handle = handle->next)
        for (size_t i = 0; i < found.count; i++)
            if (handle->home->address >= found.free[i].address &&
                handle->home->address + handle->size_bytes <=
                    found.free[i].address + found.free[i].size_bytes)
                bytes += handle->size_bytes;
    return bytes;
}

static void judge_refusal(const limited *l, uint64_t size_bytes)
{
    uint64_t held_bytes = (uint64_t)vw_test_stats(&l->t).reserved_bytes.all.current;
    uint64_t room_bytes = (l->limit_bytes - held_bytes) / UNIT * UNIT;
    uint64_t wanted_bytes = (size_bytes + UNIT - 1) / UNIT * UNIT;
    uint64_t free_bytes = free_handle_bytes(l);
    if (free_bytes + room_bytes >= wanted_bytes)
        fail_msg("refused %llu bytes, though %llu are free in whole handles and %llu can be had",
                 (unsigned long long)size_bytes, (unsigned long long)free_bytes,
                 (unsigned long long)room_bytes);
}

/* ---- the workload ---------------------------------------------------------------------------- */

static void take_or_drop(limited *l)
{
    if (l->live_count == MOST_LIVE || (l->live_count > 0 && next_random(l) % 5 < 2)) {
        size_t which = next_random(l) % l->live_count;
        if (next_random(l) % 8 == 0)
            vw_test_ok(&l->t, vw_record_stream(l->t.pool, l->live[which], 7));
        vw_test_free(&l->t, l->live[which]);
        l->live[which] = l->live[--l->live_count];
        return;
    }
    uint64_t top = UINT64_C(1) << next_random(l) % 25;
    uint64_t size_bytes = top + next_random(l) % top;
    vw_device_ptr address = VW_NULL;
    vw_status status = vw_alloc(l->t.pool, size_bytes, next_random(l) % STREAMS, &address);
    if (status == VW_OK) {
        l->live[l->live_count++] = address;
        l->served++;
    } else {
        vw_test_refused(&l->t, status, VW_ERR_OUT_OF_MEMORY);
        l->refused++;
        judge_refusal(l, size_bytes);
    }
    assert_true(vw_test_calls(&l->t).in_use_bytes <= l->limit_bytes);
}

static void run(limited *l, vw_test_pool_setup setup, uint64_t limit_bytes)
{
    uint64_t served = 0, refused = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        *l = (limited){.limit_bytes = limit_bytes, .random = seed * UINT64_C(0x9E3779B97F4A7C15)};
        vw_test_pool_open(&l->t, &setup);
        for (int step = 0; step < STEPS; step++) {
            take_or_drop(l);
            if (step % 500 == 499)
                vw_test_trim(&l->t);
            vw_test_forget_events(&l->t);
        }
        vw_test_pool_close(&l->t);
        served += l->served;
        refused += l->refused;
    }
    assert_true(refused > 100 &&
                served > 10 * refused / 8); /* or it is no limit, or all refusals */
}

static void under_the_devices_limit_only_what_cannot_fit_is_refused(void **state)
{
    (void)state;
    static limited l;
    const vw_test_pool_setup tiny = {.engine = "vramwise",
                                     .capacity_bytes = 64 * VW_TEST_MIB,
                                     .idle_share = 0.0001,
                                     .idle_floor_bytes = UNIT};
    const vw_test_pool_setup usual = {.engine = "vramwise", .capacity_bytes = 64 * VW_TEST_MIB};
    run(&l, tiny, 64 * VW_TEST_MIB);
    run(&l, usual, 64 * VW_TEST_MIB);
}

/* The device says that it has more than there is, as where other programs use it. */
static void where_others_use_the_device_only_what_cannot_fit_is_refused(void **state)
{
    (void)state;
    static limited l;
    const vw_test_pool_setup setup = {.engine = "vramwise",
                                      .capacity_bytes = 66 * VW_TEST_MIB,
                                      .total_bytes = VW_TEST_GIB / 4,
                                      .idle_share = 1.0};
    run(&l, setup, 66 * VW_TEST_MIB);
}

static void under_the_pools_own_limit_only_what_cannot_fit_is_refused(void **state)
{
    (void)state;
    static limited l;
    const vw_test_pool_setup setup = {
        .engine = "vramwise", .capacity_bytes = 512 * VW_TEST_MIB, .fraction = 0.125};
    run(&l, setup, 64 * VW_TEST_MIB);
}

/* Few addresses, and handles that are large beside them. */
static void on_a_tiny_device_only_what_cannot_fit_is_refused(void **state)
{
    (void)state;
    static limited l;
    for (uint64_t units = 4; units <= 24; units += 4) {
        const vw_test_pool_setup setup = {
            .engine = "vramwise", .capacity_bytes = units * UNIT, .idle_share = 1.0};
        run(&l, setup, units * UNIT);
    }
}

/* The fraction need not come to whole units. */
static void a_limit_between_units_is_kept(void **state)
{
    (void)state;
    static limited l;
    const vw_test_pool_setup setup = {
        .engine = "vramwise", .capacity_bytes = 67 * VW_TEST_MIB, .idle_share = 0.5};
    run(&l, setup, 67 * VW_TEST_MIB);
}

/* What other programs leave is asked for in ever smaller handles. */
static void the_last_units_of_a_device_are_found(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, &(vw_test_pool_setup){.engine = "vramwise",
                                                .capacity_bytes = 7 * UNIT,
                                                .total_bytes = VW_TEST_GIB / 4,
                                                .idle_share = 1.0});
    vw_test_alloc(&t, 7 * UNIT);
    assert_int_equal(vw_test_calls(&t).in_use_bytes, 7 * UNIT);
    vw_test_alloc_fails(&t, 1, 0, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(vw_device_set_capacity(t.device, 8 * UNIT), VW_OK);
    vw_test_alloc(&t, UNIT);
    vw_test_pool_close(&t);

    /* Six units are asked for in one handle; five are left, and one is idle elsewhere. */
    vw_test_pool_open(&t, &(vw_test_pool_setup){.engine = "vramwise",
                                                .capacity_bytes = 7 * UNIT,
                                                .total_bytes = VW_TEST_GIB / 4,
                                                .idle_floor_bytes = 100 * UNIT});
    vw_device_ptr small = vw_test_alloc(&t, VW_TEST_MIB);
    vw_test_alloc_on(&t, 700, 1);
    vw_test_free(&t, small);
    vw_test_alloc(&t, 6 * UNIT);
    assert_int_equal(vw_test_stats(&t).num_alloc_retries, 0); /* nobody is waited for */
    vw_test_pool_close(&t);
}

/* Arenas are as large as the device says it is, twice: here two units. The second unit of the first
 * one is all that stream 1 has, and every free handle is larger. */
static void where_no_handle_fits_the_addresses_there_are_more_are_found(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, &(vw_test_pool_setup){.engine = "vramwise",
                                                .capacity_bytes = 9 * UNIT,
                                                .total_bytes = UNIT,
                                                .idle_share = 1.0,
                                                .idle_floor_bytes = 1});
    vw_test_alloc_on(&t, UNIT, 1);
    vw_test_free(&t, vw_test_alloc_on(&t, 8 * UNIT, 0));
    const vw__paged_engine *engine = vw__paged_of(t.pool->engine);
    assert_int_equal(engine->stats.handle_count, 1 + 4);
    vw_test_alloc_on(&t, UNIT, 1);
    assert_int_equal(vw_test_stats(&t).num_alloc_retries, 0);
    vw_test_pool_close(&t);
}

static void what_several_streams_left_serves_one_request(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_device_ptr blocks[4];
    vw_test_pool_open(
        &t, &(vw_test_pool_setup){.engine = "vramwise", .capacity_bytes = 64 * VW_TEST_MIB});
    for (vw_stream stream = 0; stream < 4; stream++)
        blocks[stream] = vw_test_alloc_on(&t, 16 * VW_TEST_MIB, stream);
    for (int i = 0; i < 4; i++)
        vw_test_free(&t, blocks[i]);
    vw_device_ptr all = vw_test_alloc_on(&t, 64 * VW_TEST_MIB, 9);
    vw_test_alloc_fails(&t, 1, 9, VW_ERR_OUT_OF_MEMORY);
    vw_test_free(&t, all);
    for (vw_stream stream = 0; stream < 4; stream++) /* and it goes back to where it was */
        assert_int_equal(vw_test_alloc_on(&t, 16 * VW_TEST_MIB, stream), blocks[stream]);
    vw_test_pool_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(under_the_devices_limit_only_what_cannot_fit_is_refused),
        cmocka_unit_test(where_others_use_the_device_only_what_cannot_fit_is_refused),
        cmocka_unit_test(under_the_pools_own_limit_only_what_cannot_fit_is_refused),
        cmocka_unit_test(on_a_tiny_device_only_what_cannot_fit_is_refused),
        cmocka_unit_test(a_limit_between_units_is_kept),
        cmocka_unit_test(the_last_units_of_a_device_are_found),
        cmocka_unit_test(where_no_handle_fits_the_addresses_there_are_more_are_found),
        cmocka_unit_test(what_several_streams_left_serves_one_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
