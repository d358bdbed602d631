/* config_families.c - what all readers share; GPT-2, BERT and RoBERTa, T5, ViT. */
#include "plan/config_families.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"

/* ---- what they share ------------------------------------------------------------------------- */

vw_status vw__read_activation(const vw__config *config, const char *name, vw__activation *out)
{
    static const char *const names[] = {
        "gelu", "gelu_pytorch_tanh", "gelu_new", "gelu_fast", "silu", "swish", "relu", "quick_gelu",
    };
    static const vw__activation meanings[] = {
        VW__ACTIVATION_GELU,     VW__ACTIVATION_GELU,       VW__ACTIVATION_GELU_NEW,
        VW__ACTIVATION_GELU_NEW, VW__ACTIVATION_SILU,       VW__ACTIVATION_SILU,
        VW__ACTIVATION_RELU,     VW__ACTIVATION_QUICK_GELU,
    };
    size_t place = sizeof names / sizeof names[0];
    VW__TRY(vw__config_choice_if(config, name, names, sizeof names / sizeof names[0], &place));
    if (place < sizeof names / sizeof names[0])
        *out = meanings[place];
    return VW_OK;
}

vw_status vw__read_dropout(const vw__config *config, const char *name, bool *has_it)
{
    double probability = *has_it ? 0.1 : 0.0;
    VW__TRY(vw__config_real_if(config, name, 0, 1, &probability));
    *has_it = probability > 0;
    return VW_OK;
}

vw_status vw__check_multiple(const vw__config *config, const char *whole_name, uint64_t whole,
                             const char *part_name, uint64_t part)
{
    if (part != 0 && whole % part == 0)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED,
                    "%s%s: expected a multiple of %s, which is %" PRIu64 ", found %" PRIu64,
                    config->place, whole_name, part_name, part, whole);
}

/* A field under its own name, or under the one that transformers takes for it as well. */
static vw_status read_either(const vw__config *config, const char *name, const char *other,
                             uint64_t most, uint64_t *out)
{
    const bool has_other = !vw__config_has(config, name) && vw__config_has(config, other);
    return vw__config_number(config, has_other ? other : name, 1, most, out);
}

vw_status vw__read_usual(const vw__config *config, vw__transformer *shape)
{
    VW__TRY(vw__config_number(config, "hidden_size", 1, VW__MOST_WIDTH, &shape->hidden));
    VW__TRY(vw__config_number(config, "num_hidden_layers", 1, VW__MOST_LAYERS, &shape->layers));
    VW__TRY(vw__config_number(config, "num_attention_heads", 1, VW__MOST_HEADS, &shape->heads));
    VW__TRY(vw__config_number(config, "intermediate_size", 1, VW__MOST_INNER, &shape->inner));
    shape->key_heads = shape->heads;
    shape->head_width = shape->hidden / shape->heads;
    return VW_OK;
}

vw_status vw__check_heads(const vw__config *config, const vw__transformer *shape)
{
    return vw__check_multiple(config, "hidden_size", shape->hidden, "num_attention_heads",
                              shape->heads);
}

vw_status vw__read_vocabulary(const vw__config *config, vw__transformer *shape)
{
    return vw__config_number(config, "vocab_size", 1, VW__MOST_VOCABULARY, &shape->vocabulary);
}

/* transformers counts the names of the labels; without any there are two. */
vw_status vw__read_labels(const vw__config *config, uint64_t *labels)
{
    const size_t names = vw__config_count(config, "id2label");
    *labels = names > 0 ? names : 2;
    return vw__config_number_if(config, "num_labels", 1, VW__MOST_VOCABULARY, labels);
}

/* ---- gpt2 ------------------------------------------------------------------------------------ */

static vw_status read_gpt2_numbers(const vw__config *config, vw__transformer *shape)
{
    VW__TRY(read_either(config, "n_embd", "hidden_size", VW__MOST_WIDTH, &shape->hidden));
    VW__TRY(read_either(config, "n_layer", "num_hidden_layers", VW__MOST_LAYERS, &shape->layers));
    VW__TRY(read_either(config, "n_head", "num_attention_heads", VW__MOST_HEADS, &shape->heads));
    VW__TRY(read_either(config, "n_positions", "max_position_embeddings", VW__MOST_POSITIONS,
                        &shape->positions));
    VW__TRY(vw__read_vocabulary(config, shape));
    shape->inner = 4 * shape->hidden;
    VW__TRY(vw__config_number_if(config, "n_inner", 1, VW__MOST_INNER, &shape->inner));
    shape->key_heads = shape->heads;
    shape->head_width = shape->hidden / shape->heads;
    return vw__check_multiple(config, "n_embd", shape->hidden, "n_head", shape->heads);
}

