/* document.c - the memory of a document, its numbers and its strings.
 *
 * Strings, and the contents of containers, are in one arena; containers themselves, numbers, and
 * what a reader asks for are in arrays of their own. One limit holds them all:
 *
 *   arena.held_bytes + beside_bytes <= limit_bytes
 *
 * which is kept by lowering the arena's limit by what is held beside it. */
#include "parse/document_internal.h"

#include <string.h>

#include "base/checked_math.h" /* vw__min_u64 */
#include "base/error.h"
#include "base/host_memory.h"

/* ---- memory ---------------------------------------------------------------------------------- */

static vw_status refuse_memory(vw__document *document, size_t size_bytes, const char *what_for)
{
    document->has_hit_memory_limit = true;
    return vw__fail(VW_ERR_UNSUPPORTED,
                    "reading needs more host memory than the limit of %zu bytes: %zu are held, %zu "
                    "more wanted for %s",
                    document->limit_bytes, vw__document_memory_bytes(document), size_bytes,
                    what_for);
}

vw_status vw__document_explain_arena(vw__document *document, size_t size_bytes,
                                     const char *what_for)
{
    if (document->arena.has_hit_limit || document->strings.has_hit_limit)
        return refuse_memory(document, size_bytes, what_for);
    return vw__fail_host_memory(size_bytes, what_for);
}

size_t vw__document_memory_bytes(const vw__document *document)
{
    return document->arena.held_bytes + document->beside_bytes;
}

bool vw__document_has_hit_memory_limit(const vw__document *document)
{
    return document->has_hit_memory_limit;
}

vw_status vw__document_resize_memory(vw__document *document, void *memory, size_t old_bytes,
                                     size_t new_bytes, const char *what_for, void **out)
{
    VW_ASSERT(new_bytes >= old_bytes);
    size_t more_bytes = new_bytes - old_bytes;
    if (more_bytes > document->limit_bytes - vw__document_memory_bytes(document))
        return refuse_memory(document, more_bytes, what_for);
    void *resized = vw__host_realloc(memory, new_bytes);
    if (resized == NULL)
        return vw__fail_host_memory(new_bytes, what_for);
    document->beside_bytes += more_bytes;
    document->arena.limit_bytes = document->limit_bytes - document->beside_bytes;
    *out = resized;
    return VW_OK;
}

void vw__document_free_memory(vw__document *document, void *memory, size_t size_bytes)
{
    VW_ASSERT(size_bytes <= document->beside_bytes);
    document->beside_bytes -= size_bytes;
    document->arena.limit_bytes = document->limit_bytes - document->beside_bytes;
    vw__host_free(memory);
}

vw_status vw__document_grow_array(vw__document *document, void *array, size_t element_bytes,
                                  const char *what_for, size_t *capacity, void **out)
{
    size_t grown = *capacity + *capacity / 2 + 64;
    if (grown > SIZE_MAX / element_bytes)
        return refuse_memory(document, SIZE_MAX, what_for);
    VW__TRY(vw__document_resize_memory(document, array, *capacity * element_bytes,
                                       grown * element_bytes, what_for, out));
    *capacity = grown;
    return VW_OK;
}

vw_status vw__document_create(const vw__document_limits *limits, const vw__document_listener *fold,
                              vw__document **out)
{
    static const vw__document_limits defaults;
    if (limits == NULL)
        limits = &defaults;
    vw__document *document = vw__host_alloc_zeroed(1, sizeof *document);
    if (document == NULL)
        return vw__fail_host_memory(sizeof *document, "a document");
    size_t depth = limits->depth != 0 ? limits->depth : VW__DOCUMENT_DEFAULT_DEPTH;
    document->limit_bytes = limits->memory_bytes != 0 ? limits->memory_bytes : SIZE_MAX;
    document->height_limit = (size_t)vw__min_u64(depth, UINT16_MAX);
    document->values_left = limits->value_count != 0 ? limits->value_count : SIZE_MAX;
    vw__arena_init(&document->arena, document->limit_bytes);
    vw__string_table_init(&document->strings, &document->arena, UINT32_MAX, SIZE_MAX);
    for (size_t i = 0; i < VW__DOCUMENT_SHORT_STRING_SLOTS; i++)
        document->short_strings[i].size_bytes = UINT32_MAX;
    if (fold != NULL)
        document->fold = *fold;
    for (uint32_t i = 0; i < document->fold.name_count; i++) {
        uint32_t id;
        const char *name = fold->names[i];
        if (!vw__string_table_add(&document->strings, name, strlen(name), &id)) {
            vw_status status = vw__document_explain_arena(document, strlen(name), "a name");
            vw__document_destroy(document);
            return status;
        }
        VW_ASSERT(id == i);
    }
    *out = document;
    return VW_OK;
}

void vw__document_destroy(vw__document *document)
{
    if (document == NULL)
        return;
    vw__arena_deinit(&document->arena);
    vw__host_free(document->nodes);
    vw__host_free(document->numbers);
    vw__host_free(document);
}

/* ---- numbers and strings --------------------------------------------------------------------- */

static vw_status store_number(vw__document *document, uint64_t bits, size_t *place)
{
    if (document->number_count == document->number_capacity) {
        void *grown = NULL;
        VW__TRY(vw__document_grow_array(document, document->numbers, sizeof *document->numbers,
                                        "numbers", &document->number_capacity, &grown));
        document->numbers = grown;
    }
    document->numbers[document->number_count] = bits;
    *place = document->number_count++;
    return VW_OK;
}

vw_status vw__document_store_integer(vw__document *document, int64_t number, vw__value *out)
{
    size_t place;
    VW__TRY(store_number(document, (uint64_t)number, &place));
    *out = vw__value_make(VW__VALUE_INTEGER, VW__VALUE_INTEGER_IS_STORED | place);
    return VW_OK;
}

