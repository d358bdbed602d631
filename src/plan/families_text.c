/* families_text.c - more families of transformers that read text; see families.c. */
#include "plan/family_rows.h"

/* ---- decoders like Llama --------------------------------------------------------------------- */

#define LLAMA_ORDER .order = {VW__PLAN_ATTENTION, VW__PLAN_MLP, VW__PLAN_NORM_1, VW__PLAN_NORM_2}

/* What is added is multiplied in the same line. */
static const vw__plan_style granite_style = {
    LLAMA_ATTENTION,
    LLAMA_MLP,
    LLAMA_NORMS,
    LLAMA_ORDER,
    .head = "lm_head",
    .is_causal = true,
    .embedding_holds = VW__PLAN_HOLDS_ROWS,
    .holds = {.heads = VW__PLAN_OUTPUT_ENDS,
              .context = VW__PLAN_OUTPUT_ENDS,
              .input = VW__PLAN_OUTPUT_ENDS,
              .mlp_input = VW__PLAN_OUTPUT_ENDS,
              .undropped = VW__PLAN_ADDED,
              .part = VW__PLAN_ADDED,
              .residual = VW__PLAN_ADDED},
    .norm = VW__MODULE_NORM_RMS,
    .rotary = VW__PLAN_ROTATED,
    .is_embedding_scaled = true,
    .is_part_scaled = true,
};

const vw__plan_family vw__plan_family_granite = {DECODER("granite", granite_style)};

static const vw__plan_style starcoder2_style = {
    LLAMA_ATTENTION,
    .inner = "c_fc",
    .outer = "c_proj",
    LLAMA_KIND,
    LLAMA_ORDER,
    .norm = VW__MODULE_NORM_LAYER,
    .rotary = VW__PLAN_ROTATED,
};

const vw__plan_family vw__plan_family_starcoder2 = {DECODER("starcoder2", starcoder2_style)};

/* One after the other, or in parallel behind one norm. */
static const vw__plan_style stablelm_style = {
    LLAMA_ATTENTION,
    LLAMA_MLP,
    LLAMA_NORMS,
    LLAMA_ORDER,
    .head = "lm_head",
    .is_causal = true,
    .embedding_holds = VW__PLAN_HOLDS_ROWS,
    .holds = {.heads = VW__PLAN_OUTPUT_ENDS,
              .context = VW__PLAN_OUTPUT_ENDS,
              .input = VW__PLAN_BLOCK_ENDS,
              .mlp_input = VW__PLAN_OUTPUT_ENDS,
              .undropped = VW__PLAN_DROPPED,
              .part = VW__PLAN_BLOCK_ENDS,
              .residual = VW__PLAN_BLOCK_ENDS},
    .norm = VW__MODULE_NORM_LAYER,
    .topology = VW__PLAN_PARALLEL,
    .rotary = VW__PLAN_ROTATED_IN_PART,
    .is_query_joined = true,
    .drops = VW__PLAN_DROPS_MLP,
};

const vw__plan_family vw__plan_family_stablelm = {DECODER("stablelm", stablelm_style)};

static const vw__plan_style olmo_style = {
    LLAMA_ATTENTION,
    LLAMA_MLP,
    LLAMA_KIND,
    LLAMA_ORDER,
    .norm = VW__MODULE_NORM_PLAIN,
    .rotary = VW__PLAN_ROTATED,
    .rotary_floats = VW__PLAN_FLOAT_TABLES,
};

const vw__plan_family vw__plan_family_olmo = {DECODER("olmo", olmo_style)};

/* Norms are behind attention and MLP only. */
static const vw__plan_style olmo2_style = {
    LLAMA_ATTENTION,
    LLAMA_MLP,
    LLAMA_KIND,
    .after_attention = "post_attention_layernorm",
    .after_mlp = "post_feedforward_layernorm",
    .order = {VW__PLAN_ATTENTION, VW__PLAN_MLP, VW__PLAN_AFTER_ATTENTION, VW__PLAN_AFTER_MLP},
    .norm = VW__MODULE_NORM_RMS_LATE,
    .topology = VW__PLAN_NORM_BEHIND,
    .rotary = VW__PLAN_ROTATED,
    .rotary_floats = VW__PLAN_FLOAT_TABLES,
    .has_whole_query_norm = true,
};

