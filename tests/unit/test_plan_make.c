/* test_plan_make.c - a plan: its peak, its parts and its verdict agree with each other. */
#include <string.h>

#include "vramwise/plan.h"

#include "plan/error_bands.h"
#include "plan/plan_device.h"
#include "plan/plan_model.h" /* vw__plan_model_open_memory */
#include "plan/plan_settings.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/zoo_models.h"

#define GIB (UINT64_C(1) << 30)

static vw_plan_settings gpt2_settings(void)
{
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    settings.batch = 4;
    settings.sequence = 512;
    settings.precision = VW_PRECISION_FP32;
    settings.head = VW_PLAN_HEAD_CAUSAL_LM;
    return settings;
}

static vw_plan *make(const char *name, const vw_plan_settings *settings)
{
    const vw_plan_options options = {.struct_size = sizeof options, .without_choices = true};
    vw_plan_model *model = NULL;
    vw_plan *plan = NULL;
    assert_int_equal(vw_plan_model_open(name, &model), VW_OK);
    assert_int_equal(vw_plan_make(model, settings, &options, &plan), VW_OK);
    vw_plan_model_close(model); /* the plan outlives it */
    return plan;
}

static uint64_t sum(const vw_part *parts, size_t count)
{
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += parts[i].bytes;
    return total;
}

static uint64_t part(const vw_part *parts, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(parts[i].name, name) == 0)
            return parts[i].bytes;
    return 0;
}

static void the_parts_add_up_to_the_peak(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt2", "llama-3.2-1b", "bert-base", "resnet50"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        vw_plan_settings settings;
        vw_plan_settings_init(&settings);
        settings.sequence = strcmp(models[i], "resnet50") == 0 ? 0 : 256;
        vw_plan *plan = make(models[i], &settings);
        assert_int_equal(sum(plan->parts, plan->part_count), plan->peak_allocated_bytes);
        assert_true(plan->peak_allocated_bytes >= plan->phase_peaks[0]);
        assert_true(plan->reserved_bytes[0] >= plan->peak_allocated_bytes);
        assert_int_equal(plan->peak_device_bytes, plan->reserved_bytes[0] + plan->context_bytes);
        vw_plan_free(plan);
    }
}

static void what_a_step_of_gpt2_keeps_is_told_by_kind_of_layer(void **state)
{
    (void)state;
    vw_plan_settings settings = gpt2_settings();
    vw_plan *plan = make("gpt2", &settings);
    uint64_t static_bytes = part(plan->parts, plan->part_count, "weights") +
                            part(plan->parts, plan->part_count, "optimizer") +
                            part(plan->parts, plan->part_count, "workspace");
    uint64_t kept = sum(plan->layer_parts, plan->layer_part_count);
    assert_true(kept <= plan->after_forward_bytes - static_bytes);
    assert_true(kept + (1 << 20) > plan->after_forward_bytes - static_bytes); /* but the ids */
    uint64_t mlp = part(plan->layer_parts, plan->layer_part_count, "mlp");
    assert_true(mlp > part(plan->layer_parts, plan->layer_part_count, "attention"));
    assert_true(part(plan->layer_parts, plan->layer_part_count, "norm") > 0);
    assert_true(part(plan->layer_parts, plan->layer_part_count, "loss") >=
                (uint64_t)4 * 512 * 50257 * 4);
    vw_plan_free(plan);
}

static void the_peak_is_where_the_settings_put_it(void **state)
{
    (void)state;
    vw_plan_settings settings = gpt2_settings();
    vw_plan *plan = make("gpt2", &settings);
    assert_string_equal(plan->peak_phase, "loss");
    assert_string_equal(plan->peak_place, "loss");
    vw_plan_free(plan);

    settings.batch = 1;
    settings.sequence = 8;
    plan = make("gpt2", &settings); /* AdamW's list of square roots */
    assert_string_equal(plan->peak_phase, "optimizer step");
    vw_plan_free(plan);

    vw_plan_settings_init(&settings);
    settings.batch = 64;
    plan = make("vit-base", &settings);
    assert_non_null(strstr(plan->peak_place, "layer 11"));
    vw_plan_free(plan);
}

