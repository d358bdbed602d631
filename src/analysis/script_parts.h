/* script_parts.h - what script.c concludes before it makes operations of a trace.
 *
 * Each part answers one question about all events at once: which releases were an empty_cache()'s
 * (script_events.h), which private pool a request belonged to (script_pools.c), what was there
 * before the first event (script_start.c). */
#ifndef VW_ANALYSIS_SCRIPT_PARTS_H
#define VW_ANALYSIS_SCRIPT_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address_map.h"
#include "analysis/script.h"
#include "analysis/script_events.h"

/* Returns whether the guide says to read `event` the other way (vw__script_make_guided). */
bool vw__script_is_flipped(const vw__script_guide *guide, size_t event);

/* ---- private pools --------------------------------------------------------------------------- */

typedef struct vw__script_pools {
    uint16_t *of_event; /* owned; NULL: all in the default pool. Of an alloc: its pool; of a
                           release: that of the region it is part of */
    vw_private_id *ids; /* owned; the model's, then made-up ones */
    size_t id_count;
    bool has_guesses;
    bool has_hints; /* of the guide, that were used */
} vw__script_pools;

VW_MUST_CHECK vw_status vw__script_find_pools(const vw__model *model, const vw__model_trace *trace,
                                              const vw__script_guide *guide, vw__script_pools *out);
void vw__script_pools_deinit(vw__script_pools *pools);

/* ---- the beginning --------------------------------------------------------------------------- */

typedef enum vw__block_phase {
    VW__BLOCK_NOWHERE,
    VW__BLOCK_IS_LIVE,
    VW__BLOCK_IS_PENDING, /* free_requested */
    VW__BLOCK_IS_GONE,
} vw__block_phase;

/* One address at which there were blocks. */
typedef struct vw__script_block {
    uint64_t address;
    uint64_t size_bytes; /* of the present block, as requested */
    uint32_t slot;
    uint32_t user;   /* of a pending one */
    uint16_t stream; /* of one from the beginning */
    uint16_t pool;   /* the same */
    uint8_t phase;   /* vw__block_phase */
    bool is_initial; /* it was there before the first event */
} vw__script_block;

/* All addresses of a trace. */
typedef struct vw__script_blocks {
    vw__address_map map; /* address to index + 1 */
    vw__script_block *blocks;
    size_t count;
    size_t capacity;
} vw__script_blocks;

/* The block at `address`, or NULL; valid until one is added. */
vw__script_block *vw__script_blocks_find(const vw__script_blocks *blocks, uint64_t address);
void vw__script_blocks_deinit(vw__script_blocks *blocks);

/* What the trace as a whole says of its beginning and its end. */
typedef struct vw__script_start {
    bool is_truncated;
    bool has_end_state;
    bool lacks_free_requested;
    bool lacks_free_completed;
    bool has_releases; /* memory was given back: only then is there anything to find_trims in */
} vw__script_start;

/* Fills `blocks` (initialised by this) with every address of the trace, in phase NOWHERE, and with
 * the blocks that were there before, in phase LIVE with is_initial. A trace of fewer than
 * VW__BEFORE_RECORDING events.
 *
 * VW_ERR_CORRUPT_FILE: an alloc on a live block. */
VW_MUST_CHECK vw_status vw__script_find_start(const vw__model *model, const vw__model_trace *trace,
                                              vw__script_blocks *blocks, vw__script_start *out);

#endif /* VW_ANALYSIS_SCRIPT_PARTS_H */
