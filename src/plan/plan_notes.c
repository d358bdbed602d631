/* plan_notes.c - what the model and the settings leave open, one row for each note. */
#include "plan/plan_model.h"
#include "plan/plan_run.h"
#include "plan/plan_settings.h"

size_t vw__plan_notes(const vw_plan_model *model, const vw_plan_settings *settings,
                      const char *notes[VW__PLAN_MOST_NOTES])
{
    const vw__plan_shape *shape = &model->shape;
    const bool has_images = model->family->has_images;
    const bool is_training = vw__plan_is_training(settings);
    const bool is_8bit = is_training && vw__plan_is_8bit(settings->optimizer);
    const bool is_fsdp = settings->sharding == VW_SHARDING_FSDP;
    vw__dtype autocast_dtype;
    const bool is_autocast = vw__plan_is_autocast(settings, &autocast_dtype);
    const struct {
        bool applies;
        const char *text;
    } rows[] = {
        {!has_images && shape->embedding.positions > 0 &&
             settings->sequence + settings->generate > shape->embedding.positions,
         "the sequence is longer than those the model was made for"},
        {shape->embedding.patch > 0 && settings->image != shape->embedding.image,
         "images of another size than the model's: it then interpolates its positions, which the "
         "plan leaves out"},
        {is_training && settings->precision == VW_PRECISION_FP16 && !settings->has_master_weights,
         "weights in fp16 without float32 copies take little memory and seldom train well: small "
         "updates are lost"},
        {!vw__plan_head_has_loss(settings->head) && settings->mode != VW_PLAN_MODE_INFERENCE,
         "without a head there is no loss: planned with the mean of the last hidden states"},
        {is_training && settings->precision == VW_PRECISION_FP32 && model->has_precision &&
             model->precision != VW_PRECISION_FP32,
         "planned in fp32; the file's weights are in 16 bits, in which transformers 5 loads them "
         "unless dtype is given: bf16 or fp16 plans that, amp-bf16 autocast over fp32"},
        {is_fsdp && settings->gpus == 1,
         "FSDP on one GPU shares nothing: what is planned is its own cost"},
        {true, "planned as PyTorch runs it: torch.compile, CUDA graphs and kernels of other "
               "libraries keep other tensors"},
        {has_images && shape->attention.heads == 0,
         "cuDNN chooses workspaces by card and version: those of torch.backends.cudnn.benchmark "
         "are not covered"},
        {shape->mlp.experts > 0,
         "how many tokens an expert gets is not known before: planned as if "
         "they were spread evenly"},
        {settings->attention == VW_ATTENTION_SDPA && shape->attention.heads > 0 && is_training &&
             settings->padding == 0,
         "batches without padding: with it, a mask is built for every sample, and SDPA may take "
         "another kernel"},
        {settings->padding > 0,
         "padded batches: SDPA turns the mask of every sample into one to add, in every layer"},
        {settings->has_fused_loss,
         "fused loss as Liger's kernel has it: both gradients of the head are made in the forward "
         "pass; its other kernels are not planned"},
        {is_training && settings->optimizer == VW_OPTIMIZER_MUON,
         "Muon for the matrices inside of the model, AdamW for vectors, embeddings and the head"},
        {is_training && (settings->optimizer == VW_OPTIMIZER_GALORE ||
                         settings->optimizer == VW_OPTIMIZER_APOLLO),
         "rank 128, for all matrices but embeddings and the head, which are AdamW's; the step is "
         "one that finds its space anew, which every 200th is"},
        {settings->gpus > 1, "NCCL's buffers are counted with 1.45 GiB, outside of PyTorch; they "
                             "grow with the number of communicators"},
        {is_8bit, "bitsandbytes keeps small tensors in 32 bits, and others by version in blocks of "
                  "256 or 2048"},
        {is_training && settings->optimizer == VW_OPTIMIZER_PAGED_ADAM_8BIT,
         "paged state is unified memory, which max_memory_allocated() does not count: on the card "
         "while there is room, on the host where there is none; whether it fits is decided without "
         "it"},
        {is_training && settings->is_quantized && !is_autocast,
         "QLoRA without autocast: all that is not in 4 bits is float32, and so are activations, "
         "which may take more than LoRA in bf16 does; amp-bf16 is usual"},
        {is_8bit && is_fsdp, "bitsandbytes' optimizers are reported to fail on weights that FSDP2 "
                             "shares (bitsandbytes#1633)"},
        {settings->is_quantized && shape->mlp.experts > 0,
         "bitsandbytes packs linear layers only: the experts, which lie in weights of three "
         "dimensions, are not in 4 bits"},
        {settings->is_quantized && is_fsdp,
         "FSDP shares weights in 4 bits only where bnb_4bit_quant_storage is the type of the other "
         "weights"},
        {settings->offload != VW_OFFLOAD_NONE, "host memory, pinned or not, is not planned"},
        {settings->generate > 0 && !settings->has_static_cache,
         "generation with a cache that grows (DynamicCache), one token at a time"},
        {settings->kv_dtype != VW_KV_DTYPE_AUTO,
         "keys and values are kept in another type than they are computed in, and made again for "
         "one layer at a time; what a quantized cache leaves as it is (its last tokens) is not "
         "counted"},
        {model->quantization.method != VW__PLAN_NOT_QUANTIZED,
         "products with quantized weights are planned as their kernels run for long inputs, with "
         "the weight of one layer in 16 bits, or with the argument in 8"},
        {settings->mode == VW_PLAN_MODE_KEEP_GRAPH,
         "a graph that is kept is never wanted in evaluation: torch.inference_mode() frees it"},
    };
    size_t count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].applies)
            notes[count++] = rows[i].text;
    return count;
}
