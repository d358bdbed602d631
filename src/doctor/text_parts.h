/* text_parts.h - what the files of the doctor for texts share.
 *
 * text.c decides which way a text goes and writes the sentence; text_remedies.c adds the findings
 * of a verdict that rests on the rule for numbers, and text_diet.c what makes a run need less;
 * text_place.c names the line that failed; text_kinds.c knows the programs and libraries
 * whose messages that rule does not fit; text_devices.c the devices that are not NVIDIA's;
 * text_host.c is for the machine's own memory; text_log.c for lines of PyTorch's log. */
#ifndef VW_DOCTOR_TEXT_PARTS_H
#define VW_DOCTOR_TEXT_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/doctor.h"
#include "analysis/phase.h"
#include "doctor/diagnosis.h"
#include "doctor/numbers.h"
#include "parse/error_text.h"

typedef struct vw__text_case {
    const vw__error_text_summary *summary;
    const vw__error_text_report *report; /* the first one */
    vw__diagnosis_draft *draft;
    vw_memory_numbers said;    /* by the text */
    vw_memory_numbers numbers; /* to be judged: the same, or on the card of the options */
    uint64_t card_bytes;       /* of the options; 0 */
    uint64_t others_bytes;     /* with such a card: held outside PyTorch, by the text; VW_UNKNOWN */
    vw__numbers_verdict judged;
    vw__phase phase; /* in which it failed; VW__PHASE_OTHER: not known */
} vw__text_case;

/* Are the words in what was kept of the message? In either case. */
bool vw__text_has(const vw__text_case *given, const char *words);

/* Less where the message breaks off or could be something else. */
vw_confidence vw__text_confidence(const vw__text_case *given, vw_confidence confidence);

/* Lets sentences name the numbers that are judged: $tried, $total, $free, $in_use, $reserved,
 * $allowed; what they come to: $idle, $outside; and $card, that of the options. To be called again
 * when they change. */
void vw__text_name_numbers(const vw__text_case *given);

/* By PyTorch: what it has reserved, or what of that is in use. */
uint64_t vw__text_held_bytes(const vw__text_case *given);

/* Would the request have gone beyond the limit? */
bool vw__text_is_at_limit(const vw__text_case *given);

/* A library that takes memory beside the framework that calls it. */
bool vw__text_is_of_library(const vw__text_case *given);

/* The kinds that print PyTorch's numbers. */
bool vw__text_is_torch(vw__error_text_kind kind);

/* ---- text_devices.c ------------------------------------------------------------------- */

/* Names are empty where there is no such thing. */
typedef struct vw__text_device {
    const char *name;     /* "GPU" */
    const char *module;   /* of torch: "cuda" */
    const char *list;     /* to type: who holds it */
    const char *visible;  /* the variable that chooses cards */
    const char *settings; /* the variable of the allocator's settings; NULL: the version decides */
    const char *look;     /* to type: what PyTorch holds */
    bool has_recordings;  /* PyTorch writes them, and we read them */
} vw__text_device;

const vw__text_device *vw__text_device_of(const vw__text_case *given); /* static */

/* What to type to learn more: a recording, or what comes nearest to it on that device. */
void vw__text_add_recording(const vw__text_case *given, vw__diagnosis_finding *finding);
void vw__text_add_process_list(const vw__text_case *given, vw__diagnosis_finding *finding);

/* The variable for the allocator's settings: the one that the message names, or the device's.
 * Static. `version`: of the options, or NULL. */
const char *vw__text_variable(const vw__text_case *given, const char *version);

/* ---- text_log.c ----------------------------------------------------------------------- */

/* A text that has nothing but PyTorch's log of requests that it tries again. */
void vw__text_conclude_retried(const vw__text_case *given);

/* An error for want of addresses, by the log. */
void vw__text_judge_addresses(const vw__text_case *given);

/* ---- text_remedies.c ------------------------------------------------------------------ */

/* The finding of the verdict, and those beside it. */
void vw__text_add_findings(const vw__text_case *given, vw_verdict verdict);

/* All of a finding's bytes, in parts: largest first, without those of nothing. Sorts `parts`. */
void vw__text_add_parts(vw__diagnosis_finding *finding, vw_part *parts, size_t count);

/* What the request lacked, by the card or the limit; VW_UNKNOWN. */
uint64_t vw__text_missing_bytes(const vw__text_case *given);

/* ---- text_place.c --------------------------------------------------------------------- */

/* The phase that the traceback of the report shows. */
vw__phase vw__text_phase(const vw__error_text_report *report);

/* Adds to the reasoning which line failed, and in which phase. */
void vw__text_say_place(const vw__text_case *given);

/* ---- text_diet.c ---------------------------------------------------------------------- */

/* Says how many numbers the request is, and which shapes would come to that; and how to look. */
void vw__text_add_shapes(const vw__text_case *given, vw__diagnosis_finding *finding);

/* What makes a run need less: a smaller batch, and all else there is. In the order that fits the
 * phase. */
void vw__text_add_smaller_batch(const vw__text_case *given, vw__diagnosis_finding *finding);
void vw__text_add_diet(const vw__text_case *given, vw__diagnosis_finding *finding);

/* ---- text_card.c ---------------------------------------------------------------------- */

/* Moves the numbers to the card of the options. true: concluded. */
bool vw__text_judge_on_card(vw__text_case *given);

/* ---- text_kinds.c --------------------------------------------------------------------- */

/* Messages that say by themselves what they are, or by a rule of their own. true: concluded. */
bool vw__text_judge_by_kind(vw__text_case *given);

/* A request that no device can serve, whatever else the message says. true: concluded. */
bool vw__text_judge_beyond_any_card(const vw__text_case *given);

/* The finding of a text that does not tell: what is known, and what would tell. */
void vw__text_explain_unknown(const vw__text_case *given);

/* ---- text_host.c ---------------------------------------------------------------------- */

void vw__text_judge_host(const vw__text_case *given);

#endif /* VW_DOCTOR_TEXT_PARTS_H */
