/* test_live_process.c - the one page of a process: by whose word it is made, who it says we are,
 * and what its end leaves.
 *
 * Each case is a process of its own. A child answers by its exit status: 0, or which claim failed.
 */
#include "vramwise/live.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_here.h"
#include "support/live_folder.h"

static const live_folder *const folder = &live_group_folder;

static int make_folder(void **state)
{
    static const char *const launchers[] = {
        "RANK",         "LOCAL_RANK",   "WORLD_SIZE",          "SLURM_PROCID",     "SLURM_LOCALID",
        "SLURM_NTASKS", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "VRAMWISE_DISABLE", "VRAMWISE_RUN"};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        unsetenv(launchers[i]);
    return live_group_set_up(state);
}

/* Sets variables, "NAME=value" with a space between them, and asks for the page. */
static vw_status ask_with(const char *variables)
{
    static char text[512];
    vw_live_page *page = NULL;
    snprintf(text, sizeof text, "%s", variables);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " "))
        putenv(word);
    return vw_live_process_page(&page);
}

static int get_page(void *variables)
{
    return ask_with(variables) == VW_OK ? 0 : 1;
}

/* The job of a child with these variables, in `*jobs`. */
static const vw_job *job_with(const char *variables, vw_jobs **jobs)
{
    live_child child = live_child_start(get_page, (void *)(uintptr_t)variables);
    *jobs = live_folder_read(folder);
    assert_int_equal((*jobs)->job_count, 1);
    assert_int_equal((*jobs)->jobs[0].process, child.process);
    assert_int_equal(live_child_end(&child), 0);
    return &(*jobs)->jobs[0];
}

/* ---- whether --------------------------------------------------------------------------------- */

static int is_switched_off(void *variables)
{
    if (ask_with(variables) != VW_ERR_UNSUPPORTED)
        return 1;
    return strstr(vw_last_error(), "VRAMWISE_LIVE") != NULL ? 0 : 2;
}

static void it_can_be_switched_off(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(is_switched_off, "VRAMWISE_LIVE=0"), 0);
    assert_int_equal(live_exit_of_child(is_switched_off, "VRAMWISE_DISABLE=1"), 0);
    assert_int_equal(live_exit_of_child(get_page, "VRAMWISE_DISABLE=0"), 0);
    assert_int_equal(live_exit_of_child(get_page, "VRAMWISE_DISABLE= VRAMWISE_LIVE="), 0);
}

/* The first answer stays, with its words: nobody asks a full machine again and again. */
static int is_asked_once(void *context)
{
    vw_live_page *page = NULL;
    (void)context;
    if (ask_with("VRAMWISE_LIVE_DIR=/no/such/folder") != VW_ERR_FILE)
        return 1;
    setenv("VRAMWISE_LIVE_DIR", folder->path, 1);
    vw_set_last_error("");
    if (vw_live_process_page(&page) != VW_ERR_FILE || page != NULL)
        return 2;
    return strstr(vw_last_error(), "/no/such/folder") != NULL ? 0 : 3;
}

static void a_failure_is_remembered(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(is_asked_once, NULL), 0);
    assert_int_equal(live_folder_count(folder), 0);
}

static int is_the_same_again(void *context)
{
    vw_live_page *one = NULL, *other = NULL;
    (void)context;
    if (vw_live_process_page(NULL) != VW_ERR_INVALID_ARGUMENT)
        return 1;
    if (vw_live_process_page(&one) != VW_OK || vw_live_process_page(&other) != VW_OK)
        return 2;
    return one == other && live_folder_count(folder) == 1 ? 0 : 3;
}

static void there_is_one(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(is_the_same_again, NULL), 0);
}

/* ---- who ------------------------------------------------------------------------------------- */

static void without_a_launcher_it_is_nobodys_rank(void **state)
{
    (void)state;
    vw_jobs *jobs;
    const vw_job *job = job_with("", &jobs);
    assert_int_equal(job->rank, -1);
    assert_int_equal(job->local_rank, -1);
    assert_int_equal(job->world_size, 0);
    assert_string_equal(job->job, "");
    assert_string_equal(job->run, "");
    assert_string_equal(job->program, "unit_live_process");
    vw_jobs_free(jobs);
}

static void torchrun_says_who_it_is(void **state)
{
    (void)state;
    vw_jobs *jobs;
    const vw_job *job = job_with("RANK=9 LOCAL_RANK=1 WORLD_SIZE=16 TORCHELASTIC_RUN_ID=r1 "
                                 "VRAMWISE_RUN=/tmp/run.x",
                                 &jobs);
    assert_int_equal(job->rank, 9);
    assert_int_equal(job->local_rank, 1);
    assert_int_equal(job->world_size, 16);
    assert_string_equal(job->job, "r1");
    assert_string_equal(job->run, "/tmp/run.x");
    vw_jobs_free(jobs);
    job = job_with("RANK=0 TORCHELASTIC_RUN_ID=none", &jobs); /* torchrun's word for no name */
    assert_int_equal(job->rank, 0);
    assert_string_equal(job->job, "");
    vw_jobs_free(jobs);
}

