/* report_replay.c - replays of a recording: the same requests under several settings (replay), and
 * the settings to choose for a card (tune). */
#include "vramwise/report.h"

#include <math.h> /* NAN, isnan */
#include <stdio.h>
#include <string.h>

#include "analysis/policies.h"
#include "report/report_fields.h"

/* ---- the fields of a run --------------------------------------------------------------------- */

/* "native", "recorded", "recorded (max_split_size_mb:128)", or the conf itself. */
static void append_setting(vw__byte_buffer *buffer, const void *object)
{
    const vw_replay_result *result = object;
    const bool has_conf = result->conf != NULL && result->conf[0] != '\0';
    if (strcmp(result->policy, "conf") == 0 && has_conf)
        vw__append_text(buffer, result->conf);
    else if (strcmp(result->policy, "recorded") == 0 && has_conf)
        vw__append_format(buffer, "recorded (%s)", result->conf);
    else
        vw__append_text(buffer, result->policy);
}

static void append_outcome(vw__byte_buffer *cell, const void *object)
{
    const vw_replay_result *result = object;
    vw__append_text(cell, result->is_complete ? "completed" : "out of memory");
}

static void append_smallest_card(vw__byte_buffer *cell, const void *object)
{
    const vw_replay_result *result = object;
    if (result->smallest_card_bytes != VW_UNKNOWN)
        vw__append_text(cell, vw__report_size(result->smallest_card_bytes).text);
}

/* The share of the recorded time, after the first quarter of the events, that was spent in the
 * driver; NAN = not known. */
static double settled_share(const vw_replay_result *result)
{
    if (result->settled_device_ns == VW_UNKNOWN || result->settled_duration_ns == VW_UNKNOWN ||
        result->settled_duration_ns == 0)
        return NAN;
    return (double)result->settled_device_ns / (double)result->settled_duration_ns;
}

static void json_settled_share(vw__report *out, vw__json *json, const char *key, const void *object)
{
    (void)out;
    vw__json_double(json, key, settled_share(object));
}

VW__REPORT_CONDITION(has_oom, vw_replay_result, has_oom)

#define CALLS(key, member) VW__REPORT_FIELD(COUNT, vw_replay_calls, key, member)
static const vw__report_field call_list[] = {
    {CALLS("alloc", alloc)},           {CALLS("free", free)}, {CALLS("create", create)},
    {CALLS("release", release)},       {CALLS("map", map)},   {CALLS("unmap", unmap)},
    {CALLS("set_access", set_access)},
};
static const vw__report_fields call_fields = VW__REPORT_FIELDS(vw_replay_calls, call_list);

#define RUN(kind, key, member) VW__REPORT_FIELD(kind, vw_replay_result, key, member)
static const vw__report_field oom_list[] = {
    {RUN(COUNT, "event", oom_event)},
    {RUN(BYTES, "tried_bytes", oom_tried_bytes)},
    {RUN(BYTES, "reserved_bytes", oom_reserved_bytes)},
    {RUN(BYTES, "allocated_bytes", oom_allocated_bytes)},
};
static const vw__report_fields oom_fields = VW__REPORT_FIELDS(vw_replay_result, oom_list);

