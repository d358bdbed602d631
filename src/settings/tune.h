/* tune.h - the parts of vw_recording_tune(): what to try, trying it, and putting it in order.
 *
 * A *candidate* is a setting that somebody could use with the recording's version of PyTorch, or an
 * engine of our own in place of PyTorch's, and what came of it. Candidates come in two rounds:
 * first single options, then the best of them together. Each is one replay, independent of the
 * others, so they are made by several threads. */
#ifndef VW_SETTINGS_TUNE_H
#define VW_SETTINGS_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/analysis.h"
#include "analysis/replay.h"
#include "base/arena.h"
#include "settings/setting_table.h"

#define VW__TUNE_MOST_CANDIDATES 64
#define VW__TUNE_MOST_CONF_BYTES 160 /* of a string made here; recorded ones may be longer */

typedef struct vw__tune_candidate {
    vw__setting_kind kind;
    vw_replay_result result; /* policy and conf are there before it is tried */
    vw__replay_card card;
    bool needs_fraction_call; /* set_per_process_memory_fraction(1.0): before 2.10 no option can */
    bool is_recommended;      /* by pages on the web, whatever the program */
} vw__tune_candidate;

typedef struct vw__tune_work {
    const vw__replay_work *work;
    vw__arena *arena; /* for the strings */
    uint64_t card_bytes;
    vw__tune_candidate candidates[VW__TUNE_MOST_CANDIDATES];
    size_t candidate_count;
    uint64_t slow_ns; /* more than this in the driver is slow */
} vw__tune_work;

/* Returns whether `a` is better than `b`; a strict order. */
bool vw__tune_is_better(const vw__tune_work *tuning, const vw__tune_candidate *a,
                        const vw__tune_candidate *b);

#endif /* VW_SETTINGS_TUNE_H */
