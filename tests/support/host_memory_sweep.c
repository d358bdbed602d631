/* host_memory_sweep.c - the loop around a scenario.
 *
 * The n-th allocation fails, so the failure happened if and only if the run made n allocations. */
#include "support/host_memory_sweep.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/host_memory.h"

#include "support/cmocka_here.h"

enum { MOST_RUNS = 10000, SAME_RUNS = 4 };

static bool run_once(vw_test_scenario scenario, void *context, uint64_t nth,
                     vw__host_memory_use *before, vw__host_memory_use *after)
{
    *before = vw__host_memory_get_use();
    vw__host_memory_fail_at(nth);
    bool has_succeeded = scenario(context);
    vw__host_memory_fail_at(0);
    *after = vw__host_memory_get_use();
    return has_succeeded;
}

/* A leak shows each time. Once alone it is malloc(), which may give some bytes more than before for
 * the same request. */
bool vw_test_find_host_memory_fault(vw_test_scenario scenario, void *context, uint64_t most_runs,
                                    char *complaint, size_t complaint_bytes)
{
    for (uint64_t nth = 1; nth <= most_runs; nth++) {
        vw__host_memory_use before = {0}, after = {0};
        bool has_succeeded = false, is_other = true;
        for (int run = 0; run < SAME_RUNS && is_other; run++) {
            has_succeeded = run_once(scenario, context, nth, &before, &after);
            is_other = after.in_use_bytes != before.in_use_bytes;
        }
        if (is_other) {
            snprintf(complaint, complaint_bytes,
                     "allocation %" PRIu64 " failing: %" PRIu64 " bytes in use before, %" PRIu64
                     " after",
                     nth, before.in_use_bytes, after.in_use_bytes);
            return true;
        }
        if (after.call_count - before.call_count >= nth)
            continue; /* it struck */
        if (!has_succeeded) {
            snprintf(complaint, complaint_bytes,
                     "the scenario fails without any failed allocation");
            return true;
        }
        if (nth == 1) {
            snprintf(complaint, complaint_bytes, "the scenario takes no host memory");
            return true;
        }
        return false;
    }
    snprintf(complaint, complaint_bytes, "no run without a failure in %" PRIu64, most_runs);
    return true;
}

void vw_test_sweep_host_memory(vw_test_scenario scenario, void *context)
{
    char complaint[160];
    if (vw_test_find_host_memory_fault(scenario, context, MOST_RUNS, complaint, sizeof complaint))
        fail_msg("%s", complaint);
}