static const vw__report_field run_list[] = {
    {VW__REPORT_COLUMN(1, NAME, "setting"), .append = append_setting},
    {RUN(TEXT, "policy", policy)},
    {RUN(TEXT, "conf", conf)},
    {RUN(BYTES, "card_bytes", card_bytes)},
    {RUN(BOOLEAN, "completed", is_complete), VW__REPORT_COLUMN(2, WORD, "result"),
     .append = append_outcome},
    {RUN(COUNT, "events_done", events_done)},
    {RUN(BYTES, "peak_reserved_bytes", peak_reserved_bytes),
     VW__REPORT_COLUMN(3, NUMBER, "reserved")},
    {RUN(BYTES, "peak_live_bytes", peak_live_bytes)},
    {RUN(BYTES, "peak_allocated_bytes", peak_allocated_bytes)},
    {RUN(RATIO, "ratio", ratio), VW__REPORT_COLUMN(4, NUMBER, "reserved\n/live")},
    {RUN(COUNT, "retries", retries), VW__REPORT_COLUMN(5, NUMBER, "retries")},
    {RUN(COUNT, "trims", trims)},
    {.key = "oom", .kind = VW__REPORT_FIELD_OBJECT, .fields = &oom_fields, .is_known = has_oom},
    {RUN(BOOLEAN, "past_recorded_oom", is_past_recorded_oom)},
    {RUN(OBJECT, "device_calls", calls), .fields = &call_fields},
    {RUN(NANOSECONDS, "device_us", device_ns), VW__REPORT_COLUMN(6, NUMBER, "driver\ncalls")},
    {RUN(NANOSECONDS, "longest_stall_us", longest_stall_ns)},
    {RUN(BYTES, "smallest_card_bytes", smallest_card_bytes),
     VW__REPORT_COLUMN(7, NUMBER, "smallest\ncard"), .append = append_smallest_card},
    {RUN(NANOSECONDS, "settled_device_us", settled_device_ns)},
    {.key = "settled_share", .kind = VW__REPORT_FIELD_RATIO, .write = json_settled_share},
    {RUN(BYTES, "moved_bytes", moved_bytes)},
    {RUN(BYTES, "copied_bytes", copied_bytes)},
    {RUN(BYTES, "spilled_bytes", peak_spilled_bytes)},
    {RUN(COUNT, "spills", spills)},
    {RUN(BYTES, "all_spilled_bytes", all_spilled_bytes)},
    {RUN(COUNT, "returns", returns)},
    {RUN(BYTES, "returned_bytes", returned_bytes)},
    {RUN(BYTES, "host_bytes", peak_host_bytes)},
    {RUN(NANOSECONDS, "spill_wait_us", spill_wait_ns)},
    {RUN(NANOSECONDS, "step_cost_us", step_cost_ns)},
    {RUN(BOOLEAN, "step_cost_settled", is_step_cost_settled)},
    {RUN(BYTES, "first_card_bytes", first_card_bytes)},
    {RUN(NANOSECONDS, "step_us", step_ns)},
    {RUN(BYTES, "stream_state_bytes", stream_state_bytes)},
    {RUN(BYTES, "stream_saved_bytes", stream_saved_bytes)},
    {RUN(BYTES, "stream_stayed_bytes", stream_stayed_bytes)},
    {RUN(NANOSECONDS, "stream_wait_us", stream_wait_ns)},
};
static const vw__report_fields run_fields = VW__REPORT_FIELDS(vw_replay_result, run_list);

/* ---- runs, for people ------------------------------------------------------------------------ */

/* A table of the first `most_rows` and, wherever it stands, of `always`, which may be NULL; and how
 * many more there are. */
static void say_runs(vw__report *out, const vw_replay_result *results, size_t result_count,
                     size_t most_rows, const vw_replay_result *always)
{
    vw__report_table table;
    size_t left_out = 0;
    vw__report_fields_table(&table, &run_fields);
    for (size_t i = 0; i < result_count; i++) {
        if (i < most_rows || &results[i] == always)
            vw__report_fields_row(
                &table, results[i].is_complete ? VW__REPORT_STYLE_PLAIN : VW__REPORT_STYLE_RED,
                &run_fields, &results[i]);
        else
            left_out++;
    }
    vw__report_table_end(&table, out);
    if (left_out > 0)
        vw__report_say(out, VW__REPORT_STYLE_FAINT, "and %s more", vw__report_count(left_out).text);
}

static void say_run_oom(vw__report *report, const vw_replay_result *result)
{
    vw__byte_buffer setting;
    vw__byte_buffer_init(&setting);
    append_setting(&setting, result);
    if (setting.has_failed)
        report->buffer.has_failed = true;
    const uint64_t idle_bytes = result->oom_reserved_bytes >= result->oom_allocated_bytes
                                    ? result->oom_reserved_bytes - result->oom_allocated_bytes
                                    : 0;
    vw__report_say(report, VW__REPORT_STYLE_PLAIN,
                   "%s: out of memory at event %s: %s asked of the device, %s reserved, %s of it "
                   "idle",
                   vw__byte_buffer_text(&setting), vw__report_count(result->oom_event).text,
                   vw__report_size(result->oom_tried_bytes).text,
                   vw__report_size(result->oom_reserved_bytes).text,
                   vw__report_size(idle_bytes).text);
    vw__byte_buffer_deinit(&setting);
}

