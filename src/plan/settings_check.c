/* settings_check.c - refuses what has no sense, with words.
 *
 * Three kinds of rules, in this order: each setting has its range; some exclude each other, which
 * are facts about PyTorch and its neighbours; some have no sense for this model. */
#include "plan/settings_check.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/struct_size.h"
#include "plan/plan_model.h"

void vw_plan_settings_init(vw_plan_settings *settings)
{
    *settings = (vw_plan_settings){
        .struct_size = sizeof *settings,
        .mode = VW_PLAN_MODE_TRAIN,
        .batch = 1,
        .accumulation = 1,
        .precision = VW_PRECISION_FP32,
        .optimizer = VW_OPTIMIZER_ADAMW,
        .attention = VW_ATTENTION_SDPA,
        .gpus = 1,
    };
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static vw_status check_range(const char *name, uint64_t number, uint64_t least, uint64_t most)
{
    if (number >= least && number <= most)
        return VW_OK;
    return vw__fail(VW_ERR_INVALID_ARGUMENT,
                    "%s: expected a number from %" PRIu64 " to %" PRIu64 ", found %" PRIu64, name,
                    least, most, number);
}

/* 0 is "not said" in the settings, and nothing that a person would write. */
static vw_status check_range_if_said(const char *name, uint64_t number, uint64_t most)
{
    return number == 0 ? VW_OK : check_range(name, number, 1, most);
}

static vw_status check_enumerator(const char *name, int number, int count)
{
    if (number >= 0 && number < count)
        return VW_OK;
    return vw__fail(VW_ERR_INVALID_ARGUMENT, "%s: %d is none of its %d values", name, number,
                    count);
}

static vw_status check_enumerators(const vw_plan_settings *settings)
{
    VW__TRY(check_enumerator("mode", (int)settings->mode, VW_PLAN_MODE_COUNT));
    VW__TRY(check_enumerator("precision", (int)settings->precision, VW_PRECISION_COUNT));
    VW__TRY(check_enumerator("optimizer", (int)settings->optimizer, VW_OPTIMIZER_COUNT));
    VW__TRY(check_enumerator("offload", (int)settings->offload, VW_OFFLOAD_COUNT));
    VW__TRY(
        check_enumerator("checkpointing", (int)settings->checkpointing, VW_CHECKPOINTING_COUNT));
    VW__TRY(check_enumerator("attention", (int)settings->attention, VW_ATTENTION_COUNT));
    return check_enumerator("sharding", (int)settings->sharding, VW_SHARDING_COUNT);
}

static vw_status check_ranges(const vw_plan_settings *settings)
{
    VW__TRY(check_range("batch", settings->batch, 1, VW__MOST_BATCH));
    VW__TRY(check_range_if_said("sequence", settings->sequence, VW__MOST_SEQUENCE));
    VW__TRY(check_range_if_said("image", settings->image, VW__MOST_IMAGE));
    VW__TRY(check_range("accumulation", settings->accumulation, 1, VW__MOST_ACCUMULATION));
    VW__TRY(check_range_if_said("generate", settings->generate, VW__MOST_SEQUENCE));
    VW__TRY(check_range_if_said("loss chunks", settings->loss_chunks, VW__MOST_CHUNKS));
    VW__TRY(check_range_if_said("LoRA's rank", settings->lora_rank, VW__MOST_RANK));
    VW__TRY(check_range("GPUs", settings->gpus, 1, VW__MOST_GPUS));
    if (settings->checkpointing == VW_CHECKPOINTING_EVERY)
        VW__TRY(check_range("checkpoint every", settings->checkpoint_every, 1, VW__MOST_BATCH));
    return VW_OK;
}

/* ---- what does not go together --------------------------------------------------------------- */

typedef struct facts {
    bool is_training, is_half, is_float32, has_checkpoints, is_zero, is_8bit;
} facts;

static facts facts_of(const vw_plan_settings *settings)
{
    const vw_precision precision = settings->precision;
    return (facts){
        .is_training = settings->mode == VW_PLAN_MODE_TRAIN,
        .is_half = precision == VW_PRECISION_BF16 || precision == VW_PRECISION_FP16,
        .is_float32 = precision == VW_PRECISION_FP32 || precision == VW_PRECISION_TF32,
        .has_checkpoints = settings->checkpointing != VW_CHECKPOINTING_NONE,
        .is_zero =
            settings->sharding >= VW_SHARDING_ZERO_1 && settings->sharding <= VW_SHARDING_ZERO_3,
        .is_8bit = settings->optimizer == VW_OPTIMIZER_ADAM_8BIT ||
                   settings->optimizer == VW_OPTIMIZER_PAGED_ADAM_8BIT,
    };
}

static vw_status refuse_if(bool is_refused, const char *words)
{
    return is_refused ? vw__fail(VW_ERR_INVALID_ARGUMENT, "%s", words) : VW_OK;
}

/* Outside of training there is no step, and no second pass over the layers. */
static vw_status check_mode(const vw_plan_settings *settings, const facts *is)
{
    VW__TRY(refuse_if(settings->without_loss && settings->mode != VW_PLAN_MODE_INFERENCE,
                      "without loss: only inference does without one"));
    VW__TRY(
        refuse_if(settings->loss_chunks > 1 && (settings->without_loss || settings->generate > 0),
                  "loss chunks: generation has no loss to compute in pieces, nor has a pass "
                  "without labels"));
    if (is->is_training)
        return refuse_if(settings->generate > 0,
                         "generate: tokens are generated in inference, not in training");
    VW__TRY(refuse_if(settings->mode == VW_PLAN_MODE_KEEP_GRAPH && settings->generate > 0,
                      "generate: generation keeps no graph; it goes with inference"));
    VW__TRY(refuse_if(is->has_checkpoints,
                      "checkpointing: only training computes layers again; without it, it does "
                      "nothing"));
    VW__TRY(refuse_if(settings->accumulation > 1,
                      "accumulation: gradients are accumulated in training only"));
    VW__TRY(refuse_if(settings->offload == VW_OFFLOAD_OPTIMIZER ||
                          settings->offload == VW_OFFLOAD_SPILL,
                      "offload: there is an optimizer in training only"));
    VW__TRY(refuse_if(settings->has_master_weights,
                      "master weights: the optimizer keeps them, and there is one in training "
                      "only"));
    return refuse_if(settings->sharding == VW_SHARDING_ZERO_1 ||
                         settings->sharding == VW_SHARDING_ZERO_2,
                     "ZeRO 1 and 2 share an optimizer's state and gradients, and there are none "
                     "without training");
}

static vw_status check_precision(const vw_plan_settings *settings, const facts *is)
{
    VW__TRY(refuse_if(settings->has_master_weights && !is->is_half,
                      "master weights: float32 copies are kept beside bf16 or fp16 weights; with "
                      "this precision the weights are float32 already"));
    VW__TRY(refuse_if(settings->attention == VW_ATTENTION_FLASH && is->is_float32,
                      "attention: flash-attn computes in bf16 or fp16 only; expected such a "
                      "precision, or sdpa"));
    return refuse_if(settings->is_quantized && settings->lora_rank == 0,
                     "QLoRA: weights in 4 bits are not trained; expected a rank for LoRA");
}

static vw_status check_sharding(const vw_plan_settings *settings, const facts *is)
{
    VW__TRY(refuse_if(is->is_zero && settings->gpus < 2,
                      "ZeRO shares among GPUs; expected at least 2 of them"));
    VW__TRY(
        refuse_if(settings->sharding != VW_SHARDING_NONE && settings->offload == VW_OFFLOAD_WEIGHTS,
                  "offload: weights that are shared among GPUs are not streamed from the CPU "
                  "as well"));
    VW__TRY(
        refuse_if(settings->sharding != VW_SHARDING_NONE && settings->offload == VW_OFFLOAD_SPILL,
                  "offload: spill is planned for state that is not shared among GPUs"));
    VW__TRY(refuse_if(settings->sharding == VW_SHARDING_FSDP &&
                          settings->offload == VW_OFFLOAD_OPTIMIZER,
                      "offload: FSDP2 moves weights, gradients and state together or not at all; "
                      "that is not planned"));
    return refuse_if(is->is_zero && settings->is_quantized,
                     "QLoRA: DeepSpeed does not share weights in 4 bits; expected FSDP, or no "
                     "sharding");
}

static vw_status check_optimizer(const vw_plan_settings *settings, const facts *is)
{
    VW__TRY(refuse_if(is->is_8bit && settings->offload == VW_OFFLOAD_OPTIMIZER,
                      "offload: bitsandbytes' optimizers run on the GPU; paged-adam8bit is their "
                      "way to the CPU's memory"));
    return refuse_if(is->is_8bit && is->is_zero,
                     "optimizer: DeepSpeed does not share the state of bitsandbytes' optimizers");
}

static vw_status check_together(const vw_plan_settings *settings)
{
    const facts is = facts_of(settings);
    VW__TRY(check_mode(settings, &is));
    VW__TRY(check_precision(settings, &is));
    VW__TRY(check_sharding(settings, &is));
    return is.is_training ? check_optimizer(settings, &is) : VW_OK;
}

/* ---- for this model -------------------------------------------------------------------------- */

static bool has_attention(const vw_plan_model *model)
{
    return model->shape.heads > 0;
}

static vw_status check_abilities(const vw_plan_model *model, const vw_plan_settings *settings)
{
    const vw__family *family = model->family;
    const char *name = family->name;
    if (settings->generate > 0 && family->generate == NULL)
        return vw__fail(
            VW_ERR_INVALID_ARGUMENT,
            "generate: a model of the family %s generates no tokens, or how it does is "
            "not known; those of gpt2, llama, gemma, phi, phi3, gpt_neox, mixtral and t5 do",
            name);
    if (settings->loss_chunks > 1 && model->shape.vocabulary == 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "loss chunks: a model of the family %s has no vocabulary, its loss is "
                        "small",
                        name);
    if (settings->attention != VW_ATTENTION_SDPA && !has_attention(model))
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "attention: a model of the family %s has none",
                        name);
    if (settings->attention == VW_ATTENTION_FLASH && model->shape.buckets > 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "attention: the family %s adds a bias to its attention, which flash-attn "
                        "does not take; expected sdpa or eager",
                        name);
    if (settings->lora_rank > 0 && !has_attention(model))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "LoRA: which layers of the family %s it would adapt is not known", name);
    if (settings->lora_rank > model->shape.hidden && has_attention(model))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "LoRA's rank: expected at most the width of the model, %" PRIu64
                        ", found %" PRIu64,
                        model->shape.hidden, settings->lora_rank);
    return VW_OK;
}

