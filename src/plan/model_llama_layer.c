/* model_llama_layer.c - one layer of a decoder of Llama's kind: norm, attention, norm, MLP. */
#include "plan/model_llama.h"

/* ---- parameters ------------------------------------------------------------------------------ */

static void build_attention(hr__plan_run *run, hr__llama_layer *layer)
{
    const hr__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden, wide = shape->heads * shape->head_width;
    uint64_t narrow = shape->key_heads * shape->head_width;
    bool has_bias = shape->has_query_bias;
    if (shape->has_packed_weights) {
        layer->packed_qkv = hr__make_linear(run, "qkv_proj", hidden, wide + 2 * narrow, has_bias,
                                            HR__LINEAR_ADAPTED);
    } else {
        layer->query = hr__make_linear(run, "q_proj", hidden, wide, has_bias, HR__LINEAR_ADAPTED);
        layer->key = hr__make_linear(run, "k_proj", hidden, narrow, has_bias, HR__LINEAR_PLAIN);
        layer->value = hr__make_linear(run, "v_proj", hidden, narrow, has_bias, HR__LINEAR_ADAPTED);
    }
    layer->output =
        hr__make_linear(run, "o_proj", wide, hidden, shape->has_output_bias, HR__LINEAR_PLAIN);
    if (shape->has_query_norm) {
        layer->query_norm = hr__make_norm(run, "q_norm", shape->head_width, false);
        layer->key_norm = hr__make_norm(run, "k_norm", shape->head_width, false);
    }
}

static void build_mlp(hr__plan_run *run, hr__llama_layer *layer)
{
    const hr__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden, inner = shape->inner;
    bool has_bias = shape->has_mlp_bias;
    if (shape->experts > 0) {
        layer->experts = hr__make_experts(run);
        return;
    }
    if (shape->has_packed_weights) {
        layer->packed_gate_up =
            hr__make_linear(run, "gate_up_proj", hidden, 2 * inner, has_bias, HR__LINEAR_PLAIN);
    } else {
        layer->gate = hr__make_linear(run, "gate_proj", hidden, inner, has_bias, HR__LINEAR_PLAIN);
        layer->up = hr__make_linear(run, "up_proj", hidden, inner, has_bias, HR__LINEAR_PLAIN);
    }
    layer->down = hr__make_linear(run, "down_proj", inner, hidden, has_bias, HR__LINEAR_PLAIN);
}

bool hr__has_window(const hr__transformer *shape, uint64_t layer)
{
    if (shape->window == 0 || layer < shape->window_from)
        return false;
    if (shape->windows != NULL)
        return shape->windows[layer];
    return shape->window_period == 0 || (layer + 1) % shape->window_period != 0;
}

void hr__llama_build_layer(hr__plan_run *run, hr__llama_layer *layer, uint64_t number)
{
    const hr__transformer *shape = &run->model->shape;
    layer->has_window = hr__has_window(shape, number);
    build_attention(run, layer);
    build_mlp(run, layer);
    layer->norm_1 = hr__make_norm(run, "input_layernorm", shape->hidden, false);
    if (shape->has_outer_norms) {
        layer->after_attention =
            hr__make_norm(run, "post_attention_layernorm", shape->hidden, false);
        layer->norm_2 = hr__make_norm(run, "pre_feedforward_layernorm", shape->hidden, false);
        layer->after_mlp = hr__make_norm(run, "post_feedforward_layernorm", shape->hidden, false);
    } else {
        layer->norm_2 = hr__make_norm(run, "post_attention_layernorm", shape->hidden, false);
    }
}

/* ---- attention ------------------------------------------------------------------------------- */

static hr__attention_shape attention_shape(const hr__plan_run *run, const hr__llama_layer *layer)
{
    const hr__transformer *shape = &run->model->shape;
    hr__attention_shape attention = hr__self_attention(run, run->settings->sequence);
    attention.window = layer->has_window ? shape->window : 0;
    attention.is_causal = true;
    attention.is_query_joined = shape->has_packed_weights;
    attention.has_capped_scores = shape->has_capped_scores;
    return attention;
}

/* Slices of one product, which they hold. */
static void project_packed(hr__plan_run *run, const hr__llama_layer *layer, hr__tensor x,
                           hr__tensor *query, hr__tensor *key, hr__tensor *value)
{
    const hr__transformer *shape = &run->model->shape;
    hr__tensor packed = hr__apply_linear(run, x, &layer->packed_qkv);
    uint64_t head = packed.elements / (shape->heads + 2 * shape->key_heads);
    *query = hr__slice(run->tape, packed, head * shape->heads);
    *key = hr__slice(run->tape, packed, head * shape->key_heads);
    *value = hr__slice(run->tape, packed, head * shape->key_heads);
    hr__drop(run->tape, &packed);
}

static void project(hr__plan_run *run, const hr__llama_layer *layer, hr__tensor x,
                    hr__tensor *query, hr__tensor *key, hr__tensor *value)
{
    if (run->model->shape.has_packed_weights) {
        project_packed(run, layer, x, query, key, value);
        return;
    }
    bool has_norm = run->model->shape.has_query_norm;
    *query = hr__apply_linear(run, x, &layer->query);
    if (has_norm)
        hr__rebind(run->tape, query, hr__apply_rms_norm(run, *query, &layer->query_norm));
    *key = hr__apply_linear(run, x, &layer->key);
    if (has_norm)
        hr__rebind(run->tape, key, hr__apply_rms_norm(run, *key, &layer->key_norm));
    *value = hr__apply_linear(run, x, &layer->value);
}

