/* paged_whole.c - private pools whose segments are one handle each (vw_private_options.one_handle).
 *
 * NCCL, UCX and RDMA drivers register a range of addresses, and a dma-buf is made of one: all of
 * them want one allocation of the driver's under it. So such a pool takes its memory as PyTorch
 * takes plain segments: a reservation of its own, with one handle in all of it. The handle counts
 * as pinned from its first day. So nothing that moves, copies, shares or spills memory touches it,
 * and only this file gives it back: when nobody uses the pool any more, no block is left in the
 * segment, and nobody else has pinned it.
 *
 * A handle cannot be put together from the free handles of other arenas. Where the device is full,
 * some of those go back to it first. */
#include "engine/paged/paged_whole.h"

#include "base/error.h"
#include "engine/driver_calls.h"
#include "engine/paged/paged_handles.h"
#include "engine/paged/paged_survey.h"
#include "engine/torch/torch_rounding.h" /* vw__torch_segment_size */

enum { OWN_PIN = 1 };

bool vw__paged_wants_whole(const vw__shelf *shelf)
{
    return shelf->private_pool != NULL && shelf->private_pool->one_handle;
}

static vw_status wait_for(const vw__paged_engine *engine, const vw__lane *lane)
{
    return vw__paged_device(engine)->stream_synchronize(vw__paged_context(engine), lane->stream);
}

/* ---- taking ---------------------------------------------------------------------------------- */

static vw_status add_segment(vw__paged_engine *engine, vw__lane *lane, uint64_t size_bytes,
                             vw__block **out)
{
    vw_device_ptr address = VW_NULL;
    vw__segment *segment = NULL;
    VW__TRY(vw__driver_reserve(&engine->base.owner, size_bytes, &address));
    VW__TRY(
        vw__paged_adopt_arena(engine, lane, address, size_bytes, VW__BLOCK_NATURE_WHOLE, &segment));
    vw_status status = vw__paged_grow(engine, segment->first, address, size_bytes);
    if (status == VW_OK) {
        vw__paged_place_at(engine, segment, address)->handle->pin_count = OWN_PIN;
        *out = segment->first;
    } else if (engine->failure == NULL) {
        (void)vw__paged_end_arena(engine, segment);
    }
    return status;
}

/* VW_ERR_OUT_OF_MEMORY also where the pool may not hold so much. */
static vw_status try_size(const vw__paged_miss *request, uint64_t size_bytes, vw__block **out)
{
    vw__paged_engine *engine = request->engine;
    uint64_t held_bytes = engine->base.held_bytes;
    if (held_bytes > request->most_bytes || size_bytes > request->most_bytes - held_bytes)
        return VW_ERR_OUT_OF_MEMORY;
    return add_segment(engine, request->lane, size_bytes, out);
}

/* Free handles of other pools go back to the device, as many as make `wanted_bytes`. */
static vw_status release_pages(const vw__paged_miss *request, uint64_t wanted_bytes,
                               uint64_t *given_bytes)
{
    vw__paged_engine *engine = request->engine;
    const vw__lane *waited_for = NULL;
    VW__TRY(vw__paged_survey(engine, request->lane->stream));
    for (size_t i = 0; i < engine->candidate_count && *given_bytes < wanted_bytes; i++) {
        vw__paged_handle *handle = engine->candidates[i].handle;
        const vw__lane *lane = handle->home->segment->lane;
        uint64_t size_bytes = handle->size_bytes;
        while (handle->ghosts != NULL)
            VW__TRY(vw__paged_drop_ghost(engine, handle->ghosts, true));
        if (lane != waited_for)
            VW__TRY(wait_for(engine, lane));
        waited_for = lane;
        VW__TRY(vw__paged_release(engine, handle));
        *given_bytes += size_bytes;
    }
    return VW_OK;
}

vw_status vw__paged_take_whole(vw__paged_miss *request, vw__block **out)
{
    vw__paged_engine *engine = request->engine;
    const vw__torch_settings *settings = &engine->conf.settings;
    uint64_t least_bytes = vw__paged_whole_units(engine, request->size_bytes), given_bytes = 0;
    uint64_t usual_bytes =
        vw__paged_whole_units(engine, vw__torch_segment_size(settings, request->size_bytes));
    vw_status status = try_size(request, usual_bytes, out);
    if (status == VW_ERR_OUT_OF_MEMORY && least_bytes < usual_bytes)
        status = try_size(request, least_bytes, out);
    if (status != VW_ERR_OUT_OF_MEMORY || request->is_capturing)
        return status;
    VW__TRY(vw__paged_release_whole(engine, NULL, &given_bytes));
    VW__TRY(release_pages(request, least_bytes, &given_bytes));
    return given_bytes != 0 ? try_size(request, least_bytes, out) : VW_ERR_OUT_OF_MEMORY;
}

/* ---- giving back ----------------------------------------------------------------------------- */

static bool is_idle(const vw__paged_engine *engine, const vw__block *block)
{
    return vw__segment_is_whole(block->segment) && !vw__block_is_split(block) &&
           vw__paged_place_at(engine, block->segment, block->address)->handle->pin_count == OWN_PIN;
}

static vw_status release_segment(vw__paged_engine *engine, vw__block *block, uint64_t *given_bytes)
{
    vw__segment *segment = block->segment;
    vw__paged_handle *handle = vw__paged_place_at(engine, segment, segment->address)->handle;
    uint64_t size_bytes = segment->size_bytes;
    handle->block = block;
    VW__TRY(vw__paged_release(engine, handle));
    *given_bytes += size_bytes;
    return vw__paged_end_arena(engine, segment);
}

static vw_status release_lane(vw__paged_engine *engine, vw__lane *lane, uint64_t *given_bytes)
{
    bool is_waited_for = false;
    vw__block *next = NULL;
    for (vw__block *block = vw__free_index_first(&lane->free); block != NULL; block = next) {
        next = vw__free_index_after(&lane->free, block);
        if (!is_idle(engine, block))
            continue;
        if (!is_waited_for)
            VW__TRY(wait_for(engine, lane));
        is_waited_for = true;
        VW__TRY(release_segment(engine, block, given_bytes));
    }
    return VW_OK;
}

static vw_status release_shelf(vw__paged_engine *engine, vw__shelf *shelf, uint64_t *given_bytes)
{
    for (vw__lane *lane = shelf->lanes; lane != NULL; lane = lane->next)
        if (!vw__engine_is_capturing(&engine->base, lane->stream))
            VW__TRY(release_lane(engine, lane, given_bytes));
    return VW_OK;
}

vw_status vw__paged_release_whole(vw__paged_engine *engine, const vw_private_id *only,
                                  uint64_t *given_bytes)
{
    for (vw__private_pool *pool = engine->base.private_pools; pool != NULL; pool = pool->next) {
        if (vw__private_is_in_use(pool) || !pool->one_handle ||
            (only != NULL && !vw__private_id_same(pool->id, *only)))
            continue;
        for (int kind = VW__ENGINE_SMALL; kind <= VW__ENGINE_LARGE; kind++)
            VW__TRY(release_shelf(engine, &pool->shelves[kind], given_bytes));
    }
    return VW_OK;
}