const vw__plan_family vw__plan_family_olmo2 = {DECODER("olmo2", olmo2_style)};

static const vw__plan_style glm_style = {
    LLAMA_ATTENTION,
    .packed_gate = "gate_up_proj",
    .outer = "down_proj",
    LLAMA_KIND,
    .norm_2_of_outer = "post_attention_layernorm",
    .after_attention = "post_self_attn_layernorm",
    .after_mlp = "post_mlp_layernorm",
    .order = {VW__PLAN_ATTENTION, VW__PLAN_MLP, VW__PLAN_NORM_1, VW__PLAN_NORM_2,
              VW__PLAN_AFTER_ATTENTION, VW__PLAN_AFTER_MLP},
    .norm = VW__MODULE_NORM_RMS,
    .rotary = VW__PLAN_ROTATED_IN_PART,
    .is_query_joined = true,
    .makes_own_tables = true,
};

const vw__plan_family vw__plan_family_glm = {DECODER("glm", glm_style)};

/* Attention and MLP read the same norm, and are added to the input one after the other. */
#define COHERE_STYLE                                                                               \
    LLAMA_ATTENTION, LLAMA_MLP,                                                                    \
        .norm_1 = "input_layernorm", .last_norm = "norm", .head = "lm_head", .is_causal = true,    \
        .order = {VW__PLAN_ATTENTION, VW__PLAN_MLP, VW__PLAN_NORM_1},                              \
        .norm = VW__MODULE_NORM_COHERE, .topology = VW__PLAN_PARALLEL, .rotary = VW__PLAN_ROTATED, \
        .rotary_floats = VW__PLAN_FLOAT_COPIES, .embedding_holds = VW__PLAN_HOLDS_ROWS,            \
        .holds = {                                                                                 \
            HOLDS_LITTLE,                                                                          \
            .input = VW__PLAN_BLOCK_ENDS,                                                          \
            .mlp_input = VW__PLAN_BLOCK_ENDS,                                                      \
    }

static const vw__plan_style cohere_style = {COHERE_STYLE, .has_whole_query_norm = true};
static const vw__plan_style cohere2_style = {COHERE_STYLE, .rotates_windows_only = true};

const vw__plan_family vw__plan_family_cohere = {DECODER("cohere", cohere_style)};
const vw__plan_family vw__plan_family_cohere2 = {DECODER("cohere2", cohere2_style)};

/* ---- decoders with attention of their own ---------------------------------------------------- */

#define HOLDS_ALL_BUT_RESULTS                                                                      \
    .holds = {                                                                                     \
        .heads = VW__PLAN_OUTPUT_ENDS,                                                             \
        .context = VW__PLAN_OUTPUT_ENDS,                                                           \
        .input = VW__PLAN_BLOCK_ENDS,                                                              \
        .mlp_input = VW__PLAN_BLOCK_ENDS,                                                          \
        .undropped = VW__PLAN_DROPPED,                                                             \
        .part = VW__PLAN_BLOCK_ENDS,                                                               \
        .residual = VW__PLAN_BLOCK_ENDS,                                                           \
    }

static const vw__plan_style gptj_style = {
    .query = "q_proj",
    .key = "k_proj",
    .value = "v_proj",
    .output = "out_proj",
    .inner = "fc_in",
    .outer = "fc_out",
    .norm_1 = "ln_1",
    .last_norm = "ln_f",
    .head = "lm_head",
    .order = {VW__PLAN_NORM_1, VW__PLAN_ATTENTION, VW__PLAN_MLP},
    HOLDS_ALL_BUT_RESULTS,
    .norm = VW__MODULE_NORM_LAYER,
    .topology = VW__PLAN_PARALLEL,
    .scope = VW__PLAN_SCOPE_DROPOUT,
    .rotary = VW__PLAN_ROTATED_IN_PART,
    .makes_own_tables = true,
    .is_causal = true,
    .has_mlp_bias = true,
    .has_head_bias = true,
    .embedding_holds = VW__PLAN_HOLDS_ROWS,
};

