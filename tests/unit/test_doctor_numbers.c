/* test_doctor_numbers.c - the rule, its edges, and what it says when numbers are missing. */
#include "doctor/numbers.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define NONE VW_UNKNOWN

/* As a message says them, in the order of the rule's letters: T, C, L, F, A, R. */
static vw_memory_numbers numbers(uint64_t tried, uint64_t total, uint64_t allowed, uint64_t free,
                                 uint64_t allocated, uint64_t reserved)
{
    return (vw_memory_numbers){.tried_bytes = tried,
                               .total_bytes = total,
                               .free_bytes = free,
                               .allocated_bytes = allocated,
                               .reserved_bytes = reserved,
                               .process_bytes = NONE,
                               .allowed_bytes = allowed,
                               .device = -1};
}

static vw_verdict verdict_of(vw_memory_numbers given)
{
    return vw__numbers_judge(&given, NULL).verdict;
}

/* 15.87 GiB, as text has it. */
static uint64_t gib(double value)
{
    return (uint64_t)(value * (double)GIB + 0.5);
}

/* ---- the rule -------------------------------------------------------------------------------- */

static void a_request_above_the_card_or_the_limit_is_too_large(void **state)
{
    (void)state;
    assert_int_equal(verdict_of(numbers(8 * GIB + 1, 8 * GIB, NONE, GIB, GIB, GIB)),
                     VW_VERDICT_TOO_LARGE);
    assert_int_not_equal(verdict_of(numbers(8 * GIB, 8 * GIB, NONE, GIB, GIB, GIB)),
                         VW_VERDICT_TOO_LARGE);
    assert_int_equal(verdict_of(numbers(4 * GIB + 1, 8 * GIB, 4 * GIB, 6 * GIB, 0, 0)),
                     VW_VERDICT_TOO_LARGE);
    /* a limit above the card is none */
    assert_int_equal(verdict_of(numbers(8 * GIB + 1, 8 * GIB, 16 * GIB, GIB, GIB, GIB)),
                     VW_VERDICT_TOO_LARGE);
}

static void a_limit_caps_where_the_card_has_room_and_idle_is_short(void **state)
{
    (void)state;
    vw_memory_numbers given = numbers(GIB, 24 * GIB, 10 * GIB, 13 * GIB, 9 * GIB, 9 * GIB + 1);
    assert_int_equal(verdict_of(given), VW_VERDICT_CAPPED);
    given.reserved_bytes = 9 * GIB; /* exactly at the limit is within it */
    assert_int_equal(verdict_of(given), VW_VERDICT_REFUSED);
    given.reserved_bytes = 9 * GIB + 1;
    given.free_bytes = GIB - 1; /* the card itself was full */
    assert_int_not_equal(verdict_of(given), VW_VERDICT_CAPPED);
    given.free_bytes = GIB;
    assert_int_equal(verdict_of(given), VW_VERDICT_CAPPED);
    given.allocated_bytes = 8 * GIB + 1; /* idle is enough, and a tenth of reserved */
    assert_int_equal(verdict_of(given), VW_VERDICT_FRAGMENTATION);
}

static void idle_bytes_that_would_do_are_fragmentation_from_a_tenth_of_reserved_on(void **state)
{
    (void)state;
    assert_int_equal(verdict_of(numbers(GIB, 12 * GIB, NONE, 0, 9 * GIB, 10 * GIB)),
                     VW_VERDICT_FRAGMENTATION);
    assert_int_equal(verdict_of(numbers(GIB + 1, 12 * GIB, NONE, 0, 9 * GIB, 10 * GIB)),
                     VW_VERDICT_GENUINE);
    vw_memory_numbers given = numbers(MIB, 12 * GIB, NONE, 0, 9 * GIB + 1, 10 * GIB);
    vw__number_verdict got = vw__numbers_judge(&given, NULL);
    assert_int_equal(got.verdict, VW_VERDICT_GENUINE);
    assert_true(got.is_small_fragmentation);
    assert_int_equal(got.idle_bytes, GIB - 1);
}

