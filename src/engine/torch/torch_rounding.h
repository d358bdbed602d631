/* torch_rounding.h - from the bytes a caller asks for to the bytes PyTorch takes.
 *
 * A request becomes a block size (multiples of 512 bytes, or steps between powers of two where
 * roundup_power2_divisions says so), and a block size becomes the size of the segment taken from
 * the device when no free block fits. Both happen on every allocation, so the usual case is inline
 * and the configured one is a call away. */
#ifndef VW_ENGINE_TORCH_TORCH_ROUNDING_H
#define VW_ENGINE_TORCH_TORCH_ROUNDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/checked_math.h" /* vw__floor_log2_u64 */
#include "engine/torch/torch_settings.h"

#define VW__TORCH_MIN_BLOCK_BYTES UINT64_C(512)          /* the least block, and the grid */
#define VW__TORCH_SMALL_BYTES (UINT64_C(1) << 20)        /* up to this a block is small */
#define VW__TORCH_SMALL_BUFFER_BYTES (UINT64_C(2) << 20) /* the segment small blocks share */
#define VW__TORCH_MIN_LARGE_BYTES (UINT64_C(10) << 20)   /* from here on a segment of its own, */
#define VW__TORCH_ROUND_LARGE_BYTES (UINT64_C(2) << 20)  /* rounded up to this */

/* From this size on a request is refused before anything else happens ("... more than 1EB"). */
#define VW__TORCH_MOST_REQUESTED_BYTES (UINT64_C(1) << 60)

/* The entry of the roundup table for a size, which must not be zero. */
static inline unsigned vw__torch_roundup_index(uint64_t size_bytes)
{
    unsigned log2 = vw__floor_log2_u64(size_bytes);
    unsigned index = log2 > 20 ? log2 - 20 : 0;
    return index < VW__TORCH_ROUNDUP_ENTRIES - 1 ? index : VW__TORCH_ROUNDUP_ENTRIES - 1;
}

/* The next size up that is a power of two or one of the sizes which part the way to the next power
 * of two in `divisions` equal steps; 2 or more, a power of two. Not below 1 byte. */
uint64_t vw__torch_pow2_division_ceiling(uint64_t size_bytes, uint64_t divisions);

/* vw__torch_round_size() for settings with has_roundup. */
uint64_t vw__torch_round_size_by_divisions(const vw__torch_settings *settings,
                                           uint64_t requested_bytes);

/* The block size for a request below VW__TORCH_MOST_REQUESTED_BYTES.
 *
 * 0 means that PyTorch refuses the request, and the caller fails with VW_ERR_BAD_SETTING;
 * vw_last_error() holds PyTorch's text already. It happens only with the rules of 2.0 to 2.3, for
 * a size that is no power of two and meets a configured division count of 1. */
static inline uint64_t vw__torch_round_size(const vw__torch_settings *settings,
                                            uint64_t requested_bytes)
{
    if (__builtin_expect(settings->has_roundup, 0))
        return vw__torch_round_size_by_divisions(settings, requested_bytes);
    uint64_t bytes = requested_bytes > 1 ? requested_bytes : 1;
    return (bytes + VW__TORCH_MIN_BLOCK_BYTES - 1) & ~(VW__TORCH_MIN_BLOCK_BYTES - 1);
}

/* True if a block of this (rounded) size is served from the small pool. */
static inline bool vw__torch_is_small(uint64_t rounded_bytes)
{
    return rounded_bytes <= VW__TORCH_SMALL_BYTES;
}

/* The size of the segment taken from the device for a block of `rounded_bytes`. */
static inline uint64_t vw__torch_segment_size(const vw__torch_settings *settings,
                                              uint64_t rounded_bytes)
{
    if (vw__torch_is_small(rounded_bytes))
        return VW__TORCH_SMALL_BUFFER_BYTES;
    if (rounded_bytes < VW__TORCH_MIN_LARGE_BYTES)
        return settings->large_segment_size_bytes;
    return (rounded_bytes + VW__TORCH_ROUND_LARGE_BYTES - 1) & ~(VW__TORCH_ROUND_LARGE_BYTES - 1);
}

/* True if the part of a free block beyond the `rounded_bytes` of a request is cut off and stays
 * free. A pool that was made with no_split never does. */
static inline bool vw__torch_splits_off(bool is_small, bool is_expandable, uint64_t rounded_bytes,
                                        uint64_t max_split_bytes, uint64_t rest_bytes)
{
    if (is_small || is_expandable)
        return rest_bytes >= VW__TORCH_MIN_BLOCK_BYTES;
    return rounded_bytes < max_split_bytes && rest_bytes > VW__TORCH_SMALL_BYTES;
}

/* The limit that a memory fraction (0 to 1) puts on a device of `total_bytes`, in the same double
 * operations as PyTorch's. VW__TORCH_UNLIMITED where the fraction puts none. */
uint64_t vw__torch_limit_bytes(const vw__torch_rules *rules, double fraction, uint64_t total_bytes);

#endif /* VW_ENGINE_TORCH_TORCH_ROUNDING_H */
