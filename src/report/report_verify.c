/* report_verify.c - did the recording come out again, and if not, where it parted. */
#include "headroom/report.h"

#include "base/error.h"
#include "export/json_write.h"
#include "report/report_frames.h" /* hr__json_texts */
#include "report/report_text.h"

/* ---- for people ------------------------------------------------------------------------------ */

/* Was there anything to hold against? A cut trace has events and no layout to begin with. */
static bool is_anything_verifiable(const hr_verify_result *result)
{
    return result->segment_events_recorded != 0 || result->placements_recorded != 0 ||
           result->end_segments_recorded != 0;
}

static void say_answer(hr__report *report, const hr_verify_result *result)
{
    if (!is_anything_verifiable(result)) {
        if (result->is_exact)
            hr__report_say(report, HR__STYLE_YELLOW,
                           "nothing could be verified: the recording does not hold what its "
                           "placements depend on");
        else
            hr__report_say(report, HR__STYLE_RED,
                           "differs: nothing could be verified, and the recording contradicts "
                           "itself");
        return;
    }
    hr__report_say(report, result->is_exact ? HR__STYLE_GREEN : HR__STYLE_RED,
                   "%s: %s of %s segment events and %s of %s placements came out again",
                   result->is_exact ? "exact" : "differs",
                   hr__count_text(result->segment_events_matched).text,
                   hr__count_text(result->segment_events_recorded).text,
                   hr__count_text(result->placements_matched).text,
                   hr__count_text(result->placements_recorded).text);
}

static void add_row(hr__table *table, const char *what, uint64_t recorded, uint64_t matched)
{
    hr__table_row(table, matched == recorded ? HR__STYLE_PLAIN : HR__STYLE_RED);
    hr__table_cell(table, what);
    hr__table_cell(table, hr__count_text(recorded).text);
    hr__table_cell(table, hr__count_text(matched).text);
}

static void say_table(hr__report *report, const hr_verify_result *result)
{
    static const hr__column columns[] = {
        {"what", HR__COLUMN_NAME},
        {"recorded", HR__COLUMN_NUMBER},
        {"matched", HR__COLUMN_NUMBER},
    };
    hr__table table;
    hr__table_init(&table, columns, sizeof columns / sizeof columns[0]);
    add_row(&table, "segment events", result->segment_events_recorded,
            result->segment_events_matched);
    add_row(&table, "placements", result->placements_recorded, result->placements_matched);
    add_row(&table, "segments at the end", result->end_segments_recorded,
            result->end_segments_matched);
    if (result->has_expectation)
        add_row(&table, "statistics", result->statistics_recorded, result->statistics_matched);
    hr__table_end(&table, report);
}

static void say_difference(hr__report *report, const hr_difference *difference)
{
    hr__report_blank(report);
    if (difference->event == HR_UNKNOWN)
        hr__report_say(report, HR__STYLE_BOLD,
                       "The first difference: device %d, at the end of the recording",
                       difference->device);
    else
        hr__report_say(report, HR__STYLE_BOLD, "The first difference: device %d, event %s",
                       difference->device, hr__count_text(difference->event).text);
    hr__report_fact(report, "recorded", "%s", difference->expected);
    hr__report_fact(report, "replayed", "%s", difference->got);
    if (difference->explanation != NULL)
        hr__report_say(report, HR__STYLE_PLAIN, "%s", difference->explanation);
}

static void say_limit(hr__report *report, const hr_verify_result *result)
{
    const bool has_least = result->limit_at_least_bytes != HR_UNKNOWN;
    const bool has_most = result->limit_below_bytes != HR_UNKNOWN;
    if (has_least && has_most)
        hr__report_fact(report, "limit", "at least %s and less than %s, by what was refused",
                        hr__size_text(result->limit_at_least_bytes).text,
                        hr__size_text(result->limit_below_bytes).text);
    else if (has_most)
        hr__report_fact(report, "limit", "less than %s, by what was refused",
                        hr__size_text(result->limit_below_bytes).text);
    else if (has_least)
        hr__report_fact(report, "limit", "at least %s; nothing was refused",
                        hr__size_text(result->limit_at_least_bytes).text);
}

static void say_result(hr__report *report, const hr_verify_result *result)
{
    say_answer(report, result);
    hr__report_blank(report);
    if (is_anything_verifiable(result)) {
        say_table(report, result);
        hr__report_blank(report);
    }
    hr__report_fact(report, "events", "%s", hr__count_text(result->event_count).text);
    hr__report_fact(report, "rules", "PyTorch %s",
                    result->torch_version != NULL ? result->torch_version : "?");
    say_limit(report, result);
    if (result->first_difference != NULL)
        say_difference(report, result->first_difference);
    if (result->unverifiable_count > 0)
        hr__report_blank(report);
    hr__report_list(report, HR__STYLE_PLAIN, "not verified", result->unverifiable,
                    result->unverifiable_count);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void json_pair(hr__json *json, const char *key, uint64_t recorded, uint64_t matched)
{
    hr__json_begin_object(json, key);
    hr__json_unsigned(json, "recorded", recorded);
    hr__json_unsigned(json, "matched", matched);
    hr__json_end_object(json);
}

static void json_difference(hr__json *json, const hr_difference *difference)
{
    if (difference == NULL) {
        hr__json_null(json, "first_difference");
        return;
    }
    hr__json_begin_object(json, "first_difference");
    hr__json_integer(json, "device", difference->device);
    hr__json_known(json, "event", difference->event);
    hr__json_text(json, "expected", difference->expected);
    hr__json_text(json, "got", difference->got);
    hr__json_text(json, "explanation", difference->explanation);
    hr__json_end_object(json);
}

static void json_result(hr__report *report, const hr_verify_result *result)
{
    hr__json json;
    hr__json_init(&json, &report->buffer);
    hr__json_begin_object(&json, NULL);
    hr__json_unsigned(&json, "schema", 1);
    hr__json_text(&json, "file", report->form.file);
    hr__json_boolean(&json, "exact", result->is_exact);
    hr__json_text(&json, "torch", result->torch_version);
    hr__json_unsigned(&json, "events", result->event_count);
    json_pair(&json, "segment_events", result->segment_events_recorded,
              result->segment_events_matched);
    json_pair(&json, "placements", result->placements_recorded, result->placements_matched);
    json_pair(&json, "end_segments", result->end_segments_recorded, result->end_segments_matched);
    if (result->has_expectation)
        json_pair(&json, "statistics", result->statistics_recorded, result->statistics_matched);
    else
        hr__json_null(&json, "statistics");
    json_difference(&json, result->first_difference);
    hr__json_texts(&json, "unverifiable", result->unverifiable, result->unverifiable_count);
    hr__json_known(&json, "limit_at_least_bytes", result->limit_at_least_bytes);
    hr__json_known(&json, "limit_below_bytes", result->limit_below_bytes);
    hr__json_end_object(&json);
    hr__append_text(&report->buffer, "\n");
}

hr_status hr_report_verify(const hr_verify_result *result, const hr_report_form *form,
                           const hr_output *output)
{
    hr__report report;
    if (result == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "no result to report: it is NULL");
    hr__report_init(&report, form);
    if (report.form.is_json)
        json_result(&report, result);
    else
        say_result(&report, result);
    return hr__report_send(&report, output);
}
