/* test_check_repetitions.c - a guard is silent while nothing changed, and sees one percent.
 *
 * A made-up training program runs through a real pool with a recorder: weights, a forward and a
 * backward pass, an optimizer, and a second thread that brings batches on a stream of its own. From
 * one repetition to the next all that a guard must not depend on differs: the order in which the
 * two threads run, when the device is done with a batch, the allocator's settings and so its
 * addresses and what it reserves, a call of empty_cache() or none, and the clock. */
#include "vramwise/check.h"

#include <string.h>

#include "base/byte_buffer.h"
#include "support/cmocka_here.h"
#include "support/recorder_fixture.h"

#define TORCH "/usr/lib/python3/site-packages/torch/"

enum { REPETITIONS = 20, STEPS = 12, LAYERS = 10, MOST_AHEAD = 2, LOADER_STREAM = 7 };

/* The program, as it is in the repository. */
typedef struct program {
    uint64_t activation_bytes;
    uint64_t kept_bytes;   /* of a tensor that somebody added and keeps alive; 0 = none */
    uint64_t leaked_bytes; /* that stay with each step */
    unsigned copies;       /* of each activation, made and freed at once */
} program;

static const program unchanged = {.activation_bytes = 6 * VW_TEST_MIB + 512 * 5};

typedef struct repetition {
    vw_test_recorded recorded;
    const program *program;
    uint64_t random;
    vw_device_ptr batches[STEPS];
    unsigned brought, used; /* batches */
    vw_device_ptr raw;      /* of the next batch; 0 = none */
} repetition;

static uint64_t draw(repetition *run, uint64_t below)
{
    run->random = run->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (run->random >> 33) % below;
}

static vw_device_ptr request(repetition *run, uint64_t size_bytes, vw_stream stream,
                             const vw_stack_frame *frames, size_t frame_count)
{
    uint64_t tag;
    vw_device_ptr address;
    vw_test_must(vw_recorder_add_stack(run->recorded.recorder, frames, frame_count, &tag));
    const vw_alloc_request wanted = {
        .struct_size = sizeof wanted, .size_bytes = size_bytes, .stream = stream, .tag = tag};
    vw_test_must(vw_alloc_with(run->recorded.test.pool, &wanted, &address));
    return address;
}

/* The other thread, if it is its turn: one request or free, of a raw batch or the batch. */
static void load(repetition *run)
{
    static const vw_stack_frame frames[] = {{"bring", "/home/one/loader.py", 31},
                                            {"run", "/usr/lib/python3/threading.py", 900}};
    bool has_room = run->brought < STEPS && run->brought - run->used < MOST_AHEAD;
    if (draw(run, 8) == 0)
        vw_test_must(vw_device_complete(run->recorded.test.device, 0));
    if (draw(run, 4) != 0)
        return;
    if (run->raw == 0 && has_room) {
        run->raw = request(run, 7 * VW_TEST_MIB, LOADER_STREAM, frames, 2);
    } else if (run->raw != 0) {
        run->batches[run->brought++] = request(run, 3 * VW_TEST_MIB, LOADER_STREAM, frames, 2);
        vw_test_must(vw_free(run->recorded.test.pool, run->raw));
        run->raw = 0;
    }
}

/* A request of the main thread, before which the other one may run. */
static vw_device_ptr ask(repetition *run, uint64_t size_bytes, const char *function, uint32_t line)
{
    const vw_stack_frame frames[] = {{"linear", TORCH "nn/functional.py", 10},
                                     {function, "/home/one/train.py", line},
                                     {"main", "/home/one/train.py", 99}};
    load(run);
    return request(run, size_bytes, 0, frames, 3);
}

static vw_device_ptr ask_optimizer(repetition *run, uint64_t size_bytes)
{
    static const vw_stack_frame frames[] = {{"step", TORCH "optim/adam.py", 238},
                                            {"main", "/home/one/train.py", 90}};
    load(run);
    return request(run, size_bytes, 0, frames, 2);
}

