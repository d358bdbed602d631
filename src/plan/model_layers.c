/* model_layers.c - runs a model that was described by its layers, as torch.nn.Sequential would.
 *
 * Each layer's result takes the place of what came in, which a residual holds until it is added
 * again. The blocks that checkpoints run again are the rounds of the outermost `repeat`s. */
#include "plan/layers.h"

#include "base/error.h"
#include "plan/plan_run.h"

enum { QUERY, KEY, VALUE, OUTPUT, ATTENTION_PARTS };

typedef struct layer_module layer_module;

/* Layers one after the other. */
typedef struct layer_row {
    layer_module *modules;
    size_t count;
} layer_row;

/* A line with its parameters: those of its kind, the others NULL. */
struct layer_module {
    const hr__layer_line *line;
    hr__layer_shape in, out;
    hr__linear_module *linears; /* one, or ATTENTION_PARTS */
    hr__conv_module *conv;
    hr__batch_norm_module *batch_norm;
    hr__norm_module *norm;
    hr__tensor table;
    layer_row *rounds; /* of a repeat: line->count; of a residual: the layers, and the shortcut */
};

typedef struct layers_modules {
    layer_row row;
    hr__layer_shape input;
} layers_modules;

enum { INSIDE, SHORTCUT, RESIDUAL_ROWS };

/* ---- making it ------------------------------------------------------------------------------- */

static layer_row build_row(hr__plan_run *run, const hr__layer_line *lines, size_t count,
                           hr__layer_shape *shape);

static void build_attention(hr__plan_run *run, layer_module *module)
{
    const hr__layer_line *line = module->line;
    uint64_t width = module->in.width, keys = width / line->heads * line->key_heads;
    hr__linear_module *parts = hr__run_alloc(run, ATTENTION_PARTS, sizeof *parts);
    module->linears = parts;
    if (line->is_packed) {
        parts[QUERY] =
            hr__make_linear(run, "qkv", width, 3 * width, line->has_bias, HR__LINEAR_ADAPTED);
    } else {
        parts[QUERY] =
            hr__make_linear(run, "query", width, width, line->has_bias, HR__LINEAR_ADAPTED);
        parts[KEY] = hr__make_linear(run, "key", width, keys, line->has_bias, HR__LINEAR_PLAIN);
        parts[VALUE] =
            hr__make_linear(run, "value", width, keys, line->has_bias, HR__LINEAR_ADAPTED);
    }
    parts[OUTPUT] = hr__make_linear(run, "output", width, width, line->has_bias, HR__LINEAR_PLAIN);
}

static void build_norm(hr__plan_run *run, layer_module *module)
{
    bool has_bias = module->line->has_bias && module->line->kind != HR__LAYER_RMS_NORM;
    module->norm = hr__run_alloc(run, 1, sizeof *module->norm);
    *module->norm = hr__make_norm(run, "norm", module->in.width, has_bias);
}

static void build_rounds(hr__plan_run *run, layer_module *module)
{
    const hr__layer_line *line = module->line;
    hr__layer_shape shape = module->in;
    module->rounds = hr__run_alloc(run, line->count, sizeof *module->rounds);
    for (uint64_t i = 0; i < line->count && hr__tape_status(run->tape) == HR_OK; i++)
        module->rounds[i] = build_row(run, line->lines, line->line_count, &shape);
}

static void build_residual(hr__plan_run *run, layer_module *module)
{
    const hr__layer_line *line = module->line;
    hr__layer_shape shape = module->in, beside = module->in;
    module->rounds = hr__run_alloc(run, RESIDUAL_ROWS, sizeof *module->rounds);
    module->rounds[INSIDE] = build_row(run, line->lines, line->line_count, &shape);
    module->rounds[SHORTCUT] = build_row(run, line->shortcut, line->shortcut_count, &beside);
}

static void build_module(hr__plan_run *run, layer_module *module)
{
    const hr__layer_line *line = module->line;
    switch (line->kind) {
    case HR__LAYER_ATTENTION:
        build_attention(run, module);
        break;
    case HR__LAYER_BATCH_NORM:
        module->batch_norm = hr__run_alloc(run, 1, sizeof *module->batch_norm);
        *module->batch_norm = hr__make_batch_norm(run, "norm", module->in.width);
        break;
    case HR__LAYER_CONV2D:
        module->conv = hr__run_alloc(run, 1, sizeof *module->conv);
        *module->conv = hr__make_conv2d(run, "conv", module->in.width, line->out, line->window,
                                        line->groups, line->has_bias);
        break;
    case HR__LAYER_EMBEDDING:
    case HR__LAYER_POSITIONS:
        module->table = hr__make_table(run, line->rows, module->out.width);
        break;
    case HR__LAYER_GROUP_NORM:
    case HR__LAYER_LAYER_NORM:
    case HR__LAYER_RMS_NORM:
        build_norm(run, module);
        break;
    case HR__LAYER_LINEAR:
        module->linears = hr__run_alloc(run, 1, sizeof *module->linears);
        *module->linears = hr__make_linear(run, "linear", module->in.width, line->out,
                                           line->has_bias, HR__LINEAR_PLAIN);
        break;
    case HR__LAYER_REPEAT:
        build_rounds(run, module);
        break;
    case HR__LAYER_RESIDUAL:
        build_residual(run, module);
        break;
    default: /* no parameters */
        break;
    }
}

