/* step_log_numbers.c - numbers as they stand in logs.
 *
 * With a unit behind them (3.21 GB, 3287MiB, 3.2G), with commas between their thousands, with an
 * exponent. What only looks like such a number is told apart by what follows it: a percentage, a
 * rate (GB/s), a time (12:31), a version (1.2.3), a count of something (640px). */
#include "format/step_log_fields.h"

#include <stdint.h>
#include <string.h>

#include "base/ascii.h"

#define KIB 1024.0
#define MIB (1024.0 * KIB)
#define GIB (1024.0 * MIB)
#define TIB (1024.0 * GIB)

/* A comma and three digits, and no fourth. */
static bool is_group(const char *text, size_t size_bytes, size_t at)
{
    return at + 3 < size_bytes && text[at] == ',' && vw__ascii_is_digit(text[at + 1]) &&
           vw__ascii_is_digit(text[at + 2]) && vw__ascii_is_digit(text[at + 3]) &&
           (at + 4 >= size_bytes || !vw__ascii_is_digit(text[at + 4]));
}

typedef struct digits {
    uint64_t value;
    int dropped; /* places that did not fit */
} digits;

static void add_digit(digits *to, char digit)
{
    if (to->value <= (UINT64_MAX - 9) / 10)
        to->value = to->value * 10 + (uint64_t)(digit - '0');
    else
        to->dropped++;
}

/* Returns where the exponent ends, or `at` where there is none. */
static size_t read_exponent(const char *text, size_t size_bytes, size_t at, int *exponent)
{
    size_t next = at + 1;
    bool is_negative = false;
    if (at >= size_bytes || vw__ascii_to_lower(text[at]) != 'e')
        return at;
    if (next < size_bytes && (text[next] == '-' || text[next] == '+'))
        is_negative = text[next++] == '-';
    if (next >= size_bytes || !vw__ascii_is_digit(text[next]))
        return at;
    int value = 0;
    for (; next < size_bytes && vw__ascii_is_digit(text[next]); next++)
        value = value < 1000 ? value * 10 + (text[next] - '0') : value;
    *exponent += is_negative ? -value : value;
    return next;
}

/* The unit behind a number: its bytes, or 0. `*end` moves behind it. */
static double read_unit(const char *text, size_t size_bytes, size_t *end, bool *is_letter_alone)
{
    static const char letters[] = "kmgt";
    static const double sizes[] = {KIB, MIB, GIB, TIB};
    size_t at = *end;
    while (at < size_bytes && text[at] == ' ' && at < *end + 2)
        at++;
    bool is_attached = at == *end;
    size_t begin = at;
    while (at < size_bytes && vw__ascii_is_letter(text[at]))
        at++;
    size_t size = at - begin;
    *is_letter_alone = false;
    if (size == 0 || size > 5 || (at < size_bytes && (vw__ascii_is_digit(text[at]) || text[at] == '_')))
        return 0;
    char unit[8] = {0};
    for (size_t i = 0; i < size; i++)
        unit[i] = vw__ascii_to_lower(text[begin + i]);
    if (strcmp(unit, "bytes") == 0 || strcmp(unit, "byte") == 0 ||
        (size == 1 && text[begin] == 'B')) {
        *end = at;
        return 1;
    }
    const char *known = strchr(letters, unit[0]);
    if (known == NULL)
        return 0;
    bool is_alone = size == 1;
    if (is_alone ? !(is_attached && vw__ascii_is_upper(text[begin]))
                 : strcmp(unit + 1, "b") != 0 && strcmp(unit + 1, "ib") != 0)
        return 0;
    *is_letter_alone = is_alone;
    *end = at;
    return sizes[known - letters];
}

/* Behind the number and its unit: does it go on as a rate, a percentage, a time, a name? */
static bool goes_on(const char *text, size_t size_bytes, size_t at, bool has_unit)
{
    if (at >= size_bytes)
        return false;
    if (text[at] == '/')
        return at + 1 < size_bytes && vw__ascii_is_letter(text[at + 1]);
    if (has_unit)
        return vw__ascii_is_letter(text[at]) || vw__ascii_is_digit(text[at]);
    if (text[at] == ':' || text[at] == '-') /* 12:31, 2024-05 */
        return at + 1 < size_bytes && vw__ascii_is_digit(text[at + 1]);
    if (text[at] == '.') /* 1.2.3, an address */
        return at + 1 < size_bytes && vw__ascii_is_digit(text[at + 1]);
    return text[at] == '%' || vw__ascii_is_letter(text[at]) || text[at] == '_' ||
           (text[at] == ' ' && at + 1 < size_bytes && text[at + 1] == '%');
}

/* Correctly rounded for what people write: 15 digits, 22 places. */
static double scaled(uint64_t value, int exponent)
{
    enum { MOST_PLACES = 400 }; /* beyond any double */
    double power = 1;
    int places = exponent < 0 ? -exponent : exponent;
    for (int i = 0; i < places && i < MOST_PLACES; i++)
        power *= 10;
    if (value == 0)
        return 0;
    return exponent < 0 ? (double)value / power : (double)value * power;
}

vw__written_number vw__read_number(const char *text, size_t size_bytes, bool has_groups)
{
    vw__written_number number = {.is_whole = true};
    digits read = {0};
    int exponent = 0;
    size_t at = 0;
    for (; at < size_bytes && vw__ascii_is_digit(text[at]); at++)
        add_digit(&read, text[at]);
    if (has_groups && at >= 1 && at <= 3 && text[0] != '0')
        while (is_group(text, size_bytes, at)) {
            for (size_t i = 1; i <= 3; i++)
                add_digit(&read, text[at + i]);
            at += 4;
        }
    if (at + 1 < size_bytes && text[at] == '.' && vw__ascii_is_digit(text[at + 1])) {
        number.is_whole = false;
        for (at++; at < size_bytes && vw__ascii_is_digit(text[at]); at++) {
            int dropped = read.dropped;
            add_digit(&read, text[at]);
            exponent -= read.dropped == dropped;
            read.dropped = dropped; /* places behind the point that do not fit mean nothing */
        }
    }
    exponent += read.dropped;
    size_t end = read_exponent(text, size_bytes, at, &exponent);
    number.is_whole = number.is_whole && end == at;
    number.value = scaled(read.value, exponent);
    number.unit_bytes = read_unit(text, size_bytes, &end, &number.has_letter_unit);
    number.is_other =
        goes_on(text, size_bytes, end, number.unit_bytes != 0) || !(number.value <= 1e18);
    size_t behind = end < size_bytes && text[end] == ' ' ? end + 1 : end;
    number.is_percent = number.unit_bytes == 0 && behind < size_bytes && text[behind] == '%';
    number.size_bytes = end;
    return number;
}
