/* job_outlook.c - does a running job leak, and when will it die of it?
 *
 * trend/trend.c has the rule; the log is the page's. What is left is what the allocator holds idle
 * and what the card has free, or less where a limit was set.
 *
 * The guard of a run asks every second, and speaks up unasked. So growth must be firm for it, and
 * must matter: a tenth of the way to the end of the memory is gone. A leak that has not come so far
 * has nine times as long to live as it has been watched; and what grows evenly for a while and
 * stops by itself is spared where it stays below a tenth of the room. */
#include "vramwise/watch.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "trend/trend.h"

enum { TELLING_SHARE = 10 }; /* of what memory can grow by */

static bool is_known(uint64_t value)
{
    return value != VW_LIVE_UNKNOWN;
}

static uint64_t room_of(const vw_job_device *device)
{
    uint64_t live = device->values[VW_LIVE_LIVE_BYTES];
    uint64_t reserved = device->values[VW_LIVE_RESERVED_BYTES];
    uint64_t free_bytes = device->values[VW_LIVE_DEVICE_FREE_BYTES];
    uint64_t limit = device->values[VW_LIVE_LIMIT_BYTES];
    if (!is_known(live) || !is_known(reserved) || !is_known(free_bytes))
        return VW_LIVE_UNKNOWN;
    uint64_t most = reserved + free_bytes;
    if (is_known(limit) && limit < most)
        most = limit;
    return most > live ? most - live : 0;
}

static vw_status find_trend(const vw_job_device *device, vw__trend_strictness strictness,
                            vw__trend *trend)
{
    size_t count = device->step_count;
    double *columns = vw__host_alloc(2 * count * sizeof *columns);
    if (columns == NULL)
        return vw__fail_host_memory(2 * count * sizeof *columns, "the steps of a job");
    for (size_t i = 0; i < count; i++) {
        columns[i] = (double)device->steps[i].step;
        columns[count + i] = (double)device->steps[i].live_bytes;
    }
    const vw__trend_series series = {columns, columns + count, count, false};
    vw_status status = vw__trend_find(&series, strictness, trend);
    vw__host_free(columns);
    return status;
}

/* Has it used up a tenth of what it could grow by? Where that is unknown: of what was there. */
static bool does_matter(const vw_job_device *device, const vw__trend *trend)
{
    const vw_job_step *first = &device->steps[trend->first_point];
    const vw_job_step *last = &device->steps[device->step_count - 1];
    uint64_t room_bytes = room_of(device);
    if (last->step <= first->step)
        return false; /* steps that are no count */
    double grown = trend->bytes_per_step * (double)(last->step - first->step);
    double whole = is_known(room_bytes) ? grown + (double)room_bytes : (double)first->live_bytes;
    return TELLING_SHARE * grown >= whole;
}

void vw_job_outlook_renew(const vw_job_device *device, vw_job_outlook *outlook)
{
    outlook->last_step = device->step_count > 0 ? device->steps[device->step_count - 1].step : 0;
    outlook->room_bytes = room_of(device);
    outlook->full_at_step = VW_LIVE_UNKNOWN;
    if (!outlook->is_leak || !is_known(outlook->room_bytes))
        return;
    double left = (double)outlook->room_bytes / outlook->bytes_per_step;
    if (left < 1e15 && outlook->last_step < UINT64_MAX / 2)
        outlook->full_at_step = outlook->last_step + (uint64_t)left + 1;
}

static vw_status find_outlook(const vw_job_device *device, vw__trend_strictness strictness,
                              vw_job_outlook *out)
{
    if (device == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a device and a place for the outlook");
    vw__trend trend;
    VW__TRY(find_trend(device, strictness, &trend));
    bool grows = trend.kind == VW__TREND_GROWS;
    *out = (vw_job_outlook){
        .is_leak = grows && (strictness == VW__TREND_PLAIN || does_matter(device, &trend)),
        .confidence = trend.confidence,
    };
    if (out->is_leak)
        out->bytes_per_step = trend.bytes_per_step;
    vw_job_outlook_renew(device, out);
    return VW_OK;
}

vw_status vw_job_outlook_find(const vw_job_device *device, vw_job_outlook *out)
{
    return find_outlook(device, VW__TREND_PLAIN, out);
}

vw_status vw_job_outlook_find_firm(const vw_job_device *device, vw_job_outlook *out)
{
    return find_outlook(device, VW__TREND_FIRM, out);
}
