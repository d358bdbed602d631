/* plan_moments.c - walks through the requests of a run once more, up to the moments that matter. */
#include "plan/plan_moments.h"

#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"

/* ---- kinds ----------------------------------------------------------------------------------- */

static const char *const names[VW__LAYER_COUNT] = {
    "attention", "mlp", "norm", "embedding", "convolution", "loss", "other",
};

const char *vw__layer_kind_name(vw__layer_kind kind)
{
    return names[kind];
}

/* Scopes are named after the modules of the Python code, in which "norm" is spelled in many ways.
 */
static vw__layer_kind kind_of_scope(const char *name)
{
    if (strstr(name, "norm") != NULL || strstr(name, "Norm") != NULL ||
        strncmp(name, "ln_", 3) == 0 || strncmp(name, "bn", 2) == 0)
        return VW__LAYER_NORM;
    if (strstr(name, "attention") != NULL)
        return VW__LAYER_ATTENTION;
    if (strcmp(name, "mlp") == 0)
        return VW__LAYER_MLP;
    if (strcmp(name, "embedding") == 0)
        return VW__LAYER_EMBEDDING;
    if (strncmp(name, "conv", 4) == 0)
        return VW__LAYER_CONVOLUTION;
    return VW__LAYER_OTHER;
}

/* The innermost scope that says something decides. */
static vw__layer_kind kind_of(const vw__tape *tape, const vw__plan_origin *origin)
{
    if (origin->use == VW__USE_LOSS)
        return VW__LAYER_LOSS;
    for (uint32_t place = origin->place; place != UINT32_MAX;) {
        vw__place scope = vw__tape_place(tape, place);
        vw__layer_kind kind = kind_of_scope(scope.name);
        if (kind != VW__LAYER_OTHER)
            return kind;
        place = scope.parent;
    }
    return VW__LAYER_OTHER;
}

bool vw__plan_is_inside(const vw__tape *tape, uint32_t place, const char *name)
{
    while (place != UINT32_MAX) {
        vw__place scope = vw__tape_place(tape, place);
        if (strcmp(scope.name, name) == 0)
            return true;
        place = scope.parent;
    }
    return false;
}

/* ---- walking --------------------------------------------------------------------------------- */

typedef struct walk {
    const vw__plan_events *events;
    size_t *made_by; /* owned; by slot: the request that made what it holds */
    bool *is_live;   /* owned; by slot */
    uint64_t live_bytes;
} walk;

static void step_over(walk *w, size_t number)
{
    const vw__script_op *op = &w->events->script.ops[number];
    if (op->kind == VW__SCRIPT_ALLOC) {
        w->made_by[op->slot] = number;
        w->is_live[op->slot] = true;
        w->live_bytes += op->size_bytes;
    } else {
        w->is_live[op->slot] = false;
        w->live_bytes -= w->events->script.ops[w->made_by[op->slot]].size_bytes;
    }
}

/* The last request of the last forward pass; what its function still held goes after it. */
static size_t last_of_forward(const vw__plan_events *events)
{
    const vw__plan_step *step = &events->steps[events->step_count - 1];
    for (size_t i = step->end; i-- > step->begin;)
        if (events->script.ops[i].kind == VW__SCRIPT_ALLOC &&
            events->origins[i].pass == VW__PLAN_PASS_PLAIN &&
            vw__plan_is_inside(events->places, events->origins[i].place, "forward"))
            return i;
    return step->begin;
}

static void count_kept(const walk *w, uint64_t kept_bytes[VW__LAYER_COUNT])
{
    memset(kept_bytes, 0, VW__LAYER_COUNT * sizeof *kept_bytes);
    for (size_t slot = 0; slot < w->events->script.slot_count; slot++) {
        const vw__plan_origin *origin = &w->events->origins[w->made_by[slot]];
        bool is_kept =
            w->is_live[slot] && (origin->use == VW__USE_ACTIVATIONS || origin->use == VW__USE_LOSS);
        if (is_kept)
            kept_bytes[kind_of(w->events->places, origin)] +=
                w->events->script.ops[w->made_by[slot]].size_bytes;
    }
}

static void walk_all(walk *w, vw__plan_moments *out)
{
    const vw__plan_events *events = w->events;
    const vw__plan_step *last = &events->steps[events->step_count - 1];
    size_t forward_end = last_of_forward(events);
    uint64_t highest_bytes = 0;
    bool is_counted = false;
    for (size_t i = 0; i < events->script.op_count; i++) {
        step_over(w, i);
        if (i >= last->begin && i < last->end && w->live_bytes > highest_bytes) {
            highest_bytes = w->live_bytes;
            out->peak = events->origins[i];
        }
        if (!is_counted && i >= forward_end && w->live_bytes <= events->peaks.after_forward_bytes) {
            count_kept(w, out->kept_bytes);
            is_counted = true;
        }
    }
}

vw_status vw__plan_moments_find(const vw__plan_events *events, vw__plan_moments *out)
{
    size_t slots = events->script.slot_count;
    walk w = {.events = events,
              .made_by = vw__host_alloc_zeroed(slots, sizeof *w.made_by),
              .is_live = vw__host_alloc_zeroed(slots, sizeof *w.is_live)};
    *out = (vw__plan_moments){.peak = {.place = UINT32_MAX}};
    vw_status status = VW_OK;
    if (w.made_by == NULL || w.is_live == NULL)
        status = vw__fail_host_memory(slots * sizeof *w.made_by, "the moments of a plan");
    else
        walk_all(&w, out);
    vw__host_free(w.made_by);
    vw__host_free(w.is_live);
    return status;
}
