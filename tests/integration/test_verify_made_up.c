/* test_verify_made_up.c - recordings that our own pool makes, verified.
 *
 * The stored recordings all ran under a limit or under none; no driver ever refused them. Here a
 * random program runs on a simulated card that is too small, or that others use as well, so that
 * the driver refuses; under several settings and versions. Or it uses private pools between
 * ordinary requests and destroys them, so that nothing names them in the end. What the pool tells
 * its listener becomes a recording, and must verify from the file alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vramwise/analysis.h"
#include "analysis/recording.h"
#include "model/model_build.h"
#include "support/cmocka_here.h"
#include "support/stress_run.h"

#define MIB (UINT64_C(1) << 20)
#define SIDE_STREAM 0x5000

enum { SEEDS = 4, STEPS = 2500, MOST_LIVE = 256, LARGEST_MIB = 60 };

typedef struct program {
    const char *version;
    const char *conf;
    uint64_t card_bytes; /* what the driver leaves us of a card that has more */
    double fraction;     /* 1 = no limit */
    bool has_neighbours; /* others take memory of the card, and give it back */
    bool has_streams;
    int private_pool_count; /* used in turns, one after the other, and destroyed */
    bool has_lasting_pool;  /* another that is used between all requests, and is there at the end */
    unsigned seed;
} program;

typedef struct recorder {
    vw__model_builder *builder;
    size_t event_count;
    size_t oom_count, release_count;
    vw__model_segment segment; /* being walked */
    bool has_segment;
} recorder;

static void must(vw_status status)
{
    if (status != VW_OK)
        fail_msg("%s", vw_last_error());
}

/* ---- recording ------------------------------------------------------------------------------- */

static void note_event(void *context, const vw_memory_event *told)
{
    recorder *to = context;
    size_t index;
    vw__model_event event = {.address = told->address,
                             .size_bytes = told->size_bytes,
                             .time_us = VW__MODEL_UNKNOWN_TIME,
                             .context =
                                 told->tag != 0 ? (uint32_t)told->tag - 1 : VW__MODEL_NO_CONTEXT,
                             .note = VW__MODEL_NO_NOTE,
                             .pool = VW__MODEL_UNKNOWN_POOL,
                             .action = (uint8_t)told->action};
    must(vw__model_add_stream(to->builder, told->stream, &event.stream));
    must(vw__model_add_event(to->builder, &event, &index));
    to->event_count++;
    to->oom_count += told->action == VW_ACTION_OOM;
    to->release_count +=
        told->action == VW_ACTION_SEGMENT_FREE || told->action == VW_ACTION_SEGMENT_UNMAP;
}

static void finish_segment(recorder *to)
{
    if (to->has_segment)
        must(vw__model_add_segment(to->builder, &to->segment));
    to->has_segment = false;
}

static bool note_segment(void *context, const vw_segment_info *info)
{
    recorder *to = context;
    finish_segment(to);
    to->has_segment = true;
    to->segment = (vw__model_segment){.address = info->address,
                                      .total_bytes = info->total_bytes,
                                      .allocated_bytes = info->allocated_bytes,
                                      .active_bytes = info->active_bytes,
                                      .requested_bytes = info->requested_bytes,
                                      .context = VW__MODEL_NO_CONTEXT,
                                      .is_large = info->is_large,
                                      .is_expandable = info->is_expandable};
    must(vw__model_add_stream(to->builder, info->stream, &to->segment.stream));
    must(vw__model_add_pool(to->builder, info->private_id, &to->segment.pool));
    return true;
}

