/* test_plan_search.c - what makes it fit: only what does, in order, and nothing that cannot be. */
#include <string.h>

#include "vramwise/plan.h"

#include "plan/changes.h"
#include "plan/plan_device.h"
#include "plan/plan_model.h"
#include "plan/plan_run.h"
#include "plan/plan_settings.h"
#include "plan/search.h"
#include "support/cmocka_here.h"
#include "support/zoo_models.h"

#define GIB (UINT64_C(1) << 30)

typedef struct asked {
    const char *model;
    uint64_t batch, sequence, card_bytes, gpus;
    vw_precision precision;
    vw_attention attention;
    vw_plan_mode mode;
    const char *card;
    vw_sharding sharding;
} asked;

static const asked questions[] = {
    {.model = "gpt2", .batch = 8, .card_bytes = 8 * GIB},
    {.model = "gpt2", .batch = 8, .attention = VW_ATTENTION_EAGER, .card = "t4"},
    {.model = "gpt2-xl", .batch = 6, .card = "rtx4090"},
    {.model = "llama-3-8b",
     .batch = 8,
     .sequence = 2048,
     .precision = VW_PRECISION_BF16,
     .card = "rtx4090"},
    {.model = "llama-3-8b",
     .batch = 8,
     .sequence = 2048,
     .precision = VW_PRECISION_BF16,
     .card = "h100",
     .gpus = 4},
    {.model = "llama-3-8b",
     .batch = 1,
     .sequence = 2048,
     .precision = VW_PRECISION_BF16,
     .card_bytes = 40 * GIB,
     .gpus = 2,
     .sharding = VW_SHARDING_FSDP},
    {.model = "bert-base", .batch = 64, .sequence = 512, .card_bytes = 6 * GIB},
    {.model = "vit-base", .batch = 256, .card_bytes = 8 * GIB},
    {.model = "gpt2", .batch = 1000000, .card_bytes = 24 * GIB},
    {.model = "gpt2", .batch = 97, .card_bytes = 4 * GIB},
    {.model = "resnet50", .batch = 256, .card_bytes = 8 * GIB},
    {.model = "llama-3-8b",
     .batch = 4,
     .sequence = 2048,
     .mode = VW_PLAN_MODE_INFERENCE,
     .card_bytes = 24 * GIB},
};
enum { QUESTIONS = sizeof questions / sizeof questions[0] };

static vw_plan_settings settings_of(const asked *question)
{
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    settings.batch = question->batch;
    settings.sequence = question->sequence;
    settings.precision = question->precision;
    settings.attention = question->attention;
    settings.mode = question->mode;
    settings.gpus = question->gpus == 0 ? 1 : question->gpus;
    settings.card_bytes = question->card_bytes;
    settings.card_name = question->card;
    settings.sharding = question->sharding;
    return settings;
}

static vw_plan *make(const vw_plan_model *model, const vw_plan_settings *settings)
{
    const vw_plan_options options = {.struct_size = sizeof options, .without_replay = true};
    vw_plan *plan = NULL;
    assert_int_equal(vw_plan_make(model, settings, &options, &plan), VW_OK);
    return plan;
}

static vw_plan *plan_of(const asked *question)
{
    const vw_plan_settings settings = settings_of(question);
    return make(zoo_model(question->model), &settings);
}

static uint64_t samples(const vw_plan_settings *settings)
{
    return settings->batch * settings->accumulation;
}

static void check_choice(const vw_plan_model *model, const vw_plan *plan,
                         const vw_plan_choice *choice)
{
    vw_plan_settings checked;
    assert_true(choice->fits);
    assert_int_equal(vw__plan_settings_check(model, &choice->settings, &checked), VW_OK);
    assert_true(choice->change_count > 0);
    assert_true(choice->peak_allocated_bytes < plan->peak_allocated_bytes);
    assert_true(choice->peak_device_bytes <= plan->settings.card_bytes);
    if (plan->settings.mode == VW_PLAN_MODE_TRAIN)
        assert_int_equal(samples(&choice->settings), samples(&plan->settings));
    for (size_t i = 0; i < choice->change_count; i++) {
        assert_true(choice->changes[i][0] != '\0' && choice->costs[i][0] != '\0');
        assert_true(choice->code[i][0] != '\0' && choice->sources[i][0] != '\0');
    }
}

