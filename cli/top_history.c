/* top_history.c - see top_history.h. */
#include "top_history.h"

#include <stdlib.h>
#include <string.h>

struct top_past {
    long process;
    uint64_t started_us;
    int device;
    bool is_there; /* in the latest reading */
    bool has_outlook;
    vw_job_outlook outlook;
    size_t count; /* of the points ever added; the last TOP_HISTORY_POINTS are kept, in a ring */
    top_point points[TOP_HISTORY_POINTS];
    uint64_t read_ns[TOP_HISTORY_POINTS]; /* of the same places */
};

static bool is_past_of(const top_past *past, const vw_machine_row *row)
{
    return past->process == row->process && past->device == row->device->index &&
           past->started_us == row->job->started_us;
}

static top_past *find(const top_history *history, const vw_machine_row *row)
{
    for (size_t i = 0; i < history->count; i++)
        if (is_past_of(&history->pasts[i], row))
            return &history->pasts[i];
    return NULL;
}

static top_past *find_or_make(top_history *history, const vw_machine_row *row)
{
    top_past *past = find(history, row);
    if (past != NULL)
        return past;
    if (history->count == history->capacity) {
        size_t capacity = history->capacity > 0 ? 2 * history->capacity : 16;
        top_past *pasts = realloc(history->pasts, capacity * sizeof *pasts);
        if (pasts == NULL)
            return NULL;
        history->pasts = pasts;
        history->capacity = capacity;
    }
    past = &history->pasts[history->count++];
    past->process = row->process;
    past->started_us = row->job->started_us;
    past->device = row->device->index;
    past->has_outlook = false;
    past->count = 0;
    return past;
}

static void forget_the_gone(top_history *history)
{
    size_t kept = 0;
    for (size_t i = 0; i < history->count; i++)
        if (history->pasts[i].is_there) {
            if (kept != i)
                history->pasts[kept] = history->pasts[i];
            kept++;
        }
    history->count = kept;
}

bool top_history_add(top_history *history, const vw_machine *machine)
{
    bool has_room = true;
    for (size_t i = 0; i < history->count; i++)
        history->pasts[i].is_there = false;
    for (size_t i = 0; i < machine->row_count; i++) {
        const vw_machine_row *row = &machine->rows[i];
        if (row->device == NULL)
            continue;
        top_past *past = find_or_make(history, row);
        if (past == NULL) {
            has_room = false;
            continue;
        }
        size_t place = past->count++ % TOP_HISTORY_POINTS;
        past->is_there = true;
        past->read_ns[place] = machine->read_ns;
        past->points[place] = (top_point){
            .live_bytes = row->device->values[VW_LIVE_LIVE_BYTES],
            .reserved_bytes = row->device->values[VW_LIVE_RESERVED_BYTES],
        };
    }
    forget_the_gone(history);
    return has_room;
}

/* ---- outlooks -------------------------------------------------------------------------------- */

const vw_job_outlook *top_history_outlook(const top_history *history, const vw_machine_row *row,
                                          bool *is_fresh)
{
    enum { SHARE = 64 };
    const top_past *past = row->device != NULL ? find(history, row) : NULL;
    if (past == NULL || !past->has_outlook)
        return NULL;
    const size_t count = row->device->step_count;
    const uint64_t last_step = count > 0 ? row->device->steps[count - 1].step : 0;
    *is_fresh = last_step >= past->outlook.last_step &&
                last_step - past->outlook.last_step <= count / SHARE;
    return &past->outlook;
}

void top_history_keep_outlook(top_history *history, const vw_machine_row *row,
                              const vw_job_outlook *outlook)
{
    top_past *past = row->device != NULL ? find(history, row) : NULL;
    if (past == NULL)
        return;
    past->has_outlook = true;
    past->outlook = *outlook;
}

void top_history_free(top_history *history)
{
    free(history->pasts);
    *history = (top_history){0};
}

/* ---- fewer points ---------------------------------------------------------------------------- */

static uint64_t more_of(uint64_t one, uint64_t other)
{
    if (one == VW_LIVE_UNKNOWN || other == VW_LIVE_UNKNOWN)
        return one == VW_LIVE_UNKNOWN ? other : one;
    return one > other ? one : other;
}

static top_point step_at(const void *source, size_t index)
{
    const vw_job_device *device = source;
    return (top_point){device->steps[index].live_bytes, device->steps[index].reserved_bytes};
}

static size_t oldest_of(const top_past *past)
{
    return past->count > TOP_HISTORY_POINTS ? past->count - TOP_HISTORY_POINTS : 0;
}

static top_point sample_at(const void *source, size_t index)
{
    const top_past *past = source;
    return past->points[(oldest_of(past) + index) % TOP_HISTORY_POINTS];
}

static size_t gather(top_point (*point_at)(const void *source, size_t index), const void *source,
                     size_t source_count, top_point *points, size_t capacity)
{
    size_t count = source_count < capacity ? source_count : capacity;
    for (size_t i = 0; i < count; i++) {
        size_t end = (i + 1) * source_count / count;
        points[i] = point_at(source, i * source_count / count);
        for (size_t j = i * source_count / count + 1; j < end; j++) {
            top_point point = point_at(source, j);
            points[i].live_bytes = more_of(points[i].live_bytes, point.live_bytes);
            points[i].reserved_bytes = more_of(points[i].reserved_bytes, point.reserved_bytes);
        }
    }
    return count;
}

size_t top_history_points(const top_history *history, const vw_machine_row *row, top_point *points,
                          size_t capacity, bool *is_by_steps)
{
    *is_by_steps = row->device != NULL && row->device->step_count > 1;
    if (row->device == NULL)
        return 0;
    if (*is_by_steps)
        return gather(step_at, row->device, row->device->step_count, points, capacity);
    const top_past *past = find(history, row);
    if (past == NULL)
        return 0;
    size_t count = past->count < TOP_HISTORY_POINTS ? past->count : TOP_HISTORY_POINTS;
    return gather(sample_at, past, count, points, capacity);
}

double top_history_seconds(const top_history *history, const vw_machine_row *row)
{
    const top_past *past = row->device != NULL ? find(history, row) : NULL;
    if (past == NULL || past->count == 0)
        return 0;
    uint64_t oldest_ns = past->read_ns[oldest_of(past) % TOP_HISTORY_POINTS];
    uint64_t latest_ns = past->read_ns[(past->count - 1) % TOP_HISTORY_POINTS];
    return (double)(latest_ns - oldest_ns) / 1e9;
}
