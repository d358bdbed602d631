/* timeline.c - the pass from events to lifetimes.
 *
 * Live bytes are followed relative to the beginning, which is only known at the end of the pass:
 * every free of an unknown address, and every block of the end that was never allocated, adds to
 * what must have been live at instant 0. The peak of the relative line is the peak of the absolute
 * one, so one pass is enough.
 *
 * The stack of a block from before the trace is that of its free, if frees show the stack of the
 * allocation (context="alloc"); if frees show their own (context="all"), it is unknown. Blocks with
 * both ends in the trace show which of the two it is.
 *
 * A trace may lack events (skip_actions of PyTorch 2.11). An alloc on a live block then means that
 * it was freed in between: the old lifetime ends there, and it is counted, but nothing fails,
 * since a look at the recording must be possible.
 *
 * Invariants, checked in tests/unit/test_timeline.c:
 *   - the sizes of the lifetimes live at peak_instant add up to peak_live_bytes
 *   - no instant has more
 *   - reserved at the end is the sum of the segments */
#include "analysis/timeline.h"

#include <inttypes.h>
#include <string.h>

#include "analysis/live_bytes.h"
#include "analysis/script_events.h" /* vw__script_segment_at */
#include "base/address_map.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

/* All live or reserved bytes stay below: sums of two fit int64_t. */
#define MOST_BYTES (INT64_C(1) << 62)

typedef struct event_pass {
    vw__timeline *timeline;
    vw__address_map live;    /* address -> place in lifetimes + 1 */
    vw__address_map waiting; /* address -> instant at which a block from before was freed */
    size_t lifetime_capacity;
    int64_t live_bytes; /* relative to the beginning */
    int64_t peak_bytes;
    int64_t reserved_bytes; /* relative to the beginning */
    int64_t peak_reserved_bytes;
    int64_t lowest_reserved_bytes;
    int64_t reserved_at_peak_bytes; /* when live bytes were highest */
    unsigned end_action;            /* the event that ends a lifetime */
    bool frees_have_own_stacks;
} event_pass;

uint64_t vw__lifetime_bytes_of_block(const vw__model_block *block)
{
    bool is_known = block->requested_bytes != VW__MODEL_UNKNOWN_BYTES;
    return vw__lifetime_bytes_of(is_known ? block->requested_bytes : block->size_bytes);
}

/* Adds to a line of bytes. VW_ERR_CORRUPT_FILE if it gets larger than any memory. */
static vw_status add_bytes(int64_t *line, uint64_t size_bytes, bool is_gain, size_t event)
{
    if (size_bytes < (uint64_t)MOST_BYTES) {
        int64_t sum = *line + (is_gain ? (int64_t)size_bytes : -(int64_t)size_bytes);
        if (sum < MOST_BYTES && sum > -MOST_BYTES) {
            *line = sum;
            return VW_OK;
        }
    }
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "expected sizes of device memory, found %" PRIu64
                    " bytes at event %zu: with all before, more than any device holds",
                    size_bytes, event);
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

static vw_status new_lifetime(event_pass *pass, const vw__lifetime *lifetime, size_t *place)
{
    vw__timeline *timeline = pass->timeline;
    if (timeline->lifetime_count == pass->lifetime_capacity) {
        size_t capacity = pass->lifetime_capacity + pass->lifetime_capacity / 2 + 256;
        vw__lifetime *grown =
            vw__host_realloc(timeline->lifetimes, capacity * sizeof *timeline->lifetimes);
        if (grown == NULL)
            return vw__fail_host_memory(capacity * sizeof *grown, "the blocks of a trace");
        timeline->lifetimes = grown;
        pass->lifetime_capacity = capacity;
    }
    *place = timeline->lifetime_count++;
    timeline->lifetimes[*place] = *lifetime;
    return VW_OK;
}

/* The instant at which the free of a block from before the trace was requested, or
 * VW__LIFETIME_TO_THE_END. */
static uint32_t take_waiting(event_pass *pass, uint64_t address)
{
    uintptr_t instant = (uintptr_t)vw__address_map_remove(&pass->waiting, address);
    return instant != 0 ? (uint32_t)instant : VW__LIFETIME_TO_THE_END;
}

