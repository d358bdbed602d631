/* config_types_text.c - more model types of config.json that read text. */
#include "plan/config_rows.h"

/* clang-format off */

/* ---- decoders -------------------------------------------------------------------------------- */

static const vw__config_key granite_keys[] = {
    DECODER_KEYS, CALL(vw__config_call_check_rotary), ATTENTION_BIAS,
    FLAG("mlp_bias", mlp.has_bias), END};
static const vw__config_key smollm3_keys[] = {
    DECODER_KEYS, CALL(vw__config_call_check_rotary), ATTENTION_BIAS,
    FLAG("mlp_bias", mlp.has_bias),
    NUMBER_IF("no_rope_layer_interval", attention.unrotated_period, VW__CONFIG_MOST_LAYERS),
    CALL(vw__config_call_rotated_layers, .name = "no_rope_layers"),
    REFUSED("use_sliding_window"), END};
static const vw__config_key starcoder2_keys[] = {
    DECODER_KEYS, CALL(vw__config_call_check_rotary),
    FLAG("use_bias", attention.has_query_bias),
    FLAG("use_bias", attention.has_output_bias),
    FLAG("use_bias", mlp.has_bias),
    DROPOUT("residual_dropout", has_residual_dropout),
    DROPOUT("embedding_dropout", embedding.has_dropout),
    CALL(vw__config_call_window), END};
static const vw__config_key stablelm_keys[] = {
    DECODER_KEYS, WHOLE_HEADS,
    CALL(vw__config_call_rotary, .name = "partial_rotary_factor", .usual = 0.25),
    FLAG("use_qkv_bias", attention.has_query_bias),
    NOT("use_parallel_residual", is_sequential),
    DROPOUT("hidden_dropout", has_residual_dropout),
    REFUSED("qk_layernorm"), END};
static const vw__config_key olmo_keys[] = {
    DECODER_KEYS, CALL(vw__config_call_check_rotary), ATTENTION_BIAS,
    CAP("clip_qkv", attention.is_clipped), END};
static const vw__config_key olmo2_keys[] = {
    DECODER_KEYS, CALL(vw__config_call_check_rotary), ATTENTION_BIAS, END};
static const vw__config_key olmo3_keys[] = {
    DECODER_KEYS, CALL(vw__config_call_check_rotary), ATTENTION_BIAS,
    CALL(vw__config_call_window, .most = 4096), CALL(vw__config_call_layer_types), END};
static const vw__config_key cohere_keys[] = {
    DECODER_KEYS, CALL(vw__config_call_check_rotary), ATTENTION_BIAS,
    FLAG("use_qk_norm", attention.has_query_norm), END};
static const vw__config_key cohere2_keys[] = {
    DECODER_KEYS, CALL(vw__config_call_check_rotary), ATTENTION_BIAS,
    NUMBER_IF("sliding_window_pattern", attention.window_period, VW__CONFIG_MOST_LAYERS),
    CALL(vw__config_call_window, .most = 4096), CALL(vw__config_call_layer_types), END};
static const vw__config_key glm_keys[] = {
    DECODER_KEYS, CALL(vw__config_call_rotary, .name = "partial_rotary_factor", .usual = 0.5),
    FLAG("attention_bias", attention.has_query_bias), END};
static const vw__config_key qwen2_moe_keys[] = {
    DECODER_KEYS, CALL(vw__config_call_check_rotary),
    REFUSED("output_router_logits"),
    REFUSED("use_sliding_window"),
    EXACTLY("decoder_sparse_step", 1),
    CALL(vw__config_call_refuse_plain_layers),
    NUMBER("moe_intermediate_size", mlp.inner, VW__CONFIG_MOST_INNER),
    NUMBER("shared_expert_intermediate_size", mlp.shared_inner, VW__CONFIG_MOST_INNER),
    CALL(vw__config_call_experts, .name = "num_experts", .other = "num_local_experts", .most = 4),
    FLAG("qkv_bias", attention.has_query_bias), END};
