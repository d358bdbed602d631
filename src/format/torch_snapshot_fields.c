/* torch_snapshot_fields.c - the words themselves, and what is said when a field is wrong. */
#include "format/torch_snapshot_fields.h"

#include <limits.h>
#include <stdio.h>

#include "base/checked_math.h"
#include "model/memory_model.h" /* VW__HOST_DEVICE */

const char *const vw__snapshot_names[VW__SNAPSHOT_NAME_COUNT] = {
#define VW__KEY_TEXT(upper, text) [VW__KEY_##upper] = text,
    VW__SNAPSHOT_KEY_LIST(VW__KEY_TEXT)
#undef VW__KEY_TEXT
#define VW__WORD_TEXT(upper, text) [VW__WORD_##upper] = text,
        VW__SNAPSHOT_WORD_LIST(VW__WORD_TEXT)
#undef VW__WORD_TEXT
};

void vw__describe_value(const vw__document *document, vw__value value, char *text,
                        size_t text_bytes)
{
    enum { MOST_SHOWN = 40 };
    if (vw__value_get_kind(value) != VW__VALUE_STRING) {
        snprintf(text, text_bytes, "%s", vw__value_kind_name(vw__value_get_kind(value)));
        return;
    }
    size_t size_bytes = 0;
    const char *bytes = vw__value_string(document, value, &size_bytes);
    char shown[MOST_SHOWN + 1];
    size_t count = size_bytes < MOST_SHOWN ? size_bytes : MOST_SHOWN;
    for (size_t i = 0; i < count; i++) /* what a terminal would act upon is not shown */
        shown[i] = bytes[i] >= ' ' && bytes[i] <= '~' ? bytes[i] : '?';
    shown[count] = '\0';
    snprintf(text, text_bytes, "the string \"%s\"%s", shown, size_bytes > count ? "..." : "");
}

/* "segment 3: ", or "allocator_settings: ". */
static void describe_record(const vw__snapshot_fields *fields, char *text, size_t text_bytes)
{
    if (fields->number == SIZE_MAX)
        snprintf(text, text_bytes, "%s", fields->record);
    else
        snprintf(text, text_bytes, "%s %zu", fields->record, fields->number);
}

vw_status vw__wrong_field(const vw__snapshot_fields *fields, vw__snapshot_name key,
                          const char *expected, vw__value found)
{
    char record[64], value[128];
    describe_record(fields, record, sizeof record);
    vw__describe_value(fields->document, found, value, sizeof value);
    return vw__fail(VW_ERR_CORRUPT_FILE, "%s: %s: expected %s, found %s", record,
                    vw__snapshot_names[key], expected, value);
}

vw_status vw__need_field(const vw__snapshot_fields *fields, vw__snapshot_name key)
{
    char record[64];
    if (vw__has_field(fields, key))
        return VW_OK;
    describe_record(fields, record, sizeof record);
    return vw__fail(VW_ERR_CORRUPT_FILE, "%s: %s is missing", record, vw__snapshot_names[key]);
}

/* Digits and nothing else, since the text may hold zeros. */
static bool read_digits(const char *text, size_t size_bytes, uint64_t *out)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size_bytes; i++)
        if (text[i] < '0' || text[i] > '9' || !vw__mul_u64(number, 10, &number) ||
            !vw__add_u64(number, (uint64_t)(text[i] - '0'), &number))
            return false;
    *out = number;
    return size_bytes != 0;
}

vw_status vw__get_count(const vw__snapshot_fields *fields, vw__snapshot_name key, uint64_t *out)
{
    if (!vw__has_field(fields, key))
        return VW_OK;
    vw__value value = fields->values[key];
    if (vw__value_get_kind(value) != VW__VALUE_STRING)
        return vw__get_size(fields, key, out);
    size_t size_bytes = 0;
    const char *text = vw__value_string(fields->document, value, &size_bytes);
    return read_digits(text, size_bytes, out)
               ? VW_OK
               : vw__wrong_field(fields, key, "an integer that is not negative", value);
}

vw_status vw__get_number(const vw__snapshot_fields *fields, vw__snapshot_name key, double *out)
{
    if (!vw__has_field(fields, key) ||
        vw__value_get_f64(fields->document, fields->values[key], out))
        return VW_OK;
    return vw__wrong_field(fields, key, "a number", fields->values[key]);
}

vw_status vw__get_boolean(const vw__snapshot_fields *fields, vw__snapshot_name key, bool *out)
{
    if (!vw__has_field(fields, key))
        return VW_OK;
    vw__value_kind kind = vw__value_get_kind(fields->values[key]);
    if (kind != VW__VALUE_TRUE && kind != VW__VALUE_FALSE)
        return vw__wrong_field(fields, key, "True or False", fields->values[key]);
    *out = kind == VW__VALUE_TRUE;
    return VW_OK;
}

vw_status vw__get_device(const vw__snapshot_fields *fields, int *out)
{
    int64_t number = *out;
    VW__TRY(vw__get_signed(fields, VW__KEY_DEVICE, &number));
    if (number < VW__HOST_DEVICE || number > INT_MAX)
        return vw__wrong_field(fields, VW__KEY_DEVICE, "the number of a device",
                               fields->values[VW__KEY_DEVICE]);
    *out = (int)number;
    return VW_OK;
}