/* A block that was live before the trace: begin is 0. */
static vw_status add_initial(event_pass *pass, const vw__lifetime *lifetime)
{
    vw__timeline *timeline = pass->timeline;
    size_t place;
    int64_t initial_bytes = (int64_t)timeline->initial_live_bytes;
    VW__TRY(add_bytes(&initial_bytes, lifetime->size_bytes, true, lifetime->end));
    VW__TRY(new_lifetime(pass, lifetime, &place));
    timeline->initial_live_bytes = (uint64_t)initial_bytes;
    timeline->initial_count++;
    return VW_OK;
}

static vw_status end_lifetime(event_pass *pass, size_t place, uint32_t instant)
{
    vw__lifetime *lifetime = &pass->timeline->lifetimes[place];
    lifetime->end = instant;
    if (lifetime->freed == VW__LIFETIME_TO_THE_END)
        lifetime->freed = instant;
    return add_bytes(&pass->live_bytes, lifetime->size_bytes, false, instant);
}

static vw_status make_room(vw__address_map *map)
{
    if (!vw__address_map_has_room(map, 1) && !vw__address_map_reserve(map, 1))
        return vw__fail_host_memory(4 * (map->capacity + 1) * sizeof(vw__address_map_entry),
                                    "the live blocks of a trace");
    return VW_OK;
}

static vw_status on_alloc(event_pass *pass, const vw__model_event *event, uint32_t instant)
{
    vw__timeline *timeline = pass->timeline;
    vw__lifetime lifetime = {
        .size_bytes = vw__lifetime_bytes_of(event->size_bytes),
        .address = event->address,
        .context = event->context,
        .begin = instant,
        .freed = VW__LIFETIME_TO_THE_END,
        .end = VW__LIFETIME_TO_THE_END,
    };
    size_t place;

    if (event->address == 0)
        return VW_OK; /* nothing was handed out */
    VW__TRY(make_room(&pass->live));
    (void)take_waiting(pass, event->address); /* another block, whose end went unrecorded */
    void *older = vw__address_map_remove(&pass->live, event->address);
    if (older != NULL) {
        timeline->contradiction_count++;
        VW__TRY(end_lifetime(pass, (size_t)(uintptr_t)older - 1, instant));
    }
    VW__TRY(add_bytes(&pass->live_bytes, lifetime.size_bytes, true, instant - 1));
    VW__TRY(new_lifetime(pass, &lifetime, &place));
    vw__address_map_insert(&pass->live, event->address, (void *)(uintptr_t)(place + 1));
    if (pass->live_bytes > pass->peak_bytes) {
        pass->peak_bytes = pass->live_bytes;
        pass->reserved_at_peak_bytes = pass->reserved_bytes;
        timeline->peak_instant = instant;
    }
    return VW_OK;
}

static bool have_equal_stacks(const vw__model *model, uint32_t one, uint32_t other)
{
    if (one == VW__MODEL_NO_CONTEXT || other == VW__MODEL_NO_CONTEXT)
        return one == other;
    return model->contexts[one] == model->contexts[other];
}

/* A free was requested, and completes later. The first request counts. */
static vw_status on_free_request(event_pass *pass, const vw__model_event *event, uint32_t instant)
{
    if (event->address == 0)
        return VW_OK;
    size_t number = (size_t)(uintptr_t)vw__address_map_get(&pass->live, event->address);
    if (number != 0) {
        vw__lifetime *lifetime = &pass->timeline->lifetimes[number - 1];
        if (lifetime->freed == VW__LIFETIME_TO_THE_END)
            lifetime->freed = instant;
        return VW_OK;
    }
    if (vw__address_map_get(&pass->waiting, event->address) != NULL)
        return VW_OK;
    VW__TRY(make_room(&pass->waiting));
    vw__address_map_insert(&pass->waiting, event->address, (void *)(uintptr_t)instant);
    return VW_OK;
}

