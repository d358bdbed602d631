/* test_rank_time.c - the time of day at the beginning of a line. */
#include "ranks/rank_text.h"

#include <string.h>

#include "support/cmocka_here.h"

#define NOON INT64_C(1772366400000000) /* 2026-03-01 12:00:00 UTC */

static void assert_time(const char *line, int64_t time_us, bool has_zone)
{
    vw__ranks_log_time found = vw__ranks_log_time_of(line, strlen(line));
    if (found.time_us != time_us || found.has_zone != has_zone)
        fail_msg("%s: expected %lld%s, found %lld%s", line, (long long)time_us,
                 has_zone ? " with a zone" : "", (long long)found.time_us,
                 found.has_zone ? " with a zone" : "");
}

static void a_date_with_a_time_is_one(void **state)
{
    (void)state;
    assert_time("2026-03-01 12:00:00 step 5", NOON, false);
    assert_time("2026/03/01 12:00:00,123 INFO", NOON + 123000, false);
    assert_time("[2026-03-01T12:00:00.000001] x", NOON + 1, false);
    assert_time("[rank3]: 2026-03-01 12:00:00.5", NOON + 500000, false);
    assert_time("2026-03-01 12:00:00.1234567", NOON + 123456, false);
    assert_time("2026-03-01 12:00:00.", NOON, false);
    assert_time("1970-01-01 00:00:00", 0, false);
    assert_time("2024-02-29 00:00:00", INT64_C(1709164800000000), false);
    assert_time("2100-03-01 00:00:00", INT64_C(4107542400000000), false);
}

static void a_zone_is_taken_into_account(void **state)
{
    (void)state;
    assert_time("2026-03-01T12:00:00Z", NOON, true);
    assert_time("2026-03-01T13:00:00.25+01:00 x", NOON + 250000, true);
    assert_time("2026-03-01 07:00:00-0500", NOON, true);
    assert_time("2026-03-01 12:00:00-99", NOON, false);
}

static void what_is_no_date_is_none(void **state)
{
    (void)state;
    static const char *const lines[] = {"",
                                        "12:00:00 step",
                                        "2026-03-01",
                                        "2026-13-01 12:00:00",
                                        "2026-03-01 25:00:00",
                                        "2026-03/01 12:00:00",
                                        "1969-03-01 12:00:00",
                                        "12026-03-01 12:00:00",
                                        "2026-03-01_12:00:00"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_time(lines[i], INT64_MIN, false);
}

static void a_date_far_into_the_line_is_the_message_s(void **state)
{
    (void)state;
    char line[128];
    memset(line, ' ', sizeof line);
    memcpy(line + 80, "2026-03-01 12:00:00", 19);
    assert_int_equal(vw__ranks_log_time_of(line, sizeof line).time_us, INT64_MIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_date_with_a_time_is_one),
        cmocka_unit_test(a_zone_is_taken_into_account),
        cmocka_unit_test(what_is_no_date_is_none),
        cmocka_unit_test(a_date_far_into_the_line_is_the_message_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
