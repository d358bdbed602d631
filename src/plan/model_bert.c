/* model_bert.c - BERT and RoBERTa with their masked-language head, after transformers'
 * modeling_bert.py. */
#include "plan/config_families.h"
#include "plan/plan_run.h"

typedef struct bert_layer {
    hr__linear_module query, key, value, attention_output, inner, outer;
    hr__norm_module norm_1, norm_2;
} bert_layer;

typedef struct bert_modules {
    hr__tensor tokens, types, positions;
    hr__norm_module embedding_norm;
    bert_layer *layers;
    hr__linear_module transform, head;
    hr__norm_module head_norm;
} bert_modules;

static void build_layer(hr__plan_run *run, bert_layer *layer)
{
    const hr__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden;
    layer->query = hr__make_linear(run, "query", hidden, hidden, true, HR__LINEAR_ADAPTED);
    layer->key = hr__make_linear(run, "key", hidden, hidden, true, HR__LINEAR_PLAIN);
    layer->value = hr__make_linear(run, "value", hidden, hidden, true, HR__LINEAR_ADAPTED);
    layer->attention_output =
        hr__make_linear(run, "output", hidden, hidden, true, HR__LINEAR_PLAIN);
    layer->norm_1 = hr__make_norm(run, "LayerNorm", hidden, true);
    layer->inner =
        hr__make_linear(run, "intermediate", hidden, shape->inner, true, HR__LINEAR_PLAIN);
    layer->outer = hr__make_linear(run, "output", shape->inner, hidden, true, HR__LINEAR_PLAIN);
    layer->norm_2 = hr__make_norm(run, "LayerNorm", hidden, true);
}

static void build(hr__plan_run *run)
{
    const hr__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden;
    bert_modules *modules = hr__run_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    modules->tokens = hr__make_table(run, shape->vocabulary, hidden);
    modules->positions = hr__make_table(run, shape->positions, hidden);
    modules->types = hr__make_table(run, shape->token_types, hidden);
    modules->embedding_norm = hr__make_norm(run, "LayerNorm", hidden, true);
    modules->layers = hr__run_alloc(run, shape->layers, sizeof *modules->layers);
    for (uint64_t i = 0; i < shape->layers && hr__tape_status(run->tape) == HR_OK; i++)
        build_layer(run, &modules->layers[i]);
    modules->transform = hr__make_linear(run, "transform", hidden, hidden, true, HR__LINEAR_HEAD);
    modules->head_norm = hr__make_norm(run, "LayerNorm", hidden, true);
    if (shape->is_tied) {
        modules->head = hr__tied_head(run, modules->tokens, hidden, shape->vocabulary);
        modules->head.weights.bias = hr__make_weight(run, shape->vocabulary);
    } else {
        modules->head =
            hr__make_linear(run, "decoder", hidden, shape->vocabulary, true, HR__LINEAR_HEAD);
    }
}

/* dense, dropout, LayerNorm(result + x) */
static hr__tensor apply_output(hr__plan_run *run, hr__tensor fed, hr__tensor x,
                               const hr__linear_module *dense, const hr__norm_module *norm)
{
    hr__tape *tape = run->tape;
    hr__tensor hidden = hr__apply_linear(run, fed, dense);
    hr__rebind(tape, &hidden,
               hr__apply_dropout(run, hidden, run->model->shape.has_residual_dropout));
    hr__tensor sum = hr__add(tape, hidden, x);
    hr__tensor made = hr__apply_layer_norm(run, sum, norm);
    hr__drop(tape, &sum);
    hr__drop(tape, &hidden);
    return made;
}

static hr__tensor attend(hr__plan_run *run, const bert_layer *layer, hr__tensor x)
{
    const hr__attention_shape attention = hr__self_attention(run, run->settings->sequence);
    hr__tape *tape = run->tape;
    hr__enter(tape, "attention", -1);
    hr__tensor query = hr__apply_linear(run, x, &layer->query);
    hr__tensor key = hr__apply_linear(run, x, &layer->key);
    hr__tensor value = hr__apply_linear(run, x, &layer->value);
    hr__tensor result = hr__apply_attention(run, query, key, value, hr__no_tensor(), &attention);
    hr__drop(tape, &value);
    hr__drop(tape, &key);
    hr__drop(tape, &query);
    hr__rebind(tape, &result,
               apply_output(run, result, x, &layer->attention_output, &layer->norm_1));
    hr__leave(tape);
    return result;
}

