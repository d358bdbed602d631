/* tune_grid.c - see tune_grid.h. */
#include "settings/tune_grid.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "settings/setting_variable.h"

enum { REFUSED = -1 };

_Static_assert(VW__TUNE_GRID_MOST < VW__TUNE_MOST_CANDIDATES,
               "all rows and the recorded setting have a place among the candidates");

/* ---- the rows -------------------------------------------------------------------------------- */

static void add_row(vw__tune_grid_row *rows, size_t *count, const vw__setting_row *row,
                    const char *before, const char *behind)
{
    if (*count == VW__TUNE_GRID_MOST)
        return;
    vw__tune_grid_row *out = &rows[(*count)++];
    *out =
        (vw__tune_grid_row){.policy = row->policy, .size_mb = before[0] == '\0' ? row->size_mb : 0};
    (void)snprintf(out->conf, sizeof out->conf, "%s%s%s%s%s", before, before[0] != '\0' ? "," : "",
                   vw__setting_conf(row), behind[0] != '\0' ? "," : "", behind);
}

size_t vw__tune_grid_rows(vw__tune_grid_row rows[VW__TUNE_GRID_MOST])
{
    const char *expandable = vw__setting_conf(vw__setting_row_of(VW__SETTING_EXPANDABLE));
    const vw__setting_row *row;
    size_t count = 0;
    for (size_t i = 0; (row = vw__setting_row_for(VW__SETTING_FOR_TUNE, i)) != NULL; i++)
        add_row(rows, &count, row, "",
                row->kind == VW__SETTING_COLLECTION ? VW__TUNE_FRACTION_CONF : "");
    for (size_t i = 0; (row = vw__setting_row_for(VW__SETTING_FOR_TUNE_PAIRS, i)) != NULL; i++)
        add_row(rows, &count, row, expandable, "");
    return count;
}

/* ---- one recording --------------------------------------------------------------------------- */

typedef struct grid_call {
    vw__replay_work work;
    vw__tune_work tuning;
    vw__tune_grid_row rows[VW__TUNE_GRID_MOST];
    size_t row_count;
    uint64_t largest_request_bytes;
    int candidates[VW__TUNE_GRID_MOST]; /* by row: which has its result; REFUSED */
} grid_call;

static void add_candidate(grid_call *call, const char *policy, const char *conf)
{
    vw__tune_work *tuning = &call->tuning;
    tuning->candidates[tuning->candidate_count++] = (vw__tune_candidate){
        .result = {.policy = policy, .conf = conf}, .card = vw__replay_card_of(tuning->card_bytes)};
}

/* Stores the candidate that means the same: REFUSED, or the number of candidates if none does. */
static vw_status find_same(const grid_call *call, const char *conf, int *out)
{
    const vw__tune_work *tuning = &call->tuning;
    bool is_same = false;
    for (size_t i = 0; i < tuning->candidate_count; i++) {
        const vw_replay_result *other = &tuning->candidates[i].result;
        if (vw__policy_is_vramwise(other->policy))
            continue;
        vw_status status =
            vw__replay_same_settings(call->work.torch_version, conf, other->conf, &is_same);
        *out = REFUSED;
        if (status == VW_ERR_BAD_SETTING || status == VW_ERR_TOO_LARGE)
            return VW_OK;
        VW__TRY(status);
        *out = (int)i;
        if (is_same)
            return VW_OK;
    }
    *out = (int)tuning->candidate_count;
    return VW_OK;
}

static bool is_same_engine(const grid_call *call, const char *policy, int *out)
{
    for (size_t i = 0; i < call->tuning.candidate_count; i++) {
        *out = (int)i;
        if (strcmp(call->tuning.candidates[i].result.policy, policy) == 0)
            return true;
    }
    return false;
}

/* The defaults are the first row, and every version takes them. */
static vw_status choose_row(grid_call *call, size_t index)
{
    const vw__tune_grid_row *row = &call->rows[index];
    int *place = &call->candidates[index];
    if (row->size_mb * VW__TUNE_BYTES_PER_MB > call->largest_request_bytes) {
        *place = call->candidates[0];
        return VW_OK;
    }
    if (vw__policy_is_vramwise(row->policy)) {
        if (is_same_engine(call, row->policy, place))
            return VW_OK;
        *place = (int)call->tuning.candidate_count;
    } else
        VW__TRY(find_same(call, row->conf, place));
    if (*place == (int)call->tuning.candidate_count)
        add_candidate(call, row->policy, row->conf);
    return VW_OK;
}

