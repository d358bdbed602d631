/* test_job_ask.c - a job that is asked from outside to park or wake, and what it does not listen
 * to.
 *
 * A process has one list of pools and one thread that serves requests, so each case is a process of
 * its own, which asks itself. It answers by its exit status: 0, or the line that went wrong. */
#include "vramwise/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h> /* offsetof */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vramwise/park.h"
#include "live/page_layout.h"
#include "support/cmocka_here.h"
#include "support/live_folder.h"

#define MIB (UINT64_C(1) << 20)
#define PATIENCE_SECONDS 60.0

static live_folder *const folder = &live_group_folder;

const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0:atexit_sleep_ms=0";
}

#define EXPECT(claim)                                                                              \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #claim, vw_last_error());               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* ---- a job ----------------------------------------------------------------------------------- */

static bool yes(void *context)
{
    (void)context;
    return true;
}

static void nothing(void *context)
{
    (void)context;
}

typedef struct job_pool {
    vw_device *device;
    vw_pool *pool;
} job_pool;

static job_pool open_pool(const char *engine, bool has_guard)
{
    job_pool made = {NULL, NULL};
    vw_pool_options options = {
        .struct_size = sizeof options, .engine = engine, .safe_point = {yes, nothing, NULL}};
    if (has_guard)
        options.park_guard = (vw_park_guard){.hold = yes, .let_go = nothing};
    EXPECT(vw_host_device_create(64 * MIB, &made.device) == VW_OK);
    made.device->properties.index = 0;
    EXPECT(vw_pool_create(made.device, &options, &made.pool) == VW_OK);
    return made;
}

static void close_pool(job_pool *made)
{
    vw_pool_destroy(made->pool);
    vw_device_destroy(made->device);
}

static uint64_t in_use_bytes(const job_pool *made)
{
    vw_device_calls calls;
    EXPECT(vw_device_get_calls(made->device, &calls) == VW_OK);
    return calls.in_use_bytes;
}

static vw_device_ptr filled(const job_pool *made, uint64_t size_bytes, int value)
{
    vw_device_ptr address = VW_NULL;
    EXPECT(vw_alloc(made->pool, size_bytes, 0, &address) == VW_OK);
    memset((void *)(uintptr_t)address, value, size_bytes);
    return address;
}

static bool is_there(const vw_jobs *jobs, void *context)
{
    (void)context;
    return vw_jobs_find(jobs, getpid()) != NULL;
}

static vw_status ask(vw_job_request request, const char *region, double seconds,
                     vw_job_answer *answer)
{
    vw_jobs *jobs = live_folder_wait(folder, is_there, NULL);
    *answer = (vw_job_answer){.struct_size = sizeof *answer};
    vw_status status = vw_job_ask(vw_jobs_find(jobs, getpid()), request, region, seconds, answer);
    vw_jobs_free(jobs);
    return status;
}

/* ---- the cases ------------------------------------------------------------------------------- */

static void *ask_for_memory(void *context)
{
    vw_device_ptr address = VW_NULL;
    EXPECT(vw_alloc(context, MIB, 0, &address) == VW_OK);
    return NULL;
}

static int parks_and_wakes(void *context)
{
    (void)context;
    vw_job_answer answer;
    pthread_t thread;
    job_pool made = open_pool("vramwise", true);
    vw_device_ptr block = filled(&made, 10 * MIB, 7);
    EXPECT(ask(VW_JOB_PARK, NULL, PATIENCE_SECONDS, &answer) == VW_OK);
    EXPECT(answer.status == VW_OK && answer.moved_bytes >= 10 * MIB && answer.wait_ns > 0);
    EXPECT(in_use_bytes(&made) == 0);
    EXPECT(pthread_create(&thread, NULL, ask_for_memory, made.pool) == 0); /* waits */
    EXPECT(vw_device_set_capacity(made.device, MIB) == VW_OK);
    EXPECT(ask(VW_JOB_WAKE, NULL, PATIENCE_SECONDS, &answer) == VW_OK);
    EXPECT(answer.status == VW_ERR_OUT_OF_MEMORY && strstr(answer.text, "to wake takes") != NULL);
    EXPECT(vw_device_set_capacity(made.device, 64 * MIB) == VW_OK);
    EXPECT(ask(VW_JOB_WAKE, NULL, PATIENCE_SECONDS, &answer) == VW_OK);
    EXPECT(answer.status == VW_OK && answer.moved_bytes >= 10 * MIB);
    pthread_join(thread, NULL);
    EXPECT(*(const uint8_t *)(uintptr_t)(block + 10 * MIB - 1) == 7);
    EXPECT(ask(VW_JOB_WAKE, NULL, PATIENCE_SECONDS, &answer) == VW_OK); /* it is awake */
    EXPECT(answer.status == VW_OK && answer.moved_bytes == 0);
    vw_job_answer *old = malloc(offsetof(vw_job_answer, moved_bytes)); /* of an older header */
    EXPECT(old != NULL);
    old->struct_size = offsetof(vw_job_answer, moved_bytes);
    vw_jobs *jobs = live_folder_read(folder);
    EXPECT(vw_job_ask(vw_jobs_find(jobs, getpid()), VW_JOB_WAKE, NULL, PATIENCE_SECONDS, old) ==
           VW_OK);
    EXPECT(old->status == VW_OK);
    vw_jobs_free(jobs);
    free(old);
    EXPECT(live_folder_count(folder) == 1); /* the page alone */
    close_pool(&made);
    return 0;
}

