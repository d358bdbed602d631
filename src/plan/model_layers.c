/* model_layers.c - runs a model that is described by its layers, as torch.nn.Sequential would.
 *
 * Each layer's result replaces its input, which a residual holds until the sum. Checkpoints run the
 * rounds of the outermost `repeat`s again. */
#include "plan/layers.h"

#include "base/error.h"
#include "plan/layers_attention.h"
#include "plan/plan_run.h"

/* Four neighbours side by side, a norm, and a product that halves them. */
typedef struct merging {
    vw__module_norm norm;
    vw__module_linear reduction;
} merging;

typedef struct layer_module layer_module;

/* Layers one after the other. */
typedef struct layer_row {
    layer_module *modules;
    size_t count;
} layer_row;

/* A line with the parameters of its kind. */
struct layer_module {
    const vw__layers_line *line;
    vw__layers_shape in, out;
    union {
        vw__layers_attention *attention;
        vw__module_linear linear;
        vw__module_conv conv;
        vw__module_batch_norm batch_norm;
        vw__module_norm norm;
        vw__module_rnn rnn;
        merging *merging;
        vw__tensor table;
        layer_row *rounds; /* of a repeat: line->count; of what is combined: layers, shortcut */
    };
};

enum { MOST_HELD = 16 };

/* A row of layers, from what comes in. */
typedef struct tower {
    layer_row row;
    vw__layers_shape input;
} tower;

typedef struct layers_modules {
    tower first, second;        /* the second of a model that has two */
    vw__tensor scale;           /* of what they are compared by */
    vw__tensor held[MOST_HELD]; /* by variables of functions that run now */
    size_t held_count;
} layers_modules;

enum { INSIDE, SHORTCUT, COMBINED_ROWS };

/* ---- making it ------------------------------------------------------------------------------- */

static layer_row build_row(vw__plan_run *run, const vw__layers_line *lines, size_t count,
                           vw__layers_shape *shape);

static void build_norm(vw__plan_run *run, layer_module *module)
{
    vw__module_norm_kind kind =
        module->line->has_bias ? VW__MODULE_NORM_LAYER : VW__MODULE_NORM_LAYER_UNBIASED;
    if (module->line->kind == VW__LAYERS_RMS_NORM)
        kind = VW__MODULE_NORM_RMS;
    module->norm = vw__module_make_norm(run, "norm", module->in.width, kind);
}

static void build_merging(vw__plan_run *run, layer_module *module)
{
    const uint64_t width = module->in.width;
    module->merging = vw__module_alloc(run, 1, sizeof *module->merging);
    module->merging->reduction = vw__module_make_linear(run, "reduction", 4 * width, 2 * width,
                                                        false, VW__MODULE_LINEAR_PLAIN);
    module->merging->norm = vw__module_make_norm(run, "norm", 4 * width, VW__MODULE_NORM_LAYER);
}

static void build_rounds(vw__plan_run *run, layer_module *module)
{
    const vw__layers_line *line = module->line;
    vw__layers_shape shape = module->in;
    module->rounds = vw__module_alloc(run, line->count, sizeof *module->rounds);
    for (uint64_t i = 0; i < line->count && vw__tape_status(run->tape) == VW_OK; i++)
        module->rounds[i] = build_row(run, line->lines, line->line_count, &shape);
}

/* Each round reads a wider input. */
static void build_dense(vw__plan_run *run, layer_module *module)
{
    const vw__layers_line *line = module->line;
    vw__layers_shape in = module->in;
    module->rounds = vw__module_alloc(run, line->count, sizeof *module->rounds);
    for (uint64_t i = 0; i < line->count && vw__tape_status(run->tape) == VW_OK; i++) {
        vw__layers_shape made = in;
        module->rounds[i] = build_row(run, line->lines, line->line_count, &made);
        in.width += made.width;
    }
}

