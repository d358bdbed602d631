/* pinned_budget.h - drawing from an vw_pinned_budget. What it is for is said in vramwise.h.
 *
 * Two atomic numbers and no lock: whoever draws holds locks of their own. Safe from any thread. */
#ifndef VW_BASE_PINNED_BUDGET_H
#define VW_BASE_PINNED_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/vramwise.h" /* vw_pinned_budget */

/* False: not so much is left, which is counted, and nothing was drawn. From NULL everything can be
 * drawn. */
bool vw__pinned_budget_draw(vw_pinned_budget *budget, uint64_t size_bytes);
/* What could be drawn just now. */
uint64_t vw__pinned_budget_left(const vw_pinned_budget *budget);
void vw__pinned_budget_put_back(vw_pinned_budget *budget, uint64_t size_bytes);

#endif /* VW_BASE_PINNED_BUDGET_H */
