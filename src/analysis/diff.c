/* diff.c - two recordings at their peaks, line by line.
 *
 * "What did my change cost?" The two files share no numbers: stacks, strings and frames are
 * numbered anew in each. So stacks are compared as text: two are one if every frame has the same
 * function, file and line. A line that moved because code was added above it is another line here;
 * the categories, which do not depend on lines, show then that nothing else changed.
 *
 * What we did not do: match stacks that are merely alike. A wrong match hides a difference, and a
 * missing one shows it twice, once as gone and once as new, which a reader sees through. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h> /* qsort */
#include <string.h>

#include "headroom/analysis.h"
#include "analysis/moment.h"
#include "analysis/recording.h"
#include "analysis/timeline.h"
#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/string_table.h"

/* What hr_diff_report_free() gets back. */
typedef struct diff_result {
    hr_diff_report shown; /* first: the caller holds a pointer to it */
    hr__arena arena;
} diff_result;

enum { MOST_NOTES = 16, NOTE_BYTES = 400 };

/* One of the two recordings. */
typedef struct diff_side {
    const char *name; /* "first", "second" */
    const hr__model *model;
    int device;
    hr_moment moment;
    uint64_t peak_reserved_bytes;
    uint64_t event_count;
} diff_side;

typedef struct diff_work {
    hr__arena *arena; /* the result's */
    const char **notes;
    size_t note_count;
} diff_work;

