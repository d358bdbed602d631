/* script_start.c - what was there before the first event of a trace.
 *
 * The history is a ring: old events fall out. And it is often switched on late, when a model is
 * loaded already. So the question whether a trace begins at the beginning comes first, and memory
 * answers it: what the segment events take and give back, held against the segments at the end,
 * leaves over what was held at the start. Nothing left over means that nothing was there, and then
 * a free of an unknown block is a contradiction rather than a cut. */
#include "analysis/script_parts.h"

#include <inttypes.h>

#include "analysis/array.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "analysis/range_set.h"

enum { ENOUGH_FREES = 16 }; /* so many in a row cannot all be still pending */

/* ---- blocks by address ----------------------------------------------------------------------- */

vw__script_block *vw__script_blocks_find(const vw__script_blocks *blocks, uint64_t address)
{
    uintptr_t number = (uintptr_t)vw__address_map_get(&blocks->map, address);
    return number != 0 ? &blocks->blocks[number - 1] : NULL;
}

void vw__script_blocks_deinit(vw__script_blocks *blocks)
{
    vw__address_map_deinit(&blocks->map);
    vw__host_free(blocks->blocks);
    *blocks = (vw__script_blocks){.map = blocks->map};
}

static vw_status add_block(vw__script_blocks *blocks, const vw__model_event *event,
                           vw__script_block **out)
{
    VW__TRY(vw__array_make_room(&blocks->blocks, &blocks->capacity, blocks->count,
                                sizeof *blocks->blocks, "the blocks of a trace"));
    if (!vw__address_map_reserve(&blocks->map, 1))
        return vw__fail_host_memory(sizeof(vw__address_map_entry), "the blocks of a trace");
    *out = &blocks->blocks[blocks->count++];
    **out = (vw__script_block){.address = event->address,
                               .size_bytes = event->size_bytes,
                               .stream = event->stream,
                               .pool = event->pool};
    vw__address_map_insert(&blocks->map, event->address,
                           (void *)(uintptr_t)blocks->count); /* a number, not a pointer */
    return VW_OK;
}

/* ---- all events, once ------------------------------------------------------------------------ */

#define NO_EVENT SIZE_MAX

/* The findings of one pass over the events. They are judged after it: whether the trace is cut, or
 * lacks a kind of event, shows only then. */
typedef struct start_pass {
    vw__script *script;
    vw__script_blocks *blocks;
    vw__range_set held;    /* at the end */
    vw__range_set initial; /* must have been held before the first event */
    size_t counts[VW__MODEL_ACTION_KINDS];
    bool has_strays;               /* an alloc lay outside of `held`; not looked at while true */
    size_t first_alloc_on_live;    /* an event, or NO_EVENT */
    size_t first_alloc_on_pending; /* the same; a contradiction unless completions are lacking */
} start_pass;

static vw_status follow_segment(start_pass *pass, const vw__model_event *event)
{
    uint64_t end = vw__add_capped_u64(event->address, event->size_bytes);
    return vw__script_is_growth(event->action)
               ? vw__range_set_add(&pass->held, event->address, end)
               : vw__range_set_remove(&pass->held, event->address, end, &pass->initial);
}

static bool is_of_block(unsigned action)
{
    return action == VW_ACTION_ALLOC || action == VW_ACTION_FREE_REQUESTED ||
           action == VW_ACTION_FREE_COMPLETED;
}

/* A free of an address that is new to the trace: if anything was there before the trace, that block
 * was. `*last` is the block of the event before: often the same one, whose free was requested and
 * is complete. */
static vw_status follow_block(start_pass *pass, const vw__model_event *event, size_t index,
                              vw__script_block **last)
{
    vw__script_block *block = *last;
    if (block == NULL || block->address != event->address)
        block = vw__script_blocks_find(pass->blocks, event->address);
    if (block == NULL) {
        VW__TRY(add_block(pass->blocks, event, &block));
        block->is_initial = event->action != VW_ACTION_ALLOC;
    }
    *last = block;
    if (event->action != VW_ACTION_ALLOC) {
        block->phase = event->action == VW_ACTION_FREE_REQUESTED ? VW__SCRIPT_BLOCK_PENDING
                                                                 : VW__SCRIPT_BLOCK_GONE;
        return VW_OK;
    }
    if (block->phase == VW__SCRIPT_BLOCK_LIVE && pass->first_alloc_on_live == NO_EVENT)
        pass->first_alloc_on_live = index;
    if (block->phase == VW__SCRIPT_BLOCK_PENDING && pass->first_alloc_on_pending == NO_EVENT)
        pass->first_alloc_on_pending = index;
    block->phase = VW__SCRIPT_BLOCK_LIVE;
    return VW_OK;
}

static vw_status follow_events(start_pass *pass)
{
    const vw__model_trace *trace = pass->script->trace;
    vw__script_block *last = NULL;
    for (size_t i = 0; i < trace->event_count; i++) {
        const vw__model_event *event = &trace->events[i];
        unsigned action = event->action;
        if (action < VW__MODEL_ACTION_KINDS)
            pass->counts[action]++;
        if (vw__script_is_growth(action) || vw__script_is_release(action))
            VW__TRY(follow_segment(pass, event));
        else if (action == VW_ACTION_ALLOC && !pass->has_strays)
            pass->has_strays = !vw__range_set_covers(
                &pass->held, event->address, vw__add_capped_u64(event->address, event->size_bytes));
        if (is_of_block(action) && event->address != VW_NULL)
            VW__TRY(follow_block(pass, event, i, &last));
    }
    return VW_OK;
}

