/* script_start.c - what was there before the first event of a trace.
 *
 * The history is a ring: old events fall out. And it is often switched on late, when a model is
 * loaded already. So the question whether a trace begins at the beginning comes first, and memory
 * answers it: what the segment events take and give back, held against the segments at the end,
 * leaves over what was held at the start. Nothing left over means that nothing was there, and then
 * a free of an unknown block is a contradiction rather than a cut. */
#include "analysis/script_parts.h"

#include <inttypes.h>
#include <limits.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "analysis/range_set.h"

enum { FIRST_BLOCKS = 256, FIRST_SEGMENT_EVENTS = 256 };
enum { ENOUGH_FREES = 16 }; /* so many in a row cannot all be still pending */

static uint64_t end_of(uint64_t address, uint64_t size_bytes)
{
    uint64_t end;
    return hr__add_u64(address, size_bytes, &end) ? end : UINT64_MAX;
}

/* ---- segments at the end --------------------------------------------------------------------- */

/* Devices rise, the host's comes last. */
static unsigned rank_of(int device)
{
    return device < 0 ? UINT_MAX : (unsigned)device;
}

static size_t count_below(const hr__model *model, unsigned rank)
{
    size_t low = 0, high = model->segment_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rank_of(model->segments[middle].device) < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void hr__script_segments_of(const hr__model *model, int device, size_t *first, size_t *end)
{
    unsigned rank = rank_of(device);
    *first = count_below(model, rank);
    *end = rank == UINT_MAX ? model->segment_count : count_below(model, rank + 1);
}

const hr__model_segment *hr__script_segment_at(const hr__model *model, int device, uint64_t address)
{
    size_t first, end;
    hr__script_segments_of(model, device, &first, &end);
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        const hr__model_segment *segment = &model->segments[middle];
        if (address < segment->address)
            end = middle;
        else if (address - segment->address >= segment->total_bytes)
            first = middle + 1;
        else
            return segment;
    }
    return NULL;
}

/* ---- blocks by address ----------------------------------------------------------------------- */

hr__script_block *hr__script_blocks_find(const hr__script_blocks *blocks, uint64_t address)
{
    uintptr_t number = (uintptr_t)hr__address_map_get(&blocks->map, address);
    return number != 0 ? &blocks->blocks[number - 1] : NULL;
}

void hr__script_blocks_deinit(hr__script_blocks *blocks)
{
    hr__address_map_deinit(&blocks->map);
    hr__host_free(blocks->blocks);
    hr__host_free(blocks->segment_events);
    *blocks = (hr__script_blocks){.map = blocks->map};
}

static hr_status add_block(hr__script_blocks *blocks, const hr__model_event *event,
                           hr__script_block **out)
{
    if (blocks->count == blocks->capacity) {
        size_t capacity = blocks->capacity != 0 ? blocks->capacity * 2 : (size_t)FIRST_BLOCKS;
        hr__script_block *grown = hr__host_realloc(blocks->blocks, capacity * sizeof *grown);
        if (grown == NULL)
            return hr__fail_host_memory(capacity * sizeof *grown, "the blocks of a trace");
        blocks->blocks = grown;
        blocks->capacity = capacity;
    }
    if (!hr__address_map_reserve(&blocks->map, 1))
        return hr__fail_host_memory(sizeof(hr__address_map_entry), "the blocks of a trace");
    *out = &blocks->blocks[blocks->count++];
    **out = (hr__script_block){.address = event->address,
                               .size_bytes = event->size_bytes,
                               .stream = event->stream,
                               .pool = event->pool};
    hr__address_map_insert(&blocks->map, event->address,
                           (void *)(uintptr_t)blocks->count); /* a number, not a pointer */
    return HR_OK;
}

/* ---- all events, once ------------------------------------------------------------------------ */

#define NO_EVENT SIZE_MAX

/* What the one pass over the events finds. What to make of it depends on events still to come (is
 * the trace cut, does it lack a kind of event), so nothing is judged on the way. */
typedef struct start_pass {
    const hr__model_trace *trace;
    hr__script_blocks *blocks;
    hr__script_start *out;
    hr__range_set held;    /* at the end */
    hr__range_set initial; /* must have been held before the first event */
    size_t counts[HR__ACTION_KINDS];
    bool has_strays;               /* an alloc lay outside of `held`; not looked at while true */
    size_t first_alloc_on_live;    /* an event, or NO_EVENT */
    size_t first_alloc_on_pending; /* the same; a contradiction unless completions are lacking */
} start_pass;

