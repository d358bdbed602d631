/* tune_candidates.c - which settings are worth a try.
 *
 * Single options first: expandable segments; max_split_size_mb in powers of two from the smallest
 * PyTorch takes to the largest request of the recording (beyond that it does nothing, since no
 * block is larger); roundup_power2_divisions; garbage_collection_threshold. Then the best of each
 * kind together, since they attack different causes: rounding folds sizes, max_split keeps large
 * blocks whole, collection gives old ones back.
 *
 * Garbage collection works only under a memory fraction: PyTorch looks at the threshold only where
 * a limit is set. Since 2.10 an option sets one, and it must be below 1; before, the program has to
 * call set_per_process_memory_fraction(), and 1.0 does.
 *
 * Our own engine is tried beside them, for where nothing of PyTorch's fits; its mode that copies
 * live data only where the one that does not fails. */
#include "analysis/tune.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "engine/torch/torch_versions.h"

#define BYTES_PER_MB (UINT64_C(1) << 20)
#define FRACTION_TEXT "per_process_memory_fraction:0.99"

enum {
    FIRST_SPLIT_MB = 32,
    LAST_SPLIT_MB = 8192,
    FIRST_VERSION_WITH_FRACTION_OPTION = 210,
};

bool vw__candidate_is_vramwise(const vw__candidate *candidate)
{
    return candidate->kind == VW__CANDIDATE_VRAMWISE || candidate->kind == VW__CANDIDATE_RESCUE;
}

/* Is the setting there already, or refused by the version? */
static vw_status is_new_and_possible(const vw__tuning *tuning, const char *conf,
                                     bool needs_fraction_call, bool *out)
{
    bool is_same = false;
    *out = false;
    vw_status status = vw__replay_same_settings(tuning->work->torch_version, conf, "", &is_same);
    if (status == VW_ERR_BAD_SETTING || status == VW_ERR_TOO_LARGE)
        return VW_OK;
    VW__TRY(status);
    if (is_same && needs_fraction_call) /* an option that the version does not know, or look at */
        return VW_OK;
    for (size_t i = 0; i < tuning->candidate_count; i++) {
        const vw__candidate *other = &tuning->candidates[i];
        if (other->needs_fraction_call != needs_fraction_call || vw__candidate_is_vramwise(other))
            continue;
        VW__TRY(vw__replay_same_settings(tuning->work->torch_version, conf, other->result.conf,
                                         &is_same));
        if (is_same)
            return VW_OK;
    }
    *out = true;
    return VW_OK;
}

/* `policy` is static, `conf` borrowed for the call. */
static vw_status append(vw__tuning *tuning, vw__candidate_kind kind, const char *policy,
                        const char *conf)
{
    const char *kept = vw__arena_copy(tuning->arena, conf, strlen(conf));
    if (kept == NULL)
        return vw__fail_host_memory(strlen(conf) + 1, "an option string");
    tuning->candidates[tuning->candidate_count++] = (vw__candidate){
        .kind = kind,
        .result = {.policy = policy, .conf = kept},
        .card = vw__card_of(tuning->card_bytes),
    };
    return VW_OK;
}

static vw_status add(vw__tuning *tuning, vw__candidate_kind kind, const char *conf,
                     bool needs_fraction_call)
{
    static const char *const policies[] = {
        [VW__CANDIDATE_RECORDED] = "recorded",     [VW__CANDIDATE_NATIVE] = "native",
        [VW__CANDIDATE_EXPANDABLE] = "expandable", [VW__CANDIDATE_MAX_SPLIT] = "conf",
        [VW__CANDIDATE_ROUNDUP] = "conf",          [VW__CANDIDATE_GARBAGE_COLLECTION] = "conf",
        [VW__CANDIDATE_COMBINED] = "conf",
    };
    bool is_worth_it = false;
    if (tuning->candidate_count == VW__MOST_CANDIDATES)
        return VW_OK;
    VW__TRY(is_new_and_possible(tuning, conf, needs_fraction_call, &is_worth_it));
    if (!is_worth_it)
        return VW_OK;
    VW__TRY(append(tuning, kind, policies[kind], conf));
    vw__candidate *candidate = &tuning->candidates[tuning->candidate_count - 1];
    candidate->needs_fraction_call = needs_fraction_call;
    if (needs_fraction_call)
        candidate->card.fraction = 1.0;
    return VW_OK;
}

