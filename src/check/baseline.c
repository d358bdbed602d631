/* baseline.c - measures a recording: five figures, and the same by function of the program.
 *
 * A guard is of use only if it is silent while nothing changed. So each figure is one that the same
 * program gives again:
 *
 *   peak         Live bytes by the program's own requests, until it frees them. The wait for other
 *                streams after that (free_completed) depends on the clock and does not count. Each
 *                stream has a peak of its own, and these are added up: threads with streams of
 * their own run in another order each time, and the peak of all streams together moves with that by
 * more than the growth that a guard is to find. With one stream it is the peak that other commands
 * show. reserved     Replayed on a card without end, under one setting: what the recording's own
 *   card         allocator did depends on the card, its settings and the addresses it got.
 *   allocations  Counted.
 *   leak         The doctor's rule, which tells growth from noise.
 *
 * Sites are named by analysis/site_key.h, so that lines that moved are the same site. */
#include "vramwise/check.h"

#include <math.h>
#include <stdlib.h> /* qsort */
#include <string.h>

#include "analysis/attribution.h"
#include "analysis/policies.h"
#include "analysis/recording.h"
#include "analysis/replay.h"
#include "analysis/result.h"
#include "analysis/site_key.h"
#include "analysis/timeline.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/string_table.h"
#include "base/struct_size.h"
#include "check/check_parts.h"
#include "doctor/diagnosis.h"

#define USUAL_POLICY VW__POLICY_NATIVE
#define USUAL_TORCH "2.11"
#define NO_LIFETIME UINT32_MAX
#define NO_SITE UINT32_MAX
#define REPLAY_SHARE 0.8 /* of the time, as progress shows it; the rest is the doctor's */

/* What a stack comes to. */
typedef struct stack_place {
    uint32_t site; /* NO_SITE: no block of it was seen yet */
    uint32_t line;
    uint64_t peak_bytes; /* live at the peak */
} stack_place;

typedef struct measuring {
    const vw_recording *recording;
    const vw__model *model;
    const vw_baseline_options *options;
    vw_baseline *out;
    vw__arena *arena; /* out's */
    vw__timeline timeline;
    vw__attribution attribution;
    uint32_t *peak_instants; /* owned; by stream */

    vw__string_table names;  /* in the arena; by site */
    stack_place *stacks;     /* owned; one more than the model's: no stack was captured */
    vw_baseline_site *sites; /* the arena's; room for as many */
} measuring;

/* ---- live bytes ------------------------------------------------------------------------------ */

/* The instant at which the program let go of it. */
static uint32_t end_of(const vw__lifetime *lifetime)
{
    return lifetime->freed < lifetime->end ? lifetime->freed : lifetime->end;
}

/* Lifetimes that begin and end at each instant. Owned. */
typedef struct live_changes {
    uint32_t *births, *deaths;           /* by instant: the first of a chain, or NO_LIFETIME */
    uint32_t *next_births, *next_deaths; /* by lifetime */
    uint64_t *live_bytes, *peak_bytes;   /* by stream */
} live_changes;

static void free_changes(live_changes *changes)
{
    vw__host_free(changes->births);
    vw__host_free(changes->deaths);
    vw__host_free(changes->next_births);
    vw__host_free(changes->next_deaths);
    vw__host_free(changes->live_bytes);
    vw__host_free(changes->peak_bytes);
}

static vw_status alloc_changes(live_changes *changes, const vw__timeline *timeline)
{
    size_t instants = timeline->trace->event_count + 1, lifetimes = timeline->lifetime_count + 1;
    size_t streams = timeline->model->stream_count + 1;
    *changes = (live_changes){
        .births = vw__host_alloc(instants * sizeof(uint32_t)),
        .deaths = vw__host_alloc(instants * sizeof(uint32_t)),
        .next_births = vw__host_alloc(lifetimes * sizeof(uint32_t)),
        .next_deaths = vw__host_alloc(lifetimes * sizeof(uint32_t)),
        .live_bytes = vw__host_alloc_zeroed(streams, sizeof(uint64_t)),
        .peak_bytes = vw__host_alloc_zeroed(streams, sizeof(uint64_t)),
    };
    if (changes->births == NULL || changes->deaths == NULL || changes->next_births == NULL ||
        changes->next_deaths == NULL || changes->live_bytes == NULL ||
        changes->peak_bytes == NULL) {
        free_changes(changes);
        return vw__fail_host_memory(2 * (instants + lifetimes) * sizeof(uint32_t),
                                    "live bytes by stream");
    }
    for (size_t i = 0; i < instants; i++)
        changes->births[i] = changes->deaths[i] = NO_LIFETIME;
    return VW_OK;
}

