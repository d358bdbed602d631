/* config_types.c - config.json as transformers reads it, one row for each model type. */
#include "plan/config_types.h"

#include <string.h>

#include "base/error.h"
#include "plan/config_parts.h"
#include "plan/config_rows.h"

/* ---- resnet ---------------------------------------------------------------------------------- */

enum { STAGES = 4, REDUCTION = 4 };

/* As many numbers as there are stages; missing: left as they are. */
static vw_status read_stages(const vw__config *config, const char *name, uint64_t most,
                             uint64_t numbers[STAGES])
{
    uint64_t read[STAGES];
    size_t count = 0;
    if (!vw__config_has(config, name))
        return VW_OK;
    VW__TRY(vw__config_numbers(config, name, 1, most, STAGES, read, &count));
    if (count != STAGES)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "%s%s: expected %d numbers, one for each stage, found "
                        "%zu",
                        config->place, name, STAGES, count);
    memcpy(numbers, read, sizeof read);
    return VW_OK;
}

/* Before the keys: the defaults. */
static vw_status begin_resnet(const vw__config *config, const vw__config_key *key, void *into)
{
    static const char *const kinds[] = {"bottleneck", "basic"};
    vw_plan_model *model = into;
    size_t kind = 0;
    (void)key;
    VW__TRY(vw__config_choice_if(config, "layer_type", kinds, 2, &kind));
    model->resnet = (vw__plan_resnet){.blocks = {3, 4, 6, 3},
                                      .groups = 1,
                                      .width = 64,
                                      .is_bottleneck = kind == 0,
                                      .is_transformers = true,
                                      .colors = 3,
                                      .stem = 64,
                                      .channels = {256, 512, 1024, 2048}};
    return VW_OK;
}

static vw_status read_widths(const vw__config *config, const vw__config_key *key, void *into)
{
    vw__plan_resnet *resnet = &((vw_plan_model *)into)->resnet;
    VW__TRY(read_stages(config, key->name, VW__CONFIG_MOST_WIDTH, resnet->channels));
    for (size_t i = 0; i < STAGES && resnet->is_bottleneck; i++)
        if (resnet->channels[i] % REDUCTION != 0)
            return vw__config_refuse(config, key->name, VW_ERR_UNSUPPORTED,
                                     "multiples of %d, by which a bottleneck is narrower",
                                     REDUCTION);
    return VW_OK;
}

static vw_status read_depths(const vw__config *config, const vw__config_key *key, void *into)
{
    return read_stages(config, key->name, VW__CONFIG_MOST_LAYERS,
                       ((vw_plan_model *)into)->resnet.blocks);
}

/* ---- the keys of each type ------------------------------------------------------------------- */

/* clang-format off */
static const vw__config_key gpt2_keys[] = {
    EITHER("n_embd", "hidden_size", hidden, VW__CONFIG_MOST_WIDTH),
    EITHER("n_layer", "num_hidden_layers", layers, VW__CONFIG_MOST_LAYERS),
    EITHER("n_head", "num_attention_heads", attention.heads, VW__CONFIG_MOST_HEADS),
    EITHER("n_positions", "max_position_embeddings", embedding.positions, VW__CONFIG_MOST_POSITIONS),
    VOCABULARY,
    NUMBER_IF("n_inner", mlp.inner, VW__CONFIG_MOST_INNER),
    MULTIPLE("n_embd", hidden, "n_head", attention.heads),
    ACTIVATION("activation_function"),
    DROPOUT("embd_pdrop", embedding.has_dropout),
    DROPOUT("attn_pdrop", attention.has_dropout),
    DROPOUT("resid_pdrop", has_residual_dropout),
    TIED,
    REFUSED("reorder_and_upcast_attn"),
    REFUSED("add_cross_attention"),
    END};

static const vw__config_key llama_keys[] = {
    DECODER_KEYS, CALL(vw__config_call_check_rotary), ATTENTION_BIAS, FLAG("mlp_bias", mlp.has_bias), END};
static const vw__config_key mistral_keys[] = {
    DECODER_KEYS, CALL(vw__config_call_check_rotary), CALL(vw__config_call_window, .most = 4096), END};
static const vw__config_key qwen2_keys[] = {
    DECODER_KEYS, CALL(vw__config_call_check_rotary), CALL(vw__config_call_late_window, .most = 4096), END};
