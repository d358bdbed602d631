/* inspect.c - finding, walking and checking the blocks of any engine. */
#include "engine/inspect.h"

#include <inttypes.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "engine/private_pools.h"
#include "engine/segments.h"

/* ---- finding and walking --------------------------------------------------------------------- */

hr__block *hr__engine_find(hr__engine *engine, hr_device_ptr address)
{
    hr__tree_node *node = engine->segments;
    hr__segment *found = NULL; /* the last segment that begins at or before the address */
    while (node != NULL) {
        hr__segment *segment = hr__segment_of_node(node);
        if (segment->address <= address) {
            found = segment;
            node = node->right;
        } else {
            node = node->left;
        }
    }
    if (found == NULL || address - found->address >= found->size_bytes)
        return NULL;
    hr__block *block = found->first;
    while (address - block->address >= block->size_bytes)
        block = block->next;
    return block;
}

static hr_block_state public_state(const hr__block *block)
{
    switch ((hr__block_state)block->state) {
    case HR__BLOCK_LIVE:
        return HR_BLOCK_LIVE;
    case HR__BLOCK_PENDING:
        return HR_BLOCK_PENDING_FREE;
    case HR__BLOCK_FREE:
    case HR__BLOCK_UNMAPPED:
    case HR__BLOCK_GHOST:
    case HR__BLOCK_SHADOW:
        break;
    }
    return HR_BLOCK_FREE;
}

/* The mapped range that begins at `block`; stores the first block after it. */
static hr_segment_info describe_range(const hr__block *block, const hr__block **end)
{
    const hr__segment *segment = block->segment;
    hr_segment_info info = {
        .address = block->address,
        .stream = segment->lane->stream,
        .private_id = segment->lane->shelf->private_id,
        .tag = block->segment_tag,
        .is_large = segment->lane->shelf->kind == HR__LARGE,
        .is_expandable = hr__segment_is_expandable(segment),
    };
    for (; block != NULL && hr__block_has_memory(block); block = block->next) {
        info.total_bytes += block->size_bytes;
        info.block_count++;
        if (block->state == HR__BLOCK_LIVE)
            info.allocated_bytes += block->size_bytes;
        if (block->state != HR__BLOCK_FREE) {
            info.active_bytes += block->size_bytes;
            info.requested_bytes += block->requested_bytes;
        }
    }
    *end = block;
    return info;
}

