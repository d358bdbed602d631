/* report_table.c - rows for SQLite. */
#include "report_table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report_output.h"
#include "view_file.h" /* view_file_look, view_file_put */

#ifdef VW_HAS_SQLITE
#include <sqlite3.h>

#include "sqlite_memory.h"

/* In every file: tells ours from others. "vram" */
#define APPLICATION_ID 0x7672616d
#define APPLICATION_ID_OFFSET 68 /* in an SQLite file, highest byte first */

static const char schema[] =
    "PRAGMA application_id = 1987207533;"
    "PRAGMA user_version = 1;"
    "CREATE TABLE jobs(job TEXT PRIMARY KEY, place INTEGER, day TEXT, ranks INTEGER,"
    " oom_count INTEGER, problem_count INTEGER, out_of_line_count INTEGER,"
    " peak_reserved_bytes INTEGER, card_bytes INTEGER, worst_rank INTEGER, verdict TEXT,"
    " sentence TEXT, failure INTEGER, unreadable INTEGER) WITHOUT ROWID;"
    "CREATE TABLE ranks(job TEXT, rank INTEGER, recording TEXT, text TEXT, device INTEGER,"
    " peak_live_bytes INTEGER, peak_reserved_bytes INTEGER, events INTEGER, steps INTEGER,"
    " growth_bytes_per_step REAL, ran_out INTEGER, tried_bytes INTEGER, time_us INTEGER,"
    " verdict TEXT, confidence TEXT, problem INTEGER, sentence TEXT, conf TEXT,"
    " card_bytes INTEGER, out_of_line INTEGER);"
    "CREATE TABLE outliers(job TEXT, rank INTEGER, measure TEXT, value INTEGER, median INTEGER);"
    "CREATE TABLE failures(failure INTEGER PRIMARY KEY, verdict TEXT, jobs INTEGER,"
    " ranks INTEGER, first_day TEXT, last_day TEXT, job TEXT, rank INTEGER);"
    "CREATE TABLE stacks(failure INTEGER, depth INTEGER, file TEXT, line INTEGER, function TEXT);"
    "CREATE TABLE files(job TEXT, path TEXT, kind TEXT, rank INTEGER, reason TEXT);"
    "CREATE TABLE days(day TEXT, jobs INTEGER, oom_jobs INTEGER, ranks INTEGER,"
    " oom_count INTEGER, median_peak_bytes INTEGER);";

/* A row being put together. Failure sticks. */
typedef struct row_writer {
    sqlite3 *file;
    sqlite3_stmt *statement;
    int column;
    int result; /* SQLITE_OK, or the first failure */
} row_writer;

static void note(row_writer *out, int result)
{
    if (out->result == SQLITE_OK && result != SQLITE_OK && result != SQLITE_DONE)
        out->result = result;
}

static void run_sql(row_writer *out, const char *words)
{
    if (out->result == SQLITE_OK)
        note(out, sqlite3_exec(out->file, words, NULL, NULL, NULL));
}

static void begin_rows(row_writer *out, const char *insert)
{
    if (out->result == SQLITE_OK)
        note(out, sqlite3_prepare_v2(out->file, insert, -1, &out->statement, NULL));
    out->column = 0;
}

static void put_text(row_writer *out, const char *text)
{
    out->column++;
    if (out->result == SQLITE_OK && text != NULL)
        note(out, sqlite3_bind_text(out->statement, out->column, text, -1, SQLITE_STATIC));
}

static void put_integer(row_writer *out, int64_t number)
{
    out->column++;
    if (out->result == SQLITE_OK)
        note(out, sqlite3_bind_int64(out->statement, out->column, number));
}

/* Unknown is NULL. */
static void put_known(row_writer *out, uint64_t number)
{
    if (number <= INT64_MAX)
        put_integer(out, (int64_t)number);
    else
        out->column++;
}

static void put_time(row_writer *out, int64_t time_us)
{
    if (time_us != INT64_MIN)
        put_integer(out, time_us);
    else
        out->column++;
}

static void put_day(row_writer *out, int64_t day, char text[VW_FLEET_DAY_BYTES])
{
    vw_fleet_day_text(day, text);
    put_text(out, text[0] != '\0' ? text : NULL);
}

static void end_row(row_writer *out)
{
    if (out->result == SQLITE_OK)
        note(out, sqlite3_step(out->statement));
    if (out->statement != NULL) {
        (void)sqlite3_reset(out->statement);
        (void)sqlite3_clear_bindings(out->statement);
    }
    out->column = 0;
}

static void end_rows(row_writer *out)
{
    (void)sqlite3_finalize(out->statement);
    out->statement = NULL;
}

/* ---- the tables ------------------------------------------------------------------------------ */

