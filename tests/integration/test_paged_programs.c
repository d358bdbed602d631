/* test_paged_programs.c - programs made by chance, against engine "vramwise" in each of its modes.
 *
 * They take and give back blocks of all sizes on several streams, name other streams, pin, open
 * private pools, capture, trim, and above all live under limits hardly above what is live, so that
 * nearly every miss moves or copies. The pool is walked and checked every few steps; on the host
 * device every byte is looked at as well. A failure names mode and seed. */
#include "vramwise/vramwise.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/patterned_pool.h"

enum { STREAMS = 4, MOST_HELD = 400, MOST_PINS = 4, PRIVATE_POOLS = 2 };

typedef struct program {
    const char *engine;
    bool is_never_safe; /* to copy */
    bool on_host;
    uint64_t capacity_bytes;
    uint64_t largest_bytes;
    unsigned steps;
    unsigned steps_per_check;
} program;

typedef struct run {
    vw_test_patterns p;
    const program *program;
    uint64_t seed;
    unsigned step;
    vw_device_ptr pins[MOST_PINS];
    size_t pin_count;
    bool has_scope;
    uint64_t scope; /* its private pool */
    uint64_t generation[PRIVATE_POOLS];
    uint64_t served, refused;
} run;

/* One that was released is not used again: it may hold memory still. */
static vw_private_id private_id(const run *r, uint64_t index)
{
    return (vw_private_id){index + 1, r->generation[index]};
}

static bool one_in(run *r, uint64_t count)
{
    return vw_test_random(&r->p) % count == 0;
}

static void expect(const run *r, vw_status status, vw_status other)
{
    if (status != VW_OK && status != other)
        fail_msg("%s, seed %llu, step %u: %s: %s", r->program->engine, (unsigned long long)r->seed,
                 r->step, vw_status_name(status), vw_last_error());
}

