/* plan_settings.c - names, defaults and checks of settings.
 *
 * Three kinds of rules, in this order: each setting has its range; some exclude each other, which
 * are facts about PyTorch and its neighbours; some make no sense for this model. */
#include "plan/plan_settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/struct_size.h"
#include "plan/plan_model.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define MOST_SEQUENCE UINT64_C(100000000)
#define MOST_IMAGE UINT64_C(65536)

/* ---- names ----------------------------------------------------------------------------------- */

#define NAME(upper, text) text,
#define DEFINE_NAMES(function, type, list, count)                                                  \
    const char *function(type value)                                                               \
    {                                                                                              \
        static const char *const names[] = {list(NAME)};                                           \
        return (int)value >= 0 && (int)value < (count) ? names[value] : "unknown";                 \
    }

DEFINE_NAMES(vw_precision_name, vw_precision, VW_PRECISION_LIST, VW_PRECISION_COUNT)
DEFINE_NAMES(vw_optimizer_name, vw_optimizer, VW_OPTIMIZER_LIST, VW_OPTIMIZER_COUNT)
DEFINE_NAMES(vw_checkpointing_name, vw_checkpointing, VW_CHECKPOINTING_LIST, VW_CHECKPOINTING_COUNT)
DEFINE_NAMES(vw_attention_name, vw_attention, VW_ATTENTION_LIST, VW_ATTENTION_COUNT)
DEFINE_NAMES(vw_offload_name, vw_offload, VW_OFFLOAD_LIST, VW_OFFLOAD_COUNT)
DEFINE_NAMES(vw_sharding_name, vw_sharding, VW_SHARDING_LIST, VW_SHARDING_COUNT)
DEFINE_NAMES(vw_plan_mode_name, vw_plan_mode, VW_PLAN_MODE_LIST, VW_PLAN_MODE_COUNT)
DEFINE_NAMES(vw_kv_dtype_name, vw_kv_dtype, VW_KV_DTYPE_LIST, VW_KV_DTYPE_COUNT)
DEFINE_NAMES(vw_plan_verdict_name, vw_plan_verdict, VW_PLAN_VERDICT_LIST, VW_PLAN_VERDICT_COUNT)
DEFINE_NAMES(vw_plan_head_name, vw_plan_head, VW_PLAN_HEAD_LIST, VW_PLAN_HEAD_COUNT)