static bool walk_range(const hr_walker *walker, const hr__block *block, const hr__block **end)
{
    const hr_segment_info segment = describe_range(block, end);
    if (walker->segment != NULL && !walker->segment(walker->context, &segment))
        return false;
    if (walker->block == NULL)
        return true;
    for (; block != *end; block = block->next) {
        const hr_block_info info = {
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

static bool walk_segment(const hr_walker *walker, const hr__segment *segment)
{
    const hr__block *block = segment->first;
    while (block != NULL) {
        if (!hr__block_has_memory(block))
            block = block->next;
        else if (!walk_range(walker, block, &block))
            return false;
    }
    return true;
}

static bool walk_segments(const hr_walker *walker, hr__tree_node *node)
{
    return node == NULL ||
           (walk_segments(walker, node->left) && walk_segment(walker, hr__segment_of_node(node)) &&
            walk_segments(walker, node->right));
}

void hr__engine_walk(hr__engine *engine, const hr_walker *walker)
{
    walk_segments(walker, engine->segments);
}

/* ---- sums over the shelves ------------------------------------------------------------------- */

/* The default pool's small and large shelf, then those of the private pools. */
static void each_shelf(const hr__engine *engine,
                       void (*visit)(void *context, const hr__shelf *shelf), void *context)
{
    for (int kind = HR__SMALL; kind <= HR__LARGE; kind++)
        visit(context, &engine->shelves[kind]);
    for (const hr__private_pool *pool = engine->private_pools; pool != NULL; pool = pool->next)
        for (int kind = HR__SMALL; kind <= HR__LARGE; kind++)
            visit(context, &pool->shelves[kind]);
}

typedef struct largest {
    const hr_stream *only_stream;
    uint64_t bytes;
} largest;

static void find_largest(void *context, const hr__shelf *shelf)
{
    largest *result = context;
    for (const hr__lane *lane = shelf->lanes; lane != NULL; lane = lane->next) {
        const hr__block *block = hr__free_index_last(&lane->free);
        if (block != NULL && (result->only_stream == NULL || *result->only_stream == lane->stream))
            result->bytes = hr__max_u64(result->bytes, block->size_bytes);
    }
}

uint64_t hr__engine_largest_free(const hr__engine *engine, const hr_stream *only_stream)
{
    largest result = {only_stream, 0};
    each_shelf(engine, find_largest, &result);
    return result.bytes;
}

static void add_private_idle(void *context, const hr__shelf *shelf)
{
    if (shelf->private_pool == NULL)
        return;
    for (const hr__lane *lane = shelf->lanes; lane != NULL; lane = lane->next)
        for (const hr__block *block = hr__free_index_first(&lane->free); block != NULL;
             block = hr__free_index_after(&lane->free, block))
            *(uint64_t *)context += block->size_bytes;
}

uint64_t hr__engine_private_idle(const hr__engine *engine)
{
    uint64_t bytes = 0;
    each_shelf(engine, add_private_idle, &bytes);
    return bytes;
}

/* ---- checking -------------------------------------------------------------------------------- */

static bool is_merged_with_its_like(hr__block_state state)
{
    return state == HR__BLOCK_FREE || state == HR__BLOCK_UNMAPPED;
}

static hr_status check_block(hr__census *census, const hr__segment *segment, const hr__block *block,
                             uint64_t expected_address)
{
    const hr__block *next = block->next;
    HR__CHECK(block->segment == segment, "block %#" PRIx64 " names another segment",
              block->address);
    HR__CHECK(block->address == expected_address,
              "block %#" PRIx64 " should begin at %#" PRIx64 ", where the one before it ends",
              block->address, expected_address);
    HR__CHECK(block->size_bytes > 0, "block %#" PRIx64 " is empty", block->address);
    HR__CHECK(next == NULL || next->previous == block,
              "the block after %#" PRIx64 " points elsewhere", block->address);
    HR__CHECK(next == NULL || block->state != next->state ||
                  !is_merged_with_its_like((hr__block_state)block->state),
              "blocks %#" PRIx64 " and %#" PRIx64 " should have been merged", block->address,
              next != NULL ? next->address : 0);
    HR__CHECK(hr__segment_is_expandable(segment) || hr__block_has_memory(block),
              "block %#" PRIx64 " of a plain segment is unmapped, or its memory elsewhere",
              block->address);
    HR__CHECK(block->tag == 0 || block->state <= HR__BLOCK_PENDING,
              "free block %#" PRIx64 " has a tag", block->address);

    if (hr__block_has_memory(block))
        census->memory_bytes[segment->lane->shelf->kind] += block->size_bytes;
    census->free_blocks += block->state == HR__BLOCK_FREE;
    census->unmapped_blocks +=
        block->state == HR__BLOCK_UNMAPPED || block->state == HR__BLOCK_GHOST;
    return census->check_block != NULL ? census->check_block(census->context, block) : HR_OK;
}

static hr_status check_segment(hr__census *census, const hr__segment *segment)
{
    uint64_t end = segment->address;
    HR__CHECK(segment->first != NULL && segment->first->previous == NULL,
              "segment %#" PRIx64 " does not know its first block", segment->address);
    for (const hr__block *block = segment->first; block != NULL; block = block->next) {
        HR__TRY(check_block(census, segment, block, end));
        end += block->size_bytes;
    }
    HR__CHECK(end - segment->address == segment->size_bytes,
              "the blocks of segment %#" PRIx64 " add up to %" PRIu64 " bytes, it has %" PRIu64,
              segment->address, end - segment->address, segment->size_bytes);
    if (hr__segment_is_expandable(segment))
        census->expandable_segments++;
    else
        census->plain_segments[segment->lane->shelf->kind]++;
    return HR_OK;
}

static hr_status check_segments(hr__census *census, hr__tree_node *node)
{
    if (node == NULL)
        return HR_OK;
    HR__TRY(check_segments(census, node->left));
    HR__TRY(check_segment(census, hr__segment_of_node(node)));
    return check_segments(census, node->right);
}

static hr_status check_shelf(hr__census *census, const hr__shelf *shelf)
{
    for (const hr__lane *lane = shelf->lanes; lane != NULL; lane = lane->next) {
        const char *wrong = hr__free_index_check(&lane->free);
        HR__CHECK(wrong == NULL, "stream %#" PRIx64 ": %s", lane->stream, wrong);
        HR__CHECK(lane->shelf == shelf && (lane->next == NULL || lane->stream < lane->next->stream),
                  "the lanes of a shelf are not in order at stream %#" PRIx64, lane->stream);
        const hr__block *block = hr__free_index_first(&lane->free);
        for (; block != NULL; block = hr__free_index_after(&lane->free, block)) {
            HR__CHECK(hr__block_lane(block) == lane,
                      "block %#" PRIx64 " is in another stream's index", block->address);
            census->indexed_blocks++;
        }
        block = hr__lane_unmapped_above(lane, 0);
        for (; block != NULL; block = hr__lane_unmapped_above(lane, block->address)) {
            HR__CHECK((block->state == HR__BLOCK_UNMAPPED || block->state == HR__BLOCK_GHOST) &&
                          hr__block_lane(block) == lane,
                      "block %#" PRIx64 " is wrongly listed as unmapped", block->address);
            census->indexed_unmapped++;
        }
    }
    return HR_OK;
}

static hr_status check_shelves(const hr__engine *engine, hr__census *census)
{
    for (int kind = HR__SMALL; kind <= HR__LARGE; kind++)
        HR__TRY(check_shelf(census, &engine->shelves[kind]));
    for (const hr__private_pool *pool = engine->private_pools; pool != NULL; pool = pool->next)
        for (int kind = HR__SMALL; kind <= HR__LARGE; kind++)
            HR__TRY(check_shelf(census, &pool->shelves[kind]));
    HR__CHECK(census->free_blocks == census->indexed_blocks,
              "%" PRIu64 " free blocks, %" PRIu64 " in the indexes", census->free_blocks,
              census->indexed_blocks);
    HR__CHECK(census->unmapped_blocks == census->indexed_unmapped,
              "%" PRIu64 " unmapped blocks, %" PRIu64 " listed", census->unmapped_blocks,
              census->indexed_unmapped);
    return HR_OK;
}

static hr_status check_records(const hr__block_source *records)
{
    size_t count = 0;
    for (const hr__block *block = records->spare; block != NULL && count <= records->spare_count;
         block = hr__block_of_node(block->node.left))
        count++;
    HR__CHECK(count == records->spare_count, "%zu block records are spare, not %zu", count,
              records->spare_count);
    return HR_OK;
}

hr_status hr__engine_check_blocks(const hr__engine *engine, hr__census *census)
{
    HR__TRY(check_records(&engine->records));
    HR__TRY(check_segments(census, engine->segments));
    HR__TRY(check_shelves(engine, census));
    HR__CHECK(engine->serving == NULL, "a request is left over");
    return HR_OK;
}

hr_status hr__engine_check_counter(const hr__counter *counter, const uint64_t expected[2],
                                   const char *name)
{
    for (int kind = HR__SMALL; kind <= HR__LARGE; kind++)
        HR__CHECK(counter->current[kind] == (int64_t)expected[kind],
                  "%s says %" PRId64 ", the %s blocks say %" PRIu64, name, counter->current[kind],
                  kind == HR__SMALL ? "small" : "large", expected[kind]);
    return HR_OK;
}
