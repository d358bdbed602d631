/* test_plan_record.c - a planned step is a recording: exact, whole, and readable. */
#include <stdlib.h> /* mkstemp */
#include <string.h>
#include <unistd.h>

#include "vramwise/doctor.h"
#include "vramwise/plan.h"
#include "analysis/recording.h"
#include "analysis/steps.h"
#include "plan/plan_events.h"
#include "plan/plan_device.h"
#include "plan/plan_settings.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/zoo_models.h"

#define MIB (UINT64_C(1) << 20)

/* ---- help ------------------------------------------------------------------------------------ */

/* GPT-2 with few and narrow layers, so that a recording is small. */
static const char tiny_config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 64, "
                                  "\"n_head\": 2, \"n_positions\": 128, "
                                  "\"vocab_size\": 1000}";

static vw_plan_model *tiny;

/* GPT-2 with a batch of 8. */
static vw_recording *gpt2_recording;
static vw_recording_stats *gpt2_stats;

static vw_plan_settings settings_of(uint64_t batch)
{
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    settings.batch = batch;
    return settings;
}

static vw_recording *record(const vw_plan_model *model, const vw_plan_settings *settings)
{
    vw_recording *recording = NULL;
    assert_int_equal(vw_plan_record(model, settings, &recording), VW_OK);
    return recording;
}

static vw_recording_stats *stats_of(const vw_recording *recording)
{
    vw_recording_stats *stats = NULL;
    assert_int_equal(vw_recording_stats_make(recording, NULL, &stats), VW_OK);
    assert_int_equal(stats->device_count, 1);
    return stats;
}

static int open_all(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(8);
    gpt2_recording = record(zoo_model("gpt2"), &settings);
    gpt2_stats = stats_of(gpt2_recording);
    return vw__plan_model_open_memory(tiny_config, sizeof tiny_config - 1, &tiny) != VW_OK;
}

static int close_all(void **state)
{
    vw_recording_stats_free(gpt2_stats);
    vw_recording_close(gpt2_recording);
    vw_plan_model_close(tiny);
    return close_zoo_models(state);
}

static uint64_t tape_peak(const vw_plan_model *model, const vw_plan_settings *settings)
{
    vw_plan_settings checked;
    vw__plan_peaks peaks;
    assert_int_equal(vw__plan_settings_check(model, settings, &checked), VW_OK);
    assert_int_equal(vw__plan_simulate(model, &checked, NULL, &peaks, NULL), VW_OK);
    return peaks.peak.live_bytes;
}

static void assert_exact(const vw_recording *recording)
{
    vw_verify_result *result = NULL;
    assert_int_equal(vw_recording_verify(recording, NULL, &result), VW_OK);
    assert_true(result->is_exact);
    assert_true(result->placements_recorded > 0);
    assert_int_equal(result->placements_recorded, result->placements_matched);
    assert_int_equal(result->end_segments_recorded, result->end_segments_matched);
    assert_int_equal(result->unverifiable_count, 0);
    assert_string_equal(result->torch_version, "2.11");
    vw_verify_result_free(result);
}

static uint64_t bytes_of_category(const vw_moment *moment, const char *category)
{
    for (size_t i = 0; i < moment->category_count; i++)
        if (strcmp(moment->categories[i].category, category) == 0)
            return moment->categories[i].bytes;
    return 0;
}

/* Bytes at that place, by what stats and diff show of it. */
static uint64_t bytes_at(const vw_moment *moment, const char *file, const char *function)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < moment->usage_count; i++) {
        const vw_frame *where = moment->usages[i].where;
        if (where != NULL && strcmp(where->file, file) == 0 &&
            strcmp(where->function, function) == 0)
            bytes += moment->usages[i].bytes;
    }
    return bytes;
}

/* ---- the recording --------------------------------------------------------------------------- */

static void check_variant(const vw_plan_model *model, const vw_plan_settings *settings)
{
    const size_t step_count = settings->mode == VW_PLAN_MODE_TRAIN ? 3 : 0;
    vw_recording *recording = record(model, settings);
    vw_recording_stats *stats = stats_of(recording);
    assert_exact(recording);
    assert_int_equal(stats->devices[0].peak.live_bytes, tape_peak(model, settings));
    assert_int_equal(stats->devices[0].step_count, step_count);
    assert_int_equal(stats->devices[0].stackless_count, 0);
    assert_int_equal(bytes_of_category(&stats->devices[0].peak, "other"), 0);
    assert_int_equal(bytes_of_category(&stats->devices[0].peak, "unknown"), 0);
    assert_false(stats->devices[0].is_truncated);
    vw_recording_stats_free(stats);
    vw_recording_close(recording);
}

