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

/* What each value of size_mb in the table of settings stands for. */
#define VW__TUNE_BYTES_PER_MB (UINT64_C(1) << 20)
/* The option under which garbage collection acts; it must be below 1. */
#define VW__TUNE_FRACTION_CONF "per_process_memory_fraction:0.99"

/* ---- what to try (tune_candidates.c) --------------------------------------------------------- */

/* The recorded settings, the defaults, expandable segments, our own engine. */
VW_MUST_CHECK vw_status vw__tune_add_defaults(vw__tune_work *tuning);
/* Every single option that can have an effect. */
VW_MUST_CHECK vw_status vw__tune_add_options(vw__tune_work *tuning);
/* The best of each kind together, once they were tried. */
VW_MUST_CHECK vw_status vw__tune_add_combinations(vw__tune_work *tuning);

/* The most that was asked for at once. */
uint64_t vw__tune_largest_request(const vw__script *script);

/* ---- trying, and putting in order (tune.c) --------------------------------------------------- */

/* Replays `count` candidates, in up to `most_threads` threads; 0: one for each processor. */
VW_MUST_CHECK vw_status vw__tune_try(const vw__replay_work *work, vw__tune_candidate *candidates,
                                     size_t count, unsigned most_threads,
                                     const vw__replay_progress *progress);

/* Sets slow_ns, by what was tried. */
void vw__tune_judge_slow(vw__tune_work *tuning);

/* The bytes that the options of `conf` must save to be worth setting. */
uint64_t vw__tune_conf_bytes(const char *conf, uint64_t card_bytes);

/* Takes what CUDA's context takes off a whole card. VW_ERR_INVALID_ARGUMENT: nothing is left. */
VW_MUST_CHECK vw_status vw__tune_card(uint64_t context_bytes, bool is_whole_card,
                                      uint64_t *card_bytes);

/* Notes what of the card is for PyTorch, which is `card_bytes`. */
void vw__tune_note_context(vw__notes *notes, uint64_t card_bytes, uint64_t context_bytes,
                           bool is_whole_card);

/* Returns whether `a` is better than `b`; a strict order. */
bool vw__tune_is_better(const vw__tune_work *tuning, const vw__tune_candidate *a,
                        const vw__tune_candidate *b);

#endif /* VW_SETTINGS_TUNE_H */
