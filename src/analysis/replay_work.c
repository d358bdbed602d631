/* replay_work.c - what the runs of one call share: the script, the version, the settings that the
 * recording was made with, where an empty_cache() is to be put in or left out, and the hints for a
 * run that spills.
 *
 * Hints: steps, blocks of an optimizer's state, and weights. A program under vramwise's allocator
 * gives these hints itself (vw_pool_mark_step(), vw_advise()): the Python package advises an
 * optimizer's state as cold, and the weights that an optimizer is given as hot. For a recording
 * they are concluded from steps.h and roles.h. Weights are advised only if something trains:
 * without an optimizer the Python package advises nothing. Without stacks nothing is advised, and
 * age decides.
 *
 * Roles belong to lifetimes of the timeline, and operations to the script. They meet at the event
 * of the request; blocks from before the recording, which have none, by address.
 *
 * For streams the same is known to replay_stream.c. */
#include "analysis/replay.h"

#include <stdlib.h> /* bsearch */
#include <string.h>

#include "analysis/attribution.h"
#include "analysis/live_bytes.h"
#include "analysis/recording.h" /* vw__recording_trace, vw__recording_version */
#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"
#include "engine/torch/torch_settings.h"

/* ---- the recorded settings ------------------------------------------------------------------- */

/* A recording of our own recorder names its engine: "torch" plays by PyTorch's rules. */
static const char *find_recorded_policy(const vw__model *model)
{
    uint32_t engine = model->settings.engine;
    const char *name = engine != VW__MODEL_NO_STRING ? vw__model_string(model, engine) : "";
    return vw__policy_is_vramwise(name) ? vw__policy_find(name)->name : "recorded";
}

static vw_status find_recorded_conf(vw__replay_work *work, const vw__model *model)
{
    vw__byte_buffer text;
    vw__byte_buffer_init(&text);
    vw_status status = vw__recording_conf(model, &text);
    size_t length = vw__byte_buffer_size(&text);
    work->is_recorded_conf_known = model->settings.is_known;
    work->recorded_conf = status == VW_OK ? vw__host_alloc(length + 1) : NULL;
    if (work->recorded_conf != NULL) {
        memcpy(work->recorded_conf, vw__byte_buffer_text(&text), length);
        work->recorded_conf[length] = '\0';
    } else if (status == VW_OK) {
        status = vw__fail_host_memory(length + 1, "an option string");
    }
    vw__byte_buffer_deinit(&text);
    return status;
}

/* ---- the recorded addresses ------------------------------------------------------------------ */

enum { MOST_UNSPLIT_TRIALS = 16 }; /* each takes as long as a replay */

static bool has_segment_event(const vw__model_trace *trace, const vw__script_op *op,
                              uint64_t *reserved_bytes)
{
    bool is_there = false;
    for (size_t i = op->first_event; i < op->end_event; i++) {
        const vw__model_event *event = &trace->events[i];
        bool is_taken = event->action == VW_ACTION_SEGMENT_ALLOC;
        if (!is_taken && event->action != VW_ACTION_SEGMENT_FREE)
            continue;
        *reserved_bytes += is_taken ? event->size_bytes : UINT64_C(0) - event->size_bytes;
        is_there = true;
    }
    return is_there;
}

static bool can_be_followed(const vw__script *script)
{
    const vw__model_trace *trace = script->trace;
    if (script->is_truncated || script->initial_count != 0 || script->dropped_event_count != 0)
        return false;
    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].action == VW_ACTION_SEGMENT_MAP ||
            trace->events[i].action == VW_ACTION_SEGMENT_UNMAP)
            return false;
    return true;
}

static vw_status add_followed(vw__replay_work *work)
{
    const vw__script *script = &work->script;
    uint64_t reserved_bytes = 0;
    size_t count = 0;
    if (vw__policy_is_vramwise(work->recorded_policy) || !can_be_followed(script))
        return VW_OK;
    for (size_t i = 0; i < script->op_count; i++)
        count += has_segment_event(script->trace, &script->ops[i], &reserved_bytes);
    work->followed = vw__host_alloc_zeroed(count, sizeof *work->followed);
    if (work->followed == NULL)
        return vw__fail_host_memory(count * sizeof *work->followed, "the segments of a trace");
    reserved_bytes = 0;
    for (size_t i = 0; i < script->op_count; i++)
        if (has_segment_event(script->trace, &script->ops[i], &reserved_bytes))
            work->followed[work->followed_count++] = (vw__replay_followed_op){i, reserved_bytes};
    return VW_OK;
}

