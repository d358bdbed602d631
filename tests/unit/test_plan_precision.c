/* test_plan_precision.c - the types of weights: those of the file, of the settings and of cards. */
#include <stdio.h>
#include <string.h>

#include "vramwise/plan.h"

#include "plan/plan_model.h"
#include "plan/plan_settings.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/zoo_models.h"

#define GIB (UINT64_C(1) << 30)

/* Llama-2-7B: 6,738,415,616 parameters, of them 6,476,005,376 in linear layers. */
#define LLAMA_7B                                                                                   \
    "\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, "                \
    "\"num_attention_heads\": 32, \"intermediate_size\": 11008, \"vocab_size\": 32000, "           \
    "\"max_position_embeddings\": 4096"
#define LINEAR_PARAMETERS UINT64_C(6476005376)
#define OTHER_PARAMETERS (UINT64_C(6738415616) - LINEAR_PARAMETERS)

static vw_status open_with(const char *fields, vw_plan_model **out)
{
    char json[1024];
    snprintf(json, sizeof json, "{" LLAMA_7B "%s%s}", fields[0] != '\0' ? ", " : "", fields);
    return vw__plan_model_open_memory(json, strlen(json), out);
}

static vw_plan_model *opened(const char *fields)
{
    vw_plan_model *model = NULL;
    if (open_with(fields, &model) != VW_OK)
        fail_msg("%s: %s", fields, vw_last_error());
    return model;
}

static vw_plan_settings settings_of(vw_plan_mode mode)
{
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    settings.batch = 1;
    settings.sequence = 128;
    settings.mode = mode;
    return settings;
}

static vw_plan *plan_with(const char *fields, const vw_plan_settings *settings)
{
    const vw_plan_options options = {
        .struct_size = sizeof options, .without_choices = true, .without_replay = true};
    vw_plan_model *model = opened(fields);
    vw_plan *plan = NULL;
    if (vw_plan_make(model, settings, &options, &plan) != VW_OK)
        fail_msg("%s: %s", fields, vw_last_error());
    vw_plan_model_close(model);
    return plan;
}

static uint64_t weights_of(const vw_plan *plan)
{
    for (size_t i = 0; i < plan->part_count; i++)
        if (strcmp(plan->parts[i].name, "weights") == 0)
            return plan->parts[i].bytes;
    return 0;
}

/* ---- the file's type ------------------------------------------------------------------------- */

static void inference_is_in_the_type_of_the_file(void **state)
{
    static const struct {
        const char *fields;
        vw_precision precision;
        const char *basis;
    } files[] = {
        {"\"torch_dtype\": \"bfloat16\"", VW_PRECISION_BF16, "torch_dtype of the file"},
        {"\"dtype\": \"float16\"", VW_PRECISION_FP16, "torch_dtype of the file"},
        {"\"torch_dtype\": \"torch.bfloat16\"", VW_PRECISION_BF16, "torch_dtype of the file"},
        {"\"torch_dtype\": \"float32\"", VW_PRECISION_FP32, "torch_dtype of the file"},
        {"\"torch_dtype\": null", VW_PRECISION_FP32, "the default"},
        {"\"torch_dtype\": \"auto\"", VW_PRECISION_FP32, "the default"},
        {"", VW_PRECISION_FP32, "the default"},
    };
    const vw_plan_settings settings = settings_of(VW_PLAN_MODE_INFERENCE);
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        vw_plan *plan = plan_with(files[i].fields, &settings);
        assert_int_equal(plan->settings.precision, files[i].precision);
        assert_string_equal(plan->precision_basis, files[i].basis);
        const uint64_t bytes = files[i].precision == VW_PRECISION_FP32 ? 4 : 2;
        assert_in_range(weights_of(plan), bytes * UINT64_C(6738415616),
                        bytes * UINT64_C(6738415616) + (1 << 20));
        vw_plan_free(plan);
    }
}

static void what_is_asked_for_comes_first(void **state)
{
    vw_plan_settings settings = settings_of(VW_PLAN_MODE_INFERENCE);
    (void)state;
    settings.precision = VW_PRECISION_FP32;
    vw_plan *plan = plan_with("\"torch_dtype\": \"bfloat16\"", &settings);
    assert_int_equal(plan->settings.precision, VW_PRECISION_FP32);
    assert_string_equal(plan->precision_basis, "given");
    assert_false(plan->has_own_precision);
    vw_plan_free(plan);
}

