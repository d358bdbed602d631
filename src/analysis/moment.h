/* moment.h - who holds the live bytes at one instant.
 *
 * Thousands of blocks are live at a peak, made at a few dozen lines. A moment is those lines,
 * largest first, and the same by category. Blocks are put together by equal stacks, not by
 * capture: two requests at one line are one usage. */
#ifndef HR_ANALYSIS_MOMENT_H
#define HR_ANALYSIS_MOMENT_H

#include "headroom/analysis.h" /* hr_moment */
#include "analysis/attribution.h"
#include "analysis/timeline.h"
#include "base/arena.h"

/* Everything in `*out` is in `arena` or the model's. At most `most_usages` usages are given (0 =
 * all); the totals and the categories are of everything. HR_ERR_HOST_MEMORY, HR_ERR_CORRUPT_FILE
 * (sizes that add up to more than there can be). */
HR_MUST_CHECK hr_status hr__moment_of_instant(const hr__timeline *timeline, uint32_t instant,
                                              const hr__attribution *attribution,
                                              size_t most_usages, hr__arena *arena, hr_moment *out);

/* The same of the end, by the segments in the file; `trace` may be NULL. `device` as in the
 * model's segments. */
HR_MUST_CHECK hr_status hr__moment_of_end(const hr__attribution *attribution,
                                          const hr__model_trace *trace, int device,
                                          size_t most_usages, hr__arena *arena, hr_moment *out);

#endif /* HR_ANALYSIS_MOMENT_H */