static vw_status on_free(event_pass *pass, const vw__model_event *event, uint32_t instant)
{
    const vw__timeline *timeline = pass->timeline;
    if (event->address == 0)
        return VW_OK;
    void *found = vw__address_map_remove(&pass->live, event->address);
    if (found == NULL) {
        uint32_t freed = take_waiting(pass, event->address);
        const vw__lifetime initial = {.size_bytes = vw__lifetime_bytes_of(event->size_bytes),
                                      .address = event->address,
                                      .context = event->context,
                                      .freed = freed != VW__LIFETIME_TO_THE_END ? freed : instant,
                                      .end = instant};
        VW__TRY(add_initial(pass, &initial));
        return add_bytes(&pass->live_bytes, initial.size_bytes, false, instant - 1);
    }
    size_t place = (size_t)(uintptr_t)found - 1;
    if (!have_equal_stacks(timeline->model, timeline->lifetimes[place].context, event->context))
        pass->frees_have_own_stacks = true;
    return end_lifetime(pass, place, instant);
}

static vw_status on_segment(event_pass *pass, const vw__model_event *event, bool is_gain,
                            uint32_t instant)
{
    VW__TRY(add_bytes(&pass->reserved_bytes, event->size_bytes, is_gain, instant - 1));
    if (pass->reserved_bytes > pass->peak_reserved_bytes) {
        pass->peak_reserved_bytes = pass->reserved_bytes;
        pass->timeline->peak_reserved_instant = instant;
    }
    if (pass->reserved_bytes < pass->lowest_reserved_bytes)
        pass->lowest_reserved_bytes = pass->reserved_bytes;
    return VW_OK;
}

/* A free counts when it completed; where completions were not recorded, when it was requested. */
static unsigned find_end_action(const vw__model_trace *trace)
{
    bool has_requests = false;
    for (size_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].action == VW_ACTION_FREE_COMPLETED)
            return VW_ACTION_FREE_COMPLETED;
        has_requests = has_requests || trace->events[i].action == VW_ACTION_FREE_REQUESTED;
    }
    return has_requests ? VW_ACTION_FREE_REQUESTED : VW_ACTION_FREE_COMPLETED;
}