static void build_combined(vw__plan_run *run, layer_module *module)
{
    const vw__layers_line *line = module->line;
    vw__layers_shape shape = module->in, beside = module->in;
    module->rounds = vw__module_alloc(run, COMBINED_ROWS, sizeof *module->rounds);
    module->rounds[INSIDE] = build_row(run, line->lines, line->line_count, &shape);
    module->rounds[SHORTCUT] = build_row(run, line->shortcut, line->shortcut_count, &beside);
}

static void build_rnn(vw__plan_run *run, layer_module *module)
{
    const vw__layers_line *line = module->line;
    const vw__op_rnn_kind kind = line->kind == VW__LAYERS_LSTM  ? VW__OP_RNN_LSTM
                                 : line->kind == VW__LAYERS_GRU ? VW__OP_RNN_GRU
                                                                : VW__OP_RNN_PLAIN;
    const vw__op_rnn_shape shape = {.kind = kind,
                                    .batch = run->settings->batch,
                                    .length = module->in.length,
                                    .in = module->in.width,
                                    .hidden = line->out,
                                    .layers = line->count,
                                    .directions = line->is_bidirectional ? 2 : 1,
                                    .has_dropout = line->has_dropout};
    module->rnn = vw__module_make_rnn(run, line->name, &shape, line->has_bias);
}

static void build_module(vw__plan_run *run, layer_module *module)
{
    const vw__layers_line *line = module->line;
    switch (line->kind) {
    case VW__LAYERS_ATTENTION:
    case VW__LAYERS_ATTENTION_POOL:
    case VW__LAYERS_WINDOW_ATTENTION:
        module->attention = vw__layers_make_attention(run, line, &module->in);
        break;
    case VW__LAYERS_CLASS_TOKEN: /* `rows` more are there, and read by nobody */
        module->table = vw__module_make_table(run, line->count + line->rows, module->in.width);
        break;
    case VW__LAYERS_SCALE:
        module->table = vw__module_make_weight(run, module->in.width);
        break;
    case VW__LAYERS_PATCH_MERGING:
        build_merging(run, module);
        break;
    case VW__LAYERS_BATCH_NORM:
        module->batch_norm = vw__module_make_batch_norm(run, "norm", module->in.width);
        break;
    case VW__LAYERS_CONV1D:
    case VW__LAYERS_CONV2D:
    case VW__LAYERS_CONV3D:
    case VW__LAYERS_CONV_TRANSPOSE1D:
    case VW__LAYERS_CONV_TRANSPOSE2D:
    case VW__LAYERS_CONV_TRANSPOSE3D:
        module->conv = vw__module_make_conv(run, "conv", module->in.width, line->out, line->window,
                                            line->groups, line->has_bias);
        break;
    case VW__LAYERS_EMBEDDING:
    case VW__LAYERS_POSITIONS:
        module->table = vw__module_make_table(run, line->rows, module->out.width);
        break;
    case VW__LAYERS_GROUP_NORM:
    case VW__LAYERS_LAYER_NORM:
    case VW__LAYERS_RMS_NORM:
        build_norm(run, module);
        break;
    case VW__LAYERS_LINEAR:
        module->linear = vw__module_make_linear(run, "linear", module->in.width, line->out,
                                                line->has_bias, VW__MODULE_LINEAR_PLAIN);
        break;
    case VW__LAYERS_GRU:
    case VW__LAYERS_LSTM:
    case VW__LAYERS_RNN:
        build_rnn(run, module);
        break;
    case VW__LAYERS_DENSE:
        build_dense(run, module);
        break;
    case VW__LAYERS_REPEAT:
        build_rounds(run, module);
        break;
    case VW__LAYERS_CONCAT:
    case VW__LAYERS_MULTIPLY:
    case VW__LAYERS_RESIDUAL:
        build_combined(run, module);
        break;
    default: /* no parameters */
        break;
    }
}

