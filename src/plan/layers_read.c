/* layers_read.c - the description of a model by its layers, from JSON. */
#include <string.h>

#include "base/error.h"
#include "plan/config_families.h"
#include "plan/layers.h"

enum { MOST_KERNEL = 1024, MOST_FIELDS = 8 };

typedef struct layers_reader {
    hr_plan_model *model;
    size_t depth;
} layers_reader;

/* Reads a list of layers, and counts what they unfold to. */
static hr_status read_list(layers_reader *reader, const hr__config *config, const char *field,
                           const hr__layer_line **lines, size_t *line_count, uint64_t *unfolded);

/* ---- one line -------------------------------------------------------------------------------- */

static hr_status read_window(const hr__config *config, hr__layer_line *line)
{
    hr__window *window = &line->window;
    HR__TRY(hr__config_number(config, "kernel", 1, MOST_KERNEL, &window->kernel));
    window->stride = line->kind == HR__LAYER_CONV2D ? 1 : window->kernel;
    HR__TRY(hr__config_number_if(config, "stride", 1, MOST_KERNEL, &window->stride));
    return hr__config_number_if(config, "padding", 0, MOST_KERNEL, &window->padding);
}

static hr_status read_dropout(const hr__config *config, const char *field, hr__layer_line *line)
{
    double p = line->kind == HR__LAYER_DROPOUT ? 0.5 : 0; /* PyTorch's defaults */
    HR__TRY(hr__config_real_if(config, field, 0, 1, &p));
    line->has_dropout = p > 0 && p < 1;
    return HR_OK;
}

static hr_status read_conv(const hr__config *config, hr__layer_line *line)
{
    HR__TRY(hr__config_number_if(config, "in", 1, HR__MOST_INNER, &line->in));
    HR__TRY(hr__config_number(config, "out", 1, HR__MOST_INNER, &line->out));
    HR__TRY(hr__config_number_if(config, "groups", 1, HR__MOST_INNER, &line->groups));
    HR__TRY(hr__config_boolean_if(config, "bias", &line->has_bias));
    return read_window(config, line);
}

static hr_status read_linear(const hr__config *config, hr__layer_line *line)
{
    HR__TRY(hr__config_number_if(config, "in", 1, UINT64_MAX, &line->in)); /* held against shapes */
    HR__TRY(hr__config_number(config, "out", 1, HR__MOST_VOCABULARY, &line->out));
    return hr__config_boolean_if(config, "bias", &line->has_bias);
}

static hr_status read_attention(const hr__config *config, hr__layer_line *line)
{
    HR__TRY(hr__config_number(config, "heads", 1, HR__MOST_HEADS, &line->heads));
    line->key_heads = line->heads;
    HR__TRY(hr__config_number_if(config, "key_heads", 1, HR__MOST_HEADS, &line->key_heads));
    HR__TRY(hr__config_boolean_if(config, "causal", &line->is_causal));
    HR__TRY(hr__config_boolean_if(config, "packed", &line->is_packed));
    HR__TRY(hr__config_boolean_if(config, "bias", &line->has_bias));
    if (line->is_packed && line->key_heads != line->heads)
        return hr__config_refuse(config, "key_heads", HR_ERR_UNSUPPORTED,
                                 "as many as heads, since one packed product makes all three");
    return read_dropout(config, "dropout", line);
}

static hr_status read_embedding(const hr__config *config, hr__layer_line *line)
{
    HR__TRY(hr__config_number(config, "rows", 1, HR__MOST_VOCABULARY, &line->rows));
    return hr__config_number(config, "width", 1, HR__MOST_INNER, &line->out);
}

static hr_status read_residual(layers_reader *reader, const hr__config *config,
                               hr__layer_line *line, uint64_t *unfolded)
{
    uint64_t inside = 0, beside = 0;
    HR__TRY(hr__config_boolean_if(config, "in_place", &line->is_in_place));
    HR__TRY(read_list(reader, config, "layers", &line->lines, &line->line_count, &inside));
    if (hr__config_has(config, "shortcut"))
        HR__TRY(
            read_list(reader, config, "shortcut", &line->shortcut, &line->shortcut_count, &beside));
    *unfolded += inside + beside;
    return HR_OK;
}

