/* plan_truth.h - measured training steps, from files of JSON lines (tests/data/plan/README.md). */
#ifndef VW_TESTS_PLAN_TRUTH_H
#define VW_TESTS_PLAN_TRUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/plan.h"

typedef struct vw_test_truth {
    char name[128];       /* "gpt2, batch 8, 1024, fp32, adamw" */
    vw_plan_model *model; /* owned */
    vw_plan_settings settings;
    uint64_t parameters;
    /* Measured; VW_UNKNOWN where it was not. */
    uint64_t after_forward_bytes, peak_forward_bytes, peak_backward_bytes, peak_bytes,
        reserved_bytes;
} vw_test_truth;

typedef struct vw_test_truths {
    vw_test_truth *cases; /* owned */
    size_t count;
} vw_test_truths;

/* Adds the cases of one file. false, with the place of the error on stderr, if it is invalid. */
bool vw_test_read_truths(const char *path, vw_test_truths *truths);
/* The cases of all files that a pattern of glob() matches; false if there are none. */
bool vw_test_read_truth_files(const char *pattern, vw_test_truths *truths);
void vw_test_free_truths(vw_test_truths *truths);

#endif /* VW_TESTS_PLAN_TRUTH_H */
