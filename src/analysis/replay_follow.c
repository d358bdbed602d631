/* replay_follow.c - the addresses that PyTorch got, for a run that does what PyTorch did.
 *
 * PyTorch takes the lowest address among equally good free blocks, so where the driver put each
 * segment decides how memory fragments, now and then by whole segments. Under other settings nobody
 * knows the addresses, and the device makes them up. Under the recorded settings they are in the
 * recording: segment_alloc says which address came of which request.
 *
 * That holds as long as the run takes and gives back what was taken and given back then. After each
 * operation that did either, what is reserved is compared; from the first difference on, addresses
 * are made up, below those that were dictated, as a driver would mostly go on.
 *
 * Expandable segments are not followed. Their ties are decided within one range of addresses, in
 * which places follow from the requests alone; what is not recorded is where a range begins. */
#include "analysis/replay.h"

#include "base/error.h"
#include "base/host_memory.h"

enum { MOST_UNSPLIT_TRIALS = 16 }; /* each takes as long as a replay */

static bool has_segment_event(const hr__model_trace *trace, const hr__script_op *op,
                              uint64_t *reserved_bytes)
{
    bool is_there = false;
    for (size_t i = op->first_event; i < op->end_event; i++) {
        const hr__model_event *event = &trace->events[i];
        bool is_taken = event->action == HR_ACTION_SEGMENT_ALLOC;
        if (!is_taken && event->action != HR_ACTION_SEGMENT_FREE)
            continue;
        *reserved_bytes += is_taken ? event->size_bytes : UINT64_C(0) - event->size_bytes;
        is_there = true;
    }
    return is_there;
}

static bool can_be_followed(const hr__script *script)
{
    const hr__model_trace *trace = script->trace;
    if (script->is_truncated || script->initial_count != 0 || script->dropped_event_count != 0)
        return false;
    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].action == HR_ACTION_SEGMENT_MAP ||
            trace->events[i].action == HR_ACTION_SEGMENT_UNMAP)
            return false;
    return true;
}

hr_status hr__replay_work_add_followed(hr__replay_work *work)
{
    const hr__script *script = &work->script;
    uint64_t reserved_bytes = 0;
    size_t count = 0;
    if (!can_be_followed(script))
        return HR_OK;
    for (size_t i = 0; i < script->op_count; i++)
        count += has_segment_event(script->trace, &script->ops[i], &reserved_bytes);
    work->followed = hr__host_alloc_zeroed(count, sizeof *work->followed);
    if (work->followed == NULL)
        return hr__fail_host_memory(count * sizeof *work->followed, "the segments of a trace");
    reserved_bytes = 0;
    for (size_t i = 0; i < script->op_count; i++)
        if (has_segment_event(script->trace, &script->ops[i], &reserved_bytes))
            work->followed[work->followed_count++] = (hr__followed_op){i, reserved_bytes};
    return HR_OK;
}

/* A setting of the program's, like the pool itself: it holds in runs under other settings too. */
hr_status hr__replay_work_add_unsplit(hr__replay_work *work, hr__replay_notes *notes)
{
    const hr__script *script = &work->script;
    size_t length = 0, trial_count = 0;
    if (work->followed_count == 0 || !work->is_recorded_conf_usable || script->pool_count < 2)
        return HR_OK;
    work->is_unsplit = hr__host_alloc_zeroed(script->pool_count, sizeof *work->is_unsplit);
    if (work->is_unsplit == NULL)
        return hr__fail_host_memory(script->pool_count, "private pools");
    HR__TRY(hr__replay_follow_length(work, hr__card_without_end(), &length));
    for (uint16_t i = 1; i < script->pool_count && length < work->followed_count &&
                         trial_count < MOST_UNSPLIT_TRIALS;
         i++) {
        size_t unsplit_length = 0;
        bool is_possible = false;
        HR__TRY(hr__script_may_be_unsplit(script, i, &is_possible));
        if (!is_possible)
            continue;
        trial_count++;
        work->is_unsplit[i] = true;
        HR__TRY(hr__replay_follow_length(work, hr__card_without_end(), &unsplit_length));
        work->is_unsplit[i] = unsplit_length > length;
        if (!work->is_unsplit[i])
            continue;
        length = unsplit_length;
        hr__replay_note(notes, "A private pool was taken for one made with no_split: all of its "
                               "blocks lie at the start of a segment.");
    }
    return HR_OK;
}

hr_status hr__follow_dictate(const hr__follow *follow, hr_device *device)
{
    const hr__script *script = &follow->work->script;
    const hr__script_op *op = &script->ops[follow->work->followed[follow->next].op];
    for (size_t i = op->first_event; i < op->end_event; i++)
        if (script->trace->events[i].action == HR_ACTION_SEGMENT_ALLOC)
            HR__TRY(hr_simulated_dictate_address(device, script->trace->events[i].address));
    return HR_OK;
}

bool hr__follow_agrees(const hr__follow *follow, const hr_device *device)
{
    hr_device_calls calls;
    return hr_device_get_calls(device, &calls) == HR_OK &&
           calls.in_use_bytes == follow->work->followed[follow->next].reserved_bytes;
}
