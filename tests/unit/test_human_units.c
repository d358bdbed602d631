/* test_human_units.c - sizes, durations and shares in words, and sizes read as people write them.
 */
#include "base/human_units.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vramwise/units.h"
#include "support/cmocka_here.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

/* ---- writing --------------------------------------------------------------------------------- */

static void assert_case(const char *what, const char *number, const char *expected)
{
    char text[VW__HUMAN_DURATION_BYTES];
    if (strcmp(what, "size") == 0)
        assert_ptr_equal(vw__human_size(strtoull(number, NULL, 10), text), text);
    else if (strcmp(what, "duration") == 0)
        assert_ptr_equal(vw__human_duration(strtoull(number, NULL, 10), text), text);
    else if (strcmp(what, "share") == 0)
        assert_ptr_equal(vw__human_share(strtod(number, NULL), text), text);
    else
        fail_msg("no formatter for \"%s\"", what);
    if (strcmp(text, expected) != 0)
        fail_msg("%s %s is \"%s\", not \"%s\"", what, number, text, expected);
}

static void every_case_of_the_table_is_written_so(void **state)
{
    char line[128];
    size_t case_count = 0;
    FILE *table = fopen(VW_TEST_DATA "/numbers/cases.tsv", "r");
    (void)state;
    assert_non_null(table);
    while (fgets(line, sizeof line, table) != NULL) {
        char what[16], number[32], text[32];
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%15[^\t]\t%31[^\t]\t%31[^\n]", what, number, text), 3);
        assert_case(what, number, text);
        case_count++;
    }
    fclose(table);
    assert_true(case_count > 50);
}

/* In GiB, where a message of PyTorch's and ours have the same digits. */
static void gibibytes_are_rounded_as_printf_rounds_them(void **state)
{
    char text[VW__HUMAN_SIZE_BYTES], expected[64];
    (void)state;
    for (uint64_t size_bytes = GIB; size_bytes < TIB - GIB; size_bytes += size_bytes / 997 + 1) {
        snprintf(expected, sizeof expected, "%.2f GiB", (double)size_bytes / (double)GIB);
        assert_string_equal(vw__human_size(size_bytes, text), expected);
    }
    for (uint64_t eighths = 9; eighths < 8 * 1023; eighths += 2) { /* half way */
        snprintf(expected, sizeof expected, "%.2f GiB", (double)eighths / 8);
        assert_string_equal(vw__human_size(eighths * GIB / 8, text), expected);
    }
}

static void there_are_never_1024_of_a_unit(void **state)
{
    char text[VW__HUMAN_SIZE_BYTES];
    (void)state;
    for (unsigned shift = 10; shift < 64; shift += 10) {
        for (uint64_t less = 0; less < 3000; less++) {
            const uint64_t size_bytes = (UINT64_C(1) << shift) - (less << (shift - 10)) / 2;
            assert_null(strstr(vw__human_size(size_bytes, text), "1024"));
        }
    }
}

static void a_share_that_is_no_number_is_a_question_mark(void **state)
{
    char text[VW__HUMAN_SHARE_BYTES];
    (void)state;
    assert_string_equal(vw__human_share((double)NAN, text), "?");
    assert_string_equal(vw__human_share((double)INFINITY, text), "?");
}

/* ---- reading --------------------------------------------------------------------------------- */

static void assert_read(const char *text, uint64_t expected_bytes)
{
    uint64_t size_bytes = 77;
    if (vw_parse_size(text, &size_bytes) != VW_OK)
        fail_msg("\"%s\" is refused", text);
    assert_int_equal(size_bytes, expected_bytes);
}

static void assert_refused(const char *text)
{
    uint64_t size_bytes = 77;
    if (vw_parse_size(text, &size_bytes) == VW_OK)
        fail_msg("\"%s\" is accepted", text != NULL ? text : "(NULL)");
    assert_int_equal(size_bytes, 77);
}

static void plain_numbers_are_bytes(void **state)
{
    (void)state;
    assert_read("0", 0);
    assert_read("1000000", 1000000);
    assert_read("000512", 512);
    assert_read("512B", 512);
    assert_read("9007199254740993", UINT64_C(9007199254740993)); /* a double would lose the 3 */
    assert_read("18446744073709551615", UINT64_MAX);
}

