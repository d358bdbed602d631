/* plan_run.c - runs a model for some steps and notes how high memory rises, and when. */
#include "plan/plan_run.h"

#include <string.h>

#include "base/error.h"
#include "plan/hidden.h"
#include "plan/plan_limits.h"
#include "plan/sharding.h"

/* cuBLAS takes one for each thread that computes: the program's, and in training autograd's. They
 * live until the run ends. */
static void take_workspaces(vw__plan_run *run)
{
    const size_t count = run->settings->mode == VW_PLAN_MODE_TRAIN ? 2 : 1;
    uint64_t size_bytes = vw__hidden_cublas_bytes(run->settings->card_name);
    vw__tape_use before = vw__tape_set_use(run->tape, VW__TAPE_USE_WORKSPACE);
    for (size_t i = 0; i < count; i++)
        (void)vw__tensor_new(run->tape, size_bytes, VW__DTYPE_BYTE);
    vw__tape_set_use(run->tape, before);
}

bool vw__plan_is_autocast(const vw_plan_settings *settings, vw__dtype *dtype)
{
    vw_precision precision = settings->precision;
    *dtype = precision == VW_PRECISION_AMP_FP16 ? VW__DTYPE_FLOAT16 : VW__DTYPE_BFLOAT16;
    return precision == VW_PRECISION_AMP_BF16 || precision == VW_PRECISION_AMP_FP16;
}

static vw__dtype weights_dtype(vw_precision precision)
{
    switch (precision) {
    case VW_PRECISION_BF16:
        return VW__DTYPE_BFLOAT16;
    case VW_PRECISION_FP16:
        return VW__DTYPE_FLOAT16;
    default:
        return VW__DTYPE_FLOAT32;
    }
}

/* What bnb_4bit_compute_dtype would be. */
static vw__dtype products_dtype(const vw_plan_settings *settings)
{
    vw__dtype dtype;
    return vw__plan_is_autocast(settings, &dtype) ? dtype : weights_dtype(settings->precision);
}

vw__tensor vw__plan_run_forward(vw__plan_run *run)
{
    vw__dtype dtype;
    bool has_autocast = vw__plan_is_autocast(run->settings, &dtype);
    vw__tape_enter(run->tape, "forward", -1);
    run->block_count = 0;
    vw__shard_at(run, VW__SHARD_BEFORE_FORWARD, 0);
    if (has_autocast)
        vw__tape_autocast_enter(run->tape, dtype);
    vw__tensor result = run->model->family->forward(run);
    if (has_autocast)
        vw__tape_autocast_leave(run->tape);
    vw__shard_at(run, VW__SHARD_AFTER_FORWARD, 0);
    vw__tape_leave(run->tape);
    return result;
}

/* Keeps the peak of a phase, and starts the next at what is live. */
static void end_phase(const vw__plan_run *run, vw__plan_phase phase, vw__plan_peaks *peaks)
{
    vw__tape_peak peak = vw__tape_get_peak(run->tape);
    if (peak.live_bytes > peaks->phase_peaks[phase].live_bytes)
        peaks->phase_peaks[phase] = peak;
    vw__tape_reset_peak(run->tape);
}

static void train_step(vw__plan_run *run, vw__plan_optimizer *optimizer, vw__plan_peaks *peaks)
{
    vw__tape *tape = run->tape;
    vw__tape_drop_gradients(tape);
    vw__shard_at(run, VW__SHARD_DROP_GRADIENTS, 0);
    if (run->has_gradients)
        vw__tape_make_gradients(tape);
    vw__tape_reset_peak(tape);
    for (uint64_t i = 0; i < run->settings->accumulation && vw__tape_status(tape) == VW_OK; i++) {
        vw__tensor loss = vw__plan_run_forward(run);
        peaks->after_forward_bytes = vw__tape_live_bytes(tape);
        end_phase(run, VW__PLAN_PHASE_FORWARD, peaks);
        vw__tape_enter(tape, "backward", -1);
        vw__shard_begin_backward(run);
        vw__tape_backward(tape, loss);
        vw__shard_end_backward(run);
        vw__tape_leave(tape);
        peaks->after_backward_bytes = vw__tape_live_bytes(tape);
        end_phase(run, VW__PLAN_PHASE_BACKWARD, peaks);
        vw__tensor_drop(tape, &loss);
    }
    vw__tape_reset_peak(tape); /* the loss is gone */
    vw__tape_enter(tape, "optimizer step", -1);
    vw__plan_optimizer_step(run, optimizer);
    vw__tape_leave(tape);
    peaks->after_step_bytes = vw__tape_live_bytes(tape);
    end_phase(run, VW__PLAN_PHASE_STEP, peaks);
}