const vw__plan_family vw__plan_family_gptj = {
    DECODER("gptj", gptj_style),
    .scores = {.is_own = true, .is_plain = true, .is_in_float32 = true},
};

static const vw__plan_style gpt_neo_style = {
    .query = "q_proj",
    .key = "k_proj",
    .value = "v_proj",
    .output = "out_proj",
    .inner = "c_fc",
    .outer = "c_proj",
    .norm_1 = "ln_1",
    .norm_2 = "ln_2",
    .last_norm = "ln_f",
    .head = "lm_head",
    .order = {VW__PLAN_NORM_1, VW__PLAN_ATTENTION, VW__PLAN_NORM_2, VW__PLAN_MLP},
    .holds = {HOLDS_LITTLE, .input = VW__PLAN_NORMED, .mlp_input = VW__PLAN_BLOCK_ENDS},
    .norm = VW__MODULE_NORM_LAYER,
    .scope = VW__PLAN_SCOPE_DROPOUT,
    .is_causal = true,
    .has_output_bias = true,
    .has_mlp_bias = true,
    .has_positions = true,
    .has_layer_mask = true,
    .embedding_holds = VW__PLAN_HOLDS_ROWS,
};

const vw__plan_family vw__plan_family_gpt_neo = {
    DECODER("gpt_neo", gpt_neo_style),
    .has_position_table = true,
    .scores = {.is_own = true,
               .is_plain = true,
               .is_in_float32 = true,
               .is_scaled_inside = true,
               .is_filled = true},
};

static const vw__plan_style bloom_style = {
    .packed = "query_key_value",
    .output = "dense",
    .inner = "dense_h_to_4h",
    .outer = "dense_4h_to_h",
    .norm_1 = "input_layernorm",
    .norm_2 = "post_attention_layernorm",
    .last_norm = "ln_f",
    .embedding_norm = "word_embeddings_layernorm",
    .head = "lm_head",
    .order = {VW__PLAN_NORM_1, VW__PLAN_ATTENTION, VW__PLAN_NORM_2, VW__PLAN_MLP},
    HOLDS_ALL_BUT_RESULTS,
    .norm = VW__MODULE_NORM_LAYER,
    .packing = VW__PLAN_SLICED,
    .is_causal = true,
    ALL_BIASES,
    .embedding_holds = VW__PLAN_HOLDS_ROWS,
};

const vw__plan_family vw__plan_family_bloom = {
    DECODER("bloom", bloom_style),
    .scores = {.is_own = true,
               .has_no_flash = true,
               .copies_heads = true,
               .is_scaled_inside = true,
               .has_mask_of_samples = true},
};

static const vw__plan_style mpt_style = {
    .packed = "Wqkv",
    .output = "out_proj",
    .inner = "up_proj",
    .outer = "down_proj",
    .norm_1 = "norm_1",
    .norm_2 = "norm_2",
    .last_norm = "norm_f",
    .head = "lm_head",
    .order = {VW__PLAN_NORM_1, VW__PLAN_ATTENTION, VW__PLAN_NORM_2, VW__PLAN_MLP},
    HOLDS_ALL_BUT_RESULTS,
    .norm = VW__MODULE_NORM_LAYER_UNBIASED,
    .packing = VW__PLAN_SPLIT,
    .is_causal = true,
    .embedding_holds = VW__PLAN_HOLDS_ROWS,
};

const vw__plan_family vw__plan_family_mpt = {
    DECODER("mpt", mpt_style),
    .scores = {.is_own = true,
               .has_no_flash = true,
               .has_float_bias = true,
               .is_filled = true,
               .has_mask_of_bools = true},
};

/* Calls SDPA itself, with a mask always. One head of keys is for all queries: no fused kernel takes
 * that. */
static const vw__plan_style falcon_style = {
    .packed = "query_key_value",
    .output = "dense",
    .inner = "dense_h_to_4h",
    .outer = "dense_4h_to_h",
    .norm_1 = "ln_attn",
    .norm_2 = "ln_mlp",
    .last_norm = "ln_f",
    .head = "lm_head",
    .order = {VW__PLAN_ATTENTION, VW__PLAN_MLP, VW__PLAN_NORM_1, VW__PLAN_NORM_2},
    HOLDS_ALL_BUT_RESULTS,
    .norm = VW__MODULE_NORM_LAYER,
    .topology = VW__PLAN_PARALLEL,
    .packing = VW__PLAN_INDEXED,
    .rotary = VW__PLAN_ROTATED,
    .is_causal = true,
    .drops = VW__PLAN_DROPS_MLP,
    .has_mask_always = true,
    .keeps_key_heads = true,
    .adds_in_place = true,
    .embedding_holds = VW__PLAN_HOLDS_ROWS,
};

