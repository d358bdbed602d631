/* plan_notes.c - which model and which settings leave something open. */
#include "plan/plan_notes.h"

#include <stdbool.h>

#include "plan/plan_model.h"
#include "plan/plan_run.h"

static bool has_convolutions(const vw_plan_model *model)
{
    return model->family->has_images && model->shape.attention.heads == 0;
}

static bool is_8bit(vw_optimizer optimizer)
{
    return optimizer == VW_OPTIMIZER_ADAM_8BIT || optimizer == VW_OPTIMIZER_PAGED_ADAM_8BIT;
}

size_t vw__plan_notes(const vw_plan_model *model, const vw_plan_settings *settings,
                      const char *notes[VW__PLAN_MOST_NOTES])
{
    bool is_training = settings->mode == VW_PLAN_MODE_TRAIN;
    vw__dtype autocast_dtype;
    size_t count = 0;
    notes[count++] = "planned as PyTorch runs it: torch.compile, CUDA graphs and kernels of other "
                     "libraries keep other tensors";
    if (has_convolutions(model))
        notes[count++] = "cuDNN chooses workspaces by card and version: those of "
                         "torch.backends.cudnn.benchmark are not covered";
    if (model->shape.mlp.experts > 0)
        notes[count++] = "how many tokens an expert gets is not known before: planned as if they "
                         "were spread evenly";
    if (settings->attention == VW_ATTENTION_SDPA && model->shape.attention.heads > 0 && is_training)
        notes[count++] = "batches without padding: with it, a mask is built for every sample, and "
                         "SDPA may take another kernel";
    if (settings->gpus > 1)
        notes[count++] = "NCCL's buffers are counted with 1.45 GiB, outside of PyTorch; they grow "
                         "with the number of communicators";
    if (is_training && is_8bit(settings->optimizer))
        notes[count++] = "bitsandbytes keeps small tensors in 32 bits, and others by version in "
                         "blocks of 256 or 2048";
    if (is_training && settings->optimizer == VW_OPTIMIZER_PAGED_ADAM_8BIT)
        notes[count++] = "paged state is unified memory, which max_memory_allocated() does not "
                         "count: on the card while there is room, on the host where there is none; "
                         "whether it fits is decided without it";
    if (is_training && settings->is_quantized && !vw__is_autocast(settings, &autocast_dtype))
        notes[count++] = "QLoRA without autocast: all that is not in 4 bits is float32, and so are "
                         "activations, which may take more than LoRA in bf16 does; amp-bf16 is "
                         "usual";
    if (is_training && is_8bit(settings->optimizer) && settings->sharding == VW_SHARDING_FSDP)
        notes[count++] = "bitsandbytes' optimizers are reported to fail on weights that FSDP2 "
                         "shares (bitsandbytes#1633)";
    if (settings->is_quantized && model->shape.mlp.experts > 0)
        notes[count++] = "bitsandbytes packs linear layers only: the experts, which lie in weights "
                         "of three dimensions, are not in 4 bits";
    if (settings->is_quantized && settings->sharding == VW_SHARDING_FSDP)
        notes[count++] = "FSDP shares weights in 4 bits only where bnb_4bit_quant_storage is the "
                         "type of the other weights";
    if (settings->offload != VW_OFFLOAD_NONE)
        notes[count++] = "host memory, pinned or not, is not planned";
    if (settings->generate > 0)
        notes[count++] = "generation with a cache that grows (DynamicCache), one token at a time";
    if (!is_training && settings->mode == VW_PLAN_MODE_KEEP_GRAPH)
        notes[count++] =
            "a graph that is kept is never wanted in evaluation: torch.inference_mode() "
            "frees it";
    return count;
}