static void let_go(repetition *run, vw_device_ptr address)
{
    vw_test_must(vw_free(run->recorded.test.pool, address));
}

static void step(repetition *run, unsigned number)
{
    vw_device_ptr activations[LAYERS], gradients[LAYERS];
    while (run->brought <= number)
        load(run);
    for (unsigned i = 0; i < LAYERS; i++) {
        activations[i] = ask(run, run->program->activation_bytes, "forward", 40 + i);
        for (unsigned copy = 0; copy < run->program->copies; copy++)
            let_go(run, ask(run, VW_TEST_MIB, "forward", 40 + i));
    }
    for (unsigned i = LAYERS; i-- > 0;) {
        gradients[i] = ask(run, 2 * VW_TEST_MIB, "backward", 60);
        let_go(run, activations[i]);
    }
    for (unsigned i = 0; i < LAYERS; i++) {
        let_go(run, ask_optimizer(run, VW_TEST_MIB));
        let_go(run, gradients[i]);
    }
    if (run->program->leaked_bytes != 0)
        (void)ask(run, run->program->leaked_bytes, "remember", 70);
    vw_test_must(vw_record_stream(run->recorded.test.pool, run->batches[number], 0));
    let_go(run, run->batches[number]);
    run->used++;
}

static void run_program(repetition *run)
{
    for (unsigned i = 0; i < LAYERS; i++)
        (void)ask(run, 2 * VW_TEST_MIB, "build", 20);
    if (run->program->kept_bytes != 0)
        (void)ask(run, run->program->kept_bytes, "added", 25);
    for (unsigned i = 0; i < STEPS; i++)
        step(run, i);
}

static vw_recording *record(const program *what, uint64_t seed)
{
    static const char *const confs[] = {"", "expandable_segments:True", "max_split_size_mb:32"};
    const vw_recorder_options options = {.struct_size = sizeof options, .stacks = VW_STACKS_CALLER};
    const vw_test_pool_setup setup = {.conf = confs[seed % 3], .manual_streams = true};
    repetition run = {.program = what, .random = seed * 7919 + 1};
    vw__byte_buffer file;
    vw_recording *recording;
    vw_test_recorded_open(&run.recorded, &options, &setup);
    run_program(&run);
    vw__byte_buffer_init(&file);
    vw_test_must(
        vw_recorder_write_to(run.recorded.recorder, run.recorded.test.pool, vw_test_append, &file));
    vw_test_recorded_close(&run.recorded);
    vw_test_must(vw_recording_open_memory(file.bytes, file.size_bytes, NULL, &recording));
    vw__byte_buffer_deinit(&file);
    return recording;
}

static vw_baseline *measure(const program *what, uint64_t seed)
{
    vw_recording *recording = record(what, seed);
    vw_baseline *baseline;
    vw_test_must(vw_baseline_make(recording, NULL, &baseline));
    vw_recording_close(recording);
    return baseline;
}

static vw_check_report *compare(const vw_baseline *before, const vw_baseline *now)
{
    vw_check_report *report;
    vw_test_must(vw_baselines_compare(before, now, NULL, &report));
    return report;
}

static void fail_with(const vw_check_report *report, uint64_t seed)
{
    for (size_t i = 0; i < VW_CHECK_METRIC_COUNT; i++)
        if (report->figures[i].is_worse)
            fail_msg("repetition %llu: %s: %llu, %llu in the baseline", (unsigned long long)seed,
                     vw_check_metric_name((vw_check_metric)i),
                     (unsigned long long)report->figures[i].now,
                     (unsigned long long)report->figures[i].before);
}