static hr_status read_repeat(layers_reader *reader, const hr__config *config, hr__layer_line *line,
                             uint64_t *unfolded)
{
    uint64_t inside = 0;
    HR__TRY(hr__config_number(config, "count", 1, HR__LAYERS_MOST, &line->count));
    HR__TRY(read_list(reader, config, "layers", &line->lines, &line->line_count, &inside));
    *unfolded += line->count * inside; /* both within HR__LAYERS_MOST */
    return HR_OK;
}

/* What a line may say beside its kind and name. */
static const struct kind_fields {
    const char *fields[MOST_FIELDS];
} kind_fields[HR__LAYER_COUNT] = {
    [HR__LAYER_ATTENTION] = {{"heads", "key_heads", "causal", "packed", "bias", "dropout"}},
    [HR__LAYER_AVG_POOL] = {{"kernel", "stride", "padding"}},
    [HR__LAYER_CONV2D] = {{"in", "out", "kernel", "stride", "padding", "groups", "bias"}},
    [HR__LAYER_DROPOUT] = {{"p"}},
    [HR__LAYER_EMBEDDING] = {{"rows", "width"}},
    [HR__LAYER_GROUP_NORM] = {{"groups"}},
    [HR__LAYER_LAYER_NORM] = {{"bias"}},
    [HR__LAYER_LINEAR] = {{"in", "out", "bias"}},
    [HR__LAYER_MAX_POOL] = {{"kernel", "stride", "padding"}},
    [HR__LAYER_POSITIONS] = {{"rows"}},
    [HR__LAYER_RELU] = {{"in_place"}},
    [HR__LAYER_REPEAT] = {{"count", "layers"}},
    [HR__LAYER_RESIDUAL] = {{"layers", "shortcut", "in_place"}},
};

static hr_status check_fields(const hr__config *config, hr__layer_kind kind)
{
    const char *names[MOST_FIELDS + 2] = {"kind", "name"};
    size_t count = 2;
    for (size_t i = 0; i < MOST_FIELDS && kind_fields[kind].fields[i] != NULL; i++)
        names[count++] = kind_fields[kind].fields[i];
    return hr__config_only(config, names, count);
}

static hr_status read_kind(layers_reader *reader, const hr__config *config, hr__layer_line *line,
                           uint64_t *unfolded)
{
    switch (line->kind) {
    case HR__LAYER_ATTENTION:
        return read_attention(config, line);
    case HR__LAYER_AVG_POOL:
    case HR__LAYER_MAX_POOL:
        return read_window(config, line);
    case HR__LAYER_CONV2D:
        return read_conv(config, line);
    case HR__LAYER_DROPOUT:
        return read_dropout(config, "p", line);
    case HR__LAYER_EMBEDDING:
        return read_embedding(config, line);
    case HR__LAYER_GROUP_NORM:
        return hr__config_number(config, "groups", 1, HR__MOST_INNER, &line->groups);
    case HR__LAYER_LAYER_NORM:
        return hr__config_boolean_if(config, "bias", &line->has_bias);
    case HR__LAYER_LINEAR:
        return read_linear(config, line);
    case HR__LAYER_POSITIONS:
        return hr__config_number(config, "rows", 1, HR__MOST_POSITIONS, &line->rows);
    case HR__LAYER_RELU:
        return hr__config_boolean_if(config, "in_place", &line->is_in_place);
    case HR__LAYER_REPEAT:
        return read_repeat(reader, config, line, unfolded);
    case HR__LAYER_RESIDUAL:
        return read_residual(reader, config, line, unfolded);
    default:
        return HR_OK;
    }
}

static hr_status copy_text(hr_plan_model *model, const char *text, size_t size_bytes,
                           const char **out)
{
    enum { LONGEST = 120 }; /* of a name that is shown in a path of names */
    *out = hr__arena_copy(&model->arena, text, size_bytes < LONGEST ? size_bytes : LONGEST);
    return *out == NULL ? hr__fail_host_memory(size_bytes, "a description's names") : HR_OK;
}

/* Its own name, or its kind's with its number. */
static hr_status read_name(layers_reader *reader, const hr__config *config, uint64_t number,
                           hr__layer_line *line)
{
    const char *name = NULL;
    size_t length = strlen(config->place);
    HR__TRY(hr__config_text_if(config, "name", &name));
    line->name = hr__layer_kind_names[line->kind];
    line->number = (int64_t)number;
    if (name != NULL) {
        HR__TRY(copy_text(reader->model, name, strlen(name), &line->name));
        line->number = -1;
    }
    return copy_text(reader->model, config->place, length > 0 ? length - 1 : 0, &line->place);
}

