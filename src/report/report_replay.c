/* report_replay.c - the same requests under several settings, side by side. */
#include "headroom/report.h"

#include <stdio.h>

#include "base/error.h"
#include "export/json_write.h"
#include "report/report_frames.h" /* hr__json_texts */
#include "report/report_runs.h"
#include "report/report_text.h"

/* The complete run that reserved least; NULL if none is complete. */
static const hr_replay_result *leanest_of(const hr_replay_report *report, size_t *complete_count)
{
    const hr_replay_result *leanest = NULL;
    *complete_count = 0;
    for (size_t i = 0; i < report->result_count; i++) {
        const hr_replay_result *result = &report->results[i];
        if (!result->is_complete)
            continue;
        ++*complete_count;
        if (leanest == NULL || result->peak_reserved_bytes < leanest->peak_reserved_bytes)
            leanest = result;
    }
    return leanest;
}

static void say_answer(hr__report *out, const hr_replay_report *report)
{
    size_t complete_count;
    const hr_replay_result *leanest = leanest_of(report, &complete_count);
    if (leanest == NULL) {
        hr__report_say(out, HR__STYLE_RED, "out of memory: %s, and none completed",
                       hr__counted_text(report->result_count, "run").text);
        return;
    }
    hr__byte_buffer setting;
    hr__byte_buffer_init(&setting);
    hr__append_setting(&setting, leanest);
    if (setting.has_failed)
        out->buffer.has_failed = true;
    hr__text how_many = {"completed"};
    if (report->result_count > 1)
        snprintf(how_many.text, sizeof how_many.text, "%.20s of %.25s completed",
                 hr__count_text(complete_count).text,
                 hr__counted_text(report->result_count, "run").text);
    hr__text spilled = {""};
    if (leanest->spills != 0) /* which counts as reserved: it may be more than the card has */
        snprintf(spilled.text, sizeof spilled.text, ", with up to %.20s in host memory",
                 hr__size_text(leanest->peak_spilled_bytes).text);
    hr__report_say(out, complete_count == report->result_count ? HR__STYLE_GREEN : HR__STYLE_YELLOW,
                   "%s; %s reserved %s: %s, %s times the %s that were live%s", how_many.text,
                   hr__byte_buffer_text(&setting), report->result_count > 1 ? "least" : "at most",
                   hr__size_text(leanest->peak_reserved_bytes).text,
                   hr__ratio_text(leanest->ratio).text,
                   hr__size_text(leanest->peak_live_bytes).text, spilled.text);
    hr__byte_buffer_deinit(&setting);
}

/* Was there any? */
static bool say_failures(hr__report *out, const hr_replay_report *report)
{
    bool is_any = false;
    for (size_t i = 0; i < report->result_count; i++) {
        if (!report->results[i].has_oom)
            continue;
        hr__report_run_oom(out, &report->results[i]);
        is_any = true;
    }
    return is_any;
}

static bool say_moves(hr__report *out, const hr_replay_report *report)
{
    bool is_any = false;
    for (size_t i = 0; i < report->result_count; i++) {
        if (!hr__run_is_headroom(&report->results[i]))
            continue;
        hr__report_run_moves(out, &report->results[i]);
        if (report->spill_bytes != 0)
            hr__report_run_spills(out, &report->results[i]);
        is_any = true;
    }
    return is_any;
}

static void say_report(hr__report *out, const hr_replay_report *report)
{
    say_answer(out, report);
    hr__report_blank(out);
    hr__report_runs(out, report->results, report->result_count, SIZE_MAX);
    hr__report_blank(out);
    if (say_failures(out, report))
        hr__report_blank(out);
    if (say_moves(out, report))
        hr__report_blank(out);
    hr__report_fact(out, "events", "%s, on device %d", hr__count_text(report->event_count).text,
                    report->device);
    hr__report_fact(out, "peak live", "%s, at event %s",
                    hr__size_text(report->peak_live_bytes).text,
                    hr__count_text(report->peak_live_event).text);
    if (report->result_count > 0 && report->results[0].card_bytes != HR_UNKNOWN)
        hr__report_fact(out, "card", "%s", hr__size_text(report->results[0].card_bytes).text);
    if (report->spill_bytes != 0)
        hr__report_fact(out, "spill", "up to %s of host memory",
                        hr__size_text(report->spill_bytes).text);
    if (report->recorded_oom_event != HR_UNKNOWN)
        hr__report_fact(out, "recorded", "ended out of memory, first at event %s",
                        hr__count_text(report->recorded_oom_event).text);
    if (report->step_count > 0)
        hr__report_fact(out, "steps", "%s", hr__count_text(report->step_count).text);
    if (report->note_count > 0)
        hr__report_blank(out);
    hr__report_list(out, HR__STYLE_PLAIN, "note", report->notes, report->note_count);
}

static void json_report(hr__report *out, const hr_replay_report *report)
{
    hr__json json;
    hr__json_init(&json, &out->buffer);
    hr__json_begin_object(&json, NULL);
    hr__json_unsigned(&json, "schema", 1);
    hr__json_text(&json, "file", out->form.file);
    hr__json_integer(&json, "device", report->device);
    hr__json_unsigned(&json, "events", report->event_count);
    hr__json_unsigned(&json, "peak_live_bytes", report->peak_live_bytes);
    hr__json_known(&json, "peak_live_event", report->peak_live_event);
    hr__json_known(&json, "recorded_oom_event", report->recorded_oom_event);
    hr__json_unsigned(&json, "steps", report->step_count);
    hr__json_known(&json, "spill_bytes",
                   report->spill_bytes != 0 ? report->spill_bytes : HR_UNKNOWN);
    hr__json_runs(&json, "results", report->results, report->result_count);
    hr__json_texts(&json, "notes", report->notes, report->note_count);
    hr__json_end_object(&json);
    hr__append_text(&out->buffer, "\n");
}

hr_status hr_report_replay(const hr_replay_report *report, const hr_report_form *form,
                           const hr_output *output)
{
    hr__report out;
    if (report == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "no replay to report: it is NULL");
    hr__report_init(&out, form);
    if (out.form.is_json)
        json_report(&out, report);
    else
        say_report(&out, report);
    return hr__report_send(&out, output);
}
