/* module_lora.c - adapters beside frozen weights, after PEFT, and frozen weights in 4 bits, after
 * bitsandbytes.
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

enum { VALUES_PER_BYTE = 2, BLOCK_VALUES = 64, SCALES_PER_BLOCK = 256, CODE_VALUES = 16 };

static uint64_t divide_up(uint64_t value, uint64_t by)
{
    return value / by + (value % by > 0);
}

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

/* ---- four bits ------------------------------------------------------------------------------- */

/* The packed values; a byte of scale for each 64 of them, and a float32 scale for each 256 of those
 * scales, with the tables both stand for and an offset. 0.516 bytes a parameter. The values are a
 * weight, which GPUs may share; the rest is the weight's own state, which each of them has. */
vw__tensor vw__module_make_packed_weight(vw__plan_run *run, uint64_t in, uint64_t out)
{
    vw__tape *tape = run->tape;
    uint64_t elements = vw__tape_times(tape, in, out);
    uint64_t scales = divide_up(elements, BLOCK_VALUES);
    uint64_t parameters = run->parameters;
    vw__tensor packed =
        vw__module_make_weight_of(run, divide_up(elements, VALUES_PER_BYTE),
                                  (vw__tape_matrix){.rows = 0}, VW__DTYPE_BYTE, false);
    run->parameters = parameters + elements; /* and not the bytes of them */
    (void)vw__tape_parameter(tape, scales, VW__DTYPE_BYTE, false);
    (void)vw__tape_parameter(tape, divide_up(scales, SCALES_PER_BLOCK), VW__DTYPE_FLOAT32, false);
    (void)vw__tape_parameter(tape, CODE_VALUES, VW__DTYPE_FLOAT32, false);
    (void)vw__tape_parameter(tape, 1, VW__DTYPE_FLOAT32, false);
    return packed;
}

/* The weight as it was, for one product: its scales in float32, and itself. */
static void take_unpacked(vw__tape *tape, uint64_t elements, vw__dtype dtype)
{
    uint16_t scales = vw__node_take(tape, divide_up(elements, BLOCK_VALUES), VW__DTYPE_FLOAT32);
    uint16_t unpacked = vw__node_take(tape, elements, dtype);
    vw__node_let_go(tape, scales);
    (void)unpacked; /* until the derivative ends */
}

static vw__tensor packed_product(vw__tape *tape, vw__tensor x, const vw__op_linear_weights *weights)
{
    uint64_t elements = vw__tape_times(tape, weights->in, weights->out);
    uint64_t rows = weights->in == 0 ? 0 : x.elements / weights->in;
    vw__node_begin(tape, (vw__tensor[]){x, weights->weight}, 2);
    vw__tensor scales = vw__tensor_new(tape, divide_up(elements, BLOCK_VALUES), VW__DTYPE_FLOAT32);
    vw__tensor unpacked = vw__tensor_new(tape, elements, x.dtype);
    vw__tensor_drop(tape, &scales);
    vw__tensor made =
        vw__tensor_new_result(tape, vw__tape_times(tape, rows, weights->out), x.dtype);
    vw__tensor_drop(tape, &unpacked);
    take_unpacked(tape, elements, x.dtype);
    vw__node_take_for(tape, 0, x.elements, x.dtype);
    vw__node_end(tape, &made, 1);
    return made;
}

vw__tensor vw__module_apply_packed(vw__plan_run *run, vw__tensor x, const vw__module_linear *module)
{
    vw__tape *tape = run->tape;
    vw__tensor argument = vw__op_to(tape, x, run->compute_dtype);
    vw__tensor bias = vw__op_to(tape, module->weights.bias, run->compute_dtype);
    vw__tensor made = packed_product(tape, argument, &module->weights);
    vw__tensor_drop(tape, &bias);
    vw__tensor_rebind(tape, &made, vw__op_to(tape, made, x.dtype));
    vw__tensor_drop(tape, &argument);
    return made;
}
