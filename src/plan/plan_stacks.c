/* plan_stacks.c - see plan_stacks.h. */
#include "plan/plan_stacks.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"

enum { PASSES = 3, MOST_DEPTH = 24, MOST_OUTER = 4 };

/* One that was made already, and for which use. */
struct vw__plan_stack {
    uint32_t id;
    uint8_t use;
    bool is_known;
};

typedef struct outer_frame {
    const char *file, *function;
} outer_frame;

/* What a request is a part of: the word for it, what a place without a name is called, and the
 * frames around it. */
typedef struct stack_kind {
    const char *word;
    const char *nameless;
    outer_frame outer[MOST_OUTER];
} stack_kind;

static const stack_kind weights_kind = {
    "weights", "model", {{"torch/nn/modules/module.py", "_apply"}}};
static const stack_kind forward_kind = {
    "forward", "model", {{"torch/nn/modules/module.py", "_call_impl"}}};
static const stack_kind backward_kind = {
    "backward",
    "model",
    {{"torch/autograd/graph.py", "_engine_run_backward"}, {"torch/_tensor.py", "backward"}}};
static const stack_kind again_kind = {"recompute",
                                      "model",
                                      {{"torch/nn/modules/module.py", "_call_impl"},
                                       {"torch/utils/checkpoint.py", "recompute_fn"},
                                       {"torch/autograd/graph.py", "_engine_run_backward"},
                                       {"torch/_tensor.py", "backward"}}};
static const stack_kind optimizer_kind = {
    "step", "optimizer", {{"torch/optim/optimizer.py", "step"}}};
static const stack_kind gradients_kind = {
    "gradients", "model", {{"torch/nn/parallel/distributed.py", "_ddp_init_helper"}}};
static const stack_kind cache_kind = {
    "update",
    "cache",
    {{"transformers/cache_utils.py", "update"}, {"torch/nn/modules/module.py", "_call_impl"}}};
static const stack_kind data_kind = {"send_to_device", "batch", {{NULL, NULL}}};
static const stack_kind workspace_kind = {
    "workspace", "cuBLAS", {{"libcublas.so", "cublasSetWorkspace"}}};

/* ---- what a request is a part of ------------------------------------------------------------- */

/* Places from the innermost to the outermost; how many there are, MOST_DEPTH at most. */
static size_t walk_out(const vw__tape *tape, uint32_t place, vw__place chain[MOST_DEPTH])
{
    size_t depth = 0;
    for (; place != UINT32_MAX && depth < MOST_DEPTH; depth++) {
        chain[depth] = vw__tape_place(tape, place);
        place = chain[depth].parent;
    }
    return depth;
}

/* Outside of any pass, by what it is for. */
static const stack_kind *kind_of_preparation(vw__use use)
{
    switch (use) {
    case VW__USE_GRADIENTS:
        return &gradients_kind;
    case VW__USE_OPTIMIZER:
        return &optimizer_kind;
    default:
        return &weights_kind;
    }
}

