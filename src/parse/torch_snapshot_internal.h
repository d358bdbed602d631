/* torch_snapshot_internal.h - what the files that read a snapshot share.
 *
 * torch_snapshot_read.c opens a file, torch_snapshot_fold.c and torch_snapshot_records.c turn its
 * dicts into records as they are read, and torch_snapshot_root.c makes the model of what is left.
 */
#ifndef VW_PARSE_TORCH_SNAPSHOT_INTERNAL_H
#define VW_PARSE_TORCH_SNAPSHOT_INTERNAL_H

#include "base/error.h"
#include "parse/document.h"
#include "model/memory_model.h" /* names of our own */
#include "model/model_build.h"

/* ---- fields ---------------------------------------------------------------------------------- */

/* A document gives every string that is named here its place in the list as id, so that a field is
 * known by comparing numbers, and a dict's fields are a bit set and an array. Keys come first and
 * there are fewer than 64 of them; behind them come words that are values. */
#define VW__SNAPSHOT_KEYS(X)                                                                       \
    X(ACTION, "action") /* of a trace entry; most frequent first */                                \
    X(ADDR, "addr")                                                                                \
    X(SIZE, "size")                                                                                \
    X(STREAM, "stream")                                                                            \
    X(TIME_US, "time_us")                                                                          \
    X(COMPILE_CONTEXT, "compile_context")                                                          \
    X(USER_METADATA, "user_metadata")                                                              \
    X(FRAMES, "frames")                                                                            \
    X(POOL_ID, "pool_id")                                                                          \
    X(DEVICE_FREE, "device_free")                                                                  \
    X(FORWARD_FRAMES, "forward_frames")                                                            \
    X(NAME, "name") /* of a frame */                                                               \
    X(FILENAME, "filename")                                                                        \
    X(LINE, "line")                                                                                \
    X(ADDRESS, "address") /* of a segment or a block */                                            \
    X(REQUESTED_SIZE, "requested_size")                                                            \
    X(STATE, "state")                                                                              \
    X(HISTORY, "history")                                                                          \
    X(REAL_SIZE, "real_size") /* of an entry of `history` */                                       \
    X(DEVICE, "device")                                                                            \
    X(TOTAL_SIZE, "total_size")                                                                    \
    X(ALLOCATED_SIZE, "allocated_size")                                                            \
    X(ACTIVE_SIZE, "active_size")                                                                  \
    X(SEGMENT_TYPE, "segment_type")                                                                \
    X(SEGMENT_POOL_ID, "segment_pool_id")                                                          \
    X(IS_EXPANDABLE, "is_expandable")                                                              \
    X(BLOCKS, "blocks")                                                                            \
    X(STAGE, "stage") /* of an annotation */                                                       \
    X(MOVED_BYTES, "moved_bytes")                                                                  \
    X(MOVED_HANDLES, "moved_handles")                                                              \
    X(SPILLED_BYTES, "spilled_bytes")                                                              \
    X(WAIT_US, "wait_us")                                                                          \
    X(SEGMENTS, "segments") /* of the whole */                                                     \
    X(DEVICE_TRACES, "device_traces")                                                              \
    X(TRACES, "traces") /* what PyTorch's own viewer script wraps around a bare list */            \
    X(ALLOCATOR_SETTINGS, "allocator_settings")                                                    \
    X(EXTERNAL_ANNOTATIONS, "external_annotations")                                                \
    X(HOST_SEGMENTS, "host_segments")                                                              \
    X(HOST_TRACES, "host_traces")                                                                  \
    X(ALLOC_CONF, "PYTORCH_CUDA_ALLOC_CONF") /* of the settings */                                 \
    X(MAX_SPLIT_SIZE, "max_split_size")                                                            \
    X(GARBAGE_COLLECTION_THRESHOLD, "garbage_collection_threshold")                                \
    X(EXPANDABLE_SEGMENTS, "expandable_segments")                                                  \
    X(STREAM_REUSE, "graph_capture_record_stream_reuse")                                           \
    X(MAX_CACHED_SIZE, "max_cached_size")                                                          \
    X(ENGINE, VW__MODEL_ENGINE_KEY)                                                                \
    X(DEVICE_BYTES, VW__MODEL_DEVICE_BYTES_KEY)                                                    \
    X(LIMIT_BYTES, VW__MODEL_LIMIT_BYTES_KEY)

