/* test_doctor_steps.c - leaks are found in step logs, and nothing else is called one.
 *
 * Real logs are few and known; so most are simulated, from a seed: loads, caches, sawteeth and
 * leaks of many sizes. What is asked of each kind is stated beside it. */
#include "doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/step_trend.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

enum { MOST_POINTS = 600, RUNS_OF_EACH_KIND = 60 };

/* ---- chance ---------------------------------------------------------------------------------- */

typedef struct dice {
    uint64_t state;
} dice;

/* 0 to 1. */
static double roll(dice *from)
{
    from->state ^= from->state << 13;
    from->state ^= from->state >> 7;
    from->state ^= from->state << 17;
    return (double)(from->state >> 11) / 9007199254740992.0;
}

static double between(dice *from, double least, double most)
{
    return least + roll(from) * (most - least);
}

/* Mean 0, deviation 1. */
static double normal(dice *from)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += roll(from);
    return sum;
}

/* ---- logs ------------------------------------------------------------------------------------ */

typedef struct made_log {
    hr__step_point points[MOST_POINTS];
    double bytes[MOST_POINTS];
    size_t count;
    bool is_peak;
} made_log;

static void begin_log(made_log *log, dice *from, size_t fewest, size_t most)
{
    log->count = fewest + (size_t)(roll(from) * roll(from) * (double)(most - fewest));
    log->is_peak = false;
    double level = between(from, 1, 40) * (double)GIB;
    double every = 1 + (double)(int)(roll(from) * 100);
    for (size_t i = 0; i < log->count; i++) {
        log->points[i].step = every * (double)i;
        log->points[i].reserved_bytes = HR__UNKNOWN_BYTES;
        log->bytes[i] = level;
    }
}

typedef enum noise_kind {
    NOISE_NONE,
    NOISE_PLAIN,     /* each step on its own */
    NOISE_WANDERING, /* each near the one before */
    NOISE_SKEWED,    /* long batches are rare */
    NOISE_SAWTOOTH,
    NOISE_SPIKES, /* an evaluation every so many steps */
    NOISE_TWO_SIZES,
    NOISE_KIND_COUNT
} noise_kind;

static void add_noise(made_log *log, dice *from, noise_kind kind, double deviation)
{
    double wander = 0, memory = between(from, 0.5, 0.95);
    size_t period = 4 + (size_t)(roll(from) * (double)log->count / 6);
    size_t rhythm = 3 + (size_t)(roll(from) * 20);
    for (size_t i = 0; i < log->count; i++) {
        double noise = 0, random = normal(from);
        wander = memory * wander + (1 - memory) * 2 * random;
        switch (kind) {
        case NOISE_PLAIN:
            noise = random;
            break;
        case NOISE_WANDERING:
            noise = wander;
            break;
        case NOISE_SKEWED:
            noise = random > 0 ? random * random : random / 2;
            break;
        case NOISE_SAWTOOTH:
            noise = 3.5 * (double)(i % period) / (double)period;
            break;
        case NOISE_SPIKES:
            noise = (i % rhythm == 0 ? 8 : 0) + 0.2 * random;
            break;
        case NOISE_TWO_SIZES:
            noise = random > 0.25 ? 2 : 0;
            break;
        case NOISE_NONE:
        case NOISE_KIND_COUNT:
            break;
        }
        log->bytes[i] += noise * deviation;
    }
}

static noise_kind any_noise(dice *from)
{
    return (noise_kind)(roll(from) * NOISE_KIND_COUNT);
}

static void add_fill(made_log *log, double bytes, double share, bool is_linear)
{
    double missing = 1;
    for (size_t i = 0; i < log->count; i++) {
        double at = (double)i / (double)log->count;
        if (is_linear)
            log->bytes[i] += at < share ? bytes * at / share : bytes;
        else
            log->bytes[i] += bytes * (1 - missing);
        missing -= missing / (share * (double)log->count + 1);
    }
}

static void add_level(made_log *log, double bytes, size_t first)
{
    for (size_t i = first; i < log->count; i++)
        log->bytes[i] += bytes;
}

/* From a share of the run on, in so many stairs; 0 = evenly. */
static void add_leak(made_log *log, double bytes, double begin, size_t stairs)
{
    for (size_t i = 0; i < log->count; i++) {
        double at = (double)i / (double)log->count;
        if (stairs != 0)
            at = (double)(int)(at * (double)stairs) / (double)stairs;
        log->bytes[i] += at > begin ? bytes * (at - begin) / (1 - begin) : 0;
    }
}

