/* test_doctor_steps.c - what is said of a step log.
 *
 * Logs are made by hand here, each to show one thing. Whether the verdicts hold for logs of every
 * kind is asked in test_doctor_steps_simulated.c. */
#include "doctor/doctor.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/made_step_log.h"

/* ---- how many steps -------------------------------------------------------------------------- */

static void even_growth_is_a_leak_from_six_steps_on(void **state)
{
    (void)state;
    for (size_t count = 3; count < 20; count++) {
        made_log log = {.count = count};
        for (size_t i = 0; i < count; i++)
            log.points[i] =
                (vw__step_log_point){(double)i, (3 + 2 * i) * GIB, VW__MODEL_UNKNOWN_BYTES};
        vw_diagnosis *made = diagnose_made(&log, 0);
        assert_int_equal(made->verdict,
                         count < VW__TREND_FEWEST_POINTS ? VW_VERDICT_UNKNOWN : VW_VERDICT_LEAK);
        if (count < VW__TREND_FEWEST_POINTS)
            assert_non_null(strstr(made->sentence, "30 or more would do"));
        assert_int_equal(made->numbers.allocated_bytes, (1 + 2 * count) * GIB);
        vw_diagnosis_free(made);
    }
}

/* ---- words ----------------------------------------------------------------------------------- */

/* The log says 4.60 and 9.97 GiB where what is judged begins and ends. */
static void levels_are_quoted_as_logged_with_their_steps(void **state)
{
    (void)state;
    made_log log = {.count = 200};
    for (size_t i = 0; i < log.count; i++) {
        double gib = 4.60 + 5.37 * ((double)i - 20) / 179;
        log.points[i] =
            (vw__step_log_point){(double)i, (uint64_t)(gib * (double)GIB), VW__MODEL_UNKNOWN_BYTES};
    }
    vw_diagnosis *made = diagnose_made(&log, 0);
    assert_int_equal(made->verdict, VW_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "from 4.60 GiB at step 20 to 9.97 GiB at step 199;"));
    assert_non_null(
        strstr(made->findings[0].evidence[0], "from 4.60 GiB at step 20 to 9.97 GiB at step 199."));
    assert_int_equal(made->findings[0].bytes,
                     log.points[199].allocated_bytes - log.points[20].allocated_bytes);
    vw_diagnosis_free(made);
}

static void make_even_leak(made_log *log, uint64_t bytes_per_step)
{
    log->count = 60;
    log->is_peak = false;
    for (size_t i = 0; i < log->count; i++)
        log->points[i] = (vw__step_log_point){(double)(10 * i), GIB + 10 * i * bytes_per_step,
                                              VW__MODEL_UNKNOWN_BYTES};
}

static void a_leak_comes_with_its_pace_and_what_to_type(void **state)
{
    (void)state;
    made_log log;
    make_even_leak(&log, MIB);
    vw_diagnosis *made = diagnose_made(&log, 0);
    assert_int_equal(made->verdict, VW_VERDICT_LEAK);
    assert_int_equal(made->confidence, VW_CONFIDENCE_HIGH);
    assert_int_equal(made->source, VW_SOURCE_STEPS);
    assert_non_null(strstr(made->sentence, "1.00 MiB per step"));
    assert_non_null(strstr(made->sentence, "each GiB that is free lasts 1024 steps"));
    assert_int_equal(made->finding_count, 1);
    const vw_finding *leak = &made->findings[0];
    assert_string_equal(leak->kind, "leak");
    assert_true(leak->bytes > 450 * MIB && leak->bytes < 590 * MIB);
    assert_true(leak->evidence_count >= 3 && made->reasoning_count >= 3);
    assert_true(leak->remedy_count >= 5);
    bool has_item = false, has_recording = false;
    for (size_t i = 0; i < leak->remedy_count; i++) {
        assert_int_equal(leak->remedies[i].basis, VW_BASIS_RULE);
        has_item = has_item || strstr(leak->remedies[i].how, "loss.item()") != NULL;
        has_recording =
            has_recording || strstr(leak->remedies[i].how, "vramwise doctor run.pickle") != NULL;
    }
    assert_true(has_item && has_recording);
    vw_diagnosis_free(made);
}

