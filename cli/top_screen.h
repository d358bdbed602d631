/* top_screen.h - the terminal as a screen: taken, drawn on, and always given back.
 *
 * All text passes through vw_show_text(): what comes from pages and command lines cannot steer the
 * terminal. Everything that is drawn is distinguished by letters as well as by colour.
 *
 * One screen at a time, one thread. */
#ifndef VRAMWISE_CLI_TOP_SCREEN_H
#define VRAMWISE_CLI_TOP_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

typedef enum top_style {
    TOP_PLAIN,
    TOP_BOLD,
    TOP_FAINT,
    TOP_BAND,     /* reversed: titles of columns, keys */
    TOP_SELECTED, /* the row that keys are about */
    TOP_GREEN,    /* live */
    TOP_YELLOW,   /* idle; warnings */
    TOP_BLUE,     /* others' */
    TOP_RED,      /* urgent */
    TOP_STYLE_COUNT
} top_style;

typedef struct top_screen {
    int lines, columns;
    bool has_utf8;
    int ended_by; /* the signal that asks for an end; 0 */
} top_screen;

/* Takes the terminal. false: there is none, or none that can be drawn on; a message that names
 * --once is on standard error. */
bool top_screen_begin(top_screen *screen, const char *command_name);

/* Gives it back as it was. */
void top_screen_end(void);

/* Keys are those of curses, and these. */
enum { TOP_KEY_NONE = -1, TOP_KEY_ESCAPE = 27, TOP_KEY_ENTER = '\n' };

/* Waits for a key, at most so long. TOP_KEY_NONE: none came, or the screen has another size now,
 * or ended_by is set. */
int top_screen_key(top_screen *screen, int most_ms);

void top_screen_clear(top_screen *screen);
void top_screen_show(top_screen *screen);

/* Writes what fits of `text` into `width` columns from `column` on; returns the columns it took.
 * Outside of the screen nothing is written. */
int top_screen_put(const top_screen *screen, int line, int column, int width, top_style style,
                   const char *text);
__attribute__((format(printf, 6, 7))) int top_screen_print(const top_screen *screen, int line,
                                                           int column, int width, top_style style,
                                                           const char *format, ...);

/* A whole line in that style, to be written on. */
void top_screen_fill(const top_screen *screen, int line, top_style style);

#endif /* VRAMWISE_CLI_TOP_SCREEN_H */
