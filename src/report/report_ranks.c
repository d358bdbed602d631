/* report_ranks.c - a job's ranks for people: who was first, the table, who is out of line, where
 * they differ, and which files it rests on. */
#include "vramwise/ranks.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/report_fields.h"
#include "report/report_ranks.h"

#define OUT_OF_LINE_MARK "*"

enum { MOST_NUMBERS = 12 };

static const char *file_of(const vw_rank *rank)
{
    return rank->recording != NULL ? rank->recording : rank->text;
}

/* What a rank's memory grew by, as whole bytes; VW_UNKNOWN: not known. */
static uint64_t growth_bytes_of(const vw_rank *rank)
{
    double growth = rank->growth_bytes_per_step;
    return isnan(growth) || growth < 0 || growth >= 0x1p63 ? VW_UNKNOWN : (uint64_t)llround(growth);
}

/* ---- commands -------------------------------------------------------------------------------- */

static bool append_piece(void *context, const char *bytes, size_t size_bytes)
{
    vw__append_bytes(context, bytes, size_bytes);
    return true;
}

/* "vramwise view 'FOLDER/FILE'": the command that shows more of a file. The name is quoted where a
 * shell needs it. false: there is no file. */
static bool append_command(vw__byte_buffer *buffer, const char *command, const char *folder,
                           const char *file)
{
    vw__byte_buffer path;
    if (file == NULL)
        return false;
    vw__byte_buffer_init(&path);
    if (folder != NULL) {
        vw__append_text(&path, folder);
        if (folder[0] != '\0' && folder[strlen(folder) - 1] != '/')
            vw__append_text(&path, "/");
    }
    vw__append_text(&path, file);
    vw__append_text(buffer, command);
    const vw_output output = {buffer, append_piece};
    (void)vw_write_shell_word(vw__byte_buffer_text(&path), &output); /* the buffer knows */
    buffer->has_failed |= path.has_failed;
    vw__byte_buffer_deinit(&path);
    return true;
}

static void json_command(vw__report *out, vw__json *json, const char *key, const char *command,
                         const char *file)
{
    vw__byte_buffer text;
    vw__byte_buffer_init(&text);
    if (append_command(&text, command, out->form.file, file))
        vw__json_bytes(json, key, vw__byte_buffer_text(&text), vw__byte_buffer_size(&text));
    else
        vw__json_null(json, key);
    json->buffer->has_failed |= text.has_failed;
    vw__byte_buffer_deinit(&text);
}

static void json_view(vw__report *out, vw__json *json, const char *key, const void *object)
{
    json_command(out, json, key, "vramwise view ", ((const vw_rank *)object)->recording);
}

static void json_doctor(vw__report *out, vw__json *json, const char *key, const void *object)
{
    json_command(out, json, key, "vramwise doctor ", file_of(object));
}

/* ---- the fields; vramwise-report(1) names them ------------------------------------------------
 */

#define RANK(kind, key, member) VW__REPORT_FIELD(kind, vw_rank, key, member)
static const vw__report_field oom_list[] = {
    {RANK(INTEGER, "time_us", time_us)},
    {RANK(INTEGER, "local_time_us", local_time_us)},
    {RANK(BYTES, "tried_bytes", tried_bytes)},
};
static const vw__report_fields oom_fields = VW__REPORT_FIELDS(vw_rank, oom_list);

static void json_marks(vw__report *out, vw__json *json, const char *key, const void *object)
{
    const vw_rank *rank = object;
    (void)out;
    vw__json_begin_array(json, key);
    for (int i = 0; i < VW_RANK_MEASURES; i++)
        if (rank->is_out_of_line[i])
            vw__json_text(json, NULL, vw_rank_measure_name((vw_rank_measure)i));
    vw__json_end_array(json);
}

static void json_growth(vw__report *out, vw__json *json, const char *key, const void *object)
{
    (void)out;
    vw__json_known(json, key, growth_bytes_of(object));
}

static void json_problem(vw__report *out, vw__json *json, const char *key, const void *object)
{
    const vw_rank *rank = object;
    (void)out;
    vw__json_boolean(json, key, rank->ran_out || (rank->has_verdict && rank->is_problem));
}

