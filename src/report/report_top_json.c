/* report_top_json.c - a machine as one object; docs/man/vramwise-top.1.scd names its fields. */
#include "report/report_top.h"

#include "base/error.h"
#include "export/json_write.h"

/* Of a process's own numbers, -1 and 0 are how a page says that there is none. */
static void json_rank(vw__json *json, const char *key, int rank, int none)
{
    if (rank == none)
        vw__json_null(json, key);
    else
        vw__json_integer(json, key, rank);
}

static void json_words(vw__json *json, const char *key, const char *text)
{
    vw__json_text(json, key, text[0] != '\0' ? text : NULL);
}

static void json_gpu(vw__json *json, const vw_gpu *gpu)
{
    vw__json_begin_object(json, NULL);
    vw__json_integer(json, "index", gpu->index);
    json_words(json, "name", gpu->name);
    json_words(json, "uuid", gpu->uuid);
    json_words(json, "pci_bus_id", gpu->pci_bus_id);
    vw__json_known(json, "utilisation_percent", gpu->utilisation_percent);
    vw__json_known(json, "total_bytes", gpu->total_bytes);
    vw__json_known(json, "used_bytes", gpu->used_bytes);
    vw__json_known(json, "free_bytes", gpu->free_bytes);
    vw__json_known(json, "job_live_bytes", gpu->job_live_bytes);
    vw__json_known(json, "job_idle_bytes", gpu->job_idle_bytes);
    vw__json_known(json, "other_bytes", gpu->other_bytes);
    vw__json_end_object(json);
}

static void json_job(vw__json *json, const vw_job *job)
{
    static const char *const states[] = {
        [VW_JOB_RUNNING] = "running",
        [VW_JOB_OTHER_VERSION] = "other-version",
        [VW_JOB_BUSY] = "busy",
    };
    if (job == NULL) {
        vw__json_null(json, "job");
        return;
    }
    vw__json_begin_object(json, "job");
    vw__json_text(json, "state", states[job->state]);
    json_words(json, "program", job->program);
    json_words(json, "allocator", job->allocator);
    json_words(json, "job", job->job);
    json_words(json, "run", job->run);
    json_words(json, "vramwise_version", job->vramwise_version);
    vw__json_unsigned(json, "page_version", job->page_version);
    json_rank(json, "rank", job->rank, -1);
    json_rank(json, "local_rank", job->local_rank, -1);
    json_rank(json, "world_size", job->world_size, 0);
    vw__json_unsigned(json, "started_us", job->started_us);
    vw__json_end_object(json);
}

static void json_steps(vw__json *json, const vw_job_device *device)
{
    vw__json_begin_array(json, "trend");
    for (size_t i = 0; i < device->step_count; i++) {
        vw__json_begin_object(json, NULL);
        vw__json_unsigned(json, "step", device->steps[i].step);
        vw__json_known(json, "live_bytes", device->steps[i].live_bytes);
        vw__json_known(json, "reserved_bytes", device->steps[i].reserved_bytes);
        vw__json_end_object(json);
    }
    vw__json_end_array(json);
}

static void json_device(vw__json *json, const vw_job_device *device)
{
    if (device == NULL) {
        vw__json_null(json, "device");
        return;
    }
    vw__json_begin_object(json, "device");
    vw__json_integer(json, "index", device->index);
    json_words(json, "name", device->name);
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        vw__json_known(json, vw_live_field_name(i), device->values[i]);
    json_steps(json, device);
    vw__json_end_object(json);
}

static void json_leak(vw__json *json, const vw_job_outlook *outlook)
{
    if (!outlook->is_leak) {
        vw__json_null(json, "leak");
        return;
    }
    vw__json_begin_object(json, "leak");
    vw__json_double(json, "bytes_per_step", outlook->bytes_per_step);
    vw__json_unsigned(json, "last_step", outlook->last_step);
    vw__json_known(json, "room_bytes", outlook->room_bytes);
    vw__json_known(json, "full_at_step", outlook->full_at_step);
    vw__json_end_object(json);
}

static void json_figures(vw__json *json, const vw_machine_row *row, const vw_job_figures *figures)
{
    vw__json_double(json, "allocations_per_second", figures->allocations_per_second);
    vw__json_double(json, "retries_per_second", figures->retries_per_second);
    vw__json_double(json, "driver_share", figures->driver_share);
    vw__json_double(json, "steps_per_second", figures->steps_per_second);
    vw__json_double(json, "step_seconds", figures->step_seconds);
    vw__json_double(json, "input_wait_share", figures->input_wait_share);
    vw__json_boolean(json, "input_bound", figures->is_input_bound);
    vw__json_known(json, "idle_bytes", figures->idle_bytes);
    vw__json_double(json, "idle_share", figures->idle_share);
    vw__json_known(json, "unseen_bytes", figures->unseen_bytes);
    if (figures->silent_ns == VW_LIVE_UNKNOWN)
        vw__json_null(json, "silent_seconds");
    else
        vw__json_double(json, "silent_seconds", (double)figures->silent_ns / 1e9);
    json_leak(json, &figures->outlook);
    vw_row_note notes[VW_NOTE_KIND_COUNT];
    size_t note_count = vw_row_notes(row, figures, notes);
    vw__json_begin_array(json, "notes");
    for (size_t i = 0; i < note_count; i++)
        vw__json_text(json, NULL, notes[i].text);
    vw__json_end_array(json);
}

static vw_status json_row(vw__json *json, const vw__top *top, const vw_machine_row *row)
{
    static const char *const places[] = {
        [VW_ROW_ON_GPU] = "gpu",
        [VW_ROW_ON_UNKNOWN_GPU] = "unknown-gpu",
        [VW_ROW_ON_NO_GPU] = "no-gpu",
    };
    vw_job_figures figures;
    VW__TRY(vw_job_figures_find(top->before, top->now, row, &figures));
    vw__json_begin_object(json, NULL);
    vw__json_integer(json, "process", row->process);
    json_words(json, "command", row->command);
    vw__json_text(json, "place", places[row->place]);
    if (row->gpu != NULL)
        vw__json_integer(json, "gpu", row->gpu->index);
    else
        vw__json_null(json, "gpu");
    vw__json_known(json, "process_bytes", row->process_bytes);
    json_job(json, row->job);
    json_device(json, row->device);
    json_figures(json, row, &figures);
    vw__json_end_object(json);
    return VW_OK;
}

vw_status vw__top_json(vw__report *report, const vw__top *top)
{
    vw__json json;
    vw__json_init(&json, &report->buffer);
    vw__json_begin_object(&json, NULL);
    vw__json_unsigned(&json, "schema", 1);
    vw__json_text(&json, "gpu_trouble", top->now->gpu_trouble);
    vw__json_begin_array(&json, "gpus");
    for (size_t i = 0; i < top->now->gpu_count; i++)
        if (vw__top_has_gpu(top, &top->now->gpus[i]))
            json_gpu(&json, &top->now->gpus[i]);
    vw__json_end_array(&json);
    vw__json_begin_array(&json, "rows");
    for (size_t i = 0; i < top->now->row_count; i++)
        if (vw__top_has_row(top, &top->now->rows[i]))
            VW__TRY(json_row(&json, top, &top->now->rows[i]));
    vw__json_end_array(&json);
    vw__json_unsigned(&json, "stale_pages", top->now->jobs->stale_count);
    vw__json_unsigned(&json, "refused_pages", top->now->jobs->refused_count);
    vw__json_end_object(&json);
    vw__append_text(&report->buffer, "\n");
    return VW_OK;
}
