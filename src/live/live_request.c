/* live_request.c - taking a request, and answering it. */
#include "live/live_request.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Private, plain, and put down by this user. */
static bool is_trusted(int file)
{
    struct stat facts;
    return fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == geteuid() &&
           (facts.st_mode & (S_IRWXG | S_IRWXO)) == 0;
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
    if (file < 0)
        return false;
    bool is_ours = is_trusted(file);
    if (is_ours) {
        vw__live_renew_request_key(page);
        (void)unlink(path); /* what it asks is done once */
    }
    if (is_ours && read_request(file, out))
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
    if (pwrite(request->file, bytes + head, sizeof answer - head,
               (off_t)(VW__PAGE_ANSWER_OFFSET + head)) == (ssize_t)(sizeof answer - head))
        (void)!pwrite(request->file, bytes, head, VW__PAGE_ANSWER_OFFSET);
    close(request->file);
}
