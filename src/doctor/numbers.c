/* numbers.c - from asked, card, limit, free, allocated and reserved to a verdict.
 *
 * The rule (docs/design/005 says why) asks a few questions in order, and the first yes decides:
 *
 *   too-large       the request is larger than the limit, or the card
 *   capped          a limit is set, the card had room, reserved + request exceeds the limit, and
 *                   what PyTorch had idle was too little
 *   fragmentation   what PyTorch had idle would have done, and is a tenth of what it reserved
 *   outside         what others hold, less 1 GiB for a context, would have done, and is a fifth of
 *                   the card
 *   refused         the card had the request free, and room to spare
 *   genuine         else
 *
 * Messages leave numbers out. Rather than a second rule for each combination, a number is a range
 * here: one point where it was said, else whatever the other numbers leave possible. An answer is
 * then yes, no or maybe, and a verdict is given only if every question before it is a no. So a
 * missing number costs the verdict only where it could change it.
 *
 * How sure is an answer? A yes or no from numbers far apart is certain; within a tenth of each
 * other it is less so, since the numbers were not all taken at the same instant; within what
 * rounding to two decimals hides it is a guess. A verdict is as sure as the least sure answer that
 * it needs. */
#include "doctor/numbers.h"

#include <string.h>

#include "base/checked_math.h"

#define UNBOUNDED UINT64_MAX
#define ABSURD_BYTES (UINT64_C(1) << 60) /* no device has so much, or a text was misread */
#define REFUSED_MARGIN_BYTES (UINT64_C(64) << 20)

enum { NEAR_SHARE = 10 };        /* a gap under a tenth is near */
enum { TELLING_IDLE_SHARE = 3 }; /* idle that tells without the request: a third of reserved */
enum { MOST_CANDIDATE_BYTES = 96 };

/* ---- ranges and answers ---------------------------------------------------------------------- */

typedef struct range {
    uint64_t low, high;
} range;

typedef enum truth { NO, MAYBE, YES } truth;

typedef struct answer {
    truth truth;
    vw_confidence confidence; /* of a yes or no */
} answer;

static uint64_t sum(uint64_t a, uint64_t b)
{
    uint64_t result;
    return vw__add_u64(a, b, &result) ? result : UNBOUNDED;
}

/* Nothing below zero; what has no bound keeps none. */
static uint64_t difference(uint64_t a, uint64_t b)
{
    if (a == UNBOUNDED)
        return b == UNBOUNDED ? 0 : UNBOUNDED;
    return a > b ? a - b : 0;
}

static range times(range value, uint64_t factor)
{
    range result;
    if (!vw__mul_u64(value.low, factor, &result.low))
        result.low = UNBOUNDED;
    if (!vw__mul_u64(value.high, factor, &result.high))
        result.high = UNBOUNDED;
    return result;
}

static range plus(range a, range b)
{
    return (range){sum(a.low, b.low), sum(a.high, b.high)};
}

static bool is_point(range value)
{
    return value.low == value.high;
}

static vw_confidence least(vw_confidence a, vw_confidence b)
{
    return a < b ? a : b;
}

static vw_confidence confidence_of_gap(uint64_t gap_bytes, uint64_t larger_bytes,
                                       uint64_t rounding_bytes)
{
    if (rounding_bytes != 0 && gap_bytes <= rounding_bytes)
        return VW_CONFIDENCE_LOW;
    return gap_bytes < larger_bytes / NEAR_SHARE ? VW_CONFIDENCE_MEDIUM : VW_CONFIDENCE_HIGH;
}

/* Is a >= b? */
static answer is_at_least(range a, range b, uint64_t rounding_bytes)
{
    if (a.low >= b.high)
        return (answer){YES, confidence_of_gap(a.low - b.high, a.low, rounding_bytes)};
    if (a.high < b.low)
        return (answer){NO, confidence_of_gap(b.low - a.high, b.low, rounding_bytes)};
    return (answer){MAYBE, VW_CONFIDENCE_LOW};
}

