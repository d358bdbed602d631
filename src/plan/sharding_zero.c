/* sharding_zero.c - DeepSpeed's ZeRO: splits the optimizer's state (stage 1), gradients too (stage
 * 2), and weights too (stage 3).
 *
 * Gradients pass through a bucket of reduce_bucket_size elements, which has that size however small
 * the model is. With the optimizer on the host (offload_optimizer) this GPU's gradients are there
 * too.
 *
 * Stages 1 and 2 have the bucket during the backward pass; afterwards only the partition's
 * gradients are left. The optimizer steps on one flat float32 copy of the partition.
 *
 * Stage 3 has the bucket and its part of the gradients always. It gathers a block before its turn
 * and releases it afterwards, unless it is needed again within max_reuse_distance elements: a small
 * model, and the last blocks of a large one, stay from the forward to the backward pass. It fetches
 * the next block early, up to prefetch_bucket_size elements.
 *
 * After deepspeed/runtime/zero/{stage_1_and_2,stage3,partition_parameters,
 * partitioned_param_coordinator}.py with default settings: contiguous_gradients, no overlap_comm.
 */
#include "plan/sharding.h"

#include "base/checked_math.h" /* vw__min_u64 */

static const uint64_t BUCKET_ELEMENTS = 500000000;
static const uint64_t PREFETCH_ELEMENTS = 50000000;
static const uint64_t REUSE_ELEMENTS = 1000000000;
static const uint64_t STEP_ELEMENTS = 1000000000; /* sub_group_size */

static uint64_t partition(const vw__shard_state *sharding)
{
    return vw__shard_part_of(sharding, sharding->trained_elements);
}

static vw__tensor take_gradients(vw__plan_run *run, uint64_t elements)
{
    return vw__shard_take_for(run, elements, run->sharding->trained_dtype, VW__TAPE_USE_GRADIENTS);
}

/* The partition's gradients are kept, and later ones added to them. */
static void keep_partition(vw__plan_run *run)
{
    vw__shard_state *sharding = run->sharding;
    if (run->settings->offload == VW_OFFLOAD_NONE && !vw__tensor_exists(sharding->gradient))
        sharding->gradient = take_gradients(run, partition(sharding));
}

static void add_stepped(vw__plan_run *run, vw__plan_optimizer *optimizer, uint64_t elements)
{
    optimizer->items[optimizer->count++] =
        (vw__plan_stepped){.elements = elements, .dtype = VW__DTYPE_FLOAT32};
    if (!optimizer->is_elsewhere) /* the float32 copy, until the run ends */
        (void)vw__tensor_new(run->tape, elements, VW__DTYPE_FLOAT32);
}

static void end_step(vw__plan_run *run, size_t number)
{
    (void)number;
    vw__tensor_drop(run->tape, &run->sharding->float_gradient);
}

/* ---- stages 1 and 2 -------------------------------------------------------------------------- */

static void take_bucket(vw__plan_run *run, size_t number)
{
    if (number == 0)
        run->sharding->bucket = take_gradients(run, BUCKET_ELEMENTS);
}

/* Stage 2: the block's gradients are in the bucket, or reduced already. */
static void after_block(vw__plan_run *run, size_t number)
{
    keep_partition(run);
    vw__shard_drop_group_gradients(run, number);
}

static void end_backward(vw__plan_run *run, size_t number)
{
    (void)number;
    keep_partition(run);
    for (size_t i = 0; i < run->sharding->group_count; i++)
        vw__shard_drop_group_gradients(run, i);
    vw__tensor_drop(run->tape, &run->sharding->bucket);
}

static void create_optimizer(vw__plan_run *run, vw__plan_optimizer *optimizer)
{
    optimizer->items = vw__module_alloc(run, 1, sizeof *optimizer->items);
    if (vw__tape_status(run->tape) == VW_OK)
        add_stepped(run, optimizer, partition(run->sharding));
}

/* Puts the partition's gradients into one piece, and that into float32. */
static void begin_step(vw__plan_run *run, size_t number)
{
    (void)number;
    vw__shard_state *sharding = run->sharding;
    vw__tensor flat = take_gradients(run, partition(sharding));
    sharding->float_gradient = sharding->trained_dtype == VW__DTYPE_FLOAT32
                                   ? vw__tensor_hold(run->tape, flat)
                                   : vw__shard_take_for(run, partition(sharding), VW__DTYPE_FLOAT32,
                                                        VW__TAPE_USE_GRADIENTS);
    vw__tensor_drop(run->tape, &flat);
    vw__tensor_drop(run->tape, &sharding->gradient);
}

#define STAGES_1_AND_2                                                                             \
    [VW__SHARD_BEFORE_BACKWARD] = take_bucket, [VW__SHARD_END_BACKWARD] = end_backward,            \
    [VW__SHARD_BEGIN_STEP] = begin_step, [VW__SHARD_END_STEP] = end_step

const vw__shard_scheme vw__shard_scheme_zero_1 = {
    .keeps_weights = true, .at = {STAGES_1_AND_2}, .create_optimizer = create_optimizer};

const vw__shard_scheme vw__shard_scheme_zero_2 = {
    .keeps_weights = true,
    .at = {STAGES_1_AND_2, [VW__SHARD_AFTER_BACKWARD] = after_block},
    .create_optimizer = create_optimizer};

