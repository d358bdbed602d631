/* torch_snapshot_root.c - which entries are whose, and what the outermost dict says. */
#include "format/torch_snapshot_root.h"

static bool is_folded_as(hr__value value, unsigned kind)
{
    return hr__value_get_kind(value) == HR__VALUE_FOLDED && hr__value_folded_kind(value) == kind;
}

static hr_status wrong_item(const char *list, size_t number, const char *expected, hr__value found)
{
    return hr__fail(HR_ERR_CORRUPT_FILE, "%s: item %zu: expected %s, found %s", list, number,
                    expected, hr__snapshot_value_name(found));
}

/* The value of a key that must be a list where it is there; false where it is not. */
static hr_status get_list(const hr__snapshot_fields *fields, hr__snapshot_name key, bool *is_there,
                          hr__value *list)
{
    *is_there = hr__has_field(fields, key);
    if (!*is_there)
        return HR_OK;
    *list = fields->values[key];
    if (hr__value_get_kind(*list) != HR__VALUE_LIST)
        return hr__fail(HR_ERR_CORRUPT_FILE, "%s: expected a list, found %s",
                        hr__snapshot_names[key], hr__snapshot_value_name(*list));
    return HR_OK;
}

/* ---- segments -------------------------------------------------------------------------------- */

static hr_status add_segments(hr__snapshot_fold *fold, hr__value list, const char *name,
                              bool is_host)
{
    hr__value item;
    size_t number = 0;
    for (uint64_t cursor = 0; hr__value_next_item(fold->document, list, &cursor, &item); number++) {
        if (!is_folded_as(item, HR__FOLDED_SEGMENT))
            return wrong_item(name, number, "a segment (a dict with total_size and blocks)", item);
        hr__model_segment segment =
            ((const hr__model_segment *)fold->segments.items)[hr__value_folded_id(item)];
        if (is_host)
            segment.device = HR__HOST_DEVICE;
        HR__TRY(hr__model_add_segment(fold->builder, &segment));
    }
    return HR_OK;
}

/* ---- traces ---------------------------------------------------------------------------------- */

/* Events of one trace: a run of the builder's, as long as they follow one another there and no
 * other trace has them; from the first that does not, copies behind all others. */
typedef struct gathered_trace {
    size_t first_event;
    size_t event_count;
    bool is_copied;
} gathered_trace;

static hr_status copy_event(hr__snapshot_fold *fold, size_t index, size_t *copy_index)
{
    hr__model_event copy = *hr__model_builder_event(fold->builder, index);
    return hr__model_add_event(fold->builder, &copy, copy_index);
}

static hr_status copy_run(hr__snapshot_fold *fold, gathered_trace *trace)
{
    size_t from = trace->first_event;
    trace->first_event = hr__model_builder_event_count(fold->builder);
    trace->is_copied = true;
    for (size_t i = 0; i < trace->event_count; i++) {
        size_t copy_index;
        HR__TRY(copy_event(fold, from + i, &copy_index));
    }
    return HR_OK;
}

static hr_status gather_event(hr__snapshot_fold *fold, gathered_trace *trace,
                              size_t first_free_event, size_t index)
{
    if (!trace->is_copied) {
        if (trace->event_count == 0)
            trace->first_event = index;
        if (index >= first_free_event && index == trace->first_event + trace->event_count) {
            trace->event_count++;
            return HR_OK;
        }
        HR__TRY(copy_run(fold, trace));
    }
    size_t copy_index;
    HR__TRY(copy_event(fold, index, &copy_index));
    trace->event_count++;
    return HR_OK;
}

/* How many of the items are the trace's next events, one behind the other: nearly always all. */
static size_t skip_run(gathered_trace *trace, size_t first_free_event, const hr__value *items,
                       size_t item_count)
{
    size_t count = 0, next = trace->first_event + trace->event_count;
    if (trace->event_count == 0 || trace->is_copied || next < first_free_event)
        return 0;
    while (count < item_count && next + count <= UINT32_MAX &&
           items[count] == hr__value_folded(HR__FOLDED_ENTRY, (uint32_t)(next + count)))
        count++;
    trace->event_count += count;
    return count;
}

