/* diagnosis.h - a diagnosis while it is being written.
 *
 * Every cause that the doctor looks for writes its findings into one draft; reasons, findings and
 * remedies are then each one line where they are made. Failure sticks: without host memory a call
 * does nothing, and vw__diagnosis_finish() says so, once.
 *
 * Texts are formatted into the diagnosis' arena: whatever is passed may be gone afterwards. A text
 * may name numbers: "$tried were refused" becomes "1.50 GiB were refused" once "tried" is known
 * (vw__diagnosis_name). Arguments of a format are never searched for such names.
 *
 * Order. Findings come out as they were added, but for the one that the verdict names, which comes
 * first, and findings of kind "warning", which come last. Remedies come out as they were added. */
#ifndef VW_DOCTOR_DIAGNOSIS_H
#define VW_DOCTOR_DIAGNOSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/doctor.h"
#include "vramwise/status.h"
#include "base/arena.h"
#include "base/human_units.h"
#include "remedy/remedy.h"

/* More are dropped. */
#define VW__DIAGNOSIS_MOST_REASONS 24
#define VW__DIAGNOSIS_MOST_FINDINGS 16
#define VW__DIAGNOSIS_MOST_REMEDIES 16 /* of one finding */
#define VW__DIAGNOSIS_MOST_WHERE 8
#define VW__DIAGNOSIS_MOST_EVIDENCE 10
#define VW__DIAGNOSIS_MOST_PARTS 16
#define VW__DIAGNOSIS_MOST_WORDS 32

/* What sentences name: a text, or a size where that is NULL. */
typedef struct vw__doctor_word {
    const char *name; /* static */
    const char *text; /* lives as long as it is used */
    uint64_t bytes;
} vw__doctor_word;

typedef struct vw__diagnosis_finding {
    const char *kind; /* static */
    const char *title;
    uint64_t bytes;
    const char *where[VW__DIAGNOSIS_MOST_WHERE];
    const char *evidence[VW__DIAGNOSIS_MOST_EVIDENCE];
    vw_part parts[VW__DIAGNOSIS_MOST_PARTS];
    vw_remedy remedies[VW__DIAGNOSIS_MOST_REMEDIES];
    size_t where_count, evidence_count, part_count, remedy_count;
    struct vw__diagnosis_draft *draft;
} vw__diagnosis_finding;

/* A stack of a recording that leaks. */
typedef struct vw__diagnosis_growing_stack {
    uint32_t stack; /* of the model; VW__DIAGNOSIS_NO_STACK: blocks without one */
    uint64_t bytes_per_step;
} vw__diagnosis_growing_stack;

#define VW__DIAGNOSIS_NO_STACK UINT32_MAX

/* Does memory grow from step to step? What others show besides the verdict: reports, the page. */
typedef struct vw__diagnosis_found_growth {
    bool is_known;         /* false: no steps, too few, or not in bytes of a card */
    double bytes_per_step; /* 0: it does not grow */
    const vw__diagnosis_growing_stack *stacks; /* of a recording; in the diagnosis' arena */
    size_t stack_count;
} vw__diagnosis_found_growth;

typedef struct vw__diagnosis_draft {
    vw__arena arena;    /* becomes the diagnosis' */
    vw_verdict verdict; /* UNKNOWN until someone says */
    vw_confidence confidence;
    vw_doctor_source source;
    bool is_running;               /* of a job that runs */
    const char *settings_variable; /* that remedies name: settings/setting_variable.h; static */
    const char *sentence;
    uint64_t error_count;
    vw_memory_numbers numbers; /* all unknown */
    vw_failed_at failed_at;    /* file NULL: not known */
    vw__doctor_word words[VW__DIAGNOSIS_MOST_WORDS];
    size_t word_count;
    vw__diagnosis_found_growth growth; /* unknown */
    const char *reasons[VW__DIAGNOSIS_MOST_REASONS];
    size_t reason_count;
    vw__diagnosis_finding *findings[VW__DIAGNOSIS_MOST_FINDINGS]; /* in the arena */
    size_t finding_count;
    vw__diagnosis_finding spare; /* for findings that there is no room for */
    bool has_failed;
} vw__diagnosis_draft;

/* A range, or one figure, or none. */
typedef struct vw__diagnosis_savings {
    uint64_t at_least_bytes, at_most_bytes;
} vw__diagnosis_savings;

#define VW__DIAGNOSIS_SAVES_UNKNOWN ((vw__diagnosis_savings){VW_UNKNOWN, VW_UNKNOWN})

static inline vw__diagnosis_savings vw__diagnosis_saves(uint64_t bytes)
{
    return (vw__diagnosis_savings){bytes, bytes};
}

void vw__diagnosis_init(vw__diagnosis_draft *draft, vw_doctor_source source);
void vw__diagnosis_deinit(vw__diagnosis_draft *draft); /* not after a finish that succeeded */

/* From here on "$name" in a sentence is that size, or that text. `name` is static, and `text` must
 * live as long as it is used. */
void vw__diagnosis_name(vw__diagnosis_draft *draft, const char *name, uint64_t bytes);
void vw__diagnosis_name_text(vw__diagnosis_draft *draft, const char *name, const char *text);

/* The same for $tried, $total, $free, $in_use, $reserved and $allowed. */
void vw__diagnosis_name_numbers(vw__diagnosis_draft *draft, const vw_memory_numbers *numbers);

/* Throws `draft` away and puts `other` in its place, which is then gone. */
void vw__diagnosis_replace(vw__diagnosis_draft *draft, const vw__diagnosis_draft *other);

__attribute__((format(printf, 4, 5))) void vw__diagnosis_conclude(vw__diagnosis_draft *draft,
                                                                  vw_verdict verdict,
                                                                  vw_confidence confidence,
                                                                  const char *sentence, ...);
