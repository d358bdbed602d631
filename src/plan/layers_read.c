/* layers_read.c - the description of a model by its layers, from JSON. */
#include <string.h>

#include "base/error.h"
#include "plan/config_types.h"
#include "plan/layers.h"

enum {
    MOST_KERNEL = 1024,
    MOST_KEYS = 11,
    MOST_DENSE = 512, /* each round reads all before it */
};

typedef struct layers_reader {
    vw_plan_model *model;
    size_t depth;
} layers_reader;

/* Reads a list of layers; adds the number of layers with all repeats to `*unfolded`. */
static vw_status read_list(layers_reader *reader, const vw__config *config, const char *field,
                           const vw__layers_line **lines, size_t *line_count, uint64_t *unfolded);

/* ---- one line -------------------------------------------------------------------------------- */

/* PyTorch's defaults: 0.5 in a layer of its own, 0 in attention. */
static vw_status read_dropout(const vw__config *config, const vw__config_key *key, void *into)
{
    vw__layers_line *line = into;
    double p = key->usual;
    VW__TRY(vw__config_real_if(config, key->name, 0, 1, &p));
    line->has_dropout = p > 0 && p < 1;
    return VW_OK;
}

static vw_status complete_attention(const vw__config *config, const vw__config_key *key, void *into)
{
    vw__layers_line *line = into;
    (void)key;
    if (line->key_heads == 0)
        line->key_heads = line->heads;
    if (line->is_packed && line->key_heads != line->heads)
        return vw__config_refuse(config, "key_heads", VW_ERR_UNSUPPORTED,
                                 "as many as heads, since one packed product makes all three");
    return VW_OK;
}

/* A convolution has the dimensions of its key, and goes step by step; a pool has those of what it
 * gets, and goes from one window to the next. */
static vw_status complete_window(const vw__config *config, const vw__config_key *key, void *into)
{
    vw__layers_line *line = into;
    (void)config;
    line->window.dimensions = key->most;
    if (line->window.stride == 0)
        line->window.stride = key->most > 0 ? 1 : line->window.kernel;
    return VW_OK;
}

/* output_padding only tells results of one stride apart. */
static vw_status complete_transposed(const vw__config *config, const vw__config_key *key,
                                     void *into)
{
    vw__layers_line *line = into;
    VW__TRY(complete_window(config, key, into));
    line->window.is_transposed = true;
    if (line->window.extra < line->window.stride || line->window.extra < line->window.dilation)
        return VW_OK;
    return vw__config_refuse(config, "output_padding", VW_ERR_CORRUPT_FILE,
                             "less than the stride or the dilation");
}

/* One, where nothing is said. */
static vw_status complete_count(const vw__config *config, const vw__config_key *key, void *into)
{
    vw__layers_line *line = into;
    (void)config;
    (void)key;
    if (line->count == 0)
        line->count = 1;
    return VW_OK;
}

/* clang-format off */
#define FIELD(member) .field = offsetof(vw__layers_line, member)
#define NUMBER(key, member, limit) {VW__CONFIG_KEY_NUMBER, key, FIELD(member), .most = limit}
#define NUMBER_IF(key, member, limit) {VW__CONFIG_KEY_NUMBER_IF, key, FIELD(member), .most = limit}
#define FLAG(key, member) {VW__CONFIG_KEY_FLAG, key, FIELD(member)}
#define CALL(...) {VW__CONFIG_KEY_CALL, .call = __VA_ARGS__}
#define LISTS(key) {.kind = VW__CONFIG_KEY_ELSEWHERE, .name = key} /* read_inside() */
#define COUNT_IF(key, member, limit) {VW__CONFIG_KEY_COUNT_IF, key, FIELD(member), .most = limit}
#define WINDOW                                                                                     \
    NUMBER("kernel", window.kernel, MOST_KERNEL),                                                  \
    NUMBER_IF("stride", window.stride, MOST_KERNEL),                                               \
    COUNT_IF("padding", window.padding, MOST_KERNEL)
#define POOL {WINDOW, CALL(complete_window)}
#define CONV_KEYS                                                                                  \
    NUMBER_IF("in", in, VW__CONFIG_MOST_INNER), NUMBER("out", out, VW__CONFIG_MOST_INNER),         \
    NUMBER_IF("groups", groups, VW__CONFIG_MOST_INNER), FLAG("bias", has_bias), WINDOW,            \
    NUMBER_IF("dilation", window.dilation, MOST_KERNEL)
