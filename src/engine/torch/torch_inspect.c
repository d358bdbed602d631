/* torch_inspect.c - checking what is this engine's own.
 *
 * Blocks, segments and indexes are held against each other by engine/inspect.h; here:
 *   - sizes are multiples of 512, where the version's rounding makes them so
 *   - a page of an expandable segment is mapped, with a handle, where blocks are not UNMAPPED
 *   - held_bytes is the sum of what is mapped, and so is the counter of reserved bytes
 *   - inactive_split counts the FREE blocks of plain segments that are not alone in them */
#include "engine/torch/torch_engine.h"

#include <inttypes.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "engine/inspect.h"
#include "engine/torch/torch_rounding.h"

/* The FREE blocks that inactive_split counts, by vw__engine_size_kind. */
typedef struct splits {
    const vw__torch_engine *engine;
    uint64_t blocks[2];
    uint64_t bytes[2];
} splits;

static vw_status check_pages(const vw__block *block)
{
    const vw__segment *segment = block->segment;
    if (!vw__segment_is_expandable(segment))
        return VW_OK;
    const vw__torch_pages *pages = vw__torch_pages_of(segment);
    bool is_mapped = block->state != VW__BLOCK_UNMAPPED;
    uint64_t offset = block->address - segment->address;
    VW__ENGINE_CHECK(is_mapped || (offset % pages->page_bytes == 0 &&
                                   block->size_bytes % pages->page_bytes == 0),
                     "unmapped block %#" PRIx64 " is no run of pages", block->address);
    if (!is_mapped)
        return VW_OK; /* a page may have stayed mapped when the device failed: see undo_map() */
    for (size_t page = offset / pages->page_bytes;
         page < vw__ceil_div_u64(offset + block->size_bytes, pages->page_bytes); page++)
        VW__ENGINE_CHECK(pages->is_mapped[page] && pages->handles[page] != 0,
                         "page %zu of segment %#" PRIx64 " is not mapped", page, segment->address);
    return VW_OK;
}

static vw_status check_block(void *context, const vw__block *block)
{
    splits *count = context;
    VW__ENGINE_CHECK(block->size_bytes % VW__TORCH_MIN_BLOCK_BYTES == 0 ||
                         count->engine->conf.rules.roundup == VW__TORCH_ROUNDUP_SINGLE_COUNT,
                     "block %#" PRIx64 " has %" PRIu64 " bytes, no multiple of 512", block->address,
                     block->size_bytes);
    VW__ENGINE_CHECK(block->state <= VW__BLOCK_UNMAPPED,
                     "block %#" PRIx64 " is in a state that only engine \"vramwise\" knows",
                     block->address);
    if (block->state == VW__BLOCK_FREE && !vw__block_is_expandable(block) &&
        vw__block_is_split(block)) {
        vw__engine_size_kind kind = vw__block_lane(block)->shelf->kind;
        count->blocks[kind]++;
        count->bytes[kind] += block->size_bytes;
    }
    return check_pages(block);
}

vw_status vw__torch_check(vw__engine *base)
{
    vw__torch_engine *engine = vw__torch_of(base);
    const vw__counters *counters = base->owner.counters;
    splits split = {.engine = engine};
    vw__engine_census census = {.check_block = check_block, .context = &split};
    VW__TRY(vw__engine_check_blocks(base, &census));
    uint64_t memory_bytes =
        census.memory_bytes[VW__ENGINE_SMALL] + census.memory_bytes[VW__ENGINE_LARGE];
    VW__ENGINE_CHECK(base->held_bytes == memory_bytes,
                     "%" PRIu64 " bytes are held, the segments have %" PRIu64, base->held_bytes,
                     memory_bytes);
    VW__ENGINE_CHECK(engine->expandable_segments == census.expandable_segments,
                     "%zu expandable segments counted, %" PRIu64 " found",
                     engine->expandable_segments, census.expandable_segments);
    VW__TRY(
        vw__engine_check_counter(&counters->reserved_bytes, census.memory_bytes, "reserved_bytes"));
    VW__TRY(vw__engine_check_counter(&counters->segment, census.plain_segments, "segment"));
    VW__TRY(vw__engine_check_counter(&counters->inactive_split, split.blocks, "inactive_split"));
    return vw__engine_check_counter(&counters->inactive_split_bytes, split.bytes,
                                    "inactive_split_bytes");
}
