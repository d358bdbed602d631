/* test_plan_heads.c - the class that a file names decides what is behind the layers.
 *
 * Parameters are those that transformers counts for the published models, with two labels. */
#include <stdio.h>
#include <string.h>

#include "vramwise/plan.h"

#include "plan/plan_model.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/zoo_models.h"

#define BERT_BASE                                                                                  \
    "\"model_type\": \"bert\", \"hidden_size\": 768, \"num_hidden_layers\": 12, "                  \
    "\"num_attention_heads\": 12, \"intermediate_size\": 3072, \"vocab_size\": 30522, "            \
    "\"max_position_embeddings\": 512, \"type_vocab_size\": 2"
#define ROBERTA_BASE                                                                               \
    "\"model_type\": \"roberta\", \"hidden_size\": 768, \"num_hidden_layers\": 12, "               \
    "\"num_attention_heads\": 12, \"intermediate_size\": 3072, \"vocab_size\": 50265, "            \
    "\"max_position_embeddings\": 514, \"type_vocab_size\": 1"
#define GPT2                                                                                       \
    "\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, "                 \
    "\"n_positions\": 1024, \"vocab_size\": 50257"
#define LLAMA_1B                                                                                   \
    "\"model_type\": \"llama\", \"hidden_size\": 2048, \"num_hidden_layers\": 16, "                \
    "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 8192, "       \
    "\"vocab_size\": 128256, \"tie_word_embeddings\": true"
#define T5_XXL                                                                                     \
    "\"model_type\": \"t5\", \"d_model\": 4096, \"num_heads\": 64, \"d_kv\": 64, "                 \
    "\"d_ff\": 10240, \"num_layers\": 24, \"vocab_size\": 32128, "                                 \
    "\"feed_forward_proj\": \"gated-gelu\", \"tie_word_embeddings\": false"
#define VIT_BASE                                                                                   \
    "\"model_type\": \"vit\", \"hidden_size\": 768, \"num_hidden_layers\": 12, "                   \
    "\"num_attention_heads\": 12, \"intermediate_size\": 3072, \"image_size\": 224, "              \
    "\"patch_size\": 16"

static vw_plan_model *open_class(const char *numbers, const char *class_name)
{
    char json[1024];
    vw_plan_model *model = NULL;
    snprintf(json, sizeof json, "{%s, \"architectures\": [\"%s\"]}", numbers, class_name);
    if (vw__plan_model_open_memory(json, strlen(json), &model) != VW_OK)
        fail_msg("%s: %s", class_name, vw_last_error());
    return model;
}

static vw_plan_settings settings_of(uint64_t batch, uint64_t sequence, vw_plan_mode mode)
{
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    settings.batch = batch;
    settings.sequence = sequence;
    settings.mode = mode;
    return settings;
}

static vw_plan *plan_of(const vw_plan_model *model, const vw_plan_settings *settings)
{
    const vw_plan_options options = {.struct_size = sizeof options, .without_choices = true};
    vw_plan *plan = NULL;
    if (vw_plan_make(model, settings, &options, &plan) != VW_OK)
        fail_msg("%s", vw_last_error());
    return plan;
}

/* Opened, planned and closed. */
static vw_plan *plan_class(const char *numbers, const char *class_name,
                           const vw_plan_settings *settings)
{
    vw_plan_model *model = open_class(numbers, class_name);
    vw_plan *plan = plan_of(model, settings);
    vw_plan_model_close(model);
    return plan;
}

/* ---- classes --------------------------------------------------------------------------------- */

