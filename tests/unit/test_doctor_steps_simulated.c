/* test_doctor_steps_simulated.c - leaks are found in step logs, and nothing else is called one.
 *
 * Real logs are few and known; so these are simulated, from a seed: loads, caches, sawteeth and
 * leaks of many sizes. What is asked of each kind is stated beside it. */
#include "doctor/doctor.h"

#include "support/cmocka_here.h"
#include "support/made_step_log.h"

enum { RUNS_OF_EACH_KIND = 60 };

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

static void begin_log(made_log *log, dice *from, size_t fewest, size_t most)
{
    log->count = fewest + (size_t)(roll(from) * roll(from) * (double)(most - fewest));
    log->is_peak = false;
    double level = between(from, 1, 40) * (double)GIB;
    double every = 1 + (double)(int)(roll(from) * 100);
    for (size_t i = 0; i < log->count; i++) {
        log->points[i].step = every * (double)i;
        log->points[i].reserved_bytes = VW__MODEL_UNKNOWN_BYTES;
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
        vw_diagnosis *made = diagnose_made(&log, 0);
        bool is_leak = made->verdict == VW_VERDICT_LEAK;
        assert_true(is_leak || made->verdict == VW_VERDICT_HEALTHY);
        leak_count += is_leak;
        *sure += is_leak && made->confidence == VW_CONFIDENCE_HIGH;
        vw_diagnosis_free(made);
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
        (void)leaks_among(&from, kind, 20, VW__TREND_FEWEST_POINTS, 12, 20, &sure);
        assert_int_equal(sure, 0);
    }
}

/* ---- trends ---------------------------------------------------------------------------------- */

/* Levels that change, in noise, where each may look like a rise: hardly ever. */
static void changes_of_level_in_noise_are_hardly_ever_called_a_leak(void **state)
{
    (void)state;
    dice from = {UINT64_C(0xE7037ED1A0B428DB)};
    size_t leak_count = 0;
    for (int run = 0; run < 300; run++) {
        made_log log;
        begin_log(&log, &from, 12, MOST_POINTS / 3);
        make_run(&log, &from, RUN_TWO_LEVELS, 0);
        leak_count += trend_of(log.bytes, log.count, false).kind == VW__TREND_GROWS;
    }
    if (leak_count > 3)
        fail_msg("%zu of 300", leak_count);
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
        vw__trend trend = trend_of(bytes, 200, false);
        strong_count += trend.strength > 4 || trend.strength < -4;
    }
    if (strong_count > 20)
        fail_msg("%zu of 200", strong_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_healthy_run_is_called_a_leak),
        cmocka_unit_test(leaks_that_stand_out_of_the_noise_are_found),
        cmocka_unit_test(short_logs_never_make_the_doctor_sure),
        cmocka_unit_test(changes_of_level_in_noise_are_hardly_ever_called_a_leak),
        cmocka_unit_test(wandering_is_not_taken_for_strength),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
