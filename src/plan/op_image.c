/* op_image.c - convolutions, batch norm and pools.
 *
 * cuDNN has no formula for its workspaces. What it took on Hopper in 30 steps of a ResNet-50, 24 of
 * a U-Net and 6 of a ViT (recorded allocations, cuDNN 9) has one reason nearly everywhere: its fast
 * kernels want channels last. A convolution of tensors in PyTorch's usual layout then copies its
 * image, its result and its weight (of 1x1 kernels both layouts are the same) to that layout and
 * back, in a workspace that holds these copies. The exceptions that were seen:
 *
 * - float32, where every plane has an even number of pixels, and windows do not overlap or there
 * are only a few channels: there are kernels for the usual layout;
 * - 16 bits, 1x1 convolutions that are plain matrix products, again of even planes;
 * - 16 bits, the gradient of such a convolution's weight, whatever the planes: one for each image,
 * in float32, which are summed. Weights of a million elements were seen to copy, of 400,000 not; of
 *   260,000 both, in a ResNet-50 with float16;
 * - one filter for each channel: PyTorch's own kernels.
 *
 * Splitting long sums adds a few per cent, which are left out. */
#include "plan/op.h"
#include "plan/op_image.h"

/* ---- convolutions ---------------------------------------------------------------------------- */

uint64_t vw__op_window_steps(const vw__op_window *window, uint64_t side)
{
    const uint64_t dilation = window->dilation > 0 ? window->dilation : 1;
    if (window->kernel == 0 || window->stride == 0 || side == 0)
        return 0;
    const uint64_t reach = (window->kernel - 1) * dilation + 1, padding = 2 * window->padding;
    if (window->is_transposed) {
        const uint64_t whole = (side - 1) * window->stride + reach + window->extra;
        return whole > padding ? whole - padding : 0;
    }
    return side + padding < reach ? 0 : (side + padding - reach) / window->stride + 1;
}

static uint64_t dimensions_of(const vw__op_window *window)
{
    return window->dimensions > 0 ? window->dimensions : 2;
}

uint64_t vw__op_window_area(vw__tape *tape, const vw__op_window *window)
{
    uint64_t area = 1;
    for (uint64_t i = 0; i < dimensions_of(window); i++)
        area = vw__tape_times(tape, area, window->kernel);
    return area;
}

vw__op_image_shape vw__op_window_shape(const vw__op_window *window, const vw__op_image_shape *shape,
                                       uint64_t channels)
{
    const uint64_t dimensions = dimensions_of(window);
    vw__op_image_shape made = *shape;
    made.channels = channels;
    made.width = vw__op_window_steps(window, shape->width);
    if (dimensions > 1)
        made.height = vw__op_window_steps(window, shape->height);
    if (dimensions > 2)
        made.depth = vw__op_window_steps(window, shape->depth);
    return made;
}

uint64_t vw__op_image_elements(vw__tape *tape, const vw__op_image_shape *shape)
{
    const uint64_t planes =
        vw__tape_times(tape, vw__tape_times(tape, shape->batch, shape->channels),
                       shape->depth > 0 ? shape->depth : 1);
    return vw__tape_times(tape, planes, vw__tape_times(tape, shape->height, shape->width));
}

enum { LANES = 8 };

/* Channels last are read eight at a time; there is a kernel of its own for up to four. */
static uint64_t padded_channels(uint64_t channels)
{
    enum { FEW = 4 };
    return channels < FEW ? FEW : (channels + LANES - 1) / LANES * LANES;
}

static bool has_even_planes(const vw__op_conv_shape *shape)
{
    vw__op_image_shape out = vw__op_window_shape(&shape->window, &shape->in, shape->out_channels);
    return shape->in.height % 2 * (shape->in.width % 2) == 0 &&
           out.height % 2 * (out.width % 2) == 0;
}

static bool is_plain_product(const vw__op_window *window)
{
    return window->kernel == 1 && window->stride == 1 && window->padding == 0;
}

static bool overlaps(const vw__op_window *window)
{
    return window->kernel > window->stride;
}

/* Which convolutions copy: those that make the result and the image's gradient; the weight's. */
typedef struct needs {
    bool image, weight;
} needs;

static needs needs_copies(const vw__op_conv_shape *shape, vw__dtype dtype)
{
    if (shape->is_channels_last || (shape->groups > 1 && shape->groups == shape->in.channels))
        return (needs){false, false};
    bool is_even = has_even_planes(shape);
    if (dtype == VW__DTYPE_FLOAT32) {
        bool copies_image = !is_even || (overlaps(&shape->window) && shape->in.channels >= LANES);
        return (needs){copies_image, copies_image};
    }
    return (needs){!is_even || !is_plain_product(&shape->window), true};
}

/* Elements of the three tensors with their channels last. */
static uint64_t copies(vw__tape *tape, const vw__op_conv_shape *shape)
{
    vw__op_image_shape in = shape->in;
    vw__op_image_shape out = vw__op_window_shape(&shape->window, &in, shape->out_channels);
    uint64_t area = vw__op_window_area(tape, &shape->window);
    in.channels = padded_channels(in.channels);
    uint64_t sum = vw__op_image_elements(tape, &in) + vw__op_image_elements(tape, &out);
    if (area > 1 && shape->groups > 0)
        sum += vw__tape_times(tape, in.channels / shape->groups * area, shape->out_channels);
    return sum;
}

