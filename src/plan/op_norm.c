/* op_norm.c - norms, softmax, and losses: where the largest tensors of a language model are. */
#include "plan/op.h"

/* ---- norms ----------------------------------------------------------------------------------- */

vw__tensor vw__op_layer_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, vw__tensor bias,
                             uint64_t rows)
{
    vw__tensor argument = vw__op_autocast_float32(tape, x);
    vw__node_begin(tape, (vw__tensor[]){argument, weight, bias}, 3);
    vw__node_save(tape, argument);
    vw__tensor made = vw__tensor_new(tape, argument.elements, argument.dtype);
    vw__tensor mean = vw__tensor_new(tape, rows, VW__DTYPE_FLOAT32);
    vw__tensor deviation = vw__tensor_new(tape, rows, VW__DTYPE_FLOAT32);
    vw__node_save(tape, mean);
    vw__node_save(tape, deviation);
    vw__node_take_for(tape, 0, argument.elements, argument.dtype);
    vw__node_take_for(tape, 1, weight.elements, weight.dtype);
    if (vw__tensor_exists(bias))
        vw__node_take_for(tape, 2, bias.elements, bias.dtype);
    vw__node_end(tape, &made, 1);
    vw__tensor_drop(tape, &deviation);
    vw__tensor_drop(tape, &mean);
    vw__tensor_drop(tape, &argument);
    return made;
}

/* x = x.float(); x = x * rsqrt(x.pow(2).mean(-1) + eps); weight * x.to(dtype), or that late */
static vw__tensor rms_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, uint64_t rows,
                           bool is_late)
{
    vw__tensor floats = vw__op_to(tape, x, VW__DTYPE_FLOAT32);
    vw__tensor squares = vw__op_square(tape, floats);
    vw__tensor variance = vw__op_mean(tape, squares, rows);
    vw__tensor_drop(tape, &squares);
    vw__tensor root = vw__op_add_scalar(tape, variance);
    vw__tensor_rebind(tape, &root, vw__op_rsqrt(tape, root));
    vw__tensor_rebind(tape, &floats, vw__op_mul(tape, floats, root));
    vw__tensor_drop(tape, &root);
    vw__tensor normal = is_late ? vw__tensor_hold(tape, floats) : vw__op_to(tape, floats, x.dtype);
    vw__tensor made = vw__op_mul_rows(tape, normal, weight);
    vw__tensor_drop(tape, &normal);
    if (is_late)
        vw__tensor_rebind(tape, &made, vw__op_to(tape, made, x.dtype));
    vw__tensor_drop(tape, &floats);
    vw__tensor_drop(tape, &variance);
    return made;
}

vw__tensor vw__op_rms_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, uint64_t rows)
{
    return rms_norm(tape, x, weight, rows, false);
}

vw__tensor vw__op_late_rms_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, uint64_t rows)
{
    return rms_norm(tape, x, weight, rows, true);
}

/* x = x.float(); variance = (x - mean).pow(2).mean(-1); x = (x - mean) * rsqrt(variance + eps);
 * (weight.float() * x).to(dtype) */
vw__tensor vw__op_cohere_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, uint64_t rows)
{
    vw__tensor floats = vw__op_to(tape, x, VW__DTYPE_FLOAT32);
    vw__tensor mean = vw__op_mean(tape, floats, rows);
    vw__tensor squares = vw__op_add(tape, floats, mean);
    vw__tensor_rebind(tape, &squares, vw__op_square(tape, squares));
    vw__tensor variance = vw__op_mean(tape, squares, rows);
    vw__tensor_drop(tape, &squares);
    vw__tensor centered = vw__op_add(tape, floats, mean);
    vw__tensor root = vw__op_add_scalar(tape, variance);
    vw__tensor_rebind(tape, &root, vw__op_rsqrt(tape, root));
    vw__tensor_rebind(tape, &floats, vw__op_mul(tape, centered, root));
    vw__tensor_drop(tape, &root);
    vw__tensor_drop(tape, &centered);
    vw__tensor scale = vw__op_to(tape, weight, VW__DTYPE_FLOAT32);
    vw__tensor_rebind(tape, &floats, vw__op_mul_rows(tape, floats, scale));
    vw__tensor_drop(tape, &scale);
    vw__tensor_rebind(tape, &floats, vw__op_to(tape, floats, x.dtype));
    vw__tensor_drop(tape, &variance);
    vw__tensor_drop(tape, &mean);
    return floats;
}

vw__tensor vw__op_plain_norm(vw__tape *tape, vw__tensor x, uint64_t rows)
{
    vw__tensor made = vw__op_to(tape, x, VW__DTYPE_FLOAT32);
    vw__tensor_rebind(tape, &made,
                      vw__op_layer_norm(tape, made, vw__tensor_none(), vw__tensor_none(), rows));
    vw__tensor_rebind(tape, &made, vw__op_to(tape, made, x.dtype));
    return made;
}

