/* test_plan_conv.c - operators on images: what they make, save and take beside; and ResNets. */
#include <string.h>

#include "plan/op.h"
#include "plan/op_image.h"
#include "plan/plan_run.h"
#include "plan/tape.h"

#include "support/cmocka_here.h"

enum { UNIT = 512 };

#define WINDOW(kernel_, stride_, padding_)                                                         \
    {                                                                                              \
        .kernel = (kernel_), .stride = (stride_), .padding = (padding_)                            \
    }

static uint64_t rounded(uint64_t size_bytes)
{
    return (size_bytes + UNIT - 1) / UNIT * UNIT;
}

static int make_tape(void **state)
{
    vw__tape *tape = NULL;
    assert_int_equal(vw__tape_create(NULL, &tape), VW_OK);
    *state = tape;
    return 0;
}

static int destroy_tape(void **state)
{
    assert_int_equal(vw__tape_status(*state), VW_OK);
    vw__tape_destroy(*state);
    return 0;
}

static uint64_t peak_over(vw__tape *tape, uint64_t base_bytes)
{
    return vw__tape_get_peak(tape).live_bytes - base_bytes;
}

/* ---- windows --------------------------------------------------------------------------------- */

static void a_window_takes_as_many_steps_as_fit(void **state)
{
    (void)state;
    static const struct {
        vw__op_window window;
        uint64_t side, steps;
    } cases[] = {
        {WINDOW(7, 2, 3), 224, 112}, {WINDOW(3, 2, 1), 112, 56}, {WINDOW(3, 1, 1), 56, 56},
        {WINDOW(1, 2, 0), 56, 28},   {WINDOW(3, 2, 1), 7, 4},    {WINDOW(16, 16, 0), 224, 14},
        {WINDOW(3, 1, 0), 3, 1},     {WINDOW(3, 1, 0), 2, 0},    {WINDOW(3, 1, 1), 1, 1},
        {WINDOW(0, 1, 0), 8, 0},     {WINDOW(2, 0, 0), 8, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(vw__op_window_steps(&cases[i].window, cases[i].side), cases[i].steps);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* What a forward pass takes for a moment beside its result. */
static uint64_t workspace_of(const vw__op_conv_shape *shape, vw__dtype dtype)
{
    void *state;
    make_tape(&state);
    vw__tape *tape = state;
    uint64_t area = shape->window.kernel * shape->window.kernel;
    vw__tensor x = vw__tensor_new(tape, vw__op_image_elements(tape, &shape->in), dtype);
    vw__tensor weight = vw__tensor_new(
        tape, shape->in.channels / shape->groups * shape->out_channels * area, dtype);
    vw__tape_reset_peak(tape);
    vw__tensor made = vw__op_conv(tape, x, weight, vw__tensor_none(), shape);
    uint64_t workspace = vw__tape_get_peak(tape).live_bytes - vw__tape_live_bytes(tape);
    vw__tensor_drop(tape, &made);
    destroy_tape(&state);
    return workspace;
}

static vw__op_conv_shape conv_of(uint64_t batch, uint64_t in, uint64_t side, uint64_t out,
                                 vw__op_window window)
{
    return (vw__op_conv_shape){
        .in = {batch, in, side, side, 1}, .window = window, .out_channels = out, .groups = 1};
}

/* Recorded on an H200 with cuDNN 9, in a ResNet-50 with autocast, 48 images of 352 pixels: the
 * copies are within 1 kB of what was taken, but where cuDNN split long sums. */
static void workspaces_are_those_that_were_recorded(void **state)
{
    (void)state;
    static const vw__op_window seven = WINDOW(7, 2, 3), three = WINDOW(3, 1, 1),
                               half = WINDOW(3, 2, 1), one = WINDOW(1, 1, 0),
                               skip = WINDOW(1, 2, 0);
    const struct {
        vw__op_conv_shape shape;
        uint64_t recorded_bytes;
    } cases[] = {
        {conv_of(48, 3, 352, 64, seven), 237920784},  {conv_of(48, 64, 88, 64, three), 95232147},
        {conv_of(48, 256, 88, 512, skip), 285474963}, {conv_of(48, 128, 44, 128, three), 47874195},
        {conv_of(48, 256, 44, 256, half), 60653584},  {conv_of(48, 512, 11, 2048, one), 29737107},
        {conv_of(48, 64, 88, 256, one), 272},         {conv_of(48, 256, 22, 1024, one), 0},
        {conv_of(48, 512, 11, 512, three), 16613392},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t planned = workspace_of(&cases[i].shape, VW__DTYPE_FLOAT16);
        uint64_t recorded = rounded(cases[i].recorded_bytes);
        assert_true(planned <= recorded);
        assert_true(recorded - planned <= 2 * UNIT);
    }
}

/* In float32 kernels for the usual layout were taken where the planes allow it. */
static void float32_needs_copies_of_odd_planes_only(void **state)
{
    (void)state;
    static const vw__op_window one = WINDOW(1, 1, 0), skip = WINDOW(1, 2, 0),
                               patch = WINDOW(16, 16, 0);
    vw__op_conv_shape even = conv_of(64, 256, 56, 512, skip), odd = conv_of(64, 512, 7, 2048, one);
    vw__op_conv_shape patches = conv_of(24, 3, 224, 768, patch);
    assert_int_equal(workspace_of(&even, VW__DTYPE_FLOAT32), 0);
    assert_int_equal(workspace_of(&patches, VW__DTYPE_FLOAT32), 0);
    assert_int_equal(workspace_of(&odd, VW__DTYPE_FLOAT32), (64 * 512 * 49 + 64 * 2048 * 49) * 4);
}

static void one_filter_for_each_channel_needs_no_copies(void **state)
{
    (void)state;
    vw__op_conv_shape shape = conv_of(8, 64, 28, 64, (vw__op_window)WINDOW(3, 1, 1));
    shape.groups = 64;
    assert_int_equal(workspace_of(&shape, VW__DTYPE_FLOAT16), 0);
    shape.groups = 32;
    assert_true(workspace_of(&shape, VW__DTYPE_FLOAT16) > 0);
}

static void a_convolution_saves_its_image_and_its_weight(void **state)
{
    vw__tape *tape = *state;
    const vw__op_conv_shape shape = conv_of(2, 8, 4, 16, (vw__op_window)WINDOW(1, 1, 0));
    vw__tensor weight = vw__tape_parameter(tape, 8 * 16, VW__DTYPE_FLOAT32, true);
    vw__tensor x = vw__tensor_new(tape, 2 * 8 * 16, VW__DTYPE_FLOAT32);
    uint64_t before = vw__tape_live_bytes(tape);
    vw__tensor made = vw__op_conv(tape, x, weight, vw__tensor_none(), &shape);
    assert_int_equal(made.elements, 2 * 16 * 16);
    vw__tensor_drop(tape, &x); /* the node holds it */
    assert_int_equal(vw__tape_live_bytes(tape), before + rounded(2 * 16 * 16 * 4));
    vw__tape_backward(tape, made);
    vw__tensor_drop(tape, &made);
    assert_int_equal(vw__tape_live_of(tape, VW__TAPE_USE_GRADIENTS), rounded(8 * 16 * 4));
    assert_int_equal(vw__tape_live_bytes(tape), 2 * rounded(8 * 16 * 4)); /* weight, gradient */
}

/* First the image's gradient, then the weight's: each with a workspace that is gone before the
 * next. */
static void a_derivative_has_one_workspace_at_a_time(void **state)
{
    vw__tape *tape = *state;
    const vw__op_conv_shape shape = conv_of(4, 64, 16, 64, (vw__op_window)WINDOW(3, 1, 1));
    const uint64_t image = 4 * 64 * 256 * 2, weight = 64 * 64 * 9 * 2;
    vw__tensor first = vw__tape_parameter(tape, 4 * 64 * 256, VW__DTYPE_FLOAT16, true);
    vw__tensor filters = vw__tape_parameter(tape, 64 * 64 * 9, VW__DTYPE_FLOAT16, true);
    vw__tensor made = vw__op_conv(tape, first, filters, vw__tensor_none(), &shape);
    uint64_t before = vw__tape_live_bytes(tape);
    vw__tape_reset_peak(tape);
    vw__tape_backward(tape, made);
    /* The gradient that comes in, both that go out, and the copies. */
    assert_int_equal(peak_over(tape, before), image + image + weight + (2 * image + weight));
    vw__tensor_drop(tape, &made);
}

/* What the derivative of a 1x1 convolution in 16 bits takes for a moment, for a weight alone. */
static uint64_t weight_workspace_of(uint64_t batch, uint64_t in, uint64_t side, uint64_t out)
{
    void *state;
    make_tape(&state);
    vw__tape *tape = state;
    const vw__op_conv_shape shape = conv_of(batch, in, side, out, (vw__op_window)WINDOW(1, 1, 0));
    const uint64_t pixels = batch * side * side;
    vw__tensor x = vw__tensor_new(tape, pixels * in, VW__DTYPE_BFLOAT16);
    vw__tensor weight = vw__tape_parameter(tape, in * out, VW__DTYPE_BFLOAT16, true);
    vw__tensor made = vw__op_conv(tape, x, weight, vw__tensor_none(), &shape);
    const uint64_t before = vw__tape_live_bytes(tape);
    vw__tape_reset_peak(tape);
    vw__tape_backward(tape, made);
    const uint64_t peak = peak_over(tape, before);
    vw__tensor_drop(tape, &made);
    vw__tensor_drop(tape, &x);
    destroy_tape(&state);
    return peak - rounded(pixels * out * 2) - rounded(in * out * 2); /* both gradients */
}

/* Recorded: 48 images of 44x44, 128 channels to 512; measured as the peak: 32 of 7x7, 320 to 1280
 * (MobileNetV2). A ResNet-50's largest is made of copies. */
static void a_1x1_weight_has_a_gradient_for_each_image(void **state)
{
    (void)state;
    assert_int_equal(weight_workspace_of(48, 128, 44, 512), 12582912);
    assert_int_equal(weight_workspace_of(32, 320, 7, 1280), 32 * 320 * 1280 * 4);
    assert_int_equal(weight_workspace_of(48, 512, 11, 2048), rounded(29736960));
}

/* ---- the others ------------------------------------------------------------------------------ */

static void batch_norm_saves_its_argument_and_statistics(void **state)
{
    vw__tape *tape = *state;
    enum { CHANNELS = 256, ELEMENTS = 2 * CHANNELS * 16 };
    vw__tensor weight = vw__tape_parameter(tape, CHANNELS, VW__DTYPE_FLOAT32, true);
    vw__tensor bias = vw__tape_parameter(tape, CHANNELS, VW__DTYPE_FLOAT32, true);
    vw__tensor x = vw__tensor_new(tape, ELEMENTS, VW__DTYPE_FLOAT16);
    uint64_t before = vw__tape_live_bytes(tape);
    vw__tensor made = vw__op_batch_norm(tape, x, weight, bias, true);
    assert_int_equal(made.dtype, VW__DTYPE_FLOAT16);
    assert_int_equal(vw__tape_live_bytes(tape), before + 2 * ELEMENTS + 2 * CHANNELS * 4);
    vw__tensor_drop(tape, &x);
    assert_int_equal(vw__tape_live_bytes(tape), before + 2 * ELEMENTS + 2 * CHANNELS * 4);
    vw__tape_drop_graph(tape);
    assert_int_equal(vw__tape_live_bytes(tape), before); /* x is gone, the result is as large */
    vw__tensor_drop(tape, &made);
}

static void batch_norm_in_evaluation_has_no_statistics_of_its_own(void **state)
{
    vw__tape *tape = *state;
    vw__tensor weight = vw__tape_parameter(tape, 8, VW__DTYPE_FLOAT32, false);
    vw__tensor bias = vw__tape_parameter(tape, 8, VW__DTYPE_FLOAT32, false);
    vw__tensor x = vw__tensor_new(tape, 1024, VW__DTYPE_FLOAT32);
    uint64_t before = vw__tape_live_bytes(tape);
    vw__tensor made = vw__op_batch_norm(tape, x, weight, bias, false);
    assert_int_equal(vw__tape_live_bytes(tape), before + 1024 * 4);
    vw__tensor_drop(tape, &made);
    vw__tensor_drop(tape, &x);
}

static void a_max_pool_keeps_indices_of_eight_bytes(void **state)
{
    vw__tape *tape = *state;
    vw__tensor x = vw__tape_parameter(tape, 4096, VW__DTYPE_FLOAT32, true);
    uint64_t before = vw__tape_live_bytes(tape);
    vw__tensor made = vw__op_max_pool(tape, x, 1024);
    assert_int_equal(vw__tape_live_bytes(tape), before + 1024 * (4 + 8));
    vw__tape_backward(tape, made);
    assert_int_equal(vw__tape_live_bytes(tape), before + 1024 * 4 + 4096 * 4);
    vw__tensor_drop(tape, &made);
}

static void a_sum_in_place_takes_nothing_and_gives_both_their_gradient(void **state)
{
    vw__tape *tape = *state;
    vw__tensor a = vw__tape_parameter(tape, 1024, VW__DTYPE_FLOAT32, true);
    vw__tensor b = vw__tape_parameter(tape, 1024, VW__DTYPE_FLOAT32, true);
    vw__tensor sum = vw__op_mul_scalar(tape, a);
    uint64_t before = vw__tape_live_bytes(tape);
    vw__op_add_in_place(tape, &sum, b);
    assert_int_equal(vw__tape_live_bytes(tape), before);
    vw__tape_backward(tape, sum);
    assert_int_equal(vw__tape_live_of(tape, VW__TAPE_USE_GRADIENTS), 2 * rounded(1024 * 4));
    vw__tensor_drop(tape, &sum);
}

/* ---- ResNets --------------------------------------------------------------------------------- */

static vw__plan_peaks run_model(const char *name, const vw_plan_settings *settings)
{
    vw_plan_model model = {.name = name};
    vw__plan_peaks peaks;
    assert_true(vw__plan_zoo_find(name, &model));
    assert_int_equal(vw__plan_simulate(&model, settings, NULL, &peaks, NULL), VW_OK);
    return peaks;
}

static vw_plan_settings settings_of(uint64_t batch, uint64_t image)
{
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    settings.batch = batch;
    settings.image = image;
    settings.optimizer = VW_OPTIMIZER_SGD_MOMENTUM;
    return settings;
}

static void resnets_have_the_parameters_of_torchvision(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t parameters;
    } cases[] = {
        {"resnet18", 11689512},         {"resnet34", 21797672},
        {"resnet50", 25557032},         {"resnet101", 44549160},
        {"resnet152", 60192808},        {"resnext50_32x4d", 25028904},
        {"resnext101_32x8d", 88791336}, {"resnext101_64x4d", 83455272},
        {"wide_resnet50_2", 68883240},  {"wide_resnet101_2", 126886696},
    };
    const vw_plan_settings settings = settings_of(2, 64);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(run_model(cases[i].name, &settings).parameters, cases[i].parameters);
}

static void assert_near(uint64_t planned, uint64_t measured, double tolerance)
{
    double error = (double)planned / (double)measured - 1;
    assert_true(error < tolerance && error > -tolerance);
}

/* As measured on an H200, PyTorch 2.11. What is missing are ends of blocks that the allocator did
 * not split, which count as allocated. */
static void a_resnet50_takes_what_was_measured(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(64, 224);
    vw__plan_peaks peaks = run_model("resnet50", &settings);
    assert_near(peaks.after_forward_bytes, UINT64_C(5795415040), 0.006);
    assert_near(peaks.peak.live_bytes, UINT64_C(5854210560), 0.006);
    assert_near(peaks.peak.live_bytes - peaks.after_forward_bytes, 58795520, 0.001);

    settings.batch = 128;
    settings.precision = VW_PRECISION_AMP_FP16;
    peaks = run_model("resnet50", &settings);
    assert_near(peaks.after_forward_bytes, UINT64_C(5953121280), 0.006);
    assert_near(peaks.peak.live_bytes, UINT64_C(6031634944), 0.006);
    assert_near(peaks.peak.live_bytes - peaks.after_forward_bytes, 78513664, 0.006);

    settings.batch = 64;
    settings.precision = VW_PRECISION_FP32;
    settings.mode = VW_PLAN_MODE_INFERENCE;
    const uint64_t left_over = 33554432; /* a workspace of the training before it */
    assert_near(run_model("resnet50", &settings).peak.live_bytes, 877111296 - left_over, 0.003);
}

static void checkpoints_make_a_resnet_smaller(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(16, 224);
    uint64_t plain = run_model("resnet50", &settings).peak.live_bytes;
    settings.checkpointing = VW_CHECKPOINTING_FULL;
    assert_true(run_model("resnet50", &settings).peak.live_bytes < plain);
}

int main(void)
{
#define TAPE_TEST(name) cmocka_unit_test_setup_teardown(name, make_tape, destroy_tape)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_takes_as_many_steps_as_fit),
        cmocka_unit_test(workspaces_are_those_that_were_recorded),
        cmocka_unit_test(float32_needs_copies_of_odd_planes_only),
        cmocka_unit_test(one_filter_for_each_channel_needs_no_copies),
        TAPE_TEST(a_convolution_saves_its_image_and_its_weight),
        TAPE_TEST(a_derivative_has_one_workspace_at_a_time),
        cmocka_unit_test(a_1x1_weight_has_a_gradient_for_each_image),
        TAPE_TEST(batch_norm_saves_its_argument_and_statistics),
        TAPE_TEST(batch_norm_in_evaluation_has_no_statistics_of_its_own),
        TAPE_TEST(a_max_pool_keeps_indices_of_eight_bytes),
        TAPE_TEST(a_sum_in_place_takes_nothing_and_gives_both_their_gradient),
        cmocka_unit_test(resnets_have_the_parameters_of_torchvision),
        cmocka_unit_test(a_resnet50_takes_what_was_measured),
        cmocka_unit_test(checkpoints_make_a_resnet_smaller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
