/* memory_model.h - a recording as plain data: the events, and the state at the end.
 *
 * Readers of files and the recorder inside a job fill it, analysis reads it and does not know who
 * filled it. Recordings are large (hundreds of thousands of events, each with a stack), so
 * everything that repeats is stored once and named by a small number:
 *
 *   string   a function's or file's name               id in `strings`
 *   frame    a line of a function                      index in `frames`
 *   stack    a run of frames, the innermost first      index in `stacks`
 *   context  one capture of a stack                    index in `contexts`
 *   stream   what work was queued on                   index in `streams`
 *   pool     a private pool; 0 is the default pool     index in `pools`
 *
 * Why contexts beside stacks? PyTorch captures one stack object per request, and every event that
 * the request caused refers to that same object. Two requests made at the same line have equal
 * stacks but two contexts, and only the context tells whether memory was given back inside a
 * request or by empty_cache(). So identity is kept, at four bytes each.
 *
 * Words of this folder: a *trace* is the events of one device in order; *unknown* is a value
 * (VW__UNKNOWN_...), never a guess.
 *
 * Invariants (model_check.h): every index is within its table; blocks tile their segment, in
 * order, if the file has them at all (a segment of pinned host memory may have room behind its
 * one block); segments of one device do not overlap and rise.
 *
 * No locks: one thread at a time while it is built, any number once it is complete. */
#ifndef VW_MODEL_MEMORY_MODEL_H
#define VW_MODEL_MEMORY_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/vramwise.h" /* vw_action, vw_block_state, vw_private_id, vw_stream */
#include "base/arena.h"
#include "base/string_table.h"

#define VW__MODEL_NO_STRING UINT32_MAX
#define VW__MODEL_NO_CONTEXT                                                                       \
    UINT32_MAX /* no stack was captured; an empty stack is another thing                           \
                */
#define VW__MODEL_NO_NOTE UINT32_MAX
#define VW__MODEL_EMPTY_STACK UINT32_C(0) /* stacks[0] always has no frames */
#define VW__MODEL_UNKNOWN_BYTES UINT64_MAX
#define VW__MODEL_UNKNOWN_TIME INT64_MIN
#define VW__MODEL_UNKNOWN_POOL UINT16_MAX  /* before PyTorch 2.12 events do not say */
#define VW__MODEL_DEFAULT_POOL UINT16_C(0) /* pools[0] always is (0, 0) */
#define VW__MODEL_HOST_DEVICE (-1) /* the device of pinned host memory's traces and segments */

/* vw_action's, and what only files have. */
enum {
    VW__MODEL_ACTION_ANNOTATE =
        VW_ACTION_OOM + 1,  /* text in the note's user_metadata; since 2.14 */
    VW__MODEL_ACTION_OTHER, /* not known to us: the name is in the note's `action` */
    VW__MODEL_ACTION_KINDS
};

typedef struct vw__model_frame {
    uint32_t name;     /* strings */
    uint32_t filename; /* strings */
    uint32_t line;     /* 0 = none */
} vw__model_frame;

typedef struct vw__model_stack {
    uint32_t first; /* in frame_ids */
    uint32_t count;
} vw__model_stack;

/* Fields that few events have. Each distinct note is stored once. */
typedef struct vw__model_note {
    uint32_t action; /* strings; only of VW__MODEL_ACTION_OTHER, else VW__MODEL_NO_STRING */
    uint32_t compile_context; /* strings, or VW__MODEL_NO_STRING for none ("N/A") */
    uint32_t user_metadata;   /* strings, or VW__MODEL_NO_STRING for none ("") */
    uint32_t forward_stack;   /* stacks (frames with a name only), or VW__MODEL_EMPTY_STACK */
} vw__model_note;

typedef struct vw__model_event {
    uint64_t address; /* of an oom: the device's free bytes, as the driver said */
    uint64_t size_bytes;
    int64_t time_us;  /* since 1970, or VW__MODEL_UNKNOWN_TIME */
    uint32_t context; /* contexts, or VW__MODEL_NO_CONTEXT */
    uint32_t note;    /* notes, or VW__MODEL_NO_NOTE */
    uint16_t stream;  /* streams */
    uint16_t pool;    /* pools, or VW__MODEL_UNKNOWN_POOL */
    uint8_t action;   /* vw_action, or VW__ACTION_... */
    uint8_t unused[3];
} vw__model_event;

_Static_assert(sizeof(vw__model_event) == 40, "660,000 events are to take 26 MB");

typedef struct vw__model_trace {
    const vw__model_event *events;
    size_t event_count;
    int device; /* VW__MODEL_HOST_DEVICE for pinned host memory */
} vw__model_trace;

typedef struct vw__model_segment {
    uint64_t address;
    uint64_t total_bytes;
    uint64_t allocated_bytes;
    uint64_t active_bytes;
    uint64_t requested_bytes; /* VW__MODEL_UNKNOWN_BYTES before 2.0 */
    size_t first_block;       /* in blocks */
    size_t block_count;
    uint32_t context; /* contexts, or VW__MODEL_NO_CONTEXT */
    int device;
    uint16_t stream; /* streams; before 1.13 the default one, for want of better */
    uint16_t pool;   /* pools, or VW__MODEL_UNKNOWN_POOL before 2.1 */
    bool is_large;
    bool is_expandable;
} vw__model_segment;

typedef struct vw__model_block {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t requested_bytes; /* VW__MODEL_UNKNOWN_BYTES where the file has none */
    uint32_t context;         /* contexts, or VW__MODEL_NO_CONTEXT */
    uint8_t state;            /* vw_block_state */
} vw__model_block;

