/* test_doctor_recordings.c - the doctor held against recordings whose verdict is known.
 *
 * tests/data/recordings/doctor has programs that leak, keep graphs, fragment, strand, run out, or
 * are healthy, recorded on a real GPU (tests/gpu/record_doctor.py), each with its label. Every one
 * is judged three times: whole; cut at 90 % of its events, as a snapshot of a job that still runs
 * would be; and with the trace cut but not the segments, as a careless script would do it. A cut
 * that has lost the failure has nothing left to judge but the run so far.
 *
 * With VRAMWISE_CORPUS set, the recordings there are judged as well. Every answer, those on the
 * other recordings of tests/data included, fits a screen. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/layout.h"
#include "analysis/recording.h"
#include "vramwise/doctor.h"

#include "support/cmocka_here.h"
#include "support/screen_check.h"
#include "support/stored_recordings.h"

#define LABELLED STORED_RECORDINGS "/doctor"

typedef enum how { WHOLE, CUT, CUT_BY_HAND } how;

static const char *const how_texts[] = {"whole", "cut at 90 %", "cut by hand at 90 %"};

/* ---- judging one ----------------------------------------------------------------------------- */

static vw_diagnosis *diagnose(const vw_recording *recording, uint64_t card_bytes)
{
    vw_doctor_options options = {.struct_size = sizeof options, .card_bytes = card_bytes};
    vw_diagnosis *diagnosis = NULL;
    assert_int_equal(vw_doctor_recording(recording, &options, &diagnosis), VW_OK);
    assert_fits_screen(diagnosis, "a/long/path/to/a/recording/that/has/a/long/name.pickle.xz");
    return diagnosis;
}

static size_t cut_count(const vw__model_trace *trace)
{
    return trace->event_count * 9 / 10;
}

static vw_diagnosis *diagnose_cut(const stored_recording *one)
{
    const vw__model *model = one->recording->model;
    vw_recording cut = *one->recording;
    vw__layout_view view;
    assert_int_equal(
        vw__layout_view_make(model, &model->traces[0], cut_count(&model->traces[0]), &view), VW_OK);
    cut.model = &view.model;
    vw_diagnosis *diagnosis = diagnose(&cut, 0);
    vw__layout_view_deinit(&view);
    return diagnosis;
}

static vw_diagnosis *diagnose_as(const stored_recording *one, how manner)
{
    if (manner == WHOLE)
        return diagnose(one->recording, 0);
    if (manner == CUT)
        return diagnose_cut(one);
    partial_recording part;
    make_partial(one, 0, cut_count(&one->recording->model->traces[0]), &part);
    return diagnose(&part.recording, 0);
}

static bool has_failure_in(const stored_recording *one, how manner)
{
    const vw__model_trace *trace = &one->recording->model->traces[0];
    size_t count = manner == WHOLE ? trace->event_count : cut_count(trace);
    for (size_t i = 0; i < count; i++)
        if (trace->events[i].action == VW_ACTION_OOM)
            return true;
    return false;
}

static const vw_finding *finding_of(const vw_diagnosis *diagnosis, const char *kind)
{
    for (size_t i = 0; i < diagnosis->finding_count; i++)
        if (strcmp(diagnosis->findings[i].kind, kind) == 0)
            return &diagnosis->findings[i];
    return NULL;
}

/* ---- our own --------------------------------------------------------------------------------- */

static bool is_one_of(const json_t *texts, const char *text)
{
    for (size_t i = 0; i < json_array_size(texts); i++)
        if (strcmp(json_string_value(json_array_get(texts, i)), text) == 0)
            return true;
    return false;
}

/* Does one of the places begin with one of the labelled lines? */
static bool names_a_line(const vw_finding *finding, const json_t *lines)
{
    for (size_t i = 0; i < finding->where_count; i++)
        for (size_t k = 0; k < json_array_size(lines); k++) {
            const char *line = json_string_value(json_array_get(lines, k));
            size_t length = strlen(line);
            if (strncmp(finding->where[i], line, length) == 0 && finding->where[i][length] == ' ')
                return true;
        }
    return false;
}

