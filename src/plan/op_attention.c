/* op_attention.c - scaled_dot_product_attention() and what eager attention is made of. */
#include "plan/op.h"

#include "plan/tape_parts.h"

static uint64_t up_to(uint64_t value, uint64_t step)
{
    return (value + step - 1) / step * step;
}

static hr__attention_kernel choose(hr__tensor query, hr__tensor mask,
                                   const hr__attention_shape *shape)
{
    enum { MOST_FLASH_WIDTH = 256 };
    if (hr__is_tensor(mask) && shape->is_mask_strided)
        return HR__ATTENTION_MATH;
    if (query.dtype != HR__FLOAT32 && !hr__is_tensor(mask) && shape->width <= MOST_FLASH_WIDTH)
        return HR__ATTENTION_FLASH;
    return shape->heads == shape->key_heads ? HR__ATTENTION_EFFICIENT : HR__ATTENTION_MATH;
}

/* The derivative of the kernels that keep no probabilities: they make them again, and add up the
 * query's gradient in float32. */
static void add_fused_derivative(hr__tape *tape, const hr__tensor *arguments,
                                 const hr__attention_shape *shape, hr__attention_kernel kernel)
{
    uint64_t rows = shape->batch * shape->heads;
    bool is_flash = kernel == HR__ATTENTION_FLASH;
    uint64_t length = up_to(shape->length, is_flash ? 128 : 32);
    for (size_t i = 0; i < 3; i++)
        hr__node_take_for(tape, i, arguments[i].elements, arguments[i].dtype);
    if (hr__node_wants(tape, 3)) { /* one for each sample, added up */
        hr__node_take(tape, hr__times(tape, rows * shape->length, shape->key_length),
                      arguments[3].dtype);
        hr__node_take_for(tape, 3, arguments[3].elements, arguments[3].dtype);
    }
    uint16_t product = HR__NO_SLOT, sums = HR__NO_SLOT;
    if (!is_flash) { /* grad * result, summed, and the sums in another order */
        product = hr__node_take(tape, arguments[0].elements, HR__FLOAT32);
        sums = hr__node_take(tape, rows * shape->length, HR__FLOAT32);
    }
    hr__node_take(tape, rows * length, HR__FLOAT32);
    hr__node_let_go(tape, sums);
    hr__node_let_go(tape, product);
    hr__node_take(tape, hr__times(tape, rows * length, up_to(shape->width, 32)), HR__FLOAT32);
    if (is_flash && shape->key_heads < shape->heads) {
        hr__node_take(tape, rows * shape->key_length * shape->width, arguments[1].dtype);
        hr__node_take(tape, rows * shape->key_length * shape->width, arguments[2].dtype);
    }
}

