/* plan_truth.h - measured training steps, from files of JSON lines (tests/data/plan/README.md). */
#ifndef HR_TESTS_PLAN_TRUTH_H
#define HR_TESTS_PLAN_TRUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/plan.h"

typedef struct hr_test_truth {
    char name[128];       /* "gpt2, batch 8, 1024, fp32, adamw" */
    hr_plan_model *model; /* owned */
    hr_plan_settings settings;
    uint64_t parameters;
    /* Measured; HR_UNKNOWN where it was not. */
    uint64_t after_forward_bytes, peak_forward_bytes, peak_backward_bytes, peak_bytes,
        reserved_bytes;
} hr_test_truth;

typedef struct hr_test_truths {
    hr_test_truth *cases; /* owned */
    size_t count;
} hr_test_truths;

/* Of one file, added to what is there. False, and a line on stderr: what is wrong, and where. */
bool hr_test_read_truths(const char *path, hr_test_truths *truths);
void hr_test_free_truths(hr_test_truths *truths);

#endif /* HR_TESTS_PLAN_TRUTH_H */