/* Elements for the gradient of a weight. In 16 bits that of a plain product is made for each image,
 * in float32, and then summed; of large weights it is made of copies. */
static uint64_t weight_workspace(vw__tape *tape, const vw__op_conv_shape *shape, vw__dtype dtype,
                                 uint64_t copies_elements)
{
    enum { LARGE = 1 << 19 };
    if (dtype == VW__DTYPE_FLOAT32 || !is_plain_product(&shape->window) || shape->groups != 1)
        return copies_elements;
    const uint64_t weight = vw__tape_times(tape, shape->in.channels, shape->out_channels);
    return weight < LARGE ? vw__tape_times(tape, shape->in.batch, 2 * weight) : copies_elements;
}

static void take_workspace(vw__tape *tape, uint64_t elements, vw__dtype dtype)
{
    vw__tape_use before = vw__tape_set_use(tape, VW__TAPE_USE_WORKSPACE);
    vw__tensor workspace = vw__tensor_new(tape, elements, dtype);
    vw__tensor_drop(tape, &workspace);
    vw__tape_set_use(tape, before);
}

/* The gradient of one operand, with a workspace that is freed before the next one's. */
static void derive(vw__tape *tape, size_t edge, vw__tensor operand, uint64_t workspace_elements)
{
    if (!vw__node_wants(tape, edge))
        return;
    vw__node_take_for(tape, edge, operand.elements, operand.dtype);
    if (workspace_elements > 0)
        vw__node_let_go(tape, vw__node_take(tape, workspace_elements, operand.dtype));
}

vw__tensor vw__op_conv(vw__tape *tape, vw__tensor x, vw__tensor weight, vw__tensor bias,
                       const vw__op_conv_shape *shape)
{
    vw__tensor arguments[3] = {vw__op_autocast_lower(tape, x), vw__op_autocast_lower(tape, weight),
                               vw__op_autocast_lower(tape, bias)};
    vw__dtype dtype = arguments[0].dtype;
    vw__op_image_shape out = vw__op_window_shape(&shape->window, &shape->in, shape->out_channels);
    needs needed = needs_copies(shape, dtype);
    uint64_t size = copies(tape, shape);
    vw__node_begin(tape, arguments, 3);
    vw__node_save(tape, arguments[0]);
    vw__node_save(tape, arguments[1]);
    vw__tensor made = vw__tensor_new(tape, vw__op_image_elements(tape, &out), dtype);
    if (needed.image)
        take_workspace(tape, size, dtype);
    derive(tape, 0, arguments[0], needed.image ? size : 0);
    derive(tape, 1, arguments[1], needed.weight ? weight_workspace(tape, shape, dtype, size) : 0);
    if (vw__tensor_exists(bias))
        derive(tape, 2, arguments[2], 0);
    vw__node_end(tape, &made, 1);
    for (size_t i = 0; i < 3; i++)
        vw__tensor_drop(tape, &arguments[i]);
    return made;
}

/* ---- batch norm and pools -------------------------------------------------------------------- */

/* On neither of autocast's lists: takes its arguments and weights as they are. */
vw__tensor vw__op_batch_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, vw__tensor bias,
                             bool is_training)
{
    vw__node_begin(tape, (vw__tensor[]){x, weight, bias}, 3);
    vw__node_save(tape, x);
    vw__tensor made = vw__tensor_new(tape, x.elements, x.dtype);
    vw__tensor mean = vw__tensor_none(), deviation = vw__tensor_none();
    if (is_training) {
        mean = vw__tensor_new(tape, weight.elements, VW__DTYPE_FLOAT32);
        deviation = vw__tensor_new(tape, weight.elements, VW__DTYPE_FLOAT32);
    }
    vw__node_save(tape, mean);
    vw__node_save(tape, deviation);
    vw__node_take_for(tape, 0, x.elements, x.dtype);
    vw__node_take_for(tape, 1, weight.elements, weight.dtype);
    vw__node_take_for(tape, 2, bias.elements, bias.dtype);
    vw__node_end(tape, &made, 1);
    vw__tensor_drop(tape, &deviation);
    vw__tensor_drop(tape, &mean);
    return made;
}

vw__tensor vw__op_max_pool(vw__tape *tape, vw__tensor x, uint64_t elements)
{
    return vw__op_apply(tape, x,
                        (vw__op_unary){.elements = elements,
                                       .dtype = x.dtype,
                                       .saves_argument = true,
                                       .beside_elements = elements,
                                       .beside_dtype = VW__DTYPE_INT64});
}

vw__tensor vw__op_avg_pool(vw__tape *tape, vw__tensor x, uint64_t elements)
{
    return vw__op_apply(
        tape, x, (vw__op_unary){.elements = elements, .dtype = x.dtype, .saves_argument = true});
}

vw__tensor vw__op_drop_path(vw__tape *tape, vw__tensor x, uint64_t samples)
{
    vw__op_unary how = vw__op_like(x);
    how.beside_elements = samples;
    how.beside_dtype = x.dtype;
    return vw__op_apply(tape, x, how);
}
