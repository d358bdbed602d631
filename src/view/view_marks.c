/* view_marks.c - looking through events and annotations for marks.
 *
 * Of each kind at most as many are kept as all together may be, so that a file of a million
 * annotations costs no more than a page full; then kinds that matter less give way. */
#include "view/view_marks.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h> /* qsort */

#include "analysis/script_events.h" /* vw__script_find_trims */
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"

static const char *const kind_names[] = {
#define KIND_NAME(upper, text) text,
    VW__VIEW_MARK_LIST(KIND_NAME)
#undef KIND_NAME
};

static vw_status add_mark(vw__view_marks *marks, const vw__view_mark *mark)
{
    marks->all_count++;
    if (marks->kept[mark->kind] == VW__VIEW_MOST_MARKS)
        return VW_OK;
    if (marks->count == marks->capacity) {
        size_t capacity = marks->capacity * 2 + 64;
        vw__view_mark *grown = vw__host_realloc(marks->marks, capacity * sizeof *grown);
        if (grown == NULL)
            return vw__fail_host_memory(capacity * sizeof *grown, "the marks of a view");
        marks->marks = grown;
        marks->capacity = capacity;
    }
    marks->kept[mark->kind]++;
    marks->marks[marks->count++] = *mark;
    return VW_OK;
}

/* ---- events ---------------------------------------------------------------------------------- */

static vw_status mark_event(vw__view_marks *marks, const vw__model_event *event, uint32_t instant)
{
    vw__view_mark mark = {
        .instant = instant, .text = VW__MODEL_NO_STRING, .bytes = VW__MODEL_UNKNOWN_BYTES};
    switch (event->action) {
    case VW_ACTION_OOM:
        mark.kind = VW__VIEW_MARK_OOM;
        mark.bytes = event->size_bytes;
        mark.free_bytes = event->address;
        break;
    case VW_ACTION_SNAPSHOT:
        mark.kind = VW__VIEW_MARK_SNAPSHOT;
        break;
    case VW__MODEL_ACTION_ANNOTATE:
        mark.kind = VW__VIEW_MARK_USER;
        if (event->note != VW__MODEL_NO_NOTE)
            mark.text = marks->model->notes[event->note].user_metadata;
        break;
    default:
        return VW_OK;
    }
    return add_mark(marks, &mark);
}

/* ---- memory that was given back -------------------------------------------------------------- */

/* Releases of one request, or of one empty_cache(). */
typedef struct release_run {
    vw__view_mark mark; /* count 0: none */
    uint32_t context;
    bool is_trim;
} release_run;

static vw_status end_run(vw__view_marks *marks, release_run *run)
{
    vw_status status = run->mark.count != 0 ? add_mark(marks, &run->mark) : VW_OK;
    run->mark.count = 0;
    return status;
}

static vw_status add_release(vw__view_marks *marks, release_run *run, const vw__model_event *event,
                             uint32_t instant, bool is_trim)
{
    bool goes_on = run->mark.count != 0 && run->is_trim == is_trim &&
                   (is_trim || run->context == event->context);
    if (!goes_on) {
        VW__TRY(end_run(marks, run));
        run->is_trim = is_trim;
        run->context = event->context;
        run->mark = (vw__view_mark){
            .instant = instant,
            .text = VW__MODEL_NO_STRING,
            .kind = is_trim ? VW__VIEW_MARK_EMPTY_CACHE : VW__VIEW_MARK_RETRY,
        };
    }
    if (!vw__add_u64(run->mark.bytes, event->size_bytes, &run->mark.bytes))
        return vw__fail(VW_ERR_CORRUPT_FILE, "more was given back at once than any device has");
    run->mark.count++;
    return VW_OK;
}

/* Whether a request gave memory back shows only where its stack is known to be its own. */
static vw_status mark_releases(vw__view_marks *marks, const vw__model_trace *trace,
                               const bool *is_trim)
{
    const vw__model_features *features = &marks->model->features;
    bool knows_requests = features->has_contexts && features->has_identity;
    release_run run = {.is_trim = false};
    for (size_t i = 0; i < trace->event_count; i++) {
        const vw__model_event *event = &trace->events[i];
        if (vw__script_is_remark(event->action) || event->action == VW_ACTION_FREE_COMPLETED)
            continue;
        if (!vw__script_is_release(event->action))
            VW__TRY(end_run(marks, &run));
        else if (is_trim[i] || knows_requests)
            VW__TRY(add_release(marks, &run, event, (uint32_t)i + 1, is_trim[i]));
    }
    return end_run(marks, &run);
}

static vw_status find_releases(vw__view_marks *marks, const vw__model_trace *trace)
{
    static const vw__script_guide no_guide = {.flips = NULL};
    bool has_releases = false, has_guesses;
    for (size_t i = 0; i < trace->event_count && !has_releases; i++)
        has_releases = vw__script_is_release(trace->events[i].action);
    if (!has_releases)
        return VW_OK;
    bool *is_trim = vw__host_alloc_zeroed(trace->event_count, sizeof *is_trim);
    if (is_trim == NULL)
        return vw__fail_host_memory(trace->event_count, "the marks of a view");
    vw__script_find_trims(marks->model, trace, &no_guide, is_trim, &has_guesses);
    vw_status status = mark_releases(marks, trace, is_trim);
    vw__host_free(is_trim);
    return status;
}