VW__REPORT_NAME(basis_of, vw_rank, vw_rank_basis_name, basis)
VW__REPORT_NAME(verdict_of, vw_rank, vw_verdict_name, verdict)
VW__REPORT_NAME(confidence_of, vw_rank, vw_confidence_name, confidence)
VW__REPORT_CONDITION(ran_out, vw_rank, ran_out)
VW__REPORT_CONDITION(has_verdict, vw_rank, has_verdict)

static const vw__report_field rank_list[] = {
    {RANK(COUNT, "rank", rank)},
    {RANK(TEXT, "recording", recording)},
    {RANK(TEXT, "text", text)},
    {RANK(COUNT, "files", file_count)},
    {RANK(NATURAL, "device", device)},
    {.key = "basis", .text = basis_of},
    {RANK(BYTES, "peak_live_bytes", peak_live_bytes)},
    {RANK(BYTES, "peak_reserved_bytes", peak_reserved_bytes)},
    {RANK(COUNT, "events", event_count)},
    {.key = "out_of_line", .write = json_marks},
    {RANK(COUNT, "steps", step_count)},
    {.key = "growth_bytes_per_step", .kind = VW__REPORT_FIELD_RATIO, .write = json_growth},
    {.key = "oom", .kind = VW__REPORT_FIELD_OBJECT, .fields = &oom_fields, .is_known = ran_out},
    {.key = "verdict", .text = verdict_of, .is_known = has_verdict},
    {.key = "confidence", .text = confidence_of, .is_known = has_verdict},
    {RANK(TEXT, "sentence", sentence), .is_known = has_verdict},
    {.key = "problem", .kind = VW__REPORT_FIELD_BOOLEAN, .write = json_problem},
    {RANK(TEXT, "conf", conf)},
    {RANK(BYTES, "card_bytes", card_bytes)},
    {.key = "view", .write = json_view},
    {.key = "doctor", .write = json_doctor},
};
static const vw__report_fields rank_fields = VW__REPORT_FIELDS(vw_rank, rank_list);

#define JOB(kind, key, member) VW__REPORT_FIELD(kind, vw_ranks_report, key, member)
#define JOB_COUNTED(member) VW__REPORT_COUNTED(vw_ranks_report, member)
static const vw__report_field first_list[] = {
    {JOB(COUNT, "rank", first_rank)},
    {JOB(COUNT, "lead_us", first_lead_us)},
    {JOB(TEXT, "reason", first_reason)},
};
static const vw__report_fields first_fields = VW__REPORT_FIELDS(vw_ranks_report, first_list);

static void json_medians(vw__report *out, vw__json *json, const char *key, const void *object)
{
    const vw_ranks_report *report = object;
    (void)out;
    vw__json_begin_object(json, key);
    for (int i = 0; i < VW_RANK_MEASURES; i++)
        vw__json_known(json, vw_rank_measure_name((vw_rank_measure)i), report->medians[i]);
    vw__json_end_object(json);
}

VW__REPORT_NAME(measure_of, vw_rank_outlier, vw_rank_measure_name, measure)

static const vw__report_field outlier_list[] = {
    {VW__REPORT_FIELD(COUNT, vw_rank_outlier, "rank", rank)},
    {.key = "measure", .text = measure_of},
    {VW__REPORT_FIELD(COUNT, vw_rank_outlier, "value", value)},
    {VW__REPORT_FIELD(COUNT, vw_rank_outlier, "median", median)},
};
const vw__report_fields vw__report_ranks_outlier_fields =
    VW__REPORT_FIELDS(vw_rank_outlier, outlier_list);

static void append_site_rank(vw__byte_buffer *cell, const void *object)
{
    vw__append_format(cell, "%" PRIu64, ((const vw_rank_site *)object)->rank);
}

static void append_site_difference(vw__byte_buffer *cell, const void *object)
{
    const vw_rank_site *site = object;
    vw__append_text(cell, vw__report_change(site->median_bytes, site->bytes).text);
}

static void append_site_place(vw__byte_buffer *cell, const void *object)
{
    const vw_rank_site *site = object;
    vw__report_append_place(cell, site->where, site->where, site->where != NULL, "(no stack)");
}

