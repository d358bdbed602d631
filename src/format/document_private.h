/* document_private.h - what a document is made of, for the two files that make it.
 *
 *   document.c             its memory and its limits, numbers and strings
 *   document_containers.c  lists, tuples, sets and dicts, and the folding */
#ifndef HR_FORMAT_DOCUMENT_PRIVATE_H
#define HR_FORMAT_DOCUMENT_PRIVATE_H

#include "format/document.h"

#include "base/arena.h"
#include "base/string_table.h"

/* The last short strings, found without hashing all of them: the writer of a million events
 * repeats "N/A" a million times. */
typedef struct hr__short_string {
    uint64_t word; /* its bytes, zeros behind */
    uint32_t size_bytes;
    uint32_t id;
} hr__short_string;

enum {
    HR__SHORT_STRING_SLOTS_LOG2 = 6,
    HR__SHORT_STRING_SLOTS = 1 << HR__SHORT_STRING_SLOTS_LOG2,
    HR__CHUNK_CLASS_COUNT = 64,
};

typedef struct hr__document_node hr__document_node; /* a container */

struct hr__document {
    hr__document_node *nodes;
    size_t node_count;
    size_t node_capacity;
    size_t height_limit;
    size_t values_left; /* until the limit */
    hr__fold fold;
    void *free_chunks[HR__CHUNK_CLASS_COUNT]; /* each holds the address of the next */

    hr__short_string short_strings[HR__SHORT_STRING_SLOTS];
    uint64_t *numbers; /* integers of 64 bits, and floats */
    size_t number_count;
    size_t number_capacity;
    hr__string_table strings;

    hr__arena arena;     /* strings and chunks */
    size_t beside_bytes; /* held outside the arena */
    size_t limit_bytes;
};

/* The status, with words, for a piece that the arena refused. */
HR_MUST_CHECK hr_status hr__document_explain_arena(const hr__document *document, size_t size_bytes,
                                                   const char *what_for);

/* An array held beside the arena becomes half as large again, or a few elements to begin with. */
HR_MUST_CHECK hr_status hr__document_grow_array(hr__document *document, void *array,
                                                size_t element_bytes, const char *what_for,
                                                size_t *capacity, void **out);

#endif /* HR_FORMAT_DOCUMENT_PRIVATE_H */
