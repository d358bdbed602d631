/* test_paged_moves.c - free memory that changes its address: when a miss moves it, what stays of
 * where it was, and what a trim leaves. */
#include "engine/paged/paged_engine.h"

#include <stdlib.h>

#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/pool_fixture.h"
#include "support/pool_layout.h"

#define UNIT (2 * VW_TEST_MIB)

static const vw_test_pool_setup tiny = {.engine = "vramwise",
                                        .capacity_bytes = 256 * VW_TEST_MIB,
                                        .idle_share = 0.0001,
                                        .idle_floor_bytes = UNIT};

static vw_paged_stats paged_stats(const vw_test_pool *t)
{
    vw_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_paged_stats(t->pool, &stats), VW_OK);
    return stats;
}

static uint64_t calls_of(const vw_test_pool *t, vw_device_call kind)
{
    return vw_test_call_count(t, kind);
}

/* ---- a miss ---------------------------------------------------------------------------------- */

/* Holes too small for the request, one by one; together they are its size. */
static void holes_serve_a_request_that_none_of_them_could(void **state)
{
    (void)state;
    enum { PAIRS = 8 };
    vw_test_pool t;
    vw_device_ptr kept[PAIRS], freed[PAIRS];
    vw_test_pool_open(&t, &tiny);
    for (int i = 0; i < PAIRS; i++) {
        freed[i] = vw_test_alloc(&t, 4 * UNIT);
        kept[i] = vw_test_alloc(&t, 4 * UNIT);
    }
    for (int i = 0; i < PAIRS; i++)
        vw_test_free(&t, freed[i]);
    int64_t held_bytes = vw_test_stats(&t).reserved_bytes.all.current;
    vw_device_ptr large = vw_test_alloc(&t, (4 * PAIRS - 8) * UNIT);
    assert_in_range(vw_test_stats(&t).reserved_bytes.all.current, held_bytes,
                    held_bytes + (int64_t)UNIT); /* the idle memory that is allowed */
    assert_int_equal(calls_of(&t, VW_DEVICE_CALL_UNMAP), 0);
    assert_true(paged_stats(&t).moved_bytes >= (4 * PAIRS - 12) * UNIT);
    for (int i = 0; i < PAIRS; i++) /* live blocks stay where they are */
        assert_true(kept[i] + 4 * UNIT <= large || large + (4 * PAIRS - 8) * UNIT <= kept[i]);
    vw_test_pool_close(&t);
}

/* Half free handles are of no use to another stream, and are left alone. */
static void a_handle_with_a_live_block_stays(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, &tiny);
    vw_device_ptr low = vw_test_alloc(&t, VW_TEST_MIB), high = vw_test_alloc(&t, VW_TEST_MIB);
    assert_int_equal(high, low + VW_TEST_MIB); /* one unit */
    vw_test_free(&t, low);
    vw_test_alloc_on(&t, VW_TEST_MIB, 1);
    assert_int_equal(paged_stats(&t).moved_handles, 0);
    assert_int_equal(vw_test_stats(&t).reserved_bytes.all.current, 2 * UNIT);
    assert_int_equal(vw_test_alloc(&t, VW_TEST_MIB), low);
    vw_test_pool_close(&t);
}

/* Two shapes of a program, in turns, on the memory of one: after the first round of each nothing is
 * mapped any more. */
static void layouts_that_come_again_call_for_no_mapping(void **state)
{
    (void)state;
    enum { ROUNDS = 8 };
    vw_test_pool t;
    vw_device_ptr first[2][3];
    uint64_t mapped = 0;
    vw_test_pool_open(&t, &tiny);
    for (int round = 0; round < ROUNDS; round++) {
        int shape = round % 2;
        vw_device_ptr blocks[3] = {
            vw_test_alloc_on(&t, (shape == 0 ? 60 : 24) * VW_TEST_MIB, (vw_stream)shape),
            vw_test_alloc_on(&t, (shape == 0 ? 30 : 48) * VW_TEST_MIB, (vw_stream)shape),
            vw_test_alloc_on(&t, (shape == 0 ? 30 : 44) * VW_TEST_MIB, (vw_stream)shape)};
        for (int i = 0; i < 3; i++) {
            if (round < 2)
                first[shape][i] = blocks[i];
            assert_int_equal(blocks[i], first[shape][i]);
            vw_test_free(&t, blocks[i]);
        }
        if (round == 1)
            mapped = calls_of(&t, VW_DEVICE_CALL_MAP);
    }
    assert_int_equal(calls_of(&t, VW_DEVICE_CALL_MAP), mapped);
    assert_int_equal(calls_of(&t, VW_DEVICE_CALL_UNMAP), 0);
    assert_int_equal(calls_of(&t, VW_DEVICE_CALL_SYNCHRONIZE), 0);
    assert_in_range(vw_test_stats(&t).reserved_bytes.all.peak, 120 * VW_TEST_MIB,
                    122 * VW_TEST_MIB);
    vw_test_pool_close(&t);
}

/* A ghost is nobody's: its memory is used elsewhere. It must not be handed out until that is free.
 */
