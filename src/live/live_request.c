/* live_request.c - taking a request, and answering it.
 *
 * Whatever has the name of a request, there is another name afterwards: other users may have taken
 * this one, and nobody but them can remove what they put there. */
#include "live/live_request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/signal_guard.h"

/* Private, plain, and put down by this user. */
static bool is_trusted(const struct stat *facts)
{
    return S_ISREG(facts->st_mode) && facts->st_uid == geteuid() &&
           (facts->st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/* A file of ours that cannot be opened just now is looked at again. */
static bool is_taken_by_others(const char *path)
{
    struct stat facts;
    return lstat(path, &facts) == 0 && !is_trusted(&facts);
}

/* Where the kernel cannot tell, somebody may still wait, and is served. */
static bool is_waited_for(int file)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    return fcntl(file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

static bool read_request(int file, vw__live_request *out)
{
    vw__page_request request;
    if (pread(file, &request, sizeof request, 0) != (ssize_t)sizeof request ||
        request.magic != VW__PAGE_REQUEST_MAGIC || request.is_wake > 1 ||
        request.region[sizeof request.region - 1] != '\0')
        return false;
    out->is_wake = request.is_wake != 0;
    memcpy(out->region, request.region, sizeof out->region);
    out->file = file;
    return true;
}

bool vw__live_take_request(const vw_live_page *page, vw__live_request *out)
{
    char path[VW__PAGE_PATH_BYTES];
    if (!vw__page_request_path(vw_live_page_path(page), vw__page_load(&page->header->request_key),
                               path, sizeof path))
        return false;
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) {
        if (errno != ENOENT && is_taken_by_others(path))
            vw__live_renew_request_key(page);
        return false;
    }
    struct stat facts;
    bool is_ours = fstat(file, &facts) == 0 && is_trusted(&facts);
    vw__live_renew_request_key(page);
    if (is_ours && unlink(path) == 0 && /* once, unless it was withdrawn */
        is_waited_for(file) && read_request(file, out))
        return true;
    close(file);
    return false;
}

/* The reader looks at the number first, so that it is written last. */
void vw__live_answer(const vw__live_request *request, vw_status status, uint64_t moved_bytes,
                     uint64_t wait_ns, const char *text)
{
    vw__page_answer answer = {.magic = VW__PAGE_REQUEST_MAGIC,
                              .status = (uint64_t)status,
                              .moved_bytes = moved_bytes,
                              .wait_ns = wait_ns};
    snprintf(answer.text, sizeof answer.text, "%s", status != VW_OK ? text : "");
    const char *bytes = (const char *)&answer;
    size_t head = sizeof answer.magic;
    if (vw__signal_guard_write_at(request->file, bytes + head, sizeof answer - head,
                                  VW__PAGE_ANSWER_OFFSET + head) == (ssize_t)(sizeof answer - head))
        (void)vw__signal_guard_write_at(request->file, bytes, head, VW__PAGE_ANSWER_OFFSET);
    close(request->file);
}