static void with_a_card_the_step_is_named_at_which_it_is_full(void **state)
{
    (void)state;
    made_log log;
    make_even_leak(&log, MIB); /* 1 GiB at step 0, 1614 MiB at step 590 */
    vw_diagnosis *made = diagnose_made(&log, 8 * GIB);
    assert_int_equal(made->numbers.total_bytes, 8 * GIB);
    const char *at = strstr(made->sentence, "full at about step ");
    assert_non_null(at);
    long step = strtol(at + strlen("full at about step "), NULL, 10);
    assert_true(step > 7100 && step < 7220); /* 7168 */
    vw_diagnosis_free(made);

    made = diagnose_made(&log, GIB);
    assert_non_null(strstr(made->sentence, "full already"));
    vw_diagnosis_free(made);

    for (size_t i = 0; i < log.count; i++) /* epochs: which step it will be called is not known */
        log.points[i].step = (double)(i % 20);
    made = diagnose_made(&log, 8 * GIB);
    assert_int_equal(made->verdict, VW_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "10.0 MiB per step"));
    assert_non_null(strstr(made->sentence, "steps more"));
    vw_diagnosis_free(made);
}

static void of_several_runs_the_last_is_judged(void **state)
{
    (void)state;
    made_log log;
    make_even_leak(&log, MIB);
    for (size_t i = 0; i < log.count; i++) { /* three, which begin with the same memory */
        log.points[i].step = (double)(i % 20);
        log.points[i].allocated_bytes = GIB + i % 20 * 10 * MIB;
    }
    vw_diagnosis *made = diagnose_made(&log, 0);
    assert_int_equal(made->verdict, VW_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "in the last of 3 runs"));
    assert_non_null(strstr(made->sentence, "10.0 MiB per step"));
    vw_diagnosis_free(made);
    for (size_t i = 40; i < log.count; i++) /* the last one is mended */
        log.points[i].allocated_bytes = GIB;
    made = diagnose_made(&log, 0);
    assert_int_equal(made->verdict, VW_VERDICT_HEALTHY);
    vw_diagnosis_free(made);
}

static void of_several_ranks_the_one_that_grows_most_is_judged(void **state)
{
    (void)state;
    made_log flat, slow, fast;
    make_even_leak(&flat, 0);
    make_even_leak(&slow, MIB);
    make_even_leak(&fast, 2 * MIB);
    vw__step_log log = step_log_of(&flat);
    vw__step_log others[] = {step_log_of(&fast), step_log_of(&slow)};
    log.rank = 0;
    others[0].rank = 1;
    others[1].rank = 2;
    log.others = others;
    log.other_count = 2;
    vw_diagnosis *made = diagnose(&log, 0);
    assert_int_equal(made->verdict, VW_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "on rank 1, of 3 ranks"));
    assert_non_null(strstr(made->sentence, "2.00 MiB per step"));
    assert_int_equal(made->finding_count, 1);
    vw_diagnosis_free(made);
}

static void host_memory_that_grows_is_a_leak_and_called_so(void **state)
{
    (void)state;
    made_log card, host;
    make_even_leak(&card, 0);
    make_even_leak(&host, MIB);
    vw__step_log log = step_log_of(&card), other = step_log_of(&host);
    other.is_host = true;
    log.others = &other;
    log.other_count = 1;
    vw_diagnosis *made = diagnose(&log, 8 * GIB);
    assert_int_equal(made->verdict, VW_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "host memory grows by 1.00 MiB per step"));
    assert_null(strstr(made->sentence, "card")); /* it does not end where the card does */
    assert_int_equal(made->numbers.allocated_bytes, GIB);
    vw_diagnosis_free(made);

    make_even_leak(&card, MIB); /* both: the card's comes first */
    made = diagnose(&log, 0);
    assert_int_equal(made->verdict, VW_VERDICT_LEAK);
    assert_null(strstr(made->sentence, "host memory"));
    assert_int_equal(made->finding_count, 2);
    vw_diagnosis_free(made);

    made = diagnose(&other, 0); /* alone */
    assert_int_equal(made->verdict, VW_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "host memory"));
    assert_int_equal(made->numbers.allocated_bytes, VW_UNKNOWN);
    vw_diagnosis_free(made);
}

