/* test_model_open.c - config.json of every family comes to the shape of the built-in model, and
 * what is no configuration is told so. The JSON is written for this test, after the published
 * files. */
#include "vramwise/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan/config_types.h"
#include "plan/transformer.h" /* vw__plan_has_window */
#include "plan/plan_model.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

/* The configuration, and the built-in model that it is of. */
static const struct published {
    const char *name, *json;
} published[] = {
    {"gpt2",
     "{\"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_positions\": 1024, \"n_embd\": 768,"
     " \"n_layer\": 12, \"n_head\": 12, \"n_inner\": null, \"n_ctx\": 1024,"
     " \"activation_function\": \"gelu_new\", \"attn_pdrop\": 0.1, \"embd_pdrop\": 0.1,"
     " \"resid_pdrop\": 0.1, \"architectures\": [\"GPT2LMHeadModel\"]}"},
    {"llama-3-8b",
     "{\"model_type\": \"llama\", \"vocab_size\": 128256, \"hidden_size\": 4096,"
     " \"intermediate_size\": 14336, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
     " \"num_key_value_heads\": 8, \"max_position_embeddings\": 8192, \"hidden_act\": \"silu\","
     " \"attention_bias\": false, \"tie_word_embeddings\": false}"},
    {"mistral-7b",
     "{\"model_type\": \"mistral\", \"vocab_size\": 32000, \"hidden_size\": 4096,"
     " \"intermediate_size\": 14336, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
     " \"num_key_value_heads\": 8, \"max_position_embeddings\": 32768, \"hidden_act\": \"silu\","
     " \"sliding_window\": 4096, \"tie_word_embeddings\": false}"},
    {"qwen2-0.5b",
     "{\"model_type\": \"qwen2\", \"vocab_size\": 151936, \"hidden_size\": 896,"
     " \"intermediate_size\": 4864, \"num_hidden_layers\": 24, \"num_attention_heads\": 14,"
     " \"num_key_value_heads\": 2, \"max_position_embeddings\": 131072, \"hidden_act\": \"silu\","
     " \"attention_dropout\": 0.0, \"use_sliding_window\": false, \"sliding_window\": 131072,"
     " \"tie_word_embeddings\": true}"},
    {"qwen3-0.6b",
     "{\"model_type\": \"qwen3\", \"vocab_size\": 151936, \"hidden_size\": 1024, \"head_dim\": 128,"
     " \"intermediate_size\": 3072, \"num_hidden_layers\": 28, \"num_attention_heads\": 16,"
     " \"num_key_value_heads\": 8, \"max_position_embeddings\": 40960, \"hidden_act\": \"silu\","
     " \"attention_bias\": false, \"sliding_window\": null, \"tie_word_embeddings\": true}"},
    {"gemma-2b",
     "{\"model_type\": \"gemma\", \"vocab_size\": 256000, \"hidden_size\": 2048, \"head_dim\": 256,"
     " \"intermediate_size\": 16384, \"num_hidden_layers\": 18, \"num_attention_heads\": 8,"
     " \"num_key_value_heads\": 1, \"max_position_embeddings\": 8192, \"hidden_act\": \"gelu\"}"},
    {"gemma-2-2b",
     "{\"model_type\": \"gemma2\", \"vocab_size\": 256000, \"hidden_size\": 2304, \"head_dim\": "
     "256,"
     " \"intermediate_size\": 9216, \"num_hidden_layers\": 26, \"num_attention_heads\": 8,"
     " \"num_key_value_heads\": 4, \"max_position_embeddings\": 8192, \"sliding_window\": 4096,"
     " \"final_logit_softcapping\": 30.0, \"hidden_activation\": \"gelu_pytorch_tanh\"}"},
    {"gemma-3-1b",
     "{\"model_type\": \"gemma3_text\", \"vocab_size\": 262144, \"hidden_size\": 1152,"
     " \"head_dim\": 256, \"intermediate_size\": 6912, \"num_hidden_layers\": 26,"
     " \"num_attention_heads\": 4, \"num_key_value_heads\": 1, \"max_position_embeddings\": 32768,"
     " \"sliding_window\": 512, \"sliding_window_pattern\": 6, \"final_logit_softcapping\": null}"},
    {"phi-2", "{\"model_type\": \"phi\", \"vocab_size\": 51200, \"hidden_size\": 2560,"
              " \"intermediate_size\": 10240, \"num_hidden_layers\": 32,"
              " \"num_attention_heads\": 32, \"num_key_value_heads\": null,"
              " \"max_position_embeddings\": 2048, \"partial_rotary_factor\": 0.4,"
              " \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.0, \"hidden_act\": \"gelu_new\"}"},
    {"phi-3-mini",
     "{\"model_type\": \"phi3\", \"vocab_size\": 32064, \"hidden_size\": 3072,"
     " \"intermediate_size\": 8192, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
     " \"num_key_value_heads\": 32, \"max_position_embeddings\": 4096, \"sliding_window\": 2047,"
     " \"hidden_act\": \"silu\", \"resid_pdrop\": 0.0}"},
    {"mixtral-8x7b",
     "{\"model_type\": \"mixtral\", \"vocab_size\": 32000, \"hidden_size\": 4096,"
     " \"intermediate_size\": 14336, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
     " \"num_key_value_heads\": 8, \"max_position_embeddings\": 32768, \"num_local_experts\": 8,"
     " \"num_experts_per_tok\": 2, \"sliding_window\": null, \"output_router_logits\": false}"},
    {"pythia-160m",
     "{\"model_type\": \"gpt_neox\", \"vocab_size\": 50304, \"hidden_size\": 768,"
     " \"intermediate_size\": 3072, \"num_hidden_layers\": 12, \"num_attention_heads\": 12,"
     " \"max_position_embeddings\": 2048, \"hidden_act\": \"gelu\", \"rotary_pct\": 0.25,"
     " \"use_parallel_residual\": true, \"tie_word_embeddings\": false}"},
    {"qwen3-30b-a3b",
     "{\"model_type\": \"qwen3_moe\", \"vocab_size\": 151936, \"hidden_size\": 2048,"
     " \"intermediate_size\": 6144, \"moe_intermediate_size\": 768, \"num_hidden_layers\": 48,"
     " \"num_attention_heads\": 32, \"num_key_value_heads\": 4, \"head_dim\": 128,"
     " \"max_position_embeddings\": 40960, \"num_experts\": 128, \"num_experts_per_tok\": 8,"
     " \"decoder_sparse_step\": 1, \"mlp_only_layers\": [], \"norm_topk_prob\": true,"
     " \"use_sliding_window\": false, \"sliding_window\": null, \"tie_word_embeddings\": false}"},
    {"bert-base",
     "{\"model_type\": \"bert\", \"vocab_size\": 30522, \"hidden_size\": 768,"
     " \"intermediate_size\": 3072, \"num_hidden_layers\": 12, \"num_attention_heads\": 12,"
     " \"max_position_embeddings\": 512, \"type_vocab_size\": 2, \"hidden_act\": \"gelu\","
     " \"hidden_dropout_prob\": 0.1, \"attention_probs_dropout_prob\": 0.1,"
     " \"position_embedding_type\": \"absolute\"}"},
    {"roberta-base",
     "{\"model_type\": \"roberta\", \"vocab_size\": 50265, \"hidden_size\": 768,"
     " \"intermediate_size\": 3072, \"num_hidden_layers\": 12, \"num_attention_heads\": 12,"
     " \"max_position_embeddings\": 514, \"type_vocab_size\": 1, \"pad_token_id\": 1}"},
    {"t5-small", "{\"model_type\": \"t5\", \"vocab_size\": 32128, \"d_model\": 512, \"d_kv\": 64,"
                 " \"d_ff\": 2048, \"num_layers\": 6, \"num_heads\": 8, \"dropout_rate\": 0.1,"
                 " \"relative_attention_num_buckets\": 32, \"n_positions\": 512}"},
    {"flan-t5-base",
     "{\"model_type\": \"t5\", \"vocab_size\": 32128, \"d_model\": 768, \"d_kv\": 64,"
     " \"d_ff\": 2048, \"num_layers\": 12, \"num_decoder_layers\": 12, \"num_heads\": 12,"
     " \"feed_forward_proj\": \"gated-gelu\", \"tie_word_embeddings\": false}"},
    {"vit-base", "{\"model_type\": \"vit\", \"hidden_size\": 768, \"intermediate_size\": 3072,"
                 " \"num_hidden_layers\": 12, \"num_attention_heads\": 12, \"image_size\": 224,"
                 " \"patch_size\": 16, \"num_channels\": 3, \"qkv_bias\": true,"
                 " \"hidden_dropout_prob\": 0.0, \"attention_probs_dropout_prob\": 0.0,"
                 " \"num_labels\": 1000, \"hidden_act\": \"gelu\"}"},
};

