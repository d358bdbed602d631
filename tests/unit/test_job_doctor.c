/* test_job_doctor.c - what the doctor says of jobs that run. */
#include "vramwise/watch.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/made_job.h"
#include "support/screen_check.h"

static vw_diagnosis *diagnose_on(const made_job *made, uint64_t card_bytes)
{
    const vw_doctor_options options = {.struct_size = sizeof options, .card_bytes = card_bytes};
    vw_diagnosis *found = NULL;
    assert_int_equal(vw_doctor_job(&made->job, &options, &found), VW_OK);
    assert_true(found->is_running);
    assert_int_equal(found->source, VW_SOURCE_STEPS);
    assert_true(found->sentence[0] != '\0' && found->reasoning_count > 0);
    assert_fits_screen(found, "process 4711, train.py");
    return found;
}

static const vw_finding *finding_of(const vw_diagnosis *diagnosis, const char *kind)
{
    for (size_t i = 0; i < diagnosis->finding_count; i++)
        if (strcmp(diagnosis->findings[i].kind, kind) == 0)
            return &diagnosis->findings[i];
    return NULL;
}

/* The verdict, the diagnosis being freed. */
static vw_verdict verdict_of(const made_job *made)
{
    vw_diagnosis *found = diagnose_on(made, 0);
    vw_verdict verdict = found->verdict;
    vw_diagnosis_free(found);
    return verdict;
}

static void make_leak(made_job *made, int device, uint64_t bytes_per_step)
{
    for (uint64_t i = 0; i < 100; i++)
        add_step(made, device, 4 * GIB + i * bytes_per_step);
}

static void a_leak_is_told_with_its_pace_its_end_and_the_time_until_then(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    put_numbers(&made, 0, 4 * GIB, 6 * GIB, 17 * GIB);
    make_leak(&made, 0, 10 * MIB);
    vw_diagnosis *found = diagnose_on(&made, 0);
    assert_int_equal(found->verdict, VW_VERDICT_LEAK);
    assert_int_equal(found->confidence, VW_CONFIDENCE_HIGH);
    /* 23 GiB - (4 GiB + 99 * 10 MiB) leave 1846.6 steps of one second each */
    assert_non_null(strstr(found->sentence, "grows by 10.0 MiB per step up to now"));
    assert_non_null(strstr(found->sentence, "at about step 1947, in about 30 min."));
    assert_string_equal(found->findings[0].kind, "leak");
    assert_true(found->findings[0].remedy_count > 0);
    assert_int_equal(found->numbers.allocated_bytes, 4 * GIB + 99 * 10 * MIB);
    assert_int_equal(found->numbers.free_bytes, 17 * GIB);
    assert_int_equal(found->numbers.total_bytes, 24 * GIB);
    vw_diagnosis_free(found);
}

static void a_limit_ends_a_leak_sooner(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    put_numbers(&made, 0, 4 * GIB, 6 * GIB, 17 * GIB);
    make_leak(&made, 0, 10 * MIB);
    made.devices[0].values[VW_LIVE_LIMIT_BYTES] = 8 * GIB;
    vw_diagnosis *found = diagnose_on(&made, 0);
    assert_non_null(strstr(found->sentence, "at about step 411,"));
    vw_diagnosis_free(found);
}

static void on_another_card_a_leak_ends_with_that(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    put_numbers(&made, 0, 4 * GIB, 6 * GIB, 17 * GIB);
    make_leak(&made, 0, 10 * MIB);
    vw_diagnosis *found = diagnose_on(&made, 8 * GIB);
    assert_int_equal(found->verdict, VW_VERDICT_LEAK);
    assert_non_null(strstr(found->sentence, "a card of 8.00 GiB is full at about step 41"));
    assert_int_equal(found->numbers.total_bytes, 8 * GIB);
    vw_diagnosis_free(found);
}

static void a_job_in_which_nothing_is_wrong_is_healthy_with_its_margin(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    put_numbers(&made, 0, 4 * GIB, 6 * GIB, 17 * GIB);
    make_leak(&made, 0, 0);
    vw_diagnosis *found = diagnose_on(&made, 0);
    assert_int_equal(found->verdict, VW_VERDICT_HEALTHY);
    assert_int_equal(found->confidence, VW_CONFIDENCE_HIGH);
    assert_int_equal(found->finding_count, 0);
    assert_string_equal(found->sentence,
                        "No leak: memory stays at 4.00 GiB. 19.00 GiB are left for it to grow.");
    vw_diagnosis_free(found);
}

