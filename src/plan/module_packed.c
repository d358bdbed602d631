/* module_packed.c - frozen weights in 8 bits or less: what each method keeps, and what one product
 * with them takes.
 *
 *   bitsandbytes, 4 bits  half a byte a value, a scale for each 64 of them; with double scales a
 *                         byte each, and a float32 for each 256 of those. The weight is made again
 *                         in the type of the product, in both directions.
 *   bitsandbytes, 8 bits  a byte, and a float32 for each row. The argument is quantized too, and
 *                         the product is int32 before it is what the model computes in.
 *   AWQ, GPTQ             packed in int32, with zeros packed alike and a float16 scale for each
 *                         group of a column. Planned with the weight made again, as their kernels
 *                         do for long inputs.
 *   fp8                   a byte, and a float32 for each square block; the argument is quantized.
 *
 * Sources: bitsandbytes autograd/_functions.py and nn/modules.py; gptqmodel nn_modules/qlinear;
 * transformers integrations/finegrained_fp8.py. */
#include "plan/plan_run.h"

enum {
    BLOCK_VALUES = 64, /* of bitsandbytes, that share a scale */
    SCALES_PER_BLOCK = 256,
    CODE_VALUES = 16,
    BITS_OF_BYTE = 8,
};

static uint64_t divide_up(uint64_t value, uint64_t by)
{
    return value / by + (value % by > 0);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

/* State of a weight that each GPU has for itself. */
static void keep(vw__plan_run *run, uint64_t elements, vw__dtype dtype)
{
    (void)vw__tape_parameter(run->tape, elements, dtype, false);
}

static void keep_scales_of_4_bits(vw__plan_run *run, uint64_t elements)
{
    const uint64_t scales = divide_up(elements, BLOCK_VALUES);
    if (run->quantization.has_double_scales) {
        keep(run, scales, VW__DTYPE_BYTE);
        keep(run, divide_up(scales, SCALES_PER_BLOCK), VW__DTYPE_FLOAT32);
    } else {
        keep(run, scales, VW__DTYPE_FLOAT32);
    }
    keep(run, CODE_VALUES, VW__DTYPE_FLOAT32);
    keep(run, 1, VW__DTYPE_FLOAT32);
}

/* Zeros, scales, and the group of each row (GPTQ). */
static void keep_groups(vw__plan_run *run, uint64_t in, uint64_t out)
{
    enum { BYTES_OF_GROUP = 4 };
    const vw__plan_quantization *how = &run->quantization;
    const uint64_t groups = how->group == 0 ? 1 : divide_up(in, how->group);
    const uint64_t scales = vw__tape_times(run->tape, groups, out);
    keep(run, vw__tape_times(run->tape, scales, how->bits) / BITS_OF_BYTE, VW__DTYPE_BYTE);
    keep(run, scales, VW__DTYPE_FLOAT16);
    if (how->method == VW__PLAN_QUANTIZED_GPTQ)
        keep(run, vw__tape_times(run->tape, in, BYTES_OF_GROUP), VW__DTYPE_BYTE);
}

static void keep_state(vw__plan_run *run, uint64_t in, uint64_t out)
{
    const uint64_t side = run->quantization.group;
    switch (run->quantization.method) {
    case VW__PLAN_QUANTIZED_BNB_4:
        keep_scales_of_4_bits(run, vw__tape_times(run->tape, in, out));
        break;
    case VW__PLAN_QUANTIZED_BNB_8:
        keep(run, out, VW__DTYPE_FLOAT32);
        break;
    case VW__PLAN_QUANTIZED_AWQ:
    case VW__PLAN_QUANTIZED_GPTQ:
        keep_groups(run, in, out);
        break;
    case VW__PLAN_QUANTIZED_FP8:
        keep(run, side == 0 ? 1 : divide_up(in, side) * divide_up(out, side), VW__DTYPE_FLOAT32);
        break;
    case VW__PLAN_NOT_QUANTIZED:
        break;
    }
}

/* The values are a weight, which GPUs may share. */
vw__tensor vw__module_make_packed_weight(vw__plan_run *run, uint64_t in, uint64_t out)
{
    const uint64_t elements = vw__tape_times(run->tape, in, out);
    const uint64_t bits = vw__tape_times(run->tape, elements, run->quantization.bits);
    const uint64_t parameters = run->parameters;
    vw__tensor packed = vw__module_make_weight_of(
        run, divide_up(bits, BITS_OF_BYTE), (vw__tape_matrix){.rows = 0}, VW__DTYPE_BYTE, false);
    run->parameters = parameters + elements; /* and not the bytes of them */
    keep_state(run, in, out);
    return packed;
}

/* ---- products -------------------------------------------------------------------------------- */

static bool is_of_bnb_4(const vw__plan_run *run)
{
    return run->quantization.method == VW__PLAN_QUANTIZED_BNB_4;
}

/* In the derivative, the weight as it was: its scales in float32, and itself. */
static void take_unpacked(vw__tape *tape, uint64_t elements, vw__dtype dtype)
{
    uint16_t scales = vw__node_take(tape, divide_up(elements, BLOCK_VALUES), VW__DTYPE_FLOAT32);
    uint16_t unpacked = vw__node_take(tape, elements, dtype);
    vw__node_let_go(tape, scales);
    (void)unpacked; /* until the derivative ends */
}

/* With the weight made again in the argument's type. */
static vw__tensor unpacked_product(vw__plan_run *run, vw__tensor x,
                                   const vw__op_linear_weights *weights)
{
    vw__tape *tape = run->tape;
    uint64_t elements = vw__tape_times(tape, weights->in, weights->out);
    uint64_t rows = weights->in == 0 ? 0 : x.elements / weights->in;
    vw__node_begin(tape, (vw__tensor[]){x, weights->weight}, 2);
    vw__tensor scales = is_of_bnb_4(run) ? vw__tensor_new(tape, divide_up(elements, BLOCK_VALUES),
                                                          VW__DTYPE_FLOAT32)
                                         : vw__tensor_none();
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

/* With the argument in 8 bits and a scale for each of its rows, or for each group of a row. Only in
 * inference: nothing is saved. */
static vw__tensor quantized_product(vw__plan_run *run, vw__tensor x,
                                    const vw__op_linear_weights *weights)
{
    vw__tape *tape = run->tape;
    const bool has_int32 = run->quantization.method == VW__PLAN_QUANTIZED_BNB_8;
    const uint64_t rows = weights->in == 0 ? 0 : x.elements / weights->in;
    const uint64_t groups =
        run->quantization.group == 0 ? 1 : divide_up(weights->in, run->quantization.group);
    const uint64_t out = vw__tape_times(tape, rows, weights->out);
    vw__tensor values = vw__tensor_new(tape, x.elements, VW__DTYPE_BYTE);
    vw__tensor scales = vw__tensor_new(tape, vw__tape_times(tape, rows, groups), VW__DTYPE_FLOAT32);
    vw__tensor sums = has_int32 ? vw__tensor_new(tape, out, VW__DTYPE_FLOAT32) : vw__tensor_none();
    vw__tensor made = vw__tensor_new_result(tape, out, x.dtype);
    vw__tensor_drop(tape, &sums);
    vw__tensor_drop(tape, &scales);
    vw__tensor_drop(tape, &values);
    return made;
}

vw__tensor vw__module_apply_packed(vw__plan_run *run, vw__tensor x, const vw__module_linear *module)
{
    vw__tape *tape = run->tape;
    const vw__plan_quantization_method method = run->quantization.method;
    const bool is_unpacked = method != VW__PLAN_QUANTIZED_BNB_8 && method != VW__PLAN_QUANTIZED_FP8;
    vw__tensor argument = vw__op_to(tape, x, run->compute_dtype);
    vw__tensor bias = vw__op_to(tape, module->weights.bias, run->compute_dtype);
    vw__tensor made = is_unpacked ? unpacked_product(run, argument, &module->weights)
                                  : quantized_product(run, argument, &module->weights);
    vw__tensor_drop(tape, &bias);
    vw__tensor_rebind(tape, &made, vw__op_to(tape, made, x.dtype));
    vw__tensor_drop(tape, &argument);
    return made;
}
