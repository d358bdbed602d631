/* bench_plan.c - the planner against what was measured.
 *
 * bench_plan CASES_DEF PLAN_MD FILE...: reads measured cases, predicts each, prints both, and
 * writes the table of a plan's error bands (src/plan/measured_cases.def) and the report
 * (bench/results/plan.md). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "vramwise/plan.h"

#include "plan/plan_model.h"
#include "support/plan_truth.h"

#define MIB 1048576.0

enum { COLUMNS = 5 };

typedef struct compared {
    uint64_t predicted_bytes; /* the peak */
    double errors[COLUMNS];   /* NAN: not measured */
} compared;

static const char *const titles[COLUMNS] = {"after forward", "peak of forward", "peak of backward",
                                            "peak", "reserved"};

static double error_of(uint64_t predicted, uint64_t measured)
{
    if (measured == VW_UNKNOWN || predicted == VW_UNKNOWN || measured == 0)
        return NAN;
    return (double)predicted / (double)measured - 1;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return b == VW_UNKNOWN || a > b ? a : b;
}

static bool compare(const vw_test_truth *truth, compared *out)
{
    vw_plan_options options = {.struct_size = sizeof options, .without_choices = true};
    vw_plan *plan;
    if (vw_plan_make(truth->model, &truth->settings, &options, &plan) != VW_OK) {
        fprintf(stderr, "%s: %s\n", truth->name, vw_last_error());
        return false;
    }
    /* What was measured in a pass is the highest since the step began, with the gradients of the
     * one before still there. */
    bool is_single = truth->settings.accumulation == 1;
    uint64_t forward = larger(plan->phase_peaks[0], plan->after_step_bytes);
    uint64_t both = larger(forward, plan->phase_peaks[1]);
    *out = (compared){.predicted_bytes = plan->peak_allocated_bytes,
                      .errors = {
                          error_of(plan->after_forward_bytes, truth->after_forward_bytes),
                          error_of(is_single ? forward : both, truth->peak_forward_bytes),
                          error_of(both, truth->peak_backward_bytes),
                          error_of(plan->peak_allocated_bytes, truth->peak_bytes),
                          error_of(plan->reserved_bytes[0], truth->reserved_bytes),
                      }};
    vw_plan_free(plan);
    return true;
}

/* ---- the report ------------------------------------------------------------------------------ */