static hr__tensor fused(hr__tape *tape, const hr__tensor *arguments,
                        const hr__attention_shape *shape, hr__attention_kernel kernel)
{
    uint64_t rows = shape->batch * shape->heads;
    bool has_node = hr__node_begin(tape, arguments, 4);
    for (size_t i = 0; has_node && i < 4; i++)
        hr__node_save(tape, arguments[i]);
    hr__tensor made = hr__result_new(tape, arguments[0].elements, arguments[0].dtype);
    uint64_t length = kernel == HR__ATTENTION_FLASH ? shape->length : up_to(shape->length, 32);
    hr__tensor sums = hr__result_new(tape, rows * length, HR__FLOAT32);
    if (has_node) {
        hr__node_save(tape, made);
        hr__node_save(tape, sums);
        add_fused_derivative(tape, arguments, shape, kernel);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    hr__drop(tape, &sums);
    return made;
}

hr__tensor hr__softmax(hr__tape *tape, hr__tensor x)
{
    hr__tensor argument = hr__autocast_float32(tape, x);
    bool has_node = hr__node_begin(tape, &argument, 1);
    hr__tensor made = hr__tensor_new(tape, argument.elements, argument.dtype);
    if (has_node) {
        hr__node_save(tape, made);
        hr__node_take_for(tape, 0, argument.elements, argument.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    hr__drop(tape, &argument);
    return made;
}

hr__tensor hr__softmax_float32(hr__tape *tape, hr__tensor x)
{
    bool has_node = hr__node_begin(tape, &x, 1);
    hr__tensor made = hr__tensor_new(tape, x.elements, HR__FLOAT32);
    if (has_node) {
        hr__node_save(tape, made);
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}

hr__tensor hr__repeat_heads(hr__tape *tape, hr__tensor x, const hr__attention_shape *shape)
{
    if (shape->heads == shape->key_heads)
        return hr__hold(tape, x);
    bool has_node = hr__node_begin(tape, &x, 1);
    hr__tensor made = hr__tensor_new(tape, x.elements / shape->key_heads * shape->heads, x.dtype);
    if (has_node) {
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}

/* _safe_softmax(): a row that is masked as a whole becomes zeros. */
static hr__tensor safe_softmax(hr__tape *tape, hr__tensor x)
{
    bool has_node = hr__node_begin(tape, &x, 1);
    hr__tensor made = hr__tensor_new(tape, x.elements, x.dtype);
    hr__tensor is_masked = hr__tensor_new(tape, x.elements, HR__BOOL);
    hr__rebind(tape, &made, hr__tensor_new(tape, x.elements, x.dtype)); /* where() */
    hr__drop(tape, &is_masked);
    if (has_node) {
        hr__node_save(tape, made);
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}

/* Operands of a product as stacks of matrices: heads that lie beside each other are copied, unless
 * there is only one sample. Repeated ones are in order already. */
static void stack(hr__tape *tape, hr__tensor *x, uint64_t batch, bool is_repeated)
{
    if (batch > 1 && !is_repeated)
        hr__rebind(tape, x, hr__contiguous(tape, *x));
}

/* The kernel of last resort: matrix products in float32, with all probabilities. */
static hr__tensor by_products(hr__tape *tape, const hr__tensor *arguments,
                              const hr__attention_shape *shape)
{
    uint64_t pairs =
        hr__times(tape, shape->batch * shape->heads * shape->length, shape->key_length);
    hr__tensor query = hr__to(tape, arguments[0], HR__FLOAT32);
    hr__tensor key = hr__to(tape, arguments[1], HR__FLOAT32);
    hr__tensor value = hr__to(tape, arguments[2], HR__FLOAT32);
    hr__rebind(tape, &query, hr__mul_scalar(tape, query));
    hr__rebind(tape, &key, hr__repeat_heads(tape, key, shape));
    hr__rebind(tape, &value, hr__repeat_heads(tape, value, shape));
    bool is_repeated = shape->heads != shape->key_heads;
    hr__tensor scaled_key = hr__mul_scalar(tape, key);
    stack(tape, &query, shape->batch, false);
    stack(tape, &scaled_key, shape->batch, is_repeated);
    hr__tensor chances = hr__matmul(tape, query, scaled_key, pairs);
    hr__drop(tape, &scaled_key);
    if (hr__is_tensor(arguments[3]))
        hr__add_in_place(tape, &chances, arguments[3]);
    hr__rebind(tape, &chances, safe_softmax(tape, chances));
    if (shape->has_dropout)
        hr__rebind(tape, &chances, hr__dropout(tape, chances));
    stack(tape, &value, shape->batch, is_repeated);
    hr__tensor made = hr__matmul(tape, chances, value, query.elements);
    hr__rebind(tape, &made, hr__to(tape, made, arguments[0].dtype));
    hr__drop(tape, &chances);
    hr__drop(tape, &value);
    hr__drop(tape, &key);
    hr__drop(tape, &query);
    hr__rebind(tape, &made, hr__contiguous(tape, made)); /* transpose(1, 2).contiguous() */
    return made;
}

/* Every call makes a mask to add of a bool one, of the full size. */
static hr__tensor mask_to_add(hr__tape *tape, hr__tensor mask, hr__dtype dtype)
{
    if (!hr__is_tensor(mask) || mask.dtype != HR__BOOL)
        return hr__autocast_lower(tape, mask);
    hr__tensor opposite = hr__tensor_new(tape, mask.elements, HR__BOOL);
    hr__tensor made = hr__tensor_new(tape, mask.elements, dtype);
    hr__drop(tape, &opposite);
    return made;
}

hr__tensor hr__attention(hr__tape *tape, hr__tensor query, hr__tensor key, hr__tensor value,
                         hr__tensor mask, const hr__attention_shape *shape)
{
    hr__tensor arguments[4] = {hr__autocast_lower(tape, query), hr__autocast_lower(tape, key),
                               hr__autocast_lower(tape, value), hr__no_tensor()};
    arguments[3] = mask_to_add(tape, mask, arguments[0].dtype);
    hr__attention_kernel kernel = choose(arguments[0], mask, shape);
    bool is_autocast = tape->is_autocast; /* an operator on its list is whole: off inside */
    tape->is_autocast = false;
    hr__tensor made = kernel == HR__ATTENTION_MATH ? by_products(tape, arguments, shape)
                                                   : fused(tape, arguments, shape, kernel);
    tape->is_autocast = is_autocast;
    if (kernel == HR__ATTENTION_FLASH && shape->is_query_joined) /* its result is laid out alike */
        hr__rebind(tape, &made, hr__contiguous(tape, made));
    for (size_t i = 0; i < 4; i++)
        hr__drop(tape, &arguments[i]);
    return made;
}

static hr__tensor in_16_bits(hr__tape *tape, hr__tensor x)
{
    hr__tensor lower = hr__autocast_lower(tape, x);
    hr__rebind(tape, &lower,
               lower.dtype == HR__FLOAT32 ? hr__to(tape, lower, HR__BFLOAT16)
                                          : hr__hold(tape, lower));
    return lower;
}

hr__tensor hr__flash_attention(hr__tape *tape, hr__tensor query, hr__tensor key, hr__tensor value,
                               const hr__attention_shape *shape)
{
    hr__tensor arguments[4] = {in_16_bits(tape, query), in_16_bits(tape, key),
                               in_16_bits(tape, value), hr__no_tensor()};
    hr__tensor made = fused(tape, arguments, shape, HR__ATTENTION_FLASH);
    for (size_t i = 0; i < 3; i++)
        hr__drop(tape, &arguments[i]);
    return made;
}
