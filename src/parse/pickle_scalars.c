/* pickle_scalars.c - instructions that make numbers, strings and bytes. */
#include "parse/pickle_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/byte_buffer.h"
#include "base/c_locale.h"
#include "base/checked_math.h" /* vw__min_u64 */

enum {
    QUOTED_BYTES = 64,     /* of a line, in a message */
    MORE_LINE_BYTES = 256, /* to look for the end of a line in */
};

/* ---- lines of text --------------------------------------------------------------------------- */

vw_status vw__unpickle_take_line(vw__unpickle_machine *machine, const char **line,
                                 size_t *size_bytes)
{
    size_t searched = 1;
    for (;;) {
        size_t at_hand = vw__unpickle_at_hand(machine);
        const uint8_t *newline = memchr(machine->next + searched, '\n', at_hand - searched);
        if (newline != NULL) {
            *line = (const char *)machine->next + 1;
            *size_bytes = (size_t)(newline - machine->next) - 1;
            return VW_OK;
        }
        searched = at_hand;
        VW__TRY(vw__unpickle_look_further(
            machine, (size_t)vw__min_u64(2 * (uint64_t)at_hand + MORE_LINE_BYTES,
                                         VW__BYTE_SOURCE_LARGEST_PEEK_BYTES)));
        if (vw__unpickle_at_hand(machine) <= at_hand)
            return vw__unpickle_fail(machine, "no end of line in the %zu bytes that follow",
                                     at_hand);
    }
}

void vw__unpickle_quote(const void *bytes, size_t size_bytes, char *text, size_t text_bytes)
{
    size_t count = (size_t)vw__min_u64(size_bytes, text_bytes - 1);
    for (size_t i = 0; i < count; i++) {
        char byte = ((const char *)bytes)[i];
        text[i] = byte;
        if (byte < ' ' || byte > '~')
            text[i] = '?';
    }
    text[count] = '\0';
}

vw_status vw__unpickle_refuse_line(const vw__unpickle_machine *machine, const char *line,
                                   size_t size_bytes, const char *expected)
{
    char quoted[QUOTED_BYTES];
    vw__unpickle_quote(line, size_bytes, quoted, sizeof quoted);
    return vw__unpickle_fail(machine, "expected %s, found \"%s\"", expected, quoted);
}

/* ---- the text forms of protocol 0 ------------------------------------------------------------ */

/* Byte for byte as Python reads them. Each takes a line without its newline, and returns false
 * where the line is not what it should be; the results are then left alone. Memory that runs out
 * shows in the buffer. */

