/* reading_limit.c - the caller's limit, the process's, or the machine's. */
#include "analysis/reading_limit.h"

#include <stdatomic.h>

#include "vramwise/analysis.h"
#include "base/checked_math.h" /* vw__min_u64, vw__max_u64 */

/* A share of what is free: what an analysis makes of a recording takes up to as much again, and the
 * machine has other things to do. */
enum { SHARES_OF_FREE = 4 };

#define LEAST_BYTES (UINT64_C(64) << 20)
#define MOST_BYTES (UINT64_C(16) << 30) /* over a hundred million events */

static _Atomic uint64_t set_bytes; /* 0: none */

void vw_reading_limit_set(uint64_t memory_bytes)
{
    atomic_store_explicit(&set_bytes, memory_bytes, memory_order_relaxed);
}

uint64_t vw_reading_limit(void)
{
    return vw__reading_limit_bytes(0);
}

uint64_t vw__reading_limit_of_machine(const vw__host_limits *machine)
{
    uint64_t share_bytes = vw__min_u64(machine->free_bytes, machine->group_bytes) / SHARES_OF_FREE;
    return vw__max_u64(LEAST_BYTES, vw__min_u64(MOST_BYTES, share_bytes));
}

uint64_t vw__reading_limit_or(uint64_t asked_bytes, uint64_t otherwise_bytes)
{
    uint64_t process_bytes = atomic_load_explicit(&set_bytes, memory_order_relaxed);
    if (asked_bytes != 0 || process_bytes != 0)
        return asked_bytes != 0 ? asked_bytes : process_bytes;
    return otherwise_bytes;
}

uint64_t vw__reading_limit_bytes(uint64_t asked_bytes)
{
    vw__host_limits machine;
    uint64_t known_bytes = vw__reading_limit_or(asked_bytes, 0);
    if (known_bytes != 0)
        return known_bytes;
    vw__host_limits_read("", &machine);
    return vw__reading_limit_of_machine(&machine);
}
