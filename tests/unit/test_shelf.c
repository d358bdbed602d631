/* test_shelf.c - lanes in order of their streams, and the blocks on them. */
#include "engine/shelf.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

static void a_shelf_has_no_lane_before_it_is_asked_for_one(void **state)
{
    (void)state;
    vw__shelf shelf = {.kind = VW__SMALL};
    assert_null(vw__shelf_lane(&shelf, 0));
    assert_null(vw__shelf_lane(&shelf, 7));
    vw__lane *lane = vw__shelf_add_lane(&shelf, 7);
    assert_non_null(lane);
    assert_ptr_equal(lane->shelf, &shelf);
    assert_int_equal(lane->stream, 7);
    assert_null(lane->unmapped);
    assert_null(vw__free_index_check(&lane->free));
    assert_null(vw__free_index_first(&lane->free));
    assert_ptr_equal(vw__shelf_lane(&shelf, 7), lane);
    assert_null(vw__shelf_lane(&shelf, 0));
    vw__shelf_deinit(&shelf);
    assert_null(shelf.lanes);
    assert_null(vw__shelf_lane(&shelf, 7)); /* the recent one is forgotten, too */
}

static void adding_a_lane_twice_gives_the_same_lane(void **state)
{
    (void)state;
    vw__shelf shelf = {.kind = VW__SMALL};
    vw__lane *first = vw__shelf_add_lane(&shelf, 1);
    vw__lane *second = vw__shelf_add_lane(&shelf, 2);
    assert_ptr_not_equal(first, second);
    assert_ptr_equal(vw__shelf_add_lane(&shelf, 1), first);
    assert_ptr_equal(vw__shelf_add_lane(&shelf, 2), second);
    vw__shelf_deinit(&shelf);
}

/* PyTorch's comparator sorts by stream first: as an unsigned number. */
static void lanes_are_walked_by_rising_stream_whatever_the_order_they_came_in(void **state)
{
    (void)state;
    const vw_stream streams[] = {5, 0, UINT64_MAX, 3, UINT64_C(1) << 63, 4, 1};
    const vw_stream rising[] = {0, 1, 3, 4, 5, UINT64_C(1) << 63, UINT64_MAX};
    const size_t count = sizeof streams / sizeof streams[0];
    vw__shelf shelf = {.kind = VW__LARGE};
    for (size_t i = 0; i < count; i++)
        assert_non_null(vw__shelf_add_lane(&shelf, streams[i]));
    const vw__lane *lane = shelf.lanes;
    for (size_t i = 0; i < count; i++, lane = lane->next) {
        assert_non_null(lane);
        assert_int_equal(lane->stream, rising[i]);
    }
    assert_null(lane);
    for (size_t i = 0; i < count; i++) { /* any order of asking, and twice in a row */
        assert_int_equal(vw__shelf_lane(&shelf, streams[i])->stream, streams[i]);
        assert_int_equal(vw__shelf_lane(&shelf, streams[i])->stream, streams[i]);
    }
    assert_null(vw__shelf_lane(&shelf, 2));
    vw__shelf_deinit(&shelf);
}

static bool add_four_lanes(void *context)
{
    (void)context;
    vw__shelf shelf = {.kind = VW__SMALL};
    size_t made = 0;
    for (vw_stream stream = 4; stream-- > 0;) {
        vw__lane *lane = vw__shelf_add_lane(&shelf, stream);
        made += lane != NULL;
        assert_ptr_equal(vw__shelf_lane(&shelf, stream), lane);
    }
    size_t found = 0;
    for (const vw__lane *lane = shelf.lanes; lane != NULL; lane = lane->next)
        found++;
    assert_int_equal(found, made);
    vw__shelf_deinit(&shelf);
    return made == 4;
}

static void a_lane_that_cannot_be_made_leaves_the_others(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(add_four_lanes, NULL);
}

/* ---- blocks on a lane ------------------------------------------------------------------------ */

