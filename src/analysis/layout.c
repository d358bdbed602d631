/* layout.c - from what is held and what is used (layout_follow.c) to where everything lay.
 *
 * The two are laid over each other only at the instant asked for. Forwards from nothing is tried
 * first; where the trace does not begin at nothing, the segments of the file are walked back from
 * instead. Should they contradict the events as well, nothing is claimed.
 *
 * A block counts with its request rounded up (live_bytes.h), not with what the allocator may have
 * given on top: so live bytes are the timeline's, and what rounding takes shows as idle.
 *
 * Invariants, checked in tests/unit/test_layout.c:
 *   - the blocks of a segment tile it
 *   - live and pending bytes are those of the timeline at the same instant
 *   - forwards and backwards give the same */
#include "analysis/layout.h"

#include <stdlib.h> /* qsort */

#include "analysis/layout_follow.h"
#include "analysis/live_bytes.h"
#include "analysis/script_events.h" /* vw__script_segments_of */
#include "base/error.h"
#include "base/host_memory.h"

/* ---- laying one over the other --------------------------------------------------------------- */

static int by_address(const void *one, const void *other)
{
    const vw__used_block *a = one, *b = other;
    return (a->address > b->address) - (a->address < b->address);
}

/* Takes the unused ones out, and sorts the others. The map means nothing afterwards. */
static void sort_blocks(vw__follower *state)
{
    size_t kept = 0;
    for (size_t i = 0; i < state->block_count; i++)
        if (state->blocks[i].state != VW__BLOCK_UNUSED)
            state->blocks[kept++] = state->blocks[i];
    state->block_count = kept;
    if (kept > 1)
        qsort(state->blocks, kept, sizeof *state->blocks, by_address);
}

static void lay_block(vw__layout *layout, vw__layout_segment *segment,
                      const vw__layout_block *block)
{
    if (block->size_bytes == 0)
        return;
    layout->blocks[layout->block_count++] = *block;
    segment->block_count++;
    switch (block->state) {
    case VW__LAYOUT_LIVE:
        segment->live_bytes += block->size_bytes;
        break;
    case VW__LAYOUT_PENDING:
        segment->pending_bytes += block->size_bytes;
        break;
    default:
        segment->idle_bytes += block->size_bytes;
        layout->largest_idle_bytes = vw__max_u64(layout->largest_idle_bytes, block->size_bytes);
        break;
    }
}

static void lay_gap(vw__layout *layout, vw__layout_segment *segment, uint64_t begin, uint64_t end)
{
    const vw__layout_block gap = {.address = begin,
                                  .size_bytes = end - begin,
                                  .context = VW__NO_CONTEXT,
                                  .state = VW__LAYOUT_IDLE};
    lay_block(layout, segment, &gap);
}

/* The blocks from `*next` on that lie in the run, and what is between them. A block that reaches
 * into the next one, or past the end, is cut there: a file may claim anything. */
static void lay_run(const vw__follower *state, const vw__held_run *run, size_t *next,
                    vw__layout *layout)
{
    vw__layout_segment *segment = &layout->segments[layout->segment_count++];
    uint64_t at = run->begin;
    *segment = (vw__layout_segment){.address = run->begin,
                                    .size_bytes = run->end - run->begin,
                                    .first_block = layout->block_count,
                                    .context = run->context,
                                    .stream = run->stream,
                                    .pool = run->pool,
                                    .is_expandable = run->is_expandable};
    while (*next < state->block_count && state->blocks[*next].address < run->begin)
        (*next)++;
    for (; *next < state->block_count && state->blocks[*next].address < run->end; (*next)++) {
        const vw__used_block *used = &state->blocks[*next];
        uint64_t end = vw__min_u64(
            vw__end_of(used->address, vw__live_bytes_of(used->requested_bytes)), run->end);
        if (*next + 1 < state->block_count)
            end = vw__min_u64(end, state->blocks[*next + 1].address);
        const vw__layout_block block = {.address = used->address,
                                        .size_bytes = end - used->address,
                                        .requested_bytes = used->requested_bytes,
                                        .context = used->context,
                                        .state = used->state};
        lay_gap(layout, segment, at, used->address);
        lay_block(layout, segment, &block);
        at = end;
    }
    lay_gap(layout, segment, at, run->end);
    layout->reserved_bytes += segment->size_bytes;
    layout->live_bytes += segment->live_bytes;
    layout->pending_bytes += segment->pending_bytes;
    layout->idle_bytes += segment->idle_bytes;
}

static vw_status lay_out(vw__follower *state, vw__layout *out)
{
    vw__layout layout = {.segments = NULL};
    size_t most_blocks, next = 0;
    sort_blocks(state);
    most_blocks = 2 * state->block_count + state->run_count;
    layout.segments = vw__host_alloc_zeroed(state->run_count, sizeof *layout.segments);
    layout.blocks = vw__host_alloc_zeroed(most_blocks, sizeof *layout.blocks);
    if (layout.segments == NULL || layout.blocks == NULL) {
        vw__layout_deinit(&layout);
        return vw__fail_host_memory(most_blocks * sizeof *layout.blocks, "an instant's memory");
    }
    for (size_t i = 0; i < state->run_count; i++)
        lay_run(state, &state->runs[i], &next, &layout);
    *out = layout;
    return VW_OK;
}