static void put_jobs(row_writer *out, const vw_fleet_report *report)
{
    begin_rows(out, "INSERT INTO jobs VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < report->job_count; i++) {
        const vw_fleet_job *job = &report->jobs[i];
        char day[VW_FLEET_DAY_BYTES];
        const vw_rank *worst = job->worst;
        bool has_verdict = worst != NULL && worst->has_verdict;
        put_text(out, job->name);
        put_known(out, i + 1);
        put_day(out, job->day, day);
        put_known(out, job->rank_count);
        put_known(out, job->ran_out_count);
        put_known(out, job->problem_count);
        put_known(out, job->out_of_line_count);
        put_known(out, job->peak_reserved_bytes);
        put_known(out, job->card_bytes);
        put_known(out, worst != NULL ? worst->rank : VW_UNKNOWN);
        put_text(out, has_verdict ? vw_verdict_name(worst->verdict) : NULL);
        put_text(out, has_verdict ? worst->sentence : NULL);
        put_known(out, job->failure != SIZE_MAX ? job->failure : VW_UNKNOWN);
        put_known(out, job->ranks->unreadable_count);
        end_row(out);
    }
    end_rows(out);
}

static void put_rank(row_writer *out, const char *job, const vw_rank *rank)
{
    bool is_out_of_line = false;
    for (int i = 0; i < VW_RANK_MEASURES; i++)
        is_out_of_line |= rank->is_out_of_line[i];
    put_text(out, job);
    put_known(out, rank->rank);
    put_text(out, rank->recording);
    put_text(out, rank->text);
    put_known(out, rank->device >= 0 ? (uint64_t)rank->device : VW_UNKNOWN);
    put_known(out, rank->peak_live_bytes);
    put_known(out, rank->peak_reserved_bytes);
    put_known(out, rank->event_count);
    put_known(out, rank->step_count);
    out->column++;
    if (!isnan(rank->growth_bytes_per_step) && out->result == SQLITE_OK)
        note(out, sqlite3_bind_double(out->statement, out->column, rank->growth_bytes_per_step));
    put_integer(out, rank->ran_out);
    put_known(out, rank->tried_bytes);
    put_time(out, rank->time_us);
    put_text(out, rank->has_verdict ? vw_verdict_name(rank->verdict) : NULL);
    put_text(out, rank->has_verdict ? vw_confidence_name(rank->confidence) : NULL);
    put_integer(out, rank->ran_out || (rank->has_verdict && rank->is_problem));
    put_text(out, rank->has_verdict ? rank->sentence : NULL);
    put_text(out, rank->conf);
    put_known(out, rank->card_bytes);
    put_integer(out, is_out_of_line);
    end_row(out);
}

static void put_ranks(row_writer *out, const vw_fleet_report *report)
{
    begin_rows(out, "INSERT INTO ranks VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < report->job_count; i++) {
        const vw_fleet_job *job = &report->jobs[i];
        for (size_t k = 0; k < job->ranks->rank_count; k++)
            put_rank(out, job->name, &job->ranks->ranks[k]);
        for (size_t k = 0; k < job->ranks->unassigned_count; k++)
            put_rank(out, job->name, &job->ranks->unassigned[k]);
    }
    end_rows(out);
}

static void put_outliers(row_writer *out, const vw_fleet_report *report)
{
    begin_rows(out, "INSERT INTO outliers VALUES(?,?,?,?,?)");
    for (size_t i = 0; i < report->job_count; i++)
        for (size_t k = 0; k < report->jobs[i].ranks->outlier_count; k++) {
            const vw_rank_outlier *outlier = &report->jobs[i].ranks->outliers[k];
            put_text(out, report->jobs[i].name);
            put_known(out, outlier->rank);
            put_text(out, vw_rank_measure_name(outlier->measure));
            put_known(out, outlier->value);
            put_known(out, outlier->median);
            end_row(out);
        }
    end_rows(out);
}

static void put_failures(row_writer *out, const vw_fleet_report *report)
{
    begin_rows(out, "INSERT INTO failures VALUES(?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < report->failure_count; i++) {
        const vw_fleet_failure *failure = &report->failures[i];
        char first[VW_FLEET_DAY_BYTES], last[VW_FLEET_DAY_BYTES];
        put_known(out, i);
        put_text(out, vw_verdict_name(failure->verdict));
        put_known(out, failure->job_count);
        put_known(out, failure->rank_count);
        put_day(out, failure->first_day, first);
        put_day(out, failure->last_day, last);
        put_text(out, failure->job);
        put_known(out, failure->rank->rank);
        end_row(out);
    }
    end_rows(out);
}