static void chain_lifetimes(live_changes *changes, const vw__timeline *timeline)
{
    for (size_t i = 0; i < timeline->lifetime_count; i++) {
        const vw__lifetime *lifetime = &timeline->lifetimes[i];
        uint32_t begin = lifetime->begin, end = end_of(lifetime);
        changes->next_births[i] = changes->births[begin];
        changes->births[begin] = (uint32_t)i;
        if (end == VW__LIFETIME_TO_THE_END)
            continue;
        changes->next_deaths[i] = changes->deaths[end];
        changes->deaths[end] = (uint32_t)i;
    }
}

/* Follows the live bytes of each stream to its first peak. */
static void walk_instants(const measuring *work, live_changes *changes)
{
    const vw__timeline *timeline = &work->timeline;
    for (size_t instant = 0; instant <= timeline->trace->event_count; instant++) {
        for (uint32_t i = changes->deaths[instant]; i != NO_LIFETIME; i = changes->next_deaths[i]) {
            const vw__lifetime *lifetime = &timeline->lifetimes[i];
            changes->live_bytes[vw__lifetime_stream(timeline, lifetime)] -= lifetime->size_bytes;
        }
        for (uint32_t i = changes->births[instant]; i != NO_LIFETIME; i = changes->next_births[i]) {
            const vw__lifetime *lifetime = &timeline->lifetimes[i];
            uint16_t stream = vw__lifetime_stream(timeline, lifetime);
            changes->live_bytes[stream] += lifetime->size_bytes;
            if (changes->live_bytes[stream] > changes->peak_bytes[stream]) {
                changes->peak_bytes[stream] = changes->live_bytes[stream];
                work->peak_instants[stream] = (uint32_t)instant;
            }
        }
    }
}

static vw_status measure_live(measuring *work)
{
    live_changes changes;
    VW__TRY(alloc_changes(&changes, &work->timeline));
    chain_lifetimes(&changes, &work->timeline);
    walk_instants(work, &changes);
    for (size_t i = 0; i < work->model->stream_count; i++)
        work->out->values[VW_CHECK_PEAK] += changes.peak_bytes[i];
    free_changes(&changes);
    work->out->is_cut = work->timeline.is_truncated;
    return VW_OK;
}

static bool is_in_peak(const measuring *work, const vw__lifetime *lifetime)
{
    uint32_t peak = work->peak_instants[vw__lifetime_stream(&work->timeline, lifetime)];
    return lifetime->begin <= peak && peak < end_of(lifetime);
}

/* ---- sites ----------------------------------------------------------------------------------- */

static vw_frame frame_of(const measuring *work, vw__model_stack stack, size_t place)
{
    const vw__model *model = work->model;
    const vw__model_frame *frame = &model->frames[model->frame_ids[stack.first + place]];
    return (vw_frame){.function = vw__model_string(model, frame->name),
                      .file = vw__model_string(model, frame->filename),
                      .line = frame->line};
}

static vw_status name_site(measuring *work, const vw_frame *frame, uint32_t *out)
{
    vw__byte_buffer key;
    vw__byte_buffer_init(&key);
    vw__site_key_append(&key, frame);
    bool is_kept = !vw__byte_buffer_has_failed(&key) &&
                   vw__string_table_add(&work->names, vw__byte_buffer_text(&key),
                                        vw__byte_buffer_size(&key), out);
    vw__byte_buffer_deinit(&key);
    return is_kept ? VW_OK : vw__fail_host_memory(sizeof *work->sites, "the sites of a recording");
}

static vw_status place_stack(measuring *work, size_t stack_index)
{
    stack_place *place = &work->stacks[stack_index];
    vw_usage usage = {.frames = NULL};
    vw_frame innermost, where;
    if (stack_index < work->model->stack_count) {
        vw__model_stack stack = work->model->stacks[stack_index];
        size_t users = vw__attribution_where(&work->attribution, stack);
        if (stack.count > 0) {
            innermost = frame_of(work, stack, 0);
            usage.frames = &innermost;
            usage.frame_count = 1;
        }
        if (users != VW__ATTRIBUTION_NO_FRAME) {
            where = frame_of(work, stack, users);
            usage.where = &where;
        }
    }
    const vw_frame *frame = vw__site_key_frame(&usage);
    place->line = frame != NULL ? frame->line : 0;
    return name_site(work, frame, &place->site);
}

