/* report_ranks_json.c - a job's ranks for programs: headroom-report(1) names the fields. */
#include <math.h>
#include <string.h>

#include "export/json_write.h"
#include "report/report_frames.h"
#include "report/report_ranks.h"

uint64_t hr__rank_growth_bytes(const hr_rank *rank)
{
    double growth = rank->growth_bytes_per_step;
    return isnan(growth) || growth < 0 || growth >= 0x1p63 ? HR_UNKNOWN : (uint64_t)llround(growth);
}

/* ---- commands -------------------------------------------------------------------------------- */

static bool append_piece(void *context, const char *bytes, size_t size_bytes)
{
    hr__append_bytes(context, bytes, size_bytes);
    return true;
}

static bool append_command(hr__byte_buffer *buffer, const char *command, const char *folder,
                           const char *file)
{
    hr__byte_buffer path;
    if (file == NULL)
        return false;
    hr__byte_buffer_init(&path);
    if (folder != NULL) {
        hr__append_text(&path, folder);
        if (folder[0] != '\0' && folder[strlen(folder) - 1] != '/')
            hr__append_text(&path, "/");
    }
    hr__append_text(&path, file);
    hr__append_text(buffer, command);
    const hr_output output = {buffer, append_piece};
    (void)hr_write_shell_word(hr__byte_buffer_text(&path), &output); /* the buffer knows */
    buffer->has_failed |= path.has_failed;
    hr__byte_buffer_deinit(&path);
    return true;
}

bool hr__append_rank_view(hr__byte_buffer *buffer, const char *folder, const hr_rank *rank)
{
    return append_command(buffer, "headroom view ", folder, rank->recording);
}

bool hr__append_rank_doctor(hr__byte_buffer *buffer, const char *folder, const hr_rank *rank)
{
    return append_command(buffer, "headroom doctor ", folder,
                          rank->recording != NULL ? rank->recording : rank->text);
}

typedef bool (*append_rank_command)(hr__byte_buffer *buffer, const char *folder,
                                    const hr_rank *rank);

