/* top_crash.c - see top_crash.h. A file of its own: curses' names of what terminals can do are
 * words as plain as `lines`. */
#include "top_crash.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <curses.h>
#include <term.h> /* tigetstr */

enum { CRASH_COUNT = 5 };
static const int crashes[CRASH_COUNT] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static struct sigaction inherited_actions[CRASH_COUNT];

static struct termios settings;
static bool has_settings;
static char letters[256];
static size_t letter_count;

static void restore(int number)
{
    if (has_settings)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &settings);
    ssize_t ignored = write(STDOUT_FILENO, letters, letter_count);
    (void)ignored;
    top_crash_forget();
    (void)raise(number);
}

void top_crash_remember(void)
{
    has_settings = tcgetattr(STDIN_FILENO, &settings) == 0;
}

/* What ends all styles, shows the cursor and leaves the screen, as this terminal wants it. */
static void prepare_letters(void)
{
    static char names[][8] = {"sgr0", "cnorm", "rmkx", "rmcup"};
    letter_count = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *found = tigetstr(names[i]);
        if (found == NULL || found == (const char *)-1 ||
            strlen(found) >= sizeof letters - letter_count)
            continue;
        memcpy(letters + letter_count, found, strlen(found));
        letter_count += strlen(found);
    }
}

void top_crash_watch(void)
{
    struct sigaction action = {.sa_handler = restore};
    sigemptyset(&action.sa_mask);
    prepare_letters();
    for (size_t i = 0; i < CRASH_COUNT; i++)
        (void)sigaction(crashes[i], &action, &inherited_actions[i]);
}

void top_crash_forget(void)
{
    for (size_t i = 0; i < CRASH_COUNT; i++)
        (void)sigaction(crashes[i], &inherited_actions[i], NULL);
}
