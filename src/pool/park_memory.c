/* park_memory.c - parked data in page-locked host memory.
 *
 * The tape is cut into large pieces of host memory, whatever the handles are that it comes from: in
 * large pieces it is made faster, and a piece that was made stays. All but the last have the same
 * size, so that the next tape finds them in the stock. The last is a power of two of the device's
 * units: tapes of about the same length have the same last piece.
 *
 * Pieces are made when the tape gets there, while the copies before them run. */
#include "pool/park_memory.h"

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_limits.h"
#include "base/host_memory.h"

#define PIECE_BYTES (UINT64_C(256) << 20)

typedef struct memory_store {
    const vw_device *device;
    vw__lender host;
    vw_stream stream;
    vw_device_event marks[2];
    uint64_t tape_bytes;
    vw__lender_handle **pieces; /* owned; NULL where the tape has not been yet */
    uint64_t piece_count;
} memory_store;

uint64_t vw__park_memory_piece_bytes(const vw_device *device, uint64_t tape_bytes, uint64_t index)
{
    uint64_t begin = index * PIECE_BYTES, piece_bytes = device->properties.granularity_bytes;
    if (begin >= tape_bytes)
        return 0;
    while (piece_bytes < PIECE_BYTES && piece_bytes < tape_bytes - begin)
        piece_bytes *= 2;
    return vw__max_u64(vw__min_u64(piece_bytes, PIECE_BYTES), device->properties.granularity_bytes);
}

vw_status vw__park_memory_check(const vw_device *device, uint64_t size_bytes)
{
    vw__host_limits limits;
    if (!device->properties.has_bytes) /* there is no memory behind it */
        return VW_OK;
    vw__host_limits_read("", &limits);
    if (vw__host_limits_check(&limits, "parking", size_bytes, false) == VW_OK)
        return VW_OK;
    return vw__fail(VW_ERR_HOST_MEMORY, "%s; a folder may take it", vw_last_error());
}

/* ---- the tape -------------------------------------------------------------------------------- */

static vw_status begin(void *context, uint64_t size_bytes)
{
    memory_store *store = context;
    vw__lender_numbers numbers;
    store->host.look(store->host.context, &numbers);
    uint64_t count = vw__ceil_div_u64(size_bytes, PIECE_BYTES);
    if (size_bytes > numbers.ready_bytes)
        VW__TRY(vw__park_memory_check(store->device, size_bytes - numbers.ready_bytes));
    if (size_bytes > numbers.free_bytes)
        return vw__fail(VW_ERR_HOST_MEMORY,
                        "parking of %llu bytes: the budget for page-locked host memory has %llu "
                        "bytes left; a folder may take it",
                        (unsigned long long)size_bytes, (unsigned long long)numbers.free_bytes);
    store->pieces = vw__host_alloc_zeroed(count != 0 ? count : 1, sizeof(vw__lender_handle *));
    if (store->pieces == NULL)
        return vw__fail_host_memory(count * sizeof(vw__lender_handle *), "a tape to park on");
    store->piece_count = count;
    store->tape_bytes = size_bytes;
    return VW_OK;
}

static vw_status find_piece(memory_store *store, uint64_t index, vw_device_ptr *window)
{
    vw__lender_handle **piece = &store->pieces[index];
    if (*piece == NULL) {
        uint64_t piece_bytes = vw__park_memory_piece_bytes(store->device, store->tape_bytes, index);
        vw_status status = store->host.take(store->host.context, piece_bytes, piece);
        if (status == VW_ERR_OUT_OF_MEMORY)
            return vw__fail(VW_ERR_HOST_MEMORY, "the budget for page-locked host memory is spent");
        VW__TRY(status);
    }
    *window = (*piece)->window;
    return VW_OK;
}

/* Between the tape and the device: there, or back. */
static vw_status move(memory_store *store, uint64_t offset, vw_device_ptr address,
                      uint64_t size_bytes, bool is_back)
{
    const vw_device *device = store->device;
    while (size_bytes != 0) {
        vw_device_ptr window = VW_NULL;
        uint64_t within = offset % PIECE_BYTES;
        uint64_t part_bytes = vw__min_u64(size_bytes, PIECE_BYTES - within);
        VW__TRY(find_piece(store, offset / PIECE_BYTES, &window));
        VW__TRY(device->table->copy(device->context, is_back ? address : window + within,
                                    is_back ? window + within : address, part_bytes,
                                    store->stream));
        offset += part_bytes;
        address += part_bytes;
        size_bytes -= part_bytes;
    }
    return VW_OK;
}

static vw_status put(void *context, uint64_t offset, vw_device_ptr from, uint64_t size_bytes)
{
    return move(context, offset, from, size_bytes, false);
}

static vw_status get(void *context, uint64_t offset, vw_device_ptr to, uint64_t size_bytes)
{
    return move(context, offset, to, size_bytes, true);
}

static vw_status mark(void *context, unsigned slot)
{
    const memory_store *store = context;
    return store->device->table->event_record(store->device->context, store->marks[slot],
                                              store->stream);
}

static vw_status wait_for(void *context, unsigned slot)
{
    const memory_store *store = context;
    return store->device->table->event_synchronize(store->device->context, store->marks[slot]);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void end(void *context)
{
    memory_store *store = context;
    const vw_device_table *table = store->device->table;
    void *device = store->device->context;
    if (store->stream != 0)
        (void)table->stream_synchronize(device, store->stream);
    for (uint64_t i = 0; i < store->piece_count; i++)
        if (store->pieces[i] != NULL)
            store->host.give_back(store->host.context, store->pieces[i]);
    for (int i = 0; i < 2; i++)
        if (store->marks[i] != 0)
            (void)table->event_destroy(device, store->marks[i]);
    if (store->stream != 0)
        (void)table->stream_destroy(device, store->stream);
    vw__host_free(store->pieces);
    vw__host_free(store);
}

vw_status vw__park_memory_open(const vw_device *device, const vw__lender *host, vw__park_store *out)
{
    memory_store *store = vw__host_alloc_zeroed(1, sizeof *store);
    if (store == NULL)
        return vw__fail_host_memory(sizeof *store, "parking");
    store->device = device;
    store->host = *host;
    vw_status status = device->table->stream_create(device->context, &store->stream);
    for (int i = 0; i < 2 && status == VW_OK; i++)
        status = device->table->event_create(device->context, &store->marks[i]);
    if (status != VW_OK) {
        end(store);
        return status;
    }
    *out = (vw__park_store){store, begin, put, get, mark, wait_for, end};
    return VW_OK;
}
