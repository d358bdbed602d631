/* settings.h - what each setting of the allocator, and our own in its place, would have reserved:
 * replayed.
 *
 * For fragmentation.c and stranded.c. Every candidate is the whole program run again:
 * once without a limit, which says how much it would reserve; and, where it failed, once on the
 * card or under the limit that it failed on, which says whether the request would be served. */
#ifndef VW_DOCTOR_SETTINGS_H
#define VW_DOCTOR_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "analysis/replay.h"
#include "doctor/diagnosis.h"
#include "doctor/doctor.h"

typedef enum vw__setting_kind {
    VW__SETTING_RECORDED,
    VW__SETTING_DEFAULTS,
    VW__SETTING_EXPANDABLE,
    VW__SETTING_ROUNDUP,
    VW__SETTING_MAX_SPLIT,
    VW__SETTING_COLLECTION,
    VW__SETTING_TRIM_STEPS,  /* empty_cache() after every step */
    VW__SETTING_TRIM_PHASES, /* and where training turns to evaluation, or back */
    VW__SETTING_VRAMWISE,    /* engine "vramwise" in place of PyTorch's allocator */
    VW__SETTING_KINDS
} vw__setting_kind;

typedef struct vw__tried_setting {
    const char *conf;             /* static; of RECORDED and the TRIMs the recorded one, borrowed;
                                     of VRAMWISE "" */
    uint64_t peak_reserved_bytes; /* without a limit */
    uint64_t device_ns;           /* spent in the driver, all together, without a limit */
    uint64_t trims;               /* calls of empty_cache() that were put in */
    uint8_t kind;                 /* vw__setting_kind */
    bool is_served;               /* on the card it failed on: the request that failed */
} vw__tried_setting;

#define VW__MOST_TRIED 16

/* The words of a remedy: our own engine. */
#define VW__VRAMWISE_ACTION "run it with vramwise's allocator in place of PyTorch's"
#define VW__VRAMWISE_COST "a restart; needs " VW__REMEDY_ALLOCATOR_NEEDS
#define VW__VRAMWISE_HOW "vramwise run --allocator vramwise -- python train.py"

typedef struct vw__tried_settings {
    vw__tried_setting tried[VW__MOST_TRIED]; /* the recorded one first */
    size_t count;                            /* 0: it cannot be replayed */
    char *recorded_conf;                     /* owned */
    uint64_t short_bytes; /* by which the request that failed did not fit; 0: not known */
} vw__tried_settings;

/* On what it failed: the card of the options, or what the recording shows. */
typedef struct vw__failed_card {
    vw__card card;
    bool is_known;  /* it failed, and on this one */
    bool has_limit; /* the card is one of a limit, or can be given one */
} vw__failed_card;

VW_MUST_CHECK vw_status vw__doctor_find_card(const vw__case *given, const vw__replay_work *work,
                                             vw__failed_card *out);

/* Nobody's mistake: the recording cannot be played, or not so. */
bool vw__doctor_is_impossible(vw_status status);

/* VW_ERR_HOST_MEMORY; what cannot be replayed is no failure. */
VW_MUST_CHECK vw_status vw__doctor_try_settings(const vw__case *given, vw__tried_settings *out);
void vw__tried_settings_deinit(vw__tried_settings *tried);

/* The best of each kind that gives bytes back, or serves the request that failed: those first, then
 * by bytes; behind them our own engine, if it does clearly better than the first of them. Says in
 * the evidence what the best of each kind came to. */
void vw__doctor_add_setting_remedies(vw__case *given, const vw__tried_settings *tried,
                                     vw__finding_draft *finding);

/* What the first of those remedies gives back, our own engine left out: 0 where there is none,
 * UINT64_MAX where it serves the request that failed. */
uint64_t vw__doctor_best_saving(const vw__case *given, const vw__tried_settings *tried);

/* Findings of kind "warning": recipes that many pages recommend and that hurt this run. */
void vw__doctor_add_setting_warnings(vw__case *given, const vw__tried_settings *tried);

#endif /* VW_DOCTOR_SETTINGS_H */
