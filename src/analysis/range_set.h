/* range_set.h - which addresses are held, as disjoint ranges.
 *
 * A trace takes and gives back memory in pieces that need not match: an expandable segment is
 * mapped in one piece and unmapped in three. So what is held is kept as ranges, joined where they
 * touch.
 *
 * No locks: one thread at a time. */
#ifndef VW_ANALYSIS_RANGE_SET_H
#define VW_ANALYSIS_RANGE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "analysis/ordered_list.h"

typedef struct vw__range_set_range {
    uint64_t begin; /* the key in the list below */
    uint64_t end;   /* > begin */
} vw__range_set_range;

/* Ranges rise and do not touch: each ends in front of where the next begins. */
typedef struct vw__range_set {
    vw__ordered_list ranges; /* vw__range_set_range */
} vw__range_set;

void vw__range_set_init(vw__range_set *set); /* takes no memory yet */
void vw__range_set_deinit(vw__range_set *set);

/* Return whether all, or any, of [begin, end) is in the set. Both are false for an empty range. */
bool vw__range_set_covers(const vw__range_set *set, uint64_t begin, uint64_t end);
bool vw__range_set_touches(const vw__range_set *set, uint64_t begin, uint64_t end);

/* Adds [begin, end), whatever of it is there already. VW_ERR_HOST_MEMORY: nothing changed. */
VW_MUST_CHECK vw_status vw__range_set_add(vw__range_set *set, uint64_t begin, uint64_t end);

/* Takes [begin, end) out; what of it was not there is added to `missing`, which may be NULL.
 * VW_ERR_HOST_MEMORY: `missing` may have grown, the set has not changed. */
VW_MUST_CHECK vw_status vw__range_set_remove(vw__range_set *set, uint64_t begin, uint64_t end,
                                             vw__range_set *missing);

#endif /* VW_ANALYSIS_RANGE_SET_H */
