/* private_pools.c - private pools, scopes and routing.
 *
 * A private pool has shelves of its own, so its segments never serve anyone else: what a CUDA graph
 * recorded stays where it was recorded. While its use count is not zero its idle memory is not
 * given back, not even to avoid running out; at zero the next trim takes what it can, and the pool
 * ends with its last segment.
 *
 * A scope routes requests to a private pool while it is open. Requests look through the open
 * scopes and take the first whose filter accepts their stream. In which order, and what counts as
 * capturing, is the release's: `wording` has the switches (torch_versions.h). */
#include "engine/private_pools.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/host_memory.h"

static hr__private_pool *find_private(const hr__engine *engine, hr_private_id id)
{
    hr__private_pool *pool = engine->private_pools;
    while (pool != NULL && !hr__same_private_id(pool->id, id))
        pool = pool->next;
    return pool;
}

hr__shelf *hr__engine_route(hr__engine *engine, hr_stream stream, hr__size_kind kind)
{
    hr__private_pool *chosen = NULL;
    for (hr__scope *scope = engine->scopes; scope != NULL; scope = scope->older) {
        if (scope->filter == NULL || scope->filter(scope->context, stream)) {
            chosen = scope->pool;
            if (engine->wording->scopes_newest_first)
                break;
        }
    }
    return chosen != NULL ? &chosen->shelves[kind] : &engine->shelves[kind];
}

/* ---- capturing ------------------------------------------------------------------------------- */

static bool device_says_capturing(const hr__engine *engine, hr_stream stream)
{
    const hr_device *device = engine->owner.device;
    bool is_capturing = false;
    return device->table->stream_is_capturing(device->context, stream, &is_capturing) == HR_OK &&
           is_capturing;
}

/* A capture always begins inside a scope, so without one the device need not be asked. */
bool hr__engine_is_capturing(const hr__engine *engine, hr_stream stream)
{
    if (engine->scopes == NULL)
        return false;
    return engine->wording->capturing == HR__TORCH_CAPTURING_ANY_SCOPE ||
           device_says_capturing(engine, stream);
}

/* PyTorch asks for the calling thread's current stream; we know the streams that allocated in the
 * open scopes, and a capture under way is on one of them. */
bool hr__engine_keeps_default_pools(const hr__engine *engine)
{
    if (engine->scopes == NULL || engine->wording->scope_release == HR__TORCH_RELEASE_IN_SCOPES)
        return false;
    if (engine->wording->scope_release == HR__TORCH_RELEASE_OUTSIDE_SCOPES)
        return true;
    for (const hr__scope *scope = engine->scopes; scope != NULL; scope = scope->older)
        for (int kind = HR__SMALL; kind <= HR__LARGE; kind++)
            for (const hr__lane *lane = scope->pool->shelves[kind].lanes; lane != NULL;
                 lane = lane->next)
                if (device_says_capturing(engine, lane->stream))
                    return true;
    return false;
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

/* What was ever reserved by private pool `id`: outlives the pool. NULL: out of host memory. */
static hr__private_stat *find_or_add_stat(hr__engine *engine, hr_private_id id)
{
    hr__private_stat **link = &engine->private_stats;
    while (*link != NULL && !hr__same_private_id((*link)->id, id))
        link = &(*link)->next;
    if (*link == NULL && (*link = hr__host_alloc_zeroed(1, sizeof **link)) != NULL)
        (*link)->id = id;
    return *link;
}

static hr_status add_private(hr__engine *engine, hr_private_id id,
                             const hr_private_options *options)
{
    hr__private_stat *stat = find_or_add_stat(engine, id);
    hr__private_pool *pool = stat != NULL ? hr__host_alloc_zeroed(1, sizeof *pool) : NULL;
    if (pool == NULL)
        return hr__fail_host_memory(sizeof *pool, "a private pool");
    pool->id = id;
    pool->stat = stat;
    pool->use_count = 1;
    if (options != NULL) {
        pool->use_on_oom = options->use_on_oom;
        pool->no_split = options->no_split;
        pool->source = *options;
    }
    for (int kind = HR__SMALL; kind <= HR__LARGE; kind++) {
        pool->shelves[kind].kind = (hr__size_kind)kind;
        pool->shelves[kind].private_pool = pool;
        pool->shelves[kind].private_id = id;
    }
    hr__private_pool **link = &engine->private_pools;
    while (*link != NULL)
        link = &(*link)->next;
    *link = pool;
    return HR_OK;
}

void hr__private_drop(hr__engine *engine, hr__private_pool *pool)
{
    hr__private_pool **link = &engine->private_pools;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    hr__shelf_deinit(&pool->shelves[HR__SMALL]);
    hr__shelf_deinit(&pool->shelves[HR__LARGE]);
    hr__host_free(pool);
}

hr_status hr__private_retain(hr__engine *engine, hr_private_id id,
                             const hr_private_options *options)
{
    if (hr__same_private_id(id, hr__no_private_id()))
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "private pool id (0, 0) is the default pool");
    hr__private_pool *pool = find_private(engine, id);
    if (pool == NULL)
        return add_private(engine, id, options);
    if (pool->use_count == 0)
        return hr__fail(HR_ERR_WRONG_STATE,
                        "private pool (%" PRIu64 ", %" PRIu64 ") was released and still holds "
                        "memory: trim it, or use another id",
                        id.first, id.second);
    pool->use_count++;
    return HR_OK;
}

