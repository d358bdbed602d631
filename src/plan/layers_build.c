/* layers_build.c - the parameters of a description, in the order of its lines. */
#include "plan/layers_parts.h"

static void build_norm(vw__plan_run *run, vw__layers_module *module)
{
    vw__module_norm_kind kind =
        module->line->has_bias ? VW__MODULE_NORM_LAYER : VW__MODULE_NORM_LAYER_UNBIASED;
    if (module->line->kind == VW__LAYERS_RMS_NORM)
        kind = VW__MODULE_NORM_RMS;
    module->norm = vw__module_make_norm(run, "norm", module->in.width, kind);
}

static void build_merging(vw__plan_run *run, vw__layers_module *module)
{
    const uint64_t width = module->in.width;
    module->merging = vw__module_alloc(run, 1, sizeof *module->merging);
    module->merging->reduction = vw__module_make_linear(run, "reduction", 4 * width, 2 * width,
                                                        false, VW__MODULE_LINEAR_PLAIN);
    module->merging->norm = vw__module_make_norm(run, "norm", 4 * width, VW__MODULE_NORM_LAYER);
}

static void build_rounds(vw__plan_run *run, vw__layers_module *module)
{
    const vw__layers_line *line = module->line;
    vw__layers_shape shape = module->in;
    module->rounds = vw__module_alloc(run, line->count, sizeof *module->rounds);
    for (uint64_t i = 0; i < line->count && vw__tape_status(run->tape) == VW_OK; i++)
        module->rounds[i] = vw__layers_build_row(run, line->lines, line->line_count, &shape);
}

/* Each round reads a wider input. */
static void build_dense(vw__plan_run *run, vw__layers_module *module)
{
    const vw__layers_line *line = module->line;
    vw__layers_shape in = module->in;
    module->rounds = vw__module_alloc(run, line->count, sizeof *module->rounds);
    for (uint64_t i = 0; i < line->count && vw__tape_status(run->tape) == VW_OK; i++) {
        vw__layers_shape made = in;
        module->rounds[i] = vw__layers_build_row(run, line->lines, line->line_count, &made);
        in.width += made.width;
    }
}

static void build_combined(vw__plan_run *run, vw__layers_module *module)
{
    const vw__layers_line *line = module->line;
    vw__layers_shape shape = module->in, beside = module->in;
    module->rounds = vw__module_alloc(run, VW__LAYERS_COMBINED_ROWS, sizeof *module->rounds);
    module->rounds[VW__LAYERS_INSIDE] =
        vw__layers_build_row(run, line->lines, line->line_count, &shape);
    module->rounds[VW__LAYERS_SHORTCUT] =
        vw__layers_build_row(run, line->shortcut, line->shortcut_count, &beside);
}

static void build_rnn(vw__plan_run *run, vw__layers_module *module)
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

static void build_module(vw__plan_run *run, vw__layers_module *module)
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

vw__layers_row vw__layers_build_row(vw__plan_run *run, const vw__layers_line *lines, size_t count,
                                    vw__layers_shape *shape)
{
    vw__layers_row row = {.modules = NULL};
    if (count == 0)
        return row;
    row.modules = vw__module_alloc(run, count, sizeof *row.modules);
    for (size_t i = 0; i < count && vw__tape_status(run->tape) == VW_OK; i++) {
        vw__layers_module *module = &row.modules[i];
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
