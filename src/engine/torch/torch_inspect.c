/* torch_inspect.c - walking and checking everything the engine knows.
 *
 * hr__torch_check() is the first test of this engine: it walks every segment, block and index and
 * compares them with each other and with the counters. What must always be true is in block.h
 * (tiling), free_index.h (bins) and here:
 *   - a FREE block is in its lane's free index, an UNMAPPED one in its unmapped tree, no other is
 *   - a page of an expandable segment is mapped, with a handle, where blocks are not UNMAPPED
 *   - held_bytes is the sum of what is mapped, and so is the counter of reserved bytes
 *   - inactive_split counts the FREE blocks of plain segments that are not alone in them
 *   - no idle lane, private pool or scope is out of reach of the lists */
#include "engine/torch/torch_engine.h"

#include <inttypes.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "engine/torch/torch_rounding.h"

static hr__segment *segment_of_node(hr__tree_node *node)
{
    return (hr__segment *)(void *)node;
}

/* ---- finding and walking --------------------------------------------------------------------- */

hr__block *hr__torch_find(hr__engine *base, hr_device_ptr address)
{
    hr__tree_node *node = hr__torch_of(base)->segments;
    hr__segment *found = NULL; /* the last segment that begins at or before the address */
    while (node != NULL) {
        hr__segment *segment = segment_of_node(node);
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
    for (; block != NULL && block->state != HR__BLOCK_UNMAPPED; block = block->next) {
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
        if (block->state == HR__BLOCK_UNMAPPED)
            block = block->next;
        else if (!walk_range(walker, block, &block))
            return false;
    }
    return true;
}

static bool walk_segments(const hr_walker *walker, hr__tree_node *node)
{
    return node == NULL ||
           (walk_segments(walker, node->left) && walk_segment(walker, segment_of_node(node)) &&
            walk_segments(walker, node->right));
}

void hr__torch_walk(hr__engine *base, const hr_walker *walker)
{
    walk_segments(walker, hr__torch_of(base)->segments);
}

/* ---- sums over the shelves ------------------------------------------------------------------- */

/* The default pool's small and large shelf, then those of the private pools. */
static void each_shelf(const hr__torch_engine *engine,
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

uint64_t hr__torch_largest_free(const hr__engine *base, const hr_stream *only_stream)
{
    largest result = {only_stream, 0};
    each_shelf(hr__torch_of_const(base), find_largest, &result);
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

uint64_t hr__torch_private_idle(const hr__engine *base)
{
    uint64_t bytes = 0;
    each_shelf(hr__torch_of_const(base), add_private_idle, &bytes);
    return bytes;
}

/* ---- checking -------------------------------------------------------------------------------- */

typedef struct census {
    const hr__torch_engine *engine;
    uint64_t free_blocks;     /* in segments */
    uint64_t unmapped_blocks; /* in segments */
    uint64_t indexed_blocks;  /* in free indexes */
    uint64_t indexed_unmapped;
    uint64_t mapped_bytes[2]; /* by hr__size_kind */
    uint64_t plain_segments[2];
    uint64_t split_blocks[2]; /* as inactive_split counts them */
    uint64_t split_bytes[2];
    size_t expandable_segments;
} census;

#define CHECK(claim, ...)                                                                          \
    do {                                                                                           \
        if (!(claim))                                                                              \
            return hr__fail(HR_ERR_WRONG_STATE, __VA_ARGS__);                                      \
    } while (0)

static hr_status check_block(census *count, const hr__segment *segment, const hr__block *block,
                             uint64_t expected_address)
{
    const hr__block *next = block->next;
    CHECK(block->segment == segment, "block %#" PRIx64 " names another segment", block->address);
    CHECK(block->address == expected_address,
          "block %#" PRIx64 " should begin at %#" PRIx64 ", where the one before it ends",
          block->address, expected_address);
    CHECK(block->size_bytes > 0 && (block->size_bytes % HR__TORCH_MIN_BLOCK_BYTES == 0 ||
                                    count->engine->rules.roundup == HR__TORCH_ROUNDUP_SINGLE_COUNT),
          "block %#" PRIx64 " has %" PRIu64 " bytes, no multiple of 512", block->address,
          block->size_bytes);
    CHECK(next == NULL || next->previous == block, "the block after %#" PRIx64 " points elsewhere",
          block->address);
    CHECK(next == NULL || block->state != next->state ||
              (block->state != HR__BLOCK_FREE && block->state != HR__BLOCK_UNMAPPED),
          "blocks %#" PRIx64 " and %#" PRIx64 " should have been merged", block->address,
          next != NULL ? next->address : 0);
    CHECK(hr__segment_is_expandable(segment) || block->state != HR__BLOCK_UNMAPPED,
          "block %#" PRIx64 " of a plain segment is unmapped", block->address);
    CHECK(block->tag == 0 || block->state <= HR__BLOCK_PENDING, "free block %#" PRIx64 " has a tag",
          block->address);

    hr__size_kind kind = segment->lane->shelf->kind;
    if (block->state == HR__BLOCK_UNMAPPED)
        count->unmapped_blocks++;
    else
        count->mapped_bytes[kind] += block->size_bytes;
    if (block->state == HR__BLOCK_FREE) {
        count->free_blocks++;
        if (!hr__segment_is_expandable(segment) && hr__block_is_split(block)) {
            count->split_blocks[kind]++;
            count->split_bytes[kind] += block->size_bytes;
        }
    }
    return HR_OK;
}

static hr_status check_pages(const hr__segment *segment, const hr__block *block)
{
    if (!hr__segment_is_expandable(segment))
        return HR_OK;
    bool is_mapped = block->state != HR__BLOCK_UNMAPPED;
    uint64_t offset = block->address - segment->address;
    CHECK(is_mapped ||
              (offset % segment->page_bytes == 0 && block->size_bytes % segment->page_bytes == 0),
          "unmapped block %#" PRIx64 " is no run of pages", block->address);
    if (!is_mapped)
        return HR_OK; /* a page may have stayed mapped when the device failed: see undo_map() */
    for (size_t page = offset / segment->page_bytes;
         page < hr__ceil_div_u64(offset + block->size_bytes, segment->page_bytes); page++)
        CHECK(segment->page_is_mapped[page] && segment->pages[page] != 0,
              "page %zu of segment %#" PRIx64 " is not mapped", page, segment->address);
    return HR_OK;
}

static hr_status check_segment(census *count, const hr__segment *segment)
{
    uint64_t end = segment->address;
    CHECK(segment->first != NULL && segment->first->previous == NULL,
          "segment %#" PRIx64 " does not know its first block", segment->address);
    for (const hr__block *block = segment->first; block != NULL; block = block->next) {
        HR__TRY(check_block(count, segment, block, end));
        HR__TRY(check_pages(segment, block));
        end += block->size_bytes;
    }
    CHECK(end - segment->address == segment->size_bytes,
          "the blocks of segment %#" PRIx64 " add up to %" PRIu64 " bytes, it has %" PRIu64,
          segment->address, end - segment->address, segment->size_bytes);
    if (hr__segment_is_expandable(segment))
        count->expandable_segments++;
    else
        count->plain_segments[segment->lane->shelf->kind]++;
    return HR_OK;
}

static hr_status check_segments(census *count, hr__tree_node *node)
{
    if (node == NULL)
        return HR_OK;
    HR__TRY(check_segments(count, node->left));
    HR__TRY(check_segment(count, segment_of_node(node)));
    return check_segments(count, node->right);
}

static hr_status check_shelf(census *count, const hr__shelf *shelf)
{
    for (const hr__lane *lane = shelf->lanes; lane != NULL; lane = lane->next) {
        const char *wrong = hr__free_index_check(&lane->free);
        CHECK(wrong == NULL, "stream %#" PRIx64 ": %s", lane->stream, wrong);
        CHECK(lane->shelf == shelf && (lane->next == NULL || lane->stream < lane->next->stream),
              "the lanes of a shelf are not in order at stream %#" PRIx64, lane->stream);
        const hr__block *block = hr__free_index_first(&lane->free);
        for (; block != NULL; block = hr__free_index_after(&lane->free, block)) {
            CHECK(hr__block_lane(block) == lane, "block %#" PRIx64 " is in another stream's index",
                  block->address);
            count->indexed_blocks++;
        }
        block = hr__lane_unmapped_above(lane, 0);
        for (; block != NULL; block = hr__lane_unmapped_above(lane, block->address)) {
            CHECK(block->state == HR__BLOCK_UNMAPPED && hr__block_lane(block) == lane,
                  "block %#" PRIx64 " is wrongly listed as unmapped", block->address);
            count->indexed_unmapped++;
        }
    }
    return HR_OK;
}

static hr_status check_shelves(census *count)
{
    const hr__torch_engine *engine = count->engine;
    for (int kind = HR__SMALL; kind <= HR__LARGE; kind++)
        HR__TRY(check_shelf(count, &engine->shelves[kind]));
    for (const hr__private_pool *pool = engine->private_pools; pool != NULL; pool = pool->next)
        for (int kind = HR__SMALL; kind <= HR__LARGE; kind++)
            HR__TRY(check_shelf(count, &pool->shelves[kind]));
    CHECK(count->free_blocks == count->indexed_blocks,
          "%" PRIu64 " free blocks, %" PRIu64 " in the indexes", count->free_blocks,
          count->indexed_blocks);
    CHECK(count->unmapped_blocks == count->indexed_unmapped,
          "%" PRIu64 " unmapped blocks, %" PRIu64 " listed", count->unmapped_blocks,
          count->indexed_unmapped);
    return HR_OK;
}

static hr_status check_counter(const hr__counter *counter, const uint64_t expected[2],
                               const char *name)
{
    for (int kind = HR__SMALL; kind <= HR__LARGE; kind++)
        CHECK(counter->current[kind] == (int64_t)expected[kind],
              "%s says %" PRId64 ", the %s blocks say %" PRIu64, name, counter->current[kind],
              kind == HR__SMALL ? "small" : "large", expected[kind]);
    return HR_OK;
}

hr_status hr__torch_check(hr__engine *base)
{
    hr__torch_engine *engine = hr__torch_of(base);
    const hr__counters *counters = base->owner.counters;
    census count = {.engine = engine};
    HR__TRY(check_segments(&count, engine->segments));
    HR__TRY(check_shelves(&count));
    CHECK(engine->held_bytes == count.mapped_bytes[HR__SMALL] + count.mapped_bytes[HR__LARGE],
          "%" PRIu64 " bytes are held, the segments have %" PRIu64, engine->held_bytes,
          count.mapped_bytes[HR__SMALL] + count.mapped_bytes[HR__LARGE]);
    CHECK(engine->expandable_segments == count.expandable_segments,
          "%zu expandable segments counted, %zu found", engine->expandable_segments,
          count.expandable_segments);
    CHECK(engine->serving == NULL, "a request is left over");
    HR__TRY(check_counter(&counters->reserved_bytes, count.mapped_bytes, "reserved_bytes"));
    HR__TRY(check_counter(&counters->segment, count.plain_segments, "segment"));
    HR__TRY(check_counter(&counters->inactive_split, count.split_blocks, "inactive_split"));
    return check_counter(&counters->inactive_split_bytes, count.split_bytes,
                         "inactive_split_bytes");
}