static hr_status gather_entries(hr__snapshot_fold *fold, hr__value list, const char *name,
                                size_t first_free_event, gathered_trace *trace)
{
    const hr__value *items;
    size_t item_count, number = 0;
    for (uint64_t cursor = 0;
         hr__value_next_items(fold->document, list, &cursor, &items, &item_count);) {
        size_t i = skip_run(trace, first_free_event, items, item_count);
        number += i;
        for (; i < item_count; i++, number++) {
            if (!is_folded_as(items[i], HR__FOLDED_ENTRY))
                return wrong_item(name, number, "a trace entry (a dict with action)",
                                  hr__document_resolve(fold->document, items[i]));
            HR__TRY(gather_event(fold, trace, first_free_event, hr__value_folded_id(items[i])));
        }
    }
    return HR_OK;
}

/* `*first_free_event`: those before it belong to a trace. */
static hr_status end_trace(hr__snapshot_fold *fold, int device, const gathered_trace *trace,
                           size_t *first_free_event)
{
    size_t end = trace->first_event + trace->event_count;
    if (trace->event_count != 0 && !trace->is_copied && end > *first_free_event)
        *first_free_event = end;
    return hr__model_add_trace(fold->builder, device,
                               trace->event_count != 0 ? trace->first_event : 0,
                               trace->event_count);
}

static hr_status add_traces(hr__snapshot_fold *fold, hr__value lists, const char *name,
                            size_t *first_free_event)
{
    hr__value list;
    int device = 0;
    for (uint64_t cursor = 0; hr__value_next_item(fold->document, lists, &cursor, &list);
         device++) {
        gathered_trace trace = {0, 0, false};
        if (hr__value_get_kind(list) != HR__VALUE_LIST)
            return wrong_item(name, (size_t)device, "the list of a device's trace entries", list);
        HR__TRY(gather_entries(fold, list, name, *first_free_event, &trace));
        HR__TRY(end_trace(fold, device, &trace, first_free_event)); /* limits the devices */
    }
    return HR_OK;
}

/* Of pinned host memory: a list of lists like the devices', or the entries themselves. They become
 * one trace. */
static hr_status add_host_trace(hr__snapshot_fold *fold, hr__value lists, const char *name,
                                size_t *first_free_event)
{
    gathered_trace trace = {0, 0, false};
    hr__value item;
    size_t number = 0;
    for (uint64_t cursor = 0; hr__value_next_item(fold->document, lists, &cursor, &item);
         number++) {
        if (hr__value_get_kind(item) == HR__VALUE_LIST)
            HR__TRY(gather_entries(fold, item, name, *first_free_event, &trace));
        else if (is_folded_as(item, HR__FOLDED_ENTRY))
            HR__TRY(gather_event(fold, &trace, *first_free_event, hr__value_folded_id(item)));
        else
            return wrong_item(name, number, "a trace entry, or a list of them", item);
    }
    if (trace.event_count == 0)
        return HR_OK;
    return end_trace(fold, HR__HOST_DEVICE, &trace, first_free_event);
}

/* ---- annotations, features ------------------------------------------------------------------- */

static hr_status add_annotations(hr__snapshot_fold *fold, hr__value list)
{
    hr__value item;
    size_t number = 0;
    for (uint64_t cursor = 0; hr__value_next_item(fold->document, list, &cursor, &item); number++) {
        if (!is_folded_as(item, HR__FOLDED_ANNOTATION))
            return wrong_item("external_annotations", number,
                              "an annotation (a dict with name and stage)", item);
        const hr__model_annotation *annotation =
            (const hr__model_annotation *)fold->annotations.items + hr__value_folded_id(item);
        HR__TRY(hr__model_add_annotation(fold->builder, annotation));
    }
    return HR_OK;
}

/* What the records had; the outermost dict's own keys are noted where they are read. */
static void note_features(hr__snapshot_fold *fold)
{
    hr__model_features *features = hr__model_builder_features(fold->builder);
    features->has_block_history = (fold->block_keys & HR__KEY_BIT(HR__KEY_HISTORY)) != 0;
    features->has_block_addresses = (fold->block_keys & HR__KEY_BIT(HR__KEY_ADDRESS)) != 0;
    features->has_times = (fold->entry_keys & HR__KEY_BIT(HR__KEY_TIME_US)) != 0;
    features->has_compile_context = (fold->entry_keys & HR__KEY_BIT(HR__KEY_COMPILE_CONTEXT)) != 0;
    features->has_user_metadata = (fold->entry_keys & HR__KEY_BIT(HR__KEY_USER_METADATA)) != 0;
    features->has_pool_ids = (fold->entry_keys & HR__KEY_BIT(HR__KEY_POOL_ID)) != 0;
    features->has_contexts = fold->has_contexts;
}

