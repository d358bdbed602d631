/* timeline.c - the pass from events to lifetimes.
 *
 * Live bytes are followed relative to the beginning, which is only known at the end of the pass:
 * every free of an unknown address, and every block of the end that was never allocated, adds to
 * what must have been live at instant 0. The peak of the relative line is the peak of the absolute
 * one, so one pass is enough.
 *
 * Whose stack does a block from before the trace have? Its free tells, if frees show the stack of
 * the allocation (context="alloc"); if they show their own (context="all"), it does not. Which of
 * the two it is shows in the blocks whose both ends are in the trace.
 *
 * A trace may lack events (skip_actions of PyTorch 2.10). An alloc on a live block then means that
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
#include "analysis/script_parts.h" /* hr__script_segment_at */
#include "base/address_map.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

/* All live or reserved bytes stay below: sums of two fit int64_t. */
#define MOST_BYTES (INT64_C(1) << 62)

typedef struct event_pass {
    hr__timeline *timeline;
    hr__address_map live;    /* address -> place in lifetimes + 1 */
    hr__address_map waiting; /* address -> instant at which a block from before was freed */
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

uint64_t hr__live_bytes_of_block(const hr__model_block *block)
{
    bool is_known = block->requested_bytes != HR__UNKNOWN_BYTES;
    return hr__live_bytes_of(is_known ? block->requested_bytes : block->size_bytes);
}

/* Adds to a line of bytes. HR_ERR_CORRUPT_FILE if it leaves what can be. */
static hr_status add_bytes(int64_t *line, uint64_t size_bytes, bool is_gain, size_t event)
{
    if (size_bytes < (uint64_t)MOST_BYTES) {
        int64_t sum = *line + (is_gain ? (int64_t)size_bytes : -(int64_t)size_bytes);
        if (sum < MOST_BYTES && sum > -MOST_BYTES) {
            *line = sum;
            return HR_OK;
        }
    }
    return hr__fail(HR_ERR_CORRUPT_FILE,
                    "expected sizes of device memory, found %" PRIu64
                    " bytes at event %zu: with all before, more than any device holds",
                    size_bytes, event);
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

static hr_status new_lifetime(event_pass *pass, const hr__lifetime *lifetime, size_t *place)
{
    hr__timeline *timeline = pass->timeline;
    if (timeline->lifetime_count == pass->lifetime_capacity) {
        size_t capacity = pass->lifetime_capacity + pass->lifetime_capacity / 2 + 256;
        hr__lifetime *grown =
            hr__host_realloc(timeline->lifetimes, capacity * sizeof *timeline->lifetimes);
        if (grown == NULL)
            return hr__fail_host_memory(capacity * sizeof *grown, "the blocks of a trace");
        timeline->lifetimes = grown;
        pass->lifetime_capacity = capacity;
    }
    *place = timeline->lifetime_count++;
    timeline->lifetimes[*place] = *lifetime;
    return HR_OK;
}

/* When its free was requested, or HR__LIVE_TO_THE_END: of a block from before the trace. */
static uint32_t take_waiting(event_pass *pass, uint64_t address)
{
    uintptr_t instant = (uintptr_t)hr__address_map_remove(&pass->waiting, address);
    return instant != 0 ? (uint32_t)instant : HR__LIVE_TO_THE_END;
}

/* A block that was live before the trace: begin is 0. */
static hr_status add_initial(event_pass *pass, const hr__lifetime *lifetime)
{
    hr__timeline *timeline = pass->timeline;
    size_t place;
    int64_t initial_bytes = (int64_t)timeline->initial_live_bytes;
    HR__TRY(add_bytes(&initial_bytes, lifetime->size_bytes, true, lifetime->end));
    HR__TRY(new_lifetime(pass, lifetime, &place));
    timeline->initial_live_bytes = (uint64_t)initial_bytes;
    timeline->initial_count++;
    return HR_OK;
}

static hr_status end_lifetime(event_pass *pass, size_t place, uint32_t instant)
{
    hr__lifetime *lifetime = &pass->timeline->lifetimes[place];
    lifetime->end = instant;
    if (lifetime->freed == HR__LIVE_TO_THE_END)
        lifetime->freed = instant;
    return add_bytes(&pass->live_bytes, lifetime->size_bytes, false, instant);
}

static hr_status make_room(hr__address_map *map)
{
    if (!hr__address_map_has_room(map, 1) && !hr__address_map_reserve(map, 1))
        return hr__fail_host_memory(4 * (map->capacity + 1) * sizeof(hr__address_map_entry),
                                    "the live blocks of a trace");
    return HR_OK;
}

static hr_status on_alloc(event_pass *pass, const hr__model_event *event, uint32_t instant)
{
    hr__timeline *timeline = pass->timeline;
    hr__lifetime lifetime = {
        .size_bytes = hr__live_bytes_of(event->size_bytes),
        .address = event->address,
        .context = event->context,
        .begin = instant,
        .freed = HR__LIVE_TO_THE_END,
        .end = HR__LIVE_TO_THE_END,
    };
    size_t place;

    if (event->address == 0)
        return HR_OK; /* nothing was handed out */
    HR__TRY(make_room(&pass->live));
    (void)take_waiting(pass, event->address); /* another block, whose end went unrecorded */
    void *older = hr__address_map_remove(&pass->live, event->address);
    if (older != NULL) {
        timeline->contradiction_count++;
        HR__TRY(end_lifetime(pass, (size_t)(uintptr_t)older - 1, instant));
    }
    HR__TRY(add_bytes(&pass->live_bytes, lifetime.size_bytes, true, instant - 1));
    HR__TRY(new_lifetime(pass, &lifetime, &place));
    hr__address_map_insert(&pass->live, event->address, (void *)(uintptr_t)(place + 1));
    if (pass->live_bytes > pass->peak_bytes) {
        pass->peak_bytes = pass->live_bytes;
        pass->reserved_at_peak_bytes = pass->reserved_bytes;
        timeline->peak_instant = instant;
    }
    return HR_OK;
}

static bool have_equal_stacks(const hr__model *model, uint32_t one, uint32_t other)
{
    if (one == HR__NO_CONTEXT || other == HR__NO_CONTEXT)
        return one == other;
    return model->contexts[one] == model->contexts[other];
}

/* A free was requested, and completes later. The first request counts. */
static hr_status on_free_request(event_pass *pass, const hr__model_event *event, uint32_t instant)
{
    if (event->address == 0)
        return HR_OK;
    size_t number = (size_t)(uintptr_t)hr__address_map_get(&pass->live, event->address);
    if (number != 0) {
        hr__lifetime *lifetime = &pass->timeline->lifetimes[number - 1];
        if (lifetime->freed == HR__LIVE_TO_THE_END)
            lifetime->freed = instant;
        return HR_OK;
    }
    if (hr__address_map_get(&pass->waiting, event->address) != NULL)
        return HR_OK;
    HR__TRY(make_room(&pass->waiting));
    hr__address_map_insert(&pass->waiting, event->address, (void *)(uintptr_t)instant);
    return HR_OK;
}

static hr_status on_free(event_pass *pass, const hr__model_event *event, uint32_t instant)
{
    const hr__timeline *timeline = pass->timeline;
    if (event->address == 0)
        return HR_OK;
    void *found = hr__address_map_remove(&pass->live, event->address);
    if (found == NULL) {
        uint32_t freed = take_waiting(pass, event->address);
        const hr__lifetime initial = {.size_bytes = hr__live_bytes_of(event->size_bytes),
                                      .address = event->address,
                                      .context = event->context,
                                      .freed = freed != HR__LIVE_TO_THE_END ? freed : instant,
                                      .end = instant};
        HR__TRY(add_initial(pass, &initial));
        return add_bytes(&pass->live_bytes, initial.size_bytes, false, instant - 1);
    }
    size_t place = (size_t)(uintptr_t)found - 1;
    if (!have_equal_stacks(timeline->model, timeline->lifetimes[place].context, event->context))
        pass->frees_have_own_stacks = true;
    return end_lifetime(pass, place, instant);
}

static hr_status on_segment(event_pass *pass, const hr__model_event *event, bool is_gain,
                            uint32_t instant)
{
    HR__TRY(add_bytes(&pass->reserved_bytes, event->size_bytes, is_gain, instant - 1));
    if (pass->reserved_bytes > pass->peak_reserved_bytes) {
        pass->peak_reserved_bytes = pass->reserved_bytes;
        pass->timeline->peak_reserved_instant = instant;
    }
    if (pass->reserved_bytes < pass->lowest_reserved_bytes)
        pass->lowest_reserved_bytes = pass->reserved_bytes;
    return HR_OK;
}

/* A free counts when it completed; where completions were not recorded, when it was requested. */
static unsigned find_end_action(const hr__model_trace *trace)
{
    bool has_requests = false;
    for (size_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].action == HR_ACTION_FREE_COMPLETED)
            return HR_ACTION_FREE_COMPLETED;
        has_requests = has_requests || trace->events[i].action == HR_ACTION_FREE_REQUESTED;
    }
    return has_requests ? HR_ACTION_FREE_REQUESTED : HR_ACTION_FREE_COMPLETED;
}

