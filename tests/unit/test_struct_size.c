/* test_struct_size.c - callers built with an older header: every public struct with a struct_size,
 * cut off behind its first field.
 *
 * Each cut struct lies in a heap block of exactly its size, so that AddressSanitizer sees a read or
 * a write behind its end. tools/check_struct_size.py fails where a public struct has no CUT() here.
 */
#include "base/struct_size.h"

#include <stdlib.h>

#include "vramwise/live.h"
#include "vramwise/mcp.h"
#include "vramwise/park.h"
#include "vramwise/pinned.h"
#include "vramwise/recording.h"
#include "vramwise/report.h"
#include "vramwise/view.h"
#include "vramwise/watch.h"
#include "support/cmocka_here.h"
#include "support/job_folder.h"
#include "support/live_folder.h"
#include "support/made_job.h"
#include "support/report_capture.h"

#define RECORDING VW_TEST_DATA "/recordings/streams.native.pickle.xz"

/* A heap copy of `whole` that ends behind its field `first`. Freed at the end of the test. */
#define CUT(type, first, ...)                                                                      \
    ((type *)cut(&(type){__VA_ARGS__}, offsetof(type, first) + sizeof(((type *)0)->first)))

static void *blocks[32];
static size_t block_count;

static void *cut(const void *whole, size_t size_bytes)
{
    assert_true(block_count < sizeof blocks / sizeof blocks[0]);
    void *block = malloc(size_bytes);
    assert_non_null(block);
    blocks[block_count++] = block;
    memcpy(block, whole, size_bytes);
    memcpy(block, &size_bytes, sizeof size_bytes);
    return block;
}

static int free_blocks(void **state)
{
    (void)state;
    while (block_count > 0)
        free(blocks[--block_count]);
    return 0;
}

static void must(vw_status status)
{
    if (status != VW_OK)
        fail_msg("%s: %s", vw_status_name(status), vw_last_error());
}

static vw_recording *opened(void)
{
    vw_recording *recording = NULL;
    must(vw_recording_open(RECORDING, NULL, &recording));
    return recording;
}

static vw_plan_model *small_model(void)
{
    vw_plan_model *model = NULL;
    must(vw_plan_model_open("resnet18", &model));
    return model;
}

/* ---- libvramwise: inputs --------------------------------------------------------------------- */

static vw_device *simulated(void)
{
    vw_device *device = NULL;
    must(vw_simulated_device_create(
        CUT(vw_simulated_options, capacity_bytes, .capacity_bytes = UINT64_C(1) << 30), &device));
    return device;
}

static void simulated_options_default_to_their_capacity(void **state)
{
    (void)state;
    vw_device *device = simulated();
    assert_int_equal(device->properties.total_bytes, UINT64_C(1) << 30);
    assert_int_equal(device->properties.granularity_bytes, UINT64_C(2) << 20);
    assert_true(device->properties.has_virtual_memory);
    vw_device_destroy(device);
}

static vw_pool *pool_on(vw_device *device, const char *engine)
{
    vw_pool *pool = NULL;
    must(vw_pool_create(device, CUT(vw_pool_options, engine, .engine = engine), &pool));
    return pool;
}

static void a_server_of_tools_may_have_a_name_only(void **state)
{
    static const char message[] = "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"tools/list\"}";
    static report_capture capture;
    (void)state;
    const vw_output output = report_capture_begin(&capture);
    must(
        vw_mcp_answer(CUT(vw_mcp_server, name, .name = "x"), message, sizeof message - 1, &output));
    assert_non_null(strstr(capture.text, "\"tools\": []"));
}

static void a_pool_and_its_requests_take_defaults(void **state)
{
    (void)state;
    vw_device *device = simulated();
    vw_pool *pool = pool_on(device, "torch");
    vw_device_ptr address = VW_NULL;
    must(vw_alloc_with(pool, CUT(vw_alloc_request, size_bytes, .size_bytes = 1000), &address));
    assert_true(address != VW_NULL);

    vw_private_id id = {1, 2};
    must(vw_private_pool_retain(pool, id, CUT(vw_private_options, use_on_oom, .use_on_oom = true)));
    assert_int_equal(vw_private_pool_use_count(pool, id), 1);
    must(vw_private_pool_release(pool, id));
    must(vw_free(pool, address));
    vw_pool_destroy(pool);
    vw_device_destroy(device);
}

