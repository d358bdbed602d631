/* view_reports.h - what the other commands say, as JSON, for the header of a view. */
#ifndef HR_VIEW_VIEW_REPORTS_H
#define HR_VIEW_VIEW_REPORTS_H

#include "headroom/analysis.h"
#include "headroom/doctor.h"
#include "headroom/report.h"
#include "headroom/status.h"
#include "export/json_write.h"
#include "view/view_progress.h"

/* "stats": {...} */
HR_MUST_CHECK hr_status hr__view_report_stats(const hr_recording_stats *stats, const char *file,
                                              hr__json *json);

/* "doctor": {...} or null, "doctor_reason": null or why. `*numbers`: the diagnosis', or all of them
 * HR_UNKNOWN. Fails only for lack of host memory. */
HR_MUST_CHECK hr_status hr__view_report_doctor(const hr_recording *recording, const char *file,
                                               const char *torch_version, hr__json *json,
                                               hr_memory_numbers *numbers);

/* "diff": {...} or null, "diff_reason": null or why. The same. `before` and `after` may be NULL. */
HR_MUST_CHECK hr_status hr__view_report_diff(const hr_recording *before, const hr_recording *after,
                                             const char *file, const char *other_file,
                                             hr__json *json);

/* "ranks": headroom report --json, with all lines that differ. */
HR_MUST_CHECK hr_status hr__view_report_ranks(const hr_ranks_report *report, const char *folder,
                                              hr__json *json);

#endif /* HR_VIEW_VIEW_REPORTS_H */
