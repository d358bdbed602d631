/* analysis.h - recordings: open one, look into it, verify it against PyTorch's rules, replay it.
 *
 * A recording is a PyTorch memory snapshot (torch.cuda.memory._dump_snapshot(), _snapshot(),
 * memory_snapshot(), or what recording.h writes), of any version, pickled or as JSON, plain or
 * compressed with gzip, xz or zstd. Files are never executed: a pickle that names or calls anything
 * is refused.
 *
 * Replay runs the allocator of vramwise.h, with its rules for every version and setting, on a
 * simulated device. Verify proves that on a given recording: the replay must give the recorded
 * events again, one by one.
 *
 * Results are owned by the library: read-only, freed with the function named beside them. Unknown
 * values are VW_UNKNOWN, never a guess. Several threads may read a recording at once.
 *
 * Link with -lvramwise-analysis. Reading order: vw_recording_open(), vw_recording_stats_make(),
 * vw_recording_verify(), vw_recording_replay(), vw_recording_tune(), vw_recordings_diff(); then
 * doctor.h for a verdict with its findings, and report.h to print what any of them return. */
#ifndef VRAMWISE_ANALYSIS_H
#define VRAMWISE_ANALYSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/vramwise.h" /* vw_stream, vw_action */
#include "vramwise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vw_recording vw_recording; /* opaque */

#define VW_UNKNOWN UINT64_MAX
#define VW_BUSIEST_DEVICE (-2) /* the device with the most events */

/* ---- opening --------------------------------------------------------------------------------- */

/* Called now and then, in the calling thread. `done` rises from 0 to 1, or is negative if unknown.
 * Returns false to stop: the call then fails with VW_ERR_WRONG_STATE. */
typedef bool (*vw_progress)(void *context, double done);

typedef struct vw_open_options {
    size_t struct_size;          /* sizeof(vw_open_options) */
    uint64_t memory_limit_bytes; /* for the reader; 0 = vw_reading_limit_set()'s */
    vw_progress progress;        /* or NULL */
    void *progress_context;
} vw_open_options;

/* Limits what reading one recording may take of host memory, in this process, where options name no
 * limit. 0 = the default: a quarter of what is free on this machine and allowed by its control
 * groups, at least 64 MiB and at most 16 GiB. Safe from any thread. */
VW_API void vw_reading_limit_set(uint64_t memory_bytes);

/* The limit that is in force. Safe from any thread. */
VW_API uint64_t vw_reading_limit(void);

/* Reads a file; "-" is standard input. `options` may be NULL.
 *
 * - VW_ERR_FILE: it cannot be opened or read
 * - VW_ERR_CORRUPT_FILE: not a snapshot, cut short, damaged, or it wants to run code;
 *   vw_last_error() says what was expected, what was found, and where
 * - VW_ERR_UNSUPPORTED: larger or deeper than the limits
 * - VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_recording_open(const char *path, const vw_open_options *options,
                                                 vw_recording **out);

/* The same for bytes in memory, which are borrowed for the call. */
VW_API VW_MUST_CHECK vw_status vw_recording_open_memory(const void *bytes, size_t size_bytes,
                                                        const vw_open_options *options,
                                                        vw_recording **out);
VW_API void vw_recording_close(vw_recording *recording); /* NULL does nothing */

/* ---- looking into it ------------------------------------------------------------------------- */

/* One line of a stack. Strings are the recording's. */
typedef struct vw_frame {
    const char *function;
    const char *file;
    uint32_t line;
} vw_frame;

/* All live blocks with the same stack. */
typedef struct vw_usage {
    const vw_frame *frames; /* innermost first; empty without a stack, or without Python frames */
    size_t frame_count;
    const vw_frame *where; /* the innermost frame outside torch and its libraries; NULL = none */
    const char *category;  /* "weights", "optimizer", "activations", ...: by the stack */
    bool has_stack;        /* a stack was captured; it may be empty */
    uint64_t bytes;        /* after rounding to 512 */
    uint64_t block_count;
    uint64_t largest_bytes; /* largest block */
} vw_usage;

