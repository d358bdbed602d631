/* live_bytes.h - how many bytes of a request count as live.
 *
 * Settings round requests differently, and a recording says only what was asked for. So that live
 * bytes are the same number whatever the setting, a request counts with the next multiple of 512,
 * the least that any of them hands out. */
#ifndef HR_ANALYSIS_LIVE_BYTES_H
#define HR_ANALYSIS_LIVE_BYTES_H

#include <stdint.h>

#include "base/checked_math.h"
#include "model/memory_model.h" /* HR__UNKNOWN_BYTES */

#define HR__LIVE_STEP_BYTES UINT64_C(512)

/* HR__UNKNOWN_BYTES if that is no number of bytes. */
static inline uint64_t hr__live_bytes_of(uint64_t requested_bytes)
{
    uint64_t rounded;
    return hr__align_up_u64(hr__max_u64(requested_bytes, 1), HR__LIVE_STEP_BYTES, &rounded)
               ? rounded
               : HR__UNKNOWN_BYTES;
}

#endif /* HR_ANALYSIS_LIVE_BYTES_H */
