/* test_view_file.c - what a page is called, and what may be where it goes. */
#include "cli/view_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka_here.h"

static void assert_name(const char *path, const char *other_path, const char *expected)
{
    char name[PATH_MAX];
    assert_true(view_file_name(path, other_path, name));
    assert_string_equal(name, expected);
}

static void pages_are_called_after_their_recordings(void **state)
{
    (void)state;
    assert_name("run.pickle", NULL, "run.pickle.html");
    assert_name("./a/run.pickle.xz", NULL, "./a/run.pickle.xz.html");
    assert_name("/run", NULL, "/run.html");
    assert_name("-", NULL, "vramwise-view.html");
    assert_name("./-", NULL, "./-.html");
    assert_name("a.pickle", "b.pickle", "a.pickle.vs.b.pickle.html");
    assert_name("x/a", "y/z/b", "x/a.vs.b.html");
    assert_name("/a", "/b", "/a.vs.b.html");
    assert_name("x/a", "-", "x/a.vs.stdin.html");
    assert_name("-", "y/b", "stdin.vs.b.html");
}

static void a_name_that_is_too_long_is_none(void **state)
{
    (void)state;
    char path[PATH_MAX], name[PATH_MAX];
    memset(path, 'a', sizeof path);
    path[PATH_MAX - 6] = '\0';
    assert_true(view_file_name(path, NULL, name));
    assert_int_equal(strlen(name), PATH_MAX - 1);
    assert_false(view_file_name(path, "b", name));
    path[PATH_MAX - 6] = 'a';
    path[PATH_MAX - 5] = '\0';
    assert_false(view_file_name(path, NULL, name));
}

/* ---- in a folder of its own ------------------------------------------------------------------ */

static char folder[64], old_folder[PATH_MAX];

static int enter_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/vramwise-view-file.XXXXXX");
    return getcwd(old_folder, sizeof old_folder) != NULL && mkdtemp(folder) != NULL &&
                   chdir(folder) == 0
               ? 0
               : -1;
}

static int leave_folder(void **state)
{
    static const char *const names[] = {"page", "late", "notes", "run", "link", "pipe", "nowhere"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unlink(names[i]);
    (void)rmdir("sub");
    return chdir(old_folder) == 0 && rmdir(folder) == 0 ? 0 : -1;
}

static void put(const char *name, size_t filler_bytes, const char *text)
{
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    for (size_t i = 0; i < filler_bytes; i++)
        fputc(' ', file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void what_is_in_a_pages_place_is_seen(void **state)
{
    (void)state;
    const char marked[] = "<!doctype html>\n" VIEW_PAGE_MARKER " 0.2.0\">";
    put("page", 0, marked);
    put("late", 100000, marked); /* not in its head: somebody's page about pages */
    put("notes", 0, "<html>");
    put("run", 0, "pickle");
    assert_int_equal(symlink("page", "link"), 0);
    assert_int_equal(symlink("gone", "nowhere"), 0);
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(mkdir("sub", 0700), 0);
    assert_int_equal(view_file_look("new", "run", NULL), VIEW_PLACE_FREE);
    assert_int_equal(view_file_look("sub/new", "run", NULL), VIEW_PLACE_FREE);
    assert_int_equal(view_file_look("nowhere", "run", NULL), VIEW_PLACE_FREE);
    assert_int_equal(view_file_look("page", "run", NULL), VIEW_PLACE_PAGE);
    assert_int_equal(view_file_look("link", "run", NULL), VIEW_PLACE_PAGE);
    assert_int_equal(view_file_look("late", "run", NULL), VIEW_PLACE_FILE);
    assert_int_equal(view_file_look("notes", "-", NULL), VIEW_PLACE_FILE);
    assert_int_equal(view_file_look("pipe", "run", NULL), VIEW_PLACE_STREAM);
    assert_int_equal(view_file_look("/dev/null", "run", NULL), VIEW_PLACE_STREAM);
    assert_int_equal(view_file_look("sub", "run", NULL), VIEW_PLACE_FOLDER);
    assert_int_equal(view_file_look("./run", "run", NULL), VIEW_PLACE_RECORDING);
    assert_int_equal(view_file_look("page", "run", "link"), VIEW_PLACE_RECORDING);
    assert_int_equal(view_file_look("gone/new", "run", NULL), VIEW_PLACE_UNKNOWN);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(view_file_look("run/new", "run", NULL), VIEW_PLACE_UNKNOWN);
    assert_int_equal(errno, ENOTDIR);
}

static void a_file_that_took_the_place_of_a_stream_is_not_written_to(void **state)
{
    (void)state;
    char text[16] = "";
    uint64_t size_bytes = 0;
    put("notes", 0, "<html>");
    assert_false(view_file_write(NULL, "notes", VIEW_PLACE_STREAM, true, &size_bytes));
    assert_int_equal(errno, EEXIST);
    FILE *file = fopen("notes", "rb");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof text, file), strlen("<html>"));
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, "<html>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_called_after_their_recordings),
        cmocka_unit_test(a_name_that_is_too_long_is_none),
        cmocka_unit_test_setup_teardown(what_is_in_a_pages_place_is_seen, enter_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(a_file_that_took_the_place_of_a_stream_is_not_written_to,
                                        enter_folder, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
