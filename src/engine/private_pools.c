/* private_pools.c - private pools, scopes and routing.
 *
 * A private pool has shelves of its own, so its segments never serve anyone else: what a CUDA graph
 * recorded stays where it was recorded. While its use count is not zero its idle memory is not
 * given back, not even to avoid running out; at zero the next trim takes what it can, and the pool
 * ends with its last segment. A region that is parked by itself is in use too, whatever its count.
 *
 * A scope routes requests to a private pool while it is open. Requests look through the open
 * scopes and take the first whose filter accepts their stream. In which order, and what counts as
 * capturing, is the engine's choice (vw__engine_routing). */
#include "engine/private_pools.h"

#include <inttypes.h>
#include <stddef.h> /* offsetof */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"

/* ---- by id ----------------------------------------------------------------------------------- */

/* Pools and their statistics both begin with this: programs may have thousands of them. */
typedef struct keyed {
    vw__tree_node node;
    vw_private_id id;
} keyed;

_Static_assert(offsetof(vw__private_pool, node) == offsetof(keyed, node) &&
                   offsetof(vw__private_pool, id) == offsetof(keyed, id) &&
                   offsetof(vw__private_stat, node) == offsetof(keyed, node) &&
                   offsetof(vw__private_stat, id) == offsetof(keyed, id),
               "found by id alike");

static bool id_before(const vw__tree_node *left, const vw__tree_node *right)
{
    const vw_private_id one = ((const keyed *)(const void *)left)->id;
    const vw_private_id other = ((const keyed *)(const void *)right)->id;
    return one.first != other.first ? one.first < other.first : one.second < other.second;
}

/* The pool or statistics with that id; NULL: none. */
static void *find_keyed(vw__tree_node *root, vw_private_id id)
{
    const keyed key = {.id = id};
    vw__tree_node *node = vw__tree_first_from(root, &key.node, id_before);
    return node != NULL && vw__private_id_same(((keyed *)(void *)node)->id, id) ? node : NULL;
}

vw__private_pool *vw__private_find(const vw__engine *engine, vw_private_id id)
{
    return find_keyed(engine->private_pools_by_id, id);
}

/* ---- routing --------------------------------------------------------------------------------- */

vw__shelf *vw__engine_route(vw__engine *engine, vw_stream stream, vw__engine_size_kind kind)
{
    vw__private_pool *chosen = NULL;
    for (vw__scope *scope = engine->scopes; scope != NULL; scope = scope->older) {
        if (scope->filter == NULL || scope->filter(scope->context, stream)) {
            chosen = scope->pool;
            if (engine->routing.newest_scope_first)
                break;
        }
    }
    return chosen != NULL ? &chosen->shelves[kind] : &engine->shelves[kind];
}

vw__block *vw__private_find_on_oom(vw__engine *engine, const vw__shelf *wanting,
                                   vw__block *(*find)(void *context, vw__shelf *shelf),
                                   void *context)
{
    vw__block *found = NULL;
    if (wanting->private_pool != NULL)
        return NULL;
    for (vw__private_pool *pool = engine->private_pools; pool != NULL && found == NULL;
         pool = pool->next) {
        if (!pool->use_on_oom || pool->is_parked || pool->is_dropped)
            continue;
        found = find(context, &pool->shelves[wanting->kind]);
        pool->has_helped |= found != NULL;
        pool->has_graph |= found != NULL; /* nobody asks whether a graph was helped */
    }
    return found;
}

/* ---- capturing ------------------------------------------------------------------------------- */

static bool device_says_capturing(const vw__engine *engine, vw_stream stream)
{
    const vw_device *device = engine->owner.device;
    bool is_capturing = false;
    return device->table->stream_is_capturing(device->context, stream, &is_capturing) == VW_OK &&
           is_capturing;
}

void vw__private_note_capture(const vw__engine *engine, vw__private_pool *pool, vw_stream stream)
{
    const vw_device *device = engine->owner.device;
    bool is_capturing = true;
    if (pool == NULL || !pool->is_region || pool->has_graph)
        return;
    vw_status status = device->table->stream_is_capturing(device->context, stream, &is_capturing);
    pool->has_graph = status != VW_OK || is_capturing; /* where nobody knows it may be */
}

/* A capture always begins inside a scope, so without one the device need not be asked. */
bool vw__engine_is_capturing(const vw__engine *engine, vw_stream stream)
{
    if (engine->scopes == NULL)
        return false;
    return engine->routing.scopes_count_as_captures || device_says_capturing(engine, stream);
}

/* PyTorch asks for the calling thread's current stream; we know the streams that allocated in the
 * open scopes, and a capture under way is on one of them. */
