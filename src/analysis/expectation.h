/* expectation.h - what PyTorch itself said at the end of a recorded run, as JSON.
 *
 *   {"stats": {"active.all.current": 3, ...},      torch.cuda.memory_stats()
 *    "summary": "|====...",                         torch.cuda.memory_summary()
 *    "oom": "CUDA out of memory. Tried ...",        the text of the first OutOfMemoryError
 *    "conf": "...",                                 PYTORCH_CUDA_ALLOC_CONF
 *    "cap_gib": 11, "total_bytes": 150109880320,    set_per_process_memory_fraction(cap / total)
 *    "no_split_pools": [[0, 1]]}                    MemPools made with no_split
 *
 * All of them may be missing; others are ignored. */
#ifndef HR_ANALYSIS_EXPECTATION_H
#define HR_ANALYSIS_EXPECTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/headroom.h" /* hr_private_id */
#include "base/arena.h"

typedef struct hr__expected_stat {
    const char *key;
    int64_t value;
} hr__expected_stat;

typedef struct hr__expectation {
    hr__arena arena; /* everything below */
    const hr__expected_stat *stats;
    size_t stat_count;
    const char *summary; /* NULL = not there; so below */
    const char *oom;
    const char *conf;
    double cap_gib;       /* negative = not there */
    uint64_t total_bytes; /* 0 = not there */
    const hr_private_id *no_split_pools;
    size_t no_split_pool_count;
} hr__expectation;

/* HR_ERR_FILE            it cannot be read
 * HR_ERR_CORRUPT_FILE    no JSON, or a field of the wrong kind, or one given twice
 * HR_ERR_UNSUPPORTED     deeper or larger than any such file
 * HR_ERR_HOST_MEMORY */
HR_MUST_CHECK hr_status hr__expectation_read(const char *path, hr__expectation *out);
void hr__expectation_deinit(hr__expectation *expectation);

#endif /* HR_ANALYSIS_EXPECTATION_H */
