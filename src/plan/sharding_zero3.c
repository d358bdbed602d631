/* sharding_zero3.c - DeepSpeed's ZeRO, stage 3: weights are split too.
 *
 * A block is gathered before its turn, and released after it unless it is needed again soon: within
 * max_reuse_distance elements. So a small model, and the last blocks of a large one, stay from the
 * forward to the backward pass. What comes next is fetched ahead, up to prefetch_bucket_size
 * elements. The bucket that gradients pass through, and this GPU's part of them, are there always.
 *
 * After deepspeed/runtime/zero/{stage3,partition_parameters,partitioned_param_coordinator}.py, with
 * the defaults of its config. */
#include "plan/sharding.h"

static const uint64_t BUCKET_ELEMENTS = 500000000;
static const uint64_t PREFETCH_ELEMENTS = 50000000;
static const uint64_t REUSE_ELEMENTS = 1000000000;
static const uint64_t STEP_ELEMENTS = 1000000000; /* sub_group_size */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t partition(const vw__sharding *sharding)
{
    return vw__part_of(sharding, sharding->trained_elements);
}

static void begin(vw__plan_run *run)
{
    vw__sharding *sharding = run->sharding;
    if (run->settings->mode != VW_PLAN_MODE_TRAIN)
        return;
    sharding->bucket =
        vw__take_for(run, BUCKET_ELEMENTS, sharding->trained_dtype, VW__USE_GRADIENTS);
    if (run->settings->offload == VW_OFFLOAD_NONE)
        sharding->gradient =
            vw__take_for(run, partition(sharding), sharding->trained_dtype, VW__USE_GRADIENTS);
}

static void prefetch(vw__plan_run *run, size_t number)
{
    vw__sharding *sharding = run->sharding;
    const vw__shard_group *group = &sharding->groups[number];
    vw__drop(run->tape, &sharding->prefetched);
    if (!group->is_here)
        sharding->prefetched =
            vw__take_for(run,
                         least(group->bytes, vw__times(run->tape, PREFETCH_ELEMENTS,
                                                       vw__dtype_bytes(run->dtype))),
                         VW__BYTE, VW__USE_WEIGHTS);
}

/* All parts into one buffer, then each weight into a tensor of its own. */
static void gather(vw__plan_run *run, size_t number)
{
    vw__sharding *sharding = run->sharding;
    vw__shard_group *group = &sharding->groups[number];
    if (group->is_here)
        return;
    vw__drop(run->tape, &sharding->prefetched);
    vw__tensor flat = vw__take_for(run, group->bytes, VW__BYTE, VW__USE_WEIGHTS);
    vw__bring_group(run, number);
    vw__drop(run->tape, &flat);
}

static void before_forward(vw__plan_run *run, size_t number)
{
    gather(run, number);
    if (number > 0 && number + 1 < run->sharding->group_count)
        prefetch(run, number + 1);
}

/* Everything behind it comes twice before its own backward pass does. */
static bool is_needed_soon(const vw__plan_run *run, size_t number)
{
    const vw__sharding *sharding = run->sharding;
    uint64_t elements = 0;
    for (size_t i = number + 1; i < sharding->group_count; i++)
        elements += 2 * sharding->groups[i].elements;
    return run->is_training && elements < REUSE_ELEMENTS;
}

static void after_forward(vw__plan_run *run, size_t number)
{
    if (number > 0 && !is_needed_soon(run, number))
        vw__set_group_aside(run, number);
}

static void before_backward(vw__plan_run *run, size_t number)
{
    gather(run, number);
    if (number > 1)
        prefetch(run, number - 1);
}

/* What is in the bucket is put together for one reduction. */
static void flush(vw__plan_run *run)
{
    vw__sharding *sharding = run->sharding;
    vw__tensor flat =
        vw__take_for(run, sharding->bucket_elements, sharding->trained_dtype, VW__USE_BACKWARD);
    vw__drop(run->tape, &flat);
    sharding->bucket_elements = 0;
}

static void after_backward(vw__plan_run *run, size_t number)
{
    vw__sharding *sharding = run->sharding;
    uint64_t elements = sharding->groups[number].trained_elements;
    vw__set_group_aside(run, number);
    if (sharding->bucket_elements + elements > BUCKET_ELEMENTS)
        flush(run);
    vw__drop_group_gradients(run, number);
    sharding->bucket_elements = least(sharding->bucket_elements + elements, BUCKET_ELEMENTS);
}

static void end_backward(vw__plan_run *run)
{
    flush(run);
    vw__drop(run->tape, &run->sharding->prefetched);
}

static void create_optimizer(vw__plan_run *run, vw__optimizer *optimizer)
{
    uint64_t left = partition(run->sharding);
    optimizer->is_one_by_one = true;
    optimizer->items =
        vw__run_alloc(run, (size_t)(left / STEP_ELEMENTS) + 1, sizeof *optimizer->items);
    for (; left > 0 && vw__tape_status(run->tape) == VW_OK; left -= least(left, STEP_ELEMENTS)) {
        uint64_t elements = least(left, STEP_ELEMENTS);
        optimizer->items[optimizer->count++] =
            (vw__stepped){.elements = elements, .dtype = VW__FLOAT32};
        if (!optimizer->is_elsewhere) /* the copy, until the run ends */
            (void)vw__tensor_new(run->tape, elements, VW__FLOAT32);
    }
}

static void begin_step(vw__plan_run *run)
{
    run->sharding->float_gradient = vw__take_for(
        run, least(partition(run->sharding), STEP_ELEMENTS), VW__FLOAT32, VW__USE_GRADIENTS);
}

static void end_step(vw__plan_run *run)
{
    vw__drop(run->tape, &run->sharding->float_gradient);
}

const vw__scheme vw__scheme_zero_3 = {
    .begin = begin,
    .before_forward = before_forward,
    .after_forward = after_forward,
    .before_backward = before_backward,
    .after_backward = after_backward,
    .end_backward = end_backward,
    .create_optimizer = create_optimizer,
    .begin_step = begin_step,
    .end_step = end_step,
};
