/* job_figures.c - two readings in, rates and shares out.
 *
 * A page says when it was last changed, and counters are as of then: the time between two readings
 * is that between their changes, however late a reader came. A counter that went back is another
 * process's, or a reset: no rate.
 *
 * The pace is that of the later half of the log of steps, so that a slow start does not count for
 * ever. */
#include "vramwise/watch.h"

#include <math.h>
#include <string.h>

#include "base/checked_math.h" /* vw__max_u64 */
#include "base/error.h"

#define SILENT_NS (UINT64_C(5) * 1000000000)
#define STEPS_UNTIL_STALLED 3 /* no step for as long as so many take: it stands still */

static bool is_known(uint64_t value)
{
    return value != VW_LIVE_UNKNOWN;
}

static double seconds_of(uint64_t duration_ns)
{
    return (double)duration_ns / 1e9;
}

/* The same device of the same process, at the time of the other reading; NULL: it was not there. */
static const vw_job_device *device_before(const vw_machine *before, const vw_machine_row *row)
{
    const vw_job *job = before != NULL ? vw_jobs_find(before->jobs, row->process) : NULL;
    if (job == NULL || job->started_us != row->job->started_us)
        return NULL;
    for (size_t i = 0; i < job->device_count; i++)
        if (job->devices[i].index == row->device->index &&
            strcmp(job->devices[i].name, row->device->name) == 0)
            return &job->devices[i];
    return NULL;
}

/* By how much a counter went on; VW_LIVE_UNKNOWN. */
static uint64_t gain(const vw_job_device *before, const vw_job_device *now, vw_live_field field)
{
    uint64_t first = before->values[field], last = now->values[field];
    return is_known(first) && is_known(last) && last >= first ? last - first : VW_LIVE_UNKNOWN;
}

static double rate(const vw_job_device *before, const vw_job_device *now, vw_live_field field)
{
    uint64_t gained = gain(before, now, field);
    if (!is_known(gained) || now->updated_ns <= before->updated_ns)
        return (double)NAN;
    return (double)gained / seconds_of(now->updated_ns - before->updated_ns);
}

/* Steps, the time they took and the part of it that was spent waiting: between two readings, or of
 * the whole run. */
typedef struct step_times {
    uint64_t steps, step_ns, input_wait_ns;
} step_times;

static step_times times_between(const vw_job_device *before, const vw_job_device *now)
{
    return (step_times){
        gain(before, now, VW_LIVE_STEPS),
        gain(before, now, VW_LIVE_STEP_NS),
        gain(before, now, VW_LIVE_INPUT_WAIT_NS),
    };
}

static step_times times_of_run(const vw_job_device *device)
{
    return (step_times){
        device->values[VW_LIVE_STEPS],
        device->values[VW_LIVE_STEP_NS],
        device->values[VW_LIVE_INPUT_WAIT_NS],
    };
}

static bool has_steps(const step_times *times)
{
    return is_known(times->steps) && times->steps > 0;
}

/* When the last step ended. A long run logs one step of many: of one that is not in the log, what
 * all have taken since the first says when, and the first is always there. */
static uint64_t last_step_ns(const vw_job_device *device)
{
    const vw_job_step *first = device->steps, *logged = &device->steps[device->step_count - 1];
    uint64_t count = device->values[VW_LIVE_STEPS], taken_ns = device->values[VW_LIVE_STEP_NS];
    if (!is_known(count) || count <= logged->step || !is_known(taken_ns) ||
        taken_ns > UINT64_MAX - first->at_ns)
        return logged->at_ns;
    return vw__max_u64(logged->at_ns, first->at_ns + taken_ns);
}

/* The rate of a job that ended no step between the readings: as fast as ever, or 0. */
static double steady_rate(const vw_job_device *device, uint64_t now_ns, double step_seconds)
{
    if (device->step_count == 0 || !(step_seconds > 0))
        return (double)NAN;
    uint64_t last_ns = last_step_ns(device);
    double since = now_ns > last_ns ? seconds_of(now_ns - last_ns) : 0;
    return since > STEPS_UNTIL_STALLED * step_seconds ? 0 : 1 / step_seconds;
}

static void find_steps(const vw_job_device *before, const vw_job_device *device, uint64_t now_ns,
                       vw_job_figures *out)
{
    step_times times = {VW_LIVE_UNKNOWN, VW_LIVE_UNKNOWN, VW_LIVE_UNKNOWN};
    if (before != NULL)
        times = times_between(before, device);
    bool is_recent = has_steps(&times);
    if (!is_recent)
        times = times_of_run(device);
    if (!has_steps(&times))
        return;
    if (is_known(times.step_ns))
        out->step_seconds = seconds_of(times.step_ns) / (double)times.steps;
    if (is_known(times.step_ns) && times.step_ns > 0 && is_known(times.input_wait_ns))
        out->input_wait_share = (double)times.input_wait_ns / (double)times.step_ns;
    out->steps_per_second = is_recent ? rate(before, device, VW_LIVE_STEPS)
                                      : steady_rate(device, now_ns, out->step_seconds);
    out->is_input_bound = out->input_wait_share > VW_JOB_INPUT_BOUND_SHARE;
}

