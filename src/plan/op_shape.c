/* op_shape.c - types and what autocast does to them; parts of tensors, and tensors put together. */
#include "plan/op.h"
#include "plan/tape_parts.h"

/* ---- types ----------------------------------------------------------------------------------- */

vw__tensor vw__op_to(vw__tape *tape, vw__tensor x, vw__dtype dtype)
{
    if (!vw__tensor_exists(x) || x.dtype == dtype)
        return vw__tensor_hold(tape, x);
    return vw__op_apply(tape, x, (vw__op_unary){.elements = x.elements, .dtype = dtype});
}

void vw__tape_autocast_enter(vw__tape *tape, vw__dtype dtype)
{
    tape->is_autocast = true;
    tape->autocast_dtype = dtype;
}

void vw__tape_autocast_leave(vw__tape *tape)
{
    for (size_t i = 0; i < tape->casts.count; i++) {
        vw__tape_cast *cast = &tape->casts.items[i];
        tape->leaves.items[cast->leaf].cast = 0;
        vw__tensor_drop(tape, &cast->made);
    }
    tape->casts.count = 0;
    tape->is_autocast = false;
}

static bool is_floating(vw__dtype dtype)
{
    return dtype == VW__DTYPE_FLOAT32 || dtype == VW__DTYPE_BFLOAT16 || dtype == VW__DTYPE_FLOAT16;
}

static vw__tape_cast *find_cast(const vw__tape *tape, uint32_t leaf)
{
    uint32_t cast = tape->leaves.items[leaf].cast;
    return cast != 0 ? &tape->casts.items[cast - 1] : NULL;
}

static void keep_cast(vw__tape *tape, uint32_t leaf, vw__tensor made)
{
    if (!vw__tensor_exists(made) || !VW__TAPE_RESERVE(tape, tape->casts, 1))
        return;
    tape->casts.items[tape->casts.count++] =
        (vw__tape_cast){.leaf = leaf, .made = vw__tensor_hold(tape, made)};
    tape->leaves.items[leaf].cast = (uint32_t)tape->casts.count;
}

/* Remembers the casts of trained float32 weights, while gradients are on. */
vw__tensor vw__op_autocast_lower(vw__tape *tape, vw__tensor x)
{
    if (!tape->is_autocast || !vw__tensor_exists(x) || !is_floating(x.dtype) ||
        x.dtype == tape->autocast_dtype)
        return vw__tensor_hold(tape, x);
    bool is_remembered =
        x.dtype == VW__DTYPE_FLOAT32 && x.source.is_parameter && vw__tensor_wants_gradient(x);
    vw__tape_cast *known = is_remembered ? find_cast(tape, x.source.node) : NULL;
    if (known != NULL)
        return vw__tensor_hold(tape, known->made);
    vw__tensor made = vw__op_to(tape, x, tape->autocast_dtype);
    if (is_remembered)
        keep_cast(tape, x.source.node, made);
    return made;
}