static const vw__config_key qwen3_keys[] = {
    DECODER_KEYS, CALL(vw__config_call_check_rotary), ATTENTION_BIAS, CALL(vw__config_call_late_window, .most = 4096), END};

#define GEMMA_KEYS                                                                                 \
    DECODER_KEYS, ACTIVATION("hidden_activation"), ATTENTION_BIAS, CALL(vw__config_call_check_rotary)
static const vw__config_key gemma_keys[] = {GEMMA_KEYS, END};
static const vw__config_key gemma2_keys[] = {
    GEMMA_KEYS,
    CAP("final_logit_softcapping", head.is_capped),
    CAP("attn_logit_softcapping", attention.has_capped_scores),
    NUMBER_IF("sliding_window_pattern", attention.window_period, VW__CONFIG_MOST_LAYERS),
    CALL(vw__config_call_window, .most = 4096),
    CALL(vw__config_call_layer_types),
    END};

static const vw__config_key phi_keys[] = {
    DECODER_KEYS,
    CALL(vw__config_call_rotary, .name = "partial_rotary_factor", .usual = 0.5),
    DROPOUT("embd_pdrop", embedding.has_dropout),
    DROPOUT("resid_pdrop", has_residual_dropout),
    REFUSED("qk_layernorm"),
    REFUSED("tie_word_embeddings"),
    END};
static const vw__config_key phi3_keys[] = {
    DECODER_KEYS,
    CALL(vw__config_call_rotary, .name = "partial_rotary_factor", .usual = 1.0),
    DROPOUT("resid_pdrop", has_residual_dropout),
    CALL(vw__config_call_window),
    END};
static const vw__config_key gpt_neox_keys[] = {
    DECODER_KEYS,
    WHOLE_HEADS,
    CALL(vw__config_call_rotary, .name = "rotary_pct", .usual = 0.25),
    ATTENTION_BIAS,
    NOT("use_parallel_residual", is_sequential),
    DROPOUT("hidden_dropout", has_residual_dropout),
    DROPOUT("hidden_dropout", embedding.has_dropout),
    CALL(vw__config_call_forget_heads),
    END};

static const vw__config_key mixtral_keys[] = {
    DECODER_KEYS,
    CALL(vw__config_call_check_rotary),
    REFUSED("output_router_logits"),
    CALL(vw__config_call_experts, .name = "num_local_experts", .most = 2),
    CALL(vw__config_call_window),
    END};
static const vw__config_key qwen3_moe_keys[] = {
    DECODER_KEYS,
    CALL(vw__config_call_check_rotary),
    REFUSED("output_router_logits"),
    EXACTLY("decoder_sparse_step", 1),
    CALL(vw__config_call_refuse_plain_layers),
    NUMBER("moe_intermediate_size", mlp.inner, VW__CONFIG_MOST_INNER),
    CALL(vw__config_call_experts, .name = "num_experts", .other = "num_local_experts", .most = 8),
    ATTENTION_BIAS,
    CALL(vw__config_call_switched_window, .most = 4096),
    END};

static const vw__config_key bert_keys[] = {
    BERT_BEGINS, ACTIVATION("hidden_act"), BERT_DROPOUTS, TIED, END};
static const vw__config_key roberta_keys[] = {
    BERT_BEGINS, CALL(vw__config_call_position_offset), ACTIVATION("hidden_act"), BERT_DROPOUTS, TIED, END};

static const vw__config_key t5_keys[] = {
    EITHER("d_model", "hidden_size", hidden, VW__CONFIG_MOST_WIDTH),
    EITHER("num_heads", "num_attention_heads", attention.heads, VW__CONFIG_MOST_HEADS),
    NUMBER("d_kv", attention.head_width, VW__CONFIG_MOST_WIDTH),
    NUMBER("d_ff", mlp.inner, VW__CONFIG_MOST_INNER),
    EITHER("num_layers", "num_hidden_layers", layers, VW__CONFIG_MOST_LAYERS),
    {VW__CONFIG_KEY_NUMBER_OR, "num_decoder_layers", FIELD(decoder_layers), .most = VW__CONFIG_MOST_LAYERS,
     .other_field = offsetof(vw_plan_model, shape.layers)},
    VOCABULARY,
    NUMBER_IF("relative_attention_num_buckets", attention.buckets, VW__CONFIG_MOST_WIDTH),
    CALL(vw__config_call_t5_feed, .name = "feed_forward_proj"),
    DROPOUT("dropout_rate", embedding.has_dropout),
    DROPOUT("dropout_rate", attention.has_dropout),
    DROPOUT("dropout_rate", has_residual_dropout),
    DROPOUT("dropout_rate", mlp.has_dropout),
    TIED,
    END};

