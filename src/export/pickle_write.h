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
#ifndef HR_EXPORT_PICKLE_WRITE_H
#define HR_EXPORT_PICKLE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"

/* Where the bytes go. `write` takes all of them, or returns false to end it. */
typedef struct hr__pickle_sink {
    void *context;
    bool (*write)(void *context, const void *bytes, size_t size_bytes);
} hr__pickle_sink;

enum { HR__PICKLE_BUFFER_BYTES = 1 << 16 };

typedef struct hr__pickle {
    hr__pickle_sink sink;
    char *buffer; /* owned; HR__PICKLE_BUFFER_BYTES */
    size_t used_bytes;
    uint32_t memo_count;
    bool has_failed; /* the sink took no more, or there were too many memos */
} hr__pickle;

/* Takes the buffer and begins the pickle. HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__pickle_init(hr__pickle *pickle, const hr__pickle_sink *sink);

/* Ends the pickle and sends what is left. HR_ERR_FILE: the sink ended it at some point. */
HR_MUST_CHECK hr_status hr__pickle_finish(hr__pickle *pickle);
void hr__pickle_deinit(hr__pickle *pickle);

/* ---- values ---------------------------------------------------------------------------------- */

void hr__pickle_boolean(hr__pickle *pickle, bool is_true);
void hr__pickle_integer(hr__pickle *pickle, int64_t number);
void hr__pickle_unsigned(hr__pickle *pickle, uint64_t number);
void hr__pickle_float(hr__pickle *pickle, double number);

/* Bytes that are not UTF-8, which Python would refuse, become U+FFFD each. Texts of 4 GiB and more
 * are cut. */
void hr__pickle_text(hr__pickle *pickle, const char *bytes, size_t size_bytes);

/* Pairs follow, each a key and a value. */
void hr__pickle_begin_dict(hr__pickle *pickle);
void hr__pickle_end_dict(hr__pickle *pickle);

/* Turns the two values written last into a pair (a tuple). */
void hr__pickle_pair(hr__pickle *pickle);

/* A list is handed to its reader in portions, so that neither side holds a million items that are
 * in no list yet. hr__pickle_next_item() goes before each item. */
typedef struct hr__pickle_list {
    unsigned in_portion;
} hr__pickle_list;

void hr__pickle_begin_list(hr__pickle *pickle, hr__pickle_list *list);
void hr__pickle_next_item(hr__pickle *pickle, hr__pickle_list *list);
void hr__pickle_end_list(hr__pickle *pickle, hr__pickle_list *list);

/* ---- the memo -------------------------------------------------------------------------------- */

/* Remembers the value written last (a container: ended or not yet filled) under the number
 * returned. */
uint32_t hr__pickle_memoize(hr__pickle *pickle);
void hr__pickle_fetch(hr__pickle *pickle, uint32_t memo);

#endif /* HR_EXPORT_PICKLE_WRITE_H */
