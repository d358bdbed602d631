/* view_reports.h - what the other commands say, as JSON, for the header of a view. */
#ifndef VW_VIEW_VIEW_REPORTS_H
#define VW_VIEW_VIEW_REPORTS_H

#include "vramwise/analysis.h"
#include "vramwise/doctor.h"
#include "vramwise/report.h"
#include "vramwise/status.h"
#include "export/json_write.h"
#include "view/view_progress.h"

/* "stats": {...} */
VW_MUST_CHECK vw_status vw__view_report_stats(const vw_recording_stats *stats, const char *file,
                                              vw__json *json);

/* "doctor": {...} or null, "doctor_reason": null or why. `*out`: the
 * diagnosis, the caller's to free, or NULL. Fails only for lack of host memory. */
VW_MUST_CHECK vw_status vw__view_report_doctor(const vw_recording *recording, const char *file,
                                               const char *torch_version, vw__json *json,
                                               vw_diagnosis **out);

/* "diff": {...} or null, "diff_reason": null or why. The same. `before` and `after` may be NULL. */
VW_MUST_CHECK vw_status vw__view_report_diff(const vw_recording *before, const vw_recording *after,
                                             const char *file, const char *other_file,
                                             vw__json *json);

/* "ranks": vramwise report --json, with all lines that differ. */
VW_MUST_CHECK vw_status vw__view_report_ranks(const vw_ranks_report *report, const char *folder,
                                              vw__json *json);

#endif /* VW_VIEW_VIEW_REPORTS_H */
