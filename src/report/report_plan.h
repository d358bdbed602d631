/* report_plan.h - what the files of the planner's report share. */
#ifndef HR_REPORT_REPORT_PLAN_H
#define HR_REPORT_REPORT_PLAN_H

#include "headroom/plan.h"
#include "export/json_write.h"
#include "report/report_text.h"

/* report_plan_bar.c: the parts of the peak side by side, against the card where there is one, and
 * what is what below. */
void hr__report_plan_bar(hr__report *out, const hr_plan *plan);

/* report_plan_choices.c: what makes it fit, and how to write it. */
void hr__report_plan_choices(hr__report *out, const hr_plan *plan);

/* report_plan.c: what the allocators would reserve, in one line; none where nothing is known. */
void hr__report_reserved(hr__report *out, const uint64_t reserved_bytes[3]);

/* report_plan_json.c; the first: the same. */
void hr__json_reserved(hr__json *json, const uint64_t reserved_bytes[3]);
void hr__json_plan(hr__json *json, const hr_plan *plan);
void hr__json_known_models(hr__json *json);

#endif /* HR_REPORT_REPORT_PLAN_H */
