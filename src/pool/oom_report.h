/* oom_report.h - what is said when memory runs out: PyTorch's sentence, and the numbers behind it.
 */
#ifndef VW_POOL_OOM_REPORT_H
#define VW_POOL_OOM_REPORT_H

#include "vramwise/vramwise.h"
#include "engine/engine.h"
#include "engine/torch/torch_versions.h" /* vw__torch_rules */

/* Called under the pool's lock for a request that the engine refused with `status`
 * (VW_ERR_OUT_OF_MEMORY or VW_ERR_REJECTED). Counts it, tells the sink, gathers the numbers, ends
 * the request, drops the lock, asks the device who uses it, and leaves PyTorch's text in
 * vw_last_error() and the numbers for vw_last_out_of_memory(). Returns `status`. */
vw_status vw__oom_report_and_unlock(vw_pool *pool, const vw__engine_request *request,
                                    const vw__engine_refusal *refusal, vw_status status);

/* Writes the sentence for one release into `buffer` (zero-terminated, cut to fit) and returns its
 * whole length. `processes` may be NULL. */
size_t vw__oom_text(char *buffer, size_t capacity, const vw__torch_rules *rules,
                    const vw_oom_report *report, const vw_process_memory *processes,
                    size_t process_count);

#endif /* VW_POOL_OOM_REPORT_H */
