/* config_rows.h - the words in which tables of model types are written: keys of config.json that
 * many types have, and their usual defaults. For config_types*.c only. */
#ifndef VW_PLAN_CONFIG_ROWS_H
#define VW_PLAN_CONFIG_ROWS_H

#include "plan/config_calls.h"
#include "plan/config_types.h"

/* clang-format off */
#define FIELD(member) .field = offsetof(vw_plan_model, shape.member)
#define NUMBER(key, member, limit) {VW__CONFIG_KEY_NUMBER, key, FIELD(member), .most = limit}
#define EITHER(key, alias, member, limit)                                                          \
    {VW__CONFIG_KEY_NUMBER, key, alias, FIELD(member), .most = limit}
#define NUMBER_IF(key, member, limit) {VW__CONFIG_KEY_NUMBER_IF, key, FIELD(member), .most = limit}
#define EXACTLY(key, number) {VW__CONFIG_KEY_EXACTLY, key, .most = number}
#define WORD(key, word) {VW__CONFIG_KEY_WORD, key, .other = word}
#define FLAG(key, member) {VW__CONFIG_KEY_FLAG, key, FIELD(member)}
#define NOT(key, member) {VW__CONFIG_KEY_NOT, key, FIELD(member)}
#define DROPOUT(key, member) {VW__CONFIG_KEY_DROPOUT, key, FIELD(member)}
#define CAP(key, member) {VW__CONFIG_KEY_CAP, key, FIELD(member)}
#define REFUSED(key) {.kind = VW__CONFIG_KEY_FALSE, .name = key}
#define MULTIPLE(key, member, part, part_member)                                                   \
    {VW__CONFIG_KEY_MULTIPLE, key, part, FIELD(member),                                            \
     .other_field = offsetof(vw_plan_model, shape.part_member)}
#define ACTIVATION(key) {VW__CONFIG_KEY_CALL, key, .call = vw__config_call_activation}
#define CALL(...) {VW__CONFIG_KEY_CALL, .call = __VA_ARGS__}
#define END {.kind = VW__CONFIG_KEY_END}

#define USUAL_KEYS                                                                                 \
    NUMBER("hidden_size", hidden, VW__CONFIG_MOST_WIDTH),                                                 \
    NUMBER("num_hidden_layers", layers, VW__CONFIG_MOST_LAYERS),                                          \
    NUMBER("num_attention_heads", attention.heads, VW__CONFIG_MOST_HEADS),                                \
    NUMBER("intermediate_size", mlp.inner, VW__CONFIG_MOST_INNER)
#define VOCABULARY NUMBER("vocab_size", embedding.vocabulary, VW__CONFIG_MOST_VOCABULARY)
#define WHOLE_HEADS                                                                                \
    MULTIPLE("hidden_size", hidden, "num_attention_heads", attention.heads)
#define TIED FLAG("tie_word_embeddings", head.is_tied)

#define DECODER_KEYS                                                                               \
    USUAL_KEYS,                                                                                    \
    VOCABULARY,                                                                                    \
    NUMBER_IF("num_key_value_heads", attention.key_heads, VW__CONFIG_MOST_HEADS),                         \
    MULTIPLE("num_attention_heads", attention.heads, "num_key_value_heads", attention.key_heads),  \
    CALL(vw__config_call_head_width),                                                                         \
    NUMBER_IF("max_position_embeddings", embedding.positions, VW__CONFIG_MOST_POSITIONS),                 \
    ACTIVATION("hidden_act"),                                                                      \
    DROPOUT("attention_dropout", attention.has_dropout),                                           \
    TIED
#define ATTENTION_BIAS                                                                             \
    FLAG("attention_bias", attention.has_query_bias),                                              \
    FLAG("attention_bias", attention.has_output_bias)
#define BERT_DROPOUTS                                                                              \
    DROPOUT("hidden_dropout_prob", has_residual_dropout),                                          \
    DROPOUT("hidden_dropout_prob", embedding.has_dropout),                                         \
    DROPOUT("attention_probs_dropout_prob", attention.has_dropout)
#define BERT_BEGINS                                                                                \
    WORD("position_embedding_type", "absolute"),                                                   \
    EXACTLY("chunk_size_feed_forward", 0),                                                         \
    REFUSED("add_cross_attention"),                                                                \
    REFUSED("is_decoder"),                                                                         \
    USUAL_KEYS,                                                                                    \
    WHOLE_HEADS,                                                                                   \
    VOCABULARY,                                                                                    \
    NUMBER("max_position_embeddings", embedding.positions, VW__CONFIG_MOST_POSITIONS),                    \
    NUMBER_IF("type_vocab_size", embedding.token_types, VW__CONFIG_MOST_VOCABULARY)


#define SILU_GATE .mlp = {.activation = VW__PLAN_ACTIVATION_SILU, .is_gated = true}
#define GELU_GATE .mlp = {.activation = VW__PLAN_ACTIVATION_GELU, .is_gated = true}
#define POSITIONS(count) .embedding = {.positions = count}
/* The classifier is what they differ by. */
#define BERT_KIND(of_what)                                                                         \
    .mlp = {.activation = VW__PLAN_ACTIVATION_GELU}, .attention = {.has_dropout = true},                \
    .embedding = {.token_types = 2, .has_dropout = true}, .has_residual_dropout = true,            \
    .head = {.is_tied = true, .has_pooler = true, .classifier = of_what}
#define BERT_DEFAULTS BERT_KIND(VW__PLAN_CLASSIFIER_OF_POOLER)
#define ROBERTA_DEFAULTS BERT_KIND(VW__PLAN_CLASSIFIER_OF_DENSE)
/* clang-format on */

#endif /* VW_PLAN_CONFIG_ROWS_H */
