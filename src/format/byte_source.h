/* byte_source.h - the bytes of a file, whatever it is compressed with.
 *
 * gzip, xz and zstd are told by their first bytes and taken apart on the way; anything else is
 * passed through. The reader sees one window after the other and never the whole, so a file that
 * grows a thousandfold costs time in proportion to what is read of it, and no memory. How much may
 * come out is limited all the same.
 *
 * No locks: one thread at a time. */
#ifndef HR_FORMAT_BYTE_SOURCE_H
#define HR_FORMAT_BYTE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"

typedef struct hr__byte_source hr__byte_source;

typedef enum hr__compression {
    HR__PLAIN,
    HR__GZIP,
    HR__XZ,
    HR__ZSTD,
} hr__compression;

typedef struct hr__byte_source_options {
    uint64_t output_limit_bytes; /* after decompression; 0 = HR__SOURCE_DEFAULT_LIMIT_BYTES */

    /* Called now and then with the bytes of the file read so far, and its size (0 = not known).
     * Returns false to end the reading, which then fails with HR_ERR_WRONG_STATE. Or NULL. */
    bool (*progress)(void *context, uint64_t read_bytes, uint64_t file_bytes);
    void *progress_context;
} hr__byte_source_options;

#define HR__SOURCE_DEFAULT_LIMIT_BYTES (UINT64_C(64) << 30)

/* "-" is standard input. HR_ERR_FILE: it cannot be opened or read (with the system's words), is a
 * directory. `options` may be NULL. Waits for the first few bytes, to see what they are. */
HR_MUST_CHECK hr_status hr__byte_source_open(const char *path,
                                             const hr__byte_source_options *options,
                                             hr__byte_source **out);

/* `bytes` are borrowed until close. */
HR_MUST_CHECK hr_status hr__byte_source_open_memory(const void *bytes, size_t size_bytes,
                                                    const hr__byte_source_options *options,
                                                    hr__byte_source **out);
void hr__byte_source_close(hr__byte_source *source); /* NULL does nothing */

hr__compression hr__byte_source_compression(const hr__byte_source *source);
const char *hr__compression_name(hr__compression compression); /* "plain", "gzip", ... */

/* Where the next byte that take() gives lies, counted after decompression. */
uint64_t hr__byte_source_offset(const hr__byte_source *source);
uint64_t hr__byte_source_file_bytes(const hr__byte_source *source); /* read of the file so far */

/* Makes at least `wanted_bytes` of what comes next visible in one piece, or all that is left if
 * that is less, and takes none of it: `*bytes` and `*size_bytes` are the window, valid until the
 * next call. 0 bytes: the end. `wanted_bytes` up to HR__SOURCE_LARGEST_PEEK_BYTES grows the window;
 * HR_ERR_CORRUPT_FILE beyond that, for damaged compressed data (what, where), a compressed file
 * that ends too early, and the output limit; HR_ERR_UNSUPPORTED for compressed data that wants too
 * much memory; HR_ERR_FILE, HR_ERR_HOST_MEMORY, HR_ERR_WRONG_STATE. A source that has failed to get
 * more goes on failing. */
HR_MUST_CHECK hr_status hr__byte_source_peek(hr__byte_source *source, size_t wanted_bytes,
                                             const uint8_t **bytes, size_t *size_bytes);

/* Takes bytes of the last window. */
void hr__byte_source_take(hr__byte_source *source, size_t size_bytes);

#define HR__SOURCE_LARGEST_PEEK_BYTES ((size_t)256 << 20)

#endif /* HR_FORMAT_BYTE_SOURCE_H */