static void find_highest(vw__plan_peaks *peaks)
{
    for (vw__plan_phase phase = 0; phase < VW__PLAN_PHASE_COUNT; phase++)
        if (peaks->phase_peaks[phase].live_bytes > peaks->peak.live_bytes) {
            peaks->peak = peaks->phase_peaks[phase];
            peaks->phase = phase;
        }
}

static void train(vw__plan_run *run, unsigned steps, vw__plan_peaks *peaks)
{
    vw__plan_optimizer optimizer;
    uint64_t first_step_bytes = 0;
    vw__plan_optimizer_create(run, &optimizer);
    if (run->is_settled)
        vw__plan_optimizer_settle(run, &optimizer);
    for (unsigned step = 0; step < steps; step++) {
        *peaks = (vw__plan_peaks){.phase = VW__PLAN_PHASE_FORWARD};
        vw__tape_tell(run->tape, VW__TAPE_MARK_STEP);
        train_step(run, &optimizer, peaks);
        vw__tape_tell(run->tape, VW__TAPE_MARK_STEP_END);
        find_highest(peaks);
        first_step_bytes = step == 0 ? peaks->peak.live_bytes : first_step_bytes;
    }
    peaks->first_step_bytes = first_step_bytes;
}

static void evaluate(vw__plan_run *run, vw__plan_peaks *peaks)
{
    bool has_grad = run->settings->mode == VW_PLAN_MODE_KEEP_GRAPH;
    bool before = vw__tape_set_grad(run->tape, has_grad);
    vw__tape_tell(run->tape, VW__TAPE_MARK_STEP);
    vw__tape_reset_peak(run->tape);
    vw__tensor result = vw__tensor_none();
    if (run->settings->generate > 0 && run->model->family->generate != NULL)
        run->model->family->generate(run);
    else
        result = vw__plan_run_forward(run);
    peaks->after_forward_bytes = vw__tape_live_bytes(run->tape);
    end_phase(run, VW__PLAN_PHASE_FORWARD, peaks);
    vw__tensor_drop(run->tape, &result);
    vw__tape_drop_graph(run->tape);
    vw__tape_set_grad(run->tape, before);
    vw__tape_tell(run->tape, VW__TAPE_MARK_STEP_END);
    find_highest(peaks);
    peaks->first_step_bytes = peaks->peak.live_bytes;
}

bool vw__plan_is_inside(const vw__tape *tape, uint32_t place, const char *name)
{
    while (place < vw__tape_place_count(tape)) {
        vw__tape_scope here = vw__tape_place(tape, place);
        if (strcmp(here.name, name) == 0)
            return true;
        place = here.parent;
    }
    return false;
}

static vw__plan_run settings_to_run(const vw_plan_model *model, const vw_plan_settings *settings)
{
    bool is_training = settings->mode == VW_PLAN_MODE_TRAIN;
    bool is_inference = settings->mode == VW_PLAN_MODE_INFERENCE;
    const vw_plan_head head = vw__plan_head_of(model, settings);
    return (vw__plan_run){
        .model = model,
        .settings = settings,
        .head = head,
        /* QLoRA: what is not quantized is cast to float32 before training */
        .dtype = settings->is_quantized && is_training ? VW__DTYPE_FLOAT32
                                                       : weights_dtype(settings->precision),
        .compute_dtype = products_dtype(settings),
        .quantization = vw__plan_quantization_of(model, settings),
        .is_training = is_training,
        .has_loss = !is_inference || (!settings->without_loss && settings->generate == 0 &&
                                      vw__plan_head_has_loss(head))};
}

