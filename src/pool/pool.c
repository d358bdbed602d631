/* pool.c - the two hot paths.
 *
 * vw_alloc: lock; see to spare records and room in the map of live blocks, so that nothing below
 * takes host memory; let finished frees return; ask the engine; file the block under its address;
 * count; tell the sink; unlock. vw_free: lock; find and unfile the block; count; tell; give it to
 * the engine, or to stream_order.c if other streams use it; unlock. The rare cases are in named
 * functions below.
 *
 * Under the lock the driver is called only by the engine, when no cached block fits, and by
 * stream_order.c, to look at events: both decide where the very next block goes, and order is what
 * makes the result PyTorch's. */
#include "pool/pool.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/struct_size.h"
#include "pool/oom_report.h"

/* ---- before an allocation -------------------------------------------------------------------- */

/* Host memory is taken without the lock. Others may use it up before we have the lock again; then
 * once more. */
static __attribute__((cold, noinline)) vw_status get_ready(vw_pool *pool, size_t room)
{
    vw__block_source *records = &pool->engine->records;
    while (records->spare_count < VW__ENGINE_SPARE_RECORDS ||
           !vw__block_map_has_room(&pool->live, room)) {
        bool needs_records = records->spare_count < VW__ENGINE_SPARE_RECORDS;
        bool needs_room = !vw__block_map_has_room(&pool->live, room);
        size_t capacity = vw__block_map_wanted_capacity(&pool->live, room);
        vw__pool_unlock(pool);
        struct vw__block_chunk *chunk = needs_records ? vw__block_chunk_new() : NULL;
        vw__block_map_place *table = needs_room ? vw__block_map_new_table(capacity) : NULL;
        vw__pool_lock(pool);
        if (chunk != NULL)
            vw__block_source_add(records, chunk);
        vw__block_map_place *old_table =
            table != NULL ? vw__block_map_adopt(&pool->live, table, capacity) : NULL;
        if (old_table != NULL) {
            vw__pool_unlock(pool);
            vw__block_map_free_table(old_table);
            vw__pool_lock(pool);
        }
        if ((needs_records && chunk == NULL) || (needs_room && table == NULL))
            return vw__fail_host_memory(sizeof(vw__block), "block records");
    }
    return VW_OK;
}

/* ---- the allocation path --------------------------------------------------------------------- */

/* Where the engine dropped the lock for a while, others may have filed their blocks in the room
 * that was seen to. Under the lock, since the block is on its way; it was a slow request anyway. */
static __attribute__((cold, noinline)) vw_status make_room_late(vw_pool *pool, vw__block *block)
{
    if (vw__block_map_reserve(&pool->live, 1))
        return VW_OK;
    pool->engine->table->free(pool->engine, block);
    return vw__fail_host_memory(sizeof(vw__block), "block records");
}

static __attribute__((cold, noinline)) vw_status give_up(vw_pool *pool, vw_status status)
{
    vw__pool_end_cause(pool);
    vw__pool_unlock(pool);
    return status;
}

/* Parked memory is not waited for either. */
static __attribute__((cold, noinline)) vw_status
do_without(vw_pool *pool, const vw__engine_request *request, vw_status status)
{
    if (status != VW_ERR_OUT_OF_MEMORY && status != VW_ERR_REJECTED && status != VW_ERR_PARKED)
        return give_up(pool, status);
    return give_up(pool, vw__fail(VW_ERR_OUT_OF_MEMORY,
                                  "no free memory for an optional request of %" PRIu64 " bytes",
                                  request->size_bytes));
}

static inline vw_status serve(vw_pool *pool, const vw__engine_request *request, const void *caller,
                              vw_device_ptr *out, uint64_t *served_bytes)
{
    vw__engine *engine = pool->engine;
    vw__engine_refusal refusal;
    vw_status status = VW_OK;
    vw__pool_lock(pool);
    if (__builtin_expect(engine->records.spare_count < VW__ENGINE_SPARE_RECORDS ||
                             !vw__block_map_has_room(&pool->live, 1),
                         0))
        status = get_ready(pool, 1);
    vw__pool_begin_request(pool, caller);
    if (__builtin_expect(pool->order.pending_count != 0, 0) && status == VW_OK)
        status = vw__stream_order_advance(pool, request->stream);
    if (__builtin_expect(status != VW_OK, 0))
        return give_up(pool, status);
    vw__block *block;
    status = engine->table->allocate(engine, request, &block, &refusal);
    if (__builtin_expect(status == VW_OK && !vw__block_map_has_room(&pool->live, 1), 0))
        status = make_room_late(pool, block);
    if (__builtin_expect(status != VW_OK, 0)) {
        if (request->is_optional)
            return do_without(pool, request, status);
        if (status == VW_ERR_OUT_OF_MEMORY || status == VW_ERR_REJECTED)
            return vw__oom_report_and_unlock(pool, request, &refusal, status);
        return give_up(pool, status);
    }
    vw__pool_file_block(pool, block);
    vw__pool_end_cause(pool);
    *out = block->address;
    if (served_bytes != NULL)
        *served_bytes = block->size_bytes;
    vw__pool_unlock(pool);
    return VW_OK;
}

