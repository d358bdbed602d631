/* op_image.h - operators on images: [batch, channels, height, width], in PyTorch's usual layout. */
#ifndef HR_PLAN_OP_IMAGE_H
#define HR_PLAN_OP_IMAGE_H

#include "plan/tape.h"

/* A window that walks over an image: a convolution's, or a pool's. */
typedef struct hr__window {
    uint64_t kernel, stride, padding;
} hr__window;

/* How many steps it takes along a side; 0: it does not fit in. */
uint64_t hr__window_steps(const hr__window *window, uint64_t side);

typedef struct hr__image_shape {
    uint64_t batch, channels, height, width;
} hr__image_shape;

/* The shape of what the window makes, with that many channels. */
hr__image_shape hr__window_shape(const hr__window *window, const hr__image_shape *shape,
                                 uint64_t channels);
uint64_t hr__image_elements(hr__tape *tape, const hr__image_shape *shape);

/* conv2d() of an image of that shape to `out_channels`; `bias` may be none. Its derivative saves
 * both operands. (op_conv.c) */
typedef struct hr__conv_shape {
    hr__image_shape in;
    hr__window window;
    uint64_t out_channels, groups;
} hr__conv_shape;

hr__tensor hr__conv2d(hr__tape *tape, hr__tensor x, hr__tensor weight, hr__tensor bias,
                      const hr__conv_shape *shape);

/* batch_norm(): in training with the batch's own mean and deviation, which are saved; else with the
 * running ones. The same tensors are made by cuDNN's kernel and by PyTorch's own. (op_image.c) */
hr__tensor hr__batch_norm(hr__tape *tape, hr__tensor x, hr__tensor weight, hr__tensor bias,
                          bool is_training);

/* max_pool2d(): its indices are int64. (op_image.c) */
hr__tensor hr__max_pool(hr__tape *tape, hr__tensor x, uint64_t elements);

/* avg_pool2d(): saves its argument. (op_image.c) */
hr__tensor hr__avg_pool(hr__tape *tape, hr__tensor x, uint64_t elements);

#endif /* HR_PLAN_OP_IMAGE_H */
