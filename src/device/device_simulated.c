/* device_simulated.c - a device of any size, made of arithmetic.
 *
 * Replay runs the real pool and the real engine on this device, millions of events a second and
 * for any GPU. It keeps the books of device_books.h and stores no bytes.
 *
 * Its own part is addresses. They matter, because PyTorch breaks ties between free blocks by
 * address. A GPU's driver mostly places each cudaMalloc below the one before, and reservations
 * upwards, and so do we: plain memory falls from the top of one area, reservations rise from the
 * bottom of another, and neither reuses what became free. When an area is used up, it starts again
 * from its first end and skips what is live. A replay that knows the addresses PyTorch got dictates
 * them instead: they wait in a queue, and the next call that *succeeds* takes the first, so that a
 * take() which fails for lack of room finds its address again on the retry.
 *
 * Addresses are compared with what is live only after one was dictated, an area has started again,
 * or bytes of plain memory were copied; until then plain memory is kept without order
 * (vw__books_keep_plain_order). */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/struct_size.h"
#include "device/device_common.h"

/* Medians measured on an H200 (driver 580, PyTorch 2.11), in microseconds, and the line laid
 * through them by hand: base + slope * GiB. The line in brackets.
 *
 *                        2 MiB        20 MiB       256 MiB      1 GiB       4 GiB
 *   cuMemAlloc           47   (45)    46   (48)    62   (80)    195 (185)   604  (605)
 *   cuMemFree            38   (39)    53   (49)    164  (178)   556 (598)   2329 (2278)
 *   cuMemCreate          13.3 (13.0)  12.9 (13.5)  19.0 (19.0)
 *   cuMemMap             1.0  (1.0)   1.0  (1.0)   0.9  (1.0)
 *   cuMemSetAccess       32.6 (30.6)  29.6 (32.0)  49.7 (49.5)  per handle
 *   cuMemUnmap           20.1 (19.6)  19.2 (20.0)  26.0 (26.0)  per handle
 *   cuMemRelease         13.2 (13.2)  21.9 (21.8)  134.8 (134.7)
 *   cuMemcpyDtoD         5.4  (5.4)                131 (131)   on the device, as if waited for
 *   cuMemCreate, host    460  (722)                89000 (92500)  373000 (370000): a slope alone
 *   cuMemSetAccess, host 120  (121)                2900 (2850)    11000 (11100): with its cuMemMap
 *   cuMemcpy, bus        80   (78)                 4900 (4940)    20000 (19640)
 *   cuMemHostAlloc                                 148000: a slope alone, from this one size
 *   cuMemFreeHost                                  23000: likewise
 *
 * Events: create and destroy 210 ns together, record 205, query 488. An idle device synchronises
 * in 700 ns. Reserving, unreserving, stream calls and cuMemGetInfo were not measured: they are
 * counted and cost nothing. */
const vw_call_cost vw__simulated_costs[VW_DEVICE_CALL_KINDS] = {
    [VW_DEVICE_CALL_TAKE] = {45000, 140000},
    [VW_DEVICE_CALL_GIVE_BACK] = {38000, 560000},
    [VW_DEVICE_CALL_CREATE] = {13000, 24000},
    [VW_DEVICE_CALL_RELEASE] = {12200, 490000},
    [VW_DEVICE_CALL_MAP] = {1000, 0},
    [VW_DEVICE_CALL_UNMAP] = {19500, 26000},
    [VW_DEVICE_CALL_SET_ACCESS] = {30500, 76000},
    [VW_DEVICE_CALL_EVENT_CREATE] = {210, 0},
    [VW_DEVICE_CALL_EVENT_RECORD] = {205, 0},
    [VW_DEVICE_CALL_EVENT_QUERY] = {488, 0},
    [VW_DEVICE_CALL_SYNCHRONIZE] = {700, 0},
    [VW_DEVICE_CALL_HOST_TAKE] = {0, 592000000},
    [VW_DEVICE_CALL_HOST_GIVE_BACK] = {0, 92000000},
    [VW_DEVICE_CALL_COPY] = {4400, 506000},
    [VW_DEVICE_CALL_CREATE_ON_HOST] = {0, 370000000},
    [VW_DEVICE_CALL_ACCESS_ON_HOST] = {100000, 11000000},
    [VW_DEVICE_CALL_COPY_ON_HOST] = {40000, 19600000},
};

typedef struct simulated_device {
    vw__stand_in common;             /* first: vw_device.context points at it */
    uint64_t next_plain_end;         /* the next plain range ends here or below */
    uint64_t next_reservation;       /* the next reservation starts here or above */
    uint64_t reservation_step_bytes; /* set at creation, then read-only */
    vw_device_ptr *dictated;         /* owned; the queue is [dictated_first, dictated_end) */
    size_t dictated_first;
    size_t dictated_end;
    size_t dictated_capacity;
} simulated_device;

