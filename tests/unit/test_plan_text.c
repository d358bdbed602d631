/* test_plan_text.c - model types that read text: their configurations come to the built-in models,
 * what is not planned is refused by name, and what each family's code keeps that others' does not.
 * The counts of parameters and the measured steps are in integration tests. */
#include "vramwise/plan.h"

#include <stdio.h>
#include <string.h>

#include "plan/config_types.h"
#include "plan/plan_run.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

/* ---- helpers --------------------------------------------------------------------------------- */

static const vw_plan_settings a_graph = {.struct_size = sizeof(vw_plan_settings),
                                         .mode = VW_PLAN_MODE_KEEP_GRAPH,
                                         .batch = 2,
                                         .sequence = 64,
                                         .accumulation = 1};

static vw_plan_model *opened(const char *json)
{
    vw_plan_model *model = NULL;
    if (vw__plan_model_open_memory(json, strlen(json), &model) != VW_OK)
        fail_msg("%s", vw_last_error());
    return model;
}

static vw__plan_peaks simulate(const vw_plan_model *model, const vw_plan_settings *settings)
{
    vw__plan_peaks peaks;
    assert_int_equal(vw__plan_simulate(model, settings, NULL, &peaks, NULL), VW_OK);
    return peaks;
}

/* What a model of that configuration keeps after a forward pass. */
static uint64_t kept_by(const char *json, const vw_plan_settings *settings)
{
    vw_plan_model *model = opened(json);
    const uint64_t bytes = simulate(model, settings).after_forward_bytes;
    vw_plan_model_close(model);
    return bytes;
}

static vw_plan_model known(const char *name)
{
    vw_plan_model model = {.name = NULL};
    assert_true(vw__plan_zoo_find(name, &model));
    return model;
}

/* ---- configurations -------------------------------------------------------------------------- */

