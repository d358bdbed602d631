/* test_utf8.c - what is a character, and what is not. */
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"

static uint32_t first_of(const char *text, size_t *length)
{
    uint32_t character = 0;
    *length = vw__utf8_next(text, strlen(text), &character);
    return character;
}

#define ASSERT_READS(text, expected, expected_length)                                              \
    do {                                                                                           \
        size_t length;                                                                             \
        assert_int_equal(first_of(text, &length), expected);                                       \
        assert_int_equal(length, expected_length);                                                 \
    } while (0)

static void characters_of_each_length_are_read_at_their_edges(void **state)
{
    (void)state;
    ASSERT_READS("a", 'a', 1);
    ASSERT_READS("\x7F", 0x7F, 1);
    ASSERT_READS("\xC2\x80", 0x80, 2);
    ASSERT_READS("\xDF\xBF", 0x7FF, 2);
    ASSERT_READS("\xE0\xA0\x80", 0x800, 3);
    ASSERT_READS("\xED\x9F\xBF", 0xD7FF, 3);
    ASSERT_READS("\xEE\x80\x80", 0xE000, 3);
    ASSERT_READS("\xF0\x90\x80\x80", 0x10000, 4);
    ASSERT_READS("\xF4\x8F\xBF\xBF", 0x10FFFF, 4);
}

static void what_is_no_character_takes_one_byte(void **state)
{
    static const char *const bad[] = {
        "\x80",             /* a continuation alone */
        "\xC0\x80",         /* zero in two bytes */
        "\xC1\xBF",         /* overlong */
        "\xE0\x9F\xBF",     /* overlong */
        "\xED\xA0\x80",     /* half of a surrogate pair */
        "\xF0\x8F\xBF\xBF", /* overlong */
        "\xF4\x90\x80\x80", /* past the last */
        "\xF5\x80\x80\x80",
        "\xFF",
        "\xC3(",
        "\xE2\x82(",
        "\xF0\x9F\x98(",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ASSERT_READS(bad[i], VW__UTF8_INVALID, 1);
}

static void a_character_cut_short_is_none_and_nothing_behind_it_is_read(void **state)
{
    uint32_t character = 0;
    (void)state;
    for (size_t size = 1; size < 4; size++) {
        char *exact = malloc(size); /* so that a sanitizer sees a read past it */
        assert_non_null(exact);
        memcpy(exact, "\xF0\x9F\x98\x80", size);
        assert_int_equal(vw__utf8_next(exact, size, &character), 1);
        assert_int_equal(character, VW__UTF8_INVALID);
        free(exact);
    }
}

static void nothing_is_no_character(void **state)
{
    uint32_t character = 77;
    (void)state;
    assert_int_equal(vw__utf8_next("a", 0, &character), 0);
    assert_int_equal(character, 77);
}

static void controls_and_what_hides_or_turns_text_steers(void **state)
{
    (void)state;
    static const uint32_t steering[] = {0,      0x1B,    0x1F,    0x7F,   0x80,   0x9F,
                                        0x61C,  0x200B,  0x200F,  0x2028, 0x202E, 0x2066,
                                        0xFEFF, 0xE0000, 0xE0041, 0xE0FFF};
    static const uint32_t plain[] = {' ',    '~',    0xA0,    0xE9,    0x2010, 0x2027,
                                     0x202F, 0x4E00, 0x1F600, 0xDFFFD, 0xE1000};
    for (size_t i = 0; i < sizeof steering / sizeof *steering; i++)
        assert_true(vw__utf8_is_steering(steering[i]));
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        assert_false(vw__utf8_is_steering(plain[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_of_each_length_are_read_at_their_edges),
        cmocka_unit_test(what_is_no_character_takes_one_byte),
        cmocka_unit_test(a_character_cut_short_is_none_and_nothing_behind_it_is_read),
        cmocka_unit_test(nothing_is_no_character),
        cmocka_unit_test(controls_and_what_hides_or_turns_text_steers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
