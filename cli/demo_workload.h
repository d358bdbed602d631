/* demo_workload.h - a training run reduced to its memory.
 *
 * Every tensor that training a small transformer makes and drops, in PyTorch's order, without the
 * arithmetic in between: weights, activations whose sizes follow the length of the batch,
 * gradients, AdamW's state, evaluations with longer sequences, and outputs that are kept for a log.
 * The same seed gives the same requests, whatever the pool does with them, so two runs differ only
 * in their settings.
 *
 * A run goes through vw_alloc_with() and vw_free() on a pool of its own, on a simulated card, and
 * ends after the last step or at the first request that is refused. It is left as it was at that
 * moment, to be looked at. */
#ifndef VRAMWISE_CLI_DEMO_WORKLOAD_H
#define VRAMWISE_CLI_DEMO_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/vramwise.h"

#define DEMO_STEP_COUNT 64
#define DEMO_CARD_BYTES (UINT64_C(24) << 30)     /* what the card says it has */
#define DEMO_CONTEXT_BYTES (UINT64_C(448) << 20) /* what the CUDA context takes of it */

/* One training step, and the evaluation after it where there is one. */
typedef struct demo_step {
    unsigned sequence_length; /* of the training batch, in tokens */
    bool has_evaluation;
    uint64_t peak_live_bytes;
    uint64_t peak_reserved_bytes;
} demo_step;

typedef struct demo_run demo_run;

/* Something to do in the middle of a run, right after request `request_number` was served. */
typedef struct demo_pause {
    uint64_t request_number; /* 1 = the first */
    void (*notice)(void *context, const demo_run *run);
    void *context;
} demo_pause;

struct demo_run {
    const char *policy; /* "native", "expandable" */
    const char *conf;   /* what PYTORCH_CUDA_ALLOC_CONF would hold */
    vw_device *device;  /* owned, until demo_run_end() */
    vw_pool *pool;      /* owned, likewise; as the run left it */

    bool is_complete;  /* every step was done */
    size_t step_count; /* begun, the one that failed included */
    demo_step steps[DEMO_STEP_COUNT];
    uint64_t request_count; /* asked for, the one that failed included */
    uint64_t live_bytes;    /* at the end */
    uint64_t reserved_bytes;
    uint64_t logged_bytes; /* outputs kept for the log, part of live_bytes */
    uint64_t peak_live_bytes;
    uint64_t peak_reserved_bytes;
    int64_t retry_count; /* the device refused, cached memory was given back, asked again */
    vw_device_calls calls;

    /* Where !is_complete. */
    const char *failed_for; /* which tensor, static */
    vw_oom_report oom;
    char oom_text[1024]; /* as PyTorch prints it */
};

/* What trains, in numbers for people. */
typedef struct demo_model {
    unsigned layer_count;
    unsigned hidden_size;
    unsigned batch_size;
    unsigned evaluation_interval; /* steps from one evaluation to the next */
    unsigned log_length;          /* outputs kept at a time */
    uint64_t parameter_count;
} demo_model;

demo_model demo_get_model(void);

/* Runs the workload under `conf`; `pause` may be NULL. VW_OK also when it ended out of memory; any
 * other status means that there was no run, with the reason in vw_last_error(). Either way
 * demo_run_end() follows. */
vw_status demo_run_begin(demo_run *run, const char *policy, const char *conf,
                         const demo_pause *pause);

/* Gives the pool and the device back. */
void demo_run_end(demo_run *run);

#endif /* VRAMWISE_CLI_DEMO_WORKLOAD_H */
