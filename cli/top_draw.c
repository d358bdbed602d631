/* top_draw.c - the screen from top to bottom: a title, GPUs, the table, a sentence, keys.
 *
 *   vramwise top   2 GPUs   5 jobs   1 warning                              1 s
 *   0 NVIDIA H200   97% [||||||||||==========++++          ]  61.2G of 139G
 *   ...
 *       PID GPU PROGRAM         MEM  LIVE  RESV IDLE  STEP TREND    NOTE
 *   ...
 *   (the memory of the selected row over time, where there is room)
 *   17: leak: 1.20 MiB more live each step; full at step 12,345
 *   q Quit  h Help  Enter Details  / Filter  s Sort
 *
 * GPUs may take at most half of the lines. */
#include "top_draw.h"

#include <math.h> /* fmin */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "top_numbers.h"

enum {
    WIDE_COLUMNS = 120,  /* a GPU's numbers have room beside its bar */
    NARROW_COLUMNS = 60, /* its name has none */
    LONGEST_GPU_NAME = 28,
    SMALLEST_BAR = 4,
    LEAST_PICTURE_LINES = 6,
    MOST_PICTURE_LINES = 18,
    GPU_SIZES_COLUMNS = 15, /* " 61.2G of 79.6G" */
    GPU_SPLIT_COLUMNS = 54, /* "  live 61.2G  idle 12.3G  others 61.2G  free 61.2G" */
};

size_t top_selected(const top_state *state)
{
    size_t found = top_rows_find(&state->rows, &state->selected);
    if (found == state->rows.count && found > 0)
        return 0;
    return found;
}

/* By the note that counts most. */
static top_style row_style(const top_row *row)
{
    if (row->row->job == NULL)
        return TOP_FAINT;
    if (row->note_count == 0)
        return TOP_PLAIN;
    return row->notes[0].is_urgent ? TOP_RED : TOP_YELLOW;
}

/* ---- the title ------------------------------------------------------------------------------- */

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

