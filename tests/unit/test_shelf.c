/* test_shelf.c - lanes in order of their streams, and the blocks on them. */
#include "engine/shelf.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

static void a_shelf_has_no_lane_before_it_is_asked_for_one(void **state)
{
    (void)state;
    vw__shelf shelf = {.kind = VW__ENGINE_SMALL};
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
    vw__shelf shelf = {.kind = VW__ENGINE_SMALL};
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
    vw__shelf shelf = {.kind = VW__ENGINE_LARGE};
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

static size_t depth_of(const vw__tree_node *node)
{
    if (node == NULL)
        return 0;
    size_t left = depth_of(node->left), right = depth_of(node->right);
    return 1 + (left > right ? left : right);
}

/* A recording may have as many streams as it likes. */
static void a_lane_among_thousands_is_a_few_steps_away(void **state)
{
    (void)state;
    enum { LANES = 4096 };
    vw__shelf shelf = {.kind = VW__ENGINE_LARGE};
    for (vw_stream stream = 0; stream < LANES; stream++)
        assert_non_null(vw__shelf_add_lane(&shelf, stream));
    assert_in_range(depth_of(shelf.by_stream), 12, 60);
    for (vw_stream stream = 0; stream < LANES; stream++)
        assert_int_equal(vw__shelf_lane(&shelf, stream)->stream, stream);
    vw__shelf_deinit(&shelf);
    assert_null(shelf.by_stream);
}

static bool add_four_lanes(void *context)
{
    (void)context;
    vw__shelf shelf = {.kind = VW__ENGINE_SMALL};
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
    vw__shelf shelf = {.kind = VW__ENGINE_LARGE, .private_id = {3, 4}};
    vw__lane *lane = vw__shelf_add_lane(&shelf, 9);
    vw__segment segment = {.lane = lane, .nature = VW__BLOCK_NATURE_LARGE};
    vw__block_source records;
    vw__block_source_init(&records);
    assert_true(vw__block_source_reserve(&records, 2));
    const vw__block *first = vw__block_make(&records, &segment, 512, 512, 0);
    const vw__block *second = vw__block_make_beside(&records, first, 1024, 512, 0);
    for (const vw__block *block = first; block != NULL; block = block == first ? second : NULL) {
        assert_ptr_equal(block->segment, &segment);
        assert_ptr_equal(vw__block_lane(block), lane);
        assert_int_equal(vw__block_stream(block), 9);
        assert_int_equal(vw__block_kind(block), VW__ENGINE_LARGE);
        assert_int_equal(vw__block_private_id(block).first, 3);
        assert_int_equal(vw__block_private_id(block).second, 4);
    }
    vw__block_source_deinit(&records);
    vw__shelf_deinit(&shelf);
}

/* One segment of four blocks of 4 KiB on a lane; the caller says which are free. */
typedef struct row {
    vw__shelf shelf;
    vw__lane *lane;
    vw__segment segment;
    vw__block_source records;
    vw__block *blocks[4];
} row;

static void open_row(row *r)
{
    memset(r, 0, sizeof *r);
    r->shelf = (vw__shelf){.kind = VW__ENGINE_LARGE, .clock = 10};
    r->lane = vw__shelf_add_lane(&r->shelf, 0);
    r->segment = (vw__segment){.address = 4096, .size_bytes = 4 * 4096, .lane = r->lane};
    vw__block_source_init(&r->records);
    assert_true(vw__block_source_reserve(&r->records, 8));
    for (size_t i = 0; i < 4; i++) {
        r->blocks[i] = vw__block_make(&r->records, &r->segment, 4096 * (i + 1), 4096, (uint32_t)i);
        r->blocks[i]->state = VW__BLOCK_LIVE;
        if (i == 0)
            r->segment.first = r->blocks[0];
        else
            vw__block_link_after(r->blocks[i], r->blocks[i - 1]);
    }
}

static void close_row(row *r)
{
    vw__shelf_deinit(&r->shelf);
    vw__block_source_deinit(&r->records);
}

static void a_split_hands_out_the_low_part_and_keeps_the_rest_in_the_index(void **state)
{
    (void)state;
    row r;
    open_row(&r);
    vw__lane_insert(r.lane, r.blocks[1]);
    assert_int_equal(r.blocks[1]->state, VW__BLOCK_FREE);
    assert_int_equal(r.blocks[1]->age_base, 10);
    vw__block *low = vw__lane_split_low(&r.records, r.lane, r.blocks[1], 512, 7, 11);
    assert_int_equal(low->address, 8192);
    assert_int_equal(low->size_bytes, 512);
    assert_int_equal(low->tie_break, 7);
    assert_ptr_equal(low->previous, r.blocks[0]);
    assert_ptr_equal(low->next, r.blocks[1]);
    assert_int_equal(r.blocks[1]->address, 8192 + 512);
    assert_int_equal(r.blocks[1]->size_bytes, 4096 - 512);
    assert_int_equal(r.blocks[1]->age_base, 11);
    assert_ptr_equal(vw__free_index_first(&r.lane->free), r.blocks[1]);
    assert_null(vw__free_index_check(&r.lane->free));
    close_row(&r);
}

/* All four cases: neither, the one before, the one behind, both. */
static void a_freed_block_joins_its_free_neighbours_and_its_record_survives(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        row r;
        bool before = which & 1, behind = which & 2;
        open_row(&r);
        if (before)
            vw__lane_insert(r.lane, r.blocks[0]);
        if (behind)
            vw__lane_insert(r.lane, r.blocks[2]);
        size_t spare = r.records.spare_count;
        vw__lane_joined joined = vw__lane_settle_free(&r.records, r.lane, r.blocks[1], 12);
        assert_int_equal(joined.blocks, before + behind);
        assert_int_equal(joined.bytes, 4096 * (before + behind));
        assert_int_equal(r.records.spare_count, spare + before + behind);
        assert_int_equal(r.blocks[1]->state, VW__BLOCK_FREE);
        assert_int_equal(r.blocks[1]->age_base, 12);
        assert_int_equal(r.blocks[1]->address, before ? 4096 : 8192);
        assert_int_equal(r.blocks[1]->size_bytes, 4096 * (1 + before + behind));
        assert_ptr_equal(vw__free_index_first(&r.lane->free), r.blocks[1]);
        assert_ptr_equal(vw__free_index_last(&r.lane->free), r.blocks[1]);
        assert_null(vw__free_index_check(&r.lane->free));
        close_row(&r);
    }
}