/* Finds pools made with no_split: those with which more of the recording comes out. The program
 * chose that, so it holds in runs under other settings too. */
static vw_status add_unsplit(vw__replay_work *work, vw__notes *notes)
{
    const vw__script *script = &work->script;
    size_t length = 0, trial_count = 0;
    if (work->followed_count == 0 || !work->is_recorded_conf_usable || script->pool_count < 2)
        return VW_OK;
    work->is_unsplit = vw__host_alloc_zeroed(script->pool_count, sizeof *work->is_unsplit);
    if (work->is_unsplit == NULL)
        return vw__fail_host_memory(script->pool_count, "private pools");
    VW__TRY(vw__replay_follow_length(work, vw__replay_card_without_end(), &length, NULL));
    for (uint16_t i = 1; i < script->pool_count && length < work->followed_count &&
                         trial_count < MOST_UNSPLIT_TRIALS;
         i++) {
        size_t unsplit_length = 0;
        bool is_possible = false;
        VW__TRY(vw__script_may_be_unsplit(script, i, &is_possible));
        if (!is_possible)
            continue;
        trial_count++;
        work->is_unsplit[i] = true;
        VW__TRY(
            vw__replay_follow_length(work, vw__replay_card_without_end(), &unsplit_length, NULL));
        work->is_unsplit[i] = unsplit_length > length;
        if (!work->is_unsplit[i])
            continue;
        length = unsplit_length;
        vw__notes_add(notes, "A private pool was taken for one made with no_split: all of its "
                             "blocks lie at the start of a segment.");
    }
    return VW_OK;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void note_script(const vw__replay_work *work, vw__notes *notes)
{
    const vw__script *script = &work->script;
    char text[VW__HUMAN_SIZE_BYTES];
    if (vw__policy_is_vramwise(work->recorded_policy))
        vw__notes_add(notes, "The recording was made with engine %s, not PyTorch's allocator.",
                      work->recorded_policy);
    if (script->is_truncated)
        vw__notes_add(notes,
                      "The recording does not begin at the first allocation: what was live "
                      "before it (%zu block%s, %s) is allocated first, in the order of addresses.",
                      script->initial_count, script->initial_count == 1 ? "" : "s",
                      vw__human_size(script->initial_live_bytes, text));
    if (script->has_guessed_pools)
        vw__notes_add(notes, "The private pool of some segments that were given back before the "
                             "end is not recorded; it was concluded from the requests around "
                             "them.");
    if (script->has_guessed_releases)
        vw__notes_add(notes, "Without stacks nothing tells an empty_cache() from memory given "
                             "back inside a request: it was concluded from the events around "
                             "it.");
    if (script->dropped_event_count != 0)
        vw__notes_add(notes, "Left out, as nothing before fits: %zu event%s.",
                      script->dropped_event_count, script->dropped_event_count == 1 ? "" : "s");
}

/* Notes an option string that this version refuses. */
static vw_status check_recorded_conf(vw__replay_work *work, vw__notes *notes)
{
    bool is_default = false;
    vw_status status =
        vw__replay_same_settings(work->torch_version, work->recorded_conf, "", &is_default);
    work->is_recorded_conf_usable = status == VW_OK;
    if (!work->is_recorded_conf_known)
        vw__notes_add(notes,
                      "The recording does not tell its settings (PyTorch 2.3 and later do): "
                      "\"%s\" was assumed.",
                      work->recorded_conf);
    if (status == VW_ERR_BAD_SETTING || status == VW_ERR_TOO_LARGE) {
        vw__notes_add(notes, "The recorded settings \"%.200s\" cannot be used with PyTorch %s: %s",
                      work->recorded_conf, work->torch_version, vw_last_error());
        return VW_OK;
    }
    return status;
}

static void note_other_devices(const vw__model *model, const vw__model_trace *trace,
                               vw__notes *notes)
{
    size_t other_count = 0;
    for (size_t i = 0; i < model->trace_count; i++)
        if (&model->traces[i] != trace && model->traces[i].event_count != 0 &&
            model->traces[i].device != VW__MODEL_HOST_DEVICE)
            other_count++;
    if (other_count != 0)
        vw__notes_add(notes, "Device %d was replayed; %zu other device%s in the recording.",
                      trace->device, other_count, other_count == 1 ? " is" : "s are");
}

vw_status vw__replay_work_init(vw__replay_work *work, const vw__model *model,
                               const char *wanted_version, int device, vw__notes *notes)
{
    const vw__model_trace *trace = NULL;
    *work = (vw__replay_work){.step_ns = VW_UNKNOWN};
    VW__TRY(vw__recording_trace(model, device, &trace));
    VW__TRY(vw__recording_version(model, wanted_version, &work->torch_version));
    work->recorded_policy = find_recorded_policy(model);
    VW__TRY(find_recorded_conf(work, model));
    vw_status status = check_recorded_conf(work, notes);
    if (status == VW_OK)
        status = vw__script_make(model, trace, &work->script);
    if (status != VW_OK) {
        vw__host_free(work->recorded_conf);
        return status;
    }
    status = add_followed(work);
    if (status == VW_OK)
        status = add_unsplit(work, notes);
    if (status != VW_OK) {
        vw__replay_work_deinit(work);
        return status;
    }
    note_other_devices(model, trace, notes);
    note_script(work, notes);
    return VW_OK;
}

void vw__replay_work_deinit(vw__replay_work *work)
{
    vw__script_deinit(&work->script);
    vw__host_free(work->followed);
    vw__host_free(work->is_unsplit);
    vw__host_free(work->trims);
    vw__replay_work_drop_spill(work);
    vw__host_free(work->recorded_conf);
    *work = (vw__replay_work){.trim_count = 0};
}

/* ---- empty_cache() --------------------------------------------------------------------------- */

/* Stores the operations before which each `every`-th of `end_count` rising events comes; several
 * events may share one. `out` has room for `end_count`. Returns how many were stored. */
static size_t place_ends(const vw__script *script, const uint32_t *ends, size_t end_count,
                         uint64_t every, size_t *out)
{
    size_t count = 0, next_end = every - 1 < end_count ? (size_t)(every - 1) : end_count;
    for (size_t i = 0; i < script->op_count && next_end < end_count; i++) {
        const vw__script_op *op = &script->ops[i];
        if (op->first_event == VW__SCRIPT_BEFORE_RECORDING || op->end_event <= ends[next_end])
            continue;
        out[count++] = i;
        while (next_end < end_count && ends[next_end] < op->end_event)
            next_end = every < end_count - next_end ? next_end + (size_t)every : end_count;
    }
    return count;
}

static vw_status add_trims(vw__replay_work *work, vw_empty_cache kind, uint64_t every,
                           const vw__steps *steps, vw__notes *notes)
{
    bool is_by_step = kind == VW_EMPTY_CACHE_STEPS;
    size_t end_count = is_by_step ? steps->end_count : steps->phase_end_count;
    if (end_count == 0)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "no %s was found in the recording: empty_cache() cannot be put behind it. "
                        "Expected annotations (ProfilerStep#n), stacks of an optimizer, or a low "
                        "of live bytes that comes back",
                        is_by_step ? "training step" : "phase that ends");
    work->trims = vw__host_alloc_zeroed(end_count, sizeof *work->trims);
    if (work->trims == NULL)
        return vw__fail_host_memory(end_count * sizeof *work->trims, "the ends of steps");
    work->trim_count = place_ends(&work->script, is_by_step ? steps->ends : steps->phase_ends,
                                  end_count, is_by_step && every != 0 ? every : 1, work->trims);
    vw__notes_add(notes, "%zu call%s of empty_cache() %s put in, at the ends of %s found by %s.",
                  work->trim_count, work->trim_count == 1 ? "" : "s",
                  work->trim_count == 1 ? "was" : "were", is_by_step ? "steps" : "phases",
                  steps->basis != NULL ? steps->basis : "the trace");
    return VW_OK;
}

