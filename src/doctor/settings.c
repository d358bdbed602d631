/* settings.c - see settings.h.
 *
 * A remedy must be worth typing: it serves the request that failed, or gives back a fiftieth of
 * what the program reserves. A recipe hurts when the program reserves a twentieth more with it, or
 * when it multiplies the time in the driver and gives nothing back.
 *
 * Garbage collection acts only under a limit: it is tried where there is one, or a card is named on
 * which the program could set one.
 *
 * Our own engine mostly reserves least, and is named last: a setting is a smaller step than another
 * allocator. */
#include "doctor/settings.h"

#include <inttypes.h>
#include <string.h>

#include "analysis/replay.h"
#include "base/byte_buffer.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

/* Recordings with more events than this are tried with one candidate of each kind. */
enum { MANY_EVENTS = 300000 };

enum { WORTH_SHARE = 50, HURTS_SHARE = 20, SLOWER_FACTOR = 2 };

#define LEAST_WORTH_BYTES (UINT64_C(16) << 20)

typedef struct candidate {
    const char *conf;
    uint8_t kind;
    bool is_first; /* of its kind: tried with long recordings too */
} candidate;

static const candidate candidates[] = {
    {"", VW__SETTING_DEFAULTS, true},
    {"expandable_segments:True", VW__SETTING_EXPANDABLE, true},
    {"max_split_size_mb:128", VW__SETTING_MAX_SPLIT, true},
    {"max_split_size_mb:512", VW__SETTING_MAX_SPLIT, true},
    {"max_split_size_mb:64", VW__SETTING_MAX_SPLIT, false},
    {"max_split_size_mb:256", VW__SETTING_MAX_SPLIT, false},
    {"roundup_power2_divisions:8", VW__SETTING_ROUNDUP, true},
    {"roundup_power2_divisions:4", VW__SETTING_ROUNDUP, false},
    {"roundup_power2_divisions:16", VW__SETTING_ROUNDUP, false},
    {"garbage_collection_threshold:0.8", VW__SETTING_COLLECTION, true},
    {"garbage_collection_threshold:0.6", VW__SETTING_COLLECTION, false},
    {"", VW__SETTING_VRAMWISE, true},
};

enum { CANDIDATE_COUNT = sizeof candidates / sizeof candidates[0] };

_Static_assert(CANDIDATE_COUNT + 3 <= VW__MOST_TRIED, "recorded, and empty_cache() in two places");

/* ---- runs ------------------------------------------------------------------------------------ */

typedef struct trial {
    const vw__case *given;
    vw__replay_work work;
    vw__failed_card failed;
    vw__tried_settings *out;
} trial;

bool vw__doctor_is_impossible(vw_status status)
{
    return status == VW_ERR_CORRUPT_FILE || status == VW_ERR_UNSUPPORTED ||
           status == VW_ERR_BAD_SETTING || status == VW_ERR_TOO_LARGE ||
           status == VW_ERR_INVALID_ARGUMENT;
}

static bool is_past_failure(const vw__case *given, const vw_replay_result *result)
{
    return !result->has_oom || result->oom_event > given->failure.event;
}

/* `work` may differ from the trial's by calls of empty_cache(). */
static vw_status run(trial *all, const vw__replay_work *work, const char *conf,
                     vw__setting_kind kind)
{
    vw_replay_result free_run = {.policy = NULL}, held_run = {.policy = NULL};
    vw__tried_setting tried = {.conf = conf, .kind = (uint8_t)kind};
    const vw__replay_setting setting = {.engine = kind == VW__SETTING_VRAMWISE ? "vramwise" : NULL,
                                        .conf = conf};
    VW__TRY(vw__replay_run(work, setting, vw__card_without_end(), false, NULL, &free_run));
    tried.peak_reserved_bytes = free_run.peak_reserved_bytes;
    tried.device_ns = free_run.device_ns;
    tried.trims = free_run.trims;
    if (all->failed.is_known) {
        vw__card card = all->failed.card;
        if (kind == VW__SETTING_COLLECTION && card.fraction > 1.0)
            card.fraction = 1.0;
        VW__TRY(vw__replay_run(work, setting, card, false, NULL, &held_run));
        tried.is_served = is_past_failure(all->given, &held_run);
    }
    all->out->tried[all->out->count++] = tried;
    return VW_OK;
}

