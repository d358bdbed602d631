/* settings.c - see settings.h.
 *
 * Which are tried. The rows of settings/setting_table.h that are for the doctor, and calls of
 * empty_cache(), in an order that allows to stop early. At a failure nothing more is tried once a
 * setting lets the run go through. For a run that did not fail, our own engine shows about the
 * least that can be reserved: if expandable segments come near it, no other option is tried. Other
 * values of an option are tried only where its first value is worth typing.
 *
 * A remedy must be worth typing: at a failure it serves the request that failed, on the card or
 * under the limit that refused it; else it gives back a fiftieth of what the program reserves. A
 * recipe hurts when the run ends sooner with it, or reserves a twentieth more, or when it
 * multiplies the time in the driver and gives nothing back.
 *
 * empty_cache() after every step makes every step wait for the GPU. It is never a remedy: it is
 * tried where the run failed, as evidence, and to warn of what it would cost.
 *
 * Garbage collection acts only under a limit: it is tried where there is one, or a card is named on
 * which the program could set one.
 *
 * Our own engine mostly reserves least, and is named last: a setting is a smaller step than another
 * allocator. */
#include "doctor/settings.h"

#include <inttypes.h>
#include <string.h>

#include "base/byte_buffer.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "settings/trials.h"

enum { WORTH_SHARE = 50, HURTS_SHARE = 20, SLOWER_FACTOR = 2 };

#define LEAST_WORTH_BYTES (UINT64_C(16) << 20)

static bool is_worth_it(const vw__doctor_facts *facts, const vw__doctor_tried_settings *tried,
                        const vw__doctor_tried_setting *one);

/* ---- runs ------------------------------------------------------------------------------------ */

/* A row that could not be replayed, or was not tried, is not there. */
static const vw__doctor_tried_setting *find_kind(const vw__doctor_tried_settings *tried,
                                                 unsigned kind)
{
    for (size_t i = 0; i < tried->count; i++)
        if (tried->tried[i].kind == kind)
            return &tried->tried[i];
    return NULL;
}

/* A request from before the recording has no event. */
bool vw__doctor_is_served(const vw__doctor_facts *facts, const vw_replay_result *result)
{
    return !result->has_oom ||
           (result->oom_event != VW_UNKNOWN && result->oom_event > facts->failure.event);
}

static void keep(const vw__doctor_facts *facts, const vw_replay_result *result,
                 vw__setting_kind kind, const char *conf, vw__doctor_tried_settings *out)
{
    if (out->count == VW__DOCTOR_MOST_TRIED)
        return;
    out->tried[out->count++] = (vw__doctor_tried_setting){
        .conf = conf,
        .peak_reserved_bytes = result->peak_reserved_bytes,
        .device_ns = result->device_ns,
        .trims = result->trims,
        .oom_event = result->has_oom ? result->oom_event : VW_UNKNOWN,
        .kind = (uint8_t)kind,
        .is_served = vw__doctor_is_served(facts, result),
        .is_complete = result->is_complete,
    };
}

static vw_status try_row(const vw__doctor_facts *facts, const vw__setting_row *row,
                         vw__doctor_tried_settings *out)
{
    vw_replay_result result;
    bool is_new = false;
    if (row->kind == VW__SETTING_COLLECTION && !facts->trials->has_limit)
        return VW_OK;
    VW__TRY(vw__trials_is_new(facts->trials, row, &is_new));
    if (!is_new)
        return VW_OK;
    vw_status status = vw__trials_try(facts->trials, row, &result);
    if (status == VW_OK)
        keep(facts, &result, (vw__setting_kind)row->kind, vw__setting_conf(row), out);
    return vw__trials_are_impossible(status) ? VW_OK : status;
}

static vw_status try_kind(const vw__doctor_facts *facts, vw__setting_kind kind,
                          vw__setting_users users, vw__doctor_tried_settings *out)
{
    const vw__setting_row *row;
    for (size_t i = 0; (row = vw__setting_row_for(users, i)) != NULL; i++)
        if (row->kind == kind)
            VW__TRY(try_row(facts, row, out));
    return VW_OK;
}

