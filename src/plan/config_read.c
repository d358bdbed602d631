/* config_read.c - fields of a configuration over the document that the JSON reader makes. */
#include "plan/config_read.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/nearest_name.h"
#include "parse/byte_source.h"
#include "parse/json_read.h"

/* The largest config.json in the wild, with 21,843 labels, has 2 MB. */
#define MOST_FILE_BYTES (UINT64_C(32) << 20)
#define MOST_MEMORY_BYTES ((size_t)64 << 20)
#define MOST_VALUES ((size_t)1 << 20)
#define MOST_DEPTH 64

/* Whole numbers up to here are the same as doubles. */
#define LARGEST_EXACT 9007199254740992.0

struct vw__config_file {
    vw__document *document; /* owned */
    vw__value root;
};

/* ---- the file -------------------------------------------------------------------------------- */

static vw_status read_root(vw__byte_source *source, vw__config_file *file)
{
    const vw__document_limits limits = {
        .memory_bytes = MOST_MEMORY_BYTES, .depth = MOST_DEPTH, .value_count = MOST_VALUES};
    VW__TRY(vw__document_create(&limits, NULL, &file->document));
    VW__TRY(vw__document_read_json(source, file->document, &file->root));
    file->root = vw__document_resolve(file->document, file->root);
    vw__value_kind kind = vw__value_get_kind(file->root);
    if (kind != VW__VALUE_DICT)
        return vw__fail(VW_ERR_CORRUPT_FILE, "expected an object, as config.json is, found %s",
                        vw__value_kind_name(kind));
    return VW_OK;
}

/* Takes the source over. */
static vw_status read_source(vw__byte_source *source, vw__config_file **out)
{
    vw_status status;
    vw__config_file *file = vw__host_alloc_zeroed(1, sizeof *file);
    if (file == NULL)
        status = vw__fail_host_memory(sizeof *file, "a configuration");
    else
        status = read_root(source, file);
    vw__byte_source_close(source);
    if (status == VW_OK)
        *out = file;
    else
        vw__config_close(file);
    return status;
}

static const vw__byte_source_options source_options = {.output_limit_bytes = MOST_FILE_BYTES};

vw_status vw__config_open(const char *path, vw__config_file **out)
{
    vw__byte_source *source;
    VW__TRY(vw__byte_source_open(path, &source_options, &source));
    return read_source(source, out);
}

vw_status vw__config_open_memory(const void *bytes, size_t size_bytes, vw__config_file **out)
{
    vw__byte_source *source;
    VW__TRY(vw__byte_source_open_memory(bytes, size_bytes, &source_options, &source));
    return read_source(source, out);
}

void vw__config_close(vw__config_file *file)
{
    if (file == NULL)
        return;
    vw__document_destroy(file->document);
    vw__host_free(file);
}

vw__config vw__config_root(const vw__config_file *file)
{
    return (vw__config){.document = file->document, .value = file->root};
}

/* ---- finding --------------------------------------------------------------------------------- */

/* A repeated name counts with its last value, as in Python. */
static bool find_any(const vw__config *config, const char *name, vw__value *out)
{
    size_t pair_count = 0, length = strlen(name);
    const vw__value *pairs = vw__value_pairs(config->document, config->value, &pair_count);
    bool is_found = false;
    for (size_t i = 0; i < pair_count; i++) {
        size_t size_bytes;
        if (vw__value_get_kind(pairs[2 * i]) != VW__VALUE_STRING)
            continue;
        const char *key = vw__value_string(config->document, pairs[2 * i], &size_bytes);
        if (size_bytes != length || memcmp(key, name, length) != 0)
            continue;
        *out = vw__document_resolve(config->document, pairs[2 * i + 1]);
        is_found = true;
    }
    return is_found;
}

/* False if the field is missing or null. */
static bool find(const vw__config *config, const char *name, vw__value *out)
{
    return find_any(config, name, out) && vw__value_get_kind(*out) != VW__VALUE_NONE;
}

