/* report_top.h - what the two forms of a report on a machine share. */
#ifndef VW_REPORT_REPORT_TOP_H
#define VW_REPORT_REPORT_TOP_H

#include "report/report_text.h"

/* A machine, and of which process of it is told; 0: of all. */
typedef struct vw__top {
    const vw_machine *before, *now;
    long process;
} vw__top;

bool vw__top_has_row(const vw__top *top, const vw_machine_row *row);
bool vw__top_has_gpu(const vw__top *top, const vw_gpu *gpu);

/* VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__top_json(vw__report *report, const vw__top *top);

#endif /* VW_REPORT_REPORT_TOP_H */
