/* test_report_top.c - a machine as text and as JSON: whole, never too wide, and not to be steered.
 */
#include "vramwise/report.h"

#include <jansson.h>
#include <string.h>

#include "contract/device_contract.h" /* assert_ok, assert_status */
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/made_up_machine.h"
#include "support/report_wording.h"

static made_up_machine before, now;
static vw_gpu gpu;

/* One job on one GPU, which is input-bound. */
static int make_machine(void **state)
{
    (void)state;
    made_up_machine_make(&before, 10 * MADE_UP_SECOND_NS);
    made_up_machine_make(&now, 12 * MADE_UP_SECOND_NS);
    gpu = made_up_gpu(3, "NVIDIA H200");
    gpu.utilisation_percent = 97;
    now.machine.gpus = &gpu;
    now.machine.gpu_count = 1;
    now.row.place = VW_ROW_ON_GPU;
    now.row.gpu = &gpu;
    now.row.process_bytes = UINT64_C(9) << 30;
    uint64_t *values = now.device.values, *earlier = before.device.values;
    values[VW_LIVE_LIVE_BYTES] = UINT64_C(6) << 30;
    values[VW_LIVE_RESERVED_BYTES] = UINT64_C(8) << 30;
    values[VW_LIVE_STEPS] = 4, earlier[VW_LIVE_STEPS] = 0;
    values[VW_LIVE_STEP_NS] = 2 * MADE_UP_SECOND_NS, earlier[VW_LIVE_STEP_NS] = 0;
    values[VW_LIVE_INPUT_WAIT_NS] = MADE_UP_SECOND_NS, earlier[VW_LIVE_INPUT_WAIT_NS] = 0;
    values[VW_LIVE_LOADER_WORKERS] = 0;
    values[VW_LIVE_LOADER_PINS] = 0;
    return 0;
}

static const char *report(const vw_report_form *form, long process)
{
    const vw_output output = report_capture_begin(&captured);
    assert_ok(vw_report_top(&before.machine, &now.machine, process, form, &output));
    return captured.text;
}

static void text_has_the_gpu_the_job_and_its_notes(void **state)
{
    (void)state;
    (void)report(NULL, 0);
    keep_wording("a job on a GPU");
    assert_shows("GPU 3: NVIDIA H200|97 %|600 B|1000 B"
                 "|17 3 train.py 9.00 GiB 6.00 GiB 8.00 GiB 500 ms\n"
                 "|input-bound|50 %|2.00 GiB|1.00 GiB");
    assert_true(report_capture_width(&captured) <= 80);
}

static void text_has_pinned_memory_and_retries_where_there_are_some(void **state)
{
    (void)state;
    uint64_t *values = now.device.values;
    values[VW_LIVE_PINNED_BYTES] = values[VW_LIVE_RETRIES] = before.device.values[VW_LIVE_RETRIES] =
        0;
    assert_non_null(strstr(report(NULL, 0), "pinned 0 B"));
    assert_null(strstr(report(NULL, 0), "retries/s"));
    values[VW_LIVE_PEAK_LIVE_BYTES] = values[VW_LIVE_PINNED_BYTES] = UINT64_C(3) << 30;
    values[VW_LIVE_LARGEST_FREE_BYTES] = 1 << 20;
    values[VW_LIVE_RETRIES] = 3;
    (void)report(NULL, 0);
    keep_wording("pinned memory and retries");
    assert_shows("pinned 3.00 GiB|1.50 retries");
    assert_true(report_capture_width(&captured) <= 80);
}

static void only_the_process_that_was_asked_for_is_shown(void **state)
{
    (void)state;
    assert_null(strstr(report(NULL, 18), "train.py"));
    assert_null(strstr(report(NULL, 18), "GPU 3"));
    assert_non_null(strstr(report(NULL, 17), "train.py"));
    assert_non_null(strstr(report(NULL, 17), "GPU 3"));
}

static void jobs_without_a_gpu_have_a_heading(void **state)
{
    (void)state;
    now.row.place = VW_ROW_ON_NO_GPU;
    now.row.gpu = NULL;
    now.machine.gpu_count = 0;
    now.machine.gpu_trouble = "NVML could not be loaded";
    (void)report(NULL, 0);
    keep_wording("a job without a GPU");
    assert_shows("NVML could not be loaded\n|17 train.py");
}

static void a_machine_with_nothing_says_so(void **state)
{
    (void)state;
    now.machine.row_count = 0;
    (void)report(NULL, 0);
    keep_wording("no jobs");
    assert_false(report_capture_has(&captured, "PID"));
}

