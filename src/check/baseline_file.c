/* baseline_file.c - a baseline as a JSON file. The tables below name each number once, for writing
 * and for reading. A site is a line, so that a version control system shows which one changed. The
 * file is untrusted: our own reader reads it. */
#include "vramwise/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "vramwise/version.h"
#include "analysis/result.h"
#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/whole_file.h"
#include "check/check_parts.h"
#include "export/json_write.h"
#include "parse/json_read.h"

enum { MOST_BYTES = 64 << 20 }; /* a thousand sites take 100 KB */

#define KIND_KEY "vramwise_baseline" /* its value is the version of the file */

typedef struct number_field {
    const char *key;
    size_t offset;    /* of a uint64_t */
    bool may_be_null; /* VW_UNKNOWN */
} number_field;

#define VALUE(metric) (offsetof(vw_baseline, values) + sizeof(uint64_t) * (metric))
static const number_field baseline_fields[] = {
    {"peak_live_bytes", VALUE(VW_CHECK_PEAK), false},
    {"peak_reserved_bytes", VALUE(VW_CHECK_RESERVED), false},
    {"allocations", VALUE(VW_CHECK_ALLOCATIONS), false},
    {"leak_bytes_per_step", VALUE(VW_CHECK_LEAK), true},
    {"smallest_card_bytes", VALUE(VW_CHECK_CARD), true},
};
static const number_field site_fields[] = {
    {"peak_bytes", offsetof(vw_baseline_site, peak_bytes), false},
    {"allocations", offsetof(vw_baseline_site, allocations), false},
    {"leak_bytes_per_step", offsetof(vw_baseline_site, leak_bytes), false},
};
#undef VALUE
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- writing --------------------------------------------------------------------------------- */

static void write_numbers(vw__json *json, const number_field *fields, size_t count,
                          const void *object)
{
    for (size_t i = 0; i < count; i++)
        vw__json_known(json, fields[i].key,
                       *(const uint64_t *)(const void *)((const char *)object + fields[i].offset));
}

static void write_baseline(vw__byte_buffer *buffer, const vw_baseline *baseline)
{
    vw__json json;
    vw__json_init(&json, buffer);
    vw__json_begin_object(&json, NULL);
    vw__json_unsigned(&json, KIND_KEY, VW_BASELINE_VERSION);
    vw__json_text(&json, "written_by", "vramwise " VW_VERSION_STRING);
    vw__json_text(&json, "policy", baseline->policy);
    vw__json_text(&json, "torch", baseline->torch_version);
    vw__json_boolean(&json, "cut", baseline->is_cut);
    write_numbers(&json, baseline_fields, COUNT_OF(baseline_fields), baseline);
    vw__json_begin_array(&json, "sites");
    for (size_t i = 0; i < baseline->site_count; i++) {
        vw__append_text(buffer, "\n");
        vw__json_begin_object(&json, NULL);
        vw__json_text(&json, "site", baseline->sites[i].site);
        write_numbers(&json, site_fields, COUNT_OF(site_fields), &baseline->sites[i]);
        vw__json_end_object(&json);
    }
    vw__append_text(buffer, "\n");
    vw__json_end_array(&json);
    vw__json_end_object(&json);
    vw__append_text(buffer, "\n");
}

static vw_status write_bytes(void *context, int file_descriptor)
{
    const vw__byte_buffer *buffer = context;
    vw__file_output file = {file_descriptor, 0};
    if (vw__file_output_write(&file, vw__byte_buffer_text(buffer), vw__byte_buffer_size(buffer)))
        return VW_OK;
    return vw__fail(VW_ERR_FILE, "cannot write the baseline: %s", strerror(file.error));
}

vw_status vw_baseline_write(const vw_baseline *baseline, const char *path)
{
    vw__byte_buffer buffer;
    if (baseline == NULL || path == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a baseline and a path");
    vw__byte_buffer_init(&buffer);
    write_baseline(&buffer, baseline);
    vw_status status = vw__byte_buffer_has_failed(&buffer)
                           ? vw__fail_host_memory(vw__byte_buffer_size(&buffer), "a baseline")
                           : vw__whole_file_write(path, write_bytes, &buffer);
    vw__byte_buffer_deinit(&buffer);
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct baseline_reader {
    vw__document *document;
    vw__arena *arena; /* the baseline's */
} baseline_reader;

/* The value of a key of a dict; null where it is missing. */
static vw__value value_of(const baseline_reader *reader, vw__value dict, const char *key)
{
    size_t pair_count;
    const vw__value *pairs = vw__value_pairs(reader->document, dict, &pair_count);
    for (size_t i = 0; i < pair_count; i++) {
        size_t size_bytes;
        const char *text = vw__value_string(reader->document, pairs[2 * i], &size_bytes);
        if (size_bytes == strlen(key) && memcmp(text, key, size_bytes) == 0)
            return pairs[2 * i + 1];
    }
    return vw__value_none();
}

static vw_status fail_kind(const char *key, const char *kind, vw__value found)
{
    return vw__fail(VW_ERR_CORRUPT_FILE, "expected \"%s\" of the baseline to be %s, found %s", key,
                    kind, vw__value_kind_name(vw__value_get_kind(found)));
}

static vw_status read_text(const baseline_reader *reader, vw__value dict, const char *key,
                           const char **out)
{
    size_t size_bytes;
    vw__value value = value_of(reader, dict, key);
    if (vw__value_get_kind(value) != VW__VALUE_STRING)
        return fail_kind(key, "a string", value);
    const char *text = vw__value_string(reader->document, value, &size_bytes);
    *out = vw__arena_copy(reader->arena, text, size_bytes);
    return *out != NULL ? VW_OK : vw__fail_host_memory(size_bytes, "a baseline");
}

static vw_status read_numbers(const baseline_reader *reader, vw__value dict,
                              const number_field *fields, size_t count, void *object)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t *out = (uint64_t *)(void *)((char *)object + fields[i].offset);
        vw__value value = value_of(reader, dict, fields[i].key);
        *out = VW_UNKNOWN;
        if (fields[i].may_be_null && vw__value_get_kind(value) == VW__VALUE_NONE)
            continue;
        if (!vw__value_get_u64(reader->document, value, out))
            return fail_kind(fields[i].key, "an integer, 0 or more", value);
    }
    return VW_OK;
}

