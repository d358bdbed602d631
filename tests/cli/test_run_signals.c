/* test_run_signals.c - a signal reaches the job once, however slow the witness is. */
#include "cli/run_signals.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_here.h"

/* Signals as `vramwise run` reads them, and a job that waits to be ended by one. */
typedef struct scene {
    run_signals signals;
    pid_t job;
} scene;

static void begin(scene *made)
{
    assert_true(run_signals_begin(&made->signals));
    assert_true(made->signals.witness > 0);
    made->job = fork();
    assert_true(made->job >= 0);
    if (made->job == 0) {
        run_signals_restore(&made->signals);
        for (;;)
            pause();
    }
}

/* The signal that has ended the job. */
static int end(scene *made)
{
    int status = 0;
    assert_int_equal(waitpid(made->job, &status, 0), made->job);
    run_signals_end(&made->signals);
    sigprocmask(SIG_SETMASK, &made->signals.inherited_mask, NULL);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* The witness does not run from here on, as on a machine that has no time for it. */
static void stop_witness(const scene *made)
{
    int status = 0;
    assert_int_equal(kill(made->signals.witness, SIGSTOP), 0);
    assert_int_equal(waitpid(made->signals.witness, &status, WUNTRACED), made->signals.witness);
    assert_true(WIFSTOPPED(status));
}

static void wait_ms(int duration_ms)
{
    if (duration_ms > 0)
        (void)poll(NULL, 0, duration_ms);
}

/* Until nothing is due any more. */
static void pass_everything_on(scene *made)
{
    int next_ms;
    while ((next_ms = run_signals_pass_on(&made->signals, made->job)) >= 0) {
        wait_ms(next_ms);
        (void)run_signals_read(&made->signals);
    }
}

static void what_was_sent_to_us_alone_is_passed_on(void **state)
{
    scene made;
    (void)state;
    begin(&made);
    kill(getpid(), SIGUSR1);
    assert_false(run_signals_read(&made.signals).is_asked_to_end);
    pass_everything_on(&made);
    assert_int_equal(end(&made), SIGUSR1);
}

static void what_a_slow_witness_has_as_well_is_not_passed_on(void **state)
{
    scene made;
    (void)state;
    begin(&made);
    stop_witness(&made);
    kill(getpid(), SIGTERM);
    kill(made.signals.witness, SIGTERM);
    assert_true(run_signals_read(&made.signals).is_asked_to_end);
    for (int i = 0; i < 3; i++) { /* it is due, and due again */
        int next_ms = run_signals_pass_on(&made.signals, made.job);
        assert_true(next_ms > 0);
        wait_ms(next_ms);
    }
    kill(made.signals.witness, SIGCONT);
    pass_everything_on(&made);
    kill(made.job, SIGUSR2); /* nothing has ended it before */
    assert_int_equal(end(&made), SIGUSR2);
}

static void what_the_witness_has_first_is_not_passed_on_however_late_we_are(void **state)
{
    scene made;
    (void)state;
    begin(&made);
    struct pollfd door = {.fd = made.signals.witness_pipe, .events = POLLIN};
    kill(made.signals.witness, SIGTERM);
    assert_int_equal(poll(&door, 1, -1), 1);
    (void)run_signals_read(&made.signals); /* the witness has told, and we have nothing yet */
    kill(getpid(), SIGTERM);
    wait_ms(200); /* we are not let run */
    assert_true(run_signals_read(&made.signals).is_asked_to_end);
    assert_int_equal(run_signals_pass_on(&made.signals, made.job), -1);
    kill(made.job, SIGUSR2);
    assert_int_equal(end(&made), SIGUSR2);
}

static void a_witness_that_saw_something_long_ago_swallows_nothing(void **state)
{
    scene made;
    (void)state;
    begin(&made);
    struct pollfd door = {.fd = made.signals.witness_pipe, .events = POLLIN};
    kill(made.signals.witness, SIGUSR1);
    assert_int_equal(poll(&door, 1, -1), 1);
    (void)run_signals_read(&made.signals);
    pass_everything_on(&made); /* wakes when that is past, and looks */
    kill(getpid(), SIGUSR1);
    (void)run_signals_read(&made.signals);
    pass_everything_on(&made);
    assert_int_equal(end(&made), SIGUSR1);
}

static void without_a_witness_everything_is_passed_on(void **state)
{
    scene made;
    (void)state;
    begin(&made);
    kill(made.signals.witness, SIGKILL);
    assert_int_equal(waitpid(made.signals.witness, NULL, 0), made.signals.witness);
    (void)run_signals_read(&made.signals); /* its end of the pipe is closed */
    assert_int_equal(made.signals.witness, -1);
    kill(getpid(), SIGUSR1);
    (void)run_signals_read(&made.signals);
    pass_everything_on(&made);
    assert_int_equal(end(&made), SIGUSR1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_sent_to_us_alone_is_passed_on),
        cmocka_unit_test(what_a_slow_witness_has_as_well_is_not_passed_on),
        cmocka_unit_test(what_the_witness_has_first_is_not_passed_on_however_late_we_are),
        cmocka_unit_test(a_witness_that_saw_something_long_ago_swallows_nothing),
        cmocka_unit_test(without_a_witness_everything_is_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