bool vw__config_is_null(const vw__config *config, const char *name)
{
    vw__value value;
    return find_any(config, name, &value) && vw__value_get_kind(value) == VW__VALUE_NONE;
}

bool vw__config_has(const vw__config *config, const char *name)
{
    vw__value value;
    return find(config, name, &value);
}

static bool has_kind(const vw__config *config, const char *name, vw__value_kind kind)
{
    vw__value value;
    return find(config, name, &value) && vw__value_get_kind(value) == kind;
}

bool vw__config_has_list(const vw__config *config, const char *name)
{
    return has_kind(config, name, VW__VALUE_LIST);
}

bool vw__config_has_object(const vw__config *config, const char *name)
{
    return has_kind(config, name, VW__VALUE_DICT);
}

/* ---- words ----------------------------------------------------------------------------------- */

typedef struct value_words {
    char text[64];
} value_words;

/* The beginning of a string; control characters are shown as "?". */
static value_words words_of_string(const vw__document *document, vw__value value)
{
    enum { SHOWN = 40 };
    value_words words;
    size_t size_bytes, used = 0;
    const char *bytes = vw__value_string(document, value, &size_bytes);
    words.text[used++] = '"';
    for (size_t i = 0; i < size_bytes && i < SHOWN; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        words.text[used++] = byte < 0x20 || byte >= 0x7F ? '?' : (char)byte;
    }
    snprintf(words.text + used, sizeof words.text - used, size_bytes > SHOWN ? "...\"" : "\"");
    return words;
}

static value_words words_of(const vw__document *document, vw__value value)
{
    value_words words = {.text = ""};
    vw__value_kind kind = vw__value_get_kind(value);
    int64_t number;
    uint64_t large;
    double real;
    if (kind == VW__VALUE_STRING)
        return words_of_string(document, value);
    if (vw__value_get_i64(document, value, &number))
        snprintf(words.text, sizeof words.text, "%" PRId64, number);
    else if (vw__value_get_u64(document, value, &large))
        snprintf(words.text, sizeof words.text, "%" PRIu64, large);
    else if (kind == VW__VALUE_FLOAT && vw__value_get_f64(document, value, &real))
        vw__c_locale_snprintf(words.text, sizeof words.text, "%.9g", real);
    else if (kind == VW__VALUE_TRUE || kind == VW__VALUE_FALSE)
        snprintf(words.text, sizeof words.text, kind == VW__VALUE_TRUE ? "true" : "false");
    else
        snprintf(words.text, sizeof words.text, "%s", vw__value_kind_name(kind));
    return words;
}

vw_status vw__config_refuse(const vw__config *config, const char *name, vw_status status,
                            const char *expected, ...)
{
    char words[512];
    vw__value value;
    va_list args;
    va_start(args, expected);
    vw__c_locale_vsnprintf(words, sizeof words, expected, args);
    va_end(args);
    if (!find(config, name, &value))
        return vw__fail(status, "%s%s is missing: expected %s", config->place, name, words);
    return vw__fail(status, "%s%s: expected %s, found %s", config->place, name, words,
                    words_of(config->document, value).text);
}