static bool is_as_labelled(const vw_diagnosis *diagnosis, const json_t *label)
{
    const char *verdict = vw_verdict_name(diagnosis->verdict);
    const char *expected = json_string_value(json_object_get(label, "verdict"));
    const char *wanted = json_string_value(json_object_get(label, "finding"));
    const json_t *lines = json_object_get(label, "lines");
    if (strcmp(verdict, expected) != 0 && !is_one_of(json_object_get(label, "accepted"), verdict))
        return false;
    if (wanted != NULL && finding_of(diagnosis, wanted) == NULL)
        return false;
    bool has_line =
        diagnosis->verdict == VW_VERDICT_LEAK || diagnosis->verdict == VW_VERDICT_KEPT_GRAPH;
    return !has_line || json_array_size(lines) == 0 ||
           names_a_line(finding_of(diagnosis, verdict), lines);
}

static bool fails(const json_t *label)
{
    return json_string_value(json_object_get(label, "oom")) != NULL;
}

/* Returns whether the verdict is right; `manner` says what is judged. */
static bool judge(const stored_recording *one, const json_t *label, how manner)
{
    if (fails(label) && !has_failure_in(one, manner))
        return true; /* what is left is another run */
    const char *history = json_string_value(json_object_get(label, "history"));
    bool is_hand_made_end =
        manner == CUT_BY_HAND && (strcmp(history, "ring") == 0 || strcmp(history, "late") == 0);
    if (is_hand_made_end)
        return true; /* neither its beginning nor its end is known: nobody can judge that */
    vw_diagnosis *diagnosis = diagnose_as(one, manner);
    bool is_right = is_as_labelled(diagnosis, label);
    if (!is_right)
        print_error("%s, %s: expected %s, found: %s\n", one->name, how_texts[manner],
                    json_string_value(json_object_get(label, "verdict")), diagnosis->sentence);
    vw_diagnosis_free(diagnosis);
    return is_right;
}

static void every_labelled_recording_gets_its_verdict_and_line(void **state)
{
    (void)state;
    json_error_t error;
    json_t *labels = json_load_file(LABELLED "/labels.json", 0, &error);
    assert_non_null(labels);
    assert_true(json_array_size(labels) >= 70);
    size_t wrong = 0;
    for (size_t i = 0; i < json_array_size(labels); i++) {
        const json_t *label = json_array_get(labels, i);
        char name[256];
        stored_recording one;
        (void)snprintf(name, sizeof name, "%s" STORED_ENDING,
                       json_string_value(json_object_get(label, "name")));
        open_recording_in(LABELLED, name, &one);
        for (int manner = WHOLE; manner <= CUT_BY_HAND; manner++)
            wrong += !judge(&one, label, (how)manner);
        vw_recording_close(one.recording);
    }
    json_decref(labels);
    assert_int_equal(wrong, 0);
}

/* ---- the corpus ------------------------------------------------------------------------------ */

typedef struct expectation {
    const char *workload; /* or "workload.tag" */
    const char *verdict;
    const char *line;         /* NULL = none */
    const char *card_verdict; /* on a card as large as the cap; NULL = not asked */
} expectation;

/* The first that fits a name is taken. */
static const expectation expectations[] = {
    {"leak_loss", "leak", "train.py:152", NULL},
    {"leak_hook", "leak", "train.py:158", NULL},
    {"eval_with_grad", "kept-graph", "train.py:166", NULL},
    {"streams", "stranded", NULL, NULL},
    {"oom_fragmented", "fragmentation", NULL, NULL},
    {"oom_kvcache.native", "fragmentation", NULL, NULL},
    {"oom_kvcache.expand", "capped", NULL, "genuine"},
    {"oom_genuine", "capped", NULL, "genuine"},
    {"oom_varlen", "capped", NULL, "genuine"},
    {"", "healthy", NULL, NULL},
};

static const expectation *expectation_of(const char *name)
{
    const expectation *one = expectations;
    while (strncmp(name, one->workload, strlen(one->workload)) != 0)
        one++;
    return one;
}

