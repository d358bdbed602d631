/* test_terminal.c - what the program believes about its output, on a terminal of our own making.
 *
 * Standard output is put on a pseudo-terminal, or on a pipe, for the length of one look. */
#include "cli/terminal.h"

#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "support/cmocka_here.h"

/* What terminal_look() says with standard output on `file`. */
static terminal look_at(int file)
{
    int real_output = dup(STDOUT_FILENO);
    assert_true(real_output >= 0);
    assert_true(dup2(file, STDOUT_FILENO) >= 0);
    terminal result = terminal_look();
    assert_true(dup2(real_output, STDOUT_FILENO) >= 0);
    close(real_output);
    return result;
}

/* The same on a terminal whose window is `columns` wide (0: it does not say). */
static terminal look_at_a_window(unsigned short columns)
{
    struct winsize window = {.ws_row = 24, .ws_col = columns};
    int keyboard = posix_openpt(O_RDWR | O_NOCTTY);
    if (keyboard < 0) {
        print_message("no pseudo-terminals here (a bare chroot?), so nothing to look at\n");
        skip();
    }
    assert_int_equal(grantpt(keyboard), 0);
    assert_int_equal(unlockpt(keyboard), 0);
    int screen = open(ptsname(keyboard), O_RDWR | O_NOCTTY);
    assert_true(screen >= 0);
    assert_int_equal(ioctl(screen, TIOCSWINSZ, &window), 0);
    terminal result = look_at(screen);
    close(screen);
    close(keyboard);
    return result;
}

static int start_from_a_plain_environment(void **state)
{
    (void)state;
    unsetenv("NO_COLOR");
    unsetenv("COLUMNS");
    setenv("TERM", "xterm", 1);
    return 0;
}

static void a_terminal_has_colour_and_its_window_s_width(void **state)
{
    (void)state;
    terminal output = look_at_a_window(133);
    assert_true(output.is_terminal);
    assert_true(output.has_colour);
    assert_int_equal(output.width_columns, 133);
    assert_string_equal(terminal_style_code(&output, TERMINAL_RED), "\033[31m");
    assert_string_equal(terminal_style_code(&output, TERMINAL_PLAIN), "\033[0m");
}

static void a_pipe_has_no_colour_and_80_columns(void **state)
{
    int ends[2];
    (void)state;
    setenv("COLUMNS", "133", 1);
    assert_int_equal(pipe(ends), 0);
    terminal output = look_at(ends[1]);
    close(ends[0]);
    close(ends[1]);
    assert_false(output.is_terminal);
    assert_false(output.has_colour);
    assert_int_equal(output.width_columns, 80);
    assert_string_equal(terminal_style_code(&output, TERMINAL_RED), "");
}

static void no_color_takes_the_colour_unless_it_is_empty(void **state)
{
    (void)state;
    setenv("NO_COLOR", "1", 1);
    assert_false(look_at_a_window(80).has_colour);
    setenv("NO_COLOR", "", 1);
    assert_true(look_at_a_window(80).has_colour);
}

static void a_dumb_or_unnamed_terminal_has_no_colour(void **state)
{
    (void)state;
    setenv("TERM", "dumb", 1);
    assert_false(look_at_a_window(80).has_colour);
    unsetenv("TERM");
    assert_false(look_at_a_window(80).has_colour);
}

static void a_window_that_does_not_say_is_as_wide_as_columns_says_or_80(void **state)
{
    (void)state;
    assert_int_equal(look_at_a_window(0).width_columns, 80);
    setenv("COLUMNS", "133", 1);
    assert_int_equal(look_at_a_window(0).width_columns, 133);
    assert_int_equal(look_at_a_window(90).width_columns, 90);
    setenv("COLUMNS", "wide", 1);
    assert_int_equal(look_at_a_window(0).width_columns, 80);
    setenv("COLUMNS", "-1", 1);
    assert_int_equal(look_at_a_window(0).width_columns, 80);
}

static void utf8_is_the_locale_s_to_say(void **state)
{
    (void)state;
    assert_non_null(setlocale(LC_CTYPE, "C"));
    assert_false(look_at_a_window(80).has_utf8);
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) {
        print_message("no C.UTF-8 locale here: the other half is not tested\n");
        return;
    }
    assert_true(look_at_a_window(80).has_utf8);
    setlocale(LC_CTYPE, "C");
}

#define WITH_PLAIN_ENVIRONMENT(test) cmocka_unit_test_setup(test, start_from_a_plain_environment)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PLAIN_ENVIRONMENT(a_terminal_has_colour_and_its_window_s_width),
        WITH_PLAIN_ENVIRONMENT(a_pipe_has_no_colour_and_80_columns),
        WITH_PLAIN_ENVIRONMENT(no_color_takes_the_colour_unless_it_is_empty),
        WITH_PLAIN_ENVIRONMENT(a_dumb_or_unnamed_terminal_has_no_colour),
        WITH_PLAIN_ENVIRONMENT(a_window_that_does_not_say_is_as_wide_as_columns_says_or_80),
        WITH_PLAIN_ENVIRONMENT(utf8_is_the_locale_s_to_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
