/* paged_engine.c - a request from rounding to hand-out, and its way back.
 *
 * A hit is best fit among the free blocks of the request's lane, lowest address among equals, and
 * the low part is handed out. It calls no driver and looks at no handle: which handles are free is
 * found out when somebody wants to know (paged_survey.c), so that a hit costs what it costs in
 * engine/torch. The way back merges with both neighbours at once. */
#include "engine/paged/paged_engine.h"

#include "base/error.h"
#include "engine/paged/paged_books.h"
#include "engine/paged/paged_miss.h"
#include "engine/paged/paged_on_host.h"
#include "engine/paged/paged_return.h"
#include "engine/paged/paged_share.h"

/* ---- hits ------------------------------------------------------------------------------------ */

VW__TREE_INLINE uint64_t round_size(uint64_t requested_bytes)
{
    return (requested_bytes + VW__ENGINE_GRID_BYTES - 1) & ~(VW__ENGINE_GRID_BYTES - 1);
}

/* The low part of a free block, or all of it; what is left stays free, as old as it was. */
VW__TREE_INLINE vw__block *hand_out(vw__paged_engine *engine, vw__lane *lane,
                                    const vw__engine_request *request, uint64_t size_bytes,
                                    vw__block *block, bool is_splitting)
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

VW__TREE_INLINE bool should_split(const vw__shelf *shelf, const vw__block *block,
                                  uint64_t size_bytes)
{
    return block->size_bytes != size_bytes &&
           !(shelf->private_pool != NULL && shelf->private_pool->no_split);
}

VW__TREE_INLINE vw__block *find_hit(const vw__lane *lane, uint64_t size_bytes)
{
    return lane != NULL ? vw__free_index_best_fit(&lane->free, size_bytes) : NULL;
}

static __attribute__((noinline)) vw_status serve_a_miss(vw__paged_engine *engine, vw__shelf *shelf,
                                                        const vw__engine_request *request,
                                                        uint64_t size_bytes, vw__block **out,
                                                        vw__engine_refusal *refusal)
{
    vw__block *block = NULL;
    engine->under_way++;
    vw_status status = vw__paged_serve_miss(engine, shelf, request, size_bytes, &block, refusal);
    engine->under_way--;
    VW__TRY(status);
    *out = hand_out(engine, vw__block_lane(block), request, size_bytes, block,
                    should_split(shelf, block, size_bytes));
    return VW_OK;
}

VW__TREE_INLINE vw__shelf *shelf_for(vw__paged_engine *engine, const vw__engine_request *request,
                                     uint64_t size_bytes)
{
    vw__engine_size_kind kind =
        size_bytes <= VW__ENGINE_SMALL_BYTES ? VW__ENGINE_SMALL : VW__ENGINE_LARGE;
    if (engine->base.scopes == NULL)
        return &engine->base.shelves[kind];
    vw__shelf *shelf = vw__engine_route(&engine->base, request->stream, kind);
    vw__private_note_capture(&engine->base, shelf->private_pool, request->stream);
    return shelf;
}

vw_status vw__paged_allocate(vw__engine *base, const vw__engine_request *request, vw__block **out,
                             vw__engine_refusal *refusal)
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

vw_status vw__paged_allocate_at(vw__engine *base, const vw__engine_request *request,
                                vw_device_ptr address, vw__block **prefix, vw__block **out)
{
    vw__paged_engine *engine = vw__paged_of(base);
    uint64_t size_bytes = round_size(request->size_bytes);
    vw__shelf *shelf = shelf_for(engine, request, size_bytes);
    vw__lane *lane = vw__shelf_lane(shelf, request->stream);
    vw__block *block = NULL;
    VW__TRY(vw__engine_find_free_at(base, lane, address, size_bytes, &block));
    *prefix = NULL;
    if (block->address < address) {
        const vw__engine_request fake = {address - block->address, request->stream, request->tag,
                                         false};
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