#define SITE(kind, key, member) VW__REPORT_FIELD(kind, vw_rank_site, key, member)
static const vw__report_field site_list[] = {
    {SITE(COUNT, "rank", rank), VW__REPORT_COLUMN(1, NUMBER, "rank"), .append = append_site_rank},
    {VW__REPORT_COLUMN(2, NUMBER, "differs by"), .append = append_site_difference},
    {SITE(PLACE, "where", where), VW__REPORT_COLUMN(6, PLACE, "where"),
     .append = append_site_place},
    {SITE(TEXT, "category", category), VW__REPORT_COLUMN(5, WORD, "category")},
    {SITE(BYTES, "bytes", bytes), VW__REPORT_COLUMN(3, NUMBER, "holds")},
    {SITE(BYTES, "median_bytes", median_bytes), VW__REPORT_COLUMN(4, NUMBER, "median")},
};
static const vw__report_fields site_fields = VW__REPORT_FIELDS(vw_rank_site, site_list);

#define SETTING(kind, key, member) VW__REPORT_FIELD(kind, vw_rank_setting, key, member)
static const vw__report_field setting_list[] = {
    {SETTING(TEXT, "key", key)},
    {SETTING(COUNT, "rank", rank)},
    {SETTING(TEXT, "value", value)},
    {SETTING(TEXT, "usual", usual)},
};
static const vw__report_fields setting_fields = VW__REPORT_FIELDS(vw_rank_setting, setting_list);

VW__REPORT_NAME(file_kind_of, vw_rank_file, vw_rank_file_kind_name, kind)

#define RANK_FILE(kind, key, member) VW__REPORT_FIELD(kind, vw_rank_file, key, member)
static const vw__report_field file_list[] = {
    {RANK_FILE(TEXT, "path", path)},     {.key = "kind", .text = file_kind_of},
    {RANK_FILE(COUNT, "rank", rank)},    {RANK_FILE(COUNT, "ranks", rank_count)},
    {RANK_FILE(TEXT, "reason", reason)},
};
static const vw__report_fields file_fields = VW__REPORT_FIELDS(vw_rank_file, file_list);

static const vw__report_field job_list[] = {
    {.key = "folder", .kind = VW__REPORT_FIELD_FILE},
    {JOB(BOOLEAN, "something_to_see", is_something_to_see)},
    {JOB(COUNT, "oom_count", ran_out_count)},
    {.key = "first_oom", .kind = VW__REPORT_FIELD_OBJECT, .fields = &first_fields},
    {.key = "medians", .write = json_medians},
    {JOB(OBJECTS, "ranks", ranks), JOB_COUNTED(rank_count), .fields = &rank_fields},
    {JOB(OBJECTS, "unassigned", unassigned), JOB_COUNTED(unassigned_count), .fields = &rank_fields},
    {JOB(COUNTS, "missing", missing), JOB_COUNTED(missing_count)},
    {JOB(COUNTS, "unread", unread), JOB_COUNTED(unread_count)},
    {JOB(OBJECTS, "outliers", outliers), JOB_COUNTED(outlier_count),
     .fields = &vw__report_ranks_outlier_fields},
    {JOB(COUNT, "site_count", site_count)},
    {JOB(FIRST_OBJECTS, "sites", sites), JOB_COUNTED(site_count), .fields = &site_fields},
    {JOB(OBJECTS, "settings", settings), JOB_COUNTED(setting_count), .fields = &setting_fields},
    {JOB(OBJECTS, "files", files), JOB_COUNTED(file_count), .fields = &file_fields},
    {JOB(TEXTS, "notes", notes), JOB_COUNTED(note_count)},
};
static const vw__report_fields job_fields = VW__REPORT_FIELDS(vw_ranks_report, job_list);

/* ---- the answer ------------------------------------------------------------------------------ */

static size_t unassigned_ran_out_count(const vw_ranks_report *report)
{
    size_t count = 0;
    for (size_t i = 0; i < report->unassigned_count; i++)
        count += report->unassigned[i].ran_out;
    return count;
}

