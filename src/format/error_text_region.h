/* error_text_region.h - the neighbourhood of a word, as people would read it.
 *
 * Once a word was found, some kilobytes around it are cleaned of what logs and terminals put in:
 * colours, escapes of JSON and HTML, and the prefixes of lines. What is left is kept twice: as text
 * to quote, and squeezed (error_text_words.h) to look for words and numbers in. Every letter knows
 * where it came from. */
#ifndef VW_FORMAT_ERROR_TEXT_REGION_H
#define VW_FORMAT_ERROR_TEXT_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/error_text_words.h"

#define VW__REGION_BYTES 7168
#define VW__REGION_MOST_LINES 512

/* Who printed a line, by its prefix. */
typedef struct vw__line_rank {
    int rank;     /* -1 = not said */
    bool is_bare; /* "3: ", which may be the rest of something else */
} vw__line_rank;

typedef struct vw__region_line {
    uint16_t at; /* in clean */
    vw__line_rank rank;
} vw__region_line;

/* One per scan; filled again for every word that was found. */
typedef struct vw__region {
    char clean[VW__REGION_BYTES];
    uint16_t raw_of[VW__REGION_BYTES]; /* clean -> raw, from where the region begins */
    size_t clean_bytes;
    char letters[VW__REGION_BYTES];
    uint16_t clean_of[VW__REGION_BYTES]; /* letters -> clean */
    size_t letter_count;
    size_t raw_bytes;
    vw__region_line lines[VW__REGION_MOST_LINES];
    size_t line_count;
} vw__region;

/* How much of a line's beginning was put there by a logger or a launcher: a time, a level, a rank,
 * a process. */
size_t vw__line_prefix(const char *line, size_t size_bytes, vw__line_rank *rank);

/* Bytes of a terminal's command (a colour, say) at `text`, which begins with the escape character;
 * 1 at least, and never past the end of the line. */
size_t vw__terminal_command(const char *text, size_t size_bytes);

/* Cleans `size_bytes`, at most VW__REGION_BYTES of them. */
void vw__region_fill(vw__region *region, const char *raw, size_t size_bytes, bool is_line_start);

/* The first letter that came from raw byte `raw_at` or later; letter_count where none did. */
size_t vw__region_letter_at(const vw__region *region, size_t raw_at);

/* The raw byte behind the first `letter_count` letters. */
size_t vw__region_raw_end(const vw__region *region, size_t letter_count);

/* Does `word` begin at a letter of first .. last? `*at` (or NULL) becomes the first such place. */
bool vw__region_has(const vw__region *region, vw__word word, size_t first, size_t last, size_t *at);

/* Do the letters go on with `text`? Or end with it, before `at`? */
bool vw__region_continues(const vw__region *region, size_t at, const char *text);
bool vw__region_precedes(const vw__region *region, size_t at, const char *text);

/* The clean text of the letters, lines joined, into `out` (cut where a character ends). */
void vw__region_quote(const vw__region *region, size_t first, size_t end, char *out,
                      size_t out_bytes);

/* Where the line that a letter stands in begins, in the clean text. */
size_t vw__region_line_start(const vw__region *region, size_t letter);

/* The rank that printed it; -1 where it does not say. */
int vw__region_rank(const vw__region *region, size_t letter);

#endif /* VW_FORMAT_ERROR_TEXT_REGION_H */
