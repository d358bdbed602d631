/* report_fleet_page.c - many jobs as one page of HTML that needs nothing else, not even a script.
 *
 * Jobs are rows, worst first; what there is to see in one unfolds below it: the rank to look at,
 * and those out of line. So the page grows with the jobs and what is wrong with them, not with the
 * ranks. Texts come from files nobody vouches for, and pass through one place that escapes them. */
#include "vramwise/fleet.h"

#include <inttypes.h>
#include <string.h>

#include "vramwise/version.h"
#include "base/byte_buffer.h"
#include "base/error.h"
#include "report/report_text.h"

enum { MOST_OUTLIERS = 32 }; /* of one job */

/* ---- HTML ------------------------------------------------------------------------------------ */

/* `show` replaces what cannot be shown; here come the characters that mean something. */
static void put_text(vw__report *out, const char *text)
{
    vw__byte_buffer_clear(&out->shown);
    vw__report_show(out, &out->shown, text, strlen(text));
    const char *bytes = vw__byte_buffer_text(&out->shown);
    for (size_t i = 0; i < vw__byte_buffer_size(&out->shown); i++)
        switch (bytes[i]) {
        case '<':
            vw__append_text(&out->buffer, "&lt;");
            break;
        case '>':
            vw__append_text(&out->buffer, "&gt;");
            break;
        case '&':
            vw__append_text(&out->buffer, "&amp;");
            break;
        case '"':
            vw__append_text(&out->buffer, "&quot;");
            break;
        default:
            vw__append_u8(&out->buffer, (uint8_t)bytes[i]);
        }
    out->buffer.has_failed |= vw__byte_buffer_has_failed(&out->shown);
}

static void put(vw__report *out, const char *html)
{
    vw__append_text(&out->buffer, html);
}

static void put_cell(vw__report *out, const char *kind, const char *text)
{
    vw__append_format(&out->buffer, "<td class=%s>", kind);
    put_text(out, text);
    put(out, "</td>");
}

static void put_number(vw__report *out, uint64_t number, bool is_loud)
{
    put_cell(out, is_loud && number > 0 ? "\"n bad\"" : "n",
             number > 0 || !is_loud ? vw__report_count(number).text : "");
}

static void put_day(vw__report *out, int64_t day)
{
    char text[VW_FLEET_DAY_BYTES];
    put_cell(out, "d", vw_fleet_day_text(day, text));
}

typedef struct page_column {
    const char *title;
    const char *kind; /* as its cells' */
} page_column;

