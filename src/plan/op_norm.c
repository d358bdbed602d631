/* op_norm.c - normalizing. */
#include "plan/op.h"

hr__tensor hr__layer_norm(hr__tape *tape, hr__tensor x, hr__tensor weight, hr__tensor bias,
                          uint64_t rows)
{
    hr__tensor argument = hr__autocast_float32(tape, x);
    bool has_node = hr__node_begin(tape, (hr__tensor[]){argument, weight, bias}, 3);
    if (has_node)
        hr__node_save(tape, argument);
    hr__tensor made = hr__tensor_new(tape, argument.elements, argument.dtype);
    hr__tensor mean = hr__tensor_new(tape, rows, HR__FLOAT32);
    hr__tensor deviation = hr__tensor_new(tape, rows, HR__FLOAT32);
    if (has_node) {
        hr__node_save(tape, mean);
        hr__node_save(tape, deviation);
        hr__node_take_for(tape, 0, argument.elements, argument.dtype);
        hr__node_take_for(tape, 1, weight.elements, weight.dtype);
        if (hr__is_tensor(bias))
            hr__node_take_for(tape, 2, bias.elements, bias.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    hr__drop(tape, &deviation);
    hr__drop(tape, &mean);
    hr__drop(tape, &argument);
    return made;
}

/* x = x.float(); x = x * rsqrt(x.pow(2).mean(-1) + eps); weight * x.to(dtype) */
hr__tensor hr__rms_norm(hr__tape *tape, hr__tensor x, hr__tensor weight, uint64_t rows)
{
    hr__tensor floats = hr__to(tape, x, HR__FLOAT32);
    hr__tensor squares = hr__square(tape, floats);
    hr__tensor variance = hr__mean(tape, squares, rows);
    hr__drop(tape, &squares);
    hr__tensor root = hr__add_scalar(tape, variance);
    hr__rebind(tape, &root, hr__rsqrt(tape, root));
    hr__rebind(tape, &floats, hr__mul(tape, floats, root));
    hr__drop(tape, &root);
    hr__tensor normal = hr__to(tape, floats, x.dtype);
    hr__tensor made = hr__mul_rows(tape, normal, weight);
    hr__drop(tape, &normal);
    hr__drop(tape, &floats);
    hr__drop(tape, &variance);
    return made;
}

/* rsqrt(x.float().pow(2).mean(-1) + eps) */
static hr__tensor inverse_deviation(hr__tape *tape, hr__tensor x, uint64_t rows)
{
    hr__tensor floats = hr__to(tape, x, HR__FLOAT32);
    hr__tensor squares = hr__square(tape, floats);
    hr__drop(tape, &floats);
    hr__tensor variance = hr__mean(tape, squares, rows);
    hr__drop(tape, &squares);
    hr__rebind(tape, &variance, hr__add_scalar(tape, variance));
    hr__rebind(tape, &variance, hr__rsqrt(tape, variance));
    return variance;
}

/* weight * (x * inverse_deviation(x)).to(weight.dtype) */
hr__tensor hr__t5_norm(hr__tape *tape, hr__tensor x, hr__tensor weight, uint64_t rows)
{
    hr__tensor root = inverse_deviation(tape, x, rows);
    hr__tensor normal = hr__mul(tape, x, root);
    hr__drop(tape, &root);
    if (weight.dtype != HR__FLOAT32)
        hr__rebind(tape, &normal, hr__to(tape, normal, weight.dtype));
    hr__tensor made = hr__mul_rows(tape, normal, weight);
    hr__drop(tape, &normal);
    return made;
}

/* ((x.float() * inverse_deviation(x)) * (1.0 + weight.float())).type_as(x) */
hr__tensor hr__gemma_norm(hr__tape *tape, hr__tensor x, hr__tensor weight, uint64_t rows)
{
    hr__tensor floats = hr__to(tape, x, HR__FLOAT32);
    hr__tensor root = inverse_deviation(tape, floats, rows);
    hr__tensor normal = hr__mul(tape, floats, root);
    hr__drop(tape, &root);
    hr__drop(tape, &floats);
    hr__tensor scale = hr__to(tape, weight, HR__FLOAT32);
    hr__rebind(tape, &scale, hr__add_scalar(tape, scale));
    hr__rebind(tape, &normal, hr__mul_rows(tape, normal, scale));
    hr__drop(tape, &scale);
    hr__rebind(tape, &normal, hr__to(tape, normal, x.dtype));
    return normal;
}
