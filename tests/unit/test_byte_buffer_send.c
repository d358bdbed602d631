/* test_byte_buffer_send.c - a text arrives whole, or it is said why not. */
#include "base/byte_buffer.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/report_capture.h"

static report_capture captured;

static vw_status send(bool has_failed, const vw_output *output)
{
    vw__byte_buffer buffer;
    vw__byte_buffer_init(&buffer);
    vw__append_text(&buffer, "all of it\n");
    buffer.has_failed = has_failed;
    vw_status status = vw__byte_buffer_send(&buffer, output, "a letter");
    vw__byte_buffer_deinit(&buffer);
    return status;
}

static void a_text_is_sent_in_one_piece(void **state)
{
    (void)state;
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(send(false, &output), VW_OK);
    assert_string_equal(captured.text, "all of it\n");
}

static void of_a_text_with_something_missing_nothing_is_sent(void **state)
{
    (void)state;
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(send(true, &output), VW_ERR_HOST_MEMORY);
    assert_string_equal(captured.text, "");
}

static bool take_nothing(void *context, const char *bytes, size_t size_bytes)
{
    (void)context, (void)bytes, (void)size_bytes;
    return false;
}

static void what_goes_wrong_is_named(void **state)
{
    (void)state;
    const vw_output output = {NULL, take_nothing}, none = {NULL, NULL};
    assert_int_equal(send(false, &output), VW_ERR_FILE);
    assert_non_null(strstr(vw_last_error(), "a letter of 10 bytes"));
    assert_int_equal(send(false, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(send(false, &none), VW_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_sent_in_one_piece),
        cmocka_unit_test(of_a_text_with_something_missing_nothing_is_sent),
        cmocka_unit_test(what_goes_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