static void training_is_in_float32_and_says_what_the_file_has(void **state)
{
    const vw_plan_settings settings = settings_of(VW_PLAN_MODE_TRAIN);
    bool is_said = false;
    (void)state;
    vw_plan *plan = plan_with("\"torch_dtype\": \"bfloat16\"", &settings);
    assert_int_equal(plan->settings.precision, VW_PRECISION_FP32);
    for (size_t i = 0; i < plan->note_count; i++)
        is_said |= strstr(plan->notes[i], "the file's weights are in 16 bits") != NULL;
    assert_true(is_said);
    vw_plan_free(plan);
}

static void bf16_of_a_file_is_fp16_where_the_card_has_none(void **state)
{
    vw_plan_settings settings = settings_of(VW_PLAN_MODE_INFERENCE);
    (void)state;
    settings.card_name = "v100-32g";
    vw_plan *plan = plan_with("\"torch_dtype\": \"bfloat16\"", &settings);
    assert_int_equal(plan->settings.precision, VW_PRECISION_FP16);
    assert_true(plan->has_own_precision);
    vw_plan_free(plan);
}

/* ---- quantized files ------------------------------------------------------------------------- */

static void quantized_weights_have_the_size_of_their_method(void **state)
{
    static const struct {
        const char *fields, *name;
        double bytes; /* of a weight in a linear layer, with scales and zeros */
    } files[] = {
        {"{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 128}", "awq, 4 bits",
         0.5 + (2 + 0.5) / 128},
        {"{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 128}", "gptq, 4 bits",
         0.5 + (2 + 0.5) / 128 + 0.0006},
        {"{\"quant_method\": \"gptq\", \"bits\": 8, \"group_size\": -1}", "gptq, 8 bits", 1.001},
        {"{\"quant_method\": \"bitsandbytes\", \"load_in_8bit\": true}", "bitsandbytes, 8 bits",
         1.0008},
        {"{\"load_in_4bit\": true, \"load_in_8bit\": false}", "bitsandbytes, 4 bits",
         0.5 + 4.0 / 64},
        {"{\"load_in_4bit\": true, \"bnb_4bit_use_double_quant\": true}", "bitsandbytes, 4 bits",
         0.5 + 1.0 / 64 + 4.0 / 64 / 256},
        {"{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}", "fp8, 8 bits",
         1 + 4.0 / 128 / 128},
    };
    const vw_plan_settings settings = settings_of(VW_PLAN_MODE_INFERENCE);
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char fields[256];
        snprintf(fields, sizeof fields, "\"torch_dtype\": \"float16\", \"quantization_config\": %s",
                 files[i].fields);
        vw_plan *plan = plan_with(fields, &settings);
        const double expected =
            files[i].bytes * (double)LINEAR_PARAMETERS + 2.0 * (double)OTHER_PARAMETERS;
        const double found = (double)weights_of(plan);
        if (found < 0.998 * expected || found > 1.002 * expected)
            fail_msg("%s: %.0f bytes, expected %.0f", files[i].fields, found, expected);
        assert_string_equal(plan->quantization, files[i].name);
        assert_int_equal(plan->parameters, UINT64_C(6738415616));
        assert_false(plan->has_error_band); /* nobody measured it */
        vw_plan_free(plan);
    }
}

static void a_quantized_7b_takes_less_than_5_gib(void **state)
{
    const vw_plan_settings settings = settings_of(VW_PLAN_MODE_INFERENCE);
    (void)state;
    vw_plan *plan = plan_with("\"torch_dtype\": \"float16\", \"quantization_config\": "
                              "{\"quant_method\": \"awq\", \"bits\": 4}",
                              &settings);
    assert_true(plan->peak_allocated_bytes < 5 * GIB);
    vw_plan_free(plan);
}

static void methods_that_are_not_planned_are_refused(void **state)
{
    static const struct {
        const char *fields, *words;
    } files[] = {
        {"\"quantization_config\": {\"quant_method\": \"compressed-tensors\"}",
         "quantization_config.quant_method: expected one of awq, gptq, bitsandbytes, fp8"},
        {"\"quantization_config\": {\"bits\": 4}", "quantization_config.quant_method is missing"},
        {"\"quantization_config\": {\"quant_method\": \"bitsandbytes\"}", "load_in_4bit"},
        {"\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 64}", "from 2 to 8"},
        {"\"quantization_config\": 4", "an object"},
    };
    vw_plan_model *model = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        assert_int_not_equal(open_with(files[i].fields, &model), VW_OK);
        if (strstr(vw_last_error(), files[i].words) == NULL)
            fail_msg("'%s' is not in '%s'", files[i].words, vw_last_error());
    }
    static const char experts[] =
        "{\"model_type\": \"mixtral\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "
        "\"num_attention_heads\": 4, \"intermediate_size\": 128, \"vocab_size\": 100, "
        "\"num_local_experts\": 4, \"quantization_config\": {\"quant_method\": \"awq\"}}";
    assert_int_equal(vw__plan_model_open_memory(experts, sizeof experts - 1, &model),
                     VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "experts"));
}