static answer negated(answer given)
{
    return (answer){given.truth == YES ? NO : given.truth == NO ? YES : MAYBE, given.confidence};
}

/* One sure no is enough; a yes needs both. */
static answer both(answer a, answer b)
{
    if (a.truth == NO && b.truth == NO)
        return a.confidence > b.confidence ? a : b;
    if (a.truth == NO || b.truth == NO)
        return a.truth == NO ? a : b;
    if (a.truth == YES && b.truth == YES)
        return (answer){YES, least(a.confidence, b.confidence)};
    return (answer){MAYBE, VW_CONFIDENCE_LOW};
}

static answer either(answer a, answer b)
{
    return negated(both(negated(a), negated(b)));
}

/* ---- the numbers ----------------------------------------------------------------------------- */

typedef struct inquiry {
    const vw_memory_numbers *numbers;
    vw__diagnosis_draft *draft; /* or NULL */
    bool is_printed;
    range tried, total, free, allocated, reserved; /* in bytes */
    range idle;                                    /* reserved - allocated */
    range outside;                                 /* total - free - reserved - a context */
    vw_confidence confidence;                      /* of the answers so far */
    uint32_t possible;
    vw__numbers_verdict result;
} inquiry;

/* Half of the last digit that was printed. */
static uint64_t rounding_of(const inquiry *given, uint64_t size_bytes)
{
    if (!given->is_printed || !vw__doctor_knows(size_bytes) || size_bytes <= UINT64_C(1) << 10)
        return 0;
    if (size_bytes > UINT64_C(1) << 30)
        return (UINT64_C(1) << 30) / 200;
    return size_bytes > UINT64_C(1) << 20 ? (UINT64_C(1) << 20) / 200 : (UINT64_C(1) << 10) / 200;
}

static range point_or(uint64_t size_bytes, range otherwise)
{
    return vw__doctor_knows(size_bytes) ? (range){size_bytes, size_bytes} : otherwise;
}

static void set_ranges(inquiry *given)
{
    const vw_memory_numbers *said = given->numbers;
    uint64_t total = said->total_bytes; /* VW_UNKNOWN is no bound */
    uint64_t most_reserved =
        vw__doctor_knows(said->free_bytes) ? difference(total, said->free_bytes) : total;
    uint64_t least_reserved = vw__doctor_knows(said->allocated_bytes) ? said->allocated_bytes : 0;
    if (most_reserved < least_reserved)
        most_reserved = least_reserved;

    given->tried = point_or(said->tried_bytes, (range){1, UNBOUNDED});
    given->total = point_or(total, (range){1, UNBOUNDED});
    given->reserved = point_or(said->reserved_bytes, (range){least_reserved, most_reserved});
    given->allocated = point_or(said->allocated_bytes, (range){0, given->reserved.high});
    given->free = point_or(said->free_bytes, (range){0, difference(total, given->reserved.low)});
    given->idle = (range){difference(given->reserved.low, given->allocated.high),
                          difference(given->reserved.high, given->allocated.low)};
    if (given->idle.low == UNBOUNDED)
        given->idle.low = 0;

    uint64_t held_high =
        sum(sum(given->free.high, given->reserved.high), VW__NUMBERS_CONTEXT_BYTES);
    uint64_t held_low = sum(sum(given->free.low, given->reserved.low), VW__NUMBERS_CONTEXT_BYTES);
    given->outside = (range){vw__doctor_knows(total) ? difference(total, held_high) : 0,
                             difference(total, held_low)};
}

static void set_differences(inquiry *given)
{
    const vw_memory_numbers *said = given->numbers;
    if (VW__DOCTOR_KNOWS_ALL(said->reserved_bytes, said->allocated_bytes))
        given->result.idle_bytes = difference(said->reserved_bytes, said->allocated_bytes);
    if (VW__DOCTOR_KNOWS_ALL(said->total_bytes, said->free_bytes, said->reserved_bytes))
        given->result.outside_bytes =
            difference(said->total_bytes, sum(said->free_bytes, said->reserved_bytes));
}