static void a_pinned_pool_takes_defaults(void **state)
{
    (void)state;
    vw_device *device = simulated();
    vw_pinned_pool *pool = NULL;
    must(vw_pinned_pool_create(
        device, CUT(vw_pinned_options, conf, .conf = "pinned_use_background_threads:False"),
        &pool));
    vw_pinned_stats *stats = CUT(vw_pinned_stats, num_host_alloc, .num_host_alloc = 77);
    must(vw_pinned_pool_get_stats(pool, stats));
    assert_int_equal(stats->num_host_alloc, 0);
    vw_pinned_pool_destroy(pool);
    vw_device_destroy(device);
}

/* A device of somebody's own: what every device has must be there, what was added later need not.
 */
static void a_device_table_may_end_early_but_not_before_what_every_device_has(void **state)
{
    (void)state;
    vw_device *device = simulated();
    vw_pool *pool = NULL;
    vw_pinned_pool *pinned = NULL;
    vw_device cut_off = *device;
    cut_off.table = CUT(vw_device_table, take, .take = device->table->take);
    assert_int_equal(vw_pool_create(&cut_off, NULL, &pool), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pinned_pool_create(&cut_off, NULL, &pinned), VW_ERR_INVALID_ARGUMENT);

    vw_device older = *device;
    older.table = cut(device->table,
                      offsetof(vw_device_table, memory_info) + sizeof device->table->memory_info);
    must(vw_pool_create(&older, &(vw_pool_options){.struct_size = sizeof(vw_pool_options)}, &pool));
    vw_device_ptr address = VW_NULL;
    assert_int_equal(vw_alloc(pool, UINT64_C(1) << 40, 0, &address), VW_ERR_OUT_OF_MEMORY);
    must(vw_alloc(pool, 4096, 0, &address));
    vw_pool_destroy(pool);
    vw_device_destroy(device);
}

static void a_recorder_takes_defaults_and_counts_into_the_room_there_is(void **state)
{
    (void)state;
    vw_recorder *recorder = NULL;
    must(vw_recorder_create(CUT(vw_recorder_options, max_entries, .max_entries = 10), &recorder));
    vw_recorder_counts *counts = CUT(vw_recorder_counts, seen_count, .seen_count = 77);
    must(vw_recorder_get_counts(recorder, counts));
    assert_int_equal(counts->seen_count, 0);
    vw_recorder_destroy(recorder);
}

static void an_identity_without_ranks_has_none(void **state)
{
    (void)state;
    live_folder folder;
    live_folder_make(&folder);
    vw_live_page *page = NULL;
    must(vw_live_page_create(folder.path, CUT(vw_live_identity, program, .program = "old.py"),
                             &page));
    must(vw_live_page_identify(page, CUT(vw_live_identity, program, .program = "older.py")));
    vw_jobs *jobs = live_folder_read(&folder);
    assert_int_equal(jobs->job_count, 1);
    assert_string_equal(jobs->jobs[0].program, "older.py");
    assert_int_equal(jobs->jobs[0].rank, -1);
    assert_int_equal(jobs->jobs[0].local_rank, -1);
    assert_int_equal(jobs->jobs[0].world_size, 0);
    vw_job_answer *answer = CUT(vw_job_answer, status, .status = VW_OK);
    assert_int_equal(vw_job_ask(&jobs->jobs[0], VW_JOB_PARK, NULL, 0, answer), VW_ERR_NOT_READY);
    vw_jobs_free(jobs);
    must(vw_jobs_read_shared(folder.path, CUT(vw_jobs_shared, pod_folder, .pod_folder = "/none"),
                             &jobs));
    assert_int_equal(jobs->job_count, 1);
    vw_jobs_free(jobs);
    vw_live_page_destroy(page);
    live_folder_remove(&folder);
}

