/* layout.c - where everything lay at one instant.
 *
 * Two things are followed from event to event: which memory is held, as runs of addresses, and
 * which blocks are not free. They are laid over each other only at the instant asked for. Forwards
 * every event is done, beginning with nothing. Where the trace does not begin at nothing, events
 * are undone instead, beginning with the segments of the file. Should those contradict the events
 * as well, nothing is claimed.
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
#include <string.h>

#include "analysis/array.h"
#include "analysis/live_bytes.h"
#include "analysis/ordered_list.h"
#include "analysis/script_events.h" /* vw__script_segments_of, vw__script_segment_at */
#include "base/address_map.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

#define BLOCK_UNUSED 255 /* no vw__layout_state: the record is free */

/* Memory that is held in one piece. */
typedef struct held_run {
    uint64_t begin, end; /* end > begin; begin is the key in the list below */
    uint32_t context;
    uint16_t stream, pool;
    bool is_expandable;
} held_run;

/* A block that is live or pending; or BLOCK_UNUSED, and `next_unused` is the place of another
 * plus 1. */
typedef struct used_block {
    uint64_t address;
    uint64_t requested_bytes;
    uint32_t context;
    uint32_t next_unused;
    uint8_t state; /* vw__layout_state, or BLOCK_UNUSED */
} used_block;

typedef struct follower {
    const vw__model *model;
    const vw__model_trace *trace;
    vw__ordered_list runs; /* held_run; apart from each other */
    used_block *blocks;    /* owned */
    size_t block_count, block_capacity;
    uint32_t first_unused;
    vw__address_map places; /* address to place in `blocks` plus 1 */
    bool ends_at_request;   /* no free_completed was recorded: a free_requested is the end */
    bool begins_at_request; /* some free_requested was recorded */
    bool has_contradiction; /* an event did not fit what is held */
    bool has_stray;         /* an event did not fit the blocks: not from nothing, forwards */
} follower;

enum { NO_BLOCK = 0 };

/* ---- held memory ----------------------------------------------------------------------------- */

/* Returns whether one run holds all of [begin, end). */
static bool is_held(const follower *state, uint64_t begin, uint64_t end)
{
    const held_run *run =
        vw__ordered_list_before(&state->runs, vw__ordered_list_up_to(&state->runs, begin));
    return run != NULL && end <= run->end;
}

/* Pages of one expandable segment; events before 2.12 do not say of which pool. */
static bool can_join(const held_run *low, const held_run *high)
{
    return low->is_expandable && high->is_expandable && low->end == high->begin &&
           low->stream == high->stream &&
           (low->pool == high->pool || low->pool == VW__MODEL_UNKNOWN_POOL ||
            high->pool == VW__MODEL_UNKNOWN_POOL);
}

static void join(held_run *low, const held_run *high)
{
    low->end = high->end;
    if (low->pool == VW__MODEL_UNKNOWN_POOL)
        low->pool = high->pool;
}

static vw_status add_run(follower *state, const held_run *run)
{
    vw__ordered_list_place place = vw__ordered_list_up_to(&state->runs, run->begin);
    held_run *before = vw__ordered_list_before(&state->runs, place);
    const held_run *behind = vw__ordered_list_behind(&state->runs, place);
    if (run->end <= run->begin || (before != NULL && before->end > run->begin) ||
        (behind != NULL && behind->begin < run->end)) {
        state->has_contradiction = true;
        return VW_OK;
    }
    if (before == NULL || !can_join(before, run)) {
        VW__TRY(vw__ordered_list_insert(&state->runs, &place, run));
        before = vw__ordered_list_before(&state->runs, place);
        behind = vw__ordered_list_behind(&state->runs, place);
    } else {
        join(before, run);
    }
    if (behind != NULL && can_join(before, behind)) {
        join(before, behind);
        vw__ordered_list_remove_behind(&state->runs, &place);
    }
    return VW_OK;
}

