/* test_plan_settings.c - what optimizers, adapters, chunks, checkpoints and caches take, counted by
 * hand. */
#include "plan/plan_run.h"

#include "support/cmocka_here.h"
#include "support/made_up_model.h"

/* Weights, and as much of gradients: 1 MiB for each of two layers, 2 MiB for the head. */
#define WEIGHTS (4 * MIB)
#define ELEMENTS (1 * MIB)
#define SCALAR 512 /* as the allocator rounds it */

/* ---- optimizers ------------------------------------------------------------------------------ */

static uint64_t state_bytes(vw_optimizer optimizer)
{
    vw_plan_settings settings = made_up_settings();
    settings.optimizer = optimizer;
    return made_up_peaks(&settings).after_step_bytes - MADE_UP_WORKSPACES - 2 * WEIGHTS;
}

/* What the step takes beside what it leaves behind. */
static uint64_t step_bytes(vw_optimizer optimizer)
{
    vw_plan_settings settings = made_up_settings();
    settings.optimizer = optimizer;
    vw__plan_peaks peaks = made_up_peaks(&settings);
    return peaks.phase_peaks[VW__PLAN_PHASE_STEP].live_bytes - peaks.after_step_bytes;
}

static void optimizers_keep_what_they_keep(void **state)
{
    (void)state;
    assert_int_equal(state_bytes(VW_OPTIMIZER_SGD), 0);
    assert_int_equal(state_bytes(VW_OPTIMIZER_SGD_MOMENTUM), WEIGHTS);
    assert_int_equal(state_bytes(VW_OPTIMIZER_ADAMW), 2 * WEIGHTS);
    assert_int_equal(state_bytes(VW_OPTIMIZER_ADAMW_LOOP), 2 * WEIGHTS);
    assert_int_equal(state_bytes(VW_OPTIMIZER_ADAMW_FUSED), 2 * WEIGHTS + 3 * SCALAR);
    /* rows and columns: 512 + 512 twice, 1024 + 512 */
    assert_int_equal(state_bytes(VW_OPTIMIZER_ADAFACTOR), 4 * (2 * 1024 + 1536));
}

static void steps_take_what_they_take(void **state)
{
    (void)state;
    assert_int_equal(step_bytes(VW_OPTIMIZER_SGD), 0);
    assert_int_equal(step_bytes(VW_OPTIMIZER_SGD_MOMENTUM), 0);
    assert_int_equal(step_bytes(VW_OPTIMIZER_ADAMW), WEIGHTS);
    assert_int_equal(step_bytes(VW_OPTIMIZER_ADAMW_FUSED), 0);
    assert_int_equal(step_bytes(VW_OPTIMIZER_ADAMW_LOOP), 5 * MIB); /* the head twice, a layer */
    assert_int_equal(step_bytes(VW_OPTIMIZER_ADAFACTOR), 3 * MIB);  /* the head, a layer */
    assert_int_equal(step_bytes(VW_OPTIMIZER_ADAM_8BIT), 0);
}

static void eight_bit_states_have_scales_and_tables(void **state)
{
    (void)state;
    uint64_t scales = 2 * 4 * ELEMENTS / 256, tables = 2 * 1024;
    assert_int_equal(state_bytes(VW_OPTIMIZER_ADAM_8BIT), 2 * ELEMENTS + scales + tables);
    assert_int_equal(state_bytes(VW_OPTIMIZER_PAGED_ADAM_8BIT), scales + tables);
    vw_plan_settings settings = made_up_settings();
    settings.optimizer = VW_OPTIMIZER_PAGED_ADAM_8BIT;
    assert_int_equal(made_up_peaks(&settings).pageable_bytes, 2 * ELEMENTS);
    settings.optimizer = VW_OPTIMIZER_ADAM_8BIT;
    assert_int_equal(made_up_peaks(&settings).pageable_bytes, 0);
}

static void float32_copies_are_12_bytes_a_parameter_with_adamw(void **state)
{
    (void)state;
    vw_plan_settings settings = made_up_settings();
    settings.precision = VW_PRECISION_BF16;
    settings.has_master_weights = true;
    settings.optimizer = VW_OPTIMIZER_ADAMW;
    vw__plan_peaks peaks = made_up_peaks(&settings);
    assert_int_equal(peaks.after_step_bytes, MADE_UP_WORKSPACES + (2 + 2 + 12) * ELEMENTS);
    /* gradients in float32, and the square roots */
    assert_int_equal(peaks.phase_peaks[VW__PLAN_PHASE_STEP].live_bytes - peaks.after_step_bytes,
                     (4 + 4) * ELEMENTS);
}

