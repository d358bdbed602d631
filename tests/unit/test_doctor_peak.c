/* test_doctor_peak.c - what was alive, and what the doctor advises to make it less.
 *
 * Programs are written out step by step: weights, a batch, a forward pass of four blocks and a
 * loss, a backward pass, an optimizer. Their sizes are the test's. */
#include <string.h>

#include "doctor/doctor.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/small_model.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)
#define TORCH "/usr/lib/python3/site-packages/torch/"
#define CALL "_call_impl " TORCH "nn/modules/module.py 1790"

/* ---- a program ------------------------------------------------------------------------------- */

enum { BLOCKS = 4 };

/* Sizes in MiB; 0 = there is none. */
typedef struct sizes {
    uint64_t weights, batch, block, temporary, logits, gradients, state, step_work;
} sizes;

static const sizes usual_sizes = {.weights = 100,
                                  .batch = 10,
                                  .block = 200,
                                  .temporary = 50,
                                  .gradients = 100,
                                  .state = 200,
                                  .step_work = 20};

typedef struct program {
    small_model small;
    sizes sizes;
    uint32_t weights, batch, block, temporary, loss, backward, state, step_work;
    uint64_t next_address;
    bool has_state;
    uint64_t blocks[BLOCKS], batch_address, logits, loss_address;
} program;

static void begin_with(program *made, sizes given)
{
    *made = (program){.sizes = given, .next_address = A};
    small_model *small = &made->small;
    small_model_begin(small);
    small_model_set_features(small);
    made->weights =
        small_model_context(small, "_apply " TORCH "nn/modules/module.py 965;main train.py 3");
    made->batch = small_model_context(small, "train train.py 10");
    made->block = small_model_context(small, "forward model.py 7;" CALL ";train train.py 11");
    made->temporary = small_model_context(small, "forward model.py 8;" CALL ";train train.py 11");
    made->loss = small_model_context(small, "cross_entropy " TORCH
                                            "nn/functional.py 3504;train train.py 12");
    made->backward = small_model_context(small, "");
    made->state = small_model_context(small, "_init_group " TORCH "optim/adam.py 1;step " TORCH
                                             "optim/adam.py 2;train train.py 14");
    made->step_work = small_model_context(small, "_adam " TORCH "optim/adam.py 3;step " TORCH
                                                 "optim/adam.py 2;train train.py 14");
}

static void begin(program *made)
{
    begin_with(made, usual_sizes);
}

/* A line that is in some stack of the program: "function file line". */
static void passes_through(program *made, const char *frame)
{
    (void)small_model_context(&made->small, frame);
}

/* A block of so many MiB; its address, or 0 for none. */
static uint64_t make(program *made, uint64_t mebibytes, uint32_t context)
{
    uint64_t address = made->next_address;
    if (mebibytes == 0)
        return 0;
    made->next_address += mebibytes * MIB;
    small_model_alloc(&made->small, address, mebibytes * MIB, context);
    return address;
}

static void drop(program *made, uint64_t address, uint64_t mebibytes, uint32_t context)
{
    if (address != 0)
        small_model_free(&made->small, address, mebibytes * MIB, context);
}

static void write_weights(program *made)
{
    make(made, made->sizes.weights, made->weights);
}

/* The first `block_count` blocks, with a temporary after each, and the loss. */
static void write_blocks(program *made, size_t block_count)
{
    for (size_t i = 0; i < block_count; i++) {
        made->blocks[i] = make(made, made->sizes.block, made->block);
        uint64_t temporary = make(made, made->sizes.temporary, made->temporary);
        drop(made, temporary, made->sizes.temporary, made->temporary);
    }
    made->logits = make(made, made->sizes.logits, made->block);
    made->loss_address = make(made, made->sizes.logits != 0 ? made->sizes.logits : 1, made->loss);
}

static void write_forward(program *made, size_t block_count)
{
    made->batch_address = make(made, made->sizes.batch, made->batch);
    write_blocks(made, block_count);
}

static void end_forward(program *made, size_t block_count)
{
    drop(made, made->loss_address, made->sizes.logits != 0 ? made->sizes.logits : 1, made->loss);
    drop(made, made->logits, made->sizes.logits, made->block);
    for (size_t i = block_count; i-- > 0;)
        drop(made, made->blocks[i], made->sizes.block, made->block);
    drop(made, made->batch_address, made->sizes.batch, made->batch);
}

