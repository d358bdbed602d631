/* tune.h - the parts of hr_recording_tune(): what to try, trying it, and putting it in order.
 *
 * A *candidate* is a setting that somebody could use with the recording's version of PyTorch, or an
 * engine of our own in place of PyTorch's, and what came of it. Candidates come in two rounds:
 * first single options, then the best of them together. Each is one replay, independent of the
 * others, so they are made by several threads. */
#ifndef HR_ANALYSIS_TUNE_H
#define HR_ANALYSIS_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/analysis.h"
#include "analysis/replay.h"
#include "base/arena.h"

#define HR__MOST_CANDIDATES 64
#define HR__MOST_CONF_BYTES 160 /* of a string made here; recorded ones may be longer */

typedef enum hr__candidate_kind {
    HR__CANDIDATE_RECORDED,
    HR__CANDIDATE_NATIVE,
    HR__CANDIDATE_EXPANDABLE,
    HR__CANDIDATE_MAX_SPLIT,
    HR__CANDIDATE_ROUNDUP,
    HR__CANDIDATE_GARBAGE_COLLECTION,
    HR__CANDIDATE_COMBINED,
    HR__CANDIDATE_HEADROOM,
    HR__CANDIDATE_RESCUE,
} hr__candidate_kind;

typedef struct hr__candidate {
    hr__candidate_kind kind;
    hr_replay_result result; /* policy and conf are there before it is tried */
    hr__card card;
    bool needs_fraction_call; /* set_per_process_memory_fraction(1.0): before 2.10 no option can */
    bool is_recommended;      /* by pages on the web, whatever the program */
} hr__candidate;

typedef struct hr__tuning {
    const hr__replay_work *work;
    hr__arena *arena; /* for the strings */
    uint64_t card_bytes;
    hr__candidate candidates[HR__MOST_CANDIDATES];
    size_t candidate_count;
    uint64_t slow_ns; /* more than this in the driver is slow */
} hr__tuning;

/* tune_candidates.c: what to try. Options that the version has not, and settings that come to the
 * same as one before, are left out. */
HR_MUST_CHECK hr_status hr__tune_add_defaults(hr__tuning *tuning);
HR_MUST_CHECK hr_status hr__tune_add_options(hr__tuning *tuning);
HR_MUST_CHECK hr_status hr__tune_add_combinations(hr__tuning *tuning);

/* Of our own engine's modes the one that copies live data too: where the other was tried, and does
 * not complete. */
HR_MUST_CHECK hr_status hr__tune_add_rescue(hr__tuning *tuning);

bool hr__candidate_is_headroom(const hr__candidate *candidate);

/* tune.c: is `a` better than `b`? A strict order. */
bool hr__tune_is_better(const hr__tuning *tuning, const hr__candidate *a, const hr__candidate *b);

#endif /* HR_ANALYSIS_TUNE_H */
