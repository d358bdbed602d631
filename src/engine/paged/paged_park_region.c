/* paged_park_region.c - a region alone, while the rest of the program goes on.
 *
 * Which memory a kernel touches cannot be known before it runs, so nobody can refuse just those
 * that touch the region. Therefore its addresses stay backed: by host memory with the same bytes,
 * which the device reaches over the bus, as it does with memory that was spilled. A touch is slow,
 * and right. What it wrote is there when the region wakes.
 *
 * A region that keeps no data has scratch memory there, one piece for each size of handle: what is
 * read is undefined, what is written is lost, as the program said of it.
 *
 * Each handle is exchanged by itself, and stays exchanged if the next one fails. */
#include "engine/paged/paged_park.h"

#include <inttypes.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/driver_calls.h"
#include "engine/paged/paged_handles.h"

/* ---- exchanging ------------------------------------------------------------------------------ */

static vw_status exchange_at(vw__paged_engine *engine, uint64_t address, uint64_t size_bytes,
                             vw_handle from, vw_handle to)
{
    const vw__paged_handle with = {.device_handle = to, .size_bytes = size_bytes};
    const vw__paged_handle before = {.device_handle = from, .size_bytes = size_bytes};
    VW__TRY(vw__driver_unmap(&engine->base.owner, address, size_bytes));
    vw_status status = vw__paged_map(engine, &with, address);
    if (status != VW_OK && vw__paged_map(engine, &before, address) != VW_OK)
        vw__paged_turn_failed(engine,
                              "live memory at %#" PRIx64 " could be mapped neither to its "
                              "new nor to its old page",
                              address);
    return status;
}

/* At every place of the handle, or at none. */
static vw_status exchange(vw__paged_engine *engine, const vw__paged_handle *handle, vw_handle from,
                          vw_handle to)
{
    uint64_t size_bytes = handle->size_bytes;
    VW__TRY(exchange_at(engine, handle->home->address, size_bytes, from, to));
    for (const vw__paged_place *guest = handle->guests; guest != NULL; guest = guest->next) {
        vw_status status = exchange_at(engine, guest->address, size_bytes, from, to);
        if (status == VW_OK)
            continue;
        vw_status undone = exchange_at(engine, handle->home->address, size_bytes, to, from);
        for (const vw__paged_place *done = handle->guests; done != guest && undone == VW_OK;
             done = done->next)
            undone = exchange_at(engine, done->address, size_bytes, to, from);
        if (undone != VW_OK)
            vw__paged_turn_failed(engine, "memory at %#" PRIx64 " was exchanged only in part",
                                  handle->home->address);
        return status;
    }
    return VW_OK;
}

/* Queues the copies of what is needed, between the handle's home and its stand-in's window. */
static vw_status queue_copies(vw__paged_engine *engine, const vw__paged_handle *handle,
                              vw__block *block, uint64_t window, bool is_back,
                              vw_park_report *report)
{
    const vw_device_table *table = vw__paged_device(engine);
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes;
    const vw__private_pool *pool = handle->home->segment->lane->shelf->private_pool;
    for (; block != NULL && block->address < end; block = block->next) {
        uint64_t from = vw__max_u64(block->address, begin);
        uint64_t to = vw__min_u64(block->address + block->size_bytes, end);
        if (block->state == VW__BLOCK_FREE && !vw__private_needs_free_memory(pool))
            continue;
        uint64_t there = window + (from - begin);
        VW__TRY(table->copy(vw__paged_context(engine), is_back ? from : there,
                            is_back ? there : from, to - from, 0));
        report->copied_bytes += to - from;
    }
    return VW_OK;
}

static vw_status copy(vw__paged_engine *engine, const vw__paged_handle *handle, vw__block *block,
                      uint64_t window, bool is_back, vw_park_report *report)
{
    vw_status status = queue_copies(engine, handle, block, window, is_back, report);
    vw_status waiting = vw__paged_device(engine)->stream_synchronize(vw__paged_context(engine), 0);
    return status != VW_OK ? status : waiting;
}