static void an_optimizer_on_the_host_leaves_weights_and_gradients(void **state)
{
    (void)state;
    vw_plan_settings settings = made_up_settings();
    settings.optimizer = VW_OPTIMIZER_ADAMW;
    settings.offload = VW_OFFLOAD_OPTIMIZER;
    vw__plan_peaks peaks = made_up_peaks(&settings);
    assert_int_equal(peaks.after_step_bytes, MADE_UP_WORKSPACES + 2 * WEIGHTS);
    assert_int_equal(peaks.phase_peaks[VW__PLAN_PHASE_STEP].live_bytes, peaks.after_step_bytes);
}

/* The step is the GPU's, with what it takes for a moment; only the state may go. */
static void a_state_that_is_spilled_may_leave_and_its_step_stays(void **state)
{
    (void)state;
    vw_plan_settings settings = made_up_settings();
    settings.optimizer = VW_OPTIMIZER_ADAMW;
    vw__plan_peaks before = made_up_peaks(&settings);
    settings.offload = VW_OFFLOAD_SPILL;
    vw__plan_peaks peaks = made_up_peaks(&settings);
    assert_int_equal(before.pageable_bytes, 0);
    assert_int_equal(peaks.pageable_bytes, 2 * WEIGHTS);
    assert_int_equal(peaks.after_step_bytes, before.after_step_bytes - 2 * WEIGHTS);
    assert_int_equal(peaks.phase_peaks[VW__PLAN_PHASE_STEP].live_bytes,
                     before.phase_peaks[VW__PLAN_PHASE_STEP].live_bytes - 2 * WEIGHTS);
}

/* ---- adapters -------------------------------------------------------------------------------- */

enum { RANK = 8 };
#define ADAPTER_ELEMENTS (UINT64_C(2) * RANK * 2 * MADE_UP_WIDTH) /* of both layers */
#define LOW (UINT64_C(1024) * RANK * 4)                           /* lora_A(x), float32 */

/* log-softmax, the total weight and the loss */
#define LOSS_KEPT (4 * MIB + 2 * SCALAR)

static vw_plan_settings lora_settings(vw_precision precision)
{
    vw_plan_settings settings = made_up_settings();
    settings.precision = precision;
    settings.lora_rank = RANK;
    settings.optimizer = VW_OPTIMIZER_ADAMW;
    return settings;
}

static void frozen_layers_keep_only_what_adapters_read(void **state)
{
    (void)state;
    vw_plan_settings settings = lora_settings(VW_PRECISION_FP32);
    vw__plan_peaks peaks = made_up_peaks(&settings);
    uint64_t adapters = 4 * ADAPTER_ELEMENTS;
    assert_int_equal(peaks.trained_parameters, ADAPTER_ELEMENTS);
    assert_int_equal(peaks.parameters, ELEMENTS + ADAPTER_ELEMENTS);
    assert_int_equal(peaks.after_step_bytes, MADE_UP_WORKSPACES + WEIGHTS + 4 * adapters);
    /* each layer's argument, for lora_A; what lora_B read; the head's argument is not kept */
    assert_int_equal(peaks.after_forward_bytes,
                     MADE_UP_WORKSPACES + WEIGHTS + 3 * adapters + 2 * (2 * MIB + LOW) + LOSS_KEPT);
}

static void adapters_of_a_16_bit_model_read_float32_copies(void **state)
{
    (void)state;
    vw_plan_settings settings = lora_settings(VW_PRECISION_BF16);
    vw__plan_peaks peaks = made_up_peaks(&settings);
    uint64_t adapters = 4 * ADAPTER_ELEMENTS;
    assert_int_equal(peaks.after_step_bytes, MADE_UP_WORKSPACES + WEIGHTS / 2 + 4 * adapters);
    assert_int_equal(peaks.after_forward_bytes, MADE_UP_WORKSPACES + WEIGHTS / 2 + 3 * adapters +
                                                    2 * (2 * MIB + LOW) + LOSS_KEPT);
}

