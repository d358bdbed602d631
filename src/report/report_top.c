/* report_top.c - a machine as a table: GPUs, then who is on them, then who is on none. */
#include "vramwise/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "report/report_csv.h"
#include "report/report_fields.h"

enum { LINE_BYTES = 128, PROGRAM_COLUMNS = 24 };

/* A machine, and the process that is shown; 0: all. */
typedef struct machine_view {
    const vw_machine *before, *now;
    long process;
} machine_view;

static const vw__report_column columns[] = {
    {"PID", VW__REPORT_COLUMN_NUMBER},      {"GPU", VW__REPORT_COLUMN_NUMBER},
    {"RANK", VW__REPORT_COLUMN_NUMBER},     {"PROGRAM", VW__REPORT_COLUMN_NAME},
    {"MEMORY", VW__REPORT_COLUMN_NUMBER},   {"LIVE", VW__REPORT_COLUMN_NUMBER},
    {"RESERVED", VW__REPORT_COLUMN_NUMBER}, {"STEP", VW__REPORT_COLUMN_NUMBER},
};

static bool has_row(const machine_view *top, const vw_machine_row *row)
{
    return top->process == 0 || row->process == top->process;
}

static bool has_gpu(const machine_view *top, const vw_gpu *gpu)
{
    for (size_t i = 0; i < top->now->row_count && top->process != 0; i++)
        if (top->now->rows[i].gpu == gpu && has_row(top, &top->now->rows[i]))
            return true;
    return top->process == 0;
}

/* ---- the fields; vramwise-top(1) names them ---------------------------------------------------
 */

#define GPU(kind, key, member) VW__REPORT_FIELD(kind, vw_gpu, key, member)
static const vw__report_field gpu_list[] = {
    {GPU(INTEGER, "index", index)},
    {GPU(WORDS, "name", name)},
    {GPU(WORDS, "uuid", uuid)},
    {GPU(WORDS, "pci_bus_id", pci_bus_id)},
    {GPU(COUNT, "utilisation_percent", utilisation_percent)},
    {GPU(BYTES, "total_bytes", total_bytes)},
    {GPU(BYTES, "used_bytes", used_bytes)},
    {GPU(BYTES, "free_bytes", free_bytes)},
    {GPU(BYTES, "job_live_bytes", job_live_bytes)},
    {GPU(BYTES, "job_idle_bytes", job_idle_bytes)},
    {GPU(BYTES, "other_bytes", other_bytes)},
};
static const vw__report_fields gpu_fields = VW__REPORT_FIELDS(vw_gpu, gpu_list);

static const char *state_of(const void *object)
{
    static const char *const states[] = {
        [VW_JOB_RUNNING] = "running",
        [VW_JOB_OTHER_VERSION] = "other-version",
        [VW_JOB_BUSY] = "busy",
    };
    return states[((const vw_job *)object)->state];
}

VW__REPORT_CONDITION(has_world_size, vw_job, world_size != 0)

#define JOB(kind, key, member) VW__REPORT_FIELD(kind, vw_job, key, member)
static const vw__report_field job_list[] = {
    {.key = "state", .text = state_of},
    {JOB(WORDS, "program", program)},
    {JOB(WORDS, "allocator", allocator)},
    {JOB(WORDS, "job", job)},
    {JOB(WORDS, "run", run)},
    {JOB(WORDS, "vramwise_version", vramwise_version)},
    {JOB(COUNT, "page_version", page_version)},
    {JOB(NATURAL, "rank", rank)},
    {JOB(NATURAL, "local_rank", local_rank)},
    {JOB(INTEGER, "world_size", world_size), .is_known = has_world_size},
    {JOB(COUNT, "started_us", started_us)},
};
static const vw__report_fields job_fields = VW__REPORT_FIELDS(vw_job, job_list);

static const vw__report_field step_list[] = {
    {VW__REPORT_FIELD(COUNT, vw_job_step, "step", step)},
    {VW__REPORT_FIELD(BYTES, vw_job_step, "live_bytes", live_bytes)},
    {VW__REPORT_FIELD(BYTES, vw_job_step, "reserved_bytes", reserved_bytes)},
};
static const vw__report_fields step_fields = VW__REPORT_FIELDS(vw_job_step, step_list);

