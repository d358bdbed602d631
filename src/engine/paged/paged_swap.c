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
static hr_status exchange(hr__paged_engine *engine, const hr__paged_handle *handle,
                          hr_handle memory)
{
    const hr__paged_handle with = {.device_handle = memory, .size_bytes = handle->size_bytes};
    uint64_t address = handle->home->address;
    HR__TRY(hr__driver_unmap(&engine->base.owner, address, handle->size_bytes));
    hr_status status = hr__paged_map(engine, &with, address);
    if (status != HR_OK)
        hr__paged_map_back(engine, handle);
    return status;
}

/* What took the handle's place cannot be filled. */
static void undo_exchange(hr__paged_engine *engine, const hr__paged_handle *handle)
{
    uint64_t address = handle->home->address;
    if (hr__driver_unmap(&engine->base.owner, address, handle->size_bytes) == HR_OK)
        hr__paged_map_back(engine, handle);
    else
        hr__paged_turn_failed(engine, "memory at %#" PRIx64 " could be neither filled nor unmapped",
                              address);
}

static hr_status drop_ghosts(hr__paged_engine *engine, hr__paged_handle *handle)
{
    while (handle->ghosts != NULL)
        HR__TRY(hr__paged_drop_ghost(engine, handle->ghosts, true));
    return HR_OK;
}

static hr_status failure_or(const hr__paged_engine *engine, hr_status status)
{
    return engine->failure != NULL ? hr__fail(HR_ERR_DEVICE, "%s", engine->failure) : status;
}

hr_status hr__paged_swap_out(hr__paged_engine *engine, hr__paged_handle *handle, hr__block *first,
                             hr_stream stream)
{
    hr__host_handle *on_host = NULL;
    hr_handle memory = handle->device_handle;
    HR__TRY(drop_ghosts(engine, handle));
    if (!hr__block_source_reserve(&engine->base.records, hr__paged_records_on_host(handle, first)))
        return hr__fail_host_memory(sizeof(hr__block), "block records");
    HR__TRY(hr__host_stock_take(engine->spill->stock, handle->size_bytes, &on_host));
    hr_status status = hr__paged_copy_live(engine, handle, first, on_host->window, stream);
    if (status == HR_OK)
        status = exchange(engine, handle, on_host->device_handle);
    if (status != HR_OK) {
        hr__host_stock_give_back(engine->spill->stock, on_host);
        return failure_or(engine, status);
    }
    hr__paged_enter_host(engine, handle, first, on_host);
    engine->stats.all_spilled_bytes += handle->used_bytes;
    engine->base.owner.counters->num_device_free++;
    return hr__driver_release(&engine->base.owner, memory);
}

hr_status hr__paged_swap_in(hr__paged_engine *engine, hr__paged_handle *handle, hr_stream stream)
{
    hr__host_handle *on_host = handle->on_host;
    hr__block *first = hr__engine_find(&engine->base, handle->home->address);
    hr_handle memory = 0;
    HR__TRY(hr__paged_create(engine, handle->size_bytes, &memory));
    hr_status status = exchange(engine, handle, memory);
    if (status == HR_OK) {
        status = hr__paged_copy_back(engine, handle, first, on_host->window, stream);
        if (status != HR_OK)
            undo_exchange(engine, handle);
    }
    if (status != HR_OK) {
        (void)hr__driver_release(&engine->base.owner, memory);
        return failure_or(engine, status);
    }
    engine->stats.returned_bytes += handle->used_bytes;
    engine->base.owner.counters->num_device_alloc++;
    hr__paged_leave_host(engine, handle, first, memory);
    hr__host_stock_give_back(engine->spill->stock, on_host);
    return HR_OK;
}
