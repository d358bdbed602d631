/* remedy.h - actions that give GPU memory back: the one place that knows them.
 *
 * A row of the table (remedy_table.c) says what to do, what it costs in time, what it needs, what
 * to write, and how its bytes follow from the numbers at hand. The doctor and the planner decide
 * when a remedy applies; what they then say of it comes from here, so that both say the same.
 *
 * Two kinds of numbers are at hand. For a recorded run, each portion of live memory is known
 * (analysis/what_if.h), and a row says what it takes off each. For an error message only the sum is
 * known, and a row has a rule of thumb.
 *
 * Settings of the allocator are tried by replay, and are elsewhere. The one that needs no trial is
 * here, for those who have no recording.
 *
 * No state and no locks: safe from any thread. */
#ifndef VW_REMEDY_REMEDY_H
#define VW_REMEDY_REMEDY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/doctor.h" /* vw_basis, vw_enough */
#include "analysis/phase.h"
#include "analysis/what_if.h"
#include "base/arena.h"

typedef enum vw__remedy_id {
    /* Smaller batches. */
    VW__REMEDY_SPLIT_BATCH,   /* in training: with accumulation */
    VW__REMEDY_SMALLER_BATCH, /* without training */

    /* Activations. */
    VW__REMEDY_CHECKPOINTING,
    VW__REMEDY_SELECTIVE_CHECKPOINTING,
    VW__REMEDY_CHUNKED_LOSS,
    VW__REMEDY_FUSED_ATTENTION,
    VW__REMEDY_INFERENCE_MODE,

    /* Fewer bits. */
    VW__REMEDY_AUTOCAST,           /* to bfloat16 */
    VW__REMEDY_AUTOCAST_FP16,      /* in training */
    VW__REMEDY_AUTOCAST_INFERENCE, /* to either */
    VW__REMEDY_HALF_TRAINING,
    VW__REMEDY_HALF_INFERENCE,
    VW__REMEDY_FEWER_BITS, /* 16 or 4 for the weights, without training */

    /* The optimizer. */
    VW__REMEDY_FUSED_OPTIMIZER,
    VW__REMEDY_8BIT_OPTIMIZER,
    VW__REMEDY_PAGED_8BIT_OPTIMIZER,
    VW__REMEDY_ADAFACTOR,

    /* Other GPUs, and the host. */
    VW__REMEDY_ZERO_1,
    VW__REMEDY_ZERO_2,
    VW__REMEDY_ZERO_2_ACCUMULATED,
    VW__REMEDY_ZERO_3,
    VW__REMEDY_ZERO_3_INFERENCE,
    VW__REMEDY_FSDP,
    VW__REMEDY_FSDP_INFERENCE,
    VW__REMEDY_OFFLOAD_OPTIMIZER,
    VW__REMEDY_OFFLOAD_WEIGHTS,
    VW__REMEDY_OFFLOAD_WEIGHTS_INFERENCE,
    VW__REMEDY_SPILL,

    /* Another method. */
    VW__REMEDY_LORA,
    VW__REMEDY_QLORA,

    /* What is held for nothing. */
    VW__REMEDY_ZERO_GRAD,
    VW__REMEDY_DROP_VARIABLES,
    VW__REMEDY_EMPTY_CACHE,
    VW__REMEDY_RAISE_LIMIT,
    VW__REMEDY_SHARED_GRAPH_POOL,
    VW__REMEDY_EXPANDABLE_SEGMENTS, /* where there is no recording to try settings on */
    VW__REMEDY_REPEATING_SIZES,
    VW__REMEDY_COMPUTE_IN_CHUNKS, /* one tensor that is too large */

    /* Outside of training. */
    VW__REMEDY_SHORTER_GENERATION,
    VW__REMEDY_OFFLOAD_PIPELINE,
    VW__REMEDY_TILED_DECODER,
    VW__REMEDY_SMALLER_IMAGE,
    VW__REMEDY_DETACH_OUTPUTS,
    VW__REMEDY_LOAD_ON_HOST,
    VW__REMEDY_SAVE_FROM_HOST,

    VW__REMEDY_COUNT
} vw__remedy_id;

/* Chunks of a loss and rank of adapters, where nobody asks for another number. */
enum { VW__REMEDY_LOSS_CHUNKS = 8, VW__REMEDY_LORA_RANK = 16 };

/* What vramwise's allocator needs, to take the place of PyTorch's. */
#define VW__REMEDY_ALLOCATOR_NEEDS "PyTorch 2.5 or newer"

/* Thousandths of some bytes, given back at least and at most. 0 and 0: nothing. */
typedef struct vw__remedy_share {
    uint16_t least_permille, most_permille;
} vw__remedy_share;

/* Texts are static. In `action` and `code`, a word behind "$" stands for one of vw__remedy_words.
 */