#define DEVICE(kind, key, member) VW__REPORT_FIELD(kind, vw_job_device, key, member)
static const vw__report_field device_list[] = {
    {DEVICE(INTEGER, "index", index)},
    {DEVICE(WORDS, "name", name)},
};
static const vw__report_fields device_fields = VW__REPORT_FIELDS(vw_job_device, device_list);
static const vw__report_field trend_list[] = {
    {DEVICE(OBJECTS, "trend", steps), VW__REPORT_COUNTED(vw_job_device, step_count),
     .fields = &step_fields},
};
static const vw__report_fields trend_fields = VW__REPORT_FIELDS(vw_job_device, trend_list);

static void json_device(vw__report *out, vw__json *json, const char *key, const void *object)
{
    const vw_job_device *device = ((const vw_machine_row *)object)->device;
    vw__json_begin_object(json, key);
    vw__report_json_members(out, json, &device_fields, device);
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        vw__json_known(json, vw_live_field_name(i), device->values[i]);
    vw__report_json_members(out, json, &trend_fields, device);
    vw__json_end_object(json);
}

static const char *place_of(const void *object)
{
    static const char *const places[] = {
        [VW_ROW_ON_GPU] = "gpu",
        [VW_ROW_ON_UNKNOWN_GPU] = "unknown-gpu",
        [VW_ROW_ON_NO_GPU] = "no-gpu",
    };
    return places[((const vw_machine_row *)object)->place];
}

static void json_gpu_index(vw__report *out, vw__json *json, const char *key, const void *object)
{
    (void)out;
    vw__json_integer(json, key, ((const vw_machine_row *)object)->gpu->index);
}

VW__REPORT_CONDITION(has_known_gpu, vw_machine_row, gpu != NULL)
VW__REPORT_CONDITION(has_device, vw_machine_row, device != NULL)

#define ROW(kind, key, member) VW__REPORT_FIELD(kind, vw_machine_row, key, member)
static const vw__report_field row_list[] = {
    {ROW(INTEGER, "process", process)},
    {ROW(WORDS, "command", command)},
    {.key = "place", .text = place_of},
    {.key = "gpu",
     .kind = VW__REPORT_FIELD_INTEGER,
     .write = json_gpu_index,
     .is_known = has_known_gpu},
    {ROW(BYTES, "process_bytes", process_bytes)},
    {ROW(POINTER, "job", job), .fields = &job_fields},
    {.key = "device", .write = json_device, .is_known = has_device},
};
static const vw__report_fields row_fields = VW__REPORT_FIELDS(vw_machine_row, row_list);

#define OUTLOOK(kind, key, member) VW__REPORT_FIELD(kind, vw_job_outlook, key, member)
static const vw__report_field leak_list[] = {
    {OUTLOOK(RATIO, "bytes_per_step", bytes_per_step)},
    {OUTLOOK(COUNT, "last_step", last_step)},
    {OUTLOOK(BYTES, "room_bytes", room_bytes)},
    {OUTLOOK(COUNT, "full_at_step", full_at_step)},
};
static const vw__report_fields leak_fields = VW__REPORT_FIELDS(vw_job_outlook, leak_list);

static void json_silent(vw__report *out, vw__json *json, const char *key, const void *object)
{
    (void)out;
    vw__json_double(json, key, (double)((const vw_job_figures *)object)->silent_ns / 1e9);
}

VW__REPORT_CONDITION(is_change_known, vw_job_figures, silent_ns != VW_LIVE_UNKNOWN)
VW__REPORT_CONDITION(is_leak, vw_job_figures, outlook.is_leak)

#define FIGURE(kind, key, member) VW__REPORT_FIELD(kind, vw_job_figures, key, member)
static const vw__report_field figure_list[] = {
    {FIGURE(RATIO, "allocations_per_second", allocations_per_second)},
    {FIGURE(RATIO, "retries_per_second", retries_per_second)},
    {FIGURE(RATIO, "driver_share", driver_share)},
    {FIGURE(RATIO, "steps_per_second", steps_per_second)},
    {FIGURE(RATIO, "step_seconds", step_seconds)},
    {FIGURE(RATIO, "input_wait_share", input_wait_share)},
    {FIGURE(BOOLEAN, "input_bound", is_input_bound)},
    {FIGURE(BYTES, "idle_bytes", idle_bytes)},
    {FIGURE(RATIO, "idle_share", idle_share)},
    {FIGURE(BYTES, "unseen_bytes", unseen_bytes)},
    {.key = "silent_seconds",
     .kind = VW__REPORT_FIELD_RATIO,
     .write = json_silent,
     .is_known = is_change_known},
    {FIGURE(OBJECT, "leak", outlook), .fields = &leak_fields, .is_known = is_leak},
};
static const vw__report_fields figure_fields = VW__REPORT_FIELDS(vw_job_figures, figure_list);

