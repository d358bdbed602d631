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
static vw_status read_heads(const vw__config *config, uint64_t usual_width, vw__transformer *shape)
{
    VW__TRY(
        vw__config_number_if(config, "num_key_value_heads", 1, VW__MOST_HEADS, &shape->key_heads));
    VW__TRY(vw__check_multiple(config, "num_attention_heads", shape->heads, "num_key_value_heads",
                               shape->key_heads));
    if (vw__config_has(config, "head_dim"))
        return vw__config_number(config, "head_dim", 1, VW__MOST_WIDTH, &shape->head_width);
    if (usual_width == 0)
        return vw__check_heads(config, shape);
    shape->head_width = usual_width;
    return VW_OK;
}

static vw_status read_common(const vw__config *config, uint64_t usual_width, vw__transformer *shape)
{
    VW__TRY(vw__read_usual(config, shape));
    VW__TRY(vw__read_vocabulary(config, shape));
    VW__TRY(read_heads(config, usual_width, shape));
    VW__TRY(vw__config_number_if(config, "max_position_embeddings", 1, VW__MOST_POSITIONS,
                                 &shape->positions));
    VW__TRY(vw__read_activation(config, "hidden_act", &shape->activation));
    VW__TRY(vw__read_dropout(config, "attention_dropout", &shape->has_attention_dropout));
    return vw__config_boolean_if(config, "tie_word_embeddings", &shape->is_tied);
}

/* `usual` where nothing is said; null is none. */
static vw_status read_window(const vw__config *config, uint64_t usual, vw__transformer *shape)
{
    shape->window = vw__config_is_null(config, "sliding_window") ? 0 : usual;
    return vw__config_number_if(config, "sliding_window", 1, VW__MOST_POSITIONS, &shape->window);
}

/* Newer files say it layer by layer. */
static vw_status read_layer_types(const vw__config *config, vw_plan_model *model)
{
    static const char *const names[] = {"full_attention", "sliding_attention"};
    vw__transformer *shape = &model->shape;
    size_t count = (size_t)shape->layers; /* within limits */
    if (!vw__config_has(config, "layer_types"))
        return VW_OK;
    uint8_t *places = vw__arena_alloc_array(&model->arena, count, 1, 1);
    bool *windows = vw__arena_alloc_array(&model->arena, count, sizeof *windows, sizeof *windows);
    if (places == NULL || windows == NULL)
        return vw__fail_host_memory(2 * count, "the kinds of a model's layers");
    VW__TRY(vw__config_choices(config, "layer_types", names, 2, count, places));
    for (size_t i = 0; i < count; i++)
        windows[i] = places[i] == 1;
    shape->windows = windows;
    shape->window_from = 0;
    return VW_OK;
}

/* Halves of a head are exchanged, so it has to have two. */
static vw_status check_rotary(const vw__config *config, uint64_t width)
{
    if (width % 2 == 0)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED,
                    "%swidth of a head: expected an even number of elements that are rotated, "
                    "found %" PRIu64,
                    config->place, width);
}

/* q, k, v and o have one, or none. */
static vw_status read_attention_bias(const vw__config *config, vw__transformer *shape)
{
    VW__TRY(vw__config_boolean_if(config, "attention_bias", &shape->has_query_bias));
    shape->has_output_bias = shape->has_query_bias;
    return VW_OK;
}

/* The part of a head that is rotated; newer files have it among rope_parameters. */
static vw_status read_rotary(const vw__config *config, const char *name, double usual,
                             vw__transformer *shape)
{
    vw__config inside;
    double factor = usual;
    VW__TRY(vw__config_real_if(config, name, 0, 1, &factor));
    if (vw__config_has_object(config, "rope_parameters")) {
        VW__TRY(vw__config_object(config, "rope_parameters", &inside));
        VW__TRY(vw__config_real_if(&inside, "partial_rotary_factor", 0, 1, &factor));
    }
    shape->rotary_width = (uint64_t)floor((double)shape->head_width * factor);
    if (shape->rotary_width > 0)
        return check_rotary(config, shape->rotary_width);
    return vw__config_refuse(config, name, VW_ERR_UNSUPPORTED,
                             "a part of a head that is one element at least");
}

/* ---- llama, mistral, qwen2, qwen3 ------------------------------------------------------------ */

typedef enum llama_kind { LLAMA, MISTRAL, QWEN2, QWEN3 } llama_kind;