static void say_run_moves(vw__report *report, const vw_replay_result *result)
{
    const double share = settled_share(result);
    vw__report_text copied = {"nothing"}, settled = {""};
    if (result->copied_bytes != 0)
        copied = vw__report_size(result->copied_bytes);
    if (!isnan(share) && result->spills == 0) /* else it is what was spilled that takes the time */
        snprintf(settled.text, sizeof settled.text, ", %.12s %s the recorded time once settled",
                 share > 1 ? vw__report_ratio(share).text : vw__report_share(share).text,
                 share > 1 ? "times" : "of");
    vw__report_say(report, VW__REPORT_STYLE_PLAIN,
                   "%s: %s of free memory moved, %s copied; in the driver at most %s at a time%s",
                   result->policy, vw__report_size(result->moved_bytes).text, copied.text,
                   vw__report_duration(result->longest_stall_ns).text, settled.text);
}

/* "about 4.78 ms longer a step" */
static vw__report_text step_cost_text(const vw_replay_result *result)
{
    vw__report_text text = {"what a step costs is not known"};
    if (result->step_cost_ns != VW_UNKNOWN)
        snprintf(text.text, sizeof text.text, "about %.20s longer %s",
                 vw__report_duration(result->step_cost_ns).text,
                 result->is_step_cost_settled ? "a step" : "in each of the first steps");
    return text;
}

/* " (1.04 times as long)"; empty if not known. */
static vw__report_text step_ratio_text(const vw_replay_result *result)
{
    vw__report_text text = {""};
    if (result->step_cost_ns != VW_UNKNOWN && result->is_step_cost_settled &&
        result->step_ns != VW_UNKNOWN && result->step_ns != 0)
        snprintf(
            text.text, sizeof text.text, " (%.20s times as long)",
            vw__report_ratio(1.0 + (double)result->step_cost_ns / (double)result->step_ns).text);
    return text;
}

static vw__report_text came_back_text(const vw_replay_result *result)
{
    vw__report_text text = {"nothing came back"};
    if (result->returns != 0)
        snprintf(text.text, sizeof text.text, "%.20s came back in %.20s",
                 vw__report_size(result->returned_bytes).text,
                 vw__report_count(result->returns).text);
    return text;
}

static void say_run_spills(vw__report *report, const vw_replay_result *result)
{
    vw__report_say(report, VW__REPORT_STYLE_PLAIN,
                   "%s: at most %s spilled to %s of host memory (%s in %s, %s), which took %s; "
                   "%s%s",
                   result->policy, vw__report_size(result->peak_spilled_bytes).text,
                   vw__report_size(result->peak_host_bytes).text,
                   vw__report_size(result->all_spilled_bytes).text,
                   vw__report_counted(result->spills, "time").text, came_back_text(result).text,
                   vw__report_duration(result->spill_wait_ns).text, step_cost_text(result).text,
                   step_ratio_text(result).text);
}

/* Beside streams, with which the cost of a step and the host memory are named. */
static void say_run_spills_besides(vw__report *report, const vw_replay_result *result)
{
    vw__report_say(report, VW__REPORT_STYLE_PLAIN,
                   "%s: besides, at most %s spilled (%s in %s, %s), which took %s", result->policy,
                   vw__report_size(result->peak_spilled_bytes).text,
                   vw__report_size(result->all_spilled_bytes).text,
                   vw__report_counted(result->spills, "time").text, came_back_text(result).text,
                   vw__report_duration(result->spill_wait_ns).text);
}

static void say_run_streams(vw__report *report, const vw_replay_result *result)
{
    vw__report_text stayed = {""};
    if (result->stream_stayed_bytes != 0)
        snprintf(stayed.text, sizeof stayed.text, ", %.20s of the state stay in host memory",
                 vw__report_size(result->stream_stayed_bytes).text);
    vw__report_say(report, VW__REPORT_STYLE_PLAIN,
                   "%s: in each step %s of the optimizer's state and %s of saved tensors leave and "
                   "return%s, with %s of host memory; copies are waited for %s; %s%s",
                   result->policy, vw__report_size(result->stream_state_bytes).text,
                   vw__report_size(result->stream_saved_bytes).text, stayed.text,
                   vw__report_size(result->peak_host_bytes).text,
                   vw__report_duration(result->stream_wait_ns).text, step_cost_text(result).text,
                   step_ratio_text(result).text);
}

