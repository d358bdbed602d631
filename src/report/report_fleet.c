/* report_fleet.c - many jobs for people: how many ran out of memory, the worst of them, failures
 * that several share, and the days. */
#include "vramwise/fleet.h"

#include <stdio.h>

#include "report/report_fields.h"
#include "report/report_ranks.h"

/* ---- the fields; vramwise-report(1) names them ------------------------------------------------
 */

static void json_day_of(vw__json *json, const char *key, int64_t day)
{
    char text[VW_FLEET_DAY_BYTES];
    if (vw_fleet_day_text(day, text)[0] != '\0')
        vw__json_text(json, key, text);
    else
        vw__json_null(json, key);
}

#define DAY_FIELD(function, type, member)                                                          \
    static void json_##function(vw__report *out, vw__json *json, const char *key,                  \
                                const void *object)                                                \
    {                                                                                              \
        (void)out;                                                                                 \
        json_day_of(json, key, ((const type *)object)->member);                                    \
    }                                                                                              \
    static void append_##function(vw__byte_buffer *cell, const void *object)                       \
    {                                                                                              \
        char text[VW_FLEET_DAY_BYTES];                                                             \
        vw_fleet_day_text(((const type *)object)->member, text);                                   \
        vw__append_text(cell, text[0] != '\0' ? text : "unknown");                                 \
    }
DAY_FIELD(job_day, vw_fleet_job, day)
DAY_FIELD(day, vw_fleet_day, day)
DAY_FIELD(first_day, vw_fleet_failure, first_day)
DAY_FIELD(last_day, vw_fleet_failure, last_day)
#undef DAY_FIELD

VW__REPORT_NAME(verdict_of, vw_rank, vw_verdict_name, verdict)
VW__REPORT_CONDITION(has_verdict, vw_rank, has_verdict)

/* The rank to look at. */
#define RANK(kind, key, member) VW__REPORT_FIELD(kind, vw_rank, key, member)
static const vw__report_field worst_list[] = {
    {RANK(COUNT, "rank", rank)},
    {RANK(TEXT, "recording", recording)},
    {RANK(TEXT, "text", text)},
    {RANK(BOOLEAN, "ran_out", ran_out)},
    {.key = "verdict", .text = verdict_of, .is_known = has_verdict},
    {RANK(TEXT, "sentence", sentence), .is_known = has_verdict},
};
static const vw__report_fields worst_fields = VW__REPORT_FIELDS(vw_rank, worst_list);

static const vw__report_field ranks_list[] = {
    {VW__REPORT_FIELD(OBJECTS, vw_ranks_report, "outliers", outliers),
     VW__REPORT_COUNTED(vw_ranks_report, outlier_count),
     .fields = &vw__report_ranks_outlier_fields},
};
static const vw__report_fields ranks_fields = VW__REPORT_FIELDS(vw_ranks_report, ranks_list);

static void json_outliers(vw__report *out, vw__json *json, const char *key, const void *object)
{
    (void)key; /* "outliers", as the list above has it */
    vw__report_json_members(out, json, &ranks_fields, ((const vw_fleet_job *)object)->ranks);
}

static void json_unreadable(vw__report *out, vw__json *json, const char *key, const void *object)
{
    (void)out;
    vw__json_unsigned(json, key, ((const vw_fleet_job *)object)->ranks->unreadable_count);
}

static void json_failure(vw__report *out, vw__json *json, const char *key, const void *object)
{
    size_t failure = ((const vw_fleet_job *)object)->failure;
    (void)out;
    vw__json_known(json, key, failure != SIZE_MAX ? failure : VW_UNKNOWN);
}

/* "" for 0: a column of zeros hides the others. */
static void append_some(vw__byte_buffer *cell, size_t count)
{
    if (count > 0)
        vw__append_text(cell, vw__report_count(count).text);
}

static void append_ran_out(vw__byte_buffer *cell, const void *object)
{
    append_some(cell, ((const vw_fleet_job *)object)->ran_out_count);
}

static void append_out_of_line(vw__byte_buffer *cell, const void *object)
{
    append_some(cell, ((const vw_fleet_job *)object)->out_of_line_count);
}

static void append_verdict(vw__byte_buffer *cell, const void *object)
{
    const vw_fleet_job *job = object;
    if (job->worst != NULL && job->worst->has_verdict)
        vw__append_text(cell, vw_verdict_name(job->worst->verdict));
}

