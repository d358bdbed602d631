/* pool_walk.c - looking at a pool's blocks, and listening to it. */
#include "pool/pool.h"

#include <inttypes.h>

vw_status vw_pool_walk(vw_pool *pool, const vw_walker *walker, bool is_snapshot)
{
    VW__TRY(vw__pool_enter(pool));
    if (walker == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a walker");
    vw__pool_lock(pool);
    pool->engine->table->walk(pool->engine, walker);
    if (is_snapshot && pool->has_sink) {
        const vw__counter *active = &pool->counters.active_bytes;
        uint64_t active_bytes =
            (uint64_t)(active->current[VW__ENGINE_SMALL] + active->current[VW__ENGINE_LARGE]);
        vw__pool_tell(pool,
                      (vw_memory_event){.action = VW_ACTION_SNAPSHOT, .size_bytes = active_bytes});
    }
    vw__pool_unlock(pool);
    return VW_OK;
}

/* The segment, or the mapped range of an expandable one, around a block. */
static void measure_segment(const vw__block *block, vw_block_place *place)
{
    const vw__block *first = block, *last = block;
    while (first->previous != NULL && vw__block_has_memory(first->previous))
        first = first->previous;
    while (last->next != NULL && vw__block_has_memory(last->next))
        last = last->next;
    place->segment_address = first->address;
    place->segment_bytes = last->address + last->size_bytes - first->address;
}

vw_status vw_pool_find(vw_pool *pool, vw_device_ptr address, vw_block_place *out)
{
    VW__TRY(vw__pool_enter(pool));
    if (out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no place for the answer");
    vw__pool_lock(pool);
    const vw__block *block = vw__block_map_get(&pool->live, address);
    if (block == NULL)
        block = pool->engine->table->find(pool->engine, address);
    bool is_live = block != NULL && block->state == VW__BLOCK_LIVE;
    if (is_live) {
        *out = (vw_block_place){
            .block_address = block->address,
            .block_bytes = block->size_bytes,
            .requested_bytes = block->requested_bytes,
            .stream = vw__block_stream(block),
            .tag = block->tag,
            .is_expandable = vw__block_is_expandable(block),
            .private_id = vw__block_private_id(block),
        };
        measure_segment(block, out);
    }
    vw__pool_unlock(pool);
    if (!is_live)
        return vw__fail(VW_ERR_UNKNOWN_ADDRESS, "%#" PRIx64 " is in no live block of this pool",
                        address);
    return VW_OK;
}

static void put_sink(vw_pool *pool, const vw_event_sink *sink)
{
    pool->has_sink = sink != NULL;
    pool->sink = sink != NULL ? *sink : (vw_event_sink){NULL, NULL};
    pool->cause = (vw__engine_cause){0, NULL};
}

vw_status vw_pool_set_sink(vw_pool *pool, const vw_event_sink *sink)
{
    VW__TRY(vw__pool_enter(pool));
    if (sink != NULL && sink->notice == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "a sink without a function");
    vw__pool_lock(pool);
    put_sink(pool, sink);
    vw__pool_unlock(pool);
    return VW_OK;
}

vw_status vw__pool_take_sink_away(vw_pool *pool, const void *sink_context)
{
    VW__TRY(vw__pool_enter(pool));
    vw__pool_lock(pool);
    if (pool->has_sink && pool->sink.context == sink_context)
        put_sink(pool, NULL);
    vw__pool_unlock(pool);
    return VW_OK;
}
