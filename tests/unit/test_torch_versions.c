/* test_torch_versions.c - which release follows which rule. */
#include "engine/torch/torch_versions.h"

#include <string.h>

#include "support/cmocka_here.h"

static int parsed(const char *text)
{
    int version = -1;
    return vw__torch_parse_version(text, &version) == VW_OK ? version : -1;
}

static vw__torch_rules rules_of(int version)
{
    vw__torch_rules rules;
    memset(&rules, 0, sizeof rules);
    assert_int_equal(vw__torch_rules_for(version, &rules), VW_OK);
    return rules;
}

static void versions_are_read_whatever_follows_them(void **state)
{
    (void)state;
    assert_int_equal(parsed("2.11.0+cu130"), 211);
    assert_int_equal(parsed("2.11"), 211);
    assert_int_equal(parsed("1.13.1"), 113);
    assert_int_equal(parsed("2.0"), 200);
    assert_int_equal(parsed("v2.9.1"), 209);
    assert_int_equal(parsed("  2.12.0a0+git1234567"), 212);
    assert_int_equal(parsed("2.10rc1"), 210);
}

static void what_is_no_version_is_refused_and_the_result_untouched(void **state)
{
    (void)state;
    const char *const bad[] = {"", "2", "2.", ".11", "two.one", "2,11", "2.100", "100.1", "-2.1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int version = 77;
        assert_int_equal(vw__torch_parse_version(bad[i], &version), VW_ERR_INVALID_ARGUMENT);
        assert_int_equal(version, 77);
    }
    assert_int_equal(vw__torch_parse_version(NULL, &(int){0}), VW_ERR_INVALID_ARGUMENT);
}

