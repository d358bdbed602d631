/* layers_shape.c - infers and checks the shapes between the layers of a description. */
#include "plan/layers.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "plan/config_types.h"

#define VW__LAYERS_NAME(upper, text) [VW__LAYERS_##upper] = text,
const char *const vw__layers_kind_names[VW__LAYERS_KIND_COUNT] = {
    VW__LAYERS_KIND_LIST(VW__LAYERS_NAME)};
#undef VW__LAYERS_NAME

/* ---- words ----------------------------------------------------------------------------------- */

typedef struct words {
    char text[96];
} words;

/* "an image of 3x224x224" */
static words shape_words(const vw__layers_shape *shape)
{
    words made;
    char *text = made.text;
    size_t room = sizeof made.text;
    switch (shape->flow) {
    case VW__LAYERS_FLOW_SIGNAL:
        snprintf(text, room, "a signal of %" PRIu64 "x%" PRIu64, shape->width, shape->across);
        break;
    case VW__LAYERS_FLOW_VOLUME:
        snprintf(text, room, "a volume of %" PRIu64 "x%" PRIu64 "x%" PRIu64 "x%" PRIu64,
                 shape->width, shape->depth, shape->height, shape->across);
        break;
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
    return made;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static vw_status refuse(const vw__layers_line *line, const char *takes,
                        const vw__layers_shape *gets)
{
    return vw__fail(VW_ERR_CORRUPT_FILE, "%s: %s takes %s, and gets %s", line->place,
                    vw__layers_kind_names[line->kind], takes, shape_words(gets).text);
}

/* What a kind takes: bits of vw__layers_flow. */
enum {
    SIGNAL = 1 << VW__LAYERS_FLOW_SIGNAL,
    IMAGE = 1 << VW__LAYERS_FLOW_IMAGE,
    VOLUME = 1 << VW__LAYERS_FLOW_VOLUME,
    SIDES = SIGNAL | IMAGE | VOLUME,
    IDS = 1 << VW__LAYERS_FLOW_IDS,
    TOKENS = 1 << VW__LAYERS_FLOW_TOKENS,
    FEATURES = 1 << VW__LAYERS_FLOW_FEATURES,
    ROWS = TOKENS | FEATURES,
    VALUES = SIDES | ROWS, /* anything with numbers that have a gradient */
    ANYTHING = VALUES | IDS,
};

static const uint8_t taken[VW__LAYERS_KIND_COUNT] = {
    [VW__LAYERS_ADAPTIVE_POOL] = SIDES,
    [VW__LAYERS_ATTENTION] = TOKENS,
    [VW__LAYERS_AVG_POOL] = SIDES,
    [VW__LAYERS_BATCH_NORM] = SIDES | FEATURES,
    [VW__LAYERS_ATTENTION_POOL] = TOKENS,
    [VW__LAYERS_CLASS_TOKEN] = TOKENS,
    [VW__LAYERS_GELU_NEW] = VALUES,
    [VW__LAYERS_IMAGE] = TOKENS,
    [VW__LAYERS_PATCH_MERGING] = TOKENS,
    [VW__LAYERS_QUICK_GELU] = VALUES,
    [VW__LAYERS_SCALE] = ROWS,
    [VW__LAYERS_SKIP_TOKENS] = TOKENS,
    [VW__LAYERS_SWIGLU] = ROWS,
    [VW__LAYERS_WINDOW_ATTENTION] = TOKENS,
    [VW__LAYERS_CONCAT] = VALUES,
    [VW__LAYERS_CONV1D] = SIGNAL,
    [VW__LAYERS_CONV2D] = IMAGE,
    [VW__LAYERS_CONV3D] = VOLUME,
    [VW__LAYERS_CONV_TRANSPOSE1D] = SIGNAL,
    [VW__LAYERS_CONV_TRANSPOSE2D] = IMAGE,
    [VW__LAYERS_CONV_TRANSPOSE3D] = VOLUME,
    [VW__LAYERS_DENSE] = VALUES,
    [VW__LAYERS_DROPOUT] = VALUES,
    [VW__LAYERS_DROP_PATH] = VALUES,
    [VW__LAYERS_EMBEDDING] = IDS,
    [VW__LAYERS_FIRST_TOKEN] = TOKENS,
    [VW__LAYERS_FLATTEN] = VALUES,
    [VW__LAYERS_GELU] = VALUES,
    [VW__LAYERS_GROUP_NORM] = SIDES,
    [VW__LAYERS_GRU] = TOKENS,
    [VW__LAYERS_HARDSIGMOID] = VALUES,
    [VW__LAYERS_HARDSWISH] = VALUES,
    [VW__LAYERS_LAYER_NORM] = ROWS,
    [VW__LAYERS_LINEAR] = ROWS,
    [VW__LAYERS_LSTM] = TOKENS,
    [VW__LAYERS_MAX_POOL] = SIDES,
    [VW__LAYERS_MEAN_POOL] = SIDES | TOKENS,
    [VW__LAYERS_MULTIPLY] = VALUES,
    [VW__LAYERS_POSITIONS] = TOKENS,
    [VW__LAYERS_RELU] = VALUES,
    [VW__LAYERS_RELU6] = VALUES,
    [VW__LAYERS_REPEAT] = ANYTHING,
    [VW__LAYERS_RESIDUAL] = VALUES,
    [VW__LAYERS_RMS_NORM] = ROWS,
    [VW__LAYERS_RNN] = TOKENS,
    [VW__LAYERS_SIGMOID] = VALUES,
    [VW__LAYERS_SILU] = VALUES,
    [VW__LAYERS_TANH] = VALUES,
    [VW__LAYERS_TOKENS] = SIDES,
    [VW__LAYERS_UPSAMPLE] = SIDES,
};

static vw_status check_flow(const vw__layers_line *line, const vw__layers_shape *shape)
{
    static const char *const names[ANYTHING + 1] = {
        [SIGNAL] = "a signal",
        [IMAGE] = "an image",
        [VOLUME] = "a volume",
        [SIDES] = "an image, a signal or a volume",
        [IDS] = "ids",
        [TOKENS] = "tokens",
        [ROWS] = "tokens or features",
        [SIDES | TOKENS] = "an image or tokens",
        [SIDES | FEATURES] = "an image or features",
        [VALUES] = "an image, tokens or features",
    };
    const unsigned takes = taken[line->kind];
    return (takes >> shape->flow & 1) != 0 ? VW_OK : refuse(line, names[takes], shape);
}

static vw_status check_in(const vw__layers_line *line, const vw__layers_shape *shape)
{
    if (line->in == 0 || line->in == shape->width)
        return VW_OK;
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "%s.in: expected %" PRIu64 ", since %s comes in, found %" PRIu64, line->place,
                    shape->width, shape_words(shape).text, line->in);
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

/* Rows of layers may make widths grow with every round. */
static vw_status check_width(const vw__layers_line *line, uint64_t width)
{
    if (width <= VW__CONFIG_MOST_VOCABULARY)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED, "%s: expected a width of at most %" PRIu64 " to come out",
                    line->place, VW__CONFIG_MOST_VOCABULARY);
}

/* ---- each kind ------------------------------------------------------------------------------- */

/* Which sides a shape has, the innermost first. */
static size_t sides_of(vw__layers_shape *shape, uint64_t *sides[3])
{
    sides[0] = &shape->across;
    sides[1] = &shape->height;
    sides[2] = &shape->depth;
    return (size_t)(shape->flow - VW__LAYERS_FLOW_SIGNAL) + 1;
}

static vw_status check_side(const vw__layers_line *line, const vw__layers_shape *shape,
                            const char *field, uint64_t side)
{
    const uint64_t most =
        shape->flow == VW__LAYERS_FLOW_SIGNAL ? VW__CONFIG_MOST_INNER : VW__CONFIG_MOST_PIXELS;
    if (side <= most)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED,
                    "%s.%s: expected an image of at most %" PRIu64 " pixels a side to come out",
                    line->place, field, most);
}

