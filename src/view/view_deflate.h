/* view_deflate.h - zlib's compression, for the columns of a view. Without zlib there is no view.
 *
 * One stream after the other, with the memory of the first. No locks: one thread at a time. */
#ifndef VW_VIEW_VIEW_DEFLATE_H
#define VW_VIEW_VIEW_DEFLATE_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "base/byte_buffer.h"

typedef struct vw__view_deflate vw__view_deflate;

/* Begins a stream; `*deflate` is made if it is NULL. VW_ERR_UNSUPPORTED: this build has no zlib. */
VW_MUST_CHECK vw_status vw__view_deflate_begin(vw__view_deflate **deflate);

/* What comes out goes to `out`, whose own failure the caller checks. */
VW_MUST_CHECK vw_status vw__view_deflate_add(vw__view_deflate *deflate, const uint8_t *bytes,
                                             size_t size_bytes, vw__byte_buffer *out);
VW_MUST_CHECK vw_status vw__view_deflate_end(vw__view_deflate *deflate, vw__byte_buffer *out);

void vw__view_deflate_destroy(vw__view_deflate *deflate); /* NULL does nothing */

#endif /* VW_VIEW_VIEW_DEFLATE_H */
