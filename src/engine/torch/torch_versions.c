/* torch_versions.c - the table of releases.
 *
 * Written as comparisons with the first release of each change, in the order of the struct, so
 * that a line here and the comment on its field say the same thing and are checked together. */
#include "engine/torch/torch_versions.h"

#include <ctype.h> /* isdigit */
#include <stddef.h>

#include "base/error.h"

enum { MOST_PART = 99 };

/* Reads digits at *cursor into *out and moves on. False: none there, or more than MOST_PART. */
static bool read_part(const char **cursor, int *out)
{
    const char *digit = *cursor;
    int value = 0;
    if (!isdigit((unsigned char)*digit))
        return false;
    for (; isdigit((unsigned char)*digit); digit++) {
        value = value * 10 + (*digit - '0');
        if (value > MOST_PART)
            return false;
    }
    *cursor = digit;
    *out = value;
    return true;
}

vw_status vw__torch_parse_version(const char *text, int *out)
{
    const char *cursor = text != NULL ? text : "";
    int major = 0, minor = 0;
    while (isspace((unsigned char)*cursor))
        cursor++;
    if (*cursor == 'v')
        cursor++;
    if (read_part(&cursor, &major) && *cursor++ == '.' && read_part(&cursor, &minor)) {
        *out = 100 * major + minor;
        return VW_OK;
    }
    return vw__fail(VW_ERR_INVALID_ARGUMENT,
                    "a PyTorch version is a number, a dot and a number such as 2.11, not '%s'",
                    text != NULL ? text : "");
}

static vw__torch_roundup_kind roundup_of(int version)
{
    if (version < 112)
        return VW__TORCH_ROUNDUP_NONE;
    if (version < 200)
        return VW__TORCH_ROUNDUP_SINGLE_COUNT;
    return version < 204 ? VW__TORCH_ROUNDUP_TABLE_ONE_IS_ERROR
                         : VW__TORCH_ROUNDUP_TABLE_ONE_IS_OFF;
}

static vw__torch_tie_break tie_break_of(int version)
{
    if (version < 212)
        return VW__TORCH_TIE_ADDRESS;
    return version < 213 ? VW__TORCH_TIE_BLOCK_COUNTER : VW__TORCH_TIE_SEGMENT_COUNTER;
}

static vw__torch_limit_rule limit_rule_of(int version)
{
    if (version < 210)
        return VW__TORCH_LIMIT_TRUNCATED_ALSO_FOR_ONE;
    return version < 213 ? VW__TORCH_LIMIT_TRUNCATED : VW__TORCH_LIMIT_ROUNDED;
}

static vw__torch_use_on_oom use_on_oom_of(int version)
{
    if (version < 208)
        return VW__TORCH_USE_ON_OOM_NONE;
    return version < 211 ? VW__TORCH_USE_ON_OOM_AFTER_RELEASE : VW__TORCH_USE_ON_OOM_BEFORE_RELEASE;
}

static vw__torch_scope_release scope_release_of(int version)
{
    if (version < 208)
        return VW__TORCH_RELEASE_IN_SCOPES;
    return version < 213 ? VW__TORCH_RELEASE_OUTSIDE_SCOPES : VW__TORCH_RELEASE_OUTSIDE_OF_CAPTURES;
}

static vw__torch_grammar grammar_of(int version)
{
    if (version < 110)
        return VW__TORCH_GRAMMAR_NONE;
    if (version < 200)
        return VW__TORCH_GRAMMAR_WORDS;
    return version < 210 ? VW__TORCH_GRAMMAR_SEPARATORS : VW__TORCH_GRAMMAR_TOKENS;
}

static vw__torch_oom_text oom_text_of(int version)
{
    static const struct {
        int first_version;
        vw__torch_oom_text text;
    } newest_first[] = {
        {215, VW__TORCH_OOM_TEXT_2_15}, {214, VW__TORCH_OOM_TEXT_2_14},
        {211, VW__TORCH_OOM_TEXT_2_11}, {210, VW__TORCH_OOM_TEXT_2_10},
        {205, VW__TORCH_OOM_TEXT_2_5},  {204, VW__TORCH_OOM_TEXT_2_4},
        {202, VW__TORCH_OOM_TEXT_2_2},  {201, VW__TORCH_OOM_TEXT_2_1},
        {110, VW__TORCH_OOM_TEXT_1_10}, {108, VW__TORCH_OOM_TEXT_1_8},
    };
    for (size_t i = 0; i < sizeof newest_first / sizeof *newest_first; i++)
        if (version >= newest_first[i].first_version)
            return newest_first[i].text;
    return VW__TORCH_OOM_TEXT_1_4;
}

vw_status vw__torch_rules_for(int version, vw__torch_rules *out)
{
    if (version < VW__TORCH_OLDEST_VERSION || (version > VW__TORCH_LAST_1_VERSION && version < 200))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "the rules of PyTorch %d.%d are not known: 1.6 to 1.13, and 2.0 on, are",
                        version / 100, version < 0 ? 0 : version % 100);
    int v = version < VW__TORCH_NEWEST_VERSION ? version : VW__TORCH_NEWEST_VERSION;
    *out = (vw__torch_rules){
        .version = v,

        .has_max_split = v >= 110,
        .roundup = roundup_of(v),
        .has_expandable = v >= 201,
        .reserve_is_configurable = v >= 215,
        .tie_break = tie_break_of(v),
        .limit_rule = limit_rule_of(v),
        .use_on_oom = use_on_oom_of(v),
        .custom_pools_ignore_expandable = v >= 210,
        .scopes_newest_first = v >= 210,
        .capturing = v >= 213 ? VW__TORCH_CAPTURING_CURRENT_STREAM : VW__TORCH_CAPTURING_ANY_SCOPE,
        .scope_release = scope_release_of(v),
        .frees_deferred_at_scope_end = v >= 212,

        .grammar = grammar_of(v),
        .max_split_must_be_larger = v < 210,
        .parse_resets_oversize_slack = v >= 211,
        .roundup_rest_keeps_last = v >= 210,
        .roundup_text_is_misspelt = v < 208,

        .oom_text = oom_text_of(v),
        .has_requested_bytes = v >= 200,
        .has_device_call_counts = v >= 203,
        .has_rejection_count = v >= 212,
        .has_private_pool_stats = v >= 213,
    };
    return VW_OK;
}

vw_status vw__torch_rules_of(const char *text, vw__torch_rules *out)
{
    int version = VW__TORCH_DEFAULT_VERSION;
    if (text != NULL)
        VW__TRY(vw__torch_parse_version(text, &version));
    return vw__torch_rules_for(version, out);
}
