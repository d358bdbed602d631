/* plan_line.c - live bytes over one planned step. */
#include "headroom/plan.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "plan/plan_events.h"
#include "plan/settings_check.h"

enum { STEPS = 3 }; /* as in a recording */

typedef struct line_walk {
    const hr__plan_events *events;
    uint64_t *sizes; /* by slot */
    uint64_t live_bytes;
} line_walk;

static void walk(line_walk *w, size_t op)
{
    const hr__script_op *done = &w->events->script.ops[op];
    if (done->kind == HR__SCRIPT_ALLOC) {
        w->sizes[done->slot] = done->size_bytes;
        w->live_bytes += done->size_bytes;
    } else {
        w->live_bytes -= w->sizes[done->slot];
    }
}

/* The operations of the i-th of `count` stretches begin here. Products stay small: there are some
 * millions of operations at most, and more points than that are refused. */
static size_t begin_of(const hr__plan_step *step, size_t i, size_t count)
{
    return step->begin + (size_t)((uint64_t)(step->end - step->begin) * i / count);
}

static void draw(line_walk *w, uint64_t *points, size_t count)
{
    const hr__plan_step *step = &w->events->steps[w->events->step_count - 1];
    size_t op = 0;
    while (op < step->begin)
        walk(w, op++);
    for (size_t i = 0; i < count; i++) {
        uint64_t most = w->live_bytes;
        for (; op < begin_of(step, i + 1, count); op++) {
            walk(w, op);
            most = w->live_bytes > most ? w->live_bytes : most;
        }
        points[i] = most;
    }
}

hr_status hr_plan_live_line(const hr_plan_model *model, const hr_plan_settings *settings,
                            uint64_t *points, size_t point_count)
{
    hr_plan_settings checked;
    hr__plan_events events;
    if (model == NULL || points == NULL || point_count == 0 || point_count > UINT32_MAX)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "expected a model, and 1 to 2^32 - 1 points; found %zu", point_count);
    HR__TRY(hr__settings_check(model, settings, &checked));
    HR__TRY(hr__plan_events_make(model, &checked, STEPS, &events));
    line_walk w = {.events = &events,
                   .sizes = hr__host_alloc_zeroed(events.script.slot_count, sizeof *w.sizes)};
    if (w.sizes != NULL)
        draw(&w, points, point_count);
    hr__host_free(w.sizes);
    bool is_drawn = w.sizes != NULL;
    size_t table_bytes = events.script.slot_count * sizeof *w.sizes;
    hr__plan_events_deinit(&events);
    return is_drawn ? HR_OK : hr__fail_host_memory(table_bytes, "the line of a plan");
}
