/* model_layers.c - models that are described by their layers: from what comes in to the loss.
 *
 * Checkpoints run the rounds of the outermost `repeat`s again. A model of two towers has two
 * descriptions, whose outputs are compared. */
#include "plan/layers_parts.h"

/* ---- making it ------------------------------------------------------------------------------- */

/* The description's own size, or that of the settings. */
static vw__layers_shape input_shape(const vw__plan_run *run, const vw__layers_shape *usual)
{
    vw__layers_shape shape = *usual;
    if (run->model->family->has_images && run->settings->image != shape.height)
        shape.height = shape.across = run->settings->image;
    if (shape.flow == VW__LAYERS_FLOW_SIGNAL)
        shape.across = run->settings->sequence;
    if (shape.flow == VW__LAYERS_FLOW_IDS || shape.flow == VW__LAYERS_FLOW_TOKENS)
        shape.length = run->settings->sequence;
    return shape;
}

static bool has_blocks(const vw_plan_model *model)
{
    for (size_t i = 0; i < model->line_count; i++)
        if (model->lines[i].kind == VW__LAYERS_REPEAT)
            return true;
    return false;
}

static void build_tower(vw__plan_run *run, vw__layers_tower *made, const vw__layers_shape *input,
                        const vw__layers_line *lines, size_t count)
{
    made->input = input_shape(run, input);
    vw__layers_shape shape = made->input;
    made->row = vw__layers_build_row(run, lines, count, &shape);
}

static void build(vw__plan_run *run)
{
    const vw_plan_model *model = run->model;
    const bool has_head = vw__plan_head_of(model, run->settings) != VW_PLAN_HEAD_NONE;
    vw__layers_modules *modules = vw__module_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    build_tower(run, &modules->first, model->layers_input, model->lines,
                model->line_count - (has_head ? 0 : model->head_line_count));
    if (model->second_lines == NULL)
        return;
    build_tower(run, &modules->second, model->second_input, model->second_lines,
                model->second_line_count);
    modules->scale = vw__module_make_weight(run, model->contrast_parameters);
}

/* ---- the two ends ---------------------------------------------------------------------------- */

static vw__tensor make_input(vw__plan_run *run, const vw__layers_shape *shape)
{
    vw__tape_use before = vw__tape_set_use(run->tape, VW__TAPE_USE_DATA);
    uint64_t elements = vw__layers_elements(run->tape, shape, run->settings->batch);
    vw__tensor made = vw__tensor_new(
        run->tape, elements, shape->flow == VW__LAYERS_FLOW_IDS ? VW__DTYPE_INT64 : run->dtype);
    vw__tape_set_use(run->tape, before);
    return made;
}

/* What has a class each. */
static uint64_t rows_of(const vw__plan_run *run, const vw__layers_shape *shape)
{
    vw__layers_shape row = *shape;
    row.width = 1;
    return vw__layers_elements(run->tape, &row, run->settings->batch);
}

static vw__tensor make_loss(vw__plan_run *run, const vw__layers_shape *shape, vw__tensor x)
{
    vw__tape *tape = run->tape;
    if (run->model->layers_loss == VW__LAYERS_MEAN)
        return vw__op_mean(tape, x, 1);
    if (run->model->layers_loss == VW__LAYERS_MSE) {
        vw__tensor wanted = vw__tensor_new(tape, x.elements, run->dtype);
        vw__tensor loss = vw__op_mse_loss(tape, x, wanted);
        vw__tensor_drop(tape, &wanted);
        return loss;
    }
    vw__tensor labels = vw__tensor_new(tape, rows_of(run, shape), VW__DTYPE_INT64);
    vw__tensor loss = vw__op_cross_entropy(tape, x, labels);
    vw__tensor_drop(tape, &labels);
    return loss;
}

/* Every sample of one with every sample of the other, and a loss over each. */
static vw__tensor compare(vw__plan_run *run, vw__tensor x, vw__tensor y)
{
    vw__tape *tape = run->tape;
    const vw__layers_modules *modules = run->modules;
    const uint64_t batch = run->settings->batch;
    vw__tensor logits = vw__op_matmul(tape, y, x, vw__tape_times(tape, batch, batch));
    vw__tensor_rebind(tape, &logits, vw__op_mul(tape, logits, modules->scale));
    if (run->has_loss) {
        vw__tensor labels = vw__tensor_new(tape, batch, VW__DTYPE_INT64);
        vw__tensor_rebind(tape, &logits, vw__op_cross_entropy(tape, logits, labels));
        vw__tensor_drop(tape, &labels);
    }
    return logits;
}

