/* view_columns.c - differences, zigzag, planes, zlib; and the header that says what is where.
 *
 * The header names the offsets of the columns, which lie behind it, and the length of those numbers
 * is part of its own. So the list of columns is written with a guess of where they begin, and again
 * with what came out, until both agree: numbers only get longer, hence soon. */
#include "view/view_columns.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "headroom/version.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "export/json_write.h"

enum { CHUNK_BYTES = 16 << 10 };
enum { FORMAT_NUMBER = 1, MAGIC_BYTES = 8, LEAD_BYTES = 16, ALIGNMENT_BYTES = 8 };
enum { LEVEL = 4 }; /* of zlib: twice as fast as 6, and a tenth larger */

void hr__view_columns_init(hr__view_columns *columns)
{
    *columns = (hr__view_columns){.entries = NULL};
    hr__byte_buffer_init(&columns->data);
}

void hr__view_columns_deinit(hr__view_columns *columns)
{
    if (columns->has_stream)
        deflateEnd(&columns->stream);
    hr__byte_buffer_deinit(&columns->data);
    hr__host_free(columns->entries);
    hr__view_columns_init(columns);
}

void hr__view_columns_prefix(hr__view_columns *columns, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(columns->prefix, sizeof columns->prefix, format, args);
    va_end(args);
}

/* ---- encoding -------------------------------------------------------------------------------- */

static uint64_t value_at(const hr__view_column *column, size_t index)
{
    const char *place = (const char *)column->first + index * column->stride_bytes;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    switch (column->width_bytes) {
    case 1:
        memcpy(&u8, place, sizeof u8);
        return u8;
    case 2:
        memcpy(&u16, place, sizeof u16);
        return u16;
    case 4:
        memcpy(&u32, place, sizeof u32);
        return u32;
    default:
        memcpy(&u64, place, sizeof u64);
        return u64;
    }
}

/* Of a difference that wraps in `width_bits`: small ones of either sign become small. */
static uint64_t zigzag(uint64_t difference, unsigned width_bits)
{
    uint64_t mask = width_bits == 64 ? UINT64_MAX : (UINT64_C(1) << width_bits) - 1;
    bool is_negative = (difference >> (width_bits - 1) & 1) != 0;
    return ((difference << 1) ^ (is_negative ? UINT64_MAX : 0)) & mask;
}

/* Bytes number [from, from + size_bytes) of one plane. */
static void fill_plane(const hr__view_column *column, unsigned plane, size_t from, uint8_t *bytes,
                       size_t size_bytes)
{
    unsigned width_bits = 8 * column->width_bytes;
    if (column->width_bytes == 1) {
        for (size_t i = 0; i < size_bytes; i++)
            bytes[i] = (uint8_t)value_at(column, from + i);
        return;
    }
    uint64_t before = from != 0 ? value_at(column, from - 1) : 0;
    for (size_t i = 0; i < size_bytes; i++) {
        uint64_t value = value_at(column, from + i);
        bytes[i] = (uint8_t)(zigzag(value - before, width_bits) >> (8 * plane));
        before = value;
    }
}

/* Hands what is in the stream's input to zlib, and what comes out to the buffer. */
static hr_status deflate_some(hr__view_columns *columns, int flush)
{
    uint8_t out[CHUNK_BYTES];
    z_stream *stream = &columns->stream;
    do {
        stream->next_out = out;
        stream->avail_out = sizeof out;
        if (deflate(stream, flush) == Z_STREAM_ERROR)
            return hr__fail(HR_ERR_WRONG_STATE, "zlib refused to compress a column");
        hr__append_bytes(&columns->data, out, sizeof out - stream->avail_out);
    } while (stream->avail_out == 0);
    return HR_OK;
}

static hr_status compress_column(hr__view_columns *columns, const hr__view_column *column)
{
    uint8_t bytes[CHUNK_BYTES];
    for (unsigned plane = 0; plane < column->width_bytes; plane++) {
        for (size_t from = 0; from < column->count; from += sizeof bytes) {
            size_t size_bytes = (size_t)hr__min_u64(column->count - from, sizeof bytes);
            fill_plane(column, plane, from, bytes, size_bytes);
            columns->stream.next_in = bytes;
            columns->stream.avail_in = (uInt)size_bytes;
            HR__TRY(deflate_some(columns, Z_NO_FLUSH));
        }
    }
    columns->stream.next_in = bytes;
    columns->stream.avail_in = 0;
    return deflate_some(columns, Z_FINISH);
}

static hr_status begin_stream(hr__view_columns *columns)
{
    if (columns->has_stream) {
        deflateReset(&columns->stream);
        return HR_OK;
    }
    hr__zlib_use_host_memory(&columns->stream);
    if (deflateInit(&columns->stream, LEVEL) != Z_OK)
        return hr__fail_host_memory(256 << 10, "compressing a view");
    columns->has_stream = true;
    return HR_OK;
}

static hr_status new_entry(hr__view_columns *columns, hr__view_entry **out)
{
    if (columns->entry_count == columns->entry_capacity) {
        size_t capacity = columns->entry_capacity * 2 + 64;
        hr__view_entry *grown = hr__host_realloc(columns->entries, capacity * sizeof *grown);
        if (grown == NULL)
            return hr__fail_host_memory(capacity * sizeof *grown, "the columns of a view");
        columns->entries = grown;
        columns->entry_capacity = capacity;
    }
    *out = &columns->entries[columns->entry_count++];
    return HR_OK;
}