static void releases_that_never_were_or_are_too_old_are_refused(void **state)
{
    (void)state;
    vw__torch_rules rules = {.version = 77};
    const int bad[] = {-1, 0, 105, 114, 199};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(vw__torch_rules_for(bad[i], &rules), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(rules.version, 77);
    assert_string_equal(vw_last_error(),
                        "the rules of PyTorch 1.99 are not known: 1.6 to 1.13, and 2.0 on, are");
}

static void newer_releases_follow_the_newest_known(void **state)
{
    (void)state;
    assert_int_equal(rules_of(106).version, 106);
    assert_int_equal(rules_of(VW__TORCH_DEFAULT_VERSION).version, 211);
    assert_int_equal(rules_of(216).version, VW__TORCH_NEWEST_VERSION);
    assert_int_equal(rules_of(305).version, VW__TORCH_NEWEST_VERSION);
}

/* The last release of the 1 line comes right before 2.0. */
static int release_before(int version)
{
    return version == 200 ? VW__TORCH_LAST_1_VERSION : version - 1;
}

#define FIRST_IN(version, field)                                                                   \
    do {                                                                                           \
        assert_false(rules_of(release_before(version)).field);                                     \
        assert_true(rules_of(version).field);                                                      \
        assert_true(rules_of(VW__TORCH_NEWEST_VERSION).field);                                     \
    } while (0)

#define CHANGES_IN(version, field, old_value, new_value)                                           \
    do {                                                                                           \
        assert_int_equal(rules_of(release_before(version)).field, old_value);                      \
        assert_int_equal(rules_of(version).field, new_value);                                      \
    } while (0)

static void every_feature_appears_in_its_release(void **state)
{
    (void)state;
    FIRST_IN(110, has_max_split);
    FIRST_IN(200, has_requested_bytes);
    FIRST_IN(201, has_expandable);
    FIRST_IN(203, has_device_call_counts);
    FIRST_IN(210, custom_pools_ignore_expandable);
    FIRST_IN(210, scopes_newest_first);
    FIRST_IN(210, roundup_rest_keeps_last);
    FIRST_IN(211, parse_resets_oversize_slack);
    FIRST_IN(212, frees_deferred_at_scope_end);
    FIRST_IN(212, has_rejection_count);
    FIRST_IN(213, has_private_pool_stats);
    FIRST_IN(215, reserve_is_configurable);
}

static void every_rule_changes_in_its_release(void **state)
{
    (void)state;
    CHANGES_IN(112, roundup, VW__TORCH_ROUNDUP_NONE, VW__TORCH_ROUNDUP_SINGLE_COUNT);
    CHANGES_IN(200, roundup, VW__TORCH_ROUNDUP_SINGLE_COUNT, VW__TORCH_ROUNDUP_TABLE_ONE_IS_ERROR);
    CHANGES_IN(204, roundup, VW__TORCH_ROUNDUP_TABLE_ONE_IS_ERROR,
               VW__TORCH_ROUNDUP_TABLE_ONE_IS_OFF);
    CHANGES_IN(208, use_on_oom, VW__TORCH_USE_ON_OOM_NONE, VW__TORCH_USE_ON_OOM_AFTER_RELEASE);
    CHANGES_IN(211, use_on_oom, VW__TORCH_USE_ON_OOM_AFTER_RELEASE,
               VW__TORCH_USE_ON_OOM_BEFORE_RELEASE);
    CHANGES_IN(210, limit_rule, VW__TORCH_LIMIT_TRUNCATED_ALSO_FOR_ONE, VW__TORCH_LIMIT_TRUNCATED);
    CHANGES_IN(213, limit_rule, VW__TORCH_LIMIT_TRUNCATED, VW__TORCH_LIMIT_ROUNDED);
    CHANGES_IN(212, tie_break, VW__TORCH_TIE_ADDRESS, VW__TORCH_TIE_BLOCK_COUNTER);
    CHANGES_IN(213, tie_break, VW__TORCH_TIE_BLOCK_COUNTER, VW__TORCH_TIE_SEGMENT_COUNTER);
    CHANGES_IN(213, capturing, VW__TORCH_CAPTURING_ANY_SCOPE, VW__TORCH_CAPTURING_CURRENT_STREAM);
    CHANGES_IN(208, scope_release, VW__TORCH_RELEASE_IN_SCOPES, VW__TORCH_RELEASE_OUTSIDE_SCOPES);
    CHANGES_IN(213, scope_release, VW__TORCH_RELEASE_OUTSIDE_SCOPES,
               VW__TORCH_RELEASE_OUTSIDE_OF_CAPTURES);
    CHANGES_IN(110, grammar, VW__TORCH_GRAMMAR_NONE, VW__TORCH_GRAMMAR_WORDS);
    CHANGES_IN(200, grammar, VW__TORCH_GRAMMAR_WORDS, VW__TORCH_GRAMMAR_SEPARATORS);
    CHANGES_IN(210, grammar, VW__TORCH_GRAMMAR_SEPARATORS, VW__TORCH_GRAMMAR_TOKENS);
    CHANGES_IN(210, max_split_must_be_larger, true, false);
    CHANGES_IN(208, roundup_text_is_misspelt, true, false);
}

static void the_out_of_memory_text_changes_in_its_releases(void **state)
{
    (void)state;
    CHANGES_IN(108, oom_text, VW__TORCH_OOM_TEXT_1_4, VW__TORCH_OOM_TEXT_1_8);
    CHANGES_IN(110, oom_text, VW__TORCH_OOM_TEXT_1_8, VW__TORCH_OOM_TEXT_1_10);
    CHANGES_IN(201, oom_text, VW__TORCH_OOM_TEXT_1_10, VW__TORCH_OOM_TEXT_2_1);
    CHANGES_IN(202, oom_text, VW__TORCH_OOM_TEXT_2_1, VW__TORCH_OOM_TEXT_2_2);
    CHANGES_IN(204, oom_text, VW__TORCH_OOM_TEXT_2_2, VW__TORCH_OOM_TEXT_2_4);
    CHANGES_IN(205, oom_text, VW__TORCH_OOM_TEXT_2_4, VW__TORCH_OOM_TEXT_2_5);
    CHANGES_IN(210, oom_text, VW__TORCH_OOM_TEXT_2_5, VW__TORCH_OOM_TEXT_2_10);
    CHANGES_IN(211, oom_text, VW__TORCH_OOM_TEXT_2_10, VW__TORCH_OOM_TEXT_2_11);
    CHANGES_IN(214, oom_text, VW__TORCH_OOM_TEXT_2_11, VW__TORCH_OOM_TEXT_2_14);
    CHANGES_IN(215, oom_text, VW__TORCH_OOM_TEXT_2_14, VW__TORCH_OOM_TEXT_2_15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_read_whatever_follows_them),
        cmocka_unit_test(what_is_no_version_is_refused_and_the_result_untouched),
        cmocka_unit_test(releases_that_never_were_or_are_too_old_are_refused),
        cmocka_unit_test(newer_releases_follow_the_newest_known),
        cmocka_unit_test(every_feature_appears_in_its_release),
        cmocka_unit_test(every_rule_changes_in_its_release),
        cmocka_unit_test(the_out_of_memory_text_changes_in_its_releases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
