/* verify_parts.h - what the files of verify share.
 *
 * A recording leaves things out (docs/design/003): the limit, the card's size, whether a release
 * was the program's. An *assumption* fills the gaps; a *trial* plays a script under one assumption
 * and stops at the first difference. verify.c makes assumptions until a trial finds none, or none
 * is left. */
#ifndef VW_ANALYSIS_VERIFY_PARTS_H
#define VW_ANALYSIS_VERIFY_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/analysis.h"
#include "analysis/expectation.h"
#include "analysis/limit_evidence.h"
#include "analysis/player.h"
#include "analysis/script.h"

/* The card of expectations without a size: the corpus is from an H200. */
#define VW__VERIFY_DEFAULT_TOTAL_BYTES UINT64_C(150109880320)

enum { VW__VERIFY_WORDS_BYTES = 200, VW__VERIFY_EXPLANATION_BYTES = 640 };

typedef struct vw__verify_assumption {
    uint64_t total_bytes; /* of the card */
    uint64_t limit_bytes; /* UINT64_MAX: no limit */
    double fraction; /* given, not inferred: counts instead of the limit; negative = not given */
    bool has_conf_fraction;            /* the settings have a fraction */
    bool trusts_conf_fraction;         /* and the card's total is known, so it counts */
    const vw__limit_refusal *refusals; /* borrowed, by rising op */
    size_t refusal_count;
    bool is_waited_for; /* frees that completed in a request which gave memory back, or failed: by
                           the request's own waiting, and not before it */
    const bool *is_unsplit; /* borrowed; by pool of the script: blocks are handed out whole */
} vw__verify_assumption;

/* Which way an assumed limit was wrong. */
typedef enum vw__verify_limit_verdict {
    VW__VERIFY_LIMIT_NO_MATTER,
    VW__VERIFY_LIMIT_TOO_LOW,  /* the replay gave back, or refused, what the recording did not */
    VW__VERIFY_LIMIT_TOO_HIGH, /* the other way round */
} vw__verify_limit_verdict;

typedef struct vw__verify_difference {
    bool is_found;
    uint64_t event; /* VW_UNKNOWN: the end */
    char expected[VW__VERIFY_WORDS_BYTES];
    char got[VW__VERIFY_WORDS_BYTES];
    char explanation[VW__VERIFY_EXPLANATION_BYTES];
} vw__verify_difference;

typedef struct vw__verify_trial_result {
    uint64_t segment_events_matched;
    uint64_t placements_matched;
    uint64_t end_segments_matched;
    uint64_t statistics_recorded, statistics_matched;
    size_t ops_played;
    uint32_t first_event, end_event; /* of the operation that differed */
    uint16_t pool;                   /* and the script's pool it was for */
    uint64_t recorded_address;       /* of the events that differ; 0: no event */
    uint64_t seen_address;
    vw__verify_limit_verdict limit_verdict;
    const char *summary;      /* see vw__verify_trial.summary_arena; or NULL */
    bool has_unordered_frees; /* several completed by one wait, in an unknown order */
    vw__verify_difference difference;
} vw__verify_trial_result;

typedef struct vw__verify_trial {
    const vw__script *script;
    const char *torch_version;
    const char *conf;
    const vw__expectation *expectation; /* or NULL */
    const vw__verify_assumption *assumption;
    vw__arena *summary_arena; /* or NULL: print torch.cuda.memory_summary() of the end into it,
                                 instead of comparing the end */
    vw_progress progress;     /* or NULL */
    void *progress_context;
    bool is_first;               /* how far it is says something */
    const vw__player_time *time; /* for this trial, or for all */
} vw__verify_trial;

/* Plays everything and compares everything, up to the first difference. Fails only if it could not
 * be done (VW_ERR_HOST_MEMORY, VW_ERR_BAD_SETTING, VW_ERR_WRONG_STATE when progress() said stop,
 * VW_ERR_UNSUPPORTED when it takes too much time or memory: player.h). */
VW_MUST_CHECK vw_status vw__verify_trial_run(const vw__verify_trial *trial,
                                             vw__verify_trial_result *out);

/* Notes the first difference, at `event`; later ones are ignored. */
__attribute__((format(printf, 4, 5))) void
vw__verify_note_difference(vw__verify_difference *difference, uint64_t event,
                           const char *explanation, const char *expected, ...);

/* ---- verify_reading.c ------------------------------------------------------------------------ */

#define VW__VERIFY_MOST_POOL_HINTS 128

/* Conclusions so far about regions whose pool is not recorded. */
typedef struct vw__verify_pool_search {
    vw__script_pool_hint hints[VW__VERIFY_MOST_POOL_HINTS];
    size_t hint_count;
    uint32_t group_ends[2 * VW__VERIFY_MOST_POOL_HINTS + 1]; /* by group: where its memory went */
    uint16_t group_count;                                    /* groups are counted from 1 */
    uint64_t reached_event;     /* the difference that the last hints are for */
    size_t settled_count;       /* hints before those */
    vw__script_pool_hint other; /* to be tried instead of them if they do not help */
    bool has_other;
} vw__verify_pool_search;

#define VW__VERIFY_MOST_FLIPS 64

/* How the events are read, where they can be read in more than one way. */
typedef struct vw__verify_reading {
    uint32_t flips[VW__VERIFY_MOST_FLIPS];
    size_t flip_count;
    vw__verify_pool_search pools;
    bool *is_unsplit; /* owned; by pool of the script */
    size_t pool_count;
    bool has_unsplit; /* concluded, not given */
    bool has_late_frees;
    bool has_other_waits; /* the other reading of frees that complete under pressure */
    bool has_no_captures; /* of vw__script_guide */
} vw__verify_reading;

void vw__verify_reading_deinit(vw__verify_reading *reading);

/* Makes the script that goes with a reading (`*script` is replaced), and room for its pools. */
VW_MUST_CHECK vw_status vw__verify_reading_make_script(vw__verify_reading *reading,
                                                       const vw__model *model,
                                                       const vw__model_trace *trace,
                                                       const vw__expectation *expectation,
                                                       vw__script *script);

/* The other first reading, where private pools were in use and runs of requests were taken for
 * captures: everything revised since is forgotten. */
void vw__verify_reading_drop_captures(vw__verify_reading *reading);

/* Looks for a reading that was not tried and that the last difference asks for. */
VW_MUST_CHECK vw_status vw__verify_reading_revise(vw__verify_reading *reading,
                                                  const vw__script *script,
                                                  const vw__verify_trial_result *last,
                                                  bool *has_more);

/* ---- verify_end.c ---------------------------------------------------------------------------- */

/* Compares the pool, after everything was played, with the recorded segments, statistics and
 * summary. */
VW_MUST_CHECK vw_status vw__verify_end(const vw__verify_trial *trial, vw_pool *pool,
                                       vw__verify_trial_result *result);

/* A copy of the text without NVML's sentences about processes. Freed with vw__host_free(); NULL
 * without memory. */
char *vw__verify_without_processes(const char *text);

/* ---- verify_cut.c ---------------------------------------------------------------------------- */

/* Checks that a trace which does not begin at the beginning agrees with itself and with the end.
 * Fills the difference if it does not. */
VW_MUST_CHECK vw_status vw__verify_cut_trace(const vw__script *script,
                                             vw__verify_difference *difference);

#endif /* VW_ANALYSIS_VERIFY_PARTS_H */