/* ---- leaving --------------------------------------------------------------------------------- */

static vw_status take_stand_in(vw__paged_parking *parking, uint64_t size_bytes,
                               vw__lender_handle **out)
{
    bool is_dropped = parking->region->is_dropped;
    for (vw__lender_handle *each = parking->scratch; each != NULL; each = each->next) {
        if (each->size_bytes == size_bytes) {
            *out = each;
            return VW_OK;
        }
    }
    vw_status status = parking->host.take(parking->host.context, size_bytes, out);
    if (status == VW_ERR_OUT_OF_MEMORY)
        return vw__fail(VW_ERR_HOST_MEMORY, "the budget for page-locked host memory is spent");
    if (status == VW_OK && is_dropped) {
        (*out)->next = parking->scratch;
        parking->scratch = *out;
    }
    return status;
}

static vw_status let_go(vw__paged_engine *engine, vw__paged_parking *parking,
                        vw__paged_handle *handle, vw__block *block, vw_park_report *report)
{
    vw__lender_handle *stand_in = NULL;
    vw_handle memory = handle->device_handle;
    bool is_dropped = parking->region->is_dropped;
    VW__TRY(take_stand_in(parking, handle->size_bytes, &stand_in));
    vw_status status =
        is_dropped ? VW_OK : copy(engine, handle, block, stand_in->window, false, report);
    if (status == VW_OK)
        status = exchange(engine, handle, memory, stand_in->device_handle);
    if (status != VW_OK) {
        if (!is_dropped)
            parking->host.give_back(parking->host.context, stand_in);
        return status;
    }
    handle->device_handle = stand_in->device_handle;
    handle->stand_in = stand_in;
    vw__paged_count_parked(engine, parking, handle, report);
    return vw__driver_release(&engine->base.owner, memory);
}

vw_status vw__paged_park_region(vw__paged_engine *engine, vw__paged_parking *parking,
                                vw_park_report *report)
{
    vw__block *cursor = NULL;
    for (size_t i = 0; i < parking->count; i++) {
        vw__paged_handle *handle = parking->items[i].handle;
        vw__block *block =
            vw__paged_block_from(&cursor, handle->home->segment, handle->home->address);
        VW__TRY(let_go(engine, parking, handle, block, report));
    }
    return VW_OK;
}

/* ---- coming back ----------------------------------------------------------------------------- */

static vw_status bring_back(vw__paged_engine *engine, vw__paged_parking *parking,
                            vw__paged_parked *item, vw__block *block, vw_park_report *report)
{
    vw__paged_handle *handle = item->handle;
    vw__lender_handle *stand_in = handle->stand_in;
    VW__TRY(exchange(engine, handle, stand_in->device_handle, item->memory));
    if (parking->scratch == NULL) {
        vw_status status = copy(engine, handle, block, stand_in->window, true, report);
        if (status != VW_OK) {
            if (exchange(engine, handle, item->memory, stand_in->device_handle) != VW_OK)
                vw__paged_turn_failed(engine,
                                      "memory at %#" PRIx64 " could be neither filled nor "
                                      "unmapped",
                                      handle->home->address);
            return status;
        }
        parking->host.give_back(parking->host.context, stand_in);
    }
    handle->device_handle = item->memory;
    handle->stand_in = NULL;
    item->memory = 0;
    vw__paged_count_woken(engine, handle, report);
    return VW_OK;
}

vw_status vw__paged_wake_region(vw__paged_engine *engine, vw__paged_parking *parking,
                                vw_park_report *report)
{
    vw__block *cursor = NULL;
    vw_status status = vw__paged_make_parked(engine, parking);
    for (size_t i = 0; i < parking->count && status == VW_OK; i++) {
        vw__paged_parked *item = &parking->items[i];
        if (!vw__paged_is_parked_in(parking, i))
            continue;
        const vw__paged_place *home = item->handle->home;
        vw__block *block = vw__paged_block_from(&cursor, home->segment, home->address);
        status = bring_back(engine, parking, item, block, report);
    }
    vw__paged_unmake_parked(engine, parking);
    return status;
}
