/* test_pool_restore.c - how a private pool is put back, to the byte: PyTorch's order of events, its
 * statistics, and what the blocks remember. What holds for every engine is in
 * contract/engine_restore_contract.c. */
#include "vramwise/vramwise.h"

#include "pool/pool.h" /* the engine's table */

#include "support/cmocka_here.h"
#include "support/pool_fixture.h"
#include "support/pool_layout.h"

#define KIB VW_TEST_KIB
#define MIB VW_TEST_MIB

static const vw_private_id graphs = {3, 1};

static void begin(vw_test_pool *t)
{
    vw_test_ok(t, vw_private_pool_begin(t->pool, graphs, NULL, NULL));
}

static void end(vw_test_pool *t)
{
    vw_test_ok(t, vw_private_pool_end(t->pool, graphs));
}

static vw_private_state *checkpoint(vw_test_pool *t)
{
    vw_private_state *state = NULL;
    vw_test_ok(t, vw_private_pool_checkpoint(t->pool, graphs, &state));
    return state;
}

/* ---- engine torch ---------------------------------------------------------------------------- */

static void everything_is_freed_then_handed_out_then_what_was_free_given_back(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    begin(&t);
    vw_device_ptr a = vw_test_alloc(&t, 1000), b = vw_test_alloc(&t, 2000), rest = b + 2 * KIB;
    uint64_t rest_bytes = 2 * MIB - 3 * KIB;
    vw_test_free(&t, a);
    vw_private_state *then = checkpoint(&t);
    vw_device_ptr c = vw_test_alloc(&t, 500);
    assert_int_equal(c, a);
    end(&t);
    vw_test_forget_events(&t);
    const vw_restore_listener tagged = {.tag = 42};
    vw_test_ok(&t, vw_private_pool_restore(t.pool, then, &tagged));
    for (size_t i = 0; i < t.event_count; i++) {
        assert_int_equal(t.events[i].private_id.first, graphs.first);
        assert_int_equal(t.events[i].tag, i < 4 ? 0 : 42);
        assert_int_equal(t.events[i].request, t.events[0].request);
        assert_non_null(t.events[i].caller);
    }
    vw_test_expect_events(
        &t, {VW_ACTION_FREE_REQUESTED, c, 500}, {VW_ACTION_FREE_COMPLETED, c, 500},
        {VW_ACTION_FREE_REQUESTED, b, 2000}, {VW_ACTION_FREE_COMPLETED, b, 2000},
        {VW_ACTION_ALLOC, a, 1 * KIB}, {VW_ACTION_ALLOC, b, 2 * KIB},
        {VW_ACTION_ALLOC, rest, rest_bytes}, {VW_ACTION_FREE_REQUESTED, a, 1 * KIB},
        {VW_ACTION_FREE_COMPLETED, a, 1 * KIB}, {VW_ACTION_FREE_REQUESTED, rest, rest_bytes},
        {VW_ACTION_FREE_COMPLETED, rest, rest_bytes});
    vw_test_expect_blocks(&t, VW_TEST_FREE_ASKED(a, 1 * KIB, 1 * KIB),
                          VW_TEST_LIVE_ASKED(b, 2 * KIB, 2 * KIB),
                          VW_TEST_FREE_ASKED(rest, rest_bytes, rest_bytes));
    vw_pool_stats stats = vw_test_stats(&t);
    vw_test_expect_stat(stats.allocation.all, 1, 3, 6, 5);
    vw_test_expect_stat(stats.allocated_bytes.small_pool, 2 * KIB, 2 * MIB,
                        (int64_t)(3 * KIB + 512 + 2 * MIB), (int64_t)(1 * KIB + 512 + 2 * MIB));
    assert_int_equal(stats.requested_bytes.all.current, 2 * KIB);
    assert_int_equal(stats.inactive_split.all.current, 2);
    vw_private_state_free(then);
    vw_test_pool_close(&t);
}

/* Splits are those of the checkpoint, also where the rules would not have made them. */
static void splits_come_back_whatever_the_settings_are_now(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    begin(&t);
    vw_device_ptr a = vw_test_alloc(&t, 8 * MIB), b = vw_test_alloc(&t, 4 * MIB);
    vw_test_free(&t, a);
    vw_private_state *then = checkpoint(&t);
    vw_test_free(&t, b);
    end(&t);
    vw_test_ok(&t, vw_private_pool_set_no_split(t.pool, graphs, true));
    vw_test_ok(&t, vw_pool_configure(t.pool, "max_split_size_mb:21"));
    vw_test_ok(&t, vw_private_pool_restore(t.pool, then, NULL));
    vw_test_expect_blocks(&t, VW_TEST_FREE(a, 8 * MIB), VW_TEST_LIVE(b, 4 * MIB),
                          VW_TEST_FREE(b + 4 * MIB, 8 * MIB));
    vw_private_state_free(then);
    vw_test_pool_close(&t);
}

