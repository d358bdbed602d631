/* test_live_page.c - a page is made whole, filled, read as it was put, and removed. */
#include "vramwise/live.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "live/live_page.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/live_folder.h"

static const live_folder *const folder = &live_group_folder;

static vw_live_page *make_page(void)
{
    vw_live_page *page = NULL;
    assert_int_equal(vw_live_page_create(folder->path, NULL, &page), VW_OK);
    return page;
}

/* The one job that is there, in `*jobs`, which is to be freed. */
static const vw_job *only_job(vw_jobs **jobs)
{
    *jobs = live_folder_read(folder);
    assert_int_equal((*jobs)->job_count, 1);
    return &(*jobs)->jobs[0];
}

/* ---- its file -------------------------------------------------------------------------------- */

static void only_its_user_may_read_it(void **state)
{
    (void)state;
    struct stat about;
    mode_t before = umask(0);
    vw_live_page *page = make_page();
    umask(before);
    assert_int_equal(stat(vw_live_page_path(page), &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    vw_live_page_destroy(page);
}

static void it_is_named_after_user_and_process(void **state)
{
    (void)state;
    char begin[128];
    vw_live_page *page = make_page();
    snprintf(begin, sizeof begin, "%s/vramwise-live-%lu-%ld-", folder->path,
             (unsigned long)geteuid(), (long)getpid());
    assert_memory_equal(vw_live_page_path(page), begin, strlen(begin));
    assert_int_equal(live_folder_count(folder), 1); /* and what it was made under is gone */
    vw_live_page_destroy(page);
    assert_int_equal(live_folder_count(folder), 0);
}

static void a_process_may_have_several(void **state)
{
    (void)state;
    vw_live_page *one = make_page(), *other = make_page();
    assert_string_not_equal(vw_live_page_path(one), vw_live_page_path(other));
    vw_live_page_destroy(one);
    vw_jobs *jobs;
    assert_string_equal(only_job(&jobs)->path, vw_live_page_path(other));
    vw_jobs_free(jobs);
    vw_live_page_destroy(other);
}

static void nothing_is_left_where_there_is_no_folder(void **state)
{
    (void)state;
    vw_live_page *page = (vw_live_page *)folder;
    char missing[128];
    snprintf(missing, sizeof missing, "%s/none", folder->path);
    assert_int_equal(vw_live_page_create(missing, NULL, &page), VW_ERR_FILE);
    assert_non_null(strstr(vw_last_error(), missing));
    assert_ptr_equal(page, folder);
}

static void calls_without_sense_are_refused(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    const vw_live_identity too_short = {.struct_size = 1};
    uint64_t value = 1;
    assert_int_equal(vw_live_page_create(folder->path, NULL, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_live_page_put(NULL, 0, NULL, &value, 1), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_live_page_put(page, -1, NULL, &value, 1), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_live_page_put(page, 0, NULL, NULL, 1), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_live_page_step(page, 0, 0, 1, 1), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_live_page_step(page, -1, 1, 1, 1), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_live_page_identify(page, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_live_page_identify(page, &too_short), VW_ERR_INVALID_ARGUMENT);
    assert_string_equal(vw_live_page_path(NULL), "");
    vw_jobs *jobs;
    assert_int_equal(only_job(&jobs)->device_count, 0);
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
    vw_live_page_destroy(NULL);
    vw_live_page *other = NULL;
    assert_int_equal(vw_live_page_create(folder->path, &too_short, &other),
                     VW_ERR_INVALID_ARGUMENT);
    assert_null(other);
    assert_int_equal(live_folder_count(folder), 0);
}

/* ---- who it is ------------------------------------------------------------------------------- */

static void it_says_who_the_process_is(void **state)
{
    (void)state;
    const vw_live_identity identity = {.struct_size = sizeof identity,
                                       .program = "train.py",
                                       .allocator = "torch",
                                       .job = "4711",
                                       .run = "/tmp/run",
                                       .rank = 3,
                                       .local_rank = 1,
                                       .world_size = 8};
    vw_live_page *page = NULL;
    vw_jobs *jobs;
    assert_int_equal(vw_live_page_create(folder->path, &identity, &page), VW_OK);
    const vw_job *job = only_job(&jobs);
    assert_int_equal(job->state, VW_JOB_RUNNING);
    assert_int_equal(job->process, getpid());
    assert_int_equal(job->user, geteuid());
    assert_int_equal(job->page_version, VW__PAGE_VERSION);
    assert_string_equal(job->program, "train.py");
    assert_string_equal(job->allocator, "torch");
    assert_string_equal(job->job, "4711");
    assert_string_equal(job->run, "/tmp/run");
    assert_int_equal(job->rank, 3);
    assert_int_equal(job->local_rank, 1);
    assert_int_equal(job->world_size, 8);
    assert_true(job->started_us > 0);
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

static void what_a_change_leaves_out_stays(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    const vw_live_identity first = {.struct_size = sizeof first,
                                    .program = "a",
                                    .job = "b",
                                    .rank = 0,
                                    .local_rank = -1,
                                    .world_size = 2};
    const vw_live_identity second = {
        .struct_size = sizeof second, .job = "c", .rank = -1, .local_rank = 5};
    assert_int_equal(vw_live_page_identify(page, &first), VW_OK);
    assert_int_equal(vw_live_page_identify(page, &second), VW_OK);
    vw_jobs *jobs;
    const vw_job *job = only_job(&jobs);
    assert_string_equal(job->program, "a");
    assert_string_equal(job->job, "c");
    assert_string_equal(job->allocator, "");
    assert_int_equal(job->rank, 0);
    assert_int_equal(job->local_rank, 5);
    assert_int_equal(job->world_size, 2);
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

static void a_text_is_cut_to_63_bytes(void **state)
{
    (void)state;
    char text[101];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    const vw_live_identity identity = {.struct_size = sizeof identity, .program = text};
    vw_live_page *page = NULL;
    assert_int_equal(vw_live_page_create(folder->path, &identity, &page), VW_OK);
    assert_int_equal(vw_live_page_put(page, 0, text, NULL, 0), VW_OK);
    vw_jobs *jobs;
    const vw_job *job = only_job(&jobs);
    assert_int_equal(strlen(job->program), 63);
    assert_int_equal(strlen(job->devices[0].name), 63);
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void values_are_read_as_they_were_put(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    uint64_t values[VW_LIVE_FIELD_COUNT + 3];
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT + 3; i++)
        values[i] = 1000 + i; /* more than there are: a newer caller */
    assert_int_equal(vw_live_page_put(page, 2, "NVIDIA H200", values, VW_LIVE_FIELD_COUNT + 3),
                     VW_OK);
    vw_jobs *jobs;
    const vw_job *job = only_job(&jobs);
    assert_int_equal(job->device_count, 1);
    assert_int_equal(job->devices[0].index, 2);
    assert_string_equal(job->devices[0].name, "NVIDIA H200");
    assert_true(job->devices[0].updated_ns > 0 && job->devices[0].updated_ns <= jobs->read_ns);
    assert_int_equal(job->devices[0].step_count, 0);
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        assert_int_equal(job->devices[0].values[i], 1000 + i);
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

static void what_nobody_put_is_not_known_and_what_is_kept_stays(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    const uint64_t first[] = {10, VW_LIVE_KEEP, 30}, second[] = {VW_LIVE_KEEP, 21, VW_LIVE_UNKNOWN};
    assert_int_equal(vw_live_page_put(page, 0, "one", first, 3), VW_OK);
    vw_jobs *jobs;
    assert_int_equal(only_job(&jobs)->devices[0].values[1], VW_LIVE_UNKNOWN);
    assert_int_equal(jobs->jobs[0].devices[0].values[3], VW_LIVE_UNKNOWN);
    vw_jobs_free(jobs);
    assert_int_equal(vw_live_page_put(page, 0, NULL, second, 3), VW_OK);
    const vw_job_device *device = only_job(&jobs)->devices;
    assert_int_equal(device->values[0], 10);
    assert_int_equal(device->values[1], 21);
    assert_int_equal(device->values[2], VW_LIVE_UNKNOWN);
    assert_string_equal(device->name, "one");
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

static void a_page_has_room_for_16_devices(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    for (uint64_t i = 0; i < 16; i++)
        assert_int_equal(vw_live_page_put(page, (int)(100 - i), NULL, &i, 1), VW_OK);
    uint64_t value = 99;
    assert_int_equal(vw_live_page_put(page, 7, NULL, &value, 1), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_live_page_step(page, 7, 1, 1, 1), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_live_page_put(page, 85, NULL, &value, 1), VW_OK);
    vw_jobs *jobs;
    const vw_job *job = only_job(&jobs);
    assert_int_equal(job->device_count, 16);
    for (size_t i = 0; i < 16; i++) {
        assert_int_equal(job->devices[i].index, 100 - (int)i);
        assert_int_equal(job->devices[i].values[0], i < 15 ? i : 99);
    }
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

/* Other processes of the user can write to the page. */
static void what_others_write_there_leads_nowhere(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    uint64_t value = 1;
    assert_int_equal(vw_live_page_step(page, 0, 1, 1, 1), VW_OK);
    vw__page_slot *slot = vw__live_slot(page, 0);
    vw__page_store(&slot->step_stride, 0);
    assert_int_equal(vw_live_page_step(page, 0, 2, 1, 1), VW_OK);
    vw__page_store(&slot->step_stride, 1);
    vw__page_store(&slot->step_count, UINT64_MAX - 1);
    assert_int_equal(vw_live_page_step(page, 0, 3, 1, 1), VW_OK);
    vw__page_store(&page->header->slot_count, UINT64_MAX);
    assert_int_equal(vw_live_page_put(page, 7777, NULL, &value, 1), VW_ERR_INVALID_ARGUMENT);
    vw_live_page_destroy(page);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void put_steps(vw_live_page *page, uint64_t count, uint64_t factor)
{
    for (uint64_t step = 1; step <= count; step++)
        assert_int_equal(vw_live_page_step(page, 0, step * factor, step * 10, step * 20), VW_OK);
}

static void a_short_log_has_every_step(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    put_steps(page, VW__PAGE_STEPS, 1);
    vw_jobs *jobs;
    const vw_job_device *device = only_job(&jobs)->devices;
    assert_int_equal(device->step_count, VW__PAGE_STEPS);
    for (size_t i = 0; i < device->step_count; i++) {
        assert_int_equal(device->steps[i].step, i + 1);
        assert_int_equal(device->steps[i].live_bytes, (i + 1) * 10);
        assert_int_equal(device->steps[i].reserved_bytes, (i + 1) * 20);
        assert_true(i == 0 || device->steps[i].at_ns >= device->steps[i - 1].at_ns);
    }
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

/* The whole run, from the first step, evenly, never less than half full; whatever its steps are
 * counted in. */
static void check_thinning(uint64_t count, uint64_t factor, uint64_t stride)
{
    vw_live_page *page = make_page();
    put_steps(page, count, factor);
    vw_jobs *jobs;
    const vw_job_device *device = only_job(&jobs)->devices;
    assert_int_equal(device->step_count, (count + stride - 1) / stride);
    assert_true(device->step_count >= VW__PAGE_STEPS / 2);
    for (size_t i = 0; i < device->step_count; i++) {
        assert_int_equal(device->steps[i].step, (1 + i * stride) * factor);
        assert_int_equal(device->steps[i].live_bytes, (1 + i * stride) * 10);
    }
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

static void a_long_log_has_the_whole_run_at_falling_detail(void **state)
{
    (void)state;
    check_thinning(VW__PAGE_STEPS + 1, 1, 2);
    check_thinning(2 * VW__PAGE_STEPS, 1, 2);
    check_thinning(2 * VW__PAGE_STEPS + 1, 1, 4);
    check_thinning(100000, 1, 256);
}

static void a_program_may_count_its_steps_as_it_likes(void **state)
{
    (void)state;
    check_thinning(3000, 64, 8);
    check_thinning(3000, UINT64_C(1) << 50, 8);
    vw_live_page *page = make_page();
    for (int i = 0; i < 3000; i++)
        assert_int_equal(vw_live_page_step(page, 0, UINT64_C(1) << 63, 1, 1), VW_OK);
    vw_jobs *jobs;
    assert_int_equal(only_job(&jobs)->devices[0].step_count, 375);
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

/* ---- fork, and the end ----------------------------------------------------------------------- */

static int is_the_parents(void *context)
{
    vw_live_page *page = context;
    const vw_live_identity identity = {.struct_size = sizeof identity};
    uint64_t value = 1;
    if (vw_live_page_put(page, 0, NULL, &value, 1) != VW_ERR_WRONG_PROCESS ||
        vw_live_page_step(page, 0, 1, 1, 1) != VW_ERR_WRONG_PROCESS ||
        vw_live_page_identify(page, &identity) != VW_ERR_WRONG_PROCESS)
        return 1;
    vw_live_page_destroy(page); /* does nothing */
    return access(vw_live_page_path(page), F_OK) == 0 ? 0 : 2;
}

static void in_a_child_the_page_is_the_parents(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    assert_int_equal(live_exit_of_child(is_the_parents, page), 0);
    assert_int_equal(live_folder_count(folder), 1);
    uint64_t value = 1;
    assert_int_equal(vw_live_page_put(page, 0, NULL, &value, 1), VW_OK);
    vw_live_page_destroy(page);
}

static int do_nothing(void *context)
{
    (void)context;
    return 0;
}

/* A child that outlives its parent has none of the parent's lock. */
static void a_page_is_stale_although_a_child_lives_on(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    char *path = strdup(vw_live_page_path(page)), *copy_name = NULL;
    assert_true(asprintf(&copy_name, "%s-kept", path) > 0);
    live_child child = live_child_start(do_nothing, NULL);
    vw_jobs *jobs;
    assert_int_equal(only_job(&jobs)->process, getpid());
    vw_jobs_free(jobs);
    assert_int_equal(link(path, copy_name), 0); /* as if we had been killed */
    vw_live_page_destroy(page);
    jobs = live_folder_read(folder);
    assert_int_equal(jobs->job_count, 0);
    assert_int_equal(jobs->stale_count, 1);
    vw_jobs_free(jobs);
    assert_int_equal(live_folder_count(folder), 0);
    assert_int_equal(live_child_end(&child), 0);
    free(path);
    free(copy_name);
}

/* A thread that waits for the list while the process forks. fork() calls what was registered first
 * last, when it holds the list already: there the thread begins, and is waited for until it sleeps.
 */
static bool has_waiter; /* during a fork() */
static pthread_t waiter;
static _Atomic long waiter_id;

static void *make_one(void *context)
{
    atomic_store(&waiter_id, syscall(SYS_gettid));
    vw_live_page *page = NULL;
    if (vw_live_page_create(folder->path, NULL, &page) != VW_OK)
        return NULL;
    vw_live_page_destroy(page);
    return context;
}

static bool does_sleep(long id)
{
    char path[64], name_end = 0, state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%ld/stat", id);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    int count = fscanf(file, "%*d %*[^)]%c %c", &name_end, &state);
    fclose(file);
    return count == 2 && state == 'S';
}

static void start_waiter(void)
{
    if (!has_waiter)
        return;
    atomic_store(&waiter_id, 0);
    if (pthread_create(&waiter, NULL, make_one, &has_waiter) != 0)
        abort();
    while (atomic_load(&waiter_id) == 0 || !does_sleep(atomic_load(&waiter_id)))
        sched_yield();
}

static bool fork_with_waiter(int (*body)(void *context))
{
    void *made = NULL;
    has_waiter = true;
    int status = live_exit_of_child(body, NULL);
    has_waiter = false;
    return status == 0 && pthread_join(waiter, &made) == 0 && made != NULL;
}

/* Without exit(): the child has memory of a thread that it does not have. */
static int end_at_once(void *context)
{
    (void)context;
    _exit(0);
}

static int let_another_wait(void *context)
{
    (void)context;
    _exit(fork_with_waiter(end_at_once) ? 0 : 1);
}

/* The child's lock must not remember a waiter that only the parent has. */
static void a_child_waits_for_no_thread_of_its_parent(void **state)
{
    (void)state;
    assert_true(fork_with_waiter(let_another_wait));
}

/* ---- signals --------------------------------------------------------------------------------- */

static bool has_timer; /* of the program: signals come all the time */

/* In place of the C library's. As shared memory answers when a signal comes meanwhile. */
int posix_fallocate(int file, off_t offset, off_t size_bytes)
{
    sigset_t blocked;
    if (has_timer && pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0 &&
        !sigismember(&blocked, SIGALRM))
        return EINTR;
    return fallocate(file, 0, offset, size_bytes) == 0 ? 0 : errno;
}

static void a_page_is_made_whatever_signals_come(void **state)
{
    (void)state;
    uint64_t value = 1;
    has_timer = true;
    vw_live_page *page = make_page();
    assert_int_equal(vw_live_page_put(page, 0, NULL, &value, 1), VW_OK);
    has_timer = false;
    vw_live_page_destroy(page);
}

/* ---- no room --------------------------------------------------------------------------------- */

static void limit_files(rlim_t most_bytes)
{
    const struct rlimit limit = {most_bytes, most_bytes};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        exit(90);
}

static int cannot_make_a_page(void *context)
{
    (void)context;
    vw_live_page *page = NULL;
    limit_files(100);
    if (vw_live_page_create(folder->path, NULL, &page) != VW_ERR_FILE || page != NULL)
        return 1;
    return strstr(vw_last_error(), "no room in shared memory") != NULL ? 0 : 2;
}

/* A signal would end the program whose page it is. */
static void without_room_there_is_an_answer_and_no_signal(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(cannot_make_a_page, NULL), 0);
    assert_int_equal(live_folder_count(folder), 0);
}

/* The room is refused: here because the file is not open for writing. */
static void a_device_without_room_leaves_the_others(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    uint64_t value = 5;
    assert_int_equal(vw_live_page_put(page, 0, NULL, &value, 1), VW_OK);
    int writable = dup(page->file), readable = open(vw_live_page_path(page), O_RDONLY);
    assert_true(writable >= 0 && readable >= 0);
    assert_int_equal(dup2(readable, page->file), page->file);
    assert_int_equal(vw_live_page_put(page, 1, NULL, &value, 1), VW_ERR_FILE);
    assert_non_null(strstr(vw_last_error(), "no room in shared memory"));
    assert_int_equal(vw_live_page_step(page, 1, 1, 1, 1), VW_ERR_FILE);
    value = 6;
    assert_int_equal(vw_live_page_put(page, 0, NULL, &value, 1), VW_OK);
    vw_jobs *jobs;
    const vw_job *job = only_job(&jobs);
    assert_int_equal(job->device_count, 1);
    assert_int_equal(job->devices[0].values[0], 6);
    vw_jobs_free(jobs);
    assert_int_equal(dup2(writable, page->file), page->file); /* and when there is room again */
    assert_int_equal(vw_live_page_put(page, 1, NULL, &value, 1), VW_OK);
    assert_int_equal(only_job(&jobs)->device_count, 2);
    vw_jobs_free(jobs);
    close(writable);
    close(readable);
    vw_live_page_destroy(page);
}

/* Looking at an unclaimed part would claim it, and where there is no room end the process. */
static void nobody_touches_what_was_not_claimed(void **state)
{
    (void)state;
    struct stat before, after;
    vw_live_page *page = make_page();
    uint64_t value = 1;
    assert_int_equal(vw_live_page_put(page, 0, NULL, &value, 1), VW_OK);
    assert_int_equal(stat(vw_live_page_path(page), &before), 0);
    vw_jobs *jobs;
    assert_int_equal(only_job(&jobs)->device_count, 1);
    vw_jobs_free(jobs);
    assert_int_equal(vw_live_page_put(page, 0, NULL, &value, 1), VW_OK);
    assert_int_equal(stat(vw_live_page_path(page), &after), 0);
    assert_int_equal(after.st_blocks, before.st_blocks);
    assert_true(after.st_blocks * 512 < VW__PAGE_BYTES / 2);
    vw_live_page_destroy(page);
}

static bool make_and_destroy(void *context)
{
    const vw_live_identity identity = {.struct_size = sizeof identity, .program = "x"};
    vw_live_page *page = NULL;
    (void)context;
    vw_status status = vw_live_page_create(folder->path, &identity, &page);
    if (status != VW_OK)
        assert_int_equal(status, VW_ERR_HOST_MEMORY);
    vw_live_page_destroy(page);
    assert_int_equal(live_folder_count(folder), 0);
    return status == VW_OK;
}

static void every_failing_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(make_and_destroy, NULL);
}

int main(void)
{
    if (pthread_atfork(start_waiter, NULL, NULL) != 0) /* before any page is made */
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_its_user_may_read_it),
        cmocka_unit_test(it_is_named_after_user_and_process),
        cmocka_unit_test(a_process_may_have_several),
        cmocka_unit_test(nothing_is_left_where_there_is_no_folder),
        cmocka_unit_test(calls_without_sense_are_refused),
        cmocka_unit_test(it_says_who_the_process_is),
        cmocka_unit_test(what_a_change_leaves_out_stays),
        cmocka_unit_test(a_text_is_cut_to_63_bytes),
        cmocka_unit_test(values_are_read_as_they_were_put),
        cmocka_unit_test(what_nobody_put_is_not_known_and_what_is_kept_stays),
        cmocka_unit_test(a_page_has_room_for_16_devices),
        cmocka_unit_test(what_others_write_there_leads_nowhere),
        cmocka_unit_test(a_short_log_has_every_step),
        cmocka_unit_test(a_long_log_has_the_whole_run_at_falling_detail),
        cmocka_unit_test(a_program_may_count_its_steps_as_it_likes),
        cmocka_unit_test(in_a_child_the_page_is_the_parents),
        cmocka_unit_test(a_page_is_stale_although_a_child_lives_on),
        cmocka_unit_test(a_child_waits_for_no_thread_of_its_parent),
        cmocka_unit_test(a_page_is_made_whatever_signals_come),
        cmocka_unit_test(without_room_there_is_an_answer_and_no_signal),
        cmocka_unit_test(a_device_without_room_leaves_the_others),
        cmocka_unit_test(nobody_touches_what_was_not_claimed),
        cmocka_unit_test(every_failing_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, live_group_set_up, live_group_tear_down);
}
