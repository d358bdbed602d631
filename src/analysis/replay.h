/* replay.h - plays a whole script under one setting on one card.
 *
 * Words: a *card* is what limits a run: a device of so many bytes, a limit that the process set
 * itself, or nothing. The *work* is the data that all runs of one call share. A run *completes* if
 * no request ran out of memory.
 *
 * docs/design/004-replay.md says what a replay assumes.
 *
 * The work is read-only once made: runs may go side by side in several threads. */
#ifndef VW_ANALYSIS_REPLAY_H
#define VW_ANALYSIS_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/analysis.h"
#include "analysis/player.h"
#include "analysis/policies.h"
#include "analysis/result.h"
#include "analysis/roles.h"
#include "analysis/script.h"
#include "analysis/steps.h"
#include "analysis/stream_steps.h"
#include "analysis/timeline.h"

/* ---- cards ----------------------------------------------------------------------------------- */

typedef struct vw__replay_card {
    uint64_t capacity_bytes; /* UINT64_MAX: without end */
    uint64_t total_bytes;    /* what the device reports; 0: the same, or a large card's */
    double fraction;         /* set_per_process_memory_fraction(); > 1: never called */
    uint64_t shown_bytes;    /* vw_replay_result.card_bytes */
} vw__replay_card;

vw__replay_card vw__replay_card_without_end(void);
vw__replay_card vw__replay_card_of(uint64_t bytes);

/* A card without end on which the process may use `limit_bytes`: this is how a memory fraction
 * ends a program while the device has memory left, and garbage collection needs it. */
vw__replay_card vw__replay_card_with_limit(uint64_t limit_bytes);

/* The card that a recording ran on, as far as it shows. */
typedef struct vw__replay_recorded_card {
    bool is_known;              /* it ran out of memory, or is_written */
    bool is_written;            /* `bytes` is the limit of a pool, as its recorder wrote it */
    bool is_device;             /* the device had no room; else the process had a limit */
    uint64_t bytes;             /* this much PyTorch was served, at one instant */
    uint64_t refused_bytes;     /* a request was refused that would have made it hold this much */
    uint64_t device_free_bytes; /* at that moment */
    bool is_narrowed;           /* `bytes` is more than what was served: see replay_card.c */
} vw__replay_recorded_card;

/* ---- progress -------------------------------------------------------------------------------- */

/* Progress of a call that makes several runs: `base` is done, and the present run is `share` of
 * all. */
typedef struct vw__replay_progress {
    vw_progress progress; /* or NULL */
    void *context;
    double base, share;
} vw__replay_progress;

/* Reports progress; `done` is the share of the present run. VW_ERR_WRONG_STATE if the caller wants
 * to stop. */
VW_MUST_CHECK vw_status vw__replay_tell(const vw__replay_progress *progress, double done);

/* ---- streams --------------------------------------------------------------------------------- */

/* What streams of data can move, in a step of the recording that is like the others. */
typedef struct vw__replay_stream {
    vw__stream_steps_one model; /* owned; the step that needs most; mark_count 0: there is none */
    bool has_times;             /* the recording shows how long a step takes */
    uint8_t *kinds;             /* owned; by operation: vw__replay_stream_kind */
} vw__replay_stream;

typedef enum vw__replay_stream_kind {
    VW__REPLAY_STREAM_NOTHING,
    VW__REPLAY_STREAM_STATE, /* it asks for a block of an optimizer's state */
    VW__REPLAY_STREAM_SAVED, /* for one that is saved for the backward pass */
} vw__replay_stream_kind;

/* VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__replay_stream_make(const vw__script *script,
                                               const vw__timeline *timeline, const vw__steps *steps,
                                               const vw__roles *roles, vw__replay_stream **out);
void vw__replay_stream_free(vw__replay_stream *stream); /* NULL does nothing */

/* Returns whether the recording shows enough to say what streams cost. */
bool vw__replay_stream_is_known(const vw__replay_stream *stream);

/* ---- the work -------------------------------------------------------------------------------- */

/* An operation during which memory was taken from the device, or given back. */
typedef struct vw__replay_followed_op {
    size_t op;
    uint64_t reserved_bytes; /* as recorded, after it */
} vw__replay_followed_op;

