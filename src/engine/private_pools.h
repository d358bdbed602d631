/* private_pools.h - private pools, scopes and routing, for every engine.
 *
 * What the functions promise to users is in headroom.h; those that an engine's table has an entry
 * for are its entries as they are. */
#ifndef HR_ENGINE_PRIVATE_POOLS_H
#define HR_ENGINE_PRIVATE_POOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "headroom/headroom.h" /* hr_private_id, hr_private_options, hr_scope_filter */
#include "engine/engine.h"
#include "engine/shelf.h"

typedef struct hr__private_pool {
    struct hr__private_pool *next; /* in order of creation */
    hr_private_id id;
    int use_count;            /* 0: its idle memory may go, and with the last of it the pool */
    int64_t segment_count;    /* segments it owns */
    int requests_in_progress; /* that may drop the lock: the pool must not end */
    bool use_on_oom;
    bool no_split;
    hr_private_options source; /* take and give_back, or NULL for the device's */
    hr__private_stat *stat;    /* the engine's */
    hr__shelf shelves[2];      /* by hr__size_kind */
} hr__private_pool;

typedef struct hr__scope {
    struct hr__scope *older;
    hr__private_pool *pool;
    hr_scope_filter filter; /* NULL: every request */
    void *context;
} hr__scope;

/* ---- routing and capturing ------------------------------------------------------------------- */

/* The shelf that serves a request on `stream` now: the default pool's, if no scope wants it. */
hr__shelf *hr__engine_route(hr__engine *engine, hr_stream stream, hr__size_kind kind);

/* Must frees and events wait because a graph is being captured? */
bool hr__engine_is_capturing(const hr__engine *engine, hr_stream stream);

/* Must a trim leave the default pool alone, because of a scope or a capture? */
bool hr__engine_keeps_default_pools(const hr__engine *engine);

/* ---- the table's entries --------------------------------------------------------------------- */

hr_status hr__private_retain(hr__engine *engine, hr_private_id id,
                             const hr_private_options *options);
hr_status hr__private_release(hr__engine *engine, hr_private_id id);
int hr__private_use_count(const hr__engine *engine, hr_private_id id);
hr_status hr__private_set(hr__engine *engine, hr_private_id id, const bool *use_on_oom,
                          const bool *no_split);
hr_status hr__scope_begin(hr__engine *engine, hr_private_id id, hr_scope_filter filter,
                          void *context);
hr_status hr__scope_end(hr__engine *engine, hr_private_id id);

/* ---- the end --------------------------------------------------------------------------------- */

/* Nobody uses it, it holds nothing, and no request is on its way to it. */
static inline bool hr__private_is_over(const hr__private_pool *pool)
{
    return pool->use_count == 0 && pool->segment_count == 0 && pool->requests_in_progress == 0;
}

/* Ends a pool that is over. */
void hr__private_drop(hr__engine *engine, hr__private_pool *pool);

/* For the engine's end, after its segments: scopes, private pools and their statistics. */
void hr__private_deinit_all(hr__engine *engine);

#endif /* HR_ENGINE_PRIVATE_POOLS_H */
