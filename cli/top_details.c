/* top_details.c - everything there is to say of one row, and its memory over time.
 *
 * Sentences first, then numbers in as many columns as fit, then the picture in what is left. */
#include "top_draw.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "memory_line.h"
#include "top_numbers.h"

enum {
    MOST_FACTS = 32,
    FACT_COLUMNS = 39, /* a label, and what it is */
    LABEL_COLUMNS = 15,
    AXIS_COLUMNS = 7, /* "13.4G |" */
    SMALLEST_PLOT_LINES = 3,
    MOST_PLOT_POINTS = 1024,
};

/* ---- numbers --------------------------------------------------------------------------------- */

typedef struct fact {
    const char *label;
    char text[48];
} fact;

typedef struct fact_list {
    fact items[MOST_FACTS];
    size_t count;
} fact_list;

__attribute__((format(printf, 3, 4))) static void add(fact_list *facts, const char *label,
                                                      const char *format, ...)
{
    fact *item = &facts->items[facts->count++];
    va_list args;
    item->label = label;
    va_start(args, format);
    (void)vsnprintf(item->text, sizeof item->text, format, args);
    va_end(args);
}

static void add_size(fact_list *facts, const char *label, uint64_t size_bytes)
{
    top_number text;
    if (size_bytes != VW_LIVE_UNKNOWN)
        add(facts, label, "%s", top_size(size_bytes, text));
}

static void add_memory(fact_list *facts, const top_row *row, const uint64_t *values)
{
    top_number size, share;
    add_size(facts, "live", values[VW_LIVE_LIVE_BYTES]);
    add_size(facts, "reserved", values[VW_LIVE_RESERVED_BYTES]);
    if (isfinite(row->figures.idle_share))
        add(facts, "idle", "%s, %s of reserved", top_size(row->figures.idle_bytes, size),
            top_share(row->figures.idle_share, share));
    add_size(facts, "largest free", values[VW_LIVE_LARGEST_FREE_BYTES]);
    add_size(facts, "peak live", values[VW_LIVE_PEAK_LIVE_BYTES]);
    add_size(facts, "peak reserved", values[VW_LIVE_PEAK_RESERVED_BYTES]);
    add_size(facts, "limit", values[VW_LIVE_LIMIT_BYTES]);
    add_size(facts, "device", values[VW_LIVE_DEVICE_TOTAL_BYTES]);
    add_size(facts, "device free", values[VW_LIVE_DEVICE_FREE_BYTES]);
    add_size(facts, "pinned", values[VW_LIVE_PINNED_BYTES]);
    add_size(facts, "spilled", values[VW_LIVE_SPILLED_BYTES]);
    add_size(facts, "parked", values[VW_LIVE_PARKED_BYTES]);
    add_size(facts, "moved", values[VW_LIVE_COPIED_BYTES]);
}

static void add_gate(fact_list *facts, uint64_t gate)
{
    static const char *const names[] = {VW_LIVE_LAUNCH_GATE_NAMES};
    if (gate < sizeof names / sizeof names[0])
        add(facts, "launch gate", "%s", names[gate]);
}

static void add_counted(fact_list *facts, const char *label, uint64_t count, double per_second)
{
    top_number rate;
    if (count == VW_LIVE_UNKNOWN)
        return;
    if (isfinite(per_second))
        add(facts, label, "%" PRIu64 ", %s/s", count, top_rate(per_second, rate));
    else
        add(facts, label, "%" PRIu64, count);
}

static void add_work(fact_list *facts, const top_row *row, const uint64_t *values)
{
    const vw_job_figures *figures = &row->figures;
    top_number text;
    add_counted(facts, "allocations", values[VW_LIVE_ALLOCATIONS], figures->allocations_per_second);
    add_counted(facts, "retries", values[VW_LIVE_RETRIES], figures->retries_per_second);
    add_counted(facts, "out of memory", values[VW_LIVE_OUT_OF_MEMORY], (double)NAN);
    add_counted(facts, "driver calls", values[VW_LIVE_DRIVER_CALLS], (double)NAN);
    if (isfinite(figures->driver_share))
        add(facts, "driver time", "%s", top_share(figures->driver_share, text));
    add_gate(facts, values[VW_LIVE_LAUNCH_GATE]);
    add_counted(facts, "steps", values[VW_LIVE_STEPS], figures->steps_per_second);
    if (isfinite(figures->step_seconds))
        add(facts, "step", "%s", top_duration(figures->step_seconds, text));
    if (isfinite(figures->input_wait_share))
        add(facts, "input wait", "%s of a step", top_share(figures->input_wait_share, text));
    if (values[VW_LIVE_LOADER_WORKERS] != VW_LIVE_UNKNOWN)
        add(facts, "data loader", "%" PRIu64 " worker%s%s", values[VW_LIVE_LOADER_WORKERS],
            values[VW_LIVE_LOADER_WORKERS] == 1 ? "" : "s",
            values[VW_LIVE_LOADER_PINS] == 1   ? ", pinned"
            : values[VW_LIVE_LOADER_PINS] == 0 ? ", not pinned"
                                               : "");
}