static void every_variant_is_exact_and_as_high_as_the_tape(void **state)
{
    (void)state;
    static const struct {
        vw_plan_mode mode;
        vw_precision precision;
        bool has_master_weights;
        vw_optimizer optimizer;
        vw_checkpointing checkpointing;
        uint64_t lora_rank, extra_batches, extra_gpus;
        vw_sharding sharding;
    } variants[] = {
        {.optimizer = VW_OPTIMIZER_ADAMW},
        {.optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_FULL},
        {.optimizer = VW_OPTIMIZER_ADAMW,
         .checkpointing = VW_CHECKPOINTING_FULL,
         .precision = VW_PRECISION_AMP_BF16,
         .extra_batches = 1},
        {.optimizer = VW_OPTIMIZER_SGD}, /* whose step asks for nothing */
        {.optimizer = VW_OPTIMIZER_SGD, .mode = VW_PLAN_MODE_INFERENCE},
        {.optimizer = VW_OPTIMIZER_SGD, .mode = VW_PLAN_MODE_KEEP_GRAPH},
        {.optimizer = VW_OPTIMIZER_ADAMW, .lora_rank = 8},
        {.optimizer = VW_OPTIMIZER_ADAMW, .extra_gpus = 1},
        {.optimizer = VW_OPTIMIZER_ADAMW, .extra_gpus = 1, .sharding = VW_SHARDING_FSDP},
        {.optimizer = VW_OPTIMIZER_ADAMW, .extra_gpus = 1, .sharding = VW_SHARDING_ZERO_2},
        {.optimizer = VW_OPTIMIZER_ADAMW,
         .precision = VW_PRECISION_BF16,
         .has_master_weights = true},
    };
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        vw_plan_settings settings = settings_of(2);
        settings.mode = variants[i].mode;
        settings.accumulation += variants[i].extra_batches;
        settings.precision = variants[i].precision;
        settings.has_master_weights = variants[i].has_master_weights;
        settings.optimizer = variants[i].optimizer;
        settings.checkpointing = variants[i].checkpointing;
        settings.lora_rank = variants[i].lora_rank;
        settings.gpus += variants[i].extra_gpus;
        settings.sharding = variants[i].sharding;
        check_variant(zoo_model("gpt2"), &settings);
    }
}

static void keys_and_values_that_are_kept_are_a_cache(void **state)
{
    (void)state;
    const vw_plan_model *model = zoo_model("gpt2");
    vw_plan_settings settings = settings_of(4);
    settings.mode = VW_PLAN_MODE_INFERENCE;
    settings.sequence = 512;
    settings.generate = 64;
    vw_recording *recording = record(model, &settings);
    vw_recording_stats *stats = stats_of(recording);
    /* 12 layers, keys and values, of 4 prompts of 512 tokens at least, 768 wide, in float32 */
    assert_true(bytes_of_category(&stats->devices[0].peak, "kv-cache") >=
                UINT64_C(12) * 2 * 4 * 512 * 768 * 4);
    assert_exact(recording);
    vw_recording_stats_free(stats);
    vw_recording_close(recording);
}

static void the_parts_of_a_step_have_their_categories(void **state)
{
    (void)state;
    const vw_moment *peak = &gpt2_stats->devices[0].peak, *end = &gpt2_stats->devices[0].end;
    const uint64_t weights = UINT64_C(497759232); /* 124,439,808 in float32, and rounding */
    assert_int_equal(bytes_of_category(peak, "weights"), weights);
    assert_int_equal(bytes_of_category(peak, "optimizer"), 2 * weights);
    assert_int_equal(bytes_of_category(peak, "workspace"), 64 * MIB);
    assert_int_equal(bytes_of_category(peak, "data"), 8 * 1024 * 8);
    assert_true(bytes_of_category(peak, "activations") > 9000 * MIB);
    assert_true(bytes_of_category(peak, "backward") > 3000 * MIB);
    assert_int_equal(bytes_of_category(end, "backward"), weights); /* the gradients */
}

static void places_read_as_the_model_does(void **state)
{
    (void)state;
    const vw_moment *peak = &gpt2_stats->devices[0].peak, *end = &gpt2_stats->devices[0].end;
    assert_int_equal(bytes_at(peak, "layer 7 / attention / c_attn", "forward"), 72 * MIB);
    assert_int_equal(bytes_at(peak, "layer 7 / mlp / act", "forward"), 384 * MIB);
    assert_true(bytes_at(peak, "loss", "backward") > 3000 * MIB);
    assert_true(bytes_at(end, "layer 7 / attention / c_attn", "backward") > 6 * MIB);
    assert_true(bytes_at(end, "optimizer", "step") > 900 * MIB);
}

