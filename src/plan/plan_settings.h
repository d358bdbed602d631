/* plan_settings.h - settings that make sense, together and for a model; and what a plan with them
 * leaves open.
 *
 * Every plan checks its settings here first. The result is complete (lengths and the card are
 * filled in) and within limits that keep a run finite. */
#ifndef VW_PLAN_PLAN_SETTINGS_H
#define VW_PLAN_PLAN_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/plan.h"
#include "vramwise/status.h"

#define VW__PLAN_MOST_BATCH UINT64_C(1000000)
#define VW__PLAN_MOST_ACCUMULATION UINT64_C(100000)

/* `*out` is `*settings` with what it leaves open filled in: the model's own length, the bytes of a
 * card that is known by name. Fields that an older caller's struct does not have are as after
 * vw_plan_settings_init(). `settings` may be NULL: all of them.
 *
 * VW_ERR_INVALID_ARGUMENT  which setting, what was expected, what was found */
VW_MUST_CHECK vw_status vw__plan_settings_check(const vw_plan_model *model,
                                                const vw_plan_settings *settings,
                                                vw_plan_settings *out);

static inline bool vw__plan_is_training(const vw_plan_settings *settings)
{
    return settings->mode == VW_PLAN_MODE_TRAIN;
}

static inline bool vw__plan_is_8bit(vw_optimizer optimizer)
{
    return optimizer == VW_OPTIMIZER_ADAM_8BIT || optimizer == VW_OPTIMIZER_PAGED_ADAM_8BIT;
}

/* Steps on whole matrices. */
static inline bool vw__plan_is_of_matrices(vw_optimizer optimizer)
{
    return optimizer == VW_OPTIMIZER_MUON || optimizer == VW_OPTIMIZER_GALORE ||
           optimizer == VW_OPTIMIZER_APOLLO;
}

/* Weights in 16 bits. */
static inline bool vw__plan_is_half(vw_precision precision)
{
    return precision == VW_PRECISION_BF16 || precision == VW_PRECISION_FP16;
}

/* ---- plan_precision.c -------------------------------------------------------------------------
 */

/* What AUTO means, and which precision trainers run QLoRA in. */
vw_precision vw__plan_precision_of(const vw_plan_model *model, const vw_plan_settings *settings);
/* Says in the plan why it is that one. */
void vw__plan_explain_precision(const vw_plan_model *model, const vw_plan_settings *asked,
                                vw_plan *plan);

/* ---- cards.c ----------------------------------------------------------------------------------
 */

typedef enum vw__plan_card_ability {
    VW__PLAN_CARD_TENSOR_CORES,
    VW__PLAN_CARD_INT8,
    VW__PLAN_CARD_BF16,
    VW__PLAN_CARD_FLASH, /* the flash-attn package */
    VW__PLAN_CARD_FP8,
} vw__plan_card_ability;

/* True of a card that is not known. */
bool vw__plan_card_has(const char *card_name, vw__plan_card_ability ability);

/* The name most like that one; NULL: none is. */
const char *vw__plan_card_nearest(const char *name);

/* ---- plan_notes.c ---------------------------------------------------------------------------- */

enum { VW__PLAN_MOST_NOTES = 24 };

/* What a plan with these (checked) settings assumes or does not cover; static strings. */
size_t vw__plan_notes(const vw_plan_model *model, const vw_plan_settings *settings,
                      const char *notes[VW__PLAN_MOST_NOTES]);

#endif /* VW_PLAN_PLAN_SETTINGS_H */