static hr_status read_line(layers_reader *reader, const hr__config *config, uint64_t number,
                           hr__layer_line *line, uint64_t *unfolded)
{
    size_t kind = 0;
    HR__TRY(hr__config_choice(config, "kind", hr__layer_kind_names, HR__LAYER_COUNT, &kind));
    *line = (hr__layer_line){.kind = (hr__layer_kind)kind, .has_bias = true, .groups = 1};
    HR__TRY(check_fields(config, line->kind));
    HR__TRY(read_name(reader, config, number, line));
    *unfolded += 1;
    return read_kind(reader, config, line, unfolded);
}

/* ---- lists of lines -------------------------------------------------------------------------- */

static hr_status check_unfolded(const hr__config *config, const char *field, uint64_t unfolded)
{
    if (unfolded <= HR__LAYERS_MOST)
        return HR_OK;
    return hr__fail(HR_ERR_UNSUPPORTED,
                    "%s%s: expected at most %d layers with all repeats, found "
                    "more",
                    config->place, field, HR__LAYERS_MOST);
}

static hr_status read_lines(layers_reader *reader, const hr__config *config, const char *field,
                            hr__layer_line *lines, uint64_t *unfolded)
{
    bool is_there = true;
    for (uint64_t cursor = 0, number = 0; is_there; number++) {
        hr__config item;
        HR__TRY(hr__config_next_object(config, field, &cursor, &item, &is_there));
        if (!is_there)
            break;
        HR__TRY(read_line(reader, &item, number, &lines[number], unfolded));
        HR__TRY(check_unfolded(config, field, *unfolded));
    }
    return HR_OK;
}

