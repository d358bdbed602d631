/* pool.c - the two hot paths.
 *
 * hr_alloc: lock; see to spare records and room in the address map, so that nothing below takes
 * host memory; let finished frees return; ask the engine; file the block under its address; count;
 * tell the sink; unlock. hr_free: lock; find and unfile the block; count; tell; give it to the
 * engine, or to stream_order.c if other streams use it; unlock. The rare cases are in named
 * functions below.
 *
 * Under the lock the driver is called only by the engine, when no cached block fits, and by
 * stream_order.c, to look at events: both decide where the very next block goes, and order is what
 * makes the result PyTorch's. */
#include "pool/pool.h"

#include <inttypes.h>

#include "engine/torch/torch_rounding.h" /* HR__TORCH_MOST_REQUESTED_BYTES */
#include "pool/oom_report.h"

/* ---- before an allocation -------------------------------------------------------------------- */

/* Host memory is taken without the lock. Others may use it up before we have the lock again; then
 * once more. */
static __attribute__((cold, noinline)) hr_status get_ready(hr_pool *pool, size_t room)
{
    hr__block_source *records = &pool->engine->records;
    while (records->spare_count < HR__ENGINE_SPARE_RECORDS ||
           !hr__address_map_has_room(&pool->live, room)) {
        bool needs_records = records->spare_count < HR__ENGINE_SPARE_RECORDS;
        bool needs_room = !hr__address_map_has_room(&pool->live, room);
        size_t capacity = hr__address_map_wanted_capacity(&pool->live, room);
        hr__pool_unlock(pool);
        struct hr__block_chunk *chunk = needs_records ? hr__block_chunk_new() : NULL;
        hr__address_map_entry *table = needs_room ? hr__address_map_new_table(capacity) : NULL;
        hr__pool_lock(pool);
        if (chunk != NULL)
            hr__block_source_add(records, chunk);
        hr__address_map_entry *old_table =
            table != NULL ? hr__address_map_adopt(&pool->live, table, capacity) : NULL;
        if (old_table != NULL) {
            hr__pool_unlock(pool);
            hr__address_map_free_table(old_table);
            hr__pool_lock(pool);
        }
        if ((needs_records && chunk == NULL) || (needs_room && table == NULL))
            return hr__fail_host_memory(sizeof(hr__block), "block records");
    }
    return HR_OK;
}

/* ---- the allocation path --------------------------------------------------------------------- */

/* Where the engine dropped the lock for a while, others may have filed their blocks in the room
 * that was seen to. Under the lock, since the block is on its way; it was a slow request anyway. */
static __attribute__((cold, noinline)) hr_status make_room_late(hr_pool *pool, hr__block *block)
{
    if (hr__address_map_reserve(&pool->live, 1))
        return HR_OK;
    pool->engine->table->free(pool->engine, block);
    return hr__fail_host_memory(sizeof(hr__block), "block records");
}

static __attribute__((cold, noinline)) hr_status give_up(hr_pool *pool, hr_status status)
{
    hr__pool_end_cause(pool);
    hr__pool_unlock(pool);
    return status;
}

static inline hr_status serve(hr_pool *pool, const hr__request *request, const void *caller,
                              hr_device_ptr *out, uint64_t *served_bytes)
{
    hr__engine *engine = pool->engine;
    hr__refusal refusal;
    hr_status status = HR_OK;
    hr__pool_lock(pool);
    if (__builtin_expect(engine->records.spare_count < HR__ENGINE_SPARE_RECORDS ||
                             !hr__address_map_has_room(&pool->live, 1),
                         0))
        status = get_ready(pool, 1);
    hr__pool_begin_request(pool, caller);
    if (__builtin_expect(pool->order.pending_count != 0, 0) && status == HR_OK &&
        !engine->table->is_capturing(engine, request->stream))
        status = hr__stream_order_advance(pool);
    if (__builtin_expect(status != HR_OK, 0))
        return give_up(pool, status);
    hr__block *block;
    status = engine->table->allocate(engine, request, &block, &refusal);
    if (__builtin_expect(status == HR_OK && !hr__address_map_has_room(&pool->live, 1), 0))
        status = make_room_late(pool, block);
    if (__builtin_expect(status != HR_OK, 0)) {
        if (status == HR_ERR_OUT_OF_MEMORY || status == HR_ERR_REJECTED)
            return hr__oom_report_and_unlock(pool, request, &refusal, status);
        return give_up(pool, status);
    }
    hr__pool_file_block(pool, block);
    hr__pool_end_cause(pool);
    *out = block->address;
    if (served_bytes != NULL)
        *served_bytes = block->size_bytes;
    hr__pool_unlock(pool);
    return HR_OK;
}

