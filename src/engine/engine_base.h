/* engine_base.h - what every engine begins with, and its books of segments: adding and dropping
 * their records, counting the bytes held from the device, telling listeners. The device itself is
 * called elsewhere.
 *
 * What engines share besides works on the same struct: private_pools.h, inspect.h. */
#ifndef VW_ENGINE_ENGINE_BASE_H
#define VW_ENGINE_ENGINE_BASE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/shelf.h"

struct vw__private_pool; /* private_pools.h */
struct vw__scope;

/* The reserved bytes of one private pool. Kept after the pool's end, as in PyTorch. */
typedef struct vw__private_stat {
    vw__tree_node node; /* by id */
    vw_private_id id;
    struct vw__private_stat *next; /* in order of creation */
    vw__counter reserved_bytes;
} vw__private_stat;

/* When a trim leaves the default pool alone. */
typedef enum vw__engine_keep {
    VW__ENGINE_KEEP_NOTHING,     /* never */
    VW__ENGINE_KEEP_IN_SCOPES,   /* while any scope is open */
    VW__ENGINE_KEEP_IN_CAPTURES, /* while a stream that allocates in an open scope is captured */
} vw__engine_keep;

/* How private pools and captures work, where engines and releases of PyTorch differ. */
typedef struct vw__engine_routing {
    bool newest_scope_first;       /* of several scopes that want a request; else the oldest */
    bool scopes_count_as_captures; /* else the device is asked whether the stream is captured */
    vw__engine_keep keeps_default;
} vw__engine_routing;

/* Which blocks that several streams used in a capture are free before events can be looked at. */
typedef enum vw__engine_reuse {
    VW__ENGINE_REUSE_NOTHING,     /* none */
    VW__ENGINE_REUSE_ORDERED,     /* those whose uses the captured graph has put in order */
    VW__ENGINE_REUSE_ALSO_AT_END, /* and, at a scope's end, all that its pool deferred */
} vw__engine_reuse;

/* What every engine begins with. */
struct vw__engine {
    const vw__engine_table *table; /* an engine may exchange it for one of the same capabilities */
    vw__engine_owner owner;        /* set at creation, then read-only, like the next */
    vw__engine_routing routing;
    vw__engine_reuse reuse; /* by the settings; the owner looks at it */
    bool is_fallback; /* serves in the place of the engine that was asked for: engine_list.h */
    vw__block_source records;
    uint64_t limit_bytes;     /* reserve at most this; UINT64_MAX = no limit */
    double fraction;          /* that the limit came from */
    uint64_t max_split_bytes; /* blocks from this size on are "oversize"; UINT64_MAX = none */
    uint64_t held_bytes;  /* reserved from the device, all pools: what the limit is compared with */
    vw__shelf shelves[2]; /* the default pool, by vw__engine_size_kind */
    vw__tree_node *segments;                                    /* by address */
    uint32_t segment_numbers;                                   /* the next segment's */
    struct vw__private_pool *private_pools, *last_private_pool; /* in order of creation */
    vw__tree_node *private_pools_by_id;
    struct vw__scope *scopes;                            /* newest first */
    const vw__engine_request *serving;                   /* the request in progress, or NULL */
    vw__private_stat *private_stats, *last_private_stat; /* of each private pool that ever was */
    vw__tree_node *private_stats_by_id;
};

/* Fills an engine that is zero: without limits, routing by the zeros of vw__engine_routing. */
void vw__engine_init(vw__engine *engine, const vw__engine_table *table,
                     const vw__engine_owner *owner);

/* The segments are gone. Frees scopes, private pools, shelves and records. */
void vw__engine_deinit(vw__engine *engine);

/* A new segment with one block over all of it, in the engine's books but in no index, and
 * VW__ENGINE_SPARE_RECORDS spare before that block was made. `nature` has no
 * VW__BLOCK_NATURE_LARGE: the size kind is the lane's. NULL: out of host memory. */
vw__segment *vw__engine_add_segment(vw__engine *engine, vw__lane *lane, uint64_t address,
                                    uint64_t size_bytes, uint8_t nature, uint32_t tie_break);

/* The same in two steps, for memory that is taken in between: filing cannot fail, so nothing that
 * the device gave need go back, which it might refuse. Unmade is what was not filed. */
vw__segment *vw__engine_make_segment(vw__engine *engine);
void vw__engine_file_segment(vw__engine *engine, vw__segment *segment, vw__lane *lane,
                             uint64_t address, uint64_t size_bytes, uint8_t nature,
                             uint32_t tie_break);
void vw__engine_unmake_segment(vw__engine *engine, vw__segment *segment);

/* The segment must have one block, in no index; at the engine's end, where the records of all
 * blocks go at once, whatever it has. What the engine keeps with it (`detail`) is the engine's to
 * free, before. */
void vw__engine_drop_segment(vw__engine *engine, vw__segment *segment);

/* Tells the listener, if there is one. */
void vw__engine_notice(vw__engine *engine, vw_action action, const vw__lane *lane, uint64_t address,
                       uint64_t size_bytes, uint64_t tag);

/* The tag for memory given back: during a request that request's, otherwise what the block
 * remembers. */
uint64_t vw__engine_event_tag(const vw__engine *engine, const vw__block *block);

/* The engine table's see_to_records(). */
vw_status vw__engine_see_to_records(vw__engine *engine, size_t count);

/* Counts bytes taken from the device or given back: in the limit's sum, and for users. */
void vw__engine_count_held(vw__engine *engine, const vw__shelf *shelf, int64_t bytes);

static inline vw__segment *vw__segment_of_node(vw__tree_node *node)
{
    return (vw__segment *)(void *)node; /* `node` is the first field */
}

#endif /* VW_ENGINE_ENGINE_BASE_H */
