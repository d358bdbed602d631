/* expectation.c - see expectation.h. The file is untrusted: our own JSON reader reads it. */
#include "analysis/expectation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "parse/json_read.h"

enum { MOST_BYTES = 64 << 20 }; /* a summary and a few hundred numbers take 10 KB */

/* One that is being read. */
typedef struct expectation_reader {
    vw__document *document; /* owned */
    vw__value root;
    vw__expectation *out;
} expectation_reader;

static vw_status fail_kind(const char *key, const char *kind, vw__value found)
{
    return vw__fail(VW_ERR_CORRUPT_FILE, "expectation: expected \"%.80s\" to be %s, found %s", key,
                    kind, vw__value_kind_name(vw__value_get_kind(found)));
}

/* Stores the value of `key`; the null value if it is missing. */
static vw_status find(const expectation_reader *reader, const char *key, vw__value *out)
{
    size_t pair_count, key_bytes = strlen(key), found_count = 0;
    const vw__value *pairs = vw__value_pairs(reader->document, reader->root, &pair_count);
    *out = vw__value_none();
    for (size_t i = 0; i < pair_count; i++) {
        size_t size_bytes;
        const char *text = vw__value_string(reader->document, pairs[2 * i], &size_bytes);
        if (size_bytes != key_bytes || memcmp(text, key, key_bytes) != 0)
            continue;
        *out = pairs[2 * i + 1];
        if (++found_count > 1)
            return vw__fail(VW_ERR_CORRUPT_FILE,
                            "expectation: expected \"%s\" once, found it twice", key);
    }
    return VW_OK;
}

static bool is_none(vw__value value)
{
    return vw__value_get_kind(value) == VW__VALUE_NONE;
}

static vw_status copy_text(const expectation_reader *reader, vw__value value, const char **copy)
{
    size_t size_bytes;
    const char *text = vw__value_string(reader->document, value, &size_bytes);
    *copy = vw__arena_copy(&reader->out->arena, text, size_bytes);
    return *copy != NULL ? VW_OK : vw__fail_host_memory(size_bytes, "an expectation");
}

/* Reads a text; leaves `*text` if the key is missing or null. */
static vw_status read_text(const expectation_reader *reader, const char *key, const char **text)
{
    vw__value value;
    VW__TRY(find(reader, key, &value));
    if (is_none(value))
        return VW_OK;
    if (vw__value_get_kind(value) != VW__VALUE_STRING)
        return fail_kind(key, "a string", value);
    return copy_text(reader, value, text);
}

static vw_status read_stats(const expectation_reader *reader)
{
    vw__expectation *out = reader->out;
    vw__value stats;
    size_t pair_count;
    VW__TRY(find(reader, "stats", &stats));
    if (is_none(stats))
        return VW_OK;
    if (vw__value_get_kind(stats) != VW__VALUE_DICT)
        return fail_kind("stats", "an object", stats);
    const vw__value *pairs = vw__value_pairs(reader->document, stats, &pair_count);
    vw__expectation_stat *list = vw__arena_alloc_array(&out->arena, pair_count + 1, sizeof *list,
                                                       _Alignof(vw__expectation_stat));
    if (list == NULL)
        return vw__fail_host_memory(pair_count * sizeof *list, "an expectation");
    out->stats = list;
    for (; out->stat_count < pair_count; out->stat_count++) {
        vw__expectation_stat *stat = &list[out->stat_count];
        vw__value value = pairs[2 * out->stat_count + 1];
        VW__TRY(copy_text(reader, pairs[2 * out->stat_count], &stat->key));
        if (!vw__value_get_i64(reader->document, value, &stat->value))
            return fail_kind(stat->key, "an integer below 2^63", value);
    }
    return VW_OK;
}

static vw_status read_numbers(const expectation_reader *reader)
{
    vw__expectation *out = reader->out;
    vw__value cap, total;
    VW__TRY(find(reader, "cap_gib", &cap));
    VW__TRY(find(reader, "total_bytes", &total));
    if (!is_none(cap) && (!vw__value_get_f64(reader->document, cap, &out->cap_gib) ||
                          !(out->cap_gib >= 0.0) || !isfinite(out->cap_gib)))
        return fail_kind("cap_gib", "a number of GiB, 0 or more", cap);
    if (!is_none(total) &&
        (!vw__value_get_u64(reader->document, total, &out->total_bytes) || out->total_bytes == 0))
        return fail_kind("total_bytes", "a number of bytes, 1 or more", total);
    return VW_OK;
}

