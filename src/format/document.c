/* document.c - the memory of a document, its numbers and its strings.
 *
 * Strings, and the contents of containers, are in one arena; containers themselves, numbers, and
 * what a reader asks for are in arrays of their own. One limit holds them all:
 *
 *   arena.held_bytes + beside_bytes <= limit_bytes
 *
 * which is kept by lowering the arena's limit by what is held beside it. */
#include "format/document_private.h"

#include <string.h>

#include "base/checked_math.h" /* hr__min_u64 */
#include "base/error.h"
#include "base/host_memory.h"

/* ---- memory ---------------------------------------------------------------------------------- */

static hr_status refuse_memory(const hr__document *document, size_t size_bytes,
                               const char *what_for)
{
    return hr__fail(HR_ERR_UNSUPPORTED,
                    "reading needs more host memory than the limit of %zu bytes: %zu are held, %zu "
                    "more wanted for %s",
                    document->limit_bytes, hr__document_memory_bytes(document), size_bytes,
                    what_for);
}

hr_status hr__document_explain_arena(const hr__document *document, size_t size_bytes,
                                     const char *what_for)
{
    if (document->arena.has_hit_limit || document->strings.has_hit_limit)
        return refuse_memory(document, size_bytes, what_for);
    return hr__fail_host_memory(size_bytes, what_for);
}

size_t hr__document_memory_bytes(const hr__document *document)
{
    return document->arena.held_bytes + document->beside_bytes;
}

hr_status hr__document_resize_memory(hr__document *document, void *memory, size_t old_bytes,
                                     size_t new_bytes, const char *what_for, void **out)
{
    HR_ASSERT(new_bytes >= old_bytes);
    size_t more_bytes = new_bytes - old_bytes;
    if (more_bytes > document->limit_bytes - hr__document_memory_bytes(document))
        return refuse_memory(document, more_bytes, what_for);
    void *resized = hr__host_realloc(memory, new_bytes);
    if (resized == NULL)
        return hr__fail_host_memory(new_bytes, what_for);
    document->beside_bytes += more_bytes;
    document->arena.limit_bytes = document->limit_bytes - document->beside_bytes;
    *out = resized;
    return HR_OK;
}

void hr__document_free_memory(hr__document *document, void *memory, size_t size_bytes)
{
    HR_ASSERT(size_bytes <= document->beside_bytes);
    document->beside_bytes -= size_bytes;
    document->arena.limit_bytes = document->limit_bytes - document->beside_bytes;
    hr__host_free(memory);
}

hr_status hr__document_grow_array(hr__document *document, void *array, size_t element_bytes,
                                  const char *what_for, size_t *capacity, void **out)
{
    size_t grown = *capacity + *capacity / 2 + 64;
    if (grown > SIZE_MAX / element_bytes)
        return refuse_memory(document, SIZE_MAX, what_for);
    HR__TRY(hr__document_resize_memory(document, array, *capacity * element_bytes,
                                       grown * element_bytes, what_for, out));
    *capacity = grown;
    return HR_OK;
}

hr_status hr__document_create(const hr__document_limits *limits, const hr__fold *fold,
                              hr__document **out)
{
    static const hr__document_limits defaults;
    if (limits == NULL)
        limits = &defaults;
    hr__document *document = hr__host_alloc_zeroed(1, sizeof *document);
    if (document == NULL)
        return hr__fail_host_memory(sizeof *document, "a document");
    size_t depth = limits->depth != 0 ? limits->depth : HR__DOCUMENT_DEFAULT_DEPTH;
    document->limit_bytes = limits->memory_bytes != 0 ? limits->memory_bytes : SIZE_MAX;
    document->height_limit = (size_t)hr__min_u64(depth, UINT16_MAX);
    document->values_left = limits->value_count != 0 ? limits->value_count : SIZE_MAX;
    hr__arena_init(&document->arena, document->limit_bytes);
    hr__string_table_init(&document->strings, &document->arena, UINT32_MAX, SIZE_MAX);
    for (size_t i = 0; i < HR__SHORT_STRING_SLOTS; i++)
        document->short_strings[i].size_bytes = UINT32_MAX;
    if (fold != NULL)
        document->fold = *fold;
    for (uint32_t i = 0; i < document->fold.name_count; i++) {
        uint32_t id;
        const char *name = fold->names[i];
        if (!hr__string_table_add(&document->strings, name, strlen(name), &id)) {
            hr_status status = hr__document_explain_arena(document, strlen(name), "a name");
            hr__document_destroy(document);
            return status;
        }
        HR_ASSERT(id == i);
    }
    *out = document;
    return HR_OK;
}

void hr__document_destroy(hr__document *document)
{
    if (document == NULL)
        return;
    hr__arena_deinit(&document->arena);
    hr__host_free(document->nodes);
    hr__host_free(document->numbers);
    hr__host_free(document);
}

/* ---- numbers and strings --------------------------------------------------------------------- */

static hr_status store_number(hr__document *document, uint64_t bits, size_t *place)
{
    if (document->number_count == document->number_capacity) {
        void *grown = NULL;
        HR__TRY(hr__document_grow_array(document, document->numbers, sizeof *document->numbers,
                                        "numbers", &document->number_capacity, &grown));
        document->numbers = grown;
    }
    document->numbers[document->number_count] = bits;
    *place = document->number_count++;
    return HR_OK;
}

