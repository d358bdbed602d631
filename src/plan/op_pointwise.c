/* op_pointwise.c - operators that work on each element by itself, and means and sums. */
#include "plan/op.h"

/* The result of an operator on two types. */
static vw__dtype promote(vw__tensor a, vw__tensor b)
{
    return a.dtype == b.dtype ? a.dtype : VW__DTYPE_FLOAT32;
}

vw__tensor vw__op_apply(vw__tape *tape, vw__tensor x, vw__op_unary how)
{
    vw__node_begin(tape, &x, 1);
    if (how.saves_argument)
        vw__node_save(tape, x);
    vw__tensor made = vw__tensor_new(tape, how.elements, how.dtype);
    vw__tensor beside = how.beside_elements > 0
                            ? vw__tensor_new(tape, how.beside_elements, how.beside_dtype)
                            : vw__tensor_none();
    if (how.saves_result)
        vw__node_save(tape, made);
    vw__node_save(tape, beside);
    for (unsigned i = 0; i < how.temporaries; i++)
        vw__node_take(tape, x.elements, how.is_temporary_bool ? VW__DTYPE_BOOL : x.dtype);
    if (how.is_passed)
        vw__node_pass(tape, 0, 0);
    else
        vw__node_take_for(tape, 0, x.elements, x.dtype);
    vw__node_end(tape, &made, 1);
    vw__tensor_drop(tape, &beside);
    return made;
}

vw__tensor vw__op_mul_scalar(vw__tape *tape, vw__tensor x)
{
    return vw__op_apply(tape, x, vw__op_like(x));
}

vw__tensor vw__op_tanh(vw__tape *tape, vw__tensor x)
{
    return vw__op_apply(tape, x, vw__op_saving_result(x));
}

vw__tensor vw__op_sigmoid(vw__tape *tape, vw__tensor x)
{
    return vw__op_apply(tape, x, vw__op_saving_result(x));
}

void vw__op_cap(vw__tape *tape, vw__tensor *x)
{
    vw__tensor_rebind(tape, x, vw__op_mul_scalar(tape, *x));
    vw__tensor_rebind(tape, x, vw__op_tanh(tape, *x));
    vw__tensor_rebind(tape, x, vw__op_mul_scalar(tape, *x));
}

vw__tensor vw__op_gelu(vw__tape *tape, vw__tensor x)
{
    return vw__op_apply(tape, x, vw__op_saving_argument(x));
}

vw__tensor vw__op_silu(vw__tape *tape, vw__tensor x)
{
    return vw__op_apply(tape, x, vw__op_saving_argument(x));
}

vw__tensor vw__op_relu(vw__tape *tape, vw__tensor x)
{
    return vw__op_apply(tape, x, vw__op_saving_result(x));
}

/* grad * (n * x.pow(n - 1)) */
/* x ** n, n > 2. */
static vw__tensor op_pow(vw__tape *tape, vw__tensor x)
{
    vw__tensor argument = vw__op_autocast_float32(tape, x);
    vw__op_unary how = vw__op_saving_argument(argument);
    how.temporaries = 2;
    vw__tensor made = vw__op_apply(tape, argument, how);
    vw__tensor_drop(tape, &argument);
    return made;
}

vw__tensor vw__op_square(vw__tape *tape, vw__tensor x)
{
    return op_pow(tape, x); /* x.pow(1) is a copy too */
}

vw__tensor vw__op_rsqrt(vw__tape *tape, vw__tensor x)
{
    vw__tensor argument = vw__op_autocast_float32(tape, x);
    vw__op_unary how = vw__op_saving_result(argument);
    how.temporaries = 2;
    vw__tensor made = vw__op_apply(tape, argument, how);
    vw__tensor_drop(tape, &argument);
    return made;
}

vw__tensor vw__op_add_scalar(vw__tape *tape, vw__tensor x)
{
    return vw__op_contiguous(tape, x); /* in memory it is a copy, whose gradient is passed on */
}

vw__tensor vw__op_mean(vw__tape *tape, vw__tensor x, uint64_t elements)
{
    return vw__op_apply(tape, x, (vw__op_unary){.elements = elements, .dtype = x.dtype});
}