/* The shapes have been checked: what is left to go wrong is the tape's. */
static layer_row build_row(hr__plan_run *run, const hr__layer_line *lines, size_t count,
                           hr__layer_shape *shape)
{
    layer_row row = {.modules = NULL};
    if (count == 0)
        return row;
    row.modules = hr__run_alloc(run, count, sizeof *row.modules);
    for (size_t i = 0; i < count && hr__tape_status(run->tape) == HR_OK; i++) {
        layer_module *module = &row.modules[i];
        module->line = &lines[i];
        module->in = *shape;
        hr_status status = hr__layer_infer(&lines[i], shape);
        if (status != HR_OK)
            hr__tape_fail(run->tape, status);
        module->out = *shape;
        if (status == HR_OK)
            build_module(run, module);
        row.count = i + 1;
    }
    return row;
}

/* The description's own size, unless the settings have another. */
static hr__layer_shape input_shape(const hr__plan_run *run)
{
    hr__layer_shape shape = *run->model->layers_input;
    if (shape.flow == HR__FLOW_IMAGE && run->settings->image != shape.height)
        shape.height = shape.across = run->settings->image;
    if (shape.flow == HR__FLOW_IDS || shape.flow == HR__FLOW_TOKENS)
        shape.length = run->settings->sequence;
    return shape;
}

static bool has_blocks(const hr_plan_model *model)
{
    for (size_t i = 0; i < model->line_count; i++)
        if (model->lines[i].kind == HR__LAYER_REPEAT)
            return true;
    return false;
}

static void build(hr__plan_run *run)
{
    const hr_plan_model *model = run->model;
    layers_modules *modules = hr__run_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    modules->input = input_shape(run);
    hr__layer_shape shape = modules->input;
    if (run->settings->checkpointing != HR_CHECKPOINTING_NONE && !has_blocks(model))
        hr__tape_fail(run->tape,
                      hr__fail(HR_ERR_INVALID_ARGUMENT,
                               "checkpointing: the description has no repeat among its outermost "
                               "layers, whose rounds would be computed again"));
    modules->row = build_row(run, model->lines, model->line_count, &shape);
}

/* ---- running it ------------------------------------------------------------------------------ */

static hr__tensor run_row(hr__plan_run *run, const layer_row *row, hr__tensor x, bool is_outermost);

static hr__tensor attend(hr__plan_run *run, const layer_module *module, hr__tensor x)
{
    const hr__layer_line *line = module->line;
    const hr__linear_module *linears = module->linears;
    const hr__attention_shape attention = {.batch = run->settings->batch,
                                           .heads = line->heads,
                                           .key_heads = line->key_heads,
                                           .length = module->in.length,
                                           .key_length = module->in.length,
                                           .width = module->in.width / line->heads,
                                           .has_dropout = run->is_training && line->has_dropout,
                                           .is_causal = line->is_causal};
    hr__tape *tape = run->tape;
    hr__tensor parts[3];
    parts[QUERY] = hr__apply_linear(run, x, &linears[QUERY]);
    if (line->is_packed) {
        hr__tensor packed = parts[QUERY];
        hr__split(tape, packed, 3, parts);
        hr__drop(tape, &packed);
    } else {
        parts[KEY] = hr__apply_linear(run, x, &linears[KEY]);
        parts[VALUE] = hr__apply_linear(run, x, &linears[VALUE]);
    }
    hr__tensor mask =
        line->is_causal ? hr__make_causal_mask(run, module->in.length) : hr__no_tensor();
    hr__tensor made =
        hr__apply_attention(run, parts[QUERY], parts[KEY], parts[VALUE], mask, &attention);
    hr__drop(tape, &mask);
    for (size_t i = 0; i < 3; i++)
        hr__drop(tape, &parts[i]);
    hr__rebind(tape, &made, hr__apply_linear(run, made, &linears[OUTPUT]));
    return made;
}

