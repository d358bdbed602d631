/* report_verify.c - did the recording come out again, and if not, where it parted. */
#include "vramwise/report.h"

#include "report/report_frames.h" /* vw__json_texts */
#include "report/report_text.h"

/* ---- for people ------------------------------------------------------------------------------ */

/* Was there anything to hold against? A cut trace has events and no layout to begin with. */
static bool is_anything_verifiable(const vw_verify_result *result)
{
    return result->segment_events_recorded != 0 || result->placements_recorded != 0 ||
           result->end_segments_recorded != 0;
}

static void say_answer(vw__report *report, const vw_verify_result *result)
{
    if (!is_anything_verifiable(result)) {
        if (result->is_exact)
            vw__report_say(report, VW__STYLE_YELLOW,
                           "nothing could be verified: the recording does not hold what its "
                           "placements depend on");
        else
            vw__report_say(report, VW__STYLE_RED,
                           "differs: nothing could be verified, and the recording contradicts "
                           "itself");
        return;
    }
    vw__report_say(report, result->is_exact ? VW__STYLE_GREEN : VW__STYLE_RED,
                   "%s: %s of %s segment events and %s of %s placements came out again",
                   result->is_exact ? "exact" : "differs",
                   vw__count_text(result->segment_events_matched).text,
                   vw__count_text(result->segment_events_recorded).text,
                   vw__count_text(result->placements_matched).text,
                   vw__count_text(result->placements_recorded).text);
}

static void add_row(vw__table *table, const char *what, uint64_t recorded, uint64_t matched)
{
    vw__table_row(table, matched == recorded ? VW__STYLE_PLAIN : VW__STYLE_RED);
    vw__table_cell(table, what);
    vw__table_cell(table, vw__count_text(recorded).text);
    vw__table_cell(table, vw__count_text(matched).text);
}

static void say_table(vw__report *report, const vw_verify_result *result)
{
    static const vw__column columns[] = {
        {"what", VW__COLUMN_NAME},
        {"recorded", VW__COLUMN_NUMBER},
        {"matched", VW__COLUMN_NUMBER},
    };
    vw__table table;
    vw__table_init(&table, columns, sizeof columns / sizeof columns[0]);
    add_row(&table, "segment events", result->segment_events_recorded,
            result->segment_events_matched);
    add_row(&table, "placements", result->placements_recorded, result->placements_matched);
    add_row(&table, "segments at the end", result->end_segments_recorded,
            result->end_segments_matched);
    if (result->has_expectation)
        add_row(&table, "statistics", result->statistics_recorded, result->statistics_matched);
    vw__table_end(&table, report);
}

static void say_difference(vw__report *report, const vw_difference *difference)
{
    vw__report_blank(report);
    if (difference->event == VW_UNKNOWN)
        vw__report_say(report, VW__STYLE_BOLD,
                       "The first difference: device %d, at the end of the recording",
                       difference->device);
    else
        vw__report_say(report, VW__STYLE_BOLD, "The first difference: device %d, event %s",
                       difference->device, vw__count_text(difference->event).text);
    vw__report_fact(report, "recorded", "%s", difference->expected);
    vw__report_fact(report, "replayed", "%s", difference->got);
    if (difference->explanation != NULL)
        vw__report_say(report, VW__STYLE_PLAIN, "%s", difference->explanation);
}

static void say_limit(vw__report *report, const vw_verify_result *result)
{
    const bool has_least = result->limit_at_least_bytes != VW_UNKNOWN;
    const bool has_most = result->limit_below_bytes != VW_UNKNOWN;
    if (has_least && has_most)
        vw__report_fact(report, "limit", "at least %s and less than %s, by what was refused",
                        vw__size_text(result->limit_at_least_bytes).text,
                        vw__size_text(result->limit_below_bytes).text);
    else if (has_most)
        vw__report_fact(report, "limit", "less than %s, by what was refused",
                        vw__size_text(result->limit_below_bytes).text);
    else if (has_least)
        vw__report_fact(report, "limit", "at least %s; nothing was refused",
                        vw__size_text(result->limit_at_least_bytes).text);
}

static void say_result(vw__report *report, const void *content)
{
    const vw_verify_result *result = content;
    say_answer(report, result);
    vw__report_blank(report);
    if (is_anything_verifiable(result)) {
        say_table(report, result);
        vw__report_blank(report);
    }
    vw__report_fact(report, "events", "%s", vw__count_text(result->event_count).text);
    vw__report_fact(report, "rules", "PyTorch %s",
                    result->torch_version != NULL ? result->torch_version : "?");
    say_limit(report, result);
    if (result->first_difference != NULL)
        say_difference(report, result->first_difference);
    if (result->unverifiable_count > 0)
        vw__report_blank(report);
    vw__report_list(report, VW__STYLE_PLAIN, "not verified", result->unverifiable,
                    result->unverifiable_count);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void json_pair(vw__json *json, const char *key, uint64_t recorded, uint64_t matched)
{
    vw__json_begin_object(json, key);
    vw__json_unsigned(json, "recorded", recorded);
    vw__json_unsigned(json, "matched", matched);
    vw__json_end_object(json);
}

static void json_difference(vw__json *json, const vw_difference *difference)
{
    if (difference == NULL) {
        vw__json_null(json, "first_difference");
        return;
    }
    vw__json_begin_object(json, "first_difference");
    vw__json_integer(json, "device", difference->device);
    vw__json_known(json, "event", difference->event);
    vw__json_text(json, "expected", difference->expected);
    vw__json_text(json, "got", difference->got);
    vw__json_text(json, "explanation", difference->explanation);
    vw__json_end_object(json);
}

static void json_result(vw__report *report, vw__json *json, const void *content)
{
    const vw_verify_result *result = content;
    vw__json_text(json, "file", report->form.file);
    vw__json_boolean(json, "exact", result->is_exact);
    vw__json_text(json, "torch", result->torch_version);
    vw__json_unsigned(json, "events", result->event_count);
    json_pair(json, "segment_events", result->segment_events_recorded,
              result->segment_events_matched);
    json_pair(json, "placements", result->placements_recorded, result->placements_matched);
    json_pair(json, "end_segments", result->end_segments_recorded, result->end_segments_matched);
    if (result->has_expectation)
        json_pair(json, "statistics", result->statistics_recorded, result->statistics_matched);
    else
        vw__json_null(json, "statistics");
    json_difference(json, result->first_difference);
    vw__json_texts(json, "unverifiable", result->unverifiable, result->unverifiable_count);
    vw__json_known(json, "limit_at_least_bytes", result->limit_at_least_bytes);
    vw__json_known(json, "limit_below_bytes", result->limit_below_bytes);
}

vw_status vw_report_verify(const vw_verify_result *result, const vw_report_form *form,
                           const vw_output *output)
{
    static const vw__report_kind kind = {"result", say_result, json_result};
    return vw__report_as(&kind, result, form, output);
}
