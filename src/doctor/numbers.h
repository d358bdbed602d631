/* numbers.h - the verdict from the numbers of one failure.
 *
 * The rule is the same whether the numbers were read in a message, taken from a recording's
 * out-of-memory event, or come out of a replay. It is stated in docs/design/005 and nowhere else in
 * code than in numbers.c. */
#ifndef VW_DOCTOR_NUMBERS_H
#define VW_DOCTOR_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/doctor.h"
#include "doctor/diagnosis.h"

/* What the rule grants a CUDA context before memory outside PyTorch counts. */
#define VW__NUMBERS_CONTEXT_BYTES (UINT64_C(1) << 30)

typedef struct vw__numbers_verdict {
    vw_verdict verdict; /* TOO_LARGE, CAPPED, FRAGMENTATION, OUTSIDE, REFUSED, GENUINE, UNKNOWN */
    vw_confidence confidence;
    uint64_t idle_bytes;    /* reserved - allocated; VW_UNKNOWN */
    uint64_t outside_bytes; /* total - free - reserved, what a context takes included; VW_UNKNOWN */
    bool is_small_fragmentation; /* the request would have fit in the idle bytes, but they are less
                                    than a tenth of what is reserved: a finding, not the verdict */
    bool is_contradiction;       /* UNKNOWN because the numbers cannot all be true */
    bool is_oversubscribed;      /* that one: more reserved than the card has */
    uint32_t possible;           /* UNKNOWN for want of numbers: a bit (1 << verdict) for each
                                    verdict that the missing ones could make; else 0 */
} vw__numbers_verdict;

/* Decides, and adds the comparisons it made to the reasoning of `draft` (NULL: says nothing).
 * Numbers that are missing give a verdict where it is the same whatever they are, else UNKNOWN with
 * what is missing; numbers that contradict each other give UNKNOWN with the reason. */
vw__numbers_verdict vw__numbers_judge(const vw_memory_numbers *numbers, vw__diagnosis_draft *draft);

/* The same for numbers that were read in a text, where each is known to two decimals of its unit:
 * a comparison that the rounding could turn is trusted less. */
vw__numbers_verdict vw__numbers_judge_printed(const vw_memory_numbers *numbers,
                                              vw__diagnosis_draft *draft);

#endif /* VW_DOCTOR_NUMBERS_H */
