/* host_limits.h - how much of the machine's memory a process may lock.
 *
 * Page-locked memory cannot be swapped out: who locks more than there is takes the machine down,
 * and who locks more than the container may have is killed without a word. So whoever is about to
 * lock a lot looks first at three numbers: what is free, what the control groups around the process
 * allow it, and `ulimit -l`. Safe from any thread. */
#ifndef VW_BASE_HOST_LIMITS_H
#define VW_BASE_HOST_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/status.h"

/* UINT64_MAX: no limit, or it cannot be known. */
typedef struct vw__host_limits {
    uint64_t free_bytes;   /* that can be had without swapping (MemAvailable) */
    uint64_t group_bytes;  /* the tightest of the control groups around this process */
    uint64_t locked_bytes; /* that a process may lock (`ulimit -l`) */
} vw__host_limits;

/* `root` stands before every path that is read: "" for this machine, a folder for tests, which
 * then leaves locked_bytes at UINT64_MAX. What cannot be read is no limit. */
void vw__host_limits_read(const char *root, vw__host_limits *out);

/* VW_ERR_INVALID_ARGUMENT, with the three numbers, where `wanted_bytes` are more than one of them;
 * than the last only if `is_locking`: whoever locks the memory keeps to it. `what` begins the
 * sentence: "a spill_bytes". */
VW_MUST_CHECK vw_status vw__host_limits_check(const vw__host_limits *limits, const char *what,
                                              uint64_t wanted_bytes, bool is_locking);

#endif /* VW_BASE_HOST_LIMITS_H */