static hr__tensor add_positions(hr__plan_run *run, const layer_module *module, hr__tensor x)
{
    hr__tensor numbers = hr__make_ids(run, 1, module->in.length);
    hr__tensor rows = hr__embedding(run->tape, numbers, module->table, module->in.width);
    hr__tensor made = hr__add(run->tape, x, rows);
    hr__drop(run->tape, &rows);
    hr__drop(run->tape, &numbers);
    return made;
}

static hr__tensor run_residual(hr__plan_run *run, const layer_module *module, hr__tensor x)
{
    hr__tape *tape = run->tape;
    hr__tensor out = run_row(run, &module->rounds[INSIDE], x, false);
    hr__tensor identity = run_row(run, &module->rounds[SHORTCUT], x, false);
    if (module->line->is_in_place && out.dtype == identity.dtype)
        hr__add_in_place(tape, &out, identity);
    else
        hr__rebind(tape, &out, hr__add(tape, out, identity));
    hr__drop(tape, &identity);
    return out;
}

static hr__tensor run_round(hr__plan_run *run, const void *round, hr__tensor x)
{
    return run_row(run, round, x, false);
}

static hr__tensor run_repeat(hr__plan_run *run, const layer_module *module, hr__tensor x,
                             bool is_outermost)
{
    hr__tensor made = hr__hold(run->tape, x);
    size_t count = module->line->count;
    if (is_outermost)
        return hr__run_blocks(run, run_round, module->rounds, sizeof *module->rounds, count, made);
    for (size_t i = 0; i < count && hr__tape_status(run->tape) == HR_OK; i++) {
        hr__enter(run->tape, "round", (int64_t)i);
        hr__rebind(run->tape, &made, run_row(run, &module->rounds[i], made, false));
        hr__leave(run->tape);
    }
    return made;
}

static hr__tensor run_norm(hr__plan_run *run, const layer_module *module, hr__tensor x)
{
    if (module->line->kind == HR__LAYER_RMS_NORM)
        return hr__apply_rms_norm(run, x, module->norm);
    if (module->line->kind == HR__LAYER_LAYER_NORM)
        return hr__apply_layer_norm(run, x, module->norm);
    uint64_t rows = hr__times(run->tape, run->settings->batch, module->line->groups);
    return hr__layer_norm(run->tape, x, module->norm->weight, module->norm->bias, rows);
}

static hr__tensor rectify(hr__plan_run *run, const layer_module *module, hr__tensor x)
{
    if (!module->line->is_in_place)
        return hr__relu(run->tape, x);
    hr__tensor made = hr__hold(run->tape, x);
    hr__relu_in_place(run->tape, &made);
    return made;
}

static hr__tensor run_conv(hr__plan_run *run, const layer_module *module, hr__tensor x)
{
    hr__image_shape shape = {run->settings->batch, module->in.width, module->in.height,
                             module->in.across};
    return hr__apply_conv2d(run, x, module->conv, &shape);
}

/* Layers without parameters. */
static hr__tensor run_plain(hr__plan_run *run, const layer_module *module, hr__tensor x)
{
    hr__tape *tape = run->tape;
    uint64_t elements = hr__layer_elements(tape, &module->out, run->settings->batch);
    switch (module->line->kind) {
    case HR__LAYER_AVG_POOL:
        return hr__avg_pool(tape, x, elements);
    case HR__LAYER_DROPOUT:
        return hr__apply_dropout(run, x, module->line->has_dropout);
    case HR__LAYER_FIRST_TOKEN:
        return hr__slice(tape, x, elements);
    case HR__LAYER_GELU:
        return hr__gelu(tape, x);
    case HR__LAYER_MAX_POOL:
        return hr__max_pool(tape, x, elements);
    case HR__LAYER_MEAN_POOL:
        return hr__mean(tape, x, elements);
    case HR__LAYER_RELU:
        return rectify(run, module, x);
    case HR__LAYER_SILU:
        return hr__silu(tape, x);
    case HR__LAYER_SIGMOID:
    case HR__LAYER_TANH: /* both save their result */
        return hr__tanh(tape, x);
    case HR__LAYER_TOKENS: /* transposed, and copied by whoever comes next */
        return hr__contiguous(tape, x);
    default: /* flatten: a view */
        return hr__view(tape, x);
    }
}

