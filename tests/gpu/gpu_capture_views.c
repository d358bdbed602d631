/* gpu_capture_views.c - which handle is mapped where, and the same memory at a second address.
 *
 * A device's table is data: a copy of it with two functions replaced notes every mapping a pool
 * makes, and passes the call on with the device's own context. */
#include "gpu/gpu_capture_views.h"

#include <inttypes.h>
#include <unistd.h> /* close */

#include "base/error.h" /* hr__fail, HR__TRY */
#include "gpu/gpu_capture_scene.h"

enum { MOST_MAPPINGS = 1 << 16, MOST_WATCHED = 64 };

typedef struct mapping {
    hr_device_ptr address;
    uint64_t size_bytes;
    hr_handle handle; /* 0 where it is watched only */
} mapping;

static hr_device_table noting_table;
static const hr_device_table *real_table;
static mapping mappings[MOST_MAPPINGS];
static size_t mapping_count;
static mapping watched[MOST_WATCHED];
static size_t watched_count;
static uint64_t watched_unmaps;

/* ---- noting ---------------------------------------------------------------------------------- */

static bool overlaps(const mapping *one, hr_device_ptr address, uint64_t size_bytes)
{
    return one->address < address + size_bytes && one->address + one->size_bytes > address;
}

static hr_status map_and_note(void *context, hr_device_ptr address, uint64_t size_bytes,
                              hr_handle handle)
{
    if (mapping_count == MOST_MAPPINGS)
        return hr__fail(HR_ERR_HOST_MEMORY, "more than %d mappings: this check notes no more",
                        (int)MOST_MAPPINGS);
    HR__TRY(real_table->map(context, address, size_bytes, handle));
    mappings[mapping_count++] = (mapping){address, size_bytes, handle};
    return HR_OK;
}

static hr_status unmap_and_note(void *context, hr_device_ptr address, uint64_t size_bytes)
{
    HR__TRY(real_table->unmap(context, address, size_bytes));
    for (size_t i = mapping_count; i-- > 0;)
        if (overlaps(&mappings[i], address, size_bytes))
            mappings[i] = mappings[--mapping_count];
    for (size_t i = 0; i < watched_count; i++)
        watched_unmaps += overlaps(&watched[i], address, size_bytes);
    return HR_OK;
}

void capture_note_mappings(hr_device *device)
{
    real_table = device->table;
    noting_table = *real_table;
    noting_table.map = map_and_note;
    noting_table.unmap = unmap_and_note;
    device->table = &noting_table;
    mapping_count = 0;
}

hr_status capture_watch(hr_device_ptr address, uint64_t size_bytes)
{
    if (watched_count == MOST_WATCHED)
        return hr__fail(HR_ERR_HOST_MEMORY, "more than %d ranges to watch", (int)MOST_WATCHED);
    watched[watched_count++] = (mapping){address, size_bytes, 0};
    return HR_OK;
}

void capture_forget_watched(void)
{
    watched_count = 0;
    watched_unmaps = 0;
}

uint64_t capture_watched_unmaps(void)
{
    return watched_unmaps;
}

/* The mapping that holds an address, or NULL. */
static const mapping *mapping_at(hr_device_ptr address)
{
    for (size_t i = 0; i < mapping_count; i++)
        if (overlaps(&mappings[i], address, 1))
            return &mappings[i];
    return NULL;
}

/* ---- views ----------------------------------------------------------------------------------- */

static hr_status find_pieces(const replay_block *block, capture_view *view)
{
    uint64_t end = block->address + block->size_bytes;
    for (hr_device_ptr at = block->address; at < end;) {
        const mapping *found = mapping_at(at);
        if (found == NULL || view->piece_count == CAPTURE_MOST_PIECES)
            return hr__fail(HR_ERR_WRONG_STATE,
                            found == NULL ? "nothing is mapped at %#" PRIx64
                                          : "too many handles under a block, up to %#" PRIx64,
                            at);
        view->homes[view->piece_count] = found->address;
        view->handles[view->piece_count] = found->handle;
        view->sizes_bytes[view->piece_count++] = found->size_bytes;
        view->reserved_bytes += found->size_bytes;
        at = found->address + found->size_bytes;
    }
    return HR_OK;
}

