/* layout.h - how the memory of one device lay at one instant: segments, and what was in them.
 *
 * A file shows the segments of its end only. The failure that people ask about was earlier: so the
 * layout is followed from event to event. Where the trace begins at the first allocation that is
 * done forwards, from nothing; else backwards, from the segments in the file.
 *
 * Some files' segments are not of the trace's end: the trace was cut by hand, or the snapshot was
 * put together from two calls. hr__layout_of_end_fits() tells; what reads the trace forwards then
 * still holds, and hr__model_view_make() makes a model whose end is the trace's.
 *
 * Instants as in timeline.h. */
#ifndef HR_ANALYSIS_LAYOUT_H
#define HR_ANALYSIS_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "model/memory_model.h"

typedef enum hr__layout_state {
    HR__LAYOUT_IDLE,
    HR__LAYOUT_LIVE,
    HR__LAYOUT_PENDING
} hr__layout_state;

typedef struct hr__layout_block {
    uint64_t address;
    uint64_t size_bytes;      /* LIVE and PENDING: rounded up to 512; IDLE: the gap */
    uint64_t requested_bytes; /* of LIVE and PENDING */
    uint32_t context;         /* of the request; HR__NO_CONTEXT */
    uint8_t state;            /* hr__layout_state; PENDING: freed, waits for other streams */
} hr__layout_block;

typedef struct hr__layout_segment {
    uint64_t address;
    uint64_t size_bytes;             /* held: of an expandable one a run of mapped pages */
    size_t first_block, block_count; /* blocks tile it, by address */
    uint64_t live_bytes, pending_bytes, idle_bytes; /* sum: size_bytes */
    uint32_t context;
    uint16_t stream; /* model->streams */
    uint16_t pool;   /* model->pools, or HR__UNKNOWN_POOL */
    bool is_expandable;
} hr__layout_segment;

typedef struct hr__layout {
    hr__layout_segment *segments; /* owned; by address */
    size_t segment_count;
    hr__layout_block *blocks; /* owned */
    size_t block_count;
    uint64_t reserved_bytes, live_bytes, pending_bytes, idle_bytes;
    uint64_t largest_idle_bytes;
} hr__layout;

/* HR_ERR_UNSUPPORTED where neither way works: the trace lacks events, and the file segments. */
HR_MUST_CHECK hr_status hr__layout_at(const hr__model *model, const hr__model_trace *trace,
                                      uint32_t instant, hr__layout *out);
void hr__layout_deinit(hr__layout *layout);

/* Can the trace be read forwards from nothing: does every free, every release and every request
 * concern what the trace itself made before? Not where the file, in the end, has all that and more:
 * then there was something before. */
HR_MUST_CHECK hr_status hr__trace_begins_at_nothing(const hr__model *model,
                                                    const hr__model_trace *trace, bool *out);

/* Are the segments of the file those that the trace, read forwards, ends with? Asked only of a
 * trace that begins at nothing. */
HR_MUST_CHECK hr_status hr__layout_of_end_fits(const hr__model *model, const hr__model_trace *trace,
                                               bool *out);

/* A model that shares everything with `model` but has only the first `event_count` events of
 * `trace` (and no other trace), and as segments the layout after them. Used to look at a run as it
 * stood then. Freed with hr__model_view_deinit(); `model` must outlive it, and the view must stay
 * where it was made: its model points at its trace.
 *
 * Blocks are as the allocator made them under the recorded settings. The pool of a segment that was
 * given back before the file's end is known only where events say; annotations of a later time
 * are left out. (layout_view.c) */
typedef struct hr__model_view {
    hr__model model; /* borrowed but for what is below */
    hr__model_trace trace;
    hr__model_segment *segments; /* owned */
    hr__model_block *blocks;     /* owned */
} hr__model_view;

HR_MUST_CHECK hr_status hr__model_view_make(const hr__model *model, const hr__model_trace *trace,
                                            size_t event_count, hr__model_view *out);
void hr__model_view_deinit(hr__model_view *view);

#endif /* HR_ANALYSIS_LAYOUT_H */