/* The shapes were checked when the description was read; only the tape can fail. */
static layer_row build_row(vw__plan_run *run, const vw__layers_line *lines, size_t count,
                           vw__layers_shape *shape)
{
    layer_row row = {.modules = NULL};
    if (count == 0)
        return row;
    row.modules = vw__module_alloc(run, count, sizeof *row.modules);
    for (size_t i = 0; i < count && vw__tape_status(run->tape) == VW_OK; i++) {
        layer_module *module = &row.modules[i];
        module->line = &lines[i];
        module->in = *shape;
        vw_status status = vw__layers_infer_line(&lines[i], shape);
        if (status != VW_OK)
            vw__tape_fail(run->tape, status);
        module->out = *shape;
        if (status == VW_OK)
            build_module(run, module);
        row.count = i + 1;
    }
    return row;
}

/* The description's own size, or that of the settings. */
static vw__layers_shape input_shape(const vw__plan_run *run, const vw__layers_shape *usual)
{
    vw__layers_shape shape = *usual;
    if (run->model->family->has_images && run->settings->image != shape.height)
        shape.height = shape.across = run->settings->image;
    if (shape.flow == VW__LAYERS_FLOW_SIGNAL)
        shape.across = run->settings->sequence;
    if (shape.flow == VW__LAYERS_FLOW_IDS || shape.flow == VW__LAYERS_FLOW_TOKENS)
        shape.length = run->settings->sequence;
    return shape;
}

static bool has_blocks(const vw_plan_model *model)
{
    for (size_t i = 0; i < model->line_count; i++)
        if (model->lines[i].kind == VW__LAYERS_REPEAT)
            return true;
    return false;
}

static void build_tower(vw__plan_run *run, tower *made, const vw__layers_shape *input,
                        const vw__layers_line *lines, size_t count)
{
    made->input = input_shape(run, input);
    vw__layers_shape shape = made->input;
    made->row = build_row(run, lines, count, &shape);
}

static void build(vw__plan_run *run)
{
    const vw_plan_model *model = run->model;
    const bool has_head = vw__plan_head_of(model, run->settings) != VW_PLAN_HEAD_NONE;
    layers_modules *modules = vw__module_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    build_tower(run, &modules->first, model->layers_input, model->lines,
                model->line_count - (has_head ? 0 : model->head_line_count));
    if (model->second_lines == NULL)
        return;
    build_tower(run, &modules->second, model->second_input, model->second_lines,
                model->second_line_count);
    modules->scale = vw__module_make_weight(run, model->contrast_parameters);
}

/* ---- running it ------------------------------------------------------------------------------ */

static vw__tensor run_row(vw__plan_run *run, const layer_row *row, vw__tensor x, bool is_outermost);

/* The table as it is, or stretched to the size of the image. */
static vw__tensor add_table(vw__plan_run *run, const layer_module *module, vw__tensor x)
{
    const uint64_t wanted = vw__tape_times(run->tape, module->in.length, module->in.width);
    if (module->table.elements == wanted)
        return vw__op_add(run->tape, x, module->table);
    vw__tensor table = vw__op_mean(run->tape, module->table, wanted);
    vw__tensor made = vw__op_add(run->tape, x, table);
    vw__tensor_drop(run->tape, &table);
    return made;
}

/* Put before the others, for each sample. */
static vw__tensor add_class_token(vw__plan_run *run, const layer_module *module, vw__tensor x)
{
    vw__tensor first = vw__op_view(run->tape, module->table);
    first.elements = run->settings->batch * module->line->count * module->in.width; /* expanded */
    vw__tensor made = vw__op_cat(run->tape, (vw__tensor[]){first, x}, 2);
    vw__tensor_drop(run->tape, &first);
    return made;
}

static vw__tensor merge_patches(vw__plan_run *run, const layer_module *module, vw__tensor x)
{
    vw__tape *tape = run->tape;
    const uint64_t elements = 2 * vw__layers_elements(tape, &module->out, run->settings->batch);
    vw__tensor made = vw__op_interleave(tape, x, 4, elements);
    vw__tensor_rebind(tape, &made, vw__module_apply_norm(run, made, &module->merging->norm));
    vw__tensor_rebind(tape, &made, vw__module_apply_linear(run, made, &module->merging->reduction));
    return made;
}

