/* paged_engine.c - a request from rounding to hand-out, and its way back.
 *
 * A hit is best fit among the free blocks of the request's lane, lowest address among equals, and
 * the low part is handed out. It calls no driver and looks at no handle: which handles are free is
 * found out when somebody wants to know (paged_survey.c), so that a hit costs what it costs in
 * engine/torch. The way back merges with both neighbours at once. */
#include "engine/paged/paged_engine.h"

#include "base/error.h"
#include "engine/paged/paged_spill.h"
#include "engine/torch/torch_rounding.h"

/* ---- hits ------------------------------------------------------------------------------------ */

VW__INLINE uint64_t round_size(uint64_t requested_bytes)
{
    return (requested_bytes + VW__TORCH_MIN_BLOCK_BYTES - 1) & ~(VW__TORCH_MIN_BLOCK_BYTES - 1);
}

/* The low part of a free block, or all of it; what is left stays free, as old as it was. */
VW__INLINE vw__block *hand_out(vw__paged_engine *engine, vw__lane *lane, const vw__request *request,
                               uint64_t size_bytes, vw__block *block, bool is_splitting)
{
    if (is_splitting)
        block =
            vw__lane_split_low(&engine->base.records, lane, block, size_bytes, 0, block->age_base);
    else
        vw__free_index_remove(&lane->free, block);
    block->state = VW__BLOCK_LIVE;
    block->requested_bytes = request->size_bytes;
    block->tag = request->tag;
    block->age_base = engine->clock;
    return block;
}

VW__INLINE bool should_split(const vw__shelf *shelf, const vw__block *block, uint64_t size_bytes)
{
    return block->size_bytes != size_bytes &&
           !(shelf->private_pool != NULL && shelf->private_pool->no_split);
}

/* ---- misses ---------------------------------------------------------------------------------- */

VW__INLINE vw__block *find_hit(const vw__lane *lane, uint64_t size_bytes)
{
    return lane != NULL ? vw__free_index_best_fit(&lane->free, size_bytes) : NULL;
}

/* The lock may be dropped on the way (the reclaim callback, the safe point), so the private pool is
 * held on to and the record for the split is seen to again. */
static __attribute__((noinline)) vw_status serve_a_miss(vw__paged_engine *engine, vw__shelf *shelf,
                                                        const vw__request *request,
                                                        uint64_t size_bytes, vw__block **out,
                                                        vw__refusal *refusal)
{
    vw__private_pool *pool = shelf->private_pool;
    vw__block *block = NULL;
    vw_status status = VW_OK;
    if (pool != NULL)
        pool->requests_in_progress++;
    if (engine->base.owner.reclaim(engine->base.owner.context))
        block = find_hit(vw__shelf_lane(shelf, request->stream), size_bytes);
    if (engine->failure != NULL) { /* another request's doing, meanwhile */
        status = vw__fail(VW_ERR_DEVICE, "%s", engine->failure);
    } else if (block == NULL) {
        engine->base.serving = request;
        vw__lane *lane = vw__shelf_add_lane(shelf, request->stream);
        status = lane != NULL ? vw__paged_serve_miss(engine, lane, size_bytes, &block)
                              : vw__fail_host_memory(sizeof *lane, "a stream's free blocks");
        engine->base.serving = NULL;
    }
    if (pool != NULL)
        pool->requests_in_progress--;
    if (status == VW_OK && !vw__block_source_reserve(&engine->base.records, 1))
        status = vw__fail_host_memory(sizeof(vw__block), "block records"); /* it stays free */
    if (status != VW_OK) {
        refusal->rounded_bytes = size_bytes;
        refusal->segment_bytes = size_bytes;
        refusal->private_id = shelf->private_id;
        refusal->is_expandable = true;
        return status;
    }
    *out = hand_out(engine, vw__block_lane(block), request, size_bytes, block,
                    should_split(shelf, block, size_bytes));
    return VW_OK;
}

