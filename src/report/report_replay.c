/* report_replay.c - the same requests under several settings, side by side. */
#include "vramwise/report.h"

#include <stdio.h>

#include "report/report_frames.h" /* vw__json_texts */
#include "report/report_runs.h"
#include "report/report_text.h"

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

static void say_answer(vw__report *out, const vw_replay_report *report)
{
    size_t complete_count;
    const vw_replay_result *leanest = leanest_of(report, &complete_count);
    if (leanest == NULL) {
        vw__report_say(out, VW__STYLE_RED, "out of memory: %s, and none completed",
                       vw__counted_text(report->result_count, "run").text);
        return;
    }
    vw__byte_buffer setting;
    vw__byte_buffer_init(&setting);
    vw__append_setting(&setting, leanest);
    if (setting.has_failed)
        out->buffer.has_failed = true;
    vw__text how_many = {"completed"};
    if (report->result_count > 1)
        snprintf(how_many.text, sizeof how_many.text, "%.20s of %.25s completed",
                 vw__count_text(complete_count).text,
                 vw__counted_text(report->result_count, "run").text);
    vw__text spilled = {""};
    if (leanest->spills != 0) /* which counts as reserved: it may be more than the card has */
        snprintf(spilled.text, sizeof spilled.text, ", with up to %.20s in host memory",
                 vw__size_text(leanest->peak_spilled_bytes).text);
    vw__report_say(
        out, complete_count == report->result_count ? VW__STYLE_GREEN : VW__STYLE_YELLOW,
        "%s; %s reserved %s: %s, %s times the %s that were live at most%s", how_many.text,
        vw__byte_buffer_text(&setting), report->result_count > 1 ? "least" : "at most",
        vw__size_text(leanest->peak_reserved_bytes).text, vw__ratio_text(leanest->ratio).text,
        vw__size_text(leanest->peak_live_bytes).text, spilled.text);
    vw__byte_buffer_deinit(&setting);
}

/* Was there any? */
static bool say_failures(vw__report *out, const vw_replay_report *report)
{
    bool is_any = false;
    for (size_t i = 0; i < report->result_count; i++) {
        if (!report->results[i].has_oom)
            continue;
        vw__report_run_oom(out, &report->results[i]);
        is_any = true;
    }
    return is_any;
}

static bool say_moves(vw__report *out, const vw_replay_report *report)
{
    bool is_any = false;
    for (size_t i = 0; i < report->result_count; i++) {
        if (!vw__run_is_vramwise(&report->results[i]))
            continue;
        vw__report_run_moves(out, &report->results[i]);
        if (report->spill_bytes != 0)
            vw__report_run_spills(out, &report->results[i]);
        is_any = true;
    }
    return is_any;
}

static void say_report(vw__report *out, const void *content)
{
    const vw_replay_report *report = content;
    say_answer(out, report);
    vw__report_blank(out);
    vw__report_runs(out, report->results, report->result_count, SIZE_MAX);
    vw__report_blank(out);
    if (say_failures(out, report))
        vw__report_blank(out);
    if (say_moves(out, report))
        vw__report_blank(out);
    vw__report_fact(out, "events", "%s, on device %d", vw__count_text(report->event_count).text,
                    report->device);
    vw__report_fact(out, "peak live", "%s, at event %s",
                    vw__size_text(report->peak_live_bytes).text,
                    vw__count_text(report->peak_live_event).text);
    if (report->result_count > 0 && report->results[0].card_bytes != VW_UNKNOWN)
        vw__report_fact(out, "card", "%s", vw__size_text(report->results[0].card_bytes).text);
    if (report->spill_bytes != 0)
        vw__report_fact(out, "spill", "up to %s of host memory",
                        vw__size_text(report->spill_bytes).text);
    if (report->recorded_oom_event != VW_UNKNOWN)
        vw__report_fact(out, "recorded", "ended out of memory, first at event %s",
                        vw__count_text(report->recorded_oom_event).text);
    if (report->step_count > 0)
        vw__report_fact(out, "steps", "%s", vw__count_text(report->step_count).text);
    vw__report_remarks(out, NULL, 0, report->notes, report->note_count);
}

static void json_report(vw__report *out, vw__json *json, const void *content)
{
    const vw_replay_report *report = content;
    vw__json_text(json, "file", out->form.file);
    vw__json_integer(json, "device", report->device);
    vw__json_unsigned(json, "events", report->event_count);
    vw__json_unsigned(json, "peak_live_bytes", report->peak_live_bytes);
    vw__json_known(json, "peak_live_event", report->peak_live_event);
    vw__json_known(json, "recorded_oom_event", report->recorded_oom_event);
    vw__json_unsigned(json, "steps", report->step_count);
    vw__json_known(json, "spill_bytes",
                   report->spill_bytes != 0 ? report->spill_bytes : VW_UNKNOWN);
    vw__json_runs(json, "results", report->results, report->result_count);
    vw__json_texts(json, "notes", report->notes, report->note_count);
}

vw_status vw_report_replay(const vw_replay_report *report, const vw_report_form *form,
                           const vw_output *output)
{
    static const vw__report_kind kind = {"replay", say_report, json_report};
    return vw__report_as(&kind, report, form, output);
}
