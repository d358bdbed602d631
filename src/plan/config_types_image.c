/* config_types_image.c - config.json of models that read images: its numbers, and then the layers
 * that are written out of them; and of models that hear. */
#include "plan/config_types.h"

#include <string.h>

#include "base/error.h"
#include "plan/config_rows.h"
#include "plan/vision_transformers.h"

/* clang-format off */
#define IMAGE_KEYS                                                                                 \
    NUMBER_IF("image_size", embedding.image, VW__CONFIG_MOST_PIXELS),                              \
    NUMBER_IF("patch_size", embedding.patch, VW__CONFIG_MOST_PIXELS),                              \
    NUMBER_IF("num_channels", embedding.channels, VW__CONFIG_MOST_WIDTH)
#define WHOLE_PATCHES MULTIPLE("image_size", embedding.image, "patch_size", embedding.patch)
#define BLOCK_KEYS_IF                                                                              \
    NUMBER_IF("hidden_size", hidden, VW__CONFIG_MOST_WIDTH),                                       \
    NUMBER_IF("num_hidden_layers", layers, VW__CONFIG_MOST_LAYERS),                                \
    NUMBER_IF("num_attention_heads", attention.heads, VW__CONFIG_MOST_HEADS),                      \
    NUMBER_IF("intermediate_size", mlp.inner, VW__CONFIG_MOST_INNER),                              \
    ACTIVATION("hidden_act"),                                                                      \
    DROPOUT("attention_dropout", attention.has_dropout),                                           \
    WHOLE_HEADS
/* clang-format on */

/* ---- DeiT and DINOv2 ------------------------------------------------------------------------- */

static vw_status describe_deit(const vw__config *config, const vw__config_key *key, void *into)
{
    vw_plan_model *model = into;
    (void)config;
    (void)key;
    vw__config_complete(&model->shape);
    return vw__vision_describe_deit(model);
}

static vw_status describe_dinov2(const vw__config *config, const vw__config_key *key, void *into)
{
    vw_plan_model *model = into;
    vw__plan_mlp *mlp = &model->shape.mlp;
    vw__vision_dinov2 options = {.has_mask_token = true};
    double ratio = 4, drop_path = 0;
    (void)key;
    VW__TRY(vw__config_real_if(config, "mlp_ratio", 0.001, 1024, &ratio));
    VW__TRY(vw__config_real_if(config, "drop_path_rate", 0, 1, &drop_path));
    VW__TRY(vw__config_boolean_if(config, "use_mask_token", &options.has_mask_token));
    options.has_drop_path = drop_path > 0;
    vw__config_complete(&model->shape);
    mlp->inner = (uint64_t)((double)model->shape.hidden * ratio);
    if (mlp->is_gated) /* as many parameters as without a gate, in whole eights */
        mlp->inner = (mlp->inner * 2 / 3 + 7) / 8 * 8;
    return vw__vision_describe_dinov2(model, &options);
}

/* ---- CLIP and SigLIP ------------------------------------------------------------------------- */

/* clang-format off */
static const vw__config_key image_tower_keys[] = {BLOCK_KEYS_IF, IMAGE_KEYS, WHOLE_PATCHES, END};
static const vw__config_key text_tower_keys[] = {
    BLOCK_KEYS_IF,
    NUMBER_IF("vocab_size", embedding.vocabulary, VW__CONFIG_MOST_VOCABULARY),
    NUMBER_IF("max_position_embeddings", embedding.positions, VW__CONFIG_MOST_POSITIONS),
    END};
/* clang-format on */

/* One part of the file, over the defaults of its class. */
static vw_status read_tower(const vw__config *config, const char *name, const vw__config_key *keys,
                            vw__plan_shape *shape)
{
    vw_plan_model part = {.shape = *shape};
    vw__config inside;
    if (!vw__config_has_object(config, name))
        return VW_OK;
    VW__TRY(vw__config_object(config, name, &inside));
    VW__TRY(vw__config_read_keys(&inside, keys, &part));
    *shape = part.shape;
    return VW_OK;
}

