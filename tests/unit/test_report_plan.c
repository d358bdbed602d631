/* test_report_plan.c - a plan as people read it, and the JSON that cli.md names. */
#include "vramwise/report.h"

#include <jansson.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/report_wording.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static const vw_part parts[] = {
    {"weights", 2 * GIB},     {"gradients", 0},  {"optimizer", 4 * GIB},
    {"activations", 8 * GIB}, {"loss", 1 * GIB}, {"backward", 512 * MIB},
    {"workspace", 64 * MIB},  {"data", 0},
};
static const vw_part layers[] = {{"attention", 5 * GIB}, {"mlp", 3 * GIB}};
static const char *const first_changes[] = {"checkpointing"};
static const char *const first_costs[] = {"every block is computed twice"};
static const char *const first_code[] = {"model.gradient_checkpointing_enable()\nmodel.train()"};
static const char *const second_changes[] = {"checkpointing", "bf16"};
static const char *const second_code[] = {"model.gradient_checkpointing_enable()\nmodel.train()",
                                          "model.to(torch.bfloat16)"};
static const vw_plan_choice choices[] = {
    {.changes = first_changes,
     .change_count = 1,
     .settings =
         {.batch = 8, .sequence = 512, .accumulation = 1, .gpus = 1, .card_bytes = 12 * GIB},
     .peak_allocated_bytes = 9 * GIB,
     .peak_device_bytes = 10 * GIB,
     .slowdown = 1.3,
     .costs = first_costs,
     .code = first_code,
     .fits = true},
    {.changes = second_changes,
     .change_count = 2,
     .settings =
         {.batch = 8, .sequence = 512, .accumulation = 1, .gpus = 1, .card_bytes = 12 * GIB},
     .peak_allocated_bytes = 5 * GIB,
     .peak_device_bytes = 6 * GIB,
     .slowdown = 1.35,
     .code = second_code,
     .fits = true},
};
static const char *const notes[] = {"dropout is planned as in training"};

static const vw_plan sample = {
    .model = "gpt2",
    .family = "gpt2",
    .parameters = 124439808,
    .trained_parameters = 124439808,
    .settings = {.batch = 8,
                 .sequence = 512,
                 .accumulation = 1,
                 .optimizer = VW_OPTIMIZER_ADAMW,
                 .gpus = 1,
                 .card_bytes = 12 * GIB},
    .peak_allocated_bytes = 15 * GIB + 576 * MIB,
    .peak_device_bytes = 17 * GIB,
    .peak_phase = "backward",
    .peak_place = "layer 11 / mlp / act",
    .parts = parts,
    .part_count = 8,
    .layer_parts = layers,
    .layer_part_count = 2,
    .phase_peaks = {14 * GIB, 15 * GIB + 576 * MIB, 8 * GIB},
    .first_step_peak_bytes = 12 * GIB,
    .after_forward_bytes = 13 * GIB,
    .after_backward_bytes = 7 * GIB,
    .after_step_bytes = 7 * GIB,
    .context_bytes = 527 * MIB,
    .reserved_bytes = {16 * GIB, 16 * GIB, VW_UNKNOWN},
    .has_error_band = true,
    .error_low = -0.008,
    .error_high = 0.003,
    .error_basis = "9 cases of gpt2",
    .is_card_known = true,
    .verdict = VW_PLAN_VERDICT_DOES_NOT_FIT,
    .fits = false,
    .margin_bytes = -(int64_t)(5 * GIB),
    .largest_batch = 5,
    .choices = choices,
    .choice_count = 2,
    .notes = notes,
    .note_count = 1,
};

static const char *text_of(const vw_plan *plan, const vw_report_form *form)
{
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_plan(plan, form, &output), VW_OK);
    return captured.text;
}

static void what_does_not_fit_says_what_is_missing_and_what_helps(void **state)
{
    (void)state;
    text_of(&sample, NULL);
    keep_wording("a plan that does not fit");
    assert_true(report_capture_begins_with(&captured, "does not fit: "));
    assert_shows("17.00 GiB|12.00 GiB|5.00 GiB|backward|layer 11 / mlp / act|-0.8 %|0.3 %"
                 "|9 cases of gpt2|5|1.30x|9.00 GiB|10.00 GiB|yes|checkpointing"
                 "|1.35x|5.00 GiB|6.00 GiB|yes|checkpointing, bf16");
    assert_true(report_capture_has(&captured, "checkpointing: every block is computed twice\n"
                                              "    model.gradient_checkpointing_enable()\n"
                                              "    model.train()\n"));
    assert_true(report_capture_has(&captured, "    model.to(torch.bfloat16)\n"));
    assert_true(report_capture_has(&captured, "note: dropout is planned as in training\n"));
}

