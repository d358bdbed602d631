/* tune.c - vw_recording_tune(): which setting to use on a given card.
 *
 * In which order are settings better? First those that complete. Among them, first those that never
 * had to give everything back and try again, for each such retry waits for the whole device; then
 * those that do not spend their time in the driver otherwise (collecting garbage all the time is
 * not counted as a retry, but costs the same): more than a share of the recorded time, and much
 * more than the quickest of them; then those that reserve least, since what is left is
 * the margin for the longer batch that was not recorded. Every option must pay for itself: it
 * counts as 1/32 of the card, so that nobody is told to set three for the sake of 2 MiB.
 *
 * Engines of our own come behind everything of PyTorch's that completes, however little they
 * reserve: an option string costs nobody anything, another allocator has to be built in.
 *
 * If none completes, the one that got farthest comes first.
 *
 * Candidates. Single options first, then the best of each kind together, since they attack
 * different causes: rounding folds sizes, max_split keeps large blocks whole, collection gives old
 * ones back.
 *
 * Garbage collection works only under a memory fraction: PyTorch looks at the threshold only where
 * a limit is set. Where the version has an option that sets one, it must be below 1; before, the
 * program has to call set_per_process_memory_fraction(), and 1.0 does.
 *
 * Our own engine is tried beside them, for where nothing of PyTorch's fits; its mode that copies
 * live data only where the one that does not fails.
 *
 * Warnings are about settings that pages recommend to everybody. How much they reserve is compared
 * without a limit: on the card itself the excess shows only as retries. */
#include "settings/tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/recording.h"
#include "analysis/result.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"
#include "base/struct_size.h"
#include "settings/setting_variable.h"

enum { OPTIONS_PER_CARD = 32 }; /* what an option must save */
enum { MOST_WARNING_RUNS = 16 };

/* More of the recorded time than this in the driver is slow, unless nothing is much quicker. */
#define SLOW_SHARE 0.01
#define SLOW_RATIO 1.5
#define WORSE_RATIO 1.05

typedef struct tune_call {
    const vw_tune_options *options;
    vw_tune_report *report;
    vw__notes notes;
    vw__notes warnings;
    vw__replay_work work;
    vw__tune_work *tuning; /* owned; large */
} tune_call;

