/* free_index.h - the free blocks of one lane, by size: the heart of best fit.
 *
 * The order is PyTorch's: size, then tie-break number, then address, ascending. A request takes the
 * first block that is not smaller. A single search tree gives that in a dozen dependent loads and
 * mispredicted branches, five times per allocation and free; at the sizes seen in training that is
 * most of the time an allocator takes. So the sizes are cut into bins, and each bin has a tree:
 *
 *   units of 512 bytes   up to 255, a bin each
 *   above                128 bins from one power of two to the next
 *   from 2^41 bytes on   one last bin for all
 *
 * A bit per bin says which are not empty, and a bit per word of those says which words are not
 * zero, so the next bin in use is found with two count-trailing-zeros. Bins rise with size, so the
 * order across bins is the order of sizes, and inside a bin the tree (one or two nodes in
 * practice) keeps it exactly. Nothing is approximate: the answer is that of the one big tree.
 *
 * Invariants, walked by vw__free_index_check():
 *   - a bit is set exactly where the bin's tree is not empty
 *   - every block is in the bin of its size, in state FREE
 *
 * No memory is taken after creation, nothing can fail. Guarded by the pool's lock. */
#ifndef VW_ENGINE_FREE_INDEX_H
#define VW_ENGINE_FREE_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ordered_tree.h"
#include "engine/block.h"

#define VW__FREE_INDEX_UNIT_LOG2 9  /* 512 bytes, the smallest block */
#define VW__FREE_INDEX_STEPS_LOG2 7 /* 128 bins per doubling */
#define VW__FREE_INDEX_LAST_LOG2                                                                   \
    (41 - VW__FREE_INDEX_UNIT_LOG2) /* sizes from 2^41 on share a bin */
#define VW__FREE_INDEX_BINS                                                                        \
    ((VW__FREE_INDEX_LAST_LOG2 - VW__FREE_INDEX_STEPS_LOG2 + 2) << VW__FREE_INDEX_STEPS_LOG2)
#define VW__FREE_INDEX_WORDS (VW__FREE_INDEX_BINS / 64)

typedef struct vw__free_index {
    uint64_t words_in_use; /* bit w: bins_in_use[w] is not zero */
    uint64_t bins_in_use[VW__FREE_INDEX_WORDS];
    vw__tree_node *bins[VW__FREE_INDEX_BINS];
} vw__free_index;

_Static_assert(VW__FREE_INDEX_WORDS <= 64, "one word has a bit for each");

static inline vw__block *vw__block_of_node(vw__tree_node *node)
{
    return (vw__block *)(void *)node; /* `node` is the first field */
}

VW__TREE_INLINE bool vw__block_size_before(const vw__tree_node *left, const vw__tree_node *right)
{
    const vw__block *a = (const vw__block *)(const void *)left;
    const vw__block *b = (const vw__block *)(const void *)right;
    if (a->size_bytes != b->size_bytes)
        return a->size_bytes < b->size_bytes;
    if (a->tie_break != b->tie_break)
        return a->tie_break < b->tie_break;
    return a->address < b->address;
}

VW__TREE_INLINE bool vw__block_address_before(const vw__tree_node *left, const vw__tree_node *right)
{
    return ((const vw__block *)(const void *)left)->address <
           ((const vw__block *)(const void *)right)->address;
}

VW__TREE_INLINE unsigned vw__free_index_bin(uint64_t size_bytes)
{
    uint64_t units = size_bytes >> VW__FREE_INDEX_UNIT_LOG2;
    /* floor(log2), but at least STEPS_LOG2: small sizes then have a bin each without a branch. */
    unsigned log2 =
        63u ^ (unsigned)__builtin_clzll(units | (UINT64_C(1) << VW__FREE_INDEX_STEPS_LOG2));
    if (__builtin_expect(log2 >= VW__FREE_INDEX_LAST_LOG2, 0))
        return VW__FREE_INDEX_BINS - (1u << VW__FREE_INDEX_STEPS_LOG2);
    /* The leading one of units selects the run of bins, the bits after it the bin in the run. */
    unsigned shift = log2 - VW__FREE_INDEX_STEPS_LOG2;
    return (shift << VW__FREE_INDEX_STEPS_LOG2) + (unsigned)(units >> shift);
}

VW__TREE_INLINE void vw__free_index_insert_into(vw__free_index *index, vw__block *block,
                                                unsigned bin)
{
    block->bin = (uint16_t)bin;
    vw__tree_insert(&index->bins[bin], &block->node, vw__block_size_before);
    index->bins_in_use[bin >> 6] |= UINT64_C(1) << (bin & 63);
    index->words_in_use |= UINT64_C(1) << (bin >> 6);
}

VW__TREE_INLINE void vw__free_index_insert(vw__free_index *index, vw__block *block)
{
    vw__free_index_insert_into(index, block, vw__free_index_bin(block->size_bytes));
}

