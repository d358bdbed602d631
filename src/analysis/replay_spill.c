/* replay_spill.c - what a run that spills is told of the program: its steps, and which blocks are
 * an optimizer's state.
 *
 * A program under headroom's allocator says both itself (hr_pool_mark_step(), hr_advise()): the
 * Python package does so for it. Of a recording they are concluded, by the rules that everything
 * else goes by: steps.h, and roles.h for blocks that an optimizer made and kept. Where there are no
 * stacks nothing is advised, and age decides, as it would for a program that says nothing.
 *
 * Roles belong to lifetimes of the timeline, and operations to the script. They meet at the event
 * of the request; of blocks from before the recording, which have none, at their place in the order
 * of addresses, which both count alike. */
#include "analysis/replay.h"

#include <stdlib.h> /* qsort */

#include "analysis/attribution.h"
#include "analysis/live_bytes.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"

/* ---- which blocks ---------------------------------------------------------------------------- */

/* Of blocks from before the recording. */
typedef struct early_block {
    uint64_t address;
    uint64_t size_bytes;
    bool is_cold;
} early_block;

typedef struct cold_search {
    const hr__script *script;
    const hr__timeline *timeline;
    const hr__roles *roles;
    bool *is_cold;      /* by operation */
    bool *is_cold_at;   /* owned; by instant: the block that begins there */
    early_block *early; /* owned; by rising address */
    size_t early_count;
} cold_search;

static int compare_early(const void *left, const void *right)
{
    const early_block *one = left, *other = right;
    return (one->address > other->address) - (one->address < other->address);
}

static size_t count_early(const hr__timeline *timeline)
{
    size_t count = 0;
    for (size_t i = 0; i < timeline->lifetime_count; i++)
        count += timeline->lifetimes[i].begin == 0;
    return count;
}

static void read_lifetimes(cold_search *search)
{
    for (size_t i = 0; i < search->timeline->lifetime_count; i++) {
        const hr__lifetime *lifetime = &search->timeline->lifetimes[i];
        bool is_cold = search->roles->roles[i] == HR__ROLE_OPTIMIZER;
        if (lifetime->begin != 0)
            search->is_cold_at[lifetime->begin] |= is_cold;
        else
            search->early[search->early_count++] =
                (early_block){lifetime->address, lifetime->size_bytes, is_cold};
    }
    if (search->early_count != 0)
        qsort(search->early, search->early_count, sizeof *search->early, compare_early);
}

/* Where both do not count alike, the file contradicts itself: nothing is said of those blocks. */
static bool is_cold_early(const cold_search *search, size_t place, uint64_t size_bytes)
{
    return search->early_count == search->script->initial_count && place < search->early_count &&
           search->early[place].is_cold &&
           search->early[place].size_bytes == hr__live_bytes_of(size_bytes);
}

static void advise_operations(cold_search *search)
{
    const hr__script *script = search->script;
    size_t early_place = 0;
    for (size_t i = 0; i < script->op_count; i++) {
        const hr__script_op *op = &script->ops[i];
        if (op->kind != HR__SCRIPT_ALLOC || op->size_bytes == 0)
            continue;
        search->is_cold[i] = op->first_event == HR__BEFORE_RECORDING
                                 ? is_cold_early(search, early_place++, op->size_bytes)
                                 : search->is_cold_at[op->end_event];
    }
}

static hr_status find_cold(hr__replay_work *work, const hr__timeline *timeline,
                           const hr__roles *roles)
{
    size_t instant_count = timeline->trace->event_count + 1;
    size_t early_count = count_early(timeline);
    cold_search search = {
        .script = &work->script,
        .timeline = timeline,
        .roles = roles,
        .is_cold = hr__host_alloc_zeroed(work->script.op_count + 1, sizeof(bool)),
        .is_cold_at = hr__host_alloc_zeroed(instant_count, sizeof(bool)),
        .early = hr__host_alloc_zeroed(early_count + 1, sizeof(early_block)),
    };
    work->is_cold = search.is_cold;
    hr_status status = HR_OK;
    if (search.is_cold == NULL || search.is_cold_at == NULL || search.early == NULL) {
        status = hr__fail_host_memory(work->script.op_count + instant_count +
                                          early_count * sizeof(early_block),
                                      "the blocks of an optimizer");
    } else {
        read_lifetimes(&search);
        advise_operations(&search);
    }
    hr__host_free(search.is_cold_at);
    hr__host_free(search.early);
    return status;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static hr_status place_steps(hr__replay_work *work, const hr__steps *steps)
{
    work->steps = hr__host_alloc_zeroed(steps->end_count + 1, sizeof *work->steps);
    if (work->steps == NULL)
        return hr__fail_host_memory(steps->end_count * sizeof *work->steps, "the ends of steps");
    work->step_count =
        hr__replay_place_ends(&work->script, steps->ends, steps->end_count, 1, work->steps);
    return HR_OK;
}

hr_status hr__replay_work_add_spill_by(hr__replay_work *work, const hr__timeline *timeline,
                                       const hr__steps *steps, const hr__roles *roles)
{
    HR__TRY(place_steps(work, steps));
    return find_cold(work, timeline, roles);
}

/* ---- from the beginning ---------------------------------------------------------------------- */

static void note_advice(const hr__replay_work *work, const hr__steps *steps,
                        hr__replay_notes *notes)
{
    const hr__script *script = &work->script;
    uint64_t cold_bytes = 0;
    size_t cold_count = 0;
    char text[HR__SIZE_TEXT_BYTES];
    for (size_t i = 0; i < script->op_count; i++) {
        cold_count += work->is_cold[i];
        cold_bytes += work->is_cold[i] ? hr__live_bytes_of(script->ops[i].size_bytes) : 0;
    }
    if (steps->end_count == 0)
        hr__replay_note(notes, "No training step was found in the recording: what is spilled does "
                               "not come back, and what it costs a step is not known.");
    if (cold_count != 0)
        hr__replay_note(notes,
                        "%zu blocks of an optimizer's state (%s) are taken to be advised as cold, "
                        "by their stacks: they leave the device first.",
                        cold_count, hr__format_size(cold_bytes, text));
    else
        hr__replay_note(notes, "No block is known to be an optimizer's state: which leave the "
                               "device first is decided by age.");
}

typedef struct spill_parts {
    hr__timeline timeline;
    hr__attribution attribution;
    hr__steps steps;
    hr__roles roles;
} spill_parts;

/* What was made is given back by the caller, also where the rest failed. */
static hr_status make_parts(const hr__replay_work *work, spill_parts *parts)
{
    const hr__script *script = &work->script;
    HR__TRY(hr__timeline_make(script->model, script->trace, &parts->timeline));
    HR__TRY(hr__attribution_init(&parts->attribution, script->model));
    HR__TRY(hr__steps_find_in(&parts->timeline, &parts->attribution, &parts->steps));
    return hr__roles_find(&parts->timeline, &parts->attribution, &parts->steps, &parts->roles);
}

hr_status hr__replay_work_add_spill(hr__replay_work *work, hr__replay_notes *notes)
{
    spill_parts parts = {.steps.end_count = 0};
    hr_status status = make_parts(work, &parts);
    if (status == HR_OK)
        status = hr__replay_work_add_spill_by(work, &parts.timeline, &parts.steps, &parts.roles);
    if (status == HR_OK)
        note_advice(work, &parts.steps, notes);
    hr__roles_deinit(&parts.roles);
    hr__steps_deinit(&parts.steps);
    hr__attribution_deinit(&parts.attribution);
    hr__timeline_deinit(&parts.timeline);
    return status;
}