/* Biases, norms and windows are a matter of the kind more than of the file. */
static vw_status read_llama_kind(const vw__config *config, llama_kind kind, vw_plan_model *model)
{
    vw__transformer *shape = &model->shape;
    bool has_window = kind == MISTRAL;
    if (kind == LLAMA || kind == QWEN3)
        VW__TRY(read_attention_bias(config, shape));
    if (kind == LLAMA)
        VW__TRY(vw__config_boolean_if(config, "mlp_bias", &shape->has_mlp_bias));
    if (kind == QWEN2 || kind == QWEN3)
        VW__TRY(vw__config_boolean_if(config, "use_sliding_window", &has_window));
    shape->has_query_bias |= kind == QWEN2;
    shape->has_query_norm = kind == QWEN3;
    if (has_window)
        VW__TRY(read_window(config, 4096, shape));
    if (kind == MISTRAL || shape->window == 0)
        return VW_OK;
    shape->window_from = 28;
    VW__TRY(
        vw__config_number_if(config, "max_window_layers", 0, VW__MOST_LAYERS, &shape->window_from));
    return read_layer_types(config, model);
}

vw_status vw__read_llama(const vw__config *config, vw_plan_model *model)
{
    static const char *const names[] = {"llama", "mistral", "qwen2", "qwen3"};
    vw__transformer *shape = &model->shape;
    size_t kind = LLAMA;
    *shape =
        (vw__transformer){.activation = VW__ACTIVATION_SILU, .is_gated = true, .positions = 2048};
    VW__TRY(vw__config_choice(config, "model_type", names, 4, &kind));
    VW__TRY(read_common(config, kind == QWEN3 ? 128 : 0, shape));
    VW__TRY(check_rotary(config, shape->head_width));
    return read_llama_kind(config, (llama_kind)kind, model);
}

/* ---- gemma ----------------------------------------------------------------------------------- */

typedef enum gemma_kind { GEMMA, GEMMA2, GEMMA3 } gemma_kind;

/* Some layers see all, the others a window: every second, every sixth. */
static vw_status read_gemma_layers(const vw__config *config, gemma_kind kind, vw_plan_model *model)
{
    vw__transformer *shape = &model->shape;
    if (kind == GEMMA)
        return VW_OK;
    shape->has_outer_norms = true;
    shape->has_query_norm = kind == GEMMA3;
    shape->has_capped_logits =
        vw__config_has(config, "final_logit_softcapping") ||
        (kind == GEMMA2 && !vw__config_is_null(config, "final_logit_softcapping"));
    shape->has_capped_scores =
        vw__config_has(config, "attn_logit_softcapping") ||
        (kind == GEMMA2 && !vw__config_is_null(config, "attn_logit_softcapping"));
    shape->window_period = kind == GEMMA2 ? 2 : 6;
    VW__TRY(vw__config_number_if(config, "sliding_window_pattern", 1, VW__MOST_LAYERS,
                                 &shape->window_period));
    VW__TRY(read_window(config, 4096, shape));
    return read_layer_types(config, model);
}

vw_status vw__read_gemma(const vw__config *config, vw_plan_model *model)
{
    static const char *const names[] = {"gemma", "gemma2", "gemma3_text"};
    vw__transformer *shape = &model->shape;
    size_t kind = GEMMA;
    *shape = (vw__transformer){.activation = VW__ACTIVATION_GELU,
                               .is_gated = true,
                               .is_tied = true,
                               .positions = 8192,
                               .has_fp32_norm_weights = true,
                               .has_scaled_embedding = true};
    VW__TRY(vw__config_choice(config, "model_type", names, 3, &kind));
    VW__TRY(read_common(config, 256, shape));
    VW__TRY(vw__read_activation(config, "hidden_activation", &shape->activation));
    VW__TRY(read_attention_bias(config, shape));
    VW__TRY(check_rotary(config, shape->head_width));
    return read_gemma_layers(config, (gemma_kind)kind, model);
}

/* ---- phi, phi3 ------------------------------------------------------------------------------- */

vw_status vw__read_phi(const vw__config *config, vw_plan_model *model)
{
    vw__transformer *shape = &model->shape;
    *shape = (vw__transformer){.activation = VW__ACTIVATION_GELU_NEW,
                               .positions = 2048,
                               .has_query_bias = true,
                               .has_output_bias = true,
                               .has_mlp_bias = true};
    VW__TRY(read_common(config, 0, shape));
    VW__TRY(read_rotary(config, "partial_rotary_factor", 0.5, shape));
    VW__TRY(vw__read_dropout(config, "embd_pdrop", &shape->has_embedding_dropout));
    VW__TRY(vw__read_dropout(config, "resid_pdrop", &shape->has_residual_dropout));
    VW__TRY(vw__config_refuse_true(config, "qk_layernorm"));
    return vw__config_refuse_true(config, "tie_word_embeddings");
}

