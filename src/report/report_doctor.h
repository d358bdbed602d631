/* report_doctor.h - the parts of vw_report_doctor(): report_doctor.c, with what the card held in
 * report_doctor_card.c and the wrapping of prose in report_doctor_prose.c. */
#ifndef VW_REPORT_REPORT_DOCTOR_H
#define VW_REPORT_REPORT_DOCTOR_H

#include "vramwise/doctor.h"
#include "report/report_text.h"

/* A blank line, then the numbers as a small table, below a bar of the card (or of the limit, where
 * that is what is in the way) if they make one. Nothing where nothing is known. */
void vw__doctor_card(vw__report *report, const vw_diagnosis *diagnosis);

/* A paragraph behind a mark of ASCII ("- ", "12. "), wrapped at spaces but not between a number and
 * its unit. Lines after the first begin below the text; without a mark, two columns further in. */
__attribute__((format(printf, 5, 6))) void vw__doctor_say(vw__report *report, size_t indent,
                                                          vw__style style, const char *mark,
                                                          const char *format, ...);

#endif /* VW_REPORT_REPORT_DOCTOR_H */