vw_status vw__document_unsigned(vw__document *document, uint64_t number, vw__value *out)
{
    size_t place;
    if (number <= INT64_MAX)
        return vw__document_integer(document, (int64_t)number, out);
    VW__TRY(store_number(document, number, &place));
    *out = vw__value_make(VW__VALUE_INTEGER,
                          VW__VALUE_INTEGER_IS_STORED | VW__VALUE_INTEGER_IS_UNSIGNED | place);
    return VW_OK;
}

vw_status vw__document_float(vw__document *document, double number, vw__value *out)
{
    uint64_t bits;
    size_t place;
    memcpy(&bits, &number, sizeof bits);
    VW__TRY(store_number(document, bits, &place));
    *out = vw__value_make(VW__VALUE_FLOAT, place);
    return VW_OK;
}

static uint64_t stored_bits(const vw__document *document, vw__value value)
{
    size_t place = (size_t)(value & (VW__VALUE_INTEGER_IS_UNSIGNED - 1));
    VW_ASSERT(place < document->number_count);
    return document->numbers[place];
}

/* Stored integers are beyond 55 bits; unsigned ones beyond INT64_MAX. */
bool vw__value_get_stored_i64(const vw__document *document, vw__value value, int64_t *out)
{
    if (vw__value_get_kind(value) != VW__VALUE_INTEGER ||
        (value & VW__VALUE_INTEGER_IS_UNSIGNED) != 0)
        return false;
    *out = (int64_t)stored_bits(document, value);
    return true;
}

bool vw__value_get_stored_u64(const vw__document *document, vw__value value, uint64_t *out)
{
    if (vw__value_get_kind(value) != VW__VALUE_INTEGER)
        return false;
    uint64_t bits = stored_bits(document, value);
    if ((value & VW__VALUE_INTEGER_IS_UNSIGNED) == 0 && bits > INT64_MAX)
        return false; /* negative */
    *out = bits;
    return true;
}

bool vw__value_get_f64(const vw__document *document, vw__value value, double *out)
{
    int64_t number;
    uint64_t large;
    if (vw__value_get_kind(value) == VW__VALUE_FLOAT) {
        uint64_t bits = stored_bits(document, value);
        memcpy(out, &bits, sizeof *out);
    } else if (vw__value_get_i64(document, value, &number)) {
        *out = (double)number;
    } else if (vw__value_get_u64(document, value, &large)) {
        *out = (double)large;
    } else {
        return false;
    }
    return true;
}

static vw_status intern(vw__document *document, const void *bytes, size_t size_bytes, uint32_t *id)
{
    if (!vw__string_table_add(&document->strings, bytes, size_bytes, id))
        return vw__document_explain_arena(document, size_bytes, "a string");
    return VW_OK;
}

vw_status vw__document_string(vw__document *document, const void *bytes, size_t size_bytes,
                              vw__value *out)
{
    uint32_t id;
    uint64_t word = 0;
    if (size_bytes == 0 || size_bytes > sizeof word) {
        VW__TRY(intern(document, bytes, size_bytes, &id));
        *out = vw__value_make(VW__VALUE_STRING, id);
        return VW_OK;
    }
    memcpy(&word, bytes, size_bytes);
    vw__document_short_string *slot =
        &document->short_strings[(word + size_bytes) * UINT64_C(0x9E3779B97F4A7C15) >>
                                 (64 - VW__DOCUMENT_SHORT_STRING_SLOTS_LOG2)];
    if (slot->word != word || slot->size_bytes != size_bytes) {
        VW__TRY(intern(document, bytes, size_bytes, &id));
        *slot =
            (vw__document_short_string){.word = word, .size_bytes = (uint32_t)size_bytes, .id = id};
    }
    *out = vw__value_make(VW__VALUE_STRING, slot->id);
    return VW_OK;
}

vw_status vw__document_bytes(vw__document *document, const void *bytes, size_t size_bytes,
                             vw__value *out)
{
    uint32_t id;
    VW__TRY(intern(document, bytes, size_bytes, &id));
    *out = vw__value_make(VW__VALUE_BYTES, id);
    return VW_OK;
}

const char *vw__value_string(const vw__document *document, vw__value value, size_t *size_bytes)
{
    VW_ASSERT(vw__value_get_kind(value) == VW__VALUE_STRING ||
              vw__value_get_kind(value) == VW__VALUE_BYTES);
    vw__string string = vw__string_table_get(&document->strings, vw__value_string_id(value));
    *size_bytes = string.size_bytes;
    return string.bytes;
}

const char *vw__value_kind_name(vw__value_kind kind)
{
    static const char *const names[] = {
        [VW__VALUE_NONE] = "None",           [VW__VALUE_FALSE] = "False",
        [VW__VALUE_TRUE] = "True",           [VW__VALUE_INTEGER] = "an integer",
        [VW__VALUE_HUGE] = "a huge integer", [VW__VALUE_FLOAT] = "a float",
        [VW__VALUE_STRING] = "a string",     [VW__VALUE_BYTES] = "bytes",
        [VW__VALUE_LIST] = "a list",         [VW__VALUE_TUPLE] = "a tuple",
        [VW__VALUE_DICT] = "a dict",         [VW__VALUE_FOLDED] = "a record",
    };
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "nothing known";
}

void vw__document_append_utf8(vw__byte_buffer *out, uint32_t code)
{
    if (code < 0x80) {
        vw__append_u8(out, (uint8_t)code);
        return;
    }
    unsigned following = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
    vw__append_u8(out, (uint8_t)(first[following] | code >> (6 * following)));
    while (following-- > 0)
        vw__append_u8(out, (uint8_t)(0x80 | (code >> (6 * following) & 0x3f)));
}