static vw_status infer_window(const vw__layers_line *line, vw__layers_shape *shape)
{
    const vw__layers_shape before = *shape;
    uint64_t *sides[3];
    const size_t count = sides_of(shape, sides);
    for (size_t i = 0; i < count; i++) {
        *sides[i] = vw__op_window_steps(&line->window, *sides[i]);
        if (*sides[i] == 0)
            return vw__fail(
                VW_ERR_CORRUPT_FILE,
                "%s.kernel: expected one that fits into %s with its padding, found %" PRIu64,
                line->place, shape_words(&before).text, line->window.kernel);
        VW__TRY(check_side(line, &before, "padding", *sides[i]));
    }
    return VW_OK;
}

static vw_status infer_upsample(const vw__layers_line *line, vw__layers_shape *shape)
{
    uint64_t *sides[3];
    const size_t count = sides_of(shape, sides);
    for (size_t i = 0; i < count; i++) {
        VW__TRY(check_side(line, shape, "factor", *sides[i] * line->factor));
        *sides[i] *= line->factor;
    }
    return VW_OK;
}

static void infer_adaptive_pool(const vw__layers_line *line, vw__layers_shape *shape)
{
    uint64_t *sides[3];
    const size_t count = sides_of(shape, sides);
    for (size_t i = 0; i < count; i++)
        *sides[i] = line->rows;
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
    if (shape->length <= line->rows || line->is_stretched)
        return VW_OK;
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "%s.rows: expected at least one for each of %" PRIu64 " tokens, found %" PRIu64,
                    line->place, shape->length, line->rows);
}

