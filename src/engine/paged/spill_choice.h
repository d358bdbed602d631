/* spill_choice.h - which memory leaves the device first, when some has to. See spill_choice.c. */
#ifndef VW_ENGINE_PAGED_SPILL_CHOICE_H
#define VW_ENGINE_PAGED_SPILL_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/vramwise.h" /* vw_advice */

enum { VW__SPILL_MARKS = 4 }; /* ends of steps that are remembered */

/* When it is: requests so far, and how many there had been at the end of the latest steps. */
typedef struct vw__spill_clock {
    int64_t now;
    int64_t marks[VW__SPILL_MARKS]; /* newest first */
    unsigned mark_count;
    bool is_advised; /* the program says of some blocks what they are */
} vw__spill_clock;

/* What a block is taken for; those with the lower number leave first. */
typedef enum vw__spill_class {
    VW__SPILL_COLD,
    VW__SPILL_SETTLED,
    VW__SPILL_PASSING,
    VW__SPILL_KEPT,
    VW__SPILL_HOT,
} vw__spill_class;

/* Memory that can only leave as a whole, and what is in it. */
typedef struct vw__spill_candidate {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t used_bytes;    /* of blocks in use */
    vw__spill_class worst;  /* of their classes: the last to leave decides */
    bool is_small;          /* of small blocks, which there are many of */
    int64_t born;           /* the request that made the largest of them */
    uint64_t largest_bytes; /* of its part */
    void *what;             /* the caller's own */
} vw__spill_candidate;

/* A step has ended. */
void vw__spill_mark(vw__spill_clock *clock);

vw__spill_class vw__spill_classify(const vw__spill_clock *clock, vw_advice advice, int64_t born);

/* `bytes` of the candidate are those of a block. */
void vw__spill_add(vw__spill_candidate *candidate, const vw__spill_clock *clock, vw_advice advice,
                   int64_t born, uint64_t bytes);

/* For qsort(): who leaves first is less. Coming back goes the other way. */
int vw__spill_compare(const void *left, const void *right);

#endif /* VW_ENGINE_PAGED_SPILL_CHOICE_H */