/* ---- libvramwise: outputs -------------------------------------------------------------------- */

static void statistics_of_a_pool_fill_the_room_there_is(void **state)
{
    (void)state;
    vw_device *device = simulated();
    vw_pool *pool = pool_on(device, "vramwise");
    vw_device_ptr address = VW_NULL;
    must(vw_alloc(pool, 4096, 0, &address));
    vw_pool_stats *stats = CUT(vw_pool_stats, active, .active.all.current = 77);
    must(vw_pool_get_stats(pool, stats));
    assert_int_equal(stats->active.all.current, 1);
    vw_paged_stats *paged = CUT(vw_paged_stats, is_fallback, .is_fallback = true);
    must(vw_pool_get_paged_stats(pool, paged));
    assert_false(paged->is_fallback);

    vw_park_report *parked = CUT(vw_park_report, moved_bytes, .moved_bytes = 77);
    vw_private_id none = {1, 1}; /* not promised: refused, which fills the report all the same */
    assert_int_equal(vw_pool_park(pool, CUT(vw_park_options, only, .only = &none), parked),
                     VW_ERR_UNSUPPORTED);
    assert_int_equal(parked->moved_bytes, 0);

    assert_int_equal(vw_alloc(pool, UINT64_C(1) << 40, 0, &address), VW_ERR_OUT_OF_MEMORY);
    vw_oom_report *report = CUT(vw_oom_report, device, .device = 77);
    must(vw_last_out_of_memory(report));
    assert_int_equal(report->device, 0);
    vw_pool_destroy(pool);
    vw_device_destroy(device);
}

static void statistics_of_a_budget_fill_the_room_there_is(void **state)
{
    (void)state;
    vw_pinned_budget *budget = NULL;
    must(vw_pinned_budget_create(4096, &budget));
    vw_pinned_budget_stats *stats = CUT(vw_pinned_budget_stats, limit_bytes, .limit_bytes = 77);
    must(vw_pinned_budget_get(budget, stats));
    assert_int_equal(stats->limit_bytes, 4096);
    vw_pinned_budget_destroy(budget);
}

/* ---- libvramwise-analysis -------------------------------------------------------------------- */

static void opening_takes_defaults(void **state)
{
    (void)state;
    const vw_open_options *options = CUT(vw_open_options, memory_limit_bytes, 0);
    vw_recording *recording = NULL;
    must(vw_recording_open(RECORDING, options, &recording));
    vw_recording_close(recording);

    static const char empty[] = "{\"segments\": [], \"device_traces\": []}";
    must(vw_recording_open_memory(empty, sizeof empty - 1, options, &recording));
    vw_recording_close(recording);
}

static void statistics_and_verify_take_defaults(void **state)
{
    (void)state;
    vw_recording *recording = opened();
    vw_recording_stats *stats = NULL;
    must(vw_recording_stats_make(
        recording, CUT(vw_stats_options, torch_version, .torch_version = NULL), &stats));
    assert_non_null(stats->devices[0].summary);
    vw_recording_stats_free(stats);
    vw_verify_result *result = NULL;
    must(vw_recording_verify(
        recording, CUT(vw_verify_options, torch_version, .torch_version = NULL), &result));
    assert_true(result->is_exact);
    assert_false(result->has_expectation);
    vw_verify_result_free(result);
    vw_recording_close(recording);
}

static void replay_and_tune_take_the_busiest_device(void **state)
{
    (void)state;
    vw_recording *recording = opened();
    vw_replay_report *whole = NULL, *report = NULL;
    must(vw_recording_replay(recording, NULL, &whole));
    must(vw_recording_replay(recording, CUT(vw_replay_options, runs, .runs = NULL), &report));
    assert_int_equal(report->device, whole->device);
    assert_int_equal(report->result_count, whole->result_count);
    assert_int_equal(report->results[0].card_bytes, whole->results[0].card_bytes);
    vw_replay_report_free(report);

    vw_tune_report *tuned = NULL;
    must(vw_recording_tune(
        recording, CUT(vw_tune_options, card_bytes, .card_bytes = UINT64_C(80) << 30), &tuned));
    assert_int_equal(tuned->device, whole->device);
    assert_true(tuned->fits);
    vw_tune_report_free(tuned);
    vw_replay_report_free(whole);
    vw_recording_close(recording);
}

