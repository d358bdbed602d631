/* checked_math.h - arithmetic with overflow checks.
 *
 * Functions with `out` return whether the result fits, and store it only then. Numbers from a
 * caller or a file go through these; numbers that are already bounded may be added plainly. */
#ifndef VW_BASE_CHECKED_MATH_H
#define VW_BASE_CHECKED_MATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool vw__add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

/* The sum, or UINT64_MAX where it is larger than that. */
static inline uint64_t vw__add_capped_u64(uint64_t a, uint64_t b)
{
    return a <= UINT64_MAX - b ? a + b : UINT64_MAX;
}

/* Without its fraction; 0 for what is negative or no number, UINT64_MAX for what is larger. */
static inline uint64_t vw__narrow_double(double value)
{
    if (!(value > 0.0))
        return 0;
    return value < 0x1p64 ? (uint64_t)value : UINT64_MAX;
}

static inline bool vw__sub_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    if (b > a)
        return false;
    *out = a - b;
    return true;
}

static inline bool vw__mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

/* The next multiple of `step`, which need not be a power of two but must not be zero. */
static inline bool vw__align_up_u64(uint64_t value, uint64_t step, uint64_t *out)
{
    uint64_t remainder = value % step;
    return vw__add_u64(value, remainder != 0 ? step - remainder : 0, out);
}

static inline uint64_t vw__align_down_u64(uint64_t value, uint64_t step)
{
    return value - value % step;
}

static inline uint64_t vw__ceil_div_u64(uint64_t value, uint64_t divisor)
{
    return value / divisor + (value % divisor != 0);
}

static inline bool vw__is_power_of_two_u64(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* floor(log2(value)); value must not be zero. */
static inline unsigned vw__floor_log2_u64(uint64_t value)
{
    return 63u - (unsigned)__builtin_clzll(value);
}

/* ceil(log2(value)); value must not be zero. */
static inline unsigned vw__ceil_log2_u64(uint64_t value)
{
    return vw__floor_log2_u64(value) + !vw__is_power_of_two_u64(value);
}

static inline bool vw__narrow_size(uint64_t value, size_t *out)
{
    if (value > SIZE_MAX)
        return false;
    *out = (size_t)value;
    return true;
}

static inline uint64_t vw__min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t vw__max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif /* VW_BASE_CHECKED_MATH_H */
