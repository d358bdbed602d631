/* pinned_budget.c - one limit for all page-locked host memory.
 *
 * Drawing is a compare-and-exchange loop, so that two callers cannot both get the last bytes.
 * Relaxed order is enough: the numbers guard no other memory. */
#include "base/pinned_budget.h"

#include <stdatomic.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "base/struct_size.h"

struct vw_pinned_budget {
    uint64_t limit_bytes; /* set at creation, then read-only */
    _Atomic uint64_t used_bytes;
    _Atomic uint64_t peak_bytes;
    _Atomic uint64_t refusals;
};

vw_status vw_pinned_budget_create(uint64_t limit_bytes, vw_pinned_budget **out)
{
    if (out == NULL || limit_bytes == 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "vw_pinned_budget_create: %s",
                        out == NULL ? "out is NULL" : "a limit of 0 bytes");
    vw_pinned_budget *budget = vw__host_alloc_zeroed(1, sizeof *budget);
    if (budget == NULL)
        return vw__fail_host_memory(sizeof *budget, "a budget of page-locked memory");
    budget->limit_bytes = limit_bytes;
    *out = budget;
    return VW_OK;
}

void vw_pinned_budget_destroy(vw_pinned_budget *budget)
{
    vw__host_free(budget);
}

vw_status vw_pinned_budget_get(const vw_pinned_budget *budget, vw_pinned_budget_stats *stats)
{
    if (budget == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a budget, found NULL");
    VW__TRY(VW__STRUCT_CHECK_OUT(vw_pinned_budget_stats, stats));
    const vw_pinned_budget_stats all = {
        .limit_bytes = budget->limit_bytes,
        .used_bytes = atomic_load_explicit(&budget->used_bytes, memory_order_relaxed),
        .peak_bytes = atomic_load_explicit(&budget->peak_bytes, memory_order_relaxed),
        .refusals = atomic_load_explicit(&budget->refusals, memory_order_relaxed),
    };
    VW__STRUCT_OUT(vw_pinned_budget_stats, &all, stats);
    return VW_OK;
}

static void raise_peak(vw_pinned_budget *budget, uint64_t used_bytes)
{
    uint64_t peak_bytes = atomic_load_explicit(&budget->peak_bytes, memory_order_relaxed);
    while (used_bytes > peak_bytes &&
           !atomic_compare_exchange_weak_explicit(&budget->peak_bytes, &peak_bytes, used_bytes,
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
}

bool vw__pinned_budget_draw(vw_pinned_budget *budget, uint64_t size_bytes)
{
    if (budget == NULL)
        return true;
    uint64_t used_bytes = atomic_load_explicit(&budget->used_bytes, memory_order_relaxed);
    do {
        if (size_bytes > budget->limit_bytes - used_bytes) {
            atomic_fetch_add_explicit(&budget->refusals, 1, memory_order_relaxed);
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&budget->used_bytes, &used_bytes,
                                                    used_bytes + size_bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    raise_peak(budget, used_bytes + size_bytes);
    return true;
}

uint64_t vw__pinned_budget_left(const vw_pinned_budget *budget)
{
    return budget != NULL ? budget->limit_bytes -
                                atomic_load_explicit(&budget->used_bytes, memory_order_relaxed)
                          : UINT64_MAX;
}

void vw__pinned_budget_put_back(vw_pinned_budget *budget, uint64_t size_bytes)
{
    if (budget != NULL)
        atomic_fetch_sub_explicit(&budget->used_bytes, size_bytes, memory_order_relaxed);
}
