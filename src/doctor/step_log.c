/* step_log.c - a verdict from a log of steps and their memory.
 *
 * A step log knows how much, and nothing about what: so there are three answers. Memory grows for
 * as long as the log goes on (a leak, with its pace and the step at which the card is full); it
 * does not (healthy, with what was seen instead); or the log is too short. trend/trend.c decides
 * which; here are the words, and what usually is the cause. The line of the program is in a
 * recording only, so the last remedy is how to make one.
 *
 * One text may hold several runs, ranks and devices, and the memory of the host besides that of the
 * card. The last run is judged, and the rank that grows most; the host's memory is judged by
 * itself. A log may say what is free instead of what is used, or percentages of a card whose
 * size nobody knows: then levels are words of their own, and the end of the card is known without
 * its size.
 *
 * Where a log also says what is reserved, much more of that than is allocated is a finding of its
 * own. It is no verdict: between two steps little is alive, and what is reserved is what the step
 * needed at its peak. Only against a peak of allocated bytes does it prove fragmentation. */
#include "doctor/doctor.h"
#include "doctor/loader.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "trend/trend.h"

#define GIB 1073741824.0

typedef struct steps_case {
    const vw__step_log *log;
    const vw_doctor_options *options; /* or NULL */
    vw__diagnosis_draft *draft;
    size_t first, end; /* points of the run that is judged */
    size_t run_count;  /* in the log */
    size_t rank_count; /* or devices, this one included */
    double most_free;  /* is_free: of all points */
    vw__trend trend;
    vw__trend reserved; /* TOO_SHORT where it is not logged */
    uint64_t peak_bytes, last_bytes;
    uint64_t last_reserved_bytes; /* VW_UNKNOWN */
    vw__doctor_growth *growth;    /* to be filled; or NULL */
} steps_case;

/* ---- words ----------------------------------------------------------------------------------- */

static uint64_t whole_bytes(double bytes)
{
    const double most = 9e18;
    return bytes <= 0 ? 0 : (uint64_t)(bytes < most ? bytes + 0.5 : most);
}

static bool is_percent(const steps_case *judged)
{
    return judged->log->is_share && (judged->options == NULL || judged->options->card_bytes == 0);
}

static const char *size_of(steps_case *judged, double bytes)
{
    if (is_percent(judged))
        return vw__diagnosis_text(judged->draft, "%.*f %%",
                                  bytes < VW__STEP_LOG_SHARE_OF_ALL / 100 ? 3 : 1,
                                  100 * bytes / VW__STEP_LOG_SHARE_OF_ALL);
    return vw__diagnosis_size(judged->draft, whole_bytes(bytes));
}

/* A count that may be a fraction: "0.4", "12", "48000". Beyond a million millions: "1e+13". */
static const char *count_of(steps_case *judged, double count)
{
    if (count >= 1e12)
        return vw__diagnosis_text(judged->draft, "%.0e", count);
    return vw__diagnosis_text(judged->draft, "%.*f", count < 10 && count != (double)(int)count,
                              count);
}

/* A level of what is used, as the log says it. */
static const char *level_of(steps_case *judged, double bytes)
{
    return size_of(judged, judged->log->is_free ? judged->most_free - bytes : bytes);
}