/* silu(x1) * x2 of the halves. */
static vw__tensor gate_halves(vw__plan_run *run, vw__tensor x)
{
    vw__tensor halves[2];
    vw__op_split(run->tape, x, 2, halves);
    vw__tensor_rebind(run->tape, &halves[0], vw__op_silu(run->tape, halves[0]));
    vw__tensor made = vw__op_mul(run->tape, halves[0], halves[1]);
    vw__tensor_drop(run->tape, &halves[0]);
    vw__tensor_drop(run->tape, &halves[1]);
    return made;
}

static vw__tensor add_positions(vw__plan_run *run, const layer_module *module, vw__tensor x)
{
    if (module->line->is_direct)
        return add_table(run, module, x);
    vw__tensor numbers = vw__module_make_ids(run, 1, module->in.length);
    vw__tensor rows = vw__op_embedding(run->tape, numbers, module->table, module->in.width);
    vw__tensor made = vw__op_add(run->tape, x, rows);
    vw__tensor_drop(run->tape, &rows);
    vw__tensor_drop(run->tape, &numbers);
    return made;
}

/* cat(), which casts what is of another type than the rest; `cast` has room for as many. */
static vw__tensor put_together(vw__plan_run *run, const vw__tensor *parts, size_t count,
                               vw__tensor *cast)
{
    vw__dtype dtype = parts[0].dtype;
    for (size_t i = 1; i < count; i++)
        if (parts[i].dtype != dtype)
            dtype = VW__DTYPE_FLOAT32;
    for (size_t i = 0; i < count; i++)
        cast[i] = vw__op_to(run->tape, parts[i], dtype);
    vw__tensor made = vw__op_cat(run->tape, cast, count);
    for (size_t i = 0; i < count; i++)
        vw__tensor_drop(run->tape, &cast[i]);
    return made;
}

static vw__tensor combine(vw__plan_run *run, const vw__layers_line *line, vw__tensor out,
                          vw__tensor beside)
{
    vw__tensor cast[2];
    if (line->kind == VW__LAYERS_CONCAT)
        return put_together(run, (vw__tensor[]){out, beside}, 2, cast);
    if (line->kind == VW__LAYERS_RESIDUAL)
        return vw__op_add(run->tape, out, beside);
    return out.elements < beside.elements ? vw__op_mul(run->tape, beside, out)
                                          : vw__op_mul(run->tape, out, beside);
}

static vw__tensor run_combined(vw__plan_run *run, const layer_module *module, vw__tensor x)
{
    vw__tape *tape = run->tape;
    vw__tensor out = run_row(run, &module->rounds[INSIDE], x, false);
    vw__tensor beside = run_row(run, &module->rounds[SHORTCUT], x, false);
    if (module->line->is_in_place && out.dtype == beside.dtype)
        vw__op_add_in_place(tape, &out, beside);
    else
        vw__tensor_rebind(tape, &out, combine(run, module->line, out, beside));
    vw__tensor_drop(tape, &beside);
    return out;
}

/* A list of all that was made; each round puts it together for itself, and so does the end. */
static vw__tensor run_dense(vw__plan_run *run, const layer_module *module, vw__tensor x)
{
    vw__tape *tape = run->tape;
    const size_t count = (size_t)module->line->count; /* within limits */
    vw__tensor *features = vw__module_alloc(run, count + 1, sizeof *features);
    vw__tensor *cast = vw__module_alloc(run, count + 1, sizeof *cast);
    size_t made = 0;
    if (vw__tape_status(tape) != VW_OK)
        return vw__tensor_none();
    features[made++] = vw__tensor_hold(tape, x);
    for (size_t i = 0; i < count && vw__tape_status(tape) == VW_OK; i++) {
        vw__tape_enter(tape, "round", (int64_t)i);
        vw__tensor all = put_together(run, features, made, cast);
        features[made++] = run_row(run, &module->rounds[i], all, false);
        vw__tensor_drop(tape, &all);
        vw__tape_leave(tape);
    }
    vw__tensor all = put_together(run, features, made, cast);
    for (size_t i = 0; i < made; i++)
        vw__tensor_drop(tape, &features[i]);
    return all;
}

