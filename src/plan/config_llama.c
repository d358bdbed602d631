/* config_llama.c - decoders of Llama's kind: Llama, Mistral, Qwen2, Qwen3, Gemma, Phi, Phi-3,
 * Mixtral, Qwen3-MoE. What differs from one to the next is which fields there are, and their
 * defaults. */
#include <inttypes.h>
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "plan/config_families.h"

/* ---- what they share ------------------------------------------------------------------------- */

/* num_key_value_heads and head_dim; the latter has a default in some, and follows in the others. */
static hr_status read_heads(const hr__config *config, uint64_t usual_width, hr__transformer *shape)
{
    HR__TRY(
        hr__config_number_if(config, "num_key_value_heads", 1, HR__MOST_HEADS, &shape->key_heads));
    HR__TRY(hr__check_multiple(config, "num_attention_heads", shape->heads, "num_key_value_heads",
                               shape->key_heads));
    if (hr__config_has(config, "head_dim"))
        return hr__config_number(config, "head_dim", 1, HR__MOST_WIDTH, &shape->head_width);
    if (usual_width == 0)
        return hr__check_heads(config, shape);
    shape->head_width = usual_width;
    return HR_OK;
}

static hr_status read_common(const hr__config *config, uint64_t usual_width, hr__transformer *shape)
{
    HR__TRY(hr__read_usual(config, shape));
    HR__TRY(hr__read_vocabulary(config, shape));
    HR__TRY(read_heads(config, usual_width, shape));
    HR__TRY(hr__config_number_if(config, "max_position_embeddings", 1, HR__MOST_POSITIONS,
                                 &shape->positions));
    HR__TRY(hr__read_activation(config, "hidden_act", &shape->activation));
    HR__TRY(hr__read_dropout(config, "attention_dropout", &shape->has_attention_dropout));
    return hr__config_boolean_if(config, "tie_word_embeddings", &shape->is_tied);
}

/* `usual` where nothing is said; null is none. */
static hr_status read_window(const hr__config *config, uint64_t usual, hr__transformer *shape)
{
    shape->window = hr__config_is_null(config, "sliding_window") ? 0 : usual;
    return hr__config_number_if(config, "sliding_window", 1, HR__MOST_POSITIONS, &shape->window);
}

/* Newer files say it layer by layer. */
static hr_status read_layer_types(const hr__config *config, hr_plan_model *model)
{
    static const char *const names[] = {"full_attention", "sliding_attention"};
    hr__transformer *shape = &model->shape;
    size_t count = (size_t)shape->layers; /* within limits */
    if (!hr__config_has(config, "layer_types"))
        return HR_OK;
    uint8_t *places = hr__arena_alloc_array(&model->arena, count, 1, 1);
    bool *windows = hr__arena_alloc_array(&model->arena, count, sizeof *windows, sizeof *windows);
    if (places == NULL || windows == NULL)
        return hr__fail_host_memory(2 * count, "the kinds of a model's layers");
    HR__TRY(hr__config_choices(config, "layer_types", names, 2, count, places));
    for (size_t i = 0; i < count; i++)
        windows[i] = places[i] == 1;
    shape->windows = windows;
    shape->window_from = 0;
    return HR_OK;
}

/* Halves of a head are exchanged, so it has to have two. */
static hr_status check_rotary(const hr__config *config, uint64_t width)
{
    if (width % 2 == 0)
        return HR_OK;
    return hr__fail(HR_ERR_UNSUPPORTED,
                    "%swidth of a head: expected an even number of elements that are rotated, "
                    "found %" PRIu64,
                    config->place, width);
}

/* q, k, v and o have one, or none. */
static hr_status read_attention_bias(const hr__config *config, hr__transformer *shape)
{
    HR__TRY(hr__config_boolean_if(config, "attention_bias", &shape->has_query_bias));
    shape->has_output_bias = shape->has_query_bias;
    return HR_OK;
}

/* The part of a head that is rotated; newer files have it among rope_parameters. */
static hr_status read_rotary(const hr__config *config, const char *name, double usual,
                             hr__transformer *shape)
{
    hr__config inside;
    double factor = usual;
    HR__TRY(hr__config_real_if(config, name, 0, 1, &factor));
    if (hr__config_has_object(config, "rope_parameters")) {
        HR__TRY(hr__config_object(config, "rope_parameters", &inside));
        HR__TRY(hr__config_real_if(&inside, "partial_rotary_factor", 0, 1, &factor));
    }
    shape->rotary_width = (uint64_t)floor((double)shape->head_width * factor);
    if (shape->rotary_width > 0)
        return check_rotary(config, shape->rotary_width);
    return hr__config_refuse(config, name, HR_ERR_UNSUPPORTED,
                             "a part of a head that is one element at least");
}

