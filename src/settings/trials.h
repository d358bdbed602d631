/* trials.h - one recording, tried under many settings.
 *
 * The script, the addresses and the card of a recording are prepared once. Every trial is made on
 * one card, the recording's own if it shows one: the device or the limit that it ran out of, or a
 * limit that is written in it; else on a card without end. A setting that was tried is not replayed
 * again.
 *
 * No locks: one thread at a time. */
#ifndef VW_SETTINGS_TRIALS_H
#define VW_SETTINGS_TRIALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "analysis/replay.h"
#include "settings/setting_table.h"

#define VW__TRIALS_MOST 24 /* that are remembered; more are made anew */

/* A setting that was tried, and its result. */
typedef struct vw__trials_made {
    const char *engine, *conf; /* static, or the work's */
    vw_replay_result result;
} vw__trials_made;

typedef struct vw__trials {
    vw__replay_work work;
    vw__replay_card card;
    bool is_card_known; /* else it is without end */
    bool has_limit;     /* the process has a limit, so garbage collection acts */
    vw__trials_made made[VW__TRIALS_MOST];
    size_t made_count;
} vw__trials;

/* `card` NULL: the recording's own. The model must outlive the trials. Errors as of
 * vw__replay_work_init(): nothing to close. */
VW_MUST_CHECK vw_status vw__trials_open(vw__trials *trials, const vw__model *model,
                                        const char *torch_version, int device,
                                        const vw__replay_card *card);
void vw__trials_close(vw__trials *trials);

/* The recorded option string, or "" where no PyTorch of that version can use it. */
const char *vw__trials_recorded_conf(const vw__trials *trials);

/* Replays one row, or, with NULL, the recorded settings. Garbage collection gets a limit: the
 * card's. Errors as of vw__replay_run(). */
VW_MUST_CHECK vw_status vw__trials_try(vw__trials *trials, const vw__setting_row *row,
                                       vw_replay_result *out);

/* Stores whether the row differs from the recorded setting and, unless it is the defaults, from the
 * defaults. False if the version refuses it. */
VW_MUST_CHECK vw_status vw__trials_is_new(const vw__trials *trials, const vw__setting_row *row,
                                          bool *out);

/* True if the status only means that a recording, or a setting of it, cannot be replayed. */
bool vw__trials_are_impossible(vw_status status);

#endif /* VW_SETTINGS_TRIALS_H */