static void say_answer_without_ranks(vw__report *out, const vw_ranks_report *report)
{
    const vw__report_text files =
        vw__report_counted(report->recording_count + report->text_count, "file");
    size_t ran_out_count = unassigned_ran_out_count(report);
    if (ran_out_count != 0)
        vw__report_say(out, VW__REPORT_STYLE_RED, "%zu of %s ran out of memory; no rank is known",
                       ran_out_count, files.text);
    else
        vw__report_say(
            out, report->is_something_to_see ? VW__REPORT_STYLE_YELLOW : VW__REPORT_STYLE_GREEN,
            "%s, none ran out of memory; no rank is known", files.text);
}

/* "; 2 files of unknown rank did", behind the sentence on the ranks. */
static vw__report_text others_text(const vw_ranks_report *report)
{
    vw__report_text text = {""};
    size_t count = unassigned_ran_out_count(report);
    if (count != 0)
        (void)snprintf(text.text, sizeof text.text, "; %.20s of unknown rank did%s",
                       vw__report_counted(count, "file").text,
                       report->ran_out_count != 0 ? ", too" : "");
    return text;
}

static void say_answer(vw__report *out, const vw_ranks_report *report)
{
    const vw__report_text ranks = vw__report_counted(report->rank_count, "rank"),
                          others = others_text(report);
    const vw__report_style worst = others.text[0] != '\0'        ? VW__REPORT_STYLE_RED
                                   : report->is_something_to_see ? VW__REPORT_STYLE_YELLOW
                                                                 : VW__REPORT_STYLE_GREEN;
    if (report->rank_count == 0)
        say_answer_without_ranks(out, report);
    else if (report->ran_out_count == 0)
        vw__report_say(out, worst, "%s, none ran out of memory%s", ranks.text, others.text);
    else if (report->ran_out_count == 1)
        vw__report_say(out, VW__REPORT_STYLE_RED,
                       "rank %" PRIu64 " ran out of memory, alone of %s%s", report->first_rank,
                       ranks.text, others.text);
    else if (report->first_rank != VW_UNKNOWN)
        vw__report_say(out, VW__REPORT_STYLE_RED,
                       "rank %" PRIu64 " ran out of memory first, %s before the next; %zu of %s "
                       "ran out%s",
                       report->first_rank, vw__report_duration(report->first_lead_us * 1000).text,
                       report->ran_out_count, ranks.text, others.text);
    else
        vw__report_say(out, VW__REPORT_STYLE_RED,
                       "%zu of %s ran out of memory; which was first is not known: %s%s",
                       report->ran_out_count, ranks.text, report->first_reason, others.text);
}

/* ---- the table ------------------------------------------------------------------------------- */

static vw__report_text marked(vw__report_text figure, bool is_marked)
{
    vw__report_text text;
    (void)snprintf(text.text, sizeof text.text, "%.60s%s", figure.text,
                   is_marked ? OUT_OF_LINE_MARK : "");
    return text;
}

static int64_t time_like(const vw_rank *rank, const vw_rank *first)
{
    return first->time_us != INT64_MIN && rank->time_us != INT64_MIN ? rank->time_us
                                                                     : rank->local_time_us;
}

static const vw_rank *first_of(const vw_ranks_report *report)
{
    for (size_t i = 0; i < report->rank_count; i++)
        if (report->ranks[i].rank == report->first_rank)
            return &report->ranks[i];
    return NULL;
}

/* "first", "+1.20 s", "yes"; "" for a rank that did not. */
static vw__report_text ran_out_text(const vw_rank *rank, const vw_rank *first)
{
    vw__report_text text = {""};
    if (!rank->ran_out)
        return text;
    if (rank == first) {
        (void)snprintf(text.text, sizeof text.text, "first");
        return text;
    }
    (void)snprintf(text.text, sizeof text.text, "yes");
    if (first == NULL)
        return text;
    int64_t here = time_like(rank, first), there = time_like(first, rank);
    if (here != INT64_MIN && there != INT64_MIN && here >= there)
        (void)snprintf(text.text, sizeof text.text, "+%.60s",
                       vw__report_duration(((uint64_t)here - (uint64_t)there) * 1000).text);
    return text;
}

static vw__report_text growth_text(const vw_rank *rank)
{
    vw__report_text text = {""};
    uint64_t growth = growth_bytes_of(rank);
    if (growth != VW_UNKNOWN && growth > 0)
        (void)snprintf(text.text, sizeof text.text, "+%.60s", vw__report_size(growth).text);
    return text;
}

