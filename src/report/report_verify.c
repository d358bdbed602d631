/* report_verify.c - did the recording come out again, and if not, where it parted. */
#include "vramwise/report.h"

#include "report/report_fields.h"

/* ---- the fields ------------------------------------------------------------------------------ */

/* What was compared: how many there are, and how many came out again. */
#define PAIR(name)                                                                                 \
    static const vw__report_field name##_list[] = {                                                \
        {VW__REPORT_FIELD(COUNT, vw_verify_result, "recorded", name##_recorded)},                  \
        {VW__REPORT_FIELD(COUNT, vw_verify_result, "matched", name##_matched)},                    \
    };                                                                                             \
    static const vw__report_fields name = VW__REPORT_FIELDS(vw_verify_result, name##_list);
PAIR(segment_events)
PAIR(placements)
PAIR(end_segments)
PAIR(statistics)
#undef PAIR

VW__REPORT_CONDITION(has_expectation, vw_verify_result, has_expectation)

#define DIFFERENCE(kind, key, member) VW__REPORT_FIELD(kind, vw_difference, key, member)
static const vw__report_field difference_list[] = {
    {DIFFERENCE(INTEGER, "device", device)},        {DIFFERENCE(COUNT, "event", event)},
    {DIFFERENCE(TEXT, "expected", expected)},       {DIFFERENCE(TEXT, "got", got)},
    {DIFFERENCE(TEXT, "explanation", explanation)},
};
static const vw__report_fields difference_fields =
    VW__REPORT_FIELDS(vw_difference, difference_list);

#define RESULT(kind, key, member) VW__REPORT_FIELD(kind, vw_verify_result, key, member)
static const vw__report_field result_list[] = {
    {.key = "file", .kind = VW__REPORT_FIELD_FILE},
    {RESULT(BOOLEAN, "exact", is_exact)},
    {RESULT(TEXT, "torch", torch_version)},
    {RESULT(COUNT, "events", event_count)},
    {.key = "segment_events", .kind = VW__REPORT_FIELD_OBJECT, .fields = &segment_events},
    {.key = "placements", .kind = VW__REPORT_FIELD_OBJECT, .fields = &placements},
    {.key = "end_segments", .kind = VW__REPORT_FIELD_OBJECT, .fields = &end_segments},
    {.key = "statistics",
     .kind = VW__REPORT_FIELD_OBJECT,
     .fields = &statistics,
     .is_known = has_expectation},
    {RESULT(POINTER, "first_difference", first_difference), .fields = &difference_fields},
    {RESULT(TEXTS, "unverifiable", unverifiable),
     VW__REPORT_COUNTED(vw_verify_result, unverifiable_count)},
    {RESULT(BYTES, "limit_at_least_bytes", limit_at_least_bytes)},
    {RESULT(BYTES, "limit_below_bytes", limit_below_bytes)},
};
static const vw__report_fields result_fields = VW__REPORT_FIELDS(vw_verify_result, result_list);

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
            vw__report_say(report, VW__REPORT_STYLE_YELLOW,
                           "nothing could be verified: the recording does not hold what its "
                           "placements depend on");
        else
            vw__report_say(report, VW__REPORT_STYLE_RED,
                           "differs: nothing could be verified, and the recording contradicts "
                           "itself");
        return;
    }
    vw__report_say(report, result->is_exact ? VW__REPORT_STYLE_GREEN : VW__REPORT_STYLE_RED,
                   "%s: %s of %s segment events and %s of %s placements came out again",
                   result->is_exact ? "exact" : "differs",
                   vw__report_count(result->segment_events_matched).text,
                   vw__report_count(result->segment_events_recorded).text,
                   vw__report_count(result->placements_matched).text,
                   vw__report_count(result->placements_recorded).text);
}

static void add_row(vw__report_table *table, const char *what, uint64_t recorded, uint64_t matched)
{
    vw__report_table_row(table,
                         matched == recorded ? VW__REPORT_STYLE_PLAIN : VW__REPORT_STYLE_RED);
    vw__report_table_cell(table, what);
    vw__report_table_cell(table, vw__report_count(recorded).text);
    vw__report_table_cell(table, vw__report_count(matched).text);
}

static void say_table(vw__report *report, const vw_verify_result *result)
{
    static const vw__report_column columns[] = {
        {"what", VW__REPORT_COLUMN_NAME},
        {"recorded", VW__REPORT_COLUMN_NUMBER},
        {"matched", VW__REPORT_COLUMN_NUMBER},
    };
    vw__report_table table;
    vw__report_table_init(&table, columns, sizeof columns / sizeof columns[0]);
    add_row(&table, "segment events", result->segment_events_recorded,
            result->segment_events_matched);
    add_row(&table, "placements", result->placements_recorded, result->placements_matched);
    add_row(&table, "segments at the end", result->end_segments_recorded,
            result->end_segments_matched);
    if (result->has_expectation)
        add_row(&table, "statistics", result->statistics_recorded, result->statistics_matched);
    vw__report_table_end(&table, report);
}

static void say_difference(vw__report *report, const vw_difference *difference)
{
    vw__report_blank(report);
    if (difference->event == VW_UNKNOWN)
        vw__report_say(report, VW__REPORT_STYLE_BOLD,
                       "The first difference: device %d, at the end of the recording",
                       difference->device);
    else
        vw__report_say(report, VW__REPORT_STYLE_BOLD, "The first difference: device %d, event %s",
                       difference->device, vw__report_count(difference->event).text);
    vw__report_fact(report, "recorded", "%s", difference->expected);
    vw__report_fact(report, "replayed", "%s", difference->got);
    if (difference->explanation != NULL)
        vw__report_say(report, VW__REPORT_STYLE_PLAIN, "%s", difference->explanation);
}

static void say_limit(vw__report *report, const vw_verify_result *result)
{
    const bool has_least = result->limit_at_least_bytes != VW_UNKNOWN;
    const bool has_most = result->limit_below_bytes != VW_UNKNOWN;
    if (has_least && has_most)
        vw__report_fact(report, "limit", "at least %s and less than %s, by what was refused",
                        vw__report_size(result->limit_at_least_bytes).text,
                        vw__report_size(result->limit_below_bytes).text);
    else if (has_most)
        vw__report_fact(report, "limit", "less than %s, by what was refused",
                        vw__report_size(result->limit_below_bytes).text);
    else if (has_least)
        vw__report_fact(report, "limit", "at least %s; nothing was refused",
                        vw__report_size(result->limit_at_least_bytes).text);
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
    vw__report_fact(report, "events", "%s", vw__report_count(result->event_count).text);
    vw__report_fact(report, "rules", "PyTorch %s",
                    result->torch_version != NULL ? result->torch_version : "?");
    say_limit(report, result);
    if (result->first_difference != NULL)
        say_difference(report, result->first_difference);
    if (result->unverifiable_count > 0)
        vw__report_blank(report);
    vw__report_list(report, VW__REPORT_STYLE_PLAIN, "not verified", result->unverifiable,
                    result->unverifiable_count);
}

vw_status vw_report_verify(const vw_verify_result *result, const vw_report_form *form,
                           const vw_output *output)
{
    static const vw__report_kind kind = {"result", say_result, &result_fields, NULL};
    return vw__report_as(&kind, result, form, output);
}