static const stack_kind *kind_of(const vw__plan_origin *origin, const vw__place *chain,
                                 size_t depth)
{
    const char *root = depth > 0 ? chain[depth - 1].name : "";
    if (origin->use == VW__USE_WORKSPACE)
        return &workspace_kind;
    if (origin->pass == VW__PLAN_PASS_AGAIN)
        return &again_kind;
    if (origin->pass == VW__PLAN_PASS_BACKWARD || strcmp(root, "backward") == 0)
        return &backward_kind;
    if (strcmp(root, "optimizer step") == 0)
        return &optimizer_kind;
    if (depth == 0 || strcmp(root, "model") == 0)
        return kind_of_preparation((vw__use)origin->use);
    if (strcmp(chain[0].name, "cache") == 0)
        return &cache_kind;
    return origin->use == VW__USE_DATA && depth == 1 ? &data_kind : &forward_kind;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static vw_status add_frame(vw__plan_stacks *stacks, const char *file, const char *function,
                           uint32_t *id)
{
    vw__model_frame frame = {.line = 0};
    VW__TRY(vw__model_add_string(stacks->builder, function, strlen(function), &frame.name));
    VW__TRY(vw__model_add_string(stacks->builder, file, strlen(file), &frame.filename));
    return vw__model_add_frame(stacks->builder, &frame, id);
}

/* "layer 7 / attention": from the outermost of `count` places to the innermost. */
static vw_status write_path(vw__plan_stacks *stacks, const vw__place *places, size_t count)
{
    vw__byte_buffer *path = &stacks->path;
    vw__byte_buffer_clear(path);
    for (size_t i = count; i-- > 0;) {
        vw__append_text(path, places[i].name);
        if (places[i].number >= 0)
            vw__append_format(path, " %" PRId64, places[i].number);
        if (i > 0)
            vw__append_text(path, " / ");
    }
    return vw__byte_buffer_has_failed(path) ? vw__fail_host_memory(64, "the name of a place")
                                            : VW_OK;
}

/* Inside the outermost place, which is the pass itself: one frame for each. */
static vw_status add_places(vw__plan_stacks *stacks, const vw__place *chain, size_t count,
                            const stack_kind *kind, uint32_t *frame_ids, size_t *frame_count)
{
    if (count == 0)
        return add_frame(stacks, kind->nameless, kind->word, &frame_ids[(*frame_count)++]);
    for (size_t i = 0; i < count; i++) {
        VW__TRY(write_path(stacks, &chain[i], count - i));
        VW__TRY(add_frame(stacks, vw__byte_buffer_text(&stacks->path), kind->word,
                          &frame_ids[(*frame_count)++]));
    }
    return VW_OK;
}

static vw_status make_stack(vw__plan_stacks *stacks, const vw__plan_origin *origin, uint32_t *id)
{
    vw__place chain[MOST_DEPTH];
    uint32_t frame_ids[MOST_DEPTH + MOST_OUTER + 1];
    size_t frame_count = 0;
    size_t depth = walk_out(stacks->events->places, origin->place, chain);
    const stack_kind *kind = kind_of(origin, chain, depth);
    VW__TRY(add_places(stacks, chain, depth > 0 ? depth - 1 : 0, kind, frame_ids, &frame_count));
    for (size_t i = 0; i < MOST_OUTER && kind->outer[i].file != NULL; i++)
        VW__TRY(add_frame(stacks, kind->outer[i].file, kind->outer[i].function,
                          &frame_ids[frame_count++]));
    VW__TRY(add_frame(stacks, "plan", stacks->program, &frame_ids[frame_count++]));
    return vw__model_add_stack(stacks->builder, frame_ids, frame_count, id);
}

/* ---- the table ------------------------------------------------------------------------------- */

vw_status vw__plan_stacks_init(vw__plan_stacks *stacks, const vw__plan_events *events,
                               const char *program, vw__model_builder *builder)
{
    size_t count = (vw__tape_place_count(events->places) + 1) * PASSES; /* 0: outside of any */
    *stacks = (vw__plan_stacks){.events = events, .builder = builder, .program = program};
    vw__byte_buffer_init(&stacks->path);
    stacks->known = vw__host_alloc_zeroed(count, sizeof *stacks->known);
    return stacks->known != NULL
               ? VW_OK
               : vw__fail_host_memory(count * sizeof *stacks->known, "the stacks of a plan");
}

void vw__plan_stacks_deinit(vw__plan_stacks *stacks)
{
    vw__host_free(stacks->known);
    vw__byte_buffer_deinit(&stacks->path);
}

vw_status vw__plan_stack_of(vw__plan_stacks *stacks, const vw__plan_origin *origin, uint32_t *id)
{
    size_t place = origin->place == UINT32_MAX ? 0 : (size_t)origin->place + 1;
    struct vw__plan_stack *known = &stacks->known[place * PASSES + origin->pass];
    if (!known->is_known || known->use != origin->use) {
        VW__TRY(make_stack(stacks, origin, &known->id));
        known->use = origin->use;
        known->is_known = true;
    }
    *id = known->id;
    return VW_OK;
}
