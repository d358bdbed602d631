/* replay_notes.h - the sentences beside a result: what was concluded, assumed or left out.
 *
 * Texts live in the result's arena. Failure sticks, so that a note is one line where it is made,
 * and host memory is asked about once, at the end. */
#ifndef HR_ANALYSIS_REPLAY_NOTES_H
#define HR_ANALYSIS_REPLAY_NOTES_H

#include <stdbool.h>
#include <stddef.h>

#include "headroom/status.h"
#include "base/arena.h"

#define HR__MOST_NOTES 64 /* later ones are dropped */

typedef struct hr__replay_notes {
    hr__arena *arena; /* borrowed */
    const char *texts[HR__MOST_NOTES];
    size_t count;
    bool has_failed; /* no host memory for one of them */
} hr__replay_notes;

void hr__replay_notes_init(hr__replay_notes *notes, hr__arena *arena);

__attribute__((format(printf, 2, 3))) void hr__replay_note(hr__replay_notes *notes,
                                                           const char *format, ...);

/* An array of them in the arena, for the result. HR_ERR_HOST_MEMORY, for any note before too. */
HR_MUST_CHECK hr_status hr__replay_notes_finish(hr__replay_notes *notes, const char *const **texts,
                                                size_t *count);

#endif /* HR_ANALYSIS_REPLAY_NOTES_H */
