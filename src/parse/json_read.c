/* json_read.c - a reader by recursive descent: one function for each thing that JSON has.
 *
 * It looks one byte ahead and never back. The depth is limited, so the descent cannot use up the
 * stack, and no number or string is held but the one at hand. */
#include "parse/json_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/byte_buffer.h"
#include "base/error.h"

typedef struct json_reader {
    vw__byte_source *source;
    vw__document *document;
    const uint8_t *window;
    size_t window_bytes;
    size_t at;            /* in the window */
    bool is_over;         /* nothing comes after the window */
    uint64_t line;        /* from 1 */
    uint64_t line_offset; /* of its first byte in the source */
    vw__byte_buffer text; /* of the string at hand */
    uint32_t high_half;   /* the first of two escapes that make one character; 0: none */
} json_reader;

/* ---- bytes ----------------------------------------------------------------------------------- */

enum { NO_MORE = -1 };

#define REPLACEMENT UINT32_C(0xFFFD)

static vw_status refill(json_reader *reader)
{
    vw__byte_source_take(reader->source, reader->at);
    reader->at = reader->window_bytes = 0;
    VW__TRY(vw__byte_source_peek(reader->source, 1, &reader->window, &reader->window_bytes));
    reader->is_over = reader->window_bytes == 0;
    return VW_OK;
}

/* Peeks at the next byte, or NO_MORE. */
static inline vw_status look(json_reader *reader, int *byte)
{
    if (reader->at == reader->window_bytes && !reader->is_over)
        VW__TRY(refill(reader));
    *byte = reader->at < reader->window_bytes ? reader->window[reader->at] : NO_MORE;
    return VW_OK;
}

/* Takes the byte that was looked at. */
static inline void take(json_reader *reader)
{
    reader->at++;
}

static uint64_t offset(const json_reader *reader)
{
    return vw__byte_source_offset(reader->source) + reader->at;
}

static vw_status skip_white_space(json_reader *reader, int *byte)
{
    for (;;) {
        VW__TRY(look(reader, byte));
        if (*byte != ' ' && *byte != '\t' && *byte != '\n' && *byte != '\r')
            return VW_OK;
        take(reader);
        if (*byte == '\n') {
            reader->line++;
            reader->line_offset = offset(reader);
        }
    }
}

static vw_status wrong(const json_reader *reader, const char *expected, int found)
{
    char shown[32];
    if (found == NO_MORE)
        snprintf(shown, sizeof shown, "the end of the file");
    else if (found > ' ' && found <= '~')
        snprintf(shown, sizeof shown, "'%c'", found);
    else
        snprintf(shown, sizeof shown, "the byte 0x%02x", (unsigned)found);
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "JSON, line %" PRIu64 ", column %" PRIu64 ": expected %s, found %s",
                    reader->line, offset(reader) - reader->line_offset + 1, expected, shown);
}

/* ---- strings --------------------------------------------------------------------------------- */

static vw_status read_hex4(json_reader *reader, uint32_t *out)
{
    uint32_t code = 0;
    for (int i = 0; i < 4; i++) {
        int byte;
        VW__TRY(look(reader, &byte));
        int digit = byte > 0 && byte < 128 ? vw__ascii_hex_value((char)byte) : -1;
        if (digit < 0)
            return wrong(reader, "four hexadecimal digits after \\u", byte);
        code = code << 4 | (uint32_t)digit;
        take(reader);
    }
    *out = code;
    return VW_OK;
}

static bool is_high_half(uint32_t code)
{
    return code >= 0xD800 && code < 0xDC00;
}

static bool is_low_half(uint32_t code)
{
    return code >= 0xDC00 && code < 0xE000;
}

/* A character beyond 16 bits is written as two halves, each an escape. One that stands alone
 * (Python writes them for file names that are not UTF-8) becomes U+FFFD. */
static void end_half(json_reader *reader)
{
    if (reader->high_half != 0)
        vw__document_append_utf8(&reader->text, REPLACEMENT);
    reader->high_half = 0;
}

/* Behind "\\u". */
static vw_status read_unicode_escape(json_reader *reader)
{
    uint32_t code = 0;
    VW__TRY(read_hex4(reader, &code));
    if (reader->high_half != 0 && is_low_half(code)) {
        vw__document_append_utf8(&reader->text,
                                 0x10000 + ((reader->high_half - 0xD800) << 10) + (code - 0xDC00));
        reader->high_half = 0;
        return VW_OK;
    }
    end_half(reader);
    if (is_high_half(code))
        reader->high_half = code;
    else
        vw__document_append_utf8(&reader->text, is_low_half(code) ? REPLACEMENT : code);
    return VW_OK;
}

/* Behind a backslash. */
static vw_status read_escape(json_reader *reader)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int byte;
    VW__TRY(look(reader, &byte));
    const char *known = byte > 0 ? strchr(from, byte) : NULL;
    if (known == NULL && byte != 'u')
        return wrong(reader, "one of \"\\/bfnrtu after a backslash", byte);
    take(reader);
    if (known == NULL)
        return read_unicode_escape(reader);
    end_half(reader);
    vw__append_u8(&reader->text, (uint8_t)to[known - from]);
    return VW_OK;
}