/* A plan of those settings fits by itself, too. */
static void check_that_it_fits(const vw_plan_model *model, const vw_plan_choice *choice)
{
    vw_plan *plan = make(model, &choice->settings);
    assert_true(plan->fits);
    assert_int_equal(plan->peak_allocated_bytes, choice->peak_allocated_bytes);
    assert_int_equal(plan->choice_count, 0);
    vw_plan_free(plan);
}

static void choices_fit_are_possible_and_the_fastest_comes_first(void **state)
{
    (void)state;
    for (size_t i = 0; i < QUESTIONS; i++) {
        const vw_plan_model *model = zoo_model(questions[i].model);
        vw_plan *plan = plan_of(&questions[i]);
        assert_false(plan->fits);
        assert_true(plan->choice_count > 0 && plan->choice_count <= VW__PLAN_SEARCH_MOST_FOUND);
        for (size_t k = 0; k < plan->choice_count; k++) {
            check_choice(model, plan, &plan->choices[k]);
            check_that_it_fits(model, &plan->choices[k]);
            assert_true(k == 0 || plan->choices[k - 1].slowdown <= plan->choices[k].slowdown);
        }
        vw_plan_free(plan);
    }
}

/* Taking one change back from a choice leaves something that does not fit. */
static void no_choice_has_a_change_it_could_do_without(void **state)
{
    (void)state;
    const vw_plan_model *model = zoo_model("gpt2");
    vw_plan_settings settings = settings_of(&questions[0]);
    vw_plan *plan = make(model, &settings);
    for (size_t i = 0; i < plan->choice_count; i++) {
        vw_plan_settings less = plan->choices[i].settings;
        vw__plan_trial trial;
        if (less.checkpointing == settings.checkpointing || plan->choices[i].change_count < 2)
            continue;
        less.checkpointing = settings.checkpointing;
        assert_int_equal(vw__plan_try(model, &less, &trial), VW_OK);
        assert_true(trial.worst_bytes > settings.card_bytes);
    }
    vw_plan_free(plan);
}

static void what_fits_already_needs_no_change(void **state)
{
    (void)state;
    vw_plan *plan = plan_of(&(asked){.model = "gpt2", .batch = 1, .card = "h200"});
    assert_true(plan->fits);
    assert_int_equal(plan->choice_count, 0);
    assert_true(plan->largest_batch > 1);
    vw_plan_free(plan);
}

static void a_card_beyond_reason_has_room(void **state)
{
    (void)state;
    vw_plan *plan =
        plan_of(&(asked){.model = "gpt2", .batch = 1, .sequence = 64, .card_bytes = UINT64_MAX});
    assert_true(plan->fits);
    assert_int_equal(plan->margin_bytes, INT64_MAX);
    vw_plan_free(plan);
}

static void a_card_too_small_for_anything_is_called_that(void **state)
{
    (void)state;
    vw_plan *plan =
        plan_of(&(asked){.model = "llama-3-70b", .batch = 1, .sequence = 512, .card_bytes = GIB});
    bool is_said = false;
    assert_false(plan->fits);
    assert_int_equal(plan->choice_count, 0);
    assert_int_equal(plan->largest_batch, 0);
    for (size_t i = 0; i < plan->note_count; i++)
        is_said = is_said || strstr(plan->notes[i], "makes it fit this card") != NULL;
    assert_true(is_said);
    vw_plan_free(plan);
}

/* FSDP's step may be the fused one, and adapters may lie on weights that are shared. */
static void what_shares_weights_still_has_other_ways(void **state)
{
    (void)state;
    bool is_fused = false, is_adapted = false;
    vw_plan *plan = plan_of(&questions[5]);
    assert_false(plan->fits);
    for (size_t i = 0; i < plan->choice_count; i++) {
        const vw_plan_settings *to = &plan->choices[i].settings;
        assert_int_equal(to->sharding, VW_SHARDING_FSDP);
        assert_true(to->optimizer == VW_OPTIMIZER_ADAMW ||
                    to->optimizer == VW_OPTIMIZER_ADAMW_FUSED);
        is_fused = is_fused || to->optimizer == VW_OPTIMIZER_ADAMW_FUSED;
        is_adapted = is_adapted || to->lora_rank > 0;
    }
    assert_true(is_fused);
    assert_true(is_adapted);
    vw_plan_free(plan);
}

