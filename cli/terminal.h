/* terminal.h - what standard output is, and how to end writing to it.
 *
 * People's text may use colour and the width of a window; a pipe or a file gets plain text of a
 * fixed width, so that what a script reads does not depend on where it runs. */
#ifndef VRAMWISE_CLI_TERMINAL_H
#define VRAMWISE_CLI_TERMINAL_H

#include <stdbool.h>

typedef struct terminal {
    bool is_terminal;
    bool has_colour;        /* a terminal, and neither NO_COLOR nor TERM=dumb; or as was chosen */
    bool has_utf8;          /* by the locale; otherwise keep to ASCII */
    unsigned width_columns; /* of the window; 80 where that is not known */
} terminal;

typedef enum terminal_colour {
    TERMINAL_COLOUR_AUTO,
    TERMINAL_COLOUR_ALWAYS, /* in a pipe, too, and whatever NO_COLOR says */
    TERMINAL_COLOUR_NEVER,
} terminal_colour;

/* Keeps the numbers of standard streams that were closed from the start, so that no file or socket
 * gets one and what is written to the stream. Reading and writing them still fails with EBADF, and
 * a program that is started finds them closed. To be called before anything is opened. */
void terminal_hold_streams(void);

/* From here on. */
void terminal_choose_colour(terminal_colour choice);

/* How standard output is now. Looks again at each call: a window may have been resized. The locale
 * must have been set (main() does). */
terminal terminal_look(void);

typedef enum terminal_style {
    TERMINAL_PLAIN,
    TERMINAL_BOLD,
    TERMINAL_FAINT,
    TERMINAL_RED,
    TERMINAL_GREEN,
    TERMINAL_YELLOW,
    TERMINAL_BLUE,
} terminal_style;

/* What to print to switch to `style`: "" without colour. Static strings. */
const char *terminal_style_code(const terminal *output, terminal_style style);

/* Prints a paragraph to standard output, wrapped at spaces; a word longer than a line stands alone
 * in one. */
__attribute__((format(printf, 3, 4))) void
terminal_tell(const terminal *output, terminal_style style, const char *format, ...);

/* Flushes standard output and answers how the program ends: `exit_status`, or EXIT_COULD_NOT with
 * a message on standard error if not everything could be written. A reader that went away
 * (`vramwise help | head -1`) is no failure. Nothing may be written to standard output after. */
int terminal_finish(int exit_status);

#endif /* VRAMWISE_CLI_TERMINAL_H */