#define CONV(dimensions) {CONV_KEYS, CALL(complete_window, .most = dimensions)}
#define CONV_TRANSPOSE(dimensions)                                                                 \
    {CONV_KEYS, COUNT_IF("output_padding", window.extra, MOST_KERNEL),                             \
     CALL(complete_transposed, .most = dimensions)}
#define RECURRENT                                                                                  \
    {NUMBER("hidden", out, VW__CONFIG_MOST_WIDTH), NUMBER_IF("layers", count, VW__LAYERS_MOST),    \
     FLAG("bidirectional", is_bidirectional), FLAG("bias", has_bias),                              \
     CALL(read_dropout, .name = "dropout"), CALL(complete_count)}
#define TOKEN_COUNT {NUMBER_IF("count", count, VW__CONFIG_MOST_POSITIONS), CALL(complete_count)}
#define IN_PLACE {FLAG("in_place", is_in_place)}

/* The fields of each kind, beside "kind" and "name". The shape inference checks linear's "in". */
static const vw__config_key kind_keys[VW__LAYERS_KIND_COUNT][MOST_KEYS] = {
    [VW__LAYERS_ATTENTION] = {NUMBER("heads", heads, VW__CONFIG_MOST_HEADS),
                             NUMBER_IF("key_heads", key_heads, VW__CONFIG_MOST_HEADS),
                             FLAG("causal", is_causal), FLAG("packed", is_packed),
                             FLAG("bias", has_bias), CALL(complete_attention),
                             CALL(read_dropout, .name = "dropout")},
    [VW__LAYERS_ATTENTION_POOL] = {NUMBER("heads", heads, VW__CONFIG_MOST_HEADS)},
    [VW__LAYERS_CLASS_TOKEN] = TOKEN_COUNT,
    [VW__LAYERS_SKIP_TOKENS] = TOKEN_COUNT,
    [VW__LAYERS_WINDOW_ATTENTION] = {NUMBER("heads", heads, VW__CONFIG_MOST_HEADS),
                                    NUMBER("window", rows, VW__CONFIG_MOST_PIXELS),
                                    COUNT_IF("shift", shift, VW__CONFIG_MOST_PIXELS),
                                    FLAG("bias", has_bias),
                                    CALL(read_dropout, .name = "dropout")},
    [VW__LAYERS_ADAPTIVE_POOL] = {NUMBER("size", rows, VW__CONFIG_MOST_PIXELS)},
    [VW__LAYERS_AVG_POOL] = POOL,
    [VW__LAYERS_CONCAT] = {LISTS("layers"), LISTS("shortcut")},
    [VW__LAYERS_CONV1D] = CONV(1),
    [VW__LAYERS_CONV2D] = CONV(2),
    [VW__LAYERS_CONV3D] = CONV(3),
    [VW__LAYERS_CONV_TRANSPOSE1D] = CONV_TRANSPOSE(1),
    [VW__LAYERS_CONV_TRANSPOSE2D] = CONV_TRANSPOSE(2),
    [VW__LAYERS_CONV_TRANSPOSE3D] = CONV_TRANSPOSE(3),
    [VW__LAYERS_DENSE] = {NUMBER("count", count, MOST_DENSE), LISTS("layers")},
    [VW__LAYERS_DROP_PATH] = {CALL(read_dropout, .name = "p", .usual = 0.5)},
    [VW__LAYERS_DROPOUT] = {CALL(read_dropout, .name = "p", .usual = 0.5)},
    [VW__LAYERS_EMBEDDING] = {NUMBER("rows", rows, VW__CONFIG_MOST_VOCABULARY),
                             NUMBER("width", out, VW__CONFIG_MOST_INNER)},
    [VW__LAYERS_GROUP_NORM] = {NUMBER("groups", groups, VW__CONFIG_MOST_INNER)},
    [VW__LAYERS_GRU] = RECURRENT,
    [VW__LAYERS_HARDSIGMOID] = IN_PLACE,
    [VW__LAYERS_HARDSWISH] = IN_PLACE,
    [VW__LAYERS_LAYER_NORM] = {FLAG("bias", has_bias)},
    [VW__LAYERS_LINEAR] = {NUMBER_IF("in", in, UINT64_MAX), NUMBER("out", out, VW__CONFIG_MOST_VOCABULARY),
                          FLAG("bias", has_bias)},
    [VW__LAYERS_LSTM] = RECURRENT,
    [VW__LAYERS_MAX_POOL] = POOL,
    [VW__LAYERS_MULTIPLY] = {LISTS("layers"), LISTS("shortcut")},
    [VW__LAYERS_POSITIONS] = {NUMBER("rows", rows, VW__CONFIG_MOST_POSITIONS)},
    [VW__LAYERS_RELU] = IN_PLACE,
    [VW__LAYERS_RELU6] = IN_PLACE,
    [VW__LAYERS_REPEAT] = {NUMBER("count", count, VW__LAYERS_MOST), LISTS("layers")},
    [VW__LAYERS_RESIDUAL] = {FLAG("in_place", is_in_place), LISTS("layers"), LISTS("shortcut")},
    [VW__LAYERS_RNN] = RECURRENT,
    [VW__LAYERS_SILU] = IN_PLACE,
    [VW__LAYERS_UPSAMPLE] = {NUMBER("factor", factor, VW__CONFIG_MOST_PIXELS)},
};
/* clang-format on */

