/* test_fault_campaign.c - random programs under random failures of every device and host call.
 *
 * Each seed is a program (support/api_program.h). A few hundred run here; `make campaign` runs
 * thousands (VRAMWISE_SEEDS) and writes what came of them. Seeds that ever failed are kept below,
 * and run every time. */
#include <inttypes.h>
#include <stdio.h>

#include "support/api_program.h"
#include "support/cmocka_here.h"
#include "support/seeds.h"

enum { USUAL_SEEDS = 400, PROGRAM_BYTES = 600, TIGHT_PROGRAM_BYTES = 2000 };

static vw_test_seeds seeds;

/* Returns whether the oracle had nothing to say. */
static bool run_seed(uint64_t seed, vw_test_outcome *outcome)
{
    uint8_t bytes[PROGRAM_BYTES];
    vw_test_api_program_make(seed, bytes, sizeof bytes);
    vw_test_api_program_run(bytes, sizeof bytes, outcome);
    if (outcome->fault[0] != '\0')
        print_error("seed %" PRIu64 ": %s\n", seed, outcome->fault);
    return outcome->fault[0] == '\0';
}

/* Seeds that found a fault once.
 *  257 ...  a segment's record could not be had, nor the segment be given back: it was lost
 *  3803     the window of a host handle could not be unmapped once: it was never tried again */
static void seeds_that_found_a_fault_once_find_none(void **state)
{
    (void)state;
    static const uint64_t found[] = {257, 320, 386, 422, 541, 718, 872, 1005, 2943, 3803, 3963};
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        vw_test_outcome outcome;
        assert_true(run_seed(found[i], &outcome));
    }
}

static void no_seed_finds_a_fault(void **state)
{
    (void)state;
    uint64_t faults = 0, steps = 0, refusals = 0, failures = 0, given_up = 0;
    for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; seed++) {
        vw_test_outcome outcome;
        faults += !run_seed(seed, &outcome);
        steps += outcome.step_count;
        refusals += outcome.refusal_count;
        failures += outcome.failure_count;
        given_up += outcome.has_given_up;
    }
    printf("seeds %" PRIu64 "-%" PRIu64 ": %" PRIu64 " steps, %" PRIu64
           " device calls refused, %" PRIu64 " steps failed, %" PRIu64 " pools gave up, %" PRIu64
           " faults\n",
           seeds.first, seeds.first + seeds.count - 1, steps, refusals, failures, given_up, faults);
    assert_int_equal(faults, 0);
    assert_true(refusals > seeds.count / 10); /* the campaign does fail calls */
}

/* ---- where pages are shared and memory leaves in the same pool ------------------------------- */

static bool run_tight_seed(uint64_t seed)
{
    uint8_t bytes[TIGHT_PROGRAM_BYTES];
    vw_test_outcome outcome;
    vw_test_api_program_make(seed, bytes, sizeof bytes);
    vw_test_api_program_run_tight(bytes, sizeof bytes, &outcome);
    if (outcome.fault[0] != '\0')
        print_error("tight, seed %" PRIu64 ": %s\n", seed, outcome.fault);
    return outcome.fault[0] == '\0';
}

/* 5024: a block on the host that was its own guest came free, and its record was spare and used. */
static void a_tight_seed_that_found_a_fault_once_finds_none(void **state)
{
    (void)state;
    assert_true(run_tight_seed(5024));
}

/* Half as many as of the others: they are longer. */
static void no_tight_seed_finds_a_fault(void **state)
{
    (void)state;
    uint64_t faults = 0;
    for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count / 2; seed++)
        faults += !run_tight_seed(seed);
    assert_int_equal(faults, 0);
}

int main(void)
{
    seeds = vw_test_choose_seeds(USUAL_SEEDS);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeds_that_found_a_fault_once_find_none),
        cmocka_unit_test(no_seed_finds_a_fault),
        cmocka_unit_test(a_tight_seed_that_found_a_fault_once_finds_none),
        cmocka_unit_test(no_tight_seed_finds_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
