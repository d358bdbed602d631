/* verify.c - vw_recording_verify(): checks that the allocator reproduces the recording.
 *
 * Each device's trace is played from its first event to its last, on one assumption after the other
 * about what the recording leaves out (docs/design/003), until one gives the recording event by
 * event, or none is left. Assumptions are few and each is forced by a difference:
 *   the limit      what the events prove; with garbage collection, found by halving the interval in
 *                  the direction of the first difference
 *   a trim         without stacks: a release before a request, taken for the request's own first
 *   waiting        frees that complete in a request under pressure: before it, or waited for by it
 *   a late free    right before such a request: complete at once, or waited for by it
 *   an unsplit pool   a private pool whose every block lay at the start of a segment
 *   a private pool    for memory that was gone before the end (verify_reading.c)
 *   no capture     memory between requests of a private pool: the default pool's after all
 * The difference that is reported is the one of the trial that came farthest. */
#include "vramwise/analysis.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/struct_size.h"
#include "analysis/recording.h"
#include "analysis/result.h"
#include "analysis/regions.h"
#include "analysis/script_events.h"
#include "analysis/verify_parts.h"

enum { MOST_LIMIT_TRIALS = 64, MOST_ROUNDS = 256, NOTE_BYTES = 400 };

#define SEARCH_SHARE 0.5 /* of the time, for other readings than the first of each device */

/* The result, and what it points at. */
typedef struct verify_result {
    vw_verify_result result; /* first: what the caller sees */
    vw_difference difference;
    vw__notes notes;
} verify_result;

typedef struct verification {
    const vw__model *model;
    vw_verify_options options;
    vw__expectation expectation; /* of the busiest device */
    bool has_expectation;
    const vw__model_trace *busiest;
    vw__byte_buffer conf;
    vw__player_time time; /* for all devices so far */
    verify_result *out;
} verification;

/* One device's. */
typedef struct device_check {
    verification *whole;
    const vw__model_trace *trace;
    const vw__expectation *expectation; /* or NULL */
    vw__script script;
    vw__limit_evidence evidence;
    vw__verify_assumption assumption;
    vw__verify_reading reading;
    size_t trial_count;
    bool is_given_up;              /* SEARCH_SHARE of the time is used: there are no more trials */
    vw__verify_trial_result *best; /* owned */
    vw__verify_trial_result *last; /* owned */
    vw__verify_trial_result *unguessed; /* owned; the best before pools were made up */
} device_check;

/* ---- notes ----------------------------------------------------------------------------------- */

static void note_script(device_check *check)
{
    vw__notes *notes = &check->whole->out->notes;
    const vw__script *script = &check->script;
    int device = check->trace->device;
    if (script->is_truncated)
        vw__notes_add(notes,
                      "device %d: the trace does not begin at the first allocation (%zu block%s "
                      "live before it). Placements depend on a layout that is not "
                      "recorded; it was checked that the events agree with each other and "
                      "with the segments at the end.",
                      device, script->initial_count,
                      script->initial_count == 1 ? " was" : "s were");
    if (script->has_guessed_releases && !script->is_truncated)
        vw__notes_add(notes,
                      "device %d: no stacks, so nothing tells memory given back by "
                      "empty_cache() from memory given back inside a request; what agrees "
                      "with the rules was assumed.",
                      device);
    if (script->has_guessed_pools && !script->is_truncated)
        vw__notes_add(notes,
                      "device %d: segments of private pools were given back before the end; "
                      "which pool they were of was concluded from the requests around them.",
                      device);
    if (script->has_hinted_pools)
        vw__notes_add(notes,
                      "device %d: which private pool memory was of that was given back before "
                      "the end (segments: %zu) was concluded: by the rules, the default pool "
                      "would have served requests otherwise.",
                      device, check->reading.pools.hint_count);
    if (check->reading.has_unsplit)
        vw__notes_add(notes,
                      "device %d: a private pool was taken for one made with no_split: all "
                      "of its blocks lie at the start of a segment.",
                      device);
    if (check->reading.has_late_frees)
        vw__notes_add(notes,
                      "device %d: a free right before a request that found no room was taken "
                      "for one that other streams still held up; both leave the same events.",
                      device);
    if (!script->has_end_state)
        vw__notes_add(notes, "device %d: the file has no segments, so there is no end to compare.",
                      device);
    if (script->lacks_free_requested || script->lacks_free_completed)
        vw__notes_add(notes, "device %d: no %s events were recorded.", device,
                      script->lacks_free_requested ? "free_requested" : "free_completed");
}

