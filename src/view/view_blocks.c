/* view_blocks.c - lifetimes, ordered and with their level of detail.
 *
 * A timeline has the blocks of its requests in the order of events; those from before the trace are
 * found at their ends, and lie between. The latter all begin at 0, and are few: they alone are
 * sorted, and put before the others. */
#include "view/view_blocks.h"

#include <stdlib.h> /* qsort */

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

_Static_assert(HR__LIVE_TO_THE_END == HR__VIEW_NONE, "instants go into columns as they are");

/* Of [begin, last]: the highest bit in which begin - 1 and last differ is the step that a multiple
 * of it was reached in between. */
static uint8_t level_of(uint32_t begin, uint32_t last)
{
    if (begin == 0)
        return HR__VIEW_HIGHEST_LEVEL;
    return last >= begin ? (uint8_t)hr__floor_log2_u64((begin - 1) ^ last) : 0;
}

static int by_address(const void *one, const void *other)
{
    const hr__view_block *a = one, *b = other;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return (a->freed > b->freed) - (a->freed < b->freed);
}

static hr_status make_room(hr__view_blocks *blocks, size_t count)
{
    *blocks = (hr__view_blocks){.has_addresses = true};
    blocks->blocks = hr__host_alloc_zeroed(count, sizeof *blocks->blocks);
    return blocks->blocks != NULL
               ? HR_OK
               : hr__fail_host_memory(count * sizeof *blocks->blocks, "the blocks of a view");
}

static hr_status add_block(hr__view_blocks *blocks, const hr__view_block *block)
{
    blocks->blocks[blocks->count++] = *block;
    blocks->has_addresses = blocks->has_addresses && block->address != 0;
    if (block->begin == 0 &&
        !hr__add_u64(blocks->first_bytes, block->size_bytes, &blocks->first_bytes))
        return hr__fail(HR_ERR_CORRUPT_FILE, "the live blocks are larger than any device");
    return HR_OK;
}

static void sort_first(hr__view_blocks *blocks, size_t first_count)
{
    if (first_count > 1)
        qsort(blocks->blocks, first_count, sizeof *blocks->blocks, by_address);
    for (size_t i = 0; !blocks->has_addresses && i < blocks->count; i++)
        blocks->blocks[i].address = 0;
}

/* ---- of a trace ------------------------------------------------------------------------------ */

typedef struct block_maker {
    const hr__timeline *timeline;
    hr__view_stacks *stacks;
    hr__view_places *places;
    hr__view_blocks *out;
} block_maker;

static hr_status add_lifetimes(block_maker *maker, bool from_before)
{
    const hr__timeline *timeline = maker->timeline;
    uint32_t last_instant = (uint32_t)timeline->trace->event_count;
    for (size_t i = 0; i < timeline->lifetime_count; i++) {
        const hr__lifetime *lifetime = &timeline->lifetimes[i];
        if ((lifetime->begin == 0) != from_before)
            continue;
        bool has_end = lifetime->end != HR__LIVE_TO_THE_END;
        const hr__view_block block = {
            .address = lifetime->address,
            .size_bytes = lifetime->size_bytes,
            .begin = lifetime->begin,
            .freed = lifetime->freed,
            .end = lifetime->end,
            .stack = hr__view_stacks_number(maker->stacks, lifetime->context),
            .stream =
                hr__view_places_stream(maker->places, hr__lifetime_stream(timeline, lifetime)),
            .level = level_of(lifetime->begin, has_end ? lifetime->end - 1 : last_instant),
        };
        HR__TRY(add_block(maker->out, &block));
    }
    return HR_OK;
}

hr_status hr__view_blocks_of_trace(const hr__timeline *timeline, hr__view_stacks *stacks,
                                   hr__view_places *places, hr__view_blocks *out)
{
    block_maker maker = {timeline, stacks, places, out};
    HR__TRY(make_room(out, timeline->lifetime_count));
    HR__TRY(add_lifetimes(&maker, true));
    size_t first_count = out->count;
    HR__TRY(add_lifetimes(&maker, false));
    sort_first(out, first_count);
    return HR_OK;
}

/* ---- of an end state ------------------------------------------------------------------------- */

hr_status hr__view_blocks_of_end(const hr__model *model, int device, hr__view_stacks *stacks,
                                 hr__view_places *places, hr__view_blocks *out)
{
    size_t count = 0;
    for (size_t i = 0; i < model->segment_count; i++)
        if (model->segments[i].device == device)
            count += model->segments[i].block_count;
    HR__TRY(make_room(out, count));
    for (size_t i = 0; i < model->segment_count; i++) {
        const hr__model_segment *segment = &model->segments[i];
        for (size_t b = 0; segment->device == device && b < segment->block_count; b++) {
            const hr__model_block *from = &model->blocks[segment->first_block + b];
            if (from->state == HR_BLOCK_FREE)
                continue;
            const hr__view_block block = {
                .address = from->address,
                .size_bytes = hr__live_bytes_of_block(from),
                .freed = from->state == HR_BLOCK_PENDING_FREE ? 0 : HR__VIEW_NONE,
                .end = HR__VIEW_NONE,
                .stack = hr__view_stacks_number(stacks, from->context),
                .stream = hr__view_places_stream(places, segment->stream),
                .level = HR__VIEW_HIGHEST_LEVEL,
            };
            HR__TRY(add_block(out, &block));
        }
    }
    sort_first(out, out->count);
    return HR_OK;
}

void hr__view_blocks_deinit(hr__view_blocks *blocks)
{
    hr__host_free(blocks->blocks);
    *blocks = (hr__view_blocks){.blocks = NULL};
}

/* ---- columns --------------------------------------------------------------------------------- */

hr_status hr__view_blocks_write(const hr__view_blocks *blocks, hr__view_columns *columns)
{
    const hr__view_block *all = blocks->blocks;
    size_t count = blocks->count;
    HR__TRY(hr__view_columns_add(columns, "block.begin", HR__VIEW_FIELD(all, begin, count)));
    HR__TRY(hr__view_columns_add(columns, "block.freed", HR__VIEW_FIELD(all, freed, count)));
    HR__TRY(hr__view_columns_add(columns, "block.end", HR__VIEW_FIELD(all, end, count)));
    HR__TRY(hr__view_columns_add(columns, "block.size", HR__VIEW_FIELD(all, size_bytes, count)));
    HR__TRY(hr__view_columns_add(columns, "block.address", HR__VIEW_FIELD(all, address, count)));
    HR__TRY(hr__view_columns_add(columns, "block.stack", HR__VIEW_FIELD(all, stack, count)));
    HR__TRY(hr__view_columns_add(columns, "block.stream", HR__VIEW_FIELD(all, stream, count)));
    return hr__view_columns_add(columns, "block.level", HR__VIEW_FIELD(all, level, count));
}
