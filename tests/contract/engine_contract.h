/* engine_contract.h - the suite every engine must pass, through the pool that drives it.
 *
 * It asks for what include/headroom/headroom.h promises whichever engine decides where blocks lie:
 * it knows no rule of PyTorch's and expects no address. A new engine begins by making this suite
 * fail. Each check runs on a fresh pool, on the simulated device where it counts and on the host
 * device where bytes have to survive. */
#ifndef HR_TESTS_ENGINE_CONTRACT_H
#define HR_TESTS_ENGINE_CONTRACT_H

#include <stdint.h>

#include "headroom/headroom.h"

typedef struct hr_test_engine {
    const char *name;            /* for the report */
    hr_pool_options options;     /* what makes the pool; struct_size is filled in */
    uint64_t limit_excess_bytes; /* how far one growth may take the pool beyond its limit */
} hr_test_engine;

/* Runs every check. The number of checks that failed. */
int hr_test_engine_contract(const hr_test_engine *engine);

#endif /* HR_TESTS_ENGINE_CONTRACT_H */