static void note_recording(verification *whole)
{
    const vw__model *model = whole->model;
    for (size_t i = 0; i < model->trace_count; i++)
        if (model->traces[i].device == VW__MODEL_HOST_DEVICE && model->traces[i].event_count > 0)
            vw__notes_add(&whole->out->notes,
                          "pinned host memory: its %zu events are not verified.",
                          model->traces[i].event_count);
    if (!model->settings.is_known && (!whole->has_expectation || whole->expectation.conf == NULL))
        vw__notes_add(&whole->out->notes,
                      "the file does not state its settings (PyTorch 2.3 and later do); "
                      "\"%s\" was assumed.",
                      vw__byte_buffer_text(&whole->conf));
}

/* ---- settings -------------------------------------------------------------------------------- */

/* The option string of the run: recorded, else expected, else what the file's values say. */
static vw_status find_conf(verification *whole)
{
    if (vw__recording_conf_text(whole->model) == NULL && whole->has_expectation &&
        whole->expectation.conf != NULL) {
        vw__append_text(&whole->conf, whole->expectation.conf);
        return vw__byte_buffer_has_failed(&whole->conf) ? vw__fail_host_memory(256, "settings")
                                                        : VW_OK;
    }
    return vw__recording_conf(whole->model, &whole->conf);
}

/* ---- assumptions ----------------------------------------------------------------------------- */

/* The card's memory: as expected, or some size that fits. */
static vw_status find_total(device_check *check, uint64_t *total_bytes)
{
    const vw__expectation *expectation = check->expectation;
    if (expectation == NULL)
        return vw__limit_guess_total(&check->script, total_bytes);
    *total_bytes =
        expectation->total_bytes != 0 ? expectation->total_bytes : VW__VERIFY_DEFAULT_TOTAL_BYTES;
    return VW_OK;
}

/* Assumes what the expectation does not state. */
static vw_status assume_card(device_check *check)
{
    vw__verify_assumption *assumption = &check->assumption;
    const vw__expectation *expectation = check->expectation;
    uint64_t total_bytes = 0;
    VW__TRY(find_total(check, &total_bytes));
    VW__TRY(vw__limit_evidence_find(&check->script, check->whole->out->result.torch_version,
                                    vw__byte_buffer_text(&check->whole->conf), total_bytes,
                                    &check->evidence));
    *assumption = (vw__verify_assumption){.total_bytes = total_bytes,
                                          .limit_bytes = UINT64_MAX,
                                          .fraction = -1.0,
                                          .refusals = check->evidence.refusals,
                                          .refusal_count = check->evidence.refusal_count,
                                          .is_unsplit = check->reading.is_unsplit,
                                          .is_waited_for = check->evidence.is_simple !=
                                                           check->reading.has_other_waits,
                                          .has_conf_fraction = check->evidence.has_conf_fraction};
    if (expectation == NULL)
        return VW_OK;
    assumption->trusts_conf_fraction = assumption->has_conf_fraction && expectation->cap_gib < 0.0;
    if (expectation->cap_gib >= 0.0) {
        double fraction = expectation->cap_gib * 0x1p30 / (double)total_bytes;
        assumption->fraction = fraction < 1.0 ? fraction : 1.0;
    }
    return VW_OK;
}

/* Keeps the result of the trial that came farthest; one without a difference came farthest of
 * all. */
static void keep_best(device_check *check)
{
    const vw__verify_difference *best = &check->best->difference, *last = &check->last->difference;
    if (check->trial_count == 1 || !last->is_found || (best->is_found && last->event > best->event))
        memcpy(check->best, check->last, sizeof *check->best);
}

static vw_status try_limit(device_check *check, uint64_t limit_bytes)
{
    const vw__verify_trial trial = {.script = &check->script,
                                    .torch_version = check->whole->out->result.torch_version,
                                    .conf = vw__byte_buffer_text(&check->whole->conf),
                                    .expectation = check->expectation,
                                    .assumption = &check->assumption,
                                    .progress = check->whole->options.progress,
                                    .progress_context = check->whole->options.progress_context,
                                    .is_first = check->trial_count == 0,
                                    .time = &check->whole->time};
    check->assumption.limit_bytes = limit_bytes;
    check->trial_count++;
    VW__TRY(vw__verify_trial_run(&trial, check->last));
    keep_best(check);
    check->is_given_up = vw__player_time_used(&check->whole->time) > SEARCH_SHARE;
    return VW_OK;
}