static void code_is_written_once(void **state)
{
    (void)state;
    const char *first = strstr(text_of(&sample, NULL), "    model.train()");
    assert_non_null(first);
    assert_null(strstr(first + 1, "    model.train()"));
}

/* How many columns of the bar, which is the first line that begins with two spaces and a letter. */
static size_t columns_of(char letter)
{
    size_t count = 0;
    const char *bar = strstr(captured.text, "\n  W");
    assert_non_null(bar);
    for (bar++; *bar != '\n'; bar++)
        count += *bar == letter;
    return count;
}

static void the_bar_is_in_proportion_and_marks_the_card(void **state)
{
    (void)state;
    text_of(&sample, NULL);
    const size_t all = 78;
    assert_in_range(columns_of('W'), all * 2 / 17 - 1, all * 2 / 17 + 1);
    assert_in_range(columns_of('O'), all * 4 / 17 - 1, all * 4 / 17 + 1);
    assert_in_range(columns_of('A'), all * 8 / 17 - 1, all * 8 / 17 + 1);
    assert_int_equal(columns_of('G'), 0);
    assert_int_equal(columns_of('.'), 0);
    assert_true(report_capture_has(&captured, "12.00 GiB ^\n"));
    vw_plan roomy = sample;
    roomy.settings.card_bytes = 34 * GIB;
    roomy.margin_bytes = (int64_t)(17 * GIB);
    roomy.fits = true;
    roomy.verdict = VW_PLAN_VERDICT_FITS;
    text_of(&roomy, NULL);
    keep_wording("a plan that fits");
    assert_true(report_capture_begins_with(&captured, "fits: "));
    assert_shows("17.00 GiB|34.00 GiB|17.00 GiB");
    assert_in_range(columns_of('.'), all / 2 - 1, all / 2 + 1);
    assert_false(report_capture_has(&captured, "^"));
}

static void parts_add_up_to_what_the_card_sees(void **state)
{
    (void)state;
    text_of(&sample, NULL);
    assert_true(report_capture_has(&captured, "W weights        2.00 GiB    12 %\n"));
    assert_true(report_capture_has(&captured, "C context         527 MiB   3.0 %\n"));
    assert_true(report_capture_has(&captured, "R reserve         945 MiB   5.4 %\n"));
    assert_false(report_capture_has(&captured, "G gradients"));
}

static void without_a_card_or_cases_nothing_is_claimed(void **state)
{
    vw_plan plan = sample;
    (void)state;
    plan.is_card_known = false;
    plan.verdict = VW_PLAN_VERDICT_NO_CARD;
    plan.settings.card_bytes = 0;
    plan.has_error_band = false;
    plan.error_basis = NULL;
    plan.choice_count = 0;
    plan.layer_part_count = 0;
    plan.reserved_bytes[0] = plan.reserved_bytes[1] = VW_UNKNOWN;
    text_of(&plan, NULL);
    keep_wording("no card, and no measured cases");
    assert_shows("17.00 GiB|15.56 GiB|\nerror ");
    assert_false(report_capture_has(&captured, "0.3 %"));
    assert_false(report_capture_has(&captured, "reserved "));
    assert_false(report_capture_has(&captured, "1.30x"));
}

static void a_margin_smaller_than_the_error_is_no_fit(void **state)
{
    vw_plan plan = sample;
    (void)state;
    plan.margin_bytes = (int64_t)(10 * MIB);
    plan.verdict = VW_PLAN_VERDICT_TOO_CLOSE;
    plan.settings.card_bytes = 17 * GIB + 10 * MIB;
    text_of(&plan, NULL);
    keep_wording("a margin smaller than the error");
    assert_true(report_capture_begins_with(&captured, "too close: "));
    assert_shows("17.00 GiB|17.01 GiB|10.0 MiB");
}