/* A plain segment goes whole, an expandable one in any part of a run. */
static vw_status cut_run(follower *state, uint64_t begin, uint64_t end, bool is_expandable)
{
    vw__ordered_list_place place = vw__ordered_list_up_to(&state->runs, begin);
    held_run *run = vw__ordered_list_before(&state->runs, place);
    if (run == NULL || end <= begin || run->end < end || run->is_expandable != is_expandable ||
        (!is_expandable && (run->begin != begin || run->end != end))) {
        state->has_contradiction = true;
        return VW_OK;
    }
    held_run rest = *run;
    rest.begin = end;
    if (run->begin == begin) {
        if (rest.begin == rest.end)
            vw__ordered_list_remove_before(&state->runs, &place);
        else
            run->begin = end;
        return VW_OK;
    }
    run->end = begin;
    return rest.begin < rest.end ? vw__ordered_list_insert(&state->runs, &place, &rest) : VW_OK;
}

/* Takes the memory of an event, or gives it back. */
static vw_status follow_memory(follower *state, const vw__model_event *event, bool is_taken)
{
    const held_run run = {
        .begin = event->address,
        .end = vw__add_capped_u64(event->address, event->size_bytes),
        .context = event->context,
        .stream = event->stream,
        .pool = event->pool,
        .is_expandable =
            event->action == VW_ACTION_SEGMENT_MAP || event->action == VW_ACTION_SEGMENT_UNMAP,
    };
    return is_taken ? add_run(state, &run) : cut_run(state, run.begin, run.end, run.is_expandable);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The block at `address`, live or pending; or NULL. Valid until the next change. */
static used_block *find_block(const follower *state, uint64_t address)
{
    size_t number = (size_t)(uintptr_t)vw__address_map_get(&state->places, address);
    return number != NO_BLOCK ? &state->blocks[number - 1] : NULL;
}

static void remove_block(follower *state, used_block *block)
{
    (void)vw__address_map_remove(&state->places, block->address);
    block->state = BLOCK_UNUSED;
    block->next_unused = state->first_unused;
    state->first_unused = (uint32_t)(block - state->blocks) + 1;
}

/* No block may be at that address yet. */
static vw_status add_block(follower *state, const used_block *block)
{
    size_t place;
    if (!vw__address_map_has_room(&state->places, 1) && !vw__address_map_reserve(&state->places, 1))
        return vw__fail_host_memory(sizeof(vw__address_map_entry), "the blocks of an instant");
    if (state->first_unused != NO_BLOCK) {
        place = state->first_unused - 1;
        state->first_unused = state->blocks[place].next_unused;
    } else {
        VW__TRY(vw__array_make_room(&state->blocks, &state->block_capacity, state->block_count,
                                    sizeof *state->blocks, "the blocks of an instant"));
        place = state->block_count++;
    }
    state->blocks[place] = *block;
    vw__address_map_insert(&state->places, block->address, (void *)(uintptr_t)(place + 1));
    return VW_OK;
}

static used_block block_of_event(const vw__model_event *event, vw__layout_state block_state)
{
    return (used_block){.address = event->address,
                        .requested_bytes = event->size_bytes,
                        .context = event->context,
                        .state = (uint8_t)block_state};
}

/* ---- doing and undoing events ---------------------------------------------------------------- */

static vw_status do_alloc(follower *state, const vw__model_event *event)
{
    const used_block block = block_of_event(event, VW__LAYOUT_LIVE);
    used_block *older = find_block(state, event->address);
    if (older != NULL) { /* its free was not recorded */
        state->has_stray = true;
        remove_block(state, older);
    }
    if (!is_held(state, event->address,
                 vw__add_capped_u64(event->address, vw__max_u64(event->size_bytes, 1))))
        state->has_stray = true;
    return add_block(state, &block);
}

static vw_status do_free(follower *state, const vw__model_event *event, bool is_complete)
{
    used_block *block = find_block(state, event->address);
    if (block == NULL)
        state->has_stray = true;
    else if (is_complete)
        remove_block(state, block);
    else
        block->state = VW__LAYOUT_PENDING;
    return VW_OK;
}

static vw_status do_event(follower *state, const vw__model_event *event)
{
    if (vw__script_is_growth(event->action) || vw__script_is_release(event->action))
        return follow_memory(state, event, vw__script_is_growth(event->action));
    if (event->address == VW_NULL)
        return VW_OK;
    switch (event->action) {
    case VW_ACTION_ALLOC:
        return do_alloc(state, event);
    case VW_ACTION_FREE_REQUESTED:
        return do_free(state, event, state->ends_at_request);
    case VW_ACTION_FREE_COMPLETED:
        return do_free(state, event, true);
    default:
        return VW_OK;
    }
}

/* A block that was freed is there again: as pending before its completion, as live before its
 * request. */
static vw_status undo_free(follower *state, const vw__model_event *event, vw__layout_state before)
{
    used_block *found = find_block(state, event->address);
    if (found != NULL) {
        found->state = (uint8_t)before;
        return VW_OK;
    }
    const used_block block = block_of_event(event, before);
    return add_block(state, &block);
}

static vw_status undo_event(follower *state, const vw__model_event *event)
{
    used_block *block;
    if (vw__script_is_growth(event->action) || vw__script_is_release(event->action))
        return follow_memory(state, event, vw__script_is_release(event->action));
    if (event->address == VW_NULL)
        return VW_OK;
    switch (event->action) {
    case VW_ACTION_ALLOC:
        block = find_block(state, event->address);
        if (block != NULL)
            remove_block(state, block);
        return VW_OK;
    case VW_ACTION_FREE_REQUESTED:
        return undo_free(state, event, VW__LAYOUT_LIVE);
    case VW_ACTION_FREE_COMPLETED:
        return undo_free(state, event,
                         state->begins_at_request ? VW__LAYOUT_PENDING : VW__LAYOUT_LIVE);
    default:
        return VW_OK;
    }
}

/* ---- from nothing, or from the end ----------------------------------------------------------- */

static void follower_init(follower *state, const vw__model *model, const vw__model_trace *trace)
{
    bool has_completions = false;
    *state = (follower){.model = model, .trace = trace};
    vw__ordered_list_init(&state->runs, sizeof(held_run), "the segments of an instant");
    vw__address_map_init_for_file(&state->places);
    for (size_t i = 0; i < trace->event_count; i++) {
        has_completions = has_completions || trace->events[i].action == VW_ACTION_FREE_COMPLETED;
        state->begins_at_request =
            state->begins_at_request || trace->events[i].action == VW_ACTION_FREE_REQUESTED;
        if (has_completions && state->begins_at_request)
            break;
    }
    state->ends_at_request = !has_completions;
}

static void follower_deinit(follower *state)
{
    vw__ordered_list_deinit(&state->runs);
    vw__host_free(state->blocks);
    vw__address_map_deinit(&state->places);
    *state = (follower){.model = NULL};
}

/* Does the first `event_count` events, on nothing. Stops at the first event that shows that
 * something was there before: `*works` is then false, and the state of no use. */
static vw_status follow_from_nothing(follower *state, size_t event_count, bool *works)
{
    for (size_t i = 0; i < event_count; i++) {
        VW__TRY(do_event(state, &state->trace->events[i]));
        if (state->has_stray || state->has_contradiction) {
            *works = false;
            return VW_OK;
        }
    }
    *works = true;
    return VW_OK;
}

static vw_status take_segment_of_file(follower *state, const vw__model_segment *segment)
{
    const vw__model *model = state->model;
    const held_run run = {.begin = segment->address,
                          .end = vw__add_capped_u64(segment->address, segment->total_bytes),
                          .context = segment->context,
                          .stream = segment->stream,
                          .pool = segment->pool,
                          .is_expandable = segment->is_expandable};
    VW__TRY(add_run(state, &run));
    for (size_t i = 0; i < segment->block_count; i++) {
        const vw__model_block *block = &model->blocks[segment->first_block + i];
        bool is_known = block->requested_bytes != VW__MODEL_UNKNOWN_BYTES;
        const used_block used = {
            .address = block->address,
            .requested_bytes = is_known ? block->requested_bytes : block->size_bytes,
            .context = block->context,
            .state = block->state == VW_BLOCK_PENDING_FREE ? VW__LAYOUT_PENDING : VW__LAYOUT_LIVE,
        };
        if (block->state == VW_BLOCK_FREE || block->address == VW_NULL ||
            find_block(state, block->address) != NULL)
            continue;
        VW__TRY(add_block(state, &used));
    }
    return VW_OK;
}

/* Stacks of frees need not be those of the requests: takes those of allocs before the instant. */
static void learn_from_allocs(follower *state, size_t event_count)
{
    for (size_t i = 0; i < event_count; i++) {
        const vw__model_event *event = &state->trace->events[i];
        used_block *block =
            event->action == VW_ACTION_ALLOC ? find_block(state, event->address) : NULL;
        if (block == NULL)
            continue;
        block->context = event->context;
        block->requested_bytes = event->size_bytes;
    }
}

/* Undoes all but the first `event_count` events. VW_ERR_UNSUPPORTED: the file has no segments, or
 * they are not those of the trace's end. */
static vw_status follow_from_the_end(follower *state, size_t event_count)
{
    const vw__model *model = state->model;
    size_t first, end;
    vw__script_segments_of(model, state->trace->device, &first, &end);
    if (first == end)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "expected a trace from the first allocation on, or segments at its end: "
                        "found neither, so nobody knows where memory lay");
    for (size_t i = first; i < end; i++)
        VW__TRY(take_segment_of_file(state, &model->segments[i]));
    for (size_t i = state->trace->event_count; i-- > event_count;)
        VW__TRY(undo_event(state, &state->trace->events[i]));
    if (state->has_contradiction)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "expected segments as the trace leaves them, found others: they are not "
                        "of the trace's end, and the trace does not begin at the first allocation");
    learn_from_allocs(state, event_count);
    return VW_OK;
}