void vw_plan_settings_init(vw_plan_settings *settings)
{
    *settings = (vw_plan_settings){
        .struct_size = sizeof *settings,
        .mode = VW_PLAN_MODE_TRAIN,
        .batch = 1,
        .accumulation = 1,
        .precision = VW_PRECISION_AUTO,
        .optimizer = VW_OPTIMIZER_ADAMW,
        .attention = VW_ATTENTION_SDPA,
        .gpus = 1,
    };
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static vw_status check_range(const char *name, uint64_t number, uint64_t most)
{
    if (number >= 1 && number <= most)
        return VW_OK;
    return vw__fail(VW_ERR_INVALID_ARGUMENT,
                    "%s: expected a number from 1 to %" PRIu64 ", found %" PRIu64, name, most,
                    number);
}

static vw_status check_enumerator(const char *name, int number, int count)
{
    if (number >= 0 && number < count)
        return VW_OK;
    return vw__fail(VW_ERR_INVALID_ARGUMENT, "%s: %d is none of its %d values", name, number,
                    count);
}

static vw_status check_each(const vw_plan_settings *settings)
{
    const struct {
        const char *name;
        int number, count;
    } enumerators[] = {
        {"mode", (int)settings->mode, VW_PLAN_MODE_COUNT},
        {"precision", (int)settings->precision, VW_PRECISION_COUNT},
        {"optimizer", (int)settings->optimizer, VW_OPTIMIZER_COUNT},
        {"offload", (int)settings->offload, VW_OFFLOAD_COUNT},
        {"checkpointing", (int)settings->checkpointing, VW_CHECKPOINTING_COUNT},
        {"attention", (int)settings->attention, VW_ATTENTION_COUNT},
        {"sharding", (int)settings->sharding, VW_SHARDING_COUNT},
        {"head", (int)settings->head, VW_PLAN_HEAD_COUNT},
        {"type of keys and values", (int)settings->kv_dtype, VW_KV_DTYPE_COUNT},
    };
    const struct {
        const char *name;
        uint64_t number, most;
        bool may_be_0; /* not said */
    } ranges[] = {
        {"batch", settings->batch, VW__PLAN_MOST_BATCH, false},
        {"sequence", settings->sequence, MOST_SEQUENCE, true},
        {"image", settings->image, MOST_IMAGE, true},
        {"accumulation", settings->accumulation, VW__PLAN_MOST_ACCUMULATION, false},
        {"generate", settings->generate, MOST_SEQUENCE, true},
        {"loss chunks", settings->loss_chunks, 65536, true},
        {"LoRA's rank", settings->lora_rank, 65536, true},
        {"padding", settings->padding, MOST_SEQUENCE, true},
        {"GPUs", settings->gpus, 100000, false},
    };
    for (size_t i = 0; i < COUNT_OF(enumerators); i++)
        VW__TRY(check_enumerator(enumerators[i].name, enumerators[i].number, enumerators[i].count));
    for (size_t i = 0; i < COUNT_OF(ranges); i++)
        if (ranges[i].number != 0 || !ranges[i].may_be_0)
            VW__TRY(check_range(ranges[i].name, ranges[i].number, ranges[i].most));
    return settings->checkpointing == VW_CHECKPOINTING_EVERY
               ? check_range("checkpoint every", settings->checkpoint_every, VW__PLAN_MOST_BATCH)
               : VW_OK;
}

/* ---- what does not go together --------------------------------------------------------------- */

static vw_status check_together(const vw_plan_settings *settings)
{
    const bool is_training = vw__plan_is_training(settings);
    const bool is_half = vw__plan_is_half(settings->precision);
    const bool is_float32 =
        settings->precision == VW_PRECISION_FP32 || settings->precision == VW_PRECISION_TF32;
    const bool is_shared = settings->sharding != VW_SHARDING_NONE;
    const bool is_zero =
        settings->sharding >= VW_SHARDING_ZERO_1 && settings->sharding <= VW_SHARDING_ZERO_3;
    const bool is_8bit = is_training && vw__plan_is_8bit(settings->optimizer);
    const bool has_tokens = settings->generate > 0;
    const vw_offload offload = settings->offload;
    const struct {
        bool is_refused;
        const char *words;
    } rules[] = {
        {settings->without_loss && settings->mode != VW_PLAN_MODE_INFERENCE,
         "without loss: only inference does without one"},
        {settings->loss_chunks > 1 && (settings->without_loss || has_tokens),
         "loss chunks: generation has no loss to compute in pieces, nor has a pass without labels"},
        {!has_tokens && (settings->kv_dtype != VW_KV_DTYPE_AUTO || settings->has_static_cache),
         "cache: keys and values are kept in generation only; expected a number of tokens to "
         "generate"},
        {is_training && has_tokens, "generate: tokens are generated in inference, not in training"},

        /* Outside of training there is no step, and no second pass over the layers. */
        {settings->mode == VW_PLAN_MODE_KEEP_GRAPH && has_tokens,
         "generate: generation keeps no graph; it goes with inference"},
        {!is_training && settings->checkpointing != VW_CHECKPOINTING_NONE,
         "checkpointing: only training computes layers again; without it, it does nothing"},
        {!is_training && settings->accumulation > 1,
         "accumulation: gradients are accumulated in training only"},
        {!is_training && (offload == VW_OFFLOAD_OPTIMIZER || offload == VW_OFFLOAD_SPILL),
         "offload: there is an optimizer in training only"},
        {!is_training && settings->has_master_weights,
         "master weights: the optimizer keeps them, and there is one in training only"},
        {!is_training && is_zero && settings->sharding != VW_SHARDING_ZERO_3,
         "ZeRO 1 and 2 share an optimizer's state and gradients, and there are none without "
         "training"},

        /* Precision. */
        {settings->has_master_weights && !is_half,
         "master weights: float32 copies are kept beside bf16 or fp16 weights; with this precision "
         "the weights are float32 already"},
        {settings->attention == VW_ATTENTION_FLASH && is_float32,
         "attention: flash-attn computes in bf16 or fp16 only; expected such a precision, or sdpa"},
        {settings->lora_targets != NULL && settings->lora_rank == 0,
         "LoRA's targets: there are none without LoRA; expected a rank"},
        {settings->has_fused_loss && !is_training,
         "fused loss: its gradients are made in the forward pass; only training has them"},
        {settings->has_fused_loss && settings->loss_chunks > 1,
         "fused loss: it goes through chunks of its own; expected it or loss chunks"},
        {settings->padding > 0 && has_tokens,
         "padding: planned for a forward pass, not for generation"},
        {settings->padding > 0 && settings->attention == VW_ATTENTION_FLASH,
         "padding: flash-attn takes padded tokens out, which is not planned; expected sdpa or "
         "eager"},
        {settings->is_quantized && settings->lora_rank == 0,
         "QLoRA: weights in 4 bits are not trained; expected a rank for LoRA"},

        /* Several GPUs, and the host. */
        {is_zero && settings->gpus < 2, "ZeRO shares among GPUs; expected at least 2 of them"},
        {is_shared && offload == VW_OFFLOAD_WEIGHTS,
         "offload: weights that are shared among GPUs are not streamed from the CPU as well"},
        {is_shared && offload == VW_OFFLOAD_SPILL,
         "offload: spill is planned for state that is not shared among GPUs"},
        {settings->sharding == VW_SHARDING_FSDP && offload == VW_OFFLOAD_OPTIMIZER,
         "offload: FSDP2 moves weights, gradients and state together or not at all; that is not "
         "planned"},
        {is_zero && settings->is_quantized,
         "QLoRA: DeepSpeed does not share weights in 4 bits; expected FSDP, or no sharding"},
        {is_8bit && offload == VW_OFFLOAD_OPTIMIZER,
         "offload: bitsandbytes' optimizers run on the GPU; paged-adam8bit is their way to the "
         "CPU's memory"},
        {is_training && is_shared && vw__plan_is_of_matrices(settings->optimizer),
         "optimizer: muon, galore and apollo step on whole matrices; that is not planned for "
         "weights that GPUs share"},
        {is_8bit && is_zero,
         "optimizer: DeepSpeed does not share the state of bitsandbytes' optimizers"},
    };
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        if (rules[i].is_refused)
            return vw__fail(VW_ERR_INVALID_ARGUMENT, "%s", rules[i].words);
    return VW_OK;
}

/* ---- for this model -------------------------------------------------------------------------- */

/* "causal-lm, none": what the family can be planned with. */
static void list_heads(const vw__plan_family *family, char *text, size_t size_bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < VW__PLAN_MOST_HEADS && family->heads[i] != VW_PLAN_HEAD_AUTO; i++)
        if (used < size_bytes)
            used += (size_t)snprintf(text + used, size_bytes - used, "%s%s", i > 0 ? ", " : "",
                                     vw_plan_head_name((vw_plan_head)family->heads[i]));
}