enum { PEER_COUNT = 16 };
enum { FIRST_DICTATED_CAPACITY = 64 };
enum { ADDRESS_MULTIPLE = 512 }; /* what engines may count on, and the address map needs */

/* ---- addresses ------------------------------------------------------------------------------- */

static vw_status no_addresses_left(const char *what, uint64_t size_bytes)
{
    return vw__fail(VW_ERR_OUT_OF_MEMORY, "%s of %" PRIu64 " bytes: no address range is free", what,
                    size_bytes);
}

/* Puts the next plain range below `end`. false: the area has no room there. */
static bool place_below(simulated_device *device, uint64_t end, uint64_t size_bytes, uint64_t *out)
{
    while (size_bytes <= end - VW__SIMULATED_PLAIN_BOTTOM) {
        uint64_t address =
            vw__align_down_u64(end - size_bytes, VW__SIMULATED_PLAIN_ALIGNMENT_BYTES);
        const vw__books_range *obstacle = NULL;
        if (device->common.books.has_plain_order)
            obstacle = vw__books_overlap(&device->common.books, address, size_bytes);
        if (obstacle == NULL) {
            *out = address;
            return true;
        }
        if (obstacle->address <= VW__SIMULATED_PLAIN_BOTTOM)
            return false;
        end = obstacle->address;
    }
    return false;
}

static vw_status make_up_plain(simulated_device *device, uint64_t size_bytes, uint64_t *out)
{
    if (!place_below(device, device->next_plain_end, size_bytes, out)) {
        vw__books_keep_plain_order(&device->common.books); /* from here on we walk among the live */
        if (!place_below(device, VW__SIMULATED_PLAIN_TOP, size_bytes, out))
            return no_addresses_left("take", size_bytes);
    }
    device->next_plain_end = *out;
    return VW_OK;
}

/* Puts the next reservation at or above `start`, a multiple of the step. false: the area has no
 * room there. */
static bool place_above(const simulated_device *device, uint64_t start, uint64_t size_bytes,
                        uint64_t *out)
{
    while (start <= VW__SIMULATED_PLAIN_BOTTOM &&
           size_bytes <= VW__SIMULATED_PLAIN_BOTTOM - start) {
        const vw__books_range *obstacle =
            vw__books_overlap(&device->common.books, start, size_bytes);
        if (obstacle == NULL) {
            *out = start;
            return true;
        }
        if (!vw__align_up_u64(obstacle->address + obstacle->size_bytes,
                              device->reservation_step_bytes, &start))
            return false;
    }
    return false;
}

static vw_status make_up_reservation(simulated_device *device, uint64_t size_bytes, uint64_t *out)
{
    if (!place_above(device, device->next_reservation, size_bytes, out) &&
        !place_above(device, VW__SIMULATED_RESERVED_BOTTOM, size_bytes, out))
        return no_addresses_left("reserve", size_bytes);
    /* Cannot overflow: the sum is at most the end of the area, rounded up. */
    (void)vw__align_up_u64(*out + size_bytes, device->reservation_step_bytes,
                           &device->next_reservation);
    return VW_OK;
}

static bool is_dictated(const simulated_device *device)
{
    return device->dictated_first != device->dictated_end;
}

static vw_status follow_dictation(simulated_device *device, const char *what, uint64_t size_bytes,
                                  uint64_t multiple_bytes, uint64_t *out)
{
    uint64_t end;
    uint64_t address = device->dictated[device->dictated_first];
    if (address % multiple_bytes != 0 || !vw__add_u64(address, size_bytes, &end))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "%s of %" PRIu64 " bytes at %#" PRIx64
                        " as dictated: a multiple of %" PRIu64 " is expected",
                        what, size_bytes, address, multiple_bytes);
    const vw__books_range *obstacle = vw__books_overlap(&device->common.books, address, size_bytes);
    if (obstacle != NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "%s of %" PRIu64 " bytes at %#" PRIx64 " as dictated: %" PRIu64
                        " bytes at %#" PRIx64 " are in use",
                        what, size_bytes, address, obstacle->size_bytes, obstacle->address);
    device->dictated_first++;
    *out = address;
    return VW_OK;
}

/* ---- the backing ----------------------------------------------------------------------------- */

static vw_status simulated_take(void *context, uint64_t size_bytes, vw_device_ptr *out)
{
    simulated_device *device = context;
    if (is_dictated(device))
        return follow_dictation(device, "take", size_bytes, ADDRESS_MULTIPLE, out);
    return make_up_plain(device, size_bytes, out);
}

static vw_status simulated_reserve(void *context, uint64_t size_bytes, vw_device_ptr *out)
{
    simulated_device *device = context;
    if (is_dictated(device))
        return follow_dictation(device, "reserve", size_bytes,
                                device->common.books.granularity_bytes, out);
    return make_up_reservation(device, size_bytes, out);
}

static void simulated_destroy(void *context)
{
    simulated_device *device = context;
    vw__host_free(device->dictated);
    vw__host_free(device);
}