vw_status vw__config_refuse_true(const vw__config *config, const char *name)
{
    bool is_true = false;
    VW__TRY(vw__config_boolean_if(config, name, &is_true));
    if (!is_true)
        return VW_OK;
    return vw__config_refuse(config, name, VW_ERR_UNSUPPORTED,
                             "false: what it switches on is not known to the planner");
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* True if it is a whole number from 0 that fits in 64 bits; 8.0 is one too. */
static bool get_whole(const vw__document *document, vw__value value, uint64_t *out)
{
    double real;
    if (vw__value_get_u64(document, value, out))
        return true;
    if (vw__value_get_kind(value) != VW__VALUE_FLOAT || !vw__value_get_f64(document, value, &real))
        return false;
    if (!(real >= 0 && real <= LARGEST_EXACT) || floor(real) < real)
        return false;
    *out = (uint64_t)real;
    return true;
}

static bool is_number(const vw__document *document, vw__value value)
{
    double real;
    return vw__value_get_kind(value) == VW__VALUE_HUGE || vw__value_get_f64(document, value, &real);
}

static vw_status read_number(const vw__config *config, const char *name, vw__value value,
                             uint64_t least, uint64_t most, uint64_t *out)
{
    uint64_t number;
    if (get_whole(config->document, value, &number) && number >= least && number <= most) {
        *out = number;
        return VW_OK;
    }
    vw_status status =
        is_number(config->document, value) ? VW_ERR_UNSUPPORTED : VW_ERR_CORRUPT_FILE;
    return vw__fail(status,
                    "%s%s: expected a whole number from %" PRIu64 " to %" PRIu64 ", found %s",
                    config->place, name, least, most, words_of(config->document, value).text);
}

vw_status vw__config_number(const vw__config *config, const char *name, uint64_t least,
                            uint64_t most, uint64_t *out)
{
    vw__value value;
    if (find(config, name, &value))
        return read_number(config, name, value, least, most, out);
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "%s%s is missing: expected a whole number from %" PRIu64 " to %" PRIu64,
                    config->place, name, least, most);
}

vw_status vw__config_number_if(const vw__config *config, const char *name, uint64_t least,
                               uint64_t most, uint64_t *out)
{
    vw__value value;
    return find(config, name, &value) ? read_number(config, name, value, least, most, out) : VW_OK;
}

vw_status vw__config_real_if(const vw__config *config, const char *name, double least, double most,
                             double *out)
{
    vw__value value;
    double real;
    if (!find(config, name, &value))
        return VW_OK;
    if (!vw__value_get_f64(config->document, value, &real))
        return vw__config_refuse(config, name, VW_ERR_CORRUPT_FILE, "a number from %g to %g", least,
                                 most);
    if (!(real >= least && real <= most))
        return vw__config_refuse(config, name, VW_ERR_UNSUPPORTED, "a number from %g to %g", least,
                                 most);
    *out = real;
    return VW_OK;
}

vw_status vw__config_boolean_if(const vw__config *config, const char *name, bool *out)
{
    vw__value value;
    if (!find(config, name, &value))
        return VW_OK;
    vw__value_kind kind = vw__value_get_kind(value);
    if (kind != VW__VALUE_TRUE && kind != VW__VALUE_FALSE)
        return vw__config_refuse(config, name, VW_ERR_CORRUPT_FILE, "true or false");
    *out = kind == VW__VALUE_TRUE;
    return VW_OK;
}

/* ---- texts ----------------------------------------------------------------------------------- */

vw_status vw__config_text_if(const vw__config *config, const char *name, const char **out)
{
    vw__value value;
    size_t size_bytes;
    if (!find(config, name, &value))
        return VW_OK;
    if (vw__value_get_kind(value) != VW__VALUE_STRING)
        return vw__config_refuse(config, name, VW_ERR_CORRUPT_FILE, "a text");
    const char *text = vw__value_string(config->document, value, &size_bytes);
    if (strlen(text) != size_bytes)
        return vw__config_refuse(config, name, VW_ERR_CORRUPT_FILE, "a text without zero bytes");
    *out = text;
    return VW_OK;
}

/* "a, b, c", as much as there is room for. */
static void join_names(char *text, size_t size_bytes, const char *const *names, size_t name_count)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < name_count && used + strlen(names[i]) + 3 < size_bytes; i++)
        used +=
            (size_t)snprintf(text + used, size_bytes - used, "%s%s", i > 0 ? ", " : "", names[i]);
}

