/* transformer_head.c - what is behind a transformer's layers, by its class: the parameters, and
 * from the last hidden states to a loss, or to what the caller gets.
 *
 * The head is the run's (run->head) and no property of the family. What a classifier is made of
 * differs from model to model: shape.head.classifier. Without a head there are no labels; in
 * training the mean of the hidden states then stands for the loss, as large as any that reads all
 * of them. */
#include "plan/transformer.h"

/* Words of a label: where an answer begins, and where it ends. */
enum { ANSWER_ENDS = 2 };

/* ---- parameters ------------------------------------------------------------------------------ */

static vw__module_linear make_dense(vw__plan_run *run, const char *name,
                                    vw__module_linear_kind kind)
{
    const uint64_t hidden = run->model->shape.hidden;
    return vw__module_make_linear(run, name, hidden, hidden, true, kind);
}

/* What a masked language model has before its head. */
static void make_transform(vw__plan_run *run, vw__plan_transformer *modules,
                           vw__module_linear_kind kind)
{
    const vw__plan_style *style = run->model->family->style;
    const uint64_t width = vw__plan_token_width(run->model);
    modules->transform = vw__module_make_linear(run, style->transform, run->model->shape.hidden,
                                                width, !style->is_transform_unbiased, kind);
    modules->head_norm = vw__module_make_norm(run, style->head_norm, width, style->norm);
}

static void make_vocabulary_head(vw__plan_run *run, vw__plan_transformer *modules)
{
    const vw__plan_style *style = run->model->family->style;
    const vw__plan_shape *shape = &run->model->shape;
    const uint64_t out = shape->embedding.vocabulary;
    const uint64_t width = vw__plan_token_width(run->model);
    if (style->transform != NULL)
        make_transform(run, modules, VW__MODULE_LINEAR_HEAD);
    if (shape->head.is_tied) {
        modules->head = vw__module_tied_head(run, modules->tokens, width, out);
        if (style->has_head_bias)
            modules->head.weights.bias = vw__module_make_weight(run, out);
    } else {
        modules->head = vw__module_make_linear(run, style->head, width, out, style->has_head_bias,
                                               VW__MODULE_LINEAR_HEAD);
    }
    modules->head.has_offset = shape->head.has_offset;
    if (shape->head.has_offset)
        modules->head.offset = vw__module_make_buffer(run, out, run->dtype);
}

/* New layers, which LoRA trains as a whole. */
static vw__module_linear make_scores(vw__plan_run *run, const char *name, uint64_t out,
                                     bool has_bias)
{
    return vw__module_make_linear(run, name, run->model->shape.hidden, out, has_bias,
                                  VW__MODULE_LINEAR_NEW);
}

static void make_classifier(vw__plan_run *run, vw__plan_transformer *modules)
{
    const vw__plan_head *shape = &run->model->shape.head;
    const bool is_of_last = shape->classifier == VW__PLAN_CLASSIFIER_OF_LAST;
    if (shape->classifier == VW__PLAN_CLASSIFIER_OF_TRANSFORM)
        make_transform(run, modules, VW__MODULE_LINEAR_NEW);
    if (shape->classifier == VW__PLAN_CLASSIFIER_OF_POOLER)
        modules->transform = make_dense(run, "pooler", VW__MODULE_LINEAR_PLAIN);
    if (shape->classifier == VW__PLAN_CLASSIFIER_OF_DENSE)
        modules->transform = make_dense(run, "dense", VW__MODULE_LINEAR_NEW);
    modules->head =
        make_scores(run, is_of_last ? "score" : "classifier", shape->labels, !is_of_last);
}