static int parks_a_region_by_its_name(void *context)
{
    (void)context;
    const vw_private_id id = {4, 1};
    vw_job_answer answer;
    job_pool made = open_pool("vramwise", true);
    filled(&made, 4 * MIB, 1);
    EXPECT(vw_private_pool_begin(made.pool, id, NULL, NULL) == VW_OK);
    EXPECT(vw_private_pool_set_region(made.pool, id, "weights", true) == VW_OK);
    vw_device_ptr block = filled(&made, 10 * MIB, 7);
    EXPECT(vw_private_pool_end(made.pool, id) == VW_OK);
    uint64_t before = in_use_bytes(&made);
    EXPECT(ask(VW_JOB_PARK, "weights", PATIENCE_SECONDS, &answer) == VW_OK);
    EXPECT(answer.status == VW_OK && in_use_bytes(&made) == before - answer.moved_bytes);
    EXPECT(ask(VW_JOB_PARK, "others", PATIENCE_SECONDS, &answer) == VW_OK);
    EXPECT(answer.status == VW_ERR_INVALID_ARGUMENT && strstr(answer.text, "\"others\"") != NULL);
    EXPECT(ask(VW_JOB_WAKE, "weights", PATIENCE_SECONDS, &answer) == VW_OK);
    EXPECT(answer.status == VW_OK && in_use_bytes(&made) == before);
    EXPECT(*(const uint8_t *)(uintptr_t)block == 7);
    close_pool(&made);
    return 0;
}

static int says_why_it_cannot(void *context)
{
    (void)context;
    vw_job_answer answer;
    job_pool made = open_pool("torch", true);
    EXPECT(ask(VW_JOB_PARK, NULL, PATIENCE_SECONDS, &answer) == VW_OK);
    EXPECT(answer.status == VW_ERR_UNSUPPORTED && strstr(answer.text, "can park") != NULL);
    close_pool(&made);
    made = open_pool("vramwise", true);
    job_pool without_guard = open_pool("vramwise", false);
    filled(&made, 4 * MIB, 1);
    uint64_t before = in_use_bytes(&made);
    EXPECT(ask(VW_JOB_PARK, NULL, PATIENCE_SECONDS, &answer) == VW_OK);
    EXPECT(answer.status == VW_ERR_UNSUPPORTED && strstr(answer.text, "vw_park_guard") != NULL);
    EXPECT(in_use_bytes(&made) == before); /* woken, if it came first */
    close_pool(&without_guard);
    close_pool(&made);
    return 0;
}

static int leaves_alone_what_the_job_has_parked(void *context)
{
    (void)context;
    const vw_private_id id = {4, 1};
    const vw_park_options region = {.struct_size = sizeof region, .only = &id};
    vw_job_answer answer;
    job_pool made = open_pool("vramwise", false);
    EXPECT(vw_private_pool_begin(made.pool, id, NULL, NULL) == VW_OK);
    EXPECT(vw_private_pool_set_region(made.pool, id, "weights", true) == VW_OK);
    filled(&made, 10 * MIB, 7);
    EXPECT(vw_private_pool_end(made.pool, id) == VW_OK);
    EXPECT(vw_pool_park(made.pool, &region, NULL) == VW_OK);
    uint64_t before = in_use_bytes(&made);
    EXPECT(ask(VW_JOB_PARK, NULL, PATIENCE_SECONDS, &answer) == VW_OK);
    EXPECT(answer.status == VW_ERR_UNSUPPORTED);
    EXPECT(in_use_bytes(&made) == before); /* the region is parked still */
    close_pool(&made);
    return 0;
}

