/* pinned_budget.h - drawing from a vw_pinned_budget (vramwise.h).
 *
 * Atomic numbers and no lock: callers hold locks of their own. Safe from any thread. */
#ifndef VW_BASE_PINNED_BUDGET_H
#define VW_BASE_PINNED_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/vramwise.h" /* vw_pinned_budget */

/* false, counted as a refusal, if less is left; nothing is drawn then. NULL is a budget without a
 * limit. */
bool vw__pinned_budget_draw(vw_pinned_budget *budget, uint64_t size_bytes);
/* What could be drawn now. */
uint64_t vw__pinned_budget_left(const vw_pinned_budget *budget);
void vw__pinned_budget_put_back(vw_pinned_budget *budget, uint64_t size_bytes);

#endif /* VW_BASE_PINNED_BUDGET_H */
