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

#include "format/pickle_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DEPTH_LIMIT = 20, MEMORY_LIMIT_BYTES = 4 << 20, MOST_VISITS = 20000 };

static void must(bool claim)
{
    if (!claim)
        abort();
}

/* ---- walking --------------------------------------------------------------------------------- */

static unsigned visits_left; /* shared parts could be walked for ever */

static void visit(const hr__document *document, hr__value value, size_t depth);

static void visit_number(const hr__document *document, hr__value value)
{
    int64_t number = 0;
    uint64_t natural = 0;
    double fraction = 0;
    bool is_signed = hr__value_get_i64(document, value, &number);
    bool is_unsigned = hr__value_get_u64(document, value, &natural);
    must(hr__value_get_f64(document, value, &fraction));
    if (hr__value_get_kind(value) == HR__VALUE_FLOAT)
        must(!is_signed && !is_unsigned);
    else
        must(is_signed || is_unsigned);
    if (is_signed && is_unsigned)
        must(number >= 0 && (uint64_t)number == natural);
}

static void visit_items(const hr__document *document, hr__value value, size_t depth)
{
    uint64_t cursor = 0;
    size_t count = 0;
    hr__value item;
    while (visits_left > 0 && hr__value_next_item(document, value, &cursor, &item)) {
        visit(document, item, depth);
        count++;
    }
    must(visits_left == 0 || count == hr__value_item_count(document, value));
}

static void visit_pairs(const hr__document *document, hr__value value, size_t depth)
{
    size_t pair_count;
    const hr__value *pairs = hr__value_pairs(document, value, &pair_count);
    for (size_t i = 0; i < 2 * pair_count && visits_left > 0; i++)
        visit(document, hr__document_resolve(document, pairs[i]), depth);
}

static void visit(const hr__document *document, hr__value value, size_t depth)
{
    size_t size_bytes = 0;
    must(depth <= DEPTH_LIMIT);
    must(hr__document_resolve(document, value) == value);
    visits_left--;
    switch (hr__value_get_kind(value)) {
    case HR__VALUE_INTEGER:
    case HR__VALUE_FLOAT:
        visit_number(document, value);
        break;
    case HR__VALUE_STRING:
    case HR__VALUE_BYTES: {
        const char *bytes = hr__value_string(document, value, &size_bytes);
        must(bytes[size_bytes] == '\0');
        break;
    }
    case HR__VALUE_LIST:
    case HR__VALUE_TUPLE:
        visit_items(document, value, depth + 1);
        break;
    case HR__VALUE_DICT:
        visit_pairs(document, value, depth + 1);
        break;
    default:
        must(hr__value_get_kind(value) <= HR__VALUE_FOLDED);
    }
}

/* ---- folding --------------------------------------------------------------------------------- */

static const char *const names[] = {"frames", "keep"};

/* Keeps dicts with "keep", folds the others and the list under "frames". */
static hr_status fold_dict(void *context, hr__document *document, const hr__value *pairs,
                           size_t pair_count, hr__value *folded)
{
    uint32_t *fold_count = context;
    bool is_kept = false;
    for (size_t i = 0; i < 2 * pair_count; i++)
        must(hr__document_resolve(document, pairs[i]) == pairs[i]);
    for (size_t i = 0; i < pair_count; i++) {
        hr__value key = pairs[2 * i], value = pairs[2 * i + 1];
        if (hr__value_get_kind(key) != HR__VALUE_STRING)
            continue;
        is_kept = is_kept || hr__value_string_id(key) == 1;
        value = hr__document_resolve(document, value);
        if (hr__value_string_id(key) == 0 && hr__value_get_kind(value) == HR__VALUE_LIST)
            hr__document_fold_list(document, value, hr__value_folded(1, ++*fold_count));
    }
    if (!is_kept)
        *folded = hr__value_folded(0, ++*fold_count);
    return HR_OK;
}

/* Folds lists that begin with a folded dict. */
static hr_status fold_list(void *context, hr__document *document, const hr__value *items,
                           size_t item_count, hr__value *folded)
{
    uint32_t *fold_count = context;
    must(item_count > 0);
    for (size_t i = 0; i < item_count; i++)
        must(hr__document_resolve(document, items[i]) == items[i]);
    if (hr__value_get_kind(items[0]) == HR__VALUE_FOLDED)
        *folded = hr__value_folded(2, ++*fold_count);
    return HR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    uint32_t fold_count = 0;
    hr__fold fold = {.context = &fold_count, .names = names, .name_count = 2, .dict = fold_dict};
    hr__document_limits limits = {.memory_bytes = MEMORY_LIMIT_BYTES, .depth = DEPTH_LIMIT};
    hr__document *document;
    hr__byte_source *source;
    hr__value root;
    if ((data[0] & 2) != 0)
        limits.value_count = 100;
    if ((data[0] & 4) != 0)
        fold.list = fold_list;
    must(hr__document_create(&limits, (data[0] & 1) != 0 ? &fold : NULL, &document) == HR_OK);
    must(hr__byte_source_open_memory(data + 1, size - 1, NULL, &source) == HR_OK);
    hr_status status = hr__pickle_read(source, document, &root);
    must(hr__document_memory_bytes(document) <= MEMORY_LIMIT_BYTES);
    if (status == HR_OK) {
        visits_left = MOST_VISITS;
        visit(document, root, 0);
    } else {
        must(hr_last_error()[0] != '\0');
    }
    hr__byte_source_close(source);
    hr__document_destroy(document);
    return 0;
}
