/* text_parts.h - what the files of the doctor for texts share.
 *
 * text.c decides which way a text goes and writes the sentence; text_remedies.c adds the findings
 * of a verdict that rests on the rule for numbers; text_kinds.c knows the programs and libraries
 * whose messages that rule does not fit; text_devices.c the devices that are not NVIDIA's;
 * text_host.c is for the machine's own memory. */
#ifndef HR_DOCTOR_TEXT_PARTS_H
#define HR_DOCTOR_TEXT_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "headroom/doctor.h"
#include "doctor/diagnosis.h"
#include "doctor/numbers.h"
#include "format/error_text.h"

typedef struct hr__text_case {
    const hr__error_summary *summary;
    const hr__error_report *report; /* the first one */
    hr__diagnosis_draft *draft;
    hr_memory_numbers said;    /* by the text */
    hr_memory_numbers numbers; /* to be judged: the same, or on the card of the options */
    uint64_t card_bytes;       /* of the options; 0 */
    uint64_t others_bytes;     /* with such a card: held outside PyTorch, by the text; HR_UNKNOWN */
    hr__number_verdict judged;
} hr__text_case;

static inline bool hr__text_knows(uint64_t size_bytes)
{
    return size_bytes != HR_UNKNOWN;
}

/* "512.00 MiB"; the diagnosis' text. */
const char *hr__text_size(const hr__text_case *given, uint64_t size_bytes);

/* Are the words in what was kept of the message? In either case. */
bool hr__text_has(const hr__text_case *given, const char *words);

/* Does the message break off, for all that can be seen? */
bool hr__text_is_cut(const hr__text_case *given);

/* Less where the message breaks off or could be something else. */
hr_confidence hr__text_confidence(const hr__text_case *given, hr_confidence confidence);

/* The kinds that print PyTorch's numbers. */
bool hr__text_is_torch(hr__error_kind kind);

/* ---- text_devices.c ------------------------------------------------------------------- */

/* Names are empty where there is no such thing. */
typedef struct hr__text_device {
    const char *name;     /* "GPU" */
    const char *module;   /* of torch: "cuda" */
    const char *list;     /* to type: who holds it */
    const char *visible;  /* the variable that chooses cards */
    const char *settings; /* the variable of the allocator's settings, that every version reads */
    const char *look;     /* to type: what PyTorch holds */
    bool has_recordings;  /* PyTorch writes them, and we read them */
} hr__text_device;

const hr__text_device *hr__text_device_of(const hr__text_case *given); /* static */

/* What to type to learn more: a recording, or what comes nearest to it on that device. */
void hr__text_add_recording(const hr__text_case *given, hr__finding_draft *finding);
void hr__text_add_process_list(const hr__text_case *given, hr__finding_draft *finding);

/* ---- text_remedies.c ------------------------------------------------------------------ */

/* The finding of the verdict, and those beside it. */
void hr__text_add_findings(const hr__text_case *given, hr_verdict verdict);

/* All of a finding's bytes, in parts: largest first, without those of nothing. Sorts `parts`. */
void hr__text_add_parts(hr__finding_draft *finding, hr_part *parts, size_t count);

/* What makes a run need less: a smaller batch, and all else there is. */
void hr__text_add_smaller_batch(const hr__text_case *given, hr__finding_draft *finding);
void hr__text_add_diet(const hr__text_case *given, hr__finding_draft *finding);

/* ---- text_card.c ---------------------------------------------------------------------- */

/* Moves the numbers to the card of the options. true: concluded. */
bool hr__text_judge_on_card(hr__text_case *given);

/* ---- text_kinds.c --------------------------------------------------------------------- */

/* Messages that say by themselves what they are, or by a rule of their own. true: concluded. */
bool hr__text_judge_by_kind(hr__text_case *given);

/* A request that no device can serve, whatever else is said. true: concluded. */
bool hr__text_judge_beyond_any_card(const hr__text_case *given);

/* The finding of a text that does not tell: what is known, and what would tell. */
void hr__text_explain_unknown(const hr__text_case *given);

/* ---- text_host.c ---------------------------------------------------------------------- */

void hr__text_judge_host(const hr__text_case *given);

#endif /* HR_DOCTOR_TEXT_PARTS_H */
