/* fuzz_pickle_read.c - any bytes as a pickle.
 *
 * The first byte chooses the limits and whether dicts and lists are folded; the rest is the pickle.
 * Reading must come to an end within the limits, and say something where it refuses. What it
 * accepts is walked: every value must be one that can be looked at, no container may be deeper than
 * the limit, and nothing may be seen that was folded away. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "parse/pickle_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DEPTH_LIMIT = 20, MEMORY_LIMIT_BYTES = 4 << 20, MOST_VISITS = 20000 };

static void must(bool claim)
{
    if (!claim)
        abort();
}

/* ---- walking --------------------------------------------------------------------------------- */

static unsigned visits_left; /* shared parts could be walked for ever */

static void visit(const vw__document *document, vw__value value, size_t depth);

static void visit_number(const vw__document *document, vw__value value)
{
    int64_t number = 0;
    uint64_t natural = 0;
    double fraction = 0;
    bool is_signed = vw__value_get_i64(document, value, &number);
    bool is_unsigned = vw__value_get_u64(document, value, &natural);
    must(vw__value_get_f64(document, value, &fraction));
    if (vw__value_get_kind(value) == VW__VALUE_FLOAT)
        must(!is_signed && !is_unsigned);
    else
        must(is_signed || is_unsigned);
    if (is_signed && is_unsigned)
        must(number >= 0 && (uint64_t)number == natural);
}

static void visit_items(const vw__document *document, vw__value value, size_t depth)
{
    uint64_t cursor = 0;
    size_t count = 0;
    vw__value item;
    while (visits_left > 0 && vw__value_next_item(document, value, &cursor, &item)) {
        visit(document, item, depth);
        count++;
    }
    must(visits_left == 0 || count == vw__value_item_count(document, value));
}

static void visit_pairs(const vw__document *document, vw__value value, size_t depth)
{
    size_t pair_count;
    const vw__value *pairs = vw__value_pairs(document, value, &pair_count);
    for (size_t i = 0; i < 2 * pair_count && visits_left > 0; i++)
        visit(document, vw__document_resolve(document, pairs[i]), depth);
}

static void visit(const vw__document *document, vw__value value, size_t depth)
{
    size_t size_bytes = 0;
    must(depth <= DEPTH_LIMIT);
    must(vw__document_resolve(document, value) == value);
    visits_left--;
    switch (vw__value_get_kind(value)) {
    case VW__VALUE_INTEGER:
    case VW__VALUE_FLOAT:
        visit_number(document, value);
        break;
    case VW__VALUE_STRING:
    case VW__VALUE_BYTES: {
        const char *bytes = vw__value_string(document, value, &size_bytes);
        must(bytes[size_bytes] == '\0');
        break;
    }
    case VW__VALUE_LIST:
    case VW__VALUE_TUPLE:
        visit_items(document, value, depth + 1);
        break;
    case VW__VALUE_DICT:
        visit_pairs(document, value, depth + 1);
        break;
    default:
        must(vw__value_get_kind(value) <= VW__VALUE_FOLDED);
    }
}

/* ---- folding --------------------------------------------------------------------------------- */

static const char *const names[] = {"frames", "keep"};

/* Keeps dicts with "keep", folds the others and the list under "frames". */
static vw_status fold_dict(void *context, vw__document *document, const vw__value *pairs,
                           size_t pair_count, vw__value *folded)
{
    uint32_t *fold_count = context;
    bool is_kept = false;
    for (size_t i = 0; i < 2 * pair_count; i++)
        must(vw__document_resolve(document, pairs[i]) == pairs[i]);
    for (size_t i = 0; i < pair_count; i++) {
        vw__value key = pairs[2 * i], value = pairs[2 * i + 1];
        if (vw__value_get_kind(key) != VW__VALUE_STRING)
            continue;
        is_kept = is_kept || vw__value_string_id(key) == 1;
        value = vw__document_resolve(document, value);
        if (vw__value_string_id(key) == 0 && vw__value_get_kind(value) == VW__VALUE_LIST)
            vw__document_fold_list(document, value, vw__value_folded(1, ++*fold_count));
    }
    if (!is_kept)
        *folded = vw__value_folded(0, ++*fold_count);
    return VW_OK;
}

/* Folds lists that begin with a folded dict. */
static vw_status fold_list(void *context, vw__document *document, const vw__value *items,
                           size_t item_count, vw__value *folded)
{
    uint32_t *fold_count = context;
    must(item_count > 0);
    for (size_t i = 0; i < item_count; i++)
        must(vw__document_resolve(document, items[i]) == items[i]);
    if (vw__value_get_kind(items[0]) == VW__VALUE_FOLDED)
        *folded = vw__value_folded(2, ++*fold_count);
    return VW_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    uint32_t fold_count = 0;
    vw__document_listener fold = {
        .context = &fold_count, .names = names, .name_count = 2, .dict = fold_dict};
    vw__document_limits limits = {.memory_bytes = MEMORY_LIMIT_BYTES, .depth = DEPTH_LIMIT};
    vw__document *document;
    vw__byte_source *source;
    vw__value root;
    if ((data[0] & 2) != 0)
        limits.value_count = 100;
    if ((data[0] & 4) != 0)
        fold.list = fold_list;
    must(vw__document_create(&limits, (data[0] & 1) != 0 ? &fold : NULL, &document) == VW_OK);
    must(vw__byte_source_open_memory(data + 1, size - 1, NULL, &source) == VW_OK);
    vw_status status = vw__unpickle_read(source, document, &root);
    must(vw__document_memory_bytes(document) <= MEMORY_LIMIT_BYTES);
    if (status == VW_OK) {
        visits_left = MOST_VISITS;
        visit(document, root, 0);
    } else {
        must(vw_last_error()[0] != '\0');
    }
    vw__byte_source_close(source);
    vw__document_destroy(document);
    return 0;
}
