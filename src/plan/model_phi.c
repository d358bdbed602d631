/* model_phi.c - Phi-1, Phi-1.5 and Phi-2, after transformers' modeling_phi.py: attention and MLP
 * read the same norm, and only a part of each head is rotated. */
#include "plan/config_families.h"
#include "plan/plan_run.h"
#include "plan/rotary_decoder.h"

typedef struct phi_layer {
    vw__norm_module norm;
    vw__linear_module query, key, value, output, inner, outer;
} phi_layer;

static void build_layer(vw__plan_run *run, void *place)
{
    phi_layer *layer = place;
    const vw__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden, wide = shape->heads * shape->head_width;
    uint64_t narrow = shape->key_heads * shape->head_width;
    layer->query = vw__make_linear(run, "q_proj", hidden, wide, true, VW__LINEAR_ADAPTED);
    layer->key = vw__make_linear(run, "k_proj", hidden, narrow, true, VW__LINEAR_PLAIN);
    layer->value = vw__make_linear(run, "v_proj", hidden, narrow, true, VW__LINEAR_ADAPTED);
    layer->output = vw__make_linear(run, "dense", wide, hidden, true, VW__LINEAR_PLAIN);
    layer->inner = vw__make_linear(run, "fc1", hidden, shape->inner, true, VW__LINEAR_PLAIN);
    layer->outer = vw__make_linear(run, "fc2", shape->inner, hidden, true, VW__LINEAR_PLAIN);
    layer->norm = vw__make_norm(run, "input_layernorm", hidden, true);
}

static void build(vw__plan_run *run)
{
    const vw__transformer *shape = &run->model->shape;
    vw__rotary_decoder *decoder = vw__build_rotary_decoder(run, sizeof(phi_layer), build_layer);
    decoder->last_norm = vw__make_norm(run, "final_layernorm", shape->hidden, true);
    decoder->head =
        vw__make_linear(run, "lm_head", shape->hidden, shape->vocabulary, true, VW__LINEAR_HEAD);
}

static vw__tensor attend(vw__plan_run *run, const phi_layer *layer, vw__tensor x)
{
    const vw__rotary_decoder *decoder = run->modules;
    vw__attention_shape attention = vw__self_attention(run, run->settings->sequence);
    vw__tape *tape = run->tape;
    attention.is_causal = true;
    attention.is_query_joined = true;
    vw__enter(tape, "attention", -1);
    vw__tensor query = vw__apply_linear(run, x, &layer->query);
    vw__tensor key = vw__apply_linear(run, x, &layer->key);
    vw__tensor value = vw__apply_linear(run, x, &layer->value);
    vw__rebind(tape, &query, vw__rotate_in_decoder(run, query));
    vw__rebind(tape, &key, vw__rotate_in_decoder(run, key));
    vw__tensor result = vw__apply_attention(run, query, key, value, decoder->mask, &attention);
    vw__rebind(tape, &result, vw__apply_linear(run, result, &layer->output));
    vw__drop(tape, &value);
    vw__drop(tape, &key);
    vw__drop(tape, &query);
    vw__leave(tape);
    return result;
}

/* dropout(attention(norm(x))) + dropout(mlp(norm(x))) + x */
static vw__tensor block(vw__plan_run *run, const void *place, vw__tensor x)
{
    const phi_layer *layer = place;
    bool has_dropout = run->model->shape.has_residual_dropout;
    vw__tape *tape = run->tape;
    vw__tensor normal = vw__apply_layer_norm(run, x, &layer->norm);
    vw__tensor attended = attend(run, layer, normal);
    vw__rebind(tape, &attended, vw__apply_dropout(run, attended, has_dropout));
    vw__tensor fed = vw__apply_mlp(run, normal, &layer->inner, &layer->outer, false);
    vw__rebind(tape, &fed, vw__apply_dropout(run, fed, has_dropout));
    vw__tensor sum = vw__add(tape, attended, fed);
    vw__tensor made = vw__add(tape, sum, x);
    vw__drop(tape, &sum);
    vw__drop(tape, &fed);
    vw__drop(tape, &attended);
    vw__drop(tape, &normal);
    return made;
}

static vw__tensor forward(vw__plan_run *run)
{
    return vw__run_rotary_decoder(run, block);
}

const vw__family vw__family_phi = {
    .name = "phi",
    .model_types = (const char *const[]){"phi", NULL},
    .usual_length = vw__usual_positions,
    .read = vw__read_phi,
    .build = build,
    .forward = forward,
    .generate = vw__generate,
};