#define JOB(kind, key, member) VW__REPORT_FIELD(kind, vw_fleet_job, key, member)
static const vw__report_field job_list[] = {
    {JOB(TEXT, "job", name), VW__REPORT_COLUMN(7, PLACE, "job")},
    {.key = "day",
     .kind = VW__REPORT_FIELD_TEXT,
     .write = json_job_day,
     VW__REPORT_COLUMN(6, WORD, "day"),
     .append = append_job_day},
    {JOB(COUNT, "ranks", rank_count), VW__REPORT_COLUMN(1, NUMBER, "ranks")},
    {JOB(COUNT, "oom_count", ran_out_count), VW__REPORT_COLUMN(2, NUMBER, "ran out"),
     .append = append_ran_out},
    {JOB(COUNT, "problem_count", problem_count)},
    {JOB(COUNT, "out_of_line_count", out_of_line_count),
     VW__REPORT_COLUMN(3, NUMBER, "out of line"), .append = append_out_of_line},
    {JOB(BYTES, "peak_reserved_bytes", peak_reserved_bytes),
     VW__REPORT_COLUMN(4, NUMBER, "reserved")},
    {JOB(BYTES, "card_bytes", card_bytes)},
    {VW__REPORT_COLUMN(5, WORD, "verdict"), .append = append_verdict},
    {.key = "unreadable", .kind = VW__REPORT_FIELD_COUNT, .write = json_unreadable},
    {.key = "failure", .kind = VW__REPORT_FIELD_COUNT, .write = json_failure},
    {JOB(POINTER, "worst", worst), .fields = &worst_fields},
    {.key = "outliers", .write = json_outliers},
};
static const vw__report_fields job_fields = VW__REPORT_FIELDS(vw_fleet_job, job_list);

static void append_failure_place(vw__byte_buffer *cell, const void *object)
{
    const vw_fleet_failure *failure = object;
    vw__report_append_place(cell, failure->frames, failure->frames, failure->frame_count != 0,
                            "(no stack)");
}

static void json_failure_rank(vw__report *out, vw__json *json, const char *key, const void *object)
{
    (void)out;
    vw__json_known(json, key, ((const vw_fleet_failure *)object)->rank->rank);
}

VW__REPORT_NAME(failure_verdict_of, vw_fleet_failure, vw_verdict_name, verdict)

#define FAILURE(kind, key, member) VW__REPORT_FIELD(kind, vw_fleet_failure, key, member)
static const vw__report_field failure_list[] = {
    {FAILURE(COUNT, "jobs", job_count), VW__REPORT_COLUMN(1, NUMBER, "jobs")},
    {FAILURE(COUNT, "ranks", rank_count), VW__REPORT_COLUMN(2, NUMBER, "ranks")},
    {.key = "verdict", .text = failure_verdict_of, VW__REPORT_COLUMN(3, WORD, "verdict")},
    {FAILURE(FRAMES, "stack", frames), VW__REPORT_COUNTED(vw_fleet_failure, frame_count)},
    {VW__REPORT_COLUMN(6, PLACE, "where"), .append = append_failure_place},
    {.key = "first_day",
     .write = json_first_day,
     VW__REPORT_COLUMN(4, WORD, "first"),
     .append = append_first_day},
    {.key = "last_day",
     .write = json_last_day,
     VW__REPORT_COLUMN(5, WORD, "last"),
     .append = append_last_day},
    {FAILURE(TEXT, "job", job)},
    {.key = "rank", .write = json_failure_rank},
};
static const vw__report_fields failure_fields = VW__REPORT_FIELDS(vw_fleet_failure, failure_list);

#define DAY(kind, key, member) VW__REPORT_FIELD(kind, vw_fleet_day, key, member)
static const vw__report_field day_list[] = {
    {.key = "day", .write = json_day, VW__REPORT_COLUMN(1, WORD, "day"), .append = append_day},
    {DAY(COUNT, "jobs", job_count), VW__REPORT_COLUMN(2, NUMBER, "jobs")},
    {DAY(COUNT, "oom_jobs", ran_out_job_count), VW__REPORT_COLUMN(3, NUMBER, "ran out")},
    {DAY(COUNT, "ranks", rank_count), VW__REPORT_COLUMN(4, NUMBER, "ranks")},
    {DAY(COUNT, "oom_count", ran_out_count), VW__REPORT_COLUMN(5, NUMBER, "ran out")},
    {DAY(BYTES, "median_peak_bytes", median_peak_bytes),
     VW__REPORT_COLUMN(6, NUMBER, "median peak")},
};
static const vw__report_fields day_fields = VW__REPORT_FIELDS(vw_fleet_day, day_list);

#define FLEET(kind, key, member) VW__REPORT_FIELD(kind, vw_fleet_report, key, member)
#define FLEET_COUNTED(member) VW__REPORT_COUNTED(vw_fleet_report, member)
static const vw__report_field files_list[] = {
    {FLEET(COUNT, "all", file_count)},       {FLEET(COUNT, "recordings", recording_count)},
    {FLEET(COUNT, "texts", text_count)},     {FLEET(COUNT, "unreadable", unreadable_count)},
    {FLEET(COUNT, "others", foreign_count)},
};
static const vw__report_fields files_fields = VW__REPORT_FIELDS(vw_fleet_report, files_list);

