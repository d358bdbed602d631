/* top_screen.c - ncurses, signals, and a terminal that must not stay broken.
 *
 * A terminal is given back in three ways. Keys end the screen as any program ends. Signals that ask
 * for an end are read as data (signalfd), beside the keys, and end it in the same way. A crash,
 * such as a page that is cut short while it is read, is top_crash.h's. */
#include "top_screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <curses.h>

#include "vramwise/report.h" /* vw_show_text */

#include "terminal.h"
#include "top_crash.h"

enum { LONGEST_LINE_BYTES = 4096, ESCAPE_DELAY_MS = 25 };

static SCREEN *curses_screen;
static int signal_file = -1;
static sigset_t inherited_mask;
static bool is_observed; /* for crashes */
static int attributes[TOP_STYLE_COUNT];

/* ---- taking and giving back ------------------------------------------------------------------ */

static void choose_styles(bool has_colour)
{
    attributes[TOP_PLAIN] = A_NORMAL;
    attributes[TOP_BOLD] = A_BOLD;
    attributes[TOP_FAINT] = A_DIM;
    attributes[TOP_BAND] = A_REVERSE;
    attributes[TOP_SELECTED] = A_REVERSE | A_BOLD;
    attributes[TOP_GREEN] = attributes[TOP_BLUE] = A_NORMAL;
    attributes[TOP_YELLOW] = attributes[TOP_RED] = A_BOLD;
    if (!has_colour || !has_colors() || start_color() == ERR)
        return;
    (void)use_default_colors();
    static const struct {
        top_style style;
        short colour;
        int more;
    } colours[] = {
        {TOP_GREEN, COLOR_GREEN, A_NORMAL},
        {TOP_YELLOW, COLOR_YELLOW, A_NORMAL},
        {TOP_BLUE, COLOR_BLUE, A_NORMAL},
        {TOP_RED, COLOR_RED, A_BOLD},
    };
    for (short i = 0; i < (short)(sizeof colours / sizeof colours[0]); i++) {
        short pair = (short)(i + 1);
        if (init_pair(pair, colours[i].colour, -1) != ERR)
            attributes[colours[i].style] = (int)COLOR_PAIR(pair) | colours[i].more;
    }
}

/* Asks for an end are read, not acted upon. */
static bool catch_signals(void)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigaddset(&ends, SIGQUIT);
    if (sigprocmask(SIG_BLOCK, &ends, &inherited_mask) != 0)
        return false;
    signal_file = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    return signal_file >= 0;
}

static bool refuse(const char *command_name, const char *why)
{
    fprintf(stderr,
            "vramwise %s: the screen needs a terminal: %s\n"
            "'vramwise %s --once' writes one table instead.\n",
            command_name, why, command_name);
    return false;
}

bool top_screen_begin(top_screen *screen, const char *command_name)
{
    const terminal output = terminal_look();
    const char *kind = secure_getenv("TERM");
    char why[128];
    if (!output.is_terminal || !isatty(STDIN_FILENO))
        return refuse(command_name, output.is_terminal ? "standard input is not a terminal"
                                                       : "standard output is not a terminal");
    if (kind == NULL || kind[0] == '\0' || strcmp(kind, "dumb") == 0)
        return refuse(command_name,
                      kind == NULL || kind[0] == '\0' ? "TERM is not set" : "TERM is 'dumb'");
    top_crash_remember();
    curses_screen = newterm(NULL, stdout, stdin);
    if (curses_screen == NULL) {
        snprintf(why, sizeof why, "TERM is '%.40s', of which nothing is known here", kind);
        return refuse(command_name, why);
    }
    if (!catch_signals()) {
        snprintf(why, sizeof why, "signals cannot be read: %s", strerror(errno));
        top_screen_end();
        return refuse(command_name, why);
    }
    top_crash_watch();
    is_observed = true;
    (void)cbreak();
    (void)noecho();
    (void)nonl();
    (void)keypad(stdscr, TRUE);
    (void)nodelay(stdscr, TRUE);
    (void)curs_set(0);
    (void)set_escdelay(ESCAPE_DELAY_MS);
    choose_styles(output.has_colour);
    *screen = (top_screen){.has_utf8 = output.has_utf8};
    getmaxyx(stdscr, screen->lines, screen->columns);
    return true;
}

void top_screen_end(void)
{
    if (curses_screen == NULL)
        return;
    (void)endwin();
    if (is_observed)
        top_crash_forget();
    is_observed = false;
    delscreen(curses_screen);
    curses_screen = NULL;
    if (signal_file >= 0) {
        close(signal_file);
        (void)sigprocmask(SIG_SETMASK, &inherited_mask, NULL);
    }
    signal_file = -1;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static int read_key(top_screen *screen)
{
    int key = getch();
    if (key == KEY_RESIZE) {
        getmaxyx(stdscr, screen->lines, screen->columns);
        return TOP_KEY_NONE;
    }
    if (key == '\r' || key == KEY_ENTER)
        return TOP_KEY_ENTER;
    return key == ERR ? TOP_KEY_NONE : key;
}

int top_screen_key(top_screen *screen, int most_ms)
{
    struct pollfd files[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                             {.fd = signal_file, .events = POLLIN}};
    struct signalfd_siginfo news;
    int key = read_key(screen); /* one that curses has already, or another size */
    if (key != TOP_KEY_NONE)
        return key;
    (void)poll(files, 2, most_ms); /* EINTR is the signal of another size, which curses handles */
    if (read(signal_file, &news, sizeof news) == (ssize_t)sizeof news)
        screen->ended_by = (int)news.ssi_signo;
    else if ((files[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0)
        screen->ended_by = SIGHUP; /* the terminal is gone */
    return read_key(screen);
}

/* ---- drawing --------------------------------------------------------------------------------- */

void top_screen_clear(top_screen *screen)
{
    getmaxyx(stdscr, screen->lines, screen->columns);
    (void)erase();
}

void top_screen_show(top_screen *screen)
{
    (void)screen;
    (void)refresh();
}

int top_screen_put(const top_screen *screen, int line, int column, int width, top_style style,
                   const char *text)
{
    char shown[LONGEST_LINE_BYTES];
    if (line < 0 || line >= screen->lines || column < 0 || column >= screen->columns)
        return 0;
    if (width > screen->columns - column)
        width = screen->columns - column;
    if (width <= 0)
        return 0;
    size_t taken = vw_show_text(text, screen->has_utf8, (size_t)width, shown, sizeof shown);
    (void)attrset(attributes[style]);
    (void)mvaddstr(line, column, shown);
    (void)attrset(A_NORMAL);
    return (int)taken;
}

int top_screen_print(const top_screen *screen, int line, int column, int width, top_style style,
                     const char *format, ...)
{
    char text[LONGEST_LINE_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return top_screen_put(screen, line, column, width, style, text);
}

void top_screen_fill(const top_screen *screen, int line, top_style style)
{
    if (line < 0 || line >= screen->lines)
        return;
    (void)attrset(attributes[style]);
    (void)mvhline(line, 0, ' ', screen->columns);
    (void)attrset(A_NORMAL);
}
