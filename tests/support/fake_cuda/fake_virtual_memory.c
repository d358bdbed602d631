/* fake_virtual_memory.c - the fake driver's reservations, handles and mappings.
 *
 * As strict as the device table's preconditions: what they forbid is refused here, so that code
 * which passes on the fake does not lean on a driver's good nature. */
#include "support/fake_cuda/fake_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef FAKE_CUDA_OLD
/* Lives while it is not released, or still mapped somewhere. */
typedef struct handle {
    struct handle *next;
    vw__cuda_context owner;
    size_t size_bytes;
    int file;
    int mapping_count;
    bool is_released;
    bool is_direct_rdma_capable;
    bool is_shareable;
    bool is_imported; /* another's memory: takes no room here */
    bool is_on_host;  /* nor does this */
} handle;

static handle *handles; /* guarded by fake_lock, as the next two */
static fake_range *reservations, *mappings;

static handle *handle_find(vw__cuda_handle number)
{
    for (handle *each = handles; each != NULL; each = each->next)
        if ((vw__cuda_handle)(uintptr_t)each == number && !each->is_released)
            return each;
    return NULL;
}

static void handle_drop_if_unused(handle *unused)
{
    if (!unused->is_released || unused->mapping_count != 0)
        return;
    handle **link = &handles;
    while (*link != unused)
        link = &(*link)->next;
    *link = unused->next;
    if (unused->is_imported)
        fake_state.imported_count--;
    else if (unused->is_on_host)
        fake_state.host_handle_bytes -= unused->size_bytes;
    else
        fake_discharge(unused->owner, unused->size_bytes);
    fake_state.handle_count--;
    close(unused->file);
    free(unused);
}

/* Is [start, start + size_bytes) tiled by whole mappings? HIP takes no more than one. */
static bool is_tiled(uintptr_t start, size_t size_bytes)
{
#ifdef FAKE_HIP
    fake_range *only = *fake_range_find(&mappings, start);
    return only != NULL && only->size_bytes == size_bytes;
#else
    uintptr_t end = start + size_bytes;
    while (start < end) {
        fake_range *mapping = *fake_range_find(&mappings, start);
        if (mapping == NULL || mapping->size_bytes > end - start)
            return false;
        start += mapping->size_bytes;
    }
    return true;
#endif
}

static bool is_free_of_mappings(uintptr_t start, size_t size_bytes)
{
    for (fake_range *each = mappings; each != NULL; each = each->next)
        if (each->start < start + size_bytes && start < each->start + each->size_bytes)
            return false;
    return true;
}

static bool is_inside_a_reservation(uintptr_t start, size_t size_bytes)
{
    for (fake_range *each = reservations; each != NULL; each = each->next)
        if (each->start <= start && start + size_bytes <= each->start + each->size_bytes)
            return true;
    return false;
}

static bool is_granular(uint64_t value)
{
    return value != 0 && value % FAKE_CUDA_GRANULARITY_BYTES == 0;
}

/* Memory of the current device, of a node of the host, or of the host. */
static bool is_good_location(vw__cuda_location location)
{
#ifdef FAKE_HIP
    if (location.type != VW__CUDA_LOCATION_DEVICE)
        return false;
#endif
    switch (location.type) {
    case VW__CUDA_LOCATION_DEVICE:
        return fake_device_behind(location.id) >= 0 &&
               &fake_primaries[fake_device_behind(location.id)] == fake_current_context();
    case VW__CUDA_LOCATION_HOST_NODE:
        return location.id == FAKE_CUDA_HOST_NODE;
    default:
        return location.type == VW__CUDA_LOCATION_HOST;
    }
}

