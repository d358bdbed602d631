/* error_text_numbers.c - sizes, as programs and people write them.
 *
 * "1.25 GiB", "1024.00 KiB", "0 bytes", "72GB", "117. GiB", "1,073,741,824 bytes", "1900,00 MiB".
 * Every unit is binary: the programs that print GB here divide by 2^30. A size with decimals is a
 * rounded one and becomes the nearest byte; one in bytes is exact to the last digit. */
#include "format/error_text_parts.h"

#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static void add_digit(vw__error_number *number, char digit)
{
    uint64_t value = (uint64_t)(digit - '0');
    if (number->digits > (UINT64_MAX - value) / 10)
        number->is_too_long = true;
    else
        number->digits = number->digits * 10 + value;
}

/* Is there a digit at `at` that goes on with the letter before it? A line break may stand between
 * them, a blank alone may not: "3, 4" are two numbers. */
static bool goes_on(const vw__region *region, size_t at, size_t end)
{
    if (at >= end || !is_digit(region->letters[at]))
        return false;
    size_t gap = region->clean_of[at - 1] + (size_t)1, clean = region->clean_of[at];
    return gap == clean || memchr(region->clean + gap, '\n', clean - gap) != NULL;
}

/* Three digits and no more behind the separator at `at`? */
static bool is_thousands(const vw__region *region, size_t at, size_t end)
{
    return goes_on(region, at + 1, end) && goes_on(region, at + 2, end) &&
           goes_on(region, at + 3, end) && !goes_on(region, at + 4, end);
}

/* A comma or a point between digits: thousands where three digits follow it and it is a comma, or
 * stands there again; else decimals. */
static size_t read_digits(const vw__region *region, size_t at, size_t end, vw__error_number *number)
{
    const char *letters = region->letters;
    do
        add_digit(number, letters[at++]);
    while (goes_on(region, at, end));
    while (at + 1 < end && (letters[at] == ',' || letters[at] == '.') &&
           is_thousands(region, at, end)) {
        char mark = letters[at];
        bool is_again =
            at + 4 < end && letters[at + 4] == mark && is_thousands(region, at + 4, end);
        bool was_before = at >= 4 && letters[at - 4] == mark;
        if (mark == '.' && !is_again && !was_before)
            break;
        for (size_t i = 1; i <= 3; i++)
            add_digit(number, letters[at + i]);
        at += 4;
    }
    if (at < end && (letters[at] == '.' || letters[at] == ',') && goes_on(region, at + 1, end)) {
        at++;
        while (goes_on(region, at, end)) {
            if (number->decimals < 9 && !number->is_too_long) {
                add_digit(number, letters[at]);
                number->decimals++;
            }
            at++;
        }
    }
    return at;
}

typedef struct unit {
    const char *name;
    unsigned log2;
} unit;

static const unit units[] = {
    {"bytes", 0}, {"byte", 0}, {"kib", 10}, {"mib", 20}, {"gib", 30}, {"tib", 40}, {"pib", 50},
    {"eib", 60},  {"kb", 10},  {"mb", 20},  {"gb", 30},  {"tb", 40},  {"pb", 50},  {"eb", 60},
    {"b", 0},     {"k", 10},   {"m", 20},   {"g", 30},   {"t", 40},
};

/* No letter or digit may follow in the text itself: "12 blocks" has no unit. */
static const unit *read_unit(const vw__region *region, size_t at, size_t *end)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t length = strlen(units[i].name);
        if (!vw__region_continues(region, at, units[i].name))
            continue;
        size_t behind = region->clean_of[at + length - 1] + (size_t)1;
        char next = behind < region->clean_bytes ? region->clean[behind] : ' ';
        if (is_letter(next) || is_digit(next))
            continue;
        *end = at + length;
        return &units[i];
    }
    return NULL;
}

uint64_t vw__error_number_in(const vw__error_number *number, unsigned log2)
{
    static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};
    if (number->is_too_long)
        return VW__UNKNOWN_BYTES;
    if (number->decimals == 0 && number->digits <= UINT64_MAX >> log2)
        return number->digits << log2;
    double bytes =
        (double)number->digits / powers[number->decimals] * (double)(UINT64_C(1) << log2);
    if (bytes >= 18446744073709549568.0) /* the last that fits: 2^64 - 2048 */
        return VW__UNKNOWN_BYTES;
    return (uint64_t)(bytes + 0.5);
}

bool vw__error_number_next(const vw__region *region, size_t at, size_t end,
                           vw__error_number *number)
{
    const char *letters = region->letters;
    if (end > region->letter_count)
        end = region->letter_count;
    while (at < end && !is_digit(letters[at]))
        at++;
    if (at >= end)
        return false;
    *number = (vw__error_number){.first = at};
    number->end = read_digits(region, at, end, number);
    size_t unit_at = number->end;
    if (unit_at + 1 < end && letters[unit_at] == '.' && is_letter(letters[unit_at + 1]))
        unit_at++; /* "117. GiB" */
    const unit *found = read_unit(region, unit_at, &number->end);
    number->log2 = found != NULL ? found->log2 : 0;
    number->has_unit = found != NULL;
    number->is_exact = number->decimals == 0 && number->log2 == 0;
    number->bytes = vw__error_number_in(number, number->log2);
    return true;
}