/* Where a request to this process is looked for now. */
static void find_request_path(char *path)
{
    uint64_t key = 0;
    vw_jobs *jobs = live_folder_wait(folder, is_there, NULL);
    const char *page = vw_jobs_find(jobs, getpid())->path;
    int file = open(page, O_RDONLY);
    EXPECT(pread(file, &key, sizeof key, offsetof(vw__page_header, request_key)) == sizeof key);
    EXPECT(key != 0 && vw__page_request_path(page, key, path, VW__PAGE_PATH_BYTES));
    close(file);
    vw_jobs_free(jobs);
}

/* The job has seen what is there, and left it. */
static void wait_for_other_name(const char *path)
{
    char now[VW__PAGE_PATH_BYTES];
    for (find_request_path(now); strcmp(path, now) == 0; find_request_path(now))
        usleep(1000);
}

/* As on file systems that have none, for this thread. */
static void refuse_nameless_files(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, O_TMPFILE),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_TMPFILE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof program / sizeof program[0], program};
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
    EXPECT(open(folder->path, O_TMPFILE | O_RDWR, 0600) < 0 && errno == EOPNOTSUPP);
}

/* Folders cannot be unlinked, nor can files of others in a folder with the sticky bit. */
static int is_reached_though_others_take_names(void *context)
{
    (void)context;
    char path[VW__PAGE_PATH_BYTES], next[VW__PAGE_PATH_BYTES];
    vw_job_answer answer;
    job_pool made = open_pool("vramwise", true);
    filled(&made, 4 * MIB, 1);
    vw_jobs *jobs = live_folder_wait(folder, is_there, NULL);
    EXPECT(vw__page_request_path(vw_jobs_find(jobs, getpid())->path, 0, path, sizeof path));
    EXPECT(mkdir(path, 0755) == 0);
    find_request_path(path);
    EXPECT(ask(VW_JOB_PARK, NULL, PATIENCE_SECONDS, &answer) == VW_OK);
    EXPECT(answer.status == VW_OK && in_use_bytes(&made) == 0);
    find_request_path(next);
    EXPECT(strcmp(path, next) != 0);
    EXPECT(mkdir(path, 0755) == 0); /* the last name was there for all to see */
    EXPECT(ask(VW_JOB_WAKE, NULL, PATIENCE_SECONDS, &answer) == VW_OK);
    EXPECT(answer.status == VW_OK && in_use_bytes(&made) != 0);
    EXPECT(rmdir(path) == 0);
    EXPECT(vw__page_request_path(vw_jobs_find(jobs, getpid())->path, 0, path, sizeof path));
    EXPECT(rmdir(path) == 0);
    vw_jobs_free(jobs);
    close_pool(&made);
    return 0;
}

/* Who has seen a name that no request has any more, and takes it. */
static int gives_up_names_that_others_have(void *context)
{
    (void)context;
    char path[VW__PAGE_PATH_BYTES], next[VW__PAGE_PATH_BYTES];
    vw_job_answer answer;
    job_pool made = open_pool("vramwise", true);
    filled(&made, 4 * MIB, 1);
    for (int i = 0; i < 3; i++) {
        find_request_path(path);
        int file = i == 0 ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        EXPECT(i == 0 ? mkdir(path, 0700) == 0 : file >= 0);
        if (i == 1)
            EXPECT(fchmod(file, 0666) == 0);
        if (i == 2 && fchown(file, 65534, (gid_t)-1) != 0) /* takes root */
            EXPECT(unlink(path) == 0);
        EXPECT(ask(VW_JOB_PARK, NULL, PATIENCE_SECONDS, &answer) == VW_OK);
        EXPECT(answer.status == VW_OK && in_use_bytes(&made) == 0);
        EXPECT(ask(VW_JOB_WAKE, NULL, PATIENCE_SECONDS, &answer) == VW_OK);
        find_request_path(next);
        EXPECT(strcmp(path, next) != 0);
        (void)remove(path);
        close(file);
    }
    close_pool(&made);
    return 0;
}

/* Names that came into the folder since `watch` was made: how many have `key` in them? */
static int names_with(int watch, const char *key)
{
    char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    int count = 0;
    for (ssize_t size; (size = read(watch, events, sizeof events)) > 0;) {
        for (char *at = events; at < events + size;) {
            const struct inotify_event *event = (const struct inotify_event *)(void *)at;
            count += event->len != 0 && strstr(event->name, key) != NULL;
            at += sizeof *event + event->len;
        }
    }
    return count;
}