/* The same work, but with calls of empty_cache() in it. */
static vw_status try_trims(const vw__doctor_facts *facts, vw__setting_kind kind,
                           vw__doctor_tried_settings *out)
{
    const vw__steps *steps = &facts->steps;
    bool is_by_step = kind == VW__SETTING_TRIM_STEPS;
    vw__replay_work trimmed = facts->trials->work; /* shares everything but the trims */
    vw_replay_result result = {.policy = NULL};
    uint64_t step_count;
    if ((is_by_step ? steps->end_count : steps->phase_end_count) == 0)
        return VW_OK;
    trimmed.trims = NULL;
    trimmed.trim_count = 0;
    vw_status status = vw__replay_work_add_trims(
        &trimmed, is_by_step ? VW_EMPTY_CACHE_STEPS : VW_EMPTY_CACHE_PHASES, 1, NULL, &step_count);
    if (status == VW_OK)
        status = vw__replay_run(&trimmed, vw__replay_recorded_setting(&trimmed),
                                facts->trials->card, false, NULL, &result);
    if (status == VW_OK)
        keep(facts, &result, kind, out->recorded_conf, out);
    vw__host_free(trimmed.trims);
    return vw__trials_are_impossible(status) ? VW_OK : status;
}

/* ---- which ----------------------------------------------------------------------------------- */

static bool has_complete(const vw__doctor_tried_settings *tried)
{
    for (size_t i = 1; i < tried->count; i++)
        if (tried->tried[i].is_complete)
            return true;
    return false;
}

/* Until one lets the run go through. */
static vw_status try_at_failure(const vw__doctor_facts *facts, vw__doctor_tried_settings *out)
{
    static const vw__setting_kind in_order[] = {
        VW__SETTING_EXPANDABLE, VW__SETTING_DEFAULTS,    VW__SETTING_COLLECTION,
        VW__SETTING_ROUNDUP,    VW__SETTING_TRIM_PHASES, VW__SETTING_VRAMWISE,
    };
    for (size_t i = 0; i < sizeof in_order / sizeof in_order[0] && !has_complete(out); i++)
        VW__TRY(in_order[i] == VW__SETTING_TRIM_PHASES
                    ? try_trims(facts, in_order[i], out)
                    : try_kind(facts, in_order[i], VW__SETTING_FOR_DOCTOR, out));
    return VW_OK;
}

/* Does `one` leave so little more reserved than the engine that no other option is worth a try? */
static bool is_near(const vw__doctor_tried_settings *tried, const vw__doctor_tried_setting *one,
                    const vw__doctor_tried_setting *engine)
{
    uint64_t most_bytes = tried->tried[0].peak_reserved_bytes;
    if (one == NULL || engine == NULL || one->peak_reserved_bytes > most_bytes)
        return false;
    return one->peak_reserved_bytes <=
           engine->peak_reserved_bytes + vw__max_u64(LEAST_WORTH_BYTES, most_bytes / WORTH_SHARE);
}

static vw_status try_by_bytes(const vw__doctor_facts *facts, vw__doctor_tried_settings *out)
{
    VW__TRY(try_kind(facts, VW__SETTING_EXPANDABLE, VW__SETTING_FOR_DOCTOR, out));
    VW__TRY(try_kind(facts, VW__SETTING_VRAMWISE, VW__SETTING_FOR_DOCTOR, out));
    VW__TRY(try_kind(facts, VW__SETTING_DEFAULTS, VW__SETTING_FOR_DOCTOR, out));
    const vw__doctor_tried_setting *engine = find_kind(out, VW__SETTING_VRAMWISE);
    if (!is_near(out, find_kind(out, VW__SETTING_EXPANDABLE), engine) &&
        !is_near(out, &out->tried[0], engine)) {
        VW__TRY(try_kind(facts, VW__SETTING_ROUNDUP, VW__SETTING_FOR_DOCTOR, out));
        const vw__doctor_tried_setting *roundup = find_kind(out, VW__SETTING_ROUNDUP);
        if (roundup != NULL && is_worth_it(facts, out, roundup))
            VW__TRY(try_kind(facts, VW__SETTING_ROUNDUP, VW__SETTING_FOR_DOCTOR_REFINED, out));
    }
    return try_trims(facts, VW__SETTING_TRIM_PHASES, out);
}

