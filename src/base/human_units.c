/* human_units.c - formats sizes, durations and shares, and parses sizes.
 *
 * Uses integers only, because printf() writes the decimal point of the process's locale. Halves are
 * rounded to even, as printf() does: 1152 MiB is "1.12 GiB" here and in PyTorch's messages. */
#include "base/human_units.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "vramwise/units.h"
#include "base/ascii.h"
#include "base/checked_math.h" /* vw__add_u64, vw__mul_u64 */
#include "base/error.h"

_Static_assert(VW_SIZE_TEXT_BYTES == VW__HUMAN_SIZE_BYTES, "the public room is the real one");
_Static_assert(VW_DURATION_TEXT_BYTES == VW__HUMAN_DURATION_BYTES,
               "the public room is the real one");

#define NS_PER_S UINT64_C(1000000000)

enum { FIRST_UNIT_WITH_TWO_DECIMALS = 3 }; /* GiB */

static const unsigned tens[] = {1, 10, 100};

/* value / unit * 10^decimals, rounded, halves to the even number. */
static uint64_t scaled(uint64_t value, uint64_t unit, unsigned decimals)
{
    uint64_t whole = value / unit, rest = value % unit;
    while (unit > UINT64_C(1) << 40) { /* the product below must fit; a half stays a half */
        unit >>= 10;
        rest = rest >> 10 | (rest % 1024 != 0);
    }
    uint64_t part = rest * tens[decimals], quotient = part / unit;
    uint64_t twice_the_rest = part % unit * 2;
    uint64_t result = whole * tens[decimals] + quotient;
    return result + (twice_the_rest > unit || (twice_the_rest == unit && result % 2 != 0));
}

static void write_scaled(uint64_t number, unsigned decimals, const char *unit_name, char *text,
                         size_t capacity)
{
    char point[4] = "";
    if (decimals != 0) {
        unsigned part = (unsigned)(number % tens[decimals]);
        point[0] = '.';
        for (unsigned i = decimals; i > 0; i--, part /= 10)
            point[i] = (char)('0' + part % 10);
    }
    (void)snprintf(text, capacity, "%" PRIu64 "%s %s", number / tens[decimals], point, unit_name);
}

/* The decimals with which `value` has three digits: "1.78", "13.4", "141". */
static unsigned three_digits(uint64_t value, uint64_t unit)
{
    unsigned decimals = 2;
    while (decimals > 0 && scaled(value, unit, decimals) >= 1000)
        decimals--;
    return decimals;
}

char *vw__human_size(uint64_t size_bytes, char text[VW__HUMAN_SIZE_BYTES])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    enum { LAST = sizeof names / sizeof names[0] - 1 };
    unsigned unit = 0, decimals = 0;
    while (unit < LAST && size_bytes >> (10 * (unit + 1)) != 0)
        unit++;
    if (unit >= FIRST_UNIT_WITH_TWO_DECIMALS)
        decimals = 2;
    else if (unit > 0)
        decimals = three_digits(size_bytes, UINT64_C(1) << (10 * unit));
    uint64_t number = scaled(size_bytes, UINT64_C(1) << (10 * unit), decimals);
    if (number >= UINT64_C(1024) * tens[decimals]) { /* only by rounding */
        unit++;
        decimals = 2;
        number = tens[decimals];
    }
    write_scaled(number, decimals, names[unit], text, VW__HUMAN_SIZE_BYTES);
    return text;
}

char *vw__human_duration(uint64_t duration_ns, char text[VW__HUMAN_DURATION_BYTES])
{
    static const uint64_t units[] = {NS_PER_S, 1000000, 1000, 1};
    static const char *const names[] = {"s", "ms", "us", "ns"};
    if (duration_ns == 0 || scaled(duration_ns, NS_PER_S, 1) >= 600)
        return vw_format_duration(scaled(duration_ns, NS_PER_S, 0), text);
    unsigned unit = 0;
    while (units[unit] > 1 && scaled(duration_ns, units[unit + 1], 0) < 1000)
        unit++; /* 999.7 us are 1.00 ms */
    unsigned decimals = units[unit] == 1 ? 0 : three_digits(duration_ns, units[unit]);
    write_scaled(scaled(duration_ns, units[unit], decimals), decimals, names[unit], text,
                 VW__HUMAN_DURATION_BYTES);
    return text;
}

char *vw__human_share(double share, char text[VW__HUMAN_SHARE_BYTES])
{
    const char *sign = share < 0 ? "-" : "";
    const double percent = share < 0 ? -100 * share : 100 * share;
    if (!(percent < 1e9)) /* NaN too */
        snprintf(text, VW__HUMAN_SHARE_BYTES, "?");
    else if (percent > 0 && percent < 0.05)
        snprintf(text, VW__HUMAN_SHARE_BYTES, "<0.1 %%");
    else if (percent == 0 || percent >= 9.95)
        snprintf(text, VW__HUMAN_SHARE_BYTES, "%s%" PRIu64 " %%", sign, (uint64_t)(percent + 0.5));
    else
        snprintf(text, VW__HUMAN_SHARE_BYTES, "%s%u.%u %%", sign,
                 (unsigned)(percent * 10 + 0.5) / 10, (unsigned)(percent * 10 + 0.5) % 10);
    return text;
}