hr_status hr__document_store_integer(hr__document *document, int64_t number, hr__value *out)
{
    size_t place;
    HR__TRY(store_number(document, (uint64_t)number, &place));
    *out = hr__value_make(HR__VALUE_INTEGER, HR__INTEGER_IS_STORED | place);
    return HR_OK;
}

hr_status hr__document_unsigned(hr__document *document, uint64_t number, hr__value *out)
{
    size_t place;
    if (number <= INT64_MAX)
        return hr__document_integer(document, (int64_t)number, out);
    HR__TRY(store_number(document, number, &place));
    *out =
        hr__value_make(HR__VALUE_INTEGER, HR__INTEGER_IS_STORED | HR__INTEGER_IS_UNSIGNED | place);
    return HR_OK;
}

hr_status hr__document_float(hr__document *document, double number, hr__value *out)
{
    uint64_t bits;
    size_t place;
    memcpy(&bits, &number, sizeof bits);
    HR__TRY(store_number(document, bits, &place));
    *out = hr__value_make(HR__VALUE_FLOAT, place);
    return HR_OK;
}

static uint64_t stored_bits(const hr__document *document, hr__value value)
{
    size_t place = (size_t)(value & (HR__INTEGER_IS_UNSIGNED - 1));
    HR_ASSERT(place < document->number_count);
    return document->numbers[place];
}

/* Stored integers are beyond 55 bits; unsigned ones beyond INT64_MAX. */
bool hr__value_get_stored_i64(const hr__document *document, hr__value value, int64_t *out)
{
    if (hr__value_get_kind(value) != HR__VALUE_INTEGER || (value & HR__INTEGER_IS_UNSIGNED) != 0)
        return false;
    *out = (int64_t)stored_bits(document, value);
    return true;
}

bool hr__value_get_stored_u64(const hr__document *document, hr__value value, uint64_t *out)
{
    if (hr__value_get_kind(value) != HR__VALUE_INTEGER)
        return false;
    uint64_t bits = stored_bits(document, value);
    if ((value & HR__INTEGER_IS_UNSIGNED) == 0 && bits > INT64_MAX)
        return false; /* negative */
    *out = bits;
    return true;
}

bool hr__value_get_f64(const hr__document *document, hr__value value, double *out)
{
    int64_t number;
    uint64_t large;
    if (hr__value_get_kind(value) == HR__VALUE_FLOAT) {
        uint64_t bits = stored_bits(document, value);
        memcpy(out, &bits, sizeof *out);
    } else if (hr__value_get_i64(document, value, &number)) {
        *out = (double)number;
    } else if (hr__value_get_u64(document, value, &large)) {
        *out = (double)large;
    } else {
        return false;
    }
    return true;
}

static hr_status intern(hr__document *document, const void *bytes, size_t size_bytes, uint32_t *id)
{
    if (!hr__string_table_add(&document->strings, bytes, size_bytes, id))
        return hr__document_explain_arena(document, size_bytes, "a string");
    return HR_OK;
}

hr_status hr__document_string(hr__document *document, const void *bytes, size_t size_bytes,
                              hr__value *out)
{
    uint32_t id;
    uint64_t word = 0;
    if (size_bytes == 0 || size_bytes > sizeof word) {
        HR__TRY(intern(document, bytes, size_bytes, &id));
        *out = hr__value_make(HR__VALUE_STRING, id);
        return HR_OK;
    }
    memcpy(&word, bytes, size_bytes);
    hr__short_string *slot =
        &document->short_strings[(word + size_bytes) * UINT64_C(0x9E3779B97F4A7C15) >>
                                 (64 - HR__SHORT_STRING_SLOTS_LOG2)];
    if (slot->word != word || slot->size_bytes != size_bytes) {
        HR__TRY(intern(document, bytes, size_bytes, &id));
        *slot = (hr__short_string){.word = word, .size_bytes = (uint32_t)size_bytes, .id = id};
    }
    *out = hr__value_make(HR__VALUE_STRING, slot->id);
    return HR_OK;
}

hr_status hr__document_bytes(hr__document *document, const void *bytes, size_t size_bytes,
                             hr__value *out)
{
    uint32_t id;
    HR__TRY(intern(document, bytes, size_bytes, &id));
    *out = hr__value_make(HR__VALUE_BYTES, id);
    return HR_OK;
}

const char *hr__value_string(const hr__document *document, hr__value value, size_t *size_bytes)
{
    HR_ASSERT(hr__value_get_kind(value) == HR__VALUE_STRING ||
              hr__value_get_kind(value) == HR__VALUE_BYTES);
    hr__string string = hr__string_table_get(&document->strings, hr__value_string_id(value));
    *size_bytes = string.size_bytes;
    return string.bytes;
}

const char *hr__value_kind_name(hr__value_kind kind)
{
    static const char *const names[] = {
        [HR__VALUE_NONE] = "None",           [HR__VALUE_FALSE] = "False",
        [HR__VALUE_TRUE] = "True",           [HR__VALUE_INTEGER] = "an integer",
        [HR__VALUE_HUGE] = "a huge integer", [HR__VALUE_FLOAT] = "a float",
        [HR__VALUE_STRING] = "a string",     [HR__VALUE_BYTES] = "bytes",
        [HR__VALUE_LIST] = "a list",         [HR__VALUE_TUPLE] = "a tuple",
        [HR__VALUE_DICT] = "a dict",         [HR__VALUE_FOLDED] = "a record",
    };
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "nothing known";
}
