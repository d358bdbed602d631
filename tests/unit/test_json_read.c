/* test_json_read.c - JSON becomes the values it says, and what is no JSON is refused with its
 * place. */
#include "parse/json_read.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "base/host_memory.h"

typedef struct parsed {
    vw__document *document;
    vw__value root;
} parsed;

static vw_status parse(const char *text, size_t size_bytes, parsed *out)
{
    const vw__document_limits limits = {.memory_bytes = 16 << 20};
    vw__byte_source *source;
    vw_status status = vw__byte_source_open_memory(text, size_bytes, NULL, &source);
    if (status != VW_OK)
        return status;
    status = vw__document_create(&limits, NULL, &out->document);
    if (status == VW_OK) {
        status = vw__document_read_json(source, out->document, &out->root);
        if (status != VW_OK)
            vw__document_destroy(out->document);
    }
    vw__byte_source_close(source);
    return status;
}

static parsed value_of(const char *text)
{
    parsed result = {NULL, 0};
    if (parse(text, strlen(text), &result) != VW_OK)
        fail_msg("%s: %s", text, vw_last_error());
    return result;
}

static void assert_kind(const char *text, vw__value_kind kind)
{
    parsed result = value_of(text);
    assert_int_equal(vw__value_get_kind(result.root), kind);
    vw__document_destroy(result.document);
}

static void assert_string(const char *text, const char *expected, size_t expected_bytes)
{
    parsed result = value_of(text);
    size_t size_bytes = 0;
    assert_int_equal(vw__value_get_kind(result.root), VW__VALUE_STRING);
    const char *string = vw__value_string(result.document, result.root, &size_bytes);
    assert_int_equal(size_bytes, expected_bytes);
    assert_memory_equal(string, expected, expected_bytes);
    vw__document_destroy(result.document);
}

static void assert_float(const char *text, double expected)
{
    parsed result = value_of(text);
    double number = -1;
    assert_int_equal(vw__value_get_kind(result.root), VW__VALUE_FLOAT);
    assert_true(vw__value_get_f64(result.document, result.root, &number));
    if (number != expected)
        fail_msg("%s is %.17g, not %.17g", text, number, expected);
    vw__document_destroy(result.document);
}

