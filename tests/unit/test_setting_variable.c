/* test_setting_variable.c - which environment variable a remedy names. */
#include "settings/setting_variable.h"

#include "support/cmocka_here.h"

#define OLD_NAME "PYTORCH_CUDA_ALLOC_CONF"
#define NEW_NAME "PYTORCH_ALLOC_CONF"

static void versions_are_read(void **state)
{
    static const struct {
        const char *text;
        unsigned version;
    } rows[] = {{"2.9", 209},        {"2.10", 210},
                {"2.13", 213},       {"1.13", 113},
                {"2.10.0a0", 210},   {"2.8.0+nv25.6", 208},
                {NULL, 0},           {"", 0},
                {"two.ten", 0},      {"2", 0},
                {"2.", 0},           {"999999999999.1", 0},
                {"2.99999999999", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(vw__setting_version(rows[i].text), rows[i].version);
}

static void the_message_comes_first_then_the_version(void **state)
{
    static const struct {
        const char *named, *version;
        bool is_old_set;
        const char *expected;
    } rows[] = {
        /* what the message names, whatever else is known */
        {OLD_NAME, NULL, false, OLD_NAME},
        {OLD_NAME, "2.13", false, OLD_NAME},
        {NEW_NAME, NULL, false, NEW_NAME},
        {NEW_NAME, "2.10", true, NEW_NAME},
        {"PYTORCH_HIP_ALLOC_CONF", "2.12", false, "PYTORCH_HIP_ALLOC_CONF"},
        /* up to 2.9 CUDA reads only the old one */
        {NULL, "1.13", false, OLD_NAME},
        {NULL, "2.4", false, OLD_NAME},
        {NULL, "2.9", false, OLD_NAME},
        /* from 2.10 on the old one is deprecated, and wins where it is set */
        {NULL, "2.10", false, NEW_NAME},
        {NULL, "2.10", true, OLD_NAME},
        {NULL, "2.15", false, NEW_NAME},
        {NULL, "2.15", true, OLD_NAME},
        /* every version reads the old one */
        {NULL, NULL, false, OLD_NAME},
        {NULL, NULL, true, OLD_NAME},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(vw__setting_variable(rows[i].named,
                                                 vw__setting_version(rows[i].version),
                                                 rows[i].is_old_set),
                            rows[i].expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_read),
        cmocka_unit_test(the_message_comes_first_then_the_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
