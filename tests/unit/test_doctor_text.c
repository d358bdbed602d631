/* test_doctor_text.c - what the doctor makes of an error in a text: verdict, sentence, findings. */
#include "support/diagnosed_text.h"

#include "support/host_memory_sweep.h"

/* Through the scanner of texts, in two pieces. */
static vw_diagnosis *diagnose_text(const char *text)
{
    vw__error_text_scan *scan = NULL;
    vw__error_text_summary summary;
    size_t half = strlen(text) / 2;
    assert_int_equal(vw__error_text_scan_create(&scan), VW_OK);
    assert_int_equal(vw__error_text_scan_feed(scan, text, half), VW_OK);
    assert_int_equal(vw__error_text_scan_feed(scan, text + half, strlen(text) - half), VW_OK);
    assert_int_equal(vw__error_text_scan_finish(scan, &summary), VW_OK);
    vw__error_text_scan_destroy(scan);
    return diagnose(&summary);
}

/* ---- everyday texts -------------------------------------------------------------------------- */

static void the_everyday_message_is_genuine_with_a_little_fragmentation(void **state)
{
    (void)state;
    vw_diagnosis *got = diagnose_text(
        "RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 23.69 GiB total "
        "capacity; 21.34 GiB already allocated; 391.00 MiB free; 22.10 GiB reserved in total by "
        "PyTorch)\n");
    assert_int_equal(got->verdict, VW_VERDICT_GENUINE);
    assert_int_equal(got->confidence, VW_CONFIDENCE_HIGH);
    assert_int_equal(got->error_count, 1);
    assert_int_equal(got->numbers.tried_bytes, 512 * MIB);
    assert_int_equal(got->numbers.device, 0);
    assert_string_equal(got->sentence, "Genuine: with 21.34 GiB in use, 512 MiB more were needed; "
                                       "of the card's 23.69 GiB only 391 MiB were free.");
    assert_string_equal(got->findings[0].kind, "genuine");
    const vw_finding *little = finding_of(got, "fragmentation");
    assert_non_null(little);
    assert_string_equal(little->title,
                        "This request of 512 MiB would have fit in the 778 MiB that lay idle, "
                        "but only 266 MiB would then remain.");
    vw_diagnosis_free(got);
}

/* ---- verdicts of the rule -------------------------------------------------------------------- */

static void fragmentation_comes_with_a_setting_first_and_a_warning_last(void **state)
{
    (void)state;
    vw__error_text_summary summary =
        torch_summary(700 * MIB, gib(24), 100 * MIB, gib(18.27), gib(21.00));
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_FRAGMENTATION);
    assert_string_equal(got->sentence, "Fragmentation: 700 MiB were refused while 2.73 GiB that "
                                       "PyTorch holds lay idle, in pieces too small.");
    const vw_finding *cause = &got->findings[0];
    assert_string_equal(cause->kind, "fragmentation");
    assert_string_equal(cause->remedies[0].how,
                        "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
    assert_int_equal(cause->remedies[0].saves_at_most_bytes, gib(21.00) - gib(18.27));
    assert_non_null(remedy_with(cause, "vramwise tune"));
    assert_null(remedy_with(cause, "max_split_size_mb"));
    const vw_finding *last = &got->findings[got->finding_count - 1];
    assert_string_equal(last->kind, "warning");
    assert_non_null(strstr(last->title, "max_split_size_mb"));
    vw_diagnosis_free(got);
}

static void genuine_offers_a_batch_that_gives_back_what_is_missing(void **state)
{
    (void)state;
    /* 8 GiB in use, 3.5 missing: a quarter gives back 3 of the 4 that may grow, an eighth 3.5 */
    vw__error_text_summary summary = torch_summary(gib(4), gib(10), gib(0.5), gib(8), gib(8));
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_GENUINE);
    const vw_remedy *batch = remedy_with(&got->findings[0], "batch_size // 8");
    assert_non_null(batch);
    assert_non_null(strstr(batch->how, "if i % 8 == 0"));
    assert_int_equal(batch->basis, VW_BASIS_RULE);
    assert_true(batch->saves_bytes < gib(3.5) && batch->saves_at_most_bytes > gib(3.5));
    assert_non_null(remedy_with(&got->findings[0], "autocast"));
    assert_non_null(remedy_with(&got->findings[0], "use_reentrant=False"));
    assert_non_null(remedy_with(&got->findings[0], "vramwise run"));
    const vw_remedy *spill = remedy_with(&got->findings[0], "--spill 7GiB -- ");
    assert_non_null(spill);
    assert_int_equal(spill->basis, VW_BASIS_RULE);
    assert_int_equal(spill->saves_bytes, gib(3.5));
    assert_non_null(strstr(spill->cost, "about 86.6 ms more a step, if "));
    vw_diagnosis_free(got);

    summary.first.tried_bytes = gib(8); /* more than half of what is in use */
    got = diagnose(&summary);
    assert_non_null(strstr(remedy_with(&got->findings[0], "batch_size //")->action, "smallest"));
    vw_diagnosis_free(got);

    summary.first.tried_bytes = gib(9); /* more than all of it: no weight, it shrinks as well */
    got = diagnose(&summary);
    batch = remedy_with(&got->findings[0], "batch_size // 4");
    assert_non_null(batch);
    assert_true(batch->saves_bytes > gib(6.75));
    vw_diagnosis_free(got);
}

