/* paged_return.c - when memory that left the device comes back.
 *
 * **Within a step**, what the program is in the middle of: blocks that belong to the step, those
 * advised as hot, and what a program that advises did not call cold (from PASSING on in
 * spill_choice.c). They left since nothing better was there, at the step's highest moment,
 * and what reads them next may be a matrix product, which reads its operands many times over (on an
 * H200 it takes eight to fifty times as long). So they come back as soon as there is room: when
 * what is live on the device, they, and a share of it (SPARE_PARTS) fit into what the device was
 * seen to hold. Frees look for that, since room comes of them; as they may call no driver the next
 * request does it. For that the engine's table is exchanged for one whose allocate() first brings
 * memory back, so that requests have nothing to ask while there is nothing to do.
 *
 * If memory leaves again soon after, that was too early: a forward pass whose temporaries come and
 * go. Then, from the time when memory leaves, ever more requests have to pass before it comes back.
 * After FORGET_STEPS steps all of that is forgotten, and learned anew if it is still so. Not bit by
 * bit: what comes back almost a step late is bound to leave again soon after, which would teach the
 * same once more.
 *
 * **By steps**, which the program marks, all the rest: an optimizer's state is best left where it
 * is while memory is short. It comes back when
 *   - for `patience` steps nothing left, nor came back in this way, and
 *   - what the device could hold, less the most that was live on it in those steps, is more than a
 *     share of it (SPARE_PARTS, or _WITH_HELP), which stays free;
 * then as much as there is room for, the most valuable first (spill_choice.c, from the other end).
 * If memory leaves again within `patience` steps of coming back, that was a mistake, and patience
 * doubles; so a program at the edge spends ever less on trying.
 *
 * A program that marks no steps keeps the rest on the host until it is freed. */
#include "engine/paged/paged_return.h"

#include "base/checked_math.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/paged/paged_handles.h"
#include "engine/paged/paged_moment.h"
#include "engine/paged/paged_on_host.h"
#include "engine/paged/paged_share.h"
#include "engine/paged/paged_spill_list.h"
#include "engine/paged/paged_survey.h"

enum {
    SPARE_PARTS = 16, /* of what the device can hold: stays free when memory comes back */
    /* The same by steps, where the program itself has made room (vw_pool_options.make_room): it
     * fills the device up to a sixteenth in each step, so that much is never free at the peak. */
    SPARE_PARTS_WITH_HELP = 32,
    FIRST_PATIENCE = 4,
    MOST_PATIENCE = 64,
    FIRST_EARLY_PATIENCE = 64, /* requests, once a return was too early */
    MOST_EARLY_PATIENCE = 1 << 20,
    /* Memory that leaves again by then came back too early: the two ways take as long as some
     * hundred requests. */
    SOON_PARTS = 16,     /* of a step's requests; so no step sees more than as many returns */
    LEAST_SOON = 64,     /* or a quarter of a step that is shorter than four of these */
    SOON_REQUESTS = 256, /* where no steps are marked */
    FORGET_STEPS = 64,   /* since patience last grew: it is gone */
};

/* ---- coming back ----------------------------------------------------------------------------- */

/* Lists the handles that could come back; the first to do so is last. */
static vw_status find_returning(vw__paged_engine *engine, bool is_early,
                                vw__paged_spill_list *found)
{
    engine->spill->clock.now = engine->clock;
    for (vw__paged_handle *handle = engine->handles; handle != NULL; handle = handle->next) {
        const vw__paged_place *home = handle->home;
        if (handle->on_host != NULL && handle->pin_count == 0 &&
            (handle->is_wanted_early || !is_early) &&
            vw__paged_may_be_copied(engine, home->segment->lane))
            VW__TRY(vw__paged_list(engine, handle, vw__engine_find(&engine->base, home->address),
                                   found));
    }
    vw__paged_spill_sort(found);
    return VW_OK;
}

/* Gives a free handle back to the device, which is idle. `*is_found`: there was one. */
static vw_status release_one(vw__paged_engine *engine, bool *is_found)
{
    *is_found = engine->candidate_count != 0;
    if (!*is_found)
        return VW_OK;
    vw__paged_handle *handle = engine->candidates[--engine->candidate_count].handle;
    engine->candidate_bytes -= handle->size_bytes;
    while (handle->ghosts != NULL)
        VW__TRY(vw__paged_drop_ghost(engine, handle->ghosts, true));
    return vw__paged_release(engine, handle);
}

/* Idle memory makes room, which is there by the steps before. VW_ERR_OUT_OF_MEMORY: not enough. */
static vw_status swap_in(vw__paged_engine *engine, vw__paged_handle *handle)
{
    bool is_found = true;
    while (is_found &&
           vw__paged_on_device_bytes(engine) + handle->size_bytes > engine->base.limit_bytes)
        VW__TRY(release_one(engine, &is_found));
    if (!is_found)
        return VW_ERR_OUT_OF_MEMORY;
    vw_status status = vw__paged_swap_in(engine, handle, 0);
    while (status == VW_ERR_OUT_OF_MEMORY) {
        VW__TRY(release_one(engine, &is_found));
        if (!is_found)
            return VW_ERR_OUT_OF_MEMORY;
        status = vw__paged_swap_in(engine, handle, 0);
    }
    return status;
}

