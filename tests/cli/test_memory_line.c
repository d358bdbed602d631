/* test_memory_line.c - lines of known points, character by character. */
#include "cli/memory_line.h"

#include <string.h>

#include "support/cmocka_here.h"

static char *drawn(const uint64_t *points, size_t point_count, uint64_t top_bytes, bool has_utf8)
{
    static char text[256];
    FILE *to = fmemopen(text, sizeof text, "w");
    assert_non_null(to);
    text[0] = '\0'; /* for what writes nothing */
    memory_line_draw(points, point_count, top_bytes, has_utf8, to);
    assert_int_equal(fclose(to), 0);
    return text;
}

static void every_height_has_its_character(void **state)
{
    (void)state;
    const uint64_t points[] = {0, 99, 100, 200, 300, 400, 500, 600, 700, 799, 800};
    assert_string_equal(drawn(points, 11, 800, false), " _.-:=+*###");
    assert_string_equal(drawn(points, 11, 800, true), " ▁▂▃▄▅▆▇███");
}

static void a_little_shows_and_too_much_stays_within(void **state)
{
    (void)state;
    const uint64_t points[] = {1, UINT64_MAX, 0};
    assert_string_equal(drawn(points, 3, UINT64_C(1) << 40, false), "_# ");
    assert_string_equal(drawn(points, 3, 0, false), "## ");
    assert_string_equal(drawn(points, 0, 800, false), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_height_has_its_character),
        cmocka_unit_test(a_little_shows_and_too_much_stays_within),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
