/* model_vit.c - ViT with a classifier, after transformers' modeling_vit.py. */
#include "plan/config_families.h"
#include "plan/plan_run.h"

typedef struct vit_layer {
    hr__norm_module norm_1, norm_2;
    hr__linear_module query, key, value, output, inner, outer;
} vit_layer;

typedef struct vit_modules {
    hr__tensor class_token, positions;
    hr__conv_module patches;
    vit_layer *layers;
    hr__norm_module last_norm;
    hr__linear_module classifier;
    uint64_t tokens;
} vit_modules;

static uint64_t patches_of(const hr__plan_run *run)
{
    const hr__transformer *shape = &run->model->shape;
    uint64_t side = shape->patch == 0 ? 0 : run->settings->image / shape->patch;
    return side * side;
}

static void build(hr__plan_run *run)
{
    const hr__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden, side = shape->image / shape->patch;
    vit_modules *modules = hr__run_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    modules->class_token = hr__make_table(run, 1, hidden);
    modules->positions = hr__make_table(run, side * side + 1, hidden);
    modules->patches = hr__make_conv(run, "patch_embeddings", shape->channels, hidden, shape->patch,
                                     shape->patch, true);
    modules->layers = hr__run_alloc(run, shape->layers, sizeof *modules->layers);
    for (uint64_t i = 0; i < shape->layers && hr__tape_status(run->tape) == HR_OK; i++) {
        vit_layer *layer = &modules->layers[i];
        layer->query = hr__make_linear(run, "query", hidden, hidden, shape->has_query_bias,
                                       HR__LINEAR_ADAPTED);
        layer->key =
            hr__make_linear(run, "key", hidden, hidden, shape->has_query_bias, HR__LINEAR_PLAIN);
        layer->value = hr__make_linear(run, "value", hidden, hidden, shape->has_query_bias,
                                       HR__LINEAR_ADAPTED);
        layer->output = hr__make_linear(run, "output", hidden, hidden, true, HR__LINEAR_PLAIN);
        layer->inner =
            hr__make_linear(run, "intermediate", hidden, shape->inner, true, HR__LINEAR_PLAIN);
        layer->outer = hr__make_linear(run, "output", shape->inner, hidden, true, HR__LINEAR_PLAIN);
        layer->norm_1 = hr__make_norm(run, "layernorm_before", hidden, true);
        layer->norm_2 = hr__make_norm(run, "layernorm_after", hidden, true);
    }
    modules->last_norm = hr__make_norm(run, "layernorm", hidden, true);
    modules->classifier =
        hr__make_linear(run, "classifier", hidden, shape->labels, true, HR__LINEAR_HEAD);
}

static hr__tensor attend(hr__plan_run *run, const vit_layer *layer, hr__tensor x)
{
    const hr__transformer *shape = &run->model->shape;
    const vit_modules *modules = run->modules;
    const hr__attention_shape attention = hr__self_attention(run, modules->tokens);
    hr__tape *tape = run->tape;
    hr__enter(tape, "attention", -1);
    hr__tensor query = hr__apply_linear(run, x, &layer->query);
    hr__tensor key = hr__apply_linear(run, x, &layer->key);
    hr__tensor value = hr__apply_linear(run, x, &layer->value);
    hr__tensor result = hr__apply_attention(run, query, key, value, hr__no_tensor(), &attention);
    hr__drop(tape, &value);
    hr__drop(tape, &key);
    hr__drop(tape, &query);
    hr__rebind(tape, &result, hr__apply_linear(run, result, &layer->output));
    hr__rebind(tape, &result, hr__apply_dropout(run, result, shape->has_residual_dropout));
    hr__leave(tape);
    return result;
}

static hr__tensor block(hr__plan_run *run, const void *place, hr__tensor x)
{
    const vit_layer *layer = place;
    hr__tape *tape = run->tape;
    hr__tensor hidden = hr__apply_layer_norm(run, x, &layer->norm_1);
    hr__rebind(tape, &hidden, attend(run, layer, hidden));
    hr__tensor residual = hr__add(tape, hidden, x);
    hr__rebind(tape, &hidden, hr__apply_layer_norm(run, residual, &layer->norm_2));
    hr__rebind(tape, &hidden,
               hr__apply_mlp(run, hidden, &layer->inner, &layer->outer,
                             run->model->shape.has_residual_dropout));
    hr__rebind(tape, &hidden, hr__add(tape, hidden, residual));
    hr__drop(tape, &residual);
    return hidden;
}

/* Patches, a class token in front of them, and positions. */
static hr__tensor embed(hr__plan_run *run, const vit_modules *modules, hr__tensor pixels)
{
    const hr__transformer *shape = &run->model->shape;
    hr__tape *tape = run->tape;
    hr__enter(tape, "embedding", -1);
    hr__tensor patches = hr__apply_conv(run, pixels, &modules->patches, run->settings->image);
    hr__tensor first = hr__view(tape, modules->class_token);
    first.elements = run->settings->batch * shape->hidden; /* expanded: no storage of its own */
    hr__tensor x = hr__cat(tape, (hr__tensor[]){first, patches}, 2);
    hr__drop(tape, &first);
    hr__rebind(tape, &x, hr__add(tape, x, modules->positions));
    hr__rebind(tape, &x, hr__apply_dropout(run, x, shape->has_embedding_dropout));
    hr__drop(tape, &patches);
    hr__leave(tape);
    return x;
}

static hr__tensor forward(hr__plan_run *run)
{
    vit_modules *modules = run->modules;
    hr__tape *tape = run->tape;
    modules->tokens = patches_of(run) + 1;
    hr__tensor pixels = hr__make_pixels(run, run->model->shape.channels);
    hr__tensor embedded = embed(run, modules, pixels);
    hr__tensor x = hr__hold(tape, embedded);
    x = hr__run_blocks(run, block, modules->layers, sizeof *modules->layers,
                       run->model->shape.layers, x);
    hr__rebind(tape, &x, hr__apply_layer_norm(run, x, &modules->last_norm));
    hr__drop(tape, &embedded);
    hr__tensor result = hr__apply_classifier(run, x, &modules->classifier, modules->tokens);
    hr__drop(tape, &pixels);
    return result;
}

static uint64_t usual_length(const hr_plan_model *model)
{
    return model->shape.image;
}

const hr__family hr__family_vit = {
    .name = "vit",
    .model_types = (const char *const[]){"vit", NULL},
    .has_images = true,
    .keeps_logits_type = true,
    .usual_length = usual_length,
    .read = hr__read_vit,
    .build = build,
    .forward = forward,
};
