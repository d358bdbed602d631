/* error_text_words.c - many words looked for at once, in letters that were squeezed.
 *
 * The window is as long as the shortest word. Its last two letters, hashed, say how far it can move
 * before any word's beginning could fit it; ordinary text moves it by several letters at a time.
 * Where they say 0, the words whose window ends with these letters are compared in full. */
#include "parse/error_text_words.h"

#include <string.h>

#include "base/error.h" /* VW_ASSERT */
#include "parse/line.h"

/* Dropped: control characters, blanks, and " ' * - > \ ^ _ ` | ~ which quote, stress or draw;
 * and both bytes of the blank that does not break a line, U+00A0. */
static const char squeezed_rows[] =
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    "\0!\0#$%&\0()\0+,\0./0123456789:;<=\0?"
    "@abcdefghijklmnopqrstuvwxyz[\0]\0\0"
    "\0abcdefghijklmnopqrstuvwxyz{\0}\0\0"
    "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f"
    "\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f"
    "\0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf"
    "\xb0\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xbb\xbc\xbd\xbe\xbf"
    "\xc0\xc1\0\xc3\xc4\xc5\xc6\xc7\xc8\xc9\xca\xcb\xcc\xcd\xce\xcf"
    "\xd0\xd1\xd2\xd3\xd4\xd5\xd6\xd7\xd8\xd9\xda\xdb\xdc\xdd\xde\xdf"
    "\xe0\xe1\xe2\xe3\xe4\xe5\xe6\xe7\xe8\xe9\xea\xeb\xec\xed\xee\xef"
    "\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff";
_Static_assert(sizeof squeezed_rows == 257, "one for every byte");

const unsigned char *const vw__error_text_squeezed = (const unsigned char *)squeezed_rows;

static inline size_t hash_of(unsigned char before, unsigned char last)
{
    return ((size_t)before << 5 ^ last) & (VW__ERROR_TEXT_WORD_HASHES - 1);
}

void vw__error_text_word_search_init(vw__error_text_word_search *search)
{
    memset(search, 0, sizeof *search);
    memset(search->shift, VW__ERROR_TEXT_WORD_SHORTEST - 1, sizeof search->shift);
}

void vw__error_text_word_search_add(vw__error_text_word_search *search, const char *text)
{
    for (size_t i = 0; i < search->count; i++)
        if (search->texts[i][0] == text[0] && strcmp(search->texts[i], text) == 0)
            return;
    VW_ASSERT(search->count < VW__ERROR_TEXT_WORD_MOST &&
              strlen(text) >= VW__ERROR_TEXT_WORD_SHORTEST);
    search->size_bytes[search->count] = (uint16_t)strlen(text);
    search->texts[search->count++] = text;
}

void vw__error_text_word_search_finish(vw__error_text_word_search *search)
{
    for (size_t word = search->count; word-- > 0;) { /* so that the first is tried first */
        const unsigned char *text = (const unsigned char *)search->texts[word];
        for (size_t end = 1; end < VW__ERROR_TEXT_WORD_SHORTEST; end++) {
            size_t hash = hash_of(text[end - 1], text[end]);
            uint8_t shift = (uint8_t)(VW__ERROR_TEXT_WORD_SHORTEST - 1 - end);
            if (shift < search->shift[hash])
                search->shift[hash] = shift;
            if (shift == 0) {
                search->next[word] = search->first[hash];
                search->first[hash] = (uint16_t)(word + 1);
            }
        }
    }
}

/* Moves on to a place where a word may begin. */
static bool find_place(const vw__error_text_word_search *search, const char *letters,
                       size_t size_bytes, vw__error_text_word_cursor *cursor)
{
    const unsigned char *text = (const unsigned char *)letters;
    size_t last = cursor->at + VW__ERROR_TEXT_WORD_SHORTEST - 1;
    while (last < size_bytes) {
        size_t hash = hash_of(text[last - 1], text[last]);
        size_t shift = search->shift[hash];
        if (shift == 0) {
            cursor->at = last + 1 - VW__ERROR_TEXT_WORD_SHORTEST;
            cursor->candidate = search->first[hash];
            return true;
        }
        last += shift;
    }
    return false;
}

bool vw__error_text_word_search_next(const vw__error_text_word_search *search, const char *letters,
                                     size_t size_bytes, vw__error_text_word_cursor *cursor,
                                     vw__error_text_word_match *match)
{
    for (;;) {
        while (cursor->candidate != 0) {
            size_t word = cursor->candidate - 1u, length = search->size_bytes[word];
            cursor->candidate = search->next[word];
            bool is_match = length <= size_bytes - cursor->at &&
                            letters[cursor->at] == search->texts[word][0] &&
                            memcmp(letters + cursor->at, search->texts[word], length) == 0;
            *match = (vw__error_text_word_match){(vw__error_text_word)word, cursor->at};
            if (cursor->candidate == 0)
                cursor->at++;
            if (is_match)
                return true;
        }
        if (!find_place(search, letters, size_bytes, cursor))
            return false;
    }
}

/* ---- squeezing a buffer ---------------------------------------------------------------------- */

