/* torch_snapshot_root.c - builds the traces, segments and settings of the outermost dict. */
#include "parse/torch_snapshot_internal.h"

#include <stdlib.h>

#include "base/byte_buffer.h"
#include "base/c_locale.h"

static bool is_folded_as(vw__value value, unsigned kind)
{
    return vw__value_get_kind(value) == VW__VALUE_FOLDED && vw__value_folded_kind(value) == kind;
}

static vw_status wrong_item(const char *list, size_t number, const char *expected, vw__value found)
{
    return vw__fail(VW_ERR_CORRUPT_FILE, "%s: item %zu: expected %s, found %s", list, number,
                    expected, vw__snapshot_value_name(found));
}

/* The value of a key that must be a list where it is there; false where it is not. */
static vw_status get_list(const vw__snapshot_fields *fields, vw__snapshot_name key, bool *is_there,
                          vw__value *list)
{
    *is_there = vw__snapshot_has_field(fields, key);
    if (!*is_there)
        return VW_OK;
    *list = fields->values[key];
    if (vw__value_get_kind(*list) != VW__VALUE_LIST)
        return vw__fail(VW_ERR_CORRUPT_FILE, "%s: expected a list, found %s",
                        vw__snapshot_names[key], vw__snapshot_value_name(*list));
    return VW_OK;
}

/* ---- segments -------------------------------------------------------------------------------- */

/* A pickle can name one dict any number of times, at two bytes each. A segment is added once: its
 * blocks are paid for once, and whoever walks the segments reads them once for each. */
static vw_status add_segments(vw__snapshot_fold *fold, vw__value list, const char *name,
                              bool is_host)
{
    vw__value item;
    size_t number = 0;
    for (uint64_t cursor = 0; vw__value_next_item(fold->document, list, &cursor, &item); number++) {
        if (!is_folded_as(item, VW__SNAPSHOT_FOLDED_SEGMENT))
            return wrong_item(name, number, "a segment (a dict with total_size and blocks)", item);
        vw__snapshot_segment *found =
            (vw__snapshot_segment *)fold->segments.items + vw__value_folded_id(item);
        if (found->is_listed)
            return vw__fail(VW_ERR_CORRUPT_FILE, "%s: item %zu: this segment was listed before",
                            name, number);
        found->is_listed = true;
        if (is_host)
            found->segment.device = VW__MODEL_HOST_DEVICE;
        VW__TRY(vw__model_add_segment(fold->builder, &found->segment));
    }
    return VW_OK;
}

/* ---- traces ---------------------------------------------------------------------------------- */

/* Events of one trace: a run of the builder's, as long as they follow one another there and no
 * other trace has them; from the first that does not, copies behind all others. */
typedef struct gathered_trace {
    size_t first_event;
    size_t event_count;
    bool is_copied;
} gathered_trace;

static vw_status copy_event(vw__snapshot_fold *fold, size_t index, size_t *copy_index)
{
    vw__model_event copy = *vw__model_builder_event(fold->builder, index);
    return vw__model_add_event(fold->builder, &copy, copy_index);
}

static vw_status copy_run(vw__snapshot_fold *fold, gathered_trace *trace)
{
    size_t from = trace->first_event;
    trace->first_event = vw__model_builder_event_count(fold->builder);
    trace->is_copied = true;
    for (size_t i = 0; i < trace->event_count; i++) {
        size_t copy_index;
        VW__TRY(copy_event(fold, from + i, &copy_index));
    }
    return VW_OK;
}

static vw_status gather_event(vw__snapshot_fold *fold, gathered_trace *trace,
                              size_t first_free_event, size_t index)
{
    if (!trace->is_copied) {
        if (trace->event_count == 0)
            trace->first_event = index;
        if (index >= first_free_event && index == trace->first_event + trace->event_count) {
            trace->event_count++;
            return VW_OK;
        }
        VW__TRY(copy_run(fold, trace));
    }
    size_t copy_index;
    VW__TRY(copy_event(fold, index, &copy_index));
    trace->event_count++;
    return VW_OK;
}

/* How many of the items are the trace's next events, one behind the other: nearly always all. */
static size_t skip_run(gathered_trace *trace, size_t first_free_event, const vw__value *items,
                       size_t item_count)
{
    size_t count = 0, next = trace->first_event + trace->event_count;
    if (trace->event_count == 0 || trace->is_copied || next < first_free_event)
        return 0;
    while (count < item_count && next + count <= UINT32_MAX &&
           items[count] == vw__value_folded(VW__SNAPSHOT_FOLDED_ENTRY, (uint32_t)(next + count)))
        count++;
    trace->event_count += count;
    return count;
}

