/* counters.h - what a pool counts, in the form that is cheap to count.
 *
 * PyTorch keeps four numbers (current, peak, allocated, freed) three times over (all, small, large)
 * for each of nine quantities. Kept literally, one allocation would update sixty of them. Most are
 * implied by others, so we store per quantity
 *
 *   current, freed    small and large        all = small + large
 *   peak              small, large and all   the peak of a sum is no sum of peaks
 *   base              small and large        allocated = current - base + freed
 *
 * where `base` is what was current when the accumulated numbers were last reset. The result is the
 * same to the last digit; pool/pool_stats.c puts the four numbers together when somebody looks.
 *
 * The engine counts what only it sees (segments, reserved bytes, split remainders, driver calls),
 * the pool counts the rest. Guarded by the pool's lock. */
#ifndef VW_ENGINE_COUNTERS_H
#define VW_ENGINE_COUNTERS_H

#include <stdint.h>

#define VW__ENGINE_SMALL_BYTES (UINT64_C(1) << 20) /* up to this size a block counts as small */

/* Which half of a counter: blocks of up to VW__ENGINE_SMALL_BYTES, or larger ones. */
typedef enum vw__engine_size_kind {
    VW__ENGINE_SMALL = 0,
    VW__ENGINE_LARGE = 1
} vw__engine_size_kind;

typedef struct vw__counter {
    int64_t current[2];
    int64_t freed[2];
    int64_t peak[2];
    int64_t peak_all;
    int64_t base[2];
} vw__counter;

/* What resets subtracted from numbers that must only rise: the process's page shows them. */
typedef struct vw__counter_forgotten {
    uint64_t allocations;
    uint64_t retries;
    uint64_t ooms;
} vw__counter_forgotten;

typedef struct vw__counters {
    vw__counter allocation;
    vw__counter allocated_bytes;
    vw__counter active;
    vw__counter active_bytes;
    vw__counter requested_bytes;
    vw__counter inactive_split;
    vw__counter inactive_split_bytes;
    vw__counter segment;
    vw__counter reserved_bytes;
    vw__counter
        oversize_allocations; /* PyTorch has no small and large here: VW__ENGINE_LARGE is used */
    vw__counter oversize_segments;
    int64_t num_alloc_retries;
    int64_t num_ooms;
    int64_t num_sync_all_streams;
    int64_t num_device_alloc;
    int64_t num_device_free;
    int64_t num_oom_rejections;
    vw__counter_forgotten forgotten;

    /* active_bytes.peak_all has two readers, who begin anew at different times. Each has here what
     * the other's beginning took from it. */
    int64_t active_peak_for_users;
    int64_t active_peak_for_trims;
} vw__counters;

static inline void vw__counter_up(vw__counter *counter, vw__engine_size_kind kind, int64_t amount)
{
    int64_t current = counter->current[kind] + amount;
    int64_t all = current + counter->current[1 - kind];
    counter->current[kind] = current;
    if (current > counter->peak[kind])
        counter->peak[kind] = current;
    if (all > counter->peak_all)
        counter->peak_all = all;
}

static inline void vw__counter_down(vw__counter *counter, vw__engine_size_kind kind, int64_t amount)
{
    counter->current[kind] -= amount;
    counter->freed[kind] += amount;
}

/* One step up or down by a net amount, as PyTorch applies the changes of a merge. Which way it goes
 * is hard to predict, so there is no branch on it: a peak cannot rise by a step down. */
static inline void vw__counter_by(vw__counter *counter, vw__engine_size_kind kind, int64_t amount)
{
    counter->freed[kind] += amount < 0 ? -amount : 0;
    vw__counter_up(counter, kind, amount);
}

static inline int64_t vw__counters_higher(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The highest active_bytes since users last reset their peaks. */
static inline int64_t vw__counters_active_peak(const vw__counters *counters)
{
    return vw__counters_higher(counters->active_bytes.peak_all, counters->active_peak_for_users);
}

/* Before users reset active_bytes. */
static inline void vw__counters_keep_for_trims(vw__counters *counters)
{
    counters->active_peak_for_trims =
        vw__counters_higher(counters->active_bytes.peak_all, counters->active_peak_for_trims);
    counters->active_peak_for_users = 0;
}

/* The highest active_bytes since the last such call. */
static inline uint64_t vw__counters_peak_since_trim(vw__counters *counters)
{
    vw__counter *active = &counters->active_bytes;
    int64_t peak = vw__counters_higher(active->peak_all, counters->active_peak_for_trims);
    counters->active_peak_for_users = vw__counters_active_peak(counters);
    counters->active_peak_for_trims = 0;
    active->peak_all = active->current[VW__ENGINE_SMALL] + active->current[VW__ENGINE_LARGE];
    return (uint64_t)peak;
}

#endif /* VW_ENGINE_COUNTERS_H */