/* Tokens of an image know its sides. */
static vw_status check_sides(const vw__layers_line *line, const vw__layers_shape *shape)
{
    if (shape->length > 0 && shape->depth * shape->height * shape->across == shape->length)
        return VW_OK;
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "%s: %s takes tokens that were the places of an image, and gets %s",
                    line->place, vw__layers_kind_names[line->kind], shape_words(shape).text);
}

static vw_status infer_image(const vw__layers_line *line, vw__layers_shape *shape)
{
    VW__TRY(check_sides(line, shape));
    shape->flow = shape->depth > 1 ? VW__LAYERS_FLOW_VOLUME : VW__LAYERS_FLOW_IMAGE;
    shape->is_channels_last = true;
    return VW_OK;
}

/* Four neighbours become one token, twice as wide. */
static vw_status infer_merging(const vw__layers_line *line, vw__layers_shape *shape)
{
    VW__TRY(check_sides(line, shape));
    shape->height = shape->height / 2 + shape->height % 2;
    shape->across = shape->across / 2 + shape->across % 2;
    shape->length = shape->depth * shape->height * shape->across;
    shape->width *= 2;
    return check_width(line, shape->width);
}

static vw_status infer_window_attention(const vw__layers_line *line, const vw__layers_shape *shape)
{
    VW__TRY(check_sides(line, shape));
    return check_multiple(line, "heads", line->heads, "width that comes in", shape->width);
}

static vw_status infer_class_token(const vw__layers_line *line, vw__layers_shape *shape)
{
    shape->length += line->count;
    shape->height = shape->across = 0;
    if (shape->length <= VW__CONFIG_MOST_POSITIONS)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED, "%s.count: expected at most %" PRIu64 " tokens to come out",
                    line->place, VW__CONFIG_MOST_POSITIONS);
}

static vw_status infer_skip(const vw__layers_line *line, vw__layers_shape *shape)
{
    if (line->count >= shape->length)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "%s.count: expected fewer than the %" PRIu64 " tokens that come in, found "
                        "%" PRIu64,
                        line->place, shape->length, line->count);
    shape->length -= line->count;
    shape->height = shape->across = 0;
    return VW_OK;
}