static void a_check_takes_the_usual_setting_and_limits(void **state)
{
    (void)state;
    vw_recording *recording = opened();
    vw_baseline *baseline = NULL;
    vw_check_report *report = NULL;
    const vw_check_limits *none = CUT(vw_check_limits, max_growth, .max_growth = {0});
    must(vw_baseline_make(recording, CUT(vw_baseline_options, like, .like = NULL), &baseline));
    assert_string_equal(baseline->policy, "native");
    must(vw_baselines_compare(baseline, baseline, none, &report));
    assert_true(report->figures[VW_CHECK_RESERVED].max_growth == 0.0);
    vw_check_report_free(report);
    vw_baseline_free(baseline);
    vw_recording_close(recording);
}

static void every_door_of_the_doctor_takes_defaults(void **state)
{
    (void)state;
    const vw_doctor_options *options = CUT(vw_doctor_options, card_bytes, .card_bytes = 0);
    static const char text[] = "Epoch 1: loss 0.5\n";
    vw_recording *recording = opened();
    vw_diagnosis *diagnosis = NULL;
    must(vw_doctor_file(RECORDING, options, &diagnosis));
    assert_int_equal(diagnosis->source, VW_SOURCE_RECORDING);
    vw_diagnosis_free(diagnosis);
    must(vw_doctor_text(text, sizeof text - 1, options, &diagnosis));
    vw_diagnosis_free(diagnosis);
    must(vw_doctor_recording(recording, options, &diagnosis));
    vw_diagnosis_free(diagnosis);

    static made_job made;
    make_job(&made);
    put_numbers(&made, 0, GIB, 2 * GIB, 20 * GIB);
    must(vw_doctor_job(&made.job, options, &diagnosis));
    assert_true(diagnosis->is_running);
    vw_diagnosis_free(diagnosis);
    vw_recording_close(recording);
}

static void ranks_take_defaults(void **state)
{
    (void)state;
    job_folder job;
    job_folder_make(&job);
    job_folder_put(&job, "rank0.log", "Epoch 1: loss 0.5\n");
    vw_ranks_report *report = NULL;
    must(vw_ranks_examine(job.path, CUT(vw_ranks_options, torch_version, .torch_version = NULL),
                          &report));
    assert_int_equal(report->file_count, 1);
    vw_ranks_report_free(report);
    job_folder_remove(&job);
}

static void fleets_take_defaults(void **state)
{
    (void)state;
    job_folder jobs;
    job_folder_make(&jobs);
    job_folder_put(&jobs, "a/rank0.log", "Epoch 1: loss 0.5\n");
    vw_fleet_report *report = NULL;
    must(vw_fleet_examine(jobs.path, CUT(vw_fleet_options, torch_version, .torch_version = NULL),
                          &report));
    assert_int_equal(report->job_count, 1);
    vw_fleet_report_free(report);
    job_folder_put_snapshot(&jobs, "a/run.json", (job_snapshot){100, 20, 0, NULL});
    vw_fleet_tuning *tuning = NULL;
    must(vw_fleet_tune(jobs.path, CUT(vw_fleet_tune_options, card_bytes, .card_bytes = 1 << 30),
                       &tuning));
    assert_int_equal(tuning->best->fit_count, 1);
    vw_fleet_tuning_free(tuning);
    job_folder_remove(&jobs);
}

static void a_view_takes_defaults(void **state)
{
    (void)state;
    vw_recording *recording = opened();
    vw_view *view = NULL;
    size_t size_bytes = 0;
    must(vw_view_make(recording, NULL, CUT(vw_view_options, file, .file = "a.pickle"), &view));
    assert_non_null(vw_view_data(view, &size_bytes));
    vw_view_free(view);
    vw_recording_close(recording);
}

