/* engine_contract.h - the suite every engine must pass, through the pool that drives it.
 *
 * It asks for what include/headroom/headroom.h promises whichever engine decides where blocks lie:
 * it knows no rule of PyTorch's and expects no address. A new engine begins by making this suite
 * fail. Each check runs on a fresh pool, on the simulated device where it counts and on the host
 * device where bytes have to survive. */
#ifndef HR_TESTS_ENGINE_CONTRACT_H
#define HR_TESTS_ENGINE_CONTRACT_H

#include <stdbool.h>
#include <stdint.h>

#include "headroom/headroom.h"

typedef struct hr_test_engine {
    const char *name;            /* for the report */
    hr_pool_options options;     /* what makes the pool; struct_size is filled in */
    uint64_t limit_excess_bytes; /* how far one growth may take the pool beyond its limit */
    bool without_virtual_memory; /* on devices that have none */
} hr_test_engine;

/* Runs every check. The number of checks that failed. */
int hr_test_engine_contract(const hr_test_engine *engine);

/* A part of it: what is told to listeners, private pools, odd requests. */
int hr_test_engine_routing_contract(const hr_test_engine *engine);
/* Another: private pools that are put back as they were. */
int hr_test_engine_restore_contract(const hr_test_engine *engine);

/* A device of so many bytes, with real ones if `on_host`, and the engine's pool on it. False, and
 * hr_last_error() says why. */
bool hr_test_engine_open(const hr_test_engine *engine, uint64_t capacity_bytes, bool on_host,
                         hr_device **device, hr_pool **pool);

#endif /* HR_TESTS_ENGINE_CONTRACT_H */