/* Lets sentences name what this case came to. */
static void name_words(steps_case *judged)
{
    const vw__step_log *log = judged->log;
    const vw__trend *trend = &judged->trend;
    vw__diagnosis_draft *draft = judged->draft;
    const struct {
        const char *name, *text;
    } words[] = {
        {"step", log->step_name},
        {"steps", vw__diagnosis_text(draft, "%ss", log->step_name)},
        {"subject", log->is_host   ? "host memory"
                    : log->is_free ? "free memory"
                                   : "memory"},
        {"grows", log->is_free   ? "free memory falls"
                  : log->is_host ? "host memory grows"
                                 : "memory grows"},
        {"memory", log->memory_name[0] != '\0'
                       ? vw__diagnosis_text(draft, "\"%s\"", log->memory_name)
                       : "the memory"},
        {"pace", size_of(judged, trend->bytes_per_step)},
        {"last_pace", size_of(judged, trend->last_bytes_per_step)},
        {"noise", size_of(judged, trend->noise_bytes)},
        {"level", level_of(judged, trend->level_bytes)},
        {"from", level_of(judged, trend->from_bytes)},
        {"from_step", count_of(judged, trend->from_step)},
        {"to", level_of(judged, trend->to_bytes)},
        {"to_step", count_of(judged, trend->to_step)},
        {"settled_step", count_of(judged, trend->settled_step)},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        vw__diagnosis_name_text(draft, words[i].name, words[i].text);
}

/* Two levels with their moments, as logged: "from 4.60 GiB at step 12 to 9.97 GiB at step 120". */
#define FROM_TO "from $from at $step $from_step to $to at $step $to_step"

/* ---- when the card is full ------------------------------------------------------------------- */

static uint64_t card_bytes(const steps_case *judged)
{
    return judged->options != NULL ? judged->options->card_bytes : 0;
}

/* Where it ends, in the units of the trend; 0 = not known. */
static double end_level(const steps_case *judged)
{
    if (judged->log->is_host)
        return 0;
    if (is_percent(judged))
        return VW__STEP_LOG_SHARE_OF_ALL;
    return judged->log->is_free ? judged->most_free : (double)card_bytes(judged);
}

/* Steps from the end of the log until the card is full. */
static double steps_left(const steps_case *judged)
{
    double room = end_level(judged) - judged->trend.from_bytes - judged->trend.grown_bytes;
    return room > 0 ? room / judged->trend.bytes_per_step : 0;
}

static const char *end_of_the_run(steps_case *judged)
{
    vw__diagnosis_draft *draft = judged->draft;
    const vw__trend *trend = &judged->trend;
    if (end_level(judged) <= 0)
        return vw__diagnosis_text(draft, "each GiB that is free lasts %s $steps",
                                  count_of(judged, GIB / trend->bytes_per_step));
    const char *card =
        is_percent(judged) || judged->log->is_free
            ? "the card"
            : vw__diagnosis_text(draft, "a card of %s", size_of(judged, end_level(judged)));
    if (steps_left(judged) <= 0)
        return vw__diagnosis_text(draft, "%s is full already", card);
    if (trend->has_restarts || judged->log->step_name[0] == 'l')
        return vw__diagnosis_text(draft, "%s is full after about %s $steps more", card,
                                  count_of(judged, steps_left(judged)));
    return vw__diagnosis_text(draft, "%s is full at about $step %s", card,
                              count_of(judged, trend->to_step + steps_left(judged)));
}

/* ---- the leak -------------------------------------------------------------------------------- */

static const vw__doctor_advice for_leaks[] = {
    {"keep numbers of the loss and the metrics, not tensors with their graph",
     "a line; .item() waits for the GPU, so not every step",
     "running_loss += loss.item()          # not: running_loss += loss\n"
     "history.append(loss.detach().cpu())  # not: history.append(loss)"},
    {"look for lists, dicts and attributes that get a tensor per step: outputs, features, replay "
     "buffers, logs",
     "a line each; copying to the host costs time",
     "outputs.append(out.detach().cpu())\n"
     "outputs.clear()  # once they are used"},
    {"run evaluation and logging without a graph", NULL,
     "with torch.inference_mode():\n"
     "    evaluate(model)"},
    {"remove hooks that keep what they see, or are registered each step", "a line",
     "handle = module.register_forward_hook(hook)\n"
     "...\n"
     "handle.remove()"},
    {"find the line: record a few dozen steps and give the recording to the doctor",
     "one short run, a few percent slower",
     "vramwise run --record run.pickle -- python train.py\n"
     "vramwise doctor run.pickle"},
};

static const vw__doctor_advice for_host_leaks[] = {
    {"look for what is kept on the host per step: outputs and losses in lists, logs, caches of the "
     "dataset",
     "a line each",
     "history.append(loss.item())  # not: history.append(loss)\n"
     "outputs.clear()  # once they are used"},
    {"keep samples in arrays, not in lists of Python objects: workers copy every page of those "
     "that they look at",
     "some lines of the dataset", "self.samples = numpy.array(samples)  # not: list(samples)"},
    {"find the line: compare what Python holds some steps apart", "one short run, slower",
     "import tracemalloc; tracemalloc.start()\n"
     "...  # some steps\n"
     "print(tracemalloc.take_snapshot().statistics(\"lineno\")[:10])"},
};

static const char *capital(steps_case *judged, const char *words)
{
    return vw__diagnosis_text(judged->draft, "%c%s", words[0] - 'a' + 'A', words + 1);
}

static uint64_t grown_bytes(const steps_case *judged)
{
    return is_percent(judged) ? VW_UNKNOWN : whole_bytes(judged->trend.grown_bytes);
}

static void add_leak(steps_case *judged)
{
    name_words(judged);
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        judged->draft, "leak", grown_bytes(judged), "%s by $pace per $step and does not stop; %s.",
        capital(judged, vw__diagnosis_fill(judged->draft, "$grows")), end_of_the_run(judged));
    vw__diagnosis_evidence(finding, "In the log $memory went " FROM_TO ".");
    vw__diagnosis_evidence(finding,
                           "In the last third of these $steps $grows by $last_pace per $step.");
    vw__diagnosis_evidence(finding, "The figures scatter around that line by $noise.");
    if (judged->log->is_peak)
        vw__diagnosis_evidence(
            finding, "The figure never falls, as a peak that is kept would not; but it rises again "
                     "and again, and the peaks of a load that varies do so ever more rarely.");
    if (judged->log->is_host) {
        VW__DOCTOR_ADVISE(finding, for_host_leaks);
        vw__loader_advise_growth(finding);
    } else {
        VW__DOCTOR_ADVISE(finding, for_leaks);
    }
}

