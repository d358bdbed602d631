/* test_report_doctor.c - a diagnosis on a page: what decides on the first screen, what is to be
 * typed in one piece, and the JSON that others rely on. */
#include "vramwise/report.h"

#include <stddef.h> /* offsetof */
#include <stdio.h>

#include "support/cmocka_here.h"
#include "support/diagnosis_samples.h"
#include "support/host_memory_sweep.h"
#include "support/report_wording.h"

enum { FIRST_SCREEN_LINES = 24 };

/* The heading of what is advised first. */
#define TRY_FIRST "\nTry first\n"

static const char *text_of(const vw_diagnosis *diagnosis, const vw_report_form *form)
{
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_doctor(diagnosis, form, &output), VW_OK);
    return captured.text;
}

static void assert_has(const char *text)
{
    if (!report_capture_has(&captured, text))
        fail_msg("'%s' is not in\n%s", text, captured.text);
}

static void assert_lacks(const char *text)
{
    if (report_capture_has(&captured, text))
        fail_msg("'%s' is in\n%s", text, captured.text);
}

/* The verdict and the numbers alone. */
static vw_diagnosis without_findings(vw_diagnosis diagnosis)
{
    diagnosis.reasoning_count = diagnosis.finding_count = 0;
    return diagnosis;
}

