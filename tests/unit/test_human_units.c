/* test_human_units.c - sizes written as PyTorch writes them, and read as people write them. */
#include "base/human_units.h"

#include <stdio.h>

#include "vramwise/units.h"
#include "support/cmocka_here.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

/* ---- writing --------------------------------------------------------------------------------- */

static void assert_written(uint64_t size_bytes, const char *expected)
{
    char text[VW__SIZE_TEXT_BYTES];
    assert_ptr_equal(vw__format_size(size_bytes, text), text);
    assert_string_equal(text, expected);
}

static void each_limit_belongs_to_the_smaller_unit(void **state)
{
    (void)state;
    assert_written(0, "0 bytes");
    assert_written(1, "1 bytes");
    assert_written(KIB, "1024 bytes");
    assert_written(KIB + 1, "1.00 KiB");
    assert_written(MIB, "1024.00 KiB");
    assert_written(MIB + 1, "1.00 MiB");
    assert_written(GIB, "1024.00 MiB");
    assert_written(GIB + 1, "1.00 GiB");
}

static void usual_sizes_read_as_in_an_out_of_memory_message(void **state)
{
    (void)state;
    assert_written(1536, "1.50 KiB");
    assert_written(20 * MIB, "20.00 MiB");
    assert_written(UINT64_C(85899345920), "80.00 GiB");
    assert_written(UINT64_C(150121545728), "139.81 GiB");
    assert_written(MIB - 1, "1024.00 KiB"); /* rounding carries into the whole part */
    assert_written(UINT64_MAX, "17179869184.00 GiB");
}

/* What PyTorch does, in the locale of a test, which is "C". */
static void assert_written_as_by_printf(uint64_t size_bytes)
{
    char expected[64];
    double size = (double)size_bytes;
    if (size_bytes <= MIB)
        snprintf(expected, sizeof expected, "%.2f KiB", size / 1024.0);
    else if (size_bytes <= GIB)
        snprintf(expected, sizeof expected, "%.2f MiB", size / 1048576.0);
    else
        snprintf(expected, sizeof expected, "%.2f GiB", size / 1073741824.0);
    assert_written(size_bytes, expected);
}

static void every_size_is_rounded_as_printf_rounds_it(void **state)
{
    (void)state;
    for (uint64_t size_bytes = KIB + 1; size_bytes < 70 * KIB; size_bytes++)
        assert_written_as_by_printf(size_bytes);
    /* Ties: an odd number of eighths is half way between two hundredths. */
    for (uint64_t eighths = 9; eighths < 8 * 1024; eighths += 2) {
        assert_written_as_by_printf(eighths * KIB / 8);
        assert_written_as_by_printf(eighths * MIB / 8);
        assert_written_as_by_printf(eighths * GIB / 8);
    }
    /* And all magnitudes, beyond the 53 bits of a double too. */
    for (uint64_t size_bytes = 1025; size_bytes < UINT64_MAX / 2; size_bytes += size_bytes / 97 + 1)
        assert_written_as_by_printf(size_bytes);
    for (unsigned shift = 54; shift < 64; shift++) {
        assert_written_as_by_printf((UINT64_C(1) << shift) - 1);
        assert_written_as_by_printf((UINT64_C(1) << shift) + (GIB / 8) + 1);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static void assert_read(const char *text, uint64_t expected_bytes)
{
    uint64_t size_bytes = 77;
    if (!vw__parse_size(text, &size_bytes))
        fail_msg("\"%s\" is refused", text);
    assert_int_equal(size_bytes, expected_bytes);
}

static void assert_refused(const char *text)
{
    uint64_t size_bytes = 77;
    if (vw__parse_size(text, &size_bytes))
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
    assert_string_equal(vw_format_duration(7805, text), "2 h 10 min");
    assert_string_equal(vw_format_duration(86400 + 3600 * 3 - 1, text), "1 d 2 h");
    assert_string_equal(vw_format_duration(UINT64_MAX, text), "213503982334601 d 7 h");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_limit_belongs_to_the_smaller_unit),
        cmocka_unit_test(usual_sizes_read_as_in_an_out_of_memory_message),
        cmocka_unit_test(every_size_is_rounded_as_printf_rounds_it),
        cmocka_unit_test(plain_numbers_are_bytes),
        cmocka_unit_test(units_are_powers_of_1024_in_every_spelling),
        cmocka_unit_test(fractions_are_exact_and_cut_to_whole_bytes),
        cmocka_unit_test(what_is_no_size_is_refused),
        cmocka_unit_test(what_does_not_fit_64_bits_is_refused),
        cmocka_unit_test(durations_have_two_units_at_the_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
