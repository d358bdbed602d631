/* test_jobs_read.c - pages in, jobs out: also of other versions, of dead processes, and of files
 * that are no pages. */
#include "vramwise/watch.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "vramwise/version.h"
#include "live/live_page.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/live_folder.h"

static const live_folder *const folder = &live_group_folder;

/* In the place of the C library's: counts, and does not sleep. */
static _Atomic unsigned pause_count;

int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    (void)wanted, (void)left;
    atomic_fetch_add(&pause_count, 1);
    return 0;
}

/* A page with one device, whose bytes the test may change. */
static vw_live_page *make_page(void)
{
    vw_live_page *page = NULL;
    uint64_t value = 77;
    assert_int_equal(vw_live_page_create(folder->path, NULL, &page), VW_OK);
    assert_int_equal(vw_live_page_put(page, 0, "card", &value, 1), VW_OK);
    return page;
}

static vw_jobs *read_one(void)
{
    vw_jobs *jobs = live_folder_read(folder);
    assert_int_equal(jobs->job_count, 1);
    return jobs;
}

static const char *name_in_folder(const char *name)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    return path;
}

/* ---- folders --------------------------------------------------------------------------------- */

static void an_empty_folder_has_no_jobs(void **state)
{
    (void)state;
    vw_jobs *jobs = live_folder_read(folder);
    assert_int_equal(jobs->job_count, 0);
    assert_int_equal(jobs->stale_count, 0);
    assert_int_equal(jobs->refused_count, 0);
    assert_null(vw_jobs_find(jobs, getpid()));
    vw_jobs_free(jobs);
    vw_jobs_free(NULL);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    vw_jobs *jobs = NULL;
    assert_int_equal(vw_jobs_read("/no/such/folder", &jobs), VW_ERR_FILE);
    assert_non_null(strstr(vw_last_error(), "/no/such/folder"));
    assert_null(jobs);
    assert_int_equal(vw_jobs_read(folder->path, NULL), VW_ERR_INVALID_ARGUMENT);
}