static bool note_block(void *context, const vw_segment_info *segment, const vw_block_info *info)
{
    recorder *to = context;
    const vw__model_block block = {.address = info->address,
                                   .size_bytes = info->size_bytes,
                                   .requested_bytes = info->requested_bytes,
                                   .context = VW__MODEL_NO_CONTEXT,
                                   .state = (uint8_t)info->state};
    size_t index;
    (void)segment;
    must(vw__model_add_block(to->builder, &block, &index));
    if (to->segment.block_count++ == 0)
        to->segment.first_block = index;
    return true;
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Blocks of the private pool in use; it is destroyed in the middle of what the program does. */
typedef struct private_blocks {
    vw_private_id id;
    vw_device_ptr live[MOST_LIVE];
    size_t live_count;
} private_blocks;

static void end_private_pool(vw_pool *pool, private_blocks *blocks)
{
    while (blocks->live_count > 0)
        must(vw_free(pool, blocks->live[--blocks->live_count]));
    while (vw_private_pool_use_count(pool, blocks->id) > 0)
        must(vw_private_pool_release(pool, blocks->id));
    must(vw_private_pool_trim(pool, blocks->id));
}

/* One request in a scope of its own, and perhaps a free. */
static void use_private_pool(vw_pool *pool, private_blocks *blocks, recorder *to)
{
    uint32_t capture;
    must(vw__model_begin_context(to->builder, VW__MODEL_EMPTY_STACK, &capture));
    const vw_alloc_request request = {.struct_size = sizeof request,
                                      .size_bytes =
                                          1 + (uint64_t)rand() % (rand() % 2 == 0 ? MIB : 30 * MIB),
                                      .tag = capture + 1};
    if (blocks->live_count == MOST_LIVE || (blocks->live_count > 0 && rand() % 2 == 0)) {
        size_t which = (size_t)rand() % blocks->live_count;
        must(vw_free(pool, blocks->live[which]));
        blocks->live[which] = blocks->live[--blocks->live_count];
    }
    must(vw_private_pool_begin(pool, blocks->id, NULL, NULL));
    must(vw_alloc_with(pool, &request, &blocks->live[blocks->live_count++]));
    must(vw_private_pool_end(pool, blocks->id));
}

/* Requests and frees at random; every request has a tag of its own, which is its stack. */
static void run_program(const program *of, vw_device *device, vw_pool *pool, recorder *to)
{
    vw_device_ptr live[MOST_LIVE];
    size_t live_count = 0;
    private_blocks apart = {.id = {1, 0}}, lasting = {.id = {9, 0}};
    srand(of->seed);
    for (int step = 0; step < STEPS; step++) {
        int pool_steps = of->private_pool_count > 0 ? STEPS / (of->private_pool_count + 1) : 0;
        if (pool_steps > 0 && step < of->private_pool_count * pool_steps && rand() % 8 == 0)
            use_private_pool(pool, &apart, to);
        if (pool_steps > 0 && step % pool_steps == pool_steps - 1 &&
            step < of->private_pool_count * pool_steps) {
            end_private_pool(pool, &apart);
            apart.id.first++;
        }
        if (of->has_lasting_pool && rand() % 8 == 0)
            use_private_pool(pool, &lasting, to);
        if (of->has_neighbours && step % 50 == 0)
            must(vw_device_set_capacity(
                device, of->card_bytes / 2 + (uint64_t)rand() % (of->card_bytes / 2 / MIB) * MIB));
        while (live_count == MOST_LIVE || (live_count > 0 && rand() % 100 < 45)) {
            size_t which = (size_t)rand() % live_count;
            if (of->has_streams && rand() % 4 == 0)
                must(vw_record_stream(pool, live[which], 77));
            must(vw_free(pool, live[which]));
            live[which] = live[--live_count];
        }
        if (of->has_streams && rand() % 8 == 0)
            must(vw_device_complete(device, 77));
        uint32_t capture;
        must(vw__model_begin_context(to->builder, VW__MODEL_EMPTY_STACK, &capture));
        const vw_alloc_request request = {
            .struct_size = sizeof request,
            .size_bytes = 1 + (uint64_t)rand() % (rand() % 2 == 0 ? MIB : LARGEST_MIB * MIB),
            .stream = of->has_streams && rand() % 3 == 0 ? SIDE_STREAM : 0,
            .tag = capture + 1};
        vw_status status = vw_alloc_with(pool, &request, &live[live_count]);
        if (status == VW_OK)
            live_count++;
        else
            assert_int_equal(status, VW_ERR_OUT_OF_MEMORY);
        if (step % 701 == 700)
            must(vw_pool_trim(pool));
    }
}

static vw__model *record(const program *of, recorder *to)
{
    const vw_simulated_options device_options = {
        .struct_size = sizeof device_options,
        .capacity_bytes = of->card_bytes,
        .total_bytes = of->fraction < 1.0 ? of->card_bytes : 16 * of->card_bytes,
        .manual_streams = true};
    const vw_pool_options pool_options = {
        .struct_size = sizeof pool_options, .conf = of->conf, .torch_version = of->version};
    const vw_event_sink sink = {to, note_event};
    const vw_walker walker = {to, note_segment, note_block};
    vw_device *device = NULL;
    vw_pool *pool = NULL;
    vw__model *model = NULL;
    must(vw__model_builder_create(SIZE_MAX, &to->builder));
    must(vw_simulated_device_create(&device_options, &device));
    must(vw_pool_create(device, &pool_options, &pool));
    must(vw_pool_set_sink(pool, &sink));
    if (of->fraction < 1.0)
        must(vw_pool_set_fraction(pool, of->fraction));
    run_program(of, device, pool, to);
    must(vw_pool_walk(pool, &walker, false));
    finish_segment(to);
    must(vw__model_add_trace(to->builder, 0, 0, to->event_count));
    vw__model_features *features = vw__model_builder_features(to->builder);
    features->has_traces = features->has_contexts = features->has_identity = true;
    vw__model_settings *settings = vw__model_builder_settings(to->builder);
    settings->is_known = true;
    must(vw__model_add_string(to->builder, of->conf, strlen(of->conf), &settings->conf));
    must(vw__model_finish(to->builder, &model));
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    return model;
}

/* ---- verifying ------------------------------------------------------------------------------- */

static void must_verify(const program *of, bool has_stacks)
{
    recorder to = {.builder = NULL};
    vw_recording recording = {.model = record(of, &to)};
    recording.model->features.has_contexts = has_stacks;
    const vw_verify_options options = {.struct_size = sizeof options, .torch_version = of->version};
    vw_verify_result *result = NULL;
    must(vw_recording_verify(&recording, &options, &result));
    if (result->first_difference != NULL)
        fail_msg("%s \"%s\" seed %u: event %lld: expected %s; got %s. %s", of->version, of->conf,
                 of->seed, (long long)result->first_difference->event,
                 result->first_difference->expected, result->first_difference->got,
                 result->first_difference->explanation);
    assert_int_equal(result->placements_matched, result->placements_recorded);
    bool is_said = false;
    for (size_t i = 0; i < result->unverifiable_count; i++)
        is_said = is_said || strstr(result->unverifiable[i], "which private pool") != NULL;
    if (of->has_lasting_pool)
        assert_true(result->unverifiable_count > 0 && to.release_count > 10);
    else
        assert_int_equal(is_said, of->private_pool_count > 0);
    if (!of->has_lasting_pool && of->private_pool_count == 0)
        assert_true(to.oom_count > 0 && to.release_count > 10); /* or nothing was refused */
    vw_verify_result_free(result);
    vw__model_destroy(recording.model);
}

static void verify_seeds(program of, bool has_stacks)
{
    for (of.seed = 1; of.seed <= vw_test_rounds(SEEDS); of.seed++)
        must_verify(&of, has_stacks);
}

static void a_card_that_is_too_small_verifies_under_every_setting(void **state)
{
    (void)state;
    static const char *const confs[] = {"", "expandable_segments:True", "max_split_size_mb:32",
                                        "roundup_power2_divisions:4"};
    for (size_t i = 0; i < sizeof confs / sizeof confs[0]; i++)
        verify_seeds(
            (program){
                .version = "2.11", .conf = confs[i], .card_bytes = 600 * MIB, .fraction = 1.0},
            true);
}

static void a_card_that_others_use_as_well_verifies(void **state)
{
    (void)state;
    verify_seeds((program){.version = "2.11",
                           .conf = "",
                           .card_bytes = 1000 * MIB,
                           .fraction = 1.0,
                           .has_neighbours = true},
                 true);
}

static void a_limit_verifies_by_the_rules_of_every_version(void **state)
{
    (void)state;
    static const char *const versions[] = {"1.13", "2.0", "2.4", "2.9", "2.11", "2.13"};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
        verify_seeds((program){.version = versions[i],
                               .conf = "garbage_collection_threshold:0.8",
                               .card_bytes = 4000 * MIB,
                               .fraction = 0.17},
                     true);
}

static void frees_that_wait_for_other_streams_verify_under_pressure(void **state)
{
    (void)state;
    verify_seeds((program){.version = "2.11",
                           .conf = "",
                           .card_bytes = 700 * MIB,
                           .fraction = 1.0,
                           .has_streams = true},
                 true);
}

static void without_stacks_a_small_card_still_verifies(void **state)
{
    (void)state;
    verify_seeds((program){.version = "2.11", .conf = "", .card_bytes = 600 * MIB, .fraction = 1.0},
                 false);
}

static void private_pools_that_nothing_names_are_found(void **state)
{
    (void)state;
    static const char *const confs[] = {"", "expandable_segments:True", "max_split_size_mb:32"};
    for (size_t i = 0; i < sizeof confs / sizeof confs[0]; i++)
        for (int count = 1; count <= 2; count++)
            verify_seeds((program){.version = "2.11",
                                   .conf = confs[i],
                                   .card_bytes = 40000 * MIB,
                                   .fraction = 1.0,
                                   .private_pool_count = count},
                         true);
}

/* Memory of the default pool that went before the end lies between requests of a private pool that
 * stayed, on the same stream: what looks like the capture of a graph is none. */
static void a_pool_that_is_used_between_ordinary_requests_is_no_capture(void **state)
{
    (void)state;
    static const char *const confs[] = {"", "max_split_size_mb:32"};
    for (size_t i = 0; i < sizeof confs / sizeof confs[0]; i++)
        verify_seeds((program){.version = "2.11",
                               .conf = confs[i],
                               .card_bytes = 40000 * MIB,
                               .fraction = 1.0,
                               .has_lasting_pool = true},
                     true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_card_that_is_too_small_verifies_under_every_setting),
        cmocka_unit_test(a_card_that_others_use_as_well_verifies),
        cmocka_unit_test(a_limit_verifies_by_the_rules_of_every_version),
        cmocka_unit_test(frees_that_wait_for_other_streams_verify_under_pressure),
        cmocka_unit_test(without_stacks_a_small_card_still_verifies),
        cmocka_unit_test(private_pools_that_nothing_names_are_found),
        cmocka_unit_test(a_pool_that_is_used_between_ordinary_requests_is_no_capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
