/* layout_follow.c - doing and undoing the events of a trace.
 *
 * What is held is kept as runs, a plain segment or neighbouring pages of an expandable one, in an
 * array by address: there are hundreds, rarely thousands. Blocks are in a hash table by address and
 * in no order, since there are far more events than blocks at any instant.
 *
 * Forwards it shows whether a trace begins at nothing: whatever is freed, given back or asked for
 * must then lie in what the trace itself made. Backwards it shows whether the file's segments are
 * those of the trace's end. */
#include "analysis/layout_follow.h"

#include <string.h>

#include "analysis/layout.h"        /* vw__layout_state */
#include "analysis/script_events.h" /* vw__script_segments_of */
#include "base/error.h"
#include "base/host_memory.h"

enum { FIRST_RUNS = 64, FIRST_BLOCKS = 256, NO_BLOCK = 0 };
enum { MOST_RUNS = 32768 }; /* at once; no program holds so many, and they are kept in order */

/* ---- held memory ----------------------------------------------------------------------------- */

/* How many runs begin at or below `address`. */
static size_t count_up_to(const vw__follower *state, uint64_t address)
{
    size_t low = 0, high = state->run_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (state->runs[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Is all of [begin, end) in one run? */
static bool is_held(const vw__follower *state, uint64_t begin, uint64_t end)
{
    size_t place = count_up_to(state, begin);
    return place > 0 && end <= state->runs[place - 1].end;
}

static vw_status insert_run(vw__follower *state, size_t place, const vw__held_run *run)
{
    if (state->run_count == MOST_RUNS)
        return vw__fail(VW_ERR_UNSUPPORTED, "expected at most %d segments at once, found more",
                        MOST_RUNS);
    if (state->run_count == state->run_capacity) {
        size_t capacity = state->run_capacity * 2 + FIRST_RUNS;
        vw__held_run *grown = vw__host_realloc(state->runs, capacity * sizeof *grown);
        if (grown == NULL)
            return vw__fail_host_memory(capacity * sizeof *grown, "the segments of an instant");
        state->runs = grown;
        state->run_capacity = capacity;
    }
    memmove(state->runs + place + 1, state->runs + place,
            (state->run_count - place) * sizeof *state->runs);
    state->runs[place] = *run;
    state->run_count++;
    return VW_OK;
}

static void remove_run(vw__follower *state, size_t place)
{
    state->run_count--;
    memmove(state->runs + place, state->runs + place + 1,
            (state->run_count - place) * sizeof *state->runs);
}

/* Pages of one expandable segment; events before 2.12 do not say of which pool. */
static bool can_join(const vw__held_run *low, const vw__held_run *high)
{
    return low->is_expandable && high->is_expandable && low->end == high->begin &&
           low->stream == high->stream &&
           (low->pool == high->pool || low->pool == VW__UNKNOWN_POOL ||
            high->pool == VW__UNKNOWN_POOL);
}

static void join(vw__held_run *low, const vw__held_run *high)
{
    low->end = high->end;
    if (low->pool == VW__UNKNOWN_POOL)
        low->pool = high->pool;
}

static vw_status add_run(vw__follower *state, const vw__held_run *run)
{
    size_t place = count_up_to(state, run->begin);
    vw__held_run *before = place > 0 ? &state->runs[place - 1] : NULL;
    vw__held_run *behind = place < state->run_count ? &state->runs[place] : NULL;
    if (run->end <= run->begin || (before != NULL && before->end > run->begin) ||
        (behind != NULL && behind->begin < run->end)) {
        state->has_contradiction = true;
        return VW_OK;
    }
    if (before == NULL || !can_join(before, run)) {
        VW__TRY(insert_run(state, place, run));
        before = &state->runs[place++];
    } else {
        join(before, run);
    }
    if (place < state->run_count && can_join(before, &state->runs[place])) {
        join(before, &state->runs[place]);
        remove_run(state, place);
    }
    return VW_OK;
}

/* A plain segment goes whole, of an expandable one any part of a run. */
static vw_status cut_run(vw__follower *state, uint64_t begin, uint64_t end, bool is_expandable)
{
    size_t place = count_up_to(state, begin);
    vw__held_run *run = place > 0 ? &state->runs[place - 1] : NULL;
    if (run == NULL || end <= begin || run->end < end || run->is_expandable != is_expandable ||
        (!is_expandable && (run->begin != begin || run->end != end))) {
        state->has_contradiction = true;
        return VW_OK;
    }
    vw__held_run rest = *run;
    rest.begin = end;
    if (run->begin == begin) {
        if (rest.begin == rest.end)
            remove_run(state, place - 1);
        else
            run->begin = end;
        return VW_OK;
    }
    run->end = begin;
    return rest.begin < rest.end ? insert_run(state, place, &rest) : VW_OK;
}

static vw_status take_memory(vw__follower *state, const vw__model_event *event, bool is_expandable)
{
    const vw__held_run run = {.begin = event->address,
                              .end = vw__end_of(event->address, event->size_bytes),
                              .context = event->context,
                              .stream = event->stream,
                              .pool = event->pool,
                              .is_expandable = is_expandable};
    return add_run(state, &run);
}

static vw_status give_memory_back(vw__follower *state, const vw__model_event *event,
                                  bool is_expandable)
{
    return cut_run(state, event->address, vw__end_of(event->address, event->size_bytes),
                   is_expandable);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

vw__used_block *vw__follower_find(const vw__follower *state, uint64_t address)
{
    size_t number = (size_t)(uintptr_t)vw__address_map_get(&state->places, address);
    return number != NO_BLOCK ? &state->blocks[number - 1] : NULL;
}

static void remove_block(vw__follower *state, vw__used_block *block)
{
    (void)vw__address_map_remove(&state->places, block->address);
    block->state = VW__BLOCK_UNUSED;
    block->next_unused = state->first_unused;
    state->first_unused = (uint32_t)(block - state->blocks) + 1;
}

static vw_status grow_blocks(vw__follower *state)
{
    if (state->block_count == state->block_capacity) {
        size_t capacity = state->block_capacity * 2 + FIRST_BLOCKS;
        vw__used_block *grown = vw__host_realloc(state->blocks, capacity * sizeof *grown);
        if (grown == NULL)
            return vw__fail_host_memory(capacity * sizeof *grown, "the blocks of an instant");
        state->blocks = grown;
        state->block_capacity = capacity;
    }
    return VW_OK;
}

/* The address must be none of a block's. */
static vw_status add_block(vw__follower *state, const vw__used_block *block)
{
    size_t place;
    if (!vw__address_map_has_room(&state->places, 1) && !vw__address_map_reserve(&state->places, 1))
        return vw__fail_host_memory(sizeof(vw__address_map_entry), "the blocks of an instant");
    if (state->first_unused != NO_BLOCK) {
        place = state->first_unused - 1;
        state->first_unused = state->blocks[place].next_unused;
    } else {
        VW__TRY(grow_blocks(state));
        place = state->block_count++;
    }
    state->blocks[place] = *block;
    vw__address_map_insert(&state->places, block->address, (void *)(uintptr_t)(place + 1));
    return VW_OK;
}

static vw__used_block block_of_event(const vw__model_event *event, vw__layout_state block_state)
{
    return (vw__used_block){.address = event->address,
                            .requested_bytes = event->size_bytes,
                            .context = event->context,
                            .state = (uint8_t)block_state};
}

/* ---- doing and undoing events ---------------------------------------------------------------- */

static vw_status do_alloc(vw__follower *state, const vw__model_event *event)
{
    const vw__used_block block = block_of_event(event, VW__LAYOUT_LIVE);
    vw__used_block *older = vw__follower_find(state, event->address);
    if (older != NULL) { /* its free was not recorded */
        state->has_stray = true;
        remove_block(state, older);
    }
    if (!is_held(state, event->address,
                 vw__end_of(event->address, vw__max_u64(event->size_bytes, 1))))
        state->has_stray = true;
    return add_block(state, &block);
}

static vw_status do_free(vw__follower *state, const vw__model_event *event, bool is_complete)
{
    vw__used_block *block = vw__follower_find(state, event->address);
    if (block == NULL)
        state->has_stray = true;
    else if (is_complete)
        remove_block(state, block);
    else
        block->state = VW__LAYOUT_PENDING;
    return VW_OK;
}

static vw_status do_event(vw__follower *state, const vw__model_event *event)
{
    switch (event->action) {
    case VW_ACTION_ALLOC:
        return event->address != VW_NULL ? do_alloc(state, event) : VW_OK;
    case VW_ACTION_FREE_REQUESTED:
        return event->address != VW_NULL ? do_free(state, event, state->ends_at_request) : VW_OK;
    case VW_ACTION_FREE_COMPLETED:
        return event->address != VW_NULL ? do_free(state, event, true) : VW_OK;
    case VW_ACTION_SEGMENT_ALLOC:
    case VW_ACTION_SEGMENT_MAP:
        return take_memory(state, event, event->action == VW_ACTION_SEGMENT_MAP);
    case VW_ACTION_SEGMENT_FREE:
    case VW_ACTION_SEGMENT_UNMAP:
        return give_memory_back(state, event, event->action == VW_ACTION_SEGMENT_UNMAP);
    default:
        return VW_OK;
    }
}

/* A block that was freed is there again: as pending before its completion, as live before its
 * request. */
static vw_status undo_free(vw__follower *state, const vw__model_event *event,
                           vw__layout_state before)
{
    vw__used_block *found = vw__follower_find(state, event->address);
    if (found != NULL) {
        found->state = (uint8_t)before;
        return VW_OK;
    }
    const vw__used_block block = block_of_event(event, before);
    return add_block(state, &block);
}

static vw_status undo_event(vw__follower *state, const vw__model_event *event)
{
    bool is_of_block = event->address != VW_NULL;
    vw__used_block *block;
    switch (event->action) {
    case VW_ACTION_ALLOC:
        block = is_of_block ? vw__follower_find(state, event->address) : NULL;
        if (block != NULL)
            remove_block(state, block);
        return VW_OK;
    case VW_ACTION_FREE_REQUESTED:
        return is_of_block ? undo_free(state, event, VW__LAYOUT_LIVE) : VW_OK;
    case VW_ACTION_FREE_COMPLETED:
        return is_of_block
                   ? undo_free(state, event,
                               state->begins_at_request ? VW__LAYOUT_PENDING : VW__LAYOUT_LIVE)
                   : VW_OK;
    case VW_ACTION_SEGMENT_ALLOC:
    case VW_ACTION_SEGMENT_MAP:
        return give_memory_back(state, event, event->action == VW_ACTION_SEGMENT_MAP);
    case VW_ACTION_SEGMENT_FREE:
    case VW_ACTION_SEGMENT_UNMAP:
        return take_memory(state, event, event->action == VW_ACTION_SEGMENT_UNMAP);
    default:
        return VW_OK;
    }
}

/* ---- from nothing, or from the end ----------------------------------------------------------- */

void vw__follower_init(vw__follower *state, const vw__model *model, const vw__model_trace *trace)
{
    bool has_completions = false;
    *state = (vw__follower){.model = model, .trace = trace};
    vw__address_map_init(&state->places);
    for (size_t i = 0; i < trace->event_count; i++) {
        has_completions = has_completions || trace->events[i].action == VW_ACTION_FREE_COMPLETED;
        state->begins_at_request =
            state->begins_at_request || trace->events[i].action == VW_ACTION_FREE_REQUESTED;
        if (has_completions && state->begins_at_request)
            break;
    }
    state->ends_at_request = !has_completions;
}

void vw__follower_deinit(vw__follower *state)
{
    vw__host_free(state->runs);
    vw__host_free(state->blocks);
    vw__address_map_deinit(&state->places);
    *state = (vw__follower){.model = NULL};
}

vw_status vw__follow_from_nothing(vw__follower *state, size_t event_count, bool *works)
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

static vw_status take_segment_of_file(vw__follower *state, const vw__model_segment *segment)
{
    const vw__model *model = state->model;
    const vw__held_run run = {.begin = segment->address,
                              .end = vw__end_of(segment->address, segment->total_bytes),
                              .context = segment->context,
                              .stream = segment->stream,
                              .pool = segment->pool,
                              .is_expandable = segment->is_expandable};
    VW__TRY(add_run(state, &run));
    for (size_t i = 0; i < segment->block_count; i++) {
        const vw__model_block *block = &model->blocks[segment->first_block + i];
        bool is_known = block->requested_bytes != VW__UNKNOWN_BYTES;
        const vw__used_block used = {
            .address = block->address,
            .requested_bytes = is_known ? block->requested_bytes : block->size_bytes,
            .context = block->context,
            .state = block->state == VW_BLOCK_PENDING_FREE ? VW__LAYOUT_PENDING : VW__LAYOUT_LIVE,
        };
        if (block->state == VW_BLOCK_FREE || block->address == VW_NULL ||
            vw__follower_find(state, block->address) != NULL)
            continue;
        VW__TRY(add_block(state, &used));
    }
    return VW_OK;
}

/* Stacks of frees need not be those of the requests: an alloc before the instant knows better. */
static void learn_from_allocs(vw__follower *state, size_t event_count)
{
    for (size_t i = 0; i < event_count; i++) {
        const vw__model_event *event = &state->trace->events[i];
        vw__used_block *block =
            event->action == VW_ACTION_ALLOC ? vw__follower_find(state, event->address) : NULL;
        if (block == NULL)
            continue;
        block->context = event->context;
        block->requested_bytes = event->size_bytes;
    }
}

vw_status vw__follow_from_the_end(vw__follower *state, size_t event_count)
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
