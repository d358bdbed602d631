/* test_plan_traced.c - traces of a program: read strictly, played whole, planned at other sizes. */
#include <stdio.h>
#include <stdlib.h> /* mkstemp */
#include <string.h>
#include <unistd.h>

#include "vramwise/analysis.h"
#include "vramwise/plan.h"
#include "analysis/attribution.h" /* VW__CATEGORY_NAME_ROUNDING */
#include "plan/hidden.h"
#include "plan/traced.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

#define MIB (UINT64_C(1) << 20)
#define HOPPER_WORKSPACE (32 * MIB)
#define OTHER_WORKSPACE UINT64_C(8519680)

/* A trace with one frame, one stack and these events. */
#define TRACE(events)                                                                              \
    "{\"vramwise_trace\": 2, \"torch\": \"2.6.0\", \"notes\": [" BEHIND_NOTES(events)
#define BEHIND_NOTES(events)                                                                       \
    "], \"frames\": [[\"t.py\", 3, \"f\"]], \"stacks\": [[0]], \"events\": [" events "]}"

/* ---- help ------------------------------------------------------------------------------------ */

static vw_plan_traced *open_text(const char *text, const char *card_name)
{
    vw_plan_traced *traced = NULL;
    assert_int_equal(vw__traced_open_memory(text, strlen(text), card_name, &traced), VW_OK);
    return traced;
}

static vw_plan_traced *open_example(void)
{
    vw_plan_traced *traced = NULL;
    assert_int_equal(vw_plan_traced_open(VW_TEST_DATA "/plan/trace.json", NULL, &traced), VW_OK);
    return traced;
}

static vw_recording_stats *stats_of(const vw_plan_traced *traced)
{
    vw_recording_stats *stats = NULL;
    assert_int_equal(vw_recording_stats_make(traced->recording, NULL, &stats), VW_OK);
    return stats;
}

static uint64_t peak_of(const char *text, const char *card_name)
{
    vw_plan_traced *traced = open_text(text, card_name);
    vw_recording_stats *stats = stats_of(traced);
    uint64_t peak_bytes = stats->devices[0].peak.live_bytes;
    vw_recording_stats_free(stats);
    vw_plan_traced_close(traced);
    return peak_bytes;
}

