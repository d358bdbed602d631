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
 * a reservation; its unmapped parts are blocks too, in state HR__BLOCK_UNMAPPED.
 *
 * No two neighbours are both FREE, or both UNMAPPED: they would have been merged.
 *
 * Which *record* survives a split or a merge is part of the rules: PyTorch's snapshots show what a
 * record remembers (the size last requested, the stack that made the segment) long after the block
 * was freed, so we keep its choice: a split makes a new record for the low part, and the old one
 * becomes the high part; a merge keeps the record that asked for it.
 *
 * Records are 128 bytes on cache lines of their own: the first line is all that a neighbour's merge
 * or a search touches. They come from chunks that are never given back before the engine ends. */
#ifndef HR_ENGINE_BLOCK_H
#define HR_ENGINE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/device.h"   /* hr_device_ptr, hr_handle */
#include "base/ordered_tree.h" /* hr__tree_node */

/* In this order: hr__block_has_memory() and others compare. */
typedef enum hr__block_state {
    HR__BLOCK_LIVE,     /* handed out */
    HR__BLOCK_PENDING,  /* given back, but another stream may still use it */
    HR__BLOCK_FREE,     /* mapped, in its lane's free index */
    HR__BLOCK_UNMAPPED, /* addresses only, in its lane's unmapped tree */
    HR__BLOCK_GHOST,  /* paged engine: mapped still, but its memory is elsewhere; with the unmapped
                       */
    HR__BLOCK_SHADOW, /* paged engine: mapped, but the bytes are used through another address */
} hr__block_state;

/* What a block has from its segment, for good; kept in the block to save a look at the segment. */
typedef enum hr__block_nature {
    HR__NATURE_LARGE = 1,      /* of a large shelf: the bit is its hr__size_kind */
    HR__NATURE_EXPANDABLE = 2, /* of an expandable segment */
} hr__block_nature;

typedef struct hr__block hr__block;
typedef struct hr__segment hr__segment;
struct hr__lane;
struct hr__stream_use;

struct hr__block {
    hr__tree_node node; /* in the free index or the unmapped tree; a spare record's list */
    uint64_t address;
    uint64_t size_bytes;
    hr__block *previous; /* neighbours in the segment */
    hr__block *next;
    uint32_t tie_break; /* between equal sizes, before the address; see torch_versions.h */
    uint16_t bin;       /* in the free index, while FREE */
    uint8_t state;      /* hr__block_state */
    uint8_t nature;     /* hr__block_nature, as its segment's */

    /* The second cache line. */
    hr__segment *segment;
    uint64_t requested_bytes;    /* what the last caller asked for; 0 for a fresh record */
    uint64_t tag;                /* the caller's, while LIVE or PENDING; 0 otherwise */
    uint64_t segment_tag;        /* of the request that made the segment; follows the record */
    int64_t age_base;            /* the shelf's clock when the block entered the free index; paged
                                    engine: the request that made it, while LIVE or PENDING */
    struct hr__stream_use *uses; /* streams named by record_stream; the pool's */
    uint32_t pending_events;     /* of those, not yet complete; the pool's */
    uint32_t advice;             /* paged engine: hr_advice, while LIVE or PENDING; 0 otherwise */
} __attribute__((aligned(64)));

_Static_assert(offsetof(hr__block, segment) == 64, "the first cache line is full");
_Static_assert(sizeof(hr__block) == 128, "two cache lines a block");

struct hr__segment {
    hr__tree_node node; /* in the engine's segments, by address */
    uint64_t address;
    uint64_t size_bytes;
    struct hr__lane *lane;
    hr__block *first;
    uint32_t tie_break;  /* for the blocks made in it, where the version counts segments */
    uint8_t nature;      /* hr__block_nature, for the blocks made in it */
    uint64_t page_bytes; /* expandable only: the size of each handle */
    size_t page_count;
    hr_handle *pages;     /* page_count handles; 0 where there is none */
    bool *page_is_mapped; /* page_count */
    void *detail;         /* paged engine only: its own */
};