static void add_warm_up(made_log *log, dice *from)
{
    size_t length = 1 + (size_t)(roll(from) * (double)log->count * 0.08);
    double bytes = between(from, 0.1, 0.9) * log->bytes[0];
    for (size_t i = 0; i < length; i++)
        log->bytes[i] -= bytes * (1 - (double)i / (double)length);
}

static void keep_the_peak(made_log *log)
{
    for (size_t i = 1; i < log->count; i++)
        if (log->bytes[i] < log->bytes[i - 1])
            log->bytes[i] = log->bytes[i - 1];
}

/* As people print it: to 0.01 GB, to 1 MB, or every byte of 512. */
static void write_down(made_log *log, dice *from)
{
    static const double fineness[] = {0.01 * (double)GIB, (double)MIB, 512};
    double fine = fineness[(size_t)(roll(from) * 3)];
    for (size_t i = 0; i < log->count; i++) {
        double bytes = log->bytes[i] > 0 ? log->bytes[i] : 0;
        log->points[i].allocated_bytes =
            (uint64_t)((double)(uint64_t)(bytes / fine + 0.5) * fine + 0.5);
    }
}

/* ---- kinds of runs --------------------------------------------------------------------------- */

typedef enum run_kind {
    RUN_FLAT,
    RUN_LOAD,
    RUN_WANDERING,
    RUN_SAWTOOTH,
    RUN_EVALUATION,
    RUN_CACHE_EVENLY,
    RUN_CACHE_SLOWING,
    RUN_NEW_LEVEL,
    RUN_TWO_LEVELS,
    RUN_PEAK_OF_LOAD,
    RUN_LEAK_ALONE,
    RUN_LEAK_UNDER_LOAD,
    RUN_LEAK_UNDER_SAWTOOTH,
    RUN_LEAK_IN_EVALUATION,
    RUN_LEAK_LATE,
    RUN_LEAK_BEHIND_CACHE,
    RUN_LEAK_IN_PEAK,
    RUN_KIND_COUNT
} run_kind;

static const char *const run_names[] = {
    "flat",
    "load that varies",
    "wandering",
    "sawtooth",
    "evaluation",
    "cache, evenly",
    "cache, ever slower",
    "a new level",
    "two new levels",
    "peak of load",
    "leak alone",
    "leak under load",
    "leak, sawtooth",
    "leak in evaluation",
    "leak that began late",
    "leak behind a cache",
    "leak in a peak",
};

/* `size`: of a leak, in deviations of its noise. */
static void make_run(made_log *log, dice *from, run_kind kind, double size)
{
    double level = log->bytes[0];
    double deviation = (0.0005 + 0.1 * roll(from) * roll(from)) * level;
    double leak = size * deviation;
    switch (kind) {
    case RUN_FLAT:
        break;
    case RUN_LOAD:
        add_noise(log, from, any_noise(from), deviation);
        break;
    case RUN_WANDERING:
        add_noise(log, from, NOISE_WANDERING, deviation);
        break;
    case RUN_SAWTOOTH:
        add_noise(log, from, NOISE_SAWTOOTH, 3 * deviation);
        add_noise(log, from, NOISE_PLAIN, 0.2 * deviation);
        break;
    case RUN_EVALUATION:
        add_noise(log, from, NOISE_SPIKES, deviation);
        break;
    case RUN_CACHE_EVENLY:
        add_fill(log, between(from, 0.05, 1) * level, between(from, 0.1, 0.6), true);
        add_noise(log, from, any_noise(from), 0.1 * deviation);
        break;
    case RUN_CACHE_SLOWING:
        add_fill(log, between(from, 0.05, 1) * level, between(from, 0.03, 0.18), false);
        add_noise(log, from, any_noise(from), 0.1 * deviation);
        break;
    case RUN_NEW_LEVEL:
    case RUN_TWO_LEVELS:
        add_noise(log, from, any_noise(from), deviation);
        for (int i = 0; i < 1 + (kind == RUN_TWO_LEVELS); i++)
            add_level(log, between(from, 0.02, 0.3) * level,
                      (size_t)(roll(from) * (double)log->count));
        break;
    case RUN_PEAK_OF_LOAD:
        add_noise(log, from, NOISE_PLAIN + (noise_kind)(roll(from) * 3), deviation);
        keep_the_peak(log);
        log->is_peak = roll(from) < 0.5; /* the name does not always say so */
        break;
    case RUN_LEAK_ALONE:
        add_leak(log, leak, 0, 0);
        break;
    case RUN_LEAK_UNDER_LOAD:
        add_leak(log, leak, 0, 0);
        add_noise(log, from, NOISE_PLAIN + (noise_kind)(roll(from) * 3), deviation);
        break;
    case RUN_LEAK_UNDER_SAWTOOTH:
        add_leak(log, leak, 0, 0);
        add_noise(log, from, NOISE_SAWTOOTH, deviation);
        break;
    case RUN_LEAK_IN_EVALUATION:
        add_leak(log, leak, 0, 12 + (size_t)(roll(from) * 20));
        add_noise(log, from, NOISE_PLAIN, 0.5 * deviation);
        break;
    case RUN_LEAK_LATE:
        add_leak(log, leak, between(from, 0.1, 0.4), 0);
        add_noise(log, from, NOISE_PLAIN, deviation);
        break;
    case RUN_LEAK_BEHIND_CACHE:
        add_leak(log, leak, 0, 0);
        add_fill(log, leak, between(from, 0.1, 0.3), true);
        add_noise(log, from, NOISE_PLAIN, deviation);
        break;
    case RUN_LEAK_IN_PEAK:
        add_leak(log, leak, 0, 0);
        add_noise(log, from, NOISE_PLAIN, deviation);
        keep_the_peak(log);
        log->is_peak = true;
        break;
    case RUN_KIND_COUNT:
        break;
    }
    if (roll(from) < 0.6)
        add_warm_up(log, from);
}

