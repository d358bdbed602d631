/* test_plan_sharding.c - what is left of a model on one of several GPUs, or beside a host that
 * keeps it, counted by hand. */
#include "plan/sharding.h"

#include "plan/plan_settings.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/made_up_model.h"

/* Two layers of 1 MiB, the root's head of 2 MiB. */
#define WEIGHTS (4 * MIB)
#define ELEMENTS (1 * MIB)
#define LAYER (1 * MIB)
#define HEAD (2 * MIB)
#define SCALAR 512

/* The arguments of both layers and of the head, log-softmax, the total weight and the loss. */
#define KEPT (6 * MIB + 4 * MIB + 2 * SCALAR)
/* At the highest moment of its derivative: two more of the logits' size; the total weight is gone.
 */
#define LOSS_PEAK (KEPT + 8 * MIB - SCALAR)

#define ZERO_BUCKET UINT64_C(500000000)

static vw_plan_settings settings_of(vw_sharding sharding, uint64_t gpus)
{
    vw_plan_settings settings = made_up_settings();
    settings.optimizer = VW_OPTIMIZER_ADAMW;
    settings.sharding = sharding;
    settings.gpus = gpus;
    return settings;
}

/* ---- which weight is whose ------------------------------------------------------------------- */

static void weights_belong_to_the_block_that_uses_them(void **state)
{
    (void)state;
    vw__arena arena;
    vw__shard_state found;
    vw_plan_settings settings = settings_of(VW_SHARDING_FSDP, 2);
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    assert_int_equal(vw__shard_find_groups(&made_up_model, &settings, &arena, &found), VW_OK);
    assert_int_equal(found.weight_count, 3);
    assert_int_equal(found.group_count, 3);
    assert_int_equal(found.group_of[0], 1);
    assert_int_equal(found.group_of[1], 2);
    assert_int_equal(found.group_of[2], 0);
    vw__arena_deinit(&arena);
}

static void a_tied_head_is_the_roots(void **state)
{
    (void)state;
    const vw_plan_model model = {
        .family = &vw__plan_family_gpt2,
        .shape = {.hidden = 64,
                  .layers = 3,
                  .attention = {.heads = 4, .key_heads = 4, .head_width = 16},
                  .mlp = {.inner = 256, .activation = VW__PLAN_ACTIVATION_GELU_NEW},
                  .embedding = {.vocabulary = 1000, .positions = 128},
                  .head = {.is_tied = true}}};
    vw__arena arena;
    vw__shard_state found;
    vw_plan_settings settings = settings_of(VW_SHARDING_FSDP, 2);
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    assert_int_equal(vw__shard_find_groups(&model, &settings, &arena, &found), VW_OK);
    assert_int_equal(found.weight_count, 2 + 3 * 12 + 2);
    assert_int_equal(found.group_count, 4);
    for (size_t i = 0; i < found.weight_count; i++)
        assert_int_equal(found.group_of[i], i < 2 || i >= 38 ? 0 : (i - 2) / 12 + 1);
    vw__arena_deinit(&arena);
}

/* ---- DistributedDataParallel ----------------------------------------------------------------- */

static void data_parallel_training_has_buckets_beside_the_gradients(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(VW_SHARDING_NONE, 1);
    vw__plan_peaks one = made_up_peaks(&settings);
    settings.gpus = 2;
    vw__plan_peaks two = made_up_peaks(&settings);
    assert_int_equal(two.peak.live_bytes - one.peak.live_bytes, WEIGHTS);
    assert_int_equal(two.after_step_bytes - one.after_step_bytes, WEIGHTS);
    settings.mode = VW_PLAN_MODE_INFERENCE;
    assert_int_equal(made_up_peaks(&settings).after_forward_bytes,
                     MADE_UP_WORKSPACE + WEIGHTS + SCALAR);
}

/* ---- FSDP ------------------------------------------------------------------------------------ */