static const struct published {
    const char *name, *json;
} published[] = {
    {"opt-125m",
     "{\"model_type\": \"opt\", \"hidden_size\": 768, \"num_hidden_layers\": 12, \"ffn_dim\": 3072,"
     " \"num_attention_heads\": 12, \"vocab_size\": 50272, \"max_position_embeddings\": 2048,"
     " \"word_embed_proj_dim\": 768, \"do_layer_norm_before\": true, \"dropout\": 0.1,"
     " \"activation_function\": \"relu\", \"architectures\": [\"OPTForCausalLM\"]}"},
    {"falcon-7b",
     "{\"model_type\": \"falcon\", \"hidden_size\": 4544, \"num_hidden_layers\": 32,"
     " \"num_attention_heads\": 71, \"vocab_size\": 65024, \"multi_query\": true, \"alibi\": false,"
     " \"bias\": false, \"new_decoder_architecture\": false, \"parallel_attn\": true,"
     " \"hidden_dropout\": 0.0, \"architectures\": [\"FalconForCausalLM\"]}"},
    {"smollm3-3b",
     "{\"model_type\": \"smollm3\", \"hidden_size\": 2048, \"num_hidden_layers\": 36,"
     " \"num_attention_heads\": 16, \"num_key_value_heads\": 4, \"intermediate_size\": 11008,"
     " \"vocab_size\": 128256, \"max_position_embeddings\": 65536, \"no_rope_layer_interval\": 4}"},
    {"modernbert-base",
     "{\"model_type\": \"modernbert\", \"hidden_size\": 768, \"num_hidden_layers\": 22,"
     " \"num_attention_heads\": 12, \"intermediate_size\": 1152, \"vocab_size\": 50368,"
     " \"max_position_embeddings\": 8192, \"local_attention\": 128, \"attention_dropout\": 0.0,"
     " \"global_attn_every_n_layers\": 3, \"architectures\": [\"ModernBertForMaskedLM\"]}"},
    {"deberta-v3-base",
     "{\"model_type\": \"deberta-v2\", \"hidden_size\": 768, \"num_hidden_layers\": 12,"
     " \"num_attention_heads\": 12, \"intermediate_size\": 3072, \"vocab_size\": 128100,"
     " \"max_position_embeddings\": 512, \"relative_attention\": true, \"position_buckets\": 256,"
     " \"norm_rel_ebd\": \"layer_norm\", \"share_att_key\": true, \"pos_att_type\": \"p2c|c2p\","
     " \"max_relative_positions\": -1, \"position_biased_input\": false, \"type_vocab_size\": 0}"},
    {"bart-base",
     "{\"model_type\": \"bart\", \"d_model\": 768, \"encoder_layers\": 6, \"decoder_layers\": 6,"
     " \"encoder_attention_heads\": 12, \"decoder_attention_heads\": 12, \"encoder_ffn_dim\": 3072,"
     " \"decoder_ffn_dim\": 3072, \"vocab_size\": 50265, \"max_position_embeddings\": 1024,"
     " \"dropout\": 0.1, \"architectures\": [\"BartForConditionalGeneration\"]}"},
    {"glm-4-9b-0414",
     "{\"model_type\": \"glm4\", \"hidden_size\": 4096, \"num_hidden_layers\": 40,"
     " \"num_attention_heads\": 32, \"num_key_value_heads\": 2, \"head_dim\": 128,"
     " \"intermediate_size\": 13696, \"vocab_size\": 151552, \"max_position_embeddings\": 32768,"
     " \"partial_rotary_factor\": 0.5, \"attention_bias\": true}"},
    {"qwen1.5-moe-a2.7b",
     "{\"model_type\": \"qwen2_moe\", \"hidden_size\": 2048, \"num_hidden_layers\": 24,"
     " \"num_attention_heads\": 16, \"num_key_value_heads\": 16, \"intermediate_size\": 5632,"
     " \"moe_intermediate_size\": 1408, \"shared_expert_intermediate_size\": 5632,"
     " \"num_experts\": 60, \"num_experts_per_tok\": 4, \"vocab_size\": 151936,"
     " \"max_position_embeddings\": 8192, \"mlp_only_layers\": [], \"decoder_sparse_step\": 1}"},
};

static void configurations_come_to_the_built_in_models(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        vw_plan_model *model = opened(published[i].json);
        vw_plan_model built_in = known(published[i].name);
        const vw__plan_peaks read = simulate(model, &a_graph);
        const vw__plan_peaks listed = simulate(&built_in, &a_graph);
        if (read.parameters != listed.parameters || read.peak.live_bytes != listed.peak.live_bytes)
            print_error("%s\n", published[i].name);
        assert_int_equal(read.parameters, listed.parameters);
        assert_int_equal(read.peak.live_bytes, listed.peak.live_bytes);
        assert_int_equal(model->family->usual_length(model),
                         built_in.family->usual_length(&built_in));
        vw_plan_model_close(model);
    }
}

static bool open_all(void *context)
{
    bool is_good = true;
    static const char with_list[] =
        "{\"model_type\": \"smollm3\", \"hidden_size\": 64, \"num_hidden_layers\": 2,"
        " \"num_attention_heads\": 2, \"intermediate_size\": 64, \"vocab_size\": 64,"
        " \"no_rope_layers\": [1, 0]}";
    (void)context;
    for (size_t i = 0; i <= sizeof published / sizeof published[0]; i++) {
        const bool is_last = i == sizeof published / sizeof published[0];
        const char *json = is_last ? with_list : published[i].json;
        vw_plan_model *model = NULL;
        const vw_status status = vw__plan_model_open_memory(json, strlen(json), &model);
        assert_true(status == VW_OK || status == VW_ERR_HOST_MEMORY);
        is_good &= status == VW_OK;
        vw_plan_model_close(model);
    }
    return is_good;
}

static void each_host_allocation_of_a_reader_may_fail(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(open_all, NULL);
}

