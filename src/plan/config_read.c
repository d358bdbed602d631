/* config_read.c - fields of a configuration over the document that the JSON reader makes. */
#include "plan/config_read.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "base/nearest_name.h"
#include "format/byte_source.h"
#include "format/json_read.h"

/* The largest config.json in the wild, with 21,843 labels, has 2 MB. */
#define MOST_FILE_BYTES (UINT64_C(32) << 20)
#define MOST_MEMORY_BYTES ((size_t)64 << 20)
#define MOST_VALUES ((size_t)1 << 20)
#define MOST_DEPTH 64

/* Whole numbers up to here are the same as doubles. */
#define LARGEST_EXACT 9007199254740992.0

struct hr__config_file {
    hr__document *document; /* owned */
    hr__value root;
};

/* ---- the file -------------------------------------------------------------------------------- */

static hr_status read_root(hr__byte_source *source, hr__config_file *file)
{
    const hr__document_limits limits = {
        .memory_bytes = MOST_MEMORY_BYTES, .depth = MOST_DEPTH, .value_count = MOST_VALUES};
    HR__TRY(hr__document_create(&limits, NULL, &file->document));
    HR__TRY(hr__json_read(source, file->document, &file->root));
    file->root = hr__document_resolve(file->document, file->root);
    hr__value_kind kind = hr__value_get_kind(file->root);
    if (kind != HR__VALUE_DICT)
        return hr__fail(HR_ERR_CORRUPT_FILE, "expected an object, as config.json is, found %s",
                        hr__value_kind_name(kind));
    return HR_OK;
}

/* Takes the source over. */
static hr_status read_source(hr__byte_source *source, hr__config_file **out)
{
    hr_status status;
    hr__config_file *file = hr__host_alloc_zeroed(1, sizeof *file);
    if (file == NULL)
        status = hr__fail_host_memory(sizeof *file, "a configuration");
    else
        status = read_root(source, file);
    hr__byte_source_close(source);
    if (status == HR_OK)
        *out = file;
    else
        hr__config_close(file);
    return status;
}

static const hr__byte_source_options source_options = {.output_limit_bytes = MOST_FILE_BYTES};

hr_status hr__config_open(const char *path, hr__config_file **out)
{
    hr__byte_source *source;
    HR__TRY(hr__byte_source_open(path, &source_options, &source));
    return read_source(source, out);
}

hr_status hr__config_open_memory(const void *bytes, size_t size_bytes, hr__config_file **out)
{
    hr__byte_source *source;
    HR__TRY(hr__byte_source_open_memory(bytes, size_bytes, &source_options, &source));
    return read_source(source, out);
}

void hr__config_close(hr__config_file *file)
{
    if (file == NULL)
        return;
    hr__document_destroy(file->document);
    hr__host_free(file);
}

hr__config hr__config_root(const hr__config_file *file)
{
    return (hr__config){.document = file->document, .value = file->root};
}

/* ---- finding --------------------------------------------------------------------------------- */

/* Where a name comes twice the last one counts, as in Python. */
static bool find_any(const hr__config *config, const char *name, hr__value *out)
{
    size_t pair_count = 0, length = strlen(name);
    const hr__value *pairs = hr__value_pairs(config->document, config->value, &pair_count);
    bool is_found = false;
    for (size_t i = 0; i < pair_count; i++) {
        size_t size_bytes;
        if (hr__value_get_kind(pairs[2 * i]) != HR__VALUE_STRING)
            continue;
        const char *key = hr__value_string(config->document, pairs[2 * i], &size_bytes);
        if (size_bytes != length || memcmp(key, name, length) != 0)
            continue;
        *out = hr__document_resolve(config->document, pairs[2 * i + 1]);
        is_found = true;
    }
    return is_found;
}

/* false: missing, or null. */
static bool find(const hr__config *config, const char *name, hr__value *out)
{
    return find_any(config, name, out) && hr__value_get_kind(*out) != HR__VALUE_NONE;
}

bool hr__config_is_null(const hr__config *config, const char *name)
{
    hr__value value;
    return find_any(config, name, &value) && hr__value_get_kind(value) == HR__VALUE_NONE;
}

bool hr__config_has(const hr__config *config, const char *name)
{
    hr__value value;
    return find(config, name, &value);
}

static bool has_kind(const hr__config *config, const char *name, hr__value_kind kind)
{
    hr__value value;
    return find(config, name, &value) && hr__value_get_kind(value) == kind;
}

bool hr__config_has_list(const hr__config *config, const char *name)
{
    return has_kind(config, name, HR__VALUE_LIST);
}

bool hr__config_has_object(const hr__config *config, const char *name)
{
    return has_kind(config, name, HR__VALUE_DICT);
}

