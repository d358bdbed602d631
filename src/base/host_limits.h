/* host_limits.h - how much of the machine's memory a process may lock.
 *
 * Page-locked memory cannot be swapped out: locking more than there is takes the machine down, and
 * locking more than the container allows gets the process killed. So three numbers are checked
 * before: free memory, the limits of the control groups, and `ulimit -l`. Safe from any thread. */
#ifndef VW_BASE_HOST_LIMITS_H
#define VW_BASE_HOST_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/status.h"

/* UINT64_MAX: no limit, or unknown. */
typedef struct vw__host_limits {
    uint64_t free_bytes;   /* available without swapping (MemAvailable) */
    uint64_t group_bytes;  /* lowest limit among the control groups of this process */
    uint64_t locked_bytes; /* `ulimit -l` */
} vw__host_limits;

/* `root` is put before every path: "" for this machine, a folder for tests (locked_bytes is then
 * UINT64_MAX). What cannot be read is no limit. */
void vw__host_limits_read(const char *root, vw__host_limits *out);

/* VW_ERR_INVALID_ARGUMENT if `wanted_bytes` exceeds one of the numbers; the last counts only if
 * `is_locking`. The message has all three, and begins with `what`: "a spill_bytes". */
VW_MUST_CHECK vw_status vw__host_limits_check(const vw__host_limits *limits, const char *what,
                                              uint64_t wanted_bytes, bool is_locking);

#endif /* VW_BASE_HOST_LIMITS_H */
