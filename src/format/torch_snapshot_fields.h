/* torch_snapshot_fields.h - the words of a snapshot, and the fields of one of its dicts.
 *
 * A document gives every string that we name here its place in the list as id, so that a field is
 * known by comparing numbers, and a dict's fields are a bit set and an array. Keys come first and
 * there are fewer than 64 of them; behind them come words that are values. */
#ifndef VW_FORMAT_TORCH_SNAPSHOT_FIELDS_H
#define VW_FORMAT_TORCH_SNAPSHOT_FIELDS_H

#include "base/error.h"
#include "format/document.h"
#include "model/memory_model.h" /* names of our own */

#define VW__SNAPSHOT_KEY_LIST(X)                                                                   \
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
    X(ENGINE, VW__ENGINE_KEY)                                                                      \
    X(DEVICE_BYTES, VW__DEVICE_BYTES_KEY)                                                          \
    X(LIMIT_BYTES, VW__LIMIT_BYTES_KEY)

/* The actions stand in the order of vw_action, and of VW__ACTION_ANNOTATE behind it. */
#define VW__SNAPSHOT_WORD_LIST(X)                                                                  \
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
#define VW__KEY_ENUM(upper, text) VW__KEY_##upper,
    VW__SNAPSHOT_KEY_LIST(VW__KEY_ENUM)
#undef VW__KEY_ENUM
        VW__KEY_COUNT,
    VW__BEFORE_FIRST_WORD = VW__KEY_COUNT - 1,
#define VW__WORD_ENUM(upper, text) VW__WORD_##upper,
    VW__SNAPSHOT_WORD_LIST(VW__WORD_ENUM)
#undef VW__WORD_ENUM
        VW__SNAPSHOT_NAME_COUNT
} vw__snapshot_name;

_Static_assert(VW__KEY_COUNT <= 64, "a set of keys is 64 bits");

extern const char *const vw__snapshot_names[VW__SNAPSHOT_NAME_COUNT];

/* What a dict holds, and where it is, for messages. */
typedef struct vw__snapshot_fields {
    const vw__document *document;
    const char *record; /* "trace entry" */
    size_t number;      /* of the record in the file; SIZE_MAX where there is but one */
    uint64_t present;   /* bit k: key k is there, and not None */
    uint32_t unknown_count;
    vw__value values[VW__KEY_COUNT]; /* meaningful where present */
} vw__snapshot_fields;

#define VW__KEY_BIT(key) (UINT64_C(1) << (key))

static inline bool vw__has_field(const vw__snapshot_fields *fields, vw__snapshot_name key)
{
    return (fields->present & VW__KEY_BIT(key)) != 0;
}

/* Sorts the pairs of a dict into `*fields`; of a key that is there twice, the last one counts. */
static inline void vw__collect_fields(vw__snapshot_fields *fields, const vw__value *pairs,
                                      size_t pair_count)
{
    uint64_t present = 0;
    uint32_t unknown_count = 0;
    for (size_t i = 0; i < pair_count; i++) {
        vw__value key = pairs[2 * i], value = pairs[2 * i + 1];
        uint32_t id = vw__value_string_id(key);
        if (vw__value_get_kind(key) != VW__VALUE_STRING || id >= VW__KEY_COUNT) {
            unknown_count++;
            continue;
        }
        uint64_t bit = VW__KEY_BIT(id);
        fields->values[id] = value;
        present = vw__value_get_kind(value) != VW__VALUE_NONE ? present | bit : present & ~bit;
    }
    fields->present = present;
    fields->unknown_count = unknown_count;
}

/* ---- reading one field -----------------------------------------------------------------------
 *
 * Each leaves `*out` alone where the field is missing; vw__need_field() says that it must be there.
 * VW_ERR_CORRUPT_FILE: which field of which record, what was expected, what was found. */

VW_MUST_CHECK vw_status vw__need_field(const vw__snapshot_fields *fields, vw__snapshot_name key);

/* "segment 3: total_size: expected an integer, found a string". */
__attribute__((cold)) vw_status vw__wrong_field(const vw__snapshot_fields *fields,
                                                vw__snapshot_name key, const char *expected,
                                                vw__value found);

/* Of a string: the string itself, cut; else the kind of value. */
__attribute__((cold)) void vw__describe_value(const vw__document *document, vw__value value,
                                              char *text, size_t text_bytes);

/* A number of bytes. */
static inline vw_status vw__get_size(const vw__snapshot_fields *fields, vw__snapshot_name key,
                                     uint64_t *out)
{
    if (!vw__has_field(fields, key) ||
        vw__value_get_u64(fields->document, fields->values[key], out))
        return VW_OK;
    return vw__wrong_field(fields, key, "an integer that is not negative", fields->values[key]);
}

/* An address or a handle. PyTorch writes some of them as signed numbers, so a negative one stands
 * for the upper half of the addresses. */
static inline vw_status vw__get_address(const vw__snapshot_fields *fields, vw__snapshot_name key,
                                        uint64_t *out)
{
    int64_t number;
    if (!vw__has_field(fields, key) ||
        vw__value_get_u64(fields->document, fields->values[key], out))
        return VW_OK;
    if (!vw__value_get_i64(fields->document, fields->values[key], &number))
        return vw__wrong_field(fields, key, "an integer", fields->values[key]);
    *out = (uint64_t)number;
    return VW_OK;
}

static inline vw_status vw__get_signed(const vw__snapshot_fields *fields, vw__snapshot_name key,
                                       int64_t *out)
{
    if (!vw__has_field(fields, key) ||
        vw__value_get_i64(fields->document, fields->values[key], out))
        return VW_OK;
    return vw__wrong_field(fields, key, "an integer", fields->values[key]);
}

/* A number of an annotation, whose values PyTorch writes as text. */
VW_MUST_CHECK vw_status vw__get_count(const vw__snapshot_fields *fields, vw__snapshot_name key,
                                      uint64_t *out);

VW_MUST_CHECK vw_status vw__get_number(const vw__snapshot_fields *fields, vw__snapshot_name key,
                                       double *out);
VW_MUST_CHECK vw_status vw__get_boolean(const vw__snapshot_fields *fields, vw__snapshot_name key,
                                        bool *out);
VW_MUST_CHECK vw_status vw__get_device(const vw__snapshot_fields *fields, int *out);

#endif /* VW_FORMAT_TORCH_SNAPSHOT_FIELDS_H */
