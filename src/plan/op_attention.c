/* op_attention.c - scaled_dot_product_attention(), and the kernels it chooses from. */
#include "plan/op.h"

#include "plan/tape_parts.h"

static uint64_t up_to(uint64_t value, uint64_t step)
{
    return (value + step - 1) / step * step;
}

static vw__op_attention_kernel choose(vw__tensor query, vw__tensor mask,
                                      const vw__op_attention_shape *shape)
{
    enum { MOST_FLASH_WIDTH = 256 };
    if (vw__tensor_exists(mask) && shape->is_mask_strided)
        return VW__OP_ATTENTION_MATH;
    if (query.dtype != VW__DTYPE_FLOAT32 && !vw__tensor_exists(mask) &&
        shape->width <= MOST_FLASH_WIDTH)
        return VW__OP_ATTENTION_FLASH;
    return shape->heads == shape->key_heads ? VW__OP_ATTENTION_EFFICIENT : VW__OP_ATTENTION_MATH;
}

static void add_fused_derivative(vw__tape *tape, const vw__tensor *arguments,
                                 const vw__op_attention_shape *shape,
                                 vw__op_attention_kernel kernel)
{
    uint64_t rows = shape->batch * shape->heads;
    for (size_t i = 0; i < 3; i++)
        vw__node_take_for(tape, i, arguments[i].elements, arguments[i].dtype);
    if (vw__node_wants(tape, 3)) { /* one for each sample, added up */
        vw__node_take(tape, vw__tape_times(tape, rows * shape->length, shape->key_length),
                      arguments[3].dtype);
        vw__node_take_for(tape, 3, arguments[3].elements, arguments[3].dtype);
    }
    const vw__hidden buffers = vw__hidden_attention(
        &(vw__hidden_heads){.is_flash = kernel == VW__OP_ATTENTION_FLASH,
                            .element_bytes = vw__dtype_bytes(arguments[1].dtype),
                            .batch = shape->batch,
                            .heads = shape->heads,
                            .key_heads = shape->key_heads,
                            .length = shape->length,
                            .key_length = shape->key_length,
                            .width = shape->width});
    vw__node_take_hidden(tape, &buffers);
}

static vw__tensor fused(vw__tape *tape, const vw__tensor *arguments,
                        const vw__op_attention_shape *shape, vw__op_attention_kernel kernel)
{
    uint64_t rows = shape->batch * shape->heads;
    vw__node_begin(tape, arguments, 4);
    for (size_t i = 0; i < 4; i++)
        vw__node_save(tape, arguments[i]);
    vw__tensor made = vw__tensor_new_result(tape, arguments[0].elements, arguments[0].dtype);
    uint64_t length = kernel == VW__OP_ATTENTION_FLASH ? shape->length : up_to(shape->length, 32);
    vw__tensor sums = vw__tensor_new_result(tape, rows * length, VW__DTYPE_FLOAT32);
    vw__node_save(tape, made);
    vw__node_save(tape, sums);
    add_fused_derivative(tape, arguments, shape, kernel);
    vw__node_end(tape, &made, 1);
    vw__tensor_drop(tape, &sums);
    return made;
}

vw__tensor vw__op_repeat_heads(vw__tape *tape, vw__tensor x, const vw__op_attention_shape *shape)
{
    if (shape->heads == shape->key_heads)
        return vw__tensor_hold(tape, x);
    const uint64_t elements = x.elements / shape->key_heads * shape->heads;
    return vw__op_apply(tape, x, (vw__op_unary){.elements = elements, .dtype = x.dtype});
}

/* _safe_softmax(): a row that is masked as a whole becomes zeros, in place. */
static vw__tensor safe_softmax(vw__tape *tape, vw__tensor x)
{
    vw__node_begin(tape, &x, 1);
    vw__tensor made = vw__tensor_new(tape, x.elements, x.dtype);
    vw__tensor is_masked = vw__tensor_new(tape, x.elements, VW__DTYPE_BOOL);
    vw__tensor_drop(tape, &is_masked);
    vw__node_save(tape, made);
    vw__node_take_for(tape, 0, x.elements, x.dtype);
    vw__node_end(tape, &made, 1);
    return made;
}

/* Operands of a product as stacks of matrices: heads that lie beside each other are copied, unless
 * there is only one sample. Repeated ones are in order already. */
static void stack(vw__tape *tape, vw__tensor *x, uint64_t batch, bool is_repeated)
{
    if (batch > 1 && !is_repeated)
        vw__tensor_rebind(tape, x, vw__op_contiguous(tape, *x));
}

