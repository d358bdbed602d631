/* test_diagnosis.c - findings come out in order, whole, and with failure told once. */
#include "doctor/diagnosis.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

static void findings_come_out_with_the_cause_first_and_warnings_last(void **state)
{
    (void)state;
    vw__diagnosis_draft draft;
    vw_diagnosis *diagnosis = NULL;
    vw__diagnosis_init(&draft, VW_SOURCE_RECORDING);
    (void)vw__diagnosis_add(&draft, "warning", 1, "do not");
    (void)vw__diagnosis_add(&draft, "peak", 2, "at %d", 7);
    vw__diagnosis_finding *leak = vw__diagnosis_add(&draft, "leak", 3, "grows");
    vw__diagnosis_where(leak, "a.py:%d f", 1);
    vw__diagnosis_where(leak, "a.py:1 f"); /* once is enough */
    vw__diagnosis_where(leak, "%s", "");   /* no place at all */
    vw__diagnosis_evidence(leak, "seen %d times", 3);
    vw__diagnosis_part(leak, "weights", 10);
    vw__diagnosis_remedy(leak, "stop", vw__diagnosis_saves(5), VW_BASIS_MEASURED, "none", "del x");
    vw__diagnosis_reason(&draft, "because %s", "so");
    vw__diagnosis_conclude(&draft, VW_VERDICT_LEAK, VW_CONFIDENCE_HIGH, "Leak of %d.", 3);
    assert_ptr_equal(vw__diagnosis_find(&draft, "leak"), leak);
    assert_null(vw__diagnosis_find(&draft, "stranded"));
    assert_int_equal(vw__diagnosis_finish(&draft, &diagnosis), VW_OK);

    assert_int_equal(diagnosis->verdict, VW_VERDICT_LEAK);
    assert_string_equal(diagnosis->sentence, "Leak of 3.");
    assert_int_equal(diagnosis->reasoning_count, 1);
    assert_string_equal(diagnosis->reasoning[0], "because so");
    assert_int_equal(diagnosis->numbers.tried_bytes, VW_UNKNOWN);
    assert_int_equal(diagnosis->numbers.device, -1);
    assert_int_equal(diagnosis->finding_count, 3);
    assert_string_equal(diagnosis->findings[0].kind, "leak");
    assert_string_equal(diagnosis->findings[1].title, "at 7");
    assert_string_equal(diagnosis->findings[2].kind, "warning");
    const vw_finding *first = &diagnosis->findings[0];
    assert_int_equal(first->where_count, 1);
    assert_string_equal(first->where[0], "a.py:1 f");
    assert_string_equal(first->evidence[0], "seen 3 times");
    assert_int_equal(first->parts[0].bytes, 10);
    assert_string_equal(first->remedies[0].how, "del x");
    vw_diagnosis_free(diagnosis);
}

static void one_is_not_many(void **state)
{
    (void)state;
    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    assert_string_equal(vw__diagnosis_count(&draft, 0, "step"), "0 steps");
    assert_string_equal(vw__diagnosis_count(&draft, 1, "step"), "1 step");
    assert_string_equal(vw__diagnosis_count(&draft, 12, "step"), "12 steps");
    vw__diagnosis_deinit(&draft);
}

static void more_than_there_is_room_for_is_dropped_without_harm(void **state)
{
    (void)state;
    vw__diagnosis_draft draft;
    vw_diagnosis *diagnosis = NULL;
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    for (int i = 0; i < 100; i++) {
        vw__diagnosis_finding *finding = vw__diagnosis_add(&draft, "peak", 0, "%d", i);
        vw__diagnosis_reason(&draft, "%d", i);
        for (int k = 0; k < 100; k++) {
            vw__diagnosis_where(finding, "%d", k);
            vw__diagnosis_evidence(finding, "%d", k);
            vw__diagnosis_part(finding, "part", 1);
            vw__diagnosis_remedy(finding, "act", VW__DIAGNOSIS_SAVES_UNKNOWN, VW_BASIS_RULE, "",
                                 "");
        }
    }
    assert_int_equal(vw__diagnosis_finish(&draft, &diagnosis), VW_OK);
    assert_int_equal(diagnosis->finding_count, VW__DIAGNOSIS_MOST_FINDINGS);
    assert_int_equal(diagnosis->reasoning_count, VW__DIAGNOSIS_MOST_REASONS);
    assert_int_equal(diagnosis->findings[0].where_count, VW__DIAGNOSIS_MOST_WHERE);
    assert_int_equal(diagnosis->findings[0].evidence_count, VW__DIAGNOSIS_MOST_EVIDENCE);
    assert_int_equal(diagnosis->findings[0].part_count, VW__DIAGNOSIS_MOST_PARTS);
    assert_int_equal(diagnosis->findings[0].remedy_count, VW__DIAGNOSIS_MOST_REMEDIES);
    vw_diagnosis_free(diagnosis);
}

