/* torch_engine.h - PyTorch's caching allocator: what its files share.
 *
 *   torch_engine.c          a request from rounding to hand-out, and its way back
 *   torch_lifecycle.c       making and ending the engine, its settings, its table
 *   torch_expandable.c      segments that grow and shrink page by page
 *   torch_reclaim.c         giving memory back: trim, retry, garbage collection
 *   torch_private_pools.c   private pools, scopes and routing
 *   torch_inspect.c         walking and checking everything
 *   torch_rounding, torch_settings, torch_versions    the numbers, the option string, the releases
 *
 * The rules are PyTorch's, to the byte: where a comment says "as PyTorch" there is no better
 * reason, and none is needed. Where releases differ, torch_versions.h has a named switch. */
#ifndef HR_ENGINE_TORCH_TORCH_ENGINE_H
#define HR_ENGINE_TORCH_TORCH_ENGINE_H

#include "engine/shelf.h"
#include "engine/engine.h"
#include "engine/torch/torch_settings.h"
#include "engine/torch/torch_versions.h"

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

typedef struct hr__torch_engine {
    hr__engine base;
    hr__torch_rules rules;
    hr__torch_settings settings;
    bool is_expandable;  /* the setting, where version and device have it */
    bool counts_ages;    /* garbage collection is on: a threshold and a limit are set */
    bool is_strict;      /* how option strings are read */
    uint64_t held_bytes; /* reserved from the device, all pools: what the limit is compared with */
    size_t expandable_segments;
    uint32_t tie_breaks;     /* given out so far */
    hr__shelf shelves[2];    /* the default pool, by hr__size_kind */
    hr__tree_node *segments; /* by address */
    hr__private_pool *private_pools;
    hr__scope *scopes;          /* newest first */
    const hr__request *serving; /* the request in progress, or NULL */
} hr__torch_engine;

/* One request on its way. */
typedef struct hr__search {
    hr__shelf *shelf;
    hr__lane *lane; /* NULL: the stream has none on this shelf yet */
    hr_stream stream;
    uint64_t size_bytes;    /* rounded */
    uint64_t segment_bytes; /* what the device would be asked for; set on a miss */
    bool is_expandable;
} hr__search;

/* Makes an engine that drives owner->device. `conf` and `version` as in hr_pool_options. */
hr_status hr__torch_engine_create(const hr__engine_owner *owner, const char *conf, int version,
                                  bool is_strict, hr__engine **out);

/* ---- torch_engine.c -------------------------------------------------------------------------- */
hr_status hr__torch_allocate(hr__engine *engine, const hr__request *request, hr__block **out,
                             hr__refusal *refusal);
hr_status hr__torch_allocate_at(hr__engine *engine, const hr__request *request,
                                hr_device_ptr address, hr__block **prefix, hr__block **out);
void hr__torch_free(hr__engine *engine, hr__block *block);

/* Tells the listener, if there is one. */
void hr__torch_notice(hr__torch_engine *engine, hr_action action, const hr__lane *lane,
                      uint64_t address, uint64_t size_bytes, uint64_t tag);

/* Counts bytes taken from the device or given back: in the limit's sum, and for users. */
void hr__torch_count_held(hr__torch_engine *engine, const hr__shelf *shelf, int64_t bytes);

/* The tag for memory given back: that of the request in progress, if it has none 0; outside of
 * requests what the block remembers. */
uint64_t hr__torch_event_tag(const hr__torch_engine *engine, const hr__block *block);

/* The number a new record gets under the version's tie-break rule. */
uint32_t hr__torch_block_tie_break(hr__torch_engine *engine, const hr__segment *segment);

/* `block`, which is in no index, becomes FREE or UNMAPPED: joined with neighbours of that state,
 * and indexed. */
void hr__torch_settle_free(hr__torch_engine *engine, hr__lane *lane, hr__block *block);
void hr__torch_settle_unmapped(hr__torch_engine *engine, hr__lane *lane, hr__block *block);

/* A new segment with one block over all of it, in the engine's books but in no index. NULL: out of
 * host memory. */
hr__segment *hr__torch_add_segment(hr__torch_engine *engine, hr__lane *lane, uint64_t address,
                                   uint64_t size_bytes, bool is_expandable);
void hr__torch_drop_segment(hr__torch_engine *engine, hr__segment *segment);

/* ---- torch_expandable.c ---------------------------------------------------------------------- */

/* HR_OK: `*out` is free and has at least the search's size. HR_ERR_OUT_OF_MEMORY: pages
 * mapped on the way stay, free. */
hr_status hr__torch_grow_expandable(hr__torch_engine *engine, const hr__search *search,
                                    hr__block **out);

/* Gives the whole pages inside a free block back. The block may be gone afterwards. */
hr_status hr__torch_shrink_expandable(hr__torch_engine *engine, hr__block *block);

/* Gives a whole segment back, whatever is in it; for the end of the engine. */
void hr__torch_abandon_segment(hr__torch_engine *engine, hr__segment *segment);

/* ---- torch_reclaim.c ------------------------------------------------------------------------- */
hr_status hr__torch_trim(hr__torch_engine *engine, const hr_private_id *only);
hr_status hr__torch_collect_garbage(hr__torch_engine *engine);

/* `*is_enough`: it is worth asking the device again. */
hr_status hr__torch_release_available(hr__torch_engine *engine, const hr__search *search,
                                      bool *is_enough);

/* ---- torch_private_pools.c ------------------------------------------------------------------- */
hr__shelf *hr__torch_route(hr__torch_engine *engine, hr_stream stream, hr__size_kind kind);
void hr__torch_drop_private(hr__torch_engine *engine, hr__private_pool *pool);

/* Nobody uses it, it holds nothing, and no request is on its way to it. */
static inline bool hr__torch_private_is_over(const hr__private_pool *pool)
{
    return pool->use_count == 0 && pool->segment_count == 0 && pool->requests_in_progress == 0;
}

bool hr__torch_is_capturing(const hr__engine *engine, hr_stream stream);
bool hr__torch_keeps_default_pools(const hr__torch_engine *engine);
hr_status hr__torch_private_retain(hr__engine *engine, hr_private_id id,
                                   const hr_private_options *options);
hr_status hr__torch_private_release(hr__engine *engine, hr_private_id id);
int hr__torch_private_use_count(const hr__engine *engine, hr_private_id id);
hr_status hr__torch_private_set(hr__engine *engine, hr_private_id id, const bool *use_on_oom,
                                const bool *no_split);
hr_status hr__torch_scope_begin(hr__engine *engine, hr_private_id id, hr_scope_filter filter,
                                void *context);
hr_status hr__torch_scope_end(hr__engine *engine, hr_private_id id);

/* ---- torch_inspect.c ------------------------------------------------------------------------- */
hr__block *hr__torch_find(hr__engine *engine, hr_device_ptr address);
void hr__torch_walk(hr__engine *engine, const hr_walker *walker);
hr_status hr__torch_check(hr__engine *engine);
uint64_t hr__torch_largest_free(const hr__engine *engine, const hr_stream *only_stream);
uint64_t hr__torch_private_idle(const hr__engine *engine);

static inline hr__torch_engine *hr__torch_of(hr__engine *engine)
{
    return (hr__torch_engine *)(void *)engine; /* `base` is the first field */
}

static inline const hr__torch_engine *hr__torch_of_const(const hr__engine *engine)
{
    return (const hr__torch_engine *)(const void *)engine;
}

#endif /* HR_ENGINE_TORCH_TORCH_ENGINE_H */
