/* running_job.c - the verdict on a job that runs.
 *
 * watch/ reads the job's page and hands the facts over (running_job.h). Nothing has failed yet, so
 * the rule for numbers, which asks what would have served a request, has no request to ask about.
 * What a page has instead is a history: the steps, the peaks, and counters of requests that ran out
 * or nearly did. The questions, in order; the first yes is the verdict:
 *
 *   leak            the steps grow: the doctor's own rule for a log of steps
 *   genuine         on the card of the options, less is left for the job than its peak
 *   fragmentation   it is tight, and much of what is reserved was idle even at the peak, in pieces
 *   capped          it is tight, by a limit that is nearer than the end of the card
 *   outside         it is tight, and others hold a fifth of the card, less 1 GiB for a context
 *   healthy         else; a job that has run out of memory, and goes on, with a "but"
 *
 * Tight: less than a tenth of what the job can have is left to take, or a request has already run
 * out of memory, or was served only after the cache had been given back. What is not tight is
 * a finding all the same, since it will matter on a smaller card or with another batch. The
 * words and remedies are those for texts, where they say the same. */
#include "doctor/running_job.h"
#include "doctor/loader.h"

#include <inttypes.h>

#include "vramwise/units.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "doctor/doctor.h"
#include "doctor/text_parts.h"
#include "trend/trend.h"

enum {
    MOST_NAMED = 4, /* other devices */
};

_Static_assert(VW_UNKNOWN == VW_LIVE_UNKNOWN, "what a page does not know, the doctor does not");

typedef struct job_case {
    const vw__doctor_job_facts *facts;
    const vw_job_device *device; /* the facts' */
    const vw_doctor_options *options;
    vw__diagnosis_draft *draft;
    vw_memory_numbers numbers; /* as they are, or on the card of the options */
    uint64_t outside_bytes;    /* on the card, what a context takes included; VW_UNKNOWN */
    uint64_t end_bytes;        /* what the job can come to reserve; VW_UNKNOWN */
    bool is_limit_nearer;      /* than the end of the card */
    bool is_tight;
    vw__doctor_growth growth;
    vw__error_text_report blank; /* that the remedies for texts ask which device it is */
} job_case;

static uint64_t value_of(const job_case *judged, vw_live_field field)
{
    return judged->device->values[field];
}

/* Unknown counters read as 0. */
static uint64_t count_of(const job_case *judged, vw_live_field field)
{
    uint64_t count = value_of(judged, field);
    return vw__doctor_knows(count) ? count : 0;
}

/* ---- other devices ----------------------------------------------------------------------------
 */