static void an_expandable_segment_keeps_what_it_grew_by(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open_with(&t, NULL, "expandable_segments:True");
    begin(&t);
    vw_device_ptr a = vw_test_alloc(&t, 5 * MIB);
    vw_private_state *then = checkpoint(&t);
    vw_test_free(&t, a);
    assert_int_equal(vw_test_alloc(&t, 50 * MIB), a);
    end(&t);
    vw_test_ok(&t, vw_private_pool_restore(t.pool, then, NULL));
    vw_test_expect_blocks(&t, VW_TEST_LIVE_ASKED(a, 5 * MIB, 5 * MIB),
                          VW_TEST_FREE(a + 5 * MIB, 55 * MIB));
    vw_private_state_free(then);
    vw_test_pool_close(&t);
}

/* ---- any range of a free block --------------------------------------------------------------- */

/* The owner is the pool, so what it keeps beside the engine is done here by hand. */
static void hand_out_in_the_middle(const char *engine_name, const char *conf)
{
    vw_test_pool t;
    vw_test_pool_open(&t, &(vw_test_pool_setup){.engine = engine_name, .conf = conf});
    begin(&t);
    vw_device_ptr a = vw_test_alloc(&t, 19 * MIB), kept = vw_test_alloc(&t, 1 * MIB + 512);
    vw_test_free(&t, a);
    end(&t);
    vw__pool_lock(t.pool);
    vw__engine *engine = t.pool->engine;
    assert_int_equal(engine->table->see_to_records(engine, 2), VW_OK);
    vw__block *block = engine->table->find(engine, a);
    assert_int_equal(block->state, VW__BLOCK_FREE);
    vw__block *middle = engine->table->hand_out_at(engine, block, a + 3 * MIB, 4 * MIB, 7);
    vw__pool_file_block(t.pool, middle);
    vw__pool_unlock(t.pool);
    vw_test_ok(&t, VW_OK);
    vw_block_place place;
    vw_test_ok(&t, vw_pool_find(t.pool, a + 7 * MIB - 1, &place));
    assert_int_equal(place.block_address, a + 3 * MIB);
    assert_int_equal(place.block_bytes, 4 * MIB);
    assert_int_equal(place.tag, 7);
    vw_test_refused(&t, vw_pool_find(t.pool, a + 3 * MIB - 1, &place), VW_ERR_UNKNOWN_ADDRESS);
    vw_test_refused(&t, vw_pool_find(t.pool, a + 7 * MIB, &place), VW_ERR_UNKNOWN_ADDRESS);
    vw_test_free(&t, a + 3 * MIB);
    vw_test_free(&t, kept);
    vw_test_pool_close(&t);
}

static void any_part_of_a_free_block_can_be_handed_out(void **state)
{
    (void)state;
    hand_out_in_the_middle("torch", "expandable_segments:True");
    hand_out_in_the_middle("vramwise", "");
}

/* ---- engine vramwise ------------------------------------------------------------------------- */

/* It may hold what was live at the most, and a little more: free blocks are not counted as live. */
static void what_was_free_is_not_handed_out(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, &(vw_test_pool_setup){.engine = "vramwise"});
    begin(&t);
    vw_device_ptr a = vw_test_alloc(&t, 40 * MIB), b = vw_test_alloc(&t, 3 * MIB);
    vw_test_free(&t, a);
    vw_private_state *then = checkpoint(&t);
    end(&t);
    vw_test_ok(&t, vw_pool_reset_peaks(t.pool));
    vw_test_forget_events(&t);
    vw_test_ok(&t, vw_private_pool_restore(t.pool, then, NULL));
    vw_test_expect_events(&t, {VW_ACTION_FREE_REQUESTED, b, 3 * MIB},
                          {VW_ACTION_FREE_COMPLETED, b, 3 * MIB}, {VW_ACTION_ALLOC, b, 3 * MIB});
    assert_int_equal(vw_test_stats(&t).active_bytes.all.peak, 3 * MIB);
    vw_private_state_free(then);
    vw_test_pool_close(&t);
}

/* The default pool wants memory badly; what a graph replays into is not given, live or free. */
static void memory_of_a_checkpoint_is_not_moved_away(void **state)
{
    static const char *const modes[] = {"vramwise", "vramwise:rescue", "vramwise:tight"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        vw_test_pool t;
        vw_test_pool_open(&t, &(vw_test_pool_setup){.engine = modes[i],
                                                    .capacity_bytes = 64 * MIB,
                                                    .idle_floor_bytes = 2 * MIB});
        begin(&t);
        vw_device_ptr a = vw_test_alloc(&t, 9 * MIB), b = vw_test_alloc(&t, 6 * MIB);
        vw_private_state *then = checkpoint(&t);
        vw_test_free(&t, a);
        end(&t);
        vw_test_alloc_fails(&t, 60 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
        vw_test_alloc(&t, 40 * MIB);
        vw_test_trim(&t);
        vw_test_ok(&t, vw_private_pool_restore(t.pool, then, NULL));
        vw_test_free(&t, a);
        vw_test_free(&t, b);
        vw_private_state_free(then);
        vw_test_pool_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_freed_then_handed_out_then_what_was_free_given_back),
        cmocka_unit_test(splits_come_back_whatever_the_settings_are_now),
        cmocka_unit_test(an_expandable_segment_keeps_what_it_grew_by),
        cmocka_unit_test(any_part_of_a_free_block_can_be_handed_out),
        cmocka_unit_test(what_was_free_is_not_handed_out),
        cmocka_unit_test(memory_of_a_checkpoint_is_not_moved_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