static void few_steps_or_none_are_no_reason_for_alarm(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    put_numbers(&made, 0, 4 * GIB, 6 * GIB, 17 * GIB);
    for (uint64_t i = 0; i < 2; i++) {
        vw_diagnosis *found = diagnose_on(&made, 0);
        assert_int_equal(found->verdict, VW_VERDICT_HEALTHY);
        assert_int_equal(found->confidence, VW_CONFIDENCE_LOW);
        assert_non_null(
            strstr(found->sentence, i == 0 ? "0 steps are too few" : "1 step is too few"));
        vw_diagnosis_free(found);
        add_step(&made, 0, 4 * GIB);
    }
}

static void idle_at_the_peak_in_pieces_is_fragmentation_where_it_is_tight(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    put_numbers(&made, 0, 4 * GIB, 20 * GIB, 3 * GIB);
    assert_int_equal(verdict_of(&made), VW_VERDICT_HEALTHY); /* the peak may need them */
    made.devices[0].values[VW_LIVE_PEAK_LIVE_BYTES] = 12 * GIB;
    vw_diagnosis *found = diagnose_on(&made, 0);
    assert_int_equal(found->verdict, VW_VERDICT_HEALTHY); /* 3 of 23 GiB are left: told, no more */
    assert_int_equal(finding_of(found, "fragmentation")->bytes, 8 * GIB);
    vw_diagnosis_free(found);

    made.devices[0].values[VW_LIVE_RETRIES] = 1;
    assert_int_equal(verdict_of(&made), VW_VERDICT_FRAGMENTATION);
    made.devices[0].values[VW_LIVE_RETRIES] = 0;
    put_numbers(&made, 0, 4 * GIB, 20 * GIB, 2 * GIB);
    assert_int_equal(verdict_of(&made), VW_VERDICT_FRAGMENTATION);
    made.devices[0].values[VW_LIVE_LARGEST_FREE_BYTES] = 15 * GIB; /* of 16 idle: one piece */
    assert_int_equal(verdict_of(&made), VW_VERDICT_HEALTHY);
    made.devices[0].values[VW_LIVE_LARGEST_FREE_BYTES] = 1 * GIB;
    made.devices[0].values[VW_LIVE_PEAK_LIVE_BYTES] = 16 * GIB; /* less than a quarter idle */
    assert_int_equal(verdict_of(&made), VW_VERDICT_HEALTHY);
}

static void what_others_hold_is_the_verdict_where_it_is_tight_and_a_finding_else(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    put_numbers(&made, 0, 5 * GIB, 6 * GIB, 12 * GIB); /* 6 GiB outside, a context included */
    vw_diagnosis *found = diagnose_on(&made, 0);
    assert_int_equal(found->verdict, VW_VERDICT_HEALTHY);
    assert_int_equal(finding_of(found, "outside")->bytes, 6 * GIB);
    vw_diagnosis_free(found);
    put_numbers(&made, 0, 16 * GIB, 17 * GIB, 1 * GIB);
    assert_int_equal(verdict_of(&made), VW_VERDICT_OUTSIDE);
    put_numbers(&made, 0, 17 * GIB, 18 * GIB, 1 * GIB); /* 5 GiB: less a context, too little */
    assert_int_equal(verdict_of(&made), VW_VERDICT_HEALTHY);
}

static void a_limit_that_is_nearly_reached_is_capped(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    put_numbers(&made, 0, 9 * GIB, 9 * GIB + 512 * MIB, 14 * GIB);
    made.devices[0].values[VW_LIVE_LIMIT_BYTES] = 12 * GIB;
    assert_int_equal(verdict_of(&made), VW_VERDICT_HEALTHY);
    made.devices[0].values[VW_LIVE_LIMIT_BYTES] = 10 * GIB;
    vw_diagnosis *found = diagnose_on(&made, 0);
    assert_int_equal(found->verdict, VW_VERDICT_CAPPED);
    assert_int_equal(found->numbers.allowed_bytes, 10 * GIB);
    assert_string_equal(found->findings[0].kind, "capped");
    vw_diagnosis_free(found);
    found = diagnose_on(&made, 24 * GIB); /* a card in the options has no limit */
    assert_int_equal(found->verdict, VW_VERDICT_HEALTHY);
    assert_int_equal(found->numbers.allowed_bytes, VW_UNKNOWN);
    vw_diagnosis_free(found);
}

static void a_card_that_is_too_small_for_the_peak_is_said(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    put_numbers(&made, 0, 4 * GIB, 12 * GIB, 11 * GIB); /* 1 GiB outside */
    made.devices[0].values[VW_LIVE_PEAK_LIVE_BYTES] = 10 * GIB;
    vw_diagnosis *found = diagnose_on(&made, 8 * GIB);
    assert_int_equal(found->verdict, VW_VERDICT_GENUINE);
    assert_int_equal(found->findings[0].bytes, 3 * GIB);
    vw_diagnosis_free(found);
    found = diagnose_on(&made, 11 * GIB);
    assert_int_not_equal(found->verdict, VW_VERDICT_GENUINE);
    vw_diagnosis_free(found);
}