/* " in the last of 3 runs", " on rank 2 of 4"; "" where there is one. */
static const char *which_of_several(steps_case *judged)
{
    const char *run = "", *rank = "";
    if (judged->run_count > 1)
        run = vw__diagnosis_text(judged->draft, " in the last of %zu runs", judged->run_count);
    if (judged->rank_count > 1)
        rank = vw__diagnosis_text(judged->draft, " on rank %d, of %zu ranks", judged->log->rank,
                                  judged->rank_count);
    return vw__diagnosis_text(judged->draft, "%s%s", run, rank);
}

static void conclude_leak(steps_case *judged)
{
    const vw__trend *trend = &judged->trend;
    add_leak(judged);
    const char *clause = vw__diagnosis_text(
        judged->draft, "A leak%s: $grows by $pace per $step up to %s, " FROM_TO,
        which_of_several(judged), judged->draft->is_running ? "now" : "the end of the log");
    if (judged->growth != NULL)
        *judged->growth = (vw__doctor_growth){
            .is_leak = true,
            .is_host = judged->log->is_host,
            .grown_bytes = grown_bytes(judged),
            .clause = clause,
        };
    if (trend->first_point != 0)
        vw__diagnosis_reason(judged->draft, "The growth begins late: the $steps before $from_step "
                                            "are left out, and the rest is judged by itself.");
    vw__diagnosis_reason(judged->draft,
                         "Over the later two thirds $grows by $pace per $step, %s times the "
                         "uncertainty of that figure, which comes from the scatter.",
                         trend->strength < 1000 ? count_of(judged, trend->strength)
                                                : "more than 1000");
    vw__diagnosis_reason(judged->draft,
                         "The last third grows at no less than half the pace of the third before "
                         "it, no single jump makes up the growth, and the end is the highest: not "
                         "a cache that fills, not a change of level, not a load that varies.");
    vw__diagnosis_conclude(judged->draft, VW_VERDICT_LEAK, trend->confidence, "%s; %s.", clause,
                           end_of_the_run(judged));
}

/* ---- no leak --------------------------------------------------------------------------------- */

static const char *what_was_seen(steps_case *judged)
{
    static const char *const sentences[][2] = {
        /* by what is used, and by what is free */
        [VW__TREND_FLAT] = {"$subject stays at $level", NULL},
        [VW__TREND_SETTLED] =
            {"$grows at first, and from about $step $settled_step on stays near $level", NULL},
        [VW__TREND_SLOWING] = {"$subject still grows, by $last_pace per $step, but ever more "
                               "slowly, as a cache does that fills",
                               "$subject still falls, by $last_pace per $step, but ever more "
                               "slowly, as a cache does that fills"},
        [VW__TREND_FALLS] = {"$subject falls, " FROM_TO, "$subject grows, " FROM_TO},
        [VW__TREND_GROWS] = {"$grows by $pace per $step", NULL},
        [VW__TREND_TOO_SHORT] = {"$subject is at $level", NULL},
        [VW__TREND_VARIES] = {"$subject goes up and down by about $noise around $level", NULL},
    };
    const char *const *sentence = sentences[judged->trend.kind];
    name_words(judged);
    return vw__diagnosis_fill(
        judged->draft, judged->log->is_free && sentence[1] != NULL ? sentence[1] : sentence[0]);
}

