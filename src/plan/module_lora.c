/* module_lora.c - adapters beside frozen weights, after PEFT. Weights in 4 bits: module_packed.c.
 *
 * A frozen weight's product does not save its argument; the adapter's does, and in the adapter's
 * own type, which is float32 whatever the model's is (PEFT's autocast_adapter_dtype). Several
 * adapted modules that read the same tensor each keep a copy of their own.
 *
 *   result = base(x) + lora_B(lora_A(x)) * scaling          (no dropout, PEFT's default)
 *
 * Before QLoRA trains, prepare_model_for_kbit_training() casts everything that is not quantized to
 * float32: norms, embeddings, the head, biases (plan_run.c). */
#include "plan/plan_run.h"

/* ---- adapters -------------------------------------------------------------------------------- */

static vw__op_linear_weights make_part(vw__plan_run *run, uint64_t in, uint64_t out)
{
    bool is_trained = run->settings->mode != VW_PLAN_MODE_INFERENCE;
    uint64_t elements = vw__tape_times(run->tape, in, out);
    return (vw__op_linear_weights){.in = in,
                                   .out = out,
                                   .bias = vw__tensor_none(),
                                   .weight = vw__module_make_weight_of(
                                       run, elements, (vw__tape_matrix){.rows = out, .width = in},
                                       VW__DTYPE_FLOAT32, is_trained)};
}

void vw__module_make_adapter(vw__plan_run *run, vw__module_linear *module)
{
    uint64_t rank = run->settings->lora_rank;
    module->is_adapted = true;
    module->lora_a = make_part(run, module->weights.in, rank);
    module->lora_b = make_part(run, rank, module->weights.out);
}

static vw__tensor apply_base(vw__plan_run *run, vw__tensor x, const vw__module_linear *module)
{
    if (!module->is_quantized)
        return vw__op_linear(run->tape, x, &module->weights);
    vw__tensor result = vw__module_apply_packed(run, x, module);
    vw__tensor_rebind(run->tape, &result, vw__op_contiguous(run->tape, result)); /* clone() */
    return result;
}

vw__tensor vw__module_apply_adapted(vw__plan_run *run, vw__tensor x,
                                    const vw__module_linear *module)
{
    vw__tape *tape = run->tape;
    vw__dtype autocast_dtype;
    bool keeps_type = module->is_quantized && vw__plan_is_autocast(run->settings, &autocast_dtype);
    vw__tensor result = apply_base(run, x, module);
    vw__dtype dtype = result.dtype;
    vw__tensor argument =
        keeps_type ? vw__tensor_hold(tape, x) : vw__op_to(tape, x, VW__DTYPE_FLOAT32);
    vw__tensor low = vw__op_linear(tape, argument, &module->lora_a);
    vw__tensor high = vw__op_linear(tape, low, &module->lora_b);
    vw__tensor_drop(tape, &low);
    vw__tensor_rebind(tape, &high, vw__op_mul_scalar(tape, high));
    if (module->is_quantized && !keeps_type)
        vw__tensor_rebind(tape, &high, vw__op_to(tape, high, dtype));
    vw__tensor sum = vw__op_add(tape, result, high);
    vw__tensor_drop(tape, &high);
    vw__tensor_rebind(tape, &result, sum);
    if (!module->is_quantized)
        vw__tensor_rebind(tape, &result, vw__op_to(tape, result, dtype));
    vw__tensor_drop(tape, &argument);
    return result;
}