typedef struct vw__replay_work {
    vw__script script; /* owned; its model and trace are borrowed */
    const char *torch_version;
    const char *recorded_policy;  /* static; "recorded", or the engine of ours that made it */
    char *recorded_conf;          /* owned; "" if the file has none */
    bool is_recorded_conf_known;  /* the file has its settings */
    bool is_recorded_conf_usable; /* by the rules of `torch_version` */
    vw__replay_followed_op
        *followed; /* owned; rising: where a run under the recorded settings is held
               against the recording. Empty for a cut ring and for expandable
               segments: which addresses the driver gave is not recorded */
    size_t followed_count;
    bool *is_unsplit; /* owned; by pool of the script: taken for one made with no_split; or NULL */
    size_t *trims;    /* owned; rising: an empty_cache() comes before these operations */
    size_t trim_count;
    bool skips_empty_cache; /* recorded calls are left out: vw__player_options */
    size_t *steps;          /* owned; rising: a step has ended before these operations */
    size_t step_count;
    uint64_t step_ns;          /* that a step takes, as recorded; VW_UNKNOWN */
    uint8_t *advice;           /* owned; vw_advice by operation, for what it asks for; or NULL */
    vw__replay_stream *stream; /* owned; or NULL */
} vw__replay_work;

/* Prepares a recording. Adds notes for readers of any result: a cut ring, several devices ...
 * `notes` may be NULL, here and below. */
VW_MUST_CHECK vw_status vw__replay_work_init(vw__replay_work *work, const vw__model *model,
                                             const char *wanted_version, int device,
                                             vw__notes *notes);
void vw__replay_work_deinit(vw__replay_work *work);

/* Lists, by rising operation, what leaves and returns in a run by `plan`, which is of the work's
 * model step: host memory, to be freed with vw__host_free().
 *
 * VW_ERR_UNSUPPORTED  more moves than a real program has, or than there may be memory for, or
 * `time` is used up; VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__replay_stream_list(const vw__replay_work *work,
                                               const vw__stream_cost_plan *plan,
                                               uint64_t limit_bytes, vw__player_time *time,
                                               vw__player_move **moves, size_t *count);

/* Adds calls of empty_cache(), or leaves out the recorded ones; notes how many. VW_ERR_UNSUPPORTED
 * if no step or phase was found. */
VW_MUST_CHECK vw_status vw__replay_work_add_trims(vw__replay_work *work, vw_empty_cache kind,
                                                  uint64_t every, vw__notes *notes,
                                                  uint64_t *step_count);

/* Adds what a run with spill_bytes needs: where steps end, and which blocks are an optimizer's
 * state or weights, by their stacks; with `has_streams`, what streams need too. Not every recording
 * shows these.
 *
 * VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__replay_work_add_spill(vw__replay_work *work, bool has_streams,
                                                  vw__notes *notes);

/* The same for callers who have these at hand, without notes. */
VW_MUST_CHECK vw_status vw__replay_work_add_spill_by(vw__replay_work *work,
                                                     const vw__timeline *timeline,
                                                     const vw__steps *steps, const vw__roles *roles,
                                                     bool has_streams);

/* Frees what these added. */
void vw__replay_work_drop_spill(vw__replay_work *work);

/* For a copy that shares the rest: forgets it. */
void vw__replay_work_clear_spill(vw__replay_work *work);

/* Stores, for each operation, the lifetime of the block that it asks for: host memory, to be freed
 * with vw__host_free(). VW_ERR_HOST_MEMORY */
#define VW__REPLAY_NO_LIFETIME UINT32_MAX
VW_MUST_CHECK vw_status vw__replay_find_lifetimes(const vw__script *script,
                                                  const vw__timeline *timeline, uint32_t **out);

/* The name that a run of `policy` has in results (static), and its option string (borrowed).
 * `own_conf` is the string of policy "conf", and may be NULL for others. VW_ERR_INVALID_ARGUMENT:
 * no such policy, or no string for "conf". */
VW_MUST_CHECK vw_status vw__replay_name_run(const vw__replay_work *work, const char *policy,
                                            const char *own_conf, const char **name,
                                            const char **conf);

/* Fails if `policy` is "recorded" and the recorded settings cannot be used: VW_ERR_BAD_SETTING if
 * the caller chose the version, else VW_ERR_CORRUPT_FILE. */
VW_MUST_CHECK vw_status vw__replay_check_recorded(const vw__replay_work *work, const char *policy,
                                                  bool is_version_asked_for);

/* The engine that made the recording, with its option string, or "" if no PyTorch of the work's
 * version can use that. */
vw__replay_setting vw__replay_recorded_setting(const vw__replay_work *work);

/* Stores whether two option strings mean the same in that version. VW_ERR_BAD_SETTING for one that
 * cannot be used. */
VW_MUST_CHECK vw_status vw__replay_same_settings(const char *torch_version, const char *conf,
                                                 const char *other_conf, bool *out);

