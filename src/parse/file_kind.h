/* file_kind.h - what a file is: a recording, text, or something that cannot be read.
 *
 * The content decides, not the name. Input often comes through a pipe, where nothing can be read
 * twice, so the first bytes must be enough. Compressed files are detected below this, in
 * byte_source.c: the bytes here are already unpacked. */
#ifndef VW_PARSE_FILE_KIND_H
#define VW_PARSE_FILE_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"

#define VW__FILE_KIND_BYTES ((size_t)64 << 10) /* how many first bytes the detection looks at */

/* Sets `*is_recording` to whether the bytes begin a memory snapshot (a pickle or JSON); false means
 * text. VW_ERR_CORRUPT_FILE, with the reason, for formats that cannot be read: archives, images,
 * checkpoints. */
VW_MUST_CHECK vw_status vw__file_kind_detect(const uint8_t *bytes, size_t size_bytes,
                                             bool *is_recording);

#endif /* VW_PARSE_FILE_KIND_H */
