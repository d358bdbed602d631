/* gpu_capture_views.c - which handle is mapped where, and the same memory at a second address.
 *
 * A device's table is data: a copy of it with two functions replaced notes every mapping a pool
 * makes, and passes the call on with the device's own context. */
#include "gpu/gpu_capture_views.h"

#include <inttypes.h>
#include <unistd.h> /* close */

#include "base/error.h" /* vw__fail, VW__TRY */
#include "gpu/gpu_capture_scene.h"

enum { MOST_MAPPINGS = 1 << 16, MOST_WATCHED = 64 };

typedef struct mapping {
    vw_device_ptr address;
    uint64_t size_bytes;
    vw_handle handle; /* 0 where it is watched only */
} mapping;

static vw_device_table noting_table;
static const vw_device_table *real_table;
static mapping mappings[MOST_MAPPINGS];
static size_t mapping_count;
static mapping watched[MOST_WATCHED];
static size_t watched_count;
static uint64_t watched_unmaps;

/* ---- noting ---------------------------------------------------------------------------------- */

static bool overlaps(const mapping *one, vw_device_ptr address, uint64_t size_bytes)
{
    return one->address < address + size_bytes && one->address + one->size_bytes > address;
}

static vw_status map_and_note(void *context, vw_device_ptr address, uint64_t size_bytes,
                              vw_handle handle)
{
    if (mapping_count == MOST_MAPPINGS)
        return vw__fail(VW_ERR_HOST_MEMORY, "more than %d mappings: this check notes no more",
                        (int)MOST_MAPPINGS);
    VW__TRY(real_table->map(context, address, size_bytes, handle));
    mappings[mapping_count++] = (mapping){address, size_bytes, handle};
    return VW_OK;
}

static vw_status unmap_and_note(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    VW__TRY(real_table->unmap(context, address, size_bytes));
    for (size_t i = mapping_count; i-- > 0;)
        if (overlaps(&mappings[i], address, size_bytes))
            mappings[i] = mappings[--mapping_count];
    for (size_t i = 0; i < watched_count; i++)
        watched_unmaps += overlaps(&watched[i], address, size_bytes);
    return VW_OK;
}

void capture_note_mappings(vw_device *device)
{
    real_table = device->table;
    noting_table = *real_table;
    noting_table.map = map_and_note;
    noting_table.unmap = unmap_and_note;
    device->table = &noting_table;
    mapping_count = 0;
}

