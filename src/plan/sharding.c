/* sharding.c - groups of weights and the schemes that move them; see sharding.h. */
#include "plan/sharding.h"

#include "base/error.h"

/* ---- for schemes ----------------------------------------------------------------------------- */

uint64_t hr__part_of(const hr__sharding *sharding, uint64_t elements)
{
    return elements / sharding->parts + (elements % sharding->parts > 0);
}

hr__tensor hr__take_for(hr__plan_run *run, uint64_t elements, hr__dtype dtype, hr__use use)
{
    hr__use before = hr__tape_set_use(run->tape, use);
    hr__tensor made = hr__tensor_new(run->tape, elements, dtype);
    hr__tape_set_use(run->tape, before);
    return made;
}

void hr__bring_group(hr__plan_run *run, size_t group)
{
    hr__shard_group *of = &run->sharding->groups[group];
    for (uint32_t i = of->first_weight; i != UINT32_MAX; i = run->weights[i].next)
        hr__bring_back(run->tape, run->weights[i].full);
    of->is_here = true;
}

void hr__set_group_aside(hr__plan_run *run, size_t group)
{
    hr__shard_group *of = &run->sharding->groups[group];
    for (uint32_t i = of->first_weight; i != UINT32_MAX; i = run->weights[i].next)
        hr__set_aside(run->tape, run->weights[i].full);
    of->is_here = false;
}

void hr__drop_group_gradients(hr__plan_run *run, size_t group)
{
    const hr__shard_group *of = &run->sharding->groups[group];
    for (uint32_t i = of->first_weight; i != UINT32_MAX; i = run->weights[i].next) {
        hr__tensor gradient = hr__tape_take_gradient(run->tape, run->weights[i].full);
        hr__drop(run->tape, &gradient);
    }
}

/* ---- which scheme ---------------------------------------------------------------------------- */

static const hr__scheme *scheme_of(const hr_plan_settings *settings)
{
    bool is_training = settings->mode == HR_PLAN_MODE_TRAIN;
    switch (settings->sharding) {
    case HR_SHARDING_FSDP:
        return &hr__scheme_fsdp;
    case HR_SHARDING_ZERO_3:
        return &hr__scheme_zero_3;
    case HR_SHARDING_ZERO_2:
        return is_training ? &hr__scheme_zero_2 : NULL;
    case HR_SHARDING_ZERO_1:
        return is_training ? &hr__scheme_zero_1 : NULL;
    default: /* as FSDP's CPUOffloadPolicy() on one GPU */
        return settings->offload == HR_OFFLOAD_WEIGHTS ? &hr__scheme_fsdp : NULL;
    }
}

/* FSDP's policy takes weights, gradients and states to the host together. */
static bool is_offloaded(const hr_plan_settings *settings)
{
    return settings->offload == HR_OFFLOAD_WEIGHTS ||
           (settings->offload == HR_OFFLOAD_OPTIMIZER && settings->sharding == HR_SHARDING_FSDP);
}

hr_status hr__sharding_create(hr__plan_run *run)
{
    const hr_plan_settings *settings = run->settings;
    const hr__scheme *scheme = scheme_of(settings);
    if (scheme == NULL)
        return HR_OK;
    hr__sharding *sharding = hr__run_alloc(run, 1, sizeof *sharding);
    hr_status status = hr__tape_status(run->tape);
    if (status != HR_OK)
        return status;
    status = hr__find_groups(run->model, settings, &run->arena, sharding);
    if (status != HR_OK)
        return status;
    sharding->scheme = scheme;
    sharding->parts =
        settings->sharding == HR_SHARDING_NONE || settings->gpus == 0 ? 1 : settings->gpus;
    sharding->is_offloaded = is_offloaded(settings);
    sharding->last_gathered = sharding->reduce_input = sharding->bucket = hr__no_tensor();
    sharding->prefetched = sharding->gradient = sharding->float_gradient = hr__no_tensor();
    for (size_t i = 0; i < sharding->group_count; i++)
        sharding->groups[i] = (hr__shard_group){
            .first_weight = UINT32_MAX, .gathered = hr__no_tensor(), .gradient = hr__no_tensor()};
    run->sharding = sharding;
    return HR_OK;
}

/* ---- weights --------------------------------------------------------------------------------- */

static hr__tensor make_shard(hr__plan_run *run, uint64_t elements, hr__dtype dtype, bool is_trained)
{
    const hr__sharding *sharding = run->sharding;
    bool is_master =
        is_trained && run->settings->has_master_weights && sharding->scheme == &hr__scheme_fsdp;
    if (sharding->is_offloaded)
        return hr__no_tensor();
    return hr__take_for(run, hr__part_of(sharding, elements), is_master ? HR__FLOAT32 : dtype,
                        HR__USE_WEIGHTS);
}

