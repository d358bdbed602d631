/* test_run_python.c - which command lines are Python's, and which of them keep us out. */
#include "cli/run_python.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka_here.h"

static void names_of_interpreters_are_known_whatever_the_folder(void **state)
{
    (void)state;
    assert_true(run_python_is_python("python"));
    assert_true(run_python_is_python("/usr/bin/python3"));
    assert_true(run_python_is_python("./venv/bin/python3.12"));
    assert_true(run_python_is_python("python3.13t"));
    assert_true(run_python_is_python("pypy3"));
    assert_false(run_python_is_python("python/train.sh"));
    assert_false(run_python_is_python("python-config"));
    assert_false(run_python_is_python("ipython"));
    assert_false(run_python_is_python("torchrun"));
    assert_false(run_python_is_python(""));
}

#define LOOK(...)                                                                                  \
    run_python_look_at_words(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),               \
                             (const char *[]){__VA_ARGS__})
#define CLOSED_BY(...) LOOK(__VA_ARGS__).closed_by

static void options_that_keep_us_out_are_seen_alone_and_among_others(void **state)
{
    (void)state;
    assert_int_equal(CLOSED_BY("python", "-I", "train.py"), 'I');
    assert_int_equal(CLOSED_BY("python", "-E", "train.py"), 'E');
    assert_int_equal(CLOSED_BY("python", "-S", "-m", "train"), 'S');
    assert_int_equal(CLOSED_BY("python", "-u", "-sE", "train.py"), 'E');
    assert_int_equal(CLOSED_BY("python", "-W", "error", "-X", "utf8", "-I"), 'I');
    assert_int_equal(CLOSED_BY("python", "-Xutf8", "-I"), 'I');
    assert_int_equal(CLOSED_BY("python", "--check-hash-based-pycs", "always", "-S"), 'S');
}

static void what_is_the_programs_own_is_not_taken_for_pythons(void **state)
{
    (void)state;
    assert_int_equal(CLOSED_BY("python", "train.py", "-I"), 0);
    assert_int_equal(CLOSED_BY("python", "-m", "train", "-S"), 0);
    assert_int_equal(CLOSED_BY("python", "-c", "-E"), 0);
    assert_int_equal(CLOSED_BY("python", "-mEngine"), 0);
    assert_int_equal(CLOSED_BY("python", "-", "-I"), 0);
    assert_int_equal(CLOSED_BY("python", "-W", "-I", "train.py"), 0);
    assert_int_equal(CLOSED_BY("python", "-WIgnore", "train.py"), 0);
    assert_int_equal(CLOSED_BY("sh", "-I"), 0);
    assert_int_equal(CLOSED_BY("python"), 0);
}

static void a_python_that_only_tells_about_itself_runs_no_program(void **state)
{
    (void)state;
    assert_false(LOOK("python", "--version").is_python);
    assert_false(LOOK("python", "-VV").is_python);
    assert_false(LOOK("python", "-I", "-h").is_python);
    assert_int_equal(CLOSED_BY("python", "-I", "-h"), 0);
    assert_false(LOOK("python", "--help-env").is_python);
    assert_true(LOOK("python", "train.py", "--version").is_python);
    assert_true(LOOK("python", "-c", "-V").is_python);
    assert_true(LOOK("python", "-X", "-V", "train.py").is_python);
    assert_true(LOOK("python").is_python);
    assert_false(LOOK("sh", "-c", "python").is_python);
}

/* ---- commands -------------------------------------------------------------------------------- */

typedef struct scripts {
    char folder[64];
    char path[128];
    char *path_before; /* the variable */
} scripts;

static int make_folder(void **state)
{
    static scripts made;
    strcpy(made.folder, "/tmp/run-python-XXXXXX");
    if (mkdtemp(made.folder) == NULL)
        return -1;
    made.path_before = getenv("PATH") != NULL ? strdup(getenv("PATH")) : NULL;
    snprintf(made.path, sizeof made.path, "%s/tool", made.folder);
    *state = &made;
    return 0;
}

static int remove_folder(void **state)
{
    scripts *made = *state;
    (void)unlink(made->path);
    if (made->path_before != NULL)
        setenv("PATH", made->path_before, 1);
    free(made->path_before);
    return rmdir(made->folder);
}

