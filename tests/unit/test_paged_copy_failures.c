/* test_paged_copy_failures.c - whatever fails while live data is copied, whenever it fails.
 *
 * Four scenes, each of which a request ends that can be served by copying only: by evacuation to
 * new memory, by evacuation to free memory of the pool, by parting units and sharing, by sharing.
 * Each runs once for every device call the request makes, that one failing, and then with a second
 * failure some calls later, which may hit the undoing of the first; and once for every host
 * allocation. Afterwards the pool says that it has failed, on every call; or it is whole, every
 * live byte is there, and it serves on. The device has everything back in the end, in either case,
 * but for what it refused to take. */
#include "vramwise/vramwise.h"

#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"

#include "support/cmocka_here.h"
#include "support/patterned_pool.h"

#define UNIT (64 * VW_TEST_KIB) /* of the host device */

static vw_test_spy spy; /* one at a time */

/* ---- scenes ---------------------------------------------------------------------------------- */

typedef struct scene {
    vw_test_pool_setup setup;
    void (*build)(vw_test_patterns *p);
    uint64_t size_bytes; /* of the request, on stream 1 */
    uint64_t shared_pages;
    unsigned least_copies, least_releases, least_moves; /* it makes: what the scene is about */
} scene;

/* Handles of 4 MiB, in three of which one block of 1.5 MiB is left; their memory was another
 * stream's before, so that they have ghosts. */
static void leave_one_block_in_each_large_handle(vw_test_patterns *p)
{
    vw_device_ptr dropped[9] = {VW_NULL};
    vw_test_free(&p->t, vw_test_alloc_on(&p->t, 14 * VW_TEST_MIB, 5));
    vw_test_free(&p->t, vw_test_alloc_on(&p->t, 14 * VW_TEST_MIB, 0));
    for (int i = 0; i < 9; i++) {
        if (i == 1 || i == 3 || i == 6)
            vw_test_hold(p, 24 * UNIT, 0);
        else
            dropped[i] = vw_test_alloc(&p->t, 24 * UNIT);
    }
    for (int i = 0; i < 9; i++)
        vw_test_free(&p->t, dropped[i]); /* VW_NULL is nothing */
}

/* Two units half in use, in a place of their own each; but one has a handle together with the unit
 * before it, which is full. Every unit is in use. */
static void leave_half_used_units(vw_test_patterns *p)
{
    vw_device_ptr low = vw_test_hold(p, 32 * UNIT + UNIT / 2, 0);
    vw_device_ptr high = vw_test_hold(p, 32 * UNIT + UNIT / 2, 0);
    vw_test_hold(p, 33 * UNIT, 0);
    vw_test_let_go(p, high);
    assert_int_equal(vw_test_hold(p, 32 * UNIT, 0), high);
    vw_test_let_go(p, low);
    assert_int_equal(vw_test_hold(p, 32 * UNIT, 0), low);
    assert_int_equal(vw_test_reserved_bytes(p), 98 * UNIT);
}

static void leave_half_used_pages(vw_test_patterns *p)
{
    vw_device_ptr blocks[8];
    for (int i = 0; i < 8; i++)
        blocks[i] = vw_test_hold(p, UNIT / 4, 0);
    for (int i = 2; i < 6; i++)
        vw_test_let_go(p, blocks[i]);
}

static const scene scenes[] = {
    {/* evacuation to new memory */
     .setup = {.capacity_bytes = 16 * VW_TEST_MIB, .fraction = 1.0},
     .build = leave_one_block_in_each_large_handle,
     .size_bytes = 10 * VW_TEST_MIB,
     .least_copies = 2,
     .least_releases = 2},
    {/* evacuation to free memory */
     .setup = {.capacity_bytes = 14 * VW_TEST_MIB},
     .build = leave_one_block_in_each_large_handle,
     .size_bytes = 9 * VW_TEST_MIB,
     .least_copies = 2,
     .least_releases = 2,
     .least_moves = 1},
    {/* parted units */
     .setup = {.capacity_bytes = 256 * UNIT,
               .fraction = 100.0 / 256,
               .idle_share = 0.0001,
               .idle_floor_bytes = UNIT},
     .build = leave_half_used_units,
     .size_bytes = UNIT,
     .shared_pages = 1,
     .least_copies = 2,
     .least_releases = 2},
    {/* shared pages */
     .setup = {.capacity_bytes = 2 * UNIT},
     .build = leave_half_used_pages,
     .size_bytes = UNIT,
     .shared_pages = 1,
     .least_copies = 1,
     .least_releases = 1},
};

enum { SCENES = sizeof scenes / sizeof scenes[0] };

static void open_scene(vw_test_patterns *p, const scene *s, bool is_sparse)
{
    vw_test_pool_setup setup = s->setup;
    setup.engine = "vramwise:rescue";
    setup.on_host = true;
    setup.spy = &spy;
    spy = (vw_test_spy){.call_count = 0};
    vw_test_patterns_open(p, &setup);
    p->is_sparse = is_sparse;
    s->build(p);
    assert_int_equal(p->asked, 0);
}