/* Backward, the optimizer, zero_grad(). */
static void write_rest_of_step(program *made)
{
    uint64_t temporary = make(made, made->sizes.temporary, made->backward);
    drop(made, temporary, made->sizes.temporary, made->backward);
    uint64_t of_logits = make(made, made->sizes.logits, made->backward);
    drop(made, of_logits, made->sizes.logits, made->backward);
    uint64_t gradients = make(made, made->sizes.gradients, made->backward);
    end_forward(made, BLOCKS);
    if (!made->has_state)
        make(made, made->sizes.state, made->state);
    made->has_state = true;
    uint64_t work[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        work[i] = make(made, made->sizes.step_work / BLOCKS, made->step_work);
    for (size_t i = 0; i < BLOCKS; i++)
        drop(made, work[i], made->sizes.step_work / BLOCKS, made->step_work);
    drop(made, gradients, made->sizes.gradients, made->backward);
}

static void write_step(program *made)
{
    write_forward(made, BLOCKS);
    write_rest_of_step(made);
}

/* ---- what the doctor says of it -------------------------------------------------------------- */

typedef struct examined {
    vw__model *model;
    vw__doctor_failure failure;
    uint64_t kept_graph_bytes;
    vw_diagnosis *diagnosis;
    const vw_finding *finding; /* NULL: none */
} examined;

static vw_status find_facts(const examined *patient, vw__doctor_facts *facts)
{
    facts->failure = patient->failure;
    vw_status status = vw__timeline_make(facts->model, facts->trace, &facts->timeline);
    if (status == VW_OK)
        status = vw__attribution_init(&facts->attribution, facts->model);
    if (status == VW_OK)
        status = vw__steps_find_in(&facts->timeline, &facts->attribution, &facts->steps);
    if (status == VW_OK)
        status =
            vw__roles_find(&facts->timeline, &facts->attribution, &facts->steps, &facts->roles);
    facts->peak_instant = facts->timeline.peak_instant;
    return status;
}

static vw_status examine(examined *patient)
{
    static const vw_doctor_options options = {.struct_size = sizeof options};
    vw__diagnosis_draft draft;
    const vw__doctor_input input = {.options = &options};
    vw__doctor_facts facts = {.model = patient->model,
                              .trace = vw__model_trace_of(patient->model, 0)};
    vw__doctor_result result = {.draft = &draft, .kept_graph_bytes = patient->kept_graph_bytes};
    vw__diagnosis_init(&draft, VW_SOURCE_RECORDING);
    vw_status status = find_facts(patient, &facts);
    if (status == VW_OK)
        status = vw__doctor_peak(&input, &facts, &result);
    if (status == VW_OK)
        status = vw__diagnosis_finish(&draft, &patient->diagnosis);
    else
        vw__diagnosis_deinit(&draft);
    vw__roles_deinit(&facts.roles);
    vw__doctor_close_trials(&facts);
    vw__steps_deinit(&facts.steps);
    vw__attribution_deinit(&facts.attribution);
    vw__timeline_deinit(&facts.timeline);
    return status;
}

/* Ends the program and examines it. `patient` may have a failure. */
static void admit(examined *patient, program *made)
{
    small_model_end_trace(&made->small, 0);
    patient->model = small_model_finish(&made->small);
    assert_int_equal(examine(patient), VW_OK);
    assert_in_range(patient->diagnosis->finding_count, 0, 1);
    patient->finding =
        patient->diagnosis->finding_count != 0 ? &patient->diagnosis->findings[0] : NULL;
    if (patient->finding != NULL)
        assert_string_equal(patient->finding->kind, "peak");
}

static void discharge(examined *patient)
{
    vw_diagnosis_free(patient->diagnosis);
    vw__model_destroy(patient->model);
}

/* Of a request of `tried` MiB the device has `free` left, with `idle` in pieces. */
static void set_failure(examined *patient, size_t event, uint64_t tried, uint64_t live,
                        uint64_t free, uint64_t idle)
{
    patient->failure = (vw__doctor_failure){
        .has_happened = true,
        .event = (uint32_t)event,
        .instant = (uint32_t)event,
        .failure_count = 1,
        .numbers = {.tried_bytes = tried * MIB,
                    .total_bytes = (live + idle + free) * MIB,
                    .free_bytes = free * MIB,
                    .allocated_bytes = live * MIB,
                    .reserved_bytes = (live + idle) * MIB,
                    .process_bytes = VW_UNKNOWN,
                    .allowed_bytes = VW_UNKNOWN},
    };
}

static void write_failure(program *made, examined *patient, uint64_t tried, uint64_t live,
                          uint64_t free, uint64_t idle, uint32_t context)
{
    size_t event = small_model_event(&made->small, VW_ACTION_OOM, free * MIB, tried * MIB, context);
    set_failure(patient, event, tried, live, free, idle);
}

static uint64_t part_of(const vw_finding *finding, const char *name)
{
    for (size_t i = 0; i < finding->part_count; i++)
        if (strcmp(finding->parts[i].name, name) == 0)
            return finding->parts[i].bytes / MIB;
    return 0;
}

/* The remedy whose action begins so, or NULL. */
static const vw_remedy *remedy_of(const vw_finding *finding, const char *beginning)
{
    for (size_t i = 0; i < finding->remedy_count; i++)
        if (strncmp(finding->remedies[i].action, beginning, strlen(beginning)) == 0)
            return &finding->remedies[i];
    return NULL;
}

static bool has_evidence(const vw_finding *finding, const char *part)
{
    for (size_t i = 0; i < finding->evidence_count; i++)
        if (strstr(finding->evidence[i], part) != NULL)
            return true;
    return false;
}

static void assert_saves(const vw_remedy *remedy, uint64_t at_least, uint64_t at_most)
{
    assert_non_null(remedy);
    assert_int_equal(remedy->basis, VW_BASIS_COMPUTED);
    /* Thousandths leave less than a MiB of these sizes. */
    assert_in_range(remedy->saves_bytes, (at_least - (at_least != 0)) * MIB, (at_least + 1) * MIB);
    assert_in_range(remedy->saves_at_most_bytes, (at_most - 1) * MIB, (at_most + 1) * MIB);
    assert_true(remedy->cost[0] != '\0' && remedy->how[0] != '\0');
}

/* ---- what was alive -------------------------------------------------------------------------- */

static void the_peak_is_told_by_category_line_pass_and_step(void **state)
{
    (void)state;
    program made;
    examined patient = {0};
    begin(&made);
    write_weights(&made);
    for (int i = 0; i < 5; i++)
        write_step(&made);
    admit(&patient, &made);

    const vw_finding *finding = patient.finding;
    assert_int_equal(finding->bytes, (100 + 10 + 800 + 1 + 100 + 200) * MIB); /* gradients made */
    assert_string_equal(finding->title, "At its peak 1.18 GiB were alive: activations 66 %, "
                                        "optimizer 17 %, weights 8.3 %, backward 8.3 %.");
    assert_string_equal(finding->parts[0].name, "activations");
    assert_int_equal(part_of(finding, "activations"), 801);
    assert_int_equal(part_of(finding, "optimizer"), 200);
    assert_int_equal(part_of(finding, "weights"), 100);
    assert_int_equal(part_of(finding, "backward"), 100);
    assert_true(has_evidence(finding, "Of backward, 100 MiB outlive the pass"));
    assert_int_equal(part_of(finding, "other"), 10);
    for (size_t i = 1; i < finding->part_count; i++)
        assert_true(finding->parts[i - 1].bytes >= finding->parts[i].bytes);

    assert_string_equal(finding->where[0], "model.py:7 forward");
    assert_string_equal(finding->where[1], "train.py:14 train");
    assert_true(has_evidence(finding, "The peak was in a backward pass, in step 2"));
    assert_true(has_evidence(
        finding, "model.py:7 forward: 800 MiB in 4 blocks, the largest 200 MiB (activations)"));
    assert_true(has_evidence(finding, "train.py:14 train: 200 MiB in one block (optimizer)"));
    assert_true(has_evidence(finding, "100 MiB have no line of the program"));
    discharge(&patient);
}

/* What a failed program gives back on its way out was not temporary. */
static void in_a_forward_pass_that_failed_activations_are_known_by_earlier_ones(void **state)
{
    (void)state;
    program made;
    examined patient = {0};
    begin(&made);
    write_weights(&made);
    write_step(&made);
    write_step(&made);
    made.batch_address = make(&made, 10, made.batch);
    for (size_t i = 0; i < 3; i++)
        made.blocks[i] = make(&made, 200, made.block);
    uint64_t temporary = make(&made, 50, made.temporary);
    write_failure(&made, &patient, 200, 960, 60, 0, made.block);
    drop(&made, temporary, 50, made.temporary);
    for (size_t i = 3; i-- > 0;)
        drop(&made, made.blocks[i], 200, made.block);
    drop(&made, made.batch_address, 10, made.batch);
    admit(&patient, &made);

    const vw_finding *finding = patient.finding;
    assert_int_equal(finding->bytes, 960 * MIB);
    assert_int_equal(strncmp(finding->title, "When it failed 960 MiB were alive: activations 68 %",
                             strlen("When it failed 960 MiB were alive: activations 68 %")),
                     0);
    assert_int_equal(part_of(finding, "activations"), 650);
    assert_true(has_evidence(finding, "before their own pass ends: 50.0 MiB of activations."));
    assert_true(has_evidence(finding, "It failed in a forward pass, in step 3"));
    assert_true(has_evidence(finding, "Of the 200 MiB asked for, 140 MiB were missing"));
    discharge(&patient);
}

static void without_stacks_nothing_is_claimed(void **state)
{
    (void)state;
    program made;
    examined patient = {0};
    small_model_begin(&made.small);
    made.next_address = A;
    make(&made, 100, VW__MODEL_NO_CONTEXT);
    make(&made, 200, VW__MODEL_NO_CONTEXT);
    write_failure(&made, &patient, 50, 300, 10, 0, VW__MODEL_NO_CONTEXT);
    admit(&patient, &made);
    assert_string_equal(patient.finding->title, "When it failed 300 MiB were alive: unknown "
                                                "100 %.");
    assert_int_equal(patient.finding->where_count, 0);
    assert_true(has_evidence(patient.finding, "no stacks were recorded"));
    assert_int_equal(patient.finding->remedy_count, 1);
    assert_int_equal(patient.finding->remedies[0].basis, VW_BASIS_RULE);
    assert_int_equal(patient.finding->remedies[0].saves_bytes, VW_UNKNOWN);
    discharge(&patient);
}

static void where_nothing_was_alive_nothing_is_said(void **state)
{
    (void)state;
    program made;
    examined patient = {0};
    begin(&made);
    admit(&patient, &made);
    assert_null(patient.finding);
    discharge(&patient);
}

/* ---- what would make it less ----------------------------------------------------------------- */

static void a_run_that_did_well_is_told_three_remedies_at_most(void **state)
{
    (void)state;
    program made;
    examined patient = {0};
    begin(&made);
    write_weights(&made);
    for (int i = 0; i < 5; i++)
        write_step(&made);
    admit(&patient, &made);
    assert_int_equal(patient.finding->remedy_count, 3);
    assert_null(strstr(patient.finding->remedies[0].action, "failed request"));
    assert_null(remedy_of(patient.finding, "keep the optimizer's state"));

    /* The peak of 1211 has gradients in it; the smaller batch keeps 100 of them at all times, so
     * the end of the forward pass, with 300 that stay and 861 that shrink, takes its place. */
    const vw_remedy *batch = remedy_of(patient.finding, "split each batch in 2");
    assert_saves(batch, 1211 - 300 - 861 * 6 / 10 - 100, 1211 - 300 - 861 / 2 - 100);
    assert_non_null(strstr(batch->how, "if i % 2 == 0"));

    assert_saves(remedy_of(patient.finding, "recompute activations"), 801 * 6 / 10,
                 801 * 965 / 1000);
    discharge(&patient);
}

/* Two small steps, and a failure in the forward pass of the third, larger one: 911 MiB are alive,
 * and the device has a single MiB left. */
static void admit_failure(examined *patient, program *made, uint64_t tried)
{
    made->sizes.block = 100;
    write_weights(made);
    write_step(made);
    write_step(made);
    made->sizes.block = 200;
    write_forward(made, 3);
    write_failure(made, patient, tried, 911, 1, 0, made->block);
    end_forward(made, 3);
    admit(patient, made);
}

/* Of 400 MiB that stay, gradients among them, and 611 that shrink, with the request. */
static void the_batch_is_split_as_often_as_the_request_needs(void **state)
{
    (void)state;
    static const struct {
        uint64_t tried;
        const char *first;
        vw_enough enough;
    } cases[] = {
        {200,
         "split each batch in 2 and accumulate gradients: enough by itself for the failed request",
         VW_ENOUGH_YES},
        {500,
         "split each batch in 4 and accumulate gradients: enough by itself for the failed request",
         VW_ENOUGH_YES},
        {1000,
         "split each batch in 8 and accumulate gradients: enough by itself for the failed request",
         VW_ENOUGH_YES},
        {3000,
         "split each batch in 8 and accumulate gradients: may serve the failed request by itself",
         VW_ENOUGH_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        program made;
        examined patient = {0};
        begin(&made);
        admit_failure(&patient, &made, cases[i].tried);
        assert_string_equal(patient.finding->remedies[0].action, cases[i].first);
        assert_int_equal(patient.finding->remedies[0].enough, cases[i].enough);
        discharge(&patient);
    }
}

static void a_remedy_that_is_not_enough_says_how_much_is_left(void **state)
{
    (void)state;
    program made;
    examined patient = {0};
    begin(&made);
    admit_failure(&patient, &made, 30000);
    const vw_remedy *first = &patient.finding->remedies[0];
    assert_string_equal(first->action, "recompute activations in the backward pass (checkpointing)"
                                       ": by itself still 469 MiB short");
    assert_saves(first, 30601 * 6 / 10, 30601 * 965 / 1000);
    assert_int_equal(first->enough, VW_ENOUGH_NO);
    discharge(&patient);
}

static void after_a_failure_all_is_told_and_what_costs_most_is_last(void **state)
{
    (void)state;
    program made;
    examined patient = {0};
    begin(&made);
    admit_failure(&patient, &made, 200);
    const vw_finding *finding = patient.finding;
    assert_non_null(remedy_of(finding, "recompute activations"));
    assert_non_null(remedy_of(finding, "compute in bfloat16"));
    assert_saves(remedy_of(finding, "use an 8-bit optimizer"), 98, 149); /* of 200 */
    assert_saves(remedy_of(finding, "keep the optimizer's state"), 200, 200);
    assert_saves(remedy_of(finding, "shard weights"), 100, 150);
    assert_null(remedy_of(finding, "if no backward pass follows"));
    assert_ptr_equal(remedy_of(finding, "keep the optimizer's state"),
                     &finding->remedies[finding->remedy_count - 2]);
    assert_ptr_equal(remedy_of(finding, "shard weights"),
                     &finding->remedies[finding->remedy_count - 1]);
    discharge(&patient);
}

/* On another card it would have failed at the last block of the second step; the recording knows
 * what came after, and that 1010 MiB fit of the 1211 that it took. */
static void a_replayed_failure_is_judged_by_the_whole_run(void **state)
{
    (void)state;
    program made;
    examined patient = {0};
    begin(&made);
    write_weights(&made);
    write_step(&made);
    made.batch_address = make(&made, 10, made.batch);
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i == BLOCKS - 1)
            set_failure(&patient, made.small.event_count, 200, 910, 100, 0);
        made.blocks[i] = make(&made, 200, made.block);
    }
    patient.failure.is_replayed = true;
    made.loss_address = make(&made, 1, made.loss);
    write_rest_of_step(&made);
    write_step(&made);
    admit(&patient, &made);
    assert_int_equal(patient.finding->bytes, 910 * MIB);
    assert_int_equal(part_of(patient.finding, "activations"), 600);
    assert_true(has_evidence(patient.finding, "It would have failed in a forward pass"));
    assert_true(has_evidence(patient.finding, "Of the 200 MiB asked for, 100 MiB were"));
    assert_string_equal(patient.finding->remedies[0].action,
                        "split each batch in 2 and accumulate gradients: enough by itself for the "
                        "whole run");
    assert_saves(&patient.finding->remedies[0], 294, 380); /* as of a run that did well */
    discharge(&patient);
}