static void write_cell(FILE *file, double error)
{
    if (isnan(error))
        fputs(" |", file);
    else
        fprintf(file, " %+.2f |", 100 * error);
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The median's or the worst's row. */
static void write_summary(FILE *file, const compared *cases, size_t count, bool is_worst)
{
    double *sizes = calloc(count, sizeof *sizes);
    fprintf(file, "| **%s** | | |", is_worst ? "worst" : "median");
    for (size_t column = 0; sizes != NULL && column < COLUMNS; column++) {
        size_t known = 0;
        for (size_t i = 0; i < count; i++)
            if (!isnan(cases[i].errors[column]))
                sizes[known++] = fabs(cases[i].errors[column]);
        qsort(sizes, known, sizeof *sizes, by_size);
        if (known == 0)
            fputs(" |", file);
        else
            fprintf(file, " %.2f |", 100 * sizes[is_worst ? known - 1 : known / 2]);
    }
    fputs("\n", file);
    free(sizes);
}

static void write_report(FILE *file, const vw_test_truths *truths, const compared *cases)
{
    fprintf(file,
            "# The planner against measured steps\n\nWritten by `make bench-plan` from "
            "tests/data/plan: %zu cases on an H200. Predicted / measured - 1, in percent.\n"
            "Reserved was measured with other cases before it in the same process, whose "
            "blocks were used again: it is here for orientation.\n\n"
            "| case | peak measured, MiB | predicted, MiB |",
            truths->count);
    for (size_t i = 0; i < COLUMNS; i++)
        fprintf(file, " %s |", titles[i]);
    fputs("\n| --- | --: | --: | --: | --: | --: | --: | --: |\n", file);
    write_summary(file, cases, truths->count, false);
    write_summary(file, cases, truths->count, true);
    for (size_t i = 0; i < truths->count; i++) {
        fprintf(file, "| %s | %.1f | %.1f |", truths->cases[i].name,
                (double)truths->cases[i].peak_bytes / MIB, (double)cases[i].predicted_bytes / MIB);
        for (size_t column = 0; column < COLUMNS; column++)
            write_cell(file, cases[i].errors[column]);
        fputs("\n", file);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

#define NAME_OF(upper, text) #upper,
static const char *const precisions[] = {VW_PRECISION_LIST(NAME_OF)};
static const char *const optimizers[] = {VW_OPTIMIZER_LIST(NAME_OF)};
static const char *const checkpointings[] = {VW_CHECKPOINTING_LIST(NAME_OF)};
static const char *const attentions[] = {VW_ATTENTION_LIST(NAME_OF)};
static const char *const offloads[] = {VW_OFFLOAD_LIST(NAME_OF)};
static const char *const shardings[] = {VW_SHARDING_LIST(NAME_OF)};
static const char *const modes[] = {VW_PLAN_MODE_LIST(NAME_OF)};
static const char *const heads[] = {VW_PLAN_HEAD_LIST(NAME_OF)};
#undef NAME_OF

static void write_case(FILE *file, const vw_test_truth *truth, double error)
{
    const vw_plan_settings *s = &truth->settings;
    fprintf(file, "CASE(\"%s\",\n     %s, %s, %" PRIu64 ", %s, %s, %s,\n     %s, %s, %s, %s, %.5f",
            truth->name, truth->model->family->name, heads[vw__plan_head_of(truth->model, s)],
            truth->parameters, modes[s->mode], precisions[s->precision], optimizers[s->optimizer],
            checkpointings[s->checkpointing], attentions[s->attention], offloads[s->offload],
            shardings[s->sharding], error);
    if (s->has_master_weights)
        fputs(", .has_master_weights = true", file);
    if (s->loss_chunks > 1)
        fputs(", .has_chunks = true", file);
    if (s->lora_rank > 0)
        fputs(", .has_lora = true", file);
    if (s->is_quantized)
        fputs(", .is_quantized = true", file);
    if (s->generate > 0)
        fputs(", .is_generating = true", file);
    fputs(")\n", file);
}

static void write_cases(FILE *file, const vw_test_truths *truths, const compared *cases)
{
    enum { PEAK = 3 };
    fputs("/* measured_cases.def - written by `make bench-plan`; not by hand.\n"
          " * CASE(case, family, head, parameters, mode, precision, optimizer, checkpointing, "
          "attention,\n"
          " *      offload, sharding, error of the peak: predicted / measured - 1, and flags that "
          "are set) */\n",
          file);
    for (size_t i = 0; i < truths->count; i++)
        write_case(file, &truths->cases[i], cases[i].errors[PEAK]);
}

/* ---- the whole ------------------------------------------------------------------------------- */

typedef void (*writer)(FILE *file, const vw_test_truths *truths, const compared *cases);

static bool write_file(const char *path, writer write, const vw_test_truths *truths,
                       const compared *cases)
{
    FILE *file = fopen(path, "w");
    if (file != NULL)
        write(file, truths, cases);
    bool is_written = file != NULL && ferror(file) == 0;
    if (file == NULL || fclose(file) != 0 || !is_written) {
        perror(path);
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    vw_test_truths truths = {.count = 0};
    if (argc < 4) {
        fprintf(stderr, "usage: bench_plan CASES_DEF PLAN_MD FILE...\n");
        return 2;
    }
    for (int i = 3; i < argc; i++)
        if (!vw_test_read_truths(argv[i], &truths))
            return 1;
    compared *cases = calloc(truths.count + 1, sizeof *cases);
    bool is_good = cases != NULL;
    for (size_t i = 0; is_good && i < truths.count; i++)
        is_good = compare(&truths.cases[i], &cases[i]);
    is_good = is_good && write_file(argv[1], write_cases, &truths, cases) &&
              write_file(argv[2], write_report, &truths, cases);
    if (is_good)
        write_report(stdout, &truths, cases);
    free(cases);
    vw_test_free_truths(&truths);
    return is_good ? 0 : 1;
}
