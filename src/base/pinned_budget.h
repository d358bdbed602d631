/* pinned_budget.h - drawing from an hr_pinned_budget. What it is for is said in headroom.h.
 *
 * Two atomic numbers and no lock: whoever draws holds locks of their own. Safe from any thread. */
#ifndef HR_BASE_PINNED_BUDGET_H
#define HR_BASE_PINNED_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "headroom/headroom.h" /* hr_pinned_budget */

/* False: not so much is left, which is counted, and nothing was drawn. From NULL everything can be
 * drawn. */
bool hr__pinned_budget_draw(hr_pinned_budget *budget, uint64_t size_bytes);
/* What could be drawn just now. */
uint64_t hr__pinned_budget_left(const hr_pinned_budget *budget);
void hr__pinned_budget_put_back(hr_pinned_budget *budget, uint64_t size_bytes);

#endif /* HR_BASE_PINNED_BUDGET_H */