static hr_status import(const capture_gpu *gpu, hr_handle handle, hr_handle *out)
{
    const hr_device *device = gpu->real;
    hr__cuda_handle imported = 0;
    int file = -1;
    if (gpu->functions.cuMemImportFromShareableHandle == NULL)
        return hr__fail(HR_ERR_UNSUPPORTED, "no cuMemImportFromShareableHandle in this driver");
    HR__TRY(device->table->export_handle(device->context, handle, &file));
    hr__cuda_result result = gpu->functions.cuMemImportFromShareableHandle(
        &imported, (void *)(uintptr_t)file, HR__CUDA_HANDLE_FILE_DESCRIPTOR);
    (void)close(file);
    HR__TRY(replay_driver_result(&gpu->driver, result, "cuMemImportFromShareableHandle()"));
    *out = imported;
    return HR_OK;
}

hr_status capture_view_open(const capture_gpu *gpu, const replay_block *block, bool is_imported,
                            capture_view *out)
{
    const hr_device_table *table = gpu->real->table;
    void *context = gpu->real->context;
    *out = (capture_view){.reserved = HR_NULL};
    HR__TRY(find_pieces(block, out));
    HR__TRY(table->reserve(context, out->reserved_bytes, &out->reserved));
    for (size_t i = 0; i < out->piece_count; i++) {
        hr_handle handle = out->handles[i];
        if (is_imported) {
            HR__TRY(import(gpu, handle, &out->imported[i]));
            handle = out->imported[i];
        }
        HR__TRY(
            table->map(context, out->reserved + out->mapped_bytes, out->sizes_bytes[i], handle));
        out->mapped_bytes += out->sizes_bytes[i];
    }
    HR__TRY(table->set_access(context, out->reserved, out->reserved_bytes));
    out->block = out->reserved + (block->address - out->homes[0]);
    return HR_OK;
}

/* What was mapped is unmapped piece by piece: each was mapped so. */
hr_status capture_view_close(const capture_gpu *gpu, capture_view *view)
{
    const hr_device_table *table = gpu->real->table;
    void *context = gpu->real->context;
    uint64_t done_bytes = 0;
    if (view->reserved == HR_NULL)
        return HR_OK;
    HR__TRY(table->synchronize(context));
    for (size_t i = 0; i < view->piece_count; i++) {
        if (done_bytes < view->mapped_bytes)
            HR__TRY(table->unmap(context, view->reserved + done_bytes, view->sizes_bytes[i]));
        done_bytes += view->sizes_bytes[i];
        if (view->imported[i] != 0)
            HR__TRY(table->release(context, view->imported[i]));
    }
    HR__TRY(table->unreserve(context, view->reserved, view->reserved_bytes));
    view->reserved = HR_NULL;
    return HR_OK;
}

/* What the driver says is mapped there. */
static hr_status expect_handle(const capture_gpu *gpu, hr_device_ptr address, hr_handle wanted)
{
    hr__cuda_handle found = 0;
    if (gpu->functions.cuMemRetainAllocationHandle == NULL)
        return HR_OK;
    HR__TRY(replay_driver_result(
        &gpu->driver,
        gpu->functions.cuMemRetainAllocationHandle(&found, (void *)(uintptr_t)address),
        "cuMemRetainAllocationHandle()"));
    HR__TRY(gpu->real->table->release(gpu->real->context, found));
    if (found != wanted)
        return hr__fail(HR_ERR_WRONG_STATE,
                        "at %#" PRIx64 " the driver has handle %#llx, expected %#" PRIx64, address,
                        found, wanted);
    return HR_OK;
}

hr_status capture_view_expect_in_place(const capture_gpu *gpu, const capture_view *view)
{
    for (size_t i = 0; i < view->piece_count; i++) {
        const mapping *found = mapping_at(view->homes[i]);
        if (found == NULL || found->address != view->homes[i] || found->handle != view->handles[i])
            return hr__fail(HR_ERR_WRONG_STATE,
                            "handle %#" PRIx64 " is no longer mapped at %#" PRIx64,
                            view->handles[i], view->homes[i]);
        HR__TRY(expect_handle(gpu, view->homes[i], view->handles[i]));
    }
    return HR_OK;
}