/* Of a block that ran again, the derivatives need more than what they are computed from. */
static void with_checkpoints_the_peak_is_in_a_blocks_derivatives(void **state)
{
    (void)state;
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    settings.batch = 64;
    settings.checkpointing = VW_CHECKPOINTING_FULL;
    settings.optimizer = VW_OPTIMIZER_SGD;
    vw_plan *plan = make("vit-base", &settings);
    assert_string_equal(plan->peak_phase, "backward");
    assert_non_null(strstr(plan->peak_place, "layer 11 / mlp"));
    vw_plan_free(plan);
}

static void inference_has_one_phase(void **state)
{
    (void)state;
    vw_plan_settings settings = gpt2_settings();
    settings.mode = VW_PLAN_MODE_INFERENCE;
    vw_plan *plan = make("gpt2", &settings);
    assert_int_equal(plan->phase_peaks[1], VW_UNKNOWN);
    assert_int_equal(plan->phase_peaks[2], VW_UNKNOWN);
    assert_int_equal(plan->trained_parameters, 0);
    vw_plan_free(plan);
}

static void a_card_is_judged_with_the_error_counted_in(void **state)
{
    (void)state;
    vw_plan_settings settings = gpt2_settings();
    vw_plan *plan = make("gpt2", &settings);
    assert_false(plan->is_card_known);
    uint64_t peak = plan->peak_allocated_bytes;
    vw__plan_error_band band = vw__plan_error_band_of(zoo_model("gpt2"), &settings);
    uint64_t just = vw__plan_device_bytes_at_worst(peak, &settings, band);
    vw_plan_free(plan);

    settings.card_bytes = just;
    plan = make("gpt2", &settings);
    assert_true(plan->is_card_known);
    assert_true(plan->verdict == VW_PLAN_VERDICT_FITS || plan->verdict == VW_PLAN_VERDICT_BARELY ||
                plan->verdict == VW_PLAN_VERDICT_OTHER_ALLOCATOR);
    assert_int_equal(plan->fits, plan->verdict != VW_PLAN_VERDICT_OTHER_ALLOCATOR);
    assert_true(!plan->fits || plan->peak_device_bytes <= just);
    vw_plan_free(plan);

    settings.card_bytes = just - 1;
    plan = make("gpt2", &settings);
    assert_true(plan->verdict == VW_PLAN_VERDICT_TOO_CLOSE ||
                plan->verdict == VW_PLAN_VERDICT_DOES_NOT_FIT);
    assert_true(plan->is_card_known && !plan->fits);
    vw_plan_free(plan);
}

/* 81.8 GiB would be reserved, 75.4 are allocated, and the card has 79.1. */
static void a_card_that_pytorch_would_fill_is_barely_enough(void **state)
{
    (void)state;
    vw_plan_settings settings = gpt2_settings();
    settings.batch = 1;
    settings.sequence = 4096;
    settings.precision = VW_PRECISION_BF16;
    settings.card_name = "a100-80g";
    vw_plan *plan = make("llama-3.1-8b", &settings);
    assert_int_equal(plan->verdict, VW_PLAN_VERDICT_BARELY);
    assert_true(plan->fits);
    assert_true(plan->reserved_bytes[0] + plan->context_bytes > plan->settings.card_bytes);
    vw_plan_free(plan);
}

/* Between what is allocated and what PyTorch would hold: it runs out, expandable segments do not,
 * and there are other ways. */
static void a_card_may_be_enough_for_another_allocator_only(void **state)
{
    (void)state;
    vw_plan_settings settings = gpt2_settings();
    settings.batch = 32;
    settings.precision = VW_PRECISION_AMP_BF16;
    settings.head = VW_PLAN_HEAD_AUTO;
    vw_plan *plan = NULL;
    settings.card_bytes = UINT64_C(13900) << 20;
    assert_int_equal(vw_plan_make(zoo_model("bert-base"), &settings, NULL, &plan), VW_OK);
    assert_int_equal(plan->verdict, VW_PLAN_VERDICT_OTHER_ALLOCATOR);
    assert_string_equal(plan->fitting_policy, "expandable");
    assert_false(plan->fits);
    assert_true(plan->margin_bytes < 0);
    assert_true(plan->choice_count > 0 && plan->choices[0].fits);
    vw_plan_free(plan);
}