static vw_status read_pair(const vw__config *config, vw_plan_model *model, vw__vision_pair *pair)
{
    VW__TRY(read_tower(config, "vision_config", image_tower_keys, &pair->image));
    VW__TRY(read_tower(config, "text_config", text_tower_keys, &pair->text));
    model->shape.hidden = pair->text.hidden;
    model->shape.attention = pair->image.attention;
    model->shape.embedding.positions = pair->text.embedding.positions;
    return VW_OK;
}

static vw_status describe_clip(const vw__config *config, const vw__config_key *key, void *into)
{
    vw__vision_pair pair = {
        .image = {.hidden = 768,
                  .layers = 12,
                  .attention = {.heads = 12, .has_query_bias = true},
                  .mlp = {.inner = 3072, .activation = VW__PLAN_ACTIVATION_QUICK_GELU},
                  .embedding = {.image = 224, .patch = 32, .channels = 3}},
        .text = {.hidden = 512,
                 .layers = 12,
                 .attention = {.heads = 8, .has_query_bias = true},
                 .mlp = {.inner = 2048, .activation = VW__PLAN_ACTIVATION_QUICK_GELU},
                 .embedding = {.vocabulary = 49408, .positions = 77}},
        .projection = 512};
    (void)key;
    VW__TRY(read_pair(config, into, &pair));
    VW__TRY(
        vw__config_number_if(config, "projection_dim", 1, VW__CONFIG_MOST_WIDTH, &pair.projection));
    return vw__vision_describe_pair(into, &pair);
}

static vw_status describe_siglip(const vw__config *config, const vw__config_key *key, void *into)
{
    vw__vision_pair pair = {
        .image = {.hidden = 768,
                  .layers = 12,
                  .attention = {.heads = 12, .has_query_bias = true},
                  .mlp = {.inner = 3072, .activation = VW__PLAN_ACTIVATION_GELU},
                  .embedding = {.image = 224, .patch = 16, .channels = 3}},
        .text = {.hidden = 768,
                 .layers = 12,
                 .attention = {.heads = 12, .has_query_bias = true},
                 .mlp = {.inner = 3072, .activation = VW__PLAN_ACTIVATION_GELU},
                 .embedding = {.vocabulary = 32000, .positions = 64}},
        .is_siglip = true};
    vw__config text;
    (void)key;
    VW__TRY(read_pair(config, into, &pair));
    pair.projection = pair.text.hidden;
    if (vw__config_has_object(config, "text_config")) {
        VW__TRY(vw__config_object(config, "text_config", &text));
        VW__TRY(vw__config_number_if(&text, "projection_size", 1, VW__CONFIG_MOST_WIDTH,
                                     &pair.projection));
    }
    if (pair.projection != pair.image.hidden)
        return vw__config_refuse(config, "text_config", VW_ERR_UNSUPPORTED,
                                 "a projection_size that is vision_config's hidden_size");
    return vw__vision_describe_pair(into, &pair);
}

/* ---- ConvNeXt and Swin ----------------------------------------------------------------------- */

/* A number for each stage; missing: left as they are. */
static vw_status read_stages(const vw__config *config, const char *name, uint64_t most,
                             uint64_t numbers[VW__VISION_MOST_STAGES], uint64_t *count)
{
    uint64_t read[VW__VISION_MOST_STAGES];
    size_t found = 0;
    if (!vw__config_has(config, name))
        return VW_OK;
    VW__TRY(vw__config_numbers(config, name, 1, most, VW__VISION_MOST_STAGES, read, &found));
    if (found == 0 || (*count > 0 && found != *count))
        return vw__config_refuse(config, name, VW_ERR_UNSUPPORTED,
                                 "as many numbers as there are depths");
    memcpy(numbers, read, found * sizeof read[0]);
    *count = found;
    return VW_OK;
}