/* For lines that only make sense with a listener. */
#define SAY(given, ...)                                                                            \
    do {                                                                                           \
        if ((given)->draft != NULL)                                                                \
            vw__diagnosis_reason((given)->draft, __VA_ARGS__);                                     \
    } while (0)

/* ---- contradictions -------------------------------------------------------------------------- */

/* Clearly more, both known, and not by rounding. */
static bool exceeds(const inquiry *given, uint64_t a_bytes, uint64_t b_bytes)
{
    if (!VW__DOCTOR_KNOWS_ALL(a_bytes, b_bytes))
        return false;
    return a_bytes > sum(b_bytes, rounding_of(given, a_bytes) + rounding_of(given, b_bytes));
}

static bool is_absurd(uint64_t size_bytes)
{
    return vw__doctor_knows(size_bytes) && size_bytes >= ABSURD_BYTES;
}

static bool is_contradiction(inquiry *given)
{
    const vw_memory_numbers *said = given->numbers;
    if (exceeds(given, said->free_bytes, said->total_bytes)) {
        SAY(given, "The card is said to have $free free of $total in all, which cannot be%s.",
            is_absurd(said->free_bytes) ? ": the driver's counter ran below zero" : "");
        return true;
    }
    if (exceeds(given, said->reserved_bytes, said->total_bytes) ||
        exceeds(given, said->allocated_bytes, said->total_bytes)) {
        bool is_reserved = exceeds(given, said->reserved_bytes, said->total_bytes);
        given->result.is_oversubscribed = true;
        SAY(given,
            "PyTorch has %s %s on a card of $total: the driver has moved memory to the host "
            "(shared GPU memory, on Windows), and what it says of the card no longer tells "
            "anything.",
            is_reserved ? "reserved" : "allocated",
            VW__DOCTOR_SIZE(is_reserved ? said->reserved_bytes : said->allocated_bytes));
        return true;
    }
    if (exceeds(given, said->allocated_bytes, said->reserved_bytes)) {
        SAY(given, "$in_use are said to be allocated of $reserved reserved, which cannot be.");
        return true;
    }
    if (is_absurd(said->total_bytes) || is_absurd(said->free_bytes) ||
        is_absurd(said->allocated_bytes) || is_absurd(said->reserved_bytes)) {
        SAY(given, "A number here is larger than any device: a counter below zero, or a text that "
                   "was damaged.");
        return true;
    }
    return false;
}

/* ---- the questions, in order ----------------------------------------------------------------- */

static answer is_too_large(inquiry *given)
{
    const vw_memory_numbers *said = given->numbers;
    uint64_t rounding = rounding_of(given, said->tried_bytes);
    answer above_card = negated(
        is_at_least(given->total, given->tried, rounding + rounding_of(given, said->total_bytes)));
    answer above_limit = {NO, VW_CONFIDENCE_HIGH};
    if (vw__doctor_knows(said->allowed_bytes))
        above_limit =
            negated(is_at_least((range){said->allowed_bytes, said->allowed_bytes}, given->tried,
                                rounding + rounding_of(given, said->allowed_bytes)));

    bool is_of_limit = above_limit.truth == YES || (vw__doctor_knows(said->allowed_bytes) &&
                                                    !vw__doctor_knows(said->total_bytes));
    uint64_t bound = is_of_limit ? said->allowed_bytes : said->total_bytes;
    answer result = either(above_card, above_limit);
    if (VW__DOCTOR_KNOWS_ALL(said->tried_bytes, bound))
        SAY(given, "One request: $tried, %s %s of %s%s.",
            result.truth == YES ? "more than" : "no more than",
            is_of_limit ? "the limit" : "the card", VW__DOCTOR_SIZE(bound),
            result.truth == YES ? ", so nothing that is freed could serve it" : "");
    /* The driver had it free, so the card, whatever its size, is not smaller. */
    if (result.truth == MAYBE && VW__DOCTOR_KNOWS_ALL(said->tried_bytes, said->free_bytes) &&
        said->free_bytes >= said->tried_bytes && above_limit.truth == NO)
        result = (answer){NO, VW_CONFIDENCE_HIGH};
    return result;
}