static const vw__config_key opt_keys[] = {
    NUMBER("hidden_size", hidden, VW__CONFIG_MOST_WIDTH),
    NUMBER("num_hidden_layers", layers, VW__CONFIG_MOST_LAYERS),
    NUMBER("num_attention_heads", attention.heads, VW__CONFIG_MOST_HEADS),
    NUMBER("ffn_dim", mlp.inner, VW__CONFIG_MOST_INNER),
    WHOLE_HEADS,
    VOCABULARY,
    NUMBER("max_position_embeddings", embedding.positions, VW__CONFIG_MOST_POSITIONS),
    CALL(vw__config_call_offset_positions),
    CALL(vw__config_call_token_width, .name = "word_embed_proj_dim"),
    ACTIVATION("activation_function"),
    NOT("do_layer_norm_before", norm.is_post),
    REFUSED("_remove_final_layer_norm"),
    CALL(vw__config_call_require_true, .name = "layer_norm_elementwise_affine"),
    FLAG("enable_bias", attention.has_query_bias),
    FLAG("enable_bias", attention.has_output_bias),
    FLAG("enable_bias", mlp.has_bias),
    DROPOUT("dropout", has_residual_dropout),
    DROPOUT("attention_dropout", attention.has_dropout),
    TIED, END};

#define GPT_DROPOUTS(residual, embedding_, attention_)                                             \
    DROPOUT(residual, has_residual_dropout),                                                       \
    DROPOUT(embedding_, embedding.has_dropout),                                                    \
    DROPOUT(attention_, attention.has_dropout)

static const vw__config_key gptj_keys[] = {
    EITHER("n_embd", "hidden_size", hidden, VW__CONFIG_MOST_WIDTH),
    EITHER("n_layer", "num_hidden_layers", layers, VW__CONFIG_MOST_LAYERS),
    EITHER("n_head", "num_attention_heads", attention.heads, VW__CONFIG_MOST_HEADS),
    EITHER("n_positions", "max_position_embeddings", embedding.positions,
           VW__CONFIG_MOST_POSITIONS),
    VOCABULARY,
    NUMBER_IF("n_inner", mlp.inner, VW__CONFIG_MOST_INNER),
    MULTIPLE("n_embd", hidden, "n_head", attention.heads),
    NUMBER_IF("rotary_dim", attention.rotary_width, VW__CONFIG_MOST_WIDTH),
    ACTIVATION("activation_function"),
    GPT_DROPOUTS("resid_pdrop", "embd_pdrop", "attn_pdrop"),
    TIED, END};
static const vw__config_key gpt_neo_keys[] = {
    NUMBER("hidden_size", hidden, VW__CONFIG_MOST_WIDTH),
    EITHER("num_layers", "num_hidden_layers", layers, VW__CONFIG_MOST_LAYERS),
    EITHER("num_heads", "num_attention_heads", attention.heads, VW__CONFIG_MOST_HEADS),
    NUMBER("max_position_embeddings", embedding.positions, VW__CONFIG_MOST_POSITIONS),
    VOCABULARY,
    NUMBER_IF("intermediate_size", mlp.inner, VW__CONFIG_MOST_INNER),
    MULTIPLE("hidden_size", hidden, "num_heads", attention.heads),
    ACTIVATION("activation_function"),
    GPT_DROPOUTS("resid_dropout", "embed_dropout", "attention_dropout"),
    TIED, END};
static const vw__config_key bloom_keys[] = {
    EITHER("hidden_size", "n_embed", hidden, VW__CONFIG_MOST_WIDTH),
    EITHER("n_layer", "num_hidden_layers", layers, VW__CONFIG_MOST_LAYERS),
    EITHER("n_head", "num_attention_heads", attention.heads, VW__CONFIG_MOST_HEADS),
    VOCABULARY,
    MULTIPLE("hidden_size", hidden, "n_head", attention.heads),
    NUMBER_IF("seq_length", embedding.positions, VW__CONFIG_MOST_POSITIONS),
    REFUSED("apply_residual_connection_post_layernorm"),
    REFUSED("slow_but_exact"),
    DROPOUT("hidden_dropout", has_residual_dropout),
    DROPOUT("attention_dropout", attention.has_dropout),
    TIED, END};
static const vw__config_key mpt_keys[] = {
    EITHER("d_model", "hidden_size", hidden, VW__CONFIG_MOST_WIDTH),
    EITHER("n_layers", "num_hidden_layers", layers, VW__CONFIG_MOST_LAYERS),
    EITHER("n_heads", "num_attention_heads", attention.heads, VW__CONFIG_MOST_HEADS),
    VOCABULARY,
    MULTIPLE("d_model", hidden, "n_heads", attention.heads),
    NUMBER_IF("max_seq_len", embedding.positions, VW__CONFIG_MOST_POSITIONS),
    CALL(vw__config_call_mpt_attention, .name = "attn_config"),
    TIED, END};