enum { PUBLISHED_COUNT = sizeof published / sizeof published[0] };

static vw_plan_model *opened(const char *json)
{
    vw_plan_model *model = NULL;
    vw_status status = vw__plan_model_open_memory(json, strlen(json), &model);
    if (status != VW_OK)
        print_error("%s\n", vw_last_error());
    assert_int_equal(status, VW_OK);
    return model;
}

static void a_published_configuration_comes_to_the_built_in_shape(void **state)
{
    (void)state;
    for (size_t i = 0; i < PUBLISHED_COUNT; i++) {
        vw_plan_model *model = opened(published[i].json), *known;
        assert_int_equal(vw_plan_model_open(published[i].name, &known), VW_OK);
        assert_ptr_equal(model->family, known->family);
        if (memcmp(&model->shape, &known->shape, sizeof model->shape) != 0)
            print_error("%s has another shape\n", published[i].name);
        assert_memory_equal(&model->shape, &known->shape, sizeof model->shape);
        vw_plan_model_close(known);
        vw_plan_model_close(model);
    }
}

typedef struct refusal {
    const char *json;
    vw_status status;
    const char *words;
} refusal;

static void assert_refused(const refusal *expected)
{
    vw_plan_model *model = NULL;
    vw_status status = vw__plan_model_open_memory(expected->json, strlen(expected->json), &model);
    if (status != expected->status || strstr(vw_last_error(), expected->words) == NULL)
        print_error("%s: %s\n", expected->json, vw_last_error());
    assert_int_equal(status, expected->status);
    assert_non_null(strstr(vw_last_error(), expected->words));
    assert_null(model);
}