/* A string that this version cannot use counts as empty. */
static void add_recorded(grid_call *call)
{
    const vw__replay_setting recorded = vw__replay_recorded_setting(&call->work);
    add_candidate(call, call->work.recorded_policy, recorded.conf);
}

static vw__tune_grid_cell cell_of(const grid_call *call, int candidate)
{
    if (candidate == REFUSED)
        return (vw__tune_grid_cell){.is_refused = true};
    const vw_replay_result *result = &call->tuning.candidates[candidate].result;
    const vw_replay_calls *calls = &result->calls;
    return (vw__tune_grid_cell){
        .is_complete = result->is_complete,
        .is_slow = result->device_ns > call->tuning.slow_ns,
        .peak_reserved_bytes = result->peak_reserved_bytes,
        .retries = result->retries,
        .driver_calls = calls->alloc + calls->free + calls->create + calls->release + calls->map +
                        calls->unmap + calls->set_access,
        .driver_ns = result->device_ns,
    };
}

static vw_status try_rows(grid_call *call, unsigned most_threads, vw__tune_grid *out)
{
    vw__tune_work *tuning = &call->tuning;
    const vw__replay_progress nobody = {.share = 1.0};
    add_recorded(call);
    for (size_t i = 0; i < call->row_count; i++)
        VW__TRY(choose_row(call, i));
    VW__TRY(vw__tune_try(&call->work, tuning->candidates, tuning->candidate_count, most_threads,
                         &nobody));
    vw__tune_judge_slow(tuning);
    out->recorded = cell_of(call, 0);
    for (size_t i = 0; i < call->row_count; i++)
        out->cells[i] = cell_of(call, call->candidates[i]);
    return VW_OK;
}

static vw_status fill(grid_call *call, const vw__model *model, const vw__tune_grid_options *options,
                      vw__tune_grid *out)
{
    const vw__script *script = &call->work.script;
    uint64_t least_bytes = 0;
    size_t conf_bytes = strlen(call->work.recorded_conf) + 1;
    call->tuning.work = &call->work;
    call->tuning.card_bytes = options->card_bytes;
    call->row_count = vw__tune_grid_rows(call->rows);
    call->largest_request_bytes = vw__tune_largest_request(script);
    VW__TRY(vw__replay_least_bytes(script, &least_bytes));
    out->peak_live_bytes = script->peak_live_bytes;
    out->event_count = script->trace->event_count;
    out->is_possible = least_bytes <= options->card_bytes;
    out->variable = vw__setting_variable_of_recording(model, options->torch_version);
    if (out->is_possible)
        VW__TRY(try_rows(call, options->most_threads, out));
    out->recorded_conf = vw__host_alloc(conf_bytes);
    if (out->recorded_conf == NULL)
        return vw__fail_host_memory(conf_bytes, "an option string");
    memcpy(out->recorded_conf, call->work.recorded_conf, conf_bytes);
    return VW_OK;
}

vw_status vw__tune_grid_try(const vw__model *model, const vw__tune_grid_options *options,
                            vw__tune_grid *out)
{
    *out = (vw__tune_grid){.is_possible = false};
    grid_call *call = vw__host_alloc_zeroed(1, sizeof *call);
    if (call == NULL)
        return vw__fail_host_memory(sizeof *call, "a tuning");
    vw_status status =
        vw__replay_work_init(&call->work, model, options->torch_version, VW_BUSIEST_DEVICE, NULL);
    if (status == VW_OK) {
        status = fill(call, model, options, out);
        vw__replay_work_deinit(&call->work);
    }
    vw__host_free(call);
    return status;
}

void vw__tune_grid_free(vw__tune_grid *grid)
{
    vw__host_free(grid->recorded_conf);
    grid->recorded_conf = NULL;
}
