/* module.c - modules: parameters with a forward(). */
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "plan/plan_run.h"
#include "plan/sharding.h"

void *vw__module_alloc(vw__plan_run *run, size_t count, size_t item_bytes)
{
    static _Alignas(max_align_t) char nowhere[4096];
    void *memory = vw__arena_alloc_array(&run->arena, count, item_bytes, sizeof(max_align_t));
    if (memory != NULL)
        return memory;
    if (run->arena.has_hit_limit)
        vw__tape_fail_limit(run->tape, run->arena.limit_bytes);
    else
        vw__tape_fail(run->tape, vw__fail_host_memory(count * item_bytes, "the modules of a plan"));
    return nowhere;
}

static void remember_weight(vw__plan_run *run, vw__plan_weight weight)
{
    enum { FIRST_WEIGHTS = 32 };
    if (run->weight_count == run->weight_capacity) {
        size_t capacity = run->weight_capacity == 0 ? FIRST_WEIGHTS : 2 * run->weight_capacity;
        vw__plan_weight *grown = vw__module_alloc(run, capacity, sizeof *grown);
        if (vw__tape_status(run->tape) != VW_OK)
            return;
        if (run->weight_count > 0)
            memcpy(grown, run->weights, run->weight_count * sizeof *grown);
        run->weights = grown;
        run->weight_capacity = capacity;
    }
    run->weights[run->weight_count++] = weight;
}

vw__tensor vw__module_make_weight_of(vw__plan_run *run, uint64_t elements, vw__tape_matrix matrix,
                                     vw__dtype dtype, bool is_trained)
{
    vw__plan_weight made = {.shard = vw__tensor_none(), .next = UINT32_MAX};
    run->parameters += elements;
    run->trained_parameters += is_trained ? elements : 0;
    if (run->sharding != NULL)
        vw__shard_make_weight(run, elements, dtype, is_trained, &made);
    else
        made.full = vw__tape_parameter(run->tape, elements, dtype, is_trained);
    vw__tape_set_matrix(run->tape, made.full, matrix.rows, matrix.width);
    remember_weight(run, made);
    return made.full;
}

static bool is_trained(const vw_plan_settings *settings)
{
    return settings->mode != VW_PLAN_MODE_INFERENCE && settings->lora_rank == 0;
}

vw__tensor vw__module_make_weight(vw__plan_run *run, uint64_t elements)
{
    return vw__module_make_weight_of(run, elements, (vw__tape_matrix){.rows = 0}, run->dtype,
                                     is_trained(run->settings));
}

vw__tensor vw__module_make_buffer(vw__plan_run *run, uint64_t elements, vw__dtype dtype)
{
    vw__tape_use before = vw__tape_set_use(run->tape, VW__TAPE_USE_WEIGHTS);
    vw__tensor made = vw__tensor_new(run->tape, elements, dtype);
    vw__tape_set_use(run->tape, before);
    return made;
}

vw__tensor vw__module_make_tables(vw__plan_run *run, uint64_t count, uint64_t rows, uint64_t width)
{
    uint64_t elements = vw__tape_times(run->tape, count, vw__tape_times(run->tape, rows, width));
    return vw__module_make_weight_of(run, elements, (vw__tape_matrix){.rows = rows, .width = width},
                                     run->dtype, is_trained(run->settings));
}

vw__tensor vw__module_make_table(vw__plan_run *run, uint64_t rows, uint64_t width)
{
    return vw__module_make_tables(run, 1, rows, width);
}

static bool is_head(vw__module_linear_kind kind)
{
    return kind == VW__MODULE_LINEAR_HEAD || kind == VW__MODULE_LINEAR_NEW;
}

vw__module_linear vw__module_make_linear(vw__plan_run *run, const char *name, uint64_t in,
                                         uint64_t out, bool has_bias, vw__module_linear_kind kind)
{
    const bool has_gradient = kind == VW__MODULE_LINEAR_NEW
                                  ? run->settings->mode != VW_PLAN_MODE_INFERENCE
                                  : is_trained(run->settings);
    vw__module_linear made = {.name = name};
    made.is_quantized = run->quantization.method != VW__PLAN_NOT_QUANTIZED && !is_head(kind);
    made.weights = (vw__op_linear_weights){.in = in, .out = out, .bias = vw__tensor_none()};
    made.weights.weight =
        made.is_quantized ? vw__module_make_packed_weight(run, in, out)
                          : vw__module_make_weight_of(run, vw__tape_times(run->tape, in, out),
                                                      (vw__tape_matrix){.rows = out, .width = in},
                                                      run->dtype, has_gradient);
    if (has_bias)
        made.weights.bias = vw__module_make_weight_of(run, out, (vw__tape_matrix){.rows = 0},
                                                      run->dtype, has_gradient);
    if (run->settings->lora_rank > 0 && vw__module_is_lora_target(run, name, kind))
        vw__module_make_adapter(run, &made);
    return made;
}

vw__module_linear vw__module_tied_head(vw__plan_run *run, vw__tensor table, uint64_t in,
                                       uint64_t out)
{
    (void)run;
    return (vw__module_linear){
        .name = "lm_head",
        .weights = {.weight = table, .bias = vw__tensor_none(), .in = in, .out = out}};
}

vw__tensor vw__module_apply_linear(vw__plan_run *run, vw__tensor x, const vw__module_linear *module)
{
    vw__tape_enter(run->tape, module->name, -1);
    vw__tensor made = module->is_adapted     ? vw__module_apply_adapted(run, x, module)
                      : module->is_quantized ? vw__module_apply_packed(run, x, module)
                                             : vw__op_linear(run->tape, x, &module->weights);
    vw__tape_leave(run->tape);
    return made;
}

