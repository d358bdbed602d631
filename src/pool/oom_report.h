/* oom_report.h - what is said when memory runs out: PyTorch's sentence, and the numbers behind it.
 */
#ifndef HR_POOL_OOM_REPORT_H
#define HR_POOL_OOM_REPORT_H

#include "headroom/headroom.h"
#include "engine/engine.h"

/* Called under the pool's lock for a request that the engine refused with `status`
 * (HR_ERR_OUT_OF_MEMORY or HR_ERR_REJECTED). Counts it, tells the sink, gathers the numbers, ends
 * the request, drops the lock, asks the device who uses it, and leaves PyTorch's text in
 * hr_last_error() and the numbers for hr_last_out_of_memory(). Returns `status`. */
hr_status hr__oom_report_and_unlock(hr_pool *pool, const hr__request *request,
                                    const hr__refusal *refusal, hr_status status);

/* Writes the sentence for one release into `buffer` (zero-terminated, cut to fit) and returns its
 * whole length. `processes` may be NULL. */
size_t hr__oom_text(char *buffer, size_t capacity, const hr__torch_rules *rules,
                    const hr_oom_report *report, const hr_process_memory *processes,
                    size_t process_count);

#endif /* HR_POOL_OOM_REPORT_H */
