/* human_units.c - format_size() as PyTorch prints it, and its opposite.
 *
 * PyTorch divides as doubles and prints two decimals. We take the same double apart instead of
 * printing it, because printf writes the decimal point of whatever locale the process has set. The
 * units are powers of two, so the division is exact, and the fraction is a whole number of
 * unit-ths: rounding it, half to even, in integers gives printf's digits. */
#include "base/human_units.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "vramwise/units.h"
#include "base/checked_math.h" /* vw__add_u64, vw__mul_u64 */
#include "base/error.h"

_Static_assert(VW_SIZE_TEXT_BYTES == VW__SIZE_TEXT_BYTES, "the public room is the real one");

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static char *format_in_unit(uint64_t size_bytes, uint64_t unit_bytes, const char *unit_name,
                            char *text)
{
    /* The cast rounds sizes above 2^53, as PyTorch's does. */
    double value = (double)size_bytes / (double)unit_bytes;
    uint64_t whole = (uint64_t)value;
    uint64_t part = (uint64_t)((value - (double)whole) * (double)unit_bytes) * 100;
    uint64_t hundredths = part / unit_bytes;
    uint64_t twice_the_rest = part % unit_bytes * 2;
    if (twice_the_rest > unit_bytes || (twice_the_rest == unit_bytes && hundredths % 2 != 0))
        hundredths++;
    snprintf(text, VW__SIZE_TEXT_BYTES, "%" PRIu64 ".%02" PRIu64 " %s", whole + hundredths / 100,
             hundredths % 100, unit_name);
    return text;
}

char *vw__format_size(uint64_t size_bytes, char text[VW__SIZE_TEXT_BYTES])
{
    if (size_bytes <= KIB) {
        snprintf(text, VW__SIZE_TEXT_BYTES, "%" PRIu64 " bytes", size_bytes);
        return text;
    }
    if (size_bytes <= MIB)
        return format_in_unit(size_bytes, KIB, "KiB", text);
    if (size_bytes <= GIB)
        return format_in_unit(size_bytes, MIB, "MiB", text);
    return format_in_unit(size_bytes, GIB, "GiB", text);
}

/* isdigit() and tolower() would ask the locale. */
static bool is_digit(char character)
{
    return character >= '0' && character <= '9';
}

static bool is_letter(char character, char lower_case)
{
    return (character | 0x20) == lower_case;
}

/* The bytes in the unit that `text` is, all of it; 0 where it is none. */
static uint64_t unit_named(const char *text)
{
    static const char prefixes[] = {'k', 'm', 'g', 't'};
    uint64_t unit_bytes = 1;
    for (unsigned i = 0; i < sizeof prefixes; i++) {
        if (is_letter(*text, prefixes[i])) {
            unit_bytes = UINT64_C(1) << (10 * (i + 1));
            text++;
            if (is_letter(*text, 'i'))
                text++;
            break;
        }
    }
    if (is_letter(*text, 'b'))
        text++;
    return *text == '\0' ? unit_bytes : 0;
}

/* floor(0.digits * unit_bytes). From the last digit to the first, each step being a tenth of the
 * digit's share plus what the digits behind it came to: floors inside floors lose nothing. */
static uint64_t fraction_of(const char *digits, size_t count, uint64_t unit_bytes)
{
    uint64_t bytes = 0;
    while (count > 0)
        bytes = ((uint64_t)(digits[--count] - '0') * unit_bytes + bytes) / 10;
    return bytes;
}

bool vw__parse_size(const char *text, uint64_t *size_bytes)
{
    if (text == NULL || !is_digit(*text))
        return false;
    uint64_t whole = 0;
    for (; is_digit(*text); text++) {
        if (!vw__mul_u64(whole, 10, &whole) || !vw__add_u64(whole, (uint64_t)(*text - '0'), &whole))
            return false;
    }
    const char *digits = text;
    size_t digit_count = 0;
    if (*text == '.') {
        digits = ++text;
        while (is_digit(*text))
            text++;
        digit_count = (size_t)(text - digits);
        if (digit_count == 0)
            return false;
    }
    uint64_t unit_bytes = unit_named(text);
    if (unit_bytes == 0 || (digit_count != 0 && unit_bytes == 1))
        return false;
    uint64_t total;
    if (!vw__mul_u64(whole, unit_bytes, &total) ||
        !vw__add_u64(total, fraction_of(digits, digit_count, unit_bytes), &total))
        return false;
    *size_bytes = total;
    return true;
}

/* ---- for everyone (units.h) ------------------------------------------------------------------ */

vw_status vw_parse_size(const char *text, uint64_t *size_bytes)
{
    if (text == NULL || size_bytes == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "a size and a place for it are needed, not NULL");
    if (!vw__parse_size(text, size_bytes))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "'%s' is no size: expected bytes, or a number with a unit, such as 24GiB, "
                        "512MiB or 1000000",
                        text);
    return VW_OK;
}

char *vw_format_size(uint64_t size_bytes, char text[VW_SIZE_TEXT_BYTES])
{
    return vw__format_size(size_bytes, text);
}

char *vw_format_duration(uint64_t seconds, char text[VW_DURATION_TEXT_BYTES])
{
    uint64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
    if (minutes == 0)
        snprintf(text, VW_DURATION_TEXT_BYTES, "%" PRIu64 " s", seconds);
    else if (hours == 0)
        snprintf(text, VW_DURATION_TEXT_BYTES, "%" PRIu64 " min", minutes);
    else if (days == 0)
        snprintf(text, VW_DURATION_TEXT_BYTES, "%" PRIu64 " h %" PRIu64 " min", hours,
                 minutes % 60);
    else
        snprintf(text, VW_DURATION_TEXT_BYTES, "%" PRIu64 " d %" PRIu64 " h", days, hours % 24);
    return text;
}
