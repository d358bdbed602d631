/* expectation.c - see expectation.h. A stranger's file as any other: read by our own reader. */
#include "analysis/expectation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "format/json_read.h"

enum { MOST_BYTES = 64 << 20 }; /* a summary and a few hundred numbers take 10 KB */

/* One that is being read. */
typedef struct expectation_reader {
    hr__document *document; /* owned */
    hr__value root;
    hr__expectation *out;
} expectation_reader;

static hr_status fail_kind(const char *key, const char *kind, hr__value found)
{
    return hr__fail(HR_ERR_CORRUPT_FILE, "expectation: expected \"%.80s\" to be %s, found %s", key,
                    kind, hr__value_kind_name(hr__value_get_kind(found)));
}

/* The value of `key`; none where it is missing or null. */
static hr_status find(const expectation_reader *reader, const char *key, hr__value *out)
{
    size_t pair_count, key_bytes = strlen(key), found_count = 0;
    const hr__value *pairs = hr__value_pairs(reader->document, reader->root, &pair_count);
    *out = hr__value_none();
    for (size_t i = 0; i < pair_count; i++) {
        size_t size_bytes;
        const char *text = hr__value_string(reader->document, pairs[2 * i], &size_bytes);
        if (size_bytes != key_bytes || memcmp(text, key, key_bytes) != 0)
            continue;
        *out = pairs[2 * i + 1];
        if (++found_count > 1)
            return hr__fail(HR_ERR_CORRUPT_FILE,
                            "expectation: expected \"%s\" once, found it twice", key);
    }
    return HR_OK;
}

static bool is_none(hr__value value)
{
    return hr__value_get_kind(value) == HR__VALUE_NONE;
}

static hr_status copy_text(const expectation_reader *reader, hr__value value, const char **copy)
{
    size_t size_bytes;
    const char *text = hr__value_string(reader->document, value, &size_bytes);
    *copy = hr__arena_copy(&reader->out->arena, text, size_bytes);
    return *copy != NULL ? HR_OK : hr__fail_host_memory(size_bytes, "an expectation");
}

/* A text, or nothing where the key is missing or null. */
static hr_status read_text(const expectation_reader *reader, const char *key, const char **text)
{
    hr__value value;
    HR__TRY(find(reader, key, &value));
    if (is_none(value))
        return HR_OK;
    if (hr__value_get_kind(value) != HR__VALUE_STRING)
        return fail_kind(key, "a string", value);
    return copy_text(reader, value, text);
}

static hr_status read_stats(const expectation_reader *reader)
{
    hr__expectation *out = reader->out;
    hr__value stats;
    size_t pair_count;
    HR__TRY(find(reader, "stats", &stats));
    if (is_none(stats))
        return HR_OK;
    if (hr__value_get_kind(stats) != HR__VALUE_DICT)
        return fail_kind("stats", "an object", stats);
    const hr__value *pairs = hr__value_pairs(reader->document, stats, &pair_count);
    hr__expected_stat *list = hr__arena_alloc_array(&out->arena, pair_count + 1, sizeof *list,
                                                    _Alignof(hr__expected_stat));
    if (list == NULL)
        return hr__fail_host_memory(pair_count * sizeof *list, "an expectation");
    out->stats = list;
    for (; out->stat_count < pair_count; out->stat_count++) {
        hr__expected_stat *stat = &list[out->stat_count];
        hr__value value = pairs[2 * out->stat_count + 1];
        HR__TRY(copy_text(reader, pairs[2 * out->stat_count], &stat->key));
        if (!hr__value_get_i64(reader->document, value, &stat->value))
            return fail_kind(stat->key, "an integer below 2^63", value);
    }
    return HR_OK;
}

static hr_status read_numbers(const expectation_reader *reader)
{
    hr__expectation *out = reader->out;
    hr__value cap, total;
    HR__TRY(find(reader, "cap_gib", &cap));
    HR__TRY(find(reader, "total_bytes", &total));
    if (!is_none(cap) && (!hr__value_get_f64(reader->document, cap, &out->cap_gib) ||
                          !(out->cap_gib >= 0.0) || !isfinite(out->cap_gib)))
        return fail_kind("cap_gib", "a number of GiB, 0 or more", cap);
    if (!is_none(total) &&
        (!hr__value_get_u64(reader->document, total, &out->total_bytes) || out->total_bytes == 0))
        return fail_kind("total_bytes", "a number of bytes, 1 or more", total);
    return HR_OK;
}

