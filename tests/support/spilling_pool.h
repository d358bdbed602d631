/* spilling_pool.h - a patterned pool whose live memory may leave the device: what tests of leaving
 * and of coming back share. On the host device, where every block has a pattern in it: what moved
 * must read as before. */
#ifndef HR_TESTS_SPILLING_POOL_H
#define HR_TESTS_SPILLING_POOL_H

#include "engine/paged/paged_spill.h"
#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/patterned_pool.h"

#define MIB HR_TEST_MIB

enum { PATIENCE = 4 }; /* of paged_return.c */

static inline void open_pool(hr_test_patterns *p, const char *engine, uint64_t capacity_bytes,
                             uint64_t spill_bytes)
{
    hr_test_patterns_open(p, &(hr_test_pool_setup){.engine = engine,
                                                   .capacity_bytes = capacity_bytes,
                                                   .spill_bytes = spill_bytes,
                                                   .on_host = true});
}

static inline hr_device_ptr hold(hr_test_patterns *p, uint64_t size_bytes)
{
    return hr_test_hold(p, size_bytes, 0);
}

static inline void assert_nothing_is_lost(hr_test_patterns *p)
{
    hr_test_look_at_all(p);
    hr_test_ok(&p->t, HR_OK);
}

static inline void mark_steps(hr_test_patterns *p, int count)
{
    for (int i = 0; i < count; i++)
        hr_test_ok(&p->t, hr_pool_mark_step(p->t.pool));
}

static inline uint64_t spilled_bytes(const hr_test_patterns *p)
{
    return hr_test_paged_stats(p).spilled_bytes;
}
static inline bool is_on_host(const hr_test_patterns *p, hr_device_ptr address)
{
    hr__engine *base = p->t.pool->engine;
    const hr__block *block = hr__engine_find(base, address);
    const hr__place *place = hr__paged_place_at(hr__paged_of(base), block->segment, address);
    return place->handle->on_host != NULL;
}

#endif /* HR_TESTS_SPILLING_POOL_H */
