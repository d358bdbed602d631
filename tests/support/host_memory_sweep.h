/* host_memory_sweep.h - every way a scenario can run out of host memory.
 *
 * The scenario runs again and again: first with its first allocation failing, then with its second
 * one failing, and so on, until a run in which no failure struck. Failure paths are thereby all
 * walked, not sampled. After every run the libraries must hold as many bytes as before it. */
#ifndef VW_TESTS_HOST_MEMORY_SWEEP_H
#define VW_TESTS_HOST_MEMORY_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Does its work from an empty state, cleans up whatever happens, and says whether all of it
 * succeeded. It may succeed in spite of a failure; without one it must. It must take host memory,
 * or there is nothing to sweep. Whatever a library keeps for good from its first use (a registry,
 * say) must be there before the sweep. */
typedef bool (*vw_test_scenario)(void *context);

/* Sweeps, and fails the test that calls it if anything is wrong. */
void vw_test_sweep_host_memory(vw_test_scenario scenario, void *context);

/* The same for at most `most_runs` runs, but writes what is wrong into `complaint` and returns
 * true, or returns false where all is well. */
bool vw_test_find_host_memory_fault(vw_test_scenario scenario, void *context, uint64_t most_runs,
                                    char *complaint, size_t complaint_bytes);

#endif /* VW_TESTS_HOST_MEMORY_SWEEP_H */