/* ---- the planner ----------------------------------------------------------------------------- */

static void a_plan_takes_the_defaults_of_vw_plan_settings_init(void **state)
{
    (void)state;
    vw_plan_model *model = small_model();
    vw_plan_settings usual;
    vw_plan_settings_init(&usual);
    vw_plan *whole = NULL, *plan = NULL;
    const vw_plan_options *options = CUT(vw_plan_options, without_replay, .without_replay = true);
    const vw_plan_settings *settings = CUT(vw_plan_settings, mode, .mode = VW_PLAN_MODE_TRAIN);
    const vw_plan_options all_options = {.struct_size = sizeof all_options, .without_replay = true};
    must(vw_plan_make(model, &usual, &all_options, &whole));
    must(vw_plan_make(model, settings, options, &plan));
    assert_int_equal(plan->peak_allocated_bytes, whole->peak_allocated_bytes);
    assert_int_equal(plan->choice_count, whole->choice_count); /* without_choices is false */
    assert_int_equal(plan->reserved_bytes[0], VW_UNKNOWN);
    assert_int_equal(plan->settings.struct_size, sizeof usual);
    vw_plan_free(plan);
    vw_plan_free(whole);

    vw_recording *recording = NULL;
    must(vw_plan_record(model, settings, &recording));
    vw_recording_close(recording);
    uint64_t points[4];
    must(vw_plan_live_line(model, settings, points, 4));
    vw_plan_changes *changes = NULL;
    must(vw_plan_changes_make(model, settings, settings, &changes));
    assert_int_equal(changes->count, 0);
    vw_plan_changes_free(changes);
    job_folder job;
    job_folder_make(&job);
    must(vw_plan_write_recording(model, settings, job_folder_path(&job, "plan.pickle")));
    job_folder_remove(&job);
    vw_plan_model_close(model);
}

/* The batch that is asked for has no default: without it the scaling is refused, and nothing is
 * read behind the end. */
static void a_scaling_without_the_batch_that_is_asked_for_is_refused(void **state)
{
    (void)state;
    vw_recording *recording = opened();
    vw_plan_scaled *scaled = NULL;
    assert_int_equal(
        vw_plan_from_recording(recording, CUT(vw_plan_scaling, batch_now, .batch_now = 8), &scaled),
        VW_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(vw_last_error(), "the batch"));
    vw_recording_close(recording);
}

/* ---- reports --------------------------------------------------------------------------------- */

