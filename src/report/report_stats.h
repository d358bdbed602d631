/* report_stats.h - the two halves of vw_report_stats(): report_stats.c for people,
 * report_stats_json.c for programs. */
#ifndef VW_REPORT_REPORT_STATS_H
#define VW_REPORT_REPORT_STATS_H

#include "vramwise/analysis.h"
#include "report/report_text.h"

/* `content` is a vw_recording_stats. */
void vw__stats_json(vw__report *report, vw__json *json, const void *content);

/* Is it what PyTorch has when nobody sets it? By the value's text: off, unlimited, or nothing. */
bool vw__setting_is_default(const vw_setting *setting);

#endif /* VW_REPORT_REPORT_STATS_H */
