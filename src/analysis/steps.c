/* steps.c - finding the rhythm of a program in its trace.
 *
 * Annotations. torch.profiler announces every step as "ProfilerStep#n", and PyTorch's optimizers
 * announce every step() and zero_grad() of theirs, to whoever listens; the recorder does (since
 * 2.5). A step ends where that span ends.
 *
 * Stacks. Most optimizers allocate in step(): state the first time, temporaries each time. Requests
 * made there, up to the first one of the program after it, are the end of one step. Backward work
 * in between belongs to the same end: an optimizer can step from within the backward pass, one
 * parameter after the other. A gradient scaler counts as an optimizer; it may skip the step() that
 * would have been announced. So of these two, the one that found more is believed.
 *
 * Rhythm. Without either, what is left is the line of live bytes: up during a forward, down during
 * a backward, to the same low each time. Lows are found by their depth, a quarter of the line's
 * amplitude; they must be equally low, and the highs between them equally high. Programs whose
 * steps differ in size do not pass that, since nobody can tell a small step from a bump within a
 * large one, and get no steps. What we did not do: take the best guess. Steps decide where
 * empty_cache() is put in and what a leak is measured by, and a wrong guess there is worse than
 * none.
 *
 * Phases. Training steps begin with the same request (a batch is made or copied). Where forward
 * work comes before it, between two steps, something else ran: evaluation. The phase before ends
 * with its last step, and the other one where that request comes again. */
#include "analysis/steps.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#include "vramwise/analysis.h" /* VW_UNKNOWN */
#include "analysis/array.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

enum {
    FEWEST_LOWS = 4,         /* fewer are no rhythm */
    FEWEST_EQUAL_STARTS = 2, /* of steps, to know how a step begins */
};

/* ---- a list of events ------------------------------------------------------------------------ */

typedef struct event_list {
    uint32_t *events; /* owned */
    size_t count, capacity;
} event_list;

/* Events come in rising order; one that is there already is not added again. */
static vw_status add_event(event_list *list, uint32_t event)
{
    if (list->count != 0 && event <= list->events[list->count - 1])
        return VW_OK;
    VW__TRY(vw__array_make_room(&list->events, &list->capacity, list->count, sizeof *list->events,
                                "the steps of a trace"));
    list->events[list->count++] = event;
    return VW_OK;
}

static void free_list(event_list *list)
{
    vw__host_free(list->events);
    *list = (event_list){0};
}

/* ---- annotations ----------------------------------------------------------------------------- */

static int compare_times(const void *left, const void *right)
{
    const int64_t *one = left, *other = right;
    return (*one > *other) - (*one < *other);
}

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* The times at which spans whose name begins with `beginning` ended on the trace's device, in
 * order. NULL if there are no such spans, with a count of 0, or no host memory. */
static int64_t *span_ends(const vw__timeline *timeline, const char *beginning, size_t *count)
{
    const vw__model *model = timeline->model;
    int64_t *times = NULL;
    for (int is_filling = 0; is_filling < 2; is_filling++) {
        *count = 0;
        for (size_t i = 0; i < model->annotation_count; i++) {
            const vw__model_annotation *annotation = &model->annotations[i];
            if (annotation->is_start || annotation->device != timeline->trace->device ||
                !begins_with(vw__model_string(model, annotation->name), beginning))
                continue;
            if (is_filling)
                times[*count] = annotation->time_us;
            ++*count;
        }
        if (*count == 0)
            return NULL;
        if (!is_filling && (times = vw__host_alloc(*count * sizeof *times)) == NULL)
            return NULL;
    }
    qsort(times, *count, sizeof *times, compare_times);
    return times;
}

/* The ends are the first events after each time. A span that ended before the first event is of a
 * step that fell out of the ring. */
