/* op_fused_loss.c - head and cross-entropy in one operator, as Liger's kernel has them.
 *
 * Its forward pass goes through chunks of the rows: logits, which become their own gradient in
 * place, and of that the gradients of the rows and of the weight. Both gradients are there when it
 * ends, and are what it saves; the derivative hands them on. So there never are all logits, and no
 * hidden state is saved for the head. */
#include "plan/op.h"

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* So many that a chunk's logits are about as large as the rows are. */
static uint64_t rows_of_chunk(uint64_t rows, const vw__op_linear_weights *head)
{
    const uint64_t wanted = divide_up(rows, divide_up(head->out, head->in));
    uint64_t power = 1;
    while (power < wanted)
        power *= 2;
    return power < rows ? power : rows;
}

/* One chunk's logits; under autocast the products are tensors of their own, in its type. */
static void run_chunk(vw__tape *tape, vw__tensor x, uint64_t chunk_rows,
                      const vw__op_linear_weights *head)
{
    vw__tensor weight = vw__op_autocast_lower(tape, head->weight);
    vw__tensor logits =
        vw__tensor_new(tape, vw__tape_times(tape, chunk_rows, head->out), weight.dtype);
    if (weight.dtype != x.dtype || weight.dtype != head->weight.dtype) {
        vw__tensor product =
            vw__tensor_new(tape, vw__tape_times(tape, chunk_rows, head->in), weight.dtype);
        vw__tensor_drop(tape, &product);
    }
    vw__tensor_drop(tape, &logits);
    vw__tensor_drop(tape, &weight);
}

vw__tensor vw__op_fused_loss(vw__tape *tape, vw__tensor x, const vw__op_linear_weights *head,
                             uint64_t rows)
{
    enum { ROWS, WEIGHT, BIAS, ARGUMENTS };
    const vw__tensor arguments[ARGUMENTS] = {x, head->weight, head->bias};
    vw__tensor gradients[ARGUMENTS] = {vw__tensor_none(), vw__tensor_none(), vw__tensor_none()};
    if (rows == 0 || head->in == 0)
        return vw__tensor_none();
    for (size_t i = 0; i < ARGUMENTS; i++)
        if (vw__tensor_wants_gradient(arguments[i]))
            gradients[i] = vw__tensor_new(tape, arguments[i].elements, arguments[i].dtype);
    vw__tensor losses = vw__tensor_new(tape, rows, VW__DTYPE_FLOAT32);
    const bool was_grad_on = vw__tape_set_grad(tape, false);
    run_chunk(tape, x, rows_of_chunk(rows, head), head);
    vw__tape_set_grad(tape, was_grad_on);
    vw__tensor made = vw__tensor_new(tape, 1, VW__DTYPE_FLOAT32);
    size_t saved = 0;
    vw__node_begin(tape, arguments, ARGUMENTS);
    for (size_t i = 0; i < ARGUMENTS; i++)
        if (vw__tensor_exists(gradients[i])) {
            vw__node_save(tape, gradients[i]);
            vw__node_give_saved(tape, i, saved++);
        }
    vw__node_end(tape, &made, 1);
    vw__tensor_drop(tape, &losses);
    for (size_t i = 0; i < ARGUMENTS; i++)
        vw__tensor_drop(tape, &gradients[i]);
    return made;
}
