/* hidden.h - memory that kernels take beside their results.
 *
 * PyTorch's dispatcher sees the arguments and the results of an operator. Some kernels also take
 * buffers from the allocator while they run, or keep a workspace. These rules are the one place
 * that knows how many bytes that is: the operators of the tape (op_*.c) use them, and so do traces
 * of a program (traced_play.c), which name the operator and its numbers.
 *
 * A rule gives a short list of buffers in the order in which the kernel takes them. Sizes beyond 64
 * bits are UINT64_MAX, which nothing can allocate. */
#ifndef VW_PLAN_HIDDEN_H
#define VW_PLAN_HIDDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/op_image.h"

enum { VW__HIDDEN_MOST = 8 };

/* Takes `size_bytes`, or lets go of a buffer that was taken. What is not let go lives until the
 * operator ends. */
typedef struct vw__hidden_step {
    uint64_t size_bytes; /* 0: lets go */
    size_t taken;        /* letting go: the step that took it */
} vw__hidden_step;

typedef struct vw__hidden {
    vw__hidden_step steps[VW__HIDDEN_MOST];
    size_t count;
} vw__hidden;

/* What cuBLAS takes for each thread that computes, and keeps: the program's, and autograd's.
 * `card_name` may be NULL or unknown. */
uint64_t vw__hidden_cublas_bytes(const char *card_name);

/* The sum of `rows` rows, as the gradients of biases are; of `outer` tables, each by itself. */
vw__hidden vw__hidden_sum(uint64_t outer, uint64_t rows, uint64_t columns);

/* The gradient of an embedding. */
vw__hidden vw__hidden_embedding(uint64_t ids);

/* What a convolution computes. */
typedef enum vw__hidden_side {
    VW__HIDDEN_RESULT,
    VW__HIDDEN_IMAGE_GRADIENT,
    VW__HIDDEN_WEIGHT_GRADIENT,
} vw__hidden_side;

vw__hidden vw__hidden_convolution(const vw__op_conv_shape *shape, uint64_t element_bytes,
                                  vw__hidden_side side);

/* The derivative of a fused attention. */
typedef struct vw__hidden_heads {
    bool is_flash; /* else the memory-efficient kernel */
    uint64_t element_bytes;
    uint64_t batch, heads, key_heads, length, key_length, width;
} vw__hidden_heads;

vw__hidden vw__hidden_attention(const vw__hidden_heads *shape);

/* What cuDNN takes for a recurrent layer while it computes, forwards and backwards alike. */
typedef struct vw__hidden_cells {
    uint64_t gates; /* 4: LSTM, 3: GRU, 1: a plain one */
    bool is_training, has_dropout;
    uint64_t element_bytes;
    uint64_t rows; /* of all steps */
    uint64_t batch, inputs, width, layers, directions;
} vw__hidden_cells;

vw__hidden vw__hidden_recurrent(const vw__hidden_cells *cells);

#endif /* VW_PLAN_HIDDEN_H */
