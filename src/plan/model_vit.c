/* model_vit.c - ViT with a classifier, after transformers' modeling_vit.py. */
#include "plan/config_families.h"
#include "plan/plan_run.h"

typedef struct vit_layer {
    vw__norm_module norm_1, norm_2;
    vw__linear_module query, key, value, output, inner, outer;
} vit_layer;

typedef struct vit_modules {
    vw__tensor class_token, positions;
    vw__conv_module patches;
    vit_layer *layers;
    vw__norm_module last_norm;
    vw__linear_module classifier;
    uint64_t tokens;
} vit_modules;

static uint64_t patches_of(const vw__plan_run *run)
{
    const vw__transformer *shape = &run->model->shape;
    uint64_t side = shape->patch == 0 ? 0 : run->settings->image / shape->patch;
    return side * side;
}

static void build(vw__plan_run *run)
{
    const vw__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden, side = shape->image / shape->patch;
    vit_modules *modules = vw__run_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    modules->class_token = vw__make_table(run, 1, hidden);
    modules->positions = vw__make_table(run, side * side + 1, hidden);
    modules->patches = vw__make_conv(run, "patch_embeddings", shape->channels, hidden, shape->patch,
                                     shape->patch, true);
    modules->layers = vw__run_alloc(run, shape->layers, sizeof *modules->layers);
    for (uint64_t i = 0; i < shape->layers && vw__tape_status(run->tape) == VW_OK; i++) {
        vit_layer *layer = &modules->layers[i];
        layer->query = vw__make_linear(run, "query", hidden, hidden, shape->has_query_bias,
                                       VW__LINEAR_ADAPTED);
        layer->key =
            vw__make_linear(run, "key", hidden, hidden, shape->has_query_bias, VW__LINEAR_PLAIN);
        layer->value = vw__make_linear(run, "value", hidden, hidden, shape->has_query_bias,
                                       VW__LINEAR_ADAPTED);
        layer->output = vw__make_linear(run, "output", hidden, hidden, true, VW__LINEAR_PLAIN);
        layer->inner =
            vw__make_linear(run, "intermediate", hidden, shape->inner, true, VW__LINEAR_PLAIN);
        layer->outer = vw__make_linear(run, "output", shape->inner, hidden, true, VW__LINEAR_PLAIN);
        layer->norm_1 = vw__make_norm(run, "layernorm_before", hidden, true);
        layer->norm_2 = vw__make_norm(run, "layernorm_after", hidden, true);
    }
    modules->last_norm = vw__make_norm(run, "layernorm", hidden, true);
    modules->classifier =
        vw__make_linear(run, "classifier", hidden, shape->labels, true, VW__LINEAR_HEAD);
}

static vw__tensor attend(vw__plan_run *run, const vit_layer *layer, vw__tensor x)
{
    const vw__transformer *shape = &run->model->shape;
    const vit_modules *modules = run->modules;
    const vw__attention_shape attention = vw__self_attention(run, modules->tokens);
    vw__tape *tape = run->tape;
    vw__enter(tape, "attention", -1);
    vw__tensor query = vw__apply_linear(run, x, &layer->query);
    vw__tensor key = vw__apply_linear(run, x, &layer->key);
    vw__tensor value = vw__apply_linear(run, x, &layer->value);
    vw__tensor result = vw__apply_attention(run, query, key, value, vw__no_tensor(), &attention);
    vw__drop(tape, &value);
    vw__drop(tape, &key);
    vw__drop(tape, &query);
    vw__rebind(tape, &result, vw__apply_linear(run, result, &layer->output));
    vw__rebind(tape, &result, vw__apply_dropout(run, result, shape->has_residual_dropout));
    vw__leave(tape);
    return result;
}

static vw__tensor block(vw__plan_run *run, const void *place, vw__tensor x)
{
    const vit_layer *layer = place;
    vw__tape *tape = run->tape;
    vw__tensor hidden = vw__apply_layer_norm(run, x, &layer->norm_1);
    vw__rebind(tape, &hidden, attend(run, layer, hidden));
    vw__tensor residual = vw__add(tape, hidden, x);
    vw__rebind(tape, &hidden, vw__apply_layer_norm(run, residual, &layer->norm_2));
    vw__rebind(tape, &hidden,
               vw__apply_mlp(run, hidden, &layer->inner, &layer->outer,
                             run->model->shape.has_residual_dropout));
    vw__rebind(tape, &hidden, vw__add(tape, hidden, residual));
    vw__drop(tape, &residual);
    return hidden;
}

/* Patches, a class token in front of them, and positions. */
static vw__tensor embed(vw__plan_run *run, const vit_modules *modules, vw__tensor pixels)
{
    const vw__transformer *shape = &run->model->shape;
    vw__tape *tape = run->tape;
    vw__enter(tape, "embedding", -1);
    vw__tensor patches = vw__apply_conv(run, pixels, &modules->patches, run->settings->image);
    vw__tensor first = vw__view(tape, modules->class_token);
    first.elements = run->settings->batch * shape->hidden; /* expanded: no storage of its own */
    vw__tensor x = vw__cat(tape, (vw__tensor[]){first, patches}, 2);
    vw__drop(tape, &first);
    vw__rebind(tape, &x, vw__add(tape, x, modules->positions));
    vw__rebind(tape, &x, vw__apply_dropout(run, x, shape->has_embedding_dropout));
    vw__drop(tape, &patches);
    vw__leave(tape);
    return x;
}

static vw__tensor forward(vw__plan_run *run)
{
    vit_modules *modules = run->modules;
    vw__tape *tape = run->tape;
    modules->tokens = patches_of(run) + 1;
    vw__tensor pixels = vw__make_pixels(run, run->model->shape.channels);
    vw__tensor embedded = embed(run, modules, pixels);
    vw__tensor x = vw__hold(tape, embedded);
    x = vw__run_blocks(run, block, modules->layers, sizeof *modules->layers,
                       run->model->shape.layers, x);
    vw__rebind(tape, &x, vw__apply_layer_norm(run, x, &modules->last_norm));
    vw__drop(tape, &embedded);
    vw__tensor result = vw__apply_classifier(run, x, &modules->classifier, modules->tokens);
    vw__drop(tape, &pixels);
    return result;
}

static uint64_t usual_length(const vw_plan_model *model)
{
    return model->shape.image;
}

const vw__family vw__family_vit = {
    .name = "vit",
    .model_types = (const char *const[]){"vit", NULL},
    .has_images = true,
    .keeps_logits_type = true,
    .usual_length = usual_length,
    .read = vw__read_vit,
    .build = build,
    .forward = forward,
};