/* The memory is parked. */
static __attribute__((cold, noinline)) vw_status
serve_when_woken(vw_pool *pool, const vw__engine_request *request, const void *caller,
                 vw_device_ptr *out, uint64_t *served_bytes)
{
    vw_status status = VW_OK;
    uint64_t wakes = 0, since_ns = vw__clock_monotonic_ns();
    do {
        wakes = vw__pool_count_wakes(pool);
        status = serve(pool, request, caller, out, served_bytes);
    } while (status == VW_ERR_PARKED && vw__pool_wait_for_wake(pool, wakes, since_ns));
    return status;
}

/* Zero bytes, and more than any device has. */
static __attribute__((cold, noinline)) vw_status serve_odd_size(uint64_t size_bytes,
                                                                vw_device_ptr *out)
{
    if (size_bytes != 0)
        return vw__fail(VW_ERR_TOO_LARGE,
                        "CUDA out of memory. Tried to allocate more than 1EB memory.");
    *out = VW_NULL;
    return VW_OK;
}

static inline bool is_odd_size(uint64_t size_bytes)
{
    return size_bytes - 1 >= VW__ENGINE_MOST_REQUESTED_BYTES - 1;
}

VW__POOL_NAMED_CALL vw_status vw_alloc(vw_pool *pool, uint64_t size_bytes, vw_stream stream,
                                       vw_device_ptr *out)
{
    VW__TRY(vw__pool_enter(pool));
    if (__builtin_expect(out == NULL, 0))
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no place for the address");
    if (__builtin_expect(is_odd_size(size_bytes), 0))
        return serve_odd_size(size_bytes, out);
    const vw__engine_request request = {size_bytes, stream, 0, false};
    const void *caller = __builtin_return_address(0);
    vw_status status = serve(pool, &request, caller, out, NULL);
    return __builtin_expect(status != VW_ERR_PARKED, 1)
               ? status
               : serve_when_woken(pool, &request, caller, out, NULL);
}

__attribute__((cold, noinline)) vw_status vw__pool_not_live(vw_device_ptr address)
{
    return vw__fail(VW_ERR_UNKNOWN_ADDRESS,
                    "%#" PRIx64 " is not the start of a live block of this pool", address);
}

/* ---- the way back ---------------------------------------------------------------------------- */

static __attribute__((cold, noinline)) vw_status unknown_address(vw_device_ptr address)
{
    return vw__fail(VW_ERR_UNKNOWN_ADDRESS,
                    "%#" PRIx64 " is not the start of a live block of this pool: a double free, "
                    "an inner pointer, or another pool's block",
                    address);
}

vw_status vw_free(vw_pool *pool, vw_device_ptr address)
{
    VW__TRY(vw__pool_enter(pool));
    if (__builtin_expect(address == VW_NULL, 0))
        return VW_OK;
    vw__pool_lock(pool);
    vw__block *block = vw__block_map_remove(&pool->live, address);
    if (__builtin_expect(block == NULL, 0)) {
        vw__pool_unlock(pool);
        return unknown_address(address);
    }
    vw_status status = vw__pool_take_back(pool, block);
    vw__pool_unlock(pool);
    return status;
}

/* ---- the long form --------------------------------------------------------------------------- */

static vw_status serve_at(vw_pool *pool, const vw__engine_request *request, vw_device_ptr address,
                          const void *caller, vw_device_ptr *out, uint64_t *served_bytes)
{
    vw__engine *engine = pool->engine;
    if (address % VW__ENGINE_GRID_BYTES != 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "address %#" PRIx64 " is no multiple of 512",
                        address);
    vw__pool_lock(pool);
    vw_status status = engine->table->allocate_at != NULL
                           ? get_ready(pool, 2)
                           : vw__pool_unsupported(pool, "exact addresses");
    vw__pool_begin_request(pool, caller);
    if (status == VW_OK && pool->order.pending_count != 0)
        status = vw__stream_order_advance(pool, request->stream);
    vw__block *prefix = NULL, *block = NULL;
    if (status == VW_OK)
        status = engine->table->allocate_at(engine, request, address, &prefix, &block);
    if (status == VW_OK) {
        if (prefix != NULL) /* handed out and given back again, as PyTorch's traces show */
            vw__pool_file_block(pool, prefix);
        vw__pool_file_block(pool, block);
        if (prefix != NULL)
            status = vw__pool_take_back(pool, vw__block_map_remove(&pool->live, prefix->address));
        *out = block->address;
        if (served_bytes != NULL)
            *served_bytes = block->size_bytes;
    }
    vw__pool_end_cause(pool);
    vw__pool_unlock(pool);
    return status;
}

VW__POOL_NAMED_CALL vw_status vw_alloc_with(vw_pool *pool, const vw_alloc_request *request,
                                            vw_device_ptr *out)
{
    VW__TRY(vw__pool_enter(pool));
    vw_alloc_request room;
    if (out == NULL || request == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a place for the address and a request");
    request = VW__STRUCT_VIEW(vw_alloc_request, request, &room);
    if (request == NULL)
        return VW_ERR_INVALID_ARGUMENT;
    if (is_odd_size(request->size_bytes))
        return serve_odd_size(request->size_bytes, out);
    const vw__engine_request inner = {request->size_bytes, request->stream, request->tag,
                                      request->is_optional};
    const void *caller = __builtin_return_address(0);
    if (request->at != VW_NULL)
        return serve_at(pool, &inner, request->at, caller, out, request->served_bytes);
    vw_status status = serve(pool, &inner, caller, out, request->served_bytes);
    return status != VW_ERR_PARKED
               ? status
               : serve_when_woken(pool, &inner, caller, out, request->served_bytes);
}
