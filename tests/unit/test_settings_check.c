/* test_settings_check.c - what has no sense is refused with words, and the rest is made complete.
 */
#include "plan/plan_settings.h"

#include <string.h>

#include "plan/plan_model.h"
#include "support/cmocka_here.h"
#include "support/zoo_models.h"

static const vw_plan_model *gpt2, *llama, *vit, *t5;

static int open_models(void **state)
{
    (void)state;
    gpt2 = zoo_model("gpt2");
    llama = zoo_model("llama-3-8b");
    vit = zoo_model("vit-base");
    t5 = zoo_model("t5-small");
    return 0;
}

static vw_plan_settings usual(void)
{
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    return settings;
}

static void what_is_left_open_is_filled_in(void **state)
{
    vw_plan_settings settings = usual(), made;
    (void)state;
    assert_int_equal(vw__plan_settings_check(gpt2, &settings, &made), VW_OK);
    assert_int_equal(made.batch, 1);
    assert_int_equal(made.sequence, 1024);
    assert_int_equal(made.card_bytes, 0);
    assert_int_equal(vw__plan_settings_check(vit, NULL, &made), VW_OK);
    assert_int_equal(made.image, 224);
    assert_int_equal(made.sequence, 0);
    settings.card_name = "h200";
    assert_int_equal(vw__plan_settings_check(llama, &settings, &made), VW_OK);
    assert_int_equal(made.card_bytes, vw_plan_card("h200")->total_bytes);
    settings.card_bytes = 1000;
    assert_int_equal(vw__plan_settings_check(llama, &settings, &made), VW_OK);
    assert_int_equal(made.card_bytes, 1000);
}

static void an_older_caller_s_struct_is_enough(void **state)
{
    vw_plan_settings settings = usual(), made;
    (void)state;
    settings.batch = 4;
    settings.struct_size = offsetof(vw_plan_settings, card_bytes);
    settings.card_bytes = 77; /* not his */
    assert_int_equal(vw__plan_settings_check(gpt2, &settings, &made), VW_OK);
    assert_int_equal(made.batch, 4);
    assert_int_equal(made.card_bytes, 0);
    assert_int_equal(made.struct_size, sizeof made);
    settings.struct_size = 0;
    assert_int_equal(vw__plan_settings_check(gpt2, &settings, &made), VW_ERR_INVALID_ARGUMENT);
}

/* Each: a change of the usual settings, and the words of the refusal. */
#define REFUSED(model, words, ...)                                                                 \
    do {                                                                                           \
        vw_plan_settings settings = usual(), made = {.batch = 77};                                 \
        __VA_ARGS__;                                                                               \
        assert_int_equal(vw__plan_settings_check(model, &settings, &made),                         \
                         VW_ERR_INVALID_ARGUMENT);                                                 \
        if (strstr(vw_last_error(), words) == NULL)                                                \
            print_error("%s\n", vw_last_error());                                                  \
        assert_non_null(strstr(vw_last_error(), words));                                           \
        assert_int_equal(made.batch, 77);                                                          \
    } while (0)

static void numbers_have_a_range(void **state)
{
    (void)state;
    REFUSED(gpt2, "batch: expected a number from 1 to 1000000, found 0", settings.batch = 0);
    REFUSED(gpt2, "found 1000000000000", settings.batch = UINT64_C(1000000000000));
    REFUSED(gpt2, "sequence: expected", settings.sequence = UINT64_MAX);
    REFUSED(vit, "image: expected a number from 1 to 65536", settings.image = UINT64_MAX);
    REFUSED(gpt2, "accumulation: expected", settings.accumulation = 0);
    REFUSED(gpt2, "GPUs: expected", settings.gpus = 0);
    REFUSED(gpt2, "loss chunks: expected a number from 1 to 65536",
            settings.loss_chunks = UINT64_MAX);
    REFUSED(gpt2, "LoRA's rank: expected a number from 1 to 65536",
            settings.lora_rank = UINT64_MAX);
    REFUSED(gpt2, "checkpoint every: expected", settings.checkpointing = VW_CHECKPOINTING_EVERY);
    REFUSED(gpt2, "precision: 7 is none of its 7 values", settings.precision = VW_PRECISION_COUNT);
    REFUSED(gpt2, "optimizer: ", settings.optimizer = (vw_optimizer)99);
    REFUSED(gpt2, "mode: ", settings.mode = VW_PLAN_MODE_COUNT);
}

