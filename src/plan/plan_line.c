/* plan_line.c - live bytes over one planned step. */
#include "vramwise/plan.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "plan/plan_events.h"
#include "plan/settings_check.h"

enum { STEPS = 3 }; /* as in a recording */

typedef struct line_walk {
    const vw__plan_events *events;
    uint64_t *sizes; /* by slot */
    uint64_t live_bytes;
} line_walk;

static void walk(line_walk *w, size_t op)
{
    const vw__script_op *done = &w->events->script.ops[op];
    if (done->kind == VW__SCRIPT_ALLOC) {
        w->sizes[done->slot] = done->size_bytes;
        w->live_bytes += done->size_bytes;
    } else {
        w->live_bytes -= w->sizes[done->slot];
    }
}

/* The operations of the i-th of `count` stretches begin here. Products stay small: there are some
 * millions of operations at most, and more points than that are refused. */
static size_t begin_of(const vw__plan_step *step, size_t i, size_t count)
{
    return step->begin + (size_t)((uint64_t)(step->end - step->begin) * i / count);
}

static void draw(line_walk *w, uint64_t *points, size_t count)
{
    const vw__plan_step *step = &w->events->steps[w->events->step_count - 1];
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

vw_status vw_plan_live_line(const vw_plan_model *model, const vw_plan_settings *settings,
                            uint64_t *points, size_t point_count)
{
    vw_plan_settings checked;
    vw__plan_events events;
    if (model == NULL || points == NULL || point_count == 0 || point_count > UINT32_MAX)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a model, and 1 to 2^32 - 1 points; found %zu", point_count);
    VW__TRY(vw__settings_check(model, settings, &checked));
    VW__TRY(vw__plan_events_make(model, &checked, STEPS, &events));
    line_walk w = {.events = &events,
                   .sizes = vw__host_alloc_zeroed(events.script.slot_count, sizeof *w.sizes)};
    if (w.sizes != NULL)
        draw(&w, points, point_count);
    vw__host_free(w.sizes);
    bool is_drawn = w.sizes != NULL;
    size_t table_bytes = events.script.slot_count * sizeof *w.sizes;
    vw__plan_events_deinit(&events);
    return is_drawn ? VW_OK : vw__fail_host_memory(table_bytes, "the line of a plan");
}
