/* made_up_model.c - see made_up_model.h. */
#include "support/made_up_model.h"

#include "support/cmocka_here.h"

typedef struct made_up_modules {
    hr__linear_module layers[MADE_UP_MOST_LAYERS];
    hr__linear_module head;
} made_up_modules;

static void build(hr__plan_run *run)
{
    made_up_modules *modules = hr__run_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    if (hr__tape_status(run->tape) != HR_OK)
        return;
    for (size_t i = 0; i < run->model->shape.layers; i++)
        modules->layers[i] =
            hr__make_linear(run, "square", MADE_UP_WIDTH, MADE_UP_WIDTH, false, HR__LINEAR_ADAPTED);
    modules->head =
        hr__make_linear(run, "head", MADE_UP_WIDTH, MADE_UP_CLASSES, false, HR__LINEAR_HEAD);
}

static hr__tensor block(hr__plan_run *run, const void *layer, hr__tensor x)
{
    return hr__apply_linear(run, x, layer);
}

static hr__tensor forward(hr__plan_run *run)
{
    const made_up_modules *modules = run->modules;
    uint64_t rows = run->settings->batch * run->settings->sequence;
    hr__tensor x = hr__tensor_new(run->tape, rows * MADE_UP_WIDTH, run->dtype);
    if (hr__tape_status(run->tape) != HR_OK)
        return hr__no_tensor();
    x = hr__run_blocks(run, block, modules->layers, sizeof modules->layers[0],
                       run->model->shape.layers, x);
    return hr__apply_head(run, x, &modules->head, rows, false);
}

static const hr__family family = {.name = "made-up", .build = build, .forward = forward};

const hr_plan_model made_up_model = {.family = &family, .name = "made-up", .shape = {.layers = 2}};

hr_plan_settings made_up_settings(void)
{
    return (hr_plan_settings){.struct_size = sizeof(hr_plan_settings),
                              .batch = 4,
                              .sequence = 256,
                              .accumulation = 1,
                              .optimizer = HR_OPTIMIZER_SGD,
                              .checkpoint_every = 1,
                              .gpus = 1};
}

hr__plan_peaks made_up_peaks(const hr_plan_settings *settings)
{
    hr__plan_peaks peaks;
    assert_int_equal(hr__plan_simulate(&made_up_model, settings, NULL, &peaks, NULL), HR_OK);
    return peaks;
}
