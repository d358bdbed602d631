/* layers_shape.c - what flows between the layers of a description, worked out and checked. */
#include "plan/layers.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "plan/config_families.h"

#define HR__LAYER_NAME(upper, text) [HR__LAYER_##upper] = text,
const char *const hr__layer_kind_names[HR__LAYER_COUNT] = {HR__LAYER_KIND_LIST(HR__LAYER_NAME)};
#undef HR__LAYER_NAME

/* ---- words ----------------------------------------------------------------------------------- */

hr__layer_words hr__layer_shape_words(const hr__layer_shape *shape)
{
    hr__layer_words words;
    char *text = words.text;
    size_t room = sizeof words.text;
    switch (shape->flow) {
    case HR__FLOW_IMAGE:
        snprintf(text, room, "an image of %" PRIu64 "x%" PRIu64 "x%" PRIu64, shape->width,
                 shape->height, shape->across);
        break;
    case HR__FLOW_IDS:
        snprintf(text, room, "%" PRIu64 " ids", shape->length);
        break;
    case HR__FLOW_TOKENS:
        snprintf(text, room, "%" PRIu64 " tokens of width %" PRIu64, shape->length, shape->width);
        break;
    case HR__FLOW_FEATURES:
        snprintf(text, room, "features of width %" PRIu64, shape->width);
        break;
    }
    return words;
}

