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
#ifndef HR_ENGINE_INSPECT_H
#define HR_ENGINE_INSPECT_H

#include <stdint.h>

#include "headroom/headroom.h" /* hr_walker */
#include "base/error.h"
#include "engine/engine.h"

/* ---- the table's entries --------------------------------------------------------------------- */

hr__block *hr__engine_find(hr__engine *engine, hr_device_ptr address);

/* Blocks without memory of their own (hr__block_has_memory) are not told: they end a segment. */
void hr__engine_walk(hr__engine *engine, const hr_walker *walker);
uint64_t hr__engine_largest_free(const hr__engine *engine, const hr_stream *only_stream);
uint64_t hr__engine_private_idle(const hr__engine *engine);

/* ---- checking -------------------------------------------------------------------------------- */

/* Fails the function it is in with HR_ERR_WRONG_STATE and a message, unless the claim is true. */
#define HR__CHECK(claim, ...)                                                                      \
    do {                                                                                           \
        if (!(claim))                                                                              \
            return hr__fail(HR_ERR_WRONG_STATE, __VA_ARGS__);                                      \
    } while (0)

/* What there was; for an engine to compare with its books. */
typedef struct hr__census {
    /* Set by the caller. Asked about each block, by rising address, after the block was found to
     * lie where it should; or NULL. Blocks after it may still be damaged. */
    hr_status (*check_block)(void *context, const hr__block *block);
    void *context;

    /* Filled; zero before. */
    uint64_t free_blocks;      /* in segments */
    uint64_t unmapped_blocks;  /* in segments */
    uint64_t indexed_blocks;   /* in free indexes */
    uint64_t indexed_unmapped; /* in unmapped trees */
    uint64_t memory_bytes[2];  /* of blocks that have memory, by hr__size_kind */
    uint64_t plain_segments[2];
    uint64_t expandable_segments;
} hr__census;

/* Everything that the top comment lists. HR_ERR_WRONG_STATE, and hr_last_error() says what. */
hr_status hr__engine_check_blocks(const hr__engine *engine, hr__census *census);

/* Is a counter's current value, small and large, what was counted? */
hr_status hr__engine_check_counter(const hr__counter *counter, const uint64_t expected[2],
                                   const char *name);

#endif /* HR_ENGINE_INSPECT_H */
