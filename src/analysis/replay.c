/* replay.c - vw_recording_replay(): which runs to make, on which card, and what to say about it. */
#include "analysis/replay.h"

#include <inttypes.h>
#include <string.h>

#include "analysis/recording.h"
#include "analysis/result.h"
#include "analysis/spill_cost.h"
#include "base/error.h"
#include "base/human_units.h"
#include "base/struct_size.h"

enum { MOST_RUNS = 1024 };

typedef struct replay_call {
    const vw_replay_options *options;
    vw_replay_report *report;
    vw__arena *arena; /* the report's */
    vw__notes notes;
    vw__replay_work work;
    vw__replay_card card;
    vw_replay_result *results; /* in the arena */
    size_t run_count;
} replay_call;

/* ---- which runs ------------------------------------------------------------------------------ */

static vw_status name_run(replay_call *call, const vw_replay_run *run, vw_replay_result *out)
{
    const char *conf = NULL;
    if (run->policy == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "a run without a policy");
    VW__TRY(vw__replay_name_run(&call->work, run->policy, run->conf, &out->policy, &conf));
    if (call->options->runs != NULL)
        VW__TRY(vw__replay_check_recorded(&call->work, run->policy,
                                          call->options->torch_version != NULL));
    if (call->options->spill_bytes != 0 && !vw__policy_is_vramwise(out->policy))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "policy %s cannot spill: vramwise, vramwise:rescue or vramwise:tight is "
                        "expected",
                        run->policy);
    out->conf = vw__arena_copy(call->arena, conf, strlen(conf));
    return out->conf != NULL ? VW_OK : vw__fail_host_memory(strlen(conf), "an option string");
}

/* Stores whether the run is new: every engine of ours is run once, and every setting of PyTorch's
 * that the version has. */
static vw_status is_wanted(replay_call *call, const vw_replay_result *next, bool *out)
{
    bool is_there = strcmp(next->policy, "recorded") == 0 && !call->work.is_recorded_conf_usable;
    for (size_t i = 0; i < call->run_count && !is_there; i++) {
        if (vw__policy_is_vramwise(next->policy) ||
            vw__policy_is_vramwise(call->results[i].policy)) {
            is_there = strcmp(next->policy, call->results[i].policy) == 0;
            continue;
        }
        vw_status status = vw__replay_same_settings(call->work.torch_version, call->results[i].conf,
                                                    next->conf, &is_there);
        if (status == VW_ERR_BAD_SETTING) {
            vw__notes_add(&call->notes, "PyTorch %s has no expandable segments.",
                          call->work.torch_version);
            is_there = true;
        } else if (status != VW_OK) {
            return status;
        }
    }
    *out = !is_there;
    return VW_OK;
}

static vw_status name_default_runs(replay_call *call)
{
    for (size_t i = 0; i < VW__POLICY_DEFAULTS; i++) {
        vw_replay_result *next = &call->results[call->run_count];
        const vw_replay_run run = {.policy = vw__policy_default(i)->name};
        bool is_run = false;
        if (call->options->spill_bytes != 0 && !vw__policy_is_vramwise(run.policy))
            continue; /* it cannot spill */
        VW__TRY(name_run(call, &run, next));
        VW__TRY(is_wanted(call, next, &is_run));
        call->run_count += is_run;
    }
    return VW_OK;
}

static vw_status name_runs(replay_call *call)
{
    const vw_replay_options *options = call->options;
    size_t capacity = options->runs != NULL ? options->run_count : VW__POLICY_DEFAULTS;
    if (capacity == 0 || capacity > MOST_RUNS)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "%zu runs: 1 to %d are expected", capacity,
                        MOST_RUNS);
    call->results = vw__arena_alloc_array(call->arena, capacity, sizeof *call->results,
                                          _Alignof(vw_replay_result));
    if (call->results == NULL)
        return vw__fail_host_memory(capacity * sizeof *call->results, "the results of a replay");
    if (options->runs == NULL)
        return name_default_runs(call);
    for (; call->run_count < capacity; call->run_count++)
        VW__TRY(name_run(call, &options->runs[call->run_count], &call->results[call->run_count]));
    return VW_OK;
}

/* ---- on which card --------------------------------------------------------------------------- */

