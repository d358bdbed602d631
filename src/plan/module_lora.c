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

static hr__linear_weights make_part(hr__plan_run *run, uint64_t in, uint64_t out)
{
    bool is_trained = run->settings->mode != HR_PLAN_MODE_INFERENCE;
    uint64_t elements = hr__times(run->tape, in, out);
    return (hr__linear_weights){.in = in,
                                .out = out,
                                .bias = hr__no_tensor(),
                                .weight = hr__make_weight_of(run, elements,
                                                             (hr__matrix){.rows = out, .width = in},
                                                             HR__FLOAT32, is_trained)};
}

void hr__make_adapter(hr__plan_run *run, hr__linear_module *module)
{
    uint64_t rank = run->settings->lora_rank;
    module->is_adapted = true;
    module->lora_a = make_part(run, module->weights.in, rank);
    module->lora_b = make_part(run, rank, module->weights.out);
}

static hr__tensor apply_base(hr__plan_run *run, hr__tensor x, const hr__linear_module *module)
{
    if (!module->is_quantized)
        return hr__linear(run->tape, x, &module->weights);
    hr__tensor result = hr__apply_packed(run, x, module);
    hr__rebind(run->tape, &result, hr__contiguous(run->tape, result)); /* clone() */
    return result;
}

hr__tensor hr__apply_adapted(hr__plan_run *run, hr__tensor x, const hr__linear_module *module)
{
    hr__tape *tape = run->tape;
    hr__dtype autocast_dtype;
    bool keeps_type = module->is_quantized && hr__is_autocast(run->settings, &autocast_dtype);
    hr__tensor result = apply_base(run, x, module);
    hr__dtype dtype = result.dtype;
    hr__tensor argument = keeps_type ? hr__hold(tape, x) : hr__to(tape, x, HR__FLOAT32);
    hr__tensor low = hr__linear(tape, argument, &module->lora_a);
    hr__tensor high = hr__linear(tape, low, &module->lora_b);
    hr__drop(tape, &low);
    hr__rebind(tape, &high, hr__mul_scalar(tape, high));
    if (module->is_quantized && !keeps_type)
        hr__rebind(tape, &high, hr__to(tape, high, dtype));
    hr__tensor sum = hr__add(tape, result, high);
    hr__drop(tape, &high);
    hr__rebind(tape, &result, sum);
    if (!module->is_quantized)
        hr__rebind(tape, &result, hr__to(tape, result, dtype));
    hr__drop(tape, &argument);
    return result;
}

/* ---- four bits ------------------------------------------------------------------------------- */

/* The packed values; a byte of scale for each 64 of them, and a float32 scale for each 256 of those
 * scales, with the tables both stand for and an offset. 0.516 bytes a parameter. The values are a
 * weight, which GPUs may share; the rest is the weight's own state, which each of them has. */
hr__tensor hr__make_packed_weight(hr__plan_run *run, uint64_t in, uint64_t out)
{
    hr__tape *tape = run->tape;
    uint64_t elements = hr__times(tape, in, out);
    uint64_t scales = divide_up(elements, BLOCK_VALUES);
    uint64_t parameters = run->parameters;
    hr__tensor packed = hr__make_weight_of(run, divide_up(elements, VALUES_PER_BYTE),
                                           (hr__matrix){.rows = 0}, HR__BYTE, false);
    run->parameters = parameters + elements; /* and not the bytes of them */
    (void)hr__parameter(tape, scales, HR__BYTE, false);
    (void)hr__parameter(tape, divide_up(scales, SCALES_PER_BLOCK), HR__FLOAT32, false);
    (void)hr__parameter(tape, CODE_VALUES, HR__FLOAT32, false);
    (void)hr__parameter(tape, 1, HR__FLOAT32, false);
    return packed;
}

/* The weight as it was, for one product: its scales in float32, and itself. */
static void take_unpacked(hr__tape *tape, uint64_t elements, hr__dtype dtype)
{
    uint16_t scales = hr__node_take(tape, divide_up(elements, BLOCK_VALUES), HR__FLOAT32);
    uint16_t unpacked = hr__node_take(tape, elements, dtype);
    hr__node_let_go(tape, scales);
    (void)unpacked; /* until the derivative ends */
}

static hr__tensor packed_product(hr__tape *tape, hr__tensor x, const hr__linear_weights *weights)
{
    uint64_t elements = hr__times(tape, weights->in, weights->out);
    uint64_t rows = weights->in == 0 ? 0 : x.elements / weights->in;
    bool has_node = hr__node_begin(tape, (hr__tensor[]){x, weights->weight}, 2);
    hr__tensor scales = hr__tensor_new(tape, divide_up(elements, BLOCK_VALUES), HR__FLOAT32);
    hr__tensor unpacked = hr__tensor_new(tape, elements, x.dtype);
    hr__drop(tape, &scales);
    hr__tensor made = hr__result_new(tape, hr__times(tape, rows, weights->out), x.dtype);
    hr__drop(tape, &unpacked);
    if (has_node) {
        take_unpacked(tape, elements, x.dtype);
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}

hr__tensor hr__apply_packed(hr__plan_run *run, hr__tensor x, const hr__linear_module *module)
{
    hr__tape *tape = run->tape;
    hr__tensor argument = hr__to(tape, x, run->compute_dtype);
    hr__tensor bias = hr__to(tape, module->weights.bias, run->compute_dtype);
    hr__tensor made = packed_product(tape, argument, &module->weights);
    hr__drop(tape, &bias);
    hr__rebind(tape, &made, hr__to(tape, made, x.dtype));
    hr__drop(tape, &argument);
    return made;
}