/* What was live at one instant, by stack, largest first. */
typedef struct vw_moment {
    uint64_t event;          /* index in the trace; VW_UNKNOWN: the end state, without a trace */
    int64_t time_us;         /* since 1970; INT64_MIN = unknown */
    uint64_t live_bytes;     /* requests rounded up to 512 bytes, until their free completed */
    uint64_t reserved_bytes; /* VW_UNKNOWN if the trace does not show it */
    uint64_t block_count;
    const vw_usage *usages;
    size_t usage_count;
    const vw_usage *categories; /* the same by category: frames and where are empty */
    size_t category_count;
} vw_moment;

/* Live memory that went to host memory and came back (vw_pool_options.spill_bytes), by the
 * annotations in the recording: in a long run only the last ones are kept. */
typedef struct vw_recorded_spill {
    uint64_t spills; /* times memory left the device */
    uint64_t all_spilled_bytes;
    uint64_t peak_spilled_bytes; /* most bytes in host memory at once */
    uint64_t end_spilled_bytes;  /* after the last move */
    uint64_t returns;            /* times memory came back */
    uint64_t returned_bytes;
    uint64_t wait_us; /* of all moves */
} vw_recorded_spill;

/* One device of a recording. */
typedef struct vw_device_stats {
    int device; /* -1: pinned host memory */
    uint64_t event_count;
    uint64_t action_counts[VW_ACTION_OOM + 1]; /* by vw_action */
    uint64_t other_event_count;                /* of kinds that are not in vw_action */
    int64_t first_time_us, last_time_us;       /* INT64_MIN = unknown */
    uint64_t stream_count;
    uint64_t private_pool_count;

    /* At the end, by the segments in the file. */
    uint64_t segment_count, block_count;
    uint64_t reserved_bytes, allocated_bytes, active_bytes;
    uint64_t requested_bytes; /* VW_UNKNOWN before PyTorch 2.0 */
    uint64_t largest_free_block_bytes;
    uint64_t expandable_segment_count;

    /* Over the trace. */
    uint64_t peak_reserved_bytes; /* VW_UNKNOWN without a trace */
    uint64_t peak_reserved_event;
    bool is_truncated;           /* it does not begin at the first allocation */
    uint64_t initial_live_bytes; /* known to be live before the first kept event */
    uint64_t initial_block_count;
    uint64_t stackless_count; /* allocs without any frame */
    uint64_t step_count;      /* training steps found in the trace; 0 = none found */
    vw_moment peak;           /* of live bytes */
    vw_moment end;

    /* The first out-of-memory event. */
    bool has_oom;
    uint64_t oom_event, oom_tried_bytes, oom_device_free_bytes;

    vw_recorded_spill spill;

    /* torch.cuda.memory_summary() as PyTorch would have printed it at the end. It comes from
     * replay, if that reproduces the recording from the first allocation on; otherwise it is NULL
     * and `summary_reason` says why. */
    const char *summary;
    const char *summary_reason;
} vw_device_stats;

typedef struct vw_setting {
    const char *key;
    const char *value;
} vw_setting;

typedef struct vw_recording_stats {
    const char *encoding;    /* "pickle", "json" */
    const char *compression; /* "plain", "gzip", "xz", "zstd" */
    uint64_t file_bytes, uncompressed_bytes;
    uint64_t model_bytes;       /* host memory that the open recording takes */
    const char *oldest_version; /* of PyTorch that could have written these fields; NULL */
    const char *newest_version;
    const char *conf; /* PYTORCH_CUDA_ALLOC_CONF; NULL = not recorded */
    const vw_setting *settings;
    size_t setting_count;
    uint64_t stack_count, frame_count, annotation_count;
    uint64_t unknown_field_count; /* fields that the reader ignored */
    const char *first_unknown_field;
    const vw_device_stats *devices; /* the host's, if any, last */
    size_t device_count;
    const char *const *warnings; /* what a reader should know: a cut ring, no stacks ... */
    size_t warning_count;
} vw_recording_stats;

typedef struct vw_stats_options {
    size_t struct_size;
    const char *torch_version; /* for the summary; NULL = "2.11" if it fits the file, else the
                                  newest that does */
    size_t most_usages;        /* of a moment; 0 = all */
    bool without_summary;      /* no replay */
} vw_stats_options;

VW_API VW_MUST_CHECK vw_status vw_recording_stats_make(const vw_recording *recording,
                                                       const vw_stats_options *options,
                                                       vw_recording_stats **out);
