/* doctor.h - what the files of this folder share.
 *
 * doctor.c detects what it was given and calls one of three: text.c (an error in a text),
 * step_log.c (a log of steps), recording.c. Running jobs come in through running_job.h.
 *
 * recording.c measures what every cause needs (the *facts*), then asks the causes one after the
 * other: kept_graph, leak, stranded, fragmentation, held, peak; a file each. Every cause reads the
 * facts and adds its findings to the *result*; the verdict follows from that. */
#ifndef VW_DOCTOR_DOCTOR_H
#define VW_DOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/doctor.h"
#include "analysis/attribution.h"
#include "doctor/diagnosis.h"
#include "analysis/layout.h"
#include "analysis/recording.h"
#include "analysis/roles.h"
#include "analysis/steps.h"
#include "analysis/timeline.h"
#include "parse/error_text.h"
#include "parse/step_log.h"

/* What every door of the doctor's does first, NULL being the defaults, and last: finish the draft,
 * or throw it away where `status` is a failure. */
VW_MUST_CHECK vw_status vw__doctor_read_options(const vw_doctor_options *given,
                                                vw_doctor_options *out);
VW_MUST_CHECK vw_status vw__doctor_settle(vw_status status, vw__diagnosis_draft *draft,
                                          vw_diagnosis **out);

/* ---- texts ----------------------------------------------------------------------------------- */

/* `card_bytes` of the options takes the place of the card in the text, and drops its limit. */
VW_MUST_CHECK vw_status vw__doctor_text(const vw__error_text_summary *summary,
                                        const vw_doctor_options *options,
                                        vw__diagnosis_draft *draft);

/* Names the line that failed in the diagnosis, by the traceback of the first report, and in the
 * finding of its verdict. To be called once the verdict is there. */
void vw__doctor_name_place(const vw__error_text_summary *summary, vw__diagnosis_draft *draft);

/* What a log of steps came to, for callers that add to it. */
typedef struct vw__doctor_growth {
    bool is_leak;
    bool is_host;         /* it is the machine's memory that grows */
    uint64_t grown_bytes; /* VW_UNKNOWN: the log has percentages */
    const char *clause;   /* "A leak: memory grows by ... from ... to ...", without its end */
} vw__doctor_growth;

/* `growth` may be NULL. */
VW_MUST_CHECK vw_status vw__doctor_steps(const vw__step_log *log, const vw_doctor_options *options,
                                         vw__diagnosis_draft *draft, vw__doctor_growth *growth);

/* Is much of what is reserved idle? A quarter of it against a peak of what was allocated, which
 * proves it; half of it between steps, which may be what the steps need. VW_UNKNOWN is a no. */
bool vw__doctor_is_much_idle(uint64_t reserved_bytes, uint64_t allocated_bytes, bool is_peak);

/* Would the request have been served without `held_bytes` that should not be there, `idle_bytes` of
 * the allocator's helping, and are they no trifle beside what is live? VW_UNKNOWN is no objection.
 * One rule, for texts and for recordings. */
bool vw__doctor_explains_failure(uint64_t held_bytes, uint64_t idle_bytes, uint64_t tried_bytes,
                                 uint64_t live_bytes);

/* Adds to the diagnosis of an error what the steps before it show: see growth.c. */
VW_MUST_CHECK vw_status vw__doctor_add_growth(const vw__step_log *log,
                                              const vw_doctor_options *options,
                                              vw__diagnosis_draft *draft);

/* A text, fed piece by piece: both scanners at once, and the judgement over what they found. */
typedef struct vw__doctor_text_scan vw__doctor_text_scan;

/* VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__doctor_text_scan_create(vw__doctor_text_scan **out);
void vw__doctor_text_scan_destroy(vw__doctor_text_scan *scan); /* NULL does nothing */

/* Host memory that it holds now: more than half a megabyte, and more with the steps. */
size_t vw__doctor_text_scan_held_bytes(const vw__doctor_text_scan *scan);

/* Pieces may end anywhere. */
VW_MUST_CHECK vw_status vw__doctor_text_scan_feed(vw__doctor_text_scan *scan, const char *bytes,
                                                  size_t size_bytes);

/* What the scanners found; `steps` are the scan's. */
typedef struct vw__doctor_text_facts {
    vw__error_text_summary errors;
    vw__step_log steps;
} vw__doctor_text_facts;

/* After the last piece. VW_ERR_CORRUPT_FILE: most of its bytes occur in no text. */
VW_MUST_CHECK vw_status vw__doctor_text_scan_diagnose(vw__doctor_text_scan *scan,
                                                      const vw_doctor_options *options,
                                                      vw__doctor_text_facts *facts,
                                                      vw_diagnosis **out);

/* ---- recordings ------------------------------------------------------------------------------ */

/* The request that failed: of the recording, or of its replay on the card of the options. */
typedef struct vw__doctor_failure {
    bool has_happened;
    bool is_replayed; /* on options->card_bytes; not in the recording */
    uint32_t event;   /* of the trace */
    uint32_t instant; /* at which the memory is looked at: just before that event is answered */
    vw_memory_numbers numbers;
    uint64_t failure_count; /* oom events of the trace */

    /* The limit that was concluded lies between these, the most that was granted and the least that
     * was refused; numbers.allowed_bytes is half way. Both 0: none was. */
    uint64_t limit_least_bytes, limit_most_bytes;
} vw__doctor_failure;

/* What was given. */
typedef struct vw__doctor_input {
    const vw_recording *recording; /* with the trace's own end: see layout.h */
    const vw_doctor_options *options;
} vw__doctor_input;

