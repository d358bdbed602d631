/* fork_guard.h - has this process been forked since?
 *
 * A child inherits every object and none of the threads, the driver's state or the right to use
 * either. Objects that must not be used there remember the generation they were made in and
 * compare; comparing is one load, so it can stand on the hottest path. */
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
