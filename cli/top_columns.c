/* top_columns.c - see top_columns.h. */
#include "top_columns.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "memory_line.h"
#include "top_numbers.h"

enum {
    GAP = 1,
    SMALLEST_PROGRAM = 12,
    USUAL_PROGRAM = 20,
    LARGEST_PROGRAM = 40,
    SMALLEST_NOTE = 13,
    IMPORTANT = 9, /* columns up to here go before wider names */
};

/* ---- what rows say --------------------------------------------------------------------------- */

static uint64_t value_of(const top_row *row, vw_live_field field)
{
    const vw_job_device *device = row->row->device;
    return device != NULL ? device->values[field] : (uint64_t)VW_LIVE_UNKNOWN;
}

/* As a number to compare and to show; not finite: not known. */
static double bytes(uint64_t value)
{
    return value == VW_LIVE_UNKNOWN ? (double)NAN : (double)value;
}

/* What `row` says in a column. */
#define NUMBER(function, value)                                                                    \
    static double function(const top_row *row)                                                     \
    {                                                                                              \
        return value;                                                                              \
    }
NUMBER(live_of, bytes(value_of(row, VW_LIVE_LIVE_BYTES)))
NUMBER(reserved_of, bytes(value_of(row, VW_LIVE_RESERVED_BYTES)))
NUMBER(peak_of, bytes(value_of(row, VW_LIVE_PEAK_LIVE_BYTES)))
NUMBER(largest_of, bytes(value_of(row, VW_LIVE_LARGEST_FREE_BYTES)))
NUMBER(pinned_of, bytes(value_of(row, VW_LIVE_PINNED_BYTES)))
NUMBER(spilled_of, bytes(value_of(row, VW_LIVE_SPILLED_BYTES)))
NUMBER(steps_of, bytes(value_of(row, VW_LIVE_STEPS)))
NUMBER(memory_of, bytes(row->row->process_bytes))
NUMBER(unseen_of, bytes(row->figures.unseen_bytes))
NUMBER(idle_of, row->figures.idle_share)
NUMBER(allocations_of, row->figures.allocations_per_second)
NUMBER(retries_of, row->figures.retries_per_second)
NUMBER(driver_of, row->figures.driver_share)
NUMBER(step_of, row->figures.step_seconds)
NUMBER(input_of, row->figures.input_wait_share)
NUMBER(process_of, (double)row->row->process)
NUMBER(gpu_of, row->row->gpu != NULL ? row->row->gpu->index : (double)NAN)
NUMBER(rank_of,
       row->row->job != NULL && row->row->job->rank >= 0 ? row->row->job->rank : (double)NAN)
#undef NUMBER

/* How much it grew over its trend. */
static double growth_of(const top_row *row)
{
    if (row->trend_count < 2)
        return (double)NAN;
    return bytes(row->trend[row->trend_count - 1].live_bytes) - bytes(row->trend[0].live_bytes);
}

/* Rows with the most urgent note have the highest. */
static double urgency_of(const top_row *row)
{
    if (row->note_count == 0)
        return 0;
    return VW_NOTE_KIND_COUNT - (double)row->notes[0].kind + (row->notes[0].is_urgent ? 100 : 0);
}

/* ---- the columns ----------------------------------------------------------------------------- */

typedef enum column_form { SIZE, RATE, SHARE, SECONDS, COUNT, WORDS } column_form;

typedef struct column_facts {
    const char *title;
    const char *help;
    column_form form;
    unsigned width;
    unsigned importance; /* 1 goes first; 0 is always there */
    bool is_falling;
    double (*number)(const top_row *row); /* NULL: compared as text */
} column_facts;

