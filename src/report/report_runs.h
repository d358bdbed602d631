/* report_runs.h - results of replays, as replay and tune both show them. */
#ifndef VW_REPORT_REPORT_RUNS_H
#define VW_REPORT_REPORT_RUNS_H

#include <stdbool.h>

#include "vramwise/analysis.h"
#include "export/json_write.h"
#include "report/report_text.h"

/* "native", "recorded", "recorded (max_split_size_mb:128)", or the conf itself. Appended. */
void vw__append_setting(vw__byte_buffer *buffer, const vw_replay_result *result);

/* A table of the first `most_rows`, and how many more there are. */
void vw__report_runs(vw__report *report, const vw_replay_result *results, size_t result_count,
                     size_t most_rows);

/* Was it made with an engine of our own? */
bool vw__run_is_vramwise(const vw_replay_result *result);

/* A sentence on such a run: what it moved, and what that cost. */
void vw__report_run_moves(vw__report *report, const vw_replay_result *result);

/* A sentence on one that may spill: what went to host memory, and what that costs. */
void vw__report_run_spills(vw__report *report, const vw_replay_result *result);

/* A sentence on one that ran out of memory. */
void vw__report_run_oom(vw__report *report, const vw_replay_result *result);

/* An object; NULL: null. */
void vw__json_run(vw__json *json, const char *key, const vw_replay_result *result);
void vw__json_runs(vw__json *json, const char *key, const vw_replay_result *results,
                   size_t result_count);

#endif /* VW_REPORT_REPORT_RUNS_H */