static vw_status json_row(vw__report *out, vw__json *json, const machine_view *top,
                          const vw_machine_row *row)
{
    vw_job_figures figures;
    vw_row_note notes[VW_NOTE_KIND_COUNT];
    VW__TRY(vw_job_figures_find(top->before, top->now, row, &figures));
    size_t note_count = vw_row_notes(row, &figures, notes);
    vw__json_begin_object(json, NULL);
    vw__report_json_members(out, json, &row_fields, row);
    vw__report_json_members(out, json, &figure_fields, &figures);
    vw__json_begin_array(json, "notes");
    for (size_t i = 0; i < note_count; i++)
        vw__json_text(json, NULL, notes[i].text);
    vw__json_end_array(json);
    vw__json_end_object(json);
    return VW_OK;
}

static vw_status json_machine(vw__report *out, const machine_view *top)
{
    vw__json json;
    vw__json_init(&json, &out->buffer);
    vw__json_begin_object(&json, NULL);
    vw__json_unsigned(&json, "schema", 1);
    vw__json_text(&json, "gpu_trouble", top->now->gpu_trouble);
    vw__json_begin_array(&json, "gpus");
    for (size_t i = 0; i < top->now->gpu_count; i++)
        if (has_gpu(top, &top->now->gpus[i]))
            vw__report_json_object(out, &json, NULL, &gpu_fields, &top->now->gpus[i]);
    vw__json_end_array(&json);
    vw__json_begin_array(&json, "rows");
    for (size_t i = 0; i < top->now->row_count; i++)
        if (has_row(top, &top->now->rows[i]))
            VW__TRY(json_row(out, &json, top, &top->now->rows[i]));
    vw__json_end_array(&json);
    vw__json_unsigned(&json, "stale_pages", top->now->jobs->stale_count);
    vw__json_unsigned(&json, "refused_pages", top->now->jobs->refused_count);
    vw__json_end_object(&json);
    vw__append_text(&out->buffer, "\n");
    return VW_OK;
}

