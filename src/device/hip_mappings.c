/* hip_mappings.c - a map from addresses to sizes.
 *
 * Sizes are multiples of a granule, so the lowest bit is free: it marks a mapping that has ended
 * while the rest of its range has not. */
#include "device/hip_mappings.h"

#include <inttypes.h>

#include "base/error.h" /* vw__fail, VW__TRY */

#define HAS_ENDED UINT64_C(1)

void vw__hip_mappings_init(vw__hip_mappings *mappings)
{
    vw__mutex_init(&mappings->lock, VW__LOCK_DEVICE);
    vw__address_map_init(&mappings->sizes);
}

void vw__hip_mappings_deinit(vw__hip_mappings *mappings)
{
    vw__address_map_deinit(&mappings->sizes);
}

/* 0: none begins there. With HAS_ENDED. */
static uint64_t note_at(const vw__hip_mappings *mappings, vw_device_ptr address)
{
    return (uintptr_t)vw__address_map_get(&mappings->sizes, address);
}

vw_status vw__hip_mappings_add(vw__hip_mappings *mappings, vw_device_ptr address,
                               uint64_t size_bytes)
{
    vw_status status = VW_OK;
    vw__mutex_lock(&mappings->lock);
    if (address == 0 || size_bytes == 0 || (size_bytes & HAS_ENDED) != 0 ||
        note_at(mappings, address) != 0)
        status = vw__fail(VW_ERR_INVALID_ARGUMENT,
                          "hipMemMap(%#" PRIx64 ", %" PRIu64 " bytes): no room for a mapping there",
                          address, size_bytes);
    else if (!vw__address_map_reserve(&mappings->sizes, 1))
        status = vw__fail_host_memory(sizeof(vw__address_map_entry), "a HIP device's mapping");
    else
        vw__address_map_insert(&mappings->sizes, address, (void *)(uintptr_t)size_bytes);
    vw__mutex_unlock(&mappings->lock);
    return status;
}

void vw__hip_mappings_remove(vw__hip_mappings *mappings, vw_device_ptr address)
{
    vw__mutex_lock(&mappings->lock);
    vw__address_map_remove(&mappings->sizes, address);
    vw__mutex_unlock(&mappings->lock);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static vw_status require_whole_mappings(vw__hip_mappings *mappings, vw_device_ptr address,
                                        uint64_t size_bytes)
{
    uint64_t seen_bytes = 0, part_bytes = 1;
    vw__mutex_lock(&mappings->lock);
    while (seen_bytes < size_bytes && part_bytes != 0) {
        part_bytes = note_at(mappings, address + seen_bytes) & ~HAS_ENDED;
        seen_bytes += part_bytes;
    }
    vw__mutex_unlock(&mappings->lock);
    if (size_bytes != 0 && seen_bytes == size_bytes)
        return VW_OK;
    return vw__fail(VW_ERR_INVALID_ARGUMENT,
                    "%" PRIu64 " bytes at %#" PRIx64 " are not whole mappings of the HIP device",
                    size_bytes, address);
}

static uint64_t find_note(vw__hip_mappings *mappings, vw_device_ptr address)
{
    vw__mutex_lock(&mappings->lock);
    uint64_t note = note_at(mappings, address);
    vw__mutex_unlock(&mappings->lock);
    return note;
}

vw_status vw__hip_mappings_each(vw__hip_mappings *mappings, vw_device_ptr address,
                                uint64_t size_bytes, vw__hip_mapping_call call, void *context)
{
    VW__TRY(require_whole_mappings(mappings, address, size_bytes));
    for (vw_device_ptr part = address, end = address + size_bytes; part < end;) {
        uint64_t part_bytes = find_note(mappings, part) & ~HAS_ENDED;
        VW__TRY(call(context, part, part_bytes));
        part += part_bytes;
    }
    return VW_OK;
}

/* There is room for what was there before. */
static void note_end(vw__hip_mappings *mappings, vw_device_ptr address, uint64_t size_bytes)
{
    vw__mutex_lock(&mappings->lock);
    vw__address_map_remove(&mappings->sizes, address);
    vw__address_map_insert(&mappings->sizes, address, (void *)(uintptr_t)(size_bytes | HAS_ENDED));
    vw__mutex_unlock(&mappings->lock);
}

static void forget(vw__hip_mappings *mappings, vw_device_ptr address, uint64_t size_bytes)
{
    vw__mutex_lock(&mappings->lock);
    for (vw_device_ptr part = address, end = address + size_bytes; part < end;)
        part += (uintptr_t)vw__address_map_remove(&mappings->sizes, part) & ~HAS_ENDED;
    vw__mutex_unlock(&mappings->lock);
}

vw_status vw__hip_mappings_end_each(vw__hip_mappings *mappings, vw_device_ptr address,
                                    uint64_t size_bytes, vw__hip_mapping_call call, void *context)
{
    VW__TRY(require_whole_mappings(mappings, address, size_bytes));
    for (vw_device_ptr part = address, end = address + size_bytes; part < end;) {
        uint64_t note = find_note(mappings, part), part_bytes = note & ~HAS_ENDED;
        if ((note & HAS_ENDED) == 0) {
            VW__TRY(call(context, part, part_bytes));
            note_end(mappings, part, part_bytes);
        }
        part += part_bytes;
    }
    forget(mappings, address, size_bytes);
    return VW_OK;
}