static void what_does_not_go_together_is_refused(void **state)
{
    (void)state;
    REFUSED(gpt2, "without loss: only inference", settings.without_loss = true);
    REFUSED(gpt2, "generate: tokens are generated in inference", settings.generate = 8);
    REFUSED(gpt2, "loss chunks: generation has no loss", settings.mode = VW_PLAN_MODE_INFERENCE,
            settings.generate = 8, settings.loss_chunks = 2);
    REFUSED(gpt2, "loss chunks: generation has no loss", settings.mode = VW_PLAN_MODE_INFERENCE,
            settings.without_loss = true, settings.loss_chunks = 2);
    REFUSED(gpt2, "checkpointing: only training", settings.mode = VW_PLAN_MODE_INFERENCE,
            settings.checkpointing = VW_CHECKPOINTING_FULL);
    REFUSED(gpt2, "accumulation: ", settings.mode = VW_PLAN_MODE_INFERENCE,
            settings.accumulation = 2);
    REFUSED(gpt2, "offload: there is an optimizer", settings.mode = VW_PLAN_MODE_KEEP_GRAPH,
            settings.offload = VW_OFFLOAD_OPTIMIZER);
    REFUSED(gpt2, "master weights: float32", settings.has_master_weights = true);
    REFUSED(gpt2, "flash-attn computes in bf16 or fp16", settings.attention = VW_ATTENTION_FLASH);
    REFUSED(gpt2, "QLoRA: ", settings.is_quantized = true);
    REFUSED(gpt2, "at least 2", settings.sharding = VW_SHARDING_ZERO_3);
    REFUSED(gpt2, "offload: weights", settings.gpus = 2, settings.sharding = VW_SHARDING_FSDP,
            settings.offload = VW_OFFLOAD_WEIGHTS);
    REFUSED(gpt2, "offload: spill is planned", settings.gpus = 2,
            settings.sharding = VW_SHARDING_FSDP, settings.offload = VW_OFFLOAD_SPILL);
    REFUSED(gpt2, "offload: there is an optimizer", settings.mode = VW_PLAN_MODE_INFERENCE,
            settings.offload = VW_OFFLOAD_SPILL);
    REFUSED(gpt2, "offload: bitsandbytes", settings.optimizer = VW_OPTIMIZER_ADAM_8BIT,
            settings.offload = VW_OFFLOAD_OPTIMIZER);
    REFUSED(gpt2, "ZeRO 1 and 2", settings.mode = VW_PLAN_MODE_INFERENCE, settings.gpus = 2,
            settings.sharding = VW_SHARDING_ZERO_1);
}

static void what_has_no_sense_for_the_model_is_refused(void **state)
{
    (void)state;
    REFUSED(gpt2, "image: a model of the family gpt2 reads text", settings.image = 224);
    REFUSED(vit, "sequence: a model of the family vit sees images", settings.sequence = 8);
    REFUSED(vit, "image: expected a multiple of the patch's 16 pixels, found 225",
            settings.image = 225);
    REFUSED(vit, "loss chunks: ", settings.loss_chunks = 8);
    REFUSED(vit, "generate: ", settings.mode = VW_PLAN_MODE_INFERENCE, settings.generate = 8);
    REFUSED(t5, "which flash-attn does not", settings.precision = VW_PRECISION_BF16,
            settings.attention = VW_ATTENTION_FLASH);
    REFUSED(gpt2, "positions for 1024 tokens and no more, found 1025", settings.sequence = 1025);
    REFUSED(gpt2, "1024 tokens and no more, found 1000 and 25 generated", settings.sequence = 1000,
            settings.generate = 25, settings.mode = VW_PLAN_MODE_INFERENCE);
    REFUSED(gpt2, "LoRA's rank: expected at most the width of the model, 768, found 769",
            settings.lora_rank = 769);
    REFUSED(gpt2, "card: 'rtx409' is not known; did you mean 'rtx4090'?",
            settings.card_name = "rtx409");
}

