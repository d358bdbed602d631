/* doctor_case.h - a case of the doctor's, made of a recording as doctor/recording.c makes one, for
 * tests that ask one cause at a time. Roles are left out: not every cause looks at them. */
#ifndef HR_TESTS_DOCTOR_CASE_H
#define HR_TESTS_DOCTOR_CASE_H

#include <string.h>

#include "doctor/doctor.h"

#include "support/cmocka_here.h"

typedef struct doctor_case {
    hr__case given;
    hr__diagnosis_draft draft;
    hr_doctor_options options;
} doctor_case;

/* False without host memory. The failure is not looked for yet. `card_bytes` 0: as it is. */
static inline bool doctor_case_try_open(doctor_case *made, const hr_recording *recording,
                                        uint64_t card_bytes)
{
    hr__case *given = &made->given;
    memset(made, 0, sizeof *made);
    made->options =
        (hr_doctor_options){.struct_size = sizeof made->options, .card_bytes = card_bytes};
    hr__diagnosis_init(&made->draft, HR_SOURCE_RECORDING);
    given->recording = recording;
    given->options = &made->options;
    given->draft = &made->draft;
    given->model = recording->model;
    if (hr__recording_trace(given->model, HR_BUSIEST_DEVICE, &given->trace) != HR_OK ||
        hr__timeline_make(given->model, given->trace, &given->timeline) != HR_OK ||
        hr__attribution_init(&given->attribution, given->model) != HR_OK ||
        hr__steps_find_in(&given->timeline, &given->attribution, &given->steps) != HR_OK)
        return false;
    given->peak_instant = given->timeline.peak_instant;
    given->peak_bytes = given->timeline.peak_live_bytes;
    return true;
}

static inline void doctor_case_close(doctor_case *made)
{
    hr__steps_deinit(&made->given.steps);
    hr__attribution_deinit(&made->given.attribution);
    hr__timeline_deinit(&made->given.timeline);
    hr__diagnosis_deinit(&made->draft);
}

/* With the failure found. */
static inline void doctor_case_open(doctor_case *made, const hr_recording *recording,
                                    uint64_t card_bytes)
{
    if (!doctor_case_try_open(made, recording, card_bytes) ||
        hr__doctor_find_failure(&made->given) != HR_OK)
        fail_msg("%s", hr_last_error());
}

static inline bool has_words(const char *text, const char *words)
{
    return text != NULL && strstr(text, words) != NULL;
}

static inline bool has_reason(const hr__diagnosis_draft *draft, const char *words)
{
    for (size_t i = 0; i < draft->reason_count; i++)
        if (has_words(draft->reasons[i], words))
            return true;
    return false;
}

/* The remedy whose action has those words, or NULL. */
static inline const hr_remedy *find_remedy(const hr__finding_draft *finding, const char *words)
{
    for (size_t i = 0; i < finding->remedy_count; i++)
        if (has_words(finding->remedies[i].action, words))
            return &finding->remedies[i];
    return NULL;
}

#endif /* HR_TESTS_DOCTOR_CASE_H */