static vw_status check_fields(const vw__config *config, vw__layers_kind kind)
{
    const char *names[MOST_KEYS + 2] = {"kind", "name"};
    size_t count = 2;
    for (const vw__config_key *key = kind_keys[kind]; key->kind != VW__CONFIG_KEY_END; key++)
        if (key->name != NULL)
            names[count++] = key->name;
    return vw__config_only(config, names, count);
}

static bool is_repeated(vw__layers_kind kind)
{
    return kind == VW__LAYERS_REPEAT || kind == VW__LAYERS_DENSE;
}

/* The layers inside of what has some. */
static vw_status read_inside(layers_reader *reader, const vw__config *config, vw__layers_line *line,
                             uint64_t *unfolded)
{
    uint64_t inside = 0, beside = 0;
    if (!is_repeated(line->kind) && !vw__layers_is_combined(line->kind))
        return VW_OK;
    VW__TRY(read_list(reader, config, "layers", &line->lines, &line->line_count, &inside));
    if (vw__layers_is_combined(line->kind) && vw__config_has(config, "shortcut"))
        VW__TRY(
            read_list(reader, config, "shortcut", &line->shortcut, &line->shortcut_count, &beside));
    *unfolded += is_repeated(line->kind) ? line->count * inside /* within VW__LAYERS_MOST */
                                         : inside + beside;
    return VW_OK;
}

static bool is_recurrent(vw__layers_kind kind)
{
    return kind == VW__LAYERS_GRU || kind == VW__LAYERS_LSTM || kind == VW__LAYERS_RNN;
}

/* How many layers a line is by itself: a recurrent one has its own, in one or two directions. */
static uint64_t layers_of(const vw__layers_line *line)
{
    if (!is_recurrent(line->kind))
        return 1;
    return line->count * (line->is_bidirectional ? 2 : 1); /* within limits */
}

static vw_status copy_text(vw_plan_model *model, const char *text, size_t size_bytes,
                           const char **out)
{
    enum { LONGEST = 120 }; /* names are shown in paths */
    *out = vw__arena_copy(&model->arena, text, size_bytes < LONGEST ? size_bytes : LONGEST);
    return *out == NULL ? vw__fail_host_memory(size_bytes, "a description's names") : VW_OK;
}

/* A line without a name has its kind's name and its number. */
static vw_status read_name(layers_reader *reader, const vw__config *config, uint64_t number,
                           vw__layers_line *line)
{
    const char *name = NULL;
    size_t length = strlen(config->place);
    VW__TRY(vw__config_text_if(config, "name", &name));
    line->name = vw__layers_kind_names[line->kind];
    line->number = (int64_t)number;
    if (name != NULL) {
        VW__TRY(copy_text(reader->model, name, strlen(name), &line->name));
        line->number = -1;
    }
    return copy_text(reader->model, config->place, length > 0 ? length - 1 : 0, &line->place);
}