static void a_class_has_its_head_and_its_parameters(void **state)
{
    static const struct {
        const char *numbers, *class_name;
        vw_plan_head head;
        uint64_t parameters;
    } classes[] = {
        {BERT_BASE, "BertForMaskedLM", VW_PLAN_HEAD_MASKED_LM, 109514298},
        {BERT_BASE, "BertForSequenceClassification", VW_PLAN_HEAD_SEQUENCE_CLASSIFICATION,
         109483778},
        {BERT_BASE, "BertForTokenClassification", VW_PLAN_HEAD_TOKEN_CLASSIFICATION, 108893186},
        {BERT_BASE, "BertForQuestionAnswering", VW_PLAN_HEAD_QUESTION_ANSWERING, 108893186},
        {BERT_BASE, "BertModel", VW_PLAN_HEAD_NONE, 109482240},
        {ROBERTA_BASE, "RobertaForSequenceClassification", VW_PLAN_HEAD_SEQUENCE_CLASSIFICATION,
         124647170},
        {ROBERTA_BASE, "RobertaModel", VW_PLAN_HEAD_NONE, 124645632},
        {GPT2, "GPT2LMHeadModel", VW_PLAN_HEAD_CAUSAL_LM, 124439808},
        {GPT2, "GPT2ForSequenceClassification", VW_PLAN_HEAD_SEQUENCE_CLASSIFICATION,
         124439808 + 2 * 768},
        {GPT2, "GPT2Model", VW_PLAN_HEAD_NONE, 124439808},
        {LLAMA_1B, "LlamaForSequenceClassification", VW_PLAN_HEAD_SEQUENCE_CLASSIFICATION,
         1235814400 + 2 * 2048},
        {LLAMA_1B, "LlamaForTokenClassification", VW_PLAN_HEAD_TOKEN_CLASSIFICATION,
         1235814400 + 2 * 2048 + 2},
        {T5_XXL, "T5EncoderModel", VW_PLAN_HEAD_ENCODER, 4762310656},
        {T5_XXL, "T5ForConditionalGeneration", VW_PLAN_HEAD_SEQ2SEQ_LM, 11135332352},
        {T5_XXL, "T5Model", VW_PLAN_HEAD_NONE, 11135332352 - 32128 * UINT64_C(4096)},
        {VIT_BASE, "ViTModel", VW_PLAN_HEAD_NONE, 86389248},
        {VIT_BASE, "ViTForImageClassification", VW_PLAN_HEAD_IMAGE_CLASSIFICATION, 85800194},
    };
    (void)state;
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        vw_plan_model *model = open_class(classes[i].numbers, classes[i].class_name);
        const uint64_t length = model->family->has_images ? 0 : 16;
        const vw_plan_settings settings = settings_of(1, length, VW_PLAN_MODE_INFERENCE);
        vw_plan *plan = plan_of(model, &settings);
        if (plan->parameters != classes[i].parameters)
            print_error("%s\n", classes[i].class_name);
        assert_int_equal(plan->parameters, classes[i].parameters);
        assert_int_equal(plan->settings.head, classes[i].head);
        assert_null(plan->caution);
        assert_int_equal(model->note_count, 0);
        vw_plan_free(plan);
        vw_plan_model_close(model);
    }
}

static void a_class_by_another_name_is_planned_and_noted(void **state)
{
    (void)state;
    vw_plan_model *model = open_class(LLAMA_1B, "LLaMAForCausalLM");
    assert_int_equal(model->head, VW_PLAN_HEAD_CAUSAL_LM);
    assert_int_equal(model->note_count, 1);
    assert_string_equal(model->notes[0],
                        "planned as LlamaForCausalLM; the configuration names LLaMAForCausalLM");
    vw_plan_model_close(model);
}

/* Other models are trained before with another head: ELECTRA's finds words that were replaced. */
static void pretraining_is_of_masked_words_in_bert_only(void **state)
{
    (void)state;
    vw_plan_model *model = open_class(BERT_BASE, "BertForPreTraining");
    assert_int_equal(model->head, VW_PLAN_HEAD_MASKED_LM);
    assert_string_equal(model->notes[0],
                        "planned as BertForMaskedLM; the configuration names BertForPreTraining");
    vw_plan_model_close(model);
    model = open_class(ROBERTA_BASE, "RobertaForPreTraining");
    assert_int_equal(model->head, VW_PLAN_HEAD_NONE);
    assert_non_null(model->caution);
    vw_plan_model_close(model);
}

static void a_class_that_is_not_known_has_no_head_and_says_so(void **state)
{
    static const char *const names[] = {"BertForMultipleChoice", "BertForCausalLM",
                                        "BertDoubleHeadsModel", "SomethingModel", "Model"};
    const vw_plan_settings settings = settings_of(2, 32, VW_PLAN_MODE_TRAIN);
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        vw_plan *plan = plan_class(BERT_BASE, names[i], &settings);
        assert_int_equal(plan->settings.head, VW_PLAN_HEAD_NONE);
        assert_non_null(plan->caution);
        assert_non_null(strstr(plan->caution, names[i]));
        assert_non_null(strstr(plan->caution, "without a head"));
        vw_plan_free(plan);
    }
}