#define GPT2_WITH(fields)                                                                          \
    "{\"model_type\": \"gpt2\", \"vocab_size\": 100, \"n_positions\": 64, \"n_embd\": 64,"         \
    " \"n_layer\": 2, \"n_head\": 4, " fields "}"
#define LLAMA_WITH(fields)                                                                         \
    "{\"model_type\": \"llama\", \"vocab_size\": 100, \"hidden_size\": 64,"                        \
    " \"intermediate_size\": 128, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, " fields   \
    "}"

#define QWEN2_WITH(fields)                                                                         \
    "{\"model_type\": \"qwen2\", \"vocab_size\": 100, \"hidden_size\": 64,"                        \
    " \"intermediate_size\": 128, \"num_hidden_layers\": 4, \"num_attention_heads\": 4,"           \
    " \"use_sliding_window\": true, \"sliding_window\": 16, " fields "}"
#define QWEN3_MOE_WITH(fields)                                                                     \
    "{\"model_type\": \"qwen3_moe\", \"vocab_size\": 100, \"hidden_size\": 64,"                    \
    " \"intermediate_size\": 128, \"moe_intermediate_size\": 32, \"num_hidden_layers\": 2,"        \
    " \"num_attention_heads\": 4, \"num_experts\": 4, " fields "}"
#define RESNET_WITH(fields) "{\"model_type\": \"resnet\", " fields "}"

