/* recording.c - one recording: what is looked at, in which order, and the verdict.
 *
 * A recording knows more than a message. Numbers at the failure say that a request did not fit;
 * the recording says what the memory was full of. So the causes are asked first, and where one of
 * them explains the failure, by being large enough that the request would have fit without it, it
 * is the verdict: a leak that ended in a failure is a leak, whatever the numbers say. Only where
 * none does, the rule of numbers decides (numbers.c).
 *
 * A run that did not fail has a verdict only for what would kill it later or wastes a great part of
 * it: a kept graph, a leak, stranded memory. Everything else is a finding, and the run healthy.
 *
 * What is judged. Files are written when a run is over, so their end is not it: everything is
 * followed up to the failure, or to the last request of the program; what is given back after that
 * is the program going home. If the segments in the file are not those that the trace ends with (it
 * was cut), the trace is believed. */
#include <string.h>

#include "doctor/doctor.h"
#include "doctor/numbers.h"
#include "analysis/phase.h"
#include "analysis/policies.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "settings/setting_variable.h"

enum { KEPT_GRAPH_SHARE = 5 }; /* of what was live, to be the verdict: a fifth */

/* ---- the trace ------------------------------------------------------------------------------- */

static bool has_oom(const vw__model_trace *trace)
{
    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].action == VW_ACTION_OOM)
            return true;
    return false;
}

/* The device that failed; else the one with the most events. NULL: there is no event. */
static const vw__model_trace *choose_trace(const vw__model *model)
{
    const vw__model_trace *busiest = NULL, *failed = NULL;
    for (size_t i = 0; i < model->trace_count; i++) {
        const vw__model_trace *trace = &model->traces[i];
        if (trace->device == VW__MODEL_HOST_DEVICE || trace->event_count == 0)
            continue;
        if (busiest == NULL || trace->event_count > busiest->event_count)
            busiest = trace;
        if (failed == NULL && has_oom(trace))
            failed = trace;
    }
    return failed != NULL ? failed : busiest;
}

/* ---- the case -------------------------------------------------------------------------------- */

static uint32_t last_request(const vw__model_trace *trace)
{
    size_t i = trace->event_count;
    while (i != 0 && trace->events[i - 1].action != VW_ACTION_ALLOC &&
           trace->events[i - 1].action != VW_ACTION_OOM)
        i--;
    return (uint32_t)i;
}

/* The first instant with the most live bytes, not after `last`. */
static vw_status find_peak(const vw__timeline *timeline, uint32_t last, uint32_t *instant,
                           uint64_t *bytes)
{
    if (timeline->peak_instant <= last) {
        *instant = timeline->peak_instant;
        *bytes = timeline->peak_live_bytes;
        return VW_OK;
    }
    int64_t *line = vw__timeline_live_line(timeline);
    if (line == NULL)
        return vw__fail_host_memory(((size_t)last + 1) * sizeof *line, "the live bytes");
    int64_t most = -1;
    for (uint32_t i = 0; i <= last; i++)
        if (line[i] > most) {
            most = line[i];
            *instant = i;
        }
    *bytes = (uint64_t)most;
    vw__host_free(line);
    return VW_OK;
}

/* The line of the request that failed, and its phase, for the diagnosis. */
static void name_place(const vw__doctor_facts *facts, vw__doctor_result *result)
{
    if (!facts->failure.has_happened || facts->failure.event >= facts->trace->event_count)
        return;
    const vw__model *model = facts->model;
    uint32_t context = facts->trace->events[facts->failure.event].context;
    vw__model_stack stack = vw__model_stack_of(model, context);
    size_t where = vw__attribution_where(&facts->attribution, stack);
    if (where == VW__ATTRIBUTION_NO_FRAME)
        return;
    const vw__model_frame *frame = &model->frames[model->frame_ids[stack.first + where]];
    vw__diagnosis_failed_at(result->draft, vw__model_string(model, frame->filename), frame->line,
                            vw__model_string(model, frame->name), NULL,
                            vw__phase_name(vw__phase_of_context(&facts->attribution, context)));
}

