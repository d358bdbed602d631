/* model_bert.c - BERT and RoBERTa with their masked-language head, after transformers'
 * modeling_bert.py. */
#include "plan/config_families.h"
#include "plan/plan_run.h"

typedef struct bert_layer {
    vw__linear_module query, key, value, attention_output, inner, outer;
    vw__norm_module norm_1, norm_2;
} bert_layer;

typedef struct bert_modules {
    vw__tensor tokens, types, positions;
    vw__norm_module embedding_norm;
    bert_layer *layers;
    vw__linear_module transform, head;
    vw__norm_module head_norm;
} bert_modules;

static void build_layer(vw__plan_run *run, bert_layer *layer)
{
    const vw__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden;
    layer->query = vw__make_linear(run, "query", hidden, hidden, true, VW__LINEAR_ADAPTED);
    layer->key = vw__make_linear(run, "key", hidden, hidden, true, VW__LINEAR_PLAIN);
    layer->value = vw__make_linear(run, "value", hidden, hidden, true, VW__LINEAR_ADAPTED);
    layer->attention_output =
        vw__make_linear(run, "output", hidden, hidden, true, VW__LINEAR_PLAIN);
    layer->norm_1 = vw__make_norm(run, "LayerNorm", hidden, true);
    layer->inner =
        vw__make_linear(run, "intermediate", hidden, shape->inner, true, VW__LINEAR_PLAIN);
    layer->outer = vw__make_linear(run, "output", shape->inner, hidden, true, VW__LINEAR_PLAIN);
    layer->norm_2 = vw__make_norm(run, "LayerNorm", hidden, true);
}

static void build(vw__plan_run *run)
{
    const vw__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden;
    bert_modules *modules = vw__run_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    modules->tokens = vw__make_table(run, shape->vocabulary, hidden);
    modules->positions = vw__make_table(run, shape->positions, hidden);
    modules->types = vw__make_table(run, shape->token_types, hidden);
    modules->embedding_norm = vw__make_norm(run, "LayerNorm", hidden, true);
    modules->layers = vw__run_alloc(run, shape->layers, sizeof *modules->layers);
    for (uint64_t i = 0; i < shape->layers && vw__tape_status(run->tape) == VW_OK; i++)
        build_layer(run, &modules->layers[i]);
    modules->transform = vw__make_linear(run, "transform", hidden, hidden, true, VW__LINEAR_HEAD);
    modules->head_norm = vw__make_norm(run, "LayerNorm", hidden, true);
    if (shape->is_tied) {
        modules->head = vw__tied_head(run, modules->tokens, hidden, shape->vocabulary);
        modules->head.weights.bias = vw__make_weight(run, shape->vocabulary);
    } else {
        modules->head =
            vw__make_linear(run, "decoder", hidden, shape->vocabulary, true, VW__LINEAR_HEAD);
    }
}

/* dense, dropout, LayerNorm(result + x) */
static vw__tensor apply_output(vw__plan_run *run, vw__tensor fed, vw__tensor x,
                               const vw__linear_module *dense, const vw__norm_module *norm)
{
    vw__tape *tape = run->tape;
    vw__tensor hidden = vw__apply_linear(run, fed, dense);
    vw__rebind(tape, &hidden,
               vw__apply_dropout(run, hidden, run->model->shape.has_residual_dropout));
    vw__tensor sum = vw__add(tape, hidden, x);
    vw__tensor made = vw__apply_layer_norm(run, sum, norm);
    vw__drop(tape, &sum);
    vw__drop(tape, &hidden);
    return made;
}

static vw__tensor attend(vw__plan_run *run, const bert_layer *layer, vw__tensor x)
{
    const vw__attention_shape attention = vw__self_attention(run, run->settings->sequence);
    vw__tape *tape = run->tape;
    vw__enter(tape, "attention", -1);
    vw__tensor query = vw__apply_linear(run, x, &layer->query);
    vw__tensor key = vw__apply_linear(run, x, &layer->key);
    vw__tensor value = vw__apply_linear(run, x, &layer->value);
    vw__tensor result = vw__apply_attention(run, query, key, value, vw__no_tensor(), &attention);
    vw__drop(tape, &value);
    vw__drop(tape, &key);
    vw__drop(tape, &query);
    vw__rebind(tape, &result,
               apply_output(run, result, x, &layer->attention_output, &layer->norm_1));
    vw__leave(tape);
    return result;
}