/* A function ends. */
static void drop_held(vw__plan_run *run, size_t count)
{
    layers_modules *modules = run->modules;
    while (modules->held_count > count)
        vw__tensor_drop(run->tape, &modules->held[--modules->held_count]);
}

static vw__tensor run_round(vw__plan_run *run, const void *round, vw__tensor x)
{
    const layers_modules *modules = run->modules;
    const size_t held_before = modules->held_count;
    vw__tensor made = run_row(run, round, x, false);
    drop_held(run, held_before);
    return made;
}

static vw__tensor run_repeat(vw__plan_run *run, const layer_module *module, vw__tensor x,
                             bool is_outermost)
{
    vw__tensor made = vw__tensor_hold(run->tape, x);
    size_t count = module->line->count;
    if (is_outermost)
        return vw__module_run_blocks(run, run_round, module->rounds, sizeof *module->rounds, count,
                                     made);
    for (size_t i = 0; i < count && vw__tape_status(run->tape) == VW_OK; i++) {
        vw__tape_enter(run->tape, "round", (int64_t)i);
        vw__tensor_rebind(run->tape, &made, run_round(run, &module->rounds[i], made));
        vw__tape_leave(run->tape);
    }
    return made;
}

static vw__tensor run_norm(vw__plan_run *run, const layer_module *module, vw__tensor x)
{
    if (module->line->kind != VW__LAYERS_GROUP_NORM)
        return vw__module_apply_norm(run, x, &module->norm);
    uint64_t rows = vw__tape_times(run->tape, run->settings->batch, module->line->groups);
    return vw__op_layer_norm(run->tape, x, module->norm.weight, module->norm.bias, rows);
}

/* ReLU, tanh and sigmoid save their result, the others their argument. */
static vw__tensor activate(vw__plan_run *run, const layer_module *module, vw__tensor x)
{
    const vw__layers_kind kind = module->line->kind;
    const bool saves_result =
        kind == VW__LAYERS_RELU || kind == VW__LAYERS_TANH || kind == VW__LAYERS_SIGMOID;
    if (!module->line->is_in_place)
        return saves_result ? vw__op_relu(run->tape, x) : vw__op_silu(run->tape, x);
    vw__tensor made = vw__tensor_hold(run->tape, x);
    if (saves_result)
        vw__op_relu_in_place(run->tape, &made);
    else
        vw__op_silu_in_place(run->tape, &made);
    return made;
}

static vw__tensor run_conv(vw__plan_run *run, const layer_module *module, vw__tensor x)
{
    vw__op_image_shape shape = {run->settings->batch, module->in.width, module->in.height,
                                module->in.across, module->in.depth};
    vw__module_conv conv = module->conv;
    conv.is_channels_last = module->in.is_channels_last;
    return vw__module_apply_conv(run, x, &conv, &shape);
}