static answer is_capped(inquiry *given)
{
    const vw_memory_numbers *said = given->numbers;
    uint64_t limit = said->allowed_bytes;
    if (!vw__doctor_knows(limit))
        return (answer){NO, VW_CONFIDENCE_HIGH};
    uint64_t rounding = rounding_of(given, said->tried_bytes);
    answer has_room =
        is_at_least(given->free, given->tried, rounding + rounding_of(given, said->free_bytes));
    range wanted = plus(given->reserved, given->tried);
    uint64_t limit_rounding =
        rounding + rounding_of(given, said->reserved_bytes) + rounding_of(given, limit);
    answer is_over = negated(is_at_least((range){limit, limit}, wanted, limit_rounding));
    /* As printed it fits by less than the rounding: with room on the card, it was the limit. */
    if (is_over.truth == NO && is_over.confidence == VW_CONFIDENCE_LOW)
        is_over.truth = YES;
    answer idle_is_short = negated(is_at_least(given->idle, given->tried,
                                               rounding + rounding_of(given, said->reserved_bytes) +
                                                   rounding_of(given, said->allocated_bytes)));
    answer result = both(both(has_room, is_over), idle_is_short);
    if (is_point(wanted))
        SAY(given, "The limit: reserved %s + request %s = %s, and %s are allowed: %s%s.",
            VW__DOCTOR_SIZE(given->reserved.low), VW__DOCTOR_SIZE(given->tried.low),
            VW__DOCTOR_SIZE(wanted.low), VW__DOCTOR_SIZE(limit),
            is_over.truth != YES                      ? "within it"
            : is_over.confidence == VW_CONFIDENCE_LOW ? "at it, within rounding"
                                                      : "over it",
            is_over.truth != YES || has_room.truth == MAYBE ? ""
            : has_room.truth == NO      ? ", but the card itself had too little free"
            : idle_is_short.truth == NO ? ", but what PyTorch had idle would have done"
                                        : ", while the card itself had room");
    else if (VW__DOCTOR_KNOWS_ALL(said->allocated_bytes, said->tried_bytes))
        SAY(given, "The limit: allocated $in_use + request $tried = %s, and %s are allowed: %s.",
            VW__DOCTOR_SIZE(wanted.low), VW__DOCTOR_SIZE(limit),
            wanted.low > limit ? "over it, whatever is reserved besides"
                               : "within it; what is reserved besides is not said");
    else
        SAY(given, "A limit of %s is set; how near it was is not said.", VW__DOCTOR_SIZE(limit));
    return result;
}

