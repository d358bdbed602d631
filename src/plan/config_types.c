/* config_types.c - config.json as transformers reads it, one row for each model type. */
#include "plan/config_types.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"

static vw_status read_activation(const vw__config *config, const vw__config_key *key, void *into)
{
    vw_plan_model *model = into;
    static const char *const names[] = {
        "gelu", "gelu_pytorch_tanh", "gelu_new", "gelu_fast", "silu", "swish", "relu", "quick_gelu",
    };
    static const vw__plan_activation meanings[] = {
        VW__PLAN_ACTIVATION_GELU,     VW__PLAN_ACTIVATION_GELU,       VW__PLAN_ACTIVATION_GELU_NEW,
        VW__PLAN_ACTIVATION_GELU_NEW, VW__PLAN_ACTIVATION_SILU,       VW__PLAN_ACTIVATION_SILU,
        VW__PLAN_ACTIVATION_RELU,     VW__PLAN_ACTIVATION_QUICK_GELU,
    };
    enum { COUNT = sizeof names / sizeof names[0] };
    size_t place = COUNT;
    VW__TRY(vw__config_choice_if(config, key->name, names, COUNT, &place));
    if (place < COUNT)
        model->shape.mlp.activation = meanings[place];
    return VW_OK;
}

/* ---- heads and rotation ---------------------------------------------------------------------- */

/* Where no type has a default for it, it follows from the hidden width. */
static vw_status read_head_width(const vw__config *config, const vw__config_key *key, void *into)
{
    vw_plan_model *model = into;
    vw__plan_shape *shape = &model->shape;
    (void)key;
    if (vw__config_has(config, "head_dim"))
        return vw__config_number(config, "head_dim", 1, VW__CONFIG_MOST_WIDTH,
                                 &shape->attention.head_width);
    if (shape->attention.head_width > 0)
        return VW_OK;
    shape->attention.head_width = shape->hidden / shape->attention.heads;
    return vw__config_check_multiple(config, "hidden_size", shape->hidden, "num_attention_heads",
                                     shape->attention.heads);
}

/* Halves of a head are exchanged, so it has to have two. */
static vw_status check_even(const vw__config *config, uint64_t width)
{
    if (width % 2 == 0)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED,
                    "%swidth of a head: expected an even number of elements that are rotated, "
                    "found %" PRIu64,
                    config->place, width);
}

static vw_status check_rotary(const vw__config *config, const vw__config_key *key, void *into)
{
    vw_plan_model *model = into;
    (void)key;
    return check_even(config, model->shape.attention.head_width);
}

/* The part of a head that is rotated; newer files have it among rope_parameters. */
static vw_status read_rotary(const vw__config *config, const vw__config_key *key, void *into)
{
    vw_plan_model *model = into;
    vw__plan_attention *shape = &model->shape.attention;
    vw__config inside;
    double factor = key->usual;
    VW__TRY(vw__config_real_if(config, key->name, 0, 1, &factor));
    if (vw__config_has_object(config, "rope_parameters")) {
        VW__TRY(vw__config_object(config, "rope_parameters", &inside));
        VW__TRY(vw__config_real_if(&inside, "partial_rotary_factor", 0, 1, &factor));
    }
    shape->rotary_width = (uint64_t)floor((double)shape->head_width * factor);
    if (shape->rotary_width > 0)
        return check_even(config, shape->rotary_width);
    return vw__config_refuse(config, key->name, VW_ERR_UNSUPPORTED,
                             "a part of a head that is one element at least");
}