static void checkpointed_adapters_keep_each_blocks_argument(void **state)
{
    (void)state;
    vw_plan_settings settings = lora_settings(VW_PRECISION_FP32);
    settings.checkpointing = VW_CHECKPOINTING_FULL;
    vw__plan_peaks peaks = made_up_peaks(&settings);
    assert_int_equal(peaks.after_forward_bytes, MADE_UP_WORKSPACES + WEIGHTS +
                                                    3 * 4 * ADAPTER_ELEMENTS + 2 * 2 * MIB +
                                                    LOSS_KEPT);
    assert_int_equal(peaks.after_step_bytes,
                     MADE_UP_WORKSPACES + WEIGHTS + 4 * 4 * ADAPTER_ELEMENTS);
}

static void four_bits_are_half_a_byte_and_scales(void **state)
{
    (void)state;
    vw_plan_settings settings = lora_settings(VW_PRECISION_BF16);
    settings.is_quantized = true;
    vw__plan_peaks peaks = made_up_peaks(&settings);
    /* half a byte; a byte for 64; float32 for 64 * 256, the table and the offset, rounded */
    uint64_t layer = 512 * 512 / 2 + 512 * 512 / 64 + 3 * SCALAR;
    assert_int_equal(peaks.weights_bytes, 2 * layer + 2 * MIB + 4 * ADAPTER_ELEMENTS);
    assert_int_equal(peaks.parameters, ELEMENTS + ADAPTER_ELEMENTS);
    /* rows are float32: the adapters read them as they are */
    assert_int_equal(peaks.after_forward_bytes, MADE_UP_WORKSPACES + peaks.weights_bytes +
                                                    2 * 4 * ADAPTER_ELEMENTS + 2 * (2 * MIB + LOW) +
                                                    LOSS_KEPT);
}

/* ---- the loss in chunks ---------------------------------------------------------------------- */

static void chunks_leave_nothing_of_the_logits(void **state)
{
    (void)state;
    vw_plan_settings settings = made_up_settings();
    vw__plan_peaks whole = made_up_peaks(&settings);
    settings.loss_chunks = 4;
    vw__plan_peaks chunked = made_up_peaks(&settings);
    /* the arguments of both layers and of the head, and the loss */
    assert_int_equal(chunked.after_forward_bytes, MADE_UP_WORKSPACES + WEIGHTS + 6 * MIB + SCALAR);
    assert_int_equal(whole.after_forward_bytes, MADE_UP_WORKSPACES + WEIGHTS + 6 * MIB + LOSS_KEPT);
    /* a chunk's logits and their log-softmax, its loss beside the sum and the total weight */
    assert_int_equal(chunked.phase_peaks[VW__PLAN_PHASE_FORWARD].live_bytes,
                     MADE_UP_WORKSPACES + WEIGHTS + 6 * MIB + 2 * MIB + 3 * SCALAR);
    assert_int_equal(chunked.after_backward_bytes, whole.after_backward_bytes);
    assert_true(chunked.peak.live_bytes < whole.peak.live_bytes);
}

/* Under autocast the head's weight is cast in the first chunk for all of them, but again in each
 * when it runs again: what those keep must go where the first ones' went. */
static void chunks_that_share_a_cast_weight_leave_nothing_behind(void **state)
{
    (void)state;
    const vw_plan_model model = {
        .family = &vw__plan_family_bert,
        .shape = {.hidden = 512,
                  .layers = 1,
                  .attention = {.heads = 8, .key_heads = 8, .head_width = 64},
                  .mlp = {.inner = 1024},
                  .embedding = {.vocabulary = 1000, .positions = 512, .token_types = 2}}};
    vw_plan_settings settings = made_up_settings();
    settings.precision = VW_PRECISION_AMP_BF16;
    vw__plan_peaks whole, chunked;
    assert_int_equal(vw__plan_simulate(&model, &settings, NULL, &whole, NULL), VW_OK);
    settings.loss_chunks = 4;
    settings.accumulation = 3;
    assert_int_equal(vw__plan_simulate(&model, &settings, NULL, &chunked, NULL), VW_OK);
    assert_int_equal(chunked.after_step_bytes, whole.after_step_bytes);
    assert_int_equal(chunked.after_backward_bytes, whole.after_backward_bytes);
}