static hr_status note_segment_event(hr__script_blocks *blocks, size_t index)
{
    if (blocks->segment_event_count == blocks->segment_event_capacity) {
        size_t capacity = blocks->segment_event_capacity != 0 ? blocks->segment_event_capacity * 2
                                                              : (size_t)FIRST_SEGMENT_EVENTS;
        uint32_t *grown = hr__host_realloc(blocks->segment_events, capacity * sizeof *grown);
        if (grown == NULL)
            return hr__fail_host_memory(capacity * sizeof *grown, "the segments of a trace");
        blocks->segment_events = grown;
        blocks->segment_event_capacity = capacity;
    }
    blocks->segment_events[blocks->segment_event_count++] = (uint32_t)index;
    return HR_OK;
}

static hr_status follow_segment(start_pass *pass, const hr__model_event *event, size_t index)
{
    uint64_t end = end_of(event->address, event->size_bytes);
    HR__TRY(note_segment_event(pass->blocks, index));
    return hr__is_growth(event->action)
               ? hr__range_set_add(&pass->held, event->address, end)
               : hr__range_set_remove(&pass->held, event->address, end, &pass->initial);
}

static bool is_of_block(unsigned action)
{
    return action == HR_ACTION_ALLOC || action == HR_ACTION_FREE_REQUESTED ||
           action == HR_ACTION_FREE_COMPLETED;
}

/* A free of an address that the trace has not mentioned before: that block was there first, if
 * anything was. `*last` is the block of the event before: often the same one, whose free is
 * requested and complete. */
static hr_status follow_block(start_pass *pass, const hr__model_event *event, size_t index,
                              hr__script_block **last)
{
    hr__script_block *block = *last;
    if (block == NULL || block->address != event->address)
        block = hr__script_blocks_find(pass->blocks, event->address);
    if (block == NULL) {
        HR__TRY(add_block(pass->blocks, event, &block));
        block->is_initial = event->action != HR_ACTION_ALLOC;
    }
    *last = block;
    if (event->action != HR_ACTION_ALLOC) {
        block->phase =
            event->action == HR_ACTION_FREE_REQUESTED ? HR__BLOCK_IS_PENDING : HR__BLOCK_IS_GONE;
        return HR_OK;
    }
    if (block->phase == HR__BLOCK_IS_LIVE && pass->first_alloc_on_live == NO_EVENT)
        pass->first_alloc_on_live = index;
    if (block->phase == HR__BLOCK_IS_PENDING && pass->first_alloc_on_pending == NO_EVENT)
        pass->first_alloc_on_pending = index;
    block->phase = HR__BLOCK_IS_LIVE;
    return HR_OK;
}

static hr_status follow_events(start_pass *pass)
{
    const hr__model_trace *trace = pass->trace;
    hr__script_block *last = NULL;
    for (size_t i = 0; i < trace->event_count; i++) {
        const hr__model_event *event = &trace->events[i];
        unsigned action = event->action;
        if (action < HR__ACTION_KINDS)
            pass->counts[action]++;
        if (hr__is_growth(action) || hr__is_release(action))
            HR__TRY(follow_segment(pass, event, i));
        else if (action == HR_ACTION_ALLOC && !pass->has_strays)
            pass->has_strays = !hr__range_set_covers(&pass->held, event->address,
                                                     end_of(event->address, event->size_bytes));
        if (is_of_block(action) && event->address != HR_NULL)
            HR__TRY(follow_block(pass, event, i, &last));
    }
    return HR_OK;
}

/* ---- does the trace begin at the beginning? -------------------------------------------------- */

static void note_kinds(const size_t counts[HR__ACTION_KINDS], hr__script_start *out)
{
    size_t requested = counts[HR_ACTION_FREE_REQUESTED], done = counts[HR_ACTION_FREE_COMPLETED];
    out->lacks_free_requested = requested == 0 && done >= ENOUGH_FREES;
    out->lacks_free_completed = requested >= ENOUGH_FREES && done == 0;
    out->has_releases = counts[HR_ACTION_SEGMENT_FREE] + counts[HR_ACTION_SEGMENT_UNMAP] != 0;
    out->has_ooms = counts[HR_ACTION_OOM] != 0;
}