vw_status vw__config_choice_if(const vw__config *config, const char *name, const char *const *names,
                               size_t name_count, size_t *out)
{
    char known[400];
    const char *text = NULL;
    VW__TRY(vw__config_text_if(config, name, &text));
    if (text == NULL)
        return VW_OK;
    for (size_t i = 0; i < name_count; i++)
        if (strcmp(names[i], text) == 0) {
            *out = i;
            return VW_OK;
        }
    join_names(known, sizeof known, names, name_count);
    const char *nearest = vw__nearest_name(text, names, name_count);
    if (nearest != NULL)
        return vw__config_refuse(config, name, VW_ERR_UNSUPPORTED, "one of %s (perhaps %s)", known,
                                 nearest);
    return vw__config_refuse(config, name, VW_ERR_UNSUPPORTED, "one of %s", known);
}

vw_status vw__config_choice(const vw__config *config, const char *name, const char *const *names,
                            size_t name_count, size_t *out)
{
    char known[400];
    if (vw__config_has(config, name))
        return vw__config_choice_if(config, name, names, name_count, out);
    join_names(known, sizeof known, names, name_count);
    return vw__config_refuse(config, name, VW_ERR_CORRUPT_FILE, "one of %s", known);
}

/* ---- lists and objects inside ---------------------------------------------------------------- */

size_t vw__config_count(const vw__config *config, const char *name)
{
    vw__value value;
    size_t count = 0;
    if (!find(config, name, &value))
        return 0;
    if (vw__value_get_kind(value) == VW__VALUE_DICT)
        (void)vw__value_pairs(config->document, value, &count);
    else if (vw__value_get_kind(value) == VW__VALUE_LIST)
        count = vw__value_item_count(config->document, value);
    return count;
}

vw_status vw__config_object(const vw__config *config, const char *name, vw__config *out)
{
    vw__value value;
    if (!find(config, name, &value) || vw__value_get_kind(value) != VW__VALUE_DICT)
        return vw__config_refuse(config, name, VW_ERR_CORRUPT_FILE, "an object");
    vw__config made = {.document = config->document, .value = value};
    if (snprintf(made.place, sizeof made.place, "%s%s.", config->place, name) < 0)
        made.place[0] = '\0';
    *out = made;
    return VW_OK;
}

static vw_status find_list(const vw__config *config, const char *name, vw__value *list)
{
    if (!find(config, name, list) || vw__value_get_kind(*list) != VW__VALUE_LIST)
        return vw__config_refuse(config, name, VW_ERR_CORRUPT_FILE, "a list");
    return VW_OK;
}

vw_status vw__config_list(const vw__config *config, const char *name, size_t most, size_t *count)
{
    vw__value list;
    VW__TRY(find_list(config, name, &list));
    size_t item_count = vw__value_item_count(config->document, list);
    if (item_count > most)
        return vw__fail(VW_ERR_UNSUPPORTED, "%s%s: expected at most %zu items, found %zu",
                        config->place, name, most, item_count);
    *count = item_count;
    return VW_OK;
}

/* The document's cursor counts items: it is the item's number as well. */
vw_status vw__config_next_object(const vw__config *config, const char *name, uint64_t *cursor,
                                 vw__config *out, bool *is_there)
{
    vw__value list, item;
    VW__TRY(find_list(config, name, &list));
    uint64_t number = *cursor;
    if (!vw__value_next_item(config->document, list, cursor, &item)) {
        *is_there = false;
        return VW_OK;
    }
    vw__config made = {.document = config->document,
                       .value = vw__document_resolve(config->document, item)};
    if (snprintf(made.place, sizeof made.place, "%s%s[%" PRIu64 "].", config->place, name, number) <
        0)
        made.place[0] = '\0';
    if (vw__value_get_kind(made.value) != VW__VALUE_DICT)
        return vw__fail(VW_ERR_CORRUPT_FILE, "%s%s[%" PRIu64 "]: expected an object, found %s",
                        config->place, name, number, words_of(config->document, made.value).text);
    *out = made;
    *is_there = true;
    return VW_OK;
}

