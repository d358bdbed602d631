/* listing_values.c - what a pool tells of itself, and what pools of one device come to.
 *
 * Bytes add up. The largest request is that of one pool. There is a limit only where every pool has
 * one. The highest so far is the highest sum of the pools' own peaks: for one pool exact, for
 * several no less than it was. What is counted only rises, also where a pool ends, or its
 * statistics begin again (hr_pool_reset_accumulated): each listing remembers how far its counters
 * had come, and pools remember what was reset. */
#include "pool/listing.h"

#include <stdio.h>

#include "base/checked_math.h" /* hr__max_u64 */
#include "device/device_common.h"
#include "engine/driver_calls.h"
#include "pool/pinned_pool.h"
#include "pool/pool.h"

/* ---- one pool -------------------------------------------------------------------------------- */

static uint64_t natural(int64_t number)
{
    return number > 0 ? (uint64_t)number : 0;
}

static void read_pool(const hr_pool *pool, uint64_t *values)
{
    hr_pool_stats stats = {.struct_size = sizeof stats};
    hr_paged_stats paged = {.struct_size = sizeof paged};
    if (hr_pool_get_stats(pool, &stats) != HR_OK)
        return;
    hr__pool_lock(pool);
    hr__forgotten ever = hr__pool_ever(pool);
    hr__pool_unlock(pool);
    values[HR_LIVE_LIVE_BYTES] = natural(stats.allocated_bytes.all.current);
    values[HR_LIVE_RESERVED_BYTES] = natural(stats.reserved_bytes.all.current);
    values[HR_LIVE_PEAK_LIVE_BYTES] = natural(stats.allocated_bytes.all.peak);
    values[HR_LIVE_PEAK_RESERVED_BYTES] = natural(stats.reserved_bytes.all.peak);
    values[HR_LIVE_LARGEST_FREE_BYTES] = stats.largest_free_block_bytes;
    values[HR_LIVE_LIMIT_BYTES] = stats.limit_bytes; /* none: UINT64_MAX, not known */
    values[HR_LIVE_ALLOCATIONS] = ever.allocations;
    values[HR_LIVE_RETRIES] = ever.retries;
    values[HR_LIVE_OUT_OF_MEMORY] = ever.ooms;
    values[HR_LIVE_DRIVER_CALLS] =
        atomic_load_explicit(&pool->driver_meter.call_count, memory_order_relaxed);
    values[HR_LIVE_DRIVER_NS] =
        atomic_load_explicit(&pool->driver_meter.elapsed_ns, memory_order_relaxed);
    if (!pool->is_paged || hr_pool_get_paged_stats(pool, &paged) != HR_OK)
        return;
    values[HR_LIVE_COPIED_BYTES] = paged.copied_bytes;
    values[HR_LIVE_SPILLED_BYTES] = paged.spilled_bytes;
    values[HR_LIVE_SPILLS] = paged.spills;
}

static void read_pinned(const hr_pinned_pool *pool, uint64_t *values)
{
    hr_pinned_stats stats = {.struct_size = sizeof stats};
    if (hr_pinned_pool_get_stats(pool, &stats) != HR_OK)
        return;
    values[HR_LIVE_PINNED_BYTES] = natural(stats.allocated_bytes.current);
    values[HR_LIVE_DRIVER_CALLS] =
        natural(stats.host_alloc_time.count) + natural(stats.host_free_time.count);
    values[HR_LIVE_DRIVER_NS] =
        (natural(stats.host_alloc_time.total) + natural(stats.host_free_time.total)) * 1000;
}

void hr__listing_read(const hr__listing *listing, hr__listing_sample *sample)
{
    for (size_t i = 0; i < HR_LIVE_FIELD_COUNT; i++)
        sample->values[i] = HR_LIVE_KEEP;
    if (listing->pool != NULL)
        read_pool(listing->pool, sample->values);
    else
        read_pinned(listing->pinned, sample->values);
}

