/* pickle_scalars.c - instructions that make numbers, strings and bytes. */
#include "format/pickle_machine.h"

#include <string.h>

#include "base/checked_math.h" /* vw__min_u64 */

#include "format/pickle_text.h"

enum {
    QUOTED_BYTES = 64,     /* of a line, in a message */
    MORE_LINE_BYTES = 256, /* to look for the end of a line in */
};

/* ---- lines of text --------------------------------------------------------------------------- */

vw_status vw__pickle_take_line(vw__pickle_machine *machine, const char **line, size_t *size_bytes)
{
    size_t searched = 1;
    for (;;) {
        size_t at_hand = vw__pickle_at_hand(machine);
        const uint8_t *newline = memchr(machine->next + searched, '\n', at_hand - searched);
        if (newline != NULL) {
            *line = (const char *)machine->next + 1;
            *size_bytes = (size_t)(newline - machine->next) - 1;
            return VW_OK;
        }
        searched = at_hand;
        VW__TRY(vw__pickle_look_further(machine,
                                        (size_t)vw__min_u64(2 * (uint64_t)at_hand + MORE_LINE_BYTES,
                                                            VW__SOURCE_LARGEST_PEEK_BYTES)));
        if (vw__pickle_at_hand(machine) <= at_hand)
            return vw__pickle_fail(machine, "no end of line in the %zu bytes that follow", at_hand);
    }
}

void vw__pickle_quote(const void *bytes, size_t size_bytes, char *text, size_t text_bytes)
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

vw_status vw__pickle_refuse_line(const vw__pickle_machine *machine, const char *line,
                                 size_t size_bytes, const char *expected)
{
    char quoted[QUOTED_BYTES];
    vw__pickle_quote(line, size_bytes, quoted, sizeof quoted);
    return vw__pickle_fail(machine, "expected %s, found \"%s\"", expected, quoted);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Little-endian, two's complement, any length. */
static vw_status push_long(vw__pickle_machine *machine, const uint8_t *bytes, size_t size_bytes)
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
        uint64_t bits = vw__pickle_read_le(bytes, (unsigned)size_bytes);
        int64_t number = size_bytes != 0 ? (int64_t)(bits << spare_bits) >> spare_bits : 0;
        VW__PICKLE_TRY(machine, vw__document_integer(machine->document, number, &value));
    } else if (size_bytes == 9 && bytes[8] == 0) {
        VW__PICKLE_TRY(machine, vw__document_unsigned(machine->document,
                                                      vw__pickle_read_le(bytes, 8), &value));
    }
    vw__pickle_push(machine, value);
    return VW_OK;
}

static vw_status step_small_integer(vw__pickle_machine *machine)
{
    uint64_t number =
        vw__pickle_read_le(machine->next + 1, vw__pickle_argument_bytes[*machine->next]);
    vw__value value;
    VW__PICKLE_TRY(machine, vw__document_integer(machine->document,
                                                 *machine->next == VW__OPCODE_BININT
                                                     ? (int64_t)(int32_t)number
                                                     : (int64_t)number,
                                                 &value));
    vw__pickle_push(machine, value);
    machine->next += 1 + vw__pickle_argument_bytes[*machine->next];
    return VW_OK;
}

static vw_status step_long(vw__pickle_machine *machine, unsigned length_bytes)
{
    uint64_t size_bytes = vw__pickle_read_le(machine->next + 1, length_bytes);
    if (length_bytes == 4 && size_bytes > INT32_MAX)
        return vw__pickle_fail(machine, "a negative length, %" PRIi64,
                               (int64_t)(int32_t)size_bytes);
    VW__TRY(vw__pickle_need(machine, 1 + length_bytes + size_bytes));
    VW__TRY(push_long(machine, machine->next + 1 + length_bytes, (size_t)size_bytes));
    machine->next += 1 + length_bytes + size_bytes;
    return VW_OK;
}

static vw_status push_number(vw__pickle_machine *machine, vw__pickle_number number)
{
    vw__value value = vw__value_huge();
    if (!number.is_huge && !number.is_negative)
        VW__PICKLE_TRY(machine, vw__document_unsigned(machine->document, number.magnitude, &value));
    else if (!number.is_huge && number.magnitude <= (uint64_t)1 << 63)
        VW__PICKLE_TRY(machine, vw__document_integer(machine->document,
                                                     (int64_t)(0 - number.magnitude), &value));
    vw__pickle_push(machine, value);
    return VW_OK;
}

static vw_status step_text_integer(vw__pickle_machine *machine)
{
    const char *line;
    size_t size_bytes;
    vw__pickle_number number;
    VW__TRY(vw__pickle_take_line(machine, &line, &size_bytes));
    bool is_long = *machine->next == VW__OPCODE_LONG;
    if (!is_long && size_bytes == 2 && line[0] == '0' && (line[1] == '0' || line[1] == '1')) {
        vw__pickle_push(machine, vw__value_boolean(line[1] == '1'));
        vw__pickle_skip_line(machine, size_bytes);
        return VW_OK;
    }
    size_t digits_bytes = size_bytes;
    if (is_long && size_bytes != 0 && line[size_bytes - 1] == 'L')
        digits_bytes--;
    if (!vw__pickle_parse_integer(line, digits_bytes, &number))
        return vw__pickle_refuse_line(machine, line, size_bytes, "an integer");
    VW__TRY(push_number(machine, number));
    vw__pickle_skip_line(machine, size_bytes);
    return VW_OK;
}

