/* test_view_page.c - the built page, and data put into it. */
#include "view/view_page.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_buffer.h"
#include "support/cmocka_here.h"

static size_t count_in_page(const char *text)
{
    size_t page_bytes, count = 0;
    const char *page = vw__view_page(&page_bytes), *end = page + page_bytes;
    while ((page = memmem(page, (size_t)(end - page), text, strlen(text))) != NULL) {
        page += strlen(text);
        count++;
    }
    return count;
}

static void the_page_has_one_place_for_data_and_nothing_in_it(void **state)
{
    (void)state;
    assert_int_equal(count_in_page(VW__VIEW_DATA_TAG), 1);
    assert_int_equal(count_in_page(VW__VIEW_DATA_TAG "</script>"), 1);
    assert_int_equal(count_in_page("id=\"vramwise-data\""), 1);
}

static void the_page_says_what_it_may_load(void **state)
{
    (void)state;
    assert_int_equal(count_in_page("Content-Security-Policy"), 1);
    assert_int_equal(count_in_page("<!doctype html>"), 1);
}

static bool gather(void *context, const char *bytes, size_t size_bytes)
{
    vw__append_bytes(context, bytes, size_bytes);
    return true;
}

/* What stands in the place for data, as a string of its own. */
static char *data_in_page(const void *bytes, size_t size_bytes)
{
    vw__byte_buffer gathered;
    size_t page_bytes;
    const vw_output output = {&gathered, gather};
    vw__byte_buffer_init(&gathered);
    assert_int_equal(vw__view_page_write(bytes, size_bytes, &output), VW_OK);
    (void)vw__view_page(&page_bytes);
    assert_int_equal(gathered.size_bytes, page_bytes + (size_bytes + 2) / 3 * 4);
    const char *begin = strstr(vw__byte_buffer_text(&gathered), VW__VIEW_DATA_TAG);
    assert_non_null(begin);
    begin += strlen(VW__VIEW_DATA_TAG);
    const char *end = strstr(begin, "</script>");
    assert_non_null(end);
    char *data = strndup(begin, (size_t)(end - begin));
    vw__byte_buffer_deinit(&gathered);
    return data;
}

static void assert_encoded(const void *bytes, size_t size_bytes, const char *expected)
{
    char *data = data_in_page(bytes, size_bytes);
    assert_string_equal(data, expected);
    free(data);
}

/* The vectors of RFC 4648. */
static void data_is_written_as_base64(void **state)
{
    (void)state;
    assert_encoded(NULL, 0, "");
    assert_encoded("f", 1, "Zg==");
    assert_encoded("fo", 2, "Zm8=");
    assert_encoded("foo", 3, "Zm9v");
    assert_encoded("foob", 4, "Zm9vYg==");
    assert_encoded("fooba", 5, "Zm9vYmE=");
    assert_encoded("foobar", 6, "Zm9vYmFy");
    assert_encoded("\xff\xef\xbe\x00", 4, "/+++AA==");
}

static int value_of(char letter)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = strchr(alphabet, letter);
    assert_true(found != NULL && letter != '\0');
    return (int)(found - alphabet);
}

static void data_larger_than_any_buffer_comes_back(void **state)
{
    (void)state;
    enum { MANY = 30000 }; /* a multiple of three */
    uint8_t *bytes = malloc(MANY);
    srand(5);
    for (size_t i = 0; i < MANY; i++)
        bytes[i] = (uint8_t)rand();
    char *data = data_in_page(bytes, MANY);
    for (size_t i = 0; i < MANY / 3; i++) {
        int bits = 0;
        for (size_t k = 0; k < 4; k++)
            bits = bits << 6 | value_of(data[4 * i + k]);
        assert_int_equal(bits, bytes[3 * i] << 16 | bytes[3 * i + 1] << 8 | bytes[3 * i + 2]);
    }
    free(data);
    free(bytes);
}

static bool refuse_after(void *context, const char *bytes, size_t size_bytes)
{
    int *left = context;
    (void)bytes;
    (void)size_bytes;
    return (*left)-- > 0;
}

static void an_output_that_ends_it_is_a_failure(void **state)
{
    (void)state;
    for (int allowed = 0; allowed < 3; allowed++) {
        int left = allowed;
        const vw_output output = {&left, refuse_after};
        assert_int_equal(vw__view_page_write("foo", 3, &output), VW_ERR_FILE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_has_one_place_for_data_and_nothing_in_it),
        cmocka_unit_test(the_page_says_what_it_may_load),
        cmocka_unit_test(data_is_written_as_base64),
        cmocka_unit_test(data_larger_than_any_buffer_comes_back),
        cmocka_unit_test(an_output_that_ends_it_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