static void a_replay_on_the_card_decides_what_a_full_one_takes(void **state)
{
    (void)state;
    vw_plan_settings settings = gpt2_settings();
    vw_plan_settings checked;
    vw__plan_events events;
    bool completes[VW__PLAN_POLICIES];
    assert_int_equal(vw__plan_settings_check(zoo_model("gpt2"), &settings, &checked), VW_OK);
    assert_int_equal(vw__plan_events_make(zoo_model("gpt2"), &checked, 0, &events), VW_OK);
    assert_int_equal(vw__plan_replay_on_card(&events, 80 * GIB, completes), VW_OK);
    assert_true(completes[0] && completes[1] && completes[2]);
    assert_int_equal(vw__plan_replay_on_card(&events, GIB, completes), VW_OK);
    assert_false(completes[0] || completes[1] || completes[2]);
    vw__plan_events_deinit(&events);
}

/* Unified memory stays on a card while there is room, and never keeps a run from fitting. */
static void paged_state_is_on_the_card_as_far_as_there_is_room(void **state)
{
    (void)state;
    vw_plan_settings settings = gpt2_settings();
    settings.optimizer = VW_OPTIMIZER_PAGED_ADAM_8BIT;
    vw_plan *plan = make("gpt2", &settings);
    const uint64_t pageable = plan->pageable_bytes, with_all = plan->peak_device_bytes;
    assert_true(pageable > 2 * UINT64_C(124000000) && pageable < 2 * UINT64_C(124439808));
    assert_int_equal(plan->resident_bytes, pageable);
    assert_int_equal(with_all, plan->reserved_bytes[0] + plan->context_bytes + pageable);
    assert_int_equal(sum(plan->parts, plan->part_count), plan->peak_allocated_bytes);
    vw_plan_free(plan);
    settings.card_bytes = with_all - pageable / 8;
    plan = make("gpt2", &settings);
    assert_true(plan->fits);
    assert_int_equal(plan->resident_bytes, pageable - pageable / 8);
    assert_int_equal(plan->peak_device_bytes, settings.card_bytes);
    assert_int_equal(plan->margin_bytes, 0);
    vw_plan_free(plan);
    settings.card_bytes = GIB;
    plan = make("gpt2", &settings);
    assert_false(plan->fits);
    assert_int_equal(plan->resident_bytes, 0);
    vw_plan_free(plan);
    settings.optimizer = VW_OPTIMIZER_ADAM_8BIT;
    plan = make("gpt2", &settings);
    assert_int_equal(plan->pageable_bytes, 0);
    vw_plan_free(plan);
}

static void the_buffers_between_gpus_are_counted_once(void **state)
{
    (void)state;
    vw_plan_settings settings = gpt2_settings();
    vw_plan *one = make("gpt2", &settings);
    settings.gpus = 2;
    vw_plan *two = make("gpt2", &settings);
    assert_int_equal(two->context_bytes - one->context_bytes, UINT64_C(1485) << 20);
    assert_int_equal(two->peak_device_bytes, two->reserved_bytes[0] + two->context_bytes);
    vw_plan_free(two);
    vw_plan_free(one);
}

static bool has_note(const vw_plan *plan, const char *words)
{
    for (size_t i = 0; i < plan->note_count; i++)
        if (strstr(plan->notes[i], words) != NULL)
            return true;
    return false;
}

static void qlora_is_planned_as_trainers_run_it(void **state)
{
    (void)state;
    static const char words[] = "QLoRA without autocast";
    vw_plan_settings settings = gpt2_settings();
    settings.lora_rank = 8;
    settings.is_quantized = true;
    vw_plan *plan = make("gpt2", &settings); /* fp32, as was asked */
    assert_true(has_note(plan, words));
    assert_int_equal(plan->settings.precision, VW_PRECISION_FP32);
    vw_plan_free(plan);
    settings.precision = VW_PRECISION_AMP_BF16;
    plan = make("gpt2", &settings);
    assert_false(has_note(plan, words));
    const uint64_t autocast_bytes = plan->peak_allocated_bytes;
    vw_plan_free(plan);
    settings.precision = VW_PRECISION_BF16;
    plan = make("gpt2", &settings);
    assert_int_equal(plan->settings.precision, VW_PRECISION_AMP_BF16);
    assert_string_equal(plan->precision_basis, "as trainers run QLoRA");
    assert_int_equal(plan->peak_allocated_bytes, autocast_bytes);
    vw_plan_free(plan);
    settings.precision = VW_PRECISION_AUTO;
    settings.card_name = "t4";
    plan = make("gpt2", &settings);
    assert_int_equal(plan->settings.precision, VW_PRECISION_AMP_FP16);
    vw_plan_free(plan);
}

