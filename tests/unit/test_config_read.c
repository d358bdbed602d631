/* test_config_read.c - fields by name, and the words for each that is not as it should be. */
#include "plan/config_read.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

static const char sample[] =
    "{\"layers\": 12, \"wide\": 8.0, \"half\": 0.5, \"below\": -1, \"huge\": 1000000000000,"
    " \"beyond\": 1e300, \"long\": 99999999999999999999999, \"text\": \"gelu\", \"yes\": true,"
    " \"none\": null, \"list\": [1, 2, 3], \"names\": [\"first\"], \"steered\": \"a\\u001b[2Jb\","
    " \"cut\": \"a\\u0000b\", \"twice\": 1, \"twice\": 2, \"inside\": {\"deep\": \"x\"},"
    " \"items\": [{\"a\": 1}, {\"a\": 2}, 3]}";

static vw__config_file *file;
static vw__config config;

static int open_sample(void **state)
{
    (void)state;
    if (vw__config_open_memory(sample, sizeof sample - 1, &file) != VW_OK)
        return -1;
    config = vw__config_root(file);
    return 0;
}

static int close_sample(void **state)
{
    (void)state;
    vw__config_close(file);
    return 0;
}

static void numbers_are_whole_and_within_limits(void **state)
{
    uint64_t number = 77;
    (void)state;
    assert_int_equal(vw__config_number(&config, "layers", 1, 100, &number), VW_OK);
    assert_int_equal(number, 12);
    assert_int_equal(vw__config_number(&config, "wide", 1, 100, &number), VW_OK);
    assert_int_equal(number, 8);
    assert_int_equal(vw__config_number(&config, "twice", 1, 100, &number), VW_OK);
    assert_int_equal(number, 2); /* the last one counts */
}

typedef struct refusal {
    const char *name;
    vw_status status;
    const char *words;
} refusal;

static void what_is_no_such_number_is_named_with_what_was_found(void **state)
{
    static const refusal refusals[] = {
        {"half", VW_ERR_UNSUPPORTED, "half: expected a whole number from 1 to 100, found 0.5"},
        {"below", VW_ERR_UNSUPPORTED, "below: expected a whole number from 1 to 100, found -1"},
        {"huge", VW_ERR_UNSUPPORTED,
         "huge: expected a whole number from 1 to 100, found 1000000000000"},
        {"beyond", VW_ERR_UNSUPPORTED, "found 1e+300"},
        {"long", VW_ERR_UNSUPPORTED, "long: expected a whole number from 1 to 100, found"},
        {"text", VW_ERR_CORRUPT_FILE, "found \"gelu\""},
        {"yes", VW_ERR_CORRUPT_FILE, "found true"},
        {"list", VW_ERR_CORRUPT_FILE, "found a list"},
        {"none", VW_ERR_CORRUPT_FILE, "none is missing: expected a whole number from 1 to 100"},
        {"nowhere", VW_ERR_CORRUPT_FILE, "nowhere is missing"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        uint64_t number = 77;
        assert_int_equal(vw__config_number(&config, refusals[i].name, 1, 100, &number),
                         refusals[i].status);
        assert_non_null(strstr(vw_last_error(), refusals[i].words));
        assert_int_equal(number, 77);
    }
}

static void what_may_be_missing_leaves_the_default(void **state)
{
    uint64_t number = 77;
    double real = 0.25;
    bool is_true = true;
    const char *text = "as before";
    (void)state;
    assert_int_equal(vw__config_number_if(&config, "nowhere", 1, 2, &number), VW_OK);
    assert_int_equal(vw__config_number_if(&config, "none", 1, 2, &number), VW_OK);
    assert_int_equal(vw__config_real_if(&config, "none", 0, 1, &real), VW_OK);
    assert_int_equal(vw__config_boolean_if(&config, "none", &is_true), VW_OK);
    assert_int_equal(vw__config_text_if(&config, "none", &text), VW_OK);
    assert_int_equal(number, 77);
    assert_true(real == 0.25 && is_true);
    assert_string_equal(text, "as before");
    assert_true(vw__config_is_null(&config, "none"));
    assert_false(vw__config_is_null(&config, "nowhere"));
    assert_false(vw__config_has(&config, "none"));
}

static void reals_booleans_and_texts_are_of_their_kind(void **state)
{
    double real = 0;
    bool is_true = false;
    const char *text = NULL;
    (void)state;
    assert_int_equal(vw__config_real_if(&config, "half", 0, 1, &real), VW_OK);
    assert_true(real == 0.5);
    assert_int_equal(vw__config_real_if(&config, "layers", 0, 1, &real), VW_ERR_UNSUPPORTED);
    assert_int_equal(vw__config_real_if(&config, "text", 0, 1, &real), VW_ERR_CORRUPT_FILE);
    assert_int_equal(vw__config_boolean_if(&config, "yes", &is_true), VW_OK);
    assert_true(is_true);
    assert_int_equal(vw__config_boolean_if(&config, "layers", &is_true), VW_ERR_CORRUPT_FILE);
    assert_int_equal(vw__config_text_if(&config, "text", &text), VW_OK);
    assert_string_equal(text, "gelu");
    assert_int_equal(vw__config_text_if(&config, "layers", &text), VW_ERR_CORRUPT_FILE);
    assert_int_equal(vw__config_text_if(&config, "cut", &text), VW_ERR_CORRUPT_FILE);
    assert_int_equal(vw__config_text_if(&config, "nowhere", &text), VW_OK); /* left as it was */
    assert_string_equal(text, "gelu");
}

static void a_word_is_one_of_those_that_are_known(void **state)
{
    static const char *const names[] = {"relu", "gelu"};
    static const char *const others[] = {"relu", "gelu_new", "silu"};
    size_t place = 77;
    (void)state;
    assert_int_equal(vw__config_choice(&config, "text", names, 2, &place), VW_OK);
    assert_int_equal(place, 1);
    assert_int_equal(vw__config_choice(&config, "text", others, 3, &place), VW_ERR_UNSUPPORTED);
    assert_string_equal(vw_last_error(), "text: expected one of relu, gelu_new, silu (perhaps "
                                         "relu), found \"gelu\"");
    assert_int_equal(vw__config_choice(&config, "nowhere", names, 2, &place), VW_ERR_CORRUPT_FILE);
    assert_int_equal(place, 1);
}

static void what_is_quoted_cannot_steer_a_terminal(void **state)
{
    uint64_t number;
    (void)state;
    assert_int_equal(vw__config_number(&config, "steered", 1, 2, &number), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "found \"a?[2Jb\""));
}

