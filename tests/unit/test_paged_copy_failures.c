/* test_paged_copy_failures.c - whatever fails while live data is copied, whenever it fails.
 *
 * Four scenes, each of which a request ends that can be served by copying only: by evacuation to
 * new memory, by evacuation to free memory of the pool, by parting units and sharing, by sharing.
 * Each runs once for every device call the request makes, that one failing, and then with a second
 * failure some calls later, which may hit the undoing of the first; and once for every host
 * allocation. Afterwards the pool says that it has failed, on every call; or it is whole, every
 * live byte is there, and it serves on. The device has everything back in the end, in either case,
 * but for what it refused to take. */
#include "headroom/headroom.h"

#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"

#include "support/cmocka_here.h"
#include "support/patterned_pool.h"

#define UNIT (64 * HR_TEST_KIB) /* of the host device */

static hr_test_spy spy; /* one at a time */

/* ---- scenes ---------------------------------------------------------------------------------- */

typedef struct scene {
    hr_test_pool_setup setup;
    void (*build)(hr_test_patterns *p);
    uint64_t size_bytes; /* of the request, on stream 1 */
    uint64_t shared_pages;
    unsigned least_copies, least_releases, least_moves; /* it makes: what the scene is about */
} scene;

/* Handles of 4 MiB, in three of which one block of 1.5 MiB is left; their memory was another
 * stream's before, so that they have ghosts. */
static void leave_one_block_in_each_large_handle(hr_test_patterns *p)
{
    hr_device_ptr dropped[9] = {HR_NULL};
    hr_test_free(&p->t, hr_test_alloc_on(&p->t, 14 * HR_TEST_MIB, 5));
    hr_test_free(&p->t, hr_test_alloc_on(&p->t, 14 * HR_TEST_MIB, 0));
    for (int i = 0; i < 9; i++) {
        if (i == 1 || i == 3 || i == 6)
            hr_test_hold(p, 24 * UNIT, 0);
        else
            dropped[i] = hr_test_alloc(&p->t, 24 * UNIT);
    }
    for (int i = 0; i < 9; i++)
        hr_test_free(&p->t, dropped[i]); /* HR_NULL is nothing */
}

/* Two units half in use, in a place of their own each; but one has a handle together with the unit
 * before it, which is full. Every unit is in use. */
static void leave_half_used_units(hr_test_patterns *p)
{
    hr_device_ptr low = hr_test_hold(p, 32 * UNIT + UNIT / 2, 0);
    hr_device_ptr high = hr_test_hold(p, 32 * UNIT + UNIT / 2, 0);
    hr_test_hold(p, 33 * UNIT, 0);
    hr_test_let_go(p, high);
    assert_int_equal(hr_test_hold(p, 32 * UNIT, 0), high);
    hr_test_let_go(p, low);
    assert_int_equal(hr_test_hold(p, 32 * UNIT, 0), low);
    assert_int_equal(hr_test_reserved_bytes(p), 98 * UNIT);
}

static void leave_half_used_pages(hr_test_patterns *p)
{
    hr_device_ptr blocks[8];
    for (int i = 0; i < 8; i++)
        blocks[i] = hr_test_hold(p, UNIT / 4, 0);
    for (int i = 2; i < 6; i++)
        hr_test_let_go(p, blocks[i]);
}

