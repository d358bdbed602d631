/* step_log.c - a verdict from a log of steps and their memory.
 *
 * A step log knows how much, and nothing about what: so there are three answers. Memory grows for
 * as long as the log goes on (a leak, with its pace and the step at which the card is full); it
 * does not (healthy, with what was seen instead); or the log is too short. step_trend.c decides
 * which; here are the words, and what usually is the cause. The line of the program is in a
 * recording only, so the last remedy is how to make one.
 *
 * Where a log also says what is reserved, much more of that than is allocated is a finding of its
 * own. It is no verdict: between two steps little is alive, and what is reserved is what the step
 * needed at its peak. Only against a peak of allocated bytes does it prove fragmentation. */
#include "doctor/doctor.h"

#include <inttypes.h>

#include "doctor/step_trend.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"

#define GIB 1073741824.0

typedef struct steps_case {
    const hr__step_log *log;
    const hr_doctor_options *options; /* or NULL */
    hr__diagnosis_draft *draft;
    hr__trend trend;
    hr__trend reserved; /* TOO_SHORT where it is not logged */
    uint64_t peak_bytes, last_bytes;
    uint64_t last_reserved_bytes; /* HR_UNKNOWN */
} steps_case;

/* ---- words ----------------------------------------------------------------------------------- */

static uint64_t whole_bytes(double bytes)
{
    const double most = 9e18;
    return bytes <= 0 ? 0 : (uint64_t)(bytes < most ? bytes + 0.5 : most);
}

static const char *size_of(steps_case *judged, double bytes)
{
    char text[HR__SIZE_TEXT_BYTES];
    return hr__diagnosis_text(judged->draft, "%s", hr__format_size(whole_bytes(bytes), text));
}

/* A count that may be a fraction: "0.4", "12", "48000". Beyond a million millions: "1e+13". */
static const char *count_of(steps_case *judged, double count)
{
    if (count >= 1e12)
        return hr__diagnosis_text(judged->draft, "%.0e", count);
    return hr__diagnosis_text(judged->draft, "%.*f", count < 10 && count != (double)(int)count,
                              count);
}

/* What the memory is called in the log, for the middle of a sentence. */
static const char *memory_name(steps_case *judged)
{
    if (judged->log->memory_name[0] == '\0')
        return "the memory";
    return hr__diagnosis_text(judged->draft, "\"%s\"", judged->log->memory_name);
}

static const char *per_step(const steps_case *judged)
{
    return judged->log->step_name;
}

/* ---- when the card is full ------------------------------------------------------------------- */

static uint64_t card_bytes(const steps_case *judged)
{
    return judged->options != NULL ? judged->options->card_bytes : 0;
}

/* Steps from the end of the log until the card is full. */
static double steps_left(const steps_case *judged)
{
    double room = (double)card_bytes(judged) - judged->trend.to_bytes;
    return room > 0 ? room / judged->trend.bytes_per_step : 0;
}

static const char *end_of_the_run(steps_case *judged)
{
    const hr__trend *trend = &judged->trend;
    if (card_bytes(judged) == 0)
        return hr__diagnosis_text(judged->draft, "each GiB that is free lasts %s %ss",
                                  count_of(judged, GIB / trend->bytes_per_step), per_step(judged));
    if (steps_left(judged) <= 0)
        return hr__diagnosis_text(judged->draft, "a card of %s is full already",
                                  size_of(judged, (double)card_bytes(judged)));
    if (trend->has_restarts || judged->log->step_name[0] == 'l')
        return hr__diagnosis_text(judged->draft, "a card of %s is full after about %s %ss more",
                                  size_of(judged, (double)card_bytes(judged)),
                                  count_of(judged, steps_left(judged)), per_step(judged));
    return hr__diagnosis_text(judged->draft, "a card of %s is full at about %s %s",
                              size_of(judged, (double)card_bytes(judged)), per_step(judged),
                              count_of(judged, trend->last_step + steps_left(judged)));
}

/* ---- the leak -------------------------------------------------------------------------------- */

