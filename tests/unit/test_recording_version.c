/* test_recording_version.c - which PyTorch wrote a file, and which trace to work on. */
#include "analysis/recording.h"

#include <stdio.h>
#include <string.h>

#include "engine/torch/torch_versions.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/small_model.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)

/* What each release added: a snapshot of release n has the features of all lines up to it. */
typedef struct release {
    const char *version;
    size_t feature; /* offset of the flag */
} release;

#define FEATURE(name) offsetof(vw__model_features, name)

static const release releases[] = {
    {"2.1", FEATURE(has_block_addresses)},  {"2.2", FEATURE(has_times)},
    {"2.3", FEATURE(has_settings)},         {"2.5", FEATURE(has_annotations)},
    {"2.8", FEATURE(has_compile_context)},  {"2.9", FEATURE(has_stream_reuse)},
    {"2.10", FEATURE(has_user_metadata)},   {"2.12", FEATURE(has_pool_ids)},
    {"2.13", FEATURE(has_max_cached_size)}, {"2.14", FEATURE(has_host_traces)},
};

enum { RELEASE_COUNT = sizeof releases / sizeof releases[0] };

/* A model with events and blocks, with the features of the first `count` releases. */
static vw__model *model_of_release(size_t count)
{
    small_model small;
    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 2 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A, 512, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, 2 * MIB, 512, VW__MODEL_NO_CONTEXT);
    vw__model_features *features = vw__model_builder_features(small.builder);
    *features = (vw__model_features){.has_traces = true, .has_block_history = count == 0};
    for (size_t i = 0; i < count; i++)
        *(bool *)((char *)features + releases[i].feature) = true;
    return small_model_finish(&small);
}

static void assert_range(const vw__model *model, const char *oldest, const char *newest)
{
    const char *found_oldest, *found_newest;
    vw__recording_version_range(model, &found_oldest, &found_newest);
    assert_string_equal(found_oldest, oldest);
    assert_string_equal(found_newest, newest);
}

static void the_fields_of_each_release_give_its_range(void **state)
{
    (void)state;
    static const char *const newest[] = {"2.0", "2.1",  "2.2",  "2.4",  "2.7", "2.8",
                                         "2.9", "2.11", "2.12", "2.13", "2.15"};
    for (size_t count = 0; count <= RELEASE_COUNT; count++) {
        vw__model *model = model_of_release(count);
        assert_range(model, count == 0 ? "2.0" : releases[count - 1].version, newest[count]);
        vw__model_destroy(model);
    }
}

static void the_default_is_the_newest_that_fits_and_2_11_if_it_does(void **state)
{
    (void)state;
    static const char *const expected[] = {"2.0", "2.1",  "2.2",  "2.4",  "2.7", "2.8",
                                           "2.9", "2.11", "2.12", "2.13", "2.15"};
    for (size_t count = 0; count <= RELEASE_COUNT; count++) {
        vw__model *model = model_of_release(count);
        const char *version = NULL;
        assert_int_equal(vw__recording_version(model, NULL, &version), VW_OK);
        assert_string_equal(version, expected[count]);
        vw__model_destroy(model);
    }
}

static void a_file_without_events_is_not_blamed_for_what_events_would_have(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_segment(&small, 0, A, 2 * MIB, 512, VW__MODEL_NO_CONTEXT);
    *vw__model_builder_features(small.builder) = (vw__model_features){
        .has_traces = true,
        .has_block_addresses = true,
        .has_settings = true,
        .has_annotations = true,
        .has_stream_reuse = true,
    };
    vw__model *model = small_model_finish(&small);
    const char *version = NULL;
    assert_range(model, "2.9", "2.12");
    assert_int_equal(vw__recording_version(model, NULL, &version), VW_OK);
    assert_string_equal(version, "2.11");
    vw__model_destroy(model);
}

