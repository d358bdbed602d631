/* test_pool_restore.c - how a private pool is put back, to the byte: PyTorch's order of events, its
 * statistics, and what the blocks remember. What holds for every engine is in
 * contract/engine_restore_contract.c. */
#include "headroom/headroom.h"

#include "pool/pool.h" /* the engine's table */

#include "support/cmocka_here.h"
#include "support/pool_fixture.h"
#include "support/pool_layout.h"

#define KIB HR_TEST_KIB
#define MIB HR_TEST_MIB

static const hr_private_id graphs = {3, 1};

static void begin(hr_test_pool *t)
{
    hr_test_ok(t, hr_private_pool_begin(t->pool, graphs, NULL, NULL));
}

static void end(hr_test_pool *t)
{
    hr_test_ok(t, hr_private_pool_end(t->pool, graphs));
}

static hr_private_state *checkpoint(hr_test_pool *t)
{
    hr_private_state *state = NULL;
    hr_test_ok(t, hr_private_pool_checkpoint(t->pool, graphs, &state));
    return state;
}

/* ---- engine torch ---------------------------------------------------------------------------- */

static void everything_is_freed_then_handed_out_then_what_was_free_given_back(void **state)
{
    (void)state;
    hr_test_pool t;
    hr_test_pool_open(&t, NULL);
    begin(&t);
    hr_device_ptr a = hr_test_alloc(&t, 1000), b = hr_test_alloc(&t, 2000), rest = b + 2 * KIB;
    uint64_t rest_bytes = 2 * MIB - 3 * KIB;
    hr_test_free(&t, a);
    hr_private_state *then = checkpoint(&t);
    hr_device_ptr c = hr_test_alloc(&t, 500);
    assert_int_equal(c, a);
    end(&t);
    hr_test_forget_events(&t);
    const hr_restore_listener tagged = {.tag = 42};
    hr_test_ok(&t, hr_private_pool_restore(t.pool, then, &tagged));
    for (size_t i = 0; i < t.event_count; i++) {
        assert_int_equal(t.events[i].private_id.first, graphs.first);
        assert_int_equal(t.events[i].tag, i < 4 ? 0 : 42);
        assert_int_equal(t.events[i].request, t.events[0].request);
        assert_non_null(t.events[i].caller);
    }
    hr_test_expect_events(
        &t, {HR_ACTION_FREE_REQUESTED, c, 500}, {HR_ACTION_FREE_COMPLETED, c, 500},
        {HR_ACTION_FREE_REQUESTED, b, 2000}, {HR_ACTION_FREE_COMPLETED, b, 2000},
        {HR_ACTION_ALLOC, a, 1 * KIB}, {HR_ACTION_ALLOC, b, 2 * KIB},
        {HR_ACTION_ALLOC, rest, rest_bytes}, {HR_ACTION_FREE_REQUESTED, a, 1 * KIB},
        {HR_ACTION_FREE_COMPLETED, a, 1 * KIB}, {HR_ACTION_FREE_REQUESTED, rest, rest_bytes},
        {HR_ACTION_FREE_COMPLETED, rest, rest_bytes});
    hr_test_expect_blocks(&t, HR_TEST_FREE_ASKED(a, 1 * KIB, 1 * KIB),
                          HR_TEST_LIVE_ASKED(b, 2 * KIB, 2 * KIB),
                          HR_TEST_FREE_ASKED(rest, rest_bytes, rest_bytes));
    hr_pool_stats stats = hr_test_stats(&t);
    hr_test_expect_stat(stats.allocation.all, 1, 3, 6, 5);
    hr_test_expect_stat(stats.allocated_bytes.small_pool, 2 * KIB, 2 * MIB,
                        (int64_t)(3 * KIB + 512 + 2 * MIB), (int64_t)(1 * KIB + 512 + 2 * MIB));
    assert_int_equal(stats.requested_bytes.all.current, 2 * KIB);
    assert_int_equal(stats.inactive_split.all.current, 2);
    hr_private_state_free(then);
    hr_test_pool_close(&t);
}

/* Splits are those of the checkpoint, also where the rules would not have made them. */
static void splits_come_back_whatever_the_settings_are_now(void **state)
{
    (void)state;
    hr_test_pool t;
    hr_test_pool_open(&t, NULL);
    begin(&t);
    hr_device_ptr a = hr_test_alloc(&t, 8 * MIB), b = hr_test_alloc(&t, 4 * MIB);
    hr_test_free(&t, a);
    hr_private_state *then = checkpoint(&t);
    hr_test_free(&t, b);
    end(&t);
    hr_test_ok(&t, hr_private_pool_set_no_split(t.pool, graphs, true));
    hr_test_ok(&t, hr_pool_configure(t.pool, "max_split_size_mb:21"));
    hr_test_ok(&t, hr_private_pool_restore(t.pool, then, NULL));
    hr_test_expect_blocks(&t, HR_TEST_FREE(a, 8 * MIB), HR_TEST_LIVE(b, 4 * MIB),
                          HR_TEST_FREE(b + 4 * MIB, 8 * MIB));
    hr_private_state_free(then);
    hr_test_pool_close(&t);
}