static vw_status open_case(const vw__doctor_input *input, vw__doctor_facts *facts,
                           vw__doctor_result *result)
{
    VW__TRY(vw__timeline_make(facts->model, facts->trace, &facts->timeline));
    VW__TRY(vw__attribution_init(&facts->attribution, facts->model));
    VW__TRY(vw__steps_find_in(&facts->timeline, &facts->attribution, &facts->steps));
    VW__TRY(vw__roles_find(&facts->timeline, &facts->attribution, &facts->steps, &facts->roles));
    size_t room = facts->timeline.lifetime_count + 1;
    result->is_kept_graph = vw__host_alloc_zeroed(room, sizeof *result->is_kept_graph);
    if (result->is_kept_graph == NULL)
        return vw__fail_host_memory(room, "a diagnosis");

    VW__TRY(vw__doctor_find_failure(input, facts, result));
    name_place(facts, result);
    facts->horizon_instant =
        facts->failure.has_happened ? facts->failure.instant : last_request(facts->trace);
    return find_peak(&facts->timeline, facts->horizon_instant, &facts->peak_instant,
                     &facts->peak_bytes);
}

static void close_case(vw__doctor_facts *facts, vw__doctor_result *result)
{
    vw__doctor_close_trials(facts);
    vw__host_free(result->is_kept_graph);
    vw__roles_deinit(&facts->roles);
    vw__steps_deinit(&facts->steps);
    vw__attribution_deinit(&facts->attribution);
    vw__timeline_deinit(&facts->timeline);
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static const char *at_line(vw__doctor_result *result, const char *kind)
{
    const vw__diagnosis_finding *finding = vw__diagnosis_find(result->draft, kind);
    if (finding == NULL || finding->where_count == 0)
        return "";
    return vw__diagnosis_text(result->draft, ", at %s", finding->where[0]);
}

/* "7.73 GiB", or "about 7.73 GiB" for a limit that was concluded from the trace. */
static const char *limit_text(const vw__doctor_facts *facts, vw__diagnosis_draft *draft)
{
    return vw__diagnosis_text(draft, "%s$allowed",
                              facts->model->settings.limit_bytes != 0 ? "" : "about ");
}

/* "Leak: " and what else is known of the failure. */
static const char *failure_clause(const vw__doctor_facts *facts, vw__doctor_result *result)
{
    if (!facts->failure.has_happened)
        return "";
    const vw_memory_numbers *numbers = &facts->failure.numbers;
    const char *limit = "";
    if (numbers->allowed_bytes != VW_UNKNOWN)
        limit = vw__diagnosis_text(result->draft, " under a limit of %s",
                                   limit_text(facts, result->draft));
    return vw__diagnosis_text(result->draft, "; $tried then did not fit%s", limit);
}

static void conclude_leak(const vw__doctor_facts *facts, vw__doctor_result *result)
{
    bool has_steps = facts->steps.end_count != 0;
    vw__diagnosis_reason(result->draft, "$leaked were alive that earlier steps asked for and never "
                                        "gave back; more is added all the time: a leak.");
    if (facts->failure.numbers.allowed_bytes != VW_UNKNOWN)
        vw__diagnosis_reason(result->draft,
                             "The limit that was set, %s, is what it grew up to; a higher one only "
                             "delays the failure.",
                             limit_text(facts, result->draft));
    vw__diagnosis_conclude(result->draft, VW_VERDICT_LEAK,
                           has_steps ? VW_CONFIDENCE_HIGH : VW_CONFIDENCE_MEDIUM,
                           "Leak: $leaked pile up step after step and are never freed%s%s.",
                           at_line(result, "leak"), failure_clause(facts, result));
}

static void conclude_kept_graph(const vw__doctor_facts *facts, vw__doctor_result *result)
{
    vw__diagnosis_reason(result->draft,
                         "$kept_graph of the $peak at the peak are activations of forward passes "
                         "that no backward pass followed: a kept graph.");
    vw__diagnosis_conclude(
        result->draft, VW_VERDICT_KEPT_GRAPH, VW_CONFIDENCE_HIGH,
        "Kept graph: forward passes without a backward pass hold $kept_graph of activations%s%s.",
        at_line(result, "kept-graph"), failure_clause(facts, result));
}

static void conclude_stranded(const vw__doctor_facts *facts, vw__doctor_result *result)
{
    vw__diagnosis_reason(result->draft,
                         "$stranded are idle, or wait, on other streams or in private pools, where "
                         "the rest of the program cannot use them: stranded.");
    vw__diagnosis_conclude(
        result->draft, VW_VERDICT_STRANDED, VW_CONFIDENCE_HIGH,
        "Stranded: $stranded are held for other streams or private pools and cannot be used%s.",
        failure_clause(facts, result));
}

static void conclude_healthy(const vw__doctor_input *input, const vw__doctor_facts *facts,
                             vw__doctor_result *result)
{
    const vw__timeline *timeline = &facts->timeline;
    vw__diagnosis_draft *draft = result->draft;
    vw__diagnosis_reason(draft, "Nothing ran out of memory%s.",
                         input->options->card_bytes != 0 ? " on that card" : "");
    if (facts->steps.end_count != 0)
        vw__diagnosis_reason(draft, "Found (by %s): %s; none of what is asked for piles up.",
                             facts->steps.basis,
                             vw__diagnosis_count(draft, facts->steps.end_count, "step"));
    else
        vw__diagnosis_reason(draft, "No steps were found; no line's memory grows over the run.");
    vw_confidence confidence = timeline->is_truncated || facts->steps.end_count == 0
                                   ? VW_CONFIDENCE_MEDIUM
                                   : VW_CONFIDENCE_HIGH;
    if (!timeline->is_reserved_known) {
        vw__diagnosis_conclude(draft, VW_VERDICT_HEALTHY, confidence,
                               "Healthy: at most $peak were alive, and nothing grows.");
        return;
    }
    const char *but = vw__diagnosis_find(draft, "near-limit") != NULL
                          ? "; but it is close to its limit"
                      : vw__diagnosis_find(draft, "fragmentation") != NULL
                          ? "; but much of what is reserved lies idle"
                          : "";
    vw__diagnosis_conclude(
        draft, VW_VERDICT_HEALTHY, confidence,
        "Healthy: at most $peak were alive and at most %s reserved, and nothing grows%s.",
        VW__DOCTOR_SIZE(timeline->peak_reserved_bytes), but);
}

/* ", at train.py:12 main": who asked for what failed. */
static const char *at_request(const vw__doctor_facts *facts, vw__doctor_result *result)
{
    if (facts->failure.event >= facts->trace->event_count)
        return "";
    const char *place =
        vw__doctor_place(facts, result->draft, facts->trace->events[facts->failure.event].context);
    return place[0] != '\0' ? vw__diagnosis_text(result->draft, ", at %s", place) : "";
}

/* The rule wants the card. A recording does not name it, but says what there was for PyTorch: what
 * it held, and what was free. Who else held how much is not known then. */
static vw__numbers_verdict judge_numbers(const vw__doctor_facts *facts, vw__doctor_result *result)
{
    vw_memory_numbers numbers = facts->failure.numbers;
    bool is_card_known = numbers.total_bytes != VW_UNKNOWN;
    if (!is_card_known && numbers.free_bytes != VW_UNKNOWN &&
        numbers.reserved_bytes != VW_UNKNOWN && numbers.allowed_bytes == VW_UNKNOWN &&
        numbers.free_bytes < numbers.tried_bytes) {
        numbers.total_bytes = numbers.reserved_bytes + numbers.free_bytes;
        vw__diagnosis_name_numbers(result->draft, &numbers);
        vw__diagnosis_reason(
            result->draft,
            "How large the card is, and who else held memory on it, a recording does not say "
            "(nvidia-smi does): judged by the $total that PyTorch held or could have had.");
    }
    vw__numbers_verdict judged = vw__numbers_judge(&numbers, result->draft);
    if (judged.verdict == VW_VERDICT_TOO_LARGE && facts->failure.limit_most_bytes != 0) {
        judged.confidence = VW_CONFIDENCE_LOW;
        vw__diagnosis_reason(
            result->draft, "The limit is an estimate, half way between what was granted and what "
                           "was refused; were it near the upper end, the verdict would be capped.");
    }
    if (!is_card_known && judged.confidence == VW_CONFIDENCE_HIGH &&
        judged.verdict == VW_VERDICT_GENUINE)
        judged.confidence = VW_CONFIDENCE_MEDIUM;
    /* The rest of the card may be others', and the request none too large for it. */
    if (numbers.total_bytes != facts->failure.numbers.total_bytes &&
        judged.verdict == VW_VERDICT_TOO_LARGE) {
        judged.confidence = VW_CONFIDENCE_LOW;
        vw__diagnosis_reason(result->draft,
                             "That holds if the card has no more than these $total. If it has, "
                             "others hold the rest of it, and they are the cause.");
    }
    return judged;
}

static const char *const sentences[VW_VERDICT_UNKNOWN + 1] = {
    [VW_VERDICT_FRAGMENTATION] = "Fragmentation: $tried were refused while $idle that PyTorch "
                                 "holds lay idle, in pieces too small.",
    [VW_VERDICT_CAPPED] = "Capped: $tried were refused by a limit of $limit, not by the card, "
                          "which had $free free; $in_use were alive.",
    [VW_VERDICT_TOO_LARGE] =
        "Too large: one request for $tried$at_request, more than there is altogether.",
    [VW_VERDICT_OUTSIDE] = "Outside: $outside of the card are held by others than PyTorch; $tried "
                           "did not fit beside them.",
    [VW_VERDICT_REFUSED] = "Refused: $tried were asked for, $free were free on the device, and it "
                           "refused all the same.",
    [VW_VERDICT_GENUINE] = "Genuine: $in_use are alive, and there is no room for $tried more.",
};
static const char unknown_sentence[] =
    "Out of memory: $tried did not fit, and the recording does not say enough to tell why.";

static vw_status conclude_by_numbers(const vw__doctor_input *input, vw__doctor_facts *facts,
                                     vw__doctor_result *result)
{
    vw__diagnosis_draft *draft = result->draft;
    vw__numbers_verdict judged = judge_numbers(facts, result);
    vw__diagnosis_name(draft, "idle", judged.idle_bytes);
    vw__diagnosis_name(draft, "outside", judged.outside_bytes);
    VW__TRY(vw__doctor_refusal(input, facts, result, judged.verdict));
    vw__diagnosis_name_text(draft, "limit", limit_text(facts, draft));
    vw__diagnosis_name_text(draft, "at_request", at_request(facts, result));
    bool is_told = sentences[judged.verdict] != NULL;
    vw__diagnosis_conclude(
        draft, is_told ? judged.verdict : VW_VERDICT_UNKNOWN,
        is_told ? judged.confidence : VW_CONFIDENCE_LOW, "%s",
        vw__diagnosis_fill(draft, is_told ? sentences[judged.verdict] : unknown_sentence));
    return VW_OK;
}

static bool explains_failure(const vw__doctor_facts *facts, uint64_t bytes)
{
    const vw_memory_numbers *numbers = &facts->failure.numbers;
    uint64_t idle =
        numbers->reserved_bytes != VW_UNKNOWN && numbers->reserved_bytes > numbers->allocated_bytes
            ? numbers->reserved_bytes - numbers->allocated_bytes
            : 0;
    return vw__doctor_explains_failure(bytes, idle, numbers->tried_bytes, facts->peak_bytes);
}

static bool is_kept_graph_the_cause(const vw__doctor_facts *facts, const vw__doctor_result *result)
{
    return result->kept_graph_bytes != 0 &&
           result->kept_graph_bytes >= facts->peak_bytes / KEPT_GRAPH_SHARE &&
           (!facts->failure.has_happened || explains_failure(facts, result->kept_graph_bytes));
}

static bool is_leak_the_cause(const vw__doctor_facts *facts, const vw__doctor_result *result)
{
    return result->leaked_bytes != 0 &&
           (!facts->failure.has_happened || explains_failure(facts, result->leaked_bytes));
}

/* What the numbers say: at the failure, or where most was alive. */
static void keep_numbers(const vw__doctor_input *input, const vw__doctor_facts *facts,
                         vw__doctor_result *result)
{
    vw_memory_numbers *numbers = &result->draft->numbers;
    *numbers = facts->failure.numbers;
    result->draft->error_count = facts->failure.is_replayed ? 0 : facts->failure.failure_count;
    if (facts->failure.has_happened)
        return;
    uint64_t reserved = vw__timeline_reserved_at(&facts->timeline, facts->peak_instant);
    numbers->device = facts->trace->device;
    numbers->allocated_bytes = facts->peak_bytes;
    if (facts->timeline.is_reserved_known && reserved >= facts->peak_bytes)
        numbers->reserved_bytes = reserved;
    if (input->options->card_bytes != 0)
        numbers->total_bytes = input->options->card_bytes;
}

static vw_status conclude(const vw__doctor_input *input, vw__doctor_facts *facts,
                          vw__doctor_result *result)
{
    keep_numbers(input, facts, result);
    vw__diagnosis_name(result->draft, "peak", facts->peak_bytes);
    vw__diagnosis_name(result->draft, "leaked", result->leaked_bytes);
    vw__diagnosis_name(result->draft, "kept_graph", result->kept_graph_bytes);
    vw__diagnosis_name(result->draft, "stranded", result->stranded_bytes);
    if (is_kept_graph_the_cause(facts, result))
        conclude_kept_graph(facts, result);
    else if (is_leak_the_cause(facts, result))
        conclude_leak(facts, result);
    else if (result->is_stranded)
        conclude_stranded(facts, result);
    else if (facts->failure.has_happened)
        return conclude_by_numbers(input, facts, result);
    else
        conclude_healthy(input, facts, result);
    return result->is_stranded && !result->is_explained && facts->failure.has_happened
               ? vw__doctor_refusal(input, facts, result, VW_VERDICT_STRANDED)
               : VW_OK;
}

/* Where it was not PyTorch's own. */
static void say_allocator(const vw__model *model, vw__diagnosis_draft *draft)
{
    const char *gate = vw__recording_launch_gate(model);
    const char *engine = model->settings.engine != VW__MODEL_NO_STRING
                             ? vw__model_string(model, model->settings.engine)
                             : "";
    if (vw__policy_is_vramwise(engine))
        vw__diagnosis_reason(draft, "The allocator was %s%s%s.", engine,
                             gate != NULL ? ", its launch gate " : "", gate != NULL ? gate : "");
}

/* ---- together -------------------------------------------------------------------------------- */

static vw_status examine(const vw__doctor_input *input, vw__doctor_facts *facts,
                         vw__doctor_result *result)
{
    VW__TRY(open_case(input, facts, result));
    VW__TRY(vw__doctor_kept_graph(facts, result));
    VW__TRY(vw__doctor_leak(input, facts, result));
    result->is_explained =
        is_kept_graph_the_cause(facts, result) || is_leak_the_cause(facts, result);
    VW__TRY(vw__doctor_stranded(input, facts, result));
    VW__TRY(vw__doctor_fragmentation(input, facts, result));
    VW__TRY(vw__doctor_held(facts, result));
    VW__TRY(vw__doctor_peak(input, facts, result));
    VW__TRY(conclude(input, facts, result));
    say_allocator(facts->model, result->draft);
    return VW_OK;
}

/* A snapshot without history: only what is held at the end. */
static vw_status examine_segments(const vw__model *model, vw__diagnosis_draft *draft)
{
    uint64_t reserved = 0, allocated = 0;
    for (size_t i = 0; i < model->segment_count; i++)
        if (model->segments[i].device != VW__MODEL_HOST_DEVICE) {
            reserved += model->segments[i].total_bytes;
            allocated += model->segments[i].allocated_bytes;
        }
    draft->numbers.reserved_bytes = reserved;
    draft->numbers.allocated_bytes = allocated;
    vw__diagnosis_reason(draft, "The file has segments but no history of what happened: it shows "
                                "one instant, and neither a failure nor growth.");
    vw__diagnosis_conclude(draft, VW_VERDICT_UNKNOWN, VW_CONFIDENCE_LOW,
                           "Unknown: %s are alive in %s reserved at that instant; without a "
                           "history nothing more can be told.",
                           VW__DOCTOR_SIZE(allocated), VW__DOCTOR_SIZE(reserved));
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        draft, "unknown", VW_UNKNOWN, "A recording with its history would show the cause.");
    vw__diagnosis_advice(finding, "record from the beginning of the program",
                         "about a microsecond an allocation",
                         "vramwise run --record run.pickle -- python train.py");
    vw__diagnosis_advice(finding, "then ask again", "none", "vramwise doctor run.pickle");
    return VW_OK;
}