/* A list belongs to one trace: named a thousand times, a short one would become a long recording.
 */
static vw_status gather_entries(vw__snapshot_fold *fold, vw__value list, const char *name,
                                size_t first_free_event, gathered_trace *trace)
{
    const vw__value *items;
    size_t item_count, number = 0;
    for (uint64_t cursor = 0;
         vw__value_next_items(fold->document, list, &cursor, &items, &item_count);) {
        size_t i = skip_run(trace, first_free_event, items, item_count);
        number += i;
        for (; i < item_count; i++, number++) {
            if (!is_folded_as(items[i], VW__SNAPSHOT_FOLDED_ENTRY))
                return wrong_item(name, number, "a trace entry (a dict with action)",
                                  vw__document_resolve(fold->document, items[i]));
            VW__TRY(gather_event(fold, trace, first_free_event, vw__value_folded_id(items[i])));
        }
    }
    if (number != 0)
        vw__document_fold_list(fold->document, list,
                               vw__value_folded(VW__SNAPSHOT_FOLDED_USED_ENTRIES, 0));
    return VW_OK;
}

/* `*first_free_event`: those before it belong to a trace. */
static vw_status end_trace(vw__snapshot_fold *fold, int device, const gathered_trace *trace,
                           size_t *first_free_event)
{
    size_t end = trace->first_event + trace->event_count;
    if (trace->event_count != 0 && !trace->is_copied && end > *first_free_event)
        *first_free_event = end;
    return vw__model_add_trace(fold->builder, device,
                               trace->event_count != 0 ? trace->first_event : 0,
                               trace->event_count);
}

static vw_status add_traces(vw__snapshot_fold *fold, vw__value lists, const char *name,
                            size_t *first_free_event)
{
    vw__value list;
    int device = 0;
    for (uint64_t cursor = 0; vw__value_next_item(fold->document, lists, &cursor, &list);
         device++) {
        gathered_trace trace = {0, 0, false};
        if (vw__value_get_kind(list) != VW__VALUE_LIST)
            return wrong_item(name, (size_t)device, "the list of a device's trace entries", list);
        VW__TRY(gather_entries(fold, list, name, *first_free_event, &trace));
        VW__TRY(end_trace(fold, device, &trace, first_free_event)); /* limits the devices */
    }
    return VW_OK;
}

/* The trace of pinned host memory: a list of lists like the devices', or the entries themselves.
 * They become one trace. */
static vw_status add_host_trace(vw__snapshot_fold *fold, vw__value lists, const char *name,
                                size_t *first_free_event)
{
    gathered_trace trace = {0, 0, false};
    vw__value item;
    size_t number = 0;
    for (uint64_t cursor = 0; vw__value_next_item(fold->document, lists, &cursor, &item);
         number++) {
        if (vw__value_get_kind(item) == VW__VALUE_LIST)
            VW__TRY(gather_entries(fold, item, name, *first_free_event, &trace));
        else if (is_folded_as(item, VW__SNAPSHOT_FOLDED_ENTRY))
            VW__TRY(gather_event(fold, &trace, *first_free_event, vw__value_folded_id(item)));
        else
            return wrong_item(name, number, "a trace entry, or a list of them", item);
    }
    if (trace.event_count == 0)
        return VW_OK;
    return end_trace(fold, VW__MODEL_HOST_DEVICE, &trace, first_free_event);
}

/* ---- annotations, features ------------------------------------------------------------------- */

static vw_status add_annotations(vw__snapshot_fold *fold, vw__value list)
{
    vw__value item;
    size_t number = 0;
    for (uint64_t cursor = 0; vw__value_next_item(fold->document, list, &cursor, &item); number++) {
        if (!is_folded_as(item, VW__SNAPSHOT_FOLDED_ANNOTATION))
            return wrong_item("external_annotations", number,
                              "an annotation (a dict with name and stage)", item);
        const vw__model_annotation *annotation =
            (const vw__model_annotation *)fold->annotations.items + vw__value_folded_id(item);
        VW__TRY(vw__model_add_annotation(fold->builder, annotation));
    }
    return VW_OK;
}