DRIVER(cuMemGetAllocationGranularity,
       (size_t * granularity_bytes, const vw__cuda_allocation *allocation, int option))
{
    OBEY_ORDERS();
#ifdef FAKE_HIP
    if (!is_good_location(allocation->location))
        return INVALID_VALUE;
#endif
    if (allocation->type != VW__CUDA_ALLOCATION_PINNED || option != VW__CUDA_GRANULARITY_MINIMUM)
        return INVALID_VALUE;
    *granularity_bytes = FAKE_CUDA_GRANULARITY_BYTES;
    return SUCCESS;
}

DRIVER(cuMemAddressReserve, (vw__cuda_ptr * out, size_t size_bytes, size_t alignment_bytes,
                             vw__cuda_ptr hint, unsigned long long flags))
{
    OBEY_ORDERS();
    if (!is_granular(size_bytes) || alignment_bytes != 0 || hint != 0 || flags != 0)
        return INVALID_VALUE;
    uintptr_t raw = fake_map_anonymous(size_bytes + FAKE_CUDA_GRANULARITY_BYTES, PROT_NONE);
    uintptr_t past = raw + FAKE_CUDA_GRANULARITY_BYTES - 1;
    uintptr_t start = past - past % FAKE_CUDA_GRANULARITY_BYTES;
    if (start != raw)
        munmap((void *)raw, start - raw);
    if (start - raw != FAKE_CUDA_GRANULARITY_BYTES)
        munmap((void *)(start + size_bytes), FAKE_CUDA_GRANULARITY_BYTES - (start - raw));
    pthread_mutex_lock(&fake_lock);
    fake_range_add(&reservations, start, size_bytes);
    fake_state.reservation_count++;
    pthread_mutex_unlock(&fake_lock);
    *out = start;
    return SUCCESS;
}

