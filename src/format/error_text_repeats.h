/* error_text_repeats.h - lines that say the same again, but for their digits.
 *
 * Logs repeat: one line per step, or an error that is printed until the disk is full. What a line
 * came to is remembered by its text without digits; once enough lines of a kind came to the same,
 * the next are no longer read. Ranks are told apart. The table has a fixed size: a line that was
 * pushed out of it is read again. */
#ifndef HR_FORMAT_ERROR_TEXT_REPEATS_H
#define HR_FORMAT_ERROR_TEXT_REPEATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/error_text_words.h"

typedef enum hr__line_outcome {
    HR__LINE_NOTHING, /* no report */
    HR__LINE_WORDS,   /* a report that says nothing new */
    HR__LINE_NUMBERS  /* a report by its numbers, which count one by one */
} hr__line_outcome;

typedef struct hr__line_pattern {
    uint64_t hash; /* 0 = none */
    uint32_t count;
    uint8_t outcome; /* hr__line_outcome */
    bool is_host;
} hr__line_pattern;

enum { HR__LINE_PATTERNS = 1 << 10, HR__LINE_MOST_BYTES = 640 };

typedef struct hr__line_repeats {
    hr__line_pattern patterns[HR__LINE_PATTERNS];
} hr__line_repeats;

/* A line as the table sees it. */
typedef struct hr__line_key {
    uint64_t pattern;    /* of the whole line, without digits */
    uint64_t said;       /* of what stands behind the word, digits included */
    size_t behind_bytes; /* from the word to the end of the line, or as far as was looked */
    int rank;
} hr__line_key;

/* The line `text` with the word at `at`; at most HR__LINE_MOST_BYTES of it. */
hr__line_key hr__line_key_of(const char *text, size_t size_bytes, size_t at, hr__word word,
                             bool is_line_start);

/* Its pattern in the table: known if it has the key's hash. */
hr__line_pattern *hr__line_pattern_of(hr__line_repeats *repeats, const hr__line_key *key);

/* Need it not be read any more? */
bool hr__line_is_settled(const hr__line_pattern *pattern, const hr__line_key *key);

/* It was read, and came to this. */
void hr__line_came_to(hr__line_pattern *pattern, const hr__line_key *key, hr__line_outcome outcome,
                      bool is_host);

#endif /* HR_FORMAT_ERROR_TEXT_REPEATS_H */