static bool fits(const vw_plan_model *model, vw_plan_settings settings, uint64_t batch)
{
    vw__plan_trial trial;
    settings.batch = batch;
    assert_int_equal(vw__plan_try(model, &settings, &trial), VW_OK);
    return trial.worst_bytes <= settings.card_bytes;
}

/* ---- what is offered to whom ----------------------------------------------------------------- */

/* Choices that shard in that way; NONE counts those that chunk the loss. */
static size_t count_choices(const asked *question, vw_sharding sharding)
{
    vw_plan *plan = plan_of(question);
    size_t count = 0;
    for (size_t i = 0; i < plan->choice_count; i++) {
        const vw_plan_settings *to = &plan->choices[i].settings;
        count += sharding == VW_SHARDING_NONE ? to->loss_chunks > 1 : to->sharding == sharding;
    }
    vw_plan_free(plan);
    return count;
}

static void without_training_a_smaller_batch_is_offered(void **state)
{
    (void)state;
    const asked question = {.model = "llama-3-8b",
                            .batch = 64,
                            .sequence = 2048,
                            .precision = VW_PRECISION_BF16,
                            .card = "rtx4090"};
    const vw_plan_model *model = zoo_model(question.model);
    vw_plan_settings settings = settings_of(&question);
    settings.mode = VW_PLAN_MODE_INFERENCE;
    for (settings.generate = 0; settings.generate <= 100; settings.generate += 100) {
        vw_plan *plan = make(model, &settings);
        assert_false(plan->fits);
        assert_true(plan->choice_count > 0);
        const vw_plan_choice *first = &plan->choices[0];
        assert_int_equal(first->change_count, 1);
        assert_int_equal(first->settings.accumulation, 1);
        assert_true(first->settings.batch < 64);
        assert_true(first->settings.batch <= plan->largest_batch);
        assert_true(first->settings.batch * 2 > plan->largest_batch);
        /* A pass over few samples takes little longer for each; a token reads all weights. */
        if (settings.generate == 0)
            assert_true(first->slowdown < 1.5);
        else
            assert_true(first->slowdown * (double)first->settings.batch == 64);
        vw_plan_free(plan);
    }
}

