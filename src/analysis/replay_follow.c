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

static bool has_segment_event(const vw__model_trace *trace, const vw__script_op *op,
                              uint64_t *reserved_bytes)
{
    bool is_there = false;
    for (size_t i = op->first_event; i < op->end_event; i++) {
        const vw__model_event *event = &trace->events[i];
        bool is_taken = event->action == VW_ACTION_SEGMENT_ALLOC;
        if (!is_taken && event->action != VW_ACTION_SEGMENT_FREE)
            continue;
        *reserved_bytes += is_taken ? event->size_bytes : UINT64_C(0) - event->size_bytes;
        is_there = true;
    }
    return is_there;
}

static bool can_be_followed(const vw__script *script)
{
    const vw__model_trace *trace = script->trace;
    if (script->is_truncated || script->initial_count != 0 || script->dropped_event_count != 0)
        return false;
    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].action == VW_ACTION_SEGMENT_MAP ||
            trace->events[i].action == VW_ACTION_SEGMENT_UNMAP)
            return false;
    return true;
}

vw_status vw__replay_work_add_followed(vw__replay_work *work)
{
    const vw__script *script = &work->script;
    uint64_t reserved_bytes = 0;
    size_t count = 0;
    if (vw__policy_is_vramwise(work->recorded_policy) || !can_be_followed(script))
        return VW_OK;
    for (size_t i = 0; i < script->op_count; i++)
        count += has_segment_event(script->trace, &script->ops[i], &reserved_bytes);
    work->followed = vw__host_alloc_zeroed(count, sizeof *work->followed);
    if (work->followed == NULL)
        return vw__fail_host_memory(count * sizeof *work->followed, "the segments of a trace");
    reserved_bytes = 0;
    for (size_t i = 0; i < script->op_count; i++)
        if (has_segment_event(script->trace, &script->ops[i], &reserved_bytes))
            work->followed[work->followed_count++] = (vw__followed_op){i, reserved_bytes};
    return VW_OK;
}

/* A setting of the program's, like the pool itself: it holds in runs under other settings too. */
vw_status vw__replay_work_add_unsplit(vw__replay_work *work, vw__replay_notes *notes)
{
    const vw__script *script = &work->script;
    size_t length = 0, trial_count = 0;
    if (work->followed_count == 0 || !work->is_recorded_conf_usable || script->pool_count < 2)
        return VW_OK;
    work->is_unsplit = vw__host_alloc_zeroed(script->pool_count, sizeof *work->is_unsplit);
    if (work->is_unsplit == NULL)
        return vw__fail_host_memory(script->pool_count, "private pools");
    VW__TRY(vw__replay_follow_length(work, vw__card_without_end(), &length, NULL));
    for (uint16_t i = 1; i < script->pool_count && length < work->followed_count &&
                         trial_count < MOST_UNSPLIT_TRIALS;
         i++) {
        size_t unsplit_length = 0;
        bool is_possible = false;
        VW__TRY(vw__script_may_be_unsplit(script, i, &is_possible));
        if (!is_possible)
            continue;
        trial_count++;
        work->is_unsplit[i] = true;
        VW__TRY(vw__replay_follow_length(work, vw__card_without_end(), &unsplit_length, NULL));
        work->is_unsplit[i] = unsplit_length > length;
        if (!work->is_unsplit[i])
            continue;
        length = unsplit_length;
        vw__replay_note(notes, "A private pool was taken for one made with no_split: all of its "
                               "blocks lie at the start of a segment.");
    }
    return VW_OK;
}

vw_status vw__follow_dictate(const vw__follow *follow, vw_device *device)
{
    const vw__script *script = &follow->work->script;
    const vw__script_op *op = &script->ops[follow->work->followed[follow->next].op];
    for (size_t i = op->first_event; i < op->end_event; i++)
        if (script->trace->events[i].action == VW_ACTION_SEGMENT_ALLOC)
            VW__TRY(vw_simulated_dictate_address(device, script->trace->events[i].address));
    return VW_OK;
}

int vw__follow_compare(const vw__follow *follow, const vw_device *device)
{
    vw_device_calls calls;
    uint64_t recorded_bytes = follow->work->followed[follow->next].reserved_bytes;
    if (vw_device_get_calls(device, &calls) != VW_OK)
        return -1;
    return (calls.in_use_bytes > recorded_bytes) - (calls.in_use_bytes < recorded_bytes);
}
