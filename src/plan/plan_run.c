/* plan_run.c - runs a model for some steps and notes how high memory rose, and when. */
#include "plan/plan_run.h"

#include <string.h>

#include "plan/sharding.h"

enum { WORKSPACES = 2 };

/* cuBLAS takes one for each thread that computes: the program's, and autograd's. */
static void take_workspaces(hr__plan_run *run, hr__tensor *workspaces)
{
    const hr_plan_card_info *card = hr_plan_card(run->settings->card_name);
    uint64_t size_bytes = card == NULL || card->has_large_workspace ? 32 << 20 : 8519680;
    hr__use before = hr__tape_set_use(run->tape, HR__USE_WORKSPACE);
    for (size_t i = 0; i < WORKSPACES; i++)
        workspaces[i] = hr__tensor_new(run->tape, size_bytes, HR__BYTE);
    hr__tape_set_use(run->tape, before);
}

bool hr__is_autocast(const hr_plan_settings *settings, hr__dtype *dtype)
{
    hr_precision precision = settings->precision;
    *dtype = precision == HR_PRECISION_AMP_FP16 ? HR__FLOAT16 : HR__BFLOAT16;
    return precision == HR_PRECISION_AMP_BF16 || precision == HR_PRECISION_AMP_FP16;
}

static hr__dtype weights_dtype(hr_precision precision)
{
    switch (precision) {
    case HR_PRECISION_BF16:
        return HR__BFLOAT16;
    case HR_PRECISION_FP16:
        return HR__FLOAT16;
    default:
        return HR__FLOAT32;
    }
}

/* What bnb_4bit_compute_dtype would be. */
static hr__dtype products_dtype(const hr_plan_settings *settings)
{
    hr__dtype dtype;
    return hr__is_autocast(settings, &dtype) ? dtype : weights_dtype(settings->precision);
}

hr__tensor hr__run_forward(hr__plan_run *run)
{
    hr__dtype dtype;
    bool has_autocast = hr__is_autocast(run->settings, &dtype);
    hr__enter(run->tape, "forward", -1);
    run->block_count = 0;
    hr__sharding_begin_forward(run);
    if (has_autocast)
        hr__autocast_enter(run->tape, dtype);
    hr__tensor result = run->model->family->forward(run);
    if (has_autocast)
        hr__autocast_leave(run->tape);
    hr__sharding_end_forward(run);
    hr__leave(run->tape);
    return result;
}

/* Ends a phase: its peak, and back to what is live. */
static void end_phase(const hr__plan_run *run, hr__phase phase, hr__plan_peaks *peaks)
{
    hr__tape_peak peak = hr__tape_get_peak(run->tape);
    if (peak.live_bytes > peaks->phase_peaks[phase].live_bytes)
        peaks->phase_peaks[phase] = peak;
    hr__tape_reset_peak(run->tape);
}

static void train_step(hr__plan_run *run, hr__optimizer *optimizer, hr__plan_peaks *peaks)
{
    hr__tape *tape = run->tape;
    hr__tape_drop_gradients(tape);
    hr__sharding_drop_gradients(run);
    if (run->has_gradients)
        hr__tape_make_gradients(tape);
    hr__tape_reset_peak(tape);
    for (uint64_t i = 0; i < run->settings->accumulation && hr__tape_status(tape) == HR_OK; i++) {
        hr__tensor loss = hr__run_forward(run);
        peaks->after_forward_bytes = hr__tape_live_bytes(tape);
        end_phase(run, HR__PHASE_FORWARD, peaks);
        hr__enter(tape, "backward", -1);
        hr__sharding_begin_backward(run);
        hr__backward(tape, loss);
        hr__sharding_end_backward(run);
        hr__leave(tape);
        peaks->after_backward_bytes = hr__tape_live_bytes(tape);
        end_phase(run, HR__PHASE_BACKWARD, peaks);
        hr__drop(tape, &loss);
    }
    hr__tape_reset_peak(tape); /* the loss is gone */
    hr__enter(tape, "optimizer step", -1);
    hr__optimizer_step(run, optimizer);
    hr__leave(tape);
    peaks->after_step_bytes = hr__tape_live_bytes(tape);
    end_phase(run, HR__PHASE_STEP, peaks);
}

static void find_highest(hr__plan_peaks *peaks)
{
    for (hr__phase phase = 0; phase < HR__PHASE_COUNT; phase++)
        if (peaks->phase_peaks[phase].live_bytes > peaks->peak.live_bytes) {
            peaks->peak = peaks->phase_peaks[phase];
            peaks->phase = phase;
        }
}

/* As if a step had been made before. */
static void settle(hr__plan_run *run, hr__optimizer *optimizer)
{
    hr__use before = hr__tape_set_use(run->tape, HR__USE_OPTIMIZER);
    if (!optimizer->is_elsewhere)
        hr__make_optimizer_state(run, optimizer);
    optimizer->has_state = true;
    hr__tape_set_use(run->tape, before);
}

static void train(hr__plan_run *run, unsigned steps, hr__plan_peaks *peaks)
{
    hr__optimizer optimizer;
    uint64_t first_step_bytes = 0;
    hr__optimizer_create(run, &optimizer);
    if (run->is_settled)
        settle(run, &optimizer);
    for (unsigned step = 0; step < steps; step++) {
        *peaks = (hr__plan_peaks){.phase = HR__PHASE_FORWARD};
        hr__tape_tell(run->tape, HR__MARK_STEP);
        train_step(run, &optimizer, peaks);
        hr__tape_tell(run->tape, HR__MARK_STEP_END);
        find_highest(peaks);
        first_step_bytes = step == 0 ? peaks->peak.live_bytes : first_step_bytes;
    }
    peaks->first_step_bytes = first_step_bytes;
}