static vw_plan_scaled *scale(const vw_plan_traced *traced, const vw_plan_scaling *scaling)
{
    vw_plan_scaled *scaled = NULL;
    assert_int_equal(vw_plan_from_traced(traced, scaling, &scaled), VW_OK);
    return scaled;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void what_is_no_trace_is_refused_in_words(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        vw_status status;
        const char *words;
    } cases[] = {
        {"[]", VW_ERR_CORRUPT_FILE, "found a list"},
        {"{}", VW_ERR_CORRUPT_FILE, "without \"vramwise_trace\""},
        {"{\"vramwise_trace\": \"1\"}", VW_ERR_CORRUPT_FILE, "without \"vramwise_trace\""},
        {"{\"vramwise_trace\": 1}", VW_ERR_UNSUPPORTED, "version 2, found version 1"},
        {"{\"vramwise_trace\": 2}", VW_ERR_CORRUPT_FILE, "\"notes\" of the trace"},
        {"{\"vramwise_trace\": 2, \"notes\": []", VW_ERR_CORRUPT_FILE, "end of the file"},
        {"{\"vramwise_trace\": 2, \"notes\": [3]}", VW_ERR_CORRUPT_FILE, "\"text\""},
        {"{\"vramwise_trace\": 2, \"notes\": [], \"frames\": [], \"stacks\": 3}",
         VW_ERR_CORRUPT_FILE, "\"stacks\" of the trace: expected a list"},
        {TRACE(""), VW_ERR_CORRUPT_FILE, "found none"},
        {TRACE("[0, 0, 512, 0], 7"), VW_ERR_CORRUPT_FILE, "event 1 of the trace"},
        {TRACE("[0, 0, 512]"), VW_ERR_CORRUPT_FILE, "[0, slot, bytes, stack]"},
        {TRACE("[0, 0, 0, 0]"), VW_ERR_CORRUPT_FILE, "1 byte or more"},
        {TRACE("[0, 0, -1, 0]"), VW_ERR_CORRUPT_FILE, "[0, slot, bytes, stack]"},
        {TRACE("[0, 4, 512, 0]"), VW_ERR_CORRUPT_FILE, "slot 0, the next one, found slot 4"},
        {TRACE("[0, 0, 512, 1]"), VW_ERR_CORRUPT_FILE, "a stack below 1"},
        {TRACE("[0, 0, 512, 0], [1, 0], [1, 0]"), VW_ERR_CORRUPT_FILE, "freed twice"},
        {TRACE("[1, 0]"), VW_ERR_CORRUPT_FILE, "one of 0 slots"},
        {TRACE("[5, 0]"), VW_ERR_CORRUPT_FILE, "a kind from 0 to 4"},
        {TRACE("[\"0\", 0]"), VW_ERR_CORRUPT_FILE, "a kind from 0 to 4"},
        {TRACE("[3]"), VW_ERR_CORRUPT_FILE, "[3, name]"},
        {TRACE("[4, 7]"), VW_ERR_CORRUPT_FILE, "[4, name]"},
        {TRACE("[2, 3]"), VW_ERR_CORRUPT_FILE, "[2, kind"},
        {TRACE("[2, \"sum\", 0, 3, 0]"), VW_ERR_CORRUPT_FILE, "3 numbers"},
        {TRACE("[2, \"sum\", 0, -3, 3, 0]"), VW_ERR_CORRUPT_FILE, "3 numbers"},
        {TRACE("[0, 0, 1152921504606846976, 0]"), VW_ERR_UNSUPPORTED, "more than a device"},
        {TRACE("[2, \"embedding\", 1, 9223372036854775807, 0]"), VW_ERR_UNSUPPORTED,
         "more than a device"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vw_plan_traced *traced = NULL;
        assert_int_equal(
            vw__traced_open_memory(cases[i].text, strlen(cases[i].text), NULL, &traced),
            cases[i].status);
        assert_null(traced);
        if (strstr(vw_last_error(), cases[i].words) == NULL)
            fail_msg("case %zu: expected \"%s\" in \"%s\"", i, cases[i].words, vw_last_error());
    }
}

/* Has one stack and `begin`, then `count` times `event` and `end`. The caller's to free. */
static char *repeat(const char *begin, const char *event, size_t count, const char *end)
{
    size_t size_bytes = 0;
    char *text = NULL;
    FILE *stream = open_memstream(&text, &size_bytes);
    assert_non_null(stream);
    fputs("{\"vramwise_trace\": 2, \"notes\": [], \"frames\": [[\"t.py\", 3, \"f\"]], "
          "\"stacks\": [[0]], ",
          stream);
    fputs(begin, stream);
    for (size_t i = 0; i < count; i++)
        fputs(event, stream);
    fputs(end, stream);
    assert_int_equal(fclose(stream), 0);
    return text;
}

static void a_trace_beyond_the_limit_is_refused_with_the_way_out(void **state)
{
    (void)state;
    /* The first fills the document; the second also the model, with what one event comes to. */
    char *const texts[] = {
        repeat("\"events\": [[0, 0, 512, 0]], \"more\": [", "{}, ", 200000, "0]}"),
        repeat("\"events\": [[0, 0, 512, 0]", ", [2, \"sum\", 0, 4, 9000, 64, 0]", 20000, "]}"),
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        vw_plan_traced *traced = NULL;
        vw_reading_limit_set(5 * MIB);
        assert_int_equal(vw__traced_open_memory(texts[i], strlen(texts[i]), NULL, &traced),
                         VW_ERR_UNSUPPORTED);
        assert_null(traced);
        assert_non_null(
            strstr(vw_last_error(), "Reading may take 5.00 MiB in all; --max-memory allows more"));
        vw_reading_limit_set(0);
        vw_plan_traced_close(open_text(texts[i], NULL));
        free(texts[i]);
    }
}

static void frames_and_stacks_are_checked(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"vramwise_trace\": 2, \"notes\": [], \"frames\": [[\"t.py\", 3]], \"stacks\": [], "
        "\"events\": []}",
        "{\"vramwise_trace\": 2, \"notes\": [], \"frames\": [7], \"stacks\": [], \"events\": []}",
        "{\"vramwise_trace\": 2, \"notes\": [], \"frames\": [], \"stacks\": [[0]], \"events\": "
        "[]}",
        "{\"vramwise_trace\": 2, \"notes\": [], \"frames\": [], \"stacks\": [0], \"events\": []}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        vw_plan_traced *traced = NULL;
        assert_int_equal(vw__traced_open_memory(texts[i], strlen(texts[i]), NULL, &traced),
                         VW_ERR_CORRUPT_FILE);
        assert_non_null(strstr(vw_last_error(), i < 2 ? "frame 0" : "stack 0"));
    }
}

