/* test_what_if.c - peaks of runs whose blocks had other sizes. */
#include "analysis/what_if.h"

#include <stdlib.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

#define MIB (UINT64_C(1) << 20)
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A run of ten events in which activations come and go twice, and the optimizer in between.
 *
 *   instant        1    2    3    4    5    6    7    8    9
 *   weights        10   10   10   10   10   10   10   10   10
 *   activations         40   80   40                  20
 *   step work                          60   60              */
static const vw__lifetime written_lifetimes[] = {
    {.size_bytes = 10 * MIB,
     .context = VW__MODEL_NO_CONTEXT,
     .begin = 1,
     .end = VW__LIFETIME_TO_THE_END},
    {.size_bytes = 40 * MIB, .context = VW__MODEL_NO_CONTEXT, .begin = 2, .end = 4},
    {.size_bytes = 40 * MIB, .context = VW__MODEL_NO_CONTEXT, .begin = 3, .end = 5},
    {.size_bytes = 60 * MIB, .context = VW__MODEL_NO_CONTEXT, .begin = 5, .end = 7},
    {.size_bytes = 20 * MIB, .context = VW__MODEL_NO_CONTEXT, .begin = 8, .end = 9},
};
static const uint8_t written_portions[] = {VW__PORTION_WEIGHTS, VW__PORTION_ACTIVATIONS,
                                           VW__PORTION_ACTIVATIONS, VW__PORTION_STEP_WORK,
                                           VW__PORTION_ACTIVATIONS};

typedef struct written_run {
    vw__model_trace trace;
    vw__lifetime lifetimes[COUNT_OF(written_lifetimes)];
    vw__timeline timeline;
    vw__what_if_run run;
} written_run;

/* To be prepared. */
static void write_run(written_run *written)
{
    *written = (written_run){.trace = {.event_count = 10}};
    for (size_t i = 0; i < COUNT_OF(written_lifetimes); i++)
        written->lifetimes[i] = written_lifetimes[i];
    written->timeline = (vw__timeline){.trace = &written->trace,
                                       .lifetimes = written->lifetimes,
                                       .lifetime_count = COUNT_OF(written_lifetimes)};
    written->run = (vw__what_if_run){
        .timeline = &written->timeline, .portion_of = written_portions, .last_instant = UINT32_MAX};
}

static vw__what_if_peak ask(const vw__what_if_run *run, vw__what_if question)
{
    vw__what_if_peak peak;
    assert_int_equal(vw__what_if_ask(run, &question, 1, &peak), VW_OK);
    return peak;
}

static vw__what_if kept(vw__portion portion, uint16_t permille)
{
    vw__what_if change = vw__what_if_nothing();
    change.kept_permille[portion] = permille;
    return change;
}

static void assert_peak(vw__what_if_peak peak, uint64_t mebibytes, uint32_t instant)
{
    assert_int_equal(peak.bytes, mebibytes * MIB);
    assert_int_equal(peak.instant, instant);
}

static void where_nothing_changes_the_peak_is_what_it_was(void **state)
{
    (void)state;
    written_run written;
    write_run(&written);
    assert_int_equal(vw__what_if_prepare(&written.run), VW_OK);
    assert_peak(ask(&written.run, vw__what_if_nothing()), 90, 3);
    vw__what_if_deinit(&written.run);
}

static void with_less_of_one_portion_another_instant_becomes_the_peak(void **state)
{
    (void)state;
    written_run written;
    write_run(&written);
    assert_int_equal(vw__what_if_prepare(&written.run), VW_OK);
    assert_peak(ask(&written.run, kept(VW__PORTION_ACTIVATIONS, 900)), 82, 3);
    assert_peak(ask(&written.run, kept(VW__PORTION_ACTIVATIONS, 500)), 70, 5);
    assert_peak(ask(&written.run, kept(VW__PORTION_ACTIVATIONS, 0)), 70, 5);
    assert_peak(ask(&written.run, kept(VW__PORTION_STEP_WORK, 0)), 90, 3);
    assert_peak(ask(&written.run, kept(VW__PORTION_WEIGHTS, 0)), 80, 3);
    vw__what_if_deinit(&written.run);
}