bool vw__engine_keeps_default_pools(const vw__engine *engine)
{
    if (engine->scopes == NULL || engine->routing.keeps_default == VW__ENGINE_KEEP_NOTHING)
        return false;
    if (engine->routing.keeps_default == VW__ENGINE_KEEP_IN_SCOPES)
        return true;
    for (const vw__scope *scope = engine->scopes; scope != NULL; scope = scope->older)
        for (int kind = VW__ENGINE_SMALL; kind <= VW__ENGINE_LARGE; kind++)
            for (const vw__lane *lane = scope->pool->shelves[kind].lanes; lane != NULL;
                 lane = lane->next)
                if (device_says_capturing(engine, lane->stream))
                    return true;
    return false;
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

/* The statistics of private pool `id`, which outlive the pool. NULL: out of host memory. */
static vw__private_stat *find_or_add_stat(vw__engine *engine, vw_private_id id)
{
    vw__private_stat *stat = find_keyed(engine->private_stats_by_id, id);
    if (stat != NULL || (stat = vw__host_alloc_zeroed(1, sizeof *stat)) == NULL)
        return stat;
    stat->id = id;
    if (engine->last_private_stat != NULL)
        engine->last_private_stat->next = stat;
    else
        engine->private_stats = stat;
    engine->last_private_stat = stat;
    vw__tree_insert(&engine->private_stats_by_id, &stat->node, id_before);
    return stat;
}

static void file_private(vw__engine *engine, vw__private_pool *pool)
{
    pool->previous = engine->last_private_pool;
    if (pool->previous != NULL)
        pool->previous->next = pool;
    else
        engine->private_pools = pool;
    engine->last_private_pool = pool;
    vw__tree_insert(&engine->private_pools_by_id, &pool->node, id_before);
}

static vw_status add_private(vw__engine *engine, vw_private_id id,
                             const vw_private_options *options)
{
    vw__private_stat *stat = find_or_add_stat(engine, id);
    vw__private_pool *pool = stat != NULL ? vw__host_alloc_zeroed(1, sizeof *pool) : NULL;
    if (pool == NULL)
        return vw__fail_host_memory(sizeof *pool, "a private pool");
    pool->id = id;
    pool->stat = stat;
    pool->use_count = 1;
    if (options != NULL) {
        pool->use_on_oom = options->use_on_oom;
        pool->no_split = options->no_split;
        pool->one_handle = options->one_handle;
        pool->source = *options;
    }
    for (int kind = VW__ENGINE_SMALL; kind <= VW__ENGINE_LARGE; kind++) {
        pool->shelves[kind].kind = (vw__engine_size_kind)kind;
        pool->shelves[kind].private_pool = pool;
        pool->shelves[kind].private_id = id;
    }
    file_private(engine, pool);
    return VW_OK;
}

void vw__private_drop(vw__engine *engine, vw__private_pool *pool)
{
    if (pool->previous != NULL)
        pool->previous->next = pool->next;
    else
        engine->private_pools = pool->next;
    if (pool->next != NULL)
        pool->next->previous = pool->previous;
    else
        engine->last_private_pool = pool->previous;
    vw__tree_remove(&engine->private_pools_by_id, &pool->node);
    vw__shelf_deinit(&pool->shelves[VW__ENGINE_SMALL]);
    vw__shelf_deinit(&pool->shelves[VW__ENGINE_LARGE]);
    vw__host_free(pool);
}

vw_status vw__private_retain(vw__engine *engine, vw_private_id id,
                             const vw_private_options *options)
{
    if (vw__private_id_same(id, vw__private_id_none()))
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "private pool id (0, 0) is the default pool");
    vw__private_pool *pool = vw__private_find(engine, id);
    if (pool == NULL)
        return add_private(engine, id, options);
    if (pool->use_count == 0)
        return vw__fail(VW_ERR_WRONG_STATE,
                        "private pool (%" PRIu64 ", %" PRIu64 ") was released and still holds "
                        "memory: trim it, or use another id",
                        id.first, id.second);
    pool->use_count++;
    return VW_OK;
}

static vw_status find_retained(const vw__engine *engine, vw_private_id id, vw__private_pool **out)
{
    vw__private_pool *pool = vw__private_find(engine, id);
    if (pool == NULL || pool->use_count == 0)
        return vw__fail(VW_ERR_WRONG_STATE, "private pool (%" PRIu64 ", %" PRIu64 ") is not in use",
                        id.first, id.second);
    *out = pool;
    return VW_OK;
}