/* Blocks in all, as the layers of a transformer. */
static vw_status check_depths(const vw__config *config, const vw__vision_stages *stages)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < stages->count; i++)
        sum += stages->depths[i];
    if (sum <= VW__CONFIG_MOST_LAYERS)
        return VW_OK;
    return vw__config_refuse(config, "depths", VW_ERR_UNSUPPORTED, "at most %llu blocks in all",
                             (unsigned long long)VW__CONFIG_MOST_LAYERS);
}

static vw_status read_depths(const vw__config *config, vw__vision_stages *stages)
{
    double drop_path = stages->has_drop_path ? 1 : 0;
    uint64_t count = 0;
    VW__TRY(read_stages(config, "depths", VW__CONFIG_MOST_LAYERS, stages->depths, &count));
    if (count > 0)
        stages->count = count;
    VW__TRY(vw__config_real_if(config, "drop_path_rate", 0, 1, &drop_path));
    stages->has_drop_path = drop_path > 0;
    return check_depths(config, stages);
}

static vw_status describe_convnext(const vw__config *config, const vw__config_key *key, void *into)
{
    vw_plan_model *model = into;
    vw__vision_stages stages = {
        .count = 4, .widths = {96, 192, 384, 768}, .depths = {3, 3, 9, 3}, .has_scale = true};
    double scale = 1;
    (void)key;
    VW__TRY(read_depths(config, &stages));
    VW__TRY(
        read_stages(config, "hidden_sizes", VW__CONFIG_MOST_WIDTH, stages.widths, &stages.count));
    VW__TRY(vw__config_real_if(config, "layer_scale_init_value", 0, 1024, &scale));
    stages.has_scale = scale > 0;
    model->shape.hidden = stages.widths[0];
    vw__config_complete(&model->shape);
    return vw__vision_describe_convnext(model, &stages);
}

static vw_status check_swin_heads(const vw__config *config, const vw_plan_model *model,
                                  const vw__vision_stages *stages)
{
    for (size_t i = 0; i < stages->count; i++)
        if ((model->shape.hidden << i) % stages->heads[i] != 0)
            return vw__config_refuse(config, "num_heads", VW_ERR_UNSUPPORTED,
                                     "divisors of each stage's width");
    return VW_OK;
}

static vw_status describe_swin(const vw__config *config, const vw__config_key *key, void *into)
{
    vw_plan_model *model = into;
    vw__vision_stages stages = {.count = 4,
                                .depths = {2, 2, 6, 2},
                                .heads = {3, 6, 12, 24},
                                .window = 7,
                                .mlp_ratio = 4,
                                .has_drop_path = true};
    (void)key;
    VW__TRY(read_depths(config, &stages));
    VW__TRY(read_stages(config, "num_heads", VW__CONFIG_MOST_HEADS, stages.heads, &stages.count));
    VW__TRY(vw__config_number_if(config, "window_size", 1, VW__CONFIG_MOST_PIXELS, &stages.window));
    VW__TRY(vw__config_real_if(config, "mlp_ratio", 0.001, 1024, &stages.mlp_ratio));
    VW__TRY(vw__config_boolean_if(config, "use_absolute_embeddings", &stages.has_positions));
    VW__TRY(check_swin_heads(config, model, &stages));
    model->shape.attention.heads = stages.heads[stages.count - 1];
    vw__config_complete(&model->shape);
    return vw__vision_describe_swin(model, &stages);
}

/* ---- types ----------------------------------------------------------------------------------- */

/* clang-format off */
static const vw__config_key deit_keys[] = {
    USUAL_KEYS, WHOLE_HEADS, IMAGE_KEYS, WHOLE_PATCHES,
    ACTIVATION("hidden_act"), FLAG("qkv_bias", attention.has_query_bias), BERT_DROPOUTS,
    CALL(describe_deit), END};
