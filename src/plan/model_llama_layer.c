/* model_llama_layer.c - one layer of a decoder of Llama's kind: norm, attention, norm, MLP. */
#include "plan/model_llama.h"

/* ---- parameters ------------------------------------------------------------------------------ */

static void build_attention(vw__plan_run *run, vw__llama_layer *layer)
{
    const vw__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden, wide = shape->heads * shape->head_width;
    uint64_t narrow = shape->key_heads * shape->head_width;
    bool has_bias = shape->has_query_bias;
    if (shape->has_packed_weights) {
        layer->packed_qkv = vw__make_linear(run, "qkv_proj", hidden, wide + 2 * narrow, has_bias,
                                            VW__LINEAR_ADAPTED);
    } else {
        layer->query = vw__make_linear(run, "q_proj", hidden, wide, has_bias, VW__LINEAR_ADAPTED);
        layer->key = vw__make_linear(run, "k_proj", hidden, narrow, has_bias, VW__LINEAR_PLAIN);
        layer->value = vw__make_linear(run, "v_proj", hidden, narrow, has_bias, VW__LINEAR_ADAPTED);
    }
    layer->output =
        vw__make_linear(run, "o_proj", wide, hidden, shape->has_output_bias, VW__LINEAR_PLAIN);
    if (shape->has_query_norm) {
        layer->query_norm = vw__make_norm(run, "q_norm", shape->head_width, false);
        layer->key_norm = vw__make_norm(run, "k_norm", shape->head_width, false);
    }
}

static void build_mlp(vw__plan_run *run, vw__llama_layer *layer)
{
    const vw__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden, inner = shape->inner;
    bool has_bias = shape->has_mlp_bias;
    if (shape->experts > 0) {
        layer->experts = vw__make_experts(run);
        return;
    }
    if (shape->has_packed_weights) {
        layer->packed_gate_up =
            vw__make_linear(run, "gate_up_proj", hidden, 2 * inner, has_bias, VW__LINEAR_PLAIN);
    } else {
        layer->gate = vw__make_linear(run, "gate_proj", hidden, inner, has_bias, VW__LINEAR_PLAIN);
        layer->up = vw__make_linear(run, "up_proj", hidden, inner, has_bias, VW__LINEAR_PLAIN);
    }
    layer->down = vw__make_linear(run, "down_proj", inner, hidden, has_bias, VW__LINEAR_PLAIN);
}

bool vw__has_window(const vw__transformer *shape, uint64_t layer)
{
    if (shape->window == 0 || layer < shape->window_from)
        return false;
    if (shape->windows != NULL)
        return shape->windows[layer];
    return shape->window_period == 0 || (layer + 1) % shape->window_period != 0;
}

void vw__llama_build_layer(vw__plan_run *run, vw__llama_layer *layer, uint64_t number)
{
    const vw__transformer *shape = &run->model->shape;
    layer->has_window = vw__has_window(shape, number);
    build_attention(run, layer);
    build_mlp(run, layer);
    layer->norm_1 = vw__make_norm(run, "input_layernorm", shape->hidden, false);
    if (shape->has_outer_norms) {
        layer->after_attention =
            vw__make_norm(run, "post_attention_layernorm", shape->hidden, false);
        layer->norm_2 = vw__make_norm(run, "pre_feedforward_layernorm", shape->hidden, false);
        layer->after_mlp = vw__make_norm(run, "post_feedforward_layernorm", shape->hidden, false);
    } else {
        layer->norm_2 = vw__make_norm(run, "post_attention_layernorm", shape->hidden, false);
    }
}

/* ---- attention ------------------------------------------------------------------------------- */

static vw__attention_shape attention_shape(const vw__plan_run *run, const vw__llama_layer *layer)
{
    const vw__transformer *shape = &run->model->shape;
    vw__attention_shape attention = vw__self_attention(run, run->settings->sequence);
    attention.window = layer->has_window ? shape->window : 0;
    attention.is_causal = true;
    attention.is_query_joined = shape->has_packed_weights;
    attention.has_capped_scores = shape->has_capped_scores;
    return attention;
}

/* Slices of one product, which they hold. */
static void project_packed(vw__plan_run *run, const vw__llama_layer *layer, vw__tensor x,
                           vw__tensor *query, vw__tensor *key, vw__tensor *value)
{
    const vw__transformer *shape = &run->model->shape;
    vw__tensor packed = vw__apply_linear(run, x, &layer->packed_qkv);
    uint64_t head = packed.elements / (shape->heads + 2 * shape->key_heads);
    *query = vw__slice(run->tape, packed, head * shape->heads);
    *key = vw__slice(run->tape, packed, head * shape->key_heads);
    *value = vw__slice(run->tape, packed, head * shape->key_heads);
    vw__drop(run->tape, &packed);
}

static void project(vw__plan_run *run, const vw__llama_layer *layer, vw__tensor x,
                    vw__tensor *query, vw__tensor *key, vw__tensor *value)
{
    if (run->model->shape.has_packed_weights) {
        project_packed(run, layer, x, query, key, value);
        return;
    }
    bool has_norm = run->model->shape.has_query_norm;
    *query = vw__apply_linear(run, x, &layer->query);
    if (has_norm)
        vw__rebind(run->tape, query, vw__apply_rms_norm(run, *query, &layer->query_norm));
    *key = vw__apply_linear(run, x, &layer->key);
    if (has_norm)
        vw__rebind(run->tape, key, vw__apply_rms_norm(run, *key, &layer->key_norm));
    *value = vw__apply_linear(run, x, &layer->value);
}