/* ---- verdicts -------------------------------------------------------------------------------- */

static hr__step_log step_log_of(const made_log *log)
{
    hr__step_log made = {
        .points = log->points,
        .point_count = log->count,
        .line_count = log->count,
        .found_count = log->count,
        .form = "text",
        .step_name = "step",
        .memory_name = "mem",
        .rank = -1,
        .is_peak = log->is_peak,
    };
    return made;
}

static hr_diagnosis *diagnose(const hr__step_log *log, uint64_t card_bytes)
{
    hr_doctor_options options = {.struct_size = sizeof options, .card_bytes = card_bytes};
    hr__diagnosis_draft *draft = malloc(sizeof *draft);
    hr_diagnosis *made = NULL;
    assert_non_null(draft);
    hr__diagnosis_init(draft, HR_SOURCE_STEPS);
    assert_int_equal(hr__doctor_steps(log, &options, draft), HR_OK);
    assert_int_equal(hr__diagnosis_finish(draft, &made), HR_OK);
    free(draft);
    return made;
}

static hr_diagnosis *diagnose_made(const made_log *log, uint64_t card_bytes)
{
    hr__step_log step_log = step_log_of(log);
    return diagnose(&step_log, card_bytes);
}

/* How many of `count` runs are called a leak; counts those that are sure of it in `*sure`. */
static size_t leaks_among(dice *from, run_kind kind, size_t count, size_t fewest, size_t most,
                          double size, size_t *sure)
{
    size_t leak_count = 0;
    *sure = 0;
    for (size_t i = 0; i < count; i++) {
        made_log log;
        begin_log(&log, from, fewest, most);
        make_run(&log, from, kind, size);
        write_down(&log, from);
        hr_diagnosis *made = diagnose_made(&log, 0);
        bool is_leak = made->verdict == HR_VERDICT_LEAK;
        assert_true(is_leak || made->verdict == HR_VERDICT_HEALTHY);
        leak_count += is_leak;
        *sure += is_leak && made->confidence == HR_CONFIDENCE_HIGH;
        hr_diagnosis_free(made);
    }
    return leak_count;
}

static void no_healthy_run_is_called_a_leak(void **state)
{
    (void)state;
    dice from = {UINT64_C(0x9E3779B97F4A7C15)};
    size_t sure, all = 0;
    for (run_kind kind = 0; kind < RUN_LEAK_ALONE; kind++) {
        size_t count = leaks_among(&from, kind, RUNS_OF_EACH_KIND, 12, MOST_POINTS, 0, &sure);
        all += count;
        if (count > 1)
            fail_msg("%s: %zu of %d runs are called a leak", run_names[kind], count,
                     RUNS_OF_EACH_KIND);
    }
    assert_true(all <= 2); /* of some hundreds: two new levels may look like a rise */
}