static void write_tool(const scripts *made, const char *text, mode_t mode)
{
    FILE *file = fopen(made->path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(made->path, mode), 0);
}

#define COMMAND(...) run_python_look_at_command((const char *[]){__VA_ARGS__, NULL})

/* What a script with that first line comes to. */
static run_python_look with_first_line(const scripts *made, const char *text)
{
    write_tool(made, text, 0700);
    return COMMAND(made->path, "-S", "train.py"); /* -S is the script's */
}

static void a_command_without_a_script_is_read_as_its_words(void **state)
{
    (void)state;
    assert_int_equal(COMMAND("python", "-I", "train.py").closed_by, 'I');
    assert_true(COMMAND("/nowhere/python3", "train.py").is_python);
    assert_false(COMMAND("/nowhere/tool", "-I").is_python);
    assert_false(COMMAND("no-such-program", "-I").is_python);
    assert_false(COMMAND("sh", "-c", "python -I").is_python);
    assert_false(run_python_look_at_command((const char *[]){NULL}).is_python);
}

static void a_scripts_first_line_is_read_as_the_kernel_reads_it(void **state)
{
    const scripts *made = *state;
    assert_int_equal(with_first_line(made, "#!/usr/bin/python3 -I\nprint(1)\n").closed_by, 'I');
    assert_int_equal(with_first_line(made, "#! \t/a/python3.12 \t -sE \t\n").closed_by, 'E');
    assert_int_equal(with_first_line(made, "#!python -S").closed_by, 'S'); /* no end of line */
    assert_true(with_first_line(made, "#!/usr/bin/python3\n").is_python);
    assert_int_equal(with_first_line(made, "#!/usr/bin/python3\n").closed_by, 0);
    /* All of it is one argument: -X, and its value. */
    assert_int_equal(with_first_line(made, "#!/usr/bin/python3 -X utf8 -I\n").closed_by, 0);
    assert_false(with_first_line(made, "#!/bin/sh -I\n").is_python);
    assert_false(with_first_line(made, "#!/usr/bin/python3\r\n").is_python);
    assert_false(with_first_line(made, "#!\n").is_python);
    assert_false(with_first_line(made, "#! ").is_python);
    assert_false(with_first_line(made, "# /usr/bin/python3 -I\n").is_python);
    assert_false(with_first_line(made, "").is_python);
}

static void a_first_line_longer_than_the_kernel_reads_is_cut_off_where_it_does(void **state)
{
    const scripts *made = *state;
    char line[600] = "#!/usr/bin/python3 ";
    memset(line + strlen(line), ' ', 252 - strlen(line));
    strcpy(line + 252, "-sIE\n"); /* 255 bytes count */
    assert_int_equal(with_first_line(made, line).closed_by, 'I');
    strcpy(line + 252, " -sI\n");
    assert_int_equal(with_first_line(made, line).closed_by, 0);
    assert_true(with_first_line(made, line).is_python);
    memset(line + 2, 'x', 300);
    strcpy(line + 302, "/python3 -I\n");
    assert_false(with_first_line(made, line).is_python); /* half a name */
}

static void env_is_followed_in_a_first_line_and_on_the_command_line(void **state)
{
    const scripts *made = *state;
    run_python_look plain = with_first_line(made, "#!/usr/bin/env python3\n");
    assert_true(plain.is_python);
    assert_int_equal(plain.closed_by, 0);
    assert_int_equal(with_first_line(made, "#!/usr/bin/env -S python3 -I\n").closed_by, 'I');
    assert_int_equal(with_first_line(made, "#!/usr/bin/env -vS -u A B=1 python -E\n").closed_by,
                     'E');
    assert_int_equal(with_first_line(made, "#!/usr/bin/env --split-string=python3 -S\n").closed_by,
                     'S');
    assert_false(with_first_line(made, "#!/usr/bin/env python3 -I\n").is_python); /* one name */
    assert_false(with_first_line(made, "#!/usr/bin/env -S 'python3' -I\n").is_python);

    assert_int_equal(COMMAND("env", "-u", "A", "B=1", "python", "-I", "x.py").closed_by, 'I');
    assert_int_equal(COMMAND("env", "-i", "-C/", "--", "C=", "python", "-E").closed_by, 'E');
    assert_int_equal(COMMAND("env", "--unset=A", "--chdir", "/", "python", "-S").closed_by, 'S');
    assert_int_equal(COMMAND("env", "-", "env", "python", "-I").closed_by, 'I');
    assert_int_equal(COMMAND("env", "-S", "python -I", "x.py").closed_by, 'I');
    assert_true(COMMAND("env", "-u", "PYTHONPATH", "python", "x.py").is_python);
    assert_false(COMMAND("env", "-u", "python").is_python);
    assert_false(COMMAND("env", "-u").is_python);
    assert_false(COMMAND("env", "--no-such", "python", "-I").is_python);
    assert_false(COMMAND("env", "-Z", "python", "-I").is_python);
    assert_false(COMMAND("env").is_python);
    assert_false(COMMAND("env", "A=1").is_python);
}