/* Phi-3 slices and puts together even where all of a head is rotated. */
static vw__tensor rotate(vw__plan_run *run, vw__tensor x)
{
    const vw__transformer *shape = &run->model->shape;
    const vw__llama_modules *modules = run->modules;
    uint64_t width = shape->rotary_width > 0 ? shape->rotary_width : shape->head_width;
    if (!shape->has_packed_weights)
        return vw__rotate(run->tape, x, modules->cosine, modules->sine);
    return vw__rotate_part(run->tape, x, modules->cosine, modules->sine, width, shape->head_width);
}

static vw__tensor attend(vw__plan_run *run, const vw__llama_layer *layer, vw__tensor x)
{
    const vw__llama_modules *modules = run->modules;
    const vw__attention_shape shape = attention_shape(run, layer);
    vw__tape *tape = run->tape;
    vw__tensor query, key, value;
    vw__enter(tape, "attention", -1);
    project(run, layer, x, &query, &key, &value);
    vw__tensor turned_query = rotate(run, query);
    vw__tensor turned_key = rotate(run, key);
    vw__rebind(tape, &query, turned_query);
    vw__rebind(tape, &key, turned_key);
    vw__tensor result = vw__apply_attention(
        run, query, key, value, layer->has_window ? modules->window_mask : modules->mask, &shape);
    vw__rebind(tape, &result, vw__apply_linear(run, result, &layer->output));
    vw__drop(tape, &value);
    vw__drop(tape, &key);
    vw__drop(tape, &query);
    vw__leave(tape);
    return result;
}

/* ---- MLP ------------------------------------------------------------------------------------- */

/* act(gate(x)) * up(x) */
static vw__tensor gated(vw__plan_run *run, const vw__llama_layer *layer, vw__tensor x)
{
    vw__tape *tape = run->tape;
    vw__tensor gate = vw__apply_linear(run, x, &layer->gate);
    vw__rebind(tape, &gate, vw__apply_activation(run, gate));
    vw__tensor up = vw__apply_linear(run, x, &layer->up);
    vw__tensor product = vw__mul(tape, gate, up);
    vw__drop(tape, &up);
    vw__drop(tape, &gate);
    return product;
}

/* up * act(gate), the halves of one product */
static vw__tensor gated_packed(vw__plan_run *run, const vw__llama_layer *layer, vw__tensor x)
{
    vw__tape *tape = run->tape;
    vw__tensor halves[2];
    vw__tensor packed = vw__apply_linear(run, x, &layer->packed_gate_up);
    vw__split(tape, packed, 2, halves);
    vw__tensor active = vw__apply_activation(run, halves[0]);
    vw__tensor product = vw__mul(tape, halves[1], active);
    vw__drop(tape, &active);
    vw__drop(tape, &halves[1]);
    vw__drop(tape, &halves[0]);
    vw__drop(tape, &packed);
    return product;
}

static vw__tensor apply_mlp(vw__plan_run *run, const vw__llama_layer *layer, vw__tensor x)
{
    const vw__transformer *shape = &run->model->shape;
    vw__enter(run->tape, "mlp", -1);
    vw__tensor made = vw__no_tensor();
    if (shape->experts > 0) {
        made = vw__apply_experts(run, &layer->experts, x);
    } else {
        made = shape->has_packed_weights ? gated_packed(run, layer, x) : gated(run, layer, x);
        vw__rebind(run->tape, &made, vw__apply_linear(run, made, &layer->down));
    }
    vw__leave(run->tape);
    return made;
}

/* x + dropout(part), or with a norm behind the part; takes the part over. */
static vw__tensor add_part(vw__plan_run *run, vw__tensor x, vw__tensor part,
                           const vw__norm_module *norm)
{
    const vw__transformer *shape = &run->model->shape;
    if (shape->has_outer_norms)
        vw__rebind(run->tape, &part, vw__apply_rms_norm(run, part, norm));
    vw__rebind(run->tape, &part, vw__apply_dropout(run, part, shape->has_residual_dropout));
    vw__rebind(run->tape, &part, vw__add(run->tape, x, part));
    return part;
}

vw__tensor vw__llama_block(vw__plan_run *run, const void *place, vw__tensor x)
{
    const vw__llama_layer *layer = place;
    vw__tape *tape = run->tape;
    vw__tensor hidden = vw__apply_rms_norm(run, x, &layer->norm_1);
    vw__rebind(tape, &hidden, attend(run, layer, hidden));
    vw__tensor residual = add_part(run, x, hidden, &layer->after_attention);
    hidden = vw__apply_rms_norm(run, residual, &layer->norm_2);
    vw__rebind(tape, &hidden, apply_mlp(run, layer, hidden));
    hidden = add_part(run, residual, hidden, &layer->after_mlp);
    vw__drop(tape, &residual);
    return hidden;
}
