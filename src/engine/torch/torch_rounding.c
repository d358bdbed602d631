/* torch_rounding.c - the roundings that are asked for in the settings, and the memory limit. */
#include "engine/torch/torch_rounding.h"

#include "base/error.h" /* vw__fail */

uint64_t vw__torch_pow2_division_ceiling(uint64_t size_bytes, uint64_t divisions)
{
    if (vw__is_power_of_two_u64(size_bytes))
        return size_bytes;
    uint64_t floor_bytes = UINT64_C(1) << vw__floor_log2_u64(size_bytes);
    uint64_t step_bytes = floor_bytes >> vw__floor_log2_u64(divisions);
    if (step_bytes == 0)
        return 2 * floor_bytes;
    uint64_t lower_bytes = size_bytes & ~(step_bytes - 1);
    return lower_bytes == size_bytes ? size_bytes : lower_bytes + step_bytes;
}

static uint64_t round_to_grid(uint64_t requested_bytes)
{
    return (requested_bytes + VW__TORCH_MIN_BLOCK_BYTES - 1) & ~(VW__TORCH_MIN_BLOCK_BYTES - 1);
}

uint64_t vw__torch_round_size_by_divisions(const vw__torch_settings *settings,
                                           uint64_t requested_bytes)
{
    if (requested_bytes < VW__TORCH_MIN_BLOCK_BYTES)
        return VW__TORCH_MIN_BLOCK_BYTES;
    if (requested_bytes > settings->roundup_bypass_bytes)
        return round_to_grid(requested_bytes);
    uint64_t divisions = settings->roundup_divisions[vw__torch_roundup_index(requested_bytes)];
    bool one_is_off = settings->roundup_kind == VW__TORCH_ROUNDUP_TABLE_ONE_IS_OFF;
    /* The product may wrap for absurd counts, as it does in PyTorch: then every size is rounded. */
    if (divisions <= (one_is_off ? 1 : 0) ||
        requested_bytes <= VW__TORCH_MIN_BLOCK_BYTES * divisions)
        return round_to_grid(requested_bytes);
    if (divisions >= 2 || vw__is_power_of_two_u64(requested_bytes))
        return vw__torch_pow2_division_ceiling(requested_bytes, divisions);
    if (settings->roundup_kind == VW__TORCH_ROUNDUP_SINGLE_COUNT)
        return requested_bytes; /* off the grid: 1.12 and 1.13 did so */
    vw__error_describe("Only 2 or more divisions are supported");
    return 0;
}

uint64_t vw__torch_limit_bytes(const vw__torch_rules *rules, double fraction, uint64_t total_bytes)
{
    if (fraction == 1.0 && rules->limit_rule != VW__TORCH_LIMIT_TRUNCATED_ALSO_FOR_ONE)
        return VW__TORCH_UNLIMITED;
    double limit = fraction * (double)total_bytes;
    uint64_t limit_bytes = (uint64_t)limit;
    /* C's round(), for what is not negative, without libm: the difference is exact. */
    if (rules->limit_rule == VW__TORCH_LIMIT_ROUNDED && limit - (double)limit_bytes >= 0.5)
        limit_bytes++;
    return limit_bytes;
}