static hr_status find_retained(const hr__engine *engine, hr_private_id id, hr__private_pool **out)
{
    hr__private_pool *pool = find_private(engine, id);
    if (pool == NULL || pool->use_count == 0)
        return hr__fail(HR_ERR_WRONG_STATE, "private pool (%" PRIu64 ", %" PRIu64 ") is not in use",
                        id.first, id.second);
    *out = pool;
    return HR_OK;
}

hr_status hr__private_release(hr__engine *engine, hr_private_id id)
{
    hr__private_pool *pool = NULL;
    HR__TRY(find_retained(engine, id, &pool));
    for (const hr__scope *scope = engine->scopes; scope != NULL && pool->use_count == 1;
         scope = scope->older)
        if (scope->pool == pool)
            return hr__fail(HR_ERR_WRONG_STATE,
                            "private pool (%" PRIu64 ", %" PRIu64 ") is still routed to", id.first,
                            id.second);
    pool->use_count--;
    if (hr__private_is_over(pool))
        hr__private_drop(engine, pool);
    return HR_OK;
}

int hr__private_use_count(const hr__engine *engine, hr_private_id id)
{
    const hr__private_pool *pool = find_private(engine, id);
    return pool != NULL ? pool->use_count : 0;
}

hr_status hr__private_set(hr__engine *engine, hr_private_id id, const bool *use_on_oom,
                          const bool *no_split)
{
    hr__private_pool *pool = NULL;
    HR__TRY(find_retained(engine, id, &pool));
    if (use_on_oom != NULL)
        pool->use_on_oom = *use_on_oom;
    if (no_split != NULL)
        pool->no_split = *no_split;
    return HR_OK;
}

/* ---- scopes ---------------------------------------------------------------------------------- */

static hr__scope **find_scope(hr__engine *engine, hr_private_id id)
{
    hr__scope **link = &engine->scopes;
    while (*link != NULL && !hr__same_private_id((*link)->pool->id, id))
        link = &(*link)->older;
    return link;
}

hr_status hr__scope_begin(hr__engine *engine, hr_private_id id, hr_scope_filter filter,
                          void *context)
{
    if (*find_scope(engine, id) != NULL)
        return hr__fail(HR_ERR_WRONG_STATE, "beginAllocateToPool: already recording to mempool_id");
    hr__scope *scope = hr__host_alloc_zeroed(1, sizeof *scope);
    if (scope == NULL)
        return hr__fail_host_memory(sizeof *scope, "a scope");
    hr_status status = hr__private_retain(engine, id, NULL);
    if (status != HR_OK) {
        hr__host_free(scope);
        return status;
    }
    scope->pool = find_private(engine, id);
    scope->filter = filter;
    scope->context = context;
    scope->older = engine->scopes;
    engine->scopes = scope;
    return HR_OK;
}

hr_status hr__scope_end(hr__engine *engine, hr_private_id id)
{
    hr__scope **link = find_scope(engine, id);
    hr__scope *scope = *link;
    if (scope == NULL)
        return hr__fail(HR_ERR_WRONG_STATE,
                        "endAllocatePool: not currently recording to mempool_id");
    *link = scope->older;
    hr__host_free(scope);
    return HR_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

void hr__private_deinit_all(hr__engine *engine)
{
    while (engine->scopes != NULL) {
        hr__scope *scope = engine->scopes;
        engine->scopes = scope->older;
        hr__host_free(scope);
    }
    while (engine->private_pools != NULL)
        hr__private_drop(engine, engine->private_pools);
    while (engine->private_stats != NULL) {
        hr__private_stat *stat = engine->private_stats;
        engine->private_stats = stat->next;
        hr__host_free(stat);
    }
}
