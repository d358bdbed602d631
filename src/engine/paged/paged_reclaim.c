/* paged_reclaim.c - giving memory back: empty_cache().
 *
 * Every handle that no block touches goes, and every ghost. Nothing may still be using them: the
 * streams they were used on are waited for, one by one; the device as a whole is not. */
#include "engine/paged/paged_engine.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "engine/paged/paged_spill.h"

/* Which memory is meant: that of one private pool, or all, but for the default pool's where a scope
 * or a capture forbids it. */
typedef struct trimming {
    hr__paged_engine *engine;
    const hr_private_id *only; /* or NULL */
    bool keeps_default;
} trimming;

static bool is_wanted(const trimming *trim, const hr__lane *lane)
{
    if (lane->shelf->private_pool == NULL && trim->keeps_default)
        return false;
    return trim->only == NULL || hr__same_private_id(lane->shelf->private_id, *trim->only);
}

static hr_status drop_ghosts(const trimming *trim, hr__paged_handle *handle)
{
    for (hr__place *ghost = handle->ghosts, *next; ghost != NULL; ghost = next) {
        next = ghost->next;
        if (is_wanted(trim, ghost->segment->lane))
            HR__TRY(hr__paged_drop_ghost(trim->engine, ghost, true));
    }
    return HR_OK;
}

/* Ghosts of what is given back go first, wherever they are. */
static hr_status drop_ghosts_of_candidates(const trimming *trim)
{
    hr__paged_engine *engine = trim->engine;
    for (size_t i = 0; i < engine->candidate_count; i++) {
        hr__paged_handle *handle = engine->candidates[i].handle;
        while (is_wanted(trim, handle->home->segment->lane) && handle->ghosts != NULL)
            HR__TRY(hr__paged_drop_ghost(engine, handle->ghosts, true));
    }
    return HR_OK;
}

static hr_status release_candidates(const trimming *trim)
{
    hr__paged_engine *engine = trim->engine;
    const hr__lane *waited_for = NULL;
    for (size_t i = 0; i < engine->candidate_count; i++) {
        hr__paged_handle *handle = engine->candidates[i].handle;
        const hr__lane *lane = handle->home->segment->lane;
        if (!is_wanted(trim, lane))
            continue;
        if (lane != waited_for)
            HR__TRY(hr__paged_device(engine)->stream_synchronize(hr__paged_context(engine),
                                                                 lane->stream));
        waited_for = lane;
        HR__TRY(hr__paged_release(engine, handle));
    }
    return HR_OK;
}

/* An arena in which nothing is mapped, or NULL. */
static hr__segment *find_empty_arena(hr__tree_node *node)
{
    for (; node != NULL; node = node->right) {
        hr__segment *segment = hr__segment_of_node(node);
        if (segment->first->state == HR__BLOCK_UNMAPPED && !hr__block_is_split(segment->first))
            return segment;
        segment = find_empty_arena(node->left);
        if (segment != NULL)
            return segment;
    }
    return NULL;
}

static hr_status end_empty_arenas(hr__paged_engine *engine)
{
    for (hr__segment *arena; (arena = find_empty_arena(engine->base.segments)) != NULL;)
        HR__TRY(hr__paged_end_arena(engine, arena));
    return HR_OK;
}

static void end_private_pools(hr__paged_engine *engine)
{
    hr__private_pool *next;
    for (hr__private_pool *pool = engine->base.private_pools; pool != NULL; pool = next) {
        next = pool->next;
        if (hr__private_is_over(pool))
            hr__private_drop(&engine->base, pool);
    }
}

hr_status hr__paged_trim(hr__engine *base, const hr_private_id *only)
{
    hr__paged_engine *engine = hr__paged_of(base);
    if (only != NULL && hr__same_private_id(*only, hr__no_private_id()))
        only = NULL;
    const trimming trim = {engine, only, hr__engine_keeps_default_pools(base)};
    engine->call++;
    if (only != NULL || !trim.keeps_default)
        HR__TRY(base->owner.finish_pending(base->owner.context, only));
    HR__TRY(hr__paged_settle_vacated(engine));
    if (engine->spill != NULL && !trim.keeps_default)
        HR__TRY(hr__paged_settle_left(engine, true));
    HR__TRY(hr__paged_survey_all(engine));
    HR__TRY(drop_ghosts_of_candidates(&trim));
    HR__TRY(release_candidates(&trim));
    for (hr__paged_handle *handle = engine->handles; handle != NULL; handle = handle->next)
        HR__TRY(drop_ghosts(&trim, handle));
    HR__TRY(end_empty_arenas(engine));
    end_private_pools(engine);
    return HR_OK;
}