static int shows_its_key_in_no_name_but_its_own(void *context)
{
    char path[VW__PAGE_PATH_BYTES];
    vw_job_answer answer;
    vw_live_page *page = NULL;
    EXPECT(vw_live_process_page(&page) == VW_OK); /* and no pool: nobody takes the request */
    find_request_path(path);
    if (context != NULL)
        refuse_nameless_files();
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    EXPECT(watch >= 0 && inotify_add_watch(watch, folder->path, IN_CREATE | IN_MOVED_TO) >= 0);
    EXPECT(ask(VW_JOB_PARK, NULL, 0.05, &answer) == VW_ERR_NOT_READY);
    EXPECT(names_with(watch, strrchr(path, '-')) == 1);
    EXPECT(live_folder_count(folder) == 1);
    close(watch);
    return 0;
}

static int works_without_nameless_files(void *context)
{
    (void)context;
    vw_job_answer answer;
    job_pool made = open_pool("vramwise", true);
    filled(&made, 4 * MIB, 1);
    refuse_nameless_files();
    EXPECT(ask(VW_JOB_PARK, NULL, PATIENCE_SECONDS, &answer) == VW_OK);
    EXPECT(answer.status == VW_OK && in_use_bytes(&made) == 0);
    EXPECT(ask(VW_JOB_WAKE, NULL, PATIENCE_SECONDS, &answer) == VW_OK && answer.status == VW_OK);
    EXPECT(live_folder_count(folder) == 1);
    close_pool(&made);
    return 0;
}

/* What somebody careless could put there. */
static int listens_to_nobody_else(void *context)
{
    (void)context;
    char path[VW__PAGE_PATH_BYTES];
    const vw__page_request request = {.magic = VW__PAGE_REQUEST_MAGIC};
    job_pool made = open_pool("vramwise", true);
    filled(&made, 4 * MIB, 1);
    find_request_path(path);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    EXPECT(file >= 0 && fchmod(file, 0666) == 0);
    EXPECT(write(file, &request, sizeof request) == (ssize_t)sizeof request);
    wait_for_other_name(path);
    EXPECT(access(path, F_OK) == 0 && in_use_bytes(&made) != 0);
    EXPECT(unlink(path) == 0);
    close(file);
    find_request_path(path);
    EXPECT(symlink("/dev/null", path) == 0);
    wait_for_other_name(path);
    EXPECT(in_use_bytes(&made) != 0 && unlink(path) == 0);
    find_request_path(path);
    file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600); /* ours, and no request */
    EXPECT(file >= 0 && write(file, "park", 4) == 4);
    while (access(path, F_OK) == 0)
        usleep(1000);
    EXPECT(in_use_bytes(&made) != 0);
    close(file);
    close_pool(&made);
    return 0;
}

