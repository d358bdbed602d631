/* line.h - looking at a line of a log: bytes, words, units, and what loggers put in front of it.
 *
 * The readers of error messages (error_text.h) and of step logs (step_log.h) share this. A vw__line
 * is a view of text that need not end in a zero. Places are byte offsets; every function here takes
 * any place, also one behind the end, where a line reads as zero bytes. */
#ifndef VW_PARSE_LINE_H
#define VW_PARSE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h> /* strncasecmp */

#include "base/ascii.h"

typedef struct vw__line {
    const char *text;
    size_t size_bytes;
} vw__line;

static inline char vw__line_at(vw__line line, size_t at)
{
    return at < line.size_bytes ? line.text[at] : '\0';
}

static inline bool vw__line_is_digit(vw__line line, size_t at)
{
    return vw__ascii_is_digit(vw__line_at(line, at));
}

static inline bool vw__line_is_letter(vw__line line, size_t at)
{
    return vw__ascii_is_letter(vw__line_at(line, at));
}

/* A blank, or the end of the line. */
static inline bool vw__line_is_blank(vw__line line, size_t at)
{
    return at >= line.size_bytes || vw__ascii_is_blank(line.text[at]);
}

/* The first place from `at` on whose byte is not in the class. */
static inline size_t vw__line_skip(vw__line line, size_t at, bool (*is_in_class)(char))
{
    while (at < line.size_bytes && is_in_class(line.text[at]))
        at++;
    return at;
}

static inline size_t vw__line_skip_blanks(vw__line line, size_t at)
{
    return vw__line_skip(line, at, vw__ascii_is_blank);
}

static inline size_t vw__line_skip_digits(vw__line line, size_t at)
{
    return vw__line_skip(line, at, vw__ascii_is_digit);
}

static inline size_t vw__line_skip_letters(vw__line line, size_t at)
{
    return vw__line_skip(line, at, vw__ascii_is_letter);
}

static inline size_t vw__line_skip_name(vw__line line, size_t at)
{
    return vw__line_skip(line, at, vw__ascii_is_name);
}

/* Where the name that reaches up to `end` begins. */
static inline size_t vw__line_name_start(vw__line line, size_t end)
{
    while (end > 0 && vw__ascii_is_name(line.text[end - 1]))
        end--;
    return end;
}

/* Whether the line has `word`, which is not empty, at `at`: exactly, or with letters in either
 * case.
 */
static inline bool vw__line_has(vw__line line, size_t at, const char *word)
{
    if (at >= line.size_bytes || line.text[at] != word[0])
        return false;
    size_t length = strlen(word);
    return length <= line.size_bytes - at && memcmp(line.text + at, word, length) == 0;
}

static inline bool vw__line_begins(vw__line line, size_t at, const char *word)
{
    if (at >= line.size_bytes || (line.text[at] | 0x20) != (word[0] | 0x20))
        return false;
    size_t length = strlen(word);
    return length <= line.size_bytes - at && strncasecmp(line.text + at, word, length) == 0;
}

/* Whether one of `words`, in either case, begins at `at`; or at any place from `first` on that lies
 * before `end`. */
bool vw__line_begins_any(vw__line line, size_t at, const char *const *words, size_t count);
bool vw__line_mentions_any(vw__line line, size_t first, size_t end, const char *const *words,
                           size_t count);

/* The number of at most `most_digits` digits at `*at`, which moves behind it; -1 where there is
 * none or it is longer. */
int vw__line_digits(vw__line line, size_t *at, unsigned most_digits);

/* ---- units ----------------------------------------------------------------------------------- */

/* Units of memory, in lower case; longer names stand before their beginnings. All are binary: the
 * programs that print GB divide by 2^30. */
typedef struct vw__line_unit {
    const char *name;
    unsigned log2;
} vw__line_unit;

extern const vw__line_unit vw__line_units[];
extern const size_t vw__line_unit_count;

/* The unit with that name, in either case of letters; NULL where there is none. */
const vw__line_unit *vw__line_unit_named(const char *name, size_t size_bytes);

/* ---- numbers --------------------------------------------------------------------------------- */

/* How a number was written. */
typedef struct vw__line_number {
    double value;
    double unit_bytes;    /* 0 = none */
    bool is_whole;        /* no point, no exponent */
    bool has_letter_unit; /* G or M alone, which stand for other things, too */
    bool is_percent;      /* and is_other */
    bool is_other;        /* a percentage, a rate, a time, a count with a unit of its own */
    size_t end;           /* behind its last byte, the unit included */
} vw__line_number;

/* Reads the number at `at`, which is a digit. Groups of three digits with commas are read where
 * `has_groups`. */
vw__line_number vw__line_number_read(vw__line line, size_t at, bool has_groups);

/* ---- what is not the message's --------------------------------------------------------------- */

/* The rank that printed a line, by its prefix. */
typedef struct vw__line_rank {
    int rank;     /* -1 = not said */
    bool is_bare; /* "3: ", which may be part of something else */
} vw__line_rank;

/* How many bytes at the beginning of a line a logger or a launcher put there: a time, a level, a
 * rank, a process. */
size_t vw__line_prefix(const char *line, size_t size_bytes, vw__line_rank *rank);

/* Bytes of the terminal command (a colour, for example) at `text`, which begins with the escape
 * character; at least 1, and never past the end of the line. */
size_t vw__line_terminal_command(const char *text, size_t size_bytes);

#endif /* VW_PARSE_LINE_H */
