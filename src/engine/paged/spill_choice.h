/* spill_choice.h - which memory leaves the device first, when some has to. See spill_choice.c. */
#ifndef HR_ENGINE_PAGED_SPILL_CHOICE_H
#define HR_ENGINE_PAGED_SPILL_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "headroom/headroom.h" /* hr_advice */

enum { HR__SPILL_MARKS = 4 }; /* ends of steps that are remembered */

/* When it is: requests so far, and how many there had been at the end of the latest steps. */
typedef struct hr__spill_clock {
    int64_t now;
    int64_t marks[HR__SPILL_MARKS]; /* newest first */
    unsigned mark_count;
    bool is_advised; /* the program says of some blocks what they are */
} hr__spill_clock;

/* What a block is taken for; those with the lower number leave first. */
typedef enum hr__spill_class {
    HR__SPILL_COLD,
    HR__SPILL_SETTLED,
    HR__SPILL_PASSING,
    HR__SPILL_KEPT,
    HR__SPILL_HOT,
} hr__spill_class;

/* Memory that can only leave as a whole, and what is in it. */
typedef struct hr__spill_candidate {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t used_bytes;    /* of blocks in use */
    hr__spill_class worst;  /* of their classes: the last to leave decides */
    bool is_small;          /* of small blocks, which there are many of */
    int64_t born;           /* the request that made the largest of them */
    uint64_t largest_bytes; /* of its part */
    void *what;             /* the caller's own */
} hr__spill_candidate;

/* A step has ended. */
void hr__spill_mark(hr__spill_clock *clock);

hr__spill_class hr__spill_classify(const hr__spill_clock *clock, hr_advice advice, int64_t born);

/* `bytes` of the candidate are those of a block. */
void hr__spill_add(hr__spill_candidate *candidate, const hr__spill_clock *clock, hr_advice advice,
                   int64_t born, uint64_t bytes);

/* For qsort(): who leaves first is less. Coming back goes the other way. */
int hr__spill_compare(const void *left, const void *right);

#endif /* HR_ENGINE_PAGED_SPILL_CHOICE_H */
