/* test_view_blocks.c - blocks in the order of a page, and their level of detail. */
#include "view/view_blocks.h"

#include <stdlib.h>

#include "support/cmocka_here.h"
#include "support/small_model.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)

typedef struct fixture {
    vw__model *model;
    vw__timeline timeline;
    vw__attribution attribution;
    vw__view_stacks stacks;
    vw__view_places places;
    vw__view_blocks blocks;
} fixture;

static void prepare(fixture *made, vw__model *model)
{
    *made = (fixture){.model = model};
    assert_int_equal(vw__attribution_init(&made->attribution, model), VW_OK);
    assert_int_equal(vw__view_stacks_init(&made->stacks, &made->attribution), VW_OK);
    assert_int_equal(vw__view_places_init(&made->places, model), VW_OK);
}

static void make_of_trace(fixture *made, vw__model *model)
{
    prepare(made, model);
    assert_int_equal(vw__timeline_make(model, vw__model_trace_of(model, 0), &made->timeline),
                     VW_OK);
    assert_int_equal(
        vw__view_blocks_of_trace(&made->timeline, &made->stacks, &made->places, &made->blocks),
        VW_OK);
}

static void dispose(fixture *made)
{
    vw__view_blocks_deinit(&made->blocks);
    vw__view_places_deinit(&made->places);
    vw__view_stacks_deinit(&made->stacks);
    vw__attribution_deinit(&made->attribution);
    vw__timeline_deinit(&made->timeline);
    vw__model_destroy(made->model);
}

/* The largest L with a multiple of 2^L among [begin, last], by trying. */
static unsigned level_by_trying(uint32_t begin, uint32_t last)
{
    for (unsigned level = VW__VIEW_HIGHEST_LEVEL; level > 0; level--)
        for (uint64_t at = 0; at <= last; at += UINT64_C(1) << level)
            if (at >= begin)
                return level;
    return 0;
}

static void a_level_is_the_coarsest_grid_on_which_the_block_is_seen(void **state)
{
    (void)state;
    enum { BLOCKS = 300, EVENTS = 600 };
    small_model small;
    bool is_live[64] = {false};
    srand(7);
    small_model_begin(&small);
    for (int i = 0; i < EVENTS; i++) {
        size_t place = (size_t)(rand() % 64);
        unsigned action = is_live[place] ? VW_ACTION_FREE_COMPLETED : VW_ACTION_ALLOC;
        is_live[place] = !is_live[place];
        small_model_event(&small, action, A + MIB * place, 512, VW__MODEL_NO_CONTEXT);
    }
    small_model_end_trace(&small, 0);
    fixture made;
    make_of_trace(&made, small_model_finish(&small));
    assert_true(made.blocks.count > BLOCKS);
    for (size_t i = 0; i < made.blocks.count; i++) {
        const vw__view_block *block = &made.blocks.blocks[i];
        uint32_t last = block->end != VW__VIEW_NONE ? block->end - 1 : EVENTS;
        assert_int_equal(block->level, level_by_trying(block->begin, last));
    }
    dispose(&made);
}

static void blocks_from_before_come_first_by_address_the_others_as_they_began(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    uint32_t first = small_model_context(&small, "f train.py 1");
    uint32_t again = small_model_context(&small, "f train.py 1");
    uint32_t other = small_model_context(&small, "g train.py 2");
    small_model_alloc(&small, A + 6 * MIB, 1000, first);
    small_model_event(&small, VW_ACTION_FREE_COMPLETED, A + 3 * MIB, 512, other);
    small_model_alloc(&small, A + 5 * MIB, 512, again);
    small_model_event(&small, VW_ACTION_FREE_COMPLETED, A + 1 * MIB, 2048, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A + 2 * MIB, 512, 512, other);
    fixture made;
    make_of_trace(&made, small_model_finish(&small));
    const vw__view_block *blocks = made.blocks.blocks;
    static const uint64_t expected[] = {A + 1 * MIB, A + 2 * MIB, A + 3 * MIB, A + 6 * MIB,
                                        A + 5 * MIB};
    assert_int_equal(made.blocks.count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(blocks[i].address, expected[i]);
    assert_int_equal(blocks[3].size_bytes, 1024);
    assert_int_equal(blocks[3].stack, blocks[4].stack); /* equal stacks are one */
    assert_int_equal(blocks[1].stack, blocks[2].stack);
    assert_int_not_equal(blocks[1].stack, blocks[3].stack);
    assert_int_equal(blocks[0].stack, VW__VIEW_NONE);
    assert_int_equal(made.stacks.stack_count, 2);
    assert_int_equal(made.blocks.first_bytes, 2048 + 512 + 512);
    assert_true(made.blocks.has_addresses);
    dispose(&made);
}

static void an_end_state_alone_gives_its_live_blocks(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    uint32_t context = small_model_context(&small, "f train.py 1");
    small_model_segment(&small, 0, A + 20 * MIB, 2 * MIB, 3000, context);
    small_model_segment(&small, 0, A, 2 * MIB, 512, VW__MODEL_NO_CONTEXT);
    small_model_segment(&small, 1, A, 2 * MIB, 512, VW__MODEL_NO_CONTEXT);
    fixture made;
    prepare(&made, small_model_finish(&small));
    assert_int_equal(
        vw__view_blocks_of_end(made.model, 0, &made.stacks, &made.places, &made.blocks), VW_OK);
    assert_int_equal(made.blocks.count, 2);
    assert_int_equal(made.blocks.blocks[0].address, A);
    assert_int_equal(made.blocks.blocks[1].size_bytes, 3072);
    assert_int_equal(made.blocks.blocks[1].begin, 0);
    assert_int_equal(made.blocks.blocks[1].end, VW__VIEW_NONE);
    assert_int_equal(made.blocks.blocks[1].level, VW__VIEW_HIGHEST_LEVEL);
    assert_int_equal(made.blocks.first_bytes, 512 + 3072);
    dispose(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_level_is_the_coarsest_grid_on_which_the_block_is_seen),
        cmocka_unit_test(blocks_from_before_come_first_by_address_the_others_as_they_began),
        cmocka_unit_test(an_end_state_alone_gives_its_live_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
