/* view_columns.h - the container of a view: columns of numbers, each compressed by itself.
 *
 * docs/design/008-the-viewer.md has the format. A column is read where it lies, be it a field of an
 * array of structs: nothing is copied on the way to the compressor, which is fed a plane of bytes
 * at a time.
 *
 * No locks: one thread at a time. */
#ifndef HR_VIEW_VIEW_COLUMNS_H
#define HR_VIEW_VIEW_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "base/byte_buffer.h"
#include "format/zlib_memory.h"

#define HR__VIEW_NONE UINT32_MAX /* no instant, no stack, no string */

enum { HR__VIEW_NAME_BYTES = 48 };

/* Numbers, `stride_bytes` apart. */
typedef struct hr__view_column {
    const void *first; /* borrowed; NULL where there are none */
    size_t stride_bytes;
    size_t count;
    unsigned width_bytes; /* 1, 2, 4 or 8 */
} hr__view_column;

/* A whole array of uint8_t ... uint64_t, and a field of an array of structs. */
#define HR__VIEW_ARRAY(array, number)                                                              \
    ((hr__view_column){(array), sizeof *(array), (number), (unsigned)sizeof *(array)})
#define HR__VIEW_FIELD(array, field, number)                                                       \
    ((hr__view_column){(array) != NULL ? &(array)->field : NULL, sizeof *(array), (number),        \
                       (unsigned)sizeof(array)->field})

typedef struct hr__view_entry {
    char name[HR__VIEW_NAME_BYTES];
    unsigned width_bytes;
    size_t count, offset_bytes, size_bytes; /* the offset is from the first column's */
} hr__view_entry;

typedef struct hr__view_columns {
    hr__byte_buffer data;    /* compressed, one behind the other */
    hr__view_entry *entries; /* owned */
    size_t entry_count, entry_capacity;
    char prefix[HR__VIEW_NAME_BYTES]; /* of the names to come */
    z_stream stream;
    bool has_stream;
} hr__view_columns;

/* Takes no memory yet. */
void hr__view_columns_init(hr__view_columns *columns);
void hr__view_columns_deinit(hr__view_columns *columns);

/* "r0.d1.": what the names of the columns added from now on begin with. */
__attribute__((format(printf, 2, 3))) void hr__view_columns_prefix(hr__view_columns *columns,
                                                                   const char *format, ...);

HR_MUST_CHECK hr_status hr__view_columns_add(hr__view_columns *columns, const char *name,
                                             hr__view_column column);

/* The container: `body` is what the header has beside its format and columns, the members of an
 * object without its braces. `*bytes` is the caller's, freed with hr__host_free(). */
HR_MUST_CHECK hr_status hr__view_columns_finish(const hr__view_columns *columns,
                                                const hr__byte_buffer *body, char **bytes,
                                                size_t *size_bytes);

#endif /* HR_VIEW_VIEW_COLUMNS_H */