static vw_status walk_events(event_pass *pass)
{
    const vw__model_trace *trace = pass->timeline->trace;
    for (size_t i = 0; i < trace->event_count; i++) {
        const vw__model_event *event = &trace->events[i];
        uint32_t instant = (uint32_t)i + 1;
        if (event->action == pass->end_action)
            VW__TRY(on_free(pass, event, instant));
        else if (event->action == VW_ACTION_FREE_REQUESTED)
            VW__TRY(on_free_request(pass, event, instant));
        else if (event->action == VW_ACTION_ALLOC)
            VW__TRY(on_alloc(pass, event, instant));
        else if (vw__script_is_growth(event->action) || vw__script_is_release(event->action))
            VW__TRY(on_segment(pass, event, vw__script_is_growth(event->action), instant));
    }
    return VW_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Blocks that are live at the end and were never allocated; and what is reserved then. */
static vw_status walk_final_segments(event_pass *pass, uint64_t *reserved_bytes)
{
    const vw__timeline *timeline = pass->timeline;
    const vw__model *model = timeline->model;
    int64_t sum_bytes = 0;
    for (size_t i = 0; i < model->segment_count; i++) {
        const vw__model_segment *segment = &model->segments[i];
        if (segment->device != timeline->trace->device)
            continue;
        VW__TRY(add_bytes(&sum_bytes, segment->total_bytes, true, timeline->trace->event_count));
        for (size_t b = 0; b < segment->block_count; b++) {
            const vw__model_block *block = &model->blocks[segment->first_block + b];
            if (block->state == VW_BLOCK_FREE ||
                vw__address_map_get(&pass->live, block->address) != NULL)
                continue;
            const vw__lifetime initial = {.size_bytes = vw__lifetime_bytes_of_block(block),
                                          .address = block->address,
                                          .context = block->context,
                                          .freed = take_waiting(pass, block->address),
                                          .end = VW__LIFETIME_TO_THE_END};
            VW__TRY(add_initial(pass, &initial));
        }
    }
    *reserved_bytes = (uint64_t)sum_bytes;
    return VW_OK;
}

/* The stacks of frees are not those of the requests: forget them. */
static void forget_stacks_of_frees(vw__timeline *timeline)
{
    for (size_t i = 0; i < timeline->lifetime_count; i++) {
        vw__lifetime *lifetime = &timeline->lifetimes[i];
        if (lifetime->begin == 0 && lifetime->end != VW__LIFETIME_TO_THE_END)
            lifetime->context = VW__MODEL_NO_CONTEXT;
    }
}

static void settle(event_pass *pass, uint64_t final_reserved_bytes)
{
    vw__timeline *timeline = pass->timeline;
    if (pass->frees_have_own_stacks)
        forget_stacks_of_frees(timeline);
    timeline->peak_live_bytes = timeline->initial_live_bytes + (uint64_t)pass->peak_bytes;

    int64_t initial_bytes = (int64_t)final_reserved_bytes - pass->reserved_bytes;
    timeline->is_reserved_known = initial_bytes + pass->lowest_reserved_bytes >= 0;
    if (timeline->is_reserved_known) {
        timeline->initial_reserved_bytes = (uint64_t)initial_bytes;
        timeline->peak_reserved_bytes = (uint64_t)(initial_bytes + pass->peak_reserved_bytes);
        timeline->reserved_at_peak_live_bytes =
            (uint64_t)(initial_bytes + pass->reserved_at_peak_bytes);
    }
    timeline->is_truncated = timeline->initial_count != 0 || initial_bytes != 0;
}

vw_status vw__timeline_make(const vw__model *model, const vw__model_trace *trace, vw__timeline *out)
{
    if (trace->event_count >= UINT32_MAX - 1)
        return vw__fail(VW_ERR_UNSUPPORTED, "a trace of %zu events; at most %" PRIu32 " are served",
                        trace->event_count, UINT32_MAX - 2);

    vw__timeline timeline = {.model = model, .trace = trace};
    event_pass pass = {.timeline = &timeline, .end_action = find_end_action(trace)};
    uint64_t reserved_bytes = 0;
    vw__address_map_init_for_file(&pass.live);
    vw__address_map_init_for_file(&pass.waiting);
    vw_status status = walk_events(&pass);
    if (status == VW_OK)
        status = walk_final_segments(&pass, &reserved_bytes);
    if (status == VW_OK)
        settle(&pass, reserved_bytes);
    vw__address_map_deinit(&pass.live);
    vw__address_map_deinit(&pass.waiting);
    if (status != VW_OK) {
        vw__timeline_deinit(&timeline);
        return status;
    }
    *out = timeline;
    return VW_OK;
}

void vw__timeline_deinit(vw__timeline *timeline)
{
    vw__host_free(timeline->lifetimes);
    memset(timeline, 0, sizeof *timeline);
}

uint64_t vw__timeline_reserved_at(const vw__timeline *timeline, uint32_t instant)
{
    uint64_t reserved_bytes = timeline->initial_reserved_bytes;
    if (!timeline->is_reserved_known)
        return VW__MODEL_UNKNOWN_BYTES;
    if (instant == timeline->peak_instant)
        return timeline->reserved_at_peak_live_bytes;
    for (uint32_t i = 0; i < instant; i++) {
        const vw__model_event *event = &timeline->trace->events[i];
        if (vw__script_is_growth(event->action))
            reserved_bytes += event->size_bytes;
        else if (vw__script_is_release(event->action))
            reserved_bytes -= event->size_bytes;
    }
    return reserved_bytes;
}

/* Frees name the stream of the request too. */
uint16_t vw__lifetime_stream(const vw__timeline *timeline, const vw__lifetime *lifetime)
{
    const vw__model_trace *trace = timeline->trace;
    if (lifetime->begin != 0)
        return trace->events[lifetime->begin - 1].stream;
    if (lifetime->end != VW__LIFETIME_TO_THE_END)
        return trace->events[lifetime->end - 1].stream;
    const vw__model_segment *segment =
        vw__script_segment_at(timeline->model, trace->device, lifetime->address);
    return segment != NULL ? segment->stream : 0;
}

int64_t *vw__timeline_live_line(const vw__timeline *timeline)
{
    size_t count = timeline->trace->event_count + 1;
    int64_t *line = vw__host_alloc_zeroed(count, sizeof *line);
    if (line == NULL)
        return NULL;
    for (size_t i = 0; i < timeline->lifetime_count; i++) {
        const vw__lifetime *lifetime = &timeline->lifetimes[i];
        line[lifetime->begin] += (int64_t)lifetime->size_bytes;
        if (lifetime->end != VW__LIFETIME_TO_THE_END)
            line[lifetime->end] -= (int64_t)lifetime->size_bytes;
    }
    for (size_t i = 1; i < count; i++)
        line[i] += line[i - 1];
    return line;
}