/* Garbage collection: halves the interval until a limit gives the recording. */
static vw_status search_limit(device_check *check)
{
    vw__limit_evidence *evidence = &check->evidence;
    for (int i = 0; i < MOST_LIMIT_TRIALS && evidence->at_least_bytes < evidence->below_bytes &&
                    !check->is_given_up;
         i++) {
        uint64_t width = evidence->below_bytes - evidence->at_least_bytes;
        uint64_t middle = evidence->at_least_bytes + width / 2;
        VW__TRY(try_limit(check, middle));
        if (!check->last->difference.is_found ||
            check->last->limit_verdict == VW__VERIFY_LIMIT_NO_MATTER)
            return VW_OK;
        if (check->last->limit_verdict == VW__VERIFY_LIMIT_TOO_LOW)
            evidence->at_least_bytes = middle + 1;
        else
            evidence->below_bytes = middle;
    }
    return VW_OK;
}

static vw_status try_limits(device_check *check)
{
    vw__limit_evidence *evidence = &check->evidence;
    bool is_given = check->assumption.fraction >= 0.0 || check->assumption.trusts_conf_fraction;
    if (is_given || evidence->below_bytes == UINT64_MAX)
        return try_limit(check, UINT64_MAX);
    if (evidence->needs_search)
        return search_limit(check);
    VW__TRY(try_limit(check, evidence->below_bytes - 1));
    if (check->last->difference.is_found && evidence->at_least_bytes + 1 < evidence->below_bytes)
        return try_limit(check, evidence->at_least_bytes);
    return VW_OK;
}

/* ---- a device -------------------------------------------------------------------------------- */

static vw_status make_script(device_check *check)
{
    vw__limit_evidence_deinit(&check->evidence);
    VW__TRY(vw__verify_reading_make_script(&check->reading, check->whole->model, check->trace,
                                           check->expectation, &check->script));
    if (check->script.is_truncated)
        return VW_OK;
    return assume_card(check);
}

/* Reports settings that the version asked for cannot use as a difference. */
static void note_bad_setting(device_check *check)
{
    vw__verify_difference *difference = &check->best->difference;
    memset(check->best, 0, sizeof *check->best);
    (void)snprintf(difference->got, sizeof difference->got, "refused: %.150s", vw_last_error());
    vw__verify_note_difference(difference, 0,
                               "The recorded settings cannot be used with this version of PyTorch.",
                               "settings \"%.150s\"", vw__byte_buffer_text(&check->whole->conf));
}

/* If no version was asked for, the file is wrong: no PyTorch ran with such settings. */
static vw_status refuse_settings(const device_check *check)
{
    char words[VW__VERIFY_WORDS_BYTES];
    (void)snprintf(words, sizeof words, "%s", vw_last_error());
    return vw__fail(
        VW_ERR_CORRUPT_FILE, "expected settings that PyTorch %s can use, found \"%.200s\": %s",
        check->whole->out->result.torch_version, vw__byte_buffer_text(&check->whole->conf), words);
}

/* Drops made-up pools unless they explain everything. */
static vw_status forget_made_up_pools(device_check *check)
{
    if (check->reading.pools.hint_count == 0 || !check->best->difference.is_found)
        return VW_OK;
    check->reading.pools.hint_count = 0;
    memcpy(check->best, check->unguessed, sizeof *check->best);
    return make_script(check);
}

/* Tries the reading that the script was made by, and those that its differences ask for. */
static vw_status try_revisions(device_check *check)
{
    bool has_more = true;
    for (int i = 0; has_more && i < MOST_ROUNDS && !check->is_given_up; i++) {
        VW__TRY(try_limits(check));
        if (check->reading.pools.hint_count == 0)
            memcpy(check->unguessed, check->best, sizeof *check->best);
        VW__TRY(vw__verify_reading_revise(&check->reading, &check->script, check->last, &has_more));
        if (has_more)
            VW__TRY(make_script(check));
    }
    return forget_made_up_pools(check);
}