static void names_are_those_of_the_contract(void **state)
{
    (void)state;
    assert_string_equal(vw_verdict_name(VW_VERDICT_KEPT_GRAPH), "kept-graph");
    assert_string_equal(vw_verdict_name(VW_VERDICT_NOT_OOM), "not-oom");
    assert_string_equal(vw_confidence_name(VW_CONFIDENCE_MEDIUM), "medium");
    assert_string_equal(vw_basis_name(VW_BASIS_COMPUTED), "computed");
    assert_string_equal(vw_doctor_source_name(VW_SOURCE_STEPS), "steps");
    assert_string_equal(vw_verdict_name((vw_verdict)99), "unknown");
}

static bool write_one(void *context)
{
    (void)context;
    vw__diagnosis_draft draft;
    vw_diagnosis *diagnosis = NULL;
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    vw__diagnosis_finding *finding = vw__diagnosis_add(&draft, "leak", 0, "a leak");
    for (int i = 0; i < 8; i++) {
        vw__diagnosis_where(finding, "a.py:%d f", i);
        vw__diagnosis_remedy(finding, "act", vw__diagnosis_saves(1), VW_BASIS_RULE, "none",
                             "type this");
    }
    vw__diagnosis_reason(&draft, "because");
    if (vw__diagnosis_finish(&draft, &diagnosis) != VW_OK)
        return false;
    vw_diagnosis_free(diagnosis);
    return true;
}

static void no_host_memory_is_said_once_at_the_end(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(write_one, NULL);
}

static void a_problem_is_a_verdict_or_a_finding_that_is_one(void **state)
{
    (void)state;
    const vw_finding peak = {.kind = "peak"}, fragments[] = {{.kind = "peak"}, {.kind = "warning"}};
    vw_diagnosis diagnosis = {.verdict = VW_VERDICT_HEALTHY, .findings = &peak, .finding_count = 1};
    assert_false(vw_diagnosis_is_problem(&diagnosis));
    diagnosis.findings = fragments;
    diagnosis.finding_count = 2;
    assert_true(vw_diagnosis_is_problem(&diagnosis));
    diagnosis.finding_count = 0;
    assert_false(vw_diagnosis_is_problem(&diagnosis));
    diagnosis.verdict = VW_VERDICT_NOT_OOM;
    assert_false(vw_diagnosis_is_problem(&diagnosis));
    diagnosis.verdict = VW_VERDICT_UNKNOWN;
    assert_true(vw_diagnosis_is_problem(&diagnosis));
}

static void a_story_may_see_what_a_recording_cannot(void **state)
{
    (void)state;
    static const struct {
        vw_verdict story, recording;
        bool sees_more;
    } cases[] = {
        {VW_VERDICT_LEAK, VW_VERDICT_GENUINE, true},
        {VW_VERDICT_OUTSIDE, VW_VERDICT_REFUSED, true},
        {VW_VERDICT_LEAK, VW_VERDICT_CAPPED, true},
        {VW_VERDICT_GENUINE, VW_VERDICT_UNKNOWN, true},
        {VW_VERDICT_CAPPED, VW_VERDICT_HEALTHY, true},
        {VW_VERDICT_GENUINE, VW_VERDICT_HEALTHY, false},
        {VW_VERDICT_OUTSIDE, VW_VERDICT_CAPPED, false},
        {VW_VERDICT_HEALTHY, VW_VERDICT_UNKNOWN, false},
        {VW_VERDICT_LEAK, VW_VERDICT_FRAGMENTATION, false},
        {VW_VERDICT_CAPPED, VW_VERDICT_LEAK, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const vw_diagnosis story = {.verdict = cases[i].story};
        const vw_diagnosis recording = {.verdict = cases[i].recording};
        if (vw_diagnosis_sees_more(&story, &recording) != cases[i].sees_more)
            fail_msg("%s beside %s", vw_verdict_name(story.verdict),
                     vw_verdict_name(recording.verdict));
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
