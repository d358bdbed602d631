/* pool_sharing.c - memory that others use directly: other processes, other devices, other GPUs.
 *
 * The engine knows which pieces of physical memory lie where (vw__engine_table.walk_pieces); what
 * is done with each is here. */
#include "pool/pool.h"

#include <inttypes.h>
#include <unistd.h> /* close, sysconf */

#include "device/device_table.h"

/* An engine without the capability has plain memory only, which has no pieces. */
static vw_status walk_pieces(vw_pool *pool, const vw__block *under, vw__engine_piece_visitor visit,
                             void *context)
{
    const vw__engine_table *table = pool->engine->table;
    return table->walk_pieces != NULL ? table->walk_pieces(pool->engine, under, visit, context)
                                      : VW_OK;
}

/* ---- other processes ------------------------------------------------------------------------- */

typedef struct sharing {
    const vw_device *device;
    vw_shared_part *parts;
    size_t capacity;
    size_t count;
    vw_device_ptr first_address;
} sharing;

static vw_status count_piece(void *context, vw_device_ptr address, uint64_t size_bytes,
                             vw_handle handle)
{
    sharing *share = context;
    (void)size_bytes, (void)handle;
    if (share->count++ == 0)
        share->first_address = address;
    return VW_OK;
}

static vw_status export_piece(void *context, vw_device_ptr address, uint64_t size_bytes,
                              vw_handle handle)
{
    sharing *share = context;
    (void)address;
    int file = -1;
    VW__TRY(share->device->table->export_handle(share->device->context, handle, &file));
    share->parts[share->count++] = (vw_shared_part){size_bytes, file};
    return VW_OK;
}

static vw_status count_pieces(vw_pool *pool, const vw__block *block, sharing *share)
{
    VW__TRY(walk_pieces(pool, block, count_piece, share));
    if (share->count == 0)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "block %#" PRIx64 " lies in plain memory, which the CUDA runtime shares",
                        block->address);
    if (share->count > share->capacity)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "block %#" PRIx64 " has %zu parts, and there is room for %zu",
                        block->address, share->count, share->capacity);
    return VW_OK;
}

static vw_status export_pieces(vw_pool *pool, const vw__block *block, sharing *share)
{
    share->count = 0;
    vw_status status = walk_pieces(pool, block, export_piece, share);
    while (status != VW_OK && share->count > 0)
        (void)close(share->parts[--share->count].file_descriptor);
    return status;
}

static vw_status pin(vw_pool *pool, vw__block *block)
{
    const vw__engine_table *table = pool->engine->table;
    return table->pin != NULL ? table->pin(pool->engine, block) : VW_OK;
}

/* Takes back what pin() did, if what it was for has failed. */
static vw_status unpin_unless(vw_status status, vw_pool *pool, const vw__block *block)
{
    const vw__engine_table *table = pool->engine->table;
    if (status != VW_OK && table->unpin != NULL)
        (void)table->unpin(pool->engine, block->address);
    return status;
}

static vw_status pin_and_export(vw_pool *pool, vw__block *block, sharing *share)
{
    VW__TRY(pin(pool, block));
    return unpin_unless(export_pieces(pool, block, share), pool, block);
}

static vw_status find_to_share(vw_pool *pool, vw_device_ptr address, vw__block **out)
{
    *out = vw__block_map_get(&pool->live, address);
    if (*out == NULL)
        return vw__pool_not_live(address);
    if (!pool->is_shareable)
        return vw__fail(VW_ERR_UNSUPPORTED, "the pool was not made with is_shareable");
    return VW_OK;
}

vw_status vw_pool_share(vw_pool *pool, vw_device_ptr address, vw_shared_part *parts,
                        size_t capacity, size_t *count, uint64_t *offset_bytes)
{
    VW__TRY(vw__pool_enter(pool));
    if (count == NULL || offset_bytes == NULL || (parts == NULL && capacity != 0))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected places for the parts, their number and the offset");
    sharing share = {.device = pool->device, .parts = parts, .capacity = capacity};
    vw__block *block = NULL;
    vw__pool_lock(pool);
    vw_status status = find_to_share(pool, address, &block);
    if (status == VW_OK)
        status = count_pieces(pool, block, &share);
    if (share.count != 0) {
        *count = share.count;
        *offset_bytes = address - share.first_address;
    }
    if (status == VW_OK)
        status = pin_and_export(pool, block, &share);
    vw__pool_unlock(pool);
    return status;
}

/* ---- other devices --------------------------------------------------------------------------- */

/* A range of addresses, and the memory under the block that it begins in. */
typedef struct range {
    vw_device_ptr address;
    uint64_t size_bytes;
    size_t piece_count;       /* under the block; 0: plain memory */
    vw_device_ptr first;      /* of the piece, or the segment, that the range has to lie in */
    uint64_t available_bytes; /* its size */
} range;

