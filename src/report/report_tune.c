/* report_tune.c - the setting to use on a card, and what was tried to find it. */
#include "headroom/report.h"

#include "base/error.h"
#include "export/json_write.h"
#include "report/report_frames.h" /* hr__json_texts */
#include "report/report_runs.h"
#include "report/report_text.h"

/* Nothing of PyTorch's own does. */
static void say_that_headroom_fits(hr__report *out, const hr_tune_report *report)
{
    hr__report_say(
        out, HR__STYLE_GREEN,
        "fits: %s of %s reserved at most, with headroom's allocator in place of PyTorch's; "
        "with no setting of PyTorch's own",
        hr__size_text(report->best->peak_reserved_bytes).text,
        hr__size_text(report->card_bytes).text);
    hr__report_verbatim(out, "headroom run --allocator ", report->best->policy);
}

static void say_that_it_fits(hr__report *out, const hr_tune_report *report)
{
    const char *conf = report->best->conf != NULL ? report->best->conf : "";
    if (hr__run_is_headroom(report->best)) {
        say_that_headroom_fits(out, report);
        return;
    }
    hr__report_say(out, HR__STYLE_GREEN, "fits: %s of %s reserved at most, with %s",
                   hr__size_text(report->best->peak_reserved_bytes).text,
                   hr__size_text(report->card_bytes).text,
                   conf[0] != '\0' ? conf : "PyTorch's defaults");
    if (conf[0] != '\0')
        hr__report_verbatim(out, "PYTORCH_CUDA_ALLOC_CONF=", conf);
    else
        hr__report_say(out, HR__STYLE_BOLD, "Leave PYTORCH_CUDA_ALLOC_CONF unset.");
}

static void say_that_it_does_not(hr__report *out, const hr_tune_report *report)
{
    if (!report->is_possible) {
        hr__report_say(out, HR__STYLE_RED,
                       "does not fit: %s are live at the peak, and the card has %s; no setting "
                       "can help",
                       hr__size_text(report->peak_live_bytes).text,
                       hr__size_text(report->card_bytes).text);
        return;
    }
    hr__report_say(out, HR__STYLE_RED,
                   "does not fit: none of %s completes on %s, though only %s are live at the peak",
                   hr__counted_text(report->tried_count, "setting").text,
                   hr__size_text(report->card_bytes).text,
                   hr__size_text(report->peak_live_bytes).text);
}

/* Of the two that matter: the best, where even that failed, and the one that was used. */
static bool say_failures(hr__report *out, const hr_tune_report *report)
{
    const hr_replay_result *best = report->best, *recorded = report->recorded;
    const bool has_best = best != NULL && best->has_oom;
    const bool has_recorded = recorded != NULL && recorded->has_oom && recorded != best;
    if (has_best)
        hr__report_run_oom(out, best);
    if (has_recorded)
        hr__report_run_oom(out, recorded);
    return has_best || has_recorded;
}

/* Its place is behind everything of PyTorch's that completes: beyond the rows that are shown. */
static void say_headroom(hr__report *out, const hr_tune_report *report)
{
    for (size_t i = 0; i < report->tried_count; i++) {
        const hr_replay_result *result = &report->tried[i];
        if (result != report->best && result->is_complete && hr__run_is_headroom(result))
            hr__report_fact(out, "allocator",
                            "%s would reserve %s, %s times the peak of live bytes", result->policy,
                            hr__size_text(result->peak_reserved_bytes).text,
                            hr__ratio_text(result->ratio).text);
    }
}

static void say_report(hr__report *out, const hr_tune_report *report)
{
    if (report->fits && report->best != NULL)
        say_that_it_fits(out, report);
    else
        say_that_it_does_not(out, report);
    hr__report_blank(out);
    hr__report_runs(out, report->tried, report->tried_count, out->form.most_rows);
    hr__report_blank(out);
    if (say_failures(out, report))
        hr__report_blank(out);
    hr__report_fact(out, "events", "%s, on device %d", hr__count_text(report->event_count).text,
                    report->device);
    hr__report_fact(out, "peak live", "%s", hr__size_text(report->peak_live_bytes).text);
    say_headroom(out, report);
    if (report->warning_count + report->note_count > 0)
        hr__report_blank(out);
    hr__report_list(out, HR__STYLE_YELLOW, "warning", report->warnings, report->warning_count);
    hr__report_list(out, HR__STYLE_PLAIN, "note", report->notes, report->note_count);
}

static void json_report(hr__report *out, const hr_tune_report *report)
{
    hr__json json;
    hr__json_init(&json, &out->buffer);
    hr__json_begin_object(&json, NULL);
    hr__json_unsigned(&json, "schema", 1);
    hr__json_text(&json, "file", out->form.file);
    hr__json_integer(&json, "device", report->device);
    hr__json_unsigned(&json, "events", report->event_count);
    hr__json_unsigned(&json, "card_bytes", report->card_bytes);
    hr__json_unsigned(&json, "peak_live_bytes", report->peak_live_bytes);
    hr__json_boolean(&json, "possible", report->is_possible);
    hr__json_boolean(&json, "fits", report->fits);
    hr__json_run(&json, "best", report->best);
    hr__json_run(&json, "recorded", report->recorded);
    hr__json_runs(&json, "tried", report->tried, report->tried_count);
    hr__json_texts(&json, "warnings", report->warnings, report->warning_count);
    hr__json_texts(&json, "notes", report->notes, report->note_count);
    hr__json_end_object(&json);
    hr__append_text(&out->buffer, "\n");
}

hr_status hr_report_tune(const hr_tune_report *report, const hr_report_form *form,
                         const hr_output *output)
{
    hr__report out;
    if (report == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "no search to report: it is NULL");
    hr__report_init(&out, form);
    if (out.form.is_json)
        json_report(&out, report);
    else
        say_report(&out, report);
    return hr__report_send(&out, output);
}