/* Layers without parameters. */
static vw__tensor run_plain(vw__plan_run *run, const layer_module *module, vw__tensor x)
{
    vw__tape *tape = run->tape;
    uint64_t elements = vw__layers_elements(tape, &module->out, run->settings->batch);
    switch (module->line->kind) {
    case VW__LAYERS_ADAPTIVE_POOL: /* to one place it is a mean */
        return module->line->rows == 1 ? vw__op_mean(tape, x, elements)
                                       : vw__op_avg_pool(tape, x, elements);
    case VW__LAYERS_AVG_POOL:
        return vw__op_avg_pool(tape, x, elements);
    case VW__LAYERS_DROP_PATH:
        return run->is_training && module->line->has_dropout
                   ? vw__op_drop_path(tape, x, run->settings->batch)
                   : vw__tensor_hold(tape, x);
    case VW__LAYERS_DROPOUT:
        return vw__module_apply_dropout(run, x, module->line->has_dropout);
    case VW__LAYERS_FIRST_TOKEN:
    case VW__LAYERS_SKIP_TOKENS:
        return vw__op_slice(tape, x, elements);
    case VW__LAYERS_GELU_NEW:
        return vw__op_gelu_new(tape, x);
    case VW__LAYERS_QUICK_GELU:
        return vw__op_quick_gelu(tape, x);
    case VW__LAYERS_SWIGLU:
        return gate_halves(run, x);
    case VW__LAYERS_GELU:
    case VW__LAYERS_HARDSIGMOID:
    case VW__LAYERS_HARDSWISH:
    case VW__LAYERS_RELU:
    case VW__LAYERS_RELU6:
    case VW__LAYERS_SIGMOID:
    case VW__LAYERS_SILU:
    case VW__LAYERS_TANH:
        return activate(run, module, x);
    case VW__LAYERS_MAX_POOL:
        return vw__op_max_pool(tape, x, elements);
    case VW__LAYERS_MEAN_POOL:
        return vw__op_mean(tape, x, elements);
    case VW__LAYERS_TOKENS: /* a transpose, which the next layer copies */
        return module->in.is_channels_last || module->line->is_direct ? vw__op_view(tape, x)
                                                                      : vw__op_contiguous(tape, x);
    case VW__LAYERS_UPSAMPLE: /* saves nothing, as a mean */
        return vw__op_mean(tape, x, elements);
    default: /* flatten, image: a view */
        return vw__op_view(tape, x);
    }
}

static vw__tensor run_module(vw__plan_run *run, const layer_module *module, vw__tensor x,
                             bool is_outermost)
{
    switch (module->line->kind) {
    case VW__LAYERS_ATTENTION:
    case VW__LAYERS_ATTENTION_POOL:
    case VW__LAYERS_WINDOW_ATTENTION:
        return vw__layers_apply_attention(run, module->line, &module->in, module->attention, x);
    case VW__LAYERS_CLASS_TOKEN:
        return add_class_token(run, module, x);
    case VW__LAYERS_PATCH_MERGING:
        return merge_patches(run, module, x);
    case VW__LAYERS_SCALE:
        return vw__op_mul_rows(run->tape, x, module->table);
    case VW__LAYERS_BATCH_NORM:
        return vw__module_apply_batch_norm(run, x, &module->batch_norm);
    case VW__LAYERS_CONV1D:
    case VW__LAYERS_CONV2D:
    case VW__LAYERS_CONV3D:
    case VW__LAYERS_CONV_TRANSPOSE1D:
    case VW__LAYERS_CONV_TRANSPOSE2D:
    case VW__LAYERS_CONV_TRANSPOSE3D:
        return run_conv(run, module, x);
    case VW__LAYERS_GRU:
    case VW__LAYERS_LSTM:
    case VW__LAYERS_RNN:
        return vw__module_apply_rnn(run, x, &module->rnn);
    case VW__LAYERS_DENSE:
        return run_dense(run, module, x);
    case VW__LAYERS_EMBEDDING:
        return vw__op_embedding(run->tape, x, module->table, module->out.width);
    case VW__LAYERS_GROUP_NORM:
    case VW__LAYERS_LAYER_NORM:
    case VW__LAYERS_RMS_NORM:
        return run_norm(run, module, x);
    case VW__LAYERS_LINEAR:
        return vw__module_apply_linear(run, x, &module->linear);
    case VW__LAYERS_POSITIONS:
        return add_positions(run, module, x);
    case VW__LAYERS_REPEAT:
        return run_repeat(run, module, x, is_outermost);
    case VW__LAYERS_CONCAT:
    case VW__LAYERS_MULTIPLY:
    case VW__LAYERS_RESIDUAL:
        return run_combined(run, module, x);
    default:
        return run_plain(run, module, x);
    }
}