/* ---- refusals -------------------------------------------------------------------------------- */

#define DECODER_JSON(type, more)                                                                   \
    "{\"model_type\": \"" type "\", \"hidden_size\": 64, \"num_hidden_layers\": 2,"                \
    " \"num_attention_heads\": 2, \"intermediate_size\": 128, \"vocab_size\": 64, " more "}"
#define FALCON_JSON(more)                                                                          \
    "{\"model_type\": \"falcon\", \"hidden_size\": 64, \"num_hidden_layers\": 2,"                  \
    " \"num_attention_heads\": 4, \"vocab_size\": 64, " more "}"
#define DEBERTA_JSON(more)                                                                         \
    DECODER_JSON("deberta-v2", "\"max_position_embeddings\": 64, \"position_buckets\": 8, " more)
#define DEBERTA_IS_RELATIVE "\"relative_attention\": true, \"position_biased_input\": false"
#define BART_JSON(more)                                                                            \
    "{\"model_type\": \"bart\", \"d_model\": 64, \"encoder_layers\": 2, \"decoder_layers\": 2,"    \
    " \"encoder_attention_heads\": 2, \"encoder_ffn_dim\": 64, \"vocab_size\": 64,"                \
    " \"max_position_embeddings\": 64, " more "}"
#define OPT_JSON(more)                                                                             \
    "{\"model_type\": \"opt\", \"hidden_size\": 64, \"num_hidden_layers\": 2, \"ffn_dim\": 128,"   \
    " \"num_attention_heads\": 2, \"vocab_size\": 64, \"max_position_embeddings\": 64, " more "}"
#define MPT_JSON(more)                                                                             \
    "{\"model_type\": \"mpt\", \"d_model\": 64, \"n_layers\": 2, \"n_heads\": 2,"                  \
    " \"vocab_size\": 64, \"attn_config\": {" more "}}"