/* A line for each row: what JSON has of it, but for lists. */
static vw_status csv_machine(vw__report *out, const machine_view *top)
{
    vw__report_csv_names(out, &row_fields);
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        vw__report_csv_text(out, vw_live_field_name(i));
    vw__report_csv_names(out, &figure_fields);
    vw__report_csv_end_line(out);
    for (size_t i = 0; i < top->now->row_count; i++) {
        const vw_machine_row *row = &top->now->rows[i];
        vw_job_figures figures;
        if (!has_row(top, row))
            continue;
        VW__TRY(vw_job_figures_find(top->before, top->now, row, &figures));
        vw__report_csv_values(out, &row_fields, row);
        for (size_t k = 0; k < VW_LIVE_FIELD_COUNT; k++)
            vw__report_csv_number(out, row->device != NULL ? row->device->values[k]
                                                           : (uint64_t)VW_LIVE_UNKNOWN);
        vw__report_csv_values(out, &figure_fields, &figures);
        vw__report_csv_end_line(out);
    }
    return VW_OK;
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

static void say_gpu(vw__report *out, const vw_gpu *gpu)
{
    char busy[40] = "";
    if (gpu->utilisation_percent != VW_LIVE_UNKNOWN)
        snprintf(busy, sizeof busy, "busy %.8s %%, ",
                 vw__report_count(gpu->utilisation_percent).text);
    vw__report_say(out, VW__REPORT_STYLE_BOLD, "GPU %d: %s, %s%s of %s used", gpu->index, gpu->name,
                   busy, vw__report_size(gpu->used_bytes).text,
                   vw__report_size(gpu->total_bytes).text);
    vw__report_say(out, VW__REPORT_STYLE_PLAIN, "jobs: %s live, %s idle; others %s; free %s",
                   vw__report_size(gpu->job_live_bytes).text,
                   vw__report_size(gpu->job_idle_bytes).text,
                   vw__report_size(gpu->other_bytes).text, vw__report_size(gpu->free_bytes).text);
}

static void say_gpus(vw__report *out, const machine_view *top)
{
    for (size_t i = 0; i < top->now->gpu_count; i++)
        if (has_gpu(top, &top->now->gpus[i]))
            say_gpu(out, &top->now->gpus[i]);
    if (top->now->gpu_trouble != NULL)
        vw__report_say(out, VW__REPORT_STYLE_FAINT, "no GPUs: %s", top->now->gpu_trouble);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void number_cell(vw__report_table *table, bool is_known, long number)
{
    char text[24] = "";
    if (is_known)
        snprintf(text, sizeof text, "%ld", number);
    vw__report_table_cell(table, text);
}

static void size_cell(vw__report_table *table, uint64_t size_bytes)
{
    vw__report_table_cell(table,
                          size_bytes != VW_LIVE_UNKNOWN ? vw__report_size(size_bytes).text : "-");
}

static void gpu_cell(vw__report_table *table, const vw_machine_row *row)
{
    if (row->place == VW_ROW_ON_UNKNOWN_GPU)
        vw__report_table_cell(table, "?");
    else
        number_cell(table, row->gpu != NULL, row->gpu != NULL ? row->gpu->index : 0);
}

static uint64_t value_of(const vw_machine_row *row, vw_live_field field)
{
    return row->device != NULL ? row->device->values[field] : (uint64_t)VW_LIVE_UNKNOWN;
}

static vw__report_style style_of(const vw_row_note *notes, size_t note_count)
{
    if (note_count == 0)
        return VW__REPORT_STYLE_PLAIN;
    return notes[0].is_urgent ? VW__REPORT_STYLE_RED : VW__REPORT_STYLE_YELLOW;
}

/* Appends ", what" to a line of what is known. */
__attribute__((format(printf, 2, 3))) static void add_clause(char line[LINE_BYTES],
                                                             const char *format, ...)
{
    size_t used = strlen(line);
    va_list args;
    if (used > 0)
        used += (size_t)snprintf(line + used, LINE_BYTES - used, ", ");
    va_start(args, format);
    (void)vsnprintf(line + used, LINE_BYTES - used, format, args);
    va_end(args);
}

static void add_line(vw__report_table *table, const char *line)
{
    if (line[0] != '\0')
        vw__report_table_detail(table, line);
}

/* Columns that a line below a row has, which is indented. */
static size_t detail_columns(const vw__report *out)
{
    enum { INDENT = 4 };
    const size_t room = out->form.width_columns - INDENT;
    return room < LINE_BYTES - 1 ? room : LINE_BYTES - 1;
}

/* Appends ", what", in a new line where this one is full. */
static void flow_clause(vw__report_table *table, const vw__report *out, char line[LINE_BYTES],
                        const char *name, const char *value)
{
    if (strlen(line) + strlen(name) + strlen(value) + strlen(",  ") > detail_columns(out)) {
        add_line(table, line);
        line[0] = '\0';
    }
    add_clause(line, "%.40s %.60s", name, value);
}

static void add_memory(vw__report_table *table, const vw__report *out, const vw_machine_row *row,
                       const vw_job_figures *figures)
{
    char line[LINE_BYTES] = "";
    uint64_t peak = value_of(row, VW_LIVE_PEAK_LIVE_BYTES);
    uint64_t largest = value_of(row, VW_LIVE_LARGEST_FREE_BYTES);
    uint64_t pinned = value_of(row, VW_LIVE_PINNED_BYTES);
    if (peak != VW_LIVE_UNKNOWN)
        flow_clause(table, out, line, "peak", vw__report_size(peak).text);
    if (figures->idle_bytes != VW_LIVE_UNKNOWN)
        flow_clause(table, out, line, "idle", vw__report_size(figures->idle_bytes).text);
    if (largest != VW_LIVE_UNKNOWN)
        flow_clause(table, out, line, "largest free", vw__report_size(largest).text);
    if (figures->outlook.room_bytes != VW_LIVE_UNKNOWN)
        flow_clause(table, out, line, "room", vw__report_size(figures->outlook.room_bytes).text);
    if (figures->unseen_bytes != VW_LIVE_UNKNOWN)
        flow_clause(table, out, line, "unseen", vw__report_size(figures->unseen_bytes).text);
    if (pinned != VW_LIVE_UNKNOWN && pinned != 0)
        flow_clause(table, out, line, "pinned", vw__report_size(pinned).text);
    add_line(table, line);
}

/* A field's name without its unit, in words: "largest free block" of largest_free_block_bytes. */
static vw__report_text words_of_field(const char *name, bool *is_bytes, bool *is_time)
{
    static const char bytes[] = "_bytes", time[] = "_nanoseconds";
    vw__report_text words;
    size_t length = strlen(name);
    *is_bytes = length > strlen(bytes) && strcmp(name + length - strlen(bytes), bytes) == 0;
    *is_time = length > strlen(time) && strcmp(name + length - strlen(time), time) == 0;
    length -= *is_bytes ? strlen(bytes) : *is_time ? strlen(time) : 0;
    snprintf(words.text, sizeof words.text, "%.*s", (int)length, name);
    for (char *at = words.text; *at != '\0'; at++)
        if (*at == '_')
            *at = ' ';
    return words;
}

/* What the table and the lines above do not have. */
static bool is_shown_already(size_t field, uint64_t value)
{
    switch ((vw_live_field)field) {
    case VW_LIVE_LIVE_BYTES:
    case VW_LIVE_RESERVED_BYTES:
    case VW_LIVE_PEAK_LIVE_BYTES:
    case VW_LIVE_LARGEST_FREE_BYTES:
        return true;
    case VW_LIVE_PINNED_BYTES:
        return value != 0;
    default:
        return false;
    }
}

/* Who the job is, and since when. */
static void add_identity(vw__report_table *table, const vw__report *out, char line[LINE_BYTES],
                         const vw_job *job)
{
    const time_t started = (time_t)(job->started_us / 1000000);
    char text[32];
    struct tm date;
    if (job->job[0] != '\0')
        flow_clause(table, out, line, "job", job->job);
    if (job->run[0] != '\0')
        flow_clause(table, out, line, "run", job->run);
    if (job->allocator[0] != '\0')
        flow_clause(table, out, line, "allocator", job->allocator);
    if (job->world_size > 0)
        flow_clause(table, out, line, "ranks", vw__report_count((uint64_t)job->world_size).text);
    if (job->local_rank >= 0)
        flow_clause(table, out, line, "local rank",
                    vw__report_count((uint64_t)job->local_rank).text);
    if (job->vramwise_version[0] != '\0')
        flow_clause(table, out, line, "version", job->vramwise_version);
    if (job->started_us != 0 && gmtime_r(&started, &date) != NULL &&
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &date) > 0)
        flow_clause(table, out, line, "started", text);
}

/* The rest of the page, and what /metrics adds to it: nothing that is served is left out. */
static void add_page(vw__report_table *table, const vw__report *out, const vw_machine_row *row,
                     const vw_job_figures *figures)
{
    char line[LINE_BYTES] = "", text[48];
    const uint64_t full_at = figures->outlook.full_at_step, last = figures->outlook.last_step;
    if (row->job != NULL)
        add_identity(table, out, line, row->job);
    if (figures->silent_ns != VW_LIVE_UNKNOWN) {
        snprintf(text, sizeof text, "%.32s ago", vw__report_duration(figures->silent_ns).text);
        flow_clause(table, out, line, "reported", text);
    }
    if (full_at != VW_LIVE_UNKNOWN && full_at >= last)
        flow_clause(table, out, line, "steps until full", vw__report_count(full_at - last).text);
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++) {
        const uint64_t value = value_of(row, (vw_live_field)i);
        bool is_bytes, is_time;
        if (value == VW_LIVE_UNKNOWN || is_shown_already(i, value))
            continue;
        const vw__report_text words = words_of_field(vw_live_field_name(i), &is_bytes, &is_time);
        const vw__report_text number = is_bytes  ? vw__report_size(value)
                                       : is_time ? vw__report_duration(value)
                                                 : vw__report_count(value);
        flow_clause(table, out, line, words.text, number.text);
    }
    add_line(table, line);
}

