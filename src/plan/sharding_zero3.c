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

static uint64_t partition(const hr__sharding *sharding)
{
    return hr__part_of(sharding, sharding->trained_elements);
}

static void begin(hr__plan_run *run)
{
    hr__sharding *sharding = run->sharding;
    if (run->settings->mode != HR_PLAN_MODE_TRAIN)
        return;
    sharding->bucket =
        hr__take_for(run, BUCKET_ELEMENTS, sharding->trained_dtype, HR__USE_GRADIENTS);
    if (run->settings->offload == HR_OFFLOAD_NONE)
        sharding->gradient =
            hr__take_for(run, partition(sharding), sharding->trained_dtype, HR__USE_GRADIENTS);
}

static void prefetch(hr__plan_run *run, size_t number)
{
    hr__sharding *sharding = run->sharding;
    const hr__shard_group *group = &sharding->groups[number];
    hr__drop(run->tape, &sharding->prefetched);
    if (!group->is_here)
        sharding->prefetched =
            hr__take_for(run,
                         least(group->bytes, hr__times(run->tape, PREFETCH_ELEMENTS,
                                                       hr__dtype_bytes(run->dtype))),
                         HR__BYTE, HR__USE_WEIGHTS);
}

/* All parts into one buffer, then each weight into a tensor of its own. */
static void gather(hr__plan_run *run, size_t number)
{
    hr__sharding *sharding = run->sharding;
    hr__shard_group *group = &sharding->groups[number];
    if (group->is_here)
        return;
    hr__drop(run->tape, &sharding->prefetched);
    hr__tensor flat = hr__take_for(run, group->bytes, HR__BYTE, HR__USE_WEIGHTS);
    hr__bring_group(run, number);
    hr__drop(run->tape, &flat);
}

static void before_forward(hr__plan_run *run, size_t number)
{
    gather(run, number);
    if (number > 0 && number + 1 < run->sharding->group_count)
        prefetch(run, number + 1);
}

/* Everything behind it comes twice before its own backward pass does. */
static bool is_needed_soon(const hr__plan_run *run, size_t number)
{
    const hr__sharding *sharding = run->sharding;
    uint64_t elements = 0;
    for (size_t i = number + 1; i < sharding->group_count; i++)
        elements += 2 * sharding->groups[i].elements;
    return run->is_training && elements < REUSE_ELEMENTS;
}

static void after_forward(hr__plan_run *run, size_t number)
{
    if (number > 0 && !is_needed_soon(run, number))
        hr__set_group_aside(run, number);
}

static void before_backward(hr__plan_run *run, size_t number)
{
    gather(run, number);
    if (number > 1)
        prefetch(run, number - 1);
}

/* What is in the bucket is put together for one reduction. */
static void flush(hr__plan_run *run)
{
    hr__sharding *sharding = run->sharding;
    hr__tensor flat =
        hr__take_for(run, sharding->bucket_elements, sharding->trained_dtype, HR__USE_BACKWARD);
    hr__drop(run->tape, &flat);
    sharding->bucket_elements = 0;
}

static void after_backward(hr__plan_run *run, size_t number)
{
    hr__sharding *sharding = run->sharding;
    uint64_t elements = sharding->groups[number].trained_elements;
    hr__set_group_aside(run, number);
    if (sharding->bucket_elements + elements > BUCKET_ELEMENTS)
        flush(run);
    hr__drop_group_gradients(run, number);
    sharding->bucket_elements = least(sharding->bucket_elements + elements, BUCKET_ELEMENTS);
}

static void end_backward(hr__plan_run *run)
{
    flush(run);
    hr__drop(run->tape, &run->sharding->prefetched);
}

static void create_optimizer(hr__plan_run *run, hr__optimizer *optimizer)
{
    uint64_t left = partition(run->sharding);
    optimizer->is_one_by_one = true;
    optimizer->items =
        hr__run_alloc(run, (size_t)(left / STEP_ELEMENTS) + 1, sizeof *optimizer->items);
    for (; left > 0 && hr__tape_status(run->tape) == HR_OK; left -= least(left, STEP_ELEMENTS)) {
        uint64_t elements = least(left, STEP_ELEMENTS);
        optimizer->items[optimizer->count++] =
            (hr__stepped){.elements = elements, .dtype = HR__FLOAT32};
        if (!optimizer->is_elsewhere) /* the copy, until the run ends */
            (void)hr__tensor_new(run->tape, elements, HR__FLOAT32);
    }
}

static void begin_step(hr__plan_run *run)
{
    run->sharding->float_gradient = hr__take_for(
        run, least(partition(run->sharding), STEP_ELEMENTS), HR__FLOAT32, HR__USE_GRADIENTS);
}

static void end_step(hr__plan_run *run)
{
    hr__drop(run->tape, &run->sharding->float_gradient);
}

const hr__scheme hr__scheme_zero_3 = {
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