static vw_status find_spans(const vw__timeline *timeline, const char *beginning, event_list *out)
{
    const vw__model_trace *trace = timeline->trace;
    size_t count;
    int64_t *times = span_ends(timeline, beginning, &count);
    if (times == NULL && count != 0)
        return vw__fail_host_memory(count * sizeof *times, "the annotations of a trace");

    vw_status status = VW_OK;
    size_t event = 0;
    for (size_t i = 0; i < count && status == VW_OK; i++) {
        while (event < trace->event_count && trace->events[event].time_us <= times[i])
            event++;
        if (event != 0)
            status = add_event(out, (uint32_t)event);
    }
    vw__host_free(times);
    return status;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static bool is_free(const vw__model_event *event)
{
    return event->action == VW_ACTION_FREE_REQUESTED || event->action == VW_ACTION_FREE_COMPLETED;
}

static vw_status find_optimizer_runs(const vw__timeline *timeline,
                                     const vw__attribution *attribution, event_list *out)
{
    const vw__model_trace *trace = timeline->trace;
    bool is_in_run = false;
    size_t end = 0; /* of the run, so far */
    for (size_t i = 0; i < trace->event_count; i++) {
        const vw__model_event *event = &trace->events[i];
        bool is_optimizer = vw__attribution_is_in_optimizer(attribution, event->context);
        if (event->action == VW_ACTION_ALLOC) {
            if (is_optimizer) {
                is_in_run = true;
                end = i + 1;
            } else if (is_in_run && vw__attribution_category(attribution, event->context) !=
                                        VW__CATEGORY_BACKWARD) {
                VW__TRY(add_event(out, (uint32_t)end));
                is_in_run = false;
            }
        } else if (is_in_run && is_optimizer && is_free(event) && end == i) {
            end = i + 1; /* what the step needed for a while goes with it */
        }
    }
    return is_in_run ? add_event(out, (uint32_t)end) : VW_OK;
}

/* ---- rhythm ---------------------------------------------------------------------------------- */

/* The instants of the lows that the line falls to by more than `depth` and, the last one apart,
 * rises from by more than that. */
static vw_status find_lows(const int64_t *line, size_t count, int64_t depth, event_list *out)
{
    bool is_falling = false;
    int64_t high = line[0], low = line[0];
    size_t low_place = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_falling) {
            if (line[i] > high)
                high = line[i];
            if (line[i] < high - depth) {
                is_falling = true;
                low = line[i];
                low_place = i;
            }
        } else if (line[i] <= low) {
            low = line[i];
            low_place = i;
        } else if (line[i] > low + depth) {
            VW__TRY(add_event(out, (uint32_t)low_place));
            is_falling = false;
            high = line[i];
        }
    }
    return is_falling ? add_event(out, (uint32_t)low_place) : VW_OK;
}

/* The middle one of the lows, by live bytes. */
static int64_t median_low(const int64_t *line, const event_list *lows, int64_t *scratch)
{
    for (size_t i = 0; i < lows->count; i++)
        scratch[i] = line[lows->events[i]];
    qsort(scratch, lows->count, sizeof *scratch, compare_times);
    return scratch[lows->count / 2];
}

typedef struct byte_span {
    int64_t least, most;
} byte_span;

static void widen(byte_span *span, int64_t bytes)
{
    span->least = bytes < span->least ? bytes : span->least;
    span->most = bytes > span->most ? bytes : span->most;
}

/* Returns whether the lows are equally low, and the highs between them equally high. Ignores the
 * first (the program may still be setting up) and the last (it may be ending). */
static bool are_alike(const int64_t *line, const event_list *lows, int64_t tolerance)
{
    byte_span low_span = {INT64_MAX, INT64_MIN}, high_span = low_span;
    for (size_t i = 1; i + 1 < lows->count; i++) {
        int64_t high = line[lows->events[i - 1]];
        for (size_t k = lows->events[i - 1]; k < lows->events[i]; k++)
            high = line[k] > high ? line[k] : high;
        widen(&low_span, line[lows->events[i]]);
        widen(&high_span, high);
    }
    return low_span.most - low_span.least <= tolerance &&
           high_span.most - high_span.least <= tolerance;
}

/* Replaces `*lows`, found at a rough depth, by those at the final depth; empties it if they are no
 * rhythm. */
static vw_status settle_lows(const int64_t *line, size_t count, int64_t peak, event_list *lows)
{
    int64_t *scratch = vw__host_alloc(lows->count * sizeof *scratch);
    if (scratch == NULL)
        return vw__fail_host_memory(lows->count * sizeof *scratch, "the rhythm of a trace");
    int64_t amplitude = peak - median_low(line, lows, scratch);
    vw__host_free(scratch);

    lows->count = 0;
    VW__TRY(find_lows(line, count, amplitude / 4, lows));
    if (lows->count < FEWEST_LOWS || !are_alike(line, lows, amplitude / 10))
        lows->count = 0;
    return VW_OK;
}

