/* read_view.h - a second reader of the viewer's container (docs/design/008-the-viewer.md), made
 * with zlib and jansson and none of our code, to test the writer.
 *
 * Every function fails the test that calls it if the container is invalid. */
#ifndef VW_TESTS_READ_VIEW_H
#define VW_TESTS_READ_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VIEW_NONE UINT32_MAX

typedef struct read_view {
    const uint8_t *bytes; /* borrowed */
    size_t size_bytes;
    json_t *header;
} read_view;

void read_view_open(read_view *view, const void *bytes, size_t size_bytes);
void read_view_close(read_view *view);

bool read_view_has(const read_view *view, const char *name);

/* A column by its name ("r0.d0.block.begin"), whatever its type: `*count` values, to be freed. */
uint64_t *read_view_column(const read_view *view, const char *name, size_t *count);

/* runs[run], and devices[device] of it. */
json_t *read_view_run(const read_view *view, size_t run);
json_t *read_view_device(const read_view *view, size_t run, size_t device);
uint64_t read_view_number(const json_t *object, const char *key);
bool read_view_is(const json_t *object, const char *key);

/* The blocks and pieces of a device, a column each. */
typedef struct read_blocks {
    size_t count;
    uint64_t *begin, *freed, *end, *size, *address, *stack, *stream, *level;
} read_blocks;

typedef struct read_pieces {
    size_t count;
    uint64_t *begin, *end, *address, *size, *segment, *stream, *pool, *expandable;
} read_pieces;

void read_blocks_of(const read_view *view, size_t run, size_t device, read_blocks *out);
void read_blocks_free(read_blocks *blocks);
void read_pieces_of(const read_view *view, size_t run, size_t device, read_pieces *out);
void read_pieces_free(read_pieces *pieces);

/* The sums of those that are there at an instant. */
uint64_t read_blocks_at(const read_blocks *blocks, uint32_t instant);
uint64_t read_pieces_at(const read_pieces *pieces, uint32_t instant);

/* A step function's value. */
uint64_t read_step(const uint64_t *instants, const uint64_t *values, size_t count,
                   uint32_t instant);

#endif /* VW_TESTS_READ_VIEW_H */