static vw__tensor block(vw__plan_run *run, const void *place, vw__tensor x)
{
    const bert_layer *layer = place;
    vw__tape *tape = run->tape;
    vw__tensor attended = attend(run, layer, x);
    vw__enter(tape, "mlp", -1);
    vw__tensor inner = vw__apply_linear(run, attended, &layer->inner);
    vw__rebind(tape, &inner, vw__apply_activation(run, inner));
    vw__tensor made = apply_output(run, inner, attended, &layer->outer, &layer->norm_2);
    vw__leave(tape);
    vw__drop(tape, &inner);
    vw__drop(tape, &attended);
    return made;
}

/* BERT has them in a buffer. RoBERTa counts them for every sample: a mask of what is no padding,
 * its running sum, and that as int64, from the offset on. */
static vw__tensor count_positions(vw__plan_run *run)
{
    vw__tape *tape = run->tape;
    uint64_t batch = run->settings->batch, length = run->settings->sequence;
    if (run->model->shape.position_offset == 0)
        return vw__make_ids(run, 1, length);
    vw__tensor sums = vw__make_ids(run, batch, length);
    vw__tensor numbers = vw__make_ids(run, batch, length);
    vw__drop(tape, &sums);
    return numbers;
}

static vw__tensor embed(vw__plan_run *run, const bert_modules *modules, vw__tensor ids)
{
    const vw__transformer *shape = &run->model->shape;
    vw__tape *tape = run->tape;
    vw__enter(tape, "embedding", -1);
    vw__tensor tokens = vw__embedding(tape, ids, modules->tokens, shape->hidden);
    vw__tensor kinds = vw__make_ids(run, run->settings->batch, run->settings->sequence);
    vw__tensor types = vw__embedding(tape, kinds, modules->types, shape->hidden);
    vw__tensor x = vw__add(tape, tokens, types);
    vw__tensor numbers = count_positions(run);
    vw__tensor positions = vw__embedding(tape, numbers, modules->positions, shape->hidden);
    vw__rebind(tape, &x, vw__add(tape, x, positions));
    vw__rebind(tape, &x, vw__apply_layer_norm(run, x, &modules->embedding_norm));
    vw__rebind(tape, &x, vw__apply_dropout(run, x, shape->has_embedding_dropout));
    vw__drop(tape, &positions);
    vw__drop(tape, &numbers);
    vw__drop(tape, &types);
    vw__drop(tape, &kinds);
    vw__drop(tape, &tokens);
    vw__leave(tape);
    return x;
}

static vw__tensor forward(vw__plan_run *run)
{
    const bert_modules *modules = run->modules;
    vw__tape *tape = run->tape;
    vw__tensor ids = vw__make_ids(run, run->settings->batch, run->settings->sequence);
    vw__tensor x = embed(run, modules, ids);
    x = vw__run_blocks(run, block, modules->layers, sizeof *modules->layers,
                       run->model->shape.layers, x);
    vw__enter(tape, "head", -1);
    vw__tensor hidden = vw__apply_linear(run, x, &modules->transform);
    vw__rebind(tape, &hidden, vw__apply_activation(run, hidden));
    vw__rebind(tape, &hidden, vw__apply_layer_norm(run, hidden, &modules->head_norm));
    vw__leave(tape);
    vw__tensor result = vw__apply_head(run, hidden, &modules->head, ids.elements, false);
    vw__drop(tape, &x);
    vw__drop(tape, &ids);
    return result;
}

static uint64_t usual_length(const vw_plan_model *model)
{
    return model->shape.positions - model->shape.position_offset;
}

const vw__family vw__family_bert = {
    .name = "bert",
    .model_types = (const char *const[]){"bert", "roberta", NULL},
    .has_position_table = true,
    .keeps_logits_type = true,
    .has_plain_softmax = true,
    .usual_length = usual_length,
    .read = vw__read_bert,
    .build = build,
    .forward = forward,
};
