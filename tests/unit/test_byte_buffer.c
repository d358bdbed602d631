/* test_byte_buffer.c - appended bytes arrive in order, and failure sticks. */
#include "base/byte_buffer.h"

#include <string.h>

#include "base/host_memory.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

static void an_empty_buffer_is_empty_text_and_takes_no_memory(void **state)
{
    (void)state;
    uint64_t calls_before = vw__host_memory_get_use().call_count;
    vw__byte_buffer buffer;
    vw__byte_buffer_init(&buffer);
    assert_string_equal(vw__byte_buffer_text(&buffer), "");
    assert_int_equal(vw__byte_buffer_size(&buffer), 0);
    assert_false(vw__byte_buffer_has_failed(&buffer));
    vw__byte_buffer_clear(&buffer);
    vw__byte_buffer_deinit(&buffer);
    assert_int_equal(vw__host_memory_get_use().call_count, calls_before);
}

static void appends_follow_each_other_and_end_in_a_zero(void **state)
{
    (void)state;
    vw__byte_buffer buffer;
    vw__byte_buffer_init(&buffer);
    vw__append_text(&buffer, "one ");
    vw__append_bytes(&buffer, "two and", 3);
    vw__append_bytes(&buffer, NULL, 0);
    vw__append_format(&buffer, " %d %s", 3, "four");
    assert_string_equal(vw__byte_buffer_text(&buffer), "one two 3 four");
    assert_int_equal(vw__byte_buffer_size(&buffer), 14);
    vw__byte_buffer_clear(&buffer);
    assert_string_equal(vw__byte_buffer_text(&buffer), "");
    vw__append_text(&buffer, "again");
    assert_string_equal(vw__byte_buffer_text(&buffer), "again");
    vw__byte_buffer_deinit(&buffer);
}

static void integers_go_in_as_the_reader_takes_them_out(void **state)
{
    (void)state;
    vw__byte_buffer buffer;
    vw__byte_buffer_init(&buffer);
    vw__append_u8(&buffer, 0xFE);
    vw__append_u32_le(&buffer, UINT32_C(0xA1B2C3D4));
    static const uint8_t expected[] = {0xFE, 0xD4, 0xC3, 0xB2, 0xA1};
    assert_int_equal(vw__byte_buffer_size(&buffer), sizeof expected);
    assert_memory_equal(vw__byte_buffer_text(&buffer), expected, sizeof expected);
    vw__byte_buffer_deinit(&buffer);
}

/* Around the edges of every growth, and of what is formatted on the stack first. */
static void any_length_can_be_formatted_at_any_size(void **state)
{
    (void)state;
    static char letters[2001];
    memset(letters, 'x', sizeof letters - 1);
    for (int before = 0; before < 600; before += before < 250 || before > 260 ? 50 : 1) {
        for (int length = 0; length < 2000; length += length < 250 || length > 260 ? 250 : 1) {
            vw__byte_buffer buffer;
            vw__byte_buffer_init(&buffer);
            vw__append_format(&buffer, "%.*s", before, letters);
            vw__append_format(&buffer, "%.*s!", length, letters);
            assert_int_equal(vw__byte_buffer_size(&buffer), before + length + 1);
            assert_int_equal(strlen(vw__byte_buffer_text(&buffer)), before + length + 1);
            assert_int_equal(vw__byte_buffer_text(&buffer)[before + length], '!');
            vw__byte_buffer_deinit(&buffer);
        }
    }
}

static void many_small_appends_take_few_allocations(void **state)
{
    (void)state;
    uint64_t calls_before = vw__host_memory_get_use().call_count;
    vw__byte_buffer buffer;
    vw__byte_buffer_init(&buffer);
    for (uint32_t i = 0; i < 100000; i++)
        vw__append_u32_le(&buffer, i);
    assert_int_equal(vw__byte_buffer_size(&buffer), 400000);
    assert_true(vw__host_memory_get_use().call_count - calls_before < 15);
    vw__byte_buffer_deinit(&buffer);
}

