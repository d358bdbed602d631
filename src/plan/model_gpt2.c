/* model_gpt2.c - GPT-2, after transformers' modeling_gpt2.py. */
#include "plan/config_families.h"
#include "plan/plan_run.h"

typedef struct gpt2_layer {
    vw__norm_module norm_1, norm_2;
    vw__linear_module qkv, projection, inner, outer;
} gpt2_layer;

typedef struct gpt2_modules {
    vw__tensor tokens, positions;
    gpt2_layer *layers;
    vw__norm_module last_norm;
    vw__linear_module head;
    vw__tensor mask; /* during a forward pass */
} gpt2_modules;

static void build(vw__plan_run *run)
{
    const vw__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden;
    gpt2_modules *modules = vw__run_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    modules->tokens = vw__make_table(run, shape->vocabulary, hidden);
    modules->positions = vw__make_table(run, shape->positions, hidden);
    modules->layers = vw__run_alloc(run, shape->layers, sizeof *modules->layers);
    for (uint64_t i = 0; i < shape->layers && vw__tape_status(run->tape) == VW_OK; i++) {
        gpt2_layer *layer = &modules->layers[i];
        layer->norm_1 = vw__make_norm(run, "ln_1", hidden, true);
        layer->qkv = vw__make_linear(run, "c_attn", hidden, 3 * hidden, true, VW__LINEAR_ADAPTED);
        layer->projection = vw__make_linear(run, "c_proj", hidden, hidden, true, VW__LINEAR_PLAIN);
        layer->norm_2 = vw__make_norm(run, "ln_2", hidden, true);
        layer->inner = vw__make_linear(run, "c_fc", hidden, shape->inner, true, VW__LINEAR_PLAIN);
        layer->outer = vw__make_linear(run, "c_proj", shape->inner, hidden, true, VW__LINEAR_PLAIN);
    }
    modules->last_norm = vw__make_norm(run, "ln_f", hidden, true);
    modules->head = shape->is_tied ? vw__tied_head(run, modules->tokens, hidden, shape->vocabulary)
                                   : vw__make_linear(run, "lm_head", hidden, shape->vocabulary,
                                                     false, VW__LINEAR_HEAD);
}

static vw__tensor attend(vw__plan_run *run, const gpt2_layer *layer, vw__tensor x)
{
    const vw__transformer *shape = &run->model->shape;
    const gpt2_modules *modules = run->modules;
    vw__attention_shape attention = vw__self_attention(run, run->settings->sequence);
    vw__tape *tape = run->tape;
    vw__tensor parts[3];
    attention.is_causal = true;
    vw__enter(tape, "attention", -1);
    vw__tensor packed = vw__apply_linear(run, x, &layer->qkv);
    vw__split(tape, packed, 3, parts);
    vw__drop(tape, &packed);
    vw__tensor result =
        vw__apply_attention(run, parts[0], parts[1], parts[2], modules->mask, &attention);
    vw__rebind(tape, &result, vw__apply_linear(run, result, &layer->projection));
    vw__rebind(tape, &result, vw__apply_dropout(run, result, shape->has_residual_dropout));
    for (size_t i = 0; i < 3; i++)
        vw__drop(tape, &parts[i]);
    vw__leave(tape);
    return result;
}

static vw__tensor block(vw__plan_run *run, const void *place, vw__tensor x)
{
    const gpt2_layer *layer = place;
    vw__tape *tape = run->tape;
    vw__tensor hidden = vw__apply_layer_norm(run, x, &layer->norm_1);
    vw__tensor attended = attend(run, layer, hidden);
    vw__tensor residual = vw__add(tape, attended, x);
    vw__rebind(tape, &hidden, vw__apply_layer_norm(run, residual, &layer->norm_2));
    vw__tensor fed = vw__apply_mlp(run, hidden, &layer->inner, &layer->outer,
                                   run->model->shape.has_residual_dropout);
    vw__rebind(tape, &hidden, vw__add(tape, residual, fed));
    vw__drop(tape, &fed);
    vw__drop(tape, &residual);
    vw__drop(tape, &attended);
    return hidden;
}

static vw__tensor forward(vw__plan_run *run)
{
    const vw__transformer *shape = &run->model->shape;
    gpt2_modules *modules = run->modules;
    const vw_plan_settings *settings = run->settings;
    uint64_t rows = vw__times(run->tape, settings->batch, settings->sequence);
    vw__tape *tape = run->tape;
    vw__tensor ids = vw__make_ids(run, settings->batch, settings->sequence);
    vw__enter(tape, "embedding", -1);
    vw__tensor tokens = vw__embedding(tape, ids, modules->tokens, shape->hidden);
    vw__tensor numbers = vw__make_ids(run, 1, settings->sequence);
    vw__tensor positions = vw__embedding(tape, numbers, modules->positions, shape->hidden);
    vw__tensor x = vw__add(tape, tokens, positions);
    vw__rebind(tape, &x, vw__apply_dropout(run, x, shape->has_embedding_dropout));
    vw__leave(tape);
    modules->mask = vw__make_causal_mask(run, settings->sequence);
    x = vw__run_blocks(run, block, modules->layers, sizeof *modules->layers, shape->layers, x);
    vw__rebind(tape, &x, vw__apply_layer_norm(run, x, &modules->last_norm));
    vw__drop_with_graph(tape, modules->mask);
    vw__drop(tape, &positions);
    vw__drop(tape, &numbers);
    vw__drop(tape, &tokens);
    vw__tensor result = vw__apply_head(run, x, &modules->head, rows, true);
    vw__drop(tape, &ids);
    return result;
}

const vw__family vw__family_gpt2 = {
    .name = "gpt2",
    .model_types = (const char *const[]){"gpt2", NULL},
    .has_position_table = true,
    .has_plain_softmax = true,
    .usual_length = vw__usual_positions,
    .read = vw__read_gpt2,
    .build = build,
    .forward = forward,
    .generate = vw__generate,
};