/* The actions stand in the order of vw_action, and of VW__MODEL_ACTION_ANNOTATE behind it. */
#define VW__SNAPSHOT_WORDS(X)                                                                      \
    X(ALLOC, "alloc")                                                                              \
    X(FREE_REQUESTED, "free_requested")                                                            \
    X(FREE_COMPLETED, "free_completed")                                                            \
    X(SEGMENT_ALLOC, "segment_alloc")                                                              \
    X(SEGMENT_FREE, "segment_free")                                                                \
    X(SEGMENT_MAP, "segment_map")                                                                  \
    X(SEGMENT_UNMAP, "segment_unmap")                                                              \
    X(SNAPSHOT, "snapshot")                                                                        \
    X(OOM, "oom")                                                                                  \
    X(ANNOTATE, "annotate")                                                                        \
    X(ACTIVE_ALLOCATED, "active_allocated")                                                        \
    X(ACTIVE_PENDING_FREE, "active_pending_free")                                                  \
    X(ACTIVE_AWAITING_FREE, "active_awaiting_free") /* as PyTorch's documentation has it */        \
    X(INACTIVE, "inactive")                                                                        \
    X(LARGE, "large")                                                                              \
    X(SMALL, "small")                                                                              \
    X(START, "START")                                                                              \
    X(END, "END")                                                                                  \
    X(NOT_AVAILABLE, "N/A")                                                                        \
    X(NOTHING, "")

typedef enum vw__snapshot_name {
#define VW__SNAPSHOT_KEY_ENUM(upper, text) VW__SNAPSHOT_KEY_##upper,
    VW__SNAPSHOT_KEYS(VW__SNAPSHOT_KEY_ENUM)
#undef VW__SNAPSHOT_KEY_ENUM
        VW__SNAPSHOT_KEY_COUNT,
    VW__SNAPSHOT_BEFORE_FIRST_WORD = VW__SNAPSHOT_KEY_COUNT - 1,
#define VW__SNAPSHOT_WORD_ENUM(upper, text) VW__SNAPSHOT_WORD_##upper,
    VW__SNAPSHOT_WORDS(VW__SNAPSHOT_WORD_ENUM)
#undef VW__SNAPSHOT_WORD_ENUM
        VW__SNAPSHOT_NAME_COUNT
} vw__snapshot_name;

_Static_assert(VW__SNAPSHOT_KEY_COUNT <= 64, "a set of keys is 64 bits");

extern const char *const vw__snapshot_names[VW__SNAPSHOT_NAME_COUNT];

/* The fields of a dict, and which record it is, for messages. */
typedef struct vw__snapshot_fields {
    const vw__document *document;
    const char *record; /* "trace entry" */
    size_t number;      /* of the record in the file; SIZE_MAX where there is only one */
    uint64_t present;   /* bit k: key k is there, and not None */
    uint32_t unknown_count;
    vw__value values[VW__SNAPSHOT_KEY_COUNT]; /* meaningful where present */
} vw__snapshot_fields;

#define VW__SNAPSHOT_KEY_BIT(key) (UINT64_C(1) << (key))

static inline bool vw__snapshot_has_field(const vw__snapshot_fields *fields, vw__snapshot_name key)
{
    return (fields->present & VW__SNAPSHOT_KEY_BIT(key)) != 0;
}