/* ---- stage 3 --------------------------------------------------------------------------------- */

static void begin_3(vw__plan_run *run, size_t number)
{
    if (run->settings->mode != VW_PLAN_MODE_TRAIN)
        return;
    take_bucket(run, number);
    keep_partition(run);
}

static void prefetch(vw__plan_run *run, size_t number)
{
    vw__shard_state *sharding = run->sharding;
    const vw__shard_group *group = &sharding->groups[number];
    uint64_t most = vw__tape_times(run->tape, PREFETCH_ELEMENTS, vw__dtype_bytes(run->dtype));
    vw__tensor_drop(run->tape, &sharding->prefetched);
    if (!group->is_here)
        sharding->prefetched = vw__shard_take_for(run, vw__min_u64(group->bytes, most),
                                                  VW__DTYPE_BYTE, VW__TAPE_USE_WEIGHTS);
}

/* Gathers all parts in one buffer, then each weight in a tensor of its own. */
static void gather(vw__plan_run *run, size_t number)
{
    vw__shard_state *sharding = run->sharding;
    if (sharding->groups[number].is_here)
        return;
    vw__tensor_drop(run->tape, &sharding->prefetched);
    vw__tensor flat = vw__shard_take_for(run, sharding->groups[number].bytes, VW__DTYPE_BYTE,
                                         VW__TAPE_USE_WEIGHTS);
    vw__shard_bring_group(run, number);
    vw__tensor_drop(run->tape, &flat);
}

static void before_forward_3(vw__plan_run *run, size_t number)
{
    gather(run, number);
    if (number > 0 && number + 1 < run->sharding->group_count)
        prefetch(run, number + 1);
}

/* All later blocks run twice before this one's backward pass does. */
static bool is_needed_soon(const vw__plan_run *run, size_t number)
{
    const vw__shard_state *sharding = run->sharding;
    uint64_t elements = 0;
    for (size_t i = number + 1; i < sharding->group_count; i++)
        elements += 2 * sharding->groups[i].elements;
    return run->is_training && elements < REUSE_ELEMENTS;
}

static void after_forward_3(vw__plan_run *run, size_t number)
{
    if (number > 0 && !is_needed_soon(run, number))
        vw__shard_set_group_aside(run, number);
}

static void before_backward_3(vw__plan_run *run, size_t number)
{
    gather(run, number);
    if (number > 1)
        prefetch(run, number - 1);
}

/* Puts what is in the bucket together for one reduction. */
static void flush(vw__plan_run *run)
{
    vw__shard_state *sharding = run->sharding;
    vw__tensor flat = vw__shard_take_for(run, sharding->bucket_elements, sharding->trained_dtype,
                                         VW__TAPE_USE_BACKWARD);
    vw__tensor_drop(run->tape, &flat);
    sharding->bucket_elements = 0;
}

static void after_backward_3(vw__plan_run *run, size_t number)
{
    vw__shard_state *sharding = run->sharding;
    uint64_t elements = sharding->groups[number].trained_elements;
    vw__shard_set_group_aside(run, number);
    if (sharding->bucket_elements + elements > BUCKET_ELEMENTS)
        flush(run);
    vw__shard_drop_group_gradients(run, number);
    sharding->bucket_elements = vw__min_u64(sharding->bucket_elements + elements, BUCKET_ELEMENTS);
}

static void end_backward_3(vw__plan_run *run, size_t number)
{
    (void)number;
    flush(run);
    vw__tensor_drop(run->tape, &run->sharding->prefetched);
}

static void create_optimizer_3(vw__plan_run *run, vw__plan_optimizer *optimizer)
{
    uint64_t left = partition(run->sharding);
    optimizer->is_one_by_one = true;
    optimizer->items =
        vw__module_alloc(run, (size_t)(left / STEP_ELEMENTS) + 1, sizeof *optimizer->items);
    while (left > 0 && vw__tape_status(run->tape) == VW_OK) {
        uint64_t elements = vw__min_u64(left, STEP_ELEMENTS);
        add_stepped(run, optimizer, elements);
        left -= elements;
    }
}

static void begin_step_3(vw__plan_run *run, size_t number)
{
    (void)number;
    uint64_t elements = vw__min_u64(partition(run->sharding), STEP_ELEMENTS);
    run->sharding->float_gradient =
        vw__shard_take_for(run, elements, VW__DTYPE_FLOAT32, VW__TAPE_USE_GRADIENTS);
}

const vw__shard_scheme vw__shard_scheme_zero_3 = {
    .at = {[VW__SHARD_BUILT] = begin_3,
           [VW__SHARD_BEFORE_FORWARD] = before_forward_3,
           [VW__SHARD_AFTER_FORWARD] = after_forward_3,
           [VW__SHARD_BEFORE_BACKWARD] = before_backward_3,
           [VW__SHARD_AFTER_BACKWARD] = after_backward_3,
           [VW__SHARD_END_BACKWARD] = end_backward_3,
           [VW__SHARD_BEGIN_STEP] = begin_step_3,
           [VW__SHARD_END_STEP] = end_step},
    .create_optimizer = create_optimizer_3,
};
