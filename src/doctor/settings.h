/* settings.h - what each setting of the allocator, and our own in its place, would have reserved:
 * replayed.
 *
 * For fragmentation.c and stranded.c. Every candidate is the whole program run again:
 * once without a limit, which says how much it would reserve; and, where it failed, once on the
 * card or under the limit that it failed on, which says whether the request would be served. */
#ifndef HR_DOCTOR_SETTINGS_H
#define HR_DOCTOR_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "analysis/replay.h"
#include "doctor/diagnosis.h"
#include "doctor/doctor.h"

typedef enum hr__setting_kind {
    HR__SETTING_RECORDED,
    HR__SETTING_DEFAULTS,
    HR__SETTING_EXPANDABLE,
    HR__SETTING_ROUNDUP,
    HR__SETTING_MAX_SPLIT,
    HR__SETTING_COLLECTION,
    HR__SETTING_TRIM_STEPS,  /* empty_cache() after every step */
    HR__SETTING_TRIM_PHASES, /* and where training turns to evaluation, or back */
    HR__SETTING_HEADROOM,    /* engine "headroom" in place of PyTorch's allocator */
    HR__SETTING_KINDS
} hr__setting_kind;

typedef struct hr__tried_setting {
    const char *conf;             /* static; of RECORDED and the TRIMs the recorded one, borrowed;
                                     of HEADROOM "" */
    uint64_t peak_reserved_bytes; /* without a limit */
    uint64_t device_ns;           /* spent in the driver, all together, without a limit */
    uint64_t trims;               /* calls of empty_cache() that were put in */
    uint8_t kind;                 /* hr__setting_kind */
    bool is_served;               /* on the card it failed on: the request that failed */
} hr__tried_setting;

#define HR__MOST_TRIED 16

/* The words of a remedy: our own engine. */
#define HR__HEADROOM_ACTION "run it with headroom's allocator in place of PyTorch's"
#define HR__HEADROOM_COST "a restart; needs PyTorch 2.11 and a C++ compiler"
#define HR__HEADROOM_HOW "headroom run --allocator headroom -- python train.py"

typedef struct hr__tried_settings {
    hr__tried_setting tried[HR__MOST_TRIED]; /* the recorded one first */
    size_t count;                            /* 0: it cannot be replayed */
    char *recorded_conf;                     /* owned */
    uint64_t short_bytes; /* by which the request that failed did not fit; 0: not known */
} hr__tried_settings;

/* On what it failed: the card of the options, or what the recording shows. */
typedef struct hr__failed_card {
    hr__card card;
    bool is_known;  /* it failed, and on this one */
    bool has_limit; /* the card is one of a limit, or can be given one */
} hr__failed_card;

HR_MUST_CHECK hr_status hr__doctor_find_card(const hr__case *given, const hr__replay_work *work,
                                             hr__failed_card *out);

/* Nobody's mistake: the recording cannot be played, or not so. */
bool hr__doctor_is_impossible(hr_status status);

/* HR_ERR_HOST_MEMORY; what cannot be replayed is no failure. */
HR_MUST_CHECK hr_status hr__doctor_try_settings(const hr__case *given, hr__tried_settings *out);
void hr__tried_settings_deinit(hr__tried_settings *tried);

/* The best of each kind that gives bytes back, or serves the request that failed: those first, then
 * by bytes; behind them our own engine, if it does clearly better than the first of them. Says in
 * the evidence what the best of each kind came to. */
void hr__doctor_add_setting_remedies(hr__case *given, const hr__tried_settings *tried,
                                     hr__finding_draft *finding);

/* What the first of those remedies gives back, our own engine left out: 0 where there is none,
 * UINT64_MAX where it serves the request that failed. */
uint64_t hr__doctor_best_saving(const hr__case *given, const hr__tried_settings *tried);

/* Findings of kind "warning": recipes that many pages recommend and that hurt this run. */
void hr__doctor_add_setting_warnings(hr__case *given, const hr__tried_settings *tried);

#endif /* HR_DOCTOR_SETTINGS_H */