static bool is_as_expected(const vw_diagnosis *diagnosis, const expectation *expected)
{
    if (strcmp(vw_verdict_name(diagnosis->verdict), expected->verdict) != 0)
        return false;
    if (strcmp(expected->verdict, "healthy") == 0 && finding_of(diagnosis, "leak") != NULL)
        return false;
    if (expected->line == NULL)
        return true;
    const vw_finding *finding = finding_of(diagnosis, expected->verdict);
    return finding != NULL && finding->where_count != 0 &&
           strncmp(finding->where[0], expected->line, strlen(expected->line)) == 0;
}

static uint64_t cap_of(const stored_recording *one)
{
    json_t *said = json_load_file(one->json_path, 0, NULL);
    double gib = json_number_value(json_object_get(said, "cap_gib"));
    json_decref(said);
    return (uint64_t)(gib * 1073741824.0);
}

static size_t judge_on_card(const stored_recording *one, const expectation *expected)
{
    vw_diagnosis *diagnosis = diagnose(one->recording, cap_of(one));
    bool is_right = strcmp(vw_verdict_name(diagnosis->verdict), expected->card_verdict) == 0;
    if (!is_right)
        print_error("%s on a card of its cap: expected %s, found: %s\n", one->name,
                    expected->card_verdict, diagnosis->sentence);
    vw_diagnosis_free(diagnosis);
    return !is_right;
}

static size_t judge_corpus_recording(const stored_recording *one)
{
    const expectation *expected = expectation_of(one->name);
    bool has_to_fail = has_failure_in(one, WHOLE);
    size_t wrong = 0;
    for (int manner = WHOLE; manner <= CUT_BY_HAND; manner++) {
        if (has_to_fail && !has_failure_in(one, (how)manner))
            continue;
        vw_diagnosis *diagnosis = diagnose_as(one, (how)manner);
        if (!is_as_expected(diagnosis, expected)) {
            print_error("%s, %s: expected %s, found: %s\n", one->name, how_texts[manner],
                        expected->verdict, diagnosis->sentence);
            wrong++;
        }
        vw_diagnosis_free(diagnosis);
    }
    return expected->card_verdict != NULL ? wrong + judge_on_card(one, expected) : wrong;
}

static void every_recording_of_the_corpus_gets_its_verdict(void **state)
{
    (void)state;
    const char *corpus = getenv("VRAMWISE_CORPUS");
    struct dirent **entries;
    if (corpus == NULL || corpus[0] == '\0')
        skip();
    int count = scandir(corpus, &entries, is_recording_name, alphasort);
    assert_true(count > 0);
    size_t wrong = 0;
    for (int i = 0; i < count; i++) {
        stored_recording one;
        open_recording_in(corpus, entries[i]->d_name, &one);
        wrong += judge_corpus_recording(&one);
        vw_recording_close(one.recording);
        free(entries[i]);
    }
    free(entries);
    assert_int_equal(wrong, 0);
}

static void check_screen(const stored_recording *one)
{
    vw_diagnosis_free(diagnose(one->recording, 0));
}

static void the_answer_on_every_stored_recording_fits_a_screen(void **state)
{
    (void)state;
    each_stored_recording(check_screen);
}

/* The stack of the request says where it failed, as a traceback does. */
static void a_recorded_failure_has_its_line_and_phase(void **state)
{
    (void)state;
    stored_recording one;
    open_recording_in(STORED_RECORDINGS, "oom_fragmented.native.pickle.xz", &one);
    vw_diagnosis *diagnosis = diagnose_as(&one, WHOLE);
    const vw_failed_at *at = diagnosis->failed_at;
    assert_non_null(at);
    assert_non_null(strstr(at->file, "train.py"));
    assert_int_equal(at->line, 174);
    assert_string_equal(at->function, "oom_fragmented");
    assert_string_equal(at->phase, "other");
    assert_null(at->code);
    vw_diagnosis_free(diagnosis);
    vw_recording_close(one.recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_on_every_stored_recording_fits_a_screen),
        cmocka_unit_test(a_recorded_failure_has_its_line_and_phase),
        cmocka_unit_test(every_labelled_recording_gets_its_verdict_and_line),
        cmocka_unit_test(every_recording_of_the_corpus_gets_its_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
