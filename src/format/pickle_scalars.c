/* pickle_scalars.c - instructions that make numbers, strings and bytes. */
#include "format/pickle_machine.h"

#include <string.h>

#include "base/checked_math.h" /* hr__min_u64 */

#include "format/pickle_text.h"

enum {
    QUOTED_BYTES = 64,     /* of a line, in a message */
    MORE_LINE_BYTES = 256, /* to look for the end of a line in */
};

/* ---- lines of text --------------------------------------------------------------------------- */

hr_status hr__pickle_take_line(hr__pickle_machine *machine, const char **line, size_t *size_bytes)
{
    size_t searched = 1;
    for (;;) {
        size_t at_hand = hr__pickle_at_hand(machine);
        const uint8_t *newline = memchr(machine->next + searched, '\n', at_hand - searched);
        if (newline != NULL) {
            *line = (const char *)machine->next + 1;
            *size_bytes = (size_t)(newline - machine->next) - 1;
            return HR_OK;
        }
        searched = at_hand;
        HR__TRY(hr__pickle_look_further(machine,
                                        (size_t)hr__min_u64(2 * (uint64_t)at_hand + MORE_LINE_BYTES,
                                                            HR__SOURCE_LARGEST_PEEK_BYTES)));
        if (hr__pickle_at_hand(machine) <= at_hand)
            return hr__pickle_fail(machine, "no end of line in the %zu bytes that follow", at_hand);
    }
}

void hr__pickle_quote(const void *bytes, size_t size_bytes, char *text, size_t text_bytes)
{
    size_t count = (size_t)hr__min_u64(size_bytes, text_bytes - 1);
    for (size_t i = 0; i < count; i++) {
        char byte = ((const char *)bytes)[i];
        text[i] = byte;
        if (byte < ' ' || byte > '~')
            text[i] = '?';
    }
    text[count] = '\0';
}