static void one_gpu_with_fsdp_copies_weights_and_gathers_nothing(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(VW_SHARDING_FSDP, 1);
    vw__plan_peaks peaks = made_up_peaks(&settings);
    uint64_t kept = MADE_UP_WORKSPACES + WEIGHTS + 2 * WEIGHTS; /* and AdamW's state */
    assert_int_equal(peaks.weights_bytes, WEIGHTS);
    assert_int_equal(peaks.after_forward_bytes, kept + HEAD + KEPT);
    assert_int_equal(peaks.peak.live_bytes, kept + HEAD + LOSS_PEAK);
    assert_int_equal(peaks.after_backward_bytes, kept + WEIGHTS + SCALAR);
    assert_int_equal(peaks.after_step_bytes, kept + WEIGHTS);
}

static void each_of_two_gpus_keeps_half_and_gathers_ahead(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(VW_SHARDING_FSDP, 2);
    vw__plan_peaks peaks = made_up_peaks(&settings);
    uint64_t kept = MADE_UP_WORKSPACES + WEIGHTS / 2 + 2 * WEIGHTS / 2;
    assert_int_equal(peaks.weights_bytes, WEIGHTS / 2);
    assert_int_equal(peaks.after_forward_bytes, kept + HEAD + KEPT);
    /* the last layer is on its way when the loss' derivative runs */
    assert_int_equal(peaks.peak.live_bytes, kept + HEAD + LAYER + LOSS_PEAK);
    assert_int_equal(peaks.after_step_bytes, kept + WEIGHTS / 2);
}

static void gradients_accumulate_in_the_parts(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(VW_SHARDING_FSDP, 2);
    settings.accumulation = 3;
    vw__plan_peaks peaks = made_up_peaks(&settings);
    uint64_t kept = MADE_UP_WORKSPACES + WEIGHTS / 2 + 2 * WEIGHTS / 2 + WEIGHTS / 2;
    assert_int_equal(peaks.after_forward_bytes, kept + HEAD + KEPT);
    assert_int_equal(peaks.after_step_bytes, kept);
}

static void parts_are_float32_where_weights_are_gathered_in_16_bits(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(VW_SHARDING_FSDP, 4);
    settings.precision = VW_PRECISION_BF16;
    settings.has_master_weights = true;
    vw__plan_peaks peaks = made_up_peaks(&settings);
    assert_int_equal(peaks.weights_bytes, ELEMENTS * 4 / 4);
    assert_int_equal(peaks.after_step_bytes, MADE_UP_WORKSPACES + ELEMENTS * (4 + 4 + 8) / 4);
}

/* All but the scales, a byte for 64 values and the like, is in parts. */
static void weights_in_4_bits_are_shared_as_others_are(void **state)
{
    (void)state;
    vw_plan_model *model = NULL;
    vw__plan_peaks one, two;
    vw_plan_settings settings = settings_of(VW_SHARDING_FSDP, 1), checked;
    settings.sequence = 64;
    settings.precision = VW_PRECISION_BF16;
    settings.lora_rank = 8;
    settings.is_quantized = true;
    assert_int_equal(vw_plan_model_open("smollm2-135m", &model), VW_OK);
    assert_int_equal(vw__plan_settings_check(model, &settings, &checked), VW_OK);
    assert_int_equal(vw__plan_estimate(model, &checked, &one), VW_OK);
    checked.gpus = 2;
    assert_int_equal(vw__plan_estimate(model, &checked, &two), VW_OK);
    assert_int_equal(one.parameters, two.parameters);
    assert_true(one.parameters > 134515008); /* the model's own, and the adapters' */
    assert_true(2 * two.weights_bytes >= one.weights_bytes);
    assert_true(2 * two.weights_bytes - one.weights_bytes < one.weights_bytes / 20);
    vw_plan_model_close(model);
}

/* ---- the host -------------------------------------------------------------------------------- */

static void offloaded_weights_come_block_by_block(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(VW_SHARDING_NONE, 1);
    settings.offload = VW_OFFLOAD_WEIGHTS;
    vw__plan_peaks peaks = made_up_peaks(&settings);
    assert_int_equal(peaks.weights_bytes, 0);
    assert_int_equal(peaks.after_forward_bytes, MADE_UP_WORKSPACES + HEAD + KEPT);
    assert_int_equal(peaks.after_step_bytes, MADE_UP_WORKSPACES);
    settings.mode = VW_PLAN_MODE_INFERENCE;
    settings.without_loss = true;
    peaks = made_up_peaks(&settings);
    /* the head, a layer, its argument and its result; then the head's argument and the logits */
    assert_int_equal(peaks.peak.live_bytes, MADE_UP_WORKSPACE + HEAD + (2 + 4) * MIB);
}

