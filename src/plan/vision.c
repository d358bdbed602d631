/* vision.c - torchvision's models, written out as layers.
 *
 * After efficientnet.py, mobilenetv2.py, mobilenetv3.py, vgg.py and densenet.py. A block that could
 * be checkpointed is a repeat of one round. */
#include "plan/vision.h"

#include "plan/vision_lines.h"

enum { COLORS = 3, CLASSES = 1000, ROUND_TO = 8, MOST_LINES = 256, MOST_INSIDE = 24 };

/* ---- lines ----------------------------------------------------------------------------------- */

static void add_in_place(vw__vision_list *into, vw__layers_kind kind)
{
    vw__vision_add(into, kind)->is_in_place = true;
}

static void add_pool(vw__vision_list *into, vw__layers_kind kind, uint64_t kernel, uint64_t stride,
                     uint64_t padding)
{
    vw__vision_add(into, kind)->window =
        (vw__op_window){.kernel = kernel, .stride = stride, .padding = padding};
}

/* Conv2dNormActivation; VW__LAYERS_KIND_COUNT: without an activation. */
static void add_conv_norm(vw__vision_list *into, uint64_t out, uint64_t kernel, uint64_t stride,
                          uint64_t groups, vw__layers_kind activation)
{
    vw__vision_add_conv(into, out, kernel, stride)->groups = groups;
    vw__vision_add(into, VW__LAYERS_BATCH_NORM);
    if (activation != VW__LAYERS_KIND_COUNT)
        add_in_place(into, activation);
}

/* ---- inverted residuals: EfficientNet and MobileNet ------------------------------------------ */

typedef struct inverted {
    uint64_t in, expanded, out, kernel, stride;
    uint64_t squeezed; /* channels inside of the squeeze and excitation; 0: there is none */
    vw__layers_kind activation, squeeze_activation, gate;
    bool is_fused; /* one convolution widens and looks around */
    bool is_dropped, is_added_in_place;
} inverted;

static void add_squeeze(vw__vision_writer *w, vw__vision_list *into, const inverted *block)
{
    vw__vision_list inside = vw__vision_begin(w, MOST_INSIDE);
    vw__vision_add(&inside, VW__LAYERS_ADAPTIVE_POOL)->rows = 1;
    vw__vision_add_conv(&inside, block->squeezed, 1, 1)->has_bias = true;
    vw__vision_add(&inside, block->squeeze_activation)->is_in_place =
        block->squeeze_activation == VW__LAYERS_SILU;
    vw__vision_add_conv(&inside, block->expanded, 1, 1)->has_bias = true;
    vw__vision_add(&inside, block->gate);
    vw__vision_add_inside(into, VW__LAYERS_MULTIPLY, 0, &inside);
}

static void add_fused(vw__vision_list *into, const inverted *block)
{
    const bool is_one = block->expanded == block->in;
    add_conv_norm(into, is_one ? block->out : block->expanded, block->kernel, block->stride, 1,
                  block->activation);
    if (!is_one)
        add_conv_norm(into, block->out, 1, 1, 1, VW__LAYERS_KIND_COUNT);
}

static void add_separable(vw__vision_writer *w, vw__vision_list *into, const inverted *block)
{
    if (block->expanded != block->in)
        add_conv_norm(into, block->expanded, 1, 1, 1, block->activation);
    add_conv_norm(into, block->expanded, block->kernel, block->stride, block->expanded,
                  block->activation);
    if (block->squeezed > 0)
        add_squeeze(w, into, block);
    add_conv_norm(into, block->out, 1, 1, 1, VW__LAYERS_KIND_COUNT);
}

static void add_inverted(vw__vision_writer *w, vw__vision_list *into, const inverted *block)
{
    vw__vision_list inside = vw__vision_begin(w, MOST_INSIDE), round = vw__vision_begin(w, 1);
    if (block->is_fused)
        add_fused(&inside, block);
    else
        add_separable(w, &inside, block);
    if (block->stride == 1 && block->in == block->out) {
        if (block->is_dropped)
            vw__vision_add(&inside, VW__LAYERS_DROP_PATH)->has_dropout = true;
        vw__vision_add_inside(&round, VW__LAYERS_RESIDUAL, 0, &inside);
        if (round.count > 0)
            round.lines[0].is_in_place = block->is_added_in_place;
        inside = round;
    }
    vw__vision_add_inside(into, VW__LAYERS_REPEAT, 1, &inside);
}

/* ---- EfficientNet ---------------------------------------------------------------------------- */

typedef struct stage {
    uint64_t expansion, kernel, stride, in, out, blocks;
    bool is_fused;
} stage;