/* ---- laying one over the other --------------------------------------------------------------- */

static int by_address(const void *one, const void *other)
{
    const used_block *a = one, *b = other;
    return (a->address > b->address) - (a->address < b->address);
}

/* Removes unused records and sorts the others. The map is invalid afterwards. */
static void sort_blocks(follower *state)
{
    size_t kept = 0;
    for (size_t i = 0; i < state->block_count; i++)
        if (state->blocks[i].state != BLOCK_UNUSED)
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
                                  .context = VW__MODEL_NO_CONTEXT,
                                  .state = VW__LAYOUT_IDLE};
    lay_block(layout, segment, &gap);
}

/* The blocks from `*next` on that lie in the run, and what is between them. A block that reaches
 * into the next one, or past the end, is cut there: a file may claim anything. */
static void lay_run(const follower *state, const held_run *run, size_t *next, vw__layout *layout)
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
        const used_block *used = &state->blocks[*next];
        uint64_t end = vw__min_u64(
            vw__add_capped_u64(used->address, vw__lifetime_bytes_of(used->requested_bytes)),
            run->end);
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

static vw_status lay_out(follower *state, vw__layout *out)
{
    vw__layout layout = {.segments = NULL};
    size_t most_blocks, next = 0;
    sort_blocks(state);
    most_blocks = 2 * state->block_count + state->runs.count;
    layout.segments = vw__host_alloc_zeroed(state->runs.count, sizeof *layout.segments);
    layout.blocks = vw__host_alloc_zeroed(most_blocks, sizeof *layout.blocks);
    if (layout.segments == NULL || layout.blocks == NULL) {
        vw__layout_deinit(&layout);
        return vw__fail_host_memory(most_blocks * sizeof *layout.blocks, "an instant's memory");
    }
    vw__ordered_list_place place = vw__ordered_list_begin();
    const held_run *run;
    for (; (run = vw__ordered_list_behind(&state->runs, place)) != NULL;
         place = vw__ordered_list_next(&state->runs, place))
        lay_run(state, run, &next, &layout);
    *out = layout;
    return VW_OK;
}