/* This is what an ordinary log costs, byte for byte: so the inner loop has no branch, and what
 * needs one (a colour, a blank of HTML) is looked for with memchr() beforehand.
 * vw__error_text_letters_squeeze() and vw__error_text_letters_raw_of() must leave out exactly the
 * same bytes. */
enum { PIECE_BYTES = 256 }; /* of a line without an end */

static size_t line_end_of(const char *raw, size_t at, size_t end)
{
    const char *line_end = memchr(raw + at, '\n', end - at);
    return line_end != NULL ? (size_t)(line_end - raw) : end;
}

/* Where the letters of the text begin at raw byte `at`, the beginning of a line: behind its prefix.
 */
static size_t skip_prefix(const char *raw, size_t at, size_t end)
{
    vw__line_rank rank;
    size_t stop = line_end_of(raw, at, end);
    while (at < stop && raw[at] == '\033')
        at += vw__line_terminal_command(raw + at, stop - at);
    return at + vw__line_prefix(raw + at, stop - at, &rank);
}

/* How many bytes at `text`, which begins with the escape character or '&', say nothing: a colour,
 * or a blank as HTML has it. */
static size_t dropped_bytes(const char *text, size_t size_bytes)
{
    static const char blank[] = "&nbsp;";
    if (text[0] == '\033')
        return vw__line_terminal_command(text, size_bytes);
    return size_bytes >= sizeof blank - 1 && memcmp(text, blank, sizeof blank - 1) == 0
               ? sizeof blank - 1
               : 0;
}

/* Squeezes the raw bytes from `*at` to `end`, of a line that ends at `line_end`, into letters,
 * colours left out. `*at` becomes `end`, or the end of a colour that reaches further. */
static size_t squeeze_piece(vw__error_text_letters *letters, const char *raw, size_t *at,
                            size_t end, size_t line_end, size_t count)
{
    const unsigned char *squeezed = vw__error_text_squeezed;
    size_t here = *at;
    while (here < end) {
        const char *command = memchr(raw + here, '\033', end - here);
        size_t stop = command != NULL ? (size_t)(command - raw) : end;
        const char *blank = memchr(raw + here, '&', stop - here);
        stop = blank != NULL ? (size_t)(blank - raw) : stop;
        for (; here < stop; here++) {
            unsigned char letter = squeezed[(unsigned char)raw[here]];
            letters->text[count] = (char)letter;
            count += letter != 0;
        }
        if (here >= end)
            break;
        size_t taken = dropped_bytes(raw + here, line_end - here);
        if (taken == 0) { /* '&' itself */
            letters->text[count++] = '&';
            taken = 1;
        }
        here += taken;
    }
    *at = here;
    return count;
}

size_t vw__error_text_letters_squeeze(vw__error_text_letters *letters, const char *raw, size_t at,
                                      size_t end, bool is_line_start)
{
    size_t count = 0;
    letters->mark_count = 0;
    for (; at < end; at++) { /* over the line end */
        if (is_line_start)
            at = skip_prefix(raw, at, end);
        size_t line_end = line_end_of(raw, at, end);
        is_line_start = true;
        while (at < line_end) {
            const vw__error_text_mark *last =
                letters->mark_count > 0 ? &letters->marks[letters->mark_count - 1] : NULL;
            if (last == NULL || count - last->letter >= VW__ERROR_TEXT_LETTERS_PER_MARK ||
                at - last->raw >= VW__ERROR_TEXT_BYTES_PER_MARK)
                letters->marks[letters->mark_count++] =
                    (vw__error_text_mark){(uint32_t)count, (uint32_t)at};
            size_t piece_end = line_end - at > PIECE_BYTES ? at + PIECE_BYTES : line_end;
            count = squeeze_piece(letters, raw, &at, piece_end, line_end, count);
        }
    }
    return count;
}

/* As vw__error_text_letters_squeeze() goes, from the last mark before it. */
size_t vw__error_text_letters_raw_of(const vw__error_text_letters *letters, const char *raw,
                                     size_t letter, size_t end, vw__error_text_mark *known)
{
    size_t first = 0, last = letters->mark_count;
    while (last - first > 1) {
        size_t middle = first + (last - first) / 2;
        if (letters->marks[middle].letter <= letter)
            first = middle;
        else
            last = middle;
    }
    vw__error_text_mark here = letters->marks[first];
    if (known->letter > here.letter && known->letter <= letter)
        here = *known;
    while (here.raw < end) {
        char byte = raw[here.raw];
        size_t taken;
        if (byte == '\n') {
            here.raw = (uint32_t)skip_prefix(raw, here.raw + (size_t)1, end);
        } else if ((byte == '\033' || byte == '&') &&
                   (taken = dropped_bytes(raw + here.raw,
                                          line_end_of(raw, here.raw, end) - here.raw)) > 0) {
            here.raw += (uint32_t)taken;
        } else {
            if (vw__error_text_squeezed[(unsigned char)byte] != 0 && here.letter++ == letter)
                break;
            here.raw++;
        }
    }
    here.letter = (uint32_t)letter;
    *known = here;
    return here.raw;
}