static vw_status try_candidate(trial *all, const candidate *next)
{
    const char *version = all->work.torch_version;
    bool is_same = false;
    if (!next->is_first && all->given->trace->event_count > MANY_EVENTS)
        return VW_OK;
    if (next->kind == VW__SETTING_COLLECTION && !all->failed.has_limit)
        return VW_OK;
    bool is_torch = next->kind != VW__SETTING_VRAMWISE;
    vw_status status = VW_OK;
    if (is_torch)
        status = vw__replay_same_settings(version, next->conf, all->work.recorded_conf, &is_same);
    if (status == VW_OK && !is_same && is_torch && next->kind != VW__SETTING_DEFAULTS)
        status = vw__replay_same_settings(version, next->conf, "", &is_same);
    if (status == VW_OK && !is_same)
        status = run(all, &all->work, next->conf, (vw__setting_kind)next->kind);
    return vw__doctor_is_impossible(status) ? VW_OK : status;
}

/* The same work, but with calls of empty_cache() in it. */
static vw_status try_trims(trial *all, vw_empty_cache where, vw__setting_kind kind,
                           vw__replay_notes *notes)
{
    const vw__steps *steps = &all->given->steps;
    vw__replay_work trimmed = all->work; /* shares everything but the trims */
    uint64_t step_count;
    size_t end_count = kind == VW__SETTING_TRIM_STEPS ? steps->end_count : steps->phase_end_count;
    if (end_count == 0)
        return VW_OK;
    trimmed.trims = NULL;
    trimmed.trim_count = 0;
    vw_status status = vw__replay_work_add_trims(&trimmed, where, 1, notes, &step_count);
    if (status == VW_OK)
        status = run(all, &trimmed, all->out->recorded_conf, kind);
    vw__host_free(trimmed.trims);
    return vw__doctor_is_impossible(status) ? VW_OK : status;
}

/* Limits are not narrowed by what garbage was collected, which would take a hundred runs. */
vw_status vw__doctor_find_card(const vw__case *given, const vw__replay_work *work,
                               vw__failed_card *out)
{
    vw__replay_work plain = *work; /* shares everything */
    vw__recorded_card recorded;
    *out = (vw__failed_card){.is_known = false};
    if (!given->failure.has_happened)
        return VW_OK;
    if (given->failure.is_replayed) {
        out->card = vw__card_of(given->options->card_bytes);
        out->is_known = out->has_limit = true;
        return VW_OK;
    }
    plain.followed_count = 0;
    VW__TRY(vw__recorded_card_find(&plain, &recorded));
    out->is_known = recorded.is_known;
    out->has_limit = recorded.is_known && !recorded.is_device;
    out->card =
        recorded.is_device ? vw__card_of(recorded.bytes) : vw__card_with_limit(recorded.bytes);
    return VW_OK;
}

/* A setting that serves the request needs at least so many bytes less. */
static uint64_t missing_bytes(const trial *all)
{
    const vw_memory_numbers *numbers = &all->given->failure.numbers;
    uint64_t wanted_bytes;
    if (!all->failed.is_known || numbers->reserved_bytes == VW_UNKNOWN ||
        !vw__add_u64(numbers->reserved_bytes, numbers->tried_bytes, &wanted_bytes))
        return 0;
    return wanted_bytes > all->failed.card.shown_bytes ? wanted_bytes - all->failed.card.shown_bytes
                                                       : 0;
}

static vw_status keep_recorded_conf(trial *all)
{
    const char *conf = all->work.is_recorded_conf_usable ? all->work.recorded_conf : "";
    size_t size = strlen(conf) + 1;
    all->out->recorded_conf = vw__host_alloc(size);
    if (all->out->recorded_conf == NULL)
        return vw__fail_host_memory(size, "an option string");
    memcpy(all->out->recorded_conf, conf, size);
    return VW_OK;
}