static void leaks_that_stand_out_of_the_noise_are_found(void **state)
{
    (void)state;
    dice from = {UINT64_C(0xD1B54A32D192ED03)};
    size_t sure;
    for (run_kind kind = RUN_LEAK_ALONE; kind < RUN_KIND_COUNT; kind++) {
        size_t large = leaks_among(&from, kind, RUNS_OF_EACH_KIND, 30, MOST_POINTS, 60, &sure);
        if (large < RUNS_OF_EACH_KIND * 95 / 100)
            fail_msg("%s: only %zu of %d large ones are found", run_names[kind], large,
                     RUNS_OF_EACH_KIND);
        assert_true(sure > RUNS_OF_EACH_KIND / 2);
        size_t middling = leaks_among(&from, kind, RUNS_OF_EACH_KIND, 30, MOST_POINTS, 20, &sure);
        if (middling < RUNS_OF_EACH_KIND * 80 / 100)
            fail_msg("%s: only %zu of %d middling ones are found", run_names[kind], middling,
                     RUNS_OF_EACH_KIND);
    }
}

static void short_logs_never_make_the_doctor_sure(void **state)
{
    (void)state;
    dice from = {UINT64_C(0x2545F4914F6CDD1D)};
    for (run_kind kind = 0; kind < RUN_KIND_COUNT; kind++) {
        size_t sure;
        (void)leaks_among(&from, kind, 20, HR__TREND_FEWEST_POINTS, 12, 20, &sure);
        assert_int_equal(sure, 0);
    }
}

static void even_growth_is_a_leak_from_six_steps_on(void **state)
{
    (void)state;
    for (size_t count = 3; count < 20; count++) {
        made_log log = {.count = count};
        for (size_t i = 0; i < count; i++)
            log.points[i] = (hr__step_point){(double)i, (3 + 2 * i) * GIB, HR__UNKNOWN_BYTES};
        hr_diagnosis *made = diagnose_made(&log, 0);
        assert_int_equal(made->verdict,
                         count < HR__TREND_FEWEST_POINTS ? HR_VERDICT_UNKNOWN : HR_VERDICT_LEAK);
        if (count < HR__TREND_FEWEST_POINTS)
            assert_non_null(strstr(made->sentence, "30 or more would do"));
        assert_int_equal(made->numbers.allocated_bytes, (1 + 2 * count) * GIB);
        hr_diagnosis_free(made);
    }
}

/* ---- each rule by itself --------------------------------------------------------------------- */

static hr__trend trend_of(const double *bytes, size_t count, bool is_peak)
{
    double steps[MOST_POINTS];
    hr__trend trend;
    for (size_t i = 0; i < count; i++)
        steps[i] = (double)i;
    assert_int_equal(hr__step_trend_find(steps, bytes, count, is_peak, &trend), HR_OK);
    return trend;
}

/* Rises of one GiB at the given places, in a log of 120 steps with a little noise or none. */
static hr__trend trend_of_rises(const size_t *places, size_t place_count, double noise,
                                bool is_peak)
{
    double bytes[120];
    for (size_t i = 0; i < 120; i++) {
        bytes[i] = 10 * (double)GIB + noise * (double)(i * 7 % 5);
        for (size_t j = 0; j < place_count; j++)
            bytes[i] += i >= places[j] ? (double)GIB : 0;
    }
    return trend_of(bytes, 120, is_peak);
}

static void a_few_rises_of_a_peak_are_no_leak_and_many_are(void **state)
{
    (void)state;
    static const size_t few[] = {14, 28, 48, 66, 84, 102};
    static const size_t many[] = {8, 17, 26, 35, 43, 52, 61, 70, 78, 87, 96, 105, 113};
    assert_int_not_equal(trend_of_rises(few, 6, 0, true).kind, HR__TREND_GROWS);
    assert_int_not_equal(trend_of_rises(few, 6, 0, false).kind, HR__TREND_GROWS); /* no name */
    assert_int_equal(trend_of_rises(many, 13, 0, true).kind, HR__TREND_GROWS);
    assert_int_equal(trend_of_rises(many, 13, (double)MIB, false).kind, HR__TREND_GROWS);
}

/* The same, in noise, where each may look like a rise: hardly ever. */
static void changes_of_level_in_noise_are_hardly_ever_called_a_leak(void **state)
{
    (void)state;
    dice from = {UINT64_C(0xE7037ED1A0B428DB)};
    size_t leak_count = 0;
    for (int run = 0; run < 300; run++) {
        made_log log;
        begin_log(&log, &from, 12, MOST_POINTS / 3);
        make_run(&log, &from, RUN_TWO_LEVELS, 0);
        leak_count += trend_of(log.bytes, log.count, false).kind == HR__TREND_GROWS;
    }
    if (leak_count > 3)
        fail_msg("%zu of 300", leak_count);
}

