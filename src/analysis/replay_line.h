/* replay_line.h - reserved bytes over a whole run, had it been made with another allocator.
 *
 * vw_recording_replay() returns peaks and counts. A picture needs the line: reserved bytes at every
 * instant of the recording (timeline.h), with a limited number of points. */
#ifndef VW_ANALYSIS_REPLAY_LINE_H
#define VW_ANALYSIS_REPLAY_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/analysis.h"
#include "vramwise/status.h"

/* A step function: from instants[i] on, bytes[i] are reserved. */
typedef struct vw__replay_line {
    vw_replay_result result; /* its `conf` is the next field, its `policy` static */
    char *conf;              /* owned */
    uint32_t *instants;      /* owned; rising, the first is 0 */
    uint64_t *bytes;         /* owned */
    size_t count;            /* not 0 */
} vw__replay_line;

/* Replays `recording`'s device on the card that it shows (vw__replay_recorded_card_find), or on one
 * without end, under each of `policies` (vw_replay_run.policy, but for "conf"), side by side where
 * there are processors. Where a line has
 * more than `most_points` changes, the instants are divided into `most_points` equal spans, and
 * each point is the highest of its span: peaks stay. `lines` has `policy_count` places; on failure
 * nothing is left in them.
 *
 * Errors as of vw_recording_replay(). */
VW_MUST_CHECK vw_status vw__replay_lines_make(const vw_recording *recording, int device,
                                              const char *torch_version,
                                              const char *const *policies, size_t policy_count,
                                              size_t most_points, vw_progress progress,
                                              void *progress_context, vw__replay_line *lines);
void vw__replay_line_deinit(vw__replay_line *line);

#endif /* VW_ANALYSIS_REPLAY_LINE_H */
