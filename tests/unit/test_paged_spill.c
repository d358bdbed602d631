/* test_paged_spill.c - live memory that leaves the device where a request would run out of it. When
 * it comes back is test_paged_return.c's. */
#include "engine/paged/paged_spill.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/spilling_pool.h"

/* ---- leaving --------------------------------------------------------------------------------- */

static void a_request_that_would_run_out_is_served_and_nothing_is_lost(void **state)
{
    static const char *const engines[] = {"vramwise", "vramwise:rescue", "vramwise:tight"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        vw_test_patterns p;
        open_pool(&p, engines[i], 64 * MIB, 64 * MIB);
        for (int block = 0; block < 6; block++)
            hold(&p, 10 * MIB);
        assert_int_equal(spilled_bytes(&p), 0);
        hold(&p, 20 * MIB);
        vw_paged_stats stats = vw_test_paged_stats(&p);
        assert_true(stats.spilled_bytes >= 16 * MIB);
        assert_int_equal(stats.peak_spilled_bytes, stats.spilled_bytes);
        assert_int_equal(stats.all_spilled_bytes, stats.spilled_bytes);
        assert_true(stats.spills >= 1);
        assert_true(stats.host_handle_bytes >= stats.spilled_bytes);
        assert_true(stats.spill_wait_ns > 0);
        assert_int_equal(stats.returns, 0);
        assert_int_equal(vw_test_live_bytes(&p), 80 * MIB);
        assert_true(vw_test_calls(&p.t).in_use_bytes <= 64 * MIB);
        assert_nothing_is_lost(&p);
        vw_test_patterns_close(&p);
    }
}