static const vw__config_key falcon_keys[] = {
    EITHER("hidden_size", "n_embed", hidden, VW__CONFIG_MOST_WIDTH),
    EITHER("num_hidden_layers", "n_layer", layers, VW__CONFIG_MOST_LAYERS),
    EITHER("num_attention_heads", "n_head", attention.heads, VW__CONFIG_MOST_HEADS),
    VOCABULARY,
    WHOLE_HEADS,
    NUMBER_IF("ffn_hidden_size", mlp.inner, VW__CONFIG_MOST_INNER),
    NUMBER_IF("max_position_embeddings", embedding.positions, VW__CONFIG_MOST_POSITIONS),
    REFUSED("alibi"),
    CALL(vw__config_call_require_true, .name = "parallel_attn"),
    CALL(vw__config_call_falcon),
    ACTIVATION("activation"),
    FLAG("bias", attention.has_query_bias),
    FLAG("bias", attention.has_output_bias),
    FLAG("bias", mlp.has_bias),
    DROPOUT("hidden_dropout", has_residual_dropout),
    TIED, END};

/* ---- encoders -------------------------------------------------------------------------------- */

static const vw__config_key distilbert_keys[] = {
    EITHER("dim", "hidden_size", hidden, VW__CONFIG_MOST_WIDTH),
    EITHER("n_layers", "num_hidden_layers", layers, VW__CONFIG_MOST_LAYERS),
    EITHER("n_heads", "num_attention_heads", attention.heads, VW__CONFIG_MOST_HEADS),
    NUMBER("hidden_dim", mlp.inner, VW__CONFIG_MOST_INNER),
    MULTIPLE("dim", hidden, "n_heads", attention.heads),
    EXACTLY("chunk_size_feed_forward", 0),
    VOCABULARY,
    NUMBER("max_position_embeddings", embedding.positions, VW__CONFIG_MOST_POSITIONS),
    ACTIVATION("activation"),
    DROPOUT("dropout", has_residual_dropout),
    DROPOUT("dropout", embedding.has_dropout),
    DROPOUT("attention_dropout", attention.has_dropout),
    TIED, END};
static const vw__config_key electra_keys[] = {
    BERT_BEGINS, CALL(vw__config_call_token_width, .name = "embedding_size", .most = 128),
    ACTIVATION("hidden_act"), BERT_DROPOUTS, TIED, END};

static const vw__config_key mpnet_keys[] = {
    USUAL_KEYS,
    WHOLE_HEADS,
    VOCABULARY,
    NUMBER("max_position_embeddings", embedding.positions, VW__CONFIG_MOST_POSITIONS),
    CALL(vw__config_call_position_offset),
    NUMBER_IF("relative_attention_num_buckets", attention.buckets, VW__CONFIG_MOST_WIDTH),
    EXACTLY("chunk_size_feed_forward", 0),
    ACTIVATION("hidden_act"),
    BERT_DROPOUTS,
    TIED, END};
static const vw__config_key modernbert_keys[] = {
    USUAL_KEYS,
    WHOLE_HEADS,
    VOCABULARY,
    NUMBER_IF("max_position_embeddings", embedding.positions, VW__CONFIG_MOST_POSITIONS),
    ACTIVATION("hidden_activation"),
    CALL(vw__config_call_half_window, .name = "local_attention", .most = 128),
    NUMBER_IF("global_attn_every_n_layers", attention.window_period, VW__CONFIG_MOST_LAYERS),
    CALL(vw__config_call_layer_types),
    REFUSED("norm_bias"),
    REFUSED("classifier_bias"),
    REFUSED("sparse_prediction"),
    CALL(vw__config_call_require_true, .name = "decoder_bias"),
    ATTENTION_BIAS,
    FLAG("mlp_bias", mlp.has_bias),
    DROPOUT("mlp_dropout", mlp.has_dropout),
    DROPOUT("embedding_dropout", embedding.has_dropout),
    DROPOUT("attention_dropout", attention.has_dropout),
    DROPOUT("attention_dropout", has_residual_dropout),
    TIED, END};

static const vw__config_key deberta_keys[] = {
    USUAL_KEYS,
    WHOLE_HEADS,
    VOCABULARY,
    NUMBER("max_position_embeddings", embedding.positions, VW__CONFIG_MOST_POSITIONS),
    {VW__CONFIG_KEY_COUNT_IF, "type_vocab_size", FIELD(embedding.token_types),
     .most = VW__CONFIG_MOST_VOCABULARY},
    CALL(vw__config_call_distances, .name = "relative_attention"),
    FLAG("share_att_key", attention.shares_distance_modules),
    EXACTLY("conv_kernel_size", 0),
    CALL(vw__config_call_same, .name = "embedding_size", .other = "hidden_size"),
    CALL(vw__config_call_require_true, .name = "legacy"),
    ACTIVATION("hidden_act"),
    BERT_DROPOUTS,
    TIED, END};

