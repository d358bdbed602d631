/* test_recorded_pool.c - what we record, we can replay: a pool's recording verified by our own
 * analysis, to the byte.
 *
 * A random program runs on the simulated device, with streams, private pools, trims and, at the
 * end, a request that cannot be served; it is recorded, written and opened again. verify must then
 * find every event, placement and segment again, in every way of getting stacks and under every
 * setting tried. VW_TEST_SEED repeats a run. */
#include "vramwise/analysis.h"
#include "vramwise/recording.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/byte_buffer.h"
#include "support/cmocka_here.h"
#include "support/pool_fixture.h"

enum { STEPS = 3000, MOST_LIVE = 200, STREAMS = 3 };

typedef struct program {
    vw_test_pool test;
    vw_recorder *recorder;
    bool hands_in_stacks;
    uint64_t random;
    vw_device_ptr live[MOST_LIVE];
    size_t live_count;
} program;

static void must(vw_status status)
{
    if (status != VW_OK)
        fail_msg("%s: %s", vw_status_name(status), vw_last_error());
}

static uint64_t draw(program *p, uint64_t below)
{
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return (p->random >> 11) % below;
}

static vw_status ask(program *p, uint64_t size_bytes, vw_stream stream, vw_device_ptr *out)
{
    vw_alloc_request request = {
        .struct_size = sizeof request, .size_bytes = size_bytes, .stream = stream};
    const vw_stack_frame frames[2] = {{"layer", "model.py", (uint32_t)draw(p, 5)},
                                      {"main", "train.py", 1}};
    if (p->hands_in_stacks)
        must(vw_recorder_add_stack(p->recorder, frames, 2, &request.tag));
    return vw_alloc_with(p->test.pool, &request, out);
}

static void give_back_one(program *p)
{
    size_t at = (size_t)draw(p, p->live_count);
    must(vw_free(p->test.pool, p->live[at]));
    p->live[at] = p->live[--p->live_count];
}

static void take_one(program *p)
{
    /* Mostly small, some of them segments of their own. */
    uint64_t size_bytes = 1 + draw(p, UINT64_C(1) << (6 + draw(p, 20)));
    vw_device_ptr address;
    vw_status status = ask(p, size_bytes, (vw_stream)draw(p, STREAMS), &address);
    if (status == VW_OK)
        p->live[p->live_count++] = address;
    else
        assert_int_equal(status, VW_ERR_OUT_OF_MEMORY);
}

static void run(program *p, bool uses_streams)
{
    for (int i = 0; i < STEPS; i++) {
        bool is_full = p->live_count == MOST_LIVE;
        if (p->live_count != 0 && (is_full || draw(p, 100) < 48))
            give_back_one(p);
        else
            take_one(p);
        if (uses_streams && p->live_count != 0 && draw(p, 20) == 0)
            must(vw_record_stream(p->test.pool, p->live[draw(p, p->live_count)],
                                  (vw_stream)draw(p, STREAMS)));
        if (draw(p, 300) == 0)
            must(vw_pool_trim(p->test.pool));
    }
}

static bool append(void *context, const void *bytes, size_t size_bytes)
{
    vw__append_bytes(context, bytes, size_bytes);
    return !vw__byte_buffer_has_failed(context);
}

/* Everything in the recording comes out again. */
static void expect_exact(program *p, const char *what)
{
    vw__byte_buffer file;
    vw_recording *recording;
    vw_verify_result *result;
    vw__byte_buffer_init(&file);
    must(vw_recorder_write_to(p->recorder, p->test.pool, append, &file));
    must(vw_recording_open_memory(file.bytes, file.size_bytes, NULL, &recording));
    must(vw_recording_verify(recording, NULL, &result));
    const vw_difference *difference = result->first_difference;
    if (!result->is_exact)
        fail_msg("%s: event %llu: expected %s, got %s (%s)", what,
                 difference != NULL ? (unsigned long long)difference->event : 0,
                 difference != NULL ? difference->expected : "?",
                 difference != NULL ? difference->got : "?",
                 difference != NULL ? difference->explanation : "?");
    assert_true(result->event_count >= STEPS);
    assert_int_equal(result->placements_matched, result->placements_recorded);
    assert_true(result->placements_recorded > STEPS / 3);
    assert_int_equal(result->segment_events_matched, result->segment_events_recorded);
    assert_true(result->segment_events_recorded > 10);
    assert_int_equal(result->end_segments_matched, result->end_segments_recorded);
    for (size_t i = 0; i < result->unverifiable_count; i++)
        print_message("%s: %s\n", what, result->unverifiable[i]);
    vw_verify_result_free(result);
    vw_recording_close(recording);
    vw__byte_buffer_deinit(&file);
}

