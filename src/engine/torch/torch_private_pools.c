/* torch_private_pools.c - private pools, scopes and routing.
 *
 * A private pool has shelves of its own, so its segments never serve anyone else: what a CUDA graph
 * recorded stays where it was recorded. While its use count is not zero its idle memory is not
 * given back, not even to avoid running out; at zero the next trim takes what it can, and the pool
 * ends with its last segment.
 *
 * A scope routes requests to a private pool while it is open. Requests look through the open
 * scopes and take the first whose filter accepts their stream. */
#include "engine/torch/torch_engine.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/host_memory.h"

static hr__private_pool *find_private(const hr__torch_engine *engine, hr_private_id id)
{
    hr__private_pool *pool = engine->private_pools;
    while (pool != NULL && !hr__same_private_id(pool->id, id))
        pool = pool->next;
    return pool;
}

hr__shelf *hr__torch_route(hr__torch_engine *engine, hr_stream stream, hr__size_kind kind)
{
    hr__private_pool *chosen = NULL;
    for (hr__scope *scope = engine->scopes; scope != NULL; scope = scope->older) {
        if (scope->filter == NULL || scope->filter(scope->context, stream)) {
            chosen = scope->pool;
            if (engine->rules.scopes_newest_first)
                break;
        }
    }
    return chosen != NULL ? &chosen->shelves[kind] : &engine->shelves[kind];
}

/* ---- capturing ------------------------------------------------------------------------------- */

static bool device_says_capturing(const hr__torch_engine *engine, hr_stream stream)
{
    const hr_device *device = engine->base.owner.device;
    bool is_capturing = false;
    return device->table->stream_is_capturing(device->context, stream, &is_capturing) == HR_OK &&
           is_capturing;
}

/* A capture always begins inside a scope, so without one the device need not be asked. */
bool hr__torch_is_capturing(const hr__engine *base, hr_stream stream)
{
    const hr__torch_engine *engine = hr__torch_of_const(base);
    if (engine->scopes == NULL)
        return false;
    return engine->rules.capturing == HR__TORCH_CAPTURING_ANY_SCOPE ||
           device_says_capturing(engine, stream);
}

/* PyTorch asks for the calling thread's current stream; we know the streams that allocated in the
 * open scopes, and a capture under way is on one of them. */
bool hr__torch_keeps_default_pools(const hr__torch_engine *engine)
{
    if (engine->scopes == NULL || engine->rules.scope_release == HR__TORCH_RELEASE_IN_SCOPES)
        return false;
    if (engine->rules.scope_release == HR__TORCH_RELEASE_OUTSIDE_SCOPES)
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

static hr_status add_private(hr__torch_engine *engine, hr_private_id id,
                             const hr_private_options *options)
{
    hr__private_stat *stat = find_or_add_stat(&engine->base, id);
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

void hr__torch_drop_private(hr__torch_engine *engine, hr__private_pool *pool)
{
    hr__private_pool **link = &engine->private_pools;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    hr__shelf_deinit(&pool->shelves[HR__SMALL]);
    hr__shelf_deinit(&pool->shelves[HR__LARGE]);
    hr__host_free(pool);
}

hr_status hr__torch_private_retain(hr__engine *base, hr_private_id id,
                                   const hr_private_options *options)
{
    hr__torch_engine *engine = hr__torch_of(base);
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

static hr_status find_retained(const hr__torch_engine *engine, hr_private_id id,
                               hr__private_pool **out)
{
    hr__private_pool *pool = find_private(engine, id);
    if (pool == NULL || pool->use_count == 0)
        return hr__fail(HR_ERR_WRONG_STATE, "private pool (%" PRIu64 ", %" PRIu64 ") is not in use",
                        id.first, id.second);
    *out = pool;
    return HR_OK;
}

hr_status hr__torch_private_release(hr__engine *base, hr_private_id id)
{
    hr__torch_engine *engine = hr__torch_of(base);
    hr__private_pool *pool = NULL;
    HR__TRY(find_retained(engine, id, &pool));
    for (const hr__scope *scope = engine->scopes; scope != NULL && pool->use_count == 1;
         scope = scope->older)
        if (scope->pool == pool)
            return hr__fail(HR_ERR_WRONG_STATE,
                            "private pool (%" PRIu64 ", %" PRIu64 ") is still routed to", id.first,
                            id.second);
    pool->use_count--;
    if (hr__torch_private_is_over(pool))
        hr__torch_drop_private(engine, pool);
    return HR_OK;
}

int hr__torch_private_use_count(const hr__engine *base, hr_private_id id)
{
    const hr__private_pool *pool = find_private(hr__torch_of_const(base), id);
    return pool != NULL ? pool->use_count : 0;
}

hr_status hr__torch_private_set(hr__engine *base, hr_private_id id, const bool *use_on_oom,
                                const bool *no_split)
{
    hr__private_pool *pool = NULL;
    HR__TRY(find_retained(hr__torch_of(base), id, &pool));
    if (use_on_oom != NULL)
        pool->use_on_oom = *use_on_oom;
    if (no_split != NULL)
        pool->no_split = *no_split;
    return HR_OK;
}

/* ---- scopes ---------------------------------------------------------------------------------- */

static hr__scope **find_scope(hr__torch_engine *engine, hr_private_id id)
{
    hr__scope **link = &engine->scopes;
    while (*link != NULL && !hr__same_private_id((*link)->pool->id, id))
        link = &(*link)->older;
    return link;
}

hr_status hr__torch_scope_begin(hr__engine *base, hr_private_id id, hr_scope_filter filter,
                                void *context)
{
    hr__torch_engine *engine = hr__torch_of(base);
    if (*find_scope(engine, id) != NULL)
        return hr__fail(HR_ERR_WRONG_STATE, "beginAllocateToPool: already recording to mempool_id");
    hr__scope *scope = hr__host_alloc_zeroed(1, sizeof *scope);
    if (scope == NULL)
        return hr__fail_host_memory(sizeof *scope, "a scope");
    hr_status status = hr__torch_private_retain(base, id, NULL);
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

hr_status hr__torch_scope_end(hr__engine *base, hr_private_id id)
{
    hr__scope **link = find_scope(hr__torch_of(base), id);
    hr__scope *scope = *link;
    if (scope == NULL)
        return hr__fail(HR_ERR_WRONG_STATE,
                        "endAllocatePool: not currently recording to mempool_id");
    *link = scope->older;
    hr__host_free(scope);
    return HR_OK;
}