/* Zero bytes, and more than any device has. */
static __attribute__((cold, noinline)) hr_status serve_odd_size(uint64_t size_bytes,
                                                                hr_device_ptr *out)
{
    if (size_bytes != 0)
        return hr__fail(HR_ERR_TOO_LARGE,
                        "CUDA out of memory. Tried to allocate more than 1EB memory.");
    *out = HR_NULL;
    return HR_OK;
}

static inline bool is_odd_size(uint64_t size_bytes)
{
    return size_bytes - 1 >= HR__TORCH_MOST_REQUESTED_BYTES - 1;
}

HR__NAMED_CALL hr_status hr_alloc(hr_pool *pool, uint64_t size_bytes, hr_stream stream,
                                  hr_device_ptr *out)
{
    HR__TRY(hr__pool_enter(pool));
    if (__builtin_expect(out == NULL, 0))
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "no place for the address");
    if (__builtin_expect(is_odd_size(size_bytes), 0))
        return serve_odd_size(size_bytes, out);
    const hr__request request = {size_bytes, stream, 0};
    return serve(pool, &request, __builtin_return_address(0), out, NULL);
}

/* ---- the way back ---------------------------------------------------------------------------- */

static __attribute__((cold, noinline)) hr_status unknown_address(hr_device_ptr address)
{
    return hr__fail(HR_ERR_UNKNOWN_ADDRESS,
                    "%#" PRIx64 " is not the start of a live block of this pool: a double free, "
                    "an inner pointer, or another pool's block",
                    address);
}

hr_status hr_free(hr_pool *pool, hr_device_ptr address)
{
    HR__TRY(hr__pool_enter(pool));
    if (__builtin_expect(address == HR_NULL, 0))
        return HR_OK;
    hr__pool_lock(pool);
    hr__block *block = hr__address_map_remove(&pool->live, address);
    if (__builtin_expect(block == NULL, 0)) {
        hr__pool_unlock(pool);
        return unknown_address(address);
    }
    hr_status status = hr__pool_take_back(pool, block);
    hr__pool_unlock(pool);
    return status;
}

/* ---- the long form --------------------------------------------------------------------------- */

static hr_status serve_at(hr_pool *pool, const hr__request *request, hr_device_ptr address,
                          const void *caller, hr_device_ptr *out, uint64_t *served_bytes)
{
    hr__engine *engine = pool->engine;
    if (address % HR__TORCH_MIN_BLOCK_BYTES != 0)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "address %#" PRIx64 " is no multiple of 512",
                        address);
    hr__pool_lock(pool);
    hr_status status = get_ready(pool, 2);
    hr__pool_begin_request(pool, caller);
    if (status == HR_OK && pool->order.pending_count != 0 &&
        !engine->table->is_capturing(engine, request->stream))
        status = hr__stream_order_advance(pool);
    hr__block *prefix = NULL, *block = NULL;
    if (status == HR_OK)
        status = engine->table->allocate_at(engine, request, address, &prefix, &block);
    if (status == HR_OK) {
        if (prefix != NULL) /* handed out and given back again, as PyTorch's traces show */
            hr__pool_file_block(pool, prefix);
        hr__pool_file_block(pool, block);
        if (prefix != NULL)
            status = hr__pool_take_back(pool, hr__address_map_remove(&pool->live, prefix->address));
        *out = block->address;
        if (served_bytes != NULL)
            *served_bytes = block->size_bytes;
    }
    hr__pool_end_cause(pool);
    hr__pool_unlock(pool);
    return status;
}

HR__NAMED_CALL hr_status hr_alloc_with(hr_pool *pool, const hr_alloc_request *request,
                                       hr_device_ptr *out)
{
    HR__TRY(hr__pool_enter(pool));
    if (out == NULL || request == NULL || request->struct_size < sizeof *request)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "expected a place for the address and a request of %zu bytes",
                        sizeof *request);
    if (is_odd_size(request->size_bytes))
        return serve_odd_size(request->size_bytes, out);
    const hr__request inner = {request->size_bytes, request->stream, request->tag};
    const void *caller = __builtin_return_address(0);
    if (request->at != HR_NULL)
        return serve_at(pool, &inner, request->at, caller, out, request->served_bytes);
    return serve(pool, &inner, caller, out, request->served_bytes);
}
