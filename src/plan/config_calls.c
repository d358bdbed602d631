/* config_calls.c - fields of config.json that are more than a number or a flag. */
#include "plan/config_calls.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "plan/config_types.h"

vw_status vw__config_call_activation(const vw__config *config, const vw__config_key *key,
                                     void *into)
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
vw_status vw__config_call_head_width(const vw__config *config, const vw__config_key *key,
                                     void *into)
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

vw_status vw__config_call_check_rotary(const vw__config *config, const vw__config_key *key,
                                       void *into)
{
    vw_plan_model *model = into;
    (void)key;
    return check_even(config, model->shape.attention.head_width);
}

/* The part of a head that is rotated; newer files have it among rope_parameters. */
vw_status vw__config_call_rotary(const vw__config *config, const vw__config_key *key, void *into)
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
vw_status vw__config_call_forget_heads(const vw__config *config, const vw__config_key *key,
                                       void *into)
{
    vw_plan_model *model = into;
    (void)config;
    (void)key;
    model->shape.attention.key_heads = model->shape.attention.head_width = 0;
    return VW_OK;
}

/* SmolLM3: which layers rotate, as numbers 1 and 0. */
vw_status vw__config_call_rotated_layers(const vw__config *config, const vw__config_key *key,
                                         void *into)
{
    vw_plan_model *model = into;
    const size_t count = (size_t)model->shape.layers; /* within limits */
    size_t listed = 0;
    if (!vw__config_has(config, key->name))
        return VW_OK;
    uint64_t *numbers =
        vw__arena_alloc_array(&model->arena, count, sizeof *numbers, sizeof *numbers);
    bool *rotated = vw__arena_alloc_array(&model->arena, count, sizeof *rotated, sizeof *rotated);
    if (numbers == NULL || rotated == NULL)
        return vw__fail_host_memory(count * (sizeof *numbers + sizeof *rotated),
                                    "the kinds of a model's layers");
    VW__TRY(vw__config_numbers(config, key->name, 0, 1, count, numbers, &listed));
    if (listed != count)
        return vw__config_refuse(config, key->name, VW_ERR_UNSUPPORTED,
                                 "a number for each of the %zu layers", count);
    for (size_t i = 0; i < count; i++)
        rotated[i] = numbers[i] != 0;
    model->shape.attention.rotated = rotated;
    return VW_OK;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* The key's usual number where nothing is said; null: no window. */
vw_status vw__config_call_window(const vw__config *config, const vw__config_key *key, void *into)
{
    vw_plan_model *model = into;
    uint64_t *window = &model->shape.attention.window;
    *window = vw__config_is_null(config, "sliding_window") ? 0 : key->most;
    return vw__config_number_if(config, "sliding_window", 1, VW__CONFIG_MOST_POSITIONS, window);
}

/* Newer files say layer by layer which have the window. */
vw_status vw__config_call_layer_types(const vw__config *config, const vw__config_key *key,
                                      void *into)
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
vw_status vw__config_call_switched_window(const vw__config *config, const vw__config_key *key,
                                          void *into)
{
    vw_plan_model *model = into;
    bool has_window = false;
    VW__TRY(vw__config_boolean_if(config, "use_sliding_window", &has_window));
    return has_window ? vw__config_call_window(config, key, model) : VW_OK;
}

/* Qwen's first layers have none. */
vw_status vw__config_call_late_window(const vw__config *config, const vw__config_key *key,
                                      void *into)
{
    vw_plan_model *model = into;
    vw__plan_attention *shape = &model->shape.attention;
    VW__TRY(vw__config_call_switched_window(config, key, model));
    if (shape->window == 0)
        return VW_OK;
    shape->window_from = 28;
    VW__TRY(vw__config_number_if(config, "max_window_layers", 0, VW__CONFIG_MOST_LAYERS,
                                 &shape->window_from));
    return vw__config_call_layer_types(config, key, model);
}

/* ModernBERT: half of the window lies on either side. */
vw_status vw__config_call_half_window(const vw__config *config, const vw__config_key *key,
                                      void *into)
{
    uint64_t both_sides = key->most;
    VW__TRY(vw__config_number_if(config, key->name, 2, VW__CONFIG_MOST_POSITIONS, &both_sides));
    ((vw_plan_model *)into)->shape.attention.window = both_sides / 2;
    return VW_OK;
}

/* ---- experts --------------------------------------------------------------------------------- */

vw_status vw__config_call_experts(const vw__config *config, const vw__config_key *key, void *into)
{
    vw_plan_model *model = into;
    vw__plan_mlp *shape = &model->shape.mlp;
    const bool has_other = key->other != NULL && !vw__config_has(config, key->name);
    VW__TRY(vw__config_number(config, has_other ? key->other : key->name, 1,
                              VW__CONFIG_MOST_EXPERTS, &shape->experts));
    shape->experts_per_token = shape->experts < key->most ? shape->experts : key->most;
    return vw__config_number_if(config, "num_experts_per_tok", 1, shape->experts,
                                &shape->experts_per_token);
}

/* Layers with an MLP of their own among those with experts are another model. */
vw_status vw__config_call_refuse_plain_layers(const vw__config *config, const vw__config_key *key,
                                              void *into)
{
    (void)key;
    (void)into;
    if (vw__config_count(config, "mlp_only_layers") == 0)
        return VW_OK;
    return vw__config_refuse(config, "mlp_only_layers", VW_ERR_UNSUPPORTED,
                             "an empty list: that every layer has experts");
}

/* ---- positions and widths ---------------------------------------------------------------------
 */

/* The table has two rows more, from which positions are counted. */
vw_status vw__config_call_offset_positions(const vw__config *config, const vw__config_key *key,
                                           void *into)
{
    enum { OFFSET = 2 };
    vw__plan_embedding *shape = &((vw_plan_model *)into)->shape.embedding;
    (void)config;
    (void)key;
    shape->positions += OFFSET;
    shape->position_offset = OFFSET;
    return VW_OK;
}

/* Of a token; the layers' where nothing is said. */
vw_status vw__config_call_token_width(const vw__config *config, const vw__config_key *key,
                                      void *into)
{
    vw__plan_shape *shape = &((vw_plan_model *)into)->shape;
    uint64_t width = key->most > 0 ? key->most : shape->hidden;
    VW__TRY(vw__config_number_if(config, key->name, 1, VW__CONFIG_MOST_WIDTH, &width));
    shape->embedding.width = width == shape->hidden ? 0 : width;
    if (width <= shape->hidden)
        return VW_OK;
    return vw__config_refuse(config, key->name, VW_ERR_UNSUPPORTED,
                             "no more than hidden_size (%" PRIu64 ")", shape->hidden);
}

/* Encoder and decoder are planned with the same numbers. */
vw_status vw__config_call_same(const vw__config *config, const vw__config_key *key, void *into)
{
    uint64_t first = 0, second = 0;
    (void)into;
    VW__TRY(vw__config_number_if(config, key->other, 1, VW__CONFIG_MOST_INNER, &first));
    VW__TRY(vw__config_number_if(config, key->name, 1, VW__CONFIG_MOST_INNER, &second));
    if (first == 0 || second == 0 || first == second)
        return VW_OK;
    return vw__config_refuse(config, key->name, VW_ERR_UNSUPPORTED, "%s, which is %" PRIu64,
                             key->other, first);
}

vw_status vw__config_call_require_true(const vw__config *config, const vw__config_key *key,
                                       void *into)
{
    bool is_true = true;
    (void)into;
    VW__TRY(vw__config_boolean_if(config, key->name, &is_true));
    if (is_true)
        return VW_OK;
    return vw__config_refuse(config, key->name, VW_ERR_UNSUPPORTED,
                             "true: what it switches off is not known to the planner");
}

/* ---- bert, t5, images ------------------------------------------------------------------------ */

/* RoBERTa's positions begin behind the one of the padding. */
vw_status vw__config_call_position_offset(const vw__config *config, const vw__config_key *key,
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

vw_status vw__config_call_t5_feed(const vw__config *config, const vw__config_key *key, void *into)
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

/* ---- mpt, falcon ----------------------------------------------------------------------------- */

/* MPT has an object of its own for attention, with the one probability of all dropout. */
vw_status vw__config_call_mpt_attention(const vw__config *config, const vw__config_key *key,
                                        void *into)
{
    vw__plan_shape *shape = &((vw_plan_model *)into)->shape;
    vw__config inside;
    double dropout = 0;
    if (!vw__config_has_object(config, key->name))
        return VW_OK;
    VW__TRY(vw__config_object(config, key->name, &inside));
    VW__TRY(vw__config_real_if(&inside, "attn_pdrop", 0, 1, &dropout));
    VW__TRY(vw__config_refuse_true(&inside, "qk_ln"));
    shape->attention.has_dropout = shape->has_residual_dropout = dropout > 0;
    if (!vw__config_has(&inside, "clip_qkv"))
        return VW_OK;
    return vw__config_refuse(&inside, "clip_qkv", VW_ERR_UNSUPPORTED, "null");
}

/* Heads of keys, and whether there is a norm for each of the two parts. */
vw_status vw__config_call_falcon(const vw__config *config, const vw__config_key *key, void *into)
{
    vw__plan_shape *shape = &((vw_plan_model *)into)->shape;
    bool is_new = false, is_multi_query = true;
    (void)key;
    VW__TRY(vw__config_boolean_if(config, "new_decoder_architecture", &is_new));
    VW__TRY(vw__config_boolean_if(config, "multi_query", &is_multi_query));
    uint64_t norms = is_new ? 2 : 1;
    VW__TRY(vw__config_number_if(config, "num_ln_in_parallel_attn", 1, 2, &norms));
    shape->norm.is_shared = !is_new || norms == 1;
    shape->attention.repeats_first = is_new;
    shape->attention.key_heads = shape->attention.heads;
    if (is_new)
        VW__TRY(vw__config_number_if(config, "num_kv_heads", 1, VW__CONFIG_MOST_HEADS,
                                     &shape->attention.key_heads));
    else if (is_multi_query)
        shape->attention.key_heads = 1;
    return vw__config_check_multiple(config, "num_attention_heads", shape->attention.heads,
                                     "num_kv_heads", shape->attention.key_heads);
}

/* ---- deberta --------------------------------------------------------------------------------- */

/* A list of the two kinds of scores, or both in one word: "p2c|c2p". */
static vw_status read_distance_scores(const vw__config *config, vw__plan_attention *shape)
{
    static const char *const names[] = {"c2p", "p2c"};
    enum { MOST = 2 };
    uint8_t places[MOST];
    const char *text = NULL;
    if (!vw__config_has_list(config, "pos_att_type")) {
        VW__TRY(vw__config_text_if(config, "pos_att_type", &text));
        shape->has_distance_keys = text != NULL && strstr(text, names[0]) != NULL;
        shape->has_distance_queries = text != NULL && strstr(text, names[1]) != NULL;
        return VW_OK;
    }
    const size_t count = vw__config_count(config, "pos_att_type");
    if (count > MOST)
        return vw__config_refuse(config, "pos_att_type", VW_ERR_UNSUPPORTED, "c2p, p2c or both");
    VW__TRY(vw__config_choices(config, "pos_att_type", names, MOST, count, places));
    for (size_t i = 0; i < count; i++)
        *(places[i] == 0 ? &shape->has_distance_keys : &shape->has_distance_queries) = true;
    return VW_OK;
}

/* -1 is what transformers writes for "as many as there are positions". */
static vw_status read_span(const vw__config *config, const char *name, uint64_t *span)
{
    double number = -1;
    VW__TRY(vw__config_real_if(config, name, -1, (double)VW__CONFIG_MOST_POSITIONS, &number));
    if (number >= 1)
        *span = (uint64_t)number;
    return VW_OK;
}

/* Only the published kind is planned: distances in attention, and none in what it reads. */
vw_status vw__config_call_distances(const vw__config *config, const vw__config_key *key, void *into)
{
    vw__plan_shape *shape = &((vw_plan_model *)into)->shape;
    bool is_relative = false, is_biased = true;
    const char *norm = "none";
    VW__TRY(vw__config_boolean_if(config, key->name, &is_relative));
    VW__TRY(vw__config_boolean_if(config, "position_biased_input", &is_biased));
    if (!is_relative)
        return vw__config_refuse(config, key->name, VW_ERR_UNSUPPORTED, "true");
    if (is_biased)
        return vw__config_refuse(config, "position_biased_input", VW_ERR_UNSUPPORTED, "false");
    VW__TRY(vw__config_text_if(config, "norm_rel_ebd", &norm));
    shape->norm.is_of_distances = strstr(norm, "layer_norm") != NULL;
    shape->attention.span = shape->embedding.positions;
    VW__TRY(read_span(config, "max_relative_positions", &shape->attention.span));
    VW__TRY(read_span(config, "position_buckets", &shape->attention.span));
    return read_distance_scores(config, &shape->attention);
}