static bool read_pair(const hr__document *document, hr__value pair, hr_private_id *out)
{
    uint64_t cursor = 0;
    hr__value first, second;
    return hr__value_get_kind(pair) == HR__VALUE_LIST &&
           hr__value_item_count(document, pair) == 2 &&
           hr__value_next_item(document, pair, &cursor, &first) &&
           hr__value_next_item(document, pair, &cursor, &second) &&
           hr__value_get_u64(document, first, &out->first) &&
           hr__value_get_u64(document, second, &out->second);
}

static hr_status read_pools(const expectation_reader *reader)
{
    static const char kind[] = "a list of pairs of integers, 0 or more";
    hr__value pools, pair;
    uint64_t cursor = 0;
    HR__TRY(find(reader, "no_split_pools", &pools));
    if (is_none(pools))
        return HR_OK;
    if (hr__value_get_kind(pools) != HR__VALUE_LIST)
        return fail_kind("no_split_pools", kind, pools);
    size_t count = hr__value_item_count(reader->document, pools);
    hr_private_id *ids =
        hr__arena_alloc_array(&reader->out->arena, count + 1, sizeof *ids, _Alignof(hr_private_id));
    if (ids == NULL)
        return hr__fail_host_memory(count * sizeof *ids, "an expectation");
    for (size_t i = 0; hr__value_next_item(reader->document, pools, &cursor, &pair); i++)
        if (!read_pair(reader->document, pair, &ids[i]))
            return fail_kind("no_split_pools", kind, pair);
    reader->out->no_split_pools = ids;
    reader->out->no_split_pool_count = count;
    return HR_OK;
}

static hr_status read_root(const expectation_reader *reader)
{
    hr__expectation *out = reader->out;
    if (hr__value_get_kind(reader->root) != HR__VALUE_DICT)
        return hr__fail(HR_ERR_CORRUPT_FILE, "expectation: expected a JSON object, found %s",
                        hr__value_kind_name(hr__value_get_kind(reader->root)));
    HR__TRY(read_stats(reader));
    HR__TRY(read_text(reader, "summary", &out->summary));
    HR__TRY(read_text(reader, "oom", &out->oom));
    HR__TRY(read_text(reader, "conf", &out->conf));
    HR__TRY(read_numbers(reader));
    return read_pools(reader);
}

static hr_status read_source(hr__byte_source *source, hr__expectation *out)
{
    const hr__document_limits limits = {.memory_bytes = 2 * MOST_BYTES};
    expectation_reader reader = {.out = out};
    HR__TRY(hr__document_create(&limits, NULL, &reader.document));
    hr_status status = hr__json_read(source, reader.document, &reader.root);
    if (status == HR_OK)
        status = read_root(&reader);
    hr__document_destroy(reader.document);
    return status;
}

hr_status hr__expectation_read(const char *path, hr__expectation *out)
{
    const hr__byte_source_options options = {.output_limit_bytes = MOST_BYTES};
    hr__byte_source *source = NULL;
    hr__expectation read = {.cap_gib = -1.0};
    HR__TRY(hr__byte_source_open(path, &options, &source));
    hr__arena_init(&read.arena, MOST_BYTES);
    hr_status status = read_source(source, &read);
    hr__byte_source_close(source);
    if (status == HR_OK) {
        *out = read;
        return HR_OK;
    }
    hr__arena_deinit(&read.arena);
    if (status == HR_ERR_CORRUPT_FILE || status == HR_ERR_UNSUPPORTED) {
        char words[256];
        (void)snprintf(words, sizeof words, "%s", hr_last_error());
        return hr__fail(status, "%.200s: %s", path, words);
    }
    return status;
}

void hr__expectation_deinit(hr__expectation *expectation)
{
    hr__arena_deinit(&expectation->arena);
    *expectation = (hr__expectation){.cap_gib = -1.0};
}