vw_status vw__read_gpt2(const vw__config *config, vw_plan_model *model)
{
    vw__transformer *shape = &model->shape;
    *shape = (vw__transformer){.activation = VW__ACTIVATION_GELU_NEW,
                               .is_tied = true,
                               .has_embedding_dropout = true,
                               .has_attention_dropout = true,
                               .has_residual_dropout = true};
    VW__TRY(read_gpt2_numbers(config, shape));
    VW__TRY(vw__read_activation(config, "activation_function", &shape->activation));
    VW__TRY(vw__read_dropout(config, "embd_pdrop", &shape->has_embedding_dropout));
    VW__TRY(vw__read_dropout(config, "attn_pdrop", &shape->has_attention_dropout));
    VW__TRY(vw__read_dropout(config, "resid_pdrop", &shape->has_residual_dropout));
    VW__TRY(vw__config_boolean_if(config, "tie_word_embeddings", &shape->is_tied));
    VW__TRY(vw__config_refuse_true(config, "reorder_and_upcast_attn"));
    return vw__config_refuse_true(config, "add_cross_attention");
}

/* ---- bert, roberta --------------------------------------------------------------------------- */

static vw_status read_bert_dropouts(const vw__config *config, vw__transformer *shape)
{
    VW__TRY(vw__read_dropout(config, "hidden_dropout_prob", &shape->has_residual_dropout));
    VW__TRY(
        vw__read_dropout(config, "attention_probs_dropout_prob", &shape->has_attention_dropout));
    shape->has_embedding_dropout = shape->has_residual_dropout;
    return VW_OK;
}

/* RoBERTa's positions begin behind the one of the padding. */
static vw_status read_position_offset(const vw__config *config, vw__transformer *shape)
{
    uint64_t padding = 1;
    VW__TRY(vw__config_number_if(config, "pad_token_id", 0, VW__MOST_VOCABULARY, &padding));
    shape->position_offset = padding + 1;
    if (shape->position_offset < shape->positions)
        return VW_OK;
    return vw__config_refuse(config, "pad_token_id", VW_ERR_UNSUPPORTED,
                             "less than max_position_embeddings (%" PRIu64 ") by 2",
                             shape->positions);
}

static vw_status refuse_other_berts(const vw__config *config)
{
    static const char *const kinds[] = {"absolute"};
    size_t place = 0;
    uint64_t chunk = 0;
    VW__TRY(vw__config_choice_if(config, "position_embedding_type", kinds, 1, &place));
    VW__TRY(vw__config_number_if(config, "chunk_size_feed_forward", 0, 0, &chunk));
    VW__TRY(vw__config_refuse_true(config, "add_cross_attention"));
    return vw__config_refuse_true(config, "is_decoder");
}

vw_status vw__read_bert(const vw__config *config, vw_plan_model *model)
{
    static const char *const kinds[] = {"bert", "roberta"};
    vw__transformer *shape = &model->shape;
    size_t kind = 0;
    *shape = (vw__transformer){.activation = VW__ACTIVATION_GELU,
                               .is_tied = true,
                               .token_types = 2,
                               .has_attention_dropout = true,
                               .has_residual_dropout = true};
    VW__TRY(vw__config_choice(config, "model_type", kinds, 2, &kind));
    VW__TRY(refuse_other_berts(config));
    VW__TRY(vw__read_usual(config, shape));
    VW__TRY(vw__check_heads(config, shape));
    VW__TRY(vw__read_vocabulary(config, shape));
    VW__TRY(vw__config_number(config, "max_position_embeddings", 1, VW__MOST_POSITIONS,
                              &shape->positions));
    VW__TRY(vw__config_number_if(config, "type_vocab_size", 1, VW__MOST_VOCABULARY,
                                 &shape->token_types));
    if (kind == 1)
        VW__TRY(read_position_offset(config, shape));
    VW__TRY(vw__read_activation(config, "hidden_act", &shape->activation));
    VW__TRY(read_bert_dropouts(config, shape));
    return vw__config_boolean_if(config, "tie_word_embeddings", &shape->is_tied);
}