static vw_status let_return(vw__paged_engine *engine, const vw__paged_spill_list *found,
                            uint64_t room_bytes, vw__paged_spill_move *move)
{
    for (size_t i = found->count; i-- > 0;) {
        vw__paged_handle *handle = found->items[i].what;
        if (handle->size_bytes > room_bytes)
            continue;
        uint64_t used_bytes = handle->used_bytes;
        vw_status status = swap_in(engine, handle);
        if (status == VW_ERR_OUT_OF_MEMORY)
            return VW_OK;
        VW__TRY(status);
        room_bytes -= handle->size_bytes;
        move->report.moved_bytes += used_bytes;
        move->report.moved_handles++;
    }
    return VW_OK;
}

static vw_status return_at_safe_point(vw__paged_engine *engine, bool is_early, uint64_t room_bytes,
                                      vw__paged_spill_move *move)
{
    vw__paged_spill_list found = {.count = 0};
    VW__TRY(vw__paged_device(engine)->synchronize(vw__paged_context(engine)));
    VW__TRY(vw__paged_settle_vacated(engine));
    VW__TRY(vw__paged_settle_left(engine, true));
    VW__TRY(vw__paged_survey_all(engine));
    vw_status status = find_returning(engine, is_early, &found);
    if (status == VW_OK)
        status = let_return(engine, &found, room_bytes, move);
    vw__host_free(found.items);
    return status;
}

/* How many bytes could come back within the step. 0 unless all that should come back fit. */
static uint64_t early_room_bytes(vw__paged_engine *engine)
{
    vw__paged_spill *spill = engine->spill;
    uint64_t live_bytes = vw__paged_live_bytes(engine), spilled_bytes = engine->stats.spilled_bytes;
    spill->full_bytes = vw__max_u64(spill->full_bytes, vw__paged_on_device_bytes(engine));
    uint64_t needed_bytes = live_bytes > spilled_bytes ? live_bytes - spilled_bytes : 0;
    needed_bytes += vw__max_u64(spill->full_bytes / SPARE_PARTS, engine->unit_bytes);
    bool is_enough = spill->full_bytes >= needed_bytes + spill->early_bytes;
    return spill->early_bytes != 0 && is_enough ? spill->full_bytes - needed_bytes : 0;
}

/* `*has_moved`: something has come back. */
static vw_status bring_back(vw__paged_engine *engine, bool is_early, uint64_t room_bytes,
                            bool *has_moved)
{
    vw__paged_spill_move move = {.report.is_return = true, .start_ns = vw__clock_monotonic_ns()};
    vw_status status = VW_OK;
    bool is_safe = vw__paged_begin_moment(engine);
    if (is_early) /* others had the lock */
        room_bytes = early_room_bytes(engine);
    if (is_safe && engine->failure == NULL && room_bytes != 0)
        status = return_at_safe_point(engine, is_early, room_bytes, &move);
    *has_moved = move.report.moved_handles != 0;
    engine->stats.returns += (uint64_t)*has_moved;
    return vw__paged_finish_move(engine, &move, is_safe, status);
}

/* ---- within a step --------------------------------------------------------------------------- */

void vw__paged_look_for_room(vw__paged_engine *engine)
{
    vw__paged_spill *spill = engine->spill;
    if (spill != NULL && spill->early_bytes != 0 && engine->base.table == spill->usual_table &&
        engine->clock - spill->left_at >= spill->early_patience && early_room_bytes(engine) != 0)
        engine->base.table = &spill->due_table;
}

static void wait_longer(vw__paged_spill *spill)
{
    int64_t longer = 2 * spill->early_patience;
    longer = longer < FIRST_EARLY_PATIENCE ? FIRST_EARLY_PATIENCE : longer;
    spill->early_patience = longer < MOST_EARLY_PATIENCE ? longer : MOST_EARLY_PATIENCE;
    spill->steps_since_longer = 0;
}

/* Where no moment is safe, or memory is missing for it, or what is to come back is pinned, it is
 * tried again later, and ever later: each time the program stops for it. */
static vw_status return_early(vw__paged_engine *engine)
{
    vw__paged_spill *spill = engine->spill;
    bool has_moved = false;
    if (early_room_bytes(engine) == 0)
        return VW_OK;
    vw_status status = bring_back(engine, true, 0, &has_moved);
    spill->returned_at = engine->clock;
    if (!has_moved && spill->early_bytes != 0) {
        spill->left_at = engine->clock;
        wait_longer(spill);
    }
    return status == VW_ERR_DEVICE ? status : VW_OK;
}