static void errors_that_were_caught_and_retries_are_findings(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    put_numbers(&made, 0, 4 * GIB, 5 * GIB, 18 * GIB);
    made.devices[0].values[VW_LIVE_OUT_OF_MEMORY] = 0;
    made.devices[0].values[VW_LIVE_RETRIES] = 1;
    vw_diagnosis *found = diagnose_on(&made, 0);
    assert_string_equal(finding_of(found, "near-limit")->title,
                        "1 request had to wait until the allocator had given its cache back.");
    assert_non_null(strstr(found->sentence, "to grow. But it has been close to its limit."));
    vw_diagnosis_free(found);
    made.devices[0].values[VW_LIVE_OUT_OF_MEMORY] = 3;
    found = diagnose_on(&made, 0);
    assert_int_equal(found->error_count, 3);
    assert_string_equal(finding_of(found, "near-limit")->title,
                        "Memory has run out 3 times, and the job went on.");
    assert_non_null(strstr(found->sentence, "to grow. But memory has run out 3 times."));
    assert_int_equal(found->confidence, VW_CONFIDENCE_LOW); /* there are no steps */
    vw_diagnosis_free(found);
    make_leak(&made, 0, 0);
    made.devices[0].values[VW_LIVE_OUT_OF_MEMORY] = 1;
    found = diagnose_on(&made, 0);
    assert_int_equal(found->verdict, VW_VERDICT_HEALTHY);
    assert_int_equal(found->confidence, VW_CONFIDENCE_MEDIUM);
    assert_non_null(strstr(found->sentence, "to grow. But memory has run out 1 time."));
    vw_diagnosis_free(found);
}

static void of_a_page_without_numbers_nothing_is_claimed(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    put_numbers(&made, 0, VW_UNKNOWN, VW_UNKNOWN, VW_UNKNOWN);
    vw_diagnosis *found = diagnose_on(&made, 0);
    assert_int_equal(found->verdict, VW_VERDICT_UNKNOWN);
    assert_string_equal(found->sentence, "The job has not reported its memory yet.");
    vw_diagnosis_free(found);
    put_numbers(&made, 0, VW_UNKNOWN, GIB, VW_UNKNOWN);
    assert_int_equal(verdict_of(&made), VW_VERDICT_HEALTHY);
    put_numbers(&made, 0, VW_UNKNOWN, VW_UNKNOWN, VW_UNKNOWN);
    make_leak(&made, 0, 10 * MIB);
    assert_int_equal(verdict_of(&made), VW_VERDICT_LEAK);
}

static void more_than_a_fifth_of_the_time_spent_waiting_is_input_bound(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    put_numbers(&made, 0, 4 * GIB, 5 * GIB, 18 * GIB);
    uint64_t *values = made.devices[0].values;
    values[VW_LIVE_STEP_NS] = 1000;
    values[VW_LIVE_INPUT_WAIT_NS] = 200;
    vw_diagnosis *found = diagnose_on(&made, 0);
    assert_int_equal(found->finding_count, 0);
    vw_diagnosis_free(found);
    values[VW_LIVE_INPUT_WAIT_NS] = 340;
    values[VW_LIVE_LOADER_WORKERS] = 2;
    values[VW_LIVE_LOADER_PINS] = 1;
    found = diagnose_on(&made, 0);
    const vw_finding *finding = finding_of(found, "input-bound");
    assert_non_null(strstr(finding->title, "34 %"));
    assert_int_equal(finding->evidence_count, 2);
    assert_int_equal(finding->remedy_count, 1); /* it pins already */
    assert_non_null(strstr(finding->remedies[0].how, "num_workers=4"));
    assert_int_equal(found->verdict, VW_VERDICT_HEALTHY);
    vw_diagnosis_free(found);
    values[VW_LIVE_STEP_NS] = 0;
    assert_true(vw_job_input_share(&made.devices[0]) < 0);
}

static void of_several_devices_the_worst_is_judged_and_the_others_are_named(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    made.job.device_count = 2;
    put_numbers(&made, 0, 2 * GIB, 3 * GIB, 20 * GIB);
    put_numbers(&made, 1, 4 * GIB, 9 * GIB, 14 * GIB);
    vw_diagnosis *found = diagnose_on(&made, 0);
    assert_int_equal(found->numbers.device, 1);
    assert_string_equal(found->reasoning[2], "Device 0: 2.00 GiB live, 3.00 GiB reserved.");
    vw_diagnosis_free(found);
    make_leak(&made, 0, MIB); /* a leak is worse than much */
    found = diagnose_on(&made, 0);
    assert_int_equal(found->numbers.device, 0);
    assert_int_equal(found->verdict, VW_VERDICT_LEAK);
    vw_diagnosis_free(found);
}