static vw_status examine_trace(const vw_recording *recording, const vw__model *model,
                               const vw__model_trace *trace, const vw_doctor_options *options,
                               vw__diagnosis_draft *draft)
{
    vw_recording as_judged = *recording;
    as_judged.model = (vw__model *)(uintptr_t)model; /* read only, as the recording is */
    const vw__doctor_input input = {&as_judged, options};
    vw__doctor_facts facts = {.model = model, .trace = trace};
    vw__doctor_result result = {.draft = draft};
    vw_status status = examine(&input, &facts, &result);
    close_case(&facts, &result);
    return status;
}

static vw_status examine_device(const vw_recording *recording, const vw__model_trace *trace,
                                const vw_doctor_options *options, vw__diagnosis_draft *draft)
{
    const vw__model *model = recording->model;
    vw__layout_reading reading;
    draft->settings_variable =
        vw__setting_variable_of_recording(model, options != NULL ? options->torch_version : NULL);
    VW__TRY(vw__layout_read(model, trace, &reading));
    if (!reading.begins_at_nothing || reading.end_fits)
        return examine_trace(recording, model, trace, options, draft);

    vw__layout_view view;
    VW__TRY(vw__layout_view_make(model, trace, trace->event_count, &view));
    vw__diagnosis_reason(draft, "The segments in the file are not those that its trace ends with "
                                "(it was cut); the trace is followed from its beginning.");
    vw_status status = examine_trace(recording, &view.model, &view.trace, options, draft);
    vw__layout_view_deinit(&view);
    return status;
}