static void assert_refused(const char *text, size_t size_bytes, vw_status expected,
                           const char *words)
{
    parsed result;
    assert_int_equal(parse(text, size_bytes, &result), expected);
    if (strstr(vw_last_error(), words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", vw_last_error(), words);
}

/* ---- what is read ---------------------------------------------------------------------------- */

static void words_and_empty_containers_are_what_they_say(void **state)
{
    (void)state;
    assert_kind("null", VW__VALUE_NONE);
    assert_kind(" true\n", VW__VALUE_TRUE);
    assert_kind("\tfalse\r\n", VW__VALUE_FALSE);
    assert_kind("[]", VW__VALUE_LIST);
    assert_kind("[ ]", VW__VALUE_LIST);
    assert_kind("{}", VW__VALUE_DICT);
    assert_kind("\xEF\xBB\xBF{ }", VW__VALUE_DICT);
}

static void integers_are_exact_up_to_64_bits_and_huge_beyond(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bits;
        bool is_signed;
    } cases[] = {
        {"0", 0, false},
        {"-0", 0, false},
        {"9007199254740993", UINT64_C(9007199254740993), false},
        {"9223372036854775807", INT64_MAX, false},
        {"9223372036854775808", UINT64_C(1) << 63, false},
        {"18446744073709551615", UINT64_MAX, false},
        {"-1", UINT64_MAX, true},
        {"-9223372036854775808", UINT64_C(1) << 63, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parsed result = value_of(cases[i].text);
        uint64_t number = 7;
        int64_t signed_number = 7;
        if (cases[i].is_signed) {
            assert_true(vw__value_get_i64(result.document, result.root, &signed_number));
            number = (uint64_t)signed_number;
        } else {
            assert_true(vw__value_get_u64(result.document, result.root, &number));
        }
        assert_true(number == cases[i].bits);
        vw__document_destroy(result.document);
    }
    assert_kind("18446744073709551616", VW__VALUE_HUGE);
    assert_kind("-9223372036854775809", VW__VALUE_HUGE);
    assert_kind("123456789012345678901234567890", VW__VALUE_HUGE);
}

static void floats_are_those_that_the_compiler_makes_of_the_same_text(void **state)
{
    (void)state;
    assert_float("0.6", 0.6);
    assert_float("-0.25", -0.25);
    assert_float("1e0", 1.0);
    assert_float("1.5E+3", 1500.0);
    assert_float("3.14159265358979", 3.14159265358979);
    assert_float("0.000001", 0.000001);
    assert_float("1e22", 1e22);
    assert_float("1E-7", 1e-7);
    assert_float("0e99999999999999999999", 0.0);
    assert_float("1e400", __builtin_inf());
    assert_float("1e-400", 0.0);
}

static void strings_keep_their_bytes_and_escapes_become_utf8(void **state)
{
    (void)state;
    assert_string("\"\"", "", 0);
    assert_string("\"train.py\"", "train.py", 8);
    assert_string("\"a\\\"\\\\\\/\\b\\f\\n\\r\\tz\"", "a\"\\/\b\f\n\r\tz", 10);
    assert_string("\"\\u0041\\u00e9\\u20AC\"", "A\xC3\xA9\xE2\x82\xAC", 6);
    assert_string("\"\\ud83d\\ude00\"", "\xF0\x9F\x98\x80", 4);
    assert_string("\"a\\u0000b\"", "a\0b", 3);
    assert_string("\"\xC3\xA9\xFF\"", "\xC3\xA9\xFF", 3); /* passed on as they are */
}

static void half_a_pair_becomes_a_replacement_character(void **state)
{
    (void)state;
    assert_string("\"\\ud83d\"", "\xEF\xBF\xBD", 3);
    assert_string("\"\\ude00x\"", "\xEF\xBF\xBDx", 4);
    assert_string("\"\\ud83dx\"", "\xEF\xBF\xBDx", 4);
    assert_string("\"\\ud83d\\n\"", "\xEF\xBF\xBD\n", 4);
    assert_string("\"\\ud83d\\u0041\"",
                  "\xEF\xBF\xBD"
                  "A",
                  4);
    assert_string("\"\\ud83d\\ud83d\\ude00\"", "\xEF\xBF\xBD\xF0\x9F\x98\x80", 7);
}

static void containers_keep_their_order(void **state)
{
    (void)state;
    parsed result = value_of("{\"b\": [1, [2], {\"x\": 3}], \"a\": null}");
    size_t pair_count = 0, size_bytes = 0;
    const vw__value *pairs = vw__value_pairs(result.document, result.root, &pair_count);
    assert_int_equal(pair_count, 2);
    assert_string_equal(vw__value_string(result.document, pairs[0], &size_bytes), "b");
    assert_string_equal(vw__value_string(result.document, pairs[2], &size_bytes), "a");
    assert_int_equal(vw__value_item_count(result.document, pairs[1]), 3);
    uint64_t cursor = 0;
    int64_t number = 0;
    vw__value item;
    assert_true(vw__value_next_item(result.document, pairs[1], &cursor, &item));
    assert_true(vw__value_get_i64(result.document, item, &number));
    assert_int_equal(number, 1);
    assert_true(vw__value_next_item(result.document, pairs[1], &cursor, &item));
    assert_int_equal(vw__value_get_kind(item), VW__VALUE_LIST);
    assert_true(vw__value_next_item(result.document, pairs[1], &cursor, &item));
    assert_int_equal(vw__value_get_kind(item), VW__VALUE_DICT);
    assert_false(vw__value_next_item(result.document, pairs[1], &cursor, &item));
    vw__document_destroy(result.document);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void invalid_json_is_refused_with_line_and_column(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "line 1, column 1: expected a value, found the end of the file"},
        {"[1,\n 2,\n x]", "line 3, column 2: expected a value, found 'x'"},
        {"\xEF\xBB\xBF?", "line 1, column 1: expected a value, found '?'"},
        {"[1 2]", "column 4: expected ',' or ']' in an array, found '2'"},
        {"[1,]", "column 4: expected a value, found ']'"},
        {"[,]", "column 2: expected a value, found ','"},
        {"[", "found the end of the file"},
        {"{\"a\" 1}", "column 6: expected ':' after the name of a member, found '1'"},
        {"{\"a\": 1 \"b\"}", "expected ',' or '}' in an object"},
        {"{\"a\": 1,}", "expected a string as the name of a member, found '}'"},
        {"{1: 2}", "expected a string as the name of a member, found '1'"},
        {"{} {}", "column 4: expected the end of the file, found '{'"},
        {"nul", "expected null, found the end of the file"},
        {"trve", "expected true, found 'v'"},
        {"NaN", "expected a value, found 'N'"},
        {"01", "column 2: expected the end of the file, found '1'"},
        {"-", "expected a digit, found the end of the file"},
        {"+1", "expected a value, found '+'"},
        {"1.", "expected a digit, found the end of the file"},
        {".5", "expected a value, found '.'"},
        {"1e", "expected a digit"},
        {"1e+", "expected a digit"},
        {"\"abc", "expected the closing quote of a string, found the end of the file"},
        {"\"a\nb\"", "expected the closing quote of a string, found the byte 0x0a"},
        {"\"\\x\"", "after a backslash, found 'x'"},
        {"\"\\u12g4\"", "expected four hexadecimal digits after \\u, found 'g'"},
        {"\"\\u12", "expected four hexadecimal digits"},
        {"/* no */ 1", "found '/'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i][0], strlen(cases[i][0]), VW_ERR_CORRUPT_FILE, cases[i][1]);
    assert_refused("\0", 1, VW_ERR_CORRUPT_FILE, "found the byte 0x00");
    assert_refused("\"\\\0\"", 4, VW_ERR_CORRUPT_FILE, "after a backslash, found the byte 0x00");
}

static void nesting_beyond_the_limit_is_refused_and_up_to_it_read(void **state)
{
    (void)state;
    enum { MOST = 100000 };
    static char text[2 * MOST];
    memset(text, '[', MOST);
    assert_refused(text, MOST, VW_ERR_UNSUPPORTED, "nested more than 500 deep");
    memset(text + VW__DOCUMENT_JSON_DEEPEST, ']', VW__DOCUMENT_JSON_DEEPEST);
    parsed result;
    assert_int_equal(parse(text, 2 * VW__DOCUMENT_JSON_DEEPEST, &result), VW_OK);
    vw__document_destroy(result.document);
}

static void a_string_beyond_the_limit_is_refused(void **state)
{
    (void)state;
    size_t size_bytes = VW__DOCUMENT_JSON_STRING_BYTES + 100;
    char *text = malloc(size_bytes);
    assert_non_null(text);
    memset(text, 'x', size_bytes);
    text[0] = '"';
    assert_refused(text, size_bytes, VW_ERR_UNSUPPORTED, "a string of over");
    free(text);
}

static const char sample[] =
    "{\"segments\": [{\"a\": [1, -2.5e3, \"\\u20ac\\ud83d\\ude00\"], \"b\": {}}], \"c\": true,"
    " \"a long enough name to need memory of its own, whatever the arena has left by then\": null}";

static void a_text_cut_short_is_refused_at_every_length(void **state)
{
    (void)state;
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    for (size_t length = 0; length < sizeof sample - 1; length++)
        assert_refused(sample, length, VW_ERR_CORRUPT_FILE, "JSON, line 1, column");
    assert_int_equal(vw__host_memory_get_use().in_use_bytes, before_bytes);
}

static bool read_and_destroy(void *context)
{
    parsed result;
    if (parse(context, sizeof sample - 1, &result) != VW_OK)
        return false;
    vw__document_destroy(result.document);
    return true;
}

static void every_failing_allocation_is_survived_and_nothing_leaks(void **state)
{
    (void)state;
    char text[sizeof sample];
    memcpy(text, sample, sizeof text);
    vw_test_sweep_host_memory(read_and_destroy, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_empty_containers_are_what_they_say),
        cmocka_unit_test(integers_are_exact_up_to_64_bits_and_huge_beyond),
        cmocka_unit_test(floats_are_those_that_the_compiler_makes_of_the_same_text),
        cmocka_unit_test(strings_keep_their_bytes_and_escapes_become_utf8),
        cmocka_unit_test(half_a_pair_becomes_a_replacement_character),
        cmocka_unit_test(containers_keep_their_order),
        cmocka_unit_test(invalid_json_is_refused_with_line_and_column),
        cmocka_unit_test(nesting_beyond_the_limit_is_refused_and_up_to_it_read),
        cmocka_unit_test(a_string_beyond_the_limit_is_refused),
        cmocka_unit_test(a_text_cut_short_is_refused_at_every_length),
        cmocka_unit_test(every_failing_allocation_is_survived_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