static vw__report_text known_text(vw__report_text text, uint64_t value)
{
    return value != VW_UNKNOWN ? text : (vw__report_text){""};
}

/* A healthy rank may have findings all the same: what it could do with less. */
static bool is_ill(const vw_rank *rank)
{
    return rank->ran_out || (rank->has_verdict && rank->verdict != VW_VERDICT_HEALTHY &&
                             rank->verdict != VW_VERDICT_NOT_OOM);
}

static void add_rank(vw__report_table *table, const vw_rank *rank, const vw_rank *first)
{
    char number[24] = "?";
    if (rank->rank != VW_UNKNOWN)
        (void)snprintf(number, sizeof number, "%" PRIu64, rank->rank);
    vw__report_table_row(table, rank == first  ? VW__REPORT_STYLE_RED
                                : is_ill(rank) ? VW__REPORT_STYLE_BOLD
                                               : VW__REPORT_STYLE_PLAIN);
    vw__report_table_cell(table, number);
    vw__report_table_cell(table, marked(vw__report_size(rank->peak_live_bytes),
                                        rank->is_out_of_line[VW_RANK_PEAK_LIVE])
                                     .text);
    vw__report_table_cell(table, marked(vw__report_size(rank->peak_reserved_bytes),
                                        rank->is_out_of_line[VW_RANK_PEAK_RESERVED])
                                     .text);
    vw__report_table_cell(table,
                          marked(known_text(vw__report_count(rank->event_count), rank->event_count),
                                 rank->is_out_of_line[VW_RANK_EVENTS])
                              .text);
    vw__report_table_cell(table,
                          known_text(vw__report_count(rank->step_count), rank->step_count).text);
    vw__report_table_cell(table, growth_text(rank).text);
    vw__report_table_cell(table, ran_out_text(rank, first).text);
    vw__report_table_cell(table, rank->has_verdict ? vw_verdict_name(rank->verdict) : "");
    vw__report_table_cell(table, rank->rank == VW_UNKNOWN ? file_of(rank) : "");
}

static void add_medians(vw__report_table *table, const vw_ranks_report *report)
{
    vw__report_table_row(table, VW__REPORT_STYLE_FAINT);
    vw__report_table_cell(table, "median");
    vw__report_table_cell(table, vw__report_size(report->medians[VW_RANK_PEAK_LIVE]).text);
    vw__report_table_cell(table, vw__report_size(report->medians[VW_RANK_PEAK_RESERVED]).text);
    vw__report_table_cell(table, known_text(vw__report_count(report->medians[VW_RANK_EVENTS]),
                                            report->medians[VW_RANK_EVENTS])
                                     .text);
    for (int i = 0; i < 5; i++)
        vw__report_table_cell(table, "");
}

static void say_ranks(vw__report *out, const vw_ranks_report *report)
{
    static const vw__report_column columns[] = {
        {"rank", VW__REPORT_COLUMN_NUMBER},     {"live peak", VW__REPORT_COLUMN_NUMBER},
        {"reserved", VW__REPORT_COLUMN_NUMBER}, {"events", VW__REPORT_COLUMN_NUMBER},
        {"steps", VW__REPORT_COLUMN_NUMBER},    {"a step", VW__REPORT_COLUMN_NUMBER},
        {"ran out", VW__REPORT_COLUMN_WORD},    {"verdict", VW__REPORT_COLUMN_WORD},
        {"file", VW__REPORT_COLUMN_PLACE},
    };
    const vw_rank *first = first_of(report);
    vw__report_table table;
    if (report->rank_count + report->unassigned_count == 0)
        return;
    vw__report_blank(out);
    vw__report_table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < report->rank_count; i++)
        add_rank(&table, &report->ranks[i], first);
    if (report->rank_count > 1)
        add_medians(&table, report);
    for (size_t i = 0; i < report->unassigned_count; i++)
        add_rank(&table, &report->unassigned[i], first);
    vw__report_table_end(&table, out);
}

/* ---- who is out of line, and where they differ ----------------------------------------------- */

/* "and 3 more", where not all of a list were said. */
static void say_rest(vw__report *out, size_t count)
{
    if (count > out->form.most_rows)
        vw__report_say(out, VW__REPORT_STYLE_FAINT, "and %zu more", count - out->form.most_rows);
}