static const vw__config_key vit_keys[] = {
    USUAL_KEYS,
    WHOLE_HEADS,
    NUMBER("image_size", embedding.image, VW__CONFIG_MOST_PIXELS),
    NUMBER("patch_size", embedding.patch, VW__CONFIG_MOST_PIXELS),
    NUMBER_IF("num_channels", embedding.channels, VW__CONFIG_MOST_WIDTH),
    MULTIPLE("image_size", embedding.image, "patch_size", embedding.patch),
    ACTIVATION("hidden_act"),
    FLAG("qkv_bias", attention.has_query_bias),
    BERT_DROPOUTS,
    END};

#define OF_RESNET(member) .field = offsetof(vw_plan_model, resnet.member)
static const vw__config_key resnet_keys[] = {
    CALL(begin_resnet),
    WORD("hidden_act", "relu"),
    {VW__CONFIG_KEY_NUMBER_IF, "num_channels", OF_RESNET(colors), .most = VW__CONFIG_MOST_WIDTH},
    {VW__CONFIG_KEY_NUMBER_IF, "embedding_size", OF_RESNET(stem), .most = VW__CONFIG_MOST_WIDTH},
    CALL(read_widths, .name = "hidden_sizes"),
    {VW__CONFIG_KEY_FLAG, "downsample_in_first_stage", OF_RESNET(halves_first)},
    {VW__CONFIG_KEY_FLAG, "downsample_in_bottleneck", OF_RESNET(strides_in_first_conv)},
    CALL(read_depths, .name = "depths"),
    END};

/* ---- types ----------------------------------------------------------------------------------- */