/* ---- encoder and decoder --------------------------------------------------------------------- */

#define BART_KEYS                                                                                  \
    EITHER("d_model", "hidden_size", hidden, VW__CONFIG_MOST_WIDTH),                               \
    EITHER("encoder_layers", "num_hidden_layers", layers, VW__CONFIG_MOST_LAYERS),                 \
    NUMBER("decoder_layers", decoder_layers, VW__CONFIG_MOST_LAYERS),                              \
    EITHER("encoder_attention_heads", "num_attention_heads", attention.heads,                      \
           VW__CONFIG_MOST_HEADS),                                                                 \
    CALL(vw__config_call_same, .name = "decoder_attention_heads",                                  \
         .other = "encoder_attention_heads"),                                                      \
    MULTIPLE("d_model", hidden, "encoder_attention_heads", attention.heads),                       \
    NUMBER("encoder_ffn_dim", mlp.inner, VW__CONFIG_MOST_INNER),                                   \
    CALL(vw__config_call_same, .name = "decoder_ffn_dim", .other = "encoder_ffn_dim"),             \
    VOCABULARY,                                                                                    \
    NUMBER("max_position_embeddings", embedding.positions, VW__CONFIG_MOST_POSITIONS),             \
    ACTIVATION("activation_function"),                                                             \
    DROPOUT("dropout", has_residual_dropout),                                                      \
    DROPOUT("dropout", embedding.has_dropout),                                                     \
    DROPOUT("attention_dropout", attention.has_dropout),                                           \
    DROPOUT("activation_dropout", mlp.has_dropout),                                                \
    TIED

static const vw__config_key bart_keys[] = {
    BART_KEYS, CALL(vw__config_call_offset_positions), END};
static const vw__config_key pegasus_keys[] = {BART_KEYS, END};
static const vw__config_key marian_keys[] = {
    BART_KEYS,
    CALL(vw__config_call_require_true, .name = "share_encoder_decoder_embeddings"),
    END};

/* ---- types ----------------------------------------------------------------------------------- */

#define BART_DEFAULTS                                                                              \
    .mlp = {.activation = VW__PLAN_ACTIVATION_GELU}, .embedding = {.has_dropout = true},           \
    .has_residual_dropout = true, .head = {.is_tied = true, .has_offset = true,                     \
    .classifier = VW__PLAN_CLASSIFIER_OF_DENSE}

