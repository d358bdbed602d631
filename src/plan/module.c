/* module.c - the modules that model code is made of: parameters with a forward(). */
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "plan/plan_run.h"
#include "plan/sharding.h"

void *hr__run_alloc(hr__plan_run *run, size_t count, size_t item_bytes)
{
    static _Alignas(max_align_t) char nowhere[4096];
    void *memory = hr__arena_alloc_array(&run->arena, count, item_bytes, sizeof(max_align_t));
    if (memory != NULL)
        return memory;
    hr__tape_fail(run->tape, hr__fail_host_memory(count * item_bytes, "the modules of a plan"));
    return nowhere;
}

static void remember_weight(hr__plan_run *run, hr__weight weight)
{
    enum { FIRST_WEIGHTS = 32 };
    if (run->weight_count == run->weight_capacity) {
        size_t capacity = run->weight_capacity == 0 ? FIRST_WEIGHTS : 2 * run->weight_capacity;
        hr__weight *grown = hr__run_alloc(run, capacity, sizeof *grown);
        if (hr__tape_status(run->tape) != HR_OK)
            return;
        if (run->weight_count > 0)
            memcpy(grown, run->weights, run->weight_count * sizeof *grown);
        run->weights = grown;
        run->weight_capacity = capacity;
    }
    run->weights[run->weight_count++] = weight;
}

hr__tensor hr__make_weight_of(hr__plan_run *run, uint64_t elements, hr__matrix matrix,
                              hr__dtype dtype, bool is_trained)
{
    hr__weight made = {.shard = hr__no_tensor(), .next = UINT32_MAX};
    run->parameters += elements;
    run->trained_parameters += is_trained ? elements : 0;
    if (run->sharding != NULL)
        hr__sharding_make_weight(run, elements, matrix, dtype, is_trained, &made);
    else
        made.full = hr__parameter(run->tape, elements, dtype, is_trained);
    hr__tape_set_matrix(run->tape, made.full, matrix.rows, matrix.width);
    remember_weight(run, made);
    return made.full;
}

static bool is_trained(const hr_plan_settings *settings)
{
    return settings->mode != HR_PLAN_MODE_INFERENCE && settings->lora_rank == 0;
}

uint64_t hr__usual_positions(const hr_plan_model *model)
{
    return model->shape.positions;
}

hr__tensor hr__make_weight(hr__plan_run *run, uint64_t elements)
{
    return hr__make_weight_of(run, elements, (hr__matrix){.rows = 0}, run->dtype,
                              is_trained(run->settings));
}

hr__tensor hr__make_tables(hr__plan_run *run, uint64_t count, uint64_t rows, uint64_t width)
{
    uint64_t elements = hr__times(run->tape, count, hr__times(run->tape, rows, width));
    return hr__make_weight_of(run, elements, (hr__matrix){.rows = rows, .width = width}, run->dtype,
                              is_trained(run->settings));
}

hr__tensor hr__make_table(hr__plan_run *run, uint64_t rows, uint64_t width)
{
    return hr__make_tables(run, 1, rows, width);
}

hr__linear_module hr__make_linear(hr__plan_run *run, const char *name, uint64_t in, uint64_t out,
                                  bool has_bias, hr__linear_kind kind)
{
    hr__linear_module made = {.name = name};
    made.is_quantized = run->settings->is_quantized && kind != HR__LINEAR_HEAD;
    made.weights = (hr__linear_weights){.in = in, .out = out, .bias = hr__no_tensor()};
    made.weights.weight =
        made.is_quantized ? hr__make_packed_weight(run, in, out) : hr__make_table(run, out, in);
    if (has_bias)
        made.weights.bias = hr__make_weight(run, out);
    if (run->settings->lora_rank > 0 && kind == HR__LINEAR_ADAPTED)
        hr__make_adapter(run, &made);
    return made;
}

hr__linear_module hr__tied_head(hr__plan_run *run, hr__tensor table, uint64_t in, uint64_t out)
{
    (void)run;
    return (hr__linear_module){
        .name = "lm_head",
        .weights = {.weight = table, .bias = hr__no_tensor(), .in = in, .out = out}};
}

hr__tensor hr__apply_linear(hr__plan_run *run, hr__tensor x, const hr__linear_module *module)
{
    hr__enter(run->tape, module->name, -1);
    hr__tensor made = module->is_adapted     ? hr__apply_adapted(run, x, module)
                      : module->is_quantized ? hr__apply_packed(run, x, module)
                                             : hr__linear(run->tape, x, &module->weights);
    hr__leave(run->tape);
    return made;
}

hr__norm_module hr__make_norm(hr__plan_run *run, const char *name, uint64_t width, bool has_bias)
{
    hr__norm_module made = {.name = name, .width = width, .bias = hr__no_tensor()};
    made.weight = hr__make_weight(run, width);
    if (has_bias)
        made.bias = hr__make_weight(run, width);
    return made;
}

hr__tensor hr__apply_layer_norm(hr__plan_run *run, hr__tensor x, const hr__norm_module *module)
{
    uint64_t rows = module->width == 0 ? 0 : x.elements / module->width;
    hr__enter(run->tape, module->name, -1);
    hr__tensor made = hr__layer_norm(run->tape, x, module->weight, module->bias, rows);
    hr__leave(run->tape);
    return made;
}

