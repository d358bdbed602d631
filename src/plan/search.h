/* search.h - other ways to run the same model: which of them fit, and which are worth it. */
#ifndef HR_PLAN_SEARCH_H
#define HR_PLAN_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/plan.h"
#include "plan/changes.h"

enum { HR__SEARCH_MOST_FOUND = 12 };

typedef struct hr__found {
    hr_plan_settings settings;
    uint64_t peak_allocated_bytes;
    uint64_t device_bytes; /* beside what a card has for others; without the error */
    double slowdown;
    size_t change_count;
    hr__distance distance;
    bool fits;
} hr__found;

typedef struct hr__search_result {
    hr__found found[HR__SEARCH_MOST_FOUND]; /* the fastest first */
    size_t found_count;
    uint64_t least_device_bytes; /* of all that were tried */
    size_t tried_count;
} hr__search_result;

/* `base` is checked and complete. With a card: ways that fit, none of which has a change it could
 * do without. Without one: ways that need less. HR_ERR_HOST_MEMORY */
HR_MUST_CHECK hr_status hr__search(const hr_plan_model *model, const hr_plan_settings *base,
                                   double head_share, hr__search_result *out);

/* The largest batch with which `settings` fit their card, everything else as it is; 0: none does.
 * largest_batch.c */
HR_MUST_CHECK hr_status hr__largest_batch(const hr_plan_model *model,
                                          const hr_plan_settings *settings, uint64_t *out);

/* One way, tried: largest_batch.c. A way that no address space holds has UINT64_MAX. */
typedef struct hr__trial {
    uint64_t peak_allocated_bytes;
    uint64_t device_bytes;
    uint64_t worst_bytes; /* with the error counted in: fits if the card has so much */
} hr__trial;
HR_MUST_CHECK hr_status hr__try(const hr_plan_model *model, const hr_plan_settings *settings,
                                hr__trial *out);

#endif /* HR_PLAN_SEARCH_H */
