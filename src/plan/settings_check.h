/* settings_check.h - settings that make sense, together and for a model.
 *
 * Whoever runs a plan asks here first: what comes out is complete (lengths and the card are filled
 * in) and within limits that keep a run finite. */
#ifndef HR_PLAN_SETTINGS_CHECK_H
#define HR_PLAN_SETTINGS_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "headroom/plan.h"
#include "headroom/status.h"

#define HR__MOST_BATCH UINT64_C(1000000)
#define HR__MOST_SEQUENCE UINT64_C(100000000)
#define HR__MOST_IMAGE UINT64_C(65536)
#define HR__MOST_ACCUMULATION UINT64_C(100000)
#define HR__MOST_CHUNKS UINT64_C(65536)
#define HR__MOST_RANK UINT64_C(65536)
#define HR__MOST_GPUS UINT64_C(100000)

/* `*out` is `*settings` with what it leaves open filled in: the model's own length, the bytes of a
 * card that is known by name. Fields that an older caller's struct does not have are as after
 * hr_plan_settings_init(). `settings` may be NULL: all of them.
 *
 * HR_ERR_INVALID_ARGUMENT  which setting, what was expected, what was found */
HR_MUST_CHECK hr_status hr__settings_check(const hr_plan_model *model,
                                           const hr_plan_settings *settings, hr_plan_settings *out);

enum { HR__SETTINGS_MOST_NOTES = 8 };

/* What a plan with these (checked) settings takes for granted; static strings. */
size_t hr__settings_notes(const hr_plan_model *model, const hr_plan_settings *settings,
                          const char *notes[HR__SETTINGS_MOST_NOTES]);

#endif /* HR_PLAN_SETTINGS_CHECK_H */