static const vw__report_field fleet_list[] = {
    {FLEET(BOOLEAN, "something_to_see", is_something_to_see)},
    {FLEET(COUNT, "oom_jobs", ran_out_job_count)},
    {FLEET(COUNT, "ranks", rank_count)},
    {FLEET(COUNT, "oom_count", ran_out_count)},
    {FLEET(OBJECTS, "jobs", jobs), FLEET_COUNTED(job_count), .fields = &job_fields},
    {FLEET(OBJECTS, "failures", failures), FLEET_COUNTED(failure_count), .fields = &failure_fields},
    {FLEET(OBJECTS, "days", days), FLEET_COUNTED(day_count), .fields = &day_fields},
    {.key = "files", .kind = VW__REPORT_FIELD_OBJECT, .fields = &files_fields},
    {FLEET(TEXTS, "notes", notes), FLEET_COUNTED(note_count)},
};
static const vw__report_fields fleet_fields = VW__REPORT_FIELDS(vw_fleet_report, fleet_list);

/* ---- text ------------------------------------------------------------------------------------ */

static void say_answer(vw__report *out, const vw_fleet_report *report)
{
    if (report->ran_out_job_count > 0)
        vw__report_say(out, VW__REPORT_STYLE_RED, "%zu of %s ran out of memory, on %zu of %s",
                       report->ran_out_job_count, vw__report_counted(report->job_count, "job").text,
                       report->ran_out_count, vw__report_counted(report->rank_count, "rank").text);
    else
        vw__report_say(
            out, report->is_something_to_see ? VW__REPORT_STYLE_YELLOW : VW__REPORT_STYLE_GREEN,
            "%s with %s, none ran out of memory", vw__report_counted(report->job_count, "job").text,
            vw__report_counted(report->rank_count, "rank").text);
}

static vw__report_style style_of(const vw_fleet_job *job)
{
    if (job->ran_out_count > 0)
        return VW__REPORT_STYLE_RED;
    return job->problem_count > 0 || job->out_of_line_count > 0 ? VW__REPORT_STYLE_BOLD
                                                                : VW__REPORT_STYLE_PLAIN;
}

static void say_jobs(vw__report *out, const vw_fleet_report *report)
{
    vw__report_table table;
    vw__report_blank(out);
    vw__report_fields_table(&table, &job_fields);
    for (size_t i = 0; i < vw__report_shown_rows(out, report->job_count); i++)
        vw__report_fields_row(&table, style_of(&report->jobs[i]), &job_fields, &report->jobs[i]);
    vw__report_table_end(&table, out);
    vw__report_say_rest(out, report->job_count, "job");
}

static void say_failures(vw__report *out, const vw_fleet_report *report)
{
    if (report->failure_count == 0)
        return;
    vw__report_blank(out);
    vw__report_say(out, VW__REPORT_STYLE_BOLD, "failures, the most common first");
    vw__report_fields_rows(out, &failure_fields, report->failures,
                           vw__report_shown_rows(out, report->failure_count));
    vw__report_say_rest(out, report->failure_count, "failure");
}

static void say_days(vw__report *out, const vw_fleet_report *report)
{
    size_t shown = vw__report_shown_rows(out, report->day_count);
    if (report->day_count < 2)
        return;
    vw__report_blank(out);
    vw__report_fields_rows(out, &day_fields, report->days + (report->day_count - shown), shown);
    vw__report_say_rest(out, report->day_count, "day");
}

static void say_files(vw__report *out, const vw_fleet_report *report)
{
    vw__report_blank(out);
    vw__report_fact(out, "files", "%s: %s, %s, %zu unreadable, %s",
                    vw__report_count(report->file_count).text,
                    vw__report_counted(report->recording_count, "recording").text,
                    vw__report_counted(report->text_count, "text").text, report->unreadable_count,
                    vw__report_counted(report->foreign_count, "other").text);
    vw__report_remarks(out, NULL, 0, report->notes, report->note_count);
}

static void say_fleet(vw__report *out, const void *content)
{
    const vw_fleet_report *report = content;
    say_answer(out, report);
    say_jobs(out, report);
    say_failures(out, report);
    say_days(out, report);
    say_files(out, report);
}

vw_status vw_report_fleet(const vw_fleet_report *report, const vw_report_form *form,
                          const vw_output *output)
{
    static const vw__report_kind kind = {"report on jobs", say_fleet, &fleet_fields, "jobs"};
    return vw__report_as(&kind, report, form, output);
}
