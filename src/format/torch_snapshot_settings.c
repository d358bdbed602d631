/* torch_snapshot_settings.c - `allocator_settings`: the few that a replay needs as numbers, and all
 * of them as text for people, in the file's order. */
#include "format/torch_snapshot_root.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/byte_buffer.h"

/* Containers in containers that are shown; deeper ones are dots. */
enum { DEEPEST_SHOWN = 3 };

/* The more the longer: a setting of many kilobytes is none. */
enum { MOST_TEXT_BYTES = 1 << 16 };

static void append_value(vw__byte_buffer *text, const vw__document *document, vw__value value,
                         unsigned depth);

/* The shortest of the usual precisions that reads back as the same number. */
static void append_float(vw__byte_buffer *text, double number)
{
    char digits[40];
    for (int precision = 6; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, number);
        if (strtod(digits, NULL) == number)
            break;
    }
    for (char *at = digits; *at != '\0'; at++)
        if (*at == ',')
            *at = '.'; /* some locales */
    vw__append_text(text, digits);
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
    vw__byte_buffer key, value;
    vw__byte_buffer_init(&key);
    vw__byte_buffer_init(&value);
    for (size_t i = 0; i < pair_count && status == VW_OK; i++) {
        vw__byte_buffer_clear(&key);
        vw__byte_buffer_clear(&value);
        append_value(&key, fold->document, pairs[2 * i], 0);
        append_value(&value, fold->document, pairs[2 * i + 1], 0);
        if (vw__byte_buffer_has_failed(&key) || vw__byte_buffer_has_failed(&value))
            status = vw__fail_host_memory(MOST_TEXT_BYTES, "the text of a setting");
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
    if (!vw__has_field(fields, key))
        return VW_OK;
    if (vw__value_get_kind(fields->values[key]) != VW__VALUE_STRING)
        return vw__wrong_field(fields, key, "a string", fields->values[key]);
    return vw__fold_string(fold, fields->values[key], out);
}

vw_status vw__snapshot_read_settings(vw__snapshot_fold *fold, vw__value settings)
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
    vw__collect_fields(&fields, pairs, pair_count);
    VW__TRY(vw__get_signed(&fields, VW__KEY_MAX_SPLIT_SIZE, &to->max_split_size));
    VW__TRY(vw__get_number(&fields, VW__KEY_GARBAGE_COLLECTION_THRESHOLD,
                           &to->garbage_collection_threshold));
    VW__TRY(vw__get_boolean(&fields, VW__KEY_EXPANDABLE_SEGMENTS, &to->is_expandable));
    VW__TRY(read_string(fold, &fields, VW__KEY_ALLOC_CONF, &to->conf));
    VW__TRY(read_string(fold, &fields, VW__KEY_ENGINE, &to->engine));
    VW__TRY(vw__get_size(&fields, VW__KEY_DEVICE_BYTES, &to->device_bytes));
    VW__TRY(vw__get_size(&fields, VW__KEY_LIMIT_BYTES, &to->limit_bytes));
    to->is_known = features->has_settings = true;
    features->has_stream_reuse = vw__has_field(&fields, VW__KEY_STREAM_REUSE);
    features->has_max_cached_size = vw__has_field(&fields, VW__KEY_MAX_CACHED_SIZE);
    return add_entries(fold, pairs, pair_count);
}