/* What went to host memory, and what a step costs. */
static void say_run_host(vw__report *report, const vw_replay_result *result, bool has_streams)
{
    const bool is_streamed =
        result->stream_state_bytes + result->stream_saved_bytes + result->stream_stayed_bytes != 0;
    if (is_streamed)
        say_run_streams(report, result);
    if (result->spills != 0 && is_streamed)
        say_run_spills_besides(report, result);
    else if (result->spills != 0)
        say_run_spills(report, result);
    else if (!is_streamed)
        vw__report_say(report, VW__REPORT_STYLE_PLAIN, "%s: nothing %s", result->policy,
                       has_streams ? "had to leave the device" : "was spilled");
}

/* ---- replay ---------------------------------------------------------------------------------- */

/* The complete run that reserved least; NULL if none is complete. */
static const vw_replay_result *leanest_of(const vw_replay_report *report, size_t *complete_count)
{
    const vw_replay_result *leanest = NULL;
    *complete_count = 0;
    for (size_t i = 0; i < report->result_count; i++) {
        const vw_replay_result *result = &report->results[i];
        if (!result->is_complete)
            continue;
        ++*complete_count;
        if (leanest == NULL || result->peak_reserved_bytes < leanest->peak_reserved_bytes)
            leanest = result;
    }
    return leanest;
}

static void say_leanest(vw__report *out, const vw_replay_report *report)
{
    size_t complete_count;
    const vw_replay_result *leanest = leanest_of(report, &complete_count);
    if (leanest == NULL) {
        vw__report_say(out, VW__REPORT_STYLE_RED, "out of memory: %s, and none completed",
                       vw__report_counted(report->result_count, "run").text);
        return;
    }
    vw__byte_buffer setting;
    vw__byte_buffer_init(&setting);
    append_setting(&setting, leanest);
    if (setting.has_failed)
        out->buffer.has_failed = true;
    vw__report_text how_many = {"completed"};
    if (report->result_count > 1)
        snprintf(how_many.text, sizeof how_many.text, "%.20s of %.25s completed",
                 vw__report_count(complete_count).text,
                 vw__report_counted(report->result_count, "run").text);
    vw__report_text spilled = {""};
    if (leanest->spills != 0) /* which counts as reserved: it may be more than the card has */
        snprintf(spilled.text, sizeof spilled.text, ", with up to %.20s in host memory",
                 vw__report_size(leanest->peak_spilled_bytes).text);
    vw__report_say(
        out,
        complete_count == report->result_count ? VW__REPORT_STYLE_GREEN : VW__REPORT_STYLE_YELLOW,
        "%s; %s reserved %s: %s, %s times the %s that were live at most%s", how_many.text,
        vw__byte_buffer_text(&setting), report->result_count > 1 ? "least" : "at most",
        vw__report_size(leanest->peak_reserved_bytes).text, vw__report_ratio(leanest->ratio).text,
        vw__report_size(leanest->peak_live_bytes).text, spilled.text);
    vw__byte_buffer_deinit(&setting);
}

/* Returns whether any run failed. */
static bool say_all_failures(vw__report *out, const vw_replay_report *report)
{
    bool is_any = false;
    for (size_t i = 0; i < report->result_count; i++) {
        if (!report->results[i].has_oom)
            continue;
        say_run_oom(out, &report->results[i]);
        is_any = true;
    }
    return is_any;
}

static bool say_moves(vw__report *out, const vw_replay_report *report)
{
    bool is_any = false;
    for (size_t i = 0; i < report->result_count; i++) {
        if (!vw__policy_is_vramwise(report->results[i].policy))
            continue;
        say_run_moves(out, &report->results[i]);
        if (report->spill_bytes != 0)
            say_run_host(out, &report->results[i], report->stream);
        is_any = true;
    }
    return is_any;
}