static const scene scenes[] = {
    {/* evacuation to new memory */
     .setup = {.capacity_bytes = 16 * HR_TEST_MIB, .fraction = 1.0},
     .build = leave_one_block_in_each_large_handle,
     .size_bytes = 10 * HR_TEST_MIB,
     .least_copies = 2,
     .least_releases = 2},
    {/* evacuation to free memory */
     .setup = {.capacity_bytes = 14 * HR_TEST_MIB},
     .build = leave_one_block_in_each_large_handle,
     .size_bytes = 9 * HR_TEST_MIB,
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

static void open_scene(hr_test_patterns *p, const scene *s, bool is_sparse)
{
    hr_test_pool_setup setup = s->setup;
    setup.engine = "headroom:rescue";
    setup.on_host = true;
    setup.spy = &spy;
    spy = (hr_test_spy){.call_count = 0};
    hr_test_patterns_open(p, &setup);
    p->is_sparse = is_sparse;
    s->build(p);
    assert_int_equal(p->asked, 0);
}

/* ---- the end --------------------------------------------------------------------------------- */

static size_t count_done(hr_test_call call)
{
    size_t count = 0;
    for (const hr_test_call_made *made = NULL; (made = hr_test_spy_find(&spy, call, made)) != NULL;)
        count += made->status == HR_OK;
    return count;
}

/* A reservation goes only when nothing is mapped in it. */
static void close_scene(hr_test_patterns *p)
{
    assert_int_equal(p->left, p->entered);
    size_t refused_unreserves =
        hr_test_spy_count(&spy, HR_TEST_UNRESERVE) - count_done(HR_TEST_UNRESERVE);
    uint64_t lost_bytes = hr_test_spy_lost_bytes(&spy);
    hr_pool_destroy(p->t.pool);
    assert_int_equal(hr_test_calls(&p->t).in_use_bytes, lost_bytes);
    assert_in_range(count_done(HR_TEST_RESERVE) - count_done(HR_TEST_UNRESERVE), 0,
                    refused_unreserves);
    hr_device_destroy(p->t.device);
    free(p->t.events);
    hr_test_patterns_forget(p);
}

static void expect_failed(hr_test_patterns *p)
{
    hr_device_ptr none = HR_NULL;
    hr_pool *pool = p->t.pool;
    for (int round = 0; round < 2; round++) {
        assert_int_equal(hr_alloc(pool, 512, 0, &none), HR_ERR_DEVICE);
        assert_non_null(strstr(hr_last_error(), "the pool has failed"));
        assert_int_equal(hr_alloc(pool, 4 * HR_TEST_MIB, 3, &none), HR_ERR_DEVICE);
        assert_int_equal(hr_pool_trim(pool), HR_ERR_DEVICE);
        assert_int_equal(hr_pool_check(pool), HR_ERR_DEVICE);
        assert_non_null(strstr(hr_last_error(), "the pool has failed"));
    }
    for (size_t i = 0; i < p->held_count; i++)
        assert_int_equal(hr_free(pool, p->held[i].address), HR_OK);
}

/* Every byte is there; what is free can be used; in the end all of it is free. */
static void expect_whole(hr_test_patterns *p)
{
    hr_device_ptr address = HR_NULL;
    hr_test_ok(&p->t, HR_OK);
    hr_test_look_at_all(p);
    hr_test_let_go_at(p, 0);
    for (int i = 0; i < 4; i++) {
        hr_status status = hr_test_try_to_hold(p, (uint64_t)(i + 1) * UNIT / 2, 0, &address);
        hr_test_refused(&p->t, status, status == HR_OK ? HR_OK : HR_ERR_OUT_OF_MEMORY);
    }
    hr_test_look_at_all(p);
    while (p->held_count != 0)
        hr_test_let_go_at(p, 0);
    hr_test_trim(&p->t);
    assert_int_equal(hr_test_reserved_bytes(p), 0);
    assert_int_equal(hr_test_paged_stats(p).shared_pages, 0);
    assert_int_equal(hr_test_paged_stats(p).retiring_bytes, 0);
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

typedef struct sweep {
    hr_status refusal;
    uint64_t refused_calls;
    uint64_t let_between;
    unsigned failed; /* runs after which the pool had */
    unsigned served; /* runs in which the request was */
} sweep;

static void judge(hr_test_patterns *p, sweep *tally, hr_status status)
{
    bool is_failed = hr_test_paged_stats(p).is_failed;
    tally->failed += is_failed;
    tally->served += status == HR_OK;
    assert_true(status == HR_OK || status == HR_ERR_DEVICE || status == HR_ERR_OUT_OF_MEMORY ||
                status == HR_ERR_HOST_MEMORY);
    assert_true(!is_failed || status == HR_ERR_DEVICE);
    if (is_failed)
        expect_failed(p);
    else
        expect_whole(p);
    close_scene(p);
}

/* False: the call that was to fail was not made any more. */
static bool run_with_failures(const scene *s, sweep *tally, uint64_t nth)
{
    hr_test_patterns p;
    hr_device_ptr address = HR_NULL;
    open_scene(&p, s, true);
    spy.let_through = nth;
    spy.refused_calls = tally->refused_calls;
    spy.let_between = tally->let_between;
    spy.refusal = tally->refusal;
    hr_status status = hr_test_try_to_hold(&p, s->size_bytes, 1, &address);
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
        hr_test_patterns p;
        hr_device_ptr address = HR_NULL;
        open_scene(&p, s, false);
        uint64_t moved = hr_test_paged_stats(&p).moved_handles;
        hr_test_spy_forget(&spy);
        hr_test_ok(&p.t, hr_test_try_to_hold(&p, s->size_bytes, 1, &address));
        assert_true(p.entered >= 1);
        assert_int_equal(hr_test_paged_stats(&p).shared_pages, s->shared_pages);
        assert_true(hr_test_spy_count(&spy, HR_TEST_COPY) >= s->least_copies);
        assert_true(hr_test_spy_count(&spy, HR_TEST_RELEASE) >= s->least_releases);
        assert_true(hr_test_paged_stats(&p).moved_handles - moved >= s->least_moves);
        hr_test_patterns_close(&p);
    }
}

static void one_failed_call_loses_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < SCENES; i++) {
        sweep tally = {.refused_calls = 1};
        sweep_device(&scenes[i], &tally);
        tally = (sweep){.refused_calls = 1, .refusal = HR_ERR_OUT_OF_MEMORY};
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
    hr_test_patterns p;
    hr_device_ptr address = HR_NULL;
    open_scene(&p, s, true);
    uint64_t before = hr__host_memory_get_use().call_count;
    hr__host_memory_fail_at(nth);
    hr_status status = hr_test_try_to_hold(&p, s->size_bytes, 1, &address);
    hr__host_memory_fail_at(0);
    bool has_struck = hr__host_memory_get_use().call_count - before >= nth;
    judge(&p, tally, status);
    return has_struck;
}

static void without_host_memory_nothing_is_lost(void **state)
{
    (void)state;
    for (int i = 0; i < SCENES; i++) {
        sweep tally = {.served = 0};
        uint64_t in_use_bytes = hr__host_memory_get_use().in_use_bytes, nth = 1;
        while (run_without_host_memory(&scenes[i], &tally, nth)) {
            assert_int_equal(hr__host_memory_get_use().in_use_bytes, in_use_bytes);
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
            hr_test_patterns p;
            hr_device_ptr address = HR_NULL;
            open_scene(&p, &scenes[i], true);
            hr_test_spy_forget(&spy);
            spy.let_through = nth;
            spy.refused_calls = 1;
            (void)hr_test_try_to_hold(&p, scenes[i].size_bytes, 1, &address);
            has_struck = spy.refused_calls == 0;
            bool is_queued = false;
            for (size_t at = 0; at < spy.call_count; at++) {
                const hr_test_call_made *made = &spy.calls[at];
                if (made->call == HR_TEST_COPY && made->status == HR_OK)
                    is_queued = true;
                if (made->call == HR_TEST_STREAM_SYNCHRONIZE || made->call == HR_TEST_SYNCHRONIZE)
                    is_queued = false; /* also where it failed: nothing more can be done */
                assert_false(is_queued && made->call == HR_TEST_UNMAP);
            }
            spy.refused_calls = 0;
            hr_pool_destroy(p.t.pool);
            hr_device_destroy(p.t.device);
            free(p.t.events);
            hr_test_patterns_forget(&p);
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
