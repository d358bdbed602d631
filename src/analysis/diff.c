/* diff.c - two recordings at their peaks, line by line.
 *
 * "What did my change cost?" Both recordings are looked at where most was live. What their lines
 * held is matched by diff_sites.c and diff_names.c, the rules of which are in diff_parts.h; here
 * are the two moments, the order of the rows, the categories and the notes.
 *
 * The rows account for the peaks: what they grew and shrank adds up to the difference in live
 * bytes. */
#include <stdlib.h> /* qsort */
#include <string.h>

#include "vramwise/analysis.h"
#include "analysis/diff_parts.h"
#include "analysis/moment.h"
#include "analysis/recording.h"
#include "analysis/result.h"
#include "analysis/timeline.h"
#include "base/error.h"

/* One of the two recordings. */
typedef struct diff_side {
    const char *name; /* "first", "second" */
    const vw__model *model;
    int device;
    vw_moment moment;
    uint64_t peak_reserved_bytes;
    uint64_t event_count;
} diff_side;

typedef struct diff_work {
    vw__arena *arena; /* the result's */
    vw__notes notes;
} diff_work;

/* ---- the two moments ------------------------------------------------------------------------- */

/* Without a trace: the device with the most reserved at the end. */
static int fullest_device(const vw__model *model)
{
    int fullest = 0;
    uint64_t most_bytes = 0, bytes = 0;
    for (size_t i = 0; i < model->segment_count; i++) {
        const vw__model_segment *segment = &model->segments[i];
        bool is_first = i == 0 || model->segments[i - 1].device != segment->device;
        bytes = (is_first ? 0 : bytes) + segment->total_bytes;
        if (segment->device != VW__MODEL_HOST_DEVICE && bytes > most_bytes) {
            most_bytes = bytes;
            fullest = segment->device;
        }
    }
    return fullest;
}

static vw_status look_at_end(diff_work *work, diff_side *side, const vw__attribution *attribution)
{
    side->device = fullest_device(side->model);
    side->peak_reserved_bytes = VW_UNKNOWN;
    vw__notes_add(&work->notes, "The %s recording has no trace: its end is compared, not its peak.",
                  side->name);
    return vw__moment_of_end(attribution, NULL, side->device, 0, work->arena, &side->moment);
}

static vw_status look_at_peak(diff_work *work, diff_side *side, const vw__attribution *attribution,
                              const vw__model_trace *trace)
{
    vw__timeline timeline;
    VW__TRY(vw__timeline_make(side->model, trace, &timeline));
    side->device = trace->device;
    side->event_count = trace->event_count;
    side->peak_reserved_bytes =
        timeline.is_reserved_known ? timeline.peak_reserved_bytes : VW_UNKNOWN;
    vw_status status = vw__moment_of_instant(&timeline, timeline.peak_instant, attribution, 0,
                                             work->arena, &side->moment);
    if (timeline.is_truncated)
        vw__notes_add(&work->notes,
                      "The trace of the %s recording does not begin at the first allocation: what "
                      "was allocated before shows only if it was freed later or is live at the "
                      "end.",
                      side->name);
    vw__timeline_deinit(&timeline);
    return status;
}

static vw_status look_at(diff_work *work, diff_side *side)
{
    vw__attribution attribution = {0};
    const vw__model_trace *trace = NULL;
    VW__TRY(vw__attribution_init(&attribution, side->model));
    bool has_trace = vw__recording_trace(side->model, VW_BUSIEST_DEVICE, &trace) == VW_OK;
    vw_status status = has_trace ? look_at_peak(work, side, &attribution, trace)
                                 : look_at_end(work, side, &attribution);
    vw__attribution_deinit(&attribution);
    return status;
}

/* ---- by line --------------------------------------------------------------------------------- */

static uint64_t difference_of(const vw_change *change)
{
    return change->after_bytes > change->before_bytes ? change->after_bytes - change->before_bytes
                                                      : change->before_bytes - change->after_bytes;
}

/* Largest difference first; then what is larger itself; then by name, so that the order is the same
 * on every machine. */