bool vw__unpickle_parse_integer(const char *line, size_t size_bytes, vw__unpickle_number *out)
{
    vw__unpickle_number number = {0};
    if (size_bytes > 0 && (*line == '-' || *line == '+')) {
        number.is_negative = *line == '-';
        line++;
        size_bytes--;
    }
    if (size_bytes == 0)
        return false;
    for (size_t i = 0; i < size_bytes; i++) {
        if (!vw__ascii_is_digit(line[i]))
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

/* As Python's repr() writes a float; "inf" and "nan" too. */
static bool parse_float(const char *line, size_t size_bytes, double *out)
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
    double number = vw__c_locale_strtod(text, &end);
    if (*end != '\0')
        return false;
    *out = number;
    return true;
}

static bool parse_hex(const char *digits, size_t count, uint32_t *out)
{
    uint32_t number = 0;
    for (size_t i = 0; i < count; i++) {
        int digit = vw__ascii_hex_value(digits[i]);
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

/* Appends what a string in quotes, with backslash escapes, stands for. */
static bool unquote(const char *line, size_t size_bytes, vw__byte_buffer *out)
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

/* Appends, as UTF-8, what Python's raw-unicode-escape stands for: Latin-1 with \uXXXX and
 * \UXXXXXXXX. A backslash behind an even number of them begins an escape. Halves of surrogate pairs
 * become three bytes each, as they do in Python's own pickles. */
static bool decode_raw_unicode(const char *line, size_t size_bytes, vw__byte_buffer *out)
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
            vw__document_append_utf8(out, code);
            i++;
            continue;
        }
        if (size_bytes - i - 2 < digit_count || !parse_hex(line + i + 2, digit_count, &code) ||
            code > 0x10ffff)
            return false;
        vw__document_append_utf8(out, code);
        i += 2 + digit_count;
    }
    return true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Little-endian, two's complement, any length. */
static vw_status push_long(vw__unpickle_machine *machine, const uint8_t *bytes, size_t size_bytes)
{
    vw__value value = vw__value_huge();
    while (size_bytes > 8) { /* bytes that repeat the sign say nothing */
        uint8_t sign = bytes[size_bytes - 2] >= 0x80 ? 0xff : 0;
        if (bytes[size_bytes - 1] != sign)
            break;
        size_bytes--;
    }
    if (size_bytes <= 8) {
        unsigned spare_bits = 64 - 8 * (unsigned)size_bytes;
        uint64_t bits = vw__unpickle_read_le(bytes, (unsigned)size_bytes);
        int64_t number = size_bytes != 0 ? (int64_t)(bits << spare_bits) >> spare_bits : 0;
        VW__UNPICKLE_TRY(machine, vw__document_integer(machine->document, number, &value));
    } else if (size_bytes == 9 && bytes[8] == 0) {
        VW__UNPICKLE_TRY(machine, vw__document_unsigned(machine->document,
                                                        vw__unpickle_read_le(bytes, 8), &value));
    }
    vw__unpickle_push(machine, value);
    return VW_OK;
}

static vw_status step_small_integer(vw__unpickle_machine *machine)
{
    uint64_t number =
        vw__unpickle_read_le(machine->next + 1, vw__unpickle_argument_bytes[*machine->next]);
    vw__value value;
    VW__UNPICKLE_TRY(machine, vw__document_integer(machine->document,
                                                   *machine->next == VW__UNPICKLE_BININT
                                                       ? (int64_t)(int32_t)number
                                                       : (int64_t)number,
                                                   &value));
    vw__unpickle_push(machine, value);
    machine->next += 1 + vw__unpickle_argument_bytes[*machine->next];
    return VW_OK;
}

static vw_status step_long(vw__unpickle_machine *machine, unsigned length_bytes)
{
    uint64_t size_bytes = vw__unpickle_read_le(machine->next + 1, length_bytes);
    if (length_bytes == 4 && size_bytes > INT32_MAX)
        return vw__unpickle_fail(machine, "a negative length, %" PRIi64,
                                 (int64_t)(int32_t)size_bytes);
    VW__TRY(vw__unpickle_need(machine, 1 + length_bytes + size_bytes));
    VW__TRY(push_long(machine, machine->next + 1 + length_bytes, (size_t)size_bytes));
    machine->next += 1 + length_bytes + size_bytes;
    return VW_OK;
}

static vw_status push_number(vw__unpickle_machine *machine, vw__unpickle_number number)
{
    vw__value value = vw__value_huge();
    if (!number.is_huge && !number.is_negative)
        VW__UNPICKLE_TRY(machine,
                         vw__document_unsigned(machine->document, number.magnitude, &value));
    else if (!number.is_huge && number.magnitude <= (uint64_t)1 << 63)
        VW__UNPICKLE_TRY(machine, vw__document_integer(machine->document,
                                                       (int64_t)(0 - number.magnitude), &value));
    vw__unpickle_push(machine, value);
    return VW_OK;
}

static vw_status step_text_integer(vw__unpickle_machine *machine)
{
    const char *line;
    size_t size_bytes;
    vw__unpickle_number number;
    VW__TRY(vw__unpickle_take_line(machine, &line, &size_bytes));
    bool is_long = *machine->next == VW__UNPICKLE_LONG;
    if (!is_long && size_bytes == 2 && line[0] == '0' && (line[1] == '0' || line[1] == '1')) {
        vw__unpickle_push(machine, vw__value_boolean(line[1] == '1'));
        vw__unpickle_skip_line(machine, size_bytes);
        return VW_OK;
    }
    size_t digits_bytes = size_bytes;
    if (is_long && size_bytes != 0 && line[size_bytes - 1] == 'L')
        digits_bytes--;
    if (!vw__unpickle_parse_integer(line, digits_bytes, &number))
        return vw__unpickle_refuse_line(machine, line, size_bytes, "an integer");
    VW__TRY(push_number(machine, number));
    vw__unpickle_skip_line(machine, size_bytes);
    return VW_OK;
}

static vw_status push_float(vw__unpickle_machine *machine, double number)
{
    vw__value value;
    VW__UNPICKLE_TRY(machine, vw__document_float(machine->document, number, &value));
    vw__unpickle_push(machine, value);
    return VW_OK;
}

static vw_status step_text_float(vw__unpickle_machine *machine)
{
    const char *line;
    size_t size_bytes;
    double number;
    VW__TRY(vw__unpickle_take_line(machine, &line, &size_bytes));
    if (!parse_float(line, size_bytes, &number))
        return vw__unpickle_refuse_line(machine, line, size_bytes, "a float");
    VW__TRY(push_float(machine, number));
    vw__unpickle_skip_line(machine, size_bytes);
    return VW_OK;
}

static vw_status step_float(vw__unpickle_machine *machine)
{
    uint64_t bits =
        __builtin_bswap64(vw__unpickle_read_le(machine->next + 1, 8)); /* big-endian in the file */
    double number;
    memcpy(&number, &bits, sizeof number);
    VW__TRY(push_float(machine, number));
    machine->next += 9;
    return VW_OK;
}

/* ---- strings --------------------------------------------------------------------------------- */

static vw_status step_string(vw__unpickle_machine *machine, unsigned length_bytes, bool is_signed,
                             bool is_bytes)
{
    uint64_t size_bytes = vw__unpickle_read_le(machine->next + 1, length_bytes);
    if (is_signed && size_bytes > INT32_MAX)
        return vw__unpickle_fail(machine, "a negative length, %" PRIi64,
                                 (int64_t)(int32_t)size_bytes);
    if (size_bytes > UINT64_MAX - 9)
        return vw__unpickle_fail(machine, "a length of %" PRIu64 " bytes", size_bytes);
    VW__TRY(vw__unpickle_need(machine, 1 + length_bytes + size_bytes));
    const uint8_t *bytes = machine->next + 1 + length_bytes;
    vw__value value;
    if (is_bytes)
        VW__UNPICKLE_TRY(machine,
                         vw__document_bytes(machine->document, bytes, (size_t)size_bytes, &value));
    else
        VW__UNPICKLE_TRY(machine,
                         vw__document_string(machine->document, bytes, (size_t)size_bytes, &value));
    vw__unpickle_push(machine, value);
    machine->next += 1 + length_bytes + size_bytes;
    return VW_OK;
}

static vw_status step_text_string(vw__unpickle_machine *machine)
{
    const char *line;
    size_t size_bytes;
    VW__TRY(vw__unpickle_take_line(machine, &line, &size_bytes));
    bool is_unicode = *machine->next == VW__UNPICKLE_UNICODE;
    vw__byte_buffer text;
    vw__byte_buffer_init(&text);
    vw__value value = vw__value_none();
    vw_status status;
    if (!(is_unicode ? decode_raw_unicode(line, size_bytes, &text)
                     : unquote(line, size_bytes, &text)))
        status = vw__unpickle_refuse_line(
            machine, line, size_bytes, is_unicode ? "text with \\u escapes" : "a string in quotes");
    else if (vw__byte_buffer_has_failed(&text))
        status = vw__fail_host_memory(size_bytes, "a string");
    else
        status = vw__document_string(machine->document, vw__byte_buffer_text(&text),
                                     vw__byte_buffer_size(&text), &value);
    vw__byte_buffer_deinit(&text);
    VW__TRY(status);
    vw__unpickle_push(machine, value);
    vw__unpickle_skip_line(machine, size_bytes);
    return VW_OK;
}

vw_status vw__unpickle_step_scalar(vw__unpickle_machine *machine, bool *is_known)
{
    switch (*machine->next) {
    case VW__UNPICKLE_BININT:
    case VW__UNPICKLE_BININT1:
    case VW__UNPICKLE_BININT2:
        return step_small_integer(machine);
    case VW__UNPICKLE_LONG1:
        return step_long(machine, 1);
    case VW__UNPICKLE_LONG4:
        return step_long(machine, 4);
    case VW__UNPICKLE_INT:
    case VW__UNPICKLE_LONG:
        return step_text_integer(machine);
    case VW__UNPICKLE_FLOAT:
        return step_text_float(machine);
    case VW__UNPICKLE_BINFLOAT:
        return step_float(machine);
    case VW__UNPICKLE_STRING:
    case VW__UNPICKLE_UNICODE:
        return step_text_string(machine);
    case VW__UNPICKLE_BINSTRING:
        return step_string(machine, 4, true, false);
    case VW__UNPICKLE_SHORT_BINSTRING:
    case VW__UNPICKLE_SHORT_BINUNICODE:
        return step_string(machine, 1, false, false);
    case VW__UNPICKLE_BINUNICODE:
        return step_string(machine, 4, false, false);
    case VW__UNPICKLE_BINUNICODE8:
        return step_string(machine, 8, false, false);
    case VW__UNPICKLE_SHORT_BINBYTES:
        return step_string(machine, 1, false, true);
    case VW__UNPICKLE_BINBYTES:
        return step_string(machine, 4, false, true);
    case VW__UNPICKLE_BINBYTES8:
    case VW__UNPICKLE_BYTEARRAY8:
        return step_string(machine, 8, false, true);
    default:
        *is_known = false;
        return VW_OK;
    }
}