static void what_comes_on_top_does_so_at_all_times(void **state)
{
    (void)state;
    written_run written;
    vw__what_if change = kept(VW__PORTION_ACTIVATIONS, 500);
    write_run(&written);
    assert_int_equal(vw__what_if_prepare(&written.run), VW_OK);
    change.added_bytes = 7 * MIB;
    assert_peak(ask(&written.run, change), 77, 5);
    change.added_bytes = UINT64_MAX;
    assert_int_equal(ask(&written.run, change).bytes, UINT64_MAX);
    vw__what_if_deinit(&written.run);
}

static void later_instants_are_not_looked_at(void **state)
{
    (void)state;
    written_run written;
    write_run(&written);
    written.run.last_instant = 2;
    assert_int_equal(vw__what_if_prepare(&written.run), VW_OK);
    assert_peak(ask(&written.run, vw__what_if_nothing()), 50, 2);
    vw__what_if_deinit(&written.run);
}

static void a_request_that_failed_counts_at_the_last_instant_and_is_scaled_too(void **state)
{
    (void)state;
    written_run written;
    write_run(&written);
    written.run.last_instant = 8; /* 30 MiB are live */
    written.run.request_bytes = 100 * MIB;
    written.run.request_portion = VW__PORTION_ACTIVATIONS;
    assert_int_equal(vw__what_if_prepare(&written.run), VW_OK);
    assert_peak(ask(&written.run, vw__what_if_nothing()), 130, 8);
    assert_peak(ask(&written.run, kept(VW__PORTION_ACTIVATIONS, 500)), 70, 5);
    assert_peak(ask(&written.run, kept(VW__PORTION_STEP_WORK, 0)), 130, 8);
    vw__what_if_deinit(&written.run);
}

static void a_run_without_blocks_has_no_peak(void **state)
{
    (void)state;
    written_run written;
    write_run(&written);
    written.timeline.lifetime_count = 0;
    assert_int_equal(vw__what_if_prepare(&written.run), VW_OK);
    assert_peak(ask(&written.run, vw__what_if_nothing()), 0, 0);
    vw__what_if_deinit(&written.run);
}

/* The timeline allows sums up to 2^62. */
static void the_largest_sizes_are_scaled_without_overflow(void **state)
{
    (void)state;
    written_run written;
    write_run(&written);
    written.timeline.lifetime_count = 2;
    written.lifetimes[0].size_bytes = UINT64_C(1) << 61;
    written.lifetimes[1].size_bytes = UINT64_C(1) << 60;
    assert_int_equal(vw__what_if_prepare(&written.run), VW_OK);
    vw__what_if change = kept(VW__PORTION_WEIGHTS, 500);
    change.kept_permille[VW__PORTION_ACTIVATIONS] = 500;
    assert_int_equal(ask(&written.run, change).bytes, UINT64_C(3) << 59);
    vw__what_if_deinit(&written.run);
}

/* ---- against plain counting ------------------------------------------------------------------ */

enum { RANDOM_EVENTS = 120, RANDOM_LIFETIMES = 80, RANDOM_QUESTIONS = 9 };

static uint64_t scale(uint64_t size_bytes, uint16_t permille)
{
    return size_bytes * permille / 1000;
}

static vw__what_if_peak count_plainly(const vw__what_if_run *run, const vw__what_if *question)
{
    vw__what_if_peak peak = {0};
    for (uint32_t instant = 0; instant <= run->last_instant; instant++) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < run->timeline->lifetime_count; i++)
            if (vw__lifetime_is_live(&run->timeline->lifetimes[i], instant))
                bytes += scale(run->timeline->lifetimes[i].size_bytes,
                               question->kept_permille[run->portion_of[i]]);
        if (instant == run->last_instant)
            bytes += scale(run->request_bytes, question->kept_permille[run->request_portion]);
        if (bytes > peak.bytes)
            peak = (vw__what_if_peak){bytes, instant};
    }
    peak.bytes += question->added_bytes;
    return peak;
}