static void free_memory_that_falls_is_a_leak(void **state)
{
    (void)state;
    made_log log;
    make_even_leak(&log, MIB);
    for (size_t i = 0; i < log.count; i++)
        log.points[i].allocated_bytes = 20 * GIB - 10 * i * MIB;
    vw__step_log step_log = step_log_of(&log);
    step_log.is_free = true;
    vw_diagnosis *made = diagnose(&step_log, 0);
    assert_int_equal(made->verdict, VW_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "free memory falls by 1.00 MiB per step"));
    assert_non_null(strstr(made->sentence, "the card is full at about step 2"));
    vw_diagnosis_free(made);
}

static void percentages_are_judged_in_percent_until_the_card_is_known(void **state)
{
    (void)state;
    made_log log;
    make_even_leak(&log, 0);
    for (size_t i = 0; i < log.count; i++) /* half a percent a line */
        log.points[i].allocated_bytes = VW__STEP_LOG_SHARE_OF_ALL / 200 * (40 + i);
    vw__step_log step_log = step_log_of(&log);
    step_log.is_share = true;
    vw_diagnosis *made = diagnose(&step_log, 0);
    assert_int_equal(made->verdict, VW_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "0.050 % per step"));
    assert_non_null(strstr(made->sentence, "the card is full at about step 1"));
    assert_int_equal(made->findings[0].bytes, VW_UNKNOWN);
    assert_int_equal(made->numbers.allocated_bytes, VW_UNKNOWN);
    vw_diagnosis_free(made);
    made = diagnose(&step_log, 100 * GIB);
    assert_int_equal(made->verdict, VW_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "51.2 MiB per step"));
    assert_true(made->numbers.allocated_bytes > 49 * GIB);
    vw_diagnosis_free(made);
}

static void one_step_is_a_step_log_that_tells_nothing(void **state)
{
    (void)state;
    vw_diagnosis *made = NULL;
    static const char text[] = "step 50: 3.21 GB\n";
    assert_int_equal(vw_doctor_text(text, sizeof text - 1, NULL, &made), VW_OK);
    assert_int_equal(made->source, VW_SOURCE_STEPS);
    assert_int_equal(made->verdict, VW_VERDICT_UNKNOWN);
    assert_non_null(strstr(made->sentence, "too few steps"));
    vw_diagnosis_free(made);
}

static void a_cache_that_fills_is_told_apart_and_where_it_stays(void **state)
{
    (void)state;
    made_log log = {.count = 100};
    for (size_t i = 0; i < log.count; i++)
        log.points[i] = (vw__step_log_point){(double)i, (i < 40 ? 10 + i : 50) * 100 * MIB,
                                             VW__MODEL_UNKNOWN_BYTES};
    vw_diagnosis *made = diagnose_made(&log, 0);
    assert_int_equal(made->verdict, VW_VERDICT_HEALTHY);
    assert_int_equal(made->confidence, VW_CONFIDENCE_HIGH);
    assert_non_null(strstr(made->sentence, "grows at first"));
    assert_non_null(strstr(made->sentence, "4.88 GiB"));
    assert_int_equal(made->finding_count, 0);
    vw_diagnosis_free(made);
}