/* Noise of three values and a rise between four and eight times its uncertainty. */
static void a_leak_that_barely_stands_out_is_not_certain(void **state)
{
    (void)state;
    double bytes[40];
    for (size_t i = 0; i < 40; i++)
        bytes[i] = (double)GIB * (10 + 0.25 * (double)i + (i % 3 == 0 ? 1 : i % 3 == 1 ? -1 : 0));
    hr__trend trend = trend_of(bytes, 40, false);
    assert_true(trend.strength > 4 && trend.strength < 8);
    assert_int_equal(trend.kind, HR__TREND_GROWS);
    assert_int_equal(trend.confidence, HR_CONFIDENCE_MEDIUM);
}

static void where_noise_or_a_peak_may_hide_growth_nobody_is_sure(void **state)
{
    (void)state;
    double bytes[60];
    for (int is_growing = 0; is_growing < 2; is_growing++) {
        for (size_t i = 0; i < 60; i++)
            bytes[i] = (double)GIB * (10 + (is_growing ? 0.06 : 0) * (double)i +
                                      (i % 3 == 0   ? 1
                                       : i % 3 == 1 ? -1
                                                    : 0));
        hr__trend trend = trend_of(bytes, 60, false);
        assert_int_not_equal(trend.kind, HR__TREND_GROWS);
        assert_int_equal(trend.may_grow, is_growing);
        assert_int_equal(trend.confidence, is_growing ? HR_CONFIDENCE_MEDIUM : HR_CONFIDENCE_HIGH);
    }
    for (size_t place = 30; place <= 110; place += 80) { /* in the last third, or before it */
        hr__trend trend = trend_of_rises(&place, 1, 0, true);
        assert_int_equal(trend.may_grow, place == 110);
        assert_int_equal(trend.confidence,
                         place == 110 ? HR_CONFIDENCE_MEDIUM : HR_CONFIDENCE_HIGH);
    }
}

static void changes_of_level_are_no_leak_wherever_they_are(void **state)
{
    (void)state;
    for (size_t first = 5; first < 115; first += 5)
        for (size_t second = first; second < 115; second += 5) {
            const size_t places[] = {first, second};
            for (int i = 0; i < 2; i++)
                if (trend_of_rises(places, 2, i * (double)MIB, false).kind == HR__TREND_GROWS)
                    fail_msg("levels that change at %zu and %zu of 120", first, second);
        }
}

/* High, low, and a rise that stays below where it all began: a wave, not a leak. */
static void growth_that_reaches_no_new_high_is_no_leak(void **state)
{
    (void)state;
    double bytes[100];
    for (int is_new_high = 0; is_new_high < 2; is_new_high++) {
        for (size_t i = 0; i < 100; i++)
            bytes[i] = (double)GIB * (i < 30 ? (is_new_high ? 4 : 20) : 5 + 0.1 * (double)(i - 30));
        hr__trend trend = trend_of(bytes, 100, false);
        assert_true(trend.strength > 10);
        assert_int_equal(trend.kind == HR__TREND_GROWS, is_new_high);
    }
}

static void growth_that_slows_down_is_no_leak_but_not_certain(void **state)
{
    (void)state;
    double bytes[100], missing = 1;
    for (size_t i = 0; i < 100; i++) {
        bytes[i] = (double)GIB * (10 - 5 * missing);
        missing *= 0.96;
    }
    hr__trend trend = trend_of(bytes, 100, false);
    assert_int_equal(trend.kind, HR__TREND_SLOWING);
    assert_int_equal(trend.confidence, HR_CONFIDENCE_LOW);
}

/* Each point near the one before: many points tell as little as few. */
static void wandering_is_not_taken_for_strength(void **state)
{
    (void)state;
    dice from = {UINT64_C(0xA0761D6478BD642F)};
    size_t strong_count = 0;
    for (int run = 0; run < 200; run++) {
        double bytes[200], wander = 0;
        for (size_t i = 0; i < 200; i++) {
            wander = 0.9 * wander + normal(&from);
            bytes[i] = 10 * (double)GIB + wander * 100 * (double)MIB;
        }
        hr__trend trend = trend_of(bytes, 200, false);
        strong_count += trend.strength > 4 || trend.strength < -4;
    }
    if (strong_count > 20)
        fail_msg("%zu of 200", strong_count);
}

static void the_first_step_does_not_count_as_growth(void **state)
{
    (void)state;
    double bytes[12];
    for (size_t i = 0; i < 12; i++)
        bytes[i] = i == 0 ? (double)GIB : (double)(20 * GIB + i * MIB);
    hr__trend trend = trend_of(bytes, 12, false);
    assert_int_equal(trend.kind, HR__TREND_GROWS);
    assert_true(trend.grown_bytes == 10 * (double)MIB);
    assert_true(trend.from_step == 1);
    assert_true(trend.bytes_per_step == (double)MIB);
}

