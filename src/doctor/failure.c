/* failure.c - the request that failed, and the numbers PyTorch printed then.
 *
 * An out-of-memory event says what was asked for and what the device had free. The rest is how
 * memory stood at that instant: reserved, and allocated as PyTorch counts it, which is whole blocks
 * until the program frees them, whether other streams are still at work on them or not. The view of
 * the instant (layout.h) has those.
 *
 * Was there a limit? A recording of our own recorder says so, and how large the card is; PyTorch's
 * do not. If the device had the bytes free and they were refused all the same, a limit explains it,
 * provided that it explains everything else: nothing may have been granted that such a limit
 * forbids. Then it lies between the most that was granted and the least that was refused
 * (limit_evidence.c), and is taken to be half way. Else none is concluded.
 *
 * A run that did not fail may have come close: a request that is refused makes PyTorch give its
 * cache back and try again, which the trace shows. That becomes a finding.
 *
 * A program can catch the error and go on. The first failure is the one that is judged, since what
 * comes after is a program in trouble; the last one is judged as well, and named if it is of
 * another kind.
 *
 * With a card in the options the question is another one: would it run out of memory there? Then
 * the recording is replayed on it, under its own settings, and the failure is the replay's. */
#include <inttypes.h>

#include "doctor/doctor.h"
#include "doctor/numbers.h"
#include "analysis/recording.h"      /* vw__recording_settings */
#include "analysis/script_events.h"  /* vw__script_is_growth */
#include "analysis/limit_evidence.h" /* vw__limit_evidence_find */
#include "base/byte_buffer.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/torch/torch_rounding.h"
#include "settings/trials.h"

#define NO_EVENT UINT32_MAX
enum { MOST_STREAMS = 1024, MOST_FAILURES = 1024 }; /* of a recording that is replayed */

/* All refusals of the trace, for what they say together. */
typedef struct refusals {
    uint64_t count;
    uint32_t first, last; /* events */
    vw__torch_settings settings;
    vw__limit_evidence evidence;
    bool has_evidence;
    uint64_t limit_below_bytes; /* of the limit that was concluded */
} refusals;

static vw_memory_numbers unknown_numbers(int device)
{
    return (vw_memory_numbers){.tried_bytes = VW_UNKNOWN,
                               .total_bytes = VW_UNKNOWN,
                               .free_bytes = VW_UNKNOWN,
                               .allocated_bytes = VW_UNKNOWN,
                               .reserved_bytes = VW_UNKNOWN,
                               .process_bytes = VW_UNKNOWN,
                               .allowed_bytes = VW_UNKNOWN,
                               .device = device};
}

/* ---- as recorded ----------------------------------------------------------------------------- */

static void find_refusals(const vw__model_trace *trace, refusals *out)
{
    out->first = out->last = NO_EVENT;
    for (size_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].action != VW_ACTION_OOM)
            continue;
        if (out->count++ == 0)
            out->first = (uint32_t)i;
        out->last = (uint32_t)i;
    }
}

/* What the driver is asked for on behalf of a request: the size that PyTorch prints. */
static uint64_t tried_bytes(const refusals *all, uint64_t rounded_bytes)
{
    return rounded_bytes < VW__TORCH_MOST_REQUESTED_BYTES
               ? vw__torch_segment_size(&all->settings, rounded_bytes)
               : rounded_bytes;
}

/* Reserved and allocated bytes, as PyTorch counts them. Not known where nobody knows how memory
 * lay. */
static vw_status count_memory(const vw__doctor_facts *facts, uint32_t instant,
                              vw_memory_numbers *numbers)
{
    vw__layout_view view;
    vw_status status = vw__layout_view_make(facts->model, facts->trace, instant, &view);
    if (status == VW_ERR_UNSUPPORTED)
        return VW_OK;
    if (status != VW_OK)
        return status;
    numbers->reserved_bytes = numbers->allocated_bytes = 0;
    for (size_t i = 0; i < view.model.segment_count; i++) {
        numbers->reserved_bytes += view.segments[i].total_bytes;
        numbers->allocated_bytes += view.segments[i].allocated_bytes;
    }
    vw__layout_view_deinit(&view);
    return VW_OK;
}

