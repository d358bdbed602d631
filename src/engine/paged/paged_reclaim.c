/* paged_reclaim.c - giving memory back: empty_cache(), and slices for the owner's keep_free.
 *
 * empty_cache(): every handle that no block touches goes, and every ghost. Nothing may still be
 * using them: the streams they were used on are waited for, one by one; the device as a whole is
 * not. Where the program has the habit of taking its memory again (paged_habit.c), only what is
 * beyond that goes, and ghosts stay. Where the owner keeps memory free, and so asks for slices, the
 * call takes a moment only and leaves the rest to them.
 *
 * A slice waits for nothing. It records a mark in each stream that idle memory was used on; what
 * came free before the mark can go once the device has passed it. The engine's clock tells the two
 * apart, since a block knows when it came free: it is set forward by one at each mark. */
#include "engine/paged/paged_reclaim.h"

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/paged/paged_habit.h"
#include "engine/paged/paged_handles.h"
#include "engine/paged/paged_on_host.h"
#include "engine/paged/paged_share.h"
#include "engine/paged/paged_survey.h"
#include "engine/paged/paged_whole.h"

enum {
    MOST_OPERATIONS = 64, /* of about 35 us, in a call that need not give all back: 2 ms */
    LOOKS = 4,            /* at handles, for each that a slice may give back */
};

/* Which memory is meant: that of one private pool, or all, but for the default pool's where a scope
 * or a capture forbids it. */
typedef struct trimming {
    vw__paged_engine *engine;
    const vw_private_id *only; /* or NULL */
    bool keeps_default;
} trimming;

static bool is_wanted(const trimming *trim, const vw__lane *lane)
{
    if (lane->shelf->private_pool == NULL && trim->keeps_default)
        return false;
    return trim->only == NULL || vw__private_id_same(lane->shelf->private_id, *trim->only);
}

static vw_status drop_ghosts(const trimming *trim, vw__paged_handle *handle)
{
    for (vw__paged_place *ghost = handle->ghosts, *next; ghost != NULL; ghost = next) {
        next = ghost->next;
        if (is_wanted(trim, ghost->segment->lane))
            VW__TRY(vw__paged_drop_ghost(trim->engine, ghost, true));
    }
    return VW_OK;
}

/* Ghosts of what is given back go first, wherever they are. */
static vw_status drop_ghosts_of_candidates(const trimming *trim)
{
    vw__paged_engine *engine = trim->engine;
    for (size_t i = 0; i < engine->candidate_count; i++) {
        vw__paged_handle *handle = engine->candidates[i].handle;
        while (is_wanted(trim, handle->home->segment->lane) && handle->ghosts != NULL)
            VW__TRY(vw__paged_drop_ghost(engine, handle->ghosts, true));
    }
    return VW_OK;
}

static vw_status release_candidates(const trimming *trim)
{
    vw__paged_engine *engine = trim->engine;
    const vw__lane *waited_for = NULL;
    for (size_t i = 0; i < engine->candidate_count; i++) {
        vw__paged_handle *handle = engine->candidates[i].handle;
        const vw__lane *lane = handle->home->segment->lane;
        if (!is_wanted(trim, lane))
            continue;
        if (lane != waited_for)
            VW__TRY(vw__paged_device(engine)->stream_synchronize(vw__paged_context(engine),
                                                                 lane->stream));
        waited_for = lane;
        VW__TRY(vw__paged_release(engine, handle));
    }
    return VW_OK;
}

/* ---- part of the idle memory ----------------------------------------------------------------- */

/* Takes the handle that was idle for longest, the largest among equals, off the list of the last
 * survey, with the clock when it came free. NULL: the list is empty. */
static vw__paged_handle *take_oldest(vw__paged_engine *engine, int64_t *age)
{
    vw__paged_candidate *best = engine->candidates;
    if (engine->candidate_count == 0)
        return NULL;
    for (size_t i = 1; i < engine->candidate_count; i++) {
        vw__paged_candidate *each = &engine->candidates[i];
        if (each->age < best->age ||
            (each->age == best->age && each->handle->size_bytes > best->handle->size_bytes))
            best = each;
    }
    vw__paged_handle *handle = best->handle;
    *age = best->age;
    *best = engine->candidates[--engine->candidate_count];
    engine->candidate_bytes -= handle->size_bytes;
    return handle;
}

/* Sets the clock forward, so that what comes free from now on is younger than what is free now. */
static int64_t end_of_age(vw__paged_engine *engine)
{
    engine->habit.clock += engine->habit.clock == engine->clock; /* this is no request */
    return engine->clock++;
}

static vw_status release_after_wait(vw__paged_engine *engine, vw__paged_handle *handle)
{
    while (handle->ghosts != NULL)
        VW__TRY(vw__paged_drop_ghost(engine, handle->ghosts, true));
    VW__TRY(vw__paged_device(engine)->stream_synchronize(vw__paged_context(engine),
                                                         handle->home->segment->lane->stream));
    return vw__paged_release(engine, handle);
}