static vw_status try_readings(device_check *check)
{
    VW__TRY(make_script(check));
    if (check->script.is_truncated)
        return vw__verify_cut_trace(&check->script, &check->best->difference);
    VW__TRY(try_revisions(check));
    if (!check->best->difference.is_found || !check->script.has_guessed_pools || check->is_given_up)
        return VW_OK;
    vw__verify_reading_drop_captures(&check->reading);
    VW__TRY(make_script(check));
    return try_revisions(check);
}

static vw_status check_trace(device_check *check)
{
    vw_status status = try_readings(check);
    if (status != VW_ERR_BAD_SETTING && status != VW_ERR_TOO_LARGE)
        return status;
    if (check->whole->options.torch_version == NULL)
        return refuse_settings(check);
    note_bad_setting(check);
    return VW_OK;
}

/* Before 2.12 only segments show private pools. Without segments a difference may come from an
 * unknown pool, and proves nothing. */
static void excuse_unknown_pools(device_check *check)
{
    const vw__model_trace *trace = check->trace;
    vw__verify_difference *difference = &check->best->difference;
    bool has_unknown_pools = false;
    for (size_t i = 0; i < trace->event_count && !has_unknown_pools; i++)
        has_unknown_pools = trace->events[i].action == VW_ACTION_ALLOC &&
                            trace->events[i].pool == VW__MODEL_UNKNOWN_POOL;
    if (!difference->is_found || check->script.is_truncated || check->script.has_end_state ||
        !has_unknown_pools)
        return;
    difference->is_found = false;
    vw__notes_add(&check->whole->out->notes,
                  "device %d: from event %" PRIu64 " on the replay is another one (recorded: "
                  "%.80s; replayed: %.80s). Without segments nothing tells which requests were "
                  "a private pool's, so this proves nothing.",
                  trace->device, difference->event, difference->expected, difference->got);
}

/* ---- the result ------------------------------------------------------------------------------ */

static vw_status copy_words(verify_result *out, const char *words, const char **copy)
{
    *copy = vw__arena_copy(vw__result_arena(out), words, strlen(words));
    return *copy != NULL ? VW_OK : vw__fail_host_memory(strlen(words), "a difference");
}

static int version_number(const char *text)
{
    int major = 0, minor = 0;
    return text != NULL && sscanf(text, "%d.%d", &major, &minor) == 2 ? major * 100 + minor : 0;
}

static vw_status report_difference(device_check *check)
{
    verify_result *out = check->whole->out;
    const vw__verify_difference *found = &check->best->difference;
    char explanation[VW__VERIFY_EXPLANATION_BYTES + NOTE_BYTES];
    const char *oldest = NULL, *newest = NULL, *used = out->result.torch_version;
    if (!found->is_found || out->result.first_difference != NULL)
        return VW_OK;
    (void)snprintf(explanation, sizeof explanation, "%s", found->explanation);
    vw__recording_version_range(check->whole->model, &oldest, &newest);
    if (oldest != NULL && newest != NULL &&
        (version_number(used) < version_number(oldest) ||
         version_number(used) > version_number(newest)))
        (void)snprintf(explanation, sizeof explanation,
                       "%s The rules of %s were asked for; by its fields the file was written by "
                       "%s to %s.",
                       found->explanation, used, oldest, newest);
    out->difference = (vw_difference){.device = check->trace->device, .event = found->event};
    VW__TRY(copy_words(out, found->expected, &out->difference.expected));
    VW__TRY(copy_words(out, found->got, &out->difference.got));
    VW__TRY(copy_words(out, explanation, &out->difference.explanation));
    out->result.first_difference = &out->difference;
    return VW_OK;
}

static void count_recorded(const device_check *check, vw_verify_result *result)
{
    size_t first, end;
    for (size_t i = 0; i < check->trace->event_count; i++) {
        unsigned action = check->trace->events[i].action;
        result->placements_recorded += action == VW_ACTION_ALLOC;
        result->segment_events_recorded +=
            vw__script_is_growth(action) || vw__script_is_release(action);
    }
    vw__script_segments_of(check->whole->model, check->trace->device, &first, &end);
    result->end_segments_recorded += end - first;
}