static void many_questions_of_random_runs_are_answered_as_by_plain_counting(void **state)
{
    (void)state;
    srand(11);
    for (int round = 0; round < 60; round++) {
        vw__lifetime lifetimes[RANDOM_LIFETIMES];
        uint8_t portions[RANDOM_LIFETIMES];
        vw__what_if questions[RANDOM_QUESTIONS];
        vw__what_if_peak peaks[RANDOM_QUESTIONS];
        for (size_t i = 0; i < RANDOM_LIFETIMES; i++) {
            uint32_t begin = (uint32_t)rand() % RANDOM_EVENTS;
            uint32_t end = begin + 1 + (uint32_t)rand() % 40;
            lifetimes[i] = (vw__lifetime){
                .size_bytes = 1 + (uint64_t)rand() % 100000,
                .context = VW__MODEL_NO_CONTEXT,
                .begin = begin,
                .end = end <= RANDOM_EVENTS ? end : VW__LIFETIME_TO_THE_END,
            };
            portions[i] = (uint8_t)(rand() % VW__PORTION_COUNT);
        }
        for (size_t q = 0; q < RANDOM_QUESTIONS; q++) {
            questions[q].added_bytes = (uint64_t)rand() % 1000;
            for (size_t p = 0; p < VW__PORTION_COUNT; p++)
                questions[q].kept_permille[p] = (uint16_t)(rand() % 1001);
        }
        vw__model_trace trace = {.event_count = RANDOM_EVENTS};
        vw__timeline timeline = {
            .trace = &trace, .lifetimes = lifetimes, .lifetime_count = RANDOM_LIFETIMES};
        vw__what_if_run run = {
            .timeline = &timeline,
            .portion_of = portions,
            .last_instant = (uint32_t)rand() % (RANDOM_EVENTS + 1),
            .request_bytes = (uint64_t)(rand() % 2) * 100000,
            .request_portion = (vw__portion)(rand() % VW__PORTION_COUNT),
        };
        assert_int_equal(vw__what_if_prepare(&run), VW_OK);
        assert_int_equal(vw__what_if_ask(&run, questions, RANDOM_QUESTIONS, peaks), VW_OK);
        for (size_t q = 0; q < RANDOM_QUESTIONS; q++) {
            vw__what_if_peak expected = count_plainly(&run, &questions[q]);
            assert_int_equal(peaks[q].bytes, expected.bytes);
            assert_int_equal(peaks[q].instant, expected.instant);
        }
        vw__what_if_deinit(&run);
    }
}

static bool ask_once(void *context)
{
    written_run *written = context;
    vw__what_if question = vw__what_if_nothing();
    vw__what_if_peak peak;
    write_run(written);
    bool has_worked = vw__what_if_prepare(&written->run) == VW_OK &&
                      vw__what_if_ask(&written->run, &question, 1, &peak) == VW_OK;
    vw__what_if_deinit(&written->run);
    return has_worked;
}

static void every_lack_of_host_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    written_run written;
    vw_test_sweep_host_memory(ask_once, &written);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_nothing_changes_the_peak_is_what_it_was),
        cmocka_unit_test(with_less_of_one_portion_another_instant_becomes_the_peak),
        cmocka_unit_test(what_comes_on_top_does_so_at_all_times),
        cmocka_unit_test(later_instants_are_not_looked_at),
        cmocka_unit_test(a_request_that_failed_counts_at_the_last_instant_and_is_scaled_too),
        cmocka_unit_test(a_run_without_blocks_has_no_peak),
        cmocka_unit_test(the_largest_sizes_are_scaled_without_overflow),
        cmocka_unit_test(many_questions_of_random_runs_are_answered_as_by_plain_counting),
        cmocka_unit_test(every_lack_of_host_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