static void begin_table(vw__report *out, const char *title, const page_column *columns,
                        size_t column_count)
{
    put(out, "<h2>");
    put_text(out, title);
    put(out, "</h2>\n<table><thead><tr>");
    for (size_t i = 0; i < column_count; i++) {
        vw__append_format(&out->buffer, "<th class=%s>", columns[i].kind);
        put_text(out, columns[i].title);
        put(out, "</th>");
    }
    put(out, "</tr></thead>\n<tbody>\n");
}

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static void end_table(vw__report *out)
{
    put(out, "</tbody></table>\n");
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void put_rank_name(vw__report *out, uint64_t rank)
{
    if (rank != VW_UNKNOWN)
        vw__append_format(&out->buffer, "rank %" PRIu64, rank);
    else
        put(out, "unknown rank");
}

static void put_outlier(vw__report *out, const vw_rank_outlier *outlier)
{
    bool is_size = outlier->measure != VW_RANK_EVENTS;
    put(out, "<li>");
    put_rank_name(out, outlier->rank);
    put(out, ", ");
    put_text(out, vw_rank_measure_name(outlier->measure));
    put(out, ": ");
    put_text(out, is_size ? vw__report_size(outlier->value).text
                          : vw__report_count(outlier->value).text);
    put(out, ", median ");
    put_text(out, is_size ? vw__report_size(outlier->median).text
                          : vw__report_count(outlier->median).text);
    put(out, "</li>");
}

static void put_worst(vw__report *out, const vw_rank *worst)
{
    const char *file = worst->recording != NULL ? worst->recording : worst->text;
    put(out, "<li>");
    put_rank_name(out, worst->rank);
    if (file != NULL) {
        put(out, " <code>");
        put_text(out, file);
        put(out, "</code>");
    }
    if (worst->has_verdict) {
        put(out, ": ");
        put_text(out, worst->sentence);
    }
    put(out, "</li>");
}

/* What unfolds. */
static void put_details(vw__report *out, const vw_fleet_job *job)
{
    const vw_ranks_report *ranks = job->ranks;
    size_t shown = ranks->outlier_count < MOST_OUTLIERS ? ranks->outlier_count : MOST_OUTLIERS;
    put(out, "<ul>");
    if (job->worst != NULL)
        put_worst(out, job->worst);
    for (size_t i = 0; i < shown; i++)
        put_outlier(out, &ranks->outliers[i]);
    if (shown < ranks->outlier_count)
        vw__append_format(&out->buffer, "<li>%zu more out of line</li>",
                          ranks->outlier_count - shown);
    put(out, "</ul>");
}

static void put_job(vw__report *out, const vw_fleet_job *job)
{
    bool has_details = job->worst != NULL || job->ranks->outlier_count > 0;
    put(out, "<tr><td class=w>");
    put(out, has_details ? "<details><summary>" : "");
    put_text(out, job->name);
    if (has_details) {
        put(out, "</summary>");
        put_details(out, job);
        put(out, "</details>");
    }
    put(out, "</td>");
    put_day(out, job->day);
    put_number(out, job->rank_count, false);
    put_number(out, job->ran_out_count, true);
    put_number(out, job->out_of_line_count, true);
    put_cell(out, "n", vw__report_size(job->peak_reserved_bytes).text);
    put_cell(out, "d",
             job->worst != NULL && job->worst->has_verdict ? vw_verdict_name(job->worst->verdict)
                                                           : "");
    put(out, "</tr>\n");
}

static void put_jobs(vw__report *out, const vw_fleet_report *report)
{
    static const page_column columns[] = {
        {"job", "w"},         {"day", "d"},           {"ranks", "n"},  {"ran out", "n"},
        {"out of line", "n"}, {"reserved peak", "n"}, {"verdict", "d"}};
    begin_table(out, "Jobs, worst first", columns, COUNT_OF(columns));
    for (size_t i = 0; i < report->job_count; i++)
        put_job(out, &report->jobs[i]);
    end_table(out);
}

/* ---- failures and days ----------------------------------------------------------------------- */

static void put_stack(vw__report *out, const vw_fleet_failure *failure)
{
    put(out, "<td class=w>");
    if (failure->frame_count == 0)
        put(out, "(no stack)");
    for (size_t i = 0; i < failure->frame_count; i++) {
        const vw_frame *frame = &failure->frames[i];
        put(out, i == 1 ? "<details><summary>callers</summary>" : i > 1 ? "<br>" : "");
        put(out, "<code>");
        put_text(out, frame->file);
        vw__append_format(&out->buffer, ":%" PRIu32 " ", frame->line);
        put_text(out, frame->function);
        put(out, "</code>");
    }
    put(out, failure->frame_count > 1 ? "</details></td>" : "</td>");
}

static void put_failures(vw__report *out, const vw_fleet_report *report)
{
    static const page_column columns[] = {{"where", "w"},      {"verdict", "d"}, {"jobs", "n"},
                                          {"ranks", "n"},      {"first", "d"},   {"last", "d"},
                                          {"for example", "w"}};
    if (report->failure_count == 0)
        return;
    begin_table(out, "Failures, the most common first", columns, COUNT_OF(columns));
    for (size_t i = 0; i < report->failure_count; i++) {
        const vw_fleet_failure *failure = &report->failures[i];
        put(out, "<tr>");
        put_stack(out, failure);
        put_cell(out, "d", vw_verdict_name(failure->verdict));
        put_number(out, failure->job_count, false);
        put_number(out, failure->rank_count, false);
        put_day(out, failure->first_day);
        put_day(out, failure->last_day);
        put_cell(out, "w", failure->job);
        put(out, "</tr>\n");
    }
    end_table(out);
}

static uint64_t share_of(size_t count, size_t of)
{
    return of > 0 ? (uint64_t)(100 * count / of) : 0;
}

static void put_days(vw__report *out, const vw_fleet_report *report)
{
    static const page_column columns[] = {{"day", "d"},        {"jobs", "n"},  {"ran out", "n"},
                                          {"", "b"},           {"ranks", "n"}, {"ran out", "n"},
                                          {"median peak", "n"}};
    if (report->day_count < 2)
        return;
    begin_table(out, "Days", columns, COUNT_OF(columns));
    for (size_t i = 0; i < report->day_count; i++) {
        const vw_fleet_day *day = &report->days[i];
        put(out, "<tr>");
        put_day(out, day->day);
        put_number(out, day->job_count, false);
        put_number(out, day->ran_out_job_count, true);
        vw__append_format(&out->buffer,
                          "<td class=b><span style=\"width:%" PRIu64 "%%\"></span></td>",
                          share_of(day->ran_out_job_count, day->job_count));
        put_number(out, day->rank_count, false);
        put_number(out, day->ran_out_count, true);
        put_cell(out, "n", vw__report_size(day->median_peak_bytes).text);
        put(out, "</tr>\n");
    }
    end_table(out);
}

/* ---- the page -------------------------------------------------------------------------------- */

static const char style[] =
    "<style>\n"
    ":root{color-scheme:light dark}\n"
    "body{font:14px/1.4 system-ui,sans-serif;margin:2em auto;max-width:80em;padding:0 1em}\n"
    "h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}\n"
    "table{border-collapse:collapse;width:100%}\n"
    "th,td{text-align:left;vertical-align:top;padding:.2em .6em;border-bottom:1px solid #8884}\n"
    "thead th{position:sticky;top:0;background:Canvas}\n"
    ".n,.d{white-space:nowrap}.n{text-align:right}.w{overflow-wrap:anywhere}\n"
    ".bad{color:#c62828;font-weight:600}\n"
    "td.b{width:8em}td.b span{display:inline-block;height:.8em;background:#c62828}\n"
    "@media(max-width:40em){table{display:block;overflow-x:auto}.w{min-width:11em}}\n"
    "summary{cursor:pointer}ul{margin:.3em 0;padding-left:1.2em}code{font-size:.92em}\n"
    "</style>\n";

static void put_head(vw__report *out)
{
    put(out, "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
             "<meta name=\"generator\" content=\"vramwise ");
    put_text(out, vw_version_string());
    put(out, "\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
             "style-src 'unsafe-inline'\">\n"
             "<meta name=viewport content=\"width=device-width\">\n"
             "<title>GPU memory of jobs</title>\n");
    put(out, style);
    put(out, "</head><body>\n");
}

static void put_summary(vw__report *out, const vw_fleet_report *report)
{
    put(out, "<h1>");
    if (report->ran_out_job_count > 0)
        vw__append_format(&out->buffer, "%s of %s ran out of memory",
                          vw__report_count(report->ran_out_job_count).text,
                          vw__report_counted(report->job_count, "job").text);
    else
        vw__append_format(&out->buffer, "%s, none ran out of memory",
                          vw__report_counted(report->job_count, "job").text);
    vw__append_format(&out->buffer, "</h1>\n<p>%s, %s, %zu unreadable.</p>\n",
                      vw__report_counted(report->rank_count, "rank").text,
                      vw__report_counted(report->file_count, "file").text,
                      report->unreadable_count);
}

static void put_notes(vw__report *out, const vw_fleet_report *report)
{
    for (size_t i = 0; i < report->note_count; i++) {
        put(out, "<p>");
        put_text(out, report->notes[i]);
        put(out, "</p>\n");
    }
}

vw_status vw_report_fleet_page(const vw_fleet_report *report, const vw_output *output)
{
    const vw_report_form form = {.struct_size = sizeof form, .has_utf8 = true};
    vw__report out;
    if (report == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a report on jobs");
    vw__report_init(&out, &form);
    put_head(&out);
    put_summary(&out, report);
    put_failures(&out, report);
    put_days(&out, report);
    put_jobs(&out, report);
    put_notes(&out, report);
    put(&out, "</body></html>\n");
    return vw__report_send(&out, output);
}