static vw_status infer_swiglu(const vw__layers_line *line, vw__layers_shape *shape)
{
    if (shape->width % 2 != 0)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "%s: swiglu takes two halves, and gets a width of %" PRIu64, line->place,
                        shape->width);
    shape->width /= 2;
    return VW_OK;
}

/* What lies beside the width. */
static bool has_same_sides(const vw__layers_shape *a, const vw__layers_shape *b)
{
    if (a->flow != b->flow)
        return false;
    if (vw__layers_has_sides(a->flow))
        return a->depth == b->depth && a->height == b->height && a->across == b->across;
    return a->flow == VW__LAYERS_FLOW_FEATURES || a->length == b->length;
}

static bool is_one_place(const vw__layers_shape *shape)
{
    return vw__layers_has_sides(shape->flow) && shape->depth * shape->height * shape->across == 1;
}

/* Of two that are multiplied, one may be a number for each channel. */
static bool can_combine(vw__layers_kind kind, const vw__layers_shape *a, const vw__layers_shape *b)
{
    if (kind == VW__LAYERS_CONCAT)
        return has_same_sides(a, b);
    if (a->width != b->width)
        return false;
    return has_same_sides(a, b) || (kind == VW__LAYERS_MULTIPLY && a->flow == b->flow &&
                                    (is_one_place(a) || is_one_place(b)));
}

static vw_status infer_combined(const vw__layers_line *line, vw__layers_shape *shape)
{
    static const char *const needs[] = {"adds up two of one shape",
                                        "puts together two that differ in width only",
                                        "takes two of one shape, or one of them with one place"};
    const size_t kind = line->kind == VW__LAYERS_CONCAT     ? 1
                        : line->kind == VW__LAYERS_MULTIPLY ? 2
                                                            : 0;
    vw__layers_shape beside = *shape;
    VW__TRY(vw__layers_infer(line->lines, line->line_count, shape));
    VW__TRY(vw__layers_infer(line->shortcut, line->shortcut_count, &beside));
    if (!can_combine(line->kind, shape, &beside))
        return vw__fail(VW_ERR_CORRUPT_FILE, "%s: %s %s, and gets %s and, as a shortcut, %s",
                        line->place, vw__layers_kind_names[line->kind], needs[kind],
                        shape_words(shape).text, shape_words(&beside).text);
    if (line->kind == VW__LAYERS_CONCAT) {
        shape->width += beside.width;
        return check_width(line, shape->width);
    }
    if (is_one_place(shape))
        *shape = beside;
    return VW_OK;
}

/* Every round reads all that came in and was made before, put together. */
static vw_status infer_dense(const vw__layers_line *line, vw__layers_shape *shape)
{
    for (uint64_t i = 0; i < line->count; i++) {
        vw__layers_shape made = *shape;
        VW__TRY(vw__layers_infer(line->lines, line->line_count, &made));
        if (!has_same_sides(&made, shape))
            return vw__fail(
                VW_ERR_CORRUPT_FILE,
                "%s: dense puts together what differs in width only, and gets %s and %s",
                line->place, shape_words(shape).text, shape_words(&made).text);
        shape->width += made.width;
        VW__TRY(check_width(line, shape->width));
    }
    return VW_OK;
}

static vw_status infer_repeat(const vw__layers_line *line, vw__layers_shape *shape)
{
    for (uint64_t i = 0; i < line->count; i++)
        VW__TRY(vw__layers_infer(line->lines, line->line_count, shape));
    return VW_OK;
}

/* One row of all that there is. */
static vw_status flatten(const vw__layers_line *line, vw__layers_shape *shape)
{
    uint64_t places = 1;
    if (vw__layers_has_sides(shape->flow))
        places = shape->depth * shape->height * shape->across; /* 2^48 at most */
    else if (shape->flow == VW__LAYERS_FLOW_TOKENS)
        places = shape->length;
    if (!vw__mul_u64(shape->width, places, &shape->width))
        return check_width(line, UINT64_MAX);
    shape->flow = VW__LAYERS_FLOW_FEATURES;
    return VW_OK;
}

