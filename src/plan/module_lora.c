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

static vw__linear_weights make_part(vw__plan_run *run, uint64_t in, uint64_t out)
{
    bool is_trained = run->settings->mode != VW_PLAN_MODE_INFERENCE;
    uint64_t elements = vw__times(run->tape, in, out);
    return (vw__linear_weights){.in = in,
                                .out = out,
                                .bias = vw__no_tensor(),
                                .weight = vw__make_weight_of(run, elements,
                                                             (vw__matrix){.rows = out, .width = in},
                                                             VW__FLOAT32, is_trained)};
}

void vw__make_adapter(vw__plan_run *run, vw__linear_module *module)
{
    uint64_t rank = run->settings->lora_rank;
    module->is_adapted = true;
    module->lora_a = make_part(run, module->weights.in, rank);
    module->lora_b = make_part(run, rank, module->weights.out);
}

static vw__tensor apply_base(vw__plan_run *run, vw__tensor x, const vw__linear_module *module)
{
    if (!module->is_quantized)
        return vw__linear(run->tape, x, &module->weights);
    vw__tensor result = vw__apply_packed(run, x, module);
    vw__rebind(run->tape, &result, vw__contiguous(run->tape, result)); /* clone() */
    return result;
}

vw__tensor vw__apply_adapted(vw__plan_run *run, vw__tensor x, const vw__linear_module *module)
{
    vw__tape *tape = run->tape;
    vw__dtype autocast_dtype;
    bool keeps_type = module->is_quantized && vw__is_autocast(run->settings, &autocast_dtype);
    vw__tensor result = apply_base(run, x, module);
    vw__dtype dtype = result.dtype;
    vw__tensor argument = keeps_type ? vw__hold(tape, x) : vw__to(tape, x, VW__FLOAT32);
    vw__tensor low = vw__linear(tape, argument, &module->lora_a);
    vw__tensor high = vw__linear(tape, low, &module->lora_b);
    vw__drop(tape, &low);
    vw__rebind(tape, &high, vw__mul_scalar(tape, high));
    if (module->is_quantized && !keeps_type)
        vw__rebind(tape, &high, vw__to(tape, high, dtype));
    vw__tensor sum = vw__add(tape, result, high);
    vw__drop(tape, &high);
    vw__rebind(tape, &result, sum);
    if (!module->is_quantized)
        vw__rebind(tape, &result, vw__to(tape, result, dtype));
    vw__drop(tape, &argument);
    return result;
}

/* ---- four bits ------------------------------------------------------------------------------- */

/* The packed values; a byte of scale for each 64 of them, and a float32 scale for each 256 of those
 * scales, with the tables both stand for and an offset. 0.516 bytes a parameter. The values are a
 * weight, which GPUs may share; the rest is the weight's own state, which each of them has. */
vw__tensor vw__make_packed_weight(vw__plan_run *run, uint64_t in, uint64_t out)
{
    vw__tape *tape = run->tape;
    uint64_t elements = vw__times(tape, in, out);
    uint64_t scales = divide_up(elements, BLOCK_VALUES);
    uint64_t parameters = run->parameters;
    vw__tensor packed = vw__make_weight_of(run, divide_up(elements, VALUES_PER_BYTE),
                                           (vw__matrix){.rows = 0}, VW__BYTE, false);
    run->parameters = parameters + elements; /* and not the bytes of them */
    (void)vw__parameter(tape, scales, VW__BYTE, false);
    (void)vw__parameter(tape, divide_up(scales, SCALES_PER_BLOCK), VW__FLOAT32, false);
    (void)vw__parameter(tape, CODE_VALUES, VW__FLOAT32, false);
    (void)vw__parameter(tape, 1, VW__FLOAT32, false);
    return packed;
}

/* The weight as it was, for one product: its scales in float32, and itself. */
static void take_unpacked(vw__tape *tape, uint64_t elements, vw__dtype dtype)
{
    uint16_t scales = vw__node_take(tape, divide_up(elements, BLOCK_VALUES), VW__FLOAT32);
    uint16_t unpacked = vw__node_take(tape, elements, dtype);
    vw__node_let_go(tape, scales);
    (void)unpacked; /* until the derivative ends */
}

static vw__tensor packed_product(vw__tape *tape, vw__tensor x, const vw__linear_weights *weights)
{
    uint64_t elements = vw__times(tape, weights->in, weights->out);
    uint64_t rows = weights->in == 0 ? 0 : x.elements / weights->in;
    vw__node_begin(tape, (vw__tensor[]){x, weights->weight}, 2);
    vw__tensor scales = vw__tensor_new(tape, divide_up(elements, BLOCK_VALUES), VW__FLOAT32);
    vw__tensor unpacked = vw__tensor_new(tape, elements, x.dtype);
    vw__drop(tape, &scales);
    vw__tensor made = vw__result_new(tape, vw__times(tape, rows, weights->out), x.dtype);
    vw__drop(tape, &unpacked);
    take_unpacked(tape, elements, x.dtype);
    vw__node_take_for(tape, 0, x.elements, x.dtype);
    vw__node_end(tape, &made, 1);
    return made;
}

vw__tensor vw__apply_packed(vw__plan_run *run, vw__tensor x, const vw__linear_module *module)
{
    vw__tape *tape = run->tape;
    vw__tensor argument = vw__to(tape, x, run->compute_dtype);
    vw__tensor bias = vw__to(tape, module->weights.bias, run->compute_dtype);
    vw__tensor made = packed_product(tape, argument, &module->weights);
    vw__drop(tape, &bias);
    vw__rebind(tape, &made, vw__to(tape, made, x.dtype));
    vw__drop(tape, &argument);
    return made;
}
