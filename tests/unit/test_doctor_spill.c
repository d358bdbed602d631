/* test_doctor_spill.c - the words of a remedy that moves memory to the host's. What the trial comes
 * to is in tests/cli/cases/doctor_spill.case, on a recording. */
#include "doctor/spill.h"

#include <string.h>

#include "vramwise/analysis.h"
#include "support/cmocka_here.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static void the_words_say_what_is_known(void **state)
{
    (void)state;
    vw__diagnosis_draft draft;
    vw__doctor_spill_trial trial = {.step_cost_ns = 22900000, .step_ns = VW_UNKNOWN};
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    assert_string_equal(vw__doctor_spill_how(&draft, 300 * MIB, false),
                        "vramwise run --allocator vramwise --spill 512MiB -- python train.py");
    assert_string_equal(vw__doctor_spill_how(&draft, 16 * GIB, false),
                        "vramwise run --allocator vramwise --spill 16GiB -- python train.py");
    trial.spilled_bytes = 949 * MIB;
    assert_non_null(
        strstr(vw__doctor_spill_action(&draft, &trial), "let 949 MiB go to host memory"));
    const char *cost = vw__doctor_spill_cost(&draft, &trial);
    assert_non_null(strstr(cost, "about 22.9 ms more a step, if "));
    assert_null(strstr(cost, "moving"));
    trial.step_ns = 229000000;
    trial.move_ns = 460000000;
    cost = vw__doctor_spill_cost(&draft, &trial);
    assert_non_null(strstr(cost, "about 22.9 ms more a step (10 %), if "));
    assert_non_null(strstr(cost, "; 460 ms of moving over the run; "));
    trial.step_cost_ns = 2400000;
    trial.move_ns = 1500000000;
    cost = vw__doctor_spill_cost(&draft, &trial);
    assert_non_null(strstr(cost, "about 2.40 ms more a step (1.0 %), if "));
    assert_non_null(strstr(cost, "; 1.50 s of moving over the run; "));
    trial.is_with_moves = true;
    trial.move_ns = 0;
    cost = vw__doctor_spill_cost(&draft, &trial);
    assert_non_null(strstr(cost, "about 2.40 ms more a step (1.0 %), moving included, if "));
    assert_null(strstr(cost, "over the run"));
    vw__diagnosis_deinit(&draft);
}

static void the_words_of_streams_are_others(void **state)
{
    (void)state;
    vw__diagnosis_draft draft;
    const vw__doctor_spill_trial trial = {
        .has_streams = true,
        .is_with_moves = true,
        .spill_bytes = 2 * GIB,
        .spilled_bytes = 1600 * MIB,
        .step_cost_ns = 4800000,
        .step_ns = 120000000,
    };
    vw__diagnosis_init(&draft, VW_SOURCE_RECORDING);
    assert_string_equal(
        vw__doctor_spill_how_of(&draft, &trial),
        "vramwise run --allocator vramwise --spill 2GiB --stream -- python train.py");
    assert_non_null(strstr(vw__doctor_spill_action(&draft, &trial), "let 1.56 GiB leave for host"));
    const char *cost = vw__doctor_spill_cost(&draft, &trial);
    assert_non_null(strstr(cost, "about 4.80 ms more a step (4.0 %), copied beside the"));
    assert_null(strstr(cost, "read and written"));
    vw__diagnosis_deinit(&draft);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_words_say_what_is_known),
        cmocka_unit_test(the_words_of_streams_are_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