/* Live memory that went to host memory, or came back: a vw_spill_report. */
typedef struct vw__model_move {
    uint64_t moved_bytes;
    uint64_t moved_handles; /* 0: nothing moved */
    uint64_t spilled_bytes; /* on the host from then on */
    uint64_t wait_us;
} vw__model_move;

/* A named span of the program (record_function() in PyTorch), or a move by engine "vramwise". */
typedef struct vw__model_annotation {
    int64_t time_us;
    uint32_t name; /* strings */
    int device;
    bool is_start; /* else the end */
    vw__model_move move;
} vw__model_annotation;

/* Entries of allocator_settings that our recorder adds, and of which vramwise.torch.install() adds
 * the first and the last to PyTorch's own snapshots. PyTorch's tools show them unchanged. */
#define VW__MODEL_ENGINE_KEY "vramwise_engine"
#define VW__MODEL_LAUNCH_GATE_KEY "vramwise_launch_gate"
#define VW__MODEL_DEVICE_BYTES_KEY "vramwise_device_bytes"
#define VW__MODEL_LIMIT_BYTES_KEY "vramwise_limit_bytes"

/* One entry of allocator_settings, as text for people. */
typedef struct vw__model_setting {
    uint32_t key;   /* strings */
    uint32_t value; /* strings */
} vw__model_setting;

typedef struct vw__model_settings {
    bool is_known; /* the file has allocator_settings (2.3 and later) */
    uint32_t conf; /* strings: PYTORCH_CUDA_ALLOC_CONF; VW__MODEL_NO_STRING where not known */
    int64_t max_split_size; /* -1 = unlimited */
    double garbage_collection_threshold;
    bool is_expandable;

    /* Where our own allocator served: the pool as it was when the file was written. */
    uint32_t engine; /* strings: "torch", "vramwise"; VW__MODEL_NO_STRING: PyTorch's own served */
    uint64_t device_bytes; /* that the device has; 0: not known */
    uint64_t limit_bytes;  /* that the pool may reserve; 0: no limit, or not known */

    const vw__model_setting *entries; /* everything there was, in the file's order */
    size_t entry_count;
} vw__model_settings;

/* Which features the file has: they bound the version of PyTorch that wrote it, which no file
 * states. */
typedef struct vw__model_features {
    bool is_bare_list;        /* of segments: memory_snapshot(), or 1.x */
    bool has_traces;          /* a `device_traces` key */
    bool has_block_history;   /* 1.13 and 2.0 */
    bool has_block_addresses; /* 2.1 */
    bool has_times;           /* 2.2 */
    bool has_settings;        /* 2.3 */
    bool has_annotations;     /* 2.5: the key is there */
    bool has_compile_context; /* 2.8 */
    bool has_stream_reuse;    /* 2.9: graph_capture_record_stream_reuse */
    bool has_user_metadata;   /* 2.10 */
    bool has_pool_ids;        /* 2.12: on events */
    bool has_max_cached_size; /* 2.13 */
    bool has_host_traces;     /* 2.14: the key is there */
    bool has_contexts;        /* at least one event has a stack, be it empty */
    bool has_identity; /* contexts are captures; false for JSON, where each list stands alone */
} vw__model_features;

typedef struct vw__model {
    vw__arena arena;          /* the strings' */
    vw__string_table strings; /* every array below is host memory of its own, owned */

    const vw__model_frame *frames;
    size_t frame_count;
    const uint32_t *frame_ids; /* the stacks' frames, one stack after the other */
    size_t frame_id_count;
    const vw__model_stack *stacks;
    size_t stack_count;
    const uint32_t *contexts; /* stacks */
    size_t context_count;
    const vw__model_note *notes;
    size_t note_count;
    const vw_stream *streams;
    size_t stream_count;
    const vw_private_id *pools;
    size_t pool_count;

    const vw__model_event *events; /* of all traces; a few may belong to none */
    size_t event_count;
    const vw__model_trace *traces; /* by rising device, the host's last; each device once */
    size_t trace_count;
    const vw__model_segment *segments; /* by device (the host's last), then by address */
    size_t segment_count;
    const vw__model_block *blocks;
    size_t block_count;
    const vw__model_annotation *annotations; /* in the file's order */
    size_t annotation_count;
    vw__model_settings settings;
    vw__model_features features;

    uint64_t ignored_field_count;    /* keys that we do not know */
    const char *first_ignored_field; /* NULL = none */

    /* The one thing that changes once it is complete: the processor time of all replays together
     * that was more than usual (player.h). Owned; or NULL. */
    atomic_uint_fast64_t *slow_play_ns;
} vw__model;

/* Did live memory go to the host's there, or come back (`*is_return`)? */
bool vw__model_is_move(const vw__model *model, const vw__model_annotation *annotation,
                       bool *is_return);

/* "alloc", "segment_map": as PyTorch writes it. `action` of an event that is not OTHER. */
const char *vw__model_action_name(unsigned action);

/* Text of a string id; "" for VW__MODEL_NO_STRING. Zero-terminated, owned by the model. */
const char *vw__model_string(const vw__model *model, uint32_t id);

/* The stack of a context; the empty one for VW__MODEL_NO_CONTEXT. */
vw__model_stack vw__model_stack_of(const vw__model *model, uint32_t context);

/* The trace of a device, or NULL. */
const vw__model_trace *vw__model_trace_of(const vw__model *model, int device);

/* Host bytes that the model holds. */
size_t vw__model_size_bytes(const vw__model *model);

/* Frees everything. NULL does nothing. */
void vw__model_destroy(vw__model *model);

#endif /* VW_MODEL_MEMORY_MODEL_H */