static void absurd_values_are_refused_by_name(void **state)
{
    static const refusal refusals[] = {
        {GPT2_WITH("\"n_layer\": 0"), VW_ERR_UNSUPPORTED,
         "n_layer: expected a whole number from 1 to 4096, found 0"},
        {GPT2_WITH("\"n_head\": 1000000000000"), VW_ERR_UNSUPPORTED, "n_head: expected"},
        {GPT2_WITH("\"n_head\": 5"), VW_ERR_UNSUPPORTED,
         "n_embd: expected a multiple of n_head, which is 5, found 64"},
        {GPT2_WITH("\"n_embd\": -64"), VW_ERR_UNSUPPORTED, "found -64"},
        {GPT2_WITH("\"n_embd\": 64.5"), VW_ERR_UNSUPPORTED, "found 64.5"},
        {GPT2_WITH("\"n_embd\": \"wide\""), VW_ERR_CORRUPT_FILE, "found \"wide\""},
        {GPT2_WITH("\"n_embd\": null"), VW_ERR_CORRUPT_FILE, "n_embd is missing"},
        {GPT2_WITH("\"attn_pdrop\": 1.5"), VW_ERR_UNSUPPORTED,
         "attn_pdrop: expected a number from"},
        {GPT2_WITH("\"activation_function\": \"gelu_nwe\""), VW_ERR_UNSUPPORTED,
         "(perhaps gelu_new)"},
        {GPT2_WITH("\"add_cross_attention\": true"), VW_ERR_UNSUPPORTED, "add_cross_attention"},
        {LLAMA_WITH("\"num_key_value_heads\": 3"), VW_ERR_UNSUPPORTED,
         "num_attention_heads: expected a multiple of num_key_value_heads"},
        {LLAMA_WITH("\"num_key_value_heads\": 0"), VW_ERR_UNSUPPORTED, "num_key_value_heads"},
        {LLAMA_WITH("\"hidden_size\": 66"), VW_ERR_UNSUPPORTED, "hidden_size: expected a multiple"},
        {LLAMA_WITH("\"tie_word_embeddings\": \"yes\""), VW_ERR_CORRUPT_FILE, "true or false"},
        {LLAMA_WITH("\"head_dim\": 127"), VW_ERR_UNSUPPORTED,
         "expected an even number of elements that are rotated, found 127"},
        {QWEN2_WITH("\"layer_types\": [\"full_attention\"]"), VW_ERR_UNSUPPORTED,
         "layer_types: expected 4 words, found 1"},
        {QWEN2_WITH("\"layer_types\": \"full_attention\""), VW_ERR_CORRUPT_FILE,
         "layer_types: expected a list"},
        {QWEN2_WITH("\"layer_types\": [\"full_attention\", \"linear_attention\", 1, 2]"),
         VW_ERR_UNSUPPORTED,
         "layer_types[1]: expected one of full_attention, sliding_attention, found "
         "\"linear_attention\""},
        {QWEN2_WITH("\"layer_types\": [\"full_attention\", 3, 1, 2]"), VW_ERR_UNSUPPORTED,
         "layer_types[1]: expected one of full_attention, sliding_attention, found 3"},
        {QWEN3_MOE_WITH("\"mlp_only_layers\": [0]"), VW_ERR_UNSUPPORTED,
         "mlp_only_layers: expected an empty list"},
        {QWEN3_MOE_WITH("\"decoder_sparse_step\": 2"), VW_ERR_UNSUPPORTED, "decoder_sparse_step"},
        {QWEN3_MOE_WITH("\"num_experts\": 0"), VW_ERR_UNSUPPORTED, "num_experts: expected"},
        {QWEN3_MOE_WITH("\"num_experts_per_tok\": 5"), VW_ERR_UNSUPPORTED,
         "num_experts_per_tok: expected a whole number from 1 to 4, found 5"},
        {RESNET_WITH("\"depths\": [3, 4, 6]"), VW_ERR_UNSUPPORTED,
         "depths: expected 4 numbers, one for each stage, found 3"},
        {RESNET_WITH("\"depths\": [3, 4, 6, 0]"), VW_ERR_UNSUPPORTED, "depths: expected"},
        {RESNET_WITH("\"hidden_sizes\": [256, 512, 1024, 2047]"), VW_ERR_UNSUPPORTED,
         "hidden_sizes: expected multiples of 4"},
        {RESNET_WITH("\"layer_type\": \"wide\""), VW_ERR_UNSUPPORTED,
         "layer_type: expected one of bottleneck, basic"},
        {RESNET_WITH("\"hidden_act\": \"silu\""), VW_ERR_UNSUPPORTED, "hidden_act: expected"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        assert_refused(&refusals[i]);
}

static void files_that_are_not_a_model_are_recognized(void **state)
{
    static const refusal refusals[] = {
        {"[1, 2]", VW_ERR_CORRUPT_FILE, "expected an object, as config.json is, found a list"},
        {"{}", VW_ERR_CORRUPT_FILE, "model_type is missing"},
        {"{\"tokenizer_class\": \"X\"}", VW_ERR_CORRUPT_FILE, "a tokenizer's configuration"},
        {"{\"peft_type\": \"LORA\", \"r\": 8}", VW_ERR_CORRUPT_FILE, "an adapter's configuration"},
        {"{\"weight_map\": {}}", VW_ERR_CORRUPT_FILE, "an index of weights"},
        {"{\"model_type\": 3}", VW_ERR_CORRUPT_FILE, "model_type: expected a text, found 3"},
        {"{\"model_type\": \"lama\"}", VW_ERR_UNSUPPORTED,
         "a type that vramwise-plan(1) lists (of any other model: plan from one recorded step"},
        {"{\"model_type\": \"lama\"}", VW_ERR_UNSUPPORTED, "found \"lama\""},
        {"{\"model_type\": \"mamba\"}", VW_ERR_UNSUPPORTED,
         "mamba is not planned: some of its layers are recurrent"},
        {"{\"model_type\": \"deepseek_v3\"}", VW_ERR_UNSUPPORTED,
         "vramwise run --record FILE -- COMMAND, then vramwise plan --from FILE"},
        {"{\"model_type\": \"llama4\"}", VW_ERR_UNSUPPORTED, "llama4 is not planned: its experts"},
        {"{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"mamba\"}}",
         VW_ERR_UNSUPPORTED, "or describe its layers"},
        {"{\"model_type\": \"llava\", \"text_config\": 3}", VW_ERR_UNSUPPORTED, "found \"llava\""},
        {"{\"model_type\": ", VW_ERR_CORRUPT_FILE, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        assert_refused(&refusals[i]);
}

/* Qwen's first layers see everything, whatever the window; newer files say it layer by layer. */
static void only_some_layers_have_a_window(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        bool has_window[4];
    } cases[] = {
        {QWEN2_WITH("\"max_window_layers\": 2"), {false, false, true, true}},
        {QWEN2_WITH("\"max_window_layers\": 0"), {true, true, true, true}},
        {QWEN2_WITH("\"use_cache\": true"), {false, false, false, false}}, /* 28 as a rule */
        {QWEN2_WITH("\"layer_types\": [\"sliding_attention\", \"full_attention\","
                    " \"full_attention\", \"sliding_attention\"]"),
         {true, false, false, true}},
        {QWEN2_WITH("\"max_window_layers\": 0, \"use_sliding_window\": false"),
         {false, false, false, false}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vw_plan_model *model = opened(cases[i].json);
        for (uint64_t layer = 0; layer < 4; layer++)
            assert_int_equal(vw__plan_has_window(&model->shape.attention, layer),
                             cases[i].has_window[layer]);
        vw_plan_model_close(model);
    }
}

static uint64_t parameters_of(const char *json)
{
    const vw_plan_options options = {
        .struct_size = sizeof options, .without_choices = true, .without_replay = true};
    vw_plan_model *model = opened(json);
    vw_plan *plan = NULL;
    assert_int_equal(vw_plan_make(model, NULL, &options, &plan), VW_OK);
    const uint64_t parameters = plan->parameters;
    vw_plan_free(plan);
    vw_plan_model_close(model);
    return parameters;
}

/* As many as the published weights have. */
static void a_resnet_of_transformers_has_the_weights_of_torchvisions(void **state)
{
    (void)state;
    assert_int_equal(parameters_of(RESNET_WITH("\"num_labels\": 1000")), 25557032);
    assert_int_equal(parameters_of(RESNET_WITH("\"num_labels\": 1000, \"layer_type\": \"basic\","
                                               " \"depths\": [2, 2, 2, 2], \"hidden_sizes\":"
                                               " [64, 128, 256, 512]")),
                     11689512);
    assert_int_equal(parameters_of(RESNET_WITH("\"num_labels\": 1000,"
                                               " \"downsample_in_bottleneck\": true")),
                     25557032);
    /* With the stem's channels and half the size a first block has its shortcut all the same. */
    assert_int_equal(parameters_of(RESNET_WITH("\"num_labels\": 1000,"
                                               " \"downsample_in_first_stage\": true")),
                     25557032);
}

static void every_family_needs_its_fields(void **state)
{
    static const char *const types[] = {"gpt2", "llama",   "qwen3", "gemma", "phi",    "phi3",
                                        "bert", "mixtral", "t5",    "vit",   "roberta"};
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char json[64];
        snprintf(json, sizeof json, "{\"model_type\": \"%s\"}", types[i]);
        assert_refused(&(refusal){json, VW_ERR_CORRUPT_FILE, " is missing: expected"});
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static void a_file_and_its_folder_are_the_same_model(void **state)
{
    char folder[] = "/tmp/vramwise-model-XXXXXX", path[64];
    vw_plan_model *by_file, *by_folder, *none;
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(vw_plan_model_open(folder, &none), VW_ERR_FILE);
    assert_non_null(strstr(vw_last_error(), "the folder holds no config.json"));
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(published[0].json, file);
    fclose(file);
    assert_int_equal(vw_plan_model_open(path, &by_file), VW_OK);
    assert_int_equal(vw_plan_model_open(folder, &by_folder), VW_OK);
    assert_string_equal(by_file->name, path);
    assert_string_equal(by_folder->name, folder);
    assert_memory_equal(&by_file->shape, &by_folder->shape, sizeof by_file->shape);
    vw_plan_model_close(by_file);
    vw_plan_model_close(by_folder);
    unlink(path);
    rmdir(folder);
}

static void an_unknown_name_is_refused_with_the_nearest(void **state)
{
    vw_plan_model *model = NULL;
    (void)state;
    assert_int_equal(vw_plan_model_open("llama-3-8", &model), VW_ERR_FILE);
    assert_string_equal(vw_last_error(), "llama-3-8: neither a built-in model nor a file; did you "
                                         "mean 'llama-3-8b'?");
    assert_int_equal(vw_plan_model_open("", &model), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_plan_model_open(NULL, &model), VW_ERR_INVALID_ARGUMENT);
    assert_null(model);
}

static bool open_all(void *context)
{
    bool is_open = true;
    (void)context;
    for (size_t i = 0; i < PUBLISHED_COUNT && is_open; i++) {
        vw_plan_model *model = NULL;
        is_open = vw__plan_model_open_memory(published[i].json, strlen(published[i].json),
                                             &model) == VW_OK;
        vw_plan_model_close(model);
    }
    return is_open;
}

static void every_refused_allocation_is_a_status(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(open_all, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_published_configuration_comes_to_the_built_in_shape),
        cmocka_unit_test(absurd_values_are_refused_by_name),
        cmocka_unit_test(files_that_are_not_a_model_are_recognized),
        cmocka_unit_test(only_some_layers_have_a_window),
        cmocka_unit_test(a_resnet_of_transformers_has_the_weights_of_torchvisions),
        cmocka_unit_test(every_family_needs_its_fields),
        cmocka_unit_test(a_file_and_its_folder_are_the_same_model),
        cmocka_unit_test(an_unknown_name_is_refused_with_the_nearest),
        cmocka_unit_test(every_refused_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