/* ---- the file's end -------------------------------------------------------------------------- */

/* How the file's segments compare with those that the trace, read from nothing, ends with. */
typedef enum file_end {
    FILE_END_SAME,
    FILE_END_MORE, /* the same, and others: those were there before the trace began */
    FILE_END_OTHER /* of another time */
} file_end;

/* Returns whether the file has the run, with the same blocks in it. An expandable segment may have
 * more on either side. */
static bool is_in_file(const follower *state, const held_run *run, size_t *listed_count,
                       size_t *used_count)
{
    static const uint8_t states[] = {
        [VW_BLOCK_LIVE] = VW__LAYOUT_LIVE, [VW_BLOCK_PENDING_FREE] = VW__LAYOUT_PENDING};
    const vw__model_segment *segment =
        vw__script_segment_at(state->model, state->trace->device, run->begin);
    if (segment == NULL || vw__add_capped_u64(segment->address, segment->total_bytes) < run->end)
        return false;
    if (!run->is_expandable &&
        (segment->address != run->begin || segment->total_bytes != run->end - run->begin))
        return false;
    for (size_t i = 0; i < segment->block_count; i++) {
        const vw__model_block *block = &state->model->blocks[segment->first_block + i];
        if (block->address < run->begin || block->address >= run->end)
            continue;
        const used_block *used = find_block(state, block->address);
        bool is_used = block->state != VW_BLOCK_FREE;
        if (is_used != (used != NULL) || (is_used && used->state != states[block->state]))
            return false;
        *used_count += is_used;
        (*listed_count)++;
    }
    return true;
}

