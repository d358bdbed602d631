/* engine_contract.h - the suite every engine must pass, through the pool that drives it.
 *
 * It asks for what include/vramwise/vramwise.h promises whichever engine decides where blocks lie:
 * it knows no rule of PyTorch's and expects no address. A new engine begins by making this suite
 * fail. What an engine lacks must be refused as unsupported, and nothing else. Each check runs on a
 * fresh pool, on the simulated device where it counts and on the host device where bytes have to
 * survive. */
#ifndef VW_TESTS_ENGINE_CONTRACT_H
#define VW_TESTS_ENGINE_CONTRACT_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/vramwise.h"

struct vw__engine_kind; /* engine/engine_list.h */

/* Capabilities that an engine may be without. */
typedef enum vw_test_lack {
    VW_TEST_NO_MERGING = 1, /* what lay side by side does not serve as one piece */
    VW_TEST_NO_EXACT_ADDRESSES = 2,
    VW_TEST_NO_PRIVATE_POOLS = 4,
    VW_TEST_NO_SETTINGS = 8,
    VW_TEST_NO_MOVES = 16, /* no statistics of memory that moves */
} vw_test_lack;

typedef struct vw_test_engine {
    const char *name;                   /* for the report */
    vw_pool_options options;            /* what makes the pool; struct_size is filled in */
    uint64_t limit_excess_bytes;        /* how far one growth may take the pool beyond its limit */
    bool without_virtual_memory;        /* on devices that have none */
    unsigned lacks;                     /* vw_test_lack */
    const struct vw__engine_kind *kind; /* NULL: the one that options.engine names */
} vw_test_engine;

/* Runs every check. The number of checks that failed. */
int vw_test_engine_contract(const vw_test_engine *engine);

/* A part of it: what is told to listeners, private pools, odd requests. */
int vw_test_engine_routing_contract(const vw_test_engine *engine);
/* Another: private pools that are put back as they were. */
int vw_test_engine_restore_contract(const vw_test_engine *engine);

/* A device of so many bytes, with real ones if `on_host`, and the engine's pool on it. False, and
 * vw_last_error() says why. */
bool vw_test_engine_open(const vw_test_engine *engine, uint64_t capacity_bytes, bool on_host,
                         vw_device **device, vw_pool **pool);

#endif /* VW_TESTS_ENGINE_CONTRACT_H */