/* Notes which fields the records had; the keys of the outermost dict are noted where they are read.
 */
static void note_features(vw__snapshot_fold *fold)
{
    vw__model_features *features = vw__model_builder_features(fold->builder);
    features->has_block_history =
        (fold->block_keys & VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_HISTORY)) != 0;
    features->has_block_addresses =
        (fold->block_keys & VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_ADDRESS)) != 0;
    features->has_times = (fold->entry_keys & VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_TIME_US)) != 0;
    features->has_compile_context =
        (fold->entry_keys & VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_COMPILE_CONTEXT)) != 0;
    features->has_user_metadata =
        (fold->entry_keys & VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_USER_METADATA)) != 0;
    features->has_pool_ids =
        (fold->entry_keys & VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_POOL_ID)) != 0;
    features->has_contexts = fold->has_contexts;
}

/* ---- settings -------------------------------------------------------------------------------- */

/* `allocator_settings`: the few that a replay needs as numbers, and all of them as text for people,
 * in the file's order. */

/* Containers in containers that are shown; deeper ones are dots. */
enum { DEEPEST_SHOWN = 3 };

/* Longer values are not settings, nor are more of them: a pickle may have one text as the value of
 * any number of keys, and each would be shown. */
enum { MOST_TEXT_BYTES = 1 << 16, MOST_TEXTS_BYTES = 1 << 20 };

static void append_value(vw__byte_buffer *text, const vw__document *document, vw__value value,
                         unsigned depth);

/* The shortest of the usual precisions that reads back as the same number. */
static void append_float(vw__byte_buffer *text, double number)
{
    char digits[VW__C_LOCALE_NUMBER_BYTES];
    vw__append_text(text, vw__c_locale_number(digits, number, 6));
}

static void append_integer(vw__byte_buffer *text, const vw__document *document, vw__value value)
{
    int64_t number;
    uint64_t large_number;
    if (vw__value_get_i64(document, value, &number))
        vw__append_format(text, "%lld", (long long)number);
    else if (vw__value_get_u64(document, value, &large_number))
        vw__append_format(text, "%llu", (unsigned long long)large_number);
}

/* As the option string has it: [256:1,512:2]. */
static void append_dict(vw__byte_buffer *text, const vw__document *document, vw__value dict,
                        unsigned depth)
{
    size_t pair_count;
    const vw__value *pairs = vw__value_pairs(document, dict, &pair_count);
    vw__append_text(text, "[");
    for (size_t i = 0; i < pair_count && vw__byte_buffer_size(text) < MOST_TEXT_BYTES; i++) {
        vw__append_text(text, i != 0 ? "," : "");
        append_value(text, document, pairs[2 * i], depth + 1);
        vw__append_text(text, ":");
        append_value(text, document, pairs[2 * i + 1], depth + 1);
    }
    vw__append_text(text, "]");
}

static void append_list(vw__byte_buffer *text, const vw__document *document, vw__value list,
                        unsigned depth)
{
    vw__value item;
    bool is_first = true;
    vw__append_text(text, "[");
    for (uint64_t cursor = 0; vw__byte_buffer_size(text) < MOST_TEXT_BYTES &&
                              vw__value_next_item(document, list, &cursor, &item);
         is_first = false) {
        vw__append_text(text, is_first ? "" : ",");
        append_value(text, document, item, depth + 1);
    }
    vw__append_text(text, "]");
}

static void append_value(vw__byte_buffer *text, const vw__document *document, vw__value value,
                         unsigned depth)
{
    vw__value_kind kind = vw__value_get_kind(value);
    size_t size_bytes = 0;
    double number = 0;
    if (depth > DEEPEST_SHOWN) {
        vw__append_text(text, "...");
        return;
    }
    switch (kind) {
    case VW__VALUE_STRING:
        vw__append_text(text, vw__value_string(document, value, &size_bytes));
        break;
    case VW__VALUE_INTEGER:
        append_integer(text, document, value);
        break;
    case VW__VALUE_FLOAT:
        (void)vw__value_get_f64(document, value, &number);
        append_float(text, number);
        break;
    case VW__VALUE_TRUE:
    case VW__VALUE_FALSE:
        vw__append_text(text, kind == VW__VALUE_TRUE ? "True" : "False");
        break;
    case VW__VALUE_NONE:
        vw__append_text(text, "None");
        break;
    case VW__VALUE_LIST:
    case VW__VALUE_TUPLE:
        append_list(text, document, value, depth);
        break;
    case VW__VALUE_DICT:
        append_dict(text, document, value, depth);
        break;
    default: /* a huge integer, bytes, a record of the snapshot */
        vw__append_text(text, vw__value_kind_name(kind));
        break;
    }
}

