/* config_families.c - what all readers share; GPT-2, BERT and RoBERTa, T5, ViT. */
#include "plan/config_families.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"

/* ---- what they share ------------------------------------------------------------------------- */

hr_status hr__read_activation(const hr__config *config, const char *name, hr__activation *out)
{
    static const char *const names[] = {
        "gelu", "gelu_pytorch_tanh", "gelu_new", "gelu_fast", "silu", "swish", "relu", "quick_gelu",
    };
    static const hr__activation meanings[] = {
        HR__ACTIVATION_GELU,     HR__ACTIVATION_GELU,       HR__ACTIVATION_GELU_NEW,
        HR__ACTIVATION_GELU_NEW, HR__ACTIVATION_SILU,       HR__ACTIVATION_SILU,
        HR__ACTIVATION_RELU,     HR__ACTIVATION_QUICK_GELU,
    };
    size_t place = sizeof names / sizeof names[0];
    HR__TRY(hr__config_choice_if(config, name, names, sizeof names / sizeof names[0], &place));
    if (place < sizeof names / sizeof names[0])
        *out = meanings[place];
    return HR_OK;
}

hr_status hr__read_dropout(const hr__config *config, const char *name, bool *has_it)
{
    double probability = *has_it ? 0.1 : 0.0;
    HR__TRY(hr__config_real_if(config, name, 0, 1, &probability));
    *has_it = probability > 0;
    return HR_OK;
}

hr_status hr__check_multiple(const hr__config *config, const char *whole_name, uint64_t whole,
                             const char *part_name, uint64_t part)
{
    if (part != 0 && whole % part == 0)
        return HR_OK;
    return hr__fail(HR_ERR_UNSUPPORTED,
                    "%s%s: expected a multiple of %s, which is %" PRIu64 ", found %" PRIu64,
                    config->place, whole_name, part_name, part, whole);
}

/* A field under its own name, or under the one that transformers takes for it as well. */
static hr_status read_either(const hr__config *config, const char *name, const char *other,
                             uint64_t most, uint64_t *out)
{
    const bool has_other = !hr__config_has(config, name) && hr__config_has(config, other);
    return hr__config_number(config, has_other ? other : name, 1, most, out);
}

hr_status hr__read_usual(const hr__config *config, hr__transformer *shape)
{
    HR__TRY(hr__config_number(config, "hidden_size", 1, HR__MOST_WIDTH, &shape->hidden));
    HR__TRY(hr__config_number(config, "num_hidden_layers", 1, HR__MOST_LAYERS, &shape->layers));
    HR__TRY(hr__config_number(config, "num_attention_heads", 1, HR__MOST_HEADS, &shape->heads));
    HR__TRY(hr__config_number(config, "intermediate_size", 1, HR__MOST_INNER, &shape->inner));
    shape->key_heads = shape->heads;
    shape->head_width = shape->hidden / shape->heads;
    return HR_OK;
}

hr_status hr__check_heads(const hr__config *config, const hr__transformer *shape)
{
    return hr__check_multiple(config, "hidden_size", shape->hidden, "num_attention_heads",
                              shape->heads);
}

hr_status hr__read_vocabulary(const hr__config *config, hr__transformer *shape)
{
    return hr__config_number(config, "vocab_size", 1, HR__MOST_VOCABULARY, &shape->vocabulary);
}

/* transformers counts the names of the labels; without any there are two. */
hr_status hr__read_labels(const hr__config *config, uint64_t *labels)
{
    const size_t names = hr__config_count(config, "id2label");
    *labels = names > 0 ? names : 2;
    return hr__config_number_if(config, "num_labels", 1, HR__MOST_VOCABULARY, labels);
}

/* ---- gpt2 ------------------------------------------------------------------------------------ */

static hr_status read_gpt2_numbers(const hr__config *config, hr__transformer *shape)
{
    HR__TRY(read_either(config, "n_embd", "hidden_size", HR__MOST_WIDTH, &shape->hidden));
    HR__TRY(read_either(config, "n_layer", "num_hidden_layers", HR__MOST_LAYERS, &shape->layers));
    HR__TRY(read_either(config, "n_head", "num_attention_heads", HR__MOST_HEADS, &shape->heads));
    HR__TRY(read_either(config, "n_positions", "max_position_embeddings", HR__MOST_POSITIONS,
                        &shape->positions));
    HR__TRY(hr__read_vocabulary(config, shape));
    shape->inner = 4 * shape->hidden;
    HR__TRY(hr__config_number_if(config, "n_inner", 1, HR__MOST_INNER, &shape->inner));
    shape->key_heads = shape->heads;
    shape->head_width = shape->hidden / shape->heads;
    return hr__check_multiple(config, "n_embd", shape->hidden, "n_head", shape->heads);
}