static hr__tensor block(hr__plan_run *run, const void *place, hr__tensor x)
{
    const bert_layer *layer = place;
    hr__tape *tape = run->tape;
    hr__tensor attended = attend(run, layer, x);
    hr__enter(tape, "mlp", -1);
    hr__tensor inner = hr__apply_linear(run, attended, &layer->inner);
    hr__rebind(tape, &inner, hr__apply_activation(run, inner));
    hr__tensor made = apply_output(run, inner, attended, &layer->outer, &layer->norm_2);
    hr__leave(tape);
    hr__drop(tape, &inner);
    hr__drop(tape, &attended);
    return made;
}

/* BERT has them in a buffer. RoBERTa counts them for every sample: a mask of what is no padding,
 * its running sum, and that as int64, from the offset on. */
static hr__tensor count_positions(hr__plan_run *run)
{
    hr__tape *tape = run->tape;
    uint64_t batch = run->settings->batch, length = run->settings->sequence;
    if (run->model->shape.position_offset == 0)
        return hr__make_ids(run, 1, length);
    hr__tensor sums = hr__make_ids(run, batch, length);
    hr__tensor numbers = hr__make_ids(run, batch, length);
    hr__drop(tape, &sums);
    return numbers;
}

static hr__tensor embed(hr__plan_run *run, const bert_modules *modules, hr__tensor ids)
{
    const hr__transformer *shape = &run->model->shape;
    hr__tape *tape = run->tape;
    hr__enter(tape, "embedding", -1);
    hr__tensor tokens = hr__embedding(tape, ids, modules->tokens, shape->hidden);
    hr__tensor kinds = hr__make_ids(run, run->settings->batch, run->settings->sequence);
    hr__tensor types = hr__embedding(tape, kinds, modules->types, shape->hidden);
    hr__tensor x = hr__add(tape, tokens, types);
    hr__tensor numbers = count_positions(run);
    hr__tensor positions = hr__embedding(tape, numbers, modules->positions, shape->hidden);
    hr__rebind(tape, &x, hr__add(tape, x, positions));
    hr__rebind(tape, &x, hr__apply_layer_norm(run, x, &modules->embedding_norm));
    hr__rebind(tape, &x, hr__apply_dropout(run, x, shape->has_embedding_dropout));
    hr__drop(tape, &positions);
    hr__drop(tape, &numbers);
    hr__drop(tape, &types);
    hr__drop(tape, &kinds);
    hr__drop(tape, &tokens);
    hr__leave(tape);
    return x;
}

static hr__tensor forward(hr__plan_run *run)
{
    const bert_modules *modules = run->modules;
    hr__tape *tape = run->tape;
    hr__tensor ids = hr__make_ids(run, run->settings->batch, run->settings->sequence);
    hr__tensor x = embed(run, modules, ids);
    x = hr__run_blocks(run, block, modules->layers, sizeof *modules->layers,
                       run->model->shape.layers, x);
    hr__enter(tape, "head", -1);
    hr__tensor hidden = hr__apply_linear(run, x, &modules->transform);
    hr__rebind(tape, &hidden, hr__apply_activation(run, hidden));
    hr__rebind(tape, &hidden, hr__apply_layer_norm(run, hidden, &modules->head_norm));
    hr__leave(tape);
    hr__tensor result = hr__apply_head(run, hidden, &modules->head, ids.elements, false);
    hr__drop(tape, &x);
    hr__drop(tape, &ids);
    return result;
}

static uint64_t usual_length(const hr_plan_model *model)
{
    return model->shape.positions - model->shape.position_offset;
}

const hr__family hr__family_bert = {
    .name = "bert",
    .model_types = (const char *const[]){"bert", "roberta", NULL},
    .has_position_table = true,
    .keeps_logits_type = true,
    .has_plain_softmax = true,
    .usual_length = usual_length,
    .read = hr__read_bert,
    .build = build,
    .forward = forward,
};