/* Bytes that stand for themselves, as many as the window has. */
static void read_plain_run(json_reader *reader)
{
    size_t end = reader->at;
    end_half(reader);
    while (end < reader->window_bytes && reader->window[end] >= ' ' && reader->window[end] != '"' &&
           reader->window[end] != '\\')
        end++;
    vw__append_bytes(&reader->text, reader->window + reader->at, end - reader->at);
    reader->at = end;
}

/* At the opening quote. */
static vw_status read_string(json_reader *reader, vw__value *out)
{
    take(reader);
    vw__byte_buffer_clear(&reader->text);
    for (;;) {
        int byte;
        VW__TRY(look(reader, &byte));
        if (byte == '"')
            break;
        if (byte == '\\') {
            take(reader);
            VW__TRY(read_escape(reader));
        } else if (byte >= ' ') {
            read_plain_run(reader);
        } else {
            return wrong(reader, "the closing quote of a string", byte);
        }
        if (vw__byte_buffer_size(&reader->text) > VW__DOCUMENT_JSON_STRING_BYTES)
            return vw__fail(VW_ERR_UNSUPPORTED, "JSON, line %" PRIu64 ": a string of over %d bytes",
                            reader->line, VW__DOCUMENT_JSON_STRING_BYTES);
    }
    take(reader);
    end_half(reader);
    if (vw__byte_buffer_has_failed(&reader->text))
        return vw__fail_host_memory(vw__byte_buffer_size(&reader->text), "a string of JSON");
    return vw__document_string(reader->document, vw__byte_buffer_text(&reader->text),
                               vw__byte_buffer_size(&reader->text), out);
}

/* ---- numbers --------------------------------------------------------------------------------- */

typedef struct json_number {
    uint64_t digits;  /* those that fit, as a number */
    int64_t exponent; /* of ten, for `digits` */
    bool is_negative;
    bool is_huge; /* `digits` is not all of it */
    bool is_float;
} json_number;

/* One digit or more; `step` is what each adds to the exponent: 0 before the point, -1 behind. */
static vw_status read_digits(json_reader *reader, json_number *number, int step)
{
    int byte;
    VW__TRY(look(reader, &byte));
    if (byte < '0' || byte > '9')
        return wrong(reader, "a digit", byte);
    while (byte >= '0' && byte <= '9') {
        uint64_t digit = (uint64_t)(byte - '0');
        if (!number->is_huge && number->digits <= (UINT64_MAX - digit) / 10) {
            number->digits = number->digits * 10 + digit;
            number->exponent += step;
        } else { /* the rest only counts places */
            number->is_huge = true;
            number->exponent += step + 1;
        }
        take(reader);
        VW__TRY(look(reader, &byte));
    }
    return VW_OK;
}

static vw_status read_exponent(json_reader *reader, json_number *number)
{
    enum { LARGEST = 100000 }; /* beyond any double, and no sum with it can overflow */
    json_number exponent = {0};
    int byte;
    take(reader); /* e */
    VW__TRY(look(reader, &byte));
    if (byte == '+' || byte == '-')
        take(reader);
    VW__TRY(read_digits(reader, &exponent, 0));
    int64_t size =
        exponent.digits < LARGEST && !exponent.is_huge ? (int64_t)exponent.digits : LARGEST;
    number->exponent += byte == '-' ? -size : size;
    return VW_OK;
}

/* Exact for up to 15 digits and 22 places, which is what people write; else within a unit of the
 * last place or two. (The C library's strtod() would depend on the locale.) */
static double double_of(const json_number *number)
{
    long double value = (long double)number->digits;
    int64_t exponent = number->exponent;
    long double power = 1, base = 10;
    uint64_t places = exponent < 0 ? (uint64_t)-exponent : (uint64_t)exponent;
    for (places = places < 10000 ? places : 10000; places != 0; places >>= 1, base *= base)
        power *= (places & 1) != 0 ? base : 1;
    if (number->digits != 0)
        value = exponent < 0 ? value / power : value * power;
    return (double)(number->is_negative ? -value : value);
}

static vw_status make_number(json_reader *reader, const json_number *number, vw__value *out)
{
    if (number->is_float)
        return vw__document_float(reader->document, double_of(number), out);
    if (number->is_huge || (number->is_negative && number->digits > UINT64_C(1) << 63)) {
        *out = vw__value_huge();
        return VW_OK;
    }
    if (number->is_negative)
        return vw__document_integer(reader->document, (int64_t)(0 - number->digits), out);
    return vw__document_unsigned(reader->document, number->digits, out);
}

