/* view_blocks.c - lifetimes, ordered and with their level of detail.
 *
 * A timeline has the blocks of its requests in the order of events; those from before the trace are
 * found at their ends, and lie between. The latter all begin at 0, and are few: they alone are
 * sorted, and put before the others. */
#include "view/view_blocks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h> /* qsort */

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

_Static_assert(VW__LIFETIME_TO_THE_END == VW__VIEW_NONE, "instants go into columns as they are");

/* Of [begin, last]: the highest bit in which begin - 1 and last differ is the step that a multiple
 * of it was reached in between. */
static uint8_t level_of(uint32_t begin, uint32_t last)
{
    if (begin == 0)
        return VW__VIEW_HIGHEST_LEVEL;
    return last >= begin ? (uint8_t)vw__floor_log2_u64((begin - 1) ^ last) : 0;
}

static int by_address(const void *one, const void *other)
{
    const vw__view_block *a = one, *b = other;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return (a->freed > b->freed) - (a->freed < b->freed);
}

static vw_status make_room(vw__view_blocks *blocks, size_t count)
{
    *blocks = (vw__view_blocks){.has_addresses = true};
    blocks->blocks = vw__host_alloc_zeroed(count, sizeof *blocks->blocks);
    return blocks->blocks != NULL
               ? VW_OK
               : vw__fail_host_memory(count * sizeof *blocks->blocks, "the blocks of a view");
}

static vw_status add_block(vw__view_blocks *blocks, const vw__view_block *block)
{
    blocks->blocks[blocks->count++] = *block;
    blocks->has_addresses = blocks->has_addresses && block->address != 0;
    if (block->begin == 0 &&
        !vw__add_u64(blocks->first_bytes, block->size_bytes, &blocks->first_bytes))
        return vw__fail(VW_ERR_CORRUPT_FILE, "the live blocks are larger than any device");
    return VW_OK;
}

static void sort_first(vw__view_blocks *blocks, size_t first_count)
{
    if (first_count > 1)
        qsort(blocks->blocks, first_count, sizeof *blocks->blocks, by_address);
    for (size_t i = 0; !blocks->has_addresses && i < blocks->count; i++)
        blocks->blocks[i].address = 0;
}

/* ---- of a trace ------------------------------------------------------------------------------ */

typedef struct block_maker {
    const vw__timeline *timeline;
    vw__view_stacks *stacks;
    vw__view_places *places;
    vw__view_blocks *out;
} block_maker;

static vw_status add_lifetimes(block_maker *maker, bool from_before)
{
    const vw__timeline *timeline = maker->timeline;
    uint32_t last_instant = (uint32_t)timeline->trace->event_count;
    for (size_t i = 0; i < timeline->lifetime_count; i++) {
        const vw__lifetime *lifetime = &timeline->lifetimes[i];
        if ((lifetime->begin == 0) != from_before)
            continue;
        bool has_end = lifetime->end != VW__LIFETIME_TO_THE_END;
        const vw__view_block block = {
            .address = lifetime->address,
            .size_bytes = lifetime->size_bytes,
            .begin = lifetime->begin,
            .freed = lifetime->freed,
            .end = lifetime->end,
            .stack = vw__view_stacks_number(maker->stacks, lifetime->context),
            .stream =
                vw__view_places_stream(maker->places, vw__lifetime_stream(timeline, lifetime)),
            .level = level_of(lifetime->begin, has_end ? lifetime->end - 1 : last_instant),
        };
        VW__TRY(add_block(maker->out, &block));
    }
    return VW_OK;
}

vw_status vw__view_blocks_of_trace(const vw__timeline *timeline, vw__view_stacks *stacks,
                                   vw__view_places *places, vw__view_blocks *out)
{
    block_maker maker = {timeline, stacks, places, out};
    VW__TRY(make_room(out, timeline->lifetime_count));
    VW__TRY(add_lifetimes(&maker, true));
    size_t first_count = out->count;
    VW__TRY(add_lifetimes(&maker, false));
    sort_first(out, first_count);
    return VW_OK;
}

/* ---- of an end state ------------------------------------------------------------------------- */