static void the_variable_names_the_folder(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    vw_jobs *jobs = NULL;
    assert_int_equal(vw_jobs_read(NULL, &jobs), VW_OK);
    assert_int_equal(jobs->job_count, 1);
    assert_string_equal(jobs->jobs[0].vramwise_version, VW_VERSION_STRING);
    assert_ptr_equal(vw_jobs_find(jobs, getpid()), &jobs->jobs[0]);
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

/* ---- other versions -------------------------------------------------------------------------- */

static void of_a_page_of_another_version_only_the_process_is_known(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    vw__page_store(&page->header->version, VW__PAGE_VERSION + 1);
    vw_jobs *jobs = read_one();
    assert_int_equal(jobs->jobs[0].state, VW_JOB_OTHER_VERSION);
    assert_int_equal(jobs->jobs[0].process, getpid());
    assert_int_equal(jobs->jobs[0].page_version, VW__PAGE_VERSION + 1);
    assert_int_equal(jobs->jobs[0].rank, -1);
    assert_int_equal(jobs->jobs[0].device_count, 0);
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

/* Fields are added at the end: an old reader passes over them, and an old page has none. */
static void a_page_with_more_fields_or_fewer_is_read(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    vw__page_store(&page->header->value_count, VW_LIVE_FIELD_COUNT + 5);
    vw_jobs *jobs = read_one();
    assert_int_equal(jobs->jobs[0].state, VW_JOB_RUNNING);
    assert_int_equal(jobs->jobs[0].devices[0].values[0], 77);
    vw_jobs_free(jobs);

    vw__page_slot *slot = vw__live_slot(page, 0);
    for (size_t i = 0; i < VW__PAGE_VALUES; i++)
        vw__page_store(&slot->values[i], 5);
    vw__page_store(&page->header->value_count, 3);
    jobs = read_one();
    assert_int_equal(jobs->jobs[0].devices[0].values[2], 5);
    assert_int_equal(jobs->jobs[0].devices[0].values[3], VW_LIVE_UNKNOWN);
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

/* Slots of a later version may be larger, and begin further on. */
static void slots_are_where_the_page_says(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    vw__page_header *header = page->header;
    uint64_t value = 88;
    for (int i = 1; i < 4; i++) {
        value++;
        assert_int_equal(vw_live_page_put(page, i, "card", &value, 1), VW_OK);
    }
    vw__page_store(&header->first_slot, VW__PAGE_FIRST_SLOT + VW__PAGE_SLOT_BYTES);
    vw__page_store(&header->slot_bytes, 2 * VW__PAGE_SLOT_BYTES);
    vw__page_store(&header->slot_count, 2);
    vw_jobs *jobs = read_one();
    assert_int_equal(jobs->jobs[0].device_count, 2);
    assert_int_equal(jobs->jobs[0].devices[0].values[0], 89);
    assert_int_equal(jobs->jobs[0].devices[1].values[0], 91);
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

static void sizes_that_the_file_has_not_are_not_followed(void **state)
{
    (void)state;
    static const struct {
        size_t offset;
        uint64_t value;
    } wrong[] = {
        {offsetof(vw__page_header, first_slot), 0},
        {offsetof(vw__page_header, first_slot), 4097},
        {offsetof(vw__page_header, first_slot), UINT64_MAX - 7},
        {offsetof(vw__page_header, first_slot), VW__PAGE_BYTES},
        {offsetof(vw__page_header, slot_bytes), 0},
        {offsetof(vw__page_header, slot_bytes), sizeof(vw__page_slot) - 8},
        {offsetof(vw__page_header, slot_bytes), sizeof(vw__page_slot) + 1},
        {offsetof(vw__page_header, slot_bytes), VW__PAGE_BYTES},
        {offsetof(vw__page_header, slot_bytes), UINT64_MAX - 7},
        {offsetof(vw__page_header, slot_count), VW__PAGE_SLOTS + 1},
        {offsetof(vw__page_header, slot_count), UINT64_MAX},
        {offsetof(vw__page_header, step_capacity), VW__PAGE_STEPS + 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        vw_live_page *page = make_page();
        vw__page_store((vw__page_word *)((char *)page->header + wrong[i].offset), wrong[i].value);
        vw_jobs *jobs = read_one();
        assert_int_equal(jobs->jobs[0].state, VW_JOB_OTHER_VERSION);
        assert_int_equal(jobs->jobs[0].device_count, 0);
        vw_jobs_free(jobs);
        vw_live_page_destroy(page);
    }
}

static void a_log_longer_than_its_room_is_cut(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    vw__page_store(&vw__live_slot(page, 0)->step_count, UINT64_MAX);
    vw_jobs *jobs = read_one();
    assert_int_equal(jobs->jobs[0].devices[0].step_count, VW__PAGE_STEPS);
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

static void a_text_without_an_end_ends(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    for (int i = 0; i < VW__PAGE_TEXT_WORDS; i++)
        vw__page_store(&page->header->program[i], UINT64_C(0x6161616161616161));
    vw_jobs *jobs = read_one();
    assert_int_equal(strlen(jobs->jobs[0].program), VW_JOB_TEXT_BYTES - 1);
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

/* ---- in the middle of a change --------------------------------------------------------------- */

static void a_device_that_does_not_hold_still_is_left_out(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    uint64_t value = 5;
    assert_int_equal(vw_live_page_put(page, 1, NULL, &value, 1), VW_OK);
    vw__page_begin_write(&vw__live_slot(page, 1)->sequence);
    vw_jobs *jobs = read_one();
    assert_int_equal(jobs->jobs[0].state, VW_JOB_BUSY);
    assert_int_equal(jobs->jobs[0].process, getpid());
    assert_int_equal(jobs->jobs[0].device_count, 1);
    assert_int_equal(jobs->jobs[0].devices[0].values[0], 77);
    vw_jobs_free(jobs);
    vw__page_end_write(&vw__live_slot(page, 1)->sequence);
    vw__page_begin_write(&page->header->sequence);
    jobs = read_one();
    assert_int_equal(jobs->jobs[0].state, VW_JOB_BUSY);
    assert_int_equal(jobs->jobs[0].device_count, 0);
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

/* As a process leaves it that is stopped in the middle of a write. */
static void many_pages_that_never_hold_still_cost_no_more_than_one(void **state)
{
    (void)state;
    enum { PAGES = 40 };
    vw_live_page *pages[PAGES];
    unsigned of_one = 0;
    for (int i = 0; i < PAGES; i++) {
        pages[i] = make_page();
        vw__page_begin_write(&pages[i]->header->sequence);
        if (i == 0) {
            pause_count = 0;
            vw_jobs_free(live_folder_read(folder));
            of_one = pause_count;
        }
    }
    pause_count = 0;
    vw_jobs *jobs = live_folder_read(folder);
    assert_int_equal(jobs->job_count, PAGES);
    for (int i = 0; i < PAGES; i++)
        assert_int_equal(jobs->jobs[i].state, VW_JOB_BUSY);
    assert_true(of_one > 0);
    assert_int_equal(pause_count, of_one);
    vw_jobs_free(jobs);
    for (int i = 0; i < PAGES; i++)
        vw_live_page_destroy(pages[i]);
}

/* ---- files that are no pages ----------------------------------------------------------------- */

static void write_file(const char *name, const void *bytes, size_t size_bytes)
{
    int file = open(name_in_folder(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size_bytes), size_bytes);
    close(file);
}

static void expect_refused(size_t count)
{
    vw_jobs *jobs = live_folder_read(folder);
    assert_int_equal(jobs->job_count, 0);
    assert_int_equal(jobs->stale_count, 0);
    assert_int_equal(jobs->refused_count, count);
    vw_jobs_free(jobs);
}

static void what_is_no_page_is_refused_and_left(void **state)
{
    (void)state;
    char garbage[5000];
    memset(garbage, 0x5a, sizeof garbage);
    write_file("vramwise-live-empty", "", 0);
    write_file("vramwise-live-short", garbage, sizeof(vw__page_header) - 1);
    write_file("vramwise-live-garbage", garbage, sizeof garbage);
    assert_int_equal(mkfifo(name_in_folder("vramwise-live-fifo"), 0600), 0);
    assert_int_equal(mkdir(name_in_folder("vramwise-live-folder"), 0700), 0);
    write_file("vramwise-live-huge", garbage, 10);
    assert_int_equal(truncate(name_in_folder("vramwise-live-huge"), INT64_C(1) << 40), 0);
    expect_refused(6);
    assert_int_equal(live_folder_count(folder), 6);
    write_file("other-vramwise-live-", garbage, sizeof garbage); /* not by the name of a page */
    expect_refused(6);
    assert_int_equal(rmdir(name_in_folder("vramwise-live-folder")), 0);
    static const char *const names[] = {"empty", "short", "garbage", "fifo", "huge"};
    for (size_t i = 0; i < 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "vramwise-live-%s", names[i]);
        assert_int_equal(unlink(name_in_folder(name)), 0);
    }
    assert_int_equal(unlink(name_in_folder("other-vramwise-live-")), 0);
}

/* As a process that was killed in between leaves it. What is young may be in the making. */
static void an_old_part_of_a_page_is_removed(void **state)
{
    (void)state;
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    write_file(".vramwise-live-0-1-a", "", 0);
    write_file(".vramwise-live-0-1-b", "", 0);
    assert_int_equal(utimensat(AT_FDCWD, name_in_folder(".vramwise-live-0-1-a"), long_ago, 0), 0);
    vw_jobs *jobs = live_folder_read(folder);
    assert_int_equal(jobs->stale_count, 1);
    assert_int_equal(jobs->job_count + jobs->refused_count, 0);
    vw_jobs_free(jobs);
    assert_int_equal(live_folder_count(folder), 1);
    assert_int_equal(unlink(name_in_folder(".vramwise-live-0-1-b")), 0);
}

/* Another user might lead us to a file by a link. */
static void a_link_is_not_followed(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    assert_int_equal(symlink(vw_live_page_path(page), name_in_folder("vramwise-live-link")), 0);
    vw_jobs *jobs = read_one();
    assert_int_equal(jobs->refused_count, 1);
    assert_string_equal(jobs->jobs[0].path, vw_live_page_path(page));
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
    assert_int_equal(unlink(name_in_folder("vramwise-live-link")), 0);
}

static void another_users_page_is_refused_and_left(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can give a file away */
    vw_live_page *page = make_page();
    assert_int_equal(chown(vw_live_page_path(page), 12345, (gid_t)-1), 0);
    expect_refused(1);
    assert_int_equal(live_folder_count(folder), 1);
    vw_live_page_destroy(page);
}

/* ---- pages of all users ---------------------------------------------------------------------- */

static vw_jobs *read_shared(void)
{
    vw_jobs *jobs = NULL;
    assert_int_equal(vw_jobs_read_shared(folder->path, NULL, &jobs), VW_OK);
    return jobs;
}

static void the_group_may_read_a_page_in_a_folder_for_all_and_nowhere_else(void **state)
{
    (void)state;
    struct stat facts;
    const mode_t before = umask(0077);
    vw_live_page *private_page = make_page();
    assert_int_equal(stat(vw_live_page_path(private_page), &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
    vw_live_page_destroy(private_page);
    assert_int_equal(chmod(folder->path, 02777), 0); /* not sticky: others could remove it */
    private_page = make_page();
    assert_int_equal(stat(vw_live_page_path(private_page), &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
    vw_live_page_destroy(private_page);
    assert_int_equal(chmod(folder->path, 03777), 0);
    vw_live_page *page = make_page();
    assert_int_equal(stat(vw_live_page_path(page), &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0640);
    vw_live_page_destroy(page);
    assert_int_equal(chmod(folder->path, 0700), 0);
    (void)umask(before);
}

static void pages_of_all_users_are_read_by_user_where_that_is_asked(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can give a file away */
    vw_live_page *own = make_page(), *other = make_page();
    assert_int_equal(chown(vw_live_page_path(own), 12345, (gid_t)-1), 0);
    vw__page_store(&other->header->user, 999); /* a claim */
    vw_jobs *jobs = read_shared();
    assert_true(jobs->is_shared);
    assert_int_equal(jobs->job_count, 2);
    assert_int_equal(jobs->jobs[0].user, 0);
    assert_int_equal(jobs->jobs[1].user, 12345);
    assert_null(jobs->jobs[0].container);
    vw_jobs_free(jobs);
    jobs = read_one();
    assert_false(jobs->is_shared);
    assert_int_equal(jobs->refused_count, 1);
    vw_jobs_free(jobs);
    vw_live_page_destroy(own);
    vw_live_page_destroy(other);
}

/* A file of `user` that looks like a page of 16 devices: holes cost its owner nothing. */
static int make_hollow(const char *name, uid_t user, struct flock *lock)
{
    vw__page_header header = {.magic = VW__PAGE_MAGIC,
                              .version = VW__PAGE_VERSION,
                              .slot_bytes = VW__PAGE_SLOT_BYTES,
                              .first_slot = VW__PAGE_FIRST_SLOT,
                              .value_count = VW_LIVE_FIELD_COUNT,
                              .step_capacity = VW__PAGE_STEPS,
                              .slot_count = VW__PAGE_SLOTS};
    int file = open(name_in_folder(name), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, &header, sizeof header, 0), sizeof header);
    assert_int_equal(ftruncate(file, VW__PAGE_BYTES), 0);
    assert_int_equal(fchown(file, user, (gid_t)-1), 0);
    assert_int_equal(fcntl(file, F_OFD_SETLK, lock), 0);
    return file;
}

static void a_user_who_floods_the_folder_keeps_nobody_out(void **state)
{
    (void)state;
    enum { FLOOD = 100, LEFT_OUT = FLOOD - 61 }; /* 61 pages of 17 are the first over 1024 */
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int files[FLOOD];
    if (geteuid() != 0)
        skip(); /* only root can give a file away */
    for (int i = 0; i < FLOOD; i++) {
        char name[40];
        snprintf(name, sizeof name, VW__PAGE_NAME "12345-%d-0", i);
        files[i] = make_hollow(name, 12345, &lock);
    }
    vw_live_page *page = make_page();
    vw_jobs *jobs = read_shared();
    assert_int_equal(jobs->job_count, FLOOD - LEFT_OUT + 1);
    assert_int_equal(jobs->refused_count, LEFT_OUT);
    assert_int_equal(jobs->jobs[0].user, 0);
    assert_int_equal(jobs->jobs[0].devices[0].values[0], 77);
    vw_jobs_free(jobs);
    for (int i = 0; i < FLOOD; i++)
        close(files[i]);
    jobs = read_shared();
    assert_int_equal(jobs->job_count, 1);
    assert_int_equal(jobs->stale_count,
                     FLOOD); /* and removed, as root and who has the folder may */
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

static vw_live_page *make_page_in(const char *path)
{
    vw_live_page *page = NULL;
    assert_int_equal(vw_live_page_create(path, NULL, &page), VW_OK);
    return page;
}

static vw_jobs *read_after(const char *path, const vw_jobs *before)
{
    const vw_jobs_shared options = {
        .struct_size = sizeof options, .pod_folder = "/no/such/folder", .before = before};
    vw_jobs *jobs = NULL;
    assert_int_equal(vw_jobs_read_shared(path, &options, &jobs), VW_OK);
    assert_int_equal(jobs->job_count, 1);
    assert_non_null(jobs->jobs[0].container);
    return jobs;
}

/* On tmpfs, as pages are: elsewhere the kernel's list may have other numbers than stat(). */
static void a_container_is_looked_for_once_for_each_file(void **state)
{
    (void)state;
    char path[] = "/dev/shm/vramwise-shared-XXXXXX";
    assert_non_null(mkdtemp(path));
    assert_int_equal(chmod(path, 03777), 0);
    vw_live_page *page = make_page_in(path);
    vw_jobs *first = read_after(path, NULL);
    snprintf(((vw_job_container *)(uintptr_t)first->jobs[0].container)->pod, 254, "known");
    vw_jobs *second = read_after(path, first);
    assert_string_equal(second->jobs[0].container->pod, "known");
    vw_jobs_free(first);
    vw_live_page_destroy(page);
    page = make_page_in(path);
    vw_jobs *third = read_after(path, second);
    assert_string_equal(third->jobs[0].container->pod, "");
    vw_jobs_free(second);
    vw_jobs_free(third);
    vw_live_page_destroy(page);
    assert_int_equal(rmdir(path), 0);
}

static bool read_shared_and_free(void *context)
{
    (void)context;
    vw_jobs *jobs = NULL;
    vw_status status = vw_jobs_read_shared(folder->path, NULL, &jobs);
    if (status != VW_OK)
        assert_int_equal(status, VW_ERR_HOST_MEMORY);
    vw_jobs_free(jobs);
    return status == VW_OK;
}

static void every_failing_allocation_is_said_of_all_users(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    assert_int_equal(vw_live_page_step(page, 0, 1, 5, 6), VW_OK);
    vw_test_sweep_host_memory(read_shared_and_free, NULL);
    vw_live_page_destroy(page);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* A page that was cut short by somebody: it is stale, or its sizes are not its file's. */
static void a_cut_page_is_not_read_past_its_end(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    assert_int_equal(truncate(vw_live_page_path(page), VW__PAGE_FIRST_SLOT + 64), 0);
    vw_jobs *jobs = read_one();
    assert_int_equal(jobs->jobs[0].state, VW_JOB_OTHER_VERSION);
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
}

/* ---- many ------------------------------------------------------------------------------------ */

static int publish(void *context)
{
    vw_live_page *page = NULL;
    const uint64_t *value = context;
    if (vw_live_process_page(&page) != VW_OK)
        return 1;
    return vw_live_page_put(page, 0, NULL, value, 1) == VW_OK ? 0 : 2;
}

enum { MANY = 64 };

static void jobs_of_64_processes_are_read_by_process_number(void **state)
{
    (void)state;
    live_child children[MANY];
    for (uint64_t i = 0; i < MANY; i++)
        children[i] = live_child_start(publish, &i);
    vw_jobs *jobs = live_folder_read(folder);
    assert_int_equal(jobs->job_count, MANY);
    for (size_t i = 0; i < MANY; i++) {
        assert_true(i == 0 || jobs->jobs[i - 1].process < jobs->jobs[i].process);
        const vw_job *job = vw_jobs_find(jobs, children[i].process);
        assert_non_null(job);
        assert_int_equal(job->devices[0].values[0], i);
    }
    vw_jobs_free(jobs);
    for (size_t i = 0; i < MANY; i++) {
        if (i % 2 == 0)
            live_child_kill(&children[i]);
        else
            assert_int_equal(live_child_end(&children[i]), 0);
    }
    jobs = live_folder_read(folder);
    assert_int_equal(jobs->job_count, 0);
    assert_int_equal(jobs->stale_count, MANY / 2);
    vw_jobs_free(jobs);
    assert_int_equal(live_folder_count(folder), 0);
}

/* ---- while it is read ------------------------------------------------------------------------ */

typedef struct cutter {
    char path[200];
    atomic_bool is_over;
} cutter;

/* Cuts the page off behind its header, and makes it as long as it was, over and over. */
static void *cut_and_mend(void *context)
{
    enum { CUTS = 5000 };
    cutter *given = context;
    for (int i = 0; i < CUTS; i++)
        if (truncate(given->path, VW__PAGE_FIRST_SLOT) != 0 ||
            truncate(given->path, VW__PAGE_BYTES) != 0)
            break;
    atomic_store(&given->is_over, true);
    return NULL;
}

/* Who has it mapped is ended by a signal. */
static void a_page_that_is_cut_off_meanwhile_harms_no_reader(void **state)
{
    (void)state;
    pthread_t thread;
    cutter given = {.is_over = false};
    vw_live_page *page = make_page();
    for (int i = 1; i < VW__PAGE_SLOTS; i++) /* so that reading takes a while */
        assert_int_equal(vw_live_page_put(page, i, "card", NULL, 0), VW_OK);
    snprintf(given.path, sizeof given.path, "%s", vw_live_page_path(page));
    assert_int_equal(pthread_create(&thread, NULL, cut_and_mend, &given), 0);
    while (!atomic_load(&given.is_over)) {
        vw_jobs *jobs = live_folder_read(folder);
        assert_int_equal(jobs->job_count + jobs->refused_count, 1);
        vw_jobs_free(jobs);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    vw_live_page_destroy(page);
}

/* ---- no memory ------------------------------------------------------------------------------- */

static bool read_and_free(void *context)
{
    vw_jobs *jobs = NULL;
    (void)context;
    vw_status status = vw_jobs_read(folder->path, &jobs);
    if (status != VW_OK)
        assert_int_equal(status, VW_ERR_HOST_MEMORY);
    else
        assert_int_equal(jobs->jobs[0].device_count, 1);
    vw_jobs_free(jobs);
    return status == VW_OK;
}

static void every_failing_allocation_is_said(void **state)
{
    (void)state;
    vw_live_page *page = make_page();
    vw_test_sweep_host_memory(read_and_free, NULL);
    vw_live_page_destroy(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_folder_has_no_jobs),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
        cmocka_unit_test(the_variable_names_the_folder),
        cmocka_unit_test(of_a_page_of_another_version_only_the_process_is_known),
        cmocka_unit_test(a_page_with_more_fields_or_fewer_is_read),
        cmocka_unit_test(slots_are_where_the_page_says),
        cmocka_unit_test(sizes_that_the_file_has_not_are_not_followed),
        cmocka_unit_test(a_log_longer_than_its_room_is_cut),
        cmocka_unit_test(a_text_without_an_end_ends),
        cmocka_unit_test(a_device_that_does_not_hold_still_is_left_out),
        cmocka_unit_test(many_pages_that_never_hold_still_cost_no_more_than_one),
        cmocka_unit_test(what_is_no_page_is_refused_and_left),
        cmocka_unit_test(an_old_part_of_a_page_is_removed),
        cmocka_unit_test(a_link_is_not_followed),
        cmocka_unit_test(another_users_page_is_refused_and_left),
        cmocka_unit_test(the_group_may_read_a_page_in_a_folder_for_all_and_nowhere_else),
        cmocka_unit_test(pages_of_all_users_are_read_by_user_where_that_is_asked),
        cmocka_unit_test(a_user_who_floods_the_folder_keeps_nobody_out),
        cmocka_unit_test(a_container_is_looked_for_once_for_each_file),
        cmocka_unit_test(every_failing_allocation_is_said_of_all_users),
        cmocka_unit_test(a_cut_page_is_not_read_past_its_end),
        cmocka_unit_test(jobs_of_64_processes_are_read_by_process_number),
        cmocka_unit_test(a_page_that_is_cut_off_meanwhile_harms_no_reader),
        cmocka_unit_test(every_failing_allocation_is_said),
    };
    return cmocka_run_group_tests(tests, live_group_set_up, live_group_tear_down);
}
