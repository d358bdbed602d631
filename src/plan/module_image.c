/* module_image.c - what models of images are made of. */
#include "plan/plan_run.h"

hr__tensor hr__make_pixels(hr__plan_run *run, uint64_t channels)
{
    hr__use before = hr__tape_set_use(run->tape, HR__USE_DATA);
    uint64_t image = run->settings->image;
    uint64_t elements = hr__times(run->tape, hr__times(run->tape, run->settings->batch, channels),
                                  hr__times(run->tape, image, image));
    hr__tensor pixels = hr__tensor_new(run->tape, elements, run->dtype);
    hr__tape_set_use(run->tape, before);
    return pixels;
}

hr__conv_module hr__make_conv2d(hr__plan_run *run, const char *name, uint64_t in, uint64_t out,
                                hr__window window, uint64_t groups, bool has_bias)
{
    hr__conv_module made = {.name = name, .in = in, .out = out, .window = window, .groups = groups};
    uint64_t area = hr__times(run->tape, window.kernel, window.kernel);
    uint64_t filters = hr__times(run->tape, groups == 0 ? 0 : in / groups, out);
    made.weight = hr__make_weight_of(
        run, hr__times(run->tape, filters, area),
        (hr__matrix){.rows = window.kernel, .width = window.kernel}, run->dtype,
        run->settings->mode != HR_PLAN_MODE_INFERENCE && run->settings->lora_rank == 0);
    made.bias = has_bias ? hr__make_weight(run, out) : hr__no_tensor();
    return made;
}

hr__conv_module hr__make_conv(hr__plan_run *run, const char *name, uint64_t in, uint64_t out,
                              uint64_t kernel, uint64_t stride, bool has_bias)
{
    hr__window window = {.kernel = kernel, .stride = stride};
    window.padding = kernel == stride ? 0 : kernel / 2;
    return hr__make_conv2d(run, name, in, out, window, 1, has_bias);
}

hr__tensor hr__apply_conv2d(hr__plan_run *run, hr__tensor x, const hr__conv_module *module,
                            hr__image_shape *shape)
{
    const hr__conv_shape conv = {.in = *shape,
                                 .window = module->window,
                                 .out_channels = module->out,
                                 .groups = module->groups};
    hr__enter(run->tape, module->name, -1);
    hr__tensor made = hr__conv2d(run->tape, x, module->weight, module->bias, &conv);
    hr__leave(run->tape);
    *shape = hr__window_shape(&module->window, shape, module->out);
    return made;
}

hr__tensor hr__apply_conv(hr__plan_run *run, hr__tensor x, const hr__conv_module *module,
                          uint64_t image)
{
    hr__image_shape shape = {run->settings->batch, module->in, image, image};
    return hr__apply_conv2d(run, x, module, &shape);
}

/* A buffer: neither trained nor counted as a parameter. */
static void make_buffer(hr__plan_run *run, uint64_t elements, hr__dtype dtype)
{
    hr__use before = hr__tape_set_use(run->tape, HR__USE_WEIGHTS);
    (void)hr__tensor_new(run->tape, elements, dtype); /* as long as the model */
    hr__tape_set_use(run->tape, before);
}

hr__batch_norm_module hr__make_batch_norm(hr__plan_run *run, const char *name, uint64_t channels)
{
    hr__batch_norm_module made = {.name = name};
    made.weight = hr__make_weight(run, channels);
    made.bias = hr__make_weight(run, channels);
    make_buffer(run, channels, run->dtype); /* running_mean */
    make_buffer(run, channels, run->dtype); /* running_var */
    make_buffer(run, 1, HR__INT64);         /* num_batches_tracked */
    return made;
}

hr__tensor hr__apply_batch_norm(hr__plan_run *run, hr__tensor x,
                                const hr__batch_norm_module *module)
{
    hr__enter(run->tape, module->name, -1);
    hr__tensor made = hr__batch_norm(run->tape, x, module->weight, module->bias, run->is_training);
    hr__leave(run->tape);
    return made;
}

/* Without labels: the logits. */
hr__tensor hr__classify(hr__plan_run *run, hr__tensor x, const hr__linear_module *classifier)
{
    hr__tape *tape = run->tape;
    hr__use before = hr__tape_set_use(tape, HR__USE_LOSS);
    hr__enter(tape, "loss", -1);
    hr__tensor logits = hr__apply_linear(run, x, classifier);
    hr__drop(tape, &x);
    if (run->has_loss) {
        hr__tensor labels = hr__tensor_new(tape, run->settings->batch, HR__INT64);
        hr__rebind(tape, &logits, hr__cross_entropy(tape, logits, labels));
        hr__drop(tape, &labels);
    }
    hr__leave(tape);
    hr__tape_set_use(tape, before);
    return logits;
}

/* The class token's row of each sample, or a pooled one. */
hr__tensor hr__apply_classifier(hr__plan_run *run, hr__tensor x,
                                const hr__linear_module *classifier, uint64_t tokens)
{
    hr__use before = hr__tape_set_use(run->tape, HR__USE_LOSS);
    hr__enter(run->tape, "class token", -1);
    hr__tensor rows = hr__slice(run->tape, x, tokens == 0 ? 0 : x.elements / tokens);
    hr__leave(run->tape);
    hr__drop(run->tape, &x);
    hr__tape_set_use(run->tape, before);
    return hr__classify(run, rows, classifier);
}
