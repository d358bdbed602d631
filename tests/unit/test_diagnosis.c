/* test_diagnosis.c - findings come out in order, whole, and with failure told once. */
#include "doctor/diagnosis.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

static void findings_come_out_with_the_cause_first_and_warnings_last(void **state)
{
    (void)state;
    hr__diagnosis_draft draft;
    hr_diagnosis *diagnosis = NULL;
    hr__diagnosis_init(&draft, HR_SOURCE_RECORDING);
    (void)hr__diagnosis_add(&draft, "warning", 1, "do not");
    (void)hr__diagnosis_add(&draft, "peak", 2, "at %d", 7);
    hr__finding_draft *leak = hr__diagnosis_add(&draft, "leak", 3, "grows");
    hr__finding_where(leak, "a.py:%d f", 1);
    hr__finding_where(leak, "a.py:1 f"); /* once is enough */
    hr__finding_where(leak, "%s", "");   /* no place at all */
    hr__finding_evidence(leak, "seen %d times", 3);
    hr__finding_part(leak, "weights", 10);
    hr__finding_remedy(leak, "stop", hr__saves(5), HR_BASIS_MEASURED, "none", "del x");
    hr__diagnosis_reason(&draft, "because %s", "so");
    hr__diagnosis_conclude(&draft, HR_VERDICT_LEAK, HR_CONFIDENCE_HIGH, "Leak of %d.", 3);
    assert_ptr_equal(hr__diagnosis_find(&draft, "leak"), leak);
    assert_null(hr__diagnosis_find(&draft, "stranded"));
    assert_int_equal(hr__diagnosis_finish(&draft, &diagnosis), HR_OK);

    assert_int_equal(diagnosis->verdict, HR_VERDICT_LEAK);
    assert_string_equal(diagnosis->sentence, "Leak of 3.");
    assert_int_equal(diagnosis->reasoning_count, 1);
    assert_string_equal(diagnosis->reasoning[0], "because so");
    assert_int_equal(diagnosis->numbers.tried_bytes, HR_UNKNOWN);
    assert_int_equal(diagnosis->numbers.device, -1);
    assert_int_equal(diagnosis->finding_count, 3);
    assert_string_equal(diagnosis->findings[0].kind, "leak");
    assert_string_equal(diagnosis->findings[1].title, "at 7");
    assert_string_equal(diagnosis->findings[2].kind, "warning");
    const hr_finding *first = &diagnosis->findings[0];
    assert_int_equal(first->where_count, 1);
    assert_string_equal(first->where[0], "a.py:1 f");
    assert_string_equal(first->evidence[0], "seen 3 times");
    assert_int_equal(first->parts[0].bytes, 10);
    assert_string_equal(first->remedies[0].how, "del x");
    hr_diagnosis_free(diagnosis);
}

static void one_is_not_many(void **state)
{
    (void)state;
    hr__diagnosis_draft draft;
    hr__diagnosis_init(&draft, HR_SOURCE_TEXT);
    assert_string_equal(hr__diagnosis_count(&draft, 0, "step"), "0 steps");
    assert_string_equal(hr__diagnosis_count(&draft, 1, "step"), "1 step");
    assert_string_equal(hr__diagnosis_count(&draft, 12, "step"), "12 steps");
    hr__diagnosis_deinit(&draft);
}

static void more_than_there_is_room_for_is_dropped_without_harm(void **state)
{
    (void)state;
    hr__diagnosis_draft draft;
    hr_diagnosis *diagnosis = NULL;
    hr__diagnosis_init(&draft, HR_SOURCE_TEXT);
    for (int i = 0; i < 100; i++) {
        hr__finding_draft *finding = hr__diagnosis_add(&draft, "peak", 0, "%d", i);
        hr__diagnosis_reason(&draft, "%d", i);
        for (int k = 0; k < 100; k++) {
            hr__finding_where(finding, "%d", k);
            hr__finding_evidence(finding, "%d", k);
            hr__finding_part(finding, "part", 1);
            hr__finding_remedy(finding, "act", HR__SAVES_UNKNOWN, HR_BASIS_RULE, "", "");
        }
    }
    assert_int_equal(hr__diagnosis_finish(&draft, &diagnosis), HR_OK);
    assert_int_equal(diagnosis->finding_count, HR__MOST_FINDINGS);
    assert_int_equal(diagnosis->reasoning_count, HR__MOST_REASONS);
    assert_int_equal(diagnosis->findings[0].where_count, HR__MOST_WHERE);
    assert_int_equal(diagnosis->findings[0].evidence_count, HR__MOST_EVIDENCE);
    assert_int_equal(diagnosis->findings[0].part_count, HR__MOST_PARTS);
    assert_int_equal(diagnosis->findings[0].remedy_count, HR__MOST_REMEDIES);
    hr_diagnosis_free(diagnosis);
}