static void expect_refused(const vw_plan_model *model, const vw_plan_settings *settings,
                           const char *words)
{
    vw_plan *plan = NULL;
    assert_int_equal(vw_plan_make(model, settings, NULL, &plan), VW_ERR_INVALID_ARGUMENT);
    if (strstr(vw_last_error(), words) == NULL)
        fail_msg("'%s' is not in '%s'", words, vw_last_error());
}

static void packed_weights_are_not_trained(void **state)
{
    vw_plan_settings settings = settings_of(VW_PLAN_MODE_TRAIN);
    vw_plan_model *awq = opened("\"quantization_config\": {\"quant_method\": \"awq\"}");
    vw_plan_model *bnb = opened("\"quantization_config\": {\"load_in_4bit\": true}");
    (void)state;
    expect_refused(awq, &settings, "weights in awq, 4 bits, are not trained; expected inference");
    expect_refused(bnb, &settings, "expected inference, or QLoRA");
    settings.lora_rank = 8;
    settings.is_quantized = true;
    expect_refused(awq, &settings, "weights in awq");
    vw_plan_settings checked;
    assert_int_equal(vw__plan_settings_check(bnb, &settings, &checked), VW_OK);
    vw_plan_model_close(awq);
    vw_plan_model_close(bnb);
}

/* ---- cards ----------------------------------------------------------------------------------- */

static void what_a_card_cannot_do_is_refused(void **state)
{
    const vw_plan_model *llama = zoo_model("llama-3-8b");
    vw_plan_settings settings = settings_of(VW_PLAN_MODE_TRAIN);
    (void)state;
    settings.card_name = "t4";
    settings.precision = VW_PRECISION_BF16;
    settings.attention = VW_ATTENTION_FLASH;
    expect_refused(llama, &settings, "precision: t4 has no bf16");
    settings.precision = VW_PRECISION_AMP_BF16;
    expect_refused(llama, &settings, "precision: t4 has no bf16");
    settings.precision = VW_PRECISION_AMP_FP16;
    expect_refused(llama, &settings, "attention: on t4 flash-attn does not run");
    settings.attention = VW_ATTENTION_SDPA;
    settings.precision = VW_PRECISION_TF32;
    expect_refused(llama, &settings, "precision: t4 has no tf32");
    settings = settings_of(VW_PLAN_MODE_INFERENCE);
    settings.card_name = "a100-80g";
    vw_plan_model *fp8 = opened("\"quantization_config\": {\"quant_method\": \"fp8\"}");
    expect_refused(fp8, &settings, "quantization_config: a100-80g has no fp8");
    vw_plan_model_close(fp8);
    settings.card_name = "v100-32g";
    vw_plan_model *bnb = opened("\"quantization_config\": {\"load_in_8bit\": true}");
    expect_refused(bnb, &settings, "quantization_config: on v100-32g its kernels do not run");
    vw_plan_model_close(bnb);
}

static void cards_can_do_what_their_generation_can(void **state)
{
    (void)state;
    assert_false(vw__plan_card_has("p100", VW__PLAN_CARD_TENSOR_CORES));
    assert_true(vw__plan_card_has("v100-16g", VW__PLAN_CARD_TENSOR_CORES));
    assert_false(vw__plan_card_has("rtx2080ti", VW__PLAN_CARD_BF16));
    assert_true(vw__plan_card_has("rtx3090", VW__PLAN_CARD_BF16));
    assert_true(vw__plan_card_has("a100-40g", VW__PLAN_CARD_FLASH));
    assert_false(vw__plan_card_has("a100-40g", VW__PLAN_CARD_FP8));
    assert_true(vw__plan_card_has("l4", VW__PLAN_CARD_FP8));
    assert_true(vw__plan_card_has(NULL, VW__PLAN_CARD_FP8)); /* not known */
    assert_true(vw_plan_card("h100")->has_large_workspace);
    assert_false(vw_plan_card("rtx4090")->has_large_workspace);
    assert_int_equal(vw_plan_card("t4")->compute_capability, 75);
}