vw_status capture_watch(vw_device_ptr address, uint64_t size_bytes)
{
    if (watched_count == MOST_WATCHED)
        return vw__fail(VW_ERR_HOST_MEMORY, "more than %d ranges to watch", (int)MOST_WATCHED);
    watched[watched_count++] = (mapping){address, size_bytes, 0};
    return VW_OK;
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
static const mapping *mapping_at(vw_device_ptr address)
{
    for (size_t i = 0; i < mapping_count; i++)
        if (overlaps(&mappings[i], address, 1))
            return &mappings[i];
    return NULL;
}

/* ---- views ----------------------------------------------------------------------------------- */

static vw_status find_pieces(const replay_block *block, capture_view *view)
{
    uint64_t end = block->address + block->size_bytes;
    for (vw_device_ptr at = block->address; at < end;) {
        const mapping *found = mapping_at(at);
        if (found == NULL || view->piece_count == CAPTURE_MOST_PIECES)
            return vw__fail(VW_ERR_WRONG_STATE,
                            found == NULL ? "nothing is mapped at %#" PRIx64
                                          : "too many handles under a block, up to %#" PRIx64,
                            at);
        view->homes[view->piece_count] = found->address;
        view->handles[view->piece_count] = found->handle;
        view->sizes_bytes[view->piece_count++] = found->size_bytes;
        view->reserved_bytes += found->size_bytes;
        at = found->address + found->size_bytes;
    }
    return VW_OK;
}

static vw_status import(const capture_gpu *gpu, vw_handle handle, vw_handle *out)
{
    const vw_device *device = gpu->real;
    vw__cuda_handle imported = 0;
    int file = -1;
    if (gpu->functions.cuMemImportFromShareableHandle == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "no cuMemImportFromShareableHandle in this driver");
    VW__TRY(device->table->export_handle(device->context, handle, &file));
    vw__cuda_result result = gpu->functions.cuMemImportFromShareableHandle(
        &imported, (void *)(uintptr_t)file, VW__CUDA_HANDLE_FILE_DESCRIPTOR);
    (void)close(file);
    VW__TRY(replay_driver_result(&gpu->driver, result, "cuMemImportFromShareableHandle()"));
    *out = imported;
    return VW_OK;
}

vw_status capture_view_open(const capture_gpu *gpu, const replay_block *block, bool is_imported,
                            capture_view *out)
{
    const vw_device_table *table = gpu->real->table;
    void *context = gpu->real->context;
    *out = (capture_view){.reserved = VW_NULL};
    VW__TRY(find_pieces(block, out));
    VW__TRY(table->reserve(context, out->reserved_bytes, &out->reserved));
    for (size_t i = 0; i < out->piece_count; i++) {
        vw_handle handle = out->handles[i];
        if (is_imported) {
            VW__TRY(import(gpu, handle, &out->imported[i]));
            handle = out->imported[i];
        }
        VW__TRY(
            table->map(context, out->reserved + out->mapped_bytes, out->sizes_bytes[i], handle));
        out->mapped_bytes += out->sizes_bytes[i];
    }
    VW__TRY(table->set_access(context, out->reserved, out->reserved_bytes));
    out->block = out->reserved + (block->address - out->homes[0]);
    return VW_OK;
}

/* What was mapped is unmapped piece by piece: each was mapped so. */
vw_status capture_view_close(const capture_gpu *gpu, capture_view *view)
{
    const vw_device_table *table = gpu->real->table;
    void *context = gpu->real->context;
    uint64_t done_bytes = 0;
    if (view->reserved == VW_NULL)
        return VW_OK;
    VW__TRY(table->synchronize(context));
    for (size_t i = 0; i < view->piece_count; i++) {
        if (done_bytes < view->mapped_bytes)
            VW__TRY(table->unmap(context, view->reserved + done_bytes, view->sizes_bytes[i]));
        done_bytes += view->sizes_bytes[i];
        if (view->imported[i] != 0)
            VW__TRY(table->release(context, view->imported[i]));
    }
    VW__TRY(table->unreserve(context, view->reserved, view->reserved_bytes));
    view->reserved = VW_NULL;
    return VW_OK;
}

/* What the driver says is mapped there. */
static vw_status expect_handle(const capture_gpu *gpu, vw_device_ptr address, vw_handle wanted)
{
    vw__cuda_handle found = 0;
    if (gpu->functions.cuMemRetainAllocationHandle == NULL)
        return VW_OK;
    VW__TRY(replay_driver_result(
        &gpu->driver,
        gpu->functions.cuMemRetainAllocationHandle(&found, (void *)(uintptr_t)address),
        "cuMemRetainAllocationHandle()"));
    VW__TRY(gpu->real->table->release(gpu->real->context, found));
    if (found != wanted)
        return vw__fail(VW_ERR_WRONG_STATE,
                        "at %#" PRIx64 " the driver has handle %#llx, expected %#" PRIx64, address,
                        found, wanted);
    return VW_OK;
}

vw_status capture_view_expect_in_place(const capture_gpu *gpu, const capture_view *view)
{
    for (size_t i = 0; i < view->piece_count; i++) {
        const mapping *found = mapping_at(view->homes[i]);
        if (found == NULL || found->address != view->homes[i] || found->handle != view->handles[i])
            return vw__fail(VW_ERR_WRONG_STATE,
                            "handle %#" PRIx64 " is no longer mapped at %#" PRIx64,
                            view->handles[i], view->homes[i]);
        VW__TRY(expect_handle(gpu, view->homes[i], view->handles[i]));
    }
    return VW_OK;
}