/* ---- words ----------------------------------------------------------------------------------- */

typedef struct value_words {
    char text[64];
} value_words;

/* The beginning of a string, without what steers a terminal. */
static value_words words_of_string(const hr__document *document, hr__value value)
{
    enum { SHOWN = 40 };
    value_words words;
    size_t size_bytes, used = 0;
    const char *bytes = hr__value_string(document, value, &size_bytes);
    words.text[used++] = '"';
    for (size_t i = 0; i < size_bytes && i < SHOWN; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        words.text[used++] = byte < 0x20 || byte >= 0x7F ? '?' : (char)byte;
    }
    snprintf(words.text + used, sizeof words.text - used, size_bytes > SHOWN ? "...\"" : "\"");
    return words;
}

static value_words words_of(const hr__document *document, hr__value value)
{
    value_words words = {.text = ""};
    hr__value_kind kind = hr__value_get_kind(value);
    int64_t number;
    uint64_t large;
    double real;
    if (kind == HR__VALUE_STRING)
        return words_of_string(document, value);
    if (hr__value_get_i64(document, value, &number))
        snprintf(words.text, sizeof words.text, "%" PRId64, number);
    else if (hr__value_get_u64(document, value, &large))
        snprintf(words.text, sizeof words.text, "%" PRIu64, large);
    else if (kind == HR__VALUE_FLOAT && hr__value_get_f64(document, value, &real))
        snprintf(words.text, sizeof words.text, "%.9g", real);
    else if (kind == HR__VALUE_TRUE || kind == HR__VALUE_FALSE)
        snprintf(words.text, sizeof words.text, kind == HR__VALUE_TRUE ? "true" : "false");
    else
        snprintf(words.text, sizeof words.text, "%s", hr__value_kind_name(kind));
    return words;
}

hr_status hr__config_refuse(const hr__config *config, const char *name, hr_status status,
                            const char *expected, ...)
{
    char words[512];
    hr__value value;
    va_list args;
    va_start(args, expected);
    vsnprintf(words, sizeof words, expected, args);
    va_end(args);
    if (!find(config, name, &value))
        return hr__fail(status, "%s%s is missing: expected %s", config->place, name, words);
    return hr__fail(status, "%s%s: expected %s, found %s", config->place, name, words,
                    words_of(config->document, value).text);
}