static void outside_says_how_much_is_whose(void **state)
{
    (void)state;
    vw__error_text_summary summary = torch_summary(gib(2), gib(24), gib(1), gib(4), gib(4));
    summary.first.process_bytes = gib(4.5);
    summary.first.other_process_bytes = gib(18.5);
    summary.first.other_process_count = 2;
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_OUTSIDE);
    assert_string_equal(
        got->sentence, "Outside: 19.00 GiB of the card's 24.00 GiB are held outside PyTorch, which "
                       "itself held 4.00 GiB when it asked for 2.00 GiB more.");
    const vw_finding *cause = &got->findings[0];
    assert_int_equal(cause->bytes, gib(19));
    assert_int_equal(cause->part_count, 2);
    assert_int_equal(cause->parts[0].bytes, gib(18.5));
    assert_int_equal(cause->parts[1].bytes, gib(0.5));
    assert_non_null(remedy_with(cause, "nvidia-smi"));
    assert_non_null(remedy_with(cause, "CUDA_VISIBLE_DEVICES"));
    vw_diagnosis_free(got);

    summary.first.process_bytes = 0; /* a driver that cannot tell */
    got = diagnose(&summary);
    assert_int_equal(got->findings[0].part_count, 0);
    vw_diagnosis_free(got);
}

static void capped_says_which_fraction_would_do(void **state)
{
    (void)state;
    vw__error_text_summary summary = torch_summary(gib(2), gib(40), gib(29), gib(9.5), gib(9.5));
    summary.first.allowed_bytes = gib(10);
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_CAPPED);
    assert_string_equal(
        got->sentence, "Capped: PyTorch held 9.50 GiB of the 10.00 GiB it is allowed and asked for "
                       "2.00 GiB more, while the card had 29.00 GiB free.");
    const vw_remedy *raise =
        remedy_with(&got->findings[0], "set_per_process_memory_fraction(0.2876)");
    assert_non_null(raise); /* 11.5 of 40 */
    assert_int_equal(raise->saves_bytes, gib(1.5));
    assert_int_equal(raise->saves_at_most_bytes, gib(29));
    assert_int_equal(raise->enough, VW_ENOUGH_YES);
    vw_diagnosis_free(got);
}

/* What others hold is counted; whether all of it can be ended is not known. */
static void ending_others_is_not_enough_where_they_hold_too_little(void **state)
{
    (void)state;
    vw__error_text_summary summary = torch_summary(gib(2), gib(24), gib(1), gib(4), gib(4));
    summary.first.process_bytes = gib(4.5);
    summary.first.other_process_bytes = gib(18.5);
    summary.first.other_process_count = 2;
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(remedy_with(&got->findings[0], "kill PID")->enough, VW_ENOUGH_UNKNOWN);
    vw_diagnosis_free(got);
    summary.first.tried_bytes = gib(15); /* 14 missing, 9 held by others, 10 by the process */
    summary.first.process_bytes = gib(14);
    summary.first.other_process_bytes = gib(9);
    got = diagnose(&summary);
    const vw_finding *outside = finding_of(got, "outside");
    assert_non_null(outside);
    assert_int_equal(remedy_with(outside, "kill PID")->enough, VW_ENOUGH_NO);
    vw_diagnosis_free(got);
}

static void rules_of_thumb_leave_open_whether_they_are_enough(void **state)
{
    (void)state;
    vw__error_text_summary summary = torch_summary(gib(0.5), gib(10), gib(0.25), gib(9), gib(9));
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_GENUINE);
    for (size_t i = 0; i < got->findings[0].remedy_count; i++) {
        assert_int_equal(got->findings[0].remedies[i].enough, VW_ENOUGH_UNKNOWN);
        assert_null(strstr(got->findings[0].remedies[i].action, "enough"));
    }
    vw_diagnosis_free(got);
}

static void reserved_is_the_sum_where_only_the_rest_is_said(void **state)
{
    (void)state;
    vw__error_text_summary summary = torch_summary(gib(2), gib(24), 0, gib(15), NONE);
    summary.first.unallocated_bytes = gib(5);
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->numbers.reserved_bytes, gib(20));
    assert_int_equal(got->verdict, VW_VERDICT_FRAGMENTATION);
    vw_diagnosis_free(got);
}