static void a_block_knows_its_stream_kind_and_pool_through_its_segment(void **state)
{
    (void)state;
    vw__shelf shelf = {.kind = VW__LARGE, .private_id = {3, 4}};
    vw__lane *lane = vw__shelf_add_lane(&shelf, 9);
    vw__segment segment = {.lane = lane, .nature = VW__NATURE_LARGE};
    vw__block block = {.segment = &segment, .nature = segment.nature};
    assert_ptr_equal(vw__block_lane(&block), lane);
    assert_int_equal(vw__block_stream(&block), 9);
    assert_int_equal(vw__block_kind(&block), VW__LARGE);
    assert_int_equal(vw__block_private_id(&block).first, 3);
    assert_int_equal(vw__block_private_id(&block).second, 4);
    vw__shelf_deinit(&shelf);
}

/* Ages are differences of the shelf's clock: inserting, shrinking and replacing all begin anew. */
static void a_blocks_age_begins_whenever_it_enters_the_index(void **state)
{
    (void)state;
    vw__shelf shelf = {.kind = VW__LARGE, .clock = 10};
    vw__lane *lane = vw__shelf_add_lane(&shelf, 0);
    vw__block first = {.address = 4096, .size_bytes = 8192, .state = VW__BLOCK_LIVE};
    vw__block second = {.address = 4096, .size_bytes = 16384, .state = VW__BLOCK_LIVE};
    vw__lane_insert(lane, &first);
    assert_int_equal(first.state, VW__BLOCK_FREE);
    assert_int_equal(first.age_base, 10);
    shelf.clock = 11;
    vw__lane_shrink(lane, &first, 512);
    assert_int_equal(first.age_base, 11);
    assert_int_equal(first.size_bytes, 8192 - 512);
    shelf.clock = 12;
    vw__lane_replace(lane, &first, &second);
    assert_int_equal(second.age_base, 12);
    assert_int_equal(second.state, VW__BLOCK_FREE);
    assert_ptr_equal(vw__free_index_first(&lane->free), &second);
    assert_ptr_equal(vw__free_index_last(&lane->free), &second);
    vw__lane_remove(lane, &second);
    assert_null(vw__free_index_first(&lane->free));
    vw__shelf_deinit(&shelf);
}

static void unmapped_blocks_are_walked_by_rising_address(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    static vw__block blocks[COUNT];
    memset(blocks, 0, sizeof blocks);
    vw__shelf shelf = {.kind = VW__LARGE};
    vw__lane *lane = vw__shelf_add_lane(&shelf, 0);
    assert_null(vw__lane_unmapped_above(lane, 0));
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i].address = 512 * (1 + i * 67 % COUNT); /* 67 and 200 have no common divisor */
        blocks[i].size_bytes = 512 * (COUNT - i);
        vw__lane_insert_unmapped(lane, &blocks[i]);
        assert_int_equal(blocks[i].state, VW__BLOCK_UNMAPPED);
    }
    for (size_t i = 0; i < COUNT; i += 3)
        vw__lane_remove_unmapped(lane, &blocks[i]);
    uint64_t address = 0;
    for (uint64_t expected = 512; expected <= 512 * COUNT; expected += 512) {
        size_t i = 0;
        while (blocks[i].address != expected)
            i++;
        if (i % 3 == 0)
            continue;
        const vw__block *block = vw__lane_unmapped_above(lane, address);
        assert_ptr_equal(block, &blocks[i]);
        address = block->address;
    }
    assert_null(vw__lane_unmapped_above(lane, address));
    vw__shelf_deinit(&shelf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shelf_has_no_lane_before_it_is_asked_for_one),
        cmocka_unit_test(adding_a_lane_twice_gives_the_same_lane),
        cmocka_unit_test(lanes_are_walked_by_rising_stream_whatever_the_order_they_came_in),
        cmocka_unit_test(a_lane_that_cannot_be_made_leaves_the_others),
        cmocka_unit_test(a_block_knows_its_stream_kind_and_pool_through_its_segment),
        cmocka_unit_test(a_blocks_age_begins_whenever_it_enters_the_index),
        cmocka_unit_test(unmapped_blocks_are_walked_by_rising_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