static void notes_and_the_version_are_kept(void **state)
{
    (void)state;
    vw_plan_traced *traced = open_example();
    assert_string_equal(traced->torch_version, "2.6.0");
    assert_int_equal(traced->note_count, 1);
    assert_string_equal(traced->notes[0],
                        "a number was read from the GPU; it is taken to be 1 (4 times)");
    assert_int_equal(traced->size_count, 5);
    assert_int_equal(traced->sizes[3].batch, 4);
    assert_int_equal(traced->sizes[3].sequence, 512);
    vw_plan_traced_close(traced);
}

/* A file can have millions: only those that are shown take memory. */
static void notes_beyond_those_that_are_shown_are_not_read(void **state)
{
    (void)state;
    char text[4096] = "{\"vramwise_trace\": 2, \"notes\": [";
    for (int i = 0; i < VW__TRACED_MOST_NOTES; i++)
        strcat(text, "{\"text\": \"a note\"}, ");
    strcat(text, "{\"text\": 7}" BEHIND_NOTES("[0, 0, 512, 0]"));
    vw_plan_traced *traced = open_text(text, NULL);
    assert_int_equal(traced->note_count, VW__TRACED_MOST_NOTES);
    vw_plan_traced_close(traced);
}

static void an_unknown_kind_of_hidden_memory_is_noted(void **state)
{
    (void)state;
    vw_plan_traced *traced =
        open_text(TRACE("[0, 0, 512, 0], [2, \"rnn\", 0, 5, 0], [2, \"rnn\", 1]"), NULL);
    assert_int_equal(traced->note_count, 1);
    assert_non_null(strstr(traced->notes[0], "2 operators"));
    assert_non_null(strstr(traced->notes[0], "rnn"));
    vw_plan_traced_close(traced);
}

/* ---- playing --------------------------------------------------------------------------------- */

static void it_is_an_exact_recording_with_the_stacks_of_the_program(void **state)
{
    (void)state;
    vw_plan_traced *traced = open_example();
    vw_verify_result *result = NULL;
    vw_recording_stats *stats = stats_of(traced);
    assert_int_equal(vw_recording_verify(traced->recording, NULL, &result), VW_OK);
    assert_true(result->is_exact);
    assert_int_equal(stats->devices[0].step_count, 5);
    vw_verify_result_free(result);
    vw_recording_stats_free(stats);
    vw_plan_traced_close(traced);
}

static void products_take_a_workspace_for_each_thread_once(void **state)
{
    (void)state;
    static const char one[] = TRACE("[0, 0, 512, 0], [2, \"matmul\", 0, 0], [2, \"matmul\", 0, 0]");
    static const char two[] = TRACE("[0, 0, 512, 0], [2, \"matmul\", 0, 0], [2, \"matmul\", 1, 0]");
    assert_int_equal(peak_of(one, NULL), HOPPER_WORKSPACE + 512);
    assert_int_equal(peak_of(two, NULL), 2 * HOPPER_WORKSPACE + 512);
    assert_int_equal(peak_of(two, "h200"), 2 * HOPPER_WORKSPACE + 512);
    assert_int_equal(peak_of(two, "rtx4090"), 2 * OTHER_WORKSPACE + 512);
}

static void kernels_take_what_the_rules_say(void **state)
{
    (void)state;
    /* sorted ids: four lists of int64 */
    assert_int_equal(peak_of(TRACE("[0, 0, 512, 0], [2, \"embedding\", 1, 4096, 0]"), NULL),
                     512 + 4 * 8 * 4096);
    assert_int_equal(peak_of(TRACE("[0, 0, 512, 0], [2, \"embedding\", 1, 3072, 0]"), NULL), 512);
    /* few rows are summed without a buffer */
    assert_int_equal(peak_of(TRACE("[0, 0, 512, 0], [2, \"sum\", 1, 1,64, 512, 0]"), NULL), 512);
    /* flash: a row sum and the query's gradient in float32 */
    assert_int_equal(
        peak_of(TRACE("[0, 0, 512, 0], [2, \"attention\", 1, 1, 2, 2, 4, 4, 256, 256, 64, 0]"),
                NULL),
        512 + 2 * 4 * 256 * 4 + 2 * 4 * 256 * 64 * 4);
    /* a convolution of odd planes copies image, result and weight; each gradient by itself */
    const uint64_t copies = 2 * (2 * 8 * 7 * 7 + 2 * 8 * 7 * 7 + 8 * 9 * 8);
    const uint64_t rounded = (copies + 511) / 512 * 512;
    assert_int_equal(
        peak_of(TRACE("[0, 0, 512, 0], [2,\"convolution\",0,2,2,8,0,7,7,8,2,3,1,1,1,0,0,1,0,0,0]"),
                NULL),
        512 + rounded);
    assert_int_equal(
        peak_of(TRACE("[0, 0, 512, 0], [2,\"convolution\",1,2,2,8,0,7,7,8,2,3,1,1,1,0,0,1,0,3,0]"),
                NULL),
        512 + rounded);
}

