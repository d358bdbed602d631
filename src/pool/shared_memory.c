/* shared_memory.c - memory of another process, mapped here: the other end of vw_pool_share().
 *
 * It belongs to no pool. All that has to be remembered is which addresses go when it is closed; the
 * handles need not be kept, since their memory stays for as long as it is mapped.
 *
 * A child made by fork() must not touch what its parent has mapped, nor wait for a lock that nobody
 * there holds any more; so in the child of a process that has opened any, every call says so. */
#include "vramwise/vramwise.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/fork_guard.h"
#include "base/host_memory.h"
#include "base/ranked_mutex.h"
#include "device/device_table.h"

typedef struct opened {
    struct opened *next;
    vw_device *device;
    vw_device_ptr address;
    uint64_t size_bytes;
    bool is_unmapped; /* and only the addresses are left to give back */
} opened;

static vw__mutex list_lock = VW__MUTEX_INIT(VW__LOCK_REGISTRY);
static opened *list; /* guarded by list_lock */

/* The generation that opened the first, plus one; 0: nothing was opened yet. */
static _Atomic uint32_t owner;

static vw_status check_process(void)
{
    uint32_t first = atomic_load(&owner);
    if (first == 0 || first == vw__fork_generation() + 1)
        return VW_OK;
    return vw__fail(VW_ERR_WRONG_PROCESS,
                    "the parent process has mapped memory of other processes: only it can");
}

/* ---- opening --------------------------------------------------------------------------------- */

static vw_status add_up(const vw_shared_part *parts, size_t count, uint64_t *size_bytes)
{
    *size_bytes = 0;
    for (size_t i = 0; i < count; i++)
        if (parts[i].size_bytes == 0 || !vw__add_u64(*size_bytes, parts[i].size_bytes, size_bytes))
            return vw__fail(VW_ERR_INVALID_ARGUMENT,
                            "part %zu of %zu has %" PRIu64 " bytes, %" PRIu64 " are before it", i,
                            count, parts[i].size_bytes, *size_bytes);
    return VW_OK;
}

static vw_status map_part(const vw_device *device, const vw_shared_part *part,
                          vw_device_ptr address)
{
    const vw_device_table *table = device->table;
    vw_handle handle = 0;
    VW__TRY(
        table->import_handle(device->context, part->file_descriptor, part->size_bytes, &handle));
    vw_status status = table->map(device->context, address, part->size_bytes, handle);
    vw_status released = table->release(device->context, handle);
    if (status == VW_OK && released != VW_OK) {
        (void)table->unmap(device->context, address, part->size_bytes);
        return released;
    }
    return status;
}

/* Where all were mapped, or as many as could be: `*mapped_bytes` from the beginning on. */
static vw_status map_parts(const vw_device *device, const vw_shared_part *parts, size_t count,
                           vw_device_ptr address, uint64_t *mapped_bytes)
{
    *mapped_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        VW__TRY(map_part(device, &parts[i], address + *mapped_bytes));
        *mapped_bytes += parts[i].size_bytes;
    }
    return device->table->set_access(device->context, address, *mapped_bytes);
}

static vw_status open_at_new_address(opened *record, const vw_shared_part *parts, size_t count)
{
    const vw_device *device = record->device;
    const vw_device_table *table = device->table;
    uint64_t mapped_bytes = 0;
    VW__TRY(table->reserve(device->context, record->size_bytes, &record->address));
    vw_status status = map_parts(device, parts, count, record->address, &mapped_bytes);
    if (status == VW_OK)
        return VW_OK;
    /* What cannot be undone stays mapped, out of everybody's reach. */
    if (mapped_bytes == 0 || table->unmap(device->context, record->address, mapped_bytes) == VW_OK)
        (void)table->unreserve(device->context, record->address, record->size_bytes);
    return status;
}

vw_status vw_shared_open(vw_device *device, const vw_shared_part *parts, size_t count,
                         vw_device_ptr *out)
{
    uint64_t size_bytes = 0;
    if (device == NULL || parts == NULL || count == 0 || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a device, parts and a place for the address");
    if (!vw__device_can_import(device))
        return vw__fail(VW_ERR_UNSUPPORTED, "device %s cannot map memory of other processes",
                        device->properties.name);
    VW__TRY(add_up(parts, count, &size_bytes));
    vw__fork_guard_start();
    VW__TRY(check_process());
    opened *record = vw__host_alloc_zeroed(1, sizeof *record);
    if (record == NULL)
        return vw__fail_host_memory(sizeof *record, "memory of another process");
    record->device = device;
    record->size_bytes = size_bytes;
    vw_status status = open_at_new_address(record, parts, count);
    if (status != VW_OK) {
        vw__host_free(record);
        return status;
    }
    *out = record->address;
    atomic_store(&owner, vw__fork_generation() + 1);
    vw__mutex_lock(&list_lock);
    record->next = list;
    list = record;
    vw__mutex_unlock(&list_lock);
    return VW_OK;
}

/* ---- closing --------------------------------------------------------------------------------- */

/* Out of the list, or NULL: nobody else can close it meanwhile. */
static opened *take_from_list(const vw_device *device, vw_device_ptr address)
{
    vw__mutex_lock(&list_lock);
    opened **link = &list;
    while (*link != NULL && ((*link)->device != device || (*link)->address != address))
        link = &(*link)->next;
    opened *record = *link;
    if (record != NULL)
        *link = record->next;
    vw__mutex_unlock(&list_lock);
    return record;
}

static vw_status end_mapping(opened *record)
{
    const vw_device *device = record->device;
    if (!record->is_unmapped)
        VW__TRY(device->table->unmap(device->context, record->address, record->size_bytes));
    record->is_unmapped = true;
    return device->table->unreserve(device->context, record->address, record->size_bytes);
}

vw_status vw_shared_close(vw_device *device, vw_device_ptr address)
{
    if (device == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "the device is NULL");
    VW__TRY(check_process());
    opened *record = take_from_list(device, address);
    if (record == NULL)
        return vw__fail(VW_ERR_UNKNOWN_ADDRESS,
                        "%#" PRIx64 " was not opened on device %s, or is closed already", address,
                        device->properties.name);
    vw_status status = end_mapping(record);
    if (status == VW_OK) {
        vw__host_free(record);
        return VW_OK;
    }
    vw__mutex_lock(&list_lock); /* to be tried again */
    record->next = list;
    list = record;
    vw__mutex_unlock(&list_lock);
    return status;
}