static vw_status try_all(trial *all, vw__replay_notes *notes)
{
    vw__tried_settings *out = all->out;
    VW__TRY(keep_recorded_conf(all));
    VW__TRY(vw__doctor_find_card(all->given, &all->work, &all->failed));
    out->short_bytes = missing_bytes(all);
    VW__TRY(run(all, &all->work, out->recorded_conf, VW__SETTING_RECORDED));
    for (size_t i = 0; i < CANDIDATE_COUNT; i++)
        VW__TRY(try_candidate(all, &candidates[i]));
    VW__TRY(try_trims(all, VW_EMPTY_CACHE_STEPS, VW__SETTING_TRIM_STEPS, notes));
    return try_trims(all, VW_EMPTY_CACHE_PHASES, VW__SETTING_TRIM_PHASES, notes);
}

vw_status vw__doctor_try_settings(const vw__case *given, vw__tried_settings *out)
{
    trial all = {.given = given, .out = out};
    vw__replay_notes notes;
    vw__arena arena;
    *out = (vw__tried_settings){.count = 0};
    if (!vw__doctor_can_replay(given))
        return VW_OK;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    vw__replay_notes_init(&notes, &arena);
    vw_status status = vw__replay_work_init(
        &all.work, given->model, given->options != NULL ? given->options->torch_version : NULL,
        given->trace->device, &notes);
    if (status == VW_OK) {
        status = try_all(&all, &notes);
        vw__replay_work_deinit(&all.work);
    }
    vw__arena_deinit(&arena);
    if (status != VW_OK)
        vw__tried_settings_deinit(out);
    return vw__doctor_is_impossible(status) ? VW_OK : status;
}

void vw__tried_settings_deinit(vw__tried_settings *tried)
{
    vw__host_free(tried->recorded_conf);
    *tried = (vw__tried_settings){.count = 0};
}

/* ---- words ----------------------------------------------------------------------------------- */

static const char *name_of(const vw__tried_setting *one)
{
    switch (one->kind) {
    case VW__SETTING_RECORDED:
        return "as recorded";
    case VW__SETTING_DEFAULTS:
        return "PyTorch's defaults";
    case VW__SETTING_TRIM_STEPS:
        return "empty_cache() after every step";
    case VW__SETTING_TRIM_PHASES:
        return "empty_cache() between phases";
    case VW__SETTING_VRAMWISE:
        return "engine vramwise";
    default:
        return one->conf;
    }
}

static const char *action_of(vw__case *given, const vw__tried_settings *tried,
                             const vw__tried_setting *one)
{
    const char *serves = one->is_served && given->failure.has_happened
                             ? ": the request that failed is then served"
                             : "";
    switch (one->kind) {
    case VW__SETTING_DEFAULTS:
        return vw__diagnosis_text(given->draft, "drop \"%.80s\"%s", tried->recorded_conf, serves);
    case VW__SETTING_TRIM_STEPS:
        return vw__diagnosis_text(given->draft, "call torch.cuda.empty_cache() after every step%s",
                                  serves);
    case VW__SETTING_TRIM_PHASES:
        return vw__diagnosis_text(given->draft,
                                  "call torch.cuda.empty_cache() between training and "
                                  "evaluation%s",
                                  serves);
    case VW__SETTING_VRAMWISE:
        return vw__diagnosis_text(given->draft, VW__VRAMWISE_ACTION "%s", serves);
    default:
        return vw__diagnosis_text(given->draft, "set %s%s", one->conf, serves);
    }
}

static const char *driver_time(vw__case *given, const vw__tried_settings *tried,
                               const vw__tried_setting *one)
{
    return vw__diagnosis_text(given->draft, "%s in the driver over the run instead of %s",
                              vw__diagnosis_duration(given->draft, one->device_ns),
                              vw__diagnosis_duration(given->draft, tried->tried[0].device_ns));
}

