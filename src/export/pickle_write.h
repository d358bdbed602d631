/* pickle_write.h - Python's pickle, written as it comes.
 *
 * Protocol 4, within the instructions that PyTorch's memory viewer in the browser knows too: no
 * LONG4, no BINUNICODE8, nothing that names or calls code. Frames (the FRAME instruction) are left
 * out: they are optional, and would have to be known before their content.
 *
 * A recording can be far larger than what a job has to spare, so nothing is gathered: bytes go to
 * the sink whenever a small buffer is full. Failure sticks, as in byte_buffer.h: the writer of a
 * format asks once, at the end.
 *
 * A value that occurs often is *memoized* after it was written, and from then on fetched by its
 * number; a reader gets the same object each time, not an equal one.
 *
 * No locks: one thread at a time. */
#ifndef VW_EXPORT_PICKLE_WRITE_H
#define VW_EXPORT_PICKLE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"

/* Where the bytes go. `write` takes all of them, or returns false to end it. */
typedef struct vw__pickle_sink {
    void *context;
    bool (*write)(void *context, const void *bytes, size_t size_bytes);
} vw__pickle_sink;

enum { VW__PICKLE_BUFFER_BYTES = 1 << 16 };

typedef struct vw__pickle {
    vw__pickle_sink sink;
    char *buffer; /* owned; VW__PICKLE_BUFFER_BYTES */
    size_t used_bytes;
    uint32_t memo_count;
    bool has_failed; /* the sink took no more, or there were too many memos */
} vw__pickle;

/* Takes the buffer and begins the pickle. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__pickle_init(vw__pickle *pickle, const vw__pickle_sink *sink);

/* Ends the pickle and sends what is left. VW_ERR_FILE: the sink ended it at some point. */
VW_MUST_CHECK vw_status vw__pickle_finish(vw__pickle *pickle);
void vw__pickle_deinit(vw__pickle *pickle);

/* ---- values ---------------------------------------------------------------------------------- */

void vw__pickle_boolean(vw__pickle *pickle, bool is_true);
void vw__pickle_integer(vw__pickle *pickle, int64_t number);
void vw__pickle_unsigned(vw__pickle *pickle, uint64_t number);
void vw__pickle_float(vw__pickle *pickle, double number);

/* Bytes that are not UTF-8, which Python would refuse, become U+FFFD each. Texts of 4 GiB and more
 * are cut. */
void vw__pickle_text(vw__pickle *pickle, const char *bytes, size_t size_bytes);

/* Pairs follow, each a key and a value. */
void vw__pickle_begin_dict(vw__pickle *pickle);
void vw__pickle_end_dict(vw__pickle *pickle);

/* Turns the two values written last into a pair (a tuple). */
void vw__pickle_pair(vw__pickle *pickle);

/* A list is handed to its reader in portions, so that neither side holds a million items that are
 * in no list yet. vw__pickle_next_item() goes before each item. */
typedef struct vw__pickle_list {
    unsigned in_portion;
} vw__pickle_list;

void vw__pickle_begin_list(vw__pickle *pickle, vw__pickle_list *list);
void vw__pickle_next_item(vw__pickle *pickle, vw__pickle_list *list);
void vw__pickle_end_list(vw__pickle *pickle, vw__pickle_list *list);

/* ---- the memo -------------------------------------------------------------------------------- */

/* Remembers the value written last (a container: ended or not yet filled) under the number
 * returned. */
uint32_t vw__pickle_memoize(vw__pickle *pickle);
void vw__pickle_fetch(vw__pickle *pickle, uint32_t memo);

#endif /* VW_EXPORT_PICKLE_WRITE_H */