/* A setting that serves the request needs at least so many bytes less than the recorded one. */
static uint64_t wanted_bytes(const vw__doctor_facts *facts)
{
    const vw_memory_numbers *numbers = &facts->failure.numbers;
    uint64_t wanted;
    if (numbers->reserved_bytes == VW_UNKNOWN ||
        !vw__add_u64(numbers->reserved_bytes, numbers->tried_bytes, &wanted))
        return 0;
    return wanted;
}

static vw_status try_recorded(const vw__doctor_facts *facts, vw__doctor_tried_settings *out)
{
    const vw__trials *trials = facts->trials;
    vw_replay_result result;
    VW__TRY(vw__trials_try(facts->trials, NULL, &result));
    keep(facts, &result, VW__SETTING_RECORDED, out->recorded_conf, out);
    out->is_as_failed =
        facts->failure.has_happened && trials->is_card_known && !out->tried[0].is_served;
    out->wanted_bytes = out->is_as_failed ? wanted_bytes(facts) : 0;
    return VW_OK;
}

static vw_status try_all(const vw__doctor_facts *facts, vw__doctor_settings_wanted wanted,
                         vw__doctor_tried_settings *out)
{
    VW__TRY(try_recorded(facts, out));
    if (wanted == VW__DOCTOR_FOR_REMEDIES)
        VW__TRY(out->is_as_failed ? try_at_failure(facts, out) : try_by_bytes(facts, out));
    VW__TRY(try_kind(facts, VW__SETTING_MAX_SPLIT, VW__SETTING_FOR_DOCTOR, out));
    return facts->failure.has_happened ? try_trims(facts, VW__SETTING_TRIM_STEPS, out) : VW_OK;
}

vw_status vw__doctor_try_settings(const vw__doctor_input *input, vw__doctor_facts *facts,
                                  vw__doctor_settings_wanted wanted, vw__doctor_tried_settings *out)
{
    *out = (vw__doctor_tried_settings){.count = 0};
    VW__TRY(vw__doctor_open_trials(input, facts));
    if (facts->trials == NULL)
        return VW_OK;
    out->recorded_conf = vw__trials_recorded_conf(facts->trials);
    out->is_cut = facts->trials->work.script.is_truncated;
    out->is_limited = facts->trials->has_limit && !facts->failure.is_replayed;
    out->card_bytes = facts->trials->card.shown_bytes;
    vw_status status = try_all(facts, wanted, out);
    if (status != VW_OK)
        out->count = 0;
    return vw__trials_are_impossible(status) ? VW_OK : status;
}

