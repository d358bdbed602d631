/* rank_time.c - see rank_time.h. */
#include "ranks/rank_time.h"

#include "base/ascii.h"

enum {
    LOOKED_AT_BYTES = 64,
    DATE_BYTES = 19, /* "2026-03-01 12:00:00" */
    US_PER_SECOND = 1000000,
    SECONDS_PER_DAY = 86400,
};

/* `count` digits at `text`; -1 where they are not. */
static int digits(const char *text, size_t count)
{
    int value = 0;
    for (size_t i = 0; i < count; i++) {
        if (!vw__ascii_is_digit(text[i]))
            return -1;
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

/* Days since 1970 in the Gregorian calendar, without asking the C library for a zone. A year is
 * counted from March, so that the day that may be missing is its last. */
static int64_t days_since_1970(int year, int month, int day)
{
    int64_t shifted = month <= 2 ? year - 1 : year;
    int64_t era = shifted / 400, year_of_era = shifted - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static bool read_seconds(const char *text, int64_t *seconds)
{
    int year = digits(text, 4), month = digits(text + 5, 2), day = digits(text + 8, 2);
    int hour = digits(text + 11, 2), minute = digits(text + 14, 2), second = digits(text + 17, 2);
    bool has_signs = (text[4] == '-' || text[4] == '/') && text[7] == text[4] &&
                     (text[10] == ' ' || text[10] == 'T') && text[13] == ':' && text[16] == ':';
    if (!has_signs || year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 ||
        hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60)
        return false;
    *seconds =
        days_since_1970(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
    return true;
}

/* ".123", ",123456": microseconds; further digits are left out. */
static int64_t read_fraction(const char *text, size_t size_bytes, size_t *at)
{
    int64_t unit = US_PER_SECOND, fraction = 0;
    if (*at + 1 >= size_bytes || (text[*at] != '.' && text[*at] != ',') ||
        !vw__ascii_is_digit(text[*at + 1]))
        return 0;
    for (++*at; *at < size_bytes && vw__ascii_is_digit(text[*at]); ++*at) {
        unit /= 10;
        fraction += unit * (text[*at] - '0');
    }
    return fraction;
}

/* "Z", "+01:00", "-0500" */
static bool read_zone(const char *text, size_t size_bytes, size_t at, int64_t *seconds)
{
    *seconds = 0;
    if (at < size_bytes && text[at] == 'Z')
        return true;
    if (at + 5 > size_bytes || (text[at] != '+' && text[at] != '-'))
        return false;
    size_t colon = text[at + 3] == ':';
    int hours = digits(text + at + 1, 2);
    int minutes = at + 5 + colon <= size_bytes ? digits(text + at + 3 + colon, 2) : -1;
    if (hours < 0 || hours > 14 || minutes < 0 || minutes > 59)
        return false;
    *seconds = (hours * 3600 + minutes * 60) * (text[at] == '-' ? -1 : 1);
    return true;
}

vw__log_time vw__log_time_of(const char *line, size_t size_bytes)
{
    if (size_bytes > LOOKED_AT_BYTES)
        size_bytes = LOOKED_AT_BYTES;
    for (size_t i = 0; i + DATE_BYTES <= size_bytes; i++) {
        int64_t seconds, east_seconds;
        if (!vw__ascii_is_digit(line[i]) || (i > 0 && vw__ascii_is_digit(line[i - 1])) ||
            !read_seconds(line + i, &seconds))
            continue;
        size_t at = i + DATE_BYTES;
        int64_t fraction_us = read_fraction(line, size_bytes, &at);
        bool has_zone = read_zone(line, size_bytes, at, &east_seconds);
        return (vw__log_time){(seconds - east_seconds) * US_PER_SECOND + fraction_us, has_zone};
    }
    return VW__NO_LOG_TIME;
}
