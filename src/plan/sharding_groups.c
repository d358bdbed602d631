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
    hr__sharding sharding; /* with the scheme below; first: found from it */
    hr__plan_run *run;
    uint32_t *group_of;
    uint32_t current;
} finder;

static finder *finder_of(hr__plan_run *run)
{
    return (finder *)(void *)run->sharding;
}

static void enter(hr__plan_run *run, size_t group)
{
    finder_of(run)->current = (uint32_t)group;
}

static void leave(hr__plan_run *run, size_t group)
{
    (void)group;
    finder_of(run)->current = 0;
}

static const hr__scheme finding = {
    .keeps_weights = true, .before_forward = enter, .after_forward = leave};

/* Nothing is freed while weights are made, so their storages are in order. */
static size_t weight_of(const hr__plan_run *run, uint32_t storage)
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

static hr_plan_settings small_settings(const hr_plan_settings *settings)
{
    hr_plan_settings small = *settings;
    small.mode = HR_PLAN_MODE_INFERENCE;
    small.batch = 1;
    small.sequence = settings->sequence < FEW_TOKENS ? settings->sequence : FEW_TOKENS;
    small.precision = HR_PRECISION_FP32;
    small.checkpointing = HR_CHECKPOINTING_NONE;
    small.attention = HR_ATTENTION_SDPA;
    small.loss_chunks = small.generate = 0;
    return small;
}

/* The number of blocks is known afterwards: as many groups as a model could have are allowed for.
 */
static void search(hr__plan_run *run, finder *of, hr__arena *arena)
{
    run->model->family->build(run);
    of->group_of =
        hr__arena_alloc_array(arena, run->weight_count + 1, sizeof *of->group_of, sizeof(uint32_t));
    if (of->group_of == NULL) {
        hr__tape_fail(run->tape, hr__fail_host_memory(run->weight_count * sizeof *of->group_of,
                                                      "the blocks of a plan"));
        return;
    }
    for (size_t i = 0; i < run->weight_count; i++)
        of->group_of[i] = UNSEEN;
    hr__tape_watch(run->tape, note, of);
    hr__tensor result = run->model->family->forward(run);
    hr__drop(run->tape, &result);
    for (size_t i = 0; i < run->weight_count; i++)
        if (of->group_of[i] == UNSEEN)
            of->group_of[i] = 0;
}

hr_status hr__find_groups(const hr_plan_model *model, const hr_plan_settings *settings,
                          hr__arena *arena, hr__sharding *out)
{
    hr_plan_settings small = small_settings(settings);
    hr__shard_group all = {.first_weight = UINT32_MAX};
    hr__plan_run run = {.model = model, .settings = &small, .has_loss = true};
    finder of = {
        .sharding = {.scheme = &finding, .groups = &all, .group_count = SIZE_MAX, .parts = 1},
        .run = &run};
    hr_status status = hr__tape_create(NULL, &run.tape);
    if (status != HR_OK)
        return status;
    hr__tape_set_grad(run.tape, false);
    hr__arena_init(&run.arena, HR__ARENA_NO_LIMIT);
    run.sharding = &of.sharding;
    search(&run, &of, arena);
    status = hr__tape_status(run.tape);
    out->group_of = of.group_of;
    out->weight_count = run.weight_count;
    out->group_count = run.block_count + 1;
    out->groups = status != HR_OK ? NULL
                                  : hr__arena_alloc_array(arena, out->group_count,
                                                          sizeof *out->groups, sizeof(void *));
    if (status == HR_OK && out->groups == NULL)
        status =
            hr__fail_host_memory(out->group_count * sizeof *out->groups, "the blocks of a plan");
    hr__arena_deinit(&run.arena);
    hr__tape_destroy(run.tape);
    return status;
}
