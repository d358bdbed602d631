/* vision_transformers.c - DeiT, DINOv2, CLIP, SigLIP, ConvNeXt and Swin as layers, after the
 * modeling_*.py of transformers. */
#include "plan/vision_transformers.h"

#include "plan/vision_lines.h"

enum { MOST_LINES = 64, MOST_INSIDE = 16 };

/* ---- encoders -------------------------------------------------------------------------------- */

/* What a layer has beside its norms and products. */
typedef struct extras {
    bool has_scale, has_drop_path, is_causal;
    bool holds_attention; /* what it reads and makes, in variables of their own */
} extras;

static vw__layers_kind activation_of(const vw__plan_shape *shape)
{
    static const vw__layers_kind kinds[] = {
        [VW__PLAN_ACTIVATION_GELU] = VW__LAYERS_GELU,
        [VW__PLAN_ACTIVATION_GELU_NEW] = VW__LAYERS_GELU_NEW,
        [VW__PLAN_ACTIVATION_SILU] = VW__LAYERS_SILU,
        [VW__PLAN_ACTIVATION_RELU] = VW__LAYERS_RELU,
        [VW__PLAN_ACTIVATION_QUICK_GELU] = VW__LAYERS_QUICK_GELU,
        [VW__PLAN_ACTIVATION_BLOOM_GELU] = VW__LAYERS_GELU,
    };
    return kinds[shape->mlp.activation];
}

/* A variable of the function around holds what the last line makes. */
static void hold_last(vw__vision_list *into)
{
    if (into->count > 0)
        into->lines[into->count - 1].is_held = true;
}

static void add_norm(vw__vision_list *into)
{
    vw__vision_add(into, VW__LAYERS_LAYER_NORM)->has_bias = true;
}

static void add_drop_path(vw__vision_list *into, bool has_drop_path)
{
    if (has_drop_path)
        vw__vision_add(into, VW__LAYERS_DROP_PATH)->has_dropout = true;
}

/* What comes behind the last product of a part. */
static void add_extras(vw__vision_list *into, const vw__plan_shape *shape, extras e)
{
    if (shape->has_residual_dropout)
        vw__vision_add_dropout(into);
    if (e.has_scale)
        vw__vision_add(into, VW__LAYERS_SCALE);
    add_drop_path(into, e.has_drop_path);
}

static vw__layers_line *add_attention(vw__vision_list *into, const vw__plan_shape *shape)
{
    vw__layers_line *line = vw__vision_add(into, VW__LAYERS_ATTENTION);
    line->heads = line->key_heads = shape->attention.heads;
    line->has_bias = shape->attention.has_query_bias;
    line->has_output_bias = true;
    line->has_dropout = shape->attention.has_dropout;
    return line;
}

/* Two products, or a gated pair of them. */
static void add_mlp(vw__vision_list *into, const vw__plan_shape *shape, uint64_t inner,
                    uint64_t width)
{
    vw__vision_add_linear(into, shape->mlp.is_gated ? 2 * inner : inner);
    vw__vision_add(into, shape->mlp.is_gated ? VW__LAYERS_SWIGLU : activation_of(shape));
    vw__vision_add_linear(into, width);
}

/* x + attention(norm(x)), x + mlp(norm(x)), as many times as there are layers. */
static void add_encoder(vw__vision_writer *w, vw__vision_list *into, const vw__plan_shape *shape,
                        extras e)
{
    vw__vision_list layer = vw__vision_begin(w, 2);
    vw__vision_list attention = vw__vision_begin(w, MOST_INSIDE);
    vw__vision_list mlp = vw__vision_begin(w, MOST_INSIDE);
    add_norm(&attention);
    if (e.holds_attention)
        hold_last(&attention);
    add_attention(&attention, shape)->is_causal = e.is_causal;
    add_extras(&attention, shape, e);
    if (e.holds_attention)
        hold_last(&attention);
    add_norm(&mlp);
    add_mlp(&mlp, shape, shape->mlp.inner, shape->hidden);
    add_extras(&mlp, shape, e);
    vw__vision_add_inside(&layer, VW__LAYERS_RESIDUAL, 0, &attention);
    vw__vision_add_inside(&layer, VW__LAYERS_RESIDUAL, 0, &mlp);
    vw__vision_add_inside(into, VW__LAYERS_REPEAT, shape->layers, &layer);
}

/* ---- embeddings ------------------------------------------------------------------------------ */

