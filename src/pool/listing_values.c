/* listing_values.c - the numbers that a pool publishes, and the sums over the pools of a device.
 *
 * Bytes add up. The largest request is that of one pool. There is a limit only where every pool has
 * one. The highest so far is the highest sum of the pools' own peaks: for one pool exact, for
 * several no less than it was. What is counted only rises, also where a pool ends, or its
 * statistics begin again (vw_pool_reset_accumulated): each listing remembers how far its counters
 * had come, and pools remember what was reset. */
#include "pool/listing.h"

#include <stdio.h>

#include "base/checked_math.h" /* vw__max_u64 */
#include "device/device_common.h"
#include "engine/driver_calls.h"
#include "pool/pinned_pool.h"
#include "pool/pool.h"

/* ---- one pool -------------------------------------------------------------------------------- */

static uint64_t natural(int64_t number)
{
    return number > 0 ? (uint64_t)number : 0;
}

static void read_pool(const vw_pool *pool, uint64_t *values)
{
    vw_pool_stats stats = {.struct_size = sizeof stats};
    vw_paged_stats paged = {.struct_size = sizeof paged};
    if (vw_pool_get_stats(pool, &stats) != VW_OK)
        return;
    vw__pool_lock(pool);
    vw__counter_forgotten ever = vw__pool_ever(pool);
    vw__pool_unlock(pool);
    values[VW_LIVE_LIVE_BYTES] = natural(stats.allocated_bytes.all.current);
    values[VW_LIVE_RESERVED_BYTES] = natural(stats.reserved_bytes.all.current);
    values[VW_LIVE_PEAK_LIVE_BYTES] = natural(stats.allocated_bytes.all.peak);
    values[VW_LIVE_PEAK_RESERVED_BYTES] = natural(stats.reserved_bytes.all.peak);
    values[VW_LIVE_LARGEST_FREE_BYTES] = stats.largest_free_block_bytes;
    values[VW_LIVE_LIMIT_BYTES] = stats.limit_bytes; /* none: UINT64_MAX, not known */
    values[VW_LIVE_ALLOCATIONS] = ever.allocations;
    values[VW_LIVE_RETRIES] = ever.retries;
    values[VW_LIVE_OUT_OF_MEMORY] = ever.ooms;
    values[VW_LIVE_DRIVER_CALLS] =
        atomic_load_explicit(&pool->driver_meter.call_count, memory_order_relaxed);
    values[VW_LIVE_DRIVER_NS] =
        atomic_load_explicit(&pool->driver_meter.elapsed_ns, memory_order_relaxed);
    if (!vw__pool_move_stats(pool, &paged))
        return;
    values[VW_LIVE_COPIED_BYTES] = paged.copied_bytes;
    values[VW_LIVE_SPILLED_BYTES] = paged.spilled_bytes;
    values[VW_LIVE_SPILLS] = paged.spills;
    values[VW_LIVE_PARKED_BYTES] = paged.parked_bytes;
}

static void read_pinned(const vw_pinned_pool *pool, uint64_t *values)
{
    vw_pinned_stats stats = {.struct_size = sizeof stats};
    if (vw_pinned_pool_get_stats(pool, &stats) != VW_OK)
        return;
    values[VW_LIVE_PINNED_BYTES] = natural(stats.allocated_bytes.current);
    values[VW_LIVE_DRIVER_CALLS] =
        natural(stats.host_alloc_time.count) + natural(stats.host_free_time.count);
    values[VW_LIVE_DRIVER_NS] =
        (natural(stats.host_alloc_time.total) + natural(stats.host_free_time.total)) * 1000;
}

void vw__listing_read(const vw__listing *listing, vw__listing_sample *sample)
{
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        sample->values[i] = VW_LIVE_KEEP;
    if (listing->pool != NULL)
        read_pool(listing->pool, sample->values);
    else
        read_pinned(listing->pinned, sample->values);
}

void vw__listing_ask_device(const vw_device *device, vw__listing_sample *sample)
{
    uint64_t free_bytes = 0, total_bytes = 0, *values = sample->values;
    uint64_t usual_bytes = device->properties.total_bytes; /* the device may be gone after it */
    bool is_told = vw__device_peek_memory(device, &free_bytes, &total_bytes) == VW_OK;
    values[VW_LIVE_DEVICE_TOTAL_BYTES] = is_told ? total_bytes : usual_bytes;
    values[VW_LIVE_DEVICE_FREE_BYTES] = is_told ? free_bytes : VW_LIVE_UNKNOWN;
}