static void names_are_those_of_the_contract(void **state)
{
    (void)state;
    assert_string_equal(hr_verdict_name(HR_VERDICT_KEPT_GRAPH), "kept-graph");
    assert_string_equal(hr_verdict_name(HR_VERDICT_NOT_OOM), "not-oom");
    assert_string_equal(hr_confidence_name(HR_CONFIDENCE_MEDIUM), "medium");
    assert_string_equal(hr_basis_name(HR_BASIS_COMPUTED), "computed");
    assert_string_equal(hr_doctor_source_name(HR_SOURCE_STEPS), "steps");
    assert_string_equal(hr_verdict_name((hr_verdict)99), "unknown");
}

static bool write_one(void *context)
{
    (void)context;
    hr__diagnosis_draft draft;
    hr_diagnosis *diagnosis = NULL;
    hr__diagnosis_init(&draft, HR_SOURCE_TEXT);
    hr__finding_draft *finding = hr__diagnosis_add(&draft, "leak", 0, "a leak");
    for (int i = 0; i < 8; i++) {
        hr__finding_where(finding, "a.py:%d f", i);
        hr__finding_remedy(finding, "act", hr__saves(1), HR_BASIS_RULE, "none", "type this");
    }
    hr__diagnosis_reason(&draft, "because");
    if (hr__diagnosis_finish(&draft, &diagnosis) != HR_OK)
        return false;
    hr_diagnosis_free(diagnosis);
    return true;
}

static void no_host_memory_is_said_once_at_the_end(void **state)
{
    (void)state;
    hr_test_sweep_host_memory(write_one, NULL);
}

static void a_problem_is_a_verdict_or_a_finding_that_is_one(void **state)
{
    (void)state;
    const hr_finding peak = {.kind = "peak"}, fragments[] = {{.kind = "peak"}, {.kind = "warning"}};
    hr_diagnosis diagnosis = {.verdict = HR_VERDICT_HEALTHY, .findings = &peak, .finding_count = 1};
    assert_false(hr_diagnosis_is_problem(&diagnosis));
    diagnosis.findings = fragments;
    diagnosis.finding_count = 2;
    assert_true(hr_diagnosis_is_problem(&diagnosis));
    diagnosis.finding_count = 0;
    assert_false(hr_diagnosis_is_problem(&diagnosis));
    diagnosis.verdict = HR_VERDICT_NOT_OOM;
    assert_false(hr_diagnosis_is_problem(&diagnosis));
    diagnosis.verdict = HR_VERDICT_UNKNOWN;
    assert_true(hr_diagnosis_is_problem(&diagnosis));
}

static void a_story_may_see_what_a_recording_cannot(void **state)
{
    (void)state;
    static const struct {
        hr_verdict story, recording;
        bool sees_more;
    } cases[] = {
        {HR_VERDICT_LEAK, HR_VERDICT_GENUINE, true},
        {HR_VERDICT_OUTSIDE, HR_VERDICT_REFUSED, true},
        {HR_VERDICT_LEAK, HR_VERDICT_CAPPED, true},
        {HR_VERDICT_GENUINE, HR_VERDICT_UNKNOWN, true},
        {HR_VERDICT_CAPPED, HR_VERDICT_HEALTHY, true},
        {HR_VERDICT_GENUINE, HR_VERDICT_HEALTHY, false},
        {HR_VERDICT_OUTSIDE, HR_VERDICT_CAPPED, false},
        {HR_VERDICT_HEALTHY, HR_VERDICT_UNKNOWN, false},
        {HR_VERDICT_LEAK, HR_VERDICT_FRAGMENTATION, false},
        {HR_VERDICT_CAPPED, HR_VERDICT_LEAK, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const hr_diagnosis story = {.verdict = cases[i].story};
        const hr_diagnosis recording = {.verdict = cases[i].recording};
        if (hr_diagnosis_sees_more(&story, &recording) != cases[i].sees_more)
            fail_msg("%s beside %s", hr_verdict_name(story.verdict),
                     hr_verdict_name(recording.verdict));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(findings_come_out_with_the_cause_first_and_warnings_last),
        cmocka_unit_test(one_is_not_many),
        cmocka_unit_test(more_than_there_is_room_for_is_dropped_without_harm),
        cmocka_unit_test(a_problem_is_a_verdict_or_a_finding_that_is_one),
        cmocka_unit_test(a_story_may_see_what_a_recording_cannot),
        cmocka_unit_test(names_are_those_of_the_contract),
        cmocka_unit_test(no_host_memory_is_said_once_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