static int compare_changes(const void *left, const void *right)
{
    const vw_change *one = left, *other = right;
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

static void add_up(vw_diff_report *report)
{
    for (size_t i = 0; i < report->change_count; i++) {
        const vw_change *change = &report->changes[i];
        *(change->after_bytes > change->before_bytes ? &report->grown_bytes
                                                     : &report->shrunk_bytes) +=
            difference_of(change);
    }
}

static vw_status compare_lines(diff_work *work, const diff_side *before, const diff_side *after,
                               vw_diff_report *report)
{
    vw_change *changes;
    size_t count;
    VW__TRY(vw__diff_compare_sites(work->arena, &before->moment, &after->moment, report, &changes,
                                   &count));
    qsort(changes, count, sizeof *changes, compare_changes);
    report->changes = changes;
    report->change_count = count;
    report->is_same = count == 0;
    add_up(report);
    VW_ASSERT(before->moment.live_bytes + report->grown_bytes ==
              after->moment.live_bytes + report->shrunk_bytes);
    return VW_OK;
}

/* ---- by category ----------------------------------------------------------------------------- */

static void count_usage(vw_change *change, const vw_usage *usage, bool is_after)
{
    *(is_after ? &change->after_bytes : &change->before_bytes) += usage->bytes;
    *(is_after ? &change->after_count : &change->before_count) += usage->block_count;
}

static vw_change *category_change(vw_change *changes, size_t *count, const char *category)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp(changes[i].category, category) == 0)
            return &changes[i];
    changes[*count].category = category;
    return &changes[(*count)++];
}

static void add_categories(const diff_side *side, bool is_after, vw_change *changes, size_t *count)
{
    for (size_t i = 0; i < side->moment.category_count; i++) {
        const vw_usage *usage = &side->moment.categories[i];
        count_usage(category_change(changes, count, usage->category), usage, is_after);
    }
}

static vw_status compare_categories(diff_work *work, const diff_side *before,
                                    const diff_side *after, vw_diff_report *report)
{
    size_t count = 0;
    vw_change *changes = vw__arena_alloc_array(work->arena, VW__CATEGORY_COUNT, sizeof *changes,
                                               _Alignof(vw_change));
    if (changes == NULL)
        return vw__fail_host_memory(VW__CATEGORY_COUNT * sizeof *changes, "the changes");
    add_categories(before, false, changes, &count);
    add_categories(after, true, changes, &count);
    qsort(changes, count, sizeof *changes, compare_changes);
    report->categories = changes;
    report->category_count = count;
    return VW_OK;
}

/* ---- the report ------------------------------------------------------------------------------ */

static vw_moment without_usages(vw_moment moment)
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

static void add_notes(diff_work *work, const diff_side *before, const diff_side *after,
                      const vw_diff_report *report)
{
    if (before->device != after->device)
        vw__notes_add(&work->notes,
                      "Device %d is compared with device %d: those with the most events.",
                      before->device, after->device);
    if (report->before_conf != NULL && report->after_conf != NULL &&
        strcmp(report->before_conf, report->after_conf) != 0)
        vw__notes_add(&work->notes,
                      "The two ran under different allocator settings: reserved bytes differ "
                      "for that reason too.");
    const diff_side *sides[] = {before, after};
    for (size_t i = 0; i < 2; i++)
        if (!has_stacks(sides[i]))
            vw__notes_add(&work->notes,
                          "The %s recording has no stacks at its peak: who holds the memory is not "
                          "known there.",
                          sides[i]->name);
}

static vw_status fill_report(diff_work *work, const vw__model *before_model,
                             const vw__model *after_model, vw_diff_report *report)
{
    diff_side before = {.name = "first", .model = before_model};
    diff_side after = {.name = "second", .model = after_model};
    VW__TRY(look_at(work, &before));
    VW__TRY(look_at(work, &after));
    VW__TRY(compare_lines(work, &before, &after, report));
    VW__TRY(compare_categories(work, &before, &after, report));

    report->before_device = before.device;
    report->after_device = after.device;
    report->before = without_usages(before.moment);
    report->after = without_usages(after.moment);
    report->before_peak_reserved_bytes = before.peak_reserved_bytes;
    report->after_peak_reserved_bytes = after.peak_reserved_bytes;
    report->before_event_count = before.event_count;
    report->after_event_count = after.event_count;
    report->before_conf = vw__recording_conf_text(before_model);
    report->after_conf = vw__recording_conf_text(after_model);
    add_notes(work, &before, &after, report);
    return vw__notes_finish(&work->notes, &report->notes, &report->note_count);
}

vw_status vw_recordings_diff(const vw_recording *before, const vw_recording *after,
                             vw_diff_report **out)
{
    if (before == NULL || after == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected two recordings and a place for their differences");
    vw_diff_report *report = vw__result_create(sizeof *report);
    if (report == NULL)
        return vw__fail_host_memory(sizeof *report, "a comparison");
    diff_work work = {.arena = vw__result_arena(report)};
    vw__notes_init(&work.notes, work.arena);
    vw_status status = fill_report(&work, before->model, after->model, report);
    if (status == VW_OK)
        *out = report;
    else
        vw__result_free(report);
    return status;
}

void vw_diff_report_free(vw_diff_report *report)
{
    vw__result_free(report);
}