/* rsqrt(x.float().pow(2).mean(-1) + eps) */
static vw__tensor inverse_deviation(vw__tape *tape, vw__tensor x, uint64_t rows)
{
    vw__tensor floats = vw__op_to(tape, x, VW__DTYPE_FLOAT32);
    vw__tensor squares = vw__op_square(tape, floats);
    vw__tensor_drop(tape, &floats);
    vw__tensor variance = vw__op_mean(tape, squares, rows);
    vw__tensor_drop(tape, &squares);
    vw__tensor_rebind(tape, &variance, vw__op_add_scalar(tape, variance));
    vw__tensor_rebind(tape, &variance, vw__op_rsqrt(tape, variance));
    return variance;
}

/* weight * (x * inverse_deviation(x)).to(weight.dtype) */
vw__tensor vw__op_t5_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, uint64_t rows)
{
    vw__tensor root = inverse_deviation(tape, x, rows);
    vw__tensor normal = vw__op_mul(tape, x, root);
    vw__tensor_drop(tape, &root);
    if (weight.dtype != VW__DTYPE_FLOAT32)
        vw__tensor_rebind(tape, &normal, vw__op_to(tape, normal, weight.dtype));
    vw__tensor made = vw__op_mul_rows(tape, normal, weight);
    vw__tensor_drop(tape, &normal);
    return made;
}

/* ((x.float() * inverse_deviation(x)) * (1.0 + weight.float())).type_as(x) */
vw__tensor vw__op_gemma_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, uint64_t rows)
{
    vw__tensor floats = vw__op_to(tape, x, VW__DTYPE_FLOAT32);
    vw__tensor root = inverse_deviation(tape, floats, rows);
    vw__tensor normal = vw__op_mul(tape, floats, root);
    vw__tensor_drop(tape, &root);
    vw__tensor_drop(tape, &floats);
    vw__tensor scale = vw__op_to(tape, weight, VW__DTYPE_FLOAT32);
    vw__tensor_rebind(tape, &scale, vw__op_add_scalar(tape, scale));
    vw__tensor_rebind(tape, &normal, vw__op_mul_rows(tape, normal, scale));
    vw__tensor_drop(tape, &scale);
    vw__tensor_rebind(tape, &normal, vw__op_to(tape, normal, x.dtype));
    return normal;
}

/* ---- softmax and losses ---------------------------------------------------------------------- */

vw__tensor vw__op_softmax(vw__tape *tape, vw__tensor x)
{
    vw__tensor argument = vw__op_autocast_float32(tape, x);
    vw__tensor made = vw__op_apply(tape, argument, vw__op_saving_result(argument));
    vw__tensor_drop(tape, &argument);
    return made;
}

vw__tensor vw__op_softmax_float32(vw__tape *tape, vw__tensor x)
{
    vw__op_unary how = vw__op_saving_result(x);
    how.dtype = VW__DTYPE_FLOAT32;
    return vw__op_apply(tape, x, how);
}

static vw__tensor nll_loss(vw__tape *tape, vw__tensor x, vw__tensor labels)
{
    vw__node_begin(tape, &x, 1);
    vw__node_save(tape, x);
    vw__node_save(tape, labels);
    vw__tensor made = vw__tensor_new(tape, 1, x.dtype), total = vw__tensor_new(tape, 1, x.dtype);
    vw__node_save(tape, total);
    vw__node_take_for(tape, 0, x.elements, x.dtype);
    vw__node_end(tape, &made, 1);
    vw__tensor_drop(tape, &total);
    return made;
}

vw__tensor vw__op_cross_entropy(vw__tape *tape, vw__tensor logits, vw__tensor labels)
{
    vw__tensor chances = vw__op_apply(tape, logits, vw__op_saving_result(logits)); /* log_softmax */
    vw__tensor argument = vw__op_autocast_float32(tape, chances);
    vw__tensor loss = nll_loss(tape, argument, labels);
    vw__tensor_drop(tape, &argument);
    vw__tensor_drop(tape, &chances);
    return loss;
}

/* Makes all squares before their mean. */
vw__tensor vw__op_mse_loss(vw__tape *tape, vw__tensor x, vw__tensor wanted)
{
    vw__tensor argument = vw__op_autocast_float32(tape, x);
    vw__node_begin(tape, (vw__tensor[]){argument, wanted}, 2);
    vw__node_save(tape, argument);
    vw__node_save(tape, wanted);
    vw__tensor made = vw__tensor_new(tape, 1, argument.dtype);
    vw__tensor squares = vw__tensor_new(tape, argument.elements, argument.dtype);
    vw__tensor_drop(tape, &squares);
    vw__node_take_for(tape, 0, argument.elements, argument.dtype);
    vw__node_end(tape, &made, 1);
    vw__tensor_drop(tape, &argument);
    return made;
}
