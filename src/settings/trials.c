/* trials.c - see trials.h. */
#include "settings/trials.h"

#include <string.h>

#include "base/error.h"

bool vw__trials_are_impossible(vw_status status)
{
    return status == VW_ERR_CORRUPT_FILE || status == VW_ERR_UNSUPPORTED ||
           status == VW_ERR_BAD_SETTING || status == VW_ERR_TOO_LARGE ||
           status == VW_ERR_INVALID_ARGUMENT;
}

static vw_status choose_card(vw__trials *trials, const vw__replay_card *card)
{
    vw__replay_recorded_card recorded;
    if (card != NULL) {
        trials->card = *card;
        trials->is_card_known = card->capacity_bytes != UINT64_MAX;
        trials->has_limit = trials->is_card_known; /* the program can set one there */
        return VW_OK;
    }
    VW__TRY(vw__replay_recorded_card_find(&trials->work, &recorded));
    trials->card = vw__replay_card_as_recorded(&recorded);
    trials->is_card_known = recorded.is_known;
    trials->has_limit = recorded.is_known && !recorded.is_device;
    return VW_OK;
}

vw_status vw__trials_open(vw__trials *trials, const vw__model *model, const char *torch_version,
                          int device, const vw__replay_card *card)
{
    *trials = (vw__trials){.made_count = 0};
    VW__TRY(vw__replay_work_init(&trials->work, model, torch_version, device, NULL));
    vw_status status = choose_card(trials, card);
    if (status != VW_OK)
        vw__replay_work_deinit(&trials->work);
    return status;
}

void vw__trials_close(vw__trials *trials)
{
    vw__replay_work_deinit(&trials->work);
}

const char *vw__trials_recorded_conf(const vw__trials *trials)
{
    return vw__replay_recorded_setting(&trials->work).conf;
}

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static const vw__trials_made *find(const vw__trials *trials, vw__replay_setting setting)
{
    for (size_t i = 0; i < trials->made_count; i++)
        if (is_same_text(trials->made[i].engine, setting.engine) &&
            is_same_text(trials->made[i].conf, setting.conf))
            return &trials->made[i];
    return NULL;
}

vw_status vw__trials_try(vw__trials *trials, const vw__setting_row *row, vw_replay_result *out)
{
    vw__replay_setting setting =
        row != NULL ? vw__setting_of(row) : vw__replay_recorded_setting(&trials->work);
    const vw__trials_made *known = find(trials, setting);
    vw__replay_card card = trials->card;
    if (known != NULL) {
        *out = known->result;
        return VW_OK;
    }
    if (row != NULL && row->kind == VW__SETTING_COLLECTION && card.fraction > 1.0)
        card.fraction = 1.0;
    *out = (vw_replay_result){.policy = row != NULL ? row->policy : trials->work.recorded_policy};
    VW__TRY(vw__replay_run(&trials->work, setting, card, false, NULL, out));
    if (trials->made_count < VW__TRIALS_MOST)
        trials->made[trials->made_count++] = (vw__trials_made){setting.engine, setting.conf, *out};
    return VW_OK;
}

vw_status vw__trials_is_new(const vw__trials *trials, const vw__setting_row *row, bool *out)
{
    const char *version = trials->work.torch_version, *conf = vw__setting_conf(row);
    const char *recorded = trials->work.recorded_policy;
    bool is_same = false;
    if (vw__policy_is_vramwise(row->policy) || vw__policy_is_vramwise(recorded)) {
        /* An engine of ours reads no option of PyTorch's. */
        *out = vw__policy_is_vramwise(row->policy) && strcmp(row->policy, recorded) != 0;
        return VW_OK;
    }
    vw_status status =
        vw__replay_same_settings(version, conf, vw__trials_recorded_conf(trials), &is_same);
    if (status == VW_OK && !is_same && row->kind != VW__SETTING_DEFAULTS)
        status = vw__replay_same_settings(version, conf, "", &is_same);
    *out = status == VW_OK && !is_same;
    return vw__trials_are_impossible(status) ? VW_OK : status;
}
