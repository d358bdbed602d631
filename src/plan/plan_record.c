/* plan_record.c - planned steps as a recording, opened or in a file.
 *
 * The requests of the tape go to the real pool (playback.h). Annotations mark the steps, as
 * torch.profiler does. Stacks read like those of a program. A place of the tape ("layer 7",
 * "attention", "q_proj") becomes frames, the innermost first:
 *
 *   layer 7 / attention / q_proj   forward
 *   layer 7 / attention            forward
 *   layer 7                        forward
 *   torch/nn/modules/module.py     _call_impl
 *   plan                           train
 *
 * The frames of torch are those that a recording would have there: everything that reads stacks
 * (analysis/attribution.h) tells weights, forward, backward and optimizer apart by them, and needs
 * to know nothing of plans. */
#include <stdio.h> /* snprintf */
#include <string.h>

#include "vramwise/plan.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "plan/plan_events.h"
#include "plan/plan_settings.h"
#include "plan/playback.h"

/* ---- stacks ---------------------------------------------------------------------------------- */

enum { PASSES = 3, MOST_DEPTH = 24, MOST_OUTER = 4 };

/* A stack that was made already, and for which use. */
typedef struct known_stack {
    uint32_t id;
    uint8_t use;
    bool is_known;
} known_stack;

typedef struct stack_table {
    const vw__plan_events *events; /* borrowed */
    vw__playback *playback;        /* borrowed */
    const char *program;           /* function of the outermost frame: "train", "evaluate" */
    known_stack *known;            /* owned; by place and pass */
    vw__byte_buffer path;
} stack_table;

typedef struct outer_frame {
    const char *file, *function;
} outer_frame;

/* What a request is part of: its word, the name of a place that has none, and the frames around
 * it. */
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

/* Fills `chain` with the places from the innermost to the outermost, MOST_DEPTH at most. */
static size_t walk_out(const vw__tape *tape, uint32_t place, uint32_t chain[MOST_DEPTH])
{
    size_t depth = 0;
    for (; place != UINT32_MAX && depth < MOST_DEPTH; place = vw__tape_place(tape, place).parent)
        chain[depth++] = place;
    return depth;
}

/* The kind of a request outside of any pass, by its use. */
static const stack_kind *kind_of_preparation(vw__tape_use use)
{
    switch (use) {
    case VW__TAPE_USE_GRADIENTS:
        return &gradients_kind;
    case VW__TAPE_USE_OPTIMIZER:
        return &optimizer_kind;
    default:
        return &weights_kind;
    }
}

static const stack_kind *kind_of(const vw__plan_origin *origin, const vw__tape *tape,
                                 const uint32_t *chain, size_t depth)
{
    const char *root = depth > 0 ? vw__tape_place(tape, chain[depth - 1]).name : "";
    if (origin->use == VW__TAPE_USE_WORKSPACE)
        return &workspace_kind;
    if (origin->pass == VW__PLAN_PASS_AGAIN)
        return &again_kind;
    if (origin->pass == VW__PLAN_PASS_BACKWARD || strcmp(root, "backward") == 0)
        return &backward_kind;
    if (strcmp(root, "optimizer step") == 0)
        return &optimizer_kind;
    if (depth == 0 || strcmp(root, "model") == 0)
        return kind_of_preparation((vw__tape_use)origin->use);
    if (strcmp(vw__tape_place(tape, chain[0]).name, "cache") == 0)
        return &cache_kind;
    return origin->use == VW__TAPE_USE_DATA && depth == 1 ? &data_kind : &forward_kind;
}

static vw_status add_frame(stack_table *stacks, const char *file, const char *function,
                           uint32_t *id)
{
    return vw__playback_add_frame(stacks->playback, file, 0, function, id);
}

/* One frame for each place inside of the outermost, which is the pass itself. */
static vw_status add_places(stack_table *stacks, const uint32_t *chain, size_t count,
                            const stack_kind *kind, uint32_t *frame_ids, size_t *frame_count)
{
    if (count == 0)
        return add_frame(stacks, kind->nameless, kind->word, &frame_ids[(*frame_count)++]);
    for (size_t i = 0; i < count; i++) {
        vw__byte_buffer_clear(&stacks->path);
        vw__plan_append_place(&stacks->path, stacks->events->places, chain[i]);
        if (vw__byte_buffer_has_failed(&stacks->path))
            return vw__fail_host_memory(64, "the name of a place");
        VW__TRY(add_frame(stacks, vw__byte_buffer_text(&stacks->path), kind->word,
                          &frame_ids[(*frame_count)++]));
    }
    return VW_OK;
}

static vw_status make_stack(stack_table *stacks, const vw__plan_origin *origin, uint32_t *id)
{
    const vw__tape *places = stacks->events->places;
    uint32_t chain[MOST_DEPTH], frame_ids[MOST_DEPTH + MOST_OUTER + 1];
    size_t frame_count = 0;
    size_t depth = walk_out(places, origin->place, chain);
    const stack_kind *kind = kind_of(origin, places, chain, depth);
    VW__TRY(add_places(stacks, chain, depth > 0 ? depth - 1 : 0, kind, frame_ids, &frame_count));
    for (size_t i = 0; i < MOST_OUTER && kind->outer[i].file != NULL; i++)
        VW__TRY(add_frame(stacks, kind->outer[i].file, kind->outer[i].function,
                          &frame_ids[frame_count++]));
    VW__TRY(add_frame(stacks, "plan", stacks->program, &frame_ids[frame_count++]));
    return vw__model_add_stack(stacks->playback->builder, frame_ids, frame_count, id);
}