/* GPT-NeoX has neither heads of keys nor a width of its own, whatever the file says. */
static vw_status forget_heads(const vw__config *config, const vw__config_key *key, void *into)
{
    vw_plan_model *model = into;
    (void)config;
    (void)key;
    model->shape.attention.key_heads = model->shape.attention.head_width = 0;
    return VW_OK;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* The key's usual number where nothing is said; null: no window. */
static vw_status read_window(const vw__config *config, const vw__config_key *key, void *into)
{
    vw_plan_model *model = into;
    uint64_t *window = &model->shape.attention.window;
    *window = vw__config_is_null(config, "sliding_window") ? 0 : key->most;
    return vw__config_number_if(config, "sliding_window", 1, VW__CONFIG_MOST_POSITIONS, window);
}

/* Newer files say layer by layer which have the window. */
static vw_status read_layer_types(const vw__config *config, const vw__config_key *key, void *into)
{
    vw_plan_model *model = into;
    static const char *const names[] = {"full_attention", "sliding_attention"};
    size_t count = (size_t)model->shape.layers; /* within limits */
    (void)key;
    if (!vw__config_has(config, "layer_types"))
        return VW_OK;
    uint8_t *places = vw__arena_alloc_array(&model->arena, count, 1, 1);
    bool *windows = vw__arena_alloc_array(&model->arena, count, sizeof *windows, sizeof *windows);
    if (places == NULL || windows == NULL)
        return vw__fail_host_memory(2 * count, "the kinds of a model's layers");
    VW__TRY(vw__config_choices(config, "layer_types", names, 2, count, places));
    for (size_t i = 0; i < count; i++)
        windows[i] = places[i] == 1;
    model->shape.attention.windows = windows;
    model->shape.attention.window_from = 0;
    return VW_OK;
}

/* The window has a switch of its own. */
static vw_status read_switched_window(const vw__config *config, const vw__config_key *key,
                                      void *into)
{
    vw_plan_model *model = into;
    bool has_window = false;
    VW__TRY(vw__config_boolean_if(config, "use_sliding_window", &has_window));
    return has_window ? read_window(config, key, model) : VW_OK;
}

/* Qwen's first layers have none. */
static vw_status read_late_window(const vw__config *config, const vw__config_key *key, void *into)
{
    vw_plan_model *model = into;
    vw__plan_attention *shape = &model->shape.attention;
    VW__TRY(read_switched_window(config, key, model));
    if (shape->window == 0)
        return VW_OK;
    shape->window_from = 28;
    VW__TRY(vw__config_number_if(config, "max_window_layers", 0, VW__CONFIG_MOST_LAYERS,
                                 &shape->window_from));
    return read_layer_types(config, key, model);
}

/* ---- experts --------------------------------------------------------------------------------- */

static vw_status read_experts(const vw__config *config, const vw__config_key *key, void *into)
{
    vw_plan_model *model = into;
    vw__plan_mlp *shape = &model->shape.mlp;
    VW__TRY(vw__config_number(config, key->name, 1, VW__CONFIG_MOST_EXPERTS, &shape->experts));
    shape->experts_per_token = shape->experts < key->most ? shape->experts : key->most;
    return vw__config_number_if(config, "num_experts_per_tok", 1, shape->experts,
                                &shape->experts_per_token);
}

/* Layers with an MLP of their own among those with experts are another model. */
static vw_status refuse_plain_layers(const vw__config *config, const vw__config_key *key,
                                     void *into)
{
    (void)key;
    (void)into;
    if (vw__config_count(config, "mlp_only_layers") == 0)
        return VW_OK;
    return vw__config_refuse(config, "mlp_only_layers", VW_ERR_UNSUPPORTED,
                             "an empty list: that every layer has experts");
}

/* ---- bert, t5, images ------------------------------------------------------------------------ */

/* RoBERTa's positions begin behind the one of the padding. */
static vw_status read_position_offset(const vw__config *config, const vw__config_key *key,
                                      void *into)
{
    vw_plan_model *model = into;
    vw__plan_embedding *shape = &model->shape.embedding;
    uint64_t padding = 1;
    (void)key;
    VW__TRY(vw__config_number_if(config, "pad_token_id", 0, VW__CONFIG_MOST_VOCABULARY, &padding));
    shape->position_offset = padding + 1;
    if (shape->position_offset < shape->positions)
        return VW_OK;
    return vw__config_refuse(config, "pad_token_id", VW_ERR_UNSUPPORTED,
                             "less than max_position_embeddings (%" PRIu64 ") by 2",
                             shape->positions);
}

static vw_status read_t5_feed(const vw__config *config, const vw__config_key *key, void *into)
{
    vw_plan_model *model = into;
    static const char *const names[] = {"relu",       "gated-gelu", "gelu",
                                        "gated-silu", "silu",       "gelu_new"};
    static const struct {
        vw__plan_activation activation;
        bool is_gated;
    } meanings[] = {{VW__PLAN_ACTIVATION_RELU, false}, {VW__PLAN_ACTIVATION_GELU_NEW, true},
                    {VW__PLAN_ACTIVATION_GELU, false}, {VW__PLAN_ACTIVATION_SILU, true},
                    {VW__PLAN_ACTIVATION_SILU, false}, {VW__PLAN_ACTIVATION_GELU_NEW, false}};
    size_t place = 0;
    VW__TRY(vw__config_choice_if(config, key->name, names, sizeof names / sizeof names[0], &place));
    model->shape.mlp.activation = meanings[place].activation;
    model->shape.mlp.is_gated = meanings[place].is_gated;
    return VW_OK;
}

/* Of any classifier: transformers counts the names of the labels. */
static vw_status read_labels(const vw__config *config, vw_plan_model *model)
{
    model->shape.head.labels = vw__config_count(config, "id2label");
    return vw__config_number_if(config, "num_labels", 1, VW__CONFIG_MOST_VOCABULARY,
                                &model->shape.head.labels);
}

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
#define ACTIVATION(key) {VW__CONFIG_KEY_CALL, key, .call = read_activation}
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
    CALL(read_head_width),                                                                         \
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
    DECODER_KEYS, CALL(check_rotary), ATTENTION_BIAS, FLAG("mlp_bias", mlp.has_bias), END};