/* Gives back what is beyond `kept_bytes`, as much as can be done in a moment. */
static vw_status give_back_beyond(vw__paged_engine *engine, uint64_t kept_bytes)
{
    uint64_t idle_bytes = engine->candidate_bytes;
    uint32_t operations = 0;
    int64_t age = 0;
    while (idle_bytes > kept_bytes && operations < MOST_OPERATIONS) {
        vw__paged_handle *handle = take_oldest(engine, &age);
        if (handle == NULL)
            break;
        if (idle_bytes - handle->size_bytes < kept_bytes)
            continue; /* a smaller one may do */
        idle_bytes -= handle->size_bytes;
        operations += 1 + handle->ghost_count;
        VW__TRY(release_after_wait(engine, handle));
    }
    return VW_OK;
}

/* ---- slices ---------------------------------------------------------------------------------- */

static vw_status find_passed(vw__paged_engine *engine, vw_stream stream, vw__paged_passed **out)
{
    vw__paged_passed *passed = engine->passed;
    while (passed != NULL && passed->stream != stream)
        passed = passed->next;
    if (passed == NULL) {
        passed = vw__host_alloc_zeroed(1, sizeof *passed);
        if (passed == NULL)
            return vw__fail_host_memory(sizeof *passed, "how far a stream has come");
        *passed = (vw__paged_passed){.next = engine->passed, .stream = stream, .passed_at = -1};
        engine->passed = passed;
    }
    *out = passed;
    return VW_OK;
}

/* Looks at the mark of a stream, and makes one where memory came free since the last. True: what
 * came free at `age` is unused by now. */
static vw_status has_passed(vw__paged_engine *engine, vw_stream stream, int64_t age, bool *out)
{
    vw__paged_passed *passed = NULL;
    VW__TRY(find_passed(engine, stream, &passed));
    if (passed->mark != NULL && passed->call != engine->call) {
        bool is_complete = false;
        passed->call = engine->call;
        VW__TRY(vw__paged_mark_is_complete(engine, passed->mark, &is_complete));
        if (is_complete) {
            vw__paged_leave_mark(engine, passed->mark);
            passed->mark = NULL;
            passed->passed_at = passed->marked_at;
        }
    }
    *out = age <= passed->passed_at;
    if (*out || passed->mark != NULL)
        return VW_OK;
    VW__TRY(vw__paged_mark_stream(engine, stream, &passed->mark));
    passed->marked_at = end_of_age(engine);
    return VW_OK;
}

/* VW_ERR_NOT_READY: the device may still use it, here or where it was before. */
static vw_status release_unused(vw__paged_engine *engine, vw__paged_handle *handle, int64_t age)
{
    bool is_unused = false;
    VW__TRY(has_passed(engine, handle->home->segment->lane->stream, age, &is_unused));
    if (!is_unused)
        return VW_ERR_NOT_READY;
    while (handle->ghosts != NULL)
        VW__TRY(vw__paged_drop_ghost(engine, handle->ghosts, false));
    return vw__paged_release(engine, handle);
}

/* Gives up to `slice->most_handles` back: enough, and what a trim has left. */
static vw_status give_oldest_back(vw__paged_engine *engine, vw__engine_slice *slice)
{
    size_t given = 0;
    for (size_t i = 0; given < slice->most_handles && i < LOOKS * slice->most_handles; i++) {
        int64_t age = 0;
        vw__paged_handle *handle = take_oldest(engine, &age);
        if (handle == NULL ||
            (slice->given_bytes >= slice->wanted_bytes && age > engine->owed_at)) {
            engine->owed_at = slice->is_waiting ? engine->owed_at : -1;
            return VW_OK;
        }
        uint64_t size_bytes = handle->size_bytes;
        vw_status status = release_unused(engine, handle, age);
        if (status == VW_ERR_NOT_READY) {
            slice->is_waiting = true;
            continue;
        }
        VW__TRY(status);
        slice->given_bytes += size_bytes;
        engine->stats.given_back_bytes += size_bytes;
        given++;
    }
    return VW_OK;
}

vw_status vw__paged_give_back(vw__engine *base, vw__engine_slice *slice)
{
    vw__paged_engine *engine = vw__paged_of(base);
    slice->given_bytes = 0;
    slice->is_waiting = false;
    if ((slice->wanted_bytes == 0 && engine->owed_at < 0) || vw__engine_keeps_default_pools(base))
        return VW_OK;
    engine->call++;
    VW__TRY(vw__paged_settle_vacated(engine)); /* a page may be free but for a guest that is over */
    VW__TRY(vw__paged_survey_all(engine));
    return give_oldest_back(engine, slice);
}

