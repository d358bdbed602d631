/* test_units.c - sizes on a command line: read as people write them, refused with words. */
#include "vramwise/units.h"

#include <string.h>

#include "support/cmocka_here.h"

static void a_size_is_read_with_its_unit(void **state)
{
    uint64_t size_bytes = 0;
    (void)state;
    assert_int_equal(vw_parse_size("24GiB", &size_bytes), VW_OK);
    assert_int_equal(size_bytes, UINT64_C(24) << 30);
    assert_int_equal(vw_parse_size("1000000", &size_bytes), VW_OK);
    assert_int_equal(size_bytes, 1000000);
}

static void what_is_no_size_is_refused_by_name_and_changes_nothing(void **state)
{
    uint64_t size_bytes = 77;
    (void)state;
    assert_int_equal(vw_parse_size("24 elephants", &size_bytes), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(size_bytes, 77);
    assert_non_null(strstr(vw_last_error(), "'24 elephants'"));
    assert_non_null(strstr(vw_last_error(), "24GiB"));
    assert_int_equal(vw_parse_size(NULL, &size_bytes), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_parse_size("1", NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(size_bytes, 77);
}

static void a_memory_size_without_its_unit_is_refused(void **state)
{
    uint64_t size_bytes = 77;
    (void)state;
    assert_int_equal(vw_parse_memory_size("24", &size_bytes), VW_ERR_INVALID_ARGUMENT);
    assert_string_equal(vw_last_error(),
                        "expected a size with a unit, such as 24GiB, not '24', which is in bytes");
    assert_int_equal(vw_parse_memory_size("0", &size_bytes), VW_ERR_INVALID_ARGUMENT);
    assert_string_equal(vw_last_error(), "expected more than 0 bytes");
    assert_int_equal(vw_parse_memory_size("24 elephants", &size_bytes), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_parse_memory_size(NULL, &size_bytes), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_parse_memory_size("1GiB", NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(size_bytes, 77);
    assert_int_equal(vw_parse_memory_size("1024", &size_bytes), VW_OK);
    assert_int_equal(size_bytes, VW_LEAST_MEMORY_BYTES);
}

static uint64_t read_of(const char *text, uint64_t whole_bytes)
{
    uint64_t size_bytes = 77;
    assert_int_equal(vw_parse_size_or_share(text, whole_bytes, &size_bytes), VW_OK);
    return size_bytes;
}

static void a_share_is_a_part_of_the_whole_and_a_size_is_itself(void **state)
{
    (void)state;
    assert_int_equal(read_of("5%", 1000), 50);
    assert_int_equal(read_of("12.5%", 1000000), 125000);
    assert_int_equal(read_of("100%", UINT64_MAX), UINT64_MAX);
    assert_int_equal(read_of("100%", 12345), 12345);
    assert_int_equal(read_of("0%", 12345), 0);
    assert_int_equal(read_of("33%", 50), 16); /* what it leaves of a byte is cut off */
    assert_int_equal(read_of("2GiB", 10), UINT64_C(2) << 30);
}

static void what_is_neither_size_nor_share_is_refused(void **state)
{
    static const char *const wrong[] = {"%",    "5 %",    "5%%",  "5%x",
                                        "101%", "100.1%", "-5%",  ".5%",
                                        "5.%",  "",       "much", "99999999999999999999%"};
    uint64_t size_bytes = 77;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(vw_parse_size_or_share(wrong[i], 1000, &size_bytes),
                         VW_ERR_INVALID_ARGUMENT);
        assert_int_equal(size_bytes, 77);
    }
    assert_non_null(strstr(vw_last_error(), "5%"));
    assert_int_equal(vw_parse_size_or_share(NULL, 1, &size_bytes), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_parse_size_or_share("1", 1, NULL), VW_ERR_INVALID_ARGUMENT);
}

static void a_size_is_written_by_the_one_rule(void **state)
{
    char text[VW_SIZE_TEXT_BYTES];
    (void)state;
    assert_string_equal(vw_format_size(UINT64_C(3) << 29, text), "1.50 GiB");
    assert_string_equal(vw_format_size(UINT64_C(1) << 30, text), "1.00 GiB");
    assert_string_equal(vw_format_size(UINT64_MAX, text), "16.00 EiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_size_is_read_with_its_unit),
        cmocka_unit_test(what_is_no_size_is_refused_by_name_and_changes_nothing),
        cmocka_unit_test(a_memory_size_without_its_unit_is_refused),
        cmocka_unit_test(a_share_is_a_part_of_the_whole_and_a_size_is_itself),
        cmocka_unit_test(what_is_neither_size_nor_share_is_refused),
        cmocka_unit_test(a_size_is_written_by_the_one_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