static void add_rates(vw__report_table *table, const vw_job_figures *figures)
{
    char line[LINE_BYTES] = "";
    if (isfinite(figures->allocations_per_second))
        add_clause(line, "%.20s allocations/s",
                   vw__report_count(vw__narrow_double(figures->allocations_per_second + 0.5)).text);
    if (isfinite(figures->retries_per_second) && figures->retries_per_second > 0)
        add_clause(line, "%.12s retries/s", vw__report_ratio(figures->retries_per_second).text);
    if (isfinite(figures->steps_per_second))
        add_clause(line, "%.12s steps/s", vw__report_ratio(figures->steps_per_second).text);
    if (isfinite(figures->input_wait_share))
        add_clause(line, "input wait %.12s", vw__report_share(figures->input_wait_share).text);
    if (isfinite(figures->driver_share))
        add_clause(line, "driver %.12s", vw__report_share(figures->driver_share).text);
    add_line(table, line);
}

/* The command of a process without a page can be long. */
static void program_cell(vw__report_table *table, const vw_machine_row *row)
{
    char name[PROGRAM_COLUMNS + 1];
    snprintf(name, sizeof name, "%.*s", PROGRAM_COLUMNS,
             row->command[0] != '\0' ? row->command : "?");
    vw__report_table_cell(table, row->job != NULL && row->command[0] != '\0' ? row->command : name);
}

