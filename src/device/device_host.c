/* device_host.c - real bytes behind mmap, with a GPU's mapping rules.
 *
 * Tests that move memory need to see the data move: write through one address, read through
 * another, and fault where nothing is mapped. Here device addresses are host addresses:
 *
 *   plain memory   an anonymous mapping
 *   reservation    a mapping without access or memory
 *   handle         a piece of one large memfd
 *   mapping        that piece, mapped over the reservation; no access before set_access()
 *   unmapping      the reservation's empty mapping, mapped over the piece
 *   shareable      a handle with its own memfd; exporting and importing duplicate the descriptor
 *   on the host    a handle like any other: all memory is host memory; only the books differ
 *
 * One memfd serves all handles, because thousands of handles must work and a process has a thousand
 * file descriptors. The file is sparse and as long as a file can be, so that offsets are never
 * reused, and a new handle always reads as zero. When a handle ends, its pages are punched out of
 * the file and the memory goes back to the system. The length is enough: 4 EiB at a GiB every
 * microsecond last over an hour.
 *
 * Only shareable handles are files of their own: the descriptor stands for just this memory, which
 * lives as long as any process has it, as on a GPU. A thousand of them are too many for most
 * processes; the system then refuses.
 *
 * The checks and the books are in device_books.h. Everything here runs under the device's lock. */

#include <errno.h>
#include <fcntl.h> /* fallocate */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "device/device_common.h"

#define FILE_BYTES (INT64_C(1) << 62)

/* Where a handle's memory is: an offset in the large file, or with this bit the descriptor of its
 * own file. */
#define IS_OWN_FILE (UINT64_C(1) << 63)

typedef struct host_device {
    vw__stand_in common; /* first: vw_device.context points at it */
    int file;            /* the large memfd */
    uint64_t page_bytes; /* set at creation, then read-only */
    uint64_t next_offset;
} host_device;

static void *host_address(vw_device_ptr address)
{
    return (void *)(uintptr_t)address;
}

static vw_status system_refused(const char *call, const char *what, uint64_t size_bytes)
{
    int code = errno;
    return vw__fail(VW_ERR_DEVICE, "%s of %" PRIu64 " bytes: %s: %s (errno %d)", what, size_bytes,
                    call, strerror(code), code);
}

/* ---- plain memory ---------------------------------------------------------------------------- */

/* Rounds `size_bytes` up to whole pages, or fails. */
static vw_status whole_pages(const host_device *device, uint64_t size_bytes, size_t *out)
{
    uint64_t rounded;
    if (!vw__align_up_u64(size_bytes, device->page_bytes, &rounded) ||
        !vw__narrow_size(rounded, out)) {
        errno = EOVERFLOW;
        return system_refused("rounding", "take", size_bytes);
    }
    return VW_OK;
}

