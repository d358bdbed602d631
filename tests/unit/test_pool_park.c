/* test_pool_park.c - parking and waking, on memory with bytes: what left and came back must read as
 * before, and what others may see meanwhile is what park.h says. */
#include "vramwise/park.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host_memory.h"
#include "engine/paged/paged_handles.h"
#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/patterned_pool.h"

#define MIB VW_TEST_MIB

static const vw_private_id cache_id = {7, 1}, graph_id = {7, 2};

static void open_pool(vw_test_patterns *p, const char *engine)
{
    vw_test_patterns_open(
        p, &(vw_test_pool_setup){.engine = engine, .capacity_bytes = 96 * MIB, .on_host = true});
}

static const vw_park_options promised = {.struct_size = sizeof(vw_park_options),
                                         .is_promised = true};

static vw_park_report park(vw_test_patterns *p)
{
    vw_park_report report = {.struct_size = sizeof report};
    vw_test_ok(&p->t, vw_pool_park(p->t.pool, &promised, &report));
    return report;
}

static vw_park_report wake(vw_test_patterns *p)
{
    vw_park_report report = {.struct_size = sizeof report};
    vw_test_ok(&p->t, vw_pool_wake(p->t.pool, NULL, &report));
    return report;
}

static vw_status park_region(vw_test_patterns *p, vw_private_id id)
{
    const vw_park_options options = {.struct_size = sizeof options, .only = &id};
    return vw_pool_park(p->t.pool, &options, NULL);
}

/* A block in a region, or in a private pool without a name. */
static vw_device_ptr hold_in(vw_test_patterns *p, vw_private_id id, uint64_t size_bytes,
                             const char *name, bool keeps_data)
{
    if (vw_private_pool_use_count(p->t.pool, id) == 0)
        vw_test_ok(&p->t, vw_private_pool_retain(p->t.pool, id, NULL));
    if (name != NULL)
        vw_test_ok(&p->t, vw_private_pool_set_region(p->t.pool, id, name, keeps_data));
    vw_test_ok(&p->t, vw_private_pool_begin(p->t.pool, id, NULL, NULL));
    vw_device_ptr address = vw_test_hold(p, size_bytes, 0);
    vw_test_ok(&p->t, vw_private_pool_end(p->t.pool, id));
    vw_test_ok(&p->t, vw_private_pool_release(p->t.pool, id)); /* what the scope added */
    return address;
}

static uint64_t in_use_bytes(const vw_test_patterns *p)
{
    return vw_test_calls(&p->t).in_use_bytes;
}

static uint64_t host_creations(const vw_test_patterns *p)
{
    return vw_test_calls(&p->t).count[VW_DEVICE_CALL_HOST_TAKE];
}

/* ---- the whole pool -------------------------------------------------------------------------- */

static void a_parked_pool_holds_nothing_and_comes_back_as_it_was(void **state)
{
    static const char *const engines[] = {"vramwise", "vramwise:rescue", "vramwise:tight"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        vw_test_patterns p;
        open_pool(&p, engines[i]);
        for (int block = 0; block < 5; block++)
            vw_test_hold(&p, 9 * MIB + 700, (vw_stream)(block % 2));
        for (int block = 0; block < 50; block++)
            vw_test_hold(&p, 3000, 0);
        vw_test_let_go_at(&p, 2);
        char *before = NULL;
        uint64_t live_bytes = vw_test_live_bytes(&p);
        vw_park_report left = park(&p);
        before = vw_test_describe(&p.t);
        vw_paged_stats stats = vw_test_paged_stats(&p);
        assert_int_equal(in_use_bytes(&p), 0);
        assert_int_equal(vw_test_reserved_bytes(&p), 0);
        assert_int_equal(vw_test_live_bytes(&p), live_bytes);
        assert_int_equal(stats.parked_bytes, left.moved_bytes);
        assert_int_equal(stats.parks, 1);
        assert_true(stats.park_host_bytes >= live_bytes);
        assert_true(left.copied_bytes >= live_bytes && left.moved_bytes >= left.copied_bytes);
        vw_park_report back = wake(&p);
        char *after = vw_test_describe(&p.t);
        assert_string_equal(before, after);
        assert_int_equal(back.moved_bytes, left.moved_bytes);
        assert_int_equal(back.copied_bytes, left.copied_bytes);
        assert_int_equal(vw_test_paged_stats(&p).parked_bytes, 0);
        assert_int_equal(vw_test_paged_stats(&p).wakes, 1);
        assert_int_equal(in_use_bytes(&p), vw_test_reserved_bytes(&p));
        vw_test_hold(&p, 20 * MIB, 0);
        free(before);
        free(after);
        vw_test_patterns_close(&p);
    }
}

/* No call is made that could fail. */
static void parking_what_is_parked_does_nothing(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    vw_test_hold(&p, 8 * MIB, 0);
    hold_in(&p, cache_id, 4 * MIB, "cache", true);
    park(&p);
    vw_park_options to_file = promised;
    to_file.folder = "/tmp/there/is/none";
    assert_int_equal(vw_device_fail_call(p.t.device, 1, VW_ERR_DEVICE), VW_OK);
    vw__host_memory_fail_at(1);
    assert_int_equal(park(&p).moved_bytes, 0);
    vw_test_ok(&p.t, park_region(&p, cache_id));
    vw_test_ok(&p.t, vw_pool_park(p.t.pool, &to_file, NULL));
    vw__host_memory_fail_at(0);
    assert_int_equal(vw_device_fail_call(p.t.device, 0, VW_OK), VW_OK);
    assert_int_equal(vw_test_paged_stats(&p).parks, 1);
    wake(&p);
    vw_test_ok(&p.t, park_region(&p, cache_id));
    assert_int_equal(vw_device_fail_call(p.t.device, 1, VW_ERR_DEVICE), VW_OK);
    vw_test_ok(&p.t, park_region(&p, cache_id));
    assert_int_equal(vw_device_fail_call(p.t.device, 0, VW_OK), VW_OK);
    vw_test_refused(&p.t, park_region(&p, graph_id), VW_ERR_INVALID_ARGUMENT);
    wake(&p);
    vw_test_look_at_all(&p);
    vw_test_patterns_close(&p);
}

