/* paged_arenas.c - reservations of addresses. */
#include "engine/paged/paged_engine.h"

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/driver_calls.h"

/* Addresses for twice what the device has: a request then finds a place though live blocks lie
 * here and there. Where the device has not so many, less will do. */
vw_status vw__paged_add_arena(vw__paged_engine *engine, vw__lane *lane, uint64_t size_bytes)
{
    uint64_t least_bytes = 0, wanted_bytes = 0;
    uint64_t total_bytes = engine->base.owner.device->properties.total_bytes;
    if (!vw__align_up_u64(size_bytes, engine->unit_bytes, &least_bytes) ||
        !vw__align_up_u64(vw__max_u64(2 * total_bytes, least_bytes), engine->unit_bytes,
                          &wanted_bytes))
        return VW_ERR_OUT_OF_MEMORY;
    vw_device_ptr address = VW_NULL;
    vw_status status = vw__driver_reserve(&engine->base.owner, wanted_bytes, &address);
    while (status != VW_OK && wanted_bytes > least_bytes) {
        wanted_bytes =
            vw__max_u64(vw__align_down_u64(wanted_bytes / 2, engine->unit_bytes), least_bytes);
        status = vw__driver_reserve(&engine->base.owner, wanted_bytes, &address);
    }
    VW__TRY(status);
    size_t unit_count = wanted_bytes / engine->unit_bytes;
    vw__place **units = vw__host_alloc_zeroed(unit_count, sizeof(vw__place *));
    vw__segment *segment = NULL;
    if (units != NULL)
        segment = vw__engine_add_segment(&engine->base, lane, address, wanted_bytes,
                                         VW__NATURE_EXPANDABLE, 0);
    if (segment == NULL) {
        (void)vw__driver_unreserve(&engine->base.owner, address, wanted_bytes);
        vw__host_free(units);
        return vw__fail_host_memory(unit_count * sizeof(vw__place *), "an arena");
    }
    segment->detail = units;
    segment->first->state = VW__BLOCK_UNMAPPED;
    vw__paged_put_in(lane, segment->first);
    return VW_OK;
}

/* Nothing is mapped in it. Refused by the device, addresses are lost, no memory. */
vw_status vw__paged_end_arena(vw__paged_engine *engine, vw__segment *segment)
{
    vw_status status =
        vw__driver_unreserve(&engine->base.owner, segment->address, segment->size_bytes);
    vw__paged_take_out(segment->lane, segment->first);
    vw__host_free(segment->detail);
    vw__engine_drop_segment(&engine->base, segment);
    return status;
}
