/* sharding.c - groups of weights, which weight is in which group, and when schemes act on them. */
#include "plan/sharding.h"

#include "base/error.h"
#include "plan/plan_limits.h"

/* ---- for schemes ----------------------------------------------------------------------------- */

uint64_t vw__shard_part_of(const vw__shard_state *sharding, uint64_t elements)
{
    return elements / sharding->parts + (elements % sharding->parts > 0);
}

vw__tensor vw__shard_take_for(vw__plan_run *run, uint64_t elements, vw__dtype dtype,
                              vw__tape_use use)
{
    vw__tape_use before = vw__tape_set_use(run->tape, use);
    vw__tensor made = vw__tensor_new(run->tape, elements, dtype);
    vw__tape_set_use(run->tape, before);
    return made;
}

void vw__shard_bring_group(vw__plan_run *run, size_t group)
{
    vw__shard_group *of = &run->sharding->groups[group];
    for (uint32_t i = of->first_weight; i != UINT32_MAX; i = run->weights[i].next)
        vw__tensor_bring_back(run->tape, run->weights[i].full);
    of->is_here = true;
}

void vw__shard_set_group_aside(vw__plan_run *run, size_t group)
{
    vw__shard_group *of = &run->sharding->groups[group];
    for (uint32_t i = of->first_weight; i != UINT32_MAX; i = run->weights[i].next)
        vw__tensor_set_aside(run->tape, run->weights[i].full);
    of->is_here = false;
}

void vw__shard_drop_group_gradients(vw__plan_run *run, size_t group)
{
    const vw__shard_group *of = &run->sharding->groups[group];
    for (uint32_t i = of->first_weight; i != UINT32_MAX; i = run->weights[i].next) {
        vw__tensor gradient = vw__tape_take_gradient(run->tape, run->weights[i].full);
        vw__tensor_drop(run->tape, &gradient);
    }
}

/* ---- which scheme ---------------------------------------------------------------------------- */

static const vw__shard_scheme *scheme_of(const vw_plan_settings *settings)
{
    bool is_training = settings->mode == VW_PLAN_MODE_TRAIN;
    switch (settings->sharding) {
    case VW_SHARDING_FSDP:
        return &vw__shard_scheme_fsdp;
    case VW_SHARDING_ZERO_3:
        return &vw__shard_scheme_zero_3;
    case VW_SHARDING_ZERO_2:
        return is_training ? &vw__shard_scheme_zero_2 : NULL;
    case VW_SHARDING_ZERO_1:
        return is_training ? &vw__shard_scheme_zero_1 : NULL;
    default: /* as FSDP's CPUOffloadPolicy() on one GPU */
        return settings->offload == VW_OFFLOAD_WEIGHTS ? &vw__shard_scheme_fsdp : NULL;
    }
}

/* FSDP's policy moves weights, gradients and states to the host together. */
static bool is_offloaded(const vw_plan_settings *settings)
{
    return settings->offload == VW_OFFLOAD_WEIGHTS ||
           (settings->offload == VW_OFFLOAD_OPTIMIZER && settings->sharding == VW_SHARDING_FSDP);
}

vw_status vw__shard_create(vw__plan_run *run)
{
    const vw_plan_settings *settings = run->settings;
    const vw__shard_scheme *scheme = scheme_of(settings);
    if (scheme == NULL)
        return VW_OK;
    vw__shard_state *sharding = vw__module_alloc(run, 1, sizeof *sharding);
    VW__TRY(vw__tape_status(run->tape));
    VW__TRY(vw__shard_find_groups(run->model, settings, &run->arena, sharding));
    sharding->scheme = scheme;
    sharding->parts =
        settings->sharding == VW_SHARDING_NONE || settings->gpus == 0 ? 1 : settings->gpus;
    sharding->is_offloaded = is_offloaded(settings);
    sharding->last_gathered = sharding->reduce_input = sharding->bucket = vw__tensor_none();
    sharding->prefetched = sharding->gradient = sharding->float_gradient = vw__tensor_none();
    for (size_t i = 0; i < sharding->group_count; i++)
        sharding->groups[i] = (vw__shard_group){.first_weight = UINT32_MAX,
                                                .gathered = vw__tensor_none(),
                                                .gradient = vw__tensor_none()};
    run->sharding = sharding;
    return VW_OK;
}

/* ---- weights --------------------------------------------------------------------------------- */