/* ---- the end --------------------------------------------------------------------------------- */

static size_t count_done(vw_test_call call)
{
    size_t count = 0;
    for (const vw_test_call_made *made = NULL; (made = vw_test_spy_find(&spy, call, made)) != NULL;)
        count += made->status == VW_OK;
    return count;
}

/* A reservation goes only when nothing is mapped in it. */
static void close_scene(vw_test_patterns *p)
{
    assert_int_equal(p->left, p->entered);
    size_t refused_unreserves =
        vw_test_spy_count(&spy, VW_TEST_UNRESERVE) - count_done(VW_TEST_UNRESERVE);
    uint64_t lost_bytes = vw_test_spy_lost_bytes(&spy);
    vw_pool_destroy(p->t.pool);
    assert_int_equal(vw_test_calls(&p->t).in_use_bytes, lost_bytes);
    assert_in_range(count_done(VW_TEST_RESERVE) - count_done(VW_TEST_UNRESERVE), 0,
                    refused_unreserves);
    vw_device_destroy(p->t.device);
    free(p->t.events);
    vw_test_patterns_forget(p);
}

static void expect_failed(vw_test_patterns *p)
{
    vw_device_ptr none = VW_NULL;
    vw_pool *pool = p->t.pool;
    for (int round = 0; round < 2; round++) {
        assert_int_equal(vw_alloc(pool, 512, 0, &none), VW_ERR_DEVICE);
        assert_non_null(strstr(vw_last_error(), "the pool has failed"));
        assert_int_equal(vw_alloc(pool, 4 * VW_TEST_MIB, 3, &none), VW_ERR_DEVICE);
        assert_int_equal(vw_pool_trim(pool), VW_ERR_DEVICE);
        assert_int_equal(vw_pool_check(pool), VW_ERR_DEVICE);
        assert_non_null(strstr(vw_last_error(), "the pool has failed"));
    }
    for (size_t i = 0; i < p->held_count; i++)
        assert_int_equal(vw_free(pool, p->held[i].address), VW_OK);
}

/* Every byte is there; what is free can be used; in the end all of it is free. */
static void expect_whole(vw_test_patterns *p)
{
    vw_device_ptr address = VW_NULL;
    vw_test_ok(&p->t, VW_OK);
    vw_test_look_at_all(p);
    vw_test_let_go_at(p, 0);
    for (int i = 0; i < 4; i++) {
        vw_status status = vw_test_try_to_hold(p, (uint64_t)(i + 1) * UNIT / 2, 0, &address);
        vw_test_refused(&p->t, status, status == VW_OK ? VW_OK : VW_ERR_OUT_OF_MEMORY);
    }
    vw_test_look_at_all(p);
    while (p->held_count != 0)
        vw_test_let_go_at(p, 0);
    vw_test_trim(&p->t);
    assert_int_equal(vw_test_reserved_bytes(p), 0);
    assert_int_equal(vw_test_paged_stats(p).shared_pages, 0);
    assert_int_equal(vw_test_paged_stats(p).retiring_bytes, 0);
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

typedef struct sweep {
    vw_status refusal;
    uint64_t refused_calls;
    uint64_t let_between;
    unsigned failed; /* runs after which the pool had */
    unsigned served; /* runs in which the request was */
} sweep;

static void judge(vw_test_patterns *p, sweep *tally, vw_status status)
{
    bool is_failed = vw_test_paged_stats(p).is_failed;
    tally->failed += is_failed;
    tally->served += status == VW_OK;
    assert_true(status == VW_OK || status == VW_ERR_DEVICE || status == VW_ERR_OUT_OF_MEMORY ||
                status == VW_ERR_HOST_MEMORY);
    assert_true(!is_failed || status == VW_ERR_DEVICE);
    if (is_failed)
        expect_failed(p);
    else
        expect_whole(p);
    close_scene(p);
}

/* False: the call that was to fail was not made any more. */
static bool run_with_failures(const scene *s, sweep *tally, uint64_t nth)
{
    vw_test_patterns p;
    vw_device_ptr address = VW_NULL;
    open_scene(&p, s, true);
    spy.let_through = nth;
    spy.refused_calls = tally->refused_calls;
    spy.let_between = tally->let_between;
    spy.refusal = tally->refusal;
    vw_status status = vw_test_try_to_hold(&p, s->size_bytes, 1, &address);
    bool has_struck = spy.refused_calls != tally->refused_calls;
    spy.refused_calls = 0;
    judge(&p, tally, status);
    return has_struck;
}

static void sweep_device(const scene *s, sweep *tally)
{
    uint64_t nth = 0;
    while (run_with_failures(s, tally, nth))
        nth++;
    assert_in_range(nth, 8, 1000);
    assert_true(tally->served >= 1);
}

static void the_scenes_are_what_they_say(void **state)
{
    (void)state;
    for (int i = 0; i < SCENES; i++) {
        const scene *s = &scenes[i];
        vw_test_patterns p;
        vw_device_ptr address = VW_NULL;
        open_scene(&p, s, false);
        uint64_t moved = vw_test_paged_stats(&p).moved_handles;
        vw_test_spy_forget(&spy);
        vw_test_ok(&p.t, vw_test_try_to_hold(&p, s->size_bytes, 1, &address));
        assert_true(p.entered >= 1);
        assert_int_equal(vw_test_paged_stats(&p).shared_pages, s->shared_pages);
        assert_true(vw_test_spy_count(&spy, VW_TEST_COPY) >= s->least_copies);
        assert_true(vw_test_spy_count(&spy, VW_TEST_RELEASE) >= s->least_releases);
        assert_true(vw_test_paged_stats(&p).moved_handles - moved >= s->least_moves);
        vw_test_patterns_close(&p);
    }
}

static void one_failed_call_loses_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < SCENES; i++) {
        sweep tally = {.refused_calls = 1};
        sweep_device(&scenes[i], &tally);
        tally = (sweep){.refused_calls = 1, .refusal = VW_ERR_OUT_OF_MEMORY};
        sweep_device(&scenes[i], &tally);
    }
}