static hr_status read_list(layers_reader *reader, const hr__config *config, const char *field,
                           const hr__layer_line **lines, size_t *line_count, uint64_t *unfolded)
{
    size_t count = 0;
    HR__TRY(hr__config_list(config, field, HR__LAYERS_MOST, &count));
    if (count == 0)
        return hr__config_refuse(config, field, HR_ERR_CORRUPT_FILE, "at least one layer");
    if (reader->depth == HR__LAYERS_DEEPEST)
        return hr__fail(HR_ERR_UNSUPPORTED, "%s%s: expected lists of layers at most %d deep",
                        config->place, field, HR__LAYERS_DEEPEST);
    hr__layer_line *made =
        hr__arena_alloc_array(&reader->model->arena, count, sizeof *made, sizeof(uint64_t));
    if (made == NULL)
        return hr__fail_host_memory(count * sizeof *made, "a description's layers");
    reader->depth++;
    HR__TRY(read_lines(reader, config, field, made, unfolded));
    reader->depth--;
    *lines = made;
    *line_count = count;
    return HR_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* [3, 224, 224] is an image, [784] a row; {"tokens": 128} are ids, with a width rows already. */
static hr_status read_list_input(const hr__config *config, hr__layer_shape *shape)
{
    enum { ROW = 1, IMAGE = 3 };
    uint64_t numbers[IMAGE] = {0};
    size_t count = 0;
    HR__TRY(hr__config_numbers(config, "input", 1, HR__MOST_INNER, IMAGE, numbers, &count));
    if (count != ROW && count != IMAGE)
        return hr__config_refuse(config, "input", HR_ERR_CORRUPT_FILE,
                                 "[channels, height, width] or [width]");
    *shape = (hr__layer_shape){.flow = count == ROW ? HR__FLOW_FEATURES : HR__FLOW_IMAGE,
                               .width = numbers[0],
                               .height = numbers[1],
                               .across = numbers[2]};
    if (numbers[1] > HR__MOST_PIXELS || numbers[2] > HR__MOST_PIXELS)
        return hr__config_refuse(config, "input", HR_ERR_UNSUPPORTED,
                                 "an image of at most 65536 pixels a side");
    return HR_OK;
}

static hr_status read_input(const hr__config *config, hr__layer_shape *shape)
{
    static const char *const fields[] = {"tokens", "width"};
    hr__config input;
    if (hr__config_has_list(config, "input"))
        return read_list_input(config, shape);
    if (!hr__config_has_object(config, "input"))
        return hr__config_refuse(config, "input", HR_ERR_CORRUPT_FILE,
                                 "[channels, height, width], [width] or {\"tokens\": length}");
    HR__TRY(hr__config_object(config, "input", &input));
    HR__TRY(hr__config_only(&input, fields, 2));
    *shape = (hr__layer_shape){.flow = HR__FLOW_IDS};
    HR__TRY(hr__config_number(&input, "tokens", 1, HR__MOST_POSITIONS, &shape->length));
    HR__TRY(hr__config_number_if(&input, "width", 1, HR__MOST_INNER, &shape->width));
    if (shape->width > 0)
        shape->flow = HR__FLOW_TOKENS;
    return HR_OK;
}

static hr_status check_output(const hr__config *config, const hr__layer_shape *out,
                              const hr_plan_model *model)
{
    uint64_t classes = out->width;
    if (out->flow == HR__FLOW_IDS)
        return hr__fail(HR_ERR_CORRUPT_FILE, "layers: nothing in them has a gradient");
    if (model->layers_loss == HR__LAYERS_CROSS_ENTROPY && out->flow == HR__FLOW_IMAGE)
        return hr__fail(HR_ERR_UNSUPPORTED,
                        "loss: cross_entropy takes tokens or features, and gets %s",
                        hr__layer_shape_words(out).text);
    HR__TRY(hr__config_number_if(config, "classes", 1, HR__MOST_VOCABULARY, &classes));
    if (classes == out->width)
        return HR_OK;
    return hr__config_refuse(config, "classes", HR_ERR_CORRUPT_FILE,
                             "as many as the last layer's width, which is %llu",
                             (unsigned long long)out->width);
}

/* The largest of its kind, for those who ask whether there is any. */
static void note_attention(const hr__layer_line *lines, size_t line_count, hr_plan_model *model)
{
    for (size_t i = 0; i < line_count; i++) {
        if (lines[i].heads > model->shape.heads)
            model->shape.heads = lines[i].heads;
        if (lines[i].kind == HR__LAYER_EMBEDDING && lines[i].out > model->shape.hidden)
            model->shape.hidden = lines[i].out;
        note_attention(lines[i].lines, lines[i].line_count, model);
        note_attention(lines[i].shortcut, lines[i].shortcut_count, model);
    }
}

static const hr__family *family_of(hr__layer_flow flow)
{
    switch (flow) {
    case HR__FLOW_IMAGE:
        return &hr__family_image_layers;
    case HR__FLOW_FEATURES:
        return &hr__family_feature_layers;
    case HR__FLOW_IDS:
    case HR__FLOW_TOKENS:
        break;
    }
    return &hr__family_token_layers;
}

static hr_status read_head(const hr__config *config, hr_plan_model *model, hr__layer_shape *input)
{
    static const char *const fields[] = {"name", "input", "layers", "loss", "classes"};
    static const char *const losses[] = {"cross_entropy", "mse", "mean"};
    const char *name = NULL;
    size_t loss = HR__LAYERS_CROSS_ENTROPY;
    HR__TRY(hr__config_only(config, fields, sizeof fields / sizeof fields[0]));
    HR__TRY(hr__config_text_if(config, "name", &name));
    if (name != NULL)
        HR__TRY(copy_text(model, name, strlen(name), &model->name));
    HR__TRY(hr__config_choice_if(config, "loss", losses, sizeof losses / sizeof losses[0], &loss));
    model->layers_loss = (hr__layers_loss)loss;
    return read_input(config, input);
}

hr_status hr__read_layers(const hr__config *config, hr_plan_model *model)
{
    layers_reader reader = {.model = model};
    hr__layer_shape *input =
        hr__arena_alloc_array(&model->arena, 1, sizeof *input, sizeof(uint64_t));
    uint64_t unfolded = 0;
    if (input == NULL)
        return hr__fail_host_memory(sizeof *input, "a description");
    HR__TRY(read_head(config, model, input));
    HR__TRY(read_list(&reader, config, "layers", &model->lines, &model->line_count, &unfolded));
    hr__layer_shape shape = *input;
    HR__TRY(hr__layers_infer(model->lines, model->line_count, &shape));
    HR__TRY(check_output(config, &shape, model));
    note_attention(model->lines, model->line_count, model);
    if (model->shape.hidden == 0)
        model->shape.hidden = input->width;
    model->layers_input = input;
    model->family = family_of(input->flow);
    return HR_OK;
}
