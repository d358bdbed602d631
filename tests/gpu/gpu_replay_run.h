/* gpu_replay_run.h - one recording, its operations played on one allocator, on a real device.
 *
 * The script is the one that `vramwise replay` plays (analysis/script.h), but here time is real and
 * blocks have bytes. Each block is filled as soon as it is there, by work on its stream, and
 * checked by work that is queued just before it is freed: the next owner gets it while both may
 * still be waiting for their turn. A block that another stream used when it was freed is checked on
 * a second stream, which first waits for the block's own; where the recording says that this work
 * was done, it is waited for. What is live at the end is checked as well.
 *
 * Most programs use one stream. With stream_turns, requests go to the next of several after every
 * few hundred operations, so that memory one stream freed is wanted by another while the first
 * still works.
 *
 * A block counts as live until the program frees it. How long it stays in use elsewhere after that
 * is the recording's chance in a replay by arithmetic, and this machine's here: a pool that has to
 * wait for it holds more than is live.
 *
 * What is measured: calls of the allocator alone (host time), the wall time of everything up to the
 * device's last kernel, and the device's memory as the driver counts it, asked for whenever more
 * is live than before and every few operations (some microseconds each, in the wall time of every
 * allocator alike). */
#ifndef VW_TESTS_GPU_REPLAY_RUN_H
#define VW_TESTS_GPU_REPLAY_RUN_H

#include "analysis/script.h"
#include "gpu/gpu_replay_allocators.h"
#include "gpu/gpu_replay_bytes.h"

typedef struct replay_run_options {
    vw_device *device;
    replay_bytes *bytes;    /* NULL: the calls alone, no block is touched */
    size_t operation_count; /* of the script, from its beginning */
    size_t stream_turns;    /* each stream of the recording is so many, in turn; 0 = 1 */
    uint64_t most_ns;       /* of wall time; then the run ends where it is */
    uint64_t run_number;    /* a new one each: blocks of different runs differ */
} replay_run_options;

/* How a run ended. */
typedef enum replay_end {
    REPLAY_COMPLETE,
    REPLAY_OUT_OF_TIME,
    REPLAY_OUT_OF_MEMORY, /* where the recording was served */
    REPLAY_FAILED,        /* `text` says of what; the device may be lost */
} replay_end;

typedef struct replay_result {
    replay_end end;
    char text[512];
    size_t operations; /* played */
    uint64_t refused_bytes;
    uint64_t peak_live_bytes;   /* requests rounded up to 512 bytes */
    uint64_t peak_driver_bytes; /* the most the driver was seen to hold for this run */
    uint64_t wall_ns;
    uint64_t calls; /* of alloc and free */
    uint64_t calls_ns;
    uint64_t trims_ns;         /* of trims, which are not in the three around */
    uint64_t longest_ns;       /* of one call */
    uint64_t longest_later_ns; /* after the first quarter of the operations */
    size_t longest_operation;  /* where the longest was */
    uint64_t visited_bytes;    /* written and checked */
    replay_errors errors;      /* wrong words */
    uint64_t kept_bytes;       /* of the device, after all was freed and the allocator ended */
    replay_use use;
} replay_result;

/* The operation whose block has that seed. */
size_t replay_seed_operation(uint64_t seed);

/* The most that is live at once in the first `operation_count` operations. */
VW_MUST_CHECK vw_status replay_peak_live(const vw__script *script, size_t operation_count,
                                         uint64_t *out);

/* Plays, frees what is left, and ends the allocator. What went wrong in the run is in `*out`; a
 * status other than VW_OK is a failure to begin (VW_ERR_HOST_MEMORY, VW_ERR_DEVICE), after which
 * the allocator is ended too. */
VW_MUST_CHECK vw_status replay_run(const vw__script *script, replay_allocator allocator,
                                   const replay_run_options *options, replay_result *out);

#endif /* VW_TESTS_GPU_REPLAY_RUN_H */
