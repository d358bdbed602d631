/* test_pool_park_failures.c - whatever fails while memory is parked or woken.
 *
 * One scene, on the host device, with a pattern in every block: shared pages, a graph's pool and a
 * region; the whole pool goes to host memory and comes back, then the region, then the whole pool
 * to a file. It runs once for every device call it makes, that one failing, and once for every host
 * allocation; then with the next calls failing too, which hits the undoing. Afterwards the pool
 * says that it has failed, on every call; or it is whole, a wake brings back what is still parked,
 * every live byte is there, and it serves on. */
#include "vramwise/park.h"

#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "engine/paged/paged_engine.h"
#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/patterned_pool.h"

#define MIB VW_TEST_MIB
#define KIB VW_TEST_KIB

enum { MOST_RUNS = 6000, BLOCKS = 24 };

static const vw_private_id region_id = {5, 1}, graph_id = {5, 2};
static vw_test_spy spy; /* one at a time */
static int held_launches;

static bool hold_launches(void *context)
{
    (void)context;
    held_launches++;
    return true;
}

static void let_launches_go(void *context)
{
    (void)context;
    held_launches--;
}

/* ---- the scene ------------------------------------------------------------------------------- */

static bool has_given_up(const vw_test_patterns *p)
{
    return vw_test_paged_stats(p).is_failed;
}

static bool is_parked(const vw_test_patterns *p)
{
    return vw__paged_of(p->t.pool->engine)->is_parked;
}

/* Did the step what it does when nothing fails? */
static bool step(vw_test_patterns *p, vw_status status)
{
    assert_true(status == VW_OK || status == VW_ERR_DEVICE || status == VW_ERR_OUT_OF_MEMORY ||
                status == VW_ERR_HOST_MEMORY || status == VW_ERR_PARKED);
    if (!has_given_up(p)) {
        vw_test_ok(&p->t, VW_OK);
        assert_int_equal(held_launches, is_parked(p));
        if (!is_parked(p))
            vw_test_look_at_all(p);
    }
    return status == VW_OK;
}

static bool hold_in(vw_test_patterns *p, vw_private_id id, const char *name, uint64_t size_bytes)
{
    vw_device_ptr address = VW_NULL;
    if (vw_private_pool_retain(p->t.pool, id, NULL) != VW_OK)
        return false;
    if (name != NULL)
        assert_int_equal(vw_private_pool_set_region(p->t.pool, id, name, true), VW_OK);
    if (vw_private_pool_begin(p->t.pool, id, NULL, NULL) != VW_OK)
        return false;
    bool is_fine = step(p, vw_test_try_to_hold(p, size_bytes, 0, &address));
    assert_int_equal(vw_private_pool_end(p->t.pool, id), VW_OK);
    return is_fine;
}

/* Parts of pages, so that pages are shared. */
static void fill(vw_test_patterns *p)
{
    vw_device_ptr address = VW_NULL;
    assert_true(hold_in(p, graph_id, NULL, 150 * KIB));
    assert_true(hold_in(p, region_id, "region", 200 * KIB));
    for (int i = 0; i < BLOCKS; i++)
        vw_test_hold(p, 30 * KIB, 0);
    for (int i = 0; i < 3; i++)
        vw_test_hold(p, 170 * KIB, (vw_stream)(i % 2));
    for (size_t i = p->held_count - 4; i > 4; i -= 2)
        vw_test_let_go_at(p, i);
    for (int i = 0; i < 40; i++)
        if (vw_test_try_to_hold(p, 96 * KIB, 0, &address) != VW_OK)
            break;
}

static bool play(vw_test_patterns *p)
{
    const vw_park_options to_file = {.struct_size = sizeof to_file, .folder = "/dev/shm"};
    const vw_park_options region = {.struct_size = sizeof region, .only = &region_id};
    bool is_fine = step(p, vw_pool_park(p->t.pool, NULL, NULL));
    is_fine &= step(p, vw_pool_wake(p->t.pool, NULL, NULL));
    is_fine &= step(p, vw_pool_park(p->t.pool, &region, NULL));
    is_fine &= step(p, vw_pool_wake(p->t.pool, NULL, NULL));
    is_fine &= step(p, vw_pool_park(p->t.pool, &to_file, NULL));
    is_fine &= step(p, vw_pool_wake(p->t.pool, NULL, NULL));
    return is_fine;
}

