/* view_columns.c - differences, zigzag, planes; and the header that says what is where.
 *
 * The header names the offsets of the columns, which lie behind it, and the length of those numbers
 * is part of its own. So the list of columns is written with a guess of where they begin, and again
 * with what came out, until both agree. Numbers only get longer, so that ends soon. */
#include "view/view_columns.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vramwise/version.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "export/json_write.h"
#ifdef VW_HAS_ZLIB
#include "parse/zlib_memory.h"
#endif

enum { CHUNK_BYTES = 16 << 10 };
enum { FORMAT_NUMBER = 1, MAGIC_BYTES = 8, LEAD_BYTES = 16, ALIGNMENT_BYTES = 8 };

/* ---- compression: one stream after the other, with the memory of the first ---------------------
 */

#ifdef VW_HAS_ZLIB

enum { LEVEL = 4 }; /* twice as fast as 6, and a tenth larger */

struct vw__view_deflate {
    z_stream stream;
};

static vw_status compressor_begin(vw__view_deflate **deflate)
{
    if (*deflate != NULL) {
        deflateReset(&(*deflate)->stream);
        return VW_OK;
    }
    vw__view_deflate *made = vw__host_alloc_zeroed(1, sizeof *made);
    if (made == NULL)
        return vw__fail_host_memory(sizeof *made, "compressing a view");
    vw__zlib_use_host_memory(&made->stream);
    if (deflateInit(&made->stream, LEVEL) != Z_OK) {
        vw__host_free(made);
        return vw__fail_host_memory(256 << 10, "compressing a view");
    }
    *deflate = made;
    return VW_OK;
}

static vw_status compress_some(z_stream *stream, const uint8_t *bytes, size_t size_bytes, int flush,
                               vw__byte_buffer *buffer)
{
    uint8_t out[CHUNK_BYTES];
    stream->next_in = bytes;
    stream->avail_in = (uInt)size_bytes;
    do {
        stream->next_out = out;
        stream->avail_out = sizeof out;
        if (deflate(stream, flush) == Z_STREAM_ERROR)
            return vw__fail(VW_ERR_WRONG_STATE, "zlib refused to compress a column");
        vw__append_bytes(buffer, out, sizeof out - stream->avail_out);
    } while (stream->avail_out == 0);
    return VW_OK;
}

static vw_status compressor_add(vw__view_deflate *deflate, const uint8_t *bytes, size_t size_bytes,
                                vw__byte_buffer *out)
{
    return compress_some(&deflate->stream, bytes, size_bytes, Z_NO_FLUSH, out);
}

static vw_status compressor_end(vw__view_deflate *deflate, vw__byte_buffer *out)
{
    static const uint8_t nothing;
    return compress_some(&deflate->stream, &nothing, 0, Z_FINISH, out);
}

static void compressor_destroy(vw__view_deflate *deflate)
{
    if (deflate == NULL)
        return;
    deflateEnd(&deflate->stream);
    vw__host_free(deflate);
}

#else

static vw_status compressor_begin(vw__view_deflate **deflate)
{
    (void)deflate;
    return vw__fail(VW_ERR_UNSUPPORTED, "this build has no zlib, which the page needs");
}

static vw_status compressor_add(vw__view_deflate *deflate, const uint8_t *bytes, size_t size_bytes,
                                vw__byte_buffer *out)
{
    (void)bytes, (void)size_bytes, (void)out;
    return compressor_begin(&deflate);
}

static vw_status compressor_end(vw__view_deflate *deflate, vw__byte_buffer *out)
{
    (void)out;
    return compressor_begin(&deflate);
}

static void compressor_destroy(vw__view_deflate *deflate)
{
    (void)deflate;
}

#endif

/* ---- columns --------------------------------------------------------------------------------- */

void vw__view_columns_init(vw__view_columns *columns)
{
    *columns = (vw__view_columns){.entries = NULL};
    vw__byte_buffer_init(&columns->data);
}

void vw__view_columns_deinit(vw__view_columns *columns)
{
    compressor_destroy(columns->deflate);
    vw__byte_buffer_deinit(&columns->data);
    vw__host_free(columns->entries);
    vw__view_columns_init(columns);
}

void vw__view_columns_prefix(vw__view_columns *columns, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(columns->prefix, sizeof columns->prefix, format, args);
    va_end(args);
}

/* ---- encoding -------------------------------------------------------------------------------- */

static uint64_t value_at(const vw__view_column *column, size_t index)
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

/* Zigzag of a difference modulo 2^`width_bits`: small differences of either sign become small. */
static uint64_t zigzag(uint64_t difference, unsigned width_bits)
{
    uint64_t mask = width_bits == 64 ? UINT64_MAX : (UINT64_C(1) << width_bits) - 1;
    bool is_negative = (difference >> (width_bits - 1) & 1) != 0;
    return ((difference << 1) ^ (is_negative ? UINT64_MAX : 0)) & mask;
}