static void shardings_and_chunks_are_offered_where_they_help(void **state)
{
    (void)state;
    const asked four_gpus = {.model = "llama-3-8b",
                             .batch = 8,
                             .sequence = 2048,
                             .precision = VW_PRECISION_BF16,
                             .card = "h100",
                             .gpus = 4};
    const asked zero_2 = {.model = "llama-3-8b",
                          .batch = 1,
                          .sequence = 2048,
                          .precision = VW_PRECISION_BF16,
                          .card = "a100-40g",
                          .gpus = 8,
                          .sharding = VW_SHARDING_ZERO_2};
    const asked inference = {.model = "llama-3-70b",
                             .batch = 1,
                             .sequence = 2048,
                             .precision = VW_PRECISION_BF16,
                             .card = "h100",
                             .gpus = 8,
                             .mode = VW_PLAN_MODE_INFERENCE};
    asked zero_3 = zero_2, one_gpu = inference;
    zero_3.sharding = VW_SHARDING_ZERO_3;
    one_gpu.gpus = 1;
    const struct {
        asked question;
        vw_sharding sharding;
        bool is_offered;
    } cases[] = {
        {four_gpus, VW_SHARDING_ZERO_1, true},
        {four_gpus, VW_SHARDING_FSDP, true},
        {zero_2, VW_SHARDING_ZERO_3, true},
        {zero_2, VW_SHARDING_FSDP, true},
        {zero_2, VW_SHARDING_ZERO_1, false}, /* it shares less */
        {zero_3, VW_SHARDING_ZERO_1, false},
        {zero_3, VW_SHARDING_FSDP, false},
        {inference, VW_SHARDING_ZERO_3, true},
        {inference, VW_SHARDING_ZERO_1, false}, /* there is no optimizer */
        {one_gpu, VW_SHARDING_ZERO_3, false},
        {{.model = "bert-base", .batch = 64, .sequence = 512, .card_bytes = 6 * GIB},
         VW_SHARDING_NONE,
         true},
        {{.model = "roberta-base", .batch = 64, .sequence = 512, .card_bytes = 6 * GIB},
         VW_SHARDING_NONE,
         true},
        {{.model = "t5-base", .batch = 16, .sequence = 512, .card_bytes = 12 * GIB},
         VW_SHARDING_NONE,
         true},
        {{.model = "vit-base", .batch = 256, .sequence = 0, .card_bytes = 8 * GIB},
         VW_SHARDING_NONE,
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if ((count_choices(&cases[i].question, cases[i].sharding) > 0) != cases[i].is_offered)
            fail_msg("case %zu", i);
}

/* What the code of a change must have, and must not have. */
static void code_has(vw__plan_change change, const char *name, const vw_plan_settings *to,
                     const char *words, const char *others)
{
    vw__arena arena;
    vw_plan_change made;
    vw__arena_init(&arena, 1 << 20);
    assert_true(vw__plan_change_describe(&arena, change, zoo_model(name), to, &made));
    assert_non_null(strstr(made.code, words));
    assert_null(strstr(made.code, others));
    vw__arena_deinit(&arena);
}

/* Each family has another head: what is written for one runs in no other. */
static void the_code_of_a_loss_in_chunks_is_the_models_own(void **state)
{
    (void)state;
    static const struct {
        const char *model, *words;
    } cases[] = {{"gpt2", "model.get_output_embeddings()"},
                 {"bert-base", "model.cls.predictions.decoder"},
                 {"roberta-base", "model.lm_head.decoder"},
                 {"t5-base", "model.model_dim**-0.5"}};
    const vw_plan_settings to = {.loss_chunks = 8};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        code_has(VW__PLAN_CHANGE_LOSS, cases[i].model, &to, cases[i].words, "$");
        code_has(VW__PLAN_CHANGE_LOSS, cases[i].model, &to,
                 "labels.chunk(8))) / (labels != -100).sum()", "$");
    }
}

static void the_code_of_a_loss_is_that_of_transformers_or_the_readers_own(void **state)
{
    (void)state;
    static const char *const transformers = "model(**batch).loss",
                             *const own = "criterion(model(inputs), labels)";
    static const vw_precision precisions[] = {VW_PRECISION_AMP_BF16, VW_PRECISION_AMP_FP16};
    vw_plan_settings to = {.batch = 4, .accumulation = 8};
    code_has(VW__PLAN_CHANGE_BATCH, "gpt2", &to, "for i, batch in", own);
    code_has(VW__PLAN_CHANGE_BATCH, "gpt2", &to, "(model(**batch).loss / 8).backward()", own);
    code_has(VW__PLAN_CHANGE_BATCH, "resnet50", &to, "for i, (inputs, labels) in", transformers);
    code_has(VW__PLAN_CHANGE_BATCH, "resnet50", &to, "criterion(model(inputs), labels) / 8",
             transformers);
    for (size_t i = 0; i < 2; i++) {
        to.precision = precisions[i];
        code_has(VW__PLAN_CHANGE_PRECISION, "gpt2", &to, transformers, own);
        code_has(VW__PLAN_CHANGE_PRECISION, "resnet50", &to, own, transformers);
    }
}

/* Weights in 16 bits take less and are as fast, and yet are another thing. */
static void autocast_is_always_among_the_offers(void **state)
{
    (void)state;
    static const uint64_t cards[] = {0, 6, 10};
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++) {
        vw_plan_settings settings;
        vw_plan *plan = NULL;
        bool is_there = false;
        vw_plan_settings_init(&settings);
        settings.batch = 8;
        settings.sequence = 1024;
        settings.card_bytes = cards[i] * GIB;
        assert_int_equal(vw_plan_make(zoo_model("gpt2"), &settings, NULL, &plan), VW_OK);
        for (size_t k = 0; k < plan->choice_count; k++)
            is_there |= plan->choices[k].settings.precision == VW_PRECISION_AMP_BF16;
        assert_true(is_there);
        vw_plan_free(plan);
    }
}

