/* test_plan_from_steps.c - the peak of one recorded step, predicted from another of another size.
 *
 * tests/data/recordings has some runs whose steps differ; VRAMWISE_CORPUS may name a folder with
 * more. Every step is predicted from each of some others, by laws that were found without looking
 * at it. The same is done with nothing but the one step to go by, as in a run of one size.
 *
 * VRAMWISE_PLAN_FROM_RESULTS names a file that gets the table of bench/results/plan_from.md. */
#include "vramwise/analysis.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/recording.h"
#include "base/error.h"
#include "plan/recorded_step.h"
#include "support/cmocka_here.h"
#include "support/stored_recordings.h"

enum { MOST_PATH_BYTES = 4096, MOST_STEPS = 64, SOURCES = 4 };

static const char ending[] = ".pickle.xz";

/* ---- sizes of steps -------------------------------------------------------------------------- */

/* What is known of a workload. The first request of a step is its batch: `unit_bytes` for each
 * sample and each unit of length. Lengths are `length_keys` of the log of steps, multiplied, or
 * `length` where they never change. */
typedef struct workload {
    const char *name;
    const char *length_keys[2];
    uint64_t length, unit_bytes;
    const char *decoder_key; /* a second length, which more requests go by; NULL: there is none */
    const char *about;       /* for the table */
    double most_median, most_worst; /* of the error, with other steps to go by */
    double most_median_alone;       /* with none */
} workload;

static const workload workloads[] = {
    {"gpt2_varlen", {"T"}, 0, 8, NULL, "", .001, .002, .001},
    {"llama_ckpt_varlen", {"T"}, 0, 8, NULL, "checkpointing", .001, .002, .001},
    {"oom_varlen", {"T"}, 0, 8, NULL, "", .001, .002, .001},
    {"moe_routing", {NULL}, 1, 4096, NULL, "a row is a sample", .001, .002, .001},
    {"unet_buckets", {"h", "w"}, 0, 64, NULL, "length: height x width", .002, .03, .005},
    {"resnet_multiscale",
     {"s", "s"},
     0,
     12,
     NULL,
     "length: pixels; cuDNN's workspaces jump",
     .005,
     .15,
     .005},
    {"t5_varlen", {"S"}, 0, 8, "T", "two lengths: --seq scales both", .01, .8, 1},
};

static const workload *workload_of(const char *file)
{
    for (size_t i = 0; i < sizeof workloads / sizeof workloads[0]; i++) {
        size_t length = strlen(workloads[i].name);
        if (strncmp(file, workloads[i].name, length) == 0 && file[length] == '.')
            return &workloads[i];
    }
    return NULL;
}

typedef struct step_size {
    uint64_t batch, length, second; /* second length, where there is one: else the same */
} step_size;

