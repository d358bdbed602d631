/* report_top.c - a machine as a table: GPUs, then who is on them, then who is on none. */
#include "report/report_top.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum { LINE_BYTES = 128, PROGRAM_COLUMNS = 24 };

static const hr__column columns[] = {
    {"PID", HR__COLUMN_NUMBER},      {"GPU", HR__COLUMN_NUMBER},    {"RANK", HR__COLUMN_NUMBER},
    {"PROGRAM", HR__COLUMN_NAME},    {"MEMORY", HR__COLUMN_NUMBER}, {"LIVE", HR__COLUMN_NUMBER},
    {"RESERVED", HR__COLUMN_NUMBER}, {"STEP", HR__COLUMN_NUMBER},
};

bool hr__top_has_row(const hr__top *top, const hr_machine_row *row)
{
    return top->process == 0 || row->process == top->process;
}

bool hr__top_has_gpu(const hr__top *top, const hr_gpu *gpu)
{
    for (size_t i = 0; i < top->now->row_count && top->process != 0; i++)
        if (top->now->rows[i].gpu == gpu && hr__top_has_row(top, &top->now->rows[i]))
            return true;
    return top->process == 0;
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

static void say_gpu(hr__report *out, const hr_gpu *gpu)
{
    char busy[40] = "";
    if (gpu->utilisation_percent != HR_LIVE_UNKNOWN)
        snprintf(busy, sizeof busy, "busy %.8s %%, ",
                 hr__count_text(gpu->utilisation_percent).text);
    hr__report_say(out, HR__STYLE_BOLD, "GPU %d: %s, %s%s of %s used", gpu->index, gpu->name, busy,
                   hr__size_text(gpu->used_bytes).text, hr__size_text(gpu->total_bytes).text);
    hr__report_say(out, HR__STYLE_PLAIN, "jobs have %s live and %s idle, others %s; %s are free",
                   hr__size_text(gpu->job_live_bytes).text, hr__size_text(gpu->job_idle_bytes).text,
                   hr__size_text(gpu->other_bytes).text, hr__size_text(gpu->free_bytes).text);
}

static void say_gpus(hr__report *out, const hr__top *top)
{
    for (size_t i = 0; i < top->now->gpu_count; i++)
        if (hr__top_has_gpu(top, &top->now->gpus[i]))
            say_gpu(out, &top->now->gpus[i]);
    if (top->now->gpu_trouble != NULL)
        hr__report_say(out, HR__STYLE_FAINT, "no GPUs: %s", top->now->gpu_trouble);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void number_cell(hr__table *table, bool is_known, long number)
{
    char text[24] = "";
    if (is_known)
        snprintf(text, sizeof text, "%ld", number);
    hr__table_cell(table, text);
}

static void size_cell(hr__table *table, uint64_t size_bytes)
{
    hr__table_cell(table, size_bytes != HR_LIVE_UNKNOWN ? hr__size_text(size_bytes).text : "-");
}

static void gpu_cell(hr__table *table, const hr_machine_row *row)
{
    if (row->place == HR_ROW_ON_UNKNOWN_GPU)
        hr__table_cell(table, "?");
    else
        number_cell(table, row->gpu != NULL, row->gpu != NULL ? row->gpu->index : 0);
}

static uint64_t value_of(const hr_machine_row *row, hr_live_field field)
{
    return row->device != NULL ? row->device->values[field] : (uint64_t)HR_LIVE_UNKNOWN;
}

static hr__style style_of(const hr_row_note *notes, size_t note_count)
{
    if (note_count == 0)
        return HR__STYLE_PLAIN;
    return notes[0].is_urgent ? HR__STYLE_RED : HR__STYLE_YELLOW;
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

static void add_line(hr__table *table, const char *line)
{
    if (line[0] != '\0')
        hr__table_detail(table, line);
}

static void add_memory(hr__table *table, const hr_machine_row *row, const hr_job_figures *figures)
{
    char line[LINE_BYTES] = "";
    uint64_t peak = value_of(row, HR_LIVE_PEAK_LIVE_BYTES);
    uint64_t largest = value_of(row, HR_LIVE_LARGEST_FREE_BYTES);
    uint64_t pinned = value_of(row, HR_LIVE_PINNED_BYTES);
    if (peak != HR_LIVE_UNKNOWN)
        add_clause(line, "peak %.12s", hr__size_text(peak).text);
    if (figures->idle_bytes != HR_LIVE_UNKNOWN)
        add_clause(line, "idle %.12s", hr__size_text(figures->idle_bytes).text);
    if (largest != HR_LIVE_UNKNOWN)
        add_clause(line, "largest free %.12s", hr__size_text(largest).text);
    if (figures->unseen_bytes != HR_LIVE_UNKNOWN)
        add_clause(line, "unseen %.12s", hr__size_text(figures->unseen_bytes).text);
    if (pinned != HR_LIVE_UNKNOWN && pinned != 0)
        add_clause(line, "pinned %.12s", hr__size_text(pinned).text);
    add_line(table, line);
}

static void add_rates(hr__table *table, const hr_job_figures *figures)
{
    char line[LINE_BYTES] = "";
    if (isfinite(figures->allocations_per_second))
        add_clause(line, "%.20s allocations/s",
                   hr__count_text((uint64_t)(figures->allocations_per_second + 0.5)).text);
    if (isfinite(figures->retries_per_second) && figures->retries_per_second > 0)
        add_clause(line, "%.12s retries/s", hr__ratio_text(figures->retries_per_second).text);
    if (isfinite(figures->steps_per_second))
        add_clause(line, "%.12s steps/s", hr__ratio_text(figures->steps_per_second).text);
    if (isfinite(figures->input_wait_share))
        add_clause(line, "input wait %.12s", hr__percent_text(figures->input_wait_share).text);
    if (isfinite(figures->driver_share))
        add_clause(line, "driver %.12s", hr__percent_text(figures->driver_share).text);
    add_line(table, line);
}

/* What somebody else's process was called with can be long. */
static void program_cell(hr__table *table, const hr_machine_row *row)
{
    char name[PROGRAM_COLUMNS + 1];
    snprintf(name, sizeof name, "%.*s", PROGRAM_COLUMNS,
             row->command[0] != '\0' ? row->command : "?");
    hr__table_cell(table, row->job != NULL && row->command[0] != '\0' ? row->command : name);
}

static void add_row(hr__table *table, const hr_machine_row *row, const hr_job_figures *figures)
{
    hr_row_note notes[HR_NOTE_KIND_COUNT];
    size_t note_count = hr_row_notes(row, figures, notes);
    hr__text step = {"-"};
    hr__table_row(table, style_of(notes, note_count));
    number_cell(table, true, row->process);
    gpu_cell(table, row);
    number_cell(table, row->job != NULL && row->job->rank >= 0,
                row->job != NULL ? row->job->rank : 0);
    program_cell(table, row);
    size_cell(table, row->process_bytes);
    size_cell(table, value_of(row, HR_LIVE_LIVE_BYTES));
    size_cell(table, value_of(row, HR_LIVE_RESERVED_BYTES));
    if (isfinite(figures->step_seconds))
        step = hr__duration_text((uint64_t)(figures->step_seconds * 1e9));
    hr__table_cell(table, step.text);
    for (size_t i = 0; i < note_count; i++)
        hr__table_detail(table, notes[i].text);
    add_memory(table, row, figures);
    add_rates(table, figures);
}

/* Those that are on a GPU, or those that are on none. */
static hr_status say_rows(hr__report *out, const hr__top *top, bool is_on_gpu, const char *title)
{
    hr__table table;
    hr__table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < top->now->row_count; i++) {
        const hr_machine_row *row = &top->now->rows[i];
        hr_job_figures figures;
        if ((row->place != HR_ROW_ON_NO_GPU) != is_on_gpu || !hr__top_has_row(top, row))
            continue;
        hr_status status = hr_job_figures_find(top->before, top->now, row, &figures);
        if (status != HR_OK) {
            hr__byte_buffer_deinit(&table.rows);
            return status;
        }
        add_row(&table, row, &figures);
    }
    if (table.row_count > 0 && out->buffer.size_bytes > 0)
        hr__report_blank(out);
    if (table.row_count > 0 && title != NULL)
        hr__report_say(out, HR__STYLE_BOLD, "%s", title);
    hr__table_end(&table, out);
    return HR_OK;
}

static hr_status say_machine(hr__report *out, const hr__top *top)
{
    say_gpus(out, top);
    HR__TRY(say_rows(out, top, true, NULL));
    HR__TRY(say_rows(out, top, false, "jobs without a GPU"));
    if (top->now->row_count == 0)
        hr__report_say(out, HR__STYLE_PLAIN,
                       "no jobs: nothing that runs now has a page of headroom's");
    return HR_OK;
}

hr_status hr_report_top(const hr_machine *before, const hr_machine *now, long process,
                        const hr_report_form *form, const hr_output *output)
{
    hr__report out;
    const hr__top top = {before, now, process};
    if (now == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "no machine to report: it is NULL");
    hr__report_init(&out, form);
    hr_status status = out.form.is_json ? hr__top_json(&out, &top) : say_machine(&out, &top);
    if (status != HR_OK)
        out.buffer.has_failed = true; /* nothing of it is sent */
    return hr__report_send(&out, output);
}
