/* result.h - what a call of analysis.h hands out: one struct, and an arena for all it points at.
 *
 * The caller holds a pointer to the struct; the arena lies in front of it.
 *
 * Notes are the sentences beside a result: what was concluded, assumed or left out. Failure sticks,
 * so that a note is one line where it is made, and host memory is checked once, at the end. */
#ifndef VW_ANALYSIS_RESULT_H
#define VW_ANALYSIS_RESULT_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/status.h"
#include "base/arena.h"

/* Zeroed; NULL without host memory. */
void *vw__result_create(size_t size_bytes);

vw__arena *vw__result_arena(void *result);

/* NULL is allowed. */
void vw__result_free(void *result);

/* ---- notes ----------------------------------------------------------------------------------- */

#define VW__NOTES_MOST 64 /* later ones are dropped */

typedef struct vw__notes {
    vw__arena *arena; /* borrowed */
    const char *texts[VW__NOTES_MOST];
    size_t count;
    bool has_failed; /* no host memory for one of them */
} vw__notes;

void vw__notes_init(vw__notes *notes, vw__arena *arena);

/* Adds a sentence; does nothing if `notes` is NULL. */
__attribute__((format(printf, 2, 3))) void vw__notes_add(vw__notes *notes, const char *format, ...);

/* Stores the notes as an array in the arena. VW_ERR_HOST_MEMORY, also if that struck before. */
VW_MUST_CHECK vw_status vw__notes_finish(vw__notes *notes, const char *const **texts,
                                         size_t *count);

#endif /* VW_ANALYSIS_RESULT_H */
