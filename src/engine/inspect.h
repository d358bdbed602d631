/* inspect.h - finding, walking and checking the blocks of any engine.
 *
 * An engine's check() is its first test: it walks every segment, block and index and compares them
 * with each other and with the counters. What holds in every engine is checked here:
 *   - blocks tile their segment and know their neighbours (block.h)
 *   - neighbours that are both FREE or UNMAPPED have been merged; GHOST and SHADOW ones need not
 *   - only blocks of expandable segments are without memory of their own
 *   - the indexes are whole (free_index.h), and lanes in order
 *   - a FREE block is in its lane's free index, an UNMAPPED or GHOST one in its unmapped tree, no
 *     other is
 *   - as many block records are spare as are counted, and no request is left over
 * and the rest is the engine's own. */
#ifndef VW_ENGINE_INSPECT_H
#define VW_ENGINE_INSPECT_H

#include <stdint.h>

#include "vramwise/vramwise.h" /* vw_walker */
#include "base/error.h"
#include "engine/engine_base.h"

/* ---- the table's entries --------------------------------------------------------------------- */

vw__block *vw__engine_find(vw__engine *engine, vw_device_ptr address);

/* For allocate_at(): the free block of `lane` that has `size_bytes` from `address` on.
 * VW_ERR_OUT_OF_MEMORY: there is none. */
vw_status vw__engine_find_free_at(vw__engine *engine, const vw__lane *lane, vw_device_ptr address,
                                  uint64_t size_bytes, vw__block **out);

/* Skips blocks without memory of their own (vw__block_has_memory): they end a segment. */
void vw__engine_walk(vw__engine *engine, const vw_walker *walker);
uint64_t vw__engine_largest_free(const vw__engine *engine, const vw_stream *only_stream);
uint64_t vw__engine_private_idle(const vw__engine *engine);

/* ---- checking -------------------------------------------------------------------------------- */

/* Fails the function it is in with VW_ERR_WRONG_STATE and a message, unless the claim is true. */
#define VW__ENGINE_CHECK(claim, ...)                                                               \
    do {                                                                                           \
        if (!(claim))                                                                              \
            return vw__fail(VW_ERR_WRONG_STATE, __VA_ARGS__);                                      \
    } while (0)

/* What a check counted, for an engine to compare with its books. */
typedef struct vw__engine_census {
    /* Set by the caller. Asked about each block, by rising address, after the block was found to
     * lie where it should; or NULL. Blocks after it may still be damaged. */
    vw_status (*check_block)(void *context, const vw__block *block);
    void *context;

    /* Filled; zero before. */
    uint64_t free_blocks;      /* in segments */
    uint64_t unmapped_blocks;  /* in segments */
    uint64_t indexed_blocks;   /* in free indexes */
    uint64_t indexed_unmapped; /* in unmapped trees */
    uint64_t memory_bytes[2];  /* of blocks that have memory, by vw__engine_size_kind */
    uint64_t plain_segments[2];
    uint64_t expandable_segments;
} vw__engine_census;

/* Everything that the top comment lists. VW_ERR_WRONG_STATE, and vw_last_error() says what. */
vw_status vw__engine_check_blocks(const vw__engine *engine, vw__engine_census *census);

/* VW_ERR_WRONG_STATE unless a counter's current values are what was counted. */
vw_status vw__engine_check_counter(const vw__counter *counter, const uint64_t expected[2],
                                   const char *name);

#endif /* VW_ENGINE_INSPECT_H */