/* Reads the card by the recording's own settings, since it matters how requests were rounded. The
 * one home of a recording's limit. Replays the recording some times, at most 64, if it ran out of
 * memory under a limit and collects garbage; else not at all. */
VW_MUST_CHECK vw_status vw__replay_recorded_card_find(const vw__replay_work *work,
                                                      vw__replay_recorded_card *out);

/* The card to replay on; one without end if the recording shows none. */
vw__replay_card vw__replay_card_as_recorded(const vw__replay_recorded_card *recorded);

/* ---- runs ------------------------------------------------------------------------------------ */

/* Stores the most that a script holds at once if no free waits for another stream. That may be less
 * than the peak of live bytes; no setting can do with less. */
VW_MUST_CHECK vw_status vw__replay_least_bytes(const vw__script *script, uint64_t *out);

/* The recorded time between `first_event` and the last event before `end_event`. VW_UNKNOWN if
 * there is no time, or it did not rise. */
uint64_t vw__replay_duration_ns(const vw__model_trace *trace, size_t first_event, size_t end_event);

/* Plays the whole script, or up to the first request that was served in the recording and is not
 * here; with `is_trial` to the first that is not served at all. Fills everything of `*out` but
 * `policy` and `smallest_card_bytes`; `conf` is borrowed there. A run with PyTorch's rules and the
 * recorded `conf` gets the recorded addresses as long as it does what was recorded; one with other
 * calls of empty_cache() than the recorded ones never does.
 *
 * VW_ERR_BAD_SETTING   `conf`: the text names it
 * VW_ERR_CORRUPT_FILE  a request of 2^60 bytes or more that the recording claims was served
 * VW_ERR_WRONG_STATE   stopped by the caller's progress function
 * VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__replay_run(const vw__replay_work *work, vw__replay_setting setting,
                                       vw__replay_card card, bool is_trial,
                                       const vw__replay_progress *progress, vw_replay_result *out);

/* Is called when reserved bytes change during a run. */
typedef struct vw__replay_listener {
    /* A run begins, with nothing reserved. Calls before it do not count: a run that stops following
     * the recording is made again. */
    void (*begin)(void *context);
    /* `bytes` are reserved after operation `op`, and `highest_bytes` were at some moment of it.
     * Called when either changes. */
    void (*reserved)(void *context, size_t op, uint64_t highest_bytes, uint64_t bytes);
    void *context;
} vw__replay_listener;

/* How often this process has played a script from its beginning, for tests: a run that stops
 * following the recording counts twice. Safe from any thread. */
uint64_t vw__replay_play_count(void);

/* How many of work->followed a run under the recorded settings, and with the recorded calls of
 * empty_cache(), gets through as recorded. Where it does not, `*holds_more` (or NULL) says whether
 * it holds more than was recorded, or less. */
VW_MUST_CHECK vw_status vw__replay_follow_length(const vw__replay_work *work, vw__replay_card card,
                                                 size_t *out, bool *holds_more);

/* ---- several runs at once -------------------------------------------------------------------- */

typedef struct vw__replay_job {
    vw__replay_setting setting;
    vw__replay_card card;
    const vw__replay_listener *listener; /* or NULL; called by the thread that makes the run */
    vw_replay_result *result;            /* as vw__replay_run() fills it */
} vw__replay_job;

/* Makes all runs, in up to `most_threads` threads; 0: one for each processor of the machine. Only
 * the calling thread calls `progress`. */
VW_MUST_CHECK vw_status vw__replay_work_off(const vw__replay_work *work, const vw__replay_job *jobs,
                                            size_t count, unsigned most_threads,
                                            const vw__replay_progress *progress);

/* ---- cards that are just large enough -------------------------------------------------------- */

typedef struct vw__replay_smallest {
    uint64_t bytes; /* from here on every card tried is enough; VW_UNKNOWN: none is */
    uint64_t
        first_bytes; /* enough as well, but some between it and `bytes` are not; else `bytes` */
} vw__replay_smallest;

/* Finds the smallest card on which a run completes, and on the larger ones as well, to 2 MiB: that
 * card was tried and completes, 2 MiB less was tried and does not. VW_UNKNOWN if no card up to
 * twice the need completes. The one home of this question; see replay_card.c for which cards are
 * tried. */
VW_MUST_CHECK vw_status vw__replay_smallest_card(const vw__replay_work *work,
                                                 vw__replay_setting setting,
                                                 const vw__replay_progress *progress,
                                                 vw__replay_smallest *out);

#endif /* VW_ANALYSIS_REPLAY_H */