static void find_rates(const vw_job_device *before, const vw_job_device *device,
                       vw_job_figures *out)
{
    if (before == NULL)
        return;
    out->allocations_per_second = rate(before, device, VW_LIVE_ALLOCATIONS);
    out->retries_per_second = rate(before, device, VW_LIVE_RETRIES);
    out->driver_share = rate(before, device, VW_LIVE_DRIVER_NS) / 1e9;
}

static void find_memory(const vw_machine_row *row, vw_job_figures *out)
{
    uint64_t live = row->device->values[VW_LIVE_LIVE_BYTES];
    uint64_t reserved = row->device->values[VW_LIVE_RESERVED_BYTES];
    if (!is_known(reserved))
        return;
    if (is_known(row->process_bytes))
        out->unseen_bytes = row->process_bytes > reserved ? row->process_bytes - reserved : 0;
    if (!is_known(live))
        return;
    out->idle_bytes = reserved > live ? reserved - live : 0;
    if (reserved > 0)
        out->idle_share = (double)out->idle_bytes / (double)reserved;
}

static void find_silence(const vw_machine *now, const vw_job_device *device, vw_job_figures *out)
{
    if (device->updated_ns == 0)
        return; /* it has reported a step, and nothing else yet */
    out->silent_ns = now->read_ns > device->updated_ns ? now->read_ns - device->updated_ns : 0;
    out->is_silent = out->silent_ns > SILENT_NS;
}

vw_status vw_job_figures_find(const vw_machine *before, const vw_machine *now,
                              const vw_machine_row *row, vw_job_figures *out)
{
    return vw_job_figures_find_with(before, now, row, NULL, out);
}

vw_status vw_job_figures_find_with(const vw_machine *before, const vw_machine *now,
                                   const vw_machine_row *row, const vw_job_outlook *outlook,
                                   vw_job_figures *out)
{
    if (now == NULL || row == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a machine, a row of it, and a place");
    const double unknown = (double)NAN;
    vw_job_figures found = {
        .allocations_per_second = unknown,
        .retries_per_second = unknown,
        .driver_share = unknown,
        .steps_per_second = unknown,
        .step_seconds = unknown,
        .input_wait_share = unknown,
        .idle_bytes = VW_LIVE_UNKNOWN,
        .idle_share = unknown,
        .unseen_bytes = VW_LIVE_UNKNOWN,
        .silent_ns = VW_LIVE_UNKNOWN,
        .outlook = {.room_bytes = VW_LIVE_UNKNOWN, .full_at_step = VW_LIVE_UNKNOWN},
    };
    if (row->device != NULL) {
        const vw_job_device *earlier = device_before(before, row);
        if (outlook != NULL) {
            found.outlook = *outlook;
            vw_job_outlook_renew(row->device, &found.outlook);
        } else {
            VW__TRY(vw_job_outlook_find(row->device, &found.outlook));
        }
        find_rates(earlier, row->device, &found);
        find_steps(earlier, row->device, now->read_ns, &found);
        find_memory(row, &found);
        find_silence(now, row->device, &found);
    }
    *out = found;
    return VW_OK;
}

/* ---- the pace of steps ----------------------------------------------------------------------- */

uint64_t vw_job_step_ns(const vw_job_device *device)
{
    if (device == NULL || device->step_count < 2)
        return VW_LIVE_UNKNOWN;
    const vw_job_step *last = &device->steps[device->step_count - 1];
    const vw_job_step *middle = &device->steps[(device->step_count - 1) / 2];
    if (last->step <= middle->step || last->at_ns <= middle->at_ns)
        return VW_LIVE_UNKNOWN;
    return (last->at_ns - middle->at_ns) / (last->step - middle->step);
}

double vw_job_input_share(const vw_job_device *device)
{
    uint64_t step_ns = device != NULL ? device->values[VW_LIVE_STEP_NS] : VW_LIVE_UNKNOWN;
    uint64_t wait_ns = device != NULL ? device->values[VW_LIVE_INPUT_WAIT_NS] : VW_LIVE_UNKNOWN;
    if (step_ns == VW_LIVE_UNKNOWN || wait_ns == VW_LIVE_UNKNOWN || step_ns == 0)
        return -1;
    return wait_ns < step_ns ? (double)wait_ns / (double)step_ns : 1;
}
