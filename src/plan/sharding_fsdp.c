/* sharding_fsdp.c - FSDP2: fully_shard() on every block and on the model.
 *
 * The parts of a group are gathered into one buffer and copied to its weights. The forward pass
 * keeps that buffer until the next group is here, so that copying and gathering overlap. The
 * backward pass frees it at once, and gathers the next group early. Gradients are copied to one
 * buffer, which lives until the next group's. One GPU gathers nothing, but copies weights and
 * gradients all the same. With CPUOffloadPolicy the parts come from the host, and gradients go
 * there.
 *
 * After torch/distributed/fsdp/_fully_shard. */
#include "plan/sharding.h"

static vw__tensor moved(vw__tensor *tensor)
{
    vw__tensor value = *tensor;
    *tensor = vw__tensor_none();
    return value;
}

/* unshard(): this GPU's part is cast, or comes from the host, before it is gathered. */
static void start_gathering(vw__plan_run *run, size_t number)
{
    vw__shard_state *sharding = run->sharding;
    vw__shard_group *group = &sharding->groups[number];
    bool has_copy = sharding->is_offloaded ||
                    (run->settings->has_master_weights && run->dtype != VW__DTYPE_FLOAT32);
    if (group->is_here || vw__tensor_exists(group->gathered) || sharding->parts == 1)
        return;
    vw__tensor part = has_copy ? vw__shard_take_for(run, vw__shard_part_of(sharding, group->bytes),
                                                    VW__DTYPE_BYTE, VW__TAPE_USE_WEIGHTS)
                               : vw__tensor_none();
    group->gathered = vw__shard_take_for(run, group->bytes, VW__DTYPE_BYTE, VW__TAPE_USE_WEIGHTS);
    vw__tensor_drop(run->tape, &part);
}

static void before_forward(vw__plan_run *run, size_t number)
{
    vw__shard_state *sharding = run->sharding;
    vw__shard_group *group = &sharding->groups[number];
    if (group->is_here)
        return;
    start_gathering(run, number);
    vw__tensor_drop(run->tape, &sharding->last_gathered);
    vw__shard_bring_group(run, number);
    sharding->last_gathered = moved(&group->gathered);
}

/* The root keeps its weights for the backward pass, which begins with them. */
static void after_forward(vw__plan_run *run, size_t number)
{
    if (number > 0)
        vw__shard_set_group_aside(run, number);
    else
        vw__tensor_drop(run->tape, &run->sharding->last_gathered);
}

static void before_backward(vw__plan_run *run, size_t number)
{
    vw__shard_state *sharding = run->sharding;
    vw__shard_group *group = &sharding->groups[number];
    if (!group->is_here) {
        start_gathering(run, number);
        vw__shard_bring_group(run, number);
        vw__tensor_drop(run->tape, &group->gathered);
    }
    size_t next = number == 0 ? sharding->group_count - 1 : number - 1;
    if (next > 0)
        start_gathering(run, next);
}

/* Gradients, copied to one buffer and reduced to this GPU's part; added to what is there. */
static void reduce(vw__plan_run *run, size_t number)
{
    vw__shard_state *sharding = run->sharding;
    vw__shard_group *group = &sharding->groups[number];
    vw__dtype dtype =
        run->settings->has_master_weights ? VW__DTYPE_FLOAT32 : sharding->trained_dtype;
    vw__tensor_drop(run->tape, &sharding->reduce_input);
    sharding->reduce_input =
        vw__shard_take_for(run, group->trained_elements, dtype, VW__TAPE_USE_BACKWARD);
    vw__shard_drop_group_gradients(run, number);
    vw__tensor part = vw__shard_take_for(run, vw__shard_part_of(sharding, group->trained_elements),
                                         dtype, VW__TAPE_USE_GRADIENTS);
    if (vw__tensor_exists(group->gradient) || sharding->is_offloaded)
        vw__tensor_drop(run->tape, &part);
    else
        group->gradient = part;
}

static void after_backward(vw__plan_run *run, size_t number)
{
    vw__shard_set_group_aside(run, number);
    if (run->sharding->groups[number].trained_elements > 0)
        reduce(run, number);
}

static void end_backward(vw__plan_run *run, size_t number)
{
    (void)number;
    vw__shard_state *sharding = run->sharding;
    vw__tensor_drop(run->tape, &sharding->reduce_input);
    for (size_t i = 0; i < sharding->group_count; i++)
        vw__tensor_drop(run->tape, &sharding->groups[i].gathered);
}

static void drop_gradients(vw__plan_run *run, size_t number)
{
    (void)number;
    for (size_t i = 0; i < run->sharding->group_count; i++)
        vw__tensor_drop(run->tape, &run->sharding->groups[i].gradient);
}

/* Steps on this GPU's part of each parameter. */
static void create_optimizer(vw__plan_run *run, vw__plan_optimizer *optimizer)
{
    const vw__shard_state *sharding = run->sharding;
    optimizer->items = vw__module_alloc(run, run->weight_count, sizeof *optimizer->items);
    if (vw__tape_status(run->tape) != VW_OK)
        return;
    for (size_t i = 0; i < run->weight_count; i++) {
        const vw__plan_weight *weight = &run->weights[i];
        if (!vw__tensor_wants_gradient(weight->full))
            continue;
        vw__tape_matrix matrix = vw__tape_parameter_matrix(run->tape, weight->full.source.node);
        matrix.rows = vw__shard_part_of(sharding, matrix.rows);
        optimizer->items[optimizer->count++] = (vw__plan_stepped){
            .elements = vw__shard_part_of(sharding, weight->full.elements),
            .matrix = matrix,
            .dtype = run->settings->has_master_weights ? VW__DTYPE_FLOAT32 : weight->full.dtype};
    }
}

const vw__shard_scheme vw__shard_scheme_fsdp = {
    .at = {[VW__SHARD_BEFORE_FORWARD] = before_forward,
           [VW__SHARD_AFTER_FORWARD] = after_forward,
           [VW__SHARD_BEFORE_BACKWARD] = before_backward,
           [VW__SHARD_AFTER_BACKWARD] = after_backward,
           [VW__SHARD_END_BACKWARD] = end_backward,
           [VW__SHARD_DROP_GRADIENTS] = drop_gradients},
    .create_optimizer = create_optimizer,
};
