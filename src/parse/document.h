/* document.h - values read from a file that we do not trust, and how they become records.
 *
 * A snapshot of 660,000 events is millions of small dicts. Built as a tree they would take ten
 * times the file; so a document *folds* while it is read: as soon as a dict is complete, a listener
 * sees its pairs, may keep what it wants in a form of its own, and gives a small number in
 * exchange. The dict's memory is used again for the next one.
 *
 * When is a dict complete? Pickle makes containers empty and fills them later. A container is
 * *open* while it can still be filled and *closed* when it is put into another one (or when the
 * file ends). Putting an open container into itself, directly or not, would make a cycle; it is
 * refused, so a document is a tree with shared parts, and nothing that walks it can run in circles.
 * Filling a closed container is refused too: no writer of plain data does that. A reader that sees
 * a dict to be complete may close it, or fold it, before it is put anywhere.
 *
 * A walk that follows shared parts again and again can still take for ever (two references to a
 * list of two references to ...): code that walks a whole document needs a bound of its own.
 *
 * A value is 64 bits: a kind in the upper eight, and a payload. Integers that do not fit the
 * payload are kept beside; larger than 64 bits, they are VW__VALUE_HUGE and known only as such.
 * Strings are the bytes of the file: they may not be UTF-8.
 *
 * Limits: depth, number of values, memory; each refusal names the limit. After any function
 * that makes a value has failed, the document may only be read and destroyed.
 *
 * No locks: one thread at a time. */
#ifndef VW_PARSE_DOCUMENT_H
#define VW_PARSE_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "base/byte_buffer.h"

typedef uint64_t vw__value; /* opaque: use the functions below */

typedef enum vw__value_kind {
    VW__VALUE_NONE,
    VW__VALUE_FALSE,
    VW__VALUE_TRUE,
    VW__VALUE_INTEGER, /* fits int64_t or uint64_t */
    VW__VALUE_HUGE,    /* an integer that does not */
    VW__VALUE_FLOAT,
    VW__VALUE_STRING,
    VW__VALUE_BYTES,
    VW__VALUE_FOLDED, /* a listener has it */
    VW__VALUE_LIST,   /* from here on: containers, which may have been folded meanwhile */
    VW__VALUE_TUPLE,  /* sets too */
    VW__VALUE_DICT,
} vw__value_kind;

typedef struct vw__document vw__document;

/* Strings that the listener knows get their place in `names` as id; any other string a larger one.
 * Equal strings have equal ids. */
typedef struct vw__document_listener {
    void *context;
    const char *const *names;
    uint32_t name_count;

    /* `pairs` is key, value, key, value ... in the file's order, 2 * pair_count of them, valid
     * during the call. Sets `*folded` to a vw__value_folded() to take the dict over; leaves it
     * alone to have it kept as a dict. A failure ends the reading with that status. */
    vw_status (*dict)(void *context, vw__document *document, const vw__value *pairs,
                      size_t pair_count, vw__value *folded);

    /* The same for the items of a list, at least one; NULL: lists are kept. Called only where a
     * reader has all of them at hand (vw__document_fold_items). A listener that relies on it must
     * check lists again when they arrive inside a dict. */
    vw_status (*list)(void *context, vw__document *document, const vw__value *items,
                      size_t item_count, vw__value *folded);
} vw__document_listener;

/* 0 is the default: for depth the constant below, for the others no limit. */
typedef struct vw__document_limits {
    size_t memory_bytes; /* of the document itself, and of its reader */
    size_t depth;        /* of containers in containers; at most UINT16_MAX */
    size_t value_count;  /* containers made, and values put into them */
} vw__document_limits;

#define VW__DOCUMENT_DEFAULT_DEPTH 512

/* `limits` may be NULL: the defaults. `fold` may be NULL: everything is kept. It is copied; names
 * (each only once) and context are borrowed. */
VW_MUST_CHECK vw_status vw__document_create(const vw__document_limits *limits,
                                            const vw__document_listener *fold, vw__document **out);
void vw__document_destroy(vw__document *document); /* NULL does nothing */

/* Host memory held now. */
size_t vw__document_memory_bytes(const vw__document *document);

/* Did reading fail because of vw__document_limits.memory_bytes? */
bool vw__document_has_hit_memory_limit(const vw__document *document);

/* ---- how a value is made up --------------------------------------------------------------------
 */

#define VW__VALUE_KIND_SHIFT 56