VW__TREE_INLINE void vw__free_index_remove(vw__free_index *index, vw__block *block)
{
    unsigned bin = block->bin;
    vw__tree_remove(&index->bins[bin], &block->node);
    if (index->bins[bin] == NULL) {
        uint64_t rest = index->bins_in_use[bin >> 6] & ~(UINT64_C(1) << (bin & 63));
        index->bins_in_use[bin >> 6] = rest;
        if (rest == 0)
            index->words_in_use &= ~(UINT64_C(1) << (bin >> 6));
    }
}

/* True if the block is alone in its bin: then a change of its size within the bin changes no order.
 */
VW__TREE_INLINE bool vw__free_index_is_alone(const vw__free_index *index, const vw__block *block)
{
    return index->bins[block->bin] == &block->node && block->node.left == NULL &&
           block->node.right == NULL;
}

/* `block` loses `bytes` at its low end and stays in the index. Usually it stays in its bin, alone.
 */
VW__TREE_INLINE void vw__free_index_shrink(vw__free_index *index, vw__block *block, uint64_t bytes)
{
    unsigned bin = vw__free_index_bin(block->size_bytes - bytes);
    if (bin == block->bin && vw__free_index_is_alone(index, block)) {
        block->address += bytes;
        block->size_bytes -= bytes;
        return;
    }
    vw__free_index_remove(index, block);
    block->address += bytes;
    block->size_bytes -= bytes;
    vw__free_index_insert_into(index, block, bin);
}

/* `block` comes into the index in place of `gone`, whose bytes it has taken over. */
VW__TREE_INLINE void vw__free_index_replace(vw__free_index *index, vw__block *gone,
                                            vw__block *block)
{
    unsigned bin = vw__free_index_bin(block->size_bytes);
    if (bin == gone->bin && vw__free_index_is_alone(index, gone)) {
        block->bin = (uint16_t)bin;
        block->node = (vw__tree_node){NULL, NULL, NULL};
        index->bins[bin] = &block->node;
        return;
    }
    vw__free_index_remove(index, gone);
    vw__free_index_insert_into(index, block, bin);
}

/* The first bin in use from `bin` on; VW__FREE_INDEX_BINS if there is none. */
VW__TREE_INLINE unsigned vw__free_index_bin_from(const vw__free_index *index, unsigned bin)
{
    if (bin >= VW__FREE_INDEX_BINS)
        return VW__FREE_INDEX_BINS;
    unsigned word = bin >> 6;
    uint64_t bits = index->bins_in_use[word] & (~UINT64_C(0) << (bin & 63));
    if (bits == 0) {
        uint64_t words = word == 63 ? 0 : index->words_in_use & (~UINT64_C(0) << (word + 1));
        if (words == 0)
            return VW__FREE_INDEX_BINS;
        word = (unsigned)__builtin_ctzll(words);
        bits = index->bins_in_use[word];
    }
    return (word << 6) + (unsigned)__builtin_ctzll(bits);
}

VW__TREE_INLINE vw__block *vw__free_index_first_in_bins(const vw__free_index *index, unsigned bin)
{
    bin = vw__free_index_bin_from(index, bin);
    return bin == VW__FREE_INDEX_BINS ? NULL : vw__block_of_node(vw__tree_first(index->bins[bin]));
}

/* Best fit: the first block of at least `size_bytes`, or NULL. */
VW__TREE_INLINE vw__block *vw__free_index_best_fit(const vw__free_index *index, uint64_t size_bytes)
{
    unsigned wanted = vw__free_index_bin(size_bytes);
    unsigned bin = vw__free_index_bin_from(index, wanted);
    if (bin == wanted) { /* it may hold blocks on both sides of the request */
        vw__block *best = NULL;
        vw__tree_node *node = index->bins[bin];
        while (node != NULL) {
            vw__block *block = vw__block_of_node(node);
            if (block->size_bytes >= size_bytes) {
                best = block;
                node = node->left;
            } else {
                node = node->right;
            }
        }
        if (best != NULL)
            return best;
        bin = vw__free_index_bin_from(index, wanted + 1);
    }
    return bin == VW__FREE_INDEX_BINS ? NULL : vw__block_of_node(vw__tree_first(index->bins[bin]));
}

/* Walking up and down in order. NULL at the ends. */
vw__block *vw__free_index_first(const vw__free_index *index);
vw__block *vw__free_index_last(const vw__free_index *index);
vw__block *vw__free_index_after(const vw__free_index *index, const vw__block *block);
vw__block *vw__free_index_before(const vw__free_index *index, const vw__block *block);

/* The last block smaller than `size_bytes`, or NULL. */
vw__block *vw__free_index_last_below(const vw__free_index *index, uint64_t size_bytes);

/* NULL if all is well, else what is not (a static string). */
const char *vw__free_index_check(const vw__free_index *index);

#endif /* VW_ENGINE_FREE_INDEX_H */