static uint64_t patches_of(const vw__plan_shape *shape)
{
    const uint64_t side = shape->embedding.image / shape->embedding.patch;
    return side * side;
}

/* Patches as tokens, which what follows reads as they lie. */
static void add_patches(vw__vision_list *into, const vw__plan_shape *shape, uint64_t width,
                        bool has_bias)
{
    vw__layers_line *line =
        vw__vision_add_conv(into, width, shape->embedding.patch, shape->embedding.patch);
    line->window.padding = 0;
    line->has_bias = has_bias;
    vw__vision_add(into, VW__LAYERS_TOKENS)->is_direct = true;
}

static vw__layers_line *add_positions(vw__vision_list *into, uint64_t rows)
{
    vw__layers_line *line = vw__vision_add(into, VW__LAYERS_POSITIONS);
    line->rows = rows;
    return line;
}

static void add_class_tokens(vw__vision_list *into, uint64_t count, uint64_t unused)
{
    vw__layers_line *line = vw__vision_add(into, VW__LAYERS_CLASS_TOKEN);
    line->count = count;
    line->rows = unused;
}

/* The last lines from `first` on are the head. */
static vw_status finish(vw__vision_writer *w, vw__vision_list *lines, size_t first)
{
    const vw__plan_embedding *embedding = &w->model->shape.embedding;
    w->model->head_line_count = lines->count - first;
    return vw__vision_finish(w, lines, vw__vision_image(embedding->channels, embedding->image));
}

/* ---- DeiT and DINOv2 ------------------------------------------------------------------------- */

vw_status vw__vision_describe_deit(vw_plan_model *model)
{
    enum { TOKENS = 2 }; /* of the class, and of distillation */
    const vw__plan_shape *shape = &model->shape;
    vw__vision_writer w = {.model = model, .status = VW_OK};
    vw__vision_list lines = vw__vision_begin(&w, MOST_LINES);
    add_patches(&lines, shape, shape->hidden, true);
    add_class_tokens(&lines, TOKENS, 0);
    add_positions(&lines, patches_of(shape) + TOKENS)->is_direct = true;
    if (shape->embedding.has_dropout)
        vw__vision_add_dropout(&lines);
    hold_last(&lines);
    add_encoder(&w, &lines, shape, (extras){.has_scale = false});
    add_norm(&lines);
    const size_t head = lines.count;
    vw__vision_add(&lines, VW__LAYERS_FIRST_TOKEN);
    vw__vision_add_linear(&lines, shape->head.labels);
    return finish(&w, &lines, head);
}

vw_status vw__vision_describe_dinov2(vw_plan_model *model, const vw__vision_dinov2 *options)
{
    const vw__plan_shape *shape = &model->shape;
    vw__vision_writer w = {.model = model, .status = VW_OK};
    vw__vision_list lines = vw__vision_begin(&w, MOST_LINES);
    vw__vision_list mean = vw__vision_begin(&w, 2), first = vw__vision_begin(&w, 1);
    add_patches(&lines, shape, shape->hidden, true);
    add_class_tokens(&lines, 1, options->has_mask_token ? 1 : 0);
    vw__layers_line *positions = add_positions(&lines, patches_of(shape) + 1);
    positions->is_direct = positions->is_stretched = true;
    if (shape->embedding.has_dropout)
        vw__vision_add_dropout(&lines);
    hold_last(&lines);
    add_encoder(&w, &lines, shape,
                (extras){.has_scale = true,
                         .has_drop_path = options->has_drop_path,
                         .holds_attention = true});
    add_norm(&lines);
    const size_t head = lines.count;
    vw__vision_add(&mean, VW__LAYERS_SKIP_TOKENS)->count = 1;
    vw__vision_add(&mean, VW__LAYERS_MEAN_POOL);
    vw__vision_add(&first, VW__LAYERS_FIRST_TOKEN);
    vw__vision_add_inside(&lines, VW__LAYERS_CONCAT, 0, &mean);
    if (lines.count > 0) {
        lines.lines[lines.count - 1].shortcut = first.lines;
        lines.lines[lines.count - 1].shortcut_count = first.count;
    }
    vw__vision_add_linear(&lines, shape->head.labels);
    return finish(&w, &lines, head);
}

/* ---- CLIP and SigLIP ------------------------------------------------------------------------- */

static void add_projection(vw__vision_list *into, const vw__vision_pair *pair)
{
    vw__vision_add_linear(into, pair->projection);
    if (into->count > 0)
        into->lines[into->count - 1].has_bias = pair->is_siglip;
}

