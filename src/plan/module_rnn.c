/* module_rnn.c - nn.LSTM, nn.GRU and nn.RNN. */
#include "plan/plan_run.h"

enum { PARTS = 4 }; /* of a layer and direction: two weights, two biases */

/* A layer reads what both directions of the one below made. */
static void make_layer(vw__plan_run *run, const vw__op_rnn_shape *shape, uint64_t in, bool has_bias,
                       vw__tensor *weights)
{
    const uint64_t rows = vw__op_rnn_gates(shape->kind) * shape->hidden;
    weights[0] = vw__module_make_table(run, rows, in);
    weights[1] = vw__module_make_table(run, rows, shape->hidden);
    weights[2] = has_bias ? vw__module_make_weight(run, rows) : vw__tensor_none();
    weights[3] = has_bias ? vw__module_make_weight(run, rows) : vw__tensor_none();
}

vw__module_rnn vw__module_make_rnn(vw__plan_run *run, const char *name,
                                   const vw__op_rnn_shape *shape, bool has_bias)
{
    vw__module_rnn made = {.name = name, .shape = *shape};
    const uint64_t cells = shape->layers * shape->directions;
    made.weight_count = (size_t)cells * PARTS; /* within limits */
    made.weights = vw__module_alloc(run, made.weight_count, sizeof *made.weights);
    for (uint64_t i = 0; i < cells && vw__tape_status(run->tape) == VW_OK; i++)
        make_layer(run, shape,
                   i < shape->directions ? shape->in : shape->directions * shape->hidden, has_bias,
                   &made.weights[i * PARTS]);
    return made;
}

vw__tensor vw__module_apply_rnn(vw__plan_run *run, vw__tensor x, const vw__module_rnn *module)
{
    vw__tape *tape = run->tape;
    const size_t count = module->weight_count + 1;
    vw__tensor *arguments = vw__module_alloc(run, count, sizeof *arguments);
    if (vw__tape_status(tape) != VW_OK)
        return vw__tensor_none();
    vw__tape_enter(tape, module->name, -1);
    arguments[0] = vw__op_autocast_lower(tape, x);
    for (size_t i = 1; i < count; i++)
        arguments[i] = vw__op_autocast_lower(tape, module->weights[i - 1]);
    vw__tensor made = vw__op_rnn(tape, arguments, count, &module->shape);
    for (size_t i = 0; i < count; i++)
        vw__tensor_drop(tape, &arguments[i]);
    vw__tape_leave(tape);
    return made;
}