static vw_status find_rhythm(const vw__timeline *timeline, event_list *out)
{
    size_t count = timeline->trace->event_count + 1;
    int64_t *line = vw__timeline_live_line(timeline);
    if (line == NULL)
        return vw__fail_host_memory(count * sizeof *line, "the live bytes of a trace");
    int64_t least = line[0], peak = line[0];
    for (size_t i = 0; i < count; i++) {
        least = line[i] < least ? line[i] : least;
        peak = line[i] > peak ? line[i] : peak;
    }
    vw_status status = find_lows(line, count, (peak - least) / 4, out);
    if (status == VW_OK && out->count < FEWEST_LOWS)
        out->count = 0;
    else if (status == VW_OK)
        status = settle_lows(line, count, peak, out);
    vw__host_free(line);
    return status;
}

/* ---- phases ---------------------------------------------------------------------------------- */

static bool is_forward(const vw__attribution *attribution, const vw__model_event *event)
{
    return event->action == VW_ACTION_ALLOC &&
           vw__attribution_category(attribution, event->context) == VW__CATEGORY_FORWARD;
}

/* The stack of the first request of the program in [first, end), or VW__MODEL_EMPTY_STACK. */
static uint32_t first_stack(const vw__timeline *timeline, const vw__attribution *attribution,
                            size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        const vw__model_event *event = &timeline->trace->events[i];
        if (event->action != VW_ACTION_ALLOC || event->context == VW__MODEL_NO_CONTEXT ||
            vw__attribution_is_in_optimizer(attribution, event->context))
            continue;
        uint32_t stack = timeline->model->contexts[event->context];
        if (stack != VW__MODEL_EMPTY_STACK)
            return stack;
    }
    return VW__MODEL_EMPTY_STACK;
}

/* The stack with which most steps begin, or VW__MODEL_EMPTY_STACK where no majority agrees (the
 * voting of Boyer and Moore finds the only candidate; then its votes are counted). */
static uint32_t usual_start(const vw__timeline *timeline, const vw__attribution *attribution,
                            const event_list *ends)
{
    uint32_t candidate = VW__MODEL_EMPTY_STACK;
    size_t lead = 0, votes = 0;
    for (size_t i = 0; i + 1 < ends->count; i++) {
        uint32_t stack = first_stack(timeline, attribution, ends->events[i], ends->events[i + 1]);
        if (lead == 0)
            candidate = stack;
        lead = stack == candidate ? lead + 1 : lead - 1;
    }
    for (size_t i = 0; i + 1 < ends->count; i++)
        votes +=
            first_stack(timeline, attribution, ends->events[i], ends->events[i + 1]) == candidate;
    return votes >= FEWEST_EQUAL_STARTS && 2 * votes >= ends->count ? candidate
                                                                    : VW__MODEL_EMPTY_STACK;
}

/* Looks between two ends of steps for forward work before the request that begins a step. */
static vw_status find_phase_between(const vw__timeline *timeline,
                                    const vw__attribution *attribution, uint32_t start,
                                    size_t first, size_t end, event_list *out)
{
    const vw__model *model = timeline->model;
    bool has_other_work = false;
    for (size_t i = first; i < end; i++) {
        const vw__model_event *event = &timeline->trace->events[i];
        if (event->action == VW_ACTION_ALLOC && event->context != VW__MODEL_NO_CONTEXT &&
            model->contexts[event->context] == start)
            return has_other_work ? add_event(out, (uint32_t)i) : VW_OK;
        if (!has_other_work && is_forward(attribution, event)) {
            has_other_work = true;
            if (first != 0)
                VW__TRY(add_event(out, (uint32_t)first));
        }
    }
    return VW_OK;
}

static vw_status find_phases(const vw__timeline *timeline, const vw__attribution *attribution,
                             const event_list *ends, event_list *out)
{
    uint32_t start = usual_start(timeline, attribution, ends);
    if (start == VW__MODEL_EMPTY_STACK)
        return VW_OK;
    size_t first = 0;
    for (size_t i = 0; i <= ends->count; i++) {
        size_t end = i < ends->count ? ends->events[i] : timeline->trace->event_count;
        VW__TRY(find_phase_between(timeline, attribution, start, first, end, out));
        first = end;
    }
    return VW_OK;
}