/* Six figures that rise by and large are as likely to be chance. */
static void few_steps_must_rise_evenly(void **state)
{
    (void)state;
    static const double uneven[] = {9, 10, 10.9, 10.7, 11.6, 12.1};
    double bytes[6];
    for (size_t i = 0; i < 6; i++)
        bytes[i] = uneven[i] * (double)GIB;
    hr__trend trend = trend_of(bytes, 6, false);
    assert_true(trend.strength > 2);
    assert_int_not_equal(trend.kind, HR__TREND_GROWS);
}

/* ---- words ----------------------------------------------------------------------------------- */

static void make_even_leak(made_log *log, uint64_t bytes_per_step)
{
    log->count = 60;
    log->is_peak = false;
    for (size_t i = 0; i < log->count; i++)
        log->points[i] =
            (hr__step_point){(double)(10 * i), GIB + 10 * i * bytes_per_step, HR__UNKNOWN_BYTES};
}

static void a_leak_comes_with_its_pace_and_what_to_type(void **state)
{
    (void)state;
    made_log log;
    make_even_leak(&log, MIB);
    hr_diagnosis *made = diagnose_made(&log, 0);
    assert_int_equal(made->verdict, HR_VERDICT_LEAK);
    assert_int_equal(made->confidence, HR_CONFIDENCE_HIGH);
    assert_int_equal(made->source, HR_SOURCE_STEPS);
    assert_non_null(strstr(made->sentence, "1024.00 KiB per step"));
    assert_non_null(strstr(made->sentence, "each GiB that is free lasts 1024 steps"));
    assert_int_equal(made->finding_count, 1);
    const hr_finding *leak = &made->findings[0];
    assert_string_equal(leak->kind, "leak");
    assert_true(leak->bytes > 450 * MIB && leak->bytes < 590 * MIB);
    assert_true(leak->evidence_count >= 3 && made->reasoning_count >= 3);
    assert_true(leak->remedy_count >= 5);
    bool has_item = false, has_recording = false;
    for (size_t i = 0; i < leak->remedy_count; i++) {
        assert_int_equal(leak->remedies[i].basis, HR_BASIS_RULE);
        has_item = has_item || strstr(leak->remedies[i].how, "loss.item()") != NULL;
        has_recording =
            has_recording || strstr(leak->remedies[i].how, "headroom doctor run.pickle") != NULL;
    }
    assert_true(has_item && has_recording);
    hr_diagnosis_free(made);
}

static void with_a_card_the_step_is_named_at_which_it_is_full(void **state)
{
    (void)state;
    made_log log;
    make_even_leak(&log, MIB); /* 1 GiB at step 0, 1614 MiB at step 590 */
    hr_diagnosis *made = diagnose_made(&log, 8 * GIB);
    assert_int_equal(made->numbers.total_bytes, 8 * GIB);
    const char *at = strstr(made->sentence, "full at about step ");
    assert_non_null(at);
    long step = strtol(at + strlen("full at about step "), NULL, 10);
    assert_true(step > 7100 && step < 7220); /* 7168 */
    hr_diagnosis_free(made);

    made = diagnose_made(&log, GIB);
    assert_non_null(strstr(made->sentence, "full already"));
    hr_diagnosis_free(made);

    for (size_t i = 0; i < log.count; i++) /* epochs: which step it will be called is not known */
        log.points[i].step = (double)(i % 20);
    made = diagnose_made(&log, 8 * GIB);
    assert_int_equal(made->verdict, HR_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "10.00 MiB per step"));
    assert_non_null(strstr(made->sentence, "steps more"));
    hr_diagnosis_free(made);
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
    hr_diagnosis *made = diagnose_made(&log, 0);
    assert_int_equal(made->verdict, HR_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "in the last of 3 runs"));
    assert_non_null(strstr(made->sentence, "10.00 MiB per step"));
    hr_diagnosis_free(made);
    for (size_t i = 40; i < log.count; i++) /* the last one is mended */
        log.points[i].allocated_bytes = GIB;
    made = diagnose_made(&log, 0);
    assert_int_equal(made->verdict, HR_VERDICT_HEALTHY);
    hr_diagnosis_free(made);
}

