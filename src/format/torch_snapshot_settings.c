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

static void append_value(hr__byte_buffer *text, const hr__document *document, hr__value value,
                         unsigned depth);

/* The shortest of the usual precisions that reads back as the same number. */
static void append_float(hr__byte_buffer *text, double number)
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
    hr__append_text(text, digits);
}

static void append_integer(hr__byte_buffer *text, const hr__document *document, hr__value value)
{
    int64_t number;
    uint64_t large_number;
    if (hr__value_get_i64(document, value, &number))
        hr__append_format(text, "%lld", (long long)number);
    else if (hr__value_get_u64(document, value, &large_number))
        hr__append_format(text, "%llu", (unsigned long long)large_number);
}

/* As the option string has it: [256:1,512:2]. */
static void append_dict(hr__byte_buffer *text, const hr__document *document, hr__value dict,
                        unsigned depth)
{
    size_t pair_count;
    const hr__value *pairs = hr__value_pairs(document, dict, &pair_count);
    hr__append_text(text, "[");
    for (size_t i = 0; i < pair_count && hr__byte_buffer_size(text) < MOST_TEXT_BYTES; i++) {
        hr__append_text(text, i != 0 ? "," : "");
        append_value(text, document, pairs[2 * i], depth + 1);
        hr__append_text(text, ":");
        append_value(text, document, pairs[2 * i + 1], depth + 1);
    }
    hr__append_text(text, "]");
}

static void append_list(hr__byte_buffer *text, const hr__document *document, hr__value list,
                        unsigned depth)
{
    hr__value item;
    bool is_first = true;
    hr__append_text(text, "[");
    for (uint64_t cursor = 0; hr__byte_buffer_size(text) < MOST_TEXT_BYTES &&
                              hr__value_next_item(document, list, &cursor, &item);
         is_first = false) {
        hr__append_text(text, is_first ? "" : ",");
        append_value(text, document, item, depth + 1);
    }
    hr__append_text(text, "]");
}

static void append_value(hr__byte_buffer *text, const hr__document *document, hr__value value,
                         unsigned depth)
{
    hr__value_kind kind = hr__value_get_kind(value);
    size_t size_bytes = 0;
    double number = 0;
    if (depth > DEEPEST_SHOWN) {
        hr__append_text(text, "...");
        return;
    }
    switch (kind) {
    case HR__VALUE_STRING:
        hr__append_text(text, hr__value_string(document, value, &size_bytes));
        break;
    case HR__VALUE_INTEGER:
        append_integer(text, document, value);
        break;
    case HR__VALUE_FLOAT:
        (void)hr__value_get_f64(document, value, &number);
        append_float(text, number);
        break;
    case HR__VALUE_TRUE:
    case HR__VALUE_FALSE:
        hr__append_text(text, kind == HR__VALUE_TRUE ? "True" : "False");
        break;
    case HR__VALUE_NONE:
        hr__append_text(text, "None");
        break;
    case HR__VALUE_LIST:
    case HR__VALUE_TUPLE:
        append_list(text, document, value, depth);
        break;
    case HR__VALUE_DICT:
        append_dict(text, document, value, depth);
        break;
    default: /* a huge integer, bytes, a record of the snapshot */
        hr__append_text(text, hr__value_kind_name(kind));
        break;
    }
}

static hr_status add_entries(hr__snapshot_fold *fold, const hr__value *pairs, size_t pair_count)
{
    hr_status status = HR_OK;
    hr__byte_buffer key, value;
    hr__byte_buffer_init(&key);
    hr__byte_buffer_init(&value);
    for (size_t i = 0; i < pair_count && status == HR_OK; i++) {
        hr__byte_buffer_clear(&key);
        hr__byte_buffer_clear(&value);
        append_value(&key, fold->document, pairs[2 * i], 0);
        append_value(&value, fold->document, pairs[2 * i + 1], 0);
        if (hr__byte_buffer_has_failed(&key) || hr__byte_buffer_has_failed(&value))
            status = hr__fail_host_memory(MOST_TEXT_BYTES, "the text of a setting");
        else
            status = hr__model_add_setting(fold->builder, hr__byte_buffer_text(&key),
                                           hr__byte_buffer_text(&value));
    }
    hr__byte_buffer_deinit(&key);
    hr__byte_buffer_deinit(&value);
    return status;
}

hr_status hr__snapshot_read_settings(hr__snapshot_fold *fold, hr__value settings)
{
    hr__model_settings *to = hr__model_builder_settings(fold->builder);
    hr__model_features *features = hr__model_builder_features(fold->builder);
    hr__snapshot_fields fields = {
        .document = fold->document, .record = "allocator_settings", .number = SIZE_MAX};
    size_t pair_count;
    if (hr__value_get_kind(settings) != HR__VALUE_DICT)
        return hr__fail(HR_ERR_CORRUPT_FILE, "allocator_settings: expected a dict, found %s",
                        hr__snapshot_value_name(settings));
    const hr__value *pairs = hr__value_pairs(fold->document, settings, &pair_count);
    hr__collect_fields(&fields, pairs, pair_count);
    HR__TRY(hr__get_signed(&fields, HR__KEY_MAX_SPLIT_SIZE, &to->max_split_size));
    HR__TRY(hr__get_number(&fields, HR__KEY_GARBAGE_COLLECTION_THRESHOLD,
                           &to->garbage_collection_threshold));
    HR__TRY(hr__get_boolean(&fields, HR__KEY_EXPANDABLE_SEGMENTS, &to->is_expandable));
    if (hr__has_field(&fields, HR__KEY_ALLOC_CONF)) {
        hr__value conf = fields.values[HR__KEY_ALLOC_CONF];
        if (hr__value_get_kind(conf) != HR__VALUE_STRING)
            return hr__wrong_field(&fields, HR__KEY_ALLOC_CONF, "a string", conf);
        HR__TRY(hr__fold_string(fold, conf, &to->conf));
    }
    to->is_known = features->has_settings = true;
    features->has_stream_reuse = hr__has_field(&fields, HR__KEY_STREAM_REUSE);
    features->has_max_cached_size = hr__has_field(&fields, HR__KEY_MAX_CACHED_SIZE);
    return add_entries(fold, pairs, pair_count);
}