static hr_status walk_events(event_pass *pass)
{
    const hr__model_trace *trace = pass->timeline->trace;
    for (size_t i = 0; i < trace->event_count; i++) {
        const hr__model_event *event = &trace->events[i];
        uint32_t instant = (uint32_t)i + 1;
        if (event->action == pass->end_action)
            HR__TRY(on_free(pass, event, instant));
        else if (event->action == HR_ACTION_FREE_REQUESTED)
            HR__TRY(on_free_request(pass, event, instant));
        switch (event->action) {
        case HR_ACTION_ALLOC:
            HR__TRY(on_alloc(pass, event, instant));
            break;
        case HR_ACTION_SEGMENT_ALLOC:
        case HR_ACTION_SEGMENT_MAP:
            HR__TRY(on_segment(pass, event, true, instant));
            break;
        case HR_ACTION_SEGMENT_FREE:
        case HR_ACTION_SEGMENT_UNMAP:
            HR__TRY(on_segment(pass, event, false, instant));
            break;
        default:
            break;
        }
    }
    return HR_OK;
}

/* ---- the end ----------------------------------------------------------------------------------*/

/* Blocks that are live at the end and were never allocated; and what is reserved then. */
static hr_status walk_final_segments(event_pass *pass, uint64_t *reserved_bytes)
{
    const hr__timeline *timeline = pass->timeline;
    const hr__model *model = timeline->model;
    int64_t sum_bytes = 0;
    for (size_t i = 0; i < model->segment_count; i++) {
        const hr__model_segment *segment = &model->segments[i];
        if (segment->device != timeline->trace->device)
            continue;
        HR__TRY(add_bytes(&sum_bytes, segment->total_bytes, true, timeline->trace->event_count));
        for (size_t b = 0; b < segment->block_count; b++) {
            const hr__model_block *block = &model->blocks[segment->first_block + b];
            if (block->state == HR_BLOCK_FREE ||
                hr__address_map_get(&pass->live, block->address) != NULL)
                continue;
            const hr__lifetime initial = {.size_bytes = hr__live_bytes_of_block(block),
                                          .address = block->address,
                                          .context = block->context,
                                          .freed = take_waiting(pass, block->address),
                                          .end = HR__LIVE_TO_THE_END};
            HR__TRY(add_initial(pass, &initial));
        }
    }
    *reserved_bytes = (uint64_t)sum_bytes;
    return HR_OK;
}