static void free_memory_is_given_back_for_good(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    vw_test_hold(&p, 8 * MIB, 0);
    vw_test_let_go(&p, vw_test_hold(&p, 40 * MIB, 0));
    assert_true(vw_test_reserved_bytes(&p) >= 40 * MIB);
    assert_true(park(&p).moved_bytes < 12 * MIB);
    wake(&p);
    assert_true(vw_test_reserved_bytes(&p) < 12 * MIB);
    vw_test_patterns_close(&p);
}

static void host_memory_is_kept_for_the_next_time_until_it_is_given_up(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    for (int block = 0; block < 6; block++)
        vw_test_hold(&p, 7 * MIB, 0);
    park(&p);
    wake(&p);
    uint64_t made = host_creations(&p), kept = vw_test_paged_stats(&p).park_host_bytes;
    uint64_t live_host_bytes = 0;
    assert_true(made != 0 && kept != 0);
    for (int cycle = 0; cycle < 50; cycle++) {
        park(&p);
        wake(&p);
        if (cycle == 0)
            live_host_bytes = vw__host_memory_get_use().in_use_bytes;
    }
    assert_int_equal(host_creations(&p), made);
    assert_int_equal(vw_test_paged_stats(&p).park_host_bytes, kept);
    assert_int_equal(vw__host_memory_get_use().in_use_bytes, live_host_bytes);
    vw_test_ok(&p.t, vw_pool_park_ahead(p.t.pool, 0));
    assert_int_equal(vw_test_paged_stats(&p).park_host_bytes, 0);
    vw_test_patterns_close(&p);
}

static void host_memory_can_be_made_ahead(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    for (int block = 0; block < 3; block++)
        vw_test_hold(&p, 7 * MIB, 0);
    vw_test_ok(&p.t, vw_pool_park_ahead(p.t.pool, 21 * MIB));
    vw__lender host = vw__stock_lender(p.t.pool->parking.tape);
    vw__lender_numbers numbers = {.ready_bytes = 0};
    for (int i = 0; i < 10000 && numbers.ready_bytes < 21 * MIB; i++) {
        usleep(1000);
        host.look(host.context, &numbers);
    }
    uint64_t made = host_creations(&p);
    assert_int_equal(vw_test_paged_stats(&p).park_host_bytes, 32 * MIB); /* a power of two */
    park(&p);
    wake(&p);
    assert_int_equal(host_creations(&p), made);
    vw_test_patterns_close(&p);
}

static void a_budget_bounds_it(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_pinned_budget *budget = NULL;
    assert_int_equal(vw_pinned_budget_create(8 * MIB, &budget), VW_OK);
    vw_test_patterns_open(&p, &(vw_test_pool_setup){.engine = "vramwise",
                                                    .capacity_bytes = 96 * MIB,
                                                    .on_host = true,
                                                    .pinned_budget = budget});
    vw_test_hold(&p, 20 * MIB, 0);
    vw_test_refused(&p.t, vw_pool_park(p.t.pool, &promised, NULL), VW_ERR_HOST_MEMORY);
    assert_non_null(strstr(vw_last_error(), "budget"));
    assert_int_equal(vw_test_paged_stats(&p).parked_bytes, 0);
    vw_test_hold(&p, 8 * MIB, 0);
    vw_test_patterns_close(&p);
    vw_pinned_budget_destroy(budget);
}

static void graphs_find_every_byte_of_their_pools_again(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    hold_in(&p, graph_id, 6 * MIB, NULL, true);
    vw_device_ptr inside = hold_in(&p, graph_id, 5 * MIB, NULL, true);
    vw_test_let_go(&p, inside); /* the graph writes and reads there all the same */
    memset((void *)(uintptr_t)inside, 0x5A, 5 * MIB);
    park(&p);
    assert_int_equal(in_use_bytes(&p), 0);
    wake(&p);
    for (uint64_t at = 0; at < 5 * MIB; at += 4096)
        assert_int_equal(((const uint8_t *)(uintptr_t)inside)[at], 0x5A);
    vw_test_patterns_close(&p);
}

static void pinned_memory_stays_on_the_device(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    vw_device_ptr pinned = vw_test_hold(&p, 8 * MIB, 0);
    vw_test_hold(&p, 8 * MIB, 0);
    vw_test_ok(&p.t, vw_pool_pin(p.t.pool, pinned));
    vw_park_report report = park(&p);
    assert_true(report.stayed_bytes >= 8 * MIB);
    assert_int_equal(in_use_bytes(&p), report.stayed_bytes);
    assert_int_equal(vw_test_reserved_bytes(&p), report.stayed_bytes);
    wake(&p);
    vw_test_ok(&p.t, vw_pool_unpin(p.t.pool, pinned));
    vw_test_patterns_close(&p);
}

static void segments_of_one_handle_stay_on_the_device(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    const vw_private_options options = {.struct_size = sizeof options, .one_handle = true};
    vw_test_ok(&p.t, vw_private_pool_retain(p.t.pool, graph_id, &options));
    hold_in(&p, graph_id, 10 * MIB, NULL, true);
    vw_test_hold(&p, 6 * MIB, 0);
    vw_park_report left = park(&p);
    assert_true(left.stayed_bytes >= 10 * MIB && left.moved_bytes < 10 * MIB);
    assert_int_equal(in_use_bytes(&p), left.stayed_bytes);
    wake(&p);
    vw_test_patterns_close(&p);
}

/* What the thread for keep_free asks for. */
static vw__engine_slice give_back(vw_test_patterns *p)
{
    vw__engine *engine = p->t.pool->engine;
    vw__engine_slice slice = {.wanted_bytes = UINT64_MAX, .most_handles = 8};
    vw_test_ok(&p->t, engine->table->give_back(engine, &slice));
    return slice;
}

static void what_is_parked_is_not_idle(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    vw_device_ptr freed = vw_test_hold(&p, 12 * MIB, 0);
    vw_test_hold(&p, 6 * MIB, 0);
    park(&p);
    p.has_bytes = false; /* nothing is mapped there while it is freed */
    vw_test_let_go(&p, freed);
    p.has_bytes = true;
    for (int look = 0; look < 3; look++) {
        vw__engine_slice slice = give_back(&p);
        assert_int_equal(slice.given_bytes, 0);
        assert_false(slice.is_waiting);
    }
    wake(&p);
    vw_test_hold(&p, 12 * MIB, 0);
    vw_test_patterns_close(&p);
}

