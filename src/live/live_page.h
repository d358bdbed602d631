/* live_page.h - the writer's side of a page, for the files that make it.
 *
 *   live_page.c      making one, filling it, removing it
 *   live_process.c   the one page of the process, and its identity by the environment; field names
 */
#ifndef VW_LIVE_LIVE_PAGE_H
#define VW_LIVE_LIVE_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ranked_mutex.h"
#include "live/page_layout.h"

struct vw_live_page {
    vw__mutex lock; /* among the threads of this process; readers never wait for it */
    vw__page_header *header;
    int file; /* holds the lock by which readers know that we live; -1: the parent's, in a child */
    uint32_t fork_generation; /* set at creation, then read-only, as what follows */
    char *path;
    vw_live_page *next; /* all pages of the process, for fork() */
};

static inline vw__page_slot *vw__live_slot(const vw_live_page *page, int number)
{
    return (vw__page_slot *)((char *)page->header + VW__PAGE_FIRST_SLOT +
                             (size_t)number * VW__PAGE_SLOT_BYTES);
}

/* The next request has another name from now on. */
void vw__live_renew_request_key(const vw_live_page *page);

#endif /* VW_LIVE_LIVE_PAGE_H */
