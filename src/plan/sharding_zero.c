/* sharding_zero.c - DeepSpeed's ZeRO, stages 1 and 2: the optimizer's state is split, and at stage
 * 2 gradients are.
 *
 * The optimizer changes one flat float32 copy of this GPU's partition. Gradients pass through a
 * bucket of reduce_bucket_size elements, which is as large as that however small the model is, and
 * is there during the backward pass. Afterwards only the partition's gradients are left. With the
 * optimizer on the host (offload_optimizer) they are there too.
 *
 * After deepspeed/runtime/zero/stage_1_and_2.py, with its defaults: contiguous_gradients, without
 * overlap_comm. */
#include "plan/sharding.h"

enum { BUCKET_ELEMENTS = 500000000 };

static bool is_optimizer_here(const vw__plan_run *run)
{
    return run->settings->offload == VW_OFFLOAD_NONE;
}

static uint64_t partition(const vw__sharding *sharding)
{
    return vw__part_of(sharding, sharding->trained_elements);
}

static void before_backward(vw__plan_run *run, size_t number)
{
    vw__sharding *sharding = run->sharding;
    if (number == 0)
        sharding->bucket =
            vw__take_for(run, BUCKET_ELEMENTS, sharding->trained_dtype, VW__USE_GRADIENTS);
}

/* Those of the partition are kept, and later ones added to them. */
static void keep_partition(vw__plan_run *run)
{
    vw__sharding *sharding = run->sharding;
    if (is_optimizer_here(run) && !vw__is_tensor(sharding->gradient))
        sharding->gradient =
            vw__take_for(run, partition(sharding), sharding->trained_dtype, VW__USE_GRADIENTS);
}

/* Stage 2: they are in the bucket, or reduced already. */
static void after_block(vw__plan_run *run, size_t number)
{
    keep_partition(run);
    vw__drop_group_gradients(run, number);
}

static void end_backward(vw__plan_run *run)
{
    keep_partition(run);
    for (size_t i = 0; i < run->sharding->group_count; i++)
        vw__drop_group_gradients(run, i);
    vw__drop(run->tape, &run->sharding->bucket);
}

static void create_optimizer(vw__plan_run *run, vw__optimizer *optimizer)
{
    optimizer->items = vw__run_alloc(run, 1, sizeof *optimizer->items);
    if (vw__tape_status(run->tape) != VW_OK)
        return;
    optimizer->items[optimizer->count++] =
        (vw__stepped){.elements = partition(run->sharding), .dtype = VW__FLOAT32};
    if (!optimizer->is_elsewhere) /* the copy, until the run ends */
        (void)vw__tensor_new(run->tape, partition(run->sharding), VW__FLOAT32);
}

/* The partition's gradients in one piece, and that in float32. */
static void begin_step(vw__plan_run *run)
{
    vw__sharding *sharding = run->sharding;
    vw__tensor flat =
        vw__take_for(run, partition(sharding), sharding->trained_dtype, VW__USE_GRADIENTS);
    sharding->float_gradient =
        sharding->trained_dtype == VW__FLOAT32
            ? vw__hold(run->tape, flat)
            : vw__take_for(run, partition(sharding), VW__FLOAT32, VW__USE_GRADIENTS);
    vw__drop(run->tape, &flat);
    vw__drop(run->tape, &sharding->gradient);
}

static void end_step(vw__plan_run *run)
{
    vw__drop(run->tape, &run->sharding->float_gradient);
}

const vw__scheme vw__scheme_zero_1 = {
    .keeps_weights = true,
    .before_backward = before_backward,
    .end_backward = end_backward,
    .create_optimizer = create_optimizer,
    .begin_step = begin_step,
    .end_step = end_step,
};

const vw__scheme vw__scheme_zero_2 = {
    .keeps_weights = true,
    .before_backward = before_backward,
    .after_backward = after_block,
    .end_backward = end_backward,
    .create_optimizer = create_optimizer,
    .begin_step = begin_step,
    .end_step = end_step,
};