static void every_report_takes_the_defaults_of_its_form(void **state)
{
    (void)state;
    static report_capture usual, capture;
    const vw_report_form *form = CUT(vw_report_form, is_json, .is_json = false);
    vw_output output;
    vw_recording *recording = opened();

#define SAME_REPORT(report, ...)                                                                   \
    do {                                                                                           \
        output = report_capture_begin(&usual);                                                     \
        must(report(__VA_ARGS__, NULL, &output));                                                  \
        output = report_capture_begin(&capture);                                                   \
        must(report(__VA_ARGS__, form, &output));                                                  \
        assert_string_equal(capture.text, usual.text);                                             \
    } while (0)

    vw_recording_stats *stats = NULL;
    must(vw_recording_stats_make(recording, NULL, &stats));
    SAME_REPORT(vw_report_stats, stats);
    vw_recording_stats_free(stats);
    vw_verify_result *verified = NULL;
    must(vw_recording_verify(recording, NULL, &verified));
    SAME_REPORT(vw_report_verify, verified);
    vw_verify_result_free(verified);
    vw_replay_report *replayed = NULL;
    must(vw_recording_replay(recording, NULL, &replayed));
    SAME_REPORT(vw_report_replay, replayed);
    vw_replay_report_free(replayed);
    vw_tune_report *tuned = NULL;
    must(vw_recording_tune(recording,
                           &(vw_tune_options){.struct_size = sizeof(vw_tune_options),
                                              .card_bytes = UINT64_C(80) << 30,
                                              .device = VW_BUSIEST_DEVICE},
                           &tuned));
    SAME_REPORT(vw_report_tune, tuned);
    vw_tune_report_free(tuned);
    vw_diff_report *diff = NULL;
    must(vw_recordings_diff(recording, recording, &diff));
    SAME_REPORT(vw_report_diff, diff);
    vw_diff_report_free(diff);
    vw_diagnosis *diagnosis = NULL;
    must(vw_doctor_recording(recording, NULL, &diagnosis));
    SAME_REPORT(vw_report_doctor, diagnosis);
    vw_diagnosis_free(diagnosis);

    vw_plan_model *model = small_model();
    vw_plan *plan = NULL;
    must(vw_plan_make(model, NULL, NULL, &plan));
    SAME_REPORT(vw_report_plan, plan);
    vw_plan_free(plan);
    vw_plan_model_close(model);
    vw_plan_scaled_part laws[VW_PLAN_LAW_COUNT];
    for (size_t i = 0; i < VW_PLAN_LAW_COUNT; i++)
        laws[i] = (vw_plan_scaled_part){vw_plan_law_name((vw_plan_law)i), 1024, 2048};
    const vw_plan_scaled scaled = {.scaling = {.batch_now = 1, .batch = 2},
                                   .step_basis = "annotations",
                                   .peak_phase = "forward",
                                   .laws = laws};
    SAME_REPORT(vw_report_plan_scaled, &scaled);
    output = report_capture_begin(&capture);
    must(vw_report_plan_known(form, &output));

    const vw_jobs jobs = {.folder = "/tmp"};
    const vw_machine machine = {.jobs = &jobs};
    SAME_REPORT(vw_report_top, NULL, &machine, 0);

    job_folder job;
    job_folder_make(&job);
    job_folder_put(&job, "rank0.log", "Epoch 1: loss 0.5\n");
    vw_ranks_report *ranks = NULL;
    must(vw_ranks_examine(job.path, NULL, &ranks));
    SAME_REPORT(vw_report_ranks, ranks);
    vw_ranks_report_free(ranks);
    job_folder_remove(&job);
    vw_recording_close(recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(simulated_options_default_to_their_capacity, free_blocks),
        cmocka_unit_test_teardown(a_server_of_tools_may_have_a_name_only, free_blocks),
        cmocka_unit_test_teardown(a_pool_and_its_requests_take_defaults, free_blocks),
        cmocka_unit_test_teardown(a_pinned_pool_takes_defaults, free_blocks),
        cmocka_unit_test_teardown(a_device_table_may_end_early_but_not_before_what_every_device_has,
                                  free_blocks),
        cmocka_unit_test_teardown(a_recorder_takes_defaults_and_counts_into_the_room_there_is,
                                  free_blocks),
        cmocka_unit_test_teardown(an_identity_without_ranks_has_none, free_blocks),
        cmocka_unit_test_teardown(statistics_of_a_pool_fill_the_room_there_is, free_blocks),
        cmocka_unit_test_teardown(statistics_of_a_budget_fill_the_room_there_is, free_blocks),
        cmocka_unit_test_teardown(opening_takes_defaults, free_blocks),
        cmocka_unit_test_teardown(statistics_and_verify_take_defaults, free_blocks),
        cmocka_unit_test_teardown(replay_and_tune_take_the_busiest_device, free_blocks),
        cmocka_unit_test_teardown(a_check_takes_the_usual_setting_and_limits, free_blocks),
        cmocka_unit_test_teardown(every_door_of_the_doctor_takes_defaults, free_blocks),
        cmocka_unit_test_teardown(ranks_take_defaults, free_blocks),
        cmocka_unit_test_teardown(fleets_take_defaults, free_blocks),
        cmocka_unit_test_teardown(a_view_takes_defaults, free_blocks),
        cmocka_unit_test_teardown(a_plan_takes_the_defaults_of_vw_plan_settings_init, free_blocks),
        cmocka_unit_test_teardown(a_scaling_without_the_batch_that_is_asked_for_is_refused,
                                  free_blocks),
        cmocka_unit_test_teardown(every_report_takes_the_defaults_of_its_form, free_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