/* The place of a stack; `stack_index` is the number of stacks where none was captured. */
static vw_status find_place(measuring *work, size_t stack_index, stack_place **out)
{
    *out = &work->stacks[stack_index];
    return (*out)->site != NO_SITE ? VW_OK : place_stack(work, stack_index);
}

static vw_status add_lifetimes(measuring *work)
{
    const vw__model *model = work->model;
    for (size_t i = 0; i < work->timeline.lifetime_count; i++) {
        const vw__lifetime *lifetime = &work->timeline.lifetimes[i];
        stack_place *place;
        VW__TRY(find_place(work,
                           lifetime->context != VW__MODEL_NO_CONTEXT
                               ? model->contexts[lifetime->context]
                               : model->stack_count,
                           &place));
        if (is_in_peak(work, lifetime))
            place->peak_bytes += lifetime->size_bytes;
        if (lifetime->begin != 0) {
            work->sites[place->site].allocations++;
            work->out->values[VW_CHECK_ALLOCATIONS]++;
        }
    }
    return VW_OK;
}

static vw_status add_growth(measuring *work, const vw__diagnosis_found_growth *growth)
{
    work->out->values[VW_CHECK_LEAK] =
        growth->is_known ? (uint64_t)llround(growth->bytes_per_step) : VW_UNKNOWN;
    for (size_t i = 0; i < growth->stack_count; i++) {
        const vw__diagnosis_growing_stack *stack = &growth->stacks[i];
        stack_place *place;
        VW__TRY(find_place(
            work, stack->stack != VW__DIAGNOSIS_NO_STACK ? stack->stack : work->model->stack_count,
            &place));
        work->sites[place->site].leak_bytes += stack->bytes_per_step;
    }
    return VW_OK;
}

static int compare_places(const void *left, const void *right)
{
    const stack_place *one = left, *other = right;
    if (one->site != other->site)
        return one->site < other->site ? -1 : 1;
    return (one->line > other->line) - (one->line < other->line);
}

/* Adds the stacks up by line, and the lines by site. */
static void add_lines(measuring *work)
{
    uint64_t line_bytes = 0, most_bytes = 0;
    size_t count = work->model->stack_count + 1;
    qsort(work->stacks, count, sizeof *work->stacks, compare_places);
    for (size_t i = 0; i < count && work->stacks[i].site != NO_SITE; i++) {
        const stack_place *place = &work->stacks[i];
        bool is_new_site = i == 0 || place[-1].site != place->site;
        bool is_new_line = is_new_site || place[-1].line != place->line;
        vw_baseline_site *site = &work->sites[place->site];
        line_bytes = is_new_line ? place->peak_bytes : line_bytes + place->peak_bytes;
        if (is_new_site || line_bytes > most_bytes) {
            most_bytes = line_bytes;
            site->line = place->line;
        }
        site->peak_bytes += place->peak_bytes;
    }
}

static vw_status measure_growth(measuring *work)
{
    const vw_doctor_options options = {.struct_size = sizeof options,
                                       .torch_version = work->out->torch_version};
    vw_diagnosis *diagnosis;
    VW__TRY(vw_doctor_recording(work->recording, &options, &diagnosis));
    vw_status status = add_growth(work, vw__diagnosis_growth(diagnosis));
    vw_diagnosis_free(diagnosis);
    return status;
}

static vw_status gather_sites(measuring *work)
{
    VW__TRY(add_lifetimes(work));
    VW__TRY(measure_growth(work));
    add_lines(work);
    size_t count = vw__string_table_count(&work->names);
    for (size_t i = 0; i < count; i++)
        work->sites[i].site = vw__string_table_get(&work->names, (uint32_t)i).bytes;
    vw__check_sort_sites(work->sites, count);
    work->out->sites = work->sites;
    work->out->site_count = count;
    return VW_OK;
}

static vw_status measure_sites(measuring *work)
{
    size_t most = work->model->stack_count + 1;
    vw__string_table_init(&work->names, work->arena, VW__STRING_TABLE_LARGEST_COUNT, SIZE_MAX);
    work->sites =
        vw__arena_alloc_array(work->arena, most, sizeof *work->sites, _Alignof(vw_baseline_site));
    work->stacks = vw__host_alloc_zeroed(most, sizeof *work->stacks);
    if (work->sites == NULL || work->stacks == NULL) {
        vw__host_free(work->stacks);
        return vw__fail_host_memory(most * sizeof *work->sites, "the sites of a recording");
    }
    for (size_t i = 0; i < most; i++)
        work->stacks[i].site = NO_SITE;
    vw_status status = vw__attribution_init(&work->attribution, work->model);
    if (status == VW_OK) {
        status = gather_sites(work);
        vw__attribution_deinit(&work->attribution);
    }
    vw__host_free(work->stacks);
    return status;
}

