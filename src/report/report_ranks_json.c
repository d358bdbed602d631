/* report_ranks_json.c - a job's ranks for programs: vramwise-report(1) names the fields. */
#include <math.h>
#include <string.h>

#include "export/json_write.h"
#include "report/report_frames.h"
#include "report/report_ranks.h"

uint64_t vw__rank_growth_bytes(const vw_rank *rank)
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

bool vw__append_rank_view(vw__byte_buffer *buffer, const char *folder, const vw_rank *rank)
{
    return append_command(buffer, "vramwise view ", folder, rank->recording);
}

bool vw__append_rank_doctor(vw__byte_buffer *buffer, const char *folder, const vw_rank *rank)
{
    return append_command(buffer, "vramwise doctor ", folder,
                          rank->recording != NULL ? rank->recording : rank->text);
}

typedef bool (*append_rank_command)(vw__byte_buffer *buffer, const char *folder,
                                    const vw_rank *rank);

static void json_command(vw__json *json, const char *key, append_rank_command append,
                         const char *folder, const vw_rank *rank)
{
    vw__byte_buffer text;
    vw__byte_buffer_init(&text);
    if (append(&text, folder, rank))
        vw__json_bytes(json, key, vw__byte_buffer_text(&text), vw__byte_buffer_size(&text));
    else
        vw__json_null(json, key);
    json->buffer->has_failed |= text.has_failed;
    vw__byte_buffer_deinit(&text);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void json_time(vw__json *json, const char *key, int64_t time_us)
{
    if (time_us == INT64_MIN)
        vw__json_null(json, key);
    else
        vw__json_integer(json, key, time_us);
}

static void json_oom(vw__json *json, const vw_rank *rank)
{
    if (!rank->ran_out) {
        vw__json_null(json, "oom");
        return;
    }
    vw__json_begin_object(json, "oom");
    json_time(json, "time_us", rank->time_us);
    json_time(json, "local_time_us", rank->local_time_us);
    vw__json_known(json, "tried_bytes", rank->tried_bytes);
    vw__json_end_object(json);
}

static void json_marks(vw__json *json, const vw_rank *rank)
{
    vw__json_begin_array(json, "out_of_line");
    for (int i = 0; i < VW_RANK_MEASURES; i++)
        if (rank->is_out_of_line[i])
            vw__json_text(json, NULL, vw_rank_measure_name((vw_rank_measure)i));
    vw__json_end_array(json);
}

static void json_rank(vw__json *json, const char *folder, const vw_rank *rank)
{
    vw__json_begin_object(json, NULL);
    vw__json_known(json, "rank", rank->rank);
    vw__json_text(json, "recording", rank->recording);
    vw__json_text(json, "text", rank->text);
    vw__json_unsigned(json, "files", rank->file_count);
    vw__json_known(json, "device", rank->device >= 0 ? (uint64_t)rank->device : UINT64_MAX);
    vw__json_text(json, "basis", vw_rank_basis_name(rank->basis));
    vw__json_known(json, "peak_live_bytes", rank->peak_live_bytes);
    vw__json_known(json, "peak_reserved_bytes", rank->peak_reserved_bytes);
    vw__json_known(json, "events", rank->event_count);
    json_marks(json, rank);
    vw__json_known(json, "steps", rank->step_count);
    vw__json_known(json, "growth_bytes_per_step", vw__rank_growth_bytes(rank));
    json_oom(json, rank);
    vw__json_text(json, "verdict", rank->has_verdict ? vw_verdict_name(rank->verdict) : NULL);
    vw__json_text(json, "confidence",
                  rank->has_verdict ? vw_confidence_name(rank->confidence) : NULL);
    vw__json_text(json, "sentence", rank->has_verdict ? rank->sentence : NULL);
    vw__json_boolean(json, "problem", rank->ran_out || (rank->has_verdict && rank->is_problem));
    vw__json_text(json, "conf", rank->conf);
    vw__json_known(json, "card_bytes", rank->card_bytes);
    json_command(json, "view", vw__append_rank_view, folder, rank);
    json_command(json, "doctor", vw__append_rank_doctor, folder, rank);
    vw__json_end_object(json);
}

static void json_ranks(vw__json *json, const char *key, const char *folder, const vw_rank *ranks,
                       size_t count)
{
    vw__json_begin_array(json, key);
    for (size_t i = 0; i < count; i++)
        json_rank(json, folder, &ranks[i]);
    vw__json_end_array(json);
}

/* ---- over all ranks -------------------------------------------------------------------------- */

static void json_first(vw__json *json, const vw_ranks_report *report)
{
    vw__json_begin_object(json, "first_oom");
    vw__json_known(json, "rank", report->first_rank);
    vw__json_known(json, "lead_us", report->first_lead_us);
    vw__json_text(json, "reason", report->first_reason);
    vw__json_end_object(json);
}

static void json_medians(vw__json *json, const vw_ranks_report *report)
{
    vw__json_begin_object(json, "medians");
    for (int i = 0; i < VW_RANK_MEASURES; i++)
        vw__json_known(json, vw_rank_measure_name((vw_rank_measure)i), report->medians[i]);
    vw__json_end_object(json);
}

static void json_outliers(vw__json *json, const vw_ranks_report *report)
{
    vw__json_begin_array(json, "outliers");
    for (size_t i = 0; i < report->outlier_count; i++) {
        const vw_rank_outlier *outlier = &report->outliers[i];
        vw__json_begin_object(json, NULL);
        vw__json_unsigned(json, "rank", outlier->rank);
        vw__json_text(json, "measure", vw_rank_measure_name(outlier->measure));
        vw__json_unsigned(json, "value", outlier->value);
        vw__json_unsigned(json, "median", outlier->median);
        vw__json_end_object(json);
    }
    vw__json_end_array(json);
}

static void json_sites(vw__json *json, const vw_ranks_report *report, size_t most_rows)
{
    vw__json_unsigned(json, "site_count", report->site_count);
    vw__json_begin_array(json, "sites");
    for (size_t i = 0; i < report->site_count && i < most_rows; i++) {
        const vw_rank_site *site = &report->sites[i];
        vw__json_begin_object(json, NULL);
        vw__json_unsigned(json, "rank", site->rank);
        vw__json_place(json, "where", site->where);
        vw__json_text(json, "category", site->category);
        vw__json_unsigned(json, "bytes", site->bytes);
        vw__json_unsigned(json, "median_bytes", site->median_bytes);
        vw__json_end_object(json);
    }
    vw__json_end_array(json);
}

static void json_settings(vw__json *json, const vw_ranks_report *report)
{
    vw__json_begin_array(json, "settings");
    for (size_t i = 0; i < report->setting_count; i++) {
        const vw_rank_setting *setting = &report->settings[i];
        vw__json_begin_object(json, NULL);
        vw__json_text(json, "key", setting->key);
        vw__json_unsigned(json, "rank", setting->rank);
        vw__json_text(json, "value", setting->value);
        vw__json_text(json, "usual", setting->usual);
        vw__json_end_object(json);
    }
    vw__json_end_array(json);
}

static void json_files(vw__json *json, const vw_ranks_report *report)
{
    vw__json_begin_array(json, "files");
    for (size_t i = 0; i < report->file_count; i++) {
        const vw_rank_file *file = &report->files[i];
        vw__json_begin_object(json, NULL);
        vw__json_text(json, "path", file->path);
        vw__json_text(json, "kind", vw_rank_file_kind_name(file->kind));
        vw__json_known(json, "rank", file->rank);
        vw__json_unsigned(json, "ranks", file->rank_count);
        vw__json_text(json, "reason", file->reason);
        vw__json_end_object(json);
    }
    vw__json_end_array(json);
}

static void json_numbers(vw__json *json, const char *key, const uint64_t *numbers, size_t count)
{
    vw__json_begin_array(json, key);
    for (size_t i = 0; i < count; i++)
        vw__json_unsigned(json, NULL, numbers[i]);
    vw__json_end_array(json);
}

void vw__report_ranks_json(vw__report *out, vw__json *json, const void *content)
{
    const vw_ranks_report *report = content;
    vw__json_text(json, "folder", out->form.file);
    vw__json_boolean(json, "something_to_see", report->is_something_to_see);
    vw__json_unsigned(json, "oom_count", report->ran_out_count);
    json_first(json, report);
    json_medians(json, report);
    json_ranks(json, "ranks", out->form.file, report->ranks, report->rank_count);
    json_ranks(json, "unassigned", out->form.file, report->unassigned, report->unassigned_count);
    json_numbers(json, "missing", report->missing, report->missing_count);
    json_numbers(json, "unread", report->unread, report->unread_count);
    json_outliers(json, report);
    json_sites(json, report, out->form.most_rows);
    json_settings(json, report);
    json_files(json, report);
    vw__json_texts(json, "notes", report->notes, report->note_count);
}
