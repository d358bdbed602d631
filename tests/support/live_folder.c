/* live_folder.c - see live_folder.h. */
#include "support/live_folder.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/cmocka_here.h"

enum { LONGEST_WAIT_S = 100 };

void live_folder_make(live_folder *folder)
{
    snprintf(folder->path, sizeof folder->path, "/tmp/vramwise-live-test-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    assert_int_equal(setenv("VRAMWISE_LIVE_DIR", folder->path, 1), 0);
    assert_int_equal(setenv("VRAMWISE_LIVE_MS", "1", 1), 0);
    assert_int_equal(setenv("VRAMWISE_LIVE", "1", 1), 0);
}

/* Calls `visit`, if there is one, with each file's path; returns how many there are. */
static int walk_files(const live_folder *folder, int (*visit)(const char *path))
{
    int count = 0;
    DIR *directory = opendir(folder->path);
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char path[400];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder->path, entry->d_name);
        if (visit != NULL)
            (void)visit(path);
        count++;
    }
    closedir(directory);
    return count;
}

live_folder live_group_folder;

int live_group_set_up(void **state)
{
    (void)state;
    live_folder_make(&live_group_folder);
    return 0;
}

int live_group_tear_down(void **state)
{
    (void)state;
    live_folder_remove(&live_group_folder);
    return 0;
}

int live_folder_count(const live_folder *folder)
{
    return walk_files(folder, NULL);
}

void live_folder_remove(const live_folder *folder)
{
    walk_files(folder, unlink);
    assert_int_equal(rmdir(folder->path), 0);
    unsetenv("VRAMWISE_LIVE_DIR");
    unsetenv("VRAMWISE_LIVE_MS");
    setenv("VRAMWISE_LIVE", "0", 1);
}

vw_jobs *live_folder_read(const live_folder *folder)
{
    vw_jobs *jobs = NULL;
    assert_int_equal(vw_jobs_read(folder->path, &jobs), VW_OK);
    return jobs;
}

vw_jobs *live_folder_wait(const live_folder *folder, live_condition is_so, void *context)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    time_t latest = time(NULL) + LONGEST_WAIT_S;
    for (;;) {
        vw_jobs *jobs = live_folder_read(folder);
        if (is_so(jobs, context))
            return jobs;
        vw_jobs_free(jobs);
        assert_true(time(NULL) < latest);
        nanosleep(&pause, NULL);
    }
}

static int status_of(pid_t process)
{
    int status = 0;
    pid_t ended;
    do
        ended = waitpid(process, &status, 0);
    while (ended < 0 && errno == EINTR);
    assert_int_equal(ended, process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int live_exit_of_child(int (*body)(void *context), void *context)
{
    fflush(NULL);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        alarm(LONGEST_WAIT_S);
        exit(body(context));
    }
    return status_of(process);
}

/* In the child: until the parent says so. */
static void wait_for_end(const sigset_t *end)
{
    int number = 0;
    while (sigwait(end, &number) != 0 || number != SIGTERM)
        continue;
}

live_child live_child_start(int (*body)(void *context), void *context)
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    fflush(NULL);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        sigset_t end;
        sigemptyset(&end);
        sigaddset(&end, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &end, NULL);
        alarm(LONGEST_WAIT_S);
        int status = body(context);
        if (write(ready[1], &byte, 1) != 1)
            _exit(99);
        wait_for_end(&end);
        exit(status);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return (live_child){process};
}

int live_child_end(live_child *child)
{
    assert_int_equal(kill(child->process, SIGTERM), 0);
    return status_of(child->process);
}

void live_child_kill(live_child *child)
{
    assert_int_equal(kill(child->process, SIGKILL), 0);
    assert_int_equal(status_of(child->process), -1);
}
