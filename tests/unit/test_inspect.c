/* test_inspect.c - finding, walking and checking blocks, in states that engine "torch" does not
 * have: test_pool_check.c damages everything else.
 *
 * The scene is a row of blocks of an expandable segment, whose states are set by hand. */
#include "engine/inspect.h"

#include <string.h>

#include "pool/pool.h"

#include "support/cmocka_here.h"
#include "support/pool_fixture.h"

enum { ROW = 5 };

typedef struct scene {
    vw_test_pool t;
    vw__engine *engine;
    vw__block *row[ROW]; /* neighbours of 512 bytes, live */
    vw__block *tail;     /* free, behind them */
    vw__block *rest;     /* unmapped, behind that */
} scene;

static void scene_open(scene *s)
{
    vw_test_pool_open(&s->t, &(vw_test_pool_setup){.conf = "expandable_segments:True"});
    s->engine = s->t.pool->engine;
    for (int i = 0; i < ROW; i++)
        s->row[i] = vw__engine_find(s->engine, vw_test_alloc(&s->t, 512));
    s->tail = s->row[ROW - 1]->next;
    s->rest = s->tail->next;
    assert_int_equal(s->tail->state, VW__BLOCK_FREE);
    assert_int_equal(s->rest->state, VW__BLOCK_UNMAPPED);
}

/* A ghost is listed with the unmapped blocks of its lane. */
static void make_ghost(scene *s, int i)
{
    vw__lane_insert_unmapped(vw__block_lane(s->row[i]), s->row[i]);
    s->row[i]->state = VW__BLOCK_GHOST;
}

static void end_ghost(scene *s, int i, vw__block_state state)
{
    vw__lane_remove_unmapped(vw__block_lane(s->row[i]), s->row[i]);
    s->row[i]->state = (uint8_t)state;
}

static void scene_close(scene *s)
{
    for (int i = 0; i < ROW; i++) {
        if (s->row[i]->state == VW__BLOCK_GHOST)
            end_ghost(s, i, VW__BLOCK_LIVE);
        s->row[i]->state = VW__BLOCK_LIVE;
        s->row[i]->tag = 0;
    }
    vw_test_pool_close(&s->t);
}

static void expect_content(const scene *s)
{
    vw__engine_census census = {0};
    vw_status status = vw__engine_check_blocks(s->engine, &census);
    if (status != VW_OK)
        fail_msg("%s", vw_last_error());
}

static void expect_complaint(const scene *s, const char *text)
{
    vw__engine_census census = {0};
    assert_int_equal(vw__engine_check_blocks(s->engine, &census), VW_ERR_WRONG_STATE);
    if (strstr(vw_last_error(), text) == NULL)
        fail_msg("\"%s\" instead of \"%s\"", vw_last_error(), text);
}

/* ---- checking -------------------------------------------------------------------------------- */

static void free_blocks_that_touch_should_have_been_merged_ghosts_and_shadows_need_not(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    make_ghost(&s, 1);
    make_ghost(&s, 2);
    expect_content(&s);
    end_ghost(&s, 1, VW__BLOCK_SHADOW);
    expect_content(&s);
    end_ghost(&s, 2, VW__BLOCK_SHADOW);
    expect_content(&s);
    s.row[1]->state = s.row[2]->state = VW__BLOCK_FREE;
    expect_complaint(&s, "should have been merged");
    scene_close(&s);
}

static void a_shadow_is_in_no_index_and_a_ghost_with_the_unmapped(void **state)
{
    (void)state;
    const uint8_t states[] = {VW__BLOCK_GHOST, VW__BLOCK_SHADOW};
    scene s;
    scene_open(&s);
    for (size_t i = 0; i < sizeof states; i++) {
        s.tail->state = states[i];
        expect_complaint(&s, "in the free index is not free");
        s.tail->state = VW__BLOCK_FREE;
        s.row[0]->state = states[i];
        s.row[0]->tag = 7;
        expect_complaint(&s, "has a tag");
        s.row[0]->tag = 0;
        s.row[0]->state = VW__BLOCK_LIVE;
    }
    s.rest->state = VW__BLOCK_SHADOW;
    expect_complaint(&s, "wrongly listed as unmapped");
    s.rest->state = VW__BLOCK_UNMAPPED;
    s.row[0]->state = VW__BLOCK_SHADOW;
    expect_content(&s);
    s.row[0]->state = VW__BLOCK_GHOST;
    expect_complaint(&s, "2 unmapped blocks, 1 listed");
    s.row[0]->state = VW__BLOCK_LIVE;
    make_ghost(&s, 0);
    expect_content(&s);
    s.row[0]->state = VW__BLOCK_LIVE;
    expect_complaint(&s, "wrongly listed as unmapped");
    s.row[0]->state = VW__BLOCK_GHOST;
    scene_close(&s);
}