static void the_parts_of_the_card_add_up_to_it(void **state)
{
    (void)state;
    vw__error_text_summary summary = torch_summary(gib(2), gib(24), gib(1), gib(20), gib(21.5));
    vw_diagnosis *got = diagnose(&summary);
    const vw_finding *genuine = finding_of(got, "genuine");
    assert_non_null(genuine);
    assert_int_equal(genuine->bytes, gib(24));
    assert_int_equal(genuine->part_count, 4); /* diagnose() adds them up */
    assert_non_null(strstr(genuine->title, "Of the card's 24.00 GiB"));
    vw_diagnosis_free(got);

    summary = torch_summary(gib(2), gib(24), gib(4), gib(20), gib(21.5)); /* more than the card */
    got = diagnose(&summary);
    assert_int_equal(got->findings[0].part_count, 0);
    vw_diagnosis_free(got);
}

static void the_warning_about_a_recipe_has_its_command_to_type(void **state)
{
    (void)state;
    vw__error_text_summary summary = torch_summary(gib(2), gib(24), gib(1), gib(12), gib(22));
    vw_diagnosis *got = diagnose(&summary);
    const vw_finding *warning = finding_of(got, "warning");
    assert_non_null(
        remedy_with(warning, "vramwise replay oom.pickle --conf max_split_size_mb:128"));
    for (size_t i = 0; i < warning->evidence_count; i++)
        assert_null(strstr(warning->evidence[i], "vramwise replay"));
    vw_diagnosis_free(got);
}

static void the_title_of_a_limit_says_what_its_bytes_are(void **state)
{
    (void)state;
    vw__error_text_summary summary =
        torch_summary(gib(2), gib(140), gib(119.5), gib(19.5), gib(20));
    summary.first.allowed_bytes = gib(20);
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->findings[0].bytes, gib(120));
    assert_string_equal(got->findings[0].title,
                        "A limit of 20.00 GiB is set for this process, which leaves 120.00 GiB of "
                        "the card's 140.00 GiB out of its reach.");
    vw_diagnosis_free(got);
}

/* ---- several errors -------------------------------------------------------------------------- */

static void of_several_reports_the_first_is_the_cause(void **state)
{
    (void)state;
    vw__error_text_summary summary = torch_summary(gib(2), gib(24), gib(1), gib(22), gib(22));
    summary.report_count = 8;
    summary.rank_count = 4;
    summary.host_count = 1;
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->error_count, 8);
    assert_true(says(got, "8 reports of running out of memory are in the text, from 4 ranks; the "
                          "first is taken as the cause"));
    assert_true(says(got, "1 of them is about the machine's memory"));
    vw_diagnosis_free(got);
}

/* ---- another card ---------------------------------------------------------------------------- */

/* What is printed of it must be possible: live within reserved, everything within the card. */
static void the_numbers_on_another_card_fit_together(void **state)
{
    (void)state;
    vw__error_text_summary summary = torch_summary(gib(2), gib(140), gib(1), gib(120), gib(122));
    summary.first.process_bytes = gib(123);
    vw_diagnosis *got = diagnose_on(&summary, gib(24)); /* 17 GiB of others */
    assert_int_equal(got->verdict, VW_VERDICT_GENUINE);
    assert_int_equal(got->numbers.allocated_bytes, gib(120));
    assert_int_equal(got->numbers.reserved_bytes, gib(120));
    assert_int_equal(got->numbers.process_bytes, gib(121));
    assert_int_equal(got->numbers.free_bytes, NONE);
    assert_non_null(strstr(got->findings[0].evidence[0], "115.00 GiB would be missing"));
    assert_true(says(got, "Judged on a card of 24.00 GiB instead of 140.00 GiB"));
    assert_true(says(got, "2.00 GiB are given back first"));
    vw_diagnosis_free(got);

    got = diagnose_on(&summary, gib(130)); /* in use fits, but not beside the others */
    assert_int_equal(got->verdict, VW_VERDICT_GENUINE);
    assert_int_equal(got->numbers.reserved_bytes, gib(120));
    assert_non_null(strstr(got->sentence, "120.00 GiB in use, beside 17.00 GiB of others"));
    assert_non_null(strstr(got->findings[0].evidence[0], "9.00 GiB would be missing"));
    vw_diagnosis_free(got);

    got = diagnose_on(&summary, gib(138)); /* idle bytes give way */
    assert_int_equal(got->numbers.reserved_bytes, gib(121));
    assert_int_equal(got->numbers.free_bytes, 0);
    assert_non_null(strstr(got->sentence, "Genuine on a card of 138.00 GiB"));
    assert_non_null(strstr(got->sentence, "2.00 GiB more are needed"));
    vw_diagnosis_free(got);
}

