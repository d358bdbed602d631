/* model_gpt2.c - GPT-2, after transformers' modeling_gpt2.py. */
#include "plan/config_families.h"
#include "plan/plan_run.h"

typedef struct gpt2_layer {
    hr__norm_module norm_1, norm_2;
    hr__linear_module qkv, projection, inner, outer;
} gpt2_layer;

typedef struct gpt2_modules {
    hr__tensor tokens, positions;
    gpt2_layer *layers;
    hr__norm_module last_norm;
    hr__linear_module head;
    hr__tensor mask; /* during a forward pass */
} gpt2_modules;

static void build(hr__plan_run *run)
{
    const hr__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden;
    gpt2_modules *modules = hr__run_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    modules->tokens = hr__make_table(run, shape->vocabulary, hidden);
    modules->positions = hr__make_table(run, shape->positions, hidden);
    modules->layers = hr__run_alloc(run, shape->layers, sizeof *modules->layers);
    for (uint64_t i = 0; i < shape->layers && hr__tape_status(run->tape) == HR_OK; i++) {
        gpt2_layer *layer = &modules->layers[i];
        layer->norm_1 = hr__make_norm(run, "ln_1", hidden, true);
        layer->qkv = hr__make_linear(run, "c_attn", hidden, 3 * hidden, true, HR__LINEAR_ADAPTED);
        layer->projection = hr__make_linear(run, "c_proj", hidden, hidden, true, HR__LINEAR_PLAIN);
        layer->norm_2 = hr__make_norm(run, "ln_2", hidden, true);
        layer->inner = hr__make_linear(run, "c_fc", hidden, shape->inner, true, HR__LINEAR_PLAIN);
        layer->outer = hr__make_linear(run, "c_proj", shape->inner, hidden, true, HR__LINEAR_PLAIN);
    }
    modules->last_norm = hr__make_norm(run, "ln_f", hidden, true);
    modules->head = shape->is_tied ? hr__tied_head(run, modules->tokens, hidden, shape->vocabulary)
                                   : hr__make_linear(run, "lm_head", hidden, shape->vocabulary,
                                                     false, HR__LINEAR_HEAD);
}

static hr__tensor attend(hr__plan_run *run, const gpt2_layer *layer, hr__tensor x)
{
    const hr__transformer *shape = &run->model->shape;
    const gpt2_modules *modules = run->modules;
    hr__attention_shape attention = hr__self_attention(run, run->settings->sequence);
    hr__tape *tape = run->tape;
    hr__tensor parts[3];
    attention.is_causal = true;
    hr__enter(tape, "attention", -1);
    hr__tensor packed = hr__apply_linear(run, x, &layer->qkv);
    hr__split(tape, packed, 3, parts);
    hr__drop(tape, &packed);
    hr__tensor result =
        hr__apply_attention(run, parts[0], parts[1], parts[2], modules->mask, &attention);
    hr__rebind(tape, &result, hr__apply_linear(run, result, &layer->projection));
    hr__rebind(tape, &result, hr__apply_dropout(run, result, shape->has_residual_dropout));
    for (size_t i = 0; i < 3; i++)
        hr__drop(tape, &parts[i]);
    hr__leave(tape);
    return result;
}

static hr__tensor block(hr__plan_run *run, const void *place, hr__tensor x)
{
    const gpt2_layer *layer = place;
    hr__tape *tape = run->tape;
    hr__tensor hidden = hr__apply_layer_norm(run, x, &layer->norm_1);
    hr__tensor attended = attend(run, layer, hidden);
    hr__tensor residual = hr__add(tape, attended, x);
    hr__rebind(tape, &hidden, hr__apply_layer_norm(run, residual, &layer->norm_2));
    hr__tensor fed = hr__apply_mlp(run, hidden, &layer->inner, &layer->outer,
                                   run->model->shape.has_residual_dropout);
    hr__rebind(tape, &hidden, hr__add(tape, residual, fed));
    hr__drop(tape, &fed);
    hr__drop(tape, &residual);
    hr__drop(tape, &attended);
    return hidden;
}

static hr__tensor forward(hr__plan_run *run)
{
    const hr__transformer *shape = &run->model->shape;
    gpt2_modules *modules = run->modules;
    const hr_plan_settings *settings = run->settings;
    uint64_t rows = hr__times(run->tape, settings->batch, settings->sequence);
    hr__tape *tape = run->tape;
    hr__tensor ids = hr__make_ids(run, settings->batch, settings->sequence);
    hr__enter(tape, "embedding", -1);
    hr__tensor tokens = hr__embedding(tape, ids, modules->tokens, shape->hidden);
    hr__tensor numbers = hr__make_ids(run, 1, settings->sequence);
    hr__tensor positions = hr__embedding(tape, numbers, modules->positions, shape->hidden);
    hr__tensor x = hr__add(tape, tokens, positions);
    hr__rebind(tape, &x, hr__apply_dropout(run, x, shape->has_embedding_dropout));
    hr__leave(tape);
    modules->mask = hr__make_causal_mask(run, settings->sequence);
    x = hr__run_blocks(run, block, modules->layers, sizeof *modules->layers, shape->layers, x);
    hr__rebind(tape, &x, hr__apply_layer_norm(run, x, &modules->last_norm));
    hr__drop_with_graph(tape, modules->mask);
    hr__drop(tape, &positions);
    hr__drop(tape, &numbers);
    hr__drop(tape, &tokens);
    hr__tensor result = hr__apply_head(run, x, &modules->head, rows, true);
    hr__drop(tape, &ids);
    return result;
}

const hr__family hr__family_gpt2 = {
    .name = "gpt2",
    .model_types = (const char *const[]){"gpt2", NULL},
    .has_position_table = true,
    .has_plain_softmax = true,
    .usual_length = hr__usual_positions,
    .read = hr__read_gpt2,
    .build = build,
    .forward = forward,
    .generate = hr__generate,
};