static uint64_t logged_number(json_t *log, size_t step, const char *key)
{
    json_t *entry = json_array_get(json_object_get(log, "steps"), step);
    json_t *value = json_object_get(entry, key);
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

static uint64_t logged_length(const workload *known, json_t *log, size_t step)
{
    uint64_t length = 1;
    if (known->length != 0)
        return known->length;
    for (size_t i = 0; i < 2 && known->length_keys[i] != NULL; i++)
        length *= logged_number(log, step, known->length_keys[i]);
    return length;
}

static uint64_t first_request(const vw__plan_recorded_run *run, uint32_t step)
{
    uint32_t begin, end;
    vw__plan_recorded_step_range(run, step, &begin, &end);
    for (uint32_t i = begin; i < end; i++)
        if (run->lifetime_of[i] != UINT32_MAX)
            return run->trace->events[i].size_bytes;
    return 0;
}

/* ---- predictions ----------------------------------------------------------------------------- */

typedef struct errors {
    double values[MOST_STEPS * SOURCES];
    size_t count;
    uint32_t compared_count;
} errors;

static int compare_values(const void *left, const void *right)
{
    const double *one = left, *other = right;
    return (*one > *other) - (*one < *other);
}

static double median_of(errors *found)
{
    qsort(found->values, found->count, sizeof found->values[0], compare_values);
    return found->count == 0 ? 0 : found->values[found->count / 2];
}

static double worst_of(const errors *found) /* after median_of() */
{
    return found->count == 0 ? 0 : found->values[found->count - 1];
}

typedef struct subject {
    vw__plan_recorded_run run;
    uint64_t peaks[MOST_STEPS];
    step_size sizes[MOST_STEPS];
    uint32_t step_count;
} subject;

static void predict(const subject *known, uint32_t from, uint32_t to, bool is_alone, errors *out)
{
    vw__plan_step_question question = {.step = from,
                                       .batch_now = known->sizes[from].batch,
                                       .sequence_now = known->sizes[from].length,
                                       .unseen_step = to,
                                       .without_evidence = is_alone};
    const step_size *now = &known->sizes[from], *then = &known->sizes[to];
    vw__plan_scale scale = {.multiples = {
                                .batch = (double)then->batch / (double)now->batch,
                                .length = (double)then->length / (double)now->length,
                                .second_length = (double)then->second / (double)now->second,
                            }};
    vw__plan_step_laws laws;
    vw__plan_scaled_peak peak;
    assert_int_equal(vw__plan_step_laws_find(&known->run, &question, &laws), VW_OK);
    assert_int_equal(vw__plan_recorded_step_scale(&known->run, from, &laws, scale, &peak), VW_OK);
    double error = (double)peak.bytes / (double)known->peaks[to] - 1;
    out->values[out->count++] = error < 0 ? -error : error;
    out->compared_count = laws.compared_count;
    vw__plan_step_laws_deinit(&laws);
}

static void predict_all(const subject *known, bool is_alone, errors *out)
{
    *out = (errors){.count = 0};
    for (uint32_t to = 1; to < known->step_count; to++)
        for (uint32_t k = 0; k < SOURCES; k++) {
            uint32_t from = 1 + (to - 1 + 1 + k * 5) % (known->step_count - 1);
            if (from != to && (known->sizes[from].batch != known->sizes[to].batch ||
                               known->sizes[from].length != known->sizes[to].length))
                predict(known, from, to, is_alone, out);
        }
}

static void open_subject(const workload *own, const char *path, json_t *log,
                         vw_recording **recording, subject *known)
{
    assert_int_equal(vw_recording_open(path, NULL, recording), VW_OK);
    assert_int_equal(vw__plan_recorded_run_init(&known->run, *recording, VW_BUSIEST_DEVICE), VW_OK);
    known->step_count = (uint32_t)known->run.steps.end_count;
    assert_in_range(known->step_count, 1, MOST_STEPS);
    assert_int_equal(vw__plan_recorded_step_peaks(&known->run, known->peaks), VW_OK);
    for (uint32_t step = 1; step < known->step_count; step++) {
        uint64_t length = logged_length(own, log, step);
        uint64_t unit_bytes = own->unit_bytes * length;
        uint64_t batch_bytes = first_request(&known->run, step);
        assert_int_equal(batch_bytes % unit_bytes, 0);
        known->sizes[step] = (step_size){batch_bytes / unit_bytes, length, length};
        if (own->decoder_key != NULL)
            known->sizes[step].length = logged_number(log, step, own->decoder_key);
    }
}

/* ---- recordings ------------------------------------------------------------------------------ */

static FILE *results; /* the table, or NULL */

static void check(const char *name, const workload *own, const subject *known)
{
    errors seen, alone;
    predict_all(known, false, &seen);
    predict_all(known, true, &alone);
    double median = median_of(&seen), median_alone = median_of(&alone);
    double worst = worst_of(&seen), worst_alone = worst_of(&alone);
    if (results != NULL && seen.count != 0)
        fprintf(results, "| %s | %u | %zu | %.2f %% | %.2f %% | %.2f %% | %.2f %% | %s |\n", name,
                known->step_count, seen.count, 100 * median, 100 * worst, 100 * median_alone,
                100 * worst_alone, own->about);
    if (median > own->most_median || worst > own->most_worst ||
        median_alone > own->most_median_alone)
        fail_msg("%s: errors of %g (median), %g (worst), %g (median, alone)", name, median, worst,
                 median_alone);
}

static void visit(const char *folder, const char *name)
{
    static subject known;
    char path[MOST_PATH_BYTES], log_path[MOST_PATH_BYTES];
    const workload *own = workload_of(name);
    vw_recording *recording;
    int stem = (int)(strlen(name) - strlen(ending));
    assert_in_range(snprintf(path, sizeof path, "%s/%s", folder, name), 1, sizeof path - 1);
    assert_in_range(snprintf(log_path, sizeof log_path, "%s/%.*s.json", folder, stem, name), 1,
                    sizeof log_path - 1);
    json_t *log = json_load_file(log_path, 0, NULL);
    assert_non_null(log);
    open_subject(own, path, log, &recording, &known);
    char shown[MOST_PATH_BYTES];
    snprintf(shown, sizeof shown, "%.*s", stem, name);
    check(shown, own, &known);
    vw__plan_recorded_run_deinit(&known.run);
    vw_recording_close(recording);
    json_decref(log);
}

/* `part`: of their names; allocator settings change nothing of what a program asks for. */
static size_t visit_folder(const char *folder, const char *part)
{
    struct dirent **entries;
    size_t count = 0;
    int found = scandir(folder, &entries, is_recording_name, alphasort);
    assert_true(found >= 0);
    for (int i = 0; i < found; i++) {
        const char *name = entries[i]->d_name;
        if (strstr(name, part) != NULL && workload_of(name) != NULL) {
            visit(folder, name);
            count++;
        }
        free(entries[i]);
    }
    free(entries);
    return count;
}

static void steps_predict_one_another(void **state)
{
    (void)state;
    assert_int_not_equal(visit_folder(STORED_RECORDINGS, ""), 0);
}

static void steps_of_the_corpus_do(void **state)
{
    (void)state;
    const char *folder = getenv("VRAMWISE_CORPUS"), *path = getenv("VRAMWISE_PLAN_FROM_RESULTS");
    if (folder == NULL)
        skip();
    if (path != NULL) {
        results = fopen(path, "w");
        assert_non_null(results);
        fprintf(results, "# The peak of one recorded step, predicted from another\n\n"
                         "`make bench-plan-from` writes this. Steps are of another batch and "
                         "length than the one\nthey are predicted from, and how blocks grow is "
                         "found without looking at them. *Alone*: with\nnothing but the one step "
                         "to go by, as in a run of one size. Errors are of peak live bytes.\n\n"
                         "| recording | steps | predictions | median | worst | median, alone | "
                         "worst, alone | |\n|---|---|---|---|---|---|---|---|\n");
    }
    assert_int_not_equal(visit_folder(folder, ".native"), 0);
    if (results != NULL)
        assert_int_equal(fclose(results), 0);
    results = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_predict_one_another),
        cmocka_unit_test(steps_of_the_corpus_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