vw__tensor vw__op_autocast_float32(vw__tape *tape, vw__tensor x)
{
    return tape->is_autocast && vw__tensor_exists(x) && is_floating(x.dtype)
               ? vw__op_to(tape, x, VW__DTYPE_FLOAT32)
               : vw__tensor_hold(tape, x);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

vw__tensor vw__op_contiguous(vw__tape *tape, vw__tensor x)
{
    vw__op_unary how = vw__op_like(x);
    how.is_passed = true;
    return vw__op_apply(tape, x, how);
}

void vw__op_split(vw__tape *tape, vw__tensor x, size_t count, vw__tensor *parts)
{
    vw__node_begin(tape, &x, 1);
    for (size_t i = 0; i < count; i++) {
        parts[i] = vw__tensor_hold(tape, x);
        parts[i].elements = x.elements / count;
    }
    vw__node_take_for(tape, 0, x.elements, x.dtype);
    vw__node_end(tape, parts, count);
}

vw__tensor vw__op_slice(vw__tape *tape, vw__tensor x, uint64_t elements)
{
    vw__node_begin(tape, &x, 1);
    vw__tensor made = vw__tensor_hold(tape, x);
    made.elements = elements;
    vw__node_take_for(tape, 0, x.elements, x.dtype);
    vw__node_end(tape, &made, 1);
    return made;
}

vw__tensor vw__op_cat(vw__tape *tape, const vw__tensor *parts, size_t count)
{
    uint64_t elements = 0;
    for (size_t i = 0; i < count; i++)
        elements += parts[i].elements;
    vw__node_begin(tape, parts, count);
    vw__tensor made = vw__tensor_new(tape, elements, parts[0].dtype);
    for (size_t i = 0; i < count; i++) /* narrow views of the incoming gradient */
        vw__node_pass(tape, i, 0);
    vw__node_end(tape, &made, 1);
    return made;
}

/* Each slice's gradient is x's size; they are added up one after the other. */
vw__tensor vw__op_interleave(vw__tape *tape, vw__tensor x, size_t count, uint64_t elements)
{
    vw__node_begin(tape, &x, 1);
    vw__tensor made = vw__tensor_new(tape, elements, x.dtype);
    vw__node_take_for(tape, 0, x.elements, x.dtype);
    if (count > 1)
        vw__node_take(tape, x.elements, x.dtype);
    vw__node_end(tape, &made, 1);
    return made;
}

/* cat((-x[half:], x[:half])): the gradients are narrow views, summed in a tensor of x's size. */
static vw__tensor rotate_half(vw__tape *tape, vw__tensor x)
{
    vw__tensor negative = vw__tensor_new(tape, x.elements / 2, x.dtype);
    vw__node_begin(tape, &x, 1);
    vw__tensor made = vw__tensor_new(tape, x.elements, x.dtype);
    vw__node_take(tape, x.elements / 2, x.dtype); /* of the negation */
    vw__node_take(tape, x.elements, x.dtype);     /* of the other slice */
    vw__node_take_for(tape, 0, x.elements, x.dtype);
    vw__node_end(tape, &made, 1);
    vw__tensor_drop(tape, &negative);
    return made;
}

/* x * cos + rotate_half(x) * sin */
vw__tensor vw__op_rotate(vw__tape *tape, vw__tensor x, vw__tensor cosine, vw__tensor sine)
{
    vw__tensor straight = vw__op_mul(tape, x, cosine);
    vw__tensor turned = rotate_half(tape, x);
    vw__tensor_rebind(tape, &turned, vw__op_mul(tape, turned, sine));
    vw__tensor made = vw__op_add(tape, straight, turned);
    vw__tensor_drop(tape, &turned);
    vw__tensor_drop(tape, &straight);
    return made;
}

vw__tensor vw__op_rotate_part(vw__tape *tape, vw__tensor x, vw__tensor cosine, vw__tensor sine,
                              uint64_t width, uint64_t head_width)
{
    uint64_t elements = head_width == 0 ? 0 : x.elements / head_width * width;
    vw__tensor turned = vw__op_slice(tape, x, elements);
    vw__tensor straight = vw__op_slice(tape, x, x.elements - elements);
    vw__tensor_rebind(tape, &turned, vw__op_rotate(tape, turned, cosine, sine));
    vw__tensor made = vw__op_cat(tape, (vw__tensor[]){turned, straight}, 2);
    vw__tensor_drop(tape, &straight);
    vw__tensor_drop(tape, &turned);
    return made;
}

vw__tensor vw__op_gather(vw__tape *tape, vw__tensor x, vw__tensor indices, uint64_t elements)
{
    vw__node_begin(tape, &x, 1);
    vw__node_save(tape, x);
    vw__node_save(tape, indices);
    vw__tensor made = vw__tensor_new(tape, elements, x.dtype);
    vw__node_take_for(tape, 0, x.elements, x.dtype);
    vw__node_end(tape, &made, 1);
    return made;
}

/* Its derivative sorts the indices, and sums rows in that order. */
vw__tensor vw__op_index(vw__tape *tape, vw__tensor x, vw__tensor indices, uint64_t elements)
{
    enum { SORTED_COPIES = 4 };
    vw__node_begin(tape, &x, 1);
    vw__node_save(tape, indices);
    vw__tensor made = vw__tensor_new(tape, elements, x.dtype);
    vw__node_take_for(tape, 0, x.elements, x.dtype);
    vw__node_take(tape, SORTED_COPIES * indices.elements, VW__DTYPE_INT64);
    vw__node_end(tape, &made, 1);
    return made;
}