/* Sorts the pairs of a dict into `*fields`; of a key that is there twice, the last one counts. */
static inline void vw__snapshot_collect_fields(vw__snapshot_fields *fields, const vw__value *pairs,
                                               size_t pair_count)
{
    uint64_t present = 0;
    uint32_t unknown_count = 0;
    for (size_t i = 0; i < pair_count; i++) {
        vw__value key = pairs[2 * i], value = pairs[2 * i + 1];
        uint32_t id = vw__value_string_id(key);
        if (vw__value_get_kind(key) != VW__VALUE_STRING || id >= VW__SNAPSHOT_KEY_COUNT) {
            unknown_count++;
            continue;
        }
        uint64_t bit = VW__SNAPSHOT_KEY_BIT(id);
        fields->values[id] = value;
        present = vw__value_get_kind(value) != VW__VALUE_NONE ? present | bit : present & ~bit;
    }
    fields->present = present;
    fields->unknown_count = unknown_count;
}

/* ---- reading one field -----------------------------------------------------------------------
 *
 * Each leaves `*out` alone where the field is missing; vw__snapshot_need_field() says that it must
 * be there. VW_ERR_CORRUPT_FILE: which field of which record, what was expected, what was found. */

VW_MUST_CHECK vw_status vw__snapshot_need_field(const vw__snapshot_fields *fields,
                                                vw__snapshot_name key);

/* "segment 3: total_size: expected an integer, found a string". */
__attribute__((cold)) vw_status vw__snapshot_wrong_field(const vw__snapshot_fields *fields,
                                                         vw__snapshot_name key,
                                                         const char *expected, vw__value found);

/* Writes a string itself, cut, and the kind of any other value. */
__attribute__((cold))
/* A number of bytes. */
static inline vw_status
vw__snapshot_get_size(const vw__snapshot_fields *fields, vw__snapshot_name key, uint64_t *out)
{
    if (!vw__snapshot_has_field(fields, key) ||
        vw__value_get_u64(fields->document, fields->values[key], out))
        return VW_OK;
    return vw__snapshot_wrong_field(fields, key, "an integer that is not negative",
                                    fields->values[key]);
}

/* An address or a handle. PyTorch writes some of them as signed numbers, so a negative one stands
 * for the upper half of the addresses. */
static inline vw_status vw__snapshot_get_address(const vw__snapshot_fields *fields,
                                                 vw__snapshot_name key, uint64_t *out)
{
    int64_t number;
    if (!vw__snapshot_has_field(fields, key) ||
        vw__value_get_u64(fields->document, fields->values[key], out))
        return VW_OK;
    if (!vw__value_get_i64(fields->document, fields->values[key], &number))
        return vw__snapshot_wrong_field(fields, key, "an integer", fields->values[key]);
    *out = (uint64_t)number;
    return VW_OK;
}

static inline vw_status vw__snapshot_get_signed(const vw__snapshot_fields *fields,
                                                vw__snapshot_name key, int64_t *out)
{
    if (!vw__snapshot_has_field(fields, key) ||
        vw__value_get_i64(fields->document, fields->values[key], out))
        return VW_OK;
    return vw__snapshot_wrong_field(fields, key, "an integer", fields->values[key]);
}

VW_MUST_CHECK vw_status vw__snapshot_get_number(const vw__snapshot_fields *fields,
                                                vw__snapshot_name key, double *out);
VW_MUST_CHECK vw_status vw__snapshot_get_boolean(const vw__snapshot_fields *fields,
                                                 vw__snapshot_name key, bool *out);
VW_MUST_CHECK vw_status vw__snapshot_get_device(const vw__snapshot_fields *fields, int *out);

/* ---- folding --------------------------------------------------------------------------------- */

/* The dicts of a snapshot become records, one by one, as they are read. A dict is known by the keys
 * it has, wherever it stands: one with `action` is a trace entry, one with `total_size` a segment,
 * and so on. It goes into the model (or, where the model must wait for the whole, into a list here)
 * and the document keeps a number for it. Lists of frames become contexts in the same way: one for
 * each list object, as their identity is information. What stays are the outermost dict, the
 * settings, and lists of numbers. */

