/* report_doctor.h - the parts of a diagnosis on the page, shared by the whole report and the one
 * that fits a screen. */
#ifndef VW_REPORT_REPORT_DOCTOR_H
#define VW_REPORT_REPORT_DOCTOR_H

#include "vramwise/doctor.h"
#include "report/report_text.h"

static inline const char *vw__report_doctor_text(const char *text)
{
    return text != NULL ? text : "";
}

/* ---- report_doctor.c ------------------------------------------------------------------------- */

/* The sentence, then the verdict's name, its confidence and what it is from. */
void vw__report_doctor_verdict(vw__report *report, const vw_diagnosis *diagnosis);

/* ---- report_doctor_screen.c ------------------------------------------------------------------ */

/* The report in at most form.most_lines lines. */
void vw__report_doctor_screen(vw__report *report, const vw_diagnosis *diagnosis);

/* ---- report_doctor_card.c: what the card held ------------------------------------------------ */

/* A blank line, then the numbers as a small table, below a bar of the card (or of the limit, where
 * that is what is in the way) if they make one. In a report with a limit of lines they follow each
 * other in a line or two. Nothing where nothing is known. */
void vw__report_doctor_card(vw__report *report, const vw_diagnosis *diagnosis);

/* ---- report_doctor_remedy.c ------------------------------------------------------------------ */

/* The remedy to try first, against the cause; NULL: there is none. */
const vw_remedy *vw__report_doctor_first_remedy(const vw_diagnosis *diagnosis);

/* What to write above it. Static. */
const char *vw__report_doctor_first_heading(const vw_diagnosis *diagnosis);

/* True if both say the same to do, or are the same. Either may be NULL. */
bool vw__report_doctor_is_same(const vw_remedy *a, const vw_remedy *b);

/* Is it advice against something? */
bool vw__report_doctor_is_warning(const vw_finding *finding);

/* "saves 1.20 GiB to 3.00 GiB (computed)"; "" if the savings are unknown. */
vw__report_text vw__report_doctor_savings(const vw_remedy *remedy);

/* Line by line as it is, a little further in than `least_indent` if there is room. */
void vw__report_doctor_code(vw__report *report, size_t least_indent, const char *code,
                            size_t code_bytes);

/* The remedy with its savings, its cost and its code. */
void vw__report_doctor_remedy(vw__report *report, size_t indent, const char *mark,
                              const vw_remedy *remedy);

/* ---- report_doctor_others.c ------------------------------------------------------------------ */

/* More do not fit any screen, and are only counted. */
enum { VW__REPORT_DOCTOR_MOST_OTHERS = 64 };

typedef struct vw__report_doctor_others {
    const vw_remedy *items[VW__REPORT_DOCTOR_MOST_OTHERS]; /* in the diagnosis' order */
    size_t count, total;
} vw__report_doctor_others;

/* All remedies but the first and those of warnings, each once. */
void vw__report_doctor_find_others(const vw_diagnosis *diagnosis, vw__report_doctor_others *out);

/* The best `most`: those that are enough, then those that may be; among equals the earlier ones,
 * since remedies come in the order in which to try them. Those that save nothing are left out. The
 * order stays. */
void vw__report_doctor_choose_others(const vw__report_doctor_others *all, size_t most,
                                     vw__report_doctor_others *out);

/* A blank line, titles, and a line each. Nothing for none. */
void vw__report_doctor_say_others(vw__report *report, const vw__report_doctor_others *list);

/* "enough", "not enough", or "". Static. */
const char *vw__report_doctor_enough(vw_enough enough);

#endif /* VW_REPORT_REPORT_DOCTOR_H */
