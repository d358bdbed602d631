/* pickle_text.c - the text forms of protocol 0, byte for byte as Python reads them. */
#include "format/pickle_text.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

bool vw__pickle_parse_integer(const char *line, size_t size_bytes, vw__pickle_number *out)
{
    vw__pickle_number number = {0};
    if (size_bytes > 0 && (*line == '-' || *line == '+')) {
        number.is_negative = *line == '-';
        line++;
        size_bytes--;
    }
    if (size_bytes == 0)
        return false;
    for (size_t i = 0; i < size_bytes; i++) {
        if (line[i] < '0' || line[i] > '9')
            return false;
        if (!number.is_huge && (__builtin_mul_overflow(number.magnitude, 10, &number.magnitude) ||
                                __builtin_add_overflow(number.magnitude, (uint64_t)(line[i] - '0'),
                                                       &number.magnitude)))
            number.is_huge = true;
    }
    if (number.is_huge)
        number.magnitude = 0;
    *out = number;
    return true;
}

bool vw__pickle_parse_float(const char *line, size_t size_bytes, double *out)
{
    char text[128]; /* repr() needs 24 */
    if (size_bytes == 0 || size_bytes >= sizeof text)
        return false;
    memcpy(text, line, size_bytes);
    text[size_bytes] = '\0';
    /* strtod() knows blanks, hexadecimal and nan(...) as well: these letters cannot spell them. */
    if (strspn(text, "+-.0123456789eEinfatyINFATY") != size_bytes)
        return false;
    char *end;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0)
        return false;
    double number = strtod_l(text, &end, c_locale);
    freelocale(c_locale);
    if (*end != '\0')
        return false;
    *out = number;
    return true;
}

static int hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

static bool parse_hex(const char *digits, size_t count, uint32_t *out)
{
    uint32_t number = 0;
    for (size_t i = 0; i < count; i++) {
        int digit = hex_digit(digits[i]);
        if (digit < 0)
            return false;
        number = number << 4 | (uint32_t)digit;
    }
    *out = number;
    return true;
}

/* The escape behind a backslash, of which there is at least one byte. Returns the number of bytes
 * it takes, 0 where it is wrong. */
static size_t unescape(const char *escape, size_t size_bytes, vw__byte_buffer *out)
{
    static const char letters[] = "\\'\"abfnrtv";
    static const char meanings[] = "\\'\"\a\b\f\n\r\t\v";
    const char *letter = *escape != '\0' ? strchr(letters, *escape) : NULL;
    if (letter != NULL) {
        vw__append_u8(out, (uint8_t)meanings[letter - letters]);
        return 1;
    }
    if (*escape == 'x') {
        uint32_t number;
        if (size_bytes < 3 || !parse_hex(escape + 1, 2, &number))
            return 0;
        vw__append_u8(out, (uint8_t)number);
        return 3;
    }
    if (*escape >= '0' && *escape <= '7') {
        unsigned number = 0;
        size_t used = 0;
        while (used < 3 && used < size_bytes && escape[used] >= '0' && escape[used] <= '7')
            number = number * 8 + (unsigned)(escape[used++] - '0');
        vw__append_u8(out, (uint8_t)number);
        return used;
    }
    vw__append_u8(out, '\\'); /* not an escape: Python keeps both */
    vw__append_u8(out, (uint8_t)*escape);
    return 1;
}

bool vw__pickle_unquote(const char *line, size_t size_bytes, vw__byte_buffer *out)
{
    if (size_bytes < 2 || (*line != '\'' && *line != '"') || line[size_bytes - 1] != *line)
        return false;
    const char *end = line + size_bytes - 1;
    line++;
    while (line < end) {
        const char *backslash = memchr(line, '\\', (size_t)(end - line));
        const char *plain_end = backslash != NULL ? backslash : end;
        vw__append_bytes(out, line, (size_t)(plain_end - line));
        line = plain_end;
        if (backslash == NULL)
            break;
        if (++line == end)
            return false;
        size_t used = unescape(line, (size_t)(end - line), out);
        if (used == 0)
            return false;
        line += used;
    }
    return true;
}

static void append_utf8(vw__byte_buffer *out, uint32_t code)
{
    if (code < 0x80) {
        vw__append_u8(out, (uint8_t)code);
        return;
    }
    unsigned following = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
    vw__append_u8(out, (uint8_t)(first[following] | code >> (6 * following)));
    while (following-- > 0)
        vw__append_u8(out, (uint8_t)(0x80 | (code >> (6 * following) & 0x3f)));
}

/* A backslash that an even number of backslashes stand before begins an escape. */
bool vw__pickle_decode_raw_unicode(const char *line, size_t size_bytes, vw__byte_buffer *out)
{
    for (size_t i = 0; i < size_bytes;) {
        uint32_t code = (uint8_t)line[i];
        size_t digit_count = 0;
        if (code == '\\' && i + 1 < size_bytes) {
            if (line[i + 1] == 'u')
                digit_count = 4;
            else if (line[i + 1] == 'U')
                digit_count = 8;
            else if (line[i + 1] == '\\') { /* both stay, and the second begins nothing */
                vw__append_text(out, "\\\\");
                i += 2;
                continue;
            }
        }
        if (digit_count == 0) {
            append_utf8(out, code);
            i++;
            continue;
        }
        if (size_bytes - i - 2 < digit_count || !parse_hex(line + i + 2, digit_count, &code) ||
            code > 0x10ffff)
            return false;
        append_utf8(out, code);
        i += 2 + digit_count;
    }
    return true;
}