const vw__plan_family vw__plan_family_falcon = {DECODER("falcon", falcon_style)};

/* ---- decoders with a table of positions ------------------------------------------------------ */

#define BART_LAYER                                                                                 \
    .query = "q_proj", .key = "k_proj", .value = "v_proj", .output = "out_proj", .inner = "fc1",   \
    .outer = "fc2", .norm_1 = "self_attn_layer_norm", .norm_2 = "final_layer_norm",                \
    .norm = VW__MODULE_NORM_LAYER, .has_positions = true

#define HOLDS_RESIDUAL                                                                             \
    .holds = {                                                                                     \
        .heads = VW__PLAN_OUTPUT_ENDS,                                                             \
        .context = VW__PLAN_OUTPUT_ENDS,                                                           \
        .input = VW__PLAN_OUTPUT_ENDS,                                                             \
        .mlp_input = VW__PLAN_OUTPUT_BEGINS,                                                       \
        .undropped = VW__PLAN_DROPPED,                                                             \
        .part = VW__PLAN_ADDED,                                                                    \
        .residual = VW__PLAN_NORMED,                                                               \
    }

static const vw__plan_style opt_style = {
    BART_LAYER,
    HOLDS_RESIDUAL,
    .order = {VW__PLAN_ATTENTION, VW__PLAN_NORM_1, VW__PLAN_MLP, VW__PLAN_NORM_2},
    .last_norm = "final_layer_norm",
    .head = "lm_head",
    .widen = "project_in",
    .narrow = "project_out",
    .widening = VW__PLAN_WIDENS_TOKENS,
    .is_causal = true,
    .is_query_scaled = true,
    .embedding_holds = VW__PLAN_HOLDS_ROWS,
};

const vw__plan_family vw__plan_family_opt = {
    DECODER("opt", opt_style),
    .has_position_table = true,
};

/* ---- encoders -------------------------------------------------------------------------------- */

static const vw__plan_style distilbert_style = {
    .query = "q_lin",
    .key = "k_lin",
    .value = "v_lin",
    .output = "out_lin",
    .inner = "lin1",
    .outer = "lin2",
    .norm_1 = "sa_layer_norm",
    .norm_2 = "output_layer_norm",
    .embedding_norm = "LayerNorm",
    .transform = "vocab_transform",
    .head_norm = "vocab_layer_norm",
    .head = "vocab_projector",
    .order = {VW__PLAN_ATTENTION, VW__PLAN_NORM_1, VW__PLAN_MLP, VW__PLAN_NORM_2},
    .norm = VW__MODULE_NORM_LAYER,
    .topology = VW__PLAN_POST_NORM,
    .scope = VW__PLAN_SCOPE_DROPOUT,
    .holds = {.heads = VW__PLAN_OUTPUT_ENDS,
              .context = VW__PLAN_OUTPUT_ENDS,
              .input = VW__PLAN_OUTPUT_ENDS,
              .mlp_input = VW__PLAN_OUTPUT_ENDS,
              .undropped = VW__PLAN_DROPPED,
              .part = VW__PLAN_NORMED,
              .residual = VW__PLAN_BLOCK_ENDS},
    ALL_BIASES,
    .has_head_bias = true,
    .has_embedding_scope = true,
    .has_positions = true,
    .drops = VW__PLAN_DROPS_MLP,
};

const vw__plan_family vw__plan_family_distilbert = {
    TRANSFORMER("distilbert", distilbert_style),
    .forward = vw__plan_transformer_forward,
    .has_position_table = true,
    .keeps_logits_type = true,
    .scores = {.is_plain = true},
    TEXT_HEADS(VW_PLAN_HEAD_MASKED_LM),
};