static void lists_and_objects_are_walked_with_their_place_in_messages(void **state)
{
    uint64_t cursor = 0, numbers[3], a = 0;
    size_t count = 0;
    bool is_there = false;
    vw__config inside;
    (void)state;
    assert_int_equal(vw__config_numbers(&config, "list", 1, 9, 3, numbers, &count), VW_OK);
    assert_int_equal(count, 3);
    assert_int_equal(numbers[2], 3);
    assert_int_equal(vw__config_numbers(&config, "list", 1, 9, 2, numbers, &count),
                     VW_ERR_UNSUPPORTED);
    assert_int_equal(vw__config_count(&config, "inside"), 1);
    assert_string_equal(vw__config_first_text(&config, "names"), "first");
    assert_null(vw__config_first_text(&config, "list"));
    assert_int_equal(vw__config_object(&config, "inside", &inside), VW_OK);
    assert_int_equal(vw__config_number(&inside, "other", 1, 9, &a), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "inside.other is missing"));
    for (uint64_t i = 1; i <= 2; i++) {
        assert_int_equal(vw__config_next_object(&config, "items", &cursor, &inside, &is_there),
                         VW_OK);
        assert_true(is_there);
        assert_int_equal(vw__config_number(&inside, "a", 1, 9, &a), VW_OK);
        assert_int_equal(a, i);
    }
    assert_int_equal(vw__config_next_object(&config, "items", &cursor, &inside, &is_there),
                     VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "items[2]: expected an object, found 3"));
    assert_int_equal(vw__config_next_object(&config, "items", &cursor, &inside, &is_there), VW_OK);
    assert_false(is_there);
}

static void what_is_no_object_is_refused(void **state)
{
    static const char *const texts[] = {"[]", "3", "\"config\"", "null"};
    vw__config_file *other;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(vw__config_open_memory(texts[i], strlen(texts[i]), &other),
                         VW_ERR_CORRUPT_FILE);
        assert_non_null(strstr(vw_last_error(), "expected an object"));
    }
    assert_int_equal(vw__config_open_memory("{\"a\": ", 6, &other), VW_ERR_CORRUPT_FILE);
    assert_int_equal(vw__config_open("/nowhere/config.json", &other), VW_ERR_FILE);
}

static bool open_and_close(void *context)
{
    vw__config_file *other;
    (void)context;
    if (vw__config_open_memory(sample, sizeof sample - 1, &other) != VW_OK)
        return false;
    vw__config_close(other);
    return true;
}

static void every_refused_allocation_is_a_status(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(open_and_close, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_whole_and_within_limits),
        cmocka_unit_test(what_is_no_such_number_is_named_with_what_was_found),
        cmocka_unit_test(what_may_be_missing_leaves_the_default),
        cmocka_unit_test(reals_booleans_and_texts_are_of_their_kind),
        cmocka_unit_test(a_word_is_one_of_those_that_are_known),
        cmocka_unit_test(what_is_quoted_cannot_steer_a_terminal),
        cmocka_unit_test(lists_and_objects_are_walked_with_their_place_in_messages),
        cmocka_unit_test(what_is_no_object_is_refused),
        cmocka_unit_test(every_refused_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, open_sample, close_sample);
}