void hr__sharding_make_weight(hr__plan_run *run, uint64_t elements, hr__matrix matrix,
                              hr__dtype dtype, bool is_trained, hr__weight *out)
{
    (void)matrix;
    hr__sharding *sharding = run->sharding;
    size_t number = run->weight_count;
    out->group = number < sharding->weight_count ? sharding->group_of[number] : 0;
    hr__shard_group *group = &sharding->groups[out->group];
    out->next = group->first_weight;
    group->first_weight = (uint32_t)number;
    group->elements += elements;
    group->bytes += hr__times(run->tape, elements, hr__dtype_bytes(dtype));
    sharding->elements += elements;
    if (is_trained) {
        group->trained_elements += elements;
        sharding->trained_elements += elements;
        sharding->trained_dtype = dtype;
    }
    if (sharding->scheme->keeps_weights) {
        out->full = hr__parameter(run->tape, elements, dtype, is_trained);
        return;
    }
    out->full = hr__parameter_aside(run->tape, elements, dtype, is_trained);
    out->shard = make_shard(run, elements, dtype, is_trained);
}

/* ---- at which moment ------------------------------------------------------------------------- */

static void before_backward(void *context, size_t group)
{
    hr__plan_run *run = context;
    if (run->sharding->scheme->before_backward != NULL)
        run->sharding->scheme->before_backward(run, group);
}

static void after_backward(void *context, size_t group)
{
    hr__plan_run *run = context;
    if (run->sharding->scheme->after_backward != NULL)
        run->sharding->scheme->after_backward(run, group);
    run->sharding->groups[group].is_reduced = true;
}

hr__tensor hr__sharding_enter_block(hr__plan_run *run, size_t number, hr__tensor x)
{
    if (run->sharding == NULL || number >= run->sharding->group_count)
        return hr__hold(run->tape, x);
    if (run->sharding->scheme->before_forward != NULL)
        run->sharding->scheme->before_forward(run, number);
    return hr__hook(run->tape, x, after_backward, run, number);
}

hr__tensor hr__sharding_leave_block(hr__plan_run *run, size_t number, hr__tensor x)
{
    if (run->sharding == NULL || number >= run->sharding->group_count)
        return hr__hold(run->tape, x);
    if (run->sharding->scheme->after_forward != NULL)
        run->sharding->scheme->after_forward(run, number);
    return hr__hook(run->tape, x, before_backward, run, number);
}

void hr__sharding_begin(hr__plan_run *run)
{
    if (run->sharding != NULL && run->sharding->scheme->begin != NULL)
        run->sharding->scheme->begin(run);
}

void hr__sharding_begin_forward(hr__plan_run *run)
{
    if (run->sharding != NULL && run->sharding->scheme->before_forward != NULL)
        run->sharding->scheme->before_forward(run, 0);
}

void hr__sharding_end_forward(hr__plan_run *run)
{
    if (run->sharding != NULL && run->sharding->scheme->after_forward != NULL)
        run->sharding->scheme->after_forward(run, 0);
}

void hr__sharding_begin_backward(hr__plan_run *run)
{
    if (run->sharding == NULL)
        return;
    for (size_t i = 0; i < run->sharding->group_count; i++)
        run->sharding->groups[i].is_reduced = false;
    before_backward(run, 0);
}

/* A block whose argument wants no gradient has no hook there: its turn is now, as the root's. */
void hr__sharding_end_backward(hr__plan_run *run)
{
    if (run->sharding == NULL)
        return;
    for (size_t i = run->sharding->group_count; i-- > 0;)
        if (!run->sharding->groups[i].is_reduced)
            after_backward(run, i);
    if (run->sharding->scheme->end_backward != NULL)
        run->sharding->scheme->end_backward(run);
}

void hr__sharding_drop_gradients(hr__plan_run *run)
{
    if (run->sharding != NULL && run->sharding->scheme->drop_gradients != NULL)
        run->sharding->scheme->drop_gradients(run);
}

void hr__sharding_create_optimizer(hr__plan_run *run, hr__optimizer *optimizer)
{
    if (run->sharding != NULL && run->sharding->scheme->create_optimizer != NULL)
        run->sharding->scheme->create_optimizer(run, optimizer);
}

void hr__sharding_begin_step(hr__plan_run *run)
{
    if (run->sharding != NULL && run->sharding->scheme->begin_step != NULL)
        run->sharding->scheme->begin_step(run);
}

void hr__sharding_end_step(hr__plan_run *run)
{
    if (run->sharding != NULL && run->sharding->scheme->end_step != NULL)
        run->sharding->scheme->end_step(run);
}
