/* test_line.c - prefixes, terminal commands, numbers and units of a line. */
#include "parse/line.h"

#include <stdio.h>

#include "support/cmocka_here.h"

#define MIB (1024.0 * 1024.0)
#define GIB (1024.0 * MIB)

static vw__line line_of(const char *text)
{
    return (vw__line){text, strlen(text)};
}

/* ---- prefixes -------------------------------------------------------------------------------- */

static void prefixes_end_where_the_message_begins(void **state)
{
    (void)state;
    static const struct {
        const char *prefix, *rest;
        int rank;
    } lines[] = {
        {"[rank3]: ", "message", 3},
        {"rank12: ", "message", 12},
        {"[Rank 7] ", "message", 7},
        {"[default5]:", "message", 5},
        {"[1,2]<stderr>:", "message", 2},
        {"4: ", "message", 4},
        {"(EngineCore_DP0 pid=77) ERROR 10-25 13:08:43 [core.py:708] ", "message", -1},
        {"(RayTrainWorker pid=77, ip=10.0.0.1) ", "message", -1},
        {"2026-01-31 10:00:00,123 - trainer - ERROR - ", "message", -1},
        {"2026-01-31T10:00:00.123456Z stderr F ", "message", -1},
        {"2026-01-31 10:00:00 | WARNING | trainer | ", "message", -1},
        {"[2026-01-31 10:00:00,123 E 11 12] ", "message", -1},
        {"ERROR 10-11 12:27:29 engine.py:157] ", "message", -1},
        {"E0131 10:00:00.123456 ", "message", -1},
        {"10:00:00 [rank3]: ", "message", 3},
        {"> > ", "message", -1},
        {"", "message", -1},
        {"", "[enforce fail at CPUAllocator.cpp:64] . DefaultCPUAllocator", -1},
        {"", "19.77/22.05 GiB) on startup", -1},
        {"", "12.34 GiB free", -1},
        {"", "RuntimeError: message", -1},
        {"", "rank and file", -1},
        {"", "", -1},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char line[256];
        vw__line_rank rank;
        snprintf(line, sizeof line, "%s%s", lines[i].prefix, lines[i].rest);
        size_t length = vw__line_prefix(line, strlen(line), &rank);
        if (length != strlen(lines[i].prefix))
            fail_msg("the prefix of \"%s\" is not %zu bytes long", line, length);
        assert_int_equal(rank.rank, lines[i].rank);
    }
}

/* ---- terminal commands --------------------------------------------------------------------- */

static void a_terminals_command_ends_with_its_line(void **state)
{
    (void)state;
    assert_int_equal(vw__line_terminal_command("\033[31mred", 8), 5);
    assert_int_equal(vw__line_terminal_command("\033[31", 4), 4);
    assert_int_equal(vw__line_terminal_command("\033[3\n1m", 6), 3);
    assert_int_equal(vw__line_terminal_command("\033]0;title\ax", 11), 10);
    assert_int_equal(vw__line_terminal_command("\033]0;title\nx", 11), 9);
    assert_int_equal(vw__line_terminal_command("\033\n", 2), 1);
    assert_int_equal(vw__line_terminal_command("\033", 1), 1);
}

/* ---- bytes and words ------------------------------------------------------------------------- */

static void places_behind_the_end_read_as_zero(void **state)
{
    (void)state;
    vw__line line = {"step 5", 4};
    assert_int_equal(vw__line_at(line, 4), '\0');
    assert_int_equal(vw__line_at(line, SIZE_MAX), '\0');
    assert_false(vw__line_is_digit(line, 5));
    assert_true(vw__line_is_blank(line, 4));
    assert_false(vw__line_has(line, 4, " "));
    assert_false(vw__line_begins(line, SIZE_MAX, " "));
    assert_int_equal(vw__line_skip_letters(line, 0), 4);
    assert_int_equal(vw__line_skip_letters(line, 9), 9);
}

static void words_are_found_in_either_case(void **state)
{
    (void)state;
    static const char *const words[] = {"retrying", "falling back"};
    vw__line line = line_of("OOM, Falling back to CPU");
    assert_true(vw__line_begins(line, 5, "falling"));
    assert_false(vw__line_has(line, 5, "falling"));
    assert_true(vw__line_mentions_any(line, 0, SIZE_MAX, words, 2));
    assert_false(vw__line_mentions_any(line, 6, SIZE_MAX, words, 2));
    assert_false(vw__line_mentions_any(line, 0, 5, words, 2));
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void numbers_are_read_with_their_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value, unit_bytes;
        size_t end;
        bool is_other;
    } numbers[] = {
        {"3.21 GB", 3.21, GIB, 7, false},
        {"3287MiB,", 3287, MIB, 7, false},
        {"2G", 2, GIB, 2, false},
        {"2 G", 2, 0, 1, false},
        {"2g", 2, 0, 1, true},
        {"12 B", 12, 1, 4, false},
        {"1,234,567 bytes", 1234567, 1, 15, false},
        {"1,2345", 1, 0, 1, false},
        {"1.5e3", 1500, 0, 5, false},
        {"12:31", 12, 0, 2, true},
        {"1.2.3", 1.2, 0, 3, true},
        {"640px", 640, 0, 3, true},
        {"95 %", 95, 0, 2, true},
        {"3 GB/s", 3, GIB, 4, true},
        {"3 PB", 3, 0, 1, false},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        vw__line_number number = vw__line_number_read(line_of(numbers[i].text), 0, true);
        if (number.value != numbers[i].value || number.unit_bytes != numbers[i].unit_bytes ||
            number.end != numbers[i].end || number.is_other != numbers[i].is_other)
            fail_msg("\"%s\" was read as %g times %g, to %zu, other %d", numbers[i].text,
                     number.value, number.unit_bytes, number.end, number.is_other);
    }
}

static void short_numbers_have_a_longest_length(void **state)
{
    (void)state;
    size_t at = 4;
    assert_int_equal(vw__line_digits(line_of("rank12"), &at, 2), 12);
    assert_int_equal(at, 6);
    at = 0;
    assert_int_equal(vw__line_digits(line_of("123"), &at, 2), -1);
    at = 0;
    assert_int_equal(vw__line_digits(line_of("x"), &at, 2), -1);
}

static void units_are_binary_and_known_by_their_whole_name(void **state)
{
    (void)state;
    assert_int_equal(vw__line_unit_named("GiB", 3)->log2, 30);
    assert_int_equal(vw__line_unit_named("gb", 2)->log2, 30);
    assert_int_equal(vw__line_unit_named("Bytes", 5)->log2, 0);
    assert_null(vw__line_unit_named("Gibson", 6));
    assert_null(vw__line_unit_named("", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_end_where_the_message_begins),
        cmocka_unit_test(a_terminals_command_ends_with_its_line),
        cmocka_unit_test(places_behind_the_end_read_as_zero),
        cmocka_unit_test(words_are_found_in_either_case),
        cmocka_unit_test(numbers_are_read_with_their_units),
        cmocka_unit_test(short_numbers_have_a_longest_length),
        cmocka_unit_test(units_are_binary_and_known_by_their_whole_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
