/* hip_mappings.h - where a HIP device's mappings begin, and how long they are.
 *
 * hipMemUnmap() ends one mapping a call: given a range with several, it ends the first, calls that
 * success, and crashes where nothing is mapped. A pool unmaps whole runs of pages. So the device
 * notes what is mapped, and goes through a range mapping by mapping.
 *
 * The lock is held for the books only, never during a driver call, which may wait for the GPU: no
 * two threads are at work on the same mapping. */
#ifndef VW_DEVICE_HIP_MAPPINGS_H
#define VW_DEVICE_HIP_MAPPINGS_H

#include <stdint.h>

#include "base/address_map.h"
#include "base/ranked_mutex.h"
#include "vramwise/device.h"

typedef struct vw__hip_mappings {
    vw__mutex lock;
    vw__address_map sizes; /* by first address; guarded by `lock` */
} vw__hip_mappings;

void vw__hip_mappings_init(vw__hip_mappings *mappings);
void vw__hip_mappings_deinit(vw__hip_mappings *mappings);

/* Notes a mapping that is about to be made. VW_ERR_HOST_MEMORY; VW_ERR_INVALID_ARGUMENT if one
 * begins there already. */
vw_status vw__hip_mappings_add(vw__hip_mappings *mappings, vw_device_ptr address,
                               uint64_t size_bytes);

/* Takes that back. */
void vw__hip_mappings_remove(vw__hip_mappings *mappings, vw_device_ptr address);

/* A driver call for one mapping. */
typedef vw_status (*vw__hip_mapping_call)(void *context, vw_device_ptr address,
                                          uint64_t size_bytes);

/* Makes `call` for each mapping of a range, up to the first failure. VW_ERR_INVALID_ARGUMENT, and
 * no call is made, unless the range consists of whole mappings. */
vw_status vw__hip_mappings_each(vw__hip_mappings *mappings, vw_device_ptr address,
                                uint64_t size_bytes, vw__hip_mapping_call call, void *context);

/* The same for the call that ends a mapping; when all are ended they are forgotten. After a failure
 * in the middle the whole range can be ended again: what has ended by then is left out. */
vw_status vw__hip_mappings_end_each(vw__hip_mappings *mappings, vw_device_ptr address,
                                    uint64_t size_bytes, vw__hip_mapping_call call, void *context);

#endif /* VW_DEVICE_HIP_MAPPINGS_H */
