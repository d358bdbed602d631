/* oom_report.c - the numbers, at the moment they mattered.
 *
 * When a request fails the pool is still locked, and what it holds is what the request met: that is
 * when the numbers are read, the device's free bytes included, because they go into the event that
 * listeners see in order. Who else uses the device is asked after the lock is dropped: it goes
 * through another library (NVML), takes milliseconds, and is about other processes, whose numbers
 * move whether we hold a lock or not.
 *
 * Nothing here takes host memory: the report and its text live on the stack and in thread-local
 * storage, so that a process short of everything still hears why. */
#include "pool/oom_report.h"

#include <string.h>

#include "base/checked_math.h" /* hr__add_u64, hr__min_u64 */
#include "pool/pool.h"

/* More processes than these are counted, but neither named nor summed. */
enum { MOST_PROCESSES = 64 };

/* What hr_last_out_of_memory() tells; struct_size 0: nothing yet. */
static _Thread_local hr_oom_report last_report;

/* ---- under the lock -------------------------------------------------------------------------- */

static uint64_t current_bytes(const hr__counter *counter)
{
    return (uint64_t)(counter->current[HR__SMALL] + counter->current[HR__LARGE]);
}

static hr_oom_report gather(const hr_pool *pool, const hr__request *request,
                            const hr__refusal *refusal, hr_status status)
{
    const hr__engine *engine = pool->engine;
    const hr_device *device = pool->device;
    hr_oom_report report = {
        .struct_size = sizeof report,
        .device = device->properties.index,
        .stream = request->stream,
        .requested_bytes = request->size_bytes,
        .rounded_bytes = refusal->rounded_bytes,
        .segment_bytes = refusal->segment_bytes,
        .total_bytes = device->properties.total_bytes,
        .limit_bytes = engine->limit_bytes,
        .allocated_bytes = current_bytes(&pool->counters.allocated_bytes),
        .reserved_bytes = current_bytes(&pool->counters.reserved_bytes),
        .private_idle_bytes = engine->table->private_idle(engine),
        .largest_free_block_bytes = engine->table->largest_free(engine, NULL),
        .largest_same_stream_bytes = engine->table->largest_free(engine, &request->stream),
        .process_bytes = UINT64_MAX,
        .other_processes_bytes = UINT64_MAX,
        .is_rejection = status == HR_ERR_REJECTED,
        .is_expandable = refusal->is_expandable,
    };
    /* A device that fails to answer leaves both as they are: nothing free. */
    (void)device->table->memory_info(device->context, &report.free_bytes, &report.total_bytes);
    return report;
}

static void count_and_tell(hr_pool *pool, const hr_oom_report *report, hr_private_id private_id,
                           uint64_t tag)
{
    pool->counters.num_ooms++;
    if (!pool->has_sink)
        return;
    hr__pool_tell(pool, (hr_memory_event){
                            .action = HR_ACTION_OOM,
                            .address = report->free_bytes,
                            .size_bytes = report->rounded_bytes,
                            .stream = report->stream,
                            .private_id = private_id,
                            .tag = tag,
                        });
}

/* ---- without it ------------------------------------------------------------------------------ */

/* Fills the two sums of the report from what the device says, and returns how many entries there
 * are. In a container our own process may be listed under a number we do not know ourselves by;
 * then it cannot be told from the others, and neither sum is known. */
static size_t ask_who_uses_it(const hr_device *device, hr_oom_report *report,
                              hr_process_memory entries[MOST_PROCESSES])
{
    const hr_device_table *table = device->table;
    size_t count = 0;
    bool can_ask =
        table->struct_size >= offsetof(hr_device_table, processes) + sizeof table->processes &&
        table->processes != NULL;
    if (!can_ask || table->processes(device->context, entries, MOST_PROCESSES, &count) != HR_OK)
        return 0;
    size_t listed = (size_t)hr__min_u64(count, MOST_PROCESSES);
    bool is_found = false, is_sum_known = count == listed;
    uint64_t others_bytes = 0;
    for (size_t i = 0; i < listed; i++) {
        if (entries[i].is_this_process) {
            is_found = true;
            report->process_bytes = entries[i].used_bytes;
        } else if (entries[i].used_bytes == UINT64_MAX ||
                   !hr__add_u64(others_bytes, entries[i].used_bytes, &others_bytes)) {
            is_sum_known = false;
        }
    }
    if (is_found && is_sum_known)
        report->other_processes_bytes = others_bytes;
    return listed;
}

hr_status hr__oom_report_and_unlock(hr_pool *pool, const hr__request *request,
                                    const hr__refusal *refusal, hr_status status)
{
    const hr_device *device = pool->device;
    const hr__torch_rules *rules = pool->engine->wording; /* set at creation, then read-only */
    hr_oom_report report = gather(pool, request, refusal, status);
    if (status == HR_ERR_OUT_OF_MEMORY)
        count_and_tell(pool, &report, refusal->private_id, request->tag);
    hr__pool_end_cause(pool);
    hr__pool_unlock(pool);

    hr_process_memory processes[MOST_PROCESSES];
    size_t process_count = ask_who_uses_it(device, &report, processes);
    char text[HR__ERROR_DETAIL_BYTES];
    hr__oom_text(text, sizeof text, rules, &report, processes, process_count);
    last_report = report;
    return hr__fail(status, "%s", text);
}

hr_status hr_last_out_of_memory(hr_oom_report *report)
{
    size_t smallest = offsetof(hr_oom_report, device) + sizeof report->device;
    if (report == NULL || report->struct_size < smallest)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "expected a report with a struct_size of %zu or more, found %zu", smallest,
                        report != NULL ? report->struct_size : 0);
    if (last_report.struct_size == 0)
        return hr__fail(HR_ERR_WRONG_STATE, "no allocation of this thread has run out of memory");
    size_t struct_size = report->struct_size;
    memcpy(report, &last_report, (size_t)hr__min_u64(struct_size, sizeof last_report));
    report->struct_size = struct_size;
    return HR_OK;
}