static vw__tensor forward_both(vw__plan_run *run)
{
    const vw__layers_modules *modules = run->modules;
    vw__tape *tape = run->tape;
    vw__tensor images = make_input(run, &modules->first.input);
    vw__tensor ids = make_input(run, &modules->second.input);
    vw__tensor x = vw__layers_run_row(run, &modules->first.row, images, true);
    vw__layers_drop_held(run, 0);
    vw__tensor y = vw__layers_run_row(run, &modules->second.row, ids, true);
    vw__layers_drop_held(run, 0);
    vw__tensor loss = vw__tape_status(tape) == VW_OK ? compare(run, x, y) : vw__tensor_none();
    vw__tensor_drop(tape, &y);
    vw__tensor_drop(tape, &x);
    vw__tensor_drop(tape, &ids);
    vw__tensor_drop(tape, &images);
    return loss;
}

static vw__tensor forward(vw__plan_run *run)
{
    const vw__layers_modules *modules = run->modules;
    vw__tape *tape = run->tape;
    if (run->model->second_lines != NULL)
        return forward_both(run);
    const vw__layers_row *row = &modules->first.row;
    vw__tensor input = make_input(run, &modules->first.input);
    vw__tensor x = vw__layers_run_row(run, row, input, true);
    vw__layers_drop_held(run, 0);
    if (vw__tape_status(tape) != VW_OK)
        return vw__tensor_none();
    if (!run->has_loss) {
        vw__tensor_drop(tape, &input);
        return x;
    }
    vw__tape_use before = vw__tape_set_use(tape, VW__TAPE_USE_LOSS);
    vw__tape_enter(tape, "loss", -1);
    vw__tensor loss = make_loss(run, &row->modules[row->count - 1].out, x);
    vw__tape_leave(tape);
    vw__tape_set_use(tape, before);
    vw__tensor_drop(tape, &x);
    vw__tensor_drop(tape, &input);
    return loss;
}

static uint64_t usual_length(const vw_plan_model *model)
{
    const vw__layers_shape *input =
        model->second_lines != NULL ? model->second_input : model->layers_input;
    if (input->flow == VW__LAYERS_FLOW_FEATURES)
        return 1;
    if (input->flow == VW__LAYERS_FLOW_SIGNAL)
        return input->across;
    return vw__layers_has_sides(input->flow) ? input->height : input->length;
}

#define LAYERS_FAMILY_OF(title)                                                                    \
    .name = title, .keeps_logits_type = true, .usual_length = usual_length, .build = build,        \
    .forward = forward, .has_blocks = has_blocks
#define LAYERS_FAMILY LAYERS_FAMILY_OF("layers")
#define VISION_FAMILY(title) LAYERS_FAMILY_OF(title), .has_images = true /* vision.c */

const vw__plan_family vw__plan_family_image_layers = {LAYERS_FAMILY, .has_images = true};
const vw__plan_family vw__plan_family_token_layers = {LAYERS_FAMILY};

#define IMAGE_FAMILY(title)                                                                        \
    VISION_FAMILY(title), .heads = {VW_PLAN_HEAD_IMAGE_CLASSIFICATION, VW_PLAN_HEAD_NONE}
#define PAIR_FAMILY(title) LAYERS_FAMILY_OF(title), .has_position_table = true

const vw__plan_family vw__plan_family_convnext = {IMAGE_FAMILY("convnext")};
const vw__plan_family vw__plan_family_deit = {IMAGE_FAMILY("deit")};
const vw__plan_family vw__plan_family_dinov2 = {IMAGE_FAMILY("dinov2")};
const vw__plan_family vw__plan_family_swin = {IMAGE_FAMILY("swin")};
const vw__plan_family vw__plan_family_clip = {PAIR_FAMILY("clip")};
const vw__plan_family vw__plan_family_siglip = {PAIR_FAMILY("siglip")};

const vw__plan_family vw__plan_family_efficientnet = {VISION_FAMILY("efficientnet")};
const vw__plan_family vw__plan_family_mobilenet = {VISION_FAMILY("mobilenet")};
const vw__plan_family vw__plan_family_vgg = {VISION_FAMILY("vgg")};
const vw__plan_family vw__plan_family_densenet = {VISION_FAMILY("densenet")};

/* A row has no length: one "token", and no more. */
const vw__plan_family vw__plan_family_feature_layers = {LAYERS_FAMILY, .has_position_table = true};