static void what_others_would_do_with_parked_memory_is_refused(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_test_patterns_open(&p, &(vw_test_pool_setup){.engine = "vramwise",
                                                    .capacity_bytes = 96 * MIB,
                                                    .on_host = true,
                                                    .is_shareable = true});
    vw_device_ptr block = vw_test_hold(&p, 8 * MIB, 0);
    vw_shared_part parts[16];
    size_t count = 0;
    uint64_t offset_bytes = 0;
    park(&p);
    vw_test_alloc_fails(&p.t, 512, 0, VW_ERR_PARKED);
    vw_test_alloc_fails(&p.t, 30 * MIB, 3, VW_ERR_PARKED);
    const vw_alloc_request there = {.struct_size = sizeof there, .size_bytes = 512, .at = block};
    vw_device_ptr out = VW_NULL;
    vw_test_refused(&p.t, vw_alloc_with(p.t.pool, &there, &out), VW_ERR_PARKED);
    vw_test_refused(&p.t, vw_pool_pin(p.t.pool, block), VW_ERR_PARKED);
    vw_test_refused(&p.t, vw_pool_share(p.t.pool, block, parts, 16, &count, &offset_bytes),
                    VW_ERR_PARKED);
    assert_int_equal(vw_test_stats(&p.t).largest_free_block_bytes, 0);
    vw_test_ok(&p.t, vw_pool_trim(p.t.pool));
    vw_test_ok(&p.t, vw_pool_mark_step(p.t.pool));
    park(&p); /* again: nothing to do */
    wake(&p);
    assert_int_equal(wake(&p).moved_bytes, 0);
    assert_int_equal(vw_test_paged_stats(&p).parks, 1);
    vw_test_patterns_close(&p);
}

static void what_is_freed_meanwhile_does_not_come_back(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    vw_device_ptr blocks[6];
    for (int i = 0; i < 6; i++)
        blocks[i] = vw_test_hold(&p, 6 * MIB, 0);
    p.has_bytes = false; /* nothing is mapped there while it is freed */
    park(&p);
    for (int i = 0; i < 6; i += 2)
        vw_test_let_go(&p, blocks[i]);
    p.has_bytes = true;
    vw_park_report back = wake(&p);
    assert_true(back.moved_bytes < 24 * MIB);
    assert_int_equal(in_use_bytes(&p), vw_test_reserved_bytes(&p));
    vw_test_hold(&p, 30 * MIB, 0);
    p.has_bytes = false;
    park(&p);
    while (p.held_count != 0)
        vw_test_let_go_at(&p, 0);
    assert_int_equal(wake(&p).moved_bytes, 0);
    vw_test_patterns_close(&p);
}

static void blocks_that_other_streams_use_are_waited_for(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    assert_int_equal(vw_device_hold_streams(p.t.device, true), VW_OK);
    vw_device_ptr block = vw_test_hold(&p, 6 * MIB, 0);
    vw_test_hold(&p, 6 * MIB, 1);
    vw_test_ok(&p.t, vw_record_stream(p.t.pool, block, 1));
    vw_test_let_go(&p, block);
    assert_true(park(&p).moved_bytes < 12 * MIB);
    wake(&p);
    assert_int_equal(vw_test_live_bytes(&p), 6 * MIB);
    vw_test_patterns_close(&p);
}

static void a_pool_can_end_parked(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    vw_test_hold(&p, 6 * MIB, 0);
    hold_in(&p, cache_id, 6 * MIB, "cache", true);
    vw_test_ok(&p.t, park_region(&p, cache_id));
    park(&p);
    p.has_bytes = false;
    vw_test_patterns_close(&p);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void parking_needs_an_engine_that_can(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "torch");
    vw_test_refused(&p.t, vw_pool_park(p.t.pool, &promised, NULL), VW_ERR_UNSUPPORTED);
    vw_test_refused(&p.t, vw_pool_wake(p.t.pool, NULL, NULL), VW_ERR_UNSUPPORTED);
    vw_test_refused(&p.t, vw_pool_park_ahead(p.t.pool, MIB), VW_ERR_UNSUPPORTED);
    vw_test_refused(&p.t, vw_private_pool_set_region(p.t.pool, cache_id, "cache", true),
                    VW_ERR_UNSUPPORTED);
    vw_test_patterns_close(&p);
}

static void parking_needs_a_safe_moment_and_a_promise_or_a_guard(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    vw_test_hold(&p, 6 * MIB, 0);
    vw_test_refused(&p.t, vw_pool_park(p.t.pool, NULL, NULL), VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "vw_park_guard"));
    p.refuses = true;
    vw_test_refused(&p.t, vw_pool_park(p.t.pool, &promised, NULL), VW_ERR_WRONG_STATE);
    p.refuses = false;
    park(&p);
    p.refuses = true;
    vw_test_refused(&p.t, vw_pool_wake(p.t.pool, NULL, NULL), VW_ERR_WRONG_STATE);
    p.refuses = false;
    wake(&p);
    const vw_park_options both = {
        .struct_size = sizeof both, .only = &cache_id, .folder = "/tmp", .is_promised = true};
    vw_test_refused(&p.t, vw_pool_park(p.t.pool, &both, NULL), VW_ERR_INVALID_ARGUMENT);
    vw_test_refused(&p.t, park_region(&p, cache_id), VW_ERR_INVALID_ARGUMENT);
    vw_test_ok(&p.t, vw_private_pool_begin(p.t.pool, graph_id, NULL, NULL));
    assert_int_equal(vw_device_set_capturing(p.t.device, 0, true), VW_OK);
    vw_test_refused(&p.t, vw_pool_park(p.t.pool, &promised, NULL), VW_ERR_WRONG_STATE);
    assert_int_equal(vw_device_set_capturing(p.t.device, 0, false), VW_OK);
    vw_test_ok(&p.t, vw_private_pool_end(p.t.pool, graph_id));
    vw_test_patterns_close(&p);
}

typedef struct capturer {
    vw_test_pool *t;
    int entered;
} capturer;

/* As another thread does meanwhile. */
static bool enter_while_a_capture_begins(void *context)
{
    capturer *c = context;
    c->entered++;
    return vw_private_pool_begin(c->t->pool, graph_id, NULL, NULL) == VW_OK &&
           vw_device_set_capturing(c->t->device, 0, true) == VW_OK;
}

static void leave(void *context)
{
    ((capturer *)context)->entered--;
}

