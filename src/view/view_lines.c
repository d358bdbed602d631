/* view_lines.c - see view_lines.h. */
#include "view/view_lines.h"

#include "analysis/script_parts.h" /* hr__is_growth, hr__is_release */
#include "base/error.h"
#include "base/host_memory.h"

/* ---- reserved bytes -------------------------------------------------------------------------- */

static hr_status make_room(hr__view_reserved *reserved, size_t count)
{
    *reserved = (hr__view_reserved){.instants = NULL};
    reserved->instants = hr__host_alloc_zeroed(count, sizeof *reserved->instants);
    reserved->bytes = hr__host_alloc_zeroed(count, sizeof *reserved->bytes);
    if (reserved->instants != NULL && reserved->bytes != NULL)
        return HR_OK;
    hr__view_reserved_deinit(reserved);
    return hr__fail_host_memory(count * sizeof *reserved->bytes, "the reserved bytes of a view");
}

static void add_point(hr__view_reserved *reserved, uint32_t instant, uint64_t bytes)
{
    if (reserved->count != 0 && reserved->bytes[reserved->count - 1] == bytes)
        return;
    reserved->instants[reserved->count] = instant;
    reserved->bytes[reserved->count++] = bytes;
}

hr_status hr__view_reserved_make(const hr__timeline *timeline, hr__view_reserved *out)
{
    const hr__model_trace *trace = timeline->trace;
    uint64_t bytes = timeline->initial_reserved_bytes; /* the timeline has checked all sums */
    size_t most = 1;
    *out = (hr__view_reserved){.instants = NULL};
    if (!timeline->is_reserved_known)
        return HR_OK;
    for (size_t i = 0; i < trace->event_count; i++)
        most += hr__is_growth(trace->events[i].action) || hr__is_release(trace->events[i].action);
    HR__TRY(make_room(out, most));
    add_point(out, 0, bytes);
    for (size_t i = 0; i < trace->event_count; i++) {
        const hr__model_event *event = &trace->events[i];
        if (hr__is_growth(event->action))
            bytes += event->size_bytes;
        else if (hr__is_release(event->action))
            bytes -= event->size_bytes;
        else
            continue;
        add_point(out, (uint32_t)i + 1, bytes);
    }
    return HR_OK;
}

hr_status hr__view_reserved_constant(uint64_t reserved_bytes, hr__view_reserved *out)
{
    HR__TRY(make_room(out, 1));
    add_point(out, 0, reserved_bytes);
    return HR_OK;
}

void hr__view_reserved_deinit(hr__view_reserved *reserved)
{
    hr__host_free(reserved->instants);
    hr__host_free(reserved->bytes);
    *reserved = (hr__view_reserved){.instants = NULL};
}

/* ---- time ------------------------------------------------------------------------------------ */

static int64_t first_time(const hr__model_trace *trace)
{
    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].time_us != HR__UNKNOWN_TIME)
            return trace->events[i].time_us;
    return HR__UNKNOWN_TIME;
}

hr_status hr__view_times_make(const hr__model_trace *trace, hr__view_times *out)
{
    uint64_t since = 0;
    *out = (hr__view_times){.first_us = first_time(trace), .every = 1};
    while (trace->event_count / out->every >= HR__VIEW_MOST_TIMES)
        out->every *= 2;
    if (out->first_us == HR__UNKNOWN_TIME)
        return HR_OK;
    size_t count = trace->event_count / out->every + 1;
    out->since = hr__host_alloc_zeroed(count, sizeof *out->since);
    if (out->since == NULL)
        return hr__fail_host_memory(count * sizeof *out->since, "the times of a view");
    for (size_t i = 0; i < trace->event_count; i++) {
        int64_t time_us = trace->events[i].time_us;
        if (time_us > out->first_us && (uint64_t)time_us - (uint64_t)out->first_us > since)
            since = (uint64_t)time_us - (uint64_t)out->first_us;
        if ((i + 1) % out->every == 0)
            out->since[(i + 1) / out->every] = since;
    }
    out->count = count;
    return HR_OK;
}

void hr__view_times_deinit(hr__view_times *times)
{
    hr__host_free(times->since);
    *times = (hr__view_times){.first_us = HR__UNKNOWN_TIME};
}

/* ---- columns --------------------------------------------------------------------------------- */

hr_status hr__view_lines_write(const hr__view_reserved *reserved, const hr__view_times *times,
                               hr__view_columns *columns)
{
    HR__TRY(hr__view_columns_add(columns, "reserved.instant",
                                 HR__VIEW_ARRAY(reserved->instants, reserved->count)));
    HR__TRY(hr__view_columns_add(columns, "reserved.bytes",
                                 HR__VIEW_ARRAY(reserved->bytes, reserved->count)));
    return hr__view_columns_add(columns, "time.us", HR__VIEW_ARRAY(times->since, times->count));
}
