/* cards.c - cards by name, which are in cards.def, and what each can do. */
#include <string.h>

#include "vramwise/plan.h"

#include "plan/plan_settings.h"

enum { HOPPER = 90 };

#define CARD(name, hundredths, capability)                                                         \
    {name, UINT64_C(hundredths) * (UINT64_C(1) << 30) / 100, (capability) >= HOPPER, capability},

static const vw_plan_card_info cards[] = {
#include "plan/cards.def"
};

const vw_plan_card_info *vw_plan_card_number(size_t number)
{
    return number < sizeof cards / sizeof cards[0] ? &cards[number] : NULL;
}

const vw_plan_card_info *vw_plan_card(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof cards / sizeof cards[0]; i++)
        if (strcmp(cards[i].name, name) == 0)
            return &cards[i];
    return NULL;
}

/* bf16 and flash-attn begin with Ampere; LLM.int8() asks for the int8 of Turing; fp8 for Ada. */
bool vw__plan_card_has(const char *card_name, vw__plan_card_ability ability)
{
    static const unsigned since[] = {
        [VW__PLAN_CARD_TENSOR_CORES] = 70, [VW__PLAN_CARD_INT8] = 75, [VW__PLAN_CARD_BF16] = 80,
        [VW__PLAN_CARD_FLASH] = 80,        [VW__PLAN_CARD_FP8] = 89,
    };
    const vw_plan_card_info *card = vw_plan_card(card_name);
    return card == NULL || card->compute_capability >= since[ability];
}
