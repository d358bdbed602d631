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
#ifndef VW_ANALYSIS_EXPECTATION_H
#define VW_ANALYSIS_EXPECTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/vramwise.h" /* vw_private_id */
#include "base/arena.h"

typedef struct vw__expectation_stat {
    const char *key;
    int64_t value;
} vw__expectation_stat;

typedef struct vw__expectation {
    vw__arena arena; /* everything below */
    const vw__expectation_stat *stats;
    size_t stat_count;
    const char *summary; /* NULL = not there; so below */
    const char *oom;
    const char *conf;
    double cap_gib;       /* negative = not there */
    uint64_t total_bytes; /* 0 = not there */
    const vw_private_id *no_split_pools;
    size_t no_split_pool_count;
} vw__expectation;

/* VW_ERR_FILE            it cannot be read
 * VW_ERR_CORRUPT_FILE    no JSON, or a field of the wrong kind, or one given twice
 * VW_ERR_UNSUPPORTED     deeper or larger than any such file
 * VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__expectation_read(const char *path, vw__expectation *out);
void vw__expectation_deinit(vw__expectation *expectation);

#endif /* VW_ANALYSIS_EXPECTATION_H */
