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

bool hr__candidate_is_headroom(const hr__candidate *candidate)
{
    return candidate->kind == HR__CANDIDATE_HEADROOM || candidate->kind == HR__CANDIDATE_RESCUE;
}

/* Is the setting there already, or refused by the version? */
static hr_status is_new_and_possible(const hr__tuning *tuning, const char *conf,
                                     bool needs_fraction_call, bool *out)
{
    bool is_same = false;
    *out = false;
    hr_status status = hr__replay_same_settings(tuning->work->torch_version, conf, "", &is_same);
    if (status == HR_ERR_BAD_SETTING || status == HR_ERR_TOO_LARGE)
        return HR_OK;
    HR__TRY(status);
    if (is_same && needs_fraction_call) /* an option that the version does not know, or look at */
        return HR_OK;
    for (size_t i = 0; i < tuning->candidate_count; i++) {
        const hr__candidate *other = &tuning->candidates[i];
        if (other->needs_fraction_call != needs_fraction_call || hr__candidate_is_headroom(other))
            continue;
        HR__TRY(hr__replay_same_settings(tuning->work->torch_version, conf, other->result.conf,
                                         &is_same));
        if (is_same)
            return HR_OK;
    }
    *out = true;
    return HR_OK;
}

/* `policy` is static, `conf` borrowed for the call. */
static hr_status append(hr__tuning *tuning, hr__candidate_kind kind, const char *policy,
                        const char *conf)
{
    const char *kept = hr__arena_copy(tuning->arena, conf, strlen(conf));
    if (kept == NULL)
        return hr__fail_host_memory(strlen(conf) + 1, "an option string");
    tuning->candidates[tuning->candidate_count++] = (hr__candidate){
        .kind = kind,
        .result = {.policy = policy, .conf = kept},
        .card = hr__card_of(tuning->card_bytes),
    };
    return HR_OK;
}

static hr_status add(hr__tuning *tuning, hr__candidate_kind kind, const char *conf,
                     bool needs_fraction_call)
{
    static const char *const policies[] = {
        [HR__CANDIDATE_RECORDED] = "recorded",     [HR__CANDIDATE_NATIVE] = "native",
        [HR__CANDIDATE_EXPANDABLE] = "expandable", [HR__CANDIDATE_MAX_SPLIT] = "conf",
        [HR__CANDIDATE_ROUNDUP] = "conf",          [HR__CANDIDATE_GARBAGE_COLLECTION] = "conf",
        [HR__CANDIDATE_COMBINED] = "conf",
    };
    bool is_worth_it = false;
    if (tuning->candidate_count == HR__MOST_CANDIDATES)
        return HR_OK;
    HR__TRY(is_new_and_possible(tuning, conf, needs_fraction_call, &is_worth_it));
    if (!is_worth_it)
        return HR_OK;
    HR__TRY(append(tuning, kind, policies[kind], conf));
    hr__candidate *candidate = &tuning->candidates[tuning->candidate_count - 1];
    candidate->needs_fraction_call = needs_fraction_call;
    if (needs_fraction_call)
        candidate->card.fraction = 1.0;
    return HR_OK;
}