VW_API void vw_recording_stats_free(vw_recording_stats *stats);

/* ---- verify ---------------------------------------------------------------------------------- */

typedef struct vw_verify_options {
    size_t struct_size;
    const char *torch_version; /* NULL as in vw_stats_options */
    const char *expect_path;   /* JSON with PyTorch's statistics at the end; NULL = none */
    vw_progress progress;
    void *progress_context;
} vw_verify_options;

typedef struct vw_difference {
    int device;
    uint64_t event;          /* index in that device's trace; VW_UNKNOWN: the end state */
    const char *expected;    /* as recorded, in words */
    const char *got;         /* as replayed */
    const char *explanation; /* a sentence or two on what it means */
} vw_difference;

typedef struct vw_verify_result {
    bool is_exact;             /* everything that can be verified matched */
    const char *torch_version; /* whose rules were used */
    uint64_t event_count;
    uint64_t segment_events_recorded, segment_events_matched;
    uint64_t placements_recorded, placements_matched;
    uint64_t end_segments_recorded, end_segments_matched; /* the final layout, blocks included */
    uint64_t statistics_recorded, statistics_matched;     /* of expect_path; 0 without */
    bool has_expectation;
    const vw_difference *first_difference; /* NULL = none */
    const char *const *unverifiable;       /* what could not be verified, and why */
    size_t unverifiable_count;
    /* Bounds of the memory limit under which the busiest device ran. VW_UNKNOWN if the recording
     * does not show them. */
    uint64_t limit_at_least_bytes, limit_below_bytes;
} vw_verify_result;

VW_API VW_MUST_CHECK vw_status vw_recording_verify(const vw_recording *recording,
                                                   const vw_verify_options *options,
                                                   vw_verify_result **out);
VW_API void vw_verify_result_free(vw_verify_result *result);

/* ---- replay ---------------------------------------------------------------------------------- */

/* When to call empty_cache(). Recorded calls are replayed unless NEVER; STEPS and PHASES add calls.
 */
typedef enum vw_empty_cache {
    VW_EMPTY_CACHE_AS_RECORDED,
    VW_EMPTY_CACHE_NEVER, /* as if the program made no such calls; a private pool's memory still
                             goes where only that went, as when a MemPool is destroyed */
    VW_EMPTY_CACHE_STEPS, /* after every `empty_cache_every`-th training step */
    VW_EMPTY_CACHE_PHASES /* where the kind of work changes: training to evaluation and back */
} vw_empty_cache;

/* One run to make. Policies:
 *
 *   "native"       PyTorch's defaults
 *   "expandable"   expandable_segments:True
 *   "recorded"     the settings in the file
 *   "conf"         the settings in `conf`
 *   "vramwise", "vramwise:rescue", "vramwise:tight"
 *                  this library's engine in place of PyTorch's allocator (vramwise.h) */
typedef struct vw_replay_run {
    const char *policy;
    const char *conf; /* with policy "conf"; else NULL */
} vw_replay_run;

typedef struct vw_replay_options {
    size_t struct_size;
    const vw_replay_run *runs; /* NULL: recorded, native, expandable and vramwise, each once */
    size_t run_count;
    const char *torch_version; /* NULL as in vw_stats_options */
    int device;                /* VW_BUSIEST_DEVICE */
    uint64_t card_bytes; /* the card's memory for PyTorch; 0: as in the recording if it shows that
                            (it ran out of memory), else no limit */
    bool find_smallest_card;
    vw_empty_cache empty_cache;
    uint64_t empty_cache_every; /* with STEPS; 0 = 1 */
    vw_progress progress;
    void *progress_context;

    /* vw_pool_options.spill_bytes; 0 = none. Only with "vramwise...", which is the only run then if
     * `runs` is NULL. Replay marks the steps, advises an optimizer's state as cold and the trained
     * weights as hot, as far as the recording shows them, and grants safe points. */
    uint64_t spill_bytes;

    /* With spill_bytes: an optimizer's state, and where that is not enough what the forward pass
     * saves, leaves and returns beside the computation, as with install(stream=True) under PyTorch.
     * Scheduled by vw_schedule_stream() and vw_schedule_saved(). */
    bool stream;
} vw_replay_options;

/* Numbers of driver calls, by kind. */
typedef struct vw_replay_calls {
    uint64_t alloc, free, create, release, map, unmap, set_access;
} vw_replay_calls;