static const char *cost_of(vw__case *given, const vw__tried_settings *tried,
                           const vw__tried_setting *one)
{
    const char *time = driver_time(given, tried, one);
    switch (one->kind) {
    case VW__SETTING_ROUNDUP:
        return vw__diagnosis_text(given->draft, "a restart; blocks are rounded up further; %s",
                                  time);
    case VW__SETTING_MAX_SPLIT:
        return vw__diagnosis_text(given->draft,
                                  "a restart; with other shapes it can do the opposite; %s", time);
    case VW__SETTING_TRIM_STEPS:
    case VW__SETTING_TRIM_PHASES:
        return vw__diagnosis_text(given->draft, "%s that wait for the GPU; %s",
                                  vw__diagnosis_count(given->draft, one->trims, "call"), time);
    case VW__SETTING_VRAMWISE:
        return vw__diagnosis_text(given->draft, VW__VRAMWISE_COST "; %s", time);
    default:
        return vw__diagnosis_text(given->draft, "a restart; %s", time);
    }
}

static const char *how_of(vw__case *given, const vw__tried_settings *tried,
                          const vw__tried_setting *one)
{
    const char *before =
        tried->recorded_conf[0] != '\0'
            ? vw__diagnosis_text(given->draft, "\n# instead of %.60s", tried->recorded_conf)
            : "";
    switch (one->kind) {
    case VW__SETTING_DEFAULTS:
        return "unset PYTORCH_CUDA_ALLOC_CONF";
    case VW__SETTING_TRIM_STEPS:
        return "torch.cuda.empty_cache()  # the last line of a step";
    case VW__SETTING_TRIM_PHASES:
        return "torch.cuda.empty_cache()  # before evaluation, and after it";
    case VW__SETTING_VRAMWISE:
        return VW__VRAMWISE_HOW;
    case VW__SETTING_COLLECTION:
        return vw__diagnosis_text(
            given->draft, "export PYTORCH_CUDA_ALLOC_CONF=%s%s%s", one->conf, before,
            given->failure.is_replayed
                ? "\ntorch.cuda.set_per_process_memory_fraction(1.0)  # it counts from a limit"
                : "");
    default:
        return vw__diagnosis_text(given->draft, "export PYTORCH_CUDA_ALLOC_CONF=%s%s", one->conf,
                                  before);
    }
}

/* ---- remedies -------------------------------------------------------------------------------- */

static uint64_t saved_bytes(const vw__tried_settings *tried, const vw__tried_setting *one)
{
    const vw__tried_setting *recorded = &tried->tried[0];
    uint64_t saved = recorded->peak_reserved_bytes > one->peak_reserved_bytes
                         ? recorded->peak_reserved_bytes - one->peak_reserved_bytes
                         : 0;
    return one->is_served && !recorded->is_served ? vw__max_u64(saved, tried->short_bytes) : saved;
}

/* The program would reserve a good deal more with it than it did. */
static bool hurts(const vw__tried_settings *tried, const vw__tried_setting *one)
{
    uint64_t recorded_bytes = tried->tried[0].peak_reserved_bytes;
    return one->peak_reserved_bytes > recorded_bytes &&
           one->peak_reserved_bytes - recorded_bytes >= recorded_bytes / HURTS_SHARE;
}

static bool is_better(const vw__tried_setting *one, const vw__tried_setting *other)
{
    if (one->is_served != other->is_served)
        return one->is_served;
    return one->peak_reserved_bytes < other->peak_reserved_bytes;
}

/* The best of its kind, of those behind `tried[0]`; or NULL. */
static const vw__tried_setting *best_of_kind(const vw__tried_settings *tried, unsigned kind)
{
    const vw__tried_setting *best = NULL;
    for (size_t i = 1; i < tried->count; i++)
        if (tried->tried[i].kind == kind && (best == NULL || is_better(&tried->tried[i], best)))
            best = &tried->tried[i];
    return best;
}