static vw_status read_line(layers_reader *reader, const vw__config *config, uint64_t number,
                           vw__layers_line *line, uint64_t *unfolded)
{
    size_t kind = 0;
    VW__TRY(vw__config_choice(config, "kind", vw__layers_kind_names, VW__LAYERS_KIND_COUNT, &kind));
    *line = (vw__layers_line){.kind = (vw__layers_kind)kind, .has_bias = true, .groups = 1};
    VW__TRY(check_fields(config, line->kind));
    VW__TRY(read_name(reader, config, number, line));
    VW__TRY(vw__config_read_keys(config, kind_keys[line->kind], line));
    *unfolded += layers_of(line);
    return read_inside(reader, config, line, unfolded);
}

/* ---- lists of lines -------------------------------------------------------------------------- */

static vw_status check_unfolded(const vw__config *config, const char *field, uint64_t unfolded)
{
    if (unfolded <= VW__LAYERS_MOST)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED,
                    "%s%s: expected at most %d layers with all repeats (and recurrent ones with "
                    "their layers in each direction), found more",
                    config->place, field, VW__LAYERS_MOST);
}

static vw_status read_lines(layers_reader *reader, const vw__config *config, const char *field,
                            vw__layers_line *lines, uint64_t *unfolded)
{
    bool is_there = true;
    for (uint64_t cursor = 0, number = 0; is_there; number++) {
        vw__config item;
        VW__TRY(vw__config_next_object(config, field, &cursor, &item, &is_there));
        if (!is_there)
            break;
        VW__TRY(read_line(reader, &item, number, &lines[number], unfolded));
        VW__TRY(check_unfolded(config, field, *unfolded));
    }
    return VW_OK;
}