static void whatever_card_is_asked_about_reserved_covers_what_is_live(void **state)
{
    (void)state;
    for (uint64_t card = 1; card <= 200; card++) {
        vw__error_text_summary summary = torch_summary(gib(2), gib(80), gib(3), gib(50), gib(61));
        vw_diagnosis *got = diagnose_on(&summary, card * GIB);
        const vw_memory_numbers *numbers = &got->numbers;
        assert_true(numbers->reserved_bytes >= numbers->allocated_bytes);
        assert_int_equal(numbers->total_bytes, card * GIB);
        if (numbers->free_bytes != NONE)
            assert_int_equal(numbers->free_bytes + numbers->reserved_bytes + gib(16),
                             numbers->total_bytes);
        vw_diagnosis_free(got);
    }
}

/* ---- hostile numbers, failing memory --------------------------------------------------------- */

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Of any size, equal ones and the largest included. */
static uint64_t random_size(uint64_t *seed)
{
    static const uint64_t special[] = {0, 1, GIB, 24 * GIB, UINT64_MAX - 1, VW_UNKNOWN};
    uint64_t chosen = next_random(seed) % 12;
    if (chosen < sizeof special / sizeof *special)
        return special[chosen];
    return next_random(seed) >> next_random(seed) % 64;
}

static void any_numbers_at_all_get_an_answer(void **state)
{
    (void)state;
    uint64_t seed = 99;
    for (int i = 0; i < 20000; i++) {
        vw__error_text_summary summary =
            summary_of((vw__error_text_kind)(next_random(&seed) % (VW__ERROR_TEXT_NOT_OOM + 1)));
        vw__error_text_report *first = &summary.first;
        uint64_t *const sizes[] = {
            &first->tried_bytes,         &first->total_bytes,    &first->free_bytes,
            &first->allocated_bytes,     &first->reserved_bytes, &first->unallocated_bytes,
            &first->process_bytes,       &first->allowed_bytes,  &first->private_pool_bytes,
            &first->other_process_bytes, &first->other_bytes,    &first->needed_bytes,
            &first->available_bytes};
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
            *sizes[j] = random_size(&seed);
        first->other_process_count = next_random(&seed) % 3;
        first->says_capped = next_random(&seed) % 16 == 0;
        uint64_t card_bytes = next_random(&seed) % 2 == 0 ? 0 : random_size(&seed);
        vw_diagnosis_free(diagnose_on(&summary, card_bytes));
    }
}

static bool diagnose_with_failing_memory(void *context)
{
    vw__diagnosis_draft draft;
    vw_diagnosis *made = NULL;
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    assert_int_equal(vw__doctor_text(context, NULL, &draft), VW_OK);
    bool is_done = vw__diagnosis_finish(&draft, &made) == VW_OK;
    vw_diagnosis_free(made);
    return is_done;
}

static void without_host_memory_the_diagnosis_fails_cleanly(void **state)
{
    (void)state;
    vw__error_text_summary summary =
        torch_summary(700 * MIB, gib(24), 100 * MIB, gib(18.27), gib(21));
    vw_test_sweep_host_memory(diagnose_with_failing_memory, &summary);
    summary = summary_of(VW__ERROR_TEXT_NCCL);
    vw_test_sweep_host_memory(diagnose_with_failing_memory, &summary);
    summary = summary_of(VW__ERROR_TEXT_HOST_SHARED);
    vw_test_sweep_host_memory(diagnose_with_failing_memory, &summary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_everyday_message_is_genuine_with_a_little_fragmentation),
        cmocka_unit_test(fragmentation_comes_with_a_setting_first_and_a_warning_last),
        cmocka_unit_test(genuine_offers_a_batch_that_gives_back_what_is_missing),
        cmocka_unit_test(outside_says_how_much_is_whose),
        cmocka_unit_test(capped_says_which_fraction_would_do),
        cmocka_unit_test(ending_others_is_not_enough_where_they_hold_too_little),
        cmocka_unit_test(rules_of_thumb_leave_open_whether_they_are_enough),
        cmocka_unit_test(reserved_is_the_sum_where_only_the_rest_is_said),
        cmocka_unit_test(the_parts_of_the_card_add_up_to_it),
        cmocka_unit_test(the_warning_about_a_recipe_has_its_command_to_type),
        cmocka_unit_test(the_title_of_a_limit_says_what_its_bytes_are),
        cmocka_unit_test(of_several_reports_the_first_is_the_cause),
        cmocka_unit_test(the_numbers_on_another_card_fit_together),
        cmocka_unit_test(whatever_card_is_asked_about_reserved_covers_what_is_live),
        cmocka_unit_test(any_numbers_at_all_get_an_answer),
        cmocka_unit_test(without_host_memory_the_diagnosis_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