/* PyTorch would take 16.5 GiB of 16. */
static void a_full_card_is_said_with_the_allocator_that_is_meant(void **state)
{
    vw_plan plan = sample;
    (void)state;
    plan.settings.card_bytes = 16 * GIB;
    plan.peak_device_bytes = 16 * GIB;
    plan.margin_bytes = 0;
    plan.fits = true;
    plan.verdict = VW_PLAN_VERDICT_BARELY;
    text_of(&plan, NULL);
    keep_wording("a card that is full");
    assert_true(report_capture_begins_with(&captured, "fits barely: PyTorch would take 16.51 GiB"));
    plan.fits = false;
    plan.verdict = VW_PLAN_VERDICT_OTHER_ALLOCATOR;
    plan.fitting_policy = "expandable";
    text_of(&plan, NULL);
    keep_wording("a card that is too full for PyTorch's defaults");
    assert_true(report_capture_begins_with(&captured, "does not fit with PyTorch's defaults"));
    assert_shows("expandable_segments:True");
    plan.fitting_policy = "vramwise";
    text_of(&plan, NULL);
    assert_shows("--allocator vramwise");
}

static void what_the_file_decides_is_said(void **state)
{
    vw_plan plan = sample;
    (void)state;
    plan.caution = "the class XForY is not known: planned without a head";
    plan.settings.head = VW_PLAN_HEAD_NONE;
    plan.settings.precision = VW_PRECISION_FP16;
    plan.has_own_precision = true;
    plan.precision_basis = "torch_dtype of the file";
    plan.quantization = "awq, 4 bits";
    text_of(&plan, NULL);
    keep_wording("what the model's file decides");
    assert_true(report_capture_begins_with(&captured, "the class XForY is not known"));
    assert_shows("(gpt2, no head)|fp16 (torch_dtype of the file)|awq, 4 bits");
}

static void it_fits_windows_from_40_columns_on(void **state)
{
    (void)state;
    for (unsigned width = 40; width <= 160; width += 7) {
        const vw_report_form form = {.struct_size = sizeof form, .width_columns = width};
        vw_plan plan = sample;
        plan.choice_count = 0; /* code is never broken */
        text_of(&plan, &form);
        assert_in_range(report_capture_width(&captured), 20, width);
        assert_false(report_capture_has_loose_ends(&captured));
    }
}

static void on_a_terminal_the_bar_has_colours(void **state)
{
    const vw_report_form form = {.struct_size = sizeof form, .has_colour = true, .has_utf8 = true};
    (void)state;
    text_of(&sample, &form);
    assert_true(report_capture_has(&captured, "\033[34m\xE2\x96\x88"));
    assert_false(report_capture_has(&captured, "WW"));
}

static json_t *json_of(const vw_plan *plan)
{
    const vw_report_form form = {.struct_size = sizeof form, .is_json = true};
    json_error_t error;
    json_t *root = json_loads(text_of(plan, &form), 0, &error);
    assert_non_null(root);
    return root;
}

static uint64_t bytes_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

static void json_has_the_fields_that_others_rely_on(void **state)
{
    (void)state;
    json_t *root = json_of(&sample);
    assert_int_equal(bytes_of(root, "schema"), 1);
    assert_int_equal(bytes_of(root, "peak_allocated_bytes"), sample.peak_allocated_bytes);
    assert_int_equal(bytes_of(root, "peak_device_bytes"), 17 * GIB);
    assert_int_equal(bytes_of(root, "parameters"), 124439808);
    assert_string_equal(json_string_value(json_object_get(root, "peak_phase")), "backward");
    const json_t *made = json_object_get(root, "parts");
    assert_int_equal(bytes_of(made, "weights"), 2 * GIB);
    assert_int_equal(bytes_of(made, "context"), 527 * MIB);
    assert_int_equal(bytes_of(made, "loss"), GIB);
    const json_t *reserved = json_object_get(root, "reserved_bytes");
    assert_int_equal(bytes_of(reserved, "native"), 16 * GIB);
    assert_true(json_is_null(json_object_get(reserved, "vramwise")));
    const json_t *band = json_object_get(root, "error_band");
    assert_int_equal(json_array_size(band), 2);
    assert_true(json_real_value(json_array_get(band, 0)) == -0.008);
    assert_true(json_is_false(json_object_get(root, "fits")));
    assert_int_equal(json_integer_value(json_object_get(root, "margin_bytes")),
                     -(json_int_t)(5 * GIB));
    const json_t *option = json_array_get(json_object_get(root, "options"), 1);
    assert_int_equal(json_array_size(json_object_get(option, "changes")), 2);
    assert_int_equal(bytes_of(option, "peak_allocated_bytes"), 5 * GIB);
    assert_true(json_real_value(json_object_get(option, "slowdown")) == 1.35);
    assert_true(json_is_null(json_object_get(option, "costs")));
    json_decref(root);
}

