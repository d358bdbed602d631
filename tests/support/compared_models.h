/* compared_models.h - pairs of small recordings, a block a line, and what a comparison finds. */
#ifndef VW_TESTS_COMPARED_MODELS_H
#define VW_TESTS_COMPARED_MODELS_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/analysis.h"
#include "model/memory_model.h"

#define COMPARED_ADDRESS UINT64_C(0x7f0000000000)
#define COMPARED_MIB (UINT64_C(1) << 20)
#define COMPARED_CALL "_call_impl /usr/lib/python3/site-packages/torch/nn/modules/module.py 1790"

typedef struct compared_line {
    const char *stack; /* as in small_model_context(); NULL: none captured */
    uint64_t size_bytes;
} compared_line;

/* A recording with one block for each line, all live at the peak; `first_name` makes the numbers of
 * strings and stacks differ from one model to the other. To be destroyed with vw__model_destroy().
 */
vw__model *compared_model_at(const compared_line *lines, size_t count, const char *first_name,
                             uint64_t address, int64_t time_us);
vw__model *compared_model(const compared_line *lines, size_t count, const char *first_name);

/* What must hold for every comparison: its rows account for the two peaks, in bytes and blocks. */
void assert_accounts_for_the_peaks(const vw_diff_report *report);

/* To be freed with vw_diff_report_free(); it accounts for the peaks. */
vw_diff_report *compared_report(vw__model *before, vw__model *after);

/* A comparison with the two models that it refers to. */
typedef struct compared_models {
    vw__model *before, *after;
    vw_diff_report *report;
} compared_models;

compared_models compare_lines(const compared_line *before, size_t before_count,
                              const compared_line *after, size_t after_count);
void compared_models_end(compared_models *made);

#define COMPARE_LINES(before, after)                                                               \
    compare_lines(before, sizeof(before) / sizeof((before)[0]), after,                             \
                  sizeof(after) / sizeof((after)[0]))

#endif /* VW_TESTS_COMPARED_MODELS_H */
