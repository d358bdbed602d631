/* report_plan.h - what the files of the planner's report share. */
#ifndef VW_REPORT_REPORT_PLAN_H
#define VW_REPORT_REPORT_PLAN_H

#include "vramwise/plan.h"
#include "export/json_write.h"
#include "report/report_text.h"

/* report_plan_bar.c: the parts of the peak side by side, against the card where there is one, and
 * what is what below. */
void vw__report_plan_bar(vw__report *out, const vw_plan *plan);

/* report_plan_choices.c: what makes it fit, and how to write it. */
void vw__report_plan_choices(vw__report *out, const vw_plan *plan);

/* report_plan.c: what the allocators would reserve, in one line; none where nothing is known. */
void vw__report_reserved(vw__report *out, const uint64_t reserved_bytes[3]);

/* report_plan_json.c; the first: the same. */
void vw__json_reserved(vw__json *json, const uint64_t reserved_bytes[3]);
void vw__json_plan(vw__report *out, vw__json *json, const void *content); /* a vw_plan */
void vw__json_known_models(vw__json *json);

#endif /* VW_REPORT_REPORT_PLAN_H */