static answer is_fragmentation(inquiry *given)
{
    const vw_memory_numbers *said = given->numbers;
    uint64_t rounding =
        rounding_of(given, said->reserved_bytes) + rounding_of(given, said->allocated_bytes);
    answer would_do =
        is_at_least(given->idle, given->tried, rounding + rounding_of(given, said->tried_bytes));
    /* Both ends of idle go with their own end of reserved, or nothing would ever be ruled out. */
    range tenfold = times(given->idle, 10);
    answer is_much = {MAYBE, VW_CONFIDENCE_LOW};
    if (tenfold.low >= given->reserved.low && is_point(given->reserved))
        is_much = is_at_least((range){tenfold.low, tenfold.low}, given->reserved, 10 * rounding);
    else if (tenfold.high < given->reserved.high)
        is_much = is_at_least((range){tenfold.high, tenfold.high},
                              (range){given->reserved.high, given->reserved.high}, 10 * rounding);
    answer result = both(would_do, is_much);

    uint64_t idle = given->result.idle_bytes;
    if (!vw__doctor_knows(idle))
        return result;
    given->result.is_small_fragmentation = would_do.truth == YES && is_much.truth == NO;
    vw__doctor_size_text tenth = vw__doctor_size(said->reserved_bytes / 10);
    if (would_do.truth == MAYBE)
        SAY(given,
            "Reserved $reserved - allocated $in_use = %s idle, %s a tenth of what is reserved "
            "(%s).",
            VW__DOCTOR_SIZE(idle), is_much.truth == YES ? "more than" : "less than", tenth.text);
    else
        SAY(given,
            "Idle: reserved $reserved - allocated $in_use = %s, %s the $tried asked for%s%s%s.",
            VW__DOCTOR_SIZE(idle), would_do.truth == YES ? "enough for" : "less than",
            would_do.truth == NO   ? ""
            : is_much.truth == YES ? ", and at least a tenth of what is reserved ("
                                   : ", but less than a tenth of what is reserved (",
            would_do.truth == NO ? "" : tenth.text, would_do.truth == NO ? "" : ")");
    return result;
}

static answer is_outside(inquiry *given)
{
    const vw_memory_numbers *said = given->numbers;
    uint64_t rounding = rounding_of(given, said->total_bytes) +
                        rounding_of(given, said->free_bytes) +
                        rounding_of(given, said->reserved_bytes);
    answer would_do =
        is_at_least(given->outside, given->tried, rounding + rounding_of(given, said->tried_bytes));
    answer is_much = is_at_least(times(given->outside, 5), given->total, 5 * rounding);
    answer result = both(would_do, is_much);

    uint64_t held = given->result.outside_bytes;
    if (!vw__doctor_knows(held))
        return result;
    if (held == 0) {
        SAY(given, "Outside PyTorch: card $total - free $free - reserved $reserved leave nothing "
                   "for others.");
        return result;
    }
    uint64_t beyond = difference(held, VW__NUMBERS_CONTEXT_BYTES);
    SAY(given, "Outside PyTorch: card $total - free $free - reserved $reserved = %s%s%s%s.",
        VW__DOCTOR_SIZE(held),
        beyond == 0 ? ", no more than the 1 GiB that a context may take" : ", of which ",
        beyond == 0 ? "" : VW__DOCTOR_SIZE(beyond),
        beyond == 0 ? ""
        : result.truth == YES
            ? " are more than a context takes: at least the request, and a fifth of the card"
        : would_do.truth == NO ? " are more than a context takes: less than the request"
        : is_much.truth == NO  ? " are more than a context takes: less than a fifth of the card"
                               : " are more than a context takes");
    return result;
}

