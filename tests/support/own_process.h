/* own_process.h - a group of tests in a process of its own, for what is loaded once in the life of
 * a process. */
#ifndef VW_TESTS_OWN_PROCESS_H
#define VW_TESTS_OWN_PROCESS_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* 0: it passed. */
static inline int vw_test_in_own_process(const char *name, int (*group)(void))
{
    printf("\n%s\n", name);
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        return 1;
    if (child == 0)
        exit(group() == 0 ? 0 : 1);
    int ended = 0;
    if (waitpid(child, &ended, 0) != child || !WIFEXITED(ended))
        return 1;
    return WEXITSTATUS(ended);
}

#endif /* VW_TESTS_OWN_PROCESS_H */
