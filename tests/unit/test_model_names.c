/* test_model_names.c - what a model may be called: built in, published, in the hub's cache, or a
 * part of another. */
#include "vramwise/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan/model_hub.h"
#include "plan/plan_model.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

/* ---- names ----------------------------------------------------------------------------------- */

static void published_names_find_the_built_in_model(void **state)
{
    static const struct {
        const char *published, *name;
    } cases[] = {
        {"meta-llama/Llama-3.1-8B", "llama-3.1-8b"},
        {"meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"},
        {"Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"},
        {"google-bert/bert-base-uncased", "bert-base"},
        {"unsloth/llama_2_7b_chat_hf", "llama-2-7b"},
        {"GPT 2", "gpt2"},
        {"microsoft/phi-1_5", "phi-1.5"},
        {"mistralai/Mistral-7B-v0.1", "mistral-7b"},
        {"mistralai/Mistral-7B-v0.3", NULL},   /* more words */
        {"google-bert/bert-base-cased", NULL}, /* fewer */
        {"TheBloke/Llama-2-7B-AWQ", NULL},     /* quantized */
        {"org/gpt2-it-chat", NULL},
        {"-it", NULL},
        {"", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *found = vw__plan_zoo_name(cases[i].published);
        if (cases[i].name == NULL)
            assert_null(found);
        else
            assert_string_equal(found, cases[i].name);
    }
}

/* Each entry of zoo_names.def has a model behind it: else it would be no better than a typo. */
static void every_alias_is_of_a_built_in_model(void **state)
{
    static const char *const published[] = {
#define ALIAS(name, known) name,
#include "plan/zoo_names.def"
#undef ALIAS
    };
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++)
        assert_non_null(vw__plan_zoo_name(published[i]));
}

static void names_of_the_hub_are_told_from_paths(void **state)
{
    (void)state;
    assert_true(vw__model_hub_is_name("gpt2"));
    assert_true(vw__model_hub_is_name("meta-llama/Llama-3.1-8B"));
    assert_false(vw__model_hub_is_name("./gpt2"));
    assert_false(vw__model_hub_is_name("a/.."));
    assert_false(vw__model_hub_is_name("a/b/c"));
    assert_false(vw__model_hub_is_name("/a"));
    assert_false(vw__model_hub_is_name("a/"));
    assert_false(vw__model_hub_is_name("a b"));
    assert_false(vw__model_hub_is_name(""));
}

/* ---- the cache ------------------------------------------------------------------------------- */

static char folder[] = "/tmp/vramwise-hub-XXXXXX";

