/* park_file.c - parked data in a file, where host memory is short.
 *
 * The file has no name (O_TMPFILE): nobody finds it, its mode is 0600, and the kernel removes it
 * with the process, however that ends. Where a file system has no such files, one with a name that
 * cannot be guessed is made and unlinked at once.
 *
 * Room is claimed before the first byte. A write that the kernel accepted can still fail on its way
 * to the disk, so wait() has the data on the disk (fdatasync): only then the memory it came from
 * may go. After that the kernel is told that it need not cache it: memory is what is short.
 *
 * Bytes pass through a page-locked buffer, one after the other: the disk is the slow part. */
#include "pool/park_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/signal_guard.h"

#define BUFFER_BYTES (UINT64_C(16) << 20)

typedef struct file_store {
    const vw_device *device;
    int file;
    bool is_dirty; /* written since the last fdatasync() */
    bool is_pinned;
    void *buffer; /* from begin() on */
    uint64_t buffer_bytes;
} file_store;

static vw_status fail(const char *doing, int reason)
{
    return vw__fail(VW_ERR_FILE, "the file that memory is parked in: %s: %s", doing,
                    strerror(reason));
}

/* ---- the tape -------------------------------------------------------------------------------- */

static vw_status take_buffer(file_store *store, uint64_t tape_bytes)
{
    const vw_device *device = store->device;
    store->buffer_bytes = vw__max_u64(vw__min_u64(tape_bytes, BUFFER_BYTES), 1);
    store->is_pinned =
        device->properties.has_pinned_memory &&
        device->table->host_take(device->context, store->buffer_bytes, &store->buffer) == VW_OK;
    if (!store->is_pinned)
        store->buffer = vw__host_alloc(store->buffer_bytes);
    return store->buffer != NULL
               ? VW_OK
               : vw__fail_host_memory(store->buffer_bytes, "a buffer to park through");
}

/* 0, or why there is no room. */
static int claim_room(int file, uint64_t size_bytes)
{
    vw__signal_guard guard;
    vw__signal_guard_begin(&guard, VW__SIGNAL_GUARD_EVERY);
    int reason = fallocate(file, 0, 0, (off_t)size_bytes) == 0 ? 0 : errno;
    vw__signal_guard_end(&guard, reason);
    return reason;
}

/* `ulimit -f` is looked at beforehand, for a message with both sizes. */
static vw_status begin(void *context, uint64_t size_bytes)
{
    file_store *store = context;
    struct rlimit limit;
    VW__TRY(take_buffer(store, size_bytes));
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        size_bytes > limit.rlim_cur)
        return vw__fail(VW_ERR_FILE,
                        "parking takes a file of %llu bytes, and ulimit -f allows %llu",
                        (unsigned long long)size_bytes, (unsigned long long)limit.rlim_cur);
    int reason = size_bytes != 0 ? claim_room(store->file, size_bytes) : 0;
    if (reason == 0 || reason == EOPNOTSUPP || reason == ENOSYS)
        return VW_OK;
    return vw__fail(VW_ERR_FILE, "no room for a file of %llu bytes to park in: %s",
                    (unsigned long long)size_bytes, strerror(reason));
}

static vw_status write_all(const file_store *store, uint64_t offset, uint64_t size_bytes)
{
    for (uint64_t done = 0; done < size_bytes;) {
        ssize_t written = vw__signal_guard_write_at(store->file, (const char *)store->buffer + done,
                                                    (size_t)(size_bytes - done), offset + done);
        if (written < 0 && errno != EINTR)
            return fail("writing", errno);
        done += written > 0 ? (uint64_t)written : 0;
    }
    return VW_OK;
}

static vw_status read_all(const file_store *store, uint64_t offset, uint64_t size_bytes)
{
    for (uint64_t done = 0; done < size_bytes;) {
        ssize_t got = pread(store->file, (char *)store->buffer + done, (size_t)(size_bytes - done),
                            (off_t)(offset + done));
        if (got == 0)
            return fail("reading", EIO); /* somebody cut it short */
        if (got < 0 && errno != EINTR)
            return fail("reading", errno);
        done += got > 0 ? (uint64_t)got : 0;
    }
    return VW_OK;
}

static vw_status put(void *context, uint64_t offset, vw_device_ptr from, uint64_t size_bytes)
{
    file_store *store = context;
    const vw_device *device = store->device;
    while (size_bytes != 0 && device->properties.has_bytes) {
        uint64_t part_bytes = vw__min_u64(size_bytes, store->buffer_bytes);
        VW__TRY(device->table->read(device->context, store->buffer, from, part_bytes));
        store->is_dirty = true;
        VW__TRY(write_all(store, offset, part_bytes));
        offset += part_bytes;
        from += part_bytes;
        size_bytes -= part_bytes;
    }
    return VW_OK;
}

static vw_status get(void *context, uint64_t offset, vw_device_ptr to, uint64_t size_bytes)
{
    const file_store *store = context;
    const vw_device *device = store->device;
    while (size_bytes != 0 && device->properties.has_bytes) {
        uint64_t part_bytes = vw__min_u64(size_bytes, store->buffer_bytes);
        VW__TRY(read_all(store, offset, part_bytes));
        VW__TRY(device->table->write(device->context, to, store->buffer, part_bytes));
        offset += part_bytes;
        to += part_bytes;
        size_bytes -= part_bytes;
    }
    return VW_OK;
}

/* put() and get() are done when they return. */
static vw_status mark(void *context, unsigned slot)
{
    (void)context, (void)slot;
    return VW_OK;
}

static vw_status wait_for(void *context, unsigned slot)
{
    file_store *store = context;
    (void)slot;
    if (!store->is_dirty)
        return VW_OK;
    if (fdatasync(store->file) != 0)
        return fail("writing it to the disk", errno);
    store->is_dirty = false;
    (void)posix_fadvise(store->file, 0, 0, POSIX_FADV_DONTNEED);
    return VW_OK;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void end(void *context)
{
    file_store *store = context;
    const vw_device *device = store->device;
    if (store->is_pinned)
        (void)device->table->host_give_back(device->context, store->buffer);
    else
        vw__host_free(store->buffer);
    if (store->file >= 0)
        (void)close(store->file);
    vw__host_free(store);
}

static int open_named(const char *folder)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/.vramwise-parked-XXXXXX", folder);
    if (length < 0 || (size_t)length >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int file = mkostemp(path, O_CLOEXEC);
    if (file >= 0 && unlink(path) != 0) {
        int reason = errno;
        close(file);
        errno = reason;
        return -1;
    }
    return file;
}

static vw_status open_file(const char *folder, int *file)
{
    *file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (*file < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
        *file = open_named(folder);
    if (*file >= 0)
        return VW_OK;
    int reason = errno;
    return vw__fail(VW_ERR_FILE, "no file can be made in %s to park in: %s", folder,
                    strerror(reason));
}

vw_status vw__park_file_open(const vw_device *device, const char *folder, vw__park_store *out)
{
    file_store *store = vw__host_alloc_zeroed(1, sizeof *store);
    if (store == NULL)
        return vw__fail_host_memory(sizeof *store, "parking");
    store->device = device;
    store->file = -1;
    vw_status status = open_file(folder, &store->file);
    if (status != VW_OK) {
        end(store);
        return status;
    }
    *out = (vw__park_store){store, begin, put, get, mark, wait_for, end};
    return VW_OK;
}