static void say_replay(vw__report *out, const void *content)
{
    const vw_replay_report *report = content;
    say_leanest(out, report);
    vw__report_blank(out);
    say_runs(out, report->results, report->result_count, SIZE_MAX, NULL);
    vw__report_blank(out);
    if (say_all_failures(out, report))
        vw__report_blank(out);
    if (say_moves(out, report))
        vw__report_blank(out);
    vw__report_fact(out, "events", "%s, on device %d", vw__report_count(report->event_count).text,
                    report->device);
    vw__report_fact(out, "peak live", "%s, at event %s",
                    vw__report_size(report->peak_live_bytes).text,
                    vw__report_count(report->peak_live_event).text);
    if (report->result_count > 0 && report->results[0].card_bytes != VW_UNKNOWN)
        vw__report_fact(out, "card", "%s", vw__report_size(report->results[0].card_bytes).text);
    if (report->spill_bytes != 0)
        vw__report_fact(out, "spill", "up to %s of host memory%s",
                        vw__report_size(report->spill_bytes).text,
                        report->stream ? ", with streams" : "");
    if (report->recorded_oom_event != VW_UNKNOWN)
        vw__report_fact(out, "recorded", "ended out of memory, first at event %s",
                        vw__report_count(report->recorded_oom_event).text);
    if (report->step_count > 0)
        vw__report_fact(out, "steps", "%s", vw__report_count(report->step_count).text);
    vw__report_remarks(out, NULL, 0, report->notes, report->note_count);
}

VW__REPORT_CONDITION(may_spill, vw_replay_report, spill_bytes != 0)

#define REPLAY(kind, key, member) VW__REPORT_FIELD(kind, vw_replay_report, key, member)
static const vw__report_field replay_list[] = {
    {.key = "file", .kind = VW__REPORT_FIELD_FILE},
    {REPLAY(INTEGER, "device", device)},
    {REPLAY(COUNT, "events", event_count)},
    {REPLAY(BYTES, "peak_live_bytes", peak_live_bytes)},
    {REPLAY(COUNT, "peak_live_event", peak_live_event)},
    {REPLAY(COUNT, "recorded_oom_event", recorded_oom_event)},
    {REPLAY(COUNT, "steps", step_count)},
    {REPLAY(BYTES, "spill_bytes", spill_bytes), .is_known = may_spill},
    {REPLAY(OBJECTS, "results", results), VW__REPORT_COUNTED(vw_replay_report, result_count),
     .fields = &run_fields},
    {REPLAY(TEXTS, "notes", notes), VW__REPORT_COUNTED(vw_replay_report, note_count)},
    {REPLAY(BOOLEAN, "stream", stream)},
};
static const vw__report_fields replay_fields = VW__REPORT_FIELDS(vw_replay_report, replay_list);

vw_status vw_report_replay(const vw_replay_report *report, const vw_report_form *form,
                           const vw_output *output)
{
    static const vw__report_kind kind = {"replay", say_replay, &replay_fields, "results"};
    return vw__report_as(&kind, report, form, output);
}

/* ---- tune ------------------------------------------------------------------------------------ */

/* Nothing of PyTorch's own does. */
static void say_that_vramwise_fits(vw__report *out, const vw_tune_report *report)
{
    vw__report_say(
        out, VW__REPORT_STYLE_GREEN,
        "fits: %s of %s reserved at most, with vramwise's allocator in place of PyTorch's; "
        "with no setting of PyTorch's own",
        vw__report_size(report->best->peak_reserved_bytes).text,
        vw__report_size(report->card_bytes).text);
    vw__report_verbatim(out, "vramwise run --allocator ", report->best->policy);
}

static void say_that_it_fits(vw__report *out, const vw_tune_report *report)
{
    const char *conf = report->best->conf != NULL ? report->best->conf : "";
    const char *variable = report->variable != NULL ? report->variable : "PYTORCH_CUDA_ALLOC_CONF";
    if (vw__policy_is_vramwise(report->best->policy)) {
        say_that_vramwise_fits(out, report);
        return;
    }
    vw__report_say(out, VW__REPORT_STYLE_GREEN, "fits: %s of %s reserved at most, with %s",
                   vw__report_size(report->best->peak_reserved_bytes).text,
                   vw__report_size(report->card_bytes).text,
                   conf[0] != '\0' ? conf : "PyTorch's defaults");
    if (conf[0] != '\0') {
        char assignment[64];
        (void)snprintf(assignment, sizeof assignment, "%s=", variable);
        vw__report_verbatim(out, assignment, conf);
    } else {
        vw__report_say(out, VW__REPORT_STYLE_BOLD, "Leave %s unset.", variable);
    }
}