/* ---- llama, mistral, qwen2, qwen3 ------------------------------------------------------------ */

typedef enum llama_kind { LLAMA, MISTRAL, QWEN2, QWEN3 } llama_kind;

/* Biases, norms and windows are a matter of the kind more than of the file. */
static hr_status read_llama_kind(const hr__config *config, llama_kind kind, hr_plan_model *model)
{
    hr__transformer *shape = &model->shape;
    bool has_window = kind == MISTRAL;
    if (kind == LLAMA || kind == QWEN3)
        HR__TRY(read_attention_bias(config, shape));
    if (kind == LLAMA)
        HR__TRY(hr__config_boolean_if(config, "mlp_bias", &shape->has_mlp_bias));
    if (kind == QWEN2 || kind == QWEN3)
        HR__TRY(hr__config_boolean_if(config, "use_sliding_window", &has_window));
    shape->has_query_bias |= kind == QWEN2;
    shape->has_query_norm = kind == QWEN3;
    if (has_window)
        HR__TRY(read_window(config, 4096, shape));
    if (kind == MISTRAL || shape->window == 0)
        return HR_OK;
    shape->window_from = 28;
    HR__TRY(
        hr__config_number_if(config, "max_window_layers", 0, HR__MOST_LAYERS, &shape->window_from));
    return read_layer_types(config, model);
}

hr_status hr__read_llama(const hr__config *config, hr_plan_model *model)
{
    static const char *const names[] = {"llama", "mistral", "qwen2", "qwen3"};
    hr__transformer *shape = &model->shape;
    size_t kind = LLAMA;
    *shape =
        (hr__transformer){.activation = HR__ACTIVATION_SILU, .is_gated = true, .positions = 2048};
    HR__TRY(hr__config_choice(config, "model_type", names, 4, &kind));
    HR__TRY(read_common(config, kind == QWEN3 ? 128 : 0, shape));
    HR__TRY(check_rotary(config, shape->head_width));
    return read_llama_kind(config, (llama_kind)kind, model);
}

/* ---- gemma ----------------------------------------------------------------------------------- */

typedef enum gemma_kind { GEMMA, GEMMA2, GEMMA3 } gemma_kind;

/* Some layers see all, the others a window: every second, every sixth. */
static hr_status read_gemma_layers(const hr__config *config, gemma_kind kind, hr_plan_model *model)
{
    hr__transformer *shape = &model->shape;
    if (kind == GEMMA)
        return HR_OK;
    shape->has_outer_norms = true;
    shape->has_query_norm = kind == GEMMA3;
    shape->has_capped_logits =
        hr__config_has(config, "final_logit_softcapping") ||
        (kind == GEMMA2 && !hr__config_is_null(config, "final_logit_softcapping"));
    shape->has_capped_scores =
        hr__config_has(config, "attn_logit_softcapping") ||
        (kind == GEMMA2 && !hr__config_is_null(config, "attn_logit_softcapping"));
    shape->window_period = kind == GEMMA2 ? 2 : 6;
    HR__TRY(hr__config_number_if(config, "sliding_window_pattern", 1, HR__MOST_LAYERS,
                                 &shape->window_period));
    HR__TRY(read_window(config, 4096, shape));
    return read_layer_types(config, model);
}

hr_status hr__read_gemma(const hr__config *config, hr_plan_model *model)
{
    static const char *const names[] = {"gemma", "gemma2", "gemma3_text"};
    hr__transformer *shape = &model->shape;
    size_t kind = GEMMA;
    *shape = (hr__transformer){.activation = HR__ACTIVATION_GELU,
                               .is_gated = true,
                               .is_tied = true,
                               .positions = 8192,
                               .has_fp32_norm_weights = true,
                               .has_scaled_embedding = true};
    HR__TRY(hr__config_choice(config, "model_type", names, 3, &kind));
    HR__TRY(read_common(config, 256, shape));
    HR__TRY(hr__read_activation(config, "hidden_activation", &shape->activation));
    HR__TRY(read_attention_bias(config, shape));
    HR__TRY(check_rotary(config, shape->head_width));
    return read_gemma_layers(config, (gemma_kind)kind, model);
}

/* ---- phi, phi3 ------------------------------------------------------------------------------- */