static void open_scene(vw_test_patterns *p)
{
    spy = (vw_test_spy){.call_count = 0};
    held_launches = 0;
    vw_test_patterns_open(
        p, &(vw_test_pool_setup){.engine = "vramwise:tight",
                                 .capacity_bytes = 2 * MIB,
                                 .spy = &spy,
                                 .on_host = true,
                                 .park_guard = {.hold = hold_launches, .let_go = let_launches_go}});
    p->is_sparse = true;
    fill(p);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void serve_on_and_close(vw_test_patterns *p)
{
    vw_device_ptr address = VW_NULL;
    spy.refused_calls = 0;
    if (has_given_up(p)) {
        assert_int_equal(held_launches, 0); /* no wake comes: nobody waits for one */
        assert_int_equal(vw_alloc(p->t.pool, MIB, 0, &address), VW_ERR_DEVICE);
        assert_int_equal(vw_pool_park(p->t.pool, NULL, NULL), VW_ERR_DEVICE);
        assert_int_equal(vw_pool_wake(p->t.pool, NULL, NULL), VW_ERR_DEVICE);
    } else {
        vw_test_ok(&p->t, vw_pool_wake(p->t.pool, NULL, NULL));
        assert_int_equal(vw_test_paged_stats(p).parked_bytes, 0);
        assert_int_equal(held_launches, 0);
        assert_true(step(p, vw_pool_park(p->t.pool, NULL, NULL)));
        assert_true(step(p, vw_pool_wake(p->t.pool, NULL, NULL)));
        while (p->held_count != 0)
            vw_test_let_go_at(p, 0);
        vw_test_ok(&p->t, vw_test_try_to_hold(p, MIB, 0, &address));
        vw_test_look_at_all(p);
    }
    assert_int_equal(p->left, p->entered);
    vw_pool_destroy(p->t.pool);
    assert_int_equal(held_launches, 0);
    assert_int_equal(vw_test_calls(&p->t).in_use_bytes, vw_test_spy_lost_bytes(&spy));
    vw_device_destroy(p->t.device);
    free(p->t.events);
    vw_test_patterns_forget(p);
}

/* ---- the sweeps ------------------------------------------------------------------------------ */

static void the_scene_parks_shared_pages_and_all_the_rest(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_scene(&p);
    assert_true(vw_test_paged_stats(&p).shared_pages != 0);
    assert_true(play(&p));
    assert_int_equal(vw_test_paged_stats(&p).parks, 3);
    assert_int_equal(vw_test_paged_stats(&p).wakes, 3);
    serve_on_and_close(&p);
}

static void sweep(vw_status status, uint64_t more, bool may_give_up)
{
    uint64_t given_up = 0;
    for (uint64_t nth = 0; nth < MOST_RUNS; nth += more != 0 ? 3 : 1) {
        vw_test_patterns p;
        open_scene(&p);
        spy.let_through = nth;
        spy.refused_calls = 1 + more;
        spy.refusal = status;
        (void)play(&p);
        bool was_struck = spy.refused_calls < 1 + more;
        assert_true(may_give_up || !has_given_up(&p));
        given_up += has_given_up(&p);
        serve_on_and_close(&p);
        if (!was_struck) {
            assert_true(nth > 100); /* or the scene is no scene */
            assert_int_equal(given_up != 0, may_give_up);
            return;
        }
    }
    fail_msg("no end after %d runs", MOST_RUNS);
}

static void each_device_call_may_fail(void **state)
{
    (void)state;
    sweep(VW_ERR_DEVICE, 0, false);
}

static void each_device_call_may_run_out_of_memory(void **state)
{
    (void)state;
    sweep(VW_ERR_OUT_OF_MEMORY, 0, false);
}

static void each_device_call_may_fail_and_the_next_ones_too(void **state)
{
    (void)state;
    sweep(VW_ERR_DEVICE, 1, true);
}

static void each_host_allocation_may_fail(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < MOST_RUNS; nth++) {
        vw_test_patterns p;
        open_scene(&p);
        uint64_t before = vw__host_memory_get_use().call_count;
        vw__host_memory_fail_at(nth);
        (void)play(&p);
        bool was_struck = vw__host_memory_get_use().call_count - before >= nth;
        vw__host_memory_fail_at(0);
        assert_false(has_given_up(&p));
        serve_on_and_close(&p);
        if (!was_struck) {
            assert_true(nth > 10);
            return;
        }
    }
    fail_msg("no end after %d runs", MOST_RUNS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scene_parks_shared_pages_and_all_the_rest),
        cmocka_unit_test(each_device_call_may_fail),
        cmocka_unit_test(each_device_call_may_run_out_of_memory),
        cmocka_unit_test(each_device_call_may_fail_and_the_next_ones_too),
        cmocka_unit_test(each_host_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