static void where_the_bytes_were_there_in_pieces_no_promise_is_made(void **state)
{
    (void)state;
    program made;
    examined patient = {0};
    begin(&made);
    write_weights(&made);
    write_step(&made);
    write_forward(&made, 3);
    write_failure(&made, &patient, 200, 911, 1, 300, made.block);
    end_forward(&made, 3);
    admit(&patient, &made);
    assert_in_range(patient.finding->remedy_count, 1, 3);
    for (size_t i = 0; i < patient.finding->remedy_count; i++)
        assert_null(strstr(patient.finding->remedies[i].action, "itself"));
    discharge(&patient);
}

/* No backward pass was seen: gradients may be as large as the weights, or there may be none. */
static void in_the_first_forward_pass_training_and_inference_are_both_advised(void **state)
{
    (void)state;
    program made;
    examined patient = {0};
    begin(&made);
    write_weights(&made);
    write_forward(&made, 3);
    write_failure(&made, &patient, 300, 711, 1, 0, made.block);
    end_forward(&made, 3);
    admit(&patient, &made);
    assert_int_equal(part_of(patient.finding, "activations"), 601);
    const vw_remedy *batch = remedy_of(patient.finding, "split each batch in 4 and accumulate");
    assert_saves(batch, 1011 - 200 - 911 * 4 / 10, 1011 - 100 - 911 / 4);
    assert_ptr_equal(batch, &patient.finding->remedies[0]);
    assert_non_null(remedy_of(patient.finding, "recompute activations"));
    assert_non_null(remedy_of(patient.finding, "if no backward pass follows"));
    discharge(&patient);
}