static const vw__config_key mistral_keys[] = {
    DECODER_KEYS, CALL(check_rotary), CALL(read_window, .most = 4096), END};
static const vw__config_key qwen2_keys[] = {
    DECODER_KEYS, CALL(check_rotary), CALL(read_late_window, .most = 4096), END};
static const vw__config_key qwen3_keys[] = {
    DECODER_KEYS, CALL(check_rotary), ATTENTION_BIAS, CALL(read_late_window, .most = 4096), END};

#define GEMMA_KEYS                                                                                 \
    DECODER_KEYS, ACTIVATION("hidden_activation"), ATTENTION_BIAS, CALL(check_rotary)
static const vw__config_key gemma_keys[] = {GEMMA_KEYS, END};
static const vw__config_key gemma2_keys[] = {
    GEMMA_KEYS,
    CAP("final_logit_softcapping", head.is_capped),
    CAP("attn_logit_softcapping", attention.has_capped_scores),
    NUMBER_IF("sliding_window_pattern", attention.window_period, VW__CONFIG_MOST_LAYERS),
    CALL(read_window, .most = 4096),
    CALL(read_layer_types),
    END};

static const vw__config_key phi_keys[] = {
    DECODER_KEYS,
    CALL(read_rotary, .name = "partial_rotary_factor", .usual = 0.5),
    DROPOUT("embd_pdrop", embedding.has_dropout),
    DROPOUT("resid_pdrop", has_residual_dropout),
    REFUSED("qk_layernorm"),
    REFUSED("tie_word_embeddings"),
    END};
static const vw__config_key phi3_keys[] = {
    DECODER_KEYS,
    CALL(read_rotary, .name = "partial_rotary_factor", .usual = 1.0),
    DROPOUT("resid_pdrop", has_residual_dropout),
    CALL(read_window),
    END};
static const vw__config_key gpt_neox_keys[] = {
    DECODER_KEYS,
    WHOLE_HEADS,
    CALL(read_rotary, .name = "rotary_pct", .usual = 0.25),
    ATTENTION_BIAS,
    NOT("use_parallel_residual", is_sequential),
    DROPOUT("hidden_dropout", has_residual_dropout),
    DROPOUT("hidden_dropout", embedding.has_dropout),
    CALL(forget_heads),
    END};

static const vw__config_key mixtral_keys[] = {
    DECODER_KEYS,
    CALL(check_rotary),
    REFUSED("output_router_logits"),
    CALL(read_experts, .name = "num_local_experts", .most = 2),
    CALL(read_window),
    END};
static const vw__config_key qwen3_moe_keys[] = {
    DECODER_KEYS,
    CALL(check_rotary),
    REFUSED("output_router_logits"),
    EXACTLY("decoder_sparse_step", 1),
    CALL(refuse_plain_layers),
    NUMBER("moe_intermediate_size", mlp.inner, VW__CONFIG_MOST_INNER),
    CALL(read_experts, .name = "num_experts", .most = 8),
    ATTENTION_BIAS,
    CALL(read_switched_window, .most = 4096),
    END};

static const vw__config_key bert_keys[] = {
    BERT_BEGINS, ACTIVATION("hidden_act"), BERT_DROPOUTS, TIED, END};
static const vw__config_key roberta_keys[] = {
    BERT_BEGINS, CALL(read_position_offset), ACTIVATION("hidden_act"), BERT_DROPOUTS, TIED, END};

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
    CALL(read_t5_feed, .name = "feed_forward_proj"),
    DROPOUT("dropout_rate", embedding.has_dropout),
    DROPOUT("dropout_rate", attention.has_dropout),
    DROPOUT("dropout_rate", has_residual_dropout),
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

const vw__config_type vw__config_types[] = {
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
    {"t5", "T5ForConditionalGeneration", &vw__plan_family_t5,
     {.mlp = {.activation = VW__PLAN_ACTIVATION_RELU}, .attention = {.buckets = 32, .has_dropout = true},
      .embedding = {.has_dropout = true}, .has_residual_dropout = true, .head = {.is_tied = true}},
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
};
/* clang-format on */

const size_t vw__config_type_count = sizeof vw__config_types / sizeof vw__config_types[0];

const vw__config_type *vw__config_type_find(const char *name)
{
    for (size_t i = 0; i < vw__config_type_count; i++)
        if (strcmp(vw__config_types[i].name, name) == 0)
            return &vw__config_types[i];
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

vw_status vw__config_type_read(const vw__config_type *type, const vw__config *config,
                               vw_plan_model *model)
{
    model->family = type->family;
    model->shape = type->defaults;
    VW__TRY(vw__config_read_keys(config, type->keys, model));
    VW__TRY(read_labels(config, model));
    vw__config_complete(&model->shape);
    return VW_OK;
}
