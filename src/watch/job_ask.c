/* job_ask.c - asks a running job to park or to wake, through a file beside its page.
 *
 * The file is made whole and private before it has its name, and the name is that of the page with
 * another beginning, and a key that the page has: other users, who may write in the same folder,
 * cannot take the name first. The job takes the name away when it begins, and has another key from
 * then on; the answer comes into the file, which stays open here. */
#include "vramwise/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h> /* offsetof */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "live/page_layout.h"
#include "watch/job_holder.h"

#define LOOK_NS 20000000L /* between two looks for the answer */

enum { MOST_TRIES = 8 }; /* while others ask the same job */

static vw_status fail_file(const char *doing, const char *path)
{
    int reason = errno;
    return vw__fail(VW_ERR_FILE, "%s %s: %s", doing, path, strerror(reason));
}

/* False: there is no page of ours any more, or its process was killed. */
static bool read_key(const vw_job *job, uint64_t *key)
{
    struct stat facts;
    int file = open(job->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0)
        return false;
    bool is_page = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) &&
                   facts.st_uid == geteuid() && !vw__job_holder_is_gone(file);
    if (is_page && pread(file, key, sizeof *key, offsetof(vw__page_header, request_key)) !=
                       (ssize_t)sizeof *key)
        *key = 0;
    close(file);
    return is_page;
}

static vw_status fail_ended(const vw_job *job)
{
    return vw__fail(VW_ERR_WRONG_STATE, "process %ld has ended", job->process);
}

static vw_status fail_busy(void)
{
    return vw__fail(VW_ERR_WRONG_STATE, "another request to this process is under way");
}

/* A file without a name of its own until it is whole. */
static vw_status put_down(const char *path, const vw__page_request *request, int *file)
{
    char part[VW__PAGE_PATH_BYTES + 16];
    snprintf(part, sizeof part, "%s.%ld", path, (long)getpid());
    (void)unlink(part); /* of a process that had our number and was killed */
    *file = open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    if (*file < 0)
        return fail_file("cannot create", part);
    vw_status status = VW_OK;
    if (pwrite(*file, request, sizeof *request, 0) != (ssize_t)sizeof *request)
        status = fail_file("cannot write", part);
    else if (link(part, path) != 0)
        status = errno == EEXIST ? fail_busy() : fail_file("cannot make", path);
    (void)unlink(part);
    if (status != VW_OK)
        close(*file);
    return status;
}

/* Puts the request down under the name that the job looks for. `path` has VW__PAGE_PATH_BYTES. */
static vw_status ask_job(const vw_job *job, const vw__page_request *request, char *path, int *file)
{
    uint64_t key_now = 0;
    if (!read_key(job, &key_now))
        return fail_ended(job);
    for (int i = 0; i < MOST_TRIES; i++) {
        uint64_t key = key_now;
        if (!vw__page_request_path(job->path, key, path, VW__PAGE_PATH_BYTES))
            return vw__fail(VW_ERR_FILE, "%s is no page's name", job->path);
        VW__TRY(put_down(path, request, file));
        if (!read_key(job, &key_now) || key_now == key)
            return VW_OK; /* if it has ended, who waits for the answer says so */
        /* Taken; or another request was, just before, and nobody looks for the name any more. */
        if (unlink(path) != 0)
            return VW_OK;
        close(*file);
    }
    return fail_busy();
}

static bool has_answer(int file, vw__page_answer *answer)
{
    return pread(file, &answer->magic, sizeof answer->magic, VW__PAGE_ANSWER_OFFSET) ==
               (ssize_t)sizeof answer->magic &&
           answer->magic == VW__PAGE_REQUEST_MAGIC &&
           pread(file, answer, sizeof *answer, VW__PAGE_ANSWER_OFFSET) == (ssize_t)sizeof *answer;
}

static bool is_taken(int file)
{
    struct stat facts;
    return fstat(file, &facts) == 0 && facts.st_nlink == 0;
}

static vw_status wait_for_answer(const vw_job *job, const char *path, int file, uint64_t wait_ns,
                                 vw__page_answer *answer)
{
    static const struct timespec pause = {0, LOOK_NS};
    uint64_t end_ns = vw__clock_monotonic_ns() + wait_ns, unread = 0;
    while (!has_answer(file, answer)) {
        if (!read_key(job, &unread)) {
            if (has_answer(file, answer))
                break; /* its last */
            (void)unlink(path);
            return fail_ended(job);
        }
        if (vw__clock_monotonic_ns() >= end_ns) {
            bool was_taken = is_taken(file);
            (void)unlink(path);
            return vw__fail(VW_ERR_NOT_READY, "process %ld %s", job->process,
                            was_taken ? "is still working on it, and has not answered yet"
                                      : "did not take the request: it is stopped, its vramwise is "
                                        "too old, or it has no pool that could park");
        }
        nanosleep(&pause, NULL);
    }
    return VW_OK;
}

vw_status vw_job_ask(const vw_job *job, vw_job_request request, const char *region,
                     double timeout_seconds, vw_job_answer *out)
{
    vw__page_request asked = {.magic = VW__PAGE_REQUEST_MAGIC, .is_wake = request == VW_JOB_WAKE};
    vw__page_answer answer = {.magic = 0};
    char path[VW__PAGE_PATH_BYTES];
    int file = -1;
    if (job == NULL || (request != VW_JOB_PARK && request != VW_JOB_WAKE) ||
        !(timeout_seconds >= 0.0))
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a job, a request and a time to wait");
    VW__TRY(VW__STRUCT_CHECK_OUT(vw_job_answer, out));
    if (region != NULL && strlen(region) >= sizeof asked.region)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no region has so long a name");
    if (region != NULL)
        snprintf(asked.region, sizeof asked.region, "%s", region);
    VW__TRY(ask_job(job, &asked, path, &file));
    vw_status status =
        wait_for_answer(job, path, file, (uint64_t)(fmin(timeout_seconds, 1e6) * 1e9), &answer);
    close(file);
    VW__TRY(status);
    vw_job_answer all = {.struct_size = sizeof all,
                         .status = (vw_status)answer.status,
                         .moved_bytes = answer.moved_bytes,
                         .wait_ns = answer.wait_ns};
    answer.text[sizeof answer.text - 1] = '\0';
    snprintf(all.text, sizeof all.text, "%s", answer.text);
    VW__STRUCT_OUT(vw_job_answer, &all, out);
    return VW_OK;
}