static void say_outliers(vw__report *out, const vw_ranks_report *report)
{
    static const char *const names[] = {"live peak", "reserved peak", "events"};
    if (report->outlier_count > 0)
        vw__report_blank(out);
    for (size_t i = 0; i < report->outlier_count && i < out->form.most_rows; i++) {
        const vw_rank_outlier *outlier = &report->outliers[i];
        bool is_count = outlier->measure == VW_RANK_EVENTS;
        vw__report_text value =
            is_count ? vw__report_count(outlier->value) : vw__report_size(outlier->value);
        vw__report_text median =
            is_count ? vw__report_count(outlier->median) : vw__report_size(outlier->median);
        vw__report_say(out, VW__REPORT_STYLE_YELLOW,
                       "out of line " OUT_OF_LINE_MARK " rank %" PRIu64
                       ": %s %s, where the median is %s",
                       outlier->rank, names[outlier->measure], value.text, median.text);
    }
    say_rest(out, report->outlier_count);
}

static void say_sites(vw__report *out, const vw_ranks_report *report)
{
    vw__report_table table;
    if (report->site_count == 0)
        return;
    vw__report_blank(out);
    vw__report_fields_table(&table, &site_fields);
    for (size_t i = 0; i < report->site_count && i < out->form.most_rows; i++)
        vw__report_fields_row(&table, VW__REPORT_STYLE_PLAIN, &site_fields, &report->sites[i]);
    vw__report_table_end(&table, out);
    say_rest(out, report->site_count);
}

/* "1, 3 and 2 more" */
static void append_numbers(vw__byte_buffer *text, const uint64_t *numbers, size_t stride_bytes,
                           size_t count)
{
    const char *at = (const char *)numbers;
    for (size_t i = 0; i < count && i < MOST_NUMBERS; i++, at += stride_bytes)
        vw__append_format(text, "%s%" PRIu64, i > 0 ? ", " : "",
                          *(const uint64_t *)(const void *)at);
    if (count > MOST_NUMBERS)
        vw__append_format(text, " and %zu more", count - MOST_NUMBERS);
}

/* The ranks that have one value, in one sentence; how many they are. */
static size_t say_setting(vw__report *out, const vw_rank_setting *settings, size_t count)
{
    vw__byte_buffer ranks;
    size_t same = 1;
    while (same < count && strcmp(settings[same].key, settings[0].key) == 0 &&
           strcmp(settings[same].value, settings[0].value) == 0)
        same++;
    vw__byte_buffer_init(&ranks);
    append_numbers(&ranks, &settings[0].rank, sizeof settings[0], same);
    vw__report_say(out, VW__REPORT_STYLE_YELLOW,
                   "setting: %s is '%s' on rank%s %s, and '%s' on most", settings[0].key,
                   settings[0].value, same > 1 ? "s" : "", vw__byte_buffer_text(&ranks),
                   settings[0].usual);
    out->buffer.has_failed |= ranks.has_failed;
    vw__byte_buffer_deinit(&ranks);
    return same;
}

static void say_settings(vw__report *out, const vw_ranks_report *report)
{
    if (report->setting_count > 0)
        vw__report_blank(out);
    for (size_t i = 0; i < report->setting_count;)
        i += say_setting(out, &report->settings[i], report->setting_count - i);
}

/* ---- what to look at ------------------------------------------------------------------------- */

static const vw_rank *worst_among(const vw_rank *ranks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ranks[i].ran_out)
            return &ranks[i];
    for (size_t i = 0; i < count; i++)
        if (is_ill(&ranks[i]))
            return &ranks[i];
    return NULL;
}

/* The rank that says most: the first to run out; else one that did; else one with a problem. Where
 * no rank has one, a file that has. */
static const vw_rank *worst_of(const vw_ranks_report *report)
{
    const vw_rank *worst = first_of(report);
    if (worst == NULL)
        worst = worst_among(report->ranks, report->rank_count);
    return worst != NULL ? worst : worst_among(report->unassigned, report->unassigned_count);
}

