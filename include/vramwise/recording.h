/* recording.h - records what a pool does, and writes it to a file.
 *
 * A recorder listens to one pool. It keeps the newest events in bounded memory and, when asked,
 * writes them together with the pool's segments and blocks as a PyTorch memory snapshot: the file
 * that torch.cuda.memory._dump_snapshot() makes, for pytorch.org/memory_viz,
 * torch/cuda/_memory_viz.py and analysis.h. It has the fields of the PyTorch version whose rules
 * the pool follows (those of 2.1 for an older one), so that readers detect that version.
 *
 * Recording never makes an allocation fail: events that do not fit, or for which there is no host
 * memory, are left out and counted.
 *
 * Everything here is thread-safe, except that nothing else may be in progress while a recorder is
 * destroyed. In a child made by fork() the parent's recorders do nothing: calls return
 * VW_ERR_WRONG_PROCESS, and vw_recorder_destroy() frees nothing.
 *
 * Pointers are borrowed for the call unless a comment says otherwise.
 *
 * Reading order: vw_recorder_create(), vw_recorder_attach(), vw_recorder_write(); then stacks. */
#ifndef VRAMWISE_RECORDING_H
#define VRAMWISE_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/vramwise.h" /* vw_pool */
#include "vramwise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vw_recorder vw_recorder; /* opaque */

/* Where the stack of a request comes from. In all cases a reader can tell requests apart, and so
 * memory given back inside a request from memory given back by vw_pool_trim(). */
typedef enum vw_stacks {
    VW_STACKS_NONE,      /* no stacks: lists of frames are empty */
    VW_STACKS_BACKTRACE, /* the C stack of the calling thread, innermost first; takes some
                            microseconds each; tags are ignored */
    VW_STACKS_CALLER,    /* from vw_recorder_add_stack(), by the request's tag */
} vw_stacks;

#define VW_RECORDER_MOST_FRAMES 256
#define VW_RECORDER_DEFAULT_ENTRIES UINT64_C(1000000)
#define VW_RECORDER_DEFAULT_FRAMES 64
#define VW_RECORDER_DEFAULT_STACK_BYTES (UINT64_C(64) << 20)

typedef struct vw_recorder_options {
    size_t struct_size;   /* sizeof(vw_recorder_options) */
    uint64_t max_entries; /* events to keep, the newest, 64 bytes each; 0 = default */
    vw_stacks stacks;
    unsigned most_frames;       /* innermost frames of a stack to keep; 0 = default */
    uint64_t stack_limit_bytes; /* for all distinct stacks together; 0 = default */
} vw_recorder_options;

/* `options` may be NULL.
 *
 * VW_ERR_INVALID_ARGUMENT   more than VW_RECORDER_MOST_FRAMES, an unknown kind of stacks
 * VW_ERR_UNSUPPORTED        VW_STACKS_BACKTRACE where stacks cannot be walked
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_recorder_create(const vw_recorder_options *options,
                                                  vw_recorder **out);

/* Detaches it first. NULL does nothing. */
VW_API void vw_recorder_destroy(vw_recorder *recorder);

/* ---- listening ------------------------------------------------------------------------------- */

/* Makes the recorder the pool's listener, in place of any other (which counts as attached until it
 * is detached, but hears nothing more and cannot be written), and forgets the events of an
 * earlier pool. Exact replay needs a recording that begins with an empty pool: attach before the
 * first allocation, and before other threads use the pool. If attached later, the recording lacks
 * the history before that (vw_recorder_counts.is_complete is false). Detach before the pool is
 * destroyed.
 *
 * VW_ERR_WRONG_STATE        already attached; or another thread still writes the recording of the
 *                           pool that it was attached to
 * VW_ERR_INVALID_ARGUMENT   NULL */
VW_API VW_MUST_CHECK vw_status vw_recorder_attach(vw_recorder *recorder, vw_pool *pool);

/* Stops listening, where no other listener took its place. The events stay until the next attach,
 * but can no longer be written, since the pool has gone on without the recorder. VW_ERR_WRONG_STATE
 * if it is not attached. */
