/* error_text_repeats.h - lines that say the same again, but for their digits.
 *
 * Logs repeat: one line per step, or an error that is printed until the disk is full. What a line
 * came to is remembered by its text without digits; once enough lines of a kind came to the same,
 * the next are no longer read. Ranks are told apart. The table has a fixed size: a line that was
 * pushed out of it is read again. */
#ifndef VW_FORMAT_ERROR_TEXT_REPEATS_H
#define VW_FORMAT_ERROR_TEXT_REPEATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/error_text_words.h"

typedef enum vw__line_outcome {
    VW__LINE_NOTHING, /* no report */
    VW__LINE_WORDS,   /* a report that says nothing new */
    VW__LINE_NUMBERS  /* a report by its numbers, which count one by one */
} vw__line_outcome;

typedef struct vw__line_pattern {
    uint64_t hash; /* 0 = none */
    uint32_t count;
    uint8_t outcome; /* vw__line_outcome */
    bool is_host;
} vw__line_pattern;

enum { VW__LINE_PATTERNS = 1 << 10, VW__LINE_MOST_BYTES = 640 };

typedef struct vw__line_repeats {
    vw__line_pattern patterns[VW__LINE_PATTERNS];
} vw__line_repeats;

/* A line as the table sees it. */
typedef struct vw__line_key {
    uint64_t pattern;    /* of the whole line, without digits */
    uint64_t said;       /* of what stands behind the word, digits included */
    size_t behind_bytes; /* from the word to the end of the line, or as far as was looked */
    int rank;
} vw__line_key;

/* The line `text` with the word at `at`; at most VW__LINE_MOST_BYTES of it. */
vw__line_key vw__line_key_of(const char *text, size_t size_bytes, size_t at, vw__word word,
                             bool is_line_start);

/* Its pattern in the table: known if it has the key's hash. */
vw__line_pattern *vw__line_pattern_of(vw__line_repeats *repeats, const vw__line_key *key);

/* Need it not be read any more? */
bool vw__line_is_settled(const vw__line_pattern *pattern, const vw__line_key *key);

/* It was read, and came to this. */
void vw__line_came_to(vw__line_pattern *pattern, const vw__line_key *key, vw__line_outcome outcome,
                      bool is_host);

#endif /* VW_FORMAT_ERROR_TEXT_REPEATS_H */
