/* test_process_read.c - what /proc tells, of children that are started as a test wants them. */
#include "watch/machine_join.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_here.h"

/* A child that waits on a pipe until it is ended; it has been exec'ed when this returns. */
static pid_t start(char *const environment[], int *hold)
{
    int pipes[2], started[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(pipe(started), 0);
    pid_t child = fork();
    if (child == 0) {
        char *const arguments[] = {"/bin/cat", "-", "\033[2J", NULL};
        (void)dup2(pipes[0], 0);
        (void)dup2(started[1], 1);
        close(2); /* it complains of its last argument, at the end */
        close(pipes[1]);
        close(started[0]);
        execve("/bin/cat", arguments, environment);
        _exit(127);
    }
    close(pipes[0]);
    close(started[1]);
    char letter = 'x';
    assert_int_equal(write(pipes[1], &letter, 1), 1); /* what comes back comes from cat itself */
    assert_int_equal(read(started[0], &letter, 1), 1);
    close(started[0]);
    *hold = pipes[1];
    return child;
}

static void end(pid_t child, int hold)
{
    close(hold);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void a_command_is_without_its_folder_and_keeps_its_arguments(void **state)
{
    char command[VW_JOB_TEXT_BYTES];
    char *const environment[] = {NULL};
    int hold;
    (void)state;
    pid_t child = start(environment, &hold);
    vw__watch_process_command(child, command);
    assert_string_equal(command, "cat - \033[2J");
    end(child, hold);
}

static void the_environment_tells_which_gpus_are_seen(void **state)
{
    vw__watch_job_environment found;
    char long_one[9000];
    int hold;
    (void)state;
    memset(long_one, 'x', sizeof long_one - 1);
    long_one[sizeof long_one - 1] = '\0';
    char *const environment[] = {"NOT_CUDA_VISIBLE_DEVICES=9", long_one,
                                 "CUDA_VISIBLE_DEVICES=1,GPU-2", "CUDA_DEVICE_ORDER=PCI_BUS_ID",
                                 NULL};
    pid_t child = start(environment, &hold);
    vw__watch_process_environment(child, &found);
    assert_true(found.is_known && found.has_visible && found.is_by_bus);
    assert_string_equal(found.visible, "1,GPU-2");
    end(child, hold);
}

static void a_variable_that_is_empty_is_set_and_one_that_is_not_there_is_not(void **state)
{
    vw__watch_job_environment found;
    char *const empty[] = {"CUDA_VISIBLE_DEVICES=", NULL};
    char *const other[] = {"CUDA_DEVICE_ORDER=FASTEST_FIRST", NULL};
    int hold;
    (void)state;
    pid_t child = start(empty, &hold);
    vw__watch_process_environment(child, &found);
    assert_true(found.is_known && found.has_visible && !found.is_by_bus);
    assert_string_equal(found.visible, "");
    end(child, hold);
    child = start(other, &hold);
    vw__watch_process_environment(child, &found);
    assert_true(found.is_known && !found.has_visible && !found.is_by_bus);
    end(child, hold);
}

static void of_a_process_that_is_gone_nothing_is_known(void **state)
{
    char command[VW_JOB_TEXT_BYTES] = "before";
    vw__watch_job_environment found = {.is_known = true};
    (void)state;
    vw__watch_process_command(-1, command);
    assert_string_equal(command, "");
    vw__watch_process_environment(-1, &found);
    assert_false(found.is_known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_is_without_its_folder_and_keeps_its_arguments),
        cmocka_unit_test(the_environment_tells_which_gpus_are_seen),
        cmocka_unit_test(a_variable_that_is_empty_is_set_and_one_that_is_not_there_is_not),
        cmocka_unit_test(of_a_process_that_is_gone_nothing_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