static void a_bare_list_of_segments_can_be_of_any_version_since_its_fields(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_segment(&small, 0, A, 2 * MIB, 512, VW__MODEL_NO_CONTEXT);
    *vw__model_builder_features(small.builder) =
        (vw__model_features){.is_bare_list = true, .has_block_addresses = true};
    vw__model *model = small_model_finish(&small);
    assert_range(model, "2.1", "2.15");
    vw__model_destroy(model);
}

static void fields_that_contradict_each_other_give_no_range_and_the_default_rules(void **state)
{
    (void)state;
    vw__model *model = model_of_release(RELEASE_COUNT);
    model->features.has_settings = false; /* cut out by hand: 2.14 or newer, and before 2.3 */
    const char *oldest = "", *newest = "", *version = NULL;
    vw__recording_version_range(model, &oldest, &newest);
    assert_null(oldest);
    assert_null(newest);
    assert_int_equal(vw__recording_version(model, NULL, &version), VW_OK);
    assert_string_equal(version, "2.11");
    vw__model_destroy(model);
}

static void a_wanted_version_is_taken_whatever_the_file_says(void **state)
{
    (void)state;
    vw__model *model = model_of_release(2);
    const char *version = NULL;
    assert_int_equal(vw__recording_version(model, "2.4.1+cu121", &version), VW_OK);
    assert_string_equal(version, "2.4");
    assert_int_equal(vw__recording_version(model, "2.15", &version), VW_OK);
    assert_string_equal(version, "2.15");
    static const char *const unknown[] = {"1.5", "2.16", "9.9"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_int_equal(vw__recording_version(model, unknown[i], &version),
                         VW_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(vw_last_error(), unknown[i]));
        assert_non_null(strstr(vw_last_error(), "1.6 to 2.15"));
    }
    assert_int_equal(vw__recording_version(model, "1.14", &version), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw__recording_version(model, "new", &version), VW_ERR_INVALID_ARGUMENT);
    assert_string_equal(version, "2.15");
    vw__model_destroy(model);
}

static void every_version_of_the_engine_has_a_text(void **state)
{
    (void)state;
    vw__model *model = model_of_release(1);
    for (int number = VW__TORCH_OLDEST_VERSION; number <= VW__TORCH_NEWEST_VERSION; number++) {
        vw__torch_rules rules;
        char wanted[16];
        const char *version = NULL;
        if (vw__torch_rules_for(number, &rules) != VW_OK)
            continue;
        snprintf(wanted, sizeof wanted, "%d.%d", number / 100, number % 100);
        assert_int_equal(vw__recording_version(model, wanted, &version), VW_OK);
        assert_string_equal(version, wanted);
    }
    vw__model_destroy(model);
}

/* ---- the trace ------------------------------------------------------------------------------- */

static void the_busiest_device_is_the_one_with_the_most_events_and_never_the_host(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_alloc(&small, A, 512, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    small_model_alloc(&small, A, 512, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A + 512, 512, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 1);
    small_model_end_trace(&small, 2);
    for (uint64_t i = 0; i < 3; i++)
        small_model_alloc(&small, A + 512 * i, 512, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, VW__MODEL_HOST_DEVICE);
    vw__model *model = small_model_finish(&small);

    const vw__model_trace *trace = NULL;
    assert_int_equal(vw__recording_trace(model, VW_BUSIEST_DEVICE, &trace), VW_OK);
    assert_int_equal(trace->device, 1);
    assert_int_equal(vw__recording_trace(model, 0, &trace), VW_OK);
    assert_int_equal(trace->device, 0);
    assert_int_equal(vw__recording_trace(model, 2, &trace), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "device 2"));
    assert_int_equal(vw__recording_trace(model, 7, &trace), VW_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(vw_last_error(), "no device 7"));
    assert_int_equal(vw__recording_trace(model, VW__MODEL_HOST_DEVICE, &trace),
                     VW_ERR_INVALID_ARGUMENT);
    vw__model_destroy(model);
}