static vw_status report_device(device_check *check)
{
    vw_verify_result *result = &check->whole->out->result;
    const vw__verify_trial_result *best = check->best;
    result->event_count += check->trace->event_count;
    if (!check->script.is_truncated) {
        count_recorded(check, result);
        result->placements_matched += best->placements_matched;
        result->segment_events_matched += best->segment_events_matched;
        result->end_segments_matched += best->end_segments_matched;
        if (check->expectation != NULL)
            result->statistics_recorded = check->expectation->stat_count;
        result->statistics_matched += best->statistics_matched;
        if (check->trace == check->whole->busiest) {
            if (check->evidence.at_least_bytes != 0)
                result->limit_at_least_bytes = check->evidence.at_least_bytes;
            result->limit_below_bytes = check->evidence.below_bytes;
        }
    }
    note_script(check);
    if (check->is_given_up && best->difference.is_found)
        vw__notes_add(&check->whole->out->notes,
                      "device %d: the search for a reading that fits took too long, and was given "
                      "up after %zu trial%s.",
                      check->trace->device, check->trial_count, check->trial_count == 1 ? "" : "s");
    excuse_unknown_pools(check);
    return report_difference(check);
}

static vw_status verify_device(verification *whole, const vw__model_trace *trace)
{
    device_check check = {.whole = whole, .trace = trace};
    whole->time.op_count += trace->event_count;
    if (whole->has_expectation && trace == whole->busiest)
        check.expectation = &whole->expectation;
    check.best = vw__host_alloc_zeroed(1, sizeof *check.best);
    check.last = vw__host_alloc_zeroed(1, sizeof *check.last);
    check.unguessed = vw__host_alloc_zeroed(1, sizeof *check.unguessed);
    vw_status status = check.best != NULL && check.last != NULL && check.unguessed != NULL
                           ? check_trace(&check)
                           : vw__fail_host_memory(3 * sizeof *check.best, "verifying");
    if (status == VW_OK)
        status = report_device(&check);
    vw__script_deinit(&check.script);
    vw__limit_evidence_deinit(&check.evidence);
    vw__verify_reading_deinit(&check.reading);
    vw__host_free(check.best);
    vw__host_free(check.last);
    vw__host_free(check.unguessed);
    return status;
}

/* ---- the call -------------------------------------------------------------------------------- */

static vw_status verify(verification *whole)
{
    vw_verify_result *result = &whole->out->result;
    const vw__model *model = whole->model;
    VW__TRY(vw__recording_trace(model, VW_BUSIEST_DEVICE, &whole->busiest));
    VW__TRY(vw__recording_version(model, whole->options.torch_version, &result->torch_version));
    if (whole->options.expect_path != NULL) {
        VW__TRY(vw__expectation_read(whole->options.expect_path, &whole->expectation));
        whole->has_expectation = result->has_expectation = true;
    }
    VW__TRY(find_conf(whole));
    note_recording(whole);
    for (size_t i = 0; i < model->trace_count; i++)
        if (model->traces[i].device != VW__MODEL_HOST_DEVICE && model->traces[i].event_count > 0)
            VW__TRY(verify_device(whole, &model->traces[i]));
    result->is_exact = result->first_difference == NULL;
    return vw__notes_finish(&whole->out->notes, &result->unverifiable, &result->unverifiable_count);
}

vw_status vw_recording_verify(const vw_recording *recording, const vw_verify_options *options,
                              vw_verify_result **out)
{
    if (recording == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "vw_recording_verify: %s is NULL",
                        recording == NULL ? "recording" : "out");
    verification whole = {.model = recording->model,
                          .expectation = {.cap_gib = -1.0},
                          .time = vw__player_time_begin(0)};
    VW__TRY(VW__STRUCT_IN(vw_verify_options, options, &whole.options));
    whole.out = vw__result_create(sizeof *whole.out);
    if (whole.out == NULL)
        return vw__fail_host_memory(sizeof *whole.out, "a result");
    vw__notes_init(&whole.out->notes, vw__result_arena(whole.out));
    vw__byte_buffer_init(&whole.conf);
    whole.out->result.limit_at_least_bytes = whole.out->result.limit_below_bytes = VW_UNKNOWN;
    vw_status status = verify(&whole);
    vw__byte_buffer_deinit(&whole.conf);
    if (whole.has_expectation)
        vw__expectation_deinit(&whole.expectation);
    if (status == VW_OK)
        *out = &whole.out->result;
    else
        vw_verify_result_free(&whole.out->result);
    return status;
}

void vw_verify_result_free(vw_verify_result *result)
{
    vw__result_free(result);
}