static void json_is_null_where_nothing_is_known(void **state)
{
    vw_plan plan = sample;
    (void)state;
    plan.is_card_known = false;
    plan.verdict = VW_PLAN_VERDICT_NO_CARD;
    plan.has_error_band = false;
    plan.choice_count = 0;
    json_t *root = json_of(&plan);
    assert_true(json_is_null(json_object_get(root, "fits")));
    assert_true(json_is_null(json_object_get(root, "margin_bytes")));
    assert_true(json_is_null(json_object_get(root, "error_band")));
    assert_int_equal(json_array_size(json_object_get(root, "options")), 0);
    json_decref(root);
}

static void what_is_built_in_is_listed_as_text_and_json(void **state)
{
    vw_report_form form = {.struct_size = sizeof form};
    vw_output output = report_capture_begin(&captured);
    json_error_t error;
    (void)state;
    assert_int_equal(vw_report_plan_known(&form, &output), VW_OK);
    assert_true(report_capture_has(&captured, "llama-3-8b"));
    assert_true(report_capture_has(&captured, "8,030,261,248\n"));
    assert_true(report_capture_has(&captured, "rtx4090"));
    form.is_json = true;
    output = report_capture_begin(&captured);
    assert_int_equal(vw_report_plan_known(&form, &output), VW_OK);
    json_t *root = json_loads(captured.text, 0, &error);
    assert_non_null(root);
    assert_true(json_array_size(json_object_get(root, "models")) > 30);
    assert_true(json_array_size(json_object_get(root, "cards")) > 15);
    json_decref(root);
}

static bool report_all(void *context)
{
    const vw_report_form json = {.struct_size = sizeof json, .is_json = true};
    (void)context;
    vw_output output = report_capture_begin(&captured);
    bool is_done = vw_report_plan(&sample, NULL, &output) == VW_OK;
    output = report_capture_begin(&captured);
    is_done = vw_report_plan(&sample, &json, &output) == VW_OK && is_done;
    output = report_capture_begin(&captured);
    return vw_report_plan_known(NULL, &output) == VW_OK && is_done;
}

static void every_refused_allocation_is_a_status(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(report_all, NULL);
}

static void one_measured_case_is_one_figure(void **state)
{
    (void)state;
    vw_plan plan = sample;
    plan.error_low = plan.error_high;
    text_of(&plan, NULL);
    assert_shows("\nerror |0.3 %|9 cases");
    assert_false(report_capture_has(&captured, "-0.8 %"));
}

static void inference_keeps_nothing_for_a_backward_pass(void **state)
{
    (void)state;
    vw_plan plan = sample;
    text_of(&plan, NULL);
    assert_true(report_capture_has(&captured, "kept for backward"));
    plan.settings.mode = VW_PLAN_MODE_KEEP_GRAPH;
    text_of(&plan, NULL);
    assert_true(report_capture_has(&captured, "kept for backward"));
    plan.settings.mode = VW_PLAN_MODE_INFERENCE;
    text_of(&plan, NULL);
    assert_false(report_capture_has(&captured, "kept for backward"));
}

static void a_null_plan_is_refused(void **state)
{
    const vw_output output = report_capture_begin(&captured);
    (void)state;
    assert_int_equal(vw_report_plan(NULL, NULL, &output), VW_ERR_INVALID_ARGUMENT);
}

static void the_wording_is_that_of_the_golden_file(void **state)
{
    (void)state;
    golden_compare(&wording, "plan");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_says_what_is_missing_and_what_helps),
        cmocka_unit_test(code_is_written_once),
        cmocka_unit_test(the_bar_is_in_proportion_and_marks_the_card),
        cmocka_unit_test(parts_add_up_to_what_the_card_sees),
        cmocka_unit_test(without_a_card_or_cases_nothing_is_claimed),
        cmocka_unit_test(a_margin_smaller_than_the_error_is_no_fit),
        cmocka_unit_test(a_full_card_is_said_with_the_allocator_that_is_meant),
        cmocka_unit_test(what_the_file_decides_is_said),
        cmocka_unit_test(it_fits_windows_from_40_columns_on),
        cmocka_unit_test(on_a_terminal_the_bar_has_colours),
        cmocka_unit_test(json_has_the_fields_that_others_rely_on),
        cmocka_unit_test(json_is_null_where_nothing_is_known),
        cmocka_unit_test(what_is_built_in_is_listed_as_text_and_json),
        cmocka_unit_test(every_refused_allocation_is_a_status),
        cmocka_unit_test(one_measured_case_is_one_figure),
        cmocka_unit_test(inference_keeps_nothing_for_a_backward_pass),
        cmocka_unit_test(a_null_plan_is_refused),
        cmocka_unit_test(the_wording_is_that_of_the_golden_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