__attribute__((format(printf, 2, 3))) static hr_status note(diff_work *work, const char *format,
                                                            ...)
{
    char text[NOTE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (work->note_count == MOST_NOTES)
        return HR_OK;
    char *copy = hr__arena_copy(work->arena, text, strlen(text));
    if (copy == NULL)
        return hr__fail_host_memory(strlen(text), "a note");
    work->notes[work->note_count++] = copy;
    return HR_OK;
}

/* ---- the two moments ------------------------------------------------------------------------- */

/* Without a trace: the device with the most reserved at the end. */
static int fullest_device(const hr__model *model)
{
    int fullest = 0;
    uint64_t most_bytes = 0, bytes = 0;
    for (size_t i = 0; i < model->segment_count; i++) {
        const hr__model_segment *segment = &model->segments[i];
        bool is_first = i == 0 || model->segments[i - 1].device != segment->device;
        bytes = (is_first ? 0 : bytes) + segment->total_bytes;
        if (segment->device != HR__HOST_DEVICE && bytes > most_bytes) {
            most_bytes = bytes;
            fullest = segment->device;
        }
    }
    return fullest;
}

static hr_status look_at_end(diff_work *work, diff_side *side, const hr__attribution *attribution)
{
    side->device = fullest_device(side->model);
    side->peak_reserved_bytes = HR_UNKNOWN;
    HR__TRY(hr__moment_of_end(attribution, NULL, side->device, 0, work->arena, &side->moment));
    return note(work, "The %s recording has no trace: its end is compared, not its peak.",
                side->name);
}

static hr_status look_at_peak(diff_work *work, diff_side *side, const hr__attribution *attribution,
                              const hr__model_trace *trace)
{
    hr__timeline timeline;
    HR__TRY(hr__timeline_make(side->model, trace, &timeline));
    side->device = trace->device;
    side->event_count = trace->event_count;
    side->peak_reserved_bytes =
        timeline.is_reserved_known ? timeline.peak_reserved_bytes : HR_UNKNOWN;
    hr_status status = hr__moment_of_instant(&timeline, timeline.peak_instant, attribution, 0,
                                             work->arena, &side->moment);
    bool is_truncated = timeline.is_truncated;
    hr__timeline_deinit(&timeline);
    if (status == HR_OK && is_truncated)
        status = note(work,
                      "The trace of the %s recording does not begin at the first allocation: what "
                      "was allocated before shows only if it was freed later or is live at the "
                      "end.",
                      side->name);
    return status;
}

static hr_status look_at(diff_work *work, diff_side *side)
{
    hr__attribution attribution = {0};
    const hr__model_trace *trace = NULL;
    HR__TRY(hr__attribution_init(&attribution, side->model));
    bool has_trace = hr__recording_trace(side->model, HR_BUSIEST_DEVICE, &trace) == HR_OK;
    hr_status status = has_trace ? look_at_peak(work, side, &attribution, trace)
                                 : look_at_end(work, side, &attribution);
    hr__attribution_deinit(&attribution);
    return status;
}

/* ---- by stack -------------------------------------------------------------------------------- */

/* The stack as bytes that are equal exactly for equal stacks. */
static void write_key(hr__byte_buffer *key, const hr_usage *usage)
{
    hr__byte_buffer_clear(key);
    hr__append_u8(key, usage->has_stack);
    for (size_t i = 0; i < usage->frame_count; i++) {
        const hr_frame *frame = &usage->frames[i];
        hr__append_bytes(key, frame->function, strlen(frame->function) + 1);
        hr__append_bytes(key, frame->file, strlen(frame->file) + 1);
        hr__append_u32_le(key, frame->line);
    }
}

typedef struct change_list {
    hr_change *changes; /* the arena's: room for the usages of both sides */
    size_t count;
    hr__arena key_arena;
    hr__string_table keys; /* the id is the place in `changes` */
    hr__byte_buffer key;
} change_list;

static hr_status add_usages(change_list *list, const diff_side *side, bool is_after)
{
    for (size_t i = 0; i < side->moment.usage_count; i++) {
        const hr_usage *usage = &side->moment.usages[i];
        uint32_t place;
        write_key(&list->key, usage);
        if (hr__byte_buffer_has_failed(&list->key) ||
            !hr__string_table_add(&list->keys, hr__byte_buffer_text(&list->key),
                                  hr__byte_buffer_size(&list->key), &place))
            return hr__fail_host_memory(hr__byte_buffer_size(&list->key), "a stack to compare");
        hr_change *change = &list->changes[place];
        if (place == list->count) {
            list->count++;
            change->frames = usage->frames;
            change->frame_count = usage->frame_count;
            change->where = usage->where;
            change->category = usage->category;
        }
        *(is_after ? &change->after_bytes : &change->before_bytes) += usage->bytes;
        *(is_after ? &change->after_count : &change->before_count) += usage->block_count;
    }
    return HR_OK;
}

static uint64_t difference_of(const hr_change *change)
{
    return change->after_bytes > change->before_bytes ? change->after_bytes - change->before_bytes
                                                      : change->before_bytes - change->after_bytes;
}

/* Largest difference first; then what is larger itself; then by name, so that the order is the same
 * on every machine. */
static int compare_changes(const void *left, const void *right)
{
    const hr_change *one = left, *other = right;
    uint64_t one_difference = difference_of(one), other_difference = difference_of(other);
    if (one_difference != other_difference)
        return one_difference < other_difference ? 1 : -1;
    if (one->after_bytes != other->after_bytes)
        return one->after_bytes < other->after_bytes ? 1 : -1;
    int order = strcmp(one->category, other->category);
    for (size_t i = 0; order == 0 && i < one->frame_count && i < other->frame_count; i++) {
        order = strcmp(one->frames[i].file, other->frames[i].file);
        if (order == 0 && one->frames[i].line != other->frames[i].line)
            order = one->frames[i].line < other->frames[i].line ? -1 : 1;
        if (order == 0)
            order = strcmp(one->frames[i].function, other->frames[i].function);
    }
    if (order == 0 && one->frame_count != other->frame_count)
        order = one->frame_count < other->frame_count ? -1 : 1;
    return order;
}

static bool is_change(const hr_change *change)
{
    return change->before_bytes != change->after_bytes ||
           change->before_count != change->after_count;
}

static hr_status compare_stacks(diff_work *work, const diff_side *before, const diff_side *after,
                                hr_diff_report *report)
{
    size_t most = before->moment.usage_count + after->moment.usage_count;
    change_list list = {.count = 0};
    list.changes =
        hr__arena_alloc_array(work->arena, most, sizeof *list.changes, _Alignof(hr_change));
    if (list.changes == NULL)
        return hr__fail_host_memory(most * sizeof *list.changes, "the changes");
    hr__arena_init(&list.key_arena, HR__ARENA_NO_LIMIT);
    hr__string_table_init(&list.keys, &list.key_arena, HR__STRING_TABLE_LARGEST_COUNT, SIZE_MAX);
    hr__byte_buffer_init(&list.key);
    hr_status status = add_usages(&list, before, false);
    if (status == HR_OK)
        status = add_usages(&list, after, true);
    hr__byte_buffer_deinit(&list.key);
    hr__arena_deinit(&list.key_arena);
    if (status != HR_OK)
        return status;

    size_t kept = 0;
    for (size_t i = 0; i < list.count; i++)
        if (is_change(&list.changes[i]))
            list.changes[kept++] = list.changes[i];
    qsort(list.changes, kept, sizeof *list.changes, compare_changes);
    report->changes = list.changes;
    report->change_count = kept;
    report->is_same = kept == 0;
    return HR_OK;
}

/* ---- by category ----------------------------------------------------------------------------- */

static hr_change *category_change(hr_change *changes, size_t *count, const char *category)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp(changes[i].category, category) == 0)
            return &changes[i];
    changes[*count].category = category;
    return &changes[(*count)++];
}

