/* report_tune.c - the setting to use on a card, and what was tried to find it. */
#include "vramwise/report.h"

#include "report/report_frames.h" /* vw__json_texts */
#include "report/report_runs.h"
#include "report/report_text.h"

/* Nothing of PyTorch's own does. */
static void say_that_vramwise_fits(vw__report *out, const vw_tune_report *report)
{
    vw__report_say(
        out, VW__STYLE_GREEN,
        "fits: %s of %s reserved at most, with vramwise's allocator in place of PyTorch's; "
        "with no setting of PyTorch's own",
        vw__size_text(report->best->peak_reserved_bytes).text,
        vw__size_text(report->card_bytes).text);
    vw__report_verbatim(out, "vramwise run --allocator ", report->best->policy);
}

static void say_that_it_fits(vw__report *out, const vw_tune_report *report)
{
    const char *conf = report->best->conf != NULL ? report->best->conf : "";
    if (vw__run_is_vramwise(report->best)) {
        say_that_vramwise_fits(out, report);
        return;
    }
    vw__report_say(out, VW__STYLE_GREEN, "fits: %s of %s reserved at most, with %s",
                   vw__size_text(report->best->peak_reserved_bytes).text,
                   vw__size_text(report->card_bytes).text,
                   conf[0] != '\0' ? conf : "PyTorch's defaults");
    if (conf[0] != '\0')
        vw__report_verbatim(out, "PYTORCH_CUDA_ALLOC_CONF=", conf);
    else
        vw__report_say(out, VW__STYLE_BOLD, "Leave PYTORCH_CUDA_ALLOC_CONF unset.");
}

static void say_that_it_does_not(vw__report *out, const vw_tune_report *report)
{
    if (!report->is_possible) {
        vw__report_say(out, VW__STYLE_RED,
                       "does not fit: %s are live at the peak, and the card has %s; no setting "
                       "can help",
                       vw__size_text(report->peak_live_bytes).text,
                       vw__size_text(report->card_bytes).text);
        return;
    }
    vw__report_say(out, VW__STYLE_RED,
                   "does not fit: none of %s completes on %s, though only %s are live at the peak",
                   vw__counted_text(report->tried_count, "setting").text,
                   vw__size_text(report->card_bytes).text,
                   vw__size_text(report->peak_live_bytes).text);
}

/* Of the two that matter: the best, where even that failed, and the one that was used. */
static bool say_failures(vw__report *out, const vw_tune_report *report)
{
    const vw_replay_result *best = report->best, *recorded = report->recorded;
    const bool has_best = best != NULL && best->has_oom;
    const bool has_recorded = recorded != NULL && recorded->has_oom && recorded != best;
    if (has_best)
        vw__report_run_oom(out, best);
    if (has_recorded)
        vw__report_run_oom(out, recorded);
    return has_best || has_recorded;
}

/* Its place is behind everything of PyTorch's that completes: beyond the rows that are shown. */
static void say_vramwise(vw__report *out, const vw_tune_report *report)
{
    for (size_t i = 0; i < report->tried_count; i++) {
        const vw_replay_result *result = &report->tried[i];
        if (result != report->best && result->is_complete && vw__run_is_vramwise(result))
            vw__report_fact(out, "allocator",
                            "%s would reserve %s, %s times the peak of live bytes", result->policy,
                            vw__size_text(result->peak_reserved_bytes).text,
                            vw__ratio_text(result->ratio).text);
    }
}

static void say_report(vw__report *out, const void *content)
{
    const vw_tune_report *report = content;
    if (report->fits && report->best != NULL)
        say_that_it_fits(out, report);
    else
        say_that_it_does_not(out, report);
    vw__report_blank(out);
    vw__report_runs(out, report->tried, report->tried_count, out->form.most_rows);
    vw__report_blank(out);
    if (say_failures(out, report))
        vw__report_blank(out);
    vw__report_fact(out, "events", "%s, on device %d", vw__count_text(report->event_count).text,
                    report->device);
    vw__report_fact(out, "peak live", "%s", vw__size_text(report->peak_live_bytes).text);
    say_vramwise(out, report);
    vw__report_remarks(out, report->warnings, report->warning_count, report->notes,
                       report->note_count);
}

static void json_report(vw__report *out, vw__json *json, const void *content)
{
    const vw_tune_report *report = content;
    vw__json_text(json, "file", out->form.file);
    vw__json_integer(json, "device", report->device);
    vw__json_unsigned(json, "events", report->event_count);
    vw__json_unsigned(json, "card_bytes", report->card_bytes);
    vw__json_unsigned(json, "peak_live_bytes", report->peak_live_bytes);
    vw__json_boolean(json, "possible", report->is_possible);
    vw__json_boolean(json, "fits", report->fits);
    vw__json_run(json, "best", report->best);
    vw__json_run(json, "recorded", report->recorded);
    vw__json_runs(json, "tried", report->tried, report->tried_count);
    vw__json_texts(json, "warnings", report->warnings, report->warning_count);
    vw__json_texts(json, "notes", report->notes, report->note_count);
}

vw_status vw_report_tune(const vw_tune_report *report, const vw_report_form *form,
                         const vw_output *output)
{
    static const vw__report_kind kind = {"search", say_report, json_report};
    return vw__report_as(&kind, report, form, output);
}
