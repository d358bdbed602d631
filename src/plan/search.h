/* search.h - other ways to run the same model: which of them fit, and which are worth it. */
#ifndef VW_PLAN_SEARCH_H
#define VW_PLAN_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/plan.h"
#include "plan/changes.h"

enum { VW__SEARCH_MOST_FOUND = 12 };

typedef struct vw__found {
    vw_plan_settings settings;
    uint64_t peak_allocated_bytes;
    uint64_t device_bytes; /* beside what a card has for others; without the error */
    double slowdown;
    size_t change_count;
    vw__distance distance;
    bool fits;
} vw__found;

typedef struct vw__search_result {
    vw__found found[VW__SEARCH_MOST_FOUND]; /* the fastest first */
    size_t found_count;
    uint64_t least_device_bytes; /* of all that were tried */
    size_t tried_count;
} vw__search_result;

/* `base` is checked and complete. With a card: ways that fit, none of which has a change it could
 * do without. Without one: ways that need less. VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__search(const vw_plan_model *model, const vw_plan_settings *base,
                                   double head_share, vw__search_result *out);

/* The largest batch with which `settings` fit their card, everything else as it is; 0: none does.
 * largest_batch.c */
VW_MUST_CHECK vw_status vw__largest_batch(const vw_plan_model *model,
                                          const vw_plan_settings *settings, uint64_t *out);

/* One way, tried: largest_batch.c. A way that no address space holds has UINT64_MAX. */
typedef struct vw__trial {
    uint64_t peak_allocated_bytes;
    uint64_t device_bytes;
    uint64_t worst_bytes; /* with the error counted in: fits if the card has so much */
} vw__trial;
VW_MUST_CHECK vw_status vw__try(const vw_plan_model *model, const vw_plan_settings *settings,
                                vw__trial *out);

#endif /* VW_PLAN_SEARCH_H */