/* Which record a folded value stands for. */
typedef enum vw__snapshot_folded_kind {
    VW__SNAPSHOT_FOLDED_ENTRY = 1,     /* the builder's events */
    VW__SNAPSHOT_FOLDED_FRAME,         /* the builder's frames */
    VW__SNAPSHOT_FOLDED_CONTEXT,       /* a list of frames: the builder's contexts */
    VW__SNAPSHOT_FOLDED_FORWARD_STACK, /* a list of strings: the builder's stacks */
    VW__SNAPSHOT_FOLDED_SEGMENT,       /* `segments` below */
    VW__SNAPSHOT_FOLDED_BLOCK,         /* the builder's blocks */
    VW__SNAPSHOT_FOLDED_USED_BLOCKS,   /* a list of blocks that has its segment */
    VW__SNAPSHOT_FOLDED_USED_ENTRIES,  /* a list of trace entries that has its trace */
    VW__SNAPSHOT_FOLDED_PAST,          /* an entry of a block's `history`: `pasts` below */
    VW__SNAPSHOT_FOLDED_ANNOTATION,    /* `annotations` below */
    VW__SNAPSHOT_FOLDED_POOL,          /* two integers: the builder's pools */
} vw__snapshot_folded_kind;

typedef struct vw__snapshot_folded_list {
    void *items; /* the document's memory, owned */
    size_t count;
    size_t capacity;
    size_t item_bytes;
} vw__snapshot_folded_list;

typedef struct vw__snapshot_segment {
    vw__model_segment segment;
    bool is_listed; /* it is in the model */
} vw__snapshot_segment;

typedef struct vw__snapshot_past {
    uint64_t real_bytes;
    uint32_t context;
} vw__snapshot_past;

/* The layout of the last trace entry: its keys, and where its values are. An entry with the same
 * keys in the same order is read without sorting its fields; one whose values are not of the usual
 * kinds goes the long way. */
enum { VW__SNAPSHOT_USUAL_PAIRS = 16 };

typedef struct vw__snapshot_usual_entry {
    size_t pair_count; /* 0: none yet */
    vw__value keys[VW__SNAPSHOT_USUAL_PAIRS];
    uint64_t present;                       /* as in vw__snapshot_fields */
    uint8_t places[VW__SNAPSHOT_KEY_COUNT]; /* of values among the pairs, where present */
} vw__snapshot_usual_entry;

typedef struct vw__snapshot_fold {
    vw__model_builder *builder; /* borrowed */
    vw__document *document;     /* borrowed; set by the first dict */
    vw__snapshot_fields fields; /* of the dict at hand */
    vw__snapshot_usual_entry usual;

    vw__snapshot_folded_list segments;    /* vw__snapshot_segment */
    vw__snapshot_folded_list annotations; /* vw__model_annotation */
    vw__snapshot_folded_list pasts;       /* vw__snapshot_past */
    vw__snapshot_folded_list frame_ids;   /* of the list at hand */

    size_t frame_count;
    size_t block_count;
    size_t first_free_block; /* those before it have their segment */
    uint64_t entry_keys;     /* that any trace entry had */
    uint64_t block_keys;
    bool has_contexts;

    /* The last stream: nearly always the next one's, too. */
    uint64_t last_stream;
    uint16_t last_stream_id;
} vw__snapshot_fold;

void vw__snapshot_fold_init(vw__snapshot_fold *fold, vw__model_builder *builder);

/* Before the document is destroyed. */
void vw__snapshot_fold_deinit(vw__snapshot_fold *fold);

/* vw__document_listener's `dict`, with the fold as its context. */
vw_status vw__snapshot_fold_dict(void *context, vw__document *document, const vw__value *pairs,
                                 size_t pair_count, vw__value *folded);

