/* replay_spill.c - the hints of a run that spills: steps, blocks of an optimizer's state, and
 * weights.
 *
 * A program under vramwise's allocator gives these hints itself (vw_pool_mark_step(), vw_advise()):
 * the Python package advises an optimizer's state as cold, and the weights that an optimizer is
 * given as hot. For a recording they are concluded from steps.h and roles.h. Weights are advised
 * only if something trains: without an optimizer the Python package advises nothing. Without stacks
 * nothing is advised, and age decides.
 *
 * Roles belong to lifetimes of the timeline, and operations to the script. They meet at the event
 * of the request; blocks from before the recording, which have none, by address. */
#include "analysis/replay.h"

#include <stdlib.h> /* bsearch */

#include "analysis/attribution.h"
#include "analysis/live_bytes.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"

/* ---- which blocks ---------------------------------------------------------------------------- */

typedef struct advice_search {
    const vw__script *script;
    const vw__timeline *timeline;
    const vw__roles *roles;
    uint8_t *advice;       /* by operation: vw_advice */
    uint8_t *advice_at;    /* owned; by instant: of the block that begins there */
    uint8_t *early_advice; /* owned; by script->initial_addresses */
} advice_search;

static int compare_addresses(const void *left, const void *right)
{
    const uint64_t *one = left, *other = right;
    return (*one > *other) - (*one < *other);
}

static void advise_early(advice_search *search, uint64_t address, uint8_t advice)
{
    const uint64_t *addresses = search->script->initial_addresses;
    const uint64_t *found = bsearch(&address, addresses, search->script->initial_count,
                                    sizeof *addresses, compare_addresses);
    if (found != NULL)
        search->early_advice[found - addresses] = advice;
}

/* Returns whether something trains. An optimizer's step need not ask for memory; a backward pass
 * shows that there is one. */
static bool is_training(const vw__roles *roles)
{
    size_t i = 0;
    while (i < roles->pass_count && roles->passes[i].kind != VW__PASS_BACKWARD &&
           roles->passes[i].kind != VW__PASS_OPTIMIZER)
        i++;
    return i < roles->pass_count;
}

static uint8_t advice_for(uint8_t role, bool trains)
{
    if (role == VW__ROLE_OPTIMIZER)
        return VW_ADVISE_COLD;
    return role == VW__ROLE_WEIGHTS && trains ? VW_ADVISE_HOT : VW_ADVISE_NORMAL;
}

static void read_lifetimes(advice_search *search)
{
    bool trains = is_training(search->roles);
    for (size_t i = 0; i < search->timeline->lifetime_count; i++) {
        const vw__lifetime *lifetime = &search->timeline->lifetimes[i];
        uint8_t advice = advice_for(search->roles->roles[i], trains);
        if (lifetime->begin == 0)
            advise_early(search, lifetime->address, advice);
        else
            search->advice_at[lifetime->begin] = advice;
    }
}

static void advise_operations(advice_search *search)
{
    const vw__script *script = search->script;
    size_t early_place = 0;
    for (size_t i = 0; i < script->op_count; i++) {
        const vw__script_op *op = &script->ops[i];
        if (op->kind != VW__SCRIPT_ALLOC || op->size_bytes == 0)
            continue;
        search->advice[i] = op->first_event == VW__SCRIPT_BEFORE_RECORDING
                                ? search->early_advice[early_place++]
                                : search->advice_at[op->end_event];
    }
}

static vw_status find_advice(vw__replay_work *work, const vw__timeline *timeline,
                             const vw__roles *roles)
{
    size_t instant_count = timeline->trace->event_count + 1;
    size_t early_count = work->script.initial_count;
    advice_search search = {
        .script = &work->script,
        .timeline = timeline,
        .roles = roles,
        .advice = vw__host_alloc_zeroed(work->script.op_count + 1, sizeof(uint8_t)),
        .advice_at = vw__host_alloc_zeroed(instant_count, sizeof(uint8_t)),
        .early_advice = vw__host_alloc_zeroed(early_count + 1, sizeof(uint8_t)),
    };
    work->advice = search.advice;
    vw_status status = VW_OK;
    if (search.advice == NULL || search.advice_at == NULL || search.early_advice == NULL) {
        status = vw__fail_host_memory(work->script.op_count + instant_count + early_count,
                                      "what blocks are advised as");
    } else {
        read_lifetimes(&search);
        advise_operations(&search);
    }
    vw__host_free(search.advice_at);
    vw__host_free(search.early_advice);
    return status;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static vw_status place_steps(vw__replay_work *work, const vw__steps *steps)
{
    work->steps = vw__host_alloc_zeroed(steps->end_count + 1, sizeof *work->steps);
    if (work->steps == NULL)
        return vw__fail_host_memory(steps->end_count * sizeof *work->steps, "the ends of steps");
    work->step_count =
        vw__replay_place_ends(&work->script, steps->ends, steps->end_count, 1, work->steps);
    return VW_OK;
}

vw_status vw__replay_work_add_spill_by(vw__replay_work *work, const vw__timeline *timeline,
                                       const vw__steps *steps, const vw__roles *roles)
{
    VW__TRY(place_steps(work, steps));
    return find_advice(work, timeline, roles);
}

/* ---- from the beginning ---------------------------------------------------------------------- */

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
        found.bytes += vw__live_bytes_of(work->script.ops[i].size_bytes);
    }
    return found;
}

static void note_advice(const vw__replay_work *work, const vw__steps *steps, vw__notes *notes)
{
    advised cold = count_advised(work, VW_ADVISE_COLD), hot = count_advised(work, VW_ADVISE_HOT);
    char text[VW__SIZE_TEXT_BYTES];
    if (steps->end_count == 0)
        vw__notes_add(notes, "No training step was found in the recording: of what is spilled, "
                             "that which is cold or settled stays there, and what it costs a "
                             "step is not known.");
    if (cold.count != 0)
        vw__notes_add(notes,
                      "%zu blocks of an optimizer's state (%s) are taken to be advised as cold, "
                      "by their stacks: they leave the device first.",
                      cold.count, vw__format_size(cold.bytes, text));
    else
        vw__notes_add(notes, "No block is known to be an optimizer's state: which leave the "
                             "device first is decided by age.");
    if (hot.count != 0)
        vw__notes_add(notes,
                      "%zu blocks of weights (%s) are taken to be advised as hot, by their "
                      "stacks: they leave the device last.",
                      hot.count, vw__format_size(hot.bytes, text));
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

vw_status vw__replay_work_add_spill(vw__replay_work *work, vw__notes *notes)
{
    spill_parts parts = {.steps.end_count = 0};
    vw_status status = make_parts(work, &parts);
    if (status == VW_OK)
        status = vw__replay_work_add_spill_by(work, &parts.timeline, &parts.steps, &parts.roles);
    if (status == VW_OK)
        note_advice(work, &parts.steps, notes);
    vw__roles_deinit(&parts.roles);
    vw__steps_deinit(&parts.steps);
    vw__attribution_deinit(&parts.attribution);
    vw__timeline_deinit(&parts.timeline);
    return status;
}