/* Phi-3 slices and puts together even where all of a head is rotated. */
static hr__tensor rotate(hr__plan_run *run, hr__tensor x)
{
    const hr__transformer *shape = &run->model->shape;
    const hr__llama_modules *modules = run->modules;
    uint64_t width = shape->rotary_width > 0 ? shape->rotary_width : shape->head_width;
    if (!shape->has_packed_weights)
        return hr__rotate(run->tape, x, modules->cosine, modules->sine);
    return hr__rotate_part(run->tape, x, modules->cosine, modules->sine, width, shape->head_width);
}

static hr__tensor attend(hr__plan_run *run, const hr__llama_layer *layer, hr__tensor x)
{
    const hr__llama_modules *modules = run->modules;
    const hr__attention_shape shape = attention_shape(run, layer);
    hr__tape *tape = run->tape;
    hr__tensor query, key, value;
    hr__enter(tape, "attention", -1);
    project(run, layer, x, &query, &key, &value);
    hr__tensor turned_query = rotate(run, query);
    hr__tensor turned_key = rotate(run, key);
    hr__rebind(tape, &query, turned_query);
    hr__rebind(tape, &key, turned_key);
    hr__tensor result = hr__apply_attention(
        run, query, key, value, layer->has_window ? modules->window_mask : modules->mask, &shape);
    hr__rebind(tape, &result, hr__apply_linear(run, result, &layer->output));
    hr__drop(tape, &value);
    hr__drop(tape, &key);
    hr__drop(tape, &query);
    hr__leave(tape);
    return result;
}

/* ---- MLP ------------------------------------------------------------------------------------- */

/* act(gate(x)) * up(x) */
static hr__tensor gated(hr__plan_run *run, const hr__llama_layer *layer, hr__tensor x)
{
    hr__tape *tape = run->tape;
    hr__tensor gate = hr__apply_linear(run, x, &layer->gate);
    hr__rebind(tape, &gate, hr__apply_activation(run, gate));
    hr__tensor up = hr__apply_linear(run, x, &layer->up);
    hr__tensor product = hr__mul(tape, gate, up);
    hr__drop(tape, &up);
    hr__drop(tape, &gate);
    return product;
}

/* up * act(gate), the halves of one product */
static hr__tensor gated_packed(hr__plan_run *run, const hr__llama_layer *layer, hr__tensor x)
{
    hr__tape *tape = run->tape;
    hr__tensor halves[2];
    hr__tensor packed = hr__apply_linear(run, x, &layer->packed_gate_up);
    hr__split(tape, packed, 2, halves);
    hr__tensor active = hr__apply_activation(run, halves[0]);
    hr__tensor product = hr__mul(tape, halves[1], active);
    hr__drop(tape, &active);
    hr__drop(tape, &halves[1]);
    hr__drop(tape, &halves[0]);
    hr__drop(tape, &packed);
    return product;
}

static hr__tensor apply_mlp(hr__plan_run *run, const hr__llama_layer *layer, hr__tensor x)
{
    const hr__transformer *shape = &run->model->shape;
    hr__enter(run->tape, "mlp", -1);
    hr__tensor made = hr__no_tensor();
    if (shape->experts > 0) {
        made = hr__apply_experts(run, &layer->experts, x);
    } else {
        made = shape->has_packed_weights ? gated_packed(run, layer, x) : gated(run, layer, x);
        hr__rebind(run->tape, &made, hr__apply_linear(run, made, &layer->down));
    }
    hr__leave(run->tape);
    return made;
}

/* x + dropout(part), or with a norm behind the part; takes the part over. */
static hr__tensor add_part(hr__plan_run *run, hr__tensor x, hr__tensor part,
                           const hr__norm_module *norm)
{
    const hr__transformer *shape = &run->model->shape;
    if (shape->has_outer_norms)
        hr__rebind(run->tape, &part, hr__apply_rms_norm(run, part, norm));
    hr__rebind(run->tape, &part, hr__apply_dropout(run, part, shape->has_residual_dropout));
    hr__rebind(run->tape, &part, hr__add(run->tape, x, part));
    return part;
}

hr__tensor hr__llama_block(hr__plan_run *run, const void *place, hr__tensor x)
{
    const hr__llama_layer *layer = place;
    hr__tape *tape = run->tape;
    hr__tensor hidden = hr__apply_rms_norm(run, x, &layer->norm_1);
    hr__rebind(tape, &hidden, attend(run, layer, hidden));
    hr__tensor residual = add_part(run, x, hidden, &layer->after_attention);
    hidden = hr__apply_rms_norm(run, residual, &layer->norm_2);
    hr__rebind(tape, &hidden, apply_mlp(run, layer, hidden));
    hidden = add_part(run, residual, hidden, &layer->after_mlp);
    hr__drop(tape, &residual);
    return hidden;
}