static vw__tensor make_shard(vw__plan_run *run, uint64_t elements, vw__dtype dtype, bool is_trained)
{
    const vw__shard_state *sharding = run->sharding;
    bool is_master = is_trained && run->settings->has_master_weights &&
                     sharding->scheme == &vw__shard_scheme_fsdp;
    if (sharding->is_offloaded)
        return vw__tensor_none();
    return vw__shard_take_for(run, vw__shard_part_of(sharding, elements),
                              is_master ? VW__DTYPE_FLOAT32 : dtype, VW__TAPE_USE_WEIGHTS);
}

void vw__shard_make_weight(vw__plan_run *run, uint64_t elements, vw__dtype dtype, bool is_trained,
                           vw__plan_weight *out)
{
    vw__shard_state *sharding = run->sharding;
    size_t number = run->weight_count;
    out->group = number < sharding->weight_count ? sharding->group_of[number] : 0;
    vw__shard_group *group = &sharding->groups[out->group];
    out->next = group->first_weight;
    group->first_weight = (uint32_t)number;
    group->elements += elements;
    group->bytes += vw__tape_times(run->tape, elements, vw__dtype_bytes(dtype));
    if (is_trained) {
        group->trained_elements += elements;
        sharding->trained_elements += elements;
        sharding->trained_dtype = dtype;
    }
    if (sharding->scheme->keeps_weights) {
        out->full = vw__tape_parameter(run->tape, elements, dtype, is_trained);
        return;
    }
    out->full = vw__tape_parameter_aside(run->tape, elements, dtype, is_trained);
    out->shard = make_shard(run, elements, dtype, is_trained);
}

/* ---- when schemes act ------------------------------------------------------------------------ */

void vw__shard_at(vw__plan_run *run, vw__shard_moment moment, size_t group)
{
    if (run->sharding != NULL && run->sharding->scheme->at[moment] != NULL)
        run->sharding->scheme->at[moment](run, group);
}

static void before_backward(void *context, size_t group)
{
    vw__shard_at(context, VW__SHARD_BEFORE_BACKWARD, group);
}

static void after_backward(void *context, size_t group)
{
    vw__plan_run *run = context;
    vw__shard_at(run, VW__SHARD_AFTER_BACKWARD, group);
    run->sharding->groups[group].is_reduced = true;
}

static bool is_sharded(const vw__plan_run *run, size_t number)
{
    return run->sharding != NULL && number < run->sharding->group_count;
}

vw__tensor vw__shard_enter_block(vw__plan_run *run, size_t number, vw__tensor x)
{
    run->current_block = (uint32_t)number;
    if (!is_sharded(run, number))
        return vw__tensor_hold(run->tape, x);
    vw__shard_at(run, VW__SHARD_BEFORE_FORWARD, number);
    return vw__tape_hook(run->tape, x, after_backward, run, number);
}

vw__tensor vw__shard_leave_block(vw__plan_run *run, size_t number, vw__tensor x)
{
    run->current_block = 0;
    if (!is_sharded(run, number))
        return vw__tensor_hold(run->tape, x);
    vw__shard_at(run, VW__SHARD_AFTER_FORWARD, number);
    return vw__tape_hook(run->tape, x, before_backward, run, number);
}

void vw__shard_begin_backward(vw__plan_run *run)
{
    for (size_t i = 0; is_sharded(run, i); i++)
        run->sharding->groups[i].is_reduced = false;
    vw__shard_at(run, VW__SHARD_BEFORE_BACKWARD, 0);
}

/* A block whose argument wants no gradient has no hook there: its turn is now, with the root's. */
void vw__shard_end_backward(vw__plan_run *run)
{
    if (run->sharding == NULL)
        return;
    for (size_t i = run->sharding->group_count; i-- > 0;)
        if (!run->sharding->groups[i].is_reduced)
            after_backward(run, i);
    vw__shard_at(run, VW__SHARD_END_BACKWARD, 0);
}

/* ---- DistributedDataParallel ----------------------------------------------------------------- */

/* Gradients are copied to buckets, which are reduced as they fill. Without
 * gradient_as_bucket_view=True the buckets exist beside the gradients, from the beginning. */
static void make_buckets(vw__plan_run *run)
{
    enum { FIRST_BUCKET_BYTES = 1 << 20, BUCKET_BYTES = 25 << 20 };
    uint64_t limit = FIRST_BUCKET_BYTES, filled = 0;
    for (size_t i = vw__tape_parameter_count(run->tape); i-- > 0;) {
        filled += vw__tape_times(run->tape, vw__tape_parameter_elements(run->tape, i),
                                 vw__dtype_bytes(vw__tape_parameter_dtype(run->tape, i)));
        if (filled < limit && i > 0)
            continue;
        (void)vw__shard_take_for(run, filled, VW__DTYPE_BYTE,
                                 VW__TAPE_USE_GRADIENTS); /* until the run ends */
        filled = 0;
        limit = BUCKET_BYTES;
    }
}

