/* diagnosis.h - a diagnosis while it is being written.
 *
 * Every cause that the doctor looks for writes its findings into one draft; reasons, findings and
 * remedies are then each one line where they are made. Failure sticks: without host memory a call
 * does nothing, and hr__diagnosis_finish() says so, once.
 *
 * Texts are formatted into the diagnosis' arena: whatever is passed may be gone afterwards.
 *
 * Order. Findings come out as they were added, but for the one that the verdict names, which comes
 * first, and findings of kind "warning", which come last. Remedies come out as they were added. */
#ifndef HR_DOCTOR_DIAGNOSIS_H
#define HR_DOCTOR_DIAGNOSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/doctor.h"
#include "headroom/status.h"
#include "base/arena.h"

/* More are dropped. */
#define HR__MOST_REASONS 24
#define HR__MOST_FINDINGS 16
#define HR__MOST_REMEDIES 12 /* of one finding */
#define HR__MOST_WHERE 8
#define HR__MOST_EVIDENCE 8
#define HR__MOST_PARTS 16

typedef struct hr__finding_draft {
    const char *kind; /* static */
    const char *title;
    uint64_t bytes;
    const char *where[HR__MOST_WHERE];
    const char *evidence[HR__MOST_EVIDENCE];
    hr_part parts[HR__MOST_PARTS];
    hr_remedy remedies[HR__MOST_REMEDIES];
    size_t where_count, evidence_count, part_count, remedy_count;
    struct hr__diagnosis_draft *draft;
} hr__finding_draft;

typedef struct hr__diagnosis_draft {
    hr__arena arena;    /* becomes the diagnosis' */
    hr_verdict verdict; /* UNKNOWN until someone says */
    hr_confidence confidence;
    hr_doctor_source source;
    bool is_running; /* of a job that runs */
    const char *sentence;
    uint64_t error_count;
    hr_memory_numbers numbers; /* all unknown */
    const char *reasons[HR__MOST_REASONS];
    size_t reason_count;
    hr__finding_draft *findings[HR__MOST_FINDINGS]; /* in the arena */
    size_t finding_count;
    hr__finding_draft spare; /* for findings that there is no room for */
    bool has_failed;
} hr__diagnosis_draft;

/* A range, or one figure, or none. */
typedef struct hr__savings {
    uint64_t at_least_bytes, at_most_bytes;
} hr__savings;

#define HR__SAVES_UNKNOWN ((hr__savings){HR_UNKNOWN, HR_UNKNOWN})

static inline hr__savings hr__saves(uint64_t bytes)
{
    return (hr__savings){bytes, bytes};
}

void hr__diagnosis_init(hr__diagnosis_draft *draft, hr_doctor_source source);
void hr__diagnosis_deinit(hr__diagnosis_draft *draft); /* not after a finish that succeeded */

/* Throws `draft` away and puts `other` in its place, which is then gone. */
void hr__diagnosis_replace(hr__diagnosis_draft *draft, const hr__diagnosis_draft *other);

__attribute__((format(printf, 4, 5))) void hr__diagnosis_conclude(hr__diagnosis_draft *draft,
                                                                  hr_verdict verdict,
                                                                  hr_confidence confidence,
                                                                  const char *sentence, ...);
__attribute__((format(printf, 2, 3))) void hr__diagnosis_reason(hr__diagnosis_draft *draft,
                                                                const char *sentence, ...);

/* Never NULL: where nothing can be kept any more, the draft's spare one. `kind` is static. */
__attribute__((format(printf, 4, 5))) hr__finding_draft *
hr__diagnosis_add(hr__diagnosis_draft *draft, const char *kind, uint64_t bytes, const char *title,
                  ...);

/* The first finding of that kind, or NULL. */
hr__finding_draft *hr__diagnosis_find(hr__diagnosis_draft *draft, const char *kind);

__attribute__((format(printf, 2, 3))) void hr__finding_where(hr__finding_draft *finding,
                                                             const char *place, ...);
__attribute__((format(printf, 2, 3))) void hr__finding_evidence(hr__finding_draft *finding,
                                                                const char *sentence, ...);
void hr__finding_part(hr__finding_draft *finding, const char *name, uint64_t bytes);

/* `action`, `cost` and `how` are copied as they are. */
void hr__finding_remedy(hr__finding_draft *finding, const char *action, hr__savings savings,
                        hr_basis basis, const char *cost, const char *how);

/* Formatted text that lives as long as the diagnosis; "" without host memory. */
__attribute__((format(printf, 2, 3))) const char *hr__diagnosis_text(hr__diagnosis_draft *draft,
                                                                     const char *format, ...);

/* "1.50 GiB", likewise. */
const char *hr__diagnosis_size(hr__diagnosis_draft *draft, uint64_t bytes);

/* "1 step", "12 steps". */
const char *hr__diagnosis_count(hr__diagnosis_draft *draft, uint64_t count, const char *noun);

/* Makes the result. The draft is empty afterwards, also on failure: HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__diagnosis_finish(hr__diagnosis_draft *draft, hr_diagnosis **out);

#endif /* HR_DOCTOR_DIAGNOSIS_H */