static void a_checkpointed_plan_lacks_the_activations_of_the_plain_one(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(8);
    settings.checkpointing = VW_CHECKPOINTING_FULL;
    vw_recording *checkpointed = record(zoo_model("gpt2"), &settings);
    vw_diff_report *report = NULL;
    size_t gone_count = 0;
    assert_int_equal(vw_recordings_diff(gpt2_recording, checkpointed, &report), VW_OK);
    assert_string_equal(report->categories[0].category, "activations");
    assert_true(report->categories[0].after_bytes < report->categories[0].before_bytes / 4);
    for (size_t i = 0; i < report->change_count; i++)
        if (strcmp(report->changes[i].category, "activations") == 0 &&
            report->changes[i].after_bytes == 0 && report->changes[i].where != NULL &&
            strncmp(report->changes[i].where->file, "layer ", 6) == 0)
            gone_count++;
    assert_true(gone_count >= 12 * 5);
    vw_diff_report_free(report);
    vw_recording_close(checkpointed);
}

static void what_a_checkpoint_makes_again_is_backward_work(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(1);
    settings.checkpointing = VW_CHECKPOINTING_FULL;
    vw_recording *recording = record(tiny, &settings);
    const vw__model *made = recording->model;
    vw__attribution attribution;
    size_t again_count = 0;
    assert_int_equal(vw__attribution_init(&attribution, made), VW_OK);
    for (size_t i = 0; i < made->event_count; i++) {
        vw__model_stack stack = vw__model_stack_of(made, made->events[i].context);
        const vw__model_frame *inner = &made->frames[made->frame_ids[stack.first]];
        if (made->events[i].action != VW_ACTION_ALLOC ||
            strcmp(vw__model_string(made, inner->name), "recompute") != 0)
            continue;
        again_count++;
        assert_int_equal(vw__attribution_category(&attribution, made->events[i].context),
                         VW__CATEGORY_BACKWARD);
    }
    assert_true(again_count > 0);
    vw__attribution_deinit(&attribution);
    vw_recording_close(recording);
}

static void times_rise_and_are_said_to_be_made_up(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(1);
    vw_recording *recording = record(tiny, &settings);
    const vw__model *made = recording->model;
    for (size_t i = 1; i < made->event_count; i++)
        assert_true(made->events[i].time_us > made->events[i - 1].time_us);
    assert_non_null(strstr(vw__model_string(made, made->annotations[0].name), "times are made up"));
    vw_recording_close(recording);
}

