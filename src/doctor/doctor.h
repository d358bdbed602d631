/* doctor.h - what the files of this folder share.
 *
 * doctor.c looks at what it was given (a running job has a door of its own, watch/job_doctor.c) and
 * calls one of three: text.c (an error in a text),
 * step_log.c (a log of steps), recording.c. The last collects what every cause needs in one *case*,
 * asks the causes one after the other (failure, kept_graph, leak, stranded, fragmentation, held,
 * peak: a file each), of which every one adds its findings to the draft and leaves in the case what
 * the verdict needs, and decides. */
#ifndef HR_DOCTOR_DOCTOR_H
#define HR_DOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/doctor.h"
#include "analysis/attribution.h"
#include "doctor/diagnosis.h"
#include "analysis/layout.h"
#include "analysis/recording.h"
#include "analysis/roles.h"
#include "analysis/steps.h"
#include "analysis/timeline.h"
#include "format/error_text.h"
#include "format/step_log.h"

/* What every door of the doctor's does first, NULL being the defaults, and last: finish the draft,
 * or throw it away where `status` is a failure. */
HR_MUST_CHECK hr_status hr__doctor_check_options(const hr_doctor_options **options);
HR_MUST_CHECK hr_status hr__doctor_settle(hr_status status, hr__diagnosis_draft *draft,
                                          hr_diagnosis **out);

/* ---- texts ----------------------------------------------------------------------------------- */

/* `card_bytes` of the options takes the place of the card in the text, and drops its limit. */
HR_MUST_CHECK hr_status hr__doctor_text(const hr__error_summary *summary,
                                        const hr_doctor_options *options,
                                        hr__diagnosis_draft *draft);

/* What a log of steps came to, for who has more to say about it. */
typedef struct hr__growth {
    bool is_leak;
    bool is_host;         /* it is the machine's memory that grows */
    uint64_t grown_bytes; /* HR_UNKNOWN: the log has percentages */
    const char *clause;   /* "A leak: memory grows by ... from ... to ...", without its end */
} hr__growth;

/* `growth` may be NULL. */
HR_MUST_CHECK hr_status hr__doctor_steps(const hr__step_log *log, const hr_doctor_options *options,
                                         hr__diagnosis_draft *draft, hr__growth *growth);

/* Is much of what is reserved idle? A quarter of it against a peak of what was allocated, which
 * proves it; half of it between steps, which may be what the steps need. HR_UNKNOWN is a no. */
bool hr__doctor_is_much_idle(uint64_t reserved_bytes, uint64_t allocated_bytes, bool is_peak);

/* Would the request have been served without `held_bytes` that should not be there, `idle_bytes` of
 * the allocator's helping, and are they no trifle beside what is live? HR_UNKNOWN is no objection.
 * One rule, for texts and for recordings. */
bool hr__doctor_explains_failure(uint64_t held_bytes, uint64_t idle_bytes, uint64_t tried_bytes,
                                 uint64_t live_bytes);

/* Adds to the diagnosis of an error what the steps before it show: see growth.c. */
HR_MUST_CHECK hr_status hr__doctor_add_growth(const hr__step_log *log,
                                              const hr_doctor_options *options,
                                              hr__diagnosis_draft *draft);

/* A text, fed piece by piece: both scanners at once, and the judgement over what they found. */
typedef struct hr__text_scan hr__text_scan;

/* HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__text_scan_create(hr__text_scan **out);
void hr__text_scan_destroy(hr__text_scan *scan); /* NULL does nothing */

/* Pieces may end anywhere. */
HR_MUST_CHECK hr_status hr__text_scan_feed(hr__text_scan *scan, const char *bytes,
                                           size_t size_bytes);

/* What the scanners found; `steps` are the scan's. */
typedef struct hr__text_facts {
    hr__error_summary errors;
    hr__step_log steps;
} hr__text_facts;

/* After the last piece. HR_ERR_CORRUPT_FILE: most of its bytes occur in no text. */
HR_MUST_CHECK hr_status hr__text_scan_diagnose(hr__text_scan *scan,
                                               const hr_doctor_options *options,
                                               hr__text_facts *facts, hr_diagnosis **out);

/* By its first bytes: is it a recording? HR_ERR_CORRUPT_FILE, with words for what it is, where it
 * is a form that no reader takes apart (an archive, an image). */
HR_MUST_CHECK hr_status hr__doctor_look(const uint8_t *bytes, size_t size_bytes,
                                        bool *is_recording);
#define HR__DOCTOR_LOOK_BYTES ((size_t)64 << 10) /* that it wants to see */

/* ---- recordings ------------------------------------------------------------------------------ */