/* ---- does the trace begin at the beginning? -------------------------------------------------- */

static void note_kinds(start_pass *pass)
{
    const size_t *counts = pass->counts;
    size_t requested = counts[VW_ACTION_FREE_REQUESTED], done = counts[VW_ACTION_FREE_COMPLETED];
    pass->script->lacks_free_requested = requested == 0 && done >= ENOUGH_FREES;
    pass->script->lacks_free_completed = requested >= ENOUGH_FREES && done == 0;
    pass->blocks->has_releases =
        counts[VW_ACTION_SEGMENT_FREE] + counts[VW_ACTION_SEGMENT_UNMAP] != 0;
}

static vw_status judge_beginning(start_pass *pass, size_t first, size_t end)
{
    vw__script *script = pass->script;
    note_kinds(pass);
    script->has_end_state = end > first || pass->held.ranges.count == 0;
    for (size_t i = first; i < end; i++) {
        const vw__model_segment *segment = &script->model->segments[i];
        VW__TRY(vw__range_set_remove(&pass->held, segment->address,
                                     vw__add_capped_u64(segment->address, segment->total_bytes),
                                     &pass->initial));
    }
    script->is_truncated = pass->initial.ranges.count > 0 || (end == first && pass->has_strays);
    return VW_OK;
}

static vw_status judge_allocs(const start_pass *pass)
{
    size_t index = pass->first_alloc_on_live;
    if (!pass->script->lacks_free_completed && pass->first_alloc_on_pending < index)
        index = pass->first_alloc_on_pending;
    if (index == NO_EVENT)
        return VW_OK;
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "device trace, event %zu: expected an alloc where nothing is live, "
                    "found one at %#" PRIx64 ", where a block has not been freed yet",
                    index, pass->script->trace->events[index].address);
}

static vw_status find_beginning(vw__script *script, vw__script_blocks *blocks)
{
    size_t first, end;
    vw__script_segments_of(script->model, script->trace->device, &first, &end);
    start_pass pass = {.script = script,
                       .blocks = blocks,
                       .has_strays = end > first, /* with segments, allocs need not be looked at */
                       .first_alloc_on_live = NO_EVENT,
                       .first_alloc_on_pending = NO_EVENT};
    vw__range_set_init(&pass.held);
    vw__range_set_init(&pass.initial);
    vw_status status = follow_events(&pass);
    if (status == VW_OK)
        status = judge_beginning(&pass, first, end);
    if (status == VW_OK)
        status = judge_allocs(&pass);
    vw__range_set_deinit(&pass.held);
    vw__range_set_deinit(&pass.initial);
    return status;
}

/* ---- initial blocks -------------------------------------------------------------------------- */

/* Blocks that are live at the end and that no event mentions. */
static vw_status add_blocks_of_the_end(const vw__model *model, int device,
                                       vw__script_blocks *blocks)
{
    size_t first, end;
    vw__script_segments_of(model, device, &first, &end);
    for (size_t i = first; i < end; i++) {
        const vw__model_segment *segment = &model->segments[i];
        for (size_t k = 0; k < segment->block_count; k++) {
            const vw__model_block *live = &model->blocks[segment->first_block + k];
            vw__script_block *block = NULL;
            if (live->state == VW_BLOCK_FREE || live->address == VW_NULL ||
                vw__script_blocks_find(blocks, live->address) != NULL)
                continue;
            const vw__model_event event = {.address = live->address,
                                           .size_bytes =
                                               live->requested_bytes != VW__MODEL_UNKNOWN_BYTES
                                                   ? live->requested_bytes
                                                   : live->size_bytes,
                                           .stream = segment->stream,
                                           .pool = segment->pool};
            VW__TRY(add_block(blocks, &event, &block));
            block->is_initial = true;
        }
    }
    return VW_OK;
}

/* Before 2.12 a free does not say which pool the block was of. */
static void finish_block(const vw__model *model, int device, bool is_truncated,
                         vw__script_block *block)
{
    block->is_initial = block->is_initial && is_truncated;
    block->phase = block->is_initial ? VW__SCRIPT_BLOCK_LIVE : VW__SCRIPT_BLOCK_NOWHERE;
    if (!block->is_initial || block->pool != VW__MODEL_UNKNOWN_POOL)
        return;
    const vw__model_segment *segment = vw__script_segment_at(model, device, block->address);
    block->pool = segment != NULL && segment->pool != VW__MODEL_UNKNOWN_POOL
                      ? segment->pool
                      : VW__MODEL_DEFAULT_POOL;
}

vw_status vw__script_find_start(vw__script *script, vw__script_blocks *blocks)
{
    int device = script->trace->device;
    *blocks = (vw__script_blocks){.blocks = NULL};
    vw__address_map_init_for_file(&blocks->map);
    vw_status status = find_beginning(script, blocks);
    if (status == VW_OK && script->is_truncated)
        status = add_blocks_of_the_end(script->model, device, blocks);
    for (size_t i = 0; status == VW_OK && i < blocks->count; i++)
        finish_block(script->model, device, script->is_truncated, &blocks->blocks[i]);
    if (status != VW_OK)
        vw__script_blocks_deinit(blocks);
    return status;
}
