/* terminal.c - asks the terminal, the environment and the locale.
 *
 * Colour follows no-color.org: any value of NO_COLOR that is not empty switches it off; but what
 * the command line says comes first. */
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "command.h" /* EXIT_COULD_NOT */

/* Longer lines are tiring, however wide the window. */
#define LONGEST_PROSE_COLUMNS 100
#define USUAL_WIDTH_COLUMNS 80
#define SMALLEST_WIDTH_COLUMNS 20
#define LARGEST_WIDTH_COLUMNS 1000

/* open() takes the lowest number that is free. Without /dev/null they stay closed. */
void terminal_hold_streams(void)
{
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) {
        int useless = i == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        if (fcntl(i, F_GETFD) < 0 && open("/dev/null", useless | O_CLOEXEC) != i)
            return;
    }
}

static terminal_colour chosen_colour; /* by --color */

void terminal_choose_colour(terminal_colour choice)
{
    chosen_colour = choice;
}

static bool is_set(const char *variable)
{
    const char *value = secure_getenv(variable);
    return value != NULL && value[0] != '\0';
}

static bool terminal_is_dumb(void)
{
    const char *kind = secure_getenv("TERM");
    return kind == NULL || kind[0] == '\0' || strcmp(kind, "dumb") == 0;
}

/* The window, or COLUMNS for a terminal that cannot say (a serial line, some editors). */
static unsigned window_width(void)
{
    struct winsize window;
    unsigned long columns = 0;
    const char *variable = secure_getenv("COLUMNS");

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0)
        columns = window.ws_col;
    if (columns == 0 && variable != NULL)
        columns = strtoul(variable, NULL, 10);
    if (columns < SMALLEST_WIDTH_COLUMNS || columns > LARGEST_WIDTH_COLUMNS)
        return USUAL_WIDTH_COLUMNS;
    return (unsigned)columns;
}

terminal terminal_look(void)
{
    terminal output;
    output.is_terminal = isatty(STDOUT_FILENO) == 1;
    output.has_colour = chosen_colour == TERMINAL_COLOUR_ALWAYS ||
                        (chosen_colour == TERMINAL_COLOUR_AUTO && output.is_terminal &&
                         !is_set("NO_COLOR") && !terminal_is_dumb());
    output.has_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    output.width_columns = output.is_terminal ? window_width() : USUAL_WIDTH_COLUMNS;
    return output;
}

const char *terminal_style_code(const terminal *output, terminal_style style)
{
    static const char *const codes[] = {
        [TERMINAL_PLAIN] = "\033[0m", [TERMINAL_BOLD] = "\033[1m",   [TERMINAL_FAINT] = "\033[2m",
        [TERMINAL_RED] = "\033[31m",  [TERMINAL_GREEN] = "\033[32m", [TERMINAL_YELLOW] = "\033[33m",
        [TERMINAL_BLUE] = "\033[34m",
    };
    return output->has_colour ? codes[style] : "";
}

void terminal_tell(const terminal *output, terminal_style style, const char *format, ...)
{
    char text[2048];
    va_list args;
    unsigned width = output->width_columns;
    size_t column = 0;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (width > LONGEST_PROSE_COLUMNS)
        width = LONGEST_PROSE_COLUMNS;
    if (style != TERMINAL_PLAIN)
        fputs(terminal_style_code(output, style), stdout);
    for (const char *word = text; *word != '\0';) {
        size_t length = strcspn(word, " \n");
        if (column > 0 && column + 1 + length > width) {
            putchar('\n');
            column = 0;
        } else if (column > 0) {
            putchar(' ');
            column++;
        }
        fwrite(word, 1, length, stdout);
        column += length;
        word += length;
        word += strspn(word, " \n");
    }
    if (style != TERMINAL_PLAIN)
        fputs(terminal_style_code(output, TERMINAL_PLAIN), stdout);
    putchar('\n');
}

int terminal_finish(int exit_status)
{
    bool has_failed = ferror(stdout) != 0; /* an earlier write; its reason is gone */
    errno = 0;
    if (fflush(stdout) != 0)
        has_failed = true;
    /* Some file systems report a full disk only here. A stream that was closed from the start, and
     * never written to, is the caller's choice. */
    if (!has_failed && close(STDOUT_FILENO) != 0 && errno != EBADF)
        has_failed = true;
    if (!has_failed || errno == EPIPE)
        return exit_status;
    if (errno != 0)
        fprintf(stderr, "vramwise: cannot write to standard output: %s\n", strerror(errno));
    else
        fprintf(stderr, "vramwise: cannot write to standard output\n");
    return EXIT_COULD_NOT;
}