static void check(const run *r)
{
    vw_paged_stats stats = vw_test_paged_stats(&r->p);
    assert_false(stats.is_failed);
    expect(r, vw_pool_check(r->p.t.pool), VW_OK);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void take(run *r)
{
    vw_device_ptr address = VW_NULL;
    uint64_t size_bytes = vw_test_random_size(&r->p, 512, r->program->largest_bytes);
    vw_status status =
        vw_test_try_to_hold(&r->p, size_bytes, vw_test_random(&r->p) % STREAMS, &address);
    expect(r, status, VW_ERR_OUT_OF_MEMORY);
    r->served += status == VW_OK;
    r->refused += status != VW_OK;
}

static void let_one_go(run *r)
{
    size_t index = vw_test_random(&r->p) % r->p.held_count;
    if (one_in(r, 6))
        expect(r,
               vw_record_stream(r->p.t.pool, r->p.held[index].address,
                                vw_test_random(&r->p) % (STREAMS + 1)),
               VW_OK);
    vw_test_let_go_at(&r->p, index);
}

static void pin_or_unpin(run *r)
{
    if (r->pin_count == MOST_PINS || (r->pin_count != 0 && one_in(r, 2))) {
        size_t index = vw_test_random(&r->p) % r->pin_count;
        expect(r, vw_pool_unpin(r->p.t.pool, r->pins[index]), VW_OK);
        r->pins[index] = r->pins[--r->pin_count];
    } else if (r->p.held_count != 0) {
        vw_device_ptr address = r->p.held[vw_test_random(&r->p) % r->p.held_count].address;
        expect(r, vw_pool_pin(r->p.t.pool, address), VW_OK);
        r->pins[r->pin_count++] = address;
    }
}

static void set_capturing(const run *r, vw_stream stream, bool is_capturing)
{
    assert_int_equal(vw_device_set_capturing(r->p.t.device, stream, is_capturing), VW_OK);
}

static void close_the_scope(run *r)
{
    for (vw_stream stream = 0; stream < STREAMS; stream++)
        set_capturing(r, stream, false);
    expect(r, vw_private_pool_end(r->p.t.pool, private_id(r, r->scope)), VW_OK);
    r->has_scope = false;
}

/* A pool that is begun twice is released twice. */
static void use_private_pools(run *r)
{
    uint64_t index = vw_test_random(&r->p) % PRIVATE_POOLS;
    vw_pool *pool = r->p.t.pool;
    if (r->has_scope) {
        close_the_scope(r);
    } else if (vw_private_pool_use_count(pool, private_id(r, index)) != 0 && one_in(r, 2)) {
        while (vw_private_pool_use_count(pool, private_id(r, index)) != 0)
            expect(r, vw_private_pool_release(pool, private_id(r, index)), VW_OK);
        r->generation[index]++;
    } else {
        expect(r, vw_private_pool_begin(pool, private_id(r, index), NULL, NULL), VW_OK);
        r->has_scope = true;
        r->scope = index;
        if (one_in(r, 2))
            set_capturing(r, vw_test_random(&r->p) % STREAMS, true);
    }
}

/* To a little more than what is live, or to nothing like a limit. */
static void change_the_limit(run *r)
{
    double live_bytes = (double)vw_test_live_bytes(&r->p);
    double total_bytes = (double)r->program->capacity_bytes;
    double fraction = live_bytes / total_bytes * (1.0 + (double)(vw_test_random(&r->p) % 6) / 100);
    if (one_in(r, 4) || fraction > 1.0 || fraction < 0.05)
        fraction = 1.0;
    expect(r, vw_pool_set_fraction(r->p.t.pool, fraction), VW_OK);
}

static void take_a_step(run *r)
{
    uint64_t chance = vw_test_random(&r->p) % 1000;
    if (chance < 3)
        expect(r, vw_pool_trim(r->p.t.pool), VW_OK);
    else if (chance < 10)
        pin_or_unpin(r);
    else if (chance < 14)
        use_private_pools(r);
    else if (chance < 22)
        change_the_limit(r);
    else if (chance < 24)
        r->p.refuses = one_in(r, 4);
    else if (r->p.held_count == MOST_HELD || (chance < 500 && r->p.held_count != 0))
        let_one_go(r);
    else
        take(r);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static vw_paged_stats run_program(const program *given, uint64_t seed)
{
    static run r;
    r = (run){.program = given, .seed = seed};
    const vw_test_pool_setup setup = {.engine = given->engine,
                                      .on_host = given->on_host,
                                      .capacity_bytes = given->capacity_bytes};
    if (given->is_never_safe)
        vw_test_patterns_open_unsafe(&r.p, &setup);
    else
        vw_test_patterns_open(&r.p, &setup);
    expect(&r, vw_pool_set_sink(r.p.t.pool, NULL), VW_OK);
    r.p.random = seed * UINT64_C(0x9E3779B97F4A7C15);
    for (r.step = 0; r.step < given->steps; r.step++) {
        take_a_step(&r);
        if (r.step % given->steps_per_check == 0)
            check(&r);
        if (r.step % (16 * given->steps_per_check) == 0)
            vw_test_look_at_all(&r.p);
    }
    vw_paged_stats stats = vw_test_paged_stats(&r.p);
    assert_true(r.served > given->steps / 5);
    assert_true(r.refused > given->steps / 1000);
    if (r.has_scope)
        close_the_scope(&r);
    vw_test_patterns_close(&r.p);
    return stats;
}

static void run_programs(program given, uint64_t seeds)
{
    static const char *const engines[] = {"vramwise", "vramwise", "vramwise:tight"};
    for (size_t i = 0; i < 3; i++) {
        uint64_t copies = 0, refused_copies = 0, shares = 0;
        given.engine = engines[i];
        given.is_never_safe = i == 0;
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            vw_paged_stats stats = run_program(&given, seed);
            copies += stats.copies;
            refused_copies += stats.refused_copies;
            shares += stats.shared_pages;
        }
        bool may_copy = i != 0;
        assert_int_equal(copies != 0, may_copy);
        assert_int_equal(refused_copies != 0, may_copy);
        assert_true(may_copy || shares == 0);
    }
}

static void programs_on_a_simulated_device_keep_the_pool_whole(void **state)
{
    (void)state;
    run_programs((program){.capacity_bytes = VW_TEST_GIB,
                           .largest_bytes = 64 * VW_TEST_MIB,
                           .steps = 10000,
                           .steps_per_check = 64},
                 6);
}

/* All of it in the small lanes, a few units large. */
static void programs_of_small_blocks_keep_the_pool_whole(void **state)
{
    (void)state;
    run_programs((program){.capacity_bytes = 64 * VW_TEST_MIB,
                           .largest_bytes = VW_TEST_MIB,
                           .steps = 10000,
                           .steps_per_check = 64},
                 6);
}

static void programs_on_the_host_keep_every_byte(void **state)
{
    (void)state;
    run_programs((program){.on_host = true,
                           .capacity_bytes = 16 * VW_TEST_MIB,
                           .largest_bytes = 2 * VW_TEST_MIB,
                           .steps = 5000,
                           .steps_per_check = 32},
                 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_on_a_simulated_device_keep_the_pool_whole),
        cmocka_unit_test(programs_of_small_blocks_keep_the_pool_whole),
        cmocka_unit_test(programs_on_the_host_keep_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
