/* transformer_build.c - the parameters of a transformer, in the order in which Python makes them:
 * optimizers, shards and the allocator see them in that order. */
#include "plan/transformer.h"

bool vw__plan_has_window(const vw__plan_attention *attention, uint64_t layer)
{
    if (attention->window == 0 || layer < attention->window_from)
        return false;
    if (attention->windows != NULL)
        return attention->windows[layer];
    const uint64_t place = attention->is_first_full ? layer : layer + 1;
    return attention->window_period == 0 || place % attention->window_period != 0;
}

static bool is_rotated(const vw_plan_model *model, uint64_t layer)
{
    const vw__plan_style *style = model->family->style;
    const vw__plan_attention *shape = &model->shape.attention;
    if (style->rotary == VW__PLAN_NOT_ROTATED)
        return false;
    if (style->rotates_windows_only)
        return vw__plan_has_window(shape, layer);
    if (shape->rotated != NULL)
        return shape->rotated[layer];
    return shape->unrotated_period == 0 || (layer + 1) % shape->unrotated_period != 0;
}

static vw__module_norm make_norm(vw__plan_run *run, const char *name)
{
    return vw__module_make_norm(run, name, run->model->shape.hidden,
                                run->model->family->style->norm);
}

static vw__plan_attention_module make_attention(vw__plan_run *run)
{
    const vw__plan_style *style = run->model->family->style;
    const vw__plan_attention *shape = &run->model->shape.attention;
    const uint64_t hidden = run->model->shape.hidden, wide = shape->heads * shape->head_width;
    const uint64_t narrow = shape->key_heads * shape->head_width;
    const bool has_bias = style->has_query_bias || shape->has_query_bias;
    vw__plan_attention_module made = {.query = {.name = NULL}};
    if (style->packing != VW__PLAN_SEPARATE) {
        made.packed = vw__module_make_linear(run, style->packed, hidden, wide + 2 * narrow,
                                             has_bias, VW__MODULE_LINEAR_ADAPTED);
    } else {
        made.query = vw__module_make_linear(run, style->query, hidden, wide, has_bias,
                                            VW__MODULE_LINEAR_ADAPTED);
        made.key =
            vw__module_make_linear(run, style->key, hidden, narrow,
                                   has_bias && !style->is_key_unbiased, VW__MODULE_LINEAR_PLAIN);
        made.value = vw__module_make_linear(run, style->value, hidden, narrow, has_bias,
                                            VW__MODULE_LINEAR_ADAPTED);
    }
    made.output = vw__module_make_linear(run, style->output, wide, hidden,
                                         style->has_output_bias || shape->has_output_bias,
                                         VW__MODULE_LINEAR_PLAIN);
    if (shape->span > 0)
        vw__plan_make_distance_modules(run, &made);
    if (shape->has_query_norm) {
        const bool is_whole = style->has_whole_query_norm;
        made.query_norm =
            vw__module_make_norm(run, "q_norm", is_whole ? wide : shape->head_width, style->norm);
        made.key_norm =
            vw__module_make_norm(run, "k_norm", is_whole ? narrow : shape->head_width, style->norm);
    }
    return made;
}

static void make_mlp(vw__plan_run *run, vw__plan_layer *layer)
{
    const vw__plan_style *style = run->model->family->style;
    const vw__plan_mlp *shape = &run->model->shape.mlp;
    const uint64_t hidden = run->model->shape.hidden, inner = shape->inner;
    const bool has_bias = style->has_mlp_bias || shape->has_bias;
    const char *name = style->inner;
    if (shape->experts > 0) {
        layer->experts = vw__plan_make_experts(run);
        return;
    }
    if (shape->is_gated && style->packed_gate != NULL) {
        layer->packed_gate = vw__module_make_linear(run, style->packed_gate, hidden, 2 * inner,
                                                    has_bias, VW__MODULE_LINEAR_PLAIN);
    } else {
        if (shape->is_gated)
            layer->gate = vw__module_make_linear(run, style->gate, hidden, inner, has_bias,
                                                 VW__MODULE_LINEAR_PLAIN);
        if (!shape->is_gated && style->ungated_inner != NULL)
            name = style->ungated_inner;
        layer->inner =
            vw__module_make_linear(run, name, hidden, inner, has_bias, VW__MODULE_LINEAR_PLAIN);
    }
    layer->outer =
        vw__module_make_linear(run, style->outer, inner, hidden, has_bias, VW__MODULE_LINEAR_PLAIN);
}