static void a_second_failure_is_survived_or_said(void **state)
{
    (void)state;
    for (int i = 0; i < SCENES; i++) {
        unsigned failed = 0;
        for (uint64_t between = 0; between < 4; between++) {
            sweep tally = {.refused_calls = 2, .let_between = between};
            sweep_device(&scenes[i], &tally);
            failed += tally.failed;
        }
        assert_true(failed >= 1);
    }
}

/* The device refuses everything from some call on, and is well again at the end. */
static void a_device_that_is_gone_for_a_while_is_survived_or_said(void **state)
{
    (void)state;
    for (int i = 0; i < SCENES; i++) {
        sweep tally = {.refused_calls = 100000};
        sweep_device(&scenes[i], &tally);
    }
}

static bool run_without_host_memory(const scene *s, sweep *tally, uint64_t nth)
{
    vw_test_patterns p;
    vw_device_ptr address = VW_NULL;
    open_scene(&p, s, true);
    uint64_t before = vw__host_memory_get_use().call_count;
    vw__host_memory_fail_at(nth);
    vw_status status = vw_test_try_to_hold(&p, s->size_bytes, 1, &address);
    vw__host_memory_fail_at(0);
    bool has_struck = vw__host_memory_get_use().call_count - before >= nth;
    judge(&p, tally, status);
    return has_struck;
}

static void without_host_memory_nothing_is_lost(void **state)
{
    (void)state;
    for (int i = 0; i < SCENES; i++) {
        sweep tally = {.served = 0};
        uint64_t in_use_bytes = vw__host_memory_get_use().in_use_bytes, nth = 1;
        while (run_without_host_memory(&scenes[i], &tally, nth)) {
            assert_int_equal(vw__host_memory_get_use().in_use_bytes, in_use_bytes);
            nth++;
        }
        assert_in_range(nth, 2, 1000);
        assert_int_equal(tally.failed, 0);
    }
}

/* ---- what was queued ------------------------------------------------------------------------- */

/* A copy that cannot be queued: those that were are waited for before their target is unmapped. */
static void copies_under_way_are_waited_for_when_one_fails(void **state)
{
    (void)state;
    for (int i = 0; i < SCENES; i++) {
        bool has_struck = true;
        for (uint64_t nth = 0; has_struck; nth++) {
            vw_test_patterns p;
            vw_device_ptr address = VW_NULL;
            open_scene(&p, &scenes[i], true);
            vw_test_spy_forget(&spy);
            spy.let_through = nth;
            spy.refused_calls = 1;
            (void)vw_test_try_to_hold(&p, scenes[i].size_bytes, 1, &address);
            has_struck = spy.refused_calls == 0;
            bool is_queued = false;
            for (size_t at = 0; at < spy.call_count; at++) {
                const vw_test_call_made *made = &spy.calls[at];
                if (made->call == VW_TEST_COPY && made->status == VW_OK)
                    is_queued = true;
                if (made->call == VW_TEST_STREAM_SYNCHRONIZE || made->call == VW_TEST_SYNCHRONIZE)
                    is_queued = false; /* also where it failed: nothing more can be done */
                assert_false(is_queued && made->call == VW_TEST_UNMAP);
            }
            spy.refused_calls = 0;
            vw_pool_destroy(p.t.pool);
            vw_device_destroy(p.t.device);
            free(p.t.events);
            vw_test_patterns_forget(&p);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scenes_are_what_they_say),
        cmocka_unit_test(one_failed_call_loses_nothing),
        cmocka_unit_test(a_second_failure_is_survived_or_said),
        cmocka_unit_test(a_device_that_is_gone_for_a_while_is_survived_or_said),
        cmocka_unit_test(without_host_memory_nothing_is_lost),
        cmocka_unit_test(copies_under_way_are_waited_for_when_one_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