static void add_process(fact_list *facts, const top_row *row)
{
    const vw_job *job = row->row->job;
    add_size(facts, "process", row->row->process_bytes);
    add_size(facts, "unseen", row->figures.unseen_bytes);
    if (job == NULL)
        return;
    if (job->allocator[0] != '\0')
        add(facts, "allocator", "%.40s", job->allocator);
    if (job->job[0] != '\0')
        add(facts, "job", "%.40s", job->job);
    if (job->vramwise_version[0] != '\0')
        add(facts, "vramwise", "%.40s", job->vramwise_version);
}

static void gather_facts(fact_list *facts, const top_row *row)
{
    facts->count = 0;
    if (row->row->device != NULL) {
        add_memory(facts, row, row->row->device->values);
        add_work(facts, row, row->row->device->values);
    }
    add_process(facts, row);
}

/* Down one column, then down the next. Returns the line below. */
static int draw_facts(const top_screen *screen, const fact_list *facts, int line, int end)
{
    size_t columns = (size_t)(screen->columns / FACT_COLUMNS);
    columns = columns == 0 ? 1 : columns;
    size_t lines = (facts->count + columns - 1) / columns;
    for (size_t i = 0; i < facts->count; i++) {
        int at = (int)(i / lines) * FACT_COLUMNS, row = line + (int)(i % lines);
        if (row >= end)
            continue;
        top_screen_put(screen, row, at, LABEL_COLUMNS, TOP_FAINT, facts->items[i].label);
        top_screen_put(screen, row, at + LABEL_COLUMNS, FACT_COLUMNS - LABEL_COLUMNS, TOP_PLAIN,
                       facts->items[i].text);
    }
    return line + (int)lines < end ? line + (int)lines : end;
}

/* ---- the picture ----------------------------------------------------------------------------- */

static double known(uint64_t value)
{
    return value == VW_LIVE_UNKNOWN ? 0 : (double)value;
}

static double most_of(const top_point *points, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fmax(known(points[i].live_bytes), known(points[i].reserved_bytes)));
    return fmin(most, TOP_MOST_BYTES);
}

/* How much of a line's letter is live: eighths, or all or nothing where letters have no eighths. */
static size_t height_in(const top_screen *screen, double lines_filled)
{
    double filled = lines_filled <= 0 ? 0 : lines_filled >= 1 ? 1 : lines_filled;
    if (!screen->has_utf8)
        return filled >= 0.5 ? MEMORY_LINE_HEIGHTS : 0;
    return (size_t)(filled * MEMORY_LINE_HEIGHTS + 0.5);
}

/* One column: live memory, and idle memory above it. */
static void draw_column(const top_screen *screen, int top_line, int lines, int column,
                        const top_point *point, double most)
{
    double live = known(point->live_bytes) / most * lines;
    double reserved = known(point->reserved_bytes) / most * lines;
    for (int i = 0; i < lines; i++) {
        int line = top_line + lines - 1 - i;
        size_t height = height_in(screen, live - i);
        if (height > 0)
            top_screen_put(screen, line, column, 1, TOP_GREEN,
                           memory_line_letter(height, screen->has_utf8));
        else if (reserved >= i + 0.5)
            top_screen_put(screen, line, column, 1, TOP_YELLOW, screen->has_utf8 ? "\u2592" : "=");
    }
}

static void draw_axis(const top_screen *screen, int line, int lines, double most)
{
    top_number text;
    for (int i = 0; i < lines; i++)
        top_screen_put(screen, line + i, AXIS_COLUMNS - 1, 1, TOP_FAINT,
                       screen->has_utf8 ? "\u2502" : "|");
    top_screen_print(screen, line, 0, AXIS_COLUMNS - 1, TOP_FAINT, "%5s",
                     top_size((uint64_t)most, text));
    if (lines >= 2 * SMALLEST_PLOT_LINES)
        top_screen_print(screen, line + lines / 2, 0, AXIS_COLUMNS - 1, TOP_FAINT, "%5s",
                         top_size((uint64_t)(most / lines * (lines - lines / 2)), text));
}