/* vw__document_listener's `list`: a list of frames is a context, wherever it stands. */
vw_status vw__snapshot_fold_list(void *context, vw__document *document, const vw__value *items,
                                 size_t item_count, vw__value *folded);

/* "found a list", "found a trace entry": what `value` is, in words. */
const char *vw__snapshot_value_name(vw__value value);

/* Counts the keys of a dict that we do not know. */
void vw__snapshot_ignore_unknown(vw__snapshot_fold *fold, const vw__value *pairs,
                                 size_t pair_count);

/* Adds a copy of an item to a list and stores its place. */
VW_MUST_CHECK vw_status vw__snapshot_folded_list_add(vw__snapshot_fold *fold,
                                                     vw__snapshot_folded_list *list,
                                                     const void *item, uint32_t *place);

/* ---- one kind of dict each; the fields are in `fold->fields` ----------------------------------*/

vw_status vw__snapshot_fold_entry(vw__snapshot_fold *fold, vw__value *folded);

/* From the pairs themselves. `*folded` is left alone where the entry is not a usual one. */
VW_MUST_CHECK vw_status vw__snapshot_fold_usual_entry(vw__snapshot_fold *fold,
                                                      const vw__value *pairs, size_t pair_count,
                                                      vw__value *folded);

/* Remembers an entry that went the long way, for the next ones. */
void vw__snapshot_learn_usual_entry(vw__snapshot_fold *fold, const vw__value *pairs,
                                    size_t pair_count);

vw_status vw__snapshot_fold_segment(vw__snapshot_fold *fold, vw__value *folded);
vw_status vw__snapshot_fold_block(vw__snapshot_fold *fold, vw__value *folded);
vw_status vw__snapshot_fold_past(vw__snapshot_fold *fold, vw__value *folded);

/* ---- fields that several kinds have -----------------------------------------------------------*/

/* `frames`: VW__MODEL_NO_CONTEXT where there are none. */
VW_MUST_CHECK vw_status vw__snapshot_get_context(vw__snapshot_fold *fold, uint32_t *context);

/* `forward_frames`: the empty stack where there are none. */
VW_MUST_CHECK vw_status vw__snapshot_get_forward_stack(vw__snapshot_fold *fold, uint32_t *stack);

VW_MUST_CHECK vw_status vw__snapshot_get_stream(vw__snapshot_fold *fold, uint16_t *stream);
VW_MUST_CHECK vw_status vw__snapshot_fold_stream(vw__snapshot_fold *fold, uint64_t handle,
                                                 uint16_t *stream);

/* Two integers; `*pool` is left alone where there are none. */
VW_MUST_CHECK vw_status vw__snapshot_get_pool(vw__snapshot_fold *fold, vw__snapshot_name key,
                                              uint16_t *pool);

/* The model's id of a string, which may be anything a file can hold. */
VW_MUST_CHECK vw_status vw__snapshot_fold_string(vw__snapshot_fold *fold, vw__value value,
                                                 uint32_t *id);

/* The same for a name (of a function, a file, an annotation, what an event says about itself): cut
 * to VW__SNAPSHOT_NAME_BYTES. A file says a name once and means it a thousand times, at two bytes
 * each; whoever looks at every frame, or prints it, would read it as often. */
VW_MUST_CHECK vw_status vw__snapshot_fold_name(vw__snapshot_fold *fold, vw__value value,
                                               uint32_t *id);

/* ---- the outermost value --------------------------------------------------------------------- */

/* `root` is what the file is: a dict, or a bare list of segments. VW_ERR_CORRUPT_FILE: it is
 * something else, or something in it is. */
VW_MUST_CHECK vw_status vw__snapshot_read_root(vw__snapshot_fold *fold, vw__document *document,
                                               vw__value root);

#endif /* VW_PARSE_TORCH_SNAPSHOT_INTERNAL_H */