static void outside_of_training_no_words_are_of_training(void **state)
{
    (void)state;
    vw_plan_settings to = {.mode = VW_PLAN_MODE_INFERENCE};
    for (vw_precision precision = VW_PRECISION_AMP_BF16; precision <= VW_PRECISION_FP16;
         precision++) {
        to.precision = precision;
        const char *cost =
            vw__remedy_of(vw__plan_change_remedy(VW__PLAN_CHANGE_PRECISION, &to))->cost;
        assert_null(strstr(cost, "gradients"));
        assert_null(strstr(cost, "GradScaler"));
        code_has(VW__PLAN_CHANGE_PRECISION, "gpt2", &to, "torch.", "optimizer");
        code_has(VW__PLAN_CHANGE_PRECISION, "gpt2", &to, "torch.", "backward");
    }
    to.precision = VW_PRECISION_AMP_FP16;
    code_has(VW__PLAN_CHANGE_PRECISION, "resnet50", &to, "dtype=torch.float16", "bfloat16");
    code_has(VW__PLAN_CHANGE_PRECISION, "resnet50", &to, "output = model(inputs)", "loss");
}

static void the_largest_batch_fits_and_one_more_does_not(void **state)
{
    (void)state;
    static const uint64_t cards[] = {3, 6, 11, 24, 80};
    static const uint64_t asked_for[] = {1, 7, 500};
    const vw_plan_model *model = zoo_model("gpt2");
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++)
        for (size_t k = 0; k < sizeof asked_for / sizeof asked_for[0]; k++) {
            const vw_plan_settings settings =
                settings_of(&(asked){.batch = asked_for[k], .card_bytes = cards[i] * GIB});
            vw_plan_settings checked;
            uint64_t largest = 77;
            assert_int_equal(vw__plan_settings_check(model, &settings, &checked), VW_OK);
            assert_int_equal(vw__plan_largest_batch(model, &checked, &largest), VW_OK);
            assert_true(largest == 0 || fits(model, checked, largest));
            assert_false(fits(model, checked, largest + 1));
        }
}

static void without_a_card_the_choices_need_less_and_less(void **state)
{
    (void)state;
    vw_plan *plan = plan_of(&(asked){.model = "gpt2", .batch = 8});
    assert_false(plan->is_card_known);
    assert_true(plan->choice_count > 3);
    for (size_t i = 0; i < plan->choice_count; i++) {
        assert_false(plan->choices[i].fits);
        assert_true(plan->choices[i].peak_allocated_bytes < plan->peak_allocated_bytes);
    }
    vw_plan_free(plan);
}

static bool has_change(const vw_plan_choice *choice, const char *words)
{
    for (size_t i = 0; i < choice->change_count; i++)
        if (strstr(choice->changes[i], words) != NULL)
            return true;
    return false;
}

static void a_card_without_bfloat16_is_offered_none(void **state)
{
    (void)state;
    vw_plan *plan = plan_of(&questions[1]);
    bool has_fp16 = false;
    for (size_t i = 0; i < plan->choice_count; i++) {
        assert_false(has_change(&plan->choices[i], "bf16"));
        has_fp16 = has_fp16 || has_change(&plan->choices[i], "amp-fp16");
    }
    assert_true(has_fp16);
    vw_plan_free(plan);
}

static void another_method_says_that_it_is_one(void **state)
{
    (void)state;
    vw_plan *plan = plan_of(&questions[3]);
    bool has_method = false;
    for (size_t i = 0; i < plan->choice_count; i++)
        if (plan->choices[i].settings.lora_rank > 0) {
            assert_true(has_change(&plan->choices[i], "another method"));
            has_method = true;
        }
    assert_true(has_method);
    vw_plan_free(plan);
}

