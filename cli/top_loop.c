/* top_loop.c - read, draw, wait for a key; again.
 *
 * Rates are taken over the last few readings, not the last two: a step that takes a second would
 * otherwise show as none, then as one. */
#include "top_loop.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <curses.h> /* KEY_UP and its like */

#include "vramwise/status.h"

#include "command.h"
#include "top_draw.h"

enum { READINGS = 4, LONGEST_TROUBLE = 256 };

static const double intervals[] = {0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60};
enum { INTERVAL_COUNT = sizeof intervals / sizeof intervals[0] };

typedef struct top_run {
    top_screen screen;
    top_state state;
    top_history history;
    vw_machine *readings[READINGS]; /* oldest first */
    size_t reading_count;
    bool has_ended;
    top_mode mode_before_help;
    char trouble[LONGEST_TROUBLE];
} top_run;

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void say_trouble(top_run *top, vw_status status)
{
    const char *detail = vw_last_error();
    snprintf(top->trouble, sizeof top->trouble, "%s",
             detail[0] != '\0' ? detail : vw_status_message(status));
    top->state.trouble = top->trouble;
}

/* The rows of the latest reading, chosen and ordered as the user has it now. */
static void arrange(top_run *top)
{
    top_state *state = &top->state;
    const vw_machine *before = top->reading_count > 1 ? top->readings[0] : NULL;
    const top_order order = {top_column_compare, (int)state->sort, state->is_falling,
                             state->is_tree};
    vw_status status = top_rows_fill(&state->rows, before, state->now, &top->history);
    if (status != VW_OK)
        say_trouble(top, status);
    /* The details of a row are there whatever the filter says. */
    top_rows_arrange(&state->rows, state->mode == TOP_DETAILS ? "" : state->filter, &order);
}

static void take(top_run *top, vw_machine *machine)
{
    if (top->reading_count == READINGS) {
        vw_machine_free(top->readings[0]);
        memmove(top->readings, top->readings + 1, (READINGS - 1) * sizeof top->readings[0]);
        top->reading_count--;
    }
    top->readings[top->reading_count++] = machine;
    top->state.now = machine;
    top->state.trouble = NULL;
    if (!top_history_add(&top->history, machine))
        say_trouble(top, VW_ERR_HOST_MEMORY);
    arrange(top);
}

static void read_again(top_run *top)
{
    vw_machine *machine;
    vw_status status = vw_machine_read(NULL, &machine);
    if (status == VW_OK)
        take(top, machine);
    else
        say_trouble(top, status);
}

/* ---- choosing -------------------------------------------------------------------------------- */

static void select_row(top_state *state, size_t index)
{
    if (state->rows.count == 0)
        return;
    if (index >= state->rows.count)
        index = state->rows.count - 1;
    state->selected = top_row_key(&state->rows.items[index]);
}

static void move_selection(top_state *state, long by)
{
    size_t from = top_selected(state);
    if (by < 0 && from < (size_t)-by)
        select_row(state, 0);
    else
        select_row(state, (size_t)((long)from + by));
}

/* The next column that is shown, or the one before. */
static void sort_by_neighbour(top_state *state, int by)
{
    int column = (int)state->sort;
    for (int i = 0; i < TOP_COLUMN_COUNT; i++) {
        column = (column + by + TOP_COLUMN_COUNT) % TOP_COLUMN_COUNT;
        if (state->layout.widths[column] > 0)
            break;
    }
    state->sort = (top_column)column;
    state->is_falling = top_column_is_falling(state->sort);
}

/* The next interval of the list; beyond its ends nothing changes. */
static void change_interval(top_state *state, bool is_faster)
{
    size_t i = 0;
    while (i < INTERVAL_COUNT && (is_faster ? intervals[i] < state->interval_seconds
                                            : intervals[i] <= state->interval_seconds))
        i++;
    if (is_faster && i > 0)
        state->interval_seconds = intervals[i - 1];
    else if (!is_faster && i < INTERVAL_COUNT)
        state->interval_seconds = intervals[i];
}

static void type_filter(top_state *state, int key)
{
    size_t length = strlen(state->filter);
    if (key == TOP_KEY_ENTER) {
        state->is_filtering = false;
    } else if (key == TOP_KEY_ESCAPE) {
        state->is_filtering = false;
        state->filter[0] = '\0';
    } else if ((key == KEY_BACKSPACE || key == 127 || key == '\b') && length > 0) {
        do
            length--; /* a whole character of UTF-8 */
        while (length > 0 && ((unsigned char)state->filter[length] & 0xC0) == 0x80);
        state->filter[length] = '\0';
    } else if (key >= ' ' && key < 256 && key != 127 && length + 1 < TOP_FILTER_BYTES) {
        state->filter[length] = (char)key;
        state->filter[length + 1] = '\0';
    }
}

