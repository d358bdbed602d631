/* view_columns.h - the container of a view: columns of numbers, each compressed by itself.
 *
 * docs/design/008-the-viewer.md has the format. A column is read where it lies, be it a field of an
 * array of structs: nothing is copied on the way to the compressor, which is fed a plane of bytes
 * at a time.
 *
 * No locks: one thread at a time. */
#ifndef VW_VIEW_VIEW_COLUMNS_H
#define VW_VIEW_VIEW_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "base/byte_buffer.h"

/* zlib's. Without zlib there is no view: VW_ERR_UNSUPPORTED for the first column. */
typedef struct vw__view_deflate vw__view_deflate;

#define VW__VIEW_NONE UINT32_MAX /* no instant, no stack, no string */

enum { VW__VIEW_NAME_BYTES = 48 };

/* Numbers, `stride_bytes` apart. */
typedef struct vw__view_column {
    const void *first; /* borrowed; NULL if `count` is 0 */
    size_t stride_bytes;
    size_t count;
    unsigned width_bytes; /* 1, 2, 4 or 8 */
} vw__view_column;

/* A whole array of uint8_t ... uint64_t, and a field of an array of structs. */
#define VW__VIEW_ARRAY(array, number)                                                              \
    ((vw__view_column){(array), sizeof *(array), (number), (unsigned)sizeof *(array)})
#define VW__VIEW_FIELD(array, field, number)                                                       \
    ((vw__view_column){(array) != NULL ? &(array)->field : NULL, sizeof *(array), (number),        \
                       (unsigned)sizeof(array)->field})

typedef struct vw__view_entry {
    char name[VW__VIEW_NAME_BYTES];
    unsigned width_bytes;
    size_t count, offset_bytes, size_bytes; /* the offset is from the first column's */
} vw__view_entry;

typedef struct vw__view_columns {
    vw__byte_buffer data;    /* compressed, one behind the other */
    vw__view_entry *entries; /* owned */
    size_t entry_count, entry_capacity;
    char prefix[VW__VIEW_NAME_BYTES]; /* of the names to come */
    vw__view_deflate *deflate;        /* owned; NULL before the first column */
} vw__view_columns;

/* Takes no memory yet. */
void vw__view_columns_init(vw__view_columns *columns);
void vw__view_columns_deinit(vw__view_columns *columns);

/* "r0.d1.": what the names of the columns added from now on begin with. */
__attribute__((format(printf, 2, 3))) void vw__view_columns_prefix(vw__view_columns *columns,
                                                                   const char *format, ...);

VW_MUST_CHECK vw_status vw__view_columns_add(vw__view_columns *columns, const char *name,
                                             vw__view_column column);

/* The container: `body` is what the header has beside its format and columns, the members of an
 * object without its braces. `*bytes` is the caller's, freed with vw__host_free(). */
VW_MUST_CHECK vw_status vw__view_columns_finish(const vw__view_columns *columns,
                                                const vw__byte_buffer *body, char **bytes,
                                                size_t *size_bytes);

#endif /* VW_VIEW_VIEW_COLUMNS_H */
