/* settings_check.h - settings that make sense, together and for a model.
 *
 * Whoever runs a plan asks here first: what comes out is complete (lengths and the card are filled
 * in) and within limits that keep a run finite. */
#ifndef VW_PLAN_SETTINGS_CHECK_H
#define VW_PLAN_SETTINGS_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/plan.h"
#include "vramwise/status.h"

#define VW__MOST_BATCH UINT64_C(1000000)
#define VW__MOST_SEQUENCE UINT64_C(100000000)
#define VW__MOST_IMAGE UINT64_C(65536)
#define VW__MOST_ACCUMULATION UINT64_C(100000)
#define VW__MOST_CHUNKS UINT64_C(65536)
#define VW__MOST_RANK UINT64_C(65536)
#define VW__MOST_GPUS UINT64_C(100000)

/* `*out` is `*settings` with what it leaves open filled in: the model's own length, the bytes of a
 * card that is known by name. Fields that an older caller's struct does not have are as after
 * vw_plan_settings_init(). `settings` may be NULL: all of them.
 *
 * VW_ERR_INVALID_ARGUMENT  which setting, what was expected, what was found */
VW_MUST_CHECK vw_status vw__settings_check(const vw_plan_model *model,
                                           const vw_plan_settings *settings, vw_plan_settings *out);

enum { VW__SETTINGS_MOST_NOTES = 8 };

/* What a plan with these (checked) settings takes for granted; static strings. */
size_t vw__settings_notes(const vw_plan_model *model, const vw_plan_settings *settings,
                          const char *notes[VW__SETTINGS_MOST_NOTES]);

#endif /* VW_PLAN_SETTINGS_CHECK_H */