static void spare_records_are_counted(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    s.engine->records.spare_count++;
    expect_complaint(&s, "block records are spare");
    s.engine->records.spare_count--;
    scene_close(&s);
}

static void engine_torch_has_no_such_blocks(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    s.row[1]->state = VW__BLOCK_SHADOW;
    assert_int_equal(s.engine->table->check(s.engine), VW_ERR_WRONG_STATE);
    assert_non_null(strstr(vw_last_error(), "only engine \"vramwise\" knows"));
    scene_close(&s);
}

typedef struct visits {
    uint64_t count;
    uint64_t last_address;
    uint64_t refused_address;
} visits;

static vw_status visit_block(void *context, const vw__block *block)
{
    visits *seen = context;
    assert_true(block->address > seen->last_address);
    seen->last_address = block->address;
    seen->count++;
    VW__ENGINE_CHECK(block->address != seen->refused_address,
                     "the engine does not like this block");
    return VW_OK;
}

static void the_engine_is_asked_about_each_block_and_may_object(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    visits seen = {0};
    vw__engine_census census = {.check_block = visit_block, .context = &seen};
    assert_int_equal(vw__engine_check_blocks(s.engine, &census), VW_OK);
    assert_int_equal(seen.count, ROW + 2);
    assert_int_equal(census.free_blocks, 1);
    assert_int_equal(census.unmapped_blocks, 1);
    assert_int_equal(census.expandable_segments, 1);
    assert_int_equal(census.memory_bytes[VW__ENGINE_SMALL], 2 * VW_TEST_MIB);
    assert_int_equal(census.memory_bytes[VW__ENGINE_LARGE], 0);

    make_ghost(&s, 1);
    s.row[3]->state = VW__BLOCK_SHADOW;
    seen = (visits){.refused_address = s.rest->address};
    census = (vw__engine_census){.check_block = visit_block, .context = &seen};
    assert_int_equal(vw__engine_check_blocks(s.engine, &census), VW_ERR_WRONG_STATE);
    assert_string_equal(vw_last_error(), "the engine does not like this block");
    assert_int_equal(census.memory_bytes[VW__ENGINE_SMALL], 2 * VW_TEST_MIB - 1024);
    scene_close(&s);
}

/* ---- walking --------------------------------------------------------------------------------- */

typedef struct ranges {
    vw_segment_info segments[8];
    size_t segment_count;
    size_t block_count;
} ranges;

static bool keep_segment(void *context, const vw_segment_info *segment)
{
    ranges *found = context;
    assert_true(found->segment_count < 8);
    found->segments[found->segment_count++] = *segment;
    return true;
}

static bool count_block(void *context, const vw_segment_info *segment, const vw_block_info *block)
{
    ranges *found = context;
    assert_true(block->address - segment->address < segment->total_bytes);
    found->block_count++;
    return true;
}

static void blocks_without_memory_end_a_mapped_range(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    make_ghost(&s, 1);
    s.row[3]->state = VW__BLOCK_SHADOW;
    ranges found = {.segment_count = 0};
    const vw_walker walker = {.context = &found, .segment = keep_segment, .block = count_block};
    vw__engine_walk(s.engine, &walker);
    assert_int_equal(found.segment_count, 3);
    assert_int_equal(found.block_count, 4); /* rows 0, 2 and 4, and the tail */
    assert_int_equal(found.segments[0].address, s.row[0]->address);
    assert_int_equal(found.segments[0].total_bytes, 512);
    assert_int_equal(found.segments[1].address, s.row[2]->address);
    assert_int_equal(found.segments[1].total_bytes, 512);
    assert_int_equal(found.segments[2].address, s.row[4]->address);
    assert_int_equal(found.segments[2].total_bytes, 2 * VW_TEST_MIB - 4 * 512);

    vw_block_place place;
    assert_int_equal(vw_pool_find(s.t.pool, s.row[2]->address, &place), VW_OK);
    assert_int_equal(place.segment_address, s.row[2]->address);
    assert_int_equal(place.segment_bytes, 512);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            free_blocks_that_touch_should_have_been_merged_ghosts_and_shadows_need_not),
        cmocka_unit_test(a_shadow_is_in_no_index_and_a_ghost_with_the_unmapped),
        cmocka_unit_test(spare_records_are_counted),
        cmocka_unit_test(engine_torch_has_no_such_blocks),
        cmocka_unit_test(the_engine_is_asked_about_each_block_and_may_object),
        cmocka_unit_test(blocks_without_memory_end_a_mapped_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
