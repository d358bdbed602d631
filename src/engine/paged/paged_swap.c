/* paged_swap.c - one handle, whose pages are exchanged under its address: for the host's, or back.
 *
 * The order is that of an evacuation (paged_evacuate.c). The new memory is there first, and is
 * filled through scratch addresses, beside the old; only then the mappings change. If the new one
 * cannot be made the old memory is mapped again; if that fails as well the pool turns failed. So
 * the data is always where the address says, and whole.
 *
 * The exchange is one to one: the handle stays the same record, at the same place, and only its
 * memory is another. What that means for its free bytes is paged_on_host.c's. */
#include "engine/paged/paged_spill.h"

#include "engine/driver_calls.h"
#include "base/error.h"
#include "base/host_memory.h"

/* The mappings change hands, or nothing does. */
static hr_status exchange_mapping(hr__paged_engine *engine, const hr__paged_handle *handle,
                                  const hr__paged_handle *with)
{
    uint64_t address = handle->home->address;
    HR__TRY(hr__driver_unmap(&engine->base.owner, address, handle->size_bytes));
    hr_status status = hr__paged_map(engine, with, address);
    if (status != HR_OK)
        hr__paged_map_back(engine, handle);
    return status;
}

static hr_status copy_and_exchange(hr__paged_engine *engine, const hr__paged_handle *handle,
                                   hr__block *first, hr_stream stream, const hr__paged_handle *with,
                                   hr__stuck **stuck)
{
    uint64_t scratch = engine->scratch->address;
    hr_status status = hr__paged_map(engine, with, scratch);
    if (status != HR_OK && engine->failure == NULL)
        return status;
    if (status == HR_OK)
        status = hr__paged_copy_live(engine, handle, first, scratch, stream);
    if (status == HR_OK)
        status = exchange_mapping(engine, handle, with);
    if (!hr__paged_unmap_scratch(engine, scratch, with->size_bytes, *stuck)) {
        *stuck = NULL;
        hr__paged_lose_scratch(engine);
    }
    return status;
}

/* `memory`, of the handle's size and mapped nowhere, takes its place; or all is as it was. */
static hr_status exchange(hr__paged_engine *engine, const hr__paged_handle *handle,
                          hr__block *first, hr_stream stream, hr_handle memory)
{
    const hr__paged_handle with = {.device_handle = memory, .size_bytes = handle->size_bytes};
    hr__stuck *stuck = hr__host_alloc_zeroed(1, sizeof *stuck);
    if (stuck == NULL)
        return hr__fail_host_memory(sizeof *stuck, "addresses to copy through");
    hr_status status = hr__paged_reserve_scratch(engine, handle->size_bytes);
    if (status == HR_OK)
        status = copy_and_exchange(engine, handle, first, stream, &with, &stuck);
    hr__host_free(stuck);
    return engine->failure != NULL ? hr__fail(HR_ERR_DEVICE, "%s", engine->failure) : status;
}

static hr_status drop_ghosts(hr__paged_engine *engine, hr__paged_handle *handle)
{
    while (handle->ghosts != NULL)
        HR__TRY(hr__paged_drop_ghost(engine, handle->ghosts, true));
    return HR_OK;
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
    hr_status status = exchange(engine, handle, first, stream, on_host->device_handle);
    if (status != HR_OK) {
        hr__host_stock_give_back(engine->spill->stock, on_host);
        return status;
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
    hr_status status = exchange(engine, handle, first, stream, memory);
    if (status != HR_OK) {
        (void)hr__driver_release(&engine->base.owner, memory);
        return status;
    }
    engine->stats.returned_bytes += handle->used_bytes;
    engine->base.owner.counters->num_device_alloc++;
    hr__paged_leave_host(engine, handle, first, memory);
    hr__host_stock_give_back(engine->spill->stock, on_host);
    return HR_OK;
}