hr__tensor hr__apply_rms_norm(hr__plan_run *run, hr__tensor x, const hr__norm_module *module)
{
    uint64_t rows = module->width == 0 ? 0 : x.elements / module->width;
    hr__enter(run->tape, module->name, -1);
    hr__tensor made = run->model->shape.has_fp32_norm_weights
                          ? hr__gemma_norm(run->tape, x, module->weight, rows)
                          : hr__rms_norm(run->tape, x, module->weight, rows);
    hr__leave(run->tape);
    return made;
}

hr__tensor hr__apply_t5_norm(hr__plan_run *run, hr__tensor x, const hr__norm_module *module)
{
    uint64_t rows = module->width == 0 ? 0 : x.elements / module->width;
    hr__enter(run->tape, module->name, -1);
    hr__tensor made = hr__t5_norm(run->tape, x, module->weight, rows);
    hr__leave(run->tape);
    return made;
}

hr__tensor hr__apply_activation(hr__plan_run *run, hr__tensor x)
{
    hr__tape *tape = run->tape;
    hr__tensor made = hr__no_tensor();
    hr__enter(tape, "act", -1);
    switch (run->model->shape.activation) {
    case HR__ACTIVATION_GELU:
        made = hr__gelu(tape, x);
        break;
    case HR__ACTIVATION_GELU_NEW:
        made = hr__gelu_new(tape, x);
        break;
    case HR__ACTIVATION_SILU:
        made = hr__silu(tape, x);
        break;
    case HR__ACTIVATION_RELU:
        made = hr__relu(tape, x);
        break;
    case HR__ACTIVATION_QUICK_GELU:
        made = hr__quick_gelu(tape, x);
        break;
    }
    hr__leave(tape);
    return made;
}

hr__tensor hr__apply_dropout(hr__plan_run *run, hr__tensor x, bool has_dropout)
{
    if (!run->is_training || !has_dropout)
        return hr__hold(run->tape, x);
    hr__enter(run->tape, "dropout", -1);
    hr__tensor made = hr__dropout(run->tape, x);
    hr__leave(run->tape);
    return made;
}

hr__tensor hr__apply_mlp(hr__plan_run *run, hr__tensor x, const hr__linear_module *inner,
                         const hr__linear_module *outer, bool has_dropout)
{
    hr__tape *tape = run->tape;
    hr__enter(tape, "mlp", -1);
    hr__tensor fed = hr__apply_linear(run, x, inner);
    hr__rebind(tape, &fed, hr__apply_activation(run, fed));
    hr__rebind(tape, &fed, hr__apply_linear(run, fed, outer));
    hr__rebind(tape, &fed, hr__apply_dropout(run, fed, has_dropout));
    hr__leave(tape);
    return fed;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef struct block_call {
    hr__plan_run *run;
    hr__block block;
    const void *layer;
} block_call;

static hr__tensor call_block(hr__tape *tape, void *context, hr__tensor x)
{
    (void)tape; /* the run's */
    const block_call *call = context;
    return call->block(call->run, call->layer, x);
}

static bool is_checkpointed(const hr_plan_settings *settings, size_t layer)
{
    return settings->checkpointing == HR_CHECKPOINTING_FULL ||
           (settings->checkpointing == HR_CHECKPOINTING_EVERY &&
            layer % settings->checkpoint_every == 0);
}

static hr__tensor run_block(hr__plan_run *run, block_call *call, size_t layer, hr__tensor x)
{
    if (run->settings->checkpointing == HR_CHECKPOINTING_SELECTIVE)
        return hr__checkpoint_selectively(run->tape, call_block, call, x);
    return is_checkpointed(run->settings, layer) ? hr__checkpoint(run->tape, call_block, call, x)
                                                 : call->block(run, call->layer, x);
}

/* With frozen embeddings nothing that enters a checkpoint would have a gradient: PEFT makes it so
 * (enable_input_require_grads()). */
static bool needs_gradient(const hr_plan_settings *settings)
{
    return settings->lora_rank > 0 && settings->checkpointing != HR_CHECKPOINTING_NONE;
}

hr__tensor hr__run_blocks(hr__plan_run *run, hr__block block, const void *layers,
                          size_t layer_bytes, size_t count, hr__tensor x)
{
    block_call *calls = hr__run_alloc(run, count, sizeof *calls);
    if (needs_gradient(run->settings))
        hr__rebind(run->tape, &x, hr__require_gradient(run->tape, x));
    for (size_t i = 0; i < count && hr__tape_status(run->tape) == HR_OK; i++) {
        calls[i] = (block_call){run, block, (const char *)layers + i * layer_bytes};
        size_t number = ++run->block_count;
        hr__enter(run->tape, "layer", (int64_t)i);
        hr__rebind(run->tape, &x, hr__sharding_enter_block(run, number, x));
        hr__rebind(run->tape, &x, run_block(run, &calls[i], i, x));
        hr__rebind(run->tape, &x, hr__sharding_leave_block(run, number, x));
        hr__leave(run->tape);
    }
    return x;
}
