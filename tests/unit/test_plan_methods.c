/* test_plan_methods.c - optimizers over matrices, the fused loss, padding, and LoRA's targets: what
 * each keeps, by its formula. */
#include "vramwise/plan.h"

#include <string.h>

#include "plan/plan_model.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

enum { WIDTH = 64, LAYERS = 2, WORDS = 1000, BATCH = 2, TOKENS = 128 };

/* Of a layer: c_attn, c_proj, c_fc, c_proj. */
static const uint64_t long_sides[] = {3 * WIDTH, WIDTH, 4 * WIDTH, 4 * WIDTH};

static const char config[] = "{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_layer\": 2, "
                             "\"n_head\": 2, \"n_positions\": 128, \"vocab_size\": 1000}";

static int open_model(void **state)
{
    return vw__plan_model_open_memory(config, sizeof config - 1, (vw_plan_model **)state) == VW_OK
               ? 0
               : -1;
}

static int close_model(void **state)
{
    vw_plan_model_close(*state);
    return 0;
}

static vw_plan_settings usual_settings(void)
{
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    settings.batch = BATCH;
    settings.sequence = TOKENS;
    return settings;
}

static vw_status make(const vw_plan_model *model, const vw_plan_settings *settings, vw_plan **out)
{
    const vw_plan_options options = {
        .struct_size = sizeof options, .without_replay = true, .without_choices = true};
    return vw_plan_make(model, settings, &options, out);
}

static vw_plan *plan_of(void **state, const vw_plan_settings *settings)
{
    vw_plan *plan = NULL;
    if (make(*state, settings, &plan) != VW_OK)
        fail_msg("%s", vw_last_error());
    return plan;
}

/* ---- optimizers ------------------------------------------------------------------------------ */

static uint64_t left_by_a_step(void **state, vw_optimizer optimizer)
{
    vw_plan_settings settings = usual_settings();
    settings.optimizer = optimizer;
    vw_plan *plan = plan_of(state, &settings);
    const uint64_t bytes = plan->after_step_bytes;
    assert_true(!plan->has_error_band || optimizer < VW_OPTIMIZER_LION); /* not measured */
    vw_plan_free(plan);
    return bytes;
}

static void lion_keeps_one_tensor_for_each_parameter(void **state)
{
    assert_int_equal(left_by_a_step(state, VW_OPTIMIZER_LION),
                     left_by_a_step(state, VW_OPTIMIZER_SGD_MOMENTUM));
}

static void muon_keeps_one_tensor_for_each_inner_matrix(void **state)
{
    uint64_t elements = 0;
    for (size_t i = 0; i < 4; i++)
        elements += LAYERS * WIDTH * long_sides[i];
    assert_int_equal(left_by_a_step(state, VW_OPTIMIZER_ADAMW) -
                         left_by_a_step(state, VW_OPTIMIZER_MUON),
                     elements * sizeof(float));
}

/* The short sides are less than the rank: the space is theirs. */
static void low_ranks_keep_a_space_and_two_tensors_in_it(void **state)
{
    uint64_t space = 0;
    for (size_t i = 0; i < 4; i++)
        space += LAYERS * WIDTH * WIDTH;
    for (vw_optimizer kind = VW_OPTIMIZER_GALORE; kind <= VW_OPTIMIZER_APOLLO; kind++)
        assert_int_equal(left_by_a_step(state, kind) - left_by_a_step(state, VW_OPTIMIZER_ADAMW),
                         space * sizeof(float));
}

