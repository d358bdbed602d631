/* op_rnn.c - LSTM, GRU and the plain RNN, on cuDNN.
 *
 * cuDNN keeps what its derivative wants in one *reserve*, whose size it does not document. For each
 * step, layer and direction it has to hold the gates and the state; an LSTM's cell beside those.
 * That is what is counted. It was not measured. */
#include "plan/op_rnn.h"

#include "plan/op.h"

/* Rows of a state's width: of a weight; kept of a step. */
static const struct {
    uint64_t gates, kept, states;
} kinds[VW__OP_RNN_KIND_COUNT] = {
    [VW__OP_RNN_PLAIN] = {1, 2, 1},
    [VW__OP_RNN_GRU] = {3, 5, 1},
    [VW__OP_RNN_LSTM] = {4, 6, 2},
};

uint64_t vw__op_rnn_gates(vw__op_rnn_kind kind)
{
    return kinds[kind].gates;
}

vw__tensor vw__op_rnn(vw__tape *tape, const vw__tensor *arguments, size_t argument_count,
                      const vw__op_rnn_shape *shape)
{
    const vw__dtype dtype = arguments[0].dtype;
    const uint64_t width = shape->directions * shape->hidden;
    const uint64_t states = vw__tape_times(tape, shape->layers * width, shape->batch);
    const uint64_t steps = vw__tape_times(tape, states, shape->length);
    const uint64_t elements = shape->layers == 0 ? 0 : steps / shape->layers;
    vw__tensor zeros = vw__tensor_new(tape, states * kinds[shape->kind].states, dtype);
    vw__node_begin(tape, arguments, argument_count);
    for (size_t i = 0; i < argument_count; i++)
        vw__node_save(tape, arguments[i]);
    vw__tensor made = vw__tensor_new(tape, elements, dtype);
    vw__tensor last = vw__tensor_new(tape, states * kinds[shape->kind].states, dtype);
    vw__tensor reserve =
        vw__tensor_new(tape, vw__tape_times(tape, steps, kinds[shape->kind].kept), dtype);
    vw__node_save(tape, zeros);
    vw__node_save(tape, made);
    vw__node_save(tape, reserve);
    for (size_t i = 0; i < argument_count; i++)
        vw__node_take_for(tape, i, arguments[i].elements, dtype);
    vw__node_end(tape, &made, 1);
    vw__tensor_drop(tape, &reserve);
    vw__tensor_drop(tape, &last);
    vw__tensor_drop(tape, &zeros);
    return made;
}
