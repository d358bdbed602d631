/* script.h - what the program asked for, without what the allocator answered.
 *
 * A recording mixes the two: requests and frees are the program's, segments and addresses the
 * allocator's. The script keeps the first and drops the second, so that it can be played under any
 * setting; replay plays it, verify plays it and holds the answers against the recording.
 *
 * What a recording does not say, and how it is concluded (reference: docs/design/003):
 *   record_stream()  a free that completes later than it was requested had one: FREE_LATER with a
 *                    made-up stream of its own, which completes (COMPLETE) before the operation in
 *                    which the recorded free completed
 *   empty_cache()    a release outside every request: its context is not the next request's. TRIM
 *   private pools    the pool of the segment that the block lay in; a segment that was gone before
 *                    the end belongs with the requests around it on its stream, or with whom the
 *                    guide says
 *   oom              the size is the rounded one; it rounds to itself
 *   the beginning    blocks that are freed, or live at the end, and were never allocated in the
 *                    trace, were live before: requests with event = VW__SCRIPT_BEFORE_RECORDING, by
 * rising address
 *
 * A block has a *slot*: a number that stands for its address, whatever that will be. Slots are used
 * again, so there are as many as blocks live at the same time. */
#ifndef VW_ANALYSIS_SCRIPT_H
#define VW_ANALYSIS_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "model/memory_model.h"

#define VW__SCRIPT_BEFORE_RECORDING UINT32_MAX

enum { VW__SCRIPT_FEW_LANES = 16 }; /* their memory is not worth counting */

typedef enum vw__script_kind {
    VW__SCRIPT_ALLOC,      /* size_bytes, stream, slot */
    VW__SCRIPT_FREE,       /* slot: free_requested and free_completed at once */
    VW__SCRIPT_FREE_LATER, /* slot, user: freed while stream `user` still works on it */
    VW__SCRIPT_COMPLETE,   /* user: that work is done; found by the next request or trim */
    VW__SCRIPT_OOM,        /* size_bytes, stream: a request that failed in the recording */
    VW__SCRIPT_TRIM,       /* empty_cache(); pool: not 0 where nothing but that private pool's
                              memory went, as when a MemPool is destroyed */
    VW__SCRIPT_SNAPSHOT,   /* a snapshot was taken */
    VW__SCRIPT_SCOPE,      /* pool: requests from here on belong to it; 0 = the default pool */
    VW__SCRIPT_RELEASE,    /* pool: its last user released it */
} vw__script_kind;

typedef struct vw__script_op {
    uint64_t size_bytes;
    uint32_t slot;
    uint32_t user;        /* number of the made-up stream, from 0 */
    uint32_t first_event; /* of the trace: this operation's events are [first_event, end_event) */
    uint32_t end_event;   /* the last of an ALLOC's or OOM's is its own */
    uint16_t stream;      /* model->streams */
    uint16_t pool;        /* `pools` of the script */
    uint8_t kind;         /* vw__script_kind */
} vw__script_op;

typedef struct vw__script {
    vw__script_op *ops; /* owned */
    size_t op_count;
    size_t slot_count;
    size_t user_count;
    vw_private_id *pools; /* owned; [0] = (0, 0); made-up ones too */
    size_t pool_count;
    size_t lane_count; /* different streams of requests, counted for each pool, and for small and
                          large requests apart: the pool keeps an index for each. Up to
                          VW__SCRIPT_FEW_LANES it may be less */
    const vw__model *model;       /* borrowed */
    const vw__model_trace *trace; /* borrowed */

    /* Known from the requests alone. */
    uint64_t peak_live_bytes; /* requests rounded up to 512 bytes, until their free completed */
    uint32_t peak_event;      /* at which that was; VW__SCRIPT_BEFORE_RECORDING: at the beginning */
    uint64_t initial_live_bytes;
    size_t initial_count;        /* requests from before the recording */
    uint64_t *initial_addresses; /* owned; of their blocks, rising, as the requests come */

    /* Conclusions, for the list of what cannot be verified. */
    bool is_truncated;         /* the trace does not begin at the first allocation */
    bool has_guessed_pools;    /* segments that vanished before 2.12, on a stream of graphs */
    bool has_hinted_pools;     /* segments that the guide gave a pool */
    bool has_guessed_releases; /* without stacks: a release was taken for a request's or a trim's */
    size_t dropped_event_count;   /* frees of what was never allocated and the like: skipped */
    uint32_t first_dropped_event; /* that does not follow from where the trace begins or ends;
                                     VW__SCRIPT_BEFORE_RECORDING: no event */
    bool has_end_state;           /* the file has segments, or the trace ends without any */
    bool lacks_free_requested;    /* frees, but no such event: skip_actions */
    bool lacks_free_completed;
} vw__script;

/* vw__script_op.size_bytes is as requested (for an OOM: rounded). COMPLETE has no events if the
 * next operation found the free complete (the usual case: that operation has the event), and one
 * event if no operation did. */

/* VW_ERR_CORRUPT_FILE if the trace contradicts itself beyond what a cut ring explains (an alloc on
 * a live block). VW_ERR_UNSUPPORTED: 2^32 - 2 events or more. */
VW_MUST_CHECK vw_status vw__script_make(const vw__model *model, const vw__model_trace *trace,
                                        vw__script *out);

/* A region (a segment, or the reservation of an expandable one) whose pool is not recorded. */
typedef struct vw__script_pool_hint {
    uint32_t event; /* its first: a segment_alloc or segment_map */
    uint16_t group; /* 0: of the default pool; else regions of one group are of one private pool,
                       which has a made-up name */
} vw__script_pool_hint;

/* How to read what a trace leaves open, where that is not the likeliest way. */
typedef struct vw__script_guide {
    const uint32_t *flips; /* events that are read the other way: a release as an empty_cache()'s, a
                              free_requested as one that completes only in the request behind it */
    size_t flip_count;
    const vw__script_pool_hint *hints; /* pools that are on record override them */
    size_t hint_count;
    bool has_no_captures; /* memory whose pool is not on record was the default pool's, also on
                             streams that private pools were used on */
} vw__script_guide;

/* The same with a guide; verify uses one if the first reading differs. */
VW_MUST_CHECK vw_status vw__script_make_guided(const vw__model *model, const vw__model_trace *trace,
                                               const vw__script_guide *guide, vw__script *out);
void vw__script_deinit(vw__script *script);

/* Stores whether private pool `pool` can have been made with no_split: every block of it lies at
 * the start of a plain segment. */
VW_MUST_CHECK vw_status vw__script_may_be_unsplit(const vw__script *script, uint16_t pool,
                                                  bool *out);

#endif /* VW_ANALYSIS_SCRIPT_H */