/* Folders of two runs in one place differ at the end, and no text is longer than 63 bytes. */
static void of_a_runs_long_name_the_end_is_kept(void **state)
{
    (void)state;
    vw_jobs *jobs;
    char run[120] = "VRAMWISE_RUN=/", *name = run + strlen("VRAMWISE_RUN=");
    memset(name + 1, 'x', 80);
    strcpy(name + 81, "/vramwise-run.abcdef");
    const vw_job *job = job_with(run, &jobs);
    assert_int_equal(strlen(job->run), VW_JOB_TEXT_BYTES - 1);
    assert_string_equal(job->run, name + strlen(name) - (VW_JOB_TEXT_BYTES - 1));
    assert_true(vw_job_is_of_run(job, name));
    name[strlen(name) - 1] = 'g';
    assert_false(vw_job_is_of_run(job, name));
    vw_jobs_free(jobs);
}

static void slurm_says_who_it_is(void **state)
{
    (void)state;
    vw_jobs *jobs;
    const vw_job *job =
        job_with("SLURM_PROCID=5 SLURM_LOCALID=2 SLURM_NTASKS=8 SLURM_JOB_ID=4711", &jobs);
    assert_int_equal(job->rank, 5);
    assert_int_equal(job->local_rank, 2);
    assert_int_equal(job->world_size, 8);
    assert_string_equal(job->job, "4711");
    vw_jobs_free(jobs);
}

static void a_variable_that_is_no_number_is_passed_over(void **state)
{
    (void)state;
    vw_jobs *jobs;
    const vw_job *job =
        job_with("RANK=one SLURM_PROCID=4x LOCAL_RANK=3 WORLD_SIZE=-2 SLURM_NTASKS=", &jobs);
    assert_int_equal(job->rank, 3);
    assert_int_equal(job->world_size, 0);
    vw_jobs_free(jobs);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void a_process_that_ends_by_itself_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(get_page, ""), 0);
    assert_int_equal(live_folder_count(folder), 0);
}

static int end_at_once(void *context)
{
    _exit(get_page(context));
}

static void what_others_leave_is_stale_and_removed(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(end_at_once, ""), 0);
    live_child child = live_child_start(get_page, "");
    assert_int_equal(live_folder_count(folder), 2);
    live_child_kill(&child);
    vw_jobs *jobs = live_folder_read(folder);
    assert_int_equal(jobs->job_count, 0);
    assert_int_equal(jobs->stale_count, 2);
    vw_jobs_free(jobs);
    assert_int_equal(live_folder_count(folder), 0);
}

/* exec() ends the program and keeps the process: no lock goes with it. */
static int become_another(void *context)
{
    if (get_page(context) != 0)
        return 1;
    execl("/bin/cat", "cat", (char *)NULL);
    return 2;
}

static void a_process_that_becomes_another_has_no_page(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        dup2(ends[0], STDIN_FILENO);
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        _exit(become_another(""));
    }
    close(ends[0]);
    bool is_stale = false; /* true once it has become cat, which lives until we close the pipe */
    for (int i = 0; i < 100000 && !is_stale; i++) {
        vw_jobs *jobs = live_folder_read(folder);
        is_stale = jobs->stale_count == 1;
        vw_jobs_free(jobs);
        usleep(1000);
    }
    assert_true(is_stale);
    assert_int_equal(live_folder_count(folder), 0);
    close(ends[1]);
    int status = 0;
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The parent has one; the child makes its own, and ends it without touching the parent's. */
static int has_its_own(void *context)
{
    vw_live_page *page = NULL;
    const char *parents = context;
    if (vw_live_process_page(&page) != VW_OK)
        return 1;
    if (strcmp(vw_live_page_path(page), parents) == 0)
        return 2;
    uint64_t value = 1;
    return vw_live_page_put(page, 0, NULL, &value, 1) == VW_OK ? 0 : 3;
}

static int parent_and_child(void *context)
{
    vw_live_page *page = NULL;
    uint64_t value = 2;
    (void)context;
    if (vw_live_process_page(&page) != VW_OK)
        return 10;
    int answer = live_exit_of_child(has_its_own, (void *)(uintptr_t)vw_live_page_path(page));
    if (answer != 0)
        return 20 + answer;
    if (access(vw_live_page_path(page), F_OK) != 0 || live_folder_count(folder) != 1)
        return 30;
    return vw_live_page_put(page, 0, NULL, &value, 1) == VW_OK ? 0 : 40;
}

static void a_child_may_have_one_of_its_own(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(parent_and_child, NULL), 0);
    assert_int_equal(live_folder_count(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_can_be_switched_off),
        cmocka_unit_test(a_failure_is_remembered),
        cmocka_unit_test(there_is_one),
        cmocka_unit_test(without_a_launcher_it_is_nobodys_rank),
        cmocka_unit_test(torchrun_says_who_it_is),
        cmocka_unit_test(of_a_runs_long_name_the_end_is_kept),
        cmocka_unit_test(slurm_says_who_it_is),
        cmocka_unit_test(a_variable_that_is_no_number_is_passed_over),
        cmocka_unit_test(a_process_that_ends_by_itself_leaves_nothing),
        cmocka_unit_test(what_others_leave_is_stale_and_removed),
        cmocka_unit_test(a_process_that_becomes_another_has_no_page),
        cmocka_unit_test(a_child_may_have_one_of_its_own),
    };
    return cmocka_run_group_tests(tests, make_folder, live_group_tear_down);
}