hr_status hr__config_refuse_true(const hr__config *config, const char *name)
{
    bool is_true = false;
    HR__TRY(hr__config_boolean_if(config, name, &is_true));
    if (!is_true)
        return HR_OK;
    return hr__config_refuse(config, name, HR_ERR_UNSUPPORTED,
                             "false: what it switches on is not known to the planner");
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* A whole number, perhaps written 8.0; negative ones and what is beyond 64 bits are none. */
static bool get_whole(const hr__document *document, hr__value value, uint64_t *out)
{
    double real;
    if (hr__value_get_u64(document, value, out))
        return true;
    if (hr__value_get_kind(value) != HR__VALUE_FLOAT || !hr__value_get_f64(document, value, &real))
        return false;
    if (!(real >= 0 && real <= LARGEST_EXACT) || floor(real) < real)
        return false;
    *out = (uint64_t)real;
    return true;
}

static bool is_number(const hr__document *document, hr__value value)
{
    double real;
    return hr__value_get_kind(value) == HR__VALUE_HUGE || hr__value_get_f64(document, value, &real);
}

static hr_status read_number(const hr__config *config, const char *name, hr__value value,
                             uint64_t least, uint64_t most, uint64_t *out)
{
    uint64_t number;
    if (get_whole(config->document, value, &number) && number >= least && number <= most) {
        *out = number;
        return HR_OK;
    }
    hr_status status =
        is_number(config->document, value) ? HR_ERR_UNSUPPORTED : HR_ERR_CORRUPT_FILE;
    return hr__fail(status,
                    "%s%s: expected a whole number from %" PRIu64 " to %" PRIu64 ", found %s",
                    config->place, name, least, most, words_of(config->document, value).text);
}

hr_status hr__config_number(const hr__config *config, const char *name, uint64_t least,
                            uint64_t most, uint64_t *out)
{
    hr__value value;
    if (find(config, name, &value))
        return read_number(config, name, value, least, most, out);
    return hr__fail(HR_ERR_CORRUPT_FILE,
                    "%s%s is missing: expected a whole number from %" PRIu64 " to %" PRIu64,
                    config->place, name, least, most);
}

hr_status hr__config_number_if(const hr__config *config, const char *name, uint64_t least,
                               uint64_t most, uint64_t *out)
{
    hr__value value;
    return find(config, name, &value) ? read_number(config, name, value, least, most, out) : HR_OK;
}

hr_status hr__config_real_if(const hr__config *config, const char *name, double least, double most,
                             double *out)
{
    hr__value value;
    double real;
    if (!find(config, name, &value))
        return HR_OK;
    if (!hr__value_get_f64(config->document, value, &real))
        return hr__config_refuse(config, name, HR_ERR_CORRUPT_FILE, "a number from %g to %g", least,
                                 most);
    if (!(real >= least && real <= most))
        return hr__config_refuse(config, name, HR_ERR_UNSUPPORTED, "a number from %g to %g", least,
                                 most);
    *out = real;
    return HR_OK;
}

hr_status hr__config_boolean_if(const hr__config *config, const char *name, bool *out)
{
    hr__value value;
    if (!find(config, name, &value))
        return HR_OK;
    hr__value_kind kind = hr__value_get_kind(value);
    if (kind != HR__VALUE_TRUE && kind != HR__VALUE_FALSE)
        return hr__config_refuse(config, name, HR_ERR_CORRUPT_FILE, "true or false");
    *out = kind == HR__VALUE_TRUE;
    return HR_OK;
}

/* ---- texts ----------------------------------------------------------------------------------- */

hr_status hr__config_text_if(const hr__config *config, const char *name, const char **out)
{
    hr__value value;
    size_t size_bytes;
    if (!find(config, name, &value))
        return HR_OK;
    if (hr__value_get_kind(value) != HR__VALUE_STRING)
        return hr__config_refuse(config, name, HR_ERR_CORRUPT_FILE, "a text");
    const char *text = hr__value_string(config->document, value, &size_bytes);
    if (strlen(text) != size_bytes)
        return hr__config_refuse(config, name, HR_ERR_CORRUPT_FILE, "a text without zero bytes");
    *out = text;
    return HR_OK;
}

hr_status hr__config_text(const hr__config *config, const char *name, const char **out)
{
    if (!hr__config_has(config, name))
        return hr__config_refuse(config, name, HR_ERR_CORRUPT_FILE, "a text");
    return hr__config_text_if(config, name, out);
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

hr_status hr__config_choice_if(const hr__config *config, const char *name, const char *const *names,
                               size_t name_count, size_t *out)
{
    char known[400];
    const char *text = NULL;
    HR__TRY(hr__config_text_if(config, name, &text));
    if (text == NULL)
        return HR_OK;
    for (size_t i = 0; i < name_count; i++)
        if (strcmp(names[i], text) == 0) {
            *out = i;
            return HR_OK;
        }
    join_names(known, sizeof known, names, name_count);
    const char *nearest = hr__nearest_name(text, names, name_count);
    if (nearest != NULL)
        return hr__config_refuse(config, name, HR_ERR_UNSUPPORTED, "one of %s (perhaps %s)", known,
                                 nearest);
    return hr__config_refuse(config, name, HR_ERR_UNSUPPORTED, "one of %s", known);
}

hr_status hr__config_choice(const hr__config *config, const char *name, const char *const *names,
                            size_t name_count, size_t *out)
{
    char known[400];
    if (hr__config_has(config, name))
        return hr__config_choice_if(config, name, names, name_count, out);
    join_names(known, sizeof known, names, name_count);
    return hr__config_refuse(config, name, HR_ERR_CORRUPT_FILE, "one of %s", known);
}

/* ---- lists and objects inside ---------------------------------------------------------------- */

size_t hr__config_count(const hr__config *config, const char *name)
{
    hr__value value;
    size_t count = 0;
    if (!find(config, name, &value))
        return 0;
    if (hr__value_get_kind(value) == HR__VALUE_DICT)
        (void)hr__value_pairs(config->document, value, &count);
    else if (hr__value_get_kind(value) == HR__VALUE_LIST)
        count = hr__value_item_count(config->document, value);
    return count;
}

hr_status hr__config_object(const hr__config *config, const char *name, hr__config *out)
{
    hr__value value;
    if (!find(config, name, &value) || hr__value_get_kind(value) != HR__VALUE_DICT)
        return hr__config_refuse(config, name, HR_ERR_CORRUPT_FILE, "an object");
    hr__config made = {.document = config->document, .value = value};
    if (snprintf(made.place, sizeof made.place, "%s%s.", config->place, name) < 0)
        made.place[0] = '\0';
    *out = made;
    return HR_OK;
}

static hr_status find_list(const hr__config *config, const char *name, hr__value *list)
{
    if (!find(config, name, list) || hr__value_get_kind(*list) != HR__VALUE_LIST)
        return hr__config_refuse(config, name, HR_ERR_CORRUPT_FILE, "a list");
    return HR_OK;
}

hr_status hr__config_list(const hr__config *config, const char *name, size_t most, size_t *count)
{
    hr__value list;
    HR__TRY(find_list(config, name, &list));
    size_t item_count = hr__value_item_count(config->document, list);
    if (item_count > most)
        return hr__fail(HR_ERR_UNSUPPORTED, "%s%s: expected at most %zu items, found %zu",
                        config->place, name, most, item_count);
    *count = item_count;
    return HR_OK;
}

/* The document's cursor counts items: it is the item's number as well. */
hr_status hr__config_next_object(const hr__config *config, const char *name, uint64_t *cursor,
                                 hr__config *out, bool *is_there)
{
    hr__value list, item;
    HR__TRY(find_list(config, name, &list));
    uint64_t number = *cursor;
    if (!hr__value_next_item(config->document, list, cursor, &item)) {
        *is_there = false;
        return HR_OK;
    }
    hr__config made = {.document = config->document,
                       .value = hr__document_resolve(config->document, item)};
    if (snprintf(made.place, sizeof made.place, "%s%s[%" PRIu64 "].", config->place, name, number) <
        0)
        made.place[0] = '\0';
    if (hr__value_get_kind(made.value) != HR__VALUE_DICT)
        return hr__fail(HR_ERR_CORRUPT_FILE, "%s%s[%" PRIu64 "]: expected an object, found %s",
                        config->place, name, number, words_of(config->document, made.value).text);
    *out = made;
    *is_there = true;
    return HR_OK;
}

hr_status hr__config_numbers(const hr__config *config, const char *name, uint64_t least,
                             uint64_t most, size_t most_items, uint64_t *numbers, size_t *count)
{
    hr__value list, item;
    uint64_t cursor = 0;
    size_t item_count, i = 0;
    HR__TRY(hr__config_list(config, name, most_items, &item_count));
    HR__TRY(find_list(config, name, &list));
    while (i < item_count && hr__value_next_item(config->document, list, &cursor, &item)) {
        HR__TRY(read_number(config, name, hr__document_resolve(config->document, item), least, most,
                            &numbers[i]));
        i++;
    }
    *count = i;
    return HR_OK;
}

hr_status hr__config_choices(const hr__config *config, const char *name, const char *const *names,
                             size_t name_count, size_t count, uint8_t *places)
{
    hr__value list, item;
    uint64_t cursor = 0;
    size_t size_bytes, found = 0;
    char known[400];
    size_t item_count;
    HR__TRY(hr__config_list(config, name, SIZE_MAX, &item_count));
    HR__TRY(find_list(config, name, &list));
    join_names(known, sizeof known, names, name_count);
    if (item_count != count)
        return hr__fail(HR_ERR_UNSUPPORTED, "%s%s: expected %zu words, found %zu", config->place,
                        name, count, item_count);
    while (found < count && hr__value_next_item(config->document, list, &cursor, &item)) {
        size_t place = 0;
        item = hr__document_resolve(config->document, item);
        const char *text = hr__value_get_kind(item) == HR__VALUE_STRING
                               ? hr__value_string(config->document, item, &size_bytes)
                               : NULL;
        while (text != NULL && place < name_count && strcmp(names[place], text) != 0)
            place++;
        if (text == NULL || place == name_count)
            return hr__fail(HR_ERR_UNSUPPORTED, "%s%s[%zu]: expected one of %s, found %s",
                            config->place, name, found, known,
                            words_of(config->document, item).text);
        places[found++] = (uint8_t)place;
    }
    return HR_OK;
}

const char *hr__config_first_text(const hr__config *config, const char *name)
{
    hr__value list, item;
    uint64_t cursor = 0;
    size_t size_bytes;
    if (!find(config, name, &list) || hr__value_get_kind(list) != HR__VALUE_LIST ||
        !hr__value_next_item(config->document, list, &cursor, &item) ||
        hr__value_get_kind(item) != HR__VALUE_STRING)
        return NULL;
    const char *text = hr__value_string(config->document, item, &size_bytes);
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

hr_status hr__config_only(const hr__config *config, const char *const *names, size_t name_count)
{
    size_t pair_count = 0, size_bytes;
    const hr__value *pairs = hr__value_pairs(config->document, config->value, &pair_count);
    for (size_t i = 0; i < pair_count; i++) {
        if (hr__value_get_kind(pairs[2 * i]) != HR__VALUE_STRING)
            continue;
        const char *key = hr__value_string(config->document, pairs[2 * i], &size_bytes);
        if (is_one_of(key, size_bytes, names, name_count))
            continue;
        const char *nearest = hr__nearest_name(key, names, name_count);
        return hr__fail(HR_ERR_UNSUPPORTED, "%sfield %s is not known%s%s%s", config->place,
                        words_of_string(config->document, pairs[2 * i]).text,
                        nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
                        nearest != NULL ? "?" : "");
    }
    return HR_OK;
}