/* What an estimate leaves out, the first step and most accumulated batches, changes nothing. */
static void an_estimate_is_the_last_step_of_a_run(void **state)
{
    (void)state;
    const vw_plan_model *model = zoo_model("gpt2");
    for (unsigned i = 0; i < 128; i++) {
        vw_plan_settings settings, checked;
        vw__plan_peaks run, estimate;
        vw_plan_settings_init(&settings);
        settings.batch = 2;
        settings.sequence = 128;
        settings.accumulation = (i & 1) ? 3 : 1;
        settings.checkpointing = (i & 2) ? VW_CHECKPOINTING_FULL : VW_CHECKPOINTING_NONE;
        settings.precision = (i & 4) ? VW_PRECISION_BF16 : VW_PRECISION_AMP_BF16;
        settings.optimizer = (i & 8) ? VW_OPTIMIZER_ADAFACTOR : VW_OPTIMIZER_ADAMW;
        settings.loss_chunks = (i & 16) ? 8 : 0;
        settings.gpus = (i & 32) ? 4 : 1;
        settings.sharding =
            (i & 32) ? (i & 64) ? VW_SHARDING_FSDP : VW_SHARDING_ZERO_2 : VW_SHARDING_NONE;
        settings.offload = (i & 64) && !(i & 32) ? VW_OFFLOAD_WEIGHTS : VW_OFFLOAD_NONE;
        assert_int_equal(vw__plan_settings_check(model, &settings, &checked), VW_OK);
        assert_int_equal(vw__plan_simulate(model, &checked, NULL, &run, NULL), VW_OK);
        assert_int_equal(vw__plan_estimate(model, &checked, &estimate), VW_OK);
        if (run.peak.live_bytes != estimate.peak.live_bytes)
            fail_msg("settings %u: a run has %llu bytes, the estimate %llu", i,
                     (unsigned long long)run.peak.live_bytes,
                     (unsigned long long)estimate.peak.live_bytes);
    }
}

static void every_change_has_words_and_a_factor_with_a_source(void **state)
{
    (void)state;
    vw_plan_settings from, to;
    vw__arena arena;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    vw_plan_settings_init(&from);
    from.batch = 8;
    from.attention = VW_ATTENTION_EAGER;
    to = from;
    to.batch = 2;
    to.accumulation = 4;
    to.attention = VW_ATTENTION_SDPA;
    to.loss_chunks = 8;
    to.precision = VW_PRECISION_AMP_BF16;
    to.optimizer = VW_OPTIMIZER_ADAM_8BIT;
    to.checkpointing = VW_CHECKPOINTING_FULL;
    to.sharding = VW_SHARDING_ZERO_2;
    to.lora_rank = 16;
    to.offload = VW_OFFLOAD_OPTIMIZER;
    for (vw__plan_change change = 0; change < VW__PLAN_CHANGE_COUNT; change++) {
        vw__plan_slowdown slowdown = vw__plan_slowdown_of(change, &from, &to, 0.3);
        assert_true(vw__plan_has_changed(change, &from, &to));
        assert_true(slowdown.factor > 0);
        assert_true(strcmp(slowdown.source, "not known") != 0);
        vw_plan_change made;
        assert_true(vw__plan_change_describe(&arena, change, zoo_model("gpt2"), &to, &made));
        assert_true(made.name[0] != '\0' && made.cost[0] != '\0' && made.code[0] != '\0');
    }
    assert_true(vw__plan_slowdown_together(&from, &from, 0.3) == 1);
    vw__arena_deinit(&arena);
}

