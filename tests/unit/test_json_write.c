/* test_json_write.c - every output parses, and says what was put in. */
#include "export/json_write.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/comma_locale.h"
#include "support/host_memory_sweep.h"

typedef struct fixture {
    vw__byte_buffer buffer;
    vw__json json;
} fixture;

static void begin(fixture *made)
{
    vw__byte_buffer_init(&made->buffer);
    vw__json_init(&made->json, &made->buffer);
}

#define ASSERT_WRITES(expected)                                                                    \
    do {                                                                                           \
        assert_false(vw__byte_buffer_has_failed(&made.buffer));                                    \
        assert_string_equal(vw__byte_buffer_text(&made.buffer), expected);                         \
        vw__byte_buffer_deinit(&made.buffer);                                                      \
    } while (0)

static void commas_stand_between_values_only(void **state)
{
    fixture made;
    (void)state;
    begin(&made);
    vw__json_begin_object(&made.json, NULL);
    vw__json_unsigned(&made.json, "schema", 1);
    vw__json_begin_array(&made.json, "list");
    vw__json_boolean(&made.json, NULL, true);
    vw__json_boolean(&made.json, NULL, false);
    vw__json_begin_object(&made.json, NULL);
    vw__json_end_object(&made.json);
    vw__json_begin_array(&made.json, NULL);
    vw__json_end_array(&made.json);
    vw__json_end_array(&made.json);
    vw__json_null(&made.json, "nothing");
    vw__json_ready(&made.json, "ready", "{\"a\": 1}...", strlen("{\"a\": 1}"));
    vw__json_end_object(&made.json);
    ASSERT_WRITES("{\"schema\": 1, \"list\": [true, false, {}, []], \"nothing\": null, "
                  "\"ready\": {\"a\": 1}}");
}

static void strings_are_escaped_where_they_must_be(void **state)
{
    fixture made;
    (void)state;
    begin(&made);
    vw__json_bytes(&made.json, NULL, "a\"b\\c/\b\f\n\r\t\x01\x1f\x7f\0z", 16);
    ASSERT_WRITES("\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\\u0000z\"");
}

/* A C1 control, an end of a line, a turn of direction, a byte order mark, a tag. */
static void characters_that_steer_are_escaped(void **state)
{
    fixture made;
    (void)state;
    begin(&made);
    vw__json_text(&made.json, NULL,
                  "\xC2\x9B\xE2\x80\xA8\xE2\x80\xAE\xEF\xBB\xBF\xF3\xA0\x81\x81\xC2\xA0");
    ASSERT_WRITES("\"\\u009b\\u2028\\u202e\\ufeff\\udb40\\udc41\xC2\xA0\"");
}

static void characters_beyond_ascii_stay_and_bytes_that_are_none_are_replaced(void **state)
{
    fixture made;
    (void)state;
    begin(&made);
    vw__json_text(&made.json, NULL, "caf\xC3\xA9 \xF0\x9F\x98\x80 \xFF\xC3 \xED\xA0\x80.");
    ASSERT_WRITES("\"caf\xC3\xA9 \xF0\x9F\x98\x80 \xEF\xBF\xBD\xEF\xBF\xBD "
                  "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD.\"");
}

static void keys_are_escaped_too(void **state)
{
    fixture made;
    (void)state;
    begin(&made);
    vw__json_begin_object(&made.json, NULL);
    vw__json_text(&made.json, "a\"\n", "");
    vw__json_end_object(&made.json);
    ASSERT_WRITES("{\"a\\\"\\n\": \"\"}");
}

static void what_is_not_known_is_null(void **state)
{
    fixture made;
    (void)state;
    begin(&made);
    vw__json_begin_array(&made.json, NULL);
    vw__json_text(&made.json, NULL, NULL);
    vw__json_known(&made.json, NULL, UINT64_MAX);
    vw__json_known(&made.json, NULL, UINT64_MAX - 1);
    vw__json_double(&made.json, NULL, (double)NAN);
    vw__json_double(&made.json, NULL, (double)-INFINITY);
    vw__json_end_array(&made.json);
    ASSERT_WRITES("[null, null, 18446744073709551614, null, null]");
}

