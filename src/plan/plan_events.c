/* plan_events.c - listens to a tape and writes down what it tells. */
#include "plan/plan_events.h"

#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"

/* A recording of so many takes some gigabytes: a plan with thousands of accumulated batches. */
enum { MOST_OPS = 20000000 };

typedef struct listening {
    hr__plan_events *events;
    size_t capacity;
    hr__plan_pass pass;
    uint64_t live_bytes;
    uint64_t *sizes; /* owned; by slot */
    size_t size_capacity;
    hr_status status; /* of the first failure */
} listening;

/* ---- room ------------------------------------------------------------------------------------ */

static hr_status grow(void **items, size_t item_bytes, size_t wanted)
{
    void *grown = hr__host_realloc(*items, wanted * item_bytes);
    if (grown == NULL)
        return hr__fail_host_memory(wanted * item_bytes, "the requests of a plan");
    *items = grown;
    return HR_OK;
}

static hr_status reserve_op(listening *l)
{
    hr__plan_events *events = l->events;
    if (events->script.op_count < l->capacity)
        return HR_OK;
    if (l->capacity >= MOST_OPS)
        return hr__fail(HR_ERR_UNSUPPORTED,
                        "the planned steps make more than %d requests and frees: fewer "
                        "accumulated batches are expected of a recording",
                        MOST_OPS);
    size_t wanted = l->capacity == 0 ? 4096 : 2 * l->capacity;
    HR__TRY(grow((void **)&events->script.ops, sizeof *events->script.ops, wanted));
    HR__TRY(grow((void **)&events->origins, sizeof *events->origins, wanted));
    l->capacity = wanted;
    return HR_OK;
}

static hr_status reserve_slot(listening *l, uint32_t slot)
{
    if (slot < l->size_capacity)
        return HR_OK;
    size_t wanted = l->size_capacity == 0 ? 1024 : 2 * l->size_capacity;
    while (wanted <= slot)
        wanted *= 2;
    HR__TRY(grow((void **)&l->sizes, sizeof *l->sizes, wanted));
    l->size_capacity = wanted;
    return HR_OK;
}

/* ---- listening ------------------------------------------------------------------------------- */

static hr_status add_op(listening *l, hr__script_kind kind, uint32_t slot, uint64_t size_bytes,
                        hr__plan_origin origin)
{
    hr__script *script = &l->events->script;
    HR__TRY(reserve_op(l));
    l->events->origins[script->op_count] = origin;
    script->ops[script->op_count++] =
        (hr__script_op){.size_bytes = size_bytes, .slot = slot, .kind = (uint8_t)kind};
    return HR_OK;
}

static hr_status add_alloc(listening *l, uint32_t slot, uint64_t size_bytes, uint32_t place,
                           hr__use use)
{
    hr__script *script = &l->events->script;
    const hr__plan_origin origin = {place, (uint8_t)use, (uint8_t)l->pass};
    HR__TRY(reserve_slot(l, slot));
    HR__TRY(add_op(l, HR__SCRIPT_ALLOC, slot, size_bytes, origin));
    l->sizes[slot] = size_bytes;
    if (slot >= script->slot_count)
        script->slot_count = (size_t)slot + 1;
    l->live_bytes += size_bytes;
    if (l->live_bytes > script->peak_live_bytes)
        script->peak_live_bytes = l->live_bytes;
    return HR_OK;
}

static void hear_alloc(void *context, uint32_t storage, uint64_t size_bytes, uint32_t place,
                       hr__use use)
{
    listening *l = context;
    if (l->status == HR_OK)
        l->status = add_alloc(l, storage, size_bytes, place, use);
}

static void hear_free(void *context, uint32_t storage)
{
    listening *l = context;
    if (l->status != HR_OK)
        return;
    l->live_bytes -= l->sizes[storage];
    l->status = add_op(l, HR__SCRIPT_FREE, storage, 0, (hr__plan_origin){.place = UINT32_MAX});
}

static void hear_mark(void *context, hr__tape_mark mark)
{
    listening *l = context;
    hr__plan_events *events = l->events;
    switch (mark) {
    case HR__MARK_STEP:
        events->steps[events->step_count].begin = events->script.op_count;
        break;
    case HR__MARK_STEP_END:
        events->steps[events->step_count++].end = events->script.op_count;
        break;
    case HR__MARK_BACKWARD:
    case HR__MARK_AGAIN_END:
        l->pass = HR__PLAN_PASS_BACKWARD;
        break;
    case HR__MARK_AGAIN:
        l->pass = HR__PLAN_PASS_AGAIN;
        break;
    case HR__MARK_BACKWARD_END:
        l->pass = HR__PLAN_PASS_PLAIN;
        break;
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

void hr__plan_events_init(hr__plan_events *events)
{
    *events = (hr__plan_events){.step_count = 0};
    events->model.streams = &events->default_stream;
    events->model.stream_count = 1;
    events->script.model = &events->model;
    events->script.trace = &events->trace;
    events->script.pools = &events->default_pool;
    events->script.pool_count = 1;
}

hr_status hr__plan_events_make(const hr_plan_model *model, const hr_plan_settings *settings,
                               unsigned steps, hr__plan_events *out)
{
    listening l = {.events = out};
    const hr__tape_listener listener = {&l, hear_alloc, hear_free, hear_mark};
    HR_ASSERT(steps >= 1 && steps <= HR__PLAN_MOST_STEPS);
    hr__plan_events_init(out);
    hr_status status =
        hr__plan_simulate_steps(model, settings, steps, &listener, &out->peaks, &out->places);
    hr__host_free(l.sizes);
    if (status == HR_OK)
        status = l.status;
    if (status != HR_OK)
        hr__plan_events_deinit(out);
    return status;
}

void hr__plan_events_deinit(hr__plan_events *events)
{
    hr__host_free(events->script.ops);
    hr__host_free(events->origins);
    hr__tape_destroy(events->places);
    memset(events, 0, sizeof *events);
}
