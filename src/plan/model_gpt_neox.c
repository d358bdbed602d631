/* model_gpt_neox.c - GPT-NeoX and Pythia, after transformers' modeling_gpt_neox.py: queries, keys
 * and values are one product, a part of each head is rotated, and attention and MLP read the same
 * input, through a norm each. */
#include "plan/config_families.h"
#include "plan/plan_run.h"
#include "plan/rotary_decoder.h"

typedef struct neox_layer {
    vw__norm_module norm_1, norm_2;
    vw__linear_module qkv, output, inner, outer;
} neox_layer;

static void build_layer(vw__plan_run *run, void *place)
{
    neox_layer *layer = place;
    const vw__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden;
    bool has_bias = shape->has_query_bias;
    layer->norm_1 = vw__make_norm(run, "input_layernorm", hidden, true);
    layer->norm_2 = vw__make_norm(run, "post_attention_layernorm", hidden, true);
    layer->qkv =
        vw__make_linear(run, "query_key_value", hidden, 3 * hidden, has_bias, VW__LINEAR_ADAPTED);
    layer->output = vw__make_linear(run, "dense", hidden, hidden, has_bias, VW__LINEAR_PLAIN);
    layer->inner =
        vw__make_linear(run, "dense_h_to_4h", hidden, shape->inner, true, VW__LINEAR_PLAIN);
    layer->outer =
        vw__make_linear(run, "dense_4h_to_h", shape->inner, hidden, true, VW__LINEAR_PLAIN);
}

static void build(vw__plan_run *run)
{
    const vw__transformer *shape = &run->model->shape;
    vw__rotary_decoder *decoder = vw__build_rotary_decoder(run, sizeof(neox_layer), build_layer);
    decoder->makes_mask_first = true;
    decoder->keeps_embedding = true;
    decoder->last_norm = vw__make_norm(run, "final_layer_norm", shape->hidden, true);
    decoder->head = shape->is_tied
                        ? vw__tied_head(run, decoder->tokens, shape->hidden, shape->vocabulary)
                        : vw__make_linear(run, "embed_out", shape->hidden, shape->vocabulary, false,
                                          VW__LINEAR_HEAD);
}

/* The values stay a view of the product, and hold it. */
static vw__tensor attend(vw__plan_run *run, const neox_layer *layer, vw__tensor x)
{
    const vw__rotary_decoder *decoder = run->modules;
    vw__attention_shape attention = vw__self_attention(run, run->settings->sequence);
    vw__tape *tape = run->tape;
    vw__tensor parts[3];
    attention.is_causal = true;
    vw__enter(tape, "attention", -1);
    vw__tensor packed = vw__apply_linear(run, x, &layer->qkv);
    vw__split(tape, packed, 3, parts);
    vw__tensor query = vw__rotate_in_decoder(run, parts[0]);
    vw__tensor key = vw__rotate_in_decoder(run, parts[1]);
    vw__drop(tape, &parts[0]);
    vw__drop(tape, &parts[1]);
    vw__tensor result = vw__apply_attention(run, query, key, parts[2], decoder->mask, &attention);
    vw__rebind(tape, &result, vw__apply_linear(run, result, &layer->output));
    vw__drop(tape, &key);
    vw__drop(tape, &query);
    vw__drop(tape, &parts[2]);
    vw__drop(tape, &packed);
    vw__leave(tape);
    return result;
}

/* dropout(mlp(norm_2(x))) */
static vw__tensor feed(vw__plan_run *run, const neox_layer *layer, vw__tensor x)
{
    vw__tensor normal = vw__apply_layer_norm(run, x, &layer->norm_2);
    vw__tensor fed = vw__apply_mlp(run, normal, &layer->inner, &layer->outer, false);
    vw__drop(run->tape, &normal);
    vw__rebind(run->tape, &fed,
               vw__apply_dropout(run, fed, run->model->shape.has_residual_dropout));
    return fed;
}

/* mlp + attention + x; or one after the other, where the model is such. */
static vw__tensor block(vw__plan_run *run, const void *place, vw__tensor x)
{
    const neox_layer *layer = place;
    const vw__transformer *shape = &run->model->shape;
    vw__tape *tape = run->tape;
    vw__tensor normal = vw__apply_layer_norm(run, x, &layer->norm_1);
    vw__tensor attended = attend(run, layer, normal);
    vw__drop(tape, &normal);
    vw__rebind(tape, &attended, vw__apply_dropout(run, attended, shape->has_residual_dropout));
    if (shape->is_sequential)
        vw__rebind(tape, &attended, vw__add(tape, attended, x));
    vw__tensor fed = feed(run, layer, shape->is_sequential ? attended : x);
    vw__tensor made = vw__add(tape, fed, attended);
    if (!shape->is_sequential)
        vw__rebind(tape, &made, vw__add(tape, made, x));
    vw__drop(tape, &fed);
    vw__drop(tape, &attended);
    return made;
}

static vw__tensor forward(vw__plan_run *run)
{
    return vw__run_rotary_decoder(run, block);
}

const vw__family vw__family_gpt_neox = {
    .name = "gpt_neox",
    .model_types = (const char *const[]){"gpt_neox", NULL},
    .usual_length = vw__usual_positions,
    .read = vw__read_gpt_neox,
    .build = build,
    .forward = forward,
    .generate = vw__generate,
};