static void integers_keep_every_bit(void **state)
{
    fixture made;
    (void)state;
    begin(&made);
    vw__json_begin_array(&made.json, NULL);
    vw__json_unsigned(&made.json, NULL, UINT64_MAX);
    vw__json_integer(&made.json, NULL, INT64_MIN);
    vw__json_unsigned(&made.json, NULL, 0);
    vw__json_end_array(&made.json);
    ASSERT_WRITES("[18446744073709551615, -9223372036854775808, 0]");
}

static void doubles_read_back_as_the_same_number(void **state)
{
    static const double numbers[] = {0,        -0.0,      1,       0.1,
                                     1.0 / 3,  1e300,     5e-324,  1e21,
                                     123.456,  1.0714285, -2.5e-9, 9007199254740993.0,
                                     0.1 + 0.2};
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        fixture made;
        begin(&made);
        vw__json_double(&made.json, NULL, numbers[i]);
        double again = strtod(vw__byte_buffer_text(&made.buffer), NULL);
        assert_memory_equal(&again, &numbers[i], sizeof again);
        vw__byte_buffer_deinit(&made.buffer);
    }
}

static void doubles_are_as_short_as_they_can_be(void **state)
{
    fixture made;
    (void)state;
    begin(&made);
    vw__json_begin_array(&made.json, NULL);
    vw__json_double(&made.json, NULL, 0.1);
    vw__json_double(&made.json, NULL, 1.5);
    vw__json_double(&made.json, NULL, 3);
    vw__json_end_array(&made.json);
    ASSERT_WRITES("[0.1, 1.5, 3]");
}

static void the_decimal_point_is_a_point_in_every_locale(void **state)
{
    fixture made;
    (void)state;
    comma_locale_enter();
    begin(&made);
    vw__json_double(&made.json, NULL, 1.5e-7);
    comma_locale_leave();
    ASSERT_WRITES("1.5e-07");
}

static void nesting_too_deep_is_a_failure_and_no_overrun(void **state)
{
    fixture made;
    (void)state;
    begin(&made);
    for (int i = 0; i < VW__JSON_DEEPEST - 1; i++)
        vw__json_begin_array(&made.json, NULL);
    assert_false(vw__byte_buffer_has_failed(&made.buffer));
    for (int i = 0; i < 100; i++)
        vw__json_begin_array(&made.json, NULL);
    assert_true(vw__byte_buffer_has_failed(&made.buffer));
    for (int i = 0; i < 200; i++)
        vw__json_end_array(&made.json);
    vw__byte_buffer_deinit(&made.buffer);
}

static bool write_something(void *context)
{
    fixture made;
    (void)context;
    begin(&made);
    vw__json_begin_array(&made.json, NULL);
    for (int i = 0; i < 200; i++)
        vw__json_text(&made.json, NULL, "a line \n that is escaped");
    vw__json_end_array(&made.json);
    bool has_succeeded = !vw__byte_buffer_has_failed(&made.buffer);
    vw__byte_buffer_deinit(&made.buffer);
    return has_succeeded;
}

static void running_out_of_host_memory_is_noticed_and_nothing_leaks(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(write_something, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_stand_between_values_only),
        cmocka_unit_test(strings_are_escaped_where_they_must_be),
        cmocka_unit_test(characters_that_steer_are_escaped),
        cmocka_unit_test(characters_beyond_ascii_stay_and_bytes_that_are_none_are_replaced),
        cmocka_unit_test(keys_are_escaped_too),
        cmocka_unit_test(what_is_not_known_is_null),
        cmocka_unit_test(integers_keep_every_bit),
        cmocka_unit_test(doubles_read_back_as_the_same_number),
        cmocka_unit_test(doubles_are_as_short_as_they_can_be),
        cmocka_unit_test(the_decimal_point_is_a_point_in_every_locale),
        cmocka_unit_test(nesting_too_deep_is_a_failure_and_no_overrun),
        cmocka_unit_test(running_out_of_host_memory_is_noticed_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