/* ---- t5 -------------------------------------------------------------------------------------- */

static vw_status read_t5_feed(const vw__config *config, vw__transformer *shape)
{
    static const char *const names[] = {"relu",       "gated-gelu", "gelu",
                                        "gated-silu", "silu",       "gelu_new"};
    static const struct {
        vw__activation activation;
        bool is_gated;
    } meanings[] = {{VW__ACTIVATION_RELU, false}, {VW__ACTIVATION_GELU_NEW, true},
                    {VW__ACTIVATION_GELU, false}, {VW__ACTIVATION_SILU, true},
                    {VW__ACTIVATION_SILU, false}, {VW__ACTIVATION_GELU_NEW, false}};
    size_t place = 0;
    VW__TRY(vw__config_choice_if(config, "feed_forward_proj", names, sizeof names / sizeof names[0],
                                 &place));
    shape->activation = meanings[place].activation;
    shape->is_gated = meanings[place].is_gated;
    return VW_OK;
}

static vw_status read_t5_layers(const vw__config *config, vw__transformer *shape)
{
    VW__TRY(
        read_either(config, "num_layers", "num_hidden_layers", VW__MOST_LAYERS, &shape->layers));
    shape->decoder_layers = shape->layers;
    return vw__config_number_if(config, "num_decoder_layers", 1, VW__MOST_LAYERS,
                                &shape->decoder_layers);
}

vw_status vw__read_t5(const vw__config *config, vw_plan_model *model)
{
    vw__transformer *shape = &model->shape;
    bool has_dropout = true;
    *shape = (vw__transformer){.is_tied = true, .buckets = 32};
    VW__TRY(read_either(config, "d_model", "hidden_size", VW__MOST_WIDTH, &shape->hidden));
    VW__TRY(read_either(config, "num_heads", "num_attention_heads", VW__MOST_HEADS, &shape->heads));
    VW__TRY(vw__config_number(config, "d_kv", 1, VW__MOST_WIDTH, &shape->head_width));
    VW__TRY(vw__config_number(config, "d_ff", 1, VW__MOST_INNER, &shape->inner));
    VW__TRY(read_t5_layers(config, shape));
    VW__TRY(vw__read_vocabulary(config, shape));
    VW__TRY(vw__config_number_if(config, "relative_attention_num_buckets", 1, VW__MOST_WIDTH,
                                 &shape->buckets));
    VW__TRY(read_t5_feed(config, shape));
    VW__TRY(vw__read_dropout(config, "dropout_rate", &has_dropout));
    shape->key_heads = shape->heads;
    shape->has_embedding_dropout = has_dropout;
    shape->has_attention_dropout = has_dropout;
    shape->has_residual_dropout = has_dropout;
    return vw__config_boolean_if(config, "tie_word_embeddings", &shape->is_tied);
}

/* ---- vit ------------------------------------------------------------------------------------- */

static vw_status read_image(const vw__config *config, vw__transformer *shape)
{
    VW__TRY(vw__config_number(config, "image_size", 1, VW__MOST_PIXELS, &shape->image));
    VW__TRY(vw__config_number(config, "patch_size", 1, VW__MOST_PIXELS, &shape->patch));
    shape->channels = 3;
    VW__TRY(vw__config_number_if(config, "num_channels", 1, VW__MOST_WIDTH, &shape->channels));
    return vw__check_multiple(config, "image_size", shape->image, "patch_size", shape->patch);
}

vw_status vw__read_vit(const vw__config *config, vw_plan_model *model)
{
    vw__transformer *shape = &model->shape;
    *shape = (vw__transformer){.activation = VW__ACTIVATION_GELU, .has_query_bias = true};
    VW__TRY(vw__read_usual(config, shape));
    VW__TRY(vw__check_heads(config, shape));
    VW__TRY(read_image(config, shape));
    VW__TRY(vw__read_labels(config, &shape->labels));
    VW__TRY(vw__read_activation(config, "hidden_act", &shape->activation));
    VW__TRY(vw__config_boolean_if(config, "qkv_bias", &shape->has_query_bias));
    return read_bert_dropouts(config, shape);
}
