/* paged_arenas.c - reservations of addresses. */
#include "engine/paged/paged_engine.h"

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/driver_calls.h"

/* Addresses for twice what the device has: a request then finds a place though live blocks lie
 * here and there. Where the device has not so many, less will do. */
hr_status hr__paged_add_arena(hr__paged_engine *engine, hr__lane *lane, uint64_t size_bytes)
{
    uint64_t least_bytes = 0, wanted_bytes = 0;
    uint64_t total_bytes = engine->base.owner.device->properties.total_bytes;
    if (!hr__align_up_u64(size_bytes, engine->unit_bytes, &least_bytes) ||
        !hr__align_up_u64(hr__max_u64(2 * total_bytes, least_bytes), engine->unit_bytes,
                          &wanted_bytes))
        return HR_ERR_OUT_OF_MEMORY;
    hr_device_ptr address = HR_NULL;
    hr_status status = hr__driver_reserve(&engine->base.owner, wanted_bytes, &address);
    while (status != HR_OK && wanted_bytes > least_bytes) {
        wanted_bytes =
            hr__max_u64(hr__align_down_u64(wanted_bytes / 2, engine->unit_bytes), least_bytes);
        status = hr__driver_reserve(&engine->base.owner, wanted_bytes, &address);
    }
    HR__TRY(status);
    size_t unit_count = wanted_bytes / engine->unit_bytes;
    hr__place **units = hr__host_alloc_zeroed(unit_count, sizeof(hr__place *));
    hr__segment *segment = NULL;
    if (units != NULL)
        segment = hr__engine_add_segment(&engine->base, lane, address, wanted_bytes,
                                         HR__NATURE_EXPANDABLE, 0);
    if (segment == NULL) {
        (void)hr__driver_unreserve(&engine->base.owner, address, wanted_bytes);
        hr__host_free(units);
        return hr__fail_host_memory(unit_count * sizeof(hr__place *), "an arena");
    }
    segment->detail = units;
    segment->first->state = HR__BLOCK_UNMAPPED;
    hr__paged_put_in(lane, segment->first);
    return HR_OK;
}

/* Nothing is mapped in it. Refused by the device, addresses are lost, no memory. */
hr_status hr__paged_end_arena(hr__paged_engine *engine, hr__segment *segment)
{
    hr_status status =
        hr__driver_unreserve(&engine->base.owner, segment->address, segment->size_bytes);
    hr__paged_take_out(segment->lane, segment->first);
    hr__host_free(segment->detail);
    hr__engine_drop_segment(&engine->base, segment);
    return status;
}
