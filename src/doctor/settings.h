/* settings.h - what settings of the allocator, and our own in its place, would have done: replayed.
 *
 * For fragmentation.c and stranded.c. Every candidate is the whole program run again, once, on the
 * card that trials.h found. A run that failed is tried on the card or limit that it failed on: the
 * answer is whether the request would be served. Others are tried with no memory limit: the answer
 * is how much would be reserved. */
#ifndef VW_DOCTOR_SETTINGS_H
#define VW_DOCTOR_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/analysis.h"
#include "vramwise/status.h"
#include "doctor/diagnosis.h"
#include "doctor/doctor.h"
#include "settings/setting_table.h"

typedef struct vw__doctor_tried_setting {
    const char *conf; /* static; of RECORDED and the TRIMs the recorded one, borrowed; of VRAMWISE
                         "" */
    uint64_t peak_reserved_bytes;
    uint64_t device_ns; /* spent in the driver, all together */
    uint64_t trims;     /* calls of empty_cache() that were put in */
    uint64_t oom_event; /* the first request that is not served; VW_UNKNOWN: none, or one from
                           before the recording */
    uint8_t kind;       /* vw__setting_kind */
    bool is_served;     /* the request that failed */
    bool is_complete;   /* that one, and all others */
} vw__doctor_tried_setting;

#define VW__DOCTOR_MOST_TRIED 16

/* The words of a remedy: our own engine. */
#define VW__DOCTOR_ENGINE_ACTION "run it with vramwise's allocator in place of PyTorch's"
#define VW__DOCTOR_ENGINE_COST "a restart; needs " VW__REMEDY_ALLOCATOR_NEEDS
#define VW__DOCTOR_ENGINE_HOW "vramwise run --allocator vramwise -- python train.py"
#define VW__DOCTOR_ENGINE_POOL_HOW "options.engine = \"vramwise\";  /* vw_pool_options */"
#define VW__DOCTOR_ENGINE_POOL_COST "a restart" /* of a program that calls libvramwise itself */

typedef struct vw__doctor_tried_settings {
    vw__doctor_tried_setting tried[VW__DOCTOR_MOST_TRIED]; /* the recorded one first */
    size_t count;                                          /* 0: it cannot be replayed */
    const char *recorded_conf;                             /* borrowed from the case's trials */

    /* It failed, and fails so in the replay of the recorded settings: what serves the request is
     * known, and only that is offered. Else settings are compared by what they reserve. */
    bool is_as_failed;
    bool is_cut;           /* the recording does not begin at the beginning */
    bool is_limited;       /* on a limit of the process, not on a device */
    uint64_t card_bytes;   /* that it was tried on; VW_UNKNOWN: no limit */
    uint64_t wanted_bytes; /* the program wanted to hold so much when it failed; 0: not known */
} vw__doctor_tried_settings;

/* What settings are tried for. */
typedef enum vw__doctor_settings_wanted {
    VW__DOCTOR_FOR_WARNINGS, /* recipes that may hurt */
    VW__DOCTOR_FOR_REMEDIES, /* and what may help */
} vw__doctor_settings_wanted;

/* VW_ERR_HOST_MEMORY; what cannot be replayed is no failure. Nothing needs to be given back. */
VW_MUST_CHECK vw_status vw__doctor_try_settings(const vw__doctor_input *input,
                                                vw__doctor_facts *facts,
                                                vw__doctor_settings_wanted wanted,
                                                vw__doctor_tried_settings *out);

/* Did a replay get past the request that failed? */
bool vw__doctor_is_served(const vw__doctor_facts *facts, const vw_replay_result *result);

/* Is a replay on the card that it failed on, which completes or not, an answer to "enough?"? */
vw_enough vw__doctor_enough(const vw__doctor_facts *facts, bool is_complete);

/* The best of each kind that gives bytes back, or, at a failure, serves the request that failed:
 * those that complete first, then by bytes; behind them our own engine, if it does clearly better
 * than the first of them. Says in the evidence what the best of each kind came to. */
void vw__doctor_add_setting_remedies(const vw__doctor_facts *facts, vw__doctor_result *result,
                                     const vw__doctor_tried_settings *tried,
                                     vw__diagnosis_finding *finding);

/* What the first of those remedies gives back, our own engine left out: 0 without any,
 * UINT64_MAX where it serves the request that failed. */
uint64_t vw__doctor_best_saving(const vw__doctor_facts *facts,
                                const vw__doctor_tried_settings *tried);

/* Findings of kind "warning": recipes that many pages recommend and that hurt this run. */
void vw__doctor_add_setting_warnings(const vw__doctor_facts *facts, vw__doctor_result *result,
                                     const vw__doctor_tried_settings *tried);

#endif /* VW_DOCTOR_SETTINGS_H */
