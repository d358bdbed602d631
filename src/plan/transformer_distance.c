/* transformer_distance.c - attention that also reads how far tokens are apart, after transformers'
 * modeling_deberta_v2.py.
 *
 * There is a row for each distance, the same for all layers. A layer projects these rows to keys
 * and queries too, for every sample; a product of all queries with the distances' keys has a column
 * for each distance, from which gather() takes the one that each pair of tokens has. The same is
 * done with keys and the distances' queries. gather() saves what it takes from. */
#include "plan/transformer.h"

void vw__plan_make_distances(vw__plan_run *run, vw__plan_layer_stack *stack)
{
    const vw__plan_shape *shape = &run->model->shape;
    stack->distance_rows = vw__module_make_table(run, 2 * shape->attention.span, shape->hidden);
    if (shape->norm.is_of_distances)
        stack->distance_norm =
            vw__module_make_norm(run, "LayerNorm", shape->hidden, run->model->family->style->norm);
}

void vw__plan_make_distance_modules(vw__plan_run *run, vw__plan_attention_module *module)
{
    const vw__plan_attention *shape = &run->model->shape.attention;
    const uint64_t hidden = run->model->shape.hidden;
    if (shape->shares_distance_modules)
        return;
    if (shape->has_distance_keys)
        module->distance_key = vw__module_make_linear(run, "pos_key_proj", hidden, hidden, true,
                                                      VW__MODULE_LINEAR_PLAIN);
    if (shape->has_distance_queries)
        module->distance_query = vw__module_make_linear(run, "pos_query_proj", hidden, hidden, true,
                                                        VW__MODULE_LINEAR_PLAIN);
}

/* The rows' norm, each pair's distance, and who may see whom: a number for each pair. */
void vw__plan_make_distance_tables(vw__plan_run *run, vw__plan_layer_stack *stack)
{
    const uint64_t pairs = vw__tape_times(run->tape, stack->queries, stack->queries);
    stack->mask = vw__tensor_new(run->tape, vw__tape_times(run->tape, pairs, run->settings->batch),
                                 VW__DTYPE_FLOAT32);
    stack->bias = vw__tensor_new(run->tape, pairs, VW__DTYPE_INT64);
    stack->distances = run->model->shape.norm.is_of_distances
                           ? vw__module_apply_norm(run, stack->distance_rows, &stack->distance_norm)
                           : vw__tensor_hold(run->tape, stack->distance_rows);
}

/* A product, with heads before tokens. */
static vw__tensor project(vw__plan_run *run, vw__tensor x, const vw__module_linear *module)
{
    vw__tensor made = vw__module_apply_linear(run, x, module);
    vw__tensor_rebind(run->tape, &made, vw__op_contiguous(run->tape, made));
    return made;
}

/* Of all distances, for every sample. */
static vw__tensor project_distances(vw__plan_run *run, vw__tensor rows,
                                    const vw__module_linear *module)
{
    vw__tensor made = project(run, rows, module);
    const uint64_t elements = vw__tape_times(run->tape, made.elements, run->settings->batch);
    vw__tensor_rebind(
        run->tape, &made,
        vw__op_apply(run->tape, made, (vw__op_unary){.elements = elements, .dtype = made.dtype}));
    return made;
}

/* What each pair of tokens has of `heads` times the distances, scaled. */
static vw__tensor score(vw__plan_run *run, vw__tensor heads, vw__tensor distances, uint64_t pairs)
{
    vw__tape *tape = run->tape;
    const vw__plan_shape *shape = &run->model->shape;
    const uint64_t rows = heads.elements / shape->attention.head_width;
    const uint64_t length = run->settings->sequence;
    vw__tensor all = vw__op_matmul(tape, heads, distances,
                                   vw__tape_times(tape, rows, 2 * shape->attention.span));
    vw__tensor places = vw__tensor_new(tape, vw__tape_times(tape, length, length), VW__DTYPE_INT64);
    vw__tensor_rebind(tape, &all, vw__op_gather(tape, all, places, pairs));
    vw__tensor_drop(tape, &places);
    vw__tensor_rebind(tape, &all, vw__op_mul_scalar(tape, all));
    return all;
}