static void memory_of_others_counts_beyond_a_context_from_a_fifth_of_the_card_on(void **state)
{
    (void)state;
    /* 10 - 0 - 7 - 1 = 2, a fifth of ten */
    assert_int_equal(verdict_of(numbers(2 * GIB, 10 * GIB, NONE, 0, 7 * GIB, 7 * GIB)),
                     VW_VERDICT_OUTSIDE);
    assert_int_equal(verdict_of(numbers(2 * GIB + 1, 10 * GIB, NONE, 0, 7 * GIB, 7 * GIB)),
                     VW_VERDICT_GENUINE);
    assert_int_equal(verdict_of(numbers(GIB, 10 * GIB, NONE, 1, 7 * GIB, 7 * GIB)),
                     VW_VERDICT_GENUINE);
    vw_memory_numbers given = numbers(GIB, 10 * GIB, NONE, GIB, 5 * GIB, 5 * GIB);
    assert_int_equal(vw__numbers_judge(&given, NULL).outside_bytes, 4 * GIB);
}

static void what_was_free_with_room_to_spare_was_refused(void **state)
{
    (void)state;
    /* on a small card the room is 64 MiB, on a large one a hundredth */
    assert_int_equal(verdict_of(numbers(GIB, 4 * GIB, NONE, GIB + 64 * MIB, 2 * GIB, 2 * GIB)),
                     VW_VERDICT_REFUSED);
    assert_int_equal(verdict_of(numbers(GIB, 4 * GIB, NONE, GIB + 64 * MIB - 1, 2 * GIB, 2 * GIB)),
                     VW_VERDICT_GENUINE);
    assert_int_equal(verdict_of(numbers(GIB, 100 * GIB, NONE, 2 * GIB, 97 * GIB, 97 * GIB)),
                     VW_VERDICT_REFUSED);
    assert_int_equal(verdict_of(numbers(GIB, 100 * GIB, NONE, 2 * GIB - 1, 97 * GIB, 97 * GIB)),
                     VW_VERDICT_GENUINE);
}

