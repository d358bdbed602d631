/* report_numbers.c - numbers as people read them: three digits that count, and a unit.
 *
 * Whole numbers all the way, so that no locale has a say in the decimal point. */
#include "report/report_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* `value` in `unit`s, in three digits: "1.78", "13.4", "141". */
static void format_three_digits(uint64_t value, uint64_t unit, char *text, size_t text_bytes)
{
    uint64_t whole = value / unit, rest = value % unit;
    uint64_t parts = whole < 10 ? 100 : whole < 100 ? 10 : 1;
    /* No unit is above 2^40, so this does not overflow. */
    uint64_t fraction = (rest * parts + unit / 2) / unit;
    if (fraction == parts) { /* 9.999 is 10.0, and 99.99 is 100 */
        whole++;
        fraction = 0;
        parts = whole < 10 ? 100 : whole < 100 ? 10 : 1;
    }
    if (parts == 1)
        snprintf(text, text_bytes, "%" PRIu64, whole);
    else
        snprintf(text, text_bytes, "%" PRIu64 ".%0*" PRIu64, whole, parts == 100 ? 2 : 1, fraction);
}

static vw__text in_units(uint64_t value, const uint64_t *units, const char *const *names,
                         size_t unit_count)
{
    vw__text result;
    char digits[24];
    size_t i = 0;
    while (i + 1 < unit_count && value < units[i])
        i++;
    if (units[i] == 1)
        snprintf(digits, sizeof digits, "%" PRIu64, value);
    else
        format_three_digits(value, units[i], digits, sizeof digits);
    snprintf(result.text, sizeof result.text, "%s %s", digits, names[i]);
    return result;
}

vw__text vw__size_text(uint64_t size_bytes)
{
    static const uint64_t units[] = {UINT64_C(1) << 40, 1 << 30, 1 << 20, 1 << 10, 1};
    static const char *const names[] = {"TiB", "GiB", "MiB", "KiB", "B"};
    if (size_bytes == VW_UNKNOWN)
        return (vw__text){"?"};
    return in_units(size_bytes, units, names, sizeof units / sizeof units[0]);
}

vw__text vw__change_text(uint64_t before_bytes, uint64_t after_bytes)
{
    vw__text result;
    if (before_bytes == VW_UNKNOWN || after_bytes == VW_UNKNOWN)
        return (vw__text){"?"};
    if (before_bytes == after_bytes)
        return (vw__text){"0 B"};
    const bool has_grown = after_bytes > before_bytes;
    const vw__text size =
        vw__size_text(has_grown ? after_bytes - before_bytes : before_bytes - after_bytes);
    snprintf(result.text, sizeof result.text, "%c%.30s", has_grown ? '+' : '-', size.text);
    return result;
}

vw__text vw__count_text(uint64_t count)
{
    vw__text result;
    char digits[24];
    if (count == VW_UNKNOWN)
        return (vw__text){"?"};
    size_t length = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, count);
    size_t out = 0;
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            result.text[out++] = ',';
        result.text[out++] = digits[i];
    }
    result.text[out] = '\0';
    return result;
}

vw__text vw__counted_text(uint64_t count, const char *noun)
{
    vw__text result;
    snprintf(result.text, sizeof result.text, "%.28s %.30s%s", vw__count_text(count).text, noun,
             count == 1 ? "" : "s");
    return result;
}

vw__text vw__duration_text(uint64_t duration_ns)
{
    static const uint64_t units[] = {1000000000, 1000000, 1000, 1};
    static const char *const names[] = {"s", "ms", "us", "ns"};
    return in_units(duration_ns, units, names, sizeof units / sizeof units[0]);
}

vw__text vw__ratio_text(double ratio)
{
    vw__text result;
    if (!(ratio >= 0 && ratio < 1e9))
        return (vw__text){"?"};
    uint64_t hundredths = (uint64_t)(ratio * 100 + 0.5);
    snprintf(result.text, sizeof result.text, "%" PRIu64 ".%02" PRIu64, hundredths / 100,
             hundredths % 100);
    return result;
}

vw__text vw__percent_text(double ratio)
{
    vw__text result;
    const bool is_negative = ratio < 0;
    const double size = is_negative ? -ratio : ratio;
    if (!(size < 1e9))
        return (vw__text){"?"};
    uint64_t tenths = (uint64_t)(size * 1000 + 0.5);
    snprintf(result.text, sizeof result.text, "%s%" PRIu64 ".%" PRIu64 " %%",
             is_negative && tenths > 0 ? "-" : "", tenths / 10, tenths % 10);
    return result;
}
