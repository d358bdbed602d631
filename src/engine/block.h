/* block.h - blocks, the segments they tile, and where their records come from.
 *
 * A segment is a range of device addresses; its blocks are a doubly linked list in address order
 * that covers it without gap or overlap:
 *
 *   segment->first->address == segment->address
 *   block->address + block->size_bytes == block->next->address
 *   the sizes add up to segment->size_bytes
 *
 * A plain segment is memory the device gave in one piece, wholly mapped. An expandable segment is
 * a reservation; its unmapped parts are blocks too, in state VW__BLOCK_UNMAPPED.
 *
 * No two neighbours are both FREE, or both UNMAPPED: they would have been merged.
 *
 * Which *record* survives a split or a merge is part of the rules: PyTorch's snapshots show what a
 * record remembers (the size last requested, the stack that made the segment) long after the block
 * was freed, so we keep its choice: a split makes a new record for the low part, and the old one
 * becomes the high part; a merge keeps the record that asked for it.
 *
 * Records are 128 bytes: the first cache line is all that a neighbour's merge or a search touches,
 * and they lie at multiples of 128, since processors fetch lines in such pairs. They come from
 * chunks that are never given back before the engine ends. */
#ifndef VW_ENGINE_BLOCK_H
#define VW_ENGINE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/device.h"   /* vw_device_ptr, vw_handle */
#include "base/ordered_tree.h" /* vw__tree_node */

/* In this order: vw__block_has_memory() and others compare. */
typedef enum vw__block_state {
    VW__BLOCK_LIVE,     /* handed out */
    VW__BLOCK_PENDING,  /* given back, but another stream may still use it */
    VW__BLOCK_FREE,     /* mapped, in its lane's free index */
    VW__BLOCK_UNMAPPED, /* addresses only, in its lane's unmapped tree */
    VW__BLOCK_GHOST,  /* paged engine: mapped still, but its memory is elsewhere; with the unmapped
                       */
    VW__BLOCK_SHADOW, /* paged engine: mapped, but the bytes are used through another address */
} vw__block_state;

/* Properties that a block inherits from its segment. Copied to save a look at the segment. */
typedef enum vw__block_nature {
    VW__BLOCK_NATURE_LARGE = 1,      /* of a large shelf: the bit is its vw__engine_size_kind */
    VW__BLOCK_NATURE_EXPANDABLE = 2, /* of an expandable segment */
    VW__BLOCK_NATURE_WHOLE = 4,      /* paged engine: of a segment that is one handle */
} vw__block_nature;

typedef struct vw__block vw__block;
typedef struct vw__segment vw__segment;
struct vw__lane;
struct vw__stream_order_use;

struct vw__block {
    vw__tree_node node; /* in the free index or the unmapped tree; a spare record's list */
    uint64_t address;
    uint64_t size_bytes;
    vw__block *previous; /* neighbours in the segment */
    vw__block *next;
    uint32_t tie_break; /* between equal sizes, before the address; see torch_versions.h */
    uint16_t bin;       /* in the free index, while FREE */
    uint8_t state;      /* vw__block_state */
    uint8_t nature;     /* vw__block_nature, as its segment's */

    /* The second cache line. */
    vw__segment *segment;
    struct vw__lane *lane;    /* its segment's */
    uint64_t requested_bytes; /* what the last caller asked for; 0 for a fresh record */
    uint64_t tag;             /* the caller's, while LIVE or PENDING; 0 otherwise */
    uint64_t segment_tag;     /* of the request that made the segment; follows the record */
    int64_t age_base;         /* the shelf's clock when the block entered the free index; paged
                                 engine: the request that made it, while LIVE or PENDING */
    struct vw__stream_order_use *uses; /* streams named by record_stream; the pool's */
    uint32_t pending_events;           /* of those, not yet complete; the pool's */
    uint32_t advice; /* paged engine: vw_advice, while LIVE or PENDING; 0 otherwise */
} __attribute__((aligned(128)));

_Static_assert(offsetof(vw__block, segment) == 64, "the first cache line is full");
_Static_assert(sizeof(vw__block) == 128, "two cache lines a block");

struct vw__segment {
    vw__tree_node node; /* in the engine's segments, by address */
    uint64_t address;
    uint64_t size_bytes;
    struct vw__lane *lane;
    vw__block *first;
    uint32_t tie_break; /* for the blocks made in it, where the version counts segments */
    uint8_t nature;     /* vw__block_nature, for the blocks made in it */
    uint32_t number;    /* in order of creation, from 0 */
    void *detail;       /* what the engine keeps with it: the memory under its addresses */
};

/* Spare records. */
typedef struct vw__block_source {
    vw__block *spare; /* linked through node.left */
    size_t spare_count;
    struct vw__block_chunk *chunks;
} vw__block_source;

/* How many records a chunk holds. */
#define VW__BLOCK_CHUNK_RECORDS 126

void vw__block_source_init(vw__block_source *source);
void vw__block_source_deinit(vw__block_source *source);

/* Two steps, so that memory can be taken without a lock held: vw__block_chunk_new() may be called
 * by anyone (NULL: out of host memory), vw__block_source_add() hands the chunk over. */
