/* made_up_run.h - a training program as the events it would cause.
 *
 * The doctor looks for patterns over many steps: what stays, what goes, and when. A test writes a
 * loop of steps as one would write the program: a batch, a forward pass of some layers, a backward
 * pass, the optimizer. No address is used twice, and all lie in one segment, so only lifetimes
 * matter. */
#ifndef VW_TESTS_MADE_UP_RUN_H
#define VW_TESTS_MADE_UP_RUN_H

#include <stdio.h>
#include <string.h>

#include "analysis/recording.h"
#include "vramwise/doctor.h"

#include "support/cmocka_here.h"
#include "support/small_model.h"

#define RUN_MIB (UINT64_C(1) << 20)
#define RUN_TORCH "/usr/lib/python3/site-packages/torch/"
#define RUN_CALL "_call_impl " RUN_TORCH "nn/modules/module.py 1790"

enum { RUN_LAYERS = 12 };

typedef struct run_block {
    uint64_t address, size_bytes;
    uint32_t context;
} run_block;

/* The blocks of a forward pass: one per layer, and the output. */
typedef struct run_graph {
    run_block layers[RUN_LAYERS];
    run_block output;
} run_graph;

typedef struct made_up_run {
    small_model small;
    uint64_t next_address;
    bool has_stacks;
    uint32_t setup, batch, backward, optimizer, evaluation, keeper;
    uint32_t layer_contexts[RUN_LAYERS];
    run_block weights[RUN_LAYERS], gradients[RUN_LAYERS], state[RUN_LAYERS];
    bool has_gradients, has_state;
    vw_recording recording;
} made_up_run;

static inline uint32_t run_context(made_up_run *run, const char *stack)
{
    return run->has_stacks ? small_model_context(&run->small, stack) : VW__MODEL_NO_CONTEXT;
}

static inline run_block run_alloc(made_up_run *run, uint64_t size_bytes, uint32_t context)
{
    run_block block = {run->next_address, size_bytes, context};
    run->next_address += (size_bytes + 511) / 512 * 512;
    small_model_alloc(&run->small, block.address, size_bytes, context);
    return block;
}

static inline void run_free(made_up_run *run, run_block block)
{
    small_model_free(&run->small, block.address, block.size_bytes, block.context);
}

/* Weights are made first: a MiB a layer. */
static inline void run_begin(made_up_run *run, bool has_stacks)
{
    memset(run, 0, sizeof *run);
    small_model_begin(&run->small);
    small_model_set_features(&run->small);
    run->has_stacks = has_stacks;
    run->next_address = UINT64_C(0x7f0000000000);
    small_model_event(&run->small, VW_ACTION_SEGMENT_ALLOC, run->next_address, UINT64_C(1) << 40,
                      VW__MODEL_NO_CONTEXT);
    run->setup = run_context(run, "_apply " RUN_TORCH "nn/modules/module.py 900;main train.py 5");
    run->batch = run_context(run, "main train.py 10");
    run->backward = run_context(run, "");
    run->optimizer = run_context(run, "step " RUN_TORCH "optim/adam.py 238;main train.py 13");
    run->evaluation = run_context(run, "main train.py 30");
    run->keeper = run_context(run, "keep train.py 40;main train.py 14");
    for (unsigned i = 0; i < RUN_LAYERS; i++) {
        char stack[256];
        (void)snprintf(stack, sizeof stack,
                       RUN_CALL ";forward model.py %u;" RUN_CALL ";main train.py 11", 100 + i);
        run->layer_contexts[i] = run_context(run, stack);
    }
    for (unsigned i = 0; i < RUN_LAYERS; i++)
        run->weights[i] = run_alloc(run, 1 * RUN_MIB, run->setup);
}

/* Stacks of a forward pass called at another line. */
static inline void run_call_from(made_up_run *run, unsigned line)
{
    for (unsigned i = 0; i < RUN_LAYERS; i++) {
        char stack[256];
        (void)snprintf(stack, sizeof stack,
                       RUN_CALL ";forward model.py %u;" RUN_CALL ";main train.py %u", 100 + i,
                       line);
        run->layer_contexts[i] = run_context(run, stack);
    }
}

/* With a graph every layer's block stays; without, it is freed when the next one is made. */
static inline run_graph run_forward(made_up_run *run, uint64_t layer_bytes, bool has_graph)
{
    run_graph graph;
    memset(&graph, 0, sizeof graph);
    for (unsigned i = 0; i < RUN_LAYERS; i++) {
        graph.layers[i] = run_alloc(run, layer_bytes, run->layer_contexts[i]);
        if (!has_graph && i > 0)
            run_free(run, graph.layers[i - 1]);
    }
    graph.output = graph.layers[RUN_LAYERS - 1];
    return graph;
}

static inline void run_free_graph(made_up_run *run, const run_graph *graph)
{
    for (unsigned i = 0; i < RUN_LAYERS; i++)
        run_free(run, graph->layers[i]);
}

static inline void run_zero_grad(made_up_run *run)
{
    for (unsigned i = 0; run->has_gradients && i < RUN_LAYERS; i++)
        run_free(run, run->gradients[i]);
    run->has_gradients = false;
}

/* Frees the graph on the way, unless it shall be kept. */
static inline void run_backward(made_up_run *run, const run_graph *graph, bool keeps_graph)
{
    for (unsigned i = RUN_LAYERS; i-- > 0;) {
        run_block work = run_alloc(run, 1 * RUN_MIB, run->backward);
        if (!run->has_gradients)
            run->gradients[i] = run_alloc(run, 1 * RUN_MIB, run->backward);
        if (!keeps_graph)
            run_free(run, graph->layers[i]);
        run_free(run, work);
    }
    run->has_gradients = true;
}

static inline void run_optimizer(made_up_run *run)
{
    for (unsigned i = 0; i < RUN_LAYERS; i++) {
        if (!run->has_state)
            run->state[i] = run_alloc(run, 2 * RUN_MIB, run->optimizer);
        run_free(run, run_alloc(run, 1 * RUN_MIB, run->optimizer));
    }
    run->has_state = true;
}

/* A whole step as it should be. */
static inline void run_step(made_up_run *run, uint64_t layer_bytes)
{
    run_zero_grad(run);
    run_block batch = run_alloc(run, 1 * RUN_MIB, run->batch);
    run_graph graph = run_forward(run, layer_bytes, true);
    run_backward(run, &graph, false);
    run_optimizer(run);
    run_free(run, batch);
}

static inline const vw_recording *run_end(made_up_run *run)
{
    small_model_end_trace(&run->small, 0);
    run->recording.model = small_model_finish(&run->small);
    return &run->recording;
}

static inline vw_diagnosis *run_diagnose(made_up_run *run)
{
    vw_diagnosis *diagnosis = NULL;
    assert_int_equal(vw_doctor_recording(run_end(run), NULL, &diagnosis), VW_OK);
    return diagnosis;
}

static inline void run_dispose(made_up_run *run, vw_diagnosis *diagnosis)
{
    vw_diagnosis_free(diagnosis);
    vw__model_destroy(run->recording.model);
}

/* The first finding of that kind, or NULL. */
static inline const vw_finding *finding_of(const vw_diagnosis *diagnosis, const char *kind)
{
    for (size_t i = 0; i < diagnosis->finding_count; i++)
        if (strcmp(diagnosis->findings[i].kind, kind) == 0)
            return &diagnosis->findings[i];
    return NULL;
}

#endif /* VW_TESTS_MADE_UP_RUN_H */