static void a_ghost_is_not_revived_while_its_memory_is_used(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_setup setup = tiny;
    setup.capacity_bytes = 64 * VW_TEST_MIB;
    vw_test_pool_open(&t, &setup);
    vw_device_ptr first = vw_test_alloc_on(&t, 60 * VW_TEST_MIB, 0);
    vw_test_free(&t, first);
    vw_device_ptr second = vw_test_alloc_on(&t, 40 * VW_TEST_MIB, 1);
    vw_test_alloc_fails(&t, 60 * VW_TEST_MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_device_ptr third = vw_test_alloc_on(&t, 20 * VW_TEST_MIB, 0);
    vw_test_alloc_fails(&t, 20 * VW_TEST_MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_free(&t, second);
    vw_test_free(&t, third);
    vw_test_free(&t, vw_test_alloc_on(&t, 64 * VW_TEST_MIB, 0));
    vw_test_pool_close(&t);
}

/* A window [free, unmapped, ghosts, free] ends in the middle of the last block, and what lies
 * behind it fills the gap: the ghosts were merged with that block before. */
static void memory_beside_a_window_is_moved_into_it(void **state)
{
    (void)state;
    enum { BLOCKS = 8 };
    vw_test_pool t;
    vw_device_ptr blocks[BLOCKS];
    vw_test_pool_setup setup = tiny;
    setup.capacity_bytes = 2 * BLOCKS * UNIT;
    vw_test_pool_open(&t, &setup);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = vw_test_alloc(&t, 2 * UNIT);
    assert_int_equal(blocks[BLOCKS - 1], blocks[0] + 2 * (BLOCKS - 1) * UNIT);
    vw_test_free(&t, blocks[2]);
    vw_device_ptr other = vw_test_alloc_on(&t, 2 * UNIT, 1);
    vw_test_trim(&t); /* where block 2 was is nothing now */
    vw_test_free(&t, blocks[3]);
    vw_test_free(&t, vw_test_alloc_on(&t, 2 * UNIT, 1)); /* where block 3 was are ghosts */
    assert_int_equal(paged_stats(&t).retiring_bytes, 2 * UNIT);
    vw_test_free(&t, blocks[1]);
    vw_test_free(&t, blocks[4]);
    vw_test_free(&t, blocks[5]);
    uint64_t mapped = calls_of(&t, VW_DEVICE_CALL_MAP);

    assert_int_equal(vw_test_alloc(&t, 8 * UNIT), blocks[1]);
    assert_int_equal(calls_of(&t, VW_DEVICE_CALL_MAP), mapped + 2);
    assert_int_equal(vw_test_stats(&t).num_alloc_retries, 0);
    vw_test_expect_blocks(&t, VW_TEST_LIVE(blocks[0], 2 * UNIT), VW_TEST_LIVE(blocks[1], 8 * UNIT),
                          VW_TEST_LIVE(blocks[6], 2 * UNIT), VW_TEST_LIVE(blocks[7], 2 * UNIT),
                          VW_TEST_LIVE(other, 2 * UNIT));
    vw_test_pool_close(&t);
}

/* A block beside ghosts of memory in use: with them it is enough for a request, once the device is
 * past their last use. Until then the request goes elsewhere. */
static void ghosts_in_the_way_of_a_better_place_are_dropped(void **state)
{
    (void)state;
    for (int is_past = 0; is_past <= 1; is_past++) {
        vw_test_pool t;
        vw_test_pool_setup setup = tiny;
        vw_device_ptr blocks[4];
        setup.manual_streams = true;
        vw_test_pool_open(&t, &setup);
        for (int i = 0; i < 4; i++)
            blocks[i] = vw_test_alloc(&t, 2 * UNIT);
        vw_test_free(&t, blocks[1]);
        vw_test_free(&t, blocks[2]);
        (void)vw_test_alloc_on(&t, 4 * UNIT,
                               1); /* takes block 1's memory, and a unit of block 2's */
        assert_int_equal(paged_stats(&t).retiring_bytes, 3 * UNIT);
        if (is_past)
            assert_int_equal(vw_device_complete(t.device, 0), VW_OK);
        vw_test_free(&t, blocks[0]);
        vw_device_ptr found = vw_test_alloc(&t, 4 * UNIT);
        assert_int_equal(found == blocks[0], is_past);
        assert_int_equal(calls_of(&t, VW_DEVICE_CALL_UNMAP), is_past ? 2 : 0);
        vw_test_pool_close(&t);
    }
}

/* ---- how large handles are ------------------------------------------------------------------- */

static void no_handle_is_larger_than_half_of_what_may_be_idle_for_want_of_room_alone(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.engine = "vramwise",
                                      .capacity_bytes = 1024 * VW_TEST_MIB,
                                      .idle_floor_bytes = 16 * VW_TEST_MIB};
    vw_test_pool t;
    uint64_t largest_bytes = 0;
    vw_test_pool_open(&t, &setup);
    (void)vw_test_alloc(&t, 64 * VW_TEST_MIB); /* a fifth of the room would be 16 MiB */
    const vw__paged_engine *engine = vw__paged_of(t.pool->engine);
    for (const vw__paged_handle *handle = engine->handles; handle != NULL; handle = handle->next)
        if (handle->size_bytes > largest_bytes)
            largest_bytes = handle->size_bytes;
    assert_int_equal(largest_bytes, 8 * VW_TEST_MIB);
    vw_test_pool_close(&t);
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void a_move_is_told_as_unmapped_here_and_mapped_there(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_setup setup = tiny;
    setup.capacity_bytes = UNIT;
    vw_test_pool_open(&t, &setup);
    vw_device_ptr first = vw_test_alloc_on(&t, VW_TEST_MIB, 0);
    vw_test_free(&t, first);
    vw_test_forget_events(&t);
    vw_device_ptr second = vw_test_alloc_on(&t, VW_TEST_MIB, 1);
    vw_test_expect_events(&t, {VW_ACTION_SEGMENT_UNMAP, first, UNIT},
                          {VW_ACTION_SEGMENT_MAP, second, UNIT},
                          {VW_ACTION_ALLOC, second, VW_TEST_MIB});
    vw_test_expect_blocks(&t, VW_TEST_LIVE(second, VW_TEST_MIB),
                          VW_TEST_FREE(second + VW_TEST_MIB, VW_TEST_MIB));
    vw_block_place place;
    vw_test_refused(&t, vw_pool_find(t.pool, first, &place), VW_ERR_UNKNOWN_ADDRESS);
    vw_test_ok(&t, vw_pool_find(t.pool, second + 5, &place));
    assert_int_equal(place.segment_address, second);
    assert_int_equal(place.segment_bytes, UNIT);
    assert_true(place.is_expandable);
    vw_test_free(&t, second);
    vw_test_forget_events(&t);
    assert_int_equal(vw_test_alloc_on(&t, VW_TEST_MIB, 0), first); /* revived: told all the same */
    vw_test_expect_events(&t, {VW_ACTION_SEGMENT_UNMAP, second, UNIT},
                          {VW_ACTION_SEGMENT_MAP, first, UNIT},
                          {VW_ACTION_ALLOC, first, VW_TEST_MIB});
    vw_test_pool_close(&t);
}

/* ---- trim ------------------------------------------------------------------------------------ */

static void a_trim_leaves_nothing_of_an_idle_pool(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, &tiny);
    for (int round = 0; round < 3; round++) {
        for (vw_stream stream = 0; stream < 4; stream++) {
            vw_test_free(&t, vw_test_alloc_on(&t, 50 * VW_TEST_MIB, stream));
            vw_test_free(&t, vw_test_alloc_on(&t, 5000, stream));
        }
        assert_true(paged_stats(&t).retiring_bytes > 0);
        vw_test_trim(&t);
        vw_test_expect_no_blocks(&t);
        assert_int_equal(vw_test_calls(&t).in_use_bytes, 0);
        assert_int_equal(paged_stats(&t).retiring_bytes, 0);
        assert_int_equal(paged_stats(&t).handle_count, 0);
        assert_int_equal(calls_of(&t, VW_DEVICE_CALL_RESERVE),
                         calls_of(&t, VW_DEVICE_CALL_UNRESERVE));
        assert_int_equal(calls_of(&t, VW_DEVICE_CALL_MAP), calls_of(&t, VW_DEVICE_CALL_UNMAP));
        assert_null(t.pool->engine->segments);
    }
    vw_test_pool_close(&t);
}

static void a_trim_keeps_what_live_blocks_touch_and_gives_the_rest_back(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, &tiny);
    vw_device_ptr small = vw_test_alloc(&t, 5000), other_small = vw_test_alloc_on(&t, 5000, 1);
    vw_test_free(&t, vw_test_alloc(&t, 100 * VW_TEST_MIB));
    vw_test_free(&t, vw_test_alloc_on(&t, 100 * VW_TEST_MIB, 1));
    vw_test_free(&t, other_small);
    vw_test_trim(&t);
    assert_int_equal(vw_test_stats(&t).reserved_bytes.all.current, UNIT);
    vw_test_expect_blocks(&t, VW_TEST_LIVE(small, 5120), VW_TEST_FREE(small + 5120, UNIT - 5120));
    assert_int_equal(paged_stats(&t).handle_count, 1);
    assert_int_equal(paged_stats(&t).retiring_bytes, 0);
    vw_test_pool_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holes_serve_a_request_that_none_of_them_could),
        cmocka_unit_test(a_handle_with_a_live_block_stays),
        cmocka_unit_test(layouts_that_come_again_call_for_no_mapping),
        cmocka_unit_test(a_ghost_is_not_revived_while_its_memory_is_used),
        cmocka_unit_test(memory_beside_a_window_is_moved_into_it),
        cmocka_unit_test(ghosts_in_the_way_of_a_better_place_are_dropped),
        cmocka_unit_test(no_handle_is_larger_than_half_of_what_may_be_idle_for_want_of_room_alone),
        cmocka_unit_test(a_move_is_told_as_unmapped_here_and_mapped_there),
        cmocka_unit_test(a_trim_leaves_nothing_of_an_idle_pool),
        cmocka_unit_test(a_trim_keeps_what_live_blocks_touch_and_gives_the_rest_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
