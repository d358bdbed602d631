/* made_up_model.h - a model whose bytes can be counted by hand.
 *
 * Rows of 512 numbers go through square layers (512 x 512, no bias), then through a head of 1024
 * outputs, to a loss. With 1024 rows in float32: a row tensor has 2 MiB, a layer 1 MiB, the head
 * 2 MiB, the logits 4 MiB. Layers are what LoRA adapts, and the blocks that settings speak of. */
#ifndef VW_TESTS_MADE_UP_MODEL_H
#define VW_TESTS_MADE_UP_MODEL_H

#include "plan/plan_run.h"

enum { MADE_UP_WIDTH = 512, MADE_UP_CLASSES = 1024, MADE_UP_MOST_LAYERS = 8 };

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1024) * KIB)

extern const vw_plan_model made_up_model; /* of two layers */

/* 4 samples of 256 rows, trained in float32 with SGD, on one GPU. */
vw_plan_settings made_up_settings(void);

/* Runs it; fails the test where that fails. */
vw__plan_peaks made_up_peaks(const vw_plan_settings *settings);

/* cuBLAS's workspaces, which every run has. */
#define MADE_UP_WORKSPACES (64 * MIB)
#define MADE_UP_WORKSPACE (32 * MIB) /* outside of training */

#endif /* VW_TESTS_MADE_UP_MODEL_H */