/* What all requests together prove about a limit. */
static vw_status find_evidence(const vw__doctor_input *input, const vw__doctor_facts *facts,
                               refusals *all)
{
    const vw__model *model = facts->model;
    const char *wanted = input->options != NULL ? input->options->torch_version : NULL;
    const char *version = NULL;
    vw__script script;
    vw__byte_buffer conf;
    if (all->has_evidence)
        return VW_OK;
    VW__TRY(vw__recording_version(model, wanted, &version));
    VW__TRY(vw__script_make(model, facts->trace, &script));
    vw__byte_buffer_init(&conf);
    vw_status status = vw__recording_conf(model, &conf);
    if (status == VW_OK) {
        status = vw__limit_evidence_find(&script, version, vw__byte_buffer_text(&conf), UINT64_MAX,
                                         &all->evidence);
        if (status == VW_ERR_BAD_SETTING || status == VW_ERR_TOO_LARGE)
            status = vw__limit_evidence_find(&script, version, "", UINT64_MAX, &all->evidence);
    }
    vw__byte_buffer_deinit(&conf);
    vw__script_deinit(&script);
    all->has_evidence = status == VW_OK;
    return status;
}

/* A script cannot be made of every trace: one that contradicts itself proves nothing. */
static vw_status find_limit(const vw__doctor_input *input, const vw__doctor_facts *facts,
                            refusals *all, vw_memory_numbers *numbers)
{
    uint64_t refused_bytes;
    if (facts->model->settings.limit_bytes != 0) {
        numbers->allowed_bytes = facts->model->settings.limit_bytes;
        return VW_OK;
    }
    if (numbers->free_bytes < numbers->tried_bytes || numbers->reserved_bytes == VW_UNKNOWN ||
        facts->model->settings.device_bytes != 0) /* our own recording: it would name a limit */
        return VW_OK;
    vw_status status = find_evidence(input, facts, all);
    if (status == VW_ERR_CORRUPT_FILE || status == VW_ERR_UNSUPPORTED)
        return VW_OK;
    if (status != VW_OK)
        return status;
    if (!vw__add_u64(numbers->reserved_bytes, numbers->tried_bytes, &refused_bytes))
        return VW_OK;
    if (refused_bytes > all->evidence.at_least_bytes) {
        all->limit_below_bytes = vw__min_u64(all->evidence.below_bytes, refused_bytes);
        numbers->allowed_bytes = all->evidence.at_least_bytes +
                                 (all->limit_below_bytes - 1 - all->evidence.at_least_bytes) / 2;
    }
    return VW_OK;
}

static vw_status read_failure(const vw__doctor_input *input, const vw__doctor_facts *facts,
                              refusals *all, uint32_t event, vw_memory_numbers *out)
{
    const vw__model_event *oom = &facts->trace->events[event];
    *out = unknown_numbers(facts->trace->device);
    out->tried_bytes = tried_bytes(all, oom->size_bytes);
    out->free_bytes = oom->address;
    if (facts->model->settings.device_bytes != 0)
        out->total_bytes = facts->model->settings.device_bytes;
    VW__TRY(count_memory(facts, event, out));
    return find_limit(input, facts, all, out);
}

static void explain_limit(const vw__doctor_facts *facts, vw__doctor_result *result,
                          const refusals *all)
{
    const vw_memory_numbers *numbers = &facts->failure.numbers;
    if (facts->model->settings.limit_bytes != 0) {
        vw__diagnosis_reason(result->draft, "The recording says that its pool was limited to %s.",
                             VW__DOCTOR_SIZE(numbers->allowed_bytes));
        return;
    }
    if (numbers->free_bytes < numbers->tried_bytes || numbers->reserved_bytes == VW_UNKNOWN)
        return;
    if (numbers->allowed_bytes != VW_UNKNOWN)
        vw__diagnosis_reason(result->draft,
                             "The device had enough free and the request was refused: a limit was "
                             "set, and all requests agree with one between %s, the most that was "
                             "granted, and %s, the least that was refused.",
                             VW__DOCTOR_SIZE(all->evidence.at_least_bytes),
                             VW__DOCTOR_SIZE(all->limit_below_bytes));
    else if (all->has_evidence)
        vw__diagnosis_reason(result->draft,
                             "The device had enough free and the request was refused, but no limit "
                             "explains it: up to %s were granted at another time.",
                             VW__DOCTOR_SIZE(all->evidence.at_least_bytes));
}

