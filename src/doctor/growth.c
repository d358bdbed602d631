/* growth.c - a log whose steps grow, and that ends in an error.
 *
 * The log of a run that died has its steps as well. By its numbers the message may be genuine, but
 * if memory grew step by step before it, the growth is the cause and a smaller batch only puts it
 * off. The steps are judged in the same draft; of that only a leak is kept, as a finding, and as
 * the verdict where it explains the failure: as for recordings, where it is no less than what was
 * asked for, and no trifle beside what is in use.
 *
 * That holds at a limit too, printed or not (PyTorch before 2.5 prints none, and the message then
 * looks as if the device had refused for no reason). What is in use now was granted; without the
 * growth there would be as much less of it as was asked for, so the request would have been served
 * under any limit. A request larger than all of the growth is not explained by it, and stays what
 * its numbers make it. */
#include <string.h>

#include "doctor/doctor.h"
#include "base/error.h"

enum { TELLING_SHARE = 20 }; /* of what is live: less is a trifle */

/* Is it the memory that ran out which grew, and would freeing some have helped? */
static bool can_come_of_growth(vw_verdict verdict, bool is_of_host)
{
    return verdict != VW_VERDICT_TOO_LARGE && (verdict == VW_VERDICT_HOST) == is_of_host;
}

/* The card had the memory: what was reached is a limit. */
static bool is_at_a_limit(vw_verdict verdict)
{
    return verdict == VW_VERDICT_CAPPED || verdict == VW_VERDICT_REFUSED;
}

bool vw__doctor_explains_failure(uint64_t held_bytes, uint64_t idle_bytes, uint64_t tried_bytes,
                                 uint64_t live_bytes)
{
    return (!vw__doctor_knows(tried_bytes) || held_bytes + idle_bytes >= tried_bytes) &&
           (!vw__doctor_knows(live_bytes) || held_bytes >= live_bytes / TELLING_SHARE);
}

/* The first leak among the findings from `from` on. */
static vw__diagnosis_finding *leak_among(const vw__diagnosis_draft *draft, size_t from)
{
    for (size_t i = from; i < draft->finding_count; i++)
        if (strcmp(draft->findings[i]->kind, "leak") == 0)
            return draft->findings[i];
    return NULL;
}

/* What a draft said before something else was judged in it. */
typedef struct answer {
    vw_verdict verdict;
    vw_confidence confidence;
    const char *sentence;
    vw_memory_numbers numbers;
} answer;

static answer answer_of(const vw__diagnosis_draft *draft)
{
    return (answer){draft->verdict, draft->confidence, draft->sentence, draft->numbers};
}

static void put_answer(const answer *given, vw__diagnosis_draft *draft)
{
    draft->verdict = given->verdict;
    draft->confidence = given->confidence;
    draft->sentence = given->sentence;
    draft->numbers = given->numbers;
}

static const char *limit_clause(vw__diagnosis_draft *draft)
{
    uint64_t allowed = draft->numbers.allowed_bytes;
    if (!is_at_a_limit(draft->verdict))
        return "";
    return vw__doctor_knows(allowed)
               ? vw__diagnosis_text(draft, " by the limit of %s", VW__DOCTOR_SIZE(allowed))
               : " by a limit, not by the card";
}

static void explain_limit(vw__diagnosis_draft *draft)
{
    const vw_memory_numbers *failed = &draft->numbers;
    if (!is_at_a_limit(draft->verdict))
        return;
    const char *free = vw__doctor_knows(failed->free_bytes)
                           ? vw__diagnosis_size(draft, failed->free_bytes)
                           : "enough";
    if (vw__doctor_knows(failed->allowed_bytes))
        vw__diagnosis_reason(
            draft,
            "The card had %s free: what memory grew up to is the limit of %s that was set "
            "(set_per_process_memory_fraction). A higher one only delays the failure.",
            free, VW__DOCTOR_SIZE(failed->allowed_bytes));
    else
        vw__diagnosis_reason(
            draft,
            "The card had %s free: what memory grew up to is a limit that the message does not "
            "name, as PyTorch before 2.5 does not (set_per_process_memory_fraction). A higher one "
            "only delays the failure.",
            free);
}