/* A model that is spread over several GPUs may be healthy on one and leak on another. The first of
 * the others that is not healthy takes the place of the one that was looked at. */
static vw_status look_at_the_others(const vw_recording *recording, const vw__model_trace *judged,
                                    const vw_doctor_options *options, vw__diagnosis_draft *draft)
{
    const vw__model *model = recording->model;
    for (size_t i = 0; i < model->trace_count; i++) {
        const vw__model_trace *trace = &model->traces[i];
        if (trace == judged || trace->device == VW__MODEL_HOST_DEVICE || trace->event_count == 0)
            continue;
        vw__diagnosis_draft other;
        vw__diagnosis_init(&other, draft->source);
        vw_status status = examine_device(recording, trace, options, &other);
        if (status == VW_OK && other.verdict != VW_VERDICT_HEALTHY) {
            vw__diagnosis_reason(&other,
                                 "This is device %d; device %d, which is busier, is healthy.",
                                 (int)trace->device, (int)judged->device);
            vw__diagnosis_replace(draft, &other);
            return VW_OK;
        }
        vw__diagnosis_deinit(&other);
        VW__TRY(status);
    }
    return VW_OK;
}

vw_status vw__doctor_recording(const vw_recording *recording, const vw_doctor_options *options,
                               vw__diagnosis_draft *draft)
{
    const vw__model_trace *trace = choose_trace(recording->model);
    if (trace == NULL)
        return examine_segments(recording->model, draft);
    VW__TRY(examine_device(recording, trace, options, draft));
    return draft->verdict == VW_VERDICT_HEALTHY
               ? look_at_the_others(recording, trace, options, draft)
               : VW_OK;
}

vw_status vw__doctor_device(const vw_recording *recording, int device,
                            const vw_doctor_options *options, vw_diagnosis **out)
{
    const vw__model_trace *trace = vw__model_trace_of(recording->model, device);
    if (trace == NULL || trace->event_count == 0)
        return vw__fail(VW_ERR_CORRUPT_FILE, "there is no trace of device %d", device);
    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_RECORDING);
    vw_status status = examine_device(recording, trace, options, &draft);
    if (status == VW_OK)
        return vw__diagnosis_finish(&draft, out);
    vw__diagnosis_deinit(&draft);
    return status;
}