static hr_status judge_beginning(const hr__model *model, start_pass *pass, size_t first, size_t end)
{
    hr__script_start *out = pass->out;
    note_kinds(pass->counts, out);
    out->has_end_state = end > first || pass->held.count == 0;
    for (size_t i = first; i < end; i++) {
        const hr__model_segment *segment = &model->segments[i];
        HR__TRY(hr__range_set_remove(&pass->held, segment->address,
                                     end_of(segment->address, segment->total_bytes),
                                     &pass->initial));
    }
    out->is_truncated = pass->initial.count > 0 || (end == first && pass->has_strays);
    return HR_OK;
}

static hr_status judge_allocs(const start_pass *pass)
{
    size_t index = pass->first_alloc_on_live;
    if (!pass->out->lacks_free_completed && pass->first_alloc_on_pending < index)
        index = pass->first_alloc_on_pending;
    if (index == NO_EVENT)
        return HR_OK;
    return hr__fail(HR_ERR_CORRUPT_FILE,
                    "device trace, event %zu: expected an alloc where nothing is live, "
                    "found one at %#" PRIx64 ", where a block has not been freed yet",
                    index, pass->trace->events[index].address);
}

static hr_status find_beginning(const hr__model *model, const hr__model_trace *trace,
                                hr__script_blocks *blocks, hr__script_start *out)
{
    size_t first, end;
    hr__script_segments_of(model, trace->device, &first, &end);
    start_pass pass = {.trace = trace,
                       .blocks = blocks,
                       .out = out,
                       .has_strays = end > first, /* segments tell without asking the allocs */
                       .first_alloc_on_live = NO_EVENT,
                       .first_alloc_on_pending = NO_EVENT};
    hr__range_set_init(&pass.held);
    hr__range_set_init(&pass.initial);
    hr_status status = follow_events(&pass);
    if (status == HR_OK)
        status = judge_beginning(model, &pass, first, end);
    if (status == HR_OK)
        status = judge_allocs(&pass);
    hr__range_set_deinit(&pass.held);
    hr__range_set_deinit(&pass.initial);
    return status;
}

/* ---- initial blocks -------------------------------------------------------------------------- */

/* Blocks that are live at the end and that no event mentions. */
static hr_status add_blocks_of_the_end(const hr__model *model, int device,
                                       hr__script_blocks *blocks)
{
    size_t first, end;
    hr__script_segments_of(model, device, &first, &end);
    for (size_t i = first; i < end; i++) {
        const hr__model_segment *segment = &model->segments[i];
        for (size_t k = 0; k < segment->block_count; k++) {
            const hr__model_block *live = &model->blocks[segment->first_block + k];
            hr__script_block *block = NULL;
            if (live->state == HR_BLOCK_FREE || live->address == HR_NULL ||
                hr__script_blocks_find(blocks, live->address) != NULL)
                continue;
            const hr__model_event event = {.address = live->address,
                                           .size_bytes = live->requested_bytes != HR__UNKNOWN_BYTES
                                                             ? live->requested_bytes
                                                             : live->size_bytes,
                                           .stream = segment->stream,
                                           .pool = segment->pool};
            HR__TRY(add_block(blocks, &event, &block));
            block->is_initial = true;
        }
    }
    return HR_OK;
}

/* Before 2.12 a free does not say which pool the block was of. */
static void finish_block(const hr__model *model, int device, bool is_truncated,
                         hr__script_block *block)
{
    block->is_initial = block->is_initial && is_truncated;
    block->phase = block->is_initial ? HR__BLOCK_IS_LIVE : HR__BLOCK_NOWHERE;
    if (!block->is_initial || block->pool != HR__UNKNOWN_POOL)
        return;
    const hr__model_segment *segment = hr__script_segment_at(model, device, block->address);
    block->pool =
        segment != NULL && segment->pool != HR__UNKNOWN_POOL ? segment->pool : HR__DEFAULT_POOL;
}

hr_status hr__script_find_start(const hr__model *model, const hr__model_trace *trace,
                                hr__script_blocks *blocks, hr__script_start *out)
{
    *blocks = (hr__script_blocks){.blocks = NULL};
    hr__address_map_init(&blocks->map);
    *out = (hr__script_start){.is_truncated = false};
    hr_status status = find_beginning(model, trace, blocks, out);
    if (status == HR_OK && out->is_truncated)
        status = add_blocks_of_the_end(model, trace->device, blocks);
    for (size_t i = 0; status == HR_OK && i < blocks->count; i++)
        finish_block(model, trace->device, out->is_truncated, &blocks->blocks[i]);
    if (status != HR_OK)
        hr__script_blocks_deinit(blocks);
    return status;
}