/* Options take the place of the recorded ones: what the defaults do as well is not theirs. */
static bool is_better_than_defaults(const vw__tried_settings *tried, const vw__tried_setting *one)
{
    const vw__tried_setting *defaults = best_of_kind(tried, VW__SETTING_DEFAULTS);
    bool is_option = one->kind == VW__SETTING_ROUNDUP || one->kind == VW__SETTING_MAX_SPLIT ||
                     one->kind == VW__SETTING_COLLECTION;
    if (defaults == NULL || !is_option)
        return true;
    if (one->is_served != defaults->is_served)
        return one->is_served;
    return defaults->peak_reserved_bytes > one->peak_reserved_bytes &&
           defaults->peak_reserved_bytes - one->peak_reserved_bytes >= LEAST_WORTH_BYTES;
}

static bool is_worth_it(const vw__case *given, const vw__tried_settings *tried,
                        const vw__tried_setting *one)
{
    const vw__tried_setting *recorded = &tried->tried[0];
    uint64_t saved = saved_bytes(tried, one);
    if (hurts(tried, one) || !is_better_than_defaults(tried, one))
        return false;
    if (given->failure.has_happened && one->is_served && !recorded->is_served)
        return true;
    return saved >= LEAST_WORTH_BYTES && saved >= recorded->peak_reserved_bytes / WORTH_SHARE;
}

/* The first that reserves least among those of its kind. */
static bool is_best_of_kind(const vw__tried_settings *tried, size_t index)
{
    const vw__tried_setting *own = &tried->tried[index];
    for (size_t i = 0; i < tried->count; i++) {
        const vw__tried_setting *other = &tried->tried[i];
        if (other->kind == own->kind &&
            (other->peak_reserved_bytes < own->peak_reserved_bytes ||
             (other->peak_reserved_bytes == own->peak_reserved_bytes && i < index)))
            return false;
    }
    return true;
}

static void say_what_was_tried(vw__case *given, const vw__tried_settings *tried,
                               vw__finding_draft *finding)
{
    vw__byte_buffer text;
    vw__byte_buffer_init(&text);
    for (size_t i = 0; i < tried->count; i++)
        if (is_best_of_kind(tried, i))
            vw__append_format(
                &text, "%s%s %s", i == 0 ? "" : "; ", name_of(&tried->tried[i]),
                vw__diagnosis_size(given->draft, tried->tried[i].peak_reserved_bytes));
    if (vw__byte_buffer_has_failed(&text))
        given->draft->has_failed = true;
    else
        vw__finding_evidence(finding, "Replayed without a limit, the program reserves at most: %s.",
                             vw__byte_buffer_text(&text));
    vw__byte_buffer_deinit(&text);
}

/* Those worth typing, in the order in which to try them. Our own engine is not one of them. */
static size_t choose(const vw__case *given, const vw__tried_settings *tried,
                     const vw__tried_setting *best[VW__SETTING_KINDS])
{
    size_t count = 0;
    for (unsigned kind = VW__SETTING_RECORDED + 1; kind < VW__SETTING_KINDS; kind++) {
        const vw__tried_setting *one = best_of_kind(tried, kind);
        if (one == NULL || kind == VW__SETTING_VRAMWISE || !is_worth_it(given, tried, one))
            continue;
        size_t place = count++;
        for (; place > 0 && is_better(one, best[place - 1]); place--)
            best[place] = best[place - 1];
        best[place] = one;
    }
    return count;
}

uint64_t vw__doctor_best_saving(const vw__case *given, const vw__tried_settings *tried)
{
    const vw__tried_setting *best[VW__SETTING_KINDS];
    if (choose(given, tried, best) == 0)
        return 0;
    bool serves = given->failure.has_happened && best[0]->is_served;
    return serves ? UINT64_MAX : saved_bytes(tried, best[0]);
}

/* Another allocator is named only for what no setting does: it serves what was refused, or gives
 * back as much again as makes a setting worth typing. */
static bool is_engine_worth_it(const vw__case *given, const vw__tried_settings *tried,
                               const vw__tried_setting *engine, const vw__tried_setting *best)
{
    uint64_t recorded_bytes = tried->tried[0].peak_reserved_bytes;
    if (engine == NULL || !is_worth_it(given, tried, engine))
        return false;
    if (best == NULL || engine->is_served != best->is_served)
        return best == NULL || engine->is_served;
    uint64_t more_bytes = best->peak_reserved_bytes > engine->peak_reserved_bytes
                              ? best->peak_reserved_bytes - engine->peak_reserved_bytes
                              : 0;
    return more_bytes >= LEAST_WORTH_BYTES && more_bytes >= recorded_bytes / WORTH_SHARE;
}