/* Fills in the head. Without labels there is no loss in inference. */
static vw_status find_head(const vw_plan_model *model, vw_plan_settings *settings)
{
    char known[256];
    const vw_plan_head asked = settings->head;
    settings->head = vw__plan_head_of(model, settings);
    if (settings->mode == VW_PLAN_MODE_INFERENCE && !vw__plan_head_has_loss(settings->head))
        settings->without_loss = true;
    if (asked == VW_PLAN_HEAD_AUTO || vw__plan_family_has_head(model->family, asked))
        return VW_OK;
    list_heads(model->family, known, sizeof known);
    if (known[0] == '\0')
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "head: a model of the family %s has the one that its layers describe",
                        model->family->name);
    return vw__fail(VW_ERR_INVALID_ARGUMENT, "head: a model of the family %s has one of %s, not %s",
                    model->family->name, known, vw_plan_head_name(asked));
}

/* Where a mask for every sample is all that padding changes. */
static bool can_be_padded(const vw_plan_model *model)
{
    const vw__plan_attention *shape = &model->shape.attention;
    return model->family->style != NULL && !model->family->has_images &&
           !model->family->scores.is_own && shape->buckets == 0 && shape->span == 0 &&
           model->shape.decoder_layers == 0;
}

static vw_status check_abilities(const vw_plan_model *model, const vw_plan_settings *settings)
{
    const bool has_attention = model->shape.attention.heads > 0;
    const struct {
        bool is_refused;
        const char *before, *after; /* the family's name */
    } rules[] = {
        {settings->generate > 0 && model->family->generate == NULL,
         "generate: a model of the family ",
         " generates no tokens, or how it does is not known; those with a decoder do"},
        {settings->generate > 0 && !vw__plan_has_vocabulary_head(model, settings),
         "generate: without a head for words a model of the family ", " generates no tokens"},
        {settings->loss_chunks > 1 && !vw__plan_has_vocabulary_head(model, settings),
         "loss chunks: a model of the family ",
         " has no scores for a vocabulary with this head, its loss is small"},
        {settings->has_fused_loss && !vw__plan_has_vocabulary_head(model, settings),
         "fused loss: a model of the family ",
         " has no scores for a vocabulary with this head, its loss is small"},
        {settings->padding > 0 && !can_be_padded(model), "padding: a model of the family ",
         " has no tokens, or a mask of its own, or two lengths: that is planned without padding"},
        {settings->attention != VW_ATTENTION_SDPA && !has_attention,
         "attention: a model of the family ", " has none"},
        {settings->attention == VW_ATTENTION_FLASH && model->family->scores.has_no_flash,
         "attention: the family ",
         " adds to its scores, or fills them, which flash-attn does not; expected sdpa or eager"},
        {settings->lora_rank > 0 && !has_attention, "LoRA: which layers of the family ",
         " it would adapt is not known"},
    };
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        if (rules[i].is_refused)
            return vw__fail(VW_ERR_INVALID_ARGUMENT, "%s%s%s", rules[i].before, model->family->name,
                            rules[i].after);
    if (settings->checkpointing != VW_CHECKPOINTING_NONE && model->family->has_blocks != NULL &&
        !model->family->has_blocks(model))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "checkpointing: the description has no repeat among its outermost layers, "
                        "whose rounds would be computed again");
    if (settings->lora_rank > model->shape.hidden && has_attention)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "LoRA's rank: expected at most the width of the model, %" PRIu64
                        ", found %" PRIu64,
                        model->shape.hidden, settings->lora_rank);
    return VW_OK;
}

