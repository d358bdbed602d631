/* test_plan_changes.c - what differs between two settings, in words. */
#include <string.h>

#include "vramwise/plan.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/zoo_models.h"

typedef struct question {
    const vw_plan_model *model;
    vw_plan_settings from, to;
} question;

static question ask_of(const char *name)
{
    question made = {.model = zoo_model(name)};
    vw_plan_settings_init(&made.from);
    made.from.batch = 8;
    made.from.sequence = 256;
    made.to = made.from;
    return made;
}

static void each_change_has_its_name_cost_and_code(void **state)
{
    (void)state;
    question asked = ask_of("gpt2");
    vw_plan_changes *changes = NULL;
    asked.to.checkpointing = VW_CHECKPOINTING_FULL;
    asked.to.batch = 1;
    asked.to.accumulation = 8;
    assert_int_equal(vw_plan_changes_make(asked.model, &asked.from, &asked.to, &changes), VW_OK);
    assert_int_equal(changes->count, 2);
    assert_string_equal(changes->changes[0].name, "micro-batch 1 with 8 accumulated");
    assert_non_null(strstr(changes->changes[0].code, "(model(**batch).loss / 8).backward()"));
    assert_string_equal(changes->changes[1].name, "full checkpointing");
    assert_non_null(strstr(changes->changes[1].cost, "about 30 % more time"));
    vw_plan_changes_free(changes);
}

static void settings_that_are_the_same_have_none(void **state)
{
    (void)state;
    question asked = ask_of("gpt2");
    vw_plan_changes *changes = NULL;
    assert_int_equal(vw_plan_changes_make(asked.model, &asked.from, &asked.to, &changes), VW_OK);
    assert_int_equal(changes->count, 0);
    vw_plan_changes_free(changes);
    vw_plan_changes_free(NULL);
}

static void a_change_that_saves_nothing_is_refused_by_name(void **state)
{
    (void)state;
    question asked = ask_of("gpt2");
    vw_plan_changes *changes = NULL;
    asked.from.precision = VW_PRECISION_BF16;
    asked.to.precision = VW_PRECISION_FP32;
    assert_int_equal(vw_plan_changes_make(asked.model, &asked.from, &asked.to, &changes),
                     VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "precision fp32"));
    assert_null(changes);
}

static bool make_changes(void *context)
{
    const question *asked = context;
    vw_plan_changes *changes = NULL;
    vw_status status = vw_plan_changes_make(asked->model, &asked->from, &asked->to, &changes);
    vw_plan_changes_free(changes);
    return status == VW_OK;
}

static void host_memory_may_run_out_at_any_moment(void **state)
{
    (void)state;
    question asked = ask_of("gpt2");
    asked.to.loss_chunks = 8;
    vw_test_sweep_host_memory(make_changes, &asked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_change_has_its_name_cost_and_code),
        cmocka_unit_test(settings_that_are_the_same_have_none),
        cmocka_unit_test(a_change_that_saves_nothing_is_refused_by_name),
        cmocka_unit_test(host_memory_may_run_out_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, close_zoo_models);
}
