/* test_report_doctor_screen.c - a diagnosis on one screen: what stays, what gives way, and what the
 * last line says of it. */
#include "vramwise/report.h"

#include <stdio.h>

#include "support/cmocka_here.h"
#include "support/diagnosis_samples.h"
#include "support/report_wording.h"
#include "support/screen_check.h"

static const char *screen_of(const vw_diagnosis *diagnosis, vw_report_form form)
{
    const vw_output output = report_capture_begin(&captured);
    if (form.most_lines == 0)
        form.most_lines = SCREEN_LINES;
    form.rest = form.rest != NULL ? form.rest : "--all";
    assert_int_equal(vw_report_doctor(diagnosis, &form, &output), VW_OK);
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

/* A genuine failure with `count` remedies "remedy 0", "remedy 1" ..., the first of which is tried
 * first. */
enum { MOST_MADE = 40 };

typedef struct made {
    char actions[MOST_MADE][24];
    vw_remedy remedies[MOST_MADE];
    vw_finding finding;
    vw_diagnosis diagnosis;
} made;

static void make(made *out, size_t count)
{
    *out = (made){.finding = {.kind = "genuine", .bytes = VW_UNKNOWN, .remedies = out->remedies}};
    for (size_t i = 0; i < count; i++) {
        snprintf(out->actions[i], sizeof out->actions[i], "remedy %zu,", i);
        out->remedies[i] = (vw_remedy){.action = out->actions[i],
                                       .saves_bytes = SAMPLE_GIB,
                                       .saves_at_most_bytes = SAMPLE_GIB,
                                       .cost = "none"};
    }
    out->finding.remedy_count = count;
    out->diagnosis = (vw_diagnosis){.verdict = VW_VERDICT_GENUINE,
                                    .sentence = "Genuine.",
                                    .numbers = SAMPLE_NO_NUMBERS,
                                    .findings = &out->finding,
                                    .finding_count = 1};
}

/* ---- what is on it --------------------------------------------------------------------------- */

static void a_screen_has_all_that_decides(void **state)
{
    (void)state;
    screen_of(&sample_fragmentation, (vw_report_form){.file = "run.pickle.xz"});
    keep_wording("fragmentation, from a recording");
    assert_true(report_capture_begins_with(&captured, "Fragmentation: 1.78 GiB "));
    assert_shows("fragmentation|high|recording|run.pickle.xz\n|train.py:152 main|GPU 0|24.00 GiB");
    assert_shows("asked for 1.78 GiB |# live 14.80 GiB |. idle 8.70 GiB |x outside 487 MiB");
    assert_shows("let segments grow instead of taking new ones\n|3.52 GiB|replayed|enough"
                 "|none known; needs PyTorch 2.1 or newer\n    export "
                 "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
                 "|\npad every batch|1.00-4.00 GiB|time\n|call empty_cache()"
                 "|! max_split_size_mb:128|--all shows why, the evidence|.\n");
    assert_lacks("pad_to_length"); /* the code of the others */
    assert_lacks("333 segments");
    assert_lacks("The request was for");
    assert_fits_screen(&sample_fragmentation, "run.pickle.xz");
}

static void json_is_complete_whatever_the_lines(void **state)
{
    static char whole[sizeof captured.text];
    const vw_output output = report_capture_begin(&captured);
    (void)state;
    assert_int_equal(
        vw_report_doctor(&sample_fragmentation, &(vw_report_form){.is_json = true}, &output),
        VW_OK);
    memcpy(whole, captured.text, captured.size_bytes + 1);
    assert_string_equal(screen_of(&sample_fragmentation, (vw_report_form){.is_json = true}), whole);
}

static void the_last_line_is_there_only_if_something_was_left_out(void **state)
{
    made one;
    (void)state;
    make(&one, 1);
    screen_of(&one.diagnosis, (vw_report_form){0});
    assert_lacks("--all");
    make(&one, 2);
    screen_of(&one.diagnosis, (vw_report_form){.rest = "vramwise doctor --all x.pickle"});
    assert_has("\n\nvramwise doctor --all x.pickle shows the code of these.\n");
    const vw_output output = report_capture_begin(&captured);
    const vw_report_form form = {.most_lines = SCREEN_LINES};
    assert_int_equal(vw_report_doctor(&one.diagnosis, &form, &output), VW_OK);
    assert_has("\n\nLeft out: the code of these.\n");
}

/* Which of them a text names is the one that failed. */
static void the_places_of_the_first_finding_that_has_some_are_named(void **state)
{
    static const char *const places[] = {"train.py:88 main", "a.py:1 f", "b.py:2 g"};
    vw_finding findings[] = {{.kind = "capped", .bytes = VW_UNKNOWN},
                             {.kind = "peak", .bytes = VW_UNKNOWN, .where = places}};
    vw_diagnosis diagnosis = {.verdict = VW_VERDICT_CAPPED,
                              .source = VW_SOURCE_RECORDING,
                              .numbers = SAMPLE_NO_NUMBERS,
                              .findings = findings,
                              .finding_count = SAMPLE_COUNT(findings)};
    (void)state;
    screen_of(&diagnosis, (vw_report_form){0});
    assert_lacks("Where: ");
    findings[1].where_count = SAMPLE_COUNT(places);
    screen_of(&diagnosis, (vw_report_form){0});
    assert_has("\nWhere: train.py:88 main, a.py:1 f, b.py:2 g\n");
    screen_of(&diagnosis, (vw_report_form){.width_columns = 40});
    assert_has("\nWhere: train.py:88 main, a.py:1 f\n");
    screen_of(&diagnosis, (vw_report_form){.width_columns = 20});
    assert_has("\nWhere: train.py:8...\n");
    diagnosis.source = VW_SOURCE_TEXT;
    screen_of(&diagnosis, (vw_report_form){0});
    assert_has("\nFailed at: train.py:88 main, ");
}

/* ---- the other remedies ---------------------------------------------------------------------- */

static void long_code_gives_way_to_the_phase(void **state)
{
    vw_failed_at at = {.file = "/home/ada/gen.py",
                       .line = 20,
                       .function = "main",
                       .code = "out = model.generate(**inputs, max_new_tokens=512, do_sample=True)",
                       .phase = "generate"};
    made one;
    (void)state;
    make(&one, 1);
    one.diagnosis.failed_at = &at;
    screen_of(&one.diagnosis, (vw_report_form){0});
    assert_has("\nFailed at: gen.py:20: out = model.generate(**inputs...");
    assert_has("..., in inference\n");
    assert_true(report_capture_width(&captured) <= SCREEN_COLUMNS);
    screen_of(&one.diagnosis, (vw_report_form){.width_columns = 30});
    assert_has("\nFailed at: gen.py:20: out =...\n");
    at.code = "loss_of_this_step = torch.nn.functional.cross_entropy(logits, labels)";
    screen_of(&one.diagnosis, (vw_report_form){0});
    assert_has("20: loss_of_this_step = torch.nn.functional.c..., in inference\n");
    at.code = "x = f()";
    screen_of(&one.diagnosis, (vw_report_form){0});
    assert_has("\nFailed at: gen.py:20: x = f(), in inference\n");
}

static void remedies_beyond_the_screen_are_counted_and_the_best_stay(void **state)
{
    made many;
    (void)state;
    make(&many, 31);
    many.remedies[1].enough = VW_ENOUGH_NO;
    many.remedies[30].enough = VW_ENOUGH_YES;
    screen_of(&many.diagnosis, (vw_report_form){0});
    keep_wording("more remedies than lines");
    assert_int_equal(screen_lines_of(captured.text, SCREEN_COLUMNS), SCREEN_LINES);
    assert_shows(
        "Try first: remedy 0|\nremedy 2,|\nremedy 15,|\nremedy 30, 1.00 GiB none enough\n");
    assert_lacks("\nremedy 1,");  /* not enough */
    assert_lacks("\nremedy 17,"); /* later than others */
    const char *last = strstr(captured.text, "--all shows");
    assert_non_null(last);
    size_t shown = 0;
    for (const char *at = captured.text; (at = strstr(at, "\nremedy ")) != NULL; at++)
        shown++;
    char counted[32];
    snprintf(counted, sizeof counted, " and %zu more remedies.\n", 30 - shown);
    assert_non_null(strstr(last, counted));
}

static void no_remedy_is_listed_twice_and_the_first_not_again(void **state)
{
    made twice;
    (void)state;
    make(&twice, 4);
    twice.remedies[2] = twice.remedies[0];
    twice.remedies[3] = twice.remedies[1];
    screen_of(&twice.diagnosis, (vw_report_form){0});
    assert_shows("Try first: remedy 0|\nremedy 1, 1.00 GiB none\n\n--all");
    twice.remedies[3].how = "in another way";
    screen_of(&twice.diagnosis, (vw_report_form){0});
    assert_shows("\nremedy 1, 1.00 GiB none\nremedy 1, 1.00 GiB none\n\n");
}

/* A line each, with what the columns can hold. */
static void bytes_time_and_enough_are_short(void **state)
{
    static const struct {
        uint64_t least_bytes, most_bytes;
        vw_enough enough;
        const char *cost, *line;
    } cases[] = {
        {SAMPLE_GIB, 2 * SAMPLE_GIB, VW_ENOUGH_YES, "about 30 % more time per step: twice",
         "1.00-2.00 GiB +30 % time enough"},
        {512 * SAMPLE_MIB, SAMPLE_GIB, VW_ENOUGH_NO, "about 2.37 ms more a step, if it is read",
         "512 MiB-1.00 GiB +2.37 ms a step not enough"},
        {0, SAMPLE_GIB, VW_ENOUGH_UNKNOWN, "none (item() waits)", "up to 1.00 GiB none"},
        {SAMPLE_GIB, VW_UNKNOWN, VW_ENOUGH_UNKNOWN, "about a day", "1.00 GiB or more about a day"},
        {VW_UNKNOWN, VW_UNKNOWN, VW_ENOUGH_UNKNOWN, "one more loop over everything there is",
         "one more loop over everything there is"},
    };
    (void)state;
    for (size_t i = 0; i < SAMPLE_COUNT(cases); i++) {
        made two;
        char line[96];
        make(&two, 2);
        two.remedies[1].saves_bytes = cases[i].least_bytes;
        two.remedies[1].saves_at_most_bytes = cases[i].most_bytes;
        two.remedies[1].enough = cases[i].enough;
        two.remedies[1].cost = cases[i].cost;
        screen_of(&two.diagnosis, (vw_report_form){0});
        snprintf(line, sizeof line, "\nremedy 1, %s\n", cases[i].line);
        assert_shows(line);
    }
}

/* A long cost has the columns that the actions leave. */
static void a_long_cost_is_cut_only_where_an_action_needs_its_room(void **state)
{
    made two;
    (void)state;
    make(&two, 2);
    two.remedies[1].cost = "a copy to the host and back for each of the outputs";
    screen_of(&two.diagnosis, (vw_report_form){0});
    assert_shows("\nremedy 1, 1.00 GiB a copy to the host and back for each of the outputs\n");
    two.remedies[1].action = "recompute activations in the backward pass (checkpointing)";
    screen_of(&two.diagnosis, (vw_report_form){0});
    assert_shows("\nrecompute activations in the backward pass... 1.00 GiB a copy to the...\n");
    assert_true(report_capture_width(&captured) <= SCREEN_COLUMNS);
}

static void a_remedy_that_saves_nothing_is_left_to_the_whole_report(void **state)
{
    made three;
    (void)state;
    make(&three, 3);
    three.remedies[1].saves_bytes = three.remedies[1].saves_at_most_bytes = 0;
    screen_of(&three.diagnosis, (vw_report_form){0});
    assert_lacks("remedy 1,");
    assert_shows("\nremedy 2, 1.00 GiB none\n\n--all shows the code of these and 1 more remedy.");
}

static void a_long_action_is_cut_at_a_word(void **state)
{
    made two;
    (void)state;
    make(&two, 2);
    two.remedies[1].action = "recompute activations in the backward pass (checkpointing), which "
                             "is one more forward pass";
    screen_of(&two.diagnosis, (vw_report_form){0});
    assert_shows("\nrecompute activations in the backward pass (checkpointing)... 1.00 GiB none\n");
    assert_true(report_capture_width(&captured) <= SCREEN_COLUMNS);
    screen_of(&two.diagnosis, (vw_report_form){.width_columns = 120});
    assert_shows("\nrecompute activations in the backward pass (checkpointing), which is one more "
                 "forward pass 1.00 GiB none\n");
    screen_of(&two.diagnosis, (vw_report_form){.width_columns = 30});
    assert_has("\nrecompute activations in...\n"); /* alone: there is no room for columns */
}

/* The doctor's own promise is in the action. */
static void enough_is_said_once(void **state)
{
    made one;
    (void)state;
    make(&one, 1);
    one.remedies[0].enough = VW_ENOUGH_YES;
    screen_of(&one.diagnosis, (vw_report_form){0});
    assert_has("(replayed); enough by itself; cost: none\n");
    one.remedies[0].action = "split: enough by itself for the failed request";
    screen_of(&one.diagnosis, (vw_report_form){0});
    assert_has("(replayed); cost: none\n");
}

/* ---- what gives way -------------------------------------------------------------------------- */

static void every_window_and_every_limit_is_kept(void **state)
{
    (void)state;
    for (unsigned width = 20; width <= 120; width++)
        for (size_t lines = 1; lines <= 40; lines++) {
            screen_of(&sample_fragmentation,
                      (vw_report_form){.width_columns = width, .most_lines = lines});
            const size_t used = screen_lines_of(captured.text, width);
            if (used > lines || used == 0 || report_capture_has_loose_ends(&captured))
                fail_msg("%zu lines of %zu, %u columns:\n%s", used, lines, width, captured.text);
        }
}

/* Colour takes no columns. */
static void colour_changes_no_line(void **state)
{
    static char plain[sizeof captured.text];
    (void)state;
    memcpy(plain, screen_of(&sample_fragmentation, (vw_report_form){0}), sizeof plain);
    screen_of(&sample_fragmentation, (vw_report_form){.has_colour = true});
    assert_has("\033[32mTry first: ");
    char *to = captured.text;
    for (const char *from = captured.text; *from != '\0';) {
        if (*from == '\033')
            from = strchr(from, 'm') + 1;
        else
            *to++ = *from++;
    }
    *to = '\0';
    assert_string_equal(captured.text, plain);
}

static void a_sentence_longer_than_the_screen_is_cut(void **state)
{
    char sentence[81 * 40];
    vw_diagnosis diagnosis = sample_fragmentation;
    (void)state;
    memset(sentence, 'x', sizeof sentence - 1);
    sentence[sizeof sentence - 1] = '\0';
    diagnosis.sentence = sentence;
    screen_of(&diagnosis, (vw_report_form){0});
    assert_int_equal(screen_lines_of(captured.text, SCREEN_COLUMNS), SCREEN_LINES);
}

/* A line of code that a window breaks takes two of its lines. */
static void code_wider_than_the_window_counts_as_the_window_shows_it(void **state)
{
    char code[7 * 101 + 1];
    made one;
    (void)state;
    make(&one, 12);
    for (size_t i = 0; i < sizeof code - 1; i++)
        code[i] = i % 101 == 100 ? '\n' : 'c';
    code[sizeof code - 1] = '\0';
    one.remedies[0].how = code;
    screen_of(&one.diagnosis, (vw_report_form){0});
    assert_int_equal(screen_lines_of(captured.text, SCREEN_COLUMNS), SCREEN_LINES);
    assert_has("ccccc\n\n");
}

static void no_text_on_a_screen_can_steer_a_terminal(void **state)
{
    static const char nasty[] = "a\033[2J\rb\xFFz\xE2\x80\xAE";
    static const char *const texts[] = {nasty};
    static const vw_remedy remedies[] = {
        {nasty, 1, 1, VW_BASIS_RULE, VW_ENOUGH_UNKNOWN, nasty, nasty},
        {nasty, 1, 1, VW_BASIS_RULE, VW_ENOUGH_UNKNOWN, nasty, "other"},
    };
    static const vw_finding findings[] = {
        {"leak", nasty, VW_UNKNOWN, texts, 1, texts, 1, NULL, 0, remedies, 2},
        {"warning", nasty, VW_UNKNOWN, NULL, 0, NULL, 0, NULL, 0, NULL, 0},
    };
    const vw_diagnosis diagnosis = {.verdict = VW_VERDICT_LEAK,
                                    .sentence = nasty,
                                    .numbers = SAMPLE_NO_NUMBERS,
                                    .findings = findings,
                                    .finding_count = 2};
    (void)state;
    screen_of(&diagnosis, (vw_report_form){.has_utf8 = true, .file = nasty});
    for (const char *at = captured.text; *at != '\0'; at++)
        assert_true(*at == '\n' || (*at >= 0x20 && *at < 0x7F));
}

static void the_wording_is_that_of_the_golden_file(void **state)
{
    (void)state;
    golden_compare(&wording, "doctor_screen");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_screen_has_all_that_decides),
        cmocka_unit_test(json_is_complete_whatever_the_lines),
        cmocka_unit_test(the_last_line_is_there_only_if_something_was_left_out),
        cmocka_unit_test(the_places_of_the_first_finding_that_has_some_are_named),
        cmocka_unit_test(long_code_gives_way_to_the_phase),
        cmocka_unit_test(remedies_beyond_the_screen_are_counted_and_the_best_stay),
        cmocka_unit_test(no_remedy_is_listed_twice_and_the_first_not_again),
        cmocka_unit_test(bytes_time_and_enough_are_short),
        cmocka_unit_test(a_long_cost_is_cut_only_where_an_action_needs_its_room),
        cmocka_unit_test(a_remedy_that_saves_nothing_is_left_to_the_whole_report),
        cmocka_unit_test(a_long_action_is_cut_at_a_word),
        cmocka_unit_test(enough_is_said_once),
        cmocka_unit_test(every_window_and_every_limit_is_kept),
        cmocka_unit_test(colour_changes_no_line),
        cmocka_unit_test(a_sentence_longer_than_the_screen_is_cut),
        cmocka_unit_test(code_wider_than_the_window_counts_as_the_window_shows_it),
        cmocka_unit_test(no_text_on_a_screen_can_steer_a_terminal),
        cmocka_unit_test(the_wording_is_that_of_the_golden_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