typedef struct vw_replay_result {
    const char *policy;
    const char *conf;     /* settings of the replay */
    uint64_t card_bytes;  /* VW_UNKNOWN: no limit */
    bool is_complete;     /* never ran out of memory */
    uint64_t events_done; /* how far it got */
    uint64_t peak_reserved_bytes;
    uint64_t peak_live_bytes;      /* of this run: less than recorded if it ended early, more if it
                                      served requests that failed in the recording */
    uint64_t peak_allocated_bytes; /* peak_live_bytes with this setting's rounding */
    double ratio;                  /* peak reserved / peak live, both of this run */
    uint64_t retries;
    uint64_t trims; /* empty_cache() calls added by STEPS or PHASES */
    bool has_oom;
    uint64_t oom_event;       /* index in the trace */
    uint64_t oom_tried_bytes; /* asked of the device */
    uint64_t oom_reserved_bytes, oom_allocated_bytes;
    bool is_past_recorded_oom; /* served a request that failed in the recording */
    vw_replay_calls calls;
    uint64_t device_ns;           /* by the measured cost of each call */
    uint64_t longest_stall_ns;    /* most driver time within one request */
    uint64_t smallest_card_bytes; /* from here on all that were tried are enough; VW_UNKNOWN: not
                                     asked for, or none is */

    /* After the first quarter of the events, when most memory has been taken: device_ns, and the
     * recorded duration up to where the run ended. VW_UNKNOWN if it ended before; the duration also
     * if the recording has no times. */
    uint64_t settled_device_ns;
    uint64_t settled_duration_ns;

    /* Policies "vramwise...": free memory that changed its address or stream, and live data copied
     * to other pages. Replay assumes that every safe point is granted. */
    uint64_t moved_bytes;
    uint64_t copied_bytes;

    /* With spill_bytes: live memory that went to host memory. It still counts as reserved. */
    uint64_t peak_spilled_bytes; /* most at once */
    uint64_t spills;             /* times memory left the device */
    uint64_t all_spilled_bytes;  /* sum over all times */
    uint64_t returns;            /* times memory came back */
    uint64_t returned_bytes;     /* sum over all times */
    uint64_t peak_host_bytes;    /* host memory held for it, in use or ready */
    uint64_t spill_wait_ns;      /* time to move it, by the measured cost of each call */

    /* How much longer a step takes: the time to move memory, and to read and write once, over the
     * bus as measured, what was spilled and did not come back within the step. The average from the
     * third step after memory first left (host memory is made in the first ones), or from the first
     * if there are no more. VW_UNKNOWN without spill_bytes, or if no step ended after that. With
     * streams, what these cost as well; VW_UNKNOWN if the recording does not show what they move.
     */
    uint64_t step_cost_ns;
    bool is_step_cost_settled; /* average of the third step and later */

    /* A card that is enough as well, though not every larger one up to smallest_card_bytes is;
     * smallest_card_bytes where there is none. */
    uint64_t first_card_bytes;

    /* With spill_bytes: the time from one step to the next, as recorded (the median). VW_UNKNOWN
     * where the recording does not show it. */
    uint64_t step_ns;

    /* With streams: what leaves the device in a step, of the optimizer's state and of what the
     * forward pass saves; the state that is in host memory all the time, where the optimizer uses
     * it; and how long the GPU waits for copies. 0 without. */
    uint64_t stream_state_bytes, stream_saved_bytes, stream_stayed_bytes;
    uint64_t stream_wait_ns;
} vw_replay_result;

typedef struct vw_replay_report {
    int device;
    uint64_t event_count;
    uint64_t peak_live_bytes;
    uint64_t peak_live_event;
    uint64_t recorded_oom_event; /* VW_UNKNOWN = none */
    uint64_t step_count;
    uint64_t spill_bytes;            /* from the options */
    const vw_replay_result *results; /* in the order of the runs */
    size_t result_count;
    const char *const *notes; /* what was assumed or left out: a cut ring, several devices ... */
    size_t note_count;
    bool stream; /* from the options */
} vw_replay_report;

