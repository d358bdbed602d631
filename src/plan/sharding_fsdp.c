/* sharding_fsdp.c - FSDP2: fully_shard() on every block and on the model.
 *
 * A group's parts are gathered into one buffer and copied out to its weights. In the forward pass
 * that buffer is kept until the next group is here (so that copying and gathering overlap); in the
 * backward pass it goes at once, and the group before is gathered ahead of its time. Gradients are
 * copied to one buffer, which is kept until the next group's. With one GPU there is nothing to
 * gather, but weights and gradients are copied all the same. With the host as the place of the
 * parts (CPUOffloadPolicy) they come from there, and gradients go there.
 *
 * After torch/distributed/fsdp/_fully_shard. */
#include "plan/sharding.h"

static hr__tensor moved(hr__tensor *tensor)
{
    hr__tensor value = *tensor;
    *tensor = hr__no_tensor();
    return value;
}

/* unshard(): this GPU's part is cast, or comes from the host, before it is gathered. */
static void start_gathering(hr__plan_run *run, size_t number)
{
    hr__sharding *sharding = run->sharding;
    hr__shard_group *group = &sharding->groups[number];
    bool has_copy =
        sharding->is_offloaded || (run->settings->has_master_weights && run->dtype != HR__FLOAT32);
    if (group->is_here || hr__is_tensor(group->gathered) || sharding->parts == 1)
        return;
    hr__tensor part =
        has_copy ? hr__take_for(run, hr__part_of(sharding, group->bytes), HR__BYTE, HR__USE_WEIGHTS)
                 : hr__no_tensor();
    group->gathered = hr__take_for(run, group->bytes, HR__BYTE, HR__USE_WEIGHTS);
    hr__drop(run->tape, &part);
}

static void before_forward(hr__plan_run *run, size_t number)
{
    hr__sharding *sharding = run->sharding;
    hr__shard_group *group = &sharding->groups[number];
    if (group->is_here)
        return;
    start_gathering(run, number);
    hr__drop(run->tape, &sharding->last_gathered);
    hr__bring_group(run, number);
    sharding->last_gathered = moved(&group->gathered);
}

/* The root keeps its weights for the backward pass, which begins with them. */
static void after_forward(hr__plan_run *run, size_t number)
{
    if (number > 0)
        hr__set_group_aside(run, number);
    else
        hr__drop(run->tape, &run->sharding->last_gathered);
}

static void before_backward(hr__plan_run *run, size_t number)
{
    hr__sharding *sharding = run->sharding;
    hr__shard_group *group = &sharding->groups[number];
    if (!group->is_here) {
        start_gathering(run, number);
        hr__bring_group(run, number);
        hr__drop(run->tape, &group->gathered);
    }
    size_t next = number == 0 ? sharding->group_count - 1 : number - 1;
    if (next > 0)
        start_gathering(run, next);
}

/* Gradients, copied to one buffer and reduced to this GPU's part; added to what is there. */
static void reduce(hr__plan_run *run, size_t number)
{
    hr__sharding *sharding = run->sharding;
    hr__shard_group *group = &sharding->groups[number];
    hr__dtype dtype = run->settings->has_master_weights ? HR__FLOAT32 : sharding->trained_dtype;
    hr__drop(run->tape, &sharding->reduce_input);
    sharding->reduce_input = hr__take_for(run, group->trained_elements, dtype, HR__USE_BACKWARD);
    hr__drop_group_gradients(run, number);
    hr__tensor part =
        hr__take_for(run, hr__part_of(sharding, group->trained_elements), dtype, HR__USE_GRADIENTS);
    if (hr__is_tensor(group->gradient) || sharding->is_offloaded)
        hr__drop(run->tape, &part);
    else
        group->gradient = part;
}

static void after_backward(hr__plan_run *run, size_t number)
{
    hr__set_group_aside(run, number);
    if (run->sharding->groups[number].trained_elements > 0)
        reduce(run, number);
}

static void end_backward(hr__plan_run *run)
{
    hr__sharding *sharding = run->sharding;
    hr__drop(run->tape, &sharding->reduce_input);
    for (size_t i = 0; i < sharding->group_count; i++)
        hr__drop(run->tape, &sharding->groups[i].gathered);
}

static void drop_gradients(hr__plan_run *run)
{
    for (size_t i = 0; i < run->sharding->group_count; i++)
        hr__drop(run->tape, &run->sharding->groups[i].gradient);
}

/* Parts of parameters, each by itself. */
static void create_optimizer(hr__plan_run *run, hr__optimizer *optimizer)
{
    const hr__sharding *sharding = run->sharding;
    optimizer->items = hr__run_alloc(run, run->weight_count, sizeof *optimizer->items);
    if (hr__tape_status(run->tape) != HR_OK)
        return;
    for (size_t i = 0; i < run->weight_count; i++) {
        const hr__weight *weight = &run->weights[i];
        if (!hr__wants_gradient(weight->full))
            continue;
        hr__matrix matrix = hr__tape_parameter_matrix(run->tape, weight->full.source.node);
        matrix.rows = hr__part_of(sharding, matrix.rows);
        optimizer->items[optimizer->count++] = (hr__stepped){
            .elements = hr__part_of(sharding, weight->full.elements),
            .matrix = matrix,
            .dtype = run->settings->has_master_weights ? HR__FLOAT32 : weight->full.dtype};
    }
}

const hr__scheme hr__scheme_fsdp = {
    .before_forward = before_forward,
    .after_forward = after_forward,
    .before_backward = before_backward,
    .after_backward = after_backward,
    .end_backward = end_backward,
    .drop_gradients = drop_gradients,
    .create_optimizer = create_optimizer,
};
