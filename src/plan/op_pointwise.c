/* op_pointwise.c - operators that work on each element by itself. */
#include "plan/op.h"

/* The result of an operator on two types. */
static hr__dtype promote(hr__tensor a, hr__tensor b)
{
    return a.dtype == b.dtype ? a.dtype : HR__FLOAT32;
}

/* What an operator of one argument saves. */
typedef enum saves { SAVES_NOTHING, SAVES_ARGUMENT, SAVES_RESULT } saves;

static hr__tensor apply(hr__tape *tape, hr__tensor x, saves what, unsigned temporary_count)
{
    bool has_node = hr__node_begin(tape, &x, 1);
    if (has_node && what == SAVES_ARGUMENT)
        hr__node_save(tape, x);
    hr__tensor made = hr__tensor_new(tape, x.elements, x.dtype);
    if (!has_node)
        return made;
    if (what == SAVES_RESULT)
        hr__node_save(tape, made);
    for (unsigned i = 0; i < temporary_count; i++)
        hr__node_take(tape, x.elements, x.dtype);
    hr__node_take_for(tape, 0, x.elements, x.dtype);
    hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    return made;
}

hr__tensor hr__mul_scalar(hr__tape *tape, hr__tensor x)
{
    return apply(tape, x, SAVES_NOTHING, 0);
}

hr__tensor hr__tanh(hr__tape *tape, hr__tensor x)
{
    return apply(tape, x, SAVES_RESULT, 0);
}

void hr__cap(hr__tape *tape, hr__tensor *x)
{
    hr__rebind(tape, x, hr__mul_scalar(tape, *x));
    hr__rebind(tape, x, hr__tanh(tape, *x));
    hr__rebind(tape, x, hr__mul_scalar(tape, *x));
}

hr__tensor hr__gelu(hr__tape *tape, hr__tensor x)
{
    return apply(tape, x, SAVES_ARGUMENT, 0);
}

hr__tensor hr__silu(hr__tape *tape, hr__tensor x)
{
    return apply(tape, x, SAVES_ARGUMENT, 0);
}

hr__tensor hr__relu(hr__tape *tape, hr__tensor x)
{
    return apply(tape, x, SAVES_RESULT, 0);
}

/* grad * (n * x.pow(n - 1)) */
hr__tensor hr__pow(hr__tape *tape, hr__tensor x)
{
    hr__tensor argument = hr__autocast_float32(tape, x);
    hr__tensor made = apply(tape, argument, SAVES_ARGUMENT, 2);
    hr__drop(tape, &argument);
    return made;
}

hr__tensor hr__square(hr__tape *tape, hr__tensor x)
{
    return hr__pow(tape, x); /* x.pow(1) is a copy too */
}

hr__tensor hr__rsqrt(hr__tape *tape, hr__tensor x)
{
    hr__tensor argument = hr__autocast_float32(tape, x);
    hr__tensor made = apply(tape, argument, SAVES_RESULT, 2);
    hr__drop(tape, &argument);
    return made;
}

hr__tensor hr__add_scalar(hr__tape *tape, hr__tensor x)
{
    return hr__contiguous(tape, x); /* in memory it is a copy, whose gradient is passed on */
}