/* VW_ERR_CORRUPT_FILE      the recording has no trace
 * VW_ERR_BAD_SETTING       a conf cannot be used; vw_last_error() names it
 * VW_ERR_INVALID_ARGUMENT  unknown policy, version or device; spill_bytes with a policy of PyTorch;
 *                          stream without spill_bytes
 * VW_ERR_UNSUPPORTED       empty_cache by steps or phases, but the recording shows none */
VW_API VW_MUST_CHECK vw_status vw_recording_replay(const vw_recording *recording,
                                                   const vw_replay_options *options,
                                                   vw_replay_report **out);
VW_API void vw_replay_report_free(vw_replay_report *report);

/* ---- tune ------------------------------------------------------------------------------------ */

typedef struct vw_tune_options {
    size_t struct_size;
    uint64_t card_bytes; /* not 0 */
    const char *torch_version;
    int device; /* VW_BUSIEST_DEVICE */
    vw_progress progress;
    void *progress_context;
    uint64_t context_bytes; /* what CUDA's context takes: of card_bytes if it is of a whole card,
                               beside it otherwise, which is said; 0 = not to be thought of */
    bool is_whole_card;
} vw_tune_options;

typedef struct vw_tune_report {
    int device;
    uint64_t event_count;
    uint64_t card_bytes; /* for PyTorch */
    uint64_t peak_live_bytes;
    bool is_possible; /* live bytes never exceed the card; blocks that only wait for other streams
                         do not count */
    bool fits;        /* `best` completes */
    const vw_replay_result *best;     /* in `tried`; the one that got farthest if none fits */
    const vw_replay_result *recorded; /* in `tried`: the settings in the file */
    const vw_replay_result *tried;    /* best first */
    size_t tried_count;
    const char *const *warnings; /* commonly recommended settings that make it worse here */
    size_t warning_count;
    const char *const *notes;
    size_t note_count;
    const char *variable; /* of the environment, for a setting: "PYTORCH_CUDA_ALLOC_CONF"; static */
} vw_tune_report;

VW_API VW_MUST_CHECK vw_status vw_recording_tune(const vw_recording *recording,
                                                 const vw_tune_options *options,
                                                 vw_tune_report **out);
VW_API void vw_tune_report_free(vw_tune_report *report);

/* ---- diff ------------------------------------------------------------------------------------ */

/* Live blocks of one line of the program and one category (or of a whole category) in two
 * recordings, at their peaks. A line is the innermost frame of the program; its number may have
 * changed from one recording to the other, and its callers may have. */
typedef struct vw_change {
    const vw_frame *frames; /* of its stacks the one that changed most, where it holds more */
    size_t frame_count;
    const vw_frame *where; /* of these frames, as in vw_usage */
    const char *category;
    uint64_t before_bytes, after_bytes;
    uint64_t before_count, after_count;
    const vw_frame *before_where, *after_where; /* the line in each; NULL = none */
    uint64_t stack_count; /* of the recording that `frames` is from: stacks of this line */
} vw_change;

/* A file or function that has another name in the second recording, and otherwise agrees. */
typedef struct vw_rename {
    bool is_file;
    const char *before, *after; /* "train.py"; of a function "train.py step" */
} vw_rename;

typedef struct vw_diff_report {
    int before_device, after_device;
    vw_moment before, after; /* the peaks; usages and categories are not filled */
    uint64_t before_peak_reserved_bytes, after_peak_reserved_bytes;
    uint64_t before_event_count, after_event_count;
    const char *before_conf, *after_conf; /* NULL = not recorded */
    /* By line, largest difference first; equal ones are left out. */
    const vw_change *changes;
    size_t change_count;
    const vw_change *categories; /* all, largest difference first */
    size_t category_count;
    bool is_same; /* no line holds more or less */
    const char *const *notes;
    size_t note_count;
    const vw_rename *renames; /* files, then functions */
    size_t rename_count;
    /* Of all changes that grew, and of all that shrank. They account for the peaks:
     * before.live_bytes + grown_bytes == after.live_bytes + shrunk_bytes. */
    uint64_t grown_bytes, shrunk_bytes;
} vw_diff_report;

/* `before` and `after` must outlive the report, which refers to their strings. */
VW_API VW_MUST_CHECK vw_status vw_recordings_diff(const vw_recording *before,
                                                  const vw_recording *after, vw_diff_report **out);
VW_API void vw_diff_report_free(vw_diff_report *report);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_ANALYSIS_H */
