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

#define G(value) ((uint64_t)((value)*1073741824.0 + 0.5)) /* gib(), as a constant */
#define ANY (-1)

typedef enum precision { EXACT, PRINTED } precision;

/* In the order of the rule's letters: T, C, L, F, A, R. */
static const struct {
    const char *what;
    uint64_t tried, total, allowed, free, allocated, reserved;
    precision precision;
    vw_verdict verdict;
    int confidence;
} verdict_cases[] = {
    {"above the card", 8 * GIB + 1, 8 * GIB, NONE, GIB, GIB, GIB, EXACT, VW_VERDICT_TOO_LARGE, ANY},
    {"as large as the card", 8 * GIB, 8 * GIB, NONE, GIB, GIB, GIB, EXACT, VW_VERDICT_GENUINE, ANY},
    {"above the limit", 4 * GIB + 1, 8 * GIB, 4 * GIB, 6 * GIB, 0, 0, EXACT, VW_VERDICT_TOO_LARGE,
     ANY},
    {"a limit above the card counts for nothing", 8 * GIB + 1, 8 * GIB, 16 * GIB, GIB, GIB, GIB,
     EXACT, VW_VERDICT_TOO_LARGE, ANY},

    {"over the limit", GIB, 24 * GIB, 10 * GIB, 13 * GIB, 9 * GIB, 9 * GIB + 1, EXACT,
     VW_VERDICT_CAPPED, ANY},
    {"exactly at the limit is within it", GIB, 24 * GIB, 10 * GIB, 13 * GIB, 9 * GIB, 9 * GIB,
     EXACT, VW_VERDICT_REFUSED, ANY},
    {"the card itself was full", GIB, 24 * GIB, 10 * GIB, GIB - 1, 9 * GIB, 9 * GIB + 1, EXACT,
     VW_VERDICT_OUTSIDE, ANY},
    {"the card just had it", GIB, 24 * GIB, 10 * GIB, GIB, 9 * GIB, 9 * GIB + 1, EXACT,
     VW_VERDICT_CAPPED, ANY},
    {"idle is enough, and a tenth", GIB, 24 * GIB, 10 * GIB, GIB, 8 * GIB + 1, 9 * GIB + 1, EXACT,
     VW_VERDICT_FRAGMENTATION, ANY},

    {"idle is enough", GIB, 12 * GIB, NONE, 0, 9 * GIB, 10 * GIB, EXACT, VW_VERDICT_FRAGMENTATION,
     ANY},
    {"idle is a byte short", GIB + 1, 12 * GIB, NONE, 0, 9 * GIB, 10 * GIB, EXACT,
     VW_VERDICT_GENUINE, ANY},
    {"others hold a fifth beyond a context", 2 * GIB, 10 * GIB, NONE, 0, 7 * GIB, 7 * GIB, EXACT,
     VW_VERDICT_OUTSIDE, ANY},
    {"others hold less than was asked for", 2 * GIB + 1, 10 * GIB, NONE, 0, 7 * GIB, 7 * GIB, EXACT,
     VW_VERDICT_GENUINE, ANY},
    {"others hold less than a fifth", GIB, 10 * GIB, NONE, 1, 7 * GIB, 7 * GIB, EXACT,
     VW_VERDICT_GENUINE, ANY},
    {"64 MiB to spare on a small card", GIB, 4 * GIB, NONE, GIB + 64 * MIB, 2 * GIB, 2 * GIB, EXACT,
     VW_VERDICT_REFUSED, ANY},
    {"and a byte less", GIB, 4 * GIB, NONE, GIB + 64 * MIB - 1, 2 * GIB, 2 * GIB, EXACT,
     VW_VERDICT_GENUINE, ANY},
    {"a hundredth to spare on a large card", GIB, 100 * GIB, NONE, 2 * GIB, 97 * GIB, 97 * GIB,
     EXACT, VW_VERDICT_REFUSED, ANY},
    {"and a byte less there", GIB, 100 * GIB, NONE, 2 * GIB - 1, 97 * GIB, 97 * GIB, EXACT,
     VW_VERDICT_GENUINE, ANY},

    {"card and request are enough for too-large", 9 * GIB, 8 * GIB, NONE, NONE, NONE, NONE, EXACT,
     VW_VERDICT_TOO_LARGE, ANY},
    {"and not for anything else", 7 * GIB, 8 * GIB, NONE, NONE, NONE, NONE, EXACT,
     VW_VERDICT_UNKNOWN, ANY},
    {"a nearly empty card has refused", 600 * MIB, 24 * GIB, NONE, 23 * GIB + 512 * MIB, NONE, NONE,
     EXACT, VW_VERDICT_REFUSED, ANY},
    {"full of live bytes, reserved unknown", 512 * KIB, 16 * GIB, NONE, 0, G(15.2), NONE, EXACT,
     VW_VERDICT_GENUINE, ANY},
    {"full of reserved bytes, free unknown", 2 * GIB, 10 * GIB, NONE, NONE, 9 * GIB, 9 * GIB, EXACT,
     VW_VERDICT_GENUINE, ANY},
    {"allocated is reserved, whatever is free", 2 * GIB, 8 * GIB, 5 * GIB, 6 * GIB, 4 * GIB, NONE,
     EXACT, VW_VERDICT_CAPPED, ANY},
    {"a third idle, request unknown", NONE, NONE, NONE, NONE, 12 * GIB, 22 * GIB, PRINTED,
     VW_VERDICT_FRAGMENTATION, VW_CONFIDENCE_MEDIUM},
    {"less idle, request unknown", NONE, NONE, NONE, NONE, 19 * GIB, 22 * GIB, PRINTED,
     VW_VERDICT_UNKNOWN, ANY},
    {"nothing held, request unknown", NONE, NONE, NONE, NONE, 0, 0, PRINTED, VW_VERDICT_UNKNOWN,
     ANY},
    {"nothing known", NONE, NONE, NONE, NONE, NONE, NONE, EXACT, VW_VERDICT_UNKNOWN, ANY},
    {"a limit, and room on the card", 100 * MIB, 8 * GIB, 3 * GIB, 4 * GIB, G(2.85), NONE, PRINTED,
     VW_VERDICT_CAPPED, VW_CONFIDENCE_LOW},
    {"a limit, and no room on the card", 100 * MIB, 8 * GIB, 3 * GIB, 50 * MIB, G(2.85), NONE,
     PRINTED, VW_VERDICT_UNKNOWN, ANY},

    {"free and reserved beyond the card", GIB, 8 * GIB, NONE, 6 * GIB, 4 * GIB, 4 * GIB, PRINTED,
     VW_VERDICT_REFUSED, VW_CONFIDENCE_LOW},
    {"free and reserved within the card", 7 * GIB, 8 * GIB, NONE, 6 * GIB, GIB, GIB, PRINTED,
     VW_VERDICT_GENUINE, VW_CONFIDENCE_HIGH},
    {"far from an edge", G(1.00), G(24), NONE, 0, G(15), G(20), PRINTED, VW_VERDICT_FRAGMENTATION,
     VW_CONFIDENCE_HIGH},
    {"near an edge", G(4.80), G(24), NONE, 0, G(15), G(20), PRINTED, VW_VERDICT_FRAGMENTATION,
     VW_CONFIDENCE_MEDIUM},
    {"within the rounding of an edge", G(4.99), G(24), NONE, 0, G(15), G(20), PRINTED,
     VW_VERDICT_FRAGMENTATION, VW_CONFIDENCE_LOW},
    {"exact numbers are not rounded", G(4.99), G(24), NONE, 0, G(15), G(20), EXACT,
     VW_VERDICT_FRAGMENTATION, VW_CONFIDENCE_MEDIUM},
    {"on the other side of the edge", G(5.01), G(24), NONE, 0, G(15), G(20), PRINTED,
     VW_VERDICT_GENUINE, VW_CONFIDENCE_LOW},
    {"rounding hides that it is over the limit", G(6.40), G(12.80), G(6.40), G(12.50), 0, 0,
     PRINTED, VW_VERDICT_CAPPED, VW_CONFIDENCE_LOW},
    {"exact numbers hide nothing", G(6.40), G(12.80), G(6.40), G(12.50), 0, 0, EXACT,
     VW_VERDICT_REFUSED, ANY},
    {"the request was not free", GIB, 100 * GIB, NONE, GIB / 2, 97 * GIB, 97 * GIB, EXACT,
     VW_VERDICT_GENUINE, VW_CONFIDENCE_HIGH},
    {"the request was free, barely", GIB, 100 * GIB, NONE, GIB + GIB / 2, 97 * GIB, 97 * GIB, EXACT,
     VW_VERDICT_GENUINE, VW_CONFIDENCE_MEDIUM},
    {"refused, and a limit may be set", GIB, 24 * GIB, NONE, 20 * GIB, GIB, GIB, EXACT,
     VW_VERDICT_REFUSED, VW_CONFIDENCE_MEDIUM},
    {"refused, far below the limit", GIB, 24 * GIB, 12 * GIB, 20 * GIB, GIB, GIB, EXACT,
     VW_VERDICT_REFUSED, VW_CONFIDENCE_HIGH},
    {"over the limit, and enough idle: nobody may have asked the driver", 512 * MIB, 140 * GIB,
     119 * GIB, 20 * GIB, G(118), G(118.6), EXACT, VW_VERDICT_REFUSED, VW_CONFIDENCE_LOW},
};