/* What was measured: the same for every cause, and read-only once the failure has been found. */
typedef struct vw__doctor_facts {
    const vw__model *model; /* of the input, or a view of it */
    const vw__model_trace *trace;
    vw__timeline timeline;
    vw__attribution attribution;
    vw__steps steps;
    vw__roles roles;
    vw__doctor_failure failure;
    uint32_t peak_instant;     /* of live bytes; not after the failure */
    uint64_t peak_bytes;       /* live there */
    uint32_t horizon_instant;  /* what is judged ends here: the failure, or the end of the work,
                                  before everything is given back */
    struct vw__trials *trials; /* owned; NULL until the first replay: vw__doctor_open_trials() */
} vw__doctor_facts;

/* What was concluded. A cause writes its own fields, and reads those of the causes before it. */
typedef struct vw__doctor_result {
    vw__diagnosis_draft *draft; /* findings, reasons, the verdict */
    bool *is_kept_graph;        /* owned; by lifetime: the search for kept graphs marks blocks that
                                   the search for leaks leaves out */
    uint64_t leaked_bytes;      /* at the horizon; 0: none */
    uint64_t kept_graph_bytes;  /* at its own worst instant; 0: none */
    uint64_t stranded_bytes;    /* at the failure, or where most was reserved */
    bool is_stranded;           /* enough of them to be the verdict */
    bool is_explained;          /* a kept graph or a leak is the verdict: other remedies would only
                                   delay the failure */
} vw__doctor_result;

/* False for recordings that claim thousands of streams or failures: no program has them, and each
 * replay would take too long. */
bool vw__doctor_can_replay(const vw__doctor_facts *facts);

/* Prepares replays, the first time that it is called, on the card that the run failed
 * on or, if it did not, was limited to; else with no memory limit. `trials` stays NULL where the
 * recording cannot be replayed. The failure must have been looked for. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__doctor_open_trials(const vw__doctor_input *input,
                                               vw__doctor_facts *facts);
void vw__doctor_close_trials(vw__doctor_facts *facts);

/* Each adds its findings, or none. */
VW_MUST_CHECK vw_status
vw__doctor_fragmentation(const vw__doctor_input *input, vw__doctor_facts *facts,
                         vw__doctor_result *result); /* with the replayed settings */
VW_MUST_CHECK vw_status vw__doctor_stranded(const vw__doctor_input *input, vw__doctor_facts *facts,
                                            vw__doctor_result *result);
VW_MUST_CHECK vw_status vw__doctor_leak(const vw__doctor_input *input,
                                        const vw__doctor_facts *facts, vw__doctor_result *result);
VW_MUST_CHECK vw_status vw__doctor_kept_graph(const vw__doctor_facts *facts,
                                              vw__doctor_result *result);
VW_MUST_CHECK vw_status vw__doctor_held(
    const vw__doctor_facts *facts, vw__doctor_result *result); /* gradients held, and held over */
VW_MUST_CHECK vw_status vw__doctor_peak(const vw__doctor_input *input, vw__doctor_facts *facts,
                                        vw__doctor_result *result);

/* What to do about a limit, whatever the verdict; a request too large; a refusal.
 * VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__doctor_refusal(const vw__doctor_input *input, vw__doctor_facts *facts,
                                           vw__doctor_result *result, vw_verdict verdict);

/* Fills `failure`: from the oom event, or, with a card in the options, by replay. */
VW_MUST_CHECK vw_status vw__doctor_find_failure(const vw__doctor_input *input,
                                                vw__doctor_facts *facts, vw__doctor_result *result);

VW_MUST_CHECK vw_status vw__doctor_recording(const vw_recording *recording,
                                             const vw_doctor_options *options,
                                             vw__diagnosis_draft *draft);

/* The diagnosis of one device, whichever device that of the recording is about. `options` is whole.
 * VW_ERR_CORRUPT_FILE: there are no events of that device. */
VW_MUST_CHECK vw_status vw__doctor_device(const vw_recording *recording, int device,
                                          const vw_doctor_options *options, vw_diagnosis **out);

/* ---- places ---------------------------------------------------------------------------------- */

/* "train.py:152 main" of a stack: its innermost frame outside torch; "" where there is none. The
 * text is the diagnosis'. */
const char *vw__doctor_place(const vw__doctor_facts *facts, vw__diagnosis_draft *draft,
                             uint32_t context);

/* A request of the backward pass that has one of the user's lines in its stack: loss.backward().
 * Most have none, since autograd works on threads of its own. VW__MODEL_NO_CONTEXT if there is no
 * such request. */
uint32_t vw__doctor_backward_context(const vw__doctor_facts *facts);

/* Which lines come before the blocks' own. */
typedef enum vw__doctor_place_kind {
    VW__DOCTOR_PLACES_APART,    /* none: the stacks have nothing in common but the program */
    VW__DOCTOR_PLACES_TOGETHER, /* the innermost line that nearly all stacks went through */
    VW__DOCTOR_PLACES_OF_CALLS, /* of forward passes: the line that called the model, then that */
} vw__doctor_place_kind;

/* Adds the lines of many stacks to a finding, the heaviest first. `bytes_by_stack` has an element
 * for each of model->stacks. */
void vw__doctor_add_places(const vw__doctor_facts *facts, const uint64_t *bytes_by_stack,
                           vw__doctor_place_kind kind, vw__diagnosis_finding *finding);

#endif /* VW_DOCTOR_DOCTOR_H */