static file_end compare_with_file(const follower *state)
{
    const vw__model *model = state->model;
    size_t first, end, listed_count = 0, used_count = 0;
    uint64_t file_bytes = 0, held_bytes = 0;
    vw__script_segments_of(model, state->trace->device, &first, &end);
    for (size_t i = first; i < end; i++)
        file_bytes += model->segments[i].total_bytes;
    vw__ordered_list_place place = vw__ordered_list_begin();
    const held_run *run;
    for (; (run = vw__ordered_list_behind(&state->runs, place)) != NULL;
         place = vw__ordered_list_next(&state->runs, place)) {
        held_bytes += run->end - run->begin;
        if (!is_in_file(state, run, &listed_count, &used_count))
            return FILE_END_OTHER;
    }
    /* Segments that the file lists without blocks prove nothing about blocks. */
    if (listed_count != 0 && used_count != vw__address_map_count(&state->places))
        return FILE_END_OTHER;
    return held_bytes == file_bytes ? FILE_END_SAME : FILE_END_MORE;
}

/* Follows the whole trace from nothing, if that works. */
static vw_status follow_whole_trace(follower *state, bool *works, file_end *end)
{
    VW__TRY(follow_from_nothing(state, state->trace->event_count, works));
    *end = *works ? compare_with_file(state) : FILE_END_OTHER;
    *works = *works && *end != FILE_END_MORE;
    return VW_OK;
}

vw_status vw__layout_read(const vw__model *model, const vw__model_trace *trace,
                          vw__layout_reading *out)
{
    follower state;
    bool works = false;
    file_end end = FILE_END_OTHER;
    follower_init(&state, model, trace);
    vw_status status = follow_whole_trace(&state, &works, &end);
    if (status == VW_OK)
        *out = (vw__layout_reading){.begins_at_nothing = works, .end_fits = end == FILE_END_SAME};
    follower_deinit(&state);
    return status;
}

/* ---- an instant ------------------------------------------------------------------------------ */

/* Follows the whole trace first: early events may fit a trace that does not begin at nothing. */
static vw_status follow_to(follower *state, size_t event_count)
{
    const vw__model *model = state->model;
    const vw__model_trace *trace = state->trace;
    bool works = false;
    file_end end;
    VW__TRY(follow_whole_trace(state, &works, &end));
    if (works && event_count == trace->event_count)
        return VW_OK;
    follower_deinit(state);
    follower_init(state, model, trace);
    return works ? follow_from_nothing(state, event_count, &works)
                 : follow_from_the_end(state, event_count);
}

vw_status vw__layout_at(const vw__model *model, const vw__model_trace *trace, uint32_t instant,
                        vw__layout *out)
{
    follower state;
    size_t event_count = instant < trace->event_count ? instant : trace->event_count;
    follower_init(&state, model, trace);
    vw_status status = follow_to(&state, event_count);
    if (status == VW_OK)
        status = lay_out(&state, out);
    follower_deinit(&state);
    return status;
}

void vw__layout_deinit(vw__layout *layout)
{
    vw__host_free(layout->segments);
    vw__host_free(layout->blocks);
    *layout = (vw__layout){.segments = NULL};
}