static void a_weight_of_a_plain_product_is_summed_over_images(void **state)
{
    (void)state;
    vw__op_conv_shape shape = {.in = {.batch = 3, .channels = 16, .height = 8, .width = 8},
                               .window = {.kernel = 1, .stride = 1},
                               .out_channels = 32,
                               .groups = 1};
    assert_int_equal(vw__hidden_convolution(&shape, 2, VW__HIDDEN_RESULT).count, 0);
    vw__hidden weight = vw__hidden_convolution(&shape, 2, VW__HIDDEN_WEIGHT_GRADIENT);
    assert_int_equal(weight.steps[0].size_bytes, 3 * 16 * 32 * 4);
    assert_int_equal(weight.count, 2);
    assert_int_equal(weight.steps[1].size_bytes, 0); /* lets go of the first */
    assert_int_equal(weight.steps[1].taken, 0);
    shape.is_channels_last = true;
    assert_int_equal(vw__hidden_convolution(&shape, 2, VW__HIDDEN_WEIGHT_GRADIENT).count, 0);
}

static void volumes_and_transposed_ones_copy_too(void **state)
{
    (void)state;
    enum { BATCH = 4, CHANNELS = 32, FILTERS = 64, SIDE = 32, WEIGHTS = CHANNELS * FILTERS * 27 };
    vw__op_conv_shape volume = {
        .in = {.batch = BATCH, .channels = CHANNELS, .depth = SIDE, .height = SIDE, .width = SIDE},
        .window = {.dimensions = 3, .kernel = 3, .stride = 1, .padding = 1},
        .out_channels = FILTERS,
        .groups = 1};
    const uint64_t places = (uint64_t)BATCH * SIDE * SIDE * SIDE;
    vw__hidden found = vw__hidden_convolution(&volume, 4, VW__HIDDEN_IMAGE_GRADIENT);
    assert_int_equal(found.steps[0].size_bytes, (places * (CHANNELS + FILTERS) + WEIGHTS) * 4);
    volume.in.channels = 3;
    assert_int_equal(vw__hidden_convolution(&volume, 4, VW__HIDDEN_RESULT).count, 0);
    assert_int_equal(vw__hidden_convolution(&volume, 4, VW__HIDDEN_WEIGHT_GRADIENT).count, 2);
    volume.window.kernel = 1;
    volume.window.padding = 0;
    assert_int_equal(vw__hidden_convolution(&volume, 4, VW__HIDDEN_WEIGHT_GRADIENT).count, 0);

    const vw__op_conv_shape grown = {
        .in = {.batch = 4, .channels = 64, .height = 56, .width = 56},
        .window = {.kernel = 4, .stride = 2, .padding = 1, .is_transposed = true},
        .out_channels = 32,
        .groups = 1};
    found = vw__hidden_convolution(&grown, 4, VW__HIDDEN_RESULT);
    assert_int_equal(found.steps[0].size_bytes, /* 9,536 KiB were measured */
                     (uint64_t)4 * (4 * 56 * 56 * 64 + 4 * 112 * 112 * 32 + 64 * 32 * 16));
}

