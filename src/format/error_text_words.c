/* error_text_words.c - many words looked for at once, in letters that were squeezed.
 *
 * The window is as long as the shortest word. Its last two letters, hashed, say how far it can move
 * before any word's beginning could fit it; ordinary text moves it by several letters at a time.
 * Where they say 0, the words whose window ends with these letters are compared in full. */
#include "format/error_text_words.h"

#include <string.h>

static const char *const word_texts[VW__WORD_COUNT] = {
#define WORD_TEXT(upper, text, role) text,
    VW__WORD_LIST(WORD_TEXT)
#undef WORD_TEXT
};

enum { WORD_SCAN, WORD_NEAR };

static const unsigned char word_roles[VW__WORD_COUNT] = {
#define WORD_ROLE(upper, text, role) WORD_##role,
    VW__WORD_LIST(WORD_ROLE)
#undef WORD_ROLE
};

#define WORD_CHECK(upper, text, role)                                                              \
    _Static_assert(WORD_##role == WORD_NEAR || sizeof text > VW__SHORTEST_SCAN_WORD,               \
                   "too short to be looked for everywhere");
VW__WORD_LIST(WORD_CHECK)
#undef WORD_CHECK

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

const unsigned char *const vw__squeezed = (const unsigned char *)squeezed_rows;

static inline size_t hash_of(unsigned char before, unsigned char last)
{
    return ((size_t)before << 5 ^ last) & (VW__WORD_HASHES - 1);
}

const char *vw__word_text(vw__word word)
{
    return word_texts[word];
}

void vw__word_search_init(vw__word_search *search)
{
    memset(search, 0, sizeof *search);
    memset(search->shift, VW__SHORTEST_SCAN_WORD - 1, sizeof search->shift);
    for (size_t word = VW__WORD_COUNT; word-- > 0;) { /* so that the first is tried first */
        const unsigned char *text = (const unsigned char *)word_texts[word];
        if (word_roles[word] != WORD_SCAN)
            continue;
        search->size_bytes[word] = (uint16_t)strlen(word_texts[word]);
        for (size_t end = 1; end < VW__SHORTEST_SCAN_WORD; end++) {
            size_t hash = hash_of(text[end - 1], text[end]);
            uint8_t shift = (uint8_t)(VW__SHORTEST_SCAN_WORD - 1 - end);
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
static bool find_place(const vw__word_search *search, const char *letters, size_t size_bytes,
                       vw__word_cursor *cursor)
{
    const unsigned char *text = (const unsigned char *)letters;
    size_t last = cursor->at + VW__SHORTEST_SCAN_WORD - 1;
    while (last < size_bytes) {
        size_t hash = hash_of(text[last - 1], text[last]);
        size_t shift = search->shift[hash];
        if (shift == 0) {
            cursor->at = last + 1 - VW__SHORTEST_SCAN_WORD;
            cursor->candidate = search->first[hash];
            return true;
        }
        last += shift;
    }
    return false;
}

bool vw__word_search_next(const vw__word_search *search, const char *letters, size_t size_bytes,
                          vw__word_cursor *cursor, vw__word_match *match)
{
    for (;;) {
        while (cursor->candidate != 0) {
            size_t word = cursor->candidate - 1u, length = search->size_bytes[word];
            cursor->candidate = search->next[word];
            bool is_match = length <= size_bytes - cursor->at &&
                            letters[cursor->at] == word_texts[word][0] &&
                            memcmp(letters + cursor->at, word_texts[word], length) == 0;
            *match = (vw__word_match){(vw__word)word, cursor->at};
            if (cursor->candidate == 0)
                cursor->at++;
            if (is_match)
                return true;
        }
        if (!find_place(search, letters, size_bytes, cursor))
            return false;
    }
}