static void conclude_healthy(steps_case *judged)
{
    const char *seen = what_was_seen(judged);
    vw__diagnosis_reason(judged->draft,
                         "It does not grow from step to step up to the end: a leak grows in the "
                         "last third of the log as in the one before, in more than one jump, and "
                         "by more than the figures scatter ($noise).");
    if (judged->trend.may_grow)
        vw__diagnosis_reason(judged->draft, "Growth of up to $pace per $step could be hidden in "
                                            "the scatter: a longer log would tell.");
    vw__diagnosis_conclude(judged->draft, VW_VERDICT_HEALTHY, judged->trend.confidence,
                           "No leak: %s.", seen);
}

static void conclude_too_short(steps_case *judged)
{
    vw__diagnosis_reason(judged->draft,
                         "A first step is warm-up, and of the rest two thirds must agree: %d steps "
                         "are the fewest, %d make it certain.",
                         VW__TREND_FEWEST_POINTS, VW__TREND_ENOUGH_POINTS);
    vw__diagnosis_conclude(judged->draft, VW_VERDICT_UNKNOWN, VW_CONFIDENCE_LOW,
                           "A step log, too few steps to tell: %zu, where %d or more would do.",
                           judged->trend.point_count, VW__TREND_ENOUGH_POINTS);
}

/* ---- reserved bytes -------------------------------------------------------------------------- */

bool vw__doctor_is_much_idle(uint64_t reserved_bytes, uint64_t allocated_bytes, bool is_peak)
{
    return reserved_bytes != VW_UNKNOWN && allocated_bytes < reserved_bytes &&
           reserved_bytes - allocated_bytes >= reserved_bytes / (is_peak ? 4 : 2);
}

static void look_at_reserved(steps_case *judged)
{
    uint64_t reserved = judged->last_reserved_bytes, allocated = judged->last_bytes;
    bool is_peak = judged->log->is_peak;
    if (!vw__doctor_is_much_idle(reserved, allocated, is_peak))
        return;
    uint64_t idle = reserved - allocated;
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        judged->draft, "fragmentation", idle, "%s are reserved, and %s of them idle %s.",
        size_of(judged, (double)reserved), size_of(judged, (double)idle),
        is_peak ? "even at the peak" : "between steps");
    vw__diagnosis_evidence(finding, "At the end of the log %s are allocated%s and %s reserved.",
                           size_of(judged, (double)allocated), is_peak ? " at most" : "",
                           size_of(judged, (double)reserved));
    if (!is_peak)
        vw__diagnosis_evidence(
            finding,
            "The peak within a step may need them: log torch.cuda.max_memory_allocated() to see.");
    if (judged->reserved.kind == VW__TREND_GROWS && judged->trend.kind != VW__TREND_GROWS)
        vw__diagnosis_evidence(finding,
                               "What is reserved grows by %s per %s while what is allocated does "
                               "not: memory is being broken into pieces.",
                               size_of(judged, judged->reserved.bytes_per_step),
                               judged->log->step_name);
    vw__diagnosis_known_remedy(finding, VW__REMEDY_EXPANDABLE_SEGMENTS, NULL,
                               VW__DIAGNOSIS_SAVES_UNKNOWN, VW_BASIS_RULE);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* What is used at a point, in the units of the trend. */
static double used_at(const steps_case *judged, size_t at)
{
    double value = (double)judged->log->points[at].allocated_bytes;
    if (judged->log->is_free)
        return judged->most_free - value;
    if (judged->log->is_share && !is_percent(judged))
        return value / VW__STEP_LOG_SHARE_OF_ALL * (double)card_bytes(judged);
    return value;
}

/* The level of a few points from `at` on: their middle one of three, or the only one. */
static double level_near(const steps_case *judged, size_t at, size_t end)
{
    double one = used_at(judged, at);
    if (end - at < 3)
        return one;
    double other = used_at(judged, at + 1), third = used_at(judged, at + 2);
    double low = one < other ? one : other, high = one < other ? other : one;
    return third < low ? low : third > high ? high : third;
}

/* `wander`: the sum of all changes from `begin` on. Between [begin, at) and [at, ...): do the steps
 * fall back to where they began, and does the memory, which had grown by more than it goes up and
 * down? An epoch begins its steps again, too, but keeps its memory. */