static void detached_bytes_belong_to_the_caller(void **state)
{
    (void)state;
    vw__byte_buffer buffer;
    size_t size_bytes = 77;
    vw__byte_buffer_init(&buffer);
    assert_null(vw__byte_buffer_detach(&buffer, &size_bytes));
    assert_int_equal(size_bytes, 77);
    vw__append_text(&buffer, "mine");
    char *bytes = vw__byte_buffer_detach(&buffer, &size_bytes);
    assert_string_equal(bytes, "mine");
    assert_int_equal(size_bytes, 4);
    assert_int_equal(vw__byte_buffer_size(&buffer), 0);
    vw__byte_buffer_deinit(&buffer);
    vw__host_free(bytes);
}

/* ---- failure --------------------------------------------------------------------------------- */

static void failure_sticks_and_keeps_what_came_before(void **state)
{
    (void)state;
    static const char large[1000] = "large";
    uint64_t before = vw__host_memory_get_use().in_use_bytes;
    vw__byte_buffer buffer;
    vw__byte_buffer_init(&buffer);
    vw__append_text(&buffer, "before");
    vw__host_memory_fail_at(1);
    vw__append_bytes(&buffer, large, sizeof large);
    assert_true(vw__byte_buffer_has_failed(&buffer));
    vw__append_text(&buffer, "after"); /* would fit, but something is missing in front of it */
    vw__append_format(&buffer, "%d", 5);
    vw__append_u8(&buffer, 1);
    assert_true(vw__byte_buffer_has_failed(&buffer));
    assert_string_equal(vw__byte_buffer_text(&buffer), "before");

    size_t size_bytes = 77;
    assert_null(vw__byte_buffer_detach(&buffer, &size_bytes));
    assert_int_equal(size_bytes, 77);
    assert_int_equal(vw__host_memory_get_use().in_use_bytes, before);
}

static void clearing_takes_a_failure_back(void **state)
{
    (void)state;
    vw__byte_buffer buffer;
    vw__byte_buffer_init(&buffer);
    vw__host_memory_fail_at(1);
    vw__append_text(&buffer, "lost");
    assert_true(vw__byte_buffer_has_failed(&buffer));
    vw__byte_buffer_clear(&buffer);
    vw__append_text(&buffer, "kept");
    assert_false(vw__byte_buffer_has_failed(&buffer));
    assert_string_equal(vw__byte_buffer_text(&buffer), "kept");
    vw__byte_buffer_deinit(&buffer);
}

static void a_size_that_cannot_be_is_a_failure(void **state)
{
    (void)state;
    vw__byte_buffer buffer;
    vw__byte_buffer_init(&buffer);
    vw__append_text(&buffer, "x");
    vw__append_bytes(&buffer, "y", SIZE_MAX);
    assert_true(vw__byte_buffer_has_failed(&buffer));
    vw__byte_buffer_clear(&buffer);
    vw__append_bytes(&buffer, "y", SIZE_MAX / 2);
    assert_true(vw__byte_buffer_has_failed(&buffer));
    vw__byte_buffer_deinit(&buffer);
}

static bool write_a_document(void *context)
{
    (void)context;
    vw__byte_buffer buffer;
    vw__byte_buffer_init(&buffer);
    for (uint32_t i = 0; i < 500; i++) {
        vw__append_text(&buffer, "block ");
        vw__append_format(&buffer, "%u of %0300d\n", i, 0);
        vw__append_u32_le(&buffer, i);
    }
    size_t size_bytes = 0;
    bool was_good = !vw__byte_buffer_has_failed(&buffer);
    char *bytes = vw__byte_buffer_detach(&buffer, &size_bytes);
    assert_true(was_good == (bytes != NULL));
    vw__host_free(bytes);
    return was_good;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(write_a_document, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_buffer_is_empty_text_and_takes_no_memory),
        cmocka_unit_test(appends_follow_each_other_and_end_in_a_zero),
        cmocka_unit_test(integers_go_in_as_the_reader_takes_them_out),
        cmocka_unit_test(any_length_can_be_formatted_at_any_size),
        cmocka_unit_test(many_small_appends_take_few_allocations),
        cmocka_unit_test(detached_bytes_belong_to_the_caller),
        cmocka_unit_test(failure_sticks_and_keeps_what_came_before),
        cmocka_unit_test(clearing_takes_a_failure_back),
        cmocka_unit_test(a_size_that_cannot_be_is_a_failure),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