/* ---- a device -------------------------------------------------------------------------------- */

typedef enum how {
    AS_TOLD,    /* the same from every pool, at any time */
    AS_SUM,     /* of all pools at one time */
    AS_LIMIT,   /* the same, and not known where one is not, or there is no pool */
    AS_LARGEST, /* of all pools at one time */
    AS_PEAK,    /* the largest sum so far */
    AS_COUNT    /* the sum of all that ever came */
} how;

static how how_of(size_t field)
{
    switch (field) {
    case VW_LIVE_DEVICE_TOTAL_BYTES:
    case VW_LIVE_DEVICE_FREE_BYTES:
        return AS_TOLD;
    case VW_LIVE_LIMIT_BYTES:
        return AS_LIMIT;
    case VW_LIVE_LARGEST_FREE_BYTES:
        return AS_LARGEST;
    case VW_LIVE_PEAK_LIVE_BYTES:
    case VW_LIVE_PEAK_RESERVED_BYTES:
        return AS_PEAK;
    default:
        return vw_live_field_kind(field) == VW_LIVE_COUNTER ? AS_COUNT : AS_SUM;
    }
}

void vw__listing_sum_init(vw__listing_sum *sum, const vw_device *device)
{
    *sum = (vw__listing_sum){.device = device->properties.index};
    snprintf(sum->name, sizeof sum->name, "%s", device->properties.name);
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        sum->values[i] = VW_LIVE_KEEP;
}

void vw__listing_sum_begin(vw__listing_sum *sum)
{
    sum->pool_count = 0;
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++) {
        how rule = how_of(i);
        sum->peaks[i] = 0;
        if (sum->values[i] == VW_LIVE_KEEP)
            continue;
        if (rule == AS_SUM || rule == AS_LARGEST)
            sum->values[i] = 0;
        if (rule == AS_LIMIT)
            sum->values[i] = VW_LIVE_UNKNOWN;
    }
}

static uint64_t limit_of(const vw__listing_sum *sum, uint64_t before, uint64_t value)
{
    if (sum->pool_count == 0)
        return value;
    bool is_known = before != VW_LIVE_UNKNOWN && value != VW_LIVE_UNKNOWN;
    return is_known ? before + value : VW_LIVE_UNKNOWN;
}

/* What has been counted since the last look; after a reset, all that is there. */
static uint64_t advance(uint64_t *counted, uint64_t now)
{
    uint64_t more = now >= *counted ? now - *counted : now;
    *counted = now;
    return more;
}

static uint64_t or_none(uint64_t value)
{
    return value == VW_LIVE_KEEP ? 0 : value;
}

static void add_value(vw__listing_sum *sum, vw__listing *listing, size_t field, uint64_t value)
{
    uint64_t *told = &sum->values[field];
    uint64_t before = or_none(*told);
    switch (how_of(field)) {
    case AS_TOLD:
        *told = value;
        break;
    case AS_SUM:
        *told = before + value;
        break;
    case AS_LIMIT:
        *told = limit_of(sum, before, value);
        break;
    case AS_LARGEST:
        *told = vw__max_u64(before, value);
        break;
    case AS_PEAK:
        sum->peaks[field] += value;
        *told = vw__max_u64(before, sum->peaks[field]);
        break;
    case AS_COUNT:
        *told = before + advance(&listing->counted[field], value);
        break;
    }
}

void vw__listing_sum_add(vw__listing_sum *sum, vw__listing *listing,
                         const vw__listing_sample *sample)
{
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        if (sample->values[i] != VW_LIVE_KEEP)
            add_value(sum, listing, i, sample->values[i]);
    sum->pool_count += listing->pool != NULL;
}

void vw__listing_sum_keep_counts(vw__listing_sum *sum, vw__listing *listing,
                                 const vw__listing_sample *sample)
{
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++) {
        uint64_t value = sample->values[i], before = or_none(sum->values[i]);
        if (value == VW_LIVE_KEEP)
            continue;
        how rule = how_of(i);
        if (rule == AS_COUNT)
            add_value(sum, listing, i, value);
        if (rule == AS_PEAK)
            sum->values[i] = vw__max_u64(before, value);
        if (rule == AS_SUM || rule == AS_LARGEST)
            sum->values[i] = before; /* none, where it was never looked at */
    }
}
