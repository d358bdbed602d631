/* made_up_model.c - see made_up_model.h. */
#include "support/made_up_model.h"

#include "support/cmocka_here.h"

typedef struct made_up_modules {
    vw__module_linear layers[MADE_UP_MOST_LAYERS];
    vw__module_linear head;
} made_up_modules;

static void build(vw__plan_run *run)
{
    made_up_modules *modules = vw__module_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    if (vw__tape_status(run->tape) != VW_OK)
        return;
    for (size_t i = 0; i < run->model->shape.layers; i++)
        modules->layers[i] = vw__module_make_linear(run, "square", MADE_UP_WIDTH, MADE_UP_WIDTH,
                                                    false, VW__MODULE_LINEAR_ADAPTED);
    modules->head = vw__module_make_linear(run, "head", MADE_UP_WIDTH, MADE_UP_CLASSES, false,
                                           VW__MODULE_LINEAR_HEAD);
}

static vw__tensor block(vw__plan_run *run, const void *layer, vw__tensor x)
{
    return vw__module_apply_linear(run, x, layer);
}

static vw__tensor forward(vw__plan_run *run)
{
    const made_up_modules *modules = run->modules;
    uint64_t rows = run->settings->batch * run->settings->sequence;
    vw__tensor x = vw__tensor_new(run->tape, rows * MADE_UP_WIDTH, run->dtype);
    if (vw__tape_status(run->tape) != VW_OK)
        return vw__tensor_none();
    x = vw__module_run_blocks(run, block, modules->layers, sizeof modules->layers[0],
                              run->model->shape.layers, x);
    return vw__module_apply_head(run, x, &modules->head, rows, false);
}

static const vw__plan_family family = {.name = "made-up", .build = build, .forward = forward};

const vw_plan_model made_up_model = {.family = &family, .name = "made-up", .shape = {.layers = 2}};

vw_plan_settings made_up_settings(void)
{
    return (vw_plan_settings){.struct_size = sizeof(vw_plan_settings),
                              .batch = 4,
                              .sequence = 256,
                              .accumulation = 1,
                              .optimizer = VW_OPTIMIZER_SGD,
                              .checkpoint_every = 1,
                              .gpus = 1};
}

vw__plan_peaks made_up_peaks(const vw_plan_settings *settings)
{
    vw__plan_peaks peaks;
    assert_int_equal(vw__plan_simulate(&made_up_model, settings, NULL, &peaks, NULL), VW_OK);
    return peaks;
}
