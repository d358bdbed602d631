/* private_pools.h - private pools, scopes and routing, for every engine.
 *
 * vramwise.h has the contract of each function. Those that the engine table has an entry for can be
 * that entry as they are. */
#ifndef VW_ENGINE_PRIVATE_POOLS_H
#define VW_ENGINE_PRIVATE_POOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/vramwise.h" /* vw_private_id, vw_private_options, vw_scope_filter */
#include "engine/engine_base.h"
#include "engine/shelf.h"

typedef struct vw__private_pool {
    vw__tree_node node; /* by id */
    vw_private_id id;
    struct vw__private_pool *next, *previous; /* in order of creation */
    int use_count;                            /* the program's; 0: see vw__private_is_in_use() */
    int64_t segment_count;                    /* segments it owns */
    int requests_in_progress;                 /* that may drop the lock: the pool must not end */
    bool use_on_oom;
    bool no_split;
    bool one_handle;           /* a segment is one piece of physical memory */
    bool is_region;            /* named, and parked by itself: engines that can park */
    bool is_dropped;           /* a region whose data is not kept */
    bool has_graph;            /* a captured stream may have had memory of it: of regions */
    bool has_helped;           /* has served default requests: use_on_oom */
    bool is_parked;            /* by itself; set by the engine; is a use too */
    char name[48];             /* a region's */
    vw_private_options source; /* take and give_back, or NULL for the device's */
    vw__private_stat *stat;    /* the engine's */
    vw__shelf shelves[2];      /* by vw__engine_size_kind */
} vw__private_pool;

typedef struct vw__scope {
    struct vw__scope *older;
    vw__private_pool *pool;
    vw_scope_filter filter; /* NULL: every request */
    void *context;
} vw__scope;

/* ---- routing and capturing ------------------------------------------------------------------- */

/* The shelf that serves a request on `stream` now: the default pool's, if no scope wants it. */
vw__shelf *vw__engine_route(vw__engine *engine, vw_stream stream, vw__engine_size_kind kind);

/* A request on `stream` is served from the pool (NULL: from none): see has_graph. */
void vw__private_note_capture(const vw__engine *engine, vw__private_pool *pool, vw_stream stream);

/* True if frees and events must wait because a graph is being captured. */
bool vw__engine_is_capturing(const vw__engine *engine, vw_stream stream);

/* True if a trim must leave the default pool alone, because of a scope or a capture. */
bool vw__engine_keeps_default_pools(const vw__engine *engine);

/* For a request of the default pool that finds no memory: looks for a free block in the private
 * pools that were made with use_on_oom, in the order of their creation, with `find` on the shelf of
 * the same size kind. The block stays that pool's. Regions that are parked or keep no data are left
 * out. NULL: no pool has one, or `wanting` is a private pool's shelf. */
vw__block *vw__private_find_on_oom(vw__engine *engine, const vw__shelf *wanting,
                                   vw__block *(*find)(void *context, vw__shelf *shelf),
                                   void *context);

/* ---- the table's entries --------------------------------------------------------------------- */

vw_status vw__private_retain(vw__engine *engine, vw_private_id id,
                             const vw_private_options *options);
vw_status vw__private_release(vw__engine *engine, vw_private_id id);
int vw__private_use_count(const vw__engine *engine, vw_private_id id);
vw_status vw__private_set(vw__engine *engine, vw_private_id id, const bool *use_on_oom,
                          const bool *no_split);
vw_status vw__private_set_region(vw__engine *engine, vw_private_id id, const char *name,
                                 bool keeps_data);
vw_status vw__scope_begin(vw__engine *engine, vw_private_id id, vw_scope_filter filter,
                          void *context);
vw_status vw__scope_end(vw__engine *engine, vw_private_id id);

/* The private pool, whether in use or not; NULL: there is none. */
vw__private_pool *vw__private_find(const vw__engine *engine, vw_private_id id);
vw__private_pool *vw__private_find_region(const vw__engine *engine, const char *name);

/* If not, its idle memory may go, and with the last of it the pool. */
static inline bool vw__private_is_in_use(const vw__private_pool *pool)
{
    return pool->use_count != 0 || pool->is_parked;
}

/* A graph reads and writes the free memory of its pool whenever it runs. A pool without a name is a
 * graph's; of a region we know whether one was captured there. */
static inline bool vw__private_needs_free_memory(const vw__private_pool *pool)
{
    return pool->use_count != 0 && (!pool->is_region || pool->has_graph);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Nobody uses it, it holds nothing, and no request is on its way to it. */
static inline bool vw__private_is_over(const vw__private_pool *pool)
{
    return !vw__private_is_in_use(pool) && pool->segment_count == 0 &&
           pool->requests_in_progress == 0;
}

/* Ends a pool that is over. */
void vw__private_drop(vw__engine *engine, vw__private_pool *pool);

/* For the engine's end, after its segments: scopes, private pools and their statistics. */
void vw__private_deinit_all(vw__engine *engine);

#endif /* VW_ENGINE_PRIVATE_POOLS_H */