vw__tensor vw__op_sum(vw__tape *tape, vw__tensor x, uint64_t elements)
{
    return vw__op_apply(tape, x,
                        (vw__op_unary){.elements = elements, .dtype = x.dtype, .is_passed = true});
}

void vw__op_relu_in_place(vw__tape *tape, vw__tensor *x)
{
    vw__node_begin(tape, x, 1);
    vw__node_save(tape, *x);
    vw__node_take_for(tape, 0, x->elements, x->dtype);
    vw__node_end(tape, x, 1);
}

void vw__op_silu_in_place(vw__tape *tape, vw__tensor *x)
{
    if (!vw__node_begin(tape, x, 1))
        return;
    vw__tensor copy = vw__tensor_new(tape, x->elements, x->dtype);
    vw__node_save(tape, copy);
    vw__node_take_for(tape, 0, x->elements, x->dtype);
    vw__node_end(tape, x, 1);
    vw__tensor_drop(tape, &copy);
}

/* The gradient of an argument: passed on, or summed if the argument was repeated, or cast to its
 * type. */
static void give_sum(vw__tape *tape, size_t edge, vw__tensor argument, uint64_t elements,
                     vw__dtype dtype)
{
    if (argument.elements == elements && argument.dtype == dtype)
        vw__node_pass(tape, edge, 0);
    else
        vw__node_take_for(tape, edge, argument.elements, argument.dtype);
}

vw__tensor vw__op_add_repeated(vw__tape *tape, vw__tensor a, vw__tensor b, uint64_t elements)
{
    vw__dtype dtype = promote(a, b);
    vw__node_begin(tape, (vw__tensor[]){a, b}, 2);
    vw__tensor made = vw__tensor_new(tape, elements, dtype);
    give_sum(tape, 0, a, elements, dtype);
    give_sum(tape, 1, b, elements, dtype);
    vw__node_end(tape, &made, 1);
    return made;
}

vw__tensor vw__op_add(vw__tape *tape, vw__tensor a, vw__tensor b)
{
    return vw__op_add_repeated(tape, a, b, a.elements);
}

void vw__op_add_in_place(vw__tape *tape, vw__tensor *a, vw__tensor b)
{
    vw__node_begin(tape, (vw__tensor[]){*a, b}, 2);
    vw__node_pass(tape, 0, 0);
    give_sum(tape, 1, b, a->elements, a->dtype);
    vw__node_end(tape, a, 1);
}

vw__tensor vw__op_where(vw__tape *tape, vw__tensor condition, vw__tensor x)
{
    vw__node_begin(tape, &x, 1);
    vw__node_save(tape, condition);
    vw__tensor made = vw__tensor_new(tape, x.elements, x.dtype);
    vw__node_take_for(tape, 0, x.elements, x.dtype);
    vw__node_end(tape, &made, 1);
    return made;
}

/* How an argument of a product repeats in the other. */
typedef enum repeats { REPEATS_IN_ROWS, REPEATS_AS_ROW } repeats;

/* grad * other, of the result's size; summed and cast afterwards where the argument is smaller or
 * of another type. */
static void give_product(vw__tape *tape, size_t edge, vw__tensor argument, uint64_t elements,
                         vw__dtype dtype, repeats how)
{
    if (!vw__node_wants(tape, edge))
        return;
    uint16_t product = vw__node_take(tape, elements, dtype);
    if (argument.elements == elements && argument.dtype == dtype) {
        vw__node_give(tape, edge, product);
        return;
    }
    if (how == REPEATS_AS_ROW && argument.elements > 0)
        vw__node_sum_rows_for(tape, edge, elements / argument.elements, argument.elements,
                              argument.dtype);
    else
        vw__node_take_for(tape, edge, argument.elements, argument.dtype);
    vw__node_let_go(tape, product);
}