static const vw__config_key dinov2_keys[] = {
    NUMBER("hidden_size", hidden, VW__CONFIG_MOST_WIDTH),
    NUMBER("num_hidden_layers", layers, VW__CONFIG_MOST_LAYERS),
    NUMBER("num_attention_heads", attention.heads, VW__CONFIG_MOST_HEADS),
    WHOLE_HEADS, IMAGE_KEYS, WHOLE_PATCHES,
    ACTIVATION("hidden_act"), FLAG("qkv_bias", attention.has_query_bias), BERT_DROPOUTS,
    FLAG("use_swiglu_ffn", mlp.is_gated), CALL(describe_dinov2), END};
static const vw__config_key clip_keys[] = {CALL(describe_clip), END};
static const vw__config_key siglip_keys[] = {CALL(describe_siglip), END};
static const vw__config_key convnext_keys[] = {
    IMAGE_KEYS, ACTIVATION("hidden_act"), CALL(describe_convnext), END};
static const vw__config_key swin_keys[] = {
    NUMBER_IF("embed_dim", hidden, VW__CONFIG_MOST_WIDTH),
    IMAGE_KEYS, WHOLE_PATCHES, ACTIVATION("hidden_act"),
    FLAG("qkv_bias", attention.has_query_bias), BERT_DROPOUTS, CALL(describe_swin), END};

static const vw__config_key whisper_keys[] = {
    EITHER("d_model", "hidden_size", hidden, VW__CONFIG_MOST_WIDTH),
    EITHER("encoder_layers", "num_hidden_layers", layers, VW__CONFIG_MOST_LAYERS),
    NUMBER("decoder_layers", decoder_layers, VW__CONFIG_MOST_LAYERS),
    EITHER("encoder_attention_heads", "num_attention_heads", attention.heads, VW__CONFIG_MOST_HEADS),
    CALL(vw__config_call_same, .name = "decoder_attention_heads",
         .other = "encoder_attention_heads"),
    MULTIPLE("d_model", hidden, "encoder_attention_heads", attention.heads),
    NUMBER("encoder_ffn_dim", mlp.inner, VW__CONFIG_MOST_INNER),
    CALL(vw__config_call_same, .name = "decoder_ffn_dim", .other = "encoder_ffn_dim"),
    VOCABULARY,
    NUMBER_IF("num_mel_bins", embedding.mels, VW__CONFIG_MOST_WIDTH),
    NUMBER_IF("max_source_positions", embedding.sounds, VW__CONFIG_MOST_POSITIONS),
    NUMBER_IF("max_target_positions", embedding.positions, VW__CONFIG_MOST_POSITIONS),
    ACTIVATION("activation_function"),
    DROPOUT("dropout", has_residual_dropout),
    DROPOUT("dropout", embedding.has_dropout),
    DROPOUT("attention_dropout", attention.has_dropout),
    DROPOUT("activation_dropout", mlp.has_dropout),
    REFUSED("scale_embedding"),
    TIED, END};

#define PATCHED(side)                                                                              \
    .mlp = {.activation = VW__PLAN_ACTIVATION_GELU}, .attention = {.has_query_bias = true},        \
    .embedding = {.image = 224, .patch = side, .channels = 3}

const vw__config_type vw__config_image_types[] = {
    {"clip", "CLIPModel", &vw__plan_family_clip, {.layers = 0}, clip_keys},
    {"convnext", "ConvNextForImageClassification", &vw__plan_family_convnext, {PATCHED(4)},
     convnext_keys},
    {"deit", "DeiTForImageClassification", &vw__plan_family_deit, {PATCHED(16)}, deit_keys},
    {"dinov2", "Dinov2ForImageClassification", &vw__plan_family_dinov2, {PATCHED(14)}, dinov2_keys},
    {"siglip", "SiglipModel", &vw__plan_family_siglip, {.layers = 0}, siglip_keys},
    {"swin", "SwinForImageClassification", &vw__plan_family_swin, {.hidden = 96, PATCHED(4)},
     swin_keys},
    {"whisper", "WhisperForConditionalGeneration", &vw__plan_family_whisper,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_GELU},
      .embedding = {.mels = 80, .sounds = 1500, .positions = 448}, .head = {.is_tied = true}},
     whisper_keys},
    {.name = NULL},
};
/* clang-format on */