static void simulate(vw__plan_run *run, unsigned steps, vw__plan_peaks *out)
{
    vw__tape_enter(run->tape, "model", -1);
    run->model->family->build(run);
    vw__module_check_lora_targets(run);
    vw__shard_at(run, VW__SHARD_BUILT, 0);
    vw__tape_leave(run->tape);
    uint64_t weights_bytes = vw__tape_live_of(run->tape, VW__TAPE_USE_WEIGHTS);
    vw__shard_begin_data_parallel(run);
    take_workspaces(run);
    if (vw__tape_status(run->tape) != VW_OK)
        return; /* where building failed there are no modules to run */
    if (run->settings->mode == VW_PLAN_MODE_TRAIN)
        train(run, steps, out);
    else
        for (unsigned i = 0; i < steps; i++)
            evaluate(run, out);
    out->weights_bytes = weights_bytes;
    out->parameters = run->parameters;
    out->trained_parameters = run->trained_parameters;
    out->adapted = run->adapted;
    out->pageable_bytes = run->pageable_bytes;
    out->is_generation = vw__plan_is_inside(run->tape, out->peak.place, "generation");
}

static vw_status run_steps(vw__plan_run *run, unsigned steps, const vw__tape_listener *listener,
                           vw__plan_peaks *out, vw__tape **places)
{
    *out = (vw__plan_peaks){.phase = VW__PLAN_PHASE_FORWARD};
    VW__TRY(vw__tape_create(listener, &run->tape));
    vw__arena_init(&run->arena, VW__PLAN_MOST_MODULE_BYTES);
    vw_status status = vw__shard_create(run);
    if (status == VW_OK) {
        simulate(run, steps, out);
        status = vw__tape_status(run->tape);
    }
    vw__arena_deinit(&run->arena);
    if (places != NULL && status == VW_OK)
        *places = run->tape;
    else
        vw__tape_destroy(run->tape);
    return status;
}

vw_status vw__plan_simulate_steps(const vw_plan_model *model, const vw_plan_settings *settings,
                                  unsigned steps, const vw__tape_listener *listener,
                                  vw__plan_peaks *out, vw__tape **places)
{
    vw__plan_run run = settings_to_run(model, settings);
    return run_steps(&run, steps, listener, out, places);
}

vw_status vw__plan_simulate(const vw_plan_model *model, const vw_plan_settings *settings,
                            const vw__tape_listener *listener, vw__plan_peaks *out,
                            vw__tape **places)
{
    unsigned steps = settings->mode == VW_PLAN_MODE_TRAIN ? 2 : 1;
    return vw__plan_simulate_steps(model, settings, steps, listener, out, places);
}

/* Of several accumulated batches the second is the highest, and later ones are like it: gradients
 * are there from its beginning. Where gradients are split over GPUs, the first batch must run too.
 */
vw_status vw__plan_estimate(const vw_plan_model *model, const vw_plan_settings *settings,
                            vw__plan_peaks *out)
{
    enum { ALIKE_FROM = 2 };
    vw_plan_settings few = *settings;
    bool is_shared = settings->gpus > 1 || settings->sharding != VW_SHARDING_NONE ||
                     vw__plan_is_offloaded(settings);
    bool has_gradients = settings->accumulation > 1 && !is_shared;
    if (has_gradients)
        few.accumulation = 1;
    else if (few.accumulation > ALIKE_FROM)
        few.accumulation = ALIKE_FROM;
    vw__plan_run run = settings_to_run(model, &few);
    run.is_settled = true;
    run.has_gradients = has_gradients;
    return run_steps(&run, 1, NULL, out, NULL);
}