static void evaluate(hr__plan_run *run, hr__plan_peaks *peaks)
{
    bool has_grad = run->settings->mode == HR_PLAN_MODE_KEEP_GRAPH;
    bool before = hr__tape_set_grad(run->tape, has_grad);
    hr__tape_tell(run->tape, HR__MARK_STEP);
    hr__tape_reset_peak(run->tape);
    hr__tensor result = hr__no_tensor();
    if (run->settings->generate > 0 && run->model->family->generate != NULL)
        run->model->family->generate(run);
    else
        result = hr__run_forward(run);
    peaks->after_forward_bytes = hr__tape_live_bytes(run->tape);
    end_phase(run, HR__PHASE_FORWARD, peaks);
    hr__drop(run->tape, &result);
    hr__tape_drop_graph(run->tape);
    hr__tape_set_grad(run->tape, before);
    hr__tape_tell(run->tape, HR__MARK_STEP_END);
    find_highest(peaks);
    peaks->first_step_bytes = peaks->peak.live_bytes;
}

static bool is_inside(const hr__tape *tape, uint32_t place, const char *name)
{
    while (place < hr__tape_place_count(tape)) {
        hr__place here = hr__tape_place(tape, place);
        if (strcmp(here.name, name) == 0)
            return true;
        place = here.parent;
    }
    return false;
}

static hr__plan_run settings_to_run(const hr_plan_model *model, const hr_plan_settings *settings)
{
    bool is_training = settings->mode == HR_PLAN_MODE_TRAIN;
    bool is_inference = settings->mode == HR_PLAN_MODE_INFERENCE;
    return (hr__plan_run){
        .model = model,
        .settings = settings,
        /* QLoRA: what is not quantized is cast to float32 before training */
        .dtype = settings->is_quantized && is_training ? HR__FLOAT32
                                                       : weights_dtype(settings->precision),
        .compute_dtype = products_dtype(settings),
        .is_training = is_training,
        .has_loss = !is_inference || (!settings->without_loss && settings->generate == 0)};
}

static void simulate(hr__plan_run *run, unsigned steps, hr__plan_peaks *out)
{
    hr__tensor workspaces[WORKSPACES];
    hr__enter(run->tape, "model", -1);
    run->model->family->build(run);
    hr__sharding_begin(run);
    hr__leave(run->tape);
    uint64_t weights_bytes = hr__tape_live_of(run->tape, HR__USE_WEIGHTS);
    hr__begin_data_parallel(run);
    take_workspaces(run, workspaces);
    if (hr__tape_status(run->tape) != HR_OK)
        return; /* where building failed there are no modules to run */
    if (run->settings->mode == HR_PLAN_MODE_TRAIN)
        train(run, steps, out);
    else
        for (unsigned i = 0; i < steps; i++)
            evaluate(run, out);
    out->weights_bytes = weights_bytes;
    out->parameters = run->parameters;
    out->trained_parameters = run->trained_parameters;
    out->pageable_bytes = run->pageable_bytes;
    out->is_generation = is_inside(run->tape, out->peak.place, "generation");
}

static hr_status run_steps(hr__plan_run *run, unsigned steps, const hr__tape_listener *listener,
                           hr__plan_peaks *out, hr__tape **places)
{
    *out = (hr__plan_peaks){.phase = HR__PHASE_FORWARD};
    hr_status status = hr__tape_create(listener, &run->tape);
    if (status != HR_OK)
        return status;
    hr__arena_init(&run->arena, HR__ARENA_NO_LIMIT);
    status = hr__sharding_create(run);
    if (status == HR_OK) {
        simulate(run, steps, out);
        status = hr__tape_status(run->tape);
    }
    hr__arena_deinit(&run->arena);
    if (places != NULL && status == HR_OK)
        *places = run->tape;
    else
        hr__tape_destroy(run->tape);
    return status;
}

hr_status hr__plan_simulate_steps(const hr_plan_model *model, const hr_plan_settings *settings,
                                  unsigned steps, const hr__tape_listener *listener,
                                  hr__plan_peaks *out, hr__tape **places)
{
    hr__plan_run run = settings_to_run(model, settings);
    return run_steps(&run, steps, listener, out, places);
}

hr_status hr__plan_simulate(const hr_plan_model *model, const hr_plan_settings *settings,
                            const hr__tape_listener *listener, hr__plan_peaks *out,
                            hr__tape **places)
{
    unsigned steps = settings->mode == HR_PLAN_MODE_TRAIN ? 2 : 1;
    return hr__plan_simulate_steps(model, settings, steps, listener, out, places);
}

/* The second of several accumulated batches is the highest: gradients are there from the beginning,
 * and the others are like it. Where gradients are split over GPUs, it takes the first to get there.
 */
hr_status hr__plan_estimate(const hr_plan_model *model, const hr_plan_settings *settings,
                            hr__plan_peaks *out)
{
    enum { ALIKE_FROM = 2 };
    hr_plan_settings few = *settings;
    bool is_shared =
        settings->gpus > 1 || settings->sharding != HR_SHARDING_NONE || hr__is_offloaded(settings);
    bool has_gradients = settings->accumulation > 1 && !is_shared;
    if (has_gradients)
        few.accumulation = 1;
    else if (few.accumulation > ALIKE_FROM)
        few.accumulation = ALIKE_FROM;
    hr__plan_run run = settings_to_run(model, &few);
    run.is_settled = true;
    run.has_gradients = has_gradients;
    return run_steps(&run, 1, NULL, out, NULL);
}
