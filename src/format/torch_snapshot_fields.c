/* torch_snapshot_fields.c - the words themselves, and what is said when a field is wrong. */
#include "format/torch_snapshot_fields.h"

#include <limits.h>
#include <stdio.h>

#include "base/checked_math.h"
#include "model/memory_model.h" /* HR__HOST_DEVICE */

const char *const hr__snapshot_names[HR__SNAPSHOT_NAME_COUNT] = {
#define HR__KEY_TEXT(upper, text) [HR__KEY_##upper] = text,
    HR__SNAPSHOT_KEY_LIST(HR__KEY_TEXT)
#undef HR__KEY_TEXT
#define HR__WORD_TEXT(upper, text) [HR__WORD_##upper] = text,
        HR__SNAPSHOT_WORD_LIST(HR__WORD_TEXT)
#undef HR__WORD_TEXT
};

void hr__describe_value(const hr__document *document, hr__value value, char *text,
                        size_t text_bytes)
{
    enum { MOST_SHOWN = 40 };
    if (hr__value_get_kind(value) != HR__VALUE_STRING) {
        snprintf(text, text_bytes, "%s", hr__value_kind_name(hr__value_get_kind(value)));
        return;
    }
    size_t size_bytes = 0;
    const char *bytes = hr__value_string(document, value, &size_bytes);
    char shown[MOST_SHOWN + 1];
    size_t count = size_bytes < MOST_SHOWN ? size_bytes : MOST_SHOWN;
    for (size_t i = 0; i < count; i++) /* what a terminal would act upon is not shown */
        shown[i] = bytes[i] >= ' ' && bytes[i] <= '~' ? bytes[i] : '?';
    shown[count] = '\0';
    snprintf(text, text_bytes, "the string \"%s\"%s", shown, size_bytes > count ? "..." : "");
}

/* "segment 3: ", or "allocator_settings: ". */
static void describe_record(const hr__snapshot_fields *fields, char *text, size_t text_bytes)
{
    if (fields->number == SIZE_MAX)
        snprintf(text, text_bytes, "%s", fields->record);
    else
        snprintf(text, text_bytes, "%s %zu", fields->record, fields->number);
}

hr_status hr__wrong_field(const hr__snapshot_fields *fields, hr__snapshot_name key,
                          const char *expected, hr__value found)
{
    char record[64], value[128];
    describe_record(fields, record, sizeof record);
    hr__describe_value(fields->document, found, value, sizeof value);
    return hr__fail(HR_ERR_CORRUPT_FILE, "%s: %s: expected %s, found %s", record,
                    hr__snapshot_names[key], expected, value);
}

hr_status hr__need_field(const hr__snapshot_fields *fields, hr__snapshot_name key)
{
    char record[64];
    if (hr__has_field(fields, key))
        return HR_OK;
    describe_record(fields, record, sizeof record);
    return hr__fail(HR_ERR_CORRUPT_FILE, "%s: %s is missing", record, hr__snapshot_names[key]);
}

/* Digits and nothing else, since the text may hold zeros. */
static bool read_digits(const char *text, size_t size_bytes, uint64_t *out)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size_bytes; i++)
        if (text[i] < '0' || text[i] > '9' || !hr__mul_u64(number, 10, &number) ||
            !hr__add_u64(number, (uint64_t)(text[i] - '0'), &number))
            return false;
    *out = number;
    return size_bytes != 0;
}

hr_status hr__get_count(const hr__snapshot_fields *fields, hr__snapshot_name key, uint64_t *out)
{
    if (!hr__has_field(fields, key))
        return HR_OK;
    hr__value value = fields->values[key];
    if (hr__value_get_kind(value) != HR__VALUE_STRING)
        return hr__get_size(fields, key, out);
    size_t size_bytes = 0;
    const char *text = hr__value_string(fields->document, value, &size_bytes);
    return read_digits(text, size_bytes, out)
               ? HR_OK
               : hr__wrong_field(fields, key, "an integer that is not negative", value);
}

hr_status hr__get_number(const hr__snapshot_fields *fields, hr__snapshot_name key, double *out)
{
    if (!hr__has_field(fields, key) ||
        hr__value_get_f64(fields->document, fields->values[key], out))
        return HR_OK;
    return hr__wrong_field(fields, key, "a number", fields->values[key]);
}

hr_status hr__get_boolean(const hr__snapshot_fields *fields, hr__snapshot_name key, bool *out)
{
    if (!hr__has_field(fields, key))
        return HR_OK;
    hr__value_kind kind = hr__value_get_kind(fields->values[key]);
    if (kind != HR__VALUE_TRUE && kind != HR__VALUE_FALSE)
        return hr__wrong_field(fields, key, "True or False", fields->values[key]);
    *out = kind == HR__VALUE_TRUE;
    return HR_OK;
}

hr_status hr__get_device(const hr__snapshot_fields *fields, int *out)
{
    int64_t number = *out;
    HR__TRY(hr__get_signed(fields, HR__KEY_DEVICE, &number));
    if (number < HR__HOST_DEVICE || number > INT_MAX)
        return hr__wrong_field(fields, HR__KEY_DEVICE, "the number of a device",
                               fields->values[HR__KEY_DEVICE]);
    *out = (int)number;
    return HR_OK;
}
