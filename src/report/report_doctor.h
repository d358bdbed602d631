/* report_doctor.h - the parts of hr_report_doctor(): report_doctor.c for people, with what the card
 * held in report_doctor_card.c, and report_doctor_json.c for programs. */
#ifndef HR_REPORT_REPORT_DOCTOR_H
#define HR_REPORT_REPORT_DOCTOR_H

#include "headroom/doctor.h"
#include "report/report_text.h"

/* A blank line, then the numbers as a small table, below a bar of the card (or of the limit, where
 * that is what is in the way) if they make one. Nothing where nothing is known. */
void hr__doctor_card(hr__report *report, const hr_diagnosis *diagnosis);

void hr__doctor_json(hr__report *report, const hr_diagnosis *diagnosis);

#endif /* HR_REPORT_REPORT_DOCTOR_H */