static bool is_letter(char character, char lower_case)
{
    return (character | 0x20) == lower_case;
}

/* The bytes in the unit named by all of `text`; 0 if it is not a unit. */
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

/* floor(0.digits * unit_bytes), from the last digit to the first: each step adds the digit's share
 * to the result of the digits behind it and divides by ten. Nested floors lose nothing. */
static uint64_t fraction_of(const char *digits, size_t count, uint64_t unit_bytes)
{
    uint64_t bytes = 0;
    while (count > 0)
        bytes = ((uint64_t)(digits[--count] - '0') * unit_bytes + bytes) / 10;
    return bytes;
}

/* A decimal number, as it is written. */
typedef struct number {
    uint64_t whole;
    const char *digits; /* behind the point */
    size_t digit_count;
    const char *rest; /* behind the number */
} number;

static bool parse_number(const char *text, number *out)
{
    if (text == NULL || !vw__ascii_is_digit(*text))
        return false;
    *out = (number){.whole = 0};
    for (; vw__ascii_is_digit(*text); text++) {
        if (!vw__mul_u64(out->whole, 10, &out->whole) ||
            !vw__add_u64(out->whole, (uint64_t)(*text - '0'), &out->whole))
            return false;
    }
    if (*text == '.') {
        out->digits = ++text;
        while (vw__ascii_is_digit(*text))
            text++;
        out->digit_count = (size_t)(text - out->digits);
        if (out->digit_count == 0)
            return false;
    }
    out->rest = text;
    return true;
}

static bool parse_size(const char *text, uint64_t *size_bytes)
{
    number read;
    if (!parse_number(text, &read))
        return false;
    uint64_t unit_bytes = unit_named(read.rest);
    if (unit_bytes == 0 || (read.digit_count != 0 && unit_bytes == 1))
        return false;
    uint64_t total;
    if (!vw__mul_u64(read.whole, unit_bytes, &total) ||
        !vw__add_u64(total, fraction_of(read.digits, read.digit_count, unit_bytes), &total))
        return false;
    *size_bytes = total;
    return true;
}

static bool is_share(const char *text)
{
    number read;
    return parse_number(text, &read) && read.rest[0] == '%' && read.rest[1] == '\0';
}

static bool parse_share(const char *text, uint64_t whole_bytes, uint64_t *size_bytes)
{
    number read;
    if (!parse_number(text, &read) || read.whole > 100)
        return false;
    uint64_t percent_bytes = whole_bytes / 100;
    uint64_t total = percent_bytes * read.whole + whole_bytes % 100 * read.whole / 100 +
                     fraction_of(read.digits, read.digit_count, percent_bytes);
    if (total > whole_bytes)
        return false;
    *size_bytes = total;
    return true;
}

/* ---- for everyone (units.h) ------------------------------------------------------------------ */

vw_status vw_parse_size(const char *text, uint64_t *size_bytes)
{
    if (text == NULL || size_bytes == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "a size and a place for it are needed, not NULL");
    if (!parse_size(text, size_bytes))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "'%s' is no size: expected bytes, or a number with a unit, such as 24GiB, "
                        "512MiB or 1000000",
                        text);
    return VW_OK;
}

vw_status vw_parse_memory_size(const char *text, uint64_t *size_bytes)
{
    uint64_t size = 0;
    VW__TRY(vw_parse_size(text, size_bytes == NULL ? NULL : &size));
    if (size == 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected more than 0 bytes");
    if (size < VW_LEAST_MEMORY_BYTES)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a size with a unit, such as 24GiB, not '%s', which is in bytes",
                        text);
    *size_bytes = size;
    return VW_OK;
}

vw_status vw_parse_size_or_share(const char *text, uint64_t whole_bytes, uint64_t *size_bytes)
{
    if (text == NULL || size_bytes == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "a size and a place for it are needed, not NULL");
    if (is_share(text) ? !parse_share(text, whole_bytes, size_bytes)
                       : !parse_size(text, size_bytes))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "'%s' is neither a size nor a share: expected bytes, a number with a unit, "
                        "or up to 100%%, such as 2GiB, 512MiB or 5%%",
                        text);
    return VW_OK;
}

char *vw_format_size(uint64_t size_bytes, char text[VW_SIZE_TEXT_BYTES])
{
    return vw__human_size(size_bytes, text);
}

/* "3 d 4 h", and "3 d" where the second is 0. */
static char *two_units(uint64_t first, const char *first_name, uint64_t second,
                       const char *second_name, char *text)
{
    int length = snprintf(text, VW_DURATION_TEXT_BYTES, "%" PRIu64 " %s", first, first_name);
    if (second != 0)
        snprintf(text + length, VW_DURATION_TEXT_BYTES - (size_t)length, " %" PRIu64 " %s", second,
                 second_name);
    return text;
}

char *vw_format_duration(uint64_t seconds, char text[VW_DURATION_TEXT_BYTES])
{
    uint64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
    if (days != 0)
        return two_units(days, "d", hours % 24, "h", text);
    if (hours != 0)
        return two_units(hours, "h", minutes % 60, "min", text);
    if (minutes != 0)
        return two_units(minutes, "min", minutes < 10 ? seconds % 60 : 0, "s", text);
    return two_units(seconds, "s", 0, "", text);
}
