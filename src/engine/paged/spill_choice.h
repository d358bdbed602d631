/* spill_choice.h - which memory leaves the device first, when some has to. See spill_choice.c. */
#ifndef VW_ENGINE_PAGED_SPILL_CHOICE_H
#define VW_ENGINE_PAGED_SPILL_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/vramwise.h" /* vw_advice */

enum { VW__PAGED_SPILL_MARKS = 4 }; /* ends of steps that are remembered */

/* When it is: requests so far, and how many there had been at the end of the latest steps. */
typedef struct vw__paged_spill_clock {
    int64_t now;
    int64_t marks[VW__PAGED_SPILL_MARKS]; /* newest first */
    unsigned mark_count;
    bool is_advised; /* the program says of some blocks what they are */
} vw__paged_spill_clock;

/* Classes of blocks; the lower number leaves first. */
typedef enum vw__paged_spill_class {
    VW__PAGED_SPILL_COLD,
    VW__PAGED_SPILL_SETTLED,
    VW__PAGED_SPILL_PASSING,
    VW__PAGED_SPILL_KEPT,
    VW__PAGED_SPILL_HOT,
} vw__paged_spill_class;

/* Memory that can only leave as a whole, and what is in it. */
typedef struct vw__paged_spill_candidate {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t used_bytes;         /* of blocks in use */
    vw__paged_spill_class worst; /* of their classes: the last to leave decides */
    bool is_small;               /* of small blocks, which there are many of */
    int64_t born;                /* the request that made the largest of them */
    uint64_t largest_bytes;      /* of its part */
    void *what;                  /* the caller's own */
} vw__paged_spill_candidate;

/* A step has ended. */
void vw__paged_spill_mark(vw__paged_spill_clock *clock);

vw__paged_spill_class vw__paged_spill_classify(const vw__paged_spill_clock *clock, vw_advice advice,
                                               int64_t born);

/* `bytes` of the candidate are those of a block. */
void vw__paged_spill_add(vw__paged_spill_candidate *candidate, const vw__paged_spill_clock *clock,
                         vw_advice advice, int64_t born, uint64_t bytes);

/* For qsort(): who leaves first is less. Coming back goes the other way. */
int vw__paged_spill_compare(const void *left, const void *right);

#endif /* VW_ENGINE_PAGED_SPILL_CHOICE_H */
