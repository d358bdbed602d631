/* op_shape.c - parts of tensors, and tensors put together. */
#include "plan/op.h"

hr__tensor hr__contiguous(hr__tape *tape, hr__tensor x)
{
    bool has_node = hr__node_begin(tape, &x, 1);
    hr__tensor made = hr__tensor_new(tape, x.elements, x.dtype);
    if (has_node) {
        hr__node_pass(tape, 0, 0);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}

void hr__split(hr__tape *tape, hr__tensor x, size_t count, hr__tensor *parts)
{
    bool has_node = hr__node_begin(tape, &x, 1);
    for (size_t i = 0; i < count; i++) {
        parts[i] = hr__hold(tape, x);
        parts[i].elements = x.elements / count;
    }
    if (has_node) {
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_end_all(tape, parts, count);
    }
}

hr__tensor hr__slice(hr__tape *tape, hr__tensor x, uint64_t elements)
{
    bool has_node = hr__node_begin(tape, &x, 1);
    hr__tensor made = hr__hold(tape, x);
    made.elements = elements;
    if (has_node) {
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}

hr__tensor hr__cat(hr__tape *tape, const hr__tensor *parts, size_t count)
{
    uint64_t elements = 0;
    for (size_t i = 0; i < count; i++)
        elements += parts[i].elements;
    bool has_node = hr__node_begin(tape, parts, count);
    hr__tensor made = hr__tensor_new(tape, elements, parts[0].dtype);
    if (has_node) {
        for (size_t i = 0; i < count; i++) /* narrowed views of what came in */
            hr__node_pass(tape, i, 0);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}

/* cat((-x[half:], x[:half])): what comes back are narrow views, added up in a tensor of x's size.
 */
static hr__tensor rotate_half(hr__tape *tape, hr__tensor x)
{
    hr__tensor negative = hr__tensor_new(tape, x.elements / 2, x.dtype);
    bool has_node = hr__node_begin(tape, &x, 1);
    hr__tensor made = hr__tensor_new(tape, x.elements, x.dtype);
    if (has_node) {
        hr__node_take(tape, x.elements / 2, x.dtype); /* of the negation */
        hr__node_take(tape, x.elements, x.dtype);     /* of the other slice */
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    hr__drop(tape, &negative);
    return made;
}

/* x * cos + rotate_half(x) * sin */
hr__tensor hr__rotate(hr__tape *tape, hr__tensor x, hr__tensor cosine, hr__tensor sine)
{
    hr__tensor straight = hr__mul(tape, x, cosine);
    hr__tensor turned = rotate_half(tape, x);
    hr__rebind(tape, &turned, hr__mul(tape, turned, sine));
    hr__tensor made = hr__add(tape, straight, turned);
    hr__drop(tape, &turned);
    hr__drop(tape, &straight);
    return made;
}

hr__tensor hr__rotate_part(hr__tape *tape, hr__tensor x, hr__tensor cosine, hr__tensor sine,
                           uint64_t width, uint64_t head_width)
{
    uint64_t elements = head_width == 0 ? 0 : x.elements / head_width * width;
    hr__tensor turned = hr__slice(tape, x, elements);
    hr__tensor straight = hr__slice(tape, x, x.elements - elements);
    hr__rebind(tape, &turned, hr__rotate(tape, turned, cosine, sine));
    hr__tensor made = hr__cat(tape, (hr__tensor[]){turned, straight}, 2);
    hr__drop(tape, &straight);
    hr__drop(tape, &turned);
    return made;
}

/* Its derivative adds up rows in the order of their numbers, which it sorts. */
hr__tensor hr__index(hr__tape *tape, hr__tensor x, hr__tensor indices, uint64_t elements)
{
    enum { SORTED_COPIES = 4 };
    bool has_node = hr__node_begin(tape, &x, 1);
    if (has_node)
        hr__node_save(tape, indices);
    hr__tensor made = hr__tensor_new(tape, elements, x.dtype);
    if (has_node) {
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_take(tape, SORTED_COPIES * indices.elements, HR__INT64);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}
