/* stats_summary.c - the replay behind the summary.
 *
 * One trial of verify: under the recorded settings, with the segments at the addresses that the
 * driver gave them. If everything comes out as recorded, the pool's counters are PyTorch's, and the
 * page is printed from them. Else there is no page: nearly PyTorch's numbers would be worse than
 * none.
 *
 * What we did not do: make more than one trial, as verify.c does before it reports a difference.
 * Statistics are asked for often and must be quick; whoever wants to know why there is no page runs
 * verify.
 *
 * The trial is most of the work of stats and needs nothing of the rest, so it can run beside it, on
 * a thread of its own. All it shares with the other thread is the model, which nobody changes; the
 * page and the words of a failure are handed over when it is waited for. */
#include "analysis/stats_summary.h"

#include <stdio.h>
#include <string.h>

#include "analysis/recording.h" /* vw__recording_conf */
#include "analysis/verify_parts.h"
#include "base/byte_buffer.h"
#include "base/error.h"

enum { THREAD_EVENTS = 16384 }; /* with fewer a thread costs more than it saves */

/* The card, and the limit that the trace shows, if any. */
static vw_status assume(const vw__script *script, const char *torch_version, const char *conf,
                        vw__verify_assumption *out)
{
    vw__limit_evidence evidence;
    *out = (vw__verify_assumption){.limit_bytes = UINT64_MAX, .fraction = -1.0};
    VW__TRY(vw__limit_guess_total(script, &out->total_bytes));
    VW__TRY(vw__limit_evidence_find(script, torch_version, conf, out->total_bytes, &evidence));
    if (evidence.below_bytes != UINT64_MAX)
        out->limit_bytes = evidence.at_least_bytes;
    vw__limit_evidence_deinit(&evidence);
    return VW_OK;
}

static vw_status try_script(const vw__script *script, const char *torch_version, const char *conf,
                            vw__arena *arena, const char **summary, const char **reason)
{
    vw__verify_assumption assumption;
    vw__verify_trial_result result = {.summary = NULL};
    vw_status status = assume(script, torch_version, conf, &assumption);
    const vw__player_time time = vw__player_time_begin(script->op_count);
    const vw__verify_trial trial = {.script = script,
                                    .torch_version = torch_version,
                                    .conf = conf,
                                    .assumption = &assumption,
                                    .summary_arena = arena,
                                    .time = &time};
    if (status == VW_OK)
        status = vw__verify_trial_run(&trial, &result);
    if (status == VW_ERR_BAD_SETTING) {
        *reason = "the recorded settings cannot be used with the rules of this version";
        return VW_OK;
    }
    if (status == VW_ERR_UNSUPPORTED) {
        *reason = "the replay would take more time or memory than is allowed";
        return VW_OK;
    }
    bool lacks_frees = script->lacks_free_requested || script->lacks_free_completed;
    if (!lacks_frees) /* else when frees completed is not known, and counters depend on it */
        *summary = result.summary;
    if (status == VW_OK && (result.difference.is_found || lacks_frees))
        *reason = "replay does not reproduce the recording at first try; verify says more";
    return status;
}

static vw_status make_summary(const vw__model *model, const vw__model_trace *trace,
                              const char *torch_version, vw__arena *arena, const char **summary,
                              const char **reason)
{
    vw__script script;
    vw__byte_buffer conf;
    vw_status status = vw__script_make(model, trace, &script);
    *summary = NULL;
    *reason = NULL;
    if (status == VW_ERR_CORRUPT_FILE || status == VW_ERR_UNSUPPORTED) {
        *reason = "the trace contradicts itself";
        return VW_OK;
    }
    if (status != VW_OK)
        return status;
    if (script.is_truncated || !script.has_end_state) { /* cut at its beginning, or at its end */
        *reason = VW__STATS_SUMMARY_CUT;
        vw__script_deinit(&script);
        return VW_OK;
    }
    vw__byte_buffer_init(&conf);
    status = vw__recording_conf(model, &conf);
    if (status == VW_OK)
        status =
            try_script(&script, torch_version, vw__byte_buffer_text(&conf), arena, summary, reason);
    vw__byte_buffer_deinit(&conf);
    vw__script_deinit(&script);
    return status;
}

/* ---- beside the rest ------------------------------------------------------------------------- */

static void *run_job(void *context)
{
    vw__stats_summary_job *job = context;
    job->status = make_summary(job->model, job->trace, job->torch_version, &job->arena,
                               &job->summary, &job->reason);
    if (job->status != VW_OK)
        snprintf(job->failure, sizeof job->failure, "%s", vw_last_error());
    return NULL;
}

void vw__stats_summary_job_begin(vw__stats_summary_job *job, const vw__model *model,
                                 const vw__model_trace *trace, const char *torch_version)
{
    *job = (vw__stats_summary_job){.model = model, .trace = trace, .torch_version = torch_version};
    vw__arena_init(&job->arena, VW__ARENA_NO_LIMIT);
    if (trace->event_count >= THREAD_EVENTS)
        job->is_running = pthread_create(&job->thread, NULL, run_job, job) == 0;
}

vw_status vw__stats_summary_job_finish(vw__stats_summary_job *job, vw__arena *arena,
                                       const char **summary, const char **reason)
{
    if (!job->is_running)
        return make_summary(job->model, job->trace, job->torch_version, arena, summary, reason);
    (void)pthread_join(job->thread, NULL);
    job->is_running = false;
    if (job->status != VW_OK)
        return vw__fail(job->status, "%s", job->failure);
    *reason = job->reason;
    *summary = NULL;
    if (job->summary == NULL)
        return VW_OK;
    *summary = vw__arena_copy(arena, job->summary, strlen(job->summary));
    return *summary != NULL ? VW_OK : vw__fail_host_memory(strlen(job->summary), "the summary");
}

void vw__stats_summary_job_deinit(vw__stats_summary_job *job)
{
    if (job->is_running)
        (void)pthread_join(job->thread, NULL);
    vw__arena_deinit(&job->arena);
    job->is_running = false;
}