/* Says so where the last of several failures is of another kind than the first. */
static vw_status compare_with_last(const vw__doctor_input *input, const vw__doctor_facts *facts,
                                   vw__doctor_result *result, refusals *all)
{
    vw_memory_numbers last;
    if (all->count < 2)
        return VW_OK;
    VW__TRY(read_failure(input, facts, all, all->last, &last));
    vw_verdict first_verdict = vw__numbers_judge(&facts->failure.numbers, NULL).verdict;
    vw_verdict last_verdict = vw__numbers_judge(&last, NULL).verdict;
    if (first_verdict == last_verdict)
        vw__diagnosis_reason(result->draft,
                             "%" PRIu64 " requests failed, the program going on after each; the "
                             "first is judged, and the last is of the same kind.",
                             all->count);
    else
        vw__diagnosis_reason(
            result->draft,
            "%" PRIu64 " requests failed, the program going on after each; the first is judged. By "
            "its own numbers the last, at event %" PRIu32 ", is another case: %s.",
            all->count, all->last, vw_verdict_name(last_verdict));
    return VW_OK;
}

static vw_status find_recorded(const vw__doctor_input *input, vw__doctor_facts *facts,
                               vw__doctor_result *result, refusals *all)
{
    vw__doctor_failure *failure = &facts->failure;
    *failure = (vw__doctor_failure){.numbers = unknown_numbers(facts->trace->device),
                                    .failure_count = all->count};
    if (all->count == 0)
        return VW_OK;
    failure->event = failure->instant = all->first;
    VW__TRY(read_failure(input, facts, all, all->first, &failure->numbers));
    failure->has_happened = true;
    if (failure->numbers.allowed_bytes != VW_UNKNOWN && all->has_evidence) {
        failure->limit_least_bytes = all->evidence.at_least_bytes;
        failure->limit_most_bytes = all->limit_below_bytes;
    }
    vw__diagnosis_reason(
        result->draft,
        "Event %" PRIu32 " of %zu: a request for %s failed, with %s free on the device.",
        all->first, facts->trace->event_count, VW__DOCTOR_SIZE(failure->numbers.tried_bytes),
        VW__DOCTOR_SIZE(failure->numbers.free_bytes));
    explain_limit(facts, result, all);
    return compare_with_last(input, facts, result, all);
}

/* ---- no failure, but close to one ------------------------------------------------------------ */

static bool gives_memory_back(const vw__model_trace *trace)
{
    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].action == VW_ACTION_SEGMENT_FREE ||
            trace->events[i].action == VW_ACTION_SEGMENT_UNMAP)
            return true;
    return false;
}

static vw_status find_close_calls(const vw__doctor_input *input, const vw__doctor_facts *facts,
                                  vw__doctor_result *result, refusals *all)
{
    if (all->count != 0 || !gives_memory_back(facts->trace))
        return VW_OK;
    vw_status status = find_evidence(input, facts, all);
    if (status == VW_ERR_CORRUPT_FILE || status == VW_ERR_UNSUPPORTED)
        return VW_OK;
    if (status != VW_OK)
        return status;
    const vw__limit_evidence *evidence = &all->evidence;
    if (evidence->below_bytes == UINT64_MAX || evidence->needs_search ||
        evidence->has_conf_fraction)
        return VW_OK;
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(result->draft, "near-limit", evidence->at_least_bytes,
                          "The run is close to its limit: requests were refused at first, and "
                          "served after PyTorch had given its cache back.");
    vw__diagnosis_evidence(
        finding,
        "Its limit lies between %s, the most that was granted, and %s, the least that was refused.",
        VW__DOCTOR_SIZE(evidence->at_least_bytes), VW__DOCTOR_SIZE(evidence->below_bytes));
    vw__diagnosis_evidence(finding,
                           "Each time PyTorch waits for the whole device, and takes what it gave "
                           "back from the driver again: slow, and the next step to running out.");
    vw__diagnosis_advice(finding, "see which setting makes it fit with room to spare", "none",
                         vw__diagnosis_text(result->draft,
                                            "vramwise tune FILE --card %" PRIu64 "MiB",
                                            evidence->at_least_bytes >> 20));
    return VW_OK;
}