/* Each was measured (bench/torch/measure_workspaces.py). */
static void recurrent_layers_take_what_was_measured(void **state)
{
    (void)state;
    static const struct {
        vw__hidden_cells cells;
        uint64_t size_bytes;
    } cases[] = {
        {{4, true, false, 4, 64 * 256, 64, 768, 768, 2, 1}, 360448768},
        {{4, true, false, 4, 64 * 256, 64, 768, 768, 1, 1}, 331416320},
        {{4, true, true, 4, 32 * 128, 32, 512, 512, 3, 1}, 111018496},
        {{4, true, false, 4, 64 * 256, 64, 768, 768, 2, 2}, 892338944},
        {{4, true, false, 2, 64 * 256, 64, 768, 768, 2, 1}, 188613376},
        {{3, true, false, 4, 64 * 256, 64, 768, 768, 2, 1}, 303432448},
        {{3, true, false, 4, 32 * 128, 32, 512, 512, 1, 2}, 139330048},
        {{1, true, false, 4, 64 * 256, 64, 768, 768, 3, 2}, 800981760},
        {{4, false, false, 4, 64 * 512, 64, 1024, 1024, 2, 1}, 626000640},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const vw__hidden found = vw__hidden_recurrent(&cases[i].cells);
        const uint64_t measured = cases[i].size_bytes, size_bytes = found.steps[0].size_bytes;
        const uint64_t off = size_bytes > measured ? size_bytes - measured : measured - size_bytes;
        assert_true(off <= 1024); /* descriptors */
    }
    vw__hidden huge = vw__hidden_recurrent(&(vw__hidden_cells){
        4, true, false, 4, UINT64_MAX / 2, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, 2});
    assert_int_equal(huge.steps[0].size_bytes, UINT64_MAX);
}

static void numbers_beyond_reason_are_capped(void **state)
{
    (void)state;
    const vw__op_conv_shape image = {
        .in = {.batch = UINT64_MAX, .channels = 3, .height = 7, .width = 7},
        .window = {.kernel = 3, .stride = 1, .padding = 1},
        .out_channels = UINT64_MAX,
        .groups = 1};
    const vw__hidden_heads heads = {.is_flash = true,
                                    .element_bytes = 2,
                                    .batch = UINT64_MAX,
                                    .heads = 4,
                                    .key_heads = 2,
                                    .length = UINT64_MAX,
                                    .key_length = UINT64_MAX,
                                    .width = 64};
    vw__hidden hidden = vw__hidden_convolution(&image, 2, VW__HIDDEN_RESULT);
    assert_int_equal(hidden.steps[0].size_bytes, UINT64_MAX);
    hidden = vw__hidden_attention(&heads);
    assert_int_equal(hidden.count, 4);
    for (size_t i = 0; i < hidden.count; i++)
        assert_int_equal(hidden.steps[i].size_bytes, UINT64_MAX);
    assert_int_equal(vw__hidden_sum(1, UINT64_MAX, UINT64_MAX).count, 0); /* enough columns */
    assert_true(vw__hidden_sum(1, UINT64_MAX, 4).steps[0].size_bytes > UINT64_C(1) << 54);
    assert_int_equal(vw__hidden_sum(0, UINT64_C(1) << 40, 4).count, 0); /* an empty batch */
    assert_int_equal(vw__hidden_embedding(UINT64_MAX).steps[0].size_bytes, UINT64_MAX);
}

static void it_is_written_as_a_snapshot(void **state)
{
    (void)state;
    char path[] = "/tmp/vramwise-test.XXXXXX";
    vw_plan_traced *traced = open_example();
    vw_recording *read = NULL;
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(vw_plan_traced_write(traced, path), VW_OK);
    assert_int_equal(vw_recording_open(path, NULL, &read), VW_OK);
    vw_recording_close(read);
    unlink(path);
    assert_int_equal(vw_plan_traced_write(traced, "/nonexistent/folder/x.pickle"), VW_ERR_FILE);
    assert_int_equal(vw_plan_traced_write(traced, NULL), VW_ERR_INVALID_ARGUMENT);
    vw_plan_traced_close(traced);
}

/* ---- planning -------------------------------------------------------------------------------- */

static void without_a_wish_the_traced_size_is_planned(void **state)
{
    (void)state;
    vw_plan_traced *traced = open_example();
    vw_plan_scaling scaling;
    vw_plan_scaling_init(&scaling);
    vw_plan_scaled *scaled = scale(traced, &scaling);
    assert_true(scaled->is_traced);
    assert_int_equal(scaled->scaling.step,
                     1); /* the first of the program's size that has a state */
    assert_int_equal(scaled->scaling.batch, 4);
    assert_int_equal(scaled->scaling.sequence, 256);
    assert_int_equal(scaled->peak_allocated_bytes, scaled->now_peak_bytes);
    assert_string_equal(scaled->step_basis, "annotations"); /* there are optimizer stacks, too */
    assert_string_equal(scaled->notes[0], traced->notes[0]);
    vw_plan_scaled_free(scaled);
    vw_plan_traced_close(traced);
}

