/* op_rnn.h - recurrent layers, as cuDNN runs them: all steps and layers in one call. (op_rnn.c) */
#ifndef VW_PLAN_OP_RNN_H
#define VW_PLAN_OP_RNN_H

#include "plan/tape.h"

typedef enum vw__op_rnn_kind {
    VW__OP_RNN_PLAIN, /* nn.RNN */
    VW__OP_RNN_GRU,
    VW__OP_RNN_LSTM,
    VW__OP_RNN_KIND_COUNT
} vw__op_rnn_kind;

typedef struct vw__op_rnn_shape {
    vw__op_rnn_kind kind;
    uint64_t batch, length, in, hidden; /* widths of what comes in and of a state */
    uint64_t layers, directions;
    bool has_dropout; /* between layers */
} vw__op_rnn_shape;

/* Rows of a weight for each element of a state: 1, 3 or 4. */
uint64_t vw__op_rnn_gates(vw__op_rnn_kind kind);

/* x of batch * length * in, to batch * length * directions * hidden. `arguments` begins with x;
 * weights and biases follow. */
vw__tensor vw__op_rnn(vw__tape *tape, const vw__tensor *arguments, size_t argument_count,
                      const vw__op_rnn_shape *shape);

#endif /* VW_PLAN_OP_RNN_H */
