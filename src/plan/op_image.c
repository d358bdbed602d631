/* op_image.c - convolutions, batch norm and pools. What cuDNN takes beside is in hidden.c. */
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

uint64_t vw__op_window_area(vw__tape *tape, const vw__op_window *window)
{
    uint64_t area = 1;
    for (uint64_t i = 0; i < vw__op_window_dimensions(window); i++)
        area = vw__tape_times(tape, area, window->kernel);
    return area;
}

vw__op_image_shape vw__op_window_shape(const vw__op_window *window, const vw__op_image_shape *shape,
                                       uint64_t channels)
{
    const uint64_t dimensions = vw__op_window_dimensions(window);
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

static void take_workspace(vw__tape *tape, const vw__hidden *hidden)
{
    vw__tape_use before = vw__tape_set_use(tape, VW__TAPE_USE_WORKSPACE);
    for (size_t i = 0; i < hidden->count; i++) {
        if (hidden->steps[i].size_bytes == 0)
            continue;
        vw__tensor workspace = vw__tensor_new(tape, hidden->steps[i].size_bytes, VW__DTYPE_BYTE);
        vw__tensor_drop(tape, &workspace);
    }
    vw__tape_set_use(tape, before);
}

/* The gradient of one operand, with a workspace that is freed before the next one's. */
static void derive(vw__tape *tape, size_t edge, vw__tensor operand, const vw__hidden *workspace)
{
    if (!vw__node_wants(tape, edge))
        return;
    vw__node_take_for(tape, edge, operand.elements, operand.dtype);
    vw__node_take_hidden(tape, workspace);
}

vw__tensor vw__op_conv(vw__tape *tape, vw__tensor x, vw__tensor weight, vw__tensor bias,
                       const vw__op_conv_shape *shape)
{
    vw__tensor arguments[3] = {vw__op_autocast_lower(tape, x), vw__op_autocast_lower(tape, weight),
                               vw__op_autocast_lower(tape, bias)};
    vw__dtype dtype = arguments[0].dtype;
    vw__op_image_shape out = vw__op_window_shape(&shape->window, &shape->in, shape->out_channels);
    uint64_t element_bytes = vw__dtype_bytes(dtype);
    const vw__hidden workspaces[] = {
        vw__hidden_convolution(shape, element_bytes, VW__HIDDEN_RESULT),
        vw__hidden_convolution(shape, element_bytes, VW__HIDDEN_IMAGE_GRADIENT),
        vw__hidden_convolution(shape, element_bytes, VW__HIDDEN_WEIGHT_GRADIENT)};
    vw__node_begin(tape, arguments, 3);
    vw__node_save(tape, arguments[0]);
    vw__node_save(tape, arguments[1]);
    vw__tensor made = vw__tensor_new(tape, vw__op_image_elements(tape, &out), dtype);
    take_workspace(tape, &workspaces[VW__HIDDEN_RESULT]);
    derive(tape, 0, arguments[0], &workspaces[VW__HIDDEN_IMAGE_GRADIENT]);
    derive(tape, 1, arguments[1], &workspaces[VW__HIDDEN_WEIGHT_GRADIENT]);
    if (vw__tensor_exists(bias))
        vw__node_take_for(tape, 2, bias.elements, arguments[2].dtype);
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
