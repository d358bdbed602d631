/* module_image.c - modules of image models. */
#include "plan/plan_run.h"

vw__tensor vw__make_pixels(vw__plan_run *run, uint64_t channels)
{
    vw__use before = vw__tape_set_use(run->tape, VW__USE_DATA);
    uint64_t image = run->settings->image;
    uint64_t elements = vw__times(run->tape, vw__times(run->tape, run->settings->batch, channels),
                                  vw__times(run->tape, image, image));
    vw__tensor pixels = vw__tensor_new(run->tape, elements, run->dtype);
    vw__tape_set_use(run->tape, before);
    return pixels;
}

vw__conv_module vw__make_conv2d(vw__plan_run *run, const char *name, uint64_t in, uint64_t out,
                                vw__window window, uint64_t groups, bool has_bias)
{
    vw__conv_module made = {.name = name, .in = in, .out = out, .window = window, .groups = groups};
    uint64_t area = vw__times(run->tape, window.kernel, window.kernel);
    uint64_t filters = vw__times(run->tape, groups == 0 ? 0 : in / groups, out);
    made.weight = vw__make_weight_of(
        run, vw__times(run->tape, filters, area),
        (vw__matrix){.rows = window.kernel, .width = window.kernel}, run->dtype,
        run->settings->mode != VW_PLAN_MODE_INFERENCE && run->settings->lora_rank == 0);
    made.bias = has_bias ? vw__make_weight(run, out) : vw__no_tensor();
    return made;
}

vw__tensor vw__apply_conv2d(vw__plan_run *run, vw__tensor x, const vw__conv_module *module,
                            vw__image_shape *shape)
{
    const vw__conv_shape conv = {.in = *shape,
                                 .window = module->window,
                                 .out_channels = module->out,
                                 .groups = module->groups};
    vw__enter(run->tape, module->name, -1);
    vw__tensor made = vw__conv2d(run->tape, x, module->weight, module->bias, &conv);
    vw__leave(run->tape);
    *shape = vw__window_shape(&module->window, shape, module->out);
    return made;
}

/* A buffer: neither trained nor counted as a parameter. */
static void make_buffer(vw__plan_run *run, uint64_t elements, vw__dtype dtype)
{
    vw__use before = vw__tape_set_use(run->tape, VW__USE_WEIGHTS);
    (void)vw__tensor_new(run->tape, elements, dtype); /* as long as the model */
    vw__tape_set_use(run->tape, before);
}

vw__batch_norm_module vw__make_batch_norm(vw__plan_run *run, const char *name, uint64_t channels)
{
    vw__batch_norm_module made = {.name = name};
    made.weight = vw__make_weight(run, channels);
    made.bias = vw__make_weight(run, channels);
    make_buffer(run, channels, run->dtype); /* running_mean */
    make_buffer(run, channels, run->dtype); /* running_var */
    make_buffer(run, 1, VW__INT64);         /* num_batches_tracked */
    return made;
}

vw__tensor vw__apply_batch_norm(vw__plan_run *run, vw__tensor x,
                                const vw__batch_norm_module *module)
{
    vw__enter(run->tape, module->name, -1);
    vw__tensor made = vw__batch_norm(run->tape, x, module->weight, module->bias, run->is_training);
    vw__leave(run->tape);
    return made;
}

vw__tensor vw__classify(vw__plan_run *run, vw__tensor x, const vw__linear_module *classifier)
{
    vw__tape *tape = run->tape;
    vw__use before = vw__tape_set_use(tape, VW__USE_LOSS);
    vw__enter(tape, "loss", -1);
    vw__tensor logits = vw__apply_linear(run, x, classifier);
    vw__drop(tape, &x);
    if (run->has_loss) {
        vw__tensor labels = vw__tensor_new(tape, run->settings->batch, VW__INT64);
        vw__rebind(tape, &logits, vw__cross_entropy(tape, logits, labels));
        vw__drop(tape, &labels);
    }
    vw__leave(tape);
    vw__tape_set_use(tape, before);
    return logits;
}

/* The class token's row of each sample, or a pooled one. */
vw__tensor vw__apply_classifier(vw__plan_run *run, vw__tensor x,
                                const vw__linear_module *classifier, uint64_t tokens)
{
    vw__use before = vw__tape_set_use(run->tape, VW__USE_LOSS);
    vw__enter(run->tape, "class token", -1);
    vw__tensor rows = vw__slice(run->tape, x, tokens == 0 ? 0 : x.elements / tokens);
    vw__leave(run->tape);
    vw__drop(run->tape, &x);
    vw__tape_set_use(run->tape, before);
    return vw__classify(run, rows, classifier);
}