static void an_expandable_segment_keeps_what_it_grew_by(void **state)
{
    (void)state;
    hr_test_pool t;
    hr_test_pool_open_with(&t, NULL, "expandable_segments:True");
    begin(&t);
    hr_device_ptr a = hr_test_alloc(&t, 5 * MIB);
    hr_private_state *then = checkpoint(&t);
    hr_test_free(&t, a);
    assert_int_equal(hr_test_alloc(&t, 50 * MIB), a);
    end(&t);
    hr_test_ok(&t, hr_private_pool_restore(t.pool, then, NULL));
    hr_test_expect_blocks(&t, HR_TEST_LIVE_ASKED(a, 5 * MIB, 5 * MIB),
                          HR_TEST_FREE(a + 5 * MIB, 55 * MIB));
    hr_private_state_free(then);
    hr_test_pool_close(&t);
}

/* ---- any range of a free block --------------------------------------------------------------- */

/* The owner is the pool, so what it keeps beside the engine is done here by hand. */
static void hand_out_in_the_middle(const char *engine_name, const char *conf)
{
    hr_test_pool t;
    hr_test_pool_open(&t, &(hr_test_pool_setup){.engine = engine_name, .conf = conf});
    begin(&t);
    hr_device_ptr a = hr_test_alloc(&t, 19 * MIB), kept = hr_test_alloc(&t, 1 * MIB + 512);
    hr_test_free(&t, a);
    end(&t);
    hr__pool_lock(t.pool);
    hr__engine *engine = t.pool->engine;
    assert_int_equal(engine->table->see_to_records(engine, 2), HR_OK);
    hr__block *block = engine->table->find(engine, a);
    assert_int_equal(block->state, HR__BLOCK_FREE);
    hr__block *middle = engine->table->hand_out_at(engine, block, a + 3 * MIB, 4 * MIB, 7);
    hr__pool_file_block(t.pool, middle);
    hr__pool_unlock(t.pool);
    hr_test_ok(&t, HR_OK);
    hr_block_place place;
    hr_test_ok(&t, hr_pool_find(t.pool, a + 7 * MIB - 1, &place));
    assert_int_equal(place.block_address, a + 3 * MIB);
    assert_int_equal(place.block_bytes, 4 * MIB);
    assert_int_equal(place.tag, 7);
    hr_test_refused(&t, hr_pool_find(t.pool, a + 3 * MIB - 1, &place), HR_ERR_UNKNOWN_ADDRESS);
    hr_test_refused(&t, hr_pool_find(t.pool, a + 7 * MIB, &place), HR_ERR_UNKNOWN_ADDRESS);
    hr_test_free(&t, a + 3 * MIB);
    hr_test_free(&t, kept);
    hr_test_pool_close(&t);
}

static void any_part_of_a_free_block_can_be_handed_out(void **state)
{
    (void)state;
    hand_out_in_the_middle("torch", "expandable_segments:True");
    hand_out_in_the_middle("headroom", "");
}

/* ---- engine headroom ------------------------------------------------------------------------- */

/* It may hold what was live at the most, and a little more: free blocks are not counted as live. */
static void what_was_free_is_not_handed_out(void **state)
{
    (void)state;
    hr_test_pool t;
    hr_test_pool_open(&t, &(hr_test_pool_setup){.engine = "headroom"});
    begin(&t);
    hr_device_ptr a = hr_test_alloc(&t, 40 * MIB), b = hr_test_alloc(&t, 3 * MIB);
    hr_test_free(&t, a);
    hr_private_state *then = checkpoint(&t);
    end(&t);
    hr_test_ok(&t, hr_pool_reset_peaks(t.pool));
    hr_test_forget_events(&t);
    hr_test_ok(&t, hr_private_pool_restore(t.pool, then, NULL));
    hr_test_expect_events(&t, {HR_ACTION_FREE_REQUESTED, b, 3 * MIB},
                          {HR_ACTION_FREE_COMPLETED, b, 3 * MIB}, {HR_ACTION_ALLOC, b, 3 * MIB});
    assert_int_equal(hr_test_stats(&t).active_bytes.all.peak, 3 * MIB);
    hr_private_state_free(then);
    hr_test_pool_close(&t);
}

/* The default pool wants memory badly; what a graph replays into is not given, live or free. */
static void memory_of_a_checkpoint_is_not_moved_away(void **state)
{
    static const char *const modes[] = {"headroom", "headroom:rescue", "headroom:tight"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        hr_test_pool t;
        hr_test_pool_open(&t, &(hr_test_pool_setup){.engine = modes[i],
                                                    .capacity_bytes = 64 * MIB,
                                                    .idle_floor_bytes = 2 * MIB});
        begin(&t);
        hr_device_ptr a = hr_test_alloc(&t, 9 * MIB), b = hr_test_alloc(&t, 6 * MIB);
        hr_private_state *then = checkpoint(&t);
        hr_test_free(&t, a);
        end(&t);
        hr_test_alloc_fails(&t, 60 * MIB, 0, HR_ERR_OUT_OF_MEMORY);
        hr_test_alloc(&t, 40 * MIB);
        hr_test_trim(&t);
        hr_test_ok(&t, hr_private_pool_restore(t.pool, then, NULL));
        hr_test_free(&t, a);
        hr_test_free(&t, b);
        hr_private_state_free(then);
        hr_test_pool_close(&t);
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