static void name_other_devices(const job_case *judged)
{
    size_t named = 0, count = judged->facts->job->device_count;
    if (count < 2)
        return;
    vw__diagnosis_reason(judged->draft, "The job has %zu devices; %s is looked at here.", count,
                         judged->facts->outlook.is_leak ? "the one whose memory grows fastest"
                                                        : "the one that holds most");
    for (size_t i = 0; i < count; i++) {
        const vw_job_device *device = &judged->facts->job->devices[i];
        if (device == judged->device || named++ >= MOST_NAMED)
            continue;
        vw__diagnosis_reason(judged->draft, "Device %d: %s live, %s reserved.", device->index,
                             VW__DOCTOR_SIZE(device->values[VW_LIVE_LIVE_BYTES]),
                             VW__DOCTOR_SIZE(device->values[VW_LIVE_RESERVED_BYTES]));
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
    if (vw__doctor_knows(numbers->reserved_bytes))
        numbers->free_bytes =
            vw__doctor_less(vw__doctor_less(card, numbers->reserved_bytes),
                            vw__doctor_knows(judged->outside_bytes) ? judged->outside_bytes : 0);
}

static void find_end(job_case *judged)
{
    const vw_memory_numbers *numbers = &judged->numbers;
    uint64_t reserved = numbers->reserved_bytes, free_bytes = numbers->free_bytes;
    judged->end_bytes = VW_UNKNOWN;
    if (VW__DOCTOR_KNOWS_ALL(reserved, free_bytes) && free_bytes < VW_UNKNOWN - reserved)
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
    if (VW__DOCTOR_KNOWS_ALL(numbers->total_bytes, numbers->free_bytes, numbers->reserved_bytes))
        judged->outside_bytes = vw__doctor_less(
            vw__doctor_less(numbers->total_bytes, numbers->free_bytes), numbers->reserved_bytes);
    move_to_card(judged);
    find_end(judged);
}

/* The most that was live, or what is. */
static uint64_t peak_of(const job_case *judged)
{
    uint64_t peak = value_of(judged, VW_LIVE_PEAK_LIVE_BYTES);
    uint64_t live = judged->numbers.allocated_bytes;
    return vw__doctor_knows(peak) && (!vw__doctor_knows(live) || peak > live) ? peak : live;
}

static void find_tightness(job_case *judged)
{
    uint64_t end = judged->end_bytes, reserved = judged->numbers.reserved_bytes;
    bool is_near = VW__DOCTOR_KNOWS_ALL(end, reserved) &&
                   vw__doctor_less(end, reserved) < end / VW__DOCTOR_TIGHT_SHARE;
    bool has_run_out = count_of(judged, VW_LIVE_OUT_OF_MEMORY) != 0;
    bool has_retried = count_of(judged, VW_LIVE_RETRIES) != 0;
    judged->is_tight = is_near || has_run_out || has_retried;
    if (VW__DOCTOR_KNOWS_ALL(end, reserved))
        vw__diagnosis_reason(
            judged->draft,
            "%s are reserved of the %s that the job can have%s: %s are left to take, %s.",
            VW__DOCTOR_SIZE(reserved), VW__DOCTOR_SIZE(end),
            judged->is_limit_nearer ? " by its limit" : "",
            VW__DOCTOR_SIZE(vw__doctor_less(end, reserved)),
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
        VW__DOCTOR_KNOWS_ALL(largest, live) && largest >= vw__doctor_less(reserved, live) / 2;
    return vw__doctor_knows(value_of(judged, VW_LIVE_PEAK_LIVE_BYTES)) && !is_in_one_piece &&
           vw__doctor_is_much_idle(reserved, peak_of(judged), true);
}

static void add_fragmentation(const job_case *judged)
{
    vw__text_case given = text_case_of(judged);
    uint64_t largest = value_of(judged, VW_LIVE_LARGEST_FREE_BYTES);
    given.numbers.allocated_bytes = peak_of(judged);
    given.judged.idle_bytes = vw__doctor_less(judged->numbers.reserved_bytes, peak_of(judged));
    vw__text_add_findings(&given, VW_VERDICT_FRAGMENTATION);
    vw__diagnosis_finding *finding = vw__diagnosis_find(judged->draft, "fragmentation");
    if (finding == NULL)
        return;
    vw__diagnosis_evidence(finding, "$peak were live at the most, so far.");
    if (vw__doctor_knows(largest))
        vw__diagnosis_evidence(finding, "The largest request that idle memory could serve is %s.",
                               VW__DOCTOR_SIZE(largest));
}

/* The rule for numbers without its request. */
static bool is_outside_much(const job_case *judged)
{
    return vw__doctor_knows(judged->outside_bytes) &&
           vw__doctor_less(judged->outside_bytes, VW__NUMBERS_CONTEXT_BYTES) >=
               judged->numbers.total_bytes / VW__DOCTOR_MUCH_OUTSIDE &&
           judged->outside_bytes > VW__NUMBERS_CONTEXT_BYTES;
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
    vw__diagnosis_finding *finding =
        failures != 0
            ? vw__diagnosis_add(judged->draft, "near-limit", judged->end_bytes,
                                "Memory has run out %" PRIu64 " time%s, and the job went on.",
                                failures, failures == 1 ? "" : "s")
            : vw__diagnosis_add(
                  judged->draft, "near-limit", judged->end_bytes,
                  "%" PRIu64 " request%s had to wait until the allocator had given its cache back.",
                  retries, retries == 1 ? "" : "s");
    if (failures != 0)
        vw__diagnosis_evidence(
            finding, "The program catches the error: it tries a smaller batch, or skips work.");
    if (retries != 0)
        vw__diagnosis_evidence(
            finding,
            "The allocator gave its cache back %" PRIu64
            " time%s to serve a request: each time it waits for the whole device, "
            "and takes the memory from the driver again.",
            retries, retries == 1 ? "" : "s");
    vw__text_add_smaller_batch(&given, finding);
    vw__text_add_recording(&given, finding);
}

static void add_input_bound(const job_case *judged)
{
    vw__loader_add_waiting(judged->draft, judged->facts->input_share,
                           value_of(judged, VW_LIVE_LOADER_WORKERS),
                           value_of(judged, VW_LIVE_LOADER_PINS));
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* "about 2 h 10 min"; NULL where it is not known. */
static const char *time_for_steps(const job_case *judged, uint64_t steps)
{
    char text[VW_DURATION_TEXT_BYTES];
    uint64_t step_ns = judged->facts->step_ns;
    double seconds = (double)steps * (double)step_ns / 1e9;
    if (!vw__doctor_knows(step_ns) || seconds > 1e9)
        return NULL;
    return vw__diagnosis_text(judged->draft, "about %s",
                              vw_format_duration((uint64_t)seconds, text));
}

static void conclude_leak(const job_case *judged)
{
    const vw_job_outlook *outlook = &judged->facts->outlook;
    vw__diagnosis_finding *finding = vw__diagnosis_find(judged->draft, "leak");
    const char *end = "";
    if (judged->options->card_bytes != 0 || !vw__doctor_knows(outlook->full_at_step) ||
        finding == NULL)
        return; /* the sentence of the steps stands */
    uint64_t steps = outlook->full_at_step - outlook->last_step;
    const char *time = time_for_steps(judged, steps);
    if (time != NULL)
        end = vw__diagnosis_text(judged->draft, ", in %s", time);
    vw__diagnosis_evidence(
        finding,
        "%s are left for it, idle and free together%s: enough for %" PRIu64 " step%s more.",
        VW__DOCTOR_SIZE(outlook->room_bytes), judged->is_limit_nearer ? ", under its limit" : "",
        steps - 1, steps == 2 ? "" : "s");
    vw__diagnosis_conclude(judged->draft, VW_VERDICT_LEAK, outlook->confidence,
                           "%s; memory runs out at about step %" PRIu64 "%s.",
                           judged->growth.clause, outlook->full_at_step, end);
}

static vw_status judge_steps(job_case *judged)
{
    size_t count = judged->device->step_count;
    vw__step_log_point *points = vw__host_alloc_zeroed(count, sizeof *points);
    if (points == NULL)
        return vw__fail_host_memory(count * sizeof *points, "the steps of a job");
    for (size_t i = 0; i < count; i++)
        points[i] = (vw__step_log_point){
            .step = (double)judged->device->steps[i].step,
            .allocated_bytes = judged->device->steps[i].live_bytes,
            .reserved_bytes = VW__MODEL_UNKNOWN_BYTES, /* judged by the peaks instead */
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
    uint64_t others = vw__doctor_knows(judged->outside_bytes) ? judged->outside_bytes : 0;
    return card != 0 && vw__doctor_knows(peak_of(judged))
               ? vw__doctor_less(peak_of(judged), vw__doctor_less(card, others))
               : 0;
}

static void conclude_too_small(const job_case *judged)
{
    const vw__text_case given = text_case_of(judged);
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        judged->draft, "genuine", missing_on_card(judged),
        "%s would be missing on a card of $card.", VW__DOCTOR_SIZE(missing_on_card(judged)));
    vw__diagnosis_evidence(finding, "$peak were live at the most, so far.");
    vw__text_add_diet(&given, finding);
    vw__text_add_recording(&given, finding);
    vw__diagnosis_conclude(judged->draft, VW_VERDICT_GENUINE, VW_CONFIDENCE_HIGH,
                           "Too much for a card of $card: $peak were live at the most so far.");
}

static void conclude_tight(const job_case *judged, vw_verdict verdict)
{
    const vw_memory_numbers *numbers = &judged->numbers;
    uint64_t left = vw__doctor_less(judged->end_bytes, numbers->reserved_bytes);
    const char *room =
        vw__doctor_knows(judged->end_bytes)
            ? vw__diagnosis_text(judged->draft, "%s are left to take", VW__DOCTOR_SIZE(left))
            : "requests have run out already";
    if (verdict == VW_VERDICT_FRAGMENTATION)
        vw__diagnosis_conclude(
            judged->draft, verdict, VW_CONFIDENCE_MEDIUM,
            "Fragmentation ahead: $reserved are reserved, $peak were live at the most, and %s.",
            room);
    else if (verdict == VW_VERDICT_CAPPED)
        vw__diagnosis_conclude(
            judged->draft, verdict, VW_CONFIDENCE_MEDIUM,
            "At its limit: $reserved are reserved of the $allowed that are allowed, and %s.", room);
    else
        vw__diagnosis_conclude(
            judged->draft, verdict, VW_CONFIDENCE_MEDIUM,
            "Others hold $outside of the card's $total, outside this job's allocator, and %s.",
            room);
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
    vw_confidence confidence = judged->facts->outlook.confidence;
    bool is_short = steps < VW__TREND_FEWEST_POINTS;
    const char *seen = judged->draft->sentence, *room = "";
    if (is_short)
        seen = vw__diagnosis_text(
            judged->draft,
            "No problem is visible, with %s live; %zu step%s too few to tell a leak.",
            VW__DOCTOR_SIZE(live), steps, steps == 1 ? " is" : "s are");
    if (VW__DOCTOR_KNOWS_ALL(end, live))
        room = vw__diagnosis_text(judged->draft, " %s are left for it to grow.",
                                  VW__DOCTOR_SIZE(vw__doctor_less(end, live)));
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
    const vw_job *job = judged->facts->job;
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
    introduce(judged);
    if (judged->device == NULL) {
        vw__diagnosis_conclude(judged->draft, VW_VERDICT_UNKNOWN, VW_CONFIDENCE_LOW,
                               "The job has not reported a device yet: it holds no GPU memory, or "
                               "has only just begun.");
        return VW_OK;
    }
    name_other_devices(judged);
    note_numbers(judged);
    vw__diagnosis_name(judged->draft, "peak", peak_of(judged));
    vw__diagnosis_name(judged->draft, "outside", judged->outside_bytes);
    vw__diagnosis_name(judged->draft, "card", judged->options->card_bytes);
    vw__diagnosis_name_numbers(judged->draft, &judged->numbers);
    if (judged->device->step_count == 0 && !vw__doctor_knows(judged->numbers.allocated_bytes) &&
        !vw__doctor_knows(judged->numbers.reserved_bytes)) {
        vw__diagnosis_conclude(judged->draft, VW_VERDICT_UNKNOWN, VW_CONFIDENCE_LOW,
                               "The job has not reported its memory yet.");
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

vw_status vw__doctor_job(const vw__doctor_job_facts *facts, const vw_doctor_options *options,
                         vw_diagnosis **out)
{
    vw_doctor_options used;
    VW__TRY(vw__doctor_read_options(options, &used));
    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_STEPS);
    draft.is_running = true;
    job_case judged = {.facts = facts,
                       .device = facts->device,
                       .options = &used,
                       .draft = &draft,
                       .growth = {.grown_bytes = VW_UNKNOWN, .clause = ""},
                       .blank = {.kind = VW__ERROR_TEXT_TORCH_CUDA}};
    return vw__doctor_settle(judge(&judged), &draft, out);
}