static vw_status see_piece(void *context, vw_device_ptr address, uint64_t size_bytes,
                           vw_handle handle)
{
    range *asked = context;
    (void)handle;
    asked->piece_count++;
    if (asked->address - address < size_bytes) {
        asked->first = address;
        asked->available_bytes = size_bytes;
    }
    return VW_OK;
}

static bool lies_in_one_piece(const range *asked)
{
    uint64_t offset_bytes = asked->address - asked->first;
    return offset_bytes < asked->available_bytes &&
           asked->size_bytes <= asked->available_bytes - offset_bytes;
}

static vw_status check_range(vw_pool *pool, const vw__block *block, range *asked)
{
    VW__TRY(walk_pieces(pool, block, see_piece, asked));
    if (asked->piece_count == 0) {
        asked->first = block->segment->address;
        asked->available_bytes = block->segment->size_bytes;
    }
    if (lies_in_one_piece(asked))
        return VW_OK;
    uint64_t block_end = block->address + block->size_bytes;
    if (asked->piece_count > 1 && asked->size_bytes <= block_end - asked->address)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "a dma-buf of %" PRIu64 " bytes at %#" PRIx64
                        ": expected one piece of memory, found one of %" PRIu64
                        " bytes at %#" PRIx64
                        " among the %zu under the block; a private pool with one_handle has "
                        "segments of one piece",
                        asked->size_bytes, asked->address, asked->available_bytes, asked->first,
                        asked->piece_count);
    return vw__fail(VW_ERR_INVALID_ARGUMENT,
                    "a dma-buf of %" PRIu64 " bytes at %#" PRIx64
                    ": expected a range inside the %" PRIu64 " bytes of memory at %#" PRIx64,
                    asked->size_bytes, asked->address, asked->available_bytes, asked->first);
}

static vw_status find_to_export(vw_pool *pool, vw_device_ptr address, vw__block **out)
{
    vw__block *block = vw__block_map_get(&pool->live, address);
    if (block == NULL)
        block = pool->engine->table->find(pool->engine, address);
    if (block == NULL || block->state != VW__BLOCK_LIVE)
        return vw__fail(VW_ERR_UNKNOWN_ADDRESS, "%#" PRIx64 " is in no live block of this pool",
                        address);
    *out = block;
    return VW_OK;
}

static vw_status export_range(vw_pool *pool, range *asked, int *file_descriptor)
{
    const vw_device *device = pool->device;
    vw__block *block = NULL;
    VW__TRY(find_to_export(pool, asked->address, &block));
    VW__TRY(check_range(pool, block, asked));
    VW__TRY(pin(pool, block));
    return unpin_unless(device->table->export_dma_buf(device->context, asked->address,
                                                      asked->size_bytes, file_descriptor),
                        pool, block);
}

vw_status vw_pool_export_dma_buf(vw_pool *pool, vw_device_ptr address, uint64_t size_bytes,
                                 int *file_descriptor)
{
    VW__TRY(vw__pool_enter(pool));
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    if (file_descriptor == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a place for the descriptor");
    if (size_bytes == 0 || size_bytes % page_bytes != 0 || address % page_bytes != 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "a dma-buf of %" PRIu64 " bytes at %#" PRIx64
                        ": expected whole pages of %" PRIu64 " bytes",
                        size_bytes, address, page_bytes);
    if (!vw__device_has_dma_buf(pool->device))
        return vw__fail(VW_ERR_UNSUPPORTED, "device %s makes no dma-buf",
                        pool->device->properties.name);
    range asked = {.address = address, .size_bytes = size_bytes};
    vw__pool_lock(pool);
    vw_status status = export_range(pool, &asked, file_descriptor);
    vw__pool_unlock(pool);
    return status;
}

/* ---- other GPUs ------------------------------------------------------------------------------ */

static vw_status open_piece(void *context, vw_device_ptr address, uint64_t size_bytes,
                            vw_handle handle)
{
    const vw_device *device = context;
    (void)handle;
    return device->table->set_access(device->context, address, size_bytes);
}

vw_status vw_pool_allow_peer(vw_pool *pool, int peer_index)
{
    VW__TRY(vw__pool_enter(pool));
    vw_device *device = pool->device;
    if (!VW__DEVICE_TABLE_HAS(device->table, allow_peer))
        return vw__fail(VW_ERR_UNSUPPORTED, "device %s has no peers", device->properties.name);
    vw__pool_lock(pool);
    vw_status status = device->table->allow_peer(device->context, peer_index, true);
    if (status == VW_OK) {
        status = walk_pieces(pool, NULL, open_piece, device);
        if (status != VW_OK) /* or all that is mapped from now on might be refused, too */
            (void)device->table->allow_peer(device->context, peer_index, false);
    }
    vw__pool_unlock(pool);
    return status;
}
