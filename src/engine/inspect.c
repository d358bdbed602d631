/* inspect.c - finding, walking and checking the blocks of any engine. */
#include "engine/inspect.h"

#include <inttypes.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "engine/private_pools.h"
#include "engine/engine_base.h"

/* ---- finding and walking --------------------------------------------------------------------- */

vw__block *vw__engine_find(vw__engine *engine, vw_device_ptr address)
{
    vw__tree_node *node = engine->segments;
    vw__segment *found = NULL; /* the last segment that begins at or before the address */
    while (node != NULL) {
        vw__segment *segment = vw__segment_of_node(node);
        if (segment->address <= address) {
            found = segment;
            node = node->right;
        } else {
            node = node->left;
        }
    }
    if (found == NULL || address - found->address >= found->size_bytes)
        return NULL;
    vw__block *block = found->first;
    while (address - block->address >= block->size_bytes)
        block = block->next;
    return block;
}

vw_status vw__engine_find_free_at(vw__engine *engine, const vw__lane *lane, vw_device_ptr address,
                                  uint64_t size_bytes, vw__block **out)
{
    vw__block *block = vw__engine_find(engine, address);
    if (block == NULL || block->state != VW__BLOCK_FREE || vw__block_lane(block) != lane ||
        block->address + block->size_bytes - address < size_bytes)
        return vw__fail(VW_ERR_OUT_OF_MEMORY,
                        "Could not allocate CUDA storage at exact address %#" PRIx64, address);
    *out = block;
    return VW_OK;
}

static vw_block_state public_state(const vw__block *block)
{
    switch ((vw__block_state)block->state) {
    case VW__BLOCK_LIVE:
        return VW_BLOCK_LIVE;
    case VW__BLOCK_PENDING:
        return VW_BLOCK_PENDING_FREE;
    case VW__BLOCK_FREE:
    case VW__BLOCK_UNMAPPED:
    case VW__BLOCK_GHOST:
    case VW__BLOCK_SHADOW:
        break;
    }
    return VW_BLOCK_FREE;
}

/* The mapped range that begins at `block`; stores the first block after it. */
static vw_segment_info describe_range(const vw__block *block, const vw__block **end)
{
    const vw__segment *segment = block->segment;
    vw_segment_info info = {
        .address = block->address,
        .stream = segment->lane->stream,
        .private_id = segment->lane->shelf->private_id,
        .tag = block->segment_tag,
        .is_large = segment->lane->shelf->kind == VW__ENGINE_LARGE,
        .is_expandable = vw__segment_is_expandable(segment) && !vw__segment_is_whole(segment),
        .number = segment->number,
    };
    for (; block != NULL && vw__block_has_memory(block); block = block->next) {
        info.total_bytes += block->size_bytes;
        info.block_count++;
        if (block->state == VW__BLOCK_LIVE)
            info.allocated_bytes += block->size_bytes;
        if (block->state != VW__BLOCK_FREE) {
            info.active_bytes += block->size_bytes;
            info.requested_bytes += block->requested_bytes;
        }
    }
    *end = block;
    return info;
}

static bool walk_range(const vw_walker *walker, const vw__block *block, const vw__block **end)
{
    const vw_segment_info segment = describe_range(block, end);
    if (walker->segment != NULL && !walker->segment(walker->context, &segment))
        return false;
    if (walker->block == NULL)
        return true;
    for (; block != *end; block = block->next) {
        const vw_block_info info = {
            .address = block->address,
            .size_bytes = block->size_bytes,
            .requested_bytes = block->requested_bytes,
            .tag = block->tag,
            .state = public_state(block),
        };
        if (!walker->block(walker->context, &segment, &info))
            return false;
    }
    return true;
}

static bool walk_segment(const vw_walker *walker, const vw__segment *segment)
{
    const vw__block *block = segment->first;
    while (block != NULL) {
        if (!vw__block_has_memory(block))
            block = block->next;
        else if (!walk_range(walker, block, &block))
            return false;
    }
    return true;
}

static bool walk_segments(const vw_walker *walker, vw__tree_node *node)
{
    return node == NULL ||
           (walk_segments(walker, node->left) && walk_segment(walker, vw__segment_of_node(node)) &&
            walk_segments(walker, node->right));
}

void vw__engine_walk(vw__engine *engine, const vw_walker *walker)
{
    walk_segments(walker, engine->segments);
}

/* ---- sums over the shelves ------------------------------------------------------------------- */