/* ---- the cache ------------------------------------------------------------------------------- */

static uint64_t generation_peak(vw_kv_dtype dtype, bool is_static)
{
    const vw_plan_options options = {
        .struct_size = sizeof options, .without_choices = true, .without_replay = true};
    vw_plan_settings settings = settings_of(VW_PLAN_MODE_INFERENCE);
    vw_plan *plan = NULL;
    settings.batch = 16;
    settings.sequence = 512;
    settings.generate = 3000;
    settings.precision = VW_PRECISION_BF16;
    settings.kv_dtype = dtype;
    settings.has_static_cache = is_static;
    if (vw_plan_make(zoo_model("llama-3-8b"), &settings, &options, &plan) != VW_OK)
        fail_msg("%s", vw_last_error());
    const uint64_t peak = plan->peak_allocated_bytes;
    vw_plan_free(plan);
    return peak;
}

/* Keys and values of 16 samples, 3512 tokens, 32 layers, 8 heads of 128. */
#define CACHE_ELEMENTS (UINT64_C(2) * 16 * 3512 * 32 * 8 * 128)

static void keys_and_values_take_what_their_type_takes(void **state)
{
    (void)state;
    const uint64_t usual = generation_peak(VW_KV_DTYPE_AUTO, false);
    assert_true(usual > 2 * CACHE_ELEMENTS);
    assert_int_equal(generation_peak(VW_KV_DTYPE_BF16, false), usual);
    const uint64_t fp8 = generation_peak(VW_KV_DTYPE_FP8, false);
    const uint64_t int4 = generation_peak(VW_KV_DTYPE_INT4, false);
    assert_true(usual - fp8 > CACHE_ELEMENTS * 9 / 10 && usual - fp8 < CACHE_ELEMENTS);
    assert_true(fp8 - int4 > CACHE_ELEMENTS * 4 / 10 && fp8 - int4 < CACHE_ELEMENTS / 2);
    assert_true(generation_peak(VW_KV_DTYPE_INT8, false) > fp8); /* it has scales */
}

/* It never has old and new of a layer at once, and from the prompt on all of it. */
static void a_static_cache_is_there_from_the_prompt_on(void **state)
{
    (void)state;
    const uint64_t grown = generation_peak(VW_KV_DTYPE_AUTO, false);
    const uint64_t at_once = generation_peak(VW_KV_DTYPE_AUTO, true);
    assert_true(at_once > 2 * CACHE_ELEMENTS);
    assert_true(at_once < grown + grown / 4);
    vw_plan_settings settings = settings_of(VW_PLAN_MODE_INFERENCE);
    settings.has_static_cache = true;
    expect_refused(zoo_model("llama-3-8b"), &settings, "cache: keys and values are kept");
}

/* ---- host memory ----------------------------------------------------------------------------- */

static bool open_and_plan(void *context)
{
    const vw_plan_settings settings = settings_of(VW_PLAN_MODE_INFERENCE);
    const vw_plan_options options = {
        .struct_size = sizeof options, .without_choices = true, .without_replay = true};
    vw_plan_model *model = NULL;
    vw_plan *plan = NULL;
    (void)context;
    bool is_done =
        open_with("\"quantization_config\": {\"quant_method\": \"awq\"}", &model) == VW_OK &&
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
        cmocka_unit_test(inference_is_in_the_type_of_the_file),
        cmocka_unit_test(what_is_asked_for_comes_first),
        cmocka_unit_test(training_is_in_float32_and_says_what_the_file_has),
        cmocka_unit_test(bf16_of_a_file_is_fp16_where_the_card_has_none),
        cmocka_unit_test(quantized_weights_have_the_size_of_their_method),
        cmocka_unit_test(a_quantized_7b_takes_less_than_5_gib),
        cmocka_unit_test(methods_that_are_not_planned_are_refused),
        cmocka_unit_test(packed_weights_are_not_trained),
        cmocka_unit_test(what_a_card_cannot_do_is_refused),
        cmocka_unit_test(cards_can_do_what_their_generation_can),
        cmocka_unit_test(keys_and_values_take_what_their_type_takes),
        cmocka_unit_test(a_static_cache_is_there_from_the_prompt_on),
        cmocka_unit_test(host_memory_may_fail_at_any_request),
    };
    return cmocka_run_group_tests(tests, NULL, close_zoo_models);
}
