/* moment.h - who holds the live bytes at one instant.
 *
 * Thousands of blocks are live at a peak, made at a few dozen lines. A moment is those lines,
 * largest first, and the same by category. Blocks are put together by equal stacks, not by
 * capture: two requests at one line are one usage. */
#ifndef VW_ANALYSIS_MOMENT_H
#define VW_ANALYSIS_MOMENT_H

#include "vramwise/analysis.h" /* vw_moment */
#include "analysis/attribution.h"
#include "analysis/timeline.h"
#include "base/arena.h"

/* For `most_usages`: the totals and the categories alone. */
#define VW__MOMENT_NO_USAGES SIZE_MAX

/* Lets all moments that are made with `attribution` from now on share the frames of a stack: many
 * devices may use the same few stacks, which may be deep. All are made in `arena` then. */
VW_MUST_CHECK vw_status vw__moment_share_stacks(vw__attribution *attribution, vw__arena *arena);

/* Everything in `*out` is in `arena` or the model's. At most `most_usages` usages are given (0 =
 * all); the totals and the categories are of everything. VW_ERR_HOST_MEMORY, VW_ERR_CORRUPT_FILE
 * (sizes that add up to more than there can be). */
VW_MUST_CHECK vw_status vw__moment_of_instant(const vw__timeline *timeline, uint32_t instant,
                                              const vw__attribution *attribution,
                                              size_t most_usages, vw__arena *arena, vw_moment *out);

/* The same for the end, by the segments in the file; `trace` may be NULL. `device` as in the
 * model's segments. */
VW_MUST_CHECK vw_status vw__moment_of_end(const vw__attribution *attribution,
                                          const vw__model_trace *trace, int device,
                                          size_t most_usages, vw__arena *arena, vw_moment *out);

#endif /* VW_ANALYSIS_MOMENT_H */