/* The default pool's small and large shelf, then those of the private pools. */
static void each_shelf(const vw__engine *engine,
                       void (*visit)(void *context, const vw__shelf *shelf), void *context)
{
    for (int kind = VW__ENGINE_SMALL; kind <= VW__ENGINE_LARGE; kind++)
        visit(context, &engine->shelves[kind]);
    for (const vw__private_pool *pool = engine->private_pools; pool != NULL; pool = pool->next)
        for (int kind = VW__ENGINE_SMALL; kind <= VW__ENGINE_LARGE; kind++)
            visit(context, &pool->shelves[kind]);
}

typedef struct largest {
    const vw_stream *only_stream;
    uint64_t bytes;
} largest;

static void find_largest(void *context, const vw__shelf *shelf)
{
    largest *result = context;
    for (const vw__lane *lane = shelf->lanes; lane != NULL; lane = lane->next) {
        const vw__block *block = vw__free_index_last(&lane->free);
        if (block != NULL && (result->only_stream == NULL || *result->only_stream == lane->stream))
            result->bytes = vw__max_u64(result->bytes, block->size_bytes);
    }
}

uint64_t vw__engine_largest_free(const vw__engine *engine, const vw_stream *only_stream)
{
    largest result = {only_stream, 0};
    each_shelf(engine, find_largest, &result);
    return result.bytes;
}

static void add_private_idle(void *context, const vw__shelf *shelf)
{
    if (shelf->private_pool == NULL)
        return;
    for (const vw__lane *lane = shelf->lanes; lane != NULL; lane = lane->next)
        for (const vw__block *block = vw__free_index_first(&lane->free); block != NULL;
             block = vw__free_index_after(&lane->free, block))
            *(uint64_t *)context += block->size_bytes;
}

uint64_t vw__engine_private_idle(const vw__engine *engine)
{
    uint64_t bytes = 0;
    each_shelf(engine, add_private_idle, &bytes);
    return bytes;
}

/* ---- checking -------------------------------------------------------------------------------- */

static bool is_merged_with_its_like(vw__block_state state)
{
    return state == VW__BLOCK_FREE || state == VW__BLOCK_UNMAPPED;
}

static vw_status check_block(vw__engine_census *census, const vw__segment *segment,
                             const vw__block *block, uint64_t expected_address)
{
    const vw__block *next = block->next;
    VW__ENGINE_CHECK(block->segment == segment, "block %#" PRIx64 " names another segment",
                     block->address);
    VW__ENGINE_CHECK(block->address == expected_address,
                     "block %#" PRIx64 " should begin at %#" PRIx64
                     ", where the one before it ends",
                     block->address, expected_address);
    VW__ENGINE_CHECK(block->size_bytes > 0, "block %#" PRIx64 " is empty", block->address);
    VW__ENGINE_CHECK(next == NULL || next->previous == block,
                     "the block after %#" PRIx64 " points elsewhere", block->address);
    VW__ENGINE_CHECK(next == NULL || block->state != next->state ||
                         !is_merged_with_its_like((vw__block_state)block->state),
                     "blocks %#" PRIx64 " and %#" PRIx64 " should have been merged", block->address,
                     next != NULL ? next->address : 0);
    VW__ENGINE_CHECK(vw__segment_is_expandable(segment) || vw__block_has_memory(block),
                     "block %#" PRIx64 " of a plain segment is unmapped, or its memory elsewhere",
                     block->address);
    VW__ENGINE_CHECK(block->lane == segment->lane,
                     "block %#" PRIx64 " is in another stream's index than its segment",
                     block->address);
    VW__ENGINE_CHECK(block->tag == 0 || block->state <= VW__BLOCK_PENDING,
                     "free block %#" PRIx64 " has a tag", block->address);

    if (vw__block_has_memory(block))
        census->memory_bytes[segment->lane->shelf->kind] += block->size_bytes;
    census->free_blocks += block->state == VW__BLOCK_FREE;
    census->unmapped_blocks +=
        block->state == VW__BLOCK_UNMAPPED || block->state == VW__BLOCK_GHOST;
    return census->check_block != NULL ? census->check_block(census->context, block) : VW_OK;
}

