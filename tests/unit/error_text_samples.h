/* error_text_samples.h - a text scanned, and the ways in which texts arrive: broken by terminals,
 * with prefixes, in pieces. */
#ifndef VW_TESTS_ERROR_TEXT_SAMPLES_H
#define VW_TESTS_ERROR_TEXT_SAMPLES_H

#include <stdio.h>
#include <string.h>

#include "parse/error_text.h"
#include "support/cmocka_here.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)
#define UNKNOWN VW__MODEL_UNKNOWN_BYTES

/* "21.34 GiB", as the program counted it: to the nearest byte. */
#define HUNDREDTHS(hundredths, unit_bytes) ((uint64_t)((hundredths) / 100.0 * (unit_bytes) + 0.5))

static inline vw__error_text_summary scan_bytes(const char *text, size_t size_bytes,
                                                size_t piece_bytes)
{
    vw__error_text_scan *scan;
    vw__error_text_summary summary;
    assert_int_equal(vw__error_text_scan_create(&scan), VW_OK);
    for (size_t at = 0; at < size_bytes; at += piece_bytes) {
        size_t bytes = size_bytes - at < piece_bytes ? size_bytes - at : piece_bytes;
        assert_int_equal(vw__error_text_scan_feed(scan, text + at, bytes), VW_OK);
    }
    assert_int_equal(vw__error_text_scan_finish(scan, &summary), VW_OK);
    vw__error_text_scan_destroy(scan);
    return summary;
}

static inline vw__error_text_summary scan_text(const char *text)
{
    return scan_bytes(text, strlen(text), SIZE_MAX / 2);
}

/* Breaks `text` into lines of at most `columns` characters, wherever that may be, each with
 * `prefix` before it and `ending` behind it. */
static inline size_t wrap_text(const char *text, size_t columns, const char *prefix,
                               const char *ending, char *out, size_t out_bytes)
{
    size_t length = 0;
    while (*text != '\0') {
        size_t taken = 0;
        length += (size_t)snprintf(out + length, out_bytes - length, "%s", prefix);
        while (taken < columns && text[taken] != '\0' && text[taken] != '\n')
            out[length++] = text[taken++];
        length += (size_t)snprintf(out + length, out_bytes - length, "%s\n", ending);
        text += taken + (text[taken] == '\n');
        assert_true(length + 512 < out_bytes);
    }
    return length;
}

static inline void assert_same_numbers(const vw__error_text_report *a,
                                       const vw__error_text_report *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->tried_bytes, b->tried_bytes);
    assert_int_equal(a->total_bytes, b->total_bytes);
    assert_int_equal(a->free_bytes, b->free_bytes);
    assert_int_equal(a->allocated_bytes, b->allocated_bytes);
    assert_int_equal(a->reserved_bytes, b->reserved_bytes);
    assert_int_equal(a->unallocated_bytes, b->unallocated_bytes);
    assert_int_equal(a->process_bytes, b->process_bytes);
    assert_int_equal(a->allowed_bytes, b->allowed_bytes);
    assert_int_equal(a->private_pool_bytes, b->private_pool_bytes);
    assert_int_equal(a->other_process_bytes, b->other_process_bytes);
    assert_int_equal(a->other_process_count, b->other_process_count);
    assert_int_equal(a->other_bytes, b->other_bytes);
    assert_int_equal(a->needed_bytes, b->needed_bytes);
    assert_int_equal(a->available_bytes, b->available_bytes);
    assert_int_equal(a->device, b->device);
}

#endif /* VW_TESTS_ERROR_TEXT_SAMPLES_H */
