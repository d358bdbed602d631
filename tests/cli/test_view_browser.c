/* test_view_browser.c - where a browser is opened, and which. */
#include "cli/view_browser.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka_here.h"

static void a_browser_needs_a_terminal_and_a_display(void **state)
{
    (void)state;
    unsetenv("DISPLAY");
    unsetenv("WAYLAND_DISPLAY");
    assert_false(view_browser_has_viewer(true));
    setenv("DISPLAY", "", 1);
    assert_false(view_browser_has_viewer(true));
    setenv("DISPLAY", ":0", 1);
    assert_true(view_browser_has_viewer(true));
    assert_false(view_browser_has_viewer(false));
    unsetenv("DISPLAY");
    setenv("WAYLAND_DISPLAY", "wayland-0", 1);
    assert_true(view_browser_has_viewer(true));
    unsetenv("WAYLAND_DISPLAY");
}

/* A browser that writes what it was given into a pipe: reading waits for it, however long. */
static void the_browser_gets_the_page(void **state)
{
    (void)state;
    char folder[] = "/tmp/vramwise-browser.XXXXXX", script[PATH_MAX], pipe_name[PATH_MAX];
    char line[PATH_MAX] = "";
    assert_non_null(mkdtemp(folder));
    (void)snprintf(script, sizeof script, "%s/browser", folder);
    (void)snprintf(pipe_name, sizeof pipe_name, "%s/pipe", folder);
    assert_int_equal(mkfifo(pipe_name, 0600), 0);
    FILE *file = fopen(script, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\necho \"$1\" > %s\n", pipe_name);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(script, 0700), 0);
    setenv("BROWSER", script, 1);
    view_browser_open("a page; with 'odd' $letters");
    FILE *reader = fopen(pipe_name, "r");
    assert_non_null(reader);
    assert_non_null(fgets(line, sizeof line, reader));
    fclose(reader);
    assert_string_equal(line, "a page; with 'odd' $letters\n");
    unlink(script);
    unlink(pipe_name);
    rmdir(folder);
}

static void no_browser_is_no_failure(void **state)
{
    (void)state;
    setenv("BROWSER", "/nonexistent/browser", 1);
    view_browser_open("page.html");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_browser_needs_a_terminal_and_a_display),
        cmocka_unit_test(the_browser_gets_the_page),
        cmocka_unit_test(no_browser_is_no_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
