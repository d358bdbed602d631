/* report_top_json.c - a machine as one object; docs/man/headroom-top.1.scd names its fields. */
#include "report/report_top.h"

#include "base/error.h"
#include "export/json_write.h"

/* Of a process's own numbers, -1 and 0 are how a page says that there is none. */
static void json_rank(hr__json *json, const char *key, int rank, int none)
{
    if (rank == none)
        hr__json_null(json, key);
    else
        hr__json_integer(json, key, rank);
}

static void json_words(hr__json *json, const char *key, const char *text)
{
    hr__json_text(json, key, text[0] != '\0' ? text : NULL);
}

static void json_gpu(hr__json *json, const hr_gpu *gpu)
{
    hr__json_begin_object(json, NULL);
    hr__json_integer(json, "index", gpu->index);
    json_words(json, "name", gpu->name);
    json_words(json, "uuid", gpu->uuid);
    json_words(json, "pci_bus_id", gpu->pci_bus_id);
    hr__json_known(json, "utilisation_percent", gpu->utilisation_percent);
    hr__json_known(json, "total_bytes", gpu->total_bytes);
    hr__json_known(json, "used_bytes", gpu->used_bytes);
    hr__json_known(json, "free_bytes", gpu->free_bytes);
    hr__json_known(json, "job_live_bytes", gpu->job_live_bytes);
    hr__json_known(json, "job_idle_bytes", gpu->job_idle_bytes);
    hr__json_known(json, "other_bytes", gpu->other_bytes);
    hr__json_end_object(json);
}

static void json_job(hr__json *json, const hr_job *job)
{
    static const char *const states[] = {
        [HR_JOB_RUNNING] = "running",
        [HR_JOB_OTHER_VERSION] = "other-version",
        [HR_JOB_BUSY] = "busy",
    };
    if (job == NULL) {
        hr__json_null(json, "job");
        return;
    }
    hr__json_begin_object(json, "job");
    hr__json_text(json, "state", states[job->state]);
    json_words(json, "program", job->program);
    json_words(json, "allocator", job->allocator);
    json_words(json, "job", job->job);
    json_words(json, "run", job->run);
    json_words(json, "headroom_version", job->headroom_version);
    hr__json_unsigned(json, "page_version", job->page_version);
    json_rank(json, "rank", job->rank, -1);
    json_rank(json, "local_rank", job->local_rank, -1);
    json_rank(json, "world_size", job->world_size, 0);
    hr__json_unsigned(json, "started_us", job->started_us);
    hr__json_end_object(json);
}

static void json_steps(hr__json *json, const hr_job_device *device)
{
    hr__json_begin_array(json, "trend");
    for (size_t i = 0; i < device->step_count; i++) {
        hr__json_begin_object(json, NULL);
        hr__json_unsigned(json, "step", device->steps[i].step);
        hr__json_known(json, "live_bytes", device->steps[i].live_bytes);
        hr__json_known(json, "reserved_bytes", device->steps[i].reserved_bytes);
        hr__json_end_object(json);
    }
    hr__json_end_array(json);
}

static void json_device(hr__json *json, const hr_job_device *device)
{
    if (device == NULL) {
        hr__json_null(json, "device");
        return;
    }
    hr__json_begin_object(json, "device");
    hr__json_integer(json, "index", device->index);
    json_words(json, "name", device->name);
    for (size_t i = 0; i < HR_LIVE_FIELD_COUNT; i++)
        hr__json_known(json, hr_live_field_name(i), device->values[i]);
    json_steps(json, device);
    hr__json_end_object(json);
}

static void json_leak(hr__json *json, const hr_job_outlook *outlook)
{
    if (!outlook->is_leak) {
        hr__json_null(json, "leak");
        return;
    }
    hr__json_begin_object(json, "leak");
    hr__json_double(json, "bytes_per_step", outlook->bytes_per_step);
    hr__json_unsigned(json, "last_step", outlook->last_step);
    hr__json_known(json, "room_bytes", outlook->room_bytes);
    hr__json_known(json, "full_at_step", outlook->full_at_step);
    hr__json_end_object(json);
}

static void json_figures(hr__json *json, const hr_machine_row *row, const hr_job_figures *figures)
{
    hr__json_double(json, "allocations_per_second", figures->allocations_per_second);
    hr__json_double(json, "retries_per_second", figures->retries_per_second);
    hr__json_double(json, "driver_share", figures->driver_share);
    hr__json_double(json, "steps_per_second", figures->steps_per_second);
    hr__json_double(json, "step_seconds", figures->step_seconds);
    hr__json_double(json, "input_wait_share", figures->input_wait_share);
    hr__json_boolean(json, "input_bound", figures->is_input_bound);
    hr__json_known(json, "idle_bytes", figures->idle_bytes);
    hr__json_double(json, "idle_share", figures->idle_share);
    hr__json_known(json, "unseen_bytes", figures->unseen_bytes);
    if (figures->silent_ns == HR_LIVE_UNKNOWN)
        hr__json_null(json, "silent_seconds");
    else
        hr__json_double(json, "silent_seconds", (double)figures->silent_ns / 1e9);
    json_leak(json, &figures->outlook);
    hr_row_note notes[HR_NOTE_KIND_COUNT];
    size_t note_count = hr_row_notes(row, figures, notes);
    hr__json_begin_array(json, "notes");
    for (size_t i = 0; i < note_count; i++)
        hr__json_text(json, NULL, notes[i].text);
    hr__json_end_array(json);
}

static hr_status json_row(hr__json *json, const hr__top *top, const hr_machine_row *row)
{
    static const char *const places[] = {
        [HR_ROW_ON_GPU] = "gpu",
        [HR_ROW_ON_UNKNOWN_GPU] = "unknown-gpu",
        [HR_ROW_ON_NO_GPU] = "no-gpu",
    };
    hr_job_figures figures;
    HR__TRY(hr_job_figures_find(top->before, top->now, row, &figures));
    hr__json_begin_object(json, NULL);
    hr__json_integer(json, "process", row->process);
    json_words(json, "command", row->command);
    hr__json_text(json, "place", places[row->place]);
    if (row->gpu != NULL)
        hr__json_integer(json, "gpu", row->gpu->index);
    else
        hr__json_null(json, "gpu");
    hr__json_known(json, "process_bytes", row->process_bytes);
    json_job(json, row->job);
    json_device(json, row->device);
    json_figures(json, row, &figures);
    hr__json_end_object(json);
    return HR_OK;
}

hr_status hr__top_json(hr__report *report, const hr__top *top)
{
    hr__json json;
    hr__json_init(&json, &report->buffer);
    hr__json_begin_object(&json, NULL);
    hr__json_unsigned(&json, "schema", 1);
    hr__json_text(&json, "gpu_trouble", top->now->gpu_trouble);
    hr__json_begin_array(&json, "gpus");
    for (size_t i = 0; i < top->now->gpu_count; i++)
        if (hr__top_has_gpu(top, &top->now->gpus[i]))
            json_gpu(&json, &top->now->gpus[i]);
    hr__json_end_array(&json);
    hr__json_begin_array(&json, "rows");
    for (size_t i = 0; i < top->now->row_count; i++)
        if (hr__top_has_row(top, &top->now->rows[i]))
            HR__TRY(json_row(&json, top, &top->now->rows[i]));
    hr__json_end_array(&json);
    hr__json_unsigned(&json, "stale_pages", top->now->jobs->stale_count);
    hr__json_unsigned(&json, "refused_pages", top->now->jobs->refused_count);
    hr__json_end_object(&json);
    hr__append_text(&report->buffer, "\n");
    return HR_OK;
}