/* In bf16 it took half as much again as LoRA did: float32 activations, that nobody trains with. */
static void qlora_takes_less_than_lora(void **state)
{
    (void)state;
    vw_plan_settings settings = gpt2_settings();
    settings.batch = 1;
    settings.sequence = 2048;
    settings.precision = VW_PRECISION_BF16;
    settings.lora_rank = 16;
    vw_plan *lora = make("llama-3-8b", &settings);
    settings.is_quantized = true;
    vw_plan *qlora = make("llama-3-8b", &settings);
    assert_true(qlora->peak_allocated_bytes < lora->peak_allocated_bytes);
    vw_plan_free(qlora);
    vw_plan_free(lora);
}

static void what_nobody_measured_has_no_band(void **state)
{
    (void)state;
    vw_plan_settings settings = gpt2_settings();
    vw_plan *plan = make("gpt2", &settings);
    assert_true(plan->has_error_band);
    assert_true(plan->error_low <= plan->error_high);
    vw_plan_free(plan);

    settings.optimizer = VW_OPTIMIZER_ADAM_8BIT;
    plan = make("gpt2", &settings);
    assert_false(plan->has_error_band);
    assert_non_null(strstr(plan->error_basis, "measured"));
    vw_plan_free(plan);

    settings = gpt2_settings();
    settings.gpus = 8;
    plan = make("gpt2", &settings);
    assert_false(plan->has_error_band);
    vw_plan_free(plan);
}

static void a_band_says_how_large_the_measured_models_were(void **state)
{
    (void)state;
    vw_plan_settings settings = gpt2_settings();
    settings.batch = 1;
    settings.precision = VW_PRECISION_BF16;
    vw_plan *plan = make("llama-3-70b", &settings);
    assert_true(plan->has_error_band);
    assert_non_null(strstr(plan->error_basis, "llama, causal-lm"));
    assert_non_null(
        strstr(plan->error_basis, "this one has 70.6B parameters, measured up to 1.24B"));
    vw_plan_free(plan);
    settings = gpt2_settings();
    plan = make("gpt2", &settings);
    assert_null(strstr(plan->error_basis, "measured up to"));
    vw_plan_free(plan);
    settings.head = VW_PLAN_HEAD_QUESTION_ANSWERING;
    plan = make("gpt2", &settings);
    assert_false(plan->has_error_band);
    vw_plan_free(plan);
}

static void an_error_band_holds_all_cases_of_its_kind_and_no_other(void **state)
{
    (void)state;
    const vw__plan_measured_case cases[] = {
        {.family = "gpt2",
         .head = VW_PLAN_HEAD_CAUSAL_LM,
         .optimizer = VW_OPTIMIZER_ADAMW,
         .error = -0.01},
        {.family = "gpt2",
         .head = VW_PLAN_HEAD_CAUSAL_LM,
         .optimizer = VW_OPTIMIZER_ADAMW_FUSED,
         .error = 0.02},
        {.family = "gpt2",
         .head = VW_PLAN_HEAD_CAUSAL_LM,
         .optimizer = VW_OPTIMIZER_SGD,
         .error = 0.5},
        {.family = "bert",
         .head = VW_PLAN_HEAD_CAUSAL_LM,
         .optimizer = VW_OPTIMIZER_ADAMW,
         .error = 0.6},
        {.family = "gpt2", .optimizer = VW_OPTIMIZER_ADAMW, .error = 0.8}, /* of another class */
        {.family = "gpt2",
         .head = VW_PLAN_HEAD_CAUSAL_LM,
         .optimizer = VW_OPTIMIZER_ADAMW,
         .precision = VW_PRECISION_BF16,
         .error = 0.7},
    };
    vw_plan_settings settings = gpt2_settings();
    vw__plan_error_band band = vw__plan_error_band_among(cases, 6, "gpt2", &settings);
    assert_int_equal(band.case_count, 2);
    assert_true(band.low == -0.01 && band.high == 0.02);
    settings.precision = VW_PRECISION_FP16; /* as many bytes as bf16 */
    assert_int_equal(vw__plan_error_band_among(cases, 6, "gpt2", &settings).case_count, 1);
    settings.lora_rank = 8;
    assert_int_equal(vw__plan_error_band_among(cases, 6, "gpt2", &settings).case_count, 0);
}

