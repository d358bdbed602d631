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

#include "base/checked_math.h" /* vw__add_u64, vw__min_u64 */
#include "base/struct_size.h"
#include "device/device_table.h"
#include "pool/pool.h"

/* More processes than these are counted, but neither named nor summed. */
enum { MOST_PROCESSES = 64 };

/* What vw_last_out_of_memory() returns on this thread. */
static _Thread_local vw_oom_report last_report;
static _Thread_local bool has_last_report;

/* ---- under the lock -------------------------------------------------------------------------- */

static uint64_t current_bytes(const vw__counter *counter)
{
    return (uint64_t)(counter->current[VW__ENGINE_SMALL] + counter->current[VW__ENGINE_LARGE]);
}

static vw_oom_report gather(const vw_pool *pool, const vw__engine_request *request,
                            const vw__engine_refusal *refusal, vw_status status)
{
    const vw__engine *engine = pool->engine;
    const vw_device *device = pool->device;
    vw_oom_report report = {
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
        .is_rejection = status == VW_ERR_REJECTED,
        .is_expandable = refusal->is_expandable,
    };
    /* A device that fails to answer leaves both as they are: nothing free. */
    (void)device->table->memory_info(device->context, &report.free_bytes, &report.total_bytes);
    return report;
}

static void count_and_tell(vw_pool *pool, const vw_oom_report *report, vw_private_id private_id,
                           uint64_t tag)
{
    pool->counters.num_ooms++;
    if (!pool->has_sink)
        return;
    vw__pool_tell(pool, (vw_memory_event){
                            .action = VW_ACTION_OOM,
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
static size_t ask_who_uses_it(const vw_device *device, vw_oom_report *report,
                              vw_process_memory entries[MOST_PROCESSES])
{
    const vw_device_table *table = device->table;
    size_t count = 0;
    if (!VW__DEVICE_TABLE_HAS(table, processes) ||
        table->processes(device->context, entries, MOST_PROCESSES, &count) != VW_OK)
        return 0;
    size_t listed = (size_t)vw__min_u64(count, MOST_PROCESSES);
    bool is_found = false, is_sum_known = count == listed;
    uint64_t others_bytes = 0;
    for (size_t i = 0; i < listed; i++) {
        if (entries[i].is_this_process) {
            is_found = true;
            report->process_bytes = entries[i].used_bytes;
        } else if (entries[i].used_bytes == UINT64_MAX ||
                   !vw__add_u64(others_bytes, entries[i].used_bytes, &others_bytes)) {
            is_sum_known = false;
        }
    }
    if (is_found && is_sum_known)
        report->other_processes_bytes = others_bytes;
    return listed;
}

vw_status vw__oom_report_and_unlock(vw_pool *pool, const vw__engine_request *request,
                                    const vw__engine_refusal *refusal, vw_status status)
{
    const vw_device *device = pool->device;
    const vw__torch_rules *rules = &pool->wording; /* set at creation, then read-only */
    vw_oom_report report = gather(pool, request, refusal, status);
    if (status == VW_ERR_OUT_OF_MEMORY)
        count_and_tell(pool, &report, refusal->private_id, request->tag);
    vw__pool_end_cause(pool);
    vw__pool_unlock(pool);

    vw_process_memory processes[MOST_PROCESSES];
    size_t process_count = ask_who_uses_it(device, &report, processes);
    char text[VW__ERROR_DETAIL_BYTES];
    vw__oom_text(text, sizeof text, rules, &report, processes, process_count);
    last_report = report;
    has_last_report = true;
    return vw__fail(status, "%s", text);
}

vw_status vw_last_out_of_memory(vw_oom_report *report)
{
    VW__TRY(VW__STRUCT_CHECK_OUT(vw_oom_report, report));
    if (!has_last_report)
        return vw__fail(VW_ERR_WRONG_STATE, "no allocation of this thread has run out of memory");
    VW__STRUCT_OUT(vw_oom_report, &last_report, report);
    return VW_OK;
}