static void units_are_powers_of_1024_in_every_spelling(void **state)
{
    (void)state;
    static const struct {
        char letter;
        uint64_t unit_bytes;
    } units[] = {{'K', KIB}, {'M', MIB}, {'G', GIB}, {'T', TIB}};
    static const char *const endings[] = {"", "i", "B", "iB", "I", "b", "IB", "ib", "Ib"};
    for (size_t unit = 0; unit < 4; unit++) {
        for (size_t ending = 0; ending < sizeof endings / sizeof *endings; ending++) {
            char text[16];
            snprintf(text, sizeof text, "24%c%s", units[unit].letter, endings[ending]);
            assert_read(text, 24 * units[unit].unit_bytes);
            text[2] = (char)(text[2] | 0x20);
            assert_read(text, 24 * units[unit].unit_bytes);
        }
    }
}

static void fractions_are_exact_and_cut_to_whole_bytes(void **state)
{
    (void)state;
    assert_read("1.5GiB", GIB + GIB / 2);
    assert_read("0.5K", 512);
    assert_read("1.0M", MIB);
    assert_read("0.1K", 102);
    assert_read("0.999999999999999999999999999999999999999K", 1023);
    assert_read("0.0009765625K", 1); /* exactly one byte */
    assert_read("0.0009765624999K", 0);
    assert_read("139.81G", UINT64_C(150119844413)); /* and 0.44 of a byte */
    assert_read("16777215.9999999999990906T", UINT64_MAX);
}

static void what_is_no_size_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",    " ",   "-1",   "+1",     "-1GiB", "GiB",    "B",    ".5G",   "1.",
        "1.G", "1.5", "1.5B", "1,5G",   "1 GiB", " 1",     "1 ",   "1GiBs", "1GG",
        "1iB", "1i",  "1Bi",  "0x10",   "1e9",   "1.5.5G", "1P",   "1KiB0", "infinity",
        "nan", "1\n", "1GBB", "1\xcbG", "1Gi B", "12O",    "1\x0b"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_refused(texts[i]);
    assert_refused(NULL);
}

static void what_does_not_fit_64_bits_is_refused(void **state)
{
    (void)state;
    assert_refused("18446744073709551616");
    assert_refused("99999999999999999999999999");
    assert_refused("16777216T");
    assert_read("16777215T", 16777215 * TIB);
    assert_refused("17179869184GiB");
    assert_read("17179869183.999999999GiB", 17179869183 * GIB + 1073741822);
}

static void durations_have_two_units_at_the_most(void **state)
{
    (void)state;
    char text[VW_DURATION_TEXT_BYTES];
    assert_string_equal(vw_format_duration(0, text), "0 s");
    assert_string_equal(vw_format_duration(59, text), "59 s");
    assert_string_equal(vw_format_duration(60, text), "1 min");
    assert_string_equal(vw_format_duration(3599, text), "59 min");
    assert_string_equal(vw_format_duration(599, text), "9 min 59 s");
    assert_string_equal(vw_format_duration(7200, text), "2 h");
    assert_string_equal(vw_format_duration(7805, text), "2 h 10 min");
    assert_string_equal(vw_format_duration(86400 + 3600 * 3 - 1, text), "1 d 2 h");
    assert_string_equal(vw_format_duration(UINT64_MAX, text), "213503982334601 d 7 h");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_of_the_table_is_written_so),
        cmocka_unit_test(gibibytes_are_rounded_as_printf_rounds_them),
        cmocka_unit_test(there_are_never_1024_of_a_unit),
        cmocka_unit_test(a_share_that_is_no_number_is_a_question_mark),
        cmocka_unit_test(plain_numbers_are_bytes),
        cmocka_unit_test(units_are_powers_of_1024_in_every_spelling),
        cmocka_unit_test(fractions_are_exact_and_cut_to_whole_bytes),
        cmocka_unit_test(what_is_no_size_is_refused),
        cmocka_unit_test(what_does_not_fit_64_bits_is_refused),
        cmocka_unit_test(durations_have_two_units_at_the_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
