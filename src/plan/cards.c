/* cards.c - cards by name, which are in cards.def, and what each can do. */
#include <string.h>

#include "vramwise/plan.h"
#include "vramwise/units.h"

#include "base/ascii.h"
#include "base/error.h"
#include "base/loose_name.h"
#include "base/nearest_name.h"
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

/* ---- names ----------------------------------------------------------------------------------- */

enum { LONGEST_NAME = 80 };

/* Words of the driver's names that tell no two cards of cards.def apart. */
static bool is_extra_word(const char *word, size_t length)
{
    static const char *const words[] = {"nvidia", "geforce", "tesla", "pcie", "sxm2", "sxm4",
                                        "sxm5",   "hbm2",    "hbm2e", "hbm3", "hbm3e"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (vw__loose_name_part_equals(word, length, words[i]))
            return true;
    return false;
}

/* Without what follows the G of a size: cards.def has "80g". */
static size_t length_of_size(const char *word, size_t length)
{
    size_t digits = 0;
    while (digits < length && vw__ascii_is_digit(word[digits]))
        digits++;
    const char *unit = word + digits;
    const bool is_size = digits > 0 && (vw__loose_name_part_equals(unit, length - digits, "gb") ||
                                        vw__loose_name_part_equals(unit, length - digits, "gib"));
    return is_size ? digits + 1 : length;
}

/* "NVIDIA A100-SXM4-80GB" becomes "A10080G". What does not fit is left out: no card has such a
 * name. */
static void shorten(const char *name, char out[LONGEST_NAME])
{
    size_t used = 0;
    while (*name != '\0') {
        size_t length = 0;
        while (name[length] != '\0' && !vw__loose_name_is_separator(name[length]))
            length++;
        const size_t kept = is_extra_word(name, length) ? 0 : length_of_size(name, length);
        for (size_t i = 0; i < kept && used + 1 < LONGEST_NAME; i++)
            out[used++] = name[i];
        name += length;
        while (vw__loose_name_is_separator(*name))
            name++;
    }
    out[used] = '\0';
}

/* "4090" and "A6000" are known without what stands before them. */
static bool is_called(const vw_plan_card_info *card, const char *name)
{
    static const char *const beginnings[] = {"rtx", "gtx"};
    if (vw__loose_name_equals(name, card->name))
        return true;
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        const size_t length = strlen(beginnings[i]);
        if (strncmp(card->name, beginnings[i], length) == 0 &&
            vw__loose_name_equals(name, card->name + length))
            return true;
    }
    return false;
}

const vw_plan_card_info *vw_plan_card(const char *name)
{
    char given[LONGEST_NAME];
    if (name == NULL)
        return NULL;
    shorten(name, given);
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++)
        if (is_called(&cards[i], given))
            return &cards[i];
    return NULL;
}

/* "a100" is meant by "a100-40g" rather than by "p100". */
const char *vw__plan_card_nearest(const char *name)
{
    const char *names[sizeof cards / sizeof cards[0]];
    char given[LONGEST_NAME];
    shorten(name, given);
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++) {
        names[i] = cards[i].name;
        const size_t length = strlen(given), all = strlen(names[i]);
        if (length > 0 && length < all && vw__loose_name_part_equals(names[i], length, given))
            return names[i];
    }
    return vw__nearest_name(given, names, sizeof cards / sizeof cards[0]);
}

vw_status vw_plan_card_read(const char *text, uint64_t *total_bytes, const vw_plan_card_info **card)
{
    uint64_t size = 0;
    if (text == NULL || total_bytes == NULL || card == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a card's name or size, and places for both");
    const vw_plan_card_info *found = vw_plan_card(text);
    if (found == NULL && (vw_parse_size(text, &size) != VW_OK || size == 0)) {
        const char *nearest = vw__plan_card_nearest(text);
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a size such as 24GiB or a card such as %s, not '%s'",
                        nearest != NULL ? nearest : "rtx4090", text);
    }
    if (found == NULL)
        VW__TRY(vw_parse_memory_size(text, &size));
    *total_bytes = found != NULL ? found->total_bytes : size;
    *card = found;
    return VW_OK;
}

/* ---- abilities ------------------------------------------------------------------------------- */

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