static void more_chunks_than_rows_are_as_many_as_rows(void **state)
{
    (void)state;
    vw_plan_settings settings = made_up_settings();
    settings.batch = 1;
    settings.sequence = 3;
    settings.loss_chunks = UINT64_C(1) << 62;
    vw__plan_peaks many = made_up_peaks(&settings);
    settings.loss_chunks = 3;
    assert_int_equal(many.peak.live_bytes, made_up_peaks(&settings).peak.live_bytes);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static uint64_t kept_by_four_blocks(vw_checkpointing checkpointing, uint64_t every)
{
    const vw_plan_model model = {
        .family = &vw__plan_family_gpt2,
        .shape = {.hidden = 512,
                  .layers = 4,
                  .attention = {.heads = 8, .key_heads = 8, .head_width = 64},
                  .mlp = {.inner = 2048, .activation = VW__PLAN_ACTIVATION_GELU},
                  .embedding = {.vocabulary = 1024, .positions = 1024}}};
    vw_plan_settings settings = made_up_settings();
    settings.checkpointing = checkpointing;
    settings.checkpoint_every = every;
    vw__plan_peaks peaks;
    assert_int_equal(vw__plan_simulate(&model, &settings, NULL, &peaks, NULL), VW_OK);
    return peaks.after_forward_bytes;
}

static void every_kth_block_is_checkpointed_from_the_first_on(void **state)
{
    (void)state;
    uint64_t none = kept_by_four_blocks(VW_CHECKPOINTING_NONE, 1);
    uint64_t full = kept_by_four_blocks(VW_CHECKPOINTING_FULL, 1);
    uint64_t block = (none - full) / 4;
    assert_true(block > 8 * MIB);
    assert_int_equal(kept_by_four_blocks(VW_CHECKPOINTING_EVERY, 1), full);
    assert_int_equal(kept_by_four_blocks(VW_CHECKPOINTING_EVERY, 2), none - 2 * block);
    assert_int_equal(kept_by_four_blocks(VW_CHECKPOINTING_EVERY, 3), none - 2 * block);
    assert_int_equal(kept_by_four_blocks(VW_CHECKPOINTING_EVERY, 4), none - block);
}

/* Rotary tables are read again when a block runs again: with grouped heads in 16 bits, another type
 * of them would lead to another kernel. */
static void a_checkpointed_llama_makes_the_same_again(void **state)
{
    (void)state;
    const vw_plan_model model = {
        .family = &vw__plan_family_llama,
        .shape = {.hidden = 512,
                  .layers = 3,
                  .attention = {.heads = 8, .key_heads = 2, .head_width = 64},
                  .mlp = {.inner = 1024, .activation = VW__PLAN_ACTIVATION_SILU, .is_gated = true},
                  .embedding = {.vocabulary = 1024}}};
    vw_plan_settings settings = made_up_settings();
    settings.precision = VW_PRECISION_BF16;
    vw__plan_peaks none, full;
    assert_int_equal(vw__plan_simulate(&model, &settings, NULL, &none, NULL), VW_OK);
    settings.checkpointing = VW_CHECKPOINTING_FULL;
    assert_int_equal(vw__plan_simulate(&model, &settings, NULL, &full, NULL), VW_OK);
    assert_int_equal(full.after_backward_bytes, none.after_backward_bytes);
    assert_true(full.peak.live_bytes < none.peak.live_bytes);
}

/* gelu(gelu(x * weight)) */
static vw__tensor two_gelus(vw__tape *tape, void *context, vw__tensor x)
{
    const vw__op_linear_weights *weights = context;
    vw__tensor made = vw__op_linear(tape, x, weights);
    vw__tensor_rebind(tape, &made, vw__op_gelu(tape, made));
    vw__tensor_rebind(tape, &made, vw__op_gelu(tape, made));
    return made;
}

typedef vw__tensor (*how_to_run)(vw__tape *tape, vw__tape_forward forward, void *context,
                                 vw__tensor x);

static vw__tensor plainly(vw__tape *tape, vw__tape_forward forward, void *context, vw__tensor x)
{
    return forward(tape, context, x);
}

/* After the forward pass, in tensors of 2 MiB, without the weight; after the backward pass there is
 * only the weight and its gradient. */
static uint64_t kept_by(how_to_run run)
{
    vw__tape *tape;
    assert_int_equal(vw__tape_create(NULL, &tape), VW_OK);
    vw__op_linear_weights weights = {
        .weight = vw__tape_parameter(tape, 512 * 512, VW__DTYPE_FLOAT32, true),
        .bias = vw__tensor_none(),
        .in = 512,
        .out = 512};
    vw__tensor x = vw__tensor_new(tape, 1024 * 512, VW__DTYPE_FLOAT32);
    vw__tensor made = run(tape, two_gelus, &weights, x);
    vw__tensor_drop(tape, &x);
    uint64_t kept = vw__tape_live_bytes(tape) - 1 * MIB;
    vw__tensor loss = vw__op_mean(tape, made, 1);
    vw__tensor_drop(tape, &made);
    vw__tape_backward(tape, loss);
    vw__tensor_drop(tape, &loss);
    assert_int_equal(vw__tape_status(tape), VW_OK);
    assert_int_equal(vw__tape_live_bytes(tape), 2 * MIB);
    vw__tape_destroy(tape);
    return kept / (2 * MIB);
}

static void a_selective_checkpoint_keeps_products_only(void **state)
{
    (void)state;
    assert_int_equal(kept_by(plainly), 4);             /* x, both gelus' arguments, result */
    assert_int_equal(kept_by(vw__tape_checkpoint), 2); /* x, result */
    assert_int_equal(kept_by(vw__tape_checkpoint_selectively), 3); /* x, the product, result */
}

/* ---- attention ------------------------------------------------------------------------------- */

static void flash_attention_keeps_its_arguments_result_and_sums(void **state)
{
    (void)state;
    vw__tape *tape;
    assert_int_equal(vw__tape_create(NULL, &tape), VW_OK);
    const vw__op_attention_shape shape = {.batch = 2,
                                          .heads = 8,
                                          .key_heads = 2,
                                          .length = 128,
                                          .key_length = 128,
                                          .width = 64,
                                          .is_causal = true};
    vw__tensor query = vw__tape_parameter(tape, 2 * 8 * 128 * 64, VW__DTYPE_BFLOAT16, true);
    vw__tensor key = vw__tape_parameter(tape, 2 * 2 * 128 * 64, VW__DTYPE_BFLOAT16, true);
    vw__tensor value = vw__tape_parameter(tape, 2 * 2 * 128 * 64, VW__DTYPE_BFLOAT16, true);
    uint64_t before = vw__tape_live_bytes(tape);
    vw__tensor made = vw__op_flash_attention(tape, query, key, value, &shape);
    uint64_t result = 2 * 8 * 128 * 64 * 2, sums = 2 * 8 * 128 * 4;
    assert_int_equal(vw__tape_live_bytes(tape) - before, result + sums);
    vw__tape_reset_peak(tape);
    vw__tensor loss = vw__op_mean(tape, made, 1);
    vw__tensor_drop(tape, &made);
    uint64_t after = vw__tape_live_bytes(tape);
    vw__tape_backward(tape, loss);
    /* what came in and goes out, the sums once more, dq in float32, dk and dv of all heads */
    uint64_t gradients = result + result / 4 + result / 4;
    assert_int_equal(vw__tape_get_peak(tape).live_bytes - after,
                     result + gradients + sums + 2 * result + 2 * result);
    vw__tensor_drop(tape, &loss);
    vw__tape_destroy(tape);
}

/* ---- inference ------------------------------------------------------------------------------- */

static void without_a_loss_the_logits_are_the_result(void **state)
{
    (void)state;
    vw_plan_settings settings = made_up_settings();
    settings.mode = VW_PLAN_MODE_INFERENCE;
    vw__plan_peaks with = made_up_peaks(&settings);
    settings.without_loss = true;
    vw__plan_peaks without = made_up_peaks(&settings);
    assert_int_equal(without.after_forward_bytes, MADE_UP_WORKSPACE + WEIGHTS + 4 * MIB);
    assert_int_equal(without.peak.live_bytes, MADE_UP_WORKSPACE + WEIGHTS + (2 + 4) * MIB);
    assert_int_equal(with.peak.live_bytes,
                     MADE_UP_WORKSPACE + WEIGHTS + (2 + 4 + 4) * MIB + 2 * SCALAR);
}

static const vw_plan_model small_gpt2 = {
    .family = &vw__plan_family_gpt2,
    .name = "small",
    .shape = {.hidden = 512,
              .layers = 2,
              .attention = {.heads = 8, .key_heads = 8, .head_width = 64},
              .mlp = {.inner = 2048, .activation = VW__PLAN_ACTIVATION_GELU},
              .embedding = {.vocabulary = 1024, .positions = 1024}}};

static vw__plan_peaks generated(uint64_t prompt, uint64_t tokens)
{
    vw_plan_settings settings = made_up_settings();
    settings.mode = VW_PLAN_MODE_INFERENCE;
    settings.precision = VW_PRECISION_BF16;
    settings.batch = 1;
    settings.sequence = prompt;
    settings.generate = tokens;
    vw__plan_peaks peaks;
    assert_int_equal(vw__plan_simulate(&small_gpt2, &settings, NULL, &peaks, NULL), VW_OK);
    return peaks;
}

static void the_cache_grows_with_every_token(void **state)
{
    (void)state;
    /* keys and values of two layers, and the one that is replaced: 512 numbers of 2 bytes each */
    uint64_t token = 5 * 512 * 2;
    vw__plan_peaks some = generated(16, 100001), more = generated(16, 101001);
    assert_true(some.is_generation);
    assert_int_equal(more.peak.live_bytes - some.peak.live_bytes, 1000 * token);
    assert_int_equal(generated(17, 100000).peak.live_bytes, some.peak.live_bytes);
    assert_int_equal(more.after_forward_bytes, some.after_forward_bytes); /* it is gone */
}

static void a_long_prompt_is_higher_than_few_tokens(void **state)
{
    (void)state;
    vw__plan_peaks peaks = generated(1024, 2);
    assert_false(peaks.is_generation);
    assert_int_equal(peaks.peak.live_bytes, generated(1024, 1).peak.live_bytes);
}

static const vw_plan_model small_t5 = {
    .family = &vw__plan_family_t5,
    .name = "small",
    .shape = {.hidden = 512,
              .layers = 3,
              .decoder_layers = 2,
              .attention = {.heads = 8, .key_heads = 8, .head_width = 64, .buckets = 32},
              .mlp = {.inner = 2048, .activation = VW__PLAN_ACTIVATION_RELU},
              .embedding = {.vocabulary = 1024},
              .head = {.is_tied = true}}};

static vw__plan_peaks answered(vw_plan_settings settings, uint64_t prompt, uint64_t tokens)
{
    settings.mode = VW_PLAN_MODE_INFERENCE;
    settings.precision = VW_PRECISION_BF16;
    settings.batch = 1;
    settings.sequence = prompt;
    settings.generate = tokens;
    vw__plan_peaks peaks;
    assert_int_equal(vw__plan_simulate(&small_t5, &settings, NULL, &peaks, NULL), VW_OK);
    return peaks;
}

/* An encoder-decoder: what is kept of the prompt is of the prompt's length, whatever comes after.
 */
static void a_decoders_own_cache_grows_and_that_of_the_encoder_does_not(void **state)
{
    (void)state;
    const vw_plan_settings settings = made_up_settings();
    vw__plan_peaks some = answered(settings, 16, 100000), more = answered(settings, 16, 101024);
    vw__plan_peaks longer = answered(settings, 1040, 100000);
    assert_true(some.is_generation);
    assert_int_equal(more.after_forward_bytes, some.after_forward_bytes); /* it is gone */
    /* Keys and values of two layers grow by 1024 tokens of 512 numbers; the products in float32
     * want copies of those of one layer. The prompt's are as large, and copied by nobody then; and
     * what was encoded is held beside them, with the prompt itself (int64). */
    uint64_t tokens = UINT64_C(1024) * 512 * 2;
    assert_true(more.peak.live_bytes - some.peak.live_bytes > 4 * tokens);
    uint64_t prompt = longer.peak.live_bytes - some.peak.live_bytes;
    assert_int_equal(prompt, 5 * tokens + 1024 * 8 + 8 * 1024 * 2);
    assert_false(answered(settings, 4096, 2).is_generation);
}

/* In later passes the encoder does not run, and the decoder's blocks are still the decoder's. */
static void a_generating_decoder_finds_its_own_weights_however_they_are_kept(void **state)
{
    (void)state;
    vw_plan_settings settings = made_up_settings();
    settings.offload = VW_OFFLOAD_WEIGHTS;
    vw__plan_peaks streamed = answered(settings, 16, 200), whole;
    settings = made_up_settings();
    whole = answered(settings, 16, 200);
    assert_true(streamed.peak.live_bytes < whole.peak.live_bytes);
    settings.gpus = 2;
    for (settings.sharding = VW_SHARDING_ZERO_3; settings.sharding <= VW_SHARDING_FSDP;
         settings.sharding++) {
        vw__plan_peaks shared = answered(settings, 16, 200);
        assert_int_equal(shared.after_forward_bytes, answered(settings, 16, 1).after_forward_bytes);
    }
}

/* A layer with a window keeps no more than that; those without keep everything. */
static void only_the_layers_with_a_window_forget(void **state)
{
    (void)state;
    vw_plan_model model = {
        .family = &vw__plan_family_llama,
        .name = "small",
        .shape = {.hidden = 512,
                  .layers = 4,
                  .attention = {.heads = 8, .key_heads = 8, .head_width = 64, .window = 64},
                  .mlp = {.inner = 1024, .is_gated = true, .activation = VW__PLAN_ACTIVATION_SILU},
                  .embedding = {.vocabulary = 1024, .positions = 1024}}};
    vw_plan_settings settings = made_up_settings();
    settings.mode = VW_PLAN_MODE_INFERENCE;
    settings.precision = VW_PRECISION_BF16;
    settings.batch = 1;
    settings.sequence = 16;
    const uint64_t token = UINT64_C(512) * 2, tokens = 100000;
    for (uint64_t full = 0; full <= 4; full += 2) { /* the first ones */
        uint64_t peaks[2];
        model.shape.attention.window_from = full;
        for (size_t i = 0; i < 2; i++) {
            vw__plan_peaks made;
            settings.generate = 1000 + i * tokens;
            assert_int_equal(vw__plan_simulate(&model, &settings, NULL, &made, NULL), VW_OK);
            peaks[i] = made.peak.live_bytes;
        }
        /* keys and values of each, and the one that is replaced */
        uint64_t grown = full == 0 ? 0 : 2 * full * tokens * token + tokens * token;
        assert_int_equal(peaks[1] - peaks[0], grown);
    }
}

static void a_million_million_tokens_take_no_longer(void **state)
{
    (void)state;
    assert_true(generated(16, 1000000000000).peak.live_bytes > 5 * UINT64_C(1000000000000) * 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_keep_what_they_keep),
        cmocka_unit_test(steps_take_what_they_take),
        cmocka_unit_test(eight_bit_states_have_scales_and_tables),
        cmocka_unit_test(float32_copies_are_12_bytes_a_parameter_with_adamw),
        cmocka_unit_test(an_optimizer_on_the_host_leaves_weights_and_gradients),
        cmocka_unit_test(a_state_that_is_spilled_may_leave_and_its_step_stays),
        cmocka_unit_test(frozen_layers_keep_only_what_adapters_read),
        cmocka_unit_test(adapters_of_a_16_bit_model_read_float32_copies),
        cmocka_unit_test(checkpointed_adapters_keep_each_blocks_argument),
        cmocka_unit_test(four_bits_are_half_a_byte_and_scales),
        cmocka_unit_test(chunks_leave_nothing_of_the_logits),
        cmocka_unit_test(chunks_that_share_a_cast_weight_leave_nothing_behind),
        cmocka_unit_test(more_chunks_than_rows_are_as_many_as_rows),
        cmocka_unit_test(every_kth_block_is_checkpointed_from_the_first_on),
        cmocka_unit_test(a_checkpointed_llama_makes_the_same_again),
        cmocka_unit_test(a_selective_checkpoint_keeps_products_only),
        cmocka_unit_test(flash_attention_keeps_its_arguments_result_and_sums),
        cmocka_unit_test(without_a_loss_the_logits_are_the_result),
        cmocka_unit_test(the_cache_grows_with_every_token),
        cmocka_unit_test(a_long_prompt_is_higher_than_few_tokens),
        cmocka_unit_test(a_decoders_own_cache_grows_and_that_of_the_encoder_does_not),
        cmocka_unit_test(a_generating_decoder_finds_its_own_weights_however_they_are_kept),
        cmocka_unit_test(only_the_layers_with_a_window_forget),
        cmocka_unit_test(a_million_million_tokens_take_no_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