/* Each traced step of another size is what is planned for that size from the first. */
static void stated_sizes_give_the_laws(void **state)
{
    (void)state;
    vw_plan_traced *traced = open_example();
    for (size_t step = 2; step < traced->size_count; step++) {
        vw_plan_scaling scaling;
        vw_plan_scaling_init(&scaling);
        scaling.batch = traced->sizes[step].batch;
        scaling.sequence = traced->sizes[step].sequence;
        vw_plan_scaled *planned = scale(traced, &scaling);
        vw_plan_scaling_init(&scaling);
        scaling.step = step;
        vw_plan_scaled *itself = scale(traced, &scaling);
        assert_int_equal(planned->scaling.step, 1);
        assert_int_equal(planned->evidence_steps, 3);
        assert_int_equal(planned->peak_allocated_bytes, itself->now_peak_bytes);
        assert_true(planned->error_low > -0.001 && planned->error_high < 0.001);
        vw_plan_scaled_free(itself);
        vw_plan_scaled_free(planned);
    }
    vw_plan_traced_close(traced);
}

#define TWO_STEPS                                                                                  \
    "[3, \"ProfilerStep#0\"], [0, 0, 4096, 0], [1, 0], [4, \"ProfilerStep#0\"], "                  \
    "[3, \"ProfilerStep#1\"], [0, 1, 4096, 0], [1, 1], [4, \"ProfilerStep#1\"]"

static void a_size_that_is_not_stated_must_be_given(void **state)
{
    (void)state;
    vw_plan_traced *traced = open_text(TRACE(TWO_STEPS), NULL);
    vw_plan_scaled *scaled = NULL;
    vw_plan_scaling scaling;
    vw_plan_scaling_init(&scaling);
    scaling.batch = 8;
    assert_int_equal(vw_plan_from_traced(traced, &scaling, &scaled), VW_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(vw_last_error(), "--batch-now"));
    scaling.batch_now = 4;
    scaling.sequence = 64;
    assert_int_equal(vw_plan_from_traced(traced, &scaling, &scaled), VW_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(vw_last_error(), "--seq-now"));
    assert_null(scaled);
    vw_plan_scaling_init(&scaling);
    scaling.card_bytes = UINT64_C(8) << 30;
    scaled = scale(traced, &scaling);
    assert_int_equal(scaled->scaling.batch, 0);
    assert_true(scaled->fits);
    assert_int_equal(scaled->largest_batch, VW_UNKNOWN);
    vw_plan_scaled_free(scaled);
    vw_plan_traced_close(traced);
}

static void sizes_must_be_those_of_the_steps(void **state)
{
    (void)state;
    static const char *const wrong[] = {"[[0, 4]]", "[4]", "[[4]]", "[[4, 5, 6]]", "4"};
    char text[1024];
    vw_plan_traced *traced = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, "{\"sizes\": %s, %s", wrong[i], &TRACE(TWO_STEPS)[1]);
        assert_int_equal(vw__traced_open_memory(text, strlen(text), NULL, &traced),
                         VW_ERR_CORRUPT_FILE);
    }
    vw_plan_scaled *scaled = NULL;
    vw_plan_scaling scaling;
    vw_plan_scaling_init(&scaling);
    snprintf(text, sizeof text, "{\"sizes\": [[4, 0]], %s", &TRACE(TWO_STEPS)[1]);
    traced = open_text(text, NULL);
    assert_int_equal(vw_plan_from_traced(traced, &scaling, &scaled), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "each of its 2 steps, found 1"));
    vw_plan_traced_close(traced);
}

/* Two steps of one sample, and one of two. The first leaves a segment of 22 MiB. The second splits
 * 12 MiB off, and the rest of 10 is not worth splitting for a request of 9.5. By themselves, 9.5
 * MiB would be split off a segment of 20. */
#define WHOLE_BLOCKS                                                                               \
    "[3, \"ProfilerStep#0\"], [0, 0, 22020096, 0], [1, 0], [4, \"ProfilerStep#0\"], "              \
    "[3, \"ProfilerStep#1\"], [0, 1, 12582912, 1], [0, 2, 9961472, 2], [1, 2], [1, 1], "           \
    "[4, \"ProfilerStep#1\"], "                                                                    \
    "[3, \"ProfilerStep#2\"], [0, 3, 25165824, 1], [0, 4, 19922944, 2], [1, 4], [1, 3], "          \
    "[4, \"ProfilerStep#2\"]"