static vw_status host_take(void *context, uint64_t size_bytes, vw_device_ptr *out)
{
    size_t whole_bytes = 0;
    VW__TRY(whole_pages(context, size_bytes, &whole_bytes));
    void *memory = mmap(NULL, whole_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return system_refused("mmap", "take", size_bytes);
    *out = (uintptr_t)memory;
    return VW_OK;
}

static vw_status host_give_back(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    size_t whole_bytes = 0;
    VW__TRY(whole_pages(context, size_bytes, &whole_bytes));
    if (munmap(host_address(address), whole_bytes) != 0)
        return system_refused("munmap", "give_back", size_bytes);
    return VW_OK;
}

/* ---- virtual memory -------------------------------------------------------------------------- */

/* Maps addresses without memory, anywhere, or over what is at `fixed`. */
static void *map_nothing(void *fixed, size_t size_bytes)
{
    return mmap(fixed, size_bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (fixed != NULL ? MAP_FIXED : 0), -1,
                0);
}

static vw_status host_reserve(void *context, uint64_t size_bytes, vw_device_ptr *out)
{
    const host_device *device = context;
    uint64_t granularity_bytes = device->common.books.granularity_bytes;
    uint64_t wider;
    size_t wider_bytes;
    if (!vw__add_u64(size_bytes, granularity_bytes, &wider) ||
        !vw__narrow_size(wider, &wider_bytes)) {
        errno = EOVERFLOW;
        return system_refused("rounding", "reserve", size_bytes);
    }
    void *found = map_nothing(NULL, wider_bytes);
    if (found == MAP_FAILED)
        return system_refused("mmap", "reserve", size_bytes);
    /* Cut off what lies before the first whole granule, and what is left over behind. */
    uint64_t start = (uintptr_t)found;
    uint64_t address = vw__align_down_u64(start + granularity_bytes - 1, granularity_bytes);
    uint64_t end = address + size_bytes;
    if (address > start)
        (void)munmap(found, (size_t)(address - start));
    if (start + wider > end)
        (void)munmap(host_address(end), (size_t)(start + wider - end));
    *out = address;
    return VW_OK;
}

static vw_status host_unreserve(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    (void)context;
    if (munmap(host_address(address), (size_t)size_bytes) != 0)
        return system_refused("munmap", "unreserve", size_bytes);
    return VW_OK;
}

static vw_status host_create(void *context, uint64_t size_bytes, uint64_t *where)
{
    host_device *device = context;
    uint64_t end;
    if (!vw__add_u64(device->next_offset, size_bytes, &end) || end > (uint64_t)FILE_BYTES) {
        errno = EFBIG;
        return system_refused("finding an offset", "create", size_bytes);
    }
    *where = device->next_offset;
    device->next_offset = end;
    return VW_OK;
}

static vw_status open_file(const char *what, uint64_t size_bytes, int *out)
{
    int file = memfd_create("vramwise", MFD_CLOEXEC);
    if (file < 0)
        return system_refused("memfd_create", what, size_bytes);
    if (ftruncate(file, (off_t)size_bytes) != 0) {
        vw_status status = system_refused("ftruncate", what, size_bytes);
        (void)close(file);
        return status;
    }
    *out = file;
    return VW_OK;
}

static vw_status host_create_shareable(void *context, uint64_t size_bytes, uint64_t *where)
{
    (void)context;
    if (size_bytes > (uint64_t)FILE_BYTES) {
        errno = EFBIG;
        return system_refused("memfd_create", "create_shareable", size_bytes);
    }
    int file = -1;
    VW__TRY(open_file("create_shareable", size_bytes, &file));
    *where = IS_OWN_FILE | (uint64_t)file;
    return VW_OK;
}

static bool is_own_file(uint64_t where, int *file)
{
    *file = (int)(where & ~IS_OWN_FILE);
    return (where & IS_OWN_FILE) != 0;
}

static vw_status host_export_memory(void *context, uint64_t where, int *file_descriptor)
{
    (void)context;
    int file = -1;
    (void)is_own_file(where, &file); /* the books export no other */
    int duplicate = fcntl(file, F_DUPFD_CLOEXEC, 0);
    if (duplicate < 0)
        return system_refused("fcntl", "export_handle", 0);
    *file_descriptor = duplicate;
    return VW_OK;
}

/* Whatever file it is: one of another size is no handle's memory, and would be cut short. */
static vw_status host_import_memory(void *context, int file_descriptor, uint64_t size_bytes,
                                    uint64_t *where)
{
    struct stat facts;
    (void)context;
    if (fstat(file_descriptor, &facts) != 0)
        return system_refused("fstat", "import_handle", size_bytes);
    if ((uint64_t)facts.st_size != size_bytes)
        return vw__fail(VW_ERR_DEVICE,
                        "import_handle of %" PRIu64 " bytes: file descriptor %d has %" PRIu64,
                        size_bytes, file_descriptor, (uint64_t)facts.st_size);
    int duplicate = fcntl(file_descriptor, F_DUPFD_CLOEXEC, 0);
    if (duplicate < 0)
        return system_refused("fcntl", "import_handle", size_bytes);
    *where = IS_OWN_FILE | (uint64_t)duplicate;
    return VW_OK;
}

/* If the hole is refused, the pages stay until the device ends. They are unreachable: no mapping is
 * left, and their offset is never used again. */
static void host_discard(void *context, uint64_t where, uint64_t size_bytes)
{
    const host_device *device = context;
    int own_file = -1;
    if (is_own_file(where, &own_file)) {
        (void)close(own_file);
        return;
    }
    (void)fallocate(device->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)where,
                    (off_t)size_bytes);
}