/* Packed weights are not trained; adapters over those of bitsandbytes in 4 bits are QLoRA. */
static vw_status check_quantization(const vw_plan_model *model, const vw_plan_settings *settings)
{
    const vw__plan_quantization *how = &model->quantization;
    const bool is_bnb_4 = how->method == VW__PLAN_QUANTIZED_BNB_4;
    if (how->method == VW__PLAN_NOT_QUANTIZED || settings->mode == VW_PLAN_MODE_INFERENCE ||
        (is_bnb_4 && settings->is_quantized))
        return VW_OK;
    return vw__fail(VW_ERR_INVALID_ARGUMENT,
                    "quantization_config: weights in %s, %" PRIu64
                    " bits, are not trained; expected inference%s",
                    vw__plan_quantization_name(how->method), how->bits,
                    is_bnb_4 ? ", or QLoRA" : "");
}

static vw_status check_image(const vw_plan_model *model, vw_plan_settings *settings)
{
    const uint64_t patch = model->shape.embedding.patch;
    if (settings->sequence != 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "sequence: a model of the family %s sees images; expected their size, not "
                        "a length of %" PRIu64,
                        model->family->name, settings->sequence);
    if (settings->image == 0)
        settings->image = model->family->usual_length(model);
    VW__TRY(check_range("image", settings->image, MOST_IMAGE));
    if (patch != 0 && settings->image % patch != 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "image: expected a multiple of the patch's %" PRIu64
                        " pixels, found %" PRIu64,
                        patch, settings->image);
    return VW_OK;
}

