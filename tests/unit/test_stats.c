/* test_stats.c - what vw_recording_stats_make() says of recordings made by hand. */
#include "vramwise/analysis.h"

#include <string.h>

#include "analysis/recording.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/small_model.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)

static vw_recording recording_of(vw__model *model)
{
    return (vw_recording){
        .model = model,
        .encoding = VW__SNAPSHOT_ENCODING_PICKLE,
        .compression = VW__BYTE_SOURCE_XZ,
        .file_bytes = 100,
        .uncompressed_bytes = 2000,
    };
}

static vw_recording_stats *stats_of(vw__model *model, const vw_stats_options *options)
{
    vw_recording recording = recording_of(model);
    vw_recording_stats *stats = NULL;
    vw_status status = vw_recording_stats_make(&recording, options, &stats);
    if (status != VW_OK)
        print_error("%s\n", vw_last_error());
    assert_int_equal(status, VW_OK);
    return stats;
}

static bool has_warning(const vw_recording_stats *stats, const char *part)
{
    for (size_t i = 0; i < stats->warning_count; i++)
        if (strstr(stats->warnings[i], part) != NULL)
            return true;
    return false;
}

/* Device 0 with a whole trace and an oom, device 2 with segments only, and the host. */
static vw__model *three_devices(void)
{
    small_model small;
    uint16_t stream, pool;
    small_model_begin(&small);
    uint32_t c = small_model_context(&small, "f train.py 1");
    assert_int_equal(vw__model_add_stream(small.builder, 0x1234, &stream), VW_OK);
    assert_int_equal(vw__model_add_pool(small.builder, (vw_private_id){0, 1}, &pool), VW_OK);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 20 * MIB, c);
    small_model_alloc(&small, A, 5 * MIB, c);
    small_model_alloc(&small, A + 5 * MIB, 4 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_free(&small, A + 5 * MIB, 4 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_event(&small, VW_ACTION_SNAPSHOT, 0, 5 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_event(&small, VW_ACTION_OOM, 7 * MIB, 30 * MIB, c);
    small_model_event(&small, VW_ACTION_OOM, 6 * MIB, 31 * MIB, c);
    small_model_event(&small, VW__MODEL_ACTION_ANNOTATE, A, 5 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    small_model_end_trace(&small, 1);
    small_model_alloc(&small, 0x1000, 4096, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, VW__MODEL_HOST_DEVICE);
    small_model_segment(&small, 0, A, 20 * MIB, 5 * MIB, c);
    small_model_segment(&small, 2, A, 2 * MIB, 1000, VW__MODEL_NO_CONTEXT);
    small_model_segment(&small, 2, A + 2 * MIB, 20 * MIB, 0, VW__MODEL_NO_CONTEXT);
    small_model_segment(&small, VW__MODEL_HOST_DEVICE, 0x1000, 4096, 4096, VW__MODEL_NO_CONTEXT);
    small_model_set_features(&small);
    vw__model_builder_features(small.builder)->has_host_traces = true;
    vw__model_settings *settings = vw__model_builder_settings(small.builder);
    settings->is_known = true;
    assert_int_equal(
        vw__model_add_string(small.builder, "max_split_size_mb:64", 20, &settings->conf), VW_OK);
    assert_int_equal(vw__model_add_setting(small.builder, "max_split_size", "67108864"), VW_OK);
    vw__model_ignore_field(small.builder, "novelty", 7);
    small_model_move(&small, 0, false, (vw__model_move){3 * MIB, 2, 3 * MIB, 500});
    small_model_move(&small, 2, false, (vw__model_move){9 * MIB, 1, 9 * MIB, 1});
    small_model_move(&small, 0, false, (vw__model_move){4 * MIB, 1, 6 * MIB, 300}); /* 1 freed */
    small_model_move(&small, 0, true, (vw__model_move){5 * MIB, 2, MIB, 50});
    return small_model_finish(&small);
}

static void what_the_file_says_is_passed_on(void **state)
{
    (void)state;
    vw__model *model = three_devices();
    vw_stats_options options = {.struct_size = sizeof options, .without_summary = true};
    vw_recording_stats *stats = stats_of(model, &options);
    assert_string_equal(stats->encoding, "pickle");
    assert_string_equal(stats->compression, "xz");
    assert_int_equal(stats->file_bytes, 100);
    assert_int_equal(stats->uncompressed_bytes, 2000);
    assert_int_equal(stats->model_bytes, vw__model_size_bytes(model));
    assert_string_equal(stats->conf, "max_split_size_mb:64");
    assert_int_equal(stats->setting_count, 1);
    assert_string_equal(stats->settings[0].key, "max_split_size");
    assert_string_equal(stats->settings[0].value, "67108864");
    assert_int_equal(stats->unknown_field_count, 1);
    assert_string_equal(stats->first_unknown_field, "novelty");
    assert_true(has_warning(stats, "\"novelty\""));
    vw_recording_stats_free(stats);
    vw__model_destroy(model);
}

static void devices_come_in_order_with_the_host_last_and_without_the_empty_ones(void **state)
{
    (void)state;
    vw__model *model = three_devices();
    vw_stats_options options = {.struct_size = sizeof options, .without_summary = true};
    vw_recording_stats *stats = stats_of(model, &options);
    assert_int_equal(stats->device_count, 3);
    assert_int_equal(stats->devices[0].device, 0);
    assert_int_equal(stats->devices[1].device, 2);
    assert_int_equal(stats->devices[2].device, VW__MODEL_HOST_DEVICE);
    vw_recording_stats_free(stats);
    vw__model_destroy(model);
}

static void events_are_counted_by_kind_and_the_first_oom_is_kept(void **state)
{
    (void)state;
    vw__model *model = three_devices();
    vw_stats_options options = {.struct_size = sizeof options, .without_summary = true};
    vw_recording_stats *stats = stats_of(model, &options);
    const vw_device_stats *device = &stats->devices[0];
    assert_int_equal(device->event_count, 9);
    assert_int_equal(device->action_counts[VW_ACTION_ALLOC], 2);
    assert_int_equal(device->action_counts[VW_ACTION_FREE_REQUESTED], 1);
    assert_int_equal(device->action_counts[VW_ACTION_FREE_COMPLETED], 1);
    assert_int_equal(device->action_counts[VW_ACTION_SEGMENT_ALLOC], 1);
    assert_int_equal(device->action_counts[VW_ACTION_SNAPSHOT], 1);
    assert_int_equal(device->action_counts[VW_ACTION_OOM], 2);
    assert_int_equal(device->other_event_count, 1);
    assert_int_equal(device->stackless_count, 1);
    assert_int_equal(device->first_time_us, 1000);
    assert_int_equal(device->last_time_us, 1080);
    assert_int_equal(device->stream_count, 1);
    assert_int_equal(device->private_pool_count, 0);
    assert_true(device->has_oom);
    assert_int_equal(device->oom_event, 6);
    assert_int_equal(device->oom_tried_bytes, 30 * MIB);
    assert_int_equal(device->oom_device_free_bytes, 7 * MIB);
    assert_true(has_warning(stats, "no allocations, frees or segments"));
    vw_recording_stats_free(stats);
    vw__model_destroy(model);
}

static void memory_that_went_to_the_host_is_counted_by_device(void **state)
{
    (void)state;
    vw__model *model = three_devices();
    vw_stats_options options = {.struct_size = sizeof options, .without_summary = true};
    vw_recording_stats *stats = stats_of(model, &options);
    assert_int_equal(stats->annotation_count, 8);
    const vw_recorded_spill *spill = &stats->devices[0].spill;
    assert_int_equal(spill->spills, 2);
    assert_int_equal(spill->all_spilled_bytes, 7 * MIB);
    assert_int_equal(spill->peak_spilled_bytes, 6 * MIB);
    assert_int_equal(spill->end_spilled_bytes, MIB);
    assert_int_equal(spill->returns, 1);
    assert_int_equal(spill->returned_bytes, 5 * MIB);
    assert_int_equal(spill->wait_us, 850);
    assert_int_equal(stats->devices[1].spill.peak_spilled_bytes, 9 * MIB);
    assert_int_equal(stats->devices[2].spill.spills, 0);
    vw_recording_stats_free(stats);
    vw__model_destroy(model);
}

static void what_came_back_was_there_before_though_its_leaving_fell_out_of_the_ring(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_segment(&small, 0, A, 20 * MIB, 5 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_move(&small, 0, true, (vw__model_move){5 * MIB, 2, MIB, 50});
    small_model_annotate(&small, VW_SPILL_ANNOTATION, 0, true, small.time_us); /* no numbers */
    vw__model *model = small_model_finish(&small);
    vw_recording_stats *stats = stats_of(model, NULL);
    assert_int_equal(stats->devices[0].spill.spills, 0);
    assert_int_equal(stats->devices[0].spill.peak_spilled_bytes, 6 * MIB);
    vw_recording_stats_free(stats);
    vw__model_destroy(model);
}

static void moves_of_more_than_any_host_has_are_refused(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_segment(&small, 0, A, 20 * MIB, 5 * MIB, VW__MODEL_NO_CONTEXT);
    for (int i = 0; i < 2; i++)
        small_model_move(&small, 0, false, (vw__model_move){UINT64_MAX - 1, 1, 0, 0});
    vw__model *model = small_model_finish(&small);
    vw_recording recording = recording_of(model);
    vw_recording_stats *stats = NULL;
    assert_int_equal(vw_recording_stats_make(&recording, NULL, &stats), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "vramwise spill"));
    assert_null(stats);
    vw__model_destroy(model);
}

static void the_end_and_the_peak_are_told_apart(void **state)
{
    (void)state;
    vw__model *model = three_devices();
    vw_stats_options options = {.struct_size = sizeof options, .without_summary = true};
    vw_recording_stats *stats = stats_of(model, &options);
    const vw_device_stats *device = &stats->devices[0];
    assert_int_equal(device->segment_count, 1);
    assert_int_equal(device->block_count, 2);
    assert_int_equal(device->reserved_bytes, 20 * MIB);
    assert_int_equal(device->allocated_bytes, 5 * MIB);
    assert_int_equal(device->requested_bytes, 5 * MIB);
    assert_int_equal(device->largest_free_block_bytes, 15 * MIB);
    assert_int_equal(device->peak_reserved_bytes, 20 * MIB);
    assert_int_equal(device->peak_reserved_event, 0);
    assert_int_equal(device->peak.live_bytes, 9 * MIB);
    assert_int_equal(device->peak.event, 2);
    assert_int_equal(device->peak.usage_count, 2);
    assert_int_equal(device->end.live_bytes, 5 * MIB);
    assert_int_equal(device->end.event, 8);
    assert_false(device->is_truncated);
    vw_recording_stats_free(stats);
    vw__model_destroy(model);
}

static void a_device_without_a_trace_shows_its_end_and_calls_the_rest_unknown(void **state)
{
    (void)state;
    vw__model *model = three_devices();
    vw_recording_stats *stats = stats_of(model, NULL);
    const vw_device_stats *device = &stats->devices[1];
    assert_int_equal(device->event_count, 0);
    assert_true(device->first_time_us == INT64_MIN && device->last_time_us == INT64_MIN);
    assert_true(device->peak_reserved_bytes == VW_UNKNOWN);
    assert_int_equal(device->segment_count, 2);
    assert_int_equal(device->peak.live_bytes, 1024);
    assert_true(device->peak.event == VW_UNKNOWN);
    assert_null(device->summary);
    assert_non_null(strstr(device->summary_reason, "no trace"));
    assert_null(stats->devices[2].summary);
    assert_non_null(strstr(stats->devices[2].summary_reason, "pinned"));
    vw_recording_stats_free(stats);
    vw__model_destroy(model);
}

static void a_cut_trace_is_called_one(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_free(&small, A, 1000, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, 2 * MIB, 0, VW__MODEL_NO_CONTEXT);
    small_model_set_features(&small);
    vw__model *model = small_model_finish(&small);
    vw_recording_stats *stats = stats_of(model, NULL);
    const vw_device_stats *device = &stats->devices[0];
    assert_true(device->is_truncated);
    assert_int_equal(device->initial_live_bytes, 1024);
    assert_int_equal(device->initial_block_count, 1);
    assert_int_equal(device->peak.live_bytes, 1024);
    assert_int_equal(device->peak.event, 0);
    assert_true(has_warning(stats, "the ring kept only the last 2 events"));
    assert_null(device->summary);
    assert_non_null(strstr(device->summary_reason, "first allocation"));
    vw_recording_stats_free(stats);
    vw__model_destroy(model);
}

static void a_recording_without_stacks_or_traces_or_anything_says_so(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_set_features(&small);
    vw__model *model = small_model_finish(&small);
    vw_recording_stats *stats = stats_of(model, NULL);
    assert_int_equal(stats->device_count, 0);
    assert_null(stats->conf);
    assert_true(has_warning(stats, "empty"));
    vw_recording_stats_free(stats);
    vw__model_destroy(model);

    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 2 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A, 512, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, 2 * MIB, 512, VW__MODEL_NO_CONTEXT);
    model = small_model_finish(&small);
    stats = stats_of(model, NULL);
    assert_true(has_warning(stats, "no allocation has a stack"));
    vw_recording_stats_free(stats);
    vw__model_destroy(model);

    small_model_begin(&small);
    small_model_segment(&small, 0, A, 2 * MIB, 512, VW__MODEL_NO_CONTEXT);
    model = small_model_finish(&small);
    stats = stats_of(model, NULL);
    assert_true(has_warning(stats, "no trace"));
    vw_recording_stats_free(stats);
    vw__model_destroy(model);
}

/* One small block on device 1; PyTorch would put it at the beginning of its segment. */
static vw__model *one_block_at(uint64_t offset_bytes)
{
    small_model small;
    small_model_begin(&small);
    uint32_t c = small_model_context(&small, "f train.py 1");
    small_model_end_trace(&small, 0);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 2 * MIB, c);
    small_model_alloc(&small, A + offset_bytes, 1000, c);
    small_model_event(&small, VW__MODEL_ACTION_ANNOTATE, A, 1000, VW__MODEL_NO_CONTEXT);
    small_model_free(&small, A + offset_bytes, 1000, c);
    small_model_end_trace(&small, 1);
    small_model_segment(&small, 1, A, 2 * MIB, 0, VW__MODEL_NO_CONTEXT);
    small_model_set_features(&small);
    return small_model_finish(&small);
}

static void a_recording_that_comes_out_again_has_pytorchs_summary(void **state)
{
    (void)state;
    vw__model *model = one_block_at(0);
    vw_recording_stats *stats = stats_of(model, NULL);
    const char *summary = stats->devices[0].summary;
    assert_non_null(summary);
    assert_null(stats->devices[0].summary_reason);
    assert_non_null(
        strstr(summary, "PyTorch CUDA memory summary, device ID 1                 |\n"));
    assert_non_null(
        strstr(summary, "| Allocated memory      |      0 B   |   1024 B   |   1024 B   |   1024 B "
                        "  |\n"));
    vw_recording_stats_free(stats);
    vw__model_destroy(model);
}

static void a_recording_that_does_not_come_out_again_has_none(void **state)
{
    (void)state;
    vw__model *model = one_block_at(512);
    vw_recording_stats *stats = stats_of(model, NULL);
    assert_null(stats->devices[0].summary);
    assert_non_null(strstr(stats->devices[0].summary_reason, "does not reproduce"));
    vw_recording_stats_free(stats);
    vw__model_destroy(model);
}

/* A free is requested of what was never there. */
static void an_event_that_replay_cannot_tell_leaves_no_summary(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 2 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A, 1000, VW__MODEL_NO_CONTEXT);
    small_model_free(&small, A, 1000, VW__MODEL_NO_CONTEXT);
    small_model_event(&small, VW_ACTION_FREE_REQUESTED, A + MIB, 512, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, 2 * MIB, 0, VW__MODEL_NO_CONTEXT);
    small_model_set_features(&small);
    vw__model *model = small_model_finish(&small);
    vw_recording_stats *stats = stats_of(model, NULL);
    assert_null(stats->devices[0].summary);
    assert_non_null(strstr(stats->devices[0].summary_reason, "does not reproduce"));
    vw_recording_stats_free(stats);
    vw__model_destroy(model);
}