static bool read_pair(const vw__document *document, vw__value pair, vw_private_id *out)
{
    uint64_t cursor = 0;
    vw__value first, second;
    return vw__value_get_kind(pair) == VW__VALUE_LIST &&
           vw__value_item_count(document, pair) == 2 &&
           vw__value_next_item(document, pair, &cursor, &first) &&
           vw__value_next_item(document, pair, &cursor, &second) &&
           vw__value_get_u64(document, first, &out->first) &&
           vw__value_get_u64(document, second, &out->second);
}

static vw_status read_pools(const expectation_reader *reader)
{
    static const char kind[] = "a list of pairs of integers, 0 or more";
    vw__value pools, pair;
    uint64_t cursor = 0;
    VW__TRY(find(reader, "no_split_pools", &pools));
    if (is_none(pools))
        return VW_OK;
    if (vw__value_get_kind(pools) != VW__VALUE_LIST)
        return fail_kind("no_split_pools", kind, pools);
    size_t count = vw__value_item_count(reader->document, pools);
    vw_private_id *ids =
        vw__arena_alloc_array(&reader->out->arena, count + 1, sizeof *ids, _Alignof(vw_private_id));
    if (ids == NULL)
        return vw__fail_host_memory(count * sizeof *ids, "an expectation");
    for (size_t i = 0; vw__value_next_item(reader->document, pools, &cursor, &pair); i++)
        if (!read_pair(reader->document, pair, &ids[i]))
            return fail_kind("no_split_pools", kind, pair);
    reader->out->no_split_pools = ids;
    reader->out->no_split_pool_count = count;
    return VW_OK;
}

static vw_status read_root(const expectation_reader *reader)
{
    vw__expectation *out = reader->out;
    if (vw__value_get_kind(reader->root) != VW__VALUE_DICT)
        return vw__fail(VW_ERR_CORRUPT_FILE, "expectation: expected a JSON object, found %s",
                        vw__value_kind_name(vw__value_get_kind(reader->root)));
    VW__TRY(read_stats(reader));
    VW__TRY(read_text(reader, "summary", &out->summary));
    VW__TRY(read_text(reader, "oom", &out->oom));
    VW__TRY(read_text(reader, "conf", &out->conf));
    VW__TRY(read_numbers(reader));
    return read_pools(reader);
}

static vw_status read_source(vw__byte_source *source, vw__expectation *out)
{
    const vw__document_limits limits = {.memory_bytes = 2 * MOST_BYTES};
    expectation_reader reader = {.out = out};
    VW__TRY(vw__document_create(&limits, NULL, &reader.document));
    vw_status status = vw__document_read_json(source, reader.document, &reader.root);
    if (status == VW_OK)
        status = read_root(&reader);
    vw__document_destroy(reader.document);
    return status;
}

vw_status vw__expectation_read(const char *path, vw__expectation *out)
{
    const vw__byte_source_options options = {.output_limit_bytes = MOST_BYTES};
    vw__byte_source *source = NULL;
    vw__expectation read = {.cap_gib = -1.0};
    VW__TRY(vw__byte_source_open(path, &options, &source));
    vw__arena_init(&read.arena, MOST_BYTES);
    vw_status status = read_source(source, &read);
    vw__byte_source_close(source);
    if (status == VW_OK) {
        *out = read;
        return VW_OK;
    }
    vw__arena_deinit(&read.arena);
    if (status == VW_ERR_CORRUPT_FILE || status == VW_ERR_UNSUPPORTED) {
        char words[256];
        (void)snprintf(words, sizeof words, "%s", vw_last_error());
        return vw__fail(status, "%.200s: %s", path, words);
    }
    return status;
}

void vw__expectation_deinit(vw__expectation *expectation)
{
    vw__arena_deinit(&expectation->arena);
    *expectation = (vw__expectation){.cap_gib = -1.0};
}
