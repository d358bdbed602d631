/* model_resnet.c - ResNet, after torchvision's resnet.py; and transformers' modeling_resnet.py,
 * whose activation functions are not in place, and whose model holds what the stem made to the end.
 */
#include "plan/plan_run.h"

enum { STAGES = 4, MOST_CONVS = 3, FIRST_WIDTH = 64, BOTTLENECK = 4 };

typedef struct resnet_block {
    vw__module_conv convs[MOST_CONVS];
    vw__module_batch_norm norms[MOST_CONVS];
    size_t conv_count;
    bool has_downsample;
    vw__module_conv downsample;
    vw__module_batch_norm downsample_norm;
    vw__op_image_shape in, out;
} resnet_block;

typedef struct resnet_modules {
    vw__module_conv first;
    vw__module_batch_norm first_norm;
    vw__op_image_shape pixels;
    resnet_block *stages[STAGES];
    vw__module_linear classifier;
} resnet_modules;

static const vw__op_window pool = {.kernel = 3, .stride = 2, .padding = 1};

/* ---- making it ------------------------------------------------------------------------------- */

static void add_conv(vw__plan_run *run, resnet_block *block, uint64_t in, uint64_t out,
                     uint64_t kernel, uint64_t stride, uint64_t groups)
{
    static const char *const names[] = {"conv1", "conv2", "conv3"};
    static const char *const norm_names[] = {"bn1", "bn2", "bn3"};
    const vw__op_window window = {.kernel = kernel, .stride = stride, .padding = kernel / 2};
    size_t place = block->conv_count++;
    block->convs[place] = vw__module_make_conv(run, names[place], in, out, window, groups, false);
    block->norms[place] = vw__module_make_batch_norm(run, norm_names[place], out);
}

/* The channels inside a stage's blocks, and of its result. */
typedef struct stage_widths {
    uint64_t inner, out;
} stage_widths;

static stage_widths widths_of(const vw__plan_resnet *resnet, size_t stage)
{
    const uint64_t out = resnet->channels[stage];
    if (!resnet->is_bottleneck)
        return (stage_widths){out, out};
    return (stage_widths){out / BOTTLENECK * resnet->width / FIRST_WIDTH * resnet->groups, out};
}

static void build_block(vw__plan_run *run, resnet_block *block, const vw__op_image_shape *in,
                        stage_widths widths, uint64_t stride)
{
    const vw__plan_resnet *resnet = &run->model->resnet;
    const uint64_t inner = widths.inner, out = widths.out;
    const bool is_early = resnet->strides_in_first_conv;
    block->in = *in;
    if (resnet->is_bottleneck) {
        add_conv(run, block, in->channels, inner, 1, is_early ? stride : 1, 1);
        add_conv(run, block, inner, inner, 3, is_early ? 1 : stride, resnet->groups);
        add_conv(run, block, inner, out, 1, 1, 1);
    } else {
        add_conv(run, block, in->channels, out, 3, stride, 1);
        add_conv(run, block, out, out, 3, 1, 1);
    }
    const vw__op_window window = {.kernel = 1, .stride = stride};
    block->has_downsample = stride != 1 || in->channels != out;
    if (block->has_downsample) {
        block->downsample =
            vw__module_make_conv(run, "downsample", in->channels, out, window, 1, false);
        block->downsample_norm = vw__module_make_batch_norm(run, "downsample", out);
    }
    block->out = vw__op_window_shape(&window, in, out);
}

/* The first block of each stage but the first halves the image. `*shape` becomes that of the
 * stage's result. */
static void build_stage(vw__plan_run *run, size_t stage, vw__op_image_shape *shape)
{
    resnet_modules *modules = run->modules;
    uint64_t count = run->model->resnet.blocks[stage];
    resnet_block *blocks = vw__module_alloc(run, count, sizeof *blocks);
    modules->stages[stage] = blocks;
    bool is_halved = stage > 0 || run->model->resnet.halves_first;
    for (uint64_t i = 0; i < count && vw__tape_status(run->tape) == VW_OK; i++) {
        build_block(run, &blocks[i], shape, widths_of(&run->model->resnet, stage),
                    i == 0 && is_halved ? 2 : 1);
        *shape = blocks[i].out;
    }
}

static void build(vw__plan_run *run)
{
    const vw__plan_resnet *resnet = &run->model->resnet;
    uint64_t image = run->settings->image;
    uint64_t colors = resnet->colors, stem = resnet->stem;
    const vw__op_window window = {.kernel = 7, .stride = 2, .padding = 3};
    resnet_modules *modules = vw__module_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    modules->pixels = (vw__op_image_shape){run->settings->batch, colors, image, image, 1};
    modules->first = vw__module_make_conv(run, "conv1", colors, stem, window, 1, false);
    modules->first_norm = vw__module_make_batch_norm(run, "bn1", stem);
    vw__op_image_shape shape = vw__op_window_shape(&window, &modules->pixels, stem);
    shape = vw__op_window_shape(&pool, &shape, stem);
    for (size_t i = 0; i < STAGES; i++)
        build_stage(run, i, &shape);
    modules->classifier = vw__module_make_linear(
        run, "fc", shape.channels, run->model->shape.head.labels, true, VW__MODULE_LINEAR_HEAD);
}