struct vw__block_chunk *vw__block_chunk_new(void);
void vw__block_source_add(vw__block_source *source, struct vw__block_chunk *chunk);

/* Both steps at once, until `count` records are spare. False: out of host memory. */
bool vw__block_source_reserve(vw__block_source *source, size_t count);

/* Takes a spare record; there must be one. Its remembered fields are cleared. */
static inline vw__block *vw__block_take(vw__block_source *source)
{
    vw__block *block = (vw__block *)source->spare;
    source->spare = (vw__block *)block->node.left;
    source->spare_count--;
    block->requested_bytes = 0;
    block->tag = 0;
    block->segment_tag = 0;
    block->uses = NULL;
    block->pending_events = 0;
    block->advice = 0;
    return block;
}

static inline void vw__block_give_back(vw__block_source *source, vw__block *block)
{
    block->node.left = (vw__tree_node *)source->spare;
    source->spare = block;
    source->spare_count++;
}

/* A record for addresses of `other`'s segment, linked to no neighbour. There must be a spare one.
 * The segment is not looked at. */
static inline vw__block *vw__block_make_beside(vw__block_source *source, const vw__block *other,
                                               uint64_t address, uint64_t size_bytes,
                                               uint32_t tie_break)
{
    vw__block *block = vw__block_take(source);
    block->address = address;
    block->size_bytes = size_bytes;
    block->previous = block->next = NULL;
    block->segment = other->segment;
    block->lane = other->lane;
    block->tie_break = tie_break;
    block->nature = other->nature;
    return block;
}

/* The same for addresses of `segment`, whatever blocks it has. */
static inline vw__block *vw__block_make(vw__block_source *source, vw__segment *segment,
                                        uint64_t address, uint64_t size_bytes, uint32_t tie_break)
{
    const vw__block like = {.segment = segment, .lane = segment->lane, .nature = segment->nature};
    return vw__block_make_beside(source, &like, address, size_bytes, tie_break);
}

static inline bool vw__block_is_expandable(const vw__block *block)
{
    return (block->nature & VW__BLOCK_NATURE_EXPANDABLE) != 0;
}

/* True if the bytes at its address are its own: not unmapped, and not another block's. */
static inline bool vw__block_has_memory(const vw__block *block)
{
    return block->state < VW__BLOCK_UNMAPPED;
}

static inline bool vw__segment_is_expandable(const vw__segment *segment)
{
    return (segment->nature & VW__BLOCK_NATURE_EXPANDABLE) != 0;
}

static inline bool vw__segment_is_whole(const vw__segment *segment)
{
    return (segment->nature & VW__BLOCK_NATURE_WHOLE) != 0;
}

/* True if its segment has other blocks. */
static inline bool vw__block_is_split(const vw__block *block)
{
    return block->previous != NULL || block->next != NULL;
}

static inline void vw__block_link_before(vw__block *block, vw__block *next)
{
    block->previous = next->previous;
    block->next = next;
    if (next->previous != NULL)
        next->previous->next = block;
    else
        block->segment->first = block;
    next->previous = block;
}

static inline void vw__block_link_after(vw__block *block, vw__block *previous)
{
    block->previous = previous;
    block->next = previous->next;
    if (previous->next != NULL)
        previous->next->previous = block;
    previous->next = block;
}

/* `block` takes over its neighbour's bytes. The neighbour's record is unlinked and otherwise
 * unchanged: its owner takes it out of its index and gives it back. */
static inline void vw__block_absorb_previous(vw__block *block)
{
    vw__block *previous = block->previous;
    block->address = previous->address;
    block->size_bytes += previous->size_bytes;
    block->segment_tag = previous->segment_tag;
    block->previous = previous->previous;
    if (block->previous != NULL)
        block->previous->next = block;
    else
        block->segment->first = block;
}

static inline void vw__block_absorb_next(vw__block *block)
{
    vw__block *next = block->next;
    block->size_bytes += next->size_bytes;
    block->next = next->next;
    if (block->next != NULL)
        block->next->previous = block;
}

/* Records of a block's neighbours, before and after it; NULL where there is none. */
typedef struct vw__block_pair {
    vw__block *before;
    vw__block *after;
} vw__block_pair;

/* Leaves `block`, which is in no index, with just the given range of its addresses. What it had
 * before and after the range gets records of its own, which are returned: linked, in no index, and
 * with their remembered fields cleared. Two records must be spare. */
static inline vw__block_pair vw__block_cut_out(vw__block_source *source, vw__block *block,
                                               uint64_t address, uint64_t size_bytes)
{
    vw__block_pair rest = {NULL, NULL};
    uint64_t before_bytes = address - block->address;
    uint64_t after_bytes = block->size_bytes - before_bytes - size_bytes;
    if (before_bytes > 0) {
        rest.before = vw__block_make_beside(source, block, block->address, before_bytes, 0);
        vw__block_link_before(rest.before, block);
    }
    if (after_bytes > 0) {
        rest.after = vw__block_make_beside(source, block, address + size_bytes, after_bytes, 0);
        vw__block_link_after(rest.after, block);
    }
    block->address = address;
    block->size_bytes = size_bytes;
    return rest;
}

#endif /* VW_ENGINE_BLOCK_H */