void vw__doctor_add_setting_remedies(vw__case *given, const vw__tried_settings *tried,
                                     vw__finding_draft *finding)
{
    const vw__tried_setting *best[VW__SETTING_KINDS];
    if (tried->count == 0)
        return;
    say_what_was_tried(given, tried, finding);
    size_t count = choose(given, tried, best);
    for (size_t i = 0; i < count; i++)
        vw__finding_remedy(finding, action_of(given, tried, best[i]),
                           vw__saves(saved_bytes(tried, best[i])), VW_BASIS_REPLAYED,
                           cost_of(given, tried, best[i]), how_of(given, tried, best[i]));
    const vw__tried_setting *engine = best_of_kind(tried, VW__SETTING_VRAMWISE);
    if (is_engine_worth_it(given, tried, engine, count != 0 ? best[0] : NULL))
        vw__finding_remedy(finding, action_of(given, tried, engine),
                           vw__saves(saved_bytes(tried, engine)), VW_BASIS_REPLAYED,
                           cost_of(given, tried, engine), how_of(given, tried, engine));
}

/* ---- warnings -------------------------------------------------------------------------------- */

static const vw__tried_setting *find_conf(const vw__tried_settings *tried, const char *conf)
{
    for (size_t i = 1; i < tried->count; i++)
        if (strcmp(tried->tried[i].conf, conf) == 0 &&
            tried->tried[i].kind == VW__SETTING_MAX_SPLIT)
            return &tried->tried[i];
    return NULL;
}

/* The first of the sizes that pages name which makes it worse. */
static void warn_of_max_split(vw__case *given, const vw__tried_settings *tried)
{
    static const char *const recipes[] = {"max_split_size_mb:128", "max_split_size_mb:512"};
    uint64_t recorded_bytes = tried->tried[0].peak_reserved_bytes;
    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++) {
        const vw__tried_setting *one = find_conf(tried, recipes[i]);
        if (one == NULL || !hurts(tried, one))
            continue;
        vw__finding_draft *finding = vw__diagnosis_add(
            given->draft, "warning", one->peak_reserved_bytes - recorded_bytes,
            "%s, which many pages recommend, would make this run reserve %s instead of %s.",
            one->conf, vw__diagnosis_size(given->draft, one->peak_reserved_bytes),
            vw__diagnosis_size(given->draft, recorded_bytes));
        vw__finding_evidence(finding, "Replayed: the whole run, with that setting and no limit.");
        return;
    }
}

static void warn_of_trims(vw__case *given, const vw__tried_settings *tried)
{
    const vw__tried_setting *recorded = &tried->tried[0];
    const vw__tried_setting *one = best_of_kind(tried, VW__SETTING_TRIM_STEPS);
    if (one == NULL || is_worth_it(given, tried, one) ||
        one->device_ns < SLOWER_FACTOR * recorded->device_ns)
        return;
    vw__finding_draft *finding = vw__diagnosis_add(
        given->draft, "warning", saved_bytes(tried, one),
        "empty_cache() in every step would cost time and give back next to nothing here: %s.",
        driver_time(given, tried, one));
    vw__finding_evidence(finding,
                         "Replayed: %s are reserved at most with it, %s without. The wait for the "
                         "GPU at each of the %" PRIu64 " calls comes on top.",
                         vw__diagnosis_size(given->draft, one->peak_reserved_bytes),
                         vw__diagnosis_size(given->draft, recorded->peak_reserved_bytes),
                         one->trims);
}

void vw__doctor_add_setting_warnings(vw__case *given, const vw__tried_settings *tried)
{
    if (tried->count == 0)
        return;
    warn_of_max_split(given, tried);
    warn_of_trims(given, tried);
}