/* Lets the player leave out the recorded calls, and notes how many. */
static void skip_empty_cache(vw__replay_work *work, vw__notes *notes)
{
    const vw__script *script = &work->script;
    size_t skipped_count = 0, kept_count = 0;
    for (size_t i = 0; i < script->op_count; i++) {
        if (script->ops[i].kind != VW__SCRIPT_TRIM)
            continue;
        skipped_count += script->ops[i].pool == VW__MODEL_DEFAULT_POOL;
        kept_count += script->ops[i].pool != VW__MODEL_DEFAULT_POOL;
    }
    work->skips_empty_cache = skipped_count + kept_count != 0;
    vw__notes_add(notes, "%zu call%s of empty_cache() that gave memory back %s left out.",
                  skipped_count, skipped_count == 1 ? "" : "s",
                  skipped_count == 1 ? "was" : "were");
    if (kept_count != 0)
        vw__notes_add(notes,
                      "Nothing but one private pool's memory went %zu time%s, as when a MemPool "
                      "is destroyed: that was not left out.",
                      kept_count, kept_count == 1 ? "" : "s");
}

vw_status vw__replay_work_add_trims(vw__replay_work *work, vw_empty_cache kind, uint64_t every,
                                    vw__notes *notes, uint64_t *step_count)
{
    vw__steps steps;
    VW__TRY(vw__steps_find(work->script.model, work->script.trace, &steps));
    *step_count = steps.end_count;
    vw_status status = VW_OK;
    if (kind == VW_EMPTY_CACHE_NEVER)
        skip_empty_cache(work, notes);
    else if (kind != VW_EMPTY_CACHE_AS_RECORDED)
        status = add_trims(work, kind, every, &steps, notes);
    vw__steps_deinit(&steps);
    return status;
}