static void json_command(hr__json *json, const char *key, append_rank_command append,
                         const char *folder, const hr_rank *rank)
{
    hr__byte_buffer text;
    hr__byte_buffer_init(&text);
    if (append(&text, folder, rank))
        hr__json_bytes(json, key, hr__byte_buffer_text(&text), hr__byte_buffer_size(&text));
    else
        hr__json_null(json, key);
    json->buffer->has_failed |= text.has_failed;
    hr__byte_buffer_deinit(&text);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void json_time(hr__json *json, const char *key, int64_t time_us)
{
    if (time_us == INT64_MIN)
        hr__json_null(json, key);
    else
        hr__json_integer(json, key, time_us);
}

static void json_oom(hr__json *json, const hr_rank *rank)
{
    if (!rank->ran_out) {
        hr__json_null(json, "oom");
        return;
    }
    hr__json_begin_object(json, "oom");
    json_time(json, "time_us", rank->time_us);
    json_time(json, "local_time_us", rank->local_time_us);
    hr__json_known(json, "tried_bytes", rank->tried_bytes);
    hr__json_end_object(json);
}

static void json_marks(hr__json *json, const hr_rank *rank)
{
    hr__json_begin_array(json, "out_of_line");
    for (int i = 0; i < HR_RANK_MEASURES; i++)
        if (rank->is_out_of_line[i])
            hr__json_text(json, NULL, hr_rank_measure_name((hr_rank_measure)i));
    hr__json_end_array(json);
}

static void json_rank(hr__json *json, const char *folder, const hr_rank *rank)
{
    hr__json_begin_object(json, NULL);
    hr__json_known(json, "rank", rank->rank);
    hr__json_text(json, "recording", rank->recording);
    hr__json_text(json, "text", rank->text);
    hr__json_unsigned(json, "files", rank->file_count);
    hr__json_known(json, "device", rank->device >= 0 ? (uint64_t)rank->device : UINT64_MAX);
    hr__json_text(json, "basis", hr_rank_basis_name(rank->basis));
    hr__json_known(json, "peak_live_bytes", rank->peak_live_bytes);
    hr__json_known(json, "peak_reserved_bytes", rank->peak_reserved_bytes);
    hr__json_known(json, "events", rank->event_count);
    json_marks(json, rank);
    hr__json_known(json, "steps", rank->step_count);
    hr__json_known(json, "growth_bytes_per_step", hr__rank_growth_bytes(rank));
    json_oom(json, rank);
    hr__json_text(json, "verdict", rank->has_verdict ? hr_verdict_name(rank->verdict) : NULL);
    hr__json_text(json, "confidence",
                  rank->has_verdict ? hr_confidence_name(rank->confidence) : NULL);
    hr__json_text(json, "sentence", rank->has_verdict ? rank->sentence : NULL);
    hr__json_boolean(json, "problem", rank->ran_out || (rank->has_verdict && rank->is_problem));
    hr__json_text(json, "conf", rank->conf);
    hr__json_known(json, "card_bytes", rank->card_bytes);
    json_command(json, "view", hr__append_rank_view, folder, rank);
    json_command(json, "doctor", hr__append_rank_doctor, folder, rank);
    hr__json_end_object(json);
}

static void json_ranks(hr__json *json, const char *key, const char *folder, const hr_rank *ranks,
                       size_t count)
{
    hr__json_begin_array(json, key);
    for (size_t i = 0; i < count; i++)
        json_rank(json, folder, &ranks[i]);
    hr__json_end_array(json);
}

/* ---- over all ranks -------------------------------------------------------------------------- */

static void json_first(hr__json *json, const hr_ranks_report *report)
{
    hr__json_begin_object(json, "first_oom");
    hr__json_known(json, "rank", report->first_rank);
    hr__json_known(json, "lead_us", report->first_lead_us);
    hr__json_text(json, "reason", report->first_reason);
    hr__json_end_object(json);
}

static void json_medians(hr__json *json, const hr_ranks_report *report)
{
    hr__json_begin_object(json, "medians");
    for (int i = 0; i < HR_RANK_MEASURES; i++)
        hr__json_known(json, hr_rank_measure_name((hr_rank_measure)i), report->medians[i]);
    hr__json_end_object(json);
}

static void json_outliers(hr__json *json, const hr_ranks_report *report)
{
    hr__json_begin_array(json, "outliers");
    for (size_t i = 0; i < report->outlier_count; i++) {
        const hr_rank_outlier *outlier = &report->outliers[i];
        hr__json_begin_object(json, NULL);
        hr__json_unsigned(json, "rank", outlier->rank);
        hr__json_text(json, "measure", hr_rank_measure_name(outlier->measure));
        hr__json_unsigned(json, "value", outlier->value);
        hr__json_unsigned(json, "median", outlier->median);
        hr__json_end_object(json);
    }
    hr__json_end_array(json);
}

static void json_sites(hr__json *json, const hr_ranks_report *report, size_t most_rows)
{
    hr__json_unsigned(json, "site_count", report->site_count);
    hr__json_begin_array(json, "sites");
    for (size_t i = 0; i < report->site_count && i < most_rows; i++) {
        const hr_rank_site *site = &report->sites[i];
        hr__json_begin_object(json, NULL);
        hr__json_unsigned(json, "rank", site->rank);
        hr__json_place(json, "where", site->where);
        hr__json_text(json, "category", site->category);
        hr__json_unsigned(json, "bytes", site->bytes);
        hr__json_unsigned(json, "median_bytes", site->median_bytes);
        hr__json_end_object(json);
    }
    hr__json_end_array(json);
}

static void json_settings(hr__json *json, const hr_ranks_report *report)
{
    hr__json_begin_array(json, "settings");
    for (size_t i = 0; i < report->setting_count; i++) {
        const hr_rank_setting *setting = &report->settings[i];
        hr__json_begin_object(json, NULL);
        hr__json_text(json, "key", setting->key);
        hr__json_unsigned(json, "rank", setting->rank);
        hr__json_text(json, "value", setting->value);
        hr__json_text(json, "usual", setting->usual);
        hr__json_end_object(json);
    }
    hr__json_end_array(json);
}

static void json_files(hr__json *json, const hr_ranks_report *report)
{
    hr__json_begin_array(json, "files");
    for (size_t i = 0; i < report->file_count; i++) {
        const hr_rank_file *file = &report->files[i];
        hr__json_begin_object(json, NULL);
        hr__json_text(json, "path", file->path);
        hr__json_text(json, "kind", hr_rank_file_kind_name(file->kind));
        hr__json_known(json, "rank", file->rank);
        hr__json_unsigned(json, "ranks", file->rank_count);
        hr__json_text(json, "reason", file->reason);
        hr__json_end_object(json);
    }
    hr__json_end_array(json);
}

static void json_numbers(hr__json *json, const char *key, const uint64_t *numbers, size_t count)
{
    hr__json_begin_array(json, key);
    for (size_t i = 0; i < count; i++)
        hr__json_unsigned(json, NULL, numbers[i]);
    hr__json_end_array(json);
}

void hr__report_ranks_json(hr__report *out, const hr_ranks_report *report)
{
    hr__json json;
    hr__json_init(&json, &out->buffer);
    hr__json_begin_object(&json, NULL);
    hr__json_unsigned(&json, "schema", 1);
    hr__json_text(&json, "folder", out->form.file);
    hr__json_boolean(&json, "something_to_see", report->is_something_to_see);
    hr__json_unsigned(&json, "oom_count", report->ran_out_count);
    json_first(&json, report);
    json_medians(&json, report);
    json_ranks(&json, "ranks", out->form.file, report->ranks, report->rank_count);
    json_ranks(&json, "unassigned", out->form.file, report->unassigned, report->unassigned_count);
    json_numbers(&json, "missing", report->missing, report->missing_count);
    json_numbers(&json, "unread", report->unread, report->unread_count);
    json_outliers(&json, report);
    json_sites(&json, report, out->form.most_rows);
    json_settings(&json, report);
    json_files(&json, report);
    hr__json_texts(&json, "notes", report->notes, report->note_count);
    hr__json_end_object(&json);
    hr__append_text(&out->buffer, "\n");
}
