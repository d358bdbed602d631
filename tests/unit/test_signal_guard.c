/* test_signal_guard.c - the promises of base/signal_guard.h. */
#include "base/signal_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_here.h"

/* How a child that runs `work` has ended, as wait() has it. */
static int end_of_child(int (*work)(void))
{
    int ended = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(work());
    assert_int_equal(waitpid(child, &ended, 0), child);
    return ended;
}

static int file_that_may_not_grow(void)
{
    const struct rlimit limit = {4, 4};
    char name[] = "/tmp/vw-signal-guard-XXXXXX";
    int file = mkstemp(name);
    (void)unlink(name);
    return setrlimit(RLIMIT_FSIZE, &limit) == 0 ? file : -1;
}

static int pipe_without_reader(void)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    close(ends[0]);
    return ends[1];
}

static int write_too_much(void)
{
    int file = file_that_may_not_grow();
    if (vw__signal_guard_write(file, "12345", 5) != 4)
        return 1;
    if (vw__signal_guard_write(file, "5", 1) != -1 || errno != EFBIG)
        return 2;
    return vw__signal_guard_write_at(file, "5", 1, 4) == -1 && errno == EFBIG ? 0 : 3;
}

static void a_file_that_may_not_grow_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(end_of_child(write_too_much), 0);
}

static int write_to_nobody(void)
{
    int file = pipe_without_reader();
    return vw__signal_guard_write(file, "1", 1) == -1 && errno == EPIPE ? 0 : 1;
}

static void a_pipe_without_a_reader_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(end_of_child(write_to_nobody), 0);
}

static void *read_a_little(void *end)
{
    char byte;
    usleep(1000); /* most often the write has begun */
    (void)!read(*(int *)end, &byte, 1);
    close(*(int *)end);
    return NULL;
}

/* What was written by then counts, and the signal comes all the same. */
static int write_while_the_reader_goes(void)
{
    static char bytes[1 << 20];
    for (int i = 0; i < 20; i++) {
        int ends[2];
        pthread_t reader;
        if (pipe(ends) != 0 || pthread_create(&reader, NULL, read_a_little, &ends[0]) != 0)
            return 1;
        ssize_t written = vw__signal_guard_write(ends[1], bytes, sizeof bytes);
        pthread_join(reader, NULL);
        close(ends[1]);
        if (written >= (ssize_t)sizeof bytes)
            return 2;
    }
    return 0;
}

static void a_reader_that_goes_in_the_middle_raises_no_signal(void **state)
{
    (void)state;
    assert_int_equal(end_of_child(write_while_the_reader_goes), 0);
}

static bool is_pending(int number)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, number) == 1;
}

/* The program holds SIGPIPE back, and has one: it must find that one later. */
static int write_while_one_waits(void)
{
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &held, NULL);
    if (write_to_nobody() != 0 || is_pending(SIGPIPE))
        return 1;
    raise(SIGPIPE);
    return write_to_nobody() == 0 && is_pending(SIGPIPE) ? 0 : 2;
}

static void a_signal_that_waited_before_is_left_to_the_program(void **state)
{
    (void)state;
    assert_int_equal(end_of_child(write_while_one_waits), 0);
}

static int fail_otherwise(void)
{
    vw__signal_guard guard;
    vw__signal_guard_begin(&guard, VW__SIGNAL_GUARD_RAISED);
    raise(SIGPIPE);
    vw__signal_guard_end(&guard, EIO);
    return 0;
}

static void a_signal_that_no_write_has_raised_comes_afterwards(void **state)
{
    (void)state;
    int ended = end_of_child(fail_otherwise);
    assert_true(WIFSIGNALED(ended));
    assert_int_equal(WTERMSIG(ended), SIGPIPE);
}

static void the_mask_is_as_before_and_errno_too(void **state)
{
    (void)state;
    static const vw__signal_guard_scope scopes[] = {VW__SIGNAL_GUARD_RAISED,
                                                    VW__SIGNAL_GUARD_EVERY};
    for (int i = 0; i < 2; i++) {
        sigset_t before, during, after;
        vw__signal_guard guard;
        pthread_sigmask(SIG_SETMASK, NULL, &before);
        vw__signal_guard_begin(&guard, scopes[i]);
        pthread_sigmask(SIG_SETMASK, NULL, &during);
        errno = ENOSPC;
        vw__signal_guard_end(&guard, ENOSPC);
        assert_int_equal(errno, ENOSPC);
        pthread_sigmask(SIG_SETMASK, NULL, &after);
        assert_true(sigismember(&during, SIGXFSZ) && sigismember(&during, SIGPIPE));
        assert_int_equal(sigismember(&during, SIGINT), i);
        for (int number = 1; number < SIGRTMIN; number++)
            assert_int_equal(sigismember(&before, number), sigismember(&after, number));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_may_not_grow_is_an_error),
        cmocka_unit_test(a_pipe_without_a_reader_is_an_error),
        cmocka_unit_test(a_reader_that_goes_in_the_middle_raises_no_signal),
        cmocka_unit_test(a_signal_that_waited_before_is_left_to_the_program),
        cmocka_unit_test(a_signal_that_no_write_has_raised_comes_afterwards),
        cmocka_unit_test(the_mask_is_as_before_and_errno_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
