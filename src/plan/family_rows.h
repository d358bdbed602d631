/* family_rows.h - the words in which families of transformers are written: what several of them
 * have in common. For families*.c only. */
#ifndef VW_PLAN_FAMILY_ROWS_H
#define VW_PLAN_FAMILY_ROWS_H

#include "plan/transformer.h"

/* hidden = norm(x); hidden = attention(hidden); hidden = x + hidden: each takes the place of the
 * one before. */
#define HOLDS_LITTLE                                                                               \
    .heads = VW__PLAN_OUTPUT_ENDS, .context = VW__PLAN_OUTPUT_ENDS, .undropped = VW__PLAN_DROPPED, \
    .part = VW__PLAN_ADDED, .residual = VW__PLAN_ADDED

#define LLAMA_ATTENTION .query = "q_proj", .key = "k_proj", .value = "v_proj", .output = "o_proj"
#define LLAMA_MLP .gate = "gate_proj", .inner = "up_proj", .outer = "down_proj"
#define LLAMA_NORMS                                                                                \
    .norm_1 = "input_layernorm", .norm_2 = "post_attention_layernorm", .last_norm = "norm"

/* Llama, Mistral, Qwen, Gemma, Mixtral, Phi-3. */
#define LLAMA_KIND                                                                                 \
    LLAMA_NORMS, .head = "lm_head", .is_causal = true, .embedding_holds = VW__PLAN_HOLDS_ROWS,     \
                 .holds = {                                                                        \
                     HOLDS_LITTLE,                                                                 \
                     .input = VW__PLAN_OUTPUT_ENDS,                                                \
                     .mlp_input = VW__PLAN_OUTPUT_ENDS,                                            \
    }

#define ALL_BIASES .has_query_bias = true, .has_output_bias = true, .has_mlp_bias = true

#define ENCODER_LAYER                                                                              \
    .query = "query", .key = "key", .value = "value", .output = "output", .inner = "intermediate", \
    .outer = "output", .norm = VW__MODULE_NORM_LAYER, .has_output_bias = true,                     \
    .has_mlp_bias = true, .has_embedding_scope = true, .has_head_bias = true

#define TRANSFORMER(family, row)                                                                   \
    .name = family, .style = &(row), .usual_length = vw__plan_usual_length,                        \
    .build = vw__plan_transformer_build

/* Classes that any text model has beside its usual one. */
#define TEXT_HEADS(usual)                                                                          \
    .heads = {usual, VW_PLAN_HEAD_SEQUENCE_CLASSIFICATION, VW_PLAN_HEAD_TOKEN_CLASSIFICATION,      \
              VW_PLAN_HEAD_QUESTION_ANSWERING, VW_PLAN_HEAD_NONE}

#define DECODER(family, row)                                                                       \
    TRANSFORMER(family, row), .forward = vw__plan_transformer_forward,                             \
                              .generate = vw__plan_generate, TEXT_HEADS(VW_PLAN_HEAD_CAUSAL_LM)

/* families.c: as many tokens as the model has positions. */
uint64_t vw__plan_usual_length(const vw_plan_model *model);

#endif /* VW_PLAN_FAMILY_ROWS_H */
