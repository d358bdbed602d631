/* error_text_letters.h - a buffer of text, squeezed to look for words in.
 *
 * Words are found in squeezed letters (error_text_words.h): without blanks, colours, and the
 * prefixes that loggers put before a line. Where a letter came from is asked for few of them, so it
 * is not kept for each: there is a *mark* every few hundred letters, and from there the way is gone
 * again. */
#ifndef VW_FORMAT_ERROR_TEXT_LETTERS_H
#define VW_FORMAT_ERROR_TEXT_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VW__LETTERS_BYTES = 128 << 10, /* raw bytes that are squeezed at once, at most */
    VW__LETTERS_PER_MARK = 256,
    VW__BYTES_PER_MARK = 1 << 10 /* likewise, of raw bytes */
};

/* Where the letters at `letter` came from. */
typedef struct vw__letter_mark {
    uint32_t letter, raw;
} vw__letter_mark;

typedef struct vw__letters {
    char text[VW__LETTERS_BYTES];
    vw__letter_mark marks[VW__LETTERS_BYTES / VW__LETTERS_PER_MARK +
                          VW__LETTERS_BYTES / VW__BYTES_PER_MARK + 2];
    size_t mark_count;
} vw__letters;

/* Squeezes the lines of raw bytes from `at` to `end` into letters->text, without their prefixes.
 * `is_line_start`: of the first. Returns how many letters there are. */
size_t vw__letters_squeeze(vw__letters *letters, const char *raw, size_t at, size_t end,
                           bool is_line_start);

/* The raw byte that a letter came from. `raw` and `end` are those that were squeezed. `*known`, all
 * zero at first, is an earlier answer to go on from, and becomes this one. */
size_t vw__letters_raw_of(const vw__letters *letters, const char *raw, size_t letter, size_t end,
                          vw__letter_mark *known);

#endif /* VW_FORMAT_ERROR_TEXT_LETTERS_H */