static answer is_refused(inquiry *given)
{
    const vw_memory_numbers *said = given->numbers;
    range margin = {REFUSED_MARGIN_BYTES, REFUSED_MARGIN_BYTES};
    uint64_t share_low = vw__ceil_div_u64(given->total.low, 100);
    uint64_t share_high =
        given->total.high == UNBOUNDED ? UNBOUNDED : vw__ceil_div_u64(given->total.high, 100);
    margin.low = share_low > margin.low ? share_low : margin.low;
    margin.high = share_high > margin.high ? share_high : margin.high;
    answer result =
        is_at_least(given->free, plus(given->tried, margin),
                    rounding_of(given, said->free_bytes) + rounding_of(given, said->tried_bytes));
    if (!VW__DOCTOR_KNOWS_ALL(said->free_bytes, said->tried_bytes))
        return result;
    vw__doctor_size_text free_text = vw__doctor_size(said->free_bytes),
                         tried_text = vw__doctor_size(said->tried_bytes);
    if (said->free_bytes < said->tried_bytes)
        SAY(given, "Free on the card: %s, less than the %s asked for.", free_text.text,
            tried_text.text);
    else if (result.truth == NO)
        SAY(given,
            "Free on the card: %s, which covers the %s asked for by less than the driver keeps "
            "back (%s): nothing was refused that could be had.",
            free_text.text, tried_text.text, VW__DOCTOR_SIZE(margin.low));
    else
        SAY(given, "Free on the card: %s, %s more than the %s asked for, and yet it failed.",
            free_text.text, VW__DOCTOR_SIZE(said->free_bytes - said->tried_bytes), tried_text.text);
    return result;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

typedef struct question {
    vw_verdict verdict;
    answer (*ask)(inquiry *given);
} question;

static const question questions[] = {
    {VW_VERDICT_TOO_LARGE, is_too_large},
    {VW_VERDICT_CAPPED, is_capped},
    {VW_VERDICT_FRAGMENTATION, is_fragmentation},
    {VW_VERDICT_OUTSIDE, is_outside},
    {VW_VERDICT_REFUSED, is_refused},
};

/* Without the size of the request, idle bytes can still be so many that hardly any request needs
 * more: a third of what is reserved. */
static bool is_fragmentation_whatever_was_asked(const inquiry *given)
{
    const vw_memory_numbers *said = given->numbers;
    uint64_t idle = given->result.idle_bytes;
    return !vw__doctor_knows(said->tried_bytes) && vw__doctor_knows(idle) && idle != 0 &&
           idle >= said->reserved_bytes / TELLING_IDLE_SHARE;
}

/* The card had the request free and to spare, and what is missing decides only between the limit
 * and causes that are rare beside it. */
static bool is_capped_most_likely(const inquiry *given)
{
    uint32_t capped = UINT32_C(1) << VW_VERDICT_CAPPED, refused = UINT32_C(1) << VW_VERDICT_REFUSED;
    uint32_t all = capped | refused | UINT32_C(1) << VW_VERDICT_FRAGMENTATION;
    return vw__doctor_knows(given->numbers->tried_bytes) && (given->possible & capped) != 0 &&
           (given->possible & refused) != 0 && (given->possible & ~all) == 0;
}

static void add_word(char text[MOST_CANDIDATE_BYTES], const char *word)
{
    size_t length = strlen(text), more = strlen(word) + (length != 0 ? 2 : 0);
    if (length + more >= MOST_CANDIDATE_BYTES)
        return;
    if (length != 0)
        memcpy(text + length, ", ", 2);
    memcpy(text + length + more - strlen(word), word, strlen(word) + 1);
}

static void say_what_is_missing(inquiry *given)
{
    const vw_memory_numbers *said = given->numbers;
    char missing[MOST_CANDIDATE_BYTES] = "", candidates[MOST_CANDIDATE_BYTES] = "";
    const struct {
        uint64_t size_bytes;
        const char *name;
    } wanted[] = {
        {said->tried_bytes, "the request"},  {said->total_bytes, "the size of the card"},
        {said->free_bytes, "what was free"}, {said->allocated_bytes, "allocated"},
        {said->reserved_bytes, "reserved"},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!vw__doctor_knows(wanted[i].size_bytes))
            add_word(missing, wanted[i].name);
    for (uint32_t verdict = 0; verdict < 32; verdict++)
        if ((given->possible & (UINT32_C(1) << verdict)) != 0)
            add_word(candidates, vw_verdict_name((vw_verdict)verdict));
    SAY(given, "Not said: %s. With what is known it can be any of: %s.", missing, candidates);
}

static void decide(inquiry *given, vw_verdict verdict, vw_confidence confidence)
{
    given->result.verdict = verdict;
    given->result.confidence = confidence;
}

static void ask_everything(inquiry *given)
{
    given->confidence = VW_CONFIDENCE_HIGH;
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        answer got = questions[i].ask(given);
        if (got.truth == YES && given->possible == 0) {
            decide(given, questions[i].verdict, least(given->confidence, got.confidence));
            return;
        }
        if (got.truth != NO)
            given->possible |= UINT32_C(1) << questions[i].verdict;
        if (got.truth == YES)
            break; /* what comes after cannot be */
        given->confidence =
            least(given->confidence, got.truth == NO ? got.confidence : VW_CONFIDENCE_HIGH);
        if (i + 1 == sizeof questions / sizeof *questions) {
            if (given->possible == 0) {
                SAY(given, "No other cause remains: more was needed than there was.");
                decide(given, VW_VERDICT_GENUINE, given->confidence);
            }
            given->possible |= UINT32_C(1) << VW_VERDICT_GENUINE;
        }
    }
    if (given->result.verdict != VW_VERDICT_UNKNOWN)
        return;
    if (is_fragmentation_whatever_was_asked(given)) {
        SAY(given, "What was asked for is not said, but %s would serve almost any request.",
            VW__DOCTOR_SIZE(given->result.idle_bytes));
        decide(given, VW_VERDICT_FRAGMENTATION, VW_CONFIDENCE_MEDIUM);
        return;
    }
    if (is_capped_most_likely(given)) {
        SAY(given, "The card had room and a limit is set: the limit is the likeliest cause.");
        decide(given, VW_VERDICT_CAPPED, VW_CONFIDENCE_LOW);
        return;
    }
    given->result.possible = given->possible;
    say_what_is_missing(given);
}