static void numbers_beyond_reason_are_shown_too(void **state)
{
    (void)state;
    vw_report_form form = {.struct_size = sizeof form, .width_columns = 100};
    uint64_t *values = now.device.values;
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        values[i] = UINT64_MAX - 2;
    values[VW_LIVE_STEPS] = 1, before.device.values[VW_LIVE_STEPS] = 0;
    before.device.values[VW_LIVE_ALLOCATIONS] = 0;
    before.device.updated_ns = now.device.updated_ns - 1; /* more a second than a number holds */
    (void)report(&form, 0);
    assert_shows("NVIDIA H200|? allocations/s");
}

static void names_cannot_steer_a_terminal(void **state)
{
    (void)state;
    snprintf(now.row.command, sizeof now.row.command, "a\033[2J\xff\nb");
    snprintf(gpu.name, sizeof gpu.name, "H\033]0;x");
    const char *text = report(NULL, 0);
    assert_null(strchr(text, '\033'));
    assert_non_null(strstr(text, "a?[2J? b"));
}

static json_t *load(void)
{
    json_t *root = json_loads(report(&(vw_report_form){.is_json = true}, 0), 0, NULL);
    assert_non_null(root);
    return root;
}

static void json_has_the_fields_of_the_page_and_null_for_what_is_not_known(void **state)
{
    (void)state;
    json_t *root = load();
    assert_int_equal(json_integer_value(json_object_get(root, "schema")), 1);
    json_t *row = json_array_get(json_object_get(root, "rows"), 0);
    assert_int_equal(json_integer_value(json_object_get(row, "gpu")), 3);
    assert_string_equal(json_string_value(json_object_get(row, "place")), "gpu");
    assert_true(json_is_true(json_object_get(row, "input_bound")));
    assert_true(json_is_null(json_object_get(row, "allocations_per_second")));
    assert_true(json_is_null(json_object_get(row, "leak")));
    json_t *device = json_object_get(row, "device");
    for (size_t i = 0; i < vw_live_field_count(); i++) {
        json_t *value = json_object_get(device, vw_live_field_name(i));
        assert_non_null(value);
        if (now.device.values[i] == VW_LIVE_UNKNOWN)
            assert_true(json_is_null(value));
        else
            assert_int_equal(json_integer_value(value), now.device.values[i]);
    }
    json_decref(root);
}

static void json_of_a_process_without_a_page_has_no_job(void **state)
{
    (void)state;
    now.row.job = NULL;
    now.row.device = NULL;
    json_t *root = load();
    json_t *row = json_array_get(json_object_get(root, "rows"), 0);
    assert_true(json_is_null(json_object_get(row, "job")));
    assert_true(json_is_null(json_object_get(row, "device")));
    assert_true(json_is_null(json_object_get(row, "silent_seconds")));
    json_decref(root);
}

/* ---- notes ----------------------------------------------------------------------------------- */

static size_t find_notes(vw_row_note notes[VW_NOTE_KIND_COUNT])
{
    vw_job_figures figures;
    assert_ok(vw_job_figures_find(&before.machine, &now.machine, &now.row, &figures));
    return vw_row_notes(&now.row, &figures, notes);
}

static void every_note_is_made_and_the_urgent_come_first(void **state)
{
    vw_row_note notes[VW_NOTE_KIND_COUNT];
    vw_job_step steps[100];
    (void)state;
    for (size_t i = 0; i < 100; i++)
        steps[i] = (vw_job_step){.step = i + 1, .live_bytes = (i + 1) << 20};
    now.device.steps = steps;
    now.device.step_count = 100;
    now.device.values[VW_LIVE_LIVE_BYTES] = UINT64_C(2) << 30;
    now.device.values[VW_LIVE_DEVICE_FREE_BYTES] = UINT64_C(1) << 30;
    now.device.values[VW_LIVE_OUT_OF_MEMORY] = 2;
    now.device.values[VW_LIVE_SPILLED_BYTES] = 1 << 20;
    before.device.values[VW_LIVE_RETRIES] = 0;
    now.device.values[VW_LIVE_RETRIES] = 3;
    now.machine.read_ns = 24 * MADE_UP_SECOND_NS;
    static const vw_row_note_kind kinds[] = {
        VW_NOTE_LEAK,        VW_NOTE_OUT_OF_MEMORY, VW_NOTE_RETRIES, VW_NOTE_SILENT,
        VW_NOTE_INPUT_BOUND, VW_NOTE_SPILLED,       VW_NOTE_IDLE,
    };
    static const char *const figures[] = {"7,169", "2", "", "12", "", "1.00 MiB", "75 %"};
    assert_int_equal(find_notes(notes), 7);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(notes[i].kind, kinds[i]);
        assert_non_null(strstr(notes[i].word, figures[i]));
        golden_keep(&wording, notes[i].word, notes[i].text);
        assert_true(notes[i].is_urgent == (i < 3));
        assert_true(strlen(notes[i].text) > 0 && strlen(notes[i].text) <= 76);
    }
    assert_non_null(strstr(notes[0].text, "1.00 MiB"));
    assert_non_null(strstr(notes[0].text, "7,269"));
    assert_non_null(strstr(notes[0].text, "60 min"));
}

