/* test_paged_spill.c - live memory that leaves the device where a request would run out of it, and
 * comes back when there is room.
 *
 * On the host device, where every block has a pattern in it: what moved must read as before. */
#include "engine/paged/paged_spill.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/patterned_pool.h"

#define MIB HR_TEST_MIB

enum { PATIENCE = 4 }; /* of paged_return.c */

static void open_pool(hr_test_patterns *p, const char *engine, uint64_t capacity_bytes,
                      uint64_t spill_bytes)
{
    hr_test_patterns_open(p, &(hr_test_pool_setup){.engine = engine,
                                                   .capacity_bytes = capacity_bytes,
                                                   .spill_bytes = spill_bytes,
                                                   .on_host = true});
}

static hr_device_ptr hold(hr_test_patterns *p, uint64_t size_bytes)
{
    return hr_test_hold(p, size_bytes, 0);
}

static void assert_nothing_is_lost(hr_test_patterns *p)
{
    hr_test_look_at_all(p);
    hr_test_ok(&p->t, HR_OK);
}

static void mark_steps(hr_test_patterns *p, int count)
{
    for (int i = 0; i < count; i++)
        hr_test_ok(&p->t, hr_pool_mark_step(p->t.pool));
}

static uint64_t spilled_bytes(const hr_test_patterns *p)
{
    return hr_test_paged_stats(p).spilled_bytes;
}

/* ---- leaving --------------------------------------------------------------------------------- */

static void a_request_that_would_run_out_is_served_and_nothing_is_lost(void **state)
{
    static const char *const engines[] = {"headroom", "headroom:rescue", "headroom:tight"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        hr_test_patterns p;
        open_pool(&p, engines[i], 64 * MIB, 64 * MIB);
        for (int block = 0; block < 6; block++)
            hold(&p, 10 * MIB);
        assert_int_equal(spilled_bytes(&p), 0);
        hold(&p, 20 * MIB);
        hr_paged_stats stats = hr_test_paged_stats(&p);
        assert_true(stats.spilled_bytes >= 16 * MIB);
        assert_int_equal(stats.peak_spilled_bytes, stats.spilled_bytes);
        assert_int_equal(stats.all_spilled_bytes, stats.spilled_bytes);
        assert_true(stats.spills >= 1);
        assert_true(stats.host_handle_bytes >= stats.spilled_bytes);
        assert_true(stats.spill_wait_ns > 0);
        assert_int_equal(stats.returns, 0);
        assert_int_equal(hr_test_live_bytes(&p), 80 * MIB);
        assert_true(hr_test_calls(&p.t).in_use_bytes <= 64 * MIB);
        assert_nothing_is_lost(&p);
        hr_test_patterns_close(&p);
    }
}

static void without_a_budget_nothing_leaves(void **state)
{
    (void)state;
    hr_test_patterns p;
    open_pool(&p, "headroom:rescue", 64 * MIB, 0);
    for (int block = 0; block < 6; block++)
        hold(&p, 10 * MIB);
    hr_test_alloc_fails(&p.t, 20 * MIB, 0, HR_ERR_OUT_OF_MEMORY);
    hr_paged_stats stats = hr_test_paged_stats(&p);
    assert_int_equal(stats.spills + stats.refused_spills + stats.host_handle_bytes, 0);
    assert_int_equal(hr_test_calls(&p.t).count[HR_DEVICE_CALL_CREATE_ON_HOST], 0);
    hr_test_patterns_close(&p);
}

static void where_all_that_may_leave_is_not_enough_nothing_does(void **state)
{
    (void)state;
    hr_test_patterns p;
    open_pool(&p, "headroom", 64 * MIB, 16 * MIB);
    for (int block = 0; block < 6; block++)
        hold(&p, 10 * MIB);
    hr_test_alloc_fails(&p.t, 40 * MIB, 0, HR_ERR_OUT_OF_MEMORY); /* beyond the budget */
    hr_test_alloc_fails(&p.t, 200 * MIB, 0, HR_ERR_OUT_OF_MEMORY);
    assert_int_equal(spilled_bytes(&p), 0);
    assert_int_equal(hr_test_paged_stats(&p).spills, 0);
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
}

