/* report_runs.h - results of replays, as replay and tune both show them. */
#ifndef HR_REPORT_REPORT_RUNS_H
#define HR_REPORT_REPORT_RUNS_H

#include <stdbool.h>

#include "headroom/analysis.h"
#include "export/json_write.h"
#include "report/report_text.h"

/* "native", "recorded", "recorded (max_split_size_mb:128)", or the conf itself. Appended. */
void hr__append_setting(hr__byte_buffer *buffer, const hr_replay_result *result);

/* A table of the first `most_rows`, and how many more there are. */
void hr__report_runs(hr__report *report, const hr_replay_result *results, size_t result_count,
                     size_t most_rows);

/* Was it made with an engine of our own? */
bool hr__run_is_headroom(const hr_replay_result *result);

/* A sentence on such a run: what it moved, and what that cost. */
void hr__report_run_moves(hr__report *report, const hr_replay_result *result);

/* A sentence on one that may spill: what went to host memory, and what that costs. */
void hr__report_run_spills(hr__report *report, const hr_replay_result *result);

/* A sentence on one that ran out of memory. */
void hr__report_run_oom(hr__report *report, const hr_replay_result *result);

/* An object; NULL: null. */
void hr__json_run(hr__json *json, const char *key, const hr_replay_result *result);
void hr__json_runs(hr__json *json, const char *key, const hr_replay_result *results,
                   size_t result_count);

#endif /* HR_REPORT_REPORT_RUNS_H */