/* A width of 1024 has the rank of 128: less than AdamW's. */
static void low_ranks_save_where_matrices_are_wide(void **state)
{
    static const char wide[] = "{\"model_type\": \"gpt2\", \"n_embd\": 1024, \"n_layer\": 2, "
                               "\"n_head\": 2, \"n_positions\": 64, \"vocab_size\": 100}";
    vw_plan_model *model = NULL;
    vw_plan_settings settings = usual_settings();
    uint64_t bytes[VW_OPTIMIZER_COUNT] = {0};
    (void)state;
    assert_int_equal(vw__plan_model_open_memory(wide, sizeof wide - 1, &model), VW_OK);
    settings.sequence = 64;
    for (vw_optimizer kind = 0; kind < VW_OPTIMIZER_COUNT; kind++) {
        settings.optimizer = kind;
        vw_plan *plan = plan_of((void **)&model, &settings);
        bytes[kind] = plan->after_step_bytes;
        vw_plan_free(plan);
    }
    assert_true(bytes[VW_OPTIMIZER_APOLLO] <
                bytes[VW_OPTIMIZER_GALORE]); /* a view of 1024 x 1024 */
    assert_true(bytes[VW_OPTIMIZER_GALORE] < bytes[VW_OPTIMIZER_MUON]);
    assert_true(bytes[VW_OPTIMIZER_MUON] < bytes[VW_OPTIMIZER_ADAMW]);
    vw_plan_model_close(model);
}

/* ---- loss and padding ------------------------------------------------------------------------ */

static void a_fused_loss_has_its_gradients_before_the_backward_pass(void **state)
{
    vw_plan_settings settings = usual_settings();
    vw_plan *plain = plan_of(state, &settings);
    settings.has_fused_loss = true;
    vw_plan *fused = plan_of(state, &settings);
    const uint64_t logits = (uint64_t)BATCH * TOKENS * WORDS * sizeof(float);
    const uint64_t gradients = (uint64_t)(WORDS + BATCH * TOKENS) * WIDTH * sizeof(float);
    assert_true(fused->after_forward_bytes < plain->after_forward_bytes);
    assert_in_range(plain->after_forward_bytes - fused->after_forward_bytes + gradients,
                    logits - 4096, 3 * logits);
    assert_int_equal(fused->after_backward_bytes, plain->after_backward_bytes);
    assert_int_equal(fused->after_step_bytes, plain->after_step_bytes);
    assert_true(plain->has_error_band && !fused->has_error_band);
    vw_plan_free(fused);
    vw_plan_free(plain);
}

/* A frozen head has no gradient. */
static void a_fused_loss_of_a_frozen_head_keeps_that_of_the_rows(void **state)
{
    vw_plan_settings settings = usual_settings();
    settings.has_fused_loss = true;
    vw_plan *trained = plan_of(state, &settings);
    settings.lora_rank = 8;
    vw_plan *frozen = plan_of(state, &settings);
    assert_true(frozen->after_forward_bytes < trained->after_forward_bytes);
    vw_plan_free(frozen);
    vw_plan_free(trained);
}

static void padding_makes_a_mask_for_every_sample_and_layer(void **state)
{
    vw_plan_settings settings = usual_settings();
    const uint64_t pairs = (uint64_t)BATCH * TOKENS * TOKENS;
    vw_plan *plain = plan_of(state, &settings);
    settings.padding = 1;
    vw_plan *padded = plan_of(state, &settings);
    assert_int_equal(padded->settings.sequence, TOKENS);
    assert_true(padded->after_forward_bytes >=
                plain->after_forward_bytes + LAYERS * pairs * sizeof(float));
    vw_plan_free(padded);
    settings.sequence = TOKENS - 60;
    settings.padding = 32;
    padded = plan_of(state, &settings);
    assert_int_equal(padded->settings.sequence, 96);
    vw_plan_free(padded);
    vw_plan_free(plain);
}

/* ---- LoRA ------------------------------------------------------------------------------------ */

static void lora_says_what_it_adapts(void **state)
{
    enum { RANK = 4 };
    static const struct {
        const char *targets, *modules;
        unsigned sides; /* in + out of what is adapted in a layer, in widths */
    } cases[] = {
        {NULL, "c_attn", 4},
        {"all-linear", "c_attn, c_proj, c_fc", 4 + 2 + 5 + 5},
        {"c_fc", "c_fc", 5},
        {"c_fc, c_attn", "c_attn, c_fc", 9},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vw_plan_settings settings = usual_settings();
        settings.lora_rank = RANK;
        settings.lora_targets = cases[i].targets;
        vw_plan *plan = plan_of(state, &settings);
        assert_string_equal(plan->lora_modules, cases[i].modules);
        assert_int_equal(plan->trained_parameters, RANK * LAYERS * WIDTH * cases[i].sides);
        if (cases[i].targets != NULL) { /* the plan has its own */
            assert_string_equal(plan->settings.lora_targets, cases[i].targets);
            assert_ptr_not_equal(plan->settings.lora_targets, cases[i].targets);
        }
        vw_plan_free(plan);
    }
}