enum { MOST_STAGES = 8, TENTHS = 10 };

static const stage efficientnet_stages[][MOST_STAGES] = {
    [VW__VISION_EFFICIENTNET] = {{1, 3, 1, 32, 16, 1, false},
                                 {6, 3, 2, 16, 24, 2, false},
                                 {6, 5, 2, 24, 40, 2, false},
                                 {6, 3, 2, 40, 80, 3, false},
                                 {6, 5, 1, 80, 112, 3, false},
                                 {6, 5, 2, 112, 192, 4, false},
                                 {6, 3, 1, 192, 320, 1, false}},
    [VW__VISION_EFFICIENTNET_V2_S] = {{1, 3, 1, 24, 24, 2, true},
                                      {4, 3, 2, 24, 48, 4, true},
                                      {4, 3, 2, 48, 64, 4, true},
                                      {4, 3, 2, 64, 128, 6, false},
                                      {6, 3, 1, 128, 160, 9, false},
                                      {6, 3, 2, 160, 256, 15, false}},
    [VW__VISION_EFFICIENTNET_V2_M] = {{1, 3, 1, 24, 24, 3, true},
                                      {4, 3, 2, 24, 48, 5, true},
                                      {4, 3, 2, 48, 80, 5, true},
                                      {4, 3, 2, 80, 160, 7, false},
                                      {6, 3, 1, 160, 176, 14, false},
                                      {6, 3, 2, 176, 304, 18, false},
                                      {6, 3, 1, 304, 512, 5, false}},
    [VW__VISION_EFFICIENTNET_V2_L] = {{1, 3, 1, 32, 32, 4, true},
                                      {4, 3, 2, 32, 64, 7, true},
                                      {4, 3, 2, 64, 96, 7, true},
                                      {4, 3, 2, 96, 192, 10, false},
                                      {6, 3, 1, 192, 224, 19, false},
                                      {6, 3, 2, 224, 384, 25, false},
                                      {6, 3, 1, 384, 640, 7, false}},
};

/* Channels in tenths, to a multiple of eight that is not less by more than a tenth. */
static uint64_t round_channels(uint64_t tenths)
{
    uint64_t made = (tenths + TENTHS * ROUND_TO / 2) / (TENTHS * ROUND_TO) * ROUND_TO;
    if (made < ROUND_TO)
        made = ROUND_TO;
    return made * TENTHS * TENTHS < 9 * tenths ? made + ROUND_TO : made;
}

static void add_stage(vw__vision_writer *w, vw__vision_list *into, const stage *s, uint64_t number)
{
    const vw__vision *vision = w->model->vision;
    const uint64_t out = round_channels(s->out * vision->width);
    const uint64_t blocks = (s->blocks * vision->depth + TENTHS - 1) / TENTHS;
    for (uint64_t i = 0; i < blocks; i++) {
        const uint64_t in = i == 0 ? round_channels(s->in * vision->width) : out;
        const inverted block = {.in = in,
                                .expanded = round_channels(in * s->expansion * TENTHS),
                                .out = out,
                                .kernel = s->kernel,
                                .stride = i == 0 ? s->stride : 1,
                                .squeezed = in / 4 > 0 ? in / 4 : 1,
                                .activation = VW__LAYERS_SILU,
                                .squeeze_activation = VW__LAYERS_SILU,
                                .gate = VW__LAYERS_SIGMOID,
                                .is_fused = s->is_fused,
                                .is_dropped = number + i > 0,
                                .is_added_in_place = true};
        add_inverted(w, into, &block);
    }
}

static void write_efficientnet(vw__vision_writer *w, vw__vision_list *into)
{
    const vw__vision *vision = w->model->vision;
    const stage *stages = efficientnet_stages[vision->kind];
    const uint64_t first = round_channels(stages[0].in * vision->width);
    uint64_t last = vision->kind == VW__VISION_EFFICIENTNET ? 0 : 1280;
    add_conv_norm(into, first, 3, 2, 1, VW__LAYERS_SILU);
    for (size_t i = 0; i < MOST_STAGES && stages[i].blocks > 0; i++) {
        add_stage(w, into, &stages[i], i);
        if (vision->kind == VW__VISION_EFFICIENTNET)
            last = 4 * round_channels(stages[i].out * vision->width);
    }
    add_conv_norm(into, last, 1, 1, 1, VW__LAYERS_SILU);
    vw__vision_add(into, VW__LAYERS_MEAN_POOL);
    vw__vision_add_dropout(into);
    vw__vision_add_linear(into, CLASSES);
}

/* ---- MobileNet ------------------------------------------------------------------------------- */

