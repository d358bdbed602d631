/* cards.c - cards by name; they are in cards.def. */
#include <string.h>

#include "vramwise/plan.h"

#define EARLIER false
#define HOPPER_OR_LATER true
#define CARD(name, hundredths, is_hopper_or_later)                                                 \
    {name, UINT64_C(hundredths) * (UINT64_C(1) << 30) / 100, is_hopper_or_later},

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