vw_enough vw__doctor_enough(const vw__doctor_facts *facts, bool is_complete)
{
    const vw__trials *trials = facts->trials;
    if (!facts->failure.has_happened || trials == NULL || !trials->is_card_known ||
        trials->work.script.is_truncated)
        return VW_ENOUGH_UNKNOWN;
    return is_complete ? VW_ENOUGH_YES : VW_ENOUGH_NO;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Words for each kind of setting. What a row leaves out is in the last row. */
static const struct {
    const char *name;              /* NULL: the option itself */
    const char *action, *cost;     /* likewise */
    const char *how, *how_of_pool; /* the second for a program that calls libvramwise itself */
} kind_words[VW__SETTING_KINDS + 1] = {
    [VW__SETTING_RECORDED] = {.name = "as recorded"},
    [VW__SETTING_DEFAULTS] = {.name = "PyTorch's defaults",
                              .action = "drop \"$recorded\"$serves",
                              .how = "unset $variable"},
    [VW__SETTING_ROUNDUP] = {.cost = "a restart; blocks are rounded up further; $time"},
    [VW__SETTING_MAX_SPLIT] = {.cost =
                                   "a restart; with other shapes it can do the opposite; $time"},
    [VW__SETTING_COLLECTION] = {.how = "export $variable=$conf$before$limit"},
    [VW__SETTING_TRIM_STEPS] = {.name = "empty_cache() after every step",
                                .how_of_pool = "vw_pool_trim(pool);"},
    [VW__SETTING_TRIM_PHASES] = {.name = "empty_cache() between phases",
                                 .action = "$empty_cache$serves",
                                 .cost = "$calls that wait for the GPU; $time",
                                 .how = "$empty_cache_code",
                                 .how_of_pool = "vw_pool_trim(pool);"},
    [VW__SETTING_VRAMWISE] = {.name = "engine vramwise",
                              .action = VW__DOCTOR_ENGINE_ACTION "$serves",
                              .cost = "$engine_cost; $time",
                              .how = VW__DOCTOR_ENGINE_HOW,
                              .how_of_pool = VW__DOCTOR_ENGINE_POOL_HOW},
    [VW__SETTING_KINDS] = {NULL, "set $conf$serves", "a restart; $time",
                           "export $variable=$conf$before",
                           "options.conf = \"$conf\";  /* vw_pool_options */"},
};

static const char *name_of(const vw__doctor_tried_setting *one)
{
    return kind_words[one->kind].name != NULL ? kind_words[one->kind].name : one->conf;
}

static const char *driver_time(vw__doctor_result *result, const vw__doctor_tried_settings *tried,
                               const vw__doctor_tried_setting *one)
{
    return vw__diagnosis_text(result->draft, "%s in the driver over the run instead of %s",
                              vw__diagnosis_duration(result->draft, one->device_ns),
                              vw__diagnosis_duration(result->draft, tried->tried[0].device_ns));
}

static void name_words(const vw__doctor_facts *facts, vw__doctor_result *result,
                       const vw__doctor_tried_settings *tried, const vw__doctor_tried_setting *one,
                       bool is_of_a_pool)
{
    vw__diagnosis_draft *draft = result->draft;
    const struct {
        const char *name, *text;
    } words[] = {
        {"conf", one->conf},
        {"variable", draft->settings_variable},
        {"recorded", vw__diagnosis_text(draft, "%.80s", tried->recorded_conf)},
        {"serves", !tried->is_as_failed || !one->is_served ? ""
                   : one->is_complete ? ": the request that failed is then served"
                                      : ": the request that failed is then served, a later one is "
                                        "not"},
        {"time", driver_time(result, tried, one)},
        {"calls", vw__diagnosis_count(draft, one->trims, "call")},
        {"engine_cost", is_of_a_pool ? VW__DOCTOR_ENGINE_POOL_COST : VW__DOCTOR_ENGINE_COST},
        {"empty_cache", vw__remedy_of(VW__REMEDY_EMPTY_CACHE)->action},
        {"empty_cache_code", vw__diagnosis_code(draft, VW__REMEDY_EMPTY_CACHE, NULL)},
        {"before", tried->recorded_conf[0] != '\0'
                       ? vw__diagnosis_text(draft, "\n# instead of %.60s", tried->recorded_conf)
                       : ""},
        {"limit",
         facts->failure.is_replayed
             ? "\ntorch.cuda.set_per_process_memory_fraction(1.0)  # it counts from a limit"
             : ""},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        vw__diagnosis_name_text(draft, words[i].name, words[i].text);
}

static const char *word_or(const char *own, const char *usual)
{
    return own != NULL ? own : usual;
}

/* ---- remedies -------------------------------------------------------------------------------- */

/* At a failure: of what the program wanted to hold then. */
static uint64_t saved_bytes(const vw__doctor_tried_settings *tried,
                            const vw__doctor_tried_setting *one)
{
    uint64_t before_bytes =
        tried->is_as_failed ? tried->wanted_bytes : tried->tried[0].peak_reserved_bytes;
    if (tried->is_as_failed && !one->is_served)
        return 0;
    return before_bytes > one->peak_reserved_bytes ? before_bytes - one->peak_reserved_bytes : 0;
}

/* Reserves a good deal more than it did; at a failure, where nothing can: fails sooner. */
static bool hurts(const vw__doctor_facts *facts, const vw__doctor_tried_settings *tried,
                  const vw__doctor_tried_setting *one)
{
    uint64_t recorded_bytes = tried->tried[0].peak_reserved_bytes;
    if (tried->is_as_failed)
        return !one->is_served && one->oom_event < facts->failure.event;
    return one->peak_reserved_bytes > recorded_bytes &&
           one->peak_reserved_bytes - recorded_bytes >= recorded_bytes / HURTS_SHARE;
}

static bool is_better(const vw__doctor_tried_settings *tried, const vw__doctor_tried_setting *one,
                      const vw__doctor_tried_setting *other)
{
    if (tried->is_as_failed && one->is_complete != other->is_complete)
        return one->is_complete;
    if (tried->is_as_failed && one->is_served != other->is_served)
        return one->is_served;
    return one->peak_reserved_bytes < other->peak_reserved_bytes;
}

/* The best of its kind, of those behind `tried[0]`; or NULL. */
static const vw__doctor_tried_setting *best_of_kind(const vw__doctor_tried_settings *tried,
                                                    unsigned kind)
{
    const vw__doctor_tried_setting *best = NULL;
    for (size_t i = 1; i < tried->count; i++)
        if (tried->tried[i].kind == kind &&
            (best == NULL || is_better(tried, &tried->tried[i], best)))
            best = &tried->tried[i];
    return best;
}

/* Options take the place of the recorded ones: what the defaults do as well is not theirs. */
static bool is_better_than_defaults(const vw__doctor_tried_settings *tried,
                                    const vw__doctor_tried_setting *one)
{
    const vw__doctor_tried_setting *defaults = best_of_kind(tried, VW__SETTING_DEFAULTS);
    bool is_option = one->kind == VW__SETTING_ROUNDUP || one->kind == VW__SETTING_MAX_SPLIT ||
                     one->kind == VW__SETTING_COLLECTION;
    if (defaults == NULL || !is_option)
        return true;
    if (tried->is_as_failed)
        return is_better(tried, one, defaults);
    return defaults->peak_reserved_bytes > one->peak_reserved_bytes &&
           defaults->peak_reserved_bytes - one->peak_reserved_bytes >= LEAST_WORTH_BYTES;
}

static bool is_worth_it(const vw__doctor_facts *facts, const vw__doctor_tried_settings *tried,
                        const vw__doctor_tried_setting *one)
{
    uint64_t saved = saved_bytes(tried, one);
    if (hurts(facts, tried, one) || !is_better_than_defaults(tried, one))
        return false;
    if (tried->is_as_failed)
        return one->is_served;
    if (one->kind == VW__SETTING_TRIM_PHASES)
        return vw__remedy_is_empty_cache_worth_it(saved, tried->tried[0].peak_reserved_bytes);
    return saved >= LEAST_WORTH_BYTES && saved >= tried->tried[0].peak_reserved_bytes / WORTH_SHARE;
}

/* "6.79 GiB"; at a failure "reserves 6.79 GiB", or where it ends. */
static const char *outcome_of(vw__doctor_result *result, const vw__doctor_tried_settings *tried,
                              const vw__doctor_tried_setting *one)
{
    const char *size = vw__diagnosis_size(result->draft, one->peak_reserved_bytes);
    if (!tried->is_as_failed)
        return size;
    if (one->is_complete)
        return vw__diagnosis_text(result->draft, "reserves %s", size);
    return one->oom_event != VW_UNKNOWN
               ? vw__diagnosis_text(result->draft, "fails at event %" PRIu64, one->oom_event)
               : "fails before the first event";
}

/* "Replayed under a limit of 7.73 GiB, the program reserves at most": what follows says how much.
 */
static const char *how_replayed(vw__doctor_result *result, const vw__doctor_tried_settings *tried)
{
    if (tried->card_bytes == VW_UNKNOWN)
        return "Replayed without a limit";
    return vw__diagnosis_text(result->draft, "Replayed %s %s",
                              tried->is_limited ? "under a limit of" : "on a card of",
                              VW__DOCTOR_SIZE(tried->card_bytes));
}

static void say_what_was_tried(vw__doctor_result *result, const vw__doctor_tried_settings *tried,
                               vw__diagnosis_finding *finding)
{
    vw__byte_buffer text;
    vw__byte_buffer_init(&text);
    for (unsigned kind = 0; kind < VW__SETTING_KINDS; kind++) {
        const vw__doctor_tried_setting *one =
            kind == VW__SETTING_RECORDED ? &tried->tried[0] : best_of_kind(tried, kind);
        if (one != NULL)
            vw__append_format(&text, "%s%s %s", kind == 0 ? "" : "; ", name_of(one),
                              outcome_of(result, tried, one));
    }
    if (vw__byte_buffer_has_failed(&text))
        result->draft->has_failed = true;
    else
        vw__diagnosis_evidence(finding, "%s%s: %s.", how_replayed(result, tried),
                               tried->is_as_failed ? "" : ", the program reserves at most",
                               vw__byte_buffer_text(&text));
    vw__byte_buffer_deinit(&text);
}

/* Those worth typing, in the order in which to try them. Our own engine is not one of them, nor is
 * empty_cache() in every step, which is tried only to warn of it. */
static size_t choose(const vw__doctor_facts *facts, const vw__doctor_tried_settings *tried,
                     const vw__doctor_tried_setting *best[VW__SETTING_KINDS])
{
    size_t count = 0;
    for (unsigned kind = VW__SETTING_RECORDED + 1; kind < VW__SETTING_KINDS; kind++) {
        const vw__doctor_tried_setting *one = best_of_kind(tried, kind);
        if (one == NULL || kind == VW__SETTING_VRAMWISE || kind == VW__SETTING_TRIM_STEPS ||
            !is_worth_it(facts, tried, one))
            continue;
        size_t place = count++;
        for (; place > 0 && is_better(tried, one, best[place - 1]); place--)
            best[place] = best[place - 1];
        best[place] = one;
    }
    return count;
}

uint64_t vw__doctor_best_saving(const vw__doctor_facts *facts,
                                const vw__doctor_tried_settings *tried)
{
    const vw__doctor_tried_setting *best[VW__SETTING_KINDS];
    if (choose(facts, tried, best) == 0)
        return 0;
    return tried->is_as_failed ? UINT64_MAX : saved_bytes(tried, best[0]);
}

/* Another allocator is named only for what no setting does: it serves what was refused, or gives
 * back as much again as makes a setting worth typing. */
static bool is_engine_worth_it(const vw__doctor_facts *facts,
                               const vw__doctor_tried_settings *tried,
                               const vw__doctor_tried_setting *engine,
                               const vw__doctor_tried_setting *best)
{
    uint64_t recorded_bytes = tried->tried[0].peak_reserved_bytes;
    if (engine == NULL || !is_worth_it(facts, tried, engine))
        return false;
    if (best == NULL || tried->is_as_failed)
        return best == NULL || (engine->is_complete && !best->is_complete);
    uint64_t more_bytes = best->peak_reserved_bytes > engine->peak_reserved_bytes
                              ? best->peak_reserved_bytes - engine->peak_reserved_bytes
                              : 0;
    return more_bytes >= LEAST_WORTH_BYTES && more_bytes >= recorded_bytes / WORTH_SHARE;
}

static void add_remedy(const vw__doctor_facts *facts, vw__doctor_result *result,
                       const vw__doctor_tried_settings *tried, const vw__doctor_tried_setting *one,
                       vw__diagnosis_finding *finding)
{
    vw__diagnosis_draft *draft = result->draft;
    bool is_known = !tried->is_as_failed || tried->wanted_bytes != 0;
    bool is_of_a_pool = facts->model != NULL && vw__recording_is_of_a_pool(facts->model);
    unsigned kind = one->kind, usual = VW__SETTING_KINDS;
    name_words(facts, result, tried, one, is_of_a_pool);
    const char *how = is_of_a_pool
                          ? word_or(kind_words[kind].how_of_pool, kind_words[usual].how_of_pool)
                          : word_or(kind_words[kind].how, kind_words[usual].how);
    vw__diagnosis_remedy(
        finding,
        vw__diagnosis_fill(draft, word_or(kind_words[kind].action, kind_words[usual].action)),
        is_known ? vw__diagnosis_saves(saved_bytes(tried, one)) : VW__DIAGNOSIS_SAVES_UNKNOWN,
        VW_BASIS_REPLAYED,
        vw__diagnosis_fill(draft, word_or(kind_words[kind].cost, kind_words[usual].cost)),
        vw__diagnosis_fill(draft, how));
    if (tried->is_as_failed && !tried->is_cut)
        vw__diagnosis_enough(finding, one->is_complete ? VW_ENOUGH_YES : VW_ENOUGH_NO);
}

void vw__doctor_add_setting_remedies(const vw__doctor_facts *facts, vw__doctor_result *result,
                                     const vw__doctor_tried_settings *tried,
                                     vw__diagnosis_finding *finding)
{
    const vw__doctor_tried_setting *best[VW__SETTING_KINDS];
    if (tried->count == 0)
        return;
    say_what_was_tried(result, tried, finding);
    size_t count = choose(facts, tried, best);
    for (size_t i = 0; i < count; i++)
        add_remedy(facts, result, tried, best[i], finding);
    const vw__doctor_tried_setting *engine = best_of_kind(tried, VW__SETTING_VRAMWISE);
    if (is_engine_worth_it(facts, tried, engine, count != 0 ? best[0] : NULL))
        add_remedy(facts, result, tried, engine, finding);
}

/* ---- warnings -------------------------------------------------------------------------------- */

/* The sizes that pages name. */
static void warn_of_max_split(const vw__doctor_facts *facts, vw__doctor_result *result,
                              const vw__doctor_tried_settings *tried)
{
    const vw__doctor_tried_setting *one = find_kind(tried, VW__SETTING_MAX_SPLIT);
    uint64_t recorded_bytes = tried->tried[0].peak_reserved_bytes;
    if (one == NULL || !hurts(facts, tried, one))
        return;
    vw__diagnosis_finding *finding =
        tried->is_as_failed
            ? vw__diagnosis_add(result->draft, "warning", VW_UNKNOWN,
                                "%s, which many pages recommend, would end this run sooner: at "
                                "event %" PRIu64 " instead of %" PRIu32 ".",
                                one->conf, one->oom_event, facts->failure.event)
            : vw__diagnosis_add(
                  result->draft, "warning", one->peak_reserved_bytes - recorded_bytes,
                  "%s, which many pages recommend, would make this run reserve %s instead of %s.",
                  one->conf, VW__DOCTOR_SIZE(one->peak_reserved_bytes),
                  VW__DOCTOR_SIZE(recorded_bytes));
    vw__diagnosis_evidence(finding, "%s: the whole run, with that setting.",
                           how_replayed(result, tried));
}

static void warn_of_trims(const vw__doctor_facts *facts, vw__doctor_result *result,
                          const vw__doctor_tried_settings *tried)
{
    const vw__doctor_tried_setting *recorded = &tried->tried[0];
    const vw__doctor_tried_setting *one = best_of_kind(tried, VW__SETTING_TRIM_STEPS);
    if (one == NULL || is_worth_it(facts, tried, one) ||
        one->device_ns < SLOWER_FACTOR * recorded->device_ns)
        return;
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        result->draft, "warning", tried->is_as_failed ? VW_UNKNOWN : saved_bytes(tried, one),
        "empty_cache() in every step would cost time and give back next to nothing here: %s.",
        driver_time(result, tried, one));
    vw__diagnosis_evidence(
        finding,
        "Replayed: %s are reserved at most with it, %s without. The wait for the "
        "GPU at each of the %" PRIu64 " calls comes on top.",
        VW__DOCTOR_SIZE(one->peak_reserved_bytes), VW__DOCTOR_SIZE(recorded->peak_reserved_bytes),
        one->trims);
}

void vw__doctor_add_setting_warnings(const vw__doctor_facts *facts, vw__doctor_result *result,
                                     const vw__doctor_tried_settings *tried)
{
    if (tried->count == 0)
        return;
    warn_of_max_split(facts, result, tried);
    warn_of_trims(facts, result, tried);
}
