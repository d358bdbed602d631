/* torch_snapshot_fields.h - the words of a snapshot, and the fields of one of its dicts.
 *
 * A document gives every string that we name here its place in the list as id, so that a field is
 * known by comparing numbers, and a dict's fields are a bit set and an array. Keys come first and
 * there are fewer than 64 of them; behind them come words that are values. */
#ifndef HR_FORMAT_TORCH_SNAPSHOT_FIELDS_H
#define HR_FORMAT_TORCH_SNAPSHOT_FIELDS_H

#include "base/error.h"
#include "format/document.h"

#define HR__SNAPSHOT_KEY_LIST(X)                                                                   \
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
    X(MAX_CACHED_SIZE, "max_cached_size")

/* The actions stand in the order of hr_action, and of HR__ACTION_ANNOTATE behind it. */
#define HR__SNAPSHOT_WORD_LIST(X)                                                                  \
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

typedef enum hr__snapshot_name {
#define HR__KEY_ENUM(upper, text) HR__KEY_##upper,
    HR__SNAPSHOT_KEY_LIST(HR__KEY_ENUM)
#undef HR__KEY_ENUM
        HR__KEY_COUNT,
    HR__BEFORE_FIRST_WORD = HR__KEY_COUNT - 1,
#define HR__WORD_ENUM(upper, text) HR__WORD_##upper,
    HR__SNAPSHOT_WORD_LIST(HR__WORD_ENUM)
#undef HR__WORD_ENUM
        HR__SNAPSHOT_NAME_COUNT
} hr__snapshot_name;

_Static_assert(HR__KEY_COUNT <= 64, "a set of keys is 64 bits");

extern const char *const hr__snapshot_names[HR__SNAPSHOT_NAME_COUNT];

/* What a dict holds, and where it is, for messages. */
typedef struct hr__snapshot_fields {
    const hr__document *document;
    const char *record; /* "trace entry" */
    size_t number;      /* of the record in the file; SIZE_MAX where there is but one */
    uint64_t present;   /* bit k: key k is there, and not None */
    uint32_t unknown_count;
    hr__value values[HR__KEY_COUNT]; /* meaningful where present */
} hr__snapshot_fields;

#define HR__KEY_BIT(key) (UINT64_C(1) << (key))

static inline bool hr__has_field(const hr__snapshot_fields *fields, hr__snapshot_name key)
{
    return (fields->present & HR__KEY_BIT(key)) != 0;
}

/* Sorts the pairs of a dict into `*fields`; of a key that is there twice, the last one counts. */
static inline void hr__collect_fields(hr__snapshot_fields *fields, const hr__value *pairs,
                                      size_t pair_count)
{
    uint64_t present = 0;
    uint32_t unknown_count = 0;
    for (size_t i = 0; i < pair_count; i++) {
        hr__value key = pairs[2 * i], value = pairs[2 * i + 1];
        uint32_t id = hr__value_string_id(key);
        if (hr__value_get_kind(key) != HR__VALUE_STRING || id >= HR__KEY_COUNT) {
            unknown_count++;
            continue;
        }
        uint64_t bit = HR__KEY_BIT(id);
        fields->values[id] = value;
        present = hr__value_get_kind(value) != HR__VALUE_NONE ? present | bit : present & ~bit;
    }
    fields->present = present;
    fields->unknown_count = unknown_count;
}

/* ---- reading one field -----------------------------------------------------------------------
 *
 * Each leaves `*out` alone where the field is missing; hr__need_field() says that it must be there.
 * HR_ERR_CORRUPT_FILE: which field of which record, what was expected, what was found. */

HR_MUST_CHECK hr_status hr__need_field(const hr__snapshot_fields *fields, hr__snapshot_name key);

/* "segment 3: total_size: expected an integer, found a string". */
__attribute__((cold)) hr_status hr__wrong_field(const hr__snapshot_fields *fields,
                                                hr__snapshot_name key, const char *expected,
                                                hr__value found);

/* Of a string: the string itself, cut; else the kind of value. */
__attribute__((cold)) void hr__describe_value(const hr__document *document, hr__value value,
                                              char *text, size_t text_bytes);

/* A number of bytes. */
static inline hr_status hr__get_size(const hr__snapshot_fields *fields, hr__snapshot_name key,
                                     uint64_t *out)
{
    if (!hr__has_field(fields, key) ||
        hr__value_get_u64(fields->document, fields->values[key], out))
        return HR_OK;
    return hr__wrong_field(fields, key, "an integer that is not negative", fields->values[key]);
}

/* An address or a handle. PyTorch writes some of them as signed numbers, so a negative one stands
 * for the upper half of the addresses. */
static inline hr_status hr__get_address(const hr__snapshot_fields *fields, hr__snapshot_name key,
                                        uint64_t *out)
{
    int64_t number;
    if (!hr__has_field(fields, key) ||
        hr__value_get_u64(fields->document, fields->values[key], out))
        return HR_OK;
    if (!hr__value_get_i64(fields->document, fields->values[key], &number))
        return hr__wrong_field(fields, key, "an integer", fields->values[key]);
    *out = (uint64_t)number;
    return HR_OK;
}

static inline hr_status hr__get_signed(const hr__snapshot_fields *fields, hr__snapshot_name key,
                                       int64_t *out)
{
    if (!hr__has_field(fields, key) ||
        hr__value_get_i64(fields->document, fields->values[key], out))
        return HR_OK;
    return hr__wrong_field(fields, key, "an integer", fields->values[key]);
}

/* A number of an annotation, whose values PyTorch writes as text. */
HR_MUST_CHECK hr_status hr__get_count(const hr__snapshot_fields *fields, hr__snapshot_name key,
                                      uint64_t *out);

HR_MUST_CHECK hr_status hr__get_number(const hr__snapshot_fields *fields, hr__snapshot_name key,
                                       double *out);
HR_MUST_CHECK hr_status hr__get_boolean(const hr__snapshot_fields *fields, hr__snapshot_name key,
                                        bool *out);
HR_MUST_CHECK hr_status hr__get_device(const hr__snapshot_fields *fields, int *out);

#endif /* HR_FORMAT_TORCH_SNAPSHOT_FIELDS_H */