static const vw__books_backing simulated_backing = {
    .take = simulated_take,
    .reserve = simulated_reserve,
    .destroy = simulated_destroy,
};

/* ---- making one ------------------------------------------------------------------------------ */

/* Replaces fields that are 0, or missing in an older struct, by their defaults. */
static vw_status read_options(const vw_simulated_options *given, vw_simulated_options *out)
{
    memset(out, 0, sizeof *out);
    VW__TRY(VW__STRUCT_IN(vw_simulated_options, given, out));
    if (out->capacity_bytes == 0)
        out->capacity_bytes = VW__SIMULATED_CAPACITY_BYTES;
    if (out->total_bytes == 0)
        out->total_bytes = out->capacity_bytes;
    if (out->granularity_bytes == 0)
        out->granularity_bytes = VW__SIMULATED_GRANULARITY_BYTES;
    if (!vw__is_power_of_two_u64(out->granularity_bytes) ||
        out->granularity_bytes < ADDRESS_MULTIPLE ||
        out->granularity_bytes > VW__SIMULATED_RESERVED_BOTTOM)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "vw_simulated_device_create: granularity_bytes is %" PRIu64
                        ", expected a power of two from %d to 2^44",
                        out->granularity_bytes, ADDRESS_MULTIPLE);
    return VW_OK;
}

vw_status vw_simulated_device_create(const vw_simulated_options *options, vw_device **out)
{
    vw_simulated_options used;
    if (out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "vw_simulated_device_create: out is NULL");
    VW__TRY(read_options(options, &used));
    simulated_device *device = vw__host_alloc_zeroed(1, sizeof *device);
    if (device == NULL)
        return vw__fail_host_memory(sizeof *device, "a simulated device");
    device->next_plain_end = VW__SIMULATED_PLAIN_TOP;
    device->next_reservation = VW__SIMULATED_RESERVED_BOTTOM;
    device->reservation_step_bytes =
        vw__max_u64(VW__SIMULATED_RESERVATION_STEP_BYTES, used.granularity_bytes);

    vw__stand_in_parts parts = {
        .backing = &simulated_backing,
        .costs = used.has_costs ? used.costs : vw__simulated_costs,
        .capacity_bytes = used.capacity_bytes,
        .granularity_bytes = used.granularity_bytes,
        .holds_streams = used.manual_streams,
        .peer_count = PEER_COUNT,
        .properties = {.index = used.index,
                       .total_bytes = used.total_bytes,
                       .granularity_bytes =
                           used.without_virtual_memory ? 0 : used.granularity_bytes,
                       .has_virtual_memory = !used.without_virtual_memory,
                       .has_pinned_memory = true,
                       .has_host_handles = !used.without_virtual_memory},
    };
    snprintf(parts.properties.name, sizeof parts.properties.name, "simulated");
    vw_status status = vw__stand_in_init(&device->common, &parts, out);
    if (status != VW_OK)
        vw__host_free(device);
    return status;
}

/* ---- dictating ------------------------------------------------------------------------------- */

/* Makes room for one more at the end of the queue. */
static vw_status grow_dictation(simulated_device *device)
{
    size_t waiting = device->dictated_end - device->dictated_first;
    if (device->dictated_end < device->dictated_capacity)
        return VW_OK;
    if (waiting <= device->dictated_capacity / 2 && waiting < device->dictated_capacity) {
        /* At least half of the array was used up: move the rest, which costs no more than that. */
        memmove(device->dictated, device->dictated + device->dictated_first,
                waiting * sizeof *device->dictated);
        device->dictated_first = 0;
        device->dictated_end = waiting;
        return VW_OK;
    }
    size_t capacity = device->dictated_capacity != 0 ? device->dictated_capacity * 2
                                                     : (size_t)FIRST_DICTATED_CAPACITY;
    vw_device_ptr *grown = vw__host_realloc(device->dictated, capacity * sizeof *grown);
    if (grown == NULL)
        return vw__fail_host_memory(capacity * sizeof *grown, "dictated addresses");
    device->dictated = grown;
    device->dictated_capacity = capacity;
    return VW_OK;
}

vw_status vw_simulated_dictate_address(vw_device *device, vw_device_ptr address)
{
    vw__stand_in *common = NULL;
    VW__TRY(vw__stand_in_with_backing(device, &simulated_backing, "vw_simulated_dictate_address",
                                      &common));
    if (address == VW_NULL || address % ADDRESS_MULTIPLE != 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "vw_simulated_dictate_address of %#" PRIx64
                        ": a multiple of %d other than 0 is expected",
                        address, ADDRESS_MULTIPLE);
    simulated_device *simulated = (simulated_device *)common;
    vw__mutex_lock(&common->lock);
    vw_status status = grow_dictation(simulated);
    if (status == VW_OK) {
        vw__books_keep_plain_order(&common->books);
        simulated->dictated[simulated->dictated_end++] = address;
    }
    vw__mutex_unlock(&common->lock);
    return status;
}
