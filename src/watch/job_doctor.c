/* job_doctor.c - the doctor at the bed of a job that runs.
 *
 * Nothing has failed yet, so the rule for numbers, which asks what would have served a request, has
 * no request to ask about. What a page has instead is a history: the steps, the peaks, and counters
 * of requests that ran out or nearly did. The questions, in order; the first yes is the verdict:
 *
 *   leak            the steps grow: the doctor's own rule for a log of steps
 *   genuine         on the card of the options, less is left for the job than its peak
 *   fragmentation   it is tight, and much of what is reserved was idle even at the peak, in pieces
 *   capped          it is tight, by a limit that is nearer than the end of the card
 *   outside         it is tight, and others hold a fifth of the card, less 1 GiB for a context
 *   healthy         else; a job that has run out of memory, and goes on, with a "but"
 *
 * Tight: less than a tenth of what the job can have is left to take, or a request has already run
 * out of memory, or was served only after the cache had been given back. What is not tight is told
 * as a finding all the same, since it will matter on a smaller card or with another batch. The
 * words and remedies are those for texts, where they say the same. */
#include "vramwise/watch.h"

#include <inttypes.h>

#include "vramwise/units.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "doctor/doctor.h"
#include "doctor/text_parts.h"
#include "trend/trend.h"

enum {
    TIGHT_SHARE = 10, /* of what the job can have, left to take */
    MUCH_OUTSIDE = 5, /* of the card */
    MOST_NAMED = 4,   /* other devices */
};

_Static_assert(VW_UNKNOWN == VW_LIVE_UNKNOWN, "what a page does not know, the doctor does not");

typedef struct job_case {
    const vw_job *job;
    const vw_job_device *device; /* that is judged */
    vw_job_outlook outlook;      /* its */
    const vw_doctor_options *options;
    vw__diagnosis_draft *draft;
    vw_memory_numbers numbers; /* as they are, or on the card of the options */
    uint64_t outside_bytes;    /* on the card, what a context takes included; VW_UNKNOWN */
    uint64_t end_bytes;        /* what the job can come to reserve; VW_UNKNOWN */
    bool is_limit_nearer;      /* than the end of the card */
    bool is_tight;
    vw__growth growth;
    vw__error_report blank; /* that the remedies for texts ask which device it is */
} job_case;

static bool is_known(uint64_t value)
{
    return value != VW_UNKNOWN;
}

static uint64_t less(uint64_t one, uint64_t other)
{
    return one > other ? one - other : 0;
}

static uint64_t value_of(const job_case *judged, vw_live_field field)
{
    return judged->device->values[field];
}

/* Of a counter: not known is none. */
static uint64_t count_of(const job_case *judged, vw_live_field field)
{
    uint64_t count = value_of(judged, field);
    return is_known(count) ? count : 0;
}

static const char *size_of(const job_case *judged, uint64_t bytes)
{
    return is_known(bytes) ? vw__diagnosis_size(judged->draft, bytes) : "an unknown amount";
}

/* ---- which device ---------------------------------------------------------------------------- */

static uint64_t held_by(const vw_job_device *device)
{
    uint64_t reserved = device->values[VW_LIVE_RESERVED_BYTES];
    uint64_t live = device->values[VW_LIVE_LIVE_BYTES];
    return is_known(reserved) ? reserved : is_known(live) ? live : 0;
}

static bool is_worse(const vw_job_device *device, const vw_job_outlook *outlook,
                     const job_case *than)
{
    if (outlook->is_leak || than->outlook.is_leak)
        return outlook->bytes_per_step > than->outlook.bytes_per_step;
    return held_by(device) > held_by(than->device);
}

static vw_status choose_device(job_case *judged)
{
    for (size_t i = 0; i < judged->job->device_count; i++) {
        const vw_job_device *device = &judged->job->devices[i];
        vw_job_outlook outlook;
        VW__TRY(vw_job_outlook_find(device, &outlook));
        if (judged->device == NULL || is_worse(device, &outlook, judged)) {
            judged->device = device;
            judged->outlook = outlook;
        }
    }
    return VW_OK;
}