static vw_status read_list(layers_reader *reader, const vw__config *config, const char *field,
                           const vw__layers_line **lines, size_t *line_count, uint64_t *unfolded)
{
    size_t count = 0;
    VW__TRY(vw__config_list(config, field, VW__LAYERS_MOST, &count));
    if (count == 0)
        return vw__config_refuse(config, field, VW_ERR_CORRUPT_FILE, "at least one layer");
    if (reader->depth == VW__LAYERS_DEEPEST)
        return vw__fail(VW_ERR_UNSUPPORTED, "%s%s: expected lists of layers at most %d deep",
                        config->place, field, VW__LAYERS_DEEPEST);
    vw__layers_line *made =
        vw__arena_alloc_array(&reader->model->arena, count, sizeof *made, sizeof(uint64_t));
    if (made == NULL)
        return vw__fail_host_memory(count * sizeof *made, "a description's layers");
    reader->depth++;
    VW__TRY(read_lines(reader, config, field, made, unfolded));
    reader->depth--;
    *lines = made;
    *line_count = count;
    return VW_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* [3, 224, 224] is an image, [2, 16000] a signal, [3, 16, 112, 112] a volume, [784] a row;
 * {"tokens": 128} are ids, or rows if it has a width. */
static vw_status read_list_input(const vw__config *config, vw__layers_shape *shape)
{
    enum { MOST = 4 };
    static const vw__layers_flow flows[MOST] = {VW__LAYERS_FLOW_FEATURES, VW__LAYERS_FLOW_SIGNAL,
                                                VW__LAYERS_FLOW_IMAGE, VW__LAYERS_FLOW_VOLUME};
    uint64_t numbers[MOST], *sides[] = {&shape->across, &shape->height, &shape->depth};
    size_t count = 0;
    VW__TRY(vw__config_numbers(config, "input", 1, VW__CONFIG_MOST_INNER, MOST, numbers, &count));
    if (count == 0)
        return vw__config_refuse(config, "input", VW_ERR_CORRUPT_FILE,
                                 "[channels, height, width] or [width]");
    *shape = (vw__layers_shape){
        .flow = flows[count - 1], .width = numbers[0], .depth = 1, .height = 1, .across = 1};
    for (size_t i = 1; i < count; i++) {
        if (count > 2 && numbers[i] > VW__CONFIG_MOST_PIXELS)
            return vw__config_refuse(config, "input", VW_ERR_UNSUPPORTED,
                                     "an image of at most 65536 pixels a side");
        *sides[count - 1 - i] = numbers[i];
    }
    return VW_OK;
}

static vw_status read_input(const vw__config *config, vw__layers_shape *shape)
{
    static const char *const fields[] = {"tokens", "width"};
    vw__config input;
    if (vw__config_has_list(config, "input"))
        return read_list_input(config, shape);
    if (!vw__config_has_object(config, "input"))
        return vw__config_refuse(config, "input", VW_ERR_CORRUPT_FILE,
                                 "[channels, height, width], [width] or {\"tokens\": length}");
    VW__TRY(vw__config_object(config, "input", &input));
    VW__TRY(vw__config_only(&input, fields, 2));
    *shape = (vw__layers_shape){.flow = VW__LAYERS_FLOW_IDS};
    VW__TRY(vw__config_number(&input, "tokens", 1, VW__CONFIG_MOST_POSITIONS, &shape->length));
    VW__TRY(vw__config_number_if(&input, "width", 1, VW__CONFIG_MOST_INNER, &shape->width));
    if (shape->width > 0)
        shape->flow = VW__LAYERS_FLOW_TOKENS;
    return VW_OK;
}

static vw_status check_output(const vw__config *config, const vw__layers_shape *out)
{
    uint64_t classes = out->width;
    if (out->flow == VW__LAYERS_FLOW_IDS)
        return vw__fail(VW_ERR_CORRUPT_FILE, "layers: nothing in them has a gradient");
    VW__TRY(vw__config_number_if(config, "classes", 1, VW__CONFIG_MOST_VOCABULARY, &classes));
    if (classes == out->width)
        return VW_OK;
    return vw__config_refuse(config, "classes", VW_ERR_CORRUPT_FILE,
                             "as many as the last layer's width, which is %llu",
                             (unsigned long long)out->width);
}

/* The most heads and the widest embedding, for checks of the settings. */
static void note_attention(const vw__layers_line *lines, size_t line_count, vw_plan_model *model)
{
    for (size_t i = 0; i < line_count; i++) {
        if (lines[i].heads > model->shape.attention.heads)
            model->shape.attention.heads = lines[i].heads;
        if (lines[i].kind == VW__LAYERS_EMBEDDING && lines[i].out > model->shape.hidden)
            model->shape.hidden = lines[i].out;
        note_attention(lines[i].lines, lines[i].line_count, model);
        note_attention(lines[i].shortcut, lines[i].shortcut_count, model);
    }
}

static const vw__plan_family *family_of(vw__layers_flow flow)
{
    switch (flow) {
    case VW__LAYERS_FLOW_IMAGE:
    case VW__LAYERS_FLOW_VOLUME:
        return &vw__plan_family_image_layers;
    case VW__LAYERS_FLOW_FEATURES:
        return &vw__plan_family_feature_layers;
    case VW__LAYERS_FLOW_SIGNAL:
    case VW__LAYERS_FLOW_IDS:
    case VW__LAYERS_FLOW_TOKENS:
        break;
    }
    return &vw__plan_family_token_layers;
}

static vw_status read_head(const vw__config *config, vw_plan_model *model, vw__layers_shape *input)
{
    static const char *const fields[] = {"name", "input", "layers", "loss", "classes"};
    static const char *const losses[] = {"cross_entropy", "mse", "mean"};
    const char *name = NULL;
    size_t loss = VW__LAYERS_CROSS_ENTROPY;
    VW__TRY(vw__config_only(config, fields, sizeof fields / sizeof fields[0]));
    VW__TRY(vw__config_text_if(config, "name", &name));
    if (name != NULL)
        VW__TRY(copy_text(model, name, strlen(name), &model->name));
    VW__TRY(vw__config_choice_if(config, "loss", losses, sizeof losses / sizeof losses[0], &loss));
    model->layers_loss = (vw__layers_loss)loss;
    return read_input(config, input);
}

vw_status vw__layers_read(const vw__config *config, vw_plan_model *model)
{
    layers_reader reader = {.model = model};
    vw__layers_shape *input =
        vw__arena_alloc_array(&model->arena, 1, sizeof *input, sizeof(uint64_t));
    uint64_t unfolded = 0;
    if (input == NULL)
        return vw__fail_host_memory(sizeof *input, "a description");
    VW__TRY(read_head(config, model, input));
    VW__TRY(read_list(&reader, config, "layers", &model->lines, &model->line_count, &unfolded));
    vw__layers_shape shape = *input;
    VW__TRY(vw__layers_infer(model->lines, model->line_count, &shape));
    VW__TRY(check_output(config, &shape));
    note_attention(model->lines, model->line_count, model);
    if (model->shape.hidden == 0)
        model->shape.hidden = input->width;
    model->layers_input = input;
    model->family = family_of(input->flow);
    return VW_OK;
}
