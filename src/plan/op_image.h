/* op_image.h - operators on images: [batch, channels, height, width], in PyTorch's usual layout;
 * and on what has one dimension less or more. (op_image.c) */
#ifndef VW_PLAN_OP_IMAGE_H
#define VW_PLAN_OP_IMAGE_H

#include "plan/tape.h"

/* A window that walks over an image: a convolution's, or a pool's. */
typedef struct vw__op_window {
    uint64_t kernel, stride, padding;
    uint64_t dilation;   /* 0: as 1 */
    uint64_t dimensions; /* 1 to 3, a signal has a width only; 0: as 2 */
    uint64_t extra;      /* output_padding of a transposed one */
    bool is_transposed;  /* the image is its result's size, and the other way round */
} vw__op_window;

static inline uint64_t vw__op_window_dimensions(const vw__op_window *window)
{
    return window->dimensions > 0 ? window->dimensions : 2;
}

/* The length of the result along a side; 0 if the window does not fit. */
uint64_t vw__op_window_steps(const vw__op_window *window, uint64_t side);
/* The places under the window. */
uint64_t vw__op_window_area(vw__tape *tape, const vw__op_window *window);

typedef struct vw__op_image_shape {
    uint64_t batch, channels, height, width;
    uint64_t depth; /* of a volume; 0: as 1 */
} vw__op_image_shape;

/* The shape of the result, with that many channels. */
vw__op_image_shape vw__op_window_shape(const vw__op_window *window, const vw__op_image_shape *shape,
                                       uint64_t channels);
uint64_t vw__op_image_elements(vw__tape *tape, const vw__op_image_shape *shape);

/* conv2d() of an image of that shape to `out_channels`, and its like; `bias` may be no tensor. Its
 * derivative saves both operands. */
typedef struct vw__op_conv_shape {
    vw__op_image_shape in;
    vw__op_window window;
    uint64_t out_channels, groups;
    bool is_channels_last; /* the image's layout, and the result's */
} vw__op_conv_shape;

vw__tensor vw__op_conv(vw__tape *tape, vw__tensor x, vw__tensor weight, vw__tensor bias,
                       const vw__op_conv_shape *shape);

/* batch_norm(): in training with the batch's own mean and deviation, which are saved; else with the
 * running ones. The same tensors are made by cuDNN's kernel and by PyTorch's own. */
vw__tensor vw__op_batch_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, vw__tensor bias,
                             bool is_training);

/* max_pool2d(): its indices are int64. */
vw__tensor vw__op_max_pool(vw__tape *tape, vw__tensor x, uint64_t elements);

/* avg_pool2d(), and adaptive_avg_pool2d() to more than one place: saves its argument. */
vw__tensor vw__op_avg_pool(vw__tape *tape, vw__tensor x, uint64_t elements);

/* Dropout of whole samples: a number each is saved. */
vw__tensor vw__op_drop_path(vw__tape *tape, vw__tensor x, uint64_t samples);

#endif /* VW_PLAN_OP_IMAGE_H */
