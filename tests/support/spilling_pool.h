/* spilling_pool.h - a patterned pool whose live memory may leave the device, for tests of spilling
 * and returning. On the host device, where every block has a pattern: moved memory must read as
 * before. */
#ifndef VW_TESTS_SPILLING_POOL_H
#define VW_TESTS_SPILLING_POOL_H

#include "engine/paged/paged_spill.h"
#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/patterned_pool.h"

#define MIB VW_TEST_MIB

enum { PATIENCE = 4 }; /* of paged_return.c */

static inline void open_pool(vw_test_patterns *p, const char *engine, uint64_t capacity_bytes,
                             uint64_t spill_bytes)
{
    vw_test_patterns_open(p, &(vw_test_pool_setup){.engine = engine,
                                                   .capacity_bytes = capacity_bytes,
                                                   .spill_bytes = spill_bytes,
                                                   .on_host = true});
}

static inline vw_device_ptr hold(vw_test_patterns *p, uint64_t size_bytes)
{
    return vw_test_hold(p, size_bytes, 0);
}

static inline void assert_nothing_is_lost(vw_test_patterns *p)
{
    vw_test_look_at_all(p);
    vw_test_ok(&p->t, VW_OK);
}

static inline void mark_steps(vw_test_patterns *p, int count)
{
    for (int i = 0; i < count; i++)
        vw_test_ok(&p->t, vw_pool_mark_step(p->t.pool));
}

static inline uint64_t spilled_bytes(const vw_test_patterns *p)
{
    return vw_test_paged_stats(p).spilled_bytes;
}
static inline bool is_on_host(const vw_test_patterns *p, vw_device_ptr address)
{
    vw__engine *base = p->t.pool->engine;
    const vw__block *block = vw__engine_find(base, address);
    const vw__paged_place *place = vw__paged_place_at(vw__paged_of(base), block->segment, address);
    return place->handle->on_host != NULL;
}

#endif /* VW_TESTS_SPILLING_POOL_H */