/* input = module(input) for each; borrows `x`. */
static vw__tensor run_row(vw__plan_run *run, const layer_row *row, vw__tensor x, bool is_outermost)
{
    layers_modules *modules = run->modules;
    vw__tensor made = vw__tensor_hold(run->tape, x);
    for (size_t i = 0; i < row->count && vw__tape_status(run->tape) == VW_OK; i++) {
        const vw__layers_line *line = row->modules[i].line;
        vw__tape_enter(run->tape, line->name, line->number);
        vw__tensor_rebind(run->tape, &made, run_module(run, &row->modules[i], made, is_outermost));
        vw__tape_leave(run->tape);
        if (line->is_held && modules->held_count < MOST_HELD)
            modules->held[modules->held_count++] = vw__tensor_hold(run->tape, made);
    }
    return made;
}

/* ---- the two ends ---------------------------------------------------------------------------- */

static vw__tensor make_input(vw__plan_run *run, const vw__layers_shape *shape)
{
    vw__tape_use before = vw__tape_set_use(run->tape, VW__TAPE_USE_DATA);
    uint64_t elements = vw__layers_elements(run->tape, shape, run->settings->batch);
    vw__tensor made = vw__tensor_new(
        run->tape, elements, shape->flow == VW__LAYERS_FLOW_IDS ? VW__DTYPE_INT64 : run->dtype);
    vw__tape_set_use(run->tape, before);
    return made;
}

/* What has a class each. */
static uint64_t rows_of(const vw__plan_run *run, const vw__layers_shape *shape)
{
    vw__layers_shape row = *shape;
    row.width = 1;
    return vw__layers_elements(run->tape, &row, run->settings->batch);
}

static vw__tensor make_loss(vw__plan_run *run, const vw__layers_shape *shape, vw__tensor x)
{
    vw__tape *tape = run->tape;
    if (run->model->layers_loss == VW__LAYERS_MEAN)
        return vw__op_mean(tape, x, 1);
    if (run->model->layers_loss == VW__LAYERS_MSE) {
        vw__tensor wanted = vw__tensor_new(tape, x.elements, run->dtype);
        vw__tensor loss = vw__op_mse_loss(tape, x, wanted);
        vw__tensor_drop(tape, &wanted);
        return loss;
    }
    vw__tensor labels = vw__tensor_new(tape, rows_of(run, shape), VW__DTYPE_INT64);
    vw__tensor loss = vw__op_cross_entropy(tape, x, labels);
    vw__tensor_drop(tape, &labels);
    return loss;
}

/* Every sample of one with every sample of the other, and a loss over each. */
static vw__tensor compare(vw__plan_run *run, vw__tensor x, vw__tensor y)
{
    vw__tape *tape = run->tape;
    const layers_modules *modules = run->modules;
    const uint64_t batch = run->settings->batch;
    vw__tensor logits = vw__op_matmul(tape, y, x, vw__tape_times(tape, batch, batch));
    vw__tensor_rebind(tape, &logits, vw__op_mul(tape, logits, modules->scale));
    if (run->has_loss) {
        vw__tensor labels = vw__tensor_new(tape, batch, VW__DTYPE_INT64);
        vw__tensor_rebind(tape, &logits, vw__op_cross_entropy(tape, logits, labels));
        vw__tensor_drop(tape, &labels);
    }
    return logits;
}

