/* layers_shape.c - infers and checks the shapes between the layers of a description. */
#include "plan/layers.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "plan/config_types.h"

#define VW__LAYERS_NAME(upper, text) [VW__LAYERS_##upper] = text,
const char *const vw__layers_kind_names[VW__LAYERS_KIND_COUNT] = {
    VW__LAYERS_KIND_LIST(VW__LAYERS_NAME)};
#undef VW__LAYERS_NAME

/* ---- words ----------------------------------------------------------------------------------- */

vw__layers_words vw__layers_shape_words(const vw__layers_shape *shape)
{
    vw__layers_words words;
    char *text = words.text;
    size_t room = sizeof words.text;
    switch (shape->flow) {
    case VW__LAYERS_FLOW_IMAGE:
        snprintf(text, room, "an image of %" PRIu64 "x%" PRIu64 "x%" PRIu64, shape->width,
                 shape->height, shape->across);
        break;
    case VW__LAYERS_FLOW_IDS:
        snprintf(text, room, "%" PRIu64 " ids", shape->length);
        break;
    case VW__LAYERS_FLOW_TOKENS:
        snprintf(text, room, "%" PRIu64 " tokens of width %" PRIu64, shape->length, shape->width);
        break;
    case VW__LAYERS_FLOW_FEATURES:
        snprintf(text, room, "features of width %" PRIu64, shape->width);
        break;
    }
    return words;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static vw_status refuse(const vw__layers_line *line, const char *takes,
                        const vw__layers_shape *gets)
{
    return vw__fail(VW_ERR_CORRUPT_FILE, "%s: %s takes %s, and gets %s", line->place,
                    vw__layers_kind_names[line->kind], takes, vw__layers_shape_words(gets).text);
}

/* What a kind takes: bits of vw__layers_flow. */
enum {
    IMAGE = 1 << VW__LAYERS_FLOW_IMAGE,
    IDS = 1 << VW__LAYERS_FLOW_IDS,
    TOKENS = 1 << VW__LAYERS_FLOW_TOKENS,
    FEATURES = 1 << VW__LAYERS_FLOW_FEATURES,
    ROWS = TOKENS | FEATURES,
    VALUES = IMAGE | ROWS, /* anything with numbers that have a gradient */
    ANYTHING = VALUES | IDS,
};

static const uint8_t taken[VW__LAYERS_KIND_COUNT] = {
    [VW__LAYERS_ATTENTION] = TOKENS,   [VW__LAYERS_AVG_POOL] = IMAGE,
    [VW__LAYERS_BATCH_NORM] = IMAGE,   [VW__LAYERS_CONV2D] = IMAGE,
    [VW__LAYERS_DROPOUT] = VALUES,     [VW__LAYERS_EMBEDDING] = IDS,
    [VW__LAYERS_FIRST_TOKEN] = TOKENS, [VW__LAYERS_FLATTEN] = VALUES,
    [VW__LAYERS_GELU] = VALUES,        [VW__LAYERS_GROUP_NORM] = IMAGE,
    [VW__LAYERS_LAYER_NORM] = ROWS,    [VW__LAYERS_LINEAR] = ROWS,
    [VW__LAYERS_MAX_POOL] = IMAGE,     [VW__LAYERS_MEAN_POOL] = IMAGE | TOKENS,
    [VW__LAYERS_POSITIONS] = TOKENS,   [VW__LAYERS_RELU] = VALUES,
    [VW__LAYERS_REPEAT] = ANYTHING,    [VW__LAYERS_RESIDUAL] = VALUES,
    [VW__LAYERS_RMS_NORM] = ROWS,      [VW__LAYERS_SIGMOID] = VALUES,
    [VW__LAYERS_SILU] = VALUES,        [VW__LAYERS_TANH] = VALUES,
    [VW__LAYERS_TOKENS] = IMAGE,
};

static vw_status check_flow(const vw__layers_line *line, const vw__layers_shape *shape)
{
    static const char *const words[ANYTHING + 1] = {
        [IMAGE] = "an image",
        [IDS] = "ids",
        [TOKENS] = "tokens",
        [ROWS] = "tokens or features",
        [IMAGE | TOKENS] = "an image or tokens",
        [VALUES] = "an image, tokens or features",
    };
    const unsigned takes = taken[line->kind];
    return (takes >> shape->flow & 1) != 0 ? VW_OK : refuse(line, words[takes], shape);
}

static vw_status check_in(const vw__layers_line *line, const vw__layers_shape *shape)
{
    if (line->in == 0 || line->in == shape->width)
        return VW_OK;
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "%s.in: expected %" PRIu64 ", since %s comes in, found %" PRIu64, line->place,
                    shape->width, vw__layers_shape_words(shape).text, line->in);
}

static vw_status check_multiple(const vw__layers_line *line, const char *field, uint64_t part,
                                const char *what, uint64_t whole)
{
    if (part > 0 && whole % part == 0)
        return VW_OK;
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "%s.%s: expected a divisor of the %s, %" PRIu64 ", found %" PRIu64, line->place,
                    field, what, whole, part);
}

/* ---- each kind ------------------------------------------------------------------------------- */

static vw_status infer_window(const vw__layers_line *line, vw__layers_shape *shape)
{
    uint64_t height = vw__op_window_steps(&line->window, shape->height);
    uint64_t across = vw__op_window_steps(&line->window, shape->across);
    if (height == 0 || across == 0)
        return vw__fail(
            VW_ERR_CORRUPT_FILE,
            "%s.kernel: expected one that fits into %s with its padding, found %" PRIu64,
            line->place, vw__layers_shape_words(shape).text, line->window.kernel);
    if (height > VW__CONFIG_MOST_PIXELS || across > VW__CONFIG_MOST_PIXELS)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "%s.padding: expected an image of at most %" PRIu64
                        " pixels a side to come out",
                        line->place, VW__CONFIG_MOST_PIXELS);
    shape->height = height;
    shape->across = across;
    return VW_OK;
}