static void say_worst(vw__report *out, const vw_ranks_report *report)
{
    const vw_rank *rank = worst_of(report);
    vw__byte_buffer command;
    if (rank == NULL)
        return;
    vw__report_blank(out);
    if (rank->has_verdict && rank->rank != VW_UNKNOWN)
        vw__report_say(out, VW__REPORT_STYLE_PLAIN, "rank %" PRIu64 ": %s", rank->rank,
                       rank->sentence);
    else if (rank->has_verdict)
        vw__report_say(out, VW__REPORT_STYLE_PLAIN, "%s: %s", file_of(rank), rank->sentence);
    vw__byte_buffer_init(&command);
    if (append_command(&command, "vramwise doctor ", out->form.file, file_of(rank)))
        vw__report_verbatim(out, "", vw__byte_buffer_text(&command));
    vw__byte_buffer_clear(&command);
    if (append_command(&command, "vramwise view ", out->form.file, rank->recording))
        vw__report_verbatim(out, "", vw__byte_buffer_text(&command));
    out->buffer.has_failed |= command.has_failed;
    vw__byte_buffer_deinit(&command);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void say_numbers(vw__report *out, const char *label, const char *behind,
                        const uint64_t *numbers, size_t count)
{
    vw__byte_buffer text;
    if (count == 0)
        return;
    vw__byte_buffer_init(&text);
    append_numbers(&text, numbers, sizeof *numbers, count);
    vw__report_fact(out, label, "%s%s", vw__byte_buffer_text(&text), behind);
    out->buffer.has_failed |= text.has_failed;
    vw__byte_buffer_deinit(&text);
}

/* Files of one kind, and why. */
static void say_files(vw__report *out, const vw_ranks_report *report, const char *label,
                      vw_rank_file_kind kind, bool is_unassigned, size_t count)
{
    size_t said = 0;
    for (size_t i = 0; i < report->file_count && said < out->form.most_rows; i++) {
        const vw_rank_file *file = &report->files[i];
        if (file->kind != kind || (is_unassigned && file->rank_count != 0))
            continue;
        vw__report_fact(out, said == 0 ? label : "", "%s: %s", file->path,
                        file->reason != NULL ? file->reason : "?");
        said++;
    }
    if (count > said)
        vw__report_fact(out, "", "and %zu more", count - said);
}

static size_t count_unassigned(const vw_ranks_report *report, vw_rank_file_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < report->file_count; i++)
        count += report->files[i].kind == kind && report->files[i].rank_count == 0;
    return count;
}

static void say_sources(vw__report *out, const vw_ranks_report *report)
{
    vw__report_blank(out);
    vw__report_fact(out, "files", "%zu: %s, %s, %zu unreadable, %s", report->file_count,
                    vw__report_counted(report->recording_count, "recording").text,
                    vw__report_counted(report->text_count, "text").text, report->unreadable_count,
                    vw__report_counted(report->foreign_count, "other").text);
    say_numbers(out, "no files of", "", report->missing, report->missing_count);
    say_numbers(out, "not read", " (their files are below, with the reason)", report->unread,
                report->unread_count);
    say_files(out, report, "no rank", VW_RANK_FILE_RECORDING, true,
              count_unassigned(report, VW_RANK_FILE_RECORDING));
    say_files(out, report, "no rank", VW_RANK_FILE_TEXT, true,
              count_unassigned(report, VW_RANK_FILE_TEXT));
    say_files(out, report, "unreadable", VW_RANK_FILE_UNREADABLE, false, report->unreadable_count);
    say_files(out, report, "others", VW_RANK_FILE_FOREIGN, false, report->foreign_count);
    if (report->note_count > 0)
        vw__report_blank(out);
    vw__report_list(out, VW__REPORT_STYLE_PLAIN, "note", report->notes, report->note_count);
}

static void say_report(vw__report *out, const void *content)
{
    const vw_ranks_report *report = content;
    say_answer(out, report);
    say_ranks(out, report);
    say_outliers(out, report);
    say_sites(out, report);
    say_settings(out, report);
    say_worst(out, report);
    say_sources(out, report);
}

vw_status vw_report_ranks(const vw_ranks_report *report, const vw_report_form *form,
                          const vw_output *output)
{
    static const vw__report_kind kind = {"job", say_report, &job_fields, "ranks"};
    return vw__report_as(&kind, report, form, output);
}
