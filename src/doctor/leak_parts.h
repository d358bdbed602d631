/* leak_parts.h - what the files of the leak share.
 *
 * leak.c finds the groups of blocks that leak, leak_report.c puts those together that are one leak,
 * and writes the findings. */
#ifndef VW_DOCTOR_LEAK_PARTS_H
#define VW_DOCTOR_LEAK_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doctor/doctor.h"

enum {
    VW__LEAK_MOST_BUCKETS = 48, /* of time; more steps share one */
    VW__LEAK_SLICES = 24        /* where no steps are known */
};

/* What happened to one group in one bucket of time. */
typedef struct vw__leak_flow {
    uint64_t born_bytes, died_bytes;
    uint64_t asked_bytes; /* of forward passes, whatever becomes of it */
    int64_t
        between_bytes; /* live at the end of the bucket, whatever its age: first as differences */
} vw__leak_flow;

typedef struct vw__leak_group {
    size_t key;          /* a stack, or, above those, a class of sizes */
    uint64_t left_bytes; /* long-lived, alive at the horizon */
    uint64_t left_count;
    uint64_t alive_count; /* at the horizon, of any age */
    uint64_t passes;      /* a bit for each pass that it comes from, modulo 64 */
    uint32_t context;     /* one of them */
    bool is_leak;
    bool is_growing; /* one block that becomes longer */
} vw__leak_group;

typedef struct vw__leak_search {
    const vw__doctor_input *input;
    const vw__doctor_facts *facts;
    vw__doctor_result *result;
    uint32_t horizon; /* what is judged ends here: the case's horizon, or its peak */
    uint32_t *ends;   /* owned; instants at which steps (or slices) end, the horizon last */
    size_t end_count;
    bool has_steps;
    size_t bucket_count;
    size_t usable_count;    /* buckets whose births had the time to become long-lived */
    size_t first_bucket;    /* after the warm-up */
    uint32_t *group_of;     /* owned; by key: UINT32_MAX for those not followed */
    vw__leak_group *groups; /* owned */
    size_t group_count;
    vw__leak_flow *flows;                        /* owned; group_count x bucket_count */
    uint64_t freed_bytes[VW__LEAK_MOST_BUCKETS]; /* by anyone */
    uint64_t asked_bytes[VW__LEAK_MOST_BUCKETS]; /* by forward passes, of all groups: the load */
    uint64_t leaked_bytes;
    bool is_graph; /* what leaks of forward passes is their graphs */
} vw__leak_search;

/* Adds findings for the groups that leak, the heaviest first, and unmarks the groups it used.
 * VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__leak_tell(vw__leak_search *search);

#endif /* VW_DOCTOR_LEAK_PARTS_H */