/* The request that failed: of the recording, or of its replay on the card of the options. */
typedef struct hr__failure {
    bool has_happened;
    bool is_replayed; /* on options->card_bytes; not in the recording */
    uint32_t event;   /* of the trace */
    uint32_t instant; /* at which the memory is looked at: just before that event is answered */
    hr_memory_numbers numbers;
    uint64_t failure_count; /* oom events of the trace */

    /* The limit that was concluded lies between these, the most that was granted and the least that
     * was refused; numbers.allowed_bytes is half way. Both 0: none was. */
    uint64_t limit_least_bytes, limit_most_bytes;
} hr__failure;

typedef struct hr__case {
    const hr_recording *recording; /* with the trace's own end: see layout.h */
    const hr_doctor_options *options;
    hr__diagnosis_draft *draft;
    const hr__model *model;
    const hr__model_trace *trace;
    hr__timeline timeline;
    hr__attribution attribution;
    hr__steps steps;
    hr__roles roles;

    hr__failure failure;
    uint32_t peak_instant;    /* of live bytes; not after the failure */
    uint64_t peak_bytes;      /* live there */
    uint32_t horizon_instant; /* what is judged ends here: the failure, or the end of the work,
                                 before everything is given back */

    bool *is_kept_graph; /* owned; by lifetime: found by the search for kept graphs, which leaves
                            them out of the search for leaks */

    /* What the causes found, for the verdict; 0 = nothing. */
    uint64_t leaked_bytes;     /* at the horizon */
    uint64_t kept_graph_bytes; /* at its own worst instant */
    uint64_t stranded_bytes;   /* at the failure, or where most was reserved */
    bool is_stranded;          /* enough of them to be the verdict */
    bool is_explained; /* a kept graph or a leak is the verdict: what else would have helped this
                          once only puts the end off */
} hr__case;

/* Is it worth replaying again and again? Not with thousands of streams or failures, which no
 * program has and a file may claim. */
bool hr__doctor_can_replay(const hr__case *given);

/* Each adds its findings, or none. */
HR_MUST_CHECK hr_status hr__doctor_fragmentation(hr__case *given); /* with the replayed settings */
HR_MUST_CHECK hr_status hr__doctor_stranded(hr__case *given);
HR_MUST_CHECK hr_status hr__doctor_leak(hr__case *given);
HR_MUST_CHECK hr_status hr__doctor_kept_graph(hr__case *given);
HR_MUST_CHECK hr_status hr__doctor_held(hr__case *given); /* gradients held, and held over */
HR_MUST_CHECK hr_status hr__doctor_peak(hr__case *given);

/* What to do about a limit, a request too large, a refusal: the finding of that verdict. */
void hr__doctor_refusal(hr__case *given, hr_verdict verdict);

/* Fills `failure`: from the oom event, or, with a card in the options, by replay. */
HR_MUST_CHECK hr_status hr__doctor_find_failure(hr__case *given);

HR_MUST_CHECK hr_status hr__doctor_recording(const hr_recording *recording,
                                             const hr_doctor_options *options,
                                             hr__diagnosis_draft *draft);

/* ---- places ---------------------------------------------------------------------------------- */

/* "train.py:152 main" of a stack: its innermost frame outside torch; "" where there is none. The
 * text is the diagnosis'. */
const char *hr__doctor_place(hr__case *given, uint32_t context);

/* A request of the backward pass that has one of the user's lines in its stack: loss.backward().
 * Most have none, since autograd works on threads of its own. HR__NO_CONTEXT where there is none.
 */
uint32_t hr__doctor_backward_context(const hr__case *given);

/* Stacks that have something in common, and how much each weighs. */
typedef struct hr__weighed_stack {
    uint32_t stack; /* model->stacks */
    uint64_t bytes;
} hr__weighed_stack;

/* Adds the places of many stacks to a finding: first the innermost frame outside torch that nearly
 * all of them went through (the call), then their own innermost frames, heaviest first. Sorts
 * `stacks`. */
void hr__doctor_places(hr__case *given, hr__weighed_stack *stacks, size_t count,
                       hr__finding_draft *finding);

/* The same for forward passes: first the line that called the model, of the heaviest
 * stack. */
void hr__doctor_calls(hr__case *given, hr__weighed_stack *stacks, size_t count,
                      hr__finding_draft *finding);

/* The same without the common frame, for stacks that have nothing in common but the program. */
void hr__doctor_lines(hr__case *given, hr__weighed_stack *stacks, size_t count,
                      hr__finding_draft *finding);

#endif /* HR_DOCTOR_DOCTOR_H */
