/* op_matrix.c - matrix products and tables, and sums of rows: the gradients of biases, and of
 * weights that scale. */
#include "plan/hidden.h"
#include "plan/op.h"

/* ---- sums of rows ---------------------------------------------------------------------------- */

void vw__node_take_hidden(vw__tape *tape, const vw__hidden *hidden)
{
    uint16_t slots[VW__HIDDEN_MOST];
    for (size_t i = 0; i < hidden->count; i++) {
        const vw__hidden_step *step = &hidden->steps[i];
        if (step->size_bytes > 0)
            slots[i] = vw__node_take(tape, step->size_bytes, VW__DTYPE_BYTE);
        else
            vw__node_let_go(tape, slots[step->taken]);
    }
}

void vw__node_sum_rows_for(vw__tape *tape, size_t edge, uint64_t rows, uint64_t columns,
                           vw__dtype dtype)
{
    if (!vw__node_wants(tape, edge))
        return;
    vw__node_return(tape);
    vw__node_take_for(tape, edge, columns, dtype);
    const vw__hidden buffer = vw__hidden_sum(1, rows, columns);
    vw__node_take_hidden(tape, &buffer);
}

/* ---- products -------------------------------------------------------------------------------- */

/* addmm, mm or bmm: an argument is saved only if the other wants a gradient. `bias` may be no
 * tensor. Selective checkpoints keep the result if `is_kept`. */
static vw__tensor product(vw__tape *tape, vw__tensor a, vw__tensor b, vw__tensor bias,
                          uint64_t elements, bool is_kept)
{
    vw__node_begin(tape, (vw__tensor[]){a, b, bias}, 3);
    if (vw__tensor_wants_gradient(b))
        vw__node_save(tape, a);
    if (vw__tensor_wants_gradient(a))
        vw__node_save(tape, b);
    vw__tensor made = is_kept ? vw__tensor_new_result(tape, elements, a.dtype)
                              : vw__tensor_new(tape, elements, a.dtype);
    vw__node_take_for(tape, 0, a.elements, a.dtype);
    vw__node_take_for(tape, 1, b.elements, b.dtype);
    if (vw__tensor_exists(bias) && bias.elements > 0)
        vw__node_sum_rows_for(tape, 2, elements / bias.elements, bias.elements, bias.dtype);
    vw__node_end(tape, &made, 1);
    return made;
}

vw__tensor vw__op_linear(vw__tape *tape, vw__tensor x, const vw__op_linear_weights *module)
{
    const uint64_t rows = module->in == 0 ? 0 : x.elements / module->in;
    vw__tensor argument = vw__op_autocast_lower(tape, x);
    vw__tensor weight = vw__op_autocast_lower(tape, module->weight);
    vw__tensor bias = vw__op_autocast_lower(tape, module->bias);
    vw__tensor made =
        product(tape, argument, weight, bias, vw__tape_times(tape, rows, module->out), true);
    vw__tensor_drop(tape, &bias);
    vw__tensor_drop(tape, &weight);
    vw__tensor_drop(tape, &argument);
    return made;
}

vw__tensor vw__op_matmul(vw__tape *tape, vw__tensor a, vw__tensor b, uint64_t elements)
{
    vw__tensor left = vw__op_autocast_lower(tape, a), right = vw__op_autocast_lower(tape, b);
    vw__tensor made = product(tape, left, right, vw__tensor_none(), elements, true);
    vw__tensor_drop(tape, &right);
    vw__tensor_drop(tape, &left);
    return made;
}

vw__tensor vw__op_grouped(vw__tape *tape, vw__tensor x, vw__tensor weight, uint64_t elements)
{
    vw__tensor argument = vw__op_to(tape, x, weight.dtype);
    vw__tensor made = product(tape, argument, weight, vw__tensor_none(), elements, false);
    vw__tensor_drop(tape, &argument);
    return made;
}

vw__tensor vw__op_embedding(vw__tape *tape, vw__tensor ids, vw__tensor weight, uint64_t width)
{
    const vw__hidden buffer = vw__hidden_embedding(ids.elements);
    vw__node_begin(tape, &weight, 1);
    vw__node_save(tape, ids);
    vw__tensor made = vw__tensor_new(tape, vw__tape_times(tape, ids.elements, width), weight.dtype);
    vw__node_take_for(tape, 0, weight.elements, weight.dtype);
    vw__node_take_hidden(tape, &buffer);
    vw__node_end(tape, &made, 1);
    return made;
}