static vw_status add_entries(vw__snapshot_fold *fold, const vw__value *pairs, size_t pair_count)
{
    vw_status status = VW_OK;
    size_t sum_bytes = 0;
    vw__byte_buffer key, value;
    vw__byte_buffer_init(&key);
    vw__byte_buffer_init(&value);
    for (size_t i = 0; i < pair_count && status == VW_OK; i++) {
        vw__byte_buffer_clear(&key);
        vw__byte_buffer_clear(&value);
        append_value(&key, fold->document, pairs[2 * i], 0);
        append_value(&value, fold->document, pairs[2 * i + 1], 0);
        sum_bytes += vw__byte_buffer_size(&key) + vw__byte_buffer_size(&value);
        if (vw__byte_buffer_has_failed(&key) || vw__byte_buffer_has_failed(&value))
            status = vw__fail_host_memory(MOST_TEXT_BYTES, "the text of a setting");
        else if (sum_bytes > MOST_TEXTS_BYTES)
            status = vw__fail(VW_ERR_UNSUPPORTED,
                              "allocator_settings: more than %d bytes, in the first %zu of %zu",
                              MOST_TEXTS_BYTES, i + 1, pair_count);
        else
            status = vw__model_add_setting(fold->builder, vw__byte_buffer_text(&key),
                                           vw__byte_buffer_text(&value));
    }
    vw__byte_buffer_deinit(&key);
    vw__byte_buffer_deinit(&value);
    return status;
}

/* Leaves `*out` as it is where there is no such field. */
static vw_status read_string(vw__snapshot_fold *fold, const vw__snapshot_fields *fields,
                             vw__snapshot_name key, uint32_t *out)
{
    if (!vw__snapshot_has_field(fields, key))
        return VW_OK;
    if (vw__value_get_kind(fields->values[key]) != VW__VALUE_STRING)
        return vw__snapshot_wrong_field(fields, key, "a string", fields->values[key]);
    return vw__snapshot_fold_string(fold, fields->values[key], out);
}

static vw_status read_settings(vw__snapshot_fold *fold, vw__value settings)
{
    vw__model_settings *to = vw__model_builder_settings(fold->builder);
    vw__model_features *features = vw__model_builder_features(fold->builder);
    vw__snapshot_fields fields = {
        .document = fold->document, .record = "allocator_settings", .number = SIZE_MAX};
    size_t pair_count;
    if (vw__value_get_kind(settings) != VW__VALUE_DICT)
        return vw__fail(VW_ERR_CORRUPT_FILE, "allocator_settings: expected a dict, found %s",
                        vw__snapshot_value_name(settings));
    const vw__value *pairs = vw__value_pairs(fold->document, settings, &pair_count);
    vw__snapshot_collect_fields(&fields, pairs, pair_count);
    VW__TRY(vw__snapshot_get_signed(&fields, VW__SNAPSHOT_KEY_MAX_SPLIT_SIZE, &to->max_split_size));
    VW__TRY(vw__snapshot_get_number(&fields, VW__SNAPSHOT_KEY_GARBAGE_COLLECTION_THRESHOLD,
                                    &to->garbage_collection_threshold));
    VW__TRY(vw__snapshot_get_boolean(&fields, VW__SNAPSHOT_KEY_EXPANDABLE_SEGMENTS,
                                     &to->is_expandable));
    VW__TRY(read_string(fold, &fields, VW__SNAPSHOT_KEY_ALLOC_CONF, &to->conf));
    VW__TRY(read_string(fold, &fields, VW__SNAPSHOT_KEY_ENGINE, &to->engine));
    VW__TRY(vw__snapshot_get_size(&fields, VW__SNAPSHOT_KEY_DEVICE_BYTES, &to->device_bytes));
    VW__TRY(vw__snapshot_get_size(&fields, VW__SNAPSHOT_KEY_LIMIT_BYTES, &to->limit_bytes));
    to->is_known = features->has_settings = true;
    features->has_stream_reuse = vw__snapshot_has_field(&fields, VW__SNAPSHOT_KEY_STREAM_REUSE);
    features->has_max_cached_size =
        vw__snapshot_has_field(&fields, VW__SNAPSHOT_KEY_MAX_CACHED_SIZE);
    return add_entries(fold, pairs, pair_count);
}

