/* plan_notes.h - what a plan does not cover: said, so that nobody has to find out. */
#ifndef HR_PLAN_PLAN_NOTES_H
#define HR_PLAN_PLAN_NOTES_H

#include <stddef.h>

#include "headroom/plan.h"

enum { HR__PLAN_MOST_NOTES = 16 };

/* For a model with these (checked) settings; static strings. */
size_t hr__plan_notes(const hr_plan_model *model, const hr_plan_settings *settings,
                      const char *notes[HR__PLAN_MOST_NOTES]);

#endif /* HR_PLAN_PLAN_NOTES_H */
