/* document_internal.h - what a document is made of, for the two files that make it.
 *
 *   document.c             its memory and its limits, numbers and strings
 *   document_containers.c  lists, tuples, sets and dicts, and the folding */
#ifndef VW_PARSE_DOCUMENT_INTERNAL_H
#define VW_PARSE_DOCUMENT_INTERNAL_H

#include "parse/document.h"

#include "base/arena.h"
#include "base/string_table.h"

/* The last short strings, found without hashing all of them: the writer of a million events
 * repeats "N/A" a million times. */
typedef struct vw__document_short_string {
    uint64_t word; /* its bytes, zeros behind */
    uint32_t size_bytes;
    uint32_t id;
} vw__document_short_string;

enum {
    VW__DOCUMENT_SHORT_STRING_SLOTS_LOG2 = 6,
    VW__DOCUMENT_SHORT_STRING_SLOTS = 1 << VW__DOCUMENT_SHORT_STRING_SLOTS_LOG2,
    VW__DOCUMENT_CHUNK_CLASS_COUNT = 64,
};

typedef struct vw__document_node vw__document_node; /* a container */

struct vw__document {
    vw__document_node *nodes;
    size_t node_count;
    size_t node_capacity;
    size_t height_limit;
    size_t values_left; /* until the limit */
    vw__document_listener fold;
    void *free_chunks[VW__DOCUMENT_CHUNK_CLASS_COUNT]; /* each holds the address of the next */

    vw__document_short_string short_strings[VW__DOCUMENT_SHORT_STRING_SLOTS];
    uint64_t *numbers; /* integers of 64 bits, and floats */
    size_t number_count;
    size_t number_capacity;
    vw__string_table strings;

    vw__arena arena;     /* strings and chunks */
    size_t beside_bytes; /* held outside the arena */
    size_t limit_bytes;
    bool has_hit_memory_limit; /* something was refused because of limit_bytes */
};

/* Sets the error for a piece that the arena refused, and returns its status. */
VW_MUST_CHECK vw_status vw__document_explain_arena(vw__document *document, size_t size_bytes,
                                                   const char *what_for);

/* An array held beside the arena becomes half as large again, or a few elements to begin with. */
VW_MUST_CHECK vw_status vw__document_grow_array(vw__document *document, void *array,
                                                size_t element_bytes, const char *what_for,
                                                size_t *capacity, void **out);

#endif /* VW_PARSE_DOCUMENT_INTERNAL_H */
