/* test_fork_guard.c - a child of fork() is told from its parent, and a grandchild from both. */
#include "base/fork_guard.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_here.h"

/* What a child that runs `body` exits with. */
static int exit_of_child(int (*body)(uint32_t parents), uint32_t parents)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(body(parents));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int is_one_more(uint32_t parents)
{
    return vw__fork_generation() == parents + 1;
}

static int has_a_child_of_its_own(uint32_t parents)
{
    uint32_t own = vw__fork_generation();
    return own == parents + 1 && exit_of_child(is_one_more, own) == 1 &&
           vw__fork_generation() == own;
}

static void a_child_counts_one_more_and_its_parent_does_not(void **state)
{
    (void)state;
    vw__fork_guard_start();
    uint32_t before = vw__fork_generation();
    assert_int_equal(exit_of_child(is_one_more, before), 1);
    assert_int_equal(vw__fork_generation(), before);
}

static void a_grandchild_counts_two_more(void **state)
{
    (void)state;
    vw__fork_guard_start();
    assert_int_equal(exit_of_child(has_a_child_of_its_own, vw__fork_generation()), 1);
}

/* A second handler would count each fork twice. */
static void starting_again_changes_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++)
        vw__fork_guard_start();
    assert_int_equal(exit_of_child(is_one_more, vw__fork_generation()), 1);
}

static void *start_guard(void *context)
{
    (void)context;
    vw__fork_guard_start();
    return NULL;
}

static void threads_may_start_it_together(void **state)
{
    (void)state;
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, start_guard, NULL), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(exit_of_child(is_one_more, vw__fork_generation()), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_may_start_it_together), /* first: they race for the very start */
        cmocka_unit_test(a_child_counts_one_more_and_its_parent_does_not),
        cmocka_unit_test(a_grandchild_counts_two_more),
        cmocka_unit_test(starting_again_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