static void say_that_it_does_not(vw__report *out, const vw_tune_report *report)
{
    if (!report->is_possible) {
        vw__report_say(out, VW__REPORT_STYLE_RED,
                       "does not fit: %s are live at the peak, and the card has %s; no setting "
                       "can help",
                       vw__report_size(report->peak_live_bytes).text,
                       vw__report_size(report->card_bytes).text);
        return;
    }
    vw__report_say(out, VW__REPORT_STYLE_RED,
                   "does not fit: none of %s completes on %s, though only %s are live at the peak",
                   vw__report_counted(report->tried_count, "setting").text,
                   vw__report_size(report->card_bytes).text,
                   vw__report_size(report->peak_live_bytes).text);
}

/* Says where the best run failed, if it did, and the recorded one. Returns whether either did. */
static bool say_failures(vw__report *out, const vw_tune_report *report)
{
    const vw_replay_result *best = report->best, *recorded = report->recorded;
    const bool has_best = best != NULL && best->has_oom;
    const bool has_recorded = recorded != NULL && recorded->has_oom && recorded != best;
    if (has_best)
        say_run_oom(out, best);
    if (has_recorded)
        say_run_oom(out, recorded);
    return has_best || has_recorded;
}

/* vramwise's runs are sorted behind all of PyTorch's that complete, often beyond the rows shown. */
static void say_vramwise(vw__report *out, const vw_tune_report *report)
{
    for (size_t i = 0; i < report->tried_count; i++) {
        const vw_replay_result *result = &report->tried[i];
        if (result != report->best && result->is_complete && vw__policy_is_vramwise(result->policy))
            vw__report_fact(out, "allocator",
                            "%s would reserve %s, %s times the peak of live bytes", result->policy,
                            vw__report_size(result->peak_reserved_bytes).text,
                            vw__report_ratio(result->ratio).text);
    }
}

static void say_tune(vw__report *out, const void *content)
{
    const vw_tune_report *report = content;
    if (report->fits && report->best != NULL)
        say_that_it_fits(out, report);
    else
        say_that_it_does_not(out, report);
    vw__report_blank(out);
    say_runs(out, report->tried, report->tried_count, out->form.most_rows, report->recorded);
    vw__report_blank(out);
    if (say_failures(out, report))
        vw__report_blank(out);
    vw__report_fact(out, "events", "%s, on device %d", vw__report_count(report->event_count).text,
                    report->device);
    vw__report_fact(out, "peak live", "%s", vw__report_size(report->peak_live_bytes).text);
    say_vramwise(out, report);
    vw__report_remarks(out, report->warnings, report->warning_count, report->notes,
                       report->note_count);
}

#define TUNE(kind, key, member) VW__REPORT_FIELD(kind, vw_tune_report, key, member)
static const vw__report_field tune_list[] = {
    {.key = "file", .kind = VW__REPORT_FIELD_FILE},
    {TUNE(INTEGER, "device", device)},
    {TUNE(COUNT, "events", event_count)},
    {TUNE(BYTES, "card_bytes", card_bytes)},
    {TUNE(BYTES, "peak_live_bytes", peak_live_bytes)},
    {TUNE(BOOLEAN, "possible", is_possible)},
    {TUNE(BOOLEAN, "fits", fits)},
    {TUNE(POINTER, "best", best), .fields = &run_fields},
    {TUNE(POINTER, "recorded", recorded), .fields = &run_fields},
    {TUNE(OBJECTS, "tried", tried), VW__REPORT_COUNTED(vw_tune_report, tried_count),
     .fields = &run_fields},
    {TUNE(TEXTS, "warnings", warnings), VW__REPORT_COUNTED(vw_tune_report, warning_count)},
    {TUNE(TEXTS, "notes", notes), VW__REPORT_COUNTED(vw_tune_report, note_count)},
};
static const vw__report_fields tune_fields = VW__REPORT_FIELDS(vw_tune_report, tune_list);

vw_status vw_report_tune(const vw_tune_report *report, const vw_report_form *form,
                         const vw_output *output)
{
    static const vw__report_kind kind = {"search", say_tune, &tune_fields, "tried"};
    return vw__report_as(&kind, report, form, output);
}