/* The sum of both kinds of scores; no tensor where a model has neither. */
static vw__tensor score_distances(vw__plan_run *run, const vw__plan_attention_module *module,
                                  vw__tensor rows, vw__tensor query, vw__tensor key, uint64_t pairs)
{
    vw__tape *tape = run->tape;
    const vw__plan_attention *shape = &run->model->shape.attention;
    const bool is_shared = shape->shares_distance_modules;
    vw__tensor queries = vw__tensor_none(), keys = vw__tensor_none(), made = vw__tensor_none();
    if (shape->has_distance_queries)
        queries =
            project_distances(run, rows, is_shared ? &module->query : &module->distance_query);
    if (shape->has_distance_keys)
        keys = project_distances(run, rows, is_shared ? &module->key : &module->distance_key);
    if (shape->has_distance_keys) {
        vw__tensor part = score(run, query, keys, pairs);
        made = vw__op_add_scalar(tape, part);
        vw__tensor_drop(tape, &part);
    }
    if (shape->has_distance_queries) {
        vw__tensor part = score(run, key, queries, pairs);
        if (vw__tensor_exists(made))
            vw__op_add_in_place(tape, &made, part);
        else
            made = vw__op_add_scalar(tape, part);
        vw__tensor_drop(tape, &part);
    }
    vw__tensor_drop(tape, &keys);
    vw__tensor_drop(tape, &queries);
    return made;
}

/* Fills what is hidden: the derivative keeps where that is. */
static void hide(vw__plan_run *run, const vw__plan_layer_stack *stack, vw__tensor *scores)
{
    vw__tensor seen = vw__tensor_new(run->tape, stack->mask.elements, VW__DTYPE_BOOL);
    vw__tensor hidden = vw__tensor_new(run->tape, stack->mask.elements, VW__DTYPE_BOOL);
    vw__tensor_rebind(run->tape, scores, vw__op_where(run->tape, hidden, *scores));
    vw__tensor_drop(run->tape, &hidden);
    vw__tensor_drop(run->tape, &seen);
}

vw__tensor vw__plan_attend_by_distance(vw__plan_run *run, const vw__plan_layer *layer, vw__tensor x)
{
    vw__tape *tape = run->tape;
    const vw__plan_shape *shape = &run->model->shape;
    const vw__plan_attention_module *module = &layer->self;
    const uint64_t rows = vw__tape_times(tape, run->settings->batch, run->settings->sequence) *
                          shape->attention.heads;
    const uint64_t pairs = vw__tape_times(tape, rows, run->settings->sequence);
    vw__tensor query = project(run, x, &module->query), key = project(run, x, &module->key);
    vw__tensor value = project(run, x, &module->value);
    vw__tensor scaled = vw__op_mul_scalar(tape, key);
    vw__tensor scores = vw__op_matmul(tape, query, scaled, pairs);
    vw__tensor_drop(tape, &scaled);
    vw__tensor distances =
        vw__module_apply_dropout(run, layer->stack->distances, shape->has_residual_dropout);
    vw__tensor bias = score_distances(run, module, distances, query, key, pairs);
    if (vw__tensor_exists(bias))
        vw__tensor_rebind(tape, &scores, vw__op_add(tape, scores, bias));
    hide(run, layer->stack, &scores);
    vw__tensor_rebind(tape, &scores, vw__op_softmax(tape, scores));
    vw__tensor_rebind(tape, &scores,
                      vw__module_apply_dropout(run, scores, shape->attention.has_dropout));
    vw__tensor context = vw__op_matmul(tape, scores, value, x.elements);
    vw__tensor_rebind(tape, &context, vw__op_contiguous(tape, context));
    vw__tensor_drop(tape, &bias);
    vw__tensor_drop(tape, &distances);
    vw__tensor_drop(tape, &scores);
    vw__tensor_drop(tape, &value);
    vw__tensor_drop(tape, &key);
    vw__tensor_drop(tape, &query);
    return context;
}
