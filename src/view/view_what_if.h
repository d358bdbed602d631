/* view_what_if.h - reserved bytes of one device, had other allocators run it. */
#ifndef VW_VIEW_VIEW_WHAT_IF_H
#define VW_VIEW_VIEW_WHAT_IF_H

#include "vramwise/analysis.h"
#include "vramwise/status.h"
#include "export/json_write.h"
#include "model/memory_model.h"
#include "view/view_columns.h"
#include "view/view_run.h"

enum { VW__VIEW_MOST_POINTS = 4096 }; /* of a line */

/* Why a replay of `trace` would take minutes, or longer than anybody waits; NULL if it does not. A
 * replay looks through all streams, and keeps segments in order; no program has that many. */
const char *vw__view_what_if_is_too_much(const vw__model_trace *trace);

/* Adds the columns, and "what_if": [...], "what_if_left_out": policies that cannot be replayed,
 * while others can, each with its reason; "what_if_reason": null or why there are none at all.
 * `reason` not NULL: none are wanted. Fails only for lack of host memory, and if the caller's
 * progress function wants no more. */
VW_MUST_CHECK vw_status vw__view_what_if_write(const vw_recording *recording, int device,
                                               const char *torch_version, const char *reason,
                                               vw__view_progress *progress,
                                               vw__view_columns *columns, vw__json *json);

#endif /* VW_VIEW_VIEW_WHAT_IF_H */