static vw_status host_map(void *context, vw_device_ptr address, uint64_t size_bytes, uint64_t where)
{
    const host_device *device = context;
    int file = -1;
    off_t offset = 0;
    if (!is_own_file(where, &file)) {
        file = device->file;
        offset = (off_t)where;
    }
    if (mmap(host_address(address), (size_t)size_bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file,
             offset) == MAP_FAILED) {
        vw_status status = system_refused("mmap", "map", size_bytes);
        /* The system may have taken the reservation away before it found that it cannot go on. */
        (void)map_nothing(host_address(address), (size_t)size_bytes);
        return status;
    }
    return VW_OK;
}

static vw_status host_unmap(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    (void)context;
    if (map_nothing(host_address(address), (size_t)size_bytes) == MAP_FAILED)
        return system_refused("mmap", "unmap", size_bytes);
    return VW_OK;
}

static vw_status host_set_access(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    (void)context;
    if (mprotect(host_address(address), (size_t)size_bytes, PROT_READ | PROT_WRITE) != 0)
        return system_refused("mprotect", "set_access", size_bytes);
    return VW_OK;
}

/* ---- host memory ----------------------------------------------------------------------------- */

/* A refusal is ignored: most accounts may lock only a few MiB, and memory that is not locked works
 * as well here, where no device reads it without the system's knowledge. */
static void host_pin(void *context, void *address, uint64_t size_bytes)
{
    (void)context;
    (void)mlock(address, (size_t)size_bytes);
}

static void host_unpin(void *context, void *address, uint64_t size_bytes)
{
    (void)context;
    (void)munlock(address, (size_t)size_bytes);
}

static void *host_bytes_at(void *context, vw_device_ptr address)
{
    (void)context;
    return host_address(address);
}

static void host_destroy(void *context)
{
    host_device *device = context;
    (void)close(device->file);
    vw__host_free(device);
}

static const vw__books_backing host_backing = {
    .take = host_take,
    .give_back = host_give_back,
    .reserve = host_reserve,
    .unreserve = host_unreserve,
    .create = host_create,
    .create_shareable = host_create_shareable,
    .export_memory = host_export_memory,
    .import_memory = host_import_memory,
    .discard = host_discard,
    .map = host_map,
    .unmap = host_unmap,
    .set_access = host_set_access,
    .pin = host_pin,
    .unpin = host_unpin,
    .bytes_at = host_bytes_at,
    .destroy = host_destroy,
};

/* ---- making one ------------------------------------------------------------------------------ */

vw_status vw_host_device_create(uint64_t capacity_bytes, vw_device **out)
{
    if (capacity_bytes == 0 || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "vw_host_device_create: %s",
                        out == NULL ? "out is NULL" : "a capacity of 0 bytes");
    host_device *device = vw__host_alloc_zeroed(1, sizeof *device);
    if (device == NULL)
        return vw__fail_host_memory(sizeof *device, "a host device");
    vw_status status = open_file("vw_host_device_create", FILE_BYTES, &device->file);
    if (status != VW_OK)
        goto free_device;
    device->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    vw__stand_in_parts parts = {
        .backing = &host_backing,
        .capacity_bytes = capacity_bytes,
        .granularity_bytes = vw__max_u64(VW__DEVICE_HOST_GRANULARITY_BYTES, device->page_bytes),
        .properties = {.total_bytes = capacity_bytes,
                       .has_virtual_memory = true,
                       .has_bytes = true,
                       .has_pinned_memory = true,
                       .has_shareable_handles = true,
                       .has_host_handles = true},
    };
    parts.properties.granularity_bytes = parts.granularity_bytes;
    snprintf(parts.properties.name, sizeof parts.properties.name, "host");
    status = vw__stand_in_init(&device->common, &parts, out);
    if (status == VW_OK)
        return VW_OK;

    (void)close(device->file);
free_device:
    vw__host_free(device);
    return status;
}
