/* test_live_fields.c - one list of fields, by number and by name. */
#include "vramwise/live.h"

#include <ctype.h>
#include <string.h>

#include "live/page_layout.h"
#include "support/cmocka_here.h"

static void every_field_is_found_by_its_name(void **state)
{
    (void)state;
    assert_int_equal(vw_live_field_count(), VW_LIVE_FIELD_COUNT);
    for (size_t i = 0; i < vw_live_field_count(); i++)
        assert_int_equal(vw_live_field_find(vw_live_field_name(i)), i);
}

/* Names become Prometheus' and JSON's. */
static void names_are_small_letters_and_helps_are_sentences(void **state)
{
    (void)state;
    for (size_t i = 0; i < vw_live_field_count(); i++) {
        const char *help = vw_live_field_help(i);
        for (const char *c = vw_live_field_name(i); *c != '\0'; c++)
            assert_true(islower((unsigned char)*c) || *c == '_');
        assert_true(isupper((unsigned char)help[0]) || isdigit((unsigned char)help[0]));
        assert_int_equal(help[strlen(help) - 1], '.');
        assert_null(strchr(help, '\n'));
    }
}

static void what_is_no_field_has_no_name(void **state)
{
    (void)state;
    assert_null(vw_live_field_name(VW_LIVE_FIELD_COUNT));
    assert_null(vw_live_field_help(VW_LIVE_FIELD_COUNT));
    assert_int_equal(vw_live_field_kind(VW_LIVE_FIELD_COUNT), VW_LIVE_GAUGE);
    assert_int_equal(vw_live_field_find("live_byte"), VW_LIVE_FIELD_COUNT);
    assert_int_equal(vw_live_field_find(""), VW_LIVE_FIELD_COUNT);
    assert_int_equal(vw_live_field_find(NULL), VW_LIVE_FIELD_COUNT);
}

static void kinds_are_as_listed(void **state)
{
    (void)state;
    assert_int_equal(vw_live_field_kind(VW_LIVE_LIVE_BYTES), VW_LIVE_GAUGE);
    assert_int_equal(vw_live_field_kind(VW_LIVE_ALLOCATIONS), VW_LIVE_COUNTER);
}

/* A place in a page is a promise to programs of other versions. */
static void fields_keep_their_places(void **state)
{
    (void)state;
    assert_int_equal(vw_live_field_find("live_bytes"), 0);
    assert_int_equal(vw_live_field_find("allocations"), 8);
    assert_int_equal(vw_live_field_find("steps"), 14);
    assert_int_equal(vw_live_field_find("spills"), 21);
    assert_int_equal(vw_live_field_find("launch_gate"), 22);
    assert_int_equal(offsetof(vw__page_slot, values), 11 * sizeof(uint64_t));
    assert_int_equal(VW__PAGE_VALUES, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_found_by_its_name),
        cmocka_unit_test(names_are_small_letters_and_helps_are_sentences),
        cmocka_unit_test(what_is_no_field_has_no_name),
        cmocka_unit_test(kinds_are_as_listed),
        cmocka_unit_test(fields_keep_their_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
