/* error_text_letters.c - squeezing a buffer, and the way back.
 *
 * This is what an ordinary log costs, byte for byte: so the inner loop has no branch, and what
 * needs one, a colour or a blank of HTML's, is looked for with memchr() beforehand. Both ways must
 * leave out exactly the same bytes. */
#include "format/error_text_letters.h"

#include <string.h>

#include "format/error_text_region.h" /* vw__line_prefix, vw__terminal_command */

enum { PIECE_BYTES = 256 }; /* of a line without an end */

/* Where the letters of the text begin at raw byte `at`, the beginning of a line: behind its prefix.
 */
static size_t skip_prefix(const char *raw, size_t at, size_t end)
{
    vw__line_rank rank;
    const char *line_end = memchr(raw + at, '\n', end - at);
    size_t stop = line_end != NULL ? (size_t)(line_end - raw) : end;
    while (at < stop && raw[at] == '\033')
        at += vw__terminal_command(raw + at, stop - at);
    return at + vw__line_prefix(raw + at, stop - at, &rank);
}

/* How many bytes at `text`, which begins with the escape character or '&', say nothing: a colour,
 * or a blank as HTML has it. */
static size_t dropped_bytes(const char *text, size_t size_bytes)
{
    static const char blank[] = "&nbsp;";
    if (text[0] == '\033')
        return vw__terminal_command(text, size_bytes);
    return size_bytes >= sizeof blank - 1 && memcmp(text, blank, sizeof blank - 1) == 0
               ? sizeof blank - 1
               : 0;
}

/* Squeezes the raw bytes from `*at` to `end`, of a line that ends at `line_end`, into letters,
 * colours left out. `*at` becomes `end`, or the end of a colour that reaches further. */
static size_t squeeze_piece(vw__letters *letters, const char *raw, size_t *at, size_t end,
                            size_t line_end, size_t count)
{
    const unsigned char *squeezed = vw__squeezed;
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

static size_t line_end_of(const char *raw, size_t at, size_t end)
{
    const char *line_end = memchr(raw + at, '\n', end - at);
    return line_end != NULL ? (size_t)(line_end - raw) : end;
}

size_t vw__letters_squeeze(vw__letters *letters, const char *raw, size_t at, size_t end,
                           bool is_line_start)
{
    size_t count = 0;
    letters->mark_count = 0;
    for (; at < end; at++) { /* over the line end */
        if (is_line_start)
            at = skip_prefix(raw, at, end);
        size_t line_end = line_end_of(raw, at, end);
        is_line_start = true;
        while (at < line_end) {
            const vw__letter_mark *last =
                letters->mark_count > 0 ? &letters->marks[letters->mark_count - 1] : NULL;
            if (last == NULL || count - last->letter >= VW__LETTERS_PER_MARK ||
                at - last->raw >= VW__BYTES_PER_MARK)
                letters->marks[letters->mark_count++] =
                    (vw__letter_mark){(uint32_t)count, (uint32_t)at};
            size_t piece_end = line_end - at > PIECE_BYTES ? at + PIECE_BYTES : line_end;
            count = squeeze_piece(letters, raw, &at, piece_end, line_end, count);
        }
    }
    return count;
}

/* As vw__letters_squeeze() goes, from the last mark before it. */
size_t vw__letters_raw_of(const vw__letters *letters, const char *raw, size_t letter, size_t end,
                          vw__letter_mark *known)
{
    size_t first = 0, last = letters->mark_count;
    while (last - first > 1) {
        size_t middle = first + (last - first) / 2;
        if (letters->marks[middle].letter <= letter)
            first = middle;
        else
            last = middle;
    }
    vw__letter_mark here = letters->marks[first];
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
            if (vw__squeezed[(unsigned char)byte] != 0 && here.letter++ == letter)
                break;
            here.raw++;
        }
    }
    here.letter = (uint32_t)letter;
    *known = here;
    return here.raw;
}