/* BERT's layer, with a learned bias for each distance beside a table of positions. */
static const vw__plan_style mpnet_style = {
    .query = "q",
    .key = "k",
    .value = "v",
    .output = "o",
    .inner = "intermediate",
    .outer = "output",
    .norm_1 = "LayerNorm",
    .norm_2 = "LayerNorm",
    .embedding_norm = "LayerNorm",
    .transform = "dense",
    .head_norm = "layer_norm",
    .head = "decoder",
    .order = {VW__PLAN_ATTENTION, VW__PLAN_NORM_1, VW__PLAN_MLP, VW__PLAN_NORM_2},
    .norm = VW__MODULE_NORM_LAYER,
    .topology = VW__PLAN_POST_NORM,
    .scope = VW__PLAN_SCOPE_ALL,
    .holds = {.heads = VW__PLAN_OUTPUT_ENDS,
              .context = VW__PLAN_OUTPUT_ENDS,
              .input = VW__PLAN_NORMED,
              .mlp_input = VW__PLAN_NORMED,
              .undropped = VW__PLAN_NORMED,
              .part = VW__PLAN_NORMED,
              .residual = VW__PLAN_BLOCK_ENDS},
    ALL_BIASES,
    .has_head_bias = true,
    .has_embedding_scope = true,
    .has_positions = true,
    .copies_bias = true,
};

const vw__plan_family vw__plan_family_mpnet = {
    TRANSFORMER("mpnet", mpnet_style),
    .forward = vw__plan_transformer_forward,
    .has_position_table = true,
    .keeps_logits_type = true,
    .scores = {.is_own = true, .is_plain = true, .has_no_flash = true},
    TEXT_HEADS(VW_PLAN_HEAD_MASKED_LM),
};

/* Packed as GPT-2, gated as Phi-3. */
static const vw__plan_style modernbert_style = {
    .packed = "Wqkv",
    .output = "Wo",
    .packed_gate = "Wi",
    .outer = "Wo",
    .norm_1 = "attn_norm",
    .norm_2 = "mlp_norm",
    .last_norm = "final_norm",
    .embedding_norm = "norm",
    .transform = "dense",
    .head_norm = "norm",
    .head = "decoder",
    .order = {VW__PLAN_NORM_1, VW__PLAN_ATTENTION, VW__PLAN_NORM_2, VW__PLAN_MLP},
    .norm = VW__MODULE_NORM_LAYER_UNBIASED,
    .scope = VW__PLAN_SCOPE_DROPOUT,
    .holds = {.heads = VW__PLAN_OUTPUT_ENDS,
              .context = VW__PLAN_OUTPUT_ENDS,
              .input = VW__PLAN_OUTPUT_ENDS,
              .mlp_input = VW__PLAN_OUTPUT_ENDS,
              .undropped = VW__PLAN_DROPPED,
              .part = VW__PLAN_BLOCK_ENDS,
              .residual = VW__PLAN_ADDED},
    .packing = VW__PLAN_SPLIT,
    .rotary = VW__PLAN_ROTATED,
    .rotary_floats = VW__PLAN_FLOAT_COPIES,
    .drops = VW__PLAN_DROPS_ATTENTION,
    .begins_without_norm = true,
    .has_head_bias = true,
    .is_transform_unbiased = true,
    .has_embedding_scope = true,
};

const vw__plan_family vw__plan_family_modernbert = {
    TRANSFORMER("modernbert", modernbert_style),
    .forward = vw__plan_transformer_forward,
    TEXT_HEADS(VW_PLAN_HEAD_MASKED_LM),
};