vw_status vw__view_blocks_of_end(const vw__model *model, int device, vw__view_stacks *stacks,
                                 vw__view_places *places, vw__view_blocks *out)
{
    size_t count = 0;
    for (size_t i = 0; i < model->segment_count; i++)
        if (model->segments[i].device == device)
            count += model->segments[i].block_count;
    VW__TRY(make_room(out, count));
    for (size_t i = 0; i < model->segment_count; i++) {
        const vw__model_segment *segment = &model->segments[i];
        for (size_t b = 0; segment->device == device && b < segment->block_count; b++) {
            const vw__model_block *from = &model->blocks[segment->first_block + b];
            if (from->state == VW_BLOCK_FREE)
                continue;
            const vw__view_block block = {
                .address = from->address,
                .size_bytes = vw__lifetime_bytes_of_block(from),
                .freed = from->state == VW_BLOCK_PENDING_FREE ? 0 : VW__VIEW_NONE,
                .end = VW__VIEW_NONE,
                .stack = vw__view_stacks_number(stacks, from->context),
                .stream = vw__view_places_stream(places, segment->stream),
                .level = VW__VIEW_HIGHEST_LEVEL,
            };
            VW__TRY(add_block(out, &block));
        }
    }
    sort_first(out, out->count);
    return VW_OK;
}

void vw__view_blocks_deinit(vw__view_blocks *blocks)
{
    vw__host_free(blocks->blocks);
    *blocks = (vw__view_blocks){.blocks = NULL};
}

/* ---- columns --------------------------------------------------------------------------------- */

vw_status vw__view_blocks_write(const vw__view_blocks *blocks, vw__view_columns *columns)
{
    const vw__view_block *all = blocks->blocks;
    size_t count = blocks->count;
    VW__TRY(vw__view_columns_add(columns, "block.begin", VW__VIEW_FIELD(all, begin, count)));
    VW__TRY(vw__view_columns_add(columns, "block.freed", VW__VIEW_FIELD(all, freed, count)));
    VW__TRY(vw__view_columns_add(columns, "block.end", VW__VIEW_FIELD(all, end, count)));
    VW__TRY(vw__view_columns_add(columns, "block.size", VW__VIEW_FIELD(all, size_bytes, count)));
    VW__TRY(vw__view_columns_add(columns, "block.address", VW__VIEW_FIELD(all, address, count)));
    VW__TRY(vw__view_columns_add(columns, "block.stack", VW__VIEW_FIELD(all, stack, count)));
    VW__TRY(vw__view_columns_add(columns, "block.stream", VW__VIEW_FIELD(all, stream, count)));
    return vw__view_columns_add(columns, "block.level", VW__VIEW_FIELD(all, level, count));
}

/* ---- streams and pools ------------------------------------------------------------------------
 */

vw_status vw__view_places_init(vw__view_places *places, const vw__model *model)
{
    size_t room = 2 * (model->stream_count + model->pool_count);
    *places = (vw__view_places){.model = model};
    places->memory = vw__host_alloc_zeroed(room, sizeof *places->memory);
    if (places->memory == NULL)
        return vw__fail_host_memory(room * sizeof *places->memory, "the streams of a view");
    places->stream_numbers = places->memory;
    places->streams = places->stream_numbers + model->stream_count;
    places->pool_numbers = places->streams + model->stream_count;
    places->pools = places->pool_numbers + model->pool_count;
    return VW_OK;
}

void vw__view_places_deinit(vw__view_places *places)
{
    vw__host_free(places->memory);
    *places = (vw__view_places){.model = NULL};
}

static uint16_t number(uint32_t *numbers, uint32_t *chosen, size_t *count, uint16_t of_model)
{
    if (numbers[of_model] == 0) {
        chosen[(*count)++] = of_model;
        numbers[of_model] = (uint32_t)*count;
    }
    return (uint16_t)(numbers[of_model] - 1);
}

uint16_t vw__view_places_stream(vw__view_places *places, uint16_t stream)
{
    return number(places->stream_numbers, places->streams, &places->stream_count, stream);
}

uint16_t vw__view_places_pool(vw__view_places *places, uint16_t pool)
{
    if (pool == VW__MODEL_UNKNOWN_POOL)
        return VW__VIEW_NO_POOL;
    return number(places->pool_numbers, places->pools, &places->pool_count, pool);
}

void vw__view_places_json(const vw__view_places *places, vw__json *json)
{
    char text[64];
    vw__json_begin_array(json, "streams");
    for (size_t i = 0; i < places->stream_count; i++) {
        snprintf(text, sizeof text, "0x%" PRIx64, places->model->streams[places->streams[i]]);
        vw__json_text(json, NULL, text);
    }
    vw__json_end_array(json);
    vw__json_begin_array(json, "pools");
    for (size_t i = 0; i < places->pool_count; i++) {
        vw_private_id id = places->model->pools[places->pools[i]];
        if (places->pools[i] == VW__MODEL_DEFAULT_POOL)
            snprintf(text, sizeof text, "default");
        else
            snprintf(text, sizeof text, "(%" PRIu64 ", %" PRIu64 ")", id.first, id.second);
        vw__json_text(json, NULL, text);
    }
    vw__json_end_array(json);
}