/* expansion, channels, blocks and stride. */
static const uint64_t mobilenet_v2[][4] = {
    {1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2},  {6, 64, 4, 2},
    {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1},
};

static void write_mobilenet_v2(vw__vision_writer *w, vw__vision_list *into)
{
    enum { STAGES = sizeof mobilenet_v2 / sizeof mobilenet_v2[0] };
    uint64_t in = 32;
    add_conv_norm(into, in, 3, 2, 1, VW__LAYERS_RELU6);
    for (size_t i = 0; i < STAGES; i++)
        for (uint64_t j = 0; j < mobilenet_v2[i][2]; j++) {
            const inverted block = {.in = in,
                                    .expanded = in * mobilenet_v2[i][0],
                                    .out = mobilenet_v2[i][1],
                                    .kernel = 3,
                                    .stride = j == 0 ? mobilenet_v2[i][3] : 1,
                                    .activation = VW__LAYERS_RELU6};
            add_inverted(w, into, &block);
            in = block.out;
        }
    add_conv_norm(into, 1280, 1, 1, 1, VW__LAYERS_RELU6);
    vw__vision_add(into, VW__LAYERS_MEAN_POOL);
    vw__vision_add_dropout(into);
    vw__vision_add_linear(into, CLASSES);
}

typedef struct mobile_block {
    uint64_t kernel, expanded, out, stride;
    bool has_squeeze, is_hard; /* hardswish in place of ReLU */
} mobile_block;

static const mobile_block mobilenet_v3_large[] = {
    {3, 16, 16, 1, false, false}, {3, 64, 24, 2, false, false}, {3, 72, 24, 1, false, false},
    {5, 72, 40, 2, true, false},  {5, 120, 40, 1, true, false}, {5, 120, 40, 1, true, false},
    {3, 240, 80, 2, false, true}, {3, 200, 80, 1, false, true}, {3, 184, 80, 1, false, true},
    {3, 184, 80, 1, false, true}, {3, 480, 112, 1, true, true}, {3, 672, 112, 1, true, true},
    {5, 672, 160, 2, true, true}, {5, 960, 160, 1, true, true}, {5, 960, 160, 1, true, true},
};
static const mobile_block mobilenet_v3_small[] = {
    {3, 16, 16, 2, true, false}, {3, 72, 24, 2, false, false}, {3, 88, 24, 1, false, false},
    {5, 96, 40, 2, true, true},  {5, 240, 40, 1, true, true},  {5, 240, 40, 1, true, true},
    {5, 120, 48, 1, true, true}, {5, 144, 48, 1, true, true},  {5, 288, 96, 2, true, true},
    {5, 576, 96, 1, true, true}, {5, 576, 96, 1, true, true},
};

static void write_mobilenet_v3(vw__vision_writer *w, vw__vision_list *into)
{
    enum {
        LARGE = sizeof mobilenet_v3_large / sizeof mobilenet_v3_large[0],
        SMALL = sizeof mobilenet_v3_small / sizeof mobilenet_v3_small[0],
    };
    const bool is_large = w->model->vision->kind == VW__VISION_MOBILENET_V3_LARGE;
    const mobile_block *blocks = is_large ? mobilenet_v3_large : mobilenet_v3_small;
    const size_t count = is_large ? LARGE : SMALL;
    uint64_t in = 16;
    add_conv_norm(into, in, 3, 2, 1, VW__LAYERS_HARDSWISH);
    for (size_t i = 0; i < count; i++) {
        const mobile_block *b = &blocks[i];
        const inverted block = {.in = in,
                                .expanded = b->expanded,
                                .out = b->out,
                                .kernel = b->kernel,
                                .stride = b->stride,
                                .squeezed =
                                    b->has_squeeze ? round_channels(b->expanded / 4 * TENTHS) : 0,
                                .activation = b->is_hard ? VW__LAYERS_HARDSWISH : VW__LAYERS_RELU,
                                .squeeze_activation = VW__LAYERS_RELU,
                                .gate = VW__LAYERS_HARDSIGMOID,
                                .is_added_in_place = true};
        add_inverted(w, into, &block);
        in = b->out;
    }
    add_conv_norm(into, 6 * in, 1, 1, 1, VW__LAYERS_HARDSWISH);
    vw__vision_add(into, VW__LAYERS_MEAN_POOL);
    vw__vision_add_linear(into, is_large ? 1280 : 1024);
    add_in_place(into, VW__LAYERS_HARDSWISH);
    vw__vision_add_dropout(into);
    vw__vision_add_linear(into, CLASSES);
}

/* ---- VGG ------------------------------------------------------------------------------------- */

