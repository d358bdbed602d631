/* reading_limit.h - how much host memory reading one recording may take.
 *
 * A file of kilobytes can describe gigabytes. Without a limit of the caller's, what is free on the
 * machine decides: the rest of it is for the analysis, and for everybody else. */
#ifndef VW_ANALYSIS_READING_LIMIT_H
#define VW_ANALYSIS_READING_LIMIT_H

#include <stdint.h>

#include "base/host_limits.h"

/* `asked_bytes`, or vw_reading_limit_set()'s limit if that is 0, or the machine's. */
uint64_t vw__reading_limit_bytes(uint64_t asked_bytes);

/* The same, and `otherwise_bytes` in place of the machine's. */
uint64_t vw__reading_limit_or(uint64_t asked_bytes, uint64_t otherwise_bytes);

/* The limit on a machine with these. */
uint64_t vw__reading_limit_of_machine(const vw__host_limits *machine);

#endif /* VW_ANALYSIS_READING_LIMIT_H */
