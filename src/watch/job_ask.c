/* job_ask.c - asks a running job to park or to wake, through a file beside its page.
 *
 * The file is made whole and private before it has its name, and the name is that of the page with
 * another beginning, and a key that the page has: other users, who may write in the same folder,
 * cannot take the name first. Nothing shows the key before the request is there, so that it is made
 * without a name (O_TMPFILE). The job takes the name away when it begins, and has another key from
 * then on; so it has where somebody else has taken the name, who saw a request that nobody took.
 * The answer comes into the file, which stays open here.
 *
 * Whoever asks holds a lock on the file (of its open file description) before it has its name, and
 * as long as it waits; the kernel drops it however the process ends. A job that was stopped finds
 * requests whose askers have given up or were killed, and carries none of them out. A child of
 * fork() keeps the lock until it closes the file or becomes another program. The page has such a
 * lock in the same folder, so a file system without them has no page that could be asked. */
#include "vramwise/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h> /* offsetof */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/signal_guard.h"
#include "base/struct_size.h"
#include "live/page_layout.h"
#include "watch/job_holder.h"

#define LOOK_NS 20000000L /* between two looks for the answer */

enum { MOST_TRIES = 8 }; /* names, while others ask the same job */

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

/* Waits a little. False: the time is over. */
static bool has_time(uint64_t end_ns)
{
    static const struct timespec pause = {0, LOOK_NS};
    if (vw__clock_monotonic_ns() >= end_ns)
        return false;
    nanosleep(&pause, NULL);
    return true;
}

static vw_status fail_ended(const vw_job *job)
{
    return vw__fail(VW_ERR_WRONG_STATE, "process %ld has ended", job->process);
}

static vw_status fail_busy(void)
{
    return vw__fail(VW_ERR_WRONG_STATE, "another request to this process is under way");
}

/* ---- putting it down ------------------------------------------------------------------------- */

typedef enum outcome { PUT_DOWN, NAME_IS_TAKEN, FAILED } outcome; /* FAILED: errno says why */

/* Writes the request, and holds its file from now on. */
static bool is_written(int file, const vw__page_request *request)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return vw__signal_guard_write_at(file, request, sizeof *request, 0) ==
               (ssize_t)sizeof *request &&
           fcntl(file, F_OFD_SETLK, &lock) == 0;
}

static outcome give_name(const char *from, int flags, const char *path)
{
    if (linkat(AT_FDCWD, from, AT_FDCWD, path, flags) == 0)
        return PUT_DOWN;
    return errno == EEXIST ? NAME_IS_TAKEN : FAILED;
}

/* Closes the file of a request that was not put down. */
static outcome closed_unless_put(outcome result, int file)
{
    int reason = errno;
    if (result != PUT_DOWN)
        close(file);
    errno = reason;
    return result;
}

static outcome put_nameless(const char *folder, const char *path, const vw__page_request *request,
                            int *file)
{
    char self[32];
    *file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (*file < 0)
        return FAILED;
    snprintf(self, sizeof self, "/proc/self/fd/%d", *file);
    outcome result = is_written(*file, request) ? give_name(self, AT_SYMLINK_FOLLOW, path) : FAILED;
    return closed_unless_put(result, *file);
}

/* For file systems without nameless files, and where there is no /proc. The first name says nothing
 * about the second. */
static outcome put_named(const char *folder, const char *path, const vw__page_request *request,
                         int *file)
{
    char part[VW__PAGE_PATH_BYTES + 32];
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
        number = vw__clock_monotonic_ns();
    snprintf(part, sizeof part, "%s/." VW__PAGE_REQUEST_NAME "%016" PRIx64, folder, number);
    *file = open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    if (*file < 0)
        return FAILED;
    outcome result = is_written(*file, request) ? give_name(part, 0, path) : FAILED;
    int reason = errno;
    (void)unlink(part);
    errno = reason;
    return closed_unless_put(result, *file);
}

static outcome put_down(const char *path, const vw__page_request *request, int *file)
{
    char folder[VW__PAGE_PATH_BYTES];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    outcome result = put_nameless(folder, path, request, file);
    return result != FAILED ? result : put_named(folder, path, request, file);
}

/* Puts the request down under the name that the job looks for. Where something is there already,
 * another request or what others put there, the job has another name soon. `path` has
 * VW__PAGE_PATH_BYTES. */
static vw_status ask_job(const vw_job *job, const vw__page_request *request, uint64_t end_ns,
                         char *path, int *file)
{
    uint64_t key_now = 0;
    if (!read_key(job, &key_now))
        return fail_ended(job);
    for (int i = 0; i < MOST_TRIES;) {
        uint64_t key = key_now;
        if (!vw__page_request_path(job->path, key, path, VW__PAGE_PATH_BYTES))
            return vw__fail(VW_ERR_FILE, "%s is no page's name", job->path);
        outcome result = put_down(path, request, file);
        if (result == FAILED)
            return fail_file("cannot make", path);
        if (!read_key(job, &key_now)) /* who waits for the answer says so */
            return result == PUT_DOWN ? VW_OK : fail_ended(job);
        if (result == PUT_DOWN) {
            /* Another key: this request was taken; or another was, just before, and nobody looks
             * for the name any more. */
            if (key_now == key || unlink(path) != 0)
                return VW_OK;
            close(*file);
        } else if (key_now == key && !has_time(end_ns)) {
            return fail_busy();
        }
        i += key_now != key;
    }
    return fail_busy();
}

/* ---- the answer ------------------------------------------------------------------------------ */

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

static vw_status wait_for_answer(const vw_job *job, const char *path, int file, uint64_t end_ns,
                                 vw__page_answer *answer)
{
    uint64_t unread = 0;
    while (!has_answer(file, answer)) {
        if (!read_key(job, &unread)) {
            if (has_answer(file, answer))
                break; /* its last */
            (void)unlink(path);
            return fail_ended(job);
        }
        if (!has_time(end_ns)) {
            bool was_taken = is_taken(file);
            (void)unlink(path);
            return vw__fail(VW_ERR_NOT_READY, "process %ld %s", job->process,
                            was_taken ? "is still working on it, and has not answered yet"
                                      : "did not take the request: it is stopped, its vramwise is "
                                        "too old, or it has no pool that could park");
        }
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
    uint64_t end_ns = vw__clock_monotonic_ns() + (uint64_t)(fmin(timeout_seconds, 1e6) * 1e9);
    VW__TRY(ask_job(job, &asked, end_ns, path, &file));
    vw_status status = wait_for_answer(job, path, file, end_ns, &answer);
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