static void an_unmapped_block_joins_its_neighbours_and_returns_their_records(void **state)
{
    (void)state;
    row r;
    open_row(&r);
    vw__lane_insert_unmapped(r.lane, r.blocks[1]);
    vw__lane_insert_unmapped(r.lane, r.blocks[3]);
    vw__block_pair gone = vw__lane_settle_unmapped(r.lane, r.blocks[2]);
    assert_ptr_equal(gone.before, r.blocks[1]);
    assert_ptr_equal(gone.after, r.blocks[3]);
    assert_int_equal(r.blocks[2]->state, VW__BLOCK_UNMAPPED);
    assert_int_equal(r.blocks[2]->address, 8192);
    assert_int_equal(r.blocks[2]->size_bytes, 3 * 4096);
    assert_ptr_equal(vw__lane_unmapped_above(r.lane, 0), r.blocks[2]);
    assert_null(vw__lane_unmapped_above(r.lane, 8192));
    vw__block_pair none = vw__lane_settle_unmapped(r.lane, r.blocks[0]);
    assert_ptr_equal(none.after, r.blocks[2]); /* block 0 joins what is behind it alone */
    assert_null(none.before);
    close_row(&r);
}

static void a_block_is_cut_out_of_the_middle_of_another(void **state)
{
    (void)state;
    row r;
    open_row(&r);
    vw__block_pair rest = vw__block_cut_out(&r.records, r.blocks[2], 12288 + 512, 1024);
    assert_int_equal(rest.before->address, 12288);
    assert_int_equal(rest.before->size_bytes, 512);
    assert_int_equal(r.blocks[2]->address, 12288 + 512);
    assert_int_equal(r.blocks[2]->size_bytes, 1024);
    assert_int_equal(rest.after->address, 12288 + 1536);
    assert_int_equal(rest.after->size_bytes, 4096 - 1536);
    assert_ptr_equal(r.blocks[1]->next, rest.before);
    assert_ptr_equal(rest.after->next, r.blocks[3]);
    vw__block_pair none = vw__block_cut_out(&r.records, r.blocks[3], 16384, 4096);
    assert_null(none.before);
    assert_null(none.after);
    close_row(&r);
}

static void unmapped_blocks_are_walked_by_rising_address(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    static vw__block blocks[COUNT];
    memset(blocks, 0, sizeof blocks);
    vw__shelf shelf = {.kind = VW__ENGINE_LARGE};
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
        cmocka_unit_test(a_lane_among_thousands_is_a_few_steps_away),
        cmocka_unit_test(a_lane_that_cannot_be_made_leaves_the_others),
        cmocka_unit_test(a_block_knows_its_stream_kind_and_pool_through_its_segment),
        cmocka_unit_test(a_split_hands_out_the_low_part_and_keeps_the_rest_in_the_index),
        cmocka_unit_test(a_freed_block_joins_its_free_neighbours_and_its_record_survives),
        cmocka_unit_test(an_unmapped_block_joins_its_neighbours_and_returns_their_records),
        cmocka_unit_test(a_block_is_cut_out_of_the_middle_of_another),
        cmocka_unit_test(unmapped_blocks_are_walked_by_rising_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