/* What grew, with how it ended. On another card it has not ended: then the steps' own sentence. A
 * limit that nobody names is a conclusion. */
static void conclude_leak(uint64_t card_bytes, const answer *steps, const vw__doctor_growth *growth,
                          vw__diagnosis_draft *draft)
{
    uint64_t tried = draft->numbers.tried_bytes;
    vw_confidence confidence = steps->confidence;
    if (draft->verdict == VW_VERDICT_REFUSED && confidence == VW_CONFIDENCE_HIGH)
        confidence = VW_CONFIDENCE_MEDIUM;
    const char *limit = limit_clause(draft);
    if (card_bytes != 0)
        vw__diagnosis_conclude(draft, VW_VERDICT_LEAK, confidence, "%s", steps->sentence);
    else
        vw__diagnosis_conclude(
            draft, VW_VERDICT_LEAK, confidence, "%s; then %s%s.", growth->clause,
            vw__doctor_knows(tried)
                ? vw__diagnosis_text(draft, "%s more were refused", VW__DOCTOR_SIZE(tried))
                : "it failed",
            vw__doctor_knows(tried) ? limit : "");
}

/* The growth in place of what the message came to, where it explains that; else beside it. */
static void weigh_growth(const vw__step_log *log, const vw__doctor_growth *growth,
                         uint64_t card_bytes, const answer *steps, vw__diagnosis_draft *draft)
{
    const vw_memory_numbers *failed = &draft->numbers;
    uint64_t tried = failed->tried_bytes, live = failed->allocated_bytes;
    uint64_t grown_bytes = growth->grown_bytes;
    if (!vw__doctor_knows(live) || growth->is_host)
        live = steps->numbers.allocated_bytes;
    if (!vw__doctor_knows(grown_bytes) || !can_come_of_growth(draft->verdict, growth->is_host))
        return;
    const char *grown = vw__diagnosis_size(draft, grown_bytes);
    if (!vw__doctor_explains_failure(grown_bytes, 0, tried, live)) {
        vw__diagnosis_reason(draft,
                             "It grew by %s in the logged %ss, which is %s: it does not explain "
                             "the failure by itself.",
                             grown, log->step_name,
                             vw__doctor_knows(tried) && grown_bytes < tried
                                 ? "less than was asked for"
                                 : "less than a twentieth of what is in use");
        return;
    }
    vw__diagnosis_reason(
        draft,
        "By its numbers alone the message is %s; but memory grew by %s in the logged %ss before "
        "it, %s%s%s a twentieth of what is in use or more: the growth explains the failure.",
        vw_verdict_name(draft->verdict), grown, log->step_name,
        vw__doctor_knows(tried) ? "no less than the " : "",
        vw__doctor_knows(tried) ? VW__DOCTOR_SIZE(tried) : "",
        vw__doctor_knows(tried) ? " asked for, and" : "");
    if (card_bytes == 0)
        explain_limit(draft);
    conclude_leak(card_bytes, steps, growth, draft);
}

vw_status vw__doctor_add_growth(const vw__step_log *log, const vw_doctor_options *options,
                                vw__diagnosis_draft *draft)
{
    const answer text = answer_of(draft);
    const size_t reason_count = draft->reason_count, finding_count = draft->finding_count;
    vw__doctor_growth growth;
    VW__TRY(vw__doctor_steps(log, options, draft, &growth));

    const answer steps = answer_of(draft);
    vw__diagnosis_finding *leak = leak_among(draft, finding_count);
    put_answer(&text, draft);
    draft->finding_count = finding_count;
    if (leak == NULL || !growth.is_leak) {
        draft->reason_count = reason_count;
        return VW_OK;
    }
    draft->findings[draft->finding_count++] = leak;
    weigh_growth(log, &growth, options->card_bytes, &steps, draft);
    return VW_OK;
}