static bool is_new_run(const steps_case *judged, size_t begin, size_t at, double wander)
{
    const vw__step_log_point *points = judged->log->points;
    double first = points[begin].step, last = points[at - 1].step;
    if (!(points[at].step < last) || points[at].step > first + (last - first) / 10 ||
        at - begin < VW__TREND_FEWEST_POINTS)
        return false;
    double usual = wander / (double)(at - begin - 1);
    double from = level_near(judged, begin, at), to = level_near(judged, at - 3, at);
    double again = level_near(judged, at, judged->log->point_count);
    return to - from > 2 * usual && again < to - (to - from) / 2;
}

/* The last run, or the one before where that has hardly begun. */
static void find_run(steps_case *judged)
{
    size_t begin = 0, before = 0, count = judged->log->point_count;
    double wander = 0;
    judged->run_count = 1;
    for (size_t i = 1; i < count; i++) {
        double change = used_at(judged, i) - used_at(judged, i - 1);
        if (!is_new_run(judged, begin, i, wander)) {
            wander += change < 0 ? -change : change;
            continue;
        }
        before = begin;
        begin = i;
        wander = 0;
        judged->run_count++;
    }
    bool has_hardly_begun = begin != 0 && count - begin < VW__TREND_FEWEST_POINTS;
    judged->first = has_hardly_begun ? before : begin;
    judged->end = has_hardly_begun ? begin : count;
}

/* ---- the case -------------------------------------------------------------------------------- */

/* The trend of one column; that of reserved bytes only where every point has it. */
static vw_status find_trend(const steps_case *judged, bool is_reserved, vw__trend *out)
{
    const vw__step_log *log = judged->log;
    size_t most = judged->end - judged->first, count = 0;
    double *steps = vw__host_alloc_zeroed(most, sizeof *steps);
    double *bytes = vw__host_alloc_zeroed(most, sizeof *bytes);
    vw_status status = VW_OK;
    if (steps == NULL || bytes == NULL) {
        status = vw__fail_host_memory(most * sizeof *bytes, "the points of a step log");
        goto done;
    }
    for (; count < most; count++) {
        const vw__step_log_point *point = &log->points[judged->first + count];
        if (is_reserved && point->reserved_bytes == VW__MODEL_UNKNOWN_BYTES)
            break;
        steps[count] = point->step;
        bytes[count] =
            is_reserved ? (double)point->reserved_bytes : used_at(judged, judged->first + count);
    }
    if (is_reserved && count < most)
        count = 0;
    const vw__trend_series series = {steps, bytes, count, is_reserved || log->is_peak};
    status = vw__trend_find(&series, VW__TREND_PLAIN, out);
done:
    vw__host_free(bytes);
    vw__host_free(steps);
    return status;
}

/* For reports, which show the growth of the card's memory only. */
static void note_growth(const steps_case *judged)
{
    const vw__trend *trend = &judged->trend;
    bool is_known =
        trend->kind != VW__TREND_TOO_SHORT && !judged->log->is_host && !is_percent(judged);
    judged->draft->growth = (vw__diagnosis_found_growth){
        .is_known = is_known,
        .bytes_per_step = is_known && trend->kind == VW__TREND_GROWS ? trend->bytes_per_step : 0,
    };
}

static void note_numbers(steps_case *judged)
{
    const vw__step_log *log = judged->log;
    vw_memory_numbers *numbers = &judged->draft->numbers;
    judged->last_reserved_bytes = VW_UNKNOWN;
    if (card_bytes(judged) != 0)
        numbers->total_bytes = card_bytes(judged);
    if (log->point_count == 0 || log->is_host || log->is_free || is_percent(judged))
        return;
    for (size_t i = 0; i < log->point_count; i++) {
        uint64_t reserved = log->points[i].reserved_bytes != VW__MODEL_UNKNOWN_BYTES
                                ? log->points[i].reserved_bytes
                                : VW_UNKNOWN;
        judged->last_bytes = whole_bytes(used_at(judged, i));
        judged->last_reserved_bytes = reserved;
        if (i == 0 || judged->last_bytes > judged->peak_bytes) {
            judged->peak_bytes = judged->last_bytes;
            numbers->reserved_bytes = reserved;
        }
    }
    numbers->allocated_bytes = judged->peak_bytes;
}

