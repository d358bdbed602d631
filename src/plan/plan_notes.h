/* plan_notes.h - what a plan does not cover: said, so that nobody has to find out. */
#ifndef VW_PLAN_PLAN_NOTES_H
#define VW_PLAN_PLAN_NOTES_H

#include <stddef.h>

#include "vramwise/plan.h"

enum { VW__PLAN_MOST_NOTES = 16 };

/* For a model with these (checked) settings; static strings. */
size_t vw__plan_notes(const vw_plan_model *model, const vw_plan_settings *settings,
                      const char *notes[VW__PLAN_MOST_NOTES]);

#endif /* VW_PLAN_PLAN_NOTES_H */