static void without_a_class_it_is_the_usual_one(void **state)
{
    static const char json[] = "{" BERT_BASE "}";
    vw_plan_model *model;
    (void)state;
    assert_int_equal(vw__plan_model_open_memory(json, sizeof json - 1, &model), VW_OK);
    const vw_plan_settings settings = settings_of(1, 16, VW_PLAN_MODE_TRAIN);
    vw_plan *plan = plan_of(model, &settings);
    assert_int_equal(plan->settings.head, VW_PLAN_HEAD_MASKED_LM);
    assert_null(plan->caution);
    vw_plan_free(plan);
    vw_plan_model_close(model);
}

static void settings_override_the_file(void **state)
{
    vw_plan_settings settings = settings_of(1, 16, VW_PLAN_MODE_TRAIN);
    (void)state;
    settings.head = VW_PLAN_HEAD_TOKEN_CLASSIFICATION;
    vw_plan *plan = plan_class(BERT_BASE, "BertForMaskedLM", &settings);
    assert_int_equal(plan->settings.head, VW_PLAN_HEAD_TOKEN_CLASSIFICATION);
    assert_int_equal(plan->parameters, 108893186);
    vw_plan_free(plan);
    plan = plan_of(zoo_model("bert-base"), &settings);
    assert_int_equal(plan->parameters, 108893186);
    vw_plan_free(plan);
}

static void labels_are_counted_by_their_names(void **state)
{
    static const char numbers[] =
        BERT_BASE ", \"id2label\": {\"0\": \"a\", \"1\": \"b\", \"2\": \"c\"}";
    const vw_plan_settings settings = settings_of(1, 16, VW_PLAN_MODE_INFERENCE);
    (void)state;
    vw_plan *plan = plan_class(numbers, "BertForSequenceClassification", &settings);
    assert_int_equal(plan->parameters, 109483778 + 768 + 1);
    vw_plan_free(plan);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void classifiers_take_far_less_than_a_masked_language_model(void **state)
{
    static const char *const names[] = {"BertForSequenceClassification",
                                        "BertForTokenClassification", "BertForQuestionAnswering",
                                        "BertModel"};
    const vw_plan_settings settings = settings_of(128, 128, VW_PLAN_MODE_TRAIN);
    (void)state;
    vw_plan *masked = plan_class(BERT_BASE, "BertForMaskedLM", &settings);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        vw_plan *plan = plan_class(BERT_BASE, names[i], &settings);
        assert_true(plan->peak_allocated_bytes * 10 < masked->peak_allocated_bytes * 7);
        assert_true(plan->peak_allocated_bytes * 2 > masked->peak_allocated_bytes);
        vw_plan_free(plan);
    }
    vw_plan_free(masked);
}

static void embeddings_have_no_logits(void **state)
{
    static const char numbers[] =
        "\"model_type\": \"bert\", \"hidden_size\": 384, \"num_hidden_layers\": 6, "
        "\"num_attention_heads\": 12, \"intermediate_size\": 1536, \"vocab_size\": 30522, "
        "\"max_position_embeddings\": 512, \"type_vocab_size\": 2";
    const vw_plan_settings settings = settings_of(256, 256, VW_PLAN_MODE_INFERENCE);
    (void)state;
    vw_plan *plan = plan_class(numbers, "BertModel", &settings);
    assert_int_equal(plan->parameters, 22713216);
    assert_true(plan->peak_allocated_bytes < UINT64_C(1200) << 20); /* logits alone: 7.45 GiB */
    assert_true(plan->settings.without_loss);
    vw_plan_free(plan);
}

static void an_encoder_by_itself_has_no_decoder(void **state)
{
    vw_plan_settings settings = settings_of(1, 256, VW_PLAN_MODE_INFERENCE);
    (void)state;
    settings.precision = VW_PRECISION_BF16;
    settings.card_bytes = UINT64_C(16) << 30;
    vw_plan *plan = plan_class(T5_XXL, "T5EncoderModel", &settings);
    assert_true(plan->peak_allocated_bytes < UINT64_C(9) * 1024 * 1024 * 1024 + (64 << 20));
    assert_true(plan->fits);
    vw_plan_free(plan);
}

/* The hidden states of all tokens are what is left of a forward pass, and their gradients begin the
 * backward pass. */
