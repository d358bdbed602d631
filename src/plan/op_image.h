/* op_image.h - operators on images: [batch, channels, height, width], in PyTorch's usual layout.
 * (op_image.c) */
#ifndef VW_PLAN_OP_IMAGE_H
#define VW_PLAN_OP_IMAGE_H

#include "plan/tape.h"

/* A window that walks over an image: a convolution's, or a pool's. */
typedef struct vw__window {
    uint64_t kernel, stride, padding;
} vw__window;

/* The number of steps along a side; 0 if the window does not fit. */
uint64_t vw__window_steps(const vw__window *window, uint64_t side);

typedef struct vw__image_shape {
    uint64_t batch, channels, height, width;
} vw__image_shape;

/* The shape of the result, with that many channels. */
vw__image_shape vw__window_shape(const vw__window *window, const vw__image_shape *shape,
                                 uint64_t channels);
uint64_t vw__image_elements(vw__tape *tape, const vw__image_shape *shape);

/* conv2d() of an image of that shape to `out_channels`; `bias` may be no tensor. Its derivative
 * saves both operands. */
typedef struct vw__conv_shape {
    vw__image_shape in;
    vw__window window;
    uint64_t out_channels, groups;
} vw__conv_shape;

vw__tensor vw__conv2d(vw__tape *tape, vw__tensor x, vw__tensor weight, vw__tensor bias,
                      const vw__conv_shape *shape);

/* batch_norm(): in training with the batch's own mean and deviation, which are saved; else with the
 * running ones. The same tensors are made by cuDNN's kernel and by PyTorch's own. */
vw__tensor vw__batch_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, vw__tensor bias,
                          bool is_training);

/* max_pool2d(): its indices are int64. */
vw__tensor vw__max_pool(vw__tape *tape, vw__tensor x, uint64_t elements);

/* avg_pool2d(): saves its argument. */
vw__tensor vw__avg_pool(vw__tape *tape, vw__tensor x, uint64_t elements);

#endif /* VW_PLAN_OP_IMAGE_H */
