/* paged_reclaim.c - giving memory back: empty_cache().
 *
 * Every handle that no block touches goes, and every ghost. Nothing may still be using them: the
 * streams they were used on are waited for, one by one; the device as a whole is not. */
#include "engine/paged/paged_reclaim.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "engine/paged/paged_handles.h"
#include "engine/paged/paged_on_host.h"
#include "engine/paged/paged_share.h"
#include "engine/paged/paged_survey.h"
#include "engine/paged/paged_whole.h"

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

vw_status vw__paged_trim(vw__engine *base, const vw_private_id *only)
{
    vw__paged_engine *engine = vw__paged_of(base);
    if (only != NULL && vw__private_id_same(*only, vw__private_id_none()))
        only = NULL;
    const trimming trim = {engine, only, vw__engine_keeps_default_pools(base)};
    uint64_t whole_bytes = 0;
    engine->call++;
    if (only != NULL || !trim.keeps_default)
        VW__TRY(base->owner.finish_pending(base->owner.context, only));
    VW__TRY(vw__paged_settle_vacated(engine));
    if (engine->spill != NULL && !trim.keeps_default)
        VW__TRY(vw__paged_settle_left(engine, true));
    VW__TRY(vw__paged_survey_all(engine));
    VW__TRY(drop_ghosts_of_candidates(&trim));
    VW__TRY(release_candidates(&trim));
    VW__TRY(vw__paged_release_whole(engine, only, &whole_bytes));
    for (vw__paged_handle *handle = engine->handles; handle != NULL; handle = handle->next)
        VW__TRY(drop_ghosts(&trim, handle));
    VW__TRY(end_empty_arenas(engine));
    end_private_pools(engine);
    return VW_OK;
}