static void write_file(const char *below, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, below);
    for (char *slash = path + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static const char small[] = "{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_layer\": 2, "
                            "\"n_head\": 2, \"n_positions\": 128, \"vocab_size\": 1000}";
static const char large[] = "{\"model_type\": \"gpt2\", \"n_embd\": 128, \"n_layer\": 2, "
                            "\"n_head\": 2, \"n_positions\": 128, \"vocab_size\": 1000}";

static int make_cache(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    write_file("models--one--small/refs/main", "aaaa\n");
    write_file("models--one--small/snapshots/aaaa/config.json", small);
    write_file("models--one--small/snapshots/bbbb/config.json", large);
    write_file("models--one--unnamed/snapshots/cccc/config.json", large);
    write_file("models--one--weights/snapshots/cccc/model.safetensors", "");
    write_file("models--one--escaping/refs/main", "../../../etc");
    write_file("models--gpt9/refs/main", "dddd");
    write_file("models--gpt9/snapshots/dddd/config.json", small);
    return setenv("HF_HUB_CACHE", folder, 1);
}

static int remove_cache(void **state)
{
    char command[600];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static uint64_t hidden_of(const char *name)
{
    vw_plan_model *model = NULL;
    if (vw_plan_model_open(name, &model) != VW_OK)
        fail_msg("%s", vw_last_error());
    const uint64_t hidden = model->shape.hidden;
    vw_plan_model_close(model);
    return hidden;
}

static void a_snapshot_in_the_cache_is_used(void **state)
{
    (void)state;
    assert_int_equal(hidden_of("one/small"), 64);
    assert_int_equal(hidden_of("one/unnamed"), 128);
    assert_int_equal(hidden_of("gpt9"), 64);
}

static void the_cache_is_found_as_the_hub_finds_it(void **state)
{
    static const struct {
        const char *variable, *value, *cache;
    } cases[] = {
        {"HF_HUB_CACHE", "/a", "/a"},
        {"HF_HOME", "/b", "/b/hub"},
        {"XDG_CACHE_HOME", "/c", "/c/huggingface/hub"},
        {"HOME", "/d", "/d/.cache/huggingface/hub"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vw__byte_buffer cache;
        for (size_t j = 0; j < sizeof cases / sizeof cases[0]; j++)
            unsetenv(cases[j].variable);
        setenv(cases[i].variable, cases[i].value, 1);
        vw__byte_buffer_init(&cache);
        vw__model_hub_append_cache(&cache);
        assert_string_equal(vw__byte_buffer_text(&cache), cases[i].cache);
        vw__byte_buffer_deinit(&cache);
    }
    setenv("HF_HUB_CACHE", folder, 1);
}

static void assert_refused(const char *name, const char *words)
{
    vw_plan_model *model = NULL;
    assert_int_equal(vw_plan_model_open(name, &model), VW_ERR_FILE);
    if (strstr(vw_last_error(), words) == NULL)
        fail_msg("%s", vw_last_error());
}

static void what_is_nowhere_is_named_with_the_file_to_fetch(void **state)
{
    (void)state;
    assert_refused("one/weights", "https://huggingface.co/one/weights/resolve/main/config.json");
    assert_refused("one/escaping", "'hf download one/escaping config.json'");
    assert_refused("one/escaping", folder);
    assert_refused("gtp2", "did you mean 'gpt2'?");
    assert_refused("something-else", "ORGANISATION/NAME");
    assert_refused("models/config.json", "nor a file");
}

static bool open_and_close(void *context)
{
    vw_plan_model *model = NULL;
    const bool is_open = vw_plan_model_open(context, &model) == VW_OK;
    if (is_open)
        vw_plan_model_close(model);
    return is_open;
}

static void names_end_well_without_host_memory(void **state)
{
    static char snapshot[] = "one/small", newest[] = "one/unnamed", known[] = "org/GPT2";
    (void)state;
    vw_test_sweep_host_memory(open_and_close, snapshot);
    vw_test_sweep_host_memory(open_and_close, newest);
    vw_test_sweep_host_memory(open_and_close, known);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static vw_plan_model *open_json(const char *json)
{
    vw_plan_model *model = NULL;
    if (vw__plan_model_open_memory(json, strlen(json), &model) != VW_OK)
        fail_msg("%s", vw_last_error());
    return model;
}

static void the_text_part_is_planned_with_the_defaults_of_its_class(void **state)
{
    (void)state;
    vw_plan_model *model = open_json("{\"model_type\": \"llava\", \"torch_dtype\": \"float16\", "
                                     "\"text_config\": {\"model_type\": \"llama\", "
                                     "\"vocab_size\": 32064}, \"vision_config\": {}}");
    assert_int_equal(model->shape.hidden, 4096);
    assert_int_equal(model->shape.layers, 32);
    assert_int_equal(model->shape.mlp.inner, 11008);
    assert_int_equal(model->shape.embedding.vocabulary, 32064);
    assert_int_equal(model->precision, VW_PRECISION_FP16);
    assert_false(model->shape.head.is_tied);
    assert_non_null(strstr(model->caution, "the text part alone (text_config, as llama)"));
    vw_plan_model_close(model);
}

static void a_part_has_its_own_type_and_the_whole_says_what_is_tied(void **state)
{
    (void)state;
    vw_plan_model *model =
        open_json("{\"model_type\": \"x\", \"torch_dtype\": \"float16\", "
                  "\"tie_word_embeddings\": true, \"llm_config\": {\"model_type\": \"qwen2\", "
                  "\"torch_dtype\": \"bfloat16\"}}");
    assert_int_equal(model->precision, VW_PRECISION_BF16);
    assert_true(model->shape.head.is_tied);
    vw_plan_model_close(model);
}

static void parts_are_found_inside_of_parts_and_in_whole_files(void **state)
{
    (void)state;
    vw_plan_model *model =
        open_json("{\"model_type\": \"qwen2_5_omni\", \"thinker_config\": {\"model_type\": \"t\", "
                  "\"text_config\": {\"model_type\": \"qwen2_5_omni_text\", \"hidden_size\": 3584, "
                  "\"num_attention_heads\": 28, \"num_key_value_heads\": 4}}}");
    assert_int_equal(model->shape.hidden, 3584);
    vw_plan_model_close(model);
    model = open_json("{\"model_type\": \"qwen2_vl\", \"hidden_size\": 1536, "
                      "\"num_attention_heads\": 12, \"num_key_value_heads\": 2, "
                      "\"num_hidden_layers\": 28, \"intermediate_size\": 8960, "
                      "\"vocab_size\": 151936, \"vision_config\": {}}");
    assert_int_equal(model->shape.hidden, 1536);
    assert_non_null(strstr(model->caution, "the text part alone (as qwen2)"));
    vw_plan_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_names_find_the_built_in_model),
        cmocka_unit_test(every_alias_is_of_a_built_in_model),
        cmocka_unit_test(names_of_the_hub_are_told_from_paths),
        cmocka_unit_test(a_snapshot_in_the_cache_is_used),
        cmocka_unit_test(the_cache_is_found_as_the_hub_finds_it),
        cmocka_unit_test(what_is_nowhere_is_named_with_the_file_to_fetch),
        cmocka_unit_test(names_end_well_without_host_memory),
        cmocka_unit_test(the_text_part_is_planned_with_the_defaults_of_its_class),
        cmocka_unit_test(a_part_has_its_own_type_and_the_whole_says_what_is_tied),
        cmocka_unit_test(parts_are_found_inside_of_parts_and_in_whole_files),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
