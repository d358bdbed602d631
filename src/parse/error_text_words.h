/* error_text_words.h - the words that give a report away, and how they are found in a text.
 *
 * Words are compared *squeezed*: in lower case, and without blanks, line ends, hyphens,
 * underscores, quotes and the marks of markdown. "CUDA out of memory", "CUDA_ERROR_OUT_OF_MEMORY"
 * and a message that a terminal broke after "out of mem" are then the same letters in a row, and
 * nobody has to guess whether a line break stood for a blank.
 *
 * A whole text is searched for the words that the rules begin with (error_text_rules.c), and each
 * of them costs time: they are at least VW__ERROR_TEXT_WORD_SHORTEST long. */
#ifndef VW_PARSE_ERROR_TEXT_WORDS_H
#define VW_PARSE_ERROR_TEXT_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VW__ERROR_TEXT_WORD_SHORTEST 6

/* A word is known by its place in vw__error_text_word_search. */
typedef uint16_t vw__error_text_word;

/* The squeezed form of every byte; 0 = dropped. */
extern const unsigned char *const vw__error_text_squeezed;

#define VW__ERROR_TEXT_WORD_HASHES 4096
#define VW__ERROR_TEXT_WORD_MOST 192

/* All words looked for at once, after Wu and Manber: two letters at the end of a window as
 * long as the shortest word say how far the window may move at least. */
typedef struct vw__error_text_word_search {
    uint8_t shift[VW__ERROR_TEXT_WORD_HASHES];
    uint16_t
        first[VW__ERROR_TEXT_WORD_HASHES];   /* word + 1, of those whose window ends so; 0 = none */
    uint16_t next[VW__ERROR_TEXT_WORD_MOST]; /* word + 1 */
    uint16_t size_bytes[VW__ERROR_TEXT_WORD_MOST];
    const char *texts[VW__ERROR_TEXT_WORD_MOST]; /* static */
    size_t count;
} vw__error_text_word_search;

/* Starts without words. Where two words begin at the same place, the one that was added first is
 * tried first. One that is there already is not added again. */
void vw__error_text_word_search_init(vw__error_text_word_search *search);
void vw__error_text_word_search_add(vw__error_text_word_search *search, const char *text);

/* To be called once, behind the last word. */
void vw__error_text_word_search_finish(vw__error_text_word_search *search);

typedef struct vw__error_text_word_match {
    vw__error_text_word word;
    size_t at; /* of its first letter */
} vw__error_text_word_match;

/* Where a search stands: all zero at the beginning. */
typedef struct vw__error_text_word_cursor {
    size_t at;
    uint16_t candidate; /* word + 1: the next to try at `at`; 0 = look for the next place */
} vw__error_text_word_cursor;

/* The next match in squeezed letters, in the order of their places. */
bool vw__error_text_word_search_next(const vw__error_text_word_search *search, const char *letters,
                                     size_t size_bytes, vw__error_text_word_cursor *cursor,
                                     vw__error_text_word_match *match);

/* ---- squeezing a buffer ---------------------------------------------------------------------- */

/* A buffer of text is squeezed without colours and without the prefixes that loggers put before a
 * line. The origin of a letter is asked for few of them, so it is not kept for each: there is a
 * *mark* every few hundred letters, and the way from there is walked again. */
enum {
    VW__ERROR_TEXT_LETTERS_BYTES = 128 << 10, /* raw bytes that are squeezed at once, at most */
    VW__ERROR_TEXT_LETTERS_PER_MARK = 256,
    VW__ERROR_TEXT_BYTES_PER_MARK = 1 << 10 /* likewise, of raw bytes */
};

/* Where the letters at `letter` came from. */
typedef struct vw__error_text_mark {
    uint32_t letter, raw;
} vw__error_text_mark;

typedef struct vw__error_text_letters {
    char text[VW__ERROR_TEXT_LETTERS_BYTES];
    vw__error_text_mark marks[VW__ERROR_TEXT_LETTERS_BYTES / VW__ERROR_TEXT_LETTERS_PER_MARK +
                              VW__ERROR_TEXT_LETTERS_BYTES / VW__ERROR_TEXT_BYTES_PER_MARK + 2];
    size_t mark_count;
} vw__error_text_letters;

/* Squeezes the lines of raw bytes from `at` to `end` into letters->text, without their prefixes.
 * `is_line_start`: of the first. Returns how many letters there are. */
size_t vw__error_text_letters_squeeze(vw__error_text_letters *letters, const char *raw, size_t at,
                                      size_t end, bool is_line_start);

/* The raw byte that a letter came from. `raw` and `end` are those that were squeezed. `*known`, all
 * zero at first, is an earlier answer to go on from, and becomes this one. */
size_t vw__error_text_letters_raw_of(const vw__error_text_letters *letters, const char *raw,
                                     size_t letter, size_t end, vw__error_text_mark *known);

#endif /* VW_PARSE_ERROR_TEXT_WORDS_H */
