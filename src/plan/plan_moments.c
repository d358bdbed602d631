/* plan_moments.c - walks through the requests of a run once more: what is live at the moments that
 * matter, and over the whole last step. */
#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "plan/plan_events.h"
#include "plan/plan_settings.h"

/* ---- kinds ----------------------------------------------------------------------------------- */

const char *vw__plan_layer_kind_name(vw__plan_layer_kind kind)
{
    static const char *const names[VW__PLAN_LAYER_COUNT] = {
        "attention", "mlp", "norm", "embedding", "convolution", "loss", "other",
    };
    return names[kind];
}

/* Scopes have the names of the Python modules, which spell "norm" in many ways. */
static vw__plan_layer_kind kind_of_scope(const char *name)
{
    if (strstr(name, "norm") != NULL || strstr(name, "Norm") != NULL ||
        strncmp(name, "ln_", 3) == 0 || strncmp(name, "bn", 2) == 0)
        return VW__PLAN_LAYER_NORM;
    if (strstr(name, "attention") != NULL)
        return VW__PLAN_LAYER_ATTENTION;
    if (strcmp(name, "mlp") == 0)
        return VW__PLAN_LAYER_MLP;
    if (strcmp(name, "embedding") == 0)
        return VW__PLAN_LAYER_EMBEDDING;
    if (strncmp(name, "conv", 4) == 0)
        return VW__PLAN_LAYER_CONVOLUTION;
    return VW__PLAN_LAYER_OTHER;
}

/* The innermost scope that has a kind decides. */
static vw__plan_layer_kind kind_of(const vw__tape *tape, const vw__plan_origin *origin)
{
    vw__plan_layer_kind kind =
        origin->use == VW__TAPE_USE_LOSS ? VW__PLAN_LAYER_LOSS : VW__PLAN_LAYER_OTHER;
    for (uint32_t place = origin->place; place != UINT32_MAX && kind == VW__PLAN_LAYER_OTHER;) {
        vw__tape_scope scope = vw__tape_place(tape, place);
        kind = kind_of_scope(scope.name);
        place = scope.parent;
    }
    return kind;
}

/* ---- walking --------------------------------------------------------------------------------- */

typedef struct walk {
    const vw__plan_events *events;
    const vw__plan_step *last; /* step */
    size_t *made_by; /* owned; by slot: the request that made what it holds, plus 1; 0: free */
    uint64_t live_bytes;
} walk;

static vw_status walk_init(walk *w, const vw__plan_events *events)
{
    size_t slots = events->script.slot_count;
    *w = (walk){.events = events,
                .last = &events->steps[events->step_count - 1],
                .made_by = vw__host_alloc_zeroed(slots, sizeof *w->made_by)};
    return w->made_by != NULL
               ? VW_OK
               : vw__fail_host_memory(slots * sizeof *w->made_by, "the moments of a plan");
}

static void step_over(walk *w, size_t number)
{
    const vw__script_op *ops = w->events->script.ops, *op = &ops[number];
    size_t *made_by = &w->made_by[op->slot];
    if (op->kind == VW__SCRIPT_ALLOC) {
        *made_by = number + 1;
        w->live_bytes += op->size_bytes;
    } else {
        w->live_bytes -= ops[*made_by - 1].size_bytes;
        *made_by = 0;
    }
}

/* ---- moments --------------------------------------------------------------------------------- */

/* The last request of the last forward pass. What its function still holds is freed after it. */
static size_t last_of_forward(const walk *w)
{
    const vw__plan_events *events = w->events;
    for (size_t i = w->last->end; i-- > w->last->begin;)
        if (events->script.ops[i].kind == VW__SCRIPT_ALLOC &&
            events->origins[i].pass == VW__PLAN_PASS_PLAIN &&
            vw__plan_is_inside(events->places, events->origins[i].place, "forward"))
            return i;
    return w->last->begin;
}

static void count_kept(const walk *w, uint64_t kept_bytes[VW__PLAN_LAYER_COUNT])
{
    for (size_t slot = 0; slot < w->events->script.slot_count; slot++) {
        if (w->made_by[slot] == 0)
            continue;
        size_t request = w->made_by[slot] - 1;
        const vw__plan_origin *origin = &w->events->origins[request];
        if (origin->use == VW__TAPE_USE_ACTIVATIONS || origin->use == VW__TAPE_USE_LOSS)
            kept_bytes[kind_of(w->events->places, origin)] +=
                w->events->script.ops[request].size_bytes;
    }
}

vw_status vw__plan_moments_find(const vw__plan_events *events, vw__plan_moments *out)
{
    walk w;
    uint64_t highest_bytes = 0;
    bool is_counted = false;
    *out = (vw__plan_moments){.peak = {.place = UINT32_MAX}};
    VW__TRY(walk_init(&w, events));
    size_t forward_end = last_of_forward(&w);
    for (size_t i = 0; i < events->script.op_count; i++) {
        step_over(&w, i);
        if (i >= w.last->begin && i < w.last->end && w.live_bytes > highest_bytes) {
            highest_bytes = w.live_bytes;
            out->peak = events->origins[i];
        }
        if (!is_counted && i >= forward_end && w.live_bytes <= events->peaks.after_forward_bytes) {
            count_kept(&w, out->kept_bytes);
            is_counted = true;
        }
    }
    vw__host_free(w.made_by);
    return VW_OK;
}

/* ---- the line -------------------------------------------------------------------------------- */

/* Draws the last step in `count` stretches of as many operations each. Products do not overflow:
 * both factors are below 2^32. */
static void draw(walk *w, uint64_t *points, size_t count)
{
    uint64_t length = w->last->end - w->last->begin;
    size_t op = 0;
    while (op < w->last->begin)
        step_over(w, op++);
    for (size_t i = 0; i < count; i++) {
        points[i] = w->live_bytes;
        for (; op < w->last->begin + length * (i + 1) / count; op++) {
            step_over(w, op);
            points[i] = vw__max_u64(points[i], w->live_bytes);
        }
    }
}

vw_status vw_plan_live_line(const vw_plan_model *model, const vw_plan_settings *settings,
                            uint64_t *points, size_t point_count)
{
    vw_plan_settings checked;
    vw__plan_events events;
    walk w;
    if (model == NULL || points == NULL || point_count == 0 || point_count > UINT32_MAX)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a model, and 1 to 2^32 - 1 points; found %zu", point_count);
    VW__TRY(vw__plan_settings_check(model, settings, &checked));
    VW__TRY(vw__plan_events_make(model, &checked, VW__PLAN_RECORDED_STEPS, &events));
    vw_status status = walk_init(&w, &events);
    if (status == VW_OK)
        draw(&w, points, point_count);
    vw__host_free(w.made_by);
    vw__plan_events_deinit(&events);
    return status;
}