static void draw_title(const top_screen *screen, const top_state *state)
{
    char right[48];
    size_t warnings = state->rows.warning_count;
    int at = top_screen_put(screen, 0, 0, screen->columns, TOP_BOLD, "vramwise top");
    at += 2 + top_screen_print(screen, 0, at + 2, screen->columns - at - 2, TOP_PLAIN,
                               "%zu GPU%s  %zu job%s", state->now->gpu_count,
                               plural(state->now->gpu_count), state->rows.job_count,
                               plural(state->rows.job_count));
    if (warnings > 0)
        at += 2 + top_screen_print(screen, 0, at + 2, screen->columns - at - 2, TOP_RED,
                                   "%zu warning%s", warnings, plural(warnings));
    snprintf(right, sizeof right, "%severy %g s", state->is_paused ? "paused, else " : "",
             state->interval_seconds);
    int column = screen->columns - (int)strlen(right);
    if (column > at + 1)
        top_screen_put(screen, 0, column, screen->columns - column,
                       state->is_paused ? TOP_YELLOW : TOP_FAINT, right);
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

typedef struct top_part {
    uint64_t bytes;
    top_style style;
    const char *letter, *ascii_letter;
} top_part;

/* A bar of `width` letters, of which each part takes its share of `total_bytes`. */
static void draw_bar(const top_screen *screen, int line, int column, int width,
                     const top_part *parts, size_t part_count, uint64_t total_bytes)
{
    uint64_t sum = 0;
    int drawn = 0;
    for (size_t i = 0; i < part_count && total_bytes > 0; i++) {
        sum += parts[i].bytes;
        const double share = fmin((double)sum / (double)total_bytes, 1.0);
        int end = (int)(share * width + 0.5);
        for (; drawn < end && drawn < width; drawn++)
            top_screen_put(screen, line, column + drawn, 1, parts[i].style,
                           screen->has_utf8 ? parts[i].letter : parts[i].ascii_letter);
    }
    for (; drawn < width; drawn++)
        top_screen_put(screen, line, column + drawn, 1, TOP_FAINT,
                       screen->has_utf8 ? "\u00B7" : ".");
}

static uint64_t known_or_0(uint64_t value)
{
    return value != VW_LIVE_UNKNOWN ? value : 0;
}

enum { GPU_PARTS = 3 };

static void parts_of(const vw_gpu *gpu, top_part parts[GPU_PARTS])
{
    parts[0] = (top_part){gpu->job_live_bytes, TOP_GREEN, "\u2588", "#"};
    parts[1] = (top_part){gpu->job_idle_bytes, TOP_YELLOW, "\u2592", "="};
    parts[2] = (top_part){known_or_0(gpu->other_bytes), TOP_BLUE, "\u2591", "+"};
}

static void draw_sizes(const top_screen *screen, int line, int column, const vw_gpu *gpu)
{
    top_number used, total;
    top_screen_print(screen, line, column, GPU_SIZES_COLUMNS, TOP_PLAIN, " %5s of %s",
                     top_size(gpu->used_bytes, used), top_size(gpu->total_bytes, total));
}

static void draw_split(const top_screen *screen, int line, int column, const vw_gpu *gpu)
{
    top_number live, idle, other, free_text;
    top_screen_print(screen, line, column, GPU_SPLIT_COLUMNS, TOP_FAINT,
                     "  live %5s  idle %5s  others %5s  free %5s",
                     top_size(gpu->job_live_bytes, live), top_size(gpu->job_idle_bytes, idle),
                     top_size(gpu->other_bytes, other), top_size(gpu->free_bytes, free_text));
}

/* "0 NVIDIA H200          97% [####====++.........]  61.2G of 139G" */
static void draw_gpu(const top_screen *screen, int line, const vw_gpu *gpu, int name_columns)
{
    top_part parts[GPU_PARTS];
    char busy[16] = "  -";
    bool is_wide = screen->columns >= WIDE_COLUMNS;
    int at = 3 + name_columns, end = screen->columns - GPU_SIZES_COLUMNS;
    if (is_wide)
        end -= GPU_SPLIT_COLUMNS;
    if (gpu->utilisation_percent <= 100)
        snprintf(busy, sizeof busy, "%3d%%", (int)gpu->utilisation_percent);
    top_screen_print(screen, line, 0, 2, TOP_BOLD, "%d", gpu->index);
    top_screen_put(screen, line, 2, name_columns, TOP_PLAIN, gpu->name);
    at += top_screen_put(screen, line, at, 4, TOP_BOLD, busy);
    int width = end - at - 3;
    if (width >= SMALLEST_BAR) {
        parts_of(gpu, parts);
        top_screen_put(screen, line, at + 1, 1, TOP_FAINT, "[");
        draw_bar(screen, line, at + 2, width, parts, GPU_PARTS, known_or_0(gpu->total_bytes));
        top_screen_put(screen, line, at + 2 + width, 1, TOP_FAINT, "]");
    }
    draw_sizes(screen, line, end, gpu);
    if (is_wide)
        draw_split(screen, line, end + GPU_SIZES_COLUMNS, gpu);
}

static int widest_name(const top_screen *screen, const vw_machine *machine)
{
    int widest = 0;
    char shown[VW_JOB_TEXT_BYTES * 2];
    if (screen->columns < NARROW_COLUMNS)
        return 0;
    for (size_t i = 0; i < machine->gpu_count; i++) {
        int columns = (int)vw_show_text(machine->gpus[i].name, screen->has_utf8, LONGEST_GPU_NAME,
                                        shown, sizeof shown);
        widest = columns > widest ? columns : widest;
    }
    return widest;
}

/* What the letters of a bar mean; with a GPU, how much each is, and what is free. */
static void draw_legend(const top_screen *screen, int line, const vw_gpu *gpu)
{
    static const char *const names[GPU_PARTS] = {"live", "idle", "others"};
    static const vw_gpu none;
    top_part parts[GPU_PARTS];
    top_number size;
    int at = 2;
    parts_of(gpu != NULL ? gpu : &none, parts);
    for (size_t i = 0; i < GPU_PARTS; i++) {
        at += top_screen_put(screen, line, at, 1, parts[i].style,
                             screen->has_utf8 ? parts[i].letter : parts[i].ascii_letter);
        at += 3 + top_screen_print(screen, line, at + 1, screen->columns - at - 1, TOP_FAINT,
                                   "%s%s%s", names[i], gpu != NULL ? " " : "",
                                   gpu != NULL ? top_size(parts[i].bytes, size) : "");
    }
    if (gpu != NULL)
        top_screen_print(screen, line, at, screen->columns - at, TOP_FAINT, "free %s",
                         top_size(gpu->free_bytes, size));
}

/* Returns the line below them. */
static int draw_gpus(const top_screen *screen, const top_state *state, int line)
{
    const vw_machine *machine = state->now;
    size_t most = screen->lines > 4 ? (size_t)(screen->lines - 2) / 2 : 1;
    size_t shown = machine->gpu_count <= most ? machine->gpu_count : most - 1;
    int name_columns = widest_name(screen, machine);
    if (machine->gpu_trouble != NULL) {
        top_screen_print(screen, line, 0, screen->columns, TOP_FAINT, "no GPUs: %s",
                         machine->gpu_trouble);
        return line + 1;
    }
    /* A window that has no room beside the bar may have it below. */
    const bool is_split = screen->columns < WIDE_COLUMNS && 2 * machine->gpu_count <= most;
    for (size_t i = 0; i < shown; i++) {
        draw_gpu(screen, line++, &machine->gpus[i], name_columns);
        if (is_split)
            draw_legend(screen, line++, &machine->gpus[i]);
    }
    if (is_split)
        return line;
    if (shown < machine->gpu_count)
        top_screen_print(screen, line++, 0, screen->columns, TOP_FAINT, "%zu more GPUs",
                         machine->gpu_count - shown);
    else if (shown > 0)
        draw_legend(screen, line++, NULL);
    return line;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* To the right in its column, or to the left. */
static void draw_cell(const top_screen *screen, int line, int column, unsigned width, bool is_text,
                      top_style style, const char *text)
{
    int blanks = is_text || strlen(text) >= width ? 0 : (int)(width - strlen(text));
    top_screen_put(screen, line, column + blanks, (int)width - blanks, style, text);
}

static void draw_titles(const top_screen *screen, const top_state *state, int line)
{
    int at = 0;
    top_screen_fill(screen, line, TOP_BAND);
    for (top_column column = 0; column < TOP_COLUMN_COUNT; column++) {
        unsigned width = state->layout.widths[column];
        if (width == 0)
            continue;
        draw_cell(screen, line, at, width, top_column_is_text(column),
                  column == state->sort ? TOP_SELECTED : TOP_BAND, top_column_title(column));
        if (column == state->sort)
            top_screen_put(screen, line, at + (int)width, 1, TOP_SELECTED,
                           screen->has_utf8    ? state->is_falling ? "\u25BC" : "\u25B2"
                           : state->is_falling ? "v"
                                               : "^");
        at += (int)width + 1;
    }
}

/* Where in a list that is longer than the window this is, at the end of the titles. */
static void draw_position(const top_screen *screen, const top_state *state, int line)
{
    char text[48];
    size_t count = state->rows.count, end = state->first + state->page_rows;
    if (state->page_rows >= count || screen->columns < NARROW_COLUMNS)
        return;
    snprintf(text, sizeof text, "%zu-%zu of %zu", state->first + 1, end < count ? end : count,
             count);
    int columns = (int)strlen(text);
    top_screen_put(screen, line, screen->columns - columns, columns, TOP_BAND, text);
}

/* The program and the note have the style of the note; numbers are plain. */
static top_style style_of_cell(const top_row *row, top_column column, bool is_selected)
{
    if (is_selected)
        return TOP_SELECTED;
    if (column == TOP_PROGRAM || column == TOP_NOTE || row->row->job == NULL)
        return row_style(row);
    return column == TOP_TREND ? TOP_GREEN : TOP_PLAIN;
}

/* The program as a branch of its job. */
static void branch_text(const top_screen *screen, const top_row *row, char cell[TOP_CELL_BYTES])
{
    char name[TOP_CELL_BYTES];
    const char *branch = row->is_last_of_group ? "`-" : "|-";
    if (screen->has_utf8)
        branch = row->is_last_of_group ? "\u2514\u2500" : "\u251C\u2500";
    top_column_cell(TOP_PROGRAM, row, name);
    (void)snprintf(cell, TOP_CELL_BYTES, "%s%.100s", branch, name);
}

static void draw_row(const top_screen *screen, const top_state *state, int line, const top_row *row,
                     bool is_selected)
{
    char cell[TOP_CELL_BYTES];
    int at = 0;
    if (is_selected)
        top_screen_fill(screen, line, TOP_SELECTED);
    for (top_column column = 0; column < TOP_COLUMN_COUNT; column++) {
        unsigned width = state->layout.widths[column];
        if (width == 0)
            continue;
        if (column == TOP_TREND)
            top_trend_text(row, screen->has_utf8, cell);
        else if (column == TOP_PROGRAM && row->group_count > 1)
            branch_text(screen, row, cell);
        else
            top_column_cell(column, row, cell);
        draw_cell(screen, line, at, width, top_column_is_text(column),
                  style_of_cell(row, column, is_selected), cell);
        at += (int)width + 1;
    }
}

/* Lines that stand above a row: of its place, where that changes, and of its job. At the top of the
 * page both are repeated. */
static bool has_place_line(const top_state *state, size_t i)
{
    const top_rows *rows = &state->rows;
    return i == rows->on_gpu_count || (i == state->first && i > rows->on_gpu_count);
}

static bool has_job_line(const top_state *state, size_t i)
{
    const top_row *row = &state->rows.items[i];
    return row->group_count > 1 && (row->is_first_of_group || i == state->first);
}

/* How many rows there is room for, from `first` on. */
static size_t rows_that_fit(const top_state *state, size_t first, int room)
{
    top_state from = *state;
    size_t i = first;
    from.first = first;
    for (; i < state->rows.count; i++) {
        room -= 1 + has_place_line(&from, i) + has_job_line(&from, i);
        if (room < 0)
            break;
    }
    return i - first;
}

/* The selected row is among those that are shown, and no line is wasted. */
static void scroll(top_state *state, size_t selected, int room)
{
    const size_t count = state->rows.count;
    if (state->first >= count)
        state->first = count > 0 ? count - 1 : 0;
    if (selected < state->first)
        state->first = selected;
    while (state->first < selected &&
           state->first + rows_that_fit(state, state->first, room) <= selected)
        state->first++;
    while (state->first > 0 &&
           state->first - 1 + rows_that_fit(state, state->first - 1, room) >= count)
        state->first--;
    state->page_rows = rows_that_fit(state, state->first, room);
}

/* Processes of a job, which may have a row for each of several devices. */
static size_t count_processes(const top_row *rows, size_t count)
{
    size_t processes = 0;
    for (size_t i = 0; i < count; i++) {
        size_t earlier = 0;
        while (earlier < i && rows[earlier].row->process != rows[i].row->process)
            earlier++;
        processes += earlier == i;
    }
    return processes;
}

/* "job 1234: 8 processes, live 48.0G, reserved 64.0G": of the rows that are shown. */
static void draw_job(const top_screen *screen, const top_state *state, int line, size_t i)
{
    const top_rows *rows = &state->rows;
    uint64_t live_bytes = 0, reserved_bytes = 0;
    char name[VW_JOB_TEXT_BYTES * 2];
    top_number live, reserved;
    while (!rows->items[i].is_first_of_group)
        i--;
    const top_row *first = &rows->items[i];
    const size_t processes = count_processes(first, first->group_count);
    const vw_job *job = first->row->job;
    for (size_t k = i; k < i + first->group_count; k++) {
        const vw_job_device *device = rows->items[k].row->device;
        live_bytes += device != NULL ? known_or_0(device->values[VW_LIVE_LIVE_BYTES]) : 0;
        reserved_bytes += device != NULL ? known_or_0(device->values[VW_LIVE_RESERVED_BYTES]) : 0;
    }
    vw_show_text(job->job[0] != '\0' ? job->job : job->run, screen->has_utf8,
                 (size_t)screen->columns / 2, name, sizeof name);
    top_screen_print(screen, line, 0, screen->columns, TOP_BOLD,
                     "job %s: %zu process%s, live %s, reserved %s", name, processes,
                     processes == 1 ? "" : "es", top_size(live_bytes, live),
                     top_size(reserved_bytes, reserved));
}

static void draw_nothing(const top_screen *screen, const top_state *state, int line)
{
    if (state->filter[0] != '\0')
        top_screen_print(screen, line, 2, screen->columns - 2, TOP_FAINT,
                         "nothing has '%s' in it; Esc takes the filter away", state->filter);
    else
        top_screen_put(screen, line, 2, screen->columns - 2, TOP_FAINT,
                       "no jobs: start one with 'vramwise run -- COMMAND'");
}

/* Rows from `line` to before `end`; headings stand above the rows of a job, and above those without
 * a GPU. Returns the line below them. */
static int draw_rows(const top_screen *screen, top_state *state, int line, int end)
{
    const top_rows *rows = &state->rows;
    size_t selected = top_selected(state);
    scroll(state, selected, end - line);
    if (rows->count == 0)
        draw_nothing(screen, state, line);
    for (size_t i = state->first; i < state->first + state->page_rows; i++) {
        if (has_place_line(state, i))
            top_screen_put(screen, line++, 0, screen->columns, TOP_BOLD, "without a GPU");
        if (has_job_line(state, i))
            draw_job(screen, state, line++, i);
        draw_row(screen, state, line++, &rows->items[i], i == selected);
    }
    return line;
}

/* What the rows leave empty shows the memory of the selected one. */
static void draw_picture(const top_screen *screen, const top_state *state, int line, int end)
{
    size_t selected = top_selected(state);
    if (end - line > MOST_PICTURE_LINES)
        line = end - MOST_PICTURE_LINES;
    if (selected < state->rows.count && end - line >= LEAST_PICTURE_LINES)
        top_draw_plot(screen, state, &state->rows.items[selected], line, end);
}

/* ---- below ----------------------------------------------------------------------------------- */

static void draw_sentence(const top_screen *screen, const top_state *state, int line)
{
    size_t selected = top_selected(state);
    if (state->is_filtering || state->filter[0] != '\0') {
        int at = top_screen_print(screen, line, 0, screen->columns, TOP_BOLD, "filter: %s",
                                  state->filter);
        top_screen_put(screen, line, at, 1, TOP_SELECTED, state->is_filtering ? " " : "");
    } else if (state->trouble != NULL) {
        top_screen_put(screen, line, 0, screen->columns, TOP_RED, state->trouble);
    } else if (selected < state->rows.count && state->rows.items[selected].note_count > 0) {
        const top_row *row = &state->rows.items[selected];
        top_screen_print(screen, line, 0, screen->columns, row_style(row), "%ld: %s",
                         row->row->process, row->notes[0].text);
    }
}

static void draw_keys(const top_screen *screen, const top_state *state)
{
    static const char *const keys[][2] = {
        {"q", "Quit"}, {"h", "Help"}, {"Enter", "Details"}, {"/", "Filter"},
        {"s", "Sort"}, {"t", "Tree"}, {"p", "Pause"},       {"+-", "Pace"},
    };
    static const char *const filter_keys[][2] = {{"Enter", "Keep"}, {"Esc", "Take away"}};
    static const char *const details_keys[][2] = {
        {"q", "Quit"}, {"h", "Help"}, {"Esc", "Back"}, {"Up/Down", "Next"}, {"p", "Pause"}};
    static const char *const help_keys[][2] = {{"q", "Quit"}, {"Esc", "Back"}};
    const char *const(*list)[2] = keys;
    size_t count = sizeof keys / sizeof keys[0];
    if (state->is_filtering)
        list = filter_keys, count = sizeof filter_keys / sizeof filter_keys[0];
    else if (state->mode == TOP_DETAILS)
        list = details_keys, count = sizeof details_keys / sizeof details_keys[0];
    else if (state->mode == TOP_HELP)
        list = help_keys, count = sizeof help_keys / sizeof help_keys[0];
    int line = screen->lines - 1, at = 0;
    for (size_t i = 0; i < count; i++) {
        int needed = (int)(strlen(list[i][0]) + strlen(list[i][1])) + 1;
        if (at + needed > screen->columns)
            break;
        at += top_screen_put(screen, line, at, needed, TOP_BOLD, list[i][0]);
        at += 1 + top_screen_print(screen, line, at, needed, TOP_BAND, " %s ", list[i][1]);
    }
}

/* ---- help: the keys, and what the columns mean --------------------------------------------------
 */

enum { KEY_COLUMNS = 10, TITLE_COLUMNS = 9, BESIDE_COLUMNS = 110, RIGHT_HALF = 56 };

static const char *const keys[][2] = {
    {"arrows", "choose a row"},
    {"Enter", "its details"},
    {"Esc", "back; takes a filter away"},
    {"/", "filter: program, PID, job, gpu0, note"},
    {"s, S, F6", "sort by the next column, or back"},
    {"r", "turn the order round"},
    {"t", "tree: the ranks of a job below it, or not"},
    {"p, space", "pause, and go on"},
    {"+, -", "look more often, or less"},
    {"h, ?, F1", "this help; q, F10: quit"},
};

static int draw_keys_help(const top_screen *screen, int line, int width)
{
    top_screen_put(screen, line++, 0, width, TOP_BOLD, "keys");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        top_screen_put(screen, line, 1, KEY_COLUMNS, TOP_BOLD, keys[i][0]);
        top_screen_put(screen, line++, 1 + KEY_COLUMNS, width - KEY_COLUMNS - 1, TOP_PLAIN,
                       keys[i][1]);
    }
    return line;
}

/* As many as there are lines for: those in sight come first. */
static void draw_columns_help(const top_screen *screen, const top_state *state, int line, int at)
{
    top_screen_put(screen, line++, at, screen->columns, TOP_BOLD, "columns");
    for (int is_hidden = 0; is_hidden < 2; is_hidden++) {
        for (top_column column = 0; column < TOP_COLUMN_COUNT; column++) {
            if ((state->layout.widths[column] == 0) != is_hidden || line >= screen->lines - 1)
                continue;
            top_screen_put(screen, line, at + 1, TITLE_COLUMNS, is_hidden ? TOP_FAINT : TOP_BOLD,
                           top_column_title(column));
            top_screen_put(screen, line++, at + 1 + TITLE_COLUMNS, screen->columns,
                           is_hidden ? TOP_FAINT : TOP_PLAIN, top_column_help(column));
        }
    }
}

static void draw_help(const top_screen *screen, const top_state *state)
{
    if (screen->columns >= BESIDE_COLUMNS) {
        (void)draw_keys_help(screen, 0, RIGHT_HALF - 2);
        draw_columns_help(screen, state, 0, RIGHT_HALF);
    } else {
        int line = draw_keys_help(screen, 0, screen->columns);
        int wanted = 1; /* lines: the heading, and the columns that are in sight */
        for (top_column column = 0; column < TOP_COLUMN_COUNT; column++)
            wanted += state->layout.widths[column] != 0;
        line += line + 1 + wanted <= screen->lines - 1;
        draw_columns_help(screen, state, line, 0);
    }
}

void top_draw(top_screen *screen, top_state *state)
{
    top_screen_clear(screen);
    if (state->mode == TOP_DETAILS) {
        top_draw_details(screen, state);
    } else if (state->mode == TOP_HELP) {
        draw_help(screen, state);
    } else {
        draw_title(screen, state);
        int line = draw_gpus(screen, state, 1);
        state->layout = top_columns_fit(&state->rows, (unsigned)screen->columns);
        draw_titles(screen, state, line);
        int below = draw_rows(screen, state, line + 1, screen->lines - 2);
        draw_position(screen, state, line);
        draw_picture(screen, state, below + 1, screen->lines - 2);
        draw_sentence(screen, state, screen->lines - 2);
    }
    draw_keys(screen, state);
    top_screen_show(screen);
}
