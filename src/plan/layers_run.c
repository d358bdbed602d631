/* layers_run.c - one forward pass through rows of layers, as torch.nn.Sequential would run them.
 *
 * Each layer's result replaces its input, which a residual holds until the sum. */
#include "plan/layers_parts.h"

/* The table as it is, or stretched to the size of the image. */
static vw__tensor add_table(vw__plan_run *run, const vw__layers_module *module, vw__tensor x)
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
static vw__tensor add_class_token(vw__plan_run *run, const vw__layers_module *module, vw__tensor x)
{
    vw__tensor first = vw__op_view(run->tape, module->table);
    first.elements = run->settings->batch * module->line->count * module->in.width; /* expanded */
    vw__tensor made = vw__op_cat(run->tape, (vw__tensor[]){first, x}, 2);
    vw__tensor_drop(run->tape, &first);
    return made;
}

static vw__tensor merge_patches(vw__plan_run *run, const vw__layers_module *module, vw__tensor x)
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

static vw__tensor add_positions(vw__plan_run *run, const vw__layers_module *module, vw__tensor x)
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

static vw__tensor run_combined(vw__plan_run *run, const vw__layers_module *module, vw__tensor x)
{
    vw__tape *tape = run->tape;
    vw__tensor out = vw__layers_run_row(run, &module->rounds[VW__LAYERS_INSIDE], x, false);
    vw__tensor beside = vw__layers_run_row(run, &module->rounds[VW__LAYERS_SHORTCUT], x, false);
    if (module->line->is_in_place && out.dtype == beside.dtype)
        vw__op_add_in_place(tape, &out, beside);
    else
        vw__tensor_rebind(tape, &out, combine(run, module->line, out, beside));
    vw__tensor_drop(tape, &beside);
    return out;
}

/* A list of all that was made; each round puts it together for itself, and so does the end. */
static vw__tensor run_dense(vw__plan_run *run, const vw__layers_module *module, vw__tensor x)
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
        features[made++] = vw__layers_run_row(run, &module->rounds[i], all, false);
        vw__tensor_drop(tape, &all);
        vw__tape_leave(tape);
    }
    vw__tensor all = put_together(run, features, made, cast);
    for (size_t i = 0; i < made; i++)
        vw__tensor_drop(tape, &features[i]);
    return all;
}

void vw__layers_drop_held(vw__plan_run *run, size_t count)
{
    vw__layers_modules *modules = run->modules;
    while (modules->held_count > count)
        vw__tensor_drop(run->tape, &modules->held[--modules->held_count]);
}

static vw__tensor run_round(vw__plan_run *run, const void *round, vw__tensor x)
{
    const vw__layers_modules *modules = run->modules;
    const size_t held_before = modules->held_count;
    vw__tensor made = vw__layers_run_row(run, round, x, false);
    vw__layers_drop_held(run, held_before);
    return made;
}

static vw__tensor run_repeat(vw__plan_run *run, const vw__layers_module *module, vw__tensor x,
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

static vw__tensor run_norm(vw__plan_run *run, const vw__layers_module *module, vw__tensor x)
{
    if (module->line->kind != VW__LAYERS_GROUP_NORM)
        return vw__module_apply_norm(run, x, &module->norm);
    uint64_t rows = vw__tape_times(run->tape, run->settings->batch, module->line->groups);
    return vw__op_layer_norm(run->tape, x, module->norm.weight, module->norm.bias, rows);
}

/* ReLU, tanh and sigmoid save their result, the others their argument. */
static vw__tensor activate(vw__plan_run *run, const vw__layers_module *module, vw__tensor x)
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

static vw__tensor run_conv(vw__plan_run *run, const vw__layers_module *module, vw__tensor x)
{
    vw__op_image_shape shape = {run->settings->batch, module->in.width, module->in.height,
                                module->in.across, module->in.depth};
    vw__module_conv conv = module->conv;
    conv.is_channels_last = module->in.is_channels_last;
    return vw__module_apply_conv(run, x, &conv, &shape);
}

/* Layers without parameters. */
static vw__tensor run_plain(vw__plan_run *run, const vw__layers_module *module, vw__tensor x)
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

static vw__tensor run_module(vw__plan_run *run, const vw__layers_module *module, vw__tensor x,
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

vw__tensor vw__layers_run_row(vw__plan_run *run, const vw__layers_row *row, vw__tensor x,
                              bool is_outermost)
{
    vw__layers_modules *modules = run->modules;
    vw__tensor made = vw__tensor_hold(run->tape, x);
    for (size_t i = 0; i < row->count && vw__tape_status(run->tape) == VW_OK; i++) {
        const vw__layers_line *line = row->modules[i].line;
        vw__tape_enter(run->tape, line->name, line->number);
        vw__tensor_rebind(run->tape, &made, run_module(run, &row->modules[i], made, is_outermost));
        vw__tape_leave(run->tape);
        if (line->is_held && modules->held_count < VW__LAYERS_MOST_HELD)
            modules->held[modules->held_count++] = vw__tensor_hold(run->tape, made);
    }
    return made;
}
