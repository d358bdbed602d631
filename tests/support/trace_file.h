/* trace_file.h - reading what extract_trace.py made of a PyTorch recording.
 *
 * The file is text, one thing a line, numbers in hexadecimal without prefix unless said otherwise:
 *
 *   headroom-trace 1          the form
 *   conf TEXT                 what PYTORCH_CUDA_ALLOC_CONF held; may be empty
 *   total BYTES               the device's memory
 *   fraction NUMBER           of set_per_process_memory_fraction(), as strtod() reads it; or no
 * line
 *
 * then what happened, in order, as LETTER ADDRESS SIZE [STREAM], the stream left out where it is 0:
 *
 *   a alloc                   S segment_alloc     M segment_map
 *   r free_requested          s segment_free      m segment_unmap     inside a request
 *   c free_completed          t segment_free      u segment_unmap     by empty_cache()
 *   f r and c, at once        o oom (ADDRESS: the device's free bytes)
 *   n snapshot
 *   scope A B                 requests from here on belong to private pool (A, B); (0, 0): to none
 *   release A B               nobody uses private pool (A, B) any more
 *   unsplit A B               private pool (A, B) is made: its blocks are handed out whole
 *
 * The last three are no events: extract_trace.py concluded them. Then how things stood at the end:
 *
 *   segment ADDRESS BYTES STREAM small|large A B IS_EXPANDABLE ALLOCATED ACTIVE REQUESTED
 *   block ADDRESS BYTES REQUESTED live|pending|free          of the segment above it
 *   stat KEY VALUE            one of memory_stats(), in decimal
 *   summary TEXT              one line of memory_summary()
 *   text TEXT                 of the OutOfMemoryError, if there was one
 *   end                       so that a cut file is noticed */
#ifndef HR_TESTS_TRACE_FILE_H
#define HR_TESTS_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/headroom.h"

typedef enum hr_test_trace_kind {
    HR_TEST_EVENT,   /* `action` happened */
    HR_TEST_SCOPE,   /* address and size_bytes: the private pool's id */
    HR_TEST_RELEASE, /* the same */
    HR_TEST_UNSPLIT, /* the same */
} hr_test_trace_kind;

typedef struct hr_test_trace_event {
    uint64_t address;
    uint64_t size_bytes;
    hr_stream stream;
    uint8_t kind;     /* hr_test_trace_kind */
    uint8_t action;   /* hr_action */
    bool is_deferred; /* free_requested: other streams used the block, free_completed comes later */
    bool is_from_trim; /* segment_free, segment_unmap: not inside a request */
} hr_test_trace_event;

typedef struct hr_test_trace_stat {
    const char *key;
    int64_t value;
} hr_test_trace_stat;

/* Everything is owned by the struct and read-only, except that a test may alter events. */
typedef struct hr_test_trace {
    char *bytes; /* of the file; strings below point into it */
    const char *conf;
    uint64_t total_bytes;
    double fraction;      /* 1.0 = none set */
    const char *oom_text; /* NULL = did not run out of memory */
    char *summary;        /* all lines, each with its newline */

    hr_test_trace_event *events;
    size_t event_count;
    hr_segment_info *segments; /* `tag` is 0 throughout */
    size_t segment_count;
    hr_block_info *blocks; /* of all segments, one after the other; the same */
    size_t block_count;
    hr_test_trace_stat *stats;
    size_t stat_count;
} hr_test_trace;

/* Reads a file. On failure writes what is wrong, and the line, into `complaint`, returns false, and
 * `trace` needs no deinit. */
bool hr_test_trace_read(const char *path, hr_test_trace *trace, char *complaint,
                        size_t complaint_bytes);

/* The same for `size_bytes` of text that are copied. */
bool hr_test_trace_parse(const char *text, size_t size_bytes, hr_test_trace *trace, char *complaint,
                         size_t complaint_bytes);

void hr_test_trace_deinit(hr_test_trace *trace);

#endif /* HR_TESTS_TRACE_FILE_H */