static void without_a_safe_point_nothing_leaves_which_is_counted(void **state)
{
    (void)state;
    hr_test_patterns p;
    open_pool(&p, "headroom", 64 * MIB, 64 * MIB);
    for (int block = 0; block < 6; block++)
        hold(&p, 10 * MIB);
    p.refuses = true;
    hr_test_alloc_fails(&p.t, 20 * MIB, 0, HR_ERR_OUT_OF_MEMORY);
    assert_int_equal(hr_test_paged_stats(&p).refused_spills, 1);
    assert_int_equal(spilled_bytes(&p), 0);
    p.refuses = false;
    hold(&p, 20 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    hr_test_patterns_close(&p);
}

static void pinned_blocks_and_those_of_graphs_stay(void **state)
{
    (void)state;
    hr_test_patterns p;
    const hr_private_id id = {1, 1};
    open_pool(&p, "headroom", 64 * MIB, 64 * MIB);
    hr_device_ptr pinned = hold(&p, 32 * MIB);
    hr_test_ok(&p.t, hr_pool_pin(p.t.pool, pinned));
    hr_test_ok(&p.t, hr_private_pool_begin(p.t.pool, id, NULL, NULL));
    hold(&p, 32 * MIB);
    hr_test_ok(&p.t, hr_private_pool_end(p.t.pool, id));
    hr_test_alloc_fails(&p.t, 8 * MIB, 0, HR_ERR_OUT_OF_MEMORY);
    hr_test_ok(&p.t, hr_private_pool_release(p.t.pool, id)); /* of a graph that may come again */
    hr_test_alloc_fails(&p.t, 8 * MIB, 0, HR_ERR_OUT_OF_MEMORY);
    assert_int_equal(spilled_bytes(&p), 0);
    hr_test_ok(&p.t, hr_pool_unpin(p.t.pool, pinned));
    hold(&p, 8 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
}

static void while_a_stream_is_captured_nothing_leaves(void **state)
{
    (void)state;
    hr_test_patterns p;
    const hr_private_id id = {1, 1};
    open_pool(&p, "headroom", 64 * MIB, 64 * MIB);
    for (int block = 0; block < 6; block++)
        hold(&p, 10 * MIB);
    hr_test_ok(&p.t, hr_private_pool_begin(p.t.pool, id, NULL, NULL));
    assert_int_equal(hr_device_set_capturing(p.t.device, 0, true), HR_OK);
    hr_test_alloc_fails(&p.t, 20 * MIB, 0, HR_ERR_OUT_OF_MEMORY);
    assert_int_equal(spilled_bytes(&p), 0);
    assert_int_equal(hr_device_set_capturing(p.t.device, 0, false), HR_OK);
    hr_test_ok(&p.t, hr_private_pool_end(p.t.pool, id));
    hold(&p, 20 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    hr_test_patterns_close(&p);
}

/* A small block among large ones, and free memory between them: the handle leaves all the same. */
static void free_bytes_of_what_left_serve_nobody(void **state)
{
    (void)state;
    hr_test_patterns p;
    open_pool(&p, "headroom", 32 * MIB, 64 * MIB);
    hr_device_ptr blocks[16];
    for (int i = 0; i < 16; i++)
        blocks[i] = hold(&p, 2 * MIB - 256 * HR_TEST_KIB * (uint64_t)(i % 2));
    for (int i = 1; i < 16; i += 4)
        hr_test_let_go(&p, blocks[i]);
    uint64_t in_use_bytes = hr_test_live_bytes(&p);
    hold(&p, 24 * MIB);
    uint64_t out_bytes = spilled_bytes(&p);
    assert_true(out_bytes > 0 && out_bytes < in_use_bytes + 1);
    assert_nothing_is_lost(&p);
    for (int i = 0; i < 4; i++) /* whatever is asked for now lies on the device */
        hold(&p, 256 * HR_TEST_KIB);
    assert_true(spilled_bytes(&p) >= out_bytes);
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
}

static void a_block_that_left_cannot_be_shared_and_one_that_is_shared_does_not_leave(void **state)
{
    (void)state;
    hr_test_patterns p;
    hr_shared_part parts[64];
    size_t count = 0;
    uint64_t offset_bytes = 0;
    hr_test_patterns_open(&p, &(hr_test_pool_setup){.engine = "headroom",
                                                    .capacity_bytes = 64 * MIB,
                                                    .spill_bytes = 64 * MIB,
                                                    .is_shareable = true,
                                                    .on_host = true});
    hr_device_ptr first = hold(&p, 30 * MIB), second = hold(&p, 30 * MIB);
    hr_test_ok(&p.t, hr_advise(p.t.pool, first, HR_ADVISE_COLD));
    hr_test_ok(&p.t, hr_pool_share(p.t.pool, first, parts, 64, &count, &offset_bytes));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(close(parts[i].file_descriptor), 0);
    hold(&p, 20 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    hr_test_refused(&p.t, hr_pool_share(p.t.pool, second, parts, 64, &count, &offset_bytes),
                    HR_ERR_UNSUPPORTED);
    assert_non_null(strstr(hr_last_error(), "was spilled"));
    hr_test_ok(&p.t, hr_pool_unpin(p.t.pool, first));
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
}

/* ---- who leaves ------------------------------------------------------------------------------ */

static bool is_on_host(const hr_test_patterns *p, hr_device_ptr address)
{
    hr__engine *base = p->t.pool->engine;
    const hr__block *block = hr__engine_find(base, address);
    const hr__place *place = hr__paged_place_at(hr__paged_of(base), block->segment, address);
    return place->handle->on_host != NULL;
}

static void cold_blocks_leave_first_and_hot_ones_last(void **state)
{
    (void)state;
    hr_test_patterns p;
    hr_device_ptr blocks[6];
    open_pool(&p, "headroom", 64 * MIB, 64 * MIB);
    for (int i = 0; i < 6; i++)
        blocks[i] = hold(&p, 10 * MIB);
    hr_test_ok(&p.t, hr_advise(p.t.pool, blocks[3], HR_ADVISE_COLD));
    hr_test_ok(&p.t, hr_advise(p.t.pool, blocks[5], HR_ADVISE_HOT));
    hold(&p, 12 * MIB);
    for (int i = 0; i < 6; i++)
        assert_int_equal(is_on_host(&p, blocks[i]), i == 3);
    hold(&p, 40 * MIB); /* takes them all, but for one */
    for (int i = 0; i < 6; i++)
        assert_int_equal(is_on_host(&p, blocks[i]), i != 5);
    hold(&p, 12 * MIB);
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
}

/* Weights first, then what one step makes and keeps, then what the next ones make. */
static void what_was_added_last_and_kept_leaves_before_what_was_there_first(void **state)
{
    (void)state;
    hr_test_patterns p;
    open_pool(&p, "headroom", 64 * MIB, 64 * MIB);
    hr_device_ptr weights = hold(&p, 16 * MIB), kept = hold(&p, 16 * MIB);
    mark_steps(&p, 2);
    hr_device_ptr passing = hold(&p, 16 * MIB);
    hold(&p, 28 * MIB);
    assert_true(is_on_host(&p, kept));
    assert_false(is_on_host(&p, weights) || is_on_host(&p, passing));
    hr_test_patterns_close(&p);
}

static void advice_is_for_live_blocks_and_ends_with_them(void **state)
{
    (void)state;
    hr_test_patterns p;
    open_pool(&p, "headroom", 64 * MIB, 64 * MIB);
    hr_device_ptr block = hold(&p, 10 * MIB);
    hr_test_refused(&p.t, hr_advise(p.t.pool, block + 512, HR_ADVISE_COLD), HR_ERR_UNKNOWN_ADDRESS);
    hr_test_refused(&p.t, hr_advise(p.t.pool, block, (hr_advice)7), HR_ERR_INVALID_ARGUMENT);
    hr_test_ok(&p.t, hr_advise(p.t.pool, block, HR_ADVISE_COLD));
    hr_test_let_go(&p, block);
    hr_test_refused(&p.t, hr_advise(p.t.pool, block, HR_ADVISE_COLD), HR_ERR_UNKNOWN_ADDRESS);
    assert_true(hold(&p, 10 * MIB) == block);
    hr_test_patterns_close(&p);
}

/* ---- coming free on the host ----------------------------------------------------------------- */

static void a_block_that_comes_free_on_the_host_gives_its_pages_back(void **state)
{
    (void)state;
    hr_test_patterns p;
    open_pool(&p, "headroom", 64 * MIB, 32 * MIB);
    hr_device_ptr first = hold(&p, 30 * MIB);
    hr_test_ok(&p.t, hr_advise(p.t.pool, first, HR_ADVISE_COLD));
    hold(&p, 30 * MIB);
    hold(&p, 30 * MIB);
    assert_true(spilled_bytes(&p) >= 26 * MIB);
    uint64_t held_bytes = hr_test_paged_stats(&p).host_handle_bytes;
    hr_test_let_go(&p, first);
    assert_int_equal(spilled_bytes(&p), 0);
    hr_device_ptr again = hold(&p, 2 * MIB); /* a miss: what was left is unmapped now */
    hr_test_let_go(&p, again);
    assert_int_equal(hr_test_paged_stats(&p).host_handle_bytes, held_bytes); /* kept for the next */
    uint64_t made = hr_test_calls(&p.t).count[HR_DEVICE_CALL_CREATE_ON_HOST];
    hr_test_ok(&p.t, hr_advise(p.t.pool, p.held[0].address, HR_ADVISE_COLD));
    hold(&p, 30 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    assert_true(hr_test_calls(&p.t).count[HR_DEVICE_CALL_CREATE_ON_HOST] <= made + 4);
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
}

static void what_is_left_waits_for_its_stream(void **state)
{
    (void)state;
    hr_test_patterns p;
    hr_test_patterns_open(&p, &(hr_test_pool_setup){.engine = "headroom",
                                                    .capacity_bytes = 64 * MIB,
                                                    .spill_bytes = 64 * MIB,
                                                    .on_host = true,
                                                    .manual_streams = true});
    hr_device_ptr first = hr_test_hold(&p, 30 * MIB, 1);
    hr_test_ok(&p.t, hr_advise(p.t.pool, first, HR_ADVISE_COLD));
    hold(&p, 30 * MIB);
    hold(&p, 20 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    uint64_t unmapped = hr_test_calls(&p.t).count[HR_DEVICE_CALL_UNMAP];
    hr_test_let_go(&p, first);
    hr_test_hold(&p, 2 * MIB, 2); /* a miss, and the stream is held */
    assert_int_equal(hr_test_calls(&p.t).count[HR_DEVICE_CALL_UNMAP], unmapped);
    assert_int_equal(hr_device_complete(p.t.device, 1), HR_OK);
    hr_test_hold(&p, 2 * MIB, 3);
    assert_true(hr_test_calls(&p.t).count[HR_DEVICE_CALL_UNMAP] > unmapped);
    hr_test_patterns_close(&p);
}

/* Freed by its owner while another stream may use it: it is in use until then, on the host too. */
static void a_pending_block_on_the_host_stays_until_the_other_stream_is_done(void **state)
{
    (void)state;
    hr_test_patterns p;
    hr_test_patterns_open(&p, &(hr_test_pool_setup){.engine = "headroom",
                                                    .capacity_bytes = 64 * MIB,
                                                    .spill_bytes = 64 * MIB,
                                                    .on_host = true,
                                                    .manual_streams = true});
    hr_device_ptr first = hold(&p, 30 * MIB);
    hr_test_ok(&p.t, hr_advise(p.t.pool, first, HR_ADVISE_COLD));
    hold(&p, 30 * MIB);
    hold(&p, 20 * MIB);
    uint64_t out_bytes = spilled_bytes(&p);
    assert_true(out_bytes > 0);
    hr_test_ok(&p.t, hr_record_stream(p.t.pool, first, 7));
    hr_test_let_go(&p, first);
    assert_int_equal(spilled_bytes(&p), out_bytes);
    assert_int_equal(hr_device_complete(p.t.device, 7), HR_OK);
    hold(&p, 1000);
    assert_int_equal(spilled_bytes(&p), 0);
    hr_test_patterns_close(&p);
}

static void a_trim_takes_what_is_left_back_to_the_stock(void **state)
{
    (void)state;
    hr_test_patterns p;
    open_pool(&p, "headroom", 64 * MIB, 64 * MIB);
    for (int block = 0; block < 6; block++)
        hold(&p, 10 * MIB);
    hold(&p, 20 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    while (p.held_count != 0)
        hr_test_let_go_at(&p, 0);
    hr_test_trim(&p.t);
    assert_int_equal(hr_test_reserved_bytes(&p), 0);
    assert_int_equal(hr_test_calls(&p.t).in_use_bytes, 0);
    assert_true(hr_test_paged_stats(&p).host_handle_bytes > 0);
    hr_test_patterns_close(&p);
}

/* ---- coming back ----------------------------------------------------------------------------- */

static void what_left_comes_back_after_quiet_steps_with_room(void **state)
{
    (void)state;
    hr_test_patterns p;
    open_pool(&p, "headroom", 64 * MIB, 64 * MIB);
    hr_device_ptr kept = hold(&p, 30 * MIB);
    hr_test_ok(&p.t, hr_advise(p.t.pool, kept, HR_ADVISE_COLD));
    hr_device_ptr passing[2] = {hold(&p, 30 * MIB), hold(&p, 20 * MIB)};
    uint64_t out_bytes = spilled_bytes(&p);
    assert_true(out_bytes > 0);
    mark_steps(&p, 2 * PATIENCE); /* what is live fits on the device no better than before */
    assert_int_equal(spilled_bytes(&p), out_bytes);
    hr_test_let_go(&p, passing[0]);
    hr_test_let_go(&p, passing[1]);
    mark_steps(&p, 1); /* the window in which they were live */
    mark_steps(&p, PATIENCE - 1);
    mark_steps(&p, PATIENCE);
    hr_paged_stats stats = hr_test_paged_stats(&p);
    assert_int_equal(stats.spilled_bytes, 0);
    assert_int_equal(stats.returned_bytes, out_bytes);
    assert_int_equal(stats.returns, 1);
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
}

/* Every step needs the device once, and is idle at its end: nothing may come back. */
static void a_step_whose_peak_fills_the_device_keeps_it_on_the_host(void **state)
{
    (void)state;
    hr_test_patterns p;
    open_pool(&p, "headroom", 64 * MIB, 64 * MIB);
    hr_device_ptr kept = hold(&p, 30 * MIB);
    hr_test_ok(&p.t, hr_advise(p.t.pool, kept, HR_ADVISE_COLD));
    for (int step = 0; step < 4 * PATIENCE; step++) {
        hr_device_ptr first = hold(&p, 40 * MIB), second = hold(&p, 16 * MIB);
        hr_test_let_go(&p, first);
        hr_test_let_go(&p, second);
        mark_steps(&p, 1);
    }
    hr_paged_stats stats = hr_test_paged_stats(&p);
    assert_int_equal(stats.returns, 0);
    assert_true(stats.spills <= 3); /* none after the first step */
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
}

/* Phases that change just after memory has come back: each return is regretted, and the next takes
 * twice as long. */
static void a_return_that_is_regretted_makes_the_next_one_later(void **state)
{
    (void)state;
    hr_test_patterns p;
    open_pool(&p, "headroom", 64 * MIB, 64 * MIB);
    hr_device_ptr kept = hold(&p, 30 * MIB);
    hr_test_ok(&p.t, hr_advise(p.t.pool, kept, HR_ADVISE_COLD));
    int waited[3] = {0};
    for (int round = 0; round < 3; round++) {
        hr_device_ptr large = hold(&p, 50 * MIB);
        assert_true(spilled_bytes(&p) > 0);
        hr_test_let_go(&p, large);
        mark_steps(&p, 1); /* the step it was live in */
        while (spilled_bytes(&p) != 0 && waited[round] < 200) {
            mark_steps(&p, 1);
            waited[round]++;
        }
        assert_int_equal(hr_test_paged_stats(&p).returns, round + 1);
    }
    assert_true(waited[1] > waited[0]);
    assert_true(waited[2] > waited[1]);
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
}

static void hot_blocks_come_back_first(void **state)
{
    (void)state;
    hr_test_patterns p;
    open_pool(&p, "headroom", 64 * MIB, 64 * MIB);
    hr_device_ptr hot = hold(&p, 16 * MIB), cold = hold(&p, 16 * MIB);
    hr_device_ptr large = hold(&p, 60 * MIB);
    assert_true(spilled_bytes(&p) >= 28 * MIB);
    hr_test_let_go(&p, large);
    hold(&p, 34 * MIB); /* room for one of the two */
    hr_test_ok(&p.t, hr_advise(p.t.pool, hot, HR_ADVISE_HOT));
    hr_test_ok(&p.t, hr_advise(p.t.pool, cold, HR_ADVISE_COLD));
    mark_steps(&p, 3 * PATIENCE);
    assert_true(is_on_host(&p, cold));
    assert_false(is_on_host(&p, hot));
    hr_test_patterns_close(&p);
}

/* ---- coming back within a step ----------------------------------------------------------------
 */

/* Three blocks of the step on a full device, and a fourth: the first has to leave. */
static hr_device_ptr fill_up(hr_test_patterns *p, hr_advice advice, hr_device_ptr others[3])
{
    open_pool(p, "headroom", 64 * MIB, 64 * MIB);
    mark_steps(p, 2);
    hr_device_ptr first = hold(p, 20 * MIB);
    hr_test_ok(&p->t, hr_advise(p->t.pool, first, advice));
    for (int i = 0; i < 2; i++) {
        others[i] = hold(p, 20 * MIB);
        hr_test_ok(&p->t, hr_pool_pin(p->t.pool, others[i]));
    }
    others[2] = hold(p, 20 * MIB);
    for (int i = 0; i < 2; i++)
        hr_test_ok(&p->t, hr_pool_unpin(p->t.pool, others[i]));
    assert_true(is_on_host(p, first));
    return first;
}

/* Requests that are hits, without the fixture's looks: there are many. */
static void pass_time(hr_test_patterns *p, int requests)
{
    for (int i = 0; i < requests; i++) {
        hr_device_ptr block = HR_NULL;
        assert_int_equal(hr_alloc(p->t.pool, 1000, 0, &block), HR_OK);
        assert_int_equal(hr_free(p->t.pool, block), HR_OK);
    }
}

static void what_belongs_to_the_step_comes_back_as_soon_as_there_is_room(void **state)
{
    static const hr_advice kinds[] = {HR_ADVISE_NORMAL, HR_ADVISE_HOT};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        hr_test_patterns p;
        hr_device_ptr others[3];
        fill_up(&p, kinds[i], others);
        uint64_t out_bytes = spilled_bytes(&p);
        assert_true(out_bytes >= 16 * MIB);
        hold(&p, 1000); /* as full as before */
        assert_int_equal(spilled_bytes(&p), out_bytes);
        hr_test_let_go(&p, others[2]);
        assert_int_equal(spilled_bytes(&p), out_bytes); /* a free calls no driver */
        hr_test_let_go(&p,
                       hold(&p, 1000)); /* 20 MiB are room for them, but not for a share besides */
        assert_int_equal(spilled_bytes(&p), out_bytes);
        hr_test_let_go(&p, others[1]);
        hold(&p, 1000);
        hr_paged_stats stats = hr_test_paged_stats(&p);
        assert_int_equal(stats.spilled_bytes, 0);
        assert_int_equal(stats.returns, 1);
        assert_nothing_is_lost(&p);
        hr_test_patterns_close(&p);
    }
}

static void what_is_cold_or_settled_stays_on_the_host_within_a_step(void **state)
{
    (void)state;
    for (int is_settled = 0; is_settled < 2; is_settled++) {
        hr_test_patterns p;
        open_pool(&p, "headroom", 64 * MIB, 64 * MIB);
        hr_device_ptr kept = hold(&p, 30 * MIB);
        hr_test_ok(&p.t, hr_advise(p.t.pool, kept, is_settled ? HR_ADVISE_NORMAL : HR_ADVISE_COLD));
        mark_steps(&p, 2);
        hr_device_ptr large = hold(&p, 50 * MIB);
        uint64_t out_bytes = spilled_bytes(&p);
        assert_true(out_bytes > 0);
        hr_test_let_go(&p, large);
        hold(&p, 1000);
        assert_int_equal(spilled_bytes(&p), out_bytes);
        assert_int_equal(hr_test_paged_stats(&p).returns, 0);
        assert_nothing_is_lost(&p);
        hr_test_patterns_close(&p);
    }
}

/* Temporaries that come and go, each of which needs the device: coming back in between is tried
 * ever more seldom. */
static void coming_back_between_two_peaks_is_given_up(void **state)
{
    enum { PEAKS = 200 };
    (void)state;
    hr_test_patterns p;
    open_pool(&p, "headroom", 64 * MIB, 64 * MIB);
    p.is_sparse = true;
    mark_steps(&p, 2);
    hold(&p, 30 * MIB);
    for (int i = 0; i < PEAKS; i++) {
        hr_device_ptr peak = hold(&p, 44 * MIB);
        hr_test_let_go(&p, peak);
        hr_test_let_go(&p, hold(&p, 1000));
    }
    hr_paged_stats stats = hr_test_paged_stats(&p);
    assert_true(stats.returns >= 1);
    assert_true(stats.returns <= 10);
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
}

/* A block that is hot, and peaks that need its room, so many requests apart. Without bytes: there
 * are hundreds. */
static void open_with_hot(hr_test_patterns *p)
{
    hr_test_patterns_open(p, &(hr_test_pool_setup){.engine = "headroom",
                                                   .capacity_bytes = 64 * MIB,
                                                   .spill_bytes = 64 * MIB});
    hr_device_ptr hot = hold(p, 30 * MIB);
    hr_test_ok(&p->t, hr_advise(p->t.pool, hot, HR_ADVISE_HOT));
}

static void peak_and_pass_time(hr_test_patterns *p, int requests)
{
    hr_device_ptr peak = HR_NULL;
    assert_int_equal(hr_alloc(p->t.pool, 44 * MIB, 0, &peak), HR_OK);
    assert_int_equal(hr_free(p->t.pool, peak), HR_OK);
    pass_time(p, requests);
}

/* How often a hundred peaks let it come back, in steps of `peaks`; 0: no steps are marked. */
static uint64_t returns_with(int requests, int peaks)
{
    enum { ALL = 100 };
    hr_test_patterns p;
    open_with_hot(&p);
    for (int i = 1; i <= ALL; i++) {
        peak_and_pass_time(&p, requests);
        if (peaks != 0 && i % peaks == 0)
            mark_steps(&p, 1);
    }
    uint64_t returns = hr_test_paged_stats(&p).returns;
    hr_test_ok(&p.t, HR_OK);
    hr_test_patterns_close(&p);
    return returns;
}

/* Moving it there and back is worth some hundred requests, and not more than a few times a step. */
static void how_soon_is_too_early_goes_by_the_step(void **state)
{
    (void)state;
    assert_in_range(returns_with(120, 0), 1, 10);
    assert_int_equal(returns_with(400, 0), 100);
    assert_in_range(returns_with(120, 25), 1, 15);  /* layers */
    assert_in_range(returns_with(120, 5), 90, 100); /* parts of a batch; two steps have to tell */
    assert_in_range(returns_with(120, 1), 90, 100);
}

/* Then it has to leave but once a step, and is to be there again for most of it. */
static void patience_is_forgotten_when_the_program_is_calmer(void **state)
{
    enum { UNQUIET = 200, STEPS = 80, HALF = 300 };
    (void)state;
    hr_test_patterns p;
    open_with_hot(&p);
    mark_steps(&p, 2);
    for (int i = 0; i < UNQUIET; i++)
        peak_and_pass_time(&p, 10);
    assert_true(spilled_bytes(&p) > 0);
    for (int i = 0; i < STEPS; i++) {
        peak_and_pass_time(&p, HALF);
        if (i >= STEPS - 5)
            assert_int_equal(spilled_bytes(&p), 0);
        pass_time(&p, HALF);
        mark_steps(&p, 1);
    }
    hr_test_ok(&p.t, HR_OK);
    hr_test_patterns_close(&p);
}

static void without_a_safe_point_the_request_is_served_all_the_same(void **state)
{
    (void)state;
    hr_test_patterns p;
    hr_device_ptr others[3];
    fill_up(&p, HR_ADVISE_NORMAL, others);
    uint64_t out_bytes = spilled_bytes(&p);
    p.refuses = true;
    hr_test_let_go(&p, others[1]);
    hr_test_let_go(&p, others[2]);
    for (int i = 0; i < 100; i++)
        hr_test_let_go(&p, hold(&p, 1000));
    assert_int_equal(spilled_bytes(&p), out_bytes);
    assert_in_range(hr_test_paged_stats(&p).refused_spills, 1, 5);
    p.refuses = false;
    for (int i = 0; i < 400; i++)
        hr_test_let_go(&p, hold(&p, 1000));
    assert_int_equal(spilled_bytes(&p), 0);
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
}

/* There was room, and then nothing that wants it. */
static void what_is_freed_before_it_comes_back_costs_no_moment(void **state)
{
    (void)state;
    hr_test_patterns p;
    hr_device_ptr others[3];
    hr_device_ptr first = fill_up(&p, HR_ADVISE_NORMAL, others);
    hr_test_let_go(&p, others[1]);
    hr_test_let_go(&p, others[2]);
    hr_test_let_go(&p, first);
    assert_int_equal(spilled_bytes(&p), 0);
    unsigned asked = p.asked;
    pass_time(&p, 3);
    assert_int_equal(p.asked, asked);
    hr_test_patterns_close(&p);
}

/* It cannot come back until others are done with it: that is looked for ever more seldom, since
 * each look stops the program. */
static void what_is_pinned_on_the_host_is_asked_for_ever_more_seldom(void **state)
{
    (void)state;
    hr_test_patterns p;
    hr_device_ptr others[3];
    hr_device_ptr first = fill_up(&p, HR_ADVISE_NORMAL, others);
    hr_test_ok(&p.t, hr_pool_pin(p.t.pool, first));
    hr_test_let_go(&p, others[1]);
    hr_test_let_go(&p, others[2]);
    unsigned asked = p.asked;
    pass_time(&p, 4000);
    assert_in_range(p.asked - asked, 2, 8);
    assert_true(spilled_bytes(&p) > 0);
    hr_test_ok(&p.t, hr_pool_unpin(p.t.pool, first));
    pass_time(&p, 8000);
    assert_int_equal(spilled_bytes(&p), 0);
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
}

/* Everything but a request is as ever; a fixture that closes ends the pool without one. */
static void what_is_due_may_wait_for_ever(void **state)
{
    (void)state;
    hr_test_patterns p;
    hr_device_ptr others[3];
    fill_up(&p, HR_ADVISE_NORMAL, others);
    uint64_t out_bytes = spilled_bytes(&p);
    hr_test_let_go(&p, others[1]);
    hr_test_let_go(&p, others[2]);
    hr_test_ok(&p.t, hr_pool_trim(p.t.pool));
    hr_test_ok(&p.t, hr_pool_pin(p.t.pool, others[0]));
    hr_test_ok(&p.t, hr_pool_unpin(p.t.pool, others[0]));
    hr_test_ok(&p.t, hr_pool_set_fraction(p.t.pool, 0.9));
    assert_int_equal(spilled_bytes(&p), out_bytes);
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
}

static hr_device_ptr freed_meanwhile;

/* Another thread gives memory back, and its request is the first to have its moment. */
static void return_before_it(hr_test_patterns *p)
{
    p->when_asked = NULL;
    hr_test_let_go(p, freed_meanwhile);
    hold(p, 1000);
    assert_int_equal(spilled_bytes(p), 0);
}

static void two_that_return_at_once_do_it_once(void **state)
{
    (void)state;
    hr_test_patterns p;
    hr_device_ptr others[3];
    fill_up(&p, HR_ADVISE_NORMAL, others);
    unsigned asked = p.asked;
    hr_test_let_go(&p, others[1]);
    hr_test_let_go(&p, others[2]);
    freed_meanwhile = others[0];
    p.when_asked = return_before_it;
    hold(&p, 1000);
    assert_int_equal(p.asked - asked, 2);
    assert_int_equal(hr_test_paged_stats(&p).returns, 1);
    pass_time(&p, 100);
    assert_int_equal(p.asked - asked, 2);
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
}

static void take_the_room(hr_test_patterns *p)
{
    p->when_asked = NULL;
    hold(p, 30 * MIB);
}

static void room_that_others_took_meanwhile_is_left_to_them(void **state)
{
    (void)state;
    hr_test_patterns p;
    hr_device_ptr others[3];
    fill_up(&p, HR_ADVISE_NORMAL, others);
    uint64_t out_bytes = spilled_bytes(&p);
    hr_test_let_go(&p, others[1]);
    hr_test_let_go(&p, others[2]);
    p.when_asked = take_the_room;
    hold(&p, 1000);
    assert_int_equal(spilled_bytes(&p), out_bytes);
    assert_int_equal(hr_test_paged_stats(&p).returns, 0);
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
}

/* ---- the simulated device, and making ahead -------------------------------------------------- */

/* Where replay looks: it leaves and comes back as on any other, and takes the time it takes. */
static void on_a_simulated_device_it_costs_what_was_measured(void **state)
{
    (void)state;
    hr_test_patterns p;
    hr_test_patterns_open(&p, &(hr_test_pool_setup){.engine = "headroom",
                                                    .capacity_bytes = HR_TEST_GIB,
                                                    .spill_bytes = 64 * HR_TEST_GIB});
    hold(&p, 600 * MIB);
    uint64_t before_ns = hr_test_calls(&p.t).elapsed_ns;
    hr_device_ptr large = hold(&p, 900 * MIB);
    uint64_t out_bytes = spilled_bytes(&p);
    uint64_t elapsed_ns = hr_test_calls(&p.t).elapsed_ns - before_ns;
    assert_true(out_bytes >= 476 * MIB);
    assert_true(elapsed_ns > out_bytes / MIB * 390000); /* creating, mapping, copying a MiB */
    assert_true(elapsed_ns < out_bytes / MIB * 600000);
    hr_test_let_go(&p, large);
    mark_steps(&p, 2 * PATIENCE + 1);
    assert_int_equal(spilled_bytes(&p), 0);
    hr_test_patterns_close(&p);
}

static void what_would_leave_next_is_made_ahead_once_memory_is_short(void **state)
{
    (void)state;
    hr_test_patterns p;
    const struct timespec pause = {.tv_nsec = 1000000};
    hr_test_patterns_open(&p, &(hr_test_pool_setup){.engine = "headroom",
                                                    .capacity_bytes = 64 * MIB,
                                                    .spill_bytes = 64 * MIB,
                                                    .spill_ahead_bytes = 16 * MIB,
                                                    .on_host = true});
    for (int block = 0; block < 5; block++)
        hold(&p, 10 * MIB);
    assert_int_equal(hr_test_paged_stats(&p).host_handle_bytes, 0);
    hold(&p, 10 * MIB); /* now less than an eighth is left */
    for (int i = 0; i < 20000 && hr_test_paged_stats(&p).host_handle_bytes < 12 * MIB; i++)
        nanosleep(&pause, NULL);
    assert_in_range(hr_test_paged_stats(&p).host_handle_bytes, 12 * MIB, 16 * MIB);
    hold(&p, 8 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
}

/* ---- the budget, the listener ---------------------------------------------------------------- */

static void a_host_that_gives_nothing_means_an_ordinary_out_of_memory(void **state)
{
    (void)state;
    hr_test_patterns p;
    static hr_test_spy spy;
    memset(&spy, 0, sizeof spy);
    hr_test_patterns_open(&p, &(hr_test_pool_setup){.engine = "headroom",
                                                    .capacity_bytes = 64 * MIB,
                                                    .spill_bytes = 64 * MIB,
                                                    .spy = &spy,
                                                    .on_host = true});
    for (int block = 0; block < 6; block++)
        hold(&p, 10 * MIB);
    spy.refused_host_creations = 1;
    hr_test_alloc_fails(&p.t, 20 * MIB, 0, HR_ERR_OUT_OF_MEMORY);
    assert_non_null(strstr(hr_last_error(), "out of memory"));
    hr_paged_stats stats = hr_test_paged_stats(&p);
    assert_int_equal(stats.failed_host_creations, 1);
    assert_int_equal(stats.spills + stats.host_handle_bytes, 0);
    assert_nothing_is_lost(&p);
    hold(&p, 20 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    hr_test_patterns_close(&p);
}

static void spilled_memory_is_drawn_from_the_shared_budget(void **state)
{
    (void)state;
    hr_test_patterns p;
    hr_pinned_budget *budget = NULL;
    hr_pinned_budget_stats drawn = {.struct_size = sizeof drawn};
    assert_int_equal(hr_pinned_budget_create(24 * MIB, &budget), HR_OK);
    hr_test_patterns_open(&p, &(hr_test_pool_setup){.engine = "headroom",
                                                    .capacity_bytes = 64 * MIB,
                                                    .spill_bytes = 64 * MIB,
                                                    .pinned_budget = budget,
                                                    .on_host = true});
    for (int block = 0; block < 6; block++)
        hold(&p, 10 * MIB);
    hold(&p, 20 * MIB);
    assert_int_equal(hr_pinned_budget_get(budget, &drawn), HR_OK);
    assert_int_equal(drawn.used_bytes, hr_test_paged_stats(&p).host_handle_bytes);
    assert_true(drawn.used_bytes > 0 && drawn.used_bytes <= 24 * MIB);
    hr_test_alloc_fails(&p.t, 20 * MIB, 0, HR_ERR_OUT_OF_MEMORY);
    assert_int_equal(hr_pinned_budget_get(budget, &drawn), HR_OK);
    assert_true(drawn.peak_bytes <= 24 * MIB);
    assert_nothing_is_lost(&p);
    hr_test_patterns_close(&p);
    assert_int_equal(hr_pinned_budget_get(budget, &drawn), HR_OK);
    assert_int_equal(drawn.used_bytes, 0);
    hr_pinned_budget_destroy(budget);
}

typedef struct heard {
    hr_pool *pool;
    unsigned count;
    hr_spill_report latest;
} heard;

static void listen(void *context, const hr_spill_report *report)
{
    heard *ear = context;
    hr_pool_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(hr_pool_get_stats(ear->pool, &stats), HR_OK); /* the lock is free */
    ear->count++;
    ear->latest = *report;
}

static void the_listener_hears_what_left_and_what_came_back(void **state)
{
    (void)state;
    hr_test_patterns p;
    heard ear = {.count = 0};
    hr_test_patterns_open(&p, &(hr_test_pool_setup){.engine = "headroom",
                                                    .capacity_bytes = 64 * MIB,
                                                    .spill_bytes = 64 * MIB,
                                                    .spill_listener = {&ear, listen},
                                                    .on_host = true});
    ear.pool = p.t.pool;
    hold(&p, 30 * MIB);
    hr_device_ptr large = hold(&p, 50 * MIB);
    assert_int_equal(ear.count, 1);
    assert_false(ear.latest.is_return);
    assert_int_equal(ear.latest.spilled_bytes, spilled_bytes(&p));
    assert_int_equal(ear.latest.moved_bytes, spilled_bytes(&p));
    assert_true(ear.latest.moved_handles > 0 && ear.latest.wait_ns > 0);
    hr_test_let_go(&p, large);
    mark_steps(&p, 2 * PATIENCE + 1);
    assert_int_equal(ear.count, 2);
    assert_true(ear.latest.is_return);
    assert_int_equal(ear.latest.spilled_bytes, 0);
    hr_test_patterns_close(&p);
}

/* ---- options --------------------------------------------------------------------------------- */

static void assert_refused(hr_device *device, const char *engine, uint64_t spill_bytes,
                           uint64_t ahead_bytes, hr_status expected, const char *part)
{
    hr_pool *pool = NULL;
    const hr_pool_options options = {.struct_size = sizeof options,
                                     .engine = engine,
                                     .spill_bytes = spill_bytes,
                                     .spill_ahead_bytes = ahead_bytes};
    assert_int_equal(hr_pool_create(device, &options, &pool), expected);
    assert_null(pool);
    assert_non_null(strstr(hr_last_error(), part));
}

static void options_that_cannot_be_kept_are_refused(void **state)
{
    (void)state;
    hr_device *device = NULL, *simulated = NULL, *plain = NULL;
    hr_simulated_options without = {.struct_size = sizeof without, .without_virtual_memory = true};
    assert_int_equal(hr_host_device_create(64 * MIB, &device), HR_OK);
    assert_int_equal(hr_simulated_device_create(NULL, &simulated), HR_OK);
    assert_int_equal(hr_simulated_device_create(&without, &plain), HR_OK);
    assert_refused(device, "torch", MIB, 0, HR_ERR_INVALID_ARGUMENT, "spills nothing");
    assert_refused(device, "headroom", MIB, 2 * MIB, HR_ERR_INVALID_ARGUMENT, "spill_ahead_bytes");
    assert_refused(device, "headroom", UINT64_MAX / 2, 0, HR_ERR_INVALID_ARGUMENT,
                   "free on this machine");
    assert_non_null(strstr(hr_last_error(), "limit of the control group"));
    assert_non_null(strstr(hr_last_error(), "ulimit -l"));
    assert_refused(plain, "headroom", MIB, 0, HR_ERR_UNSUPPORTED, "host memory");
    hr_pool *pool = NULL; /* nothing is behind a simulated device: any number will do */
    const hr_pool_options options = {
        .struct_size = sizeof options, .engine = "headroom", .spill_bytes = UINT64_C(1) << 50};
    assert_int_equal(hr_pool_create(simulated, &options, &pool), HR_OK);
    hr_pool_destroy(pool);
    hr_device_destroy(device);
    hr_device_destroy(simulated);
    hr_device_destroy(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_that_would_run_out_is_served_and_nothing_is_lost),
        cmocka_unit_test(without_a_budget_nothing_leaves),
        cmocka_unit_test(where_all_that_may_leave_is_not_enough_nothing_does),
        cmocka_unit_test(without_a_safe_point_nothing_leaves_which_is_counted),
        cmocka_unit_test(pinned_blocks_and_those_of_graphs_stay),
        cmocka_unit_test(while_a_stream_is_captured_nothing_leaves),
        cmocka_unit_test(free_bytes_of_what_left_serve_nobody),
        cmocka_unit_test(a_block_that_left_cannot_be_shared_and_one_that_is_shared_does_not_leave),
        cmocka_unit_test(cold_blocks_leave_first_and_hot_ones_last),
        cmocka_unit_test(what_was_added_last_and_kept_leaves_before_what_was_there_first),
        cmocka_unit_test(advice_is_for_live_blocks_and_ends_with_them),
        cmocka_unit_test(a_block_that_comes_free_on_the_host_gives_its_pages_back),
        cmocka_unit_test(what_is_left_waits_for_its_stream),
        cmocka_unit_test(a_pending_block_on_the_host_stays_until_the_other_stream_is_done),
        cmocka_unit_test(a_trim_takes_what_is_left_back_to_the_stock),
        cmocka_unit_test(what_left_comes_back_after_quiet_steps_with_room),
        cmocka_unit_test(a_step_whose_peak_fills_the_device_keeps_it_on_the_host),
        cmocka_unit_test(a_return_that_is_regretted_makes_the_next_one_later),
        cmocka_unit_test(hot_blocks_come_back_first),
        cmocka_unit_test(what_belongs_to_the_step_comes_back_as_soon_as_there_is_room),
        cmocka_unit_test(what_is_cold_or_settled_stays_on_the_host_within_a_step),
        cmocka_unit_test(coming_back_between_two_peaks_is_given_up),
        cmocka_unit_test(without_a_safe_point_the_request_is_served_all_the_same),
        cmocka_unit_test(what_is_freed_before_it_comes_back_costs_no_moment),
        cmocka_unit_test(what_is_pinned_on_the_host_is_asked_for_ever_more_seldom),
        cmocka_unit_test(how_soon_is_too_early_goes_by_the_step),
        cmocka_unit_test(patience_is_forgotten_when_the_program_is_calmer),
        cmocka_unit_test(what_is_due_may_wait_for_ever),
        cmocka_unit_test(two_that_return_at_once_do_it_once),
        cmocka_unit_test(room_that_others_took_meanwhile_is_left_to_them),
        cmocka_unit_test(on_a_simulated_device_it_costs_what_was_measured),
        cmocka_unit_test(what_would_leave_next_is_made_ahead_once_memory_is_short),
        cmocka_unit_test(a_host_that_gives_nothing_means_an_ordinary_out_of_memory),
        cmocka_unit_test(spilled_memory_is_drawn_from_the_shared_budget),
        cmocka_unit_test(the_listener_hears_what_left_and_what_came_back),
        cmocka_unit_test(options_that_cannot_be_kept_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
