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

hr__pinned_shelf *hr__pinned_route(hr_pinned_pool *pool, hr_stream stream)
{
    for (const hr__pinned_scope *scope = pool->scopes; scope != NULL; scope = scope->next)
        if (scope->filter == NULL || scope->filter(scope->context, stream))
            return scope->shelf;
    return &pool->default_shelf;
}

hr_status hr__pinned_is_capturing(const hr_pinned_pool *pool, hr_stream stream, bool *out)
{
    const hr_device *device = pool->device;
    *out = false;
    if (pool->scopes == NULL)
        return HR_OK;
    return device->table->stream_is_capturing(device->context, stream, out);
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

static hr__pinned_shelf *find_shelf(const hr_pinned_pool *pool, hr_private_id id)
{
    hr__pinned_shelf *shelf = pool->private_shelves;
    while (shelf != NULL && !hr__pinned_same_id(shelf->id, id))
        shelf = shelf->next;
    return shelf;
}

static hr__pinned_scope **find_scope(hr_pinned_pool *pool, hr_private_id id)
{
    hr__pinned_scope **link = &pool->scopes;
    while (*link != NULL && !hr__pinned_same_id((*link)->shelf->id, id))
        link = &(*link)->next;
    return link;
}

/* One more use of a shelf, which is `*fresh` if there was none: then it becomes NULL. Under the
 * lock. */
static hr_status retain(hr_pinned_pool *pool, hr_private_id id, hr__pinned_shelf **fresh)
{
    hr__pinned_shelf *shelf = find_shelf(pool, id);
    if (shelf == NULL) {
        shelf = *fresh;
        *fresh = NULL;
        shelf->id = id;
        hr__pinned_shelf **link = &pool->private_shelves;
        while (*link != NULL)
            link = &(*link)->next;
        *link = shelf;
    } else if (shelf->use_count == 0) {
        return hr__fail(HR_ERR_WRONG_STATE,
                        "private pinned pool (%" PRIu64 ", %" PRIu64 ") was released and still "
                        "holds memory: trim it, or use another id",
                        id.first, id.second);
    }
    shelf->use_count++;
    return HR_OK;
}

static hr_status new_shelf(hr_private_id id, hr__pinned_shelf **out)
{
    if (hr__pinned_same_id(id, (hr_private_id){0, 0}))
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "private pool id (0, 0) is the default pool");
    hr__pinned_shelf *shelf = hr__host_alloc_zeroed(1, sizeof *shelf);
    if (shelf == NULL)
        return hr__fail_host_memory(sizeof *shelf, "a private pinned pool");
    *out = shelf;
    return HR_OK;
}

hr_status hr_pinned_pool_retain(hr_pinned_pool *pool, hr_private_id id)
{
    hr__pinned_shelf *fresh = NULL;
    HR__TRY(hr__pinned_enter(pool));
    HR__TRY(new_shelf(id, &fresh));
    hr__pinned_lock(pool);
    hr_status status = retain(pool, id, &fresh);
    hr__pinned_unlock(pool);
    hr__host_free(fresh);
    return status;
}

hr_status hr_pinned_pool_begin(hr_pinned_pool *pool, hr_private_id id, hr_scope_filter filter,
                               void *context)
{
    hr__pinned_shelf *fresh = NULL;
    HR__TRY(hr__pinned_enter(pool));
    HR__TRY(new_shelf(id, &fresh));
    hr__pinned_scope *scope = hr__host_alloc_zeroed(1, sizeof *scope);
    if (scope == NULL) {
        hr__host_free(fresh);
        return hr__fail_host_memory(sizeof *scope, "a scope");
    }
    hr__pinned_lock(pool);
    hr__pinned_scope **link = find_scope(pool, id);
    hr_status status =
        *link != NULL
            ? hr__fail(HR_ERR_WRONG_STATE, "beginAllocateToPool: already recording to mempool_id")
            : retain(pool, id, &fresh);
    if (status == HR_OK) {
        *scope =
            (hr__pinned_scope){.shelf = find_shelf(pool, id), .filter = filter, .context = context};
        *link = scope; /* not found: the end of the list */
        scope = NULL;
    }
    hr__pinned_unlock(pool);
    hr__host_free(scope);
    hr__host_free(fresh);
    return status;
}

hr_status hr_pinned_pool_end(hr_pinned_pool *pool, hr_private_id id)
{
    HR__TRY(hr__pinned_enter(pool));
    hr__pinned_lock(pool);
    hr__pinned_scope **link = find_scope(pool, id);
    hr__pinned_scope *scope = *link;
    if (scope != NULL)
        *link = scope->next;
    hr__pinned_unlock(pool);
    if (scope == NULL)
        return hr__fail(HR_ERR_WRONG_STATE,
                        "endAllocatePool: not currently recording to mempool_id");
    hr__host_free(scope);
    return HR_OK;
}

static hr_status release(hr_pinned_pool *pool, hr_private_id id)
{
    hr__pinned_shelf *shelf = find_shelf(pool, id);
    if (shelf == NULL || shelf->use_count == 0)
        return hr__fail(HR_ERR_WRONG_STATE,
                        "private pinned pool (%" PRIu64 ", %" PRIu64 ") is not in use", id.first,
                        id.second);
    if (shelf->use_count == 1 && *find_scope(pool, id) != NULL)
        return hr__fail(HR_ERR_WRONG_STATE,
                        "private pinned pool (%" PRIu64 ", %" PRIu64 ") is still routed to",
                        id.first, id.second);
    shelf->use_count--;
    hr__pinned_drop_unused(pool);
    return HR_OK;
}

hr_status hr_pinned_pool_release(hr_pinned_pool *pool, hr_private_id id)
{
    HR__TRY(hr__pinned_enter(pool));
    hr__pinned_lock(pool);
    hr_status status = release(pool, id);
    hr__pinned_unlock(pool);
    return status;
}

void hr__pinned_drop_unused(hr_pinned_pool *pool)
{
    for (hr__pinned_shelf **link = &pool->private_shelves; *link != NULL;) {
        hr__pinned_shelf *shelf = *link;
        if (shelf->use_count == 0 && shelf->block_count == 0 && shelf->away_count == 0) {
            *link = shelf->next;
            hr__host_free(shelf);
        } else {
            link = &shelf->next;
        }
    }
}

void hr__pinned_private_deinit(hr_pinned_pool *pool)
{
    for (hr__pinned_scope *scope = pool->scopes, *next; scope != NULL; scope = next) {
        next = scope->next;
        hr__host_free(scope);
    }
    for (hr__pinned_shelf *shelf = pool->private_shelves, *next; shelf != NULL; shelf = next) {
        next = shelf->next;
        hr__host_free(shelf);
    }
}