static vw_status read_site(const baseline_reader *reader, vw__value value, vw_baseline_site *site)
{
    if (vw__value_get_kind(value) != VW__VALUE_DICT)
        return fail_kind("sites", "a list of objects", value);
    VW__TRY(read_text(reader, value, "site", &site->site));
    return read_numbers(reader, value, site_fields, COUNT_OF(site_fields), site);
}

static vw_status read_sites(const baseline_reader *reader, vw__value list, vw_baseline *baseline)
{
    if (vw__value_get_kind(list) != VW__VALUE_LIST)
        return fail_kind("sites", "a list of objects", list);
    size_t count = vw__value_item_count(reader->document, list), read = 0;
    vw_baseline_site *sites =
        vw__arena_alloc_array(reader->arena, count, sizeof *sites, _Alignof(vw_baseline_site));
    if (sites == NULL)
        return vw__fail_host_memory(count * sizeof *sites, "a baseline");
    uint64_t cursor = 0;
    for (vw__value item; vw__value_next_item(reader->document, list, &cursor, &item); read++)
        VW__TRY(read_site(reader, item, &sites[read]));
    vw__check_sort_sites(sites, count);
    baseline->sites = sites;
    baseline->site_count = count;
    return VW_OK;
}

/* Is it a baseline, and one that we can read? */
static vw_status check_kind(const baseline_reader *reader, vw__value root)
{
    uint64_t version;
    if (vw__value_get_kind(root) != VW__VALUE_DICT)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "expected a baseline ('vramwise check --write-baseline'), found %s",
                        vw__value_kind_name(vw__value_get_kind(root)));
    vw__value value = value_of(reader, root, KIND_KEY);
    if (!vw__value_get_u64(reader->document, value, &version))
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "expected a baseline ('vramwise check --write-baseline'), found a JSON "
                        "object without \"" KIND_KEY "\"");
    if (version != VW_BASELINE_VERSION)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "expected a baseline of version %d, found version %llu: write it again "
                        "with 'vramwise check --write-baseline' of this version of vramwise",
                        VW_BASELINE_VERSION, (unsigned long long)version);
    return VW_OK;
}

static vw_status read_root(const baseline_reader *reader, vw__value root, vw_baseline *baseline)
{
    VW__TRY(check_kind(reader, root));
    VW__TRY(read_text(reader, root, "policy", &baseline->policy));
    VW__TRY(read_text(reader, root, "torch", &baseline->torch_version));
    VW__TRY(read_numbers(reader, root, baseline_fields, COUNT_OF(baseline_fields), baseline));
    baseline->is_cut = vw__value_get_kind(value_of(reader, root, "cut")) == VW__VALUE_TRUE;
    return read_sites(reader, value_of(reader, root, "sites"), baseline);
}

static vw_status read_source(vw__byte_source *source, vw_baseline *baseline)
{
    const vw__document_limits limits = {.memory_bytes = 2 * MOST_BYTES};
    baseline_reader reader = {.arena = vw__result_arena(baseline)};
    vw__value root;
    VW__TRY(vw__document_create(&limits, NULL, &reader.document));
    vw_status status = vw__document_read_json(source, reader.document, &root);
    if (status == VW_OK)
        status = read_root(&reader, root, baseline);
    else if (status == VW_ERR_CORRUPT_FILE) {
        char words[256];
        (void)snprintf(words, sizeof words, "%s", vw_last_error());
        status = vw__fail(
            status, "expected a whole baseline ('vramwise check --write-baseline'): %s", words);
    }
    vw__document_destroy(reader.document);
    return status;
}

vw_status vw_baseline_read(const char *path, vw_baseline **out)
{
    const vw__byte_source_options options = {.output_limit_bytes = MOST_BYTES};
    vw__byte_source *source = NULL;
    if (path == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a path and a place for a baseline");
    VW__TRY(vw__byte_source_open(path, &options, &source));
    vw_baseline *baseline = vw__result_create(sizeof *baseline);
    vw_status status = baseline != NULL ? read_source(source, baseline)
                                        : vw__fail_host_memory(sizeof *baseline, "a baseline");
    vw__byte_source_close(source);
    if (status == VW_OK)
        *out = baseline;
    else
        vw__result_free(baseline);
    return status;
}