static void a_doctor_finds_it_healthy(void **state)
{
    (void)state;
    vw_diagnosis *diagnosis = NULL;
    assert_int_equal(vw_doctor_recording(gpt2_recording, NULL, &diagnosis), VW_OK);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    vw_diagnosis_free(diagnosis);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void a_file_of_it_reads_back_the_same(void **state)
{
    (void)state;
    char path[] = "/tmp/vramwise-plan-XXXXXX";
    vw_plan_settings settings = settings_of(1);
    vw_recording *planned = record(tiny, &settings), *read = NULL;
    vw_diff_report *report = NULL;
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    close(descriptor);
    assert_int_equal(vw_plan_write_recording(tiny, &settings, path), VW_OK);
    assert_int_equal(vw_recording_open(path, NULL, &read), VW_OK);
    unlink(path);
    assert_exact(read);
    assert_int_equal(read->model->event_count, planned->model->event_count);
    assert_int_equal(read->model->annotation_count, planned->model->annotation_count);
    assert_int_equal(vw_recordings_diff(planned, read, &report), VW_OK);
    assert_true(report->is_same);
    vw_diff_report_free(report);
    vw_recording_close(read);
    vw_recording_close(planned);
}

static void a_file_that_cannot_be_made_says_why(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(1);
    assert_int_equal(vw_plan_write_recording(tiny, &settings, "/nowhere/at/all.pickle"),
                     VW_ERR_FILE);
    assert_non_null(strstr(vw_last_error(), "/nowhere/at/all.pickle"));
    assert_int_equal(vw_plan_write_recording(tiny, &settings, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_plan_write_recording(tiny, &settings, "/dev/full"), VW_ERR_FILE);
}

/* ---- reserved memory, and the line ----------------------------------------------------------- */

static vw_plan *plan_of(const vw_plan_model *model, const vw_plan_settings *settings)
{
    const vw_plan_options options = {.struct_size = sizeof options, .without_choices = true};
    vw_plan *plan = NULL;
    assert_int_equal(vw_plan_make(model, settings, &options, &plan), VW_OK);
    return plan;
}

/* The recording has one step more, in which nothing new is reserved. The peak and what is reserved
 * were measured on an H200 with PyTorch 2.11: max_memory_allocated() and memory_reserved(). */
static void reserved_memory_is_that_of_the_recording_and_near_what_was_measured(void **state)
{
    (void)state;
    const double measured_peak = 15172465664.0, measured_reserved = 15915286528.0;
    vw_plan_settings settings = settings_of(8);
    vw_plan *plan = plan_of(zoo_model("gpt2"), &settings);
    double peak = (double)plan->peak_allocated_bytes / measured_peak;
    double reserved = (double)plan->reserved_bytes[0] / measured_reserved;
    assert_int_equal(plan->reserved_bytes[0], gpt2_stats->devices[0].peak_reserved_bytes);
    for (size_t i = 0; i < VW__PLAN_POLICIES; i++)
        assert_true(plan->reserved_bytes[i] >= gpt2_stats->devices[0].peak.live_bytes);
    assert_true(plan->reserved_bytes[1] < plan->reserved_bytes[0]);
    assert_true(peak > 0.999 && peak < 1.001);
    assert_true(reserved > 0.99 && reserved < 1.01);
    vw_plan_free(plan);
}

static void many_accumulated_batches_reserve_what_a_few_do(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(1);
    settings.accumulation = 3;
    vw_plan *few = plan_of(tiny, &settings);
    settings.accumulation = 100000;
    vw_plan *many = plan_of(tiny, &settings);
    assert_memory_equal(few->reserved_bytes, many->reserved_bytes, sizeof few->reserved_bytes);
    vw_plan_free(few);
    vw_plan_free(many);
}

static void more_than_a_card_could_have_is_unknown_and_no_recording(void **state)
{
    (void)state;
    const vw_plan_model *model = zoo_model("gpt2");
    vw_plan_settings settings = settings_of(1000000);
    vw_recording *recording = NULL;
    vw_plan *plan = plan_of(model, &settings);
    assert_true(plan->reserved_bytes[1] == VW_UNKNOWN);
    vw_plan_free(plan);
    assert_int_equal(vw_plan_record(model, &settings, &recording), VW_ERR_UNSUPPORTED);
    assert_null(recording);
}

static void the_line_has_the_peak_and_no_more(void **state)
{
    (void)state;
    const vw_plan_model *model = zoo_model("gpt2");
    vw_plan_settings settings = settings_of(8);
    uint64_t points[40], most = 0;
    assert_int_equal(vw_plan_live_line(model, &settings, points, 40), VW_OK);
    for (size_t i = 0; i < 40; i++)
        most = points[i] > most ? points[i] : most;
    assert_int_equal(most, tape_peak(model, &settings));
    assert_true(points[0] < most / 4 && points[39] < most / 2);
    assert_int_equal(vw_plan_live_line(model, &settings, points, 1), VW_OK);
    assert_int_equal(points[0], most);
    assert_int_equal(vw_plan_live_line(model, &settings, points, 0), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_plan_live_line(NULL, &settings, points, 1), VW_ERR_INVALID_ARGUMENT);
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    vw_plan_settings settings = settings_of(0);
    vw_recording *recording = NULL;
    assert_int_equal(vw_plan_record(NULL, &settings, &recording), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_plan_record(tiny, &settings, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_plan_record(tiny, &settings, &recording), VW_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(vw_last_error(), "batch"));
}

/* ---- no host memory -------------------------------------------------------------------------- */

static bool record_and_close(void *context)
{
    vw_plan_settings settings = settings_of(1);
    vw_recording *recording = NULL;
    settings.sequence = 16;
    bool is_done = vw_plan_record(context, &settings, &recording) == VW_OK;
    vw_recording_close(recording);
    return is_done;
}

static bool draw_line(void *context)
{
    vw_plan_settings settings = settings_of(1);
    uint64_t points[3];
    settings.sequence = 16;
    return vw_plan_live_line(context, &settings, points, 3) == VW_OK;
}

static void every_failure_of_host_memory_is_survived(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(record_and_close, tiny);
    vw_test_sweep_host_memory(draw_line, tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_is_exact_and_as_high_as_the_tape),
        cmocka_unit_test(keys_and_values_that_are_kept_are_a_cache),
        cmocka_unit_test(the_parts_of_a_step_have_their_categories),
        cmocka_unit_test(places_read_as_the_model_does),
        cmocka_unit_test(a_checkpointed_plan_lacks_the_activations_of_the_plain_one),
        cmocka_unit_test(what_a_checkpoint_makes_again_is_backward_work),
        cmocka_unit_test(times_rise_and_are_said_to_be_made_up),
        cmocka_unit_test(a_doctor_finds_it_healthy),
        cmocka_unit_test(a_file_of_it_reads_back_the_same),
        cmocka_unit_test(a_file_that_cannot_be_made_says_why),
        cmocka_unit_test(reserved_memory_is_that_of_the_recording_and_near_what_was_measured),
        cmocka_unit_test(many_accumulated_batches_reserve_what_a_few_do),
        cmocka_unit_test(more_than_a_card_could_have_is_unknown_and_no_recording),
        cmocka_unit_test(the_line_has_the_peak_and_no_more),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(every_failure_of_host_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