static vw__tensor multiply(vw__tape *tape, vw__tensor a, vw__tensor b, repeats how)
{
    vw__dtype dtype = promote(a, b);
    vw__node_begin(tape, (vw__tensor[]){a, b}, 2);
    if (vw__tensor_wants_gradient(b))
        vw__node_save(tape, a);
    if (vw__tensor_wants_gradient(a))
        vw__node_save(tape, b);
    vw__tensor made = vw__tensor_new(tape, a.elements, dtype);
    give_product(tape, 0, a, a.elements, dtype, REPEATS_IN_ROWS);
    give_product(tape, 1, b, a.elements, dtype, how);
    vw__node_end(tape, &made, 1);
    return made;
}

vw__tensor vw__op_mul(vw__tape *tape, vw__tensor a, vw__tensor b)
{
    return multiply(tape, a, b, REPEATS_IN_ROWS);
}

vw__tensor vw__op_mul_rows(vw__tape *tape, vw__tensor x, vw__tensor weight)
{
    return multiply(tape, x, weight, REPEATS_AS_ROW);
}

vw__tensor vw__op_dropout(vw__tape *tape, vw__tensor x)
{
    vw__op_unary how = vw__op_like(x);
    how.beside_elements = x.elements;
    how.beside_dtype = VW__DTYPE_BOOL;
    return vw__op_apply(tape, x, how);
}

/* Its derivative compares every element with both limits, and combines the answers. */
vw__tensor vw__op_clamp(vw__tape *tape, vw__tensor x)
{
    vw__op_unary how = vw__op_saving_argument(x);
    how.temporaries = 3;
    how.is_temporary_bool = true;
    return vw__op_apply(tape, x, how);
}

/* What it changes is needed in the derivative, and copied before. */
void vw__op_clamp_in_place(vw__tape *tape, vw__tensor *x)
{
    enum { COMPARISONS = 3 };
    vw__tensor before = vw__tensor_wants_gradient(*x) ? vw__tensor_new(tape, x->elements, x->dtype)
                                                      : vw__tensor_none();
    vw__node_begin(tape, x, 1);
    vw__node_save(tape, before);
    for (int i = 0; i < COMPARISONS; i++)
        vw__node_take(tape, x->elements, VW__DTYPE_BOOL);
    vw__node_take_for(tape, 0, x->elements, x->dtype);
    vw__node_end(tape, x, 1);
    vw__tensor_drop(tape, &before);
}

/* Both directions are lines of Python: up to three products at once beside the result, and four. */
vw__tensor vw__op_bloom_gelu(vw__tape *tape, vw__tensor x)
{
    vw__tensor first = vw__tensor_new(tape, x.elements, x.dtype);
    vw__tensor second = vw__tensor_new(tape, x.elements, x.dtype);
    vw__tensor third = vw__tensor_new(tape, x.elements, x.dtype);
    vw__tensor_drop(tape, &third);
    vw__tensor_drop(tape, &second);
    vw__op_unary how = vw__op_saving_argument(x);
    how.temporaries = 4;
    vw__tensor made = vw__op_apply(tape, x, how);
    vw__tensor_drop(tape, &first);
    return made;
}

/* 0.5 * x * (1 + tanh(c * (x + d * x**3))) */
vw__tensor vw__op_gelu_new(vw__tape *tape, vw__tensor x)
{
    vw__tensor half = vw__op_mul_scalar(tape, x);
    vw__tensor inner = op_pow(tape, x);
    vw__tensor_rebind(tape, &inner, vw__op_mul_scalar(tape, inner));
    vw__tensor_rebind(tape, &inner, vw__op_add(tape, x, inner));
    vw__tensor_rebind(tape, &inner, vw__op_mul_scalar(tape, inner));
    vw__tensor_rebind(tape, &inner, vw__op_tanh(tape, inner));
    vw__tensor_rebind(tape, &inner, vw__op_add_scalar(tape, inner));
    vw__tensor made = vw__op_mul(tape, half, inner);
    vw__tensor_drop(tape, &inner);
    vw__tensor_drop(tape, &half);
    return made;
}

vw__tensor vw__op_quick_gelu(vw__tape *tape, vw__tensor x)
{
    vw__tensor share = vw__op_mul_scalar(tape, x);
    vw__tensor_rebind(tape, &share, vw__op_sigmoid(tape, share));
    vw__tensor made = vw__op_mul(tape, x, share);
    vw__tensor_drop(tape, &share);
    return made;
}