static void without_a_head_a_mean_is_the_loss(void **state)
{
    const vw_plan_settings settings = settings_of(8, 128, VW_PLAN_MODE_TRAIN);
    (void)state;
    vw_plan *plan = plan_class(GPT2, "GPT2Model", &settings);
    assert_true(plan->phase_peaks[1] != VW_UNKNOWN);
    assert_true(plan->after_forward_bytes > plan->after_step_bytes);
    vw_plan_free(plan);
}

/* ---- adapters -------------------------------------------------------------------------------- */

/* PEFT's modules_to_save. */
static void lora_trains_a_new_head_as_a_whole(void **state)
{
    vw_plan_settings settings = settings_of(1, 16, VW_PLAN_MODE_TRAIN);
    (void)state;
    settings.lora_rank = 8;
    vw_plan *none = plan_class(LLAMA_1B, "LlamaModel", &settings);
    vw_plan *classifier = plan_class(LLAMA_1B, "LlamaForSequenceClassification", &settings);
    assert_int_equal(classifier->trained_parameters - none->trained_parameters, 2 * 2048);
    vw_plan_free(classifier);
    vw_plan_free(none);
}

/* ---- what does not go together --------------------------------------------------------------- */

static void expect_refused(const vw_plan_model *model, const vw_plan_settings *settings,
                           const char *words)
{
    vw_plan *plan = NULL;
    assert_int_equal(vw_plan_make(model, settings, NULL, &plan), VW_ERR_INVALID_ARGUMENT);
    if (strstr(vw_last_error(), words) == NULL)
        fail_msg("'%s' is not in '%s'", words, vw_last_error());
}

static void what_a_head_cannot_do_is_refused(void **state)
{
    vw_plan_settings settings = settings_of(1, 16, VW_PLAN_MODE_INFERENCE);
    (void)state;
    settings.head = VW_PLAN_HEAD_MASKED_LM;
    expect_refused(zoo_model("gpt2"), &settings,
                   "head: a model of the family gpt2 has one of causal-lm, ");
    settings.head = VW_PLAN_HEAD_NONE;
    settings.generate = 8;
    expect_refused(zoo_model("gpt2"), &settings, "generate: without a head for words");
    settings.generate = 0;
    settings.mode = VW_PLAN_MODE_TRAIN;
    settings.loss_chunks = 8;
    expect_refused(zoo_model("gpt2"), &settings, "loss chunks: ");
}

/* ---- host memory ----------------------------------------------------------------------------- */

static bool open_and_plan(void *context)
{
    static const char json[] = "{" BERT_BASE ", \"architectures\": [\"BertForMultipleChoice\"]}";
    const vw_plan_settings settings = settings_of(1, 16, VW_PLAN_MODE_INFERENCE);
    const vw_plan_options options = {
        .struct_size = sizeof options, .without_choices = true, .without_replay = true};
    vw_plan_model *model = NULL;
    vw_plan *plan = NULL;
    (void)context;
    bool is_done = vw__plan_model_open_memory(json, sizeof json - 1, &model) == VW_OK &&
                   vw_plan_make(model, &settings, &options, &plan) == VW_OK;
    vw_plan_free(plan);
    vw_plan_model_close(model);
    return is_done;
}

static void host_memory_may_fail_at_any_request(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(open_and_plan, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_has_its_head_and_its_parameters),
        cmocka_unit_test(a_class_by_another_name_is_planned_and_noted),
        cmocka_unit_test(pretraining_is_of_masked_words_in_bert_only),
        cmocka_unit_test(a_class_that_is_not_known_has_no_head_and_says_so),
        cmocka_unit_test(without_a_class_it_is_the_usual_one),
        cmocka_unit_test(settings_override_the_file),
        cmocka_unit_test(labels_are_counted_by_their_names),
        cmocka_unit_test(classifiers_take_far_less_than_a_masked_language_model),
        cmocka_unit_test(embeddings_have_no_logits),
        cmocka_unit_test(an_encoder_by_itself_has_no_decoder),
        cmocka_unit_test(without_a_head_a_mean_is_the_loss),
        cmocka_unit_test(lora_trains_a_new_head_as_a_whole),
        cmocka_unit_test(what_a_head_cannot_do_is_refused),
        cmocka_unit_test(host_memory_may_fail_at_any_request),
    };
    return cmocka_run_group_tests(tests, NULL, close_zoo_models);
}