/* ---- hints for spilling: blocks -------------------------------------------------------------- */

typedef struct lifetime_search {
    const vw__script *script;
    const vw__timeline *timeline;
    uint32_t *by_instant; /* owned; the lifetime that begins there */
    uint32_t *early;      /* owned; by script->initial_addresses */
} lifetime_search;

static int compare_addresses(const void *left, const void *right)
{
    const uint64_t *one = left, *other = right;
    return (*one > *other) - (*one < *other);
}

static void place_early(lifetime_search *search, uint64_t address, uint32_t lifetime)
{
    const uint64_t *addresses = search->script->initial_addresses;
    const uint64_t *found = bsearch(&address, addresses, search->script->initial_count,
                                    sizeof *addresses, compare_addresses);
    if (found != NULL)
        search->early[found - addresses] = lifetime;
}

static void read_lifetimes(lifetime_search *search)
{
    for (size_t i = 0; i < search->timeline->lifetime_count; i++) {
        const vw__lifetime *lifetime = &search->timeline->lifetimes[i];
        if (lifetime->begin == 0)
            place_early(search, lifetime->address, (uint32_t)i);
        else
            search->by_instant[lifetime->begin] = (uint32_t)i;
    }
}

static void place_lifetimes(const lifetime_search *search, uint32_t *out)
{
    const vw__script *script = search->script;
    size_t early_place = 0;
    for (size_t i = 0; i < script->op_count; i++) {
        const vw__script_op *op = &script->ops[i];
        out[i] = VW__REPLAY_NO_LIFETIME;
        if (op->kind != VW__SCRIPT_ALLOC || op->size_bytes == 0)
            continue;
        out[i] = op->first_event == VW__SCRIPT_BEFORE_RECORDING ? search->early[early_place++]
                                                                : search->by_instant[op->end_event];
    }
}

vw_status vw__replay_find_lifetimes(const vw__script *script, const vw__timeline *timeline,
                                    uint32_t **out)
{
    size_t instant_count = timeline->trace->event_count + 1;
    size_t count = instant_count + script->initial_count + 1;
    uint32_t *scratch = vw__host_alloc(count * sizeof *scratch);
    *out = vw__host_alloc_zeroed(script->op_count + 1, sizeof **out);
    bool has_memory = scratch != NULL && *out != NULL;
    if (has_memory) {
        lifetime_search search = {script, timeline, scratch, scratch + instant_count};
        memset(scratch, 0xff, count * sizeof *scratch); /* VW__REPLAY_NO_LIFETIME */
        read_lifetimes(&search);
        place_lifetimes(&search, *out);
    } else {
        vw__host_free(*out);
        *out = NULL;
    }
    vw__host_free(scratch);
    return has_memory ? VW_OK
                      : vw__fail_host_memory((count + script->op_count) * sizeof *scratch,
                                             "the blocks of a script");
}

/* Returns whether something trains. An optimizer's step need not ask for memory; a backward pass
 * shows that there is one. */
static bool is_training(const vw__roles *roles)
{
    size_t i = 0;
    while (i < roles->pass_count && roles->passes[i].kind != VW__ROLES_PASS_BACKWARD &&
           roles->passes[i].kind != VW__ROLES_PASS_OPTIMIZER)
        i++;
    return i < roles->pass_count;
}

