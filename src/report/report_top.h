/* report_top.h - what the two forms of a report on a machine share. */
#ifndef HR_REPORT_REPORT_TOP_H
#define HR_REPORT_REPORT_TOP_H

#include "report/report_text.h"

/* A machine, and of which process of it is told; 0: of all. */
typedef struct hr__top {
    const hr_machine *before, *now;
    long process;
} hr__top;

bool hr__top_has_row(const hr__top *top, const hr_machine_row *row);
bool hr__top_has_gpu(const hr__top *top, const hr_gpu *gpu);

/* HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__top_json(hr__report *report, const hr__top *top);

#endif /* HR_REPORT_REPORT_TOP_H */