static vw_status check_segment(vw__engine_census *census, const vw__segment *segment)
{
    uint64_t end = segment->address;
    VW__ENGINE_CHECK(segment->first != NULL && segment->first->previous == NULL,
                     "segment %#" PRIx64 " does not know its first block", segment->address);
    for (const vw__block *block = segment->first; block != NULL; block = block->next) {
        VW__TRY(check_block(census, segment, block, end));
        end += block->size_bytes;
    }
    VW__ENGINE_CHECK(end - segment->address == segment->size_bytes,
                     "the blocks of segment %#" PRIx64 " add up to %" PRIu64
                     " bytes, it has %" PRIu64,
                     segment->address, end - segment->address, segment->size_bytes);
    if (vw__segment_is_expandable(segment))
        census->expandable_segments++;
    else
        census->plain_segments[segment->lane->shelf->kind]++;
    return VW_OK;
}

static vw_status check_segments(vw__engine_census *census, vw__tree_node *node)
{
    if (node == NULL)
        return VW_OK;
    VW__TRY(check_segments(census, node->left));
    VW__TRY(check_segment(census, vw__segment_of_node(node)));
    return check_segments(census, node->right);
}

static vw_status check_shelf(vw__engine_census *census, const vw__shelf *shelf)
{
    for (const vw__lane *lane = shelf->lanes; lane != NULL; lane = lane->next) {
        const char *wrong = vw__free_index_check(&lane->free);
        VW__ENGINE_CHECK(wrong == NULL, "stream %#" PRIx64 ": %s", lane->stream, wrong);
        VW__ENGINE_CHECK(lane->shelf == shelf &&
                             (lane->next == NULL || lane->stream < lane->next->stream),
                         "the lanes of a shelf are not in order at stream %#" PRIx64, lane->stream);
        const vw__block *block = vw__free_index_first(&lane->free);
        for (; block != NULL; block = vw__free_index_after(&lane->free, block)) {
            VW__ENGINE_CHECK(vw__block_lane(block) == lane,
                             "block %#" PRIx64 " is in another stream's index", block->address);
            census->indexed_blocks++;
        }
        block = vw__lane_unmapped_above(lane, 0);
        for (; block != NULL; block = vw__lane_unmapped_above(lane, block->address)) {
            VW__ENGINE_CHECK(
                (block->state == VW__BLOCK_UNMAPPED || block->state == VW__BLOCK_GHOST) &&
                    vw__block_lane(block) == lane,
                "block %#" PRIx64 " is wrongly listed as unmapped", block->address);
            census->indexed_unmapped++;
        }
    }
    return VW_OK;
}

static vw_status check_shelves(const vw__engine *engine, vw__engine_census *census)
{
    for (int kind = VW__ENGINE_SMALL; kind <= VW__ENGINE_LARGE; kind++)
        VW__TRY(check_shelf(census, &engine->shelves[kind]));
    for (const vw__private_pool *pool = engine->private_pools; pool != NULL; pool = pool->next)
        for (int kind = VW__ENGINE_SMALL; kind <= VW__ENGINE_LARGE; kind++)
            VW__TRY(check_shelf(census, &pool->shelves[kind]));
    VW__ENGINE_CHECK(census->free_blocks == census->indexed_blocks,
                     "%" PRIu64 " free blocks, %" PRIu64 " in the indexes", census->free_blocks,
                     census->indexed_blocks);
    VW__ENGINE_CHECK(census->unmapped_blocks == census->indexed_unmapped,
                     "%" PRIu64 " unmapped blocks, %" PRIu64 " listed", census->unmapped_blocks,
                     census->indexed_unmapped);
    return VW_OK;
}

static vw_status check_records(const vw__block_source *records)
{
    size_t count = 0;
    for (const vw__block *block = records->spare; block != NULL && count <= records->spare_count;
         block = vw__block_of_node(block->node.left))
        count++;
    VW__ENGINE_CHECK(count == records->spare_count, "%zu block records are spare, not %zu", count,
                     records->spare_count);
    return VW_OK;
}

vw_status vw__engine_check_blocks(const vw__engine *engine, vw__engine_census *census)
{
    VW__TRY(check_records(&engine->records));
    VW__TRY(check_segments(census, engine->segments));
    VW__TRY(check_shelves(engine, census));
    VW__ENGINE_CHECK(engine->serving == NULL, "a request is left over");
    return VW_OK;
}

vw_status vw__engine_check_counter(const vw__counter *counter, const uint64_t expected[2],
                                   const char *name)
{
    for (int kind = VW__ENGINE_SMALL; kind <= VW__ENGINE_LARGE; kind++)
        VW__ENGINE_CHECK(counter->current[kind] == (int64_t)expected[kind],
                         "%s says %" PRId64 ", the %s blocks say %" PRIu64, name,
                         counter->current[kind], kind == VW__ENGINE_SMALL ? "small" : "large",
                         expected[kind]);
    return VW_OK;
}