hr_status hr__read_phi(const hr__config *config, hr_plan_model *model)
{
    hr__transformer *shape = &model->shape;
    *shape = (hr__transformer){.activation = HR__ACTIVATION_GELU_NEW,
                               .positions = 2048,
                               .has_query_bias = true,
                               .has_output_bias = true,
                               .has_mlp_bias = true};
    HR__TRY(read_common(config, 0, shape));
    HR__TRY(read_rotary(config, "partial_rotary_factor", 0.5, shape));
    HR__TRY(hr__read_dropout(config, "embd_pdrop", &shape->has_embedding_dropout));
    HR__TRY(hr__read_dropout(config, "resid_pdrop", &shape->has_residual_dropout));
    HR__TRY(hr__config_refuse_true(config, "qk_layernorm"));
    return hr__config_refuse_true(config, "tie_word_embeddings");
}

hr_status hr__read_phi3(const hr__config *config, hr_plan_model *model)
{
    hr__transformer *shape = &model->shape;
    *shape = (hr__transformer){.activation = HR__ACTIVATION_SILU,
                               .is_gated = true,
                               .positions = 4096,
                               .has_packed_weights = true};
    HR__TRY(read_common(config, 0, shape));
    HR__TRY(read_rotary(config, "partial_rotary_factor", 1.0, shape));
    HR__TRY(hr__read_dropout(config, "resid_pdrop", &shape->has_residual_dropout));
    return read_window(config, 0, shape);
}

/* ---- gpt_neox -------------------------------------------------------------------------------- */

hr_status hr__read_gpt_neox(const hr__config *config, hr_plan_model *model)
{
    hr__transformer *shape = &model->shape;
    bool is_parallel = true;
    *shape = (hr__transformer){
        .activation = HR__ACTIVATION_GELU, .positions = 2048, .has_query_bias = true};
    HR__TRY(read_common(config, 0, shape));
    HR__TRY(hr__check_heads(config, shape));
    HR__TRY(read_rotary(config, "rotary_pct", 0.25, shape));
    HR__TRY(hr__config_boolean_if(config, "attention_bias", &shape->has_query_bias));
    HR__TRY(hr__config_boolean_if(config, "use_parallel_residual", &is_parallel));
    HR__TRY(hr__read_dropout(config, "hidden_dropout", &shape->has_residual_dropout));
    shape->has_embedding_dropout = shape->has_residual_dropout;
    shape->is_sequential = !is_parallel;
    shape->key_heads = shape->heads;
    shape->head_width = shape->hidden / shape->heads;
    return HR_OK;
}

/* ---- mixtral, qwen3_moe ---------------------------------------------------------------------- */

static hr_status read_experts(const hr__config *config, const char *name, uint64_t usual,
                              hr__transformer *shape)
{
    HR__TRY(hr__config_number(config, name, 1, HR__MOST_EXPERTS, &shape->experts));
    shape->experts_per_token = shape->experts < usual ? shape->experts : usual;
    return hr__config_number_if(config, "num_experts_per_tok", 1, shape->experts,
                                &shape->experts_per_token);
}

/* Layers with an MLP of their own among those with experts are another model. */
static hr_status refuse_plain_layers(const hr__config *config)
{
    uint64_t period = 1;
    HR__TRY(hr__config_number_if(config, "decoder_sparse_step", 1, 1, &period));
    if (hr__config_count(config, "mlp_only_layers") == 0)
        return HR_OK;
    return hr__config_refuse(config, "mlp_only_layers", HR_ERR_UNSUPPORTED,
                             "an empty list: that every layer has experts");
}

static hr_status read_qwen3_experts(const hr__config *config, hr_plan_model *model)
{
    hr__transformer *shape = &model->shape;
    bool has_window = false;
    HR__TRY(refuse_plain_layers(config));
    HR__TRY(hr__config_number(config, "moe_intermediate_size", 1, HR__MOST_INNER, &shape->inner));
    HR__TRY(read_experts(config, "num_experts", 8, shape));
    HR__TRY(read_attention_bias(config, shape));
    shape->has_query_norm = true;
    HR__TRY(hr__config_boolean_if(config, "use_sliding_window", &has_window));
    return has_window ? read_window(config, 4096, shape) : HR_OK;
}

hr_status hr__read_mixtral(const hr__config *config, hr_plan_model *model)
{
    static const char *const names[] = {"mixtral", "qwen3_moe"};
    hr__transformer *shape = &model->shape;
    size_t kind = 0;
    *shape =
        (hr__transformer){.activation = HR__ACTIVATION_SILU, .is_gated = true, .positions = 4096};
    HR__TRY(hr__config_choice(config, "model_type", names, 2, &kind));
    if (kind == 1)
        shape->positions = 32768;
    HR__TRY(read_common(config, 0, shape));
    HR__TRY(check_rotary(config, shape->head_width));
    HR__TRY(hr__config_refuse_true(config, "output_router_logits"));
    if (kind == 1)
        return read_qwen3_experts(config, model);
    HR__TRY(read_experts(config, "num_local_experts", 2, shape));
    return read_window(config, 0, shape);
}
