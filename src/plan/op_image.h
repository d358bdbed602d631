/* op_image.h - operators on images: [batch, channels, height, width], in PyTorch's usual layout.
 * (op_image.c) */
#ifndef VW_PLAN_OP_IMAGE_H
#define VW_PLAN_OP_IMAGE_H

#include "plan/tape.h"

/* A window that walks over an image: a convolution's, or a pool's. */
typedef struct vw__op_window {
    uint64_t kernel, stride, padding;
} vw__op_window;

/* The number of steps along a side; 0 if the window does not fit. */
uint64_t vw__op_window_steps(const vw__op_window *window, uint64_t side);

typedef struct vw__op_image_shape {
    uint64_t batch, channels, height, width;
} vw__op_image_shape;

/* The shape of the result, with that many channels. */
vw__op_image_shape vw__op_window_shape(const vw__op_window *window, const vw__op_image_shape *shape,
                                       uint64_t channels);
uint64_t vw__op_image_elements(vw__tape *tape, const vw__op_image_shape *shape);

/* conv2d() of an image of that shape to `out_channels`; `bias` may be no tensor. Its derivative
 * saves both operands. */
typedef struct vw__op_conv_shape {
    vw__op_image_shape in;
    vw__op_window window;
    uint64_t out_channels, groups;
} vw__op_conv_shape;

vw__tensor vw__op_conv2d(vw__tape *tape, vw__tensor x, vw__tensor weight, vw__tensor bias,
                         const vw__op_conv_shape *shape);

/* batch_norm(): in training with the batch's own mean and deviation, which are saved; else with the
 * running ones. The same tensors are made by cuDNN's kernel and by PyTorch's own. */
vw__tensor vw__op_batch_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, vw__tensor bias,
                             bool is_training);

/* max_pool2d(): its indices are int64. */
vw__tensor vw__op_max_pool(vw__tape *tape, vw__tensor x, uint64_t elements);

/* avg_pool2d(): saves its argument. */
vw__tensor vw__op_avg_pool(vw__tape *tape, vw__tensor x, uint64_t elements);

#endif /* VW_PLAN_OP_IMAGE_H */