VW__INLINE vw__shelf *shelf_for(vw__paged_engine *engine, const vw__request *request,
                                uint64_t size_bytes)
{
    vw__size_kind kind = vw__torch_is_small(size_bytes) ? VW__SMALL : VW__LARGE;
    return engine->base.scopes == NULL ? &engine->base.shelves[kind]
                                       : vw__engine_route(&engine->base, request->stream, kind);
}

vw_status vw__paged_allocate(vw__engine *base, const vw__request *request, vw__block **out,
                             vw__refusal *refusal)
{
    vw__paged_engine *engine = vw__paged_of(base);
    uint64_t size_bytes = round_size(request->size_bytes);
    vw__shelf *shelf = shelf_for(engine, request, size_bytes);
    vw__lane *lane = vw__shelf_lane(shelf, request->stream);
    vw__block *block = find_hit(lane, size_bytes);
    engine->clock++;
    if (__builtin_expect(block == NULL, 0))
        return serve_a_miss(engine, shelf, request, size_bytes, out, refusal);
    *out =
        hand_out(engine, lane, request, size_bytes, block, should_split(shelf, block, size_bytes));
    return VW_OK;
}

/* ---- the way back ---------------------------------------------------------------------------- */

void vw__paged_settle_free(vw__paged_engine *engine, vw__block *block, int64_t age)
{
    vw__lane_settle_free(&engine->base.records, vw__block_lane(block), block, age);
}

void vw__paged_free_part(vw__paged_engine *engine, vw__block *block)
{
    if (engine->stats.shared_pages == 0 || !vw__paged_free_in_guests(engine, block))
        vw__paged_settle_free(engine, block, engine->clock);
}

static __attribute__((noinline)) void free_watched(vw__paged_engine *engine, vw__block *block)
{
    vw__paged_note_free(engine, block);
    if (!vw__paged_free_on_host(engine, block))
        vw__paged_free_part(engine, block);
    vw__paged_look_for_room(engine);
}

void vw__paged_free(vw__engine *base, vw__block *block)
{
    vw__paged_engine *engine = vw__paged_of(base);
    block->tag = 0;
    if (__builtin_expect(engine->watched_frees != 0, 0)) {
        free_watched(engine, block);
        return;
    }
    vw__lane_settle_free(&engine->base.records, vw__block_lane(block), block, engine->clock);
}

/* ---- an exact address ------------------------------------------------------------------------ */

vw_status vw__paged_allocate_at(vw__engine *base, const vw__request *request, vw_device_ptr address,
                                vw__block **prefix, vw__block **out)
{
    vw__paged_engine *engine = vw__paged_of(base);
    uint64_t size_bytes = round_size(request->size_bytes);
    vw__shelf *shelf = shelf_for(engine, request, size_bytes);
    vw__lane *lane = vw__shelf_lane(shelf, request->stream);
    vw__block *block = NULL;
    VW__TRY(vw__engine_find_free_at(base, lane, address, size_bytes, &block));
    *prefix = NULL;
    if (block->address < address) {
        const vw__request fake = {address - block->address, request->stream, request->tag};
        *prefix = hand_out(engine, lane, &fake, fake.size_bytes, block, true);
    }
    *out =
        hand_out(engine, lane, request, size_bytes, block, should_split(shelf, block, size_bytes));
    return VW_OK;
}

/* A block of a checkpoint: what its free block has before and after it stays free. */
vw__block *vw__paged_hand_out_at(vw__engine *base, vw__block *block, vw_device_ptr address,
                                 uint64_t size_bytes, uint64_t tag)
{
    vw__paged_cut_out(vw__paged_of(base), block, address, size_bytes);
    block->state = VW__BLOCK_LIVE;
    block->requested_bytes = size_bytes;
    block->tag = tag;
    block->age_base = vw__paged_of(base)->clock;
    return block;
}