static void a_script_is_found_in_the_folders_of_path(void **state)
{
    const scripts *made = *state;
    char folders[128];
    write_tool(made, "#!/usr/bin/python3 -I\n", 0700);
    snprintf(folders, sizeof folders, "/nowhere::%s", made->folder);
    setenv("PATH", folders, 1);
    assert_int_equal(COMMAND("tool").closed_by, 'I');
    assert_int_equal(COMMAND("env", "tool").closed_by, 'I');
    setenv("PATH", "/nowhere", 1);
    assert_false(COMMAND("tool").is_python);
    unsetenv("PATH");
    assert_false(COMMAND("tool").is_python);
    assert_false(COMMAND("sh").is_python); /* found, and no script */
}

static void what_cannot_be_started_is_not_read(void **state)
{
    const scripts *made = *state;
    write_tool(made, "#!/usr/bin/python3 -I\n", 0600);
    assert_false(COMMAND(made->path).is_python);
    assert_false(COMMAND(made->folder).is_python);
    assert_int_equal(unlink(made->path), 0);
    assert_int_equal(mkfifo(made->path, 0700), 0); /* opening it would wait for a writer */
    assert_false(COMMAND(made->path).is_python);
}

static void scripts_of_scripts_come_to_an_end(void **state)
{
    const scripts *made = *state;
    char line[256];
    snprintf(line, sizeof line, "#!%s\n", made->path); /* itself */
    assert_false(with_first_line(made, line).is_python);
    snprintf(line, sizeof line, "#!/usr/bin/env -S %s a b c d e f g\n", made->path);
    assert_false(with_first_line(made, line).is_python);
}

static void of_a_command_line_without_end_the_beginning_counts(void **state)
{
    (void)state;
    const char *words[1000] = {"env", "A=1", "python", "-I"};
    for (size_t i = 4; i < 999; i++)
        words[i] = "-E";
    assert_int_equal(run_python_look_at_command(words).closed_by, 'I');
}

/* ---- processes ------------------------------------------------------------------------------- */

static void a_process_is_looked_at_by_its_command_line(void **state)
{
    (void)state;
    run_python_look look = {.is_python = true, .closed_by = 'I'};
    assert_true(run_python_look_at_process(getpid(), &look));
    assert_false(look.is_python); /* this test */
    assert_int_equal(look.closed_by, 0);
    look.closed_by = 'E';
    assert_false(run_python_look_at_process(-1, &look));
    assert_int_equal(look.closed_by, 'E'); /* untouched */
}

#define in_a_folder(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_interpreters_are_known_whatever_the_folder),
        cmocka_unit_test(options_that_keep_us_out_are_seen_alone_and_among_others),
        cmocka_unit_test(what_is_the_programs_own_is_not_taken_for_pythons),
        cmocka_unit_test(a_python_that_only_tells_about_itself_runs_no_program),
        cmocka_unit_test(a_command_without_a_script_is_read_as_its_words),
        in_a_folder(a_scripts_first_line_is_read_as_the_kernel_reads_it),
        in_a_folder(a_first_line_longer_than_the_kernel_reads_is_cut_off_where_it_does),
        in_a_folder(env_is_followed_in_a_first_line_and_on_the_command_line),
        in_a_folder(a_script_is_found_in_the_folders_of_path),
        in_a_folder(what_cannot_be_started_is_not_read),
        in_a_folder(scripts_of_scripts_come_to_an_end),
        cmocka_unit_test(of_a_command_line_without_end_the_beginning_counts),
        cmocka_unit_test(a_process_is_looked_at_by_its_command_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
