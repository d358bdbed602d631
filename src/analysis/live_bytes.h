/* live_bytes.h - how many bytes of a request count as live.
 *
 * Settings round requests differently, and a recording says only what was asked for. So that live
 * bytes are the same number whatever the setting, a request counts with the next multiple of 512,
 * the least that any of them hands out. */
#ifndef VW_ANALYSIS_LIVE_BYTES_H
#define VW_ANALYSIS_LIVE_BYTES_H

#include <stdint.h>

#include "base/checked_math.h"
#include "model/memory_model.h" /* VW__MODEL_UNKNOWN_BYTES */

#define VW__LIFETIME_STEP_BYTES UINT64_C(512)

/* VW__MODEL_UNKNOWN_BYTES if the request is too large to round up. */
static inline uint64_t vw__lifetime_bytes_of(uint64_t requested_bytes)
{
    uint64_t rounded;
    return vw__align_up_u64(vw__max_u64(requested_bytes, 1), VW__LIFETIME_STEP_BYTES, &rounded)
               ? rounded
               : VW__MODEL_UNKNOWN_BYTES;
}

#endif /* VW_ANALYSIS_LIVE_BYTES_H */