static void what_is_not_planned_is_refused_by_its_field(void **state)
{
    static const struct {
        const char *json, *words;
    } refusals[] = {
        {DECODER_JSON("smollm3", "\"no_rope_layers\": [1]"),
         "no_rope_layers: expected a number for each of the 2 layers"},
        {DECODER_JSON("smollm3", "\"no_rope_layers\": [1, 2]"), "no_rope_layers"},
        {DECODER_JSON("smollm3", "\"use_sliding_window\": true"), "use_sliding_window"},
        {DECODER_JSON("stablelm", "\"qk_layernorm\": true"), "qk_layernorm: expected false"},
        {DECODER_JSON("modernbert", "\"norm_bias\": true"), "norm_bias: expected false"},
        {DECODER_JSON("modernbert", "\"decoder_bias\": false"), "decoder_bias: expected true"},
        {DECODER_JSON("electra", "\"max_position_embeddings\": 64, \"embedding_size\": 128"),
         "embedding_size: expected no more than hidden_size (64), found 128"},
        {FALCON_JSON("\"alibi\": true"), "alibi: expected false"},
        {FALCON_JSON("\"parallel_attn\": false"), "parallel_attn: expected true"},
        {FALCON_JSON("\"new_decoder_architecture\": true, \"num_kv_heads\": 3"),
         "expected a multiple of num_kv_heads, which is 3"},
        {DEBERTA_JSON("\"relative_attention\": false"), "relative_attention: expected true"},
        {DEBERTA_JSON("\"relative_attention\": true"),
         "position_biased_input is missing: expected false"},
        {DEBERTA_JSON(DEBERTA_IS_RELATIVE ", \"conv_kernel_size\": 3"), "conv_kernel_size"},
        {DEBERTA_JSON(DEBERTA_IS_RELATIVE ", \"pos_att_type\": [\"p2p\"]"), "pos_att_type"},
        {BART_JSON("\"decoder_ffn_dim\": 128"),
         "decoder_ffn_dim: expected encoder_ffn_dim, which is 64, found 128"},
        {OPT_JSON("\"layer_norm_elementwise_affine\": false"), "expected true"},
        {OPT_JSON("\"word_embed_proj_dim\": 128"), "word_embed_proj_dim: expected no more than"},
        {MPT_JSON("\"clip_qkv\": 8"), "clip_qkv: expected null, found 8"},
        {MPT_JSON("\"qk_ln\": true"), "qk_ln: expected false"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        vw_plan_model *model = NULL;
        assert_int_not_equal(
            vw__plan_model_open_memory(refusals[i].json, strlen(refusals[i].json), &model), VW_OK);
        assert_null(model);
        if (strstr(vw_last_error(), refusals[i].words) == NULL)
            fail_msg("expected \"%s\" in \"%s\"", refusals[i].words, vw_last_error());
    }
}

/* Refusals send the reader to this page. */
static void the_manual_lists_every_type(void **state)
{
    static char text[1 << 17];
    const vw__config_type *type;
    (void)state;
    FILE *file = fopen(VW_TEST_DATA "/../../docs/man/vramwise-plan.1.scd", "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *list = strstr(text, "Model types that are planned:");
    assert_non_null(list);
    for (size_t i = 0; (type = vw__config_type_number(i)) != NULL; i++) {
        char word[64];
        const char *ends[] = {",", ";", "."};
        bool is_listed = false;
        for (size_t j = 0; j < sizeof ends / sizeof ends[0]; j++) {
            snprintf(word, sizeof word, " %s%s", type->name, ends[j]);
            is_listed |= strstr(list, word) != NULL;
        }
        if (!is_listed)
            fail_msg("%s is not listed", type->name);
    }
}

/* ---- what their code keeps ------------------------------------------------------------------- */

/* clamp_() changes what its derivative needs, so that queries, keys and values are copied. */
static void clipped_heads_are_kept_twice(void **state)
{
    (void)state;
    const uint64_t heads = 4 * a_graph.batch * a_graph.sequence * 64;
    assert_int_equal(kept_by(DECODER_JSON("olmo", "\"clip_qkv\": 8.0"), &a_graph) -
                         kept_by(DECODER_JSON("olmo", "\"clip_qkv\": null"), &a_graph),
                     2 * 3 * heads);
}

/* gather() keeps a score for each distance, of both kinds, and the distances' heads of all samples.
 */
static void distances_are_kept_for_every_token(void **state)
{
    (void)state;
#define WITH_SPAN(number)                                                                          \
    DECODER_JSON(                                                                                  \
        "deberta-v2",                                                                              \
        "\"max_position_embeddings\": 64, \"pos_att_type\": [\"c2p\", \"p2c\"],"                   \
        " \"share_att_key\": true, \"hidden_dropout_prob\": 0, \"position_buckets\": " number      \
        ", " DEBERTA_IS_RELATIVE)
    const uint64_t scores = 4 * a_graph.batch * a_graph.sequence * 2 * 64; /* of 32 more, twice */
    const uint64_t heads = 4 * a_graph.batch * 64 * 64;
    const uint64_t rows = 4 * 64 * 64;
    const uint64_t more = kept_by(WITH_SPAN("64"), &a_graph) - kept_by(WITH_SPAN("32"), &a_graph);
    assert_int_equal(more, 2 * 2 * (scores + heads) + rows);
#undef WITH_SPAN
}

/* The model asks for the hidden states of all layers, and lets go of them with the last. */
static void deberta_holds_every_layers_result_while_it_runs(void **state)
{
    (void)state;
    vw_plan_settings settings = a_graph;
    settings.mode = VW_PLAN_MODE_INFERENCE;
    settings.batch = 64;
    settings.head = VW_PLAN_HEAD_NONE; /* no logits, which are larger */
    vw_plan_model model = known("deberta-v3-small");
    const uint64_t six = simulate(&model, &settings).peak.parts[VW__TAPE_USE_ACTIVATIONS];
    model.shape.layers = 12;
    const uint64_t twelve = simulate(&model, &settings).peak.parts[VW__TAPE_USE_ACTIVATIONS];
    assert_int_equal(twelve - six, 6 * 4 * settings.batch * settings.sequence * model.shape.hidden);
}

/* An expert for all tokens keeps what an MLP does; and a share of it for each. */
static void a_shared_expert_is_kept_beside_the_others(void **state)
{
    (void)state;
    vw_plan_model model = known("qwen1.5-moe-a2.7b");
    model.shape.layers = 1;
    const uint64_t with = simulate(&model, &a_graph).after_forward_bytes;
    const uint64_t inner = model.shape.mlp.shared_inner, hidden = model.shape.hidden;
    model.shape.mlp.shared_inner = 0;
    const uint64_t tokens = a_graph.batch * a_graph.sequence;
    const uint64_t weights = 4 * (3 * hidden * inner + hidden);
    const uint64_t kept =
        4 * tokens * (4 * inner + hidden + 1); /* gate, act, up, product; result */
    assert_int_equal(with - simulate(&model, &a_graph).after_forward_bytes, weights + kept);
}

/* A family with attention of its own is planned alike, whatever kernel is asked for. */
static void attention_of_its_own_calls_no_kernel(void **state)
{
    static const char *const own[] = {"gpt-j-6b", "gpt-neo-125m",     "bloom-560m",
                                      "mpt-7b",   "deberta-v3-small", "mpnet-base"};
    (void)state;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        vw_plan_settings settings = a_graph;
        vw_plan_model model = known(own[i]);
        model.shape.layers = 2;
        const uint64_t bytes = simulate(&model, &settings).peak.live_bytes;
        settings.attention = VW_ATTENTION_EAGER;
        assert_int_equal(simulate(&model, &settings).peak.live_bytes, bytes);
    }
}

/* BART's decoder reads what its encoder made, with positions of its own. */
static void an_encoder_decoder_generates(void **state)
{
    (void)state;
    vw_plan_model model = known("bart-base");
    vw_plan_settings settings = a_graph;
    settings.mode = VW_PLAN_MODE_INFERENCE;
    settings.generate = 8;
    const uint64_t eight = simulate(&model, &settings).peak.live_bytes;
    settings.generate = 512;
    assert_true(simulate(&model, &settings).peak.live_bytes > eight);
}

/* OPT-350m's tokens are half as wide as its layers, and its norms are behind the sums. */
static void narrow_tokens_make_a_smaller_table(void **state)
{
    (void)state;
    vw_plan_model *wide = opened(OPT_JSON("\"word_embed_proj_dim\": 64"));
    vw_plan_model *narrow =
        opened(OPT_JSON("\"word_embed_proj_dim\": 32, \"do_layer_norm_before\": false"));
    const uint64_t table = 64 * 32, products = 2 * 64 * 32, last_norm = 2 * 64;
    assert_int_equal(simulate(wide, &a_graph).parameters + products,
                     simulate(narrow, &a_graph).parameters + table + last_norm);
    vw_plan_model_close(wide);
    vw_plan_model_close(narrow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configurations_come_to_the_built_in_models),
        cmocka_unit_test(each_host_allocation_of_a_reader_may_fail),
        cmocka_unit_test(what_is_not_planned_is_refused_by_its_field),
        cmocka_unit_test(the_manual_lists_every_type),
        cmocka_unit_test(clipped_heads_are_kept_twice),
        cmocka_unit_test(distances_are_kept_for_every_token),
        cmocka_unit_test(deberta_holds_every_layers_result_while_it_runs),
        cmocka_unit_test(a_shared_expert_is_kept_beside_the_others),
        cmocka_unit_test(attention_of_its_own_calls_no_kernel),
        cmocka_unit_test(an_encoder_decoder_generates),
        cmocka_unit_test(narrow_tokens_make_a_smaller_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