VW_API vw_status vw_recorder_detach(vw_recorder *recorder);

/* For vw_pool_options.spill_listener: {recorder, vw_recorder_note_spill}. The recorder must outlive
 * the pool. Recordings then have an annotation for each time that live memory left the device or
 * came back (VW_SPILL_ANNOTATION), of which the newest max_entries are kept. Snapshots of PyTorch
 * before 2.5 have no annotations. */
VW_API void vw_recorder_note_spill(void *recorder, const vw_spill_report *report);

/* Forgets all events. Stacks stay, since live blocks refer to them. */
VW_API vw_status vw_recorder_clear(vw_recorder *recorder);

typedef struct vw_recorder_counts {
    size_t struct_size;         /* caller sets to sizeof(vw_recorder_counts) */
    uint64_t seen_count;        /* events since attach or clear */
    uint64_t kept_count;        /* in memory now */
    uint64_t overwritten_count; /* kept, then overwritten by newer ones */
    uint64_t lost_count;        /* never kept: no host memory; seen = kept + overwritten + lost */
    uint64_t stack_count;       /* distinct stacks since creation */
    uint64_t lost_stack_count; /* requests whose stack was lost to the limit or to lack of memory */
    uint64_t held_bytes;       /* host memory of the recorder */
    bool is_complete;          /* the pool was empty at first, and no event is missing */
} vw_recorder_counts;

/* Fields beyond the caller's struct_size are left alone. */
VW_API VW_MUST_CHECK vw_status vw_recorder_get_counts(const vw_recorder *recorder,
                                                      vw_recorder_counts *counts);

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes the recording to a file, which appears under its name when it is complete. An existing
 * file is replaced; a device or a pipe is written to, also through a link of this user's or root's.
 * The events and the state of the pool are of one instant: the pool waits while they are copied
 * (some milliseconds for a million events), but not while they are written. `pool` is the one the
 * recorder is attached to. As in PyTorch the pool's history then has an event "snapshot", which
 * later recordings show.
 *
 * VW_ERR_FILE          the file cannot be made or written; vw_last_error() has the system's reason
 * VW_ERR_WRONG_STATE   not attached to that pool, or no longer its listener
 * VW_ERR_HOST_MEMORY   no memory for the copy */
VW_API VW_MUST_CHECK vw_status vw_recorder_write(vw_recorder *recorder, vw_pool *pool,
                                                 const char *path);

/* The same to an open file, at its current position; the file stays open. */
VW_API VW_MUST_CHECK vw_status vw_recorder_write_fd(vw_recorder *recorder, vw_pool *pool,
                                                    int file_descriptor);

/* The same to a function, which gets the bytes in pieces and returns false to stop: VW_ERR_FILE. It
 * is called without any lock. */
typedef bool (*vw_recorder_output)(void *context, const void *bytes, size_t size_bytes);
VW_API VW_MUST_CHECK vw_status vw_recorder_write_to(vw_recorder *recorder, vw_pool *pool,
                                                    vw_recorder_output output, void *context);

/* ---- stacks from the caller ------------------------------------------------------------------ */

typedef struct vw_stack_frame {
    const char *function; /* NULL = "" */
    const char *file;     /* NULL = "" */
    uint32_t line;        /* 0 = none */
} vw_stack_frame;

/* Stores in `*tag` the tag for one request (vw_alloc_request.tag) made at this stack, innermost
 * frame first. Equal stacks are stored once, but every call gives a new tag: all events of a
 * request share it, which tells requests apart, so a tag must not serve several requests. Frames
 * beyond most_frames are left out. Once the limit is reached the tag stands for an empty stack, and
 * lost_stack_count rises.
 *
 * Does not wait for the pool. VW_ERR_INVALID_ARGUMENT for NULL, VW_ERR_WRONG_STATE if the recorder
 * was not made with VW_STACKS_CALLER. */
VW_API VW_MUST_CHECK vw_status vw_recorder_add_stack(vw_recorder *recorder,
                                                     const vw_stack_frame *frames,
                                                     size_t frame_count, uint64_t *tag);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_RECORDING_H */
