/* op_matrix.c - matrix products and tables. */
#include "plan/op.h"

/* addmm, or mm without a bias: an argument is saved only if the other wants a gradient. */
static vw__tensor product(vw__tape *tape, vw__tensor x, vw__tensor weight, vw__tensor bias,
                          uint64_t in, uint64_t out)
{
    uint64_t rows = in == 0 ? 0 : x.elements / in;
    bool has_node = vw__node_begin(tape, (vw__tensor[]){x, weight, bias}, 3);
    if (has_node && vw__wants_gradient(weight))
        vw__node_save(tape, x);
    if (has_node && vw__wants_gradient(x))
        vw__node_save(tape, weight);
    vw__tensor made = vw__result_new(tape, vw__times(tape, rows, out), x.dtype);
    if (has_node) {
        vw__node_take_for(tape, 0, x.elements, x.dtype);
        vw__node_take_for(tape, 1, weight.elements, weight.dtype);
        if (vw__is_tensor(bias))
            vw__node_sum_rows_for(tape, 2, rows, bias.elements, bias.dtype);
        vw__node_end(tape, (vw__tensor *[]){&made}, 1);
    }
    return made;
}

vw__tensor vw__linear(vw__tape *tape, vw__tensor x, const vw__linear_weights *module)
{
    vw__tensor argument = vw__autocast_lower(tape, x);
    vw__tensor weight = vw__autocast_lower(tape, module->weight);
    vw__tensor bias = vw__autocast_lower(tape, module->bias);
    vw__tensor made = product(tape, argument, weight, bias, module->in, module->out);
    vw__drop(tape, &bias);
    vw__drop(tape, &weight);
    vw__drop(tape, &argument);
    return made;
}

vw__tensor vw__matmul(vw__tape *tape, vw__tensor a, vw__tensor b, uint64_t elements)
{
    vw__tensor left = vw__autocast_lower(tape, a), right = vw__autocast_lower(tape, b);
    bool has_node = vw__node_begin(tape, (vw__tensor[]){left, right}, 2);
    if (has_node && vw__wants_gradient(right))
        vw__node_save(tape, left);
    if (has_node && vw__wants_gradient(left))
        vw__node_save(tape, right);
    vw__tensor made = vw__result_new(tape, elements, left.dtype);
    if (has_node) {
        vw__node_take_for(tape, 0, left.elements, left.dtype);
        vw__node_take_for(tape, 1, right.elements, right.dtype);
        vw__node_end(tape, (vw__tensor *[]){&made}, 1);
    }
    vw__drop(tape, &right);
    vw__drop(tape, &left);
    return made;
}

/* Its derivative sorts the ids where there are many. */
vw__tensor vw__embedding(vw__tape *tape, vw__tensor ids, vw__tensor weight, uint64_t width)
{
    enum { MANY_IDS = 3072, SORTED_COPIES = 4 };
    bool has_node = vw__node_begin(tape, &weight, 1);
    if (has_node)
        vw__node_save(tape, ids);
    vw__tensor made = vw__tensor_new(tape, vw__times(tape, ids.elements, width), weight.dtype);
    if (has_node) {
        vw__node_take_for(tape, 0, weight.elements, weight.dtype);
        if (ids.elements > MANY_IDS)
            vw__node_take(tape, SORTED_COPIES * ids.elements, VW__INT64);
        vw__node_end(tape, (vw__tensor *[]){&made}, 1);
    }
    return made;
}