static void put_stacks(row_writer *out, const vw_fleet_report *report)
{
    begin_rows(out, "INSERT INTO stacks VALUES(?,?,?,?,?)");
    for (size_t i = 0; i < report->failure_count; i++)
        for (size_t k = 0; k < report->failures[i].frame_count; k++) {
            const vw_frame *frame = &report->failures[i].frames[k];
            put_known(out, i);
            put_known(out, k);
            put_text(out, frame->file);
            put_known(out, frame->line);
            put_text(out, frame->function);
            end_row(out);
        }
    end_rows(out);
}

static void put_files(row_writer *out, const vw_fleet_report *report)
{
    begin_rows(out, "INSERT INTO files VALUES(?,?,?,?,?)");
    for (size_t i = 0; i < report->job_count; i++)
        for (size_t k = 0; k < report->jobs[i].ranks->file_count; k++) {
            const vw_rank_file *file = &report->jobs[i].ranks->files[k];
            put_text(out, report->jobs[i].name);
            put_text(out, file->path);
            put_text(out, vw_rank_file_kind_name(file->kind));
            put_known(out, file->rank);
            put_text(out, file->reason);
            end_row(out);
        }
    end_rows(out);
}

static void put_days(row_writer *out, const vw_fleet_report *report)
{
    begin_rows(out, "INSERT INTO days VALUES(?,?,?,?,?,?)");
    for (size_t i = 0; i < report->day_count; i++) {
        const vw_fleet_day *day = &report->days[i];
        char text[VW_FLEET_DAY_BYTES];
        put_day(out, day->day, text);
        put_known(out, day->job_count);
        put_known(out, day->ran_out_job_count);
        put_known(out, day->rank_count);
        put_known(out, day->ran_out_count);
        put_known(out, day->median_peak_bytes);
        end_row(out);
    }
    end_rows(out);
}

/* ---- the file -------------------------------------------------------------------------------- */

static bool is_ours(const char *name)
{
    unsigned char head[APPLICATION_ID_OFFSET + 4];
    FILE *file = fopen(name, "rb");
    if (file == NULL)
        return false;
    size_t count = fread(head, 1, sizeof head, file);
    fclose(file);
    const unsigned char *id = &head[APPLICATION_ID_OFFSET];
    return count == sizeof head && ((unsigned)id[0] << 24 | (unsigned)id[1] << 16 |
                                    (unsigned)id[2] << 8 | id[3]) == APPLICATION_ID;
}

bool report_table_check(const char *command_name, const char *name)
{
    view_place place = view_file_look(name, NULL, NULL);
    if (place == VIEW_PLACE_FREE || (place == VIEW_PLACE_FILE && is_ours(name)))
        return true;
    (void)report_output_fail(command_name, name,
                             place == VIEW_PLACE_UNKNOWN
                                 ? strerror(errno)
                                 : "exists, and is not a table that vramwise wrote; choose another "
                                   "name with -o");
    return false;
}

/* All in one transaction. */
static void fill(row_writer *out, const vw_fleet_report *report)
{
    run_sql(out, "BEGIN;");
    run_sql(out, schema);
    put_jobs(out, report);
    put_ranks(out, report);
    put_outliers(out, report);
    put_failures(out, report);
    put_stacks(out, report);
    put_files(out, report);
    put_days(out, report);
    run_sql(out, "COMMIT;");
}

static int make_bytes(const vw_fleet_report *report, sqlite_memory *made)
{
    row_writer out = {.file = NULL};
    note(&out, sqlite_memory_open(made, &out.file));
    fill(&out, report);
    note(&out, sqlite3_close(out.file));
    return out.result;
}

static vw_status write_bytes(const void *made, const vw_output *output)
{
    const sqlite_memory *table = made;
    return output->write(output->context, (const char *)table->bytes, table->size_bytes)
               ? VW_OK
               : VW_ERR_FILE;
}

bool report_table_write(const char *command_name, const vw_fleet_report *report, const char *name)
{
    sqlite_memory made = {.bytes = NULL};
    const view_file_content content = {&made, write_bytes};
    uint64_t size_bytes;
    int result = make_bytes(report, &made);
    bool is_written =
        result == SQLITE_OK && view_file_put(&content, name, VIEW_PLACE_FREE, false, &size_bytes);
    if (!is_written)
        (void)report_output_fail(command_name, name,
                                 result != SQLITE_OK ? sqlite3_errstr(result) : strerror(errno));
    sqlite3_free(made.bytes);
    return is_written;
}

#else

bool report_table_check(const char *command_name, const char *name)
{
    (void)report_output_fail(command_name, name, "this build has no libsqlite3, which tables need");
    return false;
}

bool report_table_write(const char *command_name, const vw_fleet_report *report, const char *name)
{
    (void)report;
    return report_table_check(command_name, name);
}

#endif
