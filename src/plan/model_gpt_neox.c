/* model_gpt_neox.c - GPT-NeoX and Pythia, after transformers' modeling_gpt_neox.py: queries, keys
 * and values are one product, a part of each head is rotated, and attention and MLP read the same
 * input, through a norm each. */
#include "plan/config_families.h"
#include "plan/plan_run.h"
#include "plan/rotary_decoder.h"

typedef struct neox_layer {
    hr__norm_module norm_1, norm_2;
    hr__linear_module qkv, output, inner, outer;
} neox_layer;

static void build_layer(hr__plan_run *run, void *place)
{
    neox_layer *layer = place;
    const hr__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden;
    bool has_bias = shape->has_query_bias;
    layer->norm_1 = hr__make_norm(run, "input_layernorm", hidden, true);
    layer->norm_2 = hr__make_norm(run, "post_attention_layernorm", hidden, true);
    layer->qkv =
        hr__make_linear(run, "query_key_value", hidden, 3 * hidden, has_bias, HR__LINEAR_ADAPTED);
    layer->output = hr__make_linear(run, "dense", hidden, hidden, has_bias, HR__LINEAR_PLAIN);
    layer->inner =
        hr__make_linear(run, "dense_h_to_4h", hidden, shape->inner, true, HR__LINEAR_PLAIN);
    layer->outer =
        hr__make_linear(run, "dense_4h_to_h", shape->inner, hidden, true, HR__LINEAR_PLAIN);
}

static void build(hr__plan_run *run)
{
    const hr__transformer *shape = &run->model->shape;
    hr__rotary_decoder *decoder = hr__build_rotary_decoder(run, sizeof(neox_layer), build_layer);
    decoder->makes_mask_first = true;
    decoder->keeps_embedding = true;
    decoder->last_norm = hr__make_norm(run, "final_layer_norm", shape->hidden, true);
    decoder->head = shape->is_tied
                        ? hr__tied_head(run, decoder->tokens, shape->hidden, shape->vocabulary)
                        : hr__make_linear(run, "embed_out", shape->hidden, shape->vocabulary, false,
                                          HR__LINEAR_HEAD);
}

/* The values stay a view of the product, and hold it. */
static hr__tensor attend(hr__plan_run *run, const neox_layer *layer, hr__tensor x)
{
    const hr__rotary_decoder *decoder = run->modules;
    hr__attention_shape attention = hr__self_attention(run, run->settings->sequence);
    hr__tape *tape = run->tape;
    hr__tensor parts[3];
    attention.is_causal = true;
    hr__enter(tape, "attention", -1);
    hr__tensor packed = hr__apply_linear(run, x, &layer->qkv);
    hr__split(tape, packed, 3, parts);
    hr__tensor query = hr__rotate_in_decoder(run, parts[0]);
    hr__tensor key = hr__rotate_in_decoder(run, parts[1]);
    hr__drop(tape, &parts[0]);
    hr__drop(tape, &parts[1]);
    hr__tensor result = hr__apply_attention(run, query, key, parts[2], decoder->mask, &attention);
    hr__rebind(tape, &result, hr__apply_linear(run, result, &layer->output));
    hr__drop(tape, &key);
    hr__drop(tape, &query);
    hr__drop(tape, &parts[2]);
    hr__drop(tape, &packed);
    hr__leave(tape);
    return result;
}

/* dropout(mlp(norm_2(x))) */
static hr__tensor feed(hr__plan_run *run, const neox_layer *layer, hr__tensor x)
{
    hr__tensor normal = hr__apply_layer_norm(run, x, &layer->norm_2);
    hr__tensor fed = hr__apply_mlp(run, normal, &layer->inner, &layer->outer, false);
    hr__drop(run->tape, &normal);
    hr__rebind(run->tape, &fed,
               hr__apply_dropout(run, fed, run->model->shape.has_residual_dropout));
    return fed;
}

/* mlp + attention + x; or one after the other, where the model is such. */
static hr__tensor block(hr__plan_run *run, const void *place, hr__tensor x)
{
    const neox_layer *layer = place;
    const hr__transformer *shape = &run->model->shape;
    hr__tape *tape = run->tape;
    hr__tensor normal = hr__apply_layer_norm(run, x, &layer->norm_1);
    hr__tensor attended = attend(run, layer, normal);
    hr__drop(tape, &normal);
    hr__rebind(tape, &attended, hr__apply_dropout(run, attended, shape->has_residual_dropout));
    if (shape->is_sequential)
        hr__rebind(tape, &attended, hr__add(tape, attended, x));
    hr__tensor fed = feed(run, layer, shape->is_sequential ? attended : x);
    hr__tensor made = hr__add(tape, fed, attended);
    if (!shape->is_sequential)
        hr__rebind(tape, &made, hr__add(tape, made, x));
    hr__drop(tape, &fed);
    hr__drop(tape, &attended);
    return made;
}

static hr__tensor forward(hr__plan_run *run)
{
    return hr__run_rotary_decoder(run, block);
}

const hr__family hr__family_gpt_neox = {
    .name = "gpt_neox",
    .model_types = (const char *const[]){"gpt_neox", NULL},
    .usual_length = hr__usual_positions,
    .read = hr__read_gpt_neox,
    .build = build,
    .forward = forward,
    .generate = hr__generate,
};
