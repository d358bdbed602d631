/* top_help.c - the keys, and what the columns mean. */
#include "top_draw.h"

#include <stddef.h>

enum { KEY_COLUMNS = 10, TITLE_COLUMNS = 9, BESIDE_COLUMNS = 110, RIGHT_HALF = 56 };

static const char *const keys[][2] = {
    {"arrows", "choose a row"},
    {"Enter", "its details"},
    {"Esc", "back; takes a filter away"},
    {"/", "filter: program, PID, job, gpu0, note"},
    {"s, S, F6", "sort by the next column, or back"},
    {"r", "turn the order round"},
    {"p, space", "pause, and go on"},
    {"+, -", "look more often, or less"},
    {"h, ?, F1", "this help"},
    {"q, F10", "quit"},
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

void top_draw_help(const top_screen *screen, const top_state *state)
{
    if (screen->columns >= BESIDE_COLUMNS) {
        (void)draw_keys_help(screen, 0, RIGHT_HALF - 2);
        draw_columns_help(screen, state, 0, RIGHT_HALF);
    } else {
        int line = draw_keys_help(screen, 0, screen->columns);
        draw_columns_help(screen, state, line + (screen->lines >= 24), 0);
    }
}
