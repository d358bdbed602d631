/* device_table.h - reads device tables that may be older than this library.
 *
 * A caller's own device may have been built before the latest fields were added to the table.
 * Before a later field is called, these functions check that it is there. */
#ifndef VW_DEVICE_DEVICE_TABLE_H
#define VW_DEVICE_DEVICE_TABLE_H

#include <stdbool.h>

#include "vramwise/device.h"
#include "base/struct_size.h"

/* Is `field` part of the table, and set? */
#define VW__DEVICE_TABLE_HAS(table_, field_)                                                       \
    (VW__STRUCT_HAS(vw_device_table, table_, field_) && (table_)->field_ != NULL)

/* VW_ERR_INVALID_ARGUMENT for a device whose table ends before the functions that every device has:
 * those up to memory_info(). */
static inline vw_status vw__device_check(const vw_device *device)
{
    if (device->table != NULL && VW__STRUCT_HAS(vw_device_table, device->table, memory_info))
        return VW_OK;
    return vw__fail(VW_ERR_INVALID_ARGUMENT,
                    "expected a device whose table has all functions up to memory_info");
}

/* May create_shareable() and export_handle() be called? The property alone does not say: in an
 * older vw_device it is padding. */
static inline bool vw__device_can_share(const vw_device *device)
{
    return VW__DEVICE_TABLE_HAS(device->table, create_shareable) &&
           VW__DEVICE_TABLE_HAS(device->table, export_handle) &&
           device->properties.has_virtual_memory && device->properties.has_shareable_handles;
}

/* May import_handle() be called? */
static inline bool vw__device_can_import(const vw_device *device)
{
    return VW__DEVICE_TABLE_HAS(device->table, import_handle) &&
           device->properties.has_virtual_memory && device->properties.has_shareable_handles;
}

/* May export_dma_buf() be called? */
static inline bool vw__device_has_dma_buf(const vw_device *device)
{
    return VW__DEVICE_TABLE_HAS(device->table, export_dma_buf) && device->properties.has_dma_buf;
}

/* May create_on_host() be called? */
static inline bool vw__device_has_host_handles(const vw_device *device)
{
    return VW__DEVICE_TABLE_HAS(device->table, create_on_host) &&
           device->properties.has_virtual_memory && device->properties.has_host_handles;
}

#endif /* VW_DEVICE_DEVICE_TABLE_H */