static vw_status push_float(vw__pickle_machine *machine, double number)
{
    vw__value value;
    VW__PICKLE_TRY(machine, vw__document_float(machine->document, number, &value));
    vw__pickle_push(machine, value);
    return VW_OK;
}

static vw_status step_text_float(vw__pickle_machine *machine)
{
    const char *line;
    size_t size_bytes;
    double number;
    VW__TRY(vw__pickle_take_line(machine, &line, &size_bytes));
    if (!vw__pickle_parse_float(line, size_bytes, &number))
        return vw__pickle_refuse_line(machine, line, size_bytes, "a float");
    VW__TRY(push_float(machine, number));
    vw__pickle_skip_line(machine, size_bytes);
    return VW_OK;
}

static vw_status step_float(vw__pickle_machine *machine)
{
    uint64_t bits =
        __builtin_bswap64(vw__pickle_read_le(machine->next + 1, 8)); /* big-endian in the file */
    double number;
    memcpy(&number, &bits, sizeof number);
    VW__TRY(push_float(machine, number));
    machine->next += 9;
    return VW_OK;
}

/* ---- strings --------------------------------------------------------------------------------- */

static vw_status step_string(vw__pickle_machine *machine, unsigned length_bytes, bool is_signed,
                             bool is_bytes)
{
    uint64_t size_bytes = vw__pickle_read_le(machine->next + 1, length_bytes);
    if (is_signed && size_bytes > INT32_MAX)
        return vw__pickle_fail(machine, "a negative length, %" PRIi64,
                               (int64_t)(int32_t)size_bytes);
    if (size_bytes > UINT64_MAX - 9)
        return vw__pickle_fail(machine, "a length of %" PRIu64 " bytes", size_bytes);
    VW__TRY(vw__pickle_need(machine, 1 + length_bytes + size_bytes));
    const uint8_t *bytes = machine->next + 1 + length_bytes;
    vw__value value;
    if (is_bytes)
        VW__PICKLE_TRY(machine,
                       vw__document_bytes(machine->document, bytes, (size_t)size_bytes, &value));
    else
        VW__PICKLE_TRY(machine,
                       vw__document_string(machine->document, bytes, (size_t)size_bytes, &value));
    vw__pickle_push(machine, value);
    machine->next += 1 + length_bytes + size_bytes;
    return VW_OK;
}

static vw_status step_text_string(vw__pickle_machine *machine)
{
    const char *line;
    size_t size_bytes;
    VW__TRY(vw__pickle_take_line(machine, &line, &size_bytes));
    bool is_unicode = *machine->next == VW__OPCODE_UNICODE;
    vw__byte_buffer text;
    vw__byte_buffer_init(&text);
    vw__value value = vw__value_none();
    vw_status status;
    if (!(is_unicode ? vw__pickle_decode_raw_unicode(line, size_bytes, &text)
                     : vw__pickle_unquote(line, size_bytes, &text)))
        status = vw__pickle_refuse_line(
            machine, line, size_bytes, is_unicode ? "text with \\u escapes" : "a string in quotes");
    else if (vw__byte_buffer_has_failed(&text))
        status = vw__fail_host_memory(size_bytes, "a string");
    else
        status = vw__document_string(machine->document, vw__byte_buffer_text(&text),
                                     vw__byte_buffer_size(&text), &value);
    vw__byte_buffer_deinit(&text);
    VW__TRY(status);
    vw__pickle_push(machine, value);
    vw__pickle_skip_line(machine, size_bytes);
    return VW_OK;
}

vw_status vw__pickle_step_scalar(vw__pickle_machine *machine, bool *is_known)
{
    switch (*machine->next) {
    case VW__OPCODE_BININT:
    case VW__OPCODE_BININT1:
    case VW__OPCODE_BININT2:
        return step_small_integer(machine);
    case VW__OPCODE_LONG1:
        return step_long(machine, 1);
    case VW__OPCODE_LONG4:
        return step_long(machine, 4);
    case VW__OPCODE_INT:
    case VW__OPCODE_LONG:
        return step_text_integer(machine);
    case VW__OPCODE_FLOAT:
        return step_text_float(machine);
    case VW__OPCODE_BINFLOAT:
        return step_float(machine);
    case VW__OPCODE_STRING:
    case VW__OPCODE_UNICODE:
        return step_text_string(machine);
    case VW__OPCODE_BINSTRING:
        return step_string(machine, 4, true, false);
    case VW__OPCODE_SHORT_BINSTRING:
    case VW__OPCODE_SHORT_BINUNICODE:
        return step_string(machine, 1, false, false);
    case VW__OPCODE_BINUNICODE:
        return step_string(machine, 4, false, false);
    case VW__OPCODE_BINUNICODE8:
        return step_string(machine, 8, false, false);
    case VW__OPCODE_SHORT_BINBYTES:
        return step_string(machine, 1, false, true);
    case VW__OPCODE_BINBYTES:
        return step_string(machine, 4, false, true);
    case VW__OPCODE_BINBYTES8:
    case VW__OPCODE_BYTEARRAY8:
        return step_string(machine, 8, false, true);
    default:
        *is_known = false;
        return VW_OK;
    }
}