static void without_a_budget_nothing_leaves(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise:rescue", 64 * MIB, 0);
    for (int block = 0; block < 6; block++)
        hold(&p, 10 * MIB);
    vw_test_alloc_fails(&p.t, 20 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_paged_stats stats = vw_test_paged_stats(&p);
    assert_int_equal(stats.spills + stats.refused_spills + stats.host_handle_bytes, 0);
    assert_int_equal(vw_test_calls(&p.t).count[VW_DEVICE_CALL_CREATE_ON_HOST], 0);
    vw_test_patterns_close(&p);
}

static void where_all_that_may_leave_is_not_enough_nothing_does(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise", 64 * MIB, 16 * MIB);
    for (int block = 0; block < 6; block++)
        hold(&p, 10 * MIB);
    vw_test_alloc_fails(&p.t, 40 * MIB, 0, VW_ERR_OUT_OF_MEMORY); /* beyond the budget */
    vw_test_alloc_fails(&p.t, 200 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(spilled_bytes(&p), 0);
    assert_int_equal(vw_test_paged_stats(&p).spills, 0);
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

static void without_a_safe_point_nothing_leaves_which_is_counted(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise", 64 * MIB, 64 * MIB);
    for (int block = 0; block < 6; block++)
        hold(&p, 10 * MIB);
    p.refuses = true;
    vw_test_alloc_fails(&p.t, 20 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(vw_test_paged_stats(&p).refused_spills, 1);
    assert_int_equal(spilled_bytes(&p), 0);
    p.refuses = false;
    hold(&p, 20 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    vw_test_patterns_close(&p);
}

static void pinned_blocks_and_those_of_graphs_stay(void **state)
{
    (void)state;
    vw_test_patterns p;
    const vw_private_id id = {1, 1};
    open_pool(&p, "vramwise", 64 * MIB, 64 * MIB);
    vw_device_ptr pinned = hold(&p, 32 * MIB);
    vw_test_ok(&p.t, vw_pool_pin(p.t.pool, pinned));
    vw_test_ok(&p.t, vw_private_pool_begin(p.t.pool, id, NULL, NULL));
    hold(&p, 32 * MIB);
    vw_test_ok(&p.t, vw_private_pool_end(p.t.pool, id));
    vw_test_alloc_fails(&p.t, 8 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_ok(&p.t, vw_private_pool_release(p.t.pool, id)); /* of a graph that may come again */
    vw_test_alloc_fails(&p.t, 8 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(spilled_bytes(&p), 0);
    vw_test_ok(&p.t, vw_pool_unpin(p.t.pool, pinned));
    hold(&p, 8 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

static void while_a_stream_is_captured_nothing_leaves(void **state)
{
    (void)state;
    vw_test_patterns p;
    const vw_private_id id = {1, 1};
    open_pool(&p, "vramwise", 64 * MIB, 64 * MIB);
    for (int block = 0; block < 6; block++)
        hold(&p, 10 * MIB);
    vw_test_ok(&p.t, vw_private_pool_begin(p.t.pool, id, NULL, NULL));
    assert_int_equal(vw_device_set_capturing(p.t.device, 0, true), VW_OK);
    vw_test_alloc_fails(&p.t, 20 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(spilled_bytes(&p), 0);
    assert_int_equal(vw_device_set_capturing(p.t.device, 0, false), VW_OK);
    vw_test_ok(&p.t, vw_private_pool_end(p.t.pool, id));
    hold(&p, 20 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    vw_test_patterns_close(&p);
}

/* What a program can move out of the way itself: a block that it frees when it is asked. */
typedef struct movable {
    vw_test_patterns *p;
    vw_device_ptr block;
    uint64_t asked_bytes;
    int asked;
} movable;

static bool move_away(void *context, uint64_t size_bytes)
{
    movable *its = context;
    its->asked++;
    its->asked_bytes = size_bytes;
    if (its->block == VW_NULL)
        return false;
    assert_int_equal(vw_free(its->p->t.pool, its->block), VW_OK);
    its->block = VW_NULL;
    return true;
}

static void the_program_is_asked_for_room_before_anything_leaves(void **state)
{
    (void)state;
    vw_test_patterns p;
    movable its = {.p = &p};
    const vw_private_id id = {1, 1};
    vw_test_patterns_open(&p, &(vw_test_pool_setup){.engine = "vramwise",
                                                    .capacity_bytes = 64 * MIB,
                                                    .spill_bytes = 64 * MIB,
                                                    .on_host = true,
                                                    .make_room = move_away,
                                                    .make_room_context = &its});
    vw_test_ok(&p.t, vw_alloc(p.t.pool, 20 * MIB, 0, &its.block));
    hold(&p, 40 * MIB);
    assert_int_equal(its.asked, 0);
    hold(&p, 20 * MIB);
    assert_int_equal(its.asked, 1);
    assert_int_equal(its.asked_bytes, 20 * MIB);
    assert_int_equal(spilled_bytes(&p), 0);
    hold(&p, 20 * MIB); /* it has no more to give */
    assert_int_equal(its.asked, 2);
    assert_true(spilled_bytes(&p) > 0);
    vw_test_ok(&p.t, vw_private_pool_begin(p.t.pool, id, NULL, NULL));
    assert_int_equal(vw_device_set_capturing(p.t.device, 0, true), VW_OK);
    vw_test_alloc_fails(&p.t, 20 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(its.asked, 2);
    assert_int_equal(vw_device_set_capturing(p.t.device, 0, false), VW_OK);
    vw_test_ok(&p.t, vw_private_pool_end(p.t.pool, id));
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

/* A program whose block is used by another stream's work: it has the block's own stream wait for
 * that, as whoever frees must, and frees it. */
typedef struct late_work {
    vw_test_pool t;
    vw_device_ptr block;
    vw_device_event work;
} late_work;

enum { OWN_STREAM = 7, WORKING_STREAM = 8 };

static vw_device_event work_on(const vw_test_pool *t, vw_stream stream)
{
    const vw_device *device = t->device;
    vw_device_event end = 0;
    assert_int_equal(device->table->event_create(device->context, &end), VW_OK);
    assert_int_equal(device->table->event_record(device->context, end, stream), VW_OK);
    return end;
}

static bool is_over(const vw_test_pool *t, vw_device_event end)
{
    return t->device->table->event_query(t->device->context, end) == VW_OK;
}

static bool free_behind_work(void *context, uint64_t size_bytes)
{
    late_work *its = context;
    const vw_device *device = its->t.device;
    (void)size_bytes;
    if (its->block == VW_NULL)
        return false;
    assert_int_equal(vw_pool_check(its->t.pool), VW_OK);
    its->work = work_on(&its->t, WORKING_STREAM);
    assert_int_equal(device->table->stream_wait_event(device->context, OWN_STREAM, its->work),
                     VW_OK);
    assert_int_equal(vw_free(its->t.pool, its->block), VW_OK);
    its->block = VW_NULL;
    return true;
}

/* The request takes a free page of that stream first, and marks how far its work is. What is freed
 * while the program is asked is behind later work. */
static void what_the_program_frees_is_waited_for_anew(void **state)
{
    (void)state;
    late_work its = {0};
    vw_test_pool *t = &its.t;
    vw_device_ptr free_page, rest, served;
    vw_test_pool_open(t, &(vw_test_pool_setup){.engine = "vramwise",
                                               .capacity_bytes = 8 * MIB,
                                               .on_host = true,
                                               .make_room = free_behind_work,
                                               .make_room_context = &its});
    const vw_device *device = t->device;
    const uint64_t page = device->properties.granularity_bytes;
    assert_int_equal(vw_device_set_capacity(t->device, 4 * page), VW_OK);
    vw_test_ok(t, vw_alloc(t->pool, page, OWN_STREAM, &free_page));
    vw_test_ok(t, vw_alloc(t->pool, page, OWN_STREAM, &its.block));
    vw_test_ok(t, vw_alloc(t->pool, 2 * page, 0, &rest));
    assert_int_equal(vw_device_hold_streams(t->device, true), VW_OK);
    vw_test_ok(t, vw_free(t->pool, free_page));
    vw_test_ok(t, vw_alloc(t->pool, 2 * page, 0, &served));
    const vw_device_event first_use = work_on(t, 0);
    assert_int_equal(vw_device_complete(t->device, OWN_STREAM), VW_OK); /* up to where it waits */
    assert_int_equal(vw_device_complete(t->device, 0), VW_OK);
    assert_false(is_over(t, its.work));
    assert_false(is_over(t, first_use));
    assert_int_equal(vw_device_complete(t->device, WORKING_STREAM), VW_OK);
    assert_int_equal(vw_device_complete(t->device, OWN_STREAM), VW_OK);
    assert_int_equal(vw_device_complete(t->device, 0), VW_OK);
    assert_true(is_over(t, first_use));
    assert_int_equal(vw_device_hold_streams(t->device, false), VW_OK);
    assert_int_equal(device->table->event_destroy(device->context, its.work), VW_OK);
    assert_int_equal(device->table->event_destroy(device->context, first_use), VW_OK);
    vw_test_pool_close(t);
}

static vw_status alloc_optionally(vw_test_patterns *p, uint64_t size_bytes, vw_device_ptr *out)
{
    const vw_alloc_request request = {
        .struct_size = sizeof request, .size_bytes = size_bytes, .is_optional = true};
    return vw_alloc_with(p->t.pool, &request, out);
}

/* Nothing is waited for, asked for or spilled for it, and its failure is nobody's error. */
static void an_optional_request_takes_only_what_is_free(void **state)
{
    (void)state;
    vw_test_patterns p;
    movable its = {.p = &p};
    vw_test_patterns_open(&p, &(vw_test_pool_setup){.engine = "vramwise",
                                                    .capacity_bytes = 64 * MIB,
                                                    .spill_bytes = 64 * MIB,
                                                    .on_host = true,
                                                    .make_room = move_away,
                                                    .make_room_context = &its});
    hold(&p, 40 * MIB);
    vw_device_ptr block = VW_NULL, none = VW_NULL;
    vw_test_ok(&p.t, alloc_optionally(&p, 20 * MIB, &block)); /* new memory */
    assert_int_equal(alloc_optionally(&p, 20 * MIB, &none), VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(none, VW_NULL);
    vw_test_ok(&p.t, vw_free(p.t.pool, block));
    vw_test_ok(&p.t, alloc_optionally(&p, 10 * MIB, &block)); /* what became free */
    vw_test_ok(&p.t, vw_free(p.t.pool, block));
    vw_pool_stats stats = {.struct_size = sizeof stats};
    vw_test_ok(&p.t, vw_pool_get_stats(p.t.pool, &stats));
    assert_int_equal(stats.num_ooms + stats.num_alloc_retries, 0);
    assert_int_equal(its.asked, 0);
    assert_int_equal(spilled_bytes(&p), 0);
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

/* A small block among large ones, and free memory between them: the handle leaves all the same. */
static void free_bytes_of_what_left_serve_nobody(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise", 32 * MIB, 64 * MIB);
    vw_device_ptr blocks[16];
    for (int i = 0; i < 16; i++)
        blocks[i] = hold(&p, 2 * MIB - 256 * VW_TEST_KIB * (uint64_t)(i % 2));
    for (int i = 1; i < 16; i += 4)
        vw_test_let_go(&p, blocks[i]);
    uint64_t in_use_bytes = vw_test_live_bytes(&p);
    hold(&p, 24 * MIB);
    uint64_t out_bytes = spilled_bytes(&p);
    assert_true(out_bytes > 0 && out_bytes < in_use_bytes + 1);
    assert_nothing_is_lost(&p);
    for (int i = 0; i < 4; i++) /* whatever is asked for now lies on the device */
        hold(&p, 256 * VW_TEST_KIB);
    assert_true(spilled_bytes(&p) >= out_bytes);
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

static void a_block_that_left_cannot_be_shared_and_one_that_is_shared_does_not_leave(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_shared_part parts[64];
    size_t count = 0;
    uint64_t offset_bytes = 0;
    vw_test_patterns_open(&p, &(vw_test_pool_setup){.engine = "vramwise",
                                                    .capacity_bytes = 64 * MIB,
                                                    .spill_bytes = 64 * MIB,
                                                    .is_shareable = true,
                                                    .on_host = true});
    vw_device_ptr first = hold(&p, 30 * MIB), second = hold(&p, 30 * MIB);
    vw_test_ok(&p.t, vw_advise(p.t.pool, first, VW_ADVISE_COLD));
    vw_test_ok(&p.t, vw_pool_share(p.t.pool, first, parts, 64, &count, &offset_bytes));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(close(parts[i].file_descriptor), 0);
    hold(&p, 20 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    vw_test_refused(&p.t, vw_pool_share(p.t.pool, second, parts, 64, &count, &offset_bytes),
                    VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "was spilled"));
    vw_test_ok(&p.t, vw_pool_unpin(p.t.pool, first));
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

/* ---- who leaves ------------------------------------------------------------------------------ */

static void cold_blocks_leave_first_and_hot_ones_last(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_device_ptr blocks[6];
    open_pool(&p, "vramwise", 64 * MIB, 64 * MIB);
    for (int i = 0; i < 6; i++)
        blocks[i] = hold(&p, 10 * MIB);
    vw_test_ok(&p.t, vw_advise(p.t.pool, blocks[3], VW_ADVISE_COLD));
    vw_test_ok(&p.t, vw_advise(p.t.pool, blocks[5], VW_ADVISE_HOT));
    hold(&p, 12 * MIB);
    for (int i = 0; i < 6; i++)
        assert_int_equal(is_on_host(&p, blocks[i]), i == 3);
    hold(&p, 40 * MIB); /* takes them all, but for one */
    for (int i = 0; i < 6; i++)
        assert_int_equal(is_on_host(&p, blocks[i]), i != 5);
    hold(&p, 12 * MIB);
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

/* Weights first, then what one step makes and keeps, then what the next ones make. */
static void what_was_added_last_and_kept_leaves_before_what_was_there_first(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise", 64 * MIB, 64 * MIB);
    vw_device_ptr weights = hold(&p, 16 * MIB), kept = hold(&p, 16 * MIB);
    mark_steps(&p, 2);
    vw_device_ptr passing = hold(&p, 16 * MIB);
    hold(&p, 28 * MIB);
    assert_true(is_on_host(&p, kept));
    assert_false(is_on_host(&p, weights) || is_on_host(&p, passing));
    vw_test_patterns_close(&p);
}

static void advice_is_for_live_blocks_and_ends_with_them(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise", 64 * MIB, 64 * MIB);
    vw_device_ptr block = hold(&p, 10 * MIB);
    vw_test_refused(&p.t, vw_advise(p.t.pool, block + 512, VW_ADVISE_COLD), VW_ERR_UNKNOWN_ADDRESS);
    vw_test_refused(&p.t, vw_advise(p.t.pool, block, (vw_advice)7), VW_ERR_INVALID_ARGUMENT);
    vw_test_ok(&p.t, vw_advise(p.t.pool, block, VW_ADVISE_COLD));
    vw_test_let_go(&p, block);
    vw_test_refused(&p.t, vw_advise(p.t.pool, block, VW_ADVISE_COLD), VW_ERR_UNKNOWN_ADDRESS);
    assert_true(hold(&p, 10 * MIB) == block);
    vw_test_patterns_close(&p);
}

/* ---- coming free on the host ----------------------------------------------------------------- */

static void a_block_that_comes_free_on_the_host_gives_its_pages_back(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise", 64 * MIB, 32 * MIB);
    vw_device_ptr first = hold(&p, 30 * MIB);
    vw_test_ok(&p.t, vw_advise(p.t.pool, first, VW_ADVISE_COLD));
    hold(&p, 30 * MIB);
    hold(&p, 30 * MIB);
    assert_true(spilled_bytes(&p) >= 26 * MIB);
    uint64_t held_bytes = vw_test_paged_stats(&p).host_handle_bytes;
    vw_test_let_go(&p, first);
    assert_int_equal(spilled_bytes(&p), 0);
    vw_device_ptr again = hold(&p, 2 * MIB); /* a miss: what was left is unmapped now */
    vw_test_let_go(&p, again);
    assert_int_equal(vw_test_paged_stats(&p).host_handle_bytes, held_bytes); /* kept for the next */
    uint64_t made = vw_test_calls(&p.t).count[VW_DEVICE_CALL_CREATE_ON_HOST];
    vw_test_ok(&p.t, vw_advise(p.t.pool, p.held[0].address, VW_ADVISE_COLD));
    hold(&p, 30 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    assert_true(vw_test_calls(&p.t).count[VW_DEVICE_CALL_CREATE_ON_HOST] <= made + 4);
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

static void what_is_left_waits_for_its_stream(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_test_patterns_open(&p, &(vw_test_pool_setup){.engine = "vramwise",
                                                    .capacity_bytes = 64 * MIB,
                                                    .spill_bytes = 64 * MIB,
                                                    .on_host = true,
                                                    .manual_streams = true});
    vw_device_ptr first = vw_test_hold(&p, 30 * MIB, 1);
    vw_test_ok(&p.t, vw_advise(p.t.pool, first, VW_ADVISE_COLD));
    hold(&p, 30 * MIB);
    hold(&p, 20 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    uint64_t unmapped = vw_test_calls(&p.t).count[VW_DEVICE_CALL_UNMAP];
    vw_test_let_go(&p, first);
    vw_test_hold(&p, 2 * MIB, 2); /* a miss, and the stream is held */
    assert_int_equal(vw_test_calls(&p.t).count[VW_DEVICE_CALL_UNMAP], unmapped);
    assert_int_equal(vw_device_complete(p.t.device, 1), VW_OK);
    vw_test_hold(&p, 2 * MIB, 3);
    assert_true(vw_test_calls(&p.t).count[VW_DEVICE_CALL_UNMAP] > unmapped);
    vw_test_patterns_close(&p);
}

/* Freed by its owner while another stream may use it: it is in use until then, on the host too. */
static void a_pending_block_on_the_host_stays_until_the_other_stream_is_done(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_test_patterns_open(&p, &(vw_test_pool_setup){.engine = "vramwise",
                                                    .capacity_bytes = 64 * MIB,
                                                    .spill_bytes = 64 * MIB,
                                                    .on_host = true,
                                                    .manual_streams = true});
    vw_device_ptr first = hold(&p, 30 * MIB);
    vw_test_ok(&p.t, vw_advise(p.t.pool, first, VW_ADVISE_COLD));
    hold(&p, 30 * MIB);
    hold(&p, 20 * MIB);
    uint64_t out_bytes = spilled_bytes(&p);
    assert_true(out_bytes > 0);
    vw_test_ok(&p.t, vw_record_stream(p.t.pool, first, 7));
    vw_test_let_go(&p, first);
    assert_int_equal(spilled_bytes(&p), out_bytes);
    assert_int_equal(vw_device_complete(p.t.device, 7), VW_OK);
    hold(&p, 1000);
    assert_int_equal(spilled_bytes(&p), 0);
    vw_test_patterns_close(&p);
}

static void a_trim_takes_what_is_left_back_to_the_stock(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise", 64 * MIB, 64 * MIB);
    for (int block = 0; block < 6; block++)
        hold(&p, 10 * MIB);
    hold(&p, 20 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    while (p.held_count != 0)
        vw_test_let_go_at(&p, 0);
    vw_test_trim(&p.t);
    assert_int_equal(vw_test_reserved_bytes(&p), 0);
    assert_int_equal(vw_test_calls(&p.t).in_use_bytes, 0);
    assert_true(vw_test_paged_stats(&p).host_handle_bytes > 0);
    vw_test_patterns_close(&p);
}

/* ---- the simulated device, and making ahead -------------------------------------------------- */

/* Where replay looks: it leaves and comes back as on any other, and takes the time it takes. */
static void on_a_simulated_device_it_costs_what_was_measured(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_test_patterns_open(&p, &(vw_test_pool_setup){.engine = "vramwise",
                                                    .capacity_bytes = VW_TEST_GIB,
                                                    .spill_bytes = 64 * VW_TEST_GIB});
    hold(&p, 600 * MIB);
    uint64_t before_ns = vw_test_calls(&p.t).elapsed_ns;
    vw_device_ptr large = hold(&p, 900 * MIB);
    uint64_t out_bytes = spilled_bytes(&p);
    uint64_t elapsed_ns = vw_test_calls(&p.t).elapsed_ns - before_ns;
    assert_true(out_bytes >= 476 * MIB);
    assert_true(elapsed_ns > out_bytes / MIB * 390000); /* creating, mapping, copying a MiB */
    assert_true(elapsed_ns < out_bytes / MIB * 600000);
    vw_test_let_go(&p, large);
    mark_steps(&p, 2 * PATIENCE + 1);
    assert_int_equal(spilled_bytes(&p), 0);
    vw_test_patterns_close(&p);
}

static void what_would_leave_next_is_made_ahead_once_memory_is_short(void **state)
{
    (void)state;
    vw_test_patterns p;
    const struct timespec pause = {.tv_nsec = 1000000};
    vw_test_patterns_open(&p, &(vw_test_pool_setup){.engine = "vramwise",
                                                    .capacity_bytes = 64 * MIB,
                                                    .spill_bytes = 64 * MIB,
                                                    .spill_ahead_bytes = 16 * MIB,
                                                    .on_host = true});
    for (int block = 0; block < 5; block++)
        hold(&p, 10 * MIB);
    assert_int_equal(vw_test_paged_stats(&p).host_handle_bytes, 0);
    hold(&p, 10 * MIB); /* now less than an eighth is left */
    for (int i = 0; i < 20000 && vw_test_paged_stats(&p).host_handle_bytes < 12 * MIB; i++)
        nanosleep(&pause, NULL);
    assert_in_range(vw_test_paged_stats(&p).host_handle_bytes, 12 * MIB, 16 * MIB);
    hold(&p, 8 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

/* ---- the budget, the listener ---------------------------------------------------------------- */

static void a_host_that_gives_nothing_means_an_ordinary_out_of_memory(void **state)
{
    (void)state;
    vw_test_patterns p;
    static vw_test_spy spy;
    memset(&spy, 0, sizeof spy);
    vw_test_patterns_open(&p, &(vw_test_pool_setup){.engine = "vramwise",
                                                    .capacity_bytes = 64 * MIB,
                                                    .spill_bytes = 64 * MIB,
                                                    .spy = &spy,
                                                    .on_host = true});
    for (int block = 0; block < 6; block++)
        hold(&p, 10 * MIB);
    spy.refused_host_creations = 1;
    vw_test_alloc_fails(&p.t, 20 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    assert_non_null(strstr(vw_last_error(), "out of memory"));
    vw_paged_stats stats = vw_test_paged_stats(&p);
    assert_int_equal(stats.failed_host_creations, 1);
    assert_int_equal(stats.spills + stats.host_handle_bytes, 0);
    assert_nothing_is_lost(&p);
    hold(&p, 20 * MIB);
    assert_true(spilled_bytes(&p) > 0);
    vw_test_patterns_close(&p);
}

static void spilled_memory_is_drawn_from_the_shared_budget(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_pinned_budget *budget = NULL;
    vw_pinned_budget_stats drawn = {.struct_size = sizeof drawn};
    assert_int_equal(vw_pinned_budget_create(24 * MIB, &budget), VW_OK);
    vw_test_patterns_open(&p, &(vw_test_pool_setup){.engine = "vramwise",
                                                    .capacity_bytes = 64 * MIB,
                                                    .spill_bytes = 64 * MIB,
                                                    .pinned_budget = budget,
                                                    .on_host = true});
    for (int block = 0; block < 6; block++)
        hold(&p, 10 * MIB);
    hold(&p, 20 * MIB);
    assert_int_equal(vw_pinned_budget_get(budget, &drawn), VW_OK);
    assert_int_equal(drawn.used_bytes, vw_test_paged_stats(&p).host_handle_bytes);
    assert_true(drawn.used_bytes > 0 && drawn.used_bytes <= 24 * MIB);
    vw_test_alloc_fails(&p.t, 20 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(vw_pinned_budget_get(budget, &drawn), VW_OK);
    assert_true(drawn.peak_bytes <= 24 * MIB);
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
    assert_int_equal(vw_pinned_budget_get(budget, &drawn), VW_OK);
    assert_int_equal(drawn.used_bytes, 0);
    vw_pinned_budget_destroy(budget);
}

typedef struct heard {
    vw_pool *pool;
    unsigned count;
    vw_spill_report latest;
} heard;

static void listen(void *context, const vw_spill_report *report)
{
    heard *ear = context;
    vw_pool_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_stats(ear->pool, &stats), VW_OK); /* the lock is free */
    ear->count++;
    ear->latest = *report;
}

static void the_listener_hears_what_left_and_what_came_back(void **state)
{
    (void)state;
    vw_test_patterns p;
    heard ear = {.count = 0};
    vw_test_patterns_open(&p, &(vw_test_pool_setup){.engine = "vramwise",
                                                    .capacity_bytes = 64 * MIB,
                                                    .spill_bytes = 64 * MIB,
                                                    .spill_listener = {&ear, listen},
                                                    .on_host = true});
    ear.pool = p.t.pool;
    hold(&p, 30 * MIB);
    vw_device_ptr large = hold(&p, 50 * MIB);
    assert_int_equal(ear.count, 1);
    assert_false(ear.latest.is_return);
    assert_int_equal(ear.latest.spilled_bytes, spilled_bytes(&p));
    assert_int_equal(ear.latest.moved_bytes, spilled_bytes(&p));
    assert_true(ear.latest.moved_handles > 0 && ear.latest.wait_ns > 0);
    vw_test_let_go(&p, large);
    mark_steps(&p, 2 * PATIENCE + 1);
    assert_int_equal(ear.count, 2);
    assert_true(ear.latest.is_return);
    assert_int_equal(ear.latest.spilled_bytes, 0);
    vw_test_patterns_close(&p);
}

/* ---- options --------------------------------------------------------------------------------- */

static void assert_refused(vw_device *device, const char *engine, uint64_t spill_bytes,
                           uint64_t ahead_bytes, vw_status expected, const char *part)
{
    vw_pool *pool = NULL;
    const vw_pool_options options = {.struct_size = sizeof options,
                                     .engine = engine,
                                     .spill_bytes = spill_bytes,
                                     .spill_ahead_bytes = ahead_bytes};
    assert_int_equal(vw_pool_create(device, &options, &pool), expected);
    assert_null(pool);
    assert_non_null(strstr(vw_last_error(), part));
}

static void options_that_cannot_be_kept_are_refused(void **state)
{
    (void)state;
    vw_device *device = NULL, *simulated = NULL, *plain = NULL;
    vw_simulated_options without = {.struct_size = sizeof without, .without_virtual_memory = true};
    assert_int_equal(vw_host_device_create(64 * MIB, &device), VW_OK);
    assert_int_equal(vw_simulated_device_create(NULL, &simulated), VW_OK);
    assert_int_equal(vw_simulated_device_create(&without, &plain), VW_OK);
    assert_refused(device, "torch", MIB, 0, VW_ERR_INVALID_ARGUMENT, "spills nothing");
    assert_refused(device, "vramwise", MIB, 2 * MIB, VW_ERR_INVALID_ARGUMENT, "spill_ahead_bytes");
    assert_refused(device, "vramwise", UINT64_MAX / 2, 0, VW_ERR_INVALID_ARGUMENT,
                   "free on this machine");
    assert_non_null(strstr(vw_last_error(), "limit of the control group"));
    assert_non_null(strstr(vw_last_error(), "ulimit -l"));
    assert_refused(plain, "vramwise", MIB, 0, VW_ERR_UNSUPPORTED, "host memory");
    vw_pool *pool = NULL; /* nothing is behind a simulated device: any number will do */
    const vw_pool_options options = {
        .struct_size = sizeof options, .engine = "vramwise", .spill_bytes = UINT64_C(1) << 50};
    assert_int_equal(vw_pool_create(simulated, &options, &pool), VW_OK);
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    vw_device_destroy(simulated);
    vw_device_destroy(plain);
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
        cmocka_unit_test(the_program_is_asked_for_room_before_anything_leaves),
        cmocka_unit_test(what_the_program_frees_is_waited_for_anew),
        cmocka_unit_test(an_optional_request_takes_only_what_is_free),
        cmocka_unit_test(free_bytes_of_what_left_serve_nobody),
        cmocka_unit_test(a_block_that_left_cannot_be_shared_and_one_that_is_shared_does_not_leave),
        cmocka_unit_test(cold_blocks_leave_first_and_hot_ones_last),
        cmocka_unit_test(what_was_added_last_and_kept_leaves_before_what_was_there_first),
        cmocka_unit_test(advice_is_for_live_blocks_and_ends_with_them),
        cmocka_unit_test(a_block_that_comes_free_on_the_host_gives_its_pages_back),
        cmocka_unit_test(what_is_left_waits_for_its_stream),
        cmocka_unit_test(a_pending_block_on_the_host_stays_until_the_other_stream_is_done),
        cmocka_unit_test(a_trim_takes_what_is_left_back_to_the_stock),
        cmocka_unit_test(on_a_simulated_device_it_costs_what_was_measured),
        cmocka_unit_test(what_would_leave_next_is_made_ahead_once_memory_is_short),
        cmocka_unit_test(a_host_that_gives_nothing_means_an_ordinary_out_of_memory),
        cmocka_unit_test(spilled_memory_is_drawn_from_the_shared_budget),
        cmocka_unit_test(the_listener_hears_what_left_and_what_came_back),
        cmocka_unit_test(options_that_cannot_be_kept_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