static void without_any_event_the_error_says_how_to_record(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_end_trace(&small, 0);
    vw__model *model = small_model_finish(&small);
    const vw__model_trace *trace = NULL;
    assert_int_equal(vw__recording_trace(model, VW_BUSIEST_DEVICE, &trace), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "_record_memory_history"));
    assert_null(trace);
    vw__model_destroy(model);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* {"segments": [], "device_traces": []} as JSON. */
static const char empty_snapshot[] = "{\"segments\": [], \"device_traces\": []}";

static void an_empty_snapshot_opens(void **state)
{
    (void)state;
    vw_recording *recording = NULL;
    assert_int_equal(
        vw_recording_open_memory(empty_snapshot, strlen(empty_snapshot), NULL, &recording), VW_OK);
    assert_int_equal(recording->encoding, VW__SNAPSHOT_ENCODING_JSON);
    assert_int_equal(recording->compression, VW__BYTE_SOURCE_PLAIN);
    assert_int_equal(recording->file_bytes, strlen(empty_snapshot));
    assert_int_equal(recording->uncompressed_bytes, strlen(empty_snapshot));
    vw_recording_close(recording);
    vw_recording_close(NULL);
}

static void what_is_no_snapshot_is_refused_and_the_place_untouched(void **state)
{
    (void)state;
    vw_recording *recording = NULL;
    assert_int_equal(vw_recording_open_memory("hello", 5, NULL, &recording), VW_ERR_CORRUPT_FILE);
    assert_int_equal(vw_recording_open_memory("", 0, NULL, &recording), VW_ERR_CORRUPT_FILE);
    assert_int_equal(vw_recording_open("/nonexistent/file", NULL, &recording), VW_ERR_FILE);
    assert_int_equal(vw_recording_open(NULL, NULL, &recording), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_recording_open_memory(NULL, 3, NULL, &recording), VW_ERR_INVALID_ARGUMENT);
    vw_open_options options = {.struct_size = 1};
    assert_int_equal(vw_recording_open_memory("hello", 5, &options, &recording),
                     VW_ERR_INVALID_ARGUMENT);
    assert_null(recording);
}

static bool stop_at_once(void *context, double done)
{
    (void)done;
    *(bool *)context = true;
    return false;
}

static void progress_that_says_stop_ends_the_reading(void **state)
{
    (void)state;
    bool was_called = false;
    vw_open_options options = {
        .struct_size = sizeof options,
        .progress = stop_at_once,
        .progress_context = &was_called,
    };
    vw_recording *recording = NULL;
    vw_status status =
        vw_recording_open_memory(empty_snapshot, strlen(empty_snapshot), &options, &recording);
    assert_true(was_called);
    assert_int_equal(status, VW_ERR_WRONG_STATE);
    assert_null(recording);
}

static bool open_and_close(void *context)
{
    (void)context;
    vw_recording *recording = NULL;
    if (vw_recording_open_memory(empty_snapshot, strlen(empty_snapshot), NULL, &recording) != VW_OK)
        return false;
    vw_recording_close(recording);
    return true;
}

static void every_lack_of_host_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(open_and_close, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fields_of_each_release_give_its_range),
        cmocka_unit_test(the_default_is_the_newest_that_fits_and_2_11_if_it_does),
        cmocka_unit_test(a_file_without_events_is_not_blamed_for_what_events_would_have),
        cmocka_unit_test(a_bare_list_of_segments_can_be_of_any_version_since_its_fields),
        cmocka_unit_test(fields_that_contradict_each_other_give_no_range_and_the_default_rules),
        cmocka_unit_test(a_wanted_version_is_taken_whatever_the_file_says),
        cmocka_unit_test(every_version_of_the_engine_has_a_text),
        cmocka_unit_test(the_busiest_device_is_the_one_with_the_most_events_and_never_the_host),
        cmocka_unit_test(without_any_event_the_error_says_how_to_record),
        cmocka_unit_test(an_empty_snapshot_opens),
        cmocka_unit_test(what_is_no_snapshot_is_refused_and_the_place_untouched),
        cmocka_unit_test(progress_that_says_stop_ends_the_reading),
        cmocka_unit_test(every_lack_of_host_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