static const vw_plan_scaled_part *rounding_of(const vw_plan_scaled *scaled)
{
    const vw_plan_scaled_part *last = &scaled->parts[scaled->part_count - 1];
    assert_string_equal(last->name, VW__CATEGORY_NAME_ROUNDING);
    return last;
}

static uint64_t sum_of_parts(const vw_plan_scaled *scaled)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < scaled->part_count; i++)
        sum += scaled->parts[i].bytes;
    return sum;
}

static void blocks_that_are_not_split_count_whole(void **state)
{
    (void)state;
    static const char text[] =
        "{\"sizes\": [[1, 0], [1, 0], [2, 0]], \"vramwise_trace\": 2, \"notes\": [], \"frames\": "
        "[[\"t.py\", 3, \"f\"], [\"t.py\", 4, \"f\"], [\"t.py\", 5, \"f\"]], "
        "\"stacks\": [[0], [1], [2]], \"events\": [" WHOLE_BLOCKS "]}";
    vw_plan_traced *traced = open_text(text, NULL);
    vw_plan_scaling scaling;
    vw_plan_scaling_init(&scaling);
    scaling.card_bytes = UINT64_C(8) << 30;
    vw_plan_scaled *scaled = scale(traced, &scaling);
    assert_int_equal(scaled->scaling.step, 1);
    assert_int_equal(scaled->peak_allocated_bytes, 22 * MIB);
    assert_int_equal(scaled->now_peak_bytes, 22 * MIB);
    assert_int_equal(rounding_of(scaled)->bytes, MIB / 2);
    assert_int_equal(sum_of_parts(scaled), 22 * MIB);
    assert_int_equal(scaled->peak_device_bytes, 22 * MIB + scaled->context_bytes);
    vw_plan_scaled_free(scaled);

    /* 24 and 19 MiB, in a step by itself: the second one has a segment of 20 */
    scaling.batch = 2;
    scaled = scale(traced, &scaling);
    assert_int_equal(scaled->now_peak_bytes, 22 * MIB);
    assert_int_equal(scaled->peak_allocated_bytes, 44 * MIB);
    assert_int_equal(rounding_of(scaled)->now_bytes, MIB / 2);
    assert_int_equal(rounding_of(scaled)->bytes, MIB);
    assert_int_equal(sum_of_parts(scaled), 44 * MIB);
    vw_plan_scaled_free(scaled);
    vw_plan_traced_close(traced);
}

/* Rounding decides, too, whether it fits. */
static void rounding_counts_on_the_card(void **state)
{
    (void)state;
    static const char text[] =
        "{\"sizes\": [[1, 0], [1, 0]], " /* 25 MiB, each in a segment of 26 */
        "\"vramwise_trace\": 2, \"notes\": [], \"frames\": [[\"t.py\", 3, \"f\"]], \"stacks\": "
        "[[0]], \"events\": [[3, \"ProfilerStep#0\"], [0, 0, 26214400, 0], [1, 0], "
        "[4, \"ProfilerStep#0\"], [3, \"ProfilerStep#1\"], [0, 1, 26214400, 0], [1, 1], "
        "[4, \"ProfilerStep#1\"]]}";
    vw_plan_traced *traced = open_text(text, NULL);
    vw_plan_scaling scaling;
    vw_plan_scaling_init(&scaling);
    vw_plan_scaled *scaled = scale(traced, &scaling);
    assert_int_equal(scaled->peak_allocated_bytes, 26 * MIB);
    scaling.card_bytes = scaled->peak_device_bytes;
    vw_plan_scaled_free(scaled);
    scaled = scale(traced, &scaling);
    assert_true(scaled->fits);
    assert_int_equal(scaled->largest_batch, 1);
    vw_plan_scaled_free(scaled);

    scaling.card_bytes -= MIB / 2; /* enough for the blocks as they were asked for */
    scaled = scale(traced, &scaling);
    assert_false(scaled->fits);
    assert_int_equal(scaled->largest_batch, 0);
    assert_int_equal(scaled->margin_bytes, -(int64_t)(MIB / 2));
    vw_plan_scaled_free(scaled);
    vw_plan_traced_close(traced);
}