static void every_case_has_its_verdict(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof verdict_cases / sizeof *verdict_cases; i++) {
        vw_memory_numbers given =
            numbers(verdict_cases[i].tried, verdict_cases[i].total, verdict_cases[i].allowed,
                    verdict_cases[i].free, verdict_cases[i].allocated, verdict_cases[i].reserved);
        vw__numbers_verdict got = verdict_cases[i].precision == PRINTED
                                      ? vw__numbers_judge_printed(&given, NULL)
                                      : vw__numbers_judge(&given, NULL);
        if (got.verdict != verdict_cases[i].verdict ||
            (verdict_cases[i].confidence != ANY &&
             (int)got.confidence != verdict_cases[i].confidence))
            fail_msg("%s: %s, %s", verdict_cases[i].what, vw_verdict_name(got.verdict),
                     vw_confidence_name(got.confidence));
    }
}

static void idle_and_outside_bytes_are_told_where_they_are_known(void **state)
{
    (void)state;
    vw_memory_numbers given = numbers(MIB, 12 * GIB, NONE, 0, 9 * GIB + 1, 10 * GIB);
    vw__numbers_verdict got = vw__numbers_judge(&given, NULL);
    assert_int_equal(got.verdict, VW_VERDICT_GENUINE);
    assert_true(got.is_small_fragmentation);
    assert_int_equal(got.idle_bytes, GIB - 1);
    given = numbers(GIB, 10 * GIB, NONE, GIB, 5 * GIB, 5 * GIB);
    assert_int_equal(vw__numbers_judge(&given, NULL).outside_bytes, 4 * GIB);
    given = numbers(NONE, NONE, NONE, NONE, NONE, NONE);
    got = vw__numbers_judge(&given, NULL);
    assert_true(got.idle_bytes == NONE && got.outside_bytes == NONE && !got.is_contradiction);
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
        vw__numbers_verdict got = vw__numbers_judge(&given, NULL);
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

static void request_and_free_alone_leave_it_open_and_say_what_is_missing(void **state)
{
    (void)state;
    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    vw_memory_numbers given = numbers(3 * GIB, NONE, NONE, GIB, NONE, NONE);
    vw__numbers_verdict got = vw__numbers_judge_printed(&given, &draft);
    assert_int_equal(got.verdict, VW_VERDICT_UNKNOWN);
    assert_int_equal(got.possible & (UINT32_C(1) << VW_VERDICT_REFUSED), 0);
    assert_string_equal(draft.reasons[draft.reason_count - 1],
                        "Not said: the size of the card, allocated, reserved. With what is known "
                        "it can be any of: genuine, fragmentation, outside, too-large.");
    vw__diagnosis_deinit(&draft);
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
        vw__numbers_verdict got = vw__numbers_judge_printed(&cases[i].given, &draft);
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
    vw__numbers_verdict got = vw__numbers_judge_printed(&given, &draft);
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
        cmocka_unit_test(every_case_has_its_verdict),
        cmocka_unit_test(idle_and_outside_bytes_are_told_where_they_are_known),
        cmocka_unit_test(complete_numbers_always_give_the_verdict_of_the_contract),
        cmocka_unit_test(a_missing_number_never_changes_a_verdict_only_withholds_it),
        cmocka_unit_test(request_and_free_alone_leave_it_open_and_say_what_is_missing),
        cmocka_unit_test(numbers_that_cannot_all_be_true_are_unknown_with_the_reason),
        cmocka_unit_test(rounding_is_no_contradiction),
        cmocka_unit_test(the_everyday_case_is_genuine_and_every_comparison_is_shown),
        cmocka_unit_test(the_limit_is_shown_with_its_sum),
        cmocka_unit_test(how_near_a_limit_was_is_said_where_it_can_be_known),
        cmocka_unit_test(the_verdict_does_not_need_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