static void of_several_ranks_the_one_that_grows_most_is_judged(void **state)
{
    (void)state;
    made_log flat, slow, fast;
    make_even_leak(&flat, 0);
    make_even_leak(&slow, MIB);
    make_even_leak(&fast, 2 * MIB);
    hr__step_log log = step_log_of(&flat);
    hr__step_log others[] = {step_log_of(&fast), step_log_of(&slow)};
    log.rank = 0;
    others[0].rank = 1;
    others[1].rank = 2;
    log.others = others;
    log.other_count = 2;
    hr_diagnosis *made = diagnose(&log, 0);
    assert_int_equal(made->verdict, HR_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "on rank 1, of 3 ranks"));
    assert_non_null(strstr(made->sentence, "2.00 MiB per step"));
    assert_int_equal(made->finding_count, 1);
    hr_diagnosis_free(made);
}

static void host_memory_that_grows_is_a_leak_and_called_so(void **state)
{
    (void)state;
    made_log card, host;
    make_even_leak(&card, 0);
    make_even_leak(&host, MIB);
    hr__step_log log = step_log_of(&card), other = step_log_of(&host);
    other.is_host = true;
    log.others = &other;
    log.other_count = 1;
    hr_diagnosis *made = diagnose(&log, 8 * GIB);
    assert_int_equal(made->verdict, HR_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "host memory grows by 1024.00 KiB per step"));
    assert_null(strstr(made->sentence, "card")); /* it does not end where the card does */
    assert_int_equal(made->numbers.allocated_bytes, GIB);
    hr_diagnosis_free(made);

    make_even_leak(&card, MIB); /* both: the card's comes first */
    made = diagnose(&log, 0);
    assert_int_equal(made->verdict, HR_VERDICT_LEAK);
    assert_null(strstr(made->sentence, "host memory"));
    assert_int_equal(made->finding_count, 2);
    hr_diagnosis_free(made);

    made = diagnose(&other, 0); /* alone */
    assert_int_equal(made->verdict, HR_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "host memory"));
    assert_int_equal(made->numbers.allocated_bytes, HR_UNKNOWN);
    hr_diagnosis_free(made);
}

static void free_memory_that_falls_is_a_leak(void **state)
{
    (void)state;
    made_log log;
    make_even_leak(&log, MIB);
    for (size_t i = 0; i < log.count; i++)
        log.points[i].allocated_bytes = 20 * GIB - 10 * i * MIB;
    hr__step_log step_log = step_log_of(&log);
    step_log.is_free = true;
    hr_diagnosis *made = diagnose(&step_log, 0);
    assert_int_equal(made->verdict, HR_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "free memory falls by 1024.00 KiB per step"));
    assert_non_null(strstr(made->sentence, "the card is full at about step 2"));
    hr_diagnosis_free(made);
}

static void percentages_are_judged_in_percent_until_the_card_is_known(void **state)
{
    (void)state;
    made_log log;
    make_even_leak(&log, 0);
    for (size_t i = 0; i < log.count; i++) /* half a percent a line */
        log.points[i].allocated_bytes = HR__STEP_SHARE_OF_ALL / 200 * (40 + i);
    hr__step_log step_log = step_log_of(&log);
    step_log.is_share = true;
    hr_diagnosis *made = diagnose(&step_log, 0);
    assert_int_equal(made->verdict, HR_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "0.050 % per step"));
    assert_non_null(strstr(made->sentence, "the card is full at about step 1"));
    assert_int_equal(made->findings[0].bytes, HR_UNKNOWN);
    assert_int_equal(made->numbers.allocated_bytes, HR_UNKNOWN);
    hr_diagnosis_free(made);
    made = diagnose(&step_log, 100 * GIB);
    assert_int_equal(made->verdict, HR_VERDICT_LEAK);
    assert_non_null(strstr(made->sentence, "51.20 MiB per step"));
    assert_true(made->numbers.allocated_bytes > 49 * GIB);
    hr_diagnosis_free(made);
}

static void one_step_is_a_step_log_that_tells_nothing(void **state)
{
    (void)state;
    hr_diagnosis *made = NULL;
    static const char text[] = "step 50: 3.21 GB\n";
    assert_int_equal(hr_doctor_text(text, sizeof text - 1, NULL, &made), HR_OK);
    assert_int_equal(made->source, HR_SOURCE_STEPS);
    assert_int_equal(made->verdict, HR_VERDICT_UNKNOWN);
    assert_non_null(strstr(made->sentence, "too few steps"));
    hr_diagnosis_free(made);
}