/* ---- together -------------------------------------------------------------------------------- */

typedef struct search {
    event_list profiler, announced, stacks, rhythm, phases;
} search;

static vw_status look_everywhere(const vw__timeline *timeline, const vw__attribution *attribution,
                                 search *all, event_list **found, const char **basis)
{
    *basis = "annotations";
    *found = &all->profiler;
    VW__TRY(find_spans(timeline, "ProfilerStep#", &all->profiler));
    if (all->profiler.count == 0) {
        VW__TRY(find_spans(timeline, "Optimizer.step#", &all->announced));
        if (attribution->has_optimizer)
            VW__TRY(find_optimizer_runs(timeline, attribution, &all->stacks));
        *found = &all->announced;
        if (all->stacks.count > all->announced.count) {
            *basis = "optimizer stacks";
            *found = &all->stacks;
        }
    }
    if ((*found)->count == 0) {
        VW__TRY(find_rhythm(timeline, &all->rhythm));
        *basis = all->rhythm.count != 0 ? "rhythm of live bytes" : NULL;
        *found = &all->rhythm;
    }
    return find_phases(timeline, attribution, *found, &all->phases);
}

vw_status vw__steps_find_in(const vw__timeline *timeline, const vw__attribution *attribution,
                            vw__steps *out)
{
    search all = {0};
    event_list *found = &all.rhythm;
    const char *basis = NULL;
    vw_status status = look_everywhere(timeline, attribution, &all, &found, &basis);
    if (status == VW_OK) {
        *out = (vw__steps){
            .ends = found->events,
            .end_count = found->count,
            .phase_ends = all.phases.events,
            .phase_end_count = all.phases.count,
            .basis = basis,
        };
        *found = (event_list){0}; /* handed over */
        all.phases = (event_list){0};
    }
    free_list(&all.profiler);
    free_list(&all.announced);
    free_list(&all.stacks);
    free_list(&all.rhythm);
    free_list(&all.phases);
    return status;
}

vw_status vw__steps_find(const vw__model *model, const vw__model_trace *trace, vw__steps *out)
{
    vw__timeline timeline = {0};
    vw__attribution attribution = {0};
    vw_status status = vw__timeline_make(model, trace, &timeline);
    if (status == VW_OK)
        status = vw__attribution_init(&attribution, model);
    if (status == VW_OK)
        status = vw__steps_find_in(&timeline, &attribution, out);
    vw__attribution_deinit(&attribution);
    vw__timeline_deinit(&timeline);
    return status;
}

void vw__steps_deinit(vw__steps *steps)
{
    vw__host_free(steps->ends);
    vw__host_free(steps->phase_ends);
    *steps = (vw__steps){0};
}

/* ---- how long they take ---------------------------------------------------------------------- */

#define NS_PER_US UINT64_C(1000)

static int compare_durations(const void *left, const void *right)
{
    const uint64_t *one = left, *other = right;
    return (*one > *other) - (*one < *other);
}

/* The event of an end is the first of the next step, or the last of all. */
static int64_t time_of_end(const vw__model_trace *trace, uint32_t end)
{
    return trace->events[end < trace->event_count ? end : trace->event_count - 1].time_us;
}

vw_status vw__steps_usual_ns(const vw__model_trace *trace, const vw__steps *steps, uint64_t *out)
{
    size_t count = 0;
    *out = VW_UNKNOWN;
    if (steps->end_count < 2 || trace->event_count == 0)
        return VW_OK;
    uint64_t *times = vw__host_alloc_zeroed(steps->end_count, sizeof *times);
    if (times == NULL)
        return vw__fail_host_memory(steps->end_count * sizeof *times, "the times of steps");
    for (size_t i = 1; i < steps->end_count; i++) {
        int64_t from_us = time_of_end(trace, steps->ends[i - 1]);
        int64_t to_us = time_of_end(trace, steps->ends[i]);
        if (from_us >= 0 && to_us > from_us) /* unknown ones are below 0 */
            times[count++] = (uint64_t)(to_us - from_us);
    }
    qsort(times, count, sizeof *times, compare_durations);
    if (count != 0 && !vw__mul_u64(times[count / 2], NS_PER_US, out))
        *out = VW_UNKNOWN;
    vw__host_free(times);
    return VW_OK;
}