static const vw__config_type usual_types[] = {
    {"gpt2", "GPT2LMHeadModel", &vw__plan_family_gpt2,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_GELU_NEW}, .attention = {.has_dropout = true},
      .embedding = {.has_dropout = true}, .has_residual_dropout = true, .head = {.is_tied = true}},
     gpt2_keys},
    {"llama", "LlamaForCausalLM", &vw__plan_family_llama, {SILU_GATE, POSITIONS(2048)}, llama_keys},
    {"mistral", "MistralForCausalLM", &vw__plan_family_llama, {SILU_GATE, POSITIONS(2048)},
     mistral_keys},
    {"qwen2", "Qwen2ForCausalLM", &vw__plan_family_llama,
     {SILU_GATE, POSITIONS(2048), .attention = {.has_query_bias = true}}, qwen2_keys},
    {"qwen3", "Qwen3ForCausalLM", &vw__plan_family_llama,
     {SILU_GATE, POSITIONS(2048), .attention = {.head_width = 128, .has_query_norm = true}},
     qwen3_keys},
    {"gemma", "GemmaForCausalLM", &vw__plan_family_gemma,
     {GELU_GATE, POSITIONS(8192), .attention = {.head_width = 256}, .head = {.is_tied = true}},
     gemma_keys},
    {"gemma2", "Gemma2ForCausalLM", &vw__plan_family_gemma,
     {GELU_GATE, POSITIONS(8192), .norm = {.has_outer = true},
      .attention = {.head_width = 256, .window_period = 2, .has_capped_scores = true},
      .head = {.is_tied = true, .is_capped = true}},
     gemma2_keys},
    {"gemma3_text", "Gemma3ForCausalLM", &vw__plan_family_gemma,
     {GELU_GATE, POSITIONS(8192), .norm = {.has_outer = true},
      .attention = {.head_width = 256, .window_period = 6, .has_query_norm = true},
      .head = {.is_tied = true}},
     gemma2_keys},
    {"phi", "PhiForCausalLM", &vw__plan_family_phi,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_GELU_NEW}, POSITIONS(2048)}, phi_keys},
    {"phi3", "Phi3ForCausalLM", &vw__plan_family_phi3, {SILU_GATE, POSITIONS(4096)}, phi3_keys},
    {"mixtral", "MixtralForCausalLM", &vw__plan_family_mixtral, {SILU_GATE, POSITIONS(4096)},
     mixtral_keys},
    {"qwen3_moe", "Qwen3MoeForCausalLM", &vw__plan_family_mixtral,
     {SILU_GATE, POSITIONS(32768), .attention = {.has_query_norm = true}}, qwen3_moe_keys},
    {"bert", "BertForMaskedLM", &vw__plan_family_bert, {BERT_DEFAULTS}, bert_keys},
    {"roberta", "RobertaForMaskedLM", &vw__plan_family_bert, {ROBERTA_DEFAULTS}, roberta_keys},
    {"xlm-roberta", "XLMRobertaForMaskedLM", &vw__plan_family_bert, {ROBERTA_DEFAULTS}, roberta_keys},
    {"camembert", "CamembertForMaskedLM", &vw__plan_family_bert, {ROBERTA_DEFAULTS}, roberta_keys},
    {"t5", "T5ForConditionalGeneration", &vw__plan_family_t5,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_RELU, .has_dropout = true}, .attention = {.buckets = 32, .has_dropout = true},
      .embedding = {.has_dropout = true}, .has_residual_dropout = true, .head = {.is_tied = true}},
     t5_keys},
    {"mt5", "MT5ForConditionalGeneration", &vw__plan_family_t5,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_GELU_NEW, .is_gated = true, .has_dropout = true},
      .attention = {.buckets = 32, .has_dropout = true}, .embedding = {.has_dropout = true},
      .has_residual_dropout = true, .head = {.is_tied = true}},
     t5_keys},
    {"vit", "ViTForImageClassification", &vw__plan_family_vit,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_GELU}, .attention = {.has_query_bias = true},
      .embedding = {.channels = 3}, .head = {.has_pooler = true}},
     vit_keys},
    {"resnet", "ResNetForImageClassification", &vw__plan_family_resnet, {.layers = 0}, resnet_keys},
    {"gpt_neox", "GPTNeoXForCausalLM", &vw__plan_family_gpt_neox,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_GELU}, POSITIONS(2048),
      .attention = {.has_query_bias = true, .has_output_bias = true}},
     gpt_neox_keys},
    {.name = NULL},
};
/* clang-format on */

const vw__config_type *vw__config_type_number(size_t number)
{
    static const vw__config_type *const tables[] = {usual_types, vw__config_text_types,
                                                    vw__config_image_types};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (const vw__config_type *type = tables[i]; type->name != NULL; type++)
            if (number-- == 0)
                return type;
    return NULL;
}

const vw__config_type *vw__config_type_find(const char *name)
{
    const vw__config_type *type;
    for (size_t i = 0; (type = vw__config_type_number(i)) != NULL; i++)
        if (strcmp(type->name, name) == 0)
            return type;
    return NULL;
}

void vw__config_complete(vw__plan_shape *shape)
{
    enum { USUAL_LABELS = 2 }; /* of transformers' classifiers */
    vw__plan_attention *attention = &shape->attention;
    if (attention->key_heads == 0)
        attention->key_heads = attention->heads;
    if (attention->head_width == 0 && attention->heads > 0)
        attention->head_width = shape->hidden / attention->heads;
    if (shape->mlp.inner == 0)
        shape->mlp.inner = 4 * shape->hidden;
    if (shape->head.labels == 0)
        shape->head.labels = USUAL_LABELS;
}

/* Of any classifier: transformers counts the names of the labels. */
static vw_status read_labels(const vw__config *config, vw_plan_model *model)
{
    model->shape.head.labels = vw__config_count(config, "id2label");
    return vw__config_number_if(config, "num_labels", 1, VW__CONFIG_MOST_VOCABULARY,
                                &model->shape.head.labels);
}

vw_status vw__config_type_read(const vw__config_type *type, const vw__config *config,
                               vw_plan_model *model)
{
    model->family = type->family;
    model->shape = type->defaults;
    if (config->is_part)
        vw__config_part_defaults(type->name, &model->shape);
    VW__TRY(read_labels(config, model));
    VW__TRY(vw__config_read_keys(config, type->keys, model));
    vw__config_complete(&model->shape);
    return VW_OK;
}