/* BERT's layer, with attention that reads distances. */
static const vw__plan_style deberta_style = {
    .query = "query_proj",
    .key = "key_proj",
    .value = "value_proj",
    .output = "output",
    .inner = "intermediate",
    .outer = "output",
    .norm_1 = "LayerNorm",
    .norm_2 = "LayerNorm",
    .embedding_norm = "LayerNorm",
    .transform = "transform",
    .head_norm = "LayerNorm",
    .head = "decoder",
    .order = {VW__PLAN_ATTENTION, VW__PLAN_NORM_1, VW__PLAN_MLP, VW__PLAN_NORM_2},
    .norm = VW__MODULE_NORM_LAYER,
    .topology = VW__PLAN_POST_NORM,
    .scope = VW__PLAN_SCOPE_ALL,
    .holds = {.heads = VW__PLAN_OUTPUT_BEGINS,
              .context = VW__PLAN_NORMED,
              .input = VW__PLAN_NORMED,
              .mlp_input = VW__PLAN_NORMED,
              .undropped = VW__PLAN_DROPPED,
              .part = VW__PLAN_NORMED,
              .residual = VW__PLAN_BLOCK_ENDS},
    ALL_BIASES,
    .has_head_bias = true,
    .has_embedding_scope = true,
    .is_embedding_masked = true,
    .keeps_all_hidden = true,
};

const vw__plan_family vw__plan_family_deberta = {
    TRANSFORMER("deberta", deberta_style),
    .forward = vw__plan_transformer_forward,
    .keeps_logits_type = true,
    .scores = {.is_own = true, .has_no_flash = true, .is_plain = true},
    TEXT_HEADS(VW_PLAN_HEAD_MASKED_LM),
};

/* ---- encoder and decoder --------------------------------------------------------------------- */

#define BART_STYLE                                                                                 \
    BART_LAYER, HOLDS_RESIDUAL, ALL_BIASES,                                                        \
        .order = {VW__PLAN_ATTENTION, VW__PLAN_NORM_1, VW__PLAN_CROSS, VW__PLAN_MLP,               \
                  VW__PLAN_NORM_2},                                                                \
        .head = "lm_head", .is_embedding_scaled = true, .embedding_holds = VW__PLAN_HOLDS_ROWS

#define BART_FAMILY(family, row)                                                                   \
    TRANSFORMER(family, row),                                                                      \
        .forward = vw__plan_encoder_decoder_forward,                                               \
        .generate = vw__plan_encoder_decoder_generate, .has_position_table = true,                 \
        .keeps_logits_type = true, .scores = {.is_plain = true},                                   \
        .heads = {VW_PLAN_HEAD_SEQ2SEQ_LM, VW_PLAN_HEAD_SEQUENCE_CLASSIFICATION,                   \
                  VW_PLAN_HEAD_NONE}

static const vw__plan_style bart_style = {
    BART_STYLE,
    .topology = VW__PLAN_POST_NORM,
    .embedding_norm = "layernorm_embedding",
};
static const vw__plan_style mbart_style = {
    BART_STYLE,
    .embedding_norm = "layernorm_embedding",
    .last_norm = "layer_norm",
};
static const vw__plan_style pegasus_style = {
    BART_STYLE,
    .last_norm = "layer_norm",
    .has_fixed_positions = true,
};
static const vw__plan_style marian_style = {
    BART_STYLE,
    .topology = VW__PLAN_POST_NORM,
    .has_fixed_positions = true,
};

static const vw__plan_style m2m_100_style = {
    BART_STYLE,
    .last_norm = "layer_norm",
    .has_buffered_positions = true,
};

const vw__plan_family vw__plan_family_m2m_100 = {BART_FAMILY("m2m_100", m2m_100_style)};
/* The encoder hears; tokens are as they are looked up. */
static const vw__plan_style whisper_style = {
    BART_LAYER,
    HOLDS_RESIDUAL,
    ALL_BIASES,
    .order = {VW__PLAN_ATTENTION, VW__PLAN_NORM_1, VW__PLAN_CROSS, VW__PLAN_MLP, VW__PLAN_NORM_2},
    .head = "proj_out",
    .last_norm = "layer_norm",
    .embedding_holds = VW__PLAN_HOLDS_ROWS,
    .is_key_unbiased = true,
    .is_query_joined = true, /* contiguous(), by head */
};

const vw__plan_family vw__plan_family_bart = {BART_FAMILY("bart", bart_style)};
const vw__plan_family vw__plan_family_mbart = {BART_FAMILY("mbart", mbart_style)};
const vw__plan_family vw__plan_family_pegasus = {BART_FAMILY("pegasus", pegasus_style)};
const vw__plan_family vw__plan_family_marian = {BART_FAMILY("marian", marian_style)};
const vw__plan_family vw__plan_family_whisper = {BART_FAMILY("whisper", whisper_style)};