static void pinned_memory_alone_is_a_device_too(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_segment(&small, VW__MODEL_HOST_DEVICE, 0x1000, 4096, 4096, VW__MODEL_NO_CONTEXT);
    vw__model *model = small_model_finish(&small);
    vw_recording_stats *stats = stats_of(model, NULL);
    assert_int_equal(stats->device_count, 1);
    assert_int_equal(stats->devices[0].device, VW__MODEL_HOST_DEVICE);
    vw_recording_stats_free(stats);
    vw__model_destroy(model);
}

static void more_devices_than_pytorch_can_number_are_refused(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    for (int device = 0; device < 200; device++)
        small_model_segment(&small, device, A, 2 * MIB, 0, VW__MODEL_NO_CONTEXT);
    vw__model *model = small_model_finish(&small);
    vw_recording recording = recording_of(model);
    vw_recording_stats *stats = NULL;
    assert_int_equal(vw_recording_stats_make(&recording, NULL, &stats), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "devices"));
    assert_null(stats);
    vw__model_destroy(model);
}

static void bad_arguments_are_refused_and_the_place_untouched(void **state)
{
    (void)state;
    vw__model *model = three_devices();
    vw_recording recording = recording_of(model);
    vw_recording_stats *stats = NULL;
    vw_stats_options options = {.struct_size = sizeof options, .torch_version = "0.4"};
    assert_int_equal(vw_recording_stats_make(NULL, NULL, &stats), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_recording_stats_make(&recording, NULL, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_recording_stats_make(&recording, &options, &stats),
                     VW_ERR_INVALID_ARGUMENT);
    options = (vw_stats_options){.struct_size = 3};
    assert_int_equal(vw_recording_stats_make(&recording, &options, &stats),
                     VW_ERR_INVALID_ARGUMENT);
    assert_null(stats);
    vw_recording_stats_free(NULL);
    vw__model_destroy(model);
}

static bool make_stats(void *context)
{
    vw_recording recording = recording_of(context);
    vw_recording_stats *stats = NULL;
    vw_stats_options options = {.struct_size = sizeof options};
    if (vw_recording_stats_make(&recording, &options, &stats) != VW_OK)
        return false;
    vw_recording_stats_free(stats);
    return true;
}

static void every_lack_of_host_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    vw__model *model = three_devices();
    vw_test_sweep_host_memory(make_stats, model);
    vw__model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_file_says_is_passed_on),
        cmocka_unit_test(devices_come_in_order_with_the_host_last_and_without_the_empty_ones),
        cmocka_unit_test(events_are_counted_by_kind_and_the_first_oom_is_kept),
        cmocka_unit_test(memory_that_went_to_the_host_is_counted_by_device),
        cmocka_unit_test(what_came_back_was_there_before_though_its_leaving_fell_out_of_the_ring),
        cmocka_unit_test(moves_of_more_than_any_host_has_are_refused),
        cmocka_unit_test(the_end_and_the_peak_are_told_apart),
        cmocka_unit_test(a_device_without_a_trace_shows_its_end_and_calls_the_rest_unknown),
        cmocka_unit_test(a_cut_trace_is_called_one),
        cmocka_unit_test(a_recording_without_stacks_or_traces_or_anything_says_so),
        cmocka_unit_test(a_recording_that_comes_out_again_has_pytorchs_summary),
        cmocka_unit_test(a_recording_that_does_not_come_out_again_has_none),
        cmocka_unit_test(an_event_that_replay_cannot_tell_leaves_no_summary),
        cmocka_unit_test(pinned_memory_alone_is_a_device_too),
        cmocka_unit_test(more_devices_than_pytorch_can_number_are_refused),
        cmocka_unit_test(bad_arguments_are_refused_and_the_place_untouched),
        cmocka_unit_test(every_lack_of_host_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
