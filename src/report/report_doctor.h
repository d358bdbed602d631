/* report_doctor.h - what report_doctor.c takes from report_doctor_card.c: what the card held. */
#ifndef VW_REPORT_REPORT_DOCTOR_H
#define VW_REPORT_REPORT_DOCTOR_H

#include "vramwise/doctor.h"
#include "report/report_text.h"

/* A blank line, then the numbers as a small table, below a bar of the card (or of the limit, where
 * that is what is in the way) if they make one. Nothing where nothing is known. */
void vw__report_doctor_card(vw__report *report, const vw_diagnosis *diagnosis);

#endif /* VW_REPORT_REPORT_DOCTOR_H */
