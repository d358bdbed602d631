/* test_user_ranges.c - which numbers of users count as one. */
#include "watch/user_ranges.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/cmocka_here.h"

static vw__user_ranges ranges;

static void read_text(const char *text)
{
    char path[] = "/tmp/vramwise-ranges-XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    FILE *file = fdopen(descriptor, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    vw__user_ranges_read(path, &ranges);
    assert_int_equal(unlink(path), 0);
}

static void the_numbers_of_a_range_are_one_user_s(void **state)
{
    (void)state;
    read_text("ann:100000:65536\nbob:165536:65536\n1003:4294967290:100\n");
    static const struct {
        uid_t user, first;
    } users[] = {
        {99999, 99999},   {100000, 100000},           {165535, 100000}, {165536, 165536},
        {231071, 165536}, {231072, 231072},           {0, 0},           {4294967289U, 4294967289U},
        {1003, 1003},     {4294967294U, 4294967290U},
    };
    for (size_t i = 0; i < sizeof users / sizeof users[0]; i++)
        assert_int_equal(vw__user_ranges_first(&ranges, users[i].user), users[i].first);
}

static void what_is_no_range_is_passed_over(void **state)
{
    (void)state;
    read_text("\n#\nann\nann:\nann:x:y\nann:5\nann:5:0\nann:99999999999:1\nann:1:99999999999\n"
              "ann:7:2:more\n");
    assert_int_equal(ranges.count, 1);
    assert_int_equal(vw__user_ranges_first(&ranges, 8), 7);
    vw__user_ranges_read("/nowhere/subuid", &ranges);
    assert_int_equal(ranges.count, 0);
}

static void more_ranges_than_there_is_room_for_are_left_out(void **state)
{
    (void)state;
    enum { LINES = VW__USER_RANGES_MOST + 10, LINE_BYTES = 17 };
    static char text[LINES * LINE_BYTES + 1];
    for (int i = 0; i < LINES; i++)
        snprintf(text + i * LINE_BYTES, LINE_BYTES + 1, "a:%09d:0010\n", i * 10);
    read_text(text);
    assert_int_equal(ranges.count, VW__USER_RANGES_MOST);
    assert_int_equal(vw__user_ranges_first(&ranges, 25), 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_numbers_of_a_range_are_one_user_s),
        cmocka_unit_test(what_is_no_range_is_passed_over),
        cmocka_unit_test(more_ranges_than_there_is_room_for_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