static void what_goes_together_is_accepted(void **state)
{
    vw_plan_settings settings = usual(), made;
    (void)state;
    settings.precision = VW_PRECISION_BF16;
    settings.has_master_weights = true;
    settings.attention = VW_ATTENTION_FLASH;
    settings.checkpointing = VW_CHECKPOINTING_EVERY;
    settings.checkpoint_every = 2;
    settings.lora_rank = 16;
    settings.gpus = 8;
    settings.sharding = VW_SHARDING_ZERO_2;
    settings.offload = VW_OFFLOAD_OPTIMIZER;
    assert_int_equal(vw__plan_settings_check(llama, &settings, &made), VW_OK);
    settings = usual();
    settings.sharding = VW_SHARDING_FSDP; /* its own cost, on one GPU */
    assert_int_equal(vw__plan_settings_check(llama, &settings, &made), VW_OK);
}

static void what_a_plan_assumes_is_noted_first(void **state)
{
    const char *notes[VW__PLAN_MOST_NOTES];
    vw_plan_settings settings = usual(), made;
    (void)state;
    assert_int_equal(vw__plan_settings_check(llama, &settings, &made), VW_OK);
    size_t count = vw__plan_notes(llama, &made, notes);
    settings.sequence = 8193;
    assert_int_equal(vw__plan_settings_check(llama, &settings, &made), VW_OK);
    assert_int_equal(vw__plan_notes(llama, &made, notes), count + 1);
    assert_non_null(strstr(notes[0], "longer than those the model was made for"));
    settings = usual();
    settings.image = 448;
    assert_int_equal(vw__plan_settings_check(vit, &settings, &made), VW_OK);
    assert_true(vw__plan_notes(vit, &made, notes) > 0);
    assert_non_null(strstr(notes[0], "images of another size"));
}

static void names_are_those_of_the_command_line(void **state)
{
    (void)state;
    assert_string_equal(vw_precision_name(VW_PRECISION_AMP_BF16), "amp-bf16");
    assert_string_equal(vw_optimizer_name(VW_OPTIMIZER_PAGED_ADAM_8BIT), "paged-adam8bit");
    assert_string_equal(vw_checkpointing_name(VW_CHECKPOINTING_SELECTIVE), "selective");
    assert_string_equal(vw_attention_name(VW_ATTENTION_FLASH), "flash");
    assert_string_equal(vw_offload_name(VW_OFFLOAD_WEIGHTS), "weights");
    assert_string_equal(vw_sharding_name(VW_SHARDING_FSDP), "fsdp");
    assert_string_equal(vw_plan_mode_name(VW_PLAN_MODE_KEEP_GRAPH), "keep-graph");
    assert_string_equal(vw_precision_name(VW_PRECISION_COUNT), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_open_is_filled_in),
        cmocka_unit_test(an_older_caller_s_struct_is_enough),
        cmocka_unit_test(numbers_have_a_range),
        cmocka_unit_test(what_does_not_go_together_is_refused),
        cmocka_unit_test(what_has_no_sense_for_the_model_is_refused),
        cmocka_unit_test(what_goes_together_is_accepted),
        cmocka_unit_test(what_a_plan_assumes_is_noted_first),
        cmocka_unit_test(names_are_those_of_the_command_line),
    };
    return cmocka_run_group_tests(tests, open_models, close_zoo_models);
}