/* The stacks of frees are not those of the requests: forget them. */
static void forget_stacks_of_frees(hr__timeline *timeline)
{
    for (size_t i = 0; i < timeline->lifetime_count; i++) {
        hr__lifetime *lifetime = &timeline->lifetimes[i];
        if (lifetime->begin == 0 && lifetime->end != HR__LIVE_TO_THE_END)
            lifetime->context = HR__NO_CONTEXT;
    }
}

static void settle(event_pass *pass, uint64_t final_reserved_bytes)
{
    hr__timeline *timeline = pass->timeline;
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

hr_status hr__timeline_make(const hr__model *model, const hr__model_trace *trace, hr__timeline *out)
{
    if (trace->event_count >= UINT32_MAX - 1)
        return hr__fail(HR_ERR_UNSUPPORTED, "a trace of %zu events; at most %" PRIu32 " are served",
                        trace->event_count, UINT32_MAX - 2);

    hr__timeline timeline = {.model = model, .trace = trace};
    event_pass pass = {.timeline = &timeline, .end_action = find_end_action(trace)};
    uint64_t reserved_bytes = 0;
    hr__address_map_init(&pass.live);
    hr__address_map_init(&pass.waiting);
    hr_status status = walk_events(&pass);
    if (status == HR_OK)
        status = walk_final_segments(&pass, &reserved_bytes);
    if (status == HR_OK)
        settle(&pass, reserved_bytes);
    hr__address_map_deinit(&pass.live);
    hr__address_map_deinit(&pass.waiting);
    if (status != HR_OK) {
        hr__timeline_deinit(&timeline);
        return status;
    }
    *out = timeline;
    return HR_OK;
}

void hr__timeline_deinit(hr__timeline *timeline)
{
    hr__host_free(timeline->lifetimes);
    memset(timeline, 0, sizeof *timeline);
}

uint64_t hr__timeline_reserved_at(const hr__timeline *timeline, uint32_t instant)
{
    uint64_t reserved_bytes = timeline->initial_reserved_bytes;
    if (!timeline->is_reserved_known)
        return HR__UNKNOWN_BYTES;
    if (instant == timeline->peak_instant)
        return timeline->reserved_at_peak_live_bytes;
    for (uint32_t i = 0; i < instant; i++) {
        const hr__model_event *event = &timeline->trace->events[i];
        if (event->action == HR_ACTION_SEGMENT_ALLOC || event->action == HR_ACTION_SEGMENT_MAP)
            reserved_bytes += event->size_bytes;
        if (event->action == HR_ACTION_SEGMENT_FREE || event->action == HR_ACTION_SEGMENT_UNMAP)
            reserved_bytes -= event->size_bytes;
    }
    return reserved_bytes;
}

/* Frees name the stream of the request too. */
uint16_t hr__lifetime_stream(const hr__timeline *timeline, const hr__lifetime *lifetime)
{
    const hr__model_trace *trace = timeline->trace;
    if (lifetime->begin != 0)
        return trace->events[lifetime->begin - 1].stream;
    if (lifetime->end != HR__LIVE_TO_THE_END)
        return trace->events[lifetime->end - 1].stream;
    const hr__model_segment *segment =
        hr__script_segment_at(timeline->model, trace->device, lifetime->address);
    return segment != NULL ? segment->stream : 0;
}

int64_t *hr__timeline_live_line(const hr__timeline *timeline)
{
    size_t count = timeline->trace->event_count + 1;
    int64_t *line = hr__host_alloc_zeroed(count, sizeof *line);
    if (line == NULL)
        return NULL;
    for (size_t i = 0; i < timeline->lifetime_count; i++) {
        const hr__lifetime *lifetime = &timeline->lifetimes[i];
        line[lifetime->begin] += (int64_t)lifetime->size_bytes;
        if (lifetime->end != HR__LIVE_TO_THE_END)
            line[lifetime->end] -= (int64_t)lifetime->size_bytes;
    }
    for (size_t i = 1; i < count; i++)
        line[i] += line[i - 1];
    return line;
}