/* ---- the outermost value --------------------------------------------------------------------- */

static vw_status read_segment_lists(vw__snapshot_fold *fold, const vw__snapshot_fields *fields)
{
    bool is_there;
    vw__value list;
    VW__TRY(get_list(fields, VW__SNAPSHOT_KEY_SEGMENTS, &is_there, &list));
    if (is_there)
        VW__TRY(add_segments(fold, list, "segments", false));
    VW__TRY(get_list(fields, VW__SNAPSHOT_KEY_HOST_SEGMENTS, &is_there, &list));
    return is_there ? add_segments(fold, list, "host_segments", true) : VW_OK;
}

static vw_status read_trace_lists(vw__snapshot_fold *fold, const vw__snapshot_fields *fields)
{
    vw__model_features *features = vw__model_builder_features(fold->builder);
    size_t first_free_event = 0;
    bool is_there;
    vw__value list;
    VW__TRY(get_list(fields, VW__SNAPSHOT_KEY_DEVICE_TRACES, &is_there, &list));
    if (is_there) {
        features->has_traces = true;
        VW__TRY(add_traces(fold, list, "device_traces", &first_free_event));
    } else {
        VW__TRY(get_list(fields, VW__SNAPSHOT_KEY_TRACES, &is_there, &list));
        features->has_traces = is_there && vw__value_item_count(fold->document, list) != 0;
        if (is_there)
            VW__TRY(add_traces(fold, list, "traces", &first_free_event));
    }
    VW__TRY(get_list(fields, VW__SNAPSHOT_KEY_HOST_TRACES, &is_there, &list));
    features->has_host_traces = is_there;
    return is_there ? add_host_trace(fold, list, "host_traces", &first_free_event) : VW_OK;
}

static vw_status read_dict(vw__snapshot_fold *fold, vw__value root)
{
    vw__model_features *features = vw__model_builder_features(fold->builder);
    vw__snapshot_fields fields = {
        .document = fold->document, .record = "snapshot", .number = SIZE_MAX};
    size_t pair_count;
    bool is_there;
    vw__value list;
    const vw__value *pairs = vw__value_pairs(fold->document, root, &pair_count);
    vw__snapshot_collect_fields(&fields, pairs, pair_count);
    if (!vw__snapshot_has_field(&fields, VW__SNAPSHOT_KEY_SEGMENTS) &&
        !vw__snapshot_has_field(&fields, VW__SNAPSHOT_KEY_DEVICE_TRACES))
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "not a memory snapshot: a dict of %zu key%s, with neither segments nor "
                        "device_traces among them",
                        pair_count, pair_count == 1 ? "" : "s");
    if (fields.unknown_count != 0)
        vw__snapshot_ignore_unknown(fold, pairs, pair_count);
    VW__TRY(read_segment_lists(fold, &fields));
    VW__TRY(read_trace_lists(fold, &fields));
    VW__TRY(get_list(&fields, VW__SNAPSHOT_KEY_EXTERNAL_ANNOTATIONS, &is_there, &list));
    features->has_annotations = is_there;
    if (is_there)
        VW__TRY(add_annotations(fold, list));
    if (vw__snapshot_has_field(&fields, VW__SNAPSHOT_KEY_ALLOCATOR_SETTINGS))
        VW__TRY(read_settings(fold, fields.values[VW__SNAPSHOT_KEY_ALLOCATOR_SETTINGS]));
    return VW_OK;
}

vw_status vw__snapshot_read_root(vw__snapshot_fold *fold, vw__document *document, vw__value root)
{
    fold->document = document; /* there may have been no dict at all */
    root = vw__document_resolve(document, root);
    note_features(fold);
    if (vw__value_get_kind(root) == VW__VALUE_LIST) {
        vw__model_builder_features(fold->builder)->is_bare_list = true;
        return add_segments(fold, root, "not a memory snapshot", false);
    }
    if (vw__value_get_kind(root) == VW__VALUE_DICT)
        return read_dict(fold, root);
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "not a memory snapshot: expected a dict with segments and device_traces, or a "
                    "list of segments; found %s",
                    vw__snapshot_value_name(root));
}