vw_status vw__config_numbers(const vw__config *config, const char *name, uint64_t least,
                             uint64_t most, size_t most_items, uint64_t *numbers, size_t *count)
{
    vw__value list, item;
    uint64_t cursor = 0;
    size_t item_count, i = 0;
    VW__TRY(vw__config_list(config, name, most_items, &item_count));
    VW__TRY(find_list(config, name, &list));
    while (i < item_count && vw__value_next_item(config->document, list, &cursor, &item)) {
        VW__TRY(read_number(config, name, vw__document_resolve(config->document, item), least, most,
                            &numbers[i]));
        i++;
    }
    *count = i;
    return VW_OK;
}

vw_status vw__config_choices(const vw__config *config, const char *name, const char *const *names,
                             size_t name_count, size_t count, uint8_t *places)
{
    vw__value list, item;
    uint64_t cursor = 0;
    size_t size_bytes, found = 0;
    char known[400];
    size_t item_count;
    VW__TRY(vw__config_list(config, name, SIZE_MAX, &item_count));
    VW__TRY(find_list(config, name, &list));
    join_names(known, sizeof known, names, name_count);
    if (item_count != count)
        return vw__fail(VW_ERR_UNSUPPORTED, "%s%s: expected %zu words, found %zu", config->place,
                        name, count, item_count);
    while (found < count && vw__value_next_item(config->document, list, &cursor, &item)) {
        size_t place = 0;
        item = vw__document_resolve(config->document, item);
        const char *text = vw__value_get_kind(item) == VW__VALUE_STRING
                               ? vw__value_string(config->document, item, &size_bytes)
                               : NULL;
        while (text != NULL && place < name_count && strcmp(names[place], text) != 0)
            place++;
        if (text == NULL || place == name_count)
            return vw__fail(VW_ERR_UNSUPPORTED, "%s%s[%zu]: expected one of %s, found %s",
                            config->place, name, found, known,
                            words_of(config->document, item).text);
        places[found++] = (uint8_t)place;
    }
    return VW_OK;
}

const char *vw__config_first_text(const vw__config *config, const char *name)
{
    vw__value list, item;
    uint64_t cursor = 0;
    size_t size_bytes;
    if (!find(config, name, &list) || vw__value_get_kind(list) != VW__VALUE_LIST ||
        !vw__value_next_item(config->document, list, &cursor, &item) ||
        vw__value_get_kind(item) != VW__VALUE_STRING)
        return NULL;
    const char *text = vw__value_string(config->document, item, &size_bytes);
    return strlen(text) == size_bytes ? text : NULL;
}

static bool is_one_of(const char *key, size_t size_bytes, const char *const *names,
                      size_t name_count)
{
    for (size_t i = 0; i < name_count; i++)
        if (strlen(names[i]) == size_bytes && memcmp(names[i], key, size_bytes) == 0)
            return true;
    return false;
}

vw_status vw__config_only(const vw__config *config, const char *const *names, size_t name_count)
{
    size_t pair_count = 0, size_bytes;
    const vw__value *pairs = vw__value_pairs(config->document, config->value, &pair_count);
    for (size_t i = 0; i < pair_count; i++) {
        if (vw__value_get_kind(pairs[2 * i]) != VW__VALUE_STRING)
            continue;
        const char *key = vw__value_string(config->document, pairs[2 * i], &size_bytes);
        if (is_one_of(key, size_bytes, names, name_count))
            continue;
        const char *nearest = vw__nearest_name(key, names, name_count);
        return vw__fail(VW_ERR_UNSUPPORTED, "%sfield %s is not known%s%s%s", config->place,
                        words_of_string(config->document, pairs[2 * i]).text,
                        nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
                        nearest != NULL ? "?" : "");
    }
    return VW_OK;
}