static uint64_t first_seed(void)
{
    const char *text = getenv("VW_TEST_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 1;
}

typedef struct setting {
    const char *conf;
    const char *torch_version;
    uint64_t capacity_bytes;
    double fraction;
} setting;

static void begin(program *p, const setting *chosen, vw_stacks stacks, uint64_t seed)
{
    const vw_test_pool_setup setup = {.conf = chosen->conf,
                                      .torch_version = chosen->torch_version,
                                      .capacity_bytes = chosen->capacity_bytes,
                                      .fraction = chosen->fraction};
    const vw_recorder_options options = {.struct_size = sizeof options, .stacks = stacks};
    *p = (program){.hands_in_stacks = stacks == VW_STACKS_CALLER,
                   .random = (first_seed() + seed) * UINT64_C(0x9E3779B97F4A7C15)};
    vw_test_pool_open(&p->test, &setup);
    must(vw_recorder_create(&options, &p->recorder));
    must(vw_recorder_attach(p->recorder, p->test.pool));
}

static void end(program *p)
{
    vw_recorder_destroy(p->recorder);
    vw_test_pool_close(&p->test);
}

static const setting settings[] = {
    {NULL, NULL, 0, 0},
    {"expandable_segments:True", NULL, 0, 0},
    {"max_split_size_mb:21", NULL, 0, 0},
    {"roundup_power2_divisions:4", NULL, 0, 0},
    {"garbage_collection_threshold:0.6", NULL, 0, 0.3},
    {NULL, "2.4", 0, 0},
    {NULL, "2.13", 0, 0},
};
enum { SETTINGS = sizeof settings / sizeof *settings, NATIVE = 0, NEWER = 6 };

/* The expandable one is held down by a limit: a device that refuses a page half-way through growth
 * leaves nothing in a recording by which that could be told. */
static const setting tight[] = {
    {NULL, NULL, 240 * VW_TEST_MIB, 0},
    {"expandable_segments:True", NULL, 0, 0.24},
};

static void a_random_program_is_verified_whatever_the_settings_and_stacks(void **state)
{
    (void)state;
    static program p;
    for (size_t i = 0; i < SETTINGS; i++)
        for (vw_stacks stacks = VW_STACKS_NONE; stacks <= VW_STACKS_CALLER; stacks++) {
            char what[100];
            snprintf(what, sizeof what, "setting %zu, stacks %d", i, (int)stacks);
            begin(&p, &settings[i], stacks, i);
            run(&p, false);
            expect_exact(&p, what);
            end(&p);
        }
}

/* Memory is given back inside of requests too, and sometimes that is not enough. */
static void a_program_on_a_small_card_is_verified(void **state)
{
    (void)state;
    static program p;
    for (size_t i = 0; i < sizeof tight / sizeof *tight; i++)
        for (vw_stacks stacks = VW_STACKS_NONE; stacks <= VW_STACKS_CALLER; stacks++) {
            begin(&p, &tight[i], stacks, 50 + i);
            run(&p, false);
            vw_pool_stats stats = vw_test_stats(&p.test);
            assert_true(stats.num_alloc_retries > stats.num_ooms && stats.num_ooms > 0);
            expect_exact(&p, "a small card");
            end(&p);
        }
}

static void frees_that_wait_for_other_streams_are_verified(void **state)
{
    (void)state;
    static program p;
    begin(&p, &settings[NATIVE], VW_STACKS_CALLER, 100);
    run(&p, true);
    expect_exact(&p, "streams");
    end(&p);
}

static void private_pools_are_verified(void **state)
{
    (void)state;
    static program p;
    const vw_private_id id = {0, 3};
    begin(&p, &settings[NEWER], VW_STACKS_CALLER, 200); /* events name their pool since 2.12 */
    run(&p, false);
    must(vw_private_pool_begin(p.test.pool, id, NULL, NULL));
    for (int i = 0; i < 20 && p.live_count < MOST_LIVE; i++)
        take_one(&p);
    must(vw_private_pool_end(p.test.pool, id));
    expect_exact(&p, "private pools");
    end(&p);
}

static void a_program_that_ran_out_of_memory_is_verified(void **state)
{
    (void)state;
    for (vw_stacks stacks = VW_STACKS_NONE; stacks <= VW_STACKS_CALLER; stacks++) {
        static program p;
        vw_device_ptr address;
        begin(&p, &settings[NATIVE], stacks, 300);
        run(&p, false);
        assert_int_equal(ask(&p, 4 * VW_TEST_GIB, 0, &address), VW_ERR_OUT_OF_MEMORY);
        expect_exact(&p, "out of memory");
        end(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_random_program_is_verified_whatever_the_settings_and_stacks),
        cmocka_unit_test(a_program_on_a_small_card_is_verified),
        cmocka_unit_test(frees_that_wait_for_other_streams_are_verified),
        cmocka_unit_test(private_pools_are_verified),
        cmocka_unit_test(a_program_that_ran_out_of_memory_is_verified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
