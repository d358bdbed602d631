/* fork_guard.h - detects objects that belong to the parent of a forked process.
 *
 * A child inherits all objects, but neither the threads nor the driver's state. Objects that must
 * not be used there remember the generation in which they were made and compare it; that is one
 * load, cheap enough for the hottest path. */
#ifndef VW_BASE_FORK_GUARD_H
#define VW_BASE_FORK_GUARD_H

#include <stdbool.h>
#include <stdint.h>

extern uint32_t vw__fork_count; /* of this process; written only in a child before it has threads */

/* Begins counting; call it before the first object is made. Idempotent, any thread. */
void vw__fork_guard_start(void);

static inline uint32_t vw__fork_generation(void)
{
    return vw__fork_count;
}

#endif /* VW_BASE_FORK_GUARD_H */
