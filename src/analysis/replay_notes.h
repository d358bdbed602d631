/* replay_notes.h - the sentences beside a result: what was concluded, assumed or left out.
 *
 * Texts live in the result's arena. Failure sticks, so that a note is one line where it is made,
 * and host memory is asked about once, at the end. */
#ifndef VW_ANALYSIS_REPLAY_NOTES_H
#define VW_ANALYSIS_REPLAY_NOTES_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/status.h"
#include "base/arena.h"

#define VW__MOST_NOTES 64 /* later ones are dropped */

typedef struct vw__replay_notes {
    vw__arena *arena; /* borrowed */
    const char *texts[VW__MOST_NOTES];
    size_t count;
    bool has_failed; /* no host memory for one of them */
} vw__replay_notes;

void vw__replay_notes_init(vw__replay_notes *notes, vw__arena *arena);

__attribute__((format(printf, 2, 3))) void vw__replay_note(vw__replay_notes *notes,
                                                           const char *format, ...);

/* An array of them in the arena, for the result. VW_ERR_HOST_MEMORY, for any note before too. */
VW_MUST_CHECK vw_status vw__replay_notes_finish(vw__replay_notes *notes, const char *const **texts,
                                                size_t *count);

#endif /* VW_ANALYSIS_REPLAY_NOTES_H */