/* What the numbers cannot show lowers what they say. */
static void temper(inquiry *given)
{
    const vw_memory_numbers *said = given->numbers;
    vw__numbers_verdict *result = &given->result;
    bool covers = VW__DOCTOR_KNOWS_ALL(said->free_bytes, said->tried_bytes) &&
                  said->free_bytes >= said->tried_bytes;
    if (result->verdict == VW_VERDICT_GENUINE && covers)
        result->confidence = least(result->confidence, VW_CONFIDENCE_MEDIUM);
    /* A limit need not be printed: PyTorch 2.1 to 2.4 never did. */
    if (result->verdict == VW_VERDICT_REFUSED && !vw__doctor_knows(said->allowed_bytes))
        result->confidence = least(result->confidence, VW_CONFIDENCE_MEDIUM);
    /* With the limit in the way, PyTorch may not have asked the driver at all. */
    if (result->verdict == VW_VERDICT_REFUSED && vw__doctor_knows(said->allowed_bytes) &&
        sum(given->reserved.high, said->tried_bytes) > said->allowed_bytes)
        result->confidence = VW_CONFIDENCE_LOW;
    if (VW__DOCTOR_KNOWS_ALL(said->free_bytes, said->reserved_bytes) &&
        exceeds(given, sum(said->free_bytes, said->reserved_bytes), said->total_bytes)) {
        SAY(given, "Free and reserved come to more than the card: some of what PyTorch holds is "
                   "not on it.");
        result->confidence = least(result->confidence, VW_CONFIDENCE_LOW);
    }
}

static vw__numbers_verdict judge(const vw_memory_numbers *numbers, vw__diagnosis_draft *draft,
                                 bool is_printed)
{
    inquiry given = {
        .numbers = numbers,
        .draft = draft,
        .is_printed = is_printed,
        .result = {.verdict = VW_VERDICT_UNKNOWN,
                   .confidence = VW_CONFIDENCE_LOW,
                   .idle_bytes = VW_UNKNOWN,
                   .outside_bytes = VW_UNKNOWN},
    };
    if (draft != NULL)
        vw__diagnosis_name_numbers(draft, numbers);
    if (is_contradiction(&given)) {
        given.result.is_contradiction = true;
        return given.result;
    }
    set_differences(&given);
    set_ranges(&given);
    ask_everything(&given);
    temper(&given);
    return given.result;
}

vw__numbers_verdict vw__numbers_judge(const vw_memory_numbers *numbers, vw__diagnosis_draft *draft)
{
    return judge(numbers, draft, false);
}

vw__numbers_verdict vw__numbers_judge_printed(const vw_memory_numbers *numbers,
                                              vw__diagnosis_draft *draft)
{
    return judge(numbers, draft, true);
}
