/* test_paged_spill_failures.c - whatever fails while memory leaves the device or comes back.
 *
 * One scene, on the host device, with a pattern in every block: memory leaves, blocks come free on
 * the host, memory comes back, leaves again. It runs once for every device call it makes, that one
 * failing; then with a second failure some calls later, which may hit the undoing of the first; and
 * once for every host allocation. Afterwards the pool says that it has failed, on every call; or it
 * is whole, every live byte is there, and it serves on. The device has everything back in the end,
 * but for what it refused to take. */
#include "headroom/headroom.h"

#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/patterned_pool.h"

#define MIB HR_TEST_MIB

enum { MOST_RUNS = 5000, STEPS = 9 };

static hr_test_spy spy; /* one at a time */

/* ---- the scene ------------------------------------------------------------------------------- */

static bool has_given_up(const hr_test_patterns *p)
{
    return hr_test_paged_stats(p).is_failed;
}

/* Did the step what it does when nothing fails? */
static bool step(hr_test_patterns *p, hr_status status)
{
    assert_true(status == HR_OK || status == HR_ERR_DEVICE || status == HR_ERR_OUT_OF_MEMORY ||
                status == HR_ERR_HOST_MEMORY);
    if (status != HR_OK && !has_given_up(p)) {
        hr_test_ok(&p->t, HR_OK);
        hr_test_look_at_all(p);
    }
    return status == HR_OK;
}

static bool take(hr_test_patterns *p, uint64_t size_bytes, hr_stream stream, hr_device_ptr *out)
{
    *out = HR_NULL;
    return step(p, hr_test_try_to_hold(p, size_bytes, stream, out));
}

/* A pool that has failed does not say what is mapped: nobody looks at its blocks. */
static void drop(hr_test_patterns *p, hr_device_ptr address)
{
    if (address != HR_NULL && !has_given_up(p))
        hr_test_let_go(p, address);
}

/* Blocks of 3.2 MiB in all on a device of 4, and as much again on the host. */
static bool play(hr_test_patterns *p)
{
    hr_device_ptr blocks[3] = {HR_NULL}, large = HR_NULL, small = HR_NULL;
    bool is_fine = true;
    for (int i = 0; i < 3; i++)
        is_fine &= take(p, 9 * MIB / 8 - (uint64_t)i * 20000, (hr_stream)(i % 2), &blocks[i]);
    is_fine &= take(p, 40000, 0, &small);
    if (blocks[1] != HR_NULL && !has_given_up(p))
        assert_int_equal(hr_advise(p->t.pool, blocks[1], HR_ADVISE_COLD), HR_OK);
    is_fine &= take(p, 2 * MIB, 1, &large); /* leaves */
    drop(p, blocks[1]);                     /* on the host */
    is_fine &= take(p, 9 * MIB / 8, 1, &blocks[1]);
    drop(p, large);
    for (int i = 0; i < STEPS; i++) /* comes back */
        is_fine &= step(p, hr_pool_mark_step(p->t.pool));
    if (blocks[0] != HR_NULL && !has_given_up(p))
        assert_int_equal(hr_advise(p->t.pool, blocks[0], HR_ADVISE_HOT), HR_OK);
    is_fine &= take(p, 3 * MIB, 0, &large); /* leaves again, by handles that are there */
    drop(p, blocks[2]);
    is_fine &= step(p, hr_pool_trim(p->t.pool));
    drop(p, large);
    is_fine &= take(p, 40000, 0, &small); /* what is hot comes back before it is served */
    return is_fine;
}

static hr_test_pool_setup setup(void)
{
    return (hr_test_pool_setup){.engine = "headroom",
                                .capacity_bytes = 4 * MIB,
                                .spill_bytes = 4 * MIB,
                                .spy = &spy,
                                .on_host = true};
}

static void open_scene(hr_test_patterns *p, bool is_sparse)
{
    const hr_test_pool_setup how = setup();
    spy = (hr_test_spy){.call_count = 0};
    hr_test_patterns_open(p, &how);
    p->is_sparse = is_sparse;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Nothing fails any more: it serves as if nothing had, or says that it does not. */
static void serve_on_and_close(hr_test_patterns *p)
{
    hr_device_ptr address = HR_NULL;
    spy.refused_calls = 0;
    if (has_given_up(p)) {
        assert_int_equal(hr_alloc(p->t.pool, MIB, 0, &address), HR_ERR_DEVICE);
        assert_non_null(strstr(hr_last_error(), "serves no more"));
        assert_int_equal(hr_pool_mark_step(p->t.pool), HR_ERR_DEVICE);
    } else {
        hr_test_look_at_all(p);
        hr_test_ok(&p->t, hr_test_try_to_hold(p, 2 * MIB, 0, &address));
        hr_test_look_at_all(p);
        while (p->held_count != 0)
            hr_test_let_go_at(p, 0);
        hr_test_trim(&p->t);
        assert_int_equal(hr_test_reserved_bytes(p), 0);
    }
    assert_int_equal(p->left, p->entered);
    hr_pool_destroy(p->t.pool);
    assert_int_equal(hr_test_calls(&p->t).in_use_bytes, hr_test_spy_lost_bytes(&spy));
    hr_device_destroy(p->t.device);
    free(p->t.events);
    hr_test_patterns_forget(p);
}

/* ---- the sweeps ------------------------------------------------------------------------------ */

static void the_scene_lets_memory_leave_and_come_back(void **state)
{
    (void)state;
    hr_test_patterns p;
    open_scene(&p, false);
    assert_true(play(&p));
    hr_paged_stats stats = hr_test_paged_stats(&p);
    assert_true(stats.spills >= 2 && stats.returns >= 2);
    serve_on_and_close(&p);
}

/* With `more` failures right behind it: at every third call then, since the scene moves many
 * handles by the same calls. */
static void sweep(hr_status status, uint64_t more, bool may_give_up)
{
    uint64_t given_up = 0;
    for (uint64_t nth = 0; nth < MOST_RUNS; nth += more != 0 ? 3 : 1) {
        hr_test_patterns p;
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
    sweep(HR_ERR_DEVICE, 0, false);
}

static void each_device_call_may_run_out_of_memory(void **state)
{
    (void)state;
    sweep(HR_ERR_OUT_OF_MEMORY, 0, false);
}

static void each_device_call_may_fail_and_the_next_ones_too(void **state)
{
    (void)state;
    sweep(HR_ERR_DEVICE, 1, true);
}

static bool create_and_end(void *context)
{
    hr_device *device = NULL;
    hr_pool *pool = NULL;
    (void)context;
    if (hr_host_device_create(16 * MIB, &device) != HR_OK)
        return false;
    const hr_pool_options options = {
        .struct_size = sizeof options, .engine = "headroom", .spill_bytes = 16 * MIB};
    if (hr_pool_create(device, &options, &pool) != HR_OK) {
        hr_device_destroy(device);
        return false;
    }
    hr_pool_destroy(pool);
    hr_device_destroy(device);
    return true;
}

/* The fixture must have its own memory; so the order is given after it was opened. */
static void each_host_allocation_may_fail(void **state)
{
    (void)state;
    hr_test_sweep_host_memory(create_and_end, NULL);
    for (uint64_t nth = 1; nth < MOST_RUNS; nth++) {
        hr_test_patterns p;
        open_scene(&p, true);
        uint64_t before = hr__host_memory_get_use().call_count;
        hr__host_memory_fail_at(nth);
        (void)play(&p);
        bool was_struck = hr__host_memory_get_use().call_count - before >= nth;
        hr__host_memory_fail_at(0);
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
