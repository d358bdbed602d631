/* small_model.h - memory models written by hand, an event a line.
 *
 * A test needs a handful of events and their stacks; the builder's calls would bury them. Every
 * function fails the test if the builder refuses. */
#ifndef VW_TESTS_SMALL_MODEL_H
#define VW_TESTS_SMALL_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "model/memory_model.h"
#include "model/model_build.h"

typedef struct small_model {
    vw__model_builder *builder;
    size_t first_event; /* of the trace that is being written */
    size_t event_count; /* of that trace */
    int64_t time_us;    /* of the next event */
    int64_t us_between; /* two events: 10 */
} small_model;

void small_model_begin(small_model *small);

/* A new capture of a stack, innermost frame first: "function file line", separated by ';'. "" is
 * the empty stack. */
uint32_t small_model_context(small_model *small, const char *stack);

/* One event, on stream 0; its index in the trace. */
size_t small_model_event(small_model *small, unsigned action, uint64_t address, uint64_t size_bytes,
                         uint32_t context);
size_t small_model_alloc(small_model *small, uint64_t address, uint64_t size_bytes,
                         uint32_t context);

/* Requested and completed: two events; the index of the second. */
size_t small_model_free(small_model *small, uint64_t address, uint64_t size_bytes,
                        uint32_t context);

/* The events since the last call, or the beginning, are the trace of `device`. */
void small_model_end_trace(small_model *small, int device);

/* A segment at the end with one live block of `live_bytes` at its beginning (0 = none), as
 * requested, and the rest free. */
void small_model_segment(small_model *small, int device, uint64_t address, uint64_t total_bytes,
                         uint64_t live_bytes, uint32_t context);

/* Spans: "ProfilerStep#3". */
void small_model_annotate(small_model *small, const char *name, int device, bool is_start,
                          int64_t time_us);

/* The annotation of engine "vramwise" for live memory that goes to host memory or comes back. */
void small_model_move(small_model *small, int device, bool is_return, vw__model_move move);

/* The features of a snapshot of 2.11, so that a test need not name them. */
void small_model_set_features(small_model *small);

/* To be destroyed with vw__model_destroy(). */
vw__model *small_model_finish(small_model *small);

#endif /* VW_TESTS_SMALL_MODEL_H */
