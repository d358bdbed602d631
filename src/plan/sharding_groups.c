/* sharding_groups.c - which block a weight belongs to.
 *
 * Model code says nothing of that, and need not: a small forward pass (one sample of a few tokens)
 * runs on a tape of its own, and a watcher notes in which block each weight is taken by an
 * operator. One that is taken by several, or by none, is the root's. */
#include "base/error.h"
#include "plan/sharding.h"

enum { FEW_TOKENS = 8 };
static const uint32_t UNSEEN = UINT32_MAX;

typedef struct finder {
    vw__sharding sharding; /* with the scheme below; first: found from it */
    vw__plan_run *run;
    uint32_t *group_of;
    uint32_t current;
} finder;

static finder *finder_of(vw__plan_run *run)
{
    return (finder *)(void *)run->sharding;
}

static void enter(vw__plan_run *run, size_t group)
{
    finder_of(run)->current = (uint32_t)group;
}

static void leave(vw__plan_run *run, size_t group)
{
    (void)group;
    finder_of(run)->current = 0;
}

static const vw__scheme finding = {
    .keeps_weights = true, .before_forward = enter, .after_forward = leave};

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
    if (of->group_of[weight] == UNSEEN)
        of->group_of[weight] = of->current;
    else if (of->group_of[weight] != of->current)
        of->group_of[weight] = 0;
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
    small.loss_chunks = small.generate = 0;
    return small;
}

/* The number of blocks is known afterwards: as many groups as a model could have are allowed for.
 */
static void search(vw__plan_run *run, finder *of, vw__arena *arena)
{
    run->model->family->build(run);
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
    vw__drop(run->tape, &result);
    for (size_t i = 0; i < run->weight_count; i++)
        if (of->group_of[i] == UNSEEN)
            of->group_of[i] = 0;
}

vw_status vw__find_groups(const vw_plan_model *model, const vw_plan_settings *settings,
                          vw__arena *arena, vw__sharding *out)
{
    vw_plan_settings small = small_settings(settings);
    vw__shard_group all = {.first_weight = UINT32_MAX};
    vw__plan_run run = {.model = model, .settings = &small, .has_loss = true};
    finder of = {
        .sharding = {.scheme = &finding, .groups = &all, .group_count = SIZE_MAX, .parts = 1},
        .run = &run};
    vw_status status = vw__tape_create(NULL, &run.tape);
    if (status != VW_OK)
        return status;
    vw__tape_set_grad(run.tape, false);
    vw__arena_init(&run.arena, VW__ARENA_NO_LIMIT);
    run.sharding = &of.sharding;
    search(&run, &of, arena);
    status = vw__tape_status(run.tape);
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