static void add_leak_remedies(hr__finding_draft *finding)
{
    hr__finding_remedy(
        finding, "keep numbers of the loss and the metrics, not tensors with their graph",
        HR__SAVES_UNKNOWN, HR_BASIS_RULE, "a line; .item() waits for the GPU, so not every step",
        "running_loss += loss.item()          # not: running_loss += loss\n"
        "history.append(loss.detach().cpu())  # not: history.append(loss)");
    hr__finding_remedy(finding,
                       "look for lists, dicts and attributes that get a tensor per step: outputs, "
                       "features, replay buffers, logs",
                       HR__SAVES_UNKNOWN, HR_BASIS_RULE,
                       "a line each; copying to the host costs time",
                       "outputs.append(out.detach().cpu())\n"
                       "outputs.clear()  # once they are used");
    hr__finding_remedy(finding, "run evaluation and logging without a graph", HR__SAVES_UNKNOWN,
                       HR_BASIS_RULE, "none",
                       "with torch.inference_mode():\n"
                       "    evaluate(model)");
    hr__finding_remedy(finding, "remove hooks that keep what they see, or are registered each step",
                       HR__SAVES_UNKNOWN, HR_BASIS_RULE, "a line",
                       "handle = module.register_forward_hook(hook)\n"
                       "...\n"
                       "handle.remove()");
    hr__finding_remedy(
        finding, "find the line: record a few dozen steps and give the recording to the doctor",
        HR__SAVES_UNKNOWN, HR_BASIS_RULE, "one short run, a few percent slower",
        "torch.cuda.memory._record_memory_history(max_entries=100000)\n"
        "...  # some steps\n"
        "torch.cuda.memory._dump_snapshot(\"run.pickle\")\n"
        "# then: headroom doctor run.pickle");
}

static void add_leak(steps_case *judged)
{
    const hr__trend *trend = &judged->trend;
    const char *pace = size_of(judged, trend->bytes_per_step);
    hr__finding_draft *finding =
        hr__diagnosis_add(judged->draft, "leak", whole_bytes(trend->grown_bytes),
                          "Memory grows by %s per %s and does not stop; %s.", pace,
                          per_step(judged), end_of_the_run(judged));
    hr__finding_evidence(finding, "From %s %s to %s, %s went from %s to %s: %s more.",
                         per_step(judged), count_of(judged, trend->from_step),
                         count_of(judged, trend->to_step), memory_name(judged),
                         size_of(judged, trend->from_bytes), size_of(judged, trend->to_bytes),
                         size_of(judged, trend->grown_bytes));
    hr__finding_evidence(finding, "In the last third of the log it grew by %s per %s.",
                         size_of(judged, trend->last_bytes_per_step), per_step(judged));
    hr__finding_evidence(finding, "About that line the figures scatter by %s.",
                         size_of(judged, trend->noise_bytes));
    if (judged->log->is_peak)
        hr__finding_evidence(finding,
                             "The figure never falls, as a peak that is kept would not; but it "
                             "rises again and again, and the peaks of a load that varies do so "
                             "ever more rarely.");
    add_leak_remedies(finding);
}

static void conclude_leak(steps_case *judged)
{
    const hr__trend *trend = &judged->trend;
    add_leak(judged);
    hr__diagnosis_reason(judged->draft,
                         "Over the later two thirds it grows by %s per %s, %s times the "
                         "uncertainty of that figure, which comes from the scatter.",
                         size_of(judged, trend->bytes_per_step), per_step(judged),
                         trend->strength < 1000 ? count_of(judged, trend->strength)
                                                : "more than 1000");
    hr__diagnosis_reason(judged->draft,
                         "The last third grows at no less than half the pace of the third before "
                         "it, no single jump makes up the growth, and the end is the highest: "
                         "not a cache that fills, not a change of level, not a load that varies.");
    hr__diagnosis_conclude(judged->draft, HR_VERDICT_LEAK, trend->confidence,
                           "A leak: memory grows by %s per %s up to the end of the log, from %s "
                           "to %s; %s.",
                           size_of(judged, trend->bytes_per_step), per_step(judged),
                           size_of(judged, trend->from_bytes), size_of(judged, trend->to_bytes),
                           end_of_the_run(judged));
}