static __attribute__((format(printf, 4, 5))) vw_status add_conf(vw__tuning *tuning,
                                                                vw__candidate_kind kind,
                                                                bool needs_fraction_call,
                                                                const char *format, ...)
{
    char conf[VW__MOST_CONF_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(conf, sizeof conf, format, arguments);
    va_end(arguments);
    return add(tuning, kind, conf, needs_fraction_call);
}

/* ---- the first round ------------------------------------------------------------------------- */

vw_status vw__tune_add_defaults(vw__tuning *tuning)
{
    VW__TRY(add(tuning, VW__CANDIDATE_RECORDED, tuning->work->recorded_conf, false));
    VW__TRY(add(tuning, VW__CANDIDATE_NATIVE, "", false));
    VW__TRY(add(tuning, VW__CANDIDATE_EXPANDABLE, "expandable_segments:True", false));
    return append(tuning, VW__CANDIDATE_VRAMWISE, "vramwise", "");
}

static uint64_t largest_request(const vw__script *script)
{
    uint64_t largest_bytes = 0;
    for (size_t i = 0; i < script->op_count; i++) {
        const vw__script_op *op = &script->ops[i];
        bool is_request = op->kind == VW__SCRIPT_ALLOC || op->kind == VW__SCRIPT_OOM;
        if (is_request && op->size_bytes > largest_bytes)
            largest_bytes = op->size_bytes;
    }
    return largest_bytes;
}

static vw_status add_max_splits(vw__tuning *tuning)
{
    uint64_t largest_bytes = largest_request(&tuning->work->script);
    for (unsigned mb = FIRST_SPLIT_MB; mb <= LAST_SPLIT_MB; mb *= 2)
        if (mb * BYTES_PER_MB <= largest_bytes)
            VW__TRY(add_conf(tuning, VW__CANDIDATE_MAX_SPLIT, false, "max_split_size_mb:%u", mb));
    return VW_OK;
}

static vw_status add_roundups(vw__tuning *tuning)
{
    for (unsigned divisions = 2; divisions <= 32; divisions *= 2)
        VW__TRY(add_conf(tuning, VW__CANDIDATE_ROUNDUP, false, "roundup_power2_divisions:%u",
                         divisions));
    return VW_OK;
}

static vw_status has_fraction_option(const vw__tuning *tuning, bool *out)
{
    int version = 0;
    VW__TRY(vw__torch_parse_version(tuning->work->torch_version, &version));
    *out = version >= FIRST_VERSION_WITH_FRACTION_OPTION;
    return VW_OK;
}

static vw_status add_collections(vw__tuning *tuning)
{
    static const char *const thresholds[] = {"0.6", "0.8", "0.9"};
    bool has_option = false;
    VW__TRY(has_fraction_option(tuning, &has_option));
    for (size_t i = 0; i < sizeof thresholds / sizeof thresholds[0]; i++)
        VW__TRY(add_conf(tuning, VW__CANDIDATE_GARBAGE_COLLECTION, !has_option,
                         "garbage_collection_threshold:%s%s", thresholds[i],
                         has_option ? "," FRACTION_TEXT : ""));
    return VW_OK;
}

/* What pages on the web name without having seen the program; of the last, its beginning. */
static void mark_recommended(vw__tuning *tuning)
{
    static const char *const recommended[] = {
        "max_split_size_mb:128",      "max_split_size_mb:512",       "roundup_power2_divisions:4",
        "roundup_power2_divisions:8", "roundup_power2_divisions:16",
    };
    static const char collection[] = "garbage_collection_threshold:0.8";
    for (size_t i = 0; i < tuning->candidate_count; i++) {
        vw__candidate *candidate = &tuning->candidates[i];
        candidate->is_recommended =
            candidate->kind == VW__CANDIDATE_GARBAGE_COLLECTION &&
            strncmp(candidate->result.conf, collection, strlen(collection)) == 0;
        for (size_t j = 0; j < sizeof recommended / sizeof recommended[0]; j++)
            candidate->is_recommended |= strcmp(candidate->result.conf, recommended[j]) == 0;
    }
}

vw_status vw__tune_add_options(vw__tuning *tuning)
{
    VW__TRY(add_max_splits(tuning));
    VW__TRY(add_roundups(tuning));
    VW__TRY(add_collections(tuning));
    mark_recommended(tuning);
    return VW_OK;
}

/* ---- the second round ------------------------------------------------------------------------ */

static const vw__candidate *best_of_kind(const vw__tuning *tuning, vw__candidate_kind kind)
{
    const vw__candidate *best = NULL;
    for (size_t i = 0; i < tuning->candidate_count; i++) {
        const vw__candidate *candidate = &tuning->candidates[i];
        if (candidate->kind == kind &&
            (best == NULL || vw__tune_is_better(tuning, candidate, best)))
            best = candidate;
    }
    return best;
}

/* Either may be NULL: then nothing is added. */
static vw_status add_both(vw__tuning *tuning, const vw__candidate *one, const vw__candidate *other)
{
    if (one == NULL || other == NULL)
        return VW_OK;
    return add_conf(tuning, VW__CANDIDATE_COMBINED,
                    one->needs_fraction_call || other->needs_fraction_call, "%s,%s",
                    one->result.conf, other->result.conf);
}

vw_status vw__tune_add_combinations(vw__tuning *tuning)
{
    const vw__candidate *expandable = best_of_kind(tuning, VW__CANDIDATE_EXPANDABLE);
    const vw__candidate *max_split = best_of_kind(tuning, VW__CANDIDATE_MAX_SPLIT);
    const vw__candidate *roundup = best_of_kind(tuning, VW__CANDIDATE_ROUNDUP);
    const vw__candidate *collection = best_of_kind(tuning, VW__CANDIDATE_GARBAGE_COLLECTION);
    static const unsigned divisions[] = {8, 16, 32};
    VW__TRY(add_both(tuning, expandable, roundup));
    for (size_t i = 0; i < sizeof divisions / sizeof divisions[0]; i++)
        VW__TRY(add_conf(tuning, VW__CANDIDATE_COMBINED, false,
                         "expandable_segments:True,roundup_power2_divisions:%u", divisions[i]));
    VW__TRY(add_both(tuning, max_split, roundup));
    VW__TRY(add_both(tuning, max_split, collection));
    VW__TRY(add_both(tuning, roundup, collection));
    if (max_split != NULL && roundup != NULL && collection != NULL)
        VW__TRY(add_conf(tuning, VW__CANDIDATE_COMBINED, collection->needs_fraction_call,
                         "%s,%s,%s", max_split->result.conf, roundup->result.conf,
                         collection->result.conf));
    return VW_OK;
}

vw_status vw__tune_add_rescue(vw__tuning *tuning)
{
    const vw__candidate *vramwise = best_of_kind(tuning, VW__CANDIDATE_VRAMWISE);
    if (vramwise == NULL || vramwise->result.is_complete ||
        tuning->candidate_count == VW__MOST_CANDIDATES)
        return VW_OK;
    return append(tuning, VW__CANDIDATE_RESCUE, "vramwise:rescue", "");
}