static vw_status check_sequence(const vw_plan_model *model, vw_plan_settings *settings)
{
    const uint64_t usual = model->family->usual_length(model);
    const bool has_decoder = model->shape.decoder_layers > 0;
    if (settings->image != 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "image: a model of the family %s reads text; expected a length, not a size "
                        "of %" PRIu64 " pixels",
                        model->family->name, settings->image);
    if (settings->sequence == 0)
        settings->sequence = has_decoder                  ? usual /* the prompt is the encoder's */
                             : settings->generate < usual ? usual - settings->generate
                                                          : 1;
    if (settings->padding > 1)
        settings->sequence =
            (settings->sequence + settings->padding - 1) / settings->padding * settings->padding;
    VW__TRY(check_range("sequence", settings->sequence, MOST_SEQUENCE));
    const uint64_t all = settings->sequence + settings->generate; /* both within limits */
    if (model->family->has_position_table && all > usual && settings->generate > 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "sequence: the model has positions for %" PRIu64
                        " tokens and no more, found %" PRIu64 " and %" PRIu64 " generated",
                        usual, settings->sequence, settings->generate);
    if (model->family->has_position_table && all > usual)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "sequence: the model has positions for %" PRIu64
                        " tokens and no more, found %" PRIu64,
                        usual, all);
    return VW_OK;
}

/* ---- the card -------------------------------------------------------------------------------- */

static vw_status refuse_card(const char *name)
{
    const char *nearest = vw__plan_card_nearest(name);
    return vw__fail(VW_ERR_INVALID_ARGUMENT, "card: '%s' is not known%s%s%s", name,
                    nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                    nearest != NULL ? "'?" : "");
}

/* What a card of that generation cannot do. */
static vw_status check_card(const vw_plan_model *model, const vw_plan_settings *settings)
{
    const vw_precision precision = settings->precision;
    const vw__plan_quantization_method method = vw__plan_quantization_of(model, settings).method;
    const struct {
        bool is_asked;
        vw__plan_card_ability ability;
        const char *before, *after; /* the card's name */
    } rules[] = {
        {precision == VW_PRECISION_BF16 || precision == VW_PRECISION_AMP_BF16, VW__PLAN_CARD_BF16,
         "precision: ", " has no bf16, which begins with Ampere; expected fp16, amp-fp16 or fp32"},
        {precision == VW_PRECISION_TF32, VW__PLAN_CARD_BF16,
         "precision: ", " has no tf32, which begins with Ampere; expected fp32"},
        {settings->attention == VW_ATTENTION_FLASH, VW__PLAN_CARD_FLASH, "attention: on ",
         " flash-attn does not run, it begins with Ampere; expected sdpa"},
        {method == VW__PLAN_QUANTIZED_FP8, VW__PLAN_CARD_FP8,
         "quantization_config: ", " has no fp8, which begins with Ada and Hopper"},
        {method == VW__PLAN_QUANTIZED_BNB_8 || method == VW__PLAN_QUANTIZED_AWQ, VW__PLAN_CARD_INT8,
         "quantization_config: on ", " its kernels do not run, they begin with Turing"},
    };
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        if (rules[i].is_asked && !vw__plan_card_has(settings->card_name, rules[i].ability))
            return vw__fail(VW_ERR_INVALID_ARGUMENT, "%s%s%s", rules[i].before, settings->card_name,
                            rules[i].after);
    return VW_OK;
}

static vw_status find_card(vw_plan_settings *settings)
{
    if (settings->card_name == NULL)
        return VW_OK;
    const vw_plan_card_info *card = vw_plan_card(settings->card_name);
    if (card == NULL)
        return refuse_card(settings->card_name);
    settings->card_name = card->name;
    if (settings->card_bytes == 0)
        settings->card_bytes = card->total_bytes;
    return VW_OK;
}

/* ---- together -------------------------------------------------------------------------------- */

vw_status vw__plan_settings_check(const vw_plan_model *model, const vw_plan_settings *settings,
                                  vw_plan_settings *out)
{
    vw_plan_settings made;
    vw_plan_settings_init(&made);
    VW__TRY(VW__STRUCT_IN(vw_plan_settings, settings, &made));
    VW__TRY(check_each(&made));
    VW__TRY(find_card(&made));
    made.precision = vw__plan_precision_of(model, &made);
    VW__TRY(check_together(&made));
    VW__TRY(find_head(model, &made));
    VW__TRY(model->family->has_images ? check_image(model, &made) : check_sequence(model, &made));
    VW__TRY(check_abilities(model, &made));
    VW__TRY(check_quantization(model, &made));
    VW__TRY(check_card(model, &made));
    *out = made;
    return VW_OK;
}