/* The contract's sentence, written once more, plainly. */
static vw_verdict rule_by_the_letter(const vw_memory_numbers *said)
{
    long double tried = said->tried_bytes, total = said->total_bytes, free = said->free_bytes;
    long double reserved = said->reserved_bytes, idle = reserved - said->allocated_bytes;
    bool has_limit = said->allowed_bytes != NONE;
    long double limit = has_limit ? said->allowed_bytes : 0;
    long double outside = total - free - reserved - (long double)GIB;
    long double spare = total / 100 > 64.0L * MIB ? total / 100 : 64.0L * MIB;
    if (tried > total || (has_limit && tried > limit))
        return VW_VERDICT_TOO_LARGE;
    if (has_limit && free >= tried && reserved + tried > limit && idle < tried)
        return VW_VERDICT_CAPPED;
    if (idle >= tried && idle >= reserved / 10)
        return VW_VERDICT_FRAGMENTATION;
    if (outside >= tried && outside >= total / 5)
        return VW_VERDICT_OUTSIDE;
    return free >= tried + spare ? VW_VERDICT_REFUSED : VW_VERDICT_GENUINE;
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Numbers that can be true, of every verdict: in steps of 64 MiB, so that edges are met. */
static vw_memory_numbers random_numbers(uint64_t *seed)
{
    uint64_t total = 1 + next_random(seed) % 512;
    uint64_t reserved = next_random(seed) % (total + 1);
    uint64_t free = next_random(seed) % (total - reserved + 1);
    if (next_random(seed) % 3 == 0)
        free = total - reserved;
    uint64_t allocated =
        reserved - next_random(seed) % (reserved / (1 + next_random(seed) % 12) + 1);
    uint64_t tried = 1 + next_random(seed) % (total + total / 8 + 1);
    if (next_random(seed) % 2 == 0)
        tried = 1 + tried / 16;
    uint64_t limit = reserved + next_random(seed) % (total - reserved + 1);
    bool has_limit = next_random(seed) % 3 == 0;
    const uint64_t step = 64 * MIB;
    return numbers(tried * step, total * step, has_limit ? limit * step : NONE, free * step,
                   allocated * step, reserved * step);
}

static void complete_numbers_always_give_the_verdict_of_the_contract(void **state)
{
    (void)state;
    uint64_t seed = 20240229, count_of[VW_VERDICT_UNKNOWN + 1] = {0};
    for (int i = 0; i < 100000; i++) {
        vw_memory_numbers given = random_numbers(&seed);
        vw_verdict expected = rule_by_the_letter(&given);
        assert_int_equal(verdict_of(given), expected);
        count_of[expected]++;
    }
    const vw_verdict all[] = {VW_VERDICT_TOO_LARGE, VW_VERDICT_CAPPED,  VW_VERDICT_FRAGMENTATION,
                              VW_VERDICT_OUTSIDE,   VW_VERDICT_REFUSED, VW_VERDICT_GENUINE};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_true(count_of[all[i]] > 500);
}

/* ---- missing numbers ------------------------------------------------------------------------- */

static void a_missing_number_never_changes_a_verdict_only_withholds_it(void **state)
{
    (void)state;
    uint64_t seed = 7, decided = 0, withheld = 0;
    for (int i = 0; i < 100000; i++) {
        vw_memory_numbers whole = random_numbers(&seed), given = whole;
        given.allowed_bytes = whole.allowed_bytes = NONE;
        uint64_t hidden = next_random(&seed);
        if ((hidden & 1) != 0)
            given.total_bytes = NONE;
        if ((hidden & 2) != 0)
            given.free_bytes = NONE;
        if ((hidden & 4) != 0)
            given.allocated_bytes = NONE;
        if ((hidden & 8) != 0)
            given.reserved_bytes = NONE;
        vw__number_verdict got = vw__numbers_judge(&given, NULL);
        vw_verdict expected = rule_by_the_letter(&whole);
        if (got.verdict == VW_VERDICT_UNKNOWN) {
            assert_true((got.possible & (UINT32_C(1) << expected)) != 0);
            withheld++;
        } else {
            assert_int_equal(got.verdict, expected);
            decided += (hidden & 15) != 0;
        }
    }
    assert_true(decided > 5000 && withheld > 5000);
}

static void card_and_request_are_enough_for_too_large(void **state)
{
    (void)state;
    assert_int_equal(verdict_of(numbers(9 * GIB, 8 * GIB, NONE, NONE, NONE, NONE)),
                     VW_VERDICT_TOO_LARGE);
    vw_memory_numbers given = numbers(7 * GIB, 8 * GIB, NONE, NONE, NONE, NONE);
    vw__number_verdict got = vw__numbers_judge(&given, NULL);
    assert_int_equal(got.verdict, VW_VERDICT_UNKNOWN);
    assert_int_equal(got.possible & (UINT32_C(1) << VW_VERDICT_TOO_LARGE), 0);
}

static void a_nearly_empty_card_that_fails_has_refused_whatever_is_missing(void **state)
{
    (void)state;
    assert_int_equal(
        verdict_of(numbers(600 * MIB, 24 * GIB, NONE, 23 * GIB + 512 * MIB, NONE, NONE)),
        VW_VERDICT_REFUSED);
}

static void a_card_full_of_live_bytes_is_genuine_without_reserved(void **state)
{
    (void)state;
    assert_int_equal(verdict_of(numbers(512 * KIB, 16 * GIB, NONE, 0, gib(15.2), NONE)),
                     VW_VERDICT_GENUINE);
}

static void a_card_full_of_reserved_bytes_is_genuine_without_free(void **state)
{
    (void)state;
    assert_int_equal(verdict_of(numbers(2 * GIB, 10 * GIB, NONE, NONE, 9 * GIB, 9 * GIB)),
                     VW_VERDICT_GENUINE);
}

static void what_is_allocated_is_reserved_whatever_the_driver_says(void **state)
{
    (void)state;
    /* 6 free and 4 allocated of 8: at least 4 are reserved, not 2 at most */
    assert_int_equal(verdict_of(numbers(2 * GIB, 8 * GIB, 5 * GIB, 6 * GIB, 4 * GIB, NONE)),
                     VW_VERDICT_CAPPED);
}

static void request_and_free_alone_leave_it_open_and_say_what_is_missing(void **state)
{
    (void)state;
    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    vw_memory_numbers given = numbers(3 * GIB, NONE, NONE, GIB, NONE, NONE);
    vw__number_verdict got = vw__numbers_judge_printed(&given, &draft);
    assert_int_equal(got.verdict, VW_VERDICT_UNKNOWN);
    assert_int_equal(got.possible & (UINT32_C(1) << VW_VERDICT_REFUSED), 0);
    assert_string_equal(draft.reasons[draft.reason_count - 1],
                        "Not said: the size of the card, allocated, reserved. With what is known "
                        "it can be any of: genuine, fragmentation, outside, too-large.");
    vw__diagnosis_deinit(&draft);
}

static void much_idle_is_fragmentation_whatever_was_asked_for(void **state)
{
    (void)state;
    vw_memory_numbers given = numbers(NONE, NONE, NONE, NONE, 12 * GIB, 22 * GIB);
    vw__number_verdict got = vw__numbers_judge_printed(&given, NULL);
    assert_int_equal(got.verdict, VW_VERDICT_FRAGMENTATION);
    assert_int_equal(got.confidence, VW_CONFIDENCE_MEDIUM);
    assert_int_equal(got.idle_bytes, 10 * GIB);
    given.allocated_bytes = 19 * GIB;
    assert_int_equal(vw__numbers_judge_printed(&given, NULL).verdict, VW_VERDICT_UNKNOWN);
    given = numbers(NONE, NONE, NONE, NONE, 0, 0);
    assert_int_equal(vw__numbers_judge_printed(&given, NULL).verdict, VW_VERDICT_UNKNOWN);
}

static void a_limit_with_room_on_the_card_is_the_likeliest_cause(void **state)
{
    (void)state;
    vw_memory_numbers given = numbers(100 * MIB, 8 * GIB, 3 * GIB, 4 * GIB, gib(2.85), NONE);
    vw__number_verdict got = vw__numbers_judge_printed(&given, NULL);
    assert_int_equal(got.verdict, VW_VERDICT_CAPPED);
    assert_int_equal(got.confidence, VW_CONFIDENCE_LOW);
    given.free_bytes = 50 * MIB;
    assert_int_not_equal(vw__numbers_judge_printed(&given, NULL).verdict, VW_VERDICT_CAPPED);
}

static void nothing_known_is_unknown(void **state)
{
    (void)state;
    vw_memory_numbers given = numbers(NONE, NONE, NONE, NONE, NONE, NONE);
    vw__number_verdict got = vw__numbers_judge(&given, NULL);
    assert_int_equal(got.verdict, VW_VERDICT_UNKNOWN);
    assert_int_equal(got.idle_bytes, NONE);
    assert_int_equal(got.outside_bytes, NONE);
    assert_false(got.is_contradiction);
}

/* ---- contradictions -------------------------------------------------------------------------- */

static void numbers_that_cannot_all_be_true_are_unknown_with_the_reason(void **state)
{
    (void)state;
    const struct {
        vw_memory_numbers given;
        const char *reason;
        bool is_oversubscribed;
    } cases[] = {
        {numbers(GIB, 16 * GIB, NONE, 85 * GIB, GIB, GIB),
         "The card is said to have 85.00 GiB free of 16.00 GiB in all, which cannot be.", false},
        {numbers(GIB, 16 * GIB, NONE, UINT64_MAX - 42 * MIB, GIB, GIB), "ran below zero", false},
        {numbers(GIB, 8 * GIB, NONE, 0, 17 * GIB, 19 * GIB), "shared GPU memory, on Windows", true},
        {numbers(GIB, 8 * GIB, NONE, 0, 17 * GIB, NONE), "17.00 GiB on a card of 8.00 GiB", true},
        {numbers(GIB, 32 * GIB, NONE, 0, 19 * GIB, 17 * GIB), "19.00 GiB are said to be allocated",
         false},
        {numbers(GIB, NONE, NONE, NONE, UINT64_C(1) << 61, NONE), "larger than any device", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vw__diagnosis_draft draft;
        vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
        vw__number_verdict got = vw__numbers_judge_printed(&cases[i].given, &draft);
        assert_int_equal(got.verdict, VW_VERDICT_UNKNOWN);
        assert_true(got.is_contradiction);
        assert_int_equal(got.is_oversubscribed, cases[i].is_oversubscribed);
        assert_int_equal(got.possible, 0);
        assert_int_equal(draft.reason_count, 1);
        assert_non_null(strstr(draft.reasons[0], cases[i].reason));
        vw__diagnosis_deinit(&draft);
    }
}

static void rounding_is_no_contradiction(void **state)
{
    (void)state;
    /* all reserved, none idle, each printed from its own rounding */
    vw_memory_numbers given = numbers(GIB, gib(8.00), NONE, 0, gib(8.00) + 3 * MIB, gib(8.00));
    assert_false(vw__numbers_judge_printed(&given, NULL).is_contradiction);
    assert_int_equal(vw__numbers_judge_printed(&given, NULL).idle_bytes, 0);
    assert_true(vw__numbers_judge(&given, NULL).is_contradiction);
}

static void free_and_reserved_beyond_the_card_are_trusted_little(void **state)
{
    (void)state;
    vw_memory_numbers given = numbers(GIB, 8 * GIB, NONE, 6 * GIB, 4 * GIB, 4 * GIB);
    assert_int_equal(vw__numbers_judge_printed(&given, NULL).confidence, VW_CONFIDENCE_LOW);
    given = numbers(7 * GIB, 8 * GIB, NONE, 6 * GIB, GIB, GIB);
    assert_int_not_equal(vw__numbers_judge_printed(&given, NULL).confidence, VW_CONFIDENCE_LOW);
}

/* ---- how sure -------------------------------------------------------------------------------- */

static void confidence_falls_near_an_edge_and_further_within_the_rounding(void **state)
{
    (void)state;
    vw_memory_numbers given = numbers(gib(1.00), gib(24), NONE, 0, gib(15), gib(20));
    assert_int_equal(vw__numbers_judge_printed(&given, NULL).confidence, VW_CONFIDENCE_HIGH);
    given.tried_bytes = gib(4.80);
    assert_int_equal(vw__numbers_judge_printed(&given, NULL).confidence, VW_CONFIDENCE_MEDIUM);
    given.tried_bytes = gib(4.99);
    assert_int_equal(vw__numbers_judge_printed(&given, NULL).confidence, VW_CONFIDENCE_LOW);
    assert_int_equal(vw__numbers_judge(&given, NULL).confidence, VW_CONFIDENCE_MEDIUM);
    given.tried_bytes = gib(5.01); /* the other side of the edge */
    vw__number_verdict got = vw__numbers_judge_printed(&given, NULL);
    assert_int_equal(got.verdict, VW_VERDICT_GENUINE);
    assert_int_equal(got.confidence, VW_CONFIDENCE_LOW);
}

static void a_limit_that_only_rounding_hides_still_caps(void **state)
{
    (void)state;
    vw_memory_numbers given = numbers(gib(6.40), gib(12.80), gib(6.40), gib(12.50), 0, 0);
    vw__number_verdict got = vw__numbers_judge_printed(&given, NULL);
    assert_int_equal(got.verdict, VW_VERDICT_CAPPED);
    assert_int_equal(got.confidence, VW_CONFIDENCE_LOW);
    assert_int_equal(verdict_of(given), VW_VERDICT_REFUSED); /* exact numbers hide nothing */
}

static void genuine_is_less_sure_where_the_request_was_free(void **state)
{
    (void)state;
    vw_memory_numbers given = numbers(GIB, 100 * GIB, NONE, GIB / 2, 97 * GIB, 97 * GIB);
    assert_int_equal(vw__numbers_judge(&given, NULL).confidence, VW_CONFIDENCE_HIGH);
    given.free_bytes = GIB + GIB / 2;
    vw__number_verdict got = vw__numbers_judge(&given, NULL);
    assert_int_equal(got.verdict, VW_VERDICT_GENUINE);
    assert_int_equal(got.confidence, VW_CONFIDENCE_MEDIUM);
}

static void refused_is_sure_only_where_a_limit_is_ruled_out(void **state)
{
    (void)state;
    vw_memory_numbers given = numbers(GIB, 24 * GIB, NONE, 20 * GIB, GIB, GIB);
    assert_int_equal(vw__numbers_judge(&given, NULL).confidence, VW_CONFIDENCE_MEDIUM);
    given.allowed_bytes = 12 * GIB;
    vw__number_verdict got = vw__numbers_judge(&given, NULL);
    assert_int_equal(got.verdict, VW_VERDICT_REFUSED);
    assert_int_equal(got.confidence, VW_CONFIDENCE_HIGH);
    /* over the limit, and yet enough idle: PyTorch may never have asked the driver */
    given = numbers(512 * MIB, 140 * GIB, 119 * GIB, 20 * GIB, gib(118), gib(118.6));
    got = vw__numbers_judge(&given, NULL);
    assert_int_equal(got.verdict, VW_VERDICT_REFUSED);
    assert_int_equal(got.confidence, VW_CONFIDENCE_LOW);
}

/* ---- what is said ---------------------------------------------------------------------------- */

static void the_everyday_case_is_genuine_and_every_comparison_is_shown(void **state)
{
    (void)state;
    static const char *const reasons[] = {
        "One request: 512 MiB, no more than the card of 23.69 GiB.",
        "Idle: reserved 22.10 GiB - allocated 21.34 GiB = 778 MiB, enough for the 512 MiB "
        "asked for, but less than a tenth of what is reserved (2.21 GiB).",
        "Outside PyTorch: card 23.69 GiB - free 391 MiB - reserved 22.10 GiB = 1.21 GiB, of "
        "which 213 MiB are more than a context takes: less than the request.",
        "Free on the card: 391 MiB, less than the 512 MiB asked for.",
        "No other cause remains: more was needed than there was.",
    };
    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    vw_memory_numbers given =
        numbers(512 * MIB, gib(23.69), NONE, 391 * MIB, gib(21.34), gib(22.10));
    vw__number_verdict got = vw__numbers_judge_printed(&given, &draft);
    assert_int_equal(got.verdict, VW_VERDICT_GENUINE);
    assert_int_equal(got.confidence, VW_CONFIDENCE_HIGH);
    assert_true(got.is_small_fragmentation);
    assert_int_equal(draft.reason_count, sizeof reasons / sizeof *reasons);
    for (size_t i = 0; i < draft.reason_count; i++)
        assert_string_equal(draft.reasons[i], reasons[i]);
    vw__diagnosis_deinit(&draft);
}

static void the_limit_is_shown_with_its_sum(void **state)
{
    (void)state;
    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    vw_memory_numbers given = numbers(2 * GIB, 80 * GIB, 20 * GIB, 60 * GIB, 19 * GIB, 19 * GIB);
    assert_int_equal(vw__numbers_judge(&given, &draft).verdict, VW_VERDICT_CAPPED);
    assert_int_equal(draft.reason_count, 2);
    assert_string_equal(draft.reasons[1],
                        "The limit: reserved 19.00 GiB + request 2.00 GiB = 21.00 GiB, and 20.00 "
                        "GiB are allowed: over it, while the card itself had room.");
    vw__diagnosis_deinit(&draft);
}

static void how_near_a_limit_was_is_said_where_it_can_be_known(void **state)
{
    (void)state;
    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    vw_memory_numbers given = numbers(2 * GIB, 80 * GIB, 20 * GIB, 60 * GIB, 19 * GIB, NONE);
    assert_int_equal(vw__numbers_judge(&given, &draft).verdict, VW_VERDICT_CAPPED);
    assert_string_equal(draft.reasons[1],
                        "The limit: allocated 19.00 GiB + request 2.00 GiB = 21.00 GiB, and 20.00 "
                        "GiB are allowed: over it, whatever is reserved besides.");
    vw__diagnosis_deinit(&draft);
}

static bool judge_with_failing_memory(void *context)
{
    (void)context;
    vw__diagnosis_draft draft;
    vw_diagnosis *made = NULL;
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    vw_memory_numbers given =
        numbers(512 * MIB, gib(23.69), NONE, 391 * MIB, gib(21.34), gib(22.10));
    assert_int_equal(vw__numbers_judge_printed(&given, &draft).verdict, VW_VERDICT_GENUINE);
    bool is_done = vw__diagnosis_finish(&draft, &made) == VW_OK;
    vw_diagnosis_free(made);
    return is_done;
}

static void the_verdict_does_not_need_host_memory(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(judge_with_failing_memory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_above_the_card_or_the_limit_is_too_large),
        cmocka_unit_test(a_limit_caps_where_the_card_has_room_and_idle_is_short),
        cmocka_unit_test(idle_bytes_that_would_do_are_fragmentation_from_a_tenth_of_reserved_on),
        cmocka_unit_test(memory_of_others_counts_beyond_a_context_from_a_fifth_of_the_card_on),
        cmocka_unit_test(what_was_free_with_room_to_spare_was_refused),
        cmocka_unit_test(complete_numbers_always_give_the_verdict_of_the_contract),
        cmocka_unit_test(a_missing_number_never_changes_a_verdict_only_withholds_it),
        cmocka_unit_test(card_and_request_are_enough_for_too_large),
        cmocka_unit_test(a_nearly_empty_card_that_fails_has_refused_whatever_is_missing),
        cmocka_unit_test(a_card_full_of_live_bytes_is_genuine_without_reserved),
        cmocka_unit_test(a_card_full_of_reserved_bytes_is_genuine_without_free),
        cmocka_unit_test(what_is_allocated_is_reserved_whatever_the_driver_says),
        cmocka_unit_test(request_and_free_alone_leave_it_open_and_say_what_is_missing),
        cmocka_unit_test(much_idle_is_fragmentation_whatever_was_asked_for),
        cmocka_unit_test(a_limit_with_room_on_the_card_is_the_likeliest_cause),
        cmocka_unit_test(nothing_known_is_unknown),
        cmocka_unit_test(numbers_that_cannot_all_be_true_are_unknown_with_the_reason),
        cmocka_unit_test(rounding_is_no_contradiction),
        cmocka_unit_test(free_and_reserved_beyond_the_card_are_trusted_little),
        cmocka_unit_test(confidence_falls_near_an_edge_and_further_within_the_rounding),
        cmocka_unit_test(a_limit_that_only_rounding_hides_still_caps),
        cmocka_unit_test(genuine_is_less_sure_where_the_request_was_free),
        cmocka_unit_test(refused_is_sure_only_where_a_limit_is_ruled_out),
        cmocka_unit_test(the_everyday_case_is_genuine_and_every_comparison_is_shown),
        cmocka_unit_test(the_limit_is_shown_with_its_sum),
        cmocka_unit_test(how_near_a_limit_was_is_said_where_it_can_be_known),
        cmocka_unit_test(the_verdict_does_not_need_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