/* The records that are not in use. */
typedef struct hr__block_source {
    hr__block *spare; /* linked through node.left */
    size_t spare_count;
    struct hr__block_chunk *chunks;
} hr__block_source;

/* How many records a chunk holds. */
#define HR__BLOCK_CHUNK_RECORDS 126

void hr__block_source_init(hr__block_source *source);
void hr__block_source_deinit(hr__block_source *source);

/* Two steps, so that memory can be taken without a lock held: hr__block_chunk_new() may be called
 * by anyone (NULL: out of host memory), hr__block_source_add() hands the chunk over. */
struct hr__block_chunk *hr__block_chunk_new(void);
void hr__block_source_add(hr__block_source *source, struct hr__block_chunk *chunk);

/* Both steps at once, until `count` records are spare. False: out of host memory. */
bool hr__block_source_reserve(hr__block_source *source, size_t count);

/* Takes a spare record; there must be one. Its remembered fields are cleared. */
static inline hr__block *hr__block_take(hr__block_source *source)
{
    hr__block *block = (hr__block *)source->spare;
    source->spare = (hr__block *)block->node.left;
    source->spare_count--;
    block->requested_bytes = 0;
    block->tag = 0;
    block->segment_tag = 0;
    block->uses = NULL;
    block->pending_events = 0;
    block->advice = 0;
    return block;
}

static inline void hr__block_give_back(hr__block_source *source, hr__block *block)
{
    block->node.left = (hr__tree_node *)source->spare;
    source->spare = block;
    source->spare_count++;
}

/* A record for addresses of `segment`, linked to no neighbour. There must be a spare one. */
static inline hr__block *hr__block_make(hr__block_source *source, hr__segment *segment,
                                        uint64_t address, uint64_t size_bytes, uint32_t tie_break)
{
    hr__block *block = hr__block_take(source);
    block->address = address;
    block->size_bytes = size_bytes;
    block->previous = block->next = NULL;
    block->segment = segment;
    block->tie_break = tie_break;
    block->nature = segment->nature;
    return block;
}

static inline bool hr__block_is_expandable(const hr__block *block)
{
    return (block->nature & HR__NATURE_EXPANDABLE) != 0;
}

/* Are the bytes at its address its own? Else they are none, or belong to another block. */
static inline bool hr__block_has_memory(const hr__block *block)
{
    return block->state < HR__BLOCK_UNMAPPED;
}

static inline bool hr__segment_is_expandable(const hr__segment *segment)
{
    return (segment->nature & HR__NATURE_EXPANDABLE) != 0;
}

/* Alone in its segment, or one of several? */
static inline bool hr__block_is_split(const hr__block *block)
{
    return block->previous != NULL || block->next != NULL;
}

static inline void hr__block_link_before(hr__block *block, hr__block *next)
{
    block->previous = next->previous;
    block->next = next;
    if (next->previous != NULL)
        next->previous->next = block;
    else
        block->segment->first = block;
    next->previous = block;
}

static inline void hr__block_link_after(hr__block *block, hr__block *previous)
{
    block->previous = previous;
    block->next = previous->next;
    if (previous->next != NULL)
        previous->next->previous = block;
    previous->next = block;
}

/* `block` takes over its neighbour's bytes. The neighbour's record is unlinked and otherwise
 * unchanged: its owner takes it out of its index and gives it back. */
static inline void hr__block_absorb_previous(hr__block *block)
{
    hr__block *previous = block->previous;
    block->address = previous->address;
    block->size_bytes += previous->size_bytes;
    block->segment_tag = previous->segment_tag;
    block->previous = previous->previous;
    if (block->previous != NULL)
        block->previous->next = block;
    else
        block->segment->first = block;
}

static inline void hr__block_absorb_next(hr__block *block)
{
    hr__block *next = block->next;
    block->size_bytes += next->size_bytes;
    block->next = next->next;
    if (block->next != NULL)
        block->next->previous = block;
}

#endif /* HR_ENGINE_BLOCK_H */