vw_status vw__private_release(vw__engine *engine, vw_private_id id)
{
    vw__private_pool *pool = NULL;
    VW__TRY(find_retained(engine, id, &pool));
    for (const vw__scope *scope = engine->scopes; scope != NULL && pool->use_count == 1;
         scope = scope->older)
        if (scope->pool == pool)
            return vw__fail(VW_ERR_WRONG_STATE,
                            "private pool (%" PRIu64 ", %" PRIu64 ") is still routed to", id.first,
                            id.second);
    pool->use_count--;
    if (vw__private_is_over(pool))
        vw__private_drop(engine, pool);
    return VW_OK;
}

int vw__private_use_count(const vw__engine *engine, vw_private_id id)
{
    const vw__private_pool *pool = vw__private_find(engine, id);
    return pool != NULL ? pool->use_count : 0;
}

vw_status vw__private_set(vw__engine *engine, vw_private_id id, const bool *use_on_oom,
                          const bool *no_split)
{
    vw__private_pool *pool = NULL;
    VW__TRY(find_retained(engine, id, &pool));
    if (use_on_oom != NULL)
        pool->use_on_oom = *use_on_oom;
    if (no_split != NULL)
        pool->no_split = *no_split;
    return VW_OK;
}

vw__private_pool *vw__private_find_region(const vw__engine *engine, const char *name)
{
    vw__private_pool *pool = engine->private_pools;
    while (pool != NULL && !(pool->is_region && strcmp(pool->name, name) == 0))
        pool = pool->next;
    return pool;
}

vw_status vw__private_set_region(vw__engine *engine, vw_private_id id, const char *name,
                                 bool keeps_data)
{
    vw__private_pool *pool = NULL;
    VW__TRY(find_retained(engine, id, &pool));
    bool is_same = pool->is_region && pool->is_dropped == !keeps_data &&
                   strncmp(pool->name, name, sizeof pool->name - 1) == 0;
    if (is_same) /* programs name it at each entry, also while it is parked */
        return VW_OK;
    if (pool->is_parked)
        return vw__fail(VW_ERR_WRONG_STATE, "region \"%s\" is parked", pool->name);
    if (pool->one_handle && pool->segment_count != 0)
        return vw__fail(VW_ERR_WRONG_STATE,
                        "\"%s\" cannot be a region: its private pool has segments of one handle, "
                        "which never leave the device",
                        name);
    if (pool->has_helped && !keeps_data)
        return vw__fail(
            VW_ERR_WRONG_STATE,
            "the data of \"%s\" has to be kept: its private pool served requests of the "
            "default pool (use_on_oom)",
            name);
    pool->one_handle = false;
    if (!pool->is_region)
        pool->has_graph |= pool->segment_count != 0 || pool->requests_in_progress != 0;
    pool->is_region = true;
    pool->is_dropped = !keeps_data;
    snprintf(pool->name, sizeof pool->name, "%s", name);
    return VW_OK;
}

/* ---- scopes ---------------------------------------------------------------------------------- */

static vw__scope **find_scope(vw__engine *engine, vw_private_id id)
{
    vw__scope **link = &engine->scopes;
    while (*link != NULL && !vw__private_id_same((*link)->pool->id, id))
        link = &(*link)->older;
    return link;
}

vw_status vw__scope_begin(vw__engine *engine, vw_private_id id, vw_scope_filter filter,
                          void *context)
{
    if (*find_scope(engine, id) != NULL)
        return vw__fail(VW_ERR_WRONG_STATE, "beginAllocateToPool: already recording to mempool_id");
    vw__scope *scope = vw__host_alloc_zeroed(1, sizeof *scope);
    if (scope == NULL)
        return vw__fail_host_memory(sizeof *scope, "a scope");
    vw_status status = vw__private_retain(engine, id, NULL);
    if (status != VW_OK) {
        vw__host_free(scope);
        return status;
    }
    scope->pool = vw__private_find(engine, id);
    scope->filter = filter;
    scope->context = context;
    scope->older = engine->scopes;
    engine->scopes = scope;
    return VW_OK;
}

vw_status vw__scope_end(vw__engine *engine, vw_private_id id)
{
    vw__scope **link = find_scope(engine, id);
    vw__scope *scope = *link;
    if (scope == NULL)
        return vw__fail(VW_ERR_WRONG_STATE,
                        "endAllocatePool: not currently recording to mempool_id");
    *link = scope->older;
    vw__host_free(scope);
    return VW_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

void vw__private_deinit_all(vw__engine *engine)
{
    while (engine->scopes != NULL) {
        vw__scope *scope = engine->scopes;
        engine->scopes = scope->older;
        vw__host_free(scope);
    }
    while (engine->private_pools != NULL)
        vw__private_drop(engine, engine->private_pools);
    while (engine->private_stats != NULL) {
        vw__private_stat *stat = engine->private_stats;
        engine->private_stats = stat->next;
        vw__host_free(stat);
    }
}
