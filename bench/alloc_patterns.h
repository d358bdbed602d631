/* alloc_patterns.h - the cases that allocators are compared on, the same for all of them.
 *
 *   pair    one warm block allocated and freed again, 512 B, 64 KiB, 2 MiB, 256 MiB
 *   churn   N live blocks of log-uniform sizes from 512 B to 16 MiB; each step frees a random one
 *           and allocates anew
 *
 * C11 and C++17. Sizes and places are drawn beforehand, so that drawing them is not measured. */
#ifndef VW_BENCH_ALLOC_PATTERNS_H
#define VW_BENCH_ALLOC_PATTERNS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { PATTERN_BATCHES = 101, PATTERN_MOST_LIVE = 4096, PATTERN_DRAWS = 1 << 16 };

typedef struct alloc_pattern {
    const char *name;
    uint64_t size_bytes; /* pair: the block; 0 for churn */
    size_t live_count;   /* churn */
} alloc_pattern;

enum { PATTERN_COUNT = 6 };
static const alloc_pattern alloc_patterns[PATTERN_COUNT] = {
    {"pair", 512, 0},
    {"pair", (uint64_t)64 << 10, 0},
    {"pair", (uint64_t)2 << 20, 0},
    {"pair", (uint64_t)256 << 20, 0},
    {"churn", 0, 256},
    {"churn", 0, 4096},
};

/* What one thread draws from: the sizes it asks for and the places it puts them in. */
typedef struct pattern_draws {
    uint64_t first_sizes[PATTERN_MOST_LIVE];
    uint64_t sizes[PATTERN_DRAWS];
    uint32_t places[PATTERN_DRAWS];
} pattern_draws;

static inline uint64_t pattern_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static inline uint64_t pattern_log_uniform(uint64_t *state)
{
    double fraction = (double)(pattern_random(state) >> 11) / 9007199254740992.0; /* 2^53 */
    return (uint64_t)exp2(9.0 + 15.0 * fraction);
}

static inline void pattern_draw(pattern_draws *draws, const alloc_pattern *pattern, uint64_t seed)
{
    uint64_t state = (uint64_t)0x9E3779B97F4A7C15 * (seed + 1);
    for (size_t i = 0; i < PATTERN_MOST_LIVE; i++)
        draws->first_sizes[i] = pattern_log_uniform(&state);
    for (size_t i = 0; i < PATTERN_DRAWS; i++) {
        draws->sizes[i] = pattern_log_uniform(&state);
        draws->places[i] =
            pattern->live_count == 0 ? 0 : (uint32_t)(pattern_random(&state) % pattern->live_count);
    }
}

static inline uint64_t pattern_now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline int pattern_by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

#endif /* VW_BENCH_ALLOC_PATTERNS_H */
