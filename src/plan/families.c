/* families.c - the families of transformers: how the Python code of each differs from the others',
 * after the modeling_*.py of transformers. A new family is a style here, or in families_text.c, and
 * a row of config_types*.c. */
#include "plan/family_rows.h"

uint64_t vw__plan_usual_length(const vw_plan_model *model)
{
    enum { TRAINED_WITH = 512 }; /* by T5, whose relative positions have no end */
    const vw__plan_shape *shape = &model->shape;
    if (shape->embedding.patch > 0)
        return shape->embedding.image;
    if (shape->attention.buckets > 0)
        return TRAINED_WITH;
    return shape->embedding.positions - shape->embedding.position_offset;
}

/* ---- decoders -------------------------------------------------------------------------------- */

static const vw__plan_style gpt2_style = {
    .packed = "c_attn",
    .output = "c_proj",
    .inner = "c_fc",
    .outer = "c_proj",
    .norm_1 = "ln_1",
    .norm_2 = "ln_2",
    .last_norm = "ln_f",
    .head = "lm_head",
    .order = {VW__PLAN_NORM_1, VW__PLAN_ATTENTION, VW__PLAN_NORM_2, VW__PLAN_MLP},
    .norm = VW__MODULE_NORM_LAYER,
    .scope = VW__PLAN_SCOPE_DROPOUT,
    .packing = VW__PLAN_SPLIT,
    .holds = {.heads = VW__PLAN_DROPPED,
              .context = VW__PLAN_OUTPUT_ENDS,
              .input = VW__PLAN_NORMED,
              .mlp_input = VW__PLAN_ADDED,
              .undropped = VW__PLAN_DROPPED,
              .part = VW__PLAN_BLOCK_ENDS,
              .residual = VW__PLAN_BLOCK_ENDS},
    .is_causal = true,
    ALL_BIASES,
    .has_embedding_scope = true,
    .has_positions = true,
    .embedding_holds = VW__PLAN_HOLDS_ROWS,
};

const vw__plan_family vw__plan_family_gpt2 = {
    DECODER("gpt2", gpt2_style),
    .has_position_table = true,
    .scores = {.is_plain = true},
};

static const vw__plan_style llama_style = {
    LLAMA_ATTENTION,
    LLAMA_MLP,
    LLAMA_KIND,
    .order = {VW__PLAN_ATTENTION, VW__PLAN_MLP, VW__PLAN_NORM_1, VW__PLAN_NORM_2},
    .norm = VW__MODULE_NORM_RMS,
    .rotary = VW__PLAN_ROTATED,
};

const vw__plan_family vw__plan_family_llama = {DECODER("llama", llama_style)};
const vw__plan_family vw__plan_family_mixtral = {DECODER("mixtral", llama_style)};

static const vw__plan_style gemma_style = {
    LLAMA_ATTENTION,
    LLAMA_MLP,
    LLAMA_KIND,
    .norm_2_of_outer = "pre_feedforward_layernorm",
    .after_attention = "post_attention_layernorm",
    .after_mlp = "post_feedforward_layernorm",
    .order = {VW__PLAN_ATTENTION, VW__PLAN_MLP, VW__PLAN_NORM_1, VW__PLAN_AFTER_ATTENTION,
              VW__PLAN_NORM_2, VW__PLAN_AFTER_MLP},
    .norm = VW__MODULE_NORM_GEMMA,
    .rotary = VW__PLAN_ROTATED,
    .is_embedding_scaled = true,
};

const vw__plan_family vw__plan_family_gemma = {DECODER("gemma", gemma_style)};

static const vw__plan_style phi3_style = {
    .packed = "qkv_proj",
    .output = "o_proj",
    .packed_gate = "gate_up_proj",
    .outer = "down_proj",
    LLAMA_KIND,
    .order = {VW__PLAN_ATTENTION, VW__PLAN_MLP, VW__PLAN_NORM_1, VW__PLAN_NORM_2},
    .norm = VW__MODULE_NORM_RMS,
    .packing = VW__PLAN_SLICED,
    .rotary = VW__PLAN_ROTATED_IN_PART,
    .is_query_joined = true,
};

const vw__plan_family vw__plan_family_phi3 = {DECODER("phi3", phi3_style)};

/* Attention and MLP read the same norm. */
static const vw__plan_style phi_style = {
    .query = "q_proj",
    .key = "k_proj",
    .value = "v_proj",
    .output = "dense",
    .inner = "fc1",
    .outer = "fc2",
    .norm_1 = "input_layernorm",
    .last_norm = "final_layernorm",
    .head = "lm_head",
    .has_head_bias = true,
    .order = {VW__PLAN_ATTENTION, VW__PLAN_MLP, VW__PLAN_NORM_1},
    .norm = VW__MODULE_NORM_LAYER,
    .topology = VW__PLAN_PARALLEL,
    .rotary = VW__PLAN_ROTATED_IN_PART,
    .rotates_in_turn = true,
    .is_query_joined = true,
    .holds = {HOLDS_LITTLE, .input = VW__PLAN_BLOCK_ENDS, .mlp_input = VW__PLAN_BLOCK_ENDS},
    .is_causal = true,
    ALL_BIASES,
    .makes_tables_first = true,
    .embedding_holds = VW__PLAN_HOLDS_RESULT,
};

const vw__plan_family vw__plan_family_phi = {DECODER("phi", phi_style)};