static bool is_vramwise(const vw__tune_candidate *candidate)
{
    return vw__policy_is_vramwise(candidate->result.policy);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Negative if a is better. */
static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static size_t count_options(const char *conf)
{
    size_t count = conf[0] != '\0';
    for (; *conf != '\0'; conf++)
        count += *conf == ',';
    return count;
}

uint64_t vw__tune_conf_bytes(const char *conf, uint64_t card_bytes)
{
    return count_options(conf) * (card_bytes / OPTIONS_PER_CARD);
}

static uint64_t weighed_bytes(const vw__tune_work *tuning, const vw_replay_result *result)
{
    return result->peak_reserved_bytes + vw__tune_conf_bytes(result->conf, tuning->card_bytes);
}

static int compare_complete(const vw__tune_work *tuning, const vw_replay_result *a,
                            const vw_replay_result *b)
{
    int order = compare_u64(a->retries != 0, b->retries != 0);
    if (order == 0)
        order = compare_u64(a->device_ns > tuning->slow_ns, b->device_ns > tuning->slow_ns);
    if (order == 0)
        order = compare_u64(a->retries, b->retries);
    if (order == 0)
        order = compare_u64(weighed_bytes(tuning, a), weighed_bytes(tuning, b));
    return order != 0 ? order : compare_u64(a->device_ns, b->device_ns);
}

static int compare(const vw__tune_work *tuning, const vw__tune_candidate *a,
                   const vw__tune_candidate *b)
{
    int order = compare_u64(b->result.is_complete, a->result.is_complete);
    if (order == 0 && a->result.is_complete)
        order = compare_u64(is_vramwise(a), is_vramwise(b));
    if (order == 0 && a->result.is_complete)
        order = compare_complete(tuning, &a->result, &b->result);
    if (order == 0)
        order = compare_u64(b->result.events_done, a->result.events_done);
    if (order == 0)
        order = compare_u64(a->result.peak_reserved_bytes, b->result.peak_reserved_bytes);
    if (order == 0)
        order = strcmp(a->result.conf, b->result.conf);
    return order != 0 ? order : compare_u64(a->kind, b->kind);
}

bool vw__tune_is_better(const vw__tune_work *tuning, const vw__tune_candidate *a,
                        const vw__tune_candidate *b)
{
    return compare(tuning, a, b) < 0;
}

/* A share of the recorded time; without times, of what a second would be. */
static uint64_t slow_limit_ns(const vw__model_trace *trace)
{
    uint64_t duration_ns = vw__replay_duration_ns(trace, 0, trace->event_count);
    double known_ns = duration_ns != VW_UNKNOWN ? (double)duration_ns : 1e9;
    return (uint64_t)(known_ns * SLOW_SHARE);
}

/* Where every setting of PyTorch's is slow, those near the quickest are not. */
static void judge_by_the_quickest(vw__tune_work *tuning)
{
    uint64_t quickest_ns = UINT64_MAX;
    for (size_t i = 0; i < tuning->candidate_count; i++) {
        const vw_replay_result *result = &tuning->candidates[i].result;
        if (is_vramwise(&tuning->candidates[i]))
            continue;
        if (result->is_complete && result->retries == 0 && result->device_ns < quickest_ns)
            quickest_ns = result->device_ns;
    }
    double near_ns = (double)quickest_ns * SLOW_RATIO;
    if (quickest_ns != UINT64_MAX && near_ns > (double)tuning->slow_ns)
        tuning->slow_ns = (uint64_t)near_ns;
}

void vw__tune_judge_slow(vw__tune_work *tuning)
{
    tuning->slow_ns = slow_limit_ns(tuning->work->script.trace);
    judge_by_the_quickest(tuning);
}

/* Insertion sort: stable, and there are few. */
static void sort_candidates(vw__tune_work *tuning)
{
    vw__tune_judge_slow(tuning);
    for (size_t i = 1; i < tuning->candidate_count; i++) {
        vw__tune_candidate moved = tuning->candidates[i];
        size_t j = i;
        for (; j > 0 && vw__tune_is_better(tuning, &moved, &tuning->candidates[j - 1]); j--)
            tuning->candidates[j] = tuning->candidates[j - 1];
        tuning->candidates[j] = moved;
    }
}

/* ---- trying ---------------------------------------------------------------------------------- */

vw_status vw__tune_try(const vw__replay_work *work, vw__tune_candidate *candidates, size_t count,
                       unsigned most_threads, const vw__replay_progress *progress)
{
    vw__replay_job jobs[VW__TUNE_MOST_CANDIDATES];
    for (size_t i = 0; i < count; i++) {
        vw_replay_result *result = &candidates[i].result;
        jobs[i] = (vw__replay_job){.setting = vw__policy_setting(result->policy, result->conf),
                                   .card = candidates[i].card,
                                   .result = result};
    }
    return vw__replay_work_off(work, jobs, count, most_threads, progress);
}

static vw_status try_from(tune_call *call, size_t first, double base, double share)
{
    vw__tune_work *tuning = call->tuning;
    const vw__replay_progress progress = {
        .progress = call->options->progress,
        .context = call->options->progress_context,
        .base = base,
        .share = share,
    };
    return vw__tune_try(&call->work, tuning->candidates + first, tuning->candidate_count - first, 0,
                        &progress);
}

static vw_status try_everything(tune_call *call, bool is_possible)
{
    vw__tune_work *tuning = call->tuning;
    VW__TRY(vw__tune_add_defaults(tuning));
    if (!is_possible)
        return try_from(call, 0, 0.0, 1.0);
    VW__TRY(vw__tune_add_options(tuning));
    VW__TRY(try_from(call, 0, 0.0, 0.6));
    size_t first_round = tuning->candidate_count;
    VW__TRY(vw__tune_add_combinations(tuning));
    return try_from(call, first_round, 0.6, 0.2);
}

static const vw__tune_candidate *find_kind(const vw__tune_work *tuning, vw__setting_kind kind)
{
    for (size_t i = 0; i < tuning->candidate_count; i++)
        if (tuning->candidates[i].kind == kind)
            return &tuning->candidates[i];
    return NULL;
}

/* PyTorch's defaults: a candidate of their own, unless the recording was made with them. */
static const vw__tune_candidate *find_native(const vw__tune_work *tuning)
{
    const vw__tune_candidate *native = find_kind(tuning, VW__SETTING_DEFAULTS);
    return native != NULL ? native : find_kind(tuning, VW__SETTING_RECORDED);
}

/* ---- warnings -------------------------------------------------------------------------------- */

static void warn_about(tune_call *call, const vw__tune_candidate *on_card,
                       const vw__tune_candidate *endless, const vw__tune_candidate *native_on_card,
                       const vw__tune_candidate *native_endless)
{
    const vw_replay_result *result = &endless->result, *native = &native_endless->result;
    char reserved[VW__HUMAN_SIZE_BYTES], native_reserved[VW__HUMAN_SIZE_BYTES];
    double ratio = native->peak_reserved_bytes != 0
                       ? (double)result->peak_reserved_bytes / (double)native->peak_reserved_bytes
                       : 1.0;
    bool fails = !on_card->result.is_complete && native_on_card->result.is_complete;
    (void)vw__human_size(result->peak_reserved_bytes, reserved);
    (void)vw__human_size(native->peak_reserved_bytes, native_reserved);
    if (ratio >= WORSE_RATIO)
        vw__notes_add(&call->warnings,
                      "%s would reserve %.*f times as much as the defaults: %s instead of %s "
                      "with no memory limit%s.",
                      result->conf, ratio < 1.5 ? 2 : 1, ratio, reserved, native_reserved,
                      fails ? "; on this card it runs out of memory" : "");
    else if (fails)
        vw__notes_add(&call->warnings,
                      "%s runs out of memory on this card, where the defaults complete.",
                      result->conf);
}

/* The recommended settings once more, and the defaults, without a limit. */
static vw_status make_warnings(tune_call *call)
{
    vw__tune_work *tuning = call->tuning;
    const vw__tune_candidate *native = find_native(tuning);
    const vw__tune_candidate *on_card[MOST_WARNING_RUNS];
    size_t count = 0;
    if (native == NULL)
        return VW_OK;
    on_card[count++] = native;
    for (size_t i = 0; i < tuning->candidate_count && count < MOST_WARNING_RUNS; i++)
        if (tuning->candidates[i].is_recommended)
            on_card[count++] = &tuning->candidates[i];
    vw__tune_candidate *endless = vw__host_alloc_zeroed(count, sizeof *endless);
    if (endless == NULL)
        return vw__fail_host_memory(count * sizeof *endless, "the runs of a tuning");
    for (size_t i = 0; i < count; i++) {
        endless[i] = *on_card[i];
        endless[i].card = vw__replay_card_without_end();
    }
    const vw__replay_progress progress = {call->options->progress, call->options->progress_context,
                                          0.8, 0.2};
    vw_status status = vw__tune_try(&call->work, endless, count, 0, &progress);
    for (size_t i = 1; i < count && status == VW_OK; i++)
        warn_about(call, on_card[i], &endless[i], native, &endless[0]);
    vw__host_free(endless);
    return status;
}

/* ---- the report ------------------------------------------------------------------------------ */

static void note_possibility(tune_call *call, uint64_t least_bytes)
{
    char live[VW__HUMAN_SIZE_BYTES], card[VW__HUMAN_SIZE_BYTES];
    vw__notes_add(&call->notes,
                  "No setting can help: at the peak %s are live, and the card has %s. Less must "
                  "be live at once (a smaller batch, checkpointing, a smaller model), or some "
                  "of it go to host memory (vramwise replay --spill). How far the usual "
                  "settings get is shown.",
                  vw__human_size(least_bytes, live),
                  vw__human_size(call->options->card_bytes, card));
}

void vw__tune_note_context(vw__notes *notes, uint64_t card_bytes, uint64_t context_bytes,
                           bool is_whole_card)
{
    char context[VW__HUMAN_SIZE_BYTES], card[VW__HUMAN_SIZE_BYTES];
    vw__human_size(context_bytes, context);
    vw__human_size(card_bytes, card);
    if (context_bytes != 0 && is_whole_card)
        vw__notes_add(notes, "%s of the card are for PyTorch: CUDA's context takes about %s.", card,
                      context);
    else if (context_bytes != 0)
        vw__notes_add(notes,
                      "All of %s is taken to be for PyTorch; on a card, CUDA's context takes about "
                      "%s beside it.",
                      card, context);
}

static void note_best(tune_call *call, const vw__tune_candidate *best,
                      const vw__tune_candidate *recorded)
{
    bool is_of_a_pool = vw__recording_is_of_a_pool(call->work.script.model);
    if (!best->result.is_complete) {
        if (call->report->is_possible)
            vw__notes_add(&call->notes, "None of %zu settings completes on this card.",
                          call->tuning->candidate_count);
        return;
    }
    if (is_vramwise(best))
        vw__notes_add(&call->notes,
                      "No setting of PyTorch's own completes on this card; vramwise's allocator "
                      "does, in PyTorch's place: %s%s%s",
                      is_of_a_pool ? "vw_pool_options.engine = \"" : "vramwise run --allocator ",
                      best->result.policy, is_of_a_pool ? "\"" : " -- python train.py");
    if (best->result.copied_bytes != 0)
        vw__notes_add(&call->notes,
                      "It copies live data to other pages, which needs moments in which no kernel "
                      "touches it: the replay assumes that it gets them.");
    if (recorded->result.is_complete && recorded->result.retries == 0)
        vw__notes_add(&call->notes, "The recorded settings complete on this card already.");
    if (best->needs_fraction_call)
        vw__notes_add(&call->notes,
                      "PyTorch %s looks at garbage_collection_threshold only where a memory "
                      "fraction was set: call "
                      "torch.cuda.memory.set_per_process_memory_fraction(1.0) first.",
                      call->work.torch_version);
    else if (strstr(best->result.conf, "per_process_memory_fraction") != NULL)
        vw__notes_add(&call->notes, "PyTorch looks at garbage_collection_threshold only where a "
                                    "memory fraction below 1 is set: the two options go "
                                    "together.");
}

static vw_status show(tune_call *call)
{
    vw_tune_report *shown = call->report;
    const vw__tune_work *tuning = call->tuning;
    vw_replay_result *tried =
        vw__arena_alloc_array(vw__result_arena(call->report), tuning->candidate_count,
                              sizeof *tried, _Alignof(vw_replay_result));
    if (tried == NULL)
        return vw__fail_host_memory(tuning->candidate_count * sizeof *tried, "results");
    const vw__tune_candidate *recorded = find_kind(tuning, VW__SETTING_RECORDED);
    if (recorded == NULL) /* its string cannot be used: noted where it was found */
        recorded = find_native(tuning);
    for (size_t i = 0; i < tuning->candidate_count; i++)
        tried[i] = tuning->candidates[i].result;
    shown->tried = tried;
    shown->tried_count = tuning->candidate_count;
    shown->best = &tried[0];
    shown->recorded = &tried[recorded - tuning->candidates];
    shown->fits = tried[0].is_complete;
    note_best(call, &tuning->candidates[0], recorded);
    VW__TRY(vw__notes_finish(&call->warnings, &shown->warnings, &shown->warning_count));
    return vw__notes_finish(&call->notes, &shown->notes, &shown->note_count);
}

static vw_status tune(tune_call *call)
{
    vw_tune_report *shown = call->report;
    const vw__script *script = &call->work.script;
    vw__tune_work *tuning = call->tuning;
    tuning->work = &call->work;
    tuning->arena = vw__result_arena(call->report);
    tuning->card_bytes = call->options->card_bytes;
    tuning->slow_ns = slow_limit_ns(script->trace);
    shown->device = script->trace->device;
    shown->variable =
        vw__setting_variable_of_recording(script->model, call->options->torch_version);
    shown->event_count = script->trace->event_count;
    shown->card_bytes = call->options->card_bytes;
    shown->peak_live_bytes = script->peak_live_bytes;
    uint64_t least_bytes = 0;
    VW__TRY(vw__replay_least_bytes(script, &least_bytes));
    shown->is_possible = least_bytes <= call->options->card_bytes;
    if (!shown->is_possible)
        note_possibility(call, least_bytes);
    vw__tune_note_context(&call->notes, call->options->card_bytes, call->options->context_bytes,
                          call->options->is_whole_card);
    VW__TRY(try_everything(call, shown->is_possible));
    if (shown->is_possible)
        VW__TRY(make_warnings(call));
    sort_candidates(tuning);
    const vw__replay_progress all = {call->options->progress, call->options->progress_context, 1.0,
                                     0.0};
    VW__TRY(vw__replay_tell(&all, 0.0));
    return show(call);
}

vw_status vw__tune_card(uint64_t context_bytes, bool is_whole_card, uint64_t *card_bytes)
{
    if (is_whole_card)
        *card_bytes -= vw__min_u64(context_bytes, *card_bytes);
    return *card_bytes != 0
               ? VW_OK
               : vw__fail(VW_ERR_INVALID_ARGUMENT, "tuning is for a card: its size is expected");
}

vw_status vw_recording_tune(const vw_recording *recording, const vw_tune_options *options,
                            vw_tune_report **out)
{
    vw_tune_options used = {.struct_size = sizeof used, .device = VW_BUSIEST_DEVICE};
    if (recording == NULL || options == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a recording, options and a place for the report");
    VW__TRY(VW__STRUCT_IN(vw_tune_options, options, &used));
    VW__TRY(vw__tune_card(used.context_bytes, used.is_whole_card, &used.card_bytes));
    vw_tune_report *report = vw__result_create(sizeof *report);
    vw__tune_work *tuning = vw__host_alloc_zeroed(1, sizeof *tuning);
    vw_status status = report != NULL && tuning != NULL
                           ? VW_OK
                           : vw__fail_host_memory(sizeof *report + sizeof *tuning, "a tuning");
    tune_call call = {.options = &used, .report = report, .tuning = tuning};
    if (status == VW_OK) {
        vw__notes_init(&call.notes, vw__result_arena(report));
        vw__notes_init(&call.warnings, vw__result_arena(report));
        status = vw__replay_work_init(&call.work, recording->model, used.torch_version, used.device,
                                      &call.notes);
    }
    if (status == VW_OK) {
        status = tune(&call);
        vw__replay_work_deinit(&call.work);
    }
    vw__host_free(tuning);
    if (status == VW_OK)
        *out = report;
    else
        vw__result_free(report);
    return status;
}

void vw_tune_report_free(vw_tune_report *report)
{
    vw__result_free(report);
}
