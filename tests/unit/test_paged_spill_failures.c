/* test_paged_spill_failures.c - whatever fails while memory leaves the device or comes back.
 *
 * One scene, on the host device, with a pattern in every block: memory leaves, blocks come free on
 * the host, memory comes back, leaves again. It runs once for every device call it makes, that one
 * failing; then with a second failure some calls later, which may hit the undoing of the first; and
 * once for every host allocation. Afterwards the pool says that it has failed, on every call; or it
 * is whole, every live byte is there, and it serves on. The device has everything back in the end,
 * but for what it refused to take. */
#include "vramwise/vramwise.h"

#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/patterned_pool.h"

#define MIB VW_TEST_MIB

enum { MOST_RUNS = 5000, STEPS = 9 };

static vw_test_spy spy; /* one at a time */

/* ---- the scene ------------------------------------------------------------------------------- */

static bool has_given_up(const vw_test_patterns *p)
{
    return vw_test_paged_stats(p).is_failed;
}

/* Did the step what it does when nothing fails? */
static bool step(vw_test_patterns *p, vw_status status)
{
    assert_true(status == VW_OK || status == VW_ERR_DEVICE || status == VW_ERR_OUT_OF_MEMORY ||
                status == VW_ERR_HOST_MEMORY);
    if (status != VW_OK && !has_given_up(p)) {
        vw_test_ok(&p->t, VW_OK);
        vw_test_look_at_all(p);
    }
    return status == VW_OK;
}

static bool take(vw_test_patterns *p, uint64_t size_bytes, vw_stream stream, vw_device_ptr *out)
{
    *out = VW_NULL;
    return step(p, vw_test_try_to_hold(p, size_bytes, stream, out));
}

/* A pool that has failed does not say what is mapped: nobody looks at its blocks. */
static void drop(vw_test_patterns *p, vw_device_ptr address)
{
    if (address != VW_NULL && !has_given_up(p))
        vw_test_let_go(p, address);
}

/* Blocks of 3.2 MiB in all on a device of 4, and as much again on the host. */
static bool play(vw_test_patterns *p)
{
    vw_device_ptr blocks[3] = {VW_NULL}, large = VW_NULL, small = VW_NULL;
    bool is_fine = true;
    for (int i = 0; i < 3; i++)
        is_fine &= take(p, 9 * MIB / 8 - (uint64_t)i * 20000, (vw_stream)(i % 2), &blocks[i]);
    is_fine &= take(p, 40000, 0, &small);
    if (blocks[1] != VW_NULL && !has_given_up(p))
        assert_int_equal(vw_advise(p->t.pool, blocks[1], VW_ADVISE_COLD), VW_OK);
    is_fine &= take(p, 2 * MIB, 1, &large); /* leaves */
    drop(p, blocks[1]);                     /* on the host */
    is_fine &= take(p, 9 * MIB / 8, 1, &blocks[1]);
    drop(p, large);
    for (int i = 0; i < STEPS; i++) /* comes back */
        is_fine &= step(p, vw_pool_mark_step(p->t.pool));
    if (blocks[0] != VW_NULL && !has_given_up(p))
        assert_int_equal(vw_advise(p->t.pool, blocks[0], VW_ADVISE_HOT), VW_OK);
    is_fine &= take(p, 3 * MIB, 0, &large); /* leaves again, by handles that are there */
    drop(p, blocks[2]);
    is_fine &= step(p, vw_pool_trim(p->t.pool));
    drop(p, large);
    is_fine &= take(p, 40000, 0, &small); /* what is hot comes back before it is served */
    return is_fine;
}

static vw_test_pool_setup setup(void)
{
    return (vw_test_pool_setup){.engine = "vramwise",
                                .capacity_bytes = 4 * MIB,
                                .spill_bytes = 4 * MIB,
                                .spy = &spy,
                                .on_host = true};
}

static void open_scene(vw_test_patterns *p, bool is_sparse)
{
    const vw_test_pool_setup how = setup();
    spy = (vw_test_spy){.call_count = 0};
    vw_test_patterns_open(p, &how);
    p->is_sparse = is_sparse;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Nothing fails any more: it serves as if nothing had, or says that it does not. */
static void serve_on_and_close(vw_test_patterns *p)
{
    vw_device_ptr address = VW_NULL;
    spy.refused_calls = 0;
    if (has_given_up(p)) {
        assert_int_equal(vw_alloc(p->t.pool, MIB, 0, &address), VW_ERR_DEVICE);
        assert_non_null(strstr(vw_last_error(), "serves no more"));
        assert_int_equal(vw_pool_mark_step(p->t.pool), VW_ERR_DEVICE);
    } else {
        vw_test_look_at_all(p);
        vw_test_ok(&p->t, vw_test_try_to_hold(p, 2 * MIB, 0, &address));
        vw_test_look_at_all(p);
        while (p->held_count != 0)
            vw_test_let_go_at(p, 0);
        vw_test_trim(&p->t);
        assert_int_equal(vw_test_reserved_bytes(p), 0);
    }
    assert_int_equal(p->left, p->entered);
    vw_pool_destroy(p->t.pool);
    assert_int_equal(vw_test_calls(&p->t).in_use_bytes, vw_test_spy_lost_bytes(&spy));
    vw_device_destroy(p->t.device);
    free(p->t.events);
    vw_test_patterns_forget(p);
}

/* ---- the sweeps ------------------------------------------------------------------------------ */

static void the_scene_lets_memory_leave_and_come_back(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_scene(&p, false);
    assert_true(play(&p));
    vw_paged_stats stats = vw_test_paged_stats(&p);
    assert_true(stats.spills >= 2 && stats.returns >= 2);
    serve_on_and_close(&p);
}

/* With `more` failures right behind it: at every third call then, since the scene moves many
 * handles by the same calls. */
static void sweep(vw_status status, uint64_t more, bool may_give_up)
{
    uint64_t given_up = 0;
    for (uint64_t nth = 0; nth < MOST_RUNS; nth += more != 0 ? 3 : 1) {
        vw_test_patterns p;
        open_scene(&p, true);
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

static bool create_and_end(void *context)
{
    vw_device *device = NULL;
    vw_pool *pool = NULL;
    (void)context;
    if (vw_host_device_create(16 * MIB, &device) != VW_OK)
        return false;
    const vw_pool_options options = {
        .struct_size = sizeof options, .engine = "vramwise", .spill_bytes = 16 * MIB};
    if (vw_pool_create(device, &options, &pool) != VW_OK) {
        vw_device_destroy(device);
        return false;
    }
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    return true;
}

/* The fixture must have its own memory; so the order is given after it was opened. */
static void each_host_allocation_may_fail(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(create_and_end, NULL);
    for (uint64_t nth = 1; nth < MOST_RUNS; nth++) {
        vw_test_patterns p;
        open_scene(&p, true);
        uint64_t before = vw__host_memory_get_use().call_count;
        vw__host_memory_fail_at(nth);
        (void)play(&p);
        bool was_struck = vw__host_memory_get_use().call_count - before >= nth;
        vw__host_memory_fail_at(0);
        assert_false(has_given_up(&p));
        serve_on_and_close(&p);
        if (!was_struck) {
            assert_true(nth > 20);
            return;
        }
    }
    fail_msg("no end after %d runs", MOST_RUNS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scene_lets_memory_leave_and_come_back),
        cmocka_unit_test(each_device_call_may_fail),
        cmocka_unit_test(each_device_call_may_run_out_of_memory),
        cmocka_unit_test(each_device_call_may_fail_and_the_next_ones_too),
        cmocka_unit_test(each_host_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
