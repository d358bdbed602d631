/* step_log_hints.c - which lines are worth reading.
 *
 * A log of a hundred megabytes is mostly lines that say nothing about memory, and each must be
 * looked at. Two looks: a rough one at sixty-four bytes at a time, which most of such a log does
 * not get past, and an exact one at the line. */
#include "format/step_log_lines.h"

#include <string.h>

#include "base/ascii.h"

/* Whether bytes from `at` are `word`, in either case. */
static bool has_word(const char *line, size_t size, size_t at, const char *word)
{
    for (; *word != '\0'; word++, at++)
        if (at >= size || (line[at] | 0x20) != *word)
            return false;
    return true;
}

static bool begins_hint(const char *line, size_t size, size_t at)
{
    char before = at != 0 ? line[at - 1] : ' ';
    bool is_unit_place = !vw__ascii_is_letter(before);
    switch (line[at] | 0x20) {
    case 'm':
        return has_word(line, size, at, "mem") || vw__ascii_is_digit(before) ||
               (is_unit_place &&
                (has_word(line, size, at, "mb") || has_word(line, size, at, "mib")));
    case 'g':
        return has_word(line, size, at, "gpu") || vw__ascii_is_digit(before) ||
               (is_unit_place &&
                (has_word(line, size, at, "gb") || has_word(line, size, at, "gib")));
    case 'v':
        return has_word(line, size, at, "vram") ||
               (at >= 5 && has_word(line, size, at - 5, "reserved"));
    case 'b':
        return has_word(line, size, at, "byte");
    case 'k':
        return is_unit_place && (has_word(line, size, at, "kb") || has_word(line, size, at, "kib"));
    case 'r':
        return is_unit_place && has_word(line, size, at, "rss") &&
               (at + 3 >= size || !vw__ascii_is_letter(line[at + 3]));
    case 'c':
        return at >= 4 && has_word(line, size, at - 4, "alloc");
    default:
        return false;
    }
}

bool vw__step_hint_in_line(const char *line, size_t size)
{
    static const bool may_begin[256] = {
        ['m'] = true, ['M'] = true, ['g'] = true, ['G'] = true, ['v'] = true,
        ['V'] = true, ['c'] = true, ['C'] = true, ['b'] = true, ['B'] = true,
        ['k'] = true, ['K'] = true, ['r'] = true, ['R'] = true,
    };
    for (size_t at = 0; at < size; at++)
        if (may_begin[(unsigned char)line[at]] && begins_hint(line, size, at))
            return true;
    return false;
}

enum { BLOCK_BYTES = 64 };

/* The same, roughly and quickly, for many lines at once: false where no line that a byte of this
 * block is in the middle of can have a hint there. One byte before the block and two behind it are
 * read. A plain loop of fixed length, so that compilers make vector instructions of it. */
static bool may_have_hint(const char *block, unsigned *line_ends)
{
    unsigned char found = 0, ends = 0;
    for (int i = 0; i < BLOCK_BYTES; i++) {
        unsigned char before = (unsigned char)block[i - 1], byte = (unsigned char)block[i];
        unsigned char first = byte | 0x20, second = (unsigned char)block[i + 1] | 0x20;
        unsigned char third = (unsigned char)block[i + 2] | 0x20;
        unsigned char is_m = first == 'm', is_g = first == 'g';
        unsigned char is_behind_digit = (unsigned char)(before - '0') < 10;
        unsigned char is_mem = is_m & (second == 'e') & (third == 'm');
        unsigned char is_gpu = is_g & (second == 'p') & (third == 'u');
        unsigned char is_behind_letter = (unsigned char)((before | 0x20) - 'a') < 26;
        unsigned char is_bytes = (second == 'b') | ((second == 'i') & (third == 'b'));
        unsigned char is_word = is_bytes & !is_behind_letter;
        unsigned char is_unit =
            ((is_m | is_g) & (is_behind_digit | is_word)) | ((first == 'k') & is_word);
        unsigned char is_byte = (first == 'b') & (second == 'y') & (third == 't');
        unsigned char is_rss =
            (first == 'r') & (second == 's') & (third == 's') & !is_behind_letter;
        unsigned char is_vram = (first == 'v') & (second == 'r') & (third == 'a');
        unsigned char is_reserved = (first == 'r') & (second == 'v') & (third == 'e');
        unsigned char is_alloc = (first == 'l') & (second == 'l') & (third == 'o');
        unsigned char is_bracket = (before == '\n') & (first == '{'); /* either kind */
        found |= is_mem | is_gpu | is_unit | is_vram | is_reserved | is_alloc | is_bracket |
                 is_byte | is_rss;
        ends = (unsigned char)(ends + (byte == '\n'));
    }
    *line_ends = ends;
    return found != 0;
}

size_t vw__step_dull_bytes(const char *bytes, size_t size, uint64_t *line_count)
{
    if (size == 0 || bytes[0] == '{' || bytes[0] == '[' || begins_hint(bytes, size, 0))
        return 0;
    size_t at = 1; /* a block looks at the byte before it */
    uint64_t count = bytes[0] == '\n';
    for (; at + BLOCK_BYTES + 2 <= size; at += BLOCK_BYTES) {
        unsigned line_ends;
        if (may_have_hint(bytes + at, &line_ends))
            break;
        count += line_ends;
    }
    const char *last_end = count != 0 ? memrchr(bytes, '\n', at) : NULL;
    *line_count += count;
    return last_end != NULL ? (size_t)(last_end - bytes) + 1 : 0;
}