static hr_status refuse(const hr__layer_line *line, const char *takes, const hr__layer_shape *gets)
{
    return hr__fail(HR_ERR_CORRUPT_FILE, "%s: %s takes %s, and gets %s", line->place,
                    hr__layer_kind_names[line->kind], takes, hr__layer_shape_words(gets).text);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static hr_status take_image(const hr__layer_line *line, const hr__layer_shape *shape)
{
    return shape->flow == HR__FLOW_IMAGE ? HR_OK : refuse(line, "an image", shape);
}

static hr_status take_tokens(const hr__layer_line *line, const hr__layer_shape *shape)
{
    return shape->flow == HR__FLOW_TOKENS ? HR_OK : refuse(line, "tokens", shape);
}

static hr_status take_rows(const hr__layer_line *line, const hr__layer_shape *shape)
{
    return shape->flow == HR__FLOW_TOKENS || shape->flow == HR__FLOW_FEATURES
               ? HR_OK
               : refuse(line, "tokens or features", shape);
}

/* Anything with numbers that have a gradient. */
static hr_status take_values(const hr__layer_line *line, const hr__layer_shape *shape)
{
    return shape->flow == HR__FLOW_IDS ? refuse(line, "an image, tokens or features", shape)
                                       : HR_OK;
}

static hr_status check_in(const hr__layer_line *line, const hr__layer_shape *shape)
{
    if (line->in == 0 || line->in == shape->width)
        return HR_OK;
    return hr__fail(HR_ERR_CORRUPT_FILE,
                    "%s.in: expected %" PRIu64 ", since %s comes in, found %" PRIu64, line->place,
                    shape->width, hr__layer_shape_words(shape).text, line->in);
}

static hr_status check_multiple(const hr__layer_line *line, const char *field, uint64_t part,
                                const char *what, uint64_t whole)
{
    if (part > 0 && whole % part == 0)
        return HR_OK;
    return hr__fail(HR_ERR_CORRUPT_FILE,
                    "%s.%s: expected a divisor of the %s, %" PRIu64 ", found %" PRIu64, line->place,
                    field, what, whole, part);
}

/* ---- each kind ------------------------------------------------------------------------------- */

static hr_status infer_window(const hr__layer_line *line, hr__layer_shape *shape)
{
    HR__TRY(take_image(line, shape));
    uint64_t height = hr__window_steps(&line->window, shape->height);
    uint64_t across = hr__window_steps(&line->window, shape->across);
    if (height == 0 || across == 0)
        return hr__fail(
            HR_ERR_CORRUPT_FILE,
            "%s.kernel: expected one that fits into %s with its padding, found %" PRIu64,
            line->place, hr__layer_shape_words(shape).text, line->window.kernel);
    if (height > HR__MOST_PIXELS || across > HR__MOST_PIXELS)
        return hr__fail(HR_ERR_UNSUPPORTED,
                        "%s.padding: expected an image of at most %" PRIu64
                        " pixels a side to come out",
                        line->place, HR__MOST_PIXELS);
    shape->height = height;
    shape->across = across;
    return HR_OK;
}

static hr_status infer_conv(const hr__layer_line *line, hr__layer_shape *shape)
{
    HR__TRY(take_image(line, shape));
    HR__TRY(check_in(line, shape));
    HR__TRY(check_multiple(line, "groups", line->groups, "channels that come in", shape->width));
    HR__TRY(check_multiple(line, "groups", line->groups, "channels that come out", line->out));
    HR__TRY(infer_window(line, shape));
    shape->width = line->out;
    return HR_OK;
}

static hr_status infer_linear(const hr__layer_line *line, hr__layer_shape *shape)
{
    HR__TRY(take_rows(line, shape));
    HR__TRY(check_in(line, shape));
    shape->width = line->out;
    return HR_OK;
}

static hr_status infer_attention(const hr__layer_line *line, const hr__layer_shape *shape)
{
    HR__TRY(take_tokens(line, shape));
    HR__TRY(check_multiple(line, "heads", line->heads, "width that comes in", shape->width));
    return check_multiple(line, "key_heads", line->key_heads, "heads", line->heads);
}

static hr_status infer_embedding(const hr__layer_line *line, hr__layer_shape *shape)
{
    if (shape->flow != HR__FLOW_IDS)
        return refuse(line, "ids", shape);
    shape->flow = HR__FLOW_TOKENS;
    shape->width = line->out;
    return HR_OK;
}

static hr_status infer_positions(const hr__layer_line *line, const hr__layer_shape *shape)
{
    HR__TRY(take_tokens(line, shape));
    if (shape->length <= line->rows)
        return HR_OK;
    return hr__fail(HR_ERR_CORRUPT_FILE,
                    "%s.rows: expected at least one for each of %" PRIu64 " tokens, found %" PRIu64,
                    line->place, shape->length, line->rows);
}

/* To one row. */
static hr_status infer_flatten(const hr__layer_line *line, hr__layer_shape *shape)
{
    HR__TRY(take_values(line, shape));
    if (shape->flow == HR__FLOW_IMAGE)
        shape->width *= shape->height * shape->across;
    else if (shape->flow == HR__FLOW_TOKENS)
        shape->width *= shape->length;
    shape->flow = HR__FLOW_FEATURES;
    return HR_OK;
}

static hr_status infer_mean_pool(const hr__layer_line *line, hr__layer_shape *shape)
{
    if (shape->flow != HR__FLOW_IMAGE && shape->flow != HR__FLOW_TOKENS)
        return refuse(line, "an image or tokens", shape);
    shape->flow = HR__FLOW_FEATURES;
    return HR_OK;
}

static hr_status infer_tokens(const hr__layer_line *line, hr__layer_shape *shape)
{
    HR__TRY(take_image(line, shape));
    shape->flow = HR__FLOW_TOKENS;
    shape->length = shape->height * shape->across;
    return HR_OK;
}

static bool is_same_shape(const hr__layer_shape *a, const hr__layer_shape *b)
{
    if (a->flow != b->flow || a->width != b->width)
        return false;
    if (a->flow == HR__FLOW_IMAGE)
        return a->height == b->height && a->across == b->across;
    return a->flow == HR__FLOW_FEATURES || a->length == b->length;
}

static hr_status infer_residual(const hr__layer_line *line, hr__layer_shape *shape)
{
    hr__layer_shape identity = *shape;
    HR__TRY(take_values(line, shape));
    HR__TRY(hr__layers_infer(line->lines, line->line_count, shape));
    HR__TRY(hr__layers_infer(line->shortcut, line->shortcut_count, &identity));
    if (is_same_shape(&identity, shape))
        return HR_OK;
    return hr__fail(HR_ERR_CORRUPT_FILE,
                    "%s: residual adds up two of one shape, and gets %s and, as a shortcut, %s",
                    line->place, hr__layer_shape_words(shape).text,
                    hr__layer_shape_words(&identity).text);
}

static hr_status infer_repeat(const hr__layer_line *line, hr__layer_shape *shape)
{
    for (uint64_t i = 0; i < line->count; i++)
        HR__TRY(hr__layers_infer(line->lines, line->line_count, shape));
    return HR_OK;
}

hr_status hr__layer_infer(const hr__layer_line *line, hr__layer_shape *shape)
{
    switch (line->kind) {
    case HR__LAYER_ATTENTION:
        return infer_attention(line, shape);
    case HR__LAYER_AVG_POOL:
    case HR__LAYER_MAX_POOL:
        return infer_window(line, shape);
    case HR__LAYER_BATCH_NORM:
        return take_image(line, shape);
    case HR__LAYER_CONV2D:
        return infer_conv(line, shape);
    case HR__LAYER_EMBEDDING:
        return infer_embedding(line, shape);
    case HR__LAYER_FIRST_TOKEN:
        HR__TRY(take_tokens(line, shape));
        shape->flow = HR__FLOW_FEATURES;
        return HR_OK;
    case HR__LAYER_FLATTEN:
        return infer_flatten(line, shape);
    case HR__LAYER_GROUP_NORM:
        HR__TRY(take_image(line, shape));
        return check_multiple(line, "groups", line->groups, "channels", shape->width);
    case HR__LAYER_LAYER_NORM:
    case HR__LAYER_RMS_NORM:
        return take_rows(line, shape);
    case HR__LAYER_LINEAR:
        return infer_linear(line, shape);
    case HR__LAYER_MEAN_POOL:
        return infer_mean_pool(line, shape);
    case HR__LAYER_POSITIONS:
        return infer_positions(line, shape);
    case HR__LAYER_REPEAT:
        return infer_repeat(line, shape);
    case HR__LAYER_RESIDUAL:
        return infer_residual(line, shape);
    case HR__LAYER_TOKENS:
        return infer_tokens(line, shape);
    default: /* what works on each element by itself */
        return take_values(line, shape);
    }
}

hr_status hr__layers_infer(const hr__layer_line *lines, size_t line_count, hr__layer_shape *shape)
{
    for (size_t i = 0; i < line_count; i++)
        HR__TRY(hr__layer_infer(&lines[i], shape));
    return HR_OK;
}

uint64_t hr__layer_elements(hr__tape *tape, const hr__layer_shape *shape, uint64_t batch)
{
    switch (shape->flow) {
    case HR__FLOW_IMAGE:
        return hr__times(tape, hr__times(tape, batch, shape->width),
                         hr__times(tape, shape->height, shape->across));
    case HR__FLOW_IDS:
        return hr__times(tape, batch, shape->length);
    case HR__FLOW_TOKENS:
        return hr__times(tape, hr__times(tape, batch, shape->length), shape->width);
    case HR__FLOW_FEATURES:
        break;
    }
    return hr__times(tape, batch, shape->width);
}
