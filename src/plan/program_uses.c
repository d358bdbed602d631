/* program_uses.c - techniques are known by the files of the libraries that do them. */
#include "plan/program_uses.h"

#include <string.h>

#include "analysis/attribution.h" /* vw__path_has */

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { FEW_FORWARDS = 4 }; /* without a backward pass: it may just not have come yet */

static const struct {
    const char *path;
    const char *function_beginning; /* NULL = any */
    unsigned use;
} use_rules[] = {
    {"torch/utils/checkpoint.py", NULL, VW__USES_CHECKPOINTING},
    {"deepspeed/runtime/activation_checkpointing/", NULL, VW__USES_CHECKPOINTING},
    {"torch/amp/", NULL, VW__USES_16_BITS},
    {"torch/cuda/amp/", NULL, VW__USES_16_BITS},
    {"apex/amp/", NULL, VW__USES_16_BITS},
    {"flash_attn/", NULL, VW__USES_16_BITS}, /* its kernels take nothing else */
    {"bitsandbytes/optim/", NULL, VW__USES_8_BIT_STATE},
    {"torchao/optim/", NULL, VW__USES_8_BIT_STATE},
    {"torch/optim/", "_multi_tensor_", VW__USES_FOREACH},
    {"torch/distributed/fsdp/", NULL, VW__USES_SHARDS},
    {"torch/distributed/_composable/fsdp/", NULL, VW__USES_SHARDS},
    {"deepspeed/runtime/zero/", NULL, VW__USES_SHARDS},
    {"torch/nn/parallel/", NULL, VW__USES_SEVERAL_GPUS},
    {"torch/distributed/", NULL, VW__USES_SEVERAL_GPUS},
    {"transformers/", NULL, VW__USES_TRANSFORMERS},
    {"liger_kernel/", NULL, VW__USES_FUSED_LOSS},
};

static unsigned find_techniques(const vw__model *model)
{
    unsigned uses = 0;
    for (size_t i = 0; i < model->frame_count; i++) {
        const char *function = vw__model_string(model, model->frames[i].name);
        const char *file = vw__model_string(model, model->frames[i].filename);
        for (size_t r = 0; r < COUNT_OF(use_rules); r++) {
            const char *beginning = use_rules[r].function_beginning;
            if ((uses & use_rules[r].use) == 0 &&
                (beginning == NULL || strncmp(function, beginning, strlen(beginning)) == 0) &&
                vw__path_has(file, use_rules[r].path))
                uses |= use_rules[r].use;
        }
    }
    return uses;
}

/* PyTorch writes a trace for each GPU that it sees. */
static bool sees_several_gpus(const vw__model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->trace_count; i++)
        count += model->traces[i].device != VW__HOST_DEVICE;
    return count > 1;
}

vw__program_uses vw__program_uses_find(const vw__model *model, const vw__roles *roles,
                                       uint32_t last_instant)
{
    vw__program_uses uses = {.techniques = find_techniques(model)};
    size_t forward_count = 0;
    if (sees_several_gpus(model))
        uses.techniques |= VW__USES_SEVERAL_GPUS;
    for (size_t i = 0; i < roles->pass_count && roles->passes[i].begin < last_instant; i++) {
        uint8_t kind = roles->passes[i].kind;
        forward_count += kind == VW__PASS_FORWARD;
        uses.has_backward = uses.has_backward || kind == VW__PASS_BACKWARD;
        uses.has_step = uses.has_step || kind == VW__PASS_OPTIMIZER;
    }
    uses.may_train = uses.has_backward || forward_count < FEW_FORWARDS;
    return uses;
}