static void much_that_is_reserved_and_idle_is_a_finding(void **state)
{
    (void)state;
    static const struct {
        uint64_t reserved_mib;
        bool is_peak, is_found;
    } samples[] = {{1500, false, false},
                   {2500, false, true},
                   {1500, true, true},
                   {1200, true, false},
                   {900, false, false}};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        made_log log = {.count = 40, .is_peak = samples[i].is_peak};
        for (size_t j = 0; j < log.count; j++)
            log.points[j] =
                (vw__step_log_point){(double)j, 1000 * MIB, samples[i].reserved_mib * MIB};
        vw_diagnosis *made = diagnose_made(&log, 0);
        assert_int_equal(made->verdict, VW_VERDICT_HEALTHY);
        assert_int_equal(made->finding_count, samples[i].is_found);
        if (samples[i].is_found) {
            assert_string_equal(made->findings[0].kind, "fragmentation");
            assert_int_equal(made->findings[0].bytes, (samples[i].reserved_mib - 1000) * MIB);
            assert_true(made->findings[0].remedy_count != 0);
        }
        assert_int_equal(made->numbers.reserved_bytes, samples[i].reserved_mib * MIB);
        vw_diagnosis_free(made);
    }
}

static void figures_beyond_reason_are_judged_without_harm(void **state)
{
    (void)state;
    static const double steps[] = {0, 1e-300, 1e18, 5e-324, 1e18, 0, 3};
    static const uint64_t bytes[] = {0, UINT64_C(1) << 60, 1, UINT64_C(1) << 59, 0, 7, 512};
    made_log log = {.count = 50};
    for (size_t i = 0; i < log.count; i++)
        log.points[i] = (vw__step_log_point){steps[i % 7], bytes[i * i % 7], bytes[i % 7]};
    vw_diagnosis_free(diagnose_made(&log, 1));
    for (size_t i = 0; i < log.count; i++) /* no step at all, and growth */
        log.points[i] = (vw__step_log_point){1e-300 * (double)i, i << 50, VW__MODEL_UNKNOWN_BYTES};
    vw_diagnosis *made = diagnose_made(&log, UINT64_MAX);
    assert_int_equal(made->verdict, VW_VERDICT_LEAK);
    vw_diagnosis_free(made);
    log.count = 0;
    made = diagnose_made(&log, 0);
    assert_int_equal(made->verdict, VW_VERDICT_UNKNOWN);
    vw_diagnosis_free(made);
}

static bool diagnose_a_leak(void *context)
{
    const vw__step_log *log = context;
    static vw__diagnosis_draft draft;
    vw_diagnosis *made = NULL;
    vw__diagnosis_init(&draft, VW_SOURCE_STEPS);
    if (vw__doctor_steps(log, NULL, &draft, NULL) != VW_OK) {
        vw__diagnosis_deinit(&draft);
        return false;
    }
    if (vw__diagnosis_finish(&draft, &made) != VW_OK)
        return false;
    vw_diagnosis_free(made);
    return true;
}

static void every_lack_of_host_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    made_log log;
    make_even_leak(&log, MIB);
    for (size_t i = 0; i < log.count; i++)
        log.points[i].reserved_bytes = 10 * GIB;
    vw__step_log step_log = step_log_of(&log);
    vw_test_sweep_host_memory(diagnose_a_leak, &step_log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_growth_is_a_leak_from_six_steps_on),
        cmocka_unit_test(levels_are_quoted_as_logged_with_their_steps),
        cmocka_unit_test(a_leak_comes_with_its_pace_and_what_to_type),
        cmocka_unit_test(with_a_card_the_step_is_named_at_which_it_is_full),
        cmocka_unit_test(of_several_runs_the_last_is_judged),
        cmocka_unit_test(of_several_ranks_the_one_that_grows_most_is_judged),
        cmocka_unit_test(host_memory_that_grows_is_a_leak_and_called_so),
        cmocka_unit_test(free_memory_that_falls_is_a_leak),
        cmocka_unit_test(percentages_are_judged_in_percent_until_the_card_is_known),
        cmocka_unit_test(one_step_is_a_step_log_that_tells_nothing),
        cmocka_unit_test(a_cache_that_fills_is_told_apart_and_where_it_stays),
        cmocka_unit_test(much_that_is_reserved_and_idle_is_a_finding),
        cmocka_unit_test(figures_beyond_reason_are_judged_without_harm),
        cmocka_unit_test(every_lack_of_host_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
