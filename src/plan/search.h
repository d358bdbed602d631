/* search.h - other ways to run the same model: which of them fit, and which are worth it. */
#ifndef VW_PLAN_SEARCH_H
#define VW_PLAN_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/plan.h"
#include "plan/changes.h"

enum { VW__PLAN_SEARCH_MOST_FOUND = 12 };

typedef struct vw__plan_found {
    vw_plan_settings settings;
    uint64_t peak_allocated_bytes;
    uint64_t device_bytes; /* without the error of the prediction */
    double slowdown;
    size_t change_count;
    vw__plan_distance distance;
    bool fits;
} vw__plan_found;

typedef struct vw__plan_search_result {
    vw__plan_found found[VW__PLAN_SEARCH_MOST_FOUND]; /* the fastest first */
    size_t found_count;
    uint64_t least_device_bytes; /* among all that were tried */
    size_t tried_count;
} vw__plan_search_result;

/* `base` is checked and complete. With a card, finds ways that fit and have no needless change, and
 * leave `spare_bytes` of it to the allocator; without one, ways that need less memory.
 * VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__plan_search(const vw_plan_model *model, const vw_plan_settings *base,
                                        double head_share, uint64_t spare_bytes,
                                        vw__plan_search_result *out);

/* ---- search_options.c ------------------------------------------------------------------------ */

enum { VW__PLAN_SEARCH_MOST_OPTIONS = 8 };

/* What one change can be made to. The first value is the present one. */
typedef struct vw__plan_search_options {
    uint64_t values[VW__PLAN_SEARCH_MOST_OPTIONS];
    size_t count;
} vw__plan_search_options;

/* `lists` come zeroed. Not every combination of what is listed is possible. */
void vw__plan_search_list_options(const vw_plan_model *model, const vw_plan_settings *base,
                                  vw__plan_search_options lists[VW__PLAN_CHANGE_COUNT]);

#endif /* VW_PLAN_SEARCH_H */
