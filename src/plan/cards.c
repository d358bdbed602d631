/* cards.c - cards by name.
 *
 * What a card has is what the driver tells a program (cuMemGetInfo), since that is what runs out:
 * less than is printed on the box, and some hundred MiB less than nvidia-smi says, which counts the
 * driver's own share. An H200 has 143771 MiB there and 139.80 GiB here, an H100 81559 MiB and 79.10
 * GiB. The numbers are those of PyTorch's out-of-memory messages ("total capacity of 139.80 GiB");
 * drivers differ by one percent, and where several numbers are seen, the lower one is here. */
#include <string.h>

#include "vramwise/plan.h"

/* Hundredths of a GiB, as messages have them. */
#define GIB(hundredths) (UINT64_C(hundredths) * (UINT64_C(1) << 30) / 100)

/* cuBLAS's workspace as PyTorch asks for it grew with Hopper. */
#define EARLIER false
#define HOPPER_OR_LATER true

static const vw_plan_card_info cards[] = {
    {"gtx1080ti", GIB(1091), EARLIER},
    {"rtx2080ti", GIB(1075), EARLIER},
    {"rtx3060", GIB(1175), EARLIER},
    {"rtx3070", GIB(779), EARLIER},
    {"rtx3080", GIB(968), EARLIER},
    {"rtx3090", GIB(2356), EARLIER},
    {"rtx4060ti-16g", GIB(1556), EARLIER},
    {"rtx4070", GIB(1160), EARLIER},
    {"rtx4080", GIB(1570), EARLIER},
    {"rtx4090", GIB(2352), EARLIER},
    {"rtx5090", GIB(3135), HOPPER_OR_LATER},
    {"rtxa6000", GIB(4753), EARLIER},
    {"p100", GIB(1590), EARLIER},
    {"t4", GIB(1456), EARLIER},
    {"v100-16g", GIB(1577), EARLIER},
    {"v100-32g", GIB(3172), EARLIER},
    {"a10", GIB(2209), EARLIER},
    {"a10g", GIB(2198), EARLIER},
    {"l4", GIB(2196), EARLIER},
    {"l40s", GIB(4439), EARLIER},
    {"a100-40g", GIB(3939), EARLIER},
    {"a100-80g", GIB(7914), EARLIER},
    {"h100", GIB(7910), HOPPER_OR_LATER},
    {"h100-80g", GIB(7910), HOPPER_OR_LATER},
    {"h200", GIB(13980), HOPPER_OR_LATER},
    {"b200", GIB(17835), HOPPER_OR_LATER},
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
