/* report_ranks.h - what reports on one job and on many have in common. */
#ifndef VW_REPORT_REPORT_RANKS_H
#define VW_REPORT_REPORT_RANKS_H

#include "report/report_fields.h"

/* Of a vw_rank_outlier. */
extern const vw__report_fields vw__report_ranks_outlier_fields;

#endif /* VW_REPORT_REPORT_RANKS_H */