/* ---- the file's end ---------------------------------------------------------------------------
 */

/* What the segments of the file are to what the trace, from nothing, ends with. */
typedef enum file_end {
    FILE_END_SAME,
    FILE_END_MORE, /* the same, and others: those were there before the trace began */
    FILE_END_OTHER /* of another time */
} file_end;

/* Does the file have the run, with the same blocks in it? An expandable segment may have more on
 * either side. */
static bool is_in_file(const vw__follower *state, const vw__held_run *run, size_t *listed_count,
                       size_t *used_count)
{
    static const uint8_t states[] = {
        [VW_BLOCK_LIVE] = VW__LAYOUT_LIVE, [VW_BLOCK_PENDING_FREE] = VW__LAYOUT_PENDING};
    const vw__model_segment *segment =
        vw__script_segment_at(state->model, state->trace->device, run->begin);
    if (segment == NULL || vw__end_of(segment->address, segment->total_bytes) < run->end)
        return false;
    if (!run->is_expandable &&
        (segment->address != run->begin || segment->total_bytes != run->end - run->begin))
        return false;
    for (size_t i = 0; i < segment->block_count; i++) {
        const vw__model_block *block = &state->model->blocks[segment->first_block + i];
        if (block->address < run->begin || block->address >= run->end)
            continue;
        const vw__used_block *used = vw__follower_find(state, block->address);
        bool is_used = block->state != VW_BLOCK_FREE;
        if (is_used != (used != NULL) || (is_used && used->state != states[block->state]))
            return false;
        *used_count += is_used;
        (*listed_count)++;
    }
    return true;
}

static file_end compare_with_file(const vw__follower *state)
{
    const vw__model *model = state->model;
    size_t first, end, listed_count = 0, used_count = 0;
    uint64_t file_bytes = 0, held_bytes = 0;
    vw__script_segments_of(model, state->trace->device, &first, &end);
    for (size_t i = first; i < end; i++)
        file_bytes += model->segments[i].total_bytes;
    for (size_t i = 0; i < state->run_count; i++) {
        held_bytes += state->runs[i].end - state->runs[i].begin;
        if (!is_in_file(state, &state->runs[i], &listed_count, &used_count))
            return FILE_END_OTHER;
    }
    /* Segments that the file lists without blocks say nothing of them. */
    if (listed_count != 0 && used_count != vw__address_map_count(&state->places))
        return FILE_END_OTHER;
    return held_bytes == file_bytes ? FILE_END_SAME : FILE_END_MORE;
}

/* Follows the whole trace from nothing, if that works. */
static vw_status follow_whole_trace(vw__follower *state, bool *works, file_end *end)
{
    VW__TRY(vw__follow_from_nothing(state, state->trace->event_count, works));
    *end = *works ? compare_with_file(state) : FILE_END_OTHER;
    *works = *works && *end != FILE_END_MORE;
    return VW_OK;
}

vw_status vw__trace_begins_at_nothing(const vw__model *model, const vw__model_trace *trace,
                                      bool *out)
{
    vw__follower state;
    file_end end;
    vw__follower_init(&state, model, trace);
    vw_status status = follow_whole_trace(&state, out, &end);
    vw__follower_deinit(&state);
    return status;
}

vw_status vw__layout_of_end_fits(const vw__model *model, const vw__model_trace *trace, bool *out)
{
    vw__follower state;
    bool works = false;
    file_end end = FILE_END_OTHER;
    vw__follower_init(&state, model, trace);
    vw_status status = follow_whole_trace(&state, &works, &end);
    if (status == VW_OK)
        *out = end == FILE_END_SAME;
    vw__follower_deinit(&state);
    return status;
}

/* ---- an instant ------------------------------------------------------------------------------ */

/* An early event may fit a trace that does not begin at nothing: all of it is looked at first. */
static vw_status follow_to(vw__follower *state, size_t event_count)
{
    const vw__model *model = state->model;
    const vw__model_trace *trace = state->trace;
    bool works = false;
    file_end end;
    VW__TRY(follow_whole_trace(state, &works, &end));
    if (works && event_count == trace->event_count)
        return VW_OK;
    vw__follower_deinit(state);
    vw__follower_init(state, model, trace);
    return works ? vw__follow_from_nothing(state, event_count, &works)
                 : vw__follow_from_the_end(state, event_count);
}

vw_status vw__layout_at(const vw__model *model, const vw__model_trace *trace, uint32_t instant,
                        vw__layout *out)
{
    vw__follower state;
    size_t event_count = instant < trace->event_count ? instant : trace->event_count;
    vw__follower_init(&state, model, trace);
    vw_status status = follow_to(&state, event_count);
    if (status == VW_OK)
        status = lay_out(&state, out);
    vw__follower_deinit(&state);
    return status;
}

void vw__layout_deinit(vw__layout *layout)
{
    vw__host_free(layout->segments);
    vw__host_free(layout->blocks);
    *layout = (vw__layout){.segments = NULL};
}