static const column_facts columns[] = {
    [TOP_PID] = {"PID", "process", COUNT, 7, 0, false, process_of},
    [TOP_GPU] = {"GPU", "by nvidia-smi's count; ?: not known", COUNT, 3, 4, false, gpu_of},
    [TOP_RANK] = {"RANK", "of the process in its job", COUNT, 4, 3, false, rank_of},
    [TOP_PROGRAM] = {"PROGRAM", "what runs", WORDS, SMALLEST_PROGRAM, 0, false, NULL},
    [TOP_MEMORY] = {"MEM", "GPU memory of the process, by the driver", SIZE, 5, 5, true, memory_of},
    [TOP_LIVE] = {"LIVE", "handed out to the program", SIZE, 5, 1, true, live_of},
    [TOP_RESERVED] = {"RESV", "held by its allocator", SIZE, 5, 2, true, reserved_of},
    [TOP_IDLE] = {"IDLE", "share of reserved that is not live", SHARE, 4, 9, true, idle_of},
    [TOP_PEAK] = {"PEAK", "most that was live", SIZE, 5, 11, true, peak_of},
    [TOP_LARGEST] = {"LARGE", "largest free block", SIZE, 5, 15, true, largest_of},
    [TOP_UNSEEN] = {"UNSEEN", "of MEM, not the allocator's: context, libraries", SIZE, 6, 14, true,
                    unseen_of},
    [TOP_PINNED] = {"PINNED", "page-locked host memory", SIZE, 6, 16, true, pinned_of},
    [TOP_SPILLED] = {"SPILL", "live data in host memory", SIZE, 5, 17, true, spilled_of},
    [TOP_ALLOCATIONS] = {"ALLOC/S", "requests served in a second", RATE, 7, 12, true,
                         allocations_of},
    [TOP_RETRIES] = {"RETRY/S", "requests that emptied the cache, in a second", RATE, 7, 18, true,
                     retries_of},
    [TOP_DRIVER] = {"DRV", "share of the time spent in the driver", SHARE, 4, 13, true, driver_of},
    [TOP_STEPS] = {"STEPS", "optimizer steps so far", COUNT, 7, 19, true, steps_of},
    [TOP_STEP] = {"STEP", "time of a step", SECONDS, 5, 8, true, step_of},
    [TOP_INPUT] = {"INPUT", "share of a step spent waiting for data", SHARE, 5, 10, true, input_of},
    [TOP_TREND] = {"TREND", "live memory over the run", WORDS, TOP_TREND_POINTS, 6, true,
                   growth_of},
    [TOP_NOTE] = {"NOTE", "what is worth a look", WORDS, SMALLEST_NOTE, 7, true, urgency_of},
};

const char *top_column_title(top_column column)
{
    return columns[column].title;
}

const char *top_column_help(top_column column)
{
    return columns[column].help;
}

bool top_column_is_text(top_column column)
{
    return columns[column].form == WORDS;
}

bool top_column_is_falling(top_column column)
{
    return columns[column].is_falling;
}

/* Heights are rounded so that the middle, where noise is, is not where one becomes another. */
#define ALMOST_ONE 0.9

/* ---- cells ----------------------------------------------------------------------------------- */

static void number_cell(top_column column, double number, char cell[TOP_CELL_BYTES])
{
    top_number text;
    cell[0] = '\0';
    if (!isfinite(number))
        return;
    switch (columns[column].form) {
    case SIZE:
        snprintf(cell, TOP_CELL_BYTES, "%s",
                 top_size((uint64_t)fmin(number, TOP_MOST_BYTES), text));
        break;
    case RATE:
        snprintf(cell, TOP_CELL_BYTES, "%s", top_rate(number, text));
        break;
    case SHARE:
        snprintf(cell, TOP_CELL_BYTES, "%s", top_share(number, text));
        break;
    case SECONDS:
        snprintf(cell, TOP_CELL_BYTES, "%s", top_duration(number, text));
        break;
    default:
        snprintf(cell, TOP_CELL_BYTES, "%.0f", number);
        break;
    }
}

void top_column_cell(top_column column, const top_row *row, char cell[TOP_CELL_BYTES])
{
    if (column == TOP_PROGRAM)
        snprintf(cell, TOP_CELL_BYTES, "%s",
                 row->row->command[0] != '\0' ? row->row->command : "?");
    else if (column == TOP_NOTE)
        snprintf(cell, TOP_CELL_BYTES, "%s", row->note_count > 0 ? row->notes[0].word : "");
    else if (column == TOP_TREND)
        snprintf(cell, TOP_CELL_BYTES, "%s", row->trend_count > 0 ? "trend" : "");
    else if (column == TOP_GPU && row->row->place == VW_ROW_ON_UNKNOWN_GPU)
        snprintf(cell, TOP_CELL_BYTES, "?");
    else
        number_cell(column, columns[column].number(row), cell);
}

