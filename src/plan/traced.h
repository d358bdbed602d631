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
} vw__traced_lists;

/* What came of playing them. */
typedef struct vw__traced_tally {
    size_t left_out;           /* operators of a kind whose memory is not known */
    const char *left_out_kind; /* the first of them; the document's */
} vw__traced_tally;

/* Plays all events. Errors as of vw_plan_traced_open(). */
VW_MUST_CHECK vw_status vw__traced_play(const vw__traced_lists *lists, const char *card_name,
                                        vw__model **out, vw__traced_tally *tally);

#endif /* VW_PLAN_TRACED_H */