/* Else the test shows nothing. */
static void the_peak_of_all_streams_together_varies(void **state)
{
    (void)state;
    uint64_t least = UINT64_MAX, most = 0;
    for (uint64_t seed = 1; seed <= REPETITIONS; seed++) {
        const vw_stats_options options = {.struct_size = sizeof options, .without_summary = true};
        vw_recording *recording = record(&unchanged, seed);
        vw_recording_stats *stats;
        vw_test_must(vw_recording_stats_make(recording, &options, &stats));
        uint64_t peak = stats->devices[0].peak.live_bytes;
        least = peak < least ? peak : least;
        most = peak > most ? peak : most;
        vw_recording_stats_free(stats);
        vw_recording_close(recording);
    }
    assert_true(most - least > most / 50);
}

static void twenty_repetitions_raise_no_alarm(void **state)
{
    (void)state;
    vw_baseline *first = measure(&unchanged, 0);
    assert_int_equal(first->values[VW_CHECK_LEAK], 0); /* judged, and nothing leaks */
    for (uint64_t seed = 1; seed <= REPETITIONS; seed++) {
        vw_baseline *now = measure(&unchanged, seed);
        vw_check_report *report = compare(first, now);
        fail_with(report, seed);
        assert_false(report->is_worse);
        vw_check_report_free(report);
        vw_baseline_free(now);
    }
    vw_baseline_free(first);
}

/* Each repetition as the baseline of the next: no lucky first. */
static void any_repetition_may_be_the_baseline(void **state)
{
    (void)state;
    vw_baseline *before = measure(&unchanged, 1);
    for (uint64_t seed = 2; seed <= REPETITIONS; seed++) {
        vw_baseline *now = measure(&unchanged, seed);
        vw_check_report *report = compare(before, now);
        fail_with(report, seed);
        vw_check_report_free(report);
        vw_baseline_free(before);
        before = now;
    }
    vw_baseline_free(before);
}

static void assert_found(const program *changed, vw_check_metric metric, const char *site)
{
    for (uint64_t seed = 1; seed <= REPETITIONS; seed++) {
        vw_baseline *first = measure(&unchanged, seed - 1), *now = measure(changed, seed);
        vw_check_report *report = compare(first, now);
        bool is_named = false;
        assert_true(report->is_worse);
        if (!report->figures[metric].is_worse)
            fail_msg("repetition %llu: %s is missed", (unsigned long long)seed,
                     vw_check_metric_name(metric));
        for (size_t i = 0; i < report->site_count && i < 3; i++)
            is_named |= strcmp(report->sites[i].site, site) == 0;
        if (!is_named)
            fail_msg("repetition %llu: %s is not named", (unsigned long long)seed, site);
        vw_check_report_free(report);
        vw_baseline_free(now);
        vw_baseline_free(first);
    }
}

static void one_percent_more_is_found_in_every_repetition(void **state)
{
    (void)state;
    program changed = unchanged;
    changed.activation_bytes += changed.activation_bytes / 100; /* less than 1 % of the peak */
    assert_found(&changed, VW_CHECK_PEAK, "train.py forward");

    changed = unchanged;
    vw_baseline *first = measure(&unchanged, 0);
    changed.kept_bytes = first->values[VW_CHECK_PEAK] / 100;
    vw_baseline_free(first);
    assert_found(&changed, VW_CHECK_PEAK, "train.py added");
}

static void other_growth_is_found_in_every_repetition(void **state)
{
    (void)state;
    program changed = unchanged;
    changed.copies = 1;
    assert_found(&changed, VW_CHECK_ALLOCATIONS, "train.py forward");
    changed = unchanged;
    changed.leaked_bytes = VW_TEST_MIB;
    assert_found(&changed, VW_CHECK_LEAK, "train.py remember");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_peak_of_all_streams_together_varies),
        cmocka_unit_test(twenty_repetitions_raise_no_alarm),
        cmocka_unit_test(any_repetition_may_be_the_baseline),
        cmocka_unit_test(one_percent_more_is_found_in_every_repetition),
        cmocka_unit_test(other_growth_is_found_in_every_repetition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
