/* pool_walk.c - looking at a pool's blocks, and listening to it. */
#include "pool/pool.h"

#include <inttypes.h>

hr_status hr_pool_walk(hr_pool *pool, const hr_walker *walker, bool is_snapshot)
{
    HR__TRY(hr__pool_enter(pool));
    if (walker == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "expected a walker");
    hr__pool_lock(pool);
    pool->engine->table->walk(pool->engine, walker);
    if (is_snapshot && pool->has_sink) {
        const hr__counter *active = &pool->counters.active_bytes;
        uint64_t active_bytes = (uint64_t)(active->current[HR__SMALL] + active->current[HR__LARGE]);
        hr__pool_tell(pool,
                      (hr_memory_event){.action = HR_ACTION_SNAPSHOT, .size_bytes = active_bytes});
    }
    hr__pool_unlock(pool);
    return HR_OK;
}

/* The segment, or the mapped range of an expandable one, around a block. */
static void measure_segment(const hr__block *block, hr_block_place *place)
{
    const hr__block *first = block, *last = block;
    while (first->previous != NULL && hr__block_has_memory(first->previous))
        first = first->previous;
    while (last->next != NULL && hr__block_has_memory(last->next))
        last = last->next;
    place->segment_address = first->address;
    place->segment_bytes = last->address + last->size_bytes - first->address;
}

hr_status hr_pool_find(hr_pool *pool, hr_device_ptr address, hr_block_place *out)
{
    HR__TRY(hr__pool_enter(pool));
    if (out == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "no place for the answer");
    hr__pool_lock(pool);
    const hr__block *block = hr__address_map_get(&pool->live, address);
    if (block == NULL)
        block = pool->engine->table->find(pool->engine, address);
    bool is_live = block != NULL && block->state == HR__BLOCK_LIVE;
    if (is_live) {
        *out = (hr_block_place){
            .block_address = block->address,
            .block_bytes = block->size_bytes,
            .requested_bytes = block->requested_bytes,
            .stream = hr__block_stream(block),
            .tag = block->tag,
            .is_expandable = hr__block_is_expandable(block),
        };
        measure_segment(block, out);
    }
    hr__pool_unlock(pool);
    if (!is_live)
        return hr__fail(HR_ERR_UNKNOWN_ADDRESS, "%#" PRIx64 " is in no live block of this pool",
                        address);
    return HR_OK;
}

hr_status hr_pool_set_sink(hr_pool *pool, const hr_event_sink *sink)
{
    HR__TRY(hr__pool_enter(pool));
    if (sink != NULL && sink->notice == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "a sink without a function");
    hr__pool_lock(pool);
    pool->has_sink = sink != NULL;
    pool->sink = sink != NULL ? *sink : (hr_event_sink){NULL, NULL};
    pool->cause = (hr__cause){0, NULL};
    hr__pool_unlock(pool);
    return HR_OK;
}