static void name_other_devices(const job_case *judged)
{
    size_t named = 0, count = judged->job->device_count;
    if (count < 2)
        return;
    vw__diagnosis_reason(judged->draft, "The job has %zu devices; %s is looked at here.", count,
                         judged->outlook.is_leak ? "the one whose memory grows fastest"
                                                 : "the one that holds most");
    for (size_t i = 0; i < count; i++) {
        const vw_job_device *device = &judged->job->devices[i];
        if (device == judged->device || named++ >= MOST_NAMED)
            continue;
        vw__diagnosis_reason(judged->draft, "Device %d: %s live, %s reserved.", device->index,
                             size_of(judged, device->values[VW_LIVE_LIVE_BYTES]),
                             size_of(judged, device->values[VW_LIVE_RESERVED_BYTES]));
    }
    if (named > MOST_NAMED)
        vw__diagnosis_reason(judged->draft, "And %zu more.", named - MOST_NAMED);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The card of the options in place of its own: others hold as much there, and no limit is set. */
static void move_to_card(job_case *judged)
{
    vw_memory_numbers *numbers = &judged->numbers;
    uint64_t card = judged->options->card_bytes;
    if (card == 0)
        return;
    numbers->total_bytes = card;
    numbers->allowed_bytes = VW_UNKNOWN;
    if (is_known(numbers->reserved_bytes))
        numbers->free_bytes = less(less(card, numbers->reserved_bytes),
                                   is_known(judged->outside_bytes) ? judged->outside_bytes : 0);
}

static void find_end(job_case *judged)
{
    const vw_memory_numbers *numbers = &judged->numbers;
    uint64_t reserved = numbers->reserved_bytes, free_bytes = numbers->free_bytes;
    judged->end_bytes = VW_UNKNOWN;
    if (is_known(reserved) && is_known(free_bytes) && free_bytes < VW_UNKNOWN - reserved)
        judged->end_bytes = reserved + free_bytes;
    if (numbers->allowed_bytes < judged->end_bytes) {
        judged->end_bytes = numbers->allowed_bytes;
        judged->is_limit_nearer = true;
    }
}

static void note_numbers(job_case *judged)
{
    vw_memory_numbers *numbers = &judged->numbers;
    *numbers = (vw_memory_numbers){
        .tried_bytes = VW_UNKNOWN,
        .total_bytes = value_of(judged, VW_LIVE_DEVICE_TOTAL_BYTES),
        .free_bytes = value_of(judged, VW_LIVE_DEVICE_FREE_BYTES),
        .allocated_bytes = value_of(judged, VW_LIVE_LIVE_BYTES),
        .reserved_bytes = value_of(judged, VW_LIVE_RESERVED_BYTES),
        .process_bytes = VW_UNKNOWN,
        .allowed_bytes = value_of(judged, VW_LIVE_LIMIT_BYTES),
        .device = judged->device->index,
    };
    judged->outside_bytes = VW_UNKNOWN;
    if (is_known(numbers->total_bytes) && is_known(numbers->free_bytes) &&
        is_known(numbers->reserved_bytes))
        judged->outside_bytes =
            less(less(numbers->total_bytes, numbers->free_bytes), numbers->reserved_bytes);
    move_to_card(judged);
    find_end(judged);
}

/* The most that was live, or what is. */
static uint64_t peak_of(const job_case *judged)
{
    uint64_t peak = value_of(judged, VW_LIVE_PEAK_LIVE_BYTES);
    uint64_t live = judged->numbers.allocated_bytes;
    return is_known(peak) && (!is_known(live) || peak > live) ? peak : live;
}

static void find_tightness(job_case *judged)
{
    uint64_t end = judged->end_bytes, reserved = judged->numbers.reserved_bytes;
    bool is_near = is_known(end) && is_known(reserved) && less(end, reserved) < end / TIGHT_SHARE;
    bool has_run_out = count_of(judged, VW_LIVE_OUT_OF_MEMORY) != 0;
    bool has_retried = count_of(judged, VW_LIVE_RETRIES) != 0;
    judged->is_tight = is_near || has_run_out || has_retried;
    if (is_known(end) && is_known(reserved))
        vw__diagnosis_reason(judged->draft,
                             "%s are reserved of the %s that the job can have%s: %s are left to "
                             "take, %s.",
                             size_of(judged, reserved), size_of(judged, end),
                             judged->is_limit_nearer ? " by its limit" : "",
                             size_of(judged, less(end, reserved)),
                             is_near ? "less than a tenth" : "a tenth or more");
}

/* ---- findings -------------------------------------------------------------------------------- */

/* As the remedies for texts want it. */
static vw__text_case text_case_of(const job_case *judged)
{
    return (vw__text_case){
        .report = &judged->blank,
        .draft = judged->draft,
        .said = judged->numbers,
        .numbers = judged->numbers,
        .others_bytes = VW_UNKNOWN,
        .judged = {.verdict = VW_VERDICT_UNKNOWN,
                   .idle_bytes = VW_UNKNOWN,
                   .outside_bytes = judged->outside_bytes},
    };
}

/* Idle even at the peak, and not in one piece. */
static bool is_fragmented(const job_case *judged)
{
    uint64_t reserved = judged->numbers.reserved_bytes, live = judged->numbers.allocated_bytes;
    uint64_t largest = value_of(judged, VW_LIVE_LARGEST_FREE_BYTES);
    bool is_in_one_piece =
        is_known(largest) && is_known(live) && largest >= less(reserved, live) / 2;
    return is_known(value_of(judged, VW_LIVE_PEAK_LIVE_BYTES)) && !is_in_one_piece &&
           vw__doctor_is_much_idle(reserved, peak_of(judged), true);
}

static void add_fragmentation(const job_case *judged)
{
    vw__text_case given = text_case_of(judged);
    uint64_t largest = value_of(judged, VW_LIVE_LARGEST_FREE_BYTES);
    given.numbers.allocated_bytes = peak_of(judged);
    given.judged.idle_bytes = less(judged->numbers.reserved_bytes, peak_of(judged));
    vw__text_add_findings(&given, VW_VERDICT_FRAGMENTATION);
    vw__finding_draft *finding = vw__diagnosis_find(judged->draft, "fragmentation");
    if (finding == NULL)
        return;
    vw__finding_evidence(finding, "%s were live at the most, so far.",
                         size_of(judged, peak_of(judged)));
    if (is_known(largest))
        vw__finding_evidence(finding, "The largest request that idle memory could serve is %s.",
                             size_of(judged, largest));
}

/* The rule for numbers without its request. */
static bool is_outside_much(const job_case *judged)
{
    return is_known(judged->outside_bytes) &&
           less(judged->outside_bytes, VW__CONTEXT_BYTES) >=
               judged->numbers.total_bytes / MUCH_OUTSIDE &&
           judged->outside_bytes > VW__CONTEXT_BYTES;
}

static void add_cause(const job_case *judged, vw_verdict verdict)
{
    const vw__text_case given = text_case_of(judged);
    vw__text_add_findings(&given, verdict);
}

static void add_near_limit(const job_case *judged)
{
    const vw__text_case given = text_case_of(judged);
    uint64_t failures = count_of(judged, VW_LIVE_OUT_OF_MEMORY);
    uint64_t retries = count_of(judged, VW_LIVE_RETRIES);
    if (failures == 0 && retries == 0)
        return;
    vw__finding_draft *finding =
        failures != 0
            ? vw__diagnosis_add(judged->draft, "near-limit", judged->end_bytes,
                                "Memory has run out %" PRIu64 " time%s, and the job went on.",
                                failures, failures == 1 ? "" : "s")
            : vw__diagnosis_add(judged->draft, "near-limit", judged->end_bytes,
                                "%" PRIu64 " request%s had to wait until the allocator had given "
                                "its cache back.",
                                retries, retries == 1 ? "" : "s");
    if (failures != 0)
        vw__finding_evidence(finding, "Someone catches the error: a smaller batch is tried, or "
                                      "work is left out.");
    if (retries != 0)
        vw__finding_evidence(finding,
                             "The allocator gave its cache back %" PRIu64 " time%s to serve a "
                             "request: each time it waits for the whole device, and takes the "
                             "memory from the driver again.",
                             retries, retries == 1 ? "" : "s");
    vw__text_add_smaller_batch(&given, finding);
    vw__text_add_recording(&given, finding);
}

static void add_input_bound(const job_case *judged)
{
    double share = vw_job_input_share(judged->device);
    uint64_t workers = value_of(judged, VW_LIVE_LOADER_WORKERS);
    uint64_t pins = value_of(judged, VW_LIVE_LOADER_PINS);
    if (share <= VW_JOB_INPUT_BOUND_SHARE)
        return;
    vw__finding_draft *finding =
        vw__diagnosis_add(judged->draft, "input-bound", VW_UNKNOWN,
                          "Of the time of its steps the job spends %s waiting for input.",
                          vw__diagnosis_share(judged->draft, share));
    if (is_known(workers))
        vw__finding_evidence(finding, "Its data loader has %" PRIu64 " worker%s%s.", workers,
                             workers == 1 ? "" : "s",
                             workers == 0 ? ": batches are made between the steps" : "");
    if (is_known(pins))
        vw__finding_evidence(finding, pins != 0
                                          ? "It gives pinned memory."
                                          : "It gives memory that is not pinned: copies to the "
                                            "device cannot run beside the computation.");
    vw__finding_remedy(
        finding, "let more workers make batches ahead", VW__SAVES_UNKNOWN, VW_BASIS_RULE,
        "memory of the host, for each worker and what it has made ahead",
        vw__diagnosis_text(judged->draft,
                           "DataLoader(dataset, num_workers=%" PRIu64 ",\n"
                           "           persistent_workers=True, prefetch_factor=4, ...)",
                           is_known(workers) && workers > 1 && workers < 64 ? 2 * workers : 4));
    if (!is_known(pins) || pins == 0)
        vw__finding_remedy(finding, "pin the batches, and copy them without waiting",
                           VW__SAVES_UNKNOWN, VW_BASIS_RULE, "page-locked memory of the host",
                           "DataLoader(dataset, pin_memory=True, ...)\n"
                           "batch = batch.to(device, non_blocking=True)");
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* "about 2 h 10 min"; NULL where it is not known. */
static const char *time_for_steps(const job_case *judged, uint64_t steps)
{
    char text[VW_DURATION_TEXT_BYTES];
    uint64_t step_ns = vw_job_step_ns(judged->device);
    double seconds = (double)steps * (double)step_ns / 1e9;
    if (!is_known(step_ns) || seconds > 1e9)
        return NULL;
    return vw__diagnosis_text(judged->draft, "about %s",
                              vw_format_duration((uint64_t)seconds, text));
}

static void conclude_leak(const job_case *judged)
{
    const vw_job_outlook *outlook = &judged->outlook;
    vw__finding_draft *finding = vw__diagnosis_find(judged->draft, "leak");
    const char *end = "";
    if (judged->options->card_bytes != 0 || !is_known(outlook->full_at_step) || finding == NULL)
        return; /* the sentence of the steps stands */
    uint64_t steps = outlook->full_at_step - outlook->last_step;
    const char *time = time_for_steps(judged, steps);
    if (time != NULL)
        end = vw__diagnosis_text(judged->draft, ", in %s", time);
    vw__finding_evidence(
        finding,
        "%s are left for it, idle and free together%s: enough for %" PRIu64 " step%s more.",
        size_of(judged, outlook->room_bytes), judged->is_limit_nearer ? ", under its limit" : "",
        steps - 1, steps == 2 ? "" : "s");
    vw__diagnosis_conclude(judged->draft, VW_VERDICT_LEAK, outlook->confidence,
                           "%s; memory runs out at about step %" PRIu64 "%s.",
                           judged->growth.clause, outlook->full_at_step, end);
}

static vw_status judge_steps(job_case *judged)
{
    size_t count = judged->device->step_count;
    vw__step_point *points = vw__host_alloc_zeroed(count, sizeof *points);
    if (points == NULL)
        return vw__fail_host_memory(count * sizeof *points, "the steps of a job");
    for (size_t i = 0; i < count; i++)
        points[i] = (vw__step_point){
            .step = (double)judged->device->steps[i].step,
            .allocated_bytes = judged->device->steps[i].live_bytes,
            .reserved_bytes = VW__UNKNOWN_BYTES, /* judged by the peaks instead */
        };
    const vw__step_log log = {.points = points,
                              .point_count = count,
                              .line_count = count,
                              .found_count = count,
                              .form = "",
                              .step_name = "step",
                              .memory_name = "live bytes",
                              .rank = -1};
    vw_status status = vw__doctor_steps(&log, judged->options, judged->draft, &judged->growth);
    vw__host_free(points);
    return status;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

/* Less of the card of the options is left than was live at the most; 0 = it would do. */
static uint64_t missing_on_card(const job_case *judged)
{
    uint64_t card = judged->options->card_bytes;
    uint64_t others = is_known(judged->outside_bytes) ? judged->outside_bytes : 0;
    return card != 0 && is_known(peak_of(judged)) ? less(peak_of(judged), less(card, others)) : 0;
}

static void conclude_too_small(const job_case *judged)
{
    const vw__text_case given = text_case_of(judged);
    vw__finding_draft *finding = vw__diagnosis_add(
        judged->draft, "genuine", missing_on_card(judged), "%s would be missing on a card of %s.",
        size_of(judged, missing_on_card(judged)), size_of(judged, judged->options->card_bytes));
    vw__finding_evidence(finding, "%s were live at the most, so far.",
                         size_of(judged, peak_of(judged)));
    vw__text_add_diet(&given, finding);
    vw__text_add_recording(&given, finding);
    vw__diagnosis_conclude(judged->draft, VW_VERDICT_GENUINE, VW_CONFIDENCE_HIGH,
                           "Too much for a card of %s: %s were live at the most so far.",
                           size_of(judged, judged->options->card_bytes),
                           size_of(judged, peak_of(judged)));
}

static void conclude_tight(const job_case *judged, vw_verdict verdict)
{
    const vw_memory_numbers *numbers = &judged->numbers;
    uint64_t left = less(judged->end_bytes, numbers->reserved_bytes);
    const char *room =
        is_known(judged->end_bytes)
            ? vw__diagnosis_text(judged->draft, "%s are left to take", size_of(judged, left))
            : "requests have run out already";
    if (verdict == VW_VERDICT_FRAGMENTATION)
        vw__diagnosis_conclude(
            judged->draft, verdict, VW_CONFIDENCE_MEDIUM,
            "Fragmentation ahead: %s are reserved, %s were live at the most, and %s.",
            size_of(judged, numbers->reserved_bytes), size_of(judged, peak_of(judged)), room);
    else if (verdict == VW_VERDICT_CAPPED)
        vw__diagnosis_conclude(judged->draft, verdict, VW_CONFIDENCE_MEDIUM,
                               "At its limit: %s are reserved of the %s that are allowed, and %s.",
                               size_of(judged, numbers->reserved_bytes),
                               size_of(judged, numbers->allowed_bytes), room);
    else
        vw__diagnosis_conclude(
            judged->draft, verdict, VW_CONFIDENCE_MEDIUM,
            "Others hold %s of the card's %s, outside this job's allocator, and %s.",
            size_of(judged, judged->outside_bytes), size_of(judged, numbers->total_bytes), room);
}

/* What a healthy job has been through. */
static const char *but_of(const job_case *judged)
{
    uint64_t failures = count_of(judged, VW_LIVE_OUT_OF_MEMORY);
    if (failures != 0)
        return vw__diagnosis_text(judged->draft, " But memory has run out %" PRIu64 " time%s.",
                                  failures, failures == 1 ? "" : "s");
    return count_of(judged, VW_LIVE_RETRIES) != 0 ? " But it has been close to its limit." : "";
}

/* "No leak: memory stays at 3.00 GiB. 20.00 GiB are left for it to grow." */
static void conclude_healthy(const job_case *judged)
{
    uint64_t end = judged->end_bytes, live = judged->numbers.allocated_bytes;
    size_t steps = judged->device->step_count;
    const char *but = but_of(judged);
    vw_confidence confidence = judged->outlook.confidence;
    bool is_short = steps < VW__TREND_FEWEST_POINTS;
    const char *seen = judged->draft->sentence, *room = "";
    if (is_short)
        seen = vw__diagnosis_text(judged->draft,
                                  "Nothing wrong to be seen, with %s live; %zu step%s too few to "
                                  "tell a leak.",
                                  size_of(judged, live), steps, steps == 1 ? " is" : "s are");
    if (is_known(end) && is_known(live))
        room = vw__diagnosis_text(judged->draft, " %s are left for it to grow.",
                                  size_of(judged, less(end, live)));
    if (is_short)
        confidence = VW_CONFIDENCE_LOW;
    else if (but[0] != '\0' && confidence == VW_CONFIDENCE_HIGH)
        confidence = VW_CONFIDENCE_MEDIUM;
    vw__diagnosis_conclude(judged->draft, VW_VERDICT_HEALTHY, confidence, "%s%s%s", seen, room,
                           but);
}

static void conclude(job_case *judged)
{
    bool is_scattered = is_fragmented(judged), is_crowded = is_outside_much(judged);
    bool is_capped = judged->is_tight && judged->is_limit_nearer;
    add_near_limit(judged);
    if (is_scattered)
        add_fragmentation(judged);
    if (is_capped)
        add_cause(judged, VW_VERDICT_CAPPED);
    if (is_crowded)
        add_cause(judged, VW_VERDICT_OUTSIDE);
    add_input_bound(judged);
    if (judged->growth.is_leak)
        conclude_leak(judged);
    else if (missing_on_card(judged) != 0)
        conclude_too_small(judged);
    else if (judged->is_tight && is_scattered)
        conclude_tight(judged, VW_VERDICT_FRAGMENTATION);
    else if (is_capped)
        conclude_tight(judged, VW_VERDICT_CAPPED);
    else if (judged->is_tight && is_crowded)
        conclude_tight(judged, VW_VERDICT_OUTSIDE);
    else
        conclude_healthy(judged);
}

static void introduce(const job_case *judged)
{
    const vw_job *job = judged->job;
    const char *rank =
        job->rank >= 0 ? vw__diagnosis_text(judged->draft, ", rank %d", job->rank) : "";
    vw__diagnosis_reason(judged->draft, "The page of process %ld (%s%s)%s%s%s.", job->process,
                         job->program[0] != '\0' ? job->program : "a program without a name", rank,
                         judged->device != NULL && judged->device->name[0] != '\0' ? ", " : "",
                         judged->device != NULL ? judged->device->name : "",
                         job->allocator[0] != '\0'
                             ? vw__diagnosis_text(judged->draft, ", allocator %s", job->allocator)
                             : "");
}

static vw_status judge(job_case *judged)
{
    VW__TRY(choose_device(judged));
    introduce(judged);
    if (judged->device == NULL) {
        vw__diagnosis_conclude(judged->draft, VW_VERDICT_UNKNOWN, VW_CONFIDENCE_LOW,
                               "The job has told of no device yet: it holds no memory of a GPU, or "
                               "has only begun.");
        return VW_OK;
    }
    name_other_devices(judged);
    note_numbers(judged);
    if (judged->device->step_count == 0 && !is_known(judged->numbers.allocated_bytes) &&
        !is_known(judged->numbers.reserved_bytes)) {
        vw__diagnosis_conclude(judged->draft, VW_VERDICT_UNKNOWN, VW_CONFIDENCE_LOW,
                               "The job has told nothing of its memory yet.");
        return VW_OK;
    }
    if (judged->device->step_count != 0)
        VW__TRY(judge_steps(judged));
    judged->draft->numbers = judged->numbers;
    judged->draft->error_count = count_of(judged, VW_LIVE_OUT_OF_MEMORY);
    find_tightness(judged);
    conclude(judged);
    return VW_OK;
}

static vw_status check_state(const vw_job *job)
{
    if (job->state == VW_JOB_OTHER_VERSION)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "its page is of version %" PRIu64
                        ", made by another vramwise; expected one that this vramwise can read",
                        job->page_version);
    if (job->state == VW_JOB_BUSY)
        return vw__fail(VW_ERR_NOT_READY,
                        "its page does not hold still: the process was stopped while it wrote, or "
                        "is at it all the time; try again");
    return VW_OK;
}

vw_status vw_doctor_job(const vw_job *job, const vw_doctor_options *options, vw_diagnosis **out)
{
    if (job == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a job and a place for the diagnosis");
    vw_doctor_options used;
    VW__TRY(vw__doctor_read_options(options, &used));
    VW__TRY(check_state(job));
    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_STEPS);
    draft.is_running = true;
    job_case judged = {.job = job,
                       .options = &used,
                       .draft = &draft,
                       .growth = {.grown_bytes = VW_UNKNOWN, .clause = ""},
                       .blank = {.kind = VW__ERROR_TORCH_CUDA}};
    return vw__doctor_settle(judge(&judged), &draft, out);
}
