/* plan_limits.h - what one run of a model may hold of host memory.
 *
 * Whoever publishes a model writes its config. The number of its layers is limited where the config
 * is read; these limits hold whatever follows from it. What a run makes is counted while it is
 * made, so a model that would need more is refused and not planned in part. What listens to a run
 * takes memory of its own, in proportion. SECURITY.md has the promise: change both together. */
#ifndef VW_PLAN_PLAN_LIMITS_H
#define VW_PLAN_PLAN_LIMITS_H

#include <stddef.h>

/* The tables of a tape. */
#define VW__PLAN_MOST_TAPE_BYTES ((size_t)256 << 20)
/* The arena of a run: its modules, and lists of tensors. */
#define VW__PLAN_MOST_MODULE_BYTES ((size_t)192 << 20)

#endif /* VW_PLAN_PLAN_LIMITS_H */
