/* test_park_threads.c - threads that allocate, touch and free, while another parks the pool and a
 * region of it and wakes them again; and no byte is lost.
 *
 * Every block has a pattern. A thread touches its blocks inside a gate (touch_gate.h), which a
 * safe point closes and parking holds closed: so nobody touches memory that is not there, as the
 * launch gate sees to in a program. Requests wait while the pool is parked.
 *
 * stress_run.h says how to repeat a run, and how to make it longer. */
#include "vramwise/park.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/pool_fixture.h"
#include "support/stress_run.h"
#include "support/touch_gate.h"

enum { THREADS = 6, MOST_LIVE = 12, ROUNDS = 3000, PAGE = 4096 };

#define CAPACITY_BYTES (64 * VW_TEST_MIB)

static const vw_private_id region_id = {3, 3};

static vw_test_gate gate = VW_TEST_GATE_OPEN;

/* ---- a thread -------------------------------------------------------------------------------- */

typedef struct shared {
    vw_test_pool t;
    uint64_t rounds;
    _Atomic unsigned running;
    _Atomic uint64_t faults;
} shared;

typedef struct live_block {
    vw_device_ptr address;
    uint64_t size_bytes;
    uint64_t key;
} live_block;

typedef struct worker {
    shared *all;
    uint64_t random;
    live_block live[MOST_LIVE];
    size_t live_count;
} worker;

static uint64_t chance(worker *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random >> 8;
}

/* A word at the beginning of each page of it. */
static void write_pattern(const live_block *block)
{
    for (uint64_t at = 0; at + 8 <= block->size_bytes; at += PAGE)
        memcpy((void *)(uintptr_t)(block->address + at), &(uint64_t){block->key ^ at}, 8);
}

static bool has_pattern(const live_block *block)
{
    for (uint64_t at = 0; at + 8 <= block->size_bytes; at += PAGE) {
        uint64_t word = 0;
        memcpy(&word, (const void *)(uintptr_t)(block->address + at), 8);
        if (word != (block->key ^ at))
            return false;
    }
    return true;
}

static void look_at_all(worker *w)
{
    vw_test_gate_enter(&gate);
    for (size_t i = 0; i < w->live_count; i++)
        if (!has_pattern(&w->live[i]))
            atomic_fetch_add(&w->all->faults, 1);
    vw_test_gate_leave(&gate);
}

static void take_one(worker *w)
{
    live_block *block = &w->live[w->live_count];
    block->size_bytes = UINT64_C(512) << chance(w) % 11;
    block->key = chance(w);
    if (vw_alloc(w->all->t.pool, block->size_bytes, chance(w) % 3, &block->address) != VW_OK) {
        atomic_fetch_add(&w->all->faults, 1);
        return;
    }
    vw_test_gate_enter(&gate);
    write_pattern(block);
    vw_test_gate_leave(&gate);
    w->live_count++;
}

static void *work(void *context)
{
    worker *w = context;
    for (uint64_t round = 0; round < w->all->rounds; round++) {
        if (w->live_count < MOST_LIVE && chance(w) % 3 != 0)
            take_one(w);
        else if (w->live_count != 0 &&
                 vw_free(w->all->t.pool, w->live[--w->live_count].address) != VW_OK)
            atomic_fetch_add(&w->all->faults, 1);
        if (round % 8 == 0)
            look_at_all(w);
        if (round % 64 == 0 && vw_pool_trim(w->all->t.pool) != VW_OK)
            atomic_fetch_add(&w->all->faults, 1);
        if (round % 512 == 511 && vw_pool_park_ahead(w->all->t.pool, VW_TEST_MIB) != VW_OK)
            atomic_fetch_add(&w->all->faults, 1);
    }
    atomic_fetch_sub(&w->all->running, 1);
    return NULL;
}

/* ---- who parks ------------------------------------------------------------------------------- */

static void park_and_wake(shared *all, uint64_t round)
{
    const vw_park_options options = {.struct_size = sizeof options,
                                     .only = round % 3 == 0 ? &region_id : NULL,
                                     .folder = round % 6 == 1 ? "/dev/shm" : NULL,
                                     .wait_ms = UINT64_MAX};
    vw_status parked = vw_pool_park(all->t.pool, &options, NULL);
    vw_status checked = vw_pool_check(all->t.pool);
    vw_status woken = vw_pool_wake(all->t.pool, NULL, NULL);
    if (parked == VW_OK && checked == VW_OK && woken == VW_OK)
        return;
    print_error("%s, %s, %s: %s\n", vw_status_name(parked), vw_status_name(checked),
                vw_status_name(woken), vw_last_error());
    atomic_fetch_add(&all->faults, 1);
}

static void hold_region(shared *all, live_block *block)
{
    block->size_bytes = VW_TEST_MIB;
    block->key = 77;
    assert_int_equal(vw_private_pool_begin(all->t.pool, region_id, NULL, NULL), VW_OK);
    assert_int_equal(vw_private_pool_set_region(all->t.pool, region_id, "region", true), VW_OK);
    assert_int_equal(vw_alloc(all->t.pool, block->size_bytes, 0, &block->address), VW_OK);
    assert_int_equal(vw_private_pool_end(all->t.pool, region_id), VW_OK);
    write_pattern(block);
}

static void run(const char *engine)
{
    static worker workers[THREADS];
    pthread_t threads[THREADS];
    uint64_t seed = vw_test_seed();
    shared all = {.rounds = vw_test_rounds(ROUNDS), .running = THREADS};
    live_block in_region;
    vw_test_pool_open(
        &all.t, &(vw_test_pool_setup){.engine = engine,
                                      .capacity_bytes = CAPACITY_BYTES,
                                      .on_host = true,
                                      .safe_point = {vw_test_gate_close, vw_test_gate_open, &gate},
                                      .park_guard = {.context = &gate,
                                                     .hold = vw_test_gate_hold,
                                                     .let_go = vw_test_gate_let_go}});
    assert_int_equal(vw_pool_set_sink(all.t.pool, NULL), VW_OK); /* it keeps every event */
    hold_region(&all, &in_region);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (worker){.all = &all, .random = vw_test_mix(seed + i)};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (uint64_t round = 0; atomic_load(&all.running) != 0; round++)
        park_and_wake(&all, round);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < THREADS; i++)
        look_at_all(&workers[i]);
    assert_true(has_pattern(&in_region));
    assert_int_equal(all.faults, 0);
    vw_test_pool_close(&all.t);
}

static void nothing_is_lost_by_parking_under_load(void **state)
{
    (void)state;
    run("vramwise");
}

static void nor_where_live_data_is_copied_as_well(void **state)
{
    (void)state;
    run("vramwise:tight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_by_parking_under_load),
        cmocka_unit_test(nor_where_live_data_is_copied_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