__attribute__((format(printf, 2, 3))) void vw__diagnosis_reason(vw__diagnosis_draft *draft,
                                                                const char *sentence, ...);

/* Never NULL: where nothing can be kept any more, the draft's spare one. `kind` is static. */
__attribute__((format(printf, 4, 5))) vw__diagnosis_finding *
vw__diagnosis_add(vw__diagnosis_draft *draft, const char *kind, uint64_t bytes, const char *title,
                  ...);

/* The first finding of that kind, or NULL. */
vw__diagnosis_finding *vw__diagnosis_find(vw__diagnosis_draft *draft, const char *kind);

__attribute__((format(printf, 2, 3))) void vw__diagnosis_where(vw__diagnosis_finding *finding,
                                                               const char *place, ...);
__attribute__((format(printf, 2, 3))) void vw__diagnosis_evidence(vw__diagnosis_finding *finding,
                                                                  const char *sentence, ...);
void vw__diagnosis_part(vw__diagnosis_finding *finding, const char *name, uint64_t bytes);

/* Adds a rule of thumb, with unknown savings. `action`, `cost` and `how` are copied as they are. */
void vw__diagnosis_advice(vw__diagnosis_finding *finding, const char *action, const char *cost,
                          const char *how);

/* The same for all rows of a table. A cost of NULL is that of inference_mode(). */
typedef struct vw__doctor_advice {
    const char *action, *cost, *how;
} vw__doctor_advice;

void vw__diagnosis_advise(vw__diagnosis_finding *finding, const vw__doctor_advice *rows,
                          size_t count);
#define VW__DOCTOR_ADVISE(finding, rows)                                                           \
    vw__diagnosis_advise((finding), (rows), sizeof(rows) / sizeof *(rows))

/* The same with savings, and how they are known. */
void vw__diagnosis_remedy(vw__diagnosis_finding *finding, const char *action,
                          vw__diagnosis_savings savings, vw_basis basis, const char *cost,
                          const char *how);

/* The same for a remedy of the table, with the words put in; `words` may be NULL. */
void vw__diagnosis_known_remedy(vw__diagnosis_finding *finding, vw__remedy_id id,
                                const vw__remedy_words *words, vw__diagnosis_savings savings,
                                vw_basis basis);

/* Says of the remedy added last whether it is enough; unknown where nobody does. */
void vw__diagnosis_enough(vw__diagnosis_finding *finding, vw_enough enough);

/* Formatted text that lives as long as the diagnosis; "" without host memory. */
__attribute__((format(printf, 2, 3))) const char *vw__diagnosis_text(vw__diagnosis_draft *draft,
                                                                     const char *format, ...);

/* A sentence of a table, with its "$name"s filled in and no "%" formats, likewise. */
const char *vw__diagnosis_fill(vw__diagnosis_draft *draft, const char *sentence);

/* What to write for a remedy of the table, likewise; `words` may be NULL. */
const char *vw__diagnosis_code(vw__diagnosis_draft *draft, vw__remedy_id id,
                               const vw__remedy_words *words);

/* "1.50 GiB"; "an unknown amount" for VW_UNKNOWN. The text lives until the end of the statement:
 * for the arguments of the functions above. */
typedef struct vw__doctor_size_text {
    char text[VW__HUMAN_SIZE_BYTES];
} vw__doctor_size_text;

vw__doctor_size_text vw__doctor_size(uint64_t bytes);
#define VW__DOCTOR_SIZE(bytes) (vw__doctor_size(bytes).text)

static inline bool vw__doctor_knows(uint64_t size_bytes)
{
    return size_bytes != VW_UNKNOWN;
}

static inline bool vw__doctor_knows_all(const uint64_t *sizes, size_t count)
{
    bool knows = true;
    for (size_t i = 0; i < count; i++)
        knows = knows && sizes[i] != VW_UNKNOWN;
    return knows;
}

/* True if none of the sizes is VW_UNKNOWN. */
#define VW__DOCTOR_KNOWS_ALL(...)                                                                  \
    vw__doctor_knows_all((const uint64_t[]){__VA_ARGS__},                                          \
                         sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* a - b, and nothing below zero. */
static inline uint64_t vw__doctor_less(uint64_t a_bytes, uint64_t b_bytes)
{
    return a_bytes > b_bytes ? a_bytes - b_bytes : 0;
}

/* The same as texts that live as long as the diagnosis: "1.50 GiB", "12.3 ms", "45 %". */
const char *vw__diagnosis_size(vw__diagnosis_draft *draft, uint64_t bytes);
const char *vw__diagnosis_duration(vw__diagnosis_draft *draft, uint64_t duration_ns);
const char *vw__diagnosis_share(vw__diagnosis_draft *draft, double share);

/* "1 step", "12 steps". */
const char *vw__diagnosis_count(vw__diagnosis_draft *draft, uint64_t count, const char *noun);

/* Says which line failed. Texts are copied; `function` and `code` may be NULL or "", `line` 0. */
void vw__diagnosis_failed_at(vw__diagnosis_draft *draft, const char *file, uint32_t line,
                             const char *function, const char *code, const char *phase);

/* Makes the result. The draft is empty afterwards, also on failure: VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__diagnosis_finish(vw__diagnosis_draft *draft, vw_diagnosis **out);

/* Lives as long as the diagnosis. */
const vw__diagnosis_found_growth *vw__diagnosis_growth(const vw_diagnosis *diagnosis);

/* vw_diagnosis_sees_more() by the verdicts alone. */
bool vw__diagnosis_verdict_sees_more(vw_verdict story, vw_verdict recording);

#endif /* VW_DOCTOR_DIAGNOSIS_H */
