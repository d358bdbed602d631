/* top_numbers.c - see top_numbers.h. Three digits that count, rounded once. */
#include "top_numbers.h"

#include <math.h>
#include <stdio.h>

#include "vramwise/live.h" /* VW_LIVE_UNKNOWN */

/* Three digits: "1.34", "13.4", "134". */
static void format(double value, const char *unit, top_number text)
{
    int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    snprintf(text, sizeof(top_number), "%.*f%s", decimals, value, unit);
}

static const char *unknown(top_number text)
{
    snprintf(text, sizeof(top_number), "-");
    return text;
}

const char *top_size(uint64_t size_bytes, top_number text)
{
    static const char *const units[] = {"B", "K", "M", "G", "T", "P"};
    double value = (double)size_bytes;
    size_t unit = 0;
    if (size_bytes == VW_LIVE_UNKNOWN)
        return unknown(text);
    for (; value >= 1023.5 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1024;
    if (unit == 0)
        snprintf(text, sizeof(top_number), "%.0fB", value);
    else
        format(value, units[unit], text);
    return text;
}

const char *top_rate(double per_second, top_number text)
{
    static const char *const units[] = {"", "k", "M", "G"};
    size_t unit = 0;
    if (!(per_second >= 0) || isinf(per_second))
        return unknown(text);
    for (; per_second >= 999.5 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        per_second /= 1000;
    if (per_second < 0.005)
        snprintf(text, sizeof(top_number), "0");
    else
        format(per_second, units[unit], text);
    return text;
}

const char *top_share(double share, top_number text)
{
    if (!isfinite(share))
        return unknown(text);
    double percent = share * 100;
    snprintf(text, sizeof(top_number), "%.*f%%", percent >= 0.05 && percent < 9.95 ? 1 : 0,
             percent);
    return text;
}

const char *top_duration(double seconds, top_number text)
{
    if (!(seconds >= 0) || isinf(seconds))
        return unknown(text);
    if (seconds < 0.0009995)
        snprintf(text, sizeof(top_number), "%.0fus", seconds * 1e6);
    else if (seconds < 0.9995)
        snprintf(text, sizeof(top_number), "%.*fms", seconds < 0.00995 ? 1 : 0, seconds * 1e3);
    else if (seconds < 99.5)
        format(seconds, "s", text);
    else if (seconds < 5999.5)
        snprintf(text, sizeof(top_number), "%dm%02d", (int)(seconds + 0.5) / 60,
                 (int)(seconds + 0.5) % 60);
    else
        snprintf(text, sizeof(top_number), "%.0fh", seconds / 3600);
    return text;
}