/* Bytes number [from, from + size_bytes) of one plane. */
static void fill_plane(const vw__view_column *column, unsigned plane, size_t from, uint8_t *bytes,
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

static vw_status compress_column(vw__view_columns *columns, const vw__view_column *column)
{
    uint8_t bytes[CHUNK_BYTES];
    for (unsigned plane = 0; plane < column->width_bytes; plane++) {
        for (size_t from = 0; from < column->count; from += sizeof bytes) {
            size_t size_bytes = (size_t)vw__min_u64(column->count - from, sizeof bytes);
            fill_plane(column, plane, from, bytes, size_bytes);
            VW__TRY(compressor_add(columns->deflate, bytes, size_bytes, &columns->data));
        }
    }
    return compressor_end(columns->deflate, &columns->data);
}

static vw_status new_entry(vw__view_columns *columns, vw__view_entry **out)
{
    if (columns->entry_count == columns->entry_capacity) {
        size_t capacity = columns->entry_capacity * 2 + 64;
        vw__view_entry *grown = vw__host_realloc(columns->entries, capacity * sizeof *grown);
        if (grown == NULL)
            return vw__fail_host_memory(capacity * sizeof *grown, "the columns of a view");
        columns->entries = grown;
        columns->entry_capacity = capacity;
    }
    *out = &columns->entries[columns->entry_count++];
    return VW_OK;
}

vw_status vw__view_columns_add(vw__view_columns *columns, const char *name, vw__view_column column)
{
    vw__view_entry *entry;
    VW__TRY(compressor_begin(&columns->deflate));
    VW__TRY(new_entry(columns, &entry));
    *entry = (vw__view_entry){.width_bytes = column.width_bytes,
                              .count = column.count,
                              .offset_bytes = vw__byte_buffer_size(&columns->data)};
    snprintf(entry->name, sizeof entry->name, "%.20s%.27s", columns->prefix, name);
    VW__TRY(compress_column(columns, &column));
    if (vw__byte_buffer_has_failed(&columns->data))
        return vw__fail_host_memory(columns->data.capacity_bytes, "the columns of a view");
    entry->size_bytes = vw__byte_buffer_size(&columns->data) - entry->offset_bytes;
    return VW_OK;
}

/* ---- the container --------------------------------------------------------------------------- */

/* The header up to its body, with columns that begin at `data_offset`. */
static void write_columns(const vw__view_columns *columns, uint64_t data_offset,
                          vw__byte_buffer *buffer)
{
    vw__json json;
    vw__byte_buffer_clear(buffer);
    vw__json_init(&json, buffer);
    vw__json_begin_object(&json, NULL);
    vw__json_unsigned(&json, "format", FORMAT_NUMBER);
    vw__json_text(&json, "vramwise", VW_VERSION_STRING);
    vw__json_begin_array(&json, "columns");
    for (size_t i = 0; i < columns->entry_count; i++) {
        const vw__view_entry *entry = &columns->entries[i];
        char type[8];
        snprintf(type, sizeof type, "u%u", 8 * entry->width_bytes);
        vw__json_begin_object(&json, NULL);
        vw__json_text(&json, "name", entry->name);
        vw__json_text(&json, "type", type);
        vw__json_unsigned(&json, "count", entry->count);
        vw__json_unsigned(&json, "offset", data_offset + entry->offset_bytes);
        vw__json_unsigned(&json, "bytes", entry->size_bytes);
        vw__json_end_object(&json);
    }
    vw__json_end_array(&json);
}

static const char between[] = ", ", behind[] = "}";

static uint64_t header_bytes(const vw__byte_buffer *listed, const vw__byte_buffer *body)
{
    return vw__byte_buffer_size(listed) + (sizeof between - 1) + vw__byte_buffer_size(body) +
           (sizeof behind - 1);
}

static void write_container(const vw__view_columns *columns, const vw__byte_buffer *listed,
                            const vw__byte_buffer *body, uint64_t data_offset, vw__byte_buffer *out)
{
    static const char magic[MAGIC_BYTES] = {'V', 'W', 'V', 'I', 'E', 'W', 0, 1};
    static const char zeros[ALIGNMENT_BYTES] = {0};
    uint64_t header = header_bytes(listed, body);
    vw__append_bytes(out, magic, sizeof magic);
    vw__append_u32_le(out, (uint32_t)header);
    vw__append_u32_le(out, 0);
    vw__append_bytes(out, vw__byte_buffer_text(listed), vw__byte_buffer_size(listed));
    vw__append_bytes(out, between, sizeof between - 1);
    vw__append_bytes(out, vw__byte_buffer_text(body), vw__byte_buffer_size(body));
    vw__append_bytes(out, behind, sizeof behind - 1);
    vw__append_bytes(out, zeros, (size_t)(data_offset - LEAD_BYTES - header));
    vw__append_bytes(out, vw__byte_buffer_text(&columns->data),
                     vw__byte_buffer_size(&columns->data));
}

vw_status vw__view_columns_finish(const vw__view_columns *columns, const vw__byte_buffer *body,
                                  char **bytes, size_t *size_bytes)
{
    vw__byte_buffer listed, out;
    uint64_t data_offset = 0, found;
    vw__byte_buffer_init(&listed);
    vw__byte_buffer_init(&out);
    for (;;) {
        write_columns(columns, data_offset, &listed);
        found = LEAD_BYTES + header_bytes(&listed, body);
        found += (ALIGNMENT_BYTES - found % ALIGNMENT_BYTES) % ALIGNMENT_BYTES;
        if (found <= data_offset || vw__byte_buffer_has_failed(&listed))
            break;
        data_offset = found;
    }
    vw_status status = VW_OK;
    if (vw__byte_buffer_has_failed(&listed) || vw__byte_buffer_has_failed(body))
        status = vw__fail_host_memory(listed.capacity_bytes, "the header of a view");
    else if (found > UINT32_MAX)
        status = vw__fail(VW_ERR_UNSUPPORTED, "a view whose header takes %llu bytes",
                          (unsigned long long)found);
    if (status == VW_OK) {
        write_container(columns, &listed, body, data_offset, &out);
        *bytes = vw__byte_buffer_detach(&out, size_bytes);
        if (*bytes == NULL)
            status = vw__fail_host_memory(columns->data.size_bytes + found, "a view");
    }
    vw__byte_buffer_deinit(&out);
    vw__byte_buffer_deinit(&listed);
    return status;
}
