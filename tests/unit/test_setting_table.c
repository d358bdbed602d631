/* test_setting_table.c - one list of settings, and everybody's candidates come from it. */
#include "settings/setting_table.h"

#include <string.h>

#include "analysis/replay.h"
#include "plan/plan_device.h"
#include "support/cmocka_here.h"

static void every_row_is_a_policy_with_an_option_string(void **state)
{
    size_t count = 0;
    const vw__setting_row *rows = vw__setting_rows(&count);
    (void)state;
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        const vw__policy *policy = vw__policy_find(rows[i].policy);
        assert_non_null(policy);
        assert_non_null(vw__setting_conf(&rows[i]));
        assert_int_equal(rows[i].conf != NULL, strcmp(rows[i].policy, "conf") == 0);
        assert_int_equal(policy->engine != NULL, rows[i].kind == VW__SETTING_VRAMWISE);
        assert_true(rows[i].users != 0);
    }
}

static void no_row_says_the_same_as_another(void **state)
{
    size_t count = 0;
    const vw__setting_row *rows = vw__setting_rows(&count);
    (void)state;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++) {
            bool is_same = false;
            if (rows[i].conf == NULL || rows[j].conf == NULL)
                continue;
            assert_int_equal(vw__replay_same_settings("2.11", rows[i].conf, rows[j].conf, &is_same),
                             VW_OK);
            assert_false(is_same);
        }
}

static void the_newest_pytorch_takes_every_option(void **state)
{
    size_t count = 0;
    const vw__setting_row *rows = vw__setting_rows(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        bool is_default = true;
        if (vw__policy_is_vramwise(rows[i].policy))
            continue;
        assert_int_equal(
            vw__replay_same_settings("2.11", vw__setting_conf(&rows[i]), "", &is_default), VW_OK);
        assert_int_equal(is_default, rows[i].kind == VW__SETTING_DEFAULTS);
    }
}

static void the_planner_and_the_page_have_the_same_three(void **state)
{
    static const char *const names[VW__PLAN_POLICIES] = {"native", "expandable", "vramwise"};
    (void)state;
    for (size_t i = 0; i < VW__PLAN_POLICIES; i++) {
        assert_string_equal(vw__setting_row_for(VW__SETTING_FOR_PLAN, i)->policy, names[i]);
        assert_ptr_equal(vw__setting_row_for(VW__SETTING_FOR_VIEW, i),
                         vw__setting_row_for(VW__SETTING_FOR_PLAN, i));
    }
    assert_null(vw__setting_row_for(VW__SETTING_FOR_PLAN, VW__PLAN_POLICIES));
    assert_null(vw__setting_row_for(VW__SETTING_FOR_VIEW, VW__PLAN_POLICIES));
}

static void tune_tries_whatever_anybody_else_tries(void **state)
{
    const unsigned others = VW__SETTING_FOR_DOCTOR | VW__SETTING_FOR_DOCTOR_REFINED |
                            VW__SETTING_FOR_PLAN | VW__SETTING_FOR_VIEW |
                            VW__SETTING_FOR_TUNE_PAIRS;
    const vw__setting_row *row;
    (void)state;
    for (size_t i = 0; (row = vw__setting_row_for(others, i)) != NULL; i++)
        assert_true((row->users & VW__SETTING_FOR_TUNE) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_a_policy_with_an_option_string),
        cmocka_unit_test(no_row_says_the_same_as_another),
        cmocka_unit_test(the_newest_pytorch_takes_every_option),
        cmocka_unit_test(the_planner_and_the_page_have_the_same_three),
        cmocka_unit_test(tune_tries_whatever_anybody_else_tries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