hr_status hr__view_columns_add(hr__view_columns *columns, const char *name, hr__view_column column)
{
    hr__view_entry *entry;
    HR__TRY(begin_stream(columns));
    HR__TRY(new_entry(columns, &entry));
    *entry = (hr__view_entry){.width_bytes = column.width_bytes,
                              .count = column.count,
                              .offset_bytes = hr__byte_buffer_size(&columns->data)};
    snprintf(entry->name, sizeof entry->name, "%.20s%.27s", columns->prefix, name);
    HR__TRY(compress_column(columns, &column));
    if (hr__byte_buffer_has_failed(&columns->data))
        return hr__fail_host_memory(columns->data.capacity_bytes, "the columns of a view");
    entry->size_bytes = hr__byte_buffer_size(&columns->data) - entry->offset_bytes;
    return HR_OK;
}

/* ---- the container --------------------------------------------------------------------------- */

/* The header up to its body, with columns that begin at `data_offset`. */
static void write_columns(const hr__view_columns *columns, uint64_t data_offset,
                          hr__byte_buffer *buffer)
{
    hr__json json;
    hr__byte_buffer_clear(buffer);
    hr__json_init(&json, buffer);
    hr__json_begin_object(&json, NULL);
    hr__json_unsigned(&json, "format", FORMAT_NUMBER);
    hr__json_text(&json, "headroom", HR_VERSION_STRING);
    hr__json_begin_array(&json, "columns");
    for (size_t i = 0; i < columns->entry_count; i++) {
        const hr__view_entry *entry = &columns->entries[i];
        char type[8];
        snprintf(type, sizeof type, "u%u", 8 * entry->width_bytes);
        hr__json_begin_object(&json, NULL);
        hr__json_text(&json, "name", entry->name);
        hr__json_text(&json, "type", type);
        hr__json_unsigned(&json, "count", entry->count);
        hr__json_unsigned(&json, "offset", data_offset + entry->offset_bytes);
        hr__json_unsigned(&json, "bytes", entry->size_bytes);
        hr__json_end_object(&json);
    }
    hr__json_end_array(&json);
}

static const char between[] = ", ", behind[] = "}";

static uint64_t header_bytes(const hr__byte_buffer *listed, const hr__byte_buffer *body)
{
    return hr__byte_buffer_size(listed) + (sizeof between - 1) + hr__byte_buffer_size(body) +
           (sizeof behind - 1);
}

static void write_container(const hr__view_columns *columns, const hr__byte_buffer *listed,
                            const hr__byte_buffer *body, uint64_t data_offset, hr__byte_buffer *out)
{
    static const char magic[MAGIC_BYTES] = {'H', 'R', 'V', 'I', 'E', 'W', 0, 1};
    static const char zeros[ALIGNMENT_BYTES] = {0};
    uint64_t header = header_bytes(listed, body);
    hr__append_bytes(out, magic, sizeof magic);
    hr__append_u32_le(out, (uint32_t)header);
    hr__append_u32_le(out, 0);
    hr__append_bytes(out, hr__byte_buffer_text(listed), hr__byte_buffer_size(listed));
    hr__append_bytes(out, between, sizeof between - 1);
    hr__append_bytes(out, hr__byte_buffer_text(body), hr__byte_buffer_size(body));
    hr__append_bytes(out, behind, sizeof behind - 1);
    hr__append_bytes(out, zeros, (size_t)(data_offset - LEAD_BYTES - header));
    hr__append_bytes(out, hr__byte_buffer_text(&columns->data),
                     hr__byte_buffer_size(&columns->data));
}

hr_status hr__view_columns_finish(const hr__view_columns *columns, const hr__byte_buffer *body,
                                  char **bytes, size_t *size_bytes)
{
    hr__byte_buffer listed, out;
    uint64_t data_offset = 0, found;
    hr__byte_buffer_init(&listed);
    hr__byte_buffer_init(&out);
    for (;;) {
        write_columns(columns, data_offset, &listed);
        found = LEAD_BYTES + header_bytes(&listed, body);
        found += (ALIGNMENT_BYTES - found % ALIGNMENT_BYTES) % ALIGNMENT_BYTES;
        if (found <= data_offset || hr__byte_buffer_has_failed(&listed))
            break;
        data_offset = found;
    }
    hr_status status = HR_OK;
    if (hr__byte_buffer_has_failed(&listed) || hr__byte_buffer_has_failed(body))
        status = hr__fail_host_memory(listed.capacity_bytes, "the header of a view");
    else if (found > UINT32_MAX)
        status = hr__fail(HR_ERR_UNSUPPORTED, "a view whose header takes %llu bytes",
                          (unsigned long long)found);
    if (status == HR_OK) {
        write_container(columns, &listed, body, data_offset, &out);
        *bytes = hr__byte_buffer_detach(&out, size_bytes);
        if (*bytes == NULL)
            status = hr__fail_host_memory(columns->data.size_bytes + found, "a view");
    }
    hr__byte_buffer_deinit(&out);
    hr__byte_buffer_deinit(&listed);
    return status;
}