/* ---- on another card ------------------------------------------------------------------------- */

/* Under the recorded settings; where no PyTorch can use those, under the defaults. */
static vw_status replay_on_card(const vw__doctor_input *input, const vw__doctor_facts *facts,
                                vw_replay_report **out)
{
    const vw_replay_run recorded = {.policy = "recorded"}, native = {.policy = "native"};
    vw_replay_options options = {.struct_size = sizeof options,
                                 .runs = &recorded,
                                 .run_count = 1,
                                 .torch_version = input->options->torch_version,
                                 .device = facts->trace->device,
                                 .card_bytes = input->options->card_bytes};
    vw_status status = vw_recording_replay(input->recording, &options, out);
    if (status != VW_ERR_CORRUPT_FILE && status != VW_ERR_BAD_SETTING)
        return status;
    options.runs = &native;
    return vw_recording_replay(input->recording, &options, out);
}

/* Memory that was taken for the request itself was not there yet. */
static uint32_t instant_before(const vw__model_trace *trace, uint32_t event)
{
    uint32_t instant = event;
    while (instant > 0 && vw__script_is_growth(trace->events[instant - 1].action))
        instant--;
    return instant;
}

static void keep_replayed(const vw__doctor_input *input, vw__doctor_facts *facts,
                          const vw_replay_result *result)
{
    vw__doctor_failure *failure = &facts->failure;
    uint64_t card_bytes = input->options->card_bytes;
    bool is_in_trace =
        result->oom_event < facts->trace->event_count; /* else before its beginning */
    failure->has_happened = failure->is_replayed = true;
    failure->event = is_in_trace ? (uint32_t)result->oom_event : 0;
    failure->instant = instant_before(facts->trace, failure->event);
    failure->numbers.tried_bytes = result->oom_tried_bytes;
    failure->numbers.total_bytes = card_bytes;
    failure->numbers.free_bytes =
        card_bytes > result->oom_reserved_bytes ? card_bytes - result->oom_reserved_bytes : 0;
    failure->numbers.reserved_bytes = result->oom_reserved_bytes;
    failure->numbers.allocated_bytes = result->oom_allocated_bytes;
}

/* The request that failed in the recording is served on the card. How the program would have gone
 * on was never recorded; but where another request like it would not fit any more, the card is no
 * larger than what ended the recording, and the failure stands. (Expandable segments serve a
 * request with idle bytes and a few more pages, which a limit counts in full.) */
static vw_status keep_what_only_just_fits(const vw__doctor_input *input, vw__doctor_facts *facts,
                                          vw__doctor_result *result, refusals *all)
{
    vw__doctor_failure *failure = &facts->failure;
    vw_memory_numbers numbers = unknown_numbers(facts->trace->device);
    uint64_t card_bytes = input->options->card_bytes, wanted_bytes, twice_bytes;
    if (all->count == 0)
        return VW_OK;
    numbers.tried_bytes = tried_bytes(all, facts->trace->events[all->first].size_bytes);
    VW__TRY(count_memory(facts, all->first, &numbers));
    if (numbers.reserved_bytes == VW_UNKNOWN || numbers.reserved_bytes > card_bytes ||
        card_bytes - numbers.reserved_bytes >= numbers.tried_bytes ||
        !vw__add_u64(numbers.allocated_bytes, numbers.tried_bytes, &wanted_bytes) ||
        !vw__add_u64(wanted_bytes, numbers.tried_bytes, &twice_bytes) || twice_bytes <= card_bytes)
        return VW_OK;
    numbers.total_bytes = card_bytes;
    numbers.free_bytes = card_bytes - numbers.reserved_bytes;
    failure->has_happened = failure->is_replayed = true;
    failure->event = failure->instant = all->first;
    failure->numbers = numbers;
    vw__diagnosis_reason(result->draft,
                         "The request of %s that failed in the recording is served there, but "
                         "leaves only %s: the next one like it fails.",
                         VW__DOCTOR_SIZE(numbers.tried_bytes),
                         VW__DOCTOR_SIZE(vw__doctor_less(card_bytes, wanted_bytes)));
    return VW_OK;
}

