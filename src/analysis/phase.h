/* phase.h - what a program was doing, by the lines that it was in.
 *
 * One set of rules serves tracebacks (parse/traceback.h), which have code, and the stacks of
 * recordings, which have none. A frame *marks* a phase by its file, its function or its code;
 * vw__phase_of() makes one phase of the marks of a stack. What a file or a function means for
 * memory is attribution.h's: the rules here are about what that does not say. */
#ifndef VW_ANALYSIS_PHASE_H
#define VW_ANALYSIS_PHASE_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/attribution.h"
#include "parse/traceback.h"

/* A name for JSON; and for sentences, "it failed in ..." ("" = there is nothing to say). */
#define VW__PHASE_LIST(X)                                                                          \
    X(OTHER, "other", "")                                                                          \
    X(FORWARD, "forward", "the forward pass")                                                      \
    X(BACKWARD, "backward", "the backward pass")                                                   \
    X(OPTIMIZER, "optimizer", "the optimizer's step")                                              \
    X(GENERATE, "generate", "inference")                                                           \
    X(DIFFUSION, "diffusion", "making an image")                                                   \
    X(EVALUATION, "evaluation", "evaluation")                                                      \
    X(LOADING, "loading", "loading weights")                                                       \
    X(DATA, "data", "moving a batch to the device")                                                \
    X(SAVING, "saving", "saving")

typedef enum vw__phase {
#define VW__PHASE_ENUM(upper, name, words) VW__PHASE_##upper,
    VW__PHASE_LIST(VW__PHASE_ENUM)
#undef VW__PHASE_ENUM
        VW__PHASE_COUNT
} vw__phase;

const char *vw__phase_name(vw__phase phase);  /* static */
const char *vw__phase_words(vw__phase phase); /* static */

/* The judge of tracebacks: marks are phases. */
vw__traceback_opinion vw__phase_judge(const vw__traceback_frame *frame);

/* The phase of a stack: `mark` of its innermost frame that has one, `marks` of all. */
vw__phase vw__phase_of(uint8_t mark, uint32_t marks);

/* The phase of a stack of a recording. `context` may be VW__MODEL_NO_CONTEXT. */
vw__phase vw__phase_of_context(const vw__attribution *attribution, uint32_t context);

/* Whether what is asked for in that phase is in proportion to the batch. */
bool vw__phase_scales_with_batch(vw__phase phase);

#endif /* VW_ANALYSIS_PHASE_H */