static void note_what_was_read(steps_case *judged)
{
    const vw__step_log *log = judged->log;
    if (log->point_count == 0)
        return;
    name_words(judged);
    if (judged->draft->is_running)
        vw__diagnosis_reason(judged->draft, "%zu of its steps are kept, from %s to %s.",
                             log->point_count, count_of(judged, log->points[0].step),
                             count_of(judged, log->points[log->point_count - 1].step));
    else
        vw__diagnosis_reason(
            judged->draft, "A step log (%s): %" PRIu64 " lines with %s, from %s %s to %s.",
            log->form, log->found_count, vw__diagnosis_fill(judged->draft, "$memory"),
            judged->log->step_name, count_of(judged, log->points[0].step),
            count_of(judged, log->points[log->point_count - 1].step));
    if (judged->rank_count > 1)
        vw__diagnosis_reason(judged->draft,
                             "There are %zu ranks or devices; %s rank %d is looked at here.",
                             judged->rank_count,
                             judged->trend.kind == VW__TREND_GROWS ? "the one that grows most,"
                                                                   : "none of them grows:",
                             log->rank);
    if (judged->run_count > 1)
        vw__diagnosis_reason(judged->draft,
                             "There are %zu runs: the steps begin again, and the memory with them. "
                             "The last one%s is judged.",
                             judged->run_count,
                             judged->end < log->point_count ? " that is long enough" : "");
    if (judged->trend.has_restarts)
        vw__diagnosis_reason(judged->draft,
                             "The step numbers begin again; they are counted on from there.");
    if (is_percent(judged))
        vw__diagnosis_reason(
            judged->draft,
            "The log has percentages of the card; with --card and its size there would be bytes.");
}

static vw_status judge(steps_case *judged, const vw__step_log *log)
{
    judged->log = log;
    for (size_t i = 0; i < log->point_count && log->is_free; i++)
        if ((double)log->points[i].allocated_bytes > judged->most_free)
            judged->most_free = (double)log->points[i].allocated_bytes;
    find_run(judged);
    VW__TRY(find_trend(judged, false, &judged->trend));
    return find_trend(judged, true, &judged->reserved);
}

/* True if `one` is worse than `other`. They may differ in length. */
static bool is_worse(const steps_case *one, const steps_case *other)
{
    bool grows = one->trend.kind == VW__TREND_GROWS;
    if (grows != (other->trend.kind == VW__TREND_GROWS))
        return grows;
    return grows && one->trend.bytes_per_step > other->trend.bytes_per_step;
}

/* The worst of the ranks in `*worst`, and of the host's memory in `*host`, whose log is NULL if
 * the text has none. */
static vw_status judge_all(const vw__step_log *log, steps_case *worst, steps_case *host)
{
    const steps_case empty = *worst;
    size_t rank_count = 1;
    VW__TRY(judge(worst, log));
    for (size_t i = 0; i < log->other_count; i++) {
        bool is_apart = log->others[i].is_host != log->is_host;
        steps_case *rival = is_apart ? host : worst;
        steps_case other = empty;
        VW__TRY(judge(&other, &log->others[i]));
        rank_count += !is_apart;
        if (rival->log == NULL || is_worse(&other, rival))
            *rival = other;
    }
    worst->rank_count = rank_count;
    return VW_OK;
}

static void conclude(steps_case *judged)
{
    if (judged->trend.kind == VW__TREND_TOO_SHORT)
        conclude_too_short(judged);
    else if (judged->trend.kind == VW__TREND_GROWS)
        conclude_leak(judged);
    else
        conclude_healthy(judged);
}

vw_status vw__doctor_steps(const vw__step_log *log, const vw_doctor_options *options,
                           vw__diagnosis_draft *draft, vw__doctor_growth *growth)
{
    steps_case judged = {.options = options, .draft = draft, .growth = growth}, host = judged;
    if (growth != NULL)
        *growth = (vw__doctor_growth){.grown_bytes = VW_UNKNOWN, .clause = ""};
    VW__TRY(judge_all(log, &judged, &host));
    bool does_host_grow = host.log != NULL && host.trend.kind == VW__TREND_GROWS;
    note_growth(&judged);
    note_numbers(&judged);
    note_what_was_read(&judged);
    if (host.log != NULL)
        vw__diagnosis_reason(draft, "The log has the host's memory, too: %s.",
                             what_was_seen(&host));
    if (does_host_grow && judged.trend.kind != VW__TREND_GROWS) {
        vw__diagnosis_reason(draft, "The card's does not grow: %s.", what_was_seen(&judged));
        conclude_leak(&host);
    } else {
        conclude(&judged);
        if (does_host_grow)
            add_leak(&host);
    }
    look_at_reserved(&judged);
    return VW_OK;
}
