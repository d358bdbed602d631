/* tune_candidates.c - which settings tune tries on a recording: what the top of tune.c says. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "settings/tune.h"

/* ---- the first round ------------------------------------------------------------ */

/* Stores whether the setting is new, and the version takes it. */
static vw_status is_new_and_possible(const vw__tune_work *tuning, const char *conf,
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
        const vw__tune_candidate *other = &tuning->candidates[i];
        if (other->needs_fraction_call != needs_fraction_call ||
            vw__policy_is_vramwise(other->result.policy))
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
static vw_status append(vw__tune_work *tuning, vw__setting_kind kind, const char *policy,
                        const char *conf)
{
    const char *kept = vw__arena_copy(tuning->arena, conf, strlen(conf));
    if (kept == NULL)
        return vw__fail_host_memory(strlen(conf) + 1, "an option string");
    tuning->candidates[tuning->candidate_count++] = (vw__tune_candidate){
        .kind = kind,
        .result = {.policy = policy, .conf = kept},
        .card = vw__replay_card_of(tuning->card_bytes),
    };
    return VW_OK;
}

static vw_status add(vw__tune_work *tuning, vw__setting_kind kind, const char *policy,
                     const char *conf, bool needs_fraction_call)
{
    bool is_worth_it = false;
    if (tuning->candidate_count == VW__TUNE_MOST_CANDIDATES)
        return VW_OK;
    VW__TRY(is_new_and_possible(tuning, conf, needs_fraction_call, &is_worth_it));
    if (!is_worth_it)
        return VW_OK;
    VW__TRY(append(tuning, kind, policy, conf));
    vw__tune_candidate *candidate = &tuning->candidates[tuning->candidate_count - 1];
    candidate->needs_fraction_call = needs_fraction_call;
    if (needs_fraction_call)
        candidate->card.fraction = 1.0;
    return VW_OK;
}

static const vw__tune_candidate *find_policy(const vw__tune_work *tuning, const char *policy)
{
    for (size_t i = 0; i < tuning->candidate_count; i++)
        if (strcmp(tuning->candidates[i].result.policy, policy) == 0)
            return &tuning->candidates[i];
    return NULL;
}

/* An engine of our own reads no option string: it is tried once, under its name. */
static vw_status add_engine(vw__tune_work *tuning, vw__setting_kind kind, const char *policy,
                            const char *conf)
{
    if (tuning->candidate_count == VW__TUNE_MOST_CANDIDATES || find_policy(tuning, policy) != NULL)
        return VW_OK;
    return append(tuning, kind, policy, conf);
}

static vw_status add_setting(vw__tune_work *tuning, vw__setting_kind kind, const char *policy,
                             const char *conf)
{
    return vw__policy_is_vramwise(policy) ? add_engine(tuning, kind, policy, conf)
                                          : add(tuning, kind, policy, conf, false);
}

static vw_status add_row(vw__tune_work *tuning, const vw__setting_row *row)
{
    return add_setting(tuning, (vw__setting_kind)row->kind, row->policy, vw__setting_conf(row));
}

vw_status vw__tune_add_defaults(vw__tune_work *tuning)
{
    const vw__replay_work *work = tuning->work;
    VW__TRY(add_setting(tuning, VW__SETTING_RECORDED, work->recorded_policy, work->recorded_conf));
    VW__TRY(add_row(tuning, vw__setting_row_of(VW__SETTING_DEFAULTS)));
    VW__TRY(add_row(tuning, vw__setting_row_of(VW__SETTING_EXPANDABLE)));
    return add_row(tuning, vw__setting_row_of(VW__SETTING_VRAMWISE));
}

uint64_t vw__tune_largest_request(const vw__script *script)
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

/* An option that the version does not know has no effect, or is refused. */
static vw_status has_fraction_option(const vw__tune_work *tuning, bool *out)
{
    bool is_nothing = true;
    vw_status status = vw__replay_same_settings(tuning->work->torch_version, VW__TUNE_FRACTION_CONF,
                                                "", &is_nothing);
    *out = status == VW_OK && !is_nothing;
    return status == VW_ERR_BAD_SETTING ? VW_OK : status;
}

static vw_status add_collection(vw__tune_work *tuning, const vw__setting_row *row)
{
    char conf[VW__TUNE_MOST_CONF_BYTES];
    bool has_option = false;
    VW__TRY(has_fraction_option(tuning, &has_option));
    (void)snprintf(conf, sizeof conf, "%s%s", row->conf,
                   has_option ? "," VW__TUNE_FRACTION_CONF : "");
    return add(tuning, VW__SETTING_COLLECTION, row->policy, conf, !has_option);
}

vw_status vw__tune_add_options(vw__tune_work *tuning)
{
    uint64_t largest_bytes = vw__tune_largest_request(&tuning->work->script);
    const vw__setting_row *row;
    for (size_t i = 0; (row = vw__setting_row_for(VW__SETTING_FOR_TUNE, i)) != NULL; i++) {
        size_t count_before = tuning->candidate_count;
        if (row->conf == NULL || row->size_mb * VW__TUNE_BYTES_PER_MB > largest_bytes)
            continue; /* a policy, added elsewhere; or no request is as large */
        VW__TRY(row->kind == VW__SETTING_COLLECTION ? add_collection(tuning, row)
                                                    : add_row(tuning, row));
        if (tuning->candidate_count != count_before)
            tuning->candidates[count_before].is_recommended = row->is_recommended;
    }
    return VW_OK;
}

/* ---- the second round ----------------------------------------------------------- */

static const vw__tune_candidate *best_of_kind(const vw__tune_work *tuning, vw__setting_kind kind)
{
    const vw__tune_candidate *best = NULL;
    for (size_t i = 0; i < tuning->candidate_count; i++) {
        const vw__tune_candidate *candidate = &tuning->candidates[i];
        if (candidate->kind == kind &&
            (best == NULL || vw__tune_is_better(tuning, candidate, best)))
            best = candidate;
    }
    return best;
}

/* Adds nothing if one of `confs` is NULL. */
static vw_status add_together(vw__tune_work *tuning, const char *const *confs, size_t count,
                              bool needs_fraction_call)
{
    char conf[VW__TUNE_MOST_CONF_BYTES] = "";
    for (size_t i = 0; i < count; i++) {
        if (confs[i] == NULL)
            return VW_OK;
        size_t length = strlen(conf);
        (void)snprintf(conf + length, sizeof conf - length, "%s%s", i != 0 ? "," : "", confs[i]);
    }
    return add(tuning, VW__SETTING_COMBINED, "conf", conf, needs_fraction_call);
}

static const char *conf_of(const vw__tune_candidate *candidate)
{
    return candidate != NULL ? candidate->result.conf : NULL;
}

vw_status vw__tune_add_combinations(vw__tune_work *tuning)
{
    const char *expandable = conf_of(best_of_kind(tuning, VW__SETTING_EXPANDABLE));
    const char *max_split = conf_of(best_of_kind(tuning, VW__SETTING_MAX_SPLIT));
    const char *roundup = conf_of(best_of_kind(tuning, VW__SETTING_ROUNDUP));
    const vw__tune_candidate *best_collection = best_of_kind(tuning, VW__SETTING_COLLECTION);
    const char *collection = conf_of(best_collection);
    bool needs_call = best_collection != NULL && best_collection->needs_fraction_call;
    const vw__setting_row *row;
    VW__TRY(add_together(tuning, (const char *[]){expandable, roundup}, 2, false));
    expandable = vw__setting_conf(vw__setting_row_of(VW__SETTING_EXPANDABLE));
    for (size_t i = 0; (row = vw__setting_row_for(VW__SETTING_FOR_TUNE_PAIRS, i)) != NULL; i++)
        VW__TRY(add_together(tuning, (const char *[]){expandable, row->conf}, 2, false));
    VW__TRY(add_together(tuning, (const char *[]){max_split, roundup}, 2, false));
    VW__TRY(add_together(tuning, (const char *[]){max_split, collection}, 2, needs_call));
    VW__TRY(add_together(tuning, (const char *[]){roundup, collection}, 2, needs_call));
    return add_together(tuning, (const char *[]){max_split, roundup, collection}, 3, needs_call);
}