/* A learned token reads all others, and goes through an MLP of its own. */
static void add_pool(vw__vision_writer *w, vw__vision_list *into, const vw__plan_shape *shape)
{
    vw__vision_list mlp = vw__vision_begin(w, MOST_INSIDE);
    vw__vision_add(into, VW__LAYERS_ATTENTION_POOL)->heads = shape->attention.heads;
    add_norm(&mlp);
    add_mlp(&mlp, shape, shape->mlp.inner, shape->hidden);
    vw__vision_add_inside(into, VW__LAYERS_RESIDUAL, 0, &mlp);
    vw__vision_add(into, VW__LAYERS_FIRST_TOKEN);
}

static vw_status describe_image_tower(vw__vision_writer *w, const vw__vision_pair *pair)
{
    const vw__plan_shape *shape = &pair->image;
    vw__vision_list lines = vw__vision_begin(w, MOST_LINES);
    add_patches(&lines, shape, shape->hidden, pair->is_siglip);
    if (!pair->is_siglip)
        add_class_tokens(&lines, 1, 0);
    add_positions(&lines, patches_of(shape) + (pair->is_siglip ? 0 : 1));
    if (!pair->is_siglip)
        add_norm(&lines);
    hold_last(&lines);
    add_encoder(w, &lines, shape, (extras){.has_scale = false});
    if (pair->is_siglip) {
        add_norm(&lines);
        add_pool(w, &lines, shape);
    } else {
        vw__vision_add(&lines, VW__LAYERS_FIRST_TOKEN);
        add_norm(&lines);
        add_projection(&lines, pair);
    }
    return vw__vision_finish(w, &lines,
                             vw__vision_image(shape->embedding.channels, shape->embedding.image));
}

/* CLIP takes the token that ends a text, SigLIP the last; in memory both are one of all. */
static vw_status describe_text_tower(vw__vision_writer *w, const vw__vision_pair *pair)
{
    const vw__plan_shape *shape = &pair->text;
    vw__vision_list lines = vw__vision_begin(w, MOST_LINES);
    vw__layers_line *table = vw__vision_add(&lines, VW__LAYERS_EMBEDDING);
    table->rows = shape->embedding.vocabulary;
    table->out = shape->hidden;
    add_positions(&lines, shape->embedding.positions);
    hold_last(&lines);
    add_encoder(w, &lines, shape, (extras){.is_causal = !pair->is_siglip});
    add_norm(&lines);
    vw__vision_add(&lines, VW__LAYERS_FIRST_TOKEN);
    add_projection(&lines, pair);
    return vw__vision_finish_second(w, &lines, vw__vision_ids(shape->embedding.positions));
}

vw_status vw__vision_describe_pair(vw_plan_model *model, const vw__vision_pair *pair)
{
    vw__vision_writer w = {.model = model, .status = VW_OK};
    model->contrast_parameters = pair->is_siglip ? 2 : 1; /* a scale; SigLIP: a bias too */
    vw_status status = describe_image_tower(&w, pair);
    return status == VW_OK ? describe_text_tower(&w, pair) : status;
}

/* ---- ConvNeXt -------------------------------------------------------------------------------- */

/* A norm over channels: they come last for it, and stay there. */
static void add_channel_norm(vw__vision_list *into)
{
    vw__vision_add(into, VW__LAYERS_TOKENS);
    add_norm(into);
    vw__vision_add(into, VW__LAYERS_IMAGE);
}

static void add_convnext_block(vw__vision_writer *w, vw__vision_list *into,
                               const vw__plan_shape *shape, uint64_t width,
                               const vw__vision_stages *stages, bool is_first)
{
    vw__vision_list inside = vw__vision_begin(w, MOST_INSIDE), round = vw__vision_begin(w, 1);
    vw__layers_line *conv = vw__vision_add_conv(&inside, width, 7, 1);
    conv->groups = width;
    conv->has_bias = true;
    vw__vision_add(&inside, VW__LAYERS_TOKENS);
    add_norm(&inside);
    add_mlp(&inside, shape, 4 * width, width);
    if (stages->has_scale)
        vw__vision_add(&inside, VW__LAYERS_SCALE);
    vw__vision_add(&inside, VW__LAYERS_IMAGE);
    add_drop_path(&inside, stages->has_drop_path && !is_first);
    vw__vision_add_inside(&round, VW__LAYERS_RESIDUAL, 0, &inside);
    vw__vision_add_inside(into, VW__LAYERS_REPEAT, 1, &round);
}

