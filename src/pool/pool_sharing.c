/* pool_sharing.c - memory that others use directly: other processes, and other GPUs.
 *
 * The engine knows which pieces of physical memory lie where (hr__engine_table.walk_pieces); what
 * is done with each is here. */
#include "pool/pool.h"

#include <inttypes.h>
#include <unistd.h> /* close */

#include "device/device_table.h"

/* ---- other processes ------------------------------------------------------------------------- */

typedef struct sharing {
    const hr_device *device;
    hr_shared_part *parts;
    size_t capacity;
    size_t count;
    hr_device_ptr first_address;
} sharing;

static hr_status count_piece(void *context, hr_device_ptr address, uint64_t size_bytes,
                             hr_handle handle)
{
    sharing *share = context;
    (void)size_bytes, (void)handle;
    if (share->count++ == 0)
        share->first_address = address;
    return HR_OK;
}

static hr_status export_piece(void *context, hr_device_ptr address, uint64_t size_bytes,
                              hr_handle handle)
{
    sharing *share = context;
    (void)address;
    int file = -1;
    HR__TRY(share->device->table->export_handle(share->device->context, handle, &file));
    share->parts[share->count++] = (hr_shared_part){size_bytes, file};
    return HR_OK;
}

static hr_status count_pieces(hr_pool *pool, const hr__block *block, sharing *share)
{
    HR__TRY(pool->engine->table->walk_pieces(pool->engine, block, count_piece, share));
    if (share->count == 0)
        return hr__fail(HR_ERR_UNSUPPORTED,
                        "block %#" PRIx64 " lies in plain memory, which the CUDA runtime shares",
                        block->address);
    if (share->count > share->capacity)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "block %#" PRIx64 " has %zu parts, and there is room for %zu",
                        block->address, share->count, share->capacity);
    return HR_OK;
}

static hr_status export_pieces(hr_pool *pool, const hr__block *block, sharing *share)
{
    share->count = 0;
    hr_status status = pool->engine->table->walk_pieces(pool->engine, block, export_piece, share);
    while (status != HR_OK && share->count > 0)
        (void)close(share->parts[--share->count].file_descriptor);
    return status;
}

static hr_status pin_and_export(hr_pool *pool, hr__block *block, sharing *share)
{
    const hr__engine_table *table = pool->engine->table;
    if (table->pin != NULL)
        HR__TRY(table->pin(pool->engine, block));
    hr_status status = export_pieces(pool, block, share);
    if (status != HR_OK && table->unpin != NULL)
        (void)table->unpin(pool->engine, block->address);
    return status;
}

static hr_status find_to_share(hr_pool *pool, hr_device_ptr address, hr__block **out)
{
    *out = hr__address_map_get(&pool->live, address);
    if (*out == NULL)
        return hr__fail(HR_ERR_UNKNOWN_ADDRESS,
                        "%#" PRIx64 " is not the start of a live block of this pool", address);
    if (!pool->is_shareable)
        return hr__fail(HR_ERR_UNSUPPORTED, "the pool was not made with is_shareable");
    return HR_OK;
}

hr_status hr_pool_share(hr_pool *pool, hr_device_ptr address, hr_shared_part *parts,
                        size_t capacity, size_t *count, uint64_t *offset_bytes)
{
    HR__TRY(hr__pool_enter(pool));
    if (count == NULL || offset_bytes == NULL || (parts == NULL && capacity != 0))
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "expected places for the parts, their number and the offset");
    sharing share = {.device = pool->device, .parts = parts, .capacity = capacity};
    hr__block *block = NULL;
    hr__pool_lock(pool);
    hr_status status = find_to_share(pool, address, &block);
    if (status == HR_OK)
        status = count_pieces(pool, block, &share);
    if (share.count != 0) {
        *count = share.count;
        *offset_bytes = address - share.first_address;
    }
    if (status == HR_OK)
        status = pin_and_export(pool, block, &share);
    hr__pool_unlock(pool);
    return status;
}

/* ---- other GPUs ------------------------------------------------------------------------------ */

static hr_status open_piece(void *context, hr_device_ptr address, uint64_t size_bytes,
                            hr_handle handle)
{
    const hr_device *device = context;
    (void)handle;
    return device->table->set_access(device->context, address, size_bytes);
}

hr_status hr_pool_allow_peer(hr_pool *pool, int peer_index)
{
    HR__TRY(hr__pool_enter(pool));
    hr_device *device = pool->device;
    if (!HR__DEVICE_TABLE_HAS(device->table, allow_peer))
        return hr__fail(HR_ERR_UNSUPPORTED, "device %s has no peers", device->properties.name);
    hr__pool_lock(pool);
    hr_status status = device->table->allow_peer(device->context, peer_index, true);
    if (status == HR_OK) {
        status = pool->engine->table->walk_pieces(pool->engine, NULL, open_piece, device);
        if (status != HR_OK) /* or all that is mapped from now on might be refused, too */
            (void)device->table->allow_peer(device->context, peer_index, false);
    }
    hr__pool_unlock(pool);
    return status;
}