static vw__tensor forward_both(vw__plan_run *run)
{
    const layers_modules *modules = run->modules;
    vw__tape *tape = run->tape;
    vw__tensor images = make_input(run, &modules->first.input);
    vw__tensor ids = make_input(run, &modules->second.input);
    vw__tensor x = run_row(run, &modules->first.row, images, true);
    drop_held(run, 0);
    vw__tensor y = run_row(run, &modules->second.row, ids, true);
    drop_held(run, 0);
    vw__tensor loss = vw__tape_status(tape) == VW_OK ? compare(run, x, y) : vw__tensor_none();
    vw__tensor_drop(tape, &y);
    vw__tensor_drop(tape, &x);
    vw__tensor_drop(tape, &ids);
    vw__tensor_drop(tape, &images);
    return loss;
}

static vw__tensor forward(vw__plan_run *run)
{
    const layers_modules *modules = run->modules;
    vw__tape *tape = run->tape;
    if (run->model->second_lines != NULL)
        return forward_both(run);
    const layer_row *row = &modules->first.row;
    vw__tensor input = make_input(run, &modules->first.input);
    vw__tensor x = run_row(run, row, input, true);
    drop_held(run, 0);
    if (vw__tape_status(tape) != VW_OK)
        return vw__tensor_none();
    if (!run->has_loss) {
        vw__tensor_drop(tape, &input);
        return x;
    }
    vw__tape_use before = vw__tape_set_use(tape, VW__TAPE_USE_LOSS);
    vw__tape_enter(tape, "loss", -1);
    vw__tensor loss = make_loss(run, &row->modules[row->count - 1].out, x);
    vw__tape_leave(tape);
    vw__tape_set_use(tape, before);
    vw__tensor_drop(tape, &x);
    vw__tensor_drop(tape, &input);
    return loss;
}

static uint64_t usual_length(const vw_plan_model *model)
{
    const vw__layers_shape *input =
        model->second_lines != NULL ? model->second_input : model->layers_input;
    if (input->flow == VW__LAYERS_FLOW_FEATURES)
        return 1;
    if (input->flow == VW__LAYERS_FLOW_SIGNAL)
        return input->across;
    return vw__layers_has_sides(input->flow) ? input->height : input->length;
}

#define LAYERS_FAMILY_OF(title)                                                                    \
    .name = title, .keeps_logits_type = true, .usual_length = usual_length, .build = build,        \
    .forward = forward, .has_blocks = has_blocks
#define LAYERS_FAMILY LAYERS_FAMILY_OF("layers")
#define VISION_FAMILY(title) LAYERS_FAMILY_OF(title), .has_images = true /* vision.c */

const vw__plan_family vw__plan_family_image_layers = {LAYERS_FAMILY, .has_images = true};
const vw__plan_family vw__plan_family_token_layers = {LAYERS_FAMILY};

#define IMAGE_FAMILY(title)                                                                        \
    VISION_FAMILY(title), .heads = {VW_PLAN_HEAD_IMAGE_CLASSIFICATION, VW_PLAN_HEAD_NONE}
#define PAIR_FAMILY(title) LAYERS_FAMILY_OF(title), .has_position_table = true

const vw__plan_family vw__plan_family_convnext = {IMAGE_FAMILY("convnext")};
const vw__plan_family vw__plan_family_deit = {IMAGE_FAMILY("deit")};
const vw__plan_family vw__plan_family_dinov2 = {IMAGE_FAMILY("dinov2")};
const vw__plan_family vw__plan_family_swin = {IMAGE_FAMILY("swin")};
const vw__plan_family vw__plan_family_clip = {PAIR_FAMILY("clip")};
const vw__plan_family vw__plan_family_siglip = {PAIR_FAMILY("siglip")};

const vw__plan_family vw__plan_family_efficientnet = {VISION_FAMILY("efficientnet")};
const vw__plan_family vw__plan_family_mobilenet = {VISION_FAMILY("mobilenet")};
const vw__plan_family vw__plan_family_vgg = {VISION_FAMILY("vgg")};
const vw__plan_family vw__plan_family_densenet = {VISION_FAMILY("densenet")};

/* A row has no length: one "token", and no more. */
const vw__plan_family vw__plan_family_feature_layers = {LAYERS_FAMILY, .has_position_table = true};
