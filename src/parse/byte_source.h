/* byte_source.h - the bytes of a file, whatever it is compressed with.
 *
 * gzip, xz and zstd are detected by their first bytes and unpacked on the way; anything else is
 * passed through. The reader sees one window after the other and never the whole, so what a file
 * grows to costs time in proportion to what is read of it, and no memory. The unpacked size is
 * limited, and so is its ratio to the size of the file.
 *
 * No locks: one thread at a time. */
#ifndef VW_PARSE_BYTE_SOURCE_H
#define VW_PARSE_BYTE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"

typedef struct vw__byte_source vw__byte_source;

typedef enum vw__byte_source_packing {
    VW__BYTE_SOURCE_PLAIN,
    VW__BYTE_SOURCE_GZIP,
    VW__BYTE_SOURCE_XZ,
    VW__BYTE_SOURCE_ZSTD,
} vw__byte_source_packing;

typedef struct vw__byte_source_options {
    uint64_t output_limit_bytes; /* after decompression; 0 = VW__BYTE_SOURCE_DEFAULT_LIMIT_BYTES */

    /* Called now and then with the bytes of the file read so far, and its size (0 = not known).
     * Returns false to end the reading, which then fails with VW_ERR_WRONG_STATE. Or NULL. */
    bool (*progress)(void *context, uint64_t read_bytes, uint64_t file_bytes);
    void *progress_context;

    /* The file was found, and not named by the user: somebody else may have put it there. It must
     * be a plain file, or a link to one that is this user's, root's or the file's owner's. */
    bool is_found;

    /* With is_found: the bytes of the path that are the folder which the user named. Those behind
     * it are found, too, when the file is opened: one may have become a link. 0 = all but the
     * last name. */
    size_t named_bytes;
} vw__byte_source_options;

#define VW__BYTE_SOURCE_DEFAULT_LIMIT_BYTES (UINT64_C(64) << 30)

/* A compressed file may become this many times as large, or VW__BYTE_SOURCE_SMALL_BYTES if that is
 * more. Recordings and logs become 5 to 100 times as large; what becomes more was made to. A file
 * with holes may be this many times as large as the room that it has on the disk. */
#define VW__BYTE_SOURCE_LARGEST_GROWTH 1000
#define VW__BYTE_SOURCE_SMALL_BYTES (UINT64_C(256) << 20)

/* "-" is standard input. VW_ERR_FILE: it cannot be opened or read (with the system's words), is a
 * directory, or a device, which may have no end (terminals and /dev/null are read). `options` may
 * be NULL. Waits for the first few bytes, to see what they are, and so for whoever writes to a
 * pipe. */
VW_MUST_CHECK vw_status vw__byte_source_open(const char *path,
                                             const vw__byte_source_options *options,
                                             vw__byte_source **out);

/* `bytes` are borrowed until close. */
VW_MUST_CHECK vw_status vw__byte_source_open_memory(const void *bytes, size_t size_bytes,
                                                    const vw__byte_source_options *options,
                                                    vw__byte_source **out);
void vw__byte_source_close(vw__byte_source *source); /* NULL does nothing */

vw__byte_source_packing vw__byte_source_compression(const vw__byte_source *source);
const char *
vw__byte_source_packing_name(vw__byte_source_packing compression); /* "plain", "gzip", ... */

/* The offset of the window in the unpacked data. */
uint64_t vw__byte_source_offset(const vw__byte_source *source);
uint64_t vw__byte_source_file_bytes(const vw__byte_source *source); /* read of the file so far */

/* Makes at least `wanted_bytes` of what comes next visible in one piece, or all that is left if
 * that is less, and takes none of it: `*bytes` and `*size_bytes` are the window, valid until the
 * next call. 0 bytes: the end. `wanted_bytes` up to VW__BYTE_SOURCE_LARGEST_PEEK_BYTES grows the
 * window; VW_ERR_CORRUPT_FILE beyond that, for damaged compressed data (what, where), a compressed
 * file that ends too early, and the limits of output; VW_ERR_UNSUPPORTED for compressed data that
 * wants too much memory; VW_ERR_FILE, VW_ERR_HOST_MEMORY, VW_ERR_WRONG_STATE. A source that has
 * failed to get more goes on failing. */
VW_MUST_CHECK vw_status vw__byte_source_peek(vw__byte_source *source, size_t wanted_bytes,
                                             const uint8_t **bytes, size_t *size_bytes);

/* Moves on by bytes of the last window. */
void vw__byte_source_take(vw__byte_source *source, size_t size_bytes);

#define VW__BYTE_SOURCE_LARGEST_PEEK_BYTES ((size_t)256 << 20)

#endif /* VW_PARSE_BYTE_SOURCE_H */
