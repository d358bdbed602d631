/* stress_run.h - how long a test of chance runs, and from which number its chance comes.
 *
 * VW_TEST_SEED repeats a run as far as threads let it; VW_TEST_ROUNDS makes it longer. */
#ifndef VW_TESTS_STRESS_RUN_H
#define VW_TESTS_STRESS_RUN_H

#include <stdint.h>

/* VW_TEST_ROUNDS, or the `usual` number; a quarter of that under a sanitizer, which needs to see a
 * path or a meeting of threads, and not the one time in a thousand in which it goes wrong. */
uint64_t vw_test_rounds(uint64_t usual);

/* VW_TEST_SEED, or another number each time; said, so that a run can be repeated. */
uint64_t vw_test_seed(void);

/* Numbers that look unrelated, of numbers in a row. */
uint64_t vw_test_mix(uint64_t number);

#endif /* VW_TESTS_STRESS_RUN_H */
