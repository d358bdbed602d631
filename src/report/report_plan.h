/* report_plan.h - what the files of the planner's report share. */
#ifndef VW_REPORT_REPORT_PLAN_H
#define VW_REPORT_REPORT_PLAN_H

#include "vramwise/plan.h"
#include "report/report_fields.h"

/* report_plan_bar.c: the parts of the peak side by side, against the card where there is one, and
 * what is what below. */
void vw__report_plan_bar(vw__report *out, const vw_plan *plan);

/* What the allocators would reserve, in one line; none where nothing is known. The same as JSON. */
void vw__report_reserved(vw__report *out, const uint64_t reserved_bytes[3]);
extern const vw__report_fields vw__report_plan_reserved;

/* "fits: 10.00 GiB of 12.00 GiB, ...": the verdict on a card that is known. */
void vw__report_plan_fit(vw__report *out, uint64_t taken_bytes, uint64_t card_bytes,
                         int64_t margin_bytes, bool fits);

#endif /* VW_REPORT_REPORT_PLAN_H */