static uint8_t advice_for(uint8_t role, bool trains)
{
    if (role == VW__ROLE_OPTIMIZER)
        return VW_ADVISE_COLD;
    return role == VW__ROLE_WEIGHTS && trains ? VW_ADVISE_HOT : VW_ADVISE_NORMAL;
}

static vw_status find_advice(vw__replay_work *work, const vw__timeline *timeline,
                             const vw__roles *roles)
{
    uint32_t *lifetimes = NULL;
    bool trains = is_training(roles);
    size_t op_count = work->script.op_count;
    VW__TRY(vw__replay_find_lifetimes(&work->script, timeline, &lifetimes));
    work->advice = vw__host_alloc_zeroed(op_count + 1, sizeof *work->advice);
    for (size_t i = 0; i < op_count && work->advice != NULL; i++)
        if (lifetimes[i] != VW__REPLAY_NO_LIFETIME)
            work->advice[i] = advice_for(roles->roles[lifetimes[i]], trains);
    vw__host_free(lifetimes);
    return work->advice != NULL ? VW_OK
                                : vw__fail_host_memory(op_count, "what blocks are advised as");
}

/* ---- hints for spilling: steps --------------------------------------------------------------- */

static vw_status place_steps(vw__replay_work *work, const vw__steps *steps)
{
    work->steps = vw__host_alloc_zeroed(steps->end_count + 1, sizeof *work->steps);
    if (work->steps == NULL)
        return vw__fail_host_memory(steps->end_count * sizeof *work->steps, "the ends of steps");
    work->step_count = place_ends(&work->script, steps->ends, steps->end_count, 1, work->steps);
    return VW_OK;
}

vw_status vw__replay_work_add_spill_by(vw__replay_work *work, const vw__timeline *timeline,
                                       const vw__steps *steps, const vw__roles *roles,
                                       bool has_streams)
{
    VW__TRY(place_steps(work, steps));
    VW__TRY(vw__steps_usual_ns(work->script.trace, steps, &work->step_ns));
    VW__TRY(find_advice(work, timeline, roles));
    return has_streams
               ? vw__replay_stream_make(&work->script, timeline, steps, roles, &work->stream)
               : VW_OK;
}

void vw__replay_work_drop_spill(vw__replay_work *work)
{
    vw__host_free(work->steps);
    vw__host_free(work->advice);
    vw__replay_stream_free(work->stream);
    vw__replay_work_clear_spill(work);
}

void vw__replay_work_clear_spill(vw__replay_work *work)
{
    work->steps = NULL;
    work->step_count = 0;
    work->step_ns = VW_UNKNOWN;
    work->advice = NULL;
    work->stream = NULL;
}

/* ---- hints for spilling: found --------------------------------------------------------------- */

typedef struct advised {
    size_t count;
    uint64_t bytes;
} advised;

static advised count_advised(const vw__replay_work *work, vw_advice advice)
{
    advised found = {0, 0};
    for (size_t i = 0; i < work->script.op_count; i++) {
        if (work->advice[i] != (uint8_t)advice)
            continue;
        found.count += 1;
        found.bytes += vw__lifetime_bytes_of(work->script.ops[i].size_bytes);
    }
    return found;
}

static void note_advice(const vw__replay_work *work, const vw__steps *steps, vw__notes *notes)
{
    advised cold = count_advised(work, VW_ADVISE_COLD), hot = count_advised(work, VW_ADVISE_HOT);
    char text[VW__HUMAN_SIZE_BYTES];
    if (steps->end_count == 0)
        vw__notes_add(notes, "No training step was found in the recording: of what is spilled, "
                             "that which is cold or settled stays there, and what it costs a "
                             "step is not known.");
    if (cold.count != 0)
        vw__notes_add(notes,
                      "%zu blocks of an optimizer's state (%s) are taken to be advised as cold, "
                      "by their stacks: they leave the device first.",
                      cold.count, vw__human_size(cold.bytes, text));
    else
        vw__notes_add(notes, "No block is known to be an optimizer's state: which leave the "
                             "device first is decided by age.");
    if (hot.count != 0)
        vw__notes_add(notes,
                      "%zu blocks of weights (%s) are taken to be advised as hot, by their "
                      "stacks: they leave the device last.",
                      hot.count, vw__human_size(hot.bytes, text));
}

