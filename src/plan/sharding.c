/* sharding.c - groups of weights and the schemes that move them; see sharding.h. */
#include "plan/sharding.h"

#include "base/error.h"

/* ---- for schemes ----------------------------------------------------------------------------- */

uint64_t vw__part_of(const vw__sharding *sharding, uint64_t elements)
{
    return elements / sharding->parts + (elements % sharding->parts > 0);
}

vw__tensor vw__take_for(vw__plan_run *run, uint64_t elements, vw__dtype dtype, vw__use use)
{
    vw__use before = vw__tape_set_use(run->tape, use);
    vw__tensor made = vw__tensor_new(run->tape, elements, dtype);
    vw__tape_set_use(run->tape, before);
    return made;
}

void vw__bring_group(vw__plan_run *run, size_t group)
{
    vw__shard_group *of = &run->sharding->groups[group];
    for (uint32_t i = of->first_weight; i != UINT32_MAX; i = run->weights[i].next)
        vw__bring_back(run->tape, run->weights[i].full);
    of->is_here = true;
}

void vw__set_group_aside(vw__plan_run *run, size_t group)
{
    vw__shard_group *of = &run->sharding->groups[group];
    for (uint32_t i = of->first_weight; i != UINT32_MAX; i = run->weights[i].next)
        vw__set_aside(run->tape, run->weights[i].full);
    of->is_here = false;
}

void vw__drop_group_gradients(vw__plan_run *run, size_t group)
{
    const vw__shard_group *of = &run->sharding->groups[group];
    for (uint32_t i = of->first_weight; i != UINT32_MAX; i = run->weights[i].next) {
        vw__tensor gradient = vw__tape_take_gradient(run->tape, run->weights[i].full);
        vw__drop(run->tape, &gradient);
    }
}

/* ---- which scheme ---------------------------------------------------------------------------- */

static const vw__scheme *scheme_of(const vw_plan_settings *settings)
{
    bool is_training = settings->mode == VW_PLAN_MODE_TRAIN;
    switch (settings->sharding) {
    case VW_SHARDING_FSDP:
        return &vw__scheme_fsdp;
    case VW_SHARDING_ZERO_3:
        return &vw__scheme_zero_3;
    case VW_SHARDING_ZERO_2:
        return is_training ? &vw__scheme_zero_2 : NULL;
    case VW_SHARDING_ZERO_1:
        return is_training ? &vw__scheme_zero_1 : NULL;
    default: /* as FSDP's CPUOffloadPolicy() on one GPU */
        return settings->offload == VW_OFFLOAD_WEIGHTS ? &vw__scheme_fsdp : NULL;
    }
}

/* FSDP's policy takes weights, gradients and states to the host together. */
static bool is_offloaded(const vw_plan_settings *settings)
{
    return settings->offload == VW_OFFLOAD_WEIGHTS ||
           (settings->offload == VW_OFFLOAD_OPTIMIZER && settings->sharding == VW_SHARDING_FSDP);
}

vw_status vw__sharding_create(vw__plan_run *run)
{
    const vw_plan_settings *settings = run->settings;
    const vw__scheme *scheme = scheme_of(settings);
    if (scheme == NULL)
        return VW_OK;
    vw__sharding *sharding = vw__run_alloc(run, 1, sizeof *sharding);
    vw_status status = vw__tape_status(run->tape);
    if (status != VW_OK)
        return status;
    status = vw__find_groups(run->model, settings, &run->arena, sharding);
    if (status != VW_OK)
        return status;
    sharding->scheme = scheme;
    sharding->parts =
        settings->sharding == VW_SHARDING_NONE || settings->gpus == 0 ? 1 : settings->gpus;
    sharding->is_offloaded = is_offloaded(settings);
    sharding->last_gathered = sharding->reduce_input = sharding->bucket = vw__no_tensor();
    sharding->prefetched = sharding->gradient = sharding->float_gradient = vw__no_tensor();
    for (size_t i = 0; i < sharding->group_count; i++)
        sharding->groups[i] = (vw__shard_group){
            .first_weight = UINT32_MAX, .gathered = vw__no_tensor(), .gradient = vw__no_tensor()};
    run->sharding = sharding;
    return VW_OK;
}

/* ---- weights --------------------------------------------------------------------------------- */

static vw__tensor make_shard(vw__plan_run *run, uint64_t elements, vw__dtype dtype, bool is_trained)
{
    const vw__sharding *sharding = run->sharding;
    bool is_master =
        is_trained && run->settings->has_master_weights && sharding->scheme == &vw__scheme_fsdp;
    if (sharding->is_offloaded)
        return vw__no_tensor();
    return vw__take_for(run, vw__part_of(sharding, elements), is_master ? VW__FLOAT32 : dtype,
                        VW__USE_WEIGHTS);
}

