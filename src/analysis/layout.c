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
#include "analysis/script_parts.h" /* hr__script_segments_of */
#include "base/error.h"
#include "base/host_memory.h"

/* ---- laying one over the other --------------------------------------------------------------- */

static int by_address(const void *one, const void *other)
{
    const hr__used_block *a = one, *b = other;
    return (a->address > b->address) - (a->address < b->address);
}

/* Takes the unused ones out, and sorts the others. The map means nothing afterwards. */
static void sort_blocks(hr__follower *state)
{
    size_t kept = 0;
    for (size_t i = 0; i < state->block_count; i++)
        if (state->blocks[i].state != HR__BLOCK_UNUSED)
            state->blocks[kept++] = state->blocks[i];
    state->block_count = kept;
    if (kept > 1)
        qsort(state->blocks, kept, sizeof *state->blocks, by_address);
}

static void lay_block(hr__layout *layout, hr__layout_segment *segment,
                      const hr__layout_block *block)
{
    if (block->size_bytes == 0)
        return;
    layout->blocks[layout->block_count++] = *block;
    segment->block_count++;
    switch (block->state) {
    case HR__LAYOUT_LIVE:
        segment->live_bytes += block->size_bytes;
        break;
    case HR__LAYOUT_PENDING:
        segment->pending_bytes += block->size_bytes;
        break;
    default:
        segment->idle_bytes += block->size_bytes;
        layout->largest_idle_bytes = hr__max_u64(layout->largest_idle_bytes, block->size_bytes);
        break;
    }
}

static void lay_gap(hr__layout *layout, hr__layout_segment *segment, uint64_t begin, uint64_t end)
{
    const hr__layout_block gap = {.address = begin,
                                  .size_bytes = end - begin,
                                  .context = HR__NO_CONTEXT,
                                  .state = HR__LAYOUT_IDLE};
    lay_block(layout, segment, &gap);
}

/* The blocks from `*next` on that lie in the run, and what is between them. A block that reaches
 * into the next one, or past the end, is cut there: a file may claim anything. */
