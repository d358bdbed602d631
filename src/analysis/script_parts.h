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

/* Fills `pools`, `pool_count`, `has_guessed_pools` and `has_hinted_pools` of the script, and stores
 * by event, for an alloc its pool, for a release the pool of the region it is part of. `*of_event`
 * is freed with vw__host_free(), also on failure; NULL: all are of the default pool. */
VW_MUST_CHECK vw_status vw__script_find_pools(vw__script *script, const vw__script_guide *guide,
                                              uint16_t **of_event);

/* ---- the beginning --------------------------------------------------------------------------- */

typedef enum vw__script_phase {
    VW__SCRIPT_BLOCK_NOWHERE,
    VW__SCRIPT_BLOCK_LIVE,
    VW__SCRIPT_BLOCK_PENDING, /* free_requested */
    VW__SCRIPT_BLOCK_GONE,
} vw__script_phase;

/* One address at which there were blocks. */
typedef struct vw__script_block {
    uint64_t address;
    uint64_t size_bytes; /* of the present block, as requested */
    uint32_t slot;
    uint32_t user;   /* of a pending one */
    uint16_t stream; /* of one from the beginning */
    uint16_t pool;   /* the same */
    uint8_t phase;   /* vw__script_phase */
    bool is_initial; /* it was there before the first event */
} vw__script_block;

/* All addresses of a trace. */
typedef struct vw__script_blocks {
    vw__address_map map; /* address to index + 1 */
    vw__script_block *blocks;
    size_t count;
    size_t capacity;
    bool has_releases; /* memory was given back: only then is there anything to find_trims in */
} vw__script_blocks;

/* The block at `address`, or NULL; valid until one is added. */
vw__script_block *vw__script_blocks_find(const vw__script_blocks *blocks, uint64_t address);
void vw__script_blocks_deinit(vw__script_blocks *blocks);

/* Fills `blocks` (initialised by this) with every address of the trace, in phase NOWHERE, and with
 * the blocks that were there before, in phase LIVE with is_initial; and the script's
 * `is_truncated`, `has_end_state` and `lacks_...`. For a trace of fewer than
 * VW__SCRIPT_BEFORE_RECORDING events.
 *
 * VW_ERR_CORRUPT_FILE: an alloc on a live block. */
VW_MUST_CHECK vw_status vw__script_find_start(vw__script *script, vw__script_blocks *blocks);

#endif /* VW_ANALYSIS_SCRIPT_PARTS_H */
