/* test_doctor_failure.c - the numbers of a failure: as PyTorch printed them, or on another card. */
#include "doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>

#include "doctor/numbers.h"

#include "support/cmocka_here.h"
#include "support/doctor_case.h"
#include "support/hand_made_recording.h"
#include "support/host_memory_sweep.h"
#include "support/stored_recordings.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* ---- recordings of PyTorch's, with what it printed ------------------------------------------- */

static char *read_text(const char *path)
{
    enum { MOST = 1 << 16 };
    char *text = calloc(1, MOST);
    FILE *file = fopen(path, "rb");
    assert_non_null(text);
    assert_non_null(file);
    assert_true(fread(text, 1, MOST - 1, file) > 0);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void expect_words(const char *name, const char *text, const char *format, uint64_t bytes)
{
    char words[128], size[32];
    if (bytes > GIB)
        (void)snprintf(size, sizeof size, "%.2f GiB", (double)bytes / (double)GIB);
    else
        (void)snprintf(size, sizeof size, "%.2f MiB", (double)bytes / (double)MIB);
    (void)snprintf(words, sizeof words, format, size);
    if (strstr(text, words) == NULL)
        fail_msg("%s: \"%s\" is not what PyTorch printed", name, words);
}

typedef struct stored_failure {
    const char *name;
    double cap_gib;
    vw_verdict verdict, verdict_on_card; /* by the numbers; on a card of that size */
} stored_failure;

static const stored_failure stored_failures[] = {
    {"oom_genuine.native", 8, VW_VERDICT_CAPPED, VW_VERDICT_GENUINE},
    {"oom_genuine.expand", 8, VW_VERDICT_CAPPED, VW_VERDICT_GENUINE},
    {"oom_varlen.gc6", 11, VW_VERDICT_CAPPED, VW_VERDICT_GENUINE},
    {"oom_varlen.pow2", 11, VW_VERDICT_CAPPED, VW_VERDICT_GENUINE},
    {"oom_varlen.split128", 11, VW_VERDICT_CAPPED, VW_VERDICT_GENUINE},
    {"oom_fragmented.native", 8, VW_VERDICT_FRAGMENTATION, VW_VERDICT_FRAGMENTATION},
    {"oom_fragmented.expand", 8, VW_VERDICT_FRAGMENTATION, VW_VERDICT_FRAGMENTATION},
    {"oom_fragmented.gc6", 8, VW_VERDICT_FRAGMENTATION, VW_VERDICT_FRAGMENTATION},
    {"oom_fragmented.pow2", 8, VW_VERDICT_FRAGMENTATION, VW_VERDICT_FRAGMENTATION},
    {"oom_fragmented.split128", 8, VW_VERDICT_FRAGMENTATION, VW_VERDICT_FRAGMENTATION},
};

enum { STORED_FAILURES = sizeof stored_failures / sizeof stored_failures[0] };

static void open_failure(const stored_failure *expected, stored_recording *out)
{
    static char name[128]; /* kept by `out` */
    (void)snprintf(name, sizeof name, "%s%s", expected->name, STORED_ENDING);
    open_stored(name, out);
}

static void the_numbers_are_those_that_pytorch_printed(void **state)
{
    (void)state;
    for (size_t i = 0; i < STORED_FAILURES; i++) {
        const stored_failure *expected = &stored_failures[i];
        stored_recording stored;
        doctor_case made;
        open_failure(expected, &stored);
        doctor_case_open(&made, stored.recording, 0);
        const vw__doctor_failure *failure = &made.facts.failure;
        const vw_memory_numbers *numbers = &failure->numbers;
        char *text = read_text(stored.json_path);
        assert_true(failure->has_happened);
        assert_false(failure->is_replayed);
        assert_int_equal(failure->failure_count, 1);
        assert_int_equal(made.facts.trace->events[failure->event].action, VW_ACTION_OOM);
        expect_words(expected->name, text, "Tried to allocate %s.", numbers->tried_bytes);
        expect_words(expected->name, text, "of which %s is free", numbers->free_bytes);
        expect_words(expected->name, text, "%s is allocated by PyTorch", numbers->allocated_bytes);
        expect_words(expected->name, text, "%s is reserved by PyTorch but unallocated",
                     numbers->reserved_bytes - numbers->allocated_bytes);
        free(text);
        doctor_case_close(&made);
        vw_recording_close(stored.recording);
    }
}

static void a_limit_is_concluded_where_one_explains_everything(void **state)
{
    (void)state;
    for (size_t i = 0; i < STORED_FAILURES; i++) {
        const stored_failure *expected = &stored_failures[i];
        stored_recording stored;
        doctor_case made;
        open_failure(expected, &stored);
        doctor_case_open(&made, stored.recording, 0);
        const vw_memory_numbers *numbers = &made.facts.failure.numbers;
        uint64_t cap_bytes = (uint64_t)(expected->cap_gib * (double)GIB);
        assert_true(numbers->allowed_bytes != VW_UNKNOWN);
        assert_true(numbers->allowed_bytes >= cap_bytes / 10 * 9); /* half way: close to it */
        assert_true(numbers->allowed_bytes <= cap_bytes / 10 * 11);
        assert_true(numbers->allowed_bytes < numbers->reserved_bytes + numbers->tried_bytes);
        assert_true(has_reason(&made.draft, "a limit was set"));
        assert_int_equal(vw__numbers_judge(numbers, NULL).verdict, expected->verdict);
        doctor_case_close(&made);
        vw_recording_close(stored.recording);
    }
}

static void a_run_that_had_to_give_its_cache_back_is_close_to_its_limit(void **state)
{
    (void)state;
    static const char *const names[] = {"oom_varlen.split128", "oom_varlen.pow2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const stored_failure failure = {.name = names[i]};
        stored_recording stored;
        partial_recording part;
        doctor_case made;
        size_t end = 0;
        open_failure(&failure, &stored);
        const vw__model_trace *trace = &stored.recording->model->traces[0];
        while (trace->events[end].action != VW_ACTION_OOM)
            end++;
        while (trace->events[end - 1].action != VW_ACTION_ALLOC) /* nothing of the failed request */
            end--;
        make_partial(&stored, 0, end, &part);
        doctor_case_open(&made, &part.recording, 0);
        assert_false(made.facts.failure.has_happened);
        assert_non_null(vw__diagnosis_find(&made.draft, "near-limit"));
        doctor_case_close(&made);
        vw_recording_close(stored.recording);
    }
}

static void a_run_that_was_never_refused_is_not(void **state)
{
    (void)state;
    stored_recording stored;
    doctor_case made;
    open_stored("train_eval_phases.native" STORED_ENDING, &stored); /* calls empty_cache() */
    doctor_case_open(&made, stored.recording, 0);
    assert_null(vw__diagnosis_find(&made.draft, "near-limit"));
    doctor_case_close(&made);
    vw_recording_close(stored.recording);
}

static void on_a_card_as_large_as_the_limit_there_is_no_limit_to_blame(void **state)
{
    (void)state;
    for (size_t i = 0; i < STORED_FAILURES; i++) {
        const stored_failure *expected = &stored_failures[i];
        stored_recording stored;
        doctor_case made;
        uint64_t card_bytes = (uint64_t)(expected->cap_gib * (double)GIB);
        open_failure(expected, &stored);
        doctor_case_open(&made, stored.recording, card_bytes);
        const vw__doctor_failure *failure = &made.facts.failure;
        assert_true(failure->has_happened);
        assert_true(failure->is_replayed);
        assert_int_equal(failure->numbers.total_bytes, card_bytes);
        assert_int_equal(failure->numbers.free_bytes + failure->numbers.reserved_bytes, card_bytes);
        assert_true(failure->numbers.allowed_bytes == VW_UNKNOWN);
        assert_int_equal(vw__numbers_judge(&failure->numbers, NULL).verdict,
                         expected->verdict_on_card);
        doctor_case_close(&made);
        vw_recording_close(stored.recording);
    }
}

static void on_a_card_with_room_nothing_fails(void **state)
{
    (void)state;
    stored_recording stored;
    doctor_case made;
    open_stored("oom_genuine.native.pickle.xz", &stored);
    doctor_case_open(&made, stored.recording, 24 * GIB);
    assert_false(made.facts.failure.has_happened);
    assert_int_equal(made.facts.failure.failure_count, 1); /* in the recording */
    assert_true(has_reason(&made.draft, "nothing fails"));
    doctor_case_close(&made);
    vw_recording_close(stored.recording);
}

static void a_run_that_never_failed_fails_on_a_card_that_is_too_small(void **state)
{
    (void)state;
    stored_recording stored;
    doctor_case made;
    open_stored("train_eval_phases.native.pickle.xz", &stored);
    doctor_case_open(&made, stored.recording, 0);
    assert_false(made.facts.failure.has_happened);
    assert_int_equal(made.facts.failure.failure_count, 0);
    doctor_case_close(&made);
    doctor_case_open(&made, stored.recording, 3 * GIB);
    const vw__doctor_failure *failure = &made.facts.failure;
    assert_true(failure->has_happened);
    assert_true(failure->instant <= failure->event);
    assert_true(failure->numbers.free_bytes < failure->numbers.tried_bytes);
    assert_int_equal(vw__numbers_judge(&failure->numbers, NULL).verdict, VW_VERDICT_GENUINE);
    doctor_case_close(&made);
    vw_recording_close(stored.recording);
}

static void what_was_there_before_the_trace_can_be_too_much_for_a_card(void **state)
{
    (void)state;
    stored_recording stored;
    doctor_case made;
    open_recording_in(STORED_RECORDINGS "/shapes", "late.shapes.pickle.xz", &stored);
    doctor_case_open(&made, stored.recording, 4 * MIB);
    assert_true(made.facts.failure.has_happened);
    assert_int_equal(made.facts.failure.event, 0);
    assert_int_equal(made.facts.failure.instant, 0);
    doctor_case_close(&made);
    vw_recording_close(stored.recording);
}

/* ---- by hand --------------------------------------------------------------------------------- */

/* 40 MiB live of 60 reserved, and a request for 30 MiB that is refused with `free_bytes` free. */
static void record_refusal(hand_made_recording *hand, uint64_t free_bytes)
{
    record_new(hand, A, 20 * MIB, 20 * MIB);
    record_new(hand, A + 20 * MIB, 40 * MIB, 40 * MIB);
    record_free(hand, A, 20 * MIB);
    record_event(hand, VW_ACTION_OOM, free_bytes, 30 * MIB);
}

static void a_full_device_needs_no_limit(void **state)
{
    (void)state;
    hand_made_recording hand;
    doctor_case made;
    record_begin(&hand);
    record_refusal(&hand, 10 * MIB);
    doctor_case_open(&made, record_end(&hand), 0);
    const vw_memory_numbers *numbers = &made.facts.failure.numbers;
    assert_int_equal(numbers->tried_bytes, 30 * MIB);
    assert_int_equal(numbers->free_bytes, 10 * MIB);
    assert_int_equal(numbers->allocated_bytes, 40 * MIB);
    assert_int_equal(numbers->reserved_bytes, 60 * MIB);
    assert_true(numbers->allowed_bytes == VW_UNKNOWN);
    assert_true(numbers->total_bytes == VW_UNKNOWN);
    assert_int_equal(numbers->device, 0);
    assert_int_equal(made.facts.failure.instant, 6);
    assert_false(has_reason(&made.draft, "limit"));
    doctor_case_close(&made);
    record_dispose(&hand);
}

static void a_refusal_below_what_was_granted_later_is_no_limits(void **state)
{
    (void)state;
    hand_made_recording hand;
    doctor_case made;
    record_begin(&hand);
    record_refusal(&hand, GIB);
    record_new(&hand, A + 100 * MIB, 80 * MIB, 80 * MIB); /* 140 in all: more than was refused */
    doctor_case_open(&made, record_end(&hand), 0);
    assert_true(made.facts.failure.numbers.allowed_bytes == VW_UNKNOWN);
    assert_true(has_reason(&made.draft, "no limit explains it"));
    assert_int_equal(vw__numbers_judge(&made.facts.failure.numbers, NULL).verdict,
                     VW_VERDICT_UNKNOWN); /* the card is not known: refused, or held by others */
    doctor_case_close(&made);
    record_dispose(&hand);
}

static void what_waits_for_other_streams_is_not_allocated_any_more(void **state)
{
    (void)state;
    hand_made_recording hand;
    doctor_case made;
    record_begin(&hand);
    record_new(&hand, A, 20 * MIB, 20 * MIB);
    record_new(&hand, A + 20 * MIB, 40 * MIB, 40 * MIB);
    record_event(&hand, VW_ACTION_FREE_REQUESTED, A, 20 * MIB);
    record_event(&hand, VW_ACTION_OOM, 0, 30 * MIB);
    record_event(&hand, VW_ACTION_FREE_COMPLETED, A, 20 * MIB);
    doctor_case_open(&made, record_end(&hand), 0);
    assert_int_equal(made.facts.failure.numbers.allocated_bytes, 40 * MIB);
    assert_int_equal(made.facts.failure.numbers.reserved_bytes, 60 * MIB);
    doctor_case_close(&made);
    record_dispose(&hand);
}

static void the_first_of_several_failures_is_judged_and_another_kind_is_named(void **state)
{
    (void)state;
    hand_made_recording hand;
    doctor_case made;
    record_begin(&hand);
    record_refusal(&hand, GIB);
    record_event(&hand, VW_ACTION_OOM, GIB, 16 * MIB); /* this would have fit in what is idle */
    doctor_case_open(&made, record_end(&hand), 0);
    assert_int_equal(made.facts.failure.failure_count, 2);
    assert_int_equal(made.facts.failure.event, 6);
    assert_int_equal(made.facts.failure.numbers.tried_bytes, 30 * MIB);
    assert_int_equal(vw__numbers_judge(&made.facts.failure.numbers, NULL).verdict,
                     VW_VERDICT_CAPPED);
    assert_true(has_reason(&made.draft, "is another case: fragmentation"));
    doctor_case_close(&made);
    record_dispose(&hand);

    record_begin(&hand);
    record_refusal(&hand, GIB);
    record_event(&hand, VW_ACTION_OOM, GIB, 32 * MIB);
    doctor_case_open(&made, record_end(&hand), 0);
    assert_true(has_reason(&made.draft, "of the same kind"));
    doctor_case_close(&made);
    record_dispose(&hand);
}

/* An expandable segment serves it with what is idle and a few pages; a limit counts all of it. */
static void what_only_just_fits_on_a_card_has_failed_there(void **state)
{
    (void)state;
    hand_made_recording hand;
    doctor_case made;
    record_begin(&hand);
    record_conf(&hand, "expandable_segments:True");
    record_event(&hand, VW_ACTION_SEGMENT_MAP, A, 100 * MIB);
    record_event(&hand, VW_ACTION_ALLOC, A, 60 * MIB);
    record_event(&hand, VW_ACTION_ALLOC, A + 60 * MIB, 40 * MIB);
    record_free(&hand, A + 60 * MIB, 40 * MIB);
    record_event(&hand, VW_ACTION_OOM, GIB, 80 * MIB);
    const vw_recording *recording = record_end(&hand);
    doctor_case_open(&made, recording, 160 * MIB);
    assert_true(made.facts.failure.has_happened);
    assert_true(made.facts.failure.is_replayed);
    assert_true(has_reason(&made.draft, "the next one like it fails"));
    assert_int_equal(vw__numbers_judge(&made.facts.failure.numbers, NULL).verdict,
                     VW_VERDICT_GENUINE);
    doctor_case_close(&made);
    doctor_case_open(&made, recording, 400 * MIB);
    assert_false(made.facts.failure.has_happened);
    doctor_case_close(&made);
    record_dispose(&hand);
}

/* What is idle there would do for another one like it. */
static void what_fits_with_room_for_another_has_not_failed(void **state)
{
    (void)state;
    hand_made_recording hand;
    doctor_case made;
    record_begin(&hand);
    record_conf(&hand, "expandable_segments:True");
    record_event(&hand, VW_ACTION_SEGMENT_MAP, A, 200 * MIB);
    record_event(&hand, VW_ACTION_ALLOC, A, 60 * MIB);
    record_event(&hand, VW_ACTION_ALLOC, A + 60 * MIB, 140 * MIB);
    record_free(&hand, A + 60 * MIB, 140 * MIB);
    record_event(&hand, VW_ACTION_OOM, GIB, 80 * MIB);
    doctor_case_open(&made, record_end(&hand), 230 * MIB);
    assert_false(made.facts.failure.has_happened);
    doctor_case_close(&made);
    record_dispose(&hand);
}

/* ---- host memory ----------------------------------------------------------------------------- */

typedef struct sweep {
    const vw_recording *recording;
    uint64_t card_bytes;
} sweep;

static bool find_failure(void *context)
{
    const sweep *what = context;
    doctor_case made;
    bool is_done = doctor_case_try_open(&made, what->recording, what->card_bytes) &&
                   vw__doctor_find_failure(&made.input, &made.facts, &made.result) == VW_OK &&
                   !made.draft.has_failed;
    doctor_case_close(&made);
    return is_done;
}

static void every_lack_of_host_memory_is_reported(void **state)
{
    (void)state;
    hand_made_recording hand;
    record_begin(&hand);
    record_refusal(&hand, GIB);
    record_event(&hand, VW_ACTION_OOM, GIB, 16 * MIB);
    sweep what = {.recording = record_end(&hand)};
    assert_true(find_failure(&what)); /* the registry of devices is made once */
    vw_test_sweep_host_memory(find_failure, &what);
    what.card_bytes = 70 * MIB;
    assert_true(find_failure(&what));
    vw_test_sweep_host_memory(find_failure, &what);
    record_dispose(&hand);
}

/* Another process may hold the card: its size is not recorded. */
static void more_than_was_left_is_not_surely_too_large(void **state)
{
    (void)state;
    hand_made_recording hand;
    vw_diagnosis *diagnosis = NULL;
    record_begin(&hand);
    record_new(&hand, A, 20 * MIB, 20 * MIB);
    record_event(&hand, VW_ACTION_OOM, 10 * MIB, 40 * MIB);
    assert_int_equal(vw_doctor_recording(record_end(&hand), NULL, &diagnosis), VW_OK);
    assert_int_equal(diagnosis->confidence, VW_CONFIDENCE_LOW);
    assert_non_null(strstr(diagnosis->reasoning[diagnosis->reasoning_count - 1], "others"));
    vw_diagnosis_free(diagnosis);
    record_dispose(&hand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_numbers_are_those_that_pytorch_printed),
        cmocka_unit_test(a_limit_is_concluded_where_one_explains_everything),
        cmocka_unit_test(a_run_that_had_to_give_its_cache_back_is_close_to_its_limit),
        cmocka_unit_test(a_run_that_was_never_refused_is_not),
        cmocka_unit_test(on_a_card_as_large_as_the_limit_there_is_no_limit_to_blame),
        cmocka_unit_test(on_a_card_with_room_nothing_fails),
        cmocka_unit_test(a_run_that_never_failed_fails_on_a_card_that_is_too_small),
        cmocka_unit_test(what_was_there_before_the_trace_can_be_too_much_for_a_card),
        cmocka_unit_test(a_full_device_needs_no_limit),
        cmocka_unit_test(a_refusal_below_what_was_granted_later_is_no_limits),
        cmocka_unit_test(what_waits_for_other_streams_is_not_allocated_any_more),
        cmocka_unit_test(the_first_of_several_failures_is_judged_and_another_kind_is_named),
        cmocka_unit_test(what_only_just_fits_on_a_card_has_failed_there),
        cmocka_unit_test(what_fits_with_room_for_another_has_not_failed),
        cmocka_unit_test(every_lack_of_host_memory_is_reported),
        cmocka_unit_test(more_than_was_left_is_not_surely_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
