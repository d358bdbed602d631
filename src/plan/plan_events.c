/* plan_events.c - listens to a tape and lists what it reports. */
#include "plan/plan_events.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"

/* A recording of so many takes some gigabytes: a plan with thousands of accumulated batches. */
enum { MOST_OPS = 20000000 };

typedef struct listening {
    vw__plan_events *events;
    size_t capacity;
    vw__plan_pass pass;
    uint64_t live_bytes;
    uint64_t *sizes; /* owned; by slot */
    size_t size_capacity;
    vw_status status; /* of the first failure */
} listening;

/* ---- room ------------------------------------------------------------------------------------ */

static vw_status grow(void **items, size_t item_bytes, size_t wanted)
{
    void *grown = vw__host_realloc(*items, wanted * item_bytes);
    if (grown == NULL)
        return vw__fail_host_memory(wanted * item_bytes, "the requests of a plan");
    *items = grown;
    return VW_OK;
}

static vw_status reserve_op(listening *l)
{
    vw__plan_events *events = l->events;
    if (events->script.op_count < l->capacity)
        return VW_OK;
    if (l->capacity >= MOST_OPS)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "the planned steps make more than %d requests and frees: fewer "
                        "accumulated batches are expected of a recording",
                        MOST_OPS);
    size_t wanted = l->capacity == 0 ? 4096 : 2 * l->capacity;
    VW__TRY(grow((void **)&events->script.ops, sizeof *events->script.ops, wanted));
    VW__TRY(grow((void **)&events->origins, sizeof *events->origins, wanted));
    l->capacity = wanted;
    return VW_OK;
}

static vw_status reserve_slot(listening *l, uint32_t slot)
{
    if (slot < l->size_capacity)
        return VW_OK;
    size_t wanted = l->size_capacity == 0 ? 1024 : 2 * l->size_capacity;
    while (wanted <= slot)
        wanted *= 2;
    VW__TRY(grow((void **)&l->sizes, sizeof *l->sizes, wanted));
    l->size_capacity = wanted;
    return VW_OK;
}

/* ---- listening ------------------------------------------------------------------------------- */

static vw_status add_op(listening *l, vw__script_kind kind, uint32_t slot, uint64_t size_bytes,
                        vw__plan_origin origin)
{
    vw__script *script = &l->events->script;
    VW__TRY(reserve_op(l));
    l->events->origins[script->op_count] = origin;
    script->ops[script->op_count++] =
        (vw__script_op){.size_bytes = size_bytes, .slot = slot, .kind = (uint8_t)kind};
    return VW_OK;
}

static vw_status add_alloc(listening *l, uint32_t slot, uint64_t size_bytes, uint32_t place,
                           vw__tape_use use)
{
    vw__script *script = &l->events->script;
    const vw__plan_origin origin = {place, (uint8_t)use, (uint8_t)l->pass};
    VW__TRY(reserve_slot(l, slot));
    VW__TRY(add_op(l, VW__SCRIPT_ALLOC, slot, size_bytes, origin));
    l->sizes[slot] = size_bytes;
    if (slot >= script->slot_count)
        script->slot_count = (size_t)slot + 1;
    l->live_bytes += size_bytes;
    if (l->live_bytes > script->peak_live_bytes)
        script->peak_live_bytes = l->live_bytes;
    return VW_OK;
}

static void hear_alloc(void *context, uint32_t storage, uint64_t size_bytes, uint32_t place,
                       vw__tape_use use)
{
    listening *l = context;
    if (l->status == VW_OK)
        l->status = add_alloc(l, storage, size_bytes, place, use);
}

static void hear_free(void *context, uint32_t storage)
{
    listening *l = context;
    if (l->status != VW_OK)
        return;
    l->live_bytes -= l->sizes[storage];
    l->status = add_op(l, VW__SCRIPT_FREE, storage, 0, (vw__plan_origin){.place = UINT32_MAX});
}

static void hear_mark(void *context, vw__tape_mark mark)
{
    listening *l = context;
    vw__plan_events *events = l->events;
    switch (mark) {
    case VW__TAPE_MARK_STEP:
        events->steps[events->step_count].begin = events->script.op_count;
        break;
    case VW__TAPE_MARK_STEP_END:
        events->steps[events->step_count++].end = events->script.op_count;
        break;
    case VW__TAPE_MARK_BACKWARD:
    case VW__TAPE_MARK_AGAIN_END:
        l->pass = VW__PLAN_PASS_BACKWARD;
        break;
    case VW__TAPE_MARK_AGAIN:
        l->pass = VW__PLAN_PASS_AGAIN;
        break;
    case VW__TAPE_MARK_BACKWARD_END:
        l->pass = VW__PLAN_PASS_PLAIN;
        break;
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

void vw__plan_events_init(vw__plan_events *events)
{
    *events = (vw__plan_events){.step_count = 0};
    events->model.streams = &events->default_stream;
    events->model.stream_count = 1;
    events->script.model = &events->model;
    events->script.trace = &events->trace;
    events->script.pools = &events->default_pool;
    events->script.pool_count = 1;
}

vw_status vw__plan_events_make(const vw_plan_model *model, const vw_plan_settings *settings,
                               unsigned steps, vw__plan_events *out)
{
    listening l = {.events = out};
    const vw__tape_listener listener = {&l, hear_alloc, hear_free, hear_mark};
    VW_ASSERT(steps <= VW__PLAN_MOST_STEPS);
    vw__plan_events_init(out);
    vw_status status =
        steps == 0
            ? vw__plan_simulate(model, settings, &listener, &out->peaks, &out->places)
            : vw__plan_simulate_steps(model, settings, steps, &listener, &out->peaks, &out->places);
    vw__host_free(l.sizes);
    if (status == VW_OK)
        status = l.status;
    if (status != VW_OK)
        vw__plan_events_deinit(out);
    return status;
}

void vw__plan_events_deinit(vw__plan_events *events)
{
    vw__host_free(events->script.ops);
    vw__host_free(events->origins);
    vw__tape_destroy(events->places);
    memset(events, 0, sizeof *events);
}

void vw__plan_append_place(vw__byte_buffer *out, const vw__tape *tape, uint32_t place)
{
    if (place == UINT32_MAX)
        return;
    const vw__tape_scope scope = vw__tape_place(tape, place);
    if (scope.parent == UINT32_MAX)
        return;
    vw__plan_append_place(out, tape, scope.parent);
    vw__append_format(out, "%s%s", vw__byte_buffer_size(out) > 0 ? " / " : "", scope.name);
    if (scope.number >= 0)
        vw__append_format(out, " %" PRId64, scope.number);
}