void vw__sharding_make_weight(vw__plan_run *run, uint64_t elements, vw__matrix matrix,
                              vw__dtype dtype, bool is_trained, vw__weight *out)
{
    (void)matrix;
    vw__sharding *sharding = run->sharding;
    size_t number = run->weight_count;
    out->group = number < sharding->weight_count ? sharding->group_of[number] : 0;
    vw__shard_group *group = &sharding->groups[out->group];
    out->next = group->first_weight;
    group->first_weight = (uint32_t)number;
    group->elements += elements;
    group->bytes += vw__times(run->tape, elements, vw__dtype_bytes(dtype));
    sharding->elements += elements;
    if (is_trained) {
        group->trained_elements += elements;
        sharding->trained_elements += elements;
        sharding->trained_dtype = dtype;
    }
    if (sharding->scheme->keeps_weights) {
        out->full = vw__parameter(run->tape, elements, dtype, is_trained);
        return;
    }
    out->full = vw__parameter_aside(run->tape, elements, dtype, is_trained);
    out->shard = make_shard(run, elements, dtype, is_trained);
}

/* ---- at which moment ------------------------------------------------------------------------- */

static void before_backward(void *context, size_t group)
{
    vw__plan_run *run = context;
    if (run->sharding->scheme->before_backward != NULL)
        run->sharding->scheme->before_backward(run, group);
}

static void after_backward(void *context, size_t group)
{
    vw__plan_run *run = context;
    if (run->sharding->scheme->after_backward != NULL)
        run->sharding->scheme->after_backward(run, group);
    run->sharding->groups[group].is_reduced = true;
}

vw__tensor vw__sharding_enter_block(vw__plan_run *run, size_t number, vw__tensor x)
{
    if (run->sharding == NULL || number >= run->sharding->group_count)
        return vw__hold(run->tape, x);
    if (run->sharding->scheme->before_forward != NULL)
        run->sharding->scheme->before_forward(run, number);
    return vw__hook(run->tape, x, after_backward, run, number);
}

vw__tensor vw__sharding_leave_block(vw__plan_run *run, size_t number, vw__tensor x)
{
    if (run->sharding == NULL || number >= run->sharding->group_count)
        return vw__hold(run->tape, x);
    if (run->sharding->scheme->after_forward != NULL)
        run->sharding->scheme->after_forward(run, number);
    return vw__hook(run->tape, x, before_backward, run, number);
}

void vw__sharding_begin(vw__plan_run *run)
{
    if (run->sharding != NULL && run->sharding->scheme->begin != NULL)
        run->sharding->scheme->begin(run);
}

void vw__sharding_begin_forward(vw__plan_run *run)
{
    if (run->sharding != NULL && run->sharding->scheme->before_forward != NULL)
        run->sharding->scheme->before_forward(run, 0);
}

void vw__sharding_end_forward(vw__plan_run *run)
{
    if (run->sharding != NULL && run->sharding->scheme->after_forward != NULL)
        run->sharding->scheme->after_forward(run, 0);
}

void vw__sharding_begin_backward(vw__plan_run *run)
{
    if (run->sharding == NULL)
        return;
    for (size_t i = 0; i < run->sharding->group_count; i++)
        run->sharding->groups[i].is_reduced = false;
    before_backward(run, 0);
}

/* A block whose argument wants no gradient has no hook there: its turn is now, as the root's. */
void vw__sharding_end_backward(vw__plan_run *run)
{
    if (run->sharding == NULL)
        return;
    for (size_t i = run->sharding->group_count; i-- > 0;)
        if (!run->sharding->groups[i].is_reduced)
            after_backward(run, i);
    if (run->sharding->scheme->end_backward != NULL)
        run->sharding->scheme->end_backward(run);
}

void vw__sharding_drop_gradients(vw__plan_run *run)
{
    if (run->sharding != NULL && run->sharding->scheme->drop_gradients != NULL)
        run->sharding->scheme->drop_gradients(run);
}

void vw__sharding_create_optimizer(vw__plan_run *run, vw__optimizer *optimizer)
{
    if (run->sharding != NULL && run->sharding->scheme->create_optimizer != NULL)
        run->sharding->scheme->create_optimizer(run, optimizer);
}

void vw__sharding_begin_step(vw__plan_run *run)
{
    if (run->sharding != NULL && run->sharding->scheme->begin_step != NULL)
        run->sharding->scheme->begin_step(run);
}

void vw__sharding_end_step(vw__plan_run *run)
{
    if (run->sharding != NULL && run->sharding->scheme->end_step != NULL)
        run->sharding->scheme->end_step(run);
}