static void make_part(vw__plan_run *run, vw__plan_layer *layer, vw__plan_part part)
{
    const vw__plan_style *style = run->model->family->style;
    const bool has_outer = run->model->shape.norm.has_outer;
    switch (part) {
    case VW__PLAN_ATTENTION:
        layer->self = make_attention(run);
        break;
    case VW__PLAN_NORM_1:
        if (layer->has_norm_1)
            layer->norm_1 = make_norm(run, style->norm_1);
        break;
    case VW__PLAN_AFTER_ATTENTION:
        if (has_outer)
            layer->after_attention = make_norm(run, style->after_attention);
        break;
    case VW__PLAN_CROSS:
        if (layer->stack->has_cross) {
            layer->cross_norm = make_norm(run, style->norm_1);
            layer->cross = make_attention(run);
        }
        break;
    case VW__PLAN_MLP:
        make_mlp(run, layer);
        break;
    case VW__PLAN_NORM_2:
        if (!vw__plan_shares_norm(run->model))
            layer->norm_2 = make_norm(run, has_outer ? style->norm_2_of_outer : style->norm_2);
        break;
    case VW__PLAN_AFTER_MLP:
        if (has_outer)
            layer->after_mlp = make_norm(run, style->after_mlp);
        break;
    case VW__PLAN_NO_PART:
        break;
    }
}

static vw__tensor make_positions(vw__plan_run *run, uint64_t width, bool is_of_sound)
{
    const vw__plan_style *style = run->model->family->style;
    const vw__plan_embedding *shape = &run->model->shape.embedding;
    const uint64_t rows = is_of_sound ? shape->sounds : shape->positions;
    if (style->has_buffered_positions)
        return vw__module_make_buffer(run, vw__tape_times(run->tape, rows, width), run->dtype);
    if (!style->has_fixed_positions && !is_of_sound)
        return vw__module_make_table(run, rows, width);
    return vw__module_make_weight_of(run, vw__tape_times(run->tape, rows, width),
                                     (vw__tape_matrix){.rows = rows, .width = width}, run->dtype,
                                     false);
}

/* Positions, and the norm of what is added up, which a decoder has of its own. */
static void make_stack_embedding(vw__plan_run *run, vw__plan_layer_stack *stack)
{
    const vw__plan_style *style = run->model->family->style;
    const uint64_t width = vw__plan_embedding_width(run->model);
    if (style->has_positions && run->model->shape.embedding.patch == 0)
        stack->positions = make_positions(run, width, vw__plan_hears(run, stack));
    if (style->embedding_norm != NULL)
        stack->embedding_norm =
            vw__module_make_norm(run, style->embedding_norm, width, style->norm);
}

