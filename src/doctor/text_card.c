/* text_card.c - would this request have been served on another card?
 *
 * The numbers of the message are moved there: the card is replaced, a limit dropped, and what was
 * held, by PyTorch and by others, is taken to be the same. Two answers are clear, that the request
 * fits with room to spare, and that not even what is in use does; between them the rule for numbers
 * decides, on the numbers as they would be there. */
#include "doctor/text_parts.h"

#define SPARE_BYTES (UINT64_C(64) << 20) /* as the rule has it, of what a driver keeps back */

static uint64_t known_or_none(uint64_t size_bytes)
{
    return vw__doctor_knows(size_bytes) ? size_bytes : 0;
}

/* ---- the numbers there ------------------------------------------------------------------------
 */

static void say_what_is_replaced(const vw__text_case *given)
{
    const vw_memory_numbers *said = &given->said, *moved = &given->numbers;
    vw__diagnosis_draft *draft = given->draft;
    const char *instead =
        vw__doctor_knows(said->total_bytes)
            ? vw__diagnosis_text(draft, " instead of %s", VW__DOCTOR_SIZE(said->total_bytes))
            : "";
    const char *limit = vw__doctor_knows(said->allowed_bytes)
                            ? vw__diagnosis_text(draft, ", and without the limit of %s",
                                                 VW__DOCTOR_SIZE(said->allowed_bytes))
                            : "";
    uint64_t given_up = vw__doctor_knows(said->reserved_bytes)
                            ? vw__doctor_less(said->reserved_bytes, moved->reserved_bytes)
                            : 0;
    const char *idle =
        given_up != 0 ? vw__diagnosis_text(draft, "; of what lay idle, %s are given back first",
                                           VW__DOCTOR_SIZE(given_up))
                      : "";
    const char *free_text =
        vw__doctor_knows(moved->free_bytes)
            ? vw__diagnosis_text(draft, "; %s would be free",
                                 moved->free_bytes != 0 ? VW__DOCTOR_SIZE(moved->free_bytes)
                                                        : "nothing")
            : "";
    vw__diagnosis_reason(draft,
                         "Judged on a card of $card%s%s: what is in use, and what others hold, is "
                         "taken to be the same%s%s.",
                         instead, limit, idle, free_text);
}

/* On another card everything that was held is still held. Where that is more than the card, what
 * PyTorch had idle would have been given back first; what is in use, never. Where that does not fit
 * nothing can be said of what is free. */
static void move_to_card(vw__text_case *given)
{
    const vw_memory_numbers *said = &given->said;
    vw_memory_numbers *moved = &given->numbers;
    uint64_t card = given->card_bytes;
    moved->total_bytes = card;
    moved->allowed_bytes = VW_UNKNOWN;
    moved->free_bytes = VW_UNKNOWN;
    bool knows_held = VW__DOCTOR_KNOWS_ALL(said->total_bytes, said->free_bytes) &&
                      said->free_bytes <= said->total_bytes;
    uint64_t held = knows_held ? said->total_bytes - said->free_bytes : 0;
    if (vw__doctor_knows(said->reserved_bytes)) {
        uint64_t others = vw__doctor_less(held, said->reserved_bytes),
                 room = vw__doctor_less(card, others);
        uint64_t in_use = known_or_none(said->allocated_bytes);
        given->others_bytes = knows_held ? others : VW_UNKNOWN;
        if (said->reserved_bytes > room && in_use <= said->reserved_bytes)
            moved->reserved_bytes = in_use > room ? in_use : room;
        if (knows_held && moved->reserved_bytes <= room)
            moved->free_bytes = room - moved->reserved_bytes;
        if (vw__doctor_knows(said->process_bytes))
            moved->process_bytes = vw__doctor_less(
                said->process_bytes, vw__doctor_less(said->reserved_bytes, moved->reserved_bytes));
    } else if (knows_held) {
        moved->free_bytes = vw__doctor_less(card, held);
    }
    vw__text_name_numbers(given);
    say_what_is_replaced(given);
}

/* Without touching a byte of what is in use it cannot be on that card. */
static bool is_more_than_card_in_use(const vw__text_case *given)
{
    uint64_t in_use = given->numbers.allocated_bytes;
    bool is_possible = !vw__doctor_knows(given->said.reserved_bytes) ||
                       (vw__doctor_knows(in_use) && in_use <= given->said.reserved_bytes);
    return given->card_bytes != 0 && vw__doctor_knows(in_use) && is_possible &&
           in_use > vw__doctor_less(given->card_bytes, known_or_none(given->others_bytes));
}

static bool would_be_served_on_card(const vw__text_case *given)
{
    const vw_memory_numbers *said = &given->said, *moved = &given->numbers;
    if (given->card_bytes == 0 || !VW__DOCTOR_KNOWS_ALL(moved->free_bytes, moved->tried_bytes))
        return false;
    uint64_t hundredth = given->card_bytes / 100;
    uint64_t spare = hundredth > SPARE_BYTES ? hundredth : SPARE_BYTES;
    bool was_the_card =
        said->free_bytes < said->tried_bytes || vw__doctor_knows(said->allowed_bytes);
    return was_the_card && vw__doctor_less(moved->free_bytes, moved->tried_bytes) >= spare;
}

/* ---- what they come to ------------------------------------------------------------------------
 */

static void conclude_served(const vw__text_case *given)
{
    vw__diagnosis_reason(given->draft, "The request of $tried would fit in what is free there; "
                                       "what the program would ask for next is not known.");
    vw__diagnosis_conclude(
        given->draft, VW_VERDICT_HEALTHY, vw__text_confidence(given, VW_CONFIDENCE_MEDIUM),
        "Healthy on a card of $card: the $tried that were refused would be served, with %s to "
        "spare.",
        VW__DOCTOR_SIZE(vw__doctor_less(given->numbers.free_bytes, given->numbers.tried_bytes)));
}

static void conclude_too_much_for_card(vw__text_case *given)
{
    uint64_t in_use = given->numbers.allocated_bytes, others = known_or_none(given->others_bytes);
    given->judged = (vw__numbers_verdict){
        .verdict = VW_VERDICT_GENUINE, .idle_bytes = 0, .outside_bytes = given->others_bytes};
    const char *beside =
        in_use <= given->card_bytes
            ? vw__diagnosis_text(given->draft, ", beside %s of others,", VW__DOCTOR_SIZE(others))
            : "";
    vw__diagnosis_reason(given->draft, "What is in use, %s,%s is more than the card by itself.",
                         VW__DOCTOR_SIZE(in_use),
                         others != 0 ? vw__diagnosis_text(given->draft,
                                                          " together with the %s that others hold,",
                                                          VW__DOCTOR_SIZE(others))
                                     : "");
    vw__diagnosis_conclude(
        given->draft, VW_VERDICT_GENUINE, vw__text_confidence(given, VW_CONFIDENCE_HIGH),
        "Genuine: %s in use%s do not fit on a card of $card, before the request is even made.",
        VW__DOCTOR_SIZE(in_use), beside);
    vw__text_add_findings(given, VW_VERDICT_GENUINE);
}

bool vw__text_judge_on_card(vw__text_case *given)
{
    move_to_card(given);
    given->draft->numbers = given->numbers;
    if (is_more_than_card_in_use(given))
        conclude_too_much_for_card(given);
    else if (would_be_served_on_card(given))
        conclude_served(given);
    else
        return false;
    return true;
}