static __attribute__((format(printf, 4, 5))) hr_status add_conf(hr__tuning *tuning,
                                                                hr__candidate_kind kind,
                                                                bool needs_fraction_call,
                                                                const char *format, ...)
{
    char conf[HR__MOST_CONF_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(conf, sizeof conf, format, arguments);
    va_end(arguments);
    return add(tuning, kind, conf, needs_fraction_call);
}

/* ---- the first round ------------------------------------------------------------------------- */

hr_status hr__tune_add_defaults(hr__tuning *tuning)
{
    HR__TRY(add(tuning, HR__CANDIDATE_RECORDED, tuning->work->recorded_conf, false));
    HR__TRY(add(tuning, HR__CANDIDATE_NATIVE, "", false));
    HR__TRY(add(tuning, HR__CANDIDATE_EXPANDABLE, "expandable_segments:True", false));
    return append(tuning, HR__CANDIDATE_HEADROOM, "headroom", "");
}

static uint64_t largest_request(const hr__script *script)
{
    uint64_t largest_bytes = 0;
    for (size_t i = 0; i < script->op_count; i++) {
        const hr__script_op *op = &script->ops[i];
        bool is_request = op->kind == HR__SCRIPT_ALLOC || op->kind == HR__SCRIPT_OOM;
        if (is_request && op->size_bytes > largest_bytes)
            largest_bytes = op->size_bytes;
    }
    return largest_bytes;
}

static hr_status add_max_splits(hr__tuning *tuning)
{
    uint64_t largest_bytes = largest_request(&tuning->work->script);
    for (unsigned mb = FIRST_SPLIT_MB; mb <= LAST_SPLIT_MB; mb *= 2)
        if (mb * BYTES_PER_MB <= largest_bytes)
            HR__TRY(add_conf(tuning, HR__CANDIDATE_MAX_SPLIT, false, "max_split_size_mb:%u", mb));
    return HR_OK;
}

static hr_status add_roundups(hr__tuning *tuning)
{
    for (unsigned divisions = 2; divisions <= 32; divisions *= 2)
        HR__TRY(add_conf(tuning, HR__CANDIDATE_ROUNDUP, false, "roundup_power2_divisions:%u",
                         divisions));
    return HR_OK;
}

static hr_status has_fraction_option(const hr__tuning *tuning, bool *out)
{
    int version = 0;
    HR__TRY(hr__torch_parse_version(tuning->work->torch_version, &version));
    *out = version >= FIRST_VERSION_WITH_FRACTION_OPTION;
    return HR_OK;
}

static hr_status add_collections(hr__tuning *tuning)
{
    static const char *const thresholds[] = {"0.6", "0.8", "0.9"};
    bool has_option = false;
    HR__TRY(has_fraction_option(tuning, &has_option));
    for (size_t i = 0; i < sizeof thresholds / sizeof thresholds[0]; i++)
        HR__TRY(add_conf(tuning, HR__CANDIDATE_GARBAGE_COLLECTION, !has_option,
                         "garbage_collection_threshold:%s%s", thresholds[i],
                         has_option ? "," FRACTION_TEXT : ""));
    return HR_OK;
}

/* What pages on the web name without having seen the program; of the last, its beginning. */
static void mark_recommended(hr__tuning *tuning)
{
    static const char *const recommended[] = {
        "max_split_size_mb:128",      "max_split_size_mb:512",       "roundup_power2_divisions:4",
        "roundup_power2_divisions:8", "roundup_power2_divisions:16",
    };
    static const char collection[] = "garbage_collection_threshold:0.8";
    for (size_t i = 0; i < tuning->candidate_count; i++) {
        hr__candidate *candidate = &tuning->candidates[i];
        candidate->is_recommended =
            candidate->kind == HR__CANDIDATE_GARBAGE_COLLECTION &&
            strncmp(candidate->result.conf, collection, strlen(collection)) == 0;
        for (size_t j = 0; j < sizeof recommended / sizeof recommended[0]; j++)
            candidate->is_recommended |= strcmp(candidate->result.conf, recommended[j]) == 0;
    }
}

hr_status hr__tune_add_options(hr__tuning *tuning)
{
    HR__TRY(add_max_splits(tuning));
    HR__TRY(add_roundups(tuning));
    HR__TRY(add_collections(tuning));
    mark_recommended(tuning);
    return HR_OK;
}

/* ---- the second round ------------------------------------------------------------------------ */

static const hr__candidate *best_of_kind(const hr__tuning *tuning, hr__candidate_kind kind)
{
    const hr__candidate *best = NULL;
    for (size_t i = 0; i < tuning->candidate_count; i++) {
        const hr__candidate *candidate = &tuning->candidates[i];
        if (candidate->kind == kind &&
            (best == NULL || hr__tune_is_better(tuning, candidate, best)))
            best = candidate;
    }
    return best;
}

/* Either may be NULL: then nothing is added. */
static hr_status add_both(hr__tuning *tuning, const hr__candidate *one, const hr__candidate *other)
{
    if (one == NULL || other == NULL)
        return HR_OK;
    return add_conf(tuning, HR__CANDIDATE_COMBINED,
                    one->needs_fraction_call || other->needs_fraction_call, "%s,%s",
                    one->result.conf, other->result.conf);
}

hr_status hr__tune_add_combinations(hr__tuning *tuning)
{
    const hr__candidate *expandable = best_of_kind(tuning, HR__CANDIDATE_EXPANDABLE);
    const hr__candidate *max_split = best_of_kind(tuning, HR__CANDIDATE_MAX_SPLIT);
    const hr__candidate *roundup = best_of_kind(tuning, HR__CANDIDATE_ROUNDUP);
    const hr__candidate *collection = best_of_kind(tuning, HR__CANDIDATE_GARBAGE_COLLECTION);
    static const unsigned divisions[] = {8, 16, 32};
    HR__TRY(add_both(tuning, expandable, roundup));
    for (size_t i = 0; i < sizeof divisions / sizeof divisions[0]; i++)
        HR__TRY(add_conf(tuning, HR__CANDIDATE_COMBINED, false,
                         "expandable_segments:True,roundup_power2_divisions:%u", divisions[i]));
    HR__TRY(add_both(tuning, max_split, roundup));
    HR__TRY(add_both(tuning, max_split, collection));
    HR__TRY(add_both(tuning, roundup, collection));
    if (max_split != NULL && roundup != NULL && collection != NULL)
        HR__TRY(add_conf(tuning, HR__CANDIDATE_COMBINED, collection->needs_fraction_call,
                         "%s,%s,%s", max_split->result.conf, roundup->result.conf,
                         collection->result.conf));
    return HR_OK;
}

hr_status hr__tune_add_rescue(hr__tuning *tuning)
{
    const hr__candidate *headroom = best_of_kind(tuning, HR__CANDIDATE_HEADROOM);
    if (headroom == NULL || headroom->result.is_complete ||
        tuning->candidate_count == HR__MOST_CANDIDATES)
        return HR_OK;
    return append(tuning, HR__CANDIDATE_RESCUE, "headroom:rescue", "");
}