static void draw_span(const top_screen *screen, int line, const top_state *state,
                      const top_row *row, bool is_by_steps)
{
    const vw_job_device *device = row->row->device;
    char text[96];
    if (is_by_steps)
        snprintf(text, sizeof text, "%ld from step %" PRIu64 " to %" PRIu64, row->row->process,
                 device->steps[0].step, device->steps[device->step_count - 1].step);
    else
        snprintf(text, sizeof text, "%ld in the last %.0f s", row->row->process,
                 top_history_seconds(state->history, row->row));
    int at =
        AXIS_COLUMNS + top_screen_put(screen, line, AXIS_COLUMNS, screen->columns, TOP_FAINT, text);
    at += 3 + top_screen_put(screen, line, at + 2, 8, TOP_GREEN,
                             screen->has_utf8 ? "\u2588 live" : "# live");
    top_screen_put(screen, line, at + 1, 8, TOP_YELLOW,
                   screen->has_utf8 ? "\u2592 idle" : "= idle");
}

void top_draw_plot(const top_screen *screen, const top_state *state, const top_row *row, int line,
                   int end)
{
    top_point points[MOST_PLOT_POINTS];
    bool is_by_steps;
    int width = screen->columns - AXIS_COLUMNS, lines = end - line - 1;
    if (width <= 0 || lines < SMALLEST_PLOT_LINES)
        return;
    size_t capacity = width < MOST_PLOT_POINTS ? (size_t)width : MOST_PLOT_POINTS;
    size_t count = top_history_points(state->history, row->row, points, capacity, &is_by_steps);
    double most = most_of(points, count);
    if (count < 2 || most <= 0)
        return;
    draw_axis(screen, line, lines, most);
    for (int i = 0; i < width; i++) /* few points are stretched */
        draw_column(screen, line, lines, AXIS_COLUMNS + i,
                    &points[(size_t)i * count / (size_t)width], most);
    draw_span(screen, line + lines, state, row, is_by_steps);
}

/* ---- together -------------------------------------------------------------------------------- */

static int draw_head(const top_screen *screen, const top_row *row)
{
    const vw_machine_row *about = row->row;
    char rank[48] = "", place[128] = "";
    if (about->job != NULL && about->job->rank >= 0 && about->job->world_size > 0)
        snprintf(rank, sizeof rank, "  rank %d of %d", about->job->rank, about->job->world_size);
    else if (about->job != NULL && about->job->rank >= 0)
        snprintf(rank, sizeof rank, "  rank %d", about->job->rank);
    if (about->gpu != NULL)
        snprintf(place, sizeof place, "  GPU %d %s", about->gpu->index, about->gpu->name);
    else if (about->device != NULL)
        snprintf(place, sizeof place, "  device %d %s%s", about->device->index, about->device->name,
                 about->place == VW_ROW_ON_UNKNOWN_GPU ? " (which GPU is not known)" : "");
    int at = top_screen_put(screen, 0, 0, screen->columns, TOP_BOLD,
                            about->command[0] != '\0' ? about->command : "?");
    top_screen_print(screen, 0, at, screen->columns - at, TOP_PLAIN, "  process %ld%s%s",
                     about->process, rank, place);
    return 1;
}

static int draw_notes(const top_screen *screen, const top_row *row, int line)
{
    for (size_t i = 0; i < row->note_count; i++)
        top_screen_put(screen, line++, 0, screen->columns,
                       row->notes[i].is_urgent ? TOP_RED : TOP_YELLOW, row->notes[i].text);
    if (row->row->job == NULL)
        top_screen_put(screen, line++, 0, screen->columns, TOP_FAINT,
                       "no page: it runs without vramwise, so only the driver knows of it");
    return line;
}

void top_draw_details(const top_screen *screen, const top_state *state)
{
    size_t index = top_rows_find(&state->rows, &state->selected);
    if (index == state->rows.count) {
        top_screen_print(screen, 0, 0, screen->columns, TOP_BOLD, "process %ld has ended",
                         state->selected.process);
        return;
    }
    const top_row *row = &state->rows.items[index];
    fact_list facts;
    int end = screen->lines - 1;
    gather_facts(&facts, row);
    int line = draw_notes(screen, row, draw_head(screen, row));
    line = draw_facts(screen, &facts, line + (screen->lines >= 24), end);
    top_draw_plot(screen, state, row, line + 1, end);
}
