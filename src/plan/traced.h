/* traced.h - a trace of a program, read and played. */
#ifndef VW_PLAN_TRACED_H
#define VW_PLAN_TRACED_H

#include <stddef.h>

#include "vramwise/plan.h"
#include "parse/document.h"
#include "plan/playback.h"

enum { VW__TRACED_MOST_NOTES = 32 };

/* As vw_plan_traced_open(), from memory. */
VW_MUST_CHECK vw_status vw__traced_open_memory(const void *bytes, size_t size_bytes,
                                               const char *card_name, vw_plan_traced **out);

/* ---- traced_play.c --------------------------------------------------------------------------- */

/* The lists of a trace, in the document that was read. */
typedef struct vw__traced_lists {
    const vw__document *document; /* borrowed */
    vw__value frames, stacks, events;
    size_t memory_limit_bytes; /* of the model that is made of them */
} vw__traced_lists;

/* The most that the pool counted as allocated while an event of the trace was played. It is what
 * max_memory_allocated() counts: a block that is not worth splitting counts whole. */
typedef struct vw__traced_level {
    uint32_t end; /* the recording's first event after it */
    uint64_t peak_bytes;
} vw__traced_level;

/* What came of playing them. */
typedef struct vw__traced_tally {
    vw__traced_level *levels; /* owned by the caller, on failure NULL; by event of the trace */
    size_t level_count;
    size_t left_out;           /* operators of a kind whose memory is not known */
    const char *left_out_kind; /* the first of them; the document's */
    bool has_hit_limit;        /* of memory: why it failed */
} vw__traced_tally;

/* Plays all events. Errors as of vw_plan_traced_open(). */
VW_MUST_CHECK vw_status vw__traced_play(const vw__traced_lists *lists, const char *card_name,
                                        vw__model **out, vw__traced_tally *tally);

/* ---- traced.c -------------------------------------------------------------------------------- */

/* The highest level of the recording's events [begin, end), the one at `begin` included. */
uint64_t vw__traced_peak(const vw_plan_traced *traced, uint32_t begin, uint32_t end);

#endif /* VW_PLAN_TRACED_H */