static void many_accumulated_batches_are_planned_as_few(void **state)
{
    (void)state;
    vw_plan_settings settings = gpt2_settings();
    settings.accumulation = 3;
    vw_plan *few = make("gpt2", &settings);
    settings.accumulation = 100000;
    vw_plan *many = make("gpt2", &settings);
    assert_int_equal(few->peak_allocated_bytes, many->peak_allocated_bytes);
    assert_int_equal(many->settings.accumulation, 100000);
    vw_plan_free(many);
    vw_plan_free(few);
}

static void what_is_not_covered_is_noted(void **state)
{
    (void)state;
    vw_plan_settings settings = gpt2_settings();
    vw_plan *plan = make("gpt2", &settings);
    assert_true(has_note(plan, "torch.compile"));
    vw_plan_free(plan);
}

static void nonsense_is_refused_and_nothing_is_handed_out(void **state)
{
    (void)state;
    vw_plan_settings settings = gpt2_settings();
    vw_plan *plan = NULL;
    settings.batch = 0;
    assert_int_equal(vw_plan_make(zoo_model("gpt2"), &settings, NULL, &plan),
                     VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_plan_make(NULL, &settings, NULL, &plan), VW_ERR_INVALID_ARGUMENT);
    assert_null(plan);
    vw_plan_free(NULL);
}

static bool plan_something(void *context)
{
    const vw_plan_model *model = context;
    vw_plan_settings settings = gpt2_settings();
    settings.card_bytes = 2 * GIB;
    vw_plan *plan = NULL;
    if (vw_plan_make(model, &settings, NULL, &plan) != VW_OK)
        return false;
    vw_plan_free(plan);
    return true;
}

static void every_failure_of_host_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    static const char tiny[] =
        "{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_layer\": 1, \"n_head\": 2, "
        "\"vocab_size\": 100, \"n_positions\": 512}";
    vw_plan_model *model = NULL;
    assert_int_equal(vw__plan_model_open_memory(tiny, sizeof tiny - 1, &model), VW_OK);
    vw_test_sweep_host_memory(plan_something, model);
    vw_plan_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_add_up_to_the_peak),
        cmocka_unit_test(what_a_step_of_gpt2_keeps_is_told_by_kind_of_layer),
        cmocka_unit_test(the_peak_is_where_the_settings_put_it),
        cmocka_unit_test(with_checkpoints_the_peak_is_in_a_blocks_derivatives),
        cmocka_unit_test(inference_has_one_phase),
        cmocka_unit_test(a_card_is_judged_with_the_error_counted_in),
        cmocka_unit_test(a_card_that_pytorch_would_fill_is_barely_enough),
        cmocka_unit_test(a_card_may_be_enough_for_another_allocator_only),
        cmocka_unit_test(a_replay_on_the_card_decides_what_a_full_one_takes),
        cmocka_unit_test(a_band_says_how_large_the_measured_models_were),
        cmocka_unit_test(paged_state_is_on_the_card_as_far_as_there_is_room),
        cmocka_unit_test(the_buffers_between_gpus_are_counted_once),
        cmocka_unit_test(qlora_is_planned_as_trainers_run_it),
        cmocka_unit_test(qlora_takes_less_than_lora),
        cmocka_unit_test(what_nobody_measured_has_no_band),
        cmocka_unit_test(an_error_band_holds_all_cases_of_its_kind_and_no_other),
        cmocka_unit_test(many_accumulated_batches_are_planned_as_few),
        cmocka_unit_test(what_is_not_covered_is_noted),
        cmocka_unit_test(nonsense_is_refused_and_nothing_is_handed_out),
        cmocka_unit_test(every_failure_of_host_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, close_zoo_models);
}
