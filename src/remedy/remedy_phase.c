/* remedy_phase.c - which remedies help where, and in which order to try them.
 *
 * For those who know where a program failed and not what its memory holds. The order: what frees
 * most of that phase's own memory first, what costs nothing before what costs time, last what needs
 * other hardware. A phase leaves out what is already gone by then: no activation is alive in the
 * optimizer's step, and no gradient in inference. */
#include "remedy/remedy.h"

#define LIST(reason, ids)                                                                          \
    {                                                                                              \
        reason, ids, sizeof ids / sizeof *ids                                                      \
    }

static const vw__remedy_id for_training[] = {
    VW__REMEDY_SPLIT_BATCH,       VW__REMEDY_ZERO_GRAD,
    VW__REMEDY_DROP_VARIABLES,    VW__REMEDY_INFERENCE_MODE,
    VW__REMEDY_AUTOCAST,          VW__REMEDY_CHECKPOINTING,
    VW__REMEDY_FUSED_OPTIMIZER,   VW__REMEDY_8BIT_OPTIMIZER,
    VW__REMEDY_OFFLOAD_OPTIMIZER, VW__REMEDY_FSDP,
};

static const vw__remedy_id for_forward[] = {
    VW__REMEDY_SPLIT_BATCH,    VW__REMEDY_ZERO_GRAD,      VW__REMEDY_AUTOCAST,
    VW__REMEDY_CHECKPOINTING,  VW__REMEDY_DROP_VARIABLES, VW__REMEDY_INFERENCE_MODE,
    VW__REMEDY_8BIT_OPTIMIZER, VW__REMEDY_FSDP,
};

static const vw__remedy_id for_backward[] = {
    VW__REMEDY_CHECKPOINTING,     VW__REMEDY_SPLIT_BATCH, VW__REMEDY_AUTOCAST,
    VW__REMEDY_DROP_VARIABLES,    VW__REMEDY_ZERO_GRAD,   VW__REMEDY_8BIT_OPTIMIZER,
    VW__REMEDY_OFFLOAD_OPTIMIZER, VW__REMEDY_FSDP,
};

static const vw__remedy_id for_optimizer[] = {
    VW__REMEDY_FUSED_OPTIMIZER,
    VW__REMEDY_8BIT_OPTIMIZER,
    VW__REMEDY_DROP_VARIABLES,
    VW__REMEDY_OFFLOAD_OPTIMIZER,
    VW__REMEDY_ADAFACTOR,
    VW__REMEDY_LORA,
    VW__REMEDY_FSDP,
};

static const vw__remedy_id for_generate[] = {
    VW__REMEDY_SHORTER_GENERATION, VW__REMEDY_SMALLER_BATCH,   VW__REMEDY_FEWER_BITS,
    VW__REMEDY_INFERENCE_MODE,     VW__REMEDY_FUSED_ATTENTION, VW__REMEDY_OFFLOAD_WEIGHTS_INFERENCE,
    VW__REMEDY_FSDP_INFERENCE,
};

/* Pipelines switch gradients off themselves, and use fused attention. */
static const vw__remedy_id for_diffusion[] = {
    VW__REMEDY_OFFLOAD_PIPELINE,
    VW__REMEDY_TILED_DECODER,
    VW__REMEDY_SMALLER_IMAGE,
    VW__REMEDY_HALF_INFERENCE,
};

static const vw__remedy_id for_evaluation[] = {
    VW__REMEDY_INFERENCE_MODE, VW__REMEDY_DETACH_OUTPUTS, VW__REMEDY_SMALLER_BATCH,
    VW__REMEDY_DROP_VARIABLES, VW__REMEDY_EMPTY_CACHE,    VW__REMEDY_AUTOCAST_INFERENCE,
};

static const vw__remedy_id for_loading[] = {
    VW__REMEDY_FEWER_BITS,
    VW__REMEDY_LOAD_ON_HOST,
    VW__REMEDY_OFFLOAD_WEIGHTS_INFERENCE,
    VW__REMEDY_FSDP_INFERENCE,
};

static const vw__remedy_id for_data[] = {
    VW__REMEDY_SPLIT_BATCH,    VW__REMEDY_DROP_VARIABLES, VW__REMEDY_ZERO_GRAD,
    VW__REMEDY_INFERENCE_MODE, VW__REMEDY_AUTOCAST,       VW__REMEDY_CHECKPOINTING,
    VW__REMEDY_8BIT_OPTIMIZER, VW__REMEDY_FSDP,
};

static const vw__remedy_id for_saving[] = {
    VW__REMEDY_SAVE_FROM_HOST,
    VW__REMEDY_DROP_VARIABLES,
    VW__REMEDY_EMPTY_CACHE,
};

static const vw__remedy_list lists[VW__PHASE_COUNT] = {
    [VW__PHASE_OTHER] = LIST(NULL, for_training),
    [VW__PHASE_FORWARD] = LIST(NULL, for_forward),
    [VW__PHASE_BACKWARD] =
        LIST("A backward pass begins with all activations alive, and adds gradients to them.",
             for_backward),
    [VW__PHASE_OPTIMIZER] =
        LIST("An optimizer makes its state in its first step (Adam's is twice the weights), and "
             "the default step needs a copy of all parameters on the way. Activations are gone by "
             "then: a smaller batch hardly helps.",
             for_optimizer),
    [VW__PHASE_GENERATE] =
        LIST("Beside the weights, inference holds keys and values of every token so far, for each "
             "sequence of the batch.",
             for_generate),
    [VW__PHASE_DIFFUSION] =
        LIST("A pipeline holds its text encoders, denoiser and decoder at once, and works with one "
             "of them at a time; the decoder's activations grow with the pixels.",
             for_diffusion),
    [VW__PHASE_EVALUATION] =
        LIST("An evaluation needs no graph; without no_grad() it keeps one like training does, and "
             "outputs that are collected keep theirs.",
             for_evaluation),
    [VW__PHASE_LOADING] = LIST(
        "The model does not fit while it is loaded: a smaller batch does not help.", for_loading),
    [VW__PHASE_DATA] =
        LIST("A batch was on its way to the device, which was full by then.", for_data),
    [VW__PHASE_SAVING] =
        LIST("Saving can gather or copy weights on the device, on top of what training holds.",
             for_saving),
};

const vw__remedy_list *vw__remedy_for_phase(vw__phase phase)
{
    return &lists[phase];
}