static void a_job_without_a_device_is_unknown(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    made.job.device_count = 0;
    assert_int_equal(verdict_of(&made), VW_VERDICT_UNKNOWN);
}

static void numbers_that_make_no_sense_do_no_harm(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    for (size_t field = 0; field < VW_LIVE_FIELD_COUNT; field++)
        made.devices[0].values[field] = UINT64_MAX - 2;
    for (uint64_t i = 0; i < MADE_STEPS; i++)
        add_step(&made, 0, i % 2 == 0 ? UINT64_MAX : 0);
    vw_diagnosis_free(diagnose_on(&made, 0));
    vw_diagnosis_free(diagnose_on(&made, 1));
}

static void a_page_that_cannot_be_read_is_refused(void **state)
{
    (void)state;
    made_job made;
    vw_diagnosis *found = NULL;
    make_job(&made);
    made.job.state = VW_JOB_OTHER_VERSION;
    made.job.page_version = 7;
    assert_int_equal(vw_doctor_job(&made.job, NULL, &found), VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "is of version 7"));
    made.job.state = VW_JOB_BUSY;
    assert_int_equal(vw_doctor_job(&made.job, NULL, &found), VW_ERR_NOT_READY);
    assert_int_equal(vw_doctor_job(NULL, NULL, &found), VW_ERR_INVALID_ARGUMENT);
    made.job.state = VW_JOB_RUNNING;
    const vw_doctor_options options = {.struct_size = 1};
    assert_int_equal(vw_doctor_job(&made.job, &options, &found), VW_ERR_INVALID_ARGUMENT);
    assert_null(found);
}

static void the_pace_is_that_of_the_later_half(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    assert_true(vw_job_step_ns(&made.devices[0]) == VW_LIVE_UNKNOWN);
    for (int i = 0; i < 5; i++)
        add_step(&made, 0, GIB);
    made.steps[0][0].at_ns = 1;
    assert_int_equal(vw_job_step_ns(&made.devices[0]), 1000000000);
    made.steps[0][4].at_ns = made.steps[0][2].at_ns;
    assert_true(vw_job_step_ns(&made.devices[0]) == VW_LIVE_UNKNOWN);
}

static bool is_diagnosed(void *context)
{
    vw_diagnosis *found = NULL;
    vw_status status = vw_doctor_job(context, NULL, &found);
    assert_true(status == VW_OK || (status == VW_ERR_HOST_MEMORY && found == NULL));
    vw_diagnosis_free(found);
    return status == VW_OK;
}

static void every_failed_request_for_host_memory_is_told(void **state)
{
    (void)state;
    made_job made;
    make_job(&made);
    put_numbers(&made, 0, 4 * GIB, 6 * GIB, 17 * GIB);
    make_leak(&made, 0, 10 * MIB);
    vw_test_sweep_host_memory(is_diagnosed, &made.job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leak_is_told_with_its_pace_its_end_and_the_time_until_then),
        cmocka_unit_test(a_limit_ends_a_leak_sooner),
        cmocka_unit_test(on_another_card_a_leak_ends_with_that),
        cmocka_unit_test(a_job_in_which_nothing_is_wrong_is_healthy_with_its_margin),
        cmocka_unit_test(few_steps_or_none_are_no_reason_for_alarm),
        cmocka_unit_test(idle_at_the_peak_in_pieces_is_fragmentation_where_it_is_tight),
        cmocka_unit_test(what_others_hold_is_the_verdict_where_it_is_tight_and_a_finding_else),
        cmocka_unit_test(a_limit_that_is_nearly_reached_is_capped),
        cmocka_unit_test(a_card_that_is_too_small_for_the_peak_is_said),
        cmocka_unit_test(errors_that_were_caught_and_retries_are_findings),
        cmocka_unit_test(of_a_page_without_numbers_nothing_is_claimed),
        cmocka_unit_test(more_than_a_fifth_of_the_time_spent_waiting_is_input_bound),
        cmocka_unit_test(of_several_devices_the_worst_is_judged_and_the_others_are_named),
        cmocka_unit_test(a_job_without_a_device_is_unknown),
        cmocka_unit_test(numbers_that_make_no_sense_do_no_harm),
        cmocka_unit_test(a_page_that_cannot_be_read_is_refused),
        cmocka_unit_test(the_pace_is_that_of_the_later_half),
        cmocka_unit_test(every_failed_request_for_host_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
