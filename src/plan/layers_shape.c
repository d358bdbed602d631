/* layers_shape.c - what flows between the layers of a description, worked out and checked. */
#include "plan/layers.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "plan/config_types.h"

#define VW__LAYER_NAME(upper, text) [VW__LAYER_##upper] = text,
const char *const vw__layer_kind_names[VW__LAYER_COUNT] = {VW__LAYER_KIND_LIST(VW__LAYER_NAME)};
#undef VW__LAYER_NAME

/* ---- words ----------------------------------------------------------------------------------- */

vw__layer_words vw__layer_shape_words(const vw__layer_shape *shape)
{
    vw__layer_words words;
    char *text = words.text;
    size_t room = sizeof words.text;
    switch (shape->flow) {
    case VW__FLOW_IMAGE:
        snprintf(text, room, "an image of %" PRIu64 "x%" PRIu64 "x%" PRIu64, shape->width,
                 shape->height, shape->across);
        break;
    case VW__FLOW_IDS:
        snprintf(text, room, "%" PRIu64 " ids", shape->length);
        break;
    case VW__FLOW_TOKENS:
        snprintf(text, room, "%" PRIu64 " tokens of width %" PRIu64, shape->length, shape->width);
        break;
    case VW__FLOW_FEATURES:
        snprintf(text, room, "features of width %" PRIu64, shape->width);
        break;
    }
    return words;
}

static vw_status refuse(const vw__layer_line *line, const char *takes, const vw__layer_shape *gets)
{
    return vw__fail(VW_ERR_CORRUPT_FILE, "%s: %s takes %s, and gets %s", line->place,
                    vw__layer_kind_names[line->kind], takes, vw__layer_shape_words(gets).text);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static vw_status take_image(const vw__layer_line *line, const vw__layer_shape *shape)
{
    return shape->flow == VW__FLOW_IMAGE ? VW_OK : refuse(line, "an image", shape);
}

static vw_status take_tokens(const vw__layer_line *line, const vw__layer_shape *shape)
{
    return shape->flow == VW__FLOW_TOKENS ? VW_OK : refuse(line, "tokens", shape);
}

static vw_status take_rows(const vw__layer_line *line, const vw__layer_shape *shape)
{
    return shape->flow == VW__FLOW_TOKENS || shape->flow == VW__FLOW_FEATURES
               ? VW_OK
               : refuse(line, "tokens or features", shape);
}

/* Anything with numbers that have a gradient. */
static vw_status take_values(const vw__layer_line *line, const vw__layer_shape *shape)
{
    return shape->flow == VW__FLOW_IDS ? refuse(line, "an image, tokens or features", shape)
                                       : VW_OK;
}

static vw_status check_in(const vw__layer_line *line, const vw__layer_shape *shape)
{
    if (line->in == 0 || line->in == shape->width)
        return VW_OK;
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "%s.in: expected %" PRIu64 ", since %s comes in, found %" PRIu64, line->place,
                    shape->width, vw__layer_shape_words(shape).text, line->in);
}

static vw_status check_multiple(const vw__layer_line *line, const char *field, uint64_t part,
                                const char *what, uint64_t whole)
{
    if (part > 0 && whole % part == 0)
        return VW_OK;
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "%s.%s: expected a divisor of the %s, %" PRIu64 ", found %" PRIu64, line->place,
                    field, what, whole, part);
}

/* ---- each kind ------------------------------------------------------------------------------- */

static vw_status infer_window(const vw__layer_line *line, vw__layer_shape *shape)
{
    VW__TRY(take_image(line, shape));
    uint64_t height = vw__window_steps(&line->window, shape->height);
    uint64_t across = vw__window_steps(&line->window, shape->across);
    if (height == 0 || across == 0)
        return vw__fail(
            VW_ERR_CORRUPT_FILE,
            "%s.kernel: expected one that fits into %s with its padding, found %" PRIu64,
            line->place, vw__layer_shape_words(shape).text, line->window.kernel);
    if (height > VW__MOST_PIXELS || across > VW__MOST_PIXELS)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "%s.padding: expected an image of at most %" PRIu64
                        " pixels a side to come out",
                        line->place, VW__MOST_PIXELS);
    shape->height = height;
    shape->across = across;
    return VW_OK;
}

static vw_status infer_conv(const vw__layer_line *line, vw__layer_shape *shape)
{
    VW__TRY(take_image(line, shape));
    VW__TRY(check_in(line, shape));
    VW__TRY(check_multiple(line, "groups", line->groups, "channels that come in", shape->width));
    VW__TRY(check_multiple(line, "groups", line->groups, "channels that come out", line->out));
    VW__TRY(infer_window(line, shape));
    shape->width = line->out;
    return VW_OK;
}

static vw_status infer_linear(const vw__layer_line *line, vw__layer_shape *shape)
{
    VW__TRY(take_rows(line, shape));
    VW__TRY(check_in(line, shape));
    shape->width = line->out;
    return VW_OK;
}

static vw_status infer_attention(const vw__layer_line *line, const vw__layer_shape *shape)
{
    VW__TRY(take_tokens(line, shape));
    VW__TRY(check_multiple(line, "heads", line->heads, "width that comes in", shape->width));
    return check_multiple(line, "key_heads", line->key_heads, "heads", line->heads);
}