static vw_status infer_conv(const vw__layers_line *line, vw__layers_shape *shape)
{
    VW__TRY(check_in(line, shape));
    VW__TRY(check_multiple(line, "groups", line->groups, "channels that come in", shape->width));
    VW__TRY(check_multiple(line, "groups", line->groups, "channels that come out", line->out));
    VW__TRY(infer_window(line, shape));
    shape->width = line->out;
    return VW_OK;
}

static vw_status infer_attention(const vw__layers_line *line, const vw__layers_shape *shape)
{
    VW__TRY(check_multiple(line, "heads", line->heads, "width that comes in", shape->width));
    return check_multiple(line, "key_heads", line->key_heads, "heads", line->heads);
}

static vw_status infer_positions(const vw__layers_line *line, const vw__layers_shape *shape)
{
    if (shape->length <= line->rows)
        return VW_OK;
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "%s.rows: expected at least one for each of %" PRIu64 " tokens, found %" PRIu64,
                    line->place, shape->length, line->rows);
}

static bool is_same_shape(const vw__layers_shape *a, const vw__layers_shape *b)
{
    if (a->flow != b->flow || a->width != b->width)
        return false;
    if (a->flow == VW__LAYERS_FLOW_IMAGE)
        return a->height == b->height && a->across == b->across;
    return a->flow == VW__LAYERS_FLOW_FEATURES || a->length == b->length;
}

static vw_status infer_residual(const vw__layers_line *line, vw__layers_shape *shape)
{
    vw__layers_shape identity = *shape;
    VW__TRY(vw__layers_infer(line->lines, line->line_count, shape));
    VW__TRY(vw__layers_infer(line->shortcut, line->shortcut_count, &identity));
    if (is_same_shape(&identity, shape))
        return VW_OK;
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "%s: residual adds up two of one shape, and gets %s and, as a shortcut, %s",
                    line->place, vw__layers_shape_words(shape).text,
                    vw__layers_shape_words(&identity).text);
}

static vw_status infer_repeat(const vw__layers_line *line, vw__layers_shape *shape)
{
    for (uint64_t i = 0; i < line->count; i++)
        VW__TRY(vw__layers_infer(line->lines, line->line_count, shape));
    return VW_OK;
}

/* One row of all that there is. */
static void flatten(vw__layers_shape *shape)
{
    if (shape->flow == VW__LAYERS_FLOW_IMAGE)
        shape->width *= shape->height * shape->across;
    else if (shape->flow == VW__LAYERS_FLOW_TOKENS)
        shape->width *= shape->length;
    shape->flow = VW__LAYERS_FLOW_FEATURES;
}

vw_status vw__layers_infer_line(const vw__layers_line *line, vw__layers_shape *shape)
{
    VW__TRY(check_flow(line, shape));
    switch (line->kind) {
    case VW__LAYERS_ATTENTION:
        return infer_attention(line, shape);
    case VW__LAYERS_AVG_POOL:
    case VW__LAYERS_MAX_POOL:
        return infer_window(line, shape);
    case VW__LAYERS_CONV2D:
        return infer_conv(line, shape);
    case VW__LAYERS_EMBEDDING:
        shape->flow = VW__LAYERS_FLOW_TOKENS;
        shape->width = line->out;
        return VW_OK;
    case VW__LAYERS_FIRST_TOKEN:
    case VW__LAYERS_MEAN_POOL:
        shape->flow = VW__LAYERS_FLOW_FEATURES;
        return VW_OK;
    case VW__LAYERS_FLATTEN:
        flatten(shape);
        return VW_OK;
    case VW__LAYERS_GROUP_NORM:
        return check_multiple(line, "groups", line->groups, "channels", shape->width);
    case VW__LAYERS_LINEAR:
        VW__TRY(check_in(line, shape));
        shape->width = line->out;
        return VW_OK;
    case VW__LAYERS_POSITIONS:
        return infer_positions(line, shape);
    case VW__LAYERS_REPEAT:
        return infer_repeat(line, shape);
    case VW__LAYERS_RESIDUAL:
        return infer_residual(line, shape);
    case VW__LAYERS_TOKENS:
        shape->flow = VW__LAYERS_FLOW_TOKENS;
        shape->length = shape->height * shape->across;
        return VW_OK;
    default: /* the same comes out */
        return VW_OK;
    }
}

vw_status vw__layers_infer(const vw__layers_line *lines, size_t line_count, vw__layers_shape *shape)
{
    for (size_t i = 0; i < line_count; i++)
        VW__TRY(vw__layers_infer_line(&lines[i], shape));
    return VW_OK;
}

uint64_t vw__layers_elements(vw__tape *tape, const vw__layers_shape *shape, uint64_t batch)
{
    switch (shape->flow) {
    case VW__LAYERS_FLOW_IMAGE:
        return vw__tape_times(tape, vw__tape_times(tape, batch, shape->width),
                              vw__tape_times(tape, shape->height, shape->across));
    case VW__LAYERS_FLOW_IDS:
        return vw__tape_times(tape, batch, shape->length);
    case VW__LAYERS_FLOW_TOKENS:
        return vw__tape_times(tape, vw__tape_times(tape, batch, shape->length), shape->width);
    case VW__LAYERS_FLOW_FEATURES:
        break;
    }
    return vw__tape_times(tape, batch, shape->width);
}
