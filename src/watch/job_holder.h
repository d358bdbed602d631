/* job_holder.h - which processes hold the pages of a shared folder, by the kernel's list of locks.
 *
 * The number that a page has of its process is a claim, and in a container another one than here.
 * The kernel's list (/proc/locks) has who locked a file, in the reader's own namespace, and is for
 * all to read. A page of an older vramwise, or one whose process this namespace does not have, has
 * no holder. */
#ifndef VW_WATCH_JOB_HOLDER_H
#define VW_WATCH_JOB_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "vramwise/watch.h" /* vw_job_container */

/* So much of the list is read: anybody can lock their own files as often as they like, and the time
 * that the kernel takes grows with the square of the list, to seconds for 100,000. A page that is
 * behind these has no holder. */
enum { VW__JOB_HOLDER_MOST_LOCKS = 16384 };

typedef struct vw__job_holder {
    dev_t device; /* this and the next two: of the page's file */
    ino_t file;
    uid_t user;
    size_t place;                      /* the caller's own number for it */
    long process;                      /* out: 0 = unknown */
    const vw_job_container *container; /* the caller's; NULL: not known yet */
} vw__job_holder;

/* Sorts `holders`, and fills in the processes of those without a container. `proc_folder` is
 * "/proc". Processes of another user than the file's owner do not count: the number is another's by
 * now. */
void vw__job_holder_find(const char *proc_folder, vw__job_holder *holders, size_t count);

/* The one of the same file, or NULL. `holders` were sorted by the function above. */
const vw__job_holder *vw__job_holder_of_file(const vw__job_holder *holders, size_t count,
                                             dev_t device, ino_t file);

/* Returns whether the process of an open page has ended: nobody holds the lock for life. */
bool vw__job_holder_is_gone(int page_file);

#endif /* VW_WATCH_JOB_HOLDER_H */