/* At a minus or a digit. */
static vw_status read_number(json_reader *reader, int byte, vw__value *out)
{
    json_number number = {.is_negative = byte == '-'};
    if (number.is_negative) {
        take(reader);
        VW__TRY(look(reader, &byte));
    }
    if (byte == '0')
        take(reader); /* nothing but a point or an exponent may follow */
    else
        VW__TRY(read_digits(reader, &number, 0));
    VW__TRY(look(reader, &byte));
    if (byte == '.') {
        number.is_float = true;
        take(reader);
        VW__TRY(read_digits(reader, &number, -1));
        VW__TRY(look(reader, &byte));
    }
    if (byte == 'e' || byte == 'E') {
        number.is_float = true;
        VW__TRY(read_exponent(reader, &number));
    }
    return make_number(reader, &number, out);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static vw_status read_value(json_reader *reader, unsigned depth, vw__value *out);

static vw_status read_word(json_reader *reader, const char *word, vw__value value, vw__value *out)
{
    for (const char *at = word; *at != '\0'; at++) {
        int byte;
        VW__TRY(look(reader, &byte));
        if (byte != *at)
            return wrong(reader, word, byte);
        take(reader);
    }
    *out = value;
    return VW_OK;
}

/* At the opening bracket. */
static vw_status read_array(json_reader *reader, unsigned depth, vw__value *out)
{
    vw__value list, item;
    int byte;
    take(reader);
    VW__TRY(vw__document_new_list(reader->document, &list));
    VW__TRY(skip_white_space(reader, &byte));
    for (bool is_first = true; byte != ']' || !is_first; is_first = false) {
        VW__TRY(read_value(reader, depth, &item));
        VW__TRY(vw__document_append(reader->document, list, &item, 1));
        VW__TRY(skip_white_space(reader, &byte));
        if (byte == ']')
            break;
        if (byte != ',')
            return wrong(reader, "',' or ']' in an array", byte);
        take(reader);
    }
    take(reader);
    *out = list;
    return VW_OK;
}

static vw_status read_pair(json_reader *reader, unsigned depth, vw__value pair[2])
{
    int byte;
    VW__TRY(skip_white_space(reader, &byte));
    if (byte != '"')
        return wrong(reader, "a string as the name of a member", byte);
    VW__TRY(read_string(reader, &pair[0]));
    VW__TRY(skip_white_space(reader, &byte));
    if (byte != ':')
        return wrong(reader, "':' after the name of a member", byte);
    take(reader);
    return read_value(reader, depth, &pair[1]);
}

/* At the opening brace. */
static vw_status read_object(json_reader *reader, unsigned depth, vw__value *out)
{
    vw__value dict, pair[2];
    int byte;
    take(reader);
    VW__TRY(vw__document_new_dict(reader->document, &dict));
    VW__TRY(skip_white_space(reader, &byte));
    for (bool is_first = true; byte != '}' || !is_first; is_first = false) {
        VW__TRY(read_pair(reader, depth, pair));
        VW__TRY(vw__document_set(reader->document, dict, pair, 1));
        VW__TRY(skip_white_space(reader, &byte));
        if (byte == '}')
            break;
        if (byte != ',')
            return wrong(reader, "',' or '}' in an object", byte);
        take(reader);
    }
    take(reader);
    *out = dict;
    return VW_OK;
}

static vw_status read_value(json_reader *reader, unsigned depth, vw__value *out)
{
    int byte;
    VW__TRY(skip_white_space(reader, &byte));
    if ((byte == '{' || byte == '[') && depth == VW__DOCUMENT_JSON_DEEPEST)
        return vw__fail(VW_ERR_UNSUPPORTED, "JSON, line %" PRIu64 ": nested more than %d deep",
                        reader->line, VW__DOCUMENT_JSON_DEEPEST);
    switch (byte) {
    case '{':
        return read_object(reader, depth + 1, out);
    case '[':
        return read_array(reader, depth + 1, out);
    case '"':
        return read_string(reader, out);
    case 't':
        return read_word(reader, "true", vw__value_boolean(true), out);
    case 'f':
        return read_word(reader, "false", vw__value_boolean(false), out);
    case 'n':
        return read_word(reader, "null", vw__value_none(), out);
    default:
        if (byte == '-' || (byte >= '0' && byte <= '9'))
            return read_number(reader, byte, out);
        return wrong(reader, "a value", byte);
    }
}

static vw_status skip_byte_order_mark(json_reader *reader)
{
    static const uint8_t mark[] = {0xEF, 0xBB, 0xBF};
    VW__TRY(
        vw__byte_source_peek(reader->source, sizeof mark, &reader->window, &reader->window_bytes));
    if (reader->window_bytes >= sizeof mark && memcmp(reader->window, mark, sizeof mark) == 0)
        reader->at = reader->line_offset = sizeof mark;
    return VW_OK;
}

static vw_status read_all(json_reader *reader, vw__value *root)
{
    vw__value value;
    int byte;
    VW__TRY(skip_byte_order_mark(reader));
    VW__TRY(read_value(reader, 0, &value));
    VW__TRY(skip_white_space(reader, &byte));
    if (byte != NO_MORE)
        return wrong(reader, "the end of the file", byte);
    return vw__document_close(reader->document, value, root);
}

vw_status vw__document_read_json(vw__byte_source *source, vw__document *document, vw__value *root)
{
    json_reader reader = {.source = source, .document = document, .line = 1};
    vw__byte_buffer_init(&reader.text);
    vw_status status = read_all(&reader, root);
    vw__byte_buffer_deinit(&reader.text);
    return status;
}
