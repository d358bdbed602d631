/* layout.h - how the memory of one device lay at one instant: segments, and what was in them.
 *
 * A file shows the segments of its end only. The failure that people ask about was earlier: so the
 * layout is followed from event to event. Where the trace begins at the first allocation that is
 * done forwards, from nothing; else backwards, from the segments in the file.
 *
 * Some files' segments are not of the trace's end: the trace was cut by hand, or the snapshot was
 * put together from two calls. vw__layout_read() detects that. Reading the trace forwards
 * still works then, and vw__layout_view_make() makes a model whose end is the trace's.
 *
 * Instants as in timeline.h. */
#ifndef VW_ANALYSIS_LAYOUT_H
#define VW_ANALYSIS_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "model/memory_model.h"

typedef enum vw__layout_state {
    VW__LAYOUT_IDLE,
    VW__LAYOUT_LIVE,
    VW__LAYOUT_PENDING
} vw__layout_state;

typedef struct vw__layout_block {
    uint64_t address;
    uint64_t size_bytes;      /* LIVE and PENDING: rounded up to 512; IDLE: the gap */
    uint64_t requested_bytes; /* of LIVE and PENDING */
    uint32_t context;         /* of the request; VW__MODEL_NO_CONTEXT */
    uint8_t state;            /* vw__layout_state; PENDING: freed, waits for other streams */
} vw__layout_block;

typedef struct vw__layout_segment {
    uint64_t address;
    uint64_t size_bytes;             /* held: of an expandable one a run of mapped pages */
    size_t first_block, block_count; /* blocks tile it, by address */
    uint64_t live_bytes, pending_bytes, idle_bytes; /* sum: size_bytes */
    uint32_t context;
    uint16_t stream; /* model->streams */
    uint16_t pool;   /* model->pools, or VW__MODEL_UNKNOWN_POOL */
    bool is_expandable;
} vw__layout_segment;

typedef struct vw__layout {
    vw__layout_segment *segments; /* owned; by address */
    size_t segment_count;
    vw__layout_block *blocks; /* owned */
    size_t block_count;
    uint64_t reserved_bytes, live_bytes, pending_bytes, idle_bytes;
    uint64_t largest_idle_bytes;
} vw__layout;

/* Stores the layout at an instant. VW_ERR_UNSUPPORTED if neither way works: the trace lacks events,
 * and the file lacks segments. */
VW_MUST_CHECK vw_status vw__layout_at(const vw__model *model, const vw__model_trace *trace,
                                      uint32_t instant, vw__layout *out);
void vw__layout_deinit(vw__layout *layout);

/* What comes of reading a whole trace forwards, from nothing. */
typedef struct vw__layout_reading {
    /* Every free, release and request concerns memory that the trace itself made before. False if
     * the file's segments are those of the trace's end and others: then there was something before.
     */
    bool begins_at_nothing;
    bool end_fits; /* the trace begins at nothing, and ends with the file's segments */
} vw__layout_reading;

VW_MUST_CHECK vw_status vw__layout_read(const vw__model *model, const vw__model_trace *trace,
                                        vw__layout_reading *out);

/* A model that shares everything with `model` but has only the first `event_count` events of
 * `trace` (and no other trace), and as segments the layout after them. Used to look at a run as it
 * stood then. Freed with vw__layout_view_deinit(); `model` must outlive it, and the view must stay
 * where it was made: its model points at its trace.
 *
 * Blocks are as the allocator made them under the recorded settings. The pool of a segment that was
 * given back before the file's end is known only where events say; annotations of a later time
 * are left out. (layout_view.c) */
typedef struct vw__layout_view {
    vw__model model; /* borrowed but for what is below */
    vw__model_trace trace;
    vw__model_segment *segments; /* owned */
    vw__model_block *blocks;     /* owned */
} vw__layout_view;

VW_MUST_CHECK vw_status vw__layout_view_make(const vw__model *model, const vw__model_trace *trace,
                                             size_t event_count, vw__layout_view *out);
void vw__layout_view_deinit(vw__layout_view *view);

#endif /* VW_ANALYSIS_LAYOUT_H */