/* ---- annotations ----------------------------------------------------------------------------- */

/* After how many events; they rise in time, or the answer is as good as any. */
static uint32_t instant_of(const vw__model_trace *trace, int64_t time_us)
{
    size_t low = 0, high = trace->event_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (trace->events[middle].time_us <= time_us)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}

static vw_status mark_annotations(vw__view_marks *marks, const vw__model_trace *trace)
{
    const vw__model *model = marks->model;
    if (trace->event_count == 0 || trace->events[0].time_us == VW__MODEL_UNKNOWN_TIME)
        return VW_OK;
    for (size_t i = 0; i < model->annotation_count; i++) {
        const vw__model_annotation *annotation = &model->annotations[i];
        bool is_return, is_move = vw__model_is_move(model, annotation, &is_return);
        const vw__view_mark mark = {.instant = instant_of(trace, annotation->time_us),
                                    .text = annotation->name,
                                    .bytes = is_move ? annotation->move.moved_bytes
                                                     : VW__MODEL_UNKNOWN_BYTES,
                                    .kind = VW__VIEW_MARK_ANNOTATION};
        if (annotation->is_start && annotation->device == trace->device)
            VW__TRY(add_mark(marks, &mark));
    }
    return VW_OK;
}

/* ---- the marks ------------------------------------------------------------------------------- */

static int by_kind(const void *one, const void *other)
{
    const vw__view_mark *a = one, *b = other;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return (a->instant > b->instant) - (a->instant < b->instant);
}

static int by_instant(const void *one, const void *other)
{
    const vw__view_mark *a = one, *b = other;
    if (a->instant != b->instant)
        return a->instant < b->instant ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return (a->text > b->text) - (a->text < b->text);
}

vw_status vw__view_marks_find(const vw__model *model, const vw__model_trace *trace,
                              vw__view_marks *out)
{
    *out = (vw__view_marks){.model = model};
    for (size_t i = 0; i < trace->event_count; i++)
        VW__TRY(mark_event(out, &trace->events[i], (uint32_t)i + 1));
    VW__TRY(find_releases(out, trace));
    VW__TRY(mark_annotations(out, trace));
    if (out->count == 0)
        return VW_OK;
    qsort(out->marks, out->count, sizeof *out->marks, by_kind);
    out->count = (size_t)vw__min_u64(out->count, VW__VIEW_MOST_MARKS);
    qsort(out->marks, out->count, sizeof *out->marks, by_instant);
    return VW_OK;
}

void vw__view_marks_deinit(vw__view_marks *marks)
{
    vw__host_free(marks->marks);
    *marks = (vw__view_marks){.model = NULL};
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void mark_text(const vw__view_marks *marks, const vw__view_mark *mark, vw__json *json)
{
    char text[160], bytes[VW__HUMAN_SIZE_BYTES], left[VW__HUMAN_SIZE_BYTES];
    const char *noun = mark->count == 1 ? "piece" : "pieces";
    switch (mark->kind) {
    case VW__VIEW_MARK_OOM:
        snprintf(text, sizeof text, "out of memory: %s did not fit, %s were free on the device",
                 vw__human_size(mark->bytes, bytes), vw__human_size(mark->free_bytes, left));
        break;
    case VW__VIEW_MARK_RETRY:
        snprintf(text, sizeof text, "a request gave back %s in %" PRIu32 " %s to be served",
                 vw__human_size(mark->bytes, bytes), mark->count, noun);
        break;
    case VW__VIEW_MARK_EMPTY_CACHE:
        snprintf(text, sizeof text,
                 "%s in %" PRIu32 " %s were given back outside of requests: empty_cache()",
                 vw__human_size(mark->bytes, bytes), mark->count, noun);
        break;
    case VW__VIEW_MARK_SNAPSHOT:
        snprintf(text, sizeof text, "a snapshot was taken");
        break;
    default:
        vw__json_text(json, "text", vw__model_string(marks->model, mark->text));
        return;
    }
    vw__json_text(json, "text", text);
}

void vw__view_marks_json(const vw__view_marks *marks, vw__json *json)
{
    vw__json_begin_array(json, "marks");
    for (size_t i = 0; i < marks->count; i++) {
        const vw__view_mark *mark = &marks->marks[i];
        vw__json_begin_object(json, NULL);
        vw__json_text(json, "kind", kind_names[mark->kind]);
        vw__json_unsigned(json, "instant", mark->instant);
        vw__json_known(json, "bytes", mark->bytes);
        mark_text(marks, mark, json);
        vw__json_end_object(json);
    }
    vw__json_end_array(json);
    vw__json_unsigned(json, "mark_count", marks->all_count);
}