/* The lock was dropped: what the request is served with is looked for after that. */
static vw_status return_and_allocate(vw__engine *base, const vw__engine_request *request,
                                     vw__block **out, vw__engine_refusal *refusal)
{
    vw__paged_engine *engine = vw__paged_of(base);
    base->table = engine->spill->usual_table;
    engine->under_way++;
    vw_status status = return_early(engine);
    engine->under_way--;
    VW__TRY(status);
    if (!vw__block_source_reserve(&base->records, VW__ENGINE_SPARE_RECORDS))
        return vw__fail_host_memory(sizeof(vw__block), "block records");
    return base->table->allocate(base, request, out, refusal);
}

/* ---- by steps -------------------------------------------------------------------------------- */

/* How much could come back by what was live in the steps before. */
static vw_status find_room(const vw__paged_engine *engine, uint64_t *room_bytes)
{
    const vw__paged_spill *spill = engine->spill;
    uint64_t free_bytes = 0, total_bytes = 0, spilled_bytes = engine->stats.spilled_bytes;
    VW__TRY(vw__paged_device(engine)->memory_info(vw__paged_context(engine), &free_bytes,
                                                  &total_bytes));
    uint64_t most_bytes =
        vw__min_u64(vw__paged_on_device_bytes(engine) + free_bytes, engine->base.limit_bytes);
    uint64_t needed_bytes =
        spill->peak_bytes > spilled_bytes ? spill->peak_bytes - spilled_bytes : 0;
    uint64_t spare_parts = spill->has_help ? SPARE_PARTS_WITH_HELP : SPARE_PARTS;
    needed_bytes += vw__max_u64(most_bytes / spare_parts, engine->unit_bytes);
    *room_bytes = most_bytes > needed_bytes ? most_bytes - needed_bytes : 0;
    return VW_OK;
}

vw_status vw__paged_mark_step(vw__engine *base)
{
    vw__paged_engine *engine = vw__paged_of(base);
    vw__paged_spill *spill = engine->spill;
    uint64_t room_bytes = 0;
    bool has_moved = false;
    if (spill == NULL)
        return VW_OK;
    engine->call++;
    spill->clock.now = engine->clock;
    vw__paged_spill_mark(&spill->clock);
    if (++spill->steps_since_longer >= FORGET_STEPS || spill->clock.mark_count == 2)
        spill->early_patience = 0; /* the second step is the first to have a length to go by */
    if (spill->steps_since_return < MOST_PATIENCE)
        spill->steps_since_return++;
    if (spill->handle_count == 0 || ++spill->quiet_steps < spill->patience)
        return VW_OK;
    spill->peak_bytes = vw__max_u64(spill->peak_bytes, vw__paged_live_bytes(engine));
    VW__TRY(find_room(engine, &room_bytes));
    spill->quiet_steps = 0;
    spill->peak_bytes = 0;
    if (room_bytes < engine->unit_bytes)
        return VW_OK;
    vw_status status = bring_back(engine, false, room_bytes, &has_moved);
    if (has_moved)
        spill->steps_since_return = 0;
    return status;
}

/* ---- what leaving means for it --------------------------------------------------------------- */

void vw__paged_begin_returns(vw__paged_engine *engine)
{
    vw__paged_spill *spill = engine->spill;
    spill->patience = FIRST_PATIENCE;
    spill->steps_since_return = MOST_PATIENCE;
    spill->returned_at = -(int64_t)MOST_EARLY_PATIENCE;
    vw__paged_use_table(engine, engine->base.table);
}

void vw__paged_use_table(vw__paged_engine *engine, const vw__engine_table *table)
{
    vw__paged_spill *spill = engine->spill;
    engine->base.table = table;
    if (spill == NULL)
        return;
    spill->usual_table = table;
    spill->due_table = *table;
    spill->due_table.allocate = return_and_allocate;
}

/* In requests. The step under way may be longer than the last. */
static int64_t soon(const vw__paged_spill_clock *clock, int64_t now)
{
    if (clock->mark_count < 2)
        return SOON_REQUESTS;
    int64_t last = clock->marks[0] - clock->marks[1], step = now - clock->marks[0];
    step = step < last ? last : step;
    int64_t part = step / SOON_PARTS;
    int64_t least = step < 4 * LEAST_SOON ? step / 4 : LEAST_SOON;
    return part < least ? least : part;
}

/* Coming back too early is not to happen as soon again. */
void vw__paged_note_leaving(vw__paged_engine *engine)
{
    vw__paged_spill *spill = engine->spill;
    if (engine->clock - spill->returned_at < soon(&spill->clock, engine->clock))
        wait_longer(spill);
    spill->left_at = engine->clock;
    spill->full_bytes = 0;
    if (spill->steps_since_return <= spill->patience && spill->patience < MOST_PATIENCE)
        spill->patience *= 2;
    spill->steps_since_return = MOST_PATIENCE;
    spill->quiet_steps = 0;
    spill->peak_bytes = 0;
}