vw__module_norm vw__module_make_norm(vw__plan_run *run, const char *name, uint64_t width,
                                     vw__module_norm_kind kind)
{
    vw__module_norm made = {.name = name, .width = width, .kind = kind, .bias = vw__tensor_none()};
    made.weight =
        kind == VW__MODULE_NORM_PLAIN ? vw__tensor_none() : vw__module_make_weight(run, width);
    if (kind == VW__MODULE_NORM_LAYER)
        made.bias = vw__module_make_weight(run, width);
    return made;
}

static vw__tensor normalize(vw__tape *tape, vw__tensor x, const vw__module_norm *module)
{
    const uint64_t rows = module->width == 0 ? 0 : x.elements / module->width;
    switch (module->kind) {
    case VW__MODULE_NORM_RMS:
        return vw__op_rms_norm(tape, x, module->weight, rows);
    case VW__MODULE_NORM_GEMMA:
        return vw__op_gemma_norm(tape, x, module->weight, rows);
    case VW__MODULE_NORM_T5:
        return vw__op_t5_norm(tape, x, module->weight, rows);
    case VW__MODULE_NORM_RMS_LATE:
        return vw__op_late_rms_norm(tape, x, module->weight, rows);
    case VW__MODULE_NORM_COHERE:
        return vw__op_cohere_norm(tape, x, module->weight, rows);
    case VW__MODULE_NORM_PLAIN:
        return vw__op_plain_norm(tape, x, rows);
    case VW__MODULE_NORM_LAYER:
    case VW__MODULE_NORM_LAYER_UNBIASED:
        break;
    }
    return vw__op_layer_norm(tape, x, module->weight, module->bias, rows);
}

vw__tensor vw__module_apply_norm(vw__plan_run *run, vw__tensor x, const vw__module_norm *module)
{
    vw__tape_enter(run->tape, module->name, -1);
    vw__tensor made = normalize(run->tape, x, module);
    vw__tape_leave(run->tape);
    return made;
}

vw__tensor vw__module_apply_activation(vw__plan_run *run, vw__tensor x)
{
    vw__tape *tape = run->tape;
    vw__tensor made = vw__tensor_none();
    vw__tape_enter(tape, "act", -1);
    switch (run->model->shape.mlp.activation) {
    case VW__PLAN_ACTIVATION_GELU:
        made = vw__op_gelu(tape, x);
        break;
    case VW__PLAN_ACTIVATION_GELU_NEW:
        made = vw__op_gelu_new(tape, x);
        break;
    case VW__PLAN_ACTIVATION_SILU:
        made = vw__op_silu(tape, x);
        break;
    case VW__PLAN_ACTIVATION_RELU:
        made = vw__op_relu(tape, x);
        break;
    case VW__PLAN_ACTIVATION_QUICK_GELU:
        made = vw__op_quick_gelu(tape, x);
        break;
    case VW__PLAN_ACTIVATION_BLOOM_GELU:
        made = vw__op_bloom_gelu(tape, x);
        break;
    }
    vw__tape_leave(tape);
    return made;
}

vw__tensor vw__module_apply_dropout(vw__plan_run *run, vw__tensor x, bool has_dropout)
{
    if (!run->is_training || !has_dropout)
        return vw__tensor_hold(run->tape, x);
    vw__tape_enter(run->tape, "dropout", -1);
    vw__tensor made = vw__op_dropout(run->tape, x);
    vw__tape_leave(run->tape);
    return made;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef struct block_call {
    vw__plan_run *run;
    vw__module_block block;
    const void *layer;
} block_call;

static vw__tensor call_block(vw__tape *tape, void *context, vw__tensor x)
{
    (void)tape; /* the run's */
    const block_call *call = context;
    return call->block(call->run, call->layer, x);
}

static bool is_checkpointed(const vw_plan_settings *settings, size_t layer)
{
    return settings->checkpointing == VW_CHECKPOINTING_FULL ||
           (settings->checkpointing == VW_CHECKPOINTING_EVERY &&
            layer % settings->checkpoint_every == 0);
}

static vw__tensor run_block(vw__plan_run *run, block_call *call, size_t layer, vw__tensor x)
{
    if (run->settings->checkpointing == VW_CHECKPOINTING_SELECTIVE)
        return vw__tape_checkpoint_selectively(run->tape, call_block, call, x);
    return is_checkpointed(run->settings, layer)
               ? vw__tape_checkpoint(run->tape, call_block, call, x)
               : call->block(run, call->layer, x);
}

/* With frozen embeddings no input of a checkpoint has a gradient: PEFT gives it one
 * (enable_input_require_grads()). */
static bool needs_gradient(const vw_plan_settings *settings)
{
    return settings->lora_rank > 0 && settings->checkpointing != VW_CHECKPOINTING_NONE;
}

vw__tensor vw__module_run_blocks(vw__plan_run *run, vw__module_block block, const void *layers,
                                 size_t layer_bytes, size_t count, vw__tensor x)
{
    block_call *calls = vw__module_alloc(run, count, sizeof *calls);
    if (needs_gradient(run->settings))
        vw__tensor_rebind(run->tape, &x, vw__tape_require_gradient(run->tape, x));
    for (size_t i = 0; i < count && vw__tape_status(run->tape) == VW_OK; i++) {
        calls[i] = (block_call){run, block, (const char *)layers + i * layer_bytes};
        size_t number = ++run->block_count;
        vw__tape_enter(run->tape, "layer", (int64_t)i);
        vw__tensor_rebind(run->tape, &x, vw__shard_enter_block(run, number, x));
        vw__tensor_rebind(run->tape, &x, run_block(run, &calls[i], i, x));
        vw__tensor_rebind(run->tape, &x, vw__shard_leave_block(run, number, x));
        vw__tape_leave(run->tape);
    }
    return x;
}