static void go_back(top_run *top)
{
    top_state *state = &top->state;
    if (state->mode == TOP_HELP)
        state->mode = top->mode_before_help;
    else if (state->mode == TOP_DETAILS)
        state->mode = TOP_TABLE;
    else
        state->filter[0] = '\0';
}

static void open_help(top_run *top)
{
    if (top->state.mode == TOP_HELP) {
        go_back(top);
        return;
    }
    top->mode_before_help = top->state.mode;
    top->state.mode = TOP_HELP;
}

static void open_details(top_state *state)
{
    size_t selected = top_selected(state);
    if (state->mode != TOP_TABLE || selected >= state->rows.count)
        return;
    select_row(state, selected);
    state->mode = TOP_DETAILS;
}

static void obey(top_run *top, int key)
{
    top_state *state = &top->state;
    long page = state->page_rows > 1 ? (long)state->page_rows - 1 : 1;
    switch (key) {
    case 'q':
    case KEY_F(10):
        top->has_ended = true;
        break;
    case 'h':
    case '?':
    case KEY_F(1):
        open_help(top);
        break;
    case TOP_KEY_ESCAPE:
    case KEY_BACKSPACE:
    case 127:
        go_back(top);
        break;
    case TOP_KEY_ENTER:
        open_details(state);
        break;
    case KEY_UP:
    case 'k':
        move_selection(state, -1);
        break;
    case KEY_DOWN:
    case 'j':
        move_selection(state, 1);
        break;
    case KEY_PPAGE:
        move_selection(state, -page);
        break;
    case KEY_NPAGE:
        move_selection(state, page);
        break;
    case KEY_HOME:
    case 'g':
        select_row(state, 0);
        break;
    case KEY_END:
    case 'G':
        select_row(state, state->rows.count);
        break;
    case 's':
    case '>':
    case KEY_RIGHT:
    case KEY_F(6):
        sort_by_neighbour(state, 1);
        break;
    case 'S':
    case '<':
    case KEY_LEFT:
        sort_by_neighbour(state, -1);
        break;
    case 'r':
        state->is_falling = !state->is_falling;
        break;
    case 't':
        state->is_tree = !state->is_tree;
        break;
    case 'p':
    case ' ':
        state->is_paused = !state->is_paused;
        break;
    case '+':
        change_interval(state, true);
        break;
    case '-':
        change_interval(state, false);
        break;
    case '/':
    case KEY_F(4):
        if (state->mode == TOP_TABLE)
            state->is_filtering = true;
        break;
    default:
        break;
    }
}

static void take_key(top_run *top, int key)
{
    if (top->state.is_filtering)
        type_filter(&top->state, key);
    else
        obey(top, key);
    arrange(top);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void run(top_run *top)
{
    double read_at = now_seconds();
    while (!top->has_ended && top->screen.ended_by == 0) {
        top_draw(&top->screen, &top->state);
        double left = read_at + top->state.interval_seconds - now_seconds();
        int key = top_screen_key(&top->screen, left > 0 ? (int)(left * 1000) + 1 : 0);
        if (key != TOP_KEY_NONE)
            take_key(top, key);
        if (now_seconds() < read_at + top->state.interval_seconds)
            continue;
        if (!top->state.is_paused)
            read_again(top);
        read_at = now_seconds();
    }
}

static void begin_with(top_run *top, long process)
{
    const top_rows *rows = &top->state.rows;
    for (size_t i = 0; i < rows->count && process != 0; i++)
        if (rows->items[i].row->process == process) {
            top->state.selected = top_row_key(&rows->items[i]);
            top->state.mode = TOP_DETAILS;
            return;
        }
}

int top_loop(const top_wish *wish, vw_machine *first)
{
    top_run top = {
        .state = {.sort = TOP_GPU, .is_tree = true, .interval_seconds = wish->interval_seconds}};
    top.state.history = &top.history;
    if (!top_screen_begin(&top.screen, wish->command_name)) {
        vw_machine_free(first);
        return EXIT_COULD_NOT;
    }
    take(&top, first);
    begin_with(&top, wish->process);
    run(&top);
    top_screen_end();
    for (size_t i = 0; i < top.reading_count; i++)
        vw_machine_free(top.readings[i]);
    top_history_free(&top.history);
    top_rows_free(&top.state.rows);
    if (top.screen.ended_by != 0) { /* the shell is to know; curses has a handler of its own */
        (void)signal(top.screen.ended_by, SIG_DFL);
        (void)raise(top.screen.ended_by);
    }
    return EXIT_DONE;
}