/* Bits of an integer's payload: it is a place among the document's stored numbers; that number is
 * unsigned. Without the first, the other 55 bits are the number itself, signed. */
#define VW__VALUE_INTEGER_IS_STORED (UINT64_C(1) << 55)
#define VW__VALUE_INTEGER_IS_UNSIGNED (UINT64_C(1) << 54)
#define VW__VALUE_INTEGER_INLINE_LIMIT (INT64_C(1) << 54)

static inline vw__value vw__value_make(vw__value_kind kind, uint64_t payload)
{
    return (uint64_t)kind << VW__VALUE_KIND_SHIFT | payload;
}

/* ---- looking --------------------------------------------------------------------------------- */

static inline vw__value_kind vw__value_get_kind(vw__value value)
{
    return (vw__value_kind)(value >> VW__VALUE_KIND_SHIFT);
}

/* The lowest value that is a container: only those need vw__document_resolve(). */
#define VW__VALUE_FIRST_CONTAINER ((uint64_t)VW__VALUE_LIST << VW__VALUE_KIND_SHIFT)

const char *vw__value_kind_name(vw__value_kind kind); /* "a list", for messages */

/* false if the value is not an integer (a boolean is not), or does not fit. */
static inline bool vw__value_get_i64(const vw__document *document, vw__value value, int64_t *out);
static inline bool vw__value_get_u64(const vw__document *document, vw__value value, uint64_t *out);
bool vw__value_get_f64(const vw__document *document, vw__value value,
                       double *out); /* integers too */

/* The id of a string or of bytes, and its contents: zero-terminated, valid as long as the document.
 * A string and bytes with the same contents have the same id. */
static inline uint32_t vw__value_string_id(vw__value value)
{
    return (uint32_t)value;
}

const char *vw__value_string(const vw__document *document, vw__value value, size_t *size_bytes);

/* The number of items of a list or tuple. */
size_t vw__value_item_count(const vw__document *document, vw__value value);

/* Walks the items in order; `*cursor` begins as 0. false at the end. */
bool vw__value_next_item(const vw__document *document, vw__value value, uint64_t *cursor,
                         vw__value *item);

/* The same in spans, for long lists: `*items` and `*item_count` are the next ones, valid until the
 * document changes. Items that were folded after they were put here are not resolved. */
bool vw__value_next_items(const vw__document *document, vw__value value, uint64_t *cursor,
                          const vw__value **items, size_t *item_count);

/* The pairs of a dict that was kept, as in vw__document_listener. */
const vw__value *vw__value_pairs(const vw__document *document, vw__value value, size_t *pair_count);

/* A folded value, as a listener makes it: `kind` and `id` are the listener's own. */
static inline vw__value vw__value_folded(unsigned kind, uint32_t id) /* kind < 256 */
{
    return vw__value_make(VW__VALUE_FOLDED, (uint64_t)(kind & 0xff) << 32 | id);
}

static inline unsigned vw__value_folded_kind(vw__value value)
{
    return (unsigned)(value >> 32) & 0xff;
}

static inline uint32_t vw__value_folded_id(vw__value value)
{
    return (uint32_t)value;
}

/* Turns a closed list (or tuple) into a folded value, wherever it is referred to: from now on every
 * reference to it is `folded`, as vw__document_resolve() shows. Its items are forgotten. */
void vw__document_fold_list(vw__document *document, vw__value list, vw__value folded);

/* Returns the value, or what it was folded to. Pairs and items that are handed out are resolved
 * already, unless the folding happened later. */
vw__value vw__document_resolve(const vw__document *document, vw__value value);

/* ---- making, for readers --------------------------------------------------------------------- */

static inline vw__value vw__value_none(void)
{
    return vw__value_make(VW__VALUE_NONE, 0);
}

static inline vw__value vw__value_boolean(bool is_true)
{
    return vw__value_make(is_true ? VW__VALUE_TRUE : VW__VALUE_FALSE, 0);
}

static inline vw__value vw__value_huge(void)
{
    return vw__value_make(VW__VALUE_HUGE, 0);
}

VW_MUST_CHECK static inline vw_status vw__document_integer(vw__document *document, int64_t number,
                                                           vw__value *out);
VW_MUST_CHECK vw_status vw__document_unsigned(vw__document *document, uint64_t number,
                                              vw__value *out);