/* The kernel of last resort: matrix products in float32, with all probabilities. */
static vw__tensor by_products(vw__tape *tape, const vw__tensor *arguments,
                              const vw__op_attention_shape *shape)
{
    uint64_t pairs =
        vw__tape_times(tape, shape->batch * shape->heads * shape->length, shape->key_length);
    vw__tensor unscaled = vw__op_to(tape, arguments[0], VW__DTYPE_FLOAT32); /* held to the end */
    vw__tensor key = vw__op_to(tape, arguments[1], VW__DTYPE_FLOAT32);
    vw__tensor value = vw__op_to(tape, arguments[2], VW__DTYPE_FLOAT32);
    vw__tensor query = vw__op_mul_scalar(tape, unscaled);
    vw__tensor_rebind(tape, &key, vw__op_repeat_heads(tape, key, shape));
    vw__tensor_rebind(tape, &value, vw__op_repeat_heads(tape, value, shape));
    bool is_repeated = shape->heads != shape->key_heads;
    vw__tensor scaled_key = vw__op_mul_scalar(tape, key);
    stack(tape, &query, shape->batch, false);
    stack(tape, &scaled_key, shape->batch, is_repeated);
    vw__tensor chances = vw__op_matmul(tape, query, scaled_key, pairs);
    vw__tensor_drop(tape, &scaled_key);
    if (vw__tensor_exists(arguments[3]))
        vw__op_add_in_place(tape, &chances, arguments[3]);
    vw__tensor_rebind(tape, &chances, safe_softmax(tape, chances));
    if (shape->has_dropout)
        vw__tensor_rebind(tape, &chances, vw__op_dropout(tape, chances));
    stack(tape, &value, shape->batch, is_repeated);
    vw__tensor made = vw__op_matmul(tape, chances, value, query.elements);
    vw__tensor_rebind(tape, &made, vw__op_to(tape, made, arguments[0].dtype));
    vw__tensor_drop(tape, &chances);
    vw__tensor_drop(tape, &value);
    vw__tensor_drop(tape, &key);
    vw__tensor_drop(tape, &query);
    vw__tensor_drop(tape, &unscaled);
    vw__tensor_rebind(tape, &made,
                      vw__op_contiguous(tape, made)); /* transpose(1, 2).contiguous() */
    return made;
}

/* Each call turns a bool mask into one to add, of the full size. */
static vw__tensor mask_to_add(vw__tape *tape, vw__tensor mask, vw__dtype dtype)
{
    if (!vw__tensor_exists(mask) || mask.dtype != VW__DTYPE_BOOL)
        return vw__op_autocast_lower(tape, mask);
    vw__tensor opposite = vw__tensor_new(tape, mask.elements, VW__DTYPE_BOOL);
    vw__tensor made = vw__tensor_new(tape, mask.elements, dtype);
    vw__tensor_drop(tape, &opposite);
    return made;
}

vw__tensor vw__op_attention(vw__tape *tape, vw__tensor query, vw__tensor key, vw__tensor value,
                            vw__tensor mask, const vw__op_attention_shape *shape)
{
    vw__tensor arguments[4] = {vw__op_autocast_lower(tape, query), vw__op_autocast_lower(tape, key),
                               vw__op_autocast_lower(tape, value), vw__tensor_none()};
    arguments[3] = mask_to_add(tape, mask, arguments[0].dtype);
    vw__op_attention_kernel kernel = choose(arguments[0], mask, shape);
    bool is_autocast = tape->is_autocast; /* off inside an operator that is on its list */
    tape->is_autocast = false;
    vw__tensor made = kernel == VW__OP_ATTENTION_MATH ? by_products(tape, arguments, shape)
                                                      : fused(tape, arguments, shape, kernel);
    tape->is_autocast = is_autocast;
    if (kernel == VW__OP_ATTENTION_FLASH &&
        shape->is_query_joined) /* its result has the layout of the query */
        vw__tensor_rebind(tape, &made, vw__op_contiguous(tape, made));
    for (size_t i = 0; i < 4; i++)
        vw__tensor_drop(tape, &arguments[i]);
    return made;
}

static vw__tensor in_16_bits(vw__tape *tape, vw__tensor x)
{
    vw__tensor lower = vw__op_autocast_lower(tape, x);
    vw__tensor_rebind(tape, &lower,
                      lower.dtype == VW__DTYPE_FLOAT32 ? vw__op_to(tape, lower, VW__DTYPE_BFLOAT16)
                                                       : vw__tensor_hold(tape, lower));
    return lower;
}

vw__tensor vw__op_flash_attention(vw__tape *tape, vw__tensor query, vw__tensor key,
                                  vw__tensor value, const vw__op_attention_shape *shape)
{
    vw__tensor arguments[4] = {in_16_bits(tape, query), in_16_bits(tape, key),
                               in_16_bits(tape, value), vw__tensor_none()};
    vw__tensor made = fused(tape, arguments, shape, VW__OP_ATTENTION_FLASH);
    for (size_t i = 0; i < 3; i++)
        vw__tensor_drop(tape, &arguments[i]);
    return made;
}