/* As many lines as the blocks of all stages need. */
static size_t lines_of(const vw__vision_stages *stages)
{
    size_t count = MOST_LINES;
    for (uint64_t i = 0; i < stages->count; i++)
        count += (size_t)stages->depths[i]; /* within limits */
    return count;
}

vw_status vw__vision_describe_convnext(vw_plan_model *model, const vw__vision_stages *stages)
{
    const vw__plan_shape *shape = &model->shape;
    vw__vision_writer w = {.model = model, .status = VW_OK};
    vw__vision_list lines = vw__vision_begin(&w, lines_of(stages));
    vw__layers_line *conv = vw__vision_add_conv(&lines, stages->widths[0], shape->embedding.patch,
                                                shape->embedding.patch);
    conv->window.padding = 0;
    conv->has_bias = true;
    add_channel_norm(&lines);
    hold_last(&lines);
    for (uint64_t i = 0; i < stages->count; i++) {
        if (i > 0) {
            add_channel_norm(&lines);
            conv = vw__vision_add_conv(&lines, stages->widths[i], 2, 2);
            conv->window.padding = 0;
            conv->has_bias = true;
        }
        for (uint64_t j = 0; j < stages->depths[i]; j++)
            add_convnext_block(&w, &lines, shape, stages->widths[i], stages, i + j == 0);
    }
    vw__vision_add(&lines, VW__LAYERS_MEAN_POOL);
    add_norm(&lines);
    const size_t head = lines.count;
    vw__vision_add_linear(&lines, shape->head.labels);
    return finish(&w, &lines, head);
}

/* ---- Swin ------------------------------------------------------------------------------------ */

static void add_swin_block(vw__vision_writer *w, vw__vision_list *into, const vw__plan_shape *shape,
                           const vw__vision_stages *stages, size_t stage, uint64_t block)
{
    const uint64_t width = shape->hidden << stage;
    const bool is_first = stage == 0 && block == 0;
    vw__vision_list attention = vw__vision_begin(w, MOST_INSIDE);
    vw__vision_list mlp = vw__vision_begin(w, MOST_INSIDE), round = vw__vision_begin(w, 2);
    add_norm(&attention);
    vw__layers_line *line = vw__vision_add(&attention, VW__LAYERS_WINDOW_ATTENTION);
    line->heads = line->key_heads = stages->heads[stage];
    line->rows = stages->window;
    line->shift = block % 2 == 0 ? 0 : stages->window / 2;
    line->has_bias = shape->attention.has_query_bias;
    line->has_output_bias = true;
    line->has_dropout = shape->attention.has_dropout;
    line->is_held = true;
    if (shape->has_residual_dropout)
        vw__vision_add_dropout(&attention);
    add_drop_path(&attention, stages->has_drop_path && !is_first);
    add_norm(&mlp);
    add_mlp(&mlp, shape, (uint64_t)(stages->mlp_ratio * (double)width), width);
    if (shape->has_residual_dropout)
        vw__vision_add_dropout(&mlp);
    vw__vision_add_inside(&round, VW__LAYERS_RESIDUAL, 0, &attention);
    vw__vision_add_inside(&round, VW__LAYERS_RESIDUAL, 0, &mlp);
    vw__vision_add_inside(into, VW__LAYERS_REPEAT, 1, &round);
}

vw_status vw__vision_describe_swin(vw_plan_model *model, const vw__vision_stages *stages)
{
    const vw__plan_shape *shape = &model->shape;
    vw__vision_writer w = {.model = model, .status = VW_OK};
    vw__vision_list lines = vw__vision_begin(&w, lines_of(stages));
    add_patches(&lines, shape, shape->hidden, true);
    add_norm(&lines);
    if (stages->has_positions)
        add_positions(&lines, patches_of(shape))->is_direct = true;
    if (shape->embedding.has_dropout)
        vw__vision_add_dropout(&lines);
    hold_last(&lines);
    for (uint64_t i = 0; i < stages->count; i++) {
        for (uint64_t j = 0; j < stages->depths[i]; j++)
            add_swin_block(&w, &lines, shape, stages, (size_t)i, j);
        if (i + 1 < stages->count)
            vw__vision_add(&lines, VW__LAYERS_PATCH_MERGING);
    }
    add_norm(&lines);
    vw__vision_add(&lines, VW__LAYERS_MEAN_POOL);
    const size_t head = lines.count;
    vw__vision_add_linear(&lines, shape->head.labels);
    return finish(&w, &lines, head);
}
