/* host_memory_sweep.h - every way a scenario can run out of host memory.
 *
 * Repeats the scenario with its first allocation failing, then with its second one failing, and so
 * on, until a run without a failure. So every failure path is tested. After every run the libraries
 * must hold as many bytes as before it. */
#ifndef VW_TESTS_HOST_MEMORY_SWEEP_H
#define VW_TESTS_HOST_MEMORY_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts from an empty state, always cleans up, and returns whether everything succeeded. It may
 * succeed in spite of a failure; without one it must. It must take host memory. What a library
 * keeps for good from its first use, such as a registry, must exist before the sweep. */
typedef bool (*vw_test_scenario)(void *context);

/* Sweeps, and fails the test that calls it if anything is wrong. */
void vw_test_sweep_host_memory(vw_test_scenario scenario, void *context);

/* The same for at most `most_runs` runs, but returns true if something is wrong, with a message in
 * `complaint`. */
bool vw_test_find_host_memory_fault(vw_test_scenario scenario, void *context, uint64_t most_runs,
                                    char *complaint, size_t complaint_bytes);

#endif /* VW_TESTS_HOST_MEMORY_SWEEP_H */
