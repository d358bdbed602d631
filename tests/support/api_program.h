/* api_program.h - bytes as a program of calls of vramwise.h, and an oracle that knows what must
 * come of them.
 *
 * The first bytes choose the engine, the device and how it ends; the others are steps: requests,
 * frees, streams, private pools, trims, limits, and failures of device calls and of host memory
 * that are to come. Any bytes are a program. The oracle: no block overlaps another, what is written
 * to a block is read from it again (on the host device), counters agree with what is live, the
 * engine's own check finds nothing after any step, every status is one that the call may return,
 * and at the end every byte is given back that the device took back. */
#ifndef VW_TESTS_API_PROGRAM_H
#define VW_TESTS_API_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VW_TEST_FAULT_BYTES = 400 };

typedef struct vw_test_outcome {
    char fault[VW_TEST_FAULT_BYTES]; /* "": none */
    uint64_t step_count;
    uint64_t refusal_count; /* device calls that failed */
    uint64_t failure_count; /* steps that said so */
    bool has_given_up;      /* the pool failed for good, and said so */
} vw_test_outcome;

void vw_test_api_program_run(const uint8_t *bytes, size_t size_bytes, vw_test_outcome *outcome);

/* The same bytes on a host device of a few granules, with an engine that shares pages or has live
 * memory leave. */
void vw_test_api_program_run_tight(const uint8_t *bytes, size_t size_bytes,
                                   vw_test_outcome *outcome);

/* A program of random bytes. */
void vw_test_api_program_make(uint64_t seed, uint8_t *bytes, size_t size_bytes);

#endif /* VW_TESTS_API_PROGRAM_H */