static vw_status stacks_init(stack_table *stacks, const vw__plan_events *events,
                             const char *program, vw__playback *playback)
{
    size_t count = (vw__tape_place_count(events->places) + 1) * PASSES; /* 0: outside of any */
    *stacks = (stack_table){.events = events, .playback = playback, .program = program};
    vw__byte_buffer_init(&stacks->path);
    stacks->known = vw__host_alloc_zeroed(count, sizeof *stacks->known);
    return stacks->known != NULL
               ? VW_OK
               : vw__fail_host_memory(count * sizeof *stacks->known, "the stacks of a plan");
}

static void stacks_deinit(stack_table *stacks)
{
    vw__host_free(stacks->known);
    vw__byte_buffer_deinit(&stacks->path);
}

static vw_status stack_of(stack_table *stacks, const vw__plan_origin *origin, uint32_t *id)
{
    size_t place = origin->place == UINT32_MAX ? 0 : (size_t)origin->place + 1;
    known_stack *known = &stacks->known[place * PASSES + origin->pass];
    if (!known->is_known || known->use != origin->use) {
        VW__TRY(make_stack(stacks, origin, &known->id));
        known->use = origin->use;
        known->is_known = true;
    }
    *id = known->id;
    return VW_OK;
}

/* ---- playing --------------------------------------------------------------------------------- */

#define MADE_UP "planned by vramwise: nothing was measured, times are made up"

typedef struct recording {
    const vw__plan_events *events;
    vw__playback playback;
    stack_table stacks;
    vw_device_ptr *addresses; /* owned; by slot */
} recording;

static vw_status play_alloc(recording *r, size_t op)
{
    const vw__script_op *request = &r->events->script.ops[op];
    uint32_t stack;
    VW__TRY(stack_of(&r->stacks, &r->events->origins[op], &stack));
    return vw__playback_alloc(&r->playback, request->size_bytes, stack,
                              &r->addresses[request->slot]);
}

static vw_status play(recording *r, size_t begin, size_t end)
{
    const vw__script_op *ops = r->events->script.ops;
    for (size_t i = begin; i < end; i++)
        VW__TRY(ops[i].kind == VW__SCRIPT_ALLOC
                    ? play_alloc(r, i)
                    : vw__playback_free(&r->playback, r->addresses[ops[i].slot]));
    return VW_OK;
}

static vw_status play_step(recording *r, size_t number, bool is_training)
{
    const vw__plan_step *step = &r->events->steps[number];
    char name[40];
    (void)snprintf(name, sizeof name, "ProfilerStep#%zu", number);
    if (is_training)
        VW__TRY(vw__playback_begin(&r->playback, name));
    VW__TRY(play(r, step->begin, step->end));
    return is_training ? vw__playback_end(&r->playback, name) : VW_OK;
}

static vw_status play_all(recording *r, bool is_training)
{
    const vw__plan_events *events = r->events;
    size_t next = 0;
    for (size_t i = 0; i < events->step_count; i++) {
        VW__TRY(play(r, next, events->steps[i].begin));
        VW__TRY(play_step(r, i, is_training));
        next = events->steps[i].end;
    }
    return play(r, next, events->script.op_count);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static vw_status start(recording *r, const char *program)
{
    size_t slot_count = r->events->script.slot_count;
    VW__TRY(vw__playback_start(&r->playback, SIZE_MAX, MADE_UP));
    VW__TRY(stacks_init(&r->stacks, r->events, program, &r->playback));
    r->addresses = vw__host_alloc_zeroed(slot_count, sizeof *r->addresses);
    return r->addresses != NULL
               ? VW_OK
               : vw__fail_host_memory(slot_count * sizeof *r->addresses, "the blocks of a plan");
}

static vw_status record(const vw__plan_events *events, bool is_training, vw__model **out)
{
    recording r = {.events = events};
    vw_status status = start(&r, is_training ? "train" : "evaluate");
    if (status == VW_OK)
        status = play_all(&r, is_training);
    if (status == VW_OK)
        status = vw__playback_finish(&r.playback, MADE_UP, out);
    vw__playback_deinit(&r.playback);
    vw__host_free(r.addresses);
    stacks_deinit(&r.stacks);
    return status;
}

static vw_status make_model(const vw_plan_model *model, const vw_plan_settings *settings,
                            vw__model **out)
{
    vw_plan_settings checked;
    vw__plan_events events;
    if (model == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no model for the plan");
    VW__TRY(vw__plan_settings_check(model, settings, &checked));
    VW__TRY(vw__plan_events_make(model, &checked, VW__PLAN_RECORDED_STEPS, &events));
    vw_status status = record(&events, checked.mode == VW_PLAN_MODE_TRAIN, out);
    vw__plan_events_deinit(&events);
    return status;
}

vw_status vw_plan_record(const vw_plan_model *model, const vw_plan_settings *settings,
                         vw_recording **out)
{
    vw__model *made;
    if (out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no place for the recording");
    VW__TRY(make_model(model, settings, &made));
    return vw__playback_open(made, out);
}

vw_status vw_plan_write_recording(const vw_plan_model *model, const vw_plan_settings *settings,
                                  const char *path)
{
    vw__model *made;
    if (path == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no path for the planned step");
    VW__TRY(make_model(model, settings, &made));
    vw_status status = vw__playback_write(made, path);
    vw__model_destroy(made);
    return status;
}