void vw__plan_transformer_make_head(vw__plan_run *run)
{
    vw__plan_transformer *modules = run->modules;
    const vw__plan_head *shape = &run->model->shape.head;
    switch (run->head) {
    case VW_PLAN_HEAD_SEQUENCE_CLASSIFICATION:
        make_classifier(run, modules);
        break;
    case VW_PLAN_HEAD_TOKEN_CLASSIFICATION:
        if (shape->classifier == VW__PLAN_CLASSIFIER_OF_TRANSFORM)
            make_transform(run, modules, VW__MODULE_LINEAR_NEW);
        modules->head = make_scores(run, "classifier", shape->labels, true);
        break;
    case VW_PLAN_HEAD_QUESTION_ANSWERING:
        if (shape->classifier == VW__PLAN_CLASSIFIER_OF_TRANSFORM)
            make_transform(run, modules, VW__MODULE_LINEAR_NEW);
        modules->head = make_scores(run, "qa_outputs", ANSWER_ENDS, true);
        break;
    case VW_PLAN_HEAD_IMAGE_CLASSIFICATION:
        modules->head =
            vw__module_make_linear(run, run->model->family->style->head, run->model->shape.hidden,
                                   shape->labels, true, VW__MODULE_LINEAR_HEAD);
        break;
    case VW_PLAN_HEAD_NONE:
        if (shape->has_pooler)
            modules->transform = make_dense(run, "pooler", VW__MODULE_LINEAR_PLAIN);
        break;
    case VW_PLAN_HEAD_ENCODER:
        break;
    default:
        make_vocabulary_head(run, modules);
    }
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Of a masked language model: transform, norm, and then every token's logits. */
static vw__tensor apply_transform(vw__plan_run *run, vw__tensor x)
{
    const vw__plan_transformer *modules = run->modules;
    vw__tape_enter(run->tape, "head", -1);
    vw__tensor hidden = vw__module_apply_linear(run, x, &modules->transform);
    vw__tensor_rebind(run->tape, &hidden, vw__module_apply_activation(run, hidden));
    vw__tensor_rebind(run->tape, &hidden, vw__module_apply_norm(run, hidden, &modules->head_norm));
    vw__tape_leave(run->tape);
    return hidden;
}

/* The first token of each sample through a dense layer and tanh(); held by the caller. */
static vw__tensor pool(vw__plan_run *run, vw__tensor x, bool drops_first)
{
    const vw__plan_transformer *modules = run->modules;
    vw__tape *tape = run->tape;
    const bool has_dropout = run->model->shape.has_residual_dropout;
    vw__tape_enter(tape, "head", -1);
    vw__tensor rows =
        vw__op_slice(tape, x, vw__tape_times(tape, run->settings->batch, run->model->shape.hidden));
    if (drops_first)
        vw__tensor_rebind(tape, &rows, vw__module_apply_dropout(run, rows, has_dropout));
    vw__tensor_rebind(tape, &rows, vw__module_apply_linear(run, rows, &modules->transform));
    vw__tensor_rebind(tape, &rows, vw__op_tanh(tape, rows));
    vw__tape_leave(tape);
    return rows;
}

static vw__tensor transform_first(vw__plan_run *run, vw__tensor x)
{
    vw__tensor rows = vw__op_slice(
        run->tape, x, vw__tape_times(run->tape, run->settings->batch, run->model->shape.hidden));
    vw__tensor_rebind(run->tape, &rows, apply_transform(run, rows));
    return rows;
}

/* Takes `x` over where it is transformed before every token is classified. */
static vw__tensor transform_all(vw__plan_run *run, vw__tensor x)
{
    if (run->model->shape.head.classifier != VW__PLAN_CLASSIFIER_OF_TRANSFORM)
        return x;
    vw__tensor made = apply_transform(run, x);
    vw__tensor_drop(run->tape, &x);
    return made;
}

static vw__tensor classify(vw__plan_run *run, vw__tensor x)
{
    const vw__plan_transformer *modules = run->modules;
    const vw__plan_shape *shape = &run->model->shape;
    if (shape->head.classifier == VW__PLAN_CLASSIFIER_OF_LAST)
        return vw__module_classify_last(run, x, &modules->head);
    vw__tensor pooled = shape->head.classifier == VW__PLAN_CLASSIFIER_OF_TRANSFORM
                            ? transform_first(run, x)
                            : pool(run, x, shape->head.classifier == VW__PLAN_CLASSIFIER_OF_DENSE);
    vw__tensor_rebind(run->tape, &pooled,
                      vw__module_apply_dropout(run, pooled, shape->has_residual_dropout));
    vw__tensor result = vw__module_classify(run, pooled, &modules->head);
    vw__tensor_drop(run->tape, &x);
    return result;
}

/* The classes of decoders drop out a tenth, whatever the model does. */
static vw__tensor classify_tokens(vw__plan_run *run, vw__tensor x)
{
    const vw__plan_transformer *modules = run->modules;
    const bool has_dropout =
        run->model->shape.has_residual_dropout || run->model->family->style->is_causal;
    vw__tensor dropped = vw__module_apply_dropout(run, x, has_dropout);
    vw__tensor result = vw__module_classify_tokens(run, dropped, &modules->head);
    vw__tensor_drop(run->tape, &x);
    return result;
}

/* What the caller gets: the hidden states, and what the pooler made. */
static vw__tensor apply_no_head(vw__plan_run *run, vw__tensor x)
{
    const vw__plan_transformer *modules = run->modules;
    vw__tensor pooled = modules->transform.name != NULL ? pool(run, x, false) : vw__tensor_none();
    vw__tensor result = x;
    if (run->settings->mode != VW_PLAN_MODE_INFERENCE) {
        vw__tape_use before = vw__tape_set_use(run->tape, VW__TAPE_USE_LOSS);
        vw__tape_enter(run->tape, "loss", -1);
        result = vw__op_mean(run->tape, x, 1);
        vw__tape_leave(run->tape);
        vw__tape_set_use(run->tape, before);
        vw__tensor_drop(run->tape, &x);
    }
    vw__tensor_drop(run->tape, &pooled);
    return result;
}

static vw__tensor apply_vocabulary_head(vw__plan_run *run, vw__tensor x, uint64_t rows,
                                        bool is_shifted)
{
    const vw__plan_transformer *modules = run->modules;
    if (modules->transform.name == NULL)
        return vw__module_apply_head(run, x, &modules->head, rows, is_shifted);
    vw__tensor result =
        vw__module_apply_head(run, apply_transform(run, x), &modules->head, rows, is_shifted);
    vw__tensor_drop(run->tape, &x);
    return result;
}

vw__tensor vw__plan_transformer_apply_head(vw__plan_run *run, vw__tensor x, uint64_t rows,
                                           bool is_shifted)
{
    const vw__plan_transformer *modules = run->modules;
    switch (run->head) {
    case VW_PLAN_HEAD_SEQUENCE_CLASSIFICATION:
        return classify(run, x);
    case VW_PLAN_HEAD_TOKEN_CLASSIFICATION:
        return classify_tokens(run, transform_all(run, x));
    case VW_PLAN_HEAD_QUESTION_ANSWERING:
        return vw__module_find_answers(run, transform_all(run, x), &modules->head);
    case VW_PLAN_HEAD_IMAGE_CLASSIFICATION:
        return vw__module_apply_classifier(run, x, &modules->head, modules->main.queries);
    case VW_PLAN_HEAD_NONE:
    case VW_PLAN_HEAD_ENCODER:
        return apply_no_head(run, x);
    default:
        return apply_vocabulary_head(run, x, rows, is_shifted);
    }
}
