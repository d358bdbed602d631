/* regions.h - the segments and reservations of a trace, as its events make and end them.
 *
 * A region is a plain segment, or the reservation of an expandable one while anything is mapped in
 * it. A trace does not say which reservation a segment_map belongs to, nor how large reservations
 * are (that depends on the card's memory, which no recording states). It need not: an expandable
 * segment grows from its base, at the end of what was ever mapped or into a gap that was unmapped.
 * So a mapping at [base, highest end so far] belongs to that region, and any other one is the
 * first of a new reservation, at its base.
 *
 * No locks: one thread at a time. */
#ifndef VW_ANALYSIS_REGIONS_H
#define VW_ANALYSIS_REGIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "analysis/ordered_list.h"

typedef struct vw__regions_entry {
    uint64_t address;    /* the key in the list below */
    uint64_t end;        /* behind the highest byte that was ever held */
    uint64_t held_bytes; /* not 0 */
    uint32_t number;     /* counted from 0, in the order in which they came */
    bool is_expandable;
} vw__regions_entry;

/* Regions that are held now, by rising address. */
typedef struct vw__regions {
    vw__ordered_list held; /* vw__regions_entry */
    uint32_t made_count;   /* ever */
} vw__regions;

void vw__regions_init(vw__regions *regions); /* takes no memory yet */
void vw__regions_deinit(vw__regions *regions);

/* The region that holds `address`, or NULL; valid until the next change. */
const vw__regions_entry *vw__regions_find(const vw__regions *regions, uint64_t address);

/* Follows a segment_alloc or segment_map. `*out` (valid until the next change) is the region it is
 * part of; `*is_new`: it began with this. VW_ERR_HOST_MEMORY: nothing changed. */
VW_MUST_CHECK vw_status vw__regions_take(vw__regions *regions, uint64_t address,
                                         uint64_t size_bytes, bool is_expandable,
                                         const vw__regions_entry **out, bool *is_new);

/* Follows a segment_free or segment_unmap. Returns false if no region holds that. `*out` is the
 * region before it; `*is_gone`: it gave back the last of it. */
bool vw__regions_give_back(vw__regions *regions, uint64_t address, uint64_t size_bytes,
                           vw__regions_entry *out, bool *is_gone);

#endif /* VW_ANALYSIS_REGIONS_H */
