/* paged_swap.c - one handle, whose pages are exchanged under its address: for the host's, or back.
 *
 * The host's memory has a window, addresses at which it is mapped all its life (host_stock.h). To
 * leave, it is filled there beside the old memory, and only then the mapping changes. To come back
 * the mapping changes first, and the window, where the data still is, fills the new memory. If
 * anything fails the old memory is mapped again; if that fails as well the pool turns failed. So
 * the data is always where the address says, and whole.
 *
 * The exchange is one to one: the handle stays the same record, at the same place, and only its
 * memory is another. What that means for its free bytes is paged_on_host.c's. */
#include "engine/paged/paged_spill.h"

#include <inttypes.h>

#include "engine/driver_calls.h"
#include "base/error.h"

/* `memory`, of the handle's size, takes its place at the address; or all is as it was. */
static vw_status exchange(vw__paged_engine *engine, const vw__paged_handle *handle,
                          vw_handle memory)
{
    const vw__paged_handle with = {.device_handle = memory, .size_bytes = handle->size_bytes};
    uint64_t address = handle->home->address;
    VW__TRY(vw__driver_unmap(&engine->base.owner, address, handle->size_bytes));
    vw_status status = vw__paged_map(engine, &with, address);
    if (status != VW_OK)
        vw__paged_map_back(engine, handle);
    return status;
}

/* What took the handle's place cannot be filled. */
static void undo_exchange(vw__paged_engine *engine, const vw__paged_handle *handle)
{
    uint64_t address = handle->home->address;
    if (vw__driver_unmap(&engine->base.owner, address, handle->size_bytes) == VW_OK)
        vw__paged_map_back(engine, handle);
    else
        vw__paged_turn_failed(engine, "memory at %#" PRIx64 " could be neither filled nor unmapped",
                              address);
}

static vw_status drop_ghosts(vw__paged_engine *engine, vw__paged_handle *handle)
{
    while (handle->ghosts != NULL)
        VW__TRY(vw__paged_drop_ghost(engine, handle->ghosts, true));
    return VW_OK;
}

static vw_status failure_or(const vw__paged_engine *engine, vw_status status)
{
    return engine->failure != NULL ? vw__fail(VW_ERR_DEVICE, "%s", engine->failure) : status;
}

vw_status vw__paged_swap_out(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                             vw_stream stream)
{
    vw__host_handle *on_host = NULL;
    vw_handle memory = handle->device_handle;
    VW__TRY(drop_ghosts(engine, handle));
    if (!vw__block_source_reserve(&engine->base.records, vw__paged_records_on_host(handle, first)))
        return vw__fail_host_memory(sizeof(vw__block), "block records");
    VW__TRY(engine->spill->host.take(engine->spill->host.context, handle->size_bytes, &on_host));
    vw_status status = vw__paged_copy_live(engine, handle, first, on_host->window, stream);
    if (status == VW_OK)
        status = exchange(engine, handle, on_host->device_handle);
    if (status != VW_OK) {
        vw__paged_give_back_to_host(engine, on_host);
        return failure_or(engine, status);
    }
    vw__paged_enter_host(engine, handle, first, on_host);
    engine->stats.all_spilled_bytes += handle->used_bytes;
    engine->base.owner.counters->num_device_free++;
    return vw__driver_release(&engine->base.owner, memory);
}

vw_status vw__paged_swap_in(vw__paged_engine *engine, vw__paged_handle *handle, vw_stream stream)
{
    vw__host_handle *on_host = handle->on_host;
    vw__block *first = vw__engine_find(&engine->base, handle->home->address);
    vw_handle memory = 0;
    VW__TRY(vw__paged_create(engine, handle->size_bytes, &memory));
    vw_status status = exchange(engine, handle, memory);
    if (status == VW_OK) {
        status = vw__paged_copy_back(engine, handle, first, on_host->window, stream);
        if (status != VW_OK)
            undo_exchange(engine, handle);
    }
    if (status != VW_OK) {
        (void)vw__driver_release(&engine->base.owner, memory);
        return failure_or(engine, status);
    }
    engine->stats.returned_bytes += handle->used_bytes;
    engine->base.owner.counters->num_device_alloc++;
    vw__paged_leave_host(engine, handle, first, memory);
    vw__paged_give_back_to_host(engine, on_host);
    return VW_OK;
}