static void assert_refused(void **state, const vw_plan_settings *settings, const char *words)
{
    vw_plan *plan = NULL;
    assert_int_equal(make(*state, settings, &plan), VW_ERR_INVALID_ARGUMENT);
    if (strstr(vw_last_error(), words) == NULL)
        fail_msg("%s", vw_last_error());
}

static void targets_that_are_no_layer_are_refused(void **state)
{
    vw_plan_settings settings = usual_settings();
    settings.lora_targets = "c_attn";
    assert_refused(state, &settings, "there are none without LoRA");
    settings.lora_rank = 4;
    settings.lora_targets = "c_attn,q_proj";
    assert_refused(state, &settings, "some of c_attn, c_proj, c_fc, found q_proj");
    settings.lora_targets = " , ";
    assert_refused(state, &settings, "some of c_attn, c_proj, c_fc");
}

static void what_does_not_go_together_is_refused(void **state)
{
    vw_plan_settings settings = usual_settings();
    settings.has_fused_loss = true;
    settings.loss_chunks = 2;
    assert_refused(state, &settings, "fused loss: it goes through chunks of its own");
    settings.loss_chunks = 0;
    settings.head = VW_PLAN_HEAD_SEQUENCE_CLASSIFICATION;
    assert_refused(state, &settings, "fused loss: a model of the family gpt2");
    settings.head = VW_PLAN_HEAD_AUTO;
    settings.mode = VW_PLAN_MODE_INFERENCE;
    assert_refused(state, &settings, "fused loss: its gradients");
    settings = usual_settings();
    settings.padding = 1;
    settings.attention = VW_ATTENTION_FLASH;
    settings.precision = VW_PRECISION_BF16;
    assert_refused(state, &settings, "padding: flash-attn");
    settings = usual_settings();
    settings.optimizer = VW_OPTIMIZER_MUON;
    settings.sharding = VW_SHARDING_FSDP;
    settings.gpus = 2;
    assert_refused(state, &settings, "step on whole matrices");
}

static bool plan_everything(void *context)
{
    vw_plan *plan = NULL;
    vw_plan_settings settings = usual_settings();
    settings.optimizer = VW_OPTIMIZER_GALORE;
    settings.has_fused_loss = true;
    settings.padding = 1;
    settings.lora_rank = 4;
    settings.lora_targets = "all-linear";
    const bool is_made = make(context, &settings, &plan) == VW_OK;
    if (is_made)
        vw_plan_free(plan);
    return is_made;
}

static void plans_end_well_without_host_memory(void **state)
{
    vw_test_sweep_host_memory(plan_everything, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lion_keeps_one_tensor_for_each_parameter),
        cmocka_unit_test(muon_keeps_one_tensor_for_each_inner_matrix),
        cmocka_unit_test(low_ranks_keep_a_space_and_two_tensors_in_it),
        cmocka_unit_test(low_ranks_save_where_matrices_are_wide),
        cmocka_unit_test(a_fused_loss_has_its_gradients_before_the_backward_pass),
        cmocka_unit_test(a_fused_loss_of_a_frozen_head_keeps_that_of_the_rows),
        cmocka_unit_test(padding_makes_a_mask_for_every_sample_and_layer),
        cmocka_unit_test(lora_says_what_it_adapts),
        cmocka_unit_test(targets_that_are_no_layer_are_refused),
        cmocka_unit_test(what_does_not_go_together_is_refused),
        cmocka_unit_test(plans_end_well_without_host_memory),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