static vw_status infer_embedding(const vw__layer_line *line, vw__layer_shape *shape)
{
    if (shape->flow != VW__FLOW_IDS)
        return refuse(line, "ids", shape);
    shape->flow = VW__FLOW_TOKENS;
    shape->width = line->out;
    return VW_OK;
}

static vw_status infer_positions(const vw__layer_line *line, const vw__layer_shape *shape)
{
    VW__TRY(take_tokens(line, shape));
    if (shape->length <= line->rows)
        return VW_OK;
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "%s.rows: expected at least one for each of %" PRIu64 " tokens, found %" PRIu64,
                    line->place, shape->length, line->rows);
}

/* To one row. */
static vw_status infer_flatten(const vw__layer_line *line, vw__layer_shape *shape)
{
    VW__TRY(take_values(line, shape));
    if (shape->flow == VW__FLOW_IMAGE)
        shape->width *= shape->height * shape->across;
    else if (shape->flow == VW__FLOW_TOKENS)
        shape->width *= shape->length;
    shape->flow = VW__FLOW_FEATURES;
    return VW_OK;
}

static vw_status infer_mean_pool(const vw__layer_line *line, vw__layer_shape *shape)
{
    if (shape->flow != VW__FLOW_IMAGE && shape->flow != VW__FLOW_TOKENS)
        return refuse(line, "an image or tokens", shape);
    shape->flow = VW__FLOW_FEATURES;
    return VW_OK;
}

static vw_status infer_tokens(const vw__layer_line *line, vw__layer_shape *shape)
{
    VW__TRY(take_image(line, shape));
    shape->flow = VW__FLOW_TOKENS;
    shape->length = shape->height * shape->across;
    return VW_OK;
}

static bool is_same_shape(const vw__layer_shape *a, const vw__layer_shape *b)
{
    if (a->flow != b->flow || a->width != b->width)
        return false;
    if (a->flow == VW__FLOW_IMAGE)
        return a->height == b->height && a->across == b->across;
    return a->flow == VW__FLOW_FEATURES || a->length == b->length;
}

static vw_status infer_residual(const vw__layer_line *line, vw__layer_shape *shape)
{
    vw__layer_shape identity = *shape;
    VW__TRY(take_values(line, shape));
    VW__TRY(vw__layers_infer(line->lines, line->line_count, shape));
    VW__TRY(vw__layers_infer(line->shortcut, line->shortcut_count, &identity));
    if (is_same_shape(&identity, shape))
        return VW_OK;
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "%s: residual adds up two of one shape, and gets %s and, as a shortcut, %s",
                    line->place, vw__layer_shape_words(shape).text,
                    vw__layer_shape_words(&identity).text);
}

static vw_status infer_repeat(const vw__layer_line *line, vw__layer_shape *shape)
{
    for (uint64_t i = 0; i < line->count; i++)
        VW__TRY(vw__layers_infer(line->lines, line->line_count, shape));
    return VW_OK;
}

vw_status vw__layer_infer(const vw__layer_line *line, vw__layer_shape *shape)
{
    switch (line->kind) {
    case VW__LAYER_ATTENTION:
        return infer_attention(line, shape);
    case VW__LAYER_AVG_POOL:
    case VW__LAYER_MAX_POOL:
        return infer_window(line, shape);
    case VW__LAYER_BATCH_NORM:
        return take_image(line, shape);
    case VW__LAYER_CONV2D:
        return infer_conv(line, shape);
    case VW__LAYER_EMBEDDING:
        return infer_embedding(line, shape);
    case VW__LAYER_FIRST_TOKEN:
        VW__TRY(take_tokens(line, shape));
        shape->flow = VW__FLOW_FEATURES;
        return VW_OK;
    case VW__LAYER_FLATTEN:
        return infer_flatten(line, shape);
    case VW__LAYER_GROUP_NORM:
        VW__TRY(take_image(line, shape));
        return check_multiple(line, "groups", line->groups, "channels", shape->width);
    case VW__LAYER_LAYER_NORM:
    case VW__LAYER_RMS_NORM:
        return take_rows(line, shape);
    case VW__LAYER_LINEAR:
        return infer_linear(line, shape);
    case VW__LAYER_MEAN_POOL:
        return infer_mean_pool(line, shape);
    case VW__LAYER_POSITIONS:
        return infer_positions(line, shape);
    case VW__LAYER_REPEAT:
        return infer_repeat(line, shape);
    case VW__LAYER_RESIDUAL:
        return infer_residual(line, shape);
    case VW__LAYER_TOKENS:
        return infer_tokens(line, shape);
    default: /* what works on each element by itself */
        return take_values(line, shape);
    }
}

vw_status vw__layers_infer(const vw__layer_line *lines, size_t line_count, vw__layer_shape *shape)
{
    for (size_t i = 0; i < line_count; i++)
        VW__TRY(vw__layer_infer(&lines[i], shape));
    return VW_OK;
}

uint64_t vw__layer_elements(vw__tape *tape, const vw__layer_shape *shape, uint64_t batch)
{
    switch (shape->flow) {
    case VW__FLOW_IMAGE:
        return vw__times(tape, vw__times(tape, batch, shape->width),
                         vw__times(tape, shape->height, shape->across));
    case VW__FLOW_IDS:
        return vw__times(tape, batch, shape->length);
    case VW__FLOW_TOKENS:
        return vw__times(tape, vw__times(tape, batch, shape->length), shape->width);
    case VW__FLOW_FEATURES:
        break;
    }
    return vw__times(tape, batch, shape->width);
}