typedef struct vw__remedy {
    const char *action; /* one line */
    const char *cost;   /* one line: time first, as `slowdown` has it; what it needs last */
    const char *needs;  /* a package or a version; NULL: nothing */
    const char *code;   /* NULL: the caller writes it */
    const char *transformers_code; /* for models of transformers; NULL: as `code` */
    double slowdown;        /* time of a step, as a multiple; of batches, for each halving; 0:
                               computed from the settings, or no matter of steps */
    const char *source;     /* where the slowdown is from; NULL if it is 0 */
    unsigned worth_percent; /* of a byte that it gives back: less where it costs time or effort; 0:
                               nobody weighs it */
    bool is_last_resort;    /* other hardware, or slow */
    vw__remedy_share of_portion[VW__PORTION_COUNT]; /* of a recorded run */
    vw__remedy_share of_live;                       /* of all live bytes: a rule of thumb */
} vw__remedy;

const vw__remedy *vw__remedy_of(vw__remedy_id id);

/* The code for a model of transformers, or for any other. */
static inline const char *vw__remedy_code(const vw__remedy *remedy, bool is_of_transformers)
{
    return is_of_transformers && remedy->transformers_code != NULL ? remedy->transformers_code
                                                                   : remedy->code;
}

/* ---- remedy_phase.c -------------------------------------------------------------------------- */

/* What to try for a failure in one phase, in that order. */
typedef struct vw__remedy_list {
    const char *reason; /* a sentence: why these; NULL */
    const vw__remedy_id *ids;
    size_t count;
} vw__remedy_list;

const vw__remedy_list *vw__remedy_for_phase(vw__phase phase);

/* ---- remedy_text.c --------------------------------------------------------------------------- */

/* The reader's own words. NULL and 0: the usual ones. */
typedef struct vw__remedy_words {
    uint64_t parts;         /* $parts: of a batch or a loss, 2 */
    uint64_t rank;          /* $rank: of adapters, 16 */
    const char *module;     /* $module: of torch, "cuda" */
    const char *type;       /* $type: of torch, "bfloat16" */
    const char *sample;     /* $sample: of a loader, "batch" */
    const char *loss;       /* $loss: "loss_of(model, batch)" */
    const char *output;     /* $output: "model(inputs)" */
    const char *batch_size; /* $batch_size: "batch_size // $parts" */
    const char *rows;       /* $rows: lines that make `hidden` and `labels`, one row a token */
    const char *head;       /* $head: logits of `hidden` */
    const char *attention;  /* $attention: as transformers call it, "sdpa" */
    const char *settings;   /* $settings: the variable, "PYTORCH_CUDA_ALLOC_CONF" */
    const char *storage;    /* $storage: of 4-bit weights, "" */
    const char *fraction;   /* $fraction: of the card, "1.0" */
} vw__remedy_words;

/* A text with its words put in; the table's own where it has none, else the arena's. NULL: no host
 * memory. `words` may be NULL. */
const char *vw__remedy_text(vw__arena *arena, const char *text, const vw__remedy_words *words);

/* ---- remedy_bytes.c -------------------------------------------------------------------------- */

/* Numbers of a recorded run. */
typedef struct vw__remedy_run {
    uint64_t weight_bytes, gradient_bytes; /* the most of each, at any instant */
    uint64_t activation_bytes;             /* at the peak */
    uint64_t largest_activation_bytes;     /* one block, there */
    uint64_t largest_step_work_bytes;      /* likewise, of the optimizer's step */
    uint64_t parts;                        /* of a batch */
    bool has_step;                         /* a step was seen to its end */
} vw__remedy_run;

/* What is left of the run, at best and at worst. */
void vw__remedy_what_if(vw__remedy_id id, const vw__remedy_run *run, vw__what_if *best,
                        vw__what_if *worst);

typedef struct vw__remedy_range {
    uint64_t at_least_bytes, at_most_bytes; /* both VW_UNKNOWN: there is no rule */
} vw__remedy_range;

/* By the rule of thumb, of so many live bytes. `parts`: of a batch. */
vw__remedy_range vw__remedy_of_live(vw__remedy_id id, uint64_t live_bytes, uint64_t parts);

/* By expandable segments, of so many idle bytes: in ordinary training runs with them, what lay idle
 * at the peak was a quarter of what was live at most. */
vw__remedy_range vw__remedy_of_idle(uint64_t idle_bytes, uint64_t live_bytes);

/* Whether bytes that are given back cover what is missing. A rule of thumb leaves doubt both ways:
 * unknown. So is everything where one of the numbers is VW_UNKNOWN, or nothing is missing. */
vw_enough vw__remedy_enough(vw_basis basis, vw__remedy_range saved, uint64_t missing_bytes);

/* empty_cache() waits for the GPU and makes the next phase ask the driver again. It is advised only
 * for at least so many bytes, and such a share of what is reserved. */
#define VW__REMEDY_EMPTY_CACHE_LEAST_BYTES (UINT64_C(64) << 20)
enum { VW__REMEDY_EMPTY_CACHE_LEAST_SHARE = 20 };
bool vw__remedy_is_empty_cache_worth_it(uint64_t idle_bytes, uint64_t reserved_bytes);

#endif /* VW_REMEDY_REMEDY_H */