DRIVER(cuMemAddressFree, (vw__cuda_ptr address, size_t size_bytes))
{
    OBEY_ORDERS();
    int result = INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    fake_range **link = fake_range_find(&reservations, (uintptr_t)address);
    if (*link != NULL && (*link)->size_bytes == size_bytes &&
        is_free_of_mappings((uintptr_t)address, size_bytes)) {
        munmap((void *)(uintptr_t)address, size_bytes);
        fake_range_drop(link);
        fake_state.reservation_count--;
        result = SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

static int create_handle(size_t size_bytes, const vw__cuda_allocation *allocation,
                         vw__cuda_handle *out)
{
    fake_state.allocation_type = allocation->type;
    fake_state.allocation_location = allocation->location.type;
    fake_state.allocation_device = allocation->location.id;
    fake_state.is_direct_rdma_capable = allocation->is_direct_rdma_capable;
    fake_state.requested_handle_types = allocation->requested_handle_types;
    bool is_shareable = allocation->requested_handle_types == VW__CUDA_HANDLE_FILE_DESCRIPTOR;
    if (allocation->requested_handle_types != 0 && !is_shareable)
        return INVALID_VALUE;
    if (is_shareable && fake_is_set("FAKE_CUDA_SHARING_REFUSED"))
        return NOT_SUPPORTED;
    bool is_on_host = allocation->location.type != VW__CUDA_LOCATION_DEVICE;
    if (is_on_host && fake_is_set("FAKE_CUDA_HOST_REFUSED"))
        return OUT_OF_MEMORY;
    if (!is_on_host && !fake_charge(size_bytes))
        return OUT_OF_MEMORY;
    handle *created = calloc(1, sizeof *created);
    int file = memfd_create("fake_libcuda", MFD_CLOEXEC);
    if (created == NULL || file < 0 || ftruncate(file, (off_t)size_bytes) != 0)
        abort();
    *created = (handle){.next = handles,
                        .owner = fake_current_context(),
                        .size_bytes = size_bytes,
                        .file = file,
                        .is_direct_rdma_capable = allocation->is_direct_rdma_capable != 0,
                        .is_shareable = is_shareable,
                        .is_on_host = is_on_host};
    handles = created;
    fake_state.host_handle_bytes += is_on_host ? size_bytes : 0;
    fake_state.handle_count++;
    *out = (vw__cuda_handle)(uintptr_t)created;
    return SUCCESS;
}

DRIVER(cuMemCreate, (vw__cuda_handle * out, size_t size_bytes,
                     const vw__cuda_allocation *allocation, unsigned long long flags))
{
    OBEY_ORDERS_IN_CONTEXT();
    if (!is_granular(size_bytes) || flags != 0 || !is_good_location(allocation->location))
        return INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    int result = create_handle(size_bytes, allocation, out);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

DRIVER(cuMemRelease, (vw__cuda_handle number))
{
    OBEY_ORDERS();
    int result = INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    handle *released = handle_find(number);
    if (released != NULL) {
        released->is_released = true;
        handle_drop_if_unused(released);
        result = SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

DRIVER(cuMemMap, (vw__cuda_ptr address, size_t size_bytes, size_t offset_bytes,
                  vw__cuda_handle number, unsigned long long flags))
{
    OBEY_ORDERS();
    int result = INVALID_VALUE;
    uintptr_t start = (uintptr_t)address;
    pthread_mutex_lock(&fake_lock);
    handle *mapped = handle_find(number);
    if (mapped != NULL && mapped->size_bytes == size_bytes && is_granular(start) &&
        offset_bytes == 0 && flags == 0 && is_inside_a_reservation(start, size_bytes) &&
        is_free_of_mappings(start, size_bytes)) {
        if (mmap((void *)start, size_bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, mapped->file, 0) ==
            MAP_FAILED)
            abort();
        fake_range_add(&mappings, start, size_bytes)->handle = mapped;
        mapped->mapping_count++;
        fake_state.mapping_count++;
        result = SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

static void unmap_one(fake_range **link)
{
    fake_range *mapping = *link;
    if (mmap((void *)mapping->start, mapping->size_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        abort();
    mapping->handle->mapping_count--;
    fake_state.mapping_count--;
    for (int device = 0; device < FAKE_CUDA_MOST_DEVICES; device++)
        fake_state.open_mappings[device] -= mapping->is_open_to[device];
    handle_drop_if_unused(mapping->handle);
    fake_range_drop(link);
}

DRIVER(cuMemUnmap, (vw__cuda_ptr address, size_t size_bytes))
{
    OBEY_ORDERS();
    int result = INVALID_VALUE;
    uintptr_t start = (uintptr_t)address, end = start + size_bytes;
    pthread_mutex_lock(&fake_lock);
    if (size_bytes != 0 && is_tiled(start, size_bytes)) {
        while (start < end) {
            fake_range **link = fake_range_find(&mappings, start);
            start += (*link)->size_bytes;
            unmap_one(link);
        }
        result = SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* Is some of [start, start + size_bytes) memory that asked for direct RDMA? */
static bool has_direct_rdma(uintptr_t start, size_t size_bytes)
{
    for (fake_range *each = mappings; each != NULL; each = each->next)
        if (each->start - start < size_bytes && each->handle->is_direct_rdma_capable)
            return true;
    return false;
}

/* Each device once; those that can reach the memory only. */
static bool are_good_accesses(uintptr_t start, const vw__cuda_access *accesses, size_t count)
{
    vw__cuda_context owner = (*fake_range_find(&mappings, start))->handle->owner;
    bool is_named[FAKE_CUDA_MOST_DEVICES] = {false};
    for (size_t i = 0; i < count; i++) {
        int device = fake_device_behind(accesses[i].location.id);
        if (accesses[i].flags != VW__CUDA_ACCESS_READ_WRITE ||
            accesses[i].location.type != VW__CUDA_LOCATION_DEVICE || device < 0 ||
            is_named[device] ||
            (&fake_primaries[device] != owner &&
             !fake_can_reach(device, (int)(owner - fake_primaries))))
            return false;
        is_named[device] = true;
    }
    return count != 0;
}

static void open_mappings(uintptr_t start, size_t size_bytes, const vw__cuda_access *accesses,
                          size_t count)
{
    for (fake_range *each = mappings; each != NULL; each = each->next) {
        if (each->start - start >= size_bytes)
            continue;
        for (size_t i = 0; i < count; i++) {
            int device = fake_device_behind(accesses[i].location.id);
            fake_state.open_mappings[device] += !each->is_open_to[device];
            each->is_open_to[device] = true;
        }
    }
}

DRIVER(cuMemSetAccess,
       (vw__cuda_ptr address, size_t size_bytes, const vw__cuda_access *accesses, size_t count))
{
    OBEY_ORDERS();
    int result = INVALID_VALUE;
    uintptr_t start = (uintptr_t)address;
    pthread_mutex_lock(&fake_lock);
    if (fake_is_set("FAKE_CUDA_RDMA_WITHOUT_ACCESS") && has_direct_rdma(start, size_bytes)) {
        result = NOT_SUPPORTED;
    } else if (size_bytes != 0 && is_tiled(start, size_bytes) &&
               are_good_accesses(start, accesses, count)) {
        open_mappings(start, size_bytes, accesses, count);
        if (mprotect((void *)start, size_bytes, PROT_READ | PROT_WRITE) != 0)
            abort();
        result = SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

DRIVER(cuMemExportToShareableHandle,
       (void *exported, vw__cuda_handle number, int handle_type, unsigned long long flags))
{
    OBEY_ORDERS();
    int result = INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    const handle *shared = handle_find(number);
    if (shared != NULL && shared->is_shareable && flags == 0 &&
        handle_type == VW__CUDA_HANDLE_FILE_DESCRIPTOR) {
        int file = dup(shared->file);
        if (file < 0)
            abort();
        memcpy(exported, &file, sizeof file);
        result = SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* As the driver: whole pages, of one mapping. The file is all of its memory. */
DRIVER(cuMemGetHandleForAddressRange, (void *exported, vw__cuda_ptr address, size_t size_bytes,
                                       int type, unsigned long long flags))
{
    OBEY_ORDERS_IN_CONTEXT();
    int result = INVALID_VALUE;
    uintptr_t start = (uintptr_t)address, page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (type != VW__CUDA_RANGE_DMA_BUF || flags != 0 || size_bytes == 0 || start % page != 0 ||
        size_bytes % page != 0)
        return result;
    pthread_mutex_lock(&fake_lock);
    for (fake_range *each = mappings; each != NULL && result != SUCCESS; each = each->next) {
        if (start < each->start || start - each->start >= each->size_bytes ||
            size_bytes > each->size_bytes - (start - each->start))
            continue;
        int file = dup(each->handle->file);
        if (file < 0)
            abort();
        memcpy(exported, &file, sizeof file);
        result = SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

DRIVER(cuMemImportFromShareableHandle, (vw__cuda_handle * out, void *exported, int handle_type))
{
    OBEY_ORDERS_IN_CONTEXT();
    struct stat facts;
    int file = (int)(intptr_t)exported;
    if (handle_type != VW__CUDA_HANDLE_FILE_DESCRIPTOR || fstat(file, &facts) != 0 ||
        !is_granular((uint64_t)facts.st_size))
        return INVALID_VALUE;
    handle *imported = calloc(1, sizeof *imported);
    file = dup(file);
    if (imported == NULL || file < 0)
        abort();
    pthread_mutex_lock(&fake_lock);
    *imported = (handle){.next = handles,
                         .owner = fake_current_context(),
                         .size_bytes = (size_t)facts.st_size,
                         .file = file,
                         .is_imported = true};
    handles = imported;
    fake_state.handle_count++;
    fake_state.imported_count++;
    pthread_mutex_unlock(&fake_lock);
    *out = (vw__cuda_handle)(uintptr_t)imported;
    return SUCCESS;
}
#else
typedef int an_old_driver_has_none; /* ISO C wants one declaration */
#endif /* FAKE_CUDA_OLD */