hr_status hr__pickle_refuse_line(const hr__pickle_machine *machine, const char *line,
                                 size_t size_bytes, const char *expected)
{
    char quoted[QUOTED_BYTES];
    hr__pickle_quote(line, size_bytes, quoted, sizeof quoted);
    return hr__pickle_fail(machine, "expected %s, found \"%s\"", expected, quoted);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Little-endian, two's complement, any length. */
static hr_status push_long(hr__pickle_machine *machine, const uint8_t *bytes, size_t size_bytes)
{
    hr__value value = hr__value_huge();
    while (size_bytes > 8) { /* bytes that repeat the sign say nothing */
        uint8_t sign = bytes[size_bytes - 2] >= 0x80 ? 0xff : 0;
        if (bytes[size_bytes - 1] != sign)
            break;
        size_bytes--;
    }
    if (size_bytes <= 8) {
        unsigned spare_bits = 64 - 8 * (unsigned)size_bytes;
        uint64_t bits = hr__pickle_read_le(bytes, (unsigned)size_bytes);
        int64_t number = size_bytes != 0 ? (int64_t)(bits << spare_bits) >> spare_bits : 0;
        HR__PICKLE_TRY(machine, hr__document_integer(machine->document, number, &value));
    } else if (size_bytes == 9 && bytes[8] == 0) {
        HR__PICKLE_TRY(machine, hr__document_unsigned(machine->document,
                                                      hr__pickle_read_le(bytes, 8), &value));
    }
    hr__pickle_push(machine, value);
    return HR_OK;
}

static hr_status step_small_integer(hr__pickle_machine *machine)
{
    uint64_t number =
        hr__pickle_read_le(machine->next + 1, hr__pickle_argument_bytes[*machine->next]);
    hr__value value;
    HR__PICKLE_TRY(machine, hr__document_integer(machine->document,
                                                 *machine->next == HR__OPCODE_BININT
                                                     ? (int64_t)(int32_t)number
                                                     : (int64_t)number,
                                                 &value));
    hr__pickle_push(machine, value);
    machine->next += 1 + hr__pickle_argument_bytes[*machine->next];
    return HR_OK;
}

static hr_status step_long(hr__pickle_machine *machine, unsigned length_bytes)
{
    uint64_t size_bytes = hr__pickle_read_le(machine->next + 1, length_bytes);
    if (length_bytes == 4 && size_bytes > INT32_MAX)
        return hr__pickle_fail(machine, "a negative length, %" PRIi64,
                               (int64_t)(int32_t)size_bytes);
    HR__TRY(hr__pickle_need(machine, 1 + length_bytes + size_bytes));
    HR__TRY(push_long(machine, machine->next + 1 + length_bytes, (size_t)size_bytes));
    machine->next += 1 + length_bytes + size_bytes;
    return HR_OK;
}

static hr_status push_number(hr__pickle_machine *machine, hr__pickle_number number)
{
    hr__value value = hr__value_huge();
    if (!number.is_huge && !number.is_negative)
        HR__PICKLE_TRY(machine, hr__document_unsigned(machine->document, number.magnitude, &value));
    else if (!number.is_huge && number.magnitude <= (uint64_t)1 << 63)
        HR__PICKLE_TRY(machine, hr__document_integer(machine->document,
                                                     (int64_t)(0 - number.magnitude), &value));
    hr__pickle_push(machine, value);
    return HR_OK;
}

static hr_status step_text_integer(hr__pickle_machine *machine)
{
    const char *line;
    size_t size_bytes;
    hr__pickle_number number;
    HR__TRY(hr__pickle_take_line(machine, &line, &size_bytes));
    bool is_long = *machine->next == HR__OPCODE_LONG;
    if (!is_long && size_bytes == 2 && line[0] == '0' && (line[1] == '0' || line[1] == '1')) {
        hr__pickle_push(machine, hr__value_boolean(line[1] == '1'));
        hr__pickle_skip_line(machine, size_bytes);
        return HR_OK;
    }
    size_t digits_bytes = size_bytes;
    if (is_long && size_bytes != 0 && line[size_bytes - 1] == 'L')
        digits_bytes--;
    if (!hr__pickle_parse_integer(line, digits_bytes, &number))
        return hr__pickle_refuse_line(machine, line, size_bytes, "an integer");
    HR__TRY(push_number(machine, number));
    hr__pickle_skip_line(machine, size_bytes);
    return HR_OK;
}

static hr_status push_float(hr__pickle_machine *machine, double number)
{
    hr__value value;
    HR__PICKLE_TRY(machine, hr__document_float(machine->document, number, &value));
    hr__pickle_push(machine, value);
    return HR_OK;
}

static hr_status step_text_float(hr__pickle_machine *machine)
{
    const char *line;
    size_t size_bytes;
    double number;
    HR__TRY(hr__pickle_take_line(machine, &line, &size_bytes));
    if (!hr__pickle_parse_float(line, size_bytes, &number))
        return hr__pickle_refuse_line(machine, line, size_bytes, "a float");
    HR__TRY(push_float(machine, number));
    hr__pickle_skip_line(machine, size_bytes);
    return HR_OK;
}

static hr_status step_float(hr__pickle_machine *machine)
{
    uint64_t bits =
        __builtin_bswap64(hr__pickle_read_le(machine->next + 1, 8)); /* big-endian in the file */
    double number;
    memcpy(&number, &bits, sizeof number);
    HR__TRY(push_float(machine, number));
    machine->next += 9;
    return HR_OK;
}

/* ---- strings --------------------------------------------------------------------------------- */

static hr_status step_string(hr__pickle_machine *machine, unsigned length_bytes, bool is_signed,
                             bool is_bytes)
{
    uint64_t size_bytes = hr__pickle_read_le(machine->next + 1, length_bytes);
    if (is_signed && size_bytes > INT32_MAX)
        return hr__pickle_fail(machine, "a negative length, %" PRIi64,
                               (int64_t)(int32_t)size_bytes);
    if (size_bytes > UINT64_MAX - 9)
        return hr__pickle_fail(machine, "a length of %" PRIu64 " bytes", size_bytes);
    HR__TRY(hr__pickle_need(machine, 1 + length_bytes + size_bytes));
    const uint8_t *bytes = machine->next + 1 + length_bytes;
    hr__value value;
    if (is_bytes)
        HR__PICKLE_TRY(machine,
                       hr__document_bytes(machine->document, bytes, (size_t)size_bytes, &value));
    else
        HR__PICKLE_TRY(machine,
                       hr__document_string(machine->document, bytes, (size_t)size_bytes, &value));
    hr__pickle_push(machine, value);
    machine->next += 1 + length_bytes + size_bytes;
    return HR_OK;
}

static hr_status step_text_string(hr__pickle_machine *machine)
{
    const char *line;
    size_t size_bytes;
    HR__TRY(hr__pickle_take_line(machine, &line, &size_bytes));
    bool is_unicode = *machine->next == HR__OPCODE_UNICODE;
    hr__byte_buffer text;
    hr__byte_buffer_init(&text);
    hr__value value = hr__value_none();
    hr_status status;
    if (!(is_unicode ? hr__pickle_decode_raw_unicode(line, size_bytes, &text)
                     : hr__pickle_unquote(line, size_bytes, &text)))
        status = hr__pickle_refuse_line(
            machine, line, size_bytes, is_unicode ? "text with \\u escapes" : "a string in quotes");
    else if (hr__byte_buffer_has_failed(&text))
        status = hr__fail_host_memory(size_bytes, "a string");
    else
        status = hr__document_string(machine->document, hr__byte_buffer_text(&text),
                                     hr__byte_buffer_size(&text), &value);
    hr__byte_buffer_deinit(&text);
    HR__TRY(status);
    hr__pickle_push(machine, value);
    hr__pickle_skip_line(machine, size_bytes);
    return HR_OK;
}

hr_status hr__pickle_step_scalar(hr__pickle_machine *machine, bool *is_known)
{
    switch (*machine->next) {
    case HR__OPCODE_BININT:
    case HR__OPCODE_BININT1:
    case HR__OPCODE_BININT2:
        return step_small_integer(machine);
    case HR__OPCODE_LONG1:
        return step_long(machine, 1);
    case HR__OPCODE_LONG4:
        return step_long(machine, 4);
    case HR__OPCODE_INT:
    case HR__OPCODE_LONG:
        return step_text_integer(machine);
    case HR__OPCODE_FLOAT:
        return step_text_float(machine);
    case HR__OPCODE_BINFLOAT:
        return step_float(machine);
    case HR__OPCODE_STRING:
    case HR__OPCODE_UNICODE:
        return step_text_string(machine);
    case HR__OPCODE_BINSTRING:
        return step_string(machine, 4, true, false);
    case HR__OPCODE_SHORT_BINSTRING:
    case HR__OPCODE_SHORT_BINUNICODE:
        return step_string(machine, 1, false, false);
    case HR__OPCODE_BINUNICODE:
        return step_string(machine, 4, false, false);
    case HR__OPCODE_BINUNICODE8:
        return step_string(machine, 8, false, false);
    case HR__OPCODE_SHORT_BINBYTES:
        return step_string(machine, 1, false, true);
    case HR__OPCODE_BINBYTES:
        return step_string(machine, 4, false, true);
    case HR__OPCODE_BINBYTES8:
    case HR__OPCODE_BYTEARRAY8:
        return step_string(machine, 8, false, true);
    default:
        *is_known = false;
        return HR_OK;
    }
}