const vw__config_type vw__config_text_types[] = {
    {"granite", "GraniteForCausalLM", &vw__plan_family_granite,
     {SILU_GATE, POSITIONS(2048), .head = {.is_scaled = true}}, granite_keys},
    {"smollm3", "SmolLM3ForCausalLM", &vw__plan_family_llama,
     {SILU_GATE, POSITIONS(32768), .attention = {.unrotated_period = 4}, .head = {.is_tied = true}},
     smollm3_keys},
    {"starcoder2", "Starcoder2ForCausalLM", &vw__plan_family_starcoder2,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_GELU, .has_bias = true}, POSITIONS(4096),
      .attention = {.has_query_bias = true, .has_output_bias = true}, .head = {.is_tied = true}},
     starcoder2_keys},
    {"stablelm", "StableLmForCausalLM", &vw__plan_family_stablelm,
     {SILU_GATE, POSITIONS(4096), .is_sequential = true, .norm = {.is_shared = true}},
     stablelm_keys},
    {"olmo", "OlmoForCausalLM", &vw__plan_family_olmo, {SILU_GATE, POSITIONS(2048)}, olmo_keys},
    {"olmo2", "Olmo2ForCausalLM", &vw__plan_family_olmo2,
     {SILU_GATE, POSITIONS(2048), .norm = {.has_outer = true},
      .attention = {.has_query_norm = true}},
     olmo2_keys},
    {"olmo3", "Olmo3ForCausalLM", &vw__plan_family_olmo2,
     {SILU_GATE, POSITIONS(2048), .norm = {.has_outer = true},
      .attention = {.has_query_norm = true, .window_period = 4}},
     olmo3_keys},
    {"cohere", "CohereForCausalLM", &vw__plan_family_cohere,
     {SILU_GATE, POSITIONS(8192), .head = {.is_tied = true, .is_scaled = true}}, cohere_keys},
    {"cohere2", "Cohere2ForCausalLM", &vw__plan_family_cohere2,
     {SILU_GATE, POSITIONS(8192), .attention = {.window_period = 4},
      .head = {.is_tied = true, .is_scaled = true}},
     cohere2_keys},
    {"glm", "GlmForCausalLM", &vw__plan_family_glm,
     {SILU_GATE, POSITIONS(131072), .attention = {.head_width = 128, .has_query_bias = true}},
     glm_keys},
    {"glm4", "Glm4ForCausalLM", &vw__plan_family_glm,
     {SILU_GATE, POSITIONS(131072), .attention = {.head_width = 128, .has_query_bias = true},
      .norm = {.has_outer = true}},
     glm_keys},
    {"qwen2_moe", "Qwen2MoeForCausalLM", &vw__plan_family_mixtral,
     {SILU_GATE, POSITIONS(32768), .attention = {.has_query_bias = true}}, qwen2_moe_keys},
    {"opt", "OPTForCausalLM", &vw__plan_family_opt,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_RELU, .has_bias = true},
      .attention = {.has_query_bias = true, .has_output_bias = true},
      .has_residual_dropout = true, .head = {.is_tied = true}},
     opt_keys},
    {"gptj", "GPTJForCausalLM", &vw__plan_family_gptj,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_GELU_NEW}, POSITIONS(2048),
      .attention = {.rotary_width = 64}},
     gptj_keys},
    {"gpt_neo", "GPTNeoForCausalLM", &vw__plan_family_gpt_neo,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_GELU_NEW}, POSITIONS(2048),
      .head = {.is_tied = true}},
     gpt_neo_keys},
    {"bloom", "BloomForCausalLM", &vw__plan_family_bloom,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_BLOOM_GELU}, POSITIONS(2048),
      .head = {.is_tied = true}},
     bloom_keys},
    {"mpt", "MptForCausalLM", &vw__plan_family_mpt,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_GELU}, POSITIONS(2048), .head = {.is_tied = true}},
     mpt_keys},
    {"falcon", "FalconForCausalLM", &vw__plan_family_falcon,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_GELU}, POSITIONS(2048), .norm = {.is_shared = true},
      .head = {.is_tied = true}},
     falcon_keys},
    {"distilbert", "DistilBertForMaskedLM", &vw__plan_family_distilbert,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_GELU}, .attention = {.has_dropout = true},
      .embedding = {.has_dropout = true}, .has_residual_dropout = true,
      .head = {.is_tied = true, .classifier = VW__PLAN_CLASSIFIER_OF_DENSE}},
     distilbert_keys},
    {"electra", "ElectraForMaskedLM", &vw__plan_family_bert,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_GELU}, .attention = {.has_dropout = true},
      .embedding = {.token_types = 2, .has_dropout = true}, .has_residual_dropout = true,
      .head = {.is_tied = true, .classifier = VW__PLAN_CLASSIFIER_OF_DENSE}},
     electra_keys},
    {"modernbert", "ModernBertForMaskedLM", &vw__plan_family_modernbert,
     {GELU_GATE, POSITIONS(8192), .attention = {.window_period = 3, .is_first_full = true},
      .head = {.is_tied = true, .classifier = VW__PLAN_CLASSIFIER_OF_TRANSFORM}},
     modernbert_keys},
    {"deberta-v2", "DebertaV2ForMaskedLM", &vw__plan_family_deberta,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_GELU}, .attention = {.has_dropout = true},
      .embedding = {.has_dropout = true}, .has_residual_dropout = true,
      .head = {.is_tied = true, .classifier = VW__PLAN_CLASSIFIER_OF_POOLER}},
     deberta_keys},
    {"mpnet", "MPNetForMaskedLM", &vw__plan_family_mpnet,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_GELU},
      .attention = {.buckets = 32, .has_dropout = true}, .embedding = {.has_dropout = true},
      .has_residual_dropout = true,
      .head = {.is_tied = true, .has_pooler = true, .classifier = VW__PLAN_CLASSIFIER_OF_DENSE}},
     mpnet_keys},
    {"m2m_100", "M2M100ForConditionalGeneration", &vw__plan_family_m2m_100,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_RELU}, .attention = {.has_dropout = true},
      .embedding = {.has_dropout = true}, .has_residual_dropout = true,
      .head = {.is_tied = true}},
     bart_keys},
    {"bart", "BartForConditionalGeneration", &vw__plan_family_bart, {BART_DEFAULTS}, bart_keys},
    {"mbart", "MBartForConditionalGeneration", &vw__plan_family_mbart, {BART_DEFAULTS}, bart_keys},
    {"pegasus", "PegasusForConditionalGeneration", &vw__plan_family_pegasus, {BART_DEFAULTS},
     pegasus_keys},
    {"marian", "MarianMTModel", &vw__plan_family_marian, {BART_DEFAULTS}, marian_keys},
    {.name = NULL},
};
/* clang-format on */
