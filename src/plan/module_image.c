/* module_image.c - modules of image models. */
#include "plan/plan_run.h"

vw__tensor vw__module_make_pixels(vw__plan_run *run, uint64_t channels)
{
    vw__tape_use before = vw__tape_set_use(run->tape, VW__TAPE_USE_DATA);
    uint64_t image = run->settings->image;
    uint64_t elements =
        vw__tape_times(run->tape, vw__tape_times(run->tape, run->settings->batch, channels),
                       vw__tape_times(run->tape, image, image));
    vw__tensor pixels = vw__tensor_new(run->tape, elements, run->dtype);
    vw__tape_set_use(run->tape, before);
    return pixels;
}

vw__module_conv vw__module_make_conv(vw__plan_run *run, const char *name, uint64_t in, uint64_t out,
                                     vw__op_window window, uint64_t groups, bool has_bias)
{
    vw__module_conv made = {.name = name, .in = in, .out = out, .window = window, .groups = groups};
    uint64_t area = vw__op_window_area(run->tape, &window);
    uint64_t filters = vw__tape_times(run->tape, groups == 0 ? 0 : in / groups, out);
    made.weight = vw__module_make_weight_of(
        run, vw__tape_times(run->tape, filters, area),
        (vw__tape_matrix){.rows = window.kernel, .width = window.kernel}, run->dtype,
        run->settings->mode != VW_PLAN_MODE_INFERENCE && run->settings->lora_rank == 0);
    made.bias = has_bias ? vw__module_make_weight(run, out) : vw__tensor_none();
    return made;
}

vw__tensor vw__module_apply_conv(vw__plan_run *run, vw__tensor x, const vw__module_conv *module,
                                 vw__op_image_shape *shape)
{
    const vw__op_conv_shape conv = {.in = *shape,
                                    .window = module->window,
                                    .out_channels = module->out,
                                    .groups = module->groups,
                                    .is_channels_last = module->is_channels_last};
    vw__tape_enter(run->tape, module->name, -1);
    vw__tensor made = vw__op_conv(run->tape, x, module->weight, module->bias, &conv);
    vw__tape_leave(run->tape);
    *shape = vw__op_window_shape(&module->window, shape, module->out);
    return made;
}

/* A buffer: neither trained nor counted as a parameter. */
static void make_buffer(vw__plan_run *run, uint64_t elements, vw__dtype dtype)
{
    vw__tape_use before = vw__tape_set_use(run->tape, VW__TAPE_USE_WEIGHTS);
    (void)vw__tensor_new(run->tape, elements, dtype); /* as long as the model */
    vw__tape_set_use(run->tape, before);
}

vw__module_batch_norm vw__module_make_batch_norm(vw__plan_run *run, const char *name,
                                                 uint64_t channels)
{
    vw__module_batch_norm made = {.name = name};
    made.weight = vw__module_make_weight(run, channels);
    made.bias = vw__module_make_weight(run, channels);
    make_buffer(run, channels, run->dtype); /* running_mean */
    make_buffer(run, channels, run->dtype); /* running_var */
    make_buffer(run, 1, VW__DTYPE_INT64);   /* num_batches_tracked */
    return made;
}

vw__tensor vw__module_apply_batch_norm(vw__plan_run *run, vw__tensor x,
                                       const vw__module_batch_norm *module)
{
    vw__tape_enter(run->tape, module->name, -1);
    vw__tensor made =
        vw__op_batch_norm(run->tape, x, module->weight, module->bias, run->is_training);
    vw__tape_leave(run->tape);
    return made;
}

vw__tensor vw__module_classify(vw__plan_run *run, vw__tensor x, const vw__module_linear *classifier)
{
    vw__tape *tape = run->tape;
    vw__tape_use before = vw__tape_set_use(tape, VW__TAPE_USE_LOSS);
    vw__tape_enter(tape, "loss", -1);
    vw__tensor logits = vw__module_apply_linear(run, x, classifier);
    vw__tensor_drop(tape, &x);
    if (run->has_loss) {
        vw__tensor labels = vw__tensor_new(tape, run->settings->batch, VW__DTYPE_INT64);
        vw__tensor_rebind(tape, &logits, vw__op_cross_entropy(tape, logits, labels));
        vw__tensor_drop(tape, &labels);
    }
    vw__tape_leave(tape);
    vw__tape_set_use(tape, before);
    return logits;
}

/* The class token's row of each sample, or a pooled one. */
vw__tensor vw__module_apply_classifier(vw__plan_run *run, vw__tensor x,
                                       const vw__module_linear *classifier, uint64_t tokens)
{
    vw__tape_use before = vw__tape_set_use(run->tape, VW__TAPE_USE_LOSS);
    vw__tape_enter(run->tape, "class token", -1);
    vw__tensor rows = vw__op_slice(run->tape, x, tokens == 0 ? 0 : x.elements / tokens);
    vw__tape_leave(run->tape);
    vw__tensor_drop(run->tape, &x);
    vw__tape_set_use(run->tape, before);
    return vw__module_classify(run, rows, classifier);
}