static hr_status compare_categories(diff_work *work, const diff_side *before,
                                    const diff_side *after, hr_diff_report *report)
{
    size_t count = 0;
    hr_change *changes = hr__arena_alloc_array(work->arena, HR__CATEGORY_COUNT, sizeof *changes,
                                               _Alignof(hr_change));
    if (changes == NULL)
        return hr__fail_host_memory(HR__CATEGORY_COUNT * sizeof *changes, "the changes");
    for (size_t i = 0; i < before->moment.category_count; i++) {
        const hr_usage *usage = &before->moment.categories[i];
        hr_change *change = category_change(changes, &count, usage->category);
        change->before_bytes = usage->bytes;
        change->before_count = usage->block_count;
    }
    for (size_t i = 0; i < after->moment.category_count; i++) {
        const hr_usage *usage = &after->moment.categories[i];
        hr_change *change = category_change(changes, &count, usage->category);
        change->after_bytes = usage->bytes;
        change->after_count = usage->block_count;
    }
    qsort(changes, count, sizeof *changes, compare_changes);
    report->categories = changes;
    report->category_count = count;
    return HR_OK;
}

/* ---- the report ------------------------------------------------------------------------------ */

static const char *conf_of(const hr__model *model)
{
    const hr__model_settings *settings = &model->settings;
    bool is_known = settings->is_known && settings->conf != HR__NO_STRING;
    return is_known ? hr__model_string(model, settings->conf) : NULL;
}

static hr_moment without_usages(hr_moment moment)
{
    moment.usages = moment.categories = NULL;
    moment.usage_count = moment.category_count = 0;
    return moment;
}

static bool has_stacks(const diff_side *side)
{
    for (size_t i = 0; i < side->moment.usage_count; i++)
        if (side->moment.usages[i].frame_count != 0)
            return true;
    return side->moment.usage_count == 0;
}

static hr_status add_notes(diff_work *work, const diff_side *before, const diff_side *after,
                           const hr_diff_report *report)
{
    if (before->device != after->device)
        HR__TRY(note(work, "Device %d is compared with device %d: those with the most events.",
                     before->device, after->device));
    if (report->before_conf != NULL && report->after_conf != NULL &&
        strcmp(report->before_conf, report->after_conf) != 0)
        HR__TRY(note(work, "The two ran under different allocator settings: reserved bytes differ "
                           "for that reason too."));
    const diff_side *sides[] = {before, after};
    for (size_t i = 0; i < 2; i++)
        if (!has_stacks(sides[i]))
            HR__TRY(note(work,
                         "The %s recording has no stacks at its peak: who holds the memory is not "
                         "known there.",
                         sides[i]->name));
    return HR_OK;
}

static hr_status fill_report(diff_work *work, const hr__model *before_model,
                             const hr__model *after_model, hr_diff_report *report)
{
    diff_side before = {.name = "first", .model = before_model};
    diff_side after = {.name = "second", .model = after_model};
    work->notes =
        hr__arena_alloc_array(work->arena, MOST_NOTES, sizeof *work->notes, _Alignof(const char *));
    if (work->notes == NULL)
        return hr__fail_host_memory(MOST_NOTES * sizeof *work->notes, "notes");
    HR__TRY(look_at(work, &before));
    HR__TRY(look_at(work, &after));
    HR__TRY(compare_stacks(work, &before, &after, report));
    HR__TRY(compare_categories(work, &before, &after, report));

    report->before_device = before.device;
    report->after_device = after.device;
    report->before = without_usages(before.moment);
    report->after = without_usages(after.moment);
    report->before_peak_reserved_bytes = before.peak_reserved_bytes;
    report->after_peak_reserved_bytes = after.peak_reserved_bytes;
    report->before_event_count = before.event_count;
    report->after_event_count = after.event_count;
    report->before_conf = conf_of(before_model);
    report->after_conf = conf_of(after_model);
    HR__TRY(add_notes(work, &before, &after, report));
    report->notes = work->notes;
    report->note_count = work->note_count;
    return HR_OK;
}

hr_status hr_recordings_diff(const hr_recording *before, const hr_recording *after,
                             hr_diff_report **out)
{
    if (before == NULL || after == NULL || out == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "expected two recordings and a place for their differences");
    diff_result *result = hr__host_alloc_zeroed(1, sizeof *result);
    if (result == NULL)
        return hr__fail_host_memory(sizeof *result, "a comparison");
    hr__arena_init(&result->arena, HR__ARENA_NO_LIMIT);
    diff_work work = {.arena = &result->arena};
    hr_status status = fill_report(&work, before->model, after->model, &result->shown);
    if (status != HR_OK) {
        hr_diff_report_free(&result->shown);
        return status;
    }
    *out = &result->shown;
    return HR_OK;
}

void hr_diff_report_free(hr_diff_report *report)
{
    diff_result *result = (diff_result *)report;
    if (result == NULL)
        return;
    hr__arena_deinit(&result->arena);
    hr__host_free(result);
}