/* Puts a request to park down, whole and private, and waits until the job has taken it. */
static void have_it_take_a_request(bool is_waited_for)
{
    char path[VW__PAGE_PATH_BYTES], self[32];
    const vw__page_request request = {.magic = VW__PAGE_REQUEST_MAGIC};
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char answered = 0;
    int file = open(folder->path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    EXPECT(file >= 0 && write(file, &request, sizeof request) == (ssize_t)sizeof request);
    EXPECT(!is_waited_for || fcntl(file, F_OFD_SETLK, &lock) == 0);
    find_request_path(path); /* nobody else asks: the key stays */
    snprintf(self, sizeof self, "/proc/self/fd/%d", file);
    EXPECT(linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0);
    while (access(path, F_OK) == 0)
        usleep(1000);
    if (is_waited_for)
        while (pread(file, &answered, 1, VW__PAGE_ANSWER_OFFSET) != 1)
            usleep(1000);
    close(file);
}

/* One that was interrupted, or killed, while the job was stopped. */
static int parks_for_nobody_who_has_gone(void *context)
{
    (void)context;
    vw_job_answer answer;
    job_pool made = open_pool("vramwise", true);
    filled(&made, 4 * MIB, 1);
    have_it_take_a_request(false);
    EXPECT(ask(VW_JOB_WAKE, NULL, PATIENCE_SECONDS, &answer) == VW_OK); /* the round is over */
    EXPECT(answer.status == VW_OK && answer.moved_bytes == 0 && in_use_bytes(&made) != 0);
    have_it_take_a_request(true);
    EXPECT(in_use_bytes(&made) == 0);
    EXPECT(live_folder_count(folder) == 1);
    close_pool(&made);
    return 0;
}

static int is_not_waited_for_for_ever(void *context)
{
    (void)context;
    vw_job_answer answer;
    vw_live_page *page = NULL;
    EXPECT(vw_live_process_page(&page) == VW_OK); /* and no pool */
    EXPECT(ask(VW_JOB_PARK, NULL, 0.05, &answer) == VW_ERR_NOT_READY);
    EXPECT(strstr(vw_last_error(), "did not take the request") != NULL);
    EXPECT(live_folder_count(folder) == 1);
    char path[VW__PAGE_PATH_BYTES];
    find_request_path(path); /* another request is there */
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    EXPECT(file >= 0 && ask(VW_JOB_PARK, NULL, 0.05, &answer) == VW_ERR_WRONG_STATE);
    EXPECT(strstr(vw_last_error(), "another request") != NULL && unlink(path) == 0);
    close(file);
    EXPECT(ask((vw_job_request)7, NULL, 0.05, &answer) == VW_ERR_INVALID_ARGUMENT);
    EXPECT(ask(VW_JOB_PARK, "a name that is longer than any region's can be, by far", 1, &answer) ==
           VW_ERR_INVALID_ARGUMENT);
    return 0;
}

static int makes_a_page(void *context)
{
    (void)context;
    vw_live_page *page = NULL;
    EXPECT(vw_live_process_page(&page) == VW_OK);
    return 0;
}

static bool has_job(const vw_jobs *jobs, void *context)
{
    return vw_jobs_find(jobs, *(const pid_t *)context) != NULL;
}

static void run(int (*body)(void *context))
{
    assert_int_equal(live_exit_of_child(body, NULL), 0);
}

static void a_job_parks_and_wakes_when_it_is_asked(void **state)
{
    (void)state;
    run(parks_and_wakes);
}

static void a_region_is_asked_for_by_its_name(void **state)
{
    (void)state;
    run(parks_a_region_by_its_name);
}

static void a_request_that_fails_wakes_nothing_that_was_parked_before(void **state)
{
    (void)state;
    run(leaves_alone_what_the_job_has_parked);
}

static void a_job_that_cannot_says_why_and_parks_nothing(void **state)
{
    (void)state;
    run(says_why_it_cannot);
}

static void only_private_files_of_its_own_user_are_requests(void **state)
{
    (void)state;
    run(listens_to_nobody_else);
}

static void a_request_that_nobody_waits_for_any_more_is_not_carried_out(void **state)
{
    (void)state;
    run(parks_for_nobody_who_has_gone);
}

static void names_that_others_take_keep_no_request_away(void **state)
{
    (void)state;
    run(is_reached_though_others_take_names);
}

static void a_name_that_others_have_is_given_up(void **state)
{
    (void)state;
    run(gives_up_names_that_others_have);
}

static void nothing_shows_the_key_before_the_request(void **state)
{
    (void)state;
    run(shows_its_key_in_no_name_but_its_own);
    assert_int_equal(live_exit_of_child(shows_its_key_in_no_name_but_its_own, folder), 0);
}

static void a_file_system_without_nameless_files_will_do(void **state)
{
    (void)state;
    run(works_without_nameless_files);
}

static void a_job_that_does_not_answer_is_not_waited_for_for_ever(void **state)
{
    (void)state;
    run(is_not_waited_for_for_ever);
}

/* It has left its page behind. */
static void a_job_that_was_killed_is_not_waited_for(void **state)
{
    (void)state;
    vw_job_answer answer = {.struct_size = sizeof answer};
    live_child child = live_child_start(makes_a_page, NULL);
    vw_jobs *jobs = live_folder_wait(folder, has_job, &child.process);
    const vw_job *job = vw_jobs_find(jobs, child.process);
    live_child_kill(&child);
    assert_int_equal(vw_job_ask(job, VW_JOB_PARK, NULL, 0.05, &answer), VW_ERR_WRONG_STATE);
    assert_non_null(strstr(vw_last_error(), "has ended"));
    assert_int_equal(live_folder_count(folder), 1); /* the page alone */
    vw_jobs_free(jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_parks_and_wakes_when_it_is_asked),
        cmocka_unit_test(a_region_is_asked_for_by_its_name),
        cmocka_unit_test(a_request_that_fails_wakes_nothing_that_was_parked_before),
        cmocka_unit_test(a_job_that_cannot_says_why_and_parks_nothing),
        cmocka_unit_test(only_private_files_of_its_own_user_are_requests),
        cmocka_unit_test(a_request_that_nobody_waits_for_any_more_is_not_carried_out),
        cmocka_unit_test(names_that_others_take_keep_no_request_away),
        cmocka_unit_test(a_name_that_others_have_is_given_up),
        cmocka_unit_test(nothing_shows_the_key_before_the_request),
        cmocka_unit_test(a_file_system_without_nameless_files_will_do),
        cmocka_unit_test(a_job_that_does_not_answer_is_not_waited_for_for_ever),
        cmocka_unit_test(a_job_that_was_killed_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, live_group_set_up, live_group_tear_down);
}