static void write_vgg(vw__vision_writer *w, vw__vision_list *into)
{
    enum { STAGES = 5, FIRST = 64, WIDEST = 512, LAST_SIDE = 7, INNER = 4096 };
    const vw__vision *vision = w->model->vision;
    uint64_t channels = FIRST;
    for (size_t i = 0; i < STAGES; i++) {
        vw__vision_list inside = vw__vision_begin(w, MOST_INSIDE);
        for (uint64_t j = 0; j < vision->counts[i]; j++) {
            vw__vision_add_conv(&inside, channels, 3, 1)->has_bias = true;
            if (vision->has_norm)
                vw__vision_add(&inside, VW__LAYERS_BATCH_NORM);
            add_in_place(&inside, VW__LAYERS_RELU);
        }
        add_pool(&inside, VW__LAYERS_MAX_POOL, 2, 2, 0);
        vw__vision_add_inside(into, VW__LAYERS_REPEAT, 1, &inside);
        channels = channels < WIDEST ? 2 * channels : WIDEST;
    }
    vw__vision_add(into, VW__LAYERS_ADAPTIVE_POOL)->rows = LAST_SIDE;
    vw__vision_add(into, VW__LAYERS_FLATTEN);
    for (size_t i = 0; i < 2; i++) {
        vw__vision_add_linear(into, INNER);
        add_in_place(into, VW__LAYERS_RELU);
        vw__vision_add_dropout(into);
    }
    vw__vision_add_linear(into, CLASSES);
}

/* ---- DenseNet -------------------------------------------------------------------------------- */

static void add_norm_conv(vw__vision_list *into, uint64_t out, uint64_t kernel)
{
    vw__vision_add(into, VW__LAYERS_BATCH_NORM);
    add_in_place(into, VW__LAYERS_RELU);
    vw__vision_add_conv(into, out, kernel, 1);
}

static void write_densenet(vw__vision_writer *w, vw__vision_list *into)
{
    enum { BLOCKS = 4, BOTTLENECK = 4 };
    const vw__vision *vision = w->model->vision;
    uint64_t channels = vision->stem;
    add_conv_norm(into, channels, 7, 2, 1, VW__LAYERS_RELU);
    add_pool(into, VW__LAYERS_MAX_POOL, 3, 2, 1);
    for (size_t i = 0; i < BLOCKS; i++) {
        vw__vision_list round = vw__vision_begin(w, MOST_INSIDE), dense = vw__vision_begin(w, 1);
        add_norm_conv(&round, BOTTLENECK * vision->growth, 1);
        add_norm_conv(&round, vision->growth, 3);
        vw__vision_add_inside(&dense, VW__LAYERS_DENSE, vision->counts[i], &round);
        vw__vision_add_inside(into, VW__LAYERS_REPEAT, 1, &dense);
        channels += vision->counts[i] * vision->growth;
        if (i + 1 < BLOCKS) { /* a transition */
            channels /= 2;
            add_norm_conv(into, channels, 1);
            add_pool(into, VW__LAYERS_AVG_POOL, 2, 2, 0);
        }
    }
    vw__vision_add(into, VW__LAYERS_BATCH_NORM);
    add_in_place(into, VW__LAYERS_RELU);
    vw__vision_add(into, VW__LAYERS_MEAN_POOL);
    vw__vision_add_linear(into, CLASSES);
}

/* ---- any ------------------------------------------------------------------------------------- */

static void write_layers(vw__vision_writer *w, vw__vision_list *into)
{
    switch (w->model->vision->kind) {
    case VW__VISION_EFFICIENTNET:
    case VW__VISION_EFFICIENTNET_V2_S:
    case VW__VISION_EFFICIENTNET_V2_M:
    case VW__VISION_EFFICIENTNET_V2_L:
        write_efficientnet(w, into);
        break;
    case VW__VISION_MOBILENET_V2:
        write_mobilenet_v2(w, into);
        break;
    case VW__VISION_MOBILENET_V3_LARGE:
    case VW__VISION_MOBILENET_V3_SMALL:
        write_mobilenet_v3(w, into);
        break;
    case VW__VISION_VGG:
        write_vgg(w, into);
        break;
    case VW__VISION_DENSENET:
        write_densenet(w, into);
        break;
    }
}

vw_status vw__vision_describe(vw_plan_model *model)
{
    vw__vision_writer w = {.model = model, .status = VW_OK};
    if (model->vision == NULL)
        return VW_OK;
    vw__vision_list lines = vw__vision_begin(&w, MOST_LINES);
    write_layers(&w, &lines);
    return vw__vision_finish(&w, &lines, vw__vision_image(COLORS, model->vision->image));
}
