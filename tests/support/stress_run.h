/* stress_run.h - rounds and random seed of stress tests.
 *
 * VW_TEST_SEED repeats a run as far as threads let it; VW_TEST_ROUNDS makes it longer. */
#ifndef VW_TESTS_STRESS_RUN_H
#define VW_TESTS_STRESS_RUN_H

#include <stdint.h>

/* VW_TEST_ROUNDS, or the `usual` number; a quarter of that under a sanitizer, which finds a bug
 * when the path is taken, not only when it goes wrong. */
uint64_t vw_test_rounds(uint64_t usual);

/* VW_TEST_SEED, or a new number each time, which is printed so that a run can be repeated. */
uint64_t vw_test_seed(void);

/* Turns consecutive numbers into numbers that look unrelated. */
uint64_t vw_test_mix(uint64_t number);

#endif /* VW_TESTS_STRESS_RUN_H */