VW_MUST_CHECK vw_status vw__document_float(vw__document *document, double number, vw__value *out);
VW_MUST_CHECK vw_status vw__document_string(vw__document *document, const void *bytes,
                                            size_t size_bytes, vw__value *out);
VW_MUST_CHECK vw_status vw__document_bytes(vw__document *document, const void *bytes,
                                           size_t size_bytes, vw__value *out);

VW_MUST_CHECK vw_status vw__document_new_list(vw__document *document, vw__value *out);
VW_MUST_CHECK vw_status vw__document_new_dict(vw__document *document, vw__value *out);
VW_MUST_CHECK vw_status vw__document_append(vw__document *document, vw__value list,
                                            const vw__value *items, size_t item_count);
VW_MUST_CHECK vw_status vw__document_set(vw__document *document, vw__value dict,
                                         const vw__value *pairs, size_t pair_count);

/* A set: a tuple that is filled with append() before it is put anywhere. */
VW_MUST_CHECK vw_status vw__document_new_set(vw__document *document, vw__value *out);
VW_MUST_CHECK vw_status vw__document_tuple(vw__document *document, const vw__value *items,
                                           size_t item_count, vw__value *out);

/* The short way, for a reader that has everything that goes into a container, knows that it will be
 * closed next, and that nothing refers to it yet: the listener sees the values where they lie, and
 * if it takes them no container is ever made. `*folded` is what it made of them; unchanged where it
 * declines: then make the container and fill it. A dict may be shown to the listener again when it
 * is closed. Containers that the values refer to are closed, and resolved in place. */
VW_MUST_CHECK vw_status vw__document_fold_pairs(vw__document *document, vw__value *pairs,
                                                size_t pair_count, vw__value *folded);
VW_MUST_CHECK vw_status vw__document_fold_items(vw__document *document, vw__value *items,
                                                size_t item_count, vw__value *folded);

/* Closes the outermost value, which is the content of the file. */
VW_MUST_CHECK vw_status vw__document_close(vw__document *document, vw__value root, vw__value *out);

/* Memory that a reader needs while it reads, under the document's limit: as realloc, from
 * `old_bytes` (0 with NULL: a first allocation) to `new_bytes`. The reader owns it and gives it
 * back before the document is destroyed. `what_for` is for the message. */
VW_MUST_CHECK vw_status vw__document_resize_memory(vw__document *document, void *memory,
                                                   size_t old_bytes, size_t new_bytes,
                                                   const char *what_for, void **out);
void vw__document_free_memory(vw__document *document, void *memory, size_t size_bytes);

/* ---- the short ways -------------------------------------------------------------------------- */

bool vw__value_get_stored_i64(const vw__document *document, vw__value value, int64_t *out);
bool vw__value_get_stored_u64(const vw__document *document, vw__value value, uint64_t *out);
VW_MUST_CHECK vw_status vw__document_store_integer(vw__document *document, int64_t number,
                                                   vw__value *out);

static inline bool vw__value_is_inline_integer(vw__value value)
{
    return value >> 55 == (uint64_t)VW__VALUE_INTEGER << 1;
}

static inline int64_t vw__value_inline_integer(vw__value value)
{
    return (int64_t)(value << 9) >> 9;
}

static inline bool vw__value_get_i64(const vw__document *document, vw__value value, int64_t *out)
{
    if (!vw__value_is_inline_integer(value))
        return vw__value_get_stored_i64(document, value, out);
    *out = vw__value_inline_integer(value);
    return true;
}

static inline bool vw__value_get_u64(const vw__document *document, vw__value value, uint64_t *out)
{
    if (!vw__value_is_inline_integer(value))
        return vw__value_get_stored_u64(document, value, out);
    int64_t number = vw__value_inline_integer(value);
    if (number < 0)
        return false;
    *out = (uint64_t)number;
    return true;
}

static inline vw_status vw__document_integer(vw__document *document, int64_t number, vw__value *out)
{
    if (number < -VW__VALUE_INTEGER_INLINE_LIMIT || number >= VW__VALUE_INTEGER_INLINE_LIMIT)
        return vw__document_store_integer(document, number, out);
    *out = vw__value_make(VW__VALUE_INTEGER, (uint64_t)number & (VW__VALUE_INTEGER_IS_STORED - 1));
    return VW_OK;
}

/* Appends the UTF-8 form of a code point that a file spells out; surrogates become three bytes. */
void vw__document_append_utf8(vw__byte_buffer *text, uint32_t code);

#endif /* VW_PARSE_DOCUMENT_H */