/* ---- running it ------------------------------------------------------------------------------ */

static void rectify(vw__plan_run *run, vw__tensor *x)
{
    vw__tape_enter(run->tape, "relu", -1);
    if (run->model->resnet.is_transformers)
        vw__tensor_rebind(run->tape, x, vw__op_relu(run->tape, *x));
    else
        vw__op_relu_in_place(run->tape, x);
    vw__tape_leave(run->tape);
}

static vw__tensor downsample(vw__plan_run *run, const resnet_block *block, vw__tensor x)
{
    vw__op_image_shape shape = block->in;
    vw__tensor made = vw__module_apply_conv(run, x, &block->downsample, &shape);
    vw__tensor_rebind(run->tape, &made,
                      vw__module_apply_batch_norm(run, made, &block->downsample_norm));
    return made;
}

static vw__tensor run_block(vw__plan_run *run, const void *place, vw__tensor x)
{
    const resnet_block *block = place;
    vw__tape *tape = run->tape;
    vw__op_image_shape shape = block->in;
    vw__tensor identity = vw__tensor_hold(tape, x), out = vw__tensor_hold(tape, x);
    for (size_t i = 0; i < block->conv_count; i++) {
        vw__tensor_rebind(tape, &out, vw__module_apply_conv(run, out, &block->convs[i], &shape));
        vw__tensor_rebind(tape, &out, vw__module_apply_batch_norm(run, out, &block->norms[i]));
        if (i + 1 < block->conv_count)
            rectify(run, &out);
    }
    if (block->has_downsample)
        vw__tensor_rebind(tape, &identity, downsample(run, block, x));
    vw__op_add_in_place(tape, &out, identity);
    rectify(run, &out);
    vw__tensor_drop(tape, &identity);
    return out;
}

static vw__tensor run_stem(vw__plan_run *run, const resnet_modules *modules, vw__tensor pixels)
{
    vw__tape *tape = run->tape;
    vw__op_image_shape shape = modules->pixels;
    vw__tensor x = vw__module_apply_conv(run, pixels, &modules->first, &shape);
    vw__tensor_rebind(tape, &x, vw__module_apply_batch_norm(run, x, &modules->first_norm));
    rectify(run, &x);
    shape = vw__op_window_shape(&pool, &shape, shape.channels);
    vw__tape_enter(tape, "maxpool", -1);
    vw__tensor_rebind(tape, &x, vw__op_max_pool(tape, x, vw__op_image_elements(tape, &shape)));
    vw__tape_leave(tape);
    return x;
}

/* x = self.layer1(x): the input is held until the stage ends. */
static void run_stage(vw__plan_run *run, size_t stage, vw__tensor *x)
{
    const resnet_modules *modules = run->modules;
    vw__tape_enter(run->tape, "stage", (int64_t)stage + 1);
    vw__tensor made = vw__module_run_blocks(
        run, run_block, modules->stages[stage], sizeof *modules->stages[stage],
        run->model->resnet.blocks[stage], vw__tensor_hold(run->tape, *x));
    vw__tensor_rebind(run->tape, x, made);
    vw__tape_leave(run->tape);
}

static vw__tensor forward(vw__plan_run *run)
{
    const resnet_modules *modules = run->modules;
    vw__tape *tape = run->tape;
    vw__tensor pixels = vw__module_make_pixels(run, modules->pixels.channels);
    vw__tensor x = run_stem(run, modules, pixels);
    vw__tensor embedded =
        run->model->resnet.is_transformers ? vw__tensor_hold(tape, x) : vw__tensor_none();
    for (size_t i = 0; i < STAGES; i++)
        run_stage(run, i, &x);
    vw__tape_enter(tape, "avgpool", -1);
    vw__tensor_rebind(tape, &x,
                      vw__op_mean(tape, x, run->settings->batch * modules->classifier.weights.in));
    vw__tape_leave(tape);
    vw__tensor_drop(tape, &embedded);
    vw__tensor loss = vw__module_classify(run, x, &modules->classifier);
    vw__tensor_drop(tape, &pixels);
    return loss;
}

static uint64_t usual_length(const vw_plan_model *model)
{
    (void)model;
    return 224; /* what the weights of torchvision and transformers were trained with */
}

const vw__plan_family vw__plan_family_resnet = {
    .name = "resnet",
    .has_images = true,
    .keeps_logits_type = true,
    .usual_length = usual_length,
    .build = build,
    .forward = forward,
    .heads = {VW_PLAN_HEAD_IMAGE_CLASSIFICATION},
};