/* Attention and MLP read the same input, through a norm each. */
static const vw__plan_style gpt_neox_style = {
    .packed = "query_key_value",
    .output = "dense",
    .inner = "dense_h_to_4h",
    .outer = "dense_4h_to_h",
    .norm_1 = "input_layernorm",
    .norm_2 = "post_attention_layernorm",
    .last_norm = "final_layer_norm",
    .head = "embed_out",
    .order = {VW__PLAN_NORM_1, VW__PLAN_NORM_2, VW__PLAN_ATTENTION, VW__PLAN_MLP},
    .norm = VW__MODULE_NORM_LAYER,
    .topology = VW__PLAN_PARALLEL,
    .packing = VW__PLAN_SPLIT,
    .rotary = VW__PLAN_ROTATED_IN_PART,
    .is_query_joined = true,
    .holds = {HOLDS_LITTLE, .input = VW__PLAN_OUTPUT_ENDS, .mlp_input = VW__PLAN_OUTPUT_ENDS},
    .is_causal = true,
    .has_mlp_bias = true,
    .makes_tables_first = true,
    .makes_mask_first = true,
    .embedding_holds = VW__PLAN_HOLDS_ROWS,
};

const vw__plan_family vw__plan_family_gpt_neox = {DECODER("gpt_neox", gpt_neox_style)};

/* ---- encoders -------------------------------------------------------------------------------- */

/* With the head for masked words. */
static const vw__plan_style bert_style = {
    ENCODER_LAYER,
    .norm_1 = "LayerNorm",
    .norm_2 = "LayerNorm",
    .embedding_norm = "LayerNorm",
    .transform = "transform",
    .widen = "embeddings_project",
    .head_norm = "LayerNorm",
    .head = "decoder",
    .order = {VW__PLAN_ATTENTION, VW__PLAN_NORM_1, VW__PLAN_MLP, VW__PLAN_NORM_2},
    .topology = VW__PLAN_POST_NORM,
    .scope = VW__PLAN_SCOPE_ALL,
    .holds = {.heads = VW__PLAN_OUTPUT_BEGINS,
              .context = VW__PLAN_NORMED,
              .input = VW__PLAN_NORMED,
              .mlp_input = VW__PLAN_NORMED,
              .undropped = VW__PLAN_DROPPED,
              .part = VW__PLAN_NORMED,
              .residual = VW__PLAN_NORMED},
    .has_query_bias = true,
    .has_positions = true,
    .embedding_holds = VW__PLAN_HOLDS_RESULT,
};

const vw__plan_family vw__plan_family_bert = {
    TRANSFORMER("bert", bert_style), .forward = vw__plan_transformer_forward,
    .has_position_table = true,      .keeps_logits_type = true,
    .scores = {.is_plain = true},    TEXT_HEADS(VW_PLAN_HEAD_MASKED_LM),
};

/* With a classifier. */
static const vw__plan_style vit_style = {
    ENCODER_LAYER,
    .norm_1 = "layernorm_before",
    .norm_2 = "layernorm_after",
    .last_norm = "layernorm",
    .head = "classifier",
    .order = {VW__PLAN_ATTENTION, VW__PLAN_MLP, VW__PLAN_NORM_1, VW__PLAN_NORM_2},
    .scope = VW__PLAN_SCOPE_DROPOUT,
    .holds = {.heads = VW__PLAN_OUTPUT_BEGINS,
              .context = VW__PLAN_OUTPUT_ENDS,
              .input = VW__PLAN_DROPPED,
              .mlp_input = VW__PLAN_DROPPED,
              .undropped = VW__PLAN_DROPPED,
              .part = VW__PLAN_NORMED,
              .residual = VW__PLAN_BLOCK_ENDS},
    .embedding_holds = VW__PLAN_HOLDS_RESULT,
};

const vw__plan_family vw__plan_family_vit = {
    TRANSFORMER("vit", vit_style),
    .forward = vw__plan_transformer_forward,
    .has_images = true,
    .heads = {VW_PLAN_HEAD_IMAGE_CLASSIFICATION, VW_PLAN_HEAD_NONE},
    .keeps_logits_type = true,
};

/* ---- encoder and decoder --------------------------------------------------------------------- */

static const vw__plan_style t5_style = {
    .query = "q",
    .key = "k",
    .value = "v",
    .output = "o",
    .gate = "wi_0",
    .inner = "wi_1",
    .ungated_inner = "wi",
    .outer = "wo",
    .norm_1 = "layer_norm",
    .norm_2 = "layer_norm",
    .last_norm = "final_layer_norm",
    .head = "lm_head",
    .order = {VW__PLAN_NORM_1, VW__PLAN_ATTENTION, VW__PLAN_CROSS, VW__PLAN_MLP, VW__PLAN_NORM_2},
    .norm = VW__MODULE_NORM_T5,
    .scope = VW__PLAN_SCOPE_ALL,
    .holds = {.heads = VW__PLAN_OUTPUT_ENDS,
              .context = VW__PLAN_OUTPUT_ENDS,
              .input = VW__PLAN_ADDED,
              .mlp_input = VW__PLAN_OUTPUT_BEGINS,
              .undropped = VW__PLAN_ADDED,
              .part = VW__PLAN_ADDED,
              .residual = VW__PLAN_ADDED},
    .has_last_dropout = true,
    .is_tied_head_scaled = true,
    .is_clamped = true,
    .embedding_holds = VW__PLAN_HOLDS_ROWS,
};

const vw__plan_family vw__plan_family_t5 = {
    TRANSFORMER("t5", t5_style),
    .forward = vw__plan_encoder_decoder_forward,
    .generate = vw__plan_encoder_decoder_generate,
    .keeps_logits_type = true,
    .scores = {.has_no_flash = true},
    .heads = {VW_PLAN_HEAD_SEQ2SEQ_LM, VW_PLAN_HEAD_ENCODER, VW_PLAN_HEAD_NONE},
};