static void add_row(vw__report_table *table, const vw__report *out, const vw_machine_row *row,
                    const vw_job_figures *figures)
{
    vw_row_note notes[VW_NOTE_KIND_COUNT];
    size_t note_count = vw_row_notes(row, figures, notes);
    vw__report_text step = {"-"};
    vw__report_table_row(table, style_of(notes, note_count));
    number_cell(table, true, row->process);
    gpu_cell(table, row);
    number_cell(table, row->job != NULL && row->job->rank >= 0,
                row->job != NULL ? row->job->rank : 0);
    program_cell(table, row);
    size_cell(table, row->process_bytes);
    size_cell(table, value_of(row, VW_LIVE_LIVE_BYTES));
    size_cell(table, value_of(row, VW_LIVE_RESERVED_BYTES));
    if (isfinite(figures->step_seconds))
        step = vw__report_duration(vw__narrow_double(figures->step_seconds * 1e9));
    vw__report_table_cell(table, step.text);
    for (size_t i = 0; i < note_count; i++)
        vw__report_table_detail(table, notes[i].text);
    add_memory(table, out, row, figures);
    add_rates(table, figures);
    add_page(table, out, row, figures);
}

/* The rows on a GPU, or those without one. */
static vw_status say_rows(vw__report *out, const machine_view *top, bool is_on_gpu,
                          const char *title)
{
    vw__report_table table;
    vw__report_table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < top->now->row_count; i++) {
        const vw_machine_row *row = &top->now->rows[i];
        vw_job_figures figures;
        if ((row->place != VW_ROW_ON_NO_GPU) != is_on_gpu || !has_row(top, row))
            continue;
        vw_status status = vw_job_figures_find(top->before, top->now, row, &figures);
        if (status != VW_OK) {
            vw__byte_buffer_deinit(&table.rows);
            return status;
        }
        add_row(&table, out, row, &figures);
    }
    if (table.row_count > 0 && out->buffer.size_bytes > 0)
        vw__report_blank(out);
    if (table.row_count > 0 && title != NULL)
        vw__report_say(out, VW__REPORT_STYLE_BOLD, "%s", title);
    vw__report_table_end(&table, out);
    return VW_OK;
}

/* Pages without a job: of processes that have ended, and files that only have the name of one. */
static void say_leftovers(vw__report *out, const vw_jobs *jobs)
{
    char line[LINE_BYTES] = "";
    if (jobs->stale_count > 0)
        add_clause(line, "%.60s", vw__report_counted(jobs->stale_count, "stale page").text);
    if (jobs->refused_count > 0)
        add_clause(line, "%.60s", vw__report_counted(jobs->refused_count, "unreadable page").text);
    if (line[0] == '\0')
        return;
    vw__report_blank(out);
    vw__report_say(out, VW__REPORT_STYLE_FAINT, "%s", line);
}

static vw_status say_machine(vw__report *out, const machine_view *top)
{
    say_gpus(out, top);
    VW__TRY(say_rows(out, top, true, NULL));
    VW__TRY(say_rows(out, top, false, "jobs without a GPU"));
    if (top->now->row_count == 0)
        vw__report_say(out, VW__REPORT_STYLE_PLAIN,
                       "no jobs: no running process publishes its memory");
    if (top->process == 0)
        say_leftovers(out, top->now->jobs);
    return VW_OK;
}

vw_status vw_report_top(const vw_machine *before, const vw_machine *now, long process,
                        const vw_report_form *form, const vw_output *output)
{
    vw__report out;
    const machine_view top = {before, now, process};
    if (now == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no machine to report: it is NULL");
    vw__report_init(&out, form);
    vw_status status = out.form.is_csv    ? csv_machine(&out, &top)
                       : out.form.is_json ? json_machine(&out, &top)
                                          : say_machine(&out, &top);
    if (status != VW_OK)
        out.buffer.has_failed = true; /* nothing of it is sent */
    return vw__report_send(&out, output);
}
