/* test_byte_cursor.c - what was appended is read back, and nothing beyond it. */
#include "base/byte_cursor.h"

#include <string.h>

#include "base/byte_buffer.h"
#include "support/cmocka_here.h"

static void what_was_appended_is_read_back(void **state)
{
    (void)state;
    vw__byte_buffer buffer;
    vw__byte_buffer_init(&buffer);
    vw__append_u8(&buffer, 200);
    vw__append_u32_le(&buffer, UINT32_C(0x89abcdef));
    vw__append_u64_le(&buffer, UINT64_C(0xfedcba9876543210));
    vw__append_bytes(&buffer, "abc", 3);
    vw__byte_cursor cursor =
        vw__byte_cursor_of(vw__byte_buffer_text(&buffer), vw__byte_buffer_size(&buffer));
    assert_int_equal(vw__byte_cursor_u8(&cursor), 200);
    assert_int_equal(vw__byte_cursor_u32(&cursor), UINT32_C(0x89abcdef));
    assert_true(vw__byte_cursor_u64(&cursor) == UINT64_C(0xfedcba9876543210));
    assert_int_equal(vw__byte_cursor_left(&cursor), 3);
    assert_memory_equal(vw__byte_cursor_bytes(&cursor, 3), "abc", 3);
    assert_false(cursor.has_failed);
    vw__byte_buffer_deinit(&buffer);
}

static void a_read_beyond_the_end_fails_for_good(void **state)
{
    (void)state;
    vw__byte_cursor cursor = vw__byte_cursor_of("\1\2\3\4\5", 5);
    assert_true(vw__byte_cursor_u64(&cursor) == 0);
    assert_true(cursor.has_failed);
    assert_int_equal(vw__byte_cursor_u8(&cursor), 0);
    assert_null(vw__byte_cursor_bytes(&cursor, 1));
    cursor = vw__byte_cursor_of("", 0);
    assert_non_null(vw__byte_cursor_bytes(&cursor, 0));
    assert_null(vw__byte_cursor_bytes(&cursor, SIZE_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_appended_is_read_back),
        cmocka_unit_test(a_read_beyond_the_end_fails_for_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