static void spilling_costs_what_the_state_takes_over_the_bus(void **state)
{
    (void)state;
    vw_plan_settings from = {.mode = VW_PLAN_MODE_TRAIN,
                             .batch = 1,
                             .accumulation = 1,
                             .sequence = 1000,
                             .precision = VW_PRECISION_AMP_BF16,
                             .optimizer = VW_OPTIMIZER_ADAMW};
    vw_plan_settings to = from;
    to.offload = VW_OFFLOAD_SPILL;
    /* Of one weight, 8 bytes at 25 GB/s: 0.75 of them take turns, which half of 6000 products at
     * 1e14 copies, and the rest stays, 1.2 times as long for both ways. */
    vw__plan_slowdown slowdown = vw__plan_slowdown_of(VW__PLAN_CHANGE_OFFLOAD, &from, &to, 0);
    assert_true(slowdown.factor > 6.99 && slowdown.factor < 7.01);
    to.accumulation = 10; /* the step is as often, and ten times as long */
    slowdown = vw__plan_slowdown_of(VW__PLAN_CHANGE_OFFLOAD, &from, &to, 0);
    assert_true(slowdown.factor > 1.59 && slowdown.factor < 1.61);
    to.precision = VW_PRECISION_BF16; /* half the state */
    slowdown = vw__plan_slowdown_of(VW__PLAN_CHANGE_OFFLOAD, &from, &to, 0);
    assert_true(slowdown.factor > 1.27 && slowdown.factor < 1.29);
    to.optimizer = VW_OPTIMIZER_LION; /* not of torch.optim: all of its 2 bytes stay */
    assert_false(vw__plan_spill_streams(&to));
    slowdown = vw__plan_slowdown_of(VW__PLAN_CHANGE_OFFLOAD, &from, &to, 0);
    assert_true(slowdown.factor > 1.15 && slowdown.factor < 1.17);
    to.optimizer = VW_OPTIMIZER_SGD;
    assert_true(vw__plan_state_bytes_per_weight(&to) == 0);
}

/* Of one weight, with 8 bytes of state that take 0.32 ns each way: 6 take turns beside a forward
 * pass of 0.16 ns and a backward pass of 0.32, the rest stays; a step of ten times that hides all
 * of it. */
static void with_streams_spilling_costs_what_the_passes_do_not_hide(void **state)
{
    (void)state;
    vw_plan_settings from = {.mode = VW_PLAN_MODE_TRAIN,
                             .batch = 8,
                             .accumulation = 1,
                             .sequence = 1000,
                             .precision = VW_PRECISION_AMP_BF16,
                             .optimizer = VW_OPTIMIZER_ADAMW};
    vw_plan_settings to = from;
    to.offload = VW_OFFLOAD_SPILL;
    assert_true(vw__plan_spill_streams(&to));
    vw__plan_slowdown slowdown = vw__plan_slowdown_of(VW__PLAN_CHANGE_OFFLOAD, &from, &to, 0);
    assert_true(slowdown.factor > 1.39 && slowdown.factor < 1.41);
    to.batch = 80;
    slowdown = vw__plan_slowdown_of(VW__PLAN_CHANGE_OFFLOAD, &from, &to, 0);
    assert_true(slowdown.factor > 1.004 && slowdown.factor < 1.006); /* to map it is left */
    to.optimizer = VW_OPTIMIZER_LION;                                /* not of torch.optim */
    assert_false(vw__plan_spill_streams(&to));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_fit_are_possible_and_the_fastest_comes_first),
        cmocka_unit_test(no_choice_has_a_change_it_could_do_without),
        cmocka_unit_test(what_fits_already_needs_no_change),
        cmocka_unit_test(a_card_beyond_reason_has_room),
        cmocka_unit_test(a_card_too_small_for_anything_is_called_that),
        cmocka_unit_test(what_shares_weights_still_has_other_ways),
        cmocka_unit_test(without_training_a_smaller_batch_is_offered),
        cmocka_unit_test(shardings_and_chunks_are_offered_where_they_help),
        cmocka_unit_test(the_code_of_a_loss_in_chunks_is_the_models_own),
        cmocka_unit_test(the_code_of_a_loss_is_that_of_transformers_or_the_readers_own),
        cmocka_unit_test(autocast_is_always_among_the_offers),
        cmocka_unit_test(outside_of_training_no_words_are_of_training),
        cmocka_unit_test(the_largest_batch_fits_and_one_more_does_not),
        cmocka_unit_test(without_a_card_the_choices_need_less_and_less),
        cmocka_unit_test(a_card_without_bfloat16_is_offered_none),
        cmocka_unit_test(another_method_says_that_it_is_one),
        cmocka_unit_test(an_estimate_is_the_last_step_of_a_run),
        cmocka_unit_test(every_change_has_words_and_a_factor_with_a_source),
        cmocka_unit_test(spilling_costs_what_the_state_takes_over_the_bus),
        cmocka_unit_test(with_streams_spilling_costs_what_the_passes_do_not_hide),
    };
    return cmocka_run_group_tests(tests, NULL, close_zoo_models);
}