hr_status hr__read_gpt2(const hr__config *config, hr_plan_model *model)
{
    hr__transformer *shape = &model->shape;
    *shape = (hr__transformer){.activation = HR__ACTIVATION_GELU_NEW,
                               .is_tied = true,
                               .has_embedding_dropout = true,
                               .has_attention_dropout = true,
                               .has_residual_dropout = true};
    HR__TRY(read_gpt2_numbers(config, shape));
    HR__TRY(hr__read_activation(config, "activation_function", &shape->activation));
    HR__TRY(hr__read_dropout(config, "embd_pdrop", &shape->has_embedding_dropout));
    HR__TRY(hr__read_dropout(config, "attn_pdrop", &shape->has_attention_dropout));
    HR__TRY(hr__read_dropout(config, "resid_pdrop", &shape->has_residual_dropout));
    HR__TRY(hr__config_boolean_if(config, "tie_word_embeddings", &shape->is_tied));
    HR__TRY(hr__config_refuse_true(config, "reorder_and_upcast_attn"));
    return hr__config_refuse_true(config, "add_cross_attention");
}

/* ---- bert, roberta --------------------------------------------------------------------------- */

static hr_status read_bert_dropouts(const hr__config *config, hr__transformer *shape)
{
    HR__TRY(hr__read_dropout(config, "hidden_dropout_prob", &shape->has_residual_dropout));
    HR__TRY(
        hr__read_dropout(config, "attention_probs_dropout_prob", &shape->has_attention_dropout));
    shape->has_embedding_dropout = shape->has_residual_dropout;
    return HR_OK;
}

/* RoBERTa's positions begin behind the one of the padding. */
static hr_status read_position_offset(const hr__config *config, hr__transformer *shape)
{
    uint64_t padding = 1;
    HR__TRY(hr__config_number_if(config, "pad_token_id", 0, HR__MOST_VOCABULARY, &padding));
    shape->position_offset = padding + 1;
    if (shape->position_offset < shape->positions)
        return HR_OK;
    return hr__config_refuse(config, "pad_token_id", HR_ERR_UNSUPPORTED,
                             "less than max_position_embeddings (%" PRIu64 ") by 2",
                             shape->positions);
}

static hr_status refuse_other_berts(const hr__config *config)
{
    static const char *const kinds[] = {"absolute"};
    size_t place = 0;
    uint64_t chunk = 0;
    HR__TRY(hr__config_choice_if(config, "position_embedding_type", kinds, 1, &place));
    HR__TRY(hr__config_number_if(config, "chunk_size_feed_forward", 0, 0, &chunk));
    HR__TRY(hr__config_refuse_true(config, "add_cross_attention"));
    return hr__config_refuse_true(config, "is_decoder");
}

hr_status hr__read_bert(const hr__config *config, hr_plan_model *model)
{
    static const char *const kinds[] = {"bert", "roberta"};
    hr__transformer *shape = &model->shape;
    size_t kind = 0;
    *shape = (hr__transformer){.activation = HR__ACTIVATION_GELU,
                               .is_tied = true,
                               .token_types = 2,
                               .has_attention_dropout = true,
                               .has_residual_dropout = true};
    HR__TRY(hr__config_choice(config, "model_type", kinds, 2, &kind));
    HR__TRY(refuse_other_berts(config));
    HR__TRY(hr__read_usual(config, shape));
    HR__TRY(hr__check_heads(config, shape));
    HR__TRY(hr__read_vocabulary(config, shape));
    HR__TRY(hr__config_number(config, "max_position_embeddings", 1, HR__MOST_POSITIONS,
                              &shape->positions));
    HR__TRY(hr__config_number_if(config, "type_vocab_size", 1, HR__MOST_VOCABULARY,
                                 &shape->token_types));
    if (kind == 1)
        HR__TRY(read_position_offset(config, shape));
    HR__TRY(hr__read_activation(config, "hidden_act", &shape->activation));
    HR__TRY(read_bert_dropouts(config, shape));
    return hr__config_boolean_if(config, "tie_word_embeddings", &shape->is_tied);
}