static void make_stack(vw__plan_run *run, vw__plan_layer_stack *stack, uint64_t count)
{
    const vw__plan_style *style = run->model->family->style;
    const vw__plan_attention *attention = &run->model->shape.attention;
    stack->cosine = stack->sine = stack->mask = stack->window_mask = vw__tensor_none();
    stack->bias = stack->zeros = stack->distances = vw__tensor_none();
    stack->count = count;
    stack->layers = vw__module_alloc(run, count, sizeof *stack->layers);
    for (uint64_t i = 0; i < count && vw__tape_status(run->tape) == VW_OK; i++) {
        vw__plan_layer *layer = &stack->layers[i];
        layer->stack = stack;
        layer->has_norm_1 = i > 0 || !style->begins_without_norm;
        layer->has_window = vw__plan_has_window(attention, i);
        layer->is_rotated = is_rotated(run->model, i);
        for (size_t j = 0; style->order[j] != VW__PLAN_NO_PART; j++)
            make_part(run, layer, (vw__plan_part)style->order[j]);
        if (style->has_layer_mask)
            (void)vw__module_make_buffer(run,
                                         vw__tape_times(run->tape,
                                                        run->model->shape.embedding.positions,
                                                        run->model->shape.embedding.positions),
                                         VW__DTYPE_BOOL);
    }
    if (attention->span > 0)
        vw__plan_make_distances(run, stack);
    if (style->keeps_all_hidden && run->settings->mode == VW_PLAN_MODE_INFERENCE)
        stack->outputs = vw__module_alloc(run, count, sizeof *stack->outputs);
    if (attention->buckets > 0)
        stack->buckets = vw__module_make_table(run, attention->buckets, attention->heads);
    if (vw__plan_has_last_norm(run->model))
        stack->last_norm = make_norm(run, style->last_norm);
}

/* Tokens, positions and types; or a class token, positions and patches. */
static void make_embedding(vw__plan_run *run, vw__plan_transformer *modules)
{
    const vw__plan_style *style = run->model->family->style;
    const vw__plan_embedding *shape = &run->model->shape.embedding;
    const uint64_t hidden = run->model->shape.hidden;
    const uint64_t width = vw__plan_token_width(run->model);
    if (shape->patch > 0) {
        const uint64_t side = shape->image / shape->patch;
        modules->class_token = vw__module_make_table(run, 1, hidden);
        modules->main.positions = vw__module_make_table(run, side * side + 1, hidden);
        modules->patches = vw__module_make_conv(
            run, "patch_embeddings", shape->channels, hidden,
            (vw__op_window){.kernel = shape->patch, .stride = shape->patch}, 1, true);
        return;
    }
    if (shape->sounds > 0) {
        const vw__op_window window = {.kernel = 3, .stride = 1, .padding = 1, .dimensions = 1};
        vw__op_window half = window;
        half.stride = 2;
        modules->sounds[0] =
            vw__module_make_conv(run, "conv1", shape->mels, hidden, window, 1, true);
        modules->sounds[1] = vw__module_make_conv(run, "conv2", hidden, hidden, half, 1, true);
    }
    modules->tokens = vw__module_make_table(run, shape->vocabulary, width);
    if (shape->token_types > 0)
        modules->types =
            vw__module_make_table(run, shape->token_types, vw__plan_embedding_width(run->model));
    if (width == hidden)
        return;
    modules->widen = vw__module_make_linear(run, style->widen, width, hidden,
                                            style->widening == VW__PLAN_WIDENS_EMBEDDING,
                                            VW__MODULE_LINEAR_PLAIN);
    if (style->narrow != NULL)
        modules->narrow = vw__module_make_linear(run, style->narrow, hidden, width, false,
                                                 VW__MODULE_LINEAR_PLAIN);
}

void vw__plan_transformer_build(vw__plan_run *run)
{
    const vw__plan_shape *shape = &run->model->shape;
    vw__plan_transformer *modules = vw__module_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    modules->ids = modules->encoded = vw__tensor_none();
    make_embedding(run, modules);
    modules->main.is_causal = run->model->family->style->is_causal;
    if (shape->decoder_layers > 0) {
        modules->main.name = "encoder";
        modules->decoder.name = "decoder";
        modules->decoder.is_causal = modules->decoder.has_cross = true;
    }
    make_stack_embedding(run, &modules->main);
    make_stack(run, &modules->main, shape->layers);
    if (shape->decoder_layers > 0 && run->head != VW_PLAN_HEAD_ENCODER) {
        make_stack_embedding(run, &modules->decoder);
        make_stack(run, &modules->decoder, shape->decoder_layers);
    }
    vw__plan_transformer_make_head(run);
}