void hr__listing_ask_device(const hr_device *device, hr__listing_sample *sample)
{
    uint64_t free_bytes = 0, total_bytes = 0, *values = sample->values;
    uint64_t usual_bytes = device->properties.total_bytes; /* the device may be gone after it */
    bool is_told = hr__device_peek_memory(device, &free_bytes, &total_bytes) == HR_OK;
    values[HR_LIVE_DEVICE_TOTAL_BYTES] = is_told ? total_bytes : usual_bytes;
    values[HR_LIVE_DEVICE_FREE_BYTES] = is_told ? free_bytes : HR_LIVE_UNKNOWN;
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
    case HR_LIVE_DEVICE_TOTAL_BYTES:
    case HR_LIVE_DEVICE_FREE_BYTES:
        return AS_TOLD;
    case HR_LIVE_LIMIT_BYTES:
        return AS_LIMIT;
    case HR_LIVE_LARGEST_FREE_BYTES:
        return AS_LARGEST;
    case HR_LIVE_PEAK_LIVE_BYTES:
    case HR_LIVE_PEAK_RESERVED_BYTES:
        return AS_PEAK;
    default:
        return hr_live_field_kind(field) == HR_LIVE_COUNTER ? AS_COUNT : AS_SUM;
    }
}

void hr__device_sum_init(hr__device_sum *sum, const hr_device *device)
{
    *sum = (hr__device_sum){.device = device->properties.index};
    snprintf(sum->name, sizeof sum->name, "%s", device->properties.name);
    for (size_t i = 0; i < HR_LIVE_FIELD_COUNT; i++)
        sum->values[i] = HR_LIVE_KEEP;
}

void hr__device_sum_begin(hr__device_sum *sum)
{
    sum->pool_count = 0;
    for (size_t i = 0; i < HR_LIVE_FIELD_COUNT; i++) {
        how rule = how_of(i);
        sum->peaks[i] = 0;
        if (sum->values[i] == HR_LIVE_KEEP)
            continue;
        if (rule == AS_SUM || rule == AS_LARGEST)
            sum->values[i] = 0;
        if (rule == AS_LIMIT)
            sum->values[i] = HR_LIVE_UNKNOWN;
    }
}

static uint64_t limit_of(const hr__device_sum *sum, uint64_t before, uint64_t value)
{
    if (sum->pool_count == 0)
        return value;
    bool is_known = before != HR_LIVE_UNKNOWN && value != HR_LIVE_UNKNOWN;
    return is_known ? before + value : HR_LIVE_UNKNOWN;
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
    return value == HR_LIVE_KEEP ? 0 : value;
}

static void add_value(hr__device_sum *sum, hr__listing *listing, size_t field, uint64_t value)
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
        *told = hr__max_u64(before, value);
        break;
    case AS_PEAK:
        sum->peaks[field] += value;
        *told = hr__max_u64(before, sum->peaks[field]);
        break;
    case AS_COUNT:
        *told = before + advance(&listing->counted[field], value);
        break;
    }
}

void hr__device_sum_add(hr__device_sum *sum, hr__listing *listing, const hr__listing_sample *sample)
{
    for (size_t i = 0; i < HR_LIVE_FIELD_COUNT; i++)
        if (sample->values[i] != HR_LIVE_KEEP)
            add_value(sum, listing, i, sample->values[i]);
    sum->pool_count += listing->pool != NULL;
}

void hr__device_sum_keep_counts(hr__device_sum *sum, hr__listing *listing,
                                const hr__listing_sample *sample)
{
    for (size_t i = 0; i < HR_LIVE_FIELD_COUNT; i++) {
        uint64_t value = sample->values[i], before = or_none(sum->values[i]);
        if (value == HR_LIVE_KEEP)
            continue;
        how rule = how_of(i);
        if (rule == AS_COUNT)
            add_value(sum, listing, i, value);
        if (rule == AS_PEAK)
            sum->values[i] = hr__max_u64(before, value);
        if (rule == AS_SUM || rule == AS_LARGEST)
            sum->values[i] = before; /* none, where it was never looked at */
    }
}