vw_status vw__layers_infer_line(const vw__layers_line *line, vw__layers_shape *shape)
{
    VW__TRY(check_flow(line, shape));
    switch (line->kind) {
    case VW__LAYERS_ATTENTION:
        return infer_attention(line, shape);
    case VW__LAYERS_ADAPTIVE_POOL:
        infer_adaptive_pool(line, shape);
        return VW_OK;
    case VW__LAYERS_AVG_POOL:
    case VW__LAYERS_MAX_POOL:
        return infer_window(line, shape);
    case VW__LAYERS_ATTENTION_POOL:
        shape->length = 1;
        shape->height = shape->across = 0;
        return check_multiple(line, "heads", line->heads, "width that comes in", shape->width);
    case VW__LAYERS_CLASS_TOKEN:
        return infer_class_token(line, shape);
    case VW__LAYERS_IMAGE:
        return infer_image(line, shape);
    case VW__LAYERS_PATCH_MERGING:
        return infer_merging(line, shape);
    case VW__LAYERS_SKIP_TOKENS:
        return infer_skip(line, shape);
    case VW__LAYERS_SWIGLU:
        return infer_swiglu(line, shape);
    case VW__LAYERS_WINDOW_ATTENTION:
        return infer_window_attention(line, shape);
    case VW__LAYERS_CONCAT:
    case VW__LAYERS_MULTIPLY:
    case VW__LAYERS_RESIDUAL:
        return infer_combined(line, shape);
    case VW__LAYERS_CONV1D:
    case VW__LAYERS_CONV2D:
    case VW__LAYERS_CONV3D:
    case VW__LAYERS_CONV_TRANSPOSE1D:
    case VW__LAYERS_CONV_TRANSPOSE2D:
    case VW__LAYERS_CONV_TRANSPOSE3D:
        return infer_conv(line, shape);
    case VW__LAYERS_DENSE:
        return infer_dense(line, shape);
    case VW__LAYERS_EMBEDDING:
        shape->flow = VW__LAYERS_FLOW_TOKENS;
        shape->width = line->out;
        return VW_OK;
    case VW__LAYERS_FIRST_TOKEN:
    case VW__LAYERS_MEAN_POOL:
        shape->flow = VW__LAYERS_FLOW_FEATURES;
        return VW_OK;
    case VW__LAYERS_FLATTEN:
        return flatten(line, shape);
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
    case VW__LAYERS_GRU:
    case VW__LAYERS_LSTM:
    case VW__LAYERS_RNN:
        shape->width = line->is_bidirectional ? 2 * line->out : line->out;
        return VW_OK;
    case VW__LAYERS_TOKENS:
        shape->flow = VW__LAYERS_FLOW_TOKENS;
        shape->length = shape->depth * shape->height * shape->across;
        return VW_OK;
    case VW__LAYERS_UPSAMPLE:
        return infer_upsample(line, shape);
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
    case VW__LAYERS_FLOW_SIGNAL:
    case VW__LAYERS_FLOW_IMAGE:
    case VW__LAYERS_FLOW_VOLUME:
        return vw__tape_times(
            tape, vw__tape_times(tape, batch, shape->width),
            vw__tape_times(tape, vw__tape_times(tape, shape->depth, shape->height), shape->across));
    case VW__LAYERS_FLOW_IDS:
        return vw__tape_times(tape, batch, shape->length);
    case VW__LAYERS_FLOW_TOKENS:
        return vw__tape_times(tape, vw__tape_times(tape, batch, shape->length), shape->width);
    case VW__LAYERS_FLOW_FEATURES:
        break;
    }
    return vw__tape_times(tape, batch, shape->width);
}
