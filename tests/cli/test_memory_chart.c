/* test_memory_chart.c - charts of known points, character by character. */
#include "cli/memory_chart.h"

#include <string.h>

#include "support/cmocka_here.h"

#define GIB (UINT64_C(1) << 30)

static const memory_style plain_style = {
    .glyphs = {" ", "#", "+", ".", "X"},
    .codes = {"", "", "", "", ""},
    .plain_code = "",
    .side = "|",
    .corner = "+",
    .base = "-",
};

static char *drawn(const memory_chart *charts, size_t chart_count, unsigned width_columns)
{
    static char text[16 * 1024];
    memory_style style = plain_style;
    style.width_columns = width_columns;
    FILE *to = fmemopen(text, sizeof text, "w");
    assert_non_null(to);
    text[0] = '\0'; /* for what writes nothing */
    memory_chart_draw(charts, chart_count, 24 * GIB, &style, to);
    assert_int_equal(fclose(to), 0);
    return text;
}

static void a_column_shows_live_below_and_idle_above(void **state)
{
    (void)state;
    const memory_chart_point points[] = {{2 * GIB, 4 * GIB}, {20 * GIB, 24 * GIB}};
    const memory_chart chart = {"run", points, 2, 4, true};
    assert_string_equal(drawn(&chart, 1, 40), "        run\n"
                                              "24 GiB | X\n"
                                              "       | .\n"
                                              "       | #\n"
                                              "       | #\n"
                                              "       | #\n"
                                              "       | #\n"
                                              "12 GiB | #\n"
                                              "       | #\n"
                                              "       | #\n"
                                              "       | #\n"
                                              "       |.#\n"
                                              "       |##\n"
                                              "       +----\n");
}

static void a_peak_between_two_columns_is_not_lost(void **state)
{
    (void)state;
    memory_chart_point points[64] = {{0, 0}};
    points[33] = (memory_chart_point){24 * GIB, 24 * GIB};
    const memory_chart chart = {"", points, 64, 64, false};
    /* 32 columns of two points: the peak is in the 17th. */
    assert_non_null(strstr(drawn(&chart, 1, 40), "24 GiB |                #\n"));
}

static void two_charts_stand_side_by_side_where_there_is_room(void **state)
{
    (void)state;
    const memory_chart_point points[] = {{24 * GIB, 24 * GIB}};
    const memory_chart charts[] = {{"one", points, 1, 30, false}, {"two", points, 1, 30, false}};
    const char *beside = drawn(charts, 2, 80);
    assert_int_equal(strncmp(beside, "        one                               two\n", 46), 0);
    assert_non_null(strstr(beside, "24 GiB |#                                |#\n"));
}

static void two_charts_go_below_each_other_where_it_is_narrow(void **state)
{
    (void)state;
    const memory_chart_point points[] = {{24 * GIB, 24 * GIB}};
    const memory_chart charts[] = {{"one", points, 1, 30, false}, {"two", points, 1, 30, false}};
    const char *below = drawn(charts, 2, 40);
    assert_int_equal(strncmp(below, "        one\n24 GiB |#\n", 22), 0);
    assert_non_null(strstr(below, "\n        two\n24 GiB |#\n"));
}

static void a_long_title_is_cut(void **state)
{
    (void)state;
    const memory_chart_point points[] = {{0, 0}};
    const memory_chart chart = {"expandable_segments:True", points, 1, 10, false};
    assert_int_equal(strncmp(drawn(&chart, 1, 40), "        expandable\n", 19), 0);
}

static void nothing_to_draw_draws_nothing(void **state)
{
    (void)state;
    assert_string_equal(drawn(NULL, 0, 80), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_column_shows_live_below_and_idle_above),
        cmocka_unit_test(a_peak_between_two_columns_is_not_lost),
        cmocka_unit_test(two_charts_stand_side_by_side_where_there_is_room),
        cmocka_unit_test(two_charts_go_below_each_other_where_it_is_narrow),
        cmocka_unit_test(a_long_title_is_cut),
        cmocka_unit_test(nothing_to_draw_draws_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