hr__tensor hr__mean(hr__tape *tape, hr__tensor x, uint64_t elements)
{
    bool has_node = hr__node_begin(tape, &x, 1);
    hr__tensor made = hr__tensor_new(tape, elements, x.dtype);
    if (has_node) {
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}

hr__tensor hr__sum(hr__tape *tape, hr__tensor x, uint64_t elements)
{
    bool has_node = hr__node_begin(tape, &x, 1);
    hr__tensor made = hr__tensor_new(tape, elements, x.dtype);
    if (has_node) {
        hr__node_pass(tape, 0, 0);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}

void hr__relu_in_place(hr__tape *tape, hr__tensor *x)
{
    if (!hr__node_begin(tape, x, 1))
        return;
    hr__node_save(tape, *x);
    hr__node_take_for(tape, 0, x->elements, x->dtype);
    hr__node_end(tape, (hr__tensor *[]){x}, 1);
}

/* The gradient of an argument: as it came, summed where the argument was repeated, cast where it is
 * of another type. */
static void give_sum(hr__tape *tape, size_t edge, hr__tensor argument, uint64_t elements,
                     hr__dtype dtype)
{
    if (argument.elements == elements && argument.dtype == dtype)
        hr__node_pass(tape, edge, 0);
    else
        hr__node_take_for(tape, edge, argument.elements, argument.dtype);
}

hr__tensor hr__add(hr__tape *tape, hr__tensor a, hr__tensor b)
{
    hr__dtype dtype = promote(a, b);
    bool has_node = hr__node_begin(tape, (hr__tensor[]){a, b}, 2);
    hr__tensor made = hr__tensor_new(tape, a.elements, dtype);
    if (has_node) {
        give_sum(tape, 0, a, a.elements, dtype);
        give_sum(tape, 1, b, a.elements, dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}

void hr__add_in_place(hr__tape *tape, hr__tensor *a, hr__tensor b)
{
    if (!hr__node_begin(tape, (hr__tensor[]){*a, b}, 2))
        return;
    hr__node_pass(tape, 0, 0);
    give_sum(tape, 1, b, a->elements, a->dtype);
    hr__node_end(tape, (hr__tensor *[]){a}, 1);
}

hr__tensor hr__where(hr__tape *tape, hr__tensor condition, hr__tensor x)
{
    bool has_node = hr__node_begin(tape, &x, 1);
    if (has_node)
        hr__node_save(tape, condition);
    hr__tensor made = hr__tensor_new(tape, x.elements, x.dtype);
    if (has_node) {
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}

/* How an argument of a product repeats in the other. */
typedef enum repeats { REPEATS_IN_ROWS, REPEATS_AS_ROW } repeats;

/* grad * other, of the result's size; summed and cast afterwards where the argument is smaller or
 * of another type. */
static void give_product(hr__tape *tape, size_t edge, hr__tensor argument, uint64_t elements,
                         hr__dtype dtype, repeats how)
{
    if (!hr__node_wants(tape, edge))
        return;
    uint16_t product = hr__node_take(tape, elements, dtype);
    if (argument.elements == elements && argument.dtype == dtype) {
        hr__node_give(tape, edge, product);
        return;
    }
    if (how == REPEATS_AS_ROW && argument.elements > 0)
        hr__node_sum_rows_for(tape, edge, elements / argument.elements, argument.elements,
                              argument.dtype);
    else
        hr__node_take_for(tape, edge, argument.elements, argument.dtype);
    hr__node_let_go(tape, product);
}

static hr__tensor multiply(hr__tape *tape, hr__tensor a, hr__tensor b, repeats how)
{
    hr__dtype dtype = promote(a, b);
    bool has_node = hr__node_begin(tape, (hr__tensor[]){a, b}, 2);
    if (has_node && hr__wants_gradient(b))
        hr__node_save(tape, a);
    if (has_node && hr__wants_gradient(a))
        hr__node_save(tape, b);
    hr__tensor made = hr__tensor_new(tape, a.elements, dtype);
    if (has_node) {
        give_product(tape, 0, a, a.elements, dtype, REPEATS_IN_ROWS);
        give_product(tape, 1, b, a.elements, dtype, how);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}

hr__tensor hr__mul(hr__tape *tape, hr__tensor a, hr__tensor b)
{
    return multiply(tape, a, b, REPEATS_IN_ROWS);
}

hr__tensor hr__mul_rows(hr__tape *tape, hr__tensor x, hr__tensor weight)
{
    return multiply(tape, x, weight, REPEATS_AS_ROW);
}

hr__tensor hr__dropout(hr__tape *tape, hr__tensor x)
{
    bool has_node = hr__node_begin(tape, &x, 1);
    hr__tensor made = hr__tensor_new(tape, x.elements, x.dtype);
    hr__tensor mask = hr__tensor_new(tape, x.elements, HR__BOOL);
    if (has_node) {
        hr__node_save(tape, mask);
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    hr__drop(tape, &mask);
    return made;
}

/* Its derivative asks of every element whether it was inside. */
hr__tensor hr__clamp(hr__tape *tape, hr__tensor x)
{
    enum { QUESTIONS = 3 }; /* above, below, and both */
    bool has_node = hr__node_begin(tape, &x, 1);
    if (has_node)
        hr__node_save(tape, x);
    hr__tensor made = hr__tensor_new(tape, x.elements, x.dtype);
    if (has_node) {
        for (unsigned i = 0; i < QUESTIONS; i++)
            hr__node_take(tape, x.elements, HR__BOOL);
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}

/* 0.5 * x * (1 + tanh(c * (x + d * x**3))) */
hr__tensor hr__gelu_new(hr__tape *tape, hr__tensor x)
{
    hr__tensor half = hr__mul_scalar(tape, x);
    hr__tensor inner = hr__pow(tape, x);
    hr__rebind(tape, &inner, hr__mul_scalar(tape, inner));
    hr__rebind(tape, &inner, hr__add(tape, x, inner));
    hr__rebind(tape, &inner, hr__mul_scalar(tape, inner));
    hr__rebind(tape, &inner, hr__tanh(tape, inner));
    hr__rebind(tape, &inner, hr__add_scalar(tape, inner));
    hr__tensor made = hr__mul(tape, half, inner);
    hr__drop(tape, &inner);
    hr__drop(tape, &half);
    return made;
}

hr__tensor hr__quick_gelu(hr__tape *tape, hr__tensor x)
{
    hr__tensor share = hr__mul_scalar(tape, x);
    hr__rebind(tape, &share, apply(tape, share, SAVES_RESULT, 0));
    hr__tensor made = hr__mul(tape, x, share);
    hr__drop(tape, &share);
    return made;
}