/* ---- ZeRO ------------------------------------------------------------------------------------ */

static void zero_splits_the_optimizers_state(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(VW_SHARDING_ZERO_1, 2);
    settings.precision = VW_PRECISION_BF16;
    vw__plan_peaks one = made_up_peaks(&settings);
    uint64_t kept = MADE_UP_WORKSPACES + 2 * ELEMENTS + 12 * ELEMENTS / 2;
    assert_int_equal(one.after_step_bytes, kept);
    assert_int_equal(one.after_backward_bytes, kept + 2 * ELEMENTS / 2 + SCALAR);
    /* gradients in float32, and the square roots; those in 16 bits are gone */
    assert_int_equal(one.phase_peaks[VW__PLAN_PHASE_STEP].live_bytes, kept + 8 * ELEMENTS / 2);
    settings.sharding = VW_SHARDING_ZERO_2;
    vw__plan_peaks two = made_up_peaks(&settings);
    assert_int_equal(two.after_step_bytes, one.after_step_bytes);
    assert_true(one.peak.live_bytes > kept + 2 * ZERO_BUCKET);
    assert_true(two.peak.live_bytes <= one.peak.live_bytes);
    settings.offload = VW_OFFLOAD_OPTIMIZER;
    assert_int_equal(made_up_peaks(&settings).after_step_bytes, MADE_UP_WORKSPACES + 2 * ELEMENTS);
}

static void zero_3_splits_weights_and_keeps_its_bucket(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(VW_SHARDING_ZERO_3, 2);
    settings.precision = VW_PRECISION_BF16;
    vw__plan_peaks peaks = made_up_peaks(&settings);
    uint64_t kept = MADE_UP_WORKSPACES + (2 + 2 + 12) * ELEMENTS / 2 + 2 * ZERO_BUCKET;
    assert_int_equal(peaks.weights_bytes, 2 * ELEMENTS / 2);
    assert_int_equal(peaks.after_step_bytes, kept);
    /* so small a model is needed again soon: it stays whole for the backward pass. In 16 bits: the
     * arguments of three products, log-softmax in float32 */
    assert_int_equal(peaks.after_forward_bytes,
                     kept + 2 * ELEMENTS + 3 * MIB + 4 * MIB + 2 * SCALAR);
}

/* ---- without host memory --------------------------------------------------------------------- */

static bool run_with(void *context)
{
    vw__plan_peaks peaks;
    return vw__plan_simulate(&made_up_model, context, NULL, &peaks, NULL) == VW_OK;
}

static void every_scheme_survives_a_lack_of_host_memory(void **state)
{
    (void)state;
    for (vw_sharding sharding = VW_SHARDING_NONE; sharding < VW_SHARDING_COUNT; sharding++) {
        vw_plan_settings settings = settings_of(sharding, 2);
        settings.checkpointing = VW_CHECKPOINTING_SELECTIVE;
        settings.loss_chunks = 4;
        vw_test_sweep_host_memory(run_with, &settings);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_belong_to_the_block_that_uses_them),
        cmocka_unit_test(a_tied_head_is_the_roots),
        cmocka_unit_test(data_parallel_training_has_buckets_beside_the_gradients),
        cmocka_unit_test(one_gpu_with_fsdp_copies_weights_and_gathers_nothing),
        cmocka_unit_test(each_of_two_gpus_keeps_half_and_gathers_ahead),
        cmocka_unit_test(gradients_accumulate_in_the_parts),
        cmocka_unit_test(parts_are_float32_where_weights_are_gathered_in_16_bits),
        cmocka_unit_test(weights_in_4_bits_are_shared_as_others_are),
        cmocka_unit_test(offloaded_weights_come_block_by_block),
        cmocka_unit_test(zero_splits_the_optimizers_state),
        cmocka_unit_test(zero_3_splits_weights_and_keeps_its_bucket),
        cmocka_unit_test(every_scheme_survives_a_lack_of_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
