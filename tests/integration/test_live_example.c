/* test_live_example.c - a program that knows nothing of pages has one.
 *
 * examples/pool_in_c makes a pool, uses it, and writes its recording: here into a FIFO, which holds
 * it up until somebody reads. Meanwhile its page says what it holds; afterwards there is none. */
#include "vramwise/watch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_here.h"
#include "support/live_folder.h"

#define MIB (UINT64_C(1) << 20)

static live_folder folder, other_folder;

static pid_t start_example(const char *recording)
{
    fflush(NULL);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        alarm(100);
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDOUT_FILENO);
        execl(VW_EXAMPLE, "pool_in_c", recording, (char *)NULL);
        _exit(99);
    }
    return process;
}

/* Everything was asked for by now: four steps of nine blocks, the weights, and too much. */
static bool has_run_out(const vw_jobs *jobs, void *context)
{
    const vw_job *job = vw_jobs_find(jobs, *(const pid_t *)context);
    return job != NULL && job->device_count == 1 &&
           job->devices[0].values[VW_LIVE_OUT_OF_MEMORY] == 1 &&
           job->devices[0].values[VW_LIVE_LIVE_BYTES] == 0;
}

static void the_example_publishes_what_it_holds(void **state)
{
    (void)state;
    char fifo[100], bytes[4096];
    live_folder_make(&other_folder);
    live_folder_make(&folder); /* the one that is in force */
    snprintf(fifo, sizeof fifo, "%s/recording", other_folder.path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    pid_t process = start_example(fifo);

    vw_jobs *jobs = live_folder_wait(&folder, has_run_out, &process);
    const vw_job *job = vw_jobs_find(jobs, process);
    const uint64_t *values = job->devices[0].values;
    assert_int_equal(job->state, VW_JOB_RUNNING);
    assert_string_equal(job->program, "pool_in_c");
    assert_string_equal(job->allocator, "vramwise");
    assert_int_equal(values[VW_LIVE_ALLOCATIONS], 4 * 9 + 1);
    assert_true(values[VW_LIVE_PEAK_LIVE_BYTES] >= 94 * MIB);
    assert_true(values[VW_LIVE_RESERVED_BYTES] <= values[VW_LIVE_PEAK_RESERVED_BYTES]);
    assert_true(values[VW_LIVE_LIMIT_BYTES] <= 256 * MIB);
    assert_true(values[VW_LIVE_DRIVER_CALLS] > 0);
    vw_jobs_free(jobs);

    int file = open(fifo, O_RDONLY), status = 0;
    assert_true(file >= 0);
    while (read(file, bytes, sizeof bytes) > 0)
        continue;
    close(file);
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(live_folder_count(&folder), 0);
    live_folder_remove(&folder);
    live_folder_remove(&other_folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_example_publishes_what_it_holds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
