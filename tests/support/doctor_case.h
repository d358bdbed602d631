/* doctor_case.h - a case of the doctor's, made of a recording as doctor/recording.c makes one, for
 * tests that ask one cause at a time. Roles are left out: not every cause looks at them. */
#ifndef VW_TESTS_DOCTOR_CASE_H
#define VW_TESTS_DOCTOR_CASE_H

#include <string.h>

#include "doctor/doctor.h"

#include "support/cmocka_here.h"

typedef struct doctor_case {
    vw__doctor_input input;
    vw__doctor_facts facts;
    vw__doctor_result result;
    vw__diagnosis_draft draft;
    vw_doctor_options options;
} doctor_case;

/* false without host memory. Does not look for the failure yet. `card_bytes` 0: as recorded. */
static inline bool doctor_case_try_open(doctor_case *made, const vw_recording *recording,
                                        uint64_t card_bytes)
{
    vw__doctor_facts *facts = &made->facts;
    memset(made, 0, sizeof *made);
    made->options =
        (vw_doctor_options){.struct_size = sizeof made->options, .card_bytes = card_bytes};
    vw__diagnosis_init(&made->draft, VW_SOURCE_RECORDING);
    made->input = (vw__doctor_input){recording, &made->options};
    made->result.draft = &made->draft;
    facts->model = recording->model;
    if (vw__recording_trace(facts->model, VW_BUSIEST_DEVICE, &facts->trace) != VW_OK ||
        vw__timeline_make(facts->model, facts->trace, &facts->timeline) != VW_OK ||
        vw__attribution_init(&facts->attribution, facts->model) != VW_OK ||
        vw__steps_find_in(&facts->timeline, &facts->attribution, &facts->steps) != VW_OK)
        return false;
    facts->peak_instant = facts->timeline.peak_instant;
    facts->peak_bytes = facts->timeline.peak_live_bytes;
    return true;
}

static inline void doctor_case_close(doctor_case *made)
{
    vw__doctor_close_trials(&made->facts);
    vw__steps_deinit(&made->facts.steps);
    vw__attribution_deinit(&made->facts.attribution);
    vw__timeline_deinit(&made->facts.timeline);
    vw__diagnosis_deinit(&made->draft);
}

/* With the failure found. */
static inline void doctor_case_open(doctor_case *made, const vw_recording *recording,
                                    uint64_t card_bytes)
{
    if (!doctor_case_try_open(made, recording, card_bytes) ||
        vw__doctor_find_failure(&made->input, &made->facts, &made->result) != VW_OK)
        fail_msg("%s", vw_last_error());
}

static inline bool has_words(const char *text, const char *words)
{
    return text != NULL && strstr(text, words) != NULL;
}

static inline bool has_reason(const vw__diagnosis_draft *draft, const char *words)
{
    for (size_t i = 0; i < draft->reason_count; i++)
        if (has_words(draft->reasons[i], words))
            return true;
    return false;
}

/* The remedy whose action has those words, or NULL. */
static inline const vw_remedy *find_remedy(const vw__diagnosis_finding *finding, const char *words)
{
    for (size_t i = 0; i < finding->remedy_count; i++)
        if (has_words(finding->remedies[i].action, words))
            return &finding->remedies[i];
    return NULL;
}

#endif /* VW_TESTS_DOCTOR_CASE_H */
