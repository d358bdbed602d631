/* range_set.h - which addresses are held, as disjoint ranges.
 *
 * A trace takes and gives back memory in pieces that need not match: an expandable segment is
 * mapped in one piece and unmapped in three. So what is held is kept as ranges, joined where they
 * touch. There are hundreds, rarely thousands: a sorted array does.
 *
 * No locks: one thread at a time. */
#ifndef HR_ANALYSIS_RANGE_SET_H
#define HR_ANALYSIS_RANGE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"

typedef struct hr__address_range {
    uint64_t begin;
    uint64_t end; /* > begin */
} hr__address_range;

/* Ranges rise and do not touch: ranges[i].end < ranges[i + 1].begin. */
typedef struct hr__range_set {
    hr__address_range *ranges; /* owned */
    size_t count;
    size_t capacity;
} hr__range_set;

void hr__range_set_init(hr__range_set *set); /* takes no memory yet */
void hr__range_set_deinit(hr__range_set *set);

/* Is all of [begin, end) in the set; is any of it? Both are false for an empty range. */
bool hr__range_set_covers(const hr__range_set *set, uint64_t begin, uint64_t end);
bool hr__range_set_touches(const hr__range_set *set, uint64_t begin, uint64_t end);

/* Adds [begin, end), whatever of it is there already. HR_ERR_HOST_MEMORY: nothing changed. */
HR_MUST_CHECK hr_status hr__range_set_add(hr__range_set *set, uint64_t begin, uint64_t end);

/* Takes [begin, end) out; what of it was not there is added to `missing`, which may be NULL.
 * HR_ERR_HOST_MEMORY: `missing` may have grown, the set has not changed. */
HR_MUST_CHECK hr_status hr__range_set_remove(hr__range_set *set, uint64_t begin, uint64_t end,
                                             hr__range_set *missing);

#endif /* HR_ANALYSIS_RANGE_SET_H */