static void what_is_in_use_already_is_not_advised(void **state)
{
    (void)state;
    static const struct {
        const char *frame, *action;
    } cases[] = {
        {"checkpoint " TORCH "utils/checkpoint.py 1", "recompute activations"},
        {"decorate_autocast " TORCH "amp/autocast_mode.py 1", "compute in bfloat16"},
        {"forward /site-packages/flash_attn/flash.py 1", "compute in bfloat16"},
        {"f C:\\venv\\torch\\cuda\\amp\\autocast_mode.py 1", "compute in bfloat16"},
        {"step /site-packages/bitsandbytes/optim/adam.py 1", "use an 8-bit optimizer"},
        {"f " TORCH "distributed/fsdp/fully_shard.py 1", "shard weights"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        program made;
        examined patient = {0};
        begin(&made);
        passes_through(&made, cases[i].frame);
        admit_failure(&patient, &made, 200);
        assert_null(remedy_of(patient.finding, cases[i].action));
        discharge(&patient);

        begin(&made);
        passes_through(&made, "f /home/me/mytorch/utils/checkpoint.py 1"); /* another's */
        admit_failure(&patient, &made, 200);
        assert_non_null(remedy_of(patient.finding, cases[i].action));
        discharge(&patient);
    }
}

/* ---- remedies for one thing ------------------------------------------------------------------ */

static void admit_steps(examined *patient, program *made)
{
    write_weights(made);
    for (int i = 0; i < 4; i++)
        write_step(made);
    admit(patient, made);
}

/* The peak is where the loss' gradient is made: three times the logits, and 710 of the rest. */
static void logits_that_stand_out_are_to_be_computed_in_chunks(void **state)
{
    (void)state;
    program made;
    examined patient = {0};
    sizes large = usual_sizes;
    large.logits = 400;
    large.block = 100;
    begin_with(&made, large);
    admit_steps(&patient, &made);
    assert_int_equal(patient.finding->bytes, 1910 * MIB);
    /* With less of them the end of the backward pass is the peak: two of them, and gradients. */
    assert_saves(remedy_of(patient.finding, "compute the loss in chunks"), 1910 - 810 - 100,
                 1910 - 810 - 24);
    assert_saves(remedy_of(patient.finding, "recompute activations"), 240, 386);
    discharge(&patient);

    begin_with(&made, large);
    passes_through(&made, "forward /site-packages/liger_kernel/ops/loss.py 1");
    admit_steps(&patient, &made);
    assert_null(remedy_of(patient.finding, "compute the loss in chunks"));
    discharge(&patient);
}

static void a_loss_no_larger_than_other_blocks_is_left_alone(void **state)
{
    (void)state;
    program made;
    examined patient = {0};
    sizes alike = usual_sizes;
    alike.logits = 400;
    alike.block = 300;
    begin_with(&made, alike);
    admit_steps(&patient, &made);
    assert_null(remedy_of(patient.finding, "compute the loss in chunks"));
    discharge(&patient);
}

/* The step needs 200 on the way, in four blocks, and has 400 besides; the backward pass has 451. */
static void a_peak_in_the_optimizers_step_gives_way_to_a_fused_one(void **state)
{
    (void)state;
    program made;
    examined patient = {0};
    sizes small_blocks = usual_sizes;
    small_blocks.block = 10;
    small_blocks.temporary = 5;
    small_blocks.step_work = 200;
    begin_with(&made, small_blocks);
    passes_through(&made, "_multi_tensor_adamw " TORCH "optim/adamw.py 1");
    admit_steps(&patient, &made);
    assert_int_equal(patient.finding->bytes, 600 * MIB);
    assert_true(has_evidence(patient.finding, "in the optimizer's step"));
    assert_saves(remedy_of(patient.finding, "use the optimizer's fused step"), 600 - 451 - 50,
                 600 - 451);
    assert_null(remedy_of(patient.finding, "split each batch")); /* not at that instant */
    discharge(&patient);

    begin_with(&made, small_blocks);
    admit_steps(&patient, &made);
    assert_null(remedy_of(patient.finding, "use the optimizer's fused step"));
    discharge(&patient);
}

/* Forward passes only, each of whose blocks are held until the next has its batch. */
static void write_inference(program *made)
{
    write_weights(made);
    for (int i = 0; i < 6; i++) {
        uint64_t batch_address = make(made, made->sizes.batch, made->batch);
        if (i != 0)
            end_forward(made, BLOCKS);
        made->batch_address = batch_address;
        write_blocks(made, BLOCKS);
    }
    end_forward(made, BLOCKS);
}

static void without_a_backward_pass_inference_is_advised_and_no_training(void **state)
{
    (void)state;
    program made;
    examined patient = {0};
    begin(&made);
    write_inference(&made);
    admit(&patient, &made);
    /* 160 that stay, and of 800 two blocks at best. */
    assert_saves(remedy_of(patient.finding, "if no backward pass follows"), 0, 960 - 160 - 400);
    assert_non_null(remedy_of(patient.finding, "split each batch in 2"));
    assert_null(remedy_of(patient.finding, "split each batch in 2 and accumulate"));
    assert_null(remedy_of(patient.finding, "recompute activations"));
    assert_saves(remedy_of(patient.finding, "load the weights in fewer bits"), 50, 74);
    discharge(&patient);

    patient.kept_graph_bytes = MIB; /* told by another finding */
    begin(&made);
    write_inference(&made);
    admit(&patient, &made);
    assert_null(remedy_of(patient.finding, "if no backward pass follows"));
    discharge(&patient);
}

/* ---- host memory ----------------------------------------------------------------------------- */

static bool examine_again(void *context)
{
    examined *patient = context;
    if (examine(patient) != VW_OK)
        return false;
    vw_diagnosis_free(patient->diagnosis);
    return true;
}

static void every_lack_of_host_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    program made;
    examined patient = {0};
    begin(&made);
    admit_failure(&patient, &made, 200);
    vw_diagnosis_free(patient.diagnosis);
    vw_test_sweep_host_memory(examine_again, &patient);
    vw__model_destroy(patient.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_peak_is_told_by_category_line_pass_and_step),
        cmocka_unit_test(in_a_forward_pass_that_failed_activations_are_known_by_earlier_ones),
        cmocka_unit_test(without_stacks_nothing_is_claimed),
        cmocka_unit_test(where_nothing_was_alive_nothing_is_said),
        cmocka_unit_test(a_run_that_did_well_is_told_three_remedies_at_most),
        cmocka_unit_test(the_batch_is_split_as_often_as_the_request_needs),
        cmocka_unit_test(a_remedy_that_is_not_enough_says_how_much_is_left),
        cmocka_unit_test(after_a_failure_all_is_told_and_what_costs_most_is_last),
        cmocka_unit_test(a_replayed_failure_is_judged_by_the_whole_run),
        cmocka_unit_test(where_the_bytes_were_there_in_pieces_no_promise_is_made),
        cmocka_unit_test(in_the_first_forward_pass_training_and_inference_are_both_advised),
        cmocka_unit_test(what_is_in_use_already_is_not_advised),
        cmocka_unit_test(logits_that_stand_out_are_to_be_computed_in_chunks),
        cmocka_unit_test(a_loss_no_larger_than_other_blocks_is_left_alone),
        cmocka_unit_test(a_peak_in_the_optimizers_step_gives_way_to_a_fused_one),
        cmocka_unit_test(without_a_backward_pass_inference_is_advised_and_no_training),
        cmocka_unit_test(every_lack_of_host_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