static vw_status check_image(const vw_plan_model *model, vw_plan_settings *settings)
{
    const uint64_t patch = model->shape.patch;
    if (settings->sequence != 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "sequence: a model of the family %s sees images; expected their size, not "
                        "a length of %" PRIu64,
                        model->family->name, settings->sequence);
    if (settings->image == 0)
        settings->image = model->family->usual_length(model);
    VW__TRY(check_range("image", settings->image, 1, VW__MOST_IMAGE));
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
    VW__TRY(check_range("sequence", settings->sequence, 1, VW__MOST_SEQUENCE));
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
    const char *names[64];
    size_t count = 0;
    for (const vw_plan_card_info *card; count < 64 && (card = vw_plan_card_number(count)) != NULL;)
        names[count++] = card->name;
    const char *nearest = vw__nearest_name(name, names, count);
    return vw__fail(VW_ERR_INVALID_ARGUMENT, "card: '%s' is not known%s%s%s", name,
                    nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                    nearest != NULL ? "'?" : "");
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

vw_status vw__settings_check(const vw_plan_model *model, const vw_plan_settings *settings,
                             vw_plan_settings *out)
{
    vw_plan_settings made;
    vw_plan_settings_init(&made);
    VW__TRY(VW__STRUCT_IN(vw_plan_settings, settings, &made));
    VW__TRY(check_enumerators(&made));
    VW__TRY(check_ranges(&made));
    VW__TRY(check_together(&made));
    VW__TRY(model->family->has_images ? check_image(model, &made) : check_sequence(model, &made));
    VW__TRY(check_abilities(model, &made));
    VW__TRY(find_card(&made));
    *out = made;
    return VW_OK;
}

/* ---- notes ----------------------------------------------------------------------------------- */

size_t vw__settings_notes(const vw_plan_model *model, const vw_plan_settings *settings,
                          const char *notes[VW__SETTINGS_MOST_NOTES])
{
    const vw__transformer *shape = &model->shape;
    size_t count = 0;
    if (!model->family->has_images && shape->positions > 0 &&
        settings->sequence + settings->generate > shape->positions)
        notes[count++] = "the sequence is longer than those the model was made for";
    if (shape->patch > 0 && settings->image != shape->image)
        notes[count++] = "images of another size than the model's: it then interpolates its "
                         "positions, which the plan leaves out";
    if (settings->mode == VW_PLAN_MODE_TRAIN && settings->precision == VW_PRECISION_FP16 &&
        !settings->has_master_weights)
        notes[count++] = "weights in fp16 without float32 copies take little memory and seldom "
                         "train well: small updates are lost";
    if (settings->sharding == VW_SHARDING_FSDP && settings->gpus == 1)
        notes[count++] = "FSDP on one GPU shares nothing: what is planned is its own cost";
    return count;
}