static hr__tensor run_module(hr__plan_run *run, const layer_module *module, hr__tensor x,
                             bool is_outermost)
{
    switch (module->line->kind) {
    case HR__LAYER_ATTENTION:
        return attend(run, module, x);
    case HR__LAYER_BATCH_NORM:
        return hr__apply_batch_norm(run, x, module->batch_norm);
    case HR__LAYER_CONV2D:
        return run_conv(run, module, x);
    case HR__LAYER_EMBEDDING:
        return hr__embedding(run->tape, x, module->table, module->out.width);
    case HR__LAYER_GROUP_NORM:
    case HR__LAYER_LAYER_NORM:
    case HR__LAYER_RMS_NORM:
        return run_norm(run, module, x);
    case HR__LAYER_LINEAR:
        return hr__apply_linear(run, x, module->linears);
    case HR__LAYER_POSITIONS:
        return add_positions(run, module, x);
    case HR__LAYER_REPEAT:
        return run_repeat(run, module, x, is_outermost);
    case HR__LAYER_RESIDUAL:
        return run_residual(run, module, x);
    default:
        return run_plain(run, module, x);
    }
}

/* input = module(input); `x` itself stays its caller's. */
static hr__tensor run_row(hr__plan_run *run, const layer_row *row, hr__tensor x, bool is_outermost)
{
    hr__tensor made = hr__hold(run->tape, x);
    for (size_t i = 0; i < row->count && hr__tape_status(run->tape) == HR_OK; i++) {
        const hr__layer_line *line = row->modules[i].line;
        hr__enter(run->tape, line->name, line->number);
        hr__rebind(run->tape, &made, run_module(run, &row->modules[i], made, is_outermost));
        hr__leave(run->tape);
    }
    return made;
}

/* ---- the two ends ---------------------------------------------------------------------------- */

static hr__tensor make_input(hr__plan_run *run, const layers_modules *modules)
{
    hr__use before = hr__tape_set_use(run->tape, HR__USE_DATA);
    const hr__layer_shape *shape = &modules->input;
    uint64_t elements = hr__layer_elements(run->tape, shape, run->settings->batch);
    hr__tensor made =
        hr__tensor_new(run->tape, elements, shape->flow == HR__FLOW_IDS ? HR__INT64 : run->dtype);
    hr__tape_set_use(run->tape, before);
    return made;
}

static uint64_t rows_of(const hr__plan_run *run, const hr__layer_shape *shape)
{
    return shape->flow == HR__FLOW_TOKENS
               ? hr__times(run->tape, run->settings->batch, shape->length)
               : run->settings->batch;
}

static hr__tensor make_loss(hr__plan_run *run, const hr__layer_shape *shape, hr__tensor x)
{
    hr__tape *tape = run->tape;
    if (run->model->layers_loss == HR__LAYERS_MEAN)
        return hr__mean(tape, x, 1);
    if (run->model->layers_loss == HR__LAYERS_MSE) {
        hr__tensor wanted = hr__tensor_new(tape, x.elements, run->dtype);
        hr__tensor loss = hr__mse_loss(tape, x, wanted);
        hr__drop(tape, &wanted);
        return loss;
    }
    hr__tensor labels = hr__tensor_new(tape, rows_of(run, shape), HR__INT64);
    hr__tensor loss = hr__cross_entropy(tape, x, labels);
    hr__drop(tape, &labels);
    return loss;
}

static hr__tensor forward(hr__plan_run *run)
{
    const layers_modules *modules = run->modules;
    hr__tape *tape = run->tape;
    hr__tensor input = make_input(run, modules);
    hr__tensor x = run_row(run, &modules->row, input, true);
    if (hr__tape_status(tape) != HR_OK)
        return hr__no_tensor();
    hr__use before = hr__tape_set_use(tape, HR__USE_LOSS);
    hr__enter(tape, "loss", -1);
    hr__tensor loss = make_loss(run, &modules->row.modules[modules->row.count - 1].out, x);
    hr__leave(tape);
    hr__tape_set_use(tape, before);
    hr__drop(tape, &x);
    hr__drop(tape, &input);
    return loss;
}

static uint64_t usual_height(const hr_plan_model *model)
{
    return model->layers_input->height;
}

static uint64_t usual_tokens(const hr_plan_model *model)
{
    return model->layers_input->length;
}

static uint64_t one_row(const hr_plan_model *model)
{
    (void)model;
    return 1;
}

static const char *const no_types[] = {NULL};

const hr__family hr__family_image_layers = {
    .name = "layers",
    .model_types = no_types,
    .has_images = true,
    .keeps_logits_type = true,
    .usual_length = usual_height,
    .read = hr__read_layers,
    .build = build,
    .forward = forward,
};

const hr__family hr__family_token_layers = {
    .name = "layers",
    .model_types = no_types,
    .keeps_logits_type = true,
    .usual_length = usual_tokens,
    .read = hr__read_layers,
    .build = build,
    .forward = forward,
};

/* A row has no length: one "token", and no more. */
const hr__family hr__family_feature_layers = {
    .name = "layers",
    .model_types = no_types,
    .has_position_table = true,
    .keeps_logits_type = true,
    .usual_length = one_row,
    .read = hr__read_layers,
    .build = build,
    .forward = forward,
};