/* The sample with other numbers. */
static vw_diagnosis with_numbers(vw_memory_numbers numbers)
{
    vw_diagnosis diagnosis = without_findings(sample_fragmentation);
    diagnosis.numbers = numbers;
    return diagnosis;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void the_verdict_of_a_diagnosis_comes_first(void **state)
{
    (void)state;
    text_of(&sample_fragmentation, &(vw_report_form){.file = "run.pickle.xz"});
    keep_wording("fragmentation, from a recording");
    assert_true(report_capture_begins_with(&captured, "Fragmentation: 1.78 GiB "));
    assert_shows("fragmentation|high|recording|run.pickle.xz|GPU 0|24.00 GiB");
    assert_shows(
        "|################################################............................xx|");
    assert_shows("1.78 GiB |# live 14.80 GiB |. idle 8.70 GiB |x outside 487 MiB |free 26.0 MiB ");
    assert_shows("free 26.0 MiB |let segments grow instead of taking new ones\n|3.52 GiB|replayed"
                 "|none known; needs PyTorch 2.1 or newer\n"
                 "|export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
                 "|- The request was for 1.78 GiB|- PyTorch held 23.50 GiB|- The idle memory");
    assert_shows("8.70 GiB are reserved and idle, in 260 pieces.\n|8.70 GiB\n"
                 "|pinned by train.py:152 main 6.00 GiB 69 % #################\n"
                 "|pinned by attention_block.py:88 forward 2.00 GiB 23 % ######\n"
                 "|train.py:152 main\n|attention_block.py:88 forward\n|- 333 segments"
                 "|1. pad every batch|1.00 GiB|4.00 GiB|computed"
                 "|padded tokens are computed too\n|length = |2. call empty_cache()");
    assert_lacks("let segments grow instead of taking new ones\n\n");
    assert_shows("2. call empty_cache()|At the peak 14.80 GiB were live|14.80 GiB\n"
                 "|activations 9.00 GiB 61 % ###############\n|temporaries 300 MiB 2.0 %\n"
                 "|! max_split_size_mb:128, which|- Replayed, it reserves 31.20 GiB");
}

/* Whatever the reasoning and the findings hold, they come after. */
static void the_whole_report_begins_with_verdict_numbers_and_what_to_try(void **state)
{
    vw_diagnosis diagnosis = sample_fragmentation;
    const char *reasons[24];
    (void)state;
    for (size_t i = 0; i < SAMPLE_COUNT(reasons); i++)
        reasons[i] = sample_reasons[i % SAMPLE_COUNT(sample_reasons)];
    diagnosis.reasoning = reasons;
    diagnosis.reasoning_count = SAMPLE_COUNT(reasons);
    char *text = captured.text;
    text_of(&diagnosis, NULL);
    for (int line = 0; line < FIRST_SCREEN_LINES; line++)
        text = strchr(text, '\n') + 1;
    *text = '\0';
    assert_has("Fragmentation: ");
    assert_has("asked for   1.78 GiB");
    assert_has("idle        8.70 GiB");
    assert_has("    export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n");
}

static void warnings_come_last_wherever_they_were(void **state)
{
    (void)state;
    assert_string_equal(sample_fragmentation.findings[0].kind, "warning");
    text_of(&sample_fragmentation, NULL);
    const char *warning = strstr(captured.text, "\n! max_split_size_mb");
    const char *peak = strstr(captured.text, "At the peak");
    assert_non_null(warning);
    assert_true(peak < warning);
    assert_null(strstr(warning + 1, "\n\n"));
}

/* The sample as a run that did not fail. */
static vw_diagnosis healthy_sample(void)
{
    vw_diagnosis diagnosis = sample_fragmentation;
    diagnosis.verdict = VW_VERDICT_HEALTHY;
    diagnosis.sentence = "Healthy.";
    diagnosis.error_count = 0;
    diagnosis.numbers.tried_bytes = VW_UNKNOWN;
    return diagnosis;
}

/* Nothing is wrong with it, but bytes that lie idle can be had for a line. */
static void a_healthy_run_shows_first_what_saves_most(void **state)
{
    const vw_diagnosis diagnosis = healthy_sample();
    (void)state;
    text_of(&diagnosis, NULL);
    assert_lacks("asked for");
    keep_wording("a healthy run that could do with less");
    assert_shows("\n  let segments grow instead of taking new ones\n|3.52 GiB|replayed"
                 "|\n  1. pad every batch");
}

/* Of each finding the first that gives something back counts; the peak's and warnings' are left
 * out. */
static void what_a_healthy_run_needs_or_must_not_do_is_not_what_to_try_first(void **state)
{
    static const vw_remedy largest = {.action = "shrink the model",
                                      .saves_bytes = 9 * SAMPLE_GIB,
                                      .saves_at_most_bytes = 9 * SAMPLE_GIB};
    static const vw_remedy idle[] = {
        {.action = "do nothing", .saves_bytes = VW_UNKNOWN, .saves_at_most_bytes = VW_UNKNOWN},
        {.action = "hope", .saves_bytes = 0, .saves_at_most_bytes = 4 * SAMPLE_GIB},
        {.action = "another allocator",
         .saves_bytes = 8 * SAMPLE_GIB,
         .saves_at_most_bytes = 8 * SAMPLE_GIB},
    };
    static const vw_remedy stranded[] = {
        {.action = "a little", .saves_bytes = SAMPLE_GIB, .saves_at_most_bytes = SAMPLE_GIB},
        {.action = "more", .saves_bytes = SAMPLE_GIB, .saves_at_most_bytes = 2 * SAMPLE_GIB},
    };
    vw_finding findings[] = {
        {.kind = "warning", .bytes = VW_UNKNOWN, .remedies = &largest, .remedy_count = 1},
        {.kind = "peak", .bytes = VW_UNKNOWN, .remedies = &largest, .remedy_count = 1},
        {.kind = "fragmentation", .bytes = VW_UNKNOWN, .remedies = idle, .remedy_count = 3},
        {.kind = "stranded", .bytes = VW_UNKNOWN, .remedies = stranded, .remedy_count = 2},
    };
    vw_diagnosis diagnosis = healthy_sample();
    (void)state;
    diagnosis.findings = findings;
    diagnosis.finding_count = SAMPLE_COUNT(findings);
    text_of(&diagnosis, NULL);
    assert_shows(TRY_FIRST "  a little\n|  1. more\n");
    diagnosis.finding_count = 3;
    text_of(&diagnosis, NULL);
    assert_has(TRY_FIRST "  hope\n");
    findings[2].remedy_count = 1;
    text_of(&diagnosis, NULL);
    assert_lacks(TRY_FIRST);
    assert_has("  1. do nothing\n");
    diagnosis.verdict = VW_VERDICT_FRAGMENTATION; /* the order of the finding, but for that */
    diagnosis.findings = &findings[2];
    diagnosis.finding_count = 1;
    text_of(&diagnosis, NULL);
    assert_has(TRY_FIRST "  do nothing\n");
}

static size_t line_count(void)
{
    size_t count = 0;
    for (const char *at = captured.text; *at != '\0'; at++)
        count += *at == '\n';
    return count;
}

static void a_diagnosis_with_nothing_known_is_two_lines(void **state)
{
    const vw_diagnosis diagnosis = {
        .verdict = VW_VERDICT_NOT_OOM, .source = VW_SOURCE_STEPS, .numbers = SAMPLE_NO_NUMBERS};
    (void)state;
    text_of(&diagnosis, NULL);
    keep_wording("nothing is known");
    assert_true(report_capture_begins_with(&captured, "not-oom\n"));
    assert_shows("\n|not-oom|low|\n");
    assert_int_equal(line_count(), 2);
}

static void several_failures_are_counted_and_the_file_is_always_named(void **state)
{
    vw_diagnosis diagnosis = {.source = VW_SOURCE_LOG, .numbers = SAMPLE_NO_NUMBERS};
    (void)state;
    diagnosis.error_count = 1200;
    text_of(&diagnosis, &(vw_report_form){.file = "train.log"});
    keep_wording("the first of several failures");
    assert_shows("genuine|low|1,200|log:\n|train.log\n");
    text_of(&diagnosis, &(vw_report_form){.file = "train.log", .width_columns = 86});
    assert_has(": train.log\n");
    text_of(&diagnosis, &(vw_report_form){.file = "train.log", .width_columns = 85});
    assert_has(":\n  train.log\n");
    text_of(&diagnosis, NULL);
    assert_shows("1,200|log\n");
}

static void a_path_longer_than_a_line_keeps_its_ends(void **state)
{
    static const char path[] = "/data/somebody/experiments/2026/november/fifteenth/"
                               "run-with-a-long-name/recordings/rank-0.pickle.xz";
    char wide[3 * 100 + 1];
    const vw_diagnosis diagnosis = {.source = VW_SOURCE_LOG, .numbers = SAMPLE_NO_NUMBERS};
    (void)state;
    text_of(&diagnosis, &(vw_report_form){.file = path});
    assert_has(
        ":\n  /data/somebody/experiment...h/run-with-a-long-name/recordings/rank-0.pickle.xz\n");
    assert_int_equal(report_capture_width(&captured), 80);
    for (size_t i = 0; i < 100; i++)
        memcpy(wide + 3 * i, "\xE8\xA8\x98", 3); /* two columns each */
    wide[sizeof wide - 1] = '\0';
    for (unsigned width = 20; width < 80; width++) {
        text_of(&diagnosis,
                &(vw_report_form){.file = wide, .width_columns = width, .has_utf8 = true});
        const char *line = strstr(captured.text, "\n  \xE8") + 3;
        const char *dots = strstr(line, "\xE2\x80\xA6");
        assert_non_null(dots);
        const size_t line_bytes = strcspn(line, "\n");
        assert_int_equal(line_bytes % 3, 0);
        assert_true(2 + (line_bytes / 3 - 1) * 2 + 1 <= width);
        assert_true(2 + (line_bytes / 3 - 1) * 2 + 1 + 4 > width);
    }
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void the_total_of_the_process_separates_its_context_from_others(void **state)
{
    vw_diagnosis diagnosis = without_findings(sample_fragmentation);
    (void)state;
    diagnosis.numbers.process_bytes = diagnosis.numbers.reserved_bytes + 400 * SAMPLE_MIB;
    text_of(&diagnosis, &(vw_report_form){.width_columns = 70});
    keep_wording("what the process holds is known");
    assert_shows("o context 400 MiB |x others 87.0 MiB ");
    assert_lacks("x outside");
}

static void a_limit_in_the_way_is_what_the_bar_shows(void **state)
{
    vw_diagnosis diagnosis = with_numbers((vw_memory_numbers){.tried_bytes = 700 * SAMPLE_MIB,
                                                              .total_bytes = 140 * SAMPLE_GIB,
                                                              .free_bytes = 131 * SAMPLE_GIB,
                                                              .allocated_bytes = 6 * SAMPLE_GIB,
                                                              .reserved_bytes = 7 * SAMPLE_GIB,
                                                              .process_bytes = VW_UNKNOWN,
                                                              .allowed_bytes = 8 * SAMPLE_GIB,
                                                              .device = -1});
    (void)state;
    diagnosis.source = VW_SOURCE_TEXT;
    text_of(&diagnosis, &(vw_report_form){.width_columns = 42});
    keep_wording("a limit below the card's size");
    assert_shows("8.00 GiB|140.00 GiB");
    assert_has("\n|##############################.....     |\n");
    assert_shows("left 1.00 GiB |free 131.00 GiB ");
    diagnosis.numbers.total_bytes = diagnosis.numbers.free_bytes = VW_UNKNOWN;
    text_of(&diagnosis, NULL);
    keep_wording("a limit, on a card of unknown size");
    assert_has("\n|####");
    assert_lacks("140.00 GiB");
    diagnosis.numbers.total_bytes = 8 * SAMPLE_GIB;
    diagnosis.numbers.free_bytes = 512 * SAMPLE_MIB; /* the card is nearer */
    text_of(&diagnosis, NULL);
    keep_wording("a card that is smaller than the limit");
    assert_shows("  limit 8.00 GiB ");
    assert_lacks("left ");
}

/* It lies somewhere between what was served and what was not. */
static void a_limit_concluded_from_a_recording_is_an_estimate(void **state)
{
    vw_diagnosis diagnosis = with_numbers((vw_memory_numbers){.tried_bytes = 700 * SAMPLE_MIB,
                                                              .total_bytes = VW_UNKNOWN,
                                                              .free_bytes = 131 * SAMPLE_GIB,
                                                              .allocated_bytes = 6 * SAMPLE_GIB,
                                                              .reserved_bytes = 7 * SAMPLE_GIB,
                                                              .process_bytes = VW_UNKNOWN,
                                                              .allowed_bytes = 8 * SAMPLE_GIB,
                                                              .device = 0});
    (void)state;
    text_of(&diagnosis, NULL);
    keep_wording("a limit that a recording shows");
    assert_shows("GPU 0|about 8.00 GiB|free 131.00 GiB ");
    assert_lacks("left ");
    const uint64_t live_bytes = diagnosis.numbers.allocated_bytes;
    diagnosis.numbers.allocated_bytes = VW_UNKNOWN; /* no bar */
    text_of(&diagnosis, NULL);
    keep_wording("the same without a bar");
    assert_shows("\nlimit 8.00 GiB |about");
    /* A recording of vramwise's own states the card and its limit. */
    diagnosis.numbers.allocated_bytes = live_bytes;
    diagnosis.numbers.total_bytes = 140 * SAMPLE_GIB;
    text_of(&diagnosis, NULL);
    keep_wording("a limit that a recording states");
    assert_shows("GPU 0|limited to 8.00 GiB|140.00 GiB");
    assert_lacks("about 8.00 GiB");
}

/* The sentence may speak of another moment than the numbers do. The headings are in the golden
 * file: one for each moment. */
static void the_heading_says_of_which_moment_the_numbers_are(void **state)
{
    vw_diagnosis diagnosis = without_findings(healthy_sample());
    (void)state;
    text_of(&diagnosis, NULL);
    keep_wording("numbers of a run that did not fail");
    diagnosis.error_count = 3;
    diagnosis.numbers.free_bytes = VW_UNKNOWN;
    text_of(&diagnosis, NULL);
    keep_wording("numbers of a run that failed, but would not on the card that was asked about");
    assert_shows("\nreserved 23.50 GiB ");
    diagnosis.source = VW_SOURCE_STEPS;
    diagnosis.error_count = 0;
    text_of(&diagnosis, NULL);
    keep_wording("numbers of a step log without a failure");
    diagnosis.source = VW_SOURCE_RECORDING;
    diagnosis.verdict = VW_VERDICT_UNKNOWN;
    text_of(&diagnosis, NULL);
    keep_wording("numbers of a recording without history");
    diagnosis = without_findings(sample_fragmentation);
    diagnosis.error_count = 0;
    text_of(&diagnosis, NULL);
    keep_wording("numbers of a run that fails only on the card that was asked about");
    assert_shows("24.00 GiB|asked for 1.78 GiB ");
    diagnosis = without_findings(sample_fragmentation);
    diagnosis.source = VW_SOURCE_TEXT;
    text_of(&diagnosis, NULL);
    keep_wording("numbers of an error message");
    diagnosis.verdict = VW_VERDICT_HEALTHY;
    text_of(&diagnosis, NULL);
    keep_wording("numbers of an error message, on a larger card");
    assert_shows("24.00 GiB|asked for 1.78 GiB ");
    assert_lacks("failure");
}

/* Numbers that contradict each other are listed as they were said, and no picture is made up. */
static void numbers_that_make_no_bar_are_listed(void **state)
{
    vw_diagnosis diagnosis = without_findings(sample_fragmentation);
    (void)state;
    diagnosis.numbers.free_bytes = 30 * SAMPLE_GIB;
    text_of(&diagnosis, NULL);
    keep_wording("numbers that contradict each other");
    assert_shows("GPU 0|\nasked for 1.78 GiB |\nlive 14.80 GiB |\nidle 8.70 GiB "
                 "|\nreserved 23.50 GiB |\nfree 30.00 GiB |\ntotal 24.00 GiB ");
    diagnosis = without_findings(sample_fragmentation);
    diagnosis.numbers.allocated_bytes = 25 * SAMPLE_GIB; /* more than is reserved */
    text_of(&diagnosis, NULL);
    assert_lacks("|#");
    assert_lacks("idle       ");
    diagnosis = without_findings(sample_fragmentation);
    diagnosis.numbers.allowed_bytes = 25 * SAMPLE_GIB; /* larger than the card ... */
    diagnosis.numbers.free_bytes = 2 * SAMPLE_GIB;     /* ... on which this has no place */
    text_of(&diagnosis, NULL);
    assert_lacks("|#");
    diagnosis = with_numbers((vw_memory_numbers){.device = 0}); /* all of them zero */
    text_of(&diagnosis, NULL);
    assert_shows("\ntotal 0 B ");
    assert_lacks("\n|");
    diagnosis = with_numbers((vw_memory_numbers)SAMPLE_NO_NUMBERS);
    diagnosis.verdict = VW_VERDICT_HOST;
    diagnosis.numbers.tried_bytes = 64 * SAMPLE_GIB;
    text_of(&diagnosis, NULL);
    keep_wording("host memory");
    assert_shows("\nHost memory|\nasked for 64.00 GiB ");
}

static void a_bar_is_as_long_as_the_window_whatever_is_in_it(void **state)
{
    (void)state;
    for (unsigned width = 20; width <= 80; width++)
        for (uint64_t sixteenths = 0; sixteenths <= 16; sixteenths++) {
            const vw_diagnosis diagnosis =
                with_numbers((vw_memory_numbers){.tried_bytes = 1,
                                                 .total_bytes = 16,
                                                 .free_bytes = 16 - sixteenths,
                                                 .allocated_bytes = sixteenths / 3,
                                                 .reserved_bytes = sixteenths / 2,
                                                 .process_bytes = sixteenths,
                                                 .allowed_bytes = VW_UNKNOWN});
            text_of(&diagnosis, &(vw_report_form){.width_columns = width});
            const char *bar = strstr(captured.text, "\n|") + 1;
            assert_int_equal(strcspn(bar, "\n"), width);
        }
}

/* As a text may claim: sums of them would overflow. */
static void absurd_numbers_are_survived(void **state)
{
    static const uint64_t sizes[] = {0, 1, UINT64_C(1) << 63, UINT64_MAX - 1, UINT64_MAX};
    enum { SIZES = SAMPLE_COUNT(sizes), WAYS = SIZES * SIZES * SIZES * SIZES * SIZES * SIZES };
    (void)state;
    for (size_t way = 0; way < WAYS; way++) {
        size_t rest = way;
        uint64_t chosen[6];
        for (size_t i = 0; i < SAMPLE_COUNT(chosen); i++, rest /= SIZES)
            chosen[i] = sizes[rest % SIZES];
        const vw_diagnosis diagnosis = {.numbers = {chosen[0], chosen[0], chosen[1], chosen[2],
                                                    chosen[3], chosen[4], chosen[5], -1}};
        text_of(&diagnosis, NULL);
        assert_true(report_capture_width(&captured) <= 80);
    }
}

/* ---- remedies -------------------------------------------------------------------------------- */

static void savings_are_shown_as_exactly_as_they_are_known(void **state)
{
    static const struct {
        uint64_t least_bytes, most_bytes;
        const char *shown;
    } cases[] = {
        {SAMPLE_GIB, SAMPLE_GIB, "1.00 GiB"},
        {SAMPLE_GIB, 2 * SAMPLE_GIB, "1.00 GiB|2.00 GiB"},
        {0, SAMPLE_GIB, "at most 1.00 GiB"},
        {VW_UNKNOWN, SAMPLE_GIB, "at most 1.00 GiB"},
        {SAMPLE_GIB, VW_UNKNOWN, "at least 1.00 GiB"},
        {VW_UNKNOWN, VW_UNKNOWN, "\n  do it\n\n"},
        {0, 0, "measured"},
    };
    (void)state;
    for (size_t i = 0; i < SAMPLE_COUNT(cases); i++) {
        const vw_remedy remedy = {.action = "do it",
                                  .saves_bytes = cases[i].least_bytes,
                                  .saves_at_most_bytes = cases[i].most_bytes,
                                  .basis = VW_BASIS_MEASURED};
        const vw_finding finding = {.kind = "leak", .remedies = &remedy, .remedy_count = 1};
        const vw_diagnosis diagnosis = {.verdict = VW_VERDICT_LEAK,
                                        .findings = &finding,
                                        .finding_count = 1,
                                        .numbers = SAMPLE_NO_NUMBERS};
        char heading[64];
        snprintf(heading, sizeof heading, "savings: %s", i < 6 ? cases[i].shown : "none");
        text_of(&diagnosis, NULL);
        keep_wording(i != 5 ? heading : "savings: unknown");
        assert_shows(cases[i].shown);
    }
}

/* All else fits any window; lines to be typed are whole in every one. */
static void only_what_is_to_be_typed_is_wider_than_the_window(void **state)
{
    static const char setting[] = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n";
    static const char code[] =
        "loss = model(batch.to(device, non_blocking=True), labels=batch.labels).loss\n";
    vw_remedy remedies[SAMPLE_COUNT(sample_remedies)];
    vw_finding findings[SAMPLE_COUNT(sample_findings)];
    vw_diagnosis diagnosis = sample_fragmentation;
    (void)state;
    memcpy(remedies, sample_remedies, sizeof remedies);
    memcpy(findings, sample_findings, sizeof findings);
    for (size_t i = 0; i < SAMPLE_COUNT(remedies); i++)
        remedies[i].how = NULL;
    findings[1].remedies = remedies;
    diagnosis.findings = findings;
    for (unsigned width = 20; width <= 120; width++) {
        text_of(&sample_fragmentation, &(vw_report_form){.width_columns = width});
        assert_has(setting);
        assert_has(code);
        assert_false(report_capture_has_loose_ends(&captured));
        text_of(&diagnosis, &(vw_report_form){.width_columns = width});
        assert_true(report_capture_width(&captured) <= width);
        assert_false(report_capture_has_loose_ends(&captured));
    }
}

static void a_narrow_window_wraps_beside_the_number_and_leaves_out_the_bars_of_parts(void **state)
{
    (void)state;
    text_of(&sample_fragmentation, &(vw_report_form){.width_columns = 40});
    assert_has("\n  1. pad every batch to one of a few\n"
               "     lengths, so that freed blocks fit\n"
               "     again\n");
    keep_wording("a window of 40 columns");
    assert_has("\n  activations      9.00 GiB   61 %\n");
}

static void a_narrower_window_gets_sentences(void **state)
{
    (void)state;
    text_of(&sample_fragmentation, &(vw_report_form){.width_columns = 20});
    keep_wording("a window of 20 columns");
    assert_has("\n|###########.......|\n");
    assert_has("\n. idle 8.70 GiB:\n");
    assert_has("\n  memory  8.70 GiB\n");
    assert_has("\n  optimizer state:\n    3.00 GiB, 20 %\n");
    text_of(&sample_fragmentation, &(vw_report_form){.width_columns = 5});
    assert_has("\n  memory  8.70 GiB\n");
    const vw_report_form cut = {.struct_size = offsetof(vw_report_form, width_columns),
                                .width_columns = 20};
    text_of(&sample_fragmentation, &cut); /* of a caller who does not know of widths */
    assert_has("\n  memory        8.70 GiB\n");
}

/* Down to that of what it belongs to, and no further: the line runs over. */
static void the_indentation_of_code_gives_way_before_the_edge(void **state)
{
    (void)state;
    text_of(&sample_fragmentation, &(vw_report_form){.width_columns = 59});
    assert_has("\n    export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n");
    text_of(&sample_fragmentation, &(vw_report_form){.width_columns = 58});
    assert_has("\n   export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n");
    text_of(&sample_fragmentation, &(vw_report_form){.width_columns = 40});
    assert_has("\n  export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n");
    assert_has("\n     batch = pad_to_length(rows, length)\n\n     loss = model(");
}

static void a_number_and_its_unit_stay_together(void **state)
{
    static const char *const reasons[] = {
        "It takes 3 % of it, (1,024.50 GiB), 20 to 33 %; 512 bytes, 5 ms and <1 %.",
        "Not so of 53 of 95 segments, step 3. GiB, or a bare % of nothing at all.",
    };
    vw_diagnosis diagnosis = {.verdict = VW_VERDICT_LEAK,
                              .sentence = reasons[0],
                              .reasoning = reasons,
                              .reasoning_count = SAMPLE_COUNT(reasons),
                              .numbers = SAMPLE_NO_NUMBERS};
    (void)state;
    for (unsigned width = 20; width <= 80; width++) {
        text_of(&diagnosis, &(vw_report_form){.width_columns = width});
        for (const char *end = captured.text; (end = strchr(end, '\n')) != NULL; end++) {
            const char *next = end + 1 + strspn(end + 1, " ");
            const bool is_unit = strncmp(next, "% of it", 7) == 0 || strncmp(next, "%;", 2) == 0 ||
                                 strncmp(next, "%.", 2) == 0 || strncmp(next, "GiB),", 5) == 0 ||
                                 strncmp(next, "bytes", 5) == 0 || strncmp(next, "ms", 2) == 0;
            assert_false(is_unit);
        }
    }
    text_of(&diagnosis, &(vw_report_form){.width_columns = 40});
    assert_has("- It takes 3 % of it, (1,024.50 GiB), 20\n"
               "  to 33 %; 512 bytes, 5 ms and <1 %.\n");
}

/* ---- terminals ------------------------------------------------------------------------------- */

static void colour_marks_the_verdict_what_to_type_and_what_not_to_do(void **state)
{
    (void)state;
    text_of(&sample_fragmentation, &(vw_report_form){.has_colour = true});
    assert_true(report_capture_begins_with(&captured, "\033[31mFragmentation: "));
    assert_has("\033[33m! max_split_size_mb:128");
    assert_has("\033[1mexport PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\033[0m\n");
    text_of(&sample_fragmentation, NULL);
    assert_lacks("\033");
}

static void blocks_are_drawn_where_the_locale_has_them(void **state)
{
    (void)state;
    text_of(&sample_fragmentation, &(vw_report_form){.has_utf8 = true});
    assert_has("\n\xE2\x94\x82\xE2\x96\x88\xE2\x96\x88");
    assert_has("\n\xE2\x96\x91 idle        8.70 GiB  ");
    assert_lacks("#");
}

/* Every text of a diagnosis may quote a file. */
static void no_text_can_steer_a_terminal(void **state)
{
    static const char nasty[] = "a\033[2J\rb\xFFz\xE2\x80\xAE";
    static const char *const texts[] = {nasty};
    static const vw_part part = {nasty, 1};
    static const vw_remedy remedy = {nasty, 1, 1, VW_BASIS_RULE, VW_ENOUGH_UNKNOWN, nasty, nasty};
    static const vw_finding findings[] = {
        {"leak", nasty, VW_UNKNOWN, texts, 1, texts, 1, &part, 1, &remedy, 1},
        {"warning", nasty, VW_UNKNOWN, texts, 1, texts, 1, &part, 1, &remedy, 1},
    };
    const vw_diagnosis diagnosis = {.verdict = VW_VERDICT_LEAK,
                                    .sentence = nasty,
                                    .reasoning = texts,
                                    .reasoning_count = 1,
                                    .numbers = SAMPLE_NO_NUMBERS,
                                    .findings = findings,
                                    .finding_count = 2};
    (void)state;
    text_of(&diagnosis, &(vw_report_form){.has_utf8 = true, .file = nasty});
    for (const char *at = captured.text; *at != '\0'; at++)
        assert_true(*at == '\n' || (*at >= 0x20 && *at < 0x7F));
    assert_has(": a?[2J?b?z?\n");      /* the file */
    assert_has("\n    a?[2J?b?z?\n");  /* what to type */
    assert_has("\n  1. a?[2J?b?z?\n"); /* the warning's: the other is above */
}

static void wrapping_keeps_characters_whole(void **state)
{
    char text[3 * 400 + 1];
    const char *const texts[] = {text};
    const vw_finding finding = {.kind = "leak",
                                .title = text,
                                .bytes = VW_UNKNOWN,
                                .where = texts,
                                .where_count = 1,
                                .evidence = texts,
                                .evidence_count = 1};
    const vw_diagnosis diagnosis = {.verdict = VW_VERDICT_LEAK,
                                    .sentence = text,
                                    .reasoning = texts,
                                    .reasoning_count = 1,
                                    .numbers = SAMPLE_NO_NUMBERS,
                                    .findings = &finding,
                                    .finding_count = 1};
    (void)state;
    for (size_t i = 0; i < 400; i++)
        memcpy(text + 3 * i, "\xE8\xA8\x98", 3); /* no space, two columns each */
    text[sizeof text - 1] = '\0';
    text_of(&diagnosis, &(vw_report_form){.has_utf8 = true, .width_columns = 41});
    size_t character_count = 0;
    for (const char *at = captured.text; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x80)
            continue;
        assert_memory_equal(at, "\xE8\xA8\x98", 3);
        character_count++;
        at += 2;
    }
    assert_int_equal(character_count, 5 * 400);
}

/* ---- programs -------------------------------------------------------------------------------- */

static void json_has_the_fields_others_rely_on(void **state)
{
    (void)state;
    text_of(&sample_fragmentation, &(vw_report_form){.is_json = true, .file = "run.pickle"});
    assert_true(report_capture_begins_with(
        &captured, "{\"schema\": 1, \"file\": \"run.pickle\", \"verdict\": \"fragmentation\", "
                   "\"confidence\": \"high\", \"source\": \"recording\", \"sentence\": "
                   "\"Fragmentation: 1.78 GiB"));
    assert_has("\"errors\": 1, \"reasoning\": [\"The request was for 1.78 GiB, ");
    assert_has("\"numbers\": {\"tried_bytes\": 1911554048, \"total_bytes\": 25769803776, "
               "\"free_bytes\": 27262976, \"allocated_bytes\": 15891169280, \"reserved_bytes\": "
               "25231884288, \"process_bytes\": null, \"allowed_bytes\": null, \"device\": 0}, "
               "\"findings\": [{\"kind\": \"warning\", ");
    assert_has("{\"kind\": \"fragmentation\", \"title\": \"8.70 GiB are reserved and idle, in 260 "
               "pieces.\", \"bytes\": 9340715008, \"where\": [\"train.py:152 main\", ");
    assert_has("\"evidence\": [\"333 segments; ");
    assert_has("\"parts\": [{\"name\": \"pinned by train.py:152 main\", \"bytes\": 6442450944}, ");
    assert_has(
        "\"remedies\": [{\"action\": \"let segments grow instead of taking new ones\", "
        "\"saves_bytes\": 3774873600, \"saves_at_most_bytes\": 3774873600, \"basis\": "
        "\"replayed\", \"enough\": true, \"cost\": \"none known; needs PyTorch 2.1 or newer\", "
        "\"how\": "
        "\"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\"}, ");
    assert_has("\"saves_bytes\": null, \"saves_at_most_bytes\": null, \"basis\": \"rule\", "
               "\"enough\": null, \"cost\": null, \"how\": null}]}");
    assert_int_equal(strcspn(captured.text, "\n") + 1, captured.size_bytes);
}

static void what_json_does_not_know_is_null_or_empty(void **state)
{
    const vw_diagnosis diagnosis = {.verdict = VW_VERDICT_UNKNOWN, .numbers = SAMPLE_NO_NUMBERS};
    (void)state;
    assert_string_equal(
        text_of(&diagnosis, &(vw_report_form){.is_json = true}),
        "{\"schema\": 1, \"file\": null, \"verdict\": \"unknown\", \"confidence\": \"low\", "
        "\"source\": \"text\", \"sentence\": null, \"errors\": 0, \"reasoning\": [], \"numbers\": "
        "{\"tried_bytes\": null, \"total_bytes\": null, \"free_bytes\": null, "
        "\"allocated_bytes\": null, \"reserved_bytes\": null, \"process_bytes\": null, "
        "\"allowed_bytes\": null, \"device\": null}, \"findings\": [], "
        "\"failed_at\": null}\n");
}

/* ---- failures -------------------------------------------------------------------------------- */

typedef struct whole_report {
    const vw_report_form *form;
    size_t size_bytes; /* of all of it */
} whole_report;

/* Half a report would be worse than none. */
static bool report_all_or_nothing(void *context)
{
    const whole_report *whole = context;
    const vw_output output = report_capture_begin(&captured);
    const bool is_done = vw_report_doctor(&sample_fragmentation, whole->form, &output) == VW_OK;
    assert_int_equal(captured.size_bytes, is_done ? whole->size_bytes : 0);
    return is_done;
}

static void every_lack_of_host_memory_is_survived(void **state)
{
    const vw_report_form forms[] = {
        {.width_columns = 80}, {.is_json = true}, {.most_lines = 24, .rest = "--all"}};
    (void)state;
    for (size_t i = 0; i < SAMPLE_COUNT(forms); i++) {
        text_of(&sample_fragmentation, &forms[i]);
        whole_report whole = {&forms[i], captured.size_bytes};
        vw_test_sweep_host_memory(report_all_or_nothing, &whole);
    }
}

static void missing_arguments_are_refused(void **state)
{
    const vw_output output = report_capture_begin(&captured);
    (void)state;
    assert_int_equal(vw_report_doctor(NULL, NULL, &output), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_report_doctor(&sample_fragmentation, NULL, NULL), VW_ERR_INVALID_ARGUMENT);
}

static void the_wording_is_that_of_the_golden_file(void **state)
{
    (void)state;
    golden_compare(&wording, "doctor");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_verdict_of_a_diagnosis_comes_first),
        cmocka_unit_test(the_whole_report_begins_with_verdict_numbers_and_what_to_try),
        cmocka_unit_test(warnings_come_last_wherever_they_were),
        cmocka_unit_test(a_healthy_run_shows_first_what_saves_most),
        cmocka_unit_test(what_a_healthy_run_needs_or_must_not_do_is_not_what_to_try_first),
        cmocka_unit_test(a_diagnosis_with_nothing_known_is_two_lines),
        cmocka_unit_test(several_failures_are_counted_and_the_file_is_always_named),
        cmocka_unit_test(a_path_longer_than_a_line_keeps_its_ends),
        cmocka_unit_test(the_total_of_the_process_separates_its_context_from_others),
        cmocka_unit_test(a_limit_in_the_way_is_what_the_bar_shows),
        cmocka_unit_test(a_limit_concluded_from_a_recording_is_an_estimate),
        cmocka_unit_test(the_heading_says_of_which_moment_the_numbers_are),
        cmocka_unit_test(numbers_that_make_no_bar_are_listed),
        cmocka_unit_test(a_bar_is_as_long_as_the_window_whatever_is_in_it),
        cmocka_unit_test(absurd_numbers_are_survived),
        cmocka_unit_test(savings_are_shown_as_exactly_as_they_are_known),
        cmocka_unit_test(only_what_is_to_be_typed_is_wider_than_the_window),
        cmocka_unit_test(a_narrow_window_wraps_beside_the_number_and_leaves_out_the_bars_of_parts),
        cmocka_unit_test(a_narrower_window_gets_sentences),
        cmocka_unit_test(the_indentation_of_code_gives_way_before_the_edge),
        cmocka_unit_test(a_number_and_its_unit_stay_together),
        cmocka_unit_test(colour_marks_the_verdict_what_to_type_and_what_not_to_do),
        cmocka_unit_test(blocks_are_drawn_where_the_locale_has_them),
        cmocka_unit_test(no_text_can_steer_a_terminal),
        cmocka_unit_test(wrapping_keeps_characters_whole),
        cmocka_unit_test(json_has_the_fields_others_rely_on),
        cmocka_unit_test(what_json_does_not_know_is_null_or_empty),
        cmocka_unit_test(every_lack_of_host_memory_is_survived),
        cmocka_unit_test(missing_arguments_are_refused),
        cmocka_unit_test(the_wording_is_that_of_the_golden_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