/* ---- the outermost value --------------------------------------------------------------------- */

static hr_status read_segment_lists(hr__snapshot_fold *fold, const hr__snapshot_fields *fields)
{
    bool is_there;
    hr__value list;
    HR__TRY(get_list(fields, HR__KEY_SEGMENTS, &is_there, &list));
    if (is_there)
        HR__TRY(add_segments(fold, list, "segments", false));
    HR__TRY(get_list(fields, HR__KEY_HOST_SEGMENTS, &is_there, &list));
    return is_there ? add_segments(fold, list, "host_segments", true) : HR_OK;
}

static hr_status read_trace_lists(hr__snapshot_fold *fold, const hr__snapshot_fields *fields)
{
    hr__model_features *features = hr__model_builder_features(fold->builder);
    size_t first_free_event = 0;
    bool is_there;
    hr__value list;
    HR__TRY(get_list(fields, HR__KEY_DEVICE_TRACES, &is_there, &list));
    if (is_there) {
        features->has_traces = true;
        HR__TRY(add_traces(fold, list, "device_traces", &first_free_event));
    } else {
        HR__TRY(get_list(fields, HR__KEY_TRACES, &is_there, &list));
        features->has_traces = is_there && hr__value_item_count(fold->document, list) != 0;
        if (is_there)
            HR__TRY(add_traces(fold, list, "traces", &first_free_event));
    }
    HR__TRY(get_list(fields, HR__KEY_HOST_TRACES, &is_there, &list));
    features->has_host_traces = is_there;
    return is_there ? add_host_trace(fold, list, "host_traces", &first_free_event) : HR_OK;
}

static hr_status read_dict(hr__snapshot_fold *fold, hr__value root)
{
    hr__model_features *features = hr__model_builder_features(fold->builder);
    hr__snapshot_fields fields = {
        .document = fold->document, .record = "snapshot", .number = SIZE_MAX};
    size_t pair_count;
    bool is_there;
    hr__value list;
    const hr__value *pairs = hr__value_pairs(fold->document, root, &pair_count);
    hr__collect_fields(&fields, pairs, pair_count);
    if (!hr__has_field(&fields, HR__KEY_SEGMENTS) && !hr__has_field(&fields, HR__KEY_DEVICE_TRACES))
        return hr__fail(HR_ERR_CORRUPT_FILE,
                        "not a memory snapshot: a dict of %zu keys, with neither segments nor "
                        "device_traces among them",
                        pair_count);
    if (fields.unknown_count != 0)
        hr__snapshot_ignore_unknown(fold, pairs, pair_count);
    HR__TRY(read_segment_lists(fold, &fields));
    HR__TRY(read_trace_lists(fold, &fields));
    HR__TRY(get_list(&fields, HR__KEY_EXTERNAL_ANNOTATIONS, &is_there, &list));
    features->has_annotations = is_there;
    if (is_there)
        HR__TRY(add_annotations(fold, list));
    if (hr__has_field(&fields, HR__KEY_ALLOCATOR_SETTINGS))
        HR__TRY(hr__snapshot_read_settings(fold, fields.values[HR__KEY_ALLOCATOR_SETTINGS]));
    return HR_OK;
}

hr_status hr__snapshot_read_root(hr__snapshot_fold *fold, hr__document *document, hr__value root)
{
    fold->document = document; /* there may have been no dict at all */
    root = hr__document_resolve(document, root);
    note_features(fold);
    if (hr__value_get_kind(root) == HR__VALUE_LIST) {
        hr__model_builder_features(fold->builder)->is_bare_list = true;
        return add_segments(fold, root, "not a memory snapshot", false);
    }
    if (hr__value_get_kind(root) == HR__VALUE_DICT)
        return read_dict(fold, root);
    return hr__fail(HR_ERR_CORRUPT_FILE,
                    "not a memory snapshot: expected a dict with segments and device_traces, or a "
                    "list of segments; found %s",
                    hr__snapshot_value_name(root));
}
