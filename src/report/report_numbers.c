/* report_numbers.c - numbers as values: base/human_units.h has the rule for sizes, durations and
 * shares. No locale has a say in the decimal point. */
#include "report/report_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/human_units.h"

vw__text vw__size_text(uint64_t size_bytes)
{
    vw__text result = {"?"};
    if (size_bytes != VW_UNKNOWN)
        vw__format_size(size_bytes, result.text);
    return result;
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
    vw__text result;
    vw__format_duration(duration_ns, result.text);
    return result;
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

vw__text vw__share_text(double share)
{
    vw__text result;
    vw__format_share(share, result.text);
    return result;
}
