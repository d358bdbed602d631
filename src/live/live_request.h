/* live_request.h - what others ask of this process, through a file beside its page.
 *
 * Nothing listens inside a job (docs/design/011-live.md): whoever asks puts down a file, and the
 * thread that keeps the page looks for one in each round, which is one system call. A file counts
 * only if it is this user's own, plain and private, and if somebody holds a lock on it, who waits
 * for the answer. The layout is in page_layout.h. */
#ifndef VW_LIVE_LIVE_REQUEST_H
#define VW_LIVE_LIVE_REQUEST_H

#include "live/live_page.h"

typedef struct vw__live_request {
    bool is_wake;                       /* or to park */
    char region[VW__PAGE_REGION_BYTES]; /* "": everything */
    int file;                           /* that the answer goes to */
} vw__live_request;

/* Takes the request that waits, if there is one: its file has no name any more. False: nobody asks,
 * nobody waits for the answer any more, or what is there is not to be trusted. */
bool vw__live_take_request(const vw_live_page *page, vw__live_request *out);

/* Answers, and ends the request. `text` says why, where `status` is a failure. */
void vw__live_answer(const vw__live_request *request, vw_status status, uint64_t moved_bytes,
                     uint64_t wait_ns, const char *text);

#endif /* VW_LIVE_LIVE_REQUEST_H */