static void note_recorded_card(replay_call *call, const vw__replay_recorded_card *card)
{
    char proven[VW__HUMAN_SIZE_BYTES], refused[VW__HUMAN_SIZE_BYTES], left[VW__HUMAN_SIZE_BYTES];
    (void)vw__human_size(card->bytes, proven);
    (void)vw__human_size(card->refused_bytes, refused);
    (void)vw__human_size(card->device_free_bytes, left);
    if (card->is_written)
        vw__notes_add(&call->notes,
                      "No card was named: the recording says that its pool was limited to %s.",
                      proven);
    else if (card->is_device)
        vw__notes_add(&call->notes,
                      "No card was named: the recording ran out of memory, so it is replayed on "
                      "what PyTorch had there, %s (with %s free on the device, more was asked "
                      "for).",
                      proven, left);
    else
        vw__notes_add(&call->notes,
                      "No card was named: the recording ran out of memory with %s free on the "
                      "device, so the process had a limit (set_per_process_memory_fraction). It "
                      "is replayed under %s%s; %s was refused.",
                      left, proven,
                      card->is_narrowed ? ", with which garbage is collected as recorded"
                                        : ", which was served",
                      refused);
}

static vw_status choose_card(replay_call *call)
{
    const vw__replay_work *work = &call->work;
    vw__replay_recorded_card recorded;
    if (call->options->card_bytes != 0) {
        call->card = vw__replay_card_of(call->options->card_bytes);
        return VW_OK;
    }
    VW__TRY(vw__replay_recorded_card_find(work, &recorded));
    call->card = vw__replay_card_as_recorded(&recorded);
    if (recorded.is_known)
        note_recorded_card(call, &recorded);
    return VW_OK;
}

/* ---- the runs -------------------------------------------------------------------------------- */

static vw_status make_runs(replay_call *call)
{
    const vw_replay_options *options = call->options;
    double run_share = 1.0 / (double)call->run_count;
    vw__replay_progress progress = {
        .progress = options->progress,
        .context = options->progress_context,
    };
    for (size_t i = 0; i < call->run_count; i++) {
        vw_replay_result *result = &call->results[i];
        vw__replay_setting setting = vw__policy_setting(result->policy, result->conf);
        setting.spill_bytes = options->spill_bytes;
        setting.has_streams = options->stream;
        progress.base = (double)i * run_share;
        progress.share = options->find_smallest_card ? run_share / 10 : run_share;
        VW__TRY(vw__replay_run(&call->work, setting, call->card, false, &progress, result));
        if (options->find_smallest_card) {
            progress.base += progress.share;
            progress.share = run_share - progress.share;
            vw__replay_smallest smallest;
            VW__TRY(vw__replay_smallest_card(&call->work, setting, &progress, &smallest));
            result->smallest_card_bytes = smallest.bytes;
            result->first_card_bytes = smallest.first_bytes;
        }
    }
    return vw__replay_tell(
        &(vw__replay_progress){options->progress, options->progress_context, 1.0, 0.0}, 0.0);
}

/* A smaller card may do where a larger one does not: see replay_card.c. */
static void note_smaller_cards(replay_call *call)
{
    for (size_t i = 0; i < call->run_count; i++) {
        const vw_replay_result *result = &call->results[i];
        char needed[VW__HUMAN_SIZE_BYTES], less[VW__HUMAN_SIZE_BYTES];
        if (result->first_card_bytes == result->smallest_card_bytes)
            continue;
        (void)vw__human_size(result->smallest_card_bytes, needed);
        (void)vw__human_size(result->smallest_card_bytes - result->first_card_bytes, less);
        vw__notes_add(&call->notes,
                      "%s needs a card of %s: it completes on one with %s less, too, but not on "
                      "every one between.",
                      result->policy, needed, less);
    }
}

/* Made-up addresses can make a difference. */
static void note_missed_oom(replay_call *call, uint64_t recorded_event)
{
    for (size_t i = 0; i < call->run_count; i++) {
        const vw_replay_result *result = &call->results[i];
        if (call->options->card_bytes != 0 || call->work.trim_count != 0 ||
            call->work.skips_empty_cache || recorded_event == VW_UNKNOWN ||
            strcmp(result->policy, "recorded") != 0 ||
            (result->has_oom && result->oom_event == recorded_event))
            continue;
        vw__notes_add(&call->notes,
                      "The recording ran out of memory at event %" PRIu64
                      ", this replay of its own settings did not: where blocks lie depends on "
                      "addresses that are not recorded here.",
                      recorded_event);
        return;
    }
}

/* A replay can ask nobody. */
#define MOMENT_WORDS                                                                               \
    "That needs moments in which no kernel touches it: under PyTorch the launch gate makes them, " \
    "elsewhere the program grants them (vw_safe_point)."

static void note_copies(replay_call *call)
{
    for (size_t i = 0; i < call->run_count; i++) {
        const vw_replay_result *result = &call->results[i];
        if (result->copied_bytes <= result->all_spilled_bytes + result->returned_bytes)
            continue; /* what was copied to and from the host has a note of its own */
        vw__notes_add(&call->notes, "%s copied live data to other pages. " MOMENT_WORDS,
                      result->policy);
        return;
    }
}