/* ---- no leak --------------------------------------------------------------------------------- */

static const char *what_was_seen(steps_case *judged)
{
    const hr__trend *trend = &judged->trend;
    const char *level = size_of(judged, trend->to_bytes);
    switch (trend->kind) {
    case HR__TREND_FLAT:
        return hr__diagnosis_text(judged->draft, "memory stays at %s", level);
    case HR__TREND_SETTLED:
        return hr__diagnosis_text(judged->draft,
                                  "memory grows at first, and from about %s %s on stays near %s",
                                  per_step(judged), count_of(judged, trend->settled_step), level);
    case HR__TREND_SLOWING:
        return hr__diagnosis_text(judged->draft,
                                  "memory still grows, by %s per %s, but ever more slowly, as a "
                                  "cache does that fills",
                                  size_of(judged, trend->last_bytes_per_step), per_step(judged));
    case HR__TREND_FALLS:
        return hr__diagnosis_text(judged->draft, "memory falls, from %s to %s",
                                  size_of(judged, trend->from_bytes), level);
    case HR__TREND_TOO_SHORT:
    case HR__TREND_VARIES:
    case HR__TREND_GROWS:
        break;
    }
    return hr__diagnosis_text(judged->draft, "memory goes up and down by about %s around %s",
                              size_of(judged, trend->noise_bytes), level);
}

static void conclude_healthy(steps_case *judged)
{
    const hr__trend *trend = &judged->trend;
    hr__diagnosis_reason(judged->draft,
                         "It does not grow from step to step up to the end: a leak grows in the "
                         "last third of the log as in the one before, in more than one jump, and "
                         "by more than the figures scatter (%s).",
                         size_of(judged, trend->noise_bytes));
    if (trend->may_grow)
        hr__diagnosis_reason(judged->draft,
                             "Growth of up to %s per %s could be hidden in the scatter: a longer "
                             "log would tell.",
                             size_of(judged, trend->bytes_per_step), per_step(judged));
    hr__diagnosis_conclude(judged->draft, HR_VERDICT_HEALTHY, trend->confidence, "No leak: %s.",
                           what_was_seen(judged));
}

static void conclude_too_short(steps_case *judged)
{
    hr__diagnosis_reason(judged->draft,
                         "A first step is warm-up, and of the rest two thirds must agree: %d "
                         "steps are the fewest, %d make it certain.",
                         HR__TREND_FEWEST_POINTS, HR__TREND_ENOUGH_POINTS);
    hr__diagnosis_conclude(judged->draft, HR_VERDICT_UNKNOWN, HR_CONFIDENCE_LOW,
                           "Too few steps to tell: %zu, where %d or more would do.",
                           judged->trend.point_count, HR__TREND_ENOUGH_POINTS);
}

/* ---- reserved bytes -------------------------------------------------------------------------- */

/* Much reserved and idle: a quarter of it against a peak, which proves it; half of it between
 * steps, which may be what the steps need. */