static void a_cache_that_fills_is_told_apart_and_where_it_stays(void **state)
{
    (void)state;
    made_log log = {.count = 100};
    for (size_t i = 0; i < log.count; i++)
        log.points[i] =
            (hr__step_point){(double)i, (i < 40 ? 10 + i : 50) * 100 * MIB, HR__UNKNOWN_BYTES};
    hr_diagnosis *made = diagnose_made(&log, 0);
    assert_int_equal(made->verdict, HR_VERDICT_HEALTHY);
    assert_int_equal(made->confidence, HR_CONFIDENCE_HIGH);
    assert_non_null(strstr(made->sentence, "grows at first"));
    assert_non_null(strstr(made->sentence, "4.88 GiB"));
    assert_int_equal(made->finding_count, 0);
    hr_diagnosis_free(made);
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
            log.points[j] = (hr__step_point){(double)j, 1000 * MIB, samples[i].reserved_mib * MIB};
        hr_diagnosis *made = diagnose_made(&log, 0);
        assert_int_equal(made->verdict, HR_VERDICT_HEALTHY);
        assert_int_equal(made->finding_count, samples[i].is_found);
        if (samples[i].is_found) {
            assert_string_equal(made->findings[0].kind, "fragmentation");
            assert_int_equal(made->findings[0].bytes, (samples[i].reserved_mib - 1000) * MIB);
            assert_true(made->findings[0].remedy_count != 0);
        }
        assert_int_equal(made->numbers.reserved_bytes, samples[i].reserved_mib * MIB);
        hr_diagnosis_free(made);
    }
}

static void figures_beyond_reason_are_judged_without_harm(void **state)
{
    (void)state;
    static const double steps[] = {0, 1e-300, 1e18, 5e-324, 1e18, 0, 3};
    static const uint64_t bytes[] = {0, UINT64_C(1) << 60, 1, UINT64_C(1) << 59, 0, 7, 512};
    made_log log = {.count = 50};
    for (size_t i = 0; i < log.count; i++)
        log.points[i] = (hr__step_point){steps[i % 7], bytes[i * i % 7], bytes[i % 7]};
    hr_diagnosis_free(diagnose_made(&log, 1));
    for (size_t i = 0; i < log.count; i++) /* no step at all, and growth */
        log.points[i] = (hr__step_point){1e-300 * (double)i, i << 50, HR__UNKNOWN_BYTES};
    hr_diagnosis *made = diagnose_made(&log, UINT64_MAX);
    assert_int_equal(made->verdict, HR_VERDICT_LEAK);
    hr_diagnosis_free(made);
    log.count = 0;
    made = diagnose_made(&log, 0);
    assert_int_equal(made->verdict, HR_VERDICT_UNKNOWN);
    hr_diagnosis_free(made);
}

static bool diagnose_a_leak(void *context)
{
    const hr__step_log *log = context;
    static hr__diagnosis_draft draft;
    hr_diagnosis *made = NULL;
    hr__diagnosis_init(&draft, HR_SOURCE_STEPS);
    if (hr__doctor_steps(log, NULL, &draft) != HR_OK) {
        hr__diagnosis_deinit(&draft);
        return false;
    }
    if (hr__diagnosis_finish(&draft, &made) != HR_OK)
        return false;
    hr_diagnosis_free(made);
    return true;
}

static void every_lack_of_host_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    made_log log;
    make_even_leak(&log, MIB);
    for (size_t i = 0; i < log.count; i++)
        log.points[i].reserved_bytes = 10 * GIB;
    hr__step_log step_log = step_log_of(&log);
    hr_test_sweep_host_memory(diagnose_a_leak, &step_log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_healthy_run_is_called_a_leak),
        cmocka_unit_test(leaks_that_stand_out_of_the_noise_are_found),
        cmocka_unit_test(short_logs_never_make_the_doctor_sure),
        cmocka_unit_test(even_growth_is_a_leak_from_six_steps_on),
        cmocka_unit_test(few_steps_must_rise_evenly),
        cmocka_unit_test(a_few_rises_of_a_peak_are_no_leak_and_many_are),
        cmocka_unit_test(changes_of_level_are_no_leak_wherever_they_are),
        cmocka_unit_test(changes_of_level_in_noise_are_hardly_ever_called_a_leak),
        cmocka_unit_test(a_leak_that_barely_stands_out_is_not_certain),
        cmocka_unit_test(where_noise_or_a_peak_may_hide_growth_nobody_is_sure),
        cmocka_unit_test(growth_that_reaches_no_new_high_is_no_leak),
        cmocka_unit_test(growth_that_slows_down_is_no_leak_but_not_certain),
        cmocka_unit_test(wandering_is_not_taken_for_strength),
        cmocka_unit_test(the_first_step_does_not_count_as_growth),
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