static vw_status find_replayed(const vw__doctor_input *input, vw__doctor_facts *facts,
                               vw__doctor_result *result, refusals *all)
{
    vw_replay_report *report = NULL;
    facts->failure = (vw__doctor_failure){.numbers = unknown_numbers(facts->trace->device),
                                          .failure_count = all->count};
    VW__TRY(replay_on_card(input, facts, &report));
    const vw_replay_result replayed = report->results[0];
    vw_replay_report_free(report);
    if (replayed.has_oom) {
        keep_replayed(input, facts, &replayed);
        vw__diagnosis_reason(result->draft,
                             "Replayed on a card of %s without a limit, event %" PRIu32
                             " of %zu fails: %s are asked for.",
                             VW__DOCTOR_SIZE(input->options->card_bytes), facts->failure.event,
                             facts->trace->event_count, VW__DOCTOR_SIZE(replayed.oom_tried_bytes));
        return VW_OK;
    }
    vw__diagnosis_reason(
        result->draft,
        "Replayed on a card of %s without a limit, nothing fails: at most %s are reserved.",
        VW__DOCTOR_SIZE(input->options->card_bytes), VW__DOCTOR_SIZE(replayed.peak_reserved_bytes));
    return keep_what_only_just_fits(input, facts, result, all);
}

bool vw__doctor_can_replay(const vw__doctor_facts *facts)
{
    return facts->model->stream_count <= MOST_STREAMS &&
           facts->failure.failure_count <= MOST_FAILURES;
}

vw_status vw__doctor_open_trials(const vw__doctor_input *input, vw__doctor_facts *facts)
{
    const vw_doctor_options *options = input->options;
    bool is_card_named = options != NULL && options->card_bytes != 0;
    if (facts->trials != NULL || !vw__doctor_can_replay(facts))
        return VW_OK;
    const vw__replay_card card = facts->failure.is_replayed
                                     ? vw__replay_card_of(options->card_bytes)
                                     : vw__replay_card_without_end();
    vw__trials *trials = vw__host_alloc(sizeof *trials);
    if (trials == NULL)
        return vw__fail_host_memory(sizeof *trials, "the replays of a recording");
    vw_status status =
        vw__trials_open(trials, facts->model, options != NULL ? options->torch_version : NULL,
                        facts->trace->device, is_card_named ? &card : NULL);
    if (status == VW_OK)
        facts->trials = trials;
    else
        vw__host_free(trials);
    return vw__trials_are_impossible(status) ? VW_OK : status;
}

void vw__doctor_close_trials(vw__doctor_facts *facts)
{
    if (facts->trials != NULL)
        vw__trials_close(facts->trials);
    vw__host_free(facts->trials);
    facts->trials = NULL;
}

/* ---- either ---------------------------------------------------------------------------------- */

vw_status vw__doctor_find_failure(const vw__doctor_input *input, vw__doctor_facts *facts,
                                  vw__doctor_result *result)
{
    refusals all = {.count = 0};
    const char *version = input->options != NULL ? input->options->torch_version : NULL;
    bool is_on_card = input->options != NULL && input->options->card_bytes != 0;
    find_refusals(facts->trace, &all);
    VW__TRY(vw__recording_settings(facts->model, version, &all.settings));
    vw_status status = is_on_card ? find_replayed(input, facts, result, &all)
                                  : find_recorded(input, facts, result, &all);
    vw__diagnosis_name_numbers(result->draft, &facts->failure.numbers);
    if (status == VW_OK && !is_on_card)
        status = find_close_calls(input, facts, result, &all);
    vw__limit_evidence_deinit(&all.evidence);
    vw__torch_settings_deinit(&all.settings);
    return status;
}