static void lay_run(const hr__follower *state, const hr__held_run *run, size_t *next,
                    hr__layout *layout)
{
    hr__layout_segment *segment = &layout->segments[layout->segment_count++];
    uint64_t at = run->begin;
    *segment = (hr__layout_segment){.address = run->begin,
                                    .size_bytes = run->end - run->begin,
                                    .first_block = layout->block_count,
                                    .context = run->context,
                                    .stream = run->stream,
                                    .pool = run->pool,
                                    .is_expandable = run->is_expandable};
    while (*next < state->block_count && state->blocks[*next].address < run->begin)
        (*next)++;
    for (; *next < state->block_count && state->blocks[*next].address < run->end; (*next)++) {
        const hr__used_block *used = &state->blocks[*next];
        uint64_t end = hr__min_u64(
            hr__end_of(used->address, hr__live_bytes_of(used->requested_bytes)), run->end);
        if (*next + 1 < state->block_count)
            end = hr__min_u64(end, state->blocks[*next + 1].address);
        const hr__layout_block block = {.address = used->address,
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

static hr_status lay_out(hr__follower *state, hr__layout *out)
{
    hr__layout layout = {.segments = NULL};
    size_t most_blocks, next = 0;
    sort_blocks(state);
    most_blocks = 2 * state->block_count + state->run_count;
    layout.segments = hr__host_alloc_zeroed(state->run_count, sizeof *layout.segments);
    layout.blocks = hr__host_alloc_zeroed(most_blocks, sizeof *layout.blocks);
    if (layout.segments == NULL || layout.blocks == NULL) {
        hr__layout_deinit(&layout);
        return hr__fail_host_memory(most_blocks * sizeof *layout.blocks, "an instant's memory");
    }
    for (size_t i = 0; i < state->run_count; i++)
        lay_run(state, &state->runs[i], &next, &layout);
    *out = layout;
    return HR_OK;
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
static bool is_in_file(const hr__follower *state, const hr__held_run *run, size_t *listed_count,
                       size_t *used_count)
{
    static const uint8_t states[] = {
        [HR_BLOCK_LIVE] = HR__LAYOUT_LIVE, [HR_BLOCK_PENDING_FREE] = HR__LAYOUT_PENDING};
    const hr__model_segment *segment =
        hr__script_segment_at(state->model, state->trace->device, run->begin);
    if (segment == NULL || hr__end_of(segment->address, segment->total_bytes) < run->end)
        return false;
    if (!run->is_expandable &&
        (segment->address != run->begin || segment->total_bytes != run->end - run->begin))
        return false;
    for (size_t i = 0; i < segment->block_count; i++) {
        const hr__model_block *block = &state->model->blocks[segment->first_block + i];
        if (block->address < run->begin || block->address >= run->end)
            continue;
        const hr__used_block *used = hr__follower_find(state, block->address);
        bool is_used = block->state != HR_BLOCK_FREE;
        if (is_used != (used != NULL) || (is_used && used->state != states[block->state]))
            return false;
        *used_count += is_used;
        (*listed_count)++;
    }
    return true;
}

static file_end compare_with_file(const hr__follower *state)
{
    const hr__model *model = state->model;
    size_t first, end, listed_count = 0, used_count = 0;
    uint64_t file_bytes = 0, held_bytes = 0;
    hr__script_segments_of(model, state->trace->device, &first, &end);
    for (size_t i = first; i < end; i++)
        file_bytes += model->segments[i].total_bytes;
    for (size_t i = 0; i < state->run_count; i++) {
        held_bytes += state->runs[i].end - state->runs[i].begin;
        if (!is_in_file(state, &state->runs[i], &listed_count, &used_count))
            return FILE_END_OTHER;
    }
    /* Segments that the file lists without blocks say nothing of them. */
    if (listed_count != 0 && used_count != hr__address_map_count(&state->places))
        return FILE_END_OTHER;
    return held_bytes == file_bytes ? FILE_END_SAME : FILE_END_MORE;
}

/* Follows the whole trace from nothing, if that works. */
static hr_status follow_whole_trace(hr__follower *state, bool *works, file_end *end)
{
    HR__TRY(hr__follow_from_nothing(state, state->trace->event_count, works));
    *end = *works ? compare_with_file(state) : FILE_END_OTHER;
    *works = *works && *end != FILE_END_MORE;
    return HR_OK;
}

hr_status hr__trace_begins_at_nothing(const hr__model *model, const hr__model_trace *trace,
                                      bool *out)
{
    hr__follower state;
    file_end end;
    hr__follower_init(&state, model, trace);
    hr_status status = follow_whole_trace(&state, out, &end);
    hr__follower_deinit(&state);
    return status;
}

hr_status hr__layout_of_end_fits(const hr__model *model, const hr__model_trace *trace, bool *out)
{
    hr__follower state;
    bool works = false;
    file_end end = FILE_END_OTHER;
    hr__follower_init(&state, model, trace);
    hr_status status = follow_whole_trace(&state, &works, &end);
    if (status == HR_OK)
        *out = end == FILE_END_SAME;
    hr__follower_deinit(&state);
    return status;
}

/* ---- an instant ------------------------------------------------------------------------------ */

/* An early event may fit a trace that does not begin at nothing: all of it is looked at first. */
static hr_status follow_to(hr__follower *state, size_t event_count)
{
    const hr__model *model = state->model;
    const hr__model_trace *trace = state->trace;
    bool works = false;
    file_end end;
    HR__TRY(follow_whole_trace(state, &works, &end));
    if (works && event_count == trace->event_count)
        return HR_OK;
    hr__follower_deinit(state);
    hr__follower_init(state, model, trace);
    return works ? hr__follow_from_nothing(state, event_count, &works)
                 : hr__follow_from_the_end(state, event_count);
}

hr_status hr__layout_at(const hr__model *model, const hr__model_trace *trace, uint32_t instant,
                        hr__layout *out)
{
    hr__follower state;
    size_t event_count = instant < trace->event_count ? instant : trace->event_count;
    hr__follower_init(&state, model, trace);
    hr_status status = follow_to(&state, event_count);
    if (status == HR_OK)
        status = lay_out(&state, out);
    hr__follower_deinit(&state);
    return status;
}

void hr__layout_deinit(hr__layout *layout)
{
    hr__host_free(layout->segments);
    hr__host_free(layout->blocks);
    *layout = (hr__layout){.segments = NULL};
}