static void levels_are_those_of_the_events(void **state)
{
    (void)state;
    vw_plan_traced *traced = open_text(
        TRACE("[0, 0, 512, 0], [2, \"embedding\", 1, 4096, 0], [1, 0], [0, 1, 1024, 0]"), NULL);
    const uint64_t sorted_bytes = 4 * 8 * 4096;
    /* segment_alloc, alloc | alloc, free_requested, free_completed | two of a free | alloc */
    assert_int_equal(vw__traced_peak(traced, 0, 2), 512);
    assert_int_equal(vw__traced_peak(traced, 0, 3), 512 + sorted_bytes);
    assert_int_equal(vw__traced_peak(traced, 5, 8), 1024);
    assert_int_equal(vw__traced_peak(traced, 0, UINT32_MAX), 512 + sorted_bytes);
    assert_int_equal(vw__traced_peak(traced, 8, UINT32_MAX), 0);
    vw_plan_traced_close(traced);
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    vw_plan_traced *traced = NULL;
    assert_int_equal(vw_plan_traced_open(NULL, NULL, &traced), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_plan_traced_open("x", NULL, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_plan_traced_open("/nonexistent.json", NULL, &traced), VW_ERR_FILE);
    vw_plan_traced_close(NULL);
}

/* ---- no host memory -------------------------------------------------------------------------- */

static bool open_and_close(void *context)
{
    vw_plan_traced *traced = NULL;
    bool is_done = vw__traced_open_memory(context, strlen(context), NULL, &traced) == VW_OK;
    vw_plan_traced_close(traced);
    return is_done;
}

static bool plan_once(void *context)
{
    vw_plan_scaling scaling;
    vw_plan_scaled *scaled = NULL;
    vw_plan_scaling_init(&scaling);
    scaling.batch = 8;
    bool is_done = vw_plan_from_traced(context, &scaling, &scaled) == VW_OK;
    vw_plan_scaled_free(scaled);
    return is_done;
}

static void every_failure_of_host_memory_is_survived(void **state)
{
    (void)state;
    static char text[] =
        "{\"sizes\": [[1, 2]], \"vramwise_trace\": 2, \"torch\": \"2.6\", \"notes\": [{\"text\": "
        "\"n\", \"times\": 2}], \"frames\": [[\"t.py\", 3, \"f\"]], \"stacks\": [[0]], "
        "\"events\": [[0, 0, 512, 0], [2, \"matmul\", 0, 0], [2, \"embedding\", 1, 4096, 0], "
        "[2, \"rnn\"], [3, \"ProfilerStep#0\"], [1, 0], [4, \"ProfilerStep#0\"]]}";
    vw_test_sweep_host_memory(open_and_close, text);
    vw_plan_traced *traced = open_example();
    vw_test_sweep_host_memory(plan_once, traced);
    vw_plan_traced_close(traced);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_trace_is_refused_in_words),
        cmocka_unit_test(a_trace_beyond_the_limit_is_refused_with_the_way_out),
        cmocka_unit_test(frames_and_stacks_are_checked),
        cmocka_unit_test(notes_and_the_version_are_kept),
        cmocka_unit_test(notes_beyond_those_that_are_shown_are_not_read),
        cmocka_unit_test(an_unknown_kind_of_hidden_memory_is_noted),
        cmocka_unit_test(it_is_an_exact_recording_with_the_stacks_of_the_program),
        cmocka_unit_test(products_take_a_workspace_for_each_thread_once),
        cmocka_unit_test(volumes_and_transposed_ones_copy_too),
        cmocka_unit_test(recurrent_layers_take_what_was_measured),
        cmocka_unit_test(kernels_take_what_the_rules_say),
        cmocka_unit_test(a_weight_of_a_plain_product_is_summed_over_images),
        cmocka_unit_test(numbers_beyond_reason_are_capped),
        cmocka_unit_test(it_is_written_as_a_snapshot),
        cmocka_unit_test(without_a_wish_the_traced_size_is_planned),
        cmocka_unit_test(stated_sizes_give_the_laws),
        cmocka_unit_test(a_size_that_is_not_stated_must_be_given),
        cmocka_unit_test(sizes_must_be_those_of_the_steps),
        cmocka_unit_test(blocks_that_are_not_split_count_whole),
        cmocka_unit_test(rounding_counts_on_the_card),
        cmocka_unit_test(levels_are_those_of_the_events),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(every_failure_of_host_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
