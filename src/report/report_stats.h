/* report_stats.h - the two halves of hr_report_stats(): report_stats.c for people,
 * report_stats_json.c for programs. */
#ifndef HR_REPORT_REPORT_STATS_H
#define HR_REPORT_REPORT_STATS_H

#include "headroom/analysis.h"
#include "report/report_text.h"

void hr__stats_json(hr__report *report, const hr_recording_stats *stats);

/* Is it what PyTorch has when nobody sets it? By the value's text: off, unlimited, or nothing. */
bool hr__setting_is_default(const hr_setting *setting);

#endif /* HR_REPORT_REPORT_STATS_H */
