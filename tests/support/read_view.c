/* read_view.c - see read_view.h. */
#include "support/read_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "support/cmocka_here.h"

static uint32_t u32_at(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

void read_view_open(read_view *view, const void *bytes, size_t size_bytes)
{
    json_error_t error;
    *view = (read_view){.bytes = bytes, .size_bytes = size_bytes};
    assert_true(size_bytes >= 16);
    assert_memory_equal(bytes, "VWVIEW\0\1", 8);
    assert_int_equal(u32_at(view->bytes + 12), 0);
    size_t header_bytes = u32_at(view->bytes + 8);
    assert_true(header_bytes <= size_bytes - 16);
    view->header =
        json_loadb((const char *)view->bytes + 16, header_bytes, JSON_REJECT_DUPLICATES, &error);
    if (view->header == NULL)
        print_error("%s at %d\n", error.text, error.position);
    assert_non_null(view->header);
    assert_int_equal(read_view_number(view->header, "format"), 1);
}

void read_view_close(read_view *view)
{
    json_decref(view->header);
    view->header = NULL;
}

static json_t *find_column(const read_view *view, const char *name)
{
    size_t index;
    json_t *column;
    json_array_foreach(json_object_get(view->header, "columns"), index, column)
    {
        if (strcmp(json_string_value(json_object_get(column, "name")), name) == 0)
            return column;
    }
    return NULL;
}

bool read_view_has(const read_view *view, const char *name)
{
    return find_column(view, name) != NULL;
}

/* The number at `index`: its bytes are `count` apart, and it is a zigzag difference. */
static uint64_t difference_at(const uint8_t *planes, size_t count, size_t index, size_t width)
{
    uint64_t coded = 0;
    for (size_t plane = 0; plane < width; plane++)
        coded |= (uint64_t)planes[plane * count + index] << (8 * plane);
    return coded % 2 == 0 ? coded / 2 : ~(coded / 2);
}

uint64_t *read_view_column(const read_view *view, const char *name, size_t *count)
{
    json_t *column = find_column(view, name);
    if (column == NULL)
        fail_msg("no column %s", name);
    size_t width = (size_t)atoi(json_string_value(json_object_get(column, "type")) + 1) / 8;
    size_t offset = read_view_number(column, "offset"), size = read_view_number(column, "bytes");
    *count = read_view_number(column, "count");
    assert_true(offset <= view->size_bytes && size <= view->size_bytes - offset);

    uLongf plain_bytes = *count * width;
    uint8_t *planes = malloc(plain_bytes + 1);
    uint64_t *values = calloc(*count + 1, sizeof *values), before = 0;
    assert_true(planes != NULL && values != NULL);
    assert_int_equal(uncompress(planes, &plain_bytes, view->bytes + offset, size), Z_OK);
    assert_int_equal(plain_bytes, *count * width);
    uint64_t mask = width == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * width) - 1;
    for (size_t i = 0; i < *count; i++) {
        values[i] =
            width == 1 ? planes[i] : (before + difference_at(planes, *count, i, width)) & mask;
        before = values[i];
    }
    free(planes);
    return values;
}

/* ---- the header ------------------------------------------------------------------------------ */

json_t *read_view_run(const read_view *view, size_t run)
{
    json_t *found = json_array_get(json_object_get(view->header, "runs"), run);
    assert_non_null(found);
    return found;
}

json_t *read_view_device(const read_view *view, size_t run, size_t device)
{
    json_t *found = json_array_get(json_object_get(read_view_run(view, run), "devices"), device);
    assert_non_null(found);
    return found;
}

uint64_t read_view_number(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        fail_msg("%s is no number", key);
    return (uint64_t)json_integer_value(value);
}

bool read_view_is(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_boolean(value))
        fail_msg("%s is neither true nor false", key);
    return json_is_true(value);
}

/* ---- blocks and pieces ----------------------------------------------------------------------- */

static uint64_t *column_of(const read_view *view, size_t run, size_t device, const char *name,
                           size_t expected_count)
{
    char full[64];
    size_t count;
    snprintf(full, sizeof full, "r%zu.d%zu.%s", run, device, name);
    uint64_t *values = read_view_column(view, full, &count);
    assert_int_equal(count, expected_count);
    return values;
}

void read_blocks_of(const read_view *view, size_t run, size_t device, read_blocks *out)
{
    size_t count = read_view_number(read_view_device(view, run, device), "block_count");
    *out = (read_blocks){
        .count = count,
        .begin = column_of(view, run, device, "block.begin", count),
        .freed = column_of(view, run, device, "block.freed", count),
        .end = column_of(view, run, device, "block.end", count),
        .size = column_of(view, run, device, "block.size", count),
        .address = column_of(view, run, device, "block.address", count),
        .stack = column_of(view, run, device, "block.stack", count),
        .stream = column_of(view, run, device, "block.stream", count),
        .level = column_of(view, run, device, "block.level", count),
    };
}

void read_blocks_free(read_blocks *blocks)
{
    free(blocks->begin);
    free(blocks->freed);
    free(blocks->end);
    free(blocks->size);
    free(blocks->address);
    free(blocks->stack);
    free(blocks->stream);
    free(blocks->level);
}

void read_pieces_of(const read_view *view, size_t run, size_t device, read_pieces *out)
{
    size_t count = read_view_number(read_view_device(view, run, device), "piece_count");
    *out = (read_pieces){
        .count = count,
        .begin = column_of(view, run, device, "piece.begin", count),
        .end = column_of(view, run, device, "piece.end", count),
        .address = column_of(view, run, device, "piece.address", count),
        .size = column_of(view, run, device, "piece.size", count),
        .segment = column_of(view, run, device, "piece.segment", count),
        .stream = column_of(view, run, device, "piece.stream", count),
        .pool = column_of(view, run, device, "piece.pool", count),
        .expandable = column_of(view, run, device, "piece.expandable", count),
    };
}

void read_pieces_free(read_pieces *pieces)
{
    free(pieces->begin);
    free(pieces->end);
    free(pieces->address);
    free(pieces->size);
    free(pieces->segment);
    free(pieces->stream);
    free(pieces->pool);
    free(pieces->expandable);
}

uint64_t read_blocks_at(const read_blocks *blocks, uint32_t instant)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < blocks->count; i++)
        if (blocks->begin[i] <= instant && instant < blocks->end[i])
            sum += blocks->size[i];
    return sum;
}

uint64_t read_pieces_at(const read_pieces *pieces, uint32_t instant)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < pieces->count; i++)
        if (pieces->begin[i] <= instant && instant < pieces->end[i])
            sum += pieces->size[i];
    return sum;
}

uint64_t read_step(const uint64_t *instants, const uint64_t *values, size_t count, uint32_t instant)
{
    uint64_t value = 0;
    assert_true(count != 0 && instants[0] == 0);
    for (size_t i = 0; i < count && instants[i] <= instant; i++)
        value = values[i];
    return value;
}