static void a_capture_that_begins_while_a_safe_point_is_sought_goes_on(void **state)
{
    (void)state;
    vw_test_patterns p;
    capturer c = {.t = &p.t};
    vw_test_patterns_open(
        &p, &(vw_test_pool_setup){.engine = "vramwise",
                                  .capacity_bytes = 96 * MIB,
                                  .on_host = true,
                                  .safe_point = {enter_while_a_capture_begins, leave, &c}});
    vw_test_hold(&p, 20 * MIB, 0);
    vw_test_refused(&p.t, vw_pool_park(p.t.pool, &promised, NULL), VW_ERR_WRONG_STATE);
    assert_int_equal(c.entered, 0);
    assert_int_equal(vw_device_set_capturing(p.t.device, 0, false), VW_OK);
    vw_test_ok(&p.t, vw_private_pool_end(p.t.pool, graph_id));
    vw_test_patterns_close(&p);
}

typedef struct guard_calls {
    int held;
    bool refuses;
    int asked; /* how often, whether it is coming */
    int comes; /* at which question; 0: never */
} guard_calls;

static bool hold_launches(void *context)
{
    guard_calls *calls = context;
    if (calls->refuses) {
        vw_set_last_error("no gate");
        return false;
    }
    calls->held++;
    return true;
}

static void let_launches_go(void *context)
{
    ((guard_calls *)context)->held--;
}