static void pages_that_cannot_be_read_have_a_note(void **state)
{
    vw_row_note notes[VW_NOTE_KIND_COUNT];
    (void)state;
    now.row.device = NULL;
    assert_int_equal(find_notes(notes), 0);
    now.job.state = VW_JOB_OTHER_VERSION;
    now.job.page_version = 9;
    assert_int_equal(find_notes(notes), 1);
    assert_int_equal(notes[0].kind, VW_NOTE_OTHER_VERSION);
    assert_non_null(strstr(notes[0].text, "9"));
    golden_keep(&wording, notes[0].word, notes[0].text);
    now.job.state = VW_JOB_BUSY;
    assert_int_equal(find_notes(notes), 1);
    assert_int_equal(notes[0].kind, VW_NOTE_BUSY);
    golden_keep(&wording, notes[0].word, notes[0].text);
    now.row.job = NULL;
    assert_int_equal(find_notes(notes), 0);
}

/* ---- text that is fit to be shown ------------------------------------------------------------ */

static void shown_text_is_cut_at_columns_and_at_the_end_of_its_room(void **state)
{
    char out[16];
    (void)state;
    assert_int_equal(vw_show_text("abcdef", false, 4, out, sizeof out), 4);
    assert_string_equal(out, "abcd");
    assert_int_equal(vw_show_text("a\033b\tc\x7f", false, 80, out, sizeof out), 6);
    assert_string_equal(out, "a?b c?");
    assert_int_equal(vw_show_text("\u00e4\u4e2d", true, 2, out, sizeof out), 1); /* 1 + 2 columns */
    assert_string_equal(out, "\u00e4");
    assert_int_equal(vw_show_text("\u00e4", false, 8, out, sizeof out), 1);
    assert_string_equal(out, "?");
    assert_int_equal(vw_show_text("abc", false, 8, out, 3), 2);
    assert_string_equal(out, "ab");
    assert_int_equal(vw_show_text(NULL, false, 8, out, sizeof out), 0);
    assert_string_equal(out, "");
    assert_int_equal(vw_show_text("a", false, 8, NULL, 0), 0);
}

/* ---- going wrong ----------------------------------------------------------------------------- */

static bool report_both(void *context)
{
    (void)context;
    for (int is_json = 0; is_json < 2; is_json++) {
        const vw_report_form form = {.is_json = is_json != 0};
        const vw_output output = report_capture_begin(&captured);
        vw_status status = vw_report_top(&before.machine, &now.machine, 0, &form, &output);
        if (status != VW_OK) {
            assert_int_equal(status, VW_ERR_HOST_MEMORY);
            assert_int_equal(captured.size_bytes, 0);
            return false;
        }
    }
    return true;
}

static void a_lack_of_host_memory_sends_nothing(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(report_both, NULL);
    assert_status(VW_ERR_INVALID_ARGUMENT, vw_report_top(NULL, NULL, 0, NULL, NULL));
}

static void the_wording_is_that_of_the_golden_file(void **state)
{
    (void)state;
    golden_compare(&wording, "top");
}

int main(void)
{
#define OF_MACHINE(test) cmocka_unit_test_setup(test, make_machine)
    const struct CMUnitTest tests[] = {
        OF_MACHINE(text_has_the_gpu_the_job_and_its_notes),
        OF_MACHINE(text_has_pinned_memory_and_retries_where_there_are_some),
        OF_MACHINE(only_the_process_that_was_asked_for_is_shown),
        OF_MACHINE(jobs_without_a_gpu_have_a_heading),
        OF_MACHINE(a_machine_with_nothing_says_so),
        OF_MACHINE(numbers_beyond_reason_are_shown_too),
        OF_MACHINE(names_cannot_steer_a_terminal),
        OF_MACHINE(json_has_the_fields_of_the_page_and_null_for_what_is_not_known),
        OF_MACHINE(json_of_a_process_without_a_page_has_no_job),
        OF_MACHINE(every_note_is_made_and_the_urgent_come_first),
        OF_MACHINE(pages_that_cannot_be_read_have_a_note),
        cmocka_unit_test(shown_text_is_cut_at_columns_and_at_the_end_of_its_room),
        OF_MACHINE(a_lack_of_host_memory_sends_nothing),
        cmocka_unit_test(the_wording_is_that_of_the_golden_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