void vw__shard_begin_data_parallel(vw__plan_run *run)
{
    const vw_plan_settings *settings = run->settings;
    if (settings->gpus > 1 && settings->sharding == VW_SHARDING_NONE &&
        settings->mode == VW_PLAN_MODE_TRAIN)
        make_buckets(run);
}

/* ---- which weight is in which group ---------------------------------------------------------- */

/* Model code does not say. A small forward pass (one sample of a few tokens) runs on a tape of its
 * own, and a watcher notes in which block an operator takes each weight. A weight that several
 * blocks take, or none, is the root's. */
enum { FEW_TOKENS = 8 };
static const uint32_t UNSEEN = UINT32_MAX;

typedef struct finder {
    vw__plan_run *run;
    uint32_t *group_of;
} finder;

/* Nothing is freed while weights are made, so their storages are in order. */
static size_t weight_of(const vw__plan_run *run, uint32_t storage)
{
    size_t low = 0, high = run->weight_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (run->weights[middle].full.storage < storage)
            low = middle + 1;
        else
            high = middle;
    }
    return low < run->weight_count && run->weights[low].full.storage == storage ? low
                                                                                : run->weight_count;
}

static void note(void *context, uint32_t storage)
{
    finder *of = context;
    size_t weight = weight_of(of->run, storage);
    if (weight == of->run->weight_count)
        return;
    uint32_t *group = &of->group_of[weight];
    *group = *group == UNSEEN || *group == of->run->current_block ? of->run->current_block : 0;
}

static vw_plan_settings small_settings(const vw_plan_settings *settings)
{
    vw_plan_settings small = *settings;
    small.mode = VW_PLAN_MODE_INFERENCE;
    small.batch = 1;
    small.sequence = settings->sequence < FEW_TOKENS ? settings->sequence : FEW_TOKENS;
    small.precision = VW_PRECISION_FP32;
    small.checkpointing = VW_CHECKPOINTING_NONE;
    small.attention = VW_ATTENTION_SDPA;
    small.loss_chunks = small.generate = small.padding = 0;
    small.has_fused_loss = false;
    return small;
}

static void search(vw__plan_run *run, finder *of, vw__arena *arena)
{
    run->model->family->build(run);
    if (vw__tape_status(run->tape) != VW_OK)
        return; /* where building failed there are no modules to run */
    of->group_of =
        vw__arena_alloc_array(arena, run->weight_count + 1, sizeof *of->group_of, sizeof(uint32_t));
    if (of->group_of == NULL) {
        vw__tape_fail(run->tape, vw__fail_host_memory(run->weight_count * sizeof *of->group_of,
                                                      "the blocks of a plan"));
        return;
    }
    for (size_t i = 0; i < run->weight_count; i++)
        of->group_of[i] = UNSEEN;
    vw__tape_watch(run->tape, note, of);
    vw__tensor result = run->model->family->forward(run);
    vw__tensor_drop(run->tape, &result);
    for (size_t i = 0; i < run->weight_count; i++)
        if (of->group_of[i] == UNSEEN)
            of->group_of[i] = 0;
}

vw_status vw__shard_find_groups(const vw_plan_model *model, const vw_plan_settings *settings,
                                vw__arena *arena, vw__shard_state *out)
{
    vw_plan_settings small = small_settings(settings);
    vw__plan_run run = {.model = model, .settings = &small, .has_loss = true};
    finder of = {.run = &run};
    VW__TRY(vw__tape_create(NULL, &run.tape));
    vw__tape_set_grad(run.tape, false);
    vw__arena_init(&run.arena, VW__PLAN_MOST_MODULE_BYTES);
    search(&run, &of, arena);
    vw_status status = vw__tape_status(run.tape);
    out->group_of = of.group_of;
    out->weight_count = run.weight_count;
    out->group_count = run.block_count + 1;
    out->groups = status != VW_OK ? NULL
                                  : vw__arena_alloc_array(arena, out->group_count,
                                                          sizeof *out->groups, sizeof(void *));
    if (status == VW_OK && out->groups == NULL)
        status =
            vw__fail_host_memory(out->group_count * sizeof *out->groups, "the blocks of a plan");
    vw__arena_deinit(&run.arena);
    vw__tape_destroy(run.tape);
    return status;
}