static void the_guard_holds_launches_from_park_to_wake(void **state)
{
    (void)state;
    vw_test_patterns p;
    guard_calls calls = {.held = 0};
    const vw_test_pool_setup setup = {
        .engine = "vramwise",
        .capacity_bytes = 96 * MIB,
        .on_host = true,
        .park_guard = {.hold = hold_launches, .let_go = let_launches_go, .context = &calls}};
    vw_test_patterns_open(&p, &setup);
    vw_test_hold(&p, 6 * MIB, 0);
    hold_in(&p, cache_id, 6 * MIB, "cache", true);
    calls.refuses = true;
    vw_test_refused(&p.t, vw_pool_park(p.t.pool, NULL, NULL), VW_ERR_WRONG_STATE);
    assert_string_equal(vw_last_error(), "no gate");
    calls.refuses = false;
    vw_test_ok(&p.t, park_region(&p, cache_id));
    assert_int_equal(calls.held, 0); /* a region stays in reach */
    vw_test_ok(&p.t, vw_pool_park(p.t.pool, NULL, NULL));
    assert_int_equal(calls.held, 1);
    assert_int_equal(vw_device_set_capacity(p.t.device, MIB), VW_OK);
    vw_test_refused(&p.t, vw_pool_wake(p.t.pool, NULL, NULL), VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(calls.held, 1);
    assert_int_equal(vw_device_set_capacity(p.t.device, 96 * MIB), VW_OK);
    wake(&p);
    assert_int_equal(calls.held, 0);
    vw_test_ok(&p.t, vw_pool_park(p.t.pool, NULL, NULL));
    p.has_bytes = false;
    vw_test_patterns_close(&p);
    assert_int_equal(calls.held, 0); /* the end of the pool lets them go, too */
}

static bool is_gate_coming(void *context)
{
    guard_calls *calls = context;
    calls->asked++;
    calls->refuses = calls->asked < calls->comes;
    return calls->comes != 0;
}

static void a_gate_that_is_coming_is_waited_for(void **state)
{
    (void)state;
    vw_test_patterns p;
    guard_calls calls = {.refuses = true};
    const vw_test_pool_setup setup = {.engine = "vramwise",
                                      .capacity_bytes = 96 * MIB,
                                      .on_host = true,
                                      .park_guard = {.hold = hold_launches,
                                                     .let_go = let_launches_go,
                                                     .context = &calls,
                                                     .is_coming = is_gate_coming}};
    vw_test_patterns_open(&p, &setup);
    vw_test_hold(&p, 6 * MIB, 0);
    vw_test_refused(&p.t, vw_pool_park(p.t.pool, NULL, NULL), VW_ERR_WRONG_STATE);
    assert_int_equal(calls.asked, 1);
    calls = (guard_calls){.refuses = true, .comes = 2};
    vw_test_ok(&p.t, vw_pool_park(p.t.pool, NULL, NULL));
    assert_int_equal(calls.asked, 2);
    assert_int_equal(calls.held, 1);
    wake(&p);
    vw_test_patterns_close(&p);
}

/* ---- a full device --------------------------------------------------------------------------- */

static void a_full_device_says_who_has_it_and_nothing_is_lost(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    for (int block = 0; block < 4; block++)
        vw_test_hold(&p, 10 * MIB, 0);
    park(&p);
    vw_device_ptr taken = VW_NULL; /* by somebody else */
    assert_int_equal(p.t.device->table->take(p.t.device->context, 70 * MIB, &taken), VW_OK);
    vw_test_refused(&p.t, vw_pool_wake(p.t.pool, NULL, NULL), VW_ERR_OUT_OF_MEMORY);
    assert_non_null(strstr(vw_last_error(), "to wake takes 40.0 MiB"));
    assert_non_null(strstr(vw_last_error(), "26.0 MiB free of 96.0 MiB"));
    assert_non_null(strstr(vw_last_error(), "stays parked"));
    assert_int_equal(in_use_bytes(&p), 70 * MIB);
    vw_test_alloc_fails(&p.t, 512, 0, VW_ERR_PARKED);
    assert_int_equal(p.t.device->table->give_back(p.t.device->context, taken), VW_OK);
    wake(&p);
    vw_test_patterns_close(&p);
}

static void idle_memory_makes_room_for_a_region(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    hold_in(&p, cache_id, 40 * MIB, "cache", true);
    vw_test_ok(&p.t, park_region(&p, cache_id));
    vw_test_let_go(&p, vw_test_hold(&p, 80 * MIB, 0));
    assert_true(vw_test_reserved_bytes(&p) >= 80 * MIB);
    vw_test_ok(&p.t, vw_pool_wake(p.t.pool, &cache_id, NULL));
    assert_true(in_use_bytes(&p) <= 96 * MIB);
    vw_test_patterns_close(&p);
}

/* ---- regions --------------------------------------------------------------------------------- */

static void a_parked_region_stays_in_reach_and_the_rest_goes_on(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    vw_device_ptr outside = vw_test_hold(&p, 20 * MIB, 0);
    vw_device_ptr inside = hold_in(&p, cache_id, 50 * MIB, "weights", true);
    uint64_t held_bytes = vw_test_reserved_bytes(&p);
    vw_test_ok(&p.t, park_region(&p, cache_id));
    assert_true(vw_test_reserved_bytes(&p) <= held_bytes - 50 * MIB);
    assert_int_equal(in_use_bytes(&p), vw_test_reserved_bytes(&p));
    vw_test_look_at_all(&p); /* over the bus */
    memset((void *)(uintptr_t)inside, 0x11, 4096);
    vw_device_ptr more = vw_test_hold(&p, 60 * MIB, 0); /* what the region had */
    vw_test_ok(&p.t, vw_private_pool_begin(p.t.pool, cache_id, NULL, NULL));
    vw_test_alloc_fails(&p.t, 512, 0, VW_ERR_PARKED);
    assert_non_null(strstr(vw_last_error(), "region \"weights\" is parked"));
    vw_test_ok(&p.t, vw_private_pool_end(p.t.pool, cache_id));
    vw_test_ok(&p.t, vw_private_pool_release(p.t.pool, cache_id));
    vw_test_refused(&p.t, vw_pool_wake(p.t.pool, &cache_id, NULL), VW_ERR_OUT_OF_MEMORY);
    vw_test_let_go(&p, more);
    vw_test_ok(&p.t, vw_pool_wake(p.t.pool, &cache_id, NULL));
    for (int i = 0; i < 4096; i++)
        assert_int_equal(((uint8_t *)(uintptr_t)inside)[i], 0x11);
    vw_test_let_go(&p, outside);
    assert_int_equal(vw_free(p.t.pool, inside), VW_OK);
    p.held_count = 0; /* it has other bytes now */
    vw_test_patterns_close(&p);
}

/* Not even to a request that would otherwise run out of memory. */
static void nothing_of_a_parked_region_is_lent(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    hold_in(&p, cache_id, 4 * MIB, "cache", true);
    vw_test_let_go(&p, hold_in(&p, cache_id, 40 * MIB, "cache", true));
    vw_test_ok(&p.t, vw_private_pool_set_use_on_oom(p.t.pool, cache_id, true));
    vw_test_ok(&p.t, park_region(&p, cache_id));
    vw_test_hold(&p, 80 * MIB, 0);
    vw_test_alloc_fails(&p.t, 30 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_patterns_close(&p);
}

/* What it serves others is theirs: their data is kept. */
static void a_region_without_data_serves_nobody_else(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    vw_test_hold(&p, 30 * MIB, 0);
    vw_test_let_go(&p, hold_in(&p, cache_id, 30 * MIB, "cache", false));
    vw_test_let_go(&p, hold_in(&p, graph_id, 30 * MIB, "state", true));
    vw_test_ok(&p.t, vw_private_pool_set_use_on_oom(p.t.pool, cache_id, true));
    vw_test_alloc_fails(&p.t, 20 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_ok(&p.t, vw_private_pool_set_use_on_oom(p.t.pool, graph_id, true));
    vw_test_hold(&p, 20 * MIB, 0);
    vw_test_refused(&p.t, vw_private_pool_set_region(p.t.pool, graph_id, "state", false),
                    VW_ERR_WRONG_STATE);
    vw_test_ok(&p.t, park_region(&p, cache_id));
    vw_test_ok(&p.t, park_region(&p, graph_id));
    wake(&p);
    vw_test_look_at_all(&p);
    vw_test_patterns_close(&p);
}

/* A graph uses what its capture freed, whenever it runs: the bytes, and the addresses. */
static void free_memory_of_a_graph_in_a_region_stays(void **state)
{
    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        bool is_whole = kind & 1, is_captured = (kind & 2) == 0, keeps_data = (kind & 4) == 0;
        vw_test_patterns p;
        open_pool(&p, "vramwise");
        vw_test_ok(&p.t, vw_private_pool_begin(p.t.pool, cache_id, NULL, NULL));
        vw_test_ok(&p.t, vw_private_pool_set_region(p.t.pool, cache_id, "model", keeps_data));
        vw_device_ptr first = vw_test_alloc(&p.t, 4 * MIB);
        assert_int_equal(vw_device_set_capturing(p.t.device, 0, is_captured), VW_OK);
        vw_device_ptr big = vw_test_alloc(&p.t, 40 * MIB), small = vw_test_alloc(&p.t, 5000);
        memset((void *)(uintptr_t)big, 0x22, 40 * MIB);
        memset((void *)(uintptr_t)small, 0x33, 5000);
        vw_test_free(&p.t, big);
        vw_test_free(&p.t, small);
        assert_int_equal(vw_device_set_capturing(p.t.device, 0, false), VW_OK);
        vw_test_ok(&p.t, vw_private_pool_end(p.t.pool, cache_id));
        const vw_park_options options = {.struct_size = sizeof options,
                                         .only = is_whole ? NULL : &cache_id,
                                         .is_promised = true};
        uint64_t held_bytes = vw_test_reserved_bytes(&p);
        vw_test_ok(&p.t, vw_pool_park(p.t.pool, &options, NULL));
        if (!is_captured && !is_whole) { /* one that is refused has no memory of it */
            vw_test_ok(&p.t, vw_private_pool_begin(p.t.pool, cache_id, NULL, NULL));
            assert_int_equal(vw_device_set_capturing(p.t.device, 0, true), VW_OK);
            vw_test_alloc_fails(&p.t, 512, 0, VW_ERR_PARKED);
            assert_int_equal(vw_device_set_capturing(p.t.device, 0, false), VW_OK);
            vw_test_ok(&p.t, vw_private_pool_end(p.t.pool, cache_id));
        }
        vw_test_ok(&p.t, vw_pool_wake(p.t.pool, NULL, NULL));
        if (is_captured)
            assert_int_equal(vw_test_reserved_bytes(&p), held_bytes);
        else
            assert_true(vw_test_reserved_bytes(&p) <= held_bytes - 38 * MIB); /* given back */
        for (size_t i = 0; is_captured && i < 40 * MIB; i += 4096) {
            uint8_t *at = (uint8_t *)(uintptr_t)big + i;
            if (keeps_data)
                assert_int_equal(*at, 0x22);
            *at = 1; /* it is mapped */
        }
        if (is_captured && keeps_data)
            assert_int_equal(*(uint8_t *)(uintptr_t)small, 0x33);
        vw_test_free(&p.t, first);
        vw_test_patterns_close(&p);
    }
}

static void a_region_without_data_is_dropped(void **state)
{
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        vw_test_patterns p;
        open_pool(&p, "vramwise");
        vw_test_hold(&p, 10 * MIB, 0);
        vw_device_ptr inside = hold_in(&p, cache_id, 40 * MIB, "kv cache", false);
        p.held_count--; /* nobody looks at its bytes again */
        vw_park_report report = {.struct_size = sizeof report};
        const vw_park_options options = {.struct_size = sizeof options,
                                         .only = whole == 0 ? &cache_id : NULL,
                                         .is_promised = true};
        vw_test_ok(&p.t, vw_pool_park(p.t.pool, &options, &report));
        assert_true(report.dropped_bytes >= 40 * MIB);
        assert_true(report.copied_bytes <= 11 * MIB);
        assert_true(vw_test_paged_stats(&p).park_host_bytes < 40 * MIB);
        if (whole == 0)
            memset((void *)(uintptr_t)inside, 1, 40 * MIB); /* harmless */
        wake(&p);
        memset((void *)(uintptr_t)inside, 1, 40 * MIB);
        vw_test_look_at_all(&p);
        assert_int_equal(vw_free(p.t.pool, inside), VW_OK);
        vw_test_patterns_close(&p);
    }
}

static void regions_and_the_whole_pool_park_one_in_the_other(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise:tight");
    vw_test_hold(&p, 10 * MIB, 0);
    hold_in(&p, cache_id, 10 * MIB, "cache", true);
    vw_test_ok(&p.t, park_region(&p, cache_id));
    park(&p);
    assert_int_equal(in_use_bytes(&p), 0);
    vw_test_ok(&p.t, park_region(&p, cache_id)); /* is parked */
    vw_test_refused(&p.t, vw_pool_wake(p.t.pool, &cache_id, NULL), VW_ERR_WRONG_STATE);
    vw_test_refused(&p.t, vw_private_pool_set_region(p.t.pool, cache_id, "other", true),
                    VW_ERR_WRONG_STATE);
    vw_test_refused(&p.t, vw_private_pool_set_region(p.t.pool, cache_id, "cache", false),
                    VW_ERR_WRONG_STATE);
    vw_test_ok(&p.t, vw_private_pool_set_region(p.t.pool, cache_id, "cache", true)); /* as it is */
    wake(&p);
    assert_int_equal(vw_test_paged_stats(&p).parked_bytes, 0);
    vw_test_look_at_all(&p);
    /* A region that nobody uses any more while it is parked. */
    vw_test_ok(&p.t, park_region(&p, cache_id));
    vw_test_ok(&p.t, vw_private_pool_release(p.t.pool, cache_id));
    vw_test_hold(&p, 12 * MIB, 0);
    vw_test_ok(&p.t, vw_pool_trim(p.t.pool));
    wake(&p);
    vw_test_look_at_all(&p);
    vw_test_patterns_close(&p);
}

/* Parking keeps its memory, and not by a use that the program could take. */
static void a_parked_region_is_released_no_more_often_than_it_was_retained(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    for (int i = 0; i < 4; i++)
        hold_in(&p, cache_id, 6 * MIB, "weights", true);
    vw_test_ok(&p.t, park_region(&p, cache_id));
    assert_int_equal(vw_private_pool_use_count(p.t.pool, cache_id), 1);
    for (int i = 0; i < 2; i++)
        vw_test_let_go_at(&p, 0);
    vw_test_ok(&p.t, vw_private_pool_begin(p.t.pool, cache_id, NULL, NULL));
    vw_test_ok(&p.t, vw_private_pool_release(p.t.pool, cache_id));
    vw_test_refused(&p.t, vw_private_pool_release(p.t.pool, cache_id), VW_ERR_WRONG_STATE);
    vw_test_ok(&p.t, vw_private_pool_end(p.t.pool, cache_id));
    vw_test_ok(&p.t, vw_private_pool_release(p.t.pool, cache_id));
    assert_int_equal(vw_private_pool_use_count(p.t.pool, cache_id), 0);
    vw_test_refused(&p.t, vw_private_pool_release(p.t.pool, cache_id), VW_ERR_WRONG_STATE);
    vw_test_refused(&p.t, vw_private_pool_retain(p.t.pool, cache_id, NULL), VW_ERR_WRONG_STATE);
    vw_test_ok(&p.t, vw_pool_trim(p.t.pool));
    vw_test_hold(&p, 70 * MIB, 0);
    vw_test_let_go_at(&p, 2);
    wake(&p);
    vw_test_look_at_all(&p);
    vw_test_let_go_at(&p, 0);
    vw_test_ok(&p.t, park_region(&p, cache_id)); /* nobody has retained it */
    vw_test_let_go_at(&p, 0);
    wake(&p);
    vw_test_ok(&p.t, vw_pool_trim(p.t.pool));
    vw_test_ok(&p.t, vw_private_pool_retain(p.t.pool, cache_id, NULL)); /* another: it has ended */
    assert_int_equal(in_use_bytes(&p), 0);
    vw_test_patterns_close(&p);
}

static void the_memory_of_a_parked_region_ends_with_its_parking(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    hold_in(&p, cache_id, 6 * MIB, "weights", true);
    vw_test_ok(&p.t, park_region(&p, cache_id));
    vw__paged_engine *engine = vw__paged_of(p.t.pool->engine);
    assert_non_null(engine->handles->parking);
    vw_test_refused(&p.t, vw__paged_release(engine, engine->handles), VW_ERR_PARKED);
    wake(&p);
    vw_test_patterns_close(&p);
}

/* The budget ends half-way, and the device has no room for what left by then. What stayed can leave
 * with the whole pool, and be freed there. */
static void a_region_that_parks_in_part_knows_nothing_of_the_rest(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_pinned_budget *budget = NULL;
    vw_device_ptr blocks[8];
    const vw_park_options to_file = {
        .struct_size = sizeof to_file, .folder = "/dev/shm", .is_promised = true};
    assert_int_equal(vw_pinned_budget_create(3 * MIB, &budget), VW_OK);
    vw_test_patterns_open(&p, &(vw_test_pool_setup){.engine = "vramwise",
                                                    .capacity_bytes = 96 * MIB,
                                                    .on_host = true,
                                                    .pinned_budget = budget});
    for (int i = 0; i < 8; i++)
        blocks[i] = hold_in(&p, cache_id, MIB, "weights", true);
    vw_test_ok(&p.t, vw_pool_set_fraction(p.t.pool, 0.01));
    vw_test_refused(&p.t, park_region(&p, cache_id), VW_ERR_HOST_MEMORY);
    uint64_t parked_bytes = vw_test_paged_stats(&p).parked_bytes;
    assert_true(parked_bytes != 0 && parked_bytes < 8 * MIB);
    vw_test_look_at_all(&p);
    vw_test_ok(&p.t, vw_pool_set_fraction(p.t.pool, 1.0));
    vw_test_ok(&p.t, vw_pool_park(p.t.pool, &to_file, NULL));
    assert_int_equal(in_use_bytes(&p), 0);
    p.has_bytes = false; /* nothing is mapped there while it is freed */
    for (int i = 1; i < 8; i++)
        vw_test_let_go(&p, blocks[i]);
    p.has_bytes = true;
    wake(&p);
    assert_int_equal(vw_test_paged_stats(&p).parked_bytes, 0);
    vw_test_look_at_all(&p);
    vw_test_ok(&p.t, park_region(&p, cache_id)); /* one block is within the budget */
    wake(&p);
    vw_test_patterns_close(&p);
    vw_pinned_budget_destroy(budget);
}

/* ---- files ----------------------------------------------------------------------------------- */

static size_t files_in(const char *folder)
{
    size_t count = 0;
    DIR *stream = opendir(folder);
    assert_non_null(stream);
    for (const struct dirent *entry; (entry = readdir(stream)) != NULL;)
        count += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    closedir(stream);
    return count;
}

static void a_file_keeps_the_data_and_has_no_name(void **state)
{
    (void)state;
    vw_test_patterns p;
    char folder[] = "/tmp/vramwise-park-XXXXXX";
    assert_non_null(mkdtemp(folder));
    open_pool(&p, "vramwise:rescue");
    for (int block = 0; block < 4; block++)
        vw_test_hold(&p, 11 * MIB + 512, 0);
    vw_park_options options = promised;
    options.folder = folder;
    for (int cycle = 0; cycle < 2; cycle++) {
        vw_test_ok(&p.t, vw_pool_park(p.t.pool, &options, NULL));
        assert_int_equal(in_use_bytes(&p), 0);
        assert_int_equal(vw_test_paged_stats(&p).park_host_bytes, 0);
        assert_int_equal(files_in(folder), 0);
        wake(&p);
    }
    options.folder = "/tmp/there/is/none";
    vw_test_refused(&p.t, vw_pool_park(p.t.pool, &options, NULL), VW_ERR_FILE);
    assert_non_null(strstr(vw_last_error(), "/tmp/there/is/none"));
    options.folder = "/proc";
    vw_test_refused(&p.t, vw_pool_park(p.t.pool, &options, NULL), VW_ERR_FILE);
    vw_test_look_at_all(&p);
    vw_test_patterns_close(&p);
    assert_int_equal(rmdir(folder), 0);
}

static bool has_timer; /* of the program: signals come all the time */

/* In place of the C library's. As shared memory answers when a signal comes meanwhile. */
int fallocate(int file, int mode, off_t offset, off_t size_bytes)
{
    sigset_t blocked;
    if (!has_timer || pthread_sigmask(SIG_BLOCK, NULL, &blocked) != 0 ||
        sigismember(&blocked, SIGALRM))
        return (int)syscall(SYS_fallocate, file, mode, offset, size_bytes);
    errno = EINTR;
    return -1;
}

static void a_file_is_made_whatever_signals_come(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    vw_test_hold(&p, 11 * MIB, 0);
    vw_park_options options = promised;
    options.folder = "/dev/shm";
    has_timer = true;
    vw_test_ok(&p.t, vw_pool_park(p.t.pool, &options, NULL));
    has_timer = false;
    wake(&p);
    vw_test_patterns_close(&p);
}

/* ---- requests that wait ---------------------------------------------------------------------- */

typedef struct waiting {
    vw_test_patterns *p;
    vw_status status;
    vw_device_ptr address;
} waiting;

static void *ask(void *context)
{
    waiting *w = context;
    w->status = vw_alloc(w->p->t.pool, 4 * MIB, 0, &w->address);
    return NULL;
}

static void a_request_waits_for_the_wake_as_long_as_asked(void **state)
{
    (void)state;
    vw_test_patterns p;
    pthread_t thread;
    waiting w = {.p = &p};
    open_pool(&p, "vramwise");
    vw_test_hold(&p, 8 * MIB, 0);
    vw_park_options options = promised;
    options.wait_ms = 20;
    vw_test_ok(&p.t, vw_pool_park(p.t.pool, &options, NULL));
    vw_test_alloc_fails(&p.t, MIB, 0, VW_ERR_PARKED); /* nobody wakes it */
    wake(&p);
    options.wait_ms = UINT64_MAX;
    vw_test_ok(&p.t, vw_pool_park(p.t.pool, &options, NULL));
    assert_int_equal(pthread_create(&thread, NULL, ask, &w), 0);
    usleep(2000); /* it may have come to wait by now, or not: both must do */
    assert_int_equal(vw_device_set_capacity(p.t.device, MIB), VW_OK);
    vw_test_refused(&p.t, vw_pool_wake(p.t.pool, NULL, NULL), VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(vw_device_set_capacity(p.t.device, 96 * MIB), VW_OK);
    wake(&p);
    pthread_join(thread, NULL);
    assert_int_equal(w.status, VW_OK);
    assert_int_equal(vw_free(p.t.pool, w.address), VW_OK);
    vw_test_patterns_close(&p);
}

/* Wakes that did not help begin no new time. */
static void the_time_of_a_request_counts_from_its_beginning(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    vw_test_hold(&p, 8 * MIB, 0);
    vw_park_options options = promised;
    options.wait_ms = 60000;
    vw_test_ok(&p.t, vw_pool_park(p.t.pool, &options, NULL));
    uint64_t wakes = vw__pool_count_wakes(p.t.pool);
    uint64_t minute_ago_ns = vw__clock_monotonic_ns() - UINT64_C(60000000000);
    assert_false(vw__pool_wait_for_wake(p.t.pool, wakes, minute_ago_ns));
    wake(&p);
    vw_test_patterns_close(&p);
}

/* The region stays in host memory, since the device has room for the rest alone. */
static void a_request_goes_on_when_the_pool_is_back_and_a_region_is_not(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise");
    vw_test_hold(&p, 8 * MIB, 0);
    hold_in(&p, cache_id, 40 * MIB, "cache", true);
    vw_test_ok(&p.t, park_region(&p, cache_id));
    park(&p);
    uint64_t wakes = vw__pool_count_wakes(p.t.pool);
    assert_int_equal(vw_device_set_capacity(p.t.device, 20 * MIB), VW_OK);
    vw_test_refused(&p.t, vw_pool_wake(p.t.pool, NULL, NULL), VW_ERR_OUT_OF_MEMORY);
    assert_null(strstr(vw_last_error(), "everything stays parked"));
    assert_true(vw__pool_wait_for_wake(p.t.pool, wakes, 0)); /* as one does that waits meanwhile */
    vw_test_let_go(&p, vw_test_hold(&p, 4 * MIB, 0));
    assert_int_equal(vw_device_set_capacity(p.t.device, 96 * MIB), VW_OK);
    wake(&p);
    vw_test_patterns_close(&p);
}

/* ---- together with everything else ----------------------------------------------------------- */

static void park_something(vw_test_patterns *p, uint64_t chance)
{
    if (chance % 3 == 0) {
        vw_test_ok(&p->t, park_region(p, cache_id));
        vw_test_look_at_all(p);
        if (chance % 2 == 0)
            vw_test_ok(&p->t, vw_pool_wake(p->t.pool, &cache_id, NULL));
        return;
    }
    bool is_freeing = chance % 2 == 0 && p->held_count > 4;
    park(p);
    p->has_bytes = false;
    for (int i = 0; i < 3 && is_freeing; i++)
        vw_test_let_go_at(p, vw_test_random(p) % p->held_count);
    p->has_bytes = true;
    wake(p);
    vw_test_look_at_all(p);
}

/* Moves, copies, shared pages and spills in between. */
static void programs_that_park_now_and_then_lose_nothing(void **state)
{
    static const char *const engines[] = {"vramwise", "vramwise:rescue", "vramwise:tight"};
    (void)state;
    for (int run = 0; run < 12; run++) {
        vw_test_patterns p;
        vw_test_patterns_open(&p,
                              &(vw_test_pool_setup){.engine = engines[run % 3],
                                                    .capacity_bytes = 48 * MIB,
                                                    .on_host = true,
                                                    .spill_bytes = run % 2 == 0 ? 32 * MIB : 0});
        p.random += (uint64_t)run * 7919;
        p.is_sparse = true;
        hold_in(&p, cache_id, 5 * MIB, "cache", true);
        for (int step = 0; step < 400; step++) {
            vw_device_ptr address = VW_NULL;
            uint64_t chance = vw_test_random(&p);
            if (step % 40 == 39)
                park_something(&p, chance);
            else if (chance % 2 == 0 && p.held_count > 1)
                vw_test_let_go_at(&p, 1 + chance / 2 % (p.held_count - 1));
            else
                (void)vw_test_try_to_hold(&p, vw_test_random_size(&p, 512, 4 * MIB),
                                          (vw_stream)(chance / 2 % 2), &address);
        }
        wake(&p);
        vw_test_patterns_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parked_pool_holds_nothing_and_comes_back_as_it_was),
        cmocka_unit_test(parking_what_is_parked_does_nothing),
        cmocka_unit_test(free_memory_is_given_back_for_good),
        cmocka_unit_test(host_memory_is_kept_for_the_next_time_until_it_is_given_up),
        cmocka_unit_test(host_memory_can_be_made_ahead),
        cmocka_unit_test(a_budget_bounds_it),
        cmocka_unit_test(graphs_find_every_byte_of_their_pools_again),
        cmocka_unit_test(pinned_memory_stays_on_the_device),
        cmocka_unit_test(segments_of_one_handle_stay_on_the_device),
        cmocka_unit_test(what_is_parked_is_not_idle),
        cmocka_unit_test(what_others_would_do_with_parked_memory_is_refused),
        cmocka_unit_test(what_is_freed_meanwhile_does_not_come_back),
        cmocka_unit_test(blocks_that_other_streams_use_are_waited_for),
        cmocka_unit_test(a_pool_can_end_parked),
        cmocka_unit_test(parking_needs_an_engine_that_can),
        cmocka_unit_test(parking_needs_a_safe_moment_and_a_promise_or_a_guard),
        cmocka_unit_test(the_guard_holds_launches_from_park_to_wake),
        cmocka_unit_test(a_gate_that_is_coming_is_waited_for),
        cmocka_unit_test(a_full_device_says_who_has_it_and_nothing_is_lost),
        cmocka_unit_test(idle_memory_makes_room_for_a_region),
        cmocka_unit_test(a_parked_region_stays_in_reach_and_the_rest_goes_on),
        cmocka_unit_test(nothing_of_a_parked_region_is_lent),
        cmocka_unit_test(a_region_without_data_serves_nobody_else),
        cmocka_unit_test(a_capture_that_begins_while_a_safe_point_is_sought_goes_on),
        cmocka_unit_test(free_memory_of_a_graph_in_a_region_stays),
        cmocka_unit_test(a_region_without_data_is_dropped),
        cmocka_unit_test(regions_and_the_whole_pool_park_one_in_the_other),
        cmocka_unit_test(a_parked_region_is_released_no_more_often_than_it_was_retained),
        cmocka_unit_test(the_memory_of_a_parked_region_ends_with_its_parking),
        cmocka_unit_test(a_region_that_parks_in_part_knows_nothing_of_the_rest),
        cmocka_unit_test(a_file_keeps_the_data_and_has_no_name),
        cmocka_unit_test(a_file_is_made_whatever_signals_come),
        cmocka_unit_test(a_request_waits_for_the_wake_as_long_as_asked),
        cmocka_unit_test(the_time_of_a_request_counts_from_its_beginning),
        cmocka_unit_test(a_request_goes_on_when_the_pool_is_back_and_a_region_is_not),
        cmocka_unit_test(programs_that_park_now_and_then_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