typedef struct spill_parts {
    vw__timeline timeline;
    vw__attribution attribution;
    vw__steps steps;
    vw__roles roles;
} spill_parts;

/* The caller frees the parts, also on failure. */
static vw_status make_parts(const vw__replay_work *work, spill_parts *parts)
{
    const vw__script *script = &work->script;
    VW__TRY(vw__timeline_make(script->model, script->trace, &parts->timeline));
    VW__TRY(vw__attribution_init(&parts->attribution, script->model));
    VW__TRY(vw__steps_find_in(&parts->timeline, &parts->attribution, &parts->steps));
    return vw__roles_find(&parts->timeline, &parts->attribution, &parts->steps, &parts->roles);
}

vw_status vw__replay_work_add_spill(vw__replay_work *work, bool has_streams, vw__notes *notes)
{
    spill_parts parts = {.steps.end_count = 0};
    vw_status status = make_parts(work, &parts);
    if (status == VW_OK)
        status = vw__replay_work_add_spill_by(work, &parts.timeline, &parts.steps, &parts.roles,
                                              has_streams);
    if (status == VW_OK)
        note_advice(work, &parts.steps, notes);
    vw__roles_deinit(&parts.roles);
    vw__steps_deinit(&parts.steps);
    vw__attribution_deinit(&parts.attribution);
    vw__timeline_deinit(&parts.timeline);
    return status;
}

/* ---- option strings of policies -------------------------------------------------------------- */

vw_status vw__replay_name_run(const vw__replay_work *work, const char *policy, const char *own_conf,
                              const char **name, const char **conf)
{
    const vw__policy *found = vw__policy_find(policy);
    if (found == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "unknown policy \"%s\": " VW__POLICY_NAMES " is expected", policy);
    bool is_recorded = strcmp(found->name, "recorded") == 0;
    *name = is_recorded ? work->recorded_policy : found->name;
    *conf = is_recorded ? work->recorded_conf : found->conf;
    if (*conf == NULL)
        *conf = own_conf;
    return *conf != NULL ? VW_OK
                         : vw__fail(VW_ERR_INVALID_ARGUMENT, "policy conf needs an option string");
}

vw_status vw__replay_check_recorded(const vw__replay_work *work, const char *policy,
                                    bool is_version_asked_for)
{
    if (work->is_recorded_conf_usable || strcmp(policy, "recorded") != 0)
        return VW_OK;
    return vw__fail(is_version_asked_for ? VW_ERR_BAD_SETTING : VW_ERR_CORRUPT_FILE,
                    "expected settings that PyTorch %s can use, found \"%.200s\" in the recording",
                    work->torch_version, work->recorded_conf);
}

vw__replay_setting vw__replay_recorded_setting(const vw__replay_work *work)
{
    return vw__policy_setting(work->recorded_policy,
                              work->is_recorded_conf_usable ? work->recorded_conf : "");
}

/* ---- settings that come to the same ---------------------------------------------------------- */

static bool have_same_effect(const vw__torch_settings *a, const vw__torch_settings *b)
{
    return a->max_split_size_bytes == b->max_split_size_bytes &&
           a->max_non_split_rounding_bytes == b->max_non_split_rounding_bytes &&
           a->large_segment_size_bytes == b->large_segment_size_bytes &&
           a->garbage_collection_threshold == b->garbage_collection_threshold &&
           a->has_roundup == b->has_roundup && a->is_expandable == b->is_expandable &&
           memcmp(a->roundup_divisions, b->roundup_divisions, sizeof a->roundup_divisions) == 0 &&
           a->roundup_bypass_bytes == b->roundup_bypass_bytes &&
           a->throw_on_device_oom == b->throw_on_device_oom &&
           a->per_process_memory_fraction == b->per_process_memory_fraction;
}

vw_status vw__replay_same_settings(const char *torch_version, const char *conf,
                                   const char *other_conf, bool *out)
{
    vw__torch_settings settings, other;
    VW__TRY(vw__recording_read_conf(torch_version, conf, &settings));
    vw_status status = vw__recording_read_conf(torch_version, other_conf, &other);
    if (status == VW_OK) {
        *out = have_same_effect(&settings, &other);
        vw__torch_settings_deinit(&other);
    }
    vw__torch_settings_deinit(&settings);
    return status;
}