vw_status vw__read_phi3(const vw__config *config, vw_plan_model *model)
{
    vw__transformer *shape = &model->shape;
    *shape = (vw__transformer){.activation = VW__ACTIVATION_SILU,
                               .is_gated = true,
                               .positions = 4096,
                               .has_packed_weights = true};
    VW__TRY(read_common(config, 0, shape));
    VW__TRY(read_rotary(config, "partial_rotary_factor", 1.0, shape));
    VW__TRY(vw__read_dropout(config, "resid_pdrop", &shape->has_residual_dropout));
    return read_window(config, 0, shape);
}

/* ---- gpt_neox -------------------------------------------------------------------------------- */

vw_status vw__read_gpt_neox(const vw__config *config, vw_plan_model *model)
{
    vw__transformer *shape = &model->shape;
    bool is_parallel = true;
    *shape = (vw__transformer){
        .activation = VW__ACTIVATION_GELU, .positions = 2048, .has_query_bias = true};
    VW__TRY(read_common(config, 0, shape));
    VW__TRY(vw__check_heads(config, shape));
    VW__TRY(read_rotary(config, "rotary_pct", 0.25, shape));
    VW__TRY(vw__config_boolean_if(config, "attention_bias", &shape->has_query_bias));
    VW__TRY(vw__config_boolean_if(config, "use_parallel_residual", &is_parallel));
    VW__TRY(vw__read_dropout(config, "hidden_dropout", &shape->has_residual_dropout));
    shape->has_embedding_dropout = shape->has_residual_dropout;
    shape->is_sequential = !is_parallel;
    shape->key_heads = shape->heads;
    shape->head_width = shape->hidden / shape->heads;
    return VW_OK;
}

/* ---- mixtral, qwen3_moe ---------------------------------------------------------------------- */

static vw_status read_experts(const vw__config *config, const char *name, uint64_t usual,
                              vw__transformer *shape)
{
    VW__TRY(vw__config_number(config, name, 1, VW__MOST_EXPERTS, &shape->experts));
    shape->experts_per_token = shape->experts < usual ? shape->experts : usual;
    return vw__config_number_if(config, "num_experts_per_tok", 1, shape->experts,
                                &shape->experts_per_token);
}

/* Layers with an MLP of their own among those with experts are another model. */
static vw_status refuse_plain_layers(const vw__config *config)
{
    uint64_t period = 1;
    VW__TRY(vw__config_number_if(config, "decoder_sparse_step", 1, 1, &period));
    if (vw__config_count(config, "mlp_only_layers") == 0)
        return VW_OK;
    return vw__config_refuse(config, "mlp_only_layers", VW_ERR_UNSUPPORTED,
                             "an empty list: that every layer has experts");
}

static vw_status read_qwen3_experts(const vw__config *config, vw_plan_model *model)
{
    vw__transformer *shape = &model->shape;
    bool has_window = false;
    VW__TRY(refuse_plain_layers(config));
    VW__TRY(vw__config_number(config, "moe_intermediate_size", 1, VW__MOST_INNER, &shape->inner));
    VW__TRY(read_experts(config, "num_experts", 8, shape));
    VW__TRY(read_attention_bias(config, shape));
    shape->has_query_norm = true;
    VW__TRY(vw__config_boolean_if(config, "use_sliding_window", &has_window));
    return has_window ? read_window(config, 4096, shape) : VW_OK;
}

vw_status vw__read_mixtral(const vw__config *config, vw_plan_model *model)
{
    static const char *const names[] = {"mixtral", "qwen3_moe"};
    vw__transformer *shape = &model->shape;
    size_t kind = 0;
    *shape =
        (vw__transformer){.activation = VW__ACTIVATION_SILU, .is_gated = true, .positions = 4096};
    VW__TRY(vw__config_choice(config, "model_type", names, 2, &kind));
    if (kind == 1)
        shape->positions = 32768;
    VW__TRY(read_common(config, 0, shape));
    VW__TRY(check_rotary(config, shape->head_width));
    VW__TRY(vw__config_refuse_true(config, "output_router_logits"));
    if (kind == 1)
        return read_qwen3_experts(config, model);
    VW__TRY(read_experts(config, "num_local_experts", 2, shape));
    return read_window(config, 0, shape);
}
