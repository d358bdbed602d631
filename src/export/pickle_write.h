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
typedef struct vw__export_pickle_sink {
    void *context;
    bool (*write)(void *context, const void *bytes, size_t size_bytes);
} vw__export_pickle_sink;

enum { VW__EXPORT_PICKLE_BUFFER_BYTES = 1 << 16 };

typedef struct vw__export_pickle {
    vw__export_pickle_sink sink;
    char *buffer; /* owned; VW__EXPORT_PICKLE_BUFFER_BYTES */
    size_t used_bytes;
    uint32_t memo_count;
    bool has_failed; /* the sink took no more, or there were too many memos */
} vw__export_pickle;

/* Takes the buffer and begins the pickle. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__export_pickle_init(vw__export_pickle *pickle,
                                               const vw__export_pickle_sink *sink);

/* Ends the pickle and sends what is left. VW_ERR_FILE: the sink ended it at some point. */
VW_MUST_CHECK vw_status vw__export_pickle_finish(vw__export_pickle *pickle);
void vw__export_pickle_deinit(vw__export_pickle *pickle);

/* ---- values ---------------------------------------------------------------------------------- */

void vw__export_pickle_boolean(vw__export_pickle *pickle, bool is_true);
void vw__export_pickle_integer(vw__export_pickle *pickle, int64_t number);
void vw__export_pickle_unsigned(vw__export_pickle *pickle, uint64_t number);
void vw__export_pickle_float(vw__export_pickle *pickle, double number);

/* Bytes that are not UTF-8, which Python would refuse, become U+FFFD each. Texts of 4 GiB and more
 * are cut. */
void vw__export_pickle_text(vw__export_pickle *pickle, const char *bytes, size_t size_bytes);

/* Pairs follow, each a key and a value. */
void vw__export_pickle_begin_dict(vw__export_pickle *pickle);
void vw__export_pickle_end_dict(vw__export_pickle *pickle);

/* Turns the two values written last into a pair (a tuple). */
void vw__export_pickle_pair(vw__export_pickle *pickle);

/* A list is handed to its reader in portions, so that neither side holds a million items that are
 * in no list yet. vw__export_pickle_next_item() goes before each item. */
typedef struct vw__export_pickle_list {
    unsigned in_portion;
} vw__export_pickle_list;

void vw__export_pickle_begin_list(vw__export_pickle *pickle, vw__export_pickle_list *list);
void vw__export_pickle_next_item(vw__export_pickle *pickle, vw__export_pickle_list *list);
void vw__export_pickle_end_list(vw__export_pickle *pickle, vw__export_pickle_list *list);

/* ---- the memo -------------------------------------------------------------------------------- */

/* Remembers the value written last (a container: ended or not yet filled) under the number
 * returned. */
uint32_t vw__export_pickle_memoize(vw__export_pickle *pickle);
void vw__export_pickle_fetch(vw__export_pickle *pickle, uint32_t memo);

#endif /* VW_EXPORT_PICKLE_WRITE_H */
