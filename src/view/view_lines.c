/* view_lines.c - see view_lines.h. */
#include "view/view_lines.h"

#include "analysis/script_events.h" /* vw__script_is_growth, vw__script_is_release */
#include "base/error.h"
#include "base/host_memory.h"

/* ---- reserved bytes -------------------------------------------------------------------------- */

static vw_status make_room(vw__view_reserved *reserved, size_t count)
{
    *reserved = (vw__view_reserved){.instants = NULL};
    reserved->instants = vw__host_alloc_zeroed(count, sizeof *reserved->instants);
    reserved->bytes = vw__host_alloc_zeroed(count, sizeof *reserved->bytes);
    if (reserved->instants != NULL && reserved->bytes != NULL)
        return VW_OK;
    vw__view_reserved_deinit(reserved);
    return vw__fail_host_memory(count * sizeof *reserved->bytes, "the reserved bytes of a view");
}

static void add_point(vw__view_reserved *reserved, uint32_t instant, uint64_t bytes)
{
    if (reserved->count != 0 && reserved->bytes[reserved->count - 1] == bytes)
        return;
    reserved->instants[reserved->count] = instant;
    reserved->bytes[reserved->count++] = bytes;
}

vw_status vw__view_reserved_make(const vw__timeline *timeline, vw__view_reserved *out)
{
    const vw__model_trace *trace = timeline->trace;
    uint64_t bytes = timeline->initial_reserved_bytes; /* the timeline has checked all sums */
    size_t most = 1;
    *out = (vw__view_reserved){.instants = NULL};
    if (!timeline->is_reserved_known)
        return VW_OK;
    for (size_t i = 0; i < trace->event_count; i++)
        most += vw__script_is_growth(trace->events[i].action) ||
                vw__script_is_release(trace->events[i].action);
    VW__TRY(make_room(out, most));
    add_point(out, 0, bytes);
    for (size_t i = 0; i < trace->event_count; i++) {
        const vw__model_event *event = &trace->events[i];
        if (vw__script_is_growth(event->action))
            bytes += event->size_bytes;
        else if (vw__script_is_release(event->action))
            bytes -= event->size_bytes;
        else
            continue;
        add_point(out, (uint32_t)i + 1, bytes);
    }
    return VW_OK;
}

vw_status vw__view_reserved_constant(uint64_t reserved_bytes, vw__view_reserved *out)
{
    VW__TRY(make_room(out, 1));
    add_point(out, 0, reserved_bytes);
    return VW_OK;
}

void vw__view_reserved_deinit(vw__view_reserved *reserved)
{
    vw__host_free(reserved->instants);
    vw__host_free(reserved->bytes);
    *reserved = (vw__view_reserved){.instants = NULL};
}

/* ---- time ------------------------------------------------------------------------------------ */

static int64_t first_time(const vw__model_trace *trace)
{
    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].time_us != VW__MODEL_UNKNOWN_TIME)
            return trace->events[i].time_us;
    return VW__MODEL_UNKNOWN_TIME;
}

vw_status vw__view_times_make(const vw__model_trace *trace, vw__view_times *out)
{
    uint64_t since = 0;
    *out = (vw__view_times){.first_us = first_time(trace), .every = 1};
    while (trace->event_count / out->every >= VW__VIEW_MOST_TIMES)
        out->every *= 2;
    if (out->first_us == VW__MODEL_UNKNOWN_TIME)
        return VW_OK;
    size_t count = trace->event_count / out->every + 1;
    out->since = vw__host_alloc_zeroed(count, sizeof *out->since);
    if (out->since == NULL)
        return vw__fail_host_memory(count * sizeof *out->since, "the times of a view");
    for (size_t i = 0; i < trace->event_count; i++) {
        int64_t time_us = trace->events[i].time_us;
        if (time_us > out->first_us && (uint64_t)time_us - (uint64_t)out->first_us > since)
            since = (uint64_t)time_us - (uint64_t)out->first_us;
        if ((i + 1) % out->every == 0)
            out->since[(i + 1) / out->every] = since;
    }
    out->count = count;
    return VW_OK;
}

void vw__view_times_deinit(vw__view_times *times)
{
    vw__host_free(times->since);
    *times = (vw__view_times){.first_us = VW__MODEL_UNKNOWN_TIME};
}

/* ---- columns --------------------------------------------------------------------------------- */

vw_status vw__view_lines_write(const vw__view_reserved *reserved, const vw__view_times *times,
                               vw__view_columns *columns)
{
    VW__TRY(vw__view_columns_add(columns, "reserved.instant",
                                 VW__VIEW_ARRAY(reserved->instants, reserved->count)));
    VW__TRY(vw__view_columns_add(columns, "reserved.bytes",
                                 VW__VIEW_ARRAY(reserved->bytes, reserved->count)));
    return vw__view_columns_add(columns, "time.us", VW__VIEW_ARRAY(times->since, times->count));
}