/* Streams that the recording does not show enough for. */
static void note_unknown_streams(replay_call *call)
{
    vw__notes_add(
        &call->notes,
        "What streams move is not known: it takes a step after the first, with times, and an "
        "optimizer's state or saved tensors by their stacks. What it would take without streams "
        "is shown.");
}

static void note_streams(replay_call *call)
{
    if (!call->options->stream)
        return;
    if (!vw__replay_stream_is_known(call->work.stream)) {
        note_unknown_streams(call);
        return;
    }
    for (size_t i = 0; i < call->run_count; i++) {
        const vw_replay_result *result = &call->results[i];
        if (result->stream_state_bytes + result->stream_saved_bytes + result->stream_stayed_bytes ==
            0)
            continue;
        vw__notes_add(&call->notes, "What streams cost is computed: " VW__STREAM_COST_WORDS ".");
        return;
    }
}

static void note_step_cost(replay_call *call, const vw_replay_result *result)
{
    if (result->step_cost_ns == VW_UNKNOWN)
        return; /* the report says so */
    vw__notes_add(&call->notes,
                  "What a step costs is computed: " VW__SPILL_COST_WORDS
                  " over the bus of an H200, unless it came back within the step; and the time "
                  "of moving, on average of %s.",
                  result->is_step_cost_settled
                      ? "the steps after the first two in which memory moved"
                      : "the first steps in which memory moved: the recording has no later "
                        "ones, which find the host memory that these make");
}

static void note_spills(replay_call *call)
{
    for (size_t i = 0; i < call->run_count; i++) {
        const vw_replay_result *result = &call->results[i];
        if (result->spills == 0)
            continue;
        vw__notes_add(&call->notes, "%s moved live data to host memory. " MOMENT_WORDS,
                      result->policy);
        note_step_cost(call, result);
        return;
    }
}

static uint64_t first_recorded_oom(const vw__script *script)
{
    for (size_t i = 0; i < script->op_count; i++)
        if (script->ops[i].kind == VW__SCRIPT_OOM && script->ops[i].end_event != 0)
            return script->ops[i].end_event - 1;
    return VW_UNKNOWN;
}

static vw_status make_report(replay_call *call)
{
    vw_replay_report *shown = call->report;
    const vw__script *script = &call->work.script;
    VW__TRY(vw__replay_work_add_trims(&call->work, call->options->empty_cache,
                                      call->options->empty_cache_every, &call->notes,
                                      &shown->step_count));
    VW__TRY(name_runs(call));
    if (call->options->spill_bytes != 0)
        VW__TRY(vw__replay_work_add_spill(&call->work, call->options->stream, &call->notes));
    VW__TRY(choose_card(call));
    VW__TRY(make_runs(call));
    shown->device = script->trace->device;
    shown->event_count = script->trace->event_count;
    shown->peak_live_bytes = script->peak_live_bytes;
    shown->peak_live_event =
        script->peak_event == VW__SCRIPT_BEFORE_RECORDING ? VW_UNKNOWN : script->peak_event;
    shown->recorded_oom_event = first_recorded_oom(script);
    note_missed_oom(call, shown->recorded_oom_event);
    note_copies(call);
    note_smaller_cards(call);
    note_spills(call);
    note_streams(call);
    shown->spill_bytes = call->options->spill_bytes;
    shown->stream = call->options->stream;
    shown->results = call->results;
    shown->result_count = call->run_count;
    return vw__notes_finish(&call->notes, &shown->notes, &shown->note_count);
}

vw_status vw_recording_replay(const vw_recording *recording, const vw_replay_options *options,
                              vw_replay_report **out)
{
    vw_replay_options used = {.struct_size = sizeof used, .device = VW_BUSIEST_DEVICE};
    if (recording == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a recording and a place for the report");
    VW__TRY(VW__STRUCT_IN(vw_replay_options, options, &used));
    if (used.stream && used.spill_bytes == 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "streams need spill_bytes: the host memory that data may go to");
    vw_replay_report *report = vw__result_create(sizeof *report);
    if (report == NULL)
        return vw__fail_host_memory(sizeof *report, "a replay's report");
    replay_call call = {.options = &used, .report = report, .arena = vw__result_arena(report)};
    vw__notes_init(&call.notes, call.arena);
    vw_status status = vw__replay_work_init(&call.work, recording->model, used.torch_version,
                                            used.device, &call.notes);
    if (status == VW_OK) {
        status = make_report(&call);
        vw__replay_work_deinit(&call.work);
    }
    if (status == VW_OK)
        *out = report;
    else
        vw__result_free(report);
    return status;
}

void vw_replay_report_free(vw_replay_report *report)
{
    vw__result_free(report);
}
