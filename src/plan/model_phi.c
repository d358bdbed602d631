/* model_phi.c - Phi-1, Phi-1.5 and Phi-2, after transformers' modeling_phi.py: attention and MLP
 * read the same norm, and only a part of each head is rotated. */
#include "plan/config_families.h"
#include "plan/plan_run.h"
#include "plan/rotary_decoder.h"

typedef struct phi_layer {
    hr__norm_module norm;
    hr__linear_module query, key, value, output, inner, outer;
} phi_layer;

static void build_layer(hr__plan_run *run, void *place)
{
    phi_layer *layer = place;
    const hr__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden, wide = shape->heads * shape->head_width;
    uint64_t narrow = shape->key_heads * shape->head_width;
    layer->query = hr__make_linear(run, "q_proj", hidden, wide, true, HR__LINEAR_ADAPTED);
    layer->key = hr__make_linear(run, "k_proj", hidden, narrow, true, HR__LINEAR_PLAIN);
    layer->value = hr__make_linear(run, "v_proj", hidden, narrow, true, HR__LINEAR_ADAPTED);
    layer->output = hr__make_linear(run, "dense", wide, hidden, true, HR__LINEAR_PLAIN);
    layer->inner = hr__make_linear(run, "fc1", hidden, shape->inner, true, HR__LINEAR_PLAIN);
    layer->outer = hr__make_linear(run, "fc2", shape->inner, hidden, true, HR__LINEAR_PLAIN);
    layer->norm = hr__make_norm(run, "input_layernorm", hidden, true);
}

static void build(hr__plan_run *run)
{
    const hr__transformer *shape = &run->model->shape;
    hr__rotary_decoder *decoder = hr__build_rotary_decoder(run, sizeof(phi_layer), build_layer);
    decoder->last_norm = hr__make_norm(run, "final_layernorm", shape->hidden, true);
    decoder->head =
        hr__make_linear(run, "lm_head", shape->hidden, shape->vocabulary, true, HR__LINEAR_HEAD);
}

static hr__tensor attend(hr__plan_run *run, const phi_layer *layer, hr__tensor x)
{
    const hr__rotary_decoder *decoder = run->modules;
    hr__attention_shape attention = hr__self_attention(run, run->settings->sequence);
    hr__tape *tape = run->tape;
    attention.is_causal = true;
    attention.is_query_joined = true;
    hr__enter(tape, "attention", -1);
    hr__tensor query = hr__apply_linear(run, x, &layer->query);
    hr__tensor key = hr__apply_linear(run, x, &layer->key);
    hr__tensor value = hr__apply_linear(run, x, &layer->value);
    hr__rebind(tape, &query, hr__rotate_in_decoder(run, query));
    hr__rebind(tape, &key, hr__rotate_in_decoder(run, key));
    hr__tensor result = hr__apply_attention(run, query, key, value, decoder->mask, &attention);
    hr__rebind(tape, &result, hr__apply_linear(run, result, &layer->output));
    hr__drop(tape, &value);
    hr__drop(tape, &key);
    hr__drop(tape, &query);
    hr__leave(tape);
    return result;
}

/* dropout(attention(norm(x))) + dropout(mlp(norm(x))) + x */
static hr__tensor block(hr__plan_run *run, const void *place, hr__tensor x)
{
    const phi_layer *layer = place;
    bool has_dropout = run->model->shape.has_residual_dropout;
    hr__tape *tape = run->tape;
    hr__tensor normal = hr__apply_layer_norm(run, x, &layer->norm);
    hr__tensor attended = attend(run, layer, normal);
    hr__rebind(tape, &attended, hr__apply_dropout(run, attended, has_dropout));
    hr__tensor fed = hr__apply_mlp(run, normal, &layer->inner, &layer->outer, false);
    hr__rebind(tape, &fed, hr__apply_dropout(run, fed, has_dropout));
    hr__tensor sum = hr__add(tape, attended, fed);
    hr__tensor made = hr__add(tape, sum, x);
    hr__drop(tape, &sum);
    hr__drop(tape, &fed);
    hr__drop(tape, &attended);
    hr__drop(tape, &normal);
    return made;
}

static hr__tensor forward(hr__plan_run *run)
{
    return hr__run_rotary_decoder(run, block);
}

const hr__family hr__family_phi = {
    .name = "phi",
    .model_types = (const char *const[]){"phi", NULL},
    .usual_length = hr__usual_positions,
    .read = hr__read_phi,
    .build = build,
    .forward = forward,
    .generate = hr__generate,
};
