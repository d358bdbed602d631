/* pinned_private.c - private pools of pinned memory, and which one a request belongs to.
 *
 * The same life as the device's private pools (engine/private_pools.c): retained while
 * a graph exists, routed to while one is captured, trimmed and ended when nobody uses them. PyTorch
 * asks the filters of open captures in the order they began; its device allocator turned that order
 * round in 2.10, its host allocator did not. */
#include "pool/pinned_pool.h"

#include <inttypes.h>

#include "base/host_memory.h"

/* ---- routing --------------------------------------------------------------------------------- */

vw__pinned_shelf *vw__pinned_route(vw_pinned_pool *pool, vw_stream stream)
{
    for (const vw__pinned_scope *scope = pool->scopes; scope != NULL; scope = scope->next)
        if (scope->filter == NULL || scope->filter(scope->context, stream))
            return scope->shelf;
    return &pool->default_shelf;
}

vw_status vw__pinned_is_capturing(const vw_pinned_pool *pool, vw_stream stream, bool *out)
{
    const vw_device *device = pool->device;
    *out = false;
    if (pool->scopes == NULL)
        return VW_OK;
    return device->table->stream_is_capturing(device->context, stream, out);
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

static vw__pinned_shelf *find_shelf(const vw_pinned_pool *pool, vw_private_id id)
{
    vw__pinned_shelf *shelf = pool->private_shelves;
    while (shelf != NULL && !vw__pinned_same_id(shelf->id, id))
        shelf = shelf->next;
    return shelf;
}

static vw__pinned_scope **find_scope(vw_pinned_pool *pool, vw_private_id id)
{
    vw__pinned_scope **link = &pool->scopes;
    while (*link != NULL && !vw__pinned_same_id((*link)->shelf->id, id))
        link = &(*link)->next;
    return link;
}

/* One more use of a shelf, which is `*fresh` if there was none: then it becomes NULL. Under the
 * lock. */
static vw_status retain(vw_pinned_pool *pool, vw_private_id id, vw__pinned_shelf **fresh)
{
    vw__pinned_shelf *shelf = find_shelf(pool, id);
    if (shelf == NULL) {
        shelf = *fresh;
        *fresh = NULL;
        shelf->id = id;
        vw__pinned_shelf **link = &pool->private_shelves;
        while (*link != NULL)
            link = &(*link)->next;
        *link = shelf;
    } else if (shelf->use_count == 0) {
        return vw__fail(VW_ERR_WRONG_STATE,
                        "private pinned pool (%" PRIu64 ", %" PRIu64 ") was released and still "
                        "holds memory: trim it, or use another id",
                        id.first, id.second);
    }
    shelf->use_count++;
    return VW_OK;
}

static vw_status new_shelf(vw_private_id id, vw__pinned_shelf **out)
{
    if (vw__pinned_same_id(id, (vw_private_id){0, 0}))
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "private pool id (0, 0) is the default pool");
    vw__pinned_shelf *shelf = vw__host_alloc_zeroed(1, sizeof *shelf);
    if (shelf == NULL)
        return vw__fail_host_memory(sizeof *shelf, "a private pinned pool");
    *out = shelf;
    return VW_OK;
}

vw_status vw_pinned_pool_retain(vw_pinned_pool *pool, vw_private_id id)
{
    vw__pinned_shelf *fresh = NULL;
    VW__TRY(vw__pinned_enter(pool));
    VW__TRY(new_shelf(id, &fresh));
    vw__pinned_lock(pool);
    vw_status status = retain(pool, id, &fresh);
    vw__pinned_unlock(pool);
    vw__host_free(fresh);
    return status;
}

vw_status vw_pinned_pool_begin(vw_pinned_pool *pool, vw_private_id id, vw_scope_filter filter,
                               void *context)
{
    vw__pinned_shelf *fresh = NULL;
    VW__TRY(vw__pinned_enter(pool));
    VW__TRY(new_shelf(id, &fresh));
    vw__pinned_scope *scope = vw__host_alloc_zeroed(1, sizeof *scope);
    if (scope == NULL) {
        vw__host_free(fresh);
        return vw__fail_host_memory(sizeof *scope, "a scope");
    }
    vw__pinned_lock(pool);
    vw__pinned_scope **link = find_scope(pool, id);
    vw_status status =
        *link != NULL
            ? vw__fail(VW_ERR_WRONG_STATE, "beginAllocateToPool: already recording to mempool_id")
            : retain(pool, id, &fresh);
    if (status == VW_OK) {
        *scope =
            (vw__pinned_scope){.shelf = find_shelf(pool, id), .filter = filter, .context = context};
        *link = scope; /* not found: the end of the list */
        scope = NULL;
    }
    vw__pinned_unlock(pool);
    vw__host_free(scope);
    vw__host_free(fresh);
    return status;
}

vw_status vw_pinned_pool_end(vw_pinned_pool *pool, vw_private_id id)
{
    VW__TRY(vw__pinned_enter(pool));
    vw__pinned_lock(pool);
    vw__pinned_scope **link = find_scope(pool, id);
    vw__pinned_scope *scope = *link;
    if (scope != NULL)
        *link = scope->next;
    vw__pinned_unlock(pool);
    if (scope == NULL)
        return vw__fail(VW_ERR_WRONG_STATE,
                        "endAllocatePool: not currently recording to mempool_id");
    vw__host_free(scope);
    return VW_OK;
}

static vw_status release(vw_pinned_pool *pool, vw_private_id id)
{
    vw__pinned_shelf *shelf = find_shelf(pool, id);
    if (shelf == NULL || shelf->use_count == 0)
        return vw__fail(VW_ERR_WRONG_STATE,
                        "private pinned pool (%" PRIu64 ", %" PRIu64 ") is not in use", id.first,
                        id.second);
    if (shelf->use_count == 1 && *find_scope(pool, id) != NULL)
        return vw__fail(VW_ERR_WRONG_STATE,
                        "private pinned pool (%" PRIu64 ", %" PRIu64 ") is still routed to",
                        id.first, id.second);
    shelf->use_count--;
    vw__pinned_drop_unused(pool);
    return VW_OK;
}

vw_status vw_pinned_pool_release(vw_pinned_pool *pool, vw_private_id id)
{
    VW__TRY(vw__pinned_enter(pool));
    vw__pinned_lock(pool);
    vw_status status = release(pool, id);
    vw__pinned_unlock(pool);
    return status;
}

void vw__pinned_drop_unused(vw_pinned_pool *pool)
{
    for (vw__pinned_shelf **link = &pool->private_shelves; *link != NULL;) {
        vw__pinned_shelf *shelf = *link;
        if (shelf->use_count == 0 && shelf->block_count == 0 && shelf->away_count == 0) {
            *link = shelf->next;
            vw__host_free(shelf);
        } else {
            link = &shelf->next;
        }
    }
}

void vw__pinned_private_deinit(vw_pinned_pool *pool)
{
    for (vw__pinned_scope *scope = pool->scopes, *next; scope != NULL; scope = next) {
        next = scope->next;
        vw__host_free(scope);
    }
    for (vw__pinned_shelf *shelf = pool->private_shelves, *next; shelf != NULL; shelf = next) {
        next = shelf->next;
        vw__host_free(shelf);
    }
}