/* Between which values the letters go from the lowest to the highest: the middle of what there is
 * in the middle, and a fifth of the most from end to end at least. A trend that is level is a line
 * half way up, and noise stays small. */
static void find_range(const top_row *row, double *low, double *span)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < row->trend_count; i++) {
        double live = bytes(row->trend[i].live_bytes);
        least = fmin(least, live);
        most = fmax(most, live);
    }
    *span = fmax(most - least, most / 5);
    *low = (most + least) / 2 - *span / 2;
}

void top_trend_text(const top_row *row, bool has_utf8, char text[TOP_CELL_BYTES])
{
    double low, span;
    size_t used = 0;
    find_range(row, &low, &span);
    for (size_t i = 0; i < row->trend_count; i++) {
        double live = bytes(row->trend[i].live_bytes);
        size_t height = 0;
        if (isfinite(live) && span > 0)
            height = 1 + (size_t)((live - low) / span * (MEMORY_LINE_HEIGHTS - 1) + ALMOST_ONE);
        used += (size_t)snprintf(text + used, TOP_CELL_BYTES - used, "%s",
                                 memory_line_letter(height, has_utf8));
    }
    text[used] = '\0';
}

/* ---- order ----------------------------------------------------------------------------------- */

static int compare_numbers(double one, double other)
{
    if (isfinite(one) != isfinite(other))
        return isfinite(one) ? 1 : -1; /* unknown sorts lowest */
    return (one > other) - (one < other);
}

int top_column_compare(int column, const top_row *one, const top_row *other)
{
    if (columns[column].number == NULL)
        return strcmp(one->row->command, other->row->command);
    return compare_numbers(columns[column].number(one), columns[column].number(other));
}

/* ---- which of them fit ----------------------------------------------------------------------- */

static bool has_something(top_column column, const top_rows *rows)
{
    char cell[TOP_CELL_BYTES];
    for (size_t i = 0; i < rows->count; i++) {
        top_column_cell(column, &rows->items[i], cell);
        if (cell[0] != '\0')
            return true;
    }
    return columns[column].importance == 0;
}

static unsigned longest_cell(top_column column, const top_rows *rows)
{
    size_t longest = strlen(columns[column].title);
    char cell[TOP_CELL_BYTES];
    for (size_t i = 0; i < rows->count; i++) {
        top_column_cell(column, &rows->items[i], cell);
        if (strlen(cell) > longest)
            longest = strlen(cell);
    }
    return (unsigned)longest;
}

/* Gives a column more, up to `most`, of what is left. */
static void widen(top_layout *layout, top_column column, unsigned most, unsigned *left)
{
    unsigned width = layout->widths[column];
    if (width == 0 || most <= width)
        return;
    unsigned more = most - width < *left ? most - width : *left;
    layout->widths[column] += more;
    *left -= more;
}

/* Adds the columns of these importances, as long as they fit. */
static void add_columns(top_layout *layout, const top_rows *rows, unsigned from, unsigned to,
                        unsigned *left)
{
    for (unsigned importance = from; importance <= to; importance++) {
        for (top_column column = 0; column < TOP_COLUMN_COUNT; column++) {
            unsigned width = columns[column].width + GAP;
            if (columns[column].importance != importance || *left < width ||
                !has_something(column, rows))
                continue;
            layout->widths[column] = columns[column].width;
            *left -= width;
        }
    }
}

top_layout top_columns_fit(const top_rows *rows, unsigned width_columns)
{
    top_layout layout = {{0}};
    unsigned left = width_columns;
    unsigned program = longest_cell(TOP_PROGRAM, rows);
    add_columns(&layout, rows, 0, IMPORTANT, &left);
    widen(&layout, TOP_NOTE, longest_cell(TOP_NOTE, rows), &left);
    widen(&layout, TOP_PROGRAM, program < USUAL_PROGRAM ? program : USUAL_PROGRAM, &left);
    add_columns(&layout, rows, IMPORTANT + 1, TOP_COLUMN_COUNT, &left);
    widen(&layout, TOP_PROGRAM, program < LARGEST_PROGRAM ? program : LARGEST_PROGRAM, &left);
    return layout;
}