static void look_at_reserved(steps_case *judged)
{
    uint64_t reserved = judged->last_reserved_bytes, allocated = judged->last_bytes;
    bool is_peak = judged->log->is_peak;
    if (reserved == HR_UNKNOWN || reserved <= allocated ||
        reserved - allocated < reserved / (is_peak ? 4 : 2))
        return;
    uint64_t idle = reserved - allocated;
    hr__finding_draft *finding = hr__diagnosis_add(
        judged->draft, "fragmentation", idle, "%s are reserved, and %s of them idle %s.",
        size_of(judged, (double)reserved), size_of(judged, (double)idle),
        is_peak ? "even at the peak" : "between steps");
    hr__finding_evidence(finding, "At the end of the log %s are allocated%s and %s reserved.",
                         size_of(judged, (double)allocated), is_peak ? " at most" : "",
                         size_of(judged, (double)reserved));
    if (!is_peak)
        hr__finding_evidence(finding, "The peak within a step may need them: log "
                                      "torch.cuda.max_memory_allocated() to see.");
    if (judged->reserved.kind == HR__TREND_GROWS && judged->trend.kind != HR__TREND_GROWS)
        hr__finding_evidence(finding,
                             "What is reserved grows by %s per %s while what is allocated does "
                             "not: memory is being broken into pieces.",
                             size_of(judged, judged->reserved.bytes_per_step), per_step(judged));
    hr__finding_remedy(finding, "set expandable_segments:True", HR__SAVES_UNKNOWN, HR_BASIS_RULE,
                       "none to speak of",
                       "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
}

/* ---- the case -------------------------------------------------------------------------------- */

/* The trend of one column; that of reserved bytes only where every point has it. */
static hr_status find_trend(const hr__step_log *log, bool is_reserved, hr__trend *out)
{
    double *steps = hr__host_alloc_zeroed(log->point_count, sizeof *steps);
    double *bytes = hr__host_alloc_zeroed(log->point_count, sizeof *bytes);
    size_t count = 0;
    hr_status status = HR_OK;
    if (steps == NULL || bytes == NULL) {
        status = hr__fail_host_memory(log->point_count * sizeof *bytes, "the points of a step log");
        goto done;
    }
    for (; count < log->point_count; count++) {
        const hr__step_point *point = &log->points[count];
        uint64_t value = is_reserved ? point->reserved_bytes : point->allocated_bytes;
        if (value == HR__UNKNOWN_BYTES)
            break;
        steps[count] = point->step;
        bytes[count] = (double)value;
    }
    if (is_reserved && count < log->point_count)
        count = 0;
    status = hr__step_trend_find(steps, bytes, count, is_reserved || log->is_peak, out);
done:
    hr__host_free(bytes);
    hr__host_free(steps);
    return status;
}

static void note_numbers(steps_case *judged)
{
    const hr__step_log *log = judged->log;
    hr_memory_numbers *numbers = &judged->draft->numbers;
    judged->last_reserved_bytes = HR_UNKNOWN;
    for (size_t i = 0; i < log->point_count; i++) {
        const hr__step_point *point = &log->points[i];
        uint64_t reserved =
            point->reserved_bytes != HR__UNKNOWN_BYTES ? point->reserved_bytes : HR_UNKNOWN;
        if (i == 0 || point->allocated_bytes > judged->peak_bytes) {
            judged->peak_bytes = point->allocated_bytes;
            numbers->reserved_bytes = reserved;
        }
        judged->last_bytes = point->allocated_bytes;
        judged->last_reserved_bytes = reserved;
    }
    if (log->point_count != 0)
        numbers->allocated_bytes = judged->peak_bytes;
    if (card_bytes(judged) != 0)
        numbers->total_bytes = card_bytes(judged);
}

static void note_what_was_read(steps_case *judged)
{
    const hr__step_log *log = judged->log;
    if (log->point_count == 0)
        return;
    hr__diagnosis_reason(judged->draft,
                         "A step log (%s): %" PRIu64 " lines with %s, from %s %s to %s.", log->form,
                         log->found_count, memory_name(judged), per_step(judged),
                         count_of(judged, log->points[0].step),
                         count_of(judged, log->points[log->point_count - 1].step));
    if (judged->trend.has_restarts)
        hr__diagnosis_reason(judged->draft, "The numbers of the steps begin again: they were "
                                            "counted on.");
}

hr_status hr__doctor_steps(const hr__step_log *log, const hr_doctor_options *options,
                           hr__diagnosis_draft *draft)
{
    steps_case judged = {.log = log, .options = options, .draft = draft};
    HR__TRY(find_trend(log, false, &judged.trend));
    HR__TRY(find_trend(log, true, &judged.reserved));
    note_numbers(&judged);
    note_what_was_read(&judged);
    if (judged.trend.kind == HR__TREND_TOO_SHORT)
        conclude_too_short(&judged);
    else if (judged.trend.kind == HR__TREND_GROWS)
        conclude_leak(&judged);
    else
        conclude_healthy(&judged);
    look_at_reserved(&judged);
    return HR_OK;
}