void vw__paged_end_reclaim(vw__paged_engine *engine)
{
    for (vw__paged_passed *passed = engine->passed, *next; passed != NULL; passed = next) {
        next = passed->next;
        vw__host_free(passed);
    }
    engine->passed = NULL;
}

uint64_t vw__paged_spare_bytes(const vw__paged_engine *engine)
{
    uint64_t free_bytes = 0, total_bytes = 0, kept_bytes = engine->base.owner.keep_free_bytes;
    if (kept_bytes == 0 || vw__paged_device(engine)->memory_info(
                               vw__paged_context(engine), &free_bytes, &total_bytes) != VW_OK)
        return UINT64_MAX; /* a device that cannot say will refuse */
    return free_bytes > kept_bytes ? free_bytes - kept_bytes : 0;
}

/* ---- empty_cache() --------------------------------------------------------------------------- */

/* An arena in which nothing is mapped, or NULL. */
static vw__segment *find_empty_arena(vw__tree_node *node)
{
    for (; node != NULL; node = node->right) {
        vw__segment *segment = vw__segment_of_node(node);
        if (segment->first->state == VW__BLOCK_UNMAPPED && !vw__block_is_split(segment->first))
            return segment;
        segment = find_empty_arena(node->left);
        if (segment != NULL)
            return segment;
    }
    return NULL;
}

static vw_status end_empty_arenas(vw__paged_engine *engine)
{
    for (vw__segment *arena; (arena = find_empty_arena(engine->base.segments)) != NULL;)
        VW__TRY(vw__paged_end_arena(engine, arena));
    return VW_OK;
}

static void end_private_pools(vw__paged_engine *engine)
{
    vw__private_pool *next;
    for (vw__private_pool *pool = engine->base.private_pools; pool != NULL; pool = next) {
        next = pool->next;
        if (vw__private_is_over(pool))
            vw__private_drop(&engine->base, pool);
    }
}

static vw_status give_all_back(const trimming *trim)
{
    vw__paged_engine *engine = trim->engine;
    uint64_t whole_bytes = 0;
    VW__TRY(drop_ghosts_of_candidates(trim));
    VW__TRY(release_candidates(trim));
    VW__TRY(vw__paged_release_whole(engine, trim->only, &whole_bytes));
    for (vw__paged_handle *handle = engine->handles; handle != NULL; handle = handle->next)
        VW__TRY(drop_ghosts(trim, handle));
    return end_empty_arenas(engine);
}

/* A private pool that is over has memory to give back, whatever the program's habits are. */
static bool has_ended_pool(const vw__paged_engine *engine)
{
    for (const vw__private_pool *pool = engine->base.private_pools; pool != NULL; pool = pool->next)
        if (!vw__private_is_in_use(pool))
            return true;
    return false;
}

/* Makes a list of what is idle, once nothing waits to be. */
static vw_status look_for_idle(const trimming *trim)
{
    vw__paged_engine *engine = trim->engine;
    const vw__engine_owner *owner = &engine->base.owner;
    engine->call++;
    if (trim->only != NULL || !trim->keeps_default)
        VW__TRY(owner->finish_pending(owner->context, trim->only));
    VW__TRY(vw__paged_settle_vacated(engine));
    if (engine->spill != NULL && !trim->keeps_default)
        VW__TRY(vw__paged_settle_left(engine, true));
    return vw__paged_survey_all(engine);
}

vw_status vw__paged_trim_all(vw__paged_engine *engine)
{
    const trimming trim = {engine, NULL, vw__engine_keeps_default_pools(&engine->base)};
    VW__TRY(look_for_idle(&trim));
    VW__TRY(give_all_back(&trim));
    end_private_pools(engine);
    return VW_OK;
}

vw_status vw__paged_trim(vw__engine *base, const vw_private_id *only)
{
    vw__paged_engine *engine = vw__paged_of(base);
    if (only != NULL && vw__private_id_same(*only, vw__private_id_none()))
        only = NULL;
    const trimming trim = {engine, only, vw__engine_keeps_default_pools(base)};
    bool is_for_all = only == NULL && !trim.keeps_default;
    VW__TRY(look_for_idle(&trim));
    uint64_t kept_bytes = is_for_all ? vw__paged_kept_by_habit(engine) : 0;
    bool leaves_some = kept_bytes != 0 || base->owner.keep_free_bytes != 0;
    if (leaves_some && is_for_all && !has_ended_pool(engine)) {
        engine->stats.kept_trims += kept_bytes != 0;
        engine->owed_at = kept_bytes == 0 ? end_of_age(engine) : -1;
        return give_back_beyond(engine, kept_bytes);
    }
    VW__TRY(give_all_back(&trim));
    end_private_pools(engine);
    return VW_OK;
}
