/* test_run_leak.c - whether there are pages to look at: by the library's own rule for them. */
#include "cli/run_leak.h"

#include <stdlib.h>

#include "vramwise/live.h"

#include "support/cmocka_here.h"

/* NULL: not set. */
static bool has_pages(const char *live, const char *disable)
{
    run_folder folder = {.path = "/nowhere"};
    run_leak guard;
    (void)(live != NULL ? setenv("VRAMWISE_LIVE", live, 1) : unsetenv("VRAMWISE_LIVE"));
    (void)(disable != NULL ? setenv("VRAMWISE_DISABLE", disable, 1) : unsetenv("VRAMWISE_DISABLE"));
    run_leak_begin(&guard, RUN_LEAK_WARN, &folder);
    assert_int_equal(guard.has_pages, vw_live_is_wanted());
    assert_int_equal(guard.stage, guard.has_pages ? RUN_LEAK_LOOKING : RUN_LEAK_TOLD);
    return guard.has_pages;
}

static void pages_are_looked_at_where_processes_have_them(void **state)
{
    (void)state;
    assert_true(has_pages(NULL, NULL));
    assert_true(has_pages("1", "0"));
    assert_true(has_pages("", ""));
}

static void where_they_are_switched_off_there_is_nothing_to_look_at(void **state)
{
    (void)state;
    assert_false(has_pages("0", NULL));
    assert_false(has_pages(NULL, "1"));
    assert_false(has_pages("1", "1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_looked_at_where_processes_have_them),
        cmocka_unit_test(where_they_are_switched_off_there_is_nothing_to_look_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
