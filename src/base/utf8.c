/* utf8.c - the table of RFC 3629, section 4. */
#include "base/utf8.h"

#include <stdbool.h>

static size_t length_by_first_byte(unsigned first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xC2 && first <= 0xDF)
        return 2;
    if (first >= 0xE0 && first <= 0xEF)
        return 3;
    if (first >= 0xF0 && first <= 0xF4)
        return 4;
    return 0; /* a continuation, or what only overlong forms begin with */
}

static bool is_encoded_as_it_should(uint32_t character, size_t length)
{
    if (length == 3)
        return character >= 0x800 && (character < 0xD800 || character > 0xDFFF);
    return length < 3 || (character >= 0x10000 && character <= 0x10FFFF);
}

size_t vw__utf8_next(const char *bytes, size_t size_bytes, uint32_t *character)
{
    static const unsigned char first_byte_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};

    if (size_bytes == 0)
        return 0;
    unsigned first = (unsigned char)bytes[0];
    size_t length = length_by_first_byte(first);
    *character = VW__UTF8_INVALID;
    if (length == 0 || length > size_bytes)
        return 1;
    uint32_t value = first & first_byte_bits[length];
    for (size_t i = 1; i < length; i++) {
        unsigned next = (unsigned char)bytes[i];
        if ((next & 0xC0) != 0x80)
            return 1;
        value = value << 6 | (next & 0x3F);
    }
    if (!is_encoded_as_it_should(value, length))
        return 1;
    *character = value;
    return length;
}

bool vw__utf8_is_steering(uint32_t character)
{
    if (character < 0x7F)
        return character < 0x20;
    return character < 0xA0 || (character >= 0x200B && character <= 0x200F) ||
           (character >= 0x2028 && character <= 0x202E) ||
           (character >= 0x2060 && character <= 0x2069) || character == 0x061C ||
           character == 0xFEFF || (character >= 0xE0000 && character <= 0xE0FFF);
}
