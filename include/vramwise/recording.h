/* recording.h - what a pool does, remembered and written out.
 *
 * A recorder listens to one pool. It keeps the last so many events in bounded memory and, when
 * asked, writes them together with the pool's segments and blocks as a PyTorch memory snapshot: the
 * file that torch.cuda.memory._dump_snapshot() makes, for pytorch.org/memory_viz,
 * torch/cuda/_memory_viz.py, and analysis.h. It has the fields of the PyTorch version whose rules
 * the pool follows (2.1's for an older one), so that a reader takes it for what it is.
 *
 * Recording never makes an allocation fail: what does not fit or finds no host memory is left out
 * and counted.
 *
 * Everything here is thread-safe, except that nothing else may be in progress while a recorder is
 * destroyed. Pointers are borrowed for the call unless a comment says otherwise.
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

/* Where the stack of a request comes from. Whatever is chosen, each request is told from every
 * other, so that a reader knows which memory was given back inside a request and which by
 * vw_pool_trim(). */
typedef enum vw_stacks {
    VW_STACKS_NONE,      /* nowhere: lists of frames are empty */
    VW_STACKS_BACKTRACE, /* the C stack of the calling thread, innermost first, some microseconds
                            each; tags are not looked at */
    VW_STACKS_CALLER,    /* from vw_recorder_add_stack(), by the request's tag */
} vw_stacks;

#define VW_RECORDER_MOST_FRAMES 256
#define VW_RECORDER_DEFAULT_ENTRIES UINT64_C(1000000)
#define VW_RECORDER_DEFAULT_FRAMES 64
#define VW_RECORDER_DEFAULT_STACK_BYTES (UINT64_C(64) << 20)

typedef struct vw_recorder_options {
    size_t struct_size;   /* sizeof(vw_recorder_options) */
    uint64_t max_entries; /* the newest so many events are kept, 64 bytes each; 0 = default */
    vw_stacks stacks;
    unsigned most_frames;       /* of a stack, the innermost; 0 = default */
    uint64_t stack_limit_bytes; /* for all different stacks together; 0 = default */
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

/* Becomes the pool's listener, in place of any other; forgets what it kept of an earlier pool. A
 * recording that is to be replayed exactly begins with an empty pool: attach before the first
 * allocation, and before other threads use the pool. Later is possible: then the history from
 * before is missing (vw_recorder_counts.is_complete). Detach before the pool is destroyed.
 *
 * VW_ERR_WRONG_STATE        it is attached already
 * VW_ERR_INVALID_ARGUMENT   NULL */
VW_API VW_MUST_CHECK vw_status vw_recorder_attach(vw_recorder *recorder, vw_pool *pool);

/* Listens no longer; what was kept stays until the next attach, but can no longer be written, since
 * the pool has gone on without it. VW_ERR_WRONG_STATE if it is not attached. */
VW_API vw_status vw_recorder_detach(vw_recorder *recorder);

/* For vw_pool_options.spill_listener, as {recorder, vw_recorder_note_spill}, where the recorder is
 * to outlive the pool: recordings then have an annotation for each time that live memory left the
 * device or came back (VW_SPILL_ANNOTATION). The newest max_entries are kept. A pool of PyTorch
 * before 2.5 has no place for them. */
VW_API void vw_recorder_note_spill(void *recorder, const vw_spill_report *report);

/* Forgets every event. Stacks stay: live blocks refer to them. */
VW_API vw_status vw_recorder_clear(vw_recorder *recorder);

typedef struct vw_recorder_counts {
    size_t struct_size;         /* caller sets to sizeof(vw_recorder_counts) */
    uint64_t seen_count;        /* events since attach or clear */
    uint64_t kept_count;        /* in memory now */
    uint64_t overwritten_count; /* kept for a while, until newer ones took their place */
    uint64_t lost_count;        /* never kept: no host memory; seen = kept + overwritten + lost */
    uint64_t stack_count;       /* different ones, since creation */
    uint64_t lost_stack_count; /* requests whose stack was not kept: the limit, or no host memory */
    uint64_t held_bytes;       /* host memory of the recorder */
    bool is_complete;          /* the pool was empty at the beginning, and nothing is missing */
} vw_recorder_counts;

/* Fields beyond the caller's struct_size are left alone. */
VW_API VW_MUST_CHECK vw_status vw_recorder_get_counts(const vw_recorder *recorder,
                                                      vw_recorder_counts *counts);

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes the recording to a file. It appears under its name when it is complete; a file of that
 * name is replaced, a device or pipe written to. The events and the state of the pool are of one
 * instant; the pool waits while they are copied (some milliseconds for a million events), not while
 * they are written. `pool` is the one it is attached to. As in PyTorch the pool's history then has
 * an event "snapshot", which later recordings show.
 *
 * VW_ERR_FILE          the file cannot be made or written, with the system's words
 * VW_ERR_WRONG_STATE   it is not attached to that pool
 * VW_ERR_HOST_MEMORY   for the copy */
VW_API VW_MUST_CHECK vw_status vw_recorder_write(vw_recorder *recorder, vw_pool *pool,
                                                 const char *path);

/* The same to an open file, from where it stands; it is not closed. */
VW_API VW_MUST_CHECK vw_status vw_recorder_write_fd(vw_recorder *recorder, vw_pool *pool,
                                                    int file_descriptor);

/* And to a function, which gets the bytes in pieces and returns false to end it: VW_ERR_FILE. It is
 * called without any lock. */
typedef bool (*vw_recorder_output)(void *context, const void *bytes, size_t size_bytes);
VW_API VW_MUST_CHECK vw_status vw_recorder_write_to(vw_recorder *recorder, vw_pool *pool,
                                                    vw_recorder_output output, void *context);

/* ---- stacks of the caller's ------------------------------------------------------------------ */

typedef struct vw_stack_frame {
    const char *function; /* NULL = "" */
    const char *file;     /* NULL = "" */
    uint32_t line;        /* 0 where there is none */
} vw_stack_frame;

/* Stores the tag for one request (vw_alloc_request.tag) made at this stack, innermost frame first.
 * Equal stacks are stored once, but every call gives a new tag: all events of a request share it,
 * and that tells requests apart. A tag used for several requests makes them look like one. Frames
 * beyond most_frames are left out. Where the limit is reached the tag stands for an empty stack,
 * and lost_stack_count rises.
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
