/* op_matrix.c - matrix products and tables. */
#include "plan/op.h"

/* addmm, or mm without a bias: an argument is saved only if the other wants a gradient. */
static hr__tensor product(hr__tape *tape, hr__tensor x, hr__tensor weight, hr__tensor bias,
                          uint64_t in, uint64_t out)
{
    uint64_t rows = in == 0 ? 0 : x.elements / in;
    bool has_node = hr__node_begin(tape, (hr__tensor[]){x, weight, bias}, 3);
    if (has_node && hr__wants_gradient(weight))
        hr__node_save(tape, x);
    if (has_node && hr__wants_gradient(x))
        hr__node_save(tape, weight);
    hr__tensor made = hr__result_new(tape, hr__times(tape, rows, out), x.dtype);
    if (has_node) {
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_take_for(tape, 1, weight.elements, weight.dtype);
        if (hr__is_tensor(bias))
            hr__node_sum_rows_for(tape, 2, rows, bias.elements, bias.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}

hr__tensor hr__linear(hr__tape *tape, hr__tensor x, const hr__linear_weights *module)
{
    hr__tensor argument = hr__autocast_lower(tape, x);
    hr__tensor weight = hr__autocast_lower(tape, module->weight);
    hr__tensor bias = hr__autocast_lower(tape, module->bias);
    hr__tensor made = product(tape, argument, weight, bias, module->in, module->out);
    hr__drop(tape, &bias);
    hr__drop(tape, &weight);
    hr__drop(tape, &argument);
    return made;
}

hr__tensor hr__matmul(hr__tape *tape, hr__tensor a, hr__tensor b, uint64_t elements)
{
    hr__tensor left = hr__autocast_lower(tape, a), right = hr__autocast_lower(tape, b);
    bool has_node = hr__node_begin(tape, (hr__tensor[]){left, right}, 2);
    if (has_node && hr__wants_gradient(right))
        hr__node_save(tape, left);
    if (has_node && hr__wants_gradient(left))
        hr__node_save(tape, right);
    hr__tensor made = hr__result_new(tape, elements, left.dtype);
    if (has_node) {
        hr__node_take_for(tape, 0, left.elements, left.dtype);
        hr__node_take_for(tape, 1, right.elements, right.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    hr__drop(tape, &right);
    hr__drop(tape, &left);
    return made;
}

/* Its derivative sorts the ids where there are many. */
hr__tensor hr__embedding(hr__tape *tape, hr__tensor ids, hr__tensor weight, uint64_t width)
{
    enum { MANY_IDS = 3072, SORTED_COPIES = 4 };
    bool has_node = hr__node_begin(tape, &weight, 1);
    if (has_node)
        hr__node_save(tape, ids);
    hr__tensor made = hr__tensor_new(tape, hr__times(tape, ids.elements, width), weight.dtype);
    if (has_node) {
        hr__node_take_for(tape, 0, weight.elements, weight.dtype);
        if (ids.elements > MANY_IDS)
            hr__node_take(tape, SORTED_COPIES * ids.elements, HR__INT64);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}