/* ---- replay ---------------------------------------------------------------------------------- */

static vw_status replay(measuring *work, vw__replay_work *prepared)
{
    const char *policy, *conf;
    vw_replay_result result;
    vw__replay_progress progress = {.progress = work->options->progress,
                                    .context = work->options->progress_context,
                                    .share = REPLAY_SHARE / 10};
    VW__TRY(vw__replay_name_run(prepared, work->out->policy, NULL, &policy, &conf));
    const vw__replay_setting setting = vw__policy_setting(policy, conf);
    VW__TRY(vw__replay_run(prepared, setting, vw__replay_card_without_end(), false, &progress,
                           &result));
    work->out->values[VW_CHECK_RESERVED] = result.peak_reserved_bytes;
    progress.base = progress.share;
    progress.share = REPLAY_SHARE - progress.base;
    vw__replay_smallest smallest;
    VW__TRY(vw__replay_smallest_card(prepared, setting, &progress, &smallest));
    work->out->values[VW_CHECK_CARD] = smallest.bytes;
    return VW_OK;
}

static vw_status measure_replay(measuring *work)
{
    vw__replay_work prepared;
    VW__TRY(vw__replay_work_init(&prepared, work->model, work->out->torch_version,
                                 work->timeline.trace->device, NULL));
    vw_status status = replay(work, &prepared);
    vw__replay_work_deinit(&prepared);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* A setting that a baseline names and that we do not know is the file's fault. */
static vw_status name_setting(measuring *work)
{
    const vw_baseline *like = work->options->like;
    const char *policy = like != NULL ? like->policy : USUAL_POLICY;
    const char *version = like != NULL ? like->torch_version : USUAL_TORCH;
    const vw__policy *rules = vw__policy_find(policy);
    const char *known;
    if (rules == NULL || rules->conf == NULL || /* depends on the recording */
        vw__recording_version(work->model, version, &known) != VW_OK)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "the baseline was made under the setting %.40s of PyTorch %.20s, which "
                        "this version of vramwise does not know",
                        policy, version);
    work->out->policy = vw__arena_copy(work->arena, policy, strlen(policy));
    work->out->torch_version = vw__arena_copy(work->arena, version, strlen(version));
    if (work->out->policy == NULL || work->out->torch_version == NULL)
        return vw__fail_host_memory(strlen(policy) + strlen(version), "a baseline");
    return VW_OK;
}

static vw_status measure_trace(measuring *work)
{
    size_t streams = work->model->stream_count + 1;
    work->peak_instants = vw__host_alloc_zeroed(streams, sizeof *work->peak_instants);
    if (work->peak_instants == NULL)
        return vw__fail_host_memory(streams * sizeof *work->peak_instants, "the peak of streams");
    vw_status status = measure_live(work);
    if (status == VW_OK)
        status = measure_replay(work);
    if (status == VW_OK)
        status = measure_sites(work);
    vw__host_free(work->peak_instants);
    return status;
}

static vw_status measure(measuring *work)
{
    const vw__model_trace *trace;
    VW__TRY(name_setting(work));
    VW__TRY(vw__recording_trace(work->model, VW_BUSIEST_DEVICE, &trace));
    VW__TRY(vw__timeline_make(work->model, trace, &work->timeline));
    vw_status status = measure_trace(work);
    vw__timeline_deinit(&work->timeline);
    VW__TRY(status);
    return vw__replay_tell(
        &(vw__replay_progress){work->options->progress, work->options->progress_context, 1.0, 0.0},
        0.0);
}

vw_status vw_baseline_make(const vw_recording *recording, const vw_baseline_options *options,
                           vw_baseline **out)
{
    vw_baseline_options used = {.struct_size = sizeof used};
    if (recording == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a recording and a place for a baseline");
    VW__TRY(VW__STRUCT_IN(vw_baseline_options, options, &used));
    vw_baseline *baseline = vw__result_create(sizeof *baseline);
    if (baseline == NULL)
        return vw__fail_host_memory(sizeof *baseline, "a baseline");
    measuring work = {.recording = recording,
                      .model = recording->model,
                      .options = &used,
                      .out = baseline,
                      .arena = vw__result_arena(baseline)};
    vw_status status = measure(&work);
    if (status == VW_OK)
        *out = baseline;
    else
        vw__result_free(baseline);
    return status;
}

void vw_baseline_free(vw_baseline *baseline)
{
    vw__result_free(baseline);
}