/* ---- t5 -------------------------------------------------------------------------------------- */

static hr_status read_t5_feed(const hr__config *config, hr__transformer *shape)
{
    static const char *const names[] = {"relu",       "gated-gelu", "gelu",
                                        "gated-silu", "silu",       "gelu_new"};
    static const struct {
        hr__activation activation;
        bool is_gated;
    } meanings[] = {{HR__ACTIVATION_RELU, false}, {HR__ACTIVATION_GELU_NEW, true},
                    {HR__ACTIVATION_GELU, false}, {HR__ACTIVATION_SILU, true},
                    {HR__ACTIVATION_SILU, false}, {HR__ACTIVATION_GELU_NEW, false}};
    size_t place = 0;
    HR__TRY(hr__config_choice_if(config, "feed_forward_proj", names, sizeof names / sizeof names[0],
                                 &place));
    shape->activation = meanings[place].activation;
    shape->is_gated = meanings[place].is_gated;
    return HR_OK;
}

static hr_status read_t5_layers(const hr__config *config, hr__transformer *shape)
{
    HR__TRY(
        read_either(config, "num_layers", "num_hidden_layers", HR__MOST_LAYERS, &shape->layers));
    shape->decoder_layers = shape->layers;
    return hr__config_number_if(config, "num_decoder_layers", 1, HR__MOST_LAYERS,
                                &shape->decoder_layers);
}

hr_status hr__read_t5(const hr__config *config, hr_plan_model *model)
{
    hr__transformer *shape = &model->shape;
    bool has_dropout = true;
    *shape = (hr__transformer){.is_tied = true, .buckets = 32};
    HR__TRY(read_either(config, "d_model", "hidden_size", HR__MOST_WIDTH, &shape->hidden));
    HR__TRY(read_either(config, "num_heads", "num_attention_heads", HR__MOST_HEADS, &shape->heads));
    HR__TRY(hr__config_number(config, "d_kv", 1, HR__MOST_WIDTH, &shape->head_width));
    HR__TRY(hr__config_number(config, "d_ff", 1, HR__MOST_INNER, &shape->inner));
    HR__TRY(read_t5_layers(config, shape));
    HR__TRY(hr__read_vocabulary(config, shape));
    HR__TRY(hr__config_number_if(config, "relative_attention_num_buckets", 1, HR__MOST_WIDTH,
                                 &shape->buckets));
    HR__TRY(read_t5_feed(config, shape));
    HR__TRY(hr__read_dropout(config, "dropout_rate", &has_dropout));
    shape->key_heads = shape->heads;
    shape->has_embedding_dropout = has_dropout;
    shape->has_attention_dropout = has_dropout;
    shape->has_residual_dropout = has_dropout;
    return hr__config_boolean_if(config, "tie_word_embeddings", &shape->is_tied);
}

/* ---- vit ------------------------------------------------------------------------------------- */

static hr_status read_image(const hr__config *config, hr__transformer *shape)
{
    HR__TRY(hr__config_number(config, "image_size", 1, HR__MOST_PIXELS, &shape->image));
    HR__TRY(hr__config_number(config, "patch_size", 1, HR__MOST_PIXELS, &shape->patch));
    shape->channels = 3;
    HR__TRY(hr__config_number_if(config, "num_channels", 1, HR__MOST_WIDTH, &shape->channels));
    return hr__check_multiple(config, "image_size", shape->image, "patch_size", shape->patch);
}

hr_status hr__read_vit(const hr__config *config, hr_plan_model *model)
{
    hr__transformer *shape = &model->shape;
    *shape = (hr__transformer){.activation = HR__ACTIVATION_GELU, .has_query_bias = true};
    HR__TRY(hr__read_usual(config, shape));
    HR__TRY(hr__check_heads(config, shape));
    HR__TRY(read_image(config, shape));
    HR__TRY(hr__read_labels(config, &shape->labels));
    HR__TRY(hr__read_activation(config, "hidden_act", &shape->activation));
    HR__TRY(hr__config_boolean_if(config, "qkv_bias", &shape->has_query_bias));
    return read_bert_dropouts(config, shape);
}
